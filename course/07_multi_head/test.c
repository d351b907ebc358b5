/* Heads split and combined, and multi_head, against plain loops and by hand. */
#include "../attention_variants.h"
#include "../course.h"
#include "exercise.h"

static ct_tensor *split(ct_tensor *x, int64_t heads) {
    return ct_apply(&split_heads, &x, 1, &(split_heads_attrs){heads});
}
static ct_tensor *combine(ct_tensor *x) { return ct_apply(&combine_heads, &x, 1, NULL); }

/* ---- heads ---- */

enum {
    RESHAPED,
    COLUMNS_IN_TURN,
    HEADS_TURNED,
    ROWS_TURNED,
    BATCH_AND_HEADS,
    FIRST_HEAD,
    HEAD_AFTER,
    LAST_HEAD_LOST,
    COLUMNS_TURNED,
    TOKENS_TURNED,
    MOVES
};
static const course_mistake move_mistakes[] = {
    [RESHAPED] = {"when the numbers stay where they are in memory, and the shape alone changes",
                  true},
    [COLUMNS_IN_TURN] = {"when column c belongs to head c % H, and not c / d"},
    [HEADS_TURNED] = {"with the heads in reversed order"},
    [ROWS_TURNED] = {"when a head's tokens and columns are exchanged: (B, H, d, T) in memory"},
    [BATCH_AND_HEADS] = {"when batch and heads are exchanged: (H, B, T, d) in memory"},
    [FIRST_HEAD] = {"when every head is the first one"},
    [HEAD_AFTER] = {"when each head has the columns of the one after it"},
    [LAST_HEAD_LOST] = {"when the last head is not copied, and is 0"},
    [COLUMNS_TURNED] = {"when the columns of each head stand in reversed order"},
    [TOKENS_TURNED] = {"when the tokens stand in reversed order"},
};

static ct_tensor *turned(ct_tensor *x, int dim) {
    ct_tensor *part[64];
    const int n = (int)ct_dim(x, dim);
    if (n > 64) return NULL;
    for (int i = 0; i < n; i++) part[i] = ct_narrow(x, dim, n - 1 - i, 1);
    return ref_cat(part, n, dim);
}

/* Applies the mistakes that keep the shape to y (B, H, T, d). */
static ct_tensor *among_heads(ct_tensor *y, course_set bits) {
    const int64_t heads = ct_dim(y, 1);
    if (bits >> HEADS_TURNED & 1) y = turned(y, 1);
    if (bits >> FIRST_HEAD & 1) y = ref_expand(ct_narrow(y, 1, 0, 1), ct_shape_of(y));
    if (bits >> HEAD_AFTER & 1) y = ref_roll(y, -1, 1);
    if (bits >> LAST_HEAD_LOST & 1) y = ref_pad(ct_narrow(y, 1, 0, heads - 1), 1, 0, 1, 0);
    if (y && bits >> COLUMNS_TURNED & 1) y = turned(y, 3);
    if (y && bits >> TOKENS_TURNED & 1) y = turned(y, 2);
    return y;
}

/* `heads` points to an int64_t. */
static ct_tensor *split_variant(ct_tensor *const *in, int n, void *heads, course_set bits) {
    ct_tensor *x = in[0];
    (void)n;
    const int64_t h = *(int64_t *)heads, b = ct_dim(x, 0), t = ct_dim(x, 1), d = ct_dim(x, 2) / h;
    const ct_shape shape = CT_SHAPE(b, h, t, d);
    if (bits >> RESHAPED & 1) return ct_reshape(x, shape);
    ct_tensor *y = ref_split_heads(x, h);
    if (bits >> COLUMNS_IN_TURN & 1)
        y = ct_permute(ct_reshape(x, CT_SHAPE(b, t, d, h)), CT_DIMS(0, 3, 1, 2));
    y = among_heads(y, bits);
    if (!y) return NULL;
    if (bits >> ROWS_TURNED & 1) y = ct_reshape(ct_contiguous(ct_transpose(y, 2, 3)), shape);
    if (bits >> BATCH_AND_HEADS & 1) y = ct_reshape(ct_contiguous(ct_transpose(y, 0, 1)), shape);
    return y;
}

