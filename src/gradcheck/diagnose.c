/* The diagnosis of a wrong gradient: hypotheses are tried from the simplest on, and the first that
 * explains the whole error is taken. */
#include "suspect.h"

#include "../core/message.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

bool cti_suspect_say(cti_suspect *s, ct_mistake mistake, const char *format, ...) {
    va_list args;
    s->mistake = mistake;
    va_start(args, format);
    vsnprintf(s->text, sizeof s->text, format, args);
    va_end(args);
    return true;
}

static double distance(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t e = 0; e < count; e++) sum += (a[e] - b[e]) * (a[e] - b[e]);
    return sqrt(sum);
}

bool cti_suspect_fits(const cti_suspect *s) {
    return distance(s->a, s->p, s->rows * s->n) <= s->fit * s->error;
}

double cti_suspect_ratio(const cti_suspect *s, const double *of, const double *to) {
    double top = 0, bottom = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) top += of[e] * to[e], bottom += to[e] * to[e];
    return bottom > 0 ? top / bottom : 0;
}

bool cti_suspect_wrong(const cti_suspect *s, int64_t r, int64_t i) {
    return !cti_check_right(s->k, s->c, r, i);
}

/* ---- points at which the differences themselves are unreliable ---- */

bool cti_suspect_not_finite(cti_suspect *s) {
    int64_t elements = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool finite = true;
        for (int64_t e = i; e < s->k->rows * s->n; e += s->n) {
            finite = finite && isfinite(s->c->analytic[e]);
            if (!isfinite(s->c->numeric[e]))
                return cti_suspect_say(s, CT_MISTAKE_NOT_FINITE,
                                       "the function is not finite within a step of this point, so "
                                       "its differences say nothing; move the point");
        }
        elements += !finite;
    }
    return elements && cti_suspect_say(s, CT_MISTAKE_NOT_FINITE,
                                       "the gradient is not finite in %lld of %lld elements",
                                       (long long)elements, (long long)s->n);
}

/* The error of a difference in row r by rounding of the output. */
static double rounding_of(const cti_suspect *s, int64_t r) {
    const int64_t summed = r - (s->k->rows - CTI_ROWS_SUMMED);
    return s->rounding * (summed < 0 ? 1 : s->k->length[summed]);
}

/* Is there a kink at x_i? Then every wrong entry of the column lies between the slopes to the left
 * and to the right, and the gap between these slopes does not shrink with the step. For a smooth
 * function the gap is h f'', so a quarter of the step gives a quarter of the gap. */
static bool kink_at(cti_suspect *s, int64_t i, double *side) {
    const double h = s->k->opts.eps;
    const int64_t rows = s->k->rows;
    for (int q = 0; q < 4; q++)
        if (!cti_check_side(s->k, s->c, i, (q & 1 ? -h : h) * (q & 2 ? 0.25 : 1), side + q * rows))
            return false;
    for (int64_t r = 0; r < rows; r++) {
        double a = s->c->analytic[r * s->n + i], left = side[rows + r], right = side[r],
               gap = fabs(right - left), closer = fabs(side[2 * rows + r] - side[3 * rows + r]);
        if (cti_check_right(s->k, s->c, r, i)) continue;
        double allowed = cti_check_allowed(s->k, r, a), slack = 0.01 * gap + allowed;
        if (!(gap > 2 * allowed + 16 * rounding_of(s, r)) || a < fmin(left, right) - slack ||
            a > fmax(left, right) + slack)
            return false;
        if (closer < 0.4 * gap && closer > 0.02 * gap) return false;
    }
    return true;
}

bool cti_suspect_kink(cti_suspect *s) {
    double *side = s->c->direction ? NULL : cti_check_numbers(s->k, 4, s->k->rows);
    int64_t wrong = 0;
    for (int64_t i = 0; side && i < s->n; i++) {
        bool right = true;
        for (int64_t r = 0; right && r < s->k->rows; r++) right = cti_check_right(s->k, s->c, r, i);
        if (right) continue;
        if (!kink_at(s, i, side)) return false;
        wrong++;
    }
    return wrong && cti_suspect_say(s, CT_MISTAKE_KINK,
                                    "a kink at this point: the slopes on both sides of it disagree "
                                    "at %lld element%s and the gradient lies "
                                    "between; move the point",
                                    (long long)wrong, wrong > 1 ? "s" : "");
}

/* No error exceeds what the two steps disagree by, or what rounding of the output over the step
 * gives. In the summed rows two steps may agree by chance, so there the largest noise of the row
 * counts. */
