/* Hypotheses: backward reads an operand at the wrong place. Either it reads the whole operand
 * rearranged: then A is J at the point at which the operand is rearranged in this way. Or its
 * formula has an element at another index, or the element of another operand at the same index. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* ---- a rearranged operand ---- */

typedef enum {
    ONE_LATE,
    ONE_EARLY,
    ALL_FIRST,
    ALL_LAST,
    BACKWARDS,
    NO_FIRST,
    NO_LAST,
    WAYS
} rearranged_way;
static const char *const way_words[WAYS] = {
    "is read one index further along its dim %d",
    "is read one index too early along its dim %d",
    "is read at index 0 of its dim %d, whatever the index",
    "is read at the last index of its dim %d, whatever the index",
    "is read in reversed order along its dim %d",
    "is left out at index 0 of its dim %d: a loop begins too late",
    "is left out at the last index of its dim %d: a loop ends too early"};

/* Writes the elements of x to `to`, rearranged along dim d. */
static void elements_rearrange(const cti_checked *x, int d, rearranged_way way, double *to) {
    int64_t stride[CT_MAX_DIMS];
    const int64_t size = x->shape.dim[d];
    cti_shape_strides(x->shape, stride);
    for (int64_t i = 0; i < x->numel; i++) {
        const int64_t at = cti_suspect_along(x->shape, i, d),
                      from = way == ONE_LATE    ? (at + 1) % size
                             : way == ONE_EARLY ? (at + size - 1) % size
                             : way == ALL_FIRST ? 0
                             : way == ALL_LAST  ? size - 1
                             : way == BACKWARDS ? size - 1 - at
                                                : at;
        const bool gone = (way == NO_FIRST && at == 0) || (way == NO_LAST && at == size - 1);
        to[i] = gone ? 0 : cti_check_get(x->x, i + (from - at) * stride[d]);
    }
}

/* Writes the elements of x with two dims of one size exchanged. */
static void exchange_dims(const cti_checked *x, int d, int e, double *to) {
    int64_t stride[CT_MAX_DIMS];
    cti_shape_strides(x->shape, stride);
    for (int64_t i = 0; i < x->numel; i++) {
        const int64_t by = cti_suspect_along(x->shape, i, e) - cti_suspect_along(x->shape, i, d);
        to[i] = cti_check_get(x->x, i + by * (stride[d] - stride[e]));
    }
}

static bool is_rearranged(cti_suspect *s, int q, double *to) {
    const cti_checked *x = &s->check->checked[q];
    char words[128];
    for (int d = 0; d < x->shape.ndim; d++)
        for (int e = d + 1; e < x->shape.ndim; e++) {
            if (x->shape.dim[d] != x->shape.dim[e] || x->shape.dim[d] < 2) continue;
            exchange_dims(x, d, e, to);
            if (cti_suspect_is_at(s, q, to))
                return cti_suspect_say(s, CT_MISTAKE_TRANSPOSED,
                                       "input %d is not transposed, or once too often: backward is "
                                       "right for input %d with dims %d and %d exchanged",
                                       x->input, x->input, d, e);
        }
    for (int way = 0; way < WAYS; way++)
        for (int d = 0; d < x->shape.ndim; d++) {
            if (x->shape.dim[d] < 2) continue;
            elements_rearrange(x, d, (rearranged_way)way, to);
            if (!cti_suspect_is_at(s, q, to)) continue;
            snprintf(words, sizeof words, way_words[way], d);
            return cti_suspect_say(s, way >= NO_FIRST ? CT_MISTAKE_EDGES : CT_MISTAKE_PERMUTED,
                                   "input %d %s", x->input, words);
        }
    return false;
}

bool cti_suspect_rearranged(cti_suspect *s) {
    enum { MOST = 256 };
    cti_check *check = s->check;
    if (check->opts.fast || check->count > CTI_SUSPECT_INPUTS || s->n > MOST) return false;
    for (int q = 0; q < check->count; q++) {
        const cti_checked *x = &check->checked[q];
        if (x == s->c || x->numel < 2 || x->numel > MOST) continue;
        double *to = cti_check_numbers(check, 1, x->numel);
        if (!to) return false;
        if (is_rearranged(s, q, to)) return true;
    }
    return false;
}