static ct_tensor *combine_variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    ct_tensor *x = in[0];
    (void)n, (void)arg;
    const ct_shape shape = ct_shape_of(x);
    const int64_t b = ct_dim(x, 0), h = ct_dim(x, 1), t = ct_dim(x, 2), d = ct_dim(x, 3);
    if (bits >> RESHAPED & 1) return ct_reshape(x, CT_SHAPE(b, t, h * d));
    x = among_heads(x, bits);
    if (!x) return NULL;
    if (bits >> ROWS_TURNED & 1) x = ct_transpose(ct_reshape(x, CT_SHAPE(b, h, d, t)), 2, 3);
    if (bits >> BATCH_AND_HEADS & 1) x = ct_transpose(ct_reshape(x, CT_SHAPE(h, b, t, d)), 0, 1);
    if (bits >> COLUMNS_IN_TURN & 1)
        return ct_reshape(ct_permute(x, CT_DIMS(0, 2, 3, 1)), CT_SHAPE(b, t, h * d));
    (void)shape;
    return ref_combine_heads(x);
}

static ct_tensor *split_by_you(ct_tensor *const *in, int n, void *heads) {
    (void)n;
    return split(in[0], *(int64_t *)heads);
}
static ct_tensor *combine_by_you(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return combine(in[0]);
}
static const char *const split_inputs[] = {"x: sequence, token, column",
                                           "the result: sequence, head, token, column"},
                         *const combine_inputs[] = {"x: sequence, head, token, column",
                                                    "the result: sequence, token, column"};
static const course_function split_function =
                                 COURSE_FUNCTION(split_by_you, split_variant, move_mistakes,
                                                 .inputs = split_inputs),
                             combine_function =
                                 COURSE_FUNCTION(combine_by_you, combine_variant, move_mistakes,
                                                 .inputs = combine_inputs);

static ct_tensor *split_by_reference(ct_tensor *const *in, int n, void *heads) {
    return course_as_yours(&split_function, in, n, heads);
}
static ct_tensor *combine_by_reference(ct_tensor *const *in, int n, void *arg) {
    return course_as_yours(&combine_function, in, n, arg);
}

/* (1, 2, 4) and (1, 2, 2, 2) */
static const double together[] = {1, 2, 3, 4, 5, 6, 7, 8}, apart[] = {1, 2, 5, 6, 3, 4, 7, 8};

static void split_by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(1, 2, 4), together);
    course_forward("the statement's example in two heads", &split_function, &(int64_t){2}, &x, 1,
                   0);
    course_value("the statement's example in two heads", split(x, 2),
                 course_f64(context, CT_SHAPE(1, 2, 2, 2), apart), 0);
}

static void split_shapes(ct_context *context) {
    /* B, T, E, H */
    const int64_t sizes[][4] = {
        {2, 3, 12, 3}, {3, 1, 6, 2}, {1, 5, 4, 1}, {2, 5, 7, 7}, {1, 1, 1, 1}};
    for (int i = 0; i < 5; i++) {
        ct_tensor *x = course_randn(context, CT_SHAPE(sizes[i][0], sizes[i][1], sizes[i][2]));
        course_forward("heads split", &split_function, (void *)&sizes[i][3], &x, 1, 0);
    }
}

static void combine_values(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(1, 2, 2, 2), apart);
    course_forward("the statement's example, its two heads combined", &combine_function, NULL, &x,
                   1, 0);
    course_value("the statement's example, its two heads combined", combine(x),
                 course_f64(context, CT_SHAPE(1, 2, 4), together), 0);
    /* B, H, T, d */
    const int64_t sizes[][4] = {{2, 3, 5, 4}, {3, 1, 6, 2}, {1, 5, 1, 3}, {1, 1, 1, 1}};
    for (int i = 0; i < 4; i++) {
        x = course_randn(context, CT_SHAPE(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]));
        course_forward("heads combined", &combine_function, NULL, &x, 1, 0);
    }
}

