/* What the files of attention share: a call's tensors and sizes, tiles, and the products and masks
 * of a tile.
 *
 * B batches, H query heads, H_kv key heads, T queries, S keys; a query or key has d numbers, a
 * value dv. G = H / H_kv query heads share one key head. A tile is a range of queries against a
 * range of keys, of one head. Scores of a tile are computed in panels, whose rows have nr numbers
 * (lanes), nr being the columns of the micro-kernel (src/kernels/attention_tmpl.h). */
#ifndef CTI_OPS_ATTENTION_ATTENTION_H
#define CTI_OPS_ATTENTION_ATTENTION_H

#include "../../src/core/int_math.h"
#include "../support/op.h"

/* ---- the call ---- */

typedef struct {
    bool causal;       /* query i attends to keys 0 ... i */
    bool mean_weights; /* attention_weights.c: return the mean over heads */
    bool rounded;      /* products round, by forward's setting: backward computes the same scores */
    double scale;      /* of q k^T */
    double dropout;
    cti_random random;    /* of dropout */
    int64_t packed_heads; /* H if q, k and v are one tensor (B, T, 3E); else 0 */
} cti_attention_attrs;

/* A call's tensors with a dim of heads: if q, k and v are packed in one tensor, views of it. */
typedef struct {
    ct_tensor *q, *k;    /* (B, H, T, d), (B, H_kv, S, d) */
    ct_tensor *v, *out;  /* (B, H_kv, S, dv), (B, H, T, dv); either may be NULL */
    ct_tensor *mask;     /* bool or real, broadcasts to (B, H, T, S); or NULL */
    ct_tensor *key_mask; /* bool (B, S); or NULL */
    /* (2, B, H, T): each query's max score, and 1 / sum 2^(score - max). NULL if out is empty. */
    ct_tensor *stats;
    /* (B, H, T, S), masked: saved by attention_decode.c for backward. NULL if it is not used. */
    ct_tensor *scores;
} cti_attention_tensors;

/* A four-dim tensor in memory. */
typedef struct {
    char *data;        /* NULL: the call has none */
    int64_t stride[4]; /* in elements; 0 in a dim that is broadcast */
} cti_attention_operand;

/* What all tiles of a call have in common. */
typedef struct {
    cti_attention_attrs attrs;
    double score_scale; /* scale / log 2: a weight is 2^(score - max) inverse_sum */
    const cti_kernels *kernels;
    int64_t nr;        /* lanes of a panel: columns of the micro-kernel */
    int64_t mr;        /* rows of the micro-kernel */
    int64_t mr_narrow; /* its rows if it has at most kernels->attention.lanes columns; >= mr */
    const cti_gemm_kernels *rounded; /* the kernels that round products; NULL: none does */
    int64_t row_unit; /* a tile's first row in its range is a multiple of it: 1, or rounded's mr */
    int64_t d_bytes, dv_bytes;                          /* of a packed column of d, of dv numbers */
    int64_t size;                                       /* bytes of an element */
    int64_t batch, heads, kv_heads, group, t, s, d, dv; /* B, H, H_kv, G, T, S, d, dv */
    cti_attention_operand q, k, v, out;
    cti_attention_operand mask, key_mask; /* (B, H, T, S), (B, 1, 1, S) */
    bool mask_is_bool;
    char *max, *inverse_sum; /* (B, H, T) each: the two halves of stats */
    char *scores;            /* (B, H, T, S) or NULL */
} cti_attention_params;

/* Sets q, k, v, mask and key_mask from the call's inputs, the rest to NULL. False: an error. */
bool cti_attention_tensors_of(const ct_call *c, cti_attention_tensors *x);
/* Views of the three thirds of x (B, T, 3E), each (B, H, T, E / H). */
bool cti_attention_unpack(ct_tensor *x, int64_t heads, ct_tensor *third[3]);
cti_attention_params cti_attention_params_of(const ct_call *c, const cti_attention_tensors *x);
/* x broadcast to a shape of four dims. */
cti_attention_operand cti_attention_operand_of(const ct_tensor *x, ct_shape shape);
/* A new tensor (B, H, T, n). If x is a view of memory (B, T, H, ...), as ct_split_heads makes it,
 * so is the new one: then ct_combine_heads of it is a view too, and no copy. */
ct_tensor *cti_attention_new_like(const ct_call *c, const ct_tensor *x, int64_t n);

static inline char *cti_attention_at(const cti_attention_params *a, const cti_attention_operand *x,
                                     int64_t b, int64_t h, int64_t row, int64_t col) {
    const int64_t *stride = x->stride;
    return x->data + (b * stride[0] + h * stride[1] + row * stride[2] + col * stride[3]) * a->size;
}

