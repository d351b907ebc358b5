/* Arguments that ops refuse, one condition at a time. If several conditions lead to one message,
 * each of them is tested. */
#include "tests/support/op_check.h"

#define NEW(dtype, ...) of(dtype, CT_SHAPE(__VA_ARGS__))
#define REAL(...)       NEW(CT_F32, __VA_ARGS__)

START_TEST(attention) {
#define ATTENTION(q, k, v) ct_attention(q, k, v, (ct_attention_opts){0}).out
    ct_tensor *good = REAL(2, 3, 4, 5);
    ck_assert_ptr_nonnull(ATTENTION(good, good, good));
    const char *not = "are not (B, H, T, d)", *together = "do not fit together";
    FAILS(ATTENTION(REAL(3, 4, 5), good, good), CT_ERR_SHAPE, not );
    FAILS(ATTENTION(good, REAL(3, 4, 5), good), CT_ERR_SHAPE, not );
    FAILS(ATTENTION(good, good, REAL(3, 4, 5)), CT_ERR_SHAPE, not );
    FAILS(ATTENTION(REAL(1, 3, 4, 5), good, good), CT_ERR_SHAPE, together);
    FAILS(ATTENTION(REAL(2, 3, 4, 6), good, good), CT_ERR_SHAPE, together);
    FAILS(ATTENTION(good, good, REAL(1, 3, 4, 5)), CT_ERR_SHAPE, together);
    FAILS(ATTENTION(good, good, REAL(2, 1, 4, 5)), CT_ERR_SHAPE, together);
    FAILS(ATTENTION(good, good, REAL(2, 3, 3, 5)), CT_ERR_SHAPE, together);
    has_shape(ATTENTION(good, good, REAL(2, 3, 4, 7)), CT_SHAPE(2, 3, 4, 7));
    FAILS(ATTENTION(good, REAL(2, 2, 4, 5), REAL(2, 2, 4, 5)), CT_ERR_SHAPE,
          "the key heads of (2, 2, 4, 5) do not divide the query heads of (2, 3, 4, 5)");
    FAILS(ATTENTION(good, REAL(2, 0, 4, 5), REAL(2, 0, 4, 5)), CT_ERR_SHAPE, "do not divide");
    FAILS(ATTENTION(good, NEW(CT_F64, 2, 3, 4, 5), good), CT_ERR_DTYPE, "q f32, k f64, v f32");
    FAILS(ATTENTION(good, good, NEW(CT_F64, 2, 3, 4, 5)), CT_ERR_DTYPE, "q f32, k f32, v f64");
    ct_tensor *whole = NEW(CT_I64, 2, 3, 4, 5);
    FAILS(ATTENTION(whole, whole, whole), CT_ERR_DTYPE, "q i64, k i64, v i64");
#undef ATTENTION
}
END_TEST

/* Keys of width 0: all scores are 0, so each query gets the mean of the values, however many
 * queries there are. */
START_TEST(attention_without_a_width) {
    for (int64_t t = 1; t <= 4; t++) {
        ct_tensor *q = of(CT_F64, CT_SHAPE(1, 1, t, 0)), *k = of(CT_F64, CT_SHAPE(1, 1, 4, 0));
        ct_tensor *v = ct_view(F64(1, 10, 2, 20, 4, 40, 9, 90), CT_SHAPE(1, 1, 4, 2));
        ct_tensor *y = ct_attention(q, k, v, (ct_attention_opts){.scale = 1}).out;
        has_shape(y, CT_SHAPE(1, 1, t, 2));
        IS(ct_view(ct_narrow(y, 2, t - 1, 1), CT_SHAPE(2)), 4, 40);
    }
}
END_TEST

