/* Decides about each column whose differences disagree with backward: backward is wrong, or the
 * differences cannot tell. They cannot tell at a kink or a jump, if the function is not finite, and
 * if rounding hides the slope. A gradient is wrong only if its distance from a difference is larger
 * than all measured parts of that difference's own error together.
 *
 *     differences with the usual step agree with backward --------------> RIGHT
 *              | no
 *              v
 *     clear: error gross, far above noise and gaps, and 64 columns
 *     were found wrong by many steps before ----------------------------> WRONG, or NOT_FINITE
 *              | no
 *              v
 *     many steps (steps.h) and their best differences agree ------------> RIGHT
 *              | no
 *              v
 *     the function is not finite at x or beside it ---------------------> NOT_FINITE
 *              | no
 *              v
 *     backward is within the own error of each difference --------------> KINK or IMPRECISE
 *              | no
 *              v
 *     also if kinks are counted that only directions show --------------> KINK or IMPRECISE
 *     (the directions are measured once for an input)
 *              | no
 *              v
 *     the error differs at points nearby (nearby.c; not at a
 *     kink, and after 16 columns whose error was the same) ------------> IMPRECISE
 *              | no
 *              v
 *            WRONG */
#include "steps.h"

#include <math.h>

static bool is_right(const cti_check *check, const cti_checked *c, int64_t i) {
    for (int64_t r = 0; r < check->rows; r++)
        if (!cti_check_right(check, c, r, i)) return false;
    return true;
}

/* Sets *clear if the error of each entry that is not right is gross (above a twentieth), far above
 * the error of its difference, and above all gaps of the usual step. */
static bool is_clear(cti_check *check, const cti_checked *c, int64_t i, double *gap, bool *clear) {
    const double h = cti_check_step(check, c, i);
    double step, widest = 0;
    if (!cti_check_beside(check, c, i, h, &step)) return false;
    cti_steps_gaps(check, step, gap);
    for (int64_t r = 0; check->whole && r < check->m; r++) widest = fmax(widest, gap[r]);
    *clear = true;
    for (int64_t r = 0; r < check->rows && *clear; r++) {
        const int64_t e = r * c->n + i, summed = r - (check->rows - CTI_ROWS_SUMMED);
        const double a = c->analytic[e], j = c->numeric[e], error = fabs(a - j),
                     doubt = c->noise[e] +
                             check->rounding / h * (summed < 0 ? 1 : check->length[summed]);
        if (cti_check_right(check, c, r, i)) continue;
        *clear = isfinite(a) && error > 100 * doubt && error > 0.05 * fmax(fabs(a), fabs(j)) &&
                 error > 2 * fmax(gap[r], widest);
    }
    return true;
}

/* How far the derivative may lie from D of step `at` because of kinks and jumps, and by the
 * evidence of smaller steps. */
static double structure_of(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    return cti_steps_room(check, s, r, at) + 4 * cti_steps_refuted(check, s, r, at);
}

/* The state of entry (r, i), which is not right, by the differences with many steps. It is
 * CTI_WRONG if its distance from one of the differences is larger than the error of that
 * difference. Otherwise it is CTI_KINK if kinks and jumps make up more than half of the least of
 * these errors and do not shrink with the step, which the error of a smooth function does; if not,
 * it is CTI_IMPRECISE. `hidden` is an error that the entry's own column does not show. */
static cti_state entry_weigh(const cti_check *check, const cti_checked *c, int64_t r, int64_t i,
                             const cti_steps *s, double hidden) {
    const double a = c->analytic[r * c->n + i];
    double least = INFINITY;
    bool kink = true;
    for (int at = 0; at + 1 < s->count; at++) {
        const double d = s->slope[at * check->rows + r], allowed = cti_check_allowed(check, r, d),
                     error = cti_steps_error(check, s, r, at),
                     rounding = cti_steps_rounding(check, s, r, at),
                     off = hidden + cti_steps_room(check, s, r, at) + 4 * error + rounding,
                     structure = structure_of(check, s, r, at);
        if (!isfinite(error) || cti_steps_saturated(check, s, r, at)) continue;
        if (isfinite(a) && fabs(a - d) > allowed + off)
            return !cti_steps_agree(check, s, r, a, fabs(a - d)) ? CTI_WRONG
                   : s->bent                                     ? CTI_KINK
                                                                 : CTI_IMPRECISE;
        if (!(off < least)) continue;
        least = off;
        kink = structure > allowed + 2 * rounding && structure > off / 2 &&
               structure_of(check, s, r, at + 1) > structure / 2;
        kink = kink || hidden > allowed;
    }
    return kink ? CTI_KINK : CTI_IMPRECISE;
}

