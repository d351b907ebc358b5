/* Muon against its formula in doubles; its AdamW; refusals. tests/torch compares it with
 * PyTorch. */
#include "tests/support/nn_check.h"
#include "optim_model.h"

static void good(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

/* ---- the formula ---- */

/* c (m, n) = a (m, k) b (k, n), each with the strides of its rows and columns. */
static void multiply(int m, int n, int k, const double *a, int ar, int ac, const double *b, int br,
                     int bc, double *c) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int l = 0; l < k; l++) c[i * n + j] += a[i * ar + l * ac] * b[l * br + j * bc];
        }
}

/* u (m, n), m <= n, becomes orthogonal. */
static void orthogonal(int m, int n, int steps, double eps, double *u) {
    double norm = 0, a[MOST * MOST], aa[MOST * MOST], au[MOST * MOST];
    for (int i = 0; i < m * n; i++) norm += u[i] * u[i];
    for (int i = 0; i < m * n; i++) u[i] /= fmax(sqrt(norm), eps);
    while (steps-- > 0) {
        multiply(m, m, n, u, n, 1, u, 1, n, a);
        multiply(m, m, m, a, m, 1, a, m, 1, aa);
        for (int i = 0; i < m * m; i++) a[i] = -4.7750 * a[i] + 2.0315 * aa[i];
        multiply(m, n, m, a, m, 1, u, n, 1, au);
        for (int i = 0; i < m * n; i++) u[i] = 3.4445 * u[i] + au[i];
    }
}

typedef struct {
    double lr, momentum, eps, decay;
    int steps;
    bool nesterov, rms;
} numbers;

/* A step of parameter k, (ROWS, COLUMNS), which has more rows than columns. */
static void update(double *p, double *b, int k, numbers o, double scale, int t) {
    double u[MOST];
    for (int i = 0; i < MOST; i++) { /* transposed */
        const int at = i % ROWS * COLUMNS + i / ROWS;
        const double g = scale * gradient(k, at, t);
        b[at] += (1 - o.momentum) * (g - b[at]);
        u[i] = o.nesterov ? g + o.momentum * (b[at] - g) : b[at];
    }
    orthogonal(COLUMNS, ROWS, o.steps, o.eps, u);
    const double s = o.rms ? 0.2 * sqrt(ROWS) : sqrt((double)ROWS / COLUMNS);
    for (int i = 0; i < MOST; i++) {
        const int at = i % ROWS * COLUMNS + i / ROWS;
        p[at] = p[at] * (1 - o.lr * o.decay) - o.lr * s * u[i];
    }
}

static double norm_of(int t) {
    double sum = 0;
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < (k < 2 ? MOST : ROWS); i++) sum += pow(gradient(k, i, t), 2);
    return sqrt(sum);
}

static void is(ct_tensor *p, const double *want, double gate) {
    double got[MOST];
    good(ct_to_f64(p, got, ct_numel(p)));
    for (int i = 0; i < ct_numel(p); i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= gate, "[%d] is %.17g, not %.17g", i, got[i],
                      want[i]);
}

/* layer.weight by Muon; weight by its name, and layer.bias as a vector, by AdamW. */
START_TEST(muon_follows_its_formula) {
    static const char *const by_adamw[] = {"wei*"};
    const struct {
        ct_muon_opts opts;
        numbers want;
    } rows[] = {
        {{0}, {1e-3, 0.95, 1e-7, 0, 5, true, false}},
        {{.lr = 0.02, .momentum = 0.5, .weight_decay = 0.3, .eps = 1e-3, .ns_steps = 2},
         {0.02, 0.5, 1e-3, 0.3, 2, true, false}},
        {{.lr = 0.01, .momentum = CT_ZERO, .no_nesterov = true, .match_rms_adamw = true},
         {0.01, 0, 1e-7, 0, 5, false, true}},
    };
    for (int which = 0; which < 3; which++) {
        ct_muon_opts opts = rows[which].opts;
        numbers want = rows[which].want;
        opts.adamw_names = by_adamw, opts.n_adamw_names = 1, opts.clip_norm = 0.6;
        opts.adamw = (ct_adamw_opts){.lr = 3 * want.lr, .beta1 = 0.8, .weight_decay = 0.2};
        ct_module *m = model_in(context, CT_F64), *like = model_in(context, CT_F64);
        ct_optim *muon = ct_muon_new(m, opts),
                 *adamw = ct_adamw_new(like, (ct_adamw_opts){.lr = 3 * want.lr,
                                                             .beta1 = 0.8,
                                                             .weight_decay = 0.2,
                                                             .clip_norm = 0.6});
        double p[MOST], b[MOST] = {0};
        good(muon && adamw && ct_to_f64(ct_module_get(m, names[1]), p, MOST));
        for (int t = 1; t <= 8; t++) {
            if (t == 5) { /* and AdamW's in proportion */
                want.lr *= 0.25;
                ct_optim_set_lr(muon, want.lr), ct_optim_set_lr(adamw, 3 * want.lr);
            }
            give_all(m, t), give_all(like, t);
            good(ct_optim_step(muon) && ct_optim_step(adamw));
            update(p, b, 1, want, 0.6 / (norm_of(t) + 1e-6), t);
            is(ct_module_get(m, names[1]), p, 1e-12);
            for (int k = 0; k < PARAMS; k += 2) {
                double q[MOST];
                good(ct_to_f64(ct_module_get(like, names[k]), q, k ? ROWS : MOST));
                is(ct_module_get(m, names[k]), q, 1e-14);
            }
        }
        ct_module_free(m), ct_module_free(like);
    }
}
END_TEST

