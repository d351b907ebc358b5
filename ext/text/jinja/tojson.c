/* The filter tojson as transformers has it: Python's json.dumps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../utf8.h"
#include "filters.h"
#include "number.h"

typedef struct {
    cti_jinja_builder out;
    bool ascii, sort_keys;
    bool indented;
    cti_jinja_value indent; /* a string that begins each line, as often as values are nested */
    cti_jinja_value item_separator, key_separator; /* ABSENT: ", " or ",", and ": " */
    int64_t depth;
} json_job;

static void json_string(json_job *job, const cti_jinja_string *string, int32_t quotes) {
    cti_jinja_add_text(&job->out, "\"", quotes);
    size_t copied = 0, length;
    for (size_t i = 0; i < string->size; i += length) {
        const uint32_t c = cti_utf8_get(string->at + i, &length);
        char escape[16];
        const char *const letters = "\"\"\\\\\bb\ff\nn\rr\tt", *letter = NULL;
        if (c && c < 0x80)
            for (int j = 0; letters[j] && !letter; j += 2)
                if (c == (unsigned char)letters[j]) letter = &letters[j + 1];
        if (letter) snprintf(escape, sizeof escape, "\\%c", *letter);
        else if (c < 0x20 || (c >= 0x7F && c < 0x10000 && job->ascii))
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        else if (c >= 0x10000 && job->ascii)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x",
                     (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
        else continue;
        cti_jinja_add_part(&job->out, string, copied, i);
        cti_jinja_add_text(&job->out, escape, cti_jinja_mark_at(string, i));
        copied = i + length;
    }
    cti_jinja_add_part(&job->out, string, copied, string->size);
    cti_jinja_add_text(&job->out, "\"", quotes);
}

/* The text of a value without items, but not of a string. Returns false for other kinds. */
static bool json_scalar(cti_jinja_value value, char text[CTI_JINJA_DIGITS]) {
    if (value.kind == CTI_JINJA_NONE) strcpy(text, "null");
    else if (value.kind == CTI_JINJA_BOOL) strcpy(text, value.boolean ? "true" : "false");
    else if (value.kind == CTI_JINJA_INT)
        snprintf(text, CTI_JINJA_DIGITS, "%" PRId64, value.integer);
    else if (value.kind != CTI_JINJA_REAL) return false;
    else if (isfinite(value.real)) cti_jinja_real_text(value.real, text);
    else strcpy(text, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
    return true;
}

/* Adds a separator or an indent: the mark of the template's is the container's. */
static void json_made(json_job *job, const cti_jinja_string *string, int32_t mark) {
    if (string->spans || string->mark) cti_jinja_add_string(&job->out, string);
    else cti_jinja_add(&job->out, string->at, string->size, mark);
}

static void json_line(json_job *job, int32_t mark) {
    if (!job->indented) return;
    cti_jinja_add_text(&job->out, "\n", mark);
    const cti_jinja_string *indent = job->indent.string;
    for (int64_t i = 0; indent->size && i < job->depth && !job->out.run->failed; i++)
        json_made(job, indent, mark);
}

/* What stands before item i of a container. */
static void json_separate(json_job *job, int64_t i, int32_t mark) {
    if (i && job->item_separator.kind == CTI_JINJA_STRING)
        json_made(job, job->item_separator.string, mark);
    else if (i) cti_jinja_add_text(&job->out, job->indented ? "," : ", ", mark);
    json_line(job, mark);
}

static void json_value(json_job *job, cti_jinja_value value, int32_t quotes);

static void json_list(json_job *job, cti_jinja_value value) {
    cti_jinja_add_text(&job->out, "[", value.mark);
    job->depth++;
    for (int64_t i = 0; i < value.list->count && cti_jinja_step(job->out.run); i++) {
        json_separate(job, i, value.mark);
        json_value(job, value.list->item[i], value.mark);
    }
    job->depth--;
    if (value.list->count) json_line(job, value.mark);
    cti_jinja_add_text(&job->out, "]", value.mark);
}

static void json_key(json_job *job, cti_jinja_value key, int32_t mark) {
    char text[CTI_JINJA_DIGITS];
    if (key.kind == CTI_JINJA_STRING) {
        json_string(job, key.string, mark);
    } else if (json_scalar(key, text)) {
        cti_jinja_add_text(&job->out, "\"", mark);
        cti_jinja_add_text(&job->out, text, key.mark);
        cti_jinja_add_text(&job->out, "\"", mark);
    } else {
        cti_jinja_fail(job->out.run, "keys must be str, int, float, bool or None, not %s",
                       cti_jinja_type_name(key));
    }
    if (job->key_separator.kind == CTI_JINJA_STRING)
        json_made(job, job->key_separator.string, mark);
    else cti_jinja_add_text(&job->out, ": ", mark);
}

static void json_dict(json_job *job, cti_jinja_value value) {
    cti_jinja_run *run = job->out.run;
    const cti_jinja_dict *dict = value.dict;
    const int64_t *order = NULL;
    if (job->sort_keys && dict->count) {
        cti_jinja_list *keys = cti_jinja_list_new(run, dict->count);
        for (int64_t i = 0; i < dict->count; i++) cti_jinja_append(run, keys, dict->entry[i].key);
        order = cti_jinja_order(run, keys, false, false);
        if (!order) return;
    }
    cti_jinja_add_text(&job->out, "{", value.mark);
    job->depth++;
    for (int64_t i = 0; i < dict->count && cti_jinja_step(run); i++) {
        const cti_jinja_entry *entry = &dict->entry[order ? order[i] : i];
        json_separate(job, i, value.mark);
        json_key(job, entry->key, value.mark);
        json_value(job, entry->value, value.mark);
    }
    job->depth--;
    if (dict->count) json_line(job, value.mark);
    cti_jinja_add_text(&job->out, "}", value.mark);
}

static void json_value(json_job *job, cti_jinja_value value, int32_t quotes) {
    char text[CTI_JINJA_DIGITS];
    const bool list = value.kind == CTI_JINJA_LIST || value.kind == CTI_JINJA_TUPLE;
    if (value.kind == CTI_JINJA_STRING) {
        json_string(job, value.string, quotes);
    } else if (json_scalar(value, text)) {
        cti_jinja_add_text(&job->out, text, value.mark);
    } else if (!list && value.kind != CTI_JINJA_DICT) {
        cti_jinja_fail(job->out.run, "Object of type %s is not JSON serializable",
                       cti_jinja_type_name(value));
    } else if (cti_jinja_enter(job->out.run)) {
        if (list) json_list(job, value);
        else json_dict(job, value);
        cti_jinja_leave(job->out.run);
    }
}

/* separators: two strings; two of any kind where a string is written, which needs none. */
static void json_separators(json_job *job, cti_jinja_value value, bool string) {
    cti_jinja_run *run = job->out.run;
    const cti_jinja_list *two = cti_jinja_collect(run, value);
    if (!two) return;
    if (two->count != 2 || (!string && (two->item[0].kind != CTI_JINJA_STRING ||
                                        two->item[1].kind != CTI_JINJA_STRING))) {
        cti_jinja_fail(run, "tojson: separators must be two strings");
        return;
    }
    job->item_separator = two->item[0];
    job->key_separator = two->item[1];
}

cti_jinja_value cti_jinja_filter_tojson(cti_jinja_run *run, const cti_jinja_call *call) {
    enum { VALUE, ENSURE_ASCII, INDENT, SEPARATORS, SORT_KEYS };
    const cti_jinja_value value = call->arg[VALUE], indent = call->arg[INDENT];
    json_job job = {.out = cti_jinja_build(run),
                    .ascii = cti_jinja_truth(run, call->arg[ENSURE_ASCII]),
                    .sort_keys = cti_jinja_truth(run, call->arg[SORT_KEYS]),
                    .indented = !cti_jinja_is_none(indent),
                    .indent = indent};
    const bool string = value.kind == CTI_JINJA_STRING;
    if (job.indented && indent.kind != CTI_JINJA_STRING && !string)
        job.indent = cti_jinja_arithmetic(run, "*", cti_jinja_string_view(run, " ", 1, 0), indent);
    if (!cti_jinja_is_none(call->arg[SEPARATORS]))
        json_separators(&job, call->arg[SEPARATORS], string);
    if (run->failed) return value;
    json_value(&job, value, value.mark);
    return cti_jinja_built(&job.out, false);
}
