/* Attention in blocks against attention composed of ops: every option, odd sizes, strides, every ISA, any number of threads; what
 * masks hide; and how much memory it takes. */
#include "op_check.h"

#include "../src/kernels/kernels.h"

static uint64_t state;
static uint64_t draw(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}
static double noise(void) { return (double)(float)(((double)draw(1 << 20) + (double)draw(1 << 20)) * 0x1p-19 - 2); } /* exact in f32 */

typedef struct {
    int64_t b, h, kv, t, s, d, dv;
    bool causal, keys;
    int mask; /* 0: none; else the index of its shape, bool or float */
    bool mask_is_bool;
    double dropout, scale;
    int layout[3]; /* of q, k, v: dense, heads split, turned, repeated */
    bool turned;   /* the cotangent */
    uint64_t seed;
} problem;

/* ck_assert, but quiet: Check notes each assertion it passes in a file. */
#define HOLDS(condition, ...)                                                                                                              \
    do {                                                                                                                                   \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                                                       \
    } while (0)

enum { MASKS = 10 };
static ct_shape mask_shape(const problem *p) {
    switch (p->mask) {
    case 1:
        return CT_SHAPE(p->t, p->s);
    case 2:
        return CT_SHAPE(p->b, 1, 1, p->s);
    case 3:
        return CT_SHAPE(p->b, 1, p->t, p->s);
    case 4:
        return CT_SHAPE(p->b, p->h, p->t, p->s);
    case 5:
        return CT_SHAPE(p->h, p->t, p->s);
    case 6:
        return CT_SHAPE(p->t, 1);
    case 7:
        return CT_SHAPE(p->h, 1, 1);
    case 8:
        return CT_SHAPE(p->s);
    case 9:
        return CT_SHAPE(p->b, p->h, 1, p->s);
    case MASKS + 1:
        return CT_SHAPE(p->b, 1, 1, 1);
    default:
        return CT_SCALAR;
    }
}

/* What is computed, in f64: out, and the gradients of q, k, v and the mask. */
enum { OUT, DQ, DK, DV, DMASK, RESULTS };
typedef struct {
    double *value[RESULTS];
    int64_t count[RESULTS];
} result;

static void forget(result r) {
    for (int i = 0; i < RESULTS; i++) free(r.value[i]);
}

typedef struct {
    ct_dtype dtype;
    bool composed;
    const char *isa;
    int threads;
    void (*change)(const problem *, double *q, double *k, double *v); /* of dense inputs, before they are used */
    const bool *key_mask;                                             /* else random */
    const void *mask;                                                 /* bool or double, else random */
} how;

static ct_tensor *leaf(ct_context *c, ct_dtype dtype, ct_shape shape, const double *value, int64_t n) {
    if (dtype == CT_F64) return ct_set_requires_grad(ct_from_f64(c, shape, value), true);
    float *single = malloc((size_t)(n + 1) * sizeof *single);
    for (int64_t i = 0; i < n; i++) single[i] = (float)value[i];
    ct_tensor *x = ct_set_requires_grad(ct_from_f32(c, shape, single), true);
    free(single);
    return x;
}

/* A (b, h, t, d) view of the leaf, laid out in one of four ways. */
static ct_tensor *laid_out(ct_tensor *x, int layout, int64_t b, int64_t h, int64_t t, int64_t d) {
    switch (layout) {
    case 1:
        return ct_transpose(ct_view(x, CT_SHAPE(b, t, h, d)), 1, 2);
    case 2:
        return ct_transpose(ct_view(x, CT_SHAPE(b, h, d, t)), 2, 3);
    case 3:
        return ct_expand(ct_narrow(ct_view(x, CT_SHAPE(b, h, t, d)), 0, 0, 1), CT_SHAPE(b, h, t, d));
    default:
        return ct_view(x, CT_SHAPE(b, h, t, d));
    }
}

static void keep_values(ct_tensor *x, result *r, int i) {
    r->count[i] = x ? ct_numel(x) : 0;
    r->value[i] = malloc((size_t)(r->count[i] + 1) * sizeof(double));
    if (x) ck_assert(ct_to_f64(x, r->value[i], r->count[i]));
}

