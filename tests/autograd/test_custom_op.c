/* Ops of a user's own. A correct op works, and a wrong op is an error with its name and never a
 * crash, with and without debug mode. Under AddressSanitizer these tests also find stray
 * accesses. */
#include "custom_op.h"
#include "tests/support/fault_sweep.h"

/* The mistakes of the op below, and unusual actions that are correct. */
typedef enum {
    RIGHT,
    /* forwards that work */
    RESULT_IS_INPUT,
    RESULT_IS_OUTSIDE,
    SCOPE_LEFT_OPEN,
    INPUTS_RELEASED,
    SAVED_IS_RELEASED,
    /* forwards that fail */
    NO_RESULT,
    FAILS,
    FAILS_WITH_A_RESULT,
    RESULT_OF_ANOTHER_CONTEXT,
    SAVED_OF_ANOTHER_CONTEXT,
    CLOSES_THE_CALLERS_SCOPE,
    /* backwards that work */
    GRAD_IS_COTANGENT,
    GRAD_IS_INPUT,
    GRAD_IS_SAVED,
    GRAD_IS_OUTSIDE,
    GRAD_IN_AN_OPEN_SCOPE,
    GRAD_IS_STRIDED,
    GRAD_IS_KEPT,
    LEAF_LET_GO,
    /* backwards that fail */
    NO_GRAD,
    GRAD_OF_ANOTHER_SHAPE,
    GRAD_OF_ANOTHER_DTYPE,
    GRAD_OF_ANOTHER_CONTEXT,
    GRAD_FALSE,
    GRAD_FALSE_WITH_A_GRADIENT,
    GRAD_ERROR_BUT_TRUE,
    GRAD_IS_DROPPED,
    DROPPED_IS_USED,
    DROPPED_IS_READ,
    BACKWARD_INSIDE,
    BACKWARD_CLOSES_THE_CALLERS_SCOPE,
    WAYS
} way;

typedef struct {
    way way;
    ct_tensor *outside; /* a tensor of the op's shape */
    ct_tensor **loss;
    ct_scope scope;
} attrs;

/* y = 2 a + b, with one of these deviations */
static ct_tensor *mine_forward(ct_call *c) {
    const attrs *a = c->attrs;
    ct_tensor *y = ct_add(ct_scale(c->in[0], 2), c->in[1]);
    c->saved[1] = ct_ones(c->context, ct_dtype_of(y), ct_shape_of(y));
    switch (a->way) {
    case RESULT_IS_INPUT: return c->in[0];
    case RESULT_IS_OUTSIDE: return a->outside;
    case SCOPE_LEFT_OPEN: ct_scope_open(c->context); return ct_scale(y, 1);
    case INPUTS_RELEASED: ct_release(c->in[0]), ct_release(c->in[1]); return ct_scale(y, 1);
    case SAVED_IS_RELEASED: ct_release(c->saved[1]); return y;
    case NO_RESULT: return NULL;
    case FAILS: return ct_fail(c->context, CT_ERR_IO, "mine: reasons");
    case FAILS_WITH_A_RESULT: ct_fail(c->context, CT_ERR_IO, "mine: reasons"); return y;
    case RESULT_OF_ANOTHER_CONTEXT: return ct_ones(other, CT_F64, CT_SHAPE(3));
    case SAVED_OF_ANOTHER_CONTEXT: c->saved[3] = ct_ones(other, CT_F64, CT_SHAPE(3)); return y;
    case CLOSES_THE_CALLERS_SCOPE: ct_scope_close(a->scope); return y;
    case GRAD_IS_DROPPED:
    case DROPPED_IS_USED:
    case DROPPED_IS_READ: c->drop = CT_DROP_IN(0) | CT_DROP_OUT; return y;
    default: return y;
    }
}

