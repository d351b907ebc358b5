/* Gradient checking: the backward against central differences of the forward, and what kind of
 * mistake a wrong one looks like. docs/gradcheck.md explains the method, the choice of eps and
 * tolerances, and how to read a report. */
#ifndef CT_GRADCHECK_H
#define CT_GRADCHECK_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function under test: one tensor from n. It is called many times, each time in a scope of its
 * own and with the context's generator as it was at the start. */
typedef ct_tensor *(*ct_fn)(ct_tensor *const *in, int n, void *arg);

typedef struct {
    double eps;  /* step of the difference; 0: 1e-6, or 1e-2 where f32 takes part */
    double atol; /* 0: 1e-8, or 1e-3 where f32 takes part */
    double rtol; /* 0: 1e-6, or 1e-2 where f32 takes part */
    /* three random directions of each input instead of every element: for large inputs */
    bool fast;
    uint64_t seed;      /* of the cotangents and directions */
    FILE *report;       /* where a report goes; NULL: none */
    bool gradient_only; /* leave out what else is checked (threads, memory, strides ...) */
    /* also compare f32 with f64. Only for functions that take both: in the other dtype, ct_data_f64
     * and its like give NULL */
    bool both_dtypes;
} ct_gradcheck_opts;

/* What a wrong gradient looks like: the first in this order that accounts for all of the error. */
typedef enum {
    CT_MISTAKE_NONE,
    CT_MISTAKE_UNKNOWN, /* wrong in no way that is known */
    /* backward failed, or its gradient has another shape or dtype; the diagnosis is the engine's
     * sentence */
    CT_MISTAKE_REFUSED,
    /* two runs give other bits: the forward, or the backward of one forward */
    CT_MISTAKE_NONDETERMINISTIC,
    CT_MISTAKE_WRITES,  /* an input or the cotangent is written to */
    CT_MISTAKE_MEMORY,  /* what new memory happens to hold shows in the result */
    CT_MISTAKE_THREADS, /* 1 and several threads give other bits */
    /* strided or expanded inputs give something else than dense ones */
    CT_MISTAKE_LAYOUT,
    CT_MISTAKE_SHARED,     /* one tensor passed twice does not get the sum of two gradients */
    CT_MISTAKE_DTYPE,      /* f32 and f64 do not agree */
    CT_MISTAKE_NOT_FINITE, /* the gradient is infinite or not a number */
    /* differences from the left and from the right disagree: no derivative here; move the point */
    CT_MISTAKE_KINK,
    CT_MISTAKE_PRECISION, /* the error is within the differences' own noise */
    CT_MISTAKE_ZERO,      /* no gradient at all */
    CT_MISTAKE_SIGN,      /* times -1 */
    CT_MISTAKE_FACTOR,    /* times a constant */
    /* the scale of a mask or of dropout is forgotten, or applied twice */
    CT_MISTAKE_SCALE,
    CT_MISTAKE_COTANGENT, /* the cotangent is ignored, or not used linearly */
    CT_MISTAKE_MASK,      /* elements that do not reach the output get a gradient */
    /* a sum over the output's dims is missing or runs over the wrong ones */
    CT_MISTAKE_SUM,
    /* of several contributions to one element only the last is there */
    CT_MISTAKE_ASSIGNED,
    CT_MISTAKE_TRANSPOSED,
    CT_MISTAKE_PERMUTED,
    CT_MISTAKE_CHAIN, /* the local derivative, or a factor of it, is missing */
    /* the derivative is taken at the output instead of the input, or the reverse */
    CT_MISTAKE_FORWARD_VALUE,
    CT_MISTAKE_EDGES, /* wrong at the edges of blocks, or at an end of a dim */
    /* a term is missing: a sum of the cotangent over a dim, a multiple of the output, one at the
     * target alone */
    CT_MISTAKE_TERM,
    CT_MISTAKE_PRODUCT_RULE, /* one factor of a product is taken for a constant */
    /* right when every element of the cotangent is the same, else wrong */
    CT_MISTAKE_UNIFORM
} ct_mistake;

/* "sign", "product rule"; a static string */
CT_API const char *ct_mistake_name(ct_mistake mistake);

/* An element of an input with what was found at the cotangent where it is worst. */
typedef struct {
    int input;
    int64_t index; /* row-major; -1 in fast mode */
    /* the element of the output that the cotangent was 1 at, else 0; -1: a random cotangent, -2:
     * ones, -3: zeros */
    int64_t output;
    double analytic, numeric;
    double error, relative; /* |analytic - numeric|, and that over |numeric| */
    /* by how much two steps disagreed: what the numeric value may be off by itself */
    double noise;
} ct_gradcheck_element;

enum { CT_GRADCHECK_WORST = 10, CT_GRADCHECK_MAP = 8 * 33 + 1 };

typedef struct {
    bool ran; /* false: the function failed; the context has the error */
    /* all is right: nothing else is wrong, and |analytic - numeric| <= atol |g| + rtol |numeric|
     * everywhere, with |g| the cotangent's length, at least 1 */
    bool ok;
    int input;     /* of the worst element: which input ... */
    int64_t index; /* ... and which element of it, row-major; -1 in fast mode */
    double analytic, numeric;
    char diagnosis[256]; /* a sentence; "" when ok */
    ct_mistake mistake;
    /* analytic / numeric for a SIGN, a FACTOR or a SCALE; else 0 */
    double factor;
    /* elements of inputs; in fast mode directions */
    int64_t checked, wrong;
    /* the largest |analytic - numeric|, and by how much two steps disagreed at most */
    double error, noise;
    /* the worst first: by the error over what is allowed */
    ct_gradcheck_element worst[CT_GRADCHECK_WORST];
    int worst_count; /* how many of them are wrong */
    /* where in the worst input: lines of at most 32 cells; '.' is right, a digit how many powers of
     * ten above what is allowed, 'x' not finite; "" when ok or in fast mode */
    char map[CT_GRADCHECK_MAP];
} ct_gradcheck_result;

/* Checks the gradients of every f32 or f64 input; others are passed through. For each cotangent g
 * of a set, and each element i, <g, dy/dx_i> from backward must equal <g, y(x + eps e_i) - y(x -
 * eps e_i)> / (2 eps). The set: 1 at one element of the output, for each element (left out where
 * these are more than 1,024, or output times inputs more than 2^18); two random ones; ones; zeros.
 * The output's elements are differenced before they are weighted, so what does not depend on x_i
 * cancels to the bit. A second difference with 2 eps says how far to trust the first.
 *
 * Also, unless opts.gradient_only: two runs, and two backwards of one, give the same bits, so do 1
 * and several threads, and memory that held something else; inputs and cotangent are not written
 * to; strided, expanded and shared inputs work.
 *
 * A wrong gradient is a result, not an error of the context, and so is a backward that fails for
 * any reason but memory. The inputs' own gradients and flags are left as they were; what else
 * requires a gradient in the function gathers some. */
CT_API ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                        ct_gradcheck_opts opts);

#ifdef __cplusplus
}
#endif
#endif
