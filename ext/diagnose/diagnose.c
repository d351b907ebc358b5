/* The diagnosis of a wrong gradient. Hypotheses are tried from the simplest on; the first one that
 * explains the whole error is the diagnosis. */
#include "suspect.h"

#include <math.h>
#include <string.h>

bool cti_suspect_not_finite(cti_suspect *s) {
    int64_t elements = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool finite = true;
        for (int64_t e = i; e < s->check->rows * s->n; e += s->n)
            finite = finite && isfinite(s->c->analytic[e]);
        elements += !finite && s->c->state[i] == CTI_WRONG;
    }
    return elements && cti_suspect_say(s, CT_MISTAKE_NOT_FINITE,
                                       "the gradient is not finite in %lld of %lld elements",
                                       (long long)elements, (long long)s->n);
}

/* ---- all hypotheses ---- */

static void hypotheses_try(cti_suspect *s) {
    static cti_hypothesis *const all[] = {
        cti_suspect_not_finite, cti_suspect_rounded,       cti_suspect_zero,
        cti_suspect_cotangent,  cti_suspect_not_linear,    cti_suspect_factor,
        cti_suspect_residual,   cti_suspect_mask,          cti_suspect_assigned,
        cti_suspect_sum,        cti_suspect_exchanged,     cti_suspect_kernel,
        cti_suspect_transposed, cti_suspect_permuted,      cti_suspect_spread,
        cti_suspect_chain,      cti_suspect_misplaced,     cti_suspect_shifted,
        cti_suspect_reversed,   cti_suspect_forward_value, cti_suspect_operand,
        cti_suspect_angle,      cti_suspect_row_sum,       cti_suspect_place_factor,
        cti_suspect_edges,      cti_suspect_rows,          cti_suspect_threshold,
        cti_suspect_branches,   cti_suspect_product_rule,  cti_suspect_moved_term,
        cti_suspect_target,     cti_suspect_local_factor,  cti_suspect_local_term,
        cti_suspect_term,       cti_suspect_lost,          cti_suspect_wrong_dim,
        cti_suspect_uniform,    cti_suspect_other_sum,     cti_suspect_part,
        cti_suspect_rearranged, cti_suspect_place,         cti_suspect_handed_on,
        cti_suspect_row_term,   cti_suspect_scattered,     cti_suspect_element,
        cti_suspect_scaled,     cti_suspect_formula};
    for (size_t h = 0; h < sizeof all / sizeof *all; h++)
        if (all[h](s)) return;
    cti_suspect_say(s, CT_MISTAKE_UNKNOWN, "no known mistake accounts for the error");
}

/* Sets s->a and s->j to A and J, or to copies of them with zeros in the undecided columns. */
static bool columns_take(cti_suspect *s) {
    const cti_checked *c = s->c;
    s->a = c->analytic, s->j = c->numeric;
    if (!c->undecided) return true;
    double *a = cti_check_numbers(s->check, s->rows, s->n),
           *j = cti_check_numbers(s->check, s->rows, s->n);
    if (!a || !j) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        const bool told = c->state[e % s->n] <= CTI_WRONG;
        a[e] = told ? s->a[e] : 0, j[e] = told ? s->j[e] : 0;
    }
    s->a = a, s->j = j;
    return true;
}

bool cti_diagnose(cti_check *check, cti_checked *c) {
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    cti_suspect s = {.check = check,
                     .c = c,
                     .in = c->shape,
                     .out = check->shape,
                     .rows = check->whole ? check->m : CTI_ROW_ZEROS,
                     .n = c->n,
                     .fit = check->coarse ? 0.05 : 1e-3};
    s.p = cti_check_numbers(check, s.rows, s.n);
    bool ok = s.p != NULL && columns_take(&s);
    if (ok) {
        double most = 0;
        for (int64_t e = 0; e < s.rows * s.n; e++)
            s.size += s.j[e] * s.j[e], most = fmax(most, fabs(s.j[e]));
        s.size = sqrt(s.size);
        s.error = cti_suspect_distance(&s, s.a, s.j);
        s.tiny = fmax(check->opts.atol, most * (check->coarse ? 1e-3 : 1e-8));
        hypotheses_try(&s);
        ok = cti_ready(check->context);
    }
    if (ok) cti_check_say(check, c, s.mistake, s.factor, s.text);
    cti_frame_close(check->context, &frame);
    return ok;
}