START_TEST(products) {
    ct_tensor *x = REAL(2, 3), *w = REAL(4, 3), *scalar = of(CT_F32, CT_SCALAR);
    FAILS(ct_linear(scalar, w, NULL), CT_ERR_SHAPE, "inner sizes differ: () with weight (4, 3)");
    FAILS(ct_linear(x, REAL(4, 2), NULL), CT_ERR_SHAPE, "inner sizes differ");
    FAILS(ct_linear(x, REAL(3), NULL), CT_ERR_SHAPE, "weight must be (out, in), not (3)");
    FAILS(ct_linear(x, NULL, NULL), CT_ERR_ARGUMENT, "linear: weight is NULL");
    FAILS(ct_linear(x, w, REAL(3)), CT_ERR_SHAPE, "bias (3) does not fit weight (4, 3)");
    FAILS(ct_linear(x, w, REAL(1, 4)), CT_ERR_SHAPE, "bias (1, 4) does not fit weight (4, 3)");
    FAILS(ct_linear(x, NEW(CT_F64, 4, 3), NULL), CT_ERR_DTYPE, "linear");
    FAILS(ct_linear(NEW(CT_I64, 2, 3), NEW(CT_I64, 4, 3), NULL), CT_ERR_DTYPE, "linear");

#define ACTIVATED(x, w, bias, residual) ct_activated_linear(x, CT_GELU, w, bias, residual)
    FAILS(ACTIVATED(scalar, w, NULL, NULL), CT_ERR_SHAPE, "not (..., in) with (out, in)");
    FAILS(ACTIVATED(x, REAL(3), NULL, NULL), CT_ERR_SHAPE, "not (..., in) with (out, in)");
    FAILS(ACTIVATED(x, REAL(4, 2), NULL, NULL), CT_ERR_SHAPE, "not (..., in) with (out, in)");
    FAILS(ACTIVATED(x, NULL, NULL, NULL), CT_ERR_ARGUMENT, "activated_linear: weight is NULL");
    FAILS(ACTIVATED(x, w, REAL(1, 4), NULL), CT_ERR_SHAPE, "bias (1, 4) does not fit");
    FAILS(ACTIVATED(x, w, REAL(3), NULL), CT_ERR_SHAPE, "bias (3) does not fit weight (4, 3)");
    FAILS(ACTIVATED(x, w, NULL, REAL(2, 3)), CT_ERR_SHAPE, "activated_linear");
    FAILS(ACTIVATED(x, NEW(CT_F64, 4, 3), NULL, NULL), CT_ERR_DTYPE, "activated_linear");
    FAILS(ACTIVATED(NEW(CT_I64, 2, 3), NEW(CT_I64, 4, 3), NULL, NULL), CT_ERR_DTYPE,
          "activated_linear");
#undef ACTIVATED

    FAILS(ct_matmul(scalar, x), CT_ERR_SHAPE, "matmul");
    FAILS(ct_matmul(x, scalar), CT_ERR_SHAPE, "matmul");
    FAILS(ct_einsum("ab,bc->ac", NULL, x), CT_ERR_ARGUMENT, "einsum");
    FAILS(ct_einsum("ab,bc->ac", x, NULL), CT_ERR_ARGUMENT, "einsum");
    ck_assert_ptr_null(ct_einsum("ab,bc->ac", NULL, NULL)); /* no context to say so in */
}
END_TEST

