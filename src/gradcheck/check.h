/* Internals of the gradient checker. For each input two matrices are compared: entry (r, i) of both
 * is <g_r, dy/dx_i> for cotangent r and element i, `analytic` computed by backward and `numeric` by
 * differences. In fast mode column i is a random direction instead of an element. */
#ifndef CTI_GRADCHECK_CHECK_H
#define CTI_GRADCHECK_CHECK_H

#include "../core/context.h"
#include "../core/option.h"

#include <cotangent/gradcheck.h>

/* The rows of the matrices: if k->whole one for each element of the output, then these. LARGE and
 * SMALL are the first random cotangent times 2^13 and -2^-13. */
enum {
    CTI_ROW_RANDOM,
    CTI_ROW_RANDOM_2,
    CTI_ROW_ONES,
    CTI_ROW_ZEROS,
    CTI_ROW_LARGE,
    CTI_ROW_SMALL,
    CTI_ROWS_SUMMED
};
enum { CTI_DIRECTIONS = 3 };
#define CTI_LARGE 8192.0
/* The random numbers of the directions that settle.c follows; inputs have streams 2, 3, ... */
#define CTI_STREAM_PROBES ((uint64_t)1 << 32)

/* What is known of a column. The last three: its differences cannot tell. */
typedef enum { CTI_RIGHT, CTI_WRONG, CTI_KINK, CTI_IMPRECISE, CTI_NOT_FINITE } cti_state;

typedef struct {
    int input;                          /* which of the function's inputs */
    ct_tensor *x;                       /* a dense copy of it */
    int64_t n;                          /* columns */
    double *analytic, *numeric, *noise; /* [rows][n] */
    double *direction;                  /* [n][numel] in fast mode, else NULL */
    cti_state *state;                   /* [n] */
    int64_t wrong, undecided;           /* how many columns are wrong, or KINK and the like */
    bool rounded;                       /* off by the rounding of f32 */
    char diagnosis[256];                /* "" if none is */
} cti_checked;

typedef struct {
    ct_context *context;
    ct_fn fn;
    void *arg;
    ct_tensor *const *given;
    int n;
    ct_rng rng; /* the generator before every call of fn */
    ct_gradcheck_opts opts;
    ct_gradcheck_result result;
    ct_tensor **in;   /* the caller's inputs, those that are checked replaced by copies */
    cti_frame *frame; /* open during the whole check; owns inputs that the function releases */
    cti_checked *checked;
    int count;      /* of checked inputs */
    ct_shape shape; /* of the output */
    ct_dtype dtype;
    int64_t m;   /* its elements */
    double *y;   /* its values */
    bool whole;  /* every element of the output has a row of its own */
    bool coarse; /* an input or the output is f32 */
    int64_t rows;
    double *cotangent;              /* [CTI_ROWS_SUMMED][m] */
    double length[CTI_ROWS_SUMMED]; /* max(1, |g|) of each of these */
    double *plus, *minus;           /* [m] scratch */
    double rounding; /* error of an element of the output by its own rounding: u max|y| */
    bool wrote_cotangent;
    uint64_t *prints;  /* [n] fingerprints of the inputs' values before the first call */
    char refused[256]; /* the error of a failed backward; "" if none failed */
    /* of the failed backward: it used a tensor that has ended; it failed only after others of the
       same graph */
    bool used_ended, failed_again;
} cti_check;

/* A matrix that ends with the innermost frame. NULL: out of memory. */
double *cti_check_numbers(cti_check *k, int64_t rows, int64_t columns);
bool *cti_check_flags(cti_check *k, int64_t count); /* likewise, all false */
/* Numbers of a normal distribution, those of opts.seed and the stream. */
void cti_check_normal(const cti_check *k, uint64_t stream, int64_t count, double *out);
/* Random directions [count][numel], each element scaled by max(1, |x|). NULL: out of memory. */
double *cti_check_directions(cti_check *k, const cti_checked *c, int64_t count, uint64_t stream);
/* Element i of a contiguous f32 or f64 tensor. */
double cti_check_get(const ct_tensor *x, int64_t i);
void cti_check_set(ct_tensor *x, int64_t i, double value);