static result solve(const problem *p, how w) {
    result r = {0};
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = w.threads ? w.threads : 2, .isa = w.isa});
    const int64_t n[3] = {p->b * p->h * p->t * p->d, p->b * p->kv * p->s * p->d, p->b * p->kv * p->s * p->dv};
    double *value[3];
    ct_tensor *x[3], *in[3];
    state = p->seed;
    for (int i = 0; i < 3; i++) {
        value[i] = malloc((size_t)(n[i] + 1) * sizeof(double));
        for (int64_t k = 0; k < n[i]; k++) value[i][k] = noise();
    }
    if (w.change) w.change(p, value[0], value[1], value[2]);
    for (int i = 0; i < 3; i++) {
        x[i] = leaf(c, w.dtype, CT_SHAPE(n[i]), value[i], n[i]);
        in[i] = laid_out(x[i], p->layout[i], p->b, i ? p->kv : p->h, i ? p->s : p->t, i < 2 ? p->d : p->dv);
        free(value[i]);
    }
    ct_attention_opts o = {.causal = p->causal, .dropout = p->dropout, .scale = p->scale, .need_weights = w.composed};
    if (p->mask) {
        const ct_shape shape = mask_shape(p);
        int64_t m = 1;
        for (int d = 0; d < shape.ndim; d++) m *= shape.dim[d];
        bool *flags = malloc((size_t)m + 1);
        double *bias = malloc((size_t)(m + 1) * sizeof *bias);
        for (int64_t i = 0; i < m; i++) {
            flags[i] = draw(3) > 0;
            bias[i] = draw(5) == 0 ? -INFINITY : noise();
        }
        if (p->mask_is_bool) o.mask = ct_from_bool(c, shape, w.mask ? w.mask : flags);
        else o.mask = leaf(c, w.dtype, shape, w.mask ? w.mask : bias, m);
        free(flags), free(bias);
    }
    if (p->keys) {
        bool *flags = malloc((size_t)(p->b * p->s) + 1);
        for (int64_t i = 0; i < p->b * p->s; i++) flags[i] = draw(4) > 0 && (p->s < 200 || i % p->s < 70 || i % p->s > 200);
        o.key_mask = ct_from_bool(c, CT_SHAPE(p->b, p->s), w.key_mask ? w.key_mask : flags);
        free(flags);
    }
    ct_tensor *y = ct_attention(in[0], in[1], in[2], o).out, *g;
    ck_assert_msg(y != NULL, "%s", ct_error_message(c));
    double *cotangent = malloc((size_t)(ct_numel(y) + 1) * sizeof *cotangent);
    for (int64_t i = 0; i < ct_numel(y); i++) cotangent[i] = noise();
    g = ct_detach(leaf(c, w.dtype, CT_SHAPE(p->b, p->h, p->t, p->dv), cotangent, ct_numel(y)));
    if (p->turned) g = ct_transpose(ct_contiguous(ct_transpose(g, 1, 3)), 1, 3);
    free(cotangent);
    ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s", ct_error_message(c));
    keep_values(y, &r, OUT);
    for (int i = 0; i < 3; i++) keep_values(ct_grad(x[i]), &r, DQ + i);
    keep_values(o.mask && !p->mask_is_bool ? ct_grad(o.mask) : NULL, &r, DMASK);
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    ct_context_free(c);
    return r;
}

static void describe(const problem *p, char text[256]) {
    snprintf(text, 256, "b %d h %d/%d t %d s %d d %d/%d causal %d keys %d mask %d%s dropout %g layouts %d%d%d%d seed %d", (int)p->b,
             (int)p->h, (int)p->kv, (int)p->t, (int)p->s, (int)p->d, (int)p->dv, p->causal, p->keys, p->mask,
             p->mask_is_bool ? " bool" : "", p->dropout, p->layout[0], p->layout[1], p->layout[2], p->turned, (int)p->seed);
}

static const char *const names[] = {"out", "dq", "dk", "dv", "dmask"};

