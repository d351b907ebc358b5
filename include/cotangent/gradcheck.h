/* Gradient checking: the backward against central differences of the forward, in f64. */
#ifndef CT_GRADCHECK_H
#define CT_GRADCHECK_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function under test: one tensor from n. It is called many times, each time in a scope of its own and with the
 * context's generator as it was at the start. */
typedef ct_tensor *(*ct_fn)(ct_tensor *const *in, int n, void *arg);

typedef struct {
    double eps;    /* step of the difference; 0: 1e-6 for f64, 1e-2 for f32 */
    double atol;   /* 0: 1e-8 for f64, 1e-3 for f32 */
    double rtol;   /* 0: 1e-6 for f64, 1e-2 for f32 */
    bool fast;     /* one random projection v^T J u an input instead of every element */
    uint64_t seed; /* of the cotangents and projections */
    FILE *report;  /* NULL: none */
} ct_gradcheck_opts;

typedef struct {
    bool ran;          /* false: the function failed; the context has the error */
    bool ok;           /* |analytic - numeric| <= atol + rtol |numeric| everywhere */
    int input;         /* of the worst element: which input ... */
    int64_t index;     /* ... and which element of it, row-major; -1 in fast mode */
    double analytic, numeric;
    char diagnosis[256]; /* a sentence; "" when ok */
} ct_gradcheck_result;

/* Checks the gradients of every f32 or f64 input; others are passed through. For an output y and a random cotangent g,
 * (d <g, y> / d x)_i must equal (<g, y(x + eps e_i)> - <g, y(x - eps e_i)>) / (2 eps). A wrong gradient is a result, not an
 * error of the context. The inputs' own gradients and flags are left as they were. */
CT_API ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n, ct_gradcheck_opts opts);

#ifdef __cplusplus
}
#endif
#endif
