/* Parameter groups against formulas in doubles, patterns of names, frozen parameters and the memory
 * of states, and steps that skip_nonfinite leaves out. */
#include "tests/support/nn_check.h"

enum { PARAMS = 5, MOST = 12 };
static const char *const names[PARAMS] = {"embed", "layers.0.weight", "layers.0.bias",
                                          "layers.1.weight", "layers.1.bias"};

/* embed (3, 4), layers.0 and layers.1 each with a weight (4, 3) and a bias (4). */
static ct_module *model_in(ct_context *c) {
    ct_module *m = ct_module_new(c, "Model"), *layers = ct_module_new(c, "Layers");
    ct_module_add_param(m, "embed", ct_zeros(c, CT_F64, CT_SHAPE(3, 4)));
    ct_module_add_child(m, "layers", layers);
    for (int i = 0; i < 2; i++) {
        ct_module *layer = ct_module_add_child(layers, i ? "1" : "0", ct_module_new(c, "Layer"));
        ct_module_add_param(layer, "weight", ct_zeros(c, CT_F64, CT_SHAPE(4, 3)));
        ct_module_add_param(layer, "bias", ct_zeros(c, CT_F64, CT_SHAPE(4)));
    }
    for (int k = 0; k < PARAMS; k++) {
        ct_tensor *p = ct_module_get(m, names[k]);
        for (int i = 0; i < ct_numel(p); i++) ct_data_f64(p)[i] = sin(i + k + 1);
    }
    ck_assert_int_eq(ct_error(c), CT_OK);
    return m;
}
static ct_module *model(void) { return model_in(context); }

static double gradient(int k, int i, int t) { return cos(3 * i + 7 * k + t) + 0.1 * k; }

/* Sets the gradient of parameter k to its value of step t. */
static void give(ct_module *m, int k, int t) {
    ct_tensor *p = ct_module_get(m, names[k]);
    ct_context *c = ct_context_of(p);
    ct_scope scope = ct_scope_open(c);
    double g[MOST];
    for (int i = 0; i < MOST; i++) g[i] = gradient(k, i, t);
    ck_assert(ct_zero_grad(p));
    ck_assert(ct_backward(ct_sum(ct_mul(p, ct_from_f64(c, ct_shape_of(p), g)), CT_ALL, false)));
    ct_scope_close(scope);
}
static void give_all(ct_module *m, int t) {
    for (int k = 0; k < PARAMS; k++) give(m, k, t);
}

/* ---- formulas ---- */

typedef enum { SGD, ADAM, ADAMW, KINDS } rule;

typedef struct {
    double p[MOST], m[MOST], v[MOST], lr_scale, decay;
    int n, t; /* elements, updates so far */
    bool frozen;
} reference;

static void begin(reference *r, ct_module *m, bool matrices_only, double decay) {
    for (int k = 0; k < PARAMS; k++) {
        const ct_tensor *p = ct_module_get(m, names[k]);
        r[k] = (reference){.n = (int)ct_numel(p),
                           .lr_scale = 1,
                           .decay = matrices_only && ct_ndim(p) < 2 ? 0 : decay};
        for (int i = 0; i < r[k].n; i++) r[k].p[i] = sin(i + k + 1);
    }
}

static double norm_of(const reference *r, int t) {
    double sum = 0;
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < r[k].n && !r[k].frozen; i++) sum += pow(gradient(k, i, t), 2);
    return sqrt(sum);
}

static void update(reference *r, int k, rule kind, double lr, double scale, int t) {
    if (r->frozen) return;
    r->t++;
    lr *= r->lr_scale;
    for (int i = 0; i < r->n; i++) {
        double g = scale * gradient(k, i, t);
        if (kind != ADAMW) g += r->decay * r->p[i];
        else r->p[i] *= 1 - lr * r->decay;
        if (kind == SGD) {
            r->m[i] = r->t == 1 ? g : 0.9 * r->m[i] + g;
            r->p[i] -= lr * r->m[i];
            continue;
        }
        r->m[i] += 0.1 * (g - r->m[i]);
        r->v[i] = 0.999 * r->v[i] + 0.001 * g * g;
        r->p[i] -=
            lr * r->m[i] / (1 - pow(0.9, r->t)) / (sqrt(r->v[i] / (1 - pow(0.999, r->t))) + 1e-8);
    }
}

