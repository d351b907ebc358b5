/* to_bf16, to_f32: convert the matrices of a tree of modules to half the memory and back. A
 * parameter stays the same tensor and exchanges its storage with a converted copy, so every name
 * and every pointer to it has the new values. All copies are made before the first exchange. */
#include "module.h"

typedef struct {
    ct_tensor *param, *copy;
    ct_module *owner; /* the module of its first name */
    bool frozen;      /* the parameter required no gradient before */
} pair;

static bool tensor_is_matrix(const ct_tensor *t, ct_dtype dtype) {
    return t->shape.ndim == 2 && t->dtype == dtype;
}

/* Counts the parameters to convert; -1 with an error recorded. */
static int64_t matrices_count(const ct_module *module, const char *function, ct_dtype from) {
    int64_t n = 0;
    for (ct_param p = {0}; ct_module_next(module, &p);) {
        if (tensor_is_matrix(p.tensor, CT_F64))
            return ct_fail(module->context, CT_ERR_DTYPE,
                           "%s: the parameter %s is f64; bf16 stands for f32", function, p.name),
                   -1;
        n += tensor_is_matrix(p.tensor, from);
    }
    return cti_ready(module->context) ? n : -1;
}

static bool copies_make(const ct_module *module, ct_dtype from, ct_dtype to, pair *pairs) {
    for (ct_param p = {0}; ct_module_next(module, &p);) {
        if (!tensor_is_matrix(p.tensor, from)) continue;
        *pairs = (pair){.param = p.tensor,
                        .copy = ct_cast(p.tensor, to),
                        .owner = p.owner,
                        .frozen = p.tensor->frozen};
        if (!pairs++->copy) return false;
    }
    return true;
}

static void pairs_exchange(const pair *pairs, int64_t n) {
    for (int64_t i = 0; i < n; i++) cti_tensor_exchange(pairs[i].param, pairs[i].copy);
}

/* Exchanges the storages. Matrices of f32 require a gradient again; matrices of bf16 do not, which
 * does not count as frozen. If there is no memory for a gradient, nothing has changed. */
static bool pairs_exchange_with_gradients(const pair *pairs, int64_t n, bool required) {
    pairs_exchange(pairs, n);
    for (int64_t i = 0; i < n; i++) {
        const bool set = ct_set_requires_grad(pairs[i].param, required);
        pairs[i].param->frozen = required && set ? false : pairs[i].frozen;
        if (set) continue;
        while (i-- > 0) {
            cti_grad_slot_disown(pairs[i].param->slot);
            pairs[i].param->slot = NULL;
            pairs[i].param->frozen = pairs[i].frozen;
        }
        pairs_exchange(pairs, n);
        return false;
    }
    return true;
}

/* Is a step of an optimiser running? */
static bool step_is_running(const ct_context *context) {
    const cti_frame *frame = context->frame;
    while (frame && !frame->steps) frame = frame->outer;
    return frame;
}

static bool module_convert(ct_module *module, const char *function, ct_dtype from, ct_dtype to) {
    if (!cti_nn_ready(module, function, NULL)) return false;
    ct_context *context = module->context;
    if (context->running)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: an op is running, which may read the parameters", function);
    if (step_is_running(context))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: a step of an optimiser is running, which may change the parameters",
                       function);
    const int64_t n = matrices_count(module, function, from);
    if (n <= 0) return n == 0;
    const size_t bytes = cti_bytes(n, sizeof(pair));
    pair *pairs = cti_take(context, bytes);
    if (!pairs) return false;
    const ct_scope scope = ct_scope_open_no_grad(context);
    const bool done = copies_make(module, from, to, pairs) &&
                      pairs_exchange_with_gradients(pairs, n, to == CT_F32);
    for (int64_t i = 0; done && i < n; i++) cti_nn_changed(pairs[i].owner);
    ct_scope_close(scope);
    cti_give(context, pairs, bytes);
    return done;
}

bool ct_module_to_bf16(ct_module *module) {
    return module_convert(module, "ct_module_to_bf16", CT_F32, CT_BF16);
}

bool ct_module_to_f32(ct_module *module) {
    return module_convert(module, "ct_module_to_f32", CT_BF16, CT_F32);
}
