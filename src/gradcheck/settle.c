/* Decides each column whose differences disagree with backward: is backward wrong, or can the
 * differences not tell? They cannot at a kink or a jump, where the function is not finite, and
 * where rounding hides the slope. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- differences with other steps ----
 *
 * Steps from 1000 times the usual one down to what x can represent, each a tenth of the one before.
 * For each entry the difference with the smallest estimated error is taken:
 *
 *     |D(h) - D(h/10)| + |D(h) - D(10 h)| / 100 + N / h
 *
 * The first term is the truncation error, the second guards against two noisy differences that
 * agree by chance. N is the rounding error of the output. */

enum { STEPS = 16 };

typedef struct {
    double *slope;  /* [STEPS][rows] */
    double *second; /* [STEPS][m]: |y(x + h) - 2 y(x) + y(x - h)| */
    double *noise;  /* [rows]: N */
    double h[STEPS];
    int count;
} ladder;

/* A larger step may leave the function's domain: that is no error, and such a step is not used. */
static bool rung(cti_check *k, const cti_checked *c, int64_t i, double h, ladder *l) {
    const int at = l->count++;
    double step = (double)NAN;
    cti_held_errors held = cti_check_hold_errors(k);
    const bool ran = cti_check_beside(k, c, i, h, &step);
    const bool clean = cti_check_drop_errors(k, held);
    if (!clean && k->context->status) return false;
    l->h[at] = h;
    cti_check_weigh(k, k->plus, k->minus, ran ? step : (double)NAN, l->slope + at * k->rows, 1);
    for (int64_t r = 0; r < k->rows && !ran; r++) l->slope[at * k->rows + r] = (double)NAN;
    for (int64_t j = 0; j < k->m; j++)
        l->second[at * k->m + j] =
            ran ? fabs(k->plus[j] - 2 * k->y[j] + k->minus[j]) : (double)NAN;
    return true;
}

static bool climb(cti_check *k, const cti_checked *c, int64_t i, ladder *l) {
    const double unit = k->coarse ? FLT_EPSILON : DBL_EPSILON,
                 x = c->direction ? 1 : fabs(cti_check_get(c->x, i));
    double h = cti_check_step(k, c, i) * (k->coarse ? 10 : 1000);
    while (l->count < STEPS && h > 32 * unit * fmax(x, DBL_MIN)) {
        if (!rung(k, c, i, h, l)) return false;
        h /= 10;
    }
    return true;
}

/* The rounding error of output j, seen in S(h) = |y(x + h) - 2 y(x) + y(x - h)|. Curvature makes S
 * grow with h^2 and a kink with h; rounding makes it as large for one step as for the next. From
 * the smallest step on, until S begins to grow so: beyond that a periodic function may look like
 * noise. (Where an intermediate result is large, S is 0 for the smallest steps of all, as these are
 * lost in it.) */
static double rounding_seen(const cti_check *k, const ladder *l, int64_t j) {
    const double least = (k->coarse ? FLT_EPSILON : DBL_EPSILON) * fabs(k->y[j]);
    double most = least;
    for (int at = l->count - 1; at > 0; at--) {
        const double here = l->second[at * k->m + j], next = l->second[(at - 1) * k->m + j],
                     growth = here > 4 * least ? next / here : 0;
        if (!isfinite(here)) continue;
        if ((growth > 80 && growth < 125) || (growth > 9 && growth < 11)) break;
        if (!(next > 3 * here)) most = fmax(most, here);
    }
    return isfinite(most) ? most : 0; /* an infinity that does not move is exact */
}

static void estimate_noise(const cti_check *k, ladder *l) {
    double sum[CTI_ROWS_SUMMED] = {0};
    for (int64_t j = 0; j < k->m; j++) {
        const double noise = rounding_seen(k, l, j);
        if (k->whole) l->noise[j] = noise;
        for (int s = 0; s < CTI_ROWS_SUMMED; s++) {
            const double part = k->cotangent[s * k->m + j] * noise;
            sum[s] += part * part;
        }
    }
    for (int s = 0; s < CTI_ROWS_SUMMED; s++)
        l->noise[k->rows - CTI_ROWS_SUMMED + s] = 2 * sqrt(sum[s]);
}

