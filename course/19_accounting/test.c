/* Counts of decoders that are drawn, beside the same sums, and beside sums from which something is
 * left out, or in which something is wrong. */
#include "../course.h"
#include "exercise.h"

#include <stdio.h>
#include <string.h>

/* ---- the right way, and wrong ways that are known ---- */

enum {
    /* parameters */
    TIED_TWICE,
    UNTIED_ONCE,
    POSITIONS_LEFT_OUT,
    BIASES_LEFT_OUT,
    BIASES_ALWAYS,
    BIASES_OF_WIDTH,
    BIAS_OF_LOGITS,
    NORMS_LEFT_OUT,
    LAST_NORM_LEFT_OUT,
    ONE_NORM_A_LAYER,
    NORM_BIASES_LEFT_OUT,
    NORM_BIASES_ALWAYS,
    KV_LIKE_QUERIES,
    KV_OF_ONE_HEAD,
    KV_ONCE,
    OUT_LEFT_OUT,
    GATE_LEFT_OUT,
    GATE_ALWAYS,
    ONE_LAYER,
    /* multiply-adds */
    MULTIPLY_AND_ADD,
    PARAMETERS_TIMES_TOKENS,
    ATTENTION_LEFT_OUT,
    ONE_PRODUCT_OF_ATTENTION,
    NOT_CAUSAL,
    HALF_OF_PAIRS,
    WITHOUT_DIAGONAL,
    ALWAYS_CAUSAL,
    PAIRS_OF_KV_HEADS,
    PAIRS_OF_ONE_HEAD,
    LOGITS_LEFT_OUT,
    LOGITS_OF_LAST,
    EMBEDDING_AS_PRODUCT,
    ONE_SEQUENCE_OF_PAIRS,
    BATCH_AS_ONE_SEQUENCE,
    TOKENS_OF_ONE_SEQUENCE,
    BACKWARD_LIKE_FORWARD,
    BACKWARD_ALONE,
    ONE_GRADIENT_OF_ATTENTION,
    NOT_RECOMPUTED,
    LOGITS_RECOMPUTED,
    SCORES_NOT_AGAIN,
    BOTH_AGAIN,
    /* bytes */
    WEIGHTS_IN_F32,
    GRADIENTS_IN_F32,
    ONE_MOMENT,
    MOMENTS_LIKE_WEIGHTS,
    NO_COPY,
    COPY_ALWAYS,
    INPUT_LEFT_OUT,
    NORMED_LEFT_OUT,
    QUERIES_LEFT_OUT,
    KV_LEFT_OUT,
    ATTENTION_WEIGHTS_LEFT_OUT,
    ATTENTION_WEIGHTS_OF_PAIRS,
    ATTENTION_WEIGHTS_OF_ONE_HEAD,
    ATTENTION_WEIGHTS_ALWAYS,
    STATISTIC_LEFT_OUT,
    STATISTIC_LIKE_NUMBERS,
    RESULT_LEFT_OUT,
    MIDDLE_LEFT_OUT,
    BEFORE_ACTIVATION_LEFT_OUT,
    ACTIVATED_LEFT_OUT,
    KEPT_GATE_LEFT_OUT,
    END_LEFT_OUT,
    KEPT_LOGITS_LEFT_OUT,
    ALL_KEPT,
    END_AND_LAYER,
    INPUT_TWICE,
    ONLY_INPUTS,
    END_FORGOTTEN_IN_PEAK,
    LAYER_FORGOTTEN_IN_PEAK,
    COMPARED_WITH_INPUT
};
static const course_mistake mistakes[] = {
    [TIED_TWICE] = {"when tied logits have a table of their own"},
    [UNTIED_ONCE] = {"when logits that are not tied have no table of their own"},
    [POSITIONS_LEFT_OUT] = {"without learned positions"},
    [BIASES_LEFT_OUT] = {"without the biases of a layer's weights"},
    [BIASES_ALWAYS] = {"when a layer's weights have biases, although `biases` is false"},
    [BIASES_OF_WIDTH] = {"when every bias has `width` numbers: it has one for each column of what "
                         "the weight gives"},
    [BIAS_OF_LOGITS] = {"when the logits have a bias"},
    [NORMS_LEFT_OUT] = {"without the norms"},
    [LAST_NORM_LEFT_OUT] = {"without the norm before the logits"},
    [ONE_NORM_A_LAYER] = {"when a layer has one norm, and not two"},
    [NORM_BIASES_LEFT_OUT] = {"without the biases of norms"},
    [NORM_BIASES_ALWAYS] = {"when norms have biases, although `norm_biases` is false"},
    [KV_LIKE_QUERIES] = {"when there are as many heads of keys and values as of queries"},
    [KV_OF_ONE_HEAD] = {"when there is one head of keys and values"},
    [KV_ONCE] = {"when keys and values have one weight together"},
    [OUT_LEFT_OUT] = {"without the weight behind attention"},
    [GATE_LEFT_OUT] = {"without the gate's weight"},
    [GATE_ALWAYS] = {"when there is a gate, although `gated` is false"},
    [ONE_LAYER] = {"when there is one layer"},
    [MULTIPLY_AND_ADD] = {"when multiplications and additions are counted one by one: a "
                          "multiply-add is one"},
    [PARAMETERS_TIMES_TOKENS] = {"when parameters are multiplied with tokens: not every parameter "
                                 "is in a product, and attention has products without any"},
    [ATTENTION_LEFT_OUT] = {"without the two products of attention, queries with keys and weights "
                            "with values"},
    [ONE_PRODUCT_OF_ATTENTION] = {"when attention has one product, and not two"},
    [NOT_CAUSAL] = {"when all pairs are counted, although `causal` is true"},
    [HALF_OF_PAIRS] = {"with T^2 / 2 causal pairs: with a token itself there are T (T + 1) / 2"},
    [WITHOUT_DIAGONAL] = {"with T (T - 1) / 2 causal pairs: a token sees itself, too"},
    [ALWAYS_CAUSAL] = {"when only causal pairs are counted, although `causal` is false"},
    [PAIRS_OF_KV_HEADS] = {"when pairs are counted for the heads of keys: each head of queries has "
                           "its own scores"},
    [PAIRS_OF_ONE_HEAD] = {"when pairs are counted for one head"},
    [LOGITS_LEFT_OUT] = {"without the product that gives the logits"},
    [LOGITS_OF_LAST] = {"when only the last token of a sequence has logits"},
    [EMBEDDING_AS_PRODUCT] = {"when the tokens' embedding is a product: it is a copy of rows"},
    [ONE_SEQUENCE_OF_PAIRS] = {"when the pairs of one sequence are counted, and not of all"},
    [BATCH_AS_ONE_SEQUENCE] = {"when tokens of different sequences are pairs, too"},
    [TOKENS_OF_ONE_SEQUENCE] = {"when the tokens of one sequence are counted, and not of all"},
    [BACKWARD_LIKE_FORWARD] = {"when backward takes as much as forward: each product has two "
                               "gradients"},
    [BACKWARD_ALONE] = {"when the forward is not counted, but backward only"},
    [ONE_GRADIENT_OF_ATTENTION] = {"when attention's products have one gradient: both their "
                                   "operands have one"},
    [NOT_RECOMPUTED] = {"when the layers' second forward is left out"},
    [LOGITS_RECOMPUTED] = {"when the logits are computed again, too: only layers are"},
    [SCORES_NOT_AGAIN] = {"when fused attention does not compute its scores again in backward"},
    [BOTH_AGAIN] = {"when fused attention computes both products again: it needs the scores only"},
    [WEIGHTS_IN_F32] = {"when weights have 4 bytes in bf16, too"},
    [GRADIENTS_IN_F32] = {"when gradients have 4 bytes in bf16, too"},
    [ONE_MOMENT] = {"when AdamW has one moment, and not two"},
    [MOMENTS_LIKE_WEIGHTS] = {"when moments are numbers of the weights' size: they are f32"},
    [NO_COPY] = {"without the copy in f32 of weights in bf16"},
    [COPY_ALWAYS] = {"when weights in f32 have a copy, too"},
    [INPUT_LEFT_OUT] = {"when the input of a layer is not kept: its first norm needs it"},
    [NORMED_LEFT_OUT] = {"when the results of a layer's norms are not kept: products need them"},
    [QUERIES_LEFT_OUT] = {"when queries are not kept"},
    [KV_LEFT_OUT] = {"when keys and values are not kept"},
    [ATTENTION_WEIGHTS_LEFT_OUT] = {"when the weights of attention are not kept, although it is "
                                    "not fused"},
    [ATTENTION_WEIGHTS_OF_PAIRS] = {"when only causal pairs of attention's weights are kept: the "
                                    "array is T x T"},
    [ATTENTION_WEIGHTS_OF_ONE_HEAD] = {"when the weights of one head are kept, and not of all"},
    [ATTENTION_WEIGHTS_ALWAYS] = {"when the weights of attention are kept, although it is fused"},
    [STATISTIC_LEFT_OUT] = {"when fused attention keeps nothing for a row: it keeps one f32"},
    [STATISTIC_LIKE_NUMBERS] = {"when what fused attention keeps for a row is not f32"},
    [RESULT_LEFT_OUT] = {"when attention's result is not kept: the weight behind it needs it"},
    [MIDDLE_LEFT_OUT] = {"when x after attention is not kept: the second norm needs it"},
    [BEFORE_ACTIVATION_LEFT_OUT] = {"when what the activation is given is not kept"},
    [ACTIVATED_LEFT_OUT] = {"when what the last product of a layer is given is not kept"},
    [KEPT_GATE_LEFT_OUT] = {"when the gate is not kept"},
    [END_LEFT_OUT] = {"without what is kept behind the layers"},
    [KEPT_LOGITS_LEFT_OUT] = {"when the logits are not kept: cross-entropy needs them"},
    [ALL_KEPT] = {"when everything is kept, although layers are recomputed"},
    [END_AND_LAYER] = {"when what is kept behind the layers and what one layer keeps are there at "
                       "the same time: the first is freed before"},
    [INPUT_TWICE] = {"when the input of the layer that runs again is counted twice"},
    [ONLY_INPUTS] = {"when only the inputs of layers are counted"},
    [END_FORGOTTEN_IN_PEAK] = {"when only the layer that runs again is looked at, and not what is "
                               "kept behind the layers, which may be more"},
    [LAYER_FORGOTTEN_IN_PEAK] = {"when only what is kept behind the layers is looked at, and not "
                                 "the layer that runs again, which may be more"},
    [COMPARED_WITH_INPUT] = {"when the input of a layer counts where the two are compared"}};

