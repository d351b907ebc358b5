/* The chat: messages as transformers gives them to a template, and the variables beside them. */
#include "variables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unicode.h"
#include "../utf8.h"
#include "read.h"

cti_jinja_chat *cti_jinja_chat_new(void) {
    cti_jinja_chat *chat = calloc(1, sizeof *chat);
    if (!chat) return NULL;
    chat->tools = chat->documents = cti_jinja_none(0);
    chat->messages = cti_jinja_list_new(&chat->run, 0);
    chat->tokens = cti_jinja_dict_new(&chat->run, 0);
    chat->variables = cti_jinja_dict_new(&chat->run, 0);
    if (!chat->run.failed) return chat;
    cti_jinja_chat_free(chat);
    return NULL;
}

void cti_jinja_chat_free(cti_jinja_chat *chat) {
    if (chat) cti_arena_free(&chat->run.arena);
    free(chat);
}

const char *cti_jinja_chat_error(const cti_jinja_chat *chat) { return chat->run.error; }
bool cti_jinja_chat_no_memory(const cti_jinja_chat *chat) { return chat->run.no_memory; }
int64_t cti_jinja_chat_count(const cti_jinja_chat *chat) { return chat->messages->count; }
const cti_jinja_dict *cti_jinja_chat_at(const cti_jinja_chat *chat, int64_t i) {
    return chat->messages->item[i].dict;
}

/* ---- messages ---- */

/* The mark of the next message. */
static int32_t next_mark(const cti_jinja_chat *chat) {
    return chat->messages->count < INT32_MAX ? (int32_t)chat->messages->count + 1 : INT32_MAX;
}

static bool is_role_text(const cti_jinja_string *role) {
    for (size_t i = 0; i < role->size;) {
        size_t length;
        const uint32_t c = cti_utf8_get(role->at + i, &length);
        const bool plain = c < 0x80 ? (c >= '0' && c <= '9') ||
                                          ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                                          (c && strchr("_-. ", (int)c))
                                    : (CTI_IN(cti_unicode_category(c)) &
                                       (CTI_LETTERS | CTI_MARKS | CTI_IN(CTI_ND))) != 0;
        if (!plain) return false;
        i += length;
    }
    return true;
}

/* The value of the first reasoning member; NULL if the message has none. */
static const cti_jinja_value *reasoning_of(const cti_jinja_dict *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const cti_jinja_value *value = NULL;
    for (int i = 0; i < 3 && !value; i++) value = cti_jinja_get_text(message, names[i]);
    return value;
}

/* transformers gives a message's reasoning under two names: {"thinking": r, **message,
 * "reasoning_content": r}. */
static const cti_jinja_dict *copy_reasoning(cti_jinja_run *run, const cti_jinja_dict *message,
                                            int32_t mark) {
    const cti_jinja_value *reasoning = reasoning_of(message);
    if (!reasoning) return message;
    cti_jinja_dict *copy = cti_jinja_dict_new(run, message->count + 2);
    cti_jinja_set(run, copy, cti_jinja_string_view(run, "thinking", 8, mark), *reasoning);
    for (int64_t i = 0; i < message->count; i++)
        cti_jinja_set(run, copy, message->entry[i].key, message->entry[i].value);
    cti_jinja_set(run, copy, cti_jinja_string_view(run, "reasoning_content", 17, mark), *reasoning);
    return copy;
}

static bool add_message(cti_jinja_chat *chat, const cti_jinja_dict *message) {
    const int32_t mark = next_mark(chat);
    if (chat->run.failed) return false;
    message = copy_reasoning(&chat->run, message, mark);
    cti_jinja_append(&chat->run, chat->messages, cti_jinja_dict_value(message, mark));
    return !chat->run.failed;
}

/* The text in well-formed UTF-8. */
static cti_jinja_value sound_string(cti_jinja_run *run, const char *text, int32_t mark) {
    const size_t size = strlen(text);
    if (cti_utf8_check(text, size) == size) return cti_jinja_string_make(run, text, size, mark);
    cti_jinja_builder out = cti_jinja_build(run);
    for (size_t at = 0; at < size;) {
        uint32_t c;
        char bytes[4];
        at += cti_utf8_read(text + at, size - at, &c);
        cti_jinja_add(&out, bytes, cti_utf8_put(bytes, c), mark);
    }
    return cti_jinja_built(&out, false);
}

static bool check_role(cti_jinja_chat *chat, cti_jinja_value role) {
    if (chat->run.failed) return false;
    if (role.kind == CTI_JINJA_STRING && is_role_text(role.string)) return true;
    cti_jinja_fail(
        &chat->run,
        "message %" PRId64 ": the role %.*s%s has other characters than letters, digits, "
        "'_', '-', '.' and ' '",
        chat->messages->count, role.kind == CTI_JINJA_STRING ? (int)role.string->size : 0,
        role.kind == CTI_JINJA_STRING ? role.string->at : "",
        role.kind == CTI_JINJA_STRING ? "" : "is no string or");
    return false;
}

bool cti_jinja_chat_message(cti_jinja_chat *chat, const char *role, const char *content) {
    cti_jinja_run *run = &chat->run;
    const int32_t mark = next_mark(chat);
    if (!role || !content)
        cti_jinja_fail(run, "message %" PRId64 ": its %s is NULL", chat->messages->count,
                       role ? "content" : "role");
    cti_jinja_dict *message = cti_jinja_dict_new(run, 2);
    if (!message) return false;
    const cti_jinja_value name = sound_string(run, role, 0);
    if (!check_role(chat, name)) return false;
    cti_jinja_set(run, message, cti_jinja_string_view(run, "role", 4, 0), name);
    cti_jinja_set(run, message, cti_jinja_string_view(run, "content", 7, mark),
                  sound_string(run, content, mark));
    return add_message(chat, message);
}

