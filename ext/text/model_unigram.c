/* The reading of a Unigram model (unigram.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../src/core/memory.h"
#include "byte_alphabet.h"
#include "unigram.h"

/* ---- scores ---- */

enum { LARGEST_TEN = 308, LARGEST_SHIFT = 100000 };

/* A number that is being read as the package does it: as many digits as 64 bits hold, which are
 * rounded, and a power of ten, by which they are multiplied or divided, with a second rounding. So
 * the last bit can be another one than strtod's, and sums that are nearly equal compare as there.
 */
typedef struct {
    cti_text text;
    size_t at;
    uint64_t digits;
    int64_t shift;
} score_read;

static bool score_has_digit(const score_read *s) {
    return s->at < s->text.size && s->text.at[s->at] >= '0' && s->text.at[s->at] <= '9';
}

/* Reads digits until they do not fit, and returns the number of those that it read. */
static int64_t score_read_digits(score_read *s) {
    const size_t begin = s->at;
    for (; score_has_digit(s); s->at++) {
        const uint64_t digit = (uint64_t)(s->text.at[s->at] - '0');
        if (s->digits > (UINT64_MAX - digit) / 10) break;
        s->digits = 10 * s->digits + digit;
    }
    return (int64_t)(s->at - begin);
}

static int64_t score_skip_digits(score_read *s) {
    const size_t begin = s->at;
    while (score_has_digit(s)) s->at++;
    return (int64_t)(s->at - begin);
}

static void score_read_exponent(score_read *s) {
    if (s->at == s->text.size) return;
    s->at++; /* e or E */
    const bool down = s->text.at[s->at] == '-';
    int64_t exponent = 0;
    if (down || s->text.at[s->at] == '+') s->at++;
    for (; score_has_digit(s); s->at++)
        if (exponent < LARGEST_SHIFT) exponent = 10 * exponent + (s->text.at[s->at] - '0');
    s->shift += down ? -exponent : exponent;
}

/* Fills ten[i] with 10^i. */
static void tens_fill(double ten[LARGEST_TEN + 1]) {
    for (int i = 0; i <= LARGEST_TEN; i++) {
        char spelled[8];
        snprintf(spelled, sizeof spelled, "1e%d", i);
        ten[i] = strtod(spelled, NULL);
    }
}

/* The value of a number's spelling; infinite if it is too large. */
static double score_of(cti_text text, const double ten[LARGEST_TEN + 1]) {
    const bool negative = text.at[0] == '-';
    score_read s = {.text = text, .at = negative};
    score_read_digits(&s);
    s.shift = score_skip_digits(&s);
    if (s.at < text.size && text.at[s.at] == '.') {
        s.at++;
        s.shift -= score_read_digits(&s);
        score_skip_digits(&s);
    }
    score_read_exponent(&s);
    double value = (double)s.digits;
    for (; s.shift < -LARGEST_TEN && value != 0; s.shift += LARGEST_TEN) value /= ten[LARGEST_TEN];
    if (value != 0)
        value = s.shift > LARGEST_TEN ? INFINITY
                : s.shift < 0         ? value / ten[-s.shift]
                                      : value * ten[s.shift];
    return negative ? -value : value;
}

/* ---- the vocabulary ---- */

/* An item of the vocabulary: a text and a score. */
static bool unigram_read_item(const cti_reading *r, cti_json_at item,
                              const double ten[LARGEST_TEN + 1], cti_text *text, double *score) {
    const cti_json_value *value = r->tree->value;
    const cti_json_at first = cti_json_first(r->tree, item);
    if (value[item].kind != CTI_JSON_ARRAY || value[item].count != 2 ||
        value[first].kind != CTI_JSON_STRING || value[value[first].next].kind != CTI_JSON_NUMBER)
        return cti_reading_fail(r, item, "a token is not a text and a number");
    *text = cti_json_text(r->tree, first);
    *score = score_of(cti_json_text(r->tree, value[first].next), ten);
    return isfinite(*score) || cti_reading_fail(r, item, "the score of a token is too large");
}

