/* Chats: messages as the text of a chat template, and as ids with targets. The text of a message is
 * .open, its role, .behind_role, its content, .end and .behind_end of its kind. */
#include <cotangent/autograd.h>
#include <cotangent/tokenizer.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"
#include "unicode.h"
#include "utf8.h"

static const char chat_text_op[] = "chat_text", chat_encode_op[] = "chat_encode";

/* ---- kinds ---- */

typedef struct {
    const char *open, *behind_role; /* around the role */
    const char *end;        /* behind the content: the token that ends the turn; NULL: eos_token */
    const char *behind_end; /* behind that token */
    const char *prompt;     /* the text that .open adds */
    const char *assistant;  /* the role "assistant" as it is written */
    bool bos, trims;        /* bos_token comes first; contents lose the spaces at both ends */
    bool any_role;          /* a role that is none of system, user, assistant is written too */
    bool no_system, alternates; /* user and assistant alternate, a user first */
    bool closes;                /* eos_token comes last unless .open */
} chat_kind;

static const chat_kind chat_kinds[] = {
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
};

/* The templates of folders that are known by their whole text, and the system message that each
 * puts before messages without one. A line end in a string of a template may be written as \n. */
static const struct {
    ct_chat kind;
    const char *system, *text;
} chat_templates[] = {
    {CT_CHAT_CHATML, NULL,
     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {CT_CHAT_CHATML, "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
     "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {CT_CHAT_LLAMA3, NULL,
     "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
     "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
     "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
     "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
    {CT_CHAT_GEMMA, NULL,
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
     "supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != "
     "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
     "user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}"
     "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
     "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"},
    {CT_CHAT_ZEPHYR, NULL,
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
     "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
     "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == "
     "'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
     "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
     "{% endfor %}"},
    {CT_CHAT_PHI3, NULL,
     "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
     "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"},
};

/* Whether a folder's template is a known one. */
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

/* ---- a text that grows ---- */

/* Text that is measured and, as far as it fits, written. */
typedef struct {
    char *at;
    size_t room, size;
} chat_writer;

static void chat_put(chat_writer *out, const char *bytes, size_t size) {
    if (out->size < out->room) {
        const size_t left = out->room - out->size;
        memcpy(out->at + out->size, bytes, size < left ? size : left);
    }
    out->size += size;
}

static void chat_puts(chat_writer *out, const char *text) { chat_put(out, text, strlen(text)); }

/* Writes a content in well-formed UTF-8. */
static void chat_put_content(chat_writer *out, const char *text, size_t size) {
    if (cti_utf8_check(text, size) == size) {
        chat_put(out, text, size);
        return;
    }
    for (size_t at = 0; at < size;) {
        uint32_t c;
        char bytes[4];
        at += cti_utf8_read(text + at, size - at, &c);
        chat_put(out, bytes, cti_utf8_put(bytes, c));
    }
}

/* ---- rendering ---- */

/* The range of a message's content in the text, and the end of the token that ends its turn. */
typedef struct {
    cti_extent content;
    size_t end;
    bool assistant;
} chat_place;

typedef struct {
    const ct_tokenizer *tokenizer;
    const chat_kind *kind;
    const char *system; /* the default system message, or NULL */
    const char *bos, *eos;
    const ct_message *message;
    int64_t n;
    bool open;
} chat_call;

static bool is_role(const ct_message *message, const char *role) {
    return !strcmp(message->role, role);
}

/* Python's str.strip, as the filter `trim`. */
static cti_extent trimmed(const char *text) {
    cti_extent part = {0, strlen(text)};
    size_t length;
    const bool sound = cti_utf8_check(text, part.end) == part.end;
    while (part.begin < part.end) {
        const uint32_t c = sound ? cti_utf8_get(text + part.begin, &length)
                                 : (length = 1, (unsigned char)text[part.begin]);
        if (!cti_unicode_is_space(c) && !(c >= 0x1C && c <= 0x1F)) break;
        part.begin += length;
    }
    while (part.end > part.begin) {
        size_t at = part.end - 1;
        while (sound && at > part.begin && cti_utf8_continues(text[at])) at--;
        const uint32_t c = sound ? cti_utf8_get(text + at, &length) : (unsigned char)text[at];
        if (!cti_unicode_is_space(c) && !(c >= 0x1C && c <= 0x1F)) break;
        part.end = at;
    }
    return part;
}

static chat_place chat_put_message(const chat_call *chat, const ct_message *message,
                                   chat_writer *out) {
    const chat_kind *kind = chat->kind;
    chat_place place = {.assistant = is_role(message, "assistant")};
    const cti_extent part =
        kind->trims ? trimmed(message->content) : (cti_extent){0, strlen(message->content)};
    chat_puts(out, kind->open);
    chat_puts(out, place.assistant ? kind->assistant : message->role);
    chat_puts(out, kind->behind_role);
    place.content.begin = out->size;
    chat_put_content(out, message->content + part.begin, part.end - part.begin);
    place.content.end = out->size;
    chat_puts(out, kind->end ? kind->end : chat->eos);
    place.end = out->size;
    chat_puts(out, kind->behind_end);
    return place;
}

/* Writes the whole text. places[n + 1], or NULL, gets the messages' places, *count of them. */
static void chat_render(const chat_call *chat, chat_writer *out, chat_place *places,
                        int64_t *count) {
    *count = 0;
    if (chat->kind->bos) chat_puts(out, chat->bos);
    if (chat->system && chat->n && !is_role(&chat->message[0], "system")) {
        const ct_message system = {"system", chat->system};
        const chat_place place = chat_put_message(chat, &system, out);
        if (places) places[(*count)++] = place;
    }
    for (int64_t i = 0; i < chat->n; i++) {
        const chat_place place = chat_put_message(chat, &chat->message[i], out);
        if (places) places[(*count)++] = place;
    }
    if (chat->open) chat_puts(out, chat->kind->prompt);
    else if (chat->kind->closes) chat_puts(out, chat->eos);
}

/* ---- checks ---- */

/* Finds the kind and the default system message. */
static bool find_kind(chat_call *chat, const char *op, ct_chat kind) {
    ct_context *context = chat->tokenizer->context;
    if (kind == CT_CHAT_FOLDER) {
        const cti_text text = chat->tokenizer->parts->template_text;
        if (!text.at)
            return ct_fail(context, CT_ERR_FORMAT,
                           "%s: the folder has no chat template: name a "
                           "kind",
                           op);
        for (size_t i = 0; i < sizeof chat_templates / sizeof *chat_templates; i++)
            if (is_template(text, chat_templates[i].text)) {
                chat->kind = &chat_kinds[chat_templates[i].kind];
                chat->system = chat_templates[i].system;
                return true;
            }
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: the folder's chat template of %zu bytes is not one that is known: name "
                       "a kind",
                       op, text.size);
    }
    if (kind < 0 || (size_t)kind >= sizeof chat_kinds / sizeof *chat_kinds)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the kind %d", op, (int)kind);
    chat->kind = &chat_kinds[kind];
    return true;
}

static bool check_message(const chat_call *chat, const char *op, int64_t i) {
    ct_context *context = chat->tokenizer->context;
    const ct_message *message = &chat->message[i];
    if (!message->role || !message->content)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: message %" PRId64 ": its %s is NULL", op, i,
                       message->role ? "content" : "role");
    const bool system = is_role(message, "system"), user = is_role(message, "user"),
               assistant = is_role(message, "assistant");
    if (!system && !user && !assistant && !chat->kind->any_role)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: message %" PRId64 ": the role \"%s\" is none of system, user and "
                       "assistant",
                       op, i, message->role);
    if (system && chat->kind->no_system)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: message %" PRId64 ": the template has no system messages", op, i);
    if (chat->kind->alternates && user != (i % 2 == 0))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: message %" PRId64 ": user and assistant must alternate, a user first",
                       op, i);
    return true;
}

