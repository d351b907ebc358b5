/* The simplest hypotheses: P = 0; P = c J; P = J times or over the output or an input; a cotangent
 * that is ignored. */
#include "suspect.h"

#include <math.h>

bool cti_suspect_zero(cti_suspect *s) {
    for (int64_t e = 0; e < s->rows * s->n; e++)
        if (s->a[e] != 0) return false;
    if (!(s->size > 0)) return false;
    return cti_suspect_say(
        s, CT_MISTAKE_ZERO,
        "its gradient is zero everywhere, and must not be: a path back to it is missing");
}

/* If A(g) = A(0) != 0 for every g, the cotangent is ignored. If only A(0) != 0, a term is not
 * multiplied by the cotangent. */
bool cti_suspect_cotangent(cti_suspect *s) {
    const cti_check *check = s->check;
    const double *zero = s->c->analytic + (check->rows - CTI_ROWS_SUMMED + CTI_ROW_ZEROS) * s->n,
                 *ones = s->c->numeric + (check->rows - CTI_ROWS_SUMMED + CTI_ROW_ONES) * s->n;
    double size = 0, differs = 0;
    bool right = true;
    for (int64_t i = 0; i < s->n; i++) {
        size = fmax(size, fabs(zero[i]));
        right = right &&
                fabs(zero[i] - ones[i]) <=
                    cti_check_allowed(check, check->rows - CTI_ROWS_SUMMED + CTI_ROW_ONES, ones[i]);
        for (int64_t r = 0; r < check->rows; r++)
            differs = fmax(differs, fabs(s->c->analytic[r * s->n + i] - zero[i]));
    }
    if (size <= s->tiny) return false;
    if (differs <= 1e-6 * size)
        return cti_suspect_say(s, CT_MISTAKE_COTANGENT,
                               "the cotangent is ignored: the gradient is the same for every one%s",
                               right ? ", and right only for ones" : "");
    return cti_suspect_say(s, CT_MISTAKE_COTANGENT,
                           "a cotangent of zeros gives a gradient that is not zero: something is "
                           "added that is not multiplied by the cotangent");
}

/* ---- constant factors ---- */

static bool close_to(double a, double b, double part) { return fabs(a - b) <= part * fabs(b); }

/* The forms in which a size v may make a factor: v and 1 / v; or also their roots, and v^2. */
typedef enum { ITSELF, ANY_FORM } form_of_size;

/* Does v make the factor c in one of the forms? If so, writes it in words. */
static bool named(double c, double v, const char *what, form_of_size forms, double part, char *text,
                  size_t size) {
    if (v <= 1) return false;
    const char *form = close_to(c, v, part)             ? ""
                       : close_to(c, 1 / v, part)       ? "one over "
                       : forms == ITSELF                ? NULL
                       : close_to(c, sqrt(v), part)     ? "the root of "
                       : close_to(c, 1 / sqrt(v), part) ? "one over the root of "
                       : close_to(c, v * v, part)       ? "the square of "
                                                        : NULL;
    if (form) snprintf(text, size, "%s%s (%g)", form, what, v);
    return form;
}

/* Names a factor by a known size: a dim of this input or of the output, their numbers of elements
 * and the ratio of these, or a dim of another input. */
static bool name_factor(const cti_suspect *s, double c, form_of_size forms, char *text,
                        size_t size) {
    const double part = s->check->coarse ? 0.02 : 1e-5;
    char what[64];
    for (int d = 0; d < s->in.ndim; d++) {
        snprintf(what, sizeof what, "the size of its dim %d", d);
        if (named(c, (double)s->in.dim[d], what, forms, part, text, size)) return true;
    }
    for (int d = 0; d < s->out.ndim; d++) {
        snprintf(what, sizeof what, "the size of the output's dim %d", d);
        if (named(c, (double)s->out.dim[d], what, forms, part, text, size)) return true;
    }
    if (named(c, (double)s->c->numel, "its number of elements", forms, part, text, size) ||
        named(c, (double)s->check->m, "the output's number of elements", forms, part, text, size))
        return true;
    const int64_t numel = s->c->numel, m = s->check->m;
    const int64_t reduced = m ? numel / m : 0, repeated = numel ? m / numel : 0;
    if (numel > m && m &&
        named(c, (double)reduced, "how many elements make one of the output", forms, part, text,
              size))
        return true;
    if (numel < m && numel &&
        named(c, (double)repeated, "how often it is repeated", forms, part, text, size))
        return true;
    for (int q = 0; q < s->check->n; q++)
        for (int d = 0; d < ct_ndim(s->check->in[q]); d++) {
            snprintf(what, sizeof what, "the size of dim %d of input %d", d, q);
            if (named(c, (double)ct_dim(s->check->in[q], d), what, forms, part, text, size))
                return true;
        }
    return false;
}

