/* ct_jacobian: the state that the call leaves unchanged, functions that fail or are hostile, wrong
 * arguments, and memory that runs out. */
#include "tests/support/fault_sweep.h"
#include "tests/support/memory_faults.h"
#include "src/autograd/tape.h"

#include "jacobian_check.h"

/* ---- what stays unchanged ---- */

/* x W + b, dropped out; W, b and x are leaves or results from outside. */
typedef struct {
    ct_tensor *w, *b;
    bool recomputed;
} layer;
static ct_tensor *layer_of(ct_tensor *const *in, int n, void *arg) {
    const layer *l = arg;
    (void)n;
    return ct_dropout(ct_add(ct_matmul(in[0], l->w), l->b), 0.25, true);
}
static ct_tensor *run_layer(ct_tensor *const *in, int n, void *arg) {
    const layer *l = arg;
    return l->recomputed ? ct_recompute(layer_of, arg, in, n) : layer_of(in, n, arg);
}

static int64_t tape_length(void) {
    int64_t nodes = 0;
    for (const cti_node *node = context->tape_first; node; node = node->next) nodes++;
    return nodes;
}

START_TEST(gradients_and_graphs_from_before) {
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        ct_tensor *leaf = ct_set_requires_grad(normal(CT_SHAPE(3, 2)), true),
                  *fresh = ct_set_requires_grad(normal(CT_SHAPE(2)), true),
                  *x = ct_set_requires_grad(normal(CT_SHAPE(1, 3)), true);
        ct_tensor *w = ct_retain_grad(ct_exp(leaf));
        takes(ct_backward(ct_sum(ct_mul(ct_exp(leaf), leaf), CT_ALL, false)));
        ct_tensor *once = ct_sum(w, CT_ALL, false);
        takes(ct_backward_with(&once, NULL, 1, (ct_backward_opts){.retain_graph = true}));
        ct_tensor *grad = ct_grad(leaf), *retained = ct_grad(w);
        const double of_leaf = values(grad)[3], of_w = values(retained)[3];
        const int64_t nodes = tape_length();
        layer l = {.w = w, .b = fresh, .recomputed = recomputed};
        const ct_rng rng = ct_rng_get(context);
        takes(ct_jacobian(run_layer, &l, &x, 1, (ct_jacobian_opts){.seed = 4}, out));
        ck_assert_int_eq(ct_rng_get(context).stream, rng.stream);
        ck_assert_int_eq(ct_rng_get(context).seed, rng.seed);
        ck_assert(ct_grad(leaf) == grad && ct_grad(w) == retained);
        ck_assert(values(grad)[3] == of_leaf && values(retained)[3] == of_w);
        ck_assert(!ct_grad(fresh) && !ct_grad(x) && ct_requires_grad(x));
        ck_assert_int_eq(tape_length(), nodes);
        takes(ct_backward(once)); /* the graph is still there, and its nodes have no gradient */
        ck_assert(fabs(values(ct_grad(leaf))[3] - of_leaf - values(w)[3]) < 1e-14);
        ck_assert(values(ct_grad(w))[3] == of_w + 1);
        ct_seed(context, 4);
        double want[6];
        ct_tensor *kept = ct_dropout(ct_ones(context, CT_F64, CT_SHAPE(1, 2)), 0.25, true);
        for (int e = 0; e < 6; e++) want[e] = values(w)[e % 3 * 2 + e / 3] * values(kept)[e / 3];
        are(&out[0], 2, 3, want);
    }
}
END_TEST

static ct_tensor *the_argument(ct_tensor *const *in, int n, void *arg) {
    return (void)in, (void)n, arg;
}