/* A gradient of scores may be all cancellation (of one key, of a mask that shifts whole rows): what its terms are like. */
static double terms_of(const problem *p, int i, int64_t count) {
    const double sums = i == DQ || i == DK || i == DMASK ? (double)(p->b * p->h * p->t) : 1;
    const double scores = i == DMASK ? (double)p->s : i == DQ ? 1 / (double)(p->h * p->t) : 1 / (double)p->kv;
    return i == OUT || i == DV ? 1 : sqrt((double)p->dv * fmax(1, sums * scores / fmax(1, (double)(i == DMASK ? count : p->b))));
}

/* The largest error is within tolerance of the largest value, or of the terms it is a sum of. */
static void near(const problem *p, result got, result want, double tolerance, const char *what) {
    char text[256];
    describe(p, text);
    for (int i = 0; i < RESULTS; i++) {
        double largest = terms_of(p, i, want.count[i]), worst = 0;
        ck_assert_int_eq(got.count[i], want.count[i]);
        for (int64_t k = 0; k < want.count[i]; k++) {
            largest = fmax(largest, fabs(want.value[i][k]));
            worst = fmax(worst, fabs(got.value[i][k] - want.value[i][k]));
            HOLDS(isfinite(got.value[i][k]) && isfinite(want.value[i][k]), "%s: %s[%d] is %g, %g: %s", what, names[i], (int)k,
                  got.value[i][k], want.value[i][k], text);
        }
        ck_assert_msg(worst <= tolerance * largest, "%s: %s is off by %g of %g: %s", what, names[i], worst, largest, text);
    }
}

static void same_bits(const problem *p, result got, result want, const char *what) {
    char text[256];
    describe(p, text);
    for (int i = 0; i < RESULTS; i++) {
        ck_assert_int_eq(got.count[i], want.count[i]);
        for (int64_t k = 0; k < want.count[i]; k++)
            HOLDS(got.value[i][k] == want.value[i][k], "%s: %s[%d] is %.9g, not %.9g: %s", what, names[i], (int)k, got.value[i][k],
                  want.value[i][k], text);
    }
}

static problem random_problem(uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 33, 64, 65, 128}, heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}, {6, 3}};
    problem p = {.seed = seed};
    state = seed * 77 + 5;
    draw(2);
    const int64_t *h = heads[draw(5)];
    p.b = (int64_t)draw(3) + 1, p.h = h[0], p.kv = h[1];
    p.t = sizes[draw(9)], p.s = sizes[draw(9)], p.d = sizes[draw(9)], p.dv = draw(2) ? p.d : sizes[draw(9)];
    p.causal = draw(2), p.keys = draw(2);
    p.mask = draw(3) ? (int)draw(MASKS + 1) : 0;
    p.mask_is_bool = p.mask && draw(2);
    p.dropout = draw(3) ? 0 : 0.3;
    p.scale = draw(3) ? 0 : 0.2;
    for (int i = 0; i < 3; i++) p.layout[i] = (int)draw(4);
    p.turned = draw(2);
    return p;
}

static const char *isa_of(int i) {
    int count = 0;
    while (ct_isa_at(count)) count++;
    return ct_isa_at(i % count)->name;
}

/* f64 against the composed path; f32 against the composed path in f64, on the same numbers. */
static void agree(const problem *p, const char *isa) {
    result want = solve(p, (how){CT_F64, .composed = true}), got = solve(p, (how){CT_F64, .isa = isa});
    near(p, got, want, 1e-12, isa);
    forget(got);
    near(p, got = solve(p, (how){CT_F32, .isa = isa}), want, 3e-6, isa);
    forget(got);
    forget(want);
}

START_TEST(fused_is_composed) {
    for (int k = 0; k < 12; k++) {
        const problem p = random_problem((uint64_t)(_i * 12 + k));
        agree(&p, isa_of(k));
    }
}
END_TEST

START_TEST(edges_of_blocks) {
    static const int64_t sizes[][2] = {{119, 121}, {120, 120}, {121, 119}, {128, 127}, {31, 129}, {129, 32},
                                       {256, 255}, {511, 40},  {40, 513},  {513, 300}, {300, 520}};
    problem p = {.b = 1, .h = 2, .kv = 1, .t = sizes[_i][0], .s = sizes[_i][1], .d = 5, .dv = 4, .seed = (uint64_t)_i};
    for (int k = 0; k < 4; k++) {
        p.causal = k & 1;
        p.keys = k & 2;
        p.mask = k == 3 ? 1 : 0;
        p.dropout = k == 2 ? 0.4 : 0;
        agree(&p, isa_of(_i));
    }
}
END_TEST