/* The offset, in bytes, of a query's number in max and in inverse_sum. */
static inline int64_t cti_attention_stat_at(const cti_attention_params *a, int64_t b, int64_t h,
                                            int64_t query) {
    return ((b * a->heads + h) * a->t + query) * a->size;
}

/* ---- tiles ---- */

typedef struct {
    int64_t b, h;   /* batch, query head */
    int64_t q0, nq; /* queries [q0, q0 + nq) */
    int64_t k0, nk; /* keys [k0, k0 + nk) */
} cti_attention_tile;

/* All queries of a head (0 <= head < B H) against all its keys. */
static inline cti_attention_tile cti_attention_head(const cti_attention_params *a, int64_t head) {
    return (cti_attention_tile){
        .b = head / a->heads, .h = head % a->heads, .q0 = 0, .nq = a->t, .k0 = 0, .nk = a->s};
}

/* The part of a tile from its query q and key k on (both counted from q0, k0): at most nq queries
 * and nk keys. */
static inline cti_attention_tile cti_attention_tile_part(const cti_attention_tile *t, int64_t q,
                                                         int64_t nq, int64_t k, int64_t nk) {
    return (cti_attention_tile){.b = t->b,
                                .h = t->h,
                                .q0 = t->q0 + q,
                                .nq = cti_min(nq, t->nq - q),
                                .k0 = t->k0 + k,
                                .nk = cti_min(nk, t->nk - k)};
}

/* Which of the tile's keys are visible, that is, not hidden by the key mask. */
typedef enum { CTI_KEYS_ALL, CTI_KEYS_SOME, CTI_KEYS_NONE } cti_attention_keys;
cti_attention_keys cti_attention_visible_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t);

/* The key mask's element for `key`; those of later keys follow, key_mask.stride[3] apart. Only if
 * there is a key mask. */
static inline const bool *cti_attention_key_flags(const cti_attention_params *a, int64_t b,
                                                  int64_t key) {
    const int64_t *stride = a->key_mask.stride;
    return (const bool *)a->key_mask.data + b * stride[0] + key * stride[3];
}

static inline bool cti_attention_key_is_masked(const cti_attention_params *a, int64_t b,
                                               int64_t key) {
    return a->key_mask.data && !*cti_attention_key_flags(a, b, key);
}

/* How many of the tile's keys, from k0 on, its last query may attend to under the causal mask. 0 or
 * less: that mask hides the whole tile. Without a causal mask: nk. */
static inline int64_t cti_attention_causal_keys(const cti_attention_params *a,
                                                const cti_attention_tile *t) {
    return a->attrs.causal ? cti_min(t->nk, t->q0 + t->nq - t->k0) : t->nk;
}

/* How many of the tile's queries, from q0 on, may attend to none of its keys under the causal mask.
 * nq or more: that mask hides the whole tile. Without a causal mask: 0. */
static inline int64_t cti_attention_causal_hidden_queries(const cti_attention_params *a,
                                                          const cti_attention_tile *t) {
    return a->attrs.causal ? cti_max(0, t->k0 - t->q0) : 0;
}

/* The `width` of a panel of which n lanes are used: one vector, or nr. */
static inline int64_t cti_attention_width(const cti_attention_params *a, int64_t n) {
    return n <= a->kernels->attention.lanes ? a->kernels->attention.lanes : a->nr;
}

/* ---- workspace ---- */

/* Reserves rows x cols elements of the workspace: at base + *used, and adds their bytes to *used.
 * With base NULL it only counts bytes, and returns NULL. When a size overflows *used becomes
 * SIZE_MAX, which cti_take refuses. */
char *cti_attention_reserve(const cti_attention_params *a, char *base, size_t *used, int64_t rows,
                            int64_t cols);

/* ---- rows ---- */

/* Rows of a right factor that is packed: blocks of keys or queries are not longer. */
enum { CTI_ATTENTION_RIGHT_ROWS = 128 };

/* Rows of d or dv consecutive numbers, as products read them. Passed by pointer, as a copy of a
 * struct that has just been written is a store-forwarding stall (docs/design.md). */
typedef struct {
    const char *data;
    int64_t stride; /* from row to row, in elements */
} cti_attention_rows;

/* Can a product read or write n rows of `cols` numbers in place without conflict misses in L1d? */
bool cti_attention_in_place(const cti_attention_params *a, int64_t n, int64_t stride, int64_t cols);

/* The tile's queries of x (B, H, T, cols), in place or copied to buffer (nq, cols). */
cti_attention_rows cti_attention_gather_queries(const cti_attention_params *a,
                                                const cti_attention_operand *x,
                                                const cti_attention_tile *t, int64_t cols,
                                                char *buffer);
/* The tile's keys of x (B, H_kv, S, cols), in place or copied to buffer (nk, cols). If the key mask
 * hides some, their rows are zeros in the copy, so that no NaN in them reaches a product. */
