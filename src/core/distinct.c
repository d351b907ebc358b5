/* Two indices have the same offset if their difference d, which is not 0, solves
 *
 *     sum of d[i] step[i] = 0,     |d[i]| <= most[i]
 *
 * Here step is the absolute value of a stride (a negative stride only changes the sign of d[i]),
 * and most is the size minus 1.
 *
 * First every axis is dropped whose d[i] is 0 in each solution: its step is larger than the sum
 * that the other axes can reach, or every multiple of its step that the other axes can cancel needs
 * a larger d[i] than most[i]. A usual layout has no axis left then. Otherwise the remaining axes
 * are searched for a solution. The values of d[i] for the axes with large steps are tried one by
 * one, if the axes with smaller steps can reach the sum and their greatest common divisor divides
 * it. The equation for the last two axes is solved directly. */
#include "distinct.h"
#include "int_math.h"

#include <stdint.h>

#define MOST_REACH ((int64_t)1 << 61)

typedef struct {
    int64_t step, most;
    /* the largest sum, and the greatest common divisor of the steps, of this and all later axes */
    int64_t reach, divisor;
} axis;

typedef struct {
    axis axis[CT_MAX_DIMS]; /* the axes, sorted from the largest step to the smallest */
    int n;
    int64_t inverse; /* the inverse of step n - 2 modulo step n - 1, both divided by their gcd */
} distinct_layout;

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* NOLINTBEGIN(clang-analyzer-core.DivideZero): steps and their divisors are at least 1. */
static int64_t mod(int64_t a, int64_t m) { return a % m < 0 ? a % m + m : a % m; }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); } /* b > 0 */

/* a b modulo m, for 0 <= a, b < m < 2^62. */
static int64_t mod_product(int64_t a, int64_t b, int64_t m) {
    if (m <= INT32_MAX) return a * b % m;
    int64_t product = 0;
    for (; b; b >>= 1) {
        if (b & 1) product = (product + a) % m;
        a = (a + a) % m;
    }
    return product;
}

/* The x with a x = 1 modulo m, by Euclid's algorithm; gcd(a, m) is 1. */
static int64_t mod_inverse(int64_t a, int64_t m) {
    int64_t x = 1, next = 0, left = a, right = m;
    while (right) {
        const int64_t quotient = left / right, rest = left % right, older = x - quotient * next;
        left = right;
        right = rest;
        x = next;
        next = older;
    }
    CTI_ASSERT(left == 1);
    return mod(x, m);
}

/* ---- the axes ---- */

/* Adds an axis at its place in the order of steps. */
static void insert(distinct_layout *l, int64_t step, int64_t most) {
    CTI_ASSERT(l->n < CT_MAX_DIMS && step > 0 && most > 0);
    int at = l->n++;
    for (; at > 0 && l->axis[at - 1].step < step; at--) l->axis[at] = l->axis[at - 1];
    l->axis[at] = (axis){.step = step, .most = most};
}

/* Reads the axes of size 2 or more. Returns false if a step is 0 or the offsets are too large. */
static bool read_axes(distinct_layout *l, const ct_shape *shape, const int64_t *stride) {
    int64_t reach = 0;
    l->n = 0;
    for (int d = 0; d < shape->ndim; d++) {
        const int64_t most = shape->dim[d] - 1, step = stride[d] < 0 ? -stride[d] : stride[d];
        if (most == 0) continue;
        if (step == 0 || most > (MOST_REACH - reach) / step) return false;
        reach += most * step;
        insert(l, step, most);
    }
    return true;
}

/* Whether d[i] is 0 in every solution. */
static bool is_fixed(const distinct_layout *l, int i) {
    const int64_t step = l->axis[i].step;
    int64_t reach = 0, divisor = 0;
    for (int k = 0; k < l->n; k++)
        if (k != i) {
            reach += l->axis[k].most * l->axis[k].step;
            divisor = gcd(divisor, l->axis[k].step);
        }
    return step > reach || divisor / gcd(divisor, step) > l->axis[i].most;
}

static void drop_fixed(distinct_layout *l) {
    for (int i = 0; i < l->n;) {
        if (!is_fixed(l, i)) {
            i++;
            continue;
        }
        l->n--;
        for (int k = i; k < l->n; k++) l->axis[k] = l->axis[k + 1];
        i = 0; /* without this axis others may be fixed */
    }
}

/* Whether the layout has more indices than offsets, so that two indices have the same offset. */
static bool is_crowded(const distinct_layout *l) {
    int64_t indices = 1;
    for (int i = 0; i < l->n; i++) {
        if (l->axis[i].most >= (l->axis[0].reach + 1) / indices) return true;
        indices *= l->axis[i].most + 1;
    }
    return false;
}

static void prepare_axes(distinct_layout *l) {
    int64_t reach = 0, divisor = 0;
    for (int i = l->n - 1; i >= 0; i--) {
        axis *a = &l->axis[i];
        a->reach = reach += a->most * a->step;
        a->divisor = divisor = gcd(divisor, a->step);
    }
    const axis *p = &l->axis[l->n - 2], *q = p + 1;
    l->inverse = mod_inverse(p->step / p->divisor, q->step / p->divisor);
}

/* ---- the search ---- */

/* Whether sum + x p + y q = 0 has a solution x, y for the last two axes. p->divisor divides sum. If
 * `zero` is set, all earlier differences are 0, and x and y must not both be 0. */
static bool solve_last(const distinct_layout *l, int64_t sum, bool zero) {
    const axis *p = &l->axis[l->n - 2], *q = p + 1;
    CTI_ASSERT(p->step >= q->step && sum % p->divisor == 0);
    const int64_t a = p->step / p->divisor, b = q->step / p->divisor, c = -sum / p->divisor;
    if (zero) return b <= p->most && a <= q->most;
    const int64_t low = cti_max(-p->most, -floor_div(b * q->most - c, a)),
                  high = cti_min(p->most, floor_div(b * q->most + c, a)),
                  x = mod_product(mod(c, b), l->inverse, b); /* one solution; others differ by b */
    return low <= high && mod(x - low, b) <= high - low;
}

/* Whether differences of the axes from i on can bring the sum to 0. */
static bool solve(const distinct_layout *l, int i, int64_t sum, bool zero) {
    const axis *a = &l->axis[i];
    if (sum > a->reach || sum < -a->reach || sum % a->divisor) return false;
    if (i == l->n - 2) return solve_last(l, sum, zero);
    const int64_t rest = a[1].reach, /* the first difference that is not 0 is positive */
        low = zero ? 0 : cti_max(-a->most, -floor_div(rest + sum, a->step)),
                  high = cti_min(a->most, floor_div(rest - sum, a->step));
    for (int64_t d = low; d <= high; d++)
        if (solve(l, i + 1, sum + d * a->step, zero && d == 0)) return true;
    return false;
}

bool cti_offsets_are_distinct(const ct_shape *shape, const int64_t *stride) {
    distinct_layout l;
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dim[d] == 0) return true;
    if (!read_axes(&l, shape, stride)) return false;
    drop_fixed(&l);
    if (l.n < 2) return true; /* a single axis is always fixed, so n is 0 */
    prepare_axes(&l);
    return !is_crowded(&l) && !solve(&l, 0, 0, true);
}
/* NOLINTEND(clang-analyzer-core.DivideZero) */
