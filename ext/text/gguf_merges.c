/* The merges of SentencePiece's BPE, which has none: of all pairs of neighbours whose texts joined
 * are a token, it joins the pair whose token has the greatest score. So each way to cut a token
 * into two tokens is a merge, and the merges are in the order of the scores of what they make. */
#include <stdlib.h>
#include <string.h>

#include "gguf_tokens.h"
#include "utf8.h"

static const char spm_key[] = "tokenizer.ggml.tokens";

typedef struct {
    double score;
    int32_t id, left, right;
} spm_cut;

typedef struct {
    cti_gguf_vocab *vocab;
    const cti_vocabulary *index;
    spm_cut *cut; /* [room] */
    int64_t cuts, room;
} spm_cuts;

bool cti_gguf_is_gemma(const cti_gguf_vocab *vocab) {
    return vocab->model == CTI_GGUF_SPM && vocab->architecture.size >= 5 &&
           !memcmp(vocab->architecture.at, "gemma", 5);
}

/* Whether merges make this token, or need it. Gemma's runs of spaces are merged too. */
static bool is_merged(const cti_gguf_vocab *vocab, int64_t id) {
    if (vocab->type[id] == CTI_GGUF_NORMAL) return true;
    if (vocab->type[id] != CTI_GGUF_USER || !cti_gguf_is_gemma(vocab)) return false;
    const cti_text text = vocab->token[id];
    static const char space[] = "\u2581";
    for (size_t at = 0; at < text.size; at += 3)
        if (text.size - at < 3 || memcmp(text.at + at, space, 3)) return false;
    return text.size > 0;
}

static bool cut_add(spm_cuts *cuts, spm_cut cut) {
    cti_gguf_vocab *vocab = cuts->vocab;
    if (cuts->cuts / CTI_GGUF_CUTS > vocab->count)
        return cti_gguf_vocab_fail(vocab, spm_key,
                                   "more than %d ways for each token to cut it into two tokens",
                                   CTI_GGUF_CUTS);
    if (cuts->cuts == cuts->room) {
        const int64_t room = 2 * cuts->room + 1024;
        spm_cut *grown = cti_arena_take(vocab->arena, (size_t)room, sizeof *grown);
        if (!grown) return false;
        if (cuts->cuts) memcpy(grown, cuts->cut, (size_t)cuts->cuts * sizeof *grown);
        cuts->cut = grown;
        cuts->room = room;
    }
    cuts->cut[cuts->cuts++] = cut;
    return true;
}

static bool token_cut(spm_cuts *cuts, int64_t id) {
    const cti_gguf_vocab *vocab = cuts->vocab;
    const cti_text text = vocab->token[id];
    if (text.size > CTI_GGUF_LONGEST)
        return cti_gguf_vocab_fail(vocab, spm_key, "token %lld has %zu bytes, more than %d",
                                   (long long)id, text.size, CTI_GGUF_LONGEST);
    for (size_t at = 1; at < text.size; at++) {
        if (cti_utf8_continues(text.at[at])) continue;
        const int64_t left = cti_vocabulary_find(cuts->index, text.at, at);
        if (left == CTI_NO_ID || !is_merged(vocab, left)) continue;
        const int64_t right = cti_vocabulary_find(cuts->index, text.at + at, text.size - at);
        if (right == CTI_NO_ID || !is_merged(vocab, right)) continue;
        const double score = cti_gguf_is_gemma(vocab) ? 0 : vocab->score[id];
        if (!cut_add(cuts, (spm_cut){score, (int32_t)id, (int32_t)left, (int32_t)right}))
            return false;
    }
    return true;
}

/* By falling scores; equal ones by the ids of the token, of its left and of its right part. */
static int cut_compare(const void *a, const void *b) {
    const spm_cut *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* A file whose scores are all the same has lost the order of its merges. */
static bool has_order(const spm_cuts *cuts) {
    bool several = false;
    for (int64_t i = 1; i < cuts->cuts; i++) {
        if (cuts->cut[i].score != cuts->cut[0].score) return true;
        several |= cuts->cut[i].id != cuts->cut[0].id;
    }
    return !several || cti_gguf_is_gemma(cuts->vocab) ||
           cti_gguf_vocab_fail(cuts->vocab, "tokenizer.ggml.scores",
                               "all are the same, so nothing says which token is made first");
}

bool cti_gguf_merges_make(cti_gguf_vocab *vocab, const cti_vocabulary *index) {
    spm_cuts cuts = {.vocab = vocab, .index = index};
    if (!vocab->score && !cti_gguf_is_gemma(vocab))
        return cti_gguf_vocab_fail(vocab, "tokenizer.ggml.scores", "is absent");
    for (int64_t id = 0; id < vocab->count; id++)
        if (is_merged(vocab, id) && !token_cut(&cuts, id)) return false;
    if (!has_order(&cuts)) return false;
    if (cuts.cuts) qsort(cuts.cut, (size_t)cuts.cuts, sizeof *cuts.cut, cut_compare);
    vocab->merge = cti_arena_take(vocab->arena, (size_t)cuts.cuts, sizeof *vocab->merge);
    if (!vocab->merge) return false;
    for (int64_t i = 0; i < cuts.cuts; i++)
        vocab->merge[i] =
            (cti_gguf_merge){vocab->token[cuts.cut[i].left], vocab->token[cuts.cut[i].right]};
    vocab->merges = cuts.cuts;
    return true;
}
