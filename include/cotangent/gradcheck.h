/* Gradient checking: compares backward with central differences of the forward, and diagnoses the
 * kind of mistake in a wrong gradient. docs/gradcheck.md explains the method, the choice of eps and
 * tolerances, and how to read a report. */
#ifndef CT_GRADCHECK_H
#define CT_GRADCHECK_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* step of the difference, for an element above 1 times its size; 0: 1e-6, or 1e-2 where f32
     * takes part. Where the error of a difference is too large other steps are tried */
    double eps;
    double atol; /* or CT_ZERO; 0: 1e-8, or 1e-3 where f32 takes part */
    double rtol; /* or CT_ZERO; 0: 1e-6, or 1e-2 where f32 takes part */
    /* three random directions of each input instead of every element: for large inputs */
    bool fast;
    uint64_t seed;      /* of the cotangents and directions */
    FILE *report;       /* where to print a report; NULL: nowhere */
    bool gradient_only; /* check only gradients, not threads, memory, strides, ... */
    /* also compare f32 with f64: only for functions that take both */
    bool both_dtypes;
    /* where to write the report as a page for a browser, complete in itself: the diagnosis, a map
     * of the errors of each input, the worst elements, the recorded graph (the function is called
     * once more). NULL: nowhere. If it cannot be written, the context has CT_ERR_IO and the result
     * stays
     */
    FILE *html;
} ct_gradcheck_opts;

typedef enum {
    CT_VERDICT_OK,
    CT_VERDICT_WRONG,
    /* nothing is known to be wrong, but some elements are near a kink or a jump, where the function
     * is not finite, or so noisy that their differences do not say; or the check did not run */
    CT_VERDICT_CANNOT_TELL
} ct_verdict;

/* The kind of mistake: the first in this order that explains the whole error. */
typedef enum {
    CT_MISTAKE_NONE,
    CT_MISTAKE_UNKNOWN, /* no known mistake explains the error */
    /* backward failed, or its gradient has another shape or dtype; the diagnosis is the error's
       message */
    CT_MISTAKE_REFUSED,
    /* two runs, or two backwards of one forward, give different bits */
    CT_MISTAKE_NONDETERMINISTIC,
    CT_MISTAKE_WRITES,  /* an input or the cotangent is written to */
    CT_MISTAKE_MEMORY,  /* the result depends on the content of newly allocated memory */
    CT_MISTAKE_THREADS, /* 1 and several threads give different bits */
    /* strided or expanded inputs give another result than dense ones */
    CT_MISTAKE_LAYOUT,
    CT_MISTAKE_SHARED,     /* a tensor passed twice does not get the sum of two gradients */
    CT_MISTAKE_DTYPE,      /* f32 and f64 do not agree */
    CT_MISTAKE_NOT_FINITE, /* the gradient is infinite or not a number */
    /* slopes to both sides, or with several steps, disagree by as much as the gradient is off:
     * there is no derivative, or none that differences can tell; use another point */
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
    /* of several contributions to an element only the last is kept */
    CT_MISTAKE_ASSIGNED,
    CT_MISTAKE_TRANSPOSED,
    CT_MISTAKE_PERMUTED,
    CT_MISTAKE_CHAIN, /* the local derivative, or a factor of it, is missing */
    /* the derivative is taken at the output instead of the input, or the reverse */
    CT_MISTAKE_FORWARD_VALUE,
    CT_MISTAKE_EDGES, /* wrong at the edges of blocks, or at an end of a dim */
    /* a term is missing: a sum of the cotangent over a dim, a multiple of the output, or one at the
     * target of a loss */
    CT_MISTAKE_TERM,
    CT_MISTAKE_PRODUCT_RULE, /* one factor of a product is taken for a constant */
    /* right only if all elements of the cotangent are equal */
    CT_MISTAKE_UNIFORM,
    CT_MISTAKE_ROUNDING, /* something is computed in f32 where all else is f64 */
    /* the cotangent itself, as of a residual connection, is missing or too many */
    CT_MISTAKE_RESIDUAL,
    CT_MISTAKE_EXCHANGED, /* two inputs have each other's gradients */
    CT_MISTAKE_OPERAND,   /* one operand is used where another is meant */
    CT_MISTAKE_REVERSED,  /* a dim, or the kernel of a convolution, is reversed */
    CT_MISTAKE_THRESHOLD, /* wrong exactly above or below a threshold of the input */
    CT_MISTAKE_ROWS,      /* each row along a dim is off by a factor of its own */
    /* a constant, a factor or a term is wrong in the same way at every index */
    CT_MISTAKE_FORMULA,
    /* an op keeps something between forward and backward outside of its call, as in a static
     * variable. It comes before all that is said of the gradient itself */
    CT_MISTAKE_STATE
} ct_mistake;

