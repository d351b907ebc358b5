/* Messages that are JSON objects; see chat_message.h. */
#include "chat_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/io/json.h"

/* The members of a message that are read. */
enum { ROLE, CONTENT, WEIGHT, TRAIN, MEMBERS };
static const char *const member_names[MEMBERS] = {"role", "content", "weight", "train"};

/* A message that is read. */
typedef struct {
    cti_json json;
    ct_message *to;
    bool *learned;
    bool seen[MEMBERS];
    char *fault; /* [CTI_CHAT_FAULT] */
} message_reading;

/* Records a fault that is not one of the JSON's form. Returns false. */
static bool message_fault(message_reading *reading, const char *text) {
    return cti_json_fail(&reading->json, text);
}

static int member_index(cti_text key) {
    int i = 0;
    while (i < MEMBERS && cti_text_compare(key, cti_text_of(member_names[i]))) i++;
    return i;
}

static bool message_read_string(message_reading *reading, cti_text *text) {
    if (!cti_json_string(&reading->json, text)) return false;
    return strlen(text->at) == text->size ||
           message_fault(reading, "a message cannot have the character U+0000");
}

/* ---- the content ---- */

/* A part {"type": "text", "text": ...} of a content. */
static bool content_read_part(message_reading *reading, cti_text *text) {
    static const char fault[] =
        "a part of the content is not {\"type\": \"text\", \"text\": ...}, and "
        "other parts are not read by the built-in templates";
    cti_json *json = &reading->json;
    cti_text key, type = {0};
    *text = (cti_text){0};
    if (cti_json_look(json) != '{') return message_fault(reading, fault);
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) {
        if (!cti_json_key(json, &key)) return false;
        const bool is_type = !cti_text_compare(key, cti_text_of("type"));
        if (!is_type && cti_text_compare(key, cti_text_of("text")))
            return message_fault(reading, fault);
        cti_text *to = is_type ? &type : text;
        if (to->at || cti_json_look(json) != '"') return message_fault(reading, fault);
        if (!message_read_string(reading, to)) return false;
    }
    if (json->fault) return false;
    return (type.at && text->at && !cti_text_compare(type, cti_text_of("text"))) ||
           message_fault(reading, fault);
}

/* Joins the parts in the memory of the list's JSON. A part is shorter than its JSON, so the joined
 * text never reaches JSON that is still to be read. */
static bool content_read_parts(message_reading *reading) {
    cti_json *json = &reading->json;
    char *joined = json->at, *end = joined;
    for (bool first = cti_json_open(json, '['); cti_json_next(json, ']', &first);) {
        cti_text part;
        if (!content_read_part(reading, &part)) return false;
        memmove(end, part.at, part.size);
        end += part.size;
    }
    if (json->fault) return false;
    *end = 0; /* fits, because the list's brackets were read too */
    reading->to->content = joined;
    return true;
}

static bool content_read(message_reading *reading) {
    cti_text text;
    if (cti_json_look(&reading->json) == '[') return content_read_parts(reading);
    if (cti_json_look(&reading->json) != '"')
        return message_fault(reading, "the content is neither a text nor a list of texts");
    if (!message_read_string(reading, &text)) return false;
    reading->to->content = text.at;
    return true;
}

/* ---- the other members ---- */

static bool role_read(message_reading *reading) {
    cti_text text;
    if (cti_json_look(&reading->json) != '"')
        return message_fault(reading, "the role is not a text");
    if (!message_read_string(reading, &text)) return false;
    reading->to->role = text.at;
    return true;
}

static bool weight_read(message_reading *reading) {
    static const char *const values[] = {"0", "1", "0.0", "1.0"};
    cti_text spelled;
    const char c = cti_json_look(&reading->json);
    int i = 0;
    if ((c == '-' || (c >= '0' && c <= '9')) && !cti_json_number(&reading->json, &spelled))
        return false;
    if (c == '-' || (c >= '0' && c <= '9'))
        for (; i < 4; i++)
            if (spelled.size == strlen(values[i]) && !memcmp(spelled.at, values[i], spelled.size)) {
                *reading->learned &= i % 2;
                return true;
            }
    return message_fault(reading, "\"weight\" is neither 0 nor 1");
}

static bool train_read(message_reading *reading) {
    cti_json_look(&reading->json);
    if (cti_json_word(&reading->json, "true")) return true;
    if (!cti_json_word(&reading->json, "false"))
        return message_fault(reading, "\"train\" is neither true nor false");
    *reading->learned = false;
    return true;
}

