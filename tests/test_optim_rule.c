/* Optimisers of a program: their formulas, numbers and states; rules that share the parameters;
 * rules that fail, and those that do what they must not. */
#include <setjmp.h>

#include "files.h"
#include "optim_model.h"
#include "optim_rules.h"

#include <math.h>

static ct_module *model(void) {
    ct_module *m = model_in(context, CT_F64);
    ck_assert_ptr_nonnull(m);
    return m;
}

static void good(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

/* ---- Lion against its formula ---- */

typedef struct {
    double p[MOST], m[MOST], lr_scale, decay;
    int n;
} reference;

static void begin(reference *r, double decay) {
    for (int k = 0; k < PARAMS; k++) {
        r[k] = (reference){.n = k < 2 ? MOST : ROWS, .lr_scale = 1, .decay = decay};
        for (int i = 0; i < r[k].n; i++) r[k].p[i] = sin(i + k + 1);
    }
}

static double norm_of(const reference *r, int t) {
    double sum = 0;
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < r[k].n; i++) sum += pow(gradient(k, i, t), 2);
    return sqrt(sum);
}

static void update(reference *r, int k, double lr, double scale, int t) {
    for (int i = 0; i < r->n; i++) {
        const double g = scale * gradient(k, i, t), c = r->m[i] + 0.1 * (g - r->m[i]);
        r->p[i] *= 1 - lr * r->lr_scale * r->decay;
        r->p[i] -= lr * r->lr_scale * (c > 0 ? 1 : -1);
        r->m[i] += (1 - 0.98) * (g - r->m[i]);
    }
}

static void is(ct_module *m, const reference *r, double gate) {
    for (int k = 0; k < PARAMS; k++) {
        double got[MOST];
        good(ct_to_f64(ct_module_get(m, names[k]), got, r[k].n));
        for (int i = 0; i < r[k].n; i++)
            ck_assert_msg(fabs(got[i] - r[k].p[i]) <= gate, "%s[%d] is %.17g, not %.17g", names[k],
                          i, got[i], r[k].p[i]);
    }
}

static const ct_optim_opts lion_opts = {.lr = 0.05,
                                        .weight_decay = 0.2,
                                        .clip_norm = 0.7,
                                        .skip_nonfinite = true,
                                        .numbers = (const double[]){0, 0.98}};

START_TEST(lion_follows_its_formula) {
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_module *m = model_in(context, (ct_dtype)dtype);
        reference r[PARAMS];
        begin(r, 0.2);
        ct_optim *optim = ct_optim_new(m, &lion, lion_opts);
        ck_assert_ptr_nonnull(optim);
        double lr = 0.05;
        for (int t = 1; t <= 10; t++) {
            if (t == 3) {
                good(ct_optim_group(optim, "layer.*", (ct_group_opts){.lr_scale = 0.5}));
                r[1].lr_scale = r[2].lr_scale = 0.5, r[1].decay = r[2].decay = 0;
            }
            if (t == 4) ct_optim_set_lr(optim, lr = 0.02);
            if (t == 6) good(ct_optim_set(optim, "clip_norm", 0));
            give_all(m, t);
            if (t == 5) { /* a step that is left out */
                ct_tensor *g = ct_grad(ct_module_get(m, "layer.bias"));
                ck_assert(ct_add_into(g, ct_full(context, CT_F32, CT_SCALAR, INFINITY), 1));
                good(ct_optim_step(optim));
                ck_assert_int_eq(ct_optim_skipped(optim), 1);
                continue;
            }
            good(ct_optim_step(optim));
            const double norm = norm_of(r, t), gate = dtype == CT_F64 ? 1e-13 : 1e-6;
            ck_assert_double_eq_tol(ct_optim_grad_norm(optim), norm, 1e-5);
            for (int k = 0; k < PARAMS; k++)
                update(&r[k], k, lr, t < 6 ? 0.7 / (norm + 1e-6) : 1, t);
            is(m, r, gate);
            /* stored gradients do not change */
            ck_assert_double_eq_tol(ct_item(ct_select(ct_grad(ct_module_get(m, names[2])), 0, 1)),
                                    gradient(2, 1, t), 1e-6);
        }
        ct_module_free(m);
    }
}
END_TEST

