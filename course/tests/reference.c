/* The judge's plain loops (reference.h) against the library's functions of the same names, which
 * PyTorch has checked: at random inputs, in shapes that broadcast and of other strides. Prints what
 * differs; the exit status is 0 if nothing does. */
#include "../reference.h"

#include <math.h>
#include <stdio.h>

static ct_context *context;
static int differences;

static double at(ct_tensor *x, int64_t i) {
    switch (ct_dtype_of(x)) {
    case CT_F64: return ct_data_f64(x)[i];
    case CT_I64: return (double)ct_data_i64(x)[i];
    case CT_BOOL: return ct_data_bool(x)[i];
    default: return NAN;
    }
}

static void compare(const char *what, ct_tensor *mine, ct_tensor *librarys) {
    bool same = mine && librarys && ct_ndim(mine) == ct_ndim(librarys);
    for (int d = 0; same && d < ct_ndim(mine); d++) same = ct_dim(mine, d) == ct_dim(librarys, d);
    if (same) mine = ct_contiguous(mine), librarys = ct_contiguous(librarys);
    for (int64_t i = 0; same && i < ct_numel(mine); i++) {
        const double a = at(mine, i), b = at(librarys, i);
        same = fabs(a - b) <= 1e-12 * fmax(1, fabs(b)) || a == b || (isnan(a) && isnan(b));
    }
    if (same) return;
    differences++;
    printf("%s differs: %s\n", what, ct_error_message(context));
    if (mine) ct_print(mine, stdout);
    if (librarys) ct_print(librarys, stdout);
    ct_error_clear(context);
}
#define SAME(name, ...)        compare(#name, ref_##name(__VA_ARGS__), ct_##name(__VA_ARGS__))
#define AS(name, mine, others) compare(name, mine, others)

static ct_tensor *draw(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

static void elements(ct_tensor *a, ct_tensor *b) {
    ct_tensor *mask = ct_gt(a, b), *zero = ct_full(context, CT_F64, CT_SCALAR, 0),
              *positive = ct_abs(a);
    SAME(add, a, b), SAME(sub, a, b), SAME(mul, a, b), SAME(div, a, b);
    SAME(maximum, a, b), SAME(minimum, a, b), SAME(lt, a, b), SAME(gt, a, b);
    SAME(eq, ct_floor(a), ct_floor(b));
    SAME(logical_and, mask, ct_gt(b, zero)), SAME(logical_or, mask, ct_gt(b, zero));
    SAME(logical_not, mask), SAME(where, mask, a, b);
    SAME(masked_fill, a, ct_gt(a, zero), -7);
    SAME(scale, a, -2.5), SAME(add_scalar, a, 3), SAME(neg, a), SAME(abs, a), SAME(exp, a);
    SAME(log, positive), SAME(sqrt, positive), SAME(sin, a), SAME(cos, a), SAME(tanh, a);
    SAME(sigmoid, a), SAME(relu, a), SAME(silu, a), SAME(clamp, a, -0.5, 0.7);
    AS("copy", ref_copy(a), a);
}

static void dims(ct_tensor *x) {
    const ct_shape sets[] = {CT_ALL, CT_DIMS(-1), CT_DIMS(0, 2), CT_DIMS(1)};
    for (int i = 0; i < 4; i++)
        for (int keep = 0; keep < 2; keep++) {
            SAME(sum, x, sets[i], keep), SAME(mean, x, sets[i], keep), SAME(max, x, sets[i], keep);
            SAME(any, ct_gt(x, ct_full(context, CT_F64, CT_SCALAR, 1.5)), sets[i], keep);
        }
    for (int dim = -1; dim < 2; dim++) {
        SAME(argmax, x, dim), SAME(cumsum, x, dim), SAME(logsumexp, x, dim), SAME(softmax, x, dim);
        SAME(log_softmax, x, dim);
        SAME(masked_softmax, x, ct_gt(x, ct_full(context, CT_F64, CT_SCALAR, 0.3)), dim);
        SAME(roll, x, 1, dim), SAME(pad, x, dim, 2, 1, -3);
        SAME(index_select, x, dim, ct_from_i64(context, CT_SHAPE(4), (int64_t[]){1, 0, 1, 1}));
        ct_tensor *parts[] = {x, ct_narrow(x, dim, 0, 1), ct_scale(x, 2)};
        SAME(cat, parts, 3, dim);
        parts[1] = ct_neg(x);
        SAME(stack, parts, 3, dim);
    }
}

static void products(void) {
    ct_tensor *a = draw(CT_SHAPE(3, 4)), *b = draw(CT_SHAPE(4, 5)), *c = draw(CT_SHAPE(2, 1, 3, 4)),
              *d = ct_transpose(draw(CT_SHAPE(3, 5, 4)), 1, 2), *bias = draw(CT_SHAPE(4)),
              *w = draw(CT_SHAPE(4, 8)), *x = draw(CT_SHAPE(2, 3, 8)),
              *heads = draw(CT_SHAPE(2, 4, 3, 2));
    SAME(matmul, a, b), SAME(matmul, c, b), SAME(matmul, c, d);
    SAME(linear, a, ct_transpose(b, 0, 1), NULL), SAME(linear, x, w, bias);
    SAME(causal_mask, context, 3, 5), SAME(split_heads, x, 4), SAME(combine_heads, heads);
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(2, 2), (int64_t[]){3, 0, 2, 2});
    AS("one_hot", ref_one_hot(ids, 5), ct_one_hot(ids, 5, CT_F64));
}