/* As many heads as make one cell each, of several blocks of keys and of queries. */
START_TEST(several_blocks_in_a_cell) {
    problem p = {.b = 4, .h = 4, .kv = 2, .t = 250, .s = 300, .d = 5, .dv = 6, .seed = 40, .layout = {_i % 2, _i % 2, _i % 2}};
    for (int k = 0; k < 4; k++) {
        p.causal = k & 1;
        p.keys = k & 2;
        p.mask = (int[]){0, 1, 2, 7}[k];
        p.dropout = k == 2 ? 0.4 : 0;
        agree(&p, isa_of(_i));
    }
}
END_TEST

/* Rows of 4096 bytes or a multiple, which meet in a cache: of the operands, and of what comes back. */
START_TEST(rows_far_apart) {
    problem p = {.b = 1, .h = 1024, .kv = 512, .t = 40, .s = 20, .d = 4, .dv = 4, .layout = {1, 1, 1}, .turned = true, .seed = 6};
    p.keys = _i;
    agree(&p, isa_of(_i));
}
END_TEST

START_TEST(any_number_of_threads) {
    static const int threads[] = {2, 3, 7};
    problem p = random_problem(1000 + (uint64_t)_i);
    p.t = (int64_t[]){70, 300, 700, 1100}[_i % 4], p.s = (int64_t[]){90, 530, 650, 1100}[_i % 4];
    p.d = p.dv = 8;
    if (_i % 2) p.mask = 1 + _i % 9, p.mask_is_bool = false; /* whose gradient many share */
    const result one = solve(&p, (how){_i % 3 ? CT_F32 : CT_F64, .threads = 1});
    for (int k = 0; k < 3; k++) {
        const result more = solve(&p, (how){_i % 3 ? CT_F32 : CT_F64, .threads = threads[k]});
        same_bits(&p, more, one, "threads");
        forget(more);
    }
    forget(one);
}
END_TEST

START_TEST(one_number_for_all_cells) { /* a mask whose gradient every cell adds to: no two at a time */
    for (int64_t b = 1; b <= 2; b++) {
        problem p = {.b = b, .h = 2, .kv = 2, .t = 1100, .s = 1100, .d = 4, .dv = 4, .mask = b > 1 ? MASKS + 1 : 7, .seed = 3};
        const result one = solve(&p, (how){CT_F64, .threads = 1}), composed = solve(&p, (how){CT_F64, .composed = true});
        near(&p, one, composed, 1e-12, "composed");
        forget(composed);
        for (int k = 0; k < 6; k++) {
            const result more = solve(&p, (how){CT_F64, .threads = 2 + k});
            same_bits(&p, more, one, "threads");
            forget(more);
        }
        forget(one);
    }
}
END_TEST

/* ---- gradients against differences ---- */

static ct_tensor *attend_fn(ct_tensor *const *in, int n, void *arg) {
    ct_attention_opts o = *(ct_attention_opts *)arg;
    if (n > 3) o.mask = in[3];
    ct_seed(ct_context_of(in[0]), 3);
    return ct_attention(in[0], in[1], in[2], o).out;
}

START_TEST(gradients_are_right) {
    problem p = {.b = 2, .h = 4, .kv = 2, .t = 3, .s = 4, .mask = _i % (MASKS + 1)};
    ct_tensor *in[4] = {ct_randn(context, CT_F64, CT_SHAPE(2, 4, 3, 3)), ct_randn(context, CT_F64, CT_SHAPE(2, 2, 4, 3)),
                        ct_randn(context, CT_F64, CT_SHAPE(2, 2, 4, 2)), p.mask ? ct_randn(context, CT_F64, mask_shape(&p)) : NULL};
    for (int i = 0; i < 4 && in[i]; i++) ct_set_requires_grad(in[i], true);
    ct_attention_opts o = {.causal = _i % 2, .dropout = _i % 3 ? 0 : 0.4};
    if (_i % 4 > 1) o.key_mask = ct_from_bool(context, CT_SHAPE(2, 4), (bool[]){1, 0, 1, 1, 0, 0, 1, 1});
    ct_gradcheck_result r = ct_gradcheck(attend_fn, &o, in, p.mask ? 4 : 3, (ct_gradcheck_opts){.atol = 1e-8, .rtol = 1e-6});
    ck_assert_msg(r.ran && r.ok, "mask %d: %s %s", p.mask, r.diagnosis, ct_error_message(context));
}
END_TEST

