/* A NaN behind a mask: the rule, and the code that keeps it.
 *
 * A key that a query does not see has the weight 0. For finite numbers that is enough, because 0
 * times a value adds nothing. But 0 times a NaN or an infinity is NaN, and what a mask hides is
 * often that: padding may be memory that nobody has written.
 *
 * The rule. A pair of a query and a key is hidden if a mask, the key mask, lengths, a diagonal
 * (causal, window), segments or a bias of -inf hides it. Behind a mask any number may stand: in the
 * key, its value and its bias and, for gradients, in the query and its cotangent. All other pairs
 * have the bits that they have beside finite hidden numbers. A query that does see a NaN gets it: a
 * guard never repairs what is visible.
 *
 * Invariants:
 *
 * 1. The score of a hidden pair is -inf, whatever its query, key and bias hold. So its weight is
 *    exactly 0. The masks set the score instead of adding to it (attention_masks.c;
 *    attention_add_bias in attention_tmpl.h; row_masked_softmax in softmax_tmpl.h).
 * 2. The score of a pair of weight 0 has the gradient 0, although dP and <dO, O> may be NaN
 *    (softmax_backward in attention_tmpl.h, t_masked_softmax_backward in softmax_tmpl.h). If the
 *    statistics of the row are NaN, the weight is NaN too, and cti_hidden_clear_pairs sets both.
 * 3. A key that the key mask or lengths hide from all queries is not read: it counts as a row of
 *    zeros, and its gradients are +0 (cti_attention_gather_keys, the runs of keys in
 *    attention_decode.c, key_range_end in attention_pair.c; cti_hidden_zero_rows for tensors). A
 *    module zeroes the rows before it projects them (nn/attention/mha.c): otherwise the gradient of
 *    its weight would contain them.
 * 4. All other hidden pairs meet in the products P V, P^T dO, dS K and dS^T Q, where the left
 *    factor has the weight 0. A row of the right factor that is not finite is zeros in the product,
 *    and is added afterwards where its weight is not 0 (cti_hidden_guard, cti_hidden_add). A
 *    product of one query leaves out the rows of weight 0 instead (cti_hidden_leave_out).
 * 5. A call of finite numbers pays only for a look at its results: forward computes a second time,
 *    with a guard, what has a NaN; backward guards if a statistic, <dO, O> or a sum of columns
 *    tells that a number is not finite.
 *
 * attention_reference.h has the same by a plain `if`. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_HIDDEN_H
#define CTI_OPS_ATTENTION_ATTENTION_HIDDEN_H

#include "attention_tiles.h"

/* ---- rows of a product's right factor (invariant 4) ---- */

/* The rows of a factor that are not finite. */
typedef struct {
    cti_attention_rows rows; /* as they are in the tensor */
    const bool *bad;         /* whether a row is not finite; NULL: all rows are */
} cti_hidden_rows;

/* The buffers of a guard. In a pass they are reserved only if a->guarded. */
typedef struct {
    bool *bad;   /* (rows) */
    char *clean; /* (rows, cols) */
} cti_hidden_buffers;

/* Returns which of x, n rows of `cols` numbers, are not finite. If any is, *x becomes a copy with
 * zeros in place of it. n is not 0. */
cti_hidden_rows cti_hidden_guard(const cti_kernels *f, int64_t size, cti_attention_rows *x,
                                 int64_t n, int64_t cols, const cti_hidden_buffers *w);

typedef struct cti_attention_band cti_attention_band; /* attention_products.h */

/* C (m, cols) += alpha A B for the rows of B that were guarded and are not finite, where A is not
 * 0. */
void cti_hidden_add(const cti_kernels *f, ct_dtype dtype, const cti_attention_band *a, int64_t cols,
                    double alpha, char *c, int64_t c_row);

/* Copies B (k, n), whose element (i, j) is at i row + j col, with zeros in the rows i whose weight
 * is 0. row and col become the strides of the copy, whose elements have the order that they have in
 * B, so a product sums them in the same order. */
void cti_hidden_leave_out(const cti_attention_params *a, int64_t k, int64_t n, const char *weights,
                          const char *b, int64_t *row, int64_t *col, char *copy);

/* ---- pairs of a tile (invariant 2) ---- */

/* Returns whether P of hidden pairs may be NaN for one of the tile's queries: a score of it is NaN
 * or +inf, or all its scores are -inf, and then 1 / sum is NaN or 0. scratch has room for a number.
 */
bool cti_hidden_breaks_weights(const cti_attention_params *a, const cti_attention_tile *t,
                               char *scratch);

/* Sets P, a panel, and dS, whose rows are ds_row apart, to 0 for the pairs of a tile whose element
 * of the panel `hidden` is -inf. */
void cti_hidden_clear_pairs(const cti_attention_params *a, const cti_attention_tile *t,
                            const char *hidden, char *p, char *ds, int64_t ds_row);

/* ---- tensors ---- */

/* Returns x (B, ..., S, n), of 3 or 4 dims, with zeros in the rows whose element of seen (B, S) is
 * false. The gradient of such a row is zeros too. */
ct_tensor *cti_hidden_zero_rows(ct_tensor *x, ct_tensor *seen);

/* Returns A B, guarded, of A (b, h, m, k), which is 0 for hidden pairs, and B (b, h, k, n). It is
 * not recorded. */
ct_tensor *cti_hidden_product(ct_tensor *a, ct_tensor *b);

/* Returns ds, with zeros where p is 0 if a number in ds is not finite. NULL if ds is NULL. */
ct_tensor *cti_hidden_clear_gradient(ct_tensor *p, ct_tensor *ds);

/* Returns a mask of the pairs that `seen`, which may be NULL, and a bias of -inf leave visible. If
 * no score is NaN the bias hides by itself, and the result is `seen`. */
ct_tensor *cti_hidden_by_bias(ct_tensor *seen, ct_tensor *bias, const ct_tensor *scores);

#endif
