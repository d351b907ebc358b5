/* The properties that attention must have if its products round their operands. This file is
 * included by test_attention_rounded.c and test_amx.c. */
#ifndef ATTENTION_ROUNDED_CHECK_H
#define ATTENTION_ROUNDED_CHECK_H

#include "tests/gemm/rounding_isa.h"

typedef struct {
    int64_t b, h, kv, t, s, d, dv;
    bool causal, key_mask, packed, weights, mean;
    char mask; /* 'b' bool, 'f' f32 with a gradient */
    double dropout;
    ct_window window;
    int64_t segment; /* the length of a segment, of three in turns; 0: no segments */
    bool lengths, lower_right;
    double softcap;
    bool exact; /* too small to be rounded */
} attention_case;

static const attention_case attention_cases[] = {
    {2, 2, 2, 70, 70, 32, 32, .causal = true},
    {1, 3, 3, 33, 47, 17, 40, .causal = false},
    {1, 4, 2, 130, 150, 64, 64, .key_mask = true},
    {1, 2, 1, 300, 300, 64, 48, .causal = true, .dropout = 0.1},
    {2, 2, 2, 40, 90, 24, 31, .mask = 'b'},
    {1, 2, 2, 90, 65, 33, 16, .mask = 'f', .causal = true},
    {2, 4, 4, 129, 129, 16, 16, .packed = true, .causal = true},
    {1, 2, 2, 150, 150, 40, 40, .weights = true, .causal = true},
    {1, 4, 2, 200, 140, 32, 32, .weights = true, .mean = true, .key_mask = true},
    {1, 1, 1, 260, 1100, 64, 64, .causal = false}, /* several ranges of keys */
    {1, 1, 1, 2, 100, 32, 32, .exact = true},
    {1, 1, 1, 15, 100, 32, 32, .exact = true},
    {1, 1, 1, 100, 100, 8, 32, .exact = true},
    {1, 2, 1, 300, 300, 64, 48, .causal = true, .window = {50, 0}},
    {2, 2, 2, 140, 140, 32, 32, .packed = true, .segment = 37, .softcap = 2},
    {2, 2, 1, 90, 260, 32, 40, .lengths = true, .lower_right = true, .window = {70, 9}},
    {1, 2, 2, 150, 150, 40, 40, .weights = true, .segment = 37, .window = {33, 40}},
    {1, 2, 2, 290, 290, 40, 40, .segment = 106},
    {1, 2, 1, 190, 190, 32, 64, .segment = 75, .window = {0, 7}},
};

enum { RESULTS = 6 }; /* out, dq, dk, dv, dmask, weights */
typedef struct {
    float *x[RESULTS];
    int64_t n[RESULTS];
} results;

static void keep_result(results *r, int at, ct_tensor *x) {
    if (!x) return;
    x = ct_contiguous(x);
    r->n[at] = ct_numel(x);
    r->x[at] = malloc((size_t)r->n[at] * sizeof(float));
    memcpy(r->x[at], ct_data_f32(x), (size_t)r->n[at] * sizeof(float));
}

static void results_free(results *r) {
    for (int i = 0; i < RESULTS; i++) free(r->x[i]);
}

static ct_tensor *leaf(ct_context *c, ct_shape shape) {
    return ct_set_requires_grad(ct_randn(c, CT_F32, shape), true);
}

/* Computes attention; the inputs depend only on the case. `backward` is the precision that is set
 * between forward and backward. */
