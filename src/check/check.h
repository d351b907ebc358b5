/* The state of a gradient check. For each input two matrices are compared: entry (r, i) of both is
 * <g_r, dy/dx_i> for cotangent r and element i. `analytic` is computed by backward, `numeric` by
 * differences. In fast mode column i is a random direction instead of an element.
 *
 * The client of this header is ct_gradcheck, which runs a check by cti_check_run. It finds the
 * mistake that explains a wrong gradient, from both matrices and by measuring at other points, and
 * it reports the result.
 *
 * The phases of a check, in this order (check.c), and the fields that each sets:
 *
 *     1 copy the inputs; fingerprint their values     in, checked, prints
 *     2 call fn once                                  shape, dtype, m, coarse
 *     3 choose tolerances, cotangents, directions     opts, rows, cotangent, checked[].direction
 *     4 call fn; backward for each row, all inputs    y, rounding, analytic
 *     5 for each input: differences with one step     numeric, noise
 *                       settle, columns that differ   state; better numeric and noise
 *                       errors of f32's rounding      rounded, state
 *     6 compare                                       result: counts, worst elements, map
 *     7 properties: inputs unchanged, same bits,      result: mistake, diagnosis
 *       state, memory, threads, layouts, sharing
 *     8 explain each input with a wrong column        checked[].diagnosis; that of the worst input
 *       (the client), then each with undecided        is also the result's, if 7 found nothing
 *       columns only
 *     9 report (the client)
 *
 *     4 --- a backward fails ---------------------------------------> 9, with refused set
 *     1 to 5 --- fn fails at x or a usual step beside it -----------> 9, with result.ran false
 *     1 to 8 --- memory is short -----------------------------------> 9, with result.ran false
 *
 * Invariants:
 * 1. The first mistake that is found stays (cti_check_found). So the order of the phases, and the
 *    order within 7, is the precedence of the mistakes.
 * 2. The caller's f32 and f64 inputs are not used after 1: fn gets copies. When a phase has
 *    succeeded, each copy has its given values again and no gradient.
 * 3. Every call of fn begins with the generator in the state check->rng. Only state.c uses another
 *    state, for its calls at other inputs. At the end the context's generator is in check->before.
 * 4. `frame` is open from before 1 until after 9. All matrices belong to it or to a frame inside.
 * 5. `state` is valid after 5, `wrong` and `undecided` after 6.
 * 6. A call whose failure is a result runs between cti_check_hold_errors and _drop_errors. After it
 *    only an error of memory can be pending.
 * 7. The client is called only in 8 and 9, when `state` and the counts of the result are complete.
 *    It sets diagnoses by cti_check_say, and changes no field. So the verdict does not depend on
 *    the client. Without a client the mistake of a wrong gradient is CT_MISTAKE_UNKNOWN, and
 *    nothing is reported. */
#ifndef CTI_CHECK_CHECK_H
#define CTI_CHECK_CHECK_H

#include "../core/context.h"

#include <cotangent/gradcheck.h>

typedef struct cti_check cti_check;
typedef struct cti_check_client cti_check_client;

/* The last rows of the matrices. If check->whole, a row for each element of the output comes before
 * them, whose cotangent is 1 at this element. LARGE and SMALL are the first random cotangent times
 * 2^13 and -2^-13. */
enum {
    CTI_ROW_RANDOM,
    CTI_ROW_RANDOM_2,
    CTI_ROW_ONES,
    CTI_ROW_ZEROS,
    CTI_ROW_LARGE,
    CTI_ROW_SMALL,
    CTI_ROWS_SUMMED
};
#define CTI_LARGE 8192.0

/* An error is looked for again at points nearby (nearby.c): most errors at CTI_FEW_POINTS of them,
 * and errors of the size of f32's rounding at all CTI_POINTS. */
enum { CTI_FEW_POINTS = 4, CTI_POINTS = 8 };

/* The state of a column: backward is right, or is wrong, or the differences cannot tell, for one of
 * three reasons. */
typedef enum { CTI_RIGHT, CTI_WRONG, CTI_KINK, CTI_IMPRECISE, CTI_NOT_FINITE } cti_state;

typedef struct {
    int input;      /* the index of this input among the function's inputs */
    ct_tensor *x;   /* a dense copy of it */
    ct_shape shape; /* its shape, dtype and number of elements */
    ct_dtype dtype;
    int64_t numel;
    int64_t n;                          /* number of columns */
    double *analytic, *numeric, *noise; /* [rows][n] noise: estimates of the errors of numeric */
    double *direction;                  /* [n][numel] in fast mode; NULL otherwise */
    cti_state *state;                   /* [n] */
    double *nearby[CTI_POINTS]; /* [rows][n] A at points nearby, if check->nearby_y is not NULL */
    int64_t wrong, undecided;   /* number of columns in the state CTI_WRONG; in later states */
    bool rounded;               /* all errors have the size of f32's rounding */
    char diagnosis[256];        /* "" if there is none */
} cti_checked;

/* evaluate.c reads and sets the fields of a cti_check up to `failed_again`, and of a cti_checked up
 * to `direction`. ct_jacobian uses no others. */