/* ---- kinks that a column does not show ----
 *
 * If several elements tie, such as three equal ones in a sort, an output may be flat along every
 * single element and yet not along a direction that moves all of them. So before a gradient is
 * called wrong the function is measured along two directions u and v, and along u + v and u - v. If
 * it has a derivative, none of these shows a gap, their slopes add up, and each slope is the sum of
 * the columns' slopes, weighted by the direction. */

enum { PROBES = 4, ENOUGH_FOUND = 16 };

typedef struct {
    int found; /* number of columns whose error was found again at points nearby */
    bool measured;
    double *direction; /* [PROBES][numel] u, v, u + v, u - v */
    double *gap;       /* [PROBES][rows] the lasting gap (steps.h), or a larger contradiction */
} probes;

/* The distance of the slopes of row r along u + v and u - v from the sum and the difference of the
 * slopes along u and v, less the noise of all four. */
static double not_additive(const cti_check *check, const cti_checked *along, int64_t r) {
    const double *d = along->numeric + r * PROBES, *noise = along->noise + r * PROBES,
                 size = fabs(d[0]) + fabs(d[1]);
    double all = cti_check_allowed(check, r, size);
    for (int q = 0; q < PROBES; q++) all += 4 * noise[q];
    return fmax(0, fmax(fabs(d[2] - d[0] - d[1]), fabs(d[3] - d[0] + d[1])) - all);
}

/* The distance of the slope of row r along direction q from the sum of the columns' differences,
 * less the noise of all. */
static double not_of_columns(const cti_check *check, const cti_checked *c, const cti_checked *along,
                             int64_t r, int q) {
    const double *u = along->direction + q * c->x->numel;
    double off = along->numeric[r * PROBES + q], all = 4 * along->noise[r * PROBES + q];
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t e = r * c->n + i;
        off -= c->numeric[e] * u[i];
        all += (4 * c->noise[e] + cti_check_allowed(check, r, c->numeric[e])) * fabs(u[i]);
    }
    return fmax(0, fabs(off) - all);
}

static bool probe_step(cti_check *check, const cti_checked *c, probes *p) {
    const int64_t n = c->x->numel;
    cti_steps s;
    cti_checked along = *c;
    p->measured = true;
    along.n = PROBES;
    along.direction = p->direction = cti_check_directions(check, c, PROBES, CTI_STREAM_PROBES);
    p->gap = cti_check_numbers(check, PROBES, check->rows);
    along.numeric = cti_check_numbers(check, check->rows, PROBES);
    along.noise = cti_check_numbers(check, check->rows, PROBES);
    bool ok = p->direction && p->gap && along.numeric && along.noise && cti_steps_new(check, &s);
    for (int64_t e = 0; ok && e < n; e++) {
        const double u = p->direction[e], v = p->direction[n + e];
        p->direction[2 * n + e] = u + v, p->direction[3 * n + e] = u - v;
    }
    for (int64_t e = 0; ok && e < check->rows * PROBES; e++) along.numeric[e] = along.noise[e] = 0;
    for (int i = 0; ok && i < PROBES; i++) {
        ok = cti_steps_measure(check, &along, i, &s);
        for (int64_t r = 0; ok && r < check->rows; r++)
            p->gap[i * check->rows + r] = cti_steps_lasting(check, &s, r);
    }
    for (int64_t r = 0; ok && r < check->rows; r++)
        p->gap[r] = fmax(p->gap[r], not_additive(check, &along, r));
    for (int64_t r = 0; ok && !c->direction && r < check->rows * PROBES; r++) {
        double *gap = p->gap + r % PROBES * check->rows + r / PROBES;
        *gap = fmax(*gap, not_of_columns(check, c, &along, r / PROBES, (int)(r % PROBES)));
    }
    return ok;
}

/* The error of entry (r, i) that is possible because of kinks that the directions show and column i
 * does not. */
static double hidden_from(const cti_check *check, const cti_checked *c, int64_t r, int64_t i,
                          const cti_steps *s, const probes *p) {
    const double own = cti_steps_lasting(check, s, r);
    double most = 0;
    bool explained = true;
    for (int q = 0; q < PROBES && p->measured; q++) {
        const double gap = p->gap[q * check->rows + r];
        most = fmax(most, gap);
        if (c->direction) continue;
        const double from_own = own * fabs(p->direction[q * c->x->numel + i]);
        explained = explained && fabs(gap - from_own) <= 0.02 * gap;
    }
    return c->direction ? 16 * most : explained ? 0 : 64 * most;
}

