/* Strings: UTF-8 with the length in characters, and a mark for each byte. */
#include <string.h>

#include "../utf8.h"
#include "value.h"

static int64_t count_characters(const char *at, size_t size) {
    size_t ascii = cti_utf8_ascii(at, size);
    int64_t count = (int64_t)ascii;
    for (; ascii < size; ascii++) count += !cti_utf8_continues(at[ascii]);
    return count;
}

static const cti_jinja_string empty_string = {.at = ""};

cti_jinja_value cti_jinja_string_value(const cti_jinja_string *string) {
    return (cti_jinja_value){.kind = CTI_JINJA_STRING,
                             .mark = string ? string->mark : 0,
                             .string = string ? string : &empty_string};
}

static cti_jinja_value new_string(cti_jinja_run *run, cti_jinja_string string) {
    cti_jinja_string *copy = cti_jinja_take(run, 1, sizeof *copy);
    if (!copy) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    *copy = string;
    return cti_jinja_string_value(copy);
}

cti_jinja_value cti_jinja_string_view(cti_jinja_run *run, const char *at, size_t size,
                                      int32_t mark) {
    return new_string(
        run, (cti_jinja_string){
                 .at = at, .size = size, .length = count_characters(at, size), .mark = mark});
}

cti_jinja_value cti_jinja_string_make(cti_jinja_run *run, const char *at, size_t size,
                                      int32_t mark) {
    char *copy = cti_jinja_take(run, size + 1, 1);
    if (!copy) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    memcpy(copy, at, size);
    copy[size] = 0;
    return cti_jinja_string_view(run, copy, size, mark);
}

/* The index of the span in which a byte lies. */
static uint32_t span_of(const cti_jinja_string *string, size_t byte) {
    uint32_t low = 0, high = string->spans - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (string->span[middle].end > byte) high = middle;
        else low = middle + 1;
    }
    return low;
}

int32_t cti_jinja_mark_at(const cti_jinja_string *string, size_t byte) {
    return string->spans ? string->span[span_of(string, byte)].mark : string->mark;
}

cti_jinja_value cti_jinja_substring(cti_jinja_run *run, const cti_jinja_string *string,
                                    size_t begin, size_t end) {
    if (!begin && end == string->size) return cti_jinja_string_value(string);
    if (end < begin) end = begin;
    cti_jinja_string part = {.at = string->at + begin,
                             .size = end - begin,
                             .mark = string->mark,
                             .markup = string->markup};
    part.length =
        cti_jinja_is_ascii(string) ? (int64_t)part.size : count_characters(part.at, part.size);
    if (string->spans && part.size) {
        const uint32_t first = span_of(string, begin), last = span_of(string, end - 1);
        if (first == last) {
            part.mark = string->span[first].mark;
        } else {
            cti_jinja_span *span = cti_jinja_take(run, last - first + 1, sizeof *span);
            if (!span) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
            for (uint32_t i = first; i <= last; i++)
                span[i - first] =
                    (cti_jinja_span){string->span[i].end - begin, string->span[i].mark};
            span[last - first].end = part.size;
            part.span = span;
            part.spans = last - first + 1;
        }
    }
    return new_string(run, part);
}

cti_jinja_value cti_jinja_string_markup(cti_jinja_run *run, const cti_jinja_string *string,
                                        bool markup) {
    if (!string) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    cti_jinja_string copy = *string;
    copy.markup = markup;
    return new_string(run, copy);
}

size_t cti_jinja_byte_of(const cti_jinja_string *string, int64_t index) {
    if (cti_jinja_is_ascii(string)) return (size_t)index;
    size_t byte = 0;
    if (index > string->length / 2) { /* from the nearer end */
        byte = string->size;
        for (int64_t left = string->length - index; left > 0; left--) {
            byte--;
            while (cti_utf8_continues(string->at[byte])) byte--;
        }
        return byte;
    }
    for (; index > 0; index--) byte += cti_utf8_length((unsigned char)string->at[byte]);
    return byte;
}