START_TEST(a_leaf_from_outside_is_the_result) {
    ct_tensor *leaf = F64(1, 2), *x = F64(3);
    takes(ct_backward(ct_sum(ct_mul(leaf, leaf), CT_ALL, false)));
    ct_tensor *grad = ct_grad(leaf);
    takes(ct_jacobian(the_argument, leaf, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert(data(out[0].analytic, 2, 1)[1] == 0 && data(out[0].numeric, 2, 1)[1] == 0);
    ck_assert(ct_grad(leaf) == grad);
    IS(grad, 2, 4);
}
END_TEST

/* The watcher of a leaf is told of no backward that ct_jacobian or ct_gradcheck runs. */
static int watched;
static void watch_begin(void *self, const bool *reached, bool retain_graph) {
    (void)self, (void)retain_graph;
    watched += reached[0];
}
static bool watch_whole(void *self, int64_t i, ct_tensor *grad) {
    (void)self, (void)i, (void)grad;
    watched++;
    return true;
}
static void watch_turn(void *self) { (void)self, watched++; }
static void watch_end(void *self, bool ok) {
    (void)self;
    watched += ok;
}
static ct_tensor *times(ct_tensor *const *in, int n, void *leaf) {
    return (void)n, ct_mul(in[0], leaf);
}

START_TEST(no_watcher_is_told) {
    const ct_watch_fns fns = {watch_begin, watch_whole, watch_turn, watch_end};
    ct_tensor *x = F64(3), *leaf = F64(5);
    watched = 0;
    takes(ct_watch(context, &leaf, 1, &fns, NULL));
    takes(ct_jacobian(times, leaf, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert(ct_gradcheck(times, leaf, &x, 1, (ct_gradcheck_opts){0}).ok);
    ck_assert_int_eq(watched, 0);
    takes(ct_backward(ct_mul(x, leaf)));
    ck_assert_int_eq(watched, 4);
    ct_unwatch(context, NULL);
    are(&out[0], 1, 1, (double[]){5});
}
END_TEST

/* Inputs with and without requires_grad have the same matrices, in a scope without recording too.
 */
START_TEST(flags_of_inputs_and_scopes) {
    for (int flag = 0; flag < 2; flag++)
        for (int no_grad = 0; no_grad < 2; no_grad++) {
            const double at[2] = {3, 4};
            ct_scope outer = no_grad ? ct_scope_open_no_grad(context) : ct_scope_open(context);
            ct_tensor *x = ct_from_f64(context, CT_SHAPE(2), at);
            ct_set_requires_grad(x, flag);
            const int64_t before = ct_memory(context).live;
            ct_scope scope = ct_scope_open(context);
            takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){0}, out));
            are(&out[0], 2, 2, (double[]){6, 0, 0, 8});
            ck_assert(ct_requires_grad(x) == flag && !ct_grad(x));
            ct_tensor *numeric = out[0].numeric;
            ct_scope_close(scope);
            ck_assert_int_eq(ct_memory(context).live, before);
            FAILS(ct_neg(numeric), CT_ERR_ARGUMENT, "has ended"); /* they were the scope's */
            ct_scope_close(outer);
        }
}
END_TEST

static ct_tensor *dropped(ct_tensor *const *in) { return ct_dropout(in[0], 0.5, true); }
static ct_tensor *scaled_by_mask(ct_tensor *const *in) {
    return ct_mul(ct_dropout(ct_ones(ct_context_of(in[0]), CT_F64, CT_SHAPE(40)), 0.5, true),
                  in[0]);
}

/* Every call draws the same mask, which the seed determines; without a seed, the generator. */
START_TEST(random_numbers) {
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(40));
    double mask[2][40];
    for (int seeded = 0; seeded < 2; seeded++)
        for (int f = 0; f < 2; f++) {
            ct_seed(context, 11);
            ct_dropout(x, 0.5, true);
            const ct_rng rng = ct_rng_get(context);
            takes(ct_jacobian(run_body, &(body){f ? scaled_by_mask : dropped}, &x, 1,
                              (ct_jacobian_opts){.seed = seeded ? 9 : 0}, out));
            ck_assert(ct_rng_get(context).seed == 11 && ct_rng_get(context).stream == rng.stream);
            if (seeded) ct_seed(context, 9);
            const double *want = values(ct_dropout(x, 0.5, true));
            memcpy(mask[seeded], want, sizeof mask[seeded]);
            double all[1600] = {0};
            for (int e = 0; e < 40; e++) all[e * 41] = want[e];
            are(&out[0], 40, 40, all);
        }
    ck_assert(memcmp(mask[0], mask[1], sizeof mask[0]) != 0);
}
END_TEST

