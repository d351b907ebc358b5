/* Optimisers against their formulas in doubles; clipping; the schedule; ownership. */
#include "tests/support/nn_check.h"

enum { N = 37, STEPS = 6 };

/* One parameter "w" of (N) or (N, 1) with known values. */
static ct_module *one(ct_dtype dtype, bool matrix) {
    ct_module *m = ct_module_new(context, "One");
    double start[N];
    for (int i = 0; i < N; i++) start[i] = sin(i + 1);
    ct_shape shape = matrix ? CT_SHAPE(N, 1) : CT_SHAPE(N);
    ck_assert_ptr_nonnull(
        ct_module_add_param(m, "w", ct_cast(ct_from_f64(context, shape, start), dtype)));
    return m;
}

/* The gradient of step t, from 1. */
static double gradient(int i, int t) { return cos(3 * i + t) + (i % 5 == 0 ? 0 : 0.1 * t); }

/* Sets the parameter's gradient to c, by backward of <c, w>. */
static void give_gradient(ct_tensor *w, int t) {
    ct_scope scope = ct_scope_open(context);
    double c[N];
    for (int i = 0; i < N; i++) c[i] = gradient(i, t);
    ck_assert(ct_zero_grad(w));
    ck_assert(ct_backward(
        ct_sum(ct_mul(w, ct_cast(ct_from_f64(context, ct_shape_of(w), c), ct_dtype_of(w))), CT_ALL,
               false)));
    ct_scope_close(scope);
    no_error();
}

static void is(ct_tensor *w, const double *p, double gate) {
    double got[N];
    ck_assert(ct_to_f64(w, got, N));
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(got[i] - p[i]) <= gate, "[%d]: %.17g, not %.17g", i, got[i], p[i]);
}

/* ---- formulas ---- */

static void sgd_is(ct_sgd_opts o, ct_dtype dtype) {
    ct_module *m = one(dtype, false);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = ct_sgd_new(m, o);
    double p[N], b[N] = {0}, lr = o.lr == 0 ? 1e-3 : o.lr;
    for (int i = 0; i < N; i++) p[i] = sin(i + 1);
    for (int t = 1; t <= STEPS; t++) {
        give_gradient(w, t);
        ck_assert(ct_optim_step(optim));
        for (int i = 0; i < N; i++) {
            double g = gradient(i, t) + o.weight_decay * p[i];
            if (o.momentum != 0) {
                b[i] = t == 1 ? g : o.momentum * b[i] + (1 - o.dampening) * g;
                g = o.nesterov ? g + o.momentum * b[i] : b[i];
            }
            p[i] -= lr * g;
        }
        is(w, p, dtype == CT_F64 ? 1e-14 : 2e-6);
        if (t == 3) ct_optim_set_lr(optim, lr = 0.03);
    }
    ct_module_free(m);
}

START_TEST(sgd) {
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        sgd_is((ct_sgd_opts){.lr = 0.1}, (ct_dtype)dtype);
        sgd_is((ct_sgd_opts){0}, (ct_dtype)dtype);
        sgd_is((ct_sgd_opts){.lr = 0.1, .weight_decay = 0.2}, (ct_dtype)dtype);
        sgd_is((ct_sgd_opts){.lr = 0.1, .momentum = 0.9}, (ct_dtype)dtype);
        sgd_is((ct_sgd_opts){.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.1},
               (ct_dtype)dtype);
        sgd_is((ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true},
               (ct_dtype)dtype);
    }
}
END_TEST