/* ---- what is hidden ---- */

static double junk; /* what is put in hidden keys and values; 0: some of everything */

static void change_hidden(const problem *p, double *q, double *k, double *v) {
    (void)q;
    const double all[] = {NAN, INFINITY, -INFINITY, 1e30, -3};
    for (int64_t i = 0; i < p->b * p->kv; i++)
        for (int64_t j = p->s / 2; j < p->s; j++) {
            for (int64_t e = 0; e < p->d; e++) k[(i * p->s + j) * p->d + e] = junk != 0 ? junk * (double)(e % 3 + 1) : all[(j + e) % 5];
            for (int64_t e = 0; e < p->dv; e++) v[(i * p->s + j) * p->dv + e] = junk != 0 ? -junk : all[(i + j + e) % 5];
        }
}

/* The second half of the keys is hidden from all, by each kind of mask and on both paths. Whatever they hold, no bit of anything
 * changes. */
START_TEST(hidden_is_untouched) {
    const int kind = _i % 4, size = _i / 8 % 4; /* key mask, bool, float, causal */
    const bool composed = _i / 4 % 2;
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
    if (kind == 1 || kind == 2) p.mask = (int[]){8, 1, 2, 3, 4, 5, 9}[_i / 8 % 7]; /* those that end with the keys */
    const int64_t most = p.b * p.h * p.t * p.s;
    bool *flags = malloc((size_t)most);
    double *bias = malloc((size_t)most * sizeof *bias);
    for (int64_t i = 0; i < most; i++) bias[i] = (flags[i] = i % p.s < p.s / 2) ? 0.25 * (double)(i % 3) : -INFINITY;
    how w = {_i / 8 % 2 ? CT_F32 : CT_F64, .composed = composed, .key_mask = flags, .mask = kind == 1 ? (void *)flags : bias,
             .isa = isa_of(_i)};
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
    const problem p = {.b = 1, .h = 2, .kv = 2, .t = 700, .s = 700, .d = 8, .dv = 8, .causal = true, .seed = 3};
    const result want = solve(&p, (how){.dtype = CT_F32}), got = solve(&p, (how){.dtype = CT_F32, .change = change_hidden});
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
    problem p = {
        .b = 2, .h = 2, .kv = 1, .t = 37, .s = 150, .d = 6, .dv = 6, .mask = 6, .mask_is_bool = _i % 2, .seed = 9, .causal = _i > 1};
    bool flags[37];
    double bias[37];
    for (int i = 0; i < 37; i++) bias[i] = (flags[i] = i % 3 != 1) ? 0.5 : -INFINITY;
    for (int composed = 0; composed < 2; composed++) {
        const result r = solve(&p, (how){CT_F32, .composed = composed, .mask = p.mask_is_bool ? (void *)flags : bias});
        for (int64_t i = 0; i < p.b * p.h * p.t; i++)
            for (int e = 0; e < 6; e++) {
                const bool sees = flags[i % 37];
                HOLDS((r.value[OUT][i * 6 + e] != 0) == sees, "out");
                HOLDS(sees ? isfinite(r.value[DQ][i * 6 + e]) : r.value[DQ][i * 6 + e] == 0, "dq");
            }
        for (int64_t i = 0; i < r.count[DK]; i++) HOLDS(isfinite(r.value[DK][i]) && isfinite(r.value[DV][i]), "dk, dv");
        for (int64_t i = 0; i < r.count[DMASK]; i++) ck_assert(flags[i] ? fabs(r.value[DMASK][i]) < 1e-4 : r.value[DMASK][i] == 0);
        forget(r);
    }
}
END_TEST