/* The state of a column by the differences with many steps. If there is no derivative, a gradient
 * that is not finite is as good as any. */
static cti_state column_weigh(const cti_check *check, const cti_checked *c, int64_t i,
                              const cti_steps *s, const probes *p) {
    bool kink = false, finite = true, single = false;
    for (int64_t r = 0; r < check->rows; r++) {
        /* sums over outputs are judged only if all single ones are right */
        if (cti_check_right(check, c, r, i) || (single && r >= check->m)) continue;
        single = single || (check->whole && r < check->m);
        const double hidden = hidden_from(check, c, r, i, s, p);
        const cti_state state = entry_weigh(check, c, r, i, s, hidden);
        if (state == CTI_WRONG) return CTI_WRONG;
        kink = kink || (state == CTI_KINK && (s->bent || hidden > 0));
        finite = finite && isfinite(c->analytic[r * c->n + i]);
    }
    return kink ? CTI_KINK : finite ? CTI_IMPRECISE : CTI_WRONG;
}

/* Is the function not finite at x or a step beside it? The slope of an output that is the same
 * infinity at both points is 0; but if the gradient is not finite either, it is not called wrong.
 */
static bool is_undefined(const cti_check *check, const cti_checked *c, int64_t i) {
    bool finite = true, defined = true;
    for (int64_t r = 0; r < check->rows; r++) {
        if (!isfinite(c->numeric[r * c->n + i])) return true;
        finite = finite && isfinite(c->analytic[r * c->n + i]);
        if (r < check->m && check->whole && !isfinite(check->y[r]) &&
            !cti_check_right(check, c, r, i))
            return true;
    }
    for (int64_t j = 0; j < check->m; j++) defined = defined && isfinite(check->y[j]);
    /* a sum over outputs, and directions, do not tell which output is not finite */
    return !defined && (!finite || !check->whole);
}

/* Sets the state of a column after all its steps were measured. */
static bool column_judge(cti_check *check, cti_checked *c, int64_t i, cti_steps *s, probes *p) {
    cti_state *state = &c->state[i];
    bool again = true;
    *state = is_right(check, c, i)       ? CTI_RIGHT
             : is_undefined(check, c, i) ? CTI_NOT_FINITE
                                         : column_weigh(check, c, i, s, p);
    if (*state == CTI_WRONG && !p->measured) {
        if (!probe_step(check, c, p)) return false;
        *state = column_weigh(check, c, i, s, p);
    }
    /* at a kink any error changes at points nearby, so a column that is wrong there stays wrong */
    if (*state != CTI_WRONG || s->bent || p->found == ENOUGH_FOUND) return true;
    if (!cti_check_again(check, c, i, 1, false, s, &again)) return false;
    if (again) p->found++;
    else *state = CTI_IMPRECISE;
    return true;
}

/* Sets the state of column i. While *spare is above 0, a clear column is measured with many steps
 * too; each column that is then found wrong lowers it. After that a clear column is wrong without
 * many steps. */
static bool column_settle(cti_check *check, cti_checked *c, int64_t i, cti_steps *s, probes *p,
                          int *spare) {
    bool clear = false;
    c->state[i] = CTI_RIGHT;
    if (is_right(check, c, i)) return true;
    if (*spare == 0 && !is_clear(check, c, i, s->gap, &clear)) return false;
    if (clear) {
        c->state[i] = is_undefined(check, c, i) ? CTI_NOT_FINITE : CTI_WRONG;
        return true;
    }
    if (!cti_steps_measure(check, c, i, s) || !column_judge(check, c, i, s, p)) return false;
    *spare -= *spare > 0 && c->state[i] == CTI_WRONG;
    return true;
}

bool cti_check_settle(cti_check *check, cti_checked *c) {
    bool all_right = true;
    for (int64_t i = 0; i < c->n && all_right; i++) all_right = is_right(check, c, i);
    if (!all_right && !cti_check_nearby(check, CTI_FEW_POINTS)) return false;
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    cti_steps s;
    probes p = {0};
    int spare = 64;
    bool ok = cti_steps_new(check, &s);
    for (int64_t i = 0; ok && i < c->n; i++) ok = column_settle(check, c, i, &s, &p, &spare);
    cti_frame_close(check->context, &frame);
    return ok;
}
