/* Merges: the rules 2 to 4 of train.h.
 *
 * A word is a distinct piece as a row of symbols, which are ids. A long one is several words, its
 * parts, so that a step reads only the parts that have its pair. A pair of which only the first
 * symbol stands in a part belongs to this part. Parts that have become empty are skipped.
 *
 * A queue has an entry for each pair with the words in which it was made, and a table has the count
 * of each pair. Counts fall while an entry waits, so an entry is compared with the table when it
 * comes out of the queue: it goes back in if its count is no longer true.
 *
 * A step merges (a, b) into c in the words of the entry, from the first to the last. All pairs
 * whose counts it changes have a neighbour of the pair: (p, a) and (p, c) for a symbol p on its
 * left, (b, q) and (c, q) for a symbol q on its right. So the changes are first summed in two
 * arrays, by p and by q, and each pair is looked up once. */
#include <stdlib.h>
#include <string.h>

#include "../../src/core/assert.h"
#include "../../src/core/int_math.h"
#include "byte_alphabet.h"
#include "train.h"
#include "utf8.h"

enum { BYTES = 256, SYMBOL_TEXT = 4, STEPS_OF_PROGRESS = 64, MOST_IN_WORD = 256 };

typedef uint64_t train_pair; /* a << 32 | b, which sorts as (a, b) */

static train_pair pair_of(uint32_t a, uint32_t b) { return (train_pair)a << 32 | b; }

/* The symbols [begin, begin + size) of .symbols. */
typedef struct {
    size_t begin;
    int64_t count;
    uint32_t size;
    bool goes_on; /* the next word is the next part of the same piece */
} train_word;

/* A pair with words in which it stands, in ascending order. */
typedef struct {
    int64_t count;
    train_pair pair;
    uint32_t born; /* the step that made the entry; 0: before the first */
    uint32_t words;
    union {
        uint32_t *list; /* [words], by malloc, if words > 1 */
        uint32_t one;
    };
} train_entry;

typedef struct {
    train_pair pair; /* NO_PAIR: a free place */
    int64_t count;
} train_pair_count;
#define NO_PAIR UINT64_MAX

/* The changes of a step beside one neighbour. */
typedef struct {
    int64_t minus, plus; /* the counts that the old pair loses and the new one gains */
    uint32_t words;      /* the number of words in which the new pair was made */
    uint32_t last;       /* the last of these, + 1 */
    uint32_t filled;     /* while the words are divided among the pairs */
    bool changed;
} train_side;

/* A word in which a new pair was made, and the pair's neighbour: its id, or for a symbol on the
 * right its id + right_sides. */
typedef struct {
    uint32_t side, word;
} train_made;

typedef struct {
    const cti_training *training;
    cti_trained *out;
    uint32_t *symbols;
    train_word *word;
    size_t words;
    train_entry *queue; /* [queued], a heap whose first entry is merged next */
    size_t queued, queue_room;
    train_pair_count *table; /* [places], a power of 2, an open hash table */
    size_t places, pairs;
    train_side *side; /* [2 sides]: neighbours on the left, then on the right */
    uint32_t sides;
    uint32_t *changed; /* [2 sides]: the indices of the sides that a step has changed */
    size_t n_changed;
    train_made *made;
    size_t n_made, made_room;
    uint32_t step;
} train_merger;

/* ---- the counts of pairs ---- */

