/* Rules of optimisers that fail, and those that do what they must not. */
#include "optim_rule_check.h"

typedef enum {
    BEHAVES,
    RETURNS_FALSE,
    LEAVES_ERROR, /* and returns true */
    WRITES_OUT_OF_SHAPE,
    FREES_MODULE,
    FREES_CHILD,
    FREES_OPTIM,
    STEPS,
    SETS,
    GROUPS,
    ZEROES,
    ZEROES_GRADIENTS, /* calls ct_zero_grad */
    RELEASES,
    KEEPS,
    FREEZES,
    CONVERTS,
    SAVES,
    LOADS,
    LEAVES_SCOPES,
    CLOSES_SCOPE,
    GOES_BACK,
    MANNERS
} manner;

static struct {
    manner how;
    int at, calls; /* the call that does it, from 1 */
    ct_module *module;
    ct_optim *optim;
    ct_scope scope; /* the program's */
    char path[512];
} rule_user;

static bool misbehaves(const ct_optim_item *p) {
    ct_checkpoint run = {.module = rule_user.module, .optim = rule_user.optim};
    ct_tensor *y;
    switch (rule_user.how) {
    case RETURNS_FALSE: return false;
    case LEAVES_ERROR: ct_matmul(p->param, ct_ones(context, CT_F64, CT_SHAPE(7, 7))); break;
    case WRITES_OUT_OF_SHAPE:
        return ct_copy_into(p->param, ct_ones(context, CT_F64, CT_SHAPE(2, ROWS, COLUMNS)));
    case FREES_MODULE: ct_module_free(rule_user.module); break;
    case FREES_CHILD: ct_module_free(ct_module_child(rule_user.module, "layer")); break;
    case FREES_OPTIM: ct_optim_free(rule_user.optim); break;
    case STEPS: return ct_optim_step(rule_user.optim);
    case SETS: return ct_optim_set(rule_user.optim, "lr", 1);
    case GROUPS: ct_optim_group(rule_user.optim, "*", (ct_group_opts){.frozen = true}); break;
    case ZEROES: ct_optim_zero_grad(rule_user.optim); break;
    case ZEROES_GRADIENTS:
        for (int k = 0; k < PARAMS; k++) ct_zero_grad(ct_module_get(rule_user.module, names[k]));
        break;
    case RELEASES: ct_release(p->param), ct_release(p->state[0]), ct_release(p->grad); break;
    case KEEPS: ct_keep(p->param), ct_keep(p->state[0]), ct_keep(p->grad); break;
    case FREEZES:
        for (int k = 0; k < PARAMS; k++)
            ct_set_requires_grad(ct_module_get(rule_user.module, names[k]), false);
        break;
    case CONVERTS: ct_module_to(rule_user.module, CT_BF16); break;
    case SAVES: ct_checkpoint_save(rule_user.path, &run); break;
    case LOADS: ct_checkpoint_load(rule_user.path, &run); break;
    case LEAVES_SCOPES:
        for (int i = 0; i < 5; i++) ct_exp(ct_clone(p->param)), ct_scope_open(context);
        break;
    case CLOSES_SCOPE: ct_scope_close(rule_user.scope); break;
    case GOES_BACK:
        y = ct_set_requires_grad(ct_clone(p->param), true); /* nothing is recorded here */
        return ct_backward(ct_sum(ct_mul(y, y), CT_ALL, false));
    case BEHAVES:
    case MANNERS: break;
    }
    return true;
}

static bool hostile_step(const ct_optim_item *p, void *user) {
    (void)user;
    if (++rule_user.calls == rule_user.at && !misbehaves(p)) return false;
    return lion_step(p, NULL);
}
static bool hostile_step_all(ct_optim_item *items, int64_t n, void *user) {
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++) {
        ok = hostile_step(&items[i], user);
        items[i] = (ct_optim_item){.name = "nothing"}; /* the items are the rule's to change */
    }
    return ok;
}
static const char *hostile_fault(const double *numbers) {
    (void)numbers;
    return ++rule_user.calls == rule_user.at && !misbehaves(&(ct_optim_item){0}) ? "wrong" : NULL;
}
static bool hostile_takes(const char *name, const ct_tensor *param, void *user) {
    (void)name, (void)user;
    return ++rule_user.calls != rule_user.at ||
           misbehaves(&(ct_optim_item){.param = (ct_tensor *)(uintptr_t)param});
}

