/* A backward that depends on which inputs want their gradient. An op with frozen weights or with an
 * adapter wants the gradient of one input and not of another. Then a backward may leave out work
 * that only the other gradient needs, and often leaves out too much: a value that both gradients
 * need is computed in the branch of one of them. So the function is called again with only some of
 * its inputs wanting a gradient. The wanted gradients must have the same bits as with all wanted.
 * The value may differ by rounding, because a forward that keeps nothing for backward may take
 * another way.
 *
 * Before each of these calls the function and its backward run at other inputs, and new memory
 * holds NaN, so that no value of a call before is left where a branch that does not run would have
 * put it. */
#include "phases.h"

#include <math.h>
#include <string.h>

/* The inputs that want a gradient: one bit each, of checked[]. */
typedef uint64_t wanted_set;
enum { MOST_INPUTS = 64, ALL_SETS = 4 }; /* up to ALL_SETS inputs have all their sets tried */

typedef struct {
    double *y;     /* [m] */
    double **grad; /* [count][numel] */
} wanted_results;

static bool new_results(cti_check *check, double **grad, wanted_results *w) {
    *w = (wanted_results){.y = cti_check_numbers(check, 1, check->m), .grad = grad};
    bool ok = w->y != NULL;
    for (int q = 0; ok && q < check->count; q++)
        ok = (grad[q] = cti_check_numbers(check, 1, check->checked[q].numel)) != NULL;
    return ok;
}

static bool is_wanted(wanted_set set, int q) { return set >> q & 1; }

/* Calls the function with copies that want no gradient in place of the inputs outside of the set,
 * and runs backward for the first random cotangent. *refused is set if the backward fails, and its
 * message is in check->refused. False: the function itself fails. */
static bool wanted_run(cti_check *check, wanted_set set, wanted_results *w, bool *refused) {
    for (int q = 0; q < check->count; q++) {
        const cti_checked *c = &check->checked[q];
        if (is_wanted(set, q)) continue;
        ct_tensor *frozen = cti_tensor_new(check->context, c->dtype, c->shape);
        if (!frozen) return false;
        cti_tensor_copy(frozen, c->x, false);
        check->in[c->input] = frozen;
    }
    ct_tensor *y = cti_check_call(check);
    if (!y || !cti_check_is_alike(check, y) || !ct_to_f64(y, w->y, check->m)) return false;
    ct_tensor *cotangent = set ? cti_tensor_new(check->context, y->dtype, y->shape) : NULL;
    for (int64_t j = 0; cotangent && j < check->m; j++)
        cti_check_set(cotangent, j, check->cotangent[CTI_ROW_RANDOM * check->m + j]);
    if (cotangent)
        *refused = !cti_check_backward_once(check, y, cotangent, false) || *check->refused;
    for (int q = 0; q < check->count && !*refused; q++) {
        ct_tensor *grad = is_wanted(set, q) ? ct_grad(check->checked[q].x) : NULL;
        for (int64_t i = 0; i < check->checked[q].numel; i++)
            w->grad[q][i] = grad ? cti_check_get(grad, i) : 0;
    }
    return !set || cotangent;
}

/* Does wanted_run as a trial. check->refused keeps the message of a failed backward. */
static bool wanted_set_try(cti_check *check, wanted_set set, wanted_results *w, bool *refused) {
    cti_frame frame;
    const cti_held_errors held = cti_check_hold_errors(check);
    *refused = false;
    cti_frame_open(check->context, &frame, false);
    const bool ran = wanted_run(check, set, w, refused);
    for (int q = 0; q < check->count; q++) {
        check->in[check->checked[q].input] = check->checked[q].x;
        ct_zero_grad(check->checked[q].x);
    }
    cti_frame_close(check->context, &frame);
    cti_check_drop_errors(check, held);
    return ran && cti_ready(check->context);
}

