/* Documents and rows; see documents.h. */
#include "documents.h"
#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { NO_TARGET = -100 }; /* cross-entropy ignores such a token */

static void *room_for(void *block, size_t n, size_t size) {
    void *larger = n <= SIZE_MAX / size ? realloc(block, n ? n * size : 1) : NULL;
    if (!larger) fail(EXIT_FAILED, "out of memory");
    return larger;
}

/* ---- documents ---- */

/* Adds a document. targets NULL: each token has the next as its target. */
static void add_document(documents *d, const int64_t *ids, const int64_t *targets, int64_t n,
                         bool is_chat) {
    if (n == 0) return;
    if (d->n + n > d->room) {
        d->room = 2 * d->room + n + 1024;
        d->ids = room_for(d->ids, (size_t)d->room, sizeof *d->ids);
        d->targets = room_for(d->targets, (size_t)d->room, sizeof *d->targets);
    }
    if (d->count + 2 > d->count_room) {
        d->count_room = 2 * d->count_room + 64;
        d->begin = room_for(d->begin, (size_t)d->count_room, sizeof *d->begin);
        d->is_chat = room_for(d->is_chat, (size_t)d->count_room, sizeof *d->is_chat);
        if (!d->count) d->begin[0] = 0;
    }
    for (int64_t t = 0; t < n; t++) {
        const int64_t next = t + 1 < n ? ids[t + 1] : NO_TARGET;
        d->ids[d->n + t] = (int32_t)ids[t];
        d->targets[d->n + t] = (int32_t)(targets ? targets[t] : next);
    }
    d->n += n;
    d->is_chat[d->count] = is_chat;
    d->chats += is_chat;
    d->count++;
    d->begin[d->count] = d->n;
}

/* A document while it is encoded. */
typedef struct {
    const documents_opts *opts;
    documents *to;
    int64_t *ids, *targets; /* [room] */
    int64_t room;
} encoder;

/* Makes room for n ids and one more. */
static void grow(encoder *e, int64_t n) {
    if (n + 1 <= e->room) return;
    e->room = n + 1;
    e->ids = room_for(e->ids, (size_t)e->room, sizeof *e->ids);
    e->targets = room_for(e->targets, (size_t)e->room, sizeof *e->targets);
}

/* The characters of special tokens in the text are ordinary text. */
static void add_text(encoder *e, const char *text, size_t bytes) {
    if (!bytes) return;
    const ct_encode_opts plain = {.plain = true};
    grow(e, (int64_t)(bytes / 2) + 64);
    int64_t n = ct_encode(e->opts->tokenizer, text, bytes, plain, e->ids, NULL, e->room - 1);
    if (n >= e->room) { /* there was not enough room; now the number is known */
        grow(e, n);
        n = ct_encode(e->opts->tokenizer, text, bytes, plain, e->ids, NULL, n);
    }
    if (n < 0) fail(EXIT_FAILED, "out of memory, or a text that the tokenizer cannot encode");
    const int64_t end = e->opts->end_id;
    if (end >= 0 && (n == 0 || e->ids[n - 1] != end)) e->ids[n++] = end;
    add_document(e->to, e->ids, NULL, n, false);
}

static int64_t encode_chat(const encoder *e, const char *path, const ct_json_line *line) {
    char error[500];
    ct_chat_opts opts = e->opts->chat;
    opts.error = error, opts.error_room = sizeof error;
    const int64_t n = ct_chat_encode(e->opts->tokenizer, line->messages, line->n_messages, opts,
                                     e->ids, e->targets, e->room);
    if (n < 0) fail(EXIT_USAGE, "%s:%lld: %s (--template)", path, (long long)line->number,
             error_text(error));
    return n;
}

static void add_chat(encoder *e, const char *path, const ct_json_line *line) {
    int64_t n = encode_chat(e, path, line);
    if (n > e->room) {
        grow(e, n);
        n = encode_chat(e, path, line);
    }
    add_document(e->to, e->ids, e->targets, n, true);
}

