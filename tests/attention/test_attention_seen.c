/* Attention with windows, lengths, segments, a softcap and a bias beside a mask, against the
 * formula written out, one at a time and together. */
#include "attention_check.h"

START_TEST(attention_is_the_reference) {
    for (int k = 0; k < 12; k++) {
        const problem p = limited_problem((uint64_t)(_i * 12 + k), false);
        agree(&p, isa_of(k));
    }
}
END_TEST

START_TEST(several_blocks) {
    const problem p = limited_problem(5000 + (uint64_t)_i, true);
    agree(&p, isa_of(_i));
}
END_TEST

/* ---- threads ---- */

START_TEST(any_number_of_threads) {
    problem p = limited_problem(9000 + (uint64_t)_i, true);
    p.t = (int64_t[]){300, 500, 1100}[_i % 3], p.s = p.segments ? p.t : 530 + _i;
    how w = {_i % 2 ? CT_F32 : CT_F64, .weights = _i % 3, .threads = 1};
    const result one = solve(&p, w);
    for (int k = 0; k < 3; k++) {
        w.threads = (int[]){2, 3, 7}[k];
        const result more = solve(&p, w);
        same_bits(&p, more, one, "threads");
        forget(more);
    }
    forget(one);
}
END_TEST

/* ---- hidden numbers ---- */

static int64_t changed; /* a key, and the query of the same index */
static double junk;     /* the number in it */
static int parts;       /* bits: q, k, v, the cotangents */

/* The lengths of three rows. */
static const int64_t past[] = {0, 123, 200};

static void change_one(const problem *p, double *q, double *k, double *v) {
    const int64_t rows[3] = {p->b * p->h, p->b * p->kv, p->b * p->kv};
    const int64_t counts[3] = {p->t, p->s, p->s}, widths[3] = {p->d, p->d, p->dv};
    double *x[3] = {q, k, v};
    for (int n = 0; n < 3; n++)
        for (int64_t i = 0; i < rows[n] && parts >> n & 1 && changed < counts[n]; i++)
            for (int64_t e = 0; e < widths[n]; e++)
                x[n][(i * counts[n] + changed) * widths[n] + e] = e % 2 && n ? -junk : junk;
}

static void change_cotangent(const problem *p, ct_tensor *g) {
    const ct_shape shape = ct_shape_of(g);
    const int64_t width = shape.dim[shape.ndim - 1];
    for (int64_t k = 0; k < ct_numel(g) && parts & 8; k++) {
        if (k / width % p->t != changed) continue;
        if (ct_dtype_of(g) == CT_F32) ct_data_f32(g)[k] = (float)junk;
        else ct_data_f64(g)[k] = junk;
    }
}

/* Changes one token, and compares the bits of all results of the other tokens. The result of a
 * query may change only if it sees the changed key. The gradient of a key may change only if a
 * query sees it that is the changed one or sees the changed key. */
static void token_is_hidden(const problem *p, how w, const bool *seen) {
    const result want = solve(p, w);
    w.change = change_one;
    w.change_cotangent = change_cotangent;
    const result got = solve(p, w);
    const int64_t widths[] = {p->dv, p->s, p->d, p->d, p->dv};
    char text[256];
    describe(p, text);
    for (int i = OUT; i <= DV; i++)
        for (int64_t k = 0; k < want.count[i]; k++) {
            const int64_t token = k / widths[i] % p->t;
            bool reached = token == changed || seen[token * p->s + changed];
            for (int64_t q = 0; q < p->t && (i == DK || i == DV); q++)
                reached |= seen[q * p->s + token] && (q == changed || seen[q * p->s + changed]);
            HOLDS(reached || got.value[i][k] == want.value[i][k],
                  "%s[%d] (token %d, changed %d to %g, parts %d, weights %d) is %g, not %g: %s",
                  names[i], (int)k, (int)token, (int)changed, junk, parts, w.weights,
                  got.value[i][k], want.value[i][k], text);
        }
    forget(want);
    forget(got);
}

