/* Models by their kind, and their vocabularies. */
#include "model.h"

#include <stdlib.h>

#include "../../src/core/int_math.h"
#include "bpe.h"
#include "unigram.h"
#include "words.h"

typedef enum {
    MODEL_BPE,
    MODEL_UNIGRAM,
    MODEL_WORD_PIECE,
    MODEL_WORD_LEVEL,
    MODEL_KINDS
} model_kind;

struct cti_model {
    model_kind kind;
    const cti_bpe *bpe;
    const cti_unigram *unigram;
    const cti_words *words;
};

struct cti_model_work {
    cti_bpe_work bpe;
    cti_unigram_work unigram;
    cti_words_work words;
};

/* The kind of a model. Old files do not name it; then its members tell it. Returns -1 after an
 * error. */
static int model_kind_of(const cti_reading *r, cti_json_at value) {
    static const char *const names[MODEL_KINDS] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    if (cti_json_member(r->tree, value, "type"))
        return cti_reading_kind(r, value, "model", names, MODEL_KINDS);
    if (cti_json_member(r->tree, value, "merges")) return MODEL_BPE;
    if (cti_json_member(r->tree, value, "max_input_chars_per_word")) return MODEL_WORD_PIECE;
    if (cti_json_member(r->tree, value, "unk_token")) return MODEL_WORD_LEVEL;
    const cti_json_at vocabulary = cti_json_member(r->tree, value, "vocab");
    if (vocabulary && r->tree->value[vocabulary].kind == CTI_JSON_ARRAY) return MODEL_UNIGRAM;
    return cti_reading_kind(r, value, "model", names, MODEL_KINDS);
}

/* Reads an object of tokens with their ids. A token or an id that is there twice is an error. */
static bool model_read_vocabulary(const cti_reading *r, cti_json_at value, cti_vocabulary *v) {
    const cti_json_tree *tree = r->tree;
    const cti_json_at object = cti_json_member(tree, value, "vocab");
    if (!object || tree->value[object].kind != CTI_JSON_OBJECT)
        return cti_reading_fail(r, object ? object : value, "\"vocab\" is not an object");
    const int64_t tokens = tree->value[object].count;
    int64_t size = 0, id = CTI_NO_ID;
    for (cti_json_at i = cti_json_first(tree, object); i; i = tree->value[i].next) {
        if (!cti_json_whole(tree, i, &id))
            return cti_reading_fail(r, i, "the id of a token is not a natural number");
        if (!cti_vocabulary_allows(id, tokens))
            return cti_reading_fail(r, i, "id %lld is too large for %lld tokens", (long long)id,
                                    (long long)tokens);
        size = cti_max(size, id + 1);
    }
    if (!cti_vocabulary_reserve(v, tokens, size)) return false;
    for (cti_json_at i = cti_json_first(tree, object); i; i = tree->value[i].next) {
        const cti_text text = cti_arena_copy(r->arena, cti_json_key_of(tree, i));
        if (!text.at) return false;
        if (cti_vocabulary_find(v, text.at, text.size) != CTI_NO_ID)
            return cti_reading_fail(r, i, "a token is there twice");
        cti_json_whole(tree, i, &id);
        if (cti_vocabulary_text(v, id).at)
            return cti_reading_fail(r, i, "two tokens have the id %lld", (long long)id);
        if (!cti_vocabulary_add(v, text, id)) return false;
    }
    return true;
}

bool cti_model_read(const cti_reading *outer, cti_json_at value, bool bytes, cti_vocabulary *v,
                    const cti_model **model) {
    cti_reading reading = *outer;
    reading.type_of = value;
    *v = (cti_vocabulary){.arena = reading.arena};
    const int kind = model_kind_of(&reading, value);
    if (kind < 0) return false;
    cti_model *m = cti_arena_take(reading.arena, 1, sizeof *m);
    if (!m) return false;
    *m = (cti_model){.kind = (model_kind)kind};
    *model = m;
    if (m->kind == MODEL_UNIGRAM) return cti_unigram_read(&reading, value, bytes, v, &m->unigram);
    if (!model_read_vocabulary(&reading, value, v)) return false;
    if (m->kind == MODEL_BPE) return cti_bpe_read(&reading, value, bytes, v, &m->bpe);
    return cti_words_read(&reading, value, bytes, m->kind == MODEL_WORD_PIECE, v, &m->words);
}

int32_t cti_model_unknown(const cti_model *model) {
    switch (model->kind) {
    case MODEL_BPE: return model->bpe->unknown;
    case MODEL_UNIGRAM: return model->unigram->unknown;
    default: return model->words->unknown;
    }
}

bool cti_model_lacks_unknown(const cti_model *model) {
    return (model->kind != MODEL_BPE || model->bpe->has_unknown) &&
           cti_model_unknown(model) == CTI_NO_ID;
}

cti_model_work *cti_model_work_new(const cti_model *model, size_t text_size) {
    cti_model_work *work = calloc(1, sizeof *work);
    if (work && model->kind == MODEL_BPE) cti_bpe_work_begin(&work->bpe, text_size);
    return work;
}

void cti_model_work_free(cti_model_work *work) {
    if (!work) return;
    cti_bpe_work_end(&work->bpe);
    cti_unigram_work_end(&work->unigram);
    cti_words_work_end(&work->words);
    free(work);
}

bool cti_model_encode(const cti_model *model, cti_model_work *work, size_t begin, size_t end,
                      cti_sink *sink) {
    switch (model->kind) {
    case MODEL_BPE: return cti_bpe_encode(model->bpe, &work->bpe, begin, end, sink);
    case MODEL_UNIGRAM: return cti_unigram_encode(model->unigram, &work->unigram, begin, end, sink);
    default: return cti_words_encode(model->words, &work->words, begin, end, sink);
    }
}
