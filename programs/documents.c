/* Documents and rows; see documents.h. */
#include "documents.h"
#include "common.h"
#include "system.h"
#include "text_ids.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- documents ---- */

/* Adds a document. targets NULL: each token has the next as its target. */
static void add_any(documents *d, const int64_t *ids, const int64_t *targets, int64_t n,
                    bool is_whole) {
    if (d->n + n > d->room) {
        d->room = 2 * d->room + n + 1024;
        d->ids = room_for(d->ids, (size_t)d->room, sizeof *d->ids);
        d->targets = room_for(d->targets, (size_t)d->room, sizeof *d->targets);
    }
    if (d->count + 2 > d->count_room) {
        d->count_room = 2 * d->count_room + 64;
        d->begin = room_for(d->begin, (size_t)d->count_room, sizeof *d->begin);
        d->is_whole = room_for(d->is_whole, (size_t)d->count_room, sizeof *d->is_whole);
        d->bytes = room_for(d->bytes, (size_t)d->count_room, sizeof *d->bytes);
        if (!d->count) d->begin[0] = 0;
    }
    for (int64_t t = 0; t < n; t++) {
        const int64_t next = t + 1 < n ? ids[t + 1] : NO_TARGET;
        d->ids[d->n + t] = (int32_t)ids[t];
        d->targets[d->n + t] = (int32_t)(targets ? targets[t] : next);
    }
    d->n += n;
    d->is_whole[d->count] = is_whole;
    d->bytes[d->count] = 0;
    d->count++;
    d->begin[d->count] = d->n;
}

static void add_document(documents *d, const int64_t *ids, const int64_t *targets, int64_t n,
                         bool is_whole) {
    if (n) add_any(d, ids, targets, n, is_whole);
}

void documents_add(documents *d, const int64_t *ids, const int64_t *targets, int64_t n) {
    add_any(d, ids, targets, n, true);
}

/* A document while it is encoded. */
typedef struct {
    const documents_opts *opts;
    documents *to;
    text_ids of;
} encoder;

/* Encodes a text with the tokens of the post-processor, and the end of a text if it does not end
 * so. Special tokens that are spelled in it are tokens, unless --plain. With `offsets` also the
 * ranges of the ids. */
static void encode_text(encoder *e, const char *text, size_t bytes, bool offsets) {
    const int64_t end = e->opts->end_id;
    const bool is_open = e->opts->open_texts && !offsets; /* a completion has offsets */
    text_ids *of = &e->of;
    text_encode(of, e->opts->tokenizer, text, bytes, (ct_encode_opts){.plain = e->opts->plain},
                offsets);
    if (end < 0 || is_open || (of->n > 0 && of->ids[of->n - 1] == end)) return;
    if (offsets) of->offsets[2 * of->n] = of->offsets[2 * of->n + 1] = (int64_t)bytes;
    of->ids[of->n++] = end;
}

static void add_text(encoder *e, const char *text, size_t bytes) {
    if (!bytes) return;
    encode_text(e, text, bytes, false);
    add_document(e->to, e->of.ids, NULL, e->of.n, false);
    if (e->of.n) e->to->bytes[e->to->count - 1] = (int64_t)bytes;
}

/* A prompt and its completion are encoded as one text. Only the tokens that begin in the
 * completion, and the end of the text, are targets. */
static void add_completion(encoder *e, const ct_json_line *line) {
    const size_t prompt = strlen(line->prompt), completion = strlen(line->completion);
    char *text = room_for(NULL, prompt + completion + 1, 1);
    memcpy(text, line->prompt, prompt);
    memcpy(text + prompt, line->completion, completion + 1);
    encode_text(e, text, prompt + completion, true);
    const int64_t end = e->opts->end_id, n = e->of.n, *ids = e->of.ids;
    int64_t *targets = room_for(NULL, (size_t)n, sizeof *targets);
    for (int64_t t = 0; t < n; t++) {
        const bool learned = t + 1 < n && (e->of.offsets[2 * (t + 1)] >= (int64_t)prompt ||
                                           (t + 2 == n && ids[t + 1] == end));
        targets[t] = learned ? ids[t + 1] : NO_TARGET;
    }
    add_document(e->to, ids, targets, n, true);
    free(targets);
    free(text);
}

