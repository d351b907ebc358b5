/* Encoding: added tokens, normalizer, pre-tokenizer, model, and the ranges of the tokens. */
#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"
#include "utf8.h"

/* ---- a well-formed copy ---- */

/* A copy of a text in which each ill-formed part is U+FFFD. original[k] is the offset in the text
 * of the character of the copy that begins at or before byte k * CHECKPOINT. */
enum { CHECKPOINT = 256 };
typedef struct {
    cti_text from;
    char *at; /* the copy; NULL if the text is well-formed */
    size_t size;
    size_t *original;
} clean_copy;

static void clean_free(clean_copy *clean) {
    free(clean->at);
    free(clean->original);
}

/* Writes the characters, or with out == NULL only counts their bytes. */
static size_t clean_copy_write(cti_text from, char *out, size_t *original) {
    size_t size = 0, next = 0;
    for (size_t at = 0; at < from.size;) {
        uint32_t c;
        char bytes[4];
        const size_t read = cti_utf8_read(from.at + at, from.size - at, &c),
                     length = cti_utf8_put(bytes, c);
        if (out) {
            memcpy(out + size, bytes, length);
            for (; next * CHECKPOINT < size + length; next++) original[next] = at;
        }
        at += read;
        size += length;
    }
    return size;
}

/* Returns false if memory is short. */
static bool clean_copy_make(cti_text from, clean_copy *clean) {
    *clean = (clean_copy){.from = from};
    if (!from.size || cti_utf8_check(from.at, from.size) == from.size) return true;
    clean->size = clean_copy_write(from, NULL, NULL);
    clean->at = malloc(clean->size);
    clean->original = malloc((clean->size / CHECKPOINT + 1) * sizeof *clean->original);
    if (!clean->at || !clean->original) {
        clean_free(clean);
        return false;
    }
    clean_copy_write(from, clean->at, clean->original);
    return true;
}

/* A place at which a character of the copy begins, and its place in the text. */
typedef struct {
    size_t at, original;
} clean_cursor;

/* The offset in the text of an offset in the copy, at which a character begins or the copy ends.
 * The walk goes on from the last offset if it is not far. */
static int64_t original_of(const clean_copy *clean, clean_cursor *cursor, size_t offset) {
    if (offset >= clean->size) return (int64_t)clean->from.size;
    if (offset < cursor->at || offset - cursor->at > CHECKPOINT) {
        cursor->at = offset / CHECKPOINT * CHECKPOINT;
        cursor->original = clean->original[offset / CHECKPOINT];
        while (cti_utf8_continues(clean->at[cursor->at])) cursor->at--;
    }
    while (cursor->at < offset) {
        uint32_t c;
        cursor->at += cti_utf8_length((unsigned char)clean->at[cursor->at]);
        cursor->original += cti_utf8_read(clean->from.at + cursor->original,
                                          clean->from.size - cursor->original, &c);
    }
    return (int64_t)cursor->original;
}

/* Turns ranges in the copy into ranges in the text, from token `begin` on. */
static void clean_copy_map_ranges(const clean_copy *clean, const cti_sink *sink, int64_t begin) {
    clean_cursor cursor = {0};
    for (int64_t i = begin; i < sink->count && i < sink->room; i++) {
        int64_t *range = sink->offsets + 2 * i;
        range[0] = original_of(clean, &cursor, (size_t)range[0]);
        range[1] = original_of(clean, &cursor, (size_t)range[1]);
    }
}

/* ---- the parts of a text ---- */

enum { LARGE_TEXT = 1 << 16 };

typedef struct {
    const cti_tokenizer_parts *parts;
    cti_sink *sink;
    int64_t first; /* the sink's count at the beginning of the text */
    cti_text text; /* well-formed */
    cti_model_work *work;
    cti_aligned section, spare; /* a normalized part of the text */
    cti_pieces pieces;
} encoding;

/* Keeps a text's memory for another one: in *spare if that has none. */
static void aligned_keep_memory(cti_aligned *text, cti_aligned *spare) {
    if (text->sources && !spare->text) {
        *spare = *text;
        *text = (cti_aligned){0};
    } else {
        cti_aligned_free(text);
        *text = (cti_aligned){0};
    }
}

/* Frees memory that only another large text could use again. */
static void aligned_drop_large(cti_aligned *spare) {
    if (spare->room < LARGE_TEXT) return;
    cti_aligned_free(spare);
    *spare = (cti_aligned){0};
}