static void freeze(reference *r) {
    r->frozen = true, r->t = 0;
    memset(r->m, 0, sizeof r->m), memset(r->v, 0, sizeof r->v);
}

static ct_optim *optimiser(ct_module *m, rule kind, bool matrices_only, double clip) {
    if (kind == SGD)
        return ct_sgd_new(
            m, (ct_sgd_opts){.lr = 0.05, .momentum = 0.9, .weight_decay = 0.2, .clip_norm = clip});
    const ct_adamw_opts opts = {
        .lr = 0.05, .weight_decay = 0.2, .clip_norm = clip, .decay_matrices_only = matrices_only};
    return kind == ADAM ? ct_adam_new(m, opts) : ct_adamw_new(m, opts);
}

static void is(ct_module *m, const reference *r) {
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < r[k].n; i++) {
            const double got = ct_data_f64(ct_module_get(m, names[k]))[i];
            ck_assert_msg(fabs(got - r[k].p[i]) <= 1e-13, "%s[%d] is %.17g, not %.17g", names[k], i,
                          got, r[k].p[i]);
        }
}

START_TEST(groups_follow_the_formula) {
    const rule kind = _i % KINDS;
    const bool matrices_only = kind != SGD && _i / KINDS % 2;
    const double clip = _i / KINDS / 2 ? 0.7 : 0;
    ct_module *m = model();
    reference r[PARAMS];
    begin(r, m, matrices_only, 0.2);
    ct_optim *optim = optimiser(m, kind, matrices_only, clip);
    double lr = 0.05;
    for (int t = 1; t <= 12; t++) {
        switch (t) {
        case 3: /* the last match wins, field by field: no decay of the first group is left */
            ck_assert(ct_optim_group(optim, "layers.*",
                                     (ct_group_opts){.lr_scale = 7, .weight_decay = 9}));
            ck_assert(ct_optim_group(optim, "*.bias", (ct_group_opts){.lr_scale = 2}));
            ck_assert(ct_optim_group(optim, "layers.?.weight",
                                     (ct_group_opts){.lr_scale = 0.5, .weight_decay = 0.3}));
            r[2].lr_scale = r[4].lr_scale = 2, r[2].decay = r[4].decay = 0;
            r[1].lr_scale = r[3].lr_scale = 0.5, r[1].decay = r[3].decay = 0.3;
            break;
        case 4: lr = 0.02, ct_optim_set_lr(optim, lr); break;
        case 5: /* a vector that a group says to decay, under decay_matrices_only too */
            ck_assert(ct_optim_group(optim, "layers.1.bias", (ct_group_opts){.weight_decay = 0.4}));
            r[4].lr_scale = 1, r[4].decay = 0.4;
            break;
        case 6:
            ck_assert(ct_optim_group(optim, "layers.0.*", (ct_group_opts){.frozen = true}));
            freeze(&r[1]), freeze(&r[2]);
            r[1].lr_scale = r[2].lr_scale = 1, r[1].decay = r[2].decay = 0;
            break;
        case 9:
            ck_assert(ct_optim_group(optim, "*0.w*", (ct_group_opts){.lr_scale = 3}));
            r[1].frozen = false, r[1].lr_scale = 3;
            break;
        case 11: /* CT_ZERO is the number 0: the state goes on, the parameter stays */
            ck_assert(ct_optim_group(optim, "embed", (ct_group_opts){.lr_scale = CT_ZERO}));
            r[0].lr_scale = 0, r[0].decay = 0;
        }
        give_all(m, t);
        const double norm = norm_of(r, t), scale = clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1;
        ck_assert(ct_optim_step(optim));
        if (clip > 0) ck_assert_double_eq_tol(ct_optim_grad_norm(optim), norm, 1e-13);
        for (int k = 0; k < PARAMS; k++) update(&r[k], k, kind, lr, scale, t);
        is(m, r);
    }
    no_error();
}
END_TEST

/* ---- patterns ---- */

/* The parameters that the optimiser does not step, as bits. */
static int still(ct_module *m, ct_optim *optim) {
    double before[PARAMS];
    for (int k = 0; k < PARAMS; k++) before[k] = *ct_data_f64(ct_module_get(m, names[k]));
    give_all(m, 1);
    ck_assert(ct_optim_step(optim));
    int bits = 0;
    for (int k = 0; k < PARAMS; k++)
        if (*ct_data_f64(ct_module_get(m, names[k])) == before[k]) bits |= 1 << k;
    return bits;
}