/* A token with a role, which the template needs. */
static bool find_token_text(const chat_call *chat, const char *op, const char *role,
                            const char **text) {
    *text = ct_token(chat->tokenizer, ct_token_role(chat->tokenizer, role));
    if (*text) return true;
    return ct_fail(chat->tokenizer->context, CT_ERR_ARGUMENT,
                   "%s: the template needs a %s, and no token has this role", op, role);
}

/* Fills in the chat and checks it. Returns false after an error. */
static bool chat_begin(const ct_tokenizer *tokenizer, const char *op, const ct_message *messages,
                       int64_t n, const ct_chat_opts *opts, chat_call *chat) {
    if (!cti_object_is_ready(tokenizer ? &tokenizer->object : NULL, op, "tokenizer", NULL))
        return false;
    *chat = (chat_call){.tokenizer = tokenizer, .message = messages, .n = n, .open = opts->open};
    if (n < 1 || !messages)
        return ct_fail(tokenizer->context, CT_ERR_ARGUMENT, "%s: there are no messages", op);
    if (!find_kind(chat, op, opts->kind)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!check_message(chat, op, i)) return false;
    const bool eos = !chat->kind->end || (chat->kind->closes && !opts->open);
    return (!chat->kind->bos || find_token_text(chat, op, "bos_token", &chat->bos)) &&
           (!eos || find_token_text(chat, op, "eos_token", &chat->eos));
}