START_TEST(losses) {
#define KL(x, t, kind) ct_kl_div(x, t, (ct_kl_div_opts){.reduction = kind})
    ct_tensor *x = REAL(2, 3);
    FAILS(KL(NEW(CT_I64, 2, 3), NEW(CT_I64, 2, 3), CT_MEAN), CT_ERR_DTYPE, "kl_div");
    FAILS(KL(x, NEW(CT_F64, 2, 3), CT_MEAN), CT_ERR_DTYPE, "kl_div");
    FAILS(KL(x, REAL(2, 4), CT_MEAN), CT_ERR_SHAPE, "(2, 4)");
    FAILS(KL(x, x, (ct_reduction)4), CT_ERR_ARGUMENT, "kl_div: does not take reduction 4");
    FAILS(KL(x, x, (ct_reduction)-1), CT_ERR_ARGUMENT, "kl_div: does not take reduction -1");
#undef KL
    ct_tensor *targets = NEW(CT_I64, 2), *weight = REAL(4, 3);
#define CROSS(logits, targets, ...)                                                                \
    ct_cross_entropy(logits, targets, (ct_cross_entropy_opts){__VA_ARGS__})
    FAILS(CROSS(x, NEW(CT_I64, 2, 1)), CT_ERR_SHAPE, "cross_entropy");
    FAILS(CROSS(x, NEW(CT_I64, 3)), CT_ERR_SHAPE, "cross_entropy");
    FAILS(CROSS(x, targets, .label_smoothing = -0.1), CT_ERR_ARGUMENT, "cross_entropy");
    FAILS(CROSS(x, targets, .label_smoothing = 1.1), CT_ERR_ARGUMENT, "cross_entropy");
    FAILS(CROSS(x, targets, .label_smoothing = NAN), CT_ERR_ARGUMENT, "cross_entropy");
    FAILS(CROSS(x, targets, .weight = REAL(1, 3)), CT_ERR_SHAPE, "cross_entropy");
    FAILS(CROSS(x, targets, .weight = REAL(2)), CT_ERR_SHAPE, "cross_entropy");
    FAILS(CROSS(x, targets, .reduction = CT_BATCH_MEAN), CT_ERR_ARGUMENT,
          "cross_entropy: does not take reduction");
#undef CROSS
#define LINEAR_CROSS(x, weight, targets)                                                           \
    ct_linear_cross_entropy(x, weight, targets, (ct_cross_entropy_opts){0})
    FAILS(LINEAR_CROSS(REAL(3), weight, targets), CT_ERR_SHAPE, "linear_cross_entropy");
    FAILS(LINEAR_CROSS(x, REAL(3), targets), CT_ERR_SHAPE, "linear_cross_entropy");
    FAILS(LINEAR_CROSS(x, REAL(4, 2), targets), CT_ERR_SHAPE, "linear_cross_entropy");
    FAILS(LINEAR_CROSS(x, weight, NEW(CT_I64, 3)), CT_ERR_SHAPE, "linear_cross_entropy");
    FAILS(LINEAR_CROSS(x, weight, NEW(CT_I64, 2, 1)), CT_ERR_SHAPE, "linear_cross_entropy");
#undef LINEAR_CROSS
}
END_TEST

/* Ops that make dims or move them. */
START_TEST(shapes) {
    ct_tensor *x = REAL(2, 3), *scalar = of(CT_F32, CT_SCALAR);
    ct_tensor *eight = REAL(1, 1, 1, 1, 1, 1, 1, 2);
    FAILS(ct_embedding(NEW(CT_I64, 1, 1, 1, 1, 1, 1, 1, 2), x), CT_ERR_SHAPE,
          "embedding: ids (1, 1, 1, 1, 1, 1, 1, 2) have 8 dims already");
    FAILS(ct_embedding(NEW(CT_I64, 2), REAL(3)), CT_ERR_SHAPE, "the weight (3) is not (V, D)");
    FAILS(ct_unsqueeze(eight, 0), CT_ERR_SHAPE, "unsqueeze");
    FAILS(ct_stack((ct_tensor *[]){eight, eight}, 2, 0), CT_ERR_SHAPE, "stack");
    ct_shape nine = CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 2);
    nine.ndim = 9;
    FAILS(ct_expand(x, nine), CT_ERR_SHAPE, "expand");
    FAILS(ct_view(x, nine), CT_ERR_SHAPE, "view");
    FAILS(ct_zeros(context, CT_F32, nine), CT_ERR_SHAPE, "9 dims; a tensor has 0 to 8");
    FAILS(ct_sum(x, nine, false), CT_ERR_SHAPE, "sum: a list of 9 dims");
    nine.ndim = -1;
    FAILS(ct_sum(x, nine, false), CT_ERR_SHAPE, "sum: a list of -1 dims");
    FAILS(ct_var(x, nine, 1, false), CT_ERR_SHAPE, "var: a list of -1 dims");
    FAILS(ct_zeros(context, CT_F32, nine), CT_ERR_SHAPE, "-1 dims; a tensor has 0 to 8");
    FAILS(ct_expand(x, CT_SHAPE(3)), CT_ERR_SHAPE, "expand");
    FAILS(ct_split_heads(x, 1), CT_ERR_SHAPE, "split_heads");
    FAILS(ct_split_heads(REAL(1, 2, 3), 0), CT_ERR_SHAPE, "split_heads");
    FAILS(ct_split_heads(REAL(1, 2, 3), 2), CT_ERR_SHAPE, "split_heads");
    FAILS(ct_cat((ct_tensor *[]){scalar}, 1, 0), CT_ERR_SHAPE, "cat: a scalar has no dim");
    ck_assert_ptr_null(ct_cat(NULL, 1, 0)); /* without a tensor there is no context for the error */
    ck_assert_ptr_null(ct_cat((ct_tensor *[]){x}, 0, 0));
    ck_assert_ptr_null(ct_stack(NULL, 1, 0));
    ck_assert_ptr_null(ct_stack((ct_tensor *[]){x}, 0, 0));
    const int64_t half = (int64_t)(PTRDIFF_MAX / 8) + 1; /* a dim of bools without elements */
    ct_tensor *wide = NEW(CT_BOOL, 0, half),
              *all[8] = {wide, wide, wide, wide, wide, wide, wide, wide};
    FAILS(ct_cat(all, 8, 1), CT_ERR_MEMORY,
          sizeof(size_t) == 8 ? "cat: the size of dim 1 overflows"
                              : "cat: the size of (0, 2147483648) overflows");
    FAILS(ct_cat(all, 3, 1), CT_ERR_MEMORY, "overflows");
    ct_tensor *out[2] = {x, x};
    ck_assert(!ct_split(x, 1, 0, NULL, 2));
    FAILS(NULL, CT_ERR_ARGUMENT, "split: out is NULL");
    ck_assert(!ct_split(x, 0, 0, out, 2) && !out[0] && !out[1]);
    FAILS(NULL, CT_ERR_ARGUMENT, "split");
    FAILS(ct_transpose(x, 2, 0), CT_ERR_SHAPE, "transpose: no dim 2");
    FAILS(ct_transpose(x, 0, 2), CT_ERR_SHAPE, "transpose: no dim 2");
    FAILS(ct_index_add(x, 2, NEW(CT_I64, 1), x), CT_ERR_SHAPE, "index_add: no dim 2");
    FAILS(ct_index_select(x, 2, NEW(CT_I64, 1)), CT_ERR_SHAPE, "index_select: no dim 2");
    FAILS(ct_select(x, 2, 0), CT_ERR_SHAPE, "select: no dim 2");
}
END_TEST