/* Some bits of `parts` at each step: all, each one alone, and both of an attention's sides. */
static void no_junk_leaks_in(const problem *p, how w, const bool *seen) {
    static const struct {
        double junk;
        int parts;
    } steps[] = {{1e4, 15},      {NAN, 15}, {INFINITY, 15}, {-INFINITY, 6}, {NAN, 1},
                 {NAN, 2},       {NAN, 4},  {NAN, 8},       {INFINITY, 1},  {INFINITY, 2},
                 {-INFINITY, 2}, {1e30, 2}, {INFINITY, 4},  {-INFINITY, 8}};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        changed = (int64_t)draw((uint64_t)p->t);
        junk = steps[k].junk;
        parts = steps[k].parts;
        token_is_hidden(p, w, seen);
    }
}

/* Without weights, and with the two kinds of weights if there are few tokens, because these take
 * long for many. */
static void no_junk_leaks(const problem *p, how w, const bool *seen) {
    for (w.weights = 0; w.weights < (p->t <= 64 ? 3 : 1); w.weights++) no_junk_leaks_in(p, w, seen);
}

/* A token outside the window, of another segment, or behind a mask of single pairs. */
START_TEST(hidden_tokens_change_no_bit) {
    const int64_t t = (int64_t[]){40, 150, 300}[_i % 3];
    problem p = {
        .b = 1, .h = 2, .kv = 1, .t = t, .s = t, .d = 6, .dv = 5, .seed = 60 + (uint64_t)_i};
    const int kind = _i / 3;
    if (kind == 0) p.window = (ct_window){9, 4};
    if (kind == 1) p.window = (ct_window){17, 0}, p.causal = true;
    if (kind == 2) p.mask = 1, p.mask_is_bool = true;
    if (kind == 3) p.mask = 1;
    if (kind == 4) p.window = (ct_window){9, 9}, p.softcap = 0.5, p.lower_right = true;
    if (kind == 5) p.segments = 4;
    bool *seen = malloc((size_t)(t * t));
    double *bias = malloc((size_t)(t * t) * sizeof *bias);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < t; j++) {
            const bool sees[] = {j > i - 9 && j<i + 4, j> i - 17 && j <= i, (i * 7 + j) % 5 > 2,
                                 (i * 3 + j) % 7 > 4, j > i - 9 && j < i + 9,
                                 i / 7 % 3 == j / 7 % 3};
            seen[i * t + j] = sees[kind];
            bias[i * t + j] = sees[kind] ? 0.5 : -INFINITY;
        }
    no_junk_leaks(
        &p,
        (how){_i % 2 ? CT_F32 : CT_F64, .isa = isa_of(_i), .mask = kind == 2 ? (void *)seen : bias},
        seen);
    free(seen), free(bias);
}
END_TEST

/* The future of a causal attention, with few queries and with many, with dropout, a softcap, and
 * products that round. */
START_TEST(the_future_may_be_nan) {
    const int64_t t = (int64_t[]){2, 1, 3, 40, 64, 150, 300}[_i % 7];
    const int kind = _i / 7; /* plain, dropout, softcap, rounded */
    problem p = {.b = 1,
                 .h = 4,
                 .kv = 2,
                 .t = t,
                 .s = t,
                 .d = 6,
                 .dv = 5,
                 .causal = true,
                 .seed = 90 + (uint64_t)_i};
    how w = {_i % 2 ? CT_F32 : CT_F64, .isa = isa_of(_i / 2)};
    if (kind == 1) p.dropout = 0.3;
    if (kind == 2) p.softcap = 0.5;
    if (kind == 3) p.d = p.dv = 72, w = (how){.dtype = CT_F32, .matmul = CT_MATMUL_BF16};
    bool *seen = malloc((size_t)(t * t));
    for (int64_t i = 0; i < t * t; i++) seen[i] = i % t <= i / t;
    no_junk_leaks(&p, w, seen);
    free(seen);
}
END_TEST

/* The same for one or two queries, whose values are read in place: values of hidden keys that are
 * not finite change no bit. */