START_TEST(matching) {
    static const struct {
        const char *pattern;
        int matches;
    } all[] = {
        {"*", 31},          {"**", 31},
        {"embed", 1},       {"layers.0.weight", 2},
        {"layers.*", 30},   {"*.bias", 20},
        {"l*s", 20},        {"layers.*.weight", 10},
        {"layers.?.*", 30}, {"l?yers.1.bias", 16},
        {"*1*", 24},        {"?????", 1},
        {"*?????", 31},     {"e*d", 1},
        {"*embed*", 1},     {"*a*b*a*", 20},
        {"layers.0.*s", 4}, {"*.*", 30},
        {"*s.*s", 20},      {"*0*weight*", 2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ct_module *m = model();
        ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.5});
        ck_assert(ct_optim_group(optim, all[i].pattern, (ct_group_opts){.frozen = true}));
        ck_assert_msg(still(m, optim) == all[i].matches, "\"%s\" matched %d", all[i].pattern,
                      still(m, optim));
    }
}
END_TEST

START_TEST(patterns_that_match_nothing) {
    static const char *const wrong[] = {
        "",       "?",        "embe",    "mbed",     "embed ",     "Embed",
        "layers", "layers.0", "*.b",     "bias",     "embed?",     "?embed",
        "[a-z]*", "embe[d]",  "emb\\ed", "*.wieght", "layers.*x*", "embed,layers.0.bias"};
    ct_module *m = model();
    ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.lr = 0.5});
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char says[96];
        snprintf(says, sizeof says, "AdamW: no parameter is called \"%s\"", wrong[i]);
        ck_assert(!ct_optim_group(optim, wrong[i], (ct_group_opts){.frozen = true}));
        ck_assert_str_eq(ct_error_message(context), says);
        expect(CT_ERR_ARGUMENT, says, "");
    }
    ck_assert_int_eq(still(m, optim), 0);
}
END_TEST

/* Letters of several bytes are one character, and a long pattern takes no time. */
START_TEST(characters_and_time) {
    static char name[250], pattern[400];
    memset(name, 'a', sizeof name - 1);
    ct_module *m = ct_module_new(context, "M");
    for (int i = 0; i < 3; i++)
        ct_module_add_param(m, (const char *[]){name, "gr\u00f6\u00dfe", "\u20ac"}[i],
                            ct_ones(context, CT_F64, CT_SHAPE(1)));
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){0});
    const ct_group_opts group = {.weight_decay = 1};
    ck_assert(ct_optim_group(optim, "gr??e", group) && ct_optim_group(optim, "*\u00f6?e", group) &&
              ct_optim_group(optim, "?", group) && ct_optim_group(optim, "gr*?\u00dfe", group));
    static const char *const wrong[] = {"gr????e", "gr?e", "??", "\u20ac?", "gr*???e"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(!ct_optim_group(optim, wrong[i], group), "%s", wrong[i]);
        expect(CT_ERR_ARGUMENT, wrong[i], "");
    }
    for (int i = 0; i < 120; i++) memcpy(pattern + 2 * i, "*a", 2);
    ck_assert(ct_optim_group(optim, pattern, group));
    strcat(pattern, "b");
    ck_refused(ct_optim_group(optim, pattern, group), CT_ERR_ARGUMENT,
               "no parameter is called \"*a*a", "");
}
END_TEST

/* Any name of tied weights that they had when the optimiser was made counts. */
START_TEST(any_name_counts) {
    for (int tied = 0; tied < 4; tied++) {
        ct_module *m = model(), *head = ct_module_new(context, "Head");
        ct_module_add_child(m, "head", head);
        ct_module_add_param(head, "weight", ct_module_get(m, "embed"));
        ct_module_add_param(head, "bias", ct_module_get(m, "layers.1.bias"));
        ct_module_add_param(head, "again", ct_module_get(m, "embed"));
        ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.5}),
                 *inner = ct_sgd_new(ct_module_child(m, "layers.1"), (ct_sgd_opts){.lr = 0.5});
        static const char *const patterns[] = {"head.weight", "embed", "head.*", "*.again"};
        if (tied == 2) ct_module_free(head); /* its names stay known */
        ck_assert(ct_optim_group(optim, patterns[tied], (ct_group_opts){.frozen = true}));
        ck_assert_int_eq(still(m, optim), tied == 2 ? 17 : 1);
        /* below a child names are relative to it, and names outside it are not known */
        ck_refused(ct_optim_group(inner, "layers.1.bias", (ct_group_opts){0}), CT_ERR_ARGUMENT,
                   "SGD: no parameter is called \"layers.1.bias\"", "");
        ck_refused(ct_optim_group(inner, "head*", (ct_group_opts){0}), CT_ERR_ARGUMENT, "head*",
                   "");
        ck_assert(ct_optim_group(inner, "bias", (ct_group_opts){.frozen = true}));
        ck_assert_int_eq(still(m, inner), 1 | 2 | 4 | 16);
        ct_module_free(m);
    }
    no_error();
}
END_TEST