/* ---- AdamW, by its rule and by ops ---- */

static bool adamw_step(const ct_optim_item *p, void *user) {
    const double b1 = p->numbers[0], b2 = p->numbers[1], eps = p->numbers[2];
    const double t = (double)p->step;
    ++*(int *)user;
    ct_tensor *m = p->state[0], *v = p->state[1];
    if (!ct_scale_into(p->param, 1 - p->lr * p->weight_decay) ||
        !ct_lerp_into(m, p->grad, 1 - b1) || !ct_scale_into(v, b2) ||
        !ct_add_into(v, ct_mul(p->grad, p->grad), 1 - b2))
        return false;
    ct_tensor *root = ct_scale(ct_sqrt(v), 1 / sqrt(1 - pow(b2, t)));
    return ct_add_into(p->param, ct_div(m, ct_add_scalar(root, eps)), -p->lr / (1 - pow(b1, t)));
}

START_TEST(adamw_as_a_rule) {
    int calls = 0;
    ct_optim_rule own = *ct_adamw_rule();
    own.step = adamw_step, own.step_all = NULL;
    ct_module *m[3];
    ct_optim *optim[3];
    for (int i = 0; i < 3; i++) m[i] = model();
    const ct_optim_opts opts = {
        .lr = 0.03, .weight_decay = 0.1, .decay_matrices_only = true, .user = &calls};
    optim[0] = ct_adamw_new(
        m[0], (ct_adamw_opts){.lr = 0.03, .weight_decay = 0.1, .decay_matrices_only = true});
    optim[1] = ct_optim_new(m[1], ct_adamw_rule(), opts);
    optim[2] = ct_optim_new(m[2], &own, opts);
    for (int t = 1; t <= 6; t++)
        for (int i = 0; i < 3; i++) {
            give_all(m[i], t);
            if (t == 3) ct_zero_grad(ct_module_get(m[i], names[1]));
            good(ct_optim_step(optim[i]));
        }
    ck_assert(same(m[0], m[1]));
    ck_assert_int_eq(calls, 6 * PARAMS - 1);
    for (int k = 0; k < PARAMS; k++) {
        ct_tensor *difference =
            ct_abs(ct_sub(ct_module_get(m[0], names[k]), ct_module_get(m[2], names[k])));
        ck_assert_double_lt(ct_item(ct_max(difference, CT_ALL, false)), 1e-13);
    }
}
END_TEST

/* ---- numbers ---- */

START_TEST(numbers_are_checked) {
    static const double wrong[][LION_NUMBERS] = {{1}, {-0.5}, {NAN}, {0, INFINITY}, {0, 0.5}};
    static const char *const says[] = {"Lion: beta1 is 1, must be at least 0 and less than 1",
                                       "Lion: beta1 is -0.5, ", "Lion: beta1 is nan, ",
                                       "Lion: beta2 is inf, ",
                                       "Lion: beta1 must not be greater than beta2"};
    ct_module *m = model();
    for (int i = 0; i < 5; i++)
        ck_refused(ct_optim_new(m, &lion, (ct_optim_opts){.numbers = wrong[i]}), CT_ERR_ARGUMENT,
                   says[i], "");
    ck_refused(ct_optim_new(m, &lion, (ct_optim_opts){.lr = -1}), CT_ERR_ARGUMENT,
               "Lion: lr is -1, must be a number of at least 0", "");
    ct_optim *optim = ct_optim_new(m, &lion, (ct_optim_opts){.numbers = (double[]){CT_ZERO, 0}});
    good(optim && ct_optim_set(optim, "beta2", 0) && ct_optim_set(optim, "beta2", 0.5) &&
         ct_optim_set(optim, "beta1", 0.25));
    ck_refused(ct_optim_set(optim, "beta2", 0.125), CT_ERR_ARGUMENT,
               "Lion: beta1 must not be greater than beta2", "");
    ck_refused(ct_optim_set(optim, "beta2", 1), CT_ERR_ARGUMENT, "Lion: beta2 is 1, must be", "");
    ck_refused(ct_optim_set(optim, "beta", 1), CT_ERR_ARGUMENT,
               "no option \"beta\": there are lr, weight_decay, decay_matrices_only, clip_norm, "
               "skip_nonfinite, beta1, beta2",
               "");
}
END_TEST