static bool mine_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const attrs *a = c->attrs;
    grad[0] = ct_scale(g[0], 2);
    grad[1] = g[0];
    switch (a->way) {
    case GRAD_IS_COTANGENT: grad[0] = g[0]; break;
    case GRAD_IS_INPUT: grad[0] = c->in[0]; break;
    case GRAD_IS_SAVED: grad[0] = grad[1] = c->saved[1]; break;
    case GRAD_IS_OUTSIDE: grad[1] = a->outside; break;
    case GRAD_IN_AN_OPEN_SCOPE: ct_scope_open(c->context), grad[0] = ct_scale(g[0], 2); break;
    case GRAD_IS_STRIDED:
        grad[0] =
            ct_transpose(ct_expand(ct_full(c->context, CT_F64, CT_SCALAR, 2), CT_SHAPE(3)), 0, 0);
        break;
    case GRAD_IS_KEPT: grad[0] = ct_keep(ct_scale(g[0], 2)); break;
    case LEAF_LET_GO: ct_release(a->outside); break;
    case NO_GRAD: grad[1] = NULL; break;
    case GRAD_OF_ANOTHER_SHAPE: grad[1] = ct_view(g[0], CT_SHAPE(3, 1)); break;
    case GRAD_OF_ANOTHER_DTYPE: grad[1] = ct_cast(g[0], CT_F32); break;
    case GRAD_OF_ANOTHER_CONTEXT: grad[1] = ct_ones(other, CT_F64, CT_SHAPE(3)); break;
    case GRAD_FALSE: grad[0] = grad[1] = NULL; return false;
    case GRAD_FALSE_WITH_A_GRADIENT: return false;
    case GRAD_ERROR_BUT_TRUE: ct_fail(c->context, CT_ERR_IO, "mine: reasons"); return true;
    case GRAD_IS_DROPPED: grad[0] = c->in[0]; break;
    case DROPPED_IS_USED: grad[0] = ct_mul(g[0], c->in[0]); break;
    case DROPPED_IS_READ: ck_assert(!ct_data_f64(c->in[0]) && c->out == NULL); break;
    case BACKWARD_INSIDE: ct_backward(*a->loss); break;
    case BACKWARD_CLOSES_THE_CALLERS_SCOPE: ct_scope_close(a->scope); break;
    default: break;
    }
    return true;
}

static const ct_op mine = {.name = "mine",
                           .attrs_size = sizeof(attrs),
                           .forward = mine_forward,
                           .backward = mine_backward};

static const struct {
    way way;
    ct_status status;
    const char *words; /* "": only "mine: " */
} faults[] = {
    {NO_RESULT, CT_ERR_ARGUMENT, "forward returned nothing"},
    {FAILS, CT_ERR_IO, "reasons"},
    {FAILS_WITH_A_RESULT, CT_ERR_IO, "reasons"},
    {RESULT_OF_ANOTHER_CONTEXT, CT_ERR_ARGUMENT, "another context"},
    {SAVED_OF_ANOTHER_CONTEXT, CT_ERR_ARGUMENT, "another context"},
    {CLOSES_THE_CALLERS_SCOPE, CT_ERR_ARGUMENT, "closed a scope"},
    {NO_GRAD, CT_ERR_GRAD, "no gradient for input 1"},
    {GRAD_OF_ANOTHER_SHAPE, CT_ERR_GRAD, "input 1 has shape (3, 1), the input (3)"},
    {GRAD_OF_ANOTHER_DTYPE, CT_ERR_GRAD, "input 1 is f32, the input f64"},
    {GRAD_OF_ANOTHER_CONTEXT, CT_ERR_GRAD, "input 1 is of another context"},
    {GRAD_FALSE, CT_ERR_GRAD, "backward failed"},
    {GRAD_FALSE_WITH_A_GRADIENT, CT_ERR_GRAD, "backward failed"},
    {GRAD_ERROR_BUT_TRUE, CT_ERR_IO, "reasons"},
    {GRAD_IS_DROPPED, CT_ERR_GRAD, "values of a tensor (3) were not kept for the backward of mine"},
    {DROPPED_IS_USED, CT_ERR_GRAD, "values of a tensor (3) were not kept for the backward of mine"},
    {DROPPED_IS_READ, CT_ERR_GRAD, "values of a tensor (3) were not kept for the backward of mine"},
    {BACKWARD_INSIDE, CT_ERR_GRAD, "inside the backward of mine"},
    {BACKWARD_CLOSES_THE_CALLERS_SCOPE, CT_ERR_GRAD, "closed a scope"},
};