/* ---- what is refused ---- */

START_TEST(groups_are_checked) {
    static const struct {
        ct_group_opts opts;
        const char *says;
    } wrong[] = {
        {{.lr_scale = -1}, "AdamW: lr_scale of \"*.bias\" is -1, must be a number of at least 0"},
        {{.lr_scale = NAN}, "AdamW: lr_scale of \"*.bias\" is nan, "},
        {{.lr_scale = INFINITY}, "AdamW: lr_scale of \"*.bias\" is inf, "},
        {{.weight_decay = -0.5}, "AdamW: weight_decay of \"*.bias\" is -0.5, "},
        {{.weight_decay = NAN}, "AdamW: weight_decay of \"*.bias\" is nan, "},
        {{.weight_decay = INFINITY, .frozen = true}, "AdamW: weight_decay of \"*.bias\" is inf, "},
    };
    ct_module *m = model();
    reference r[PARAMS];
    begin(r, m, false, 0.2);
    ct_optim *optim = optimiser(m, ADAMW, false, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_refused(ct_optim_group(optim, "*.bias", wrong[i].opts), CT_ERR_ARGUMENT, wrong[i].says,
                   "must be a number of at least 0");
    }
    ck_refused(ct_optim_group(optim, NULL, (ct_group_opts){.frozen = true}), CT_ERR_ARGUMENT,
               "AdamW: the pattern of a group is NULL", "");
    ck_assert(!ct_optim_group(NULL, "*", (ct_group_opts){0}));
    ct_fail(context, CT_ERR_IO, "pending");
    ck_refused(ct_optim_group(optim, "*", (ct_group_opts){.frozen = true}), CT_ERR_IO, "pending",
               "");
    give_all(m, 1);
    ck_assert(ct_optim_step(optim));
    for (int k = 0; k < PARAMS; k++) update(&r[k], k, ADAMW, 0.05, 1, 1);
    is(m, r);
}
END_TEST

/* ---- memory of states ---- */

static int64_t live_of(ct_context *c) { return ct_memory(c).live; }

START_TEST(states_of_those_that_are_updated) {
    ct_module *m = model();
    reference r[PARAMS];
    begin(r, m, false, 0.2);
    ct_tensor *bias = ct_module_get(m, names[2]);
    give_all(m, 1);
    ct_zero_grad(ct_module_get(m, names[4]));
    ct_set_requires_grad(bias, false);
    ct_optim *optim = optimiser(m, ADAMW, false, 0);
    ck_assert(ct_optim_group(optim, "embed", (ct_group_opts){.frozen = true, .weight_decay = 0.2}));
    freeze(&r[0]), freeze(&r[2]), freeze(&r[4]);
    const int64_t none = live();
    ck_assert(ct_optim_step(optim));
    for (int k = 0; k < PARAMS; k++) update(&r[k], k, ADAMW, 0.05, 1, 1);
    is(m, r);
    const int64_t two = live();
    ck_assert_int_gt(two, none + 2 * 2 * 12 * 8); /* two weights have m and v */

    /* freezing gives back, from one parameter as much as from the other */
    ck_assert(ct_optim_group(optim, "*.weight", (ct_group_opts){.frozen = true}));
    ck_assert_int_eq(live(), none);
    ck_assert(ct_optim_step(optim) && live() == none);
    is(m, r);
    freeze(&r[1]), freeze(&r[3]);
    ck_assert(ct_optim_group(optim, "layers.0.weight", (ct_group_opts){.weight_decay = 0.2}));
    r[1].frozen = false;
    ck_assert(ct_optim_step(optim)); /* a first step again */
    update(&r[1], 1, ADAMW, 0.05, 1, 1);
    is(m, r);
    const int64_t one = live();
    ck_assert_int_eq(one - none, two - one);

    /* one that comes to require a gradient, and one that stops */
    ct_set_requires_grad(bias, true);
    ct_set_requires_grad(ct_module_get(m, names[1]), false);
    give(m, 2, 1);
    ck_assert(ct_optim_step(optim));
    r[1].frozen = true, r[2].frozen = false;
    update(&r[2], 2, ADAMW, 0.05, 1, 1);
    is(m, r);
    ct_set_requires_grad(bias, false); /* this gives back its gradient, and the step its state */
    const int64_t with_state = live();
    ck_assert(ct_optim_step(optim) && live() < with_state);
    ct_set_requires_grad(bias, true);
    give(m, 2, 1);
    ck_assert(ct_optim_step(optim)); /* a first step */
    r[2].t = 0;
    memset(r[2].m, 0, sizeof r[2].m), memset(r[2].v, 0, sizeof r[2].v);
    update(&r[2], 2, ADAMW, 0.05, 1, 1);
    is(m, r);
    ct_optim_free(optim);
    no_error();
}
END_TEST