static void refused(ct_context *context) {
    course_refused("7 columns in 2 heads", context,
                   split(course_randn(context, CT_SHAPE(2, 3, 7)), 2), CT_ERR_SHAPE,
                   "split_heads:");
    course_refused("4 columns in 0 heads", context,
                   split(course_randn(context, CT_SHAPE(2, 3, 4)), 0), CT_ERR_SHAPE,
                   "split_heads:");
    course_refused("two dims split", context, split(course_randn(context, CT_SHAPE(3, 4)), 2),
                   CT_ERR_SHAPE, "split_heads:");
    course_refused("three dims combined", context,
                   combine(course_randn(context, CT_SHAPE(2, 3, 4))), CT_ERR_SHAPE,
                   "combine_heads:");
}

/* A gradient is worth something only if the function is the right one. */
static void split_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(3, 4, 10));
    int64_t heads = 2;
    course_forward_first("the forward that is differentiated", &split_function, &heads, &x, 1, 0);
    course_gradient("split_heads", &split_heads, &(split_heads_attrs){2}, &x, 1,
                    (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 256, 256));
    course_gradient_as("split_heads of (2, 256, 256)", split_by_you, split_by_reference, &heads, &x,
                       1, 1e-9);
}

static void combine_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 4, 5));
    course_forward_first("the forward that is differentiated", &combine_function, NULL, &x, 1, 0);
    course_gradient("combine_heads", &combine_heads, NULL, &x, 1, (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 2, 256, 128));
    course_gradient_as("combine_heads of (2, 2, 256, 128)", combine_by_you, combine_by_reference,
                       NULL, &x, 1, 1e-9);
}

/* ---- multi-head attention ---- */

enum { X, IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS, INPUTS };

typedef struct {
    int64_t heads;
    bool causal;
    ct_tensor *in[INPUTS];
} problem;

static problem random_problem(ct_context *context, int64_t b, int64_t t, int64_t e, int64_t heads,
                              bool causal) {
    const ct_shape shapes[INPUTS] = {[X] = CT_SHAPE(b, t, e),
                                     [IN_WEIGHT] = CT_SHAPE(3 * e, e),
                                     [IN_BIAS] = CT_SHAPE(3 * e),
                                     [OUT_WEIGHT] = CT_SHAPE(e, e),
                                     [OUT_BIAS] = CT_SHAPE(e)};
    problem p = {.heads = heads, .causal = causal};
    for (int i = 0; i < INPUTS; i++)
        p.in[i] = ref_scale(course_randn(context, shapes[i]), i == X ? 1 : 0.5);
    return p;
}

static ct_tensor *yours(ct_tensor *const *in, int n, void *arg) {
    const problem *p = arg;
    (void)n;
    return multi_head(
        in[X], &(multi_head_params){in[IN_WEIGHT], in[IN_BIAS], in[OUT_WEIGHT], in[OUT_BIAS]},
        p->heads, p->causal);
}