static bool all_numbers(const ct_optim_item *p, void *user) {
    memcpy(user, p->numbers, 6 * sizeof(double));
    return true;
}

/* Each kind of range, with its default, its limits, and what the message says. */
START_TEST(ranges) {
    static const struct {
        ct_optim_number number;
        double good[3], bad[3];
        const char *says;
    } rows[] = {
        {{.name = "a", .value = 2, .least = 1, .most = 3},
         {1, 2, 3},
         {0.5, 3.5, NAN},
         "must be at least 1 and at most 3"},
        {{.name = "b", .value = 2, .least = 1, .open_least = true},
         {1.5, 2, 1e300},
         {1, 0, INFINITY},
         "must be a number greater than 1"},
        {{.name = "c", .value = -2, .least = -INFINITY, .most = -1},
         {-1, -2, -1e300},
         {0, 1, NAN},
         "must be a number of at most -1"},
        {{.name = "d", .value = -2, .least = -INFINITY, .most = CT_ZERO, .open_most = true},
         {-1, -2, -3},
         {0, 1, -INFINITY},
         "must be a number less than 0"},
        {{.name = "e", .value = 1, .flag = true}, {0, 1, 1}, {0.5, 2, NAN}, "must be 0 or 1"},
        {{.name = "f", .least = -INFINITY},
         {0, -1, 1},
         {INFINITY, NAN, -INFINITY},
         "must be a finite number"},
    };
    enum { N = sizeof rows / sizeof *rows };
    ct_optim_number numbers[N];
    double got[N];
    for (int i = 0; i < N; i++) numbers[i] = rows[i].number;
    const ct_optim_rule rule = {
        .name = "All", .numbers = numbers, .n_numbers = N, .step = all_numbers};
    ct_module *m = model();
    ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.user = got});
    give(m, 0, 1);
    good(optim && ct_optim_step(optim));
    for (int i = 0; i < N; i++) {
        ck_assert_double_eq(got[i], rows[i].number.value);
        for (int k = 0; k < 3; k++) {
            good(ct_optim_set(optim, numbers[i].name, rows[i].good[k]) && ct_optim_step(optim));
            ck_assert_double_eq(got[i], rows[i].good[k]);
            ck_refused(ct_optim_set(optim, numbers[i].name, rows[i].bad[k]), CT_ERR_ARGUMENT,
                       numbers[i].name, rows[i].says);
        }
    }
    ct_optim_free(optim);
    numbers[0].value = 5; /* a default outside of its own range */
    ck_refused(ct_optim_new(m, &rule, (ct_optim_opts){0}), CT_ERR_ARGUMENT,
               "All: a is 5, must be at least 1 and at most 3", "");
    numbers[0].value = 2, numbers[0].least = NAN;
    ck_refused(ct_optim_new(m, &rule, (ct_optim_opts){0}), CT_ERR_ARGUMENT, "All: a is 2", "");
}
END_TEST

/* ---- rules that cannot be ---- */

static bool no_step_all(ct_optim_item *items, int64_t n, void *user) {
    return (void)items, (void)n, (void)user, true;
}

