/* Hypotheses that suit ops whose Jacobian has few entries: the cotangent itself is missing or
 * added; the gradients of two inputs are exchanged; the local derivative has a wrong factor or term
 * that is a known function of the input, the output or another input. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* ---- a residual ---- */

/* Is A - J the number c times the identity? */
static bool is_number_times_identity(cti_suspect *s, double *c) {
    *c = 0;
    if (s->rows != s->n || s->n < 2) return false;
    for (int64_t i = 0; i < s->n; i++) *c += (s->a[i * s->n + i] - s->j[i * s->n + i]);
    *c /= (double)s->n;
    memcpy(s->p, s->j, (size_t)(s->rows * s->n) * sizeof *s->p);
    for (int64_t i = 0; i < s->n; i++) s->p[i * s->n + i] += *c;
    return *c != 0 && cti_suspect_fits(s);
}

/* Is A - J the number c in one entry of each row (of a broadcast input), or in every entry if there
 * is a single row? */
static bool is_number_of_each_row(cti_suspect *s, double *c) {
    double sum = 0;
    int64_t entries = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t here = 0;
        for (int64_t i = 0; i < s->n; i++)
            if (cti_suspect_wrong(s, r, i)) here++, sum += s->a[r * s->n + i] - s->j[r * s->n + i];
        if (here != (s->rows == 1 ? s->n : 1)) return false;
        entries += here;
    }
    if (entries < 3) return false;
    *c = sum / (double)entries;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            s->p[r * s->n + i] = s->j[r * s->n + i] + (cti_suspect_wrong(s, r, i) ? *c : 0);
    return cti_suspect_fits(s);
}

bool cti_suspect_residual(cti_suspect *s) {
    double c;
    if (!s->check->whole || !(is_number_times_identity(s, &c) || is_number_of_each_row(s, &c)))
        return false;
    const double part = s->check->coarse ? 0.02 : 1e-4;
    if (fabs(fabs(c) - 1) <= part)
        return cti_suspect_say(
            s, CT_MISTAKE_RESIDUAL, "%s: the error is the cotangent itself",
            c < 0 ? "the cotangent is not passed on, as by a residual connection that is forgotten"
                  : "the cotangent is passed on once too often, as by a residual connection that "
                    "is not there");
    return cti_suspect_say(s, CT_MISTAKE_RESIDUAL,
                           "a term is missing or wrong that passes the cotangent on unchanged: the "
                           "error is %.6g times the cotangent",
                           c);
}

/* ---- exchanged ---- */

bool cti_suspect_exchanged(cti_suspect *s) {
    const cti_check *check = s->check;
    for (int q = 0; q < check->count && !check->opts.fast; q++) {
        const cti_checked *other = &check->checked[q];
        if (other == s->c || other->n != s->n ||
            cti_suspect_distance(s, s->a, other->numeric) > s->fit * s->error)
            continue;
        const double error = cti_suspect_distance(s, other->analytic, other->numeric);
        if (other->wrong && cti_suspect_distance(s, other->analytic, s->j) <= s->fit * error)
            return cti_suspect_say(s, CT_MISTAKE_EXCHANGED,
                                   "the gradients of inputs %d and %d are exchanged", s->c->input,
                                   other->input);
        return cti_suspect_say(s, CT_MISTAKE_EXCHANGED, "it has the gradient of input %d",
                               other->input);
    }
    return false;
}

/* ---- known functions ---- */

enum { FUNCTIONS = 20, SIGN = 10 };
static const char *const function_name[FUNCTIONS] = {"%s",
                                                     "the square of %s",
                                                     "the root of %s",
                                                     "one plus %s",
                                                     "one minus %s",
                                                     "1 - v^2 with v %s",
                                                     "1 + v^2 with v %s",
                                                     "v (1 - v) with v %s",
                                                     "the exponential of %s",
                                                     "the logarithm of %s",
                                                     "the sign of %s",
                                                     "the cube of %s",
                                                     "one over %s",
                                                     "the sine of %s",
                                                     "the cosine of %s",
                                                     "the sigmoid of %s",
                                                     "one minus the sigmoid of %s",
                                                     "the tanh of %s",
                                                     "1 - t^2 with t the tanh of %s",
                                                     "s (1 - s) with s the sigmoid of %s"};