START_TEST(every_byte_goes_back) {
    const int64_t before = live();
    for (int kind = 0; kind < KINDS; kind++)
        for (int first = 0; first < 2; first++) {
            ct_scope scope = ct_scope_open(context);
            ct_module *m = model();
            ct_optim *optim = optimiser(m, kind, false, 0);
            give_all(m, 1);
            ck_assert(ct_optim_step(optim));
            ck_assert(ct_optim_group(optim, "*bias", (ct_group_opts){.frozen = true}));
            ck_assert(ct_optim_step(optim));
            ct_scope_close(scope);
            if (first) ct_optim_free(optim);
            ct_module_free(m);
            ck_assert_int_eq(live(), before);
        }
}
END_TEST

typedef struct {
    ct_optim *optim;
    ct_tensor *param[3];
} first_step;

static bool take_step(void *arg) { return ct_optim_step(((first_step *)arg)->optim); }

static void check_params(const fault_end *end, void *arg) {
    const first_step *f = arg;
    for (int i = 0; i < 3; i++) FAULT_CK(end, end->done || ct_data_f32(f->param[i])[0] == 1);
}

/* A step that cannot make a state changes nothing: not another parameter, nor a state. */
START_TEST(a_first_step_without_memory) {
    ct_context *c = refusing_context();
    const int64_t empty = live_of(c);
    ct_module *m = ct_module_new(c, "M");
    first_step f;
    for (int i = 0; i < 3; i++) /* large enough for the allocator to be asked for each */
        f.param[i] = ct_module_add_param(m, (const char *[]){"a", "b", "c"}[i],
                                         ct_ones(c, CT_F32, CT_SHAPE(600000)));
    f.optim = ct_adamw_new(m, (ct_adamw_opts){.lr = 0.1});
    for (int i = 0; i < 3; i++) {
        ct_scope scope = ct_scope_open(c);
        ck_assert(ct_backward(ct_sum(f.param[i], CT_ALL, false)));
        ct_scope_close(scope);
    }
    memory_sweep((fault_case){.name = "a first step",
                              .context = &c,
                              .arg = &f,
                              .run = take_step,
                              .end = check_params,
                              .least = 6,
                              .most = 6});
    for (int i = 0; i < 3; i++) /* the first step's m / sqrt v */
        ck_assert(fabs(ct_data_f32(f.param[i])[599999] - 0.9) < 1e-6);
    fault_arm(FAULT_ALLOCATOR, 1);
    ck_assert(ct_optim_step(f.optim) && fault.calls == 0);
    fault_disarm();
    ct_module_free(m);
    ck_assert_int_eq(live_of(c), empty);
    ct_context_free(c);
}
END_TEST

/* ---- skip_nonfinite ---- */