/* The singular values of an update are near 1 for a gradient of any size. */
START_TEST(updates_are_orthogonal) {
    static const double sizes[] = {1e-3, 1, 1e10};
    for (int i = 0; i < 3; i++)
        for (int wide = 0; wide < 2; wide++) {
            ct_module *m = ct_module_new(context, "One");
            const ct_shape shape = wide ? CT_SHAPE(5, 30) : CT_SHAPE(30, 5);
            ct_tensor *w = ct_module_add_param(m, "w", ct_zeros(context, CT_F32, shape)),
                      *g = ct_scale(ct_randn(context, CT_F32, shape), sizes[i]);
            good(ct_backward(ct_sum(ct_mul(w, g), CT_ALL, false)));
            ct_optim *optim = ct_muon_new(m, (ct_muon_opts){.lr = 1});
            good(optim && ct_optim_step(optim));
            ct_tensor *o = ct_scale(ct_detach(w), wide ? 1 : sqrt(5. / 30));
            ct_tensor *gram =
                wide ? ct_matmul(o, ct_transpose(o, 0, 1)) : ct_matmul(ct_transpose(o, 0, 1), o);
            for (int r = 0; r < 5; r++)
                for (int c = 0; c < 5; c++) {
                    const double x = ct_data_f32(gram)[5 * r + c];
                    ck_assert_msg(r == c ? x > 0.4 && x < 1.6 : fabs(x) < 0.4, "%g", x);
                }
        }
}
END_TEST

/* A gradient of zeros gives an update of zeros; NaN stays NaN, or the step is skipped. */
START_TEST(gradients_without_a_direction) {
    ct_module *m = model_in(context, CT_F64);
    ct_tensor *w = ct_module_get(m, "weight"), *before = ct_clone(ct_detach(w));
    ct_optim *optim = ct_muon_new(m, (ct_muon_opts){0});
    good(ct_backward(ct_sum(ct_scale(w, 0), CT_ALL, false)) && ct_optim_step(optim));
    ck_assert(distance(ct_detach(w), before) == 0);
    ct_optim_zero_grad(optim);
    good(ct_backward(ct_sum(ct_scale(w, (double)NAN), CT_ALL, false)));
    good(ct_optim_set(optim, "skip_nonfinite", 1) && ct_optim_step(optim));
    ck_assert(ct_optim_skipped(optim) == 1 && distance(ct_detach(w), before) == 0);
    good(ct_optim_set(optim, "skip_nonfinite", 0) && ct_optim_step(optim));
    ck_assert(isnan(ct_data_f64(w)[0]));
}
END_TEST

START_TEST(what_is_refused) {
    static const char *const none[] = {"head.*"}, *const null[] = {NULL};
    const struct {
        ct_muon_opts opts;
        const char *says;
    } rows[] = {
        {{.lr = -1}, "Muon: lr is -1"},
        {{.lr = NAN}, "Muon: lr is nan"},
        {{.lr = CT_ZERO}, "Muon: lr is 0, and AdamW's lr cannot be in proportion"},
        {{.momentum = -1}, "Muon: momentum is -1"},
        {{.eps = -1}, "Muon: eps is -1"},
        {{.ns_steps = 100}, "Muon: ns_steps is 100, must be at least 1 and at most 99"},
        {{.ns_steps = -1}, "Muon: ns_steps is -1"},
        {{.weight_decay = -1}, "Muon: weight_decay is -1"},
        {{.clip_norm = -1}, "Muon: clip_norm is -1"},
        {{.adamw = {.beta1 = 1}}, "Muon: rest.beta1 is 1"},
        {{.adamw = {.lr = -1}}, "Muon: rest.lr_scale is -1000"},
        {{.adamw = {.clip_norm = 1}}, "not of .adamw"},
        {{.adamw = {.skip_nonfinite = true}}, "not of .adamw"},
        {{.n_adamw_names = 1}, "adamw_names is NULL"},
        {{.adamw_names = none, .n_adamw_names = -1}, "n_adamw_names negative"},
        {{.adamw_names = null, .n_adamw_names = 1}, "adamw_names[0] is NULL"},
        {{.adamw_names = none, .n_adamw_names = 1}, "no parameter is called \"head.*\""},
    };
    ct_module *m = model_in(context, CT_F64);
    const int64_t before = live();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_refused(ct_muon_new(m, rows[i].opts), CT_ERR_ARGUMENT, rows[i].says, "");
    ck_assert_int_eq(live(), before);
    ck_assert(!ct_muon_new(NULL, (ct_muon_opts){0}));
    ct_optim *optim = ct_muon_new(m, (ct_muon_opts){.lr = CT_ZERO, .adamw = {.lr = CT_ZERO}});
    good(optim && ct_optim_set(optim, "rest.lr_scale", 3) && ct_optim_set(optim, "lr", 0.5));
    ck_refused(ct_optim_set(optim, "ns_steps", 2.5), CT_ERR_ARGUMENT, "ns_steps must be whole", "");
    ck_refused(ct_optim_set(optim, "match_rms_adamw", 2), CT_ERR_ARGUMENT, "must be 0 or 1", "");
    good(ct_optim_set(optim, "lr", 1e308) && ct_optim_set(optim, "match_rms_adamw", 1));
    good(ct_optim_set(optim, "weight_decay", 1e10));
    give_all(m, 1);
    ck_refused(ct_optim_step(optim), CT_ERR_ARGUMENT, "Muon: weight: a learning rate of 1e+308",
               "");
}
END_TEST

int main(void) {
    return run_tests("optim_muon", setup, teardown,
                     TESTS(TEST(muon_follows_its_formula), TEST(updates_are_orthogonal),
                           TEST(gradients_without_a_direction), TEST(what_is_refused)));
}
