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
 *     |D(h) - D(h/10)| + |D(h/10) - D(h/100)| / 10 + |D(h) - D(10 h)| / 100 + N / h
 *
 * The first term is the truncation error; where that dominates, the next two are smaller. They
 * guard against two noisy differences that agree by chance. N is the rounding error of the
 * output. */

enum { STEPS = 16 };

typedef struct {
    double *slope;  /* [STEPS][rows] */
    double *second; /* [STEPS][m]: |y(x + h) - 2 y(x) + y(x - h)| */
    double *noise;  /* [rows]: N */
    bool *moved;    /* [m]: does that output depend on x at all? */
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
    for (int64_t j = 0; j < k->m; j++) {
        l->second[at * k->m + j] = ran ? fabs(k->plus[j] - 2 * k->y[j] + k->minus[j]) : (double)NAN;
        l->moved[j] |= ran && (k->plus[j] != k->y[j] || k->minus[j] != k->y[j]);
    }
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
    if (!l->moved[j]) return 0;
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
        double best = INFINITY, value = 0, steepest = 0;
        for (int at = 0; at + 1 < l->count; at++) {
            const double *d = l->slope + at * k->rows + r;
            double error = fabs(d[0] - d[k->rows]) + l->noise[r] / l->h[at];
            if (at + 2 < l->count) error += fabs(d[k->rows] - d[2 * k->rows]) / 10;
            if (at > 0 && isfinite(d[-k->rows])) error += fabs(d[0] - d[-k->rows]) / 100;
            if (isfinite(d[0])) steepest = fmax(steepest, fabs(d[0]));
            if (isfinite(d[0]) && error < best) best = error, value = d[0];
        }
        /* flat close by and not farther off: a stair, or an addend that swallows small steps */
        if (value == 0 && isfinite(best)) best = fmax(best, steepest / 2);
        if (isfinite(best)) c->numeric[r * c->n + i] = value, c->noise[r * c->n + i] = best;
    }
}

bool cti_check_refine(cti_check *k, cti_checked *c, int64_t i) {
    cti_frame frame;
    cti_frame_open(k->context, &frame, true);
    ladder l = {.slope = cti_check_numbers(k, STEPS, k->rows),
                .second = cti_check_numbers(k, STEPS, k->m),
                .noise = cti_check_numbers(k, 1, k->rows),
                .moved = cti_check_flags(k, k->m)};
    bool ok = l.slope && l.second && l.noise && l.moved && climb(k, c, i, &l);
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
    double *gap[2]; /* [rows]: between both slopes; of a sum over outputs j that of |g_j| gap_j */
} sides;

static bool measure_sides(cti_check *k, const cti_checked *c, int64_t i, sides *s) {
    const int64_t single = k->rows - CTI_ROWS_SUMMED;
    for (int q = 0; q < 2; q++) {
        double step;
        if (!cti_check_beside(k, c, i, cti_check_step(k, c, i) / (q ? 4 : 1), &step)) return false;
        step /= 2;
        cti_check_weigh(k, k->plus, k->y, step, s->right[q], 1);
        cti_check_weigh(k, k->y, k->minus, step, s->left[q], 1);
        for (int t = 0; t < CTI_ROWS_SUMMED; t++) s->gap[q][single + t] = 0;
        for (int64_t j = 0; j < k->m; j++) {
            const double gap = fabs(k->plus[j] - 2 * k->y[j] + k->minus[j]) / step;
            if (k->whole) s->gap[q][j] = gap;
            for (int t = 0; t < CTI_ROWS_SUMMED; t++)
                s->gap[q][single + t] += fabs(k->cotangent[t * k->m + j]) * gap;
        }
    }
    return true;
}

/* How far from the middle of both slopes a gradient may be in row r; 0: there is no kink in that
 * row. The gap of a kink does not shrink with the step: for a smooth function it is h f'', so a
 * quarter of the step gives a quarter of the gap. At a jump or a vertical tangent slopes grow as
 * the step shrinks, and there is no bound. */
