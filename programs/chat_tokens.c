/* The tokens of a chat's form; see chat_tokens.h. */
#include "chat_tokens.h"
#include "common.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

enum { CHAT_TEXT = 4096 };
static const char answer[] = "the answer";

/* The usual templates of these forms, as the library knows them. */
static const struct {
    const char *name, *text;
} templates[] = {
    {"chatml",
     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {"llama3",
     "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
     "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
     "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
     "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
    {"gemma",
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
     "supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != "
     "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
     "user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}"
     "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
     "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"},
    {"zephyr",
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
     "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
     "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == "
     "'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
     "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
     "{% endfor %}"},
    {"phi3",
     "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
     "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"},
};
enum { TEMPLATES = sizeof templates / sizeof *templates };

/* Writes a short conversation in the form. Returns false if the form refuses it. */
static bool write_chat(const ct_tokenizer *tokenizer, char text[CHAT_TEXT]) {
    const ct_message messages[] = {{.role = "user", .content = "the question"},
                                   {.role = "assistant", .content = answer}};
    const int64_t size = ct_chat_text(tokenizer, messages, 2, (ct_chat_opts){0}, text, CHAT_TEXT);
    return size >= 0 && size < CHAT_TEXT;
}

/* Reads a template from a file, without the line end behind it, as Jinja does. */
static char *read_template(const char *path) {
    contents all = read_text_files(1, (char *[]){(char *)path});
    int64_t size = all.length;
    if (size && all.bytes[size - 1] == '\n') size--;
    char *text = calloc((size_t)size + 1, 1);
    if (!text) fail(EXIT_FAILED, "out of memory");
    memcpy(text, all.bytes, (size_t)size);
    free(all.bytes);
    return text;
}

void chat_set_template(ct_context *context, ct_tokenizer *tokenizer, const char *name) {
    const ct_message message = {.role = "user", .content = "the question"};
    char error[500] = "";
    system_file file;
    int i = 0;
    while (i < TEMPLATES && strcmp(name, templates[i].name) != 0) i++;
    if (i == TEMPLATES && (!system_find_file(name, &file) || !file.exists))
        fail(EXIT_USAGE, "--template is chatml, llama3, gemma, zephyr, phi3 or a file, not '%s'",
             name);
    char *text = i == TEMPLATES ? read_template(name) : NULL;
    ct_tokenizer_set_template(tokenizer, text ? text : templates[i].text);
    free(text);
    check(context, EXIT_FAILED);
    const ct_chat_opts opts = {.error = error, .error_room = sizeof error};
    if (ct_chat_text(tokenizer, &message, 1, opts, NULL, 0) < 0 && strstr(error, "is known"))
        fail(
            EXIT_USAGE,
            "--template %s: this template is none of those that are known by their whole text, and "
            "other templates are not interpreted yet",
            name);
}

/* Copies the token <...> at the beginning of a text. Returns false if there is none. */
static bool copy_token(const char *text, char token[CHAT_TOKEN]) {
    const size_t size = *text == '<' ? strcspn(text, "> \n") + 1 : 0;
    if (!size || size >= CHAT_TOKEN || text[size - 1] != '>') return false;
    snprintf(token, CHAT_TOKEN, "%.*s", (int)size, text);
    return true;
}

int64_t chat_end(const ct_tokenizer *tokenizer, char end[CHAT_TOKEN]) {
    char text[CHAT_TEXT];
    *end = 0;
    if (!write_chat(tokenizer, text)) return -1;
    const char *behind = strstr(text, answer) + strlen(answer);
    const char *eos = ct_token(tokenizer, ct_token_role(tokenizer, "eos_token"));
    if (eos && strlen(eos) < CHAT_TOKEN && !strncmp(behind, eos, strlen(eos)))
        snprintf(end, CHAT_TOKEN, "%s", eos);
    else copy_token(behind, end);
    return *end ? ct_token_id(tokenizer, end) : -1;
}

void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer) {
    char text[CHAT_TEXT], token[CHAT_TOKEN];
    if (!write_chat(tokenizer, text)) return;
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<'))
        /* <think> and the like are no tokens of the form */
        if (copy_token(at, token) && (token[1] == '|' || strstr(token, "_of_turn>")) &&
            ct_token_id(tokenizer, token) < 0) {
            const int64_t id = ct_token_add(tokenizer, token, NULL);
            check(context, EXIT_FAILED);
            printf("The tokenizer gets the token %s, with id %lld\n", token, (long long)id);
        }
}
