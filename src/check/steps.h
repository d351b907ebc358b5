/* Differences of one column with many steps, and bounds for the error of each. The first step is
 * 1000 times the usual one, each next step a tenth of the step before, down to 32 units in the last
 * place of x. (If f32 takes part: 10 times the usual one, then quarters, down to one unit.) For
 * each entry, D(h) is the central difference with step h, and G(h) the gap between the slopes to
 * the right and to the left. N is the rounding error of the output, so the rounding error of D(h)
 * is N / h.
 *
 *     error(h) = |D(h) - D(h/10)| + |D(h/10) - D(h/100)| / 10 + |D(h) - D(10 h)| / 100 + N / h
 *                + max over s < h of (|D(h) - D(s)| - 4 N / s - 2 X / s)
 *
 * The first term is the truncation error. If it dominates, the next two terms are smaller; they
 * guard against two noisy differences that agree by chance. The last term compares with every
 * smaller step: on both sides of |x|, and between two neighbours in a sorted row, differences with
 * large steps agree with each other and not with the derivative. X / s bounds the change of D(s) by
 * the rounding of x, which moves the point.
 *
 *     gap(h) = max over s <= h of (B(s) - 8 N / s),    B(s) = (G(s) - G(10 s) / 10) 10 / 9
 *
 * The gap G of a smooth function is h f''; B does not contain this part. The gap of a kink does not
 * shrink with the step; the gap of a jump or of a vertical tangent grows without bound. If there is
 * one kink or jump between x - h and x + h and the function is linear otherwise, the derivative is
 * within G / 2 of D. */
#ifndef CTI_CHECK_STEPS_H
#define CTI_CHECK_STEPS_H

#include "phases.h"

enum { CTI_STEPS = 24 };

typedef struct {
    double *slope;     /* [CTI_STEPS][rows] D */
    double *steep;     /* [CTI_STEPS][rows] |D|; for a sum 2 |g| times the norm of all slopes */
    double *gap;       /* [CTI_STEPS][rows] G; for a sum |g| times the norm of all gaps */
    double *bound;     /* [CTI_STEPS][rows] gap(h) */
    double *others;    /* [CTI_STEPS][rows] for a single output: the largest gap(h) of the others */
    double *second;    /* [CTI_STEPS][m] |y(x + h) - 2 y(x) + y(x - h)| */
    double *noise;     /* [rows] N */
    double *gap_noise; /* [rows] the noise of G, which for a sum is larger than N */
    bool *moved;       /* [CTI_STEPS][m] the output at x + h or x - h differs from y(x) */
    double h[CTI_STEPS];
    double ratio; /* a step divided by the next one: 10 or 4 */
    double unit;  /* the rounding error of x */
    int count;    /* number of steps */
    bool bent;    /* an output has a kink, a jump or a vertical tangent near x */
} cti_steps;

/* Takes the memory for a column; it belongs to the innermost frame. */
bool cti_steps_new(cti_check *check, cti_steps *s);
/* Measures column i. The best differences go into numeric, their errors into noise. */
bool cti_steps_measure(cti_check *check, cti_checked *c, int64_t i, cti_steps *s);
/* error(h) of step `at` in row r; infinite if D(h) is not finite or there is no smaller step. */
double cti_steps_error(const cti_check *check, const cti_steps *s, int64_t r, int at);
/* The last term of error(h): the evidence of smaller steps against this one. */
double cti_steps_refuted(const cti_check *check, const cti_steps *s, int64_t r, int at);
/* The largest distance of the derivative from D(h) because of kinks and jumps. */
double cti_steps_room(const cti_check *check, const cti_steps *s, int64_t r, int at);
/* The largest error of D(h) by rounding that the noise of this row does not show. */
double cti_steps_rounding(const cti_check *check, const cti_steps *s, int64_t r, int at);
/* The gap of row r that is left at the step that shows it best: 0 for a smooth function, infinite
 * at a jump. */
double cti_steps_lasting(const cti_check *check, const cti_steps *s, int64_t r);
/* Does the derivative a, which is off by `off`, agree with the difference of some step? */
bool cti_steps_agree(const cti_check *check, const cti_steps *s, int64_t r, double a, double off);
/* Does the next step move row r as far as this one does? Then a kink or a jump on both sides of x
 * determines the difference, and not the slope at x. */
bool cti_steps_saturated(const cti_check *check, const cti_steps *s, int64_t r, int at);
/* Computes the gaps of every row from check->plus and check->minus, the values of y at two points
 * around x whose distance is `step`. */
void cti_steps_gaps(const cti_check *check, double step, double *gap);

/* nearby.c: sets *again to whether the errors of these columns are found again at the points
 * nearby, which cti_check_nearby has made. The differences of the columns are the best ones. The
 * errors of the entries that are not right must be found at each point; with `rounded`, nearly all
 * clear errors at all points of one kind. s is scratch. */
bool cti_check_again(cti_check *check, const cti_checked *c, int64_t first, int64_t count,
                     bool rounded, cti_steps *s, bool *again);

#endif
