/* Gradient checking, inside. Each input is judged by two matrices of the same meaning: entry (r, i)
 * is <g_r, dy/dx_i> for cotangent r and element i, once as backward says and once as differences
 * say. In fast mode a column is a random direction instead. */
#ifndef CTI_GRADCHECK_CHECK_H
#define CTI_GRADCHECK_CHECK_H

#include "../core/context.h"

#include <cotangent/gradcheck.h>

/* The rows: one for each element of the output where k->whole, then these. */
enum { CTI_ROW_RANDOM, CTI_ROW_RANDOM_2, CTI_ROW_ONES, CTI_ROW_ZEROS, CTI_ROWS_SUMMED };
enum { CTI_DIRECTIONS = 3 };

typedef struct {
    int input;                          /* which of the function's inputs */
    ct_tensor *x;                       /* a dense copy of it */
    int64_t n;                          /* columns */
    double *analytic, *numeric, *noise; /* [rows][n] */
    double *direction;                  /* [n][numel] in fast mode, else NULL */
    int64_t wrong;                      /* columns */
    char diagnosis[256];                /* of a wrong one */
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
    ct_tensor **in;   /* the caller's, and copies of those that are checked */
    cti_frame *frame; /* of the whole check: an input that the function releases ends with it */
    cti_checked *checked;
    int count;      /* of those */
    ct_shape shape; /* of the output */
    ct_dtype dtype;
    int64_t m;   /* its elements */
    double *y;   /* its values */
    bool whole;  /* every element of the output has a row of its own */
    bool coarse; /* f32 takes part */
    int64_t rows;
    double *cotangent;              /* [CTI_ROWS_SUMMED][m] */
    double length[CTI_ROWS_SUMMED]; /* of these; at least 1 */
    double *plus, *minus;           /* [m] scratch */
    bool wrote_cotangent;
    uint64_t *prints;  /* [n] of the inputs' values, before anything ran */
    char refused[256]; /* why backward failed; "" if it did not */
} cti_check;

/* ends with the frame that is open; NULL: out of memory */
double *cti_check_numbers(cti_check *k, int64_t rows, int64_t columns);
bool *cti_check_flags(cti_check *k, int64_t count); /* the same, all false */
/* of a dense f32 or f64 tensor */
double cti_check_get(const ct_tensor *x, int64_t i);
void cti_check_set(ct_tensor *x, int64_t i, double value);

/* From hush to unhush nobody is told of an error: what a trial run records is not the caller's.
 * unhush clears it and says whether there was none. Out of memory stays, and is told then. */
typedef struct {
    ct_error_fn on_error;
} cti_hush;
cti_hush cti_check_hush(cti_check *k);
bool cti_check_unhush(cti_check *k, cti_hush hush);

/* evaluate.c: a call of the function with the generator where it was, NULL with an error; y =
 * fn(in) unrecorded; the numeric and the analytic matrices; a difference to one side of column i,
 * by rows. False: failed, with an error or, for a backward, k->refused. */
ct_tensor *cti_check_call(cti_check *k);
bool cti_check_value(cti_check *k, double *y);
bool cti_check_differences(cti_check *k, cti_checked *c);
bool cti_check_backwards(cti_check *k, cti_checked *c, int count);
bool cti_check_side(cti_check *k, const cti_checked *c, int64_t i, double h, double *row);
bool cti_check_backward_once(cti_check *k, ct_tensor *y, ct_tensor *cotangent, bool retain);

/* What entry (r, i) may be off by: atol |g_r| + rtol |numeric|, with |g_r| at least 1. A sum
 * over many outputs has the noise of them all. */
double cti_check_allowed(const cti_check *k, int64_t r, double numeric);
bool cti_check_right(const cti_check *k, const cti_checked *c, int64_t r, int64_t i);

/* notes it unless another is noted */
void cti_check_found(cti_check *k, ct_mistake mistake, const char *sentence);
/* properties.c: what the inputs are ... */
bool cti_check_fingerprints(cti_check *k);
/* ... and whether they still are, and all else */
bool cti_check_properties(cti_check *k);
/* diagnose.c: why a wrong input is wrong */
bool cti_check_diagnose(cti_check *k, cti_checked *c);
/* report.c: counts, worst elements, map */
void cti_check_compare(cti_check *k);
void cti_check_report(const cti_check *k);

#endif
