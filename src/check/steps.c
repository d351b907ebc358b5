/* Differences with many steps, and bounds for their errors; steps.h has the formulas. */
#include "steps.h"

#include <float.h>
#include <math.h>

static int64_t first_sum(const cti_check *check) { return check->rows - CTI_ROWS_SUMMED; }

bool cti_steps_new(cti_check *check, cti_steps *s) {
    double **const tables[] = {&s->slope, &s->steep, &s->gap, &s->bound, &s->others};
    *s = (cti_steps){.second = cti_check_numbers(check, CTI_STEPS, check->m),
                     .noise = cti_check_numbers(check, 1, check->rows),
                     .gap_noise = cti_check_numbers(check, 1, check->rows),
                     .moved = cti_check_flags(check, CTI_STEPS * check->m),
                     .ratio = check->coarse ? 4 : 10};
    bool ok = s->second && s->noise && s->gap_noise && s->moved;
    for (size_t t = 0; ok && t < sizeof tables / sizeof *tables; t++)
        ok = (*tables[t] = cti_check_numbers(check, CTI_STEPS, check->rows)) != NULL;
    return ok;
}

/* ---- the steps ---- */

static double cotangent_size(const cti_check *check, int g) {
    double squares = 0;
    for (int64_t j = 0; j < check->m; j++)
        squares += check->cotangent[g * check->m + j] * check->cotangent[g * check->m + j];
    return sqrt(squares);
}

/* The gap of a sum is |g| times the norm of the gaps. This bounds the sum for any assignment of the
 * gaps to the elements of g: if two outputs change places, the gap of one is the error of the
 * other. */
void cti_steps_gaps(const cti_check *check, double step, double *gap) {
    double squares = 0;
    for (int64_t j = 0; j < check->m; j++) {
        const bool still = check->plus[j] == check->y[j] && check->minus[j] == check->y[j];
        const double here =
            still ? 0 : fabs(check->plus[j] - 2 * check->y[j] + check->minus[j]) / (step / 2);
        if (check->whole) gap[j] = here;
        squares += here * here;
    }
    for (int g = 0; g < CTI_ROWS_SUMMED; g++) {
        const double size = cotangent_size(check, g);
        gap[first_sum(check) + g] = size > 0 ? size * sqrt(squares) : 0;
    }
}

/* Sets the size of every row's slope. For a sum it is 2 |g| times the norm of the slopes, because
 * terms that cancel in the sum do not cancel in its rounding. */
static void steepness_measure(const cti_check *check, double step, double *steep) {
    double squares = 0;
    for (int64_t j = 0; j < check->m; j++) {
        const double here =
            check->plus[j] == check->minus[j] ? 0 : fabs(check->plus[j] - check->minus[j]) / step;
        if (check->whole) steep[j] = here;
        squares += here * here;
    }
    for (int g = 0; g < CTI_ROWS_SUMMED; g++)
        steep[first_sum(check) + g] = 2 * cotangent_size(check, g) * sqrt(squares);
}

/* Adds the difference with step h. A larger step may leave the function's domain. This is no error:
 * the difference is then NaN and not used. */
static bool difference_add(cti_check *check, const cti_checked *c, int64_t i, double h,
                           cti_steps *s) {
    const int at = s->count++;
    const int64_t row = at * check->rows;
    double step = (double)NAN;
    cti_held_errors held = cti_check_hold_errors(check);
    const bool ran = cti_check_beside(check, c, i, h, &step);
    const bool clean = cti_check_drop_errors(check, held);
    if (!clean && check->context->status) return false;
    s->h[at] = h;
    if (ran) {
        cti_check_weigh(check, check->plus, check->minus, step, s->slope + row, 1);
        cti_steps_gaps(check, step, s->gap + row);
        steepness_measure(check, step, s->steep + row);
    }
    for (int64_t r = row; r < row + check->rows && !ran; r++)
        s->slope[r] = s->gap[r] = s->steep[r] = (double)NAN;
    for (int64_t j = 0; j < check->m; j++) {
        s->second[at * check->m + j] =
            ran ? fabs(check->plus[j] - 2 * check->y[j] + check->minus[j]) : (double)NAN;
        s->moved[at * check->m + j] =
            ran && (check->plus[j] != check->y[j] || check->minus[j] != check->y[j]);
    }
    return true;
}

/* The size of x in the units of a step. A direction is scaled by max(1, |x|), so for directions the
 * size is at most 1. */
static double size_of_point(const cti_checked *c, int64_t i) {
    double most = 0;
    if (!c->direction) return fabs(cti_check_get(c->x, i));
    for (int64_t e = 0; e < c->x->numel; e++) most = fmax(most, fabs(cti_check_get(c->x, e)));
    return fmin(most, 1);
}