static void adam_is(ct_adamw_opts o, bool decoupled, bool matrix, ct_dtype dtype) {
    ct_module *m = one(dtype, matrix);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = decoupled ? ct_adamw_new(m, o) : ct_adam_new(m, o);
    double p[N], mean[N] = {0}, square[N] = {0}, lr = o.lr == 0 ? 1e-3 : o.lr,
                 b1 = o.beta1 == 0 ? 0.9 : o.beta1;
    double b2 = o.beta2 == 0 ? 0.999 : o.beta2, eps = o.eps == 0 ? 1e-8 : o.eps,
           wd = o.decay_matrices_only && !matrix ? 0 : o.weight_decay;
    for (int i = 0; i < N; i++) p[i] = sin(i + 1);
    for (int t = 1; t <= STEPS; t++) {
        give_gradient(w, t);
        ck_assert(ct_optim_step(optim));
        for (int i = 0; i < N; i++) {
            double g = gradient(i, t);
            if (decoupled) p[i] *= 1 - lr * wd;
            else g += wd * p[i];
            mean[i] = b1 * mean[i] + (1 - b1) * g;
            square[i] = b2 * square[i] + (1 - b2) * g * g;
            p[i] -= lr * (mean[i] / (1 - pow(b1, t))) / (sqrt(square[i] / (1 - pow(b2, t))) + eps);
        }
        is(w, p, dtype == CT_F64 ? 1e-13 : 3e-6);
        if (t == 3) ct_optim_set_lr(optim, lr = 0.03);
    }
    ct_module_free(m);
}

START_TEST(adam_and_adamw) {
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
        for (int decoupled = 0; decoupled < 2; decoupled++)
            for (int matrix = 0; matrix < 2; matrix++) {
                adam_is((ct_adamw_opts){0}, decoupled, matrix, (ct_dtype)dtype);
                adam_is((ct_adamw_opts){.lr = 0.1, .weight_decay = 0.3}, decoupled, matrix,
                        (ct_dtype)dtype);
                adam_is((ct_adamw_opts){.lr = 0.05,
                                        .beta1 = 0.5,
                                        .beta2 = 0.8,
                                        .eps = 0.1,
                                        .weight_decay = 0.3,
                                        .decay_matrices_only = true},
                        decoupled, matrix, (ct_dtype)dtype);
            }
}
END_TEST

/* ---- which parameters ---- */

/* its step count does not advance, so its first gradient later is a first step */
START_TEST(no_gradient_no_step) {
    ct_module *m = one(CT_F64, false);
    ct_tensor *w = ct_module_get(m, "w");
    ct_tensor *late = ct_module_add_param(m, "late", ct_full(context, CT_F64, CT_SHAPE(N), 2));
    ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.lr = 0.1, .weight_decay = 0.5});
    for (int t = 1; t <= 3; t++) {
        give_gradient(w, t);
        ck_assert(ct_optim_step(optim));
    }
    double still[N];
    for (int i = 0; i < N; i++) still[i] = 2;
    is(late, still, 0);
    give_gradient(late, 1);
    ck_assert(ct_zero_grad(w));
    ck_assert(ct_optim_step(optim));
    for (int i = 0; i < N; i++)
        still[i] = 2 * (1 - 0.1 * 0.5) - 0.1 * gradient(i, 1) / (fabs(gradient(i, 1)) + 1e-8);
    is(late, still, 1e-13);
    ct_optim_zero_grad(optim);
    ck_assert_ptr_null(ct_grad(late));
    ck_assert_ptr_null(ct_grad(w));
    no_error();
}
END_TEST

START_TEST(zero_grad_takes_every_gradient) {
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3});
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.1});
    ck_assert(ct_backward(
        ct_sum(ct_forward(m, ct_ones(context, CT_F32, CT_SHAPE(2, 3))), CT_ALL, false)));
    for (ct_param p = {0}; ct_module_next(m, &p);) ck_assert_ptr_nonnull(ct_grad(p.tensor));
    ct_optim_zero_grad(optim);
    for (ct_param p = {0}; ct_module_next(m, &p);)
        ck_assert_msg(!ct_grad(p.tensor), "%s has a gradient still", p.name);
}
END_TEST