int64_t cti_jinja_index_of(const cti_jinja_string *string, size_t byte) {
    return cti_jinja_is_ascii(string) ? (int64_t)byte : count_characters(string->at, byte);
}

bool cti_jinja_string_is(const cti_jinja_string *string, const char *text) {
    return string && strlen(text) == string->size && !memcmp(string->at, text, string->size);
}

bool cti_jinja_string_equal(const cti_jinja_string *a, const cti_jinja_string *b) {
    return a == b || (a->size == b->size && (a->at == b->at || !memcmp(a->at, b->at, a->size)));
}

/* ---- the builder ---- */

cti_jinja_builder cti_jinja_build(cti_jinja_run *run) { return (cti_jinja_builder){.run = run}; }

/* Makes room for `size` more bytes. */
static bool builder_room(cti_jinja_builder *builder, size_t size) {
    if (builder->run->failed) return false;
    if (size > CTI_JINJA_OUTPUT - builder->size) {
        cti_jinja_fail(builder->run, "the output is longer than %d bytes", CTI_JINJA_OUTPUT);
        return false;
    }
    if (size <= builder->room - builder->size) return true;
    size_t room = builder->room ? 2 * builder->room : 64;
    if (room < builder->size + size) room = builder->size + size;
    char *at = cti_jinja_take(builder->run, room, 1);
    if (!at) return false;
    if (builder->size) memcpy(at, builder->at, builder->size);
    builder->at = at;
    builder->room = room;
    return true;
}

/* Bytes up to builder->size get a mark, if they have none yet. */
static void add_span(cti_jinja_builder *builder, int32_t mark) {
    if (builder->spans && builder->span[builder->spans - 1].mark == mark) {
        builder->span[builder->spans - 1].end = builder->size;
        return;
    }
    if (builder->spans == builder->span_room) {
        const size_t room = builder->span_room ? 2 * builder->span_room : 4;
        cti_jinja_span *span = cti_jinja_take(builder->run, room, sizeof *span);
        if (!span) return;
        if (builder->spans) memcpy(span, builder->span, builder->spans * sizeof *span);
        builder->span = span;
        builder->span_room = room;
    }
    builder->span[builder->spans++] = (cti_jinja_span){builder->size, mark};
}

void cti_jinja_add(cti_jinja_builder *builder, const char *bytes, size_t size, int32_t mark) {
    if (!size || !builder_room(builder, size)) return;
    memcpy(builder->at + builder->size, bytes, size);
    builder->size += size;
    add_span(builder, mark);
}

void cti_jinja_add_text(cti_jinja_builder *builder, const char *text, int32_t mark) {
    cti_jinja_add(builder, text, strlen(text), mark);
}

void cti_jinja_add_part(cti_jinja_builder *builder, const cti_jinja_string *string, size_t begin,
                        size_t end) {
    if (!string || begin >= end) return;
    if (!string->spans) {
        cti_jinja_add(builder, string->at + begin, end - begin, string->mark);
        return;
    }
    for (uint32_t i = span_of(string, begin); begin < end; i++) {
        const size_t stop = string->span[i].end < end ? string->span[i].end : end;
        cti_jinja_add(builder, string->at + begin, stop - begin, string->span[i].mark);
        begin = stop;
    }
}

void cti_jinja_add_string(cti_jinja_builder *builder, const cti_jinja_string *string) {
    if (string) cti_jinja_add_part(builder, string, 0, string->size);
}

cti_jinja_value cti_jinja_built(cti_jinja_builder *builder, bool markup) {
    if (builder->run->failed) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    cti_jinja_string string = {.at = builder->size ? builder->at : "",
                               .size = builder->size,
                               .length = count_characters(builder->at, builder->size),
                               .markup = markup};
    if (builder->spans == 1) {
        string.mark = builder->span[0].mark;
    } else if (builder->spans > 1) {
        string.span = builder->span;
        string.spans = (uint32_t)builder->spans;
    }
    *builder = cti_jinja_build(builder->run);
    return new_string(builder->run, string);
}
