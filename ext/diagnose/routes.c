/* Hypotheses about contributions. Entry (r, i) of J is the contribution of element r of the output
 * to element i of the gradient. A mistake may keep entries that a mask should remove, leave entries
 * out, or add them to another column. */
#include "suspect.h"

#include <math.h>
#include <string.h>

/* A forgotten mask: A has entries in columns or rows of J that are all zero. Such a column belongs
 * to an input element that does not reach the output, such a row to an output element that depends
 * on no input. In the other entries P = c J. */
bool cti_suspect_mask(cti_suspect *s) {
    /* true: the row or column of J has an entry that is not 0 */
    bool *row = cti_check_flags(s->check, s->rows), *column = cti_check_flags(s->check, s->n);
    if (!row || !column) return false;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            if (!cti_suspect_is_zero(s, s->j[r * s->n + i])) row[r] = column[i] = true;
    double top = 0, bottom = 0, hidden = 0;
    int64_t extra = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool here = false;
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t e = r * s->n + i;
            if (row[r] && column[i]) top += s->a[e] * s->j[e], bottom += s->j[e] * s->j[e];
            else if (cti_suspect_wrong(s, r, i)) hidden += s->a[e] * s->a[e], here = true;
        }
        extra += here;
    }
    const double c = bottom > 0 ? top / bottom : 0;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            s->p[r * s->n + i] = row[r] && column[i] ? c * s->j[r * s->n + i] : s->a[r * s->n + i];
    if (hidden == 0 || !cti_suspect_fits(s)) return false;
    if (bottom > 0 && fabs(c) < 1e-9)
        return cti_suspect_say(s, CT_MISTAKE_MASK,
                               "the mask is inverted: elements that reach the output have no "
                               "gradient, and the others have one");
    if (!(bottom > 0))
        return cti_suspect_say(s, CT_MISTAKE_MASK,
                               "the output does not depend on it, and yet it has a gradient");
    const char *what = "a mask is forgotten: elements that do not reach the output have a gradient";
    if (fabs(c - 1) <= (s->check->coarse ? 0.02 : 1e-5))
        return cti_suspect_say(s, CT_MISTAKE_MASK, "%s, %lld of %lld elements", what,
                               (long long)extra, (long long)s->n);
    s->factor = c;
    return cti_suspect_say(
        s, CT_MISTAKE_MASK,
        "%s, %lld of %lld elements, and all others are %s times what they must be", what,
        (long long)extra, (long long)s->n, CTI_SUSPECT_TIMES(c));
}

/* ---- contributions left out ---- */

/* P = J in the rows whose index along every dim of the set is the first (or last), and 0 in the
 * other rows. False: a column loses all its entries by this. */
static bool route_keep_end(const cti_suspect *s, unsigned set, bool last) {
    for (int64_t r = 0; r < s->rows; r++) {
        bool kept = true;
        for (int d = 0; d < s->out.ndim; d++)
            kept = kept && (!(set >> d & 1) ||
                            cti_suspect_along(s->out, r, d) == (last ? s->out.dim[d] - 1 : 0));
        for (int64_t i = 0; i < s->n; i++) s->p[r * s->n + i] = kept ? s->j[r * s->n + i] : 0;
    }
    for (int64_t i = 0; i < s->n; i++) {
        bool had = false, has = false;
        for (int64_t r = 0; r < s->rows; r++) {
            had |= !cti_suspect_is_zero(s, s->j[r * s->n + i]);
            has |= !cti_suspect_is_zero(s, s->p[r * s->n + i]);
        }
        if (had && !has) return false;
    }
    return true;
}

/* P = the last entry of each column of J. */
static void route_keep_last(const cti_suspect *s) {
    memset(s->p, 0, (size_t)(s->rows * s->n) * sizeof *s->p);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t r = s->rows; r-- > 0;)
            if (!cti_suspect_is_zero(s, s->j[r * s->n + i])) {
                s->p[r * s->n + i] = s->j[r * s->n + i];
                break;
            }
}

bool cti_suspect_assigned(cti_suspect *s) {
    if (!s->check->whole) return false;
    route_keep_last(s);
    if (!cti_suspect_fits(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_ASSIGNED,
                           "assigned where it must be added: of several contributions to an "
                           "element (a repeated index, a broadcast row) "
                           "only the last is there");
}

/* ---- contributions added to another element ---- */

/* Does each element of the input reach the same number of output elements, more than one? */
static bool is_broadcast(const cti_suspect *s) {
    int64_t first = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t here = 0;
        for (int64_t r = 0; r < s->rows; r++) here += !cti_suspect_is_zero(s, s->j[r * s->n + i]);
        if (i && here != first) return false;
        first = here;
    }
    return first > 1;
}

/* Each row of J has one entry (a broadcast), and A has the same value in another column: the sum
 * that undoes the broadcast runs over the wrong dims. */
