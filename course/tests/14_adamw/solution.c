/* AdamW's update as its formulas stand, and the loop: zero, forward, backward, update. */
#include "exercise.h"

#include <math.h>
#include <stdlib.h>

void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                adamw_opts opts) {
    const double bias1 = 1 - pow(opts.beta1, (double)t), bias2 = 1 - pow(opts.beta2, (double)t);
    for (int64_t i = 0; i < n; i++) {
        m[i] = opts.beta1 * m[i] + (1 - opts.beta1) * g[i];
        v[i] = opts.beta2 * v[i] + (1 - opts.beta2) * g[i] * g[i];
        w[i] -= opts.lr * opts.weight_decay * w[i];
        w[i] -= opts.lr * (m[i] / bias1) / (sqrt(v[i] / bias2) + opts.eps);
    }
}

typedef struct {
    double *m, *v;
    int64_t t; /* updates so far */
} state;

/* False: the loss or its backward has failed. */
static bool one_step(ct_tensor *const *params, state *states, int n, loss_function loss, void *arg,
                     adamw_opts opts, double *value) {
    for (int i = 0; i < n; i++) ct_zero_grad(params[i]);
    ct_tensor *out = loss(arg);
    if (!out || !ct_backward(out)) return false;
    *value = ct_item(out);
    for (int i = 0; i < n; i++) {
        ct_tensor *grad = ct_grad(params[i]);
        if (!grad) continue; /* the loss did not use it */
        state *s = &states[i];
        adamw_step(ct_numel(params[i]), ct_data_f64(params[i]), ct_data_f64(grad), s->m, s->v,
                   ++s->t, opts);
    }
    return true;
}

bool train(ct_context *context, ct_tensor *const *params, int n, loss_function loss, void *arg,
           int steps, adamw_opts opts, double *losses) {
    state *states = malloc((size_t)n * sizeof *states);
    for (int i = 0; i < n; i++) {
        const size_t count = (size_t)ct_numel(params[i]);
        states[i] = (state){calloc(count, sizeof(double)), calloc(count, sizeof(double)), 0};
    }
    bool done = true;
    for (int step = 0; step < steps && done; step++) {
        ct_scope scope = ct_scope_open(context);
        done = one_step(params, states, n, loss, arg, opts, &losses[step]);
        ct_scope_close(scope);
    }
    for (int i = 0; i < n; i++) free(states[i].m), free(states[i].v);
    free(states);
    return done;
}