/* Reads the tokens and their scores. Of tokens that are there twice, the last one counts; the
 * others only have a text. */
static bool unigram_read_vocabulary(const cti_reading *r, cti_json_at list, cti_vocabulary *v,
                                    double *score) {
    double ten[LARGEST_TEN + 1];
    const int64_t count = r->tree->value[list].count;
    tens_fill(ten);
    if (!cti_vocabulary_reserve(v, count, count)) return false;
    int64_t id = 0;
    for (cti_json_at i = cti_json_first(r->tree, list); i; i = r->tree->value[i].next, id++) {
        cti_text text;
        if (!unigram_read_item(r, i, ten, &text, &score[id])) return false;
        text = cti_arena_copy(r->arena, text);
        if (!text.at || !cti_vocabulary_add_again(v, text, id)) return false;
    }
    return true;
}

/* ---- the automaton ---- */

/* A token while the automaton is made. */
typedef struct {
    cti_text text;
    int32_t id;
} unigram_key;

/* The keys lo ... hi - 1 begin with a node's text. */
typedef struct {
    uint32_t lo, hi, depth;
} unigram_range;

static int unigram_keys_compare(const void *a, const void *b) {
    return cti_text_compare(((const unigram_key *)a)->text, ((const unigram_key *)b)->text);
}

/* Writes the keys of the tokens that a piece can have, in order. In bytes mode a key has the bytes
 * that a token stands for; a token outside of the alphabet is left out. */
static bool unigram_list_keys(const cti_reading *r, const cti_vocabulary *v, bool bytes,
                              unigram_key *key, uint32_t *count) {
    for (int64_t id = 0; id < v->size; id++) {
        cti_text text = v->text[id];
        if (!text.size || cti_vocabulary_find(v, text.at, text.size) != id) continue;
        if (bytes) {
            char *room = cti_arena_take(r->arena, text.size + 1, 1);
            if (!room) return false;
            text = (cti_text){room, cti_alphabet_to_bytes(text, room)};
            if (text.size == SIZE_MAX) continue;
        }
        key[(*count)++] = (unigram_key){text, (int32_t)id};
    }
    qsort(key, *count, sizeof *key, unigram_keys_compare);
    return true;
}

/* The number of different beginnings of the keys, with the empty one. */
static size_t unigram_count_nodes(const unigram_key *key, uint32_t count) {
    size_t nodes = 1;
    for (uint32_t i = 0; i < count; i++) {
        size_t same = 0;
        while (i && same < key[i].text.size && same < key[i - 1].text.size &&
               key[i].text.at[same] == key[i - 1].text.at[same])
            same++;
        nodes += key[i].text.size - same;
    }
    return nodes;
}

/* Makes the nodes and their children. */
static void unigram_grow(cti_unigram *m, const unigram_key *key, uint32_t count,
                         unigram_range *range) {
    uint32_t nodes = 1;
    range[0] = (unigram_range){0, count, 0};
    for (uint32_t n = 0; n < nodes; n++) {
        const unigram_range all = range[n];
        m->node[n] = (cti_unigram_node){.first = nodes, .token = -1};
        uint32_t lo = all.lo;
        if (lo < all.hi && key[lo].text.size == all.depth) m->node[n].token = (int32_t)lo++;
        for (uint32_t hi; lo < all.hi; lo = hi) {
            const char label = key[lo].text.at[all.depth];
            for (hi = lo + 1; hi < all.hi && key[hi].text.at[all.depth] == label;) hi++;
            m->label[nodes] = label;
            range[nodes++] = (unigram_range){lo, hi, all.depth + 1};
        }
    }
    m->node[nodes] = (cti_unigram_node){.first = nodes, .token = -1};
    for (uint32_t c = m->node[0].first; c < m->node[1].first && nodes > 1; c++)
        m->root[(unsigned char)m->label[c]] = c;
}

