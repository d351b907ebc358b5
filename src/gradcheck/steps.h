/* Differences of one column with many steps, and how far from the derivative each may be. The steps
 * h are 1000 times the usual one (where f32 takes part 10 times), then each a tenth (a quarter) of
 * the one before, down to a few units in the last place of x. For each entry D(h) is the central
 * difference and G(h) the gap between the slopes to the right and to the left. N is the rounding
 * error of the output, so that of D(h) is N / h.
 *
 *     error(h) = |D(h) - D(h/10)| + |D(h/10) - D(h/100)| / 10 + |D(h) - D(10 h)| / 100 + N / h
 *                + max over s < h of (|D(h) - D(s)| - 4 N / s - 2 X / s)
 *
 * The first term is the truncation error; where that dominates, the next two are smaller. They
 * guard against two noisy differences that agree by chance. The last term compares with every
 * smaller step: on both sides of |x|, and between two neighbours in a sorted row, differences with
 * large steps agree with each other and not with the derivative. X / s is what the rounding
 * of x may change, which moves the point.
 *
 *     gap(h) = max over s <= h of (B(s) - 8 N / s),    B(s) = (G(s) - G(10 s) / 10) 10 / 9
 *
 * The gap of a smooth function is h f'', and B is without it. That of a kink does not shrink with
 * the step, and that of a jump or of a vertical tangent grows without bound. If there is one kink
 * or jump between x - h and x + h and the function is linear otherwise, the derivative is within G
 * / 2 of D. */
#ifndef CTI_GRADCHECK_STEPS_H
#define CTI_GRADCHECK_STEPS_H

#include "check.h"

enum { CTI_STEPS = 24 };

typedef struct {
    double *slope;     /* [CTI_STEPS][rows]: D */
    double *steep;     /* [CTI_STEPS][rows]: |D|; of sums |g| times the norm of all slopes, twice */
    double *gap;       /* [CTI_STEPS][rows]: G; of sums |g| times the norm of all gaps */
    double *bound;     /* [CTI_STEPS][rows]: gap(h) */
    double *others;    /* [CTI_STEPS][rows], of single outputs: the largest gap(h) of the others */
    double *second;    /* [CTI_STEPS][m]: |y(x + h) - 2 y(x) + y(x - h)| */
    double *noise;     /* [rows]: N */
    double *gap_noise; /* [rows]: the same for G, which for a sum is larger */
    bool *moved;       /* [CTI_STEPS][m]: does that output differ from y(x)? */
    double h[CTI_STEPS];
    double ratio; /* of a step to the next one */
    double unit;  /* the rounding error of x */
    int count;
} cti_steps;

/* Memory for a column, which ends with the innermost frame. */
bool cti_steps_new(cti_check *k, cti_steps *s);
/* Measures column i. The best differences go into numeric, their errors into noise. */
bool cti_steps_measure(cti_check *k, cti_checked *c, int64_t i, cti_steps *s);
/* error(h) of step `at` in row r; infinite if there is no such difference or no smaller step. */
double cti_steps_error(const cti_check *k, const cti_steps *s, int64_t r, int at);
/* The last term of error(h): what smaller steps say against this one. */
double cti_steps_refuted(const cti_check *k, const cti_steps *s, int64_t r, int at);
/* How far the derivative may be from D(h) because of kinks and jumps, and of rounding that the
 * noise of this row does not show. */
double cti_steps_room(const cti_check *k, const cti_steps *s, int64_t r, int at);
double cti_steps_rounding(const cti_check *k, const cti_steps *s, int64_t r, int at);
/* The gap of row r that is left at the step that shows it best: 0 for a smooth function, infinite
 * at a jump. */
double cti_steps_lasting(const cti_check *k, const cti_steps *s, int64_t r);
/* Does the next step move row r as far as this one does? Then what lies between decides, a kink or
 * a jump on both sides, and not the slope. */
bool cti_steps_saturated(const cti_check *k, const cti_steps *s, int64_t r, int at);
/* The gaps of every row for the values beside x in k->plus and k->minus, whose distance is `step`.
 */
void cti_steps_gaps(const cti_check *k, double step, double *gap);

#endif
