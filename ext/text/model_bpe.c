/* The reading of a BPE model. */
#include <cotangent/autograd.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "bpe.h"
#include "byte_alphabet.h"
#include "utf8.h"

/* ---- the options ---- */

static bool bpe_read_dropout(const cti_reading *r, cti_json_at value) {
    const cti_json_at dropout = cti_json_member(r->tree, value, "dropout");
    double p = 0;
    if (!dropout || r->tree->value[dropout].kind == CTI_JSON_NULL) return true;
    if (!cti_json_real(r->tree, dropout, &p))
        return cti_reading_fail(r, dropout, "\"dropout\" is not a number");
    return p == 0 || cti_reading_fail(r, dropout, "dropout %g is not supported, only 0", p);
}

static bool bpe_read_options(const cti_reading *r, cti_json_at value, const cti_vocabulary *v,
                             cti_bpe *m) {
    cti_text unknown = {0};
    m->prefix = m->suffix = cti_text_of("");
    if (!bpe_read_dropout(r, value) || !cti_reading_bool(r, value, "fuse_unk", &m->fuse_unknown) ||
        !cti_reading_bool(r, value, "byte_fallback", &m->byte_fallback) ||
        !cti_reading_bool(r, value, "ignore_merges", &m->ignore_merges) ||
        !cti_reading_text(r, value, "unk_token", &unknown) ||
        !cti_reading_text(r, value, "continuing_subword_prefix", &m->prefix) ||
        !cti_reading_text(r, value, "end_of_word_suffix", &m->suffix))
        return false;
    m->has_unknown = unknown.at != NULL;
    m->unknown =
        m->has_unknown ? (int32_t)cti_vocabulary_find(v, unknown.at, unknown.size) : CTI_NO_ID;
    cti_byte_tokens(v, m->byte_fallback, m->byte_token);
    return true;
}

/* ---- symbols ---- */

/* The id of the character c in a form; `room` has space for prefix, character and suffix. */
static int32_t bpe_symbol_id(const cti_bpe *m, const cti_vocabulary *v, uint32_t c, int form,
                             char *room) {
    char *at = room;
    if (form & CTI_WITH_PREFIX) {
        memcpy(at, m->prefix.at, m->prefix.size);
        at += m->prefix.size;
    }
    at += cti_utf8_put(at, c);
    if (form & CTI_WITH_SUFFIX) {
        memcpy(at, m->suffix.at, m->suffix.size);
        at += m->suffix.size;
    }
    return (int32_t)cti_vocabulary_find(v, room, (size_t)(at - room));
}

/* Fills m->byte: symbols of bytes, or of the characters below 128. */
static bool bpe_read_bytes(const cti_reading *r, const cti_vocabulary *v, cti_bpe *m) {
    char *room = cti_arena_take(r->arena, m->prefix.size + m->suffix.size + 4, 1);
    if (!room) return false;
    m->exact = m->bytes && !m->prefix.size && !m->suffix.size;
    for (int form = 0; form < CTI_SYMBOL_FORMS; form++) {
        for (int b = 0; b < 256; b++) {
            m->byte[form][b] = CTI_NO_ID;
            if (!m->bytes && b >= 128) continue;
            const uint32_t c = m->bytes ? cti_byte_character((unsigned char)b) : (uint32_t)b;
            m->byte[form][b] = bpe_symbol_id(m, v, c, form, room);
            if (m->byte[form][b] == CTI_NO_ID) m->exact = false;
        }
    }
    return true;
}

/* If the text is a prefix, if wanted, one character, and a suffix, if wanted, sets *c to the
 * character. */
static bool bpe_is_symbol(const cti_bpe *m, cti_text text, int form, uint32_t *c) {
    const cti_text prefix = m->prefix, suffix = m->suffix;
    if (form & CTI_WITH_PREFIX) {
        if (text.size < prefix.size || memcmp(text.at, prefix.at, prefix.size)) return false;
        text = (cti_text){text.at + prefix.size, text.size - prefix.size};
    }
    if (form & CTI_WITH_SUFFIX) {
        if (text.size < suffix.size ||
            memcmp(text.at + text.size - suffix.size, suffix.at, suffix.size))
            return false;
        text.size -= suffix.size;
    }
    size_t length;
    if (!text.size || text.size > 4 || cti_utf8_length((unsigned char)text.at[0]) != text.size ||
        cti_utf8_continues(text.at[0]))
        return false;
    *c = cti_utf8_get(text.at, &length);
    return true;
}

