/* Hypotheses about which elements are wrong: the elements at an edge of the blocks of a blocked
 * loop, the elements beyond a threshold, or all rows, each by a factor of its own. */
#include "suspect.h"

#include <math.h>
#include <string.h>

typedef enum { TAIL, BEYOND, FIRST, LAST, KINDS } edge;

/* Is index c of a dim of that size at an edge of this kind, with blocks of b? */
static bool at_edge(edge kind, int64_t c, int64_t size, int64_t b) {
    switch (kind) {
    case TAIL: return c >= size - size % b; /* the remainder behind the whole blocks */
    case BEYOND: return c >= b;             /* all blocks but the first */
    case FIRST: return c % b == 0;
    default: return c % b == b - 1;
    }
}

/* Are exactly the elements wrong that lie at an edge of this kind along dim d? wrong is [count]. d
 * = -1 means along the flat index. */
static bool edge_is_wrong(const bool *wrong, int64_t count, ct_shape shape, int d, edge kind,
                          int64_t b) {
    const int64_t size = d < 0 ? count : shape.dim[d];
    int64_t some = 0, hits = 0;
    if (size < 2 || b > size || (kind == TAIL && size % b == 0)) return false;
    for (int64_t at = 0; at < size; at++) hits += at_edge(kind, at, size, b);
    if (b < size && hits < 2) return false; /* a single index is no pattern of blocks */
    for (int64_t i = 0; i < count; i++) {
        if (at_edge(kind, d < 0 ? i : cti_suspect_along(shape, i, d), size, b) != wrong[i])
            return false;
        some += wrong[i];
    }
    return some > 0 && some < count;
}

static bool edges_of(cti_suspect *s, bool rows) {
    static const int64_t blocks[] = {4, 8, 16, 32, 64, 128};
    const ct_shape shape = rows ? s->out : s->in;
    const int64_t count = rows ? s->rows : s->n;
    bool *wrong = cti_check_flags(s->check, count);
    if (!wrong || count < 2) return false;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) wrong[rows ? r : i] |= cti_suspect_wrong(s, r, i);
    for (int d = shape.ndim > 1 ? shape.ndim - 1 : -1; d >= -1; d--) {
        char along[64];
        snprintf(along, sizeof along, d < 0 ? "%s" : "%s along dim %d",
                 rows ? "the contribution of the output" : "the gradient", d);
        const int64_t size = d < 0 ? count : shape.dim[d];
        /* the flat index of several dims has a tail, but no blocks of its own */
        for (int kind = 0; kind < (d < 0 && shape.ndim > 1 ? TAIL + 1 : KINDS); kind++)
            for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
                if (blocks[b] >= size ||
                    !edge_is_wrong(wrong, count, shape, d, (edge)kind, blocks[b]))
                    continue;
                int64_t largest = blocks[b]; /* several block sizes may leave the same tail */
                for (size_t more = b + 1; more < sizeof blocks / sizeof *blocks; more++)
                    if (kind == TAIL && blocks[more] < size &&
                        edge_is_wrong(wrong, count, shape, d, TAIL, blocks[more]))
                        largest = blocks[more];
                char sizes[48];
                snprintf(sizes, sizeof sizes, largest == blocks[b] ? "%lld" : "%lld or %lld",
                         (long long)blocks[b], (long long)largest);
                if (kind == TAIL)
                    return cti_suspect_say(s, CT_MISTAKE_EDGES,
                                           "%s is wrong only from index %lld on: the remainder of "
                                           "%lld behind whole blocks of %s",
                                           along, (long long)(size - size % largest),
                                           (long long)size, sizes);
                if (kind == BEYOND)
                    return cti_suspect_say(
                        s, CT_MISTAKE_EDGES,
                        "%s is wrong from index %lld on: only the first block is done", along,
                        (long long)blocks[b]);
                return cti_suspect_say(
                    s, CT_MISTAKE_EDGES, "%s is wrong only at the %s index of each block of %lld",
                    along, kind == FIRST ? "first" : "last", (long long)blocks[b]);
            }
        if (edge_is_wrong(wrong, count, shape, d, FIRST, size) ||
            edge_is_wrong(wrong, count, shape, d, LAST, size))
            return cti_suspect_say(s, CT_MISTAKE_EDGES, "%s is wrong only at the %s index", along,
                                   wrong[0] ? "first" : "last");
    }
    return false;
}