static int fault_of(way w) {
    for (int i = 0; i < (int)(sizeof faults / sizeof *faults); i++)
        if (faults[i].way == w) return i;
    return -1;
}

/* Runs sum(mine(2 x, x) + x) and its backward in a scope; writes x's gradient. False: the context
 * has the error. */
static bool run(way w, double out[3]) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *x = ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(3), (double[]){1, 2, 3}),
                                        true),
              *loss = NULL;
    ct_tensor *outside = ct_scale(x, 7);
    if (w == LEAF_LET_GO) outside = ct_detach(x);
    attrs a = {w, outside, &loss, scope};
    ct_tensor *b = w == INPUTS_RELEASED ? ct_scale(x, 1) : x;
    ct_tensor *y = ct_apply(&mine, (ct_tensor *[]){ct_scale(x, 2), b}, 2, &a);
    if (y) loss = ct_sum(ct_add(y, x), CT_ALL, false);
    const bool ok = loss && ct_backward(loss) && ct_to_f64(ct_grad(x), out, 3);
    ct_scope_close(scope);
    return ok;
}

START_TEST(every_way_to_do_it) {
    open_contexts(_i);
    double g[3];
    ck_assert(run(RIGHT, g));
    const int64_t live = ct_memory(context).live;
    for (int round = 0; round < 2; round++)
        for (way w = RIGHT; w < WAYS; w++) {
            const int row = fault_of(w);
            const bool ok = run(w, g);
            const char *message = ct_error_message(context);
            if (row < 0) {
                const double want[] = {[RIGHT] = 6,
                                       [RESULT_IS_INPUT] = 6,
                                       [RESULT_IS_OUTSIDE] = 6,
                                       [SCOPE_LEFT_OPEN] = 6,
                                       [INPUTS_RELEASED] = 6,
                                       [SAVED_IS_RELEASED] = 6,
                                       [GRAD_IS_COTANGENT] = 4,
                                       [GRAD_IS_INPUT] = 2 * 6 + 2,
                                       [GRAD_IS_SAVED] = 4,
                                       [GRAD_IS_OUTSIDE] = 21 + 4 + 1,
                                       [GRAD_IN_AN_OPEN_SCOPE] = 6,
                                       [GRAD_IS_STRIDED] = 6,
                                       [GRAD_IS_KEPT] = 6,
                                       [LEAF_LET_GO] = 6};
                ck_assert_msg(ok, "way %d: %s", (int)w, message);
                ck_assert_msg(g[2] == want[w], "way %d: %g", (int)w, g[2]);
            } else {
                ck_assert_msg(!ok, "way %d works", (int)w);
                ck_assert_msg(ct_error(context) == faults[row].status && strstr(message, "mine") &&
                                  strstr(message, faults[row].words),
                              "way %d: %d, \"%s\"", (int)w, (int)ct_error(context), message);
                const bool foreign = strstr(message, "another context");
                ck_assert_msg(!ct_error(other) == !foreign, "way %d: \"%s\"", (int)w,
                              ct_error_message(other));
            }
            ct_error_clear(context), ct_error_clear(other);
            if (w == GRAD_IS_KEPT) continue; /* keeps a tensor */
        }
    ck_assert_int_le(ct_memory(context).live, live + 2 * 1024); /* the kept ones */
    ck_assert(run(RIGHT, g) && g[0] == 6 && g[1] == 6 && g[2] == 6);
    close_contexts();
}
END_TEST

/* ---- a forward that releases its inputs: they end when it has returned ---- */

static ct_tensor *releasing_forward(ct_call *c) {
    for (int i = 0; i < c->n; i++) ct_release(c->in[i]);
    ct_tensor *y = ct_mul(c->in[0], c->in[1]); /* both are still there */
    ct_release(c->in[0]);
    return *(const bool *)c->attrs ? c->in[0] : y;
}

static bool releasing_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] = ct_mul(g[0], c->in[1]), grad[1] = ct_mul(g[0], c->in[0]);
    return true;
}

static const ct_op releasing = {.name = "releasing",
                                .attrs_size = sizeof(bool),
                                .forward = releasing_forward,
                                .backward = releasing_backward};

