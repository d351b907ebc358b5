/* An op made of public calls, and each way in which its forward or backward can be wrong. */
#include "vectors.h"

typedef struct {
    double factor;
    int fault;
} times_attrs;

static ct_tensor *times_forward(ct_call *c) {
    const times_attrs *a = c->attrs;
    if (a->fault == 5) return NULL;
    if (a->fault == 6) return ct_fail(c->context, CT_ERR_ARGUMENT, "times: no");
    c->saved[0] = ct_full(c->context, ct_dtype_of(c->in[0]), CT_SCALAR, a->factor);
    return ct_mul(c->in[0], c->saved[0]);
}

static bool times_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const times_attrs *a = c->attrs;
    switch (a->fault) {
    case 1: return true;                                        /* no gradient */
    case 2: grad[0] = ct_sum(g[0], CT_ALL, false); return true; /* another shape */
    case 3: grad[0] = ct_cast(g[0], CT_F32); return true;       /* another dtype */
    case 4: return false;                                       /* no reason */
    default: grad[0] = ct_mul(g[0], c->saved[0]); return grad[0] != NULL;
    }
}

static const ct_op times = {.name = "times",
                            .attrs_size = sizeof(times_attrs),
                            .forward = times_forward,
                            .backward = times_backward};

static ct_tensor *apply_times(ct_tensor *x, double factor, int fault) {
    times_attrs attrs = {factor, fault};
    ct_tensor *y = ct_apply(&times, &x, 1, &attrs);
    memset(&attrs, 0x55, sizeof attrs); /* the call keeps its own copy */
    return y;
}

static ct_tensor *times_three(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return apply_times(in[0], 3, 0);
}

START_TEST(an_op_of_ones_own) {
    ct_tensor *x = LEAF(1, 2), *y = apply_times(apply_times(x, 3, 0), 4, 0);
    IS(y, 12, 24);
    ct_backward(sum(y));
    IS(ct_grad(x), 12, 12);
    ck_assert(!ct_requires_grad(apply_times(VECTOR(1), 2, 0)));
    ct_gradcheck_result r = ct_gradcheck(times_three, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert(r.ran && r.ok);
    IS(ct_grad(x), 12, 12); /* the check leaves no trace */
}
END_TEST

START_TEST(a_wrong_backward_is_named) {
    const char *word[] = {"", "no gradient", "(3)", "f32", "times"};
    for (int fault = 1; fault <= 4; fault++) {
        ct_tensor *x = LEAF(1, 2, 3), *loss = sum(apply_times(x, 3, fault));
        ck_assert(!ct_backward(loss));
        ck_assert_msg(strstr(ct_error_message(context), "times") &&
                          strstr(ct_error_message(context), word[fault]),
                      "fault %d: \"%s\"", fault, ct_error_message(context));
        ct_error_clear(context);
        ck_assert_ptr_null(ct_grad(x));
    }
}
END_TEST

START_TEST(a_wrong_forward_is_named) {
    ct_tensor *x = LEAF(1, 2);
    ck_assert_ptr_null(apply_times(x, 1, 5));
    ck_assert_msg(ct_error(context) != CT_OK && strstr(ct_error_message(context), "times"),
                  "\"%s\"", ct_error_message(context));
    ct_error_clear(context);
    ck_refused(apply_times(x, 1, 6), CT_ERR_ARGUMENT, "times: no", "");
    ck_assert_ptr_null(ct_apply(&times, (ct_tensor *[]){NULL}, 1, &(times_attrs){0}));
    ck_assert_ptr_null(ct_apply(NULL, &x, 1, NULL));
    ct_error_clear(context);
}
END_TEST

static ct_tensor *wrong_square(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_mul(in[0], ct_detach(in[0])); /* x^2 with half its gradient */
}

static ct_tensor *broken(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_add(in[0], ct_zeros(context, CT_F64, CT_SHAPE(7, 7)));
}

START_TEST(gradcheck_finds_what_is_wrong) {
    ct_tensor *x = VECTOR(0.1, -3, 0.2);
    for (int fast = 0; fast < 2; fast++) {
        ct_gradcheck_result r =
            ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){.fast = fast, .seed = 4});
        no_error();
        ck_assert(r.ran && !r.ok && *r.diagnosis);
        ck_assert_int_eq(r.input, 0);
        ck_assert_int_eq(r.index, fast ? -1 : r.index);
        if (!fast)
            ck_assert_msg(fabs(r.numeric - 2 * r.analytic) < 1e-5 * fabs(r.numeric), "%g %g",
                          r.numeric, r.analytic);
    }
    ck_assert(!ct_requires_grad(x) && !ct_grad(x));
    IS(x, 0.1, -3, 0.2);
    ct_gradcheck_result r = ct_gradcheck(broken, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert(!r.ran && !r.ok);
    ck_assert_int_eq(ct_error(context), CT_ERR_SHAPE);
    ct_error_clear(context);
}
END_TEST

int main(void) {
    return run_tests("custom_op_mistakes", setup, teardown,
                     TESTS(TEST(an_op_of_ones_own), TEST(a_wrong_backward_is_named),
                           TEST(a_wrong_forward_is_named), TEST(gradcheck_finds_what_is_wrong)));
}
