/* ct_module_to: converts the weights of a tree of modules to a dtype for weights at rest, and back.
 * A parameter stays the same tensor and exchanges its storage with a converted copy, so every name
 * and every pointer to it has the new values. All copies are made before the first exchange. */
#include "attention/mha.h"
#include "bare.h"
#include "module.h"

static const char function[] = "ct_module_to";

typedef struct {
    ct_tensor *param, *copy;
    ct_module *owner;
    bool frozen; /* the parameter required no gradient before */
    bool hidden; /* a trained copy stands in its place */
} pair;

/* ---- which parameters, and to which dtype ---- */

void cti_nn_stay(ct_module *module) {
    if (module) module->stays = true;
}
bool cti_nn_stays(const ct_module *module) { return module->stays; }

/* Whether the module's own matrices are weights of products or a table of tokens. */
static bool module_has_weights(const ct_module *module) {
    return !module->stays &&
           (cti_nn_is_linear(module) || cti_nn_is_embedding(module) || cti_nn_is_mha(module));
}

/* Whether a parameter of the module is converted. To f32 all are that rest in another dtype. */
static bool is_converted(const ct_module *module, const ct_tensor *t, ct_dtype to) {
    if (to == CT_F32) return t->dtype == CT_BF16 || cti_is_blocks(t->dtype);
    return t->shape.ndim == 2 && module_has_weights(module) &&
           t->dtype != cti_nn_dtype_at_rest(to, &t->shape);
}

static bool pairs_have(const pair *pairs, int64_t n, const ct_tensor *param) {
    while (n > 0 && pairs[n - 1].param != param) n--;
    return n > 0;
}

/* Lists the parameters to convert, each once, in pairs unless this is NULL. Returns an upper bound
 * of their number without pairs, their number with them, and -1 after an error. */
static int64_t weights_list(ct_module *root, ct_dtype to, pair *pairs) {
    int64_t n = 0;
    char name[CTI_NAME_SIZE];
    for (ct_module *module = root; module; module = cti_nn_after(root, module)) {
        for (const cti_nn_entry *entry = module->params; entry; entry = entry->next) {
            ct_tensor *original = cti_trained_original_of(entry);
            ct_tensor *t = original ? original : entry->tensor;
            if (!is_converted(module, t, to) || (pairs && pairs_have(pairs, n, t))) continue;
            if (t->dtype == CT_F64)
                return ct_fail(root->context, CT_ERR_DTYPE,
                               "%s: the parameter %s is f64; %s stands for f32", function,
                               t->namer->name(t->namer, name), cti_dtype_name(to)),
                       -1;
            if (pairs)
                pairs[n] = (pair){
                    .param = t, .owner = module, .frozen = t->frozen, .hidden = original != NULL};
            n++;
        }
    }
    return n;
}

/* ---- conversion ---- */

static bool copies_make(pair *pairs, int64_t n, ct_dtype to) {
    for (int64_t i = 0; i < n; i++) {
        const ct_tensor *param = pairs[i].param;
        pairs[i].copy = ct_cast(pairs[i].param, cti_nn_dtype_at_rest(to, &param->shape));
        if (!pairs[i].copy) return false;
    }
    return true;
}

static void pairs_exchange(const pair *pairs, int64_t n) {
    for (int64_t i = 0; i < n; i++) cti_tensor_exchange(pairs[i].param, pairs[i].copy);
}

/* Exchanges the storages. Matrices of f32 require a gradient again; others do not, which does not
 * count as frozen. If there is no memory for a gradient, nothing has changed. */
static bool pairs_exchange_with_gradients(const pair *pairs, int64_t n, bool required) {
    pairs_exchange(pairs, n);
    for (int64_t i = 0; i < n; i++) {
        const bool wants = required && !pairs[i].hidden;
        const bool set = ct_set_requires_grad(pairs[i].param, wants);
        pairs[i].param->frozen = wants && set ? false : pairs[i].frozen;
        if (set) continue;
        while (i-- > 0) {
            if (pairs[i].param->slot) cti_grad_slot_disown(pairs[i].param->slot);
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

/* Whether the call can be made now. */
static bool can_convert(ct_context *context, ct_dtype dtype) {
    if (dtype != CT_F32 && dtype != CT_BF16 && dtype != CT_Q8_0 && dtype != CT_Q4_0)
        return ct_fail(context, CT_ERR_DTYPE, "%s: to f32, bf16, q8_0 or q4_0, not to %s", function,
                       (unsigned)dtype < CTI_DTYPES ? cti_dtype_name(dtype) : "another dtype");
    if (context->running)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: an op is running, which may read the parameters", function);
    if (step_is_running(context))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: a step of an optimiser is running, which may change the parameters",
                       function);
    return true;
}

bool ct_module_to(ct_module *module, ct_dtype dtype) {
    if (!cti_nn_ready(module, function, NULL)) return false;
    ct_context *context = module->context;
    if (!can_convert(context, dtype)) return false;
    const int64_t most = weights_list(module, dtype, NULL);
    if (most <= 0) return most == 0;
    const size_t bytes = cti_bytes(most, sizeof(pair));
    pair *pairs = cti_take(context, bytes);
    if (!pairs) return false;
    const int64_t n = weights_list(module, dtype, pairs);
    const ct_scope scope = ct_scope_open_no_grad(context);
    const bool done =
        copies_make(pairs, n, dtype) && pairs_exchange_with_gradients(pairs, n, dtype == CT_F32);
    for (int64_t i = 0; done && i < n; i++) cti_nn_changed(pairs[i].owner);
    ct_scope_close(scope);
    cti_give(context, pairs, bytes);
    return done;
}