enum {
    KEYS_FIRST = ATTENTION_MISTAKES,
    VALUES_FIRST,
    VALUES_SECOND,
    KEYS_LAST,
    KEYS_ALL_THREE,
    BY_HEADS,
    NO_IN_BIAS,
    NO_OUT_BIAS,
    NO_OUT_PROJECTION,
    OUT_WEIGHT_TURNED,
    SCALE_WIDTH,
    SCALE_HEADS,
    ONE_HEAD,
    RESIDUAL,
    NO_QUERY_BIAS,
    NO_VALUE_BIAS,
    BIAS_OF_FIRST,
    BIAS_SUBTRACTED,
    IN_WEIGHT_TURNED,
    QUERIES_OF_X,
    KEYS_OF_X,
    VALUES_OF_X,
    QUERIES_FOR_KEYS,
    KEYS_FOR_ALL_VALUES,
    IN_TURN,
    VALUE_HEADS_SHIFTED,
    KEY_HEADS_SHIFTED,
    FIRST_KEY_HEAD,
    FIRST_VALUE_HEAD,
    OUT_BIAS_TWICE,
    OUT_BIAS_OF_IN,
    OUT_WEIGHT_TWICE,
    NO_OUT_WEIGHT,
    HEADS_AVERAGED,
    SPLIT,                    /* and the other moves */
    COMBINED = SPLIT + MOVES, /* likewise */
    MISTAKES = COMBINED + MOVES
};
static const course_mistake mistakes[] = {
    ATTENTION_MISTAKES_SAID,
    [KEYS_FIRST] = {"when the columns of qkv are taken for k, q, v: they are q, k, v"},
    [VALUES_FIRST] = {"when the columns of qkv are taken for v, k, q: they are q, k, v"},
    [VALUES_SECOND] = {"when the columns of qkv are taken for q, v, k: they are q, k, v"},
    [KEYS_LAST] = {"when the columns of qkv are taken for v, q, k: they are q, k, v"},
    [KEYS_ALL_THREE] = {"when the columns of qkv are taken for k, v, q: they are q, k, v"},
    [BY_HEADS] = {"when each head's q, k and v are taken to stand side by side in qkv"},
    [NO_IN_BIAS] = {"without in_bias"},
    [NO_OUT_BIAS] = {"without out_bias"},
    [NO_OUT_PROJECTION] = {"without the projection by out_weight and out_bias at the end"},
    [OUT_WEIGHT_TURNED] = {"with out_weight transposed once too often"},
    [SCALE_WIDTH] = {"with the scale 1 / sqrt E in place of 1 / sqrt d"},
    [SCALE_HEADS] = {"with the scale 1 / sqrt H in place of 1 / sqrt d"},
    [ONE_HEAD] = {"with one head of all columns"},
    [RESIDUAL] = {"when x is added at the end"},
    [NO_QUERY_BIAS] = {"when the queries get no bias"},
    [NO_VALUE_BIAS] = {"when the values get no bias"},
    [BIAS_OF_FIRST] = {"when queries, keys and values all get the first E numbers of in_bias"},
    [BIAS_SUBTRACTED] = {"when in_bias is subtracted"},
    [IN_WEIGHT_TURNED] = {"when each of in_weight's three (E, E) matrices is transposed once too "
                          "often"},
    [QUERIES_OF_X] = {"when x itself is taken for the queries, without a projection"},
    [KEYS_OF_X] = {"when x itself is taken for the keys, without a projection"},
    [VALUES_OF_X] = {"when x itself is taken for the values, without a projection"},
    [QUERIES_FOR_KEYS] = {"with the queries in place of the keys"},
    [KEYS_FOR_ALL_VALUES] = {"with the queries' rows of in_weight for all three"},
    [IN_TURN] = {"when columns of qkv are taken for q, k and v in turn, c % 3"},
    [VALUE_HEADS_SHIFTED] = {"when each head has the values of the one after it"},
    [KEY_HEADS_SHIFTED] = {"when each head has the keys of the one after it"},
    [FIRST_KEY_HEAD] = {"when all heads have the keys of the first"},
    [FIRST_VALUE_HEAD] = {"when all heads have the values of the first"},
    [OUT_BIAS_TWICE] = {"when out_bias is added twice"},
    [OUT_BIAS_OF_IN] = {"with the first E numbers of in_bias in place of out_bias"},
    [OUT_WEIGHT_TWICE] = {"when the projection by out_weight is applied twice"},
    [NO_OUT_WEIGHT] = {"when out_bias is added and out_weight does not multiply"},
    [HEADS_AVERAGED] = {"when every head's result is replaced by the mean of all heads'"},
    [SPLIT + RESHAPED] = {"when split_heads changes the shape alone"},
    [SPLIT + COLUMNS_IN_TURN] = {"when column c goes to head c % H, and not c / d"},
    [SPLIT + HEADS_TURNED] = {"with the heads in reversed order before attention"},
    [SPLIT + ROWS_TURNED] = {"when split_heads exchanges tokens and columns"},
    [SPLIT + BATCH_AND_HEADS] = {"when split_heads exchanges batch and heads"},
    [SPLIT + FIRST_HEAD] = {"when every head is the first one before attention"},
    [SPLIT + HEAD_AFTER] = {"when each head is the one after it before attention"},
    [SPLIT + LAST_HEAD_LOST] = {"when the last head is 0 before attention"},
    [SPLIT + COLUMNS_TURNED] = {"when each head's columns are reversed before attention"},
    [SPLIT + TOKENS_TURNED] = {"when the tokens are reversed before attention"},
    [COMBINED + RESHAPED] = {"when the heads' results are combined by a change of shape alone"},
    [COMBINED + COLUMNS_IN_TURN] = {"when the heads' columns are combined in turn: head c % H"},
    [COMBINED + HEADS_TURNED] = {"with the heads in reversed order after attention"},
    [COMBINED + ROWS_TURNED] = {"when combine_heads exchanges tokens and columns"},
    [COMBINED + BATCH_AND_HEADS] = {"when combine_heads exchanges batch and heads"},
    [COMBINED + FIRST_HEAD] = {"when every head is the first one after attention"},
    [COMBINED + HEAD_AFTER] = {"when each head is the one after it after attention"},
    [COMBINED + LAST_HEAD_LOST] = {"when the last head is 0 after attention"},
    [COMBINED + COLUMNS_TURNED] = {"when each head's columns are reversed after attention"},
    [COMBINED + TOKENS_TURNED] = {"when the tokens are reversed after attention"},
};

