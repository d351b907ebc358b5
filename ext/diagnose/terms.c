/* Hypotheses: the derivative takes only one factor of a product into account, or lacks a term. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* ---- products ----
 *
 * Let y = u(x) v(x) with v linear. J is the sum of the derivative with u taken for a constant, U,
 * and the derivative with v taken for a constant. U x = y because v is linear. So if A x = y or (J
 * - A) x = y, but J x is not y, backward took one of the factors for a constant. (For x x^T, J x =
 * 2 y and both hold.) */
bool cti_suspect_product_rule(cti_suspect *s) {
    if (s->check->opts.fast) return false;
    double whole = 0, one = 0, other = 0, size = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        double y = s->check->whole ? s->check->y[r] : 0, ax = 0, jx = 0;
        for (int64_t e = 0; e < s->check->m && !s->check->whole; e++)
            y += s->check->cotangent[r * s->check->m + e] * s->check->y[e];
        for (int64_t i = 0; i < s->n; i++) {
            double x = cti_check_get(s->c->x, i);
            ax += s->a[r * s->n + i] * x;
            jx += s->j[r * s->n + i] * x;
        }
        size += y * y;
        whole += (jx - y) * (jx - y);
        one += (ax - y) * (ax - y);
        other += (jx - ax - y) * (jx - ax - y);
    }
    if (sqrt(whole) < 0.01 * sqrt(size) || fmin(one, other) > s->fit * s->fit * fmin(size, whole))
        return false;
    return cti_suspect_say(s, CT_MISTAKE_PRODUCT_RULE,
                           "the product rule is half done: one of two factors that depend on this "
                           "input is taken for a constant%s",
                           one <= other ? "" : ", and it is the factor that is linear in it");
}

/* ---- a term that sums over a dim ----
 *
 * The gradient of softmax is (diag(y) - y y^T) g, the gradient of layer norm is (g - mean(g) - z
 * mean(z g)) / sigma. If a term with a sum is missing, the error A - J within each row along the
 * dim is a matrix u v^T, or the sum of two such matrices. */

typedef struct {
    /* the rows along a dim: their number, their length, and the distance between two elements */
    int64_t rows, length, step;
} lines;

static lines lines_along(ct_shape shape, int64_t numel, int d) {
    lines l = {.length = shape.dim[d], .step = 1};
    l.rows = l.length ? numel / l.length : 0;
    for (int e = d + 1; e < shape.ndim; e++) l.step *= shape.dim[e];
    return l;
}

static int64_t line_start(const lines *l, int64_t line) {
    return line / l->step * l->step * l->length + line % l->step;
}

/* |cos| of the angle between v and w, which is 1 if v is a multiple of w. */
static double alike(const double *v, const double *w, int64_t n) {
    double vw = 0, vv = 0, ww = 0;
    for (int64_t i = 0; i < n; i++) vw += v[i] * w[i], vv += v[i] * v[i], ww += w[i] * w[i];
    return vv > 0 && ww > 0 ? fabs(vw) / sqrt(vv * ww) : 0;
}

/* Names the vector of which v, along a line, is a multiple: ones, the output, the input, or the
 * input less its mean. NULL if it is none of these. known is scratch. */
static const char *name_vector(const cti_suspect *s, const double *v, const lines *l, int64_t start,
                               double *known) {
    const double enough = s->check->coarse ? 0.999 : 1 - 1e-7;
    const int64_t n = l->length;
    double mean = 0;
    for (int64_t i = 0; i < n; i++) known[i] = 1;
    if (alike(v, known, n) > enough) return "";
    for (int64_t i = 0; i < n; i++) known[i] = s->check->y[start + i * l->step];
    if (alike(v, known, n) > enough) return " times the output";
    for (int64_t i = 0; i < n; i++)
        known[i] = cti_check_get(s->c->x, start + i * l->step), mean += known[i] / (double)n;
    if (alike(v, known, n) > enough) return " times the input";
    for (int64_t i = 0; i < n; i++) known[i] -= mean;
    if (alike(v, known, n) > enough) return " times the input less its mean";
    return NULL;
}

/* Does P = J + up to `rank` matrices u v^T in each line's block explain the error? They are fitted
 * by elimination with full pivoting. With rank 1, *u and *v are the names of the vectors. */
static bool terms_subtract_known(cti_suspect *s, const lines *l, int rank, double *block,
                                 const char **u, const char **v) {
    const int64_t n = l->length;
    double *row = block + n * n, *column = row + n, *known = column + n;
    memcpy(s->p, s->j, (size_t)(s->rows * s->n) * sizeof *s->p);
    for (int64_t line = 0; line < l->rows; line++) {
        const int64_t start = line_start(l, line);
        for (int64_t r = 0; r < n; r++)
            for (int64_t i = 0; i < n; i++) {
                int64_t e = (start + r * l->step) * s->n + start + i * l->step;
                block[r * n + i] = s->a[e] - s->j[e];
            }
        for (int t = 0; t < rank; t++) {
            int64_t top = 0;
            for (int64_t e = 0; e < n * n; e++)
                if (fabs(block[e]) > fabs(block[top])) top = e;
            const double pivot = block[top];
            if (fabs(pivot) <= s->tiny) break;
            for (int64_t i = 0; i < n; i++)
                row[i] = block[top / n * n + i], column[i] = block[i * n + top % n];
            if (line == 0 && rank == 1)
                *u = name_vector(s, column, l, start, known),
                *v = name_vector(s, row, l, start, known);
            for (int64_t e = 0; e < n * n; e++) {
                double term = column[e / n] * row[e % n] / pivot;
                block[e] -= term;
                s->p[(start + e / n * l->step) * s->n + start + e % n * l->step] += term;
            }
        }
    }
    return cti_suspect_fits(s);
}

