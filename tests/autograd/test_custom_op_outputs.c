/* Ops with several outputs: any subset of them may be used, and backward gets NULL for the
 * others. */
#include "custom_op.h"

/* (a b, a + b, a > b as i64, a b again): outputs with different gradients, one without any, and one
 * equal to another. */
static ct_tensor *several_forward(ct_call *c) {
    ck_assert_int_eq(c->n_outs, 4);
    c->outs[1] = ct_add(c->in[0], c->in[1]);
    c->outs[2] = ct_cast(ct_gt(c->in[0], c->in[1]), CT_I64);
    c->outs[3] = ct_mul(c->in[0], c->in[1]);
    if (*(const int *)c->attrs == 1) c->outs[1] = NULL;
    if (*(const int *)c->attrs == 2) c->outs[3] = ct_ones(other, CT_F64, CT_SHAPE(2));
    if (*(const int *)c->attrs == 3) c->outs[1] = c->in[1];
    return *(const int *)c->attrs == 4 ? c->outs[3] : ct_mul(c->in[0], c->in[1]);
}

static int several_seen; /* bit k: backward got a cotangent for output k */

static bool several_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    several_seen = 0;
    for (int k = 0; k < c->n_outs; k++) several_seen |= (g[k] != NULL) << k;
    ck_assert(c->out == c->outs[0] && ct_numel(c->outs[1]) == ct_numel(c->outs[0]) &&
              ct_dtype_of(c->outs[2]) == CT_I64);
    for (int i = 0; i < 2; i++) {
        if (!c->wants[i]) continue;
        ct_tensor *sum = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[i]));
        if (g[0]) sum = ct_add(sum, ct_mul(g[0], c->in[1 - i]));
        if (g[1] && (*(const int *)c->attrs != 3 || i == 1)) sum = ct_add(sum, g[1]);
        if (g[3]) sum = ct_add(sum, ct_mul(g[3], c->in[1 - i]));
        grad[i] = sum;
    }
    return true;
}

static const ct_op several = {.name = "several",
                              .attrs_size = sizeof(int),
                              .forward = several_forward,
                              .backward = several_backward,
                              .outputs = 4};

/* a function of all outputs */
static ct_tensor *weighed(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *outs[4];
    if (!ct_apply_many(&several, in, n, arg, outs)) return NULL;
    return ct_add(ct_mul(outs[0], outs[1]), ct_exp(ct_mul(outs[3], ct_cast(outs[2], CT_F64))));
}

