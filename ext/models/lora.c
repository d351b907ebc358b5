/* Adapters: the module, places, and merging. */
#include "lora.h"

#include <cotangent/autograd.h>
#include <cotangent/init.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/memory.h"
#include "../../src/io/name_map.h"

/* ---- the module ---- */

double cti_lora_factor(const ct_lora_opts *opts) {
    const double rank = (double)opts->rank;
    return opts->alpha / (opts->use_rslora ? sqrt(rank) : rank);
}

bool cti_lora_is_off(const cti_lora *lora) {
    return cti_switch_is_off(lora->context, &lora->power);
}

static ct_tensor *widened(ct_tensor *x) {
    return x && ct_dtype_of(x) != CT_F64 && ct_dtype_of(x) != CT_F32 ? ct_cast(x, CT_F32) : x;
}

/* W + factor B A, in f32 or f64. */
static ct_tensor *sum_of_weights(ct_module *module, const ct_lora_opts *opts) {
    ct_tensor *product = ct_matmul(widened(ct_module_get(module, "lora_B")),
                                   widened(ct_module_get(module, "lora_A")));
    return ct_add(widened(ct_module_get(module, CTI_LORA_BASE ".weight")),
                  ct_scale(product, cti_lora_factor(opts)));
}

static ct_tensor *norms_of_rows(ct_tensor *w) {
    return ct_sqrt(ct_sum(ct_mul(w, w), CT_DIMS(1), false));
}

/* m / n of DoRA. n is no part of the graph. */
static ct_tensor *dora_scale(const cti_lora *lora) {
    ct_scope scope = ct_scope_open_no_grad(lora->context);
    ct_tensor *norms = norms_of_rows(sum_of_weights(lora->module, &lora->opts));
    norms = ct_scope_return(scope, norms);
    return ct_div(ct_module_get(lora->module, CTI_LORA_NORM), norms);
}

/* The bias of a Linear; NULL if it has none. */
static ct_tensor *bias_of(const ct_module *linear) {
    ct_param param = {0};
    while (ct_module_next(linear, &param))
        if (!strcmp(param.name, "bias")) return param.tensor;
    return NULL;
}

/* y = base(x) + (m / n - 1) W in + (m / n) update, where the base's W x is without its bias. */
static ct_tensor *dora_sum(const cti_lora *lora, ct_tensor *y, ct_tensor *in, ct_tensor *update,
                           bool drops) {
    ct_module *base = ct_module_child(lora->module, CTI_LORA_BASE);
    ct_tensor *scale = dora_scale(lora), *of_base = y, *bias = bias_of(base);
    if (drops) of_base = ct_linear(in, ct_module_get(base, "weight"), NULL);
    else if (bias) of_base = ct_sub(y, bias);
    return ct_add(ct_add(y, ct_mul(ct_add_scalar(scale, -1), of_base)), ct_mul(scale, update));
}

static ct_tensor *lora_forward(void *data, ct_tensor *x) {
    const cti_lora *lora = data;
    ct_module *module = lora->module;
    ct_tensor *y = ct_forward(ct_module_child(module, CTI_LORA_BASE), x);
    if (cti_lora_is_off(lora)) return y;
    const bool drops = lora->opts.dropout > 0 && ct_module_training(module);
    ct_tensor *in = drops ? ct_dropout(x, lora->opts.dropout, true) : x;
    /* (..., rank): the factor is applied to the smaller tensor */
    ct_tensor *low = ct_scale(ct_linear(in, ct_module_get(module, "lora_A"), NULL),
                              cti_lora_factor(&lora->opts));
    ct_tensor *update = ct_linear(low, ct_module_get(module, "lora_B"), NULL);
    return lora->opts.use_dora ? dora_sum(lora, y, in, update, drops) : ct_add(y, update);
}

static void lora_describe(const void *data, FILE *file) {
    const ct_lora_opts *opts = &((const cti_lora *)data)->opts;
    fprintf(file, "rank=%" PRId64 ", alpha=%g%s%s", opts->rank, opts->alpha,
            opts->use_rslora ? ", use_rslora" : "", opts->use_dora ? ", use_dora" : "");
}

