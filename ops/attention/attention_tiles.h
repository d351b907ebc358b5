/* Tiles of attention: a call's tensors, their places in memory, and the rows of a tile.
 *
 * A tile is a range of queries against a range of keys of one head. Scores of a tile are computed
 * in panels, whose rows have nr numbers (lanes); nr is the number of columns of the micro-kernel
 * (src/kernels/attention_tmpl.h). */
#ifndef CTI_OPS_ATTENTION_ATTENTION_TILES_H
#define CTI_OPS_ATTENTION_ATTENTION_TILES_H

#include "../../src/core/assert.h"
#include "../../src/core/int_math.h"
#include "attention.h"
#include "../../src/kernels/attention_kernels.h"

/* ---- tensors ---- */

/* The tensors of a call, each with a dim of heads. If q, k and v are packed in one tensor these are
 * views of it. */
struct cti_attention_tensors {
    ct_tensor *q, *k;    /* (B, H, T, d), (B, H_kv, S, d) */
    ct_tensor *v, *out;  /* (B, H_kv, S, dv), (B, H, T, dv); either may be NULL */
    ct_tensor *mask;     /* bool, broadcasts to (B, H, T, S); or NULL */
    ct_tensor *bias;     /* real, broadcasts to (B, H, T, S); or NULL */
    ct_tensor *key_mask; /* bool (B, S); or NULL */
    ct_tensor *lengths;  /* i64 (B); or NULL */
    ct_tensor *segments; /* i64 (B, T); or NULL */
    ct_tensor *extents;  /* i64 (B, T, 4): cti_attention_read_segments has read it from segments */
    /* (2, B, H, T): each query's max score, and 1 / sum 2^(score - max). NULL if out is empty. */
    ct_tensor *stats;
    /* (B, H, T, S), masked: saved by attention_decode.c for backward. NULL if it is not used. */
    ct_tensor *scores;
};

/* Sets q, k, v, masks, bias, lengths and segments from the call's inputs, and the other fields to
 * NULL. False: an error. */
bool cti_attention_tensors_of(const ct_call *c, cti_attention_tensors *x);
/* Makes views of the three thirds of x (B, T, 3E), each (B, H, T, E / H). False: an error. */
bool cti_attention_unpack(ct_tensor *x, int64_t heads, ct_tensor *third[3]);
/* Returns a new tensor (B, H, T, n). If x is a view of memory (B, T, H, ...), which ct_split_heads
 * makes, so is the new one: ct_combine_heads of it is then a view too, and no copy. NULL: an
 * error. */
ct_tensor *cti_attention_new_like(const ct_call *c, const ct_tensor *x, int64_t n);

/* ---- operands ---- */

/* A four-dim tensor in memory. */
typedef struct {
    char *data;        /* NULL if the call has no such tensor */
    int64_t stride[4]; /* in elements; 0 in a dim that is broadcast */
} cti_attention_operand;

typedef struct cti_attention_segment cti_attention_segment; /* attention_masks.h */

