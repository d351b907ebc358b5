/* The forms of chats, and the templates of folders that are known. Long templates, which also write
 * tools, are known by the size and the FNV-1a hash of their text. */
#include "chat_kinds.h"

#include <string.h>

/* ---- kinds ---- */

static const cti_chat_kind chat_kinds[] = {
    [CT_CHAT_CHATML] = {.open = "<|im_start|>",
                        .behind_role = "\n",
                        .end = "<|im_end|>",
                        .behind_end = "\n",
                        .prompt = "<|im_start|>assistant\n",
                        .assistant = "assistant",
                        .any_role = true},
    [CT_CHAT_LLAMA3] = {.open = "<|start_header_id|>",
                        .behind_role = "<|end_header_id|>\n\n",
                        .end = "<|eot_id|>",
                        .behind_end = "",
                        .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                        .assistant = "assistant",
                        .bos = true,
                        .trims = true,
                        .any_role = true},
    [CT_CHAT_GEMMA] = {.open = "<start_of_turn>",
                       .behind_role = "\n",
                       .end = "<end_of_turn>",
                       .behind_end = "\n",
                       .prompt = "<start_of_turn>model\n",
                       .assistant = "model",
                       .bos = true,
                       .trims = true,
                       .no_system = true,
                       .alternates = true},
    [CT_CHAT_ZEPHYR] = {.open = "<|",
                        .behind_role = "|>\n",
                        .behind_end = "\n",
                        .prompt = "<|assistant|>\n",
                        .assistant = "assistant"},
    [CT_CHAT_PHI3] = {.open = "<|",
                      .behind_role = "|>\n",
                      .end = "<|end|>",
                      .behind_end = "\n",
                      .prompt = "<|assistant|>\n",
                      .assistant = "assistant",
                      .closes = true},
    [CT_CHAT_LLAMA31] = {.open = "<|start_header_id|>",
                         .behind_role = "<|end_header_id|>\n\n",
                         .end = "<|eot_id|>",
                         .behind_end = "",
                         .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                         .assistant = "assistant",
                         .preamble = "Cutting Knowledge Date: December 2023\nToday Date: ",
                         .bos = true,
                         .trims = true},
    [CT_CHAT_GEMMA3] = {.open = "<start_of_turn>",
                        .behind_role = "\n",
                        .end = "<end_of_turn>",
                        .behind_end = "\n",
                        .prompt = "<start_of_turn>model\n",
                        .assistant = "model",
                        .bos = true,
                        .trims = true,
                        .joins = true,
                        .alternates = true},
    [CT_CHAT_QWEN3] = {.open = "<|im_start|>",
                       .behind_role = "\n",
                       .end = "<|im_end|>",
                       .behind_end = "\n",
                       .prompt = "<|im_start|>assistant\n",
                       .assistant = "assistant",
                       .thinks = true},
};

/* A line end in a string of a template may be written as \n. */
static const struct {
    cti_chat_template about;
    const char *text;
} short_templates[] = {
    {{.kind = &chat_kinds[CT_CHAT_CHATML]},
     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {{.kind = &chat_kinds[CT_CHAT_CHATML],
      .system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
     "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
     "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {{.kind = &chat_kinds[CT_CHAT_LLAMA3]},
     "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
     "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
     "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
     "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
    {{.kind = &chat_kinds[CT_CHAT_GEMMA]},
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
     "supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != "
     "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
     "user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}"
     "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
     "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"},
    {{.kind = &chat_kinds[CT_CHAT_ZEPHYR]},
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
     "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
     "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == "
     "'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
     "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
     "{% endfor %}"},
    {{.kind = &chat_kinds[CT_CHAT_PHI3]},
     "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
     "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"},
    /* Phi-3.5 */
    {{.kind = &chat_kinds[CT_CHAT_PHI3], .skips_empty = true},
     "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
     "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
     "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
     "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"},
};

/* Templates without the line end that may be their last byte. */
static const struct {
    cti_chat_template about;
    size_t size;
    uint64_t hash;
} long_templates[] = {
    /* Llama 3.1 and 3.3, and Llama 3.2, in which the date of today is the default */
    {{.kind = &chat_kinds[CT_CHAT_LLAMA31]}, 4613, 0xcc0368e1ffb6b958},
    {{.kind = &chat_kinds[CT_CHAT_LLAMA31]}, 3826, 0x368f4c34b8554414},
    /* Qwen2.5 */
    {{.kind = &chat_kinds[CT_CHAT_CHATML],
      .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
      .three_roles = true},
     2506,
     0xe642ce246d7f2e3d},
    /* Qwen3: two versions with reasoning, and one without */
    {{.kind = &chat_kinds[CT_CHAT_QWEN3]}, 4116, 0x2bfdb7aa9754484e},
    {{.kind = &chat_kinds[CT_CHAT_QWEN3]}, 4168, 0x959a4551391a6549},
    {{.kind = &chat_kinds[CT_CHAT_CHATML], .three_roles = true}, 2630, 0x3751fe8ea48448ab},
    /* Gemma 3 */
    {{.kind = &chat_kinds[CT_CHAT_GEMMA3]}, 1531, 0xd19b6ff3a49deea5},
};

/* Whether a folder's template is a short one. */
static bool is_template(cti_text folder, const char *known) {
    size_t at = 0;
    for (; *known && at < folder.size; known++, at++) {
        if (*known == '\n' && folder.at[at] == '\\' && at + 1 < folder.size &&
            folder.at[at + 1] == 'n') {
            at++;
        } else if (*known != folder.at[at]) {
            return false;
        }
    }
    return !*known && at == folder.size;
}

static uint64_t hash_of(cti_text text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 0x100000001b3;
    return hash;
}

/* ---- finding ---- */

const cti_chat_kind *cti_chat_kind_of(ct_chat kind) {
    const bool is = kind > CT_CHAT_FOLDER && (size_t)kind < sizeof chat_kinds / sizeof *chat_kinds;
    return is ? &chat_kinds[kind] : NULL;
}

const cti_chat_template *cti_chat_template_of(cti_text folder) {
    for (size_t i = 0; i < sizeof short_templates / sizeof *short_templates; i++)
        if (is_template(folder, short_templates[i].text)) return &short_templates[i].about;
    if (folder.size && folder.at[folder.size - 1] == '\n') folder.size--;
    for (size_t i = 0; i < sizeof long_templates / sizeof *long_templates; i++)
        if (folder.size == long_templates[i].size && hash_of(folder) == long_templates[i].hash)
            return &long_templates[i].about;
    return NULL;
}