cti_attention_rows cti_attention_gather_keys(const cti_attention_params *a,
                                             const cti_attention_operand *x,
                                             const cti_attention_tile *t, int64_t cols,
                                             char *buffer);

/* The same rows from row `first` on. */
static inline cti_attention_rows
cti_attention_rows_from(const cti_attention_params *a, const cti_attention_rows *x, int64_t first) {
    return (cti_attention_rows){.data = x->data + first * x->stride * a->size, .stride = x->stride};
}

/* ---- factors of products ---- */

/* A factor that is many rows of a tensor is read in place (cti_attention_rows) or, where products
 * are rounded, packed to a buffer. As its data and stride then are such that
 * cti_attention_rows_from finds a later row as well, a caller need not know. A left factor's row is
 * a row of A, and `first` a multiple of row_unit; a right one's is a row of B, of the same. */

/* Do products of such an attention round now? */
bool cti_attention_is_rounded(const ct_context *context, ct_dtype dtype, int64_t t, int64_t s,
                              int64_t d, int64_t dv);

/* Packs x, n rows of `cols` numbers, as a left or a right factor. Only if products are rounded. */
cti_attention_rows cti_attention_left(const cti_attention_params *a, const cti_attention_rows *x,
                                      int64_t n, int64_t cols, char *buffer);
cti_attention_rows cti_attention_right(const cti_attention_params *a, const cti_attention_rows *x,
                                       int64_t n, int64_t cols, char *buffer);

/* Bytes from one panel of a right factor to its next. */
static inline int64_t cti_attention_right_panel(const cti_attention_params *a) {
    return a->nr * CTI_ATTENTION_RIGHT_ROWS * a->rounded->packed_bytes;
}

/* Reserve their buffers. */
static inline char *cti_attention_reserve_left(const cti_attention_params *a, char *base,
                                               size_t *used, int64_t n, int64_t cols) {
    return cti_attention_reserve(a, base, used, cti_round_up(n, a->row_unit),
                                 cti_gemm_packed(a->rounded, cols) / a->size);
}
static inline char *cti_attention_reserve_right(const cti_attention_params *a, char *base,
                                                size_t *used, int64_t cols) {
    return cti_attention_reserve(a, base, used, cti_ceil_div(cols, a->nr),
                                 cti_attention_right_panel(a) / a->size);
}

/* K^T, Q^T and V^T are packed as columns, whose panels of nr are B of a panel of scores; a column
 * takes d_bytes or dv_bytes. */
static inline char *cti_attention_reserve_columns(const cti_attention_params *a, char *base,
                                                  size_t *used, int64_t n, int64_t bytes) {
    return cti_attention_reserve(a, base, used, n, (int64_t)((size_t)bytes / (size_t)a->size));
}

/* Packs B (k, n), whose element (i, j) is at i row + j col, into panels (k, nr) of the computed
 * type. The panel of columns [j, j + nr) begins at element j k of `packed`. */
void cti_attention_pack(const cti_attention_params *a, int64_t k, int64_t n, const char *b,
                        int64_t row, int64_t col, char *packed);

/* Packs the n columns of B (k, n). */
static inline void cti_attention_pack_columns(const cti_attention_params *a, int64_t k, int64_t n,
                                              const char *b, int64_t row, int64_t col,
                                              char *packed) {
    if (a->rounded) a->rounded->pack_b(k, n, b, row, col, packed);
    else cti_attention_pack(a, k, n, b, row, col, packed);
}

/* Around a thread's products. */
static inline void cti_attention_begin(const cti_attention_params *a) {
    if (a->rounded && a->rounded->begin) a->rounded->begin();
}
static inline void cti_attention_end(const cti_attention_params *a) {
    if (a->rounded && a->rounded->end) a->rounded->end();
}

/* ---- products ---- */

/* panel (m, width) = alpha A B: A (m, k) a left factor, B a panel of packed columns (k, nr). */
void cti_attention_panel_product(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel);

/* A band matrix A (m, k), such as weights under the causal mask: element (i, j), at i row + j col,
 * is zero unless i + low <= j < i + high. A micro-kernel computes up to mr_narrow rows at once, and
 * reads for all of them the columns in which any of them is not zero. In these columns memory must
 * hold the zeros. In all others memory is not read, and may hold anything. */
typedef struct {
    const char *data;
    int64_t row, col; /* strides, in elements */
    int64_t m, k, low, high;
} cti_attention_band;

/* C (m, cols) = alpha A B, or C += with accumulate; B (k, cols) a right factor. C's rows are c_row
 * apart. Where products are rounded A is packed here; up to row_unit - 1 of its columns before the
 * first that is not zero are read too. */
