/* This header has functions that check gradients. ct_gradcheck compares backward with central
 * differences of the forward, and diagnoses the kind of mistake in a wrong gradient. ct_jacobian
 * computes the Jacobian by backward and by differences, as two matrices.
 * docs/gradcheck.md explains the method, the choice of eps and tolerances, and how to read a
 * report. */
#ifndef CT_GRADCHECK_H
#define CT_GRADCHECK_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* the step of the differences, h = eps max(1, |x_i|); 0: 1e-6, or 1e-2 if an input or the
     * output is f32. Other steps are tried if the error of a difference is too large */
    double eps;
    double atol; /* 0: 1e-8, or 1e-3 if an input or the output is f32; or CT_ZERO */
    double rtol; /* 0: 1e-6, or 1e-2 if an input or the output is f32; or CT_ZERO */
    /* three random directions of each input are checked instead of every element, which saves time
     * for large inputs */
    bool fast;
    uint64_t seed;      /* the seed of the random cotangents and directions */
    FILE *report;       /* the file to which a report is printed; NULL: no report */
    bool gradient_only; /* only gradients are checked, not the further properties listed below */
    bool both_dtypes;   /* f32 and f64 are compared too; only for functions that take both */
    /* the file to which the report is written as an HTML page without other files: the diagnosis, a
     * map of the errors of each input, the worst elements, and the recorded graph (for which the
     * function is called once more). NULL: no page. If the page cannot be written, the context has
     * CT_ERR_IO, and the result is valid */
    FILE *html;
} ct_gradcheck_opts;

typedef enum {
    CT_VERDICT_OK,
    CT_VERDICT_WRONG,
    /* the check did not run; or no mistake is known, but some elements are undecided: they are near
     * a kink, a jump or a point where the function is not finite, or their noise is too large */
    CT_VERDICT_CANNOT_TELL
} ct_verdict;

/* The kind of mistake: the first that is found. The calls are checked before the numbers of the
 * gradient: whether backward fails, whether runs agree, and what the function writes and keeps. A
 * wrong gradient of correct calls gets the simplest kind that explains its whole error. Kinds are
 * not tried in the order of this enum. */
typedef enum {
    CT_MISTAKE_NONE,
    CT_MISTAKE_UNKNOWN, /* no known mistake explains the error */
    /* backward failed, or returned a gradient of another shape or dtype; the diagnosis is the
     * message of the error */
    CT_MISTAKE_REFUSED,
    /* two runs, or two runs of backward after one forward, give different bits */
    CT_MISTAKE_NONDETERMINISTIC,
    CT_MISTAKE_WRITES,  /* an input or the cotangent is written to */
    CT_MISTAKE_MEMORY,  /* the result depends on the content of newly allocated memory */
    CT_MISTAKE_THREADS, /* 1 and several threads give different bits */
    /* strided or expanded inputs give another result than dense ones */
    CT_MISTAKE_LAYOUT,
    CT_MISTAKE_SHARED,     /* a tensor passed twice does not get the sum of its two gradients */
    CT_MISTAKE_DTYPE,      /* f32 and f64 do not agree */
    CT_MISTAKE_NOT_FINITE, /* the gradient is infinite or NaN */
    /* the slopes to the left and right, or with several steps, differ by as much as the error, so
     * there is no derivative, or differences cannot measure it. Check at another point */
    CT_MISTAKE_KINK,
    CT_MISTAKE_PRECISION, /* the error is within the noise of the differences */
    CT_MISTAKE_ZERO,      /* the gradient is 0 everywhere */
    CT_MISTAKE_SIGN,      /* the gradient is multiplied by -1 */
    CT_MISTAKE_FACTOR,    /* the gradient is multiplied by a constant */
    /* the scale of a mask or of dropout is forgotten, or applied twice */
    CT_MISTAKE_SCALE,
    CT_MISTAKE_COTANGENT, /* the cotangent is ignored, or not used linearly */
    CT_MISTAKE_MASK,      /* elements that do not reach the output get a gradient */
    /* a sum over dims of the output is missing, or is over the wrong dims */
    CT_MISTAKE_SUM,
    /* an element with several contributions gets only the last of them */
    CT_MISTAKE_ASSIGNED,
    CT_MISTAKE_TRANSPOSED, /* the gradient is transposed */
    CT_MISTAKE_PERMUTED,   /* the elements of the gradient are in another order */
    CT_MISTAKE_CHAIN,      /* the local derivative, or a factor of it, is missing */
    /* the derivative is taken at the output instead of the input, or the reverse */
    CT_MISTAKE_FORWARD_VALUE,
    CT_MISTAKE_EDGES, /* the gradient is wrong at the edges of blocks, or at an end of a dim */
    /* a term is missing: a sum of the cotangent over a dim, a multiple of the output, or a term at
     * the target of a loss */
    CT_MISTAKE_TERM,
    CT_MISTAKE_PRODUCT_RULE, /* one factor of a product is taken for a constant */
    /* the gradient is right only if all elements of the cotangent are equal */
    CT_MISTAKE_UNIFORM,
    CT_MISTAKE_ROUNDING, /* a part of an f64 computation is done in f32 */
    /* the cotangent itself, as from a residual connection, is missing or added too often */
    CT_MISTAKE_RESIDUAL,
    CT_MISTAKE_EXCHANGED, /* two inputs have each other's gradients */
    CT_MISTAKE_OPERAND,   /* the formula uses one operand in place of another */
    CT_MISTAKE_REVERSED,  /* a dim, or the kernel of a convolution, is reversed */
    CT_MISTAKE_THRESHOLD, /* the gradient is wrong exactly above or below a threshold of the input
                           */
    CT_MISTAKE_ROWS,      /* each row along a dim is wrong by its own factor */
    /* a constant, a factor or a term is wrong in the same way at every index */
    CT_MISTAKE_FORMULA,
    /* an op keeps a value between forward and backward outside its call, as in a static variable */
    CT_MISTAKE_STATE,
    /* a gradient, or the value, changes if some other input wants no gradient, as with frozen
     * weights */
    CT_MISTAKE_WANTS
} ct_mistake;