/* Makes the table of characters that are symbols, which bytes mode does not need. */
static bool bpe_read_symbols(const cti_reading *r, const cti_vocabulary *v, cti_bpe *m) {
    uint32_t c;
    for (m->symbol = NULL; !m->symbol;) {
        size_t count = 0;
        for (int64_t id = 0; id < v->size && !m->bytes; id++)
            for (int form = 0; form < CTI_SYMBOL_FORMS && v->text[id].at; form++)
                count += bpe_is_symbol(m, v->text[id], form, &c);
        for (m->symbols = 16; m->symbols / 2 < count;) m->symbols *= 2;
        m->symbol = cti_arena_take(r->arena, m->symbols, sizeof *m->symbol);
        if (!m->symbol) return false;
    }
    for (size_t i = 0; i < m->symbols; i++) m->symbol[i] = (cti_symbol_slot){UINT32_MAX, CTI_NO_ID};
    for (int64_t id = 0; id < v->size && !m->bytes; id++) {
        for (int form = 0; form < CTI_SYMBOL_FORMS && v->text[id].at; form++) {
            if (!bpe_is_symbol(m, v->text[id], form, &c)) continue;
            const uint32_t key = c << 2 | (uint32_t)form;
            *cti_symbol_at(m, key) = (cti_symbol_slot){key, (int32_t)id};
        }
    }
    return true;
}

/* ---- merges ---- */

/* Reads "a b". A line that begins with "#version" is none: *left is {NULL} then. */
static bool bpe_split_merge(const cti_reading *r, cti_json_at item, cti_text *left,
                            cti_text *right) {
    const cti_text text = cti_json_text(r->tree, item);
    const char *space = memchr(text.at, ' ', text.size);
    const cti_text version = cti_text_of("#version");
    *left = (cti_text){0};
    if (text.size >= version.size && !memcmp(text.at, version.at, version.size)) return true;
    if (!space) return cti_reading_fail(r, item, "a merge without a space");
    *left = (cti_text){text.at, (size_t)(space - text.at)};
    *right = (cti_text){space + 1, text.size - left->size - 1};
    return !memchr(right->at, ' ', right->size) ||
           cti_reading_fail(r, item, "a merge of more than two tokens");
}

static bool bpe_pair_merge(const cti_reading *r, cti_json_at item, cti_text *left,
                           cti_text *right) {
    const cti_json_value *value = r->tree->value;
    const cti_json_at first = cti_json_first(r->tree, item);
    if (value[item].count != 2 || value[first].kind != CTI_JSON_STRING ||
        value[value[first].next].kind != CTI_JSON_STRING)
        return cti_reading_fail(r, item, "a merge is not two tokens");
    *left = cti_json_text(r->tree, first);
    *right = cti_json_text(r->tree, value[first].next);
    return true;
}

static bool bpe_merge_id(const cti_reading *r, cti_json_at item, const cti_vocabulary *v,
                         cti_text text, int32_t *id) {
    *id = (int32_t)cti_vocabulary_find(v, text.at, text.size);
    return *id != CTI_NO_ID ||
           cti_reading_fail(r, item, "a merge needs '%.*s', which is not in the vocabulary",
                            (int)(text.size < 100 ? text.size : 100), text.at);
}

/* Notes the two characters that a merge joins. A token that is empty, or in bytes mode not in the
 * alphabet, is no symbol of any piece. */
static void bpe_note_join(cti_bpe *m, cti_text left, cti_text right) {
    size_t length, last = left.size;
    if (!left.size || !right.size) return;
    for (last--; cti_utf8_continues(left.at[last]);) last--;
    uint32_t a = cti_utf8_get(left.at + last, &length), b = cti_utf8_get(right.at, &length);
    if (m->bytes) {
        if (cti_character_byte(a) < 0 || cti_character_byte(b) < 0) return;
        a = (uint32_t)cti_character_byte(a);
        b = (uint32_t)cti_character_byte(b);
    }
    const size_t bit = cti_join_bit(a, b);
    m->joins[bit / 64] |= (uint64_t)1 << bit % 64;
}