/* One head of the library's attention. */
static ct_tensor *librarys_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_tensor *mask,
                                     bool causal) {
    return ct_squeeze(ct_attention(ct_unsqueeze(q, 1), ct_unsqueeze(k, 1), ct_unsqueeze(v, 1),
                                   (ct_attention_opts){.key_mask = mask, .causal = causal})
                          .out,
                      1);
}

static void layers(void) {
    ct_tensor *x = draw(CT_SHAPE(3, 2, 6)), *w = draw(CT_SHAPE(6)), *b = draw(CT_SHAPE(6));
    SAME(layer_norm, x, w, b, 1e-3), SAME(rms_norm, x, w, 1e-3);
    ct_tensor *logits = draw(CT_SHAPE(4, 5)),
              *targets = ct_from_i64(context, CT_SHAPE(4), (int64_t[]){4, -100, 0, 2});
    AS("cross_entropy", ref_cross_entropy(logits, targets, -100),
       ct_cross_entropy(logits, targets, (ct_cross_entropy_opts){0}));
    ct_tensor *none = ct_full(context, CT_I64, CT_SHAPE(4), -100);
    AS("cross_entropy of nothing", ref_cross_entropy(logits, none, -100),
       ct_cross_entropy(logits, none, (ct_cross_entropy_opts){0}));
    for (int interleaved = 0; interleaved < 2; interleaved++)
        AS("rope", ref_rope(x, 5, 50, interleaved),
           ct_rope(x, ct_from_i64(context, CT_SHAPE(2), (int64_t[]){5, 6}),
                   (ct_rope_opts){.base = 50, .interleaved = interleaved}));
    ct_tensor *q = draw(CT_SHAPE(2, 4, 3)), *k = draw(CT_SHAPE(2, 5, 3)),
              *v = draw(CT_SHAPE(2, 5, 2)),
              *mask = ct_from_bool(
                  context, CT_SHAPE(2, 5),
                  (bool[]){false, true, true, false, true, false, false, false, false, false});
    for (int causal = 0; causal < 2; causal++) {
        AS("attention", ref_attention(q, k, v, NULL, causal),
           librarys_attention(q, k, v, NULL, causal));
        AS("attention with a mask", ref_attention(q, k, v, mask, causal),
           librarys_attention(q, k, v, mask, causal));
    }
}

int main(void) {
    context = ct_context_new((ct_context_opts){.seed = 3, .threads = 1});
    const ct_shape pairs[][2] = {{CT_SHAPE(2, 3), CT_SHAPE(2, 3)},
                                 {CT_SHAPE(2, 3, 4), CT_SHAPE(3, 1)},
                                 {CT_SHAPE(3, 1), CT_SHAPE(1, 4)},
                                 {CT_SCALAR, CT_SHAPE(5)},
                                 {CT_SHAPE(0, 3), CT_SHAPE(3)}};
    for (int i = 0; i < 5; i++) elements(draw(pairs[i][0]), draw(pairs[i][1]));
    elements(ct_transpose(draw(CT_SHAPE(4, 3)), 0, 1), draw(CT_SHAPE(3, 4)));
    dims(draw(CT_SHAPE(2, 3, 4))), dims(ct_permute(draw(CT_SHAPE(4, 2, 3)), CT_DIMS(1, 2, 0)));
    products(), layers();
    if (!ref_add(NULL, draw(CT_SHAPE(1))) && !ref_add(draw(CT_SHAPE(2)), draw(CT_SHAPE(3))) &&
        ct_error(context) == CT_ERR_SHAPE)
        ct_error_clear(context);
    if (ct_error(context)) printf("an error is left: %s\n", ct_error_message(context));
    const bool right = !differences && !ct_error(context);
    ct_context_free(context);
    return right ? 0 : 1;
}
