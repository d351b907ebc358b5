/* Heads split and combined against the library's and by hand; multi_head against the library's
 * module with the same parameters. */
#include "../attention_variants.h"
#include "../course.h"
#include "exercise.h"

static ct_tensor *split(ct_tensor *x, int64_t heads) {
    return ct_apply(&split_heads, &x, 1, &(split_heads_attrs){heads});
}
static ct_tensor *combine(ct_tensor *x) { return ct_apply(&combine_heads, &x, 1, NULL); }

/* ---- heads ---- */

enum { RESHAPED, COLUMNS_IN_TURN, HEADS_TURNED, ROWS_TURNED, BATCH_AND_HEADS, MOVES };
static const course_mistake move_mistakes[] = {
    [RESHAPED] = {"when the numbers stay where they are in memory, and the shape alone changes",
                  true},
    [COLUMNS_IN_TURN] = {"when column c belongs to head c % H, and not c / d"},
    [HEADS_TURNED] = {"with the heads in reversed order"},
    [ROWS_TURNED] = {"when a head's tokens and columns are exchanged: (B, H, d, T) in memory"},
    [BATCH_AND_HEADS] = {"when batch and heads are exchanged: (H, B, T, d) in memory"},
};

static ct_tensor *turned(ct_tensor *x, int dim) {
    ct_tensor *part[64];
    const int n = (int)ct_dim(x, dim);
    if (n > 64) return NULL;
    for (int i = 0; i < n; i++) part[i] = ct_narrow(x, dim, n - 1 - i, 1);
    return ct_cat(part, n, dim);
}

/* heads points at an int64_t */
static ct_tensor *split_variant(ct_tensor *const *in, int n, void *heads, course_set bits) {
    ct_tensor *x = in[0];
    (void)n;
    const int64_t h = *(int64_t *)heads, b = ct_dim(x, 0), t = ct_dim(x, 1), d = ct_dim(x, 2) / h;
    const ct_shape shape = CT_SHAPE(b, h, t, d);
    if (bits >> RESHAPED & 1) return ct_reshape(x, shape);
    ct_tensor *y = ct_split_heads(x, h);
    if (bits >> COLUMNS_IN_TURN & 1)
        y = ct_permute(ct_reshape(x, CT_SHAPE(b, t, d, h)), CT_DIMS(0, 3, 1, 2));
    if (bits >> HEADS_TURNED & 1) y = turned(y, 1);
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
    if (bits >> HEADS_TURNED & 1) x = turned(x, 1);
    if (bits >> ROWS_TURNED & 1) x = ct_transpose(ct_reshape(x, CT_SHAPE(b, h, d, t)), 2, 3);
    if (bits >> BATCH_AND_HEADS & 1) x = ct_transpose(ct_reshape(x, CT_SHAPE(h, b, t, d)), 0, 1);
    if (bits >> COLUMNS_IN_TURN & 1)
        return ct_reshape(ct_permute(x, CT_DIMS(0, 2, 3, 1)), CT_SHAPE(b, t, h * d));
    (void)shape;
    return ct_combine_heads(x);
}

static ct_tensor *split_by_you(ct_tensor *const *in, int n, void *heads) {
    (void)n;
    return split(in[0], *(int64_t *)heads);
}
static ct_tensor *combine_by_you(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return combine(in[0]);
}
static const course_function split_function =
                                 COURSE_FUNCTION(split_by_you, split_variant, move_mistakes),
                             combine_function =
                                 COURSE_FUNCTION(combine_by_you, combine_variant, move_mistakes);

static ct_tensor *split_by_library(ct_tensor *const *in, int n, void *heads) {
    return course_as_yours(&split_function, in, n, heads);
}
static ct_tensor *combine_by_library(ct_tensor *const *in, int n, void *arg) {
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

/* A gradient is only worth something of the right function. */
static void split_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(3, 4, 10));
    int64_t heads = 2;
    course_forward_first("the forward that is differentiated", &split_function, &heads, &x, 1, 0);
    course_gradient("split_heads", &split_heads, &(split_heads_attrs){2}, &x, 1,
                    (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 256, 256));
    course_gradient_as("split_heads of (2, 256, 256)", split_by_you, split_by_library, &heads, &x,
                       1, 1e-9);
}

static void combine_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 4, 5));
    course_forward_first("the forward that is differentiated", &combine_function, NULL, &x, 1, 0);
    course_gradient("combine_heads", &combine_heads, NULL, &x, 1, (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 2, 256, 128));
    course_gradient_as("combine_heads of (2, 2, 256, 128)", combine_by_you, combine_by_library,
                       NULL, &x, 1, 1e-9);
}

/* ---- multi-head attention ---- */

enum { X, IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS, INPUTS };

typedef struct {
    ct_module *mha; /* the library's, whose parameters both have */
    int64_t heads;
    bool causal;
    ct_tensor *in[INPUTS];
} problem;

