/* The filter pprint: Python's pprint.pformat, in lines of 80 characters if values fit. */
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "filters.h"
#include "number.h"
#include "text.h"

typedef struct {
    cti_jinja_run *run;
    cti_jinja_builder out;
} pprint_job;

/* Where a value is shown: the column it begins in, and how many characters follow its last line. */
typedef struct {
    int64_t indent, allowance, level;
    int32_t mark; /* of the container */
} pprint_place;

enum { LINE_WIDTH = 80 };

static bool is_group(cti_jinja_value value) {
    return value.kind == CTI_JINJA_TUPLE && value.list->name;
}
static bool is_listed(cti_jinja_value value) {
    return value.kind == CTI_JINJA_LIST || (value.kind == CTI_JINJA_TUPLE && !is_group(value));
}

static const char *class_name(cti_jinja_value value) { return cti_jinja_type_name(value); }

/* Keys of kinds without an order are sorted by their class. */
static bool key_before(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b) {
    const bool strings = a.kind == CTI_JINJA_STRING && b.kind == CTI_JINJA_STRING;
    const bool numbers =
        (a.kind == CTI_JINJA_REAL || a.kind == CTI_JINJA_INT || a.kind == CTI_JINJA_BOOL) &&
        (b.kind == CTI_JINJA_REAL || b.kind == CTI_JINJA_INT || b.kind == CTI_JINJA_BOOL);
    if (strings || numbers || (a.kind == CTI_JINJA_TUPLE && b.kind == CTI_JINJA_TUPLE))
        return cti_jinja_compare(run, "<", a, b);
    return strcmp(class_name(a), class_name(b)) < 0;
}

/* The indices of a dict's entries in the order of their keys. */
static int64_t *key_order(cti_jinja_run *run, const cti_jinja_dict *dict) {
    int64_t *order = cti_jinja_take(run, (size_t)dict->count + 1, sizeof *order);
    for (int64_t i = 0; order && i < dict->count; i++) {
        int64_t low = 0, high = i;
        while (low < high && cti_jinja_step(run)) {
            const int64_t middle = low + (high - low) / 2;
            if (key_before(run, dict->entry[i].key, dict->entry[order[middle]].key)) high = middle;
            else low = middle + 1;
        }
        memmove(order + low + 1, order + low, (size_t)(i - low) * sizeof *order);
        order[low] = i;
    }
    return run->failed ? NULL : order;
}

/* repr(value) with sorted keys. */
static void add_line(cti_jinja_builder *out, cti_jinja_value value, int32_t quotes) {
    cti_jinja_run *run = out->run;
    const bool dict = value.kind == CTI_JINJA_DICT;
    if (!dict && !is_listed(value)) {
        cti_jinja_repr(out, value, quotes);
        return;
    }
    if (!cti_jinja_enter(run)) return;
    const bool list = value.kind == CTI_JINJA_LIST;
    const int64_t count = dict ? value.dict->count : value.list->count;
    const int64_t *order = dict ? key_order(run, value.dict) : NULL;
    cti_jinja_add_text(out, dict ? "{" : list ? "[" : "(", value.mark);
    for (int64_t i = 0; i < count && cti_jinja_step(run); i++) {
        if (i) cti_jinja_add_text(out, ", ", value.mark);
        if (dict) {
            add_line(out, value.dict->entry[order[i]].key, value.mark);
            cti_jinja_add_text(out, ": ", value.mark);
        }
        add_line(out, dict ? value.dict->entry[order[i]].value : value.list->item[i], value.mark);
    }
    const bool single = !dict && !list && count == 1;
    cti_jinja_add_text(out, dict ? "}" : list ? "]" : single ? ",)" : ")", value.mark);
    cti_jinja_leave(run);
}

static const cti_jinja_string *line_of(cti_jinja_run *run, cti_jinja_value value, int32_t quotes) {
    cti_jinja_builder out = cti_jinja_build(run);
    add_line(&out, value, quotes);
    const cti_jinja_value line = cti_jinja_built(&out, false);
    return run->failed ? NULL : line.string;
}

static void add_break(pprint_job *job, const char *before, int64_t indent, int32_t mark) {
    cti_jinja_add_text(&job->out, before, mark);
    for (int64_t i = 0; i < indent && !job->run->failed; i++)
        cti_jinja_add_text(&job->out, " ", mark);
}

static void pprint_value(pprint_job *job, cti_jinja_value value, pprint_place place);