typedef struct {
    architecture a;
    step s;
    course_set m;
} config;
static bool has(const config *c, int mistake) { return course_has(c->m, mistake); }

static int64_t kv_width(const config *c) {
    const int64_t head = c->a.width / c->a.heads;
    return has(c, KV_LIKE_QUERIES)  ? c->a.width
           : has(c, KV_OF_ONE_HEAD) ? head
                                    : head * c->a.kv_heads;
}
static bool is_gated(const config *c) {
    return (c->a.gated || has(c, GATE_ALWAYS)) && !has(c, GATE_LEFT_OUT);
}
static int64_t layers_of(const config *c) { return has(c, ONE_LAYER) ? 1 : c->a.layers; }

/* The numbers of a layer's weights. */
static int64_t weights_of_layer(const config *c) {
    const int64_t D = c->a.width, kv = has(c, KV_ONCE) ? kv_width(c) : 2 * kv_width(c);
    return (has(c, OUT_LEFT_OUT) ? 1 : 2) * D * D + D * kv +
           (is_gated(c) ? 3 : 2) * D * c->a.hidden;
}

static int64_t biases_of_layer(const config *c) {
    const int64_t D = c->a.width, F = c->a.hidden,
                  kv = has(c, KV_ONCE) ? kv_width(c) : 2 * kv_width(c);
    if ((!c->a.biases && !has(c, BIASES_ALWAYS)) || has(c, BIASES_LEFT_OUT)) return 0;
    if (has(c, BIASES_OF_WIDTH)) return (is_gated(c) ? 7 : 6) * D;
    return (has(c, OUT_LEFT_OUT) ? 1 : 2) * D + kv + (is_gated(c) ? 2 : 1) * F + D;
}

