/* Optimisers of a program: their formulas, numbers and states, rules that share the parameters, and
 * checkpoints. */
#include "optim_rule_check.h"

/* ---- Lion against its formula ---- */

static double norm_of(const reference *r, int t) {
    double sum = 0;
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < r[k].n; i++) sum += pow(gradient(k, i, t), 2);
    return sqrt(sum);
}

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

/* Each kind of range, with its default, its limits, and its message. */
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

/* Takes the tensor out of a checkpoint, so that it is like one of a version without this tensor. */
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

START_TEST(a_missing_option) {
    const char *path = in_folder("run");
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 2});
    ct_checkpoint run = {.module = m, .optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.1}), .step = 1};
    good(ct_checkpoint_save(path, &run));
    remove_tensor(path, "optim.decay_matrices_only");
    ck_refused(ct_checkpoint_load(path, &run), CT_ERR_FORMAT, "missing: optim.decay_matrices_only",
               "");
}
END_TEST

int main(void) {
    return run_tests("optim_rule", setup, teardown,
                     TESTS(TEST(lion_follows_its_formula), TEST(adamw_as_a_rule),
                           TEST(numbers_are_checked), TEST(ranges), TEST(incomplete_rules),
                           TEST(a_rest), TEST(options_of_a_rest), TEST(resumed_with_the_same_bits),
                           TEST(checkpoints_of_others), TEST(a_missing_option)));
}