START_TEST(hidden_values_of_few_queries) {
    const int64_t t = 1 + _i % 2, s = (int64_t[]){37, 700, 300}[_i % 3], d = 5;
    const bool turned = _i % 4 == 3, biased = _i / 4 % 2; /* values (B, H, d, S) in memory */
    ct_tensor *q = ct_randn(context, CT_F64, CT_SHAPE(2, 4, t, d)),
              *k = ct_randn(context, CT_F64, CT_SHAPE(2, 2, s, d)),
              *v = ct_randn(context, CT_F64, CT_SHAPE(2, 2, s, d)), *y[2];
    ct_attention_opts o = {.window = {s - 5, 0}, .lower_right = true};
    ct_tensor *hidden = ct_zeros(context, CT_BOOL, CT_SHAPE(s));
    for (int64_t j = 0; j < s; j += 7) ct_data_bool(hidden)[j] = true;
    ct_tensor *none = ct_zeros(context, CT_F64, CT_SCALAR);
    if (biased) o.bias = ct_where(hidden, ct_full(context, CT_F64, CT_SCALAR, -INFINITY), none);
    else o.mask = ct_logical_not(hidden);
    for (int i = 0; i < 2; i++) {
        junk = (double[]){NAN, INFINITY, -INFINITY}[_i % 3];
        ct_tensor *other = ct_full(context, CT_F64, CT_SCALAR, junk);
        ct_tensor *x = i ? ct_where(ct_unsqueeze(hidden, 1), other, v) : v;
        if (turned) x = ct_transpose(ct_contiguous(ct_transpose(x, 2, 3)), 2, 3);
        y[i] = ct_contiguous(ct_attention(q, k, x, o).out);
    }
    ck_assert_mem_eq(ct_data_f64(y[0]), ct_data_f64(y[1]), (size_t)ct_numel(y[0]) * sizeof(double));
}
END_TEST

/* A bias that is not finite, of keys that a bool mask, causal or a length hides, changes no bit. */
START_TEST(hidden_biases) {
    const int64_t t = (int64_t[]){1, 2, 9, 140}[_i % 4], s = 200, last = s - 150;
    ct_tensor *x[3], *bias[2], *y[2], *grad[2];
    for (int i = 0; i < 3; i++) x[i] = ct_randn(context, CT_F64, CT_SHAPE(1, 2, i ? s : t, 6));
    bias[0] = ct_randn(context, CT_F64, CT_SHAPE(s)), bias[1] = ct_clone(bias[0]);
    const double junks[] = {NAN, INFINITY, 1e300};
    for (int64_t j = last; j < s; j++) ct_data_f64(bias[1])[j] = junks[j % 3];
    ct_attention_opts o = {0};
    const int kind = _i / 4; /* mask; causal and mask; lengths; key mask */
    if (kind == 0 || kind == 1)
        o.mask = ct_lt_scalar(ct_arange(context, CT_I64, 0, (double)s, 1), (double)last);
    if (kind == 1) o.causal = true;
    if (kind == 2) o.lengths = ct_full(context, CT_I64, CT_SHAPE(1), (double)last);
    if (kind == 3)
        o.key_mask = ct_unsqueeze(
            ct_lt_scalar(ct_arange(context, CT_I64, 0, (double)s, 1), (double)last), 0);
    for (int i = 0; i < 2; i++) {
        ct_tensor *q = ct_set_requires_grad(ct_clone(x[0]), true);
        o.bias = ct_set_requires_grad(bias[i], true);
        y[i] = ct_contiguous(ct_attention(q, x[1], x[2], o).out);
        ck_assert(ct_backward(ct_sum(y[i], CT_ALL, false)));
        grad[i] = ct_grad(bias[i]);
    }
    ck_assert_mem_eq(ct_data_f64(y[0]), ct_data_f64(y[1]), (size_t)ct_numel(y[0]) * sizeof(double));
    ck_assert_mem_eq(ct_data_f64(grad[0]), ct_data_f64(grad[1]), (size_t)s * sizeof(double));
}
END_TEST

/* Keys past a row's length, of NaN and infinities. */
static void change_past(const problem *p, double *q, double *k, double *v) {
    (void)q;
    for (int64_t i = 0; i < p->b * p->kv; i++)
        for (int64_t j = past[i / p->kv]; j < p->s; j++) {
            for (int64_t e = 0; e < p->d; e++)
                k[(i * p->s + j) * p->d + e] = e % 2 ? NAN : INFINITY;
            for (int64_t e = 0; e < p->dv; e++) v[(i * p->s + j) * p->dv + e] = NAN;
        }
}