/* Cuts the memory of a large text to its size, and frees its ranges unless they are asked for. */
static void aligned_shrink_large(cti_aligned *text, bool ranges) {
    if (text->room < LARGE_TEXT) return;
    if (!ranges) {
        free(text->sources);
        text->sources = NULL;
        text->from = NULL;
    } else if (text->room - text->size > text->size / 4) {
        const size_t room = text->size ? text->size : 1; /* realloc of 0 bytes would free */
        cti_source *sources = realloc(text->sources, room * sizeof *sources);
        if (sources) text->from = text->sources = sources;
        char *at = realloc(text->text, room);
        if (at) text->at = text->text = at;
        text->room = room;
    }
}

static cti_aligned slice_of(const cti_aligned *section, cti_extent part) {
    return (cti_aligned){.at = section->at + part.begin,
                         .size = part.end - part.begin,
                         .base = section->base + (section->from ? 0 : part.begin),
                         .from = section->from ? section->from + part.begin : NULL};
}

/* Trims the ranges of the tokens from `begin` on. */
static void tokens_trim(const encoding *e, int64_t begin) {
    const cti_sink *sink = e->sink;
    if (!e->parts->postprocessor.trims || !sink->offsets) return;
    for (int64_t i = begin; i < sink->count && i < sink->room; i++) {
        const cti_text token = e->parts->vocabulary.text[sink->ids[i]];
        cti_postprocessor_trim(&e->parts->postprocessor, token, i == e->first, e->text.at,
                               e->text.size, sink->offsets + 2 * i);
    }
}

/* Encodes a part of a section that is no added token. */
static bool part_encode(encoding *e, cti_extent part) {
    const cti_tokenizer_parts *parts = e->parts;
    const int64_t begin = e->sink->count;
    bool done = true;
    if (parts->next_piece) {
        const cti_aligned slice = slice_of(&e->section, part);
        e->sink->text = &slice;
        for (size_t at = 0, end; done && at < slice.size; at = end) {
            end = parts->next_piece(slice.at, slice.size, at);
            done = cti_model_encode(parts->model, e->work, at, end, e->sink);
        }
    } else {
        aligned_keep_memory(&e->pieces.text, &e->pieces.spare);
        e->pieces.text = slice_of(&e->section, part);
        e->pieces.count = 0;
        done = cti_pretokenizer_run(parts->pretokenizer, &e->pieces);
        aligned_drop_large(&e->pieces.spare);
        aligned_shrink_large(&e->pieces.text, e->sink->offsets != NULL);
        e->sink->text = &e->pieces.text;
        for (size_t i = 0; done && i < e->pieces.count; i++) {
            const size_t from = e->pieces.piece[i].begin, to = e->pieces.piece[i].end;
            done = cti_model_encode(parts->model, e->work, from, to, e->sink);
        }
    }
    if (done) tokens_trim(e, begin);
    return done;
}

/* Writes an added token, a range of the section. */
static void added_put(encoding *e, cti_extent part, const cti_added_token *token) {
    cti_sink *sink = e->sink;
    const cti_aligned *section = &e->section;
    if (sink->count < sink->room && part.begin < part.end) {
        sink->ids[sink->count] = token->id;
        if (sink->offsets) {
            sink->text = section;
            cti_sink_offsets(sink, part.begin, part.end);
            const cti_text text = {section->at + part.begin, part.end - part.begin};
            cti_postprocessor_trim(&e->parts->postprocessor, text, sink->count == e->first,
                                   e->text.at, e->text.size, sink->offsets + 2 * sink->count);
        }
    }
    sink->count += part.begin < part.end;
}

/* What a search asks: the section that it is in; NULL: the original text. */
typedef struct {
    const cti_plain *plain;
    const cti_aligned *section;
} plain_check;

static bool refuses_plain(const void *arg, const cti_added_token *token, size_t begin, size_t end) {
    const plain_check *check = arg;
    cti_extent match = {begin, end};
    if (check->section) match = cti_aligned_origin(check->section, begin, end);
    return check->plain->refuse(check->plain->arg, token, match);
}

/* Begins a search for tokens that are not plain text. */
static cti_search plain_search_begin(const encoding *e, const plain_check *check,
                                     const cti_needles *needles, cti_text text) {
    static const cti_needles none;
    cti_search search =
        cti_search_begin(&e->parts->added, check->plain->all ? &none : needles, text.at, text.size);
    if (check->plain->refuse) search.refuse = refuses_plain, search.refuse_arg = check;
    return search;
}

