/* Hypotheses: the right numbers at the wrong index. They are shifted along a dim, reversed along a
 * dim, or, in a convolution, multiplied with the reversed kernel; or single contributions go to
 * another element. */
#include "suspect.h"

#include <math.h>
#include <stdlib.h>

/* Does P explain the error in the entries that it has? Entries of P that come from outside of J are
 * NaN and do not count. False also if the other entries have less than a tenth of the error. */
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

/* Sets P[r][i] = J[r'][i']. In r', i' or both the index along a dim is larger by `by`. */
static void part_shift(const cti_suspect *s, shifted_part part, int d, int64_t by) {
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
    if (!s->check->whole) return false;
    static const char *const what[] = {"the gradient is", "the cotangent is read",
                                       "the local derivative is"};
    for (int by = 1; by <= 2; by++)
        for (int back = 0; back < 2; back++)
            for (int part = GRADIENT; part <= DERIVATIVE; part++) {
                const int ndim = part == COTANGENT ? s->out.ndim : s->in.ndim;
                if (part == DERIVATIVE && !cti_shape_same(&s->in, &s->out)) continue;
                for (int d = ndim - 1; d >= 0; d--) {
                    if ((part == COTANGENT ? s->out : s->in).dim[d] < by + 2) continue;
                    part_shift(s, (shifted_part)part, d, back ? -by : by);
                    if (fits_inside(s))
                        return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                                               "%s shifted by %d along dim %d: an index is off",
                                               what[part], back ? -by : by, d);
                }
            }
    return false;
}

/* ---- reversed ---- */

/* Tries P = J with the index along one dim of its columns (or rows) reversed. */
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
                                   "%s reversed along dim %d, as if a convolution took its "
                                   "kernel from the other end",
                                   rows ? "the cotangent is read" : "the gradient is", d);
    }
    return false;
}

/* Twice the middle of the entries of J's row along dim q of the input; -1 if it has no entries. */
static int64_t middle_of(const cti_suspect *s, int64_t row, int q) {
    int64_t low = -1, high = -1;
    for (int64_t i = 0; i < s->n; i++) {
        if (cti_suspect_is_zero(s, s->j[row * s->n + i])) continue;
        const int64_t at = cti_suspect_along(s->in, i, q);
        low = low < 0 || at < low ? at : low, high = at > high ? at : high;
    }
    return low < 0 ? -1 : low + high;
}

/* In a convolution each row of J is the kernel, whose centre along a dim is c + t r for index r of
 * the output. Finds 2 c and 2 t from two rows in the middle, from which padding cuts nothing off.
 */
static bool centre_find(const cti_suspect *s, int p, int q, int64_t *c, int64_t *t) {
    int64_t stride[CT_MAX_DIMS], middle = 0;
    cti_shape_strides(s->out, stride);
    if (s->out.dim[p] < 3 || s->in.dim[q] < 3) return false;
    for (int d = 0; d < s->out.ndim; d++) middle += (s->out.dim[d] - 1) / 2 * stride[d];
    const int64_t here = middle_of(s, middle, q), next = middle_of(s, middle + stride[p], q);
    if (here < 0 || next < 0) return false;
    *t = next - here;
    *c = here - *t * ((s->out.dim[p] - 1) / 2);
    return true;
}

/* P = J with each row mirrored about its centre along the dims of a set, counted from the right. */
static bool jacobian_mirror(const cti_suspect *s, unsigned set) {
    bool moves = false; /* the kernel's centre moves with the output */
    int64_t of_in[CT_MAX_DIMS], c[CT_MAX_DIMS] = {0}, t[CT_MAX_DIMS] = {0};
    cti_shape_strides(s->in, of_in);
    for (int d = 0; d < s->in.ndim; d++) {
        if (!(set >> d & 1)) continue;
        if (d >= s->out.ndim ||
            !centre_find(s, s->out.ndim - 1 - d, s->in.ndim - 1 - d, &c[d], &t[d]))
            return false;
        moves |= t[d] != 0;
    }
    if (!moves) return false;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            int64_t from = i;
            bool inside = true;
            for (int d = 0; d < s->in.ndim; d++) {
                if (!(set >> d & 1)) continue;
                const int q = s->in.ndim - 1 - d;
                const int64_t at = cti_suspect_along(s->in, i, q),
                              row = cti_suspect_along(s->out, r, s->out.ndim - 1 - d),
                              to = c[d] + t[d] * row - at;
                inside = inside && to >= 0 && to < s->in.dim[q];
                from += (to - at) * of_in[q];
            }
            s->p[r * s->n + i] = inside ? s->j[r * s->n + from] : (double)NAN;
        }
    return true;
}

/* This comes before hypotheses about other orders, because several orders of the Jacobian of a
 * padded convolution are equal. */
bool cti_suspect_kernel(cti_suspect *s) {
    if (!s->check->whole) return false;
    for (unsigned set = 1; set < 1u << s->in.ndim; set++) {
        if (!jacobian_mirror(s, set) || !fits_inside(s)) continue;
        char dims[48] = "";
        int end = 0;
        for (int d = 0; d < s->in.ndim; d++)
            if (set >> (s->in.ndim - 1 - d) & 1)
                end += snprintf(dims + end, sizeof dims - (size_t)end, end ? ", %d" : "%d", d);
        return cti_suspect_say(
            s, CT_MISTAKE_REVERSED,
            "the kernel is reversed along dim %s: a convolution where a correlation is meant, or "
            "the other way round",
            dims);
    }
    return false;
}

