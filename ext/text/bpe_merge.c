/* Encoding by BPE. Pieces that are one token are found in a table (bpe.h). Other pieces
 * are merged: if they have few symbols, by scans for the smallest rank, and otherwise by a heap,
 * which needs n log n time. A cache keeps the tokens of short pieces that were merged. */
#include <stdlib.h>
#include <string.h>

#include "../../src/core/assert.h"
#include "../../src/core/int_math.h"
#include "bpe.h"
#include "byte_alphabet.h"
#include "utf8.h"

enum { FEW_SYMBOLS = 32, CACHED_TOKENS = 9, MOST_CACHED = 1 << 14, BYTES_TO_A_CACHED = 64 };

/* A piece and its tokens: token i ends at byte end[i] of the piece. */
struct cti_bpe_cached {
    uint64_t key[2];
    uint8_t size, count; /* size 0: the entry is empty */
    uint8_t end[CACHED_TOKENS];
    int32_t id[CACHED_TOKENS];
};

/* The symbols of a piece, if they are few. Symbol i has the units [at[i], at[i + 1]). */
typedef struct {
    size_t count;
    int32_t id[FEW_SYMBOLS];
    uint32_t at[FEW_SYMBOLS + 1];
} few_symbols;

/* ---- the memory ---- */

void cti_bpe_work_begin(cti_bpe_work *work, size_t text_size) {
    *work = (cti_bpe_work){0};
    size_t caches = 1;
    while (caches < MOST_CACHED && caches * 2 * BYTES_TO_A_CACHED <= text_size) caches *= 2;
    if (caches < 32) return;
    work->cache = calloc(caches, sizeof *work->cache);
    if (work->cache) work->caches = caches;
}

void cti_bpe_work_end(cti_bpe_work *work) {
    free(work->tag);
    free(work->queue);
    free(work->cache);
    *work = (cti_bpe_work){0};
}

/* Makes room for a piece of so many units. The content of the arrays is lost. */
static bool bpe_room(cti_bpe_work *work, size_t units) {
    if (units <= work->room) return true;
    if (units > INT32_MAX / 2) return false;
    free(work->tag);
    work->room = 0;
    const size_t room = units + units / 8 + 64;
    work->tag = malloc(room * sizeof *work->tag);
    if (work->tag) work->room = room;
    return work->tag != NULL;
}

static bool bpe_queue_room(cti_bpe_work *work, size_t items) {
    if (items <= work->queue_room) return true;
    if (items > SIZE_MAX / (2 * sizeof *work->queue)) return false;
    free(work->queue);
    work->queue_room = 0;
    work->queue = malloc(items * sizeof *work->queue);
    if (work->queue) work->queue_room = items;
    return work->queue != NULL;
}

/* ---- symbols in tags (bpe.h) ---- */

/* Writes the tags of a symbol of `length` units; units inside that begin another symbol must get a
 * negative tag from the caller. */
static inline void tag_symbol(int32_t *tag, size_t at, size_t length, int32_t id) {
    tag[at] = id;
    if (length == 1) return;
    tag[at + 1] = tag[at + length - 1] = -(int32_t)length;
}

static inline size_t tag_end(const int32_t *tag, size_t at, size_t units) {
    return at + 1 < units && tag[at + 1] < 0 ? at + 1 + (size_t)(-tag[at + 1] - 1) : at + 1;
}

/* The beginning of the symbol that ends at `end` > 0. */
static inline size_t tag_begin(const int32_t *tag, size_t end) {
    return tag[end - 1] < 0 ? end - (size_t)-tag[end - 1] : end - 1;
}

/* ---- the symbols of a piece ---- */

/* The state of the division of a piece into symbols. */
typedef struct {
    int32_t *tag;
    size_t units;
    size_t pending; /* the units of an unknown token that is not written yet; 0: none */
    int32_t unknown;
} symbol_writer;

static void symbol_put(symbol_writer *w, int32_t id, size_t length) {
    for (size_t i = 1; i + 1 < length; i++) w->tag[w->units + i] = -1;
    tag_symbol(w->tag, w->units, length, id);
    w->units += length;
}

static void symbol_put_pending(symbol_writer *w) {
    if (w->pending) symbol_put(w, w->unknown, w->pending);
    w->pending = 0;
}

/* Puts the tokens of the bytes of a text, in bytes mode of its form in the alphabet. Returns false,
 * without a change, if one is not in the vocabulary. */