/* ---- lines ---- */

static void add_conversation(void *to, const int64_t *ids, const int64_t *targets, int64_t n) {
    add_document(((encoder *)to)->to, ids, targets, n, true);
}

/* Adds the prompt with one of its answers. Messages before the answer are not learned. */
static void add_answer(encoder *e, chat_reader *chats, const char *path, const ct_json_line *line,
                       const ct_message *answer, int64_t n) {
    const int64_t before = e->to->count, prompt = line->n_messages;
    ct_json_line one = *line;
    if (line->prompt) {
        one.completion = answer->content;
        add_completion(e, &one);
    } else {
        ct_message *messages = room_for(NULL, (size_t)(prompt + n), sizeof *messages);
        char **unlearned = room_for(NULL, (size_t)prompt + 1, sizeof *unlearned);
        for (int64_t i = 0; i < prompt; i++) {
            unlearned[i] = chat_without_weight(line->messages[i].json);
            messages[i] = line->messages[i];
            messages[i].json = unlearned[i];
        }
        memcpy(messages + prompt, answer, (size_t)n * sizeof *answer);
        one.messages = messages, one.n_messages = prompt + n;
        chat_read(chats, path, &one);
        for (int64_t i = 0; i < prompt; i++) free(unlearned[i]);
        free(unlearned);
        free(messages);
    }
    if (e->to->count != before + 1)
        fail(EXIT_USAGE, "%s:%lld: an answer of preferences must be one document; here it is %lld",
             path, (long long)line->number, (long long)(e->to->count - before));
}

/* Whether a document has a target among its first tokens. */
static bool has_answer(const documents *d, int64_t i, int64_t length) {
    const int64_t end =
        d->begin[i] + length < d->begin[i + 1] ? d->begin[i] + length : d->begin[i + 1];
    for (int64_t t = d->begin[i]; t < end; t++)
        if (d->targets[t] != NO_TARGET) return true;
    return false;
}

static void add_preference(encoder *e, chat_reader *chats, const char *path,
                           const ct_json_line *line) {
    documents *d = e->to;
    add_answer(e, chats, path, line, line->chosen, line->n_chosen);
    add_answer(e, chats, path, line, line->rejected, line->n_rejected);
    const int64_t i = d->count - 2;
    if (has_answer(d, i, e->opts->length) && has_answer(d, i + 1, e->opts->length)) return;
    d->count = i, d->n = d->begin[i], d->dropped++;
}

static void read_lines(encoder *e, ct_context *context, const char *path) {
    chat_reader *chats = NULL;
    ct_json_lines *lines = ct_json_lines_open(context, path);
    for (ct_json_line line; ct_json_lines_next(lines, &line);) {
        if (!line.chosen != !e->opts->preferences)
            fail(EXIT_USAGE, "%s:%lld: %s", path, (long long)line.number,
                 line.chosen ? "preferences (\"chosen\" and \"rejected\") need --method dpo or orpo"
                             : "no \"chosen\" and \"rejected\", of which --method learns");
        if (line.choices)
            fail(EXIT_USAGE, "%s:%lld: a question with choices is no document (build/evaluate)",
                 path, (long long)line.number);
        const bool is_chat = line.messages || (line.chosen && !line.prompt);
        if (is_chat && !chats)
            chats = chat_reader_new(e->opts->tokenizer, e->opts->chat, &e->to->chats,
                                    add_conversation, e);
        if (line.chosen) add_preference(e, chats, path, &line);
        else if (line.messages) chat_read(chats, path, &line);
        else if (line.prompt) add_completion(e, &line);
        else add_text(e, line.text, line.bytes);
    }
    check(context, EXIT_USAGE);
    ct_json_lines_close(lines);
    if (chats) chat_reader_free(chats);
}

/* ---- plain files ---- */

static void read_text(encoder *e, const char *path) {
    contents all = read_text_files(1, (char *[]){(char *)path});
    const char *text = (const char *)all.bytes, *begin = text, *end = text + all.length;
    const char *separator = e->opts->separator;
    const size_t size = separator ? strlen(separator) : 0;
    for (const char *at = text; size && at + size <= end; at++) {
        if (memcmp(at, separator, size) != 0) continue;
        add_text(e, begin, (size_t)(at - begin));
        begin = at + size;
        at = begin - 1;
    }
    if (size && begin == text) fail_separator(path, separator);
    add_text(e, begin, (size_t)(end - begin));
    free(all.bytes);
}

