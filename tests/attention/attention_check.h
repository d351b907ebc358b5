/* Helpers of the suites of tiled attention: problems with every option, layout and mask, solved by
 * ct_attention or by its scalar reference, and compared. */
#ifndef ATTENTION_CHECK_H
#define ATTENTION_CHECK_H

#include "tests/support/op_check.h"

#include "src/core/isa.h"
#include "tests/attention/reference_op.h"

static uint64_t state;
static inline uint64_t draw(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}
/* A random number that f32 represents exactly. */
static inline double noise(void) {
    return (double)(float)(((double)draw(1 << 20) + (double)draw(1 << 20)) * 0x1p-19 - 2);
}

typedef struct {
    int64_t b, h, kv, t, s, d, dv;
    bool causal, keys;
    int mask; /* 0: none; otherwise the index of its shape, for a bool or a float mask */
    bool mask_is_bool;
    int bias; /* the same of a bias beside a bool mask */
    ct_window window;
    bool lower_right, lengths;
    /* 0: none; 1: ids that rise; 2: ids in any order; 3: tokens of one id that are apart; 4: three
     * ids in turns of 7 tokens */
    int segments;
    double dropout, scale, softcap;
    int layout[3];   /* layouts of q, k, v: 0 dense, 1 split heads, 2 transposed, 3 expanded */
    bool transposed; /* whether the cotangent is transposed */
    uint64_t seed;
} problem;

/* An assertion for inner loops, which Check does not record. */
#define HOLDS(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                               \
    } while (0)

enum { MASKS = 10 };
static inline ct_shape shape_of_mask(const problem *p, int index) {
    switch (index) {
    case 1: return CT_SHAPE(p->t, p->s);
    case 2: return CT_SHAPE(p->b, 1, 1, p->s);
    case 3: return CT_SHAPE(p->b, 1, p->t, p->s);
    case 4: return CT_SHAPE(p->b, p->h, p->t, p->s);
    case 5: return CT_SHAPE(p->h, p->t, p->s);
    case 6: return CT_SHAPE(p->t, 1);
    case 7: return CT_SHAPE(p->h, 1, 1);
    case 8: return CT_SHAPE(p->s);
    case 9: return CT_SHAPE(p->b, p->h, 1, p->s);
    case MASKS + 1: return CT_SHAPE(p->b, 1, 1, 1);
    default: return CT_SCALAR;
    }
}
static inline ct_shape mask_shape(const problem *p) { return shape_of_mask(p, p->mask); }

/* The results, in f64: out, the weights if they are wanted, and the gradients of q, k, v and the
 * mask. */
enum { OUT, WEIGHTS, DQ, DK, DV, DMASK, RESULTS };
typedef struct {
    double *value[RESULTS];
    int64_t count[RESULTS];
} result;

static inline void forget(result r) {
    for (int i = 0; i < RESULTS; i++) free(r.value[i]);
}

/* The keys and values of a run: leaves, or rounded to bf16 without a gradient, as f32 or as bf16.
 */
typedef enum { KEYS_LEAVES, KEYS_ROUNDED, KEYS_BF16 } keys_kind;

typedef struct {
    ct_dtype dtype;
    keys_kind keys;
    bool reference; /* whether the scalar reference computes attention */
    /* 0: none, 1: of each head, 2: their mean; if any, they have a cotangent too */
    int weights;
    const char *isa;
    ct_matmul_precision matmul;
    int threads;
    /* changes the values of the dense inputs before they are used */
    void (*change)(const problem *, double *q, double *k, double *v);
    /* changes a cotangent, of out or of the weights */
    void (*change_cotangent)(const problem *, ct_tensor *g);
    const bool *key_mask;   /* NULL: random */
    const int64_t *lengths; /* NULL: random */
    /* bool or double; NULL: random */
    const void *mask;
} how;

static inline ct_tensor *leaf(ct_context *c, ct_dtype dtype, ct_shape shape, const double *value,
                              int64_t n) {
    if (dtype == CT_F64) return ct_set_requires_grad(ct_from_f64(c, shape, value), true);
    float *single = malloc((size_t)(n + 1) * sizeof *single);
    for (int64_t i = 0; i < n; i++) single[i] = (float)value[i];
    ct_tensor *x = ct_set_requires_grad(ct_from_f32(c, shape, single), true);
    free(single);
    return x;
}