START_TEST(numbers) {
    FAILS(ct_linspace(context, CT_F32, INFINITY, 1, 3), CT_ERR_ARGUMENT, "linspace");
    FAILS(ct_linspace(context, CT_F32, 0, NAN, 3), CT_ERR_ARGUMENT, "linspace");
    FAILS(ct_arange(context, (ct_dtype)9, 0, 3, 1), CT_ERR_DTYPE, "arange");
    FAILS(ct_arange(context, CT_F32, INFINITY, 3, 1), CT_ERR_ARGUMENT, "arange");
    FAILS(ct_arange(context, CT_F32, 0, NAN, 1), CT_ERR_ARGUMENT, "arange");
    FAILS(ct_arange(context, CT_F32, 0, 3, INFINITY), CT_ERR_ARGUMENT, "arange");
    FAILS(ct_rand(context, (ct_dtype)9, CT_SHAPE(2)), CT_ERR_DTYPE, "rand");
    FAILS(ct_rope(REAL(2, 4), NULL, (ct_rope_opts){.base = INFINITY}), CT_ERR_ARGUMENT, "rope");
    FAILS(ct_rope(REAL(2, 4), NULL, (ct_rope_opts){.base = -1}), CT_ERR_ARGUMENT, "rope");
    FAILS(ct_rope(REAL(2, 4), NULL, (ct_rope_opts){.base = NAN}), CT_ERR_ARGUMENT, "rope");
    ct_tensor *one = ct_randperm(context, 1);
    IS(one, 0);
    has_shape(ct_randperm(context, 0), CT_SHAPE(0));
}
END_TEST

