/* ct_recompute: arguments that it refuses, and mistakes of a first or a second run. */
#include "src/autograd/recompute.h"

#include "tests/support/recompute_check.h"

START_TEST(arguments) {
    part p = part_of(3);
    ct_tensor *x = parameter(CT_SHAPE(2, 3)), *ended = ct_ones(context, CT_F32, CT_SHAPE(2, 3));
    ct_release(ended);
    ck_refused(ct_recompute(NULL, NULL, &x, 1), CT_ERR_ARGUMENT, "recompute", "NULL");
    ck_refused(ct_recompute(block, &p, &ended, 1), CT_ERR_ARGUMENT, "recompute", "ended");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *two[] = {x, ct_ones(other, CT_F32, CT_SHAPE(2, 3)), NULL};
    ck_refused(ct_recompute(block, &p, two, 2), CT_ERR_ARGUMENT, "recompute", "contexts");
    expect_in(other, CT_ERR_ARGUMENT, "recompute", "contexts");
    ct_context_free(other);
    ck_assert(!ct_recompute(block, &p, NULL, 1) && !ct_recompute(block, &p, &x, 0) &&
              !ct_recompute(block, &p, two + 2, 1) && !ct_recompute(block, &p, &x, -1));
    no_error();
    ct_fail(context, CT_ERR_SHAPE, "pending");
    ck_refused(ct_recompute(block, &p, &x, 1), CT_ERR_SHAPE, "pending", "");
    ck_assert_int_eq(p.runs, 0);
}
END_TEST

enum { EACH_RUN = -1 };
/* In its odd run fn does what `act` says; otherwise it is exp(x) w. */
typedef enum {
    FAILS,
    RETURNS_NULL,
    OTHER_SHAPE,
    OTHER_DTYPE,
    NO_GRADIENT,
    INPUT_ITSELF,
    OTHER_LEAF,
    OWN_RESULT,
    NEWER_RESULT,
    BACKWARD,
    ZERO_GRAD,
    CLOSES_SCOPE,
    WRITES_INPUT,
    WRITES_LEAF,
    LEAVES_SCOPE,
    RELEASES_INPUT,
    MAKES_LEAF,
    OTHER_VALUES,
    ACTS
} act;
typedef struct {
    part part;
    act act;
    ct_scope scope;
    ct_tensor *other, *leaf;
} actor;

static ct_tensor *acts(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    actor *a = arg;
    ct_tensor *w = a->part.w, *y = ct_mul(ct_exp(in[0]), w);
    if (++a->part.runs != a->part.odd_run && a->part.odd_run != EACH_RUN) return y;
    switch (a->act) {
    case FAILS: return ct_matmul(y, y);
    case RETURNS_NULL: return NULL;
    case OTHER_SHAPE: return ct_narrow(y, 0, 0, 1);
    case OTHER_DTYPE: return ct_cast(y, CT_F64);
    case NO_GRADIENT: return ct_detach(y);
    case INPUT_ITSELF: return in[0];
    case OTHER_LEAF: return ct_mul(ct_exp(in[0]), a->leaf);
    case OWN_RESULT:
    case NEWER_RESULT: return ct_mul(y, a->other);
    case BACKWARD: ct_backward(ct_sum(y, CT_ALL, false)); return y;
    case ZERO_GRAD: ct_zero_grad(in[0]); return y;
    case CLOSES_SCOPE: ct_scope_close(a->scope); return y;
    case WRITES_INPUT: ct_copy_into(in[0], w); return y;
    case WRITES_LEAF:
        y = ct_mul(y, a->leaf);
        ct_copy_into(a->leaf, w);
        return y;
    case LEAVES_SCOPE: ct_scope_open(context); return ct_add(y, ct_scale(y, 0));
    case RELEASES_INPUT: ct_release(in[0]); return ct_mul(ct_exp(in[0]), w);
    case MAKES_LEAF:
        return ct_mul(y, ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2, 3)), true));
    case OTHER_VALUES: return ct_mul(y, y);
    case ACTS: break;
    }
    return y;
}