bool cti_suspect_reversed(cti_suspect *s) {
    if (!s->check->whole) return false;
    return dim_is_reversed(s, false) || dim_is_reversed(s, true);
}

/* ---- contributions at another index ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Does each row (or column) of A have the numbers of the same row (or column) of J, in some order?
 */
static bool same_numbers(const cti_suspect *s, bool rows) {
    const int64_t lines = rows ? s->rows : s->n, length = rows ? s->n : s->rows;
    double *a = cti_check_numbers(s->check, 2, length), *j = a + length;
    int64_t entries = 0;
    if (!a) return false;
    for (int64_t line = 0; line < lines; line++) {
        double left = 0;
        for (int64_t e = 0; e < length; e++) {
            const int64_t at = rows ? line * s->n + e : e * s->n + line;
            a[e] = s->a[at], j[e] = s->j[at];
            entries += !cti_suspect_is_zero(s, j[e]);
        }
        qsort(a, (size_t)length, sizeof *a, by_size);
        qsort(j, (size_t)length, sizeof *j, by_size);
        for (int64_t e = 0; e < length; e++) left = fmax(left, fabs(a[e] - j[e]));
        if (!(left <= s->tiny + 1e-6 * fmax(fabs(j[0]), fabs(j[length - 1])))) return false;
    }
    return entries > lines;
}

/* The contributions are right, but go to other elements or come from other outputs: a stride, an
 * offset or a dilation is wrong. */
bool cti_suspect_scattered(cti_suspect *s) {
    if (!s->check->whole || s->check->coarse || s->n < 2 || s->rows < 2) return false;
    for (int rows = 1; rows >= 0; rows--)
        if (same_numbers(s, rows))
            return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                                   "an index is wrong: the contributions %s are right, but %s",
                                   rows ? "of each output" : "to each element",
                                   rows ? "go to other elements" : "come from other outputs");
    return false;
}

/* Are A's entries one number times elements of the tensor v, whose index along each dim is the
 * entry's index along some dim of the output or the input? `which` numbers the choices of these
 * dims. */
static bool reads_element(const cti_suspect *s, const double *v, ct_shape shape, int which,
                          bool self, bool *natural) {
    const int choices = s->out.ndim + s->in.ndim;
    double top = 0, bottom = 0;
    const int64_t count = cti_shape_numel(shape);
    bool of_out = s->rows % count == 0, of_in = s->n % count == 0; /* v is not longer */
    bool own = self; /* v is this input, and each entry is its element at the entry's own index */
    for (int pass = 0; pass < 2; pass++)
        for (int64_t e = 0; e < s->rows * s->n; e++) {
            int64_t at = 0;
            if (pass) {
                s->p[e] *= bottom > 0 ? top / bottom : 0;
                continue;
            }
            s->p[e] = 0;
            if (cti_suspect_is_zero(s, s->j[e]) && cti_suspect_is_zero(s, s->a[e])) continue;
            for (int d = 0, left = which; d < shape.ndim; d++, left /= choices) {
                const int of = left % choices;
                const int64_t index = of < s->out.ndim
                                          ? cti_suspect_along(s->out, e / s->n, of)
                                          : cti_suspect_along(s->in, e % s->n, of - s->out.ndim);
                if (index >= shape.dim[d]) return false;
                at = at * shape.dim[d] + index;
            }
            own = own && at == e % s->n;
            of_out = of_out && at == e / s->n % count, of_in = of_in && at == e % s->n % count;
            s->p[e] = v[at];
            top += s->a[e] * v[at], bottom += v[at] * v[at];
        }
    *natural = of_out || of_in;
    return !own && top != 0 && cti_suspect_fits(s);
}

bool cti_suspect_element(cti_suspect *s) {
    if (!s->check->whole || s->rows < 2) return false;
    const int choices = s->out.ndim + s->in.ndim;
    for (int q = 0; q < s->check->count; q++) {
        const cti_checked *x = &s->check->checked[q];
        if (x->numel < 2 || x->shape.ndim > 3) continue;
        double *v = cti_check_numbers(s->check, 1, x->numel);
        int all = 1;
        bool natural;
        for (int64_t i = 0; v && i < x->numel; i++) v[i] = cti_check_get(x->x, i);
        for (int d = 0; d < x->shape.ndim; d++) all *= choices;
        for (int which = 0; v && which < all; which++)
            if (reads_element(s, v, x->shape, which, x == s->c, &natural)) {
                if (natural)
                    return cti_suspect_say(
                        s, CT_MISTAKE_CHAIN,
                        "the cotangent is multiplied by input %d itself, where a "
                        "function of it, or another factor, is meant",
                        x->input);
                return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                                       "an index is wrong: the cotangent is multiplied by an "
                                       "element of input %d, but not by the right one",
                                       x->input);
            }
    }
    return false;
}

/* Each row of J and of A has at most one entry. The values are the same, the columns are not. */
bool cti_suspect_misplaced(cti_suspect *s) {
    int64_t moved = 0, from = -1, to = -1;
    if (!s->check->whole || s->n < 2) return false;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t a, j;
        if (!cti_suspect_one_entry(s, r, &a, &j)) return false;
        if (a >= 0 && j < 0) return false;
        if (a >= 0) s->p[r * s->n + a] = s->j[r * s->n + j];
        if (a >= 0 && a != j) moved++, from = from < 0 ? j : from, to = to < 0 ? a : to;
    }
    if (!moved || !cti_suspect_fits(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                           "an index is wrong: in %lld of %lld outputs a contribution goes to "
                           "another element, for example of element %lld to element %lld",
                           (long long)moved, (long long)s->rows, (long long)from, (long long)to);
}