/* The items of a container that does not fit in a line, each in a line of its own. */
static void pprint_items(pprint_job *job, cti_jinja_value value, pprint_place place) {
    const bool dict = value.kind == CTI_JINJA_DICT, list = value.kind == CTI_JINJA_LIST;
    const int64_t count = dict ? value.dict->count : value.list->count;
    const char *close = dict ? "}" : list ? "]" : count == 1 ? ",)" : ")";
    const int64_t *order = dict ? key_order(job->run, value.dict) : NULL;
    pprint_place inner = {.indent = place.indent + 1, .level = place.level, .mark = value.mark};
    cti_jinja_add_text(&job->out, dict ? "{" : list ? "[" : "(", value.mark);
    for (int64_t i = 0; i < count && cti_jinja_step(job->run); i++) {
        if (i) add_break(job, ",\n", place.indent + 1, value.mark);
        inner.allowance = i < count - 1 ? 1 : place.allowance + (int64_t)strlen(close);
        inner.indent = place.indent + 1;
        if (dict) {
            const cti_jinja_entry *entry = &value.dict->entry[order[i]];
            const cti_jinja_string *key = line_of(job->run, entry->key, value.mark);
            if (!key) return;
            cti_jinja_add_string(&job->out, key);
            cti_jinja_add_text(&job->out, ": ", value.mark);
            inner.indent += key->length + 2;
            pprint_value(job, entry->value, inner);
        } else {
            pprint_value(job, value.list->item[i], inner);
        }
    }
    cti_jinja_add_text(&job->out, close, value.mark);
}

/* ---- strings ---- */

typedef struct {
    pprint_job *job;
    cti_jinja_list *chunks;        /* parts of the string, a line of output each */
    int64_t width, last_allowance; /* for a chunk, and what the last one leaves free */
    int32_t mark;
} string_cut;

static int64_t repr_length(cti_jinja_run *run, cti_jinja_value part, int32_t mark) {
    const cti_jinja_string *text = run->failed ? NULL : line_of(run, part, mark);
    return text ? text->length : 0;
}

/* The end of the word, and of the white space behind it, that begins at a byte. */
static size_t word_end(const cti_jinja_string *string, size_t at) {
    bool space = false;
    for (size_t length; at < string->size; at += length) {
        const bool is = cti_python_is_space(cti_utf8_get(string->at + at, &length));
        if (space && !is) break;
        space = is;
    }
    return at;
}

/* Cuts a line of the string between words. */
static void cut_line(string_cut *cut, const cti_jinja_string *line, bool last_line) {
    cti_jinja_run *run = cut->job->run;
    size_t begin = 0, at = 0;
    while (at < line->size && cti_jinja_step(run)) {
        const size_t end = word_end(line, at);
        const int64_t width =
            cut->width - (last_line && end == line->size ? cut->last_allowance : 0);
        const cti_jinja_value candidate = cti_jinja_substring(run, line, begin, end);
        if (repr_length(run, candidate, cut->mark) > width) {
            if (at > begin)
                cti_jinja_append(run, cut->chunks, cti_jinja_substring(run, line, begin, at));
            begin = at;
        }
        at = end;
    }
    if (at > begin) cti_jinja_append(run, cut->chunks, cti_jinja_substring(run, line, begin, at));
}

static void pprint_string(pprint_job *job, cti_jinja_value value, pprint_place place) {
    cti_jinja_run *run = job->run;
    const bool outermost = place.level == 1;
    const int64_t indent = place.indent + outermost;
    string_cut cut = {.job = job,
                      .chunks = cti_jinja_list_new(run, 0),
                      .width = LINE_WIDTH - indent,
                      .last_allowance = place.allowance + outermost,
                      .mark = place.mark};
    const cti_jinja_list *lines = cti_jinja_splitlines(run, value.string, true);
    if (run->failed) return;
    for (int64_t i = 0; i < lines->count && cti_jinja_step(run); i++) {
        const bool last = i == lines->count - 1;
        const int64_t width = cut.width - (last ? cut.last_allowance : 0);
        if (repr_length(run, lines->item[i], place.mark) <= width)
            cti_jinja_append(run, cut.chunks, lines->item[i]);
        else cut_line(&cut, lines->item[i].string, last);
    }
    if (run->failed) return;
    const bool enclosed = outermost && cut.chunks->count != 1;
    if (enclosed) cti_jinja_add_text(&job->out, "(", place.mark);
    for (int64_t i = 0; i < cut.chunks->count && cti_jinja_step(run); i++) {
        if (i) add_break(job, "\n", indent, place.mark);
        cti_jinja_repr(&job->out, cut.chunks->item[i], place.mark);
    }
    if (enclosed) cti_jinja_add_text(&job->out, ")", place.mark);
}

static void pprint_value(pprint_job *job, cti_jinja_value value, pprint_place place) {
    const cti_jinja_string *line = line_of(job->run, value, place.mark);
    if (!line || !cti_jinja_enter(job->run)) return;
    place.level++;
    const bool fits = line->length <= LINE_WIDTH - place.indent - place.allowance;
    if (!fits && (value.kind == CTI_JINJA_DICT || is_listed(value)))
        pprint_items(job, value, place);
    else if (!fits && value.kind == CTI_JINJA_STRING && !value.string->markup)
        pprint_string(job, value, place);
    else cti_jinja_add_string(&job->out, line);
    cti_jinja_leave(job->run);
}

CTI_JINJA_FILTER(pprint) {
    pprint_job job = {.run = run, .out = cti_jinja_build(run)};
    pprint_value(&job, call->arg[0], (pprint_place){.mark = call->arg[0].mark});
    return cti_jinja_built(&job.out, false);
}