static double known_function(int f, double v) {
    switch (f) {
    case 0: return v;
    case 1: return v * v;
    case 2: return sqrt(fabs(v));
    case 3: return 1 + v;
    case 4: return 1 - v;
    case 5: return 1 - v * v;
    case 6: return 1 + v * v;
    case 7: return v * (1 - v);
    case 8: return exp(v);
    case 9: return log(fabs(v));
    case 10: return v > 0 ? 1 : -1;
    case 11: return v * v * v;
    case 12: return 1 / v;
    case 13: return sin(v);
    case 14: return cos(v);
    case 15: return 1 / (1 + exp(-v));
    case 16: return 1 / (1 + exp(v));
    case 17: return tanh(v);
    case 18: return 1 - tanh(v) * tanh(v);
    default: return 1 / ((1 + exp(-v)) * (1 + exp(v)));
    }
}

/* A tensor with one element for each row or column of the Jacobian; a smaller one is repeated. */
typedef struct {
    const double *v;
    int64_t count;
    bool rows;
    char name[32];
} known;

enum { KNOWN = 2 * (CTI_SUSPECT_INPUTS + 2) };

/* The softmax of the input along its last dim. The gradients of many losses contain it. */
static double *softmax_of(cti_suspect *s) {
    const ct_tensor *x = s->c->x;
    const int64_t numel = s->c->numel, n = s->in.ndim ? s->in.dim[s->in.ndim - 1] : 1;
    double *p = cti_check_numbers(s->check, 1, numel);
    for (int64_t row = 0; p && row < numel; row += n) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = row; i < row + n; i++) most = fmax(most, cti_check_get(x, i));
        for (int64_t i = row; i < row + n; i++) sum += p[i] = exp(cti_check_get(x, i) - most);
        for (int64_t i = row; i < row + n; i++) p[i] /= sum;
    }
    return p;
}

enum { SOFTMAX = -2, OUTPUT = -1 };

/* The values of checked input q, of the output, or of the input's softmax. */
static double *values_of(cti_suspect *s, int q, int64_t size) {
    if (q == OUTPUT) return s->check->y;
    if (q == SOFTMAX) return softmax_of(s);
    double *values = cti_check_numbers(s->check, 1, size);
    for (int64_t i = 0; values && i < size; i++)
        values[i] = cti_check_get(s->check->checked[q].x, i);
    return values;
}

static int known_collect(cti_suspect *s, known list[KNOWN]) {
    const cti_check *check = s->check;
    int count = 0;
    for (int q = SOFTMAX; q < check->count && count + 2 <= KNOWN; q++) {
        const int64_t size = q == OUTPUT    ? check->m
                             : q == SOFTMAX ? s->c->numel
                                            : check->checked[q].numel;
        if (size < 2) continue;
        const double *values = values_of(s, q, size);
        if (!values) return 0;
        for (int rows = 0; rows < 2; rows++) {
            if ((rows ? s->rows : s->n) % size || (rows && s->rows == s->n)) continue;
            known *one = &list[count++];
            *one = (known){.v = values, .count = size, .rows = rows};
            if (q == OUTPUT) snprintf(one->name, sizeof one->name, "the output");
            else if (q == SOFTMAX) snprintf(one->name, sizeof one->name, "the input's softmax");
            else if (&check->checked[q] == s->c) snprintf(one->name, sizeof one->name, "the input");
            else snprintf(one->name, sizeof one->name, "input %d", check->checked[q].input);
        }
    }
    return count;
}