/* What nobody sees, and who sees nothing, has a gradient of +0, also where scores count downwards: nothing was computed for it. The first
 * blocks of keys are hidden, of as many heads as make one cell each. */
START_TEST(zeros_are_plain) {
    enum { T = 300, HIDDEN = 140 };
    bool seen[4 * T];
    for (int i = 0; i < 4 * T; i++) seen[i] = i % T >= HIDDEN;
    for (int k = 0; k < 4; k++) {
        const problem p = {.b = 4, .h = 4, .kv = 2, .t = T, .s = T, .d = 8, .dv = 8, .causal = k % 2, .keys = 1, .scale = -0.4, .seed = 21,
                           .layout = {k / 2, k / 2, k / 2}};
        for (const char *const *isa = (const char *const[]){"scalar", NULL, ""}; !*isa || **isa; isa++) {
            const result r = solve(&p, (how){CT_F32, .isa = *isa, .key_mask = seen});
            for (int64_t i = 0; i < r.count[DK]; i++) {
                const int64_t key = k / 2 ? i / (8 * 2) % T : i / 8 % T;
                if (key < HIDDEN / 128 * 128) HOLDS(r.value[DK][i] == 0 && !signbit(r.value[DK][i]), "dk");
                if (key < HIDDEN / 128 * 128) HOLDS(r.value[DV][i] == 0 && !signbit(r.value[DV][i]), "dv");
            }
            for (int64_t i = 0; i < r.count[DQ]; i++) {
                const int64_t query = k / 2 ? i / (8 * 4) % T : i / 8 % T;
                if (p.causal && query < HIDDEN / 128 * 128) HOLDS(r.value[DQ][i] == 0 && !signbit(r.value[DQ][i]), "dq");
            }
            forget(r);
        }
    }
}
END_TEST

/* Where one cell makes a whole gradient, it is written and not added to zeros, which would take a zero's sign. */
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

/* The gradient of a mask that repeats along 200,000 queries keeps its digits: 2/9 of each. */
START_TEST(a_long_sum_of_a_masks_gradient) {
    enum { T = 200000 };
    ct_tensor *q = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, T, 1)), *k = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 3, 1));
    ct_tensor *v = ct_from_f32(context, CT_SHAPE(1, 1, 3, 1), (float[]){1, 0, 0});
    ct_tensor *mask = ct_set_requires_grad(ct_zeros(context, CT_F32, CT_SHAPE(3)), true);
    ct_tensor *y = ct_attention(q, k, v, (ct_attention_opts){.mask = mask}).out, *g = ct_full(context, CT_F32, CT_SHAPE(1, 1, T, 1), 1);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    ck_assert_double_eq_tol(ct_data_f32(ct_grad(mask))[0] / (2.0 / 9 * T), 1, 5e-5);
    ck_assert_double_eq_tol(ct_data_f32(ct_grad(mask))[1] / (-1.0 / 9 * T), 1, 5e-5);
}
END_TEST

START_TEST(nothing_at_all) {
    static const int64_t sizes[][4] = {{2, 2, 3, 0}, {2, 2, 0, 3}, {2, 2, 0, 0}, {0, 2, 3, 4}, {2, 0, 3, 4}};
    for (int k = 0; k < 5; k++)
        for (int mask = 0; mask < 3; mask++) {
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
            const result r = solve(&p, (how){.dtype = CT_F64});
            for (int i = 0; i < RESULTS; i++)
                for (int64_t n = 0; n < r.count[i]; n++) ck_assert_double_eq(r.value[i][n], 0);
            ck_assert_int_eq(r.count[OUT], p.b * p.h * p.t * 5);
            forget(r);
        }
    const problem none = {.b = 2, .h = 2, .kv = 2, .t = 3, .s = 4, .seed = 2}; /* d and d_v are 0: every score is 0 */
    forget(solve(&none, (how){.dtype = CT_F32}));
}
END_TEST