START_TEST(past_a_length) {
    problem p = {.b = 3,
                 .h = 2,
                 .kv = 1,
                 .t = (int64_t[]){1, 2, 40, 200}[_i % 4],
                 .s = 260,
                 .d = 6,
                 .dv = 5,
                 .seed = 3,
                 .causal = _i / 4 % 2,
                 .lower_right = _i / 8};
    how w = {_i % 2 ? CT_F32 : CT_F64, .isa = isa_of(_i), .lengths = past, .weights = _i % 3};
    p.lengths = true;
    const result want = solve(&p, w);
    w.change = change_past;
    const result got = solve(&p, w);
    same_bits(&p, got, want, "past a length");
    for (int64_t i = 0; i < want.count[DK]; i++)
        if (i / p.d % p.s >= past[i / (p.kv * p.s * p.d)]) HOLDS(want.value[DK][i] == 0, "dk");
    for (int64_t i = 0; i < want.count[OUT] / 3; i++) HOLDS(want.value[OUT][i] == 0, "length 0");
    forget(want);
    forget(got);
}
END_TEST

/* Two sequences in one row give the values of a batch of two, also with a window. */
START_TEST(packed_sequences_are_a_batch) {
    enum { N = 150, D = 8 };
    ct_tensor *x[3], *ids = ct_zeros(context, CT_I64, CT_SHAPE(1, 2 * N));
    for (int64_t i = N; i < 2 * N; i++) ct_data_i64(ids)[i] = _i % 2 ? -4 : 9;
    for (int i = 0; i < 3; i++)
        x[i] = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(2, N, 2, D)), true);
    ct_attention_opts o = {.causal = _i / 2, .window = {_i / 2 ? 20 : 0, 0}};
    ct_tensor *in[3], *y[2], *g = ct_randn(context, CT_F64, CT_SHAPE(2, N, 2, D)), *grad[3];
    for (int packed = 0; packed < 2; packed++) {
        const ct_shape shape = packed ? CT_SHAPE(1, 2 * N, 2, D) : CT_SHAPE(2, N, 2, D);
        for (int i = 0; i < 3; i++) in[i] = ct_transpose(ct_view(x[i], shape), 1, 2);
        o.segments = packed ? ids : NULL;
        y[packed] = ct_transpose(ct_attention(in[0], in[1], in[2], o).out, 1, 2);
        y[packed] = ct_view(ct_contiguous(y[packed]), CT_SHAPE(2, N, 2, D));
        for (int i = 0; i < 3 && packed; i++) ct_zero_grad(x[i]);
        ck_assert(ct_backward_with(&y[packed], &g, 1, (ct_backward_opts){0}));
        for (int i = 0; i < 3; i++) {
            if (!packed) grad[i] = ct_add_scalar(ct_grad(x[i]), 0);
            for (int64_t k = 0; k < ct_numel(x[i]) && packed; k++)
                ck_assert_double_eq_tol(ct_data_f64(grad[i])[k], ct_data_f64(ct_grad(x[i]))[k],
                                        1e-12);
        }
    }
    for (int64_t k = 0; k < ct_numel(y[0]); k++)
        ck_assert_double_eq_tol(ct_data_f64(y[0])[k], ct_data_f64(y[1])[k], 1e-13);
}
END_TEST

static void same_numbers(ct_tensor *x, ct_tensor *y, double within) {
    ck_assert_int_eq(ct_numel(x), ct_numel(y));
    for (int64_t i = 0; i < ct_numel(x); i++)
        ck_assert_double_eq_tol(ct_data_f64(x)[i], ct_data_f64(y)[i], within);
}

/* Token 1 and the last token have one id. Every id of row 1 is greater than the id two tokens
 * before, and every id of row 2 is less, but neighbours rise and fall in turns: a segment may have
 * several runs. The tokens are far enough apart for two tiles of keys. */
START_TEST(an_id_that_returns) {
    enum { T = 301, D = 4 };
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(3, T)), *x[3],
              *mask = ct_zeros(context, CT_BOOL, CT_SHAPE(3, 1, T, T)), *y[2], *dk[2];
    int64_t *id = ct_data_i64(ids);
    for (int64_t i = 0; i < T; i++) {
        id[T + i] = i == T - 1 ? T + 1 : i % 2 ? T + i : i;
        id[2 * T + i] = -id[T + i];
    }
    for (int64_t i = 0; i < 3 * T; i++)
        for (int64_t j = 0; j < T; j++) ct_data_bool(mask)[i * T + j] = id[i] == id[i / T * T + j];
    for (int i = 0; i < 3; i++) x[i] = ct_randn(context, CT_F64, CT_SHAPE(3, 1, T, D));
    ct_tensor *g = ct_randn(context, CT_F64, CT_SHAPE(3, 1, T, D));
    for (int i = 0; i < 2; i++) {
        ct_attention_opts o = {.segments = i ? NULL : ids, .mask = i ? mask : NULL};
        ct_tensor *k = ct_set_requires_grad(ct_clone(x[1]), true);
        y[i] = ct_attention(x[0], k, x[2], o).out;
        ck_assert(ct_backward_with(&y[i], &g, 1, (ct_backward_opts){0}));
        dk[i] = ct_grad(k);
    }
    same_numbers(y[0], y[1], 1e-13);
    same_numbers(dk[0], dk[1], 1e-13);
}
END_TEST

