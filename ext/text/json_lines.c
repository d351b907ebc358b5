/* ct_json_lines: texts and conversations of a file that has a JSON object in each line.
 *
 * A part of the file is in a buffer that grows until a whole line is in it. The line is parsed in
 * its place, so its texts lie in the buffer until the next call. */
#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/object.h"
#include "../../src/io/file.h"
#include "../../src/io/json_tree.h"
#include "tokenizer.h"

enum {
    LINES_READ = 1 << 16, /* bytes that are read at once */
    LINES_MEMBERS = 64    /* the most members of an object, so that no key is there twice */
};

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
    int64_t number; /* the number of the last line, from 1 on */
    ct_message *messages;
    size_t messages_room;
};
_Static_assert(sizeof(ct_json_lines) <= CTI_OBJECT_BYTES, "a file of lines is an object");

/* ---- open and close ---- */

static void json_lines_end(ct_json_lines *lines) {
    cti_file_close(&lines->file);
    free(lines->path);
    free(lines->text);
    free(lines->messages);
    lines->path = lines->text = NULL;
    lines->messages = NULL;
    cti_object_end(&lines->object, "");
}

/* The argument is the address of a field, because no function that the program registers has this
 * argument. */
static void lines_close_with_context(void *number) {
    ct_json_lines_close((ct_json_lines *)((char *)number - offsetof(ct_json_lines, number)));
}

void ct_json_lines_close(ct_json_lines *lines) {
    if (!lines || lines->object.self != &lines->object) return;
    ct_context_on_free(lines->context, NULL, &lines->number);
    json_lines_end(lines);
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
    return cti_file_open(lines->context, lines_open_op, lines->path, &lines->file) &&
           ct_context_on_free(lines->context, lines_close_with_context, &lines->number);
}

ct_json_lines *ct_json_lines_open(ct_context *context, const char *path) {
    ct_json_lines *lines = cti_object_new(context, sizeof *lines, "file of JSON lines");
    if (!lines) return NULL;
    lines->file.fd = -1;
    if (lines_open(lines, path)) return lines;
    json_lines_end(lines);
    return NULL;
}

/* ---- lines ---- */