/* A member that no built-in template writes: only an empty value is passed over. */
static bool unknown_read(message_reading *reading, cti_text key) {
    cti_json *json = &reading->json;
    const char c = cti_json_look(json);
    const char *value = json->at;
    char shown[6 * 40 + 1];
    cti_text begin = {key.at, key.size < 40 ? key.size : 40};
    while (begin.size && begin.size < key.size && (begin.at[begin.size] & 0xC0) == 0x80)
        begin.size--; /* a whole character */
    cti_writer writer = {.at = shown, .size = sizeof shown - 1};
    cti_escaped_write(&writer, begin);
    shown[writer.used < writer.size ? writer.used : writer.size] = 0;
    cti_text text;
    if (cti_json_word(json, "false")) return true;
    if (c == '"') {
        if (!cti_json_string(json, &text)) return false;
        if (!text.size) return true;
    } else if (c == '[' || c == '{') {
        const char close = c == '[' ? ']' : '}';
        bool first = cti_json_open(json, c);
        if (!cti_json_next(json, close, &first)) return !json->fault;
    }
    if (json->fault) return false;
    json->at = (char *)value;
    snprintf(
        reading->fault, CTI_CHAT_FAULT,
        "it has \"%s\", which the built-in templates do not write: take it out if nothing needs it",
        shown);
    return message_fault(reading, reading->fault);
}

static bool member_read(message_reading *reading) {
    static bool (*const readers[MEMBERS])(message_reading *) = {role_read, content_read,
                                                                weight_read, train_read};
    cti_text key;
    if (!cti_json_key(&reading->json, &key)) return false;
    const int i = member_index(key);
    if (i < MEMBERS && reading->seen[i])
        return message_fault(reading, "the message has a member twice");
    if (i < MEMBERS) reading->seen[i] = true;
    cti_json_look(&reading->json);
    if (cti_json_word(&reading->json, "null")) return true; /* as if it were not there */
    return i < MEMBERS ? readers[i](reading) : unknown_read(reading, key);
}

/* Reads the message in text[size]. */
static bool message_read(message_reading *reading, char *text, size_t size) {
    cti_json *json = &reading->json;
    *json = cti_json_read(text, size);
    if (cti_json_utf8(text, size) != size) return message_fault(reading, "it is not UTF-8");
    if (cti_json_look(json) != '{') return message_fault(reading, "it is not a JSON object");
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);)
        if (!member_read(reading)) return false;
    if (json->fault) return false;
    if (cti_json_look(json) || json->at != json->end)
        return message_fault(reading, "something follows the JSON object");
    if (!reading->to->role) return message_fault(reading, "it has no \"role\"");
    if (!reading->to->content) return message_fault(reading, "it has no \"content\"");
    return true;
}

void cti_chat_messages_free(cti_chat_messages *messages) {
    free(messages->message);
    free(messages->learned);
    free(messages->text);
    *messages = (cti_chat_messages){0};
}

static bool messages_new(const ct_message *message, int64_t n, cti_chat_messages *out) {
    size_t size = 1;
    for (int64_t i = 0; i < n; i++) {
        const size_t more = message[i].json ? strlen(message[i].json) + 1 : 0;
        if (more > SIZE_MAX - size) return false;
        size += more;
    }
    if ((uint64_t)n > SIZE_MAX / sizeof *out->message) return false;
    out->message = malloc((size_t)n * sizeof *out->message);
    out->learned = malloc((size_t)n * sizeof *out->learned);
    out->text = malloc(size);
    return out->message && out->learned && out->text;
}

bool cti_chat_messages_read(const ct_message *message, int64_t n, cti_chat_messages *out,
                            char fault[CTI_CHAT_FAULT]) {
    *out = (cti_chat_messages){0};
    if (!messages_new(message, n, out)) {
        cti_chat_messages_free(out);
        snprintf(fault, CTI_CHAT_FAULT, "out of memory");
        return false;
    }
    char *text = out->text, room[CTI_CHAT_FAULT];
    for (int64_t i = 0; i < n; i++) {
        out->message[i] = message[i];
        out->learned[i] = true;
        if (!message[i].json) continue;
        const size_t size = strlen(message[i].json);
        memcpy(text, message[i].json, size + 1);
        out->message[i] = (ct_message){0};
        message_reading reading = {
            .to = &out->message[i], .learned = &out->learned[i], .fault = room};
        if (!message_read(&reading, text, size)) {
            snprintf(fault, CTI_CHAT_FAULT, "message %" PRId64 ": %.360s", i, reading.json.fault);
            cti_chat_messages_free(out);
            return false;
        }
        text += size + 1;
    }
    return true;
}
