/* A ct_dist of one process: calls at a wrong time, and arguments of its checkpoints. */

#include "tests/support/one_context.h"

static ct_module *model_of(ct_context *c) {
    return ct_linear_new(c, (ct_linear_opts){.in_features = 3, .out_features = 2});
}
static void backward_of(ct_module *m) {
    ct_tensor *x = ct_ones(ct_context_of(ct_module_get(m, "bias")), CT_F32, CT_SHAPE(4, 3));
    ck_assert(ct_backward(ct_mean(ct_forward(m, x), CT_ALL, false)));
}

/* ---- a checkpoint of a ct_dist that was freed, of another context than the other arguments ----
 */

static void freed(ct_context *c) {
    expect_in(c, CT_ERR_ARGUMENT, "the ct_dist has ended: it was freed", "checkpoint_");
}

START_TEST(ended_beside) {
    ct_context *other = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ct_module *m = model_of(context), *ended = model_of(other);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 1});
    ct_dist *dist = ct_dist_new(ct_sgd_new(ended, (ct_sgd_opts){.lr = 1}), NULL,
                                (ct_dist_opts){.micro_batches = 1});
    ck_assert(dist && optim);
    ct_module_free(ended);
    for (int i = 0; i < _i; i++) ct_module_free(model_of(other));
    ct_checkpoint k = {.module = m, .optim = optim, .group = ct_dist_group(dist)};
    ck_assert(!ct_checkpoint_save("no", &k));
    freed(context), freed(other);
    ck_assert(!ct_checkpoint_load("no", &k));
    freed(context), freed(other);
    ct_context_free(other);
}
END_TEST

/* ---- a comm of another context than the optimiser's ---- */

static bool no_start(ct_comm *comm, ct_transfer *t) { return (void)comm, (void)t, false; }
static ct_transfer_state no_test(ct_comm *comm, ct_transfer *t) {
    return (void)comm, (void)t, CT_TRANSFER_FAILED;
}
static void no_cancel(ct_comm *comm, ct_transfer *t) { (void)comm, (void)t; }
static const char *no_reason(ct_comm *comm) { return (void)comm, ""; }
static void no_close(ct_comm *comm, bool failed) { (void)comm, (void)failed; }
static const ct_comm_engine no_engine = {"none", no_start, no_test, no_cancel, no_reason, no_close};

START_TEST(two_contexts) {
    ct_context *other = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ct_comm *comm = ct_comm_new(other, &no_engine, 0, 1, NULL);
    ct_optim *optim = ct_sgd_new(model_of(context), (ct_sgd_opts){.lr = 1});
    ck_assert(comm && optim && !ct_dist_new(optim, comm, (ct_dist_opts){0}));
    expect(CT_ERR_ARGUMENT, "dist_new: comm and optimiser", "of two contexts");
    expect_in(other, CT_ERR_ARGUMENT, "dist_new: comm and optimiser", "of two contexts");
    ct_comm_close(comm);
    ck_assert(!ct_dist_new(optim, comm, (ct_dist_opts){0}));
    expect(CT_ERR_ARGUMENT, "ct_dist_new", "the comm has ended");
    expect_in(other, CT_ERR_ARGUMENT, "ct_dist_new", "the comm has ended");
    ct_context_free(other);
}
END_TEST

/* ---- groups of a checkpoint ---- */

START_TEST(groups) {
    ct_module *m = model_of(context);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 1}),
             *plain = ct_sgd_new(m, (ct_sgd_opts){.lr = 1});
    ck_assert(!ct_dist_group(NULL));
    ct_dist *dist = ct_dist_new(optim, NULL, (ct_dist_opts){0});
    ct_checkpoint without = {.module = m, .optim = optim},
                  of_none = {.module = m, .optim = plain, .group = ct_dist_group(dist)},
                  inside = {.module = m, .optim = optim, .group = ct_dist_group(dist)};
    ck_assert(!ct_checkpoint_save("no", &without));
    expect(CT_ERR_ARGUMENT, "an optimiser has a ct_dist, whose group .group must be", "");
    ck_assert(!ct_checkpoint_save("no", &of_none));
    expect(CT_ERR_ARGUMENT, ".group is of none of the optimisers", "");
    int64_t i;
    ck_assert(ct_dist_next(dist, &i));
    ck_assert(!ct_checkpoint_save("no", &inside));
    expect(CT_ERR_ARGUMENT, "step 0 has not ended", "");
}
END_TEST

/* ---- calls at a wrong time ---- */

static struct {
    ct_optim *optim;
    ct_dist *dist;
    bool done;
} at_wrong_time;

static bool holds(const ct_optim_item *p, void *user) {
    (void)p, (void)user;
    return ct_dist_new(at_wrong_time.optim, NULL, (ct_dist_opts){0});
}
static bool steps(const ct_optim_item *p, void *user) {
    (void)p, (void)user;
    return ct_dist_step(at_wrong_time.dist);
}