/* Whether all characters of a piece have tokens whose units are the piece's bytes. */
static bool bpe_drops_nothing(const cti_bpe *m) {
    if (m->exact || m->unknown != CTI_NO_ID) return m->exact || !m->bytes;
    for (int b = 0; b < 256; b++)
        if (m->byte_token[b] == CTI_NO_ID) return false;
    return !m->bytes;
}

/* Adds a merge; `room` has space for the longest result. A pair that is there twice has the later
 * rank, as in the package. */
static bool bpe_add_merge(const cti_reading *r, cti_json_at item, const cti_vocabulary *v,
                          cti_text left, cti_text right, char *room, uint32_t rank, cti_bpe *m) {
    int32_t a, b;
    if (!bpe_merge_id(r, item, v, left, &a) || !bpe_merge_id(r, item, v, right, &b)) return false;
    const size_t skip = m->prefix.size;
    if (right.size < skip || (right.size > skip && cti_utf8_continues(right.at[skip])))
        return cti_reading_fail(r, item, "a merge's second token is shorter than the prefix");
    memcpy(room, left.at, left.size);
    memcpy(room + left.size, right.at + skip, right.size - skip);
    const cti_text joined = {room, left.size + right.size - skip};
    if (!bpe_merge_id(r, item, v, joined, &m->made[rank])) return false;
    *cti_merge_at(m, a, b) = (cti_merge_slot){a, b, rank};
    bpe_note_join(m, left, right);
    if (m->has_unknown && (a == m->unknown || b == m->unknown)) m->regular = false;
    for (int i = 0; i < 256 && m->byte_fallback; i++)
        if (a == m->byte_token[i] || b == m->byte_token[i]) m->regular = false;
    return true;
}

static size_t bpe_longest(const cti_vocabulary *v) {
    size_t longest = 0;
    for (int64_t id = 0; id < v->size; id++)
        if (v->text[id].size > longest) longest = v->text[id].size;
    return longest;
}

static bool bpe_take_merges(const cti_reading *r, uint32_t count, cti_bpe *m) {
    for (m->merges = 16; m->merges / 2 < count;) m->merges *= 2;
    m->merge = cti_arena_take(r->arena, m->merges, sizeof *m->merge);
    m->made = cti_arena_take(r->arena, (size_t)count + 1, sizeof *m->made);
    m->joins = cti_arena_take(r->arena, CTI_JOIN_BITS / 64, sizeof *m->joins);
    if (!m->merge || !m->made || !m->joins) return false;
    memset(m->joins, 0, CTI_JOIN_BITS / 8);
    for (size_t i = 0; i < m->merges; i++) m->merge[i] = (cti_merge_slot){.rank = CTI_NO_RANK};
    m->regular = true;
    return true;
}