/* Names a factor as n / (n - 1), as n - 1 or as a ratio of two known sizes. Such factors arise when
 * a mean or a variance is divided by the wrong count. */
static bool name_ratio(const cti_suspect *s, double c, char *text, size_t size) {
    enum { MOST = 32 };
    const double part = s->check->coarse ? 0.005 : 1e-6;
    int64_t sizes[MOST];
    int count = 0;
    const ct_shape shapes[] = {s->in, s->out};
    for (int t = 0; t < 2; t++)
        for (int d = 0; d < shapes[t].ndim; d++) sizes[count++] = shapes[t].dim[d];
    sizes[count++] = s->c->numel, sizes[count++] = s->check->m;
    for (int a = 0; a < count; a++) {
        const double n = (double)sizes[a];
        if (n > 2 && (close_to(c, n / (n - 1), part) || close_to(c, (n - 1) / n, part))) {
            const bool more = c > 1;
            snprintf(text, size, "n / (n - 1)%s with n = %g, a size", more ? "" : " upside down",
                     n);
            return true;
        }
        if (n > 2 && (close_to(c, n - 1, part) || close_to(c, 1 / (n - 1), part))) {
            snprintf(text, size, "%sn - 1 with n = %g, a size", c > 1 ? "" : "one over ", n);
            return true;
        }
        for (int b = 0; b < count; b++)
            if (sizes[b] > 1 && n > 1 && close_to(c, n / (double)sizes[b], part)) {
                snprintf(text, size, "the ratio of two sizes, %g / %lld", n, (long long)sizes[b]);
                return true;
            }
    }
    return false;
}

/* Does J have at most one entry in each column, always the same number v, and columns without an
 * entry? Then the function is a mask with a scale, such as dropout. */
static bool is_scaled_mask(const cti_suspect *s, double *v) {
    int64_t kept = 0, hidden = 0;
    *v = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t here = 0;
        for (int64_t r = 0; r < s->rows; r++) {
            double e = s->j[r * s->n + i];
            if (cti_suspect_is_zero(s, e)) continue;
            if (*v != 0 && !close_to(e, *v, 1e-3)) return false;
            *v = e;
            here++;
        }
        if (here > 1) return false;
        kept += here, hidden += !here;
    }
    return kept > 1 && hidden > 0;
}

/* The whole number that v is close to; 0 if there is none above 1. */
static double whole_number(double v, double part) {
    return v > 1.5 && close_to(round(v), v, part) ? round(v) : 0;
}

/* Writes a possible reason for the factor c, or "". A factor of 2 needs no reason: it was forgotten
 * or doubled. Other whole numbers up to 4 are likely to be constants too, so only a size of exactly
 * that number is named for them. */
static void reason_guess(const cti_suspect *s, double c, double number, char *text, size_t size) {
    const form_of_size forms = number && number <= 4 ? ITSELF : ANY_FORM;
    *text = 0;
    if (number == 2 || name_factor(s, c, forms, text, size) || forms == ITSELF) return;
    name_ratio(s, c, text, size);
}

static bool constant_say(cti_suspect *s, double c) {
    const double size = fabs(c), part = s->check->coarse ? 0.02 : 1e-5,
                 times = whole_number(size, part), over = whole_number(1 / size, part);
    char what[128], reason[160];
    if (over)
        snprintf(what, sizeof what, "1/%.0f of what it must be: a factor of %.0f is missing", over,
                 over);
    else if (times)
        snprintf(what, sizeof what, "%.0f times what it must be: a factor of %.0f too many", times,
                 times);
    else snprintf(what, sizeof what, "%s times what it must be", CTI_SUSPECT_TIMES(size));
    reason_guess(s, size, over ? over : times, reason, sizeof reason);
    return cti_suspect_say(s, CT_MISTAKE_FACTOR, "it is %s%s%s%s", what,
                           *reason ? ", perhaps " : "", reason,
                           c < 0 ? ", with the sign flipped" : "");
}