/* In the columns of `wrong`, P = c times base times (or over) f(v), with the c that fits A best;
 * with `added`, P = J + c base f(v). In the other columns P = J. False: P is not finite, or does
 * not explain the error. */
static bool explains(cti_suspect *s, const bool *wrong, const double *base, const known *of, int f,
                     bool over, bool added, double *c) {
    double top = 0, bottom = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        if (!wrong[e % s->n]) continue;
        const double v = known_function(f, of->v[(of->rows ? e / s->n : e % s->n) % of->count]),
                     target = added ? s->a[e] - s->j[e] : s->a[e];
        s->p[e] = base[e] == 0 ? 0 : over ? base[e] / v : base[e] * v;
        if (!isfinite(s->p[e])) return false;
        top += target * s->p[e], bottom += s->p[e] * s->p[e];
    }
    *c = bottom > 0 ? top / bottom : 0;
    for (int64_t e = 0; e < s->rows * s->n; e++)
        s->p[e] = wrong[e % s->n] ? *c * s->p[e] + (added ? s->j[e] : 0) : s->j[e];
    return *c != 0 && cti_suspect_fits(s);
}

/* The columns that are wrong, or NULL if J has so few entries in them that a fit of one number may
 * be an accident. A mistake in one branch of the formula leaves the elements of the other one
 * right. *some is the end of the sentence that says how many they are. */
static bool *wrong_columns(cti_suspect *s, char some[64]) {
    int64_t entries = 0, columns = 0;
    bool *wrong = s->check->opts.fast ? NULL : cti_check_flags(s->check, s->n);
    for (int64_t i = 0; wrong && i < s->n; i++) {
        for (int64_t r = 0; r < s->rows; r++) wrong[i] |= cti_suspect_wrong(s, r, i);
        columns += wrong[i];
        for (int64_t r = 0; r < s->rows && wrong[i]; r++)
            entries += !cti_suspect_is_zero(s, s->j[r * s->n + i]);
    }
    *some = 0;
    if (columns < s->n)
        snprintf(some, 64, ", at %lld of %lld elements", (long long)columns, (long long)s->n);
    return entries >= 4 ? wrong : NULL;
}

bool cti_suspect_local_factor(cti_suspect *s) {
    known list[KNOWN];
    char some[64];
    const bool *wrong = wrong_columns(s, some);
    if (!wrong) return false;
    const int count = known_collect(s, list);
    for (int f = 0; f < FUNCTIONS; f++)
        for (int q = 0; q < count; q++)
            for (int over = 1; over >= 0; over--) {
                double c;
                char what[96], times[32] = "";
                if (!explains(s, wrong, s->j, &list[q], f, over, false, &c)) continue;
                snprintf(what, sizeof what, function_name[f], list[q].name);
                if (fabs(c - 1) > 1e-4) snprintf(times, sizeof times, ", and all times %.6g", c);
                return cti_suspect_say(s, CT_MISTAKE_CHAIN,
                                       over ? "a factor of the local derivative is missing: %s%s%s"
                                            : "the local derivative has a factor too many: %s%s%s",
                                       what, times, some);
            }
    return false;
}

/* Is the error a constant times a known function times the cotangent, or times J, in the entries of
 * J that are not 0? */
bool cti_suspect_local_term(cti_suspect *s) {
    known list[KNOWN];
    char some[64];
    const bool *wrong = wrong_columns(s, some);
    if (!wrong || !s->check->whole) return false;
    const int count = known_collect(s, list);
    double *base = cti_check_numbers(s->check, s->rows, s->n);
    if (!base) return false;
    for (int of_j = 0; of_j < 2; of_j++) {
        for (int64_t e = 0; e < s->rows * s->n; e++)
            base[e] = cti_suspect_is_zero(s, s->j[e]) ? 0 : of_j ? s->j[e] : 1;
        for (int f = 0; f < FUNCTIONS; f++)
            for (int q = 0; q < count; q++) {
                double c;
                char what[96];
                if (!explains(s, wrong, base, &list[q], f, false, true, &c)) continue;
                snprintf(what, sizeof what, function_name[f], list[q].name);
                return cti_suspect_say(s, CT_MISTAKE_TERM,
                                       "a term of the local derivative is missing or wrong: the "
                                       "error is %.6g times %s%s%s",
                                       c, what, of_j ? ", times the derivative" : "", some);
            }
    }
    return false;
}

