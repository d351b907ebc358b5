/* Callbacks, functions of the program that the library runs: one that fails ends the call that runs
 * it, whatever it has begun, and after ct_error_clear the context goes on as before. */
#include "src/autograd/tape.h"
#include "src/core/profile.h"

#include "tests/support/recompute_check.h"

/* The actions of a callback before it fails. */
typedef enum {
    NOTHING,
    MAKES_TENSORS,
    OPENS_SCOPES,
    COMPUTES,
    RECORDS_AN_ERROR,
    FREES_THE_CONTEXT,
    MANNERS
} manner;
static manner how;
static ct_tensor *kept; /* a handle that the callback has made */
static bool fails;      /* false: callbacks succeed */

static bool has_failed(ct_tensor *x) {
    if (!fails) return false;
    kept = NULL;
    if (how >= MAKES_TENSORS) kept = ct_exp(x);
    if (how >= OPENS_SCOPES) {
        ct_scope_open(ct_context_of(x));
        for (int i = 0; i < 20; i++) kept = ct_neg(kept);
        ct_scope_open_no_grad(ct_context_of(x));
    }
    if (how >= COMPUTES) kept = ct_softmax(ct_matmul(ct_detach(x), ct_transpose(x, -1, -2)), -1);
    if (how == RECORDS_AN_ERROR) ct_matmul(x, x);
    if (how == FREES_THE_CONTEXT) ct_context_free(ct_context_of(x));
    return true;
}

/* ---- ways to be inside a callback ---- */

static ct_tensor *failing_forward(ct_call *c) {
    return has_failed(c->in[0]) ? NULL : ct_scale(c->in[0], 2);
}
static ct_tensor *plain_forward(ct_call *c) { return ct_scale(c->in[0], 2); }
static bool plain_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    return (grad[0] = ct_scale(g[0], 2)) != NULL;
}
static bool failing_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return !has_failed(c->in[0]) && plain_backward(c, g, grad);
}
static const ct_op in_forward = {
    .name = "in_forward", .forward = failing_forward, .backward = plain_backward};
static const ct_op in_backward = {
    .name = "in_backward", .forward = plain_forward, .backward = failing_backward};

static ct_tensor *failing_fn(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return has_failed(in[0]) ? NULL : ct_exp(ct_add(in[0], in[0]));
}
/* fails in its second run only */
static ct_tensor *second_fn(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ++*(int *)arg == 2 && has_failed(in[0]) ? NULL : ct_tanh(ct_mul(in[0], in[0]));
}
static ct_tensor *failing_module(void *self, ct_tensor *x) {
    (void)self;
    return has_failed(x) ? NULL : ct_silu(x);
}

static void run_forward(ct_tensor *x) { ct_apply(&in_forward, &x, 1, NULL); }
static void run_backward(ct_tensor *x) {
    ct_tensor *y = ct_exp(x), *z = ct_apply(&in_backward, &y, 1, NULL);
    ct_backward(ct_sum(ct_add(ct_mul(z, z), y), CT_ALL, false));
}
static void run_recompute(ct_tensor *x) { ct_recompute(failing_fn, NULL, &x, 1); }
static void run_second(ct_tensor *x) {
    int runs = 0;
    ct_tensor *y = ct_recompute(second_fn, &runs, &x, 1);
    ct_backward(ct_sum(ct_mul(y, x), CT_ALL, false));
}
static void run_gradcheck(ct_tensor *x) {
    ct_gradcheck(failing_fn, NULL, &x, 1, (ct_gradcheck_opts){0});
}
static void run_jacobian(ct_tensor *x) {
    ct_jacobian_out matrices;
    ct_jacobian(failing_fn, NULL, &x, 1, (ct_jacobian_opts){0}, &matrices);
}
static ct_tensor *apply_in_backward(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    ct_tensor *y = arg ? ct_mul(in[0], arg) : in[0];
    return ct_apply(&in_backward, &y, 1, NULL);
}
static void run_jacobian_backward(ct_tensor *x) {
    ct_jacobian_out matrices;
    ct_jacobian(apply_in_backward, NULL, &x, 1, (ct_jacobian_opts){0}, &matrices);
}
static ct_module *module_of(ct_context *c) {
    return ct_module_set_forward(ct_module_new(c, "Mine"), failing_module, NULL);
}
static void run_module(ct_tensor *x) { ct_forward(module_of(ct_context_of(x)), x); }
static ct_tensor *nested_fn(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_forward(arg, ct_apply(&in_forward, in, 1, NULL));
}
/* a module of one's own in an encoder, in a recomputed layer */
static void run_nested(ct_tensor *x) {
    ct_context *c = ct_context_of(x);
    const ct_layer_opts opts = {.embed_dim = 4, .num_heads = 2, .recompute = true};
    ct_module *m = ct_encoder_new(c, opts, 2, false);
    ct_module_set_child(m, "layers.1.norm2", module_of(c));
    ct_tensor *y = ct_cast(ct_view(x, CT_SHAPE(1, 3, 4)), CT_F32);
    ct_encoder_forward(m, y, (ct_stack_call){0});
    ct_recompute(nested_fn, module_of(c), &x, 1);
}

