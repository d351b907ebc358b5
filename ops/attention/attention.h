/* What the two directions of fused attention share: the operands where they lie, the masks on a panel of scores, scratch. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_H
#define CTI_OPS_ATTENTION_ATTENTION_H

#include "../support/op.h"

typedef struct {
    bool causal;
    double scale, dropout;
    cti_random random;
    int64_t heads; /* q, k and v are one tensor, (B, T, 3E) of so many heads; 0: they are (B, H, T, d) each */
    bool mean;     /* of the weights: over heads */
} cti_attention_attrs;

/* A (B, H, T, d) tensor where it lies; also a mask, whose strides are 0 where it repeats. */
typedef struct {
    char *data;
    int64_t stride[4]; /* in elements */
} cti_attention_part;

typedef struct {
    cti_attention_attrs set;
    double score_scale; /* of q k^T: scale / log 2, as weights are made by 2^score */
    const cti_kernels *k;
    int64_t size; /* of an element, in bytes */
    int64_t batch, heads, kv_heads, group, t, s, d, dv;
    cti_attention_part q, key, value, out, mask, keys; /* keys is (B, 1, 1, S); data NULL: no such mask */
    bool mask_is_bool;
    char *max, *inverse; /* (B, H, T): of each query's scores, and 1 / sum 2^(score - max) */
    char *scores;        /* (B, H, T, S), masked: behind those two, of CTI_ATTENTION_FEW queries or less that want a gradient; else NULL */
} attention;

/* Inputs: q, k, v, mask, key mask, and room for each query's max and inverse, (2, B, H, T), where the caller wants them */
enum { CTI_ATTENTION_INPUTS = 6, CTI_ATTENTION_FEW = 2 };

/* How backward is cut: tn ranges of tr queries against sn of sr keys, in blocks of CTI_ATTENTION_QUERIES and of `keys`; so many cells, or
 * more, make it worth while to wake another thread. No operand is empty. */
typedef struct {
    int64_t tn, tr, sn, sr, keys, grain;
} cti_attention_cells;
enum { CTI_ATTENTION_QUERIES = 120, CTI_ATTENTION_RANGE = 1024 }; /* queries of a block: a multiple of every mr; keys of a cell, at most */
cti_attention_cells cti_attention_cells_of(const attention *a);
/* The range of keys that a range of queries meets in a step: each in one of the sn steps, and no two the same in one. */
int64_t cti_attention_cell_keys(const cti_attention_cells *c, int64_t queries, int64_t step);

bool cti_attention_unpack(ct_tensor *x, int64_t heads, ct_tensor *part[3]); /* the thirds of (B, T, 3E) */
bool cti_attention_operands(const ct_call *c, ct_tensor *part[3]);          /* q, k and v, however they come */
attention cti_attention_of(const ct_call *c, ct_tensor *const part[3], ct_tensor *out, ct_tensor *stats);
cti_attention_part cti_attention_part_of(const ct_tensor *x, ct_shape shape); /* x broadcast to four dims */
/* A new (B, H, T, n), in memory (B, T, H, n) where x is: heads that were split without moving can then be joined so. */
ct_tensor *cti_attention_new_like(const ct_call *c, const ct_tensor *x, int64_t n);

ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS], const cti_attention_attrs *attrs); /* the op; no shape is checked */
/* The weights that it took, without dropout, (B, H, T, S) or with `mean` (B, T, S): of its inputs but v, with max and inverse filled in. */
ct_tensor *cti_attention_weights_of(ct_tensor *const in[CTI_ATTENTION_INPUTS], const cti_attention_attrs *attrs);
/* The same from primitive ops, which have their gradients: softmax(q k^T scale + masks), (B, H, T, S). */
ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, ct_tensor *mask, ct_tensor *keys, bool causal, double scale);
/* x (B, H, S, d) with zeros for the keys that are hidden, whatever stands there: their gradients are zeros, and no product sees them. */
ct_tensor *cti_attention_unhidden(ct_tensor *x, ct_tensor *keys);
bool cti_attention_few(ct_context *context, const attention *a); /* its forward for CTI_ATTENTION_FEW queries or less */
bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad);