START_TEST(incomplete_rules) {
    static const char *const none[] = {NULL}, *const empty[] = {""}, *const twice[] = {"m", "m"},
                             *const dot[] = {"a.b"}, *const step[] = {"step"},
                             *const rest[] = {"rest"}, *const five[] = {"a", "b", "c", "d", "e"},
                             *const longest[] = {"a234567890123456789012345678901"},
                             *const longer[] = {"a2345678901234567890123456789012"};
    static const ct_optim_number unnamed[] = {{.value = 1}}, lr[] = {{.name = "lr"}},
                                 skipped[] = {{.name = "skipped"}}, space[] = {{.name = "a b"}},
                                 same_name[] = {{.name = "a"}, {.name = "b"}, {.name = "a"}};
    const ct_optim_rule plain = {.name = "R", .step = all_numbers};
    ct_optim_rule chain[5];
    for (int i = 0; i < 5; i++) chain[i] = plain, chain[i].rest = i < 4 ? &chain[i + 1] : NULL;
    ct_optim_rule circle = plain;
    circle.rest = &circle;
    const struct {
        ct_optim_rule rule;
        const char *says;
    } rows[] = {
        {{.step = all_numbers}, "a rule has no name"},
        {{.name = "", .step = all_numbers}, "a rule has no name"},
        {{.name = "R"}, "R: the rule has no step"},
        {{.name = "R", .step = all_numbers, .n_states = -1}, "0 states"},
        {{.name = "R", .step = all_numbers, .n_states = 1}, "0 states"},
        {{.name = "R", .step = all_numbers, .n_states = 5, .states = five},
         "5 states, must be 0 to 4"},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = none}, "called \"NULL\""},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = empty},
         "state 0 is called \"\""},
        {{.name = "R", .step = all_numbers, .n_states = 2, .states = twice},
         "state 1 is called \"m\""},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = dot}, "called \"a.b\""},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = step}, "called \"step\""},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = rest}, "called \"rest\""},
        {{.name = "R", .step = all_numbers, .n_states = 1, .states = longer}, "state 0"},
        {{.name = "R", .step = all_numbers, .n_numbers = -1}, "0 numbers"},
        {{.name = "R", .step = all_numbers, .n_numbers = 1}, "0 numbers"},
        {{.name = "R", .step = all_numbers, .n_numbers = 1, .numbers = unnamed},
         "number 0 is called"},
        {{.name = "R", .step = all_numbers, .n_numbers = 1, .numbers = lr}, "called \"lr\""},
        {{.name = "R", .step = all_numbers, .n_numbers = 1, .numbers = skipped},
         "called \"skipped\""},
        {{.name = "R", .step = all_numbers, .n_numbers = 1, .numbers = space}, "called \"a b\""},
        {{.name = "R", .step = all_numbers, .n_numbers = 3, .numbers = same_name},
         "number 2 is called \"a\""},
        {{.name = "R", .step = all_numbers, .rest = &circle}, "more than 4 rules"},
        {chain[0], "R: more than 4 rules"},
        {{.name = "R", .step = all_numbers, .takes = takes_matrices},
         "R: no rule takes the parameter layer.bias"},
    };
    ct_module *m = model();
    const int64_t live = ct_memory(context).live;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_refused(ct_optim_new(m, &rows[i].rule, (ct_optim_opts){0}), CT_ERR_ARGUMENT,
                   rows[i].says, "");
    ck_refused(ct_optim_new(m, NULL, (ct_optim_opts){0}), CT_ERR_ARGUMENT, "the rule is NULL", "");
    ck_assert(!ct_optim_new(NULL, &lion, (ct_optim_opts){0}) &&
              !ct_optim_new(NULL, NULL, (ct_optim_opts){0}));
    ck_assert_int_eq(ct_memory(context).live, live);
    const ct_optim_rule both = {.name = "Both",
                                .step_all = no_step_all,
                                .n_states = 1,
                                .states = longest,
                                .rest = &chain[2]};
    ck_assert_ptr_nonnull(ct_optim_new(m, &both, (ct_optim_opts){0}));
}
END_TEST

/* ---- several rules ---- */

static bool takes_by_name(const char *name, const ct_tensor *param, void *user) {
    (void)param;
    ++*(int *)user;
    return !strstr(name, "tied");
}