/* Moves the bytes that are left to the beginning, and reads more behind them; a NUL follows. */
static bool read_more(ct_json_lines *lines) {
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
static bool find_line(ct_json_lines *lines, cti_text *line) {
    const char *end = NULL;
    while (!end) {
        if (lines->size > lines->seen)
            end = memchr(lines->text + lines->seen, '\n', lines->size - lines->seen);
        lines->seen = lines->size;
        if (end || lines->at == lines->file.size) break;
        if (!read_more(lines)) return false;
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

/* ---- a line's object ---- */

/* A line that is being parsed. `path` is "file:line". */
typedef struct {
    ct_json_lines *lines;
    const char *path;
    cti_json_tree tree;
} line_reading;

static bool line_fail(const line_reading *reading, cti_json_at value, const char *fault) {
    return ct_fail(reading->lines->context, CT_ERR_FORMAT, "%s: %s: byte %lu: %s", lines_next_op,
                   reading->path, (unsigned long)reading->tree.value[value].begin, fault);
}

static bool read_string(const line_reading *reading, cti_json_at value, const char *fault,
                        const char **out) {
    if (!value || reading->tree.value[value].kind != CTI_JSON_STRING)
        return line_fail(reading, value, fault);
    const cti_text text = cti_json_text(&reading->tree, value);
    if (strlen(text.at) != text.size)
        return line_fail(reading, value, "a message cannot have the character U+0000");
    *out = text.at;
    return true;
}

/* The names of a message's members: OpenAI's, and ShareGPT's. */
typedef struct {
    const char *list, *role, *content, *no_list, *no_role, *no_content;
} message_names;

static const message_names message_forms[] = {
    {"messages", "role", "content", "\"messages\" is not a list of messages",
     "a message needs a \"role\", which is a text", "a message needs a \"content\", a text"},
    {"conversations", "from", "value", "\"conversations\" is not a list of messages",
     "a message needs a \"from\", which is a text", "a message needs a \"value\", a text"},
};

/* ShareGPT's names of roles in the words of chat templates. */
static const char *usual_role(const char *role) {
    if (!strcmp(role, "human")) return "user";
    if (!strcmp(role, "gpt")) return "assistant";
    return role;
}

static bool read_message(const line_reading *reading, cti_json_at value, const message_names *names,
                         ct_message *message) {
    const cti_json_tree *tree = &reading->tree;
    if (tree->value[value].kind != CTI_JSON_OBJECT)
        return line_fail(reading, value, "a message is not an object");
    if (tree->value[value].count > LINES_MEMBERS)
        return line_fail(reading, value, "the object has more than 64 members");
    const cti_json_at role = cti_json_member(tree, value, names->role),
                      content = cti_json_member(tree, value, names->content);
    if (!read_string(reading, role ? role : value, names->no_role, &message->role) ||
        !read_string(reading, content ? content : value, names->no_content, &message->content))
        return false;
    if (names != message_forms) message->role = usual_role(message->role);
    return true;
}

static bool read_messages(const line_reading *reading, cti_json_at list,
                          const message_names *names) {
    ct_json_lines *lines = reading->lines;
    const cti_json_tree *tree = &reading->tree;
    if (tree->value[list].kind != CTI_JSON_ARRAY || !tree->value[list].count)
        return line_fail(reading, list, names->no_list);
    const size_t n = tree->value[list].count;
    if (n > lines->messages_room) {
        ct_message *messages = n <= SIZE_MAX / sizeof *messages
                                   ? realloc(lines->messages, n * sizeof *messages)
                                   : NULL;
        if (!messages) return lines_no_memory(lines->context, lines_next_op);
        lines->messages = messages;
        lines->messages_room = n;
    }
    ct_message *next = lines->messages;
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next)
        if (!read_message(reading, i, names, next++)) return false;
    return true;
}

static bool read_line(const line_reading *reading, ct_json_line *line) {
    const cti_json_tree *tree = &reading->tree;
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return line_fail(reading, 0,
                         "the line is not an object; the file needs one object in each line");
    if (tree->value[0].count > LINES_MEMBERS)
        return line_fail(reading, 0, "the object has more than 64 members");
    const cti_json_at text = cti_json_member(tree, 0, "text");
    int forms = text != 0;
    for (int i = 0; i < 2; i++) {
        const cti_json_at list = cti_json_member(tree, 0, message_forms[i].list);
        if (!list) continue;
        forms++;
        if (!read_messages(reading, list, &message_forms[i])) return false;
        line->messages = reading->lines->messages;
        line->n_messages = tree->value[list].count;
    }
    if (forms != 1)
        return line_fail(reading, 0,
                         forms ? "the line has more than one of \"text\", \"messages\" and "
                                 "\"conversations\""
                               : "the line has no \"text\", \"messages\" or \"conversations\"");
    if (!text) return true;
    if (tree->value[text].kind != CTI_JSON_STRING)
        return line_fail(reading, text, "\"text\" is not a text");
    line->text = cti_json_text(tree, text).at;
    line->bytes = cti_json_text(tree, text).size;
    return true;
}

static bool parse_line(ct_json_lines *lines, cti_text text, ct_json_line *line) {
    const size_t room = strlen(lines->path) + 24;
    char *path = malloc(room);
    if (!path) return lines_no_memory(lines->context, lines_next_op);
    snprintf(path, room, "%s:%" PRId64, lines->path, lines->number);
    line_reading reading = {.lines = lines, .path = path};
    bool done = cti_json_tree_read(lines->context, lines_next_op, path, (char *)text.at, text.size,
                                   &reading.tree);
    if (done) {
        done = read_line(&reading, line);
        cti_json_tree_free(&reading.tree);
    }
    free(path);
    return done;
}

/* Leaves out the byte order mark that some programs write at the beginning of a file. */
static void skip_mark(const ct_json_lines *lines, cti_text *text) {
    if (lines->number != 1 || text->size < 3 || memcmp(text->at, "\xef\xbb\xbf", 3) != 0) return;
    text->at += 3;
    text->size -= 3;
}

bool ct_json_lines_next(ct_json_lines *lines, ct_json_line *line) {
    if (!lines || !cti_object_is_ready(&lines->object, "ct_json_lines_next", "lines", NULL))
        return false;
    if (!line) return ct_fail(lines->context, CT_ERR_ARGUMENT, "%s: line is NULL", lines_next_op);
    *line = (ct_json_line){0};
    lines->file.op = lines_next_op;
    cti_text text;
    do {
        if (!find_line(lines, &text)) return false;
        skip_mark(lines, &text);
    } while (is_blank(text));
    ct_json_line found = {.number = lines->number};
    if (!parse_line(lines, text, &found)) return false;
    *line = found;
    return true;
}
