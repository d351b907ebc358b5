/* Labelled texts; see labelled.h. */
#include "labelled.h"
#include "common.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ---- */

typedef struct {
    const char *path;
    char *at; /* the text ends with a NUL, and has no other */
    int64_t line;
    labelled_task task;
} reader;

_Noreturn static void fail_line(const reader *r, const char *what) {
    fail(EXIT_USAGE, "%s:%" PRId64 ": %s", r->path, r->line, what);
}

static void skip_space(reader *r) {
    for (; *r->at && strchr(" \t\r\n", *r->at); r->at++) r->line += *r->at == '\n';
}

static bool takes(reader *r, char c) {
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static void expect(reader *r, char c) {
    char what[40];
    snprintf(what, sizeof what, "JSON needs a %c here", c);
    if (!takes(r, c)) fail_line(r, what);
}

static unsigned long hex_read(reader *r) {
    char digits[5] = "";
    for (int i = 0; i < 4 && isxdigit((unsigned char)*r->at); i++) digits[i] = *r->at++;
    if (!digits[3]) fail_line(r, "\\u needs four digits");
    return strtoul(digits, NULL, 16);
}

static char *utf8_write(char *out, unsigned long c) {
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

static unsigned long escape_read(reader *r) {
    unsigned long c = hex_read(r);
    if (c >= 0xd800 && c < 0xdc00 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        const unsigned long low = hex_read(r);
        if (low >= 0xdc00 && low < 0xe000) return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        c = 0xd800;
    }
    if (c >= 0xd800 && c < 0xe000) fail_line(r, "half of a surrogate pair");
    if (!c) fail_line(r, "U+0000 in a text");
    return c;
}

/* Reads a string into the memory of its spelling, which is not shorter. */
static char *string_read(reader *r) {
    static const char escapes[] = "\"\\/bfnrt", stands[] = "\"\\/\b\f\n\r\t";
    expect(r, '"');
    char *begin = r->at, *out = r->at;
    while (*r->at && *r->at != '"') {
        if ((unsigned char)*r->at < 32) fail_line(r, "a control character in a string");
        if (*r->at != '\\') {
            *out++ = *r->at++;
            continue;
        }
        r->at++;
        const char *which = *r->at ? strchr(escapes, *r->at) : NULL;
        if (which) *out++ = stands[which - escapes], r->at++;
        else if (*r->at == 'u') r->at++, out = utf8_write(out, escape_read(r));
        else fail_line(r, "an unknown escape in a string");
    }
    if (!*r->at) fail_line(r, "a string does not end");
    r->at++;
    *out = 0;
    return begin;
}

static char *copy_text(const char *text, size_t n) {
    char *copy = room_for(NULL, n + 1, 1);
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

/* Reads a word of JSON, such as a number or true. */
static char *scalar_read(reader *r) {
    skip_space(r);
    const size_t n = strcspn(r->at, ",]} \t\r\n");
    if (!n || *r->at == '"') fail_line(r, "not JSON");
    r->at += n;
    return copy_text(r->at - n, n);
}

static bool is_number(const char *text) {
    char *end;
    const double x = strtod(text, &end);
    return *text && !*end && isfinite(x) && !strpbrk(text, "xXpPnN \t");
}

static void value_skip(reader *r, int depth) {
    skip_space(r);
    if (depth > 100) fail_line(r, "JSON is nested too deeply");
    if (*r->at == '"') {
        string_read(r);
    } else if (*r->at == '{' || *r->at == '[') {
        const bool object = *r->at++ == '{';
        const char end = object ? '}' : ']';
        if (takes(r, end)) return;
        do {
            if (object) string_read(r), expect(r, ':');
            value_skip(r, depth + 1);
        } while (takes(r, ','));
        expect(r, end);
    } else {
        free(scalar_read(r));
    }
}

/* ---- a text ---- */

static void label_add(labelled_text *t, const char *text, bool number) {
    t->labels = room_for(t->labels, (size_t)t->n_labels + 1, sizeof *t->labels);
    t->labels[t->n_labels++] = (labelled_word){copy_text(text, strlen(text)), number};
}

static void json_label_read(reader *r, labelled_text *t) {
    skip_space(r);
    if (*r->at == '"') {
        label_add(t, string_read(r), false);
        return;
    }
    char *text = scalar_read(r);
    if (!is_number(text)) fail_line(r, "a label is neither a text nor a number");
    label_add(t, text, true);
    free(text);
}

static void json_labels_read(reader *r, labelled_text *t) {
    if (takes(r, ']')) return;
    do json_label_read(r, t);
    while (takes(r, ','));
    expect(r, ']');
}

static void words_read(reader *r, labelled_text *t) {
    size_t n = 0;
    expect(r, '[');
    t->text = copy_text("", 0);
    if (takes(r, ']')) return;
    do {
        const char *word = string_read(r);
        const size_t size = strlen(word);
        t->text = room_for(t->text, n + size + 2, 1);
        if (n) t->text[n++] = ' ';
        t->word = room_for(t->word, (size_t)t->words + 1, sizeof *t->word);
        t->word[t->words++] = (int64_t)n;
        memcpy(t->text + n, word, size + 1);
        n += size;
    } while (takes(r, ','));
    expect(r, ']');
}

/* A text has one label, or a list of them; tokens have a list of tags. */
static void text_check(reader *r, labelled *l, const labelled_text *t, bool has_labels, bool list) {
    const bool tokens = r->task == LABELLED_TOKENS;
    if (!t->text || !has_labels)
        fail_line(r, tokens ? "an object needs \"tokens\" and \"tags\""
                            : "an object needs \"text\" and \"label\"");
    if (tokens && t->words != t->n_labels)
        fail_line(r, "there is not one tag for each of the tokens");
    if (!tokens && l->n && list != (l->kind == LABELLED_SEVERAL))
        fail_line(r, "some labels are lists and others are not");
    if (!tokens && list) l->kind = LABELLED_SEVERAL;
}

static void text_keep(labelled *l, const labelled_text *t) {
    if (l->n == l->room) {
        l->room = 2 * l->room + 64;
        l->texts = room_for(l->texts, (size_t)l->room, sizeof *l->texts);
    }
    l->texts[l->n++] = *t;
}

static void object_read(reader *r, labelled *l) {
    const bool tokens = r->task == LABELLED_TOKENS;
    labelled_text t = {.line = r->line};
    bool has_labels = false, list = false;
    expect(r, '{');
    if (!takes(r, '}')) {
        do {
            const char *key = string_read(r);
            expect(r, ':');
            skip_space(r);
            if (!strcmp(key, tokens ? "tokens" : "text") && !t.text) {
                if (tokens) {
                    words_read(r, &t);
                } else {
                    const char *text = string_read(r);
                    t.text = copy_text(text, strlen(text));
                }
            } else if (!strcmp(key, tokens ? "tags" : "label") && !has_labels) {
                has_labels = true;
                list = takes(r, '[');
                if (tokens && !list) fail_line(r, "\"tags\" is no list");
                if (list) json_labels_read(r, &t);
                else json_label_read(r, &t);
            } else {
                value_skip(r, 0);
            }
        } while (takes(r, ','));
        expect(r, '}');
    }
    text_check(r, l, &t, has_labels, list);
    text_keep(l, &t);
}

static void json_read(reader *r, labelled *l) {
    const bool array = takes(r, '[');
    if (array && takes(r, ']')) return;
    do {
        skip_space(r);
        if (*r->at) object_read(r, l);
        skip_space(r);
    } while (array ? takes(r, ',') : *r->at != 0);
    if (array) expect(r, ']');
    skip_space(r);
    if (*r->at) fail_line(r, "something stands behind the array");
}

/* ---- CSV ---- */

/* Reads a field; *last is set at the end of its line. A quote in quotes is doubled. */
static char *field_read(reader *r, bool *last) {
    char *begin = r->at, *out = r->at;
    const bool quoted = *r->at == '"';
    if (quoted) {
        for (r->at++; *r->at && (*r->at != '"' || r->at[1] == '"'); r->at++) {
            r->line += *r->at == '\n';
            if (*r->at == '"') r->at++;
            *out++ = *r->at;
        }
        if (!*r->at) fail_line(r, "a quoted field does not end");
        r->at++;
    } else {
        while (*r->at && !strchr(",\r\n", *r->at)) *out++ = *r->at++;
    }
    if (*r->at && !strchr(",\r\n", *r->at)) fail_line(r, "text stands behind a quoted field");
    *last = *r->at != ',';
    char *copy = copy_text(begin, (size_t)(out - begin));
    if (*r->at == '\r') r->at++;
    if (*r->at) r->at++;
    return copy;
}

static void csv_read(reader *r, labelled *l) {
    int column[2] = {-1, -1}, columns = 0;
    bool last = false;
    while (!last) {
        char *name = field_read(r, &last);
        if (!strcmp(name, "text")) column[0] = columns;
        if (!strcmp(name, "label")) column[1] = columns;
        columns++;
        free(name);
    }
    if (column[0] < 0 || column[1] < 0)
        fail_line(r, "the first line of CSV must name the columns text and label");
    for (r->line++; *r->at; r->line++) {
        if (*r->at == '\n') {
            r->at++;
            continue;
        }
        labelled_text t = {.line = r->line};
        int i = 0;
        for (last = false; !last; i++) {
            char *field = field_read(r, &last);
            if (i == column[1]) label_add(&t, field, is_number(field));
            if (i == column[0]) t.text = field;
            else free(field);
        }
        if (i != columns) fail_line(r, "a line has another number of fields than the first one");
        text_keep(l, &t);
    }
}

/* ---- the whole ---- */

static bool ends_in_csv(const char *path) {
    const size_t n = strlen(path);
    return n >= 4 && !strcmp(path + n - 4, ".csv");
}

/* Whether a label has a point. If all of them are numbers, they are values to predict then. */
static bool has_point(const labelled *l) {
    for (int64_t i = 0; i < l->n; i++)
        if (strpbrk(l->texts[i].labels->text, ".eE")) return true;
    return false;
}

bool labelled_become(labelled *l, labelled_kind kind) {
    if (l->kind == kind) return true;
    if (l->kind != LABELLED_ONE || l->task == LABELLED_TOKENS) return false;
    for (int64_t i = 0; i < l->n && kind == LABELLED_REAL; i++) {
        const labelled_word *label = l->texts[i].labels;
        if (!label->is_number) return false;
        l->texts[i].real = strtod(label->text, NULL);
    }
    l->kind = kind;
    return true;
}

labelled labelled_read(const char *path, labelled_task task) {
    labelled l = {.path = path, .task = task};
    contents all = read_text_files(1, (char *[]){(char *)path});
    reader r = {.path = path, .line = 1, .task = task};
    char *text = r.at = copy_text((const char *)all.bytes, (size_t)all.length);
    free(all.bytes);
    if (ends_in_csv(path) && task == LABELLED_TOKENS)
        fail(EXIT_USAGE, "%s: tokens and tags are lines of JSON", path);
    if (ends_in_csv(path)) csv_read(&r, &l);
    else json_read(&r, &l);
    free(text);
    if (!l.n) fail(EXIT_USAGE, "%s has no labelled text", path);
    if (task == LABELLED_SEQUENCES && l.kind == LABELLED_ONE && has_point(&l))
        labelled_become(&l, LABELLED_REAL);
    return l;
}

void labelled_free(labelled *l) {
    for (int64_t i = 0; i < l->n; i++) {
        labelled_text *t = &l->texts[i];
        for (int64_t k = 0; k < t->n_labels; k++) free(t->labels[k].text);
        free(t->labels);
        free(t->ids);
        free(t->word);
        free(t->text);
    }
    for (int64_t i = 0; i < l->n_names; i++) free(l->names[i]);
    free(l->names);
    free(l->texts);
    *l = (labelled){0};
}

/* ---- names ---- */

static int text_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The id that a number is; -1: none. */
static int64_t id_of_number(const labelled_word *label) {
    char *end;
    const long long id = label->is_number ? strtoll(label->text, &end, 10) : -1;
    return label->is_number && !*end && id >= 0 && id < 1 << 20 ? id : -1;
}

static void names_of_numbers(labelled *l, int64_t n) {
    l->names = room_for(NULL, (size_t)n, sizeof *l->names);
    for (l->n_names = 0; l->n_names < n; l->n_names++) {
        char name[40];
        snprintf(name, sizeof name, "LABEL_%" PRId64, l->n_names);
        l->names[l->n_names] = copy_text(name, strlen(name));
    }
}

/* Finds the names that the data has. */
static void names_find(labelled *l) {
    int64_t n = 0, most = -1;
    bool numbers = true;
    for (int64_t i = 0; i < l->n; i++) n += l->texts[i].n_labels;
    char **all = room_for(NULL, (size_t)n, sizeof *all);
    n = 0;
    for (int64_t i = 0; i < l->n; i++)
        for (int64_t k = 0; k < l->texts[i].n_labels; k++) {
            const int64_t id = id_of_number(&l->texts[i].labels[k]);
            numbers &= id >= 0;
            if (id > most) most = id;
            all[n++] = l->texts[i].labels[k].text;
        }
    if (numbers) {
        names_of_numbers(l, most < 1 ? 2 : most + 1);
    } else {
        qsort(all, (size_t)n, sizeof *all, text_compare);
        l->names = room_for(NULL, (size_t)n, sizeof *l->names);
        for (int64_t i = 0; i < n; i++)
            if (!i || strcmp(all[i], all[i - 1]) != 0)
                l->names[l->n_names++] = copy_text(all[i], strlen(all[i]));
    }
    free(all);
}

static int64_t id_of(const labelled *l, const labelled_text *t, const labelled_word *label) {
    for (int64_t i = 0; i < l->n_names; i++)
        if (!strcmp(l->names[i], label->text)) return i;
    const int64_t id = id_of_number(label);
    if (id >= 0 && id < l->n_names) return id;
    fail(EXIT_USAGE, "%s:%" PRId64 ": the label \"%s\" is none of the model's %" PRId64 " labels",
         l->path, t->line, label->text, l->n_names);
}

void labelled_resolve(labelled *l, const char *const *names, int64_t n) {
    if (names) {
        l->names = room_for(NULL, (size_t)n, sizeof *l->names);
        for (l->n_names = 0; l->n_names < n; l->n_names++)
            l->names[l->n_names] = copy_text(names[l->n_names], strlen(names[l->n_names]));
    } else if (l->kind != LABELLED_REAL) {
        names_find(l);
    }
    for (int64_t i = 0; i < l->n && l->kind != LABELLED_REAL; i++) {
        labelled_text *t = &l->texts[i];
        t->ids = room_for(NULL, (size_t)t->n_labels, sizeof *t->ids);
        for (int64_t k = 0; k < t->n_labels; k++) t->ids[k] = id_of(l, t, &t->labels[k]);
    }
}

labelled labelled_hold_out(labelled *l, double part) {
    labelled held = {.path = l->path, .task = l->task, .kind = l->kind};
    int64_t kept = 0;
    for (int64_t i = 0; i < l->n; i++) {
        /* text i is held if floor((i + 1) part) is larger than floor(i part) */
        if ((int64_t)((double)(i + 1) * part) > (int64_t)((double)i * part))
            text_keep(&held, &l->texts[i]);
        else l->texts[kept++] = l->texts[i];
    }
    l->n = kept;
    return held;
}