static const struct {
    void (*run)(ct_tensor *x);
    const char *name, *what; /* in the error of a callback that records none; NULL: no error */
} ways[] = {{run_forward, "in_forward: ", "forward returned nothing"},
            {run_backward, "in_backward: ", "backward failed"},
            {run_recompute, "recompute: ", "function returned nothing"},
            {run_second, "recompute: ", "function returned nothing"},
            {run_gradcheck, "gradcheck: ", "function returned nothing"},
            {run_module, "Mine: ", "forward returned nothing"},
            {run_nested, "layers.1.norm2: Mine: ", "forward returned nothing"},
            {run_jacobian, "jacobian: ", "function returned nothing"},
            {run_jacobian_backward, NULL, NULL}};
enum { WAYS = sizeof ways / sizeof *ways };

static ct_tensor *new_input(ct_context *c) {
    return ct_set_requires_grad(ct_randn(c, CT_F64, CT_SHAPE(3, 4)), true);
}

static void expect_failure(ct_context *c, int way) {
    if (!ways[way].name) ck_assert_int_eq(ct_error(c), CT_OK);
    else if (how == RECORDS_AN_ERROR) expect_in(c, CT_ERR_SHAPE, "matmul: ", "");
    else if (how == FREES_THE_CONTEXT)
        expect_in(c, CT_ERR_ARGUMENT, "ct_context_free: a call of the context is running", "");
    else expect_in(c, ct_error(c), ways[way].name, ways[way].what);
}

/* ---- the next call ---- */

typedef enum {
    NEXT_ONES,
    NEXT_ERROR,
    NEXT_MESSAGE,
    NEXT_CLEAR,
    NEXT_SCOPE,
    NEXT_CLOSE,
    NEXT_RELEASE,
    NEXT_BACKWARD,
    NEXT_STEP,
    NEXT_GRAPH,
    NEXT_FREE_MODULE,
    NEXT_PROFILE,
    NEXT_FREE,
    NEXTS
} next;

static void next_call(next what, ct_context *c, ct_tensor *x, ct_tensor *y, ct_module *m,
                      ct_scope scope) {
    const bool ok = !ct_error(c);
    switch (what) {
    case NEXT_ONES: ck_assert(ok == !!ct_ones(c, CT_F32, CT_SHAPE(300, 300))); break;
    case NEXT_ERROR: ck_assert(ok == !ct_error(c)); break;
    case NEXT_MESSAGE: ck_assert(ok == !*ct_error_message(c)); break;
    case NEXT_CLEAR: ct_error_clear(c); break;
    case NEXT_SCOPE: ct_scope_close(ct_scope_open(c)); break;
    case NEXT_CLOSE: ct_scope_close(scope); break;
    case NEXT_RELEASE: ct_release(x); break;
    case NEXT_BACKWARD: ck_assert(ok == ct_backward(y)); break;
    case NEXT_STEP: ck_assert(ok == !!ct_exp(x)); break;
    case NEXT_GRAPH: ck_assert(ok == !!ct_retain_grad(y)); break;
    case NEXT_FREE_MODULE: ct_module_free(m); break;
    case NEXT_PROFILE: ct_profile_stop(c); break;
    case NEXT_FREE:
    case NEXTS: break;
    }
}

