/* torch.nn.TransformerEncoder and TransformerDecoder: layers.0, layers.1, ... in sequence, then
 * norm. Each layer's input is released as soon as the layer has run; the tape keeps the tensors
 * that backward needs. */
#include "stack.h"

#include "attention/mha.h"

static ct_tensor *encoder_forward(void *self, ct_tensor *x) {
    return ct_encoder_forward(self, x, (ct_stack_call){0});
}

const ct_module_type cti_nn_encoder_type = {.name = "TransformerEncoder",
                                            .forward = encoder_forward};
const ct_module_type cti_nn_decoder_type = {.name = "TransformerDecoder"};

/* ---- making ---- */

/* The options of a stack's layers: each layer's own, or one for all. */
typedef struct {
    const ct_layer_opts *opts;
    int64_t n;
    bool own;
} layer_list;

static const ct_layer_opts *opts_of_layer(const layer_list *layers, int64_t i) {
    return &layers->opts[layers->own ? i : 0];
}

/* Returns whether all layers have one width and dtype: each layer's result is the next one's
 * input. */
static bool layers_fit(ct_context *context, const ct_module_type *type, const layer_list *layers) {
    if (!cti_nn_check_size(context, type, "num_layers", layers->n, 1)) return false;
    if (!layers->opts)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the options of the layers are NULL",
                       type->name);
    const ct_layer_opts *first = layers->opts;
    for (int64_t i = 1; layers->own && i < layers->n; i++) {
        const ct_layer_opts *o = &layers->opts[i];
        if (o->embed_dim != first->embed_dim)
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: layers 0 and %" PRId64 " have embed_dim %" PRId64 " and %" PRId64,
                           type->name, i, first->embed_dim, o->embed_dim);
        if (o->dtype != first->dtype)
            return ct_fail(context, CT_ERR_DTYPE, "%s: layers 0 and %" PRId64 " are %s and %s",
                           type->name, i, cti_dtype_name(first->dtype), cti_dtype_name(o->dtype));
    }
    return true;
}

static ct_module *stack_new(ct_context *context, const ct_module_type *type, layer_list layers,
                            bool final_norm) {
    if (!layers_fit(context, type, &layers)) return NULL;
    ct_module *stack = cti_nn_new(context, type, layers.opts, sizeof *layers.opts);
    if (!stack) return NULL;
    for (int64_t i = 0; i < layers.n && cti_ready(context); i++) {
        const ct_layer_opts *o = opts_of_layer(&layers, i);
        ct_module *layer = type == &cti_nn_decoder_type ? ct_decoder_layer_new(context, *o)
                                                        : ct_encoder_layer_new(context, *o);
        if (!ct_module_append(stack, "layers", layer)) ct_module_free(layer);
    }
    if (final_norm) cti_nn_child_add(stack, "norm", cti_nn_layer_norm_new(context, layers.opts));
    return cti_nn_made(stack);
}

ct_module *ct_encoder_new_of(ct_context *context, const ct_layer_opts *layers, int64_t n,
                             bool final_norm) {
    return stack_new(context, &cti_nn_encoder_type,
                     (layer_list){.opts = layers, .n = n, .own = true}, final_norm);
}

ct_module *ct_encoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                          bool final_norm) {
    return stack_new(context, &cti_nn_encoder_type, (layer_list){.opts = &layer, .n = num_layers},
                     final_norm);
}

ct_module *ct_decoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                          bool final_norm) {
    return stack_new(context, &cti_nn_decoder_type, (layer_list){.opts = &layer, .n = num_layers},
                     final_norm);
}

static ct_module *first_layer(const ct_module *stack) {
    const ct_module *layers = cti_nn_child(stack, "layers");
    return layers ? layers->children : NULL;
}

int64_t cti_nn_stack_layers(const ct_module *stack) {
    int64_t n = 0;
    for (ct_module *layer = first_layer(stack); layer; layer = layer->next) n++;
    return n;
}

/* Whether "layers" is still the list that the constructor made; a program may have replaced it. */
static bool has_list(ct_module *stack) {
    const ct_module *layers = ct_module_child(stack, "layers");
    if (!layers || layers->type == &cti_nn_list_type) return layers;
    return ct_fail(stack->context, CT_ERR_ARGUMENT, "%s: layers is a %s, not a list of layers",
                   cti_nn_kind_name(stack), cti_nn_kind_name(layers));
}

/* ---- caches ---- */

bool ct_kv_caches_new(ct_module *stack, int64_t batch, int64_t max_length, ct_kv_cache **caches,
                      int64_t n) {
    if (!cti_nn_ready(stack, "ct_kv_caches_new", NULL)) return false;
    ct_context *context = stack->context;
    if (stack->type != &cti_nn_encoder_type && stack->type != &cti_nn_decoder_type)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_kv_caches_new: expected a %s or a %s, got a %s",
                       cti_nn_encoder_type.name, cti_nn_decoder_type.name, cti_nn_kind_name(stack));
    if (!has_list(stack)) return false;
    const int64_t layers = cti_nn_stack_layers(stack);
    int64_t made = 0;
    if (!caches || n != layers)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_kv_caches_new: room for %" PRId64 " caches, and %" PRId64 " layers",
                       caches ? n : 0, layers);
    for (ct_module *layer = first_layer(stack); layer && cti_ready(context); layer = layer->next) {
        ct_module *attention = ct_module_child(layer, "self_attn");
        caches[made++] = attention ? ct_kv_cache_new(attention, batch, max_length) : NULL;
    }
    if (cti_ready(context)) return true;
    while (made) ct_kv_cache_free(caches[--made]);
    for (int64_t i = 0; i < n; i++) caches[i] = NULL;
    return false;
}