START_TEST(a_shared_parameter_steps_once) {
    ct_module *m = one(CT_F64, false), *other = ct_module_new(context, "Other");
    ct_tensor *w = ct_module_get(m, "w");
    ct_module_add_child(m, "other", other);
    ct_module_add_param(other, "again", w);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.5});
    give_gradient(w, 1);
    double p[N], squares = 0;
    for (int i = 0; i < N; i++)
        p[i] = sin(i + 1) - 0.5 * gradient(i, 1), squares += pow(gradient(i, 1), 2);
    ck_assert_double_eq_tol(ct_clip_grad_norm(m, INFINITY), sqrt(squares), 1e-13);
    ck_assert(ct_optim_step(optim));
    is(w, p, 1e-15);
}
END_TEST

/* ---- ownership ---- */

START_TEST(everything_goes_back) {
    /* with ".weight" of 63 to 66 bytes: blocks are multiples of 64 */
    static const char *const names[] = {
        "a_child_whose_name_is_as_long_as_that_of_a_deep_one_is__",
        "a_child_whose_name_is_as_long_as_that_of_a_deep_one_is___",
        "a_child_whose_name_is_as_long_as_that_of_a_deep_one_is____",
        "a_child_whose_name_is_as_long_as_that_of_a_deep_one_is_____",
    };
    int64_t before = ct_memory(context).live;
    for (int order = 0; order < 4; order++) {
        ct_scope scope = ct_scope_open(context);
        ct_module *m = one(CT_F64, false),
                  *inner = ct_module_add_child(
                      m, names[order],
                      ct_linear_new(
                          context,
                          (ct_linear_opts){.in_features = 3, .out_features = 3, .dtype = CT_F64}));
        ct_optim *a = ct_adamw_new(m, (ct_adamw_opts){0}),
                 *b = ct_sgd_new(m, (ct_sgd_opts){.momentum = 0.9});
        ck_assert_ptr_nonnull(ct_adam_new(inner, (ct_adam_opts){0}));
        ck_assert(ct_backward(
            ct_sum(ct_forward(inner, ct_ones(context, CT_F64, CT_SHAPE(1, 3))), CT_ALL, false)));
        ct_scope_close(scope);
        ck_assert(ct_optim_step(a) && ct_optim_step(b));
        if (order == 1) ct_optim_free(a), ct_optim_free(b);
        if (order == 2) ct_optim_free(b);
        if (order ==
            3) { /* after a child is freed, the optimisers still hold and step its parameters */
            ct_module_free(inner);
            ck_assert(ct_optim_step(a) && ct_optim_step(b));
        }
        ct_module_free(m);
        no_error();
        ck_assert_int_eq(ct_memory(context).live, before);
    }
    ct_optim_free(NULL);
    ct_optim_zero_grad(NULL);
    /* the context frees these */
    ck_assert_ptr_nonnull(ct_adamw_new(one(CT_F32, true), (ct_adamw_opts){0}));
}
END_TEST

static bool make_adamw(void *m) { return ct_adamw_new(m, (ct_adamw_opts){0}) != NULL; }

