/* Code that the suites of ct_recompute share: results that are compared bit by bit. */
#ifndef RECOMPUTE_CHECK_H
#define RECOMPUTE_CHECK_H

#include "nn_check.h"

typedef struct {
    float value[1 << 16];
    int64_t count, lacking; /* lacking: the number of missing gradients */
} result;

static inline void result_clear(result *r) { memset(r, 0, sizeof *r); }

static inline void result_add(result *r, ct_tensor *t) {
    no_error();
    r->lacking += !t;
    if (!t) return;
    ck_assert(r->count + ct_numel(t) <= (int64_t)(sizeof r->value / sizeof *r->value));
    ck_assert(ct_to_f32(t, r->value + r->count, ct_numel(t)));
    r->count += ct_numel(t);
}

/* Adds the gradients of all parameters. */
static inline void result_add_grads(result *r, const ct_module *module) {
    for (ct_param p = {0}; ct_module_next(module, &p);) result_add(r, ct_grad(p.tensor));
}

static inline void result_add_rng(result *r, const ct_context *c) {
    r->value[r->count++] = (float)ct_rng_get(c).stream;
}

static inline void result_same(const result *want, const result *got) {
    ck_assert_int_eq(want->count, got->count);
    ck_assert_int_eq(want->lacking, got->lacking);
    for (int64_t i = 0; i < want->count; i++)
        ck_assert_msg(!memcmp(&want->value[i], &got->value[i], sizeof(float)),
                      "number %lld is %.9g, not %.9g", (long long)i, got->value[i], want->value[i]);
}

/* ---- functions ---- */

typedef struct {
    ct_tensor *w, *b; /* parameters that fn uses beside its inputs */
    int runs;         /* the runs so far */
    int odd_run;      /* the run that differs; 0: none */
    ct_tensor *kept;  /* a tensor of the last run that fn keeps */
} part;

/* dropout(silu(x W^T + b)) + x + x: it has parameters and random numbers, and uses its input three
 * times. */
static inline ct_tensor *block(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    part *p = arg;
    p->runs++;
    ct_tensor *h = ct_dropout(ct_silu(ct_linear(in[0], p->w, p->b)), 0.3, true);
    return ct_add(ct_add(h, in[0]), in[0]);
}

static inline ct_tensor *parameter(ct_shape shape) {
    return ct_set_requires_grad(ct_randn(context, CT_F32, shape), true);
}
static inline part part_of(int64_t width) {
    return (part){.w = parameter(CT_SHAPE(width, width)), .b = parameter(CT_SHAPE(width))};
}

/* exp(x) times a result from outside, to which arg points. */
static inline ct_tensor *times(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_mul(ct_exp(in[0]), ct_add(((part *)arg)->kept, ((part *)arg)->kept));
}

#endif