static problem random_problem(ct_context *context, int64_t b, int64_t t, int64_t e, int64_t heads,
                              bool causal) {
    problem p = {
        ct_mha_new(context, (ct_mha_opts){.embed_dim = e, .num_heads = heads, .dtype = CT_F64}),
        heads,
        causal,
        {NULL}};
    p.in[X] = course_randn(context, CT_SHAPE(b, t, e));
    p.in[IN_WEIGHT] = ct_module_get(p.mha, "in_proj_weight");
    p.in[IN_BIAS] = ct_module_get(p.mha, "in_proj_bias");
    p.in[OUT_WEIGHT] = ct_module_get(p.mha, "out_proj.weight");
    p.in[OUT_BIAS] = ct_module_get(p.mha, "out_proj.bias");
    for (int i = IN_WEIGHT; i < INPUTS; i++) ct_init_normal(p.in[i], 0, 0.5);
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
    [SPLIT + RESHAPED] = {"when split_heads changes the shape alone"},
    [SPLIT + COLUMNS_IN_TURN] = {"when column c goes to head c % H, and not c / d"},
    [SPLIT + HEADS_TURNED] = {"with the heads in reversed order before attention"},
    [SPLIT + ROWS_TURNED] = {"when split_heads exchanges tokens and columns"},
    [SPLIT + BATCH_AND_HEADS] = {"when split_heads exchanges batch and heads"},
    [COMBINED + RESHAPED] = {"when the heads' results are combined by a change of shape alone"},
    [COMBINED + COLUMNS_IN_TURN] = {"when the heads' columns are combined in turn: head c % H"},
    [COMBINED + HEADS_TURNED] = {"with the heads in reversed order after attention"},
    [COMBINED + ROWS_TURNED] = {"when combine_heads exchanges tokens and columns"},
    [COMBINED + BATCH_AND_HEADS] = {"when combine_heads exchanges batch and heads"},
};

static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    static const int orders[6][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0},
                                     {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};
    const problem *p = arg;
    ct_tensor *x = in[X], *part[3];
    (void)n;
    if (!bits) return ct_mha_forward(p->mha, x, NULL, NULL, (ct_mha_call){.causal = p->causal}).out;
    int64_t b = ct_dim(x, 0), t = ct_dim(x, 1), e = ct_dim(x, 2), h = p->heads;
    if (bits >> ONE_HEAD & 1) h = 1;
    ct_tensor *qkv = ct_linear(x, in[IN_WEIGHT], bits >> NO_IN_BIAS & 1 ? NULL : in[IN_BIAS]);
    const int *order = orders[0];
    for (int i = 0; i < 5; i++)
        if (bits >> (KEYS_FIRST + i) & 1) order = orders[i + 1];
    for (int i = 0; i < 3; i++) {
        part[i] = ct_narrow(qkv, -1, order[i] * e, e);
        if (bits >> BY_HEADS & 1)
            part[i] =
                ct_reshape(ct_narrow(ct_reshape(qkv, CT_SHAPE(b, t, h, 3, e / h)), 3, order[i], 1),
                           ct_shape_of(x));
        part[i] = split_variant(&part[i], 1, &h, bits >> SPLIT & ((1u << MOVES) - 1));
    }
    double scale = 1;
    if (bits >> SCALE_WIDTH & 1) scale = sqrt((double)(e / h) / (double)e);
    if (bits >> SCALE_HEADS & 1) scale = sqrt((double)(e / h) / (double)h);
    ct_tensor *out = course_attention(ct_scale(part[0], scale), part[1], part[2], NULL, p->causal,
                                      bits & ((COURSE_BIT(ATTENTION_MISTAKES)) - 1));
    if (!out) return NULL;
    out = combine_variant(&out, 1, NULL, bits >> COMBINED & ((1u << MOVES) - 1));
    if (bits >> NO_OUT_PROJECTION & 1) return out;
    if (bits >> RESIDUAL & 1) return ct_add(x, ct_linear(out, in[OUT_WEIGHT], in[OUT_BIAS]));
    return ct_linear(
        out, bits >> OUT_WEIGHT_TURNED & 1 ? ct_transpose(in[OUT_WEIGHT], 0, 1) : in[OUT_WEIGHT],
        bits >> NO_OUT_BIAS & 1 ? NULL : in[OUT_BIAS]);
}
static const course_function function = COURSE_FUNCTION(yours, variant, mistakes);

static void compare(const char *what, problem p) {
    course_forward(what, &function, &p, p.in, INPUTS, 1e-12);
}

/* The parameters are fixed. */
static ct_tensor *yours_of_x(ct_tensor *const *in, int n, void *arg) {
    problem p = *(const problem *)arg;
    (void)n;
    p.in[X] = in[0];
    return yours(p.in, INPUTS, &p);
}
static ct_tensor *librarys_of_x(ct_tensor *const *in, int n, void *arg) {
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
    course_gradient_as("x of 512 tokens", yours_of_x, librarys_of_x, &p, &p.in[X], 1, 1e-9);
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
