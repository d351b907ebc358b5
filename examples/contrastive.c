/* Contrastive training of sentence vectors, with negatives from the batch (Henderson et al. 2017,
 * arXiv:1705.00652; sentence-transformers' MultipleNegativesRankingLoss), and a cache of gradients
 * (Gao et al. 2021, arXiv:2101.06983), by which a batch may be larger than the memory.
 *
 * The corpus is made: each thing has a word in two languages. A text names some things in the first
 * language; its translation names the same things in the second, in another order, and a hard
 * negative names one thing wrongly. A small encoder with random weights learns which text is the
 * translation. Usage: contrastive [steps] */
#include "../programs/common.h"

#include <math.h>

enum { THINGS = 30, CLS = 1, FIRST = 2, SECOND = FIRST + THINGS }; /* ids */
enum { NAMED = 4, LENGTH = 1 + NAMED, PAIRS = 64, ROWS = 3 * PAIRS, CHUNK = 32, WIDTH = 64 };

static const char config[] =
    "{\"model_type\": \"bert\", \"architectures\": [\"BertModel\"], \"vocab_size\": 62, "
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 8, \"hidden_dropout_prob\": 0.02, "
    "\"attention_probs_dropout_prob\": 0}";

/* Rows 0 to PAIRS - 1 are texts, the next ones their translations, then the hard negatives. */
typedef struct {
    int64_t id[ROWS][LENGTH];
    bool mask[ROWS][LENGTH];
} texts;

static void make_texts(ct_context *c, texts *t) {
    for (int pair = 0; pair < PAIRS; pair++) {
        int64_t named[NAMED], n = 2 + ct_random_below(c, NAMED - 1);
        for (int64_t i = 0; i < n; i++) named[i] = ct_random_below(c, THINGS);
        for (int kind = 0; kind < 3; kind++) {
            int64_t *id = t->id[kind * PAIRS + pair], first = kind ? SECOND : FIRST;
            for (int64_t i = 0; i <= NAMED; i++) {
                t->mask[kind * PAIRS + pair][i] = i <= n;
                id[i] = i > n ? 0 : i ? first + named[kind ? n - i : i - 1] : CLS;
            }
            if (kind == 2)
                id[1] = SECOND + (id[1] - SECOND + 1 + ct_random_below(c, THINGS - 1)) % THINGS;
        }
    }
}

/* The vectors of n rows, (n, WIDTH). Without a modules.json they are the means of the tokens. */
static ct_tensor *embed(ct_context *c, ct_module *lm, const texts *t, int64_t from, int64_t n) {
    ct_tensor *ids = ct_from_i64(c, CT_SHAPE(n, LENGTH), t->id[from]);
    ct_tensor *mask = ct_from_bool(c, CT_SHAPE(n, LENGTH), t->mask[from]);
    return ct_lm_forward(lm, ids, (ct_lm_call){.key_mask = mask, .result = CT_LM_EMBED});
}

/* The scores of each text with all translations and hard negatives, 20 cos(a, b), of which the one
 * with its own translation should be the largest: (PAIRS, 2 PAIRS). */
static ct_tensor *scores_of(ct_tensor *vectors) {
    ct_tensor *unit = ct_normalize(vectors, 2, 1, 1e-12);
    ct_tensor *a = ct_narrow(unit, 0, 0, PAIRS), *b = ct_narrow(unit, 0, PAIRS, 2 * PAIRS);
    return ct_scale(ct_matmul(a, ct_transpose(b, 0, 1)), 20);
}

static ct_tensor *loss_of(ct_context *c, ct_tensor *vectors) {
    ct_tensor *own = ct_arange(c, CT_I64, 0, PAIRS, 1);
    return ct_cross_entropy(scores_of(vectors), own, (ct_cross_entropy_opts){0});
}

/* The gradient of a whole batch: everything that backward needs is in memory at once. */
static double backward_whole(ct_context *c, ct_module *lm, const texts *t) {
    ct_scope scope = ct_scope_open(c);
    ct_tensor *loss = loss_of(c, embed(c, lm, t, 0, ROWS));
    const double value = ct_item(loss);
    ct_backward(loss);
    ct_scope_close(scope);
    return value;
}

/* The same gradient, with the activations of one chunk in memory at a time:
 *
 *     vectors of all chunks, not recorded --> the loss --> its gradient with respect to the vectors
 *     each chunk again, recorded, and backward from its part of that gradient
 *
 * The second run must have the numbers of the first one, so dropout begins with the same state of
 * the generator. */
