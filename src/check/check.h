/* The state of a gradient check. For each input two matrices are compared: entry (r, i) of both is
 * <g_r, dy/dx_i> for cotangent r and element i. `analytic` is computed by backward, `numeric` by
 * differences. In fast mode column i is a random direction instead of an element.
 *
 * ext/diagnose, which has ct_gradcheck, runs a check by cti_check_run as its client. The header is
 * the seam between both: a client finds out what a wrong gradient looks like, from both matrices
 * and by further calls of fn, and reports the result.
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
 * 3. Every call of fn begins with the generator in the state k->rng. Only state.c uses another
 *    state, for its calls at other inputs. At the end the context's generator is in k->rng again.
 * 4. `frame` is open from before 1 until after 9. All matrices belong to it or to a frame inside.
 * 5. `state` is valid after 5, `wrong` and `undecided` after 6.
 * 6. A call whose failure is a result runs between cti_check_hold_errors and _drop_errors. After it
 *    only an error of memory can be pending.
 * 7. The verdict does not depend on the client: `state` and the counts of the result are complete
 *    before the client is called. It sets diagnoses by cti_check_say and no field itself, except
 *    values of the copies during its own calls of fn (invariant 2) and `refused`, which it empties.
 *    Without a client the diagnosis of a wrong gradient is CT_MISTAKE_UNKNOWN, and nothing is
 *    reported. */
#ifndef CTI_CHECK_CHECK_H
#define CTI_CHECK_CHECK_H

#include "../core/context.h"
#include "../core/option.h"

#include <cotangent/gradcheck.h>

typedef struct cti_check cti_check;
typedef struct cti_check_client cti_check_client;

/* The last rows of the matrices. If k->whole, a row for each element of the output comes before
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
enum { CTI_DIRECTIONS = 3 };
#define CTI_LARGE 8192.0
/* The stream of random numbers for the directions of settle.c. The random cotangents have streams 0
 * and 1, the directions of the inputs 2, 3, ... */
#define CTI_STREAM_PROBES ((uint64_t)1 << 32)

/* The state of a column: backward is right, or is wrong, or the differences cannot tell, for one of
 * three reasons. */
typedef enum { CTI_RIGHT, CTI_WRONG, CTI_KINK, CTI_IMPRECISE, CTI_NOT_FINITE } cti_state;

typedef struct {
    int input;                          /* the index of this input among the function's inputs */
    ct_tensor *x;                       /* a dense copy of it */
    int64_t n;                          /* number of columns */
    double *analytic, *numeric, *noise; /* [rows][n] noise: estimates of the errors of numeric */
    double *direction;                  /* [n][numel] in fast mode; NULL otherwise */
    cti_state *state;                   /* [n] */
    int64_t wrong, undecided; /* numbers of columns: CTI_WRONG; CTI_KINK and the states after it */
    bool rounded;             /* all errors have the size of f32's rounding */
    char diagnosis[256];      /* "" if there is none */
} cti_checked;

/* evaluate.c reads and sets the fields of a cti_check up to `failed_again`, and the matrices of a
 * cti_checked. ct_jacobian uses no others. */
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
    ct_tensor **in;       /* [n] the inputs of fn: copies of the f32 and f64 ones, else as given */
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
    double rounding;  /* error of an element of the output by its own rounding: u max|y| */
    uint64_t *prints; /* [n] fingerprints of the inputs' values before the first call */
};

/* ---- the client ---- */

struct cti_check_client {
    /* Sets the diagnosis of an input with wrong columns, by cti_check_say. False: out of memory. */
    bool (*explain)(cti_check *k, cti_checked *c);
    /* Reports the result to opts.report and opts.html. It is called also if the check did not run.
     */
    void (*report)(cti_check *k);
};

/* Checks a function as ct_gradcheck is specified to. client may be NULL. */
ct_gradcheck_result cti_check_run(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                  ct_gradcheck_opts opts, const cti_check_client *client);

/* Sets the diagnosis of an input: its index and shape, and the sentence. If this is the worst input
 * and no mistake was found before, the mistake, the factor and the diagnosis are the result's too.
 */
void cti_check_say(cti_check *k, cti_checked *c, ct_mistake mistake, double factor,
                   const char *sentence);

/* ---- numbers ---- */

/* The elements of a new f64 tensor that belongs to the innermost frame. *matrix is the tensor.
 * NULL: out of memory. */
double *cti_check_matrix(cti_check *k, int64_t rows, int64_t columns, ct_tensor **matrix);
/* The elements of a matrix whose tensor is not needed. */
double *cti_check_numbers(cti_check *k, int64_t rows, int64_t columns);
/* An array that belongs to the innermost frame, all false. NULL: out of memory. */
bool *cti_check_flags(cti_check *k, int64_t count);
/* Normally distributed numbers, which opts.seed and the stream determine. */
void cti_check_normal(const cti_check *k, uint64_t stream, int64_t count, double *out);
/* Random directions [count][numel]; each element is scaled by max(1, |x|). NULL: out of memory. */
double *cti_check_directions(cti_check *k, const cti_checked *c, int64_t count, uint64_t stream);
/* Element i of a contiguous f32 or f64 tensor. */
double cti_check_get(const ct_tensor *x, int64_t i);
void cti_check_set(ct_tensor *x, int64_t i, double value);
/* Writes the index of an element along each dim, as "(1, 4)". Returns text. */
const char *cti_check_position(ct_shape shape, int64_t index, char text[CTI_SHAPE_TEXT]);
#define CTI_POSITION(shape, index) cti_check_position((shape), (index), (char[CTI_SHAPE_TEXT]){0})

/* An error of a trial run is no error of the caller. Between hold and drop the context does not
 * report errors (cti_error_report). Drop clears a pending error and returns whether there was none.
 * Only an error of memory stays pending; drop reports it. */