static void read_lines(encoder *e, ct_context *context, const char *path) {
    ct_json_lines *lines = ct_json_lines_open(context, path);
    for (ct_json_line line; ct_json_lines_next(lines, &line);) {
        if (line.messages) add_chat(e, path, &line);
        else add_text(e, line.text, line.bytes);
    }
    check(context, EXIT_USAGE);
    ct_json_lines_close(lines);
}

/* The size of the UTF-8 character at a place with so many bytes; 0: an ill-formed one. */
static int64_t character_size(const unsigned char *at, int64_t bytes) {
    const int64_t size = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (*at > 0xf4 || size > bytes) return 0;
    for (int64_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return size;
}

/* Refuses a file with a NUL or with an ill-formed byte in ten: an archive, weights, an image. A few
 * ill-formed bytes are U+FFFD in the text. */
static void check_is_text(const char *path, const contents *all) {
    int64_t ill_formed = 0, first = 0;
    const unsigned char *nul = memchr(all->bytes, 0, (size_t)all->length);
    if (nul)
        fail(EXIT_USAGE, "%s is no text: byte %lld is NUL", path, (long long)(nul - all->bytes));
    for (int64_t at = 0; at < all->length;) {
        const int64_t size = character_size(all->bytes + at, all->length - at);
        if (!size && !ill_formed++) first = at;
        at += size ? size : 1;
    }
    if (ill_formed > all->length / 10)
        fail(EXIT_USAGE,
             "%s is no text in UTF-8: %lld of its %lld bytes are ill-formed, from byte "
             "%lld on",
             path, (long long)ill_formed, (long long)all->length, (long long)first);
}

static void read_text(encoder *e, const char *path) {
    contents all = read_files(1, (char *[]){(char *)path});
    const char *text = (const char *)all.bytes, *end = text + all.length;
    const char *separator = e->opts->separator;
    const size_t size = separator ? strlen(separator) : 0;
    if (all.length >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
        fail(EXIT_USAGE, "%s is UTF-16: it must be saved as UTF-8", path);
    check_is_text(path, &all);
    if (all.length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3; /* a byte order mark */
    const char *begin = text;
    for (const char *at = text; size && at + size <= end; at++) {
        if (memcmp(at, separator, size) != 0) continue;
        add_text(e, begin, (size_t)(at - begin));
        begin = at + size;
        at = begin - 1;
    }
    add_text(e, begin, (size_t)(end - begin));
    free(all.bytes);
}

static bool ends_in(const char *path, const char *end) {
    const size_t size = strlen(path), n = strlen(end);
    return size >= n && !strcmp(path + size - n, end);
}

documents documents_read(ct_context *context, const char *path, const documents_opts *opts) {
    documents d = {0};
    encoder e = {.opts = opts, .to = &d};
    grow(&e, 1024);
    if (ends_in(path, ".jsonl") || ends_in(path, ".json")) read_lines(&e, context, path);
    else read_text(&e, path);
    free(e.ids);
    free(e.targets);
    if (!d.count) fail(EXIT_USAGE, "%s has no document", path);
    return d;
}

void documents_free(documents *d) {
    free(d->ids);
    free(d->targets);
    free(d->begin);
    free(d->is_chat);
    *d = (documents){0};
}

/* Makes a document of ids `begin` to `end` of document i of one set, and appends it to another. */
static void copy_document(documents *to, const documents *from, int64_t i, int64_t begin,
                          int64_t end) {
    const int64_t n = end - begin;
    int64_t *both = room_for(NULL, 2 * (size_t)n, sizeof *both);
    for (int64_t t = 0; t < n; t++) {
        both[t] = from->ids[begin + t];
        both[n + t] = from->targets[begin + t];
    }
    if (n) both[2 * n - 1] = NO_TARGET; /* the next id, if there was one, is in the other part */
    add_document(to, both, both + n, n, from->is_chat[i]);
    free(both);
}

documents documents_hold_out(documents *d, double part) {
    documents kept = {0}, held = {0};
    if (d->count == 1) {
        const int64_t n = d->n - (int64_t)((double)d->n * part);
        copy_document(&kept, d, 0, 0, n);
        copy_document(&held, d, 0, n, d->n);
    }
    for (int64_t i = 0; d->count > 1 && i < d->count; i++) {
        /* document i is held if floor((i + 1) part) is larger than floor(i part) */
        const bool is_held = (int64_t)((double)(i + 1) * part) > (int64_t)((double)i * part);
        copy_document(is_held ? &held : &kept, d, i, d->begin[i], d->begin[i + 1]);
    }
    documents_free(d);
    *d = kept;
    return held;
}

/* ---- rows ---- */

static int64_t count_targets(const documents *d, piece p) {
    int64_t n = 0;
    for (int64_t t = p.begin; t < p.begin + p.length; t++) n += d->targets[t] != NO_TARGET;
    return n;
}

/* Cuts the documents into pieces that have a target; returns their number. */
static int64_t cut_pieces(rows *r, const documents *d) {
    int64_t n = 0;
    for (int64_t i = 0; i < d->count; i++) {
        const int64_t end = d->begin[i + 1], before = n;
        for (int64_t at = d->begin[i]; at < end; at += r->length) {
            const piece p = {at, end - at < r->length ? end - at : r->length};
            if (count_targets(d, p) > 0) r->pieces[n++] = p;
            if (!d->is_chat[i] || at + p.length == end) continue;
            r->cut++;
            break;
        }
        r->dropped += n == before;
    }
    return n;
}

static int longest_first(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Finds a row for each piece, the longest first: the fullest row that has room, or a new one. A
 * list for each number of free places has the rows with so many. Returns the number of rows. */
static int64_t pack(const rows *r, int64_t n, int64_t *row_of) {
    const int64_t length = r->length;
    int64_t *newest = room_for(NULL, (size_t)length + 1, sizeof *newest); /* by free places */
    int64_t *next = room_for(NULL, (size_t)n, sizeof *next), count = 0;   /* in the list, by row */
    for (int64_t k = 0; k <= length; k++) newest[k] = -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t places = r->pieces[i].length;
        while (places <= length && newest[places] < 0) places++;
        const bool is_new = places > length;
        const int64_t row = is_new ? count++ : newest[places];
        if (is_new) places = length;
        else newest[places] = next[row];
        const int64_t left = places - r->pieces[i].length;
        next[row] = newest[left];
        newest[left] = row;
        row_of[i] = row;
    }
    free(newest);
    free(next);
    return count;
}

/* Sorts the pieces by their rows: counts the pieces of each row, and then places them. */
static void place_pieces(rows *r, int64_t n, const int64_t *row_of) {
    piece *placed = room_for(NULL, (size_t)n, sizeof *placed);
    r->first = room_for(NULL, (size_t)r->n + 1, sizeof *r->first);
    r->learned = room_for(NULL, (size_t)r->n, sizeof *r->learned);
    memset(r->first, 0, ((size_t)r->n + 1) * sizeof *r->first);
    memset(r->learned, 0, (size_t)r->n * sizeof *r->learned);
    for (int64_t i = 0; i < n; i++) r->first[row_of[i] + 1]++;
    for (int64_t i = 0; i < r->n; i++) r->first[i + 1] += r->first[i];
    int64_t *end = room_for(NULL, (size_t)r->n, sizeof *end);
    memcpy(end, r->first, (size_t)r->n * sizeof *end);
    for (int64_t i = 0; i < n; i++) {
        const int64_t learned = count_targets(r->documents, r->pieces[i]);
        placed[end[row_of[i]]++] = r->pieces[i];
        r->learned[row_of[i]] += learned;
        r->all_learned += learned;
        r->tokens += r->pieces[i].length;
    }
    free(end);
    free(r->pieces);
    r->pieces = placed;
}

static int64_t row_length(const rows *r, int64_t row) {
    int64_t length = 0;
    for (int64_t p = r->first[row]; p < r->first[row + 1]; p++) length += r->pieces[p].length;
    return length;
}

rows rows_make(const documents *d, int64_t length, bool packed) {
    rows r = {.documents = d, .length = length};
    r.pieces = room_for(NULL, (size_t)(d->n / length + d->count), sizeof *r.pieces);
    const int64_t n = cut_pieces(&r, d);
    int64_t *row_of = room_for(NULL, (size_t)n, sizeof *row_of);
    if (packed && n) qsort(r.pieces, (size_t)n, sizeof *r.pieces, longest_first);
    r.n = n;
    if (packed) r.n = pack(&r, n, row_of);
    else
        for (int64_t i = 0; i < n; i++) row_of[i] = i;
    place_pieces(&r, n, row_of);
    free(row_of);
    for (int64_t i = 0; i < r.n; i++)
        if (row_length(&r, i) > r.longest) r.longest = row_length(&r, i);
    return r;
}

void rows_free(rows *r) {
    free(r->pieces);
    free(r->first);
    free(r->learned);
    *r = (rows){0};
}

/* ---- batches ---- */

/* Writes a row to ids, targets and segments (T). Padding behind the last piece has no target and is
 * a segment of its own. */
static void fill_row(const rows *r, int64_t row, int64_t T, int64_t *ids, int64_t *targets,
                     int64_t *segments) {
    int64_t t = 0, segment = 0;
    for (int64_t p = r->first[row]; p < r->first[row + 1]; p++, segment++) {
        const piece at = r->pieces[p];
        for (int64_t i = 0; i < at.length; i++, t++) {
            ids[t] = r->documents->ids[at.begin + i];
            targets[t] = r->documents->targets[at.begin + i];
            segments[t] = segment;
        }
    }
    for (; t < T; t++) {
        ids[t] = 0;
        targets[t] = NO_TARGET;
        segments[t] = segment;
    }
}

row_batch rows_batch(ct_context *context, const rows *r, const int64_t *which, int64_t n) {
    int64_t T = 1;
    bool several = false; /* whether a row has several pieces; otherwise no segments are needed */
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = row_length(r, which[i]);
        if (length > T) T = length;
        several |= r->first[which[i] + 1] - r->first[which[i]] > 1;
    }
    const ct_shape shape = CT_SHAPE(n, T);
    row_batch b = {.ids = ct_zeros(context, CT_I64, shape),
                   .targets = ct_zeros(context, CT_I64, shape)};
    ct_tensor *segments = ct_zeros(context, CT_I64, shape);
    if (!segments) return b; /* an error is pending */
    for (int64_t i = 0; i < n; i++)
        fill_row(r, which[i], T, ct_data_i64(b.ids) + i * T, ct_data_i64(b.targets) + i * T,
                 ct_data_i64(segments) + i * T);
    if (several) b.call.segments = segments;
    return b;
}

/* ---- the order ---- */

/* The next number of the generator splitmix64 (Steele et al. 2014). */
static uint64_t next_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t row_at(row_order *o, int64_t place) {
    const int64_t n = o->rows->n, epoch = place / n;
    if (!o->order || o->epoch != epoch) {
        o->order = room_for(o->order, (size_t)n, sizeof *o->order);
        o->epoch = epoch;
        uint64_t state = o->seed;
        state = next_random(&state) + (uint64_t)epoch;
        for (int64_t i = 0; i < n; i++) { /* Fisher and Yates */
            const int64_t k = (int64_t)(next_random(&state) % (uint64_t)(i + 1));
            o->order[i] = o->order[k];
            o->order[k] = i;
        }
    }
    return o->order[place % n];
}