/* The data that all tiles of a call have in common. */
struct cti_attention_params {
    cti_attention_attrs attrs;
    /* the factor of q k^T: scale / log 2, so that a weight is 2^(score - max) inverse_sum; with a
     * softcap scale / softcap */
    double score_scale;
    double cap; /* softcap / log 2; 0: none */
    const cti_kernels *kernels;
    /* converts from keys_dtype to dtype; NULL if these are one type */
    void (*widen)(int64_t n, const void *x, void *y);
    int64_t nr;        /* the lanes of a panel: columns of the micro-kernel */
    int64_t mr;        /* the rows of the micro-kernel */
    int64_t mr_narrow; /* its rows for at most kernels->attention->lanes columns; >= mr */
    const cti_gemm_kernels *rounded; /* the kernels that round products, or NULL */
    int64_t row_unit; /* a tile begins at a multiple of this in its range: 1 or rounded->mr */
    int64_t d_bytes, dv_bytes; /* bytes of a packed column of d, dv */
    int64_t size, keys_size;   /* the bytes of an element of dtype and of keys_dtype */
    int64_t batch, heads, kv_heads, group, t, s, d, dv; /* B, H, H_kv, G, T, S, d, dv */
    cti_attention_operand q, k, v, out;
    cti_attention_operand mask, bias, key_mask; /* (B, H, T, S) twice, (B, 1, 1, S) */
    const int64_t *lengths;                     /* (B), lengths_stride apart; NULL: none */
    int64_t lengths_stride;
    const cti_attention_segment *segments; /* (B, T); NULL: none */
    bool has_window;                       /* a window or lower_right limits diagonals */
    bool limited;                          /* has_window, lengths or segments */
    bool hides_keys;                       /* a key mask or lengths */
    bool masked;                           /* any mask but causal, or a bias */
    /* Whether a tile may have pairs that are hidden one by one, so that products must keep rows
     * that are not finite from them (attention_hidden.h). */
    bool guarded;
    /* the types of q, of scores and of results; of k and v, bf16 or the same; of statistics */
    ct_dtype dtype, keys_dtype, stats_dtype;
    int64_t stat_size;       /* the bytes of a statistic */
    char *max, *inverse_sum; /* (B, H, T) each: the two halves of stats */
    char *scores;            /* (B, H, T, S) or NULL */
};

/* Sets all fields of a call's params. */
void cti_attention_params_of(const ct_call *c, const cti_attention_tensors *x,
                             cti_attention_params *a);
/* Returns x, which has four dims. */
static inline cti_attention_operand cti_attention_operand_of(const ct_tensor *x) {
    CTI_ASSERT(x->shape.ndim == 4);
    const int64_t *stride = x->stride;
    return (cti_attention_operand){.data = x->data,
                                   .stride = {stride[0], stride[1], stride[2], stride[3]}};
}
/* Returns x broadcast to a shape of four dims. */
cti_attention_operand cti_attention_broadcast(const ct_tensor *x, ct_shape shape);

static inline char *cti_attention_at(const cti_attention_params *a, const cti_attention_operand *x,
                                     int64_t b, int64_t h, int64_t row, int64_t col) {
    const int64_t *stride = x->stride;
    return x->data + (b * stride[0] + h * stride[1] + row * stride[2] + col * stride[3]) * a->size;
}

/* Returns the place of a query head's key in k, or of its value in v. */
static inline const char *cti_attention_key_at(const cti_attention_params *a,
                                               const cti_attention_operand *x, int64_t b, int64_t h,
                                               int64_t key) {
    const int64_t *stride = x->stride;
    return x->data + (b * stride[0] + h / a->group * stride[1] + key * stride[2]) * a->keys_size;
}

/* ---- tiles ---- */

typedef struct {
    int64_t b, h;   /* batch, query head */
    int64_t q0, nq; /* queries [q0, q0 + nq) */
    int64_t k0, nk; /* keys [k0, k0 + nk) */
} cti_attention_tile;

/* Returns the tile of all queries of a head (0 <= head < B H) against all its keys. */
static inline cti_attention_tile cti_attention_head(const cti_attention_params *a, int64_t head) {
    return (cti_attention_tile){
        .b = head / a->heads, .h = head % a->heads, .q0 = 0, .nq = a->t, .k0 = 0, .nk = a->s};
}

/* Returns the tile of at most nq queries of a tile, from its query q on, and at most nk keys, from
 * its key k on; q and k are counted from q0 and k0. */
static inline cti_attention_tile cti_attention_subtile(const cti_attention_tile *t, int64_t q,
                                                       int64_t nq, int64_t k, int64_t nk) {
    CTI_ASSERT(0 <= q && q <= t->nq && 0 <= k && k <= t->nk);
    return (cti_attention_tile){.b = t->b,
                                .h = t->h,
                                .q0 = t->q0 + q,
                                .nq = cti_min(nq, t->nq - q),
                                .k0 = t->k0 + k,
                                .nk = cti_min(nk, t->nk - k)};
}