START_TEST(inputs_last_as_long_as_the_forward) {
    open_contexts(_i);
    const int64_t live = ct_memory(context).live;
    for (int kind = 0; kind < 4; kind++) {
        const bool strided = kind & 1, result_is_input = kind & 2;
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_set_requires_grad(
            ct_from_f64(context, CT_SHAPE(2, 2), (double[]){1, 2, 3, 4}), true);
        ct_tensor *a = ct_scale(strided ? ct_transpose(x, 0, 1) : x, 1),
                  *b = strided ? ct_transpose(x, 0, 1) : ct_scale(x, 3);
        ct_tensor *y = ct_apply(&releasing, (ct_tensor *[]){a, b}, 2, &result_is_input);
        ck_assert_msg(y && ct_backward(ct_sum(y, CT_ALL, false)), "kind %d: %s", kind,
                      ct_error_message(context));
        double g[4];
        ck_assert(ct_to_f64(ct_grad(x), g, 4) && g[1] == (strided ? 1 : 3) * 2 * 2);
        /* debug mode knows that b has ended; not in the strided case, where forward released a
         * dense copy */
        if (_i) {
            ck_assert_int_eq(ct_neg(b) == NULL, !strided);
            ck_assert_int_eq(ct_error(context), strided ? CT_OK : CT_ERR_ARGUMENT);
            ct_error_clear(context);
        }
        ct_scope_close(scope);
    }
    ck_assert_int_eq(ct_memory(context).live, live);
    close_contexts();
}
END_TEST

/* ---- in debug mode: gradients and results that have ended, or were not written ---- */

static ct_tensor *ends_forward(ct_call *c) {
    ct_tensor *y = ct_exp(c->in[0]), *kept = ct_neg(y);
    if (*(const int *)c->attrs == 0) return ct_release(y), y;
    if (*(const int *)c->attrs == 1) ct_release(kept), c->saved[0] = kept;
    if (*(const int *)c->attrs == 2) return ct_empty(c->context, ct_dtype_of(y), ct_shape_of(y));
    return y;
}

static bool ends_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] = ct_mul(g[0], c->out);
    if (*(const int *)c->attrs == 3) ct_release(grad[0]);
    if (*(const int *)c->attrs == 4)
        grad[0] = ct_empty(c->context, ct_dtype_of(g[0]), ct_shape_of(g[0]));
    return grad[0] != NULL;
}

static const ct_op ends = {
    .name = "ends", .attrs_size = sizeof(int), .forward = ends_forward, .backward = ends_backward};

START_TEST(what_debug_mode_adds) {
    open_contexts(1);
    const char *words[] = {
        "made by exp has ended", "made by neg has ended", "forward made the first NaN",
        "made by mul has ended",
        "backward made the first NaN: element (0) of the gradient of input 0 (3)"};
    for (int i = 0; i < 5; i++) {
        ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(3)), true);
        ct_tensor *y = ct_apply(&ends, &x, 1, &i);
        ck_assert_msg(i < 3 ? !y : y && !ct_backward(ct_sum(y, CT_ALL, false)), "%d works", i);
        const char *message = ct_error_message(context);
        ck_assert_msg(strstr(message, "ends: ") && strstr(message, words[i]), "%d: \"%s\"", i,
                      message);
        ct_error_clear(context);
    }
    close_contexts();
}
END_TEST

/* ---- many inputs ---- */

enum { MANY = 20 };

static ct_tensor *many_forward(ct_call *c) {
    ct_tensor *y = c->in[0];
    for (int i = 1; i < c->n && y; i++)
        if (c->in[i]) y = ct_add(y, c->in[i]);
    return y;
}

static bool many_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    for (int i = 0; i < c->n; i++)
        if (c->wants[i] && i != *(const int *)c->attrs) grad[i] = ct_scale(g[0], i);
    return true;
}

static const ct_op many = {.name = "many",
                           .attrs_size = sizeof(int),
                           .forward = many_forward,
                           .backward = many_backward,
                           .flags = CT_OP_OPTIONAL | CT_OP_STRIDED};