/* The context computes as if nothing had been, and nothing is left in it. */
static void works(ct_context *c) {
    ck_assert_msg(!ct_error(c), "%s", ct_error_message(c));
    ck_assert(c->frame == &c->root && !c->running && !c->set);
    ck_assert(!c->op && !c->backward && !c->in_recompute && !c->reporting && !c->held && !c->depth);
    for (cti_node *node = c->tape_first; node; node = node->next)
        ck_assert(!node->pending && !node->number);
    fails = false;
    ct_scope scope = ct_scope_open(c);
    for (int way = 0; way < WAYS; way++) {
        ct_tensor *x = new_input(c);
        ways[way].run(x);
        ck_assert_msg(!ct_error(c), "%s", ct_error_message(c));
    }
    ct_scope_close(scope);
}

START_TEST(failed) {
    const int way = _i % WAYS;
    how = (manner)(_i / WAYS % MANNERS);
    for (int n = 0; n < NEXTS; n++)
        for (int debug = 0; debug < 2; debug++) {
            ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .debug = debug});
            ct_module *m = module_of(c);
            ct_tensor *outside = new_input(c);
            ct_scope scope = ct_scope_open(c);
            if (n % 2) ct_profile_start(c);
            ct_tensor *x = new_input(c), *y = ct_sum(ct_mul(x, outside), CT_ALL, false);
            fails = true;
            ways[way].run(x);
            next_call((next)n, c, x, y, m, scope);
            if (n == NEXT_FREE) {
                ct_error(c); /* so that it is not printed */
                ct_context_free(c);
                continue;
            }
            if (n == NEXT_CLEAR) ck_assert_int_eq(ct_error(c), CT_OK);
            else expect_failure(c, way);
            if (kept) ck_assert(!ct_neg(kept)), ct_error_clear(c);
            ct_scope_close(scope);
            works(c);
            ct_context_free(c);
        }
}
END_TEST

/* Gradients after a backward that has failed equal the gradients of one that has not. */
START_TEST(gradients_after) {
    how = COMPUTES;
    for (int way = 1; way <= 3; way += 2) {
        double want[12], got[12];
        for (int round = 0; round < 2; round++) {
            ct_tensor *x =
                ct_set_requires_grad(ct_full(context, CT_F64, CT_SHAPE(3, 4), 0.5), true);
            fails = round;
            if (round) {
                ways[way].run(x);
                expect_failure(context, way);
                ct_zero_grad(x);
            }
            fails = false;
            ways[way].run(x);
            no_error();
            ck_assert(ct_to_f64(ct_grad(x), round ? got : want, 12));
        }
        ck_assert_mem_eq(want, got, sizeof want);
    }
}
END_TEST

/* ct_jacobian hides the gradients of all leaves and retained results from its backwards. */
START_TEST(hidden_gradients_return) {
    for (how = NOTHING; how < MANNERS; how++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = new_input(context), *leaf = new_input(context), *fresh = new_input(context);
        ct_tensor *w = ct_retain_grad(ct_exp(leaf)), *once = ct_sum(w, CT_ALL, false);
        ct_backward_with(&once, NULL, 1, (ct_backward_opts){.retain_graph = true});
        ct_tensor *both = ct_mul(w, fresh), *grad = ct_grad(leaf), *retained = ct_grad(w);
        double want[12], got[12];
        ck_assert(ct_to_f64(grad, want, 12));
        fails = true;
        ct_jacobian_out matrices;
        ct_jacobian(apply_in_backward, both, &x, 1, (ct_jacobian_opts){0}, &matrices);
        no_error();
        ck_assert(ct_grad(leaf) == grad && ct_grad(w) == retained);
        fails = false;
        ck_assert(ct_to_f64(grad, got, 12) && !ct_grad(fresh) && !ct_grad(x));
        ck_assert_mem_eq(want, got, sizeof want);
        ck_assert(ct_backward(ct_sum(both, CT_ALL, false))); /* the graph is still there */
        ck_assert(ct_grad(fresh) != NULL);
        no_error();
        ct_scope_close(scope);
        works(context);
    }
}
END_TEST

/* ---- a callback that fails inside another, which goes on ---- */

static ct_tensor *catching_forward(ct_call *c) {
    const int way = *(const int *)c->attrs;
    ct_tensor *x = c->in[0];
    ways[way].run(ct_set_requires_grad(ct_exp(x), true));
    if (((const int *)c->attrs)[1]) return ct_neg(x); /* without a look at the error */
    expect_failure(c->context, way);
    return ct_neg(x);
}
static const ct_op catching = {.name = "catching",
                               .attrs_size = 2 * sizeof(int),
                               .forward = catching_forward,
                               .backward = plain_backward};