/* Takes the best difference of each row into numeric and noise. */
static void take_best(cti_check *k, cti_checked *c, int64_t i, const ladder *l) {
    for (int64_t r = 0; r < k->rows; r++) {
        double best = INFINITY, value = 0;
        for (int at = 0; at + 1 < l->count; at++) {
            const double *d = l->slope + at * k->rows + r;
            double error = fabs(d[0] - d[k->rows]) + l->noise[r] / l->h[at];
            if (at > 0 && isfinite(d[-k->rows])) error += fabs(d[0] - d[-k->rows]) / 100;
            if (isfinite(d[0]) && error < best) best = error, value = d[0];
        }
        double *numeric = &c->numeric[r * c->n + i], *noise = &c->noise[r * c->n + i];
        const double now = *noise + l->noise[r] / cti_check_step(k, c, i);
        if (isfinite(best) && !(isfinite(*numeric) && now <= best)) *numeric = value, *noise = best;
        else if (isfinite(now)) *noise = now;
    }
}

static bool refine(cti_check *k, cti_checked *c, int64_t i) {
    cti_frame frame;
    cti_frame_open(k->context, &frame, true);
    ladder l = {.slope = cti_check_numbers(k, STEPS, k->rows),
                .second = cti_check_numbers(k, STEPS, k->m),
                .noise = cti_check_numbers(k, 1, k->rows)};
    bool ok = l.slope && l.second && l.noise && climb(k, c, i, &l);
    if (ok) {
        estimate_noise(k, &l);
        take_best(k, c, i, &l);
    }
    cti_frame_close(k->context, &frame);
    return ok;
}

/* ---- kinks ---- */

/* The slopes to the right and left of x, with the usual step and a quarter of it. */
typedef struct {
    double *right[2], *left[2]; /* [rows] */
    double *reach; /* [rows]: sum of |g_j| times the gap of both slopes of output j, usual step */
} sides;

static bool measure_sides(cti_check *k, const cti_checked *c, int64_t i, sides *s) {
    for (int q = 0; q < 2; q++) {
        double step;
        if (!cti_check_beside(k, c, i, cti_check_step(k, c, i) / (q ? 4 : 1), &step)) return false;
        step /= 2;
        cti_check_weigh(k, k->plus, k->y, step, s->right[q], 1);
        cti_check_weigh(k, k->y, k->minus, step, s->left[q], 1);
        if (q) continue;
        const int64_t single = k->rows - CTI_ROWS_SUMMED;
        for (int t = 0; t < CTI_ROWS_SUMMED; t++) s->reach[single + t] = 0;
        for (int64_t j = 0; j < k->m; j++) {
            const double gap = fabs(k->plus[j] - 2 * k->y[j] + k->minus[j]) / step;
            if (k->whole) s->reach[j] = gap;
            for (int t = 0; t < CTI_ROWS_SUMMED; t++)
                s->reach[single + t] += fabs(k->cotangent[t * k->m + j]) * gap;
        }
    }
    return true;
}

/* Does a slope grow as the step shrinks, as at a jump or a vertical tangent? */
static bool grows(double of_step, double of_quarter, double least) {
    return fabs(of_quarter) > 1.5 * fabs(of_step) && fabs(of_step) > least;
}

/* Is entry r, which is not right, between the slopes of a kink? Their gap does not shrink with the
 * step: for a smooth function it is h f'', so a quarter of the step gives a quarter of the gap. */
static bool between(const cti_check *k, const cti_checked *c, int64_t r, int64_t i,
                    const sides *s) {
    const double a = c->analytic[r * c->n + i], right = s->right[0][r], left = s->left[0][r],
                 gap = fabs(right - left), closer = fabs(s->right[1][r] - s->left[1][r]),
                 allowed = cti_check_allowed(k, r, a);
    const int64_t summed = r - (k->rows - CTI_ROWS_SUMMED);
    const double rounding =
        k->rounding / cti_check_step(k, c, i) * (summed < 0 ? 1 : k->length[summed]);
    const double least = 4 * allowed + 64 * rounding;
    if (grows(right, s->right[1][r], least) || grows(left, s->left[1][r], least)) return true;
    if (!isfinite(a)) return false;
    /* a sum over outputs with kinks of their own may lie beside its two slopes */
    const double middle = (right + left) / 2, half = summed < 0 ? gap / 2 : s->reach[r] / 2;
    if (!(2 * half > 2 * allowed + 16 * rounding)) return false;
    if (fabs(a - middle) > half + 0.02 * half + allowed) return false;
    return summed >= 0 || !(closer < 0.4 * gap && closer > 0.02 * gap);
}