bool cti_suspect_edges(cti_suspect *s) {
    return !s->check->opts.fast && (edges_of(s, false) || (s->check->whole && edges_of(s, true)));
}

/* ---- beyond a threshold ---- */

/* Finds the columns that are wrong, and the columns that are right and not zero. False: there are
 * too few of either to look for a threshold. */
static bool columns_sort(cti_suspect *s, bool **wrong, bool **right) {
    *wrong = cti_check_flags(s->check, s->n), *right = cti_check_flags(s->check, s->n);
    if (!*wrong || !*right) return false;
    int64_t off = 0, good = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool any = false;
        for (int64_t r = 0; r < s->rows; r++) {
            (*wrong)[i] |= cti_suspect_wrong(s, r, i);
            any |= !cti_suspect_is_zero(s, s->j[r * s->n + i]);
        }
        (*right)[i] = any && !(*wrong)[i] && s->c->state[i] <= CTI_WRONG;
        off += (*wrong)[i], good += (*right)[i];
    }
    return off >= 2 && good >= 2 && off + good >= 6;
}

/* The factor by which all wrong columns are off; 0 if they have no common factor. */
static double common_factor(cti_suspect *s, const bool *wrong) {
    double top = 0, bottom = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++)
        if (wrong[e % s->n]) top += s->a[e] * s->j[e], bottom += s->j[e] * s->j[e];
    const double c = bottom > 0 ? top / bottom : 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = wrong[e % s->n] ? c * s->j[e] : s->j[e];
    return cti_suspect_fits(s) ? c : 0;
}

bool cti_suspect_threshold(cti_suspect *s) {
    bool *wrong, *right;
    if (s->check->opts.fast || !columns_sort(s, &wrong, &right)) return false;
    enum { INPUT, SIZE, OUTPUT, OTHER };
    for (int of = INPUT; of < OTHER + s->check->count; of++) {
        const cti_checked *x = of < OUTPUT    ? s->c
                               : of == OUTPUT ? NULL
                                              : &s->check->checked[of - OTHER];
        if (x ? x->numel != s->n || (of >= OTHER && x == s->c) : s->check->m != s->n) continue;
        /* [0]: the range of the right columns, [1]: the range of the wrong ones */
        double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
        for (int64_t i = 0; i < s->n; i++) {
            double v = x ? cti_check_get(x->x, i) : s->check->y[i];
            if (of == SIZE) v = fabs(v);
            if (!wrong[i] && !right[i]) continue;
            low[wrong[i]] = fmin(low[wrong[i]], v), high[wrong[i]] = fmax(high[wrong[i]], v);
        }
        const bool above = low[1] > high[0], below = high[1] < low[0];
        if (!above && !below) continue;
        char name[32], there[48] = "";
        snprintf(name, sizeof name,
                 of == INPUT    ? "the input"
                 : of == SIZE   ? "the input's size"
                 : of == OUTPUT ? "the output"
                                : "input %d",
                 of >= OTHER ? s->check->checked[of - OTHER].input : 0);
        const double c = common_factor(s, wrong);
        if (c != 0)
            snprintf(there, sizeof there, ", and there %s times what it must be",
                     CTI_SUSPECT_TIMES(c));
        return cti_suspect_say(s, CT_MISTAKE_THRESHOLD,
                               "wrong exactly where %s is %s a threshold between %.4g and %.4g%s",
                               name, above ? "above" : "below", above ? high[0] : high[1],
                               above ? low[1] : low[0], there);
    }
    return false;
}

/* Are there two factors, one for the columns above a threshold of the input and one for those
 * below?
 */