/* Decoding without a gradient: the last query of all, with a window and lengths. */
START_TEST(one_query_of_many) {
    enum { S = 90, D = 8 };
    ct_tensor *q = ct_randn(context, CT_F64, CT_SHAPE(2, 4, S, D)),
              *k = ct_randn(context, CT_F64, CT_SHAPE(2, 2, S, D)),
              *v = ct_randn(context, CT_F64, CT_SHAPE(2, 2, S, D));
    ct_attention_opts o = {.causal = true,
                           .lower_right = true,
                           .window = {_i % 2 ? 13 : 0, 0},
                           .softcap = _i / 2 ? 1.5 : 0};
    ct_tensor *all = ct_attention(q, k, v, o).out;
    const int64_t n[2] = {S, 70};
    for (int b = 0; b < 2; b++) { /* row 1 ends at key 69: query 69 of all is its last */
        o.lengths = ct_from_i64(context, CT_SHAPE(2), n);
        ct_tensor *last = ct_narrow(q, 2, n[b] - 1, 1);
        ct_tensor *one = ct_attention(last, k, v, o).out;
        for (int64_t h = 0; h < 4; h++)
            for (int64_t e = 0; e < D; e++)
                ck_assert_double_eq_tol(ct_data_f64(one)[(b * 4 + h) * D + e],
                                        ct_data_f64(all)[((b * 4 + h) * S + n[b] - 1) * D + e],
                                        1e-13);
    }
}
END_TEST

/* ---- nothing, and hostile arguments ---- */

START_TEST(nothing_at_all) {
    static const int64_t sizes[][4] = {{2, 2, 3, 0},    {2, 2, 0, 3}, {2, 2, 0, 0},
                                       {0, 2, 3, 3},    {2, 0, 3, 3}, {2, 0, 140, 140},
                                       {2, 2, 140, 140}};
    for (int k = 0; k < 7; k++)
        for (int n = 0; n < 12; n++) {
            problem p = {.b = sizes[k][0],
                         .h = sizes[k][1],
                         .kv = sizes[k][1],
                         .t = sizes[k][2],
                         .s = sizes[k][3],
                         .d = k == 6 ? 0 : 4,
                         .dv = k == 6 ? 0 : 5};
            p.window = (ct_window){n % 2 ? 3 : 0, n % 3 ? 2 : 0};
            p.lengths = n & 2, p.lower_right = n & 4, p.softcap = n & 1;
            p.segments = p.t == p.s ? n % 5 : 0;
            forget(solve(&p, (how){n & 8 ? CT_F32 : CT_F64, .weights = n % 3}));
        }
}
END_TEST