/* The options, numbers and states of a rest; a parameter with two names. */
START_TEST(a_rest) {
    int asked = 0;
    ct_optim_rule own = lion;
    own.takes = takes_by_name, own.rest = ct_adamw_rule();
    ct_module *m = model(), *like = model();
    ct_module *head = ct_module_add_child(m, "head", ct_module_new(context, "Head"));
    ct_module_add_param(head, "tied", ct_module_get(m, "layer.weight"));
    ct_optim *optim = ct_optim_new(
        m, &own,
        (ct_optim_opts){.lr = 0.05, .numbers = (double[]){0, 0.98, 0.8, 0, 1e-3}, .user = &asked});
    ck_assert_int_eq(asked, 4); /* each name of the parameters once */
    ct_optim *adamw = ct_adamw_new(like, (ct_adamw_opts){.lr = 0.05, .beta1 = 0.8, .eps = 1e-3});
    reference r[PARAMS];
    begin(r, 0);
    for (int t = 1; t <= 4; t++) {
        if (t == 3)
            good(ct_optim_set(optim, "rest.beta1", 0.7) && ct_optim_set(adamw, "beta1", 0.7));
        give_all(m, t), give_all(like, t);
        good(ct_optim_step(optim) && ct_optim_step(adamw));
        for (int k = 0; k < PARAMS; k++) update(&r[k], k, 0.05, 1, t);
    }
    good(ct_to_f64(ct_module_get(like, names[1]), r[1].p, MOST));
    is(m, r, 1e-13);
    ck_refused(ct_optim_set(optim, "rest.beta1", 1), CT_ERR_ARGUMENT, "Lion: rest.beta1 is 1", "");
    ck_refused(ct_optim_set(optim, "rest.m", 1), CT_ERR_ARGUMENT,
               "beta1, beta2, rest.beta1, rest.beta2, rest.eps", "");
    ck_assert_int_eq(asked, 4);
}
END_TEST

/* A rest's own weight decay and factor of lr. */
START_TEST(options_of_a_rest) {
    static const ct_optim_number more[] = {{.name = "beta1", .value = 0.9, .most = 1},
                                           {.name = "beta2", .value = 0.98, .most = 1},
                                           {.name = "lr_scale", .value = 0.5},
                                           {.name = "weight_decay", .value = 0.3},
                                           {.name = "decay_matrices_only", .flag = true}};
    ct_optim_rule rest = lion, first = normed;
    rest.numbers = more, rest.n_numbers = 5;
    first.rest = &rest;
    ct_module *m = model();
    ct_optim *optim = ct_optim_new(
        m, &first, (ct_optim_opts){.lr = 0.05, .weight_decay = 9, .decay_matrices_only = true});
    reference r[PARAMS];
    begin(r, 0.3);
    for (int t = 1; t <= 4; t++) {
        if (t == 3) {
            good(ct_optim_set(optim, "rest.decay_matrices_only", 1) &&
                 ct_optim_set(optim, "rest.lr_scale", 2));
            r[2].decay = 0;
        }
        give_all(m, t);
        good(ct_optim_step(optim));
        update(&r[2], 2, t < 3 ? 0.025 : 0.1, 1, t);
    }
    for (int k = 0; k < 2; k++) good(ct_to_f64(ct_module_get(m, names[k]), r[k].p, MOST));
    is(m, r, 1e-13);
}
END_TEST

/* ---- checkpoints ---- */

typedef struct {
    ct_module *module;
    ct_optim *optim;
} training;

static training start(int kind) {
    training t = {.module = ct_mlp_new(context, (ct_mlp_opts){.dim = 6, .hidden = 10})};
    const ct_optim_opts opts = {
        .lr = 0.01, .weight_decay = 0.1, .clip_norm = 0.5, .skip_nonfinite = kind == 1};
    t.optim = kind == 0 ? ct_optim_new(t.module, &lion, opts)
              : kind == 1
                  ? ct_optim_new(t.module, &normed, opts)
                  : ct_muon_new(t.module, (ct_muon_opts){.lr = 0.02, .adamw = {.lr = 0.01}});
    ck_assert_msg(t.optim != NULL, "%s", ct_error_message(context));
    return t;
}

static void train(training t, int steps) {
    for (int i = 0; i < steps; i++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 6));
        ct_optim_zero_grad(t.optim);
        good(ct_backward(ct_mse_loss(ct_forward(t.module, x), ct_scale(x, 3))));
        good(ct_optim_step(t.optim));
        ct_scope_close(scope);
    }
}