bool cti_suspect_precision(cti_suspect *s) {
    const int64_t n = s->n;
    double noise = 0;
    for (int64_t r = 0; r < s->k->rows; r++) {
        double of_row = rounding_of(s, r);
        for (int64_t i = 0; i < n && r >= s->k->rows - CTI_ROWS_SUMMED; i++)
            of_row = fmax(of_row, s->c->noise[r * n + i]);
        for (int64_t i = 0; i < n; i++) {
            if (cti_check_right(s->k, s->c, r, i)) continue;
            if (!(fabs(s->c->analytic[r * n + i] - s->c->numeric[r * n + i]) <=
                  4 * (s->c->noise[r * n + i] + of_row)))
                return false;
            noise = fmax(noise, fmax(of_row, s->c->noise[r * n + i]));
        }
    }
    return cti_suspect_say(
        s, CT_MISTAKE_PRECISION,
        s->k->coarse
            ? "f32 is too coarse here: the differences themselves are off by %.2g; check in f64"
            : "the differences themselves are off by %.2g here, as much as the error: try another "
              "eps, or smaller values",
        noise);
}

/* ---- all hypotheses ---- */

/* All rows of single ones are right but a summed row is wrong: backward is not linear in g. */
static bool not_linear(cti_suspect *s) {
    if (!s->k->whole) return false;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            if (cti_suspect_wrong(s, r, i)) return false;
    return cti_suspect_say(s, CT_MISTAKE_COTANGENT,
                           "backward does not use the cotangent linearly: single ones are answered "
                           "right, a mixture of them is not");
}

static void hypothesize(cti_suspect *s) {
    static cti_hypothesis *const all[] = {
        cti_suspect_not_finite, cti_suspect_kink,         cti_suspect_precision,
        cti_suspect_zero,       cti_suspect_cotangent,    not_linear,
        cti_suspect_factor,     cti_suspect_mask,         cti_suspect_assigned,
        cti_suspect_sum,        cti_suspect_transposed,   cti_suspect_permuted,
        cti_suspect_spread,     cti_suspect_chain,        cti_suspect_forward_value,
        cti_suspect_row_sum,    cti_suspect_edges,        cti_suspect_target,
        cti_suspect_term,       cti_suspect_product_rule, cti_suspect_uniform};
    for (size_t h = 0; h < sizeof all / sizeof *all; h++)
        if (all[h](s)) return;
    cti_suspect_say(s, CT_MISTAKE_UNKNOWN, "no known mistake accounts for the error");
}

bool cti_check_diagnose(cti_check *k, cti_checked *c) {
    cti_frame frame;
    cti_frame_open(k->context, &frame, false);
    cti_suspect s = {.k = k,
                     .c = c,
                     .in = c->x->shape,
                     .out = k->shape,
                     .rows = k->whole ? k->m : CTI_ROW_ZEROS,
                     .n = c->n,
                     .fit = k->coarse ? 0.05 : 1e-3};
    s.a = c->analytic;
    s.j = c->numeric;
    s.p = cti_check_numbers(k, s.rows, s.n);
    bool ok = s.p != NULL;
    if (ok) {
        double most = 0, top = 0;
        for (int64_t e = 0; e < k->m; e++) top = isfinite(k->y[e]) ? fmax(top, fabs(k->y[e])) : top;
        s.rounding = top * (k->coarse ? 0x1p-24 : 0x1p-53) / k->opts.eps;
        for (int64_t e = 0; e < s.rows * s.n; e++)
            s.size += s.j[e] * s.j[e], most = fmax(most, fabs(s.j[e]));
        s.size = sqrt(s.size);
        s.error = distance(s.a, s.j, s.rows * s.n);
        s.tiny = fmax(k->opts.atol, most * (k->coarse ? 1e-3 : 1e-8));
        hypothesize(&s);
        ok = cti_ready(k->context);
    }
    if (ok) {
        char text[CTI_SHAPE_TEXT + 320];
        snprintf(text, sizeof text, "input %d %s: %s", c->input, SHAPE(s.in), s.text);
        cti_shorten(c->diagnosis, sizeof c->diagnosis - 1, text, strlen(text));
        if (c->input == k->result.input && k->result.mistake == CT_MISTAKE_NONE) {
            cti_check_found(k, s.mistake, c->diagnosis);
            k->result.factor = s.factor;
        }
    }
    cti_frame_close(k->context, &frame);
    return ok;
}