static int64_t parameters(const config *c) {
    const int64_t D = c->a.width, V = c->a.vocabulary;
    const bool norm_biases = (c->a.norm_biases || has(c, NORM_BIASES_ALWAYS)) &&
                             !has(c, NORM_BIASES_LEFT_OUT),
               one_table =
                   (c->a.tied && !has(c, TIED_TWICE)) || (!c->a.tied && has(c, UNTIED_ONCE));
    const int64_t norm = has(c, NORMS_LEFT_OUT) ? 0
                         : norm_biases          ? 2 * D
                                                : D,
                  norms = has(c, ONE_NORM_A_LAYER) ? norm : 2 * norm,
                  layer = weights_of_layer(c) + biases_of_layer(c) + norms;
    int64_t all = (one_table ? 1 : 2) * V * D + layers_of(c) * layer;
    if (!has(c, POSITIONS_LEFT_OUT)) all += c->a.positions * D;
    if (!has(c, LAST_NORM_LEFT_OUT)) all += norm;
    if (c->a.biases && has(c, BIAS_OF_LOGITS)) all += V;
    return all;
}

/* Multiply-adds of one of attention's two products, in one layer. */
static int64_t product_of_attention(const config *c) {
    const int64_t B = c->s.sequences,
                  T = has(c, BATCH_AS_ONE_SEQUENCE) ? B * c->s.length : c->s.length;
    int64_t pairs = T * T, columns = c->a.width;
    if ((c->s.causal && !has(c, NOT_CAUSAL)) || has(c, ALWAYS_CAUSAL))
        pairs = has(c, HALF_OF_PAIRS)      ? T * T / 2
                : has(c, WITHOUT_DIAGONAL) ? T * (T - 1) / 2
                                           : T * (T + 1) / 2;
    if (has(c, PAIRS_OF_KV_HEADS)) columns = kv_width(c);
    if (has(c, PAIRS_OF_ONE_HEAD)) columns = c->a.width / c->a.heads;
    if (has(c, ATTENTION_LEFT_OUT)) return 0;
    if (has(c, BATCH_AS_ONE_SEQUENCE) || has(c, ONE_SEQUENCE_OF_PAIRS)) return pairs * columns;
    return B * pairs * columns;
}
static int64_t products_of_attention(const config *c) {
    return layers_of(c) * (has(c, ONE_PRODUCT_OF_ATTENTION) ? 1 : 2) * product_of_attention(c);
}