static bool steps_take(cti_check *check, const cti_checked *c, int64_t i, cti_steps *s) {
    const double x = size_of_point(c, i), epsilon = check->coarse ? FLT_EPSILON : DBL_EPSILON,
                 least = (check->coarse ? 1 : 32) * epsilon * fmax(x, DBL_MIN);
    double h = cti_check_step(check, c, i) * (check->coarse ? 10 : 1000);
    s->count = 0;
    s->unit = epsilon * x;
    while (s->count < CTI_STEPS && h > least) {
        if (!difference_add(check, c, i, h, s)) return false;
        h /= s->ratio;
    }
    return true;
}

/* ---- noise ---- */

/* Does output j jump at x? Then S(h) is the same at the smallest steps; noise would give another S
 * at each of them. */
static bool is_jump(const cti_check *check, const cti_steps *s, int64_t j, double least) {
    enum { STEPS = 4 };
    double low = INFINITY, high = 0;
    for (int at = s->count - STEPS; at >= 0 && at < s->count; at++) {
        const double here = s->second[at * check->m + j];
        if (!(here > 16 * least) || !(here > 64 * check->rounding)) return false;
        low = fmin(low, here), high = fmax(high, here);
    }
    return isfinite(high) && high < 1.1 * low;
}

/* Does S grow from step `at` to the next larger one, three times in a row? It does at a root, such
 * as sqrt |x| at 0. */
static bool grows_steadily(const cti_check *check, const cti_steps *s, int64_t j, int at) {
    const double growth = check->coarse ? 1.7 : 2.5; /* the S of a root: sqrt 4 or sqrt 10 */
    enum { STEPS = 3 };
    for (int less = at; less > at - STEPS; less--)
        if (less < 1 ||
            !(s->second[(less - 1) * check->m + j] > growth * s->second[less * check->m + j]))
            return false;
    return true;
}

/* The rounding error of output j, as S(h) = |y(x + h) - 2 y(x) + y(x - h)| shows it. Curvature
 * makes S grow with h^2, and a kink makes it grow with h; rounding gives S the same size for all
 * steps. So the error is the largest S, from the smallest step up to the step at which S begins to
 * come from the function. That is the step from which S grows like h or h^2, or steadily; or at
 * which S, after three steps, is much larger than before; or at which S jumps while smaller steps
 * were exact. From there on S may still look like noise. (If an intermediate result is large, the
 * smallest steps are lost in it, and their S is 0.) */
static double rounding_seen(const cti_check *check, const cti_steps *s, int64_t j) {
    const double least = (check->coarse ? FLT_EPSILON : DBL_EPSILON) * fabs(check->y[j]),
                 linear = s->ratio, square = s->ratio * s->ratio;
    double most = least;
    bool moved = false, exact = false;
    int seen = 0;
    for (int at = 0; at < s->count; at++) moved |= s->moved[at * check->m + j];
    if (!moved) return 0;
    if (is_jump(check, s, j, least)) return least;
    for (int at = s->count - 1; at > 0; at--) {
        const double here = s->second[at * check->m + j], next = s->second[(at - 1) * check->m + j],
                     growth = here > 4 * least ? next / here : 0;
        if (!isfinite(here)) continue;
        if ((growth > 0.8 * square && growth < 1.25 * square) ||
            (growth > 0.9 * linear && growth < 1.1 * linear) || grows_steadily(check, s, j, at))
            break;
        if (seen >= 3 && here > 8 * most) break;
        if (exact && here > 16 * least && here > 64 * check->rounding) break;
        exact = exact || here <= 4 * least;
        seen += s->moved[at * check->m + j];
        if (!(next > 3 * here)) most = fmax(most, here);
    }
    return isfinite(most) ? most : 0; /* an output that is the same infinity everywhere is exact */
}

/* Do the next growths of S from step `at` on lie within a factor `slack` of `growth`? */
static bool grows_by(const cti_check *check, const cti_steps *s, int64_t j, int at, int growths,
                     double growth, double slack) {
    if (at < growths) return false;
    for (int less = at; less > at - growths; less--) {
        const double here = s->second[less * check->m + j],
                     next = s->second[(less - 1) * check->m + j];
        if (!(next > growth / slack * here && next < growth * slack * here)) return false;
    }
    return true;
}

/* Has output j a kink, a jump or a vertical tangent at x or close to it? The answer is in the way
 * in which S grows where it emerges from rounding: with h at a kink, not at all at a jump, with the
 * root of h at a vertical tangent, and with h^2 if the function is smooth. */