static bool bpe_read_merges(const cti_reading *r, cti_json_at value, const cti_vocabulary *v,
                            cti_bpe *m) {
    const cti_json_at list = cti_json_member(r->tree, value, "merges");
    if (!list || r->tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(r, list ? list : value, "\"merges\" is not a list");
    if (!bpe_take_merges(r, r->tree->value[list].count, m)) return false;
    char *room = cti_arena_take(r->arena, 2 * bpe_longest(v) + 1, 1);
    if (!room) return false;
    uint32_t rank = 0;
    const cti_json_kind kind = r->tree->value[cti_json_first(r->tree, list)].kind;
    for (cti_json_at i = cti_json_first(r->tree, list); i; i = r->tree->value[i].next) {
        cti_text left = {0}, right = {0};
        if (r->tree->value[i].kind != kind || (kind != CTI_JSON_STRING && kind != CTI_JSON_ARRAY))
            return cti_reading_fail(r, i, "merges are not all \"a b\" or all [\"a\", \"b\"]");
        if (kind == CTI_JSON_STRING ? !bpe_split_merge(r, i, &left, &right)
                                    : !bpe_pair_merge(r, i, &left, &right))
            return false;
        if (left.at && !bpe_add_merge(r, i, v, left, right, room, rank++, m)) return false;
    }
    if (!m->regular || m->prefix.size || m->suffix.size || !bpe_drops_nothing(m)) m->joins = NULL;
    return true;
}

/* The ranks of pairs of bytes in an array, because half of all look-ups are of such pairs. */
static bool bpe_rank_bytes(const cti_reading *r, cti_bpe *m) {
    if (!m->exact) return true;
    m->byte_rank = cti_arena_take(r->arena, (size_t)256 * 256, sizeof *m->byte_rank);
    for (size_t i = 0; i < (size_t)256 * 256 && m->byte_rank; i++)
        m->byte_rank[i] = cti_merge_rank(m, m->byte[0][i >> 8], m->byte[0][i & 255]);
    return m->byte_rank != NULL;
}

/* ---- tokens whose text is known to become one token ---- */

/* If all symbols are bytes, the merges alone prove of most tokens that their text becomes one
 * token. Of a byte `last` is 0; of another proven token it is the rank of its last merge + 1, which
 * is above `last` of its two parts. So its merges happen in the order of ranks.
 *
 * Let a and b be proven, and a merge of a higher rank make c of them. In the text of c both are
 * merged as each alone, unless a pair across the border between them is merged before. The pairs
 * that stand there are found from (a, b) backwards. Of the two tokens at the border the one that
 * was made last is taken apart: its last merge ended the pair that stood there before. That pair
 * must have no merge, or one of a higher rank than the merge that ended it. Of two tokens with the
 * same last merge the right one is made last, because equal ranks are merged from the left. */
typedef struct {
    const cti_bpe *bpe;
    uint32_t *last; /* [the vocabulary's size] UNPROVEN: the token is to be merged */
    struct bpe_pair {
        int32_t left, right;
    } *pair; /* [ranks] of a merge; CTI_NO_ID: the pair has another rank */
    size_t ranks;
} bpe_proof;
#define UNPROVEN UINT32_MAX

/* Whether no pair across the border of two proven tokens is merged before them. */
static bool proof_border(const bpe_proof *p, int32_t left, int32_t right) {
    while (p->last[left] || p->last[right]) {
        const bool of_right = p->last[right] >= p->last[left];
        const uint32_t rank = p->last[of_right ? right : left] - 1;
        if (of_right) right = p->pair[rank].left;
        else left = p->pair[rank].right;
        if (cti_merge_rank(p->bpe, left, right) <= rank) return false;
    }
    return true;
}

/* Sets p->last. A merge is looked at when those of its parts have been. */
static void proof_run(const bpe_proof *p, int64_t tokens) {
    const cti_bpe *m = p->bpe;
    for (int64_t id = 0; id < tokens; id++) p->last[id] = UNPROVEN;
    for (size_t rank = 0; rank < p->ranks; rank++) p->pair[rank].left = CTI_NO_ID;
    for (int b = 0; b < 256; b++) p->last[m->byte[0][b]] = 0;
    for (size_t i = 0; i < m->merges; i++) {
        const cti_merge_slot *slot = &m->merge[i];
        if (slot->rank != CTI_NO_RANK)
            p->pair[slot->rank] = (struct bpe_pair){slot->left, slot->right};
    }
    for (uint32_t rank = 0; rank < p->ranks; rank++) {
        const struct bpe_pair pair = p->pair[rank];
        if (pair.left != CTI_NO_ID && p->last[pair.left] != UNPROVEN &&
            p->last[pair.right] != UNPROVEN && proof_border(p, pair.left, pair.right))
            p->last[m->made[rank]] = rank + 1;
    }
}

/* Sets p->last, which stays NULL if symbols are not bytes, or merges are ignored. Returns false
 * after an error. */
static bool bpe_prove(const cti_reading *r, const cti_vocabulary *v, bpe_proof *p) {
    if (!p->bpe->exact || !p->bpe->regular || p->bpe->ignore_merges) return true;
    p->ranks = p->bpe->merges / 2; /* at most half of the slots are taken */
    p->last = cti_take_any(r->context, cti_bytes(v->size, sizeof *p->last));
    if (p->last) p->pair = cti_take_any(r->context, p->ranks * sizeof *p->pair);
    if (p->pair) proof_run(p, v->size);
    return p->pair != NULL;
}

static void proof_end(const cti_reading *r, const cti_vocabulary *v, const bpe_proof *p) {
    cti_give_any(r->context, p->last, cti_bytes(v->size, sizeof *p->last));
    cti_give_any(r->context, p->pair, p->ranks * sizeof *p->pair);
}

/* ---- pieces that are one token ---- */

static bool bpe_put_whole(const cti_reading *r, cti_bpe *m, cti_text piece, int32_t id) {
    if (piece.size > CTI_KEY_BYTES) {
        piece = cti_arena_copy(r->arena, piece);
        if (piece.at) cti_byte_map_put(&m->long_whole, piece.at, piece.size, id);
        return piece.at != NULL;
    }
    uint64_t key[2];
    cti_key_of(piece.at, piece.size, piece.size, key);
    cti_whole_slot *slot = cti_whole_at(m, key, piece.size, cti_key_hash(key, piece.size));
    *slot = (cti_whole_slot){{key[0], key[1]}, (uint32_t)piece.size, id};
    return true;
}

/* Puts the text of a token into the table if a piece of this text becomes one token, which may be
 * known. `room` has space for the longest text. */
static bool bpe_try_whole(const cti_reading *r, cti_bpe *m, cti_bpe_work *work, cti_text text,
                          int64_t id, bool known, char *room) {
    const cti_text suffix = m->suffix;
    int32_t whole = (int32_t)id;
    if (!m->ignore_merges) {
        if (text.size < suffix.size ||
            memcmp(text.at + text.size - suffix.size, suffix.at, suffix.size))
            return true;
        text.size -= suffix.size;
    }
    if (m->bytes) text = (cti_text){room, cti_alphabet_to_bytes(text, room)};
    if (!text.size || text.size == SIZE_MAX) return true;
    if (!m->ignore_merges && !known && !cti_bpe_is_whole(m, work, text.at, text.size, &whole)) {
        ct_fail(r->context, CT_ERR_MEMORY, "tokenizer_open: %s: not enough memory", r->path);
        return false;
    }
    return whole == CTI_NO_ID || bpe_put_whole(r, m, text, whole);
}

static bool bpe_find_wholes(const cti_reading *r, const cti_vocabulary *v, cti_bpe *m) {
    size_t longer = 0;
    for (int64_t id = 0; id < v->size; id++) longer += v->text[id].size > CTI_KEY_BYTES;
    char *room = cti_arena_take(r->arena, bpe_longest(v) + 1, 1);
    for (m->wholes = 16; m->wholes / 2 < (size_t)v->count;) m->wholes *= 2;
    m->whole = cti_arena_take(r->arena, m->wholes, sizeof *m->whole);
    if (!room || !m->whole || !cti_byte_map_new(r->arena, longer, &m->long_whole)) return false;
    memset(m->whole, 0, m->wholes * sizeof *m->whole);
    cti_bpe_work work = {0};
    bpe_proof proof = {.bpe = m};
    bool good = bpe_prove(r, v, &proof);
    for (int64_t id = 0; id < v->size && good; id++) {
        const bool known = proof.last && proof.last[id] != UNPROVEN;
        if (v->text[id].at) good = bpe_try_whole(r, m, &work, v->text[id], id, known, room);
    }
    proof_end(r, v, &proof);
    cti_bpe_work_end(&work);
    return good;
}

bool cti_bpe_read(const cti_reading *r, cti_json_at value, bool bytes, const cti_vocabulary *v,
                  const cti_bpe **bpe) {
    cti_bpe *m = cti_arena_take(r->arena, 1, sizeof *m);
    if (!m) return false;
    *m = (cti_bpe){.bytes = bytes};
    *bpe = m;
    return bpe_read_options(r, value, v, m) && bpe_read_bytes(r, v, m) &&
           bpe_read_symbols(r, v, m) && bpe_read_merges(r, value, v, m) && bpe_rank_bytes(r, m) &&
           bpe_find_wholes(r, v, m);
}