/* Returns the index in (B, H, T) of the tile's query i. */
static inline int64_t cti_attention_query(const cti_attention_params *a,
                                          const cti_attention_tile *t, int64_t i) {
    CTI_ASSERT(0 <= t->b && t->b < a->batch && 0 <= t->h && t->h < a->heads);
    CTI_ASSERT(0 <= i && i < t->nq && t->q0 + t->nq <= a->t && t->k0 + t->nk <= a->s);
    return (t->b * a->heads + t->h) * a->t + t->q0 + i;
}

/* Returns whether the statistics of the tile's query i can come from a softmax: the largest score
 * has the weight 1, so a sum is at least 1. Both numbers are 0 if all keys are hidden from the
 * query. For asserts. */
static inline bool cti_attention_stats_are_sound(const cti_attention_params *a,
                                                 const cti_attention_tile *t, int64_t i) {
    const int64_t query = cti_attention_query(a, t, i);
    const double inverse_sum = cti_real_get(a->stats_dtype, a->inverse_sum, query);
    if (inverse_sum == 0) return !(cti_real_get(a->stats_dtype, a->max, query) < 0);
    return !(inverse_sum < 0) && !(inverse_sum > 1); /* it may be NaN */
}

/* Sets row i of y to x (nk) times dropout's factors for the weights of the tile's query i; rows of
 * y are `row` elements apart. The random number of a factor has the index of its weight in (B, H,
 * T, S). */
void cti_attention_dropout(const cti_attention_params *a, const cti_attention_tile *t,
                           const char *x, int64_t row, char *y);

/* Returns the `width` of a panel of which n lanes are used: one vector, or nr. */
static inline int64_t cti_attention_width(const cti_attention_params *a, int64_t n) {
    CTI_ASSERT(0 < n && n <= a->nr);
    return n <= a->kernels->attention->lanes ? a->kernels->attention->lanes : a->nr;
}

/* Returns the last row at or before row i of a range at which a tile may begin. */
static inline int64_t cti_attention_tile_begin(const cti_attention_params *a, int64_t i) {
    return a->rounded ? i / a->row_unit * a->row_unit : i;
}

/* ---- rows ---- */

/* Rows of d or dv consecutive numbers, as products read them. They are passed by pointer, because a
 * copy of a struct that has just been written is a store-forwarding stall (docs/design.md). */
typedef struct {
    const char *data;
    int64_t stride; /* elements from one row to the next */
} cti_attention_rows;

/* Returns whether a product can read or write n rows of `cols` numbers in place without conflict
 * misses in L1d. */
bool cti_attention_in_place(const cti_attention_params *a, int64_t n, int64_t stride, int64_t cols);

/* Returns the tile's queries of x (B, H, T, cols), in place or copied to buffer (nq, cols). */
cti_attention_rows cti_attention_gather_queries(const cti_attention_params *a,
                                                const cti_attention_operand *x,
                                                const cti_attention_tile *t, int64_t cols,
                                                char *buffer);
/* Returns the tile's keys of x (B, H_kv, S, cols), in place or copied to buffer (nk, cols), which
 * widens keys of bf16. Rows of keys that the key mask or lengths hide are zeros in the copy
 * (attention_hidden.h, invariant 3). */
cti_attention_rows cti_attention_gather_keys(const cti_attention_params *a,
                                             const cti_attention_operand *x,
                                             const cti_attention_tile *t, int64_t cols,
                                             char *buffer);

/* Returns the same rows from row `first` on. */
static inline cti_attention_rows
cti_attention_rows_from(const cti_attention_params *a, const cti_attention_rows *x, int64_t first) {
    return (cti_attention_rows){.data = x->data + first * x->stride * a->size, .stride = x->stride};
}

#endif