bool cti_suspect_branches(cti_suspect *s) {
    const double part = s->check->coarse ? 0.02 : 1e-4;
    if (s->check->opts.fast || s->n < 4) return false;
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY}, c[2] = {0, 0};
    int64_t count[2] = {0, 0};
    for (int64_t i = 0; i < s->n; i++) {
        double top = 0, bottom = 0;
        for (int64_t r = 0; r < s->rows; r++)
            top += s->a[r * s->n + i] * s->j[r * s->n + i],
                bottom += s->j[r * s->n + i] * s->j[r * s->n + i];
        const double ratio = bottom > 0 ? top / bottom : 0, x = cti_check_get(s->c->x, i);
        if (bottom > 0) {
            const int k = count[0] && fabs(ratio - c[0]) > part * fabs(c[0]);
            if (k && count[1] && fabs(ratio - c[1]) > part * fabs(c[1])) return false;
            c[k] = ratio, count[k]++;
            low[k] = fmin(low[k], x), high[k] = fmax(high[k], x);
        }
        for (int64_t r = 0; r < s->rows; r++) s->p[r * s->n + i] = ratio * s->j[r * s->n + i];
    }
    const bool above = low[1] > high[0], below = high[1] < low[0];
    if (count[0] < 2 || count[1] < 2 || (!above && !below) || !cti_suspect_fits(s)) return false;
    const int upper = above ? 1 : 0;
    return cti_suspect_say(s, CT_MISTAKE_THRESHOLD,
                           "both branches are wrong: %.6g times what it must be where the input is "
                           "above a threshold between %.4g and %.4g, and %.6g times below it",
                           c[upper], high[!upper], low[upper], c[!upper]);
}

/* ---- each row by a factor of its own ---- */

/* P = J with a factor for each group of entries. A group has the entries of one index along dim d
 * of the input (or output); with `others`, the entries that differ only in their index along d.
 * Sets the range of the factors. If `factor` is not NULL it receives the factor of each group,
 * which is NaN if J has no entry there. */
static bool groups_fit(cti_suspect *s, bool rows, int d, bool others, double range[2],
                       double *factor) {
    const ct_shape shape = rows ? s->out : s->in;
    const int64_t count = rows ? s->rows : s->n, length = shape.dim[d];
    const int64_t groups = others ? count / length : length;
    double *top = cti_check_numbers(s->check, 3, groups);
    int64_t stride[CT_MAX_DIMS];
    if (!top || groups < 2 || groups == count) return false;
    double *bottom = top + groups, *entries = bottom + groups;
    memset(top, 0, (size_t)(3 * groups) * sizeof *top);
    cti_shape_strides(shape, stride);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r < s->rows; r++)
            for (int64_t i = 0; i < s->n; i++) {
                const int64_t at = rows ? r : i, e = r * s->n + i,
                              along = cti_suspect_along(shape, at, d),
                              rest = at / (stride[d] * length) * stride[d] + at % stride[d],
                              g = others ? rest : along;
                if (pass) s->p[e] = bottom[g] > 0 ? top[g] / bottom[g] * s->j[e] : 0;
                else {
                    top[g] += s->a[e] * s->j[e], bottom[g] += s->j[e] * s->j[e];
                    entries[g] += !cti_suspect_is_zero(s, s->j[e]);
                }
            }
    range[0] = INFINITY, range[1] = -INFINITY;
    int64_t telling = 0;
    for (int64_t g = 0; g < groups; g++) {
        if (factor) factor[g] = bottom[g] > 0 ? top[g] / bottom[g] : (double)NAN;
        if (bottom[g] == 0) continue;
        range[0] = fmin(range[0], top[g] / bottom[g]),
        range[1] = fmax(range[1], top[g] / bottom[g]);
        telling += entries[g] >= 2;
    }
    return telling >= 2 && cti_suspect_fits(s);
}

/* Says what the factors along dim d have in common: all but one index is left out, or the factor
 * grows with the index. False: nothing. */
