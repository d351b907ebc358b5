/* The diagnosis of a wrong gradient. Hypotheses are tried from the simplest on; the first one that
 * explains the whole error is the diagnosis. */
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

static double distance_between(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t e = 0; e < count; e++) sum += (a[e] - b[e]) * (a[e] - b[e]);
    return sqrt(sum);
}

bool cti_suspect_fits(const cti_suspect *s) {
    return distance_between(s->a, s->p, s->rows * s->n) <= s->fit * s->error;
}

double cti_suspect_ratio(const cti_suspect *s, const double *of, const double *to) {
    double top = 0, bottom = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) top += of[e] * to[e], bottom += to[e] * to[e];
    return bottom > 0 ? top / bottom : 0;
}

const char *cti_suspect_times(double c, char text[32]) {
    int digits = 6;
    do snprintf(text, 32, "%.*g", digits++, c);
    while (digits <= 17 && !strcmp(text, c > 0 ? "1" : "-1") && c != 1 && c != -1);
    return text;
}

bool cti_suspect_wrong(const cti_suspect *s, int64_t r, int64_t i) {
    return s->c->state[i] == CTI_WRONG && !cti_check_right(s->k, s->c, r, i);
}

bool cti_suspect_not_finite(cti_suspect *s) {
    int64_t elements = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool finite = true;
        for (int64_t e = i; e < s->k->rows * s->n; e += s->n)
            finite = finite && isfinite(s->c->analytic[e]);
        elements += !finite && s->c->state[i] == CTI_WRONG;
    }
    return elements && cti_suspect_say(s, CT_MISTAKE_NOT_FINITE,
                                       "the gradient is not finite in %lld of %lld elements",
                                       (long long)elements, (long long)s->n);
}

/* No column is wrong, but some are undecided. */
bool cti_suspect_undecided(cti_suspect *s) {
    int64_t count[CTI_NOT_FINITE + 1] = {0};
    double noise = 0;
    for (int64_t i = 0; i < s->n; i++) {
        count[s->c->state[i]]++;
        for (int64_t r = 0; r < s->k->rows && s->c->state[i] == CTI_IMPRECISE; r++)
            if (!cti_check_right(s->k, s->c, r, i)) noise = fmax(noise, s->c->noise[r * s->n + i]);
    }
    if (count[CTI_WRONG]) return false;
    if (count[CTI_NOT_FINITE])
        return cti_suspect_say(s, CT_MISTAKE_NOT_FINITE,
                               "the function is not finite within a step of this point, so its "
                               "differences say nothing; move the point");
    if (count[CTI_KINK])
        return cti_suspect_say(s, CT_MISTAKE_KINK,
                               "a kink or a jump near this point: at %lld %s%s the slopes to both "
                               "sides, or with several steps, disagree by as much as the gradient "
                               "is off; move the point",
                               (long long)count[CTI_KINK],
                               s->k->opts.fast ? "direction" : "element",
                               count[CTI_KINK] > 1 ? "s" : "");
    return cti_suspect_say(
        s, CT_MISTAKE_PRECISION,
        s->k->coarse
            ? "f32 is too coarse here: the differences themselves are off by %.2g; check in f64"
            : "the differences themselves are off by %.2g here, as much as the error, with any "
              "step: try another eps, or smaller values",
        noise);
}

/* ---- all hypotheses ---- */

static void hypothesize(cti_suspect *s) {
    static cti_hypothesis *const all[] = {
        cti_suspect_undecided,  cti_suspect_not_finite,   cti_suspect_rounded,
        cti_suspect_zero,       cti_suspect_cotangent,    cti_suspect_not_linear,
        cti_suspect_factor,     cti_suspect_residual,     cti_suspect_mask,
        cti_suspect_assigned,   cti_suspect_sum,          cti_suspect_exchanged,
        cti_suspect_kernel,     cti_suspect_transposed,   cti_suspect_permuted,
        cti_suspect_spread,     cti_suspect_chain,        cti_suspect_misplaced,
        cti_suspect_shifted,    cti_suspect_reversed,     cti_suspect_forward_value,
        cti_suspect_operand,    cti_suspect_row_sum,      cti_suspect_edges,
        cti_suspect_rows,       cti_suspect_threshold,    cti_suspect_local_factor,
        cti_suspect_local_term, cti_suspect_target,       cti_suspect_term,
        cti_suspect_lost,       cti_suspect_product_rule, cti_suspect_uniform,
        cti_suspect_other_sum,  cti_suspect_part,         cti_suspect_scattered,
        cti_suspect_element,    cti_suspect_scaled,       cti_suspect_formula};
    for (size_t h = 0; h < sizeof all / sizeof *all; h++)
        if (all[h](s)) return;
    cti_suspect_say(s, CT_MISTAKE_UNKNOWN, "no known mistake accounts for the error");
}

/* Sets s->a and s->j to A and J, or to copies of them with zeros in the undecided columns. */
static bool take_columns(cti_suspect *s) {
    const cti_checked *c = s->c;
    s->a = c->analytic, s->j = c->numeric;
    if (!c->undecided) return true;
    double *a = cti_check_numbers(s->k, s->rows, s->n), *j = cti_check_numbers(s->k, s->rows, s->n);
    if (!a || !j) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        const bool told = c->state[e % s->n] <= CTI_WRONG;
        a[e] = told ? s->a[e] : 0, j[e] = told ? s->j[e] : 0;
    }
    s->a = a, s->j = j;
    return true;
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
    s.p = cti_check_numbers(k, s.rows, s.n);
    bool ok = s.p != NULL && take_columns(&s);
    if (ok) {
        double most = 0;
        for (int64_t e = 0; e < s.rows * s.n; e++)
            s.size += s.j[e] * s.j[e], most = fmax(most, fabs(s.j[e]));
        s.size = sqrt(s.size);
        s.error = distance_between(s.a, s.j, s.rows * s.n);
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
