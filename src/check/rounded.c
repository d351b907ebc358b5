/* An f64 gradient of which a part is computed in f32.
 *
 * Rounding to f32 gives errors of 1e-8 to 1e-6 of the gradient's size, which is often within the
 * tolerance. Differences in f64 are mostly accurate to 1e-9. So rounding to f32 can be recognised,
 * provided that the estimates of the differences' errors are right. */
#include "steps.h"

#include <math.h>

static bool is_f32(double v) { return (double)(float)v == v; }

/* Is every entry of A a number of f32, and are there at least four different ones besides 0? */
static bool is_all_f32(const cti_check *check, const cti_checked *c, int64_t rows) {
    double seen[4];
    int different = 0;
    for (int64_t e = 0; e < rows * c->n; e++) {
        const double v = fabs(c->analytic[e]);
        if (!is_f32(v)) return false;
        bool new = v != 0;
        for (int q = 0; q < different && q < 4; q++) new = new &&v != seen[q];
        if (new &&different < 4) seen[different++] = v;
    }
    return different == 4 && check->dtype == CT_F64;
}

/* Do the errors of A have the size of f32's rounding, and are they at least `least` times the
 * errors of the differences? With `refined`, `noise` is the estimate of a difference's error;
 * without it, the rounding of the output is added to `noise`. */
static bool has_f32_errors(const cti_check *check, const cti_checked *c, double least,
                           bool refined) {
    const int64_t rows = check->whole ? check->m : CTI_ROW_ZEROS;
    double errors = 0, doubts = 0, size = 0, most = 0, top = 0;
    int64_t off = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c->n; i++) {
            const int64_t e = r * c->n + i;
            if (c->state[i] > CTI_WRONG || !isfinite(c->analytic[e])) continue;
            const double error = fabs(c->analytic[e] - c->numeric[e]),
                         doubt = c->noise[e] +
                                 (refined ? 0 : check->rounding / cti_check_step(check, c, i));
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

static bool may_be_rounded(const cti_check *check, const cti_checked *c) {
    return !check->coarse && !c->direction && check->dtype == CT_F64;
}

bool cti_check_is_rounded(const cti_check *check, const cti_checked *c, bool refined) {
    const int64_t rows = check->whole ? check->m : CTI_ROW_ZEROS;
    return may_be_rounded(check, c) &&
           has_f32_errors(check, c, is_all_f32(check, c, rows) ? 4 : 20, refined);
}

/* Clears *again if the errors differ at points nearby: then they come from cancellation. */
static bool found_again(cti_check *check, const cti_checked *c, bool *again) {
    cti_steps s;
    if (!cti_check_nearby(check, CTI_POINTS)) return false;
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    const bool ok = cti_steps_new(check, &s) && cti_check_again(check, c, 0, c->n, true, &s, again);
    cti_frame_close(check->context, &frame);
    return ok;
}

bool cti_check_rounded(cti_check *check, cti_checked *c) {
    enum { MOST = 256 };
    if (check->opts.rtol > 1e-6 || check->opts.atol > 1e-8 || !may_be_rounded(check, c))
        return true;
    /* the usual differences raise the suspicion, better differences confirm it */
    if (!has_f32_errors(check, c, 2, false)) return true;
    for (int64_t i = 0; i < c->n && c->n <= MOST; i++)
        if (!cti_check_refine(check, c, i)) return false;
    c->rounded = cti_check_is_rounded(check, c, c->n <= MOST);
    if (c->rounded && c->n <= MOST && !found_again(check, c, &c->rounded)) return false;
    for (int64_t i = 0; i < c->n && c->rounded; i++)
        if (c->state[i] == CTI_RIGHT) c->state[i] = CTI_WRONG;
    return true;
}
