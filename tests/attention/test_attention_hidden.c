/* Attention in blocks, with hidden keys and with queries that may attend to no key. */
#include "attention_check.h"

static double junk; /* the number in hidden keys and values; 0: several kinds of numbers */

static void change_hidden(const problem *p, double *q, double *k, double *v) {
    (void)q;
    const double all[] = {NAN, INFINITY, -INFINITY, 1e30, -3};
    for (int64_t i = 0; i < p->b * p->kv; i++)
        for (int64_t j = p->s / 2; j < p->s; j++) {
            for (int64_t e = 0; e < p->d; e++)
                k[(i * p->s + j) * p->d + e] =
                    junk != 0 ? junk * (double)(e % 3 + 1) : all[(j + e) % 5];
            for (int64_t e = 0; e < p->dv; e++)
                v[(i * p->s + j) * p->dv + e] = junk != 0 ? -junk : all[(i + j + e) % 5];
        }
}

/* The second half of the keys is hidden from all, by each kind of mask, with weights or without.
 * No bit of any result depends on their values. */
START_TEST(hidden_is_untouched) {
    const int kind = _i % 4, size = _i / 8 % 4; /* key mask, bool, float, causal */
    const int weights = _i / 4 % 3;
    problem p = {.b = 2,
                 .h = 4,
                 .kv = 2,
                 .t = (int64_t[]){2, 40, 130, 20}[size],
                 .s = (int64_t[]){6, 70, 300, 1200}[size],
                 .d = 7,
                 .dv = 5,
                 .seed = (uint64_t)_i};
    if (kind == 3) p.t = p.s / 2;
    p.causal = kind == 3, p.keys = kind == 0, p.mask_is_bool = kind == 1;
    /* those that end with the keys */
    if (kind == 1 || kind == 2) p.mask = (int[]){8, 1, 2, 3, 4, 5, 9}[_i / 8 % 7];
    const int64_t most = p.b * p.h * p.t * p.s;
    bool *flags = malloc((size_t)most);
    double *bias = malloc((size_t)most * sizeof *bias);
    for (int64_t i = 0; i < most; i++)
        bias[i] = (flags[i] = i % p.s < p.s / 2) ? 0.25 * (double)(i % 3) : -INFINITY;
    how w = {_i / 8 % 2 ? CT_F32 : CT_F64, .weights = weights, .key_mask = flags,
             .mask = kind == 1 ? (void *)flags : bias, .isa = isa_of(_i)};
    const result want = solve(&p, w);
    for (int64_t i = 0; i < p.b * p.kv * p.s; i++) {
        if (i % p.s < p.s / 2) continue;
        for (int64_t e = 0; e < p.d; e++) HOLDS(want.value[DK][i * p.d + e] == 0, "dk");
        for (int64_t e = 0; e < p.dv; e++) HOLDS(want.value[DV][i * p.dv + e] == 0, "dv");
    }
    w.change = change_hidden;
    for (int k = 0; k < 3; k++) {
        junk = (double[]){1e4, -2e30, 0}[k];
        if (junk == 0 && kind > 0) continue; /* only a key mask hides NaN */
        const result got = solve(&p, w);
        same_bits(&p, got, want, "hidden");
        forget(got);
    }
    forget(want);
    free(flags), free(bias);
}
END_TEST

START_TEST(the_future_is_untouched) {
    junk = 50;
    const problem p = {
        .b = 1, .h = 2, .kv = 2, .t = 700, .s = 700, .d = 8, .dv = 8, .causal = true, .seed = 3};
    const result want = solve(&p, (how){.dtype = CT_F32}),
                 got = solve(&p, (how){.dtype = CT_F32, .change = change_hidden});
    for (int64_t i = 0; i < p.h * p.t; i++) {
        if (i % p.t >= p.s / 2) continue;
        ck_assert_mem_eq(got.value[OUT] + i * 8, want.value[OUT] + i * 8, 8 * sizeof(double));
        ck_assert_mem_eq(got.value[DQ] + i * 8, want.value[DQ] + i * 8, 8 * sizeof(double));
    }
    forget(want);
    forget(got);
}
END_TEST

START_TEST(a_query_that_sees_nothing) {
    problem p = {.b = 2,
                 .h = 2,
                 .kv = 1,
                 .t = 37,
                 .s = 500,
                 .d = 6,
                 .dv = 6,
                 .mask = 6,
                 .mask_is_bool = _i % 2,
                 .seed = 9,
                 .causal = _i > 1};
    bool flags[37];
    double bias[37];
    for (int i = 0; i < 37; i++) bias[i] = (flags[i] = i % 3 != 1) ? 0.5 : -INFINITY;
    for (int weights = 0; weights < 3; weights++) {
        const result r = solve(
            &p, (how){CT_F32, .weights = weights, .mask = p.mask_is_bool ? (void *)flags : bias});
        for (int64_t i = 0; i < p.b * p.h * p.t; i++)
            for (int e = 0; e < 6; e++) {
                const bool sees = flags[i % 37];
                HOLDS((r.value[OUT][i * 6 + e] != 0) == sees, "out");
                HOLDS(sees ? isfinite(r.value[DQ][i * 6 + e]) : r.value[DQ][i * 6 + e] == 0, "dq");
            }
        for (int64_t i = 0; i < r.count[WEIGHTS]; i++)
            HOLDS(flags[i / p.s % 37] ? isfinite(r.value[WEIGHTS][i]) : r.value[WEIGHTS][i] == 0,
                  "weights");
        for (int64_t i = 0; i < r.count[DK]; i++)
            HOLDS(isfinite(r.value[DK][i]) && isfinite(r.value[DV][i]), "dk, dv");
        for (int64_t i = 0; i < r.count[DMASK]; i++)
            ck_assert(flags[i] ? fabs(r.value[DMASK][i]) < 1e-4 : r.value[DMASK][i] == 0);
        forget(r);
    }
}
END_TEST