/* Encodes a part of the text in which no token that is not normalized stands. */
static bool section_encode(encoding *e, cti_extent part, const cti_plain *plain) {
    const cti_tokenizer_parts *parts = e->parts;
    aligned_keep_memory(&e->section, &e->spare);
    e->section = (cti_aligned){
        .at = e->text.at + part.begin, .size = part.end - part.begin, .base = part.begin};
    if (parts->normalizer && !cti_normalizer_run(parts->normalizer, &e->section, &e->spare))
        return false;
    aligned_drop_large(&e->spare);
    aligned_shrink_large(&e->section,
                         e->sink->offsets || parts->pretokenizer); /* Metaspace reads ranges */
    const plain_check check = {plain, &e->section};
    cti_search search = plain_search_begin(e, &check, &parts->added.normal,
                                           (cti_text){e->section.at, e->section.size});
    while (cti_search_next(&search)) {
        if (search.token) added_put(e, search.part, search.token);
        else if (!part_encode(e, search.part)) return false;
    }
    return true;
}

/* Encodes a well-formed text. */
static bool parts_encode(encoding *e, const cti_plain *plain) {
    const plain_check check = {plain, NULL};
    cti_search search = plain_search_begin(e, &check, &e->parts->added.raw, e->text);
    while (cti_search_next(&search)) {
        if (!search.token) {
            if (!section_encode(e, search.part, plain)) return false;
            continue;
        }
        aligned_keep_memory(&e->section, &e->spare);
        e->section = (cti_aligned){.at = e->text.at, .size = e->text.size};
        added_put(e, search.part, search.token);
    }
    return true;
}

/* Whether a text may be encoded: ranges in a changed text have 32 bits. */
static bool has_allowed_size(const cti_tokenizer_parts *parts, size_t size) {
    return size < UINT32_MAX || (!parts->normalizer && parts->next_piece);
}

bool cti_text_encode(const cti_tokenizer_parts *parts, cti_text text, const cti_plain *plain,
                     cti_sink *sink) {
    clean_copy clean;
    if (!clean_copy_make(text, &clean)) return false;
    encoding e = {.parts = parts, .sink = sink, .first = sink->count};
    e.text = clean.at ? (cti_text){clean.at, clean.size} : text;
    bool done = has_allowed_size(parts, e.text.size);
    if (done) {
        e.work = cti_model_work_new(parts->model, e.text.size);
        done = e.work && parts_encode(&e, plain);
        cti_model_work_free(e.work);
        cti_aligned_free(&e.section);
        cti_aligned_free(&e.spare);
        cti_pieces_free(&e.pieces);
    }
    if (done && clean.at && sink->offsets) clean_copy_map_ranges(&clean, sink, e.first);
    clean_free(&clean);
    return done;
}

const char *cti_encode_failure(const ct_tokenizer *tokenizer) {
    return cti_model_lacks_unknown(tokenizer->parts->model)
               ? "a text has a part without a token, and the vocabulary does not have the model's "
                 "unk_token (or memory is short)"
               : "out of memory";
}

bool cti_encode_failed(const ct_tokenizer *tokenizer, const char *op) {
    const bool unknown = cti_model_lacks_unknown(tokenizer->parts->model);
    return ct_fail(tokenizer->context, unknown ? CT_ERR_FORMAT : CT_ERR_MEMORY, "%s: %s", op,
                   cti_encode_failure(tokenizer));
}

/* ---- the public function ---- */

static void special_put(cti_sink *sink, int64_t id) {
    if (sink->count < sink->room) {
        sink->ids[sink->count] = id;
        if (sink->offsets) memset(sink->offsets + 2 * sink->count, 0, 2 * sizeof *sink->offsets);
    }
    sink->count++;
}

int64_t ct_encode(const ct_tokenizer *tokenizer, const char *text, size_t bytes,
                  ct_encode_opts opts, int64_t *ids, int64_t *offsets, int64_t room) {
    if (!cti_tokenizer_is_open(tokenizer) || (!text && bytes) || room < 0 || (!ids && room))
        return -1;
    const cti_tokenizer_parts *parts = tokenizer->parts;
    const cti_postprocessor *post = &parts->postprocessor;
    cti_sink sink = {.ids = ids, .offsets = offsets, .room = room};
    for (int64_t i = 0; i < post->singles; i++) {
        const int64_t id = post->single[i].id;
        if (id >= 0) {
            if (!opts.no_special) special_put(&sink, id);
        } else {
            const cti_plain plain = {.all = opts.plain};
            if (!cti_text_encode(parts, (cti_text){text, bytes}, &plain, &sink)) return -1;
        }
    }
    return sink.count;
}