static size_t pair_place(const train_merger *m, train_pair pair) {
    const uint64_t hash = (pair ^ pair >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = (size_t)(hash >> 24) & (m->places - 1);
    while (m->table[at].pair != pair && m->table[at].pair != NO_PAIR)
        at = (at + 1) & (m->places - 1);
    return at;
}

static bool pairs_grow(train_merger *m) {
    train_pair_count *old = m->table;
    const size_t n = m->places, places = n ? 2 * n : 1 << 16;
    if (places > SIZE_MAX / 2 / sizeof *old) return false;
    train_pair_count *table = malloc(places * sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < places; i++) table[i] = (train_pair_count){.pair = NO_PAIR};
    m->table = table;
    m->places = places;
    for (size_t i = 0; i < n; i++)
        if (old[i].pair != NO_PAIR) m->table[pair_place(m, old[i].pair)] = old[i];
    free(old);
    return true;
}

/* Adds to the count of a pair. Returns false if memory is short. */
static bool pair_add_count(train_merger *m, train_pair pair, int64_t count) {
    if (m->pairs >= m->places / 2 && !pairs_grow(m)) return false;
    train_pair_count *at = &m->table[pair_place(m, pair)];
    if (at->pair == NO_PAIR) {
        at->pair = pair;
        m->pairs++;
    }
    at->count += count;
    return true;
}

static int64_t pair_count_of(const train_merger *m, train_pair pair) {
    return m->table[pair_place(m, pair)].count;
}

/* ---- the queue ---- */

/* Entries of one pair have the same order for any order of the words, because one step makes at
 * most one of them. */
static bool comes_first(const train_entry *a, const train_entry *b) {
    if (a->count != b->count) return a->count > b->count;
    return a->pair != b->pair ? a->pair < b->pair : a->born < b->born;
}

static void queue_sift_down(train_merger *m, size_t i) {
    const train_entry entry = m->queue[i];
    for (size_t child = 2 * i + 1; child < m->queued; child = 2 * i + 1) {
        if (child + 1 < m->queued && comes_first(&m->queue[child + 1], &m->queue[child])) child++;
        if (!comes_first(&m->queue[child], &entry)) break;
        m->queue[i] = m->queue[child];
        i = child;
    }
    m->queue[i] = entry;
}

/* Makes an entry of a pair in `words` words and returns the list to fill in; NULL if memory is
 * short. The entry goes to the end of the array, and queue_place brings it to its place. */
static uint32_t *new_entry(train_merger *m, train_pair pair, uint32_t words) {
    if (m->queued == m->queue_room) {
        const size_t room = m->queue_room ? m->queue_room / 2 * 3 : 1 << 14;
        if (room > SIZE_MAX / sizeof *m->queue) return NULL;
        train_entry *queue = realloc(m->queue, room * sizeof *queue);
        if (!queue) return NULL;
        m->queue = queue;
        m->queue_room = room;
    }
    train_entry *entry = &m->queue[m->queued];
    *entry = (train_entry){.count = pair_count_of(m, pair), .pair = pair, .born = m->step};
    if (words > 1) {
        entry->list = calloc(words, sizeof *entry->list);
        if (!entry->list) return NULL;
    }
    entry->words = words;
    m->queued++;
    return words > 1 ? entry->list : &entry->one;
}

static void queue_place(train_merger *m, size_t i) {
    const train_entry entry = m->queue[i];
    for (; i && comes_first(&entry, &m->queue[(i - 1) / 2]); i = (i - 1) / 2)
        m->queue[i] = m->queue[(i - 1) / 2];
    m->queue[i] = entry;
}

static void entry_free(const train_entry *entry) {
    if (entry->words > 1) free(entry->list);
}

/* Takes the entry that is merged next out of the queue. Returns false if no pair is left. */
static bool queue_take(train_merger *m, train_entry *entry) {
    while (m->queued) {
        train_entry *first = &m->queue[0];
        const int64_t count = pair_count_of(m, first->pair);
        if (first->count == count) {
            *entry = *first;
            *first = m->queue[--m->queued];
            if (m->queued) queue_sift_down(m, 0);
            return true;
        }
        first->count = count;
        queue_sift_down(m, 0);
    }
    return false;
}

/* ---- tokens ---- */

static bool merged_token_put(train_merger *m, const char *at, size_t size, uint32_t *id) {
    const size_t index = cti_tally_add(&m->out->tokens, at, size, 1);
    if (index == CTI_TALLY_FULL) return cti_training_no_memory(m->training);
    *id = (uint32_t)index;
    return true;
}

/* The ids of the special tokens and of the alphabet, in the order of its characters. */
static bool first_tokens(train_merger *m, uint32_t id_of_byte[BYTES]) {
    uint32_t id;
    for (int64_t i = 0; i < m->training->n_special; i++)
        if (!merged_token_put(m, m->training->special[i].at, m->training->special[i].size, &id))
            return false;
    for (uint32_t c = 0, found = 0; found < BYTES; c++) {
        const int byte = cti_character_byte(c);
        if (byte < 0) continue;
        char text[SYMBOL_TEXT];
        if (!merged_token_put(m, text, cti_utf8_put(text, c), &id_of_byte[byte])) return false;
        found++;
    }
    return true;
}

/* Writes down the merge of a pair and sets *c to the id of its token, which may exist already. */
static bool merge_put(train_merger *m, uint32_t a, uint32_t b, uint32_t *c) {
    cti_trained *out = m->out;
    const cti_tally_text left = out->tokens.text[a], right = out->tokens.text[b];
    char *text = malloc((size_t)left.size + right.size);
    if (!text) return cti_training_no_memory(m->training);
    memcpy(text, out->tokens.bytes + left.at, left.size);
    memcpy(text + left.size, out->tokens.bytes + right.at, right.size);
    const size_t tokens = out->tokens.count;
    const bool ok = merged_token_put(m, text, (size_t)left.size + right.size, c);
    free(text);
    if (!ok) return false;
    if (out->count == out->room) {
        const size_t room = out->room ? 2 * out->room : 1 << 10;
        cti_merged_pair *merge =
            room > SIZE_MAX / sizeof *merge ? NULL : realloc(out->merge, room * sizeof *merge);
        if (!merge) return cti_training_no_memory(m->training);
        out->merge = merge;
        out->room = room;
    }
    for (size_t i = 0; tokens == out->tokens.count && i < out->count; i++)
        if (out->merge[i].a == a && out->merge[i].b == b) out->merge[i].replaced = true;
    out->merge[out->count++] = (cti_merged_pair){.a = a, .b = b, .c = *c};
    return true;
}

/* ---- a step ---- */

/* Makes the arrays of sides long enough for every id. */
static bool sides_grow(train_merger *m) {
    const size_t ids = m->out->tokens.count;
    if (ids <= m->sides) return true;
    const size_t sides = 2 * ids;
    if (sides > UINT32_MAX / 2 || sides > SIZE_MAX / 2 / sizeof *m->side) return false;
    free(m->side);
    free(m->changed);
    m->sides = 0;
    m->side = calloc(2 * sides, sizeof *m->side);
    m->changed = malloc(2 * sides * sizeof *m->changed);
    if (!m->side || !m->changed) return false;
    m->sides = (uint32_t)sides;
    return true;
}

static bool made_grow(train_merger *m) {
    const size_t room = m->made_room ? 2 * m->made_room : 1 << 12;
    if (room > SIZE_MAX / sizeof *m->made) return false;
    train_made *made = realloc(m->made, room * sizeof *made);
    if (!made) return false;
    m->made = made;
    m->made_room = room;
    return true;
}

static train_side *side_change(train_merger *m, uint32_t s) {
    train_side *side = &m->side[s];
    if (!side->changed) {
        side->changed = true;
        m->changed[m->n_changed++] = s;
    }
    return side;
}

/* Notes that word w has a new pair beside neighbour s, `count` times. */
static void pair_make(train_merger *m, uint32_t s, uint32_t w, int64_t count) {
    train_side *side = side_change(m, s);
    side->plus += count;
    if (side->last == w + 1) return;
    side->last = w + 1;
    side->words++;
    m->made[m->n_made++] = (train_made){s, w};
}

/* The first symbol of a piece behind word w; NULL at its end. *found is the symbol's word. */
static const uint32_t *symbol_behind(const train_merger *m, size_t w, size_t *found) {
    while (m->word[w].goes_on) {
        w++;
        *found = w;
        if (m->word[w].size) return m->symbols + m->word[w].begin;
    }
    return NULL;
}

/* The last symbol of a piece before word w; NULL at its beginning. */
static const uint32_t *symbol_before(const train_merger *m, size_t w, size_t *found) {
    while (w && m->word[w - 1].goes_on) {
        w--;
        *found = w;
        if (m->word[w].size) return m->symbols + m->word[w].begin + m->word[w].size - 1;
    }
    return NULL;
}

/* Counts the pairs that a merge into c changes, beside the symbols on its left and right, which
 * may be NULL. `left_word` is the word of the left one. */
static void pairs_change(train_merger *m, const uint32_t *left, size_t left_word,
                         const uint32_t *right, uint32_t w, uint32_t c) {
    const int64_t count = m->word[w].count;
    if (left) {
        side_change(m, *left)->minus += count;
        pair_make(m, *left, (uint32_t)left_word, count);
    }
    if (!right) return;
    side_change(m, m->sides + *right)->minus += count;
    /* The pair (c, c) is counted once, by its left symbol. */
    pair_make(m, *right == c ? c : m->sides + *right, w, count);
}

/* Merges (a, b) into c in word w. */
static bool word_merge_pair(train_merger *m, uint32_t w, uint32_t a, uint32_t b, uint32_t c) {
    train_word *word = &m->word[w];
    uint32_t *symbol = m->symbols + word->begin, n = 0;
    while (m->made_room - m->n_made < (size_t)word->size + 1)
        if (!made_grow(m)) return false;
    for (uint32_t i = 0; i < word->size; n++) {
        size_t left_word = w, next = w;
        const bool is_last = i + 1 == word->size;
        if (symbol[i] != a || (!is_last && symbol[i + 1] != b)) {
            symbol[n] = symbol[i++];
            continue;
        }
        if (is_last) {
            const uint32_t *behind = symbol_behind(m, w, &next);
            if (!behind || *behind != b) {
                symbol[n] = symbol[i++];
                continue;
            }
            m->word[next].begin++;
            m->word[next].size--;
        }
        const uint32_t *left = n ? &symbol[n - 1] : symbol_before(m, w, &left_word);
        i += is_last ? 1 : 2;
        symbol[n] = c;
        const uint32_t *right = i < word->size ? &symbol[i] : symbol_behind(m, w, &next);
        pairs_change(m, left, left_word, right, w, c);
    }
    word->size = n;
    return true;
}

/* Adds the changes beside the neighbours to the counts of the pairs. */
static bool changes_count(train_merger *m, uint32_t a, uint32_t b, uint32_t c) {
    for (size_t i = 0; i < m->n_changed; i++) {
        const uint32_t s = m->changed[i], id = s % m->sides;
        const train_side *side = &m->side[s];
        const bool left = s < m->sides;
        if (side->minus && !pair_add_count(m, left ? pair_of(id, a) : pair_of(b, id), -side->minus))
            return false;
        if (side->plus && !pair_add_count(m, left ? pair_of(id, c) : pair_of(c, id), side->plus))
            return false;
    }
    return true;
}

/* Makes entries of the new pairs, of which .filled is the place in the queue's array, + 1. They
 * have no place in the heap until all lists are filled in. */
static bool changes_queue(train_merger *m, uint32_t c) {
    const size_t first = m->queued;
    for (size_t i = 0; i < m->n_changed; i++) {
        const uint32_t s = m->changed[i], id = s % m->sides;
        train_side *side = &m->side[s];
        const train_pair pair = s < m->sides ? pair_of(id, c) : pair_of(c, id);
        side->filled = 0;
        if (!side->words || pair_count_of(m, pair) <= 0) continue;
        if (!new_entry(m, pair, side->words)) return false;
        side->last = (uint32_t)(m->queued - 1 - first);
        side->filled = 1;
    }
    for (size_t i = 0; i < m->n_made; i++) {
        train_side *side = &m->side[m->made[i].side];
        if (!side->filled) continue;
        train_entry *entry = &m->queue[first + side->last];
        if (entry->words == 1) entry->one = m->made[i].word;
        else entry->list[side->filled++ - 1] = m->made[i].word;
    }
    const size_t end = m->queued;
    for (size_t i = first; i < end; i++) queue_place(m, i);
    return true;
}

static void changes_clear(train_merger *m) {
    for (size_t i = 0; i < m->n_changed; i++) m->side[m->changed[i]] = (train_side){0};
    m->n_changed = m->n_made = 0;
}

/* Merges (a, b) into c in the words of an entry. If a or b was made by two steps, another entry may
 * have the same pair in other words of a piece. The package's entry has pieces and merges the pair
 * everywhere in each of them, so all words of these pieces are read. */
static bool words_merge_pair(train_merger *m, const train_entry *entry, uint32_t a, uint32_t b,
                             uint32_t c) {
    const cti_tally_text *token = m->out->tokens.text;
    const bool in_pieces = token[a].count > 1 || token[b].count > 1;
    size_t done = 0; /* the words before this one have been read */
    for (uint32_t i = 0; i < entry->words; i++) {
        size_t w = entry->words > 1 ? entry->list[i] : entry->one, end = w + 1;
        if (w < done) continue;
        while (in_pieces && w && m->word[w - 1].goes_on) w--;
        while (in_pieces && m->word[end - 1].goes_on) end++;
        for (; w < end; w++)
            if (!word_merge_pair(m, (uint32_t)w, a, b, c)) return false;
        done = end;
    }
    return true;
}

static bool entry_merge(train_merger *m, const train_entry *entry) {
    const uint32_t a = (uint32_t)(entry->pair >> 32), b = (uint32_t)entry->pair;
    uint32_t c = 0;
    if (!merge_put(m, a, b, &c)) return false;
    const bool ok = sides_grow(m) && words_merge_pair(m, entry, a, b, c) &&
                    changes_count(m, a, b, c) && changes_queue(m, c);
    if (ok) changes_clear(m);
    return ok || cti_training_no_memory(m->training);
}

/* Merges until the vocabulary is full or no pair is frequent enough. */
static bool pairs_merge_until_full(train_merger *m) {
    const size_t first = m->out->tokens.count, size = (size_t)m->training->vocab_size;
    for (m->step = 1; m->out->tokens.count < size; m->step++) {
        train_entry entry;
        if (!queue_take(m, &entry)) break;
        const bool enough = entry.count >= cti_max(1, m->training->min_frequency);
        bool ok = !enough || entry_merge(m, &entry);
        entry_free(&entry);
        if (!enough) break;
        if (ok && m->step % STEPS_OF_PROGRESS == 0) {
            const double part = (double)(m->out->tokens.count - first) / (double)(size - first);
            ok = cti_training_goes_on(m->training, 0.5 + part / 2);
        }
        if (!ok) return false;
    }
    return true;
}

/* ---- the words, and the first pairs ---- */

/* Makes words of the pieces and frees the pieces. */
static bool words_make(train_merger *m, cti_tally *pieces, const uint32_t id_of_byte[BYTES]) {
    size_t words = 0;
    for (size_t i = 0; i < pieces->count; i++) words += 1 + pieces->text[i].size / MOST_IN_WORD;
    if (pieces->used > SIZE_MAX / sizeof *m->symbols || words > UINT32_MAX - 1 ||
        words > SIZE_MAX / sizeof *m->word)
        return cti_training_no_memory(m->training);
    m->symbols = malloc(pieces->used * sizeof *m->symbols + 1);
    m->word = malloc(words * sizeof *m->word + 1);
    if (!m->symbols || !m->word) return cti_training_no_memory(m->training);
    for (size_t i = 0; i < pieces->used; i++)
        m->symbols[i] = id_of_byte[(unsigned char)pieces->bytes[i]];
    for (size_t i = 0; i < pieces->count; i++) {
        const cti_tally_text *text = &pieces->text[i];
        for (uint32_t at = 0; at < text->size; at += MOST_IN_WORD) {
            const uint32_t left = text->size - at;
            const bool goes_on = left > MOST_IN_WORD;
            m->word[m->words++] = (train_word){.begin = text->at + at,
                                               .count = text->count,
                                               .size = goes_on ? MOST_IN_WORD : left,
                                               .goes_on = goes_on};
        }
    }
    CTI_ASSERT(m->words <= words);
    cti_tally_free(pieces);
    return true;
}

/* The counts of the pairs of bytes. */
typedef struct {
    int64_t count;
    uint32_t words, last; /* the number of words, and the last one, + 1 */
    uint32_t *list;       /* the place for the next word */
} train_first;

/* Visits the pairs of every word, and either counts them and their words, or lists the words. */
static void pairs_visit(const train_merger *m, const uint32_t byte_of_id[], train_first *first,
                        bool list) {
    for (size_t w = 0; w < m->words; w++) {
        const train_word *word = &m->word[w];
        const uint32_t *symbol = m->symbols + word->begin;
        /* In memory the next part's symbols follow this part's. */
        const uint32_t pairs = word->goes_on ? word->size : word->size - 1;
        for (uint32_t i = 0; i < pairs; i++) {
            train_first *pair = &first[byte_of_id[symbol[i]] * BYTES + byte_of_id[symbol[i + 1]]];
            pair->count += word->count;
            if (pair->last == w + 1) continue;
            pair->last = (uint32_t)w + 1;
            if (list) *pair->list++ = (uint32_t)w;
            else pair->words++;
        }
    }
}

static bool queue_fill(train_merger *m, const uint32_t id_of_byte[BYTES],
                       const uint32_t byte_of_id[], train_first *first) {
    pairs_visit(m, byte_of_id, first, false);
    for (uint32_t i = 0; i < BYTES * BYTES; i++) {
        if (!first[i].count) continue;
        const train_pair pair = pair_of(id_of_byte[i / BYTES], id_of_byte[i % BYTES]);
        if (!pair_add_count(m, pair, first[i].count)) return false;
        first[i].list = new_entry(m, pair, first[i].words);
        if (!first[i].list) return false;
        first[i].last = 0;
        /* The address of a single word is inside of its entry, which still moves. */
        if (first[i].words == 1) first[i].list = &first[i].words;
    }
    pairs_visit(m, byte_of_id, first, true);
    size_t n = 0;
    for (uint32_t i = 0; i < BYTES * BYTES; i++)
        if (first[i].count && m->queue[n++].words == 1) m->queue[n - 1].one = first[i].words;
    CTI_ASSERT(n == m->queued);
    for (size_t i = m->queued / 2; i--;) queue_sift_down(m, i);
    return true;
}

static bool first_pairs(train_merger *m, const uint32_t id_of_byte[BYTES]) {
    train_first *first = calloc((size_t)BYTES * BYTES, sizeof *first);
    uint32_t *byte_of_id = calloc(m->out->tokens.count, sizeof *byte_of_id);
    for (uint32_t i = 0; byte_of_id && i < BYTES; i++) byte_of_id[id_of_byte[i]] = i;
    const bool ok =
        first && byte_of_id && pairs_grow(m) && queue_fill(m, id_of_byte, byte_of_id, first);
    free(byte_of_id);
    free(first);
    return ok || cti_training_no_memory(m->training);
}

/* ---- the whole ---- */

static void merger_free(train_merger *m) {
    for (size_t i = 0; i < m->queued; i++) entry_free(&m->queue[i]);
    free(m->queue);
    free(m->symbols);
    free(m->word);
    free(m->table);
    free(m->side);
    free(m->changed);
    free(m->made);
}

bool cti_train_merge(const cti_training *training, cti_tally *pieces, cti_trained *trained) {
    *trained = (cti_trained){0};
    train_merger m = {.training = training, .out = trained};
    uint32_t id_of_byte[BYTES];
    const bool ok = first_tokens(&m, id_of_byte) && words_make(&m, pieces, id_of_byte) &&
                    first_pairs(&m, id_of_byte) && pairs_merge_until_full(&m);
    merger_free(&m);
    return ok;
}

void cti_trained_free(cti_trained *trained) {
    cti_tally_free(&trained->tokens);
    free(trained->merge);
    *trained = (cti_trained){0};
}