static int64_t tokens_of(const config *c) {
    return has(c, TOKENS_OF_ONE_SEQUENCE) ? c->s.length : c->s.sequences * c->s.length;
}
static int64_t forward_of_layers(const config *c) {
    return layers_of(c) * tokens_of(c) * weights_of_layer(c) + products_of_attention(c);
}
static int64_t forward_of_logits(const config *c) {
    const int64_t tokens = has(c, LOGITS_OF_LAST) ? c->s.sequences : tokens_of(c);
    return has(c, LOGITS_LEFT_OUT) ? 0 : tokens * c->a.width * c->a.vocabulary;
}

static int64_t forward_of(const config *c) {
    int64_t all = forward_of_layers(c) + forward_of_logits(c);
    if (has(c, EMBEDDING_AS_PRODUCT)) all += tokens_of(c) * c->a.width * c->a.vocabulary;
    if (has(c, PARAMETERS_TIMES_TOKENS)) all = tokens_of(c) * parameters(c);
    return has(c, MULTIPLY_AND_ADD) ? 2 * all : all;
}

static int64_t step_of(const config *c) {
    const int64_t forward = forward_of(c), twice = has(c, MULTIPLY_AND_ADD) ? 2 : 1;
    int64_t all = 3 * forward;
    if (has(c, BACKWARD_LIKE_FORWARD)) all = 2 * forward;
    if (has(c, BACKWARD_ALONE)) all = 2 * forward;
    if (has(c, ONE_GRADIENT_OF_ATTENTION)) all -= twice * products_of_attention(c);
    if (c->s.fused && !has(c, SCORES_NOT_AGAIN))
        all += twice * (has(c, BOTH_AGAIN) ? 2 : 1) * layers_of(c) * product_of_attention(c);
    if (c->s.recomputed && !has(c, NOT_RECOMPUTED))
        all +=
            twice * (forward_of_layers(c) + (has(c, LOGITS_RECOMPUTED) ? forward_of_logits(c) : 0));
    return all;
}