/* A = c J. If c changes with the point, it is no constant but a factor of the derivative. */
bool cti_suspect_factor(cti_suspect *s) {
    const double c = cti_suspect_ratio(s, s->a, s->j);
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = c * s->j[e];
    if (c == 0 || !cti_suspect_fits(s)) return false;
    const double part = s->check->coarse ? 0.02 : 1e-5;
    char what[128];
    const cti_constancy constancy = cti_suspect_constancy(s, c, what, sizeof what);
    if (constancy == CTI_NEITHER) return false;
    if (constancy == CTI_VARYING)
        return cti_suspect_say(s, CT_MISTAKE_CHAIN,
                               "a factor that depends on the input, the same for all elements: it "
                               "is %s times what it must be%s%s",
                               CTI_SUSPECT_TIMES(c), *what ? ": " : "", what);
    s->factor = c;
    if (close_to(c, -1, part)) return cti_suspect_say(s, CT_MISTAKE_SIGN, "the sign is flipped");
    double scale;
    if (s->check->whole && is_scaled_mask(s, &scale) &&
        (close_to(c * scale, 1, part) || close_to(c, scale, part)))
        return cti_suspect_say(s, CT_MISTAKE_SCALE,
                               "the scale of the mask, %.6g (as of a dropout), is %s", scale,
                               close_to(c * scale, 1, part) ? "forgotten" : "applied twice");
    return constant_say(s, c);
}

/* ---- factors that are not constant ---- */

/* P = c J v or c J / v, with a number v for each row or each column. A v with fewer numbers is
 * repeated; so is a tensor of the last dims if it is broadcast. */
static bool is_times(const cti_suspect *s, const double *v, int64_t count, bool rows, bool over) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            const double f = v[(rows ? r : i) % count];
            s->p[r * s->n + i] = over ? s->j[r * s->n + i] / f : s->j[r * s->n + i] * f;
        }
    const double c = cti_suspect_ratio(s, s->a, s->p);
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] *= c;
    return c != 0 && cti_suspect_fits(s);
}

bool cti_suspect_chain(cti_suspect *s) {
    if (s->check->opts.fast) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = !cti_suspect_is_zero(s, s->j[e]);
    const double c = cti_suspect_ratio(s, s->a, s->p);
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] *= c;
    if (s->check->whole && c != 0 && cti_suspect_fits(s))
        return cti_suspect_say(s, CT_MISTAKE_CHAIN,
                               "the local derivative is missing: the cotangent is passed on times "
                               "%.6g everywhere",
                               c);
    for (int q = -1; q < s->check->n; q++) { /* -1: the output */
        const ct_tensor *t = q < 0 ? NULL : s->check->in[q];
        const int64_t count = q < 0                              ? s->check->m
                              : t && cti_is_real(ct_dtype_of(t)) ? ct_numel(t)
                                                                 : 0;
        const bool of_columns = count > 1 && s->n % count == 0,
                   of_rows = count > 1 && s->check->whole && s->rows % count == 0;
        if (!of_columns && !of_rows) continue;
        double *values = q < 0 ? NULL : cti_check_numbers(s->check, 1, count);
        const double *v = q < 0 ? s->check->y : values;
        if (!v || (values && !ct_to_f64(t, values, count))) return false;
        char what[32] = "the output";
        if (q >= 0) snprintf(what, sizeof what, q == s->c->input ? "the input" : "input %d", q);
        for (int over = 1; over >= 0; over--)
            if ((of_columns && is_times(s, v, count, false, over)) ||
                (of_rows && is_times(s, v, count, true, over)))
                return cti_suspect_say(s, CT_MISTAKE_CHAIN,
                                       over ? "a factor of the local derivative is missing: %s"
                                            : "the local derivative has a factor too many: %s",
                                       what);
    }
    return false;
}

/* Is the row of the cotangent of ones right? Other rows are wrong. */
bool cti_suspect_uniform(cti_suspect *s) {
    const int64_t ones = s->check->rows - CTI_ROWS_SUMMED + CTI_ROW_ONES;
    if (s->check->m < 2) return false;
    for (int64_t i = 0; i < s->n; i++)
        if (!cti_check_right(s->check, s->c, ones, i)) return false;
    return cti_suspect_say(s, CT_MISTAKE_UNIFORM,
                           "right only when all of the cotangent is the same: a plain sum as the "
                           "loss would not show it");
}