static bool is_bent(const cti_check *check, const cti_steps *s, int64_t j) {
    const double least = 16 * (check->coarse ? FLT_EPSILON : DBL_EPSILON) * fabs(check->y[j]);
    double below = 0,              /* the largest S of the smaller steps */
        range = fabs(check->y[j]); /* a jump that is small beside this is rounding */
    for (int at = 0; at < s->count; at++) range = fmax(range, s->second[at * check->m + j]);
    const int usual = check->coarse ? 2 : 3; /* a kink farther away does not disturb D */
    for (int at = s->count - 1; at >= usual; at--) {
        const double here = s->second[at * check->m + j];
        const bool emerges = here > least && here > 2 * below;
        below = fmax(below, here);
        if (!emerges) continue;
        if (grows_by(check, s, j, at, 2, s->ratio * s->ratio, 1.6)) return false;
        if (grows_by(check, s, j, at, 3, s->ratio, 1.5) ||
            (here > 0x1p-14 * range && grows_by(check, s, j, at, 3, 1, 1.02)) ||
            grows_by(check, s, j, at, 3, sqrt(s->ratio), 1.15))
            return true;
    }
    return false;
}

static void noise_estimate(const cti_check *check, cti_steps *s) {
    double sum[CTI_ROWS_SUMMED] = {0}, squares = 0;
    s->bent = false;
    for (int64_t j = 0; j < check->m; j++) {
        const double noise = rounding_seen(check, s, j);
        s->bent = s->bent || is_bent(check, s, j);
        const double of_gap = fmax(noise, check->rounding);
        if (check->whole) s->noise[j] = noise, s->gap_noise[j] = of_gap;
        squares += of_gap * of_gap;
        for (int g = 0; g < CTI_ROWS_SUMMED; g++) {
            const double part = check->cotangent[g * check->m + j] * noise;
            sum[g] += part * part;
        }
    }
    for (int g = 0; g < CTI_ROWS_SUMMED; g++) {
        s->noise[first_sum(check) + g] = 2 * sqrt(sum[g]);
        s->gap_noise[first_sum(check) + g] = 2 * cotangent_size(check, g) * sqrt(squares);
    }
}

/* The error of D(h) by the rounding of x and of intermediate results, which moves the point. */
static double moved_by(const cti_steps *s, int64_t e, int at) {
    return 2 * s->unit * (s->steep[e] + s->gap[e]) / s->h[at];
}

/* ---- bounds ---- */

/* B(h): the gap G(h) without the h f'' of a smooth function. This term is a tenth (a quarter) of
 * the same term in the gap of the step before. */
static double bend(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    const double *gap = s->gap + at * check->rows + r,
                 smooth = at > 0 ? gap[-check->rows] / s->ratio : 0;
    return isfinite(smooth) ? (gap[0] - smooth) / (1 - 1 / s->ratio) : gap[0];
}

/* B(h) less its noise. */
static double gap_clean(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    return bend(check, s, r, at) - 8 * s->gap_noise[r] / s->h[at];
}

/* Do the slopes of row r grow from step to step over the smallest steps, with the same sign? */
static bool steepens(const cti_check *check, const cti_steps *s, int64_t r, double allowed) {
    enum { STEPS = 4 };
    const double growth = 1.2;
    if (s->count < STEPS) return false;
    const double *d = s->slope + (s->count - STEPS) * check->rows + r;
    for (int at = 1; at < STEPS; at++)
        if (!(d[at * check->rows] / d[(at - 1) * check->rows] > growth)) return false;
    return fabs(d[(STEPS - 1) * check->rows]) >
           allowed + cti_steps_rounding(check, s, r, s->count - 1);
}

/* A jump and a vertical tangent have no bound. Do the gaps of row r still grow at the smallest
 * steps at which noise does not hide them, or do its slopes grow at the smallest steps of all? */
static bool is_unbounded(const cti_check *check, const cti_steps *s, int64_t r, double allowed) {
    const double growth = 1.2;
    int last = s->count - 1;
    while (last > 0 && !(gap_clean(check, s, r, last) > allowed)) last--;
    return steepens(check, s, r, allowed) ||
           (last > 1 && gap_clean(check, s, r, last) > growth * gap_clean(check, s, r, last - 1) &&
            gap_clean(check, s, r, last - 1) > growth * gap_clean(check, s, r, last - 2));
}

static void gaps_bound(const cti_check *check, const cti_checked *c, int64_t i, cti_steps *s) {
    for (int64_t r = 0; r < check->rows; r++) {
        const double allowed = cti_check_allowed(check, r, c->numeric[r * c->n + i]);
        double most = is_unbounded(check, s, r, allowed) ? INFINITY : 0;
        for (int at = s->count - 1; at >= 0; at--) {
            const double here = bend(check, s, r, at), clean = gap_clean(check, s, r, at);
            s->bound[at * check->rows + r] = here > most ? here : most;
            if (clean > most) most = clean;
        }
    }
    for (int at = 0; at < s->count && check->whole; at++) {
        const double *bound = s->bound + at * check->rows;
        double *other = s->others + at * check->rows, first = 0, second = 0;
        for (int64_t r = 0; r < first_sum(check); r++) {
            second = fmax(second, fmin(first, bound[r]));
            first = fmax(first, bound[r]);
        }
        for (int64_t r = 0; r < first_sum(check); r++)
            other[r] = bound[r] == first ? second : first;
    }
}