START_TEST(inside_another) {
    how = COMPUTES;
    static const int ways_without_backward[] = {0, 2, 4, 5, 6}; /* a forward records nothing */
    for (size_t i = 0; i < sizeof ways_without_backward / sizeof(int); i++)
        for (int silent = 0; silent < 2; silent++) {
            const int way = ways_without_backward[i];
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = new_input(context);
            fails = true;
            ct_tensor *y = ct_apply(&catching, &x, 1, (int[]){way, silent});
            if (silent) expect_failure(context, way);
            else no_error();
            ck_assert(silent ? !y : y != NULL);
            if (y) ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
            ct_scope_close(scope);
            works(context);
        }
}
END_TEST

/* ---- an input that a callback releases ---- */

static ct_tensor *releasing_fn(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    ct_tensor *y = ct_apply(arg, in, 1, NULL);
    ct_release(in[0]);
    return ct_exp(ct_add(y, in[0]));
}

START_TEST(released_inputs) {
    for (int i = 0; i < 3; i++) {
        ct_tensor *x = new_input(context), *copy = ct_scale(x, 1);
        ck_assert(ct_backward(
            ct_sum(ct_recompute(releasing_fn, (void *)&in_forward, &copy, 1), CT_ALL, false)));
        ck_assert_ptr_null(ct_neg(copy)); /* the tensor that fn has released */
        expect(CT_ERR_ARGUMENT, "has ended", "");
        ck_assert(ct_grad(x) && context->frame == &context->root);
    }
}
END_TEST

/* ---- on_error ---- */

static int told;
static void meddle(void *data, ct_status status, const char *message) {
    ct_context *c = *(ct_context **)data;
    char before[256];
    snprintf(before, sizeof before, "%s", message);
    told++;
    ct_scope_open(c); /* which the end of the call closes, or the program's scope */
    ck_assert_ptr_null(ct_ones(c, CT_F32, CT_SHAPE(2)));
    ct_fail(c, CT_ERR_IO, "another error");
    ct_error_clear(c);
    ct_context_free(c);
    ck_assert_int_eq(ct_error(c), status);
    ck_assert_str_eq(ct_error_message(c), before);
}

static ct_tensor *wrong_forward(ct_call *c) { return ct_matmul(c->in[0], c->in[0]); }
static const ct_op wrong = {.name = "wrong", .forward = wrong_forward};
static ct_tensor *wrong_module(void *self, ct_tensor *x) {
    (void)self;
    return ct_apply(&wrong, &x, 1, NULL);
}

static void fail_somewhere(ct_context *c, int where) {
    if (where == 0) ct_ones(c, CT_F32, CT_SHAPE(-1));
    ct_tensor *x = new_input(c);
    if (where == 1) ct_matmul(x, x);
    if (where == 2) ct_apply(&wrong, &x, 1, NULL);
    if (where == 3)
        ct_forward(ct_module_set_forward(ct_module_new(c, "Mine"), wrong_module, NULL), x);
    if (where == 4) {
        ct_tensor *y = ct_exp(x);
        ct_copy_into(y, x);
        ct_backward(ct_sum(y, CT_ALL, false));
    }
}

START_TEST(on_error_meddles) {
    for (int where = 0; where < 5; where++)
        for (int debug = 0; debug < 2; debug++) {
            ct_context *c = NULL;
            c = ct_context_new((ct_context_opts){
                .threads = 1, .on_error = meddle, .on_error_data = &c, .debug = debug});
            for (int round = 0; round < 3; round++) {
                told = 0;
                ct_scope scope = ct_scope_open(c);
                fail_somewhere(c, where);
                ck_assert_msg(told == 1, "%d: told %d times", where, told);
                ct_error_clear(c);
                ck_assert_int_eq(ct_error(c), CT_OK);
                ct_scope_close(scope);
                works(c);
            }
            ct_context_free(c);
        }
}
END_TEST

int main(void) {
    return run_cases("callbacks",
                     CASES({.name = "failed", .tests = TESTS(LOOP(failed, WAYS * MANNERS))},
                           {.name = "rest",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(gradients_after), TEST(hidden_gradients_return),
                                           TEST(inside_another), TEST(released_inputs),
                                           TEST(on_error_meddles))}));
}