START_TEST(several_outputs) {
    open_contexts(_i);
    const int plain = 0;
    ct_tensor *outs[4], *in[2] = {ct_from_f64(context, CT_SHAPE(2), (double[]){1, -2}),
                                  ct_from_f64(context, CT_SHAPE(2), (double[]){3, -5})};
    /* nothing is recorded */
    ck_assert(ct_apply_many(&several, in, 2, &plain, outs) && !ct_requires_grad(outs[0]));
    for (int i = 0; i < 2; i++) ct_set_requires_grad(in[i], true);
    const int64_t live = ct_memory(context).live;
    double g[2];
    for (int subset = 1; subset < 16; subset++) { /* the outputs that are used */
        if (subset & 4) continue;
        /* the correct variants: 0, 3, 4 */
        for (int kind = 0; kind < 5; kind += kind == 0 ? 3 : 1) {
            ct_scope scope = ct_scope_open(context);
            ck_assert_msg(ct_apply_many(&several, in, 2, &kind, outs), "%s",
                          ct_error_message(context));
            ck_assert(ct_requires_grad(outs[0]) && ct_requires_grad(outs[1]) &&
                      !ct_requires_grad(outs[2]) && ct_requires_grad(outs[3]));
            ck_assert(outs[0] != outs[3] && outs[1] != in[1]);
            ck_assert(ct_data_i64(outs[2])[0] == 0 && ct_data_i64(outs[2])[1] == 1);
            ct_retain_grad(outs[1]);
            ct_tensor *used[4], *weight[4];
            int count = 0;
            double want[2] = {0, 0};
            const double b[2] = {3, -5};
            for (int k = 0; k < 4; k++) {
                if (!(subset >> k & 1)) continue;
                used[count] = outs[k];
                weight[count++] = ct_from_f64(context, CT_SHAPE(2), (double[]){k + 2, k - 7});
                for (int e = 0; e < 2; e++) {
                    const double w = e ? k - 7 : k + 2;
                    want[e] += k == 1 ? kind == 3 ? 0 : w : w * b[e];
                }
            }
            ck_assert_msg(ct_backward_with(used, weight, count, (ct_backward_opts){0}), "%s",
                          ct_error_message(context));
            ck_assert_int_eq(several_seen, subset);
            ck_assert(ct_to_f64(ct_grad(in[0]), g, 2));
            ck_assert_msg(g[0] == want[0] && g[1] == want[1],
                          "subset %d, kind %d: %g %g, not %g %g", subset, kind, g[0], g[1], want[0],
                          want[1]);
            ck_assert(!ct_grad(outs[1]) == !(subset & 2));
            ck_assert(!(subset & 2) || ct_data_f64(ct_grad(outs[1]))[1] == -6);
            ct_zero_grad(in[0]), ct_zero_grad(in[1]);
            ct_scope_close(scope);
        }
    }
    ck_assert_int_eq(ct_memory(context).live, live);
    ct_gradcheck_result r = ct_gradcheck(weighed, (void *)&plain, in, 2, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok, "%s", r.diagnosis);
    ct_tensor *first = ct_apply(&several, in, 2, &plain); /* the others end */
    ck_assert(first && ct_backward(ct_sum(first, CT_ALL, false)) &&
              ct_data_f64(ct_grad(in[0]))[1] == -5);
    close_contexts();
}
END_TEST

START_TEST(several_outputs_refused) {
    open_contexts(_i);
    ct_tensor *outs[CT_MAX_OUTPUTS],
        *in[2] = {ct_ones(context, CT_F64, CT_SHAPE(2)), ct_ones(context, CT_F64, CT_SHAPE(2))};
    const struct {
        int attrs;
        const char *words;
    } faults_of[] = {{1, "several: forward set no output 1"},
                     {2, "several: forward returned a tensor of another context"}};
    for (int wanted = 0; wanted < 2; wanted++)
        for (int i = 0; i < 2; i++) {
            ct_set_requires_grad(in[0], wanted);
            const int64_t live = ct_memory(context).live;
            for (int k = 0; k < 4; k++) outs[k] = in[0];
            ck_assert(!ct_apply_many(&several, in, 2, &faults_of[i].attrs, outs));
            ck_assert(!outs[0] && !outs[1] && !outs[2] && !outs[3]);
            ck_assert_msg(strstr(ct_error_message(context), faults_of[i].words), "%s",
                          ct_error_message(context));
            ck_assert_int_eq(ct_error(other), i == 1 ? CT_ERR_ARGUMENT : CT_OK);
            ct_error_clear(context), ct_error_clear(other);
            ck_assert_int_eq(ct_memory(context).live, live);
        }
    ct_op many_outs = several;
    many_outs.outputs = CT_MAX_OUTPUTS + 1;
    ck_assert(!ct_apply_many(&many_outs, in, 2, &(int){0}, outs) &&
              strstr(ct_error_message(context), "several: too many outputs"));
    ct_error_clear(context);
    ck_assert(!ct_apply(&many_outs, in, 2, &(int){0}) && ct_error(context));
    ct_error_clear(context);
    ck_assert(!ct_apply_many(&several, in, 2, &(int){0}, NULL) &&
              strstr(ct_error_message(context), "several: outs is NULL"));
    ct_error_clear(context);
    close_contexts();
}
END_TEST

int main(void) {
    return run_tests("custom_op_outputs", NULL, NULL,
                     TESTS(LOOP(several_outputs, 2), LOOP(several_outputs_refused, 2)));
}