/* The words in each manner's error; NULL: there is no error. */
static const char *const manner_says[MANNERS] = {
    [RETURNS_FALSE] = "returned false",
    [LEAVES_ERROR] = "matmul: ",
    [WRITES_OUT_OF_SHAPE] = "copy_into: (2, 4, 3) does not broadcast to",
    [FREES_MODULE] = "ct_module_free: the Model is running",
    [FREES_OPTIM] = "ct_optim_free: called by the optimiser's own rule",
    [STEPS] = "ct_optim_step: called by the optimiser's own rule",
    [SETS] = "ct_optim_set: called by the optimiser's own rule",
    [GROUPS] = "ct_optim_group: called by the optimiser's own rule",
    [ZEROES] = "ct_optim_zero_grad: called by the optimiser's own rule",
    [SAVES] = "checkpoint_save: called by the optimiser's own rule",
    [LOADS] = "checkpoint_load: called by the optimiser's own rule",
    [CLOSES_SCOPE] = "closed a scope that it had not opened",
    [CONVERTS] = "ct_module_to: a step of an optimiser is running",
    [GOES_BACK] = "",
};

/* A step whose call number `at` misbehaves; then the program ends all that is there, or goes on. */
static void misbehave(manner how, int at, bool all) {
    ct_optim_rule rule = lion;
    if (all) rule.step = NULL, rule.step_all = hostile_step_all;
    else rule.step = hostile_step;
    rule_user.at = 0, rule_user.calls = 0, rule_user.how = how;
    rule_user.scope = ct_scope_open(context);
    ct_module *m = rule_user.module = model_in(context, how == CONVERTS ? CT_F32 : CT_F64);
    ct_optim *optim = rule_user.optim = ct_optim_new(m, &rule, (ct_optim_opts){.lr = 0.1});
    ct_checkpoint run = {.module = m, .optim = optim};
    give(m, 2, 1);
    good(ct_optim_step(optim)); /* layer.bias has a state then */
    good(ct_checkpoint_save(rule_user.path, &run));
    give_all(m, 1);
    double before[MOST], after[MOST];
    good(ct_to_f64(ct_module_get(m, names[1]), before, MOST));
    rule_user.at = at, rule_user.calls = 0;
    const bool done = ct_optim_step(optim);
    const char *says = manner_says[how];
    if (says) {
        char param[64];
        snprintf(param, sizeof param, "Lion: %s", all ? "" : names[at - 1]);
        ck_refused(done, how == GOES_BACK ? CT_ERR_GRAD : ct_error(context), param, says);
    } else if (!done) { /* a gradient that is gone is one that has ended */
        ck_assert_msg(how == ZEROES_GRADIENTS || how == FREEZES, "manner %d: %s", how,
                      ct_error_message(context));
        ct_error_clear(context);
    }
    ck_assert_int_eq(ct_error(context), CT_OK);
    if (how != FREES_CHILD) {
        good(ct_to_f64(ct_module_get(m, names[1]), after, MOST));
        if (says && at <= 2 && !all) ck_assert_mem_eq(before, after, sizeof before);
        for (int k = 0; k < PARAMS; k++)
            good(ct_set_requires_grad(ct_module_get(m, names[k]), true));
        give_all(m, 2);
    }
    rule_user.at = 0;
    good(ct_optim_step(optim));
    good(ct_checkpoint_save(rule_user.path, &run));
    if (at % 2) ct_optim_free(optim);
    ct_module_free(m);
    ct_scope_close(rule_user.scope);
    ck_assert_int_eq(ct_error(context), CT_OK);
}

START_TEST(hostile_steps) {
    snprintf(rule_user.path, sizeof rule_user.path, "%s", in_folder("run"));
    const int64_t live = ct_memory(context).live;
    for (int how = BEHAVES; how < MANNERS; how++)
        for (int at = 1; at <= PARAMS; at++)
            for (int all = 0; all < 2; all++) {
                misbehave((manner)how, at, all);
                if (how != KEEPS)
                    ck_assert_msg(ct_memory(context).live == live, "manner %d leaves memory", how);
            }
}
END_TEST

/* The same in `takes`, before there is an optimiser, and in `fault`. */
START_TEST(hostile_questions) {
    static const manner manners[] = {BEHAVES,          LEAVES_ERROR, FREES_MODULE,  FREES_CHILD,
                                     ZEROES_GRADIENTS, FREEZES,      LEAVES_SCOPES, CLOSES_SCOPE};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        for (int at = 1; at <= 4; at++) {
            ct_optim_rule rule = lion;
            rule.takes = hostile_takes, rule.rest = ct_adamw_rule();
            rule_user.how = manners[i], rule_user.at = at, rule_user.calls = 0;
            rule_user.scope = ct_scope_open(context);
            ct_module *m = rule_user.module = model();
            ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.lr = 0.1});
            if (!optim)
                ck_assert_msg(ct_error(context) && strstr(ct_error_message(context), "Lion: "),
                              "%s", ct_error_message(context));
            ct_error_clear(context);
            if (optim) good(ct_optim_step(optim));
            ct_module_free(m);
            ct_scope_close(rule_user.scope);
        }
    rule_user.how = BEHAVES, rule_user.at = 0;
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
        if (manners[i] == LEAVES_ERROR) continue;
        ct_optim_rule rule = lion;
        rule.fault = hostile_fault;
        rule_user.at = 0;
        rule_user.scope = ct_scope_open(context);
        ct_module *m = rule_user.module = model();
        ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.lr = 0.1});
        rule_user.how = manners[i], rule_user.calls = 0, rule_user.at = 1;
        ct_optim_set(optim, "lr", 0.25);
        ct_error(context);
        ct_error_clear(context);
        rule_user.at = 0;
        good(ct_optim_set(optim, "lr", 0.5) && ct_optim_step(optim));
        ct_module_free(m);
        ct_scope_close(rule_user.scope);
        ck_assert_int_eq(ct_error(context), CT_OK);
    }
}
END_TEST