/* In a rule of the optimiser. */
START_TEST(in_a_rule) {
    const ct_optim_rule rule = {.name = "Own", .step = _i ? steps : holds, .elementwise = true};
    ct_module *m = model_of(context);
    ct_optim *optim = at_wrong_time.optim = ct_optim_new(m, &rule, (ct_optim_opts){0});
    ct_dist *dist = at_wrong_time.dist = _i ? ct_dist_new(optim, NULL, (ct_dist_opts){0}) : NULL;
    if (dist)
        for (int64_t i; ct_dist_next(dist, &i);) backward_of(m);
    else backward_of(m);
    ck_assert(!(dist ? ct_dist_step(dist) : ct_optim_step(optim)));
    if (_i) expect(CT_ERR_ARGUMENT, "dist_step: called inside a call of its ct_dist", "");
    else expect(CT_ERR_ARGUMENT, "ct_dist_new: called by the optimiser's own rule", "");
}
END_TEST

/* ---- a rule that does what it must not ---- */

typedef enum { NEXT, SUMS, SAVES, FREES, FREES_MODULE, CONVERTS, ACTS } act;
static struct {
    act how;
    bool acts;
    ct_module *module;
} hostile;

static bool hostile_step(const ct_optim_item *p, void *user) {
    int64_t i;
    double one = 1;
    ct_checkpoint all = {.module = hostile.module,
                         .optim = at_wrong_time.optim,
                         .group = ct_dist_group(at_wrong_time.dist)};
    (void)user;
    ct_add_into(p->param, p->grad, -1);
    if (!hostile.acts) return true;
    hostile.acts = false;
    switch (hostile.how) {
    case NEXT: return ct_dist_next(at_wrong_time.dist, &i);
    case SUMS: return ct_dist_sum(at_wrong_time.dist, &one, 1);
    case SAVES: return ct_checkpoint_save("no", &all);
    case FREES: ct_optim_free(at_wrong_time.optim); break;
    case FREES_MODULE: ct_module_free(hostile.module); break;
    case CONVERTS: ct_module_to(ct_module_child(hostile.module, "layer"), CT_BF16); break;
    case ACTS: break;
    }
    return true;
}
static const char *const act_says[ACTS] = {
    [NEXT] = "dist_step: called inside a call of its ct_dist",
    [SUMS] = "dist_sum: called inside a call of its ct_dist",
    [SAVES] = "checkpoint_save: called inside a call of its ct_dist",
    [FREES] = "ct_optim_free: called by the optimiser's own rule",
    [FREES_MODULE] = "ct_module_free: the M is running",
    [CONVERTS] = "ct_module_to: a step of an optimiser is running"};

static ct_module *model_with_layer(ct_context *c) {
    ct_module *m = ct_module_new(c, "M");
    return ct_module_add_child(m, "layer", model_of(c)) ? m : NULL;
}
static void micro_batches(ct_dist *dist, ct_module *m) {
    for (int64_t i; ct_dist_next(dist, &i);) backward_of(ct_module_child(m, "layer"));
}

/* After ct_error_clear the ct_dist goes on with the next step. */
START_TEST(hostile_in_a_step) {
    const ct_optim_rule rule = {.name = "Own", .step = hostile_step, .elementwise = true};
    ct_module *m = hostile.module = model_with_layer(context);
    ct_optim *optim = at_wrong_time.optim = ct_optim_new(m, &rule, (ct_optim_opts){0});
    ct_dist *dist = at_wrong_time.dist =
        ct_dist_new(optim, NULL, (ct_dist_opts){.micro_batches = 4, .shares = 2});
    hostile.how = (act)_i;
    for (int step = 0; step < 3; step++) {
        micro_batches(dist, m);
        hostile.acts = step == 1;
        const bool done = ct_dist_step(dist);
        ck_assert(done == (step != 1));
        if (!done) expect(CT_ERR_ARGUMENT, act_says[_i], "");
        ck_assert_int_eq(ct_dist_steps(dist), step ? step == 2 ? 2 : 1 : 1);
    }
    no_error();
    ct_optim_free(optim);
}
END_TEST

static void in_turn(void *self) {
    int64_t i;
    (void)self;
    at_wrong_time.done |= ct_dist_next(at_wrong_time.dist, &i);
}
static void in_end(void *self, bool ok) {
    (void)self, (void)ok;
    at_wrong_time.done |= ct_dist_step(at_wrong_time.dist);
}

/* In a backward. */
START_TEST(in_a_backward) {
    const ct_watch_fns fns = {.turn = _i ? NULL : in_turn, .end = _i ? in_end : NULL};
    ct_module *m = model_of(context);
    ct_tensor *bias = ct_module_get(m, "bias");
    at_wrong_time.done = false;
    at_wrong_time.dist =
        ct_dist_new(ct_sgd_new(m, (ct_sgd_opts){.lr = 1}), NULL, (ct_dist_opts){0});
    ck_assert(ct_watch(context, &bias, 1, &fns, NULL));
    ck_assert(!ct_backward(ct_mean(ct_mul(bias, bias), CT_ALL, false)) && !at_wrong_time.done);
    expect(CT_ERR_GRAD, _i ? "dist_step: called inside" : "dist_next: called inside", "a backward");
}
END_TEST

int main(void) {
    return run_tests("dist_alone", setup, teardown,
                     TESTS(LOOP(ended_beside, 3), TEST(two_contexts), TEST(groups),
                           LOOP(in_a_rule, 2), LOOP(hostile_in_a_step, ACTS),
                           LOOP(in_a_backward, 2)));
}