/* (B, T, 3 E) */
static ct_tensor *projected(ct_tensor *const *in, course_set bits) {
    ct_tensor *weight = in[IN_WEIGHT], *bias = in[IN_BIAS], *part[3], *of_bias[3];
    const int64_t e = ct_dim(in[X], 2);
    for (int i = 0; i < 3; i++) {
        part[i] = ct_narrow(weight, 0, i * e, e);
        if (bits >> IN_WEIGHT_TURNED & 1) part[i] = ct_transpose(part[i], 0, 1);
        of_bias[i] = ct_narrow(bias, 0, bits >> BIAS_OF_FIRST & 1 ? 0 : i * e, e);
        if ((i == 0 && bits >> NO_QUERY_BIAS & 1) || (i == 2 && bits >> NO_VALUE_BIAS & 1))
            of_bias[i] = ref_scale(of_bias[i], 0);
        if (bits >> BIAS_SUBTRACTED & 1) of_bias[i] = ref_neg(of_bias[i]);
    }
    return ref_linear(in[X], ref_cat(part, 3, 0),
                      bits >> NO_IN_BIAS & 1 ? NULL : ref_cat(of_bias, 3, 0));
}

static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    static const int orders[6][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0},
                                     {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};
    const problem *p = arg;
    ct_tensor *x = in[X], *part[3];
    (void)n;
    int64_t b = ct_dim(x, 0), t = ct_dim(x, 1), e = ct_dim(x, 2), h = p->heads;
    if (bits >> ONE_HEAD & 1) h = 1;
    ct_tensor *qkv = projected(in, bits);
    const int *order = orders[0];
    for (int i = 0; i < 5; i++)
        if (bits >> (KEYS_FIRST + i) & 1) order = orders[i + 1];
    for (int i = 0; i < 3; i++) {
        const int from = bits >> KEYS_FOR_ALL_VALUES & 1 ? 0 : order[i];
        part[i] = ct_narrow(qkv, -1, from * e, e);
        if (bits >> BY_HEADS & 1)
            part[i] =
                ct_reshape(ct_narrow(ct_reshape(qkv, CT_SHAPE(b, t, h, 3, e / h)), 3, order[i], 1),
                           ct_shape_of(x));
        if (bits >> IN_TURN & 1)
            part[i] = ct_reshape(ct_narrow(ct_reshape(qkv, CT_SHAPE(b, t, e, 3)), 3, i, 1),
                                 ct_shape_of(x));
        if (bits >> (QUERIES_OF_X + i) & 1) part[i] = x;
        if (i == 1 && bits >> QUERIES_FOR_KEYS & 1) part[1] = ct_narrow(qkv, -1, 0, e);
    }
    for (int i = 0; i < 3; i++) {
        part[i] = split_variant(&part[i], 1, &h, bits >> SPLIT & (COURSE_BIT(MOVES) - 1));
        if (!part[i]) return NULL;
    }
    if (bits >> VALUE_HEADS_SHIFTED & 1) part[2] = ref_roll(part[2], -1, 1);
    if (bits >> KEY_HEADS_SHIFTED & 1) part[1] = ref_roll(part[1], -1, 1);
    for (int i = 1; i < 3; i++)
        if (bits >> (FIRST_KEY_HEAD + i - 1) & 1)
            part[i] = ref_expand(ct_narrow(part[i], 1, 0, 1), ct_shape_of(part[i]));
    double scale = 1;
    if (bits >> SCALE_WIDTH & 1) scale = sqrt((double)(e / h) / (double)e);
    if (bits >> SCALE_HEADS & 1) scale = sqrt((double)(e / h) / (double)h);
    ct_tensor *out = course_attention(ref_scale(part[0], scale), part[1], part[2], NULL, p->causal,
                                      bits & (COURSE_BIT(ATTENTION_MISTAKES) - 1));
    if (!out) return NULL;
    if (bits >> HEADS_AVERAGED & 1)
        out = ref_expand(ref_mean(out, CT_DIMS(1), true), ct_shape_of(out));
    out = combine_variant(&out, 1, NULL, bits >> COMBINED & (COURSE_BIT(MOVES) - 1));
    if (!out || bits >> NO_OUT_PROJECTION & 1) return out;
    ct_tensor *weight = in[OUT_WEIGHT], *bias = bits >> NO_OUT_BIAS & 1 ? NULL : in[OUT_BIAS];
    if (bits >> OUT_WEIGHT_TURNED & 1) weight = ct_transpose(weight, 0, 1);
    if (bits >> OUT_BIAS_TWICE & 1 && bias) bias = ref_scale(bias, 2);
    if (bits >> OUT_BIAS_OF_IN & 1) bias = ct_narrow(in[IN_BIAS], 0, 0, e);
    if (bits >> OUT_WEIGHT_TWICE & 1) out = ref_linear(out, weight, bias);
    out = bits >> NO_OUT_WEIGHT & 1 ? ref_add(out, in[OUT_BIAS]) : ref_linear(out, weight, bias);
    return bits >> RESIDUAL & 1 ? ref_add(x, out) : out;
}