double cti_steps_room(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    const int64_t e = at * check->rows + r;
    /* Half a gap, and a little for curvature. If two outputs exchange places (a sort), an output
     * may show no gap of its own, because it is as flat on both sides as the other one is steep. */
    enum { OTHERS = 8, SUMS = 4 };
    return r < first_sum(check) ? 0.55 * s->bound[e] + OTHERS * s->others[e] : SUMS * s->bound[e];
}

double cti_steps_rounding(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    const int64_t summed = r - first_sum(check);
    const double output =
        summed < 0 ? check->rounding : s->gap_noise[r] + check->length[summed] * check->rounding;
    return 4 * (output / s->h[at] + moved_by(s, at * check->rows + r, at));
}

double cti_steps_lasting(const cti_check *check, const cti_steps *s, int64_t r) {
    double least = INFINITY, most = 0;
    int best = 0;
    for (int at = 0; at < s->count; at++) {
        const double here = s->bound[at * check->rows + r] + 8 * s->gap_noise[r] / s->h[at];
        if (here < least) least = here, best = at;
    }
    if (!isfinite(least)) return INFINITY;
    for (int at = best; at < s->count; at++) most = fmax(most, gap_clean(check, s, r, at));
    return most;
}

double cti_steps_refuted(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    double most = 0;
    for (int less = at + 1; less < s->count; less++) {
        const double off = fabs(s->slope[less * check->rows + r] - s->slope[at * check->rows + r]) -
                           4 * s->noise[r] / s->h[less] -
                           2 * moved_by(s, less * check->rows + r, less);
        if (off > most) most = off;
    }
    return most;
}

double cti_steps_error(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    const double *d = s->slope + at * check->rows + r;
    if (at + 1 >= s->count || !isfinite(d[0])) return INFINITY;
    double error = fabs(d[0] - d[check->rows]) + s->noise[r] / s->h[at];
    if (at + 2 < s->count) error += fabs(d[check->rows] - d[2 * check->rows]) / 10;
    if (at > 0 && isfinite(d[-check->rows])) error += fabs(d[0] - d[-check->rows]) / 100;
    if (!isfinite(error)) return INFINITY;
    error += cti_steps_refuted(check, s, r, at);
    /* flat with this step and not with larger ones: a stair, or an addend that absorbs the step */
    for (int more = 0; more < at && d[0] == 0; more++) {
        const double steep = fabs(s->slope[more * check->rows + r]);
        if (isfinite(steep)) error = fmax(error, steep / 2);
    }
    return error;
}

bool cti_steps_agree(const cti_check *check, const cti_steps *s, int64_t r, double a, double off) {
    bool before = false;
    for (int at = 0; at + 1 < s->count; at++) {
        const double *d = s->slope + at * check->rows + r,
                     room = cti_check_allowed(check, r, d[0]) + 4 * fabs(d[0] - d[check->rows]);
        const bool here = fabs(a - d[0]) <= room && room < off / 20;
        if (here && before) return true;
        before = here;
    }
    return false;
}

bool cti_steps_saturated(const cti_check *check, const cti_steps *s, int64_t r, int at) {
    const double *d = s->slope + at * check->rows + r;
    return at + 1 < s->count && d[0] != 0 &&
           fabs(d[check->rows] / d[0] - s->ratio) < 0.1 * s->ratio;
}

/* ---- the best differences ---- */

static void best_take(const cti_check *check, cti_checked *c, int64_t i, const cti_steps *s) {
    for (int64_t r = 0; r < check->rows; r++) {
        double best = INFINITY, value = 0;
        for (int at = 0; at < s->count; at++) {
            const double error = cti_steps_error(check, s, r, at);
            if (error < best) best = error, value = s->slope[at * check->rows + r];
        }
        if (isfinite(best)) c->numeric[r * c->n + i] = value, c->noise[r * c->n + i] = best;
    }
}

bool cti_steps_measure(cti_check *check, cti_checked *c, int64_t i, cti_steps *s) {
    if (!steps_take(check, c, i, s)) return false;
    noise_estimate(check, s);
    best_take(check, c, i, s);
    gaps_bound(check, c, i, s);
    return true;
}

bool cti_check_refine(cti_check *check, cti_checked *c, int64_t i) {
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    cti_steps s;
    const bool ok = cti_steps_new(check, &s) && cti_steps_measure(check, c, i, &s);
    cti_frame_close(check->context, &frame);
    return ok;
}