static void lora_end(void *data) {
    cti_lora *lora = data;
    cti_switch_end(lora->context, &lora->power);
    cti_give_any(lora->context, lora, sizeof *lora);
}

static void *lora_clone(void *data, ct_module *copy) {
    const cti_lora *from = data;
    cti_lora *lora = cti_take_any(from->context, sizeof *lora);
    if (lora)
        *lora = (cti_lora){.context = from->context,
                           .module = copy,
                           .opts = from->opts,
                           .power.off = from->power.off};
    return lora;
}

const ct_module_type cti_lora_type = {.name = "LoraLinear",
                                      .forward = lora_forward,
                                      .describe = lora_describe,
                                      .clone = lora_clone,
                                      .end = lora_end};

bool cti_lora_is(const ct_module *module) { return ct_module_is(module, &cti_lora_type); }

/* Makes an adapter for a weight (out, in). Its base layer is an empty module. */
static ct_module *lora_new(ct_context *context, ct_tensor *weight, ct_lora_opts opts) {
    const ct_shape shape = ct_shape_of(weight);
    const ct_dtype dtype = ct_dtype_of(weight) == CT_F64 ? CT_F64 : CT_F32;
    const double bound = 1 / sqrt((double)shape.dim[1]);
    cti_lora *lora = cti_take_any(context, sizeof *lora);
    if (!lora) return NULL;
    *lora = (cti_lora){.context = context, .opts = opts};
    ct_module *module = lora->module = ct_module_new_of(context, &cti_lora_type, lora);
    if (!module) {
        cti_give_any(context, lora, sizeof *lora);
        return NULL;
    }
    ct_scope scope = ct_scope_open(context);
    ct_tensor *a = ct_empty(context, dtype, CT_SHAPE(opts.rank, shape.dim[1]));
    ct_tensor *b = ct_zeros(context, dtype, CT_SHAPE(shape.dim[0], opts.rank));
    bool ok = a && ct_init_uniform(a, -bound, bound) && ct_module_add_param(module, "lora_A", a) &&
              ct_module_add_param(module, "lora_B", b);
    if (ok && opts.use_dora)
        ok = ct_module_add_param(module, CTI_LORA_NORM,
                                 ct_detach(norms_of_rows(ct_detach(widened(weight))))) != NULL;
    ct_scope_close(scope);
    ct_module *empty = ok ? ct_module_new(context, "Empty") : NULL;
    if (empty && ct_module_add_child(module, CTI_LORA_BASE, empty)) return module;
    ct_module_free(empty);
    ct_module_free(module);
    return NULL;
}

/* ---- places ---- */

void cti_lora_places_free(cti_lora_places *places) {
    if (places->place)
        cti_give_any(places->context, places->place,
                     cti_bytes(places->room, sizeof *places->place));
    places->place = NULL, places->n = 0;
}

bool cti_lora_places_new(const ct_module *module, cti_lora_places *places) {
    ct_param param = {0};
    *places = (cti_lora_places){0};
    while (ct_module_next(module, &param)) {
        places->context = ct_context_of(param.tensor);
        places->room++;
    }
    if (!places->context) return false;
    places->place = cti_take_any(places->context, cti_bytes(places->room, sizeof *places->place));
    return places->place && cti_lm_is_ready(places->context);
}

bool cti_lora_place_at(cti_lora_places *places, const char *path, ct_module *adapter) {
    if (strlen(path) >= CTI_LM_PATH)
        return ct_fail(places->context, CT_ERR_ARGUMENT, "lora: %s: the path is too long", path);
    cti_lora_place *place = &places->place[places->n++];
    place->adapter = adapter;
    memcpy(place->path, path, strlen(path) + 1);
    return true;
}

bool cti_lora_find(const ct_module *module, cti_lora_places *places) {
    static const char end[] = ".lora_A";
    if (!cti_lora_places_new(module, places)) {
        cti_lora_places_free(places);
        return false;
    }
    ct_param param = {0};
    while (ct_module_next(module, &param)) {
        const size_t n = strlen(param.name), m = sizeof end - 1;
        if (!cti_lora_is(param.owner) || n <= m || strcmp(param.name + n - m, end)) continue;
        char path[CTI_LORA_NAME];
        snprintf(path, sizeof path, "%.*s", (int)(n - m), param.name);
        if (cti_lora_place_at(places, path, param.owner)) continue;
        cti_lora_places_free(places);
        return false;
    }
    return true;
}