/* A (b, h, t, d) view of the leaf, in one of the four layouts. */
static inline ct_tensor *laid_out(ct_tensor *x, int layout, int64_t b, int64_t h, int64_t t,
                                  int64_t d) {
    switch (layout) {
    case 1: return ct_transpose(ct_view(x, CT_SHAPE(b, t, h, d)), 1, 2);
    case 2: return ct_transpose(ct_view(x, CT_SHAPE(b, h, d, t)), 2, 3);
    case 3:
        return ct_expand(ct_narrow(ct_view(x, CT_SHAPE(b, h, t, d)), 0, 0, 1),
                         CT_SHAPE(b, h, t, d));
    default: return ct_view(x, CT_SHAPE(b, h, t, d));
    }
}

static inline ct_tensor *cotangent_of(ct_tensor *y, ct_dtype dtype) {
    const int64_t n = ct_numel(y);
    double *value = malloc((size_t)(n + 1) * sizeof *value);
    for (int64_t i = 0; i < n; i++) value[i] = noise();
    ct_tensor *g = ct_detach(leaf(ct_context_of(y), dtype, ct_shape_of(y), value, n));
    free(value);
    return g;
}

static inline void keep_values(ct_tensor *x, result *r, int i) {
    r->count[i] = x ? ct_numel(x) : 0;
    r->value[i] = malloc((size_t)(r->count[i] + 1) * sizeof(double));
    if (x) ck_assert(ct_to_f64(x, r->value[i], r->count[i]));
}

static inline result solve(const problem *p, how w) {
    result r = {0};
    ct_context *c = ct_context_new((ct_context_opts){
        .seed = 7, .threads = w.threads ? w.threads : 2, .isa = w.isa, .matmul = w.matmul});
    const int64_t n[3] = {p->b * p->h * p->t * p->d, p->b * p->kv * p->s * p->d,
                          p->b * p->kv * p->s * p->dv};
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
        ct_tensor *from = x[i];
        if (i && w.keys) from = ct_cast(ct_detach(from), CT_BF16);
        if (i && w.keys == KEYS_ROUNDED) from = ct_cast(from, w.dtype);
        in[i] = laid_out(from, p->layout[i], p->b, i ? p->kv : p->h, i ? p->s : p->t,
                         i < 2 ? p->d : p->dv);
        free(value[i]);
    }
    ct_attention_opts o = {.causal = p->causal,
                           .dropout = p->dropout,
                           .scale = p->scale,
                           .need_weights = w.weights > 0,
                           .mean_weights = w.weights == 2};
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
        for (int64_t i = 0; i < p->b * p->s; i++)
            flags[i] = draw(4) > 0 && (p->s < 200 || i % p->s < 70 || i % p->s > 200);
        o.key_mask = ct_from_bool(c, CT_SHAPE(p->b, p->s), w.key_mask ? w.key_mask : flags);
        free(flags);
    }
    o.window = p->window, o.lower_right = p->lower_right, o.softcap = p->softcap;
    if (p->bias) {
        const ct_shape shape = shape_of_mask(p, p->bias);
        int64_t m = 1;
        for (int d = 0; d < shape.ndim; d++) m *= shape.dim[d];
        double *bias = malloc((size_t)(m + 1) * sizeof *bias);
        for (int64_t i = 0; i < m; i++) bias[i] = draw(5) == 0 ? -INFINITY : noise();
        o.bias = leaf(c, w.dtype, shape, bias, m);
        free(bias);
    }
    if (p->lengths) {
        o.lengths = ct_zeros(c, CT_I64, CT_SHAPE(p->b));
        for (int64_t b = 0; b < p->b; b++)
            ct_data_i64(o.lengths)[b] =
                w.lengths ? w.lengths[b] : (int64_t)draw((uint64_t)p->s + 1);
    }
    if (p->segments) {
        static const int64_t ids[] = {3, -7, 12, 5, 0, 44};
        o.segments = ct_zeros(c, CT_I64, CT_SHAPE(p->b, p->t));
        for (int64_t b = 0; b < p->b; b++)
            for (int64_t t = 0, id = 0; t < p->t; t++) {
                if (draw(p->segments == 3 ? 4 : 40) == 0) id++;
                ct_data_i64(o.segments)[b * p->t + t] = p->segments == 4   ? t / 7 % 3
                                                        : p->segments == 1 ? id
                                                        : p->segments == 2 ? id * 1000003 % 997
                                                                           : ids[id % 6];
            }
    }
    const ct_attention_out a =
        (w.reference ? reference_attention : ct_attention)(in[0], in[1], in[2], o);
    ck_assert_msg(a.out && !a.weights == !(w.weights || w.reference), "%s", ct_error_message(c));
    has_shape(a.out, CT_SHAPE(p->b, p->h, p->t, p->dv));
    if (w.weights == 1) has_shape(a.weights, CT_SHAPE(p->b, p->h, p->t, p->s));
    if (w.weights == 2) has_shape(a.weights, CT_SHAPE(p->b, p->t, p->s));
    ct_tensor *y[2] = {a.out, w.weights ? a.weights : NULL}, *g[2] = {cotangent_of(a.out, w.dtype)};
    if (p->transposed) g[0] = ct_transpose(ct_contiguous(ct_transpose(g[0], 1, 3)), 1, 3);
    if (y[1]) g[1] = cotangent_of(y[1], w.dtype);
    for (int i = 0; i < 2 && w.change_cotangent; i++)
        if (g[i]) w.change_cotangent(p, g[i]);
    ck_assert_msg(ct_backward_with(y, g, y[1] ? 2 : 1, (ct_backward_opts){0}), "%s",
                  ct_error_message(c));
    keep_values(y[0], &r, OUT);
    keep_values(y[1], &r, WEIGHTS);
    for (int i = 0; i < 3; i++) keep_values(ct_grad(x[i]), &r, DQ + i);
    keep_values(o.bias                       ? ct_grad(o.bias)
                : o.mask && !p->mask_is_bool ? ct_grad(o.mask)
                                             : NULL,
                &r, DMASK);
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    ct_context_free(c);
    return r;
}

