/* Hypotheses that need A and J at another point: the output or another input is used in place of
 * this input; a factor depends on the input; or the mistake is the same at every index. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* ---- A and J elsewhere ---- */

static double *copy_of(cti_check *check, const cti_checked *c) {
    double *values = cti_check_numbers(check, 1, c->numel);
    for (int64_t i = 0; values && i < c->numel; i++) values[i] = cti_check_get(c->x, i);
    return values;
}

static bool can_move(const cti_suspect *s) {
    return !s->check->opts.fast && s->check->count <= CTI_SUSPECT_INPUTS;
}

/* Do a and j differ by no more than s->fit times the error? Columns that are not finite do not
 * count, but they must be fewer than half. */
static bool jacobians_agree(const cti_suspect *s, const double *a, const double *j) {
    double left = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double here = 0;
        for (int64_t r = 0; r < s->rows; r++)
            here += (a[r * s->n + i] - j[r * s->n + i]) * (a[r * s->n + i] - j[r * s->n + i]);
        if (isfinite(here)) left += here, finite++;
    }
    return 2 * finite > s->n && sqrt(left) <= s->fit * s->error;
}

/* ---- one tensor used for another ----
 *
 * The derivative of y = f(x) can be written as F(x) or as G(y). A backward that computes F(y) gives
 * the derivative at the point y, so A equals the differences at y. A backward that computes G(x)
 * gives G(y) when it runs at the point y, so its result at that point equals J at x. The same holds
 * with another operand in place of x or y. */

bool cti_suspect_forward_value(cti_suspect *s) {
    cti_check *check = s->check;
    double *values[CTI_SUSPECT_INPUTS] = {0};
    cti_checked other;
    const int self = (int)(s->c - check->checked);
    values[self] = check->y;
    if (!can_move(s) || s->c->dtype != check->dtype || !cti_shape_same(&s->in, &s->out) ||
        !cti_check_at(s->check, s->c, values, &other, NULL))
        return false;
    if (jacobians_agree(s, s->a, other.numeric))
        return cti_suspect_say(
            s, CT_MISTAKE_FORWARD_VALUE,
            "the output is used where the input is meant: this is the derivative at x = y");
    if (!jacobians_agree(s, other.analytic, s->j)) return false;
    return cti_suspect_say(s, CT_MISTAKE_FORWARD_VALUE,
                           "the input is used where the output is meant: at x = y this backward "
                           "gives what is right here");
}

bool cti_suspect_is_at(cti_suspect *s, int q, double *instead) {
    double *values[CTI_SUSPECT_INPUTS] = {0};
    cti_checked other;
    cti_frame frame;
    cti_frame_open(s->check->context, &frame, false);
    values[q] = instead;
    const bool yes = cti_check_at(s->check, s->c, values, &other, NULL) &&
                     jacobians_agree(s, s->a, other.numeric);
    cti_frame_close(s->check->context, &frame);
    return yes;
}

bool cti_suspect_operand(cti_suspect *s) {
    cti_check *check = s->check;
    if (!can_move(s) || check->count < 2) return false;
    for (int q = 0; q < check->count; q++) {
        const int input = check->checked[q].input;
        if (&check->checked[q] != s->c && cti_shape_same(&check->checked[q].shape, &s->out) &&
            cti_suspect_is_at(s, q, check->y))
            return cti_suspect_say(s, CT_MISTAKE_OPERAND,
                                   "the output is used where input %d is meant", input);
        for (int p = 0; p < check->count; p++) {
            if (p == q || check->checked[p].numel != check->checked[q].numel) continue;
            double *other = copy_of(check, &check->checked[p]);
            if (!other || !cti_suspect_is_at(s, q, other)) continue;
            return cti_suspect_say(s, CT_MISTAKE_OPERAND,
                                   "the wrong operand: input %d is used where input %d is meant",
                                   check->checked[p].input, input);
        }
    }
    return false;
}

/* ---- a factor that is one number ---- */

/* The quantities of a tensor that a factor may be: norm, sum, mean, largest size of an element,
 * standard deviation. */
enum { QUANTITIES = 5 };
static const char *const quantity_name[QUANTITIES] = {"the norm", "the sum", "the mean",
                                                      "the largest element", "the deviation"};