/* Parameters before the failure have been updated, and their updates count; those after it
 * are as they were, and begin anew. */
START_TEST(a_step_that_ends_early) {
    ct_optim_rule rule = lion;
    rule.step = hostile_step;
    ct_module *m = rule_user.module = model();
    ct_optim *optim = ct_optim_new(m, &rule, lion_opts);
    good(ct_optim_set(optim, "clip_norm", 0));
    rule_user.how = RETURNS_FALSE, rule_user.at = 2, rule_user.calls = 0;
    reference r[PARAMS];
    begin(r, 0.2);
    const int64_t live = ct_memory(context).live;
    give_all(m, 1);
    ck_refused(ct_optim_step(optim), CT_ERR_ARGUMENT, "Lion: layer.weight: its step returned false",
               "");
    update(&r[0], 0, 0.05, 1, 1);
    is(m, r, 1e-14);
    ck_assert_int_gt(ct_memory(context).live, live);
    give_all(m, 2);
    good(ct_optim_step(optim));
    for (int k = 0; k < PARAMS; k++) update(&r[k], k, 0.05, 1, 2);
    is(m, r, 1e-14);
}
END_TEST

/* A write to a parameter is counted for a rule that writes through a pointer. */
static bool writes_by_pointer(const ct_optim_item *p, void *user) {
    (void)user;
    ct_data_f64(p->param)[0] = 3;
    return true;
}
START_TEST(writes_are_counted) {
    const ct_optim_rule rule = {.name = "Pointer", .step = writes_by_pointer};
    ct_module *m = model();
    ct_tensor *w = ct_module_get(m, "weight"), *y = ct_sum(ct_mul(w, w), CT_ALL, false);
    give(m, 0, 1);
    ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){0});
    good(optim && ct_optim_step(optim));
    ck_assert_double_eq(ct_data_f64(w)[0], 3);
    ck_refused(ct_backward(y), CT_ERR_GRAD, "changed", "");
}
END_TEST

/* ---- `fault` and on_error ---- */

static bool fault_refuses;
static const char *refusing_fault(const double *numbers) {
    (void)numbers;
    return fault_refuses ? "no number is right" : NULL;
}

/* A value that the rule has not accepted is not kept. */
START_TEST(a_fault_that_refuses) {
    ct_optim_rule rule = lion;
    rule.fault = refusing_fault;
    fault_refuses = false;
    ct_module *m = model();
    ct_optim *optim = ct_optim_new(m, &rule, lion_opts);
    good(ct_optim_set(optim, "clip_norm", 0));
    fault_refuses = true;
    ck_refused(ct_optim_set(optim, "lr", 0.5), CT_ERR_ARGUMENT, "Lion: ", "no number is right");
    reference r[PARAMS];
    begin(r, 0.2);
    give_all(m, 1);
    good(ct_optim_step(optim));
    for (int k = 0; k < PARAMS; k++) update(&r[k], k, 0.05, 1, 1);
    is(m, r, 1e-14);
}
END_TEST

static struct {
    ct_optim *optim;
    ct_module *module;
    bool frees;
} reported;
static void free_in_report(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message;
    if (!reported.frees) return;
    ct_optim_free(reported.optim);
    ct_module_free(reported.module);
}
static bool fails_once(const ct_optim_item *p, void *user) {
    bool *fails = user;
    const bool ok = !*fails || p->param != ct_module_get(reported.module, names[1]);
    if (!ok) *fails = false;
    return ok && lion_step(p, NULL);
}

