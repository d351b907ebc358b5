/* Hypotheses: the numbers are right, but in the wrong order. P is J with its columns permuted (the
 * gradient is transposed or permuted), with its rows permuted (the cotangent is read in another
 * order), or with a dim of the output and a dim of the input exchanged (an operand is not
 * transposed). */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* ---- dims ---- */

enum { MOST_DIMS = 5 };

/* Sets `order` to permutation number n of ndim dims; returns how many dims it moves. */
static int nth_order(int n, int ndim, int order[MOST_DIMS]) {
    int left[MOST_DIMS], moved = 0;
    for (int d = 0; d < ndim; d++) left[d] = d;
    for (int d = 0; d < ndim; d++) {
        int at = n % (ndim - d);
        n /= ndim - d;
        order[d] = left[at];
        memmove(left + at, left + at + 1, (size_t)(ndim - d - at - 1) * sizeof *left);
        moved += order[d] != d;
    }
    return moved;
}

/* The flat index of element i after its dims are permuted by `order`. */
static int64_t reordered(ct_shape shape, const int order[MOST_DIMS], int64_t i) {
    int64_t to = 0;
    for (int d = 0; d < shape.ndim; d++)
        to = to * shape.dim[order[d]] + cti_suspect_along(shape, i, order[d]);
    return to;
}

/* Tries P = J with its columns (or rows) permuted by every order of the dims. The orders that move
 * the fewest dims come first. */
static bool dims_are_reordered(cti_suspect *s, bool rows) {
    const ct_shape shape = rows ? s->out : s->in;
    int orders = 1, order[MOST_DIMS];
    if (shape.ndim < 2 || shape.ndim > MOST_DIMS) return false;
    for (int d = 2; d <= shape.ndim; d++) orders *= d;
    for (int moved = 2; moved <= shape.ndim; moved++)
        for (int o = 0; o < orders; o++) {
            if (nth_order(o, shape.ndim, order) != moved) continue;
            for (int64_t at = 0; at < (rows ? s->rows : s->n); at++) {
                int64_t to = reordered(shape, order, at);
                if (rows) memcpy(s->p + to * s->n, s->j + at * s->n, (size_t)s->n * sizeof *s->p);
                else
                    for (int64_t r = 0; r < s->rows; r++) s->p[r * s->n + to] = s->j[r * s->n + at];
            }
            if (!cti_suspect_fits(s)) continue;
            char text[64];
            int end = 0;
            for (int d = 0; d < shape.ndim; d++)
                end += snprintf(text + end, sizeof text - (size_t)end, d ? ", %d" : "%d", order[d]);
            const char *what = rows ? "the cotangent is read" : "the gradient is";
            if (moved == 2)
                return cti_suspect_say(s, CT_MISTAKE_TRANSPOSED,
                                       "%s transposed: its dims are in the order %s", what, text);
            return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                                   "%s permuted: its dims are in the order %s", what, text);
        }
    return false;
}

/* Tries P = J with the index along a dim of the output and the index along a dim of the input
 * exchanged. B in place of B^T gives such a P. */
static bool operand_is_transposed(cti_suspect *s) {
    int64_t of_out[CT_MAX_DIMS], of_in[CT_MAX_DIMS];
    if (s->out.ndim == 1 && s->in.ndim == 1) return false; /* jacobian_is_transposed tries this */
    cti_shape_strides(s->out, of_out);
    cti_shape_strides(s->in, of_in);
    for (int p = 0; p < s->out.ndim; p++)
        for (int q = 0; q < s->in.ndim; q++) {
            if (s->out.dim[p] != s->in.dim[q] || s->in.dim[q] < 2) continue;
            for (int64_t r = 0; r < s->rows; r++)
                for (int64_t i = 0; i < s->n; i++) {
                    int64_t by = cti_suspect_along(s->in, i, q) - cti_suspect_along(s->out, r, p);
                    s->p[r * s->n + i] = s->j[(r + by * of_out[p]) * s->n + i - by * of_in[q]];
                }
            if (cti_suspect_fits(s))
                return cti_suspect_say(s, CT_MISTAKE_TRANSPOSED,
                                       "an operand of the product is not transposed, or once too "
                                       "often: the output's dim %d and the input's "
                                       "dim %d are exchanged",
                                       p, q);
        }
    return false;
}

/* P = J^T: backward computes the derivative along the cotangent (J g) instead of J^T g. */
static bool jacobian_is_transposed(cti_suspect *s) {
    if (s->rows != s->n || s->n < 2) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = s->j[e % s->n * s->n + e / s->n];
    return cti_suspect_fits(s) &&
           cti_suspect_say(s, CT_MISTAKE_TRANSPOSED,
                           "the Jacobian is applied where its transpose is meant: backward goes "
                           "the same way as the forward");
}

bool cti_suspect_transposed(cti_suspect *s) {
    if (s->check->opts.fast) return false;
    return dims_are_reordered(s, false) ||
           (s->check->whole &&
            (dims_are_reordered(s, true) || operand_is_transposed(s) || jacobian_is_transposed(s)));
}

/* ---- any order ---- */

/* Is row (or column) x of A equal to row (or column) y of J? */
static bool same_line(const cti_suspect *s, bool rows, int64_t x, int64_t y, double allowed) {
    for (int64_t e = 0; e < (rows ? s->n : s->rows); e++) {
        double a = rows ? s->a[x * s->n + e] : s->a[e * s->n + x],
               j = rows ? s->j[y * s->n + e] : s->j[e * s->n + y];
        if (!(fabs(a - j) <= allowed)) return false;
    }
    return true;
}

static bool lines_are_permuted(cti_suspect *s, bool rows) {
    enum { MOST = 4096 };
    const int64_t lines = rows ? s->rows : s->n;
    int64_t moved = -1, from = 0, shift = 0;
    bool *used = lines > 1 && lines <= MOST ? cti_check_flags(s->check, lines) : NULL,
         reversed = true, rotated = true;
    if (!used) return false;
    double most = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) most = fmax(most, fabs(s->j[e]));
    const double allowed = s->tiny + most * (s->check->coarse ? 0.02 : 1e-6);
    for (int64_t x = 0; x < lines; x++) {
        int64_t y = x; /* tries its own position first, so that equal lines count as not moved */
        if (used[x] || !same_line(s, rows, x, x, allowed)) {
            y = 0;
            while (y < lines && (used[y] || !same_line(s, rows, x, y, allowed))) y++;
        }
        if (y == lines) return false;
        used[y] = true;
        if (x != y && moved < 0) moved = x, from = y;
        if (x == 0) shift = y;
        reversed = reversed && y == lines - 1 - x;
        rotated = rotated && y == (x + shift) % lines;
    }
    if (moved < 0) return false;
    const char *what = rows ? "the cotangent is read" : "the gradient is";
    if (reversed) return cti_suspect_say(s, CT_MISTAKE_PERMUTED, "%s in reversed order", what);
    if (rotated)
        return cti_suspect_say(s, CT_MISTAKE_PERMUTED, "%s shifted by %lld", what,
                               (long long)(shift > lines / 2 ? shift - lines : shift));
    return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                           "%s in another order: element %lld has the numbers of element %lld",
                           what, (long long)moved, (long long)from);
}

bool cti_suspect_permuted(cti_suspect *s) {
    return !s->check->opts.fast &&
           (lines_are_permuted(s, false) || (s->check->whole && lines_are_permuted(s, true)));
}