/* The error is in one element of each line, and of the same size in all lines. An example is the -1
 * at the target in the gradient of cross-entropy. */
bool cti_suspect_target(cti_suspect *s) {
    if (s->check->opts.fast) return false;
    for (int d = s->in.ndim - 1; d >= 0; d--) {
        const lines l = lines_along(s->in, s->n, d);
        double amount = 0;
        int64_t reached = 0;
        bool one = l.length > 2;
        for (int64_t line = 0; one && line < l.rows; line++) {
            int64_t at = -1;
            for (int64_t i = 0; one && i < l.length; i++)
                for (int64_t r = 0; one && r < s->rows; r++) {
                    if (!cti_suspect_wrong(s, r, line_start(&l, line) + i * l.step)) continue;
                    double off = fabs(s->a[r * s->n + line_start(&l, line) + i * l.step] -
                                      s->j[r * s->n + line_start(&l, line) + i * l.step]);
                    if (s->check->whole && amount == 0) amount = off;
                    one = (at < 0 || at == i) &&
                          (!s->check->whole || fabs(off - amount) <= s->fit * amount);
                    at = i;
                }
            reached += at >= 0;
        }
        if (one && reached > 1)
            return cti_suspect_say(s, CT_MISTAKE_TERM,
                                   "a term is missing or wrong that reaches one element of each "
                                   "row along dim %d (the target's?): it is off by %.6g there",
                                   d, amount);
    }
    return false;
}

/* Is the error off the diagonal more than a tenth of the error on it? Only then can a term be
 * missing that couples elements. */
static bool couples(const cti_suspect *s) {
    double on = 0, off = 0;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            *(r == i ? &on : &off) += fabs(s->a[r * s->n + i] - s->j[r * s->n + i]);
    return off > 0.1 * on;
}

/* Does P = J plus, in each line of the output, a multiple of the output explain the error? False
 * also if at most one such term reaches more than one element. */
static bool takes_output(cti_suspect *s, const lines *l) {
    int64_t coupled = 0;
    memcpy(s->p, s->j, (size_t)(s->rows * s->n) * sizeof *s->p);
    for (int64_t line = 0; line < l->rows; line++)
        for (int64_t i = 0; i < s->n; i++) {
            double ey = 0, yy = 0;
            int64_t wrong = 0;
            for (int64_t r = 0; r < l->length; r++) {
                const int64_t at = line_start(l, line) + r * l->step, e = at * s->n + i;
                ey += (s->a[e] - s->j[e]) * s->check->y[at],
                    yy += s->check->y[at] * s->check->y[at];
                wrong += cti_suspect_wrong(s, at, i);
            }
            for (int64_t r = 0; r < l->length && yy > 0; r++) {
                const int64_t at = line_start(l, line) + r * l->step;
                s->p[at * s->n + i] += ey / yy * s->check->y[at];
            }
            coupled += wrong > 1;
        }
    return coupled > 1 && cti_suspect_fits(s);
}

/* Attention's output is P v with P = softmax(q k^T). The row sum in softmax's backward is <dP, P> =
 * <g, out>. Without it the gradients of q and k lack a term, which is the output times one number
 * for each row. */
bool cti_suspect_row_sum(cti_suspect *s) {
    if (!s->check->whole) return false;
    for (int d = s->out.ndim - 1; d >= 0; d--) {
        const lines l = lines_along(s->out, s->rows, d);
        if (l.length < 2 || !takes_output(s, &l)) continue;
        if (cti_suspect_term(s)) return true; /* its diagnosis is more specific */
        return cti_suspect_say(s, CT_MISTAKE_TERM,
                               "a term is missing or has a wrong factor: the output, times one "
                               "number for each row along dim %d of it, as "
                               "if a softmax's backward forgot the sum over its row",
                               d);
    }
    return false;
}

bool cti_suspect_term(cti_suspect *s) {
    enum { MOST = 512 };
    if (!s->check->whole || !cti_shape_same(&s->in, &s->out) || !couples(s)) return false;
    for (int rank = 1; rank <= 2; rank++)
        for (int d = s->in.ndim - 1; d >= -1; d--) { /* -1: over all */
            const lines l = d >= 0 ? lines_along(s->in, s->n, d)
                                   : (lines){.rows = 1, .length = s->n, .step = 1};
            if (l.length < rank + 2 || l.length > MOST) continue;
            double *block = cti_check_numbers(s->check, l.length + 3, l.length);
            const char *u = NULL, *v = NULL;
            if (!block) return false;
            if (!terms_subtract_known(s, &l, rank, block, &u, &v)) continue;
            char where[32] = "all elements";
            if (d >= 0) snprintf(where, sizeof where, "dim %d", d);
            if (u && v)
                return cti_suspect_say(s, CT_MISTAKE_TERM,
                                       "a term is missing or has a wrong factor: the sum over %s "
                                       "of the cotangent%s%s%s",
                                       where, u, *v ? "," : "", v);
            return cti_suspect_say(
                s, CT_MISTAKE_TERM,
                rank == 1 ? "a term is missing or wrong that sums the cotangent over %s"
                          : "two terms are missing or wrong that sum the cotangent over %s",
                where);
        }
    return false;
}