/* ---- the public functions ---- */

int64_t ct_chat_text(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                     ct_chat_opts opts, char *text, size_t room) {
    chat_call chat;
    int64_t places;
    if (!chat_begin(tokenizer, chat_text_op, messages, n, &opts, &chat)) return -1;
    chat_writer out = {.at = text, .room = text && room ? room - 1 : 0};
    chat_render(&chat, &out, NULL, &places);
    if (text && room) text[out.size < room ? out.size : room - 1] = 0;
    return (int64_t)out.size;
}

/* Whether a token that begins at `at` is of an assistant's content or ends its turn. Places are in
 * order, and *next is the first that does not end before the last token. */
static bool is_learned(const chat_place *places, int64_t n, int64_t *next, size_t at) {
    while (*next < n && places[*next].end <= at) ++*next;
    return *next < n && places[*next].assistant && places[*next].content.begin <= at;
}

/* Sets targets from the ranges of the tokens. */
static void set_targets(const chat_place *places, int64_t n, const cti_sink *sink,
                        int64_t *targets) {
    int64_t next = 0;
    const int64_t count = sink->count < sink->room ? sink->count : sink->room;
    for (int64_t t = 0; t < count; t++) targets[t] = -100;
    for (int64_t t = 0; t < count; t++)
        if (is_learned(places, n, &next, (size_t)sink->offsets[2 * t]) && t)
            targets[t - 1] = sink->ids[t];
}

/* The memory of an encode. */
typedef struct {
    char *text;
    chat_place *places;
    cti_extent *plain;
    int64_t *offsets; /* [2 room], if targets are asked for */
} chat_memory;

static void chat_free(chat_memory *memory) {
    free(memory->text);
    free(memory->places);
    free(memory->plain);
    free(memory->offsets);
}

static bool chat_memory_new(const chat_call *chat, size_t size, int64_t room, bool targets,
                            chat_memory *memory) {
    const uint64_t places = (uint64_t)chat->n + 1;
    *memory = (chat_memory){0};
    if (places > SIZE_MAX / sizeof *memory->places ||
        (targets && (uint64_t)room > SIZE_MAX / (2 * sizeof *memory->offsets)))
        return false;
    memory->text = malloc(size + 1);
    memory->places = malloc((size_t)places * sizeof *memory->places);
    memory->plain = malloc((size_t)places * sizeof *memory->plain);
    if (targets && room) memory->offsets = malloc(2 * (size_t)room * sizeof *memory->offsets);
    return memory->text && memory->places && memory->plain &&
           (!targets || !room || memory->offsets);
}

/* Encodes the text of a chat. Returns false if memory is short. */
static bool chat_encode(const chat_call *chat, chat_memory *memory, size_t size, cti_sink *sink,
                        int64_t *targets) {
    int64_t places;
    chat_writer out = {.at = memory->text, .room = size};
    chat_render(chat, &out, memory->places, &places);
    for (int64_t i = 0; i < places; i++) memory->plain[i] = memory->places[i].content;
    const cti_plain plain = {.range = memory->plain, .n = (size_t)places};
    if (!cti_encode_text(chat->tokenizer->parts, (cti_text){memory->text, size}, &plain, sink))
        return false;
    if (targets && sink->room) set_targets(memory->places, places, sink, targets);
    return true;
}

int64_t ct_chat_encode(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                       ct_chat_opts opts, int64_t *ids, int64_t *targets, int64_t room) {
    chat_call chat;
    chat_memory memory;
    int64_t places;
    if (!chat_begin(tokenizer, chat_encode_op, messages, n, &opts, &chat)) return -1;
    if (room < 0 || (room && !ids)) {
        ct_fail(tokenizer->context, CT_ERR_ARGUMENT, "%s: room for %" PRId64 " ids", chat_encode_op,
                room);
        return -1;
    }
    chat_writer measure = {0};
    chat_render(&chat, &measure, NULL, &places);
    cti_sink sink = {.ids = ids, .room = room};
    bool ok = chat_memory_new(&chat, measure.size, room, targets != NULL, &memory);
    sink.offsets = memory.offsets;
    ok = ok && chat_encode(&chat, &memory, measure.size, &sink, targets);
    chat_free(&memory);
    if (ok) return sink.count;
    ct_fail(tokenizer->context, CT_ERR_MEMORY, "%s: out of memory for a text of %zu bytes",
            chat_encode_op, measure.size);
    return -1;
}
