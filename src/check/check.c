/* Gradient checking by central differences: the phases of a check in the order of check.h.
 * evaluate.c computes both matrices, settle.c decides about each column, verdict.c compares, and
 * properties.c checks everything besides the gradient. */
#include "phases.h"

#include <math.h>
#include <string.h>

/* Chooses the cotangents and directions, and allocates the matrices. */
static bool check_prepare(cti_check *check) {
    /* each element of the output has its own row up to so many rows, and entries of all matrices */
    enum { MOST_ROWS = 1024, MOST = 1 << 18 };
    int64_t columns = 1;
    for (int q = 0; q < check->count; q++) columns += check->checked[q].n;
    check->whole = !check->opts.fast && check->m <= MOST_ROWS && check->m <= MOST / columns;
    check->summed = CTI_ROWS_SUMMED;
    check->rows = (check->whole ? check->m : 0) + check->summed;
    check->y = cti_check_numbers(check, 1, check->m);
    check->plus = cti_check_numbers(check, 1, check->m);
    check->minus = cti_check_numbers(check, 1, check->m);
    check->cotangent = cti_check_numbers(check, CTI_ROWS_SUMMED, check->m);
    if (!check->y || !check->plus || !check->minus || !check->cotangent) return false;
    for (int s = 0; s < 2; s++)
        cti_check_normal(check, (uint64_t)s, check->m, check->cotangent + s * check->m);
    for (int64_t j = 0; j < check->m; j++) {
        check->cotangent[CTI_ROW_ONES * check->m + j] = 1;
        check->cotangent[CTI_ROW_ZEROS * check->m + j] = 0;
        for (int s = 0; s < 2 && check->dtype == CT_F32; s++)
            check->cotangent[s * check->m + j] = (float)check->cotangent[s * check->m + j];
        const double random = check->cotangent[CTI_ROW_RANDOM * check->m + j];
        check->cotangent[CTI_ROW_LARGE * check->m + j] = CTI_LARGE * random;
        check->cotangent[CTI_ROW_SMALL * check->m + j] = -random / CTI_LARGE;
    }
    for (int s = 0; s < CTI_ROWS_SUMMED; s++) {
        double sum = 0;
        for (int64_t j = 0; j < check->m; j++)
            sum += check->cotangent[s * check->m + j] * check->cotangent[s * check->m + j];
        check->length[s] = fmax(1, sqrt(sum));
    }
    for (int q = 0; q < check->count; q++) {
        cti_checked *c = &check->checked[q];
        c->analytic = cti_check_numbers(check, check->rows, c->n);
        c->numeric = cti_check_numbers(check, check->rows, c->n);
        c->noise = cti_check_numbers(check, check->rows, c->n);
        ct_tensor *state = cti_tensor_new(check->context, CT_I64, CT_SHAPE(c->n));
        if (!c->analytic || !c->numeric || !c->noise || !state) return false;
        c->state = (cti_state *)(void *)state->data;
        if (!check->opts.fast) continue;
        c->direction = cti_check_directions(check, c, c->n, 2 + (uint64_t)q);
        if (!c->direction) return false;
    }
    return true;
}

/* Sets the diagnosis of each input with columns that are not right. */
static bool inputs_explain(cti_check *check) {
    for (int q = 0; q < check->count; q++) { /* wrong inputs before those that are undecided */
        cti_checked *c = &check->checked[q];
        if (!c->wrong) continue;
        if (!check->client)
            cti_check_say(check, c, CT_MISTAKE_UNKNOWN, 0,
                          "backward disagrees with differences of the forward");
        else if (!check->client->explain(check, c)) return false;
    }
    for (int q = 0; q < check->count; q++)
        if (!check->checked[q].wrong && check->checked[q].undecided)
            cti_check_say_undecided(check, &check->checked[q]);
    return true;
}

static bool check_run_phases(cti_check *check) {
    ct_gradcheck_opts *o = &check->opts;
    if (!cti_check_copy_inputs(check) || !cti_check_fingerprints(check) ||
        !cti_check_first_call(check))
        return false;
    o->atol = cti_option(o->atol, check->coarse ? 1e-3 : 1e-8);
    o->rtol = cti_option(o->rtol, check->coarse ? 1e-2 : 1e-6);
    if (!cti_check_choose_eps(check) || !check_prepare(check) ||
        !cti_check_value(check, check->y) ||
        !cti_check_backwards(check, check->checked, check->count))
        return false;
    for (int64_t j = 0; j < check->m; j++)
        if (isfinite(check->y[j])) check->rounding = fmax(check->rounding, fabs(check->y[j]));
    check->rounding *= check->coarse ? 0x1p-24 : 0x1p-53;
    for (int q = 0; q < check->count; q++) {
        cti_checked *c = &check->checked[q];
        if (!cti_check_differences(check, c) || !cti_check_settle(check, c) ||
            !cti_check_rounded(check, c))
            return false;
    }
    cti_check_compare(check);
    return cti_check_properties(check) && inputs_explain(check);
}

static bool cannot_tell(const cti_check *check) {
    bool wrong = false;
    for (int q = 0; q < check->count; q++) wrong |= check->checked[q].wrong > 0;
    const ct_mistake mistake = check->result.mistake;
    return !wrong && (mistake == CT_MISTAKE_KINK || mistake == CT_MISTAKE_PRECISION ||
                      mistake == CT_MISTAKE_NOT_FINITE);
}

/* Sets the diagnosis after a backward that failed. */
static void refused_say(cti_check *check) {
    const char *why = check->used_ended ? "backward uses a tensor that has ended, kept outside of "
                                          "the call, as in a static variable: keep it in "
                                          "call->saved; "
                      : check->failed_again
                          ? "the first backward of a graph succeeds and another fails, "
                            "as if it took values that are kept outside of the call: "
                          : "";
    char text[sizeof check->refused + 160];
    snprintf(text, sizeof text, "%s%s", why, check->refused);
    cti_check_found(check, *why ? CT_MISTAKE_STATE : CT_MISTAKE_REFUSED, text);
}

ct_gradcheck_result cti_check_run(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                  ct_gradcheck_opts opts, const cti_check_client *client) {
    cti_check check = {.name = "gradcheck",
                       .fn = fn,
                       .arg = arg,
                       .given = in,
                       .n = n,
                       .opts = opts,
                       .client = client,
                       .result = {.ok = true, .index = -1, .input = -1}};
    cti_frame frame;
    if (!cti_check_open(&check, &frame)) {
        check.result.ok = false;
        check.result.verdict = CT_VERDICT_CANNOT_TELL;
        return check.result;
    }
    const size_t print_bytes = cti_bytes(n, sizeof *check.prints);
    check.prints = cti_take(check.context, print_bytes);
    check.result.ran = check.prints && check_run_phases(&check);
    if (*check.refused) {
        check.result.ran = true;
        refused_say(&check);
    }
    if (!check.result.ran) check.result.ok = false;
    if (!check.result.ok)
        check.result.verdict =
            !check.result.ran || cannot_tell(&check) ? CT_VERDICT_CANNOT_TELL : CT_VERDICT_WRONG;
    if (client) client->report(&check);
    cti_give(check.context, check.prints, print_bytes);
    cti_check_close(&check);
    return check.result;
}