/* ---- an element at another index ----
 *
 * Entry (r, i) of J uses one element of the operand. Its index along each dim of the operand is the
 * index of r along a dim of the output, or of i along a dim of the input. The element that backward
 * reads differs from it along one dim of the operand: there the index comes from another dim, or is
 * the first, the last, the next or the previous one. */

typedef struct {
    int right[3]; /* for each dim: a dim of the output, or ndim of it plus a dim of the input */
    int wrong_dim, wrong;
} element_places;

/* The index of entry (r, i) along dim k of the output, or of the input after these. */
static int64_t index_of(const cti_suspect *s, int64_t r, int64_t i, int k) {
    return k < s->out.ndim ? cti_suspect_along(s->out, r, k)
                           : cti_suspect_along(s->in, i, k - s->out.ndim);
}

static int64_t size_of_dim(const cti_suspect *s, int k) {
    return k < s->out.ndim ? s->out.dim[k] : s->in.dim[k - s->out.ndim];
}

/* Sets v[0] to the right element of entry (r, i) and v[1] to the one that is read. */
static bool elements_at(const cti_suspect *s, const double *x, ct_shape shape,
                        const element_places *p, int64_t r, int64_t i, double v[2]) {
    int64_t at[2] = {0, 0};
    const int dims = s->out.ndim + s->in.ndim;
    for (int d = 0; d < shape.ndim; d++) {
        const int64_t size = shape.dim[d], right = index_of(s, r, i, p->right[d]);
        int64_t read = right;
        if (d == p->wrong_dim)
            read = p->wrong < dims        ? index_of(s, r, i, p->wrong) % size
                   : p->wrong == dims     ? 0
                   : p->wrong == dims + 1 ? size - 1
                   : p->wrong == dims + 2 ? (right + 1) % size
                                          : (right + size - 1) % size;
        if (right >= size) return false;
        at[0] = at[0] * size + right, at[1] = at[1] * size + read;
    }
    v[0] = x[at[0]], v[1] = x[at[1]];
    return true;
}

/* Does P = J v[1] / v[0], or P = J + c (v[1] - v[0]) with one c, explain the error? */
static bool explains_places(cti_suspect *s, const double *x, ct_shape shape,
                            const element_places *p, bool added) {
    double top = 0, bottom = 0;
    int64_t moved = 0;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            const int64_t e = r * s->n + i;
            double v[2];
            s->p[e] = 0;
            if (s->c->state[i] != CTI_WRONG ||
                (cti_suspect_is_zero(s, s->j[e]) && cti_suspect_is_zero(s, s->a[e])))
                continue;
            if (!elements_at(s, x, shape, p, r, i, v)) return false;
            const double change = added ? v[1] - v[0] : s->j[e] * (v[1] / v[0] - 1);
            if (!isfinite(change)) return false;
            moved += v[0] != v[1];
            s->p[e] = change;
            top += change * (s->a[e] - s->j[e]), bottom += change * change;
        }
    const double c = added && bottom > 0 ? top / bottom : 1;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = s->j[e] + c * s->p[e];
    /* with c < 0 the right place and the one that is read are exchanged */
    return moved >= 4 && c > 0 && cti_suspect_fits(s);
}

static bool places_say(cti_suspect *s, const element_places *p, int input) {
    const int dims = s->out.ndim + s->in.ndim;
    char where[64];
    if (p->wrong < dims)
        snprintf(where, sizeof where, "the index along dim %d of the %s",
                 p->wrong < s->out.ndim ? p->wrong : p->wrong - s->out.ndim,
                 p->wrong < s->out.ndim ? "output" : "input");
    else
        snprintf(where, sizeof where, "%s",
                 p->wrong == dims       ? "index 0"
                 : p->wrong == dims + 1 ? "the last index"
                 : p->wrong == dims + 2 ? "the next index"
                                        : "the index before");
    return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                           "an index is wrong: an element of input %d is read at %s along its dim "
                           "%d",
                           input, where, p->wrong_dim);
}