/* Errors of a trial run are not the caller's. From hold to drop the context holds errors
 * (cti_error_report); drop clears a pending error and returns whether there was none. Only an error
 * of memory stays pending, and is reported in drop. */
typedef struct {
    bool before; /* whether the context held errors already */
} cti_held_errors;
cti_held_errors cti_check_hold_errors(cti_check *k);
bool cti_check_drop_errors(cti_check *k, cti_held_errors held);

/* evaluate.c. NULL or false: an error is recorded or, for a failed backward, k->refused is set. */

/* fn(in), with the generator reset to its state before the check */
ct_tensor *cti_check_call(cti_check *k);
/* the values of fn(in) [m], without recording */
bool cti_check_value(cti_check *k, double *y);
/* fills c->numeric and c->noise */
bool cti_check_differences(cti_check *k, cti_checked *c);
/* fills analytic of `count` inputs */
bool cti_check_backwards(cti_check *k, cti_checked *c, int count);
/* The step of the differences of column i: eps times max(1, |x_i|). Directions are scaled so. */
double cti_check_step(const cti_check *k, const cti_checked *c, int64_t i);
/* k->plus = y(x + h v) and k->minus = y(x - h v) for column i; *step: the distance of both points
 * after rounding */
bool cti_check_beside(cti_check *k, const cti_checked *c, int64_t i, double h, double *step);
/* row[r * stride] = <g_r, plus - minus> / step for every row */
void cti_check_weigh(const cti_check *k, const double *plus, const double *minus, double step,
                     double *row, int64_t stride);
bool cti_check_backward_once(cti_check *k, ct_tensor *y, ct_tensor *cotangent, bool retain);

/* settle.c: sets the state of every column, after better differences where the first ones are not
 * accurate enough */
bool cti_check_settle(cti_check *k, cti_checked *c);
/* The best differences of column i by any step into numeric, estimates of their errors into noise.
 */
bool cti_check_refine(cti_check *k, cti_checked *c, int64_t i);

/* The tolerance of an entry in row r: atol max(1, |g_r|) + rtol |numeric|. It grows with |g_r|
 * because a sum over many outputs has the noise of all of them. */
double cti_check_allowed(const cti_check *k, int64_t r, double numeric);
bool cti_check_right(const cti_check *k, const cti_checked *c, int64_t r, int64_t i);

/* Sets the result's mistake and diagnosis, unless an earlier one is set. */
void cti_check_found(cti_check *k, ct_mistake mistake, const char *sentence);
/* properties.c: fingerprints of the inputs before the first call; then everything else that a
 * correct op does, including that the inputs are unchanged. */
bool cti_check_fingerprints(cti_check *k);
bool cti_check_properties(cti_check *k);
/* state.c: what an op keeps outside of its call */
bool cti_check_state(cti_check *k);
/* exact.c: a gradient within the tolerance, and yet off by the rounding of f32 */
bool cti_check_rounded(cti_check *k, cti_checked *c);
/* diagnose.c: sets the diagnosis of an input with columns that are wrong or undecided */
bool cti_check_diagnose(cti_check *k, cti_checked *c);
/* report.c: counts wrong entries, finds the worst elements and draws the map; prints the report */
void cti_check_compare(cti_check *k);
void cti_check_report(const cti_check *k);
/* column i at the cotangent where its error is largest; returns that error over the tolerance */
double cti_check_worst(const cti_check *k, const cti_checked *c, int64_t i,
                       ct_gradcheck_element *out);
/* the index of an element along each dim, as "(1, 4)" */
const char *cti_check_position(ct_shape shape, int64_t index, char text[CTI_SHAPE_TEXT]);
/* "1 at ", whose position follows, "random", "ones" ... */
const char *cti_check_cotangent(int64_t output);
/* "ok", "wrong" or "cannot tell" */
const char *cti_check_verdict(const ct_gradcheck_result *result);
#define CTI_POSITION(shape, index) cti_check_position((shape), (index), (char[CTI_SHAPE_TEXT]){0})
/* html.c: the report as a page; CT_ERR_IO where the file cannot be written */
void cti_check_html(cti_check *k);

#endif