START_TEST(large_scores) { /* of 1e4 and more: the softmax is a choice, and its gradient stays finite */
    problem p = {.b = 1, .h = 2, .kv = 2, .t = 150, .s = 260, .d = 16, .dv = 8, .scale = 2000, .seed = 4};
    agree(&(problem){.b = 1, .h = 1, .kv = 1, .t = 5, .s = 6, .d = 3, .dv = 2, .scale = 1e-3, .seed = 1}, NULL);
    const result want = solve(&p, (how){CT_F64, .composed = true}), got = solve(&p, (how){.dtype = CT_F64}),
                 single = solve(&p, (how){.dtype = CT_F32});
    near(&p, got, want, 1e-9, "f64");
    for (int i = 0; i < RESULTS; i++)
        for (int64_t k = 0; k < single.count[i]; k++) HOLDS(isfinite(single.value[i][k]), "f32");
    for (int64_t k = 0; k < want.count[OUT]; k++) ck_assert_double_eq_tol(single.value[OUT][k], want.value[OUT][k], 0.05);
    forget(want), forget(got), forget(single);
    p.scale = 0, p.mask = 6; /* the lowest float in place of -inf: a row of nothing else is a row of equals */
    double bias[150];
    for (int i = 0; i < 150; i++) bias[i] = i % 2 ? -3.4028234663852886e38 : 0;
    const result low = solve(&p, (how){CT_F32, .mask = bias}), whole = solve(&p, (how){CT_F32, .mask = bias, .composed = true});
    near(&p, low, whole, 1e-5, "lowest float");
    forget(low), forget(whole);
}
END_TEST

/* ---- memory, layout, streams ---- */

static int64_t peak_of(int64_t t, bool causal) { /* all but a few keys are hidden, which takes the time away and not the memory */
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = 2});
    ct_tensor *in[3], *g = ct_ones(c, CT_F32, CT_SHAPE(1, 8, t, 64)), *keys = ct_zeros(c, CT_BOOL, CT_SHAPE(1, t));
    for (int i = 0; i < 3; i++) in[i] = ct_set_requires_grad(ct_ones(c, CT_F32, CT_SHAPE(1, 8, t, 64)), true);
    for (int i = 0; i < 20; i++) ct_data_bool(keys)[i] = true;
    ct_memory_reset_peak(c);
    ct_tensor *y = ct_attention(in[0], in[1], in[2], (ct_attention_opts){.causal = causal, .key_mask = keys}).out;
    ck_assert_msg(y && ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s", ct_error_message(c));
    const int64_t peak = ct_memory(c).peak;
    ct_context_free(c);
    return peak;
}

START_TEST(memory_is_linear) {
    for (int64_t t = 128; t <= 16384; t *= 2) {
        const double tensors = 8.0 * 8 * 64 * 4 * (double)t, peak = (double)peak_of(t, t % 3);
        ck_assert_msg(peak < 1.2 * tensors + (3 << 20), "T %d: %.0f bytes, where q, k, v, out and their gradients are %.0f", (int)t, peak,
                      tensors);
        if (t >= 4096) ck_assert_msg(peak < 1.3 * tensors, "T %d: %.0f bytes, %.2f times the tensors", (int)t, peak, peak / tensors);
    }
}
END_TEST

/* The gradient of a mask is one sum, or up to eight where it repeats over batch or heads, and not as many as it repeats. */
START_TEST(memory_of_a_masks_gradient) {
    static const struct {
        ct_shape mask;
        int64_t sums, batch;
    } cases[] = {{{4, {6, 6, 100, 200}}, 1, 6}, {{4, {6, 1, 200, 300}}, 6, 6}, {{4, {1, 6, 200, 300}}, 6, 6},
                 {{2, {300, 400}}, 8, 6},       {{2, {300, 400}}, 1, 0}};
    for (int i = 0; i < 5; i++) {
        const int64_t t = cases[i].mask.dim[cases[i].mask.ndim - 2], s = cases[i].mask.dim[cases[i].mask.ndim - 1];
        ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
        ct_tensor *q = ct_randn(c, CT_F32, CT_SHAPE(cases[i].batch, 6, t, 2)), *k = ct_randn(c, CT_F32, CT_SHAPE(cases[i].batch, 6, s, 2));
        ct_tensor *mask = ct_set_requires_grad(ct_zeros(c, CT_F32, cases[i].mask), true);
        ct_tensor *y = ct_attention(q, k, k, (ct_attention_opts){.mask = mask}).out, *g = y ? ct_ones(c, CT_F32, ct_shape_of(y)) : NULL;
        ct_memory_reset_peak(c);
        const int64_t live = ct_memory(c).live;
        ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s", ct_error_message(c));
        const double sums = (double)(ct_memory(c).peak - live) / (4.0 * (double)ct_numel(mask));
        ck_assert_msg(sums > (double)cases[i].sums && sums < (double)cases[i].sums + 2.8, "%d: %g sums", i, sums);
        ct_context_free(c);
    }
}
END_TEST