/* Bytes that a layer keeps, without its input. */
static int64_t kept_of_layer(const config *c) {
    const int64_t D = c->a.width, T = c->s.length, F = c->a.hidden, tokens = tokens_of(c),
                  rows = c->s.sequences * c->a.heads * T;
    int64_t columns = 0, rest = rows * T * c->s.bytes;
    if (!has(c, NORMED_LEFT_OUT)) columns += 2 * D;
    if (!has(c, QUERIES_LEFT_OUT)) columns += D;
    if (!has(c, KV_LEFT_OUT)) columns += has(c, KV_ONCE) ? kv_width(c) : 2 * kv_width(c);
    if (!has(c, RESULT_LEFT_OUT)) columns += D;
    if (!has(c, MIDDLE_LEFT_OUT)) columns += D;
    if (!has(c, BEFORE_ACTIVATION_LEFT_OUT)) columns += F;
    if (!has(c, ACTIVATED_LEFT_OUT)) columns += F;
    if (is_gated(c) && !has(c, KEPT_GATE_LEFT_OUT)) columns += F;
    if (has(c, ATTENTION_WEIGHTS_OF_PAIRS) && c->s.causal) rest = rows * (T + 1) / 2 * c->s.bytes;
    if (has(c, ATTENTION_WEIGHTS_OF_ONE_HEAD)) rest /= c->a.heads;
    if (has(c, ATTENTION_WEIGHTS_LEFT_OUT)) rest = 0;
    if (c->s.fused && !has(c, ATTENTION_WEIGHTS_ALWAYS)) {
        rest = rows * (has(c, STATISTIC_LIKE_NUMBERS) ? c->s.bytes : 4);
        if (has(c, STATISTIC_LEFT_OUT)) rest = 0;
    }
    return tokens * columns * c->s.bytes + rest;
}

static int64_t activations(const config *c) {
    const int64_t input = tokens_of(c) * c->a.width * c->s.bytes, layers = layers_of(c),
                  logits = tokens_of(c) * c->a.vocabulary * c->s.bytes,
                  end = has(c, END_LEFT_OUT)           ? 0
                        : has(c, KEPT_LOGITS_LEFT_OUT) ? 2 * input
                                                       : 2 * input + logits,
                  inputs = has(c, INPUT_LEFT_OUT) ? 0 : layers * input;
    int64_t layer = kept_of_layer(c);
    if (!c->s.recomputed || has(c, ALL_KEPT)) return inputs + layers * layer + end;
    if (has(c, INPUT_TWICE)) layer += input;
    if (has(c, END_AND_LAYER)) return inputs + end + layer;
    if (has(c, ONLY_INPUTS)) return inputs;
    if (has(c, END_FORGOTTEN_IN_PEAK)) return inputs + layer;
    if (has(c, LAYER_FORGOTTEN_IN_PEAK)) return inputs + end;
    if (has(c, COMPARED_WITH_INPUT)) return inputs + (end > layer + input ? end : layer);
    return inputs + (end > layer ? end : layer);
}

static memory memory_of(const config *c) {
    const int64_t n = parameters(c), bytes = c->s.bytes,
                  moment = has(c, MOMENTS_LIKE_WEIGHTS) ? bytes : 4;
    const bool copy = (bytes == 2 && !has(c, NO_COPY)) || (bytes == 4 && has(c, COPY_ALWAYS));
    return (memory){.weights = n * (has(c, WEIGHTS_IN_F32) ? 4 : bytes),
                    .gradients = n * (has(c, GRADIENTS_IN_F32) ? 4 : bytes),
                    .optimiser = n * ((has(c, ONE_MOMENT) ? 1 : 2) * moment + (copy ? 4 : 0)),
                    .activations = activations(c)};
}

/* ---- what is compared ---- */

/* A decoder and a step are a row of a tensor of i64. */
enum { FIELDS = 17, ROWS = 12 };
static void write_config(const config *c, int64_t *row) {
    const int64_t all[FIELDS] = {
        c->a.vocabulary, c->a.positions, c->a.width,  c->a.layers, c->a.heads,       c->a.kv_heads,
        c->a.hidden,     c->a.tied,      c->a.gated,  c->a.biases, c->a.norm_biases, c->s.sequences,
        c->s.length,     c->s.bytes,     c->s.causal, c->s.fused,  c->s.recomputed};
    memcpy(row, all, sizeof all);
}
/* False: these numbers are no decoder. */
static bool read_config(const int64_t *row, config *c) {
    c->a = (architecture){.vocabulary = row[0], .positions = row[1], .width = row[2]};
    c->a.layers = row[3], c->a.heads = row[4], c->a.kv_heads = row[5], c->a.hidden = row[6];
    c->a.tied = row[7], c->a.gated = row[8], c->a.biases = row[9], c->a.norm_biases = row[10];
    c->s = (step){.sequences = row[11], .length = row[12], .bytes = row[13]};
    c->s.causal = row[14], c->s.fused = row[15], c->s.recomputed = row[16];
    for (int i = 0; i < 7; i++)
        if (row[i] < (i != 1)) return false;
    if (c->a.width % c->a.heads || c->a.heads % c->a.kv_heads) return false;
    return row[11] > 0 && row[12] > 0 && (row[13] == 2 || row[13] == 4);
}