/* Whether forward and backward of it succeed; *a holds its arguments. */
static bool run_actor(actor *a, act what, int odd_run) {
    *a = (actor){.part = part_of(3), .act = what};
    a->part.odd_run = odd_run;
    a->part.w = parameter(CT_SHAPE(2, 3)), a->leaf = parameter(CT_SHAPE(2, 3));
    a->scope = ct_scope_open(context);
    ct_tensor *x = ct_neg(parameter(CT_SHAPE(2, 3)));
    a->other = ct_neg(a->leaf);
    ct_tensor *y = ct_recompute(acts, a, &x, 1), *newer = ct_tanh(a->leaf);
    if (what == OWN_RESULT) a->other = y;
    if (what == NEWER_RESULT) a->other = newer;
    bool done = ct_backward(ct_sum(ct_mul(newer, y), CT_ALL, false));
    done &= ct_error(context) == CT_OK;
    return done;
}

START_TEST(a_second_run_that_differs) {
    static const struct {
        act act;
        ct_status status;
        const char *says;
    } faults[] = {
        {FAILS, CT_ERR_SHAPE, "second run: matmul: "},
        {RETURNS_NULL, CT_ERR_ARGUMENT, "second run: recompute: the function returned nothing"},
        {OTHER_SHAPE, CT_ERR_GRAD, "(1, 3) f32 in its second run, and (2, 3) f32"},
        {OTHER_DTYPE, CT_ERR_GRAD, "(2, 3) f64 in its second run, and (2, 3) f32"},
        {NO_GRADIENT, CT_ERR_GRAD, "not computed from anything that requires a gradient"},
        {INPUT_ITSELF, CT_ERR_GRAD, "not computed from anything that requires a gradient"},
        {OTHER_LEAF, CT_ERR_GRAD, "has not used"},
        {OWN_RESULT, CT_ERR_GRAD, "has not used"},
        {NEWER_RESULT, CT_ERR_GRAD, "has not used"},
        {BACKWARD, CT_ERR_GRAD, "backward: called inside the backward of recompute"},
        {ZERO_GRAD, CT_ERR_GRAD, "zero_grad: called inside the backward of recompute"},
        {CLOSES_SCOPE, CT_ERR_GRAD, "closed a scope"},
    };
    actor a;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ck_refused(run_actor(&a, faults[i].act, 2), faults[i].status, faults[i].says, "recompute");
        for (cti_node *node = context->tape_first; node; node = node->next)
            ck_assert(!node->number && !node->pending);
        ck_assert(!context->in_recompute && !context->backward);
        ct_scope_close(a.scope);
        ck_assert_ptr_null(context->tape_first);
        ck_assert(run_actor(&a, FAILS, 0)); /* the context still works */
        ct_scope_close(a.scope);
    }
}
END_TEST

START_TEST(a_first_run_that_fails) {
    static const struct {
        act act;
        ct_status status;
        const char *says;
    } faults[] = {
        {FAILS, CT_ERR_SHAPE, "matmul"},
        {RETURNS_NULL, CT_ERR_ARGUMENT, "recompute: the function returned nothing"},
        {BACKWARD, CT_ERR_GRAD, "called inside a function of ct_recompute"},
        {ZERO_GRAD, CT_ERR_GRAD, "called inside a function of ct_recompute"},
        {CLOSES_SCOPE, CT_ERR_ARGUMENT, "closed a scope"},
        {WRITES_INPUT, CT_ERR_GRAD, "changed an input, or a leaf"},
        {WRITES_LEAF, CT_ERR_GRAD, "changed an input, or a leaf"},
    };
    actor a;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ck_refused(run_actor(&a, faults[i].act, 1), faults[i].status, faults[i].says, "");
        ck_assert(!context->in_recompute && a.part.runs == 1);
        ct_scope_close(a.scope);
        ck_assert_ptr_null(context->tape_first);
    }
}
END_TEST

