/* The texts of the program embed and their vectors; see embed_texts.h. */
#include "embed_texts.h"

#include <stdlib.h>
#include <string.h>

/* ---- white space ---- */

/* The bytes of the white space at the beginning of a text, as Python's str.strip() has it; 0: there
 * is none. */
static size_t space_at(const char *text, size_t size) {
    static const char *const wide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                       "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                       "\xE2\x81\x9F", "\xE3\x80\x80"};
    if (!size) return 0;
    const unsigned char c = (unsigned char)*text;
    if (c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31)) return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (size >= strlen(wide[i]) && !memcmp(text, wide[i], strlen(wide[i])))
            return strlen(wide[i]);
    const bool is_quad = size >= 3 && !memcmp(text, "\xE2\x80", 2) &&
                         (unsigned char)text[2] >= 0x80 && (unsigned char)text[2] <= 0x8A;
    return is_quad ? 3 : 0; /* U+2000 to U+200A */
}

/* Cuts white space off both ends of a text. */
static void strip(char *text) {
    size_t size = strlen(text), begin = 0, end = 0, n;
    while ((n = space_at(text + begin, size - begin)) > 0) begin += n;
    for (size_t at = begin; at < size; at += n ? n : 1) {
        n = space_at(text + at, size - at);
        if (!n) end = at + 1;
    }
    size = end > begin ? end - begin : 0;
    memmove(text, text + begin, size);
    text[size] = 0;
}

/* ---- texts ---- */

void texts_add(texts *t, const char *prompt, const char *text, size_t size, int64_t line) {
    const size_t before = strlen(prompt);
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->text = room_for(t->text, t->room, sizeof *t->text);
        t->shown = room_for(t->shown, t->room, sizeof *t->shown);
        t->line = room_for(t->line, t->room, sizeof *t->line);
    }
    char *whole = t->text[t->n] = room_for(NULL, (int64_t)(before + size + 1), 1);
    memcpy(whole, prompt, before);
    memcpy(whole + before, text, size);
    whole[before + size] = 0;
    t->shown[t->n] = room_for(NULL, (int64_t)size + 1, 1);
    memcpy(t->shown[t->n], whole + before, size + 1);
    strip(whole);
    t->line[t->n++] = line;
}

static void add_lines(texts *t, char *path, const char *prompt) {
    contents all = read_text_files(1, &path);
    const char *at = (const char *)all.bytes, *end = at + all.length;
    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t size = (size_t)(stop - at);
        if (size && at[size - 1] == '\r') size--;
        texts_add(t, prompt, at, size, line);
        at = stop + 1;
    }
    free(all.bytes);
}

static void add_objects(texts *t, ct_context *context, const char *path, const char *prompt) {
    ct_json_lines *lines = ct_json_lines_open(context, path);
    ct_json_line line;
    check(context, EXIT_USAGE);
    while (ct_json_lines_next(lines, &line)) {
        if (!line.text)
            fail(EXIT_USAGE, "%s: line %lld has no \"text\"", path, (long long)line.number);
        texts_add(t, prompt, line.text, line.bytes, line.number);
    }
    check(context, EXIT_USAGE);
    ct_json_lines_close(lines);
}

texts texts_read(ct_context *context, char *path, const char *prompt) {
    static const char end[] = ".jsonl";
    const size_t n = strlen(path), m = sizeof end - 1;
    texts t = {0};
    if (n > m && !strcmp(path + n - m, end)) add_objects(&t, context, path, prompt);
    else add_lines(&t, path, prompt);
    if (!t.n) fail(EXIT_USAGE, "%s has no text", path);
    return t;
}

void texts_free(texts *t) {
    for (int64_t i = 0; i < t->n; i++) {
        free(t->text[i]);
        free(t->shown[i]);
    }
    free(t->text);
    free(t->shown);
    free(t->line);
}

/* ---- the order ---- */

typedef struct {
    int64_t tokens, at;
} counted;

static int by_tokens(const void *a, const void *b) {
    const counted *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
    return x->at < y->at ? -1 : x->at > y->at;
}

int64_t *texts_order(const texts *t, const ct_tokenizer *tokenizer) {
    counted *count = room_for(NULL, t->n, sizeof *count);
    int64_t *order = room_for(NULL, t->n, sizeof *order);
    for (int64_t i = 0; i < t->n; i++) {
        const char *text = t->text[i];
        const int64_t n =
            ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, NULL, NULL, 0);
        if (n < 0)
            fail(EXIT_USAGE,
                 "line %lld needs an unk_token, which the tokenizer does not have, or memory is "
                 "short",
                 (long long)t->line[i]);
        if (!n) fail(EXIT_USAGE, "line %lld has no token", (long long)t->line[i]);
        count[i] = (counted){n, i};
    }
    qsort(count, (size_t)t->n, sizeof *count, by_tokens);
    for (int64_t i = 0; i < t->n; i++) order[i] = count[i].at;
    free(count);
    return order;
}

/* ---- vectors ---- */

void vectors_put(vectors *v, const int64_t *order, int64_t n, int64_t dim, const float *rows) {
    if (!v->at) {
        v->dim = dim;
        v->at = room_for(NULL, v->n * dim, sizeof *v->at);
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(v->at + order[i] * dim, rows + i * dim, (size_t)dim * sizeof *rows);
}

/* The header of a NumPy file says how numbers are stored, and ends at a multiple of 64 bytes. */
static size_t npy_header(const vectors *v, char header[128]) {
    const uint16_t one = 1;
    const bool little = *(const unsigned char *)&one == 1;
    const int n = snprintf(header + 10, 118,
                           "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                           little ? '<' : '>', (long long)v->n, (long long)v->dim);
    memcpy(header, "\x93NUMPY\1\0\x76\0", 10);
    memset(header + 10 + n, ' ', 117 - (size_t)n);
    header[127] = '\n';
    return 128;
}

void vectors_write(const vectors *v, const char *path) {
    char header[128];
    output o;
    output_begin(&o, path, false);
    const size_t numbers = (size_t)(v->n * v->dim);
    if (fwrite(header, 1, npy_header(v, header), o.file) != sizeof header ||
        fwrite(v->at, sizeof *v->at, numbers, o.file) != numbers)
        fail(EXIT_FAILED, "cannot write %s", path);
    output_end(&o);
}