typedef enum { PARAMETERS, FORWARD, STEP, OF_WEIGHTS, OF_ACTIVATIONS, ALL } quantity;
static const int columns_of[] = {1, 1, 1, 3, 1, 7};

static void write_memory(const memory *m, quantity of, double *out) {
    if (of != OF_ACTIVATIONS)
        *out++ = (double)m->weights, *out++ = (double)m->gradients, *out++ = (double)m->optimiser;
    if (of != OF_WEIGHTS) *out = (double)m->activations;
}

static int64_t written(const char *function, int64_t x) {
    if (x == 0) course_fail("%s returns 0, as the stub does: is it not written yet?", function);
    return x;
}
static memory memory_written(memory m) {
    if (!m.weights && !m.gradients && !m.optimiser && !m.activations)
        course_fail("count_memory returns zeros, as the stub does: is it not written yet?");
    return m;
}

static ct_tensor *counted(ct_tensor *const *in, quantity of, const course_set *mistakes_or_yours) {
    const int64_t *rows = ct_data_i64(in[0]), n = ct_dim(in[0], 0);
    const int columns = columns_of[of];
    double out[ROWS][7];
    config c;
    if (ct_dim(in[0], 1) != FIELDS || n > ROWS) return NULL;
    for (int64_t i = 0; i < n; i++) {
        double *row = &out[0][0] + i * columns;
        if (!read_config(rows + i * FIELDS, &c)) return NULL;
        const bool yours = !mistakes_or_yours;
        c.m = yours ? 0 : *mistakes_or_yours;
        if (of == PARAMETERS || of == ALL)
            *row++ = (double)(yours ? written("count_parameters", count_parameters(&c.a))
                                    : parameters(&c));
        if (of == FORWARD || of == ALL)
            *row++ = (double)(yours ? written("count_forward", count_forward(&c.a, &c.s))
                                    : forward_of(&c));
        if (of == STEP || of == ALL)
            *row++ = (double)(yours ? written("count_step", count_step(&c.a, &c.s)) : step_of(&c));
        if (of < OF_WEIGHTS) continue;
        const memory m = yours ? memory_written(count_memory(&c.a, &c.s)) : memory_of(&c);
        write_memory(&m, of, row);
    }
    const ct_shape shape = columns == 1 ? CT_SHAPE(n) : CT_SHAPE(n, columns);
    return course_f64(ct_context_of(in[0]), shape, &out[0][0]);
}
static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return counted(in, *(const quantity *)arg, NULL);
}
static ct_tensor *by_judge(ct_tensor *const *in, int n, void *arg, course_set m) {
    (void)n;
    return counted(in, *(const quantity *)arg, &m);
}