static bool symbol_put_bytes(const cti_bpe *m, symbol_writer *w, cti_text text) {
    for (size_t i = 0; i < text.size; i++)
        if (m->byte_token[(unsigned char)text.at[i]] == CTI_NO_ID) return false;
    for (size_t i = 0; i < text.size; i++)
        symbol_put(w, m->byte_token[(unsigned char)text.at[i]], 1);
    return true;
}

/* Puts a character without a symbol of its own. An unknown token comes behind the byte tokens of
 * the characters that follow it, as in the package. Returns false if the unknown token is not in
 * the vocabulary. */
static bool symbol_put_unknown(const cti_bpe *m, symbol_writer *w, cti_text c, int form) {
    if (m->byte_fallback) {
        const cti_text none = {"", 0};
        const cti_text part[3] = {form & CTI_WITH_PREFIX ? m->prefix : none, c,
                                  form & CTI_WITH_SUFFIX ? m->suffix : none};
        const size_t before = w->units;
        int put = 0;
        while (put < 3 && symbol_put_bytes(m, w, part[put])) put++;
        if (put == 3) return true;
        w->units = before;
    }
    if (!m->has_unknown) return true;
    if (m->unknown == CTI_NO_ID) return false;
    if (!m->fuse_unknown) symbol_put_pending(w);
    w->pending += c.size;
    return true;
}

/* The most units that a piece of so many bytes can have; SIZE_MAX: too many. */
static size_t bpe_most_units(const cti_bpe *m, size_t size) {
    const size_t affixes = m->byte_fallback ? m->prefix.size + m->suffix.size : 0;
    const size_t each = affixes + (m->bytes ? 2 : 1);
    return size > (size_t)INT32_MAX / each ? SIZE_MAX : size * each;
}

/* Divides a piece into symbols. Sets *units to the length of all. Returns false if memory is short
 * or the unknown token is not in the vocabulary. */
static bool bpe_divide(const cti_bpe *m, cti_bpe_work *work, const char *piece, size_t size,
                       size_t *units) {
    const size_t most = m->exact ? size : bpe_most_units(m, size);
    if (most == SIZE_MAX || !bpe_room(work, most)) return false;
    *units = size;
    if (m->exact) {
        for (size_t i = 0; i < size; i++) work->tag[i] = m->byte[0][(unsigned char)piece[i]];
        return true;
    }
    symbol_writer w = {.tag = work->tag, .unknown = m->unknown};
    const int prefix = m->prefix.size ? CTI_WITH_PREFIX : 0;
    const int suffix = m->suffix.size ? CTI_WITH_SUFFIX : 0;
    for (size_t i = 0, next; i < size; i = next) {
        const unsigned char first = (unsigned char)piece[i];
        size_t length = m->bytes ? 1 : cti_utf8_length(first);
        next = i + length;
        const int form = (i ? prefix : 0) | (next == size ? suffix : 0);
        const char *at = piece + i;
        char alphabet[4];
        int32_t id = m->byte[form][first];
        if (m->bytes) {
            length = cti_utf8_put(alphabet, cti_byte_character(first));
            at = alphabet;
        } else if (length > 1) {
            id = cti_symbol_at(m, cti_utf8_get(at, &length) << 2 | (uint32_t)form)->id;
        }
        if (id != CTI_NO_ID) {
            symbol_put_pending(&w);
            symbol_put(&w, id, length);
        } else if (!symbol_put_unknown(m, &w, (cti_text){at, length}, form)) {
            return false;
        }
    }
    symbol_put_pending(&w);
    *units = w.units;
    return true;
}

/* ---- merging of few symbols ---- */

static void few_merge(const cti_bpe *m, few_symbols *s, uint32_t *rank) {
    size_t n = s->count;
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == CTI_NO_RANK) break;
        s->id[best] = m->made[rank[best]];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            s->id[i] = s->id[i + 1];
            s->at[i] = s->at[i + 1];
            rank[i - 1] = rank[i];
        }
        s->at[n] = s->at[n + 1];
        if (best) rank[best - 1] = cti_merge_rank(m, s->id[best - 1], s->id[best]);
        if (best + 1 < n) rank[best] = cti_merge_rank(m, s->id[best], s->id[best + 1]);
    }
    s->count = n;
}