static inline void describe(const problem *p, char text[256]) {
    snprintf(text, 256,
             "b %d h %d/%d t %d s %d d %d/%d causal %d keys %d mask %d%s bias %d "
             "window %d %d lower %d lengths %d segments %d softcap %g dropout %g layouts "
             "%d%d%d%d seed %d",
             (int)p->b, (int)p->h, (int)p->kv, (int)p->t, (int)p->s, (int)p->d, (int)p->dv,
             p->causal, p->keys, p->mask, p->mask_is_bool ? " bool" : "", p->bias,
             (int)p->window.left, (int)p->window.right, p->lower_right, p->lengths, p->segments,
             p->softcap, p->dropout, p->layout[0], p->layout[1], p->layout[2], p->transposed,
             (int)p->seed);
}

static const char *const names[] = {"out", "weights", "dq", "dk", "dv", "dmask"};

/* A gradient of scores may cancel to nearly zero (for a single key, or a mask that shifts whole
 * rows). Estimates the size of the terms of its sum. */
static inline double terms_of(const problem *p, int i, int64_t count) {
    const double sums = i == DQ || i == DK || i == DMASK ? (double)(p->b * p->h * p->t) : 1;
    const double scores = i == DMASK ? (double)p->s
                          : i == DQ  ? 1 / (double)(p->h * p->t)
                                     : 1 / (double)p->kv;
    return i == OUT || i == WEIGHTS || i == DV
               ? 1
               : sqrt((double)p->dv *
                      fmax(1, sums * scores / fmax(1, (double)(i == DMASK ? count : p->b))));
}

/* Checks that the largest error is within the tolerance, relative to the largest value or to the
 * terms of its sum. */