/* Says which decoder the first wrong number is of, or that 32 bits were too few. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const double *yours = ct_data_f64(got), *other = ct_data_f64(right);
    const int64_t numbers = ct_numel(got), per_row = numbers / ct_dim(in[0], 0);
    int64_t first = numbers, short_of_bits = 0, large = 0, wrong = 0;
    config c;
    (void)n, (void)arg;
    for (int64_t i = numbers - 1; i >= 0; i--) {
        if (yours[i] == other[i]) continue;
        wrong++, first = i, large += other[i] > INT32_MAX;
        short_of_bits += other[i] < 9e15 && yours[i] == (double)(int32_t)(int64_t)other[i];
    }
    if (wrong && wrong == short_of_bits)
        course_hint("this is what 32 bits hold of it: somewhere there is an int");
    else if (wrong == 1 && large == 1 && first == numbers - 1)
        course_hint("only the largest decoder's is wrong: does an int overflow?");
    if (first == numbers || !read_config(ct_data_i64(in[0]) + first / per_row * FIELDS, &c)) return;
    snprintf(said, size,
             "that is of V %lld, P %lld, D %lld, L %lld, H %lld, G %lld, F %lld%s%s%s%s; B %lld, T "
             "%lld, %lld bytes%s%s%s",
             (long long)c.a.vocabulary, (long long)c.a.positions, (long long)c.a.width,
             (long long)c.a.layers, (long long)c.a.heads, (long long)c.a.kv_heads,
             (long long)c.a.hidden, c.a.tied ? ", tied" : "", c.a.gated ? ", gated" : "",
             c.a.biases ? ", biases" : "", c.a.norm_biases ? ", norm_biases" : "",
             (long long)c.s.sequences, (long long)c.s.length, (long long)c.s.bytes,
             c.s.causal ? ", causal" : "", c.s.fused ? ", fused" : "",
             c.s.recomputed ? ", recomputed" : "");
}

static const char *const names[] = {"the decoders: decoder, field", "the counts: decoder"};
static const course_function counting =
    COURSE_FUNCTION(by_you, by_judge, mistakes, names, .explain = explain);

/* ---- decoders ---- */

typedef enum { PLAIN = 0, KINDS = 1, CAUSAL = 2, AGAIN = 4, BF16 = 8, RECOMPUTED = 16 } options;

static int64_t between(ct_context *context, int64_t low, int64_t high) {
    return low + ct_random_below(context, high - low + 1);
}
static bool coin(ct_context *context) { return ct_random_below(context, 2) == 1; }

static config draw_config(ct_context *context, options o) {
    const int64_t kv_heads = between(context, 2, 4),
                  heads = kv_heads * (o & KINDS ? between(context, 1, 3) : 1);
    config c = {.m = 0};
    c.a = (architecture){.vocabulary = between(context, 100, 3000),
                         .width = heads * between(context, 5, 40),
                         .layers = between(context, 2, 12),
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .hidden = between(context, 50, 400)};
    c.s = (step){.sequences = between(context, 2, 20), .length = between(context, 5, 90)};
    c.s.bytes = o & BF16 && coin(context) ? 2 : 4;
    if (o & KINDS) {
        c.a.positions = coin(context) ? between(context, 10, 500) : 0;
        c.a.tied = coin(context), c.a.gated = coin(context);
        c.a.biases = coin(context), c.a.norm_biases = coin(context);
    }
    c.s.causal = o & CAUSAL && coin(context);
    c.s.fused = o & (AGAIN | RECOMPUTED) && coin(context);
    c.s.recomputed = o & RECOMPUTED || (o & AGAIN && coin(context));
    return c;
}

/* GPT-3's sizes: no count of it fits into 32 bits, and hardly any of its products. */
static config large_config(options o) {
    config c = {.m = 0};
    c.a = (architecture){.vocabulary = 50257,
                         .width = 12288,
                         .layers = 96,
                         .heads = 96,
                         .kv_heads = 96,
                         .hidden = 49152};
    c.s = (step){.sequences = 4, .length = 2048, .bytes = 4, .recomputed = (o & RECOMPUTED) != 0};
    return c;
}

/* Counts of decoders that are drawn until each mistake from..to shows in one of them. */
static void compare(ct_context *context, const char *what, quantity of, options o, int from,
                    int to) {
    enum { TRIES = 200 };
    ct_tensor *in = NULL;
    int64_t rows[ROWS][FIELDS];
    bool all = false;
    for (int tried = 0; tried < TRIES && !all; tried++) {
        for (int i = 0; i < ROWS; i++) {
            const config c = i + 1 < ROWS ? draw_config(context, o) : large_config(o);
            write_config(&c, rows[i]);
        }
        in = ct_from_i64(context, CT_SHAPE(ROWS, FIELDS), &rows[0][0]);
        all = true;
        for (int i = from; i <= to && all; i++)
            all = !course_same(by_judge(&in, 1, &of, 0), by_judge(&in, 1, &of, COURSE_BIT(i)), 0);
    }
    course_forward(what, &counting, &of, &in, 1, 0);
}

/* ---- tests ---- */

