/* Your file defines the product of matrices, of batches of them, and with the second one
 * transposed. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    bool transpose; /* y = a b^T instead of a b */
} matmul_attrs;

/* Inputs, f64: a (M, K) or (B, M, K); b (K, N) or (B, K, N), with transpose (N, K) or (B, N, K).
 * Output (M, N), or (B, M, N) if either input has a batch. */
extern const ct_op matmul;

#endif