/* Returns the name of a mistake, such as "sign" or "product rule"; a static string. */
CT_API const char *ct_mistake_name(ct_mistake mistake);

/* An element of an input, with the cotangent for which its error is largest. */
typedef struct {
    int input;
    int64_t index; /* the row-major index in the input; -1 in fast mode */
    /* the kind of cotangent. A number r >= 0 means 1 at element r of the output and 0 at the
     * others; -1: random; -2: ones; -3: zeros; -4: random, but very large or very small */
    int64_t output;
    double analytic, numeric; /* the derivatives from backward and from differences */
    double error, relative;   /* |analytic - numeric|, and error / |numeric| */
    /* an estimate of the error of `numeric`: how far it is from the difference with twice the step,
     * or the estimate for the best of many steps */
    double noise;
} ct_gradcheck_element;

enum { CT_GRADCHECK_WORST = 10, CT_GRADCHECK_MAP = 8 * 33 + 1 };

typedef struct {
    bool ran; /* false if the function failed or memory was short; the context has the error */
    /* true if verdict is CT_VERDICT_OK: no mistake was found, and |analytic - numeric| <= atol
     * max(1, |g|)
     * + rtol |numeric| for all elements and cotangents g, with |g| the norm of g */
    bool ok;
    ct_verdict verdict;
    int input;                /* the input of the worst element */
    int64_t index;            /* the row-major index of the worst element; -1 in fast mode */
    double analytic, numeric; /* the two derivatives at the worst element */
    char diagnosis[256];      /* a sentence; "" when ok */
    ct_mistake mistake;
    /* analytic / numeric for CT_MISTAKE_SIGN, _FACTOR and _SCALE, otherwise 0 */
    double factor;
    /* counts of input elements, or of directions in fast mode: all that were checked; those that
     * disagree; and the undecided elements among these */
    int64_t checked, wrong, undecided;
    /* the largest |analytic - numeric|, and the largest noise of an element */
    double error, noise;
    /* the worst elements, sorted by error / tolerance, the worst first */
    ct_gradcheck_element worst[CT_GRADCHECK_WORST];
    int worst_count; /* the number of entries in worst[] */
    /* a map of the input with the worst element, in lines of at most 32 cells: '.' is right, a
     * digit d is an error of up to 10^d times the tolerance, and 'x' is not finite. A cell may
     * stand for several elements, and shows the worst. "" if ok or in fast mode */
    char map[CT_GRADCHECK_MAP];
} ct_gradcheck_result;