START_TEST(hostile_arguments) {
    ct_tensor *q = of(CT_F32, CT_SHAPE(2, 4, 6, 3)), *k = of(CT_F32, CT_SHAPE(2, 2, 6, 3)),
              *long_k = of(CT_F32, CT_SHAPE(2, 2, 7, 3));
#define TRIES(code, text, ...)                                                                     \
    FAILS(ct_attention(q, k, k, (ct_attention_opts){__VA_ARGS__}).out, code, text)
    TRIES(CT_ERR_ARGUMENT, "attention: both a bias and a f32 mask", .mask = of(CT_F32, CT_SHAPE(6)),
          .bias = of(CT_F32, CT_SHAPE(6)));
    TRIES(CT_ERR_DTYPE, "attention: the bias is bool, not f32", .bias = of(CT_BOOL, CT_SHAPE(6)));
    TRIES(CT_ERR_DTYPE, "attention: the bias is f64, not f32", .bias = of(CT_F64, CT_SHAPE(6)));
    TRIES(CT_ERR_SHAPE, "attention: the bias is (5), not (T, S) = (6, 6)",
          .bias = of(CT_F32, CT_SHAPE(5)));
    TRIES(CT_ERR_DTYPE, "attention: the lengths are f32, not i64",
          .lengths = of(CT_F32, CT_SHAPE(2)));
    TRIES(CT_ERR_SHAPE, "attention: the lengths are (2, 1), not (B) = (2)",
          .lengths = of(CT_I64, CT_SHAPE(2, 1)));
    TRIES(CT_ERR_ARGUMENT, "attention: length 1 is 7, not in [0, S] = [0, 6]",
          .lengths = ct_from_i64(context, CT_SHAPE(2), (int64_t[]){6, 7}));
    TRIES(CT_ERR_ARGUMENT, "attention: length 0 is -1",
          .lengths = ct_from_i64(context, CT_SHAPE(2), (int64_t[]){-1, 0}));
    TRIES(CT_ERR_DTYPE, "attention: the segments are bool, not i64",
          .segments = of(CT_BOOL, CT_SHAPE(2, 6)));
    TRIES(CT_ERR_SHAPE, "attention: the segments are (6), not (B, T) = (2, 6)",
          .segments = of(CT_I64, CT_SHAPE(6)));
    FAILS(
        ct_attention(q, long_k, long_k, (ct_attention_opts){.segments = of(CT_I64, CT_SHAPE(2, 6))})
            .out,
        CT_ERR_SHAPE, "attention: segments need as many keys as queries, not T = 6 and S = 7");
    TRIES(CT_ERR_ARGUMENT, "attention: the window is {-1, 0}", .window = {-1, 0});
    TRIES(CT_ERR_ARGUMENT, "attention: the window is {0, -9}", .window = {0, -9});
    TRIES(CT_ERR_ARGUMENT, "attention: the softcap is -1", .softcap = -1);
    TRIES(CT_ERR_ARGUMENT, "attention: the softcap is nan", .softcap = NAN);
    TRIES(CT_ERR_ARGUMENT, "attention: the softcap is inf", .softcap = INFINITY);
#undef TRIES
    /* the largest numbers hide nothing */
    q = ct_randn(context, CT_F32, CT_SHAPE(2, 4, 6, 3)),
    k = ct_randn(context, CT_F32, CT_SHAPE(2, 2, 6, 3));
    const ct_attention_opts most = {.window = {INT64_MAX, INT64_MAX}, .lower_right = true};
    ct_tensor *x = ct_attention(q, k, k, most).out,
              *y = ct_attention(q, k, k, (ct_attention_opts){0}).out;
    ck_assert_mem_eq(ct_data_f32(x), ct_data_f32(y), (size_t)ct_numel(x) * sizeof(float));
    /* lengths that change after forward stay inside the keys */
    ct_tensor *n = ct_full(context, CT_I64, CT_SHAPE(2), 4),
              *g = ct_ones(context, CT_F32, ct_shape_of(x));
    ct_set_requires_grad(q, true);
    x = ct_attention(q, k, k, (ct_attention_opts){.lengths = n}).out;
    ct_data_i64(n)[0] = INT64_MAX, ct_data_i64(n)[1] = INT64_MIN;
    ct_backward_with(&x, &g, 1, (ct_backward_opts){0});
}
END_TEST

int main(void) {
    return run_cases(
        "what attention sees",
        CASES({.name = "seen, whatever the threads",
               .tags = "one-thread",
               .before = open_context,
               .after = close_context,
               .tests = TESTS(LOOP(attention_is_the_reference, 20), LOOP(several_blocks, 40),
                              LOOP(any_number_of_threads, 6), LOOP(hidden_tokens_change_no_bit, 18),
                              LOOP(the_future_may_be_nan, 28), LOOP(past_a_length, 16))},
              {.name = "seen",
               .before = open_context,
               .after = close_context,
               .tests =
                   TESTS(LOOP(packed_sequences_are_a_batch, 4), TEST(an_id_that_returns),
                         LOOP(one_query_of_many, 4), LOOP(hidden_values_of_few_queries, 24),
                         LOOP(hidden_biases, 16), TEST(nothing_at_all), TEST(hostile_arguments))}));
}