/* ---- putting in place ---- */

bool cti_lora_make(ct_module *module, cti_lora_places *places) {
    for (int64_t i = 0; i < places->n; i++) places->place[i].adapter = NULL;
    for (int64_t i = 0; i < places->n; i++) {
        char weight[CTI_LM_PATH + 8];
        snprintf(weight, sizeof weight, "%s.weight", places->place[i].path);
        ct_module *linear = ct_module_child(module, places->place[i].path);
        if (linear && !cti_nn_is_linear(linear))
            return ct_fail(places->context, CT_ERR_ARGUMENT,
                           "lora: %s must be a Linear of this library; it is a %s of another type",
                           places->place[i].path, ct_module_kind(linear));
        ct_tensor *w = linear ? ct_module_get(module, weight) : NULL;
        places->place[i].adapter = w ? lora_new(places->context, w, places->place[i].opts) : NULL;
        if (!places->place[i].adapter) return false;
    }
    return true;
}

void cti_lora_drop(const cti_lora_places *places) {
    for (int64_t i = 0; i < places->n; i++) ct_module_free(places->place[i].adapter);
}

static void others_freeze(ct_module *module) {
    ct_param param = {0};
    while (ct_module_next(module, &param)) {
        ct_tensor *original = cti_trained_original(&param);
        if (!cti_lora_is(param.owner))
            ct_set_requires_grad(original ? original : param.tensor, false);
    }
}

static bool has_adapter(ct_module *module) {
    ct_param param = {0};
    bool has = false;
    while (ct_module_next(module, &param)) has |= cti_lora_is(param.owner);
    return has;
}

void cti_lora_put(ct_module *module, const cti_lora_places *places) {
    if (!has_adapter(module)) cti_nn_note_trained(module);
    for (int64_t i = 0; i < places->n; i++) {
        ct_module *adapter = places->place[i].adapter;
        ct_module *linear = ct_module_set_child(module, places->place[i].path, adapter);
        ct_module_train(adapter, ct_module_training(linear));
        ct_module_free(ct_module_set_child(adapter, CTI_LORA_BASE, linear));
    }
    cti_trained_put(module);
    others_freeze(module);
}

/* ---- merging ---- */

/* The weight of a Linear that computes what the adapter does, in the innermost scope. */
static ct_tensor *merged_weight(const cti_lora_place *place, const ct_tensor *weight) {
    const cti_lora *lora = ct_module_data(place->adapter, &cti_lora_type);
    ct_tensor *sum = sum_of_weights(place->adapter, &lora->opts);
    if (lora->opts.use_dora) sum = ct_mul(sum, ct_unsqueeze(dora_scale(lora), 1));
    return ct_dtype_of(weight) == CT_BF16 ? ct_cast(sum, CT_BF16) : sum;
}

/* Whether the adapter's base is the Linear to whose weight a product can be added. */
static bool has_linear(const cti_lora_place *place, ct_context *context) {
    const ct_module *base = ct_module_child(place->adapter, CTI_LORA_BASE);
    if (!base || cti_nn_is_linear(base)) return base != NULL;
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "lora_merge: %s." CTI_LORA_BASE
                   " must be a Linear of this library; it is a %s of another type",
                   place->path, ct_module_kind(base));
}

/* Whether the product can be added to the base's weight in its dtype. */
static bool is_mergeable(const cti_lora_place *place, ct_context *context) {
    ct_tensor *weight = ct_module_get(place->adapter, CTI_LORA_BASE ".weight");
    const ct_dtype dtype = ct_dtype_of(weight);
    return weight &&
           ((dtype != CT_Q8_0 && dtype != CT_Q4_0) ||
            ct_fail(context, CT_ERR_DTYPE,
                    "lora_merge: %s is of blocks: ct_module_to(module, CT_BF16) or CT_F32 "
                    "first",
                    place->path));
}

/* Whether another module has the weight of the adapter's Linear too: the embedding that a head is
 * tied to. `empty` stands in the Linear's place for a moment. */