/* Tries simpler parameters: if the result is right with these, the mistake is in the part that they
 * make simple.
 */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    static const char *const found[] = {
        "with one head it is right: look at how heads are split and combined",
        "where in_bias is 0 it is right: look at in_bias",
        "where queries and keys are all 0, so that all weights are equal, it is right: look at "
        "scores, scale and softmax",
        "with a unit matrix for out_weight and out_bias 0 it is right: look at the last projection",
        "where out_bias is 0 it is right: look at out_bias",
        "without `causal` it is right: look at the mask",
        "also where queries and keys are all 0 and the last projection is by a unit matrix it is "
        "wrong: look at the values, and at how heads are split and combined"};
    problem p = *(const problem *)arg;
    ct_context *context = ct_context_of(in[X]);
    const int64_t e = ct_dim(in[X], 2);
    (void)got, (void)right, (void)n;
    ct_tensor *unit = ct_zeros(context, CT_F64, CT_SHAPE(e, e));
    for (int64_t i = 0; i < e; i++) ct_data_f64(unit)[i * e + i] = 1;
    for (int way = 0; way < 7; way++) {
        ct_tensor *simple[INPUTS];
        for (int i = 0; i < INPUTS; i++) simple[i] = ref_copy(in[i]);
        p = *(const problem *)arg;
        if ((way == 0 && p.heads == 1) || (way == 5 && !p.causal)) continue;
        if (way == 0) p.heads = 1;
        if (way == 1) simple[IN_BIAS] = ref_scale(in[IN_BIAS], 0);
        if (way == 2 || way == 6) {
            simple[IN_WEIGHT] = ref_pad(ct_narrow(in[IN_WEIGHT], 0, 2 * e, e), 0, 2 * e, 0, 0);
            simple[IN_BIAS] = ref_pad(ct_narrow(in[IN_BIAS], 0, 2 * e, e), 0, 2 * e, 0, 0);
        }
        if (way == 3 || way == 6) simple[OUT_WEIGHT] = unit;
        if (way == 3 || way == 4 || way == 6) simple[OUT_BIAS] = ref_scale(in[OUT_BIAS], 0);
        if (way == 5) p.causal = false;
        ct_tensor *mine = yours(simple, INPUTS, &p), *must = variant(simple, INPUTS, &p, 0);
        if (!mine || !must) return;
        if (course_same(mine, must, 1e-9) == (way < 6)) {
            snprintf(said, size, "%s", found[way]);
            return;
        }
    }
}

