/* A module of three parameters, and gradients of them that depend on the step only. */
#ifndef OPTIM_MODEL_H
#define OPTIM_MODEL_H

#include <cotangent/cotangent.h>
#include <math.h>

enum { PARAMS = 3, ROWS = 4, COLUMNS = 3, MOST = ROWS * COLUMNS };
static const char *const names[PARAMS] = {"weight", "layer.weight", "layer.bias"};

/* weight (4, 3), layer.weight (4, 3), layer.bias (4). */
static inline ct_module *model_in(ct_context *c, ct_dtype dtype) {
    ct_module *m = ct_module_new(c, "Model"), *layer = ct_module_new(c, "Layer");
    for (int k = 0; k < PARAMS; k++) {
        double start[MOST];
        for (int i = 0; i < MOST; i++) start[i] = sin(i + k + 1);
        const ct_shape shape = k < 2 ? CT_SHAPE(ROWS, COLUMNS) : CT_SHAPE(ROWS);
        ct_module_add_param(k ? layer : m, k < 2 ? "weight" : "bias",
                            ct_cast(ct_from_f64(c, shape, start), dtype));
    }
    return ct_module_add_child(m, "layer", layer) ? m : NULL;
}
static inline double gradient(int k, int i, int t) { return cos(3 * i + 7 * k + t) + 0.1 * k; }

static inline void give(ct_module *m, int k, int t) {
    ct_tensor *p = ct_module_get(m, names[k]);
    ct_context *c = ct_context_of(p);
    ct_scope scope = ct_scope_open(c);
    double g[MOST];
    for (int i = 0; i < MOST; i++) g[i] = gradient(k, i, t);
    ct_zero_grad(p);
    ct_backward(ct_sum(ct_mul(p, ct_cast(ct_from_f64(c, ct_shape_of(p), g), ct_dtype_of(p))),
                       CT_ALL, false));
    ct_scope_close(scope);
}
static inline void give_all(ct_module *m, int t) {
    for (int k = 0; k < PARAMS; k++) give(m, k, t);
}

#endif
