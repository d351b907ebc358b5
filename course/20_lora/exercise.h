/* Your file defines a linear layer with a low-rank adapter, its beginning and its merging. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    double scale; /* of what the adapter adds; papers write alpha / R */
} lora_attrs;

/* Inputs, f64: x (N, I), weight (O, I), bias (O) or NULL, a (R, I), b (O, R). Output (N, O):
 *
 *     y = x weight^T + bias + scale (x a^T) b^T
 *
 * The flags of the op include CT_OP_OPTIONAL, because the bias may be NULL. Backward sets grad[i]
 * for inputs with call->wants[i], and does no work for others. */
extern const ct_op lora;

/* New adapters of a layer, which require a gradient and change nothing yet: *a (R, I) is uniform
 * between -1 / sqrt I and 1 / sqrt I, *b (O, R) is 0. Returns false with an error if this fails. */
extern bool lora_init(ct_context *context, int64_t out, int64_t in, int64_t rank, ct_tensor **a,
                      ct_tensor **b);

/* weight (out, in) += scale b a, in place, with a (rank, in) and b (out, rank). With -scale the
 * adapter is taken out again. */
extern void lora_merge(int64_t out, int64_t in, int64_t rank, double *weight, const double *a,
                       const double *b, double scale);

#endif