/* Merges a piece of at most FEW_SYMBOLS bytes whose symbols are its bytes. */
static void few_merge_bytes(const cti_bpe *m, const char *piece, size_t size, few_symbols *s) {
    const unsigned char *byte = (const unsigned char *)piece;
    uint32_t rank[FEW_SYMBOLS];
    for (size_t i = 0; i + 1 < size; i++)
        rank[i] = m->byte_rank[(size_t)byte[i] << 8 | byte[i + 1]];
    for (size_t i = 0; i < size; i++) {
        s->id[i] = m->byte[0][byte[i]];
        s->at[i] = (uint32_t)i;
    }
    s->at[size] = (uint32_t)size;
    s->count = size;
    few_merge(m, s, rank);
}

/* Whether the symbols in the tags are few; copies and merges them if they are. */
static bool few_merge_tags(const cti_bpe *m, const int32_t *tag, size_t units, few_symbols *s) {
    uint32_t rank[FEW_SYMBOLS];
    s->count = 0;
    for (size_t at = 0; at < units; at = tag_end(tag, at, units)) {
        if (s->count == FEW_SYMBOLS) return false;
        s->id[s->count] = tag[at];
        s->at[s->count++] = (uint32_t)at;
    }
    s->at[s->count] = (uint32_t)units;
    for (size_t i = 0; i + 1 < s->count; i++) rank[i] = cti_merge_rank(m, s->id[i], s->id[i + 1]);
    few_merge(m, s, rank);
    return true;
}

/* ---- merging of many symbols ---- */

/* A heap with four children to a node: the children of i are 4 i + 1 to 4 i + 4. */
static void queue_sink(uint64_t *queue, size_t count, size_t i) {
    const uint64_t item = queue[i];
    for (;;) {
        size_t best = 4 * i + 1;
        if (best >= count) break;
        const size_t end = count - best < 4 ? count : best + 4;
        for (size_t child = best + 1; child < end; child++)
            if (queue[child] < queue[best]) best = child;
        if (queue[best] >= item) break;
        queue[i] = queue[best];
        i = best;
    }
    queue[i] = item;
}