static double backward_in_chunks(ct_context *c, ct_module *lm, const texts *t) {
    ct_rng before[ROWS / CHUNK], after;
    ct_scope scope = ct_scope_open(c);
    ct_tensor *vectors = ct_empty(c, CT_F32, CT_SHAPE(ROWS, WIDTH));
    for (int64_t i = 0; i < ROWS; i += CHUNK) {
        ct_scope chunk = ct_scope_open_no_grad(c);
        before[i / CHUNK] = ct_rng_get(c);
        ct_copy_into(ct_narrow(vectors, 0, i, CHUNK), embed(c, lm, t, i, CHUNK));
        ct_scope_close(chunk);
    }
    ct_tensor *loss = loss_of(c, ct_set_requires_grad(vectors, true));
    const double value = ct_item(loss);
    ct_backward(loss);
    after = ct_rng_get(c);
    for (int64_t i = 0; i < ROWS; i += CHUNK) {
        ct_scope chunk = ct_scope_open(c);
        ct_rng_set(c, before[i / CHUNK]);
        ct_tensor *y = embed(c, lm, t, i, CHUNK), *g = ct_narrow(ct_grad(vectors), 0, i, CHUNK);
        ct_backward_with(&y, &g, 1, (ct_backward_opts){0});
        ct_scope_close(chunk);
    }
    ct_rng_set(c, after);
    ct_scope_close(scope);
    return value;
}

/* Per cent of new texts whose translation is the nearest of all. */
static double right(ct_context *c, ct_module *lm) {
    static texts t;
    make_texts(c, &t);
    ct_module_train(lm, false);
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *nearest = ct_argmax(scores_of(embed(c, lm, &t, 0, ROWS)), 1);
    ct_tensor *own = ct_arange(c, CT_I64, 0, PAIRS, 1);
    const double n = ct_item(ct_sum(ct_eq(nearest, own), CT_ALL, false));
    ct_scope_close(scope);
    ct_module_train(lm, true);
    return 100 * n / PAIRS;
}

/* Prints how far the gradients of the two ways are from each other, relative to the largest, and
 * the memory that each took. */
static void compare(ct_context *c, ct_module *lm, const texts *t) {
    double apart = 0, largest = 0;
    int64_t peak[2], live = 0;
    ct_module *of[2] = {lm, ct_module_clone(lm)};
    for (int way = 0; way < 2; way++) {
        ct_module_train(of[way], false);
        live = ct_memory(c).live;
        ct_memory_reset_peak(c);
        (way ? backward_in_chunks : backward_whole)(c, of[way], t);
        peak[way] = ct_memory(c).peak - live;
    }
    for (ct_param p = {0}, q = {0}; ct_module_next(of[0], &p) && ct_module_next(of[1], &q);) {
        ct_scope scope = ct_scope_open_no_grad(c);
        ct_tensor *a = ct_grad(p.tensor), *b = ct_grad(q.tensor);
        if (a && b) {
            apart = fmax(apart, ct_item(ct_max(ct_abs(ct_sub(a, b)), CT_ALL, false)));
            largest = fmax(largest, ct_item(ct_max(ct_abs(a), CT_ALL, false)));
        }
        ct_scope_close(scope);
        ct_zero_grad(p.tensor);
    }
    ct_module_free(of[1]);
    check(c, EXIT_FAILED);
    printf(
        "The gradient of %d rows takes %.1f MB at once and %.1f MB in chunks of %d; the two differ "
        "by %.0e\n",
        ROWS, (double)peak[0] * 1e-6, (double)peak[1] * 1e-6, CHUNK, apart / largest);
}

int main(int argc, char **argv) {
    static texts t;
    const long long steps = read_number(argc, argv, 100, 0, 1e6, "[steps]");
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1});
    check(c, EXIT_FAILED);
    ct_module *lm = ct_lm_new(c, config, (ct_lm_opts){0});
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 2e-3});
    make_texts(c, &t);
    check(c, EXIT_FAILED);
    compare(c, lm, &t);
    printf("%.0f %% of new texts find their translation\n", right(c, lm));
    for (long long step = 1; step <= steps; step++) {
        make_texts(c, &t);
        const double loss = backward_in_chunks(c, lm, &t);
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        check(c, EXIT_FAILED);
        if (step % 25 == 0) printf("step %lld: loss %.3f\n", step, loss);
    }
    printf("%.0f %% of new texts find their translation\n", right(c, lm));
    check(c, EXIT_FAILED);
    ct_context_free(c);
    return 0;
}