static void by_hand(ct_context *context) {
    static const architecture small = {.vocabulary = 10,
                                       .positions = 4,
                                       .width = 4,
                                       .layers = 2,
                                       .heads = 2,
                                       .kv_heads = 1,
                                       .hidden = 6,
                                       .tied = true,
                                       .biases = true,
                                       .norm_biases = true};
    static const architecture gpt2 = {.vocabulary = 50257,
                                      .positions = 1024,
                                      .width = 768,
                                      .layers = 12,
                                      .heads = 12,
                                      .kv_heads = 12,
                                      .hidden = 3072,
                                      .tied = true,
                                      .biases = true,
                                      .norm_biases = true};
    static const architecture llama2 = {.vocabulary = 32000,
                                        .width = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 32,
                                        .hidden = 11008,
                                        .gated = true};
    config c = {.a = small, .s = {.sequences = 2, .length = 3, .bytes = 4, .causal = true}};
    int64_t rows[3][FIELDS];
    quantity all = ALL, of = PARAMETERS;
    write_config(&c, rows[0]);
    c.s.fused = c.s.recomputed = true, write_config(&c, rows[1]);
    ct_tensor *in = ct_from_i64(context, CT_SHAPE(2, FIELDS), &rows[0][0]);
    course_forward("parameters, forward, step, and bytes of weights, gradients, optimiser and "
                   "activations of the example",
                   &counting, &all, &in, 1, 0);
    c.a = gpt2, write_config(&c, rows[0]), c.a = llama2, write_config(&c, rows[1]);
    in = ct_from_i64(context, CT_SHAPE(2, FIELDS), &rows[0][0]);
    course_forward("the parameters of GPT-2 small and of Llama 2 7B", &counting, &of, &in, 1, 0);
}

static void parameters_test(ct_context *context) {
    compare(context, "the parameters of plain decoders", PARAMETERS, PLAIN, OUT_LEFT_OUT,
            OUT_LEFT_OUT);
}
static void kinds(ct_context *context) {
    compare(context, "the parameters of decoders of all kinds", PARAMETERS, KINDS, TIED_TWICE,
            ONE_LAYER);
}
static void forward_test(ct_context *context) {
    compare(context, "the forward of plain decoders", FORWARD, PLAIN, LOGITS_LEFT_OUT,
            TOKENS_OF_ONE_SEQUENCE);
}
static void forward_of_kinds(ct_context *context) {
    compare(context, "the forward of decoders of all kinds", FORWARD, KINDS | CAUSAL, NOT_CAUSAL,
            PAIRS_OF_ONE_HEAD);
}
static void step_test(ct_context *context) {
    compare(context, "a step of plain decoders", STEP, PLAIN, BACKWARD_LIKE_FORWARD,
            ONE_GRADIENT_OF_ATTENTION);
}
static void again(ct_context *context) {
    compare(context, "a step that computes something again", STEP, AGAIN, NOT_RECOMPUTED,
            BOTH_AGAIN);
}
static void weights(ct_context *context) {
    compare(context, "the bytes of weights, gradients and optimiser", OF_WEIGHTS, BF16,
            WEIGHTS_IN_F32, COPY_ALWAYS);
}
static void activations_test(ct_context *context) {
    ct_tensor *in = NULL;
    int64_t rows[ROWS][FIELDS];
    quantity of = OF_ACTIVATIONS;
    for (int i = 0; i < ROWS; i++) {
        config c = i + 1 < ROWS ? draw_config(context, KINDS | CAUSAL | AGAIN | BF16)
                                : large_config(PLAIN);
        if (i < 2) c.a.gated = i, c.s.fused = false, c.s.causal = true;
        if (i == 2) c.s.fused = true, c.s.bytes = 2;
        c.s.recomputed = false, write_config(&c, rows[i]);
    }
    in = ct_from_i64(context, CT_SHAPE(ROWS, FIELDS), &rows[0][0]);
    course_forward("the bytes of activations", &counting, &of, &in, 1, 0);
}
static void peak(ct_context *context) {
    compare(context, "the bytes of activations where layers are recomputed", OF_ACTIVATIONS,
            RECOMPUTED | BF16, ALL_KEPT, COMPARED_WITH_INPUT);
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"parameters", 1, parameters_test},
    {"kinds", 1, kinds},
    {"forward", 1, forward_test},
    {"forward_of_kinds", 1, forward_of_kinds},
    {"step", 1, step_test},
    {"again", 1, again},
    {"weights", 1, weights},
    {"activations", 1, activations_test},
    {"peak", 1, peak},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
