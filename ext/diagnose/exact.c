/* Hypotheses about the size and form of backward's numbers: a backward that is not linear in the
 * cotangent, and a backward that computes in f32. */
#include "suspect.h"

#include <math.h>

/* The largest |got - scale expected| of two rows, over the largest size of any element of both. */
static double row_differs(const double *got, const double *expected, int64_t n, double scale) {
    double off = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        off = fmax(off, fabs(got[i] - scale * expected[i]));
        most = fmax(most, fmax(fabs(got[i]), fabs(scale * expected[i])));
    }
    return most > 0 ? off / most : 0;
}

static double row_size(const double *row, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += row[i] * row[i];
    return sqrt(sum);
}

/* Backward is linear if the row of a random cotangent is the sum, over r, of element r of the
 * cotangent times the row of the cotangent that is 1 at element r. Returns the distance of the two,
 * relative to the sizes of the terms. */
static double sum_differs(const cti_suspect *s, const double *random) {
    const cti_check *check = s->check;
    double off = 0, most = 0;
    for (int64_t i = 0; check->whole && i < s->n; i++) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < check->m; r++) {
            const double part =
                check->cotangent[CTI_ROW_RANDOM * check->m + r] * s->c->analytic[r * s->n + i];
            sum += part, size += fabs(part);
        }
        off = fmax(off, fabs(random[i] - sum)), most = fmax(most, size);
    }
    return most > 0 ? off / most : 0;
}

bool cti_suspect_not_linear(cti_suspect *s) {
    const cti_check *check = s->check;
    const double *summed = s->c->analytic + (check->rows - CTI_ROWS_SUMMED) * s->n,
                 *random = summed + CTI_ROW_RANDOM * s->n, *large = summed + CTI_ROW_LARGE * s->n,
                 *small = summed + CTI_ROW_SMALL * s->n, part = check->coarse ? 1e-3 : 1e-5;
    const double off_large = row_differs(large, random, s->n, CTI_LARGE),
                 off_small = row_differs(small, random, s->n, -1 / CTI_LARGE);
    if (off_large <= part && off_small <= part && sum_differs(s, random) <= part) return false;
    bool single = check->whole;
    for (int64_t r = 0; r < s->rows && single; r++)
        for (int64_t i = 0; i < s->n; i++) single = single && !cti_suspect_wrong(s, r, i);
    const double grown = row_size(large, s->n) / (row_size(random, s->n) * CTI_LARGE);
    return cti_suspect_say(
        s, CT_MISTAKE_COTANGENT, "backward does not use the cotangent linearly: %s",
        grown < 0.9        ? "a large one gives too little, as if it were clipped"
        : grown > 1.1      ? "a large one gives too much, as if it were squared"
        : off_small > part ? "a small one, or one of the other sign, gives another multiple"
        : single           ? "it is right for a single output and wrong for a mixture of them"
                 : "the gradient for a mixture is not the sum of the gradients for single outputs");
}

bool cti_suspect_rounded(cti_suspect *s) {
    if (!s->c->rounded && !cti_check_is_rounded(s->check, s->c, false)) return false;
    return cti_suspect_say(s, CT_MISTAKE_ROUNDING,
                           "the errors are of the size of f32's rounding, %.2g of the gradient: "
                           "something is computed or stored in f32",
                           s->error / s->size);
}