START_TEST(resumed_with_the_same_bits) {
    const char *path = in_folder("run");
    for (int kind = 0; kind < 3; kind++) {
        training whole = start(kind), other = start(kind);
        good(ct_optim_group(whole.optim, "proj.*", (ct_group_opts){.lr_scale = 0.5}));
        good(ct_optim_group(whole.optim, "fc.bias", (ct_group_opts){.frozen = true}));
        good(ct_optim_set(whole.optim, kind == 2 ? "nesterov" : "clip_norm", 0));
        train(whole, 3);
        ct_checkpoint run = {.module = whole.module, .optim = whole.optim, .step = 3};
        good(ct_checkpoint_save(path, &run));
        train(whole, 3);
        train(other, 2);
        run = (ct_checkpoint){.module = other.module, .optim = other.optim};
        good(ct_checkpoint_load(path, &run));
        ck_assert_int_eq(run.step, 3);
        train(other, 3);
        ck_assert_msg(same(whole.module, other.module), "kind %d", kind);
    }
}
END_TEST

/* Of another optimiser, and of the same with other states or numbers. */
START_TEST(checkpoints_of_others) {
    const char *path = in_folder("run");
    training t = start(0);
    train(t, 1);
    ct_checkpoint run = {.module = t.module, .optim = t.optim};
    good(ct_checkpoint_save(path, &run));
    static const char *const moment[] = {"moment"};
    ct_optim_rule renamed = lion, other = lion, fewer = lion, stricter = lion;
    ct_optim_number numbers[LION_NUMBERS];
    memcpy(numbers, lion_numbers, sizeof numbers);
    renamed.name = "Tiger", other.states = moment, fewer.n_numbers = 1, fewer.fault = NULL;
    stricter.numbers = numbers, numbers[LION_BETA2].most = 0.95, numbers[LION_BETA2].value = 0.9;
    const struct {
        const ct_optim_rule *rule;
        const char *says;
    } rows[] = {{&renamed, "the optimiser is Tiger, the file's is Lion"},
                {&other, "optim.m.fc.weight"},
                {&fewer, "optim.beta2"},
                {&stricter, "optim.beta2 is 0.99, must be at least 0 and less than 0.95"},
                {&normed, "the optimiser is Normed, the file's is Lion"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run.optim = ct_optim_new(t.module, rows[i].rule, (ct_optim_opts){0});
        ck_refused(ct_checkpoint_load(path, &run), CT_ERR_FORMAT, rows[i].says, "");
        ct_optim_free(run.optim);
    }
    ct_optim_rule loose = lion;
    loose.fault = NULL;
    run.optim = ct_optim_new(t.module, &loose, (ct_optim_opts){.numbers = (double[]){0.995, 0}});
    good(run.optim && ct_checkpoint_save(path, &run));
    run.optim = t.optim;
    ck_refused(ct_checkpoint_load(path, &run), CT_ERR_FORMAT,
               "optim: beta1 must not be greater than beta2", "");
    train(t, 1);
}
END_TEST

/* Takes the tensor out of a checkpoint, as a version that did not know it has written it. */
static void remove_tensor(const char *path, const char *name) {
    static char bytes[1 << 16], header[1 << 15], out[1 << 16];
    const size_t size = read_all(path, bytes, sizeof bytes), at = place_of(bytes, name);
    uint64_t length;
    put_little(&length, bytes, 8);
    memcpy(header, bytes + 8, length), header[length] = 0;
    const unsigned long long place = at - 8 - length;
    char quoted[64];
    snprintf(quoted, sizeof quoted, ",\"%s\":{", name);
    char *entry = strstr(header, quoted);
    ck_assert_ptr_nonnull(entry);
    char *next = strchr(strchr(entry, '}'), ',');
    memmove(entry, next ? next : strchr(entry, '}') + 1,
            strlen(next ? next : strchr(entry, '}') + 1) + 1);
    size_t used = 8;
    for (const char *from = header; *from;) { /* the data behind it moves by one byte */
        static const char key[] = "\"data_offsets\":[";
        unsigned long long begin, end;
        int n = 0;
        if (!strncmp(from, key, sizeof key - 1) &&
            sscanf(from + sizeof key - 1, "%llu,%llu]%n", &begin, &end, &n) == 2) {
            used += (size_t)sprintf(out + used, "%s%llu,%llu]", key, begin - (begin > place),
                                    end - (end > place));
            from += sizeof key - 1 + (size_t)n;
        } else {
            out[used++] = *from++;
        }
    }
    while (used % 8) out[used++] = ' ';
    length = used - 8;
    put_little(out, &length, 8);
    memcpy(out + used, bytes + 8 + (at - 8 - place), place);
    used += place;
    memcpy(out + used, bytes + at + 1, size - at - 1);
    used += size - at - 1;
    write_all(path, out, used);
    seal_file(path);
}

/* Version 0.1 wrote no decay_matrices_only of SGD, which had none. */
START_TEST(a_checkpoint_of_before) {
    const char *path = in_folder("run");
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 2}),
              *like = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 2});
    training t = {m, ct_sgd_new(m, (ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5})};
    t.module = m;
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 3));
    ct_checkpoint run = {.module = m, .optim = t.optim, .step = 1};
    for (int i = 0; i < 2; i++) {
        ct_optim_zero_grad(t.optim);
        good(ct_backward(ct_mse_loss(ct_forward(m, x), ct_neg(x))) && ct_optim_step(t.optim));
        if (i == 0) good(ct_checkpoint_save(path, &run));
    }
    remove_tensor(path, "optim.decay_matrices_only");
    ct_optim *optim = ct_sgd_new(like, (ct_sgd_opts){.lr = 7, .momentum = 0.1});
    good(ct_optim_set(optim, "decay_matrices_only", 1));
    run = (ct_checkpoint){.module = like, .optim = optim};
    good(ct_checkpoint_load(path, &run));
    ct_optim_zero_grad(optim);
    good(ct_backward(ct_mse_loss(ct_forward(like, x), ct_neg(x))) && ct_optim_step(optim));
    ck_assert(same(m, like));
    good(ct_checkpoint_save(path, &run));
    remove_tensor(path, "optim.nesterov");
    ck_refused(ct_checkpoint_load(path, &run), CT_ERR_FORMAT, "missing: optim.nesterov", "");
}
END_TEST