START_TEST(a_failed_optimiser_leaves_nothing) {
    ct_context *c = refusing_context();
    ct_module *m = ct_module_new(c, "Many");
    for (int i = 0; i < 300; i++) { /* blocks that the allocator is asked for one by one */
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        ct_module_add_param(m, name, ct_ones(c, CT_F32, CT_SHAPE(1)));
    }
    memory_sweep((fault_case){.name = "an optimiser",
                              .context = &c,
                              .arg = m,
                              .run = make_adamw,
                              .least = 2,
                              .most = 100});
    ct_module_free(m);
    ct_context_free(c);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(options_are_checked) {
    ct_module *m = one(CT_F64, false);
    ck_refused(ct_sgd_new(m, (ct_sgd_opts){.lr = -1}), CT_ERR_ARGUMENT, "SGD", "lr");
    ck_refused(ct_sgd_new(m, (ct_sgd_opts){.momentum = NAN}), CT_ERR_ARGUMENT, "SGD", "momentum");
    ck_refused(ct_sgd_new(m, (ct_sgd_opts){.nesterov = true}), CT_ERR_ARGUMENT, "SGD", "nesterov");
    ck_refused(ct_sgd_new(m, (ct_sgd_opts){.nesterov = true, .momentum = 0.9, .dampening = 0.1}),
               CT_ERR_ARGUMENT, "SGD", "dampening");
    ck_refused(ct_adam_new(m, (ct_adam_opts){.beta1 = 1}), CT_ERR_ARGUMENT, "Adam", "beta1");
    ck_refused(ct_adamw_new(m, (ct_adamw_opts){.beta2 = -0.1}), CT_ERR_ARGUMENT, "AdamW", "beta2");
    ck_refused(ct_adamw_new(m, (ct_adamw_opts){.eps = INFINITY}), CT_ERR_ARGUMENT, "AdamW", "eps");
    ck_refused(ct_adamw_new(m, (ct_adamw_opts){.weight_decay = -1}), CT_ERR_ARGUMENT, "AdamW",
               "weight_decay");
    const ct_sgd_opts sgds[] = {
        {.lr = NAN}, {.momentum = -1}, {.dampening = NAN}, {.weight_decay = -1}, {.clip_norm = -1}};
    const ct_adam_opts adams[] = {{.lr = NAN}, {.beta1 = -1},         {.beta2 = 1},
                                  {.eps = -1}, {.weight_decay = NAN}, {.clip_norm = NAN}};
    static const char *const of_sgd[] = {"SGD: lr ", "SGD: momentum ", "SGD: dampening ",
                                         "SGD: weight_decay ", "SGD: clip_norm "};
    static const char *const of_adam[] = {"Adam: lr ",  "Adam: beta1 ",        "Adam: beta2 ",
                                          "Adam: eps ", "Adam: weight_decay ", "Adam: clip_norm "};
    for (int i = 0; i < 5; i++) {
        ck_refused(ct_sgd_new(m, sgds[i]), CT_ERR_ARGUMENT, of_sgd[i], "");
    }
    for (int i = 0; i < 6; i++) {
        ck_refused(ct_adam_new(m, adams[i]), CT_ERR_ARGUMENT, of_adam[i], "");
    }
    ck_assert_ptr_null(ct_adamw_new(NULL, (ct_adamw_opts){0}));
    ck_assert(!ct_optim_step(NULL));

    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.1});
    ct_optim_set_lr(optim, NAN);
    expect(CT_ERR_ARGUMENT, "SGD", "lr");
    ct_tensor *w = ct_module_get(m, "w");
    double p[N];
    for (int i = 0; i < N; i++) p[i] = sin(i + 1);
    give_gradient(w, 1);
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert(!ct_optim_step(optim)); /* while an error is pending nothing changes */
    ck_assert(isnan(ct_clip_grad_norm(m, 1e-3)));
    ct_optim_zero_grad(optim);
    ct_optim_set_lr(optim, 7);
    expect(CT_ERR_IO, "pending", "");
    is(w, p, 0);
    ck_assert(ct_optim_step(optim));
    for (int i = 0; i < N; i++) p[i] -= 0.1 * gradient(i, 1);
    is(w, p, 1e-15);
}
END_TEST

/* ---- clipping ---- */

