/* Gradient checking, inside. Each input is judged by two matrices of the same meaning: entry (r, i) is <g_r, dy/dx_i> for cotangent r
 * and element i, once as backward says and once as differences say. In fast mode a column is a random direction instead. */
#ifndef CT_SRC_GRADCHECK_CHECK_H
#define CT_SRC_GRADCHECK_CHECK_H

#include "../context.h"

#include <cotangent/gradcheck.h>

/* The rows: one for each element of the output where k->whole, then these. */
enum { CT_ROW_RANDOM, CT_ROW_RANDOM_2, CT_ROW_ONES, CT_ROW_ZEROS, CT_ROWS_SUMMED };
enum { CT_DIRECTIONS = 3 };

typedef struct {
    int input;                          /* which of the function's inputs */
    ct_tensor *x;                       /* a dense copy of it */
    int64_t n;                          /* columns */
    double *analytic, *numeric, *noise; /* [rows][n] */
    double *direction;                  /* [n][numel] in fast mode, else NULL */
    int64_t wrong;                      /* columns */
    char diagnosis[256];                /* of a wrong one */
} ct_checked;

typedef struct {
    ct_context *context;
    ct_fn fn;
    void *arg;
    ct_tensor *const *given;
    int n;
    ct_rng rng; /* the generator before every call of fn */
    ct_gradcheck_opts opts;
    ct_gradcheck_result result;
    ct_tensor **in; /* the caller's, and copies of those that are checked */
    ct_frame *frame; /* of the whole check: an input that the function releases ends with it */
    ct_checked *checked;
    int count;      /* of those */
    ct_shape shape; /* of the output */
    ct_dtype dtype;
    int64_t m;   /* its elements */
    double *y;   /* its values */
    bool whole;  /* every element of the output has a row of its own */
    bool coarse; /* f32 takes part */
    int64_t rows;
    double *cotangent;             /* [CT_ROWS_SUMMED][m] */
    double length[CT_ROWS_SUMMED]; /* of these; at least 1 */
    double *plus, *minus;          /* [m] scratch */
    bool wrote_cotangent;
    uint64_t *prints;  /* [n] of the inputs' values, before anything ran */
    char refused[256]; /* why backward failed; "" if it did not */
} ct_check;

double *ct_check_numbers(ct_check *k, int64_t rows, int64_t columns); /* ends with the frame that is open; NULL: out of memory */
bool *ct_check_flags(ct_check *k, int64_t count);                     /* the same, all false */
double ct_check_get(const ct_tensor *x, int64_t i);                   /* of a dense f32 or f64 tensor */
void ct_check_set(ct_tensor *x, int64_t i, double value);

/* From hush to unhush nobody is told of an error: what a trial run records is not the caller's. unhush clears it and says whether there was
 * none. Out of memory stays, and is told then. */
typedef struct {
    ct_error_fn on_error;
} ct_hush;
ct_hush ct_check_hush(ct_check *k);
bool ct_check_unhush(ct_check *k, ct_hush hush);

/* evaluate.c: a call of the function with the generator where it was, NULL with an error; y = fn(in) unrecorded; the numeric and the analytic matrices; a difference to one side of column i, by rows. False: failed,
 * with an error or, for a backward, k->refused. */
ct_tensor *ct_check_call(ct_check *k);
bool ct_check_value(ct_check *k, double *y);
bool ct_check_differences(ct_check *k, ct_checked *c);
bool ct_check_backwards(ct_check *k, ct_checked *c, int count);
bool ct_check_side(ct_check *k, const ct_checked *c, int64_t i, double h, double *row);
bool ct_check_backward_once(ct_check *k, ct_tensor *y, ct_tensor *cotangent, bool retain);

/* What entry (r, i) may be off by: atol |g_r| + rtol |numeric|, with |g_r| at least 1. A sum over many outputs has the noise of them all.
 */
double ct_check_allowed(const ct_check *k, int64_t r, double numeric);
bool ct_check_right(const ct_check *k, const ct_checked *c, int64_t r, int64_t i);

void ct_check_found(ct_check *k, ct_mistake mistake, const char *sentence); /* notes it unless another is noted */
bool ct_check_fingerprints(ct_check *k);                                    /* properties.c: what the inputs are ... */
bool ct_check_properties(ct_check *k);                                      /* ... and whether they still are, and all else */
bool ct_check_diagnose(ct_check *k, ct_checked *c);                         /* diagnose.c: why a wrong input is wrong */
void ct_check_compare(ct_check *k);                                         /* report.c: counts, worst elements, map */
void ct_check_report(const ct_check *k);

#endif
