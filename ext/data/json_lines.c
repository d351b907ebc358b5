/* ct_json_lines: texts and conversations of a file that has a JSON object in each line, or one
 * array of objects.
 *
 * A part of the file is in a buffer that grows until a whole line or element is in it. It is parsed
 * in its place (json_line.c), so its texts lie in the buffer until the next call. */
#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/object.h"
#include "../../src/io/file.h"
#include "../../src/io/json.h"
#include "json_line.h"

enum { LINES_READ = 1 << 16 }; /* bytes that are read at once */

static const char lines_open_op[] = "json_lines_open", lines_next_op[] = "json_lines_next";

struct ct_json_lines {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_file file;
    char *path;
    int64_t at; /* the offset in the file of the next byte to read */
    /* the bytes that were read: text[begin ... size) follow the lines that were returned, and
     * text[begin ... seen) have no line end */
    char *text;
    size_t begin, seen, size, room;
    int64_t number; /* a line number, from 1 on: of the last line that was returned, or, in an
                     * array, of the line of the byte at `begin` */
    bool is_begun, is_array;
    bool has_ended; /* behind the array's bracket, or behind an error in it */
    bool has_items; /* an element of the array was returned */
    /* the byte behind an element, in whose place a NUL stands until the next call; 0: none */
    char behind;
    cti_line_memory memory;
};
_Static_assert(sizeof(ct_json_lines) <= CTI_OBJECT_BYTES, "a file of lines is an object");

/* ---- open and close ---- */

static void json_lines_end(cti_hook *self) {
    ct_json_lines *lines = (ct_json_lines *)self;
    cti_file_close(&lines->file);
    free(lines->path);
    free(lines->text);
    cti_line_memory_free(&lines->memory);
    lines->path = lines->text = NULL;
    cti_object_end(&lines->object, "");
}

void ct_json_lines_close(ct_json_lines *lines) {
    if (lines && lines->object.self == &lines->object) json_lines_end(&lines->object.hook);
}

static bool lines_no_memory(ct_context *context, const char *op) {
    return ct_fail(context, CT_ERR_MEMORY, "%s: out of memory", op);
}

static bool lines_open(ct_json_lines *lines, const char *path) {
    if (!path)
        return ct_fail(lines->context, CT_ERR_ARGUMENT, "%s: the path is NULL", lines_open_op);
    const size_t size = strlen(path) + 1;
    lines->path = malloc(size);
    if (!lines->path) return lines_no_memory(lines->context, lines_open_op);
    memcpy(lines->path, path, size);
    return cti_file_open(lines->context, lines_open_op, lines->path, &lines->file);
}

ct_json_lines *ct_json_lines_open(ct_context *context, const char *path) {
    ct_json_lines *lines = cti_object_new(context, sizeof *lines, "file of JSON lines");
    if (!lines) return NULL;
    cti_object_end_with_context(&lines->object, json_lines_end);
    lines->file.fd = -1;
    if (lines_open(lines, path)) return lines;
    json_lines_end(&lines->object.hook);
    return NULL;
}

/* ---- lines ---- */

/* Moves the bytes that are left to the beginning, and reads more behind them; a NUL follows. */
static bool buffer_fill(ct_json_lines *lines) {
    const size_t left = lines->size - lines->begin;
    const size_t more = (size_t)cti_min(LINES_READ, lines->file.size - lines->at);
    if (lines->begin) memmove(lines->text, lines->text + lines->begin, left);
    lines->seen -= lines->begin;
    lines->size = left;
    lines->begin = 0;
    if (lines->room < left + more + 1) {
        if (left > SIZE_MAX / 2 - LINES_READ) return lines_no_memory(lines->context, lines_next_op);
        const size_t room = left + left / 2 + LINES_READ + 1;
        char *text = realloc(lines->text, room);
        if (!text) return lines_no_memory(lines->context, lines_next_op);
        lines->text = text;
        lines->room = room;
    }
    if (!cti_file_read(&lines->file, lines->at, lines->text + left, more)) return false;
    lines->at += (int64_t)more;
    lines->size += more;
    return true;
}

/* Finds the next line; its NUL takes the place of the line end. Returns false at the end of the
 * file, or after an error. */
static bool line_find(ct_json_lines *lines, cti_text *line) {
    const char *end = NULL;
    while (!end) {
        if (lines->size > lines->seen)
            end = memchr(lines->text + lines->seen, '\n', lines->size - lines->seen);
        lines->seen = lines->size;
        if (end || lines->at == lines->file.size) break;
        if (!buffer_fill(lines)) return false;
    }
    if (!end && lines->begin == lines->size) return false;
    const size_t last = end ? (size_t)(end - lines->text) : lines->size;
    *line = (cti_text){lines->text + lines->begin, last - lines->begin};
    lines->text[last] = 0;
    lines->begin = lines->seen = end ? last + 1 : last;
    lines->number++;
    return true;
}

static bool is_blank(cti_text line) {
    for (size_t i = 0; i < line.size; i++)
        if (!strchr(" \t\r", line.at[i]) || !line.at[i]) return false;
    return true;
}

/* ---- an array ---- */

/* The next byte that is no white space, which becomes text[begin]; -1 at the end of the file and
 * after an error. Counts lines. */
static int next_byte(ct_json_lines *lines) {
    for (;;) {
        for (; lines->begin < lines->size; lines->begin++) {
            const char c = lines->text[lines->begin];
            if (!c || !strchr(" \t\r\n", c)) return (unsigned char)c;
            lines->number += c == '\n';
        }
        lines->seen = lines->begin;
        if (lines->at == lines->file.size || !buffer_fill(lines)) return -1;
    }
}

