/* Attention with keys and values of bf16 beside queries of f32: the bits of the same attention with
 * the rounded keys and values in f32, forward and backward, and refusals. */
#include "attention_check.h"

/* Compares both in every result: out, weights, and the gradients of q and of the mask. */
static void same_as_rounded(const problem *p, how w) {
    char text[256];
    describe(p, text);
    w.dtype = CT_F32, w.keys = KEYS_ROUNDED;
    const result want = solve(p, w);
    w.keys = KEYS_BF16;
    const result got = solve(p, w);
    for (int i = 0; i < RESULTS; i++) {
        ck_assert_int_eq(got.count[i], want.count[i]);
        HOLDS(!memcmp(got.value[i], want.value[i], (size_t)got.count[i] * sizeof(double)),
              "%s differs: %s", names[i], text);
    }
    ck_assert(want.count[DQ] > 0 && want.count[DK] == 0 && want.count[DV] == 0);
    forget(want), forget(got);
}

START_TEST(has_the_bits_of_f32) {
    for (int k = 0; k < 12; k++) {
        const int seed = _i * 12 + k;
        const problem p =
            seed % 2 ? random_problem((uint64_t)seed) : limited_problem((uint64_t)seed, false);
        same_as_rounded(&p, (how){.isa = isa_of(k), .weights = seed % 5 % 3});
    }
}
END_TEST

START_TEST(one_or_two_queries) {
    for (int k = 0; k < 12; k++) {
        problem p = limited_problem(7000 + (uint64_t)(_i * 12 + k), k % 3 == 0);
        p.segments = 0;
        p.t = 1 + k % 2;
        if (k == 3) p.s = 1500; /* several K blocks of a product */
        const bool weights = k % 4 == 3;
        /* These have the weights in memory, and read a copy of k and v in f32 that is dense. */
        if (weights) p.layout[1] = p.layout[2] = 0;
        for (int isa = 0; isa < 8; isa++)
            same_as_rounded(&p,
                            (how){.isa = isa_of(isa), .threads = 1 + k % 3, .weights = weights});
    }
}
END_TEST

/* Several blocks of keys, on several threads; from 64 on products round if they may. */
START_TEST(several_blocks) {
    problem p = limited_problem(5000 + (uint64_t)_i, true);
    same_as_rounded(&p, (how){.isa = isa_of(_i), .weights = _i % 3});
    p.d = p.dv = 64;
    same_as_rounded(&p, (how){.isa = isa_of(_i), .matmul = CT_MATMUL_BF16, .weights = _i % 3});
}
END_TEST

START_TEST(any_number_of_threads) {
    problem p = limited_problem(9000 + (uint64_t)_i, true);
    if (_i % 3 == 0) p.t = 1, p.segments = 0;
    how w = {CT_F32, .keys = KEYS_BF16, .weights = _i % 2, .threads = 1};
    const result one = solve(&p, w);
    for (int k = 2; k < 5; k++) {
        w.threads = k;
        const result more = solve(&p, w);
        same_bits(&p, more, one, "threads");
        forget(more);
    }
    forget(one);
}
END_TEST

/* ---- hidden numbers ---- */

enum { HIDDEN = 3, KEYS = 150 };
static double hidden_number;

static void change_hidden(const problem *p, double *q, double *k, double *v) {
    (void)q;
    for (int64_t i = 0; i < p->b * p->kv; i++)
        for (int64_t e = 0; e < p->d; e++)
            k[(i * p->s + HIDDEN) * p->d + e] = v[(i * p->s + HIDDEN) * p->d + e] = hidden_number;
}

/* A key that a key mask, a mask of pairs or a length hides may be NaN or infinite. */
START_TEST(hidden_numbers_reach_nothing) {
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    bool keys[2 * KEYS], pairs[40 * KEYS];
    for (int i = 0; i < 2 * KEYS; i++) keys[i] = i % KEYS != HIDDEN;
    for (int i = 0; i < 40 * KEYS; i++) pairs[i] = i % KEYS != HIDDEN;
    for (int i = 0; i < 9; i++) {
        problem p = {.b = 2, .h = 4, .kv = 2, .s = KEYS, .d = 7, .dv = 7, .seed = (uint64_t)_i};
        how w = {.change = change_hidden, .key_mask = keys, .isa = isa_of(_i)};
        const int64_t lengths[] = {HIDDEN, HIDDEN};
        p.t = (int64_t[]){1, 2, 40}[i / 3];
        if (i % 3 == 0) p.keys = true;
        if (i % 3 == 1) p.mask = 1, p.mask_is_bool = true, w.mask = pairs;
        if (i % 3 == 2) p.lengths = true, w.lengths = lengths;
        hidden_number = numbers[_i % 3];
        same_as_rounded(&p, w);
        w.dtype = CT_F32, w.keys = KEYS_BF16;
        const result r = solve(&p, w);
        for (int64_t k = 0; k < r.count[OUT]; k++)
            HOLDS(isfinite(r.value[OUT][k]), "case %d: out[%d] is %g", i, (int)k, r.value[OUT][k]);
        forget(r);
    }
}
END_TEST

/* ---- refusals ---- */

static ct_tensor *some(ct_context *c, ct_dtype dtype) {
    return ct_cast(ct_randn(c, CT_F32, CT_SHAPE(1, 2, 3, 4)), dtype);
}

START_TEST(dtypes_are_checked) {
    static const ct_dtype wrong[][3] = {{CT_F64, CT_BF16, CT_BF16}, {CT_BF16, CT_BF16, CT_BF16},
                                        {CT_F32, CT_F32, CT_BF16},  {CT_F32, CT_BF16, CT_F32},
                                        {CT_BF16, CT_F32, CT_F32},  {CT_F32, CT_F64, CT_F64},
                                        {CT_F32, CT_BOOL, CT_BOOL}};
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1});
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int weights = 0; weights < 2; weights++) {
            ct_tensor *q = some(c, wrong[i][0]), *k = some(c, wrong[i][1]),
                      *v = some(c, wrong[i][2]);
            const ct_attention_opts o = {.need_weights = weights};
            refused_in(c, ct_attention(q, k, v, o).out, "attention", CT_ERR_DTYPE, "attention: q",
                       "bf16 beside a q of f32");
        }
    ct_tensor *x = ct_cast(ct_randn(c, CT_F32, CT_SHAPE(1, 2, 12)), CT_BF16);
    refused_in(c, ct_packed_attention(x, 2, (ct_attention_opts){0}).out, "packed_attention",
               CT_ERR_DTYPE, "packed_attention", "bf16");
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_cases(
        "attention, bf16",
        CASES({.name = "all",
               .timeout = 120,
               .tests = TESTS(LOOP(has_the_bits_of_f32, 12), LOOP(one_or_two_queries, 6),
                              LOOP(several_blocks, 12), LOOP(any_number_of_threads, 9),
                              LOOP(hidden_numbers_reach_nothing, 9), TEST(dtypes_are_checked))}));
}
