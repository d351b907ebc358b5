/* Two mistakes that show in the size and form of backward's numbers: a backward that is not linear
 * in the cotangent, and a backward that computes in f32. */
#include "suspect.h"

#include <math.h>

/* ---- linear in the cotangent ---- */

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

/* The distance of the random cotangent's row from the sum of the rows of single ones, each times
 * its element of the cotangent; relative to the sizes of these terms. */
static double sum_differs(const cti_suspect *s, const double *random) {
    const cti_check *k = s->k;
    double off = 0, most = 0;
    for (int64_t i = 0; k->whole && i < s->n; i++) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < k->m; r++) {
            const double part =
                k->cotangent[CTI_ROW_RANDOM * k->m + r] * s->c->analytic[r * s->n + i];
            sum += part, size += fabs(part);
        }
        off = fmax(off, fabs(random[i] - sum)), most = fmax(most, size);
    }
    return most > 0 ? off / most : 0;
}

bool cti_suspect_not_linear(cti_suspect *s) {
    const cti_check *k = s->k;
    const double *summed = s->c->analytic + (k->rows - CTI_ROWS_SUMMED) * s->n,
                 *random = summed + CTI_ROW_RANDOM * s->n, *large = summed + CTI_ROW_LARGE * s->n,
                 *small = summed + CTI_ROW_SMALL * s->n, part = k->coarse ? 1e-3 : 1e-5;
    const double off_large = row_differs(large, random, s->n, CTI_LARGE),
                 off_small = row_differs(small, random, s->n, -1 / CTI_LARGE);
    if (off_large <= part && off_small <= part && sum_differs(s, random) <= part) return false;
    bool single = k->whole;
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

/* ---- computed in f32 ----
 *
 * Rounding to f32 gives errors of 1e-8 to 1e-6 of the gradient's size, which is often within the
 * tolerance. Differences in f64 are mostly accurate to 1e-9. So rounding to f32 can be recognised,
 * provided that the estimates of the differences' errors are right. */

static bool is_f32(double v) { return (double)(float)v == v; }

/* Is every entry of A a number of f32, and are there at least four different ones besides 0? */
static bool is_all_f32(const cti_check *k, const cti_checked *c, int64_t rows) {
    double seen[4];
    int different = 0;
    for (int64_t e = 0; e < rows * c->n; e++) {
        const double v = fabs(c->analytic[e]);
        if (!is_f32(v)) return false;
        bool new = v != 0;
        for (int q = 0; q < different && q < 4; q++) new = new &&v != seen[q];
        if (new &&different < 4) seen[different++] = v;
    }
    return different == 4 && k->dtype == CT_F64;
}

/* Do the errors of A have the size of f32's rounding, and are they at least `least` times the
 * errors of the differences? With `refined`, `noise` is the estimate of a difference's error;
 * without it, the rounding of the output is added to `noise`. */
static bool has_f32_errors(const cti_check *k, const cti_checked *c, double least, bool refined) {
    const int64_t rows = k->whole ? k->m : CTI_ROW_ZEROS;
    double errors = 0, doubts = 0, size = 0, most = 0, top = 0;
    int64_t off = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c->n; i++) {
            const int64_t e = r * c->n + i;
            if (c->state[i] > CTI_WRONG || !isfinite(c->analytic[e])) continue;
            const double error = fabs(c->analytic[e] - c->numeric[e]),
                         doubt =
                             c->noise[e] + (refined ? 0 : k->rounding / cti_check_step(k, c, i));
            errors += error * error, size += c->numeric[e] * c->numeric[e];
            top = fmax(top, fabs(c->numeric[e])), most = fmax(most, error);
            if (c->analytic[e] == c->numeric[e]) continue;
            doubts += doubt * doubt, off += error > 8 * doubt;
        }
    if (!(size > 0) || off < 2) return false;
    const double relative = sqrt(errors / size);
    return errors > least * least * doubts && relative > 0x1p-31 && relative < 0x1p-20 &&
           most < 0x1p-18 * top;
}

static bool may_be_rounded(const cti_check *k, const cti_checked *c) {
    return !k->coarse && !c->direction && k->dtype == CT_F64;
}

static bool is_rounded(const cti_check *k, const cti_checked *c, bool refined) {
    const int64_t rows = k->whole ? k->m : CTI_ROW_ZEROS;
    return may_be_rounded(k, c) && has_f32_errors(k, c, is_all_f32(k, c, rows) ? 4 : 20, refined);
}

bool cti_check_rounded(cti_check *k, cti_checked *c) {
    enum { MOST = 256 };
    if (k->opts.rtol > 1e-6 || k->opts.atol > 1e-8 || !may_be_rounded(k, c)) return true;
    /* the usual differences raise the suspicion, better differences confirm it */
    if (!has_f32_errors(k, c, 2, false)) return true;
    for (int64_t i = 0; i < c->n && c->n <= MOST; i++)
        if (!cti_check_refine(k, c, i)) return false;
    c->rounded = is_rounded(k, c, c->n <= MOST);
    for (int64_t i = 0; i < c->n && c->rounded; i++)
        if (c->state[i] == CTI_RIGHT) c->state[i] = CTI_WRONG;
    return true;
}

bool cti_suspect_rounded(cti_suspect *s) {
    if (!s->c->rounded && !is_rounded(s->k, s->c, false)) return false;
    return cti_suspect_say(s, CT_MISTAKE_ROUNDING,
                           "the errors are of the size of f32's rounding, %.2g of the gradient: "
                           "something is computed or stored in f32",
                           s->error / s->size);
}
