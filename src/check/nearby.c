/* Is an error a mistake, or rounding? The error of a mistake is nearly the same at a point very
 * close to x. An error that comes from rounding, in backward or in the differences, changes from
 * point to point. If numbers near 10^9 move by their last digits, the rounding of their mean
 * changes, and with it the error of the gradient of their variance. So a gradient is called wrong
 * only if its error is found again at points nearby.
 *
 * The points are x + d with random d. d is relative to |x| at every other point, and to max(1, |x|)
 * at the rest: a function that adds 1 to a small x may absorb a d that is relative to x. Both are
 * far below the steps of the differences, and far above the last digit of x, because rounding may
 * change slowly: near 1 the rounding of x^2 has a period of many last digits. An f32 number with
 * the same digits as x stays the same in nearly all elements, so an error by storing x in f32 is
 * found again. */
#include "steps.h"

#include <math.h>

/* Exchanges the elements of all checked inputs with x. */
static void exchange_inputs(cti_check *check, double *x) {
    for (int q = 0; q < check->count; q++)
        for (int64_t i = 0; i < check->checked[q].numel; i++, x++) {
            const double here = cti_check_get(check->checked[q].x, i);
            cti_check_set(check->checked[q].x, i, *x);
            *x = here;
        }
}

static double size_of_move(const cti_checked *c, double x, int point) {
    const bool of_one = point % 2;
    return of_one ? (c->dtype == CT_F32 ? 0x1p-21 : 0x1p-44) * fmax(1, fabs(x))
                  : (c->dtype == CT_F32 ? 0x1p-20 : 0x1p-30) * fabs(x);
}

/* The elements of all checked inputs at a point. NULL: out of memory. */
static double *new_point(cti_check *check, int point) {
    int64_t numel = 0;
    for (int q = 0; q < check->count; q++) numel += check->checked[q].numel;
    double *const values = cti_check_numbers(check, 1, numel), *next = values;
    if (!values) return NULL;
    cti_check_normal(check, CTI_STREAM_NEARBY + (uint64_t)point, numel, values);
    for (int q = 0; q < check->count; q++)
        for (int64_t i = 0; i < check->checked[q].numel; i++, next++) {
            const double x = cti_check_get(check->checked[q].x, i);
            *next = x + *next * size_of_move(&check->checked[q], x, point);
        }
    return values;
}

static void exchange_analytic(cti_check *check, int point) {
    for (int q = 0; q < check->count; q++) {
        double *const here = check->checked[q].analytic;
        check->checked[q].analytic = check->checked[q].nearby[point];
        check->checked[q].nearby[point] = here;
    }
}

bool cti_check_nearby(cti_check *check, int points) {
    for (int point = 0; point < points; point++) {
        if (check->nearby_y[point]) continue;
        check->nearby_x[point] = new_point(check, point);
        check->nearby_y[point] = cti_check_numbers(check, 1, check->m);
        bool ok = check->nearby_x[point] && check->nearby_y[point];
        for (int q = 0; ok && q < check->count; q++) {
            cti_checked *c = &check->checked[q];
            ok = (c->nearby[point] = cti_check_numbers(check, check->rows, c->n)) != NULL;
        }
        if (!ok) return false;
        exchange_inputs(check, check->nearby_x[point]);
        exchange_analytic(check, point);
        const cti_held_errors held = cti_check_hold_errors(check);
        const bool there = cti_check_value(check, check->nearby_y[point]) &&
                           cti_check_backwards(check, check->checked, check->count);
        const bool clean = cti_check_drop_errors(check, held);
        exchange_analytic(check, point);
        exchange_inputs(check, check->nearby_x[point]);
        check->refused[0] = 0;
        check->is_nearby[point] = there && clean;
        if (!cti_ready(check->context)) return false;
    }
    return true;
}

/* An entry is found again if its error changes by less than a quarter. */
typedef struct {
    double error, change; /* squares of the errors of entries that are not right, and of the changes
                             of these errors, in units of the tolerance: a large row does not hide
                             the others */
    int64_t clear, found; /* entries whose error is far above that of their difference; those of
                             them that are found again */
} found_errors;

static void errors_add(const cti_check *check, const cti_checked *c, const cti_checked *other,
                       int64_t i, found_errors *f) {
    for (int64_t r = 0; r < check->rows; r++) {
        const int64_t e = r * c->n + i;
        const double here = c->analytic[e] - c->numeric[e],
                     change = other->analytic[e] - other->numeric[e] - here,
                     unit = cti_check_allowed(check, r, c->numeric[e]);
        if (fabs(here) > 8 * fmax(c->noise[e], other->noise[e]))
            f->clear++, f->found += fabs(change) < fabs(here) / 4;
        if (cti_check_right(check, c, r, i)) continue;
        f->error += here / unit * (here / unit), f->change += change / unit * (change / unit);
    }
}

/* Measures the columns at a point nearby, and compares their errors. *there is false if this is not
 * possible at the point. */
static bool errors_find_again(cti_check *check, const cti_checked *c, cti_checked *other,
                              int64_t first, int64_t count, int point, cti_steps *s,
                              found_errors *f, bool *there) {
    double *const y = check->y;
    const cti_held_errors held = cti_check_hold_errors(check);
    *there = check->is_nearby[point];
    other->analytic = c->nearby[point];
    exchange_inputs(check, check->nearby_x[point]);
    check->y = check->nearby_y[point];
    for (int64_t i = first; i < first + count && *there; i++) {
        *there = cti_check_column(check, other, i) && cti_steps_measure(check, other, i, s);
        if (*there) errors_add(check, c, other, i, f);
    }
    check->y = y;
    exchange_inputs(check, check->nearby_x[point]);
    *there &= cti_check_drop_errors(check, held);
    return cti_ready(check->context);
}

bool cti_check_again(cti_check *check, const cti_checked *c, int64_t first, int64_t count,
                     bool rounded, cti_steps *s, bool *again) {
    const int points = rounded ? CTI_POINTS : CTI_FEW_POINTS;
    found_errors all[2] = {{0}}; /* of all points of a kind */
    cti_checked other = *c;
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    other.numeric = cti_check_numbers(check, check->rows, c->n);
    other.noise = cti_check_numbers(check, check->rows, c->n);
    bool ok = other.numeric && other.noise;
    *again = true;
    for (int point = 0; ok && *again && point < points; point++) {
        bool there;
        found_errors here = {0};
        ok = errors_find_again(check, c, &other, first, count, point, s, &here, &there);
        if (!ok || !there) continue;
        all[point % 2].clear += here.clear, all[point % 2].found += here.found;
        /* an error that is not finite is found again */
        if (!rounded) *again = !(16 * here.change > here.error);
    }
    if (rounded)
        *again = 10 * all[0].found > 9 * all[0].clear || 10 * all[1].found > 9 * all[1].clear;
    cti_frame_close(check->context, &frame);
    return ok;
}