static void queue_rise(uint64_t *queue, size_t i) {
    const uint64_t item = queue[i];
    while (i && queue[(i - 1) / 4] > item) {
        queue[i] = queue[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    queue[i] = item;
}

static void queue_order(uint64_t *queue, size_t count) {
    for (size_t i = count / 4 + 1; i--;)
        if (i < count) queue_sink(queue, count, i);
}

/* A piece whose symbols are merged in the order of a queue. */
typedef struct {
    const cti_bpe *bpe;
    int32_t *tag;
    size_t units;
    uint64_t *queue;
    size_t count, room;
} merge_run;

/* If the merge of a queue's item is still possible, returns the end of its left symbol; otherwise
 * 0. It is possible if the pair's merge now has the same result, as in the package. */
static size_t run_middle(const merge_run *run, uint64_t item) {
    const size_t at = (uint32_t)item;
    if (run->tag[at] < 0) return 0;
    const size_t middle = tag_end(run->tag, at, run->units);
    if (middle == run->units) return 0;
    const uint32_t rank = cti_merge_rank(run->bpe, run->tag[at], run->tag[middle]);
    const int32_t *made = run->bpe->made;
    return rank != CTI_NO_RANK && made[rank] == made[item >> 32] ? middle : 0;
}

/* Removes the items whose merges have become impossible. */
static void run_clean(merge_run *run) {
    size_t kept = 0;
    for (size_t i = 0; i < run->count; i++)
        if (run_middle(run, run->queue[i])) run->queue[kept++] = run->queue[i];
    run->count = kept;
    queue_order(run->queue, kept);
}

/* Adds the pair's merge, if there is one, at the end of the queue's array, and returns whether. */
static bool run_add(merge_run *run, size_t left, size_t right) {
    const uint32_t rank = cti_merge_rank(run->bpe, run->tag[left], run->tag[right]);
    if (rank == CTI_NO_RANK) return false;
    if (run->count == run->room) run_clean(run);
    CTI_ASSERT(run->count < run->room);
    run->queue[run->count++] = (uint64_t)rank << 32 | left;
    return true;
}

static void run_push(merge_run *run, size_t left, size_t right) {
    if (run_add(run, left, right)) queue_rise(run->queue, run->count - 1);
}

/* Merges the symbols in work->tag. The queue has an item for each pair that has a merge, and items
 * that have become impossible. If the model is regular these are removed whenever the queue is
 * full, so its room is the number of units: after k merges at most units - k - 1 pairs are left, so
 * that a removal makes room for the items of at least k merges. Otherwise nothing is removed, and
 * as each merge takes one item and adds at most two, there are never 2 units. */
static bool many_merge(const cti_bpe *m, cti_bpe_work *work, size_t units) {
    if (!bpe_queue_room(work, m->regular ? units : 2 * units)) return false;
    merge_run run = {m, work->tag, units, work->queue, 0, work->queue_room};
    int32_t *tag = run.tag;
    for (size_t at = 0, next; at < units; at = next) {
        next = tag_end(tag, at, units);
        if (next < units) run_add(&run, at, next);
    }
    queue_order(run.queue, run.count);
    while (run.count) {
        const uint64_t item = run.queue[0];
        run.queue[0] = run.queue[--run.count];
        if (run.count) queue_sink(run.queue, run.count, 0);
        const size_t at = (uint32_t)item, middle = run_middle(&run, item);
        if (!middle) continue;
        const size_t end = tag_end(tag, middle, units);
        tag[middle] = -1;
        tag_symbol(tag, at, end - at, m->made[item >> 32]);
        if (at) run_push(&run, tag_begin(tag, at), at);
        if (end < units) run_push(&run, at, end);
    }
    return true;
}

/* ---- tokens ---- */

/* In bytes mode: returns the byte of a piece to which a unit of the alphabet's text belongs. The
 * search begins at an earlier byte and its first unit, and sets both to the ones found. */
static size_t byte_of_unit(const char *piece, size_t size, size_t unit, size_t *byte,
                           size_t *first) {
    while (*byte < size) {
        const size_t length = cti_byte_character((unsigned char)piece[*byte]) < 0x80 ? 1 : 2;
        if (unit < *first + length) break;
        *first += length;
        ++*byte;
    }
    return *byte;
}

/* The place in a piece to which tokens are written. Units of the package may be other bytes than
 * the text's, if there are characters without a token; a token whose units are behind the piece has
 * the piece's last byte. */
typedef struct {
    const cti_bpe *bpe;
    cti_sink *sink;
    size_t begin, size;
    size_t byte, first; /* the next entry of byte_of_unit, and the first one */
} token_writer;

static void token_put(token_writer *w, int32_t id, size_t at, size_t end) {
    const char *piece = w->sink->text->at + w->begin;
    if (w->bpe->bytes && !w->bpe->exact) {
        at = byte_of_unit(piece, w->size, at, &w->byte, &w->first);
        end = byte_of_unit(piece, w->size, end - 1, &w->byte, &w->first) + 1;
    }
    if (end > w->size) end = w->size;
    if (at >= end) at = end - 1;
    cti_sink_put(w->sink, id, w->begin + at, w->begin + end);
}

static void few_put(const few_symbols *s, token_writer *w) {
    for (size_t i = 0; i < s->count; i++) token_put(w, s->id[i], s->at[i], s->at[i + 1]);
}

/* Merges a piece into *s, or if it has many symbols (s->count is SIZE_MAX then) in work->tag. */
static bool bpe_merge_piece(const cti_bpe *m, cti_bpe_work *work, const char *piece, size_t size,
                            few_symbols *s, size_t *units) {
    if (m->exact && m->regular && size <= FEW_SYMBOLS) {
        *units = size;
        few_merge_bytes(m, piece, size, s);
        return true;
    }
    if (!bpe_divide(m, work, piece, size, units)) return false;
    if (m->regular && few_merge_tags(m, work->tag, *units, s)) return true;
    s->count = SIZE_MAX;
    return many_merge(m, work, *units);
}

bool cti_bpe_is_whole(const cti_bpe *m, cti_bpe_work *work, const char *piece, size_t size,
                      int32_t *whole) {
    few_symbols s;
    size_t units, all = size;
    *whole = CTI_NO_ID;
    for (size_t i = 0; i < size && m->bytes && !m->exact; i++)
        all += cti_byte_character((unsigned char)piece[i]) >= 0x80;
    if (!bpe_merge_piece(m, work, piece, size, &s, &units)) {
        /* it is not memory that is short if the package refuses the piece */
        return m->has_unknown && m->unknown == CTI_NO_ID;
    }
    if (units != all) return true;
    if (s.count == 1) *whole = s.id[0];
    if (s.count == SIZE_MAX && tag_end(work->tag, 0, units) == units) *whole = work->tag[0];
    return true;
}

static void cache_keep(cti_bpe_cached *entry, const uint64_t key[2], size_t size,
                       const few_symbols *s) {
    if (s->count > CACHED_TOKENS || s->at[s->count] != size) return;
    entry->key[0] = key[0];
    entry->key[1] = key[1];
    entry->size = (uint8_t)size;
    entry->count = (uint8_t)s->count;
    for (size_t i = 0; i < s->count; i++) {
        entry->id[i] = s->id[i];
        entry->end[i] = (uint8_t)s->at[i + 1];
    }
}

static void cache_put(const cti_bpe_cached *entry, size_t begin, cti_sink *sink) {
    for (size_t i = 0, at = 0; i < entry->count; at = entry->end[i++])
        cti_sink_put(sink, entry->id[i], begin + at, begin + entry->end[i]);
}

/* Writes the tokens of a piece or, with `part`, of a part of one. A part is not looked up in the
 * tables if the model ignores merges, because they then have tokens that merges do not make. */
static bool piece_encode(const cti_bpe *m, cti_bpe_work *work, size_t begin, size_t end, bool part,
                         cti_sink *sink) {
    const char *piece = sink->text->at + begin;
    const size_t size = end - begin;
    const bool tables = !part || !m->ignore_merges;
    cti_bpe_cached *entry = NULL;
    uint64_t key[2] = {0};
    if (size <= CTI_KEY_BYTES) {
        cti_key_of(piece, size, sink->text->size - begin, key);
        const size_t hash = cti_key_hash(key, size);
        const cti_whole_slot *slot = cti_whole_at(m, key, size, hash);
        if (slot->size && tables) {
            cti_sink_put(sink, slot->id, begin, end);
            return true;
        }
        if (work->cache && (m->exact || !m->bytes)) entry = &work->cache[hash & (work->caches - 1)];
        if (entry && entry->key[0] == key[0] && entry->key[1] == key[1] && entry->size == size) {
            cache_put(entry, begin, sink);
            return true;
        }
    } else if (size <= m->long_whole.longest && tables) {
        const int32_t id =
            cti_byte_map_find(&m->long_whole, cti_text_hash(piece, size), piece, size);
        if (id != CTI_NO_ID) {
            cti_sink_put(sink, id, begin, end);
            return true;
        }
    }
    few_symbols s;
    size_t units;
    if (!bpe_merge_piece(m, work, piece, size, &s, &units)) return false;
    token_writer w = {m, sink, begin, size, 0, 0};
    if (s.count != SIZE_MAX) {
        if (entry) cache_keep(entry, key, size, &s);
        few_put(&s, &w);
        return true;
    }
    for (size_t at = 0, next; at < units; at = next) {
        next = tag_end(work->tag, at, units);
        token_put(&w, work->tag[at], at, next);
    }
    return true;
}

/* ---- parts of a piece (bpe.h, invariant 5) ---- */

static inline uint32_t part_character(const cti_bpe *m, const char *at, size_t *length) {
    if (!m->bytes) return cti_utf8_get(at, length);
    *length = 1;
    return (unsigned char)*at;
}

static inline bool part_known(const cti_bpe *m, uint32_t c) {
    return (c < 128 || m->bytes ? m->byte[0][c] : cti_symbol_at(m, c << 2)->id) != CTI_NO_ID;
}

/* The end of the part that begins at text + at. */
static size_t part_end(const cti_bpe *m, const char *text, size_t size, size_t at) {
    size_t length;
    uint32_t before = part_character(m, text + at, &length);
    for (at += length; at < size; at += length) {
        const uint32_t c = part_character(m, text + at, &length);
        const size_t bit = cti_join_bit(before, c);
        if (!(m->joins[bit / 64] >> bit % 64 & 1) && part_known(m, before) && part_known(m, c))
            break;
        before = c;
    }
    return at;
}

bool cti_bpe_encode(const cti_bpe *m, cti_bpe_work *work, size_t begin, size_t end,
                    cti_sink *sink) {
    const size_t size = end - begin;
    if (size <= CTI_KEY_BYTES || !m->joins) return piece_encode(m, work, begin, end, false, sink);
    const char *text = sink->text->at;
    if (size <= m->long_whole.longest) {
        const int32_t id = cti_byte_map_find(&m->long_whole, cti_text_hash(text + begin, size),
                                             text + begin, size);
        if (id != CTI_NO_ID) {
            cti_sink_put(sink, id, begin, end);
            return true;
        }
    }
    for (size_t at = begin, next; at < end; at = next) {
        next = part_end(m, text, end, at);
        if (!piece_encode(m, work, at, next, true, sink)) return false;
    }
    return true;
}