/* Checks the gradient of every f32 or f64 input; other inputs are passed on unchanged. The function
 * is called many times, each time in a scope of its own and with the random generator in its
 * initial state.
 *
 * For several cotangents g and each element x_i, backward's <g, dy/dx_i> must equal the difference
 *
 *     <g, y(x + h e_i) - y(x - h e_i)> / (2 h),    h = eps max(1, |x_i|)
 *
 * The cotangents are: for each element of the output, 1 at it and 0 at the others (left out if the
 * output has more than 1,024 elements, or if the number of output elements times the number of
 * input elements exceeds 2^18); two random cotangents; ones; zeros; a very large and a very small
 * cotangent. Each element of the output is differenced before the sum with g, so elements that do
 * not depend on x_i cancel exactly. A second difference with step 2 h estimates the error of the
 * first.
 *
 * An element that disagrees is measured again with up to 24 steps, on both sides of x and along
 * directions. It is wrong if its distance from a difference is larger than the changes between the
 * differences, the gap between the slopes to both sides, and the rounding can explain. Otherwise it
 * is right, or undecided if it is near a kink or a jump or in the noise.
 *
 * Unless opts.gradient_only is set, these properties are checked too:
 *
 * - results have the same bits for two runs, for two runs of backward after one forward, for 1, 3
 * and the context's number of threads, and for any content of new memory;
 * - a backward gives the same result if the function was called at other inputs since its forward
 *   (the elements in reversed order, in checked inputs times 3/4), and the gradient at these other
 *   inputs is right too;
 * - a gradient has the same bits if only some inputs want theirs (each alone, all but one, and
 * every set of up to four inputs), and the value is the same but for rounding, also if none does;
 * - inputs and cotangent are not written to;
 * - strided, expanded and shared inputs work. If the function calls ct_data_* with a tensor that is
 *   not contiguous or has another dtype in these runs, or in the runs of both_dtypes, ct_data_*
 *   returns a dense copy, and the diagnosis is the error that it would have recorded.
 *
 * A wrong gradient is a result and not an error of the context, and so is a backward that fails for
 * any reason except memory. The gradients and flags of the given inputs stay unchanged. Other
 * leaves that the function uses accumulate gradients. */
CT_API ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                        ct_gradcheck_opts opts);

/* ---- Jacobians ---- */

typedef struct {
    double eps; /* the step of the differences, as in ct_gradcheck_opts */
    /* f64 (R, M), with M the number of elements of the function's result y: the cotangents g_0 ...
     * g_(R-1). NULL: R = M, and g_r is 1 at element r of y (row-major) and 0 at the others */
    ct_tensor *cotangents;
    /* the seed that the random generator is given before each call of the function, so that dropout
     * draws the same mask in all calls. 0: each call begins with the generator's present state */
    uint64_t seed;
} ct_jacobian_opts;

/* The matrices of one input x of N elements: f64 (R, N), row-major, without a gradient. They belong
 * to the innermost scope. All three are NULL if the input is NULL or neither f32 nor f64. */
typedef struct {
    ct_tensor *numeric; /* <g_r, dy/dx_i> from differences of the function */
    ct_tensor
        *analytic;     /* <g_r, dy/dx_i> from backward; NULL for every input if a backward failed */
    ct_tensor *noise;  /* estimates of the errors of `numeric`, from above */
    char refused[256]; /* in every out[i] the message of the backward that failed; "" if none failed
                        */
} ct_jacobian_out;

/* Computes the Jacobian of a function twice, by central differences and by backward, and fills
 * out[0] ... out[n - 1]. It uses the differences of ct_gradcheck, but returns no verdict:
 *
 *     h             = eps max(1, |x_i|)
 *     D(h)          = sum over j of g_rj (y_j(x + h e_i) - y_j(x - h e_i)) / (2 h)
 *     numeric[r][i] = D(h)
 *     noise[r][i]   = |D(2 h) - D(h)| + 4 u |g_r| Y / h
 *
 * Here the divisor 2 h of D(h) is the distance of the two points after rounding. |g_r| is the norm
 * of g_r, u is 2^-53, or 2^-24 if an input or the output is f32, and Y is the largest finite |y_j|
 * at x + 2 h e_i and x - 2 h e_i. The first term of the noise bounds the error by curvature, and
 * the second the error by rounding of y. The noise does not show a kink: at 0 relu has the
 * difference 1/2 without noise. Terms with y_j(x + h e_i) = y_j(x - h e_i) or g_rj = 0 are exactly
 * 0. If y_j is not finite beside x, its term is NaN or infinite, except that two equal
 * infinities give 0.
 *
 * A difference takes four calls of the function for each element of the inputs, and `analytic`
 * takes one call and R runs of backward. The function gets copies of the f32 and f64 inputs, so an
 * input has both matrices whether it requires a gradient or not, and a tensor that is given twice
 * has a matrix for each place, with the other place constant. Other inputs and NULLs are passed on.
 * If y is f32 the cotangents are rounded to f32.
 *
 * A backward that fails for any reason except memory is a result. Returns false with an error, and
 * all matrices NULL, if the function fails (at x or beside it), returns no f32 or f64 tensor or
 * another shape or dtype than before, if the cotangents are not f64 (CT_ERR_DTYPE) or not (R, M)
 * (CT_ERR_SHAPE), or if memory is short. The gradients of all tensors that exist before the call,
 * also of parameters that the function uses, the graphs that are recorded, and the state of the
 * random generator stay unchanged. */
CT_API bool ct_jacobian(ct_fn fn, void *arg, ct_tensor *const *in, int n, ct_jacobian_opts opts,
                        ct_jacobian_out *out);

#ifdef __cplusplus
}
#endif
#endif