/* ---- rules that fail, and those that do what they must not ---- */

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
    ZEROES_GRADIENTS, /* by ct_zero_grad */
    RELEASES,
    KEEPS,
    FREEZES,
    CONVERTS,
    SAVES,
    LOADS,
    LEAVES_SCOPES,
    CLOSES_SCOPE,
    GOES_BACK,
    LEAVES, /* by longjmp */
    MANNERS
} manner;

static struct {
    manner how;
    int at, calls; /* the call that does it, from 1 */
    ct_module *module;
    ct_optim *optim;
    ct_scope scope; /* of the program */
    char path[512];
    jmp_buf out;
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
    case CONVERTS: ct_module_to_bf16(rule_user.module); break;
    case SAVES: ct_checkpoint_save(rule_user.path, &run); break;
    case LOADS: ct_checkpoint_load(rule_user.path, &run); break;
    case LEAVES_SCOPES:
        for (int i = 0; i < 5; i++) ct_exp(ct_clone(p->param)), ct_scope_open(context);
        break;
    case CLOSES_SCOPE: ct_scope_close(rule_user.scope); break;
    case GOES_BACK:
        y = ct_set_requires_grad(ct_clone(p->param), true); /* nothing is recorded here */
        return ct_backward(ct_sum(ct_mul(y, y), CT_ALL, false));
    case LEAVES: ct_exp(ct_clone(p->param)), longjmp(rule_user.out, 1);
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

/* What an error of each manner says; NULL: it is none. */
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
    [CONVERTS] = "ct_module_to_bf16: a step of an optimiser is running",
    [GOES_BACK] = "",
    [LEAVES] = "was left by an exception or by longjmp",
};

static bool step_of(ct_optim *optim) {
    if (setjmp(rule_user.out)) return false;
    return ct_optim_step(optim);
}

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
    const bool done = step_of(optim);
    const char *says = manner_says[how];
    if (how == LEAVES) ck_assert(!done);
    if (says) {
        char param[64];
        snprintf(param, sizeof param, "Lion: %s", all || how == LEAVES ? "" : names[at - 1]);
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
                if (how != KEEPS && how != LEAVES)
                    ck_assert_msg(ct_memory(context).live == live, "manner %d leaves memory", how);
            }
}
END_TEST