static bool sum_is_elsewhere(const cti_suspect *s) {
    if (s->n < 2 || s->n >= s->rows || !is_broadcast(s)) return false;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t a, j;
        if (!cti_suspect_one_entry(s, r, &a, &j)) return false;
        if ((a < 0) != (j < 0)) return false;
        if (a >= 0) s->p[r * s->n + a] = s->j[r * s->n + j];
    }
    return cti_suspect_fits(s);
}

/* P = the diagonal of J: an elementwise derivative in place of a Jacobian, such as y (1 - y) for
 * softmax. */
static bool only_the_diagonal(const cti_suspect *s) {
    if (!cti_shape_same(&s->in, &s->out)) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) s->p[e] = e / s->n == e % s->n ? s->j[e] : 0;
    return cti_suspect_fits(s);
}

bool cti_suspect_sum(cti_suspect *s) {
    if (!s->check->whole) return false;
    if (only_the_diagonal(s))
        return cti_suspect_say(s, CT_MISTAKE_SUM,
                               "only the diagonal of the Jacobian is there: of the outputs that "
                               "depend on an element, only the one at its own "
                               "place contributes");
    for (unsigned which = 2; which < 2u << s->out.ndim; which++) {
        const unsigned set = which / 2;
        const bool last = which % 2;
        if (!route_keep_end(s, set, last) || !cti_suspect_fits(s)) continue;
        char dims[64] = "";
        int count = 0;
        for (int d = 0, end = 0; d < s->out.ndim; d++)
            if (set >> d & 1)
                end += snprintf(dims + end, sizeof dims - (size_t)end, count++ ? ", %d" : "%d", d);
        return cti_suspect_say(
            s, CT_MISTAKE_SUM, "the sum over the output's dim%s %s is missing: only %s contributes",
            count > 1 ? "s" : "", dims,
            last ? "the last index (assigned where it must be added?)" : "index 0");
    }
    if (!sum_is_elsewhere(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_SUM,
                           "the sum runs over the wrong dims: every output contributes, but to an "
                           "element that it does not depend on");
}

/* P = J in the entries in which J is not 0, and P = A in the others: A also has contributions from
 * outputs that do not depend on the element. */
bool cti_suspect_spread(cti_suspect *s) {
    if (!s->check->whole) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++)
        s->p[e] = cti_suspect_is_zero(s, s->j[e]) ? s->a[e] : s->j[e];
    if (!cti_suspect_fits(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_SUM,
                           "a sum runs over too many dims: an element also gets contributions from "
                           "outputs that do not depend on it");
}

/* P = J in the entries in which A is not 0, and P = 0 in the others: some of the contributions to
 * an element are lost. */
bool cti_suspect_lost(cti_suspect *s) {
    if (!s->check->whole) return false;
    int64_t lost = 0, all = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        const bool there = !cti_suspect_is_zero(s, s->j[e]), gone = s->a[e] == 0;
        s->p[e] = gone ? 0 : s->j[e];
        all += there, lost += there && gone;
    }
    if (!lost || !cti_suspect_fits(s)) return false;
    return cti_suspect_say(s, CT_MISTAKE_SUM,
                           "contributions are lost: %lld of %lld entries of the Jacobian are zero "
                           "in backward, all others are right",
                           (long long)lost, (long long)all);
}

/* P = c J in the wrong entries, with the same c for all of them, and P = J in the others: one of
 * several terms of a sum is wrong. */
bool cti_suspect_part(cti_suspect *s) {
    double top = 0, bottom = 0, low = INFINITY, high = 0;
    int64_t off = 0, all = 0;
    if (!s->check->whole) return false;
    for (int64_t e = 0; e < s->rows * s->n; e++) {
        const bool wrong = cti_suspect_wrong(s, e / s->n, e % s->n);
        all += !cti_suspect_is_zero(s, s->j[e]);
        if (!wrong) continue;
        off++, top += s->a[e] * s->j[e], bottom += s->j[e] * s->j[e];
        low = fmin(low, fabs(s->j[e])), high = fmax(high, fabs(s->j[e]));
    }
    const double c = bottom > 0 ? top / bottom : 0;
    for (int64_t e = 0; e < s->rows * s->n; e++)
        s->p[e] = cti_suspect_wrong(s, e / s->n, e % s->n) ? c * s->j[e] : s->j[e];
    /* entries of J that all have one size would be fitted by accident */
    if (off < 3 || high < 1.01 * low || !cti_suspect_fits(s)) return false;
    s->factor = c;
    if (fabs(c + 1) <= 1e-4)
        return cti_suspect_say(s, CT_MISTAKE_SIGN,
                               "the sign of some contributions is flipped: of %lld of %lld entries "
                               "of the Jacobian",
                               (long long)off, (long long)all);
    return cti_suspect_say(s, CT_MISTAKE_FACTOR,
                           "some contributions are %s times what they must be: %lld of %lld "
                           "entries of the Jacobian, all others are right",
                           CTI_SUSPECT_TIMES(c), (long long)off, (long long)all);
}