/* Checks a call: there is a list of layers, each has a cache, and all caches have the same length.
 * self.cache, cross.cache and need_weights are unset, because the stack sets them for each
 * layer. */
static bool stack_check(ct_module *stack, const ct_stack_call *call) {
    ct_context *context = stack->context;
    const char *name = cti_nn_kind_name(stack);
    if (!has_list(stack)) return false;
    if (call->self.cache || call->cross.cache)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: a cache of one layer; a stack has caches, one for each", name);
    if (call->self.need_weights || call->cross.need_weights)
        return ct_fail(
            context, CT_ERR_ARGUMENT,
            "%s: need_weights of one layer; a stack's go to self_weights and cross_weights", name);
    int64_t i = 0;
    for (ct_module *layer = call->caches ? first_layer(stack) : NULL; layer;
         layer = layer->next, i++) {
        if (!call->caches[i])
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: the cache of layer %" PRId64 " is NULL",
                           name, i);
        if (!cti_nn_cache_in(call->caches[i], stack, name)) return false;
        if (call->caches[i]->length != call->caches[0]->length)
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: the caches of layers 0 and %" PRId64 " have lengths %" PRId64
                           " and %" PRId64,
                           name, i, call->caches[0]->length, call->caches[i]->length);
        if (call->caches[i]->batch == call->caches[0]->batch &&
            !cti_nn_cache_rows_equal(call->caches[i], call->caches[0]))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: the rows of the caches of layers 0 and %" PRId64
                           " have different lengths",
                           name, i);
    }
    return true;
}

/* ---- running ---- */

/* Runs the layers and the norm. A layer of the program may replace itself, and its `next` is
 * invalid then, so `next` is read before the layer runs. */
static ct_tensor *layers_run(ct_module *stack, ct_tensor *x, ct_tensor *memory,
                             const ct_stack_call *call, int64_t layers) {
    ct_mha_call self = call->self, cross = call->cross;
    self.need_weights = call->self_weights != NULL;
    cross.need_weights = call->cross_weights != NULL;
    ct_tensor *y = x;
    int64_t i = 0;
    for (ct_module *layer = first_layer(stack), *next; layer && y && i < layers;
         layer = next, i++) {
        next = layer->next;
        if (call->caches) self.cache = call->caches[i];
        ct_layer_out out = memory ? ct_decoder_layer_forward(layer, y, memory, self, cross)
                                  : ct_encoder_layer_forward(layer, y, self);
        if (call->self_weights) call->self_weights[i] = out.self_weights;
        if (call->cross_weights) call->cross_weights[i] = out.cross_weights;
        y = cti_nn_state_next(y, out.out);
    }
    const ct_layer_opts *o = cti_nn_data(stack);
    return cti_nn_child(stack, "norm") ? cti_nn_forward(stack, "norm", y, o->embed_dim) : y;
}

static ct_tensor *stack_run(ct_module *stack, ct_tensor *x, ct_tensor *memory, ct_stack_call call) {
    ct_context *context = stack->context;
    if (!stack_check(stack, &call)) return NULL;
    const int64_t layers = cti_nn_stack_layers(stack);
    for (int64_t i = 0; call.caches && i < layers; i++) cti_nn_cache_mark(call.caches[i]);
    cti_nn_scope scope;
    cti_nn_enter(stack, &scope);
    for (int64_t i = 0; i < layers; i++) { /* a layer may be freed before its turn */
        if (call.self_weights) call.self_weights[i] = NULL;
        if (call.cross_weights) call.cross_weights[i] = NULL;
    }
    ct_tensor *y = layers_run(stack, x, memory, &call, layers);
    const bool good = cti_ready(context);
    for (int64_t i = 0; i < layers; i++) {
        if (call.caches) cti_nn_cache_unmark(call.caches[i], good);
        if (call.self_weights)
            call.self_weights[i] =
                good ? cti_nn_hand_out(context, &scope, call.self_weights[i]) : NULL;
        if (call.cross_weights)
            call.cross_weights[i] =
                good ? cti_nn_hand_out(context, &scope, call.cross_weights[i]) : NULL;
    }
    return cti_nn_leave(context, &scope, good ? y : NULL);
}

ct_tensor *ct_encoder_forward(ct_module *encoder, ct_tensor *x, ct_stack_call call) {
    if (!cti_nn_is(encoder, &cti_nn_encoder_type, "ct_encoder_forward", x) ||
        !cti_nn_layer_takes(encoder, x, "x"))
        return NULL;
    if (call.cross_weights)
        return ct_fail(encoder->context, CT_ERR_ARGUMENT, "%s: there are no cross_weights",
                       cti_nn_kind_name(encoder));
    return stack_run(encoder, x, NULL, call);
}

ct_tensor *ct_decoder_forward(ct_module *decoder, ct_tensor *x, ct_tensor *memory,
                              ct_stack_call call) {
    if (!cti_nn_is(decoder, &cti_nn_decoder_type, "ct_decoder_forward", x) ||
        !cti_nn_layer_takes(decoder, x, "x") || !cti_nn_layer_takes(decoder, memory, "memory"))
        return NULL;
    return stack_run(decoder, x, memory, call);
}
