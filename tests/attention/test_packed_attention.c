/* ct_packed_attention is ct_attention of its thirds: the same bits, forward and backward, however x
 * lies. */
#include "tests/support/op_check.h"

typedef struct {
    int64_t b, t, heads, d;
    ct_dtype dtype;
    bool causal, keys, weights, strided;
    int mask; /* 0: none, 1: bool, 2: float, with a gradient */
    double dropout;
} kind;

static const kind kinds[] = {
    {2, 1, 3, 4, CT_F64, .mask = 0},
    {2, 2, 1, 5, CT_F32, .causal = true},
    {2, 3, 2, 4, CT_F32, .strided = true},
    {3, 33, 2, 16, CT_F64, .causal = true, .keys = true},
    {1, 40, 3, 7, CT_F32, .mask = 1},
    {2, 17, 2, 8, CT_F64, .mask = 2, .keys = true, .strided = true},
    {1, 700, 2, 8, CT_F32, .causal = true},
    {1, 600, 1, 33, CT_F64, .mask = 2, .dropout = 0.25},
    {2, 9, 2, 6, CT_F64, .weights = true},
    {2, 50, 4, 16, CT_F32, .causal = true, .dropout = 0.5, .strided = true},
    {2, 12, 3, 5, CT_F64, .weights = true, .mask = 2, .keys = true, .dropout = 0.1},
    {2, 140, 2, 5, CT_F64, .weights = true, .causal = true, .strided = true},
    {1, 300, 3, 4, CT_F32, .weights = true, .mask = 2, .keys = true},
};

static ct_tensor *make(kind a, ct_shape shape) {
    return ct_set_requires_grad(ct_randn(context, a.dtype, shape), true);
}

static ct_attention_out attend(kind a, bool packed, ct_tensor *x, ct_attention_opts o) {
    const int64_t e = a.heads * a.d;
    if (a.strided) x = ct_transpose(x, 0, 2); /* (3E, T, B) -> (B, T, 3E) */
    ct_seed(context, 5);
    if (packed) return ct_packed_attention(x, a.heads, o);
    ct_tensor *part[3];
    for (int i = 0; i < 3; i++) part[i] = ct_split_heads(ct_narrow(x, 2, i * e, e), a.heads);
    ct_attention_out y = ct_attention(part[0], part[1], part[2], o);
    y.out = ct_combine_heads(y.out);
    return y;
}

static void same_bits(ct_tensor *x, ct_tensor *y, const char *what) {
    ck_assert_msg(x && y, "%s: %s", what, ct_error_message(context));
    has_shape(x, ct_shape_of(y));
    x = ct_contiguous(x), y = ct_contiguous(y);
    const bool single = ct_dtype_of(x) == CT_F32;
    const void *a = single ? (void *)ct_data_f32(x) : (void *)ct_data_f64(x),
               *b = single ? (void *)ct_data_f32(y) : (void *)ct_data_f64(y);
    ck_assert_msg(!memcmp(a, b, (size_t)ct_numel(x) * (single ? 4 : 8)), "%s differs", what);
}

START_TEST(is_attention_of_its_thirds) {
    const kind a = kinds[_i];
    const int64_t e = a.heads * a.d;
    ct_tensor *x = make(a, a.strided ? CT_SHAPE(3 * e, a.t, a.b) : CT_SHAPE(a.b, a.t, 3 * e)),
              *grad[2], *mask_grad[2] = {0};
    ct_attention_opts o = {.causal = a.causal, .dropout = a.dropout, .need_weights = a.weights};
    if (a.mask) o.mask = make(a, CT_SHAPE(a.heads, a.t, a.t));
    if (a.mask == 1) o.mask = ct_gt(ct_detach(o.mask), of(a.dtype, CT_SCALAR));
    if (a.keys) {
        o.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(a.b, a.t));
        ct_data_bool(o.key_mask)[a.t - 1] = false;
    }
    ct_attention_out y[2];
    for (int packed = 0; packed < 2; packed++) {
        ct_zero_grad(x);
        if (a.mask == 2) ct_zero_grad(o.mask);
        y[packed] = attend(a, packed, x, o);
        ct_tensor *root[] = {y[packed].out, y[packed].weights}, *g[2];
        for (int i = 0; i < 1 + a.weights; i++)
            g[i] = ct_cast(ct_randn(context, CT_F32, ct_shape_of(root[i])), a.dtype);
        ck_assert_msg(ct_backward_with(root, g, 1 + a.weights, (ct_backward_opts){0}), "%s",
                      ct_error_message(context));
        grad[packed] = ct_add_scalar(ct_grad(x), 0);
        if (a.mask == 2) mask_grad[packed] = ct_add_scalar(ct_grad(o.mask), 0);
    }
    has_shape(y[1].out, CT_SHAPE(a.b, a.t, e));
    same_bits(y[0].out, y[1].out, "out");
    same_bits(grad[0], grad[1], "the gradient");
    if (a.mask == 2) same_bits(mask_grad[0], mask_grad[1], "the mask's gradient");
    ck_assert(a.weights ? y[1].weights != NULL : y[1].weights == NULL);
    if (a.weights) same_bits(y[0].weights, y[1].weights, "the weights");
}
END_TEST

/* Without x's gradient there is only the mask's. */
START_TEST(a_mask_alone) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 4, 12)),
              *mask = make((kind){.dtype = CT_F64}, CT_SHAPE(4, 4));
    backward(ct_packed_attention(x, 2, (ct_attention_opts){.mask = mask}).out);
    ck_assert_ptr_null(ct_grad(x));
    ck_assert_ptr_nonnull(ct_grad(mask));
}
END_TEST

START_TEST(refused) {
    const ct_attention_opts plain = {0};
    FAILS(ct_packed_attention(of(CT_F32, CT_SHAPE(2, 5)), 1, plain).out, CT_ERR_SHAPE,
          "packed_attention: expected (B, T, 3E) with E");
    FAILS(ct_packed_attention(of(CT_F32, CT_SHAPE(2, 5, 16)), 2, plain).out, CT_ERR_SHAPE,
          "divisible by 2 heads, got (2, 5, 16)");
    FAILS(ct_packed_attention(of(CT_F32, CT_SHAPE(2, 5, 15)), 2, plain).out, CT_ERR_SHAPE,
          "by 2 heads, got (2, 5, 15)");
    FAILS(ct_packed_attention(of(CT_F32, CT_SHAPE(2, 5, 12)), 0, plain).out, CT_ERR_SHAPE,
          "by 0 heads");
    FAILS(ct_packed_attention(of(CT_I64, CT_SHAPE(2, 5, 12)), 2, plain).out, CT_ERR_DTYPE, "i64");
    FAILS(ct_packed_attention(of(CT_F32, CT_SHAPE(2, 5, 12)), 2,
                              (ct_attention_opts){.mask = of(CT_BOOL, CT_SHAPE(5, 4))})
              .out,
          CT_ERR_SHAPE, "the mask is (5, 4)");
    FAILS(ct_packed_attention(NULL, 2, (ct_attention_opts){.key_mask = of(CT_BOOL, CT_SHAPE(2, 5))})
              .out,
          CT_ERR_ARGUMENT, "x is NULL");
    ck_assert_ptr_null(ct_packed_attention(NULL, 2, plain).out);
}
END_TEST

int main(void) {
    return run_tests("packed attention", open_context, close_context,
                     TESTS(LOOP(is_attention_of_its_thirds, (int)(sizeof kinds / sizeof *kinds)),
                           TEST(a_mask_alone), TEST(refused)));
}