START_TEST(many_inputs) {
    open_contexts(_i);
    for (int missing = -1; missing < MANY; missing++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *in[MANY] = {0};
        for (int i = 0; i < MANY; i++)
            if (i % 5 != 3)
                in[i] = ct_set_requires_grad(ct_full(context, CT_F64, CT_SHAPE(2), i), i % 5 != 4);
        ct_tensor *y = ct_apply(&many, in, MANY, &missing);
        const bool needed = missing >= 0 && missing % 5 < 3;
        ck_assert(y && ct_backward(ct_sum(y, CT_ALL, false)) == !needed);
        if (needed)
            ck_assert_ptr_nonnull(
                strstr(ct_error_message(context), "many: backward set no gradient for input"));
        else
            for (int i = 0; i < MANY; i++)
                ck_assert(i % 5 < 3 ? ct_data_f64(ct_grad(in[i]))[1] == i : !ct_grad(in[i]));
        ct_error_clear(context);
        ct_scope_close(scope);
    }
    /* input 0 is not optional */
    ck_assert_ptr_null(
        ct_apply(&many, (ct_tensor *[]){NULL, ct_ones(context, CT_F32, CT_SCALAR)}, 2, &(int){0}));
    ck_assert_ptr_nonnull(strstr(ct_error_message(context), "many: input 0 is NULL"));
    ct_error_clear(context);
    close_contexts();
}
END_TEST

/* ---- out of memory at every request ---- */

enum { LARGE = 5000 }; /* large enough that each tensor is a request of its own */

static ct_tensor *large_forward(ct_call *c) {
    c->saved[0] = ct_sigmoid(c->in[0]);
    return ct_mul(c->in[0], c->saved[0]);
}

static bool large_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *s = c->saved[0];
    grad[0] = ct_mul(g[0], ct_add(s, ct_sub(c->out, ct_mul(c->out, s))));
    return true; /* returns true without a gradient */
}

static const ct_op large = {.name = "large", .forward = large_forward, .backward = large_backward};

static struct {
    ct_context *c;
    bool debug;
    ct_tensor *x, *y;
} middle;

static bool apply_twice(void *arg) {
    (void)arg;
    middle.x = middle.y = NULL;
    middle.c = ct_context_new((ct_context_opts){
        .threads = 1, .debug = middle.debug, .allocator = {allocate, release, NULL}});
    if (!middle.c) return false;
    middle.x = ct_set_requires_grad(ct_ones(middle.c, CT_F32, CT_SHAPE(LARGE)), true);
    middle.y = ct_apply(&large, &middle.x, 1, NULL);
    return middle.y && ct_backward(ct_sum(ct_apply(&large, &middle.y, 1, NULL), CT_ALL, false));
}

/* The context still works, and the failed backward has added either everything or nothing. */
static bool apply_once(void *arg) {
    ct_tensor *x = middle.x;
    (void)arg;
    if (middle.y) {
        ct_tensor *z = ct_apply(&large, &x, 1, NULL);
        ck_assert(ct_zero_grad(x) && z && ct_backward(ct_sum(z, CT_ALL, false)));
        const double s = ct_item(ct_select(ct_sigmoid(x), 0, 0));
        ck_assert_double_eq_tol(ct_data_f32(ct_grad(x))[LARGE - 1], s + s * (1 - s), 1e-6);
    }
    ct_context_free(middle.c);
    middle.c = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
    return true;
}

/* The allocator refuses from then on: the pool would serve a single refusal. */
START_TEST(out_of_memory_in_the_middle) {
    unsetenv("CT_DEBUG");
    middle.debug = _i;
    fault_sweep(&(fault_case){.name = "an op applied twice",
                              .kind = FAULT_ALLOCATOR,
                              .forever = true,
                              .context = &middle.c,
                              .run = apply_twice,
                              .again = apply_once,
                              .least = 10});
}
END_TEST

int main(void) {
    return run_tests("custom_op", NULL, NULL,
                     TESTS(LOOP(every_way_to_do_it, 2), LOOP(inputs_last_as_long_as_the_forward, 2),
                           TEST(what_debug_mode_adds), LOOP(many_inputs, 2),
                           LOOP(out_of_memory_in_the_middle, 2)));
}