/* A step whose on_error frees the optimiser and the module, or does nothing. */
START_TEST(a_step_that_is_reported) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .on_error = free_in_report});
    ct_optim_rule rule = lion;
    rule.step = fails_once;
    bool fails = true;
    ct_module *m = model_in(c, CT_F64);
    const ct_optim_opts opts = {.lr = 0.05, .user = &fails};
    ct_optim *optim = ct_optim_new(m, &rule, opts);
    reported.optim = optim, reported.module = m, reported.frees = _i;
    ck_assert_ptr_nonnull(optim);
    for (int value = 0; value < 2 - _i; value++) { /* the second is a number that is refused */
        give_all(m, 1);
        ck_assert(!(value ? ct_optim_set(optim, "beta1", 7) : ct_optim_step(optim)));
        ck_assert_ptr_nonnull(strstr(ct_error_message(c), value ? "beta1" : "returned false"));
        ct_error_clear(c);
    }
    give_all(m, 1);
    ck_assert_msg(ct_optim_step(optim), "%s", ct_error_message(c));
    ct_optim_free(optim);
    ct_module_free(m);
    ct_context_free(c);
}
END_TEST

/* The error names the rule and the parameter. */
START_TEST(no_memory_to_clip) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 8 << 20});
    ct_module *m = ct_module_new(c, "M");
    ct_module_add_param(m, "large", ct_zeros(c, CT_F32, CT_SHAPE(400000)));
    ct_optim_rule rule = lion;
    rule.states = NULL, rule.n_states = 0;
    ct_tensor *large = ct_module_get(m, "large");
    ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.clip_norm = 0.5});
    ck_assert(optim && ct_backward(ct_sum(large, CT_ALL, false)));
    while (ct_zeros(c, CT_F32, CT_SHAPE(50000))) {}
    ct_error_clear(c);
    refused_in(c, ct_optim_step(optim), "a step", CT_ERR_MEMORY, "Lion: large: ", "memory");
    ct_context_free(c);
}
END_TEST

/* ---- a rule that changes what is being loaded ---- */

typedef enum { FREES_OTHER, FREES_LOADED, FREES_A_CHILD, RELEASES_TENSOR, ADDS, CHANGES } change;
static struct {
    change how;
    bool acts;
    ct_module *loaded;
    ct_optim *other;
    ct_tensor *tensor;
} loads_into;
static const char *changing_fault(const double *numbers) {
    (void)numbers;
    if (!loads_into.acts) return NULL;
    loads_into.acts = false;
    switch (loads_into.how) {
    case FREES_OTHER: ct_optim_free(loads_into.other); break;
    case FREES_LOADED: ct_module_free(loads_into.loaded); break;
    case FREES_A_CHILD: ct_module_free(ct_module_child(loads_into.loaded, "layer")); break;
    case RELEASES_TENSOR: ct_release(loads_into.tensor); break;
    case ADDS: ct_module_add_param(loads_into.loaded, "new", ct_zeros(context, CT_F64, CT_SCALAR));
    case CHANGES: break;
    }
    return NULL;
}

static const char *const change_says[CHANGES] = {
    [FREES_OTHER] = "a step, a save or a load of the optimiser is running",
    [FREES_LOADED] = "has ended",
    [FREES_A_CHILD] = "the rule of an optimiser has changed the module",
    [RELEASES_TENSOR] = "has ended",
    [ADDS] = "the rule of an optimiser has changed the module"};

START_TEST(a_load_that_is_changed) {
    const char *path = in_folder("run");
    ct_optim_rule rule = lion;
    rule.fault = changing_fault;
    ct_module *small = model(), *m = model();
    ct_tensor *buffer = ct_ones(context, CT_F64, CT_SHAPE(3));
    good(ct_module_add_buffer(ct_module_child(m, "layer"), "buffer", buffer, true));
    ct_optim *optims[] = {ct_optim_new(small, &rule, (ct_optim_opts){0}),
                          ct_optim_new(ct_module_child(small, "layer"), &lion, (ct_optim_opts){0})};
    const ct_named tensor = {.name = "x", .tensor = ct_zeros(context, CT_F64, CT_SHAPE(2))};
    ct_checkpoint run = {
        .module = m, .optims = optims, .n_optims = 2, .tensors = &tensor, .n_tensors = 1};
    good(ct_checkpoint_save(path, &run));
    loads_into.how = (change)_i, loads_into.acts = true;
    loads_into.loaded = m, loads_into.other = optims[1], loads_into.tensor = tensor.tensor;
    ck_refused(ct_checkpoint_load(path, &run), CT_ERR_ARGUMENT,
               _i == FREES_OTHER ? "ct_optim_free" : "", change_says[_i]);
    ct_module_free(small);
    ct_module_free(m);
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

int main(void) {
    return run_tests("optim_rule_hostile", setup, teardown,
                     TESTS(TEST(hostile_steps), TEST(hostile_questions),
                           TEST(a_step_that_ends_early), TEST(writes_are_counted),
                           TEST(a_fault_that_refuses), LOOP(a_step_that_is_reported, 2),
                           TEST(no_memory_to_clip), LOOP(a_load_that_is_changed, CHANGES)));
}