START_TEST(steps_left_out) {
    const double wrong[] = {NAN, INFINITY, -INFINITY};
    const rule kind = _i % KINDS;
    const double clip = _i / KINDS ? 0.7 : 0;
    ct_module *m[2] = {model(), model()};
    ct_optim *optim[2];
    for (int i = 0; i < 2; i++) { /* the other does not meet the steps that are left out */
        optim[i] =
            kind == SGD ? ct_sgd_new(m[i], (ct_sgd_opts){.lr = 0.1,
                                                         .momentum = 0.9,
                                                         .clip_norm = clip,
                                                         .skip_nonfinite = i == 0})
            : kind == ADAM
                ? ct_adam_new(m[i], (ct_adam_opts){.clip_norm = clip, .skip_nonfinite = !i})
                : ct_adamw_new(m[i], (ct_adamw_opts){.clip_norm = clip, .skip_nonfinite = !i});
        ck_assert(ct_optim_group(optim[i], "*.1.*", (ct_group_opts){.frozen = true}));
    }
    ck_assert_int_eq(ct_optim_skipped(optim[0]), 0);
    for (int t = 1; t < 6; t++) {
        give_all(m[0], t), give_all(m[1], t);
        ct_tensor *g = ct_grad(ct_module_get(m[0], names[2]));
        const double good = ct_data_f64(g)[1];
        const int64_t before = live();
        ct_data_f64(g)[1] = wrong[t % 3];
        ck_assert(ct_optim_step(optim[0]));
        ck_assert(!isfinite(ct_optim_grad_norm(optim[0])));
        ck_assert(!isnan(ct_optim_grad_norm(optim[0])) == !isnan(wrong[t % 3]));
        ck_assert_int_eq(ct_optim_skipped(optim[0]), t);
        ck_assert_int_eq(live(), before);
        for (int k = 0; k < PARAMS; k++)
            ck_assert(distance(ct_module_get(m[0], names[k]), ct_module_get(m[1], names[k])) == 0);
        ct_data_f64(g)[1] = good;
        ct_data_f64(ct_grad(ct_module_get(m[0], names[3])))[0] = NAN; /* frozen: does not count */
        ck_assert(ct_optim_step(optim[0]) && ct_optim_step(optim[1]));
        ck_assert_int_eq(ct_optim_skipped(optim[0]), t);
        reference r[PARAMS];
        begin(r, m[0], false, 0);
        r[3].frozen = r[4].frozen = true;
        ck_assert_double_eq_tol(ct_optim_grad_norm(optim[0]), norm_of(r, t), 1e-13);
        for (int k = 0; k < PARAMS; k++)
            ck_assert(distance(ct_module_get(m[0], names[k]), ct_module_get(m[1], names[k])) == 0);
    }
    ck_assert_int_eq(ct_optim_skipped(optim[1]), 0);
    give_all(m[1], 1); /* without the option it goes into the parameters */
    ct_data_f64(ct_grad(ct_module_get(m[1], names[0])))[0] = NAN;
    ck_assert(ct_optim_step(optim[1]));
    ck_assert(isnan(*ct_data_f64(ct_module_get(m[1], names[0]))));
    ck_assert_int_eq(ct_optim_skipped(NULL), 0);
    no_error();
}
END_TEST

/* Steps that differ only in their values ask the allocator for nothing. */
START_TEST(steady_state) {
    ct_module *m = model();
    ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.clip_norm = 1, .skip_nonfinite = true});
    ck_assert(ct_optim_group(optim, "*bias", (ct_group_opts){.lr_scale = 2}));
    ck_assert(ct_optim_group(optim, "embed", (ct_group_opts){.frozen = true}));
    int64_t calls = 0, bytes = 0;
    for (int t = 1; t < 20; t++) {
        give_all(m, t);
        if (t == 7) ct_data_f64(ct_grad(ct_module_get(m, names[1])))[0] = NAN;
        ck_assert(ct_optim_step(optim));
        if (t == 3) calls = ct_memory(context).allocator_calls, bytes = live();
    }
    ck_assert_int_eq(ct_memory(context).allocator_calls, calls);
    ck_assert_int_eq(live(), bytes);
    ck_assert_int_eq(ct_optim_skipped(optim), 1);
}
END_TEST

int main(void) {
    return run_tests("optim groups", setup, teardown,
                     TESTS(LOOP(groups_follow_the_formula, 4 * KINDS),
                           LOOP(steps_left_out, 2 * KINDS), TEST(matching),
                           TEST(patterns_that_match_nothing), TEST(characters_and_time),
                           TEST(any_name_counts), TEST(groups_are_checked),
                           TEST(states_of_those_that_are_updated), TEST(every_byte_goes_back),
                           TEST(a_first_step_without_memory), TEST(steady_state)));
}