static bool is_shared(ct_module *module, const cti_lora_place *place, ct_module *empty,
                      const ct_tensor *weight) {
    ct_param param = {0};
    bool shared = false;
    ct_module *linear = ct_module_set_child(place->adapter, CTI_LORA_BASE, empty);
    while (ct_module_next(module, &param)) shared |= param.tensor == weight;
    ct_module_set_child(place->adapter, CTI_LORA_BASE, linear);
    return shared;
}

/* A Linear like the adapter's with a weight of its own. */
static ct_module *linear_of(const cti_lora_place *place, ct_context *context, ct_tensor *weight) {
    const ct_module *old = ct_module_child(place->adapter, CTI_LORA_BASE);
    const ct_shape shape = ct_shape_of(weight);
    ct_param param = {0};
    ct_tensor *bias = NULL;
    bool trained = false;
    while (ct_module_next(old, &param)) {
        if (!strcmp(param.name, "bias")) bias = param.tensor;
        else trained = ct_requires_grad(param.tensor);
    }
    ct_module *linear = cti_nn_linear_bare(context, (ct_linear_opts){.in_features = shape.dim[1],
                                                                     .out_features = shape.dim[0],
                                                                     .no_bias = bias == NULL});
    if (linear && ct_module_add_param(linear, "weight", weight) &&
        (!bias || ct_module_add_param(linear, "bias", bias))) {
        ct_module_train(linear, ct_module_training(old));
        ct_set_requires_grad(weight, trained);
        return linear;
    }
    ct_module_free(linear);
    return NULL;
}

/* Adds one adapter's product to the weight of its base Linear, and puts this Linear back in the
 * adapter's place. If another module shares the weight, the weight stays as it is, and a new Linear
 * gets the sum. */
static bool adapter_merge(ct_module *module, const cti_lora_place *place, ct_context *context) {
    ct_module *empty = ct_module_new(context, "Empty"), *own = NULL;
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *weight = ct_module_get(place->adapter, CTI_LORA_BASE ".weight");
    ct_tensor *sum = empty && weight ? merged_weight(place, weight) : NULL;
    bool ok = sum != NULL;
    const bool shared = ok && is_shared(module, place, empty, weight);
    if (shared) own = linear_of(place, context, sum);
    ok = ok && (shared ? own != NULL : ct_copy_into(weight, sum));
    ct_scope_close(scope);
    if (!ok) {
        ct_module_free(empty);
        return false;
    }
    if (own) {
        ct_module_free(empty);
        ct_module_free(ct_module_set_child(module, place->path, own));
        return true;
    }
    ct_module *linear = ct_module_set_child(place->adapter, CTI_LORA_BASE, empty);
    ct_module_free(ct_module_set_child(module, place->path, linear));
    return true;
}

/* Whether the trained copies can have the dtype of their originals. */
static bool copies_are_mergeable(const ct_module *module, ct_context *context) {
    ct_param param = {0};
    while (cti_trained_next(module, &param)) {
        const ct_dtype dtype = ct_dtype_of(cti_trained_original(&param));
        if (dtype == CT_Q8_0 || dtype == CT_Q4_0)
            return ct_fail(context, CT_ERR_DTYPE,
                           "lora_merge: the original of %s is of blocks: ct_module_to(module, "
                           "CT_BF16) or CT_F32 first",
                           param.name);
    }
    return true;
}

bool ct_lora_merge(ct_module *module) {
    cti_lora_places places;
    if (!module || !cti_lora_find(module, &places)) return false;
    bool ok = places.n > 0;
    if (!ok) ct_fail(places.context, CT_ERR_ARGUMENT, "lora_merge: there is no adapter");
    for (int64_t i = 0; ok && i < places.n; i++) ok = has_linear(&places.place[i], places.context);
    for (int64_t i = 0; ok && i < places.n; i++)
        ok = is_mergeable(&places.place[i], places.context);
    ok = ok && copies_are_mergeable(module, places.context);
    for (int64_t i = 0; ok && i < places.n; i++)
        ok = adapter_merge(module, &places.place[i], places.context);
    ok = ok && cti_trained_round(module);
    if (ok) cti_trained_end(module);
    cti_lora_places_free(&places);
    return ok;
}