static inline void near(const problem *p, result got, result want, double tolerance,
                        const char *what) {
    char text[256];
    describe(p, text);
    for (int i = 0; i < RESULTS; i++) {
        double largest = terms_of(p, i, want.count[i]), worst = 0;
        ck_assert_int_eq(got.count[i], want.count[i]);
        for (int64_t k = 0; k < want.count[i]; k++) {
            largest = fmax(largest, fabs(want.value[i][k]));
            worst = fmax(worst, fabs(got.value[i][k] - want.value[i][k]));
            HOLDS(isfinite(got.value[i][k]) && isfinite(want.value[i][k]),
                  "%s: %s[%d] is %g, %g: %s", what, names[i], (int)k, got.value[i][k],
                  want.value[i][k], text);
        }
        ck_assert_msg(worst <= tolerance * largest, "%s: %s is off by %g of %g: %s", what, names[i],
                      worst, largest, text);
    }
}

static inline void same_bits(const problem *p, result got, result want, const char *what) {
    char text[256];
    describe(p, text);
    for (int i = 0; i < RESULTS; i++) {
        ck_assert_int_eq(got.count[i], want.count[i]);
        for (int64_t k = 0; k < want.count[i]; k++)
            HOLDS(got.value[i][k] == want.value[i][k], "%s: %s[%d] is %.9g, not %.9g: %s", what,
                  names[i], (int)k, got.value[i][k], want.value[i][k], text);
    }
}

static inline problem random_problem(uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 33, 64, 65, 128},
                         heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}, {6, 3}};
    problem p = {.seed = seed};
    state = seed * 77 + 5;
    draw(2);
    const int64_t *h = heads[draw(5)];
    p.b = (int64_t)draw(3) + 1, p.h = h[0], p.kv = h[1];
    p.t = sizes[draw(9)], p.s = sizes[draw(9)], p.d = sizes[draw(9)],
    p.dv = draw(2) ? p.d : sizes[draw(9)];
    p.causal = draw(2), p.keys = draw(2);
    p.mask = draw(3) ? (int)draw(MASKS + 1) : 0;
    p.mask_is_bool = p.mask && draw(2);
    p.dropout = draw(3) ? 0 : 0.3;
    p.scale = draw(3) ? 0 : 0.2;
    for (int i = 0; i < 3; i++) p.layout[i] = (int)draw(4);
    p.transposed = draw(2);
    return p;
}

/* A random problem with some of the fields that limit what is seen. */
static inline problem limited_problem(uint64_t seed, bool large) {
    static const int64_t large_sizes[] = {150, 241, 400, 129, 260};
    problem p = random_problem(seed);
    if (large) {
        p.t = large_sizes[draw(5)], p.s = large_sizes[draw(5)];
        p.b = (int64_t)draw(2) + 1, p.h = 2, p.kv = (int64_t)draw(2) + 1, p.d = 5, p.dv = 6;
    }
    const uint64_t span = (uint64_t)(p.t + p.s) / 2 + 2;
    if (p.mask && !p.mask_is_bool) p.mask = 0;
    if (draw(2)) p.mask = 0, p.mask_is_bool = false;
    if (draw(3) == 0) p.bias = (int)draw(MASKS) + 1;
    if (draw(2)) p.window.left = (int64_t)draw(span) + 1;
    if (draw(3) == 0) p.window.right = (int64_t)draw(span) + 1;
    if (draw(3) == 0) p.lower_right = true;
    if (draw(3) == 0) p.lengths = true;
    if (draw(3) == 0) p.softcap = 0.7;
    if (draw(3) == 0) p.segments = (int)draw(3) + 1, p.s = p.t;
    return p;
}

static inline const char *isa_of(int i) {
    int count = 0;
    while (cti_isa_at(count)) count++;
    return cti_isa_at(i % count)->name;
}

/* Compares attention in f64 and in f32 with the reference in f64, on the same values,
 * without weights, with each head's weights, or with their mean. */
static inline void agree(const problem *p, const char *isa) {
    const int weights = (int)((p->seed + (uint64_t)p->causal) % 3);
    const how written = {CT_F64, .reference = true, .weights = weights};
    const result want = solve(p, written);
    for (int k = 0; k < 2; k++) {
        const result got = solve(p, (how){k ? CT_F32 : CT_F64, .weights = weights, .isa = isa});
        near(p, got, want, k ? 3e-6 : 1e-12, isa);
        forget(got);
    }
    forget(want);
}

#endif
