/* Reading JSON: strict, with integers of 64 bits, no member twice, no U+0000. */
#include "read.h"

#include <string.h>

enum { READ_DEEPEST = 64 }; /* as the parser's */

cti_jinja_value cti_jinja_read_fail(cti_jinja_reader *reader, const char *fault) {
    return cti_jinja_fail(reader->run, "%s: byte %zu: %s", reader->what,
                          (size_t)(reader->json.at - reader->json.text), fault);
}

/* Passes on the parser's fault. */
static cti_jinja_value json_fault(cti_jinja_reader *reader) {
    return cti_jinja_read_fail(reader, reader->json.fault ? reader->json.fault : "bad JSON");
}

bool cti_jinja_read_begin(cti_jinja_reader *reader, cti_jinja_run *run, const char *text,
                          const char *what, int32_t mark) {
    *reader = (cti_jinja_reader){.run = run, .what = what, .mark = mark};
    const size_t size = strlen(text), sound = cti_json_utf8(text, size);
    char *copy = cti_jinja_take(run, size + 1, 1);
    if (!copy) return false;
    memcpy(copy, text, size + 1);
    reader->json = cti_json_read(copy, size);
    if (sound == size) return true;
    reader->json.at += sound;
    cti_jinja_read_fail(reader, "it is not UTF-8");
    return false;
}

bool cti_jinja_read_end(cti_jinja_reader *reader) {
    if (!reader->run->failed &&
        (cti_json_look(&reader->json) || reader->json.fault || reader->json.at != reader->json.end))
        cti_jinja_read_fail(reader, "something follows the value");
    return !reader->run->failed;
}

static cti_jinja_value read_string(cti_jinja_reader *reader, int32_t mark) {
    cti_text text;
    if (!cti_json_string(&reader->json, &text)) return json_fault(reader);
    if (memchr(text.at, 0, text.size)) return cti_jinja_read_fail(reader, "U+0000 in a string");
    return cti_jinja_string_view(reader->run, text.at, text.size, mark);
}

static cti_jinja_value jinja_read_number(cti_jinja_reader *reader) {
    cti_text text;
    if (!cti_json_number(&reader->json, &text)) return json_fault(reader);
    int64_t number = 0;
    const bool negative = text.at[0] == '-';
    for (size_t i = negative; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return cti_jinja_real(cti_real_read(text), reader->mark);
        const int digit = text.at[i] - '0';
        if (!__builtin_mul_overflow(number, 10, &number) &&
            !__builtin_sub_overflow(number, digit, &number))
            continue;
        size_t rest = i;
        while (rest < text.size && text.at[rest] >= '0' && text.at[rest] <= '9') rest++;
        if (rest < text.size) return cti_jinja_real(cti_real_read(text), reader->mark);
        return cti_jinja_read_fail(reader, "an integer beyond 64 bits");
    }
    if (!negative && number == INT64_MIN)
        return cti_jinja_read_fail(reader, "an integer beyond 64 bits");
    return cti_jinja_int(negative ? number : -number, reader->mark);
}

bool cti_jinja_read_key(cti_jinja_reader *reader, const cti_jinja_dict *object, int32_t mark,
                        cti_jinja_value *key) {
    cti_text text;
    if (!cti_json_key(&reader->json, &text)) {
        json_fault(reader);
    } else if (memchr(text.at, 0, text.size)) {
        cti_jinja_read_fail(reader, "U+0000 in a string");
    } else {
        *key = cti_jinja_string_view(reader->run, text.at, text.size, mark);
        if (!reader->run->failed && cti_jinja_get(reader->run, object, *key))
            cti_jinja_read_fail(reader, "a member stands twice in its object");
    }
    return !reader->run->failed;
}

static cti_jinja_value read_object(cti_jinja_reader *reader) {
    cti_jinja_dict *dict = cti_jinja_dict_new(reader->run, 0);
    for (bool first = cti_json_open(&reader->json, '{');
         cti_json_next(&reader->json, '}', &first);) {
        cti_jinja_value key;
        if (!cti_jinja_read_key(reader, dict, reader->mark, &key)) break;
        cti_jinja_set(reader->run, dict, key, cti_jinja_read_value(reader));
        if (reader->run->failed) break;
    }
    if (reader->json.fault) return json_fault(reader);
    return cti_jinja_dict_value(dict, reader->mark);
}

static cti_jinja_value read_array(cti_jinja_reader *reader) {
    cti_jinja_list *list = cti_jinja_list_new(reader->run, 0);
    for (bool first = cti_json_open(&reader->json, '[');
         cti_json_next(&reader->json, ']', &first) && !reader->run->failed;)
        cti_jinja_append(reader->run, list, cti_jinja_read_value(reader));
    if (reader->json.fault) return json_fault(reader);
    return cti_jinja_list_value(CTI_JINJA_LIST, list, reader->mark);
}

cti_jinja_value cti_jinja_read_value(cti_jinja_reader *reader) {
    const char c = cti_json_look(&reader->json);
    if (reader->run->failed) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    if (c == '"') return read_string(reader, reader->mark);
    if (c == '{' || c == '[') {
        if (++reader->depth > READ_DEEPEST) return cti_jinja_read_fail(reader, "nested too deep");
        const cti_jinja_value value = c == '{' ? read_object(reader) : read_array(reader);
        reader->depth--;
        return value;
    }
    if (cti_json_word(&reader->json, "true")) return cti_jinja_bool(true, reader->mark);
    if (cti_json_word(&reader->json, "false")) return cti_jinja_bool(false, reader->mark);
    if (cti_json_word(&reader->json, "null")) return cti_jinja_none(reader->mark);
    if (c == '-' || (c >= '0' && c <= '9')) return jinja_read_number(reader);
    return cti_jinja_read_fail(reader, "a value is expected");
}
