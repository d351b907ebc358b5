/* Hypotheses: the right pattern at the wrong index: shifted along a dim, reversed along a dim, or,
 * in a convolution, with its kernel reversed. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* Error of P over that of J, on the entries that P says something about: where P leaves the matrix
 * its entry is NaN. False where these have less than a tenth of the error. */
static bool fits_inside(const cti_suspect *s) {
    double left = 0, error = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        if (isnan(s->p[e])) continue;
        left += (s->a[e] - s->p[e]) * (s->a[e] - s->p[e]);
        error += (s->a[e] - s->j[e]) * (s->a[e] - s->j[e]);
    }
    return sqrt(error) > 0.1 * s->error && sqrt(left) <= s->fit * sqrt(error);
}

/* ---- shifted ---- */

typedef enum { GRADIENT, COTANGENT, DERIVATIVE } shifted_part;

/* P[r][i] = J[r'][i'], with the index along a dim moved by `by` in the column, the row or both. */
static void shift(const cti_suspect *s, shifted_part part, int d, int64_t by) {
    int64_t of_in[CT_MAX_DIMS], of_out[CT_MAX_DIMS];
    cti_shape_strides(s->in, of_in);
    cti_shape_strides(s->out, of_out);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            bool inside = true;
            int64_t to_r = r, to_i = i;
            if (part != GRADIENT) {
                const int64_t at = cti_suspect_along(s->out, r, d) + by;
                inside = inside && at >= 0 && at < s->out.dim[d];
                to_r += by * of_out[d];
            }
            if (part != COTANGENT) {
                const int64_t at = cti_suspect_along(s->in, i, d) + by;
                inside = inside && at >= 0 && at < s->in.dim[d];
                to_i += by * of_in[d];
            }
            s->p[r * s->n + i] = inside ? s->j[to_r * s->n + to_i] : (double)NAN;
        }
}

bool cti_suspect_shifted(cti_suspect *s) {
    if (!s->k->whole) return false;
    static const char *const what[] = {"the gradient is", "the cotangent is read",
                                       "the local derivative is"};
    for (int by = 1; by <= 2; by++)
        for (int back = 0; back < 2; back++)
            for (int part = GRADIENT; part <= DERIVATIVE; part++) {
                const int ndim = part == COTANGENT ? s->out.ndim : s->in.ndim;
                if (part == DERIVATIVE && !cti_shape_same(&s->in, &s->out)) continue;
                for (int d = ndim - 1; d >= 0; d--) {
                    if ((part == COTANGENT ? s->out : s->in).dim[d] < by + 2) continue;
                    shift(s, (shifted_part)part, d, back ? -by : by);
                    if (fits_inside(s))
                        return cti_suspect_say(
                            s, CT_MISTAKE_PERMUTED,
                            "%s shifted by %d along dim %d: an index is off", what[part],
                            back ? -by : by, d);
                }
            }
    return false;
}

/* ---- reversed ---- */

/* P = J with the index along one dim of its columns (or rows) reversed. */
static bool dim_is_reversed(cti_suspect *s, bool rows) {
    const ct_shape shape = rows ? s->out : s->in;
    int64_t stride[CT_MAX_DIMS];
    cti_shape_strides(shape, stride);
    for (int d = shape.ndim - 1; d >= 0; d--) {
        if (shape.dim[d] < 2) continue;
        for (int64_t r = 0; r < s->rows; r++)
            for (int64_t i = 0; i < s->n; i++) {
                const int64_t at = cti_suspect_along(shape, rows ? r : i, d),
                              by = (shape.dim[d] - 1 - 2 * at) * stride[d];
                s->p[r * s->n + i] = s->j[(rows ? r + by : r) * s->n + (rows ? i : i + by)];
            }
        if (cti_suspect_fits(s))
            return cti_suspect_say(s, CT_MISTAKE_REVERSED,
                                   "%s reversed along dim %d, as where a convolution takes its "
                                   "kernel from the other end",
                                   rows ? "the cotangent is read" : "the gradient is", d);
    }
    return false;
}

/* A convolution's entry depends on the distance of both indices, i - t r with t its step. With the
 * kernel reversed it is that of the distance c - (i - t r). */
static void mirror(const cti_suspect *s, int p, int q, int64_t step, int64_t c) {
    int64_t of_in[CT_MAX_DIMS];
    cti_shape_strides(s->in, of_in);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            const int64_t at = cti_suspect_along(s->in, i, q),
                          to = c + 2 * step * cti_suspect_along(s->out, r, p) - at;
            const bool inside = to >= 0 && to < s->in.dim[q];
            s->p[r * s->n + i] =
                inside ? s->j[r * s->n + i + (to - at) * of_in[q]] : (double)NAN;
        }
}

static bool kernel_is_reversed(cti_suspect *s) {
    enum { MOST = 16 };
    for (int p = s->out.ndim - 1; p >= 0; p--)
        for (int q = s->in.ndim - 1; q >= 0; q--)
            for (int64_t step = 1; step <= 2; step++)
                for (int64_t c = -MOST; c <= MOST; c++) {
                    if (s->out.dim[p] < 3 || s->in.dim[q] < 3) continue;
                    mirror(s, p, q, step, c);
                    if (!fits_inside(s)) continue;
                    return cti_suspect_say(
                        s, CT_MISTAKE_REVERSED,
                        "the kernel is reversed along dim %d: a convolution where a correlation is "
                        "meant, or the other way round",
                        q);
                }
    return false;
}

bool cti_suspect_reversed(cti_suspect *s) {
    if (!s->k->whole) return false;
    return dim_is_reversed(s, false) || dim_is_reversed(s, true) || kernel_is_reversed(s);
}

/* ---- contributions at another index ---- */

/* Each row of J has at most one entry, and so has A, with the same values. */
bool cti_suspect_misplaced(cti_suspect *s) {
    int64_t moved = 0, from = -1, to = -1;
    if (!s->k->whole || s->n < 2) return false;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t a = -1, j = -1;
        for (int64_t i = 0; i < s->n; i++) {
            const bool in_a = !cti_suspect_is_zero(s, s->a[r * s->n + i]),
                       in_j = !cti_suspect_is_zero(s, s->j[r * s->n + i]);
            if ((in_a && a >= 0) || (in_j && j >= 0)) return false;
            if (in_a) a = i;
            if (in_j) j = i;
            s->p[r * s->n + i] = 0;
        }
        if (a >= 0 && j < 0) return false;
        if (a >= 0) s->p[r * s->n + a] = s->j[r * s->n + j];
        if (a >= 0 && a != j) moved++, from = from < 0 ? j : from, to = to < 0 ? a : to;
    }
    if (!moved || !cti_suspect_fits(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                           "an index is wrong: in %lld of %lld outputs, what belongs to element "
                           "%lld or the like goes to element %lld",
                           (long long)moved, (long long)s->rows, (long long)from, (long long)to);
}
