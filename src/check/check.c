/* Gradient checking by central differences: the phases of a check in the order of check.h.
 * evaluate.c computes both matrices, settle.c decides about each column, verdict.c compares, and
 * properties.c checks everything besides the gradient. */
#include "phases.h"

#include <math.h>
#include <string.h>

/* Chooses the cotangents and directions, and allocates the matrices. */
static bool prepare_check(cti_check *k) {
    /* limits for a row for each element of the output: rows, and entries of all matrices */
    enum { MOST_ROWS = 1024, MOST = 1 << 18 };
    int64_t columns = 1;
    for (int q = 0; q < k->count; q++) columns += k->checked[q].n;
    k->whole = !k->opts.fast && k->m <= MOST_ROWS && k->m <= MOST / columns;
    k->summed = CTI_ROWS_SUMMED;
    k->rows = (k->whole ? k->m : 0) + k->summed;
    k->y = cti_check_numbers(k, 1, k->m);
    k->plus = cti_check_numbers(k, 1, k->m);
    k->minus = cti_check_numbers(k, 1, k->m);
    k->cotangent = cti_check_numbers(k, CTI_ROWS_SUMMED, k->m);
    if (!k->y || !k->plus || !k->minus || !k->cotangent) return false;
    for (int s = 0; s < 2; s++) cti_check_normal(k, (uint64_t)s, k->m, k->cotangent + s * k->m);
    for (int64_t j = 0; j < k->m; j++) {
        k->cotangent[CTI_ROW_ONES * k->m + j] = 1;
        k->cotangent[CTI_ROW_ZEROS * k->m + j] = 0;
        for (int s = 0; s < 2 && k->dtype == CT_F32; s++)
            k->cotangent[s * k->m + j] = (float)k->cotangent[s * k->m + j];
        const double random = k->cotangent[CTI_ROW_RANDOM * k->m + j];
        k->cotangent[CTI_ROW_LARGE * k->m + j] = CTI_LARGE * random;
        k->cotangent[CTI_ROW_SMALL * k->m + j] = -random / CTI_LARGE;
    }
    for (int s = 0; s < CTI_ROWS_SUMMED; s++) {
        double sum = 0;
        for (int64_t j = 0; j < k->m; j++)
            sum += k->cotangent[s * k->m + j] * k->cotangent[s * k->m + j];
        k->length[s] = fmax(1, sqrt(sum));
    }
    for (int q = 0; q < k->count; q++) {
        cti_checked *c = &k->checked[q];
        c->analytic = cti_check_numbers(k, k->rows, c->n);
        c->numeric = cti_check_numbers(k, k->rows, c->n);
        c->noise = cti_check_numbers(k, k->rows, c->n);
        ct_tensor *state = cti_tensor_new(k->context, CT_I64, CT_SHAPE(c->n));
        if (!c->analytic || !c->numeric || !c->noise || !state) return false;
        c->state = (cti_state *)(void *)state->data;
        if (!k->opts.fast) continue;
        c->direction = cti_check_directions(k, c, c->n, 2 + (uint64_t)q);
        if (!c->direction) return false;
    }
    return true;
}

/* Sets the diagnosis of each input with columns that are not right. */
static bool explain_inputs(cti_check *k) {
    for (int q = 0; q < k->count; q++) { /* wrong inputs before those that are undecided */
        cti_checked *c = &k->checked[q];
        if (!c->wrong) continue;
        if (!k->client)
            cti_check_say(k, c, CT_MISTAKE_UNKNOWN, 0,
                          "backward disagrees with differences of the forward");
        else if (!k->client->explain(k, c)) return false;
    }
    for (int q = 0; q < k->count; q++)
        if (!k->checked[q].wrong && k->checked[q].undecided)
            cti_check_say_undecided(k, &k->checked[q]);
    return true;
}

static bool run_check(cti_check *k) {
    ct_gradcheck_opts *o = &k->opts;
    if (!cti_check_copy_inputs(k) || !cti_check_fingerprints(k) || !cti_check_first_call(k))
        return false;
    o->atol = cti_option(o->atol, k->coarse ? 1e-3 : 1e-8);
    o->rtol = cti_option(o->rtol, k->coarse ? 1e-2 : 1e-6);
    if (!cti_check_choose_eps(k) || !prepare_check(k) || !cti_check_value(k, k->y) ||
        !cti_check_backwards(k, k->checked, k->count))
        return false;
    for (int64_t j = 0; j < k->m; j++)
        if (isfinite(k->y[j])) k->rounding = fmax(k->rounding, fabs(k->y[j]));
    k->rounding *= k->coarse ? 0x1p-24 : 0x1p-53;
    for (int q = 0; q < k->count; q++) {
        cti_checked *c = &k->checked[q];
        if (!cti_check_differences(k, c) || !cti_check_settle(k, c) || !cti_check_rounded(k, c))
            return false;
    }
    cti_check_compare(k);
    return cti_check_properties(k) && explain_inputs(k);
}

static bool cannot_tell(const cti_check *k) {
    bool wrong = false;
    for (int q = 0; q < k->count; q++) wrong |= k->checked[q].wrong > 0;
    const ct_mistake mistake = k->result.mistake;
    return !wrong && (mistake == CT_MISTAKE_KINK || mistake == CT_MISTAKE_PRECISION ||
                      mistake == CT_MISTAKE_NOT_FINITE);
}

/* Sets the diagnosis after a backward that failed. */
static void say_refused(cti_check *k) {
    const char *why = k->used_ended ? "backward uses a tensor that has ended, kept outside of "
                                      "the call, as in a static variable: keep it in "
                                      "call->saved; "
                      : k->failed_again
                          ? "the first backward of a graph succeeds and another fails, "
                            "as if it took values that are kept outside of the call: "
                          : "";
    char text[sizeof k->refused + 160];
    snprintf(text, sizeof text, "%s%s", why, k->refused);
    cti_check_found(k, *why ? CT_MISTAKE_STATE : CT_MISTAKE_REFUSED, text);
}

ct_gradcheck_result cti_check_run(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                  ct_gradcheck_opts opts, const cti_check_client *client) {
    cti_check k = {.name = "gradcheck",
                   .fn = fn,
                   .arg = arg,
                   .given = in,
                   .n = n,
                   .opts = opts,
                   .client = client,
                   .result = {.ok = true, .index = -1, .input = -1}};
    cti_frame frame;
    if (!cti_check_open(&k, &frame)) {
        k.result.ok = false;
        k.result.verdict = CT_VERDICT_CANNOT_TELL;
        return k.result;
    }
    const size_t print_bytes = cti_bytes(n, sizeof *k.prints);
    k.prints = cti_take(k.context, print_bytes);
    k.result.ran = k.prints && run_check(&k);
    if (*k.refused) {
        k.result.ran = true;
        say_refused(&k);
    }
    if (!k.result.ran) k.result.ok = false;
    if (!k.result.ok)
        k.result.verdict =
            !k.result.ran || cannot_tell(&k) ? CT_VERDICT_CANNOT_TELL : CT_VERDICT_WRONG;
    if (client) client->report(&k);
    cti_give(k.context, k.prints, print_bytes);
    cti_check_close(&k);
    return k.result;
}