static inline int64_t cti_attention_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cti_attention_pieces(int64_t n, int64_t size) { return n / size + (n % size != 0); }
static inline int64_t cti_attention_up(int64_t n, int64_t size) { return cti_attention_pieces(n, size) * size; }

/* How many lanes of a panel to compute for n in use. */
static inline int64_t cti_attention_width(const attention *a, int64_t n) {
    return n <= a->k->attention.lanes ? a->k->attention.lanes : a->k->gemm.nr;
}

static inline char *cti_attention_at(const attention *a, cti_attention_part x, int64_t b, int64_t h, int64_t row, int64_t col) {
    return x.data + (b * x.stride[0] + h * x.stride[1] + row * x.stride[2] + col * x.stride[3]) * a->size;
}

/* A place in a worker's scratch: with base NULL only its size is counted. A size that overflows is SIZE_MAX from then on. */
char *cti_attention_carve(const attention *a, char *base, size_t *used, int64_t rows, int64_t cols);

/* A block of rows as products read it, d or dv numbers next to each other: where it lies, or a copy in `stage`. Handed on by pointer: to copy
 * one that has just been written is to wait for it (src/gemm/gemm.h). */
typedef struct {
    const char *data;
    int64_t row;
} cti_attention_rows;

/* May n rows be read and written where they lie, or are they too far from each other? step is a row's, in elements. */
bool cti_attention_is_near(const attention *a, int64_t n, int64_t step, int64_t cols);
/* Copied if not. */
cti_attention_rows cti_attention_near(const attention *a, cti_attention_part x, int64_t b, int64_t h, int64_t first, int64_t n, int64_t cols,
                              char *stage);
/* Of keys or values: what the key mask hides is copied as zeros, so that no product ever sees it. */
cti_attention_rows cti_attention_seen(const attention *a, cti_attention_part x, int64_t b, int64_t h, int64_t k0, int64_t n, int64_t cols, char *stage);

static inline cti_attention_rows cti_attention_from(const attention *a, const cti_attention_rows *x, int64_t first) {
    return (cti_attention_rows){x->data + first * x->row * a->size, x->row};
}

bool cti_attention_hides(const attention *a, int64_t b, int64_t k0, int64_t n); /* does the key mask hide some of these? */
bool cti_attention_hides_all(const attention *a, int64_t b, int64_t k0, int64_t n);

/* Panels of `lanes` columns each, packed as a product's B: panel i holds columns i nr on. x is rows x columns with those steps. */
void cti_attention_pack_b(const attention *a, int64_t rows, int64_t cols, const char *x, int64_t row, int64_t col, char *packed,
                      int64_t packed_rows);
/* c[m][width] = alpha A B: A of m rows and k columns, B one panel of k rows; c is a panel too. */
void cti_attention_product(const attention *a, int64_t m, int64_t width, int64_t k, const cti_attention_rows *rows, const char *panel,
                       double alpha, char *c);

/* Weights in a panel as a product's A: m rows of k, with these steps. Row i holds nothing but zeros before its column i + low and from
 * i + high on; it need not be zeros that are there. */
typedef struct {
    const char *data;
    int64_t row, col, m, k, low, high;
} cti_attention_weights;
/* c[m][cols] = or += alpha A B, B k rows where they lie. */
void cti_attention_gather(const attention *a, const cti_attention_weights *x, int64_t cols, const cti_attention_rows *rows, double alpha, bool add,
                      char *c, int64_t c_row);

/* Hides what the masks hide in the scores of queries q0 ... q0 + nq - 1 and keys k0 ... k0 + nk - 1 of one head, and adds a float mask.
 * Rows are queries and lanes keys, or, `turned`, rows keys and lanes queries. bias has room for a panel, stage for nr rows of nk. */
void cti_attention_masks(const attention *a, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, bool turned, char *panel,
                     char *bias, char *stage);

/* The same for one query and its first n keys: a row of scores, as panels of whole rows; bias is as long. */
void cti_attention_mask_row(const attention *a, int64_t b, int64_t h, int64_t t, int64_t n, char *scores, char *bias);

#endif