/* Passes over a byte order mark, and decides between lines and an array by the first byte that is
 * no white space. */
static bool lines_begin(ct_json_lines *lines) {
    while (lines->size < 3 && lines->at < lines->file.size)
        if (!buffer_fill(lines)) return false;
    if (lines->size >= 3 && !memcmp(lines->text, "\xef\xbb\xbf", 3)) lines->begin = 3;
    lines->number = 1;
    lines->is_array = next_byte(lines) == '[';
    if (ct_error(lines->context) != CT_OK) return false;
    lines->is_begun = true;
    if (lines->is_array) {
        lines->begin++;
    } else { /* back to the beginning of the line, which line_find counts */
        lines->number--;
        while (lines->begin && strchr(" \t\r", lines->text[lines->begin - 1])) lines->begin--;
    }
    lines->seen = lines->begin;
    return true;
}

static bool array_fail(const ct_json_lines *lines, const char *fault) {
    return ct_fail(lines->context, CT_ERR_FORMAT, "%s: %s:%" PRId64 ": %s", lines_next_op,
                   lines->path, lines->number, fault);
}

/* How far an element has been read. */
typedef struct {
    size_t size; /* the bytes that were seen */
    int64_t depth;
    bool in_string, escaped;
} element_scan;

/* Reads on in text[begin + size ... lines->size). Returns whether the element ends there. An array
 * or object ends behind the bracket that closes it; a scalar ends before a comma or a bracket. */
static bool scan_element(element_scan *scan, const ct_json_lines *lines) {
    for (; lines->begin + scan->size < lines->size; scan->size++) {
        const char c = lines->text[lines->begin + scan->size];
        if (scan->in_string) {
            scan->in_string = scan->escaped || c != '"';
            scan->escaped = !scan->escaped && c == '\\';
        } else if (c == '"') {
            scan->in_string = true;
        } else if (c == '{' || c == '[') {
            scan->depth++;
        } else if (scan->depth == 0 && (c == ',' || c == ']')) {
            return true;
        } else if (c == '}' || c == ']') {
            scan->depth--;
            if (scan->depth > 0) continue;
            scan->size++;
            return true;
        }
    }
    return false;
}

/* Finds the next element of an array. A NUL takes the place of the byte behind it; the next call
 * puts that byte back. Returns false behind the last element, or after an error. */
static bool element_find(ct_json_lines *lines, cti_text *element) {
    if (lines->has_ended) return false;
    if (lines->behind) lines->text[lines->begin] = lines->behind;
    lines->behind = 0;
    int c = next_byte(lines);
    if (lines->has_items && c == ',') {
        lines->begin++;
        c = next_byte(lines);
        if (c == ']') return array_fail(lines, "an object is expected behind the comma");
    } else if (c != ']' && lines->has_items && c >= 0) {
        return array_fail(lines, "a comma or the bracket that ends the array is expected");
    }
    if (ct_error(lines->context) != CT_OK) return false;
    if (c < 0) return array_fail(lines, "the array does not end");
    if (c == ']') {
        lines->has_ended = true;
        lines->begin++;
        if (next_byte(lines) < 0) return false;
        return array_fail(lines, "the file goes on behind the array");
    }
    element_scan scan = {0};
    while (!scan_element(&scan, lines) && lines->at < lines->file.size)
        if (!buffer_fill(lines)) return false;
    *element = (cti_text){lines->text + lines->begin, scan.size};
    lines->has_items = true;
    return true;
}

/* Puts a NUL behind an element, and passes over it. */
static void element_take(ct_json_lines *lines, cti_text element) {
    for (size_t i = 0; i < element.size; i++) lines->number += element.at[i] == '\n';
    lines->begin += element.size;
    lines->seen = lines->begin;
    if (lines->begin < lines->size) lines->behind = lines->text[lines->begin];
    lines->text[lines->begin] = 0;
}

/* ---- the next object ---- */

static bool object_read_at(ct_json_lines *lines, cti_text text, ct_json_line *line) {
    const size_t room = strlen(lines->path) + 24;
    const int64_t number = line->number;
    char *place = malloc(room);
    if (!place) return lines_no_memory(lines->context, lines_next_op);
    snprintf(place, room, "%s:%" PRId64, lines->path, number);
    const bool done =
        cti_json_line_read(lines->context, place, (char *)text.at, text.size, &lines->memory, line);
    line->number = number;
    free(place);
    return done;
}

static bool object_find(ct_json_lines *lines, cti_text *text, int64_t *number) {
    if (!lines->is_begun && !lines_begin(lines)) return false;
    if (lines->is_array) {
        if (!element_find(lines, text)) return false;
        *number = lines->number;
        element_take(lines, *text);
        return true;
    }
    do {
        if (!line_find(lines, text)) return false;
    } while (is_blank(*text));
    *number = lines->number;
    return true;
}

bool ct_json_lines_next(ct_json_lines *lines, ct_json_line *line) {
    if (!lines || !cti_object_is_ready(&lines->object, "ct_json_lines_next", "lines", NULL))
        return false;
    if (!line) return ct_fail(lines->context, CT_ERR_ARGUMENT, "%s: line is NULL", lines_next_op);
    *line = (ct_json_line){0};
    lines->file.op = lines_next_op;
    cti_text text = {0};
    ct_json_line found = {0};
    const bool done =
        object_find(lines, &text, &found.number) && object_read_at(lines, text, &found);
    if (done) *line = found;
    else if (ct_error(lines->context) == CT_ERR_FORMAT) lines->has_ended = true;
    return done;
}