START_TEST(clipping) {
    ct_module *m = one(CT_F64, false);
    ct_tensor *w = ct_module_get(m, "w"),
              *v = ct_module_add_param(m, "v", ct_zeros(context, CT_F64, CT_SHAPE(N)));
    ck_assert_double_eq(ct_clip_grad_norm(m, 1), 0); /* no gradient yet */
    give_gradient(w, 1);
    give_gradient(v, 2);
    double squares = 0, g[N];
    for (int i = 0; i < N; i++) squares += pow(gradient(i, 1), 2) + pow(gradient(i, 2), 2);
    double norm = sqrt(squares);
    /* below the limit: unchanged */
    ck_assert_double_eq_tol(ct_clip_grad_norm(m, 2 * norm), norm, 1e-13);
    for (int i = 0; i < N; i++) g[i] = gradient(i, 1);
    is(ct_grad(w), g, 0);
    ck_assert_double_eq_tol(ct_clip_grad_norm(m, 0.5), norm, 1e-13);
    for (int i = 0; i < N; i++) g[i] = gradient(i, 1) * (0.5 / (norm + 1e-6));
    is(ct_grad(w), g, 1e-15);
    for (int i = 0; i < N; i++) g[i] = gradient(i, 2) * (0.5 / (norm + 1e-6));
    is(ct_grad(v), g, 1e-15);
    ck_assert_double_eq_tol(ct_clip_grad_norm(m, INFINITY), 0.5, 1e-6);
    ck_assert_double_eq_tol(ct_clip_grad_norm(m, 0), 0.5, 1e-6); /* all gradients become 0 */
    ck_assert_double_eq(ct_clip_grad_norm(m, 1), 0);
    give_gradient(w, 1);
    ct_data_f64(ct_grad(v))[3] = NAN;
    ck_assert(isnan(ct_clip_grad_norm(m, 0.5)));
    ck_assert(isnan(ct_data_f64(ct_grad(w))[0]));
    no_error();
    give_gradient(w, 1);
    give_gradient(v, 1);
    ct_data_f64(ct_grad(v))[3] = INFINITY;
    ck_assert(isinf(ct_clip_grad_norm(m, 0.5)));
    ck_assert_double_eq(ct_data_f64(ct_grad(w))[0], 0);
    ck_assert(isnan(ct_data_f64(ct_grad(v))[3]));
    no_error();
    ck_assert(isnan(ct_clip_grad_norm(m, -1)));
    expect(CT_ERR_ARGUMENT, "clip_grad_norm", "-1");
    ck_assert(isnan(ct_clip_grad_norm(m, NAN)));
    expect(CT_ERR_ARGUMENT, "clip_grad_norm", "nan");
    ck_assert(isnan(ct_clip_grad_norm(NULL, 1)));
}
END_TEST

static void clips_as_before_a_step(bool adam, double clip_norm) {
    ct_module *m[2];
    ct_optim *optim[2];
    for (int fused = 0; fused < 2; fused++) {
        m[fused] = one(CT_F64, true);
        ct_module_add_param(m[fused], "v", ct_full(context, CT_F64, CT_SHAPE(N), 2));
        const double norm = fused ? clip_norm : 0;
        optim[fused] =
            adam ? ct_adamw_new(m[fused], (ct_adamw_opts){.lr = 0.1, .clip_norm = norm})
                 : ct_sgd_new(m[fused],
                              (ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .clip_norm = norm});
        ck_assert(isnan(ct_optim_grad_norm(optim[fused])));
    }
    double g[N];
    for (int t = 1; t <= 3; t++) {
        for (int i = 0; i < N; i++) g[i] = gradient(i, t);
        for (int fused = 0; fused < 2; fused++) {
            give_gradient(ct_module_get(m[fused], "w"), t);
            give_gradient(ct_module_get(m[fused], "v"), t + 1);
        }
        const double norm = ct_clip_grad_norm(m[0], clip_norm);
        ck_assert(ct_optim_step(optim[0]) && ct_optim_step(optim[1]));
        ck_assert_double_eq_tol(ct_optim_grad_norm(optim[1]), norm, 1e-14);
        ck_assert(isnan(ct_optim_grad_norm(optim[0])));
        is(ct_grad(ct_module_get(m[1], "w")), g, 0);
        is(ct_module_get(m[1], "w"), ct_data_f64(ct_module_get(m[0], "w")), 1e-14);
        is(ct_module_get(m[1], "v"), ct_data_f64(ct_module_get(m[0], "v")), 1e-14);
    }
    ct_module_free(m[0]);
    ct_module_free(m[1]);
}

START_TEST(clipping_in_the_step) {
    for (int adam = 0; adam < 2; adam++) {
        clips_as_before_a_step(adam, 0.5);
        clips_as_before_a_step(adam, 1e9); /* large enough: no clipping */
    }
    ct_module *m = one(CT_F64, false);
    ck_refused(ct_adamw_new(m, (ct_adamw_opts){.clip_norm = -1}), CT_ERR_ARGUMENT, "AdamW",
               "clip_norm");
    ck_assert(isnan(ct_optim_grad_norm(NULL)));
}
END_TEST