/* ---- errors ---- */

typedef struct {
    int from, calls; /* the first call that misbehaves */
    enum { NOTHING, SHAPE_CHANGES, DTYPE_CHANGES, TO_WHOLE, FAILS_ITSELF } how;
} misbehaviour;

static ct_tensor *misbehaves(ct_tensor *const *in, int n, void *arg) {
    misbehaviour *m = arg;
    (void)n;
    ct_tensor *y = ct_mul(in[0], in[0]);
    if (++m->calls < m->from) return y;
    switch (m->how) {
    case NOTHING: return NULL;
    case SHAPE_CHANGES: return ct_reshape(y, CT_SHAPE(3, 2));
    case DTYPE_CHANGES: return ct_cast(y, CT_F32);
    case TO_WHOLE: return ct_cast(y, CT_I64);
    case FAILS_ITSELF: return ct_matmul(y, y);
    }
    return NULL;
}

/* The first call, the call that is recorded, and a call beside x. The last says where. */
START_TEST(functions_that_fail) {
    static const struct {
        int how;
        ct_status status;
        const char *message;
    } cases[] = {
        {NOTHING, CT_ERR_ARGUMENT, "jacobian: the function returned nothing"},
        {SHAPE_CHANGES, CT_ERR_SHAPE,
         "jacobian: the function returned (3, 2), and before that (2, 3)"},
        {DTYPE_CHANGES, CT_ERR_DTYPE, "jacobian: the function returned f32, and before that f64"},
        {TO_WHOLE, CT_ERR_DTYPE, "jacobian: the function returned i64, and before that f64"},
        {FAILS_ITSELF, CT_ERR_SHAPE, "matmul: inner sizes differ: (2, 3) @ (2, 3)"}};
    ct_context *usual = context;
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .on_error = report});
    for (int i = 0; i < 5; i++)
        for (int from = 1; from <= 26; from++) {
            const bool changes = cases[i].how != NOTHING && cases[i].how != FAILS_ITSELF;
            if (from == 1 && changes) continue;
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = normal(CT_SHAPE(2, 3));
            const double *at = values(x);
            const int64_t live = ct_memory(context).live;
            misbehaviour m = {.from = from, .how = cases[i].how};
            reported = 0;
            ck_assert(!ct_jacobian(misbehaves, &m, &x, 1, (ct_jacobian_opts){0}, out));
            is_empty(&out[0]);
            char want[300], where[100] = "";
            const int element = (from - 3) / 4; /* each is moved four times */
            if (from > 2)
                snprintf(where, sizeof where,
                         "jacobian: with element (%d, %d) of input 0 changed by at most %g: ",
                         element / 3, element % 3, 2e-6 * fmax(1, fabs(at[element])));
            /* the name stands once */
            const bool own = !strncmp(cases[i].message, "jacobian: ", 10);
            snprintf(want, sizeof want, "%s%s", where, cases[i].message + (*where && own ? 10 : 0));
            ck_assert_str_eq(ct_error_message(context), want);
            ck_assert_int_eq(ct_error(context), cases[i].status);
            ck_assert(reported == 1 && status_reported == cases[i].status);
            ck_assert_str_eq(message_reported, want);
            ct_error_clear(context);
            ct_scope_close(scope);
            ck_assert(!context->held && context->frame == &context->root && !context->tape_last);
            ck_assert(ct_memory(context).live < live);
        }
    ct_tensor *x = normal(CT_SHAPE(2, 3));
    misbehaviour m = {.from = 27};
    takes(ct_jacobian(misbehaves, &m, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert_int_eq(m.calls, 26);
    ct_context_free(context);
    context = usual;
}
END_TEST

START_TEST(wrong_arguments) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *x = normal(CT_SHAPE(2, 3)), *foreign = ct_ones(c, CT_F64, CT_SHAPE(1, 6)),
              *gone = normal(CT_SHAPE(1, 6)), *none = NULL;
    ct_release(gone);
#define REFUSED(f, in, n, status, message, ...)                                                    \
    do {                                                                                           \
        memset(out, 0xff, sizeof out);                                                             \
        ck_assert(!ct_jacobian(f, in, n, (ct_jacobian_opts){__VA_ARGS__}, out));                   \
        is_empty(&out[0]);                                                                         \
        FAILS(NULL, status, message);                                                              \
    } while (0)
#define SQUARE OF(square)
    ck_assert(!ct_jacobian(NULL, NULL, &x, 1, (ct_jacobian_opts){0}, out));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: no function");
    ck_assert(!ct_jacobian(SQUARE, &x, 1, (ct_jacobian_opts){0}, NULL));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: out is NULL");
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is 0, must be greater than 0",
            .eps = CT_ZERO);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is -1", .eps = -1);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is nan", .eps = NAN);
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE,
            "jacobian: the cotangents have shape (2, 5), must be (R, 6), because the function "
            "returns (2, 3)",
            .cotangents = normal(CT_SHAPE(2, 5)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "the cotangents have shape (6), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (4, 2, 3), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(4, 2, 3)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (2, 6, 1), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(2, 6, 1)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (0), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(0)));
    REFUSED(SQUARE, &x, 1, CT_ERR_DTYPE, "jacobian: the cotangents are (1, 6) f32, must be f64",
            .cotangents = ct_ones(context, CT_F32, CT_SHAPE(1, 6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_DTYPE, "jacobian: the cotangents are (1, 6) i64",
            .cotangents = ct_zeros(context, CT_I64, CT_SHAPE(1, 6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: tensors of different contexts",
            .cotangents = foreign);
    ck_assert_int_eq(ct_error(c), CT_ERR_ARGUMENT); /* in both */
    ct_error_clear(c);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: the tensor has ended", .cotangents = gone);
    REFUSED(SQUARE, &gone, 1, CT_ERR_ARGUMENT, "jacobian: input 0 has ended", .eps = 0);
    REFUSED(SQUARE, &none, 1, CT_ERR_ARGUMENT, "jacobian: no input",
            .cotangents = normal(CT_SHAPE(1, 6)));
    ck_assert(!ct_jacobian(SQUARE, &none, 1, (ct_jacobian_opts){0}, out)); /* no context at all */
    ck_assert(!ct_jacobian(SQUARE, NULL, 0, (ct_jacobian_opts){0}, NULL));
    ck_assert(!ct_jacobian(the_argument, foreign, &x, 1, (ct_jacobian_opts){0}, out));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: tensors of different contexts");
    ct_error_clear(c);
    ct_matmul(x, x); /* an error is pending */
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "matmul: ", .eps = 0);
#undef REFUSED
#undef SQUARE
    ct_context_free(c);
}
END_TEST

/* ---- hostile functions ---- */

typedef enum {
    RELEASES,
    LEAVES_SCOPES,
    CLOSES_SCOPES,
    SEEDS,
    NESTS,
    CLEARS,
    BACKWARDS,
    OVERWRITES,
    HOSTILES
} hostility;

static ct_tensor *is_hostile(ct_tensor *const *in, int n, void *arg) {
    ct_context *c = ct_context_of(in[0]);
    ct_tensor *y = ct_mul(in[0], in[0]);
    (void)n;
    switch (*(const hostility *)arg) {
    case RELEASES: ct_release(in[0]); break;
    case LEAVES_SCOPES: ct_scope_open_no_grad(c); break;
    case CLOSES_SCOPES:
        for (uint64_t id = c->scopes; id > 0; id--) /* none of them is its own */
            ct_scope_close((ct_scope){c, id});
        break;
    case SEEDS: ct_seed(c, 99); break;
    case NESTS: {
        ct_jacobian_out inner;
        if (!ct_jacobian(OF(square), in, 1, (ct_jacobian_opts){.seed = 2}, &inner)) return NULL;
        break;
    }
    case CLEARS:
        ct_matmul(in[0], in[0]);
        ct_error_clear(c);
        break;
    case BACKWARDS: ct_backward(ct_sum(ct_exp(y), CT_ALL, false)); break;
    case OVERWRITES: ct_copy_into(in[0], ct_ones(c, CT_F64, ct_shape_of(in[0]))); break;
    case HOSTILES: break;
    }
    return y;
}

START_TEST(hostile_functions) {
    for (hostility h = 0; h <= HOSTILES; h++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = F64(1.5, -2);
        const ct_rng rng = ct_rng_get(context);
        const bool done = ct_jacobian(is_hostile, &h, &x, 1, (ct_jacobian_opts){.seed = 5}, out);
        ck_assert(h != OVERWRITES || !done);
        if (done && out[0].analytic && h != BACKWARDS) are(&out[0], 2, 2, (double[]){3, 0, 0, -4});
        else if (h == HOSTILES || h == SEEDS || h == NESTS || h == CLEARS) takes(false);
        ct_error_clear(context);
        IS(x, 1.5, -2);
        ck_assert(ct_rng_get(context).seed == rng.seed && ct_rng_get(context).stream == rng.stream);
        ck_assert(!context->held && !context->running && !context->tape_last);
        ct_scope_close(scope);
        ck_assert(context->frame == &context->root);
    }
}
END_TEST

/* ---- memory ---- */

static struct {
    ct_tensor *x[3], *leaf, *grad, *cotangents;
} swept;

static void begin_sweep(void *arg) {
    (void)arg;
    context = new_with(
        (ct_context_opts){.seed = 3, .threads = 1, .allocator = {allocate, release, NULL}});
    swept.x[0] = normal(CT_SHAPE(1, 2));
    swept.x[1] = I64(1, 0);
    swept.x[2] = NULL;
    swept.leaf = ct_set_requires_grad(normal(CT_SHAPE(2, 2)), true);
    ct_backward(ct_sum(swept.leaf, CT_ALL, false));
    swept.grad = ct_grad(swept.leaf);
    swept.cotangents = normal(CT_SHAPE(3, 2));
}
static bool run_sweep(void *arg) {
    layer l = {.w = swept.leaf, .b = swept.leaf, .recomputed = *(const bool *)arg};
    l.b = swept.x[0];
    memset(out, 0xff, sizeof out);
    return ct_jacobian(run_layer, &l, swept.x, 3,
                       (ct_jacobian_opts){.cotangents = swept.cotangents}, out);
}
static void end_sweep(const fault_end *end, void *arg) {
    (void)arg;
    if (end->done) FAULT_CK(end, out[0].numeric && out[0].analytic && out[0].noise);
    else is_empty(&out[0]);
    is_empty(&out[1]);
    is_empty(&out[2]);
    FAULT_CK(end, end->done || end->struck);
    FAULT_CK(end, swept.leaf->slot->sum == swept.grad && ct_data_f64(swept.grad)[3] == 1);
    FAULT_CK(end, tape_length() == 1 && !context->held && context->frame == &context->root);
    ct_error_clear(context);
    ct_context_free(context);
    context = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
}

START_TEST(memory_that_runs_out) {
    close_context();
    for (int way = 0; way < 8; way++)
        fault_sweep(&(fault_case){.name = "jacobian",
                                  .kind = way & 1 ? FAULT_TAKE : FAULT_ALLOCATOR,
                                  .forever = way & 2,
                                  .context = &context,
                                  .arg = &(bool){way & 4},
                                  .begin = begin_sweep,
                                  .run = run_sweep,
                                  .end = end_sweep,
                                  .least = way & 1 ? 40 : 1,
                                  .most = 5000,
                                  .may_succeed = !(way & 1)});
    open_context();
}
END_TEST

int main(void) {
    return run_tests("jacobian_calls", open_context, close_context,
                     TESTS(TEST(gradients_and_graphs_from_before),
                           TEST(a_leaf_from_outside_is_the_result), TEST(no_watcher_is_told),
                           TEST(flags_of_inputs_and_scopes), TEST(random_numbers),
                           TEST(functions_that_fail), TEST(wrong_arguments),
                           TEST(hostile_functions), TEST(memory_that_runs_out)));
}