/* Sets .fail, and the tokens that a node's text ends with. Shorter nodes come first. */
static void unigram_link(cti_unigram *m) {
    for (uint32_t n = 0; n < m->nodes; n++) {
        for (uint32_t c = m->node[n].first; c < m->node[n + 1].first; c++) {
            const uint32_t fail = n ? cti_unigram_next(m, m->node[n].fail, m->label[c]) : 0;
            cti_unigram_node *child = &m->node[c];
            child->fail = fail;
            if (child->token >= 0) m->made[child->token].shorter = m->node[fail].token;
            else child->token = m->node[fail].token;
        }
    }
}

static bool unigram_make_of_keys(const cti_reading *r, cti_unigram *m, const unigram_key *key,
                                 uint32_t count, const double *score) {
    const size_t nodes = unigram_count_nodes(key, count);
    if (nodes >= INT32_MAX) return cti_reading_fail(r, r->type_of, "the tokens are too long");
    m->nodes = (uint32_t)nodes;
    m->node = cti_arena_take(r->arena, nodes + 1, sizeof *m->node);
    m->label = cti_arena_take(r->arena, nodes, 1);
    m->made = cti_arena_take(r->arena, (size_t)count + 1, sizeof *m->made);
    if (!m->node || !m->label || !m->made) return false;
    for (uint32_t i = 0; i < count; i++)
        m->made[i] = (cti_unigram_token){.score = score[key[i].id],
                                         .size = (uint32_t)key[i].text.size,
                                         .id = key[i].id,
                                         .shorter = -1};
    const size_t room = nodes * sizeof(unigram_range);
    unigram_range *range = cti_take_any(r->context, room);
    if (!range) return false;
    m->label[0] = 0;
    unigram_grow(m, key, count, range);
    cti_give_any(r->context, range, room);
    unigram_link(m);
    return true;
}

static bool unigram_make(const cti_reading *r, const cti_vocabulary *v, cti_unigram *m,
                         const double *score) {
    const size_t room = ((size_t)v->size + 1) * sizeof(unigram_key);
    unigram_key *key = cti_take_any(r->context, room);
    uint32_t count = 0;
    const bool made = key && unigram_list_keys(r, v, m->bytes, key, &count) &&
                      unigram_make_of_keys(r, m, key, count, score);
    if (key) cti_give_any(r->context, key, room);
    return made;
}

/* ---- the model ---- */

static bool unigram_read_options(const cti_reading *r, cti_json_at value, int64_t count,
                                 cti_unigram *m) {
    int64_t unknown = CTI_NO_ID;
    if (!cti_reading_natural(r, value, "unk_id", &unknown) ||
        !cti_reading_bool(r, value, "byte_fallback", &m->falls_back))
        return false;
    if (unknown >= count)
        return cti_reading_fail(r, cti_json_member(r->tree, value, "unk_id"),
                                "\"unk_id\" is %lld, but there are %lld tokens", (long long)unknown,
                                (long long)count);
    m->unknown = (int32_t)unknown;
    return true;
}

bool cti_unigram_read(const cti_reading *r, cti_json_at value, bool bytes, cti_vocabulary *v,
                      const cti_unigram **unigram) {
    const cti_json_at list = cti_json_member(r->tree, value, "vocab");
    cti_unigram *m = cti_arena_take(r->arena, 1, sizeof *m);
    if (!m) return false;
    *m = (cti_unigram){.bytes = bytes};
    *unigram = m;
    if (!list || r->tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(r, list ? list : value, "\"vocab\" is not a list");
    const int64_t count = r->tree->value[list].count;
    if (!unigram_read_options(r, value, count, m)) return false;
    const size_t room = ((size_t)count + 1) * sizeof(double);
    double *score = cti_take_any(r->context, room);
    if (!score) return false;
    bool made = unigram_read_vocabulary(r, list, v, score);
    double least = INFINITY;
    for (int64_t id = 0; made && id < count; id++) least = score[id] < least ? score[id] : least;
    m->unknown_score = least - 10;
    cti_byte_tokens(v, m->falls_back, m->byte_token);
    made = made && unigram_make(r, v, m, score);
    cti_give_any(r->context, score, room);
    return made;
}