static void quantities_measure(const double *x, int64_t n, double out[QUANTITIES]) {
    double sum = 0, square = 0, most = 0, spread = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i], square += x[i] * x[i], most = fmax(most, fabs(x[i]));
    for (int64_t i = 0; i < n; i++) spread += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
    out[0] = sqrt(square), out[1] = sum, out[2] = sum / (double)n, out[3] = most;
    out[4] = sqrt(spread / (double)n);
}

/* The factor is c at one point and d at another; the quantity is v and w at these points. Is the
 * factor a constant times a power of the quantity? If so, writes it in words. */
static bool is_power(double c, double d, double v, double w, const char *what, const char *of,
                     char *text, size_t size) {
    static const double powers[] = {1, -1, 2, -2, 0.5, -0.5, 3, -3};
    for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) {
        const double grown = pow(fabs(v / w), powers[p]);
        if (!(fabs(fabs(c / d) - grown) <= 1e-5 * grown) || fabs(grown - 1) < 1e-3) continue;
        const double constant = c / pow(fabs(v), powers[p]);
        char times[32] = "";
        if (fabs(constant - 1) > 1e-5) snprintf(times, sizeof times, "%.6g times ", constant);
        if (powers[p] == 1) snprintf(text, size, "%s%s%s", times, what, of);
        else snprintf(text, size, "%s%s%s to the power %g", times, what, of, powers[p]);
        return true;
    }
    return false;
}

static bool name_varying(const cti_suspect *s, double c, double d, double *const *moved,
                         const double *y, char *text, size_t size) {
    const cti_check *check = s->check;
    double here[QUANTITIES], there[QUANTITIES];
    for (int q = -1; q < check->count; q++) { /* -1: the output */
        const int64_t n = q < 0 ? check->m : check->checked[q].numel;
        double *now = q < 0 ? check->y : copy_of(s->check, &check->checked[q]);
        char of[32] = " of the output";
        if (!now || n < 1) continue;
        quantities_measure(now, n, here);
        quantities_measure(q < 0 ? y : moved[q], n, there);
        if (q >= 0) snprintf(of, sizeof of, " of input %d", check->checked[q].input);
        if (n == 1 && is_power(c, d, here[0], there[0], q < 0 ? "the output" : "input ",
                               q < 0 ? "" : of + sizeof " of input", text, size))
            return true;
        for (int w = 0; w < QUANTITIES; w++)
            if (is_power(c, d, here[w], there[w], quantity_name[w], of, text, size)) return true;
    }
    return false;
}

static int64_t entries_of(const cti_suspect *s) {
    int64_t count = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) count += !cti_suspect_is_zero(s, s->j[e]);
    return count;
}

cti_constancy cti_suspect_constancy(cti_suspect *s, double c, char *text, size_t size) {
    cti_check *check = s->check;
    double *moved[CTI_SUSPECT_INPUTS] = {0}, *y = cti_check_numbers(check, 1, check->m);
    cti_checked other;
    *text = 0;
    const cti_constancy unknown =
        entries_of(s) < 3 && !check->opts.fast ? CTI_NEITHER : CTI_CONSTANT;
    if (!can_move(s) || !y) return unknown;
    for (int q = 0; q < check->count; q++) {
        moved[q] = copy_of(check, &check->checked[q]);
        if (!moved[q]) return unknown;
        /* moves by a few per cent, so that signs, order and domain mostly stay the same */
        for (int64_t i = 0; i < check->checked[q].numel; i++)
            moved[q][i] *= 1 + 0.07 * sin(1.7 * (double)(i + 3 * q + 1));
    }
    if (!cti_check_at(s->check, s->c, moved, &other, y)) return unknown;
    const double d = cti_suspect_ratio(s, other.analytic, other.numeric);
    double off = 0, error = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        const double a = other.analytic[e], j = other.numeric[e];
        off += (a - d * j) * (a - d * j), error += (a - j) * (a - j);
    }
    if (!(d != 0 && sqrt(off) <= 0.01 * sqrt(error))) return unknown;
    if (fabs(c - d) <= (check->coarse ? 0.02 : 1e-4) * fabs(c)) return CTI_CONSTANT;
    name_varying(s, c, d, moved, y, text, size);
    return CTI_VARYING;
}

/* ---- the same mistake at every index ----
 *
 * All inputs are rotated along a dim. If J is rotated with them, the function does the same at
 * every index of this dim. If A is rotated too, so does backward: its mistake is in the formula and
 * not in indices. */

/* Sets values[q] to input q, rotated by one along the dim that is `from_right` from the right; to
 * NULL if the input has no such dim of that size. False: no input has it. */