/* "sign", "product rule"; a static string */
CT_API const char *ct_mistake_name(ct_mistake mistake);

/* An element of an input, compared for the cotangent with the largest error. */
typedef struct {
    int input;
    int64_t index; /* row-major; -1 in fast mode */
    /* which cotangent: 1 at this element of the output and 0 elsewhere; -1: random, -2: ones, -3:
     * zeros, -4: random, but very large or very small */
    int64_t output;
    double analytic, numeric;
    double error, relative; /* |analytic - numeric|, and that over |numeric| */
    /* an estimate of the error of `numeric`: its difference to that with twice the step, or that of
     * the best of many steps */
    double noise;
} ct_gradcheck_element;

enum { CT_GRADCHECK_WORST = 10, CT_GRADCHECK_MAP = 8 * 33 + 1 };

typedef struct {
    bool ran; /* false: the function failed; the context has the error */
    /* no mistake was found, and |analytic - numeric| <= atol max(1, |g|) + rtol |numeric|
     * everywhere, with |g| the norm of the cotangent */
    bool ok; /* verdict is CT_VERDICT_OK */
    ct_verdict verdict;
    int input;     /* input of the worst element */
    int64_t index; /* index of the worst element, row-major; -1 in fast mode */
    double analytic, numeric;
    char diagnosis[256]; /* a sentence; "" when ok */
    ct_mistake mistake;
    /* analytic / numeric for SIGN, FACTOR or SCALE, otherwise 0 */
    double factor;
    /* counts of input elements, in fast mode of directions: all, those that differ, and those of
     * these whose differences cannot tell */
    int64_t checked, wrong, undecided;
    /* the largest |analytic - numeric|, and the largest noise of an element */
    double error, noise;
    /* sorted by error / tolerance, the worst first */
    ct_gradcheck_element worst[CT_GRADCHECK_WORST];
    int worst_count; /* number of entries in worst[] */
    /* map of the input with the worst element, in lines of at most 32 cells: '.' right, a digit:
     * powers of ten above the tolerance, 'x' not finite. "" if ok or in fast mode */
    char map[CT_GRADCHECK_MAP];
} ct_gradcheck_result;

/* Checks the gradients of every f32 or f64 input; others are passed through. The function is called
 * many times, each time in its own scope and with the random generator reset to its initial state.
 * For several cotangents
 * g and each element i, <g, dy/dx_i> from backward must equal <g, y(x + h e_i) - y(x - h e_i)>
 * / (2 h), with h = eps max(1, |x_i|). The cotangents are: 1 at one element of the output, for each
 * element (unless there are more than 1,024, or output times inputs have more than 2^18); two
 * random ones; ones; zeros; a very large and a very small one. Each output element is differenced
 * before the sum with g, so elements that do not depend on x_i cancel exactly. A second difference
 * with step 2 h estimates the error of the first. An element that disagrees is measured
 * with up to 24 steps, on both sides of x and along directions. It is wrong if it is farther from a
 * difference than these differ from each other, the slopes to both sides from one another, and
 * rounding allows. Else it is right or, near a kink or a jump or in the noise, undecided.
 *
 * Unless opts.gradient_only it also checks that results are the same bits for two runs, two
 * backwards of one run, any number of threads and any content of new memory; that a backward gives
 * the same if the function was called at other inputs since its forward, and that the gradient is
 * right there too; that inputs and cotangent are not written to; and that strided, expanded and
 * shared inputs work. The other inputs have their elements in reversed order, those that are
 * checked times 3/4. While it runs
 * the function on strided inputs, or in the other dtype, ct_data_* of these gives a dense copy
 * where it would refuse, and the refusal is the diagnosis.
 *
 * A wrong gradient is a result, not an error of the context; so is a backward that fails for any
 * reason except memory. The inputs' own gradients and flags stay as they were. Other leaves that
 * the function uses accumulate gradients. */
CT_API ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                        ct_gradcheck_opts opts);

#ifdef __cplusplus
}
#endif
#endif