static double room_at_kink(const cti_check *k, const cti_checked *c, int64_t r, int64_t i,
                           const sides *s) {
    const int64_t summed = r - (k->rows - CTI_ROWS_SUMMED);
    const double allowed = cti_check_allowed(k, r, c->numeric[r * c->n + i]),
                 rounding =
                     k->rounding / cti_check_step(k, c, i) * (summed < 0 ? 1 : k->length[summed]),
                 gap = s->gap[0][r], closer = s->gap[1][r], least = 4 * allowed + 64 * rounding;
    const double *slope[] = {s->right[0], s->right[1], s->left[0], s->left[1]};
    for (int side = 0; side < 4; side += 2)
        if (fabs(slope[side + 1][r]) > 1.5 * fabs(slope[side][r]) && fabs(slope[side][r]) > least)
            return INFINITY;
    if (!(gap > 2 * allowed + 16 * rounding) || (closer < 0.4 * gap && closer > 0.02 * gap))
        return 0;
    return (summed < 0 ? 0.51 : 3) * gap + allowed;
}

/* Sums over outputs are judged only where there are no single ones. */
static bool is_judged(const cti_check *k, int64_t r) {
    return !k->whole || r < k->rows - CTI_ROWS_SUMMED;
}

/* Is there a kink at x_i, and every wrong entry between its slopes? Where elements change places,
 * as equal ones in a sort, an output has another one's slope: one without a kink may be off by the
 * gap of another. A gradient that is not finite is as good as any where there is no derivative. */
static bool is_kink(const cti_check *k, const cti_checked *c, int64_t i, const sides *s) {
    double widest = 0;
    for (int64_t r = 0; r < k->rows; r++)
        if (is_judged(k, r)) widest = fmax(widest, room_at_kink(k, c, r, i, s));
    for (int64_t r = 0; r < k->rows && widest > 0; r++) {
        const double a = c->analytic[r * c->n + i], room = room_at_kink(k, c, r, i, s),
                     middle = (s->right[0][r] + s->left[0][r]) / 2;
        if (!is_judged(k, r) || cti_check_right(k, c, r, i) || !isfinite(a)) continue;
        if (!(fabs(a - middle) <= (room > 0 ? room : 2 * widest))) return false;
    }
    return widest > 0;
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

/* Is the function not finite at x or a step beside it? An infinity that does not move has slope 0,
 * but where the gradient is not finite either nothing is to be said against it. */
static bool is_undefined(const cti_check *k, const cti_checked *c, int64_t i) {
    bool finite = true, defined = true;
    for (int64_t r = 0; r < k->rows; r++) {
        if (!isfinite(c->numeric[r * c->n + i])) return true;
        finite = finite && isfinite(c->analytic[r * c->n + i]);
        if (r < k->m && k->whole && !isfinite(k->y[r]) && !cti_check_right(k, c, r, i)) return true;
    }
    for (int64_t j = 0; j < k->m; j++) defined = defined && isfinite(k->y[j]);
    return !finite && !defined;
}

/* Is each wrong entry off by more than a twentieth? */
static bool is_gross(const cti_check *k, const cti_checked *c, int64_t i) {
    for (int64_t r = 0; r < k->rows; r++) {
        const double a = c->analytic[r * c->n + i], j = c->numeric[r * c->n + i];
        if (!cti_check_right(k, c, r, i) && fabs(a - j) < 0.05 * fmax(fabs(a), fabs(j)))
            return false;
    }
    return true;
}

/* *spare: how many columns may yet be measured again though their errors are clear. */
static bool settle(cti_check *k, cti_checked *c, int64_t i, sides *s, int *spare) {
    cti_state *state = &c->state[i];
    *state = CTI_RIGHT;
    if (is_right(k, c, i)) return true;
    if (!measure_sides(k, c, i, s)) return false;
    const bool clear = is_clear(k, c, i) && is_gross(k, c, i) && !is_kink(k, c, i, s);
    if (!clear || (*spare)-- > 0) {
        if (!cti_check_refine(k, c, i)) return false;
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
    sides s = {0};
    bool ok = true;
    int spare = 64;
    for (int q = 0; ok && q < 2; q++) {
        s.right[q] = cti_check_numbers(k, 1, k->rows);
        s.left[q] = cti_check_numbers(k, 1, k->rows);
        s.gap[q] = cti_check_numbers(k, 1, k->rows);
        ok = s.right[q] && s.left[q] && s.gap[q];
    }
    for (int64_t i = 0; ok && i < c->n; i++) ok = settle(k, c, i, &s, &spare);
    cti_frame_close(k->context, &frame);
    return ok;
}