START_TEST(what_a_run_may_do) {
    static const act allowed[] = {LEAVES_SCOPE, RELEASES_INPUT, MAKES_LEAF};
    actor a;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        for (int odd = EACH_RUN; odd <= 2; odd++) {
            /* other ops in one of two runs are an error, even with the same result */
            const bool differs = odd > 0 && allowed[i] != RELEASES_INPUT;
            const bool done = run_actor(&a, allowed[i], odd);
            ck_assert_msg(done != differs, "%d in run %d: %s", (int)i, odd,
                          ct_error_message(context));
            ck_assert(differs == !ct_grad(a.part.w));
            if (differs) expect(CT_ERR_GRAD, "by other ops", "recompute");
            ct_scope_close(a.scope);
            ck_assert_ptr_null(context->tape_first);
        }
}
END_TEST

/* If nothing is recorded, fn is called once, and may do all that it may outside of ct_recompute. */
START_TEST(nothing_is_refused_where_nothing_is_recorded) {
    static const act any[] = {ZERO_GRAD, WRITES_INPUT, WRITES_LEAF};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        actor a = {.part = part_of(3), .act = any[i], .leaf = parameter(CT_SHAPE(2, 3))};
        a.part.w = parameter(CT_SHAPE(2, 3)), a.part.odd_run = 1;
        ct_scope scope = ct_scope_open_no_grad(context);
        ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(2, 3));
        ck_assert_ptr_nonnull(ct_recompute(acts, &a, &x, 1));
        no_error();
        ct_scope_close(scope);
    }
}
END_TEST

START_TEST(changes_in_place) {
    for (int which = 0; which < 4; which++) {
        part p = part_of(3);
        ct_tensor *x = ct_neg(parameter(CT_SHAPE(2, 3))), *y = ct_recompute(block, &p, &x, 1);
        if (which == 0) ct_init_constant(p.w, 1);
        if (which == 1) ct_init_constant(p.b, 1); /* linear's backward does not read it */
        if (which == 2) ct_copy_into(x, ct_ones(context, CT_F32, CT_SHAPE(2, 3)));
        if (which == 3) ct_copy_into(y, x); /* the result is not kept */
        ck_assert_int_eq(ct_backward(ct_sum(y, CT_ALL, false)), which == 3);
        if (which == 3) continue;
        expect(CT_ERR_GRAD, "recompute: a value of shape", "changed in place");
        ck_assert_int_eq(p.runs, 1);
    }
}
END_TEST

START_TEST(other_values) {
    ct_context *plain = context;
    for (int debug = 0; debug < 2; debug++) {
        context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = debug});
        actor a;
        ck_refused(run_actor(&a, OTHER_VALUES, 2), CT_ERR_GRAD, "other values", "recompute");
        ct_scope_close(a.scope);
        ck_assert(run_actor(&a, OTHER_VALUES, 0));
        ct_scope_close(a.scope);
        ct_context_free(context);
    }
    context = plain;
}
END_TEST

static void report(void *data, ct_status status, const char *message) {
    (void)status;
    strncat(data, message, 200);
}
START_TEST(an_error_is_reported_once) {
    char said[1000] = "";
    ct_context *plain = context;
    context = ct_context_new(
        (ct_context_opts){.seed = 1, .threads = 1, .on_error = report, .on_error_data = said});
    actor a;
    ck_assert(!run_actor(&a, FAILS, 2));
    ck_assert_msg(!strncmp(said, "recompute: in the function's second run: matmul", 47) &&
                      !strstr(said + 1, "recompute"),
                  "%s", said);
    ct_context_free(context);
    context = plain;
}
END_TEST

/* ---- arg ---- */

START_TEST(a_handle_that_has_ended) {
    ct_tensor *x = parameter(CT_SHAPE(3, 5));
    part p = {.kept = ct_sigmoid(x)};
    ct_tensor *y = ct_recompute(times, &p, &x, 1);
    ct_release(p.kept);
    ck_refused(ct_backward(ct_sum(y, CT_ALL, false)), CT_ERR_ARGUMENT,
               "second run: add: ", "ended");
}
END_TEST

int main(void) {
    return run_tests("recompute, refused", setup, teardown,
                     TESTS(TEST(arguments), TEST(a_second_run_that_differs),
                           TEST(a_first_run_that_fails), TEST(what_a_run_may_do),
                           TEST(nothing_is_refused_where_nothing_is_recorded),
                           TEST(changes_in_place), TEST(other_values),
                           TEST(an_error_is_reported_once), TEST(a_handle_that_has_ended)));
}