static bool inputs_rotate(cti_check *check, int from_right, int64_t size, double **values) {
    bool any = false;
    for (int q = 0; q < check->count; q++) {
        const cti_checked *x = &check->checked[q];
        const int d = x->shape.ndim - 1 - from_right;
        values[q] = NULL;
        if (d < 0 || x->shape.dim[d] != size) continue;
        int64_t stride[CT_MAX_DIMS];
        cti_shape_strides(x->shape, stride);
        values[q] = cti_check_numbers(check, 1, x->numel);
        if (!values[q]) return false;
        for (int64_t i = 0; i < x->numel; i++) {
            const int64_t at = cti_suspect_along(x->shape, i, d),
                          to = i + ((at + 1) % size - at) * stride[d];
            values[q][to] = cti_check_get(x->x, i);
        }
        any = true;
    }
    return any;
}

/* Is `there` the matrix `here` with its columns rotated along dim d of the input, and its rows
 * along dim p of the output unless p is -1? */
static bool is_rotated(const cti_suspect *s, const double *here, const double *there, int d, int p,
                       double allowed) {
    int64_t of_in[CT_MAX_DIMS], of_out[CT_MAX_DIMS];
    cti_shape_strides(s->in, of_in);
    cti_shape_strides(s->out, of_out);
    double off = 0;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            const int64_t at = cti_suspect_along(s->in, i, d);
            int64_t to = i + ((at + 1) % s->in.dim[d] - at) * of_in[d], row = r;
            if (p >= 0) {
                const int64_t up = cti_suspect_along(s->out, r, p);
                row += ((up + 1) % s->out.dim[p] - up) * of_out[p];
            }
            const double e = here[r * s->n + i] - there[row * s->n + to];
            off += e * e;
        }
    return sqrt(off) <= allowed;
}

typedef enum { NO_SYMMETRY, SAME, DEPENDS } symmetry;

static symmetry symmetry_along(cti_suspect *s, int d) {
    double *values[CTI_SUSPECT_INPUTS] = {0};
    cti_checked other;
    symmetry found = NO_SYMMETRY;
    cti_frame frame;
    cti_frame_open(s->check->context, &frame, false);
    if (inputs_rotate(s->check, s->in.ndim - 1 - d, s->in.dim[d], values) &&
        cti_check_at(s->check, s->c, values, &other, NULL))
        for (int p = s->out.ndim - 1; p >= -1 && found == NO_SYMMETRY; p--) {
            if (p >= 0 && s->out.dim[p] != s->in.dim[d]) continue;
            const double allowed = 10 * s->fit * s->error;
            if (is_rotated(s, s->j, other.numeric, d, p, allowed))
                found = is_rotated(s, s->a, other.analytic, d, p, allowed) ? SAME : DEPENDS;
        }
    cti_frame_close(s->check->context, &frame);
    return found;
}

/* Does every row of J and of A have at most one entry, in the same column? Sets the range of the
 * ratios A / J. */
static bool is_local(const cti_suspect *s, double *low, double *high) {
    *low = INFINITY, *high = -INFINITY;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t entries = 0;
        for (int64_t i = 0; i < s->n; i++) {
            const double a = s->a[r * s->n + i], j = s->j[r * s->n + i];
            const bool none = cti_suspect_is_zero(s, j);
            if (none && !cti_suspect_is_zero(s, a)) return false;
            if (none) continue;
            entries++;
            *low = fmin(*low, a / j), *high = fmax(*high, a / j);
        }
        if (entries > 1) return false;
    }
    return *low <= *high;
}

bool cti_suspect_formula(cti_suspect *s) {
    if (!can_move(s) || !s->check->whole) return false;
    int along = -1, missing = 0;
    for (int d = 0; d < s->in.ndim; d++) {
        if (s->in.dim[d] < 2) continue;
        const symmetry of = symmetry_along(s, d);
        if (of == DEPENDS) return false;
        if (of == SAME) along = d;
        else missing++;
    }
    double low, high;
    if (!missing && is_local(s, &low, &high))
        return cti_suspect_say(s, CT_MISTAKE_FORMULA,
                               "a constant or a factor of the local derivative is wrong: its ratio "
                               "to the right one depends on the input's element, and is from %.4g "
                               "to %.4g",
                               low, high);
    if (along < 0) return false;
    return cti_suspect_say(s, CT_MISTAKE_FORMULA,
                           "a constant, a factor or a term of the formula is wrong, in the same "
                           "way at every index along dim %d",
                           along);
}
