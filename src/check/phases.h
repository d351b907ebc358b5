/* The functions of a gradient check that its files share; check.h has its state. */
#ifndef CTI_CHECK_PHASES_H
#define CTI_CHECK_PHASES_H

#include "check.h"

#include "../core/option.h"

enum { CTI_DIRECTIONS = 3 };
/* The stream of random numbers for the directions of settle.c. The random cotangents have streams 0
 * and 1, the directions of the inputs 2, 3, ... */
#define CTI_STREAM_PROBES ((uint64_t)1 << 32)
/* The stream of the points nearby. */
#define CTI_STREAM_NEARBY ((uint64_t)1 << 33)

/* Does the work of cti_check_numbers. *matrix is the f64 tensor with these elements. */
double *cti_check_matrix(cti_check *check, int64_t rows, int64_t columns, ct_tensor **matrix);
/* Normally distributed numbers, which opts.seed and the stream determine. */
void cti_check_normal(const cti_check *check, uint64_t stream, int64_t count, double *out);
/* Random directions [count][numel]; each element is scaled by max(1, |x|). NULL: out of memory. */
double *cti_check_directions(cti_check *check, const cti_checked *c, int64_t count,
                             uint64_t stream);
void cti_check_set(ct_tensor *x, int64_t i, double value);

/* ---- evaluate.c ----
 *
 * A function that returns NULL or false has recorded an error or, if a backward failed, has set
 * check->refused. */

/* Sets check->context, and check->rng to the state of its generator. Opens `frame`, in which ops
 * are recorded even if the caller's scope records none, and takes memory for the lists of inputs,
 * which are NULL if memory is short. False: an argument is wrong or an error is pending, and there
 * is nothing to close. */
bool cti_check_open(cti_check *check, cti_frame *frame);
/* Gives the lists back, closes check->frame, and restores the generator's state. */
void cti_check_close(cti_check *check);
/* Fills check->in and check->checked. False also if cti_check_open found no memory for them. */
bool cti_check_copy_inputs(cti_check *check);
/* Calls fn once to find the shape and dtype of its output. */
bool cti_check_first_call(cti_check *check);
/* Sets opts.eps, if it is 0, to the usual step. */
bool cti_check_choose_eps(cti_check *check);
/* Whether y has the shape and dtype that fn returned in its first call. */
bool cti_check_is_alike(cti_check *check, const ct_tensor *y);
/* Writes the values of fn(in) to y [m]. Nothing is recorded for backward. */
bool cti_check_value(cti_check *check, double *y);
/* Sets column i of c->numeric and c->noise. check->plus and check->minus are then y at x + 2 h v
 * and at x - 2 h v. */
bool cti_check_column(cti_check *check, cti_checked *c, int64_t i);
/* Calls cti_check_column for every column. */
bool cti_check_differences(cti_check *check, cti_checked *c);
/* Fills `analytic` of `count` inputs by backwards of y, of which the last releases the graph unless
 * `retain` is set. Returns the number of rows that are filled, which is check->rows if all
 * succeeded.
 */
int64_t cti_check_rows(cti_check *check, cti_checked *c, int count, ct_tensor *y, bool retain);
/* Calls fn and fills `analytic` of `count` inputs. */
bool cti_check_backwards(cti_check *check, cti_checked *c, int count);
/* The step of the differences of column i: eps times max(1, |x_i|). In fast mode it is eps, because
 * the directions themselves are scaled. */
double cti_check_step(const cti_check *check, const cti_checked *c, int64_t i);
/* Sets check->plus = y(x + h v) and check->minus = y(x - h v) for column i, and *step to the
 * distance of both points after rounding, in units of v. */
bool cti_check_beside(cti_check *check, const cti_checked *c, int64_t i, double h, double *step);
/* Sets row[r * stride] = <g_r, plus - minus> / step for every row r. */
void cti_check_weigh(const cti_check *check, const double *plus, const double *minus, double step,
                     double *row, int64_t stride);
/* Runs one backward of y. False: it failed, or memory was short. */
bool cti_check_backward_once(cti_check *check, ct_tensor *y, ct_tensor *cotangent, bool retain);

/* hide.c: hides the gradients of all leaves and results on the tape of y while backwards run.
 * NULL: out of memory. */
typedef struct cti_hidden_gradients cti_hidden_gradients;
cti_hidden_gradients *cti_check_hide(cti_check *check, const ct_tensor *y);
/* Drops the gradients that these tensors have got since, and gives them the old ones. */
void cti_check_show(cti_check *check, cti_hidden_gradients *hidden);

/* nearby.c: computes y and A of all inputs at the first `points` points nearby, unless they are
 * there already. They belong to the innermost frame. */
bool cti_check_nearby(cti_check *check, int points);

/* settle.c: sets the state of every column. Differences that are not accurate enough are replaced
 * by better ones before. */
bool cti_check_settle(cti_check *check, cti_checked *c);
/* steps.c: writes the best differences of column i by any step into numeric, and estimates of their
 * errors into noise. */
bool cti_check_refine(cti_check *check, cti_checked *c, int64_t i);

/* rounded.c: finds a gradient that is within the tolerance, but has errors of the size of f32's
 * rounding, and sets c->rounded and the states. */
bool cti_check_rounded(cti_check *check, cti_checked *c);
/* properties.c: takes fingerprints of the inputs before the first call of fn. */
bool cti_check_fingerprints(cti_check *check);
/* properties.c: checks that the inputs still have these fingerprints, and all other properties of a
 * correct op besides its gradient. */
bool cti_check_properties(cti_check *check);
/* properties.c: are a and b equal up to rounding, within `part` of the largest element of a? */
bool cti_check_near(const double *a, const double *b, int64_t n, double part);
/* state.c: checks that the op keeps no values outside of its call. */
bool cti_check_state(cti_check *check);
/* state.c: calls the function at other inputs, with other random numbers, and runs its backward. It
 * does not matter whether they fail. False: out of memory. */
bool cti_check_elsewhere(cti_check *check);
/* wants.c: checks that a gradient does not depend on which other inputs want theirs. */
bool cti_check_wants(cti_check *check);

/* ---- verdict.c ---- */

/* Counts wrong columns, finds the worst elements and draws the map. */
void cti_check_compare(cti_check *check);
/* Sets the result's mistake and diagnosis, unless it has one already. */
void cti_check_found(cti_check *check, ct_mistake mistake, const char *sentence);
/* Says why the columns of an input without wrong ones are undecided. */
void cti_check_say_undecided(cti_check *check, cti_checked *c);

#endif