/* Sums over outputs are judged only where there are no single ones. */
static bool is_judged(const cti_check *k, int64_t r) {
    return !k->whole || r < k->rows - CTI_ROWS_SUMMED;
}

static bool is_kink(const cti_check *k, const cti_checked *c, int64_t i, const sides *s) {
    int64_t at_kink = 0;
    for (int64_t r = 0; r < k->rows; r++) {
        if (!is_judged(k, r) || cti_check_right(k, c, r, i)) continue;
        if (!between(k, c, r, i, s)) return false;
        at_kink++;
    }
    return at_kink > 0;
}

/* ---- a column's state ---- */

static bool is_right(const cti_check *k, const cti_checked *c, int64_t i) {
    for (int64_t r = 0; r < k->rows; r++)
        if (!cti_check_right(k, c, r, i)) return false;
    return true;
}

/* Is the error of each wrong entry far above that of its difference? */
static bool is_clear(const cti_check *k, const cti_checked *c, int64_t i) {
    const double rounding = k->rounding / cti_check_step(k, c, i);
    for (int64_t r = 0; r < k->rows; r++) {
        const int64_t e = r * c->n + i, summed = r - (k->rows - CTI_ROWS_SUMMED);
        const double doubt = c->noise[e] + rounding * (summed < 0 ? 1 : k->length[summed]);
        if (!cti_check_right(k, c, r, i) && isfinite(c->analytic[e]) &&
            !(fabs(c->analytic[e] - c->numeric[e]) > 100 * doubt))
            return false;
    }
    return true;
}

/* Does no error exceed what is estimated of its difference's error? */
static bool is_imprecise(const cti_check *k, const cti_checked *c, int64_t i) {
    for (int64_t r = 0; r < k->rows; r++) {
        const int64_t e = r * c->n + i;
        if (cti_check_right(k, c, r, i)) continue;
        if (!(fabs(c->analytic[e] - c->numeric[e]) <=
              cti_check_allowed(k, r, c->numeric[e]) + 4 * c->noise[e]))
            return false;
    }
    return true;
}

static bool is_undefined(const cti_check *k, const cti_checked *c, int64_t i) {
    for (int64_t r = 0; r < k->rows; r++)
        if (!isfinite(c->numeric[r * c->n + i])) return true;
    return false;
}

static bool settle(cti_check *k, cti_checked *c, int64_t i, sides *s) {
    cti_state *state = &c->state[i];
    *state = CTI_RIGHT;
    if (is_right(k, c, i)) return true;
    if (!measure_sides(k, c, i, s)) return false;
    if (!is_clear(k, c, i) || is_kink(k, c, i, s)) {
        if (!refine(k, c, i)) return false;
        if (is_right(k, c, i)) return true;
    }
    *state = is_undefined(k, c, i)   ? CTI_NOT_FINITE
             : is_kink(k, c, i, s)   ? CTI_KINK
             : is_imprecise(k, c, i) ? CTI_IMPRECISE
                                     : CTI_WRONG;
    return true;
}

bool cti_check_settle(cti_check *k, cti_checked *c) {
    cti_frame frame;
    cti_frame_open(k->context, &frame, true);
    sides s = {.reach = cti_check_numbers(k, 1, k->rows)};
    bool ok = s.reach != NULL;
    for (int q = 0; ok && q < 2; q++) {
        s.right[q] = cti_check_numbers(k, 1, k->rows);
        s.left[q] = cti_check_numbers(k, 1, k->rows);
        ok = s.right[q] && s.left[q];
    }
    for (int64_t i = 0; ok && i < c->n; i++) ok = settle(k, c, i, &s);
    cti_frame_close(k->context, &frame);
    return ok;
}