/* A key that the key mask hides, and a query that sees nothing, have gradients of +0, also with a
 * negative scale. 140 is a multiple of no block's length, so some blocks have visible keys too.
 * There are so many heads that backward divides none of them. */
START_TEST(zeros_are_plain) {
    enum { T = 300, HIDDEN = 140 };
    bool seen[4 * T];
    /* one batch sees all */
    for (int i = 0; i < 4 * T; i++) seen[i] = i / T == 2 || i % T >= HIDDEN;
    for (int k = 0; k < 4; k++) {
        const problem p = {.b = 4,
                           .h = 4,
                           .kv = 2,
                           .t = T,
                           .s = T,
                           .d = 8,
                           .dv = 8,
                           .causal = k % 2,
                           .keys = 1,
                           .scale = -0.4,
                           .seed = 21,
                           .layout = {k / 2, k / 2, k / 2}};
        for (const char *const *isa = (const char *const[]){"scalar", NULL, ""}; !*isa || **isa;
             isa++) {
            const result r = solve(&p, (how){CT_F32, .isa = *isa, .key_mask = seen});
            for (int64_t i = 0; i < r.count[DK]; i++) {
                const int64_t key = k / 2 ? i / (8 * 2) % T : i / 8 % T, b = i / (T * 2 * 8);
                if (key >= HIDDEN || b == 2) continue;
                HOLDS(r.value[DK][i] == 0 && !signbit(r.value[DK][i]), "dk");
                HOLDS(r.value[DV][i] == 0 && !signbit(r.value[DV][i]), "dv");
            }
            for (int64_t i = 0; i < r.count[DQ]; i++) {
                const int64_t query = k / 2 ? i / (8 * 4) % T : i / 8 % T, b = i / (T * 4 * 8);
                if (p.causal && query < HIDDEN && b != 2)
                    HOLDS(r.value[DQ][i] == 0 && !signbit(r.value[DQ][i]), "dq");
            }
            forget(r);
        }
    }
}
END_TEST

/* A gradient to which one pair of ranges contributes is written and not added to zeros, because 0 +
 * -0 would lose the sign of -0. */
START_TEST(written_not_added) {
    const ct_shape shape = CT_SHAPE(2, 4, 20, 8);
    ct_tensor *x[3], *y, *g = ct_zeros(context, CT_F32, shape);
    for (int i = 0; i < 3; i++) x[i] = ct_set_requires_grad(ct_randn(context, CT_F32, shape), true);
    y = ct_attention(x[0], x[1], x[2], (ct_attention_opts){.scale = -0.5}).out;
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    for (int i = 0; i < 2; i++)
        for (int64_t e = 0; e < ct_numel(x[i]); e++) {
            const float zero = ct_data_f32(ct_grad(x[i]))[e];
            HOLDS(zero == 0 && signbit(zero), "%g", zero);
        }
}
END_TEST

START_TEST(nothing_at_all) {
    static const int64_t sizes[][4] = {{2, 2, 3, 0}, {2, 2, 0, 3}, {2, 2, 0, 0},
                                       {0, 2, 3, 4}, {2, 0, 3, 4}, {2, 0, 140, 130}};
    for (int k = 0; k < 6; k++)
        for (int n = 0; n < 9; n++) {
            const int mask = n % 3, weights = n / 3;
            const problem p = {.b = sizes[k][0],
                               .h = sizes[k][1],
                               .kv = sizes[k][1],
                               .t = sizes[k][2],
                               .s = sizes[k][3],
                               .d = 4,
                               .dv = 5,
                               .mask = mask ? 2 : 0,
                               .mask_is_bool = mask == 2,
                               .keys = mask == 1,
                               .causal = mask == 2};
            const result r = solve(&p, (how){.dtype = CT_F64, .weights = weights});
            for (int i = 0; i < RESULTS; i++)
                for (int64_t at = 0; at < r.count[i]; at++) {
                    /* the mean of no head */
                    if (i == WEIGHTS && weights == 2 && p.h == 0)
                        ck_assert_double_nan(r.value[i][at]);
                    else ck_assert_double_eq(r.value[i][at], 0);
                }
            ck_assert_int_eq(r.count[OUT], p.b * p.h * p.t * 5);
            forget(r);
        }
    /* d and d_v are 0: every score is 0 */
    const problem none = {.b = 2, .h = 2, .kv = 2, .t = 3, .s = 4, .seed = 2};
    const problem more = {.b = 2, .h = 2, .kv = 2, .t = 130, .s = 140, .seed = 2};
    for (int weights = 0; weights < 3; weights++) {
        forget(solve(&none, (how){.dtype = CT_F32, .weights = weights}));
        const result r = solve(&more, (how){.dtype = CT_F32, .weights = weights});
        for (int64_t i = 0; i < r.count[WEIGHTS]; i++)
            HOLDS(fabs(r.value[WEIGHTS][i] * 140 - 1) < 1e-6, "%g", r.value[WEIGHTS][i]);
        forget(r);
    }
}
END_TEST

int main(void) {
    return run_cases(
        "what attention does not see",
        CASES({.name = "hidden, whatever the threads",
               .tags = "one-thread",
               .before = open_context,
               .after = close_context,
               .tests = TESTS(LOOP(hidden_is_untouched, 72))},
              {.name = "hidden",
               .before = open_context,
               .after = close_context,
               .tests =
                   TESTS(TEST(the_future_is_untouched), LOOP(a_query_that_sees_nothing, 4),
                         TEST(zeros_are_plain), TEST(written_not_added), TEST(nothing_at_all))}));
}