/* Tries every place of which the sizes suit. */
static bool tries_places(cti_suspect *s, const double *x, ct_shape shape, int input, bool added) {
    const int dims = s->out.ndim + s->in.ndim, words = dims + 4;
    int all = 1;
    for (int d = 0; d < shape.ndim; d++) all *= dims;
    for (int which = 0; which < all; which++) {
        element_places p;
        bool suits = true;
        for (int d = 0, left = which; d < shape.ndim; d++, left /= dims) {
            p.right[d] = left % dims;
            suits = suits && size_of_dim(s, p.right[d]) == shape.dim[d];
        }
        for (p.wrong_dim = 0; suits && p.wrong_dim < shape.ndim; p.wrong_dim++)
            for (p.wrong = 0; p.wrong < words; p.wrong++) {
                if (p.wrong == p.right[p.wrong_dim] || shape.dim[p.wrong_dim] < 2) continue;
                if (explains_places(s, x, shape, &p, added)) return places_say(s, &p, input);
            }
    }
    return false;
}

/* The elements of a checked input. NULL: out of memory. */
static double *elements_of(cti_suspect *s, const cti_checked *x) {
    double *values = cti_check_numbers(s->check, 1, x->numel);
    for (int64_t i = 0; values && i < x->numel; i++) values[i] = cti_check_get(x->x, i);
    return values;
}

bool cti_suspect_place(cti_suspect *s) {
    enum { MOST = 8192 };
    if (!s->check->whole || s->rows * s->n > MOST) return false;
    for (int q = 0; q < s->check->count; q++) {
        const cti_checked *x = &s->check->checked[q];
        if (x->shape.ndim < 1 || x->shape.ndim > 3 || x->numel < 2) continue;
        const double *values = elements_of(s, x);
        if (!values) return false;
        for (int added = 0; added < 2; added++)
            if (tries_places(s, values, x->shape, x->input, added)) return true;
    }
    return false;
}

/* ---- the cotangent, or a term, at another index ---- */

/* Is every entry of m that is not 0 one at which r's index along dim p equals i's along dim q? */
static bool only_where_equal(const cti_suspect *s, const double *m, int p, int q) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            if (!cti_suspect_is_zero(s, m[r * s->n + i]) &&
                cti_suspect_along(s->out, r, p) != cti_suspect_along(s->in, i, q))
                return false;
    return true;
}

bool cti_suspect_wrong_dim(cti_suspect *s) {
    if (!s->check->whole || s->check->opts.fast || s->in.ndim < 2) return false;
    for (int p = 0; p < s->out.ndim; p++)
        for (int q = 0; q < s->in.ndim; q++)
            for (int to = 0; to < s->in.ndim; to++) {
                const int64_t size = s->out.dim[p];
                if (to == q || size < 2 || s->in.dim[q] != size || s->in.dim[to] != size) continue;
                if (only_where_equal(s, s->j, p, q) && !only_where_equal(s, s->a, p, q) &&
                    only_where_equal(s, s->a, p, to))
                    return cti_suspect_say(
                        s, CT_MISTAKE_SUM,
                        "the cotangent is read along the wrong dim: an element gets the one at its "
                        "index along dim %d, where that along dim %d is meant",
                        to, q);
            }
    return false;
}

/* In each row along dim d the errors are c at one element and -c at another, with one c. */
static bool term_is_elsewhere(const cti_suspect *s, int d) {
    int64_t stride[CT_MAX_DIMS], lines = 0;
    double amount = 0;
    cti_shape_strides(s->in, stride);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t first = 0; first < s->n; first++) {
            if (cti_suspect_along(s->in, first, d) != 0) continue;
            double sum = 0, size = 0;
            int64_t wrong = 0;
            for (int64_t k = 0; k < s->in.dim[d]; k++) {
                const int64_t i = first + k * stride[d];
                if (!cti_suspect_wrong(s, r, i)) continue;
                const double off = s->a[r * s->n + i] - s->j[r * s->n + i];
                wrong++, sum += off, size = fmax(size, fabs(off));
            }
            if (wrong == 0) continue;
            if (amount == 0) amount = size;
            if (wrong != 2 || fabs(sum) > s->fit * size || fabs(size - amount) > s->fit * amount)
                return false;
            lines++;
        }
    return lines > 1;
}

bool cti_suspect_moved_term(cti_suspect *s) {
    if (!s->check->whole || s->check->opts.fast) return false;
    for (int d = s->in.ndim - 1; d >= 0; d--)
        if (s->in.dim[d] > 2 && term_is_elsewhere(s, d))
            return cti_suspect_say(s, CT_MISTAKE_PERMUTED,
                                   "an index is wrong: a term that reaches one element of each row "
                                   "along dim %d (the target's?) reaches another one",
                                   d);
    return false;
}