/* ---- schedule ---- */

START_TEST(schedule) {
    ct_lr_cosine_opts o = {.peak = 1, .floor = 0.1, .warmup = 4, .total = 14};
    ck_assert_double_eq_tol(ct_lr_cosine(o, 0), 1.0 / 5, 1e-15);
    /* a negative step counts as the first */
    ck_assert_double_eq(ct_lr_cosine(o, -7), ct_lr_cosine(o, 0));
    ck_assert_double_eq_tol(ct_lr_cosine(o, 3), 4.0 / 5, 1e-15);
    ck_assert_double_eq_tol(ct_lr_cosine(o, 4), 1, 1e-15);
    ck_assert_double_eq_tol(ct_lr_cosine(o, 9), 0.55, 1e-15);
    ck_assert_double_eq_tol(ct_lr_cosine(o, 13), 0.1 + 0.9 * (1 + cos(acos(-1) * 0.9)) / 2, 1e-15);
    ck_assert_double_eq(ct_lr_cosine(o, 14), 0.1);
    ck_assert_double_eq(ct_lr_cosine(o, 1000), 0.1);
    ck_assert_double_eq(ct_lr_cosine((ct_lr_cosine_opts){.peak = 1, .total = 14}, 14), 0);
    for (int64_t step = 4; step < 14; step++)
        ck_assert_double_gt(ct_lr_cosine(o, step), ct_lr_cosine(o, step + 1));
    o.warmup = 0, o.total = 1;
    ck_assert_double_eq(ct_lr_cosine(o, 1), 0.1);
    o.total = 0; /* forgotten: no rate, which set_lr refuses */
    ck_assert(isnan(ct_lr_cosine(o, 0)));
    o.warmup = o.total = 3;
    ck_assert_double_eq_tol(ct_lr_cosine(o, 2), 0.75, 1e-15);
    ck_assert_double_eq(ct_lr_cosine(o, 3), 0.1);
}
END_TEST

/* ---- all together ---- */

START_TEST(training_asks_the_allocator_nothing_from_the_third_step_on) {
    ct_module *m = ct_encoder_layer_new(
        context, (ct_layer_opts){.embed_dim = 16, .num_heads = 2, .dropout = 0.1});
    ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.lr = 3e-3});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 6, 16)),
              *y = ct_randn(context, CT_F32, CT_SHAPE(4, 6, 16));
    int64_t calls = 0, live = 0;
    double first = 0, last = 0;
    for (int step = 0; step < 60; step++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *loss = ct_mse_loss(ct_forward(m, x), y);
        ck_assert(ct_backward(loss));
        ct_clip_grad_norm(m, 1);
        ct_memory_reset_peak(context);
        const int64_t before = ct_memory(context).live;
        ck_assert(ct_optim_step(optim));
        /* a step takes no memory, but for the states of the first */
        ck_assert((ct_memory(context).peak > before) == (step == 0));
        ct_optim_zero_grad(optim);
        last = ct_item(loss);
        ct_scope_close(scope);
        if (step == 0) first = last;
        if (step == 2) calls = ct_memory(context).allocator_calls, live = ct_memory(context).live;
    }
    no_error();
    ck_assert_int_eq(ct_memory(context).allocator_calls, calls);
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_assert_double_lt(last, 0.9 * first);
}
END_TEST

int main(void) {
    return run_tests("optim", setup, teardown,
                     TESTS(TEST(sgd), TEST(adam_and_adamw), TEST(no_gradient_no_step),
                           TEST(zero_grad_takes_every_gradient),
                           TEST(a_shared_parameter_steps_once), TEST(everything_goes_back),
                           TEST(a_failed_optimiser_leaves_nothing), TEST(options_are_checked),
                           TEST(clipping), TEST(clipping_in_the_step), TEST(schedule),
                           TEST(training_asks_the_allocator_nothing_from_the_third_step_on)));
}