static bool factors_say(cti_suspect *s, bool rows, int d, const double *factor, int64_t n) {
    const double part = s->check->coarse ? 0.02 : 1e-4;
    int64_t there = 0, gone = 0, last = -1, known = 0;
    double first = 0, step = 0;
    bool grows = true;
    for (int64_t g = 0; g < n; g++) {
        if (isnan(factor[g])) continue;
        if (fabs(factor[g] - 1) <= part) there++, last = g;
        gone += fabs(factor[g]) <= part;
        if (known == 0) first = factor[g];
        known++;
    }
    if (n > 2 && known == n) step = factor[1] - factor[0];
    for (int64_t g = 0; g < n && known == n; g++)
        grows = grows && fabs(factor[g] - first - step * (double)g) <= part * fabs(first + step);
    if (there == 1 && gone == known - 1 && gone > 0)
        return rows
                   ? cti_suspect_say(s, CT_MISTAKE_SUM,
                                     "the sum over the output's dim %d is missing: only index %lld "
                                     "contributes",
                                     d, (long long)last)
                   : cti_suspect_say(
                         s, CT_MISTAKE_EDGES,
                         "only index %lld along dim %d has its gradient, and all others "
                         "have none: a loop does one row, or one batch",
                         (long long)last, d);
    if (n < 3 || known != n || !grows || fabs(step) <= part) return false;
    return cti_suspect_say(
        s, CT_MISTAKE_ROWS,
        "a factor depends on the place: along dim %d of the %s it is %.4g + %.4g "
        "times the index",
        d, rows ? "output" : "input", first, step);
}

static bool factors_along(cti_suspect *s, bool named) {
    double range[2];
    if (s->check->opts.fast) return false;
    for (int rows = 0; rows < (s->check->whole ? 2 : 1); rows++) {
        const ct_shape shape = rows ? s->out : s->in;
        for (int d = 0; d < shape.ndim; d++)
            for (int others = 0; others < (shape.ndim > 2 && !named ? 2 : 1); others++) {
                if (shape.dim[d] < 2) continue;
                double *factor = cti_check_numbers(s->check, 1, rows ? s->rows : s->n);
                if (!factor || !groups_fit(s, rows, d, others, range, factor)) continue;
                if (named) {
                    if (factors_say(s, rows, d, factor, shape.dim[d])) return true;
                    continue;
                }
                return cti_suspect_say(
                    s, CT_MISTAKE_ROWS,
                    others ? "each row along dim %d of the %s is off by a factor of its own, from "
                             "%.4g to %.4g"
                           : "each index along dim %d of the %s is off by a factor of its own, "
                             "from %.4g to %.4g",
                    d, rows ? "output" : "input", range[0], range[1]);
            }
    }
    return false;
}

bool cti_suspect_rows(cti_suspect *s) { return factors_along(s, false); }
bool cti_suspect_place_factor(cti_suspect *s) { return factors_along(s, true); }

/* Is each column (or row) of A a multiple of the same one of J? Sets the range of the factors. */
static bool lines_are_scaled(cti_suspect *s, bool rows, double range[2]) {
    const int64_t lines = rows ? s->rows : s->n, length = rows ? s->n : s->rows;
    int64_t telling = 0;
    range[0] = INFINITY, range[1] = -INFINITY;
    for (int64_t line = 0; line < lines; line++) {
        double top = 0, bottom = 0;
        int64_t entries = 0;
        for (int64_t e = 0; e < length; e++) {
            const int64_t at = rows ? line * s->n + e : e * s->n + line;
            top += s->a[at] * s->j[at], bottom += s->j[at] * s->j[at];
            entries += !cti_suspect_is_zero(s, s->j[at]);
        }
        const double c = bottom > 0 ? top / bottom : 0;
        for (int64_t e = 0; e < length; e++) {
            const int64_t at = rows ? line * s->n + e : e * s->n + line;
            s->p[at] = c * s->j[at];
        }
        if (bottom > 0) range[0] = fmin(range[0], c), range[1] = fmax(range[1], c);
        telling += entries > 1;
    }
    return telling > 1 && cti_suspect_fits(s);
}

/* The factor of an activation in front of a product scales columns, behind the product rows. */
bool cti_suspect_scaled(cti_suspect *s) {
    double range[2];
    if (!s->check->whole) return false;
    for (int rows = 0; rows < 2; rows++)
        if (lines_are_scaled(s, rows, range))
            return cti_suspect_say(
                s, CT_MISTAKE_FORMULA,
                "a constant or a factor of a local derivative is wrong: %s is off by a factor of "
                "its own, from %.4g to %.4g",
                rows ? "the contribution of each output" : "each element", range[0], range[1]);
    return false;
}