static results attend(const cti_isa *isa, int threads, ct_matmul_precision forward,
                      ct_matmul_precision backward, const attention_case *p) {
    results r = {0};
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = threads});
    c->isa = isa;
    ck_assert(ct_set_matmul(c, forward));
    ct_tensor *q = leaf(c, p->packed ? CT_SHAPE(p->b, p->t, 3 * p->h * p->d)
                                     : CT_SHAPE(p->b, p->h, p->t, p->d));
    ct_tensor *k = p->packed ? NULL : leaf(c, CT_SHAPE(p->b, p->kv, p->s, p->d));
    ct_tensor *v = p->packed ? NULL : leaf(c, CT_SHAPE(p->b, p->kv, p->s, p->dv));
    ct_tensor *const leaf_k = k, *const leaf_v = v;
    ct_attention_opts opts = {.causal = p->causal,
                              .dropout = p->dropout,
                              .need_weights = p->weights,
                              .mean_weights = p->mean};
    ct_tensor *noise_of_mask = ct_randn(c, CT_F32, CT_SHAPE(p->h, p->t, p->s));
    if (p->mask == 'f') {
        opts.mask = ct_set_requires_grad(noise_of_mask, true);
    } else if (p->mask == 'b') {
        opts.mask = ct_gt(noise_of_mask, ct_full(c, CT_F32, CT_SCALAR, -0.5));
    }
    if (p->key_mask) {
        opts.key_mask =
            ct_gt(ct_randn(c, CT_F32, CT_SHAPE(p->b, p->s)), ct_full(c, CT_F32, CT_SCALAR, -0.7));
        ct_tensor *hidden = ct_logical_not(opts.key_mask); /* NaN at keys that no query sees */
        ct_tensor *nan = ct_full(c, CT_F32, CT_SCALAR, NAN);
        hidden = ct_unsqueeze(ct_unsqueeze(hidden, 1), -1);
        k = ct_where(hidden, nan, k);
        v = ct_where(hidden, nan, v);
    }
    opts.window = p->window, opts.lower_right = p->lower_right, opts.softcap = p->softcap;
    if (p->segment) opts.segments = ct_zeros(c, CT_I64, CT_SHAPE(p->b, p->t));
    for (int64_t i = 0; i < p->b * p->t && p->segment; i++)
        ct_data_i64(opts.segments)[i] = i / p->segment % 3;
    if (p->lengths) opts.lengths = ct_zeros(c, CT_I64, CT_SHAPE(p->b));
    for (int64_t i = 0; i < p->b && p->lengths; i++) ct_data_i64(opts.lengths)[i] = p->s - 60 * i;
    const ct_attention_out y =
        p->packed ? ct_packed_attention(q, p->h, opts) : ct_attention(q, k, v, opts);
    ck_assert_msg(y.out != NULL, "%s", ct_error_message(c));
    ct_tensor *loss = ct_sum(ct_mul(y.out, ct_randn(c, CT_F32, ct_shape_of(y.out))), CT_ALL, false);
    ck_assert(ct_set_matmul(c, backward));
    ck_assert(ct_backward(loss));
    keep_result(&r, 0, y.out);
    keep_result(&r, 1, ct_grad(q));
    if (leaf_k) keep_result(&r, 2, ct_grad(leaf_k));
    if (leaf_v) keep_result(&r, 3, ct_grad(leaf_v));
    if (p->mask == 'f') keep_result(&r, 4, ct_grad(opts.mask));
    keep_result(&r, 5, y.weights);
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    ct_context_free(c);
    return r;
}

static bool same_bits(const results *x, const results *y) {
    bool same = true;
    for (int i = 0; i < RESULTS; i++)
        same &= x->n[i] == y->n[i] &&
                (!x->n[i] || !memcmp(x->x[i], y->x[i], (size_t)x->n[i] * sizeof(float)));
    return same;
}

/* The distance of y from x, relative to the length of x. */
static double distance(int64_t n, const float *x, const float *y) {
    double apart = 0, length = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        length += (double)x[i] * (double)x[i];
    }
    return sqrt(apart / length);
}

/* A rounded operand has a relative error of at most 2^-8, and mostly less. In a sum the errors
 * partly cancel. */
static void check_near_f32(const rounding_isa *isa) {
    for (int i = 0; i < COUNT(attention_cases); i++) {
        const attention_case *p = &attention_cases[i];
        results f32 = attend(&isa->isa, 1, CT_MATMUL_F32, CT_MATMUL_F32, p);
        results bf16 = attend(&isa->isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, p);
        ck_assert_msg(same_bits(&f32, &bf16) == p->exact, "%s: case %d is%s rounded", isa->name, i,
                      p->exact ? "" : " not");
        for (int x = 0; x < RESULTS && !p->exact; x++) {
            if (!f32.n[x]) continue;
            const double apart = distance(f32.n[x], f32.x[x], bf16.x[x]);
            ck_assert_msg(apart < 0x1p-7 && apart > 0x1p-12, "%s: case %d: result %d is %g off",
                          isa->name, i, x, apart);
        }
        results_free(&f32);
        results_free(&bf16);
    }
}

static void check_attention_threads(const rounding_isa *isa) {
    for (int i = 0; i < COUNT(attention_cases); i++) {
        results first = attend(&isa->isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, &attention_cases[i]);
        for (int threads = 2; threads <= 16; threads += 7) {
            results r =
                attend(&isa->isa, threads, CT_MATMUL_BF16, CT_MATMUL_BF16, &attention_cases[i]);
            ck_assert_msg(same_bits(&first, &r), "%s: %d threads change case %d", isa->name,
                          threads, i);
            results_free(&r);
        }
        results_free(&first);
    }
}

#endif