struct cti_check {
    const char *name; /* the public function, for messages: "gradcheck" */
    ct_context *context;
    ct_fn fn;
    void *arg;
    ct_tensor *const *given;
    int n;
    ct_rng rng;    /* the generator's state before every call of fn */
    ct_rng before; /* the generator's state before the check */
    ct_gradcheck_opts opts;
    ct_tensor **in;       /* [n] the inputs of fn: copies of f32 and f64 inputs, and the others */
    cti_frame *frame;     /* owns also the inputs that the function releases */
    cti_checked *checked; /* [count] the f32 and f64 inputs */
    int count;
    ct_shape shape;       /* shape of the output */
    ct_dtype dtype;       /* its dtype */
    int64_t m;            /* its number of elements */
    bool whole;           /* every element of the output has a row of its own */
    bool coarse;          /* an input or the output is f32 */
    int64_t rows;         /* rows of the matrices */
    int64_t summed;       /* number of the last rows, which have a cotangent of their own */
    double *cotangent;    /* [summed][m] the cotangents of these rows */
    double *plus, *minus; /* [m] scratch */
    bool wrote_cotangent;
    char refused[256]; /* the error of a failed backward; "" if none failed */
    /* used_ended: the failed backward used a tensor that has ended; failed_again: it failed after
     * others of its graph, and succeeds as the first one of a new graph */
    bool used_ended, failed_again;
    const cti_check_client *client; /* or NULL */
    ct_gradcheck_result result;
    double *y;                      /* [m] the values of the output */
    double length[CTI_ROWS_SUMMED]; /* max(1, |g|) of the cotangent of each of the last rows */
    double rounding; /* error of an element of the output by its own rounding: u max|y| */
    /* points nearby: the elements of all checked inputs, y, and whether function and backward
     * succeeded there. NULL until an error is looked for there */
    double *nearby_x[CTI_POINTS], *nearby_y[CTI_POINTS];
    bool is_nearby[CTI_POINTS];
    uint64_t *prints; /* [n] fingerprints of the inputs' values before the first call */
};

/* ---- the client ---- */

struct cti_check_client {
    /* Sets the diagnosis of an input with wrong columns, by cti_check_say. False: out of memory. */
    bool (*explain)(cti_check *check, cti_checked *c);
    /* Reports the result to opts.report and opts.html. It is called also if the check did not run.
     */
    void (*report)(cti_check *check);
};

/* Checks a function as ct_gradcheck is specified to. client may be NULL. */
ct_gradcheck_result cti_check_run(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                  ct_gradcheck_opts opts, const cti_check_client *client);

/* Sets the diagnosis of an input: its index and shape, and the sentence. If this is the worst input
 * and no mistake was found before, the mistake, the factor and the diagnosis are the result's too.
 */
void cti_check_say(cti_check *check, cti_checked *c, ct_mistake mistake, double factor,
                   const char *sentence);

/* ---- functions for the client ---- */

/* A matrix that belongs to the innermost frame. NULL: out of memory. */
double *cti_check_numbers(cti_check *check, int64_t rows, int64_t columns);
/* An array that belongs to the innermost frame, all false. NULL: out of memory. */
bool *cti_check_flags(cti_check *check, int64_t count);
/* Element i of a checked input, or of another contiguous f32 or f64 tensor. */
double cti_check_get(const ct_tensor *x, int64_t i);
/* Writes the index of an element along each dim, as "(1, 4)". Returns text. */
const char *cti_check_position(ct_shape shape, int64_t index, char text[CTI_SHAPE_TEXT]);
#define CTI_POSITION(shape, index) cti_check_position((shape), (index), (char[CTI_SHAPE_TEXT]){0})

/* Computes both matrices of an input at another point. values[q] has the elements of checked input
 * q there, or is NULL if they stay. *other is *c with the new matrices, which belong to the
 * innermost frame. If y is not NULL it receives the output. False: fn or a backward fails at the
 * point, or memory is short, which is then an error of the context. */
bool cti_check_at(cti_check *check, const cti_checked *c, double *const *values, cti_checked *other,
                  double *y);
/* Returns fn(in). Before the call the generator is set to check->rng. */
ct_tensor *cti_check_call(cti_check *check);
/* An error of a trial run is no error of the caller. Between hold and drop the context does not
 * report errors (cti_error_report). Drop clears a pending error and returns whether there was none.
 * Only an error of memory stays pending; drop reports it. */
typedef struct {
    bool before; /* the context held errors already before this call */
} cti_held_errors;
cti_held_errors cti_check_hold_errors(cti_check *check);
bool cti_check_drop_errors(cti_check *check, cti_held_errors held);

/* The tolerance of an entry in row r: atol max(1, |g_r|) + rtol |numeric|. It grows with |g_r|
 * because a sum over many outputs has the noise of all of them. */
double cti_check_allowed(const cti_check *check, int64_t r, double numeric);
/* Whether entry (r, i) is within its tolerance. */
bool cti_check_right(const cti_check *check, const cti_checked *c, int64_t r, int64_t i);
/* Sets *out to column i at the cotangent with its largest error. Returns that error divided by its
 * tolerance. */
double cti_check_worst(const cti_check *check, const cti_checked *c, int64_t i,
                       ct_gradcheck_element *out);
/* Whether the errors of an f64 gradient have the size of f32's rounding. refined: every column has
 * the best differences (cti_check_refine). */
bool cti_check_is_rounded(const cti_check *check, const cti_checked *c, bool refined);

#endif