START_TEST(heads_stay_where_they_were) { /* split, attended, joined: nothing is moved */
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 12)), *q = ct_transpose(ct_view(x, CT_SHAPE(2, 5, 3, 4)), 1, 2);
    ct_tensor *y = ct_attention(q, q, q, (ct_attention_opts){0}).out;
    ct_tensor *joined = ct_view(ct_transpose(y, 1, 2), CT_SHAPE(2, 5, 12));
    ck_assert_msg(joined != NULL, "%s", ct_error_message(context));
    ck_assert_ptr_nonnull(ct_data_f32(joined));
    ck_assert_ptr_nonnull(ct_data_f32(ct_attention(ct_contiguous(q), q, q, (ct_attention_opts){0}).out));
}
END_TEST

START_TEST(one_tensor_three_times) {
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(1, 2, 9, 4)), true);
    ct_attention_opts o = {.causal = true};
    ct_tensor *y[2], *grad[2];
    for (int composed = 0; composed < 2; composed++) {
        o.need_weights = composed;
        ct_zero_grad(x);
        backward(y[composed] = ct_attention(x, x, x, o).out);
        grad[composed] = ct_add_scalar(ct_grad(x), 0);
    }
    for (int64_t i = 0; i < ct_numel(x); i++) ck_assert_double_eq_tol(ct_data_f64(grad[0])[i], ct_data_f64(grad[1])[i], 1e-12);
}
END_TEST

START_TEST(one_stream_of_dropout) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(1, 2, 9, 4));
    for (int k = 0; k < 4; k++) {
        const uint64_t stream = ct_rng_get(context).stream;
        ck_assert_ptr_nonnull(ct_attention(x, x, x, (ct_attention_opts){.dropout = k / 2 * 0.5, .need_weights = k % 2}).out);
        ck_assert_uint_eq(ct_rng_get(context).stream, stream + (uint64_t)(k / 2));
    }
    ct_tensor *none = ct_attention(x, x, x, (ct_attention_opts){.dropout = 1}).out;
    for (int64_t i = 0; i < ct_numel(none); i++) ck_assert_double_eq(ct_data_f64(none)[i], 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("attention in blocks");
    TCase *all = tcase_create("fused");
    tcase_add_checked_fixture(all, open_context, close_context);
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, fused_is_composed, 0, 20);
    tcase_add_loop_test(all, edges_of_blocks, 0, 11);
    tcase_add_loop_test(all, several_blocks_in_a_cell, 0, 4);
    tcase_add_loop_test(all, rows_far_apart, 0, 2);
    tcase_add_loop_test(all, any_number_of_threads, 0, 12);
    tcase_add_test(all, one_number_for_all_cells);
    tcase_add_loop_test(all, gradients_are_right, 0, 2 * (MASKS + 1));
    tcase_add_loop_test(all, hidden_is_untouched, 0, 56);
    tcase_add_test(all, the_future_is_untouched);
    tcase_add_loop_test(all, a_query_that_sees_nothing, 0, 4);
    tcase_add_test(all, zeros_are_plain);
    tcase_add_test(all, written_not_added);
    tcase_add_test(all, a_long_sum_of_a_masks_gradient);
    tcase_add_test(all, nothing_at_all);
    tcase_add_test(all, large_scores);
    tcase_add_test(all, memory_is_linear);
    tcase_add_test(all, memory_of_a_masks_gradient);
    tcase_add_test(all, heads_stay_where_they_were);
    tcase_add_test(all, one_tensor_three_times);
    tcase_add_test(all, one_stream_of_dropout);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