/* Is the error in each row along a dim one number of that row times a known function? */
bool cti_suspect_row_term(cti_suspect *s) {
    known list[KNOWN];
    int64_t stride[CT_MAX_DIMS];
    char some[64];
    if (!wrong_columns(s, some) || !s->check->whole) return false;
    const int count = known_collect(s, list);
    cti_shape_strides(s->in, stride);
    for (int d = s->in.ndim - 1; d >= 0; d--) {
        const int64_t length = s->in.dim[d];
        if (length < 3 || length == s->n) continue;
        for (int f = 0; f < FUNCTIONS * count; f++) {
            const known *of = &list[f % count];
            for (int64_t e = 0; e < s->rows * s->n && !of->rows; e++) {
                const int64_t i = e % s->n;
                double top = 0, bottom = 0;
                if (cti_suspect_along(s->in, i, d) != 0) continue;
                for (int64_t k = 0; k < length; k++) {
                    const int64_t at = e + k * stride[d];
                    const double v =
                        known_function(f / count, of->v[(i + k * stride[d]) % of->count]);
                    s->p[at] = v;
                    top += v * (s->a[at] - s->j[at]), bottom += v * v;
                }
                for (int64_t k = 0; k < length; k++) {
                    const int64_t at = e + k * stride[d];
                    s->p[at] = s->j[at] + (bottom > 0 ? top / bottom * s->p[at] : 0);
                }
            }
            char what[96];
            if (of->rows || f / count == SIGN || !cti_suspect_fits(s)) continue;
            snprintf(what, sizeof what, function_name[f / count], of->name);
            return cti_suspect_say(s, CT_MISTAKE_TERM,
                                   "a term is missing or wrong: %s, times one number for each row "
                                   "along dim %d",
                                   what, d);
        }
    }
    return false;
}

/* A is one number times the identity, and J is not. */
bool cti_suspect_handed_on(cti_suspect *s) {
    double c = 0;
    if (!s->check->whole || s->rows != s->n || s->n < 2) return false;
    for (int64_t i = 0; i < s->n; i++) c += s->a[i * s->n + i] / (double)s->n;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = e / s->n == e % s->n ? c : 0;
    return c != 0 && cti_suspect_fits(s) &&
           cti_suspect_say(s, CT_MISTAKE_CHAIN,
                           "the cotangent is passed on times %.6g, as if the op were not there", c);
}

/* Each row of A has its entries where J has, and the same size, but other values. */
bool cti_suspect_angle(cti_suspect *s) {
    int64_t turned = 0;
    if (!s->check->whole || s->check->coarse || s->check->opts.fast) return false;
    for (int64_t r = 0; r < s->rows; r++) {
        double a = 0, j = 0, off = 0;
        int64_t entries = 0;
        for (int64_t e = r * s->n; e < (r + 1) * s->n; e++) {
            if (cti_suspect_is_zero(s, s->a[e]) != cti_suspect_is_zero(s, s->j[e])) return false;
            entries += !cti_suspect_is_zero(s, s->j[e]);
            a += s->a[e] * s->a[e], j += s->j[e] * s->j[e];
            off = fmax(off, fabs(s->a[e] - s->j[e]));
        }
        if (fabs(a - j) > 1e-6 * j) return false;
        turned += entries == 2 && off > s->tiny;
        if (entries > 2) return false;
    }
    return turned > 3 &&
           cti_suspect_say(s, CT_MISTAKE_FORMULA,
                           "pairs of entries have the right size and other values: an "
                           "angle, as of a rotary embedding, is wrong");
}