/* ---- the kind of a file ---- */

/* Whether a name ends in .json, .jsonl or .ndjson, in any case. */
static bool is_json_name(const char *path) {
    static const char *const ends[] = {".json", ".jsonl", ".ndjson"};
    const size_t size = strlen(path);
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(ends[i]);
        size_t k = 0;
        while (size >= n && k < n && tolower((unsigned char)path[size - n + k]) == ends[i][k]) k++;
        if (k == n) return true;
    }
    return false;
}

/* Whether the content of a file looks like JSON: an object, or an array of objects. */
static bool is_json_content(const char *path) {
    system_file about;
    if (!system_find_file(path, &about) || !about.exists) return false; /* a pipe is read once */
    FILE *file = system_fopen(path, "rb");
    if (!file) return false;
    unsigned char mark[3] = {0};
    if (fread(mark, 1, 3, file) != 3 || memcmp(mark, "\xef\xbb\xbf", 3) != 0) rewind(file);
    int two[2] = {EOF, EOF}; /* the first bytes that are no white space */
    for (int i = 0; i < 2; i++) do
            two[i] = getc(file);
        while (two[i] != EOF && strchr(" \t\r\n", two[i]) && two[i]);
    fclose(file);
    return (two[0] == '{' && (two[1] == '"' || two[1] == '}')) ||
           (two[0] == '[' && (two[1] == '{' || two[1] == ']'));
}

bool documents_are_json(const char *path, const documents_opts *opts) {
    if (opts->format) return opts->format == DOCUMENTS_JSON;
    return is_json_name(path) || is_json_content(path);
}

documents documents_read(ct_context *context, const char *path, const documents_opts *opts) {
    documents d = {0};
    encoder e = {.opts = opts, .to = &d};
    const bool json = documents_are_json(path, opts);
    d.pairs = opts->preferences;
    if (d.pairs && !json)
        fail(EXIT_USAGE, "%s: --method needs lines of JSON with \"chosen\" and \"rejected\"", path);
    if (json && opts->separator)
        fail(EXIT_USAGE, "--separator is about plain text, and %s has JSON lines (--format)", path);
    if (json) read_lines(&e, context, path);
    else read_text(&e, path);
    text_ids_free(&e.of);
    if (!d.count) fail(EXIT_USAGE, "%s has no document", path);
    return d;
}

void documents_free(documents *d) {
    free(d->ids);
    free(d->targets);
    free(d->begin);
    free(d->is_whole);
    free(d->bytes);
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
    add_document(to, both, both + n, n, from->is_whole[i]);
    if (n && n == from->begin[i + 1] - from->begin[i]) to->bytes[to->count - 1] = from->bytes[i];
    free(both);
}

documents documents_hold_out(documents *d, double part) {
    documents kept = {.chats = d->chats, .pairs = d->pairs, .dropped = d->dropped},
              held = {.pairs = d->pairs};
    if (d->count == 1) {
        const int64_t n = d->n - (int64_t)((double)d->n * part);
        copy_document(&kept, d, 0, 0, n);
        copy_document(&held, d, 0, n, d->n);
    }
    for (int64_t i = 0; d->count > 1 && i < d->count; i++) {
        /* document i, or pair i, is held if floor((i + 1) part) is larger than floor(i part) */
        const int64_t k = d->pairs ? i / 2 : i;
        const bool is_held = (int64_t)((double)(k + 1) * part) > (int64_t)((double)k * part);
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
            if (!d->is_whole[i] || at + p.length == end) continue;
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

int64_t rows_units(const rows *r) { return r->pairs ? r->n / 2 : r->n; }

int64_t row_length(const rows *r, int64_t row) {
    int64_t length = 0;
    for (int64_t p = r->first[row]; p < r->first[row + 1]; p++) length += r->pieces[p].length;
    return length;
}

rows rows_make(const documents *d, int64_t length, bool packed) {
    rows r = {.documents = d, .length = length, .pairs = d->pairs};
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
    const int64_t n = rows_units(o->rows), epoch = place / n;
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