START_TEST(sampling) {
    int64_t out[2];
    ct_tensor *x = REAL(2, 3);
#define SAMPLE(logits, out, n, ...)                                                                \
    (ct_sample(logits, (ct_sample_opts){__VA_ARGS__}, out, n) ? logits : NULL)
    FAILS(SAMPLE(x, NULL, 2), CT_ERR_ARGUMENT, "sample: out is NULL");
    FAILS(SAMPLE(x, out, 2, .temperature = INFINITY), CT_ERR_ARGUMENT, "the temperature is inf");
    FAILS(SAMPLE(x, out, 2, .temperature = NAN), CT_ERR_ARGUMENT, "the temperature is");
    FAILS(SAMPLE(x, out, 2, .top_k = -1), CT_ERR_ARGUMENT, "top_k is -1");
    FAILS(SAMPLE(x, out, 2, .top_p = 1.5), CT_ERR_ARGUMENT, "top_p is 1.5");
    FAILS(SAMPLE(x, out, 1), CT_ERR_SHAPE, "logits (2, 3) are not (n, V) for n = 1");
    FAILS(SAMPLE(REAL(2), out, 2), CT_ERR_SHAPE, "are not (n, V)");
    FAILS(SAMPLE(REAL(2, 0), out, 2), CT_ERR_SHAPE, "are not (n, V)");
    FAILS(SAMPLE(NEW(CT_I64, 2, 3), out, 2), CT_ERR_DTYPE, "not i64");
    ct_tensor *none = ct_full(context, CT_F32, CT_SHAPE(2, 3), -INFINITY);
    FAILS(SAMPLE(none, out, 2), CT_ERR_ARGUMENT, "every logit of row 0 is -inf");
    ct_data_f32(none)[1] = 0;
    FAILS(SAMPLE(none, out, 2), CT_ERR_ARGUMENT, "every logit of row 1 is -inf");
    ct_data_f32(none)[4] = NAN;
    FAILS(SAMPLE(none, out, 2), CT_ERR_ARGUMENT, "the logit at (1, 1) is NaN");
    ck_assert(SAMPLE(REAL(0, 3), NULL, 0) && SAMPLE(REAL(0, 0), NULL, 0));
    /* equal logits: the first index comes first */
    ct_tensor *equal = ct_zeros(context, CT_F64, CT_SHAPE(1, 5));
    for (int i = 0; i < 20; i++)
        ck_assert(SAMPLE(equal, out, 1, .temperature = 1, .top_k = 2) && out[0] < 2);
#undef SAMPLE
}
END_TEST

/* Copies into a tensor. */
START_TEST(into) {
#define INTO(to, from) (ct_copy_into(to, from) ? context : NULL)
#define LERP(to, from) (ct_lerp_into(to, from, 0.5) ? context : NULL)
    ct_tensor *x = REAL(2, 3), *other = REAL(3, 2);
    ct_context *strange = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ct_tensor *theirs = ct_ones(strange, CT_F32, CT_SHAPE(2, 3));
#define REFUSED(done, status, words) FAILS((done) ? x : NULL, status, words)
    REFUSED(INTO(x, NULL), CT_ERR_ARGUMENT, "copy_into: from is NULL");
    REFUSED(INTO(NULL, x), CT_ERR_ARGUMENT, "copy_into: to is NULL");
    ck_assert(!ct_copy_into(NULL, NULL)); /* no context to say so in */
    REFUSED(INTO(x, other), CT_ERR_SHAPE, "(3, 2) does not broadcast to (2, 3)");
    ck_assert(!ct_copy_into(x, theirs) && ct_error(context) && ct_error(strange));
    ct_error_clear(context), ct_error_clear(strange);
    ct_tensor *expanded = ct_expand(REAL(1, 3), CT_SHAPE(2, 3));
    REFUSED(INTO(expanded, x), CT_ERR_ARGUMENT, "elements of (2, 3) share memory");
    REFUSED(LERP(x, NULL), CT_ERR_ARGUMENT, "lerp_into");
    REFUSED(LERP(NEW(CT_I64, 2, 3), NEW(CT_I64, 2, 3)), CT_ERR_DTYPE, "lerp_into");
    REFUSED(LERP(x, NEW(CT_F64, 2, 3)), CT_ERR_DTYPE, "lerp_into");
    REFUSED(LERP(x, other), CT_ERR_SHAPE, "lerp_into");
    ck_assert(ct_copy_into(REAL(0, 3), REAL(0, 3)) && ct_copy_into(REAL(0, 3), REAL(1, 3)));
    ct_context_free(strange);
#undef REFUSED
#undef INTO
#undef LERP
}
END_TEST

int main(void) {
    return run_tests("ops_refused", open_context, close_context,
                     TESTS(TEST(attention), TEST(attention_without_a_width), TEST(products),
                           TEST(losses), TEST(shapes), TEST(numbers), TEST(sampling), TEST(into)));
}