void cti_attention_band_product(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row);

/* The last two, rounded. */
void cti_attention_rounded_panel(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel);
void cti_attention_rounded_band(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row);

/* Counts for a profile the work of products that take `per_pair` multiplications for each pair of a
 * query and a key, without the pairs that the causal mask hides. */
void cti_attention_count(ct_context *context, const cti_attention_params *a, int64_t per_pair);

/* ---- masks ---- */

/* Applies all masks to the scores of a tile that is one panel: hidden scores become -inf, and a
 * real mask is added. Rows are queries and lanes are keys; if transposed, rows are keys and lanes
 * are queries. bias is scratch memory of a panel; stage, of (nq, nk) elements, is used only for a
 * bool mask and a transposed panel. */
void cti_attention_mask_panel(const cti_attention_params *a, const cti_attention_tile *t,
                              bool transposed, char *panel, char *bias, char *stage);

/* Applies all masks but the causal one to a tile of one query, whose scores are one row of nk.
 * scores and bias (scratch memory) have room for nk rounded up to a multiple of nr. */
void cti_attention_mask_row(const cti_attention_params *a, const cti_attention_tile *t,
                            char *scores, char *bias);

/* ---- schedule ---- */

enum {
    CTI_ATTENTION_DECODE_QUERIES = 2,    /* at most so many queries: attention_decode.c */
    CTI_ATTENTION_QUERY_BLOCK = 120,     /* backward: a multiple of every micro-kernel's rows */
    CTI_ATTENTION_MOST_KEYS = 1024,      /* backward: the longest range of keys */
    CTI_ATTENTION_THREAD_COST = 1 << 20, /* multiplications from which waking a thread pays off */
};

/* Forward: a piece of work is a range of q_range queries of one head against all keys, k_block of
 * them at a time. */
typedef struct {
    int64_t q_ranges, q_range, k_block;
    int64_t grain; /* pieces that a thread takes at once */
} cti_attention_forward_schedule;
cti_attention_forward_schedule cti_attention_schedule_forward(const cti_attention_params *a);

/* Backward: a piece of work is a pair of a range of q_range queries and a range of k_range keys.
 * There are q_ranges x k_ranges pairs; the last range of each is shorter. Inside a pair, blocks of
 * CTI_ATTENTION_QUERY_BLOCK queries meet blocks of k_block keys. */
typedef struct {
    int64_t q_ranges, q_range, k_ranges, k_range, k_block;
    int64_t grain; /* pairs of ranges that a thread takes at once */
} cti_attention_backward_schedule;
/* Neither B, H, T nor S is 0. */
cti_attention_backward_schedule cti_attention_schedule_backward(const cti_attention_params *a);

/* Which key range a query range is paired with in a step, 0 <= step < k_ranges. Over all steps each
 * pair occurs once; within a step no two query ranges have the same key range. */
int64_t cti_attention_keys_of_step(const cti_attention_backward_schedule *s, int64_t q_range,
                                   int64_t step);

/* ---- the ops ---- */

/* Inputs of the fused op. All but q may be NULL: k and v where q is packed. */
enum {
    CTI_ATTENTION_Q,
    CTI_ATTENTION_K,
    CTI_ATTENTION_V,
    CTI_ATTENTION_MASK,
    CTI_ATTENTION_KEY_MASK,
    CTI_ATTENTION_INPUTS
};

/* The fused op. Returns out: (B, H, T, dv), or packed (B, T, E). If stats is not NULL, *stats is a
 * second output, (2, B, H, T), through which no gradient flows. NULL: an error. */
ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                               const cti_attention_attrs *attrs, ct_tensor **stats);
/* Its forward for up to CTI_ATTENTION_DECODE_QUERIES queries. False: out of memory, recorded. */
bool cti_attention_decode(ct_context *context, const cti_attention_params *a);
bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad);

/* The weights that the fused op has used, from its statistics: (B, H, T, S), or their mean over
 * heads, (B, T, S). Without dropout. */
ct_tensor *cti_attention_weights(ct_tensor *const in[CTI_ATTENTION_INPUTS], ct_tensor *stats,
                                 const cti_attention_attrs *attrs);

/* Attention as a composition of public ops, with the weights (B, H, T, S) in memory. opts->scale is
 * used as it is: 0 is not the default here. */
ct_attention_out cti_attention_composed(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                        const ct_attention_opts *opts);
/* Part of it: softmax(scale q k^T + masks), (B, H, T, S). */
ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, const ct_attention_opts *opts);
/* Part of it: x (B, H_kv, S, d) with zeros for keys that the key mask hides, so that their values
 * reach no product and their gradients are zeros. */
ct_tensor *cti_attention_zero_masked(ct_tensor *x, ct_tensor *key_mask);

#endif