static void probe(ct_context *context, ct_tensor **in, void **arg) {
    static problem p;
    p = random_problem(context, 2, 4, 12, 3, ((const problem *)*arg)->causal);
    for (int i = 0; i < INPUTS; i++) in[i] = p.in[i];
    *arg = &p;
}
static const char *const inputs[] = {
    "x: sequence, token, column", "in_weight: row, column", "in_bias: row",
    "out_weight: row, column",    "out_bias: row",          "the result: sequence, token, column"};
static const course_function function =
    COURSE_FUNCTION(yours, variant, mistakes, .inputs = inputs, .probe = probe, .explain = explain);

static void compare(const char *what, problem p) {
    course_forward(what, &function, &p, p.in, INPUTS, 1e-12);
}

/* multi_head as a function of x only: the parameters are fixed. */
static ct_tensor *yours_of_x(ct_tensor *const *in, int n, void *arg) {
    problem p = *(const problem *)arg;
    (void)n;
    p.in[X] = in[0];
    return yours(p.in, INPUTS, &p);
}
static ct_tensor *right_of_x(ct_tensor *const *in, int n, void *arg) {
    problem p = *(const problem *)arg;
    (void)n;
    p.in[X] = in[0];
    return course_as_yours(&function, p.in, INPUTS, &p);
}

static void all_see_all(ct_context *context) {
    /* B, T, E, H */
    const int64_t sizes[][4] = {{2, 5, 12, 3}, {1, 1, 4, 2}, {3, 4, 6, 1}, {1, 3, 3, 3}};
    for (int i = 0; i < 4; i++)
        compare("multi-head attention",
                random_problem(context, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], false));
}

static void causal(ct_context *context) {
    compare("causal multi-head attention", random_problem(context, 2, 5, 8, 2, true));
}

static void gradient(ct_context *context) {
    problem p = random_problem(context, 2, 3, 8, 2, true);
    course_forward_first("the forward that is differentiated, causal", &function, &p, p.in, INPUTS,
                         1e-12);
    course_gradient_of("causal multi-head attention; inputs 0 ... 4 are x, in_weight, in_bias, "
                       "out_weight, out_bias",
                       yours, &p, p.in, INPUTS, (ct_gradcheck_opts){0});
    p = random_problem(context, 1, 512, 64, 2, true);
    course_gradient_as("x of 512 tokens", yours_of_x, right_of_x, &p, &p.in[X], 1, 1e-9);
}

const course_test course_tests[] = {
    {"split_by_hand", 1, split_by_hand},
    {"split_shapes", 1, split_shapes},
    {"combine", 1, combine_values},
    {"refused", 1, refused},
    {"split_gradient", 1, split_gradient},
    {"combine_gradient", 1, combine_gradient},
    {"all_see_all", 1, all_see_all},
    {"causal", 1, causal},
    {"gradient", 2, gradient},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