/* The same in `takes`, before there is an optimiser, and in `fault`. */
START_TEST(hostile_questions) {
    static const manner manners[] = {BEHAVES,       LEAVES_ERROR,     FREES_MODULE,
                                     FREES_CHILD,   ZEROES_GRADIENTS, FREEZES,
                                     LEAVES_SCOPES, CLOSES_SCOPE,     LEAVES};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        for (int at = 1; at <= 4; at++) {
            ct_optim_rule rule = lion;
            rule.takes = hostile_takes, rule.rest = ct_adamw_rule();
            rule_user.how = manners[i], rule_user.at = at, rule_user.calls = 0;
            rule_user.scope = ct_scope_open(context);
            ct_module *m = rule_user.module = model();
            const bool left = setjmp(rule_user.out);
            ct_optim *optim = left ? NULL : ct_optim_new(m, &rule, (ct_optim_opts){.lr = 0.1});
            if (!optim)
                ck_assert_msg(ct_error(context) &&
                                  (left || strstr(ct_error_message(context), "Lion: ")),
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
        if (!setjmp(rule_user.out)) ct_optim_set(optim, "lr", 0.25);
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

/* Parameters before the one that failed have been updated, and their updates count; those after it
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

/* ---- exceptions out of `fault` and on_error ---- */

static jmp_buf out_of_fault;
static bool fault_leaves;
static const char *leaving_fault(const double *numbers) {
    (void)numbers;
    if (fault_leaves) longjmp(out_of_fault, 1);
    return NULL;
}

/* A value that the rule has not accepted is not kept. */
START_TEST(a_fault_that_is_left) {
    ct_optim_rule rule = lion;
    rule.fault = leaving_fault;
    fault_leaves = false;
    ct_module *m = model();
    ct_optim *optim = ct_optim_new(m, &rule, lion_opts);
    good(ct_optim_set(optim, "clip_norm", 0));
    fault_leaves = true;
    if (!setjmp(out_of_fault)) ct_optim_set(optim, "lr", 0.5);
    ck_refused(false, CT_ERR_ARGUMENT, "its fault was left", "");
    reference r[PARAMS];
    begin(r, 0.2);
    give_all(m, 1);
    good(ct_optim_step(optim));
    for (int k = 0; k < PARAMS; k++) update(&r[k], k, 0.05, 1, 1);
    is(m, r, 1e-14);
}
END_TEST

static jmp_buf out_of_report;
static struct {
    ct_optim *optim;
    ct_module *module;
    bool frees;
} reported;
static void leave_report(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message;
    if (!reported.frees) longjmp(out_of_report, 1);
    ct_optim_free(reported.optim);
    ct_module_free(reported.module);
}
static bool fails_once(const ct_optim_item *p, void *user) {
    bool *fails = user;
    const bool ok = !*fails || p->param != ct_module_get(reported.module, names[1]);
    if (!ok) *fails = false;
    return ok && lion_step(p, NULL);
}

/* A step that on_error leaves, or in which it frees the optimiser and the module. */
START_TEST(a_step_that_is_reported) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .on_error = leave_report});
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
        if (!setjmp(out_of_report))
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
    Suite *suite = suite_create("optim_rule");
    TCase *tcase = tcase_create("optim_rule");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, lion_follows_its_formula);
    tcase_add_test(tcase, adamw_as_a_rule);
    tcase_add_test(tcase, numbers_are_checked);
    tcase_add_test(tcase, ranges);
    tcase_add_test(tcase, incomplete_rules);
    tcase_add_test(tcase, a_rest);
    tcase_add_test(tcase, options_of_a_rest);
    tcase_add_test(tcase, resumed_with_the_same_bits);
    tcase_add_test(tcase, checkpoints_of_others);
    tcase_add_test(tcase, a_checkpoint_of_before);
    tcase_add_test(tcase, hostile_steps);
    tcase_add_test(tcase, hostile_questions);
    tcase_add_test(tcase, a_step_that_ends_early);
    tcase_add_test(tcase, writes_are_counted);
    tcase_add_test(tcase, a_fault_that_is_left);
    tcase_add_loop_test(tcase, a_step_that_is_reported, 0, 2);
    tcase_add_test(tcase, no_memory_to_clip);
    tcase_add_loop_test(tcase, a_load_that_is_changed, 0, CHANGES);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