/* Reads a message, an object: its role has no mark, and members that are null are left out. */
static bool read_message_object(cti_jinja_chat *chat, cti_jinja_reader *reader) {
    cti_jinja_run *run = &chat->run;
    if (cti_json_look(&reader->json) != '{') {
        cti_jinja_read_fail(reader, "it is not a JSON object");
        return false;
    }
    cti_jinja_dict *all = cti_jinja_dict_new(run, 0), *message = cti_jinja_dict_new(run, 0);
    reader->depth++;
    for (bool first = cti_json_open(&reader->json, '{');
         cti_json_next(&reader->json, '}', &first);) {
        cti_jinja_value key;
        reader->mark = next_mark(chat);
        if (!cti_jinja_read_key(reader, all, reader->mark, &key)) return false;
        const bool role = cti_jinja_string_is(key.string, "role");
        if (role) reader->mark = 0;
        const cti_jinja_value value = cti_jinja_read_value(reader);
        cti_jinja_set(run, all, key, value); /* a member that is null may stand only once too */
        if (run->failed) return false;
        if (value.kind == CTI_JINJA_NONE) continue;
        if (role && !check_role(chat, value)) return false;
        if (role) key = cti_jinja_string_view(run, "role", 4, 0);
        cti_jinja_set(run, message, key, value);
    }
    reader->depth--;
    if (reader->json.fault) cti_jinja_read_fail(reader, reader->json.fault);
    return add_message(chat, message);
}

bool cti_jinja_chat_message_json(cti_jinja_chat *chat, const char *json) {
    char what[40];
    cti_jinja_reader reader;
    snprintf(what, sizeof what, "message %" PRId64, chat->messages->count);
    return cti_jinja_read_begin(&reader, &chat->run, json, what, next_mark(chat)) &&
           read_message_object(chat, &reader) && cti_jinja_read_end(&reader);
}

bool cti_jinja_chat_messages(cti_jinja_chat *chat, const char *json) {
    char what[40];
    cti_jinja_reader reader;
    if (!cti_jinja_read_begin(&reader, &chat->run, json, "messages", 0)) return false;
    if (cti_json_look(&reader.json) != '[') {
        cti_jinja_read_fail(&reader, "it is not a JSON array");
        return false;
    }
    reader.depth = 1;
    for (bool first = cti_json_open(&reader.json, '['); cti_json_next(&reader.json, ']', &first);) {
        snprintf(what, sizeof what, "message %" PRId64, chat->messages->count);
        reader.what = what;
        if (!read_message_object(chat, &reader)) return false;
        reader.what = "messages";
    }
    if (reader.json.fault) cti_jinja_read_fail(&reader, reader.json.fault);
    return cti_jinja_read_end(&reader);
}

/* ---- what stands beside them ---- */

static bool read_list(cti_jinja_chat *chat, const char *json, const char *what,
                      cti_jinja_value *to) {
    cti_jinja_reader reader;
    if (!json) return true;
    if (!cti_jinja_read_begin(&reader, &chat->run, json, what, CTI_JINJA_OUTSIDE)) return false;
    if (cti_json_look(&reader.json) != '[') cti_jinja_read_fail(&reader, "it is not a JSON array");
    *to = cti_jinja_read_value(&reader);
    return cti_jinja_read_end(&reader);
}

/* Each item must be an object. */
static bool check_objects(cti_jinja_chat *chat, cti_jinja_value list, const char *what) {
    for (int64_t i = 0; !chat->run.failed && i < list.list->count; i++)
        if (list.list->item[i].kind != CTI_JINJA_DICT)
            cti_jinja_fail(&chat->run, "%s: item %" PRId64 " is not a JSON object", what, i);
    return !chat->run.failed;
}

bool cti_jinja_chat_tools(cti_jinja_chat *chat, const char *json) {
    return read_list(chat, json, "tools", &chat->tools) &&
           (!json || check_objects(chat, chat->tools, "tools"));
}

bool cti_jinja_chat_documents(cti_jinja_chat *chat, const char *json) {
    return read_list(chat, json, "documents", &chat->documents) &&
           (!json || check_objects(chat, chat->documents, "documents"));
}

bool cti_jinja_chat_token(cti_jinja_chat *chat, const char *role, const char *text) {
    cti_jinja_set(&chat->run, chat->tokens, sound_string(&chat->run, role, 0),
                  sound_string(&chat->run, text, 0));
    return !chat->run.failed;
}

bool cti_jinja_chat_variables(cti_jinja_chat *chat, const char *json) {
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    cti_jinja_run *run = &chat->run;
    cti_jinja_reader reader;
    if (!cti_jinja_read_begin(&reader, run, json, "variables", CTI_JINJA_OUTSIDE)) return false;
    if (cti_json_look(&reader.json) != '{') {
        cti_jinja_read_fail(&reader, "it is not a JSON object");
        return false;
    }
    reader.depth = 1;
    for (bool first = cti_json_open(&reader.json, '{'); cti_json_next(&reader.json, '}', &first);) {
        cti_jinja_value key;
        if (!cti_jinja_read_key(&reader, chat->variables, 0, &key)) return false;
        for (int i = 0; i < 4; i++)
            if (cti_jinja_string_is(key.string, own[i]))
                cti_jinja_fail(run, "variables: \"%s\" is set by another option", own[i]);
        reader.mark = cti_jinja_get(run, chat->tokens, key) ? 0 : CTI_JINJA_OUTSIDE;
        cti_jinja_set(run, chat->variables, key, cti_jinja_read_value(&reader));
        if (run->failed) return false;
    }
    if (reader.json.fault) cti_jinja_read_fail(&reader, reader.json.fault);
    return cti_jinja_read_end(&reader);
}