static bool same_numbers_in(const double *a, const double *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Writes the numbers of the inputs inside (or outside) of the set, as "0", "0 and 2". */
static void name_inputs(const cti_check *check, wanted_set set, bool inside, char *text,
                        size_t size) {
    int count = 0, named = 0;
    size_t end = 0;
    for (int q = 0; q < check->count; q++) count += is_wanted(set, q) == inside;
    *text = 0;
    for (int q = 0; q < check->count && end + 16 < size; q++) {
        if (is_wanted(set, q) != inside) continue;
        end += (size_t)snprintf(text + end, size - end, "%s%d",
                                named == 0           ? ""
                                : named + 1 == count ? " and "
                                                     : ", ",
                                check->checked[q].input);
        named++;
    }
}

static void wanted_say(cti_check *check, wanted_set set, const char *what) {
    char text[512], wanted[64], frozen[64];
    name_inputs(check, set, true, wanted, sizeof wanted);
    name_inputs(check, set, false, frozen, sizeof frozen);
    if (set)
        snprintf(text, sizeof text, "with a gradient wanted for input %s and not for input %s, %s",
                 wanted, frozen, what);
    else snprintf(text, sizeof text, "with no gradient wanted, %s", what);
    cti_check_found(check, CT_MISTAKE_WANTS, text);
}

/* Compares the results with those of all gradients wanted. */
static void wanted_compare(cti_check *check, wanted_set set, const wanted_results *all,
                           const wanted_results *now, bool refused) {
    char text[sizeof check->refused + 64];
    if (refused) {
        snprintf(text, sizeof text, "backward fails: %s", check->refused);
        wanted_say(check, set, text);
        return;
    }
    if (!cti_check_near(all->y, now->y, check->m, check->coarse ? 1e-4 : 1e-9)) {
        wanted_say(check, set, "the value differs from that with all gradients wanted");
        return;
    }
    for (int q = 0; q < check->count; q++) {
        if (!is_wanted(set, q) ||
            same_numbers_in(all->grad[q], now->grad[q], check->checked[q].numel))
            continue;
        snprintf(text, sizeof text,
                 "the gradient of input %d differs from that with all gradients wanted: backward "
                 "leaves out work that it needs",
                 check->checked[q].input);
        wanted_say(check, set, text);
        return;
    }
}

static bool wanted_sets_try(cti_check *check, const wanted_results *all, wanted_results *now) {
    const int n = check->count;
    const wanted_set every = n == MOST_INPUTS ? ~(wanted_set)0 : ((wanted_set)1 << n) - 1;
    const int64_t sets = n <= ALL_SETS ? (int64_t)every : 2 * n + 1;
    for (int64_t k = 0; k < sets && check->result.mistake == CT_MISTAKE_NONE; k++) {
        /* with few inputs all sets but `every`; with more no input, each alone, and all but one */
        const wanted_set one = k > 0 && n > ALL_SETS ? (wanted_set)1 << (k - 1) % n : 0,
                         set = n <= ALL_SETS ? (wanted_set)k
                               : k > n       ? every & ~one
                                             : one;
        bool refused;
        if (!cti_check_elsewhere(check)) return false;
        const bool ran = wanted_set_try(check, set, now, &refused);
        if (ran) wanted_compare(check, set, all, now, refused);
        check->refused[0] = 0;
        if (!cti_ready(check->context)) return false;
    }
    return true;
}

bool cti_check_wants(cti_check *check) {
    if (check->count == 0 || check->count > MOST_INPUTS) return true;
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    double *of_all[MOST_INPUTS], *of_now[MOST_INPUTS];
    wanted_results all, now;
    bool refused, ok = new_results(check, of_all, &all) && new_results(check, of_now, &now);
    cti_pool *pool = &check->context->pool, before = *pool;
    pool->poison = true;
    pool->plain = false;
    const wanted_set every =
        check->count == MOST_INPUTS ? ~(wanted_set)0 : ((wanted_set)1 << check->count) - 1;
    if (ok && wanted_set_try(check, every, &all, &refused) && !refused)
        ok = wanted_sets_try(check, &all, &now);
    check->refused[0] = 0;
    pool->poison = before.poison;
    pool->plain = before.plain;
    cti_frame_close(check->context, &frame);
    return ok && cti_ready(check->context);
}