typedef struct {
    bool before; /* the context held errors already before this call */
} cti_held_errors;
cti_held_errors cti_check_hold_errors(cti_check *k);
bool cti_check_drop_errors(cti_check *k, cti_held_errors held);

/* ---- evaluate.c ----
 *
 * A function that returns NULL or false has recorded an error or, if a backward failed, has set
 * k->refused. */

/* Sets k->context, and k->rng to the state of its generator. Opens `frame`, in which ops are
 * recorded even if the caller's scope records none, and takes memory for the lists of inputs, which
 * are NULL if memory is short. False: an argument is wrong or an error is pending, and there is
 * nothing to close. */
bool cti_check_open(cti_check *k, cti_frame *frame);
/* Gives the lists back, closes k->frame, and restores the generator's state. */
void cti_check_close(cti_check *k);
/* Fills k->in and k->checked. False also if cti_check_open found no memory for them. */
bool cti_check_copy_inputs(cti_check *k);
/* Calls fn once to find the shape and dtype of its output. */
bool cti_check_first_call(cti_check *k);
/* Sets opts.eps, if it is 0, to the usual step. */
bool cti_check_choose_eps(cti_check *k);
/* Returns fn(in). Before the call the generator is set to k->rng. */
ct_tensor *cti_check_call(cti_check *k);
/* Whether y has the shape and dtype that fn returned in its first call. */
bool cti_check_is_alike(cti_check *k, const ct_tensor *y);
/* Writes the values of fn(in) to y [m]. Nothing is recorded for backward. */
bool cti_check_value(cti_check *k, double *y);
/* Sets column i of c->numeric and c->noise. k->plus and k->minus are then y at x + 2 h v and at
 * x - 2 h v. */
bool cti_check_column(cti_check *k, cti_checked *c, int64_t i);
/* Does this for every column. */
bool cti_check_differences(cti_check *k, cti_checked *c);
/* Fills `analytic` of `count` inputs by backwards of y, of which the last releases the graph unless
 * `retain` is set. Returns the number of rows that are filled, which is k->rows if all succeeded.
 */
int64_t cti_check_rows(cti_check *k, cti_checked *c, int count, ct_tensor *y, bool retain);
/* Calls fn and fills `analytic` of `count` inputs. */
bool cti_check_backwards(cti_check *k, cti_checked *c, int count);
/* The step of the differences of column i: eps times max(1, |x_i|). In fast mode it is eps, because
 * the directions themselves are scaled. */
double cti_check_step(const cti_check *k, const cti_checked *c, int64_t i);
/* Sets k->plus = y(x + h v) and k->minus = y(x - h v) for column i, and *step to the distance of
 * both points after rounding, in units of v. */
bool cti_check_beside(cti_check *k, const cti_checked *c, int64_t i, double h, double *step);
/* Sets row[r * stride] = <g_r, plus - minus> / step for every row r. */
void cti_check_weigh(const cti_check *k, const double *plus, const double *minus, double step,
                     double *row, int64_t stride);
/* Runs one backward of y. False: it failed, or memory was short. */
bool cti_check_backward_once(cti_check *k, ct_tensor *y, ct_tensor *cotangent, bool retain);

/* hide.c: hides the gradients of all leaves and results on the tape of y while backwards run.
 * False: out of memory. */
bool cti_check_hide(cti_check *k, const ct_tensor *y);
/* Drops the gradients that these tensors have got since, and gives them the old ones. */
void cti_check_show(cti_check *k);

/* settle.c: sets the state of every column. Differences that are not accurate enough are replaced
 * by better ones before. */
bool cti_check_settle(cti_check *k, cti_checked *c);
/* steps.c: writes the best differences of column i by any step into numeric, and estimates of their
 * errors into noise. */
bool cti_check_refine(cti_check *k, cti_checked *c, int64_t i);

/* rounded.c: finds a gradient that is within the tolerance, but has errors of the size of f32's
 * rounding, and sets c->rounded and the states. */
bool cti_check_rounded(cti_check *k, cti_checked *c);
/* Whether the errors of an f64 gradient have the size of f32's rounding. refined: every column has
 * the best differences (cti_check_refine). */
bool cti_check_is_rounded(const cti_check *k, const cti_checked *c, bool refined);

/* properties.c: takes fingerprints of the inputs before the first call of fn. */
bool cti_check_fingerprints(cti_check *k);
/* properties.c: checks that the inputs still have these fingerprints, and all other properties of a
 * correct op besides its gradient. */
bool cti_check_properties(cti_check *k);
/* state.c: checks that the op keeps no values outside of its call. */
bool cti_check_state(cti_check *k);

/* ---- verdict.c ---- */

/* The tolerance of an entry in row r: atol max(1, |g_r|) + rtol |numeric|. It grows with |g_r|
 * because a sum over many outputs has the noise of all of them. */
double cti_check_allowed(const cti_check *k, int64_t r, double numeric);
/* Whether entry (r, i) is within its tolerance. */
bool cti_check_right(const cti_check *k, const cti_checked *c, int64_t r, int64_t i);
/* Sets *out to column i at the cotangent with its largest error. Returns that error divided by its
 * tolerance. */
double cti_check_worst(const cti_check *k, const cti_checked *c, int64_t i,
                       ct_gradcheck_element *out);
/* Counts wrong columns, finds the worst elements and draws the map. */
void cti_check_compare(cti_check *k);
/* Sets the result's mistake and diagnosis, unless it has one already. */
void cti_check_found(cti_check *k, ct_mistake mistake, const char *sentence);
/* Says why the columns of an input without wrong ones are undecided. */
void cti_check_say_undecided(cti_check *k, cti_checked *c);

#endif
