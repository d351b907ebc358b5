/* CT_LM_EMBED: sentence-transformers' Pooling, Dense and Normalize. */
#include "sentence_vector.h"

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/memory.h"
#include "pooling.h"

/* ---- Dense ---- */

typedef struct {
    ct_context *context;
    ct_module *module;
    int activation; /* an index of dense_activations */
} dense_data;

static ct_tensor *dense_identity(ct_tensor *x) { return x; }

static const struct {
    const char *name;
    ct_tensor *(*run)(ct_tensor *x);
} dense_activations[] = {{"Identity", dense_identity},
                         {"Tanh", ct_tanh},
                         {"Sigmoid", ct_sigmoid},
                         {"ReLU", ct_relu},
                         {"GELU", ct_gelu},
                         {"SiLU", ct_silu}};
enum { DENSE_ACTIVATIONS = sizeof dense_activations / sizeof *dense_activations };

const char *cti_dense_activation(cti_text name) {
    for (int i = 0; i < DENSE_ACTIVATIONS; i++)
        if (!cti_text_compare(name, cti_text_of(dense_activations[i].name)))
            return dense_activations[i].name;
    return NULL;
}

static ct_tensor *dense_forward(void *data, ct_tensor *x) {
    const dense_data *d = data;
    return dense_activations[d->activation].run(
        ct_forward(ct_module_child(d->module, CTI_DENSE_LINEAR), x));
}

static void dense_describe(const void *data, FILE *file) {
    fprintf(file, "%s", dense_activations[((const dense_data *)data)->activation].name);
}

static void dense_end(void *data) {
    dense_data *d = data;
    cti_give_any(d->context, d, sizeof *d);
}

static void *dense_clone(void *data, ct_module *copy) {
    const dense_data *from = data;
    dense_data *d = cti_take_any(from->context, sizeof *d);
    if (d)
        *d = (dense_data){.context = from->context, .module = copy, .activation = from->activation};
    return d;
}

const ct_module_type cti_dense_type = {.name = "Dense",
                                       .forward = dense_forward,
                                       .describe = dense_describe,
                                       .clone = dense_clone,
                                       .end = dense_end};

ct_module *cti_dense_new(ct_context *context, cti_dense_opts opts, ct_dtype dtype) {
    dense_data *d = cti_take_any(context, sizeof *d);
    if (!d) return NULL;
    *d = (dense_data){.context = context};
    while (strcmp(dense_activations[d->activation].name, opts.activation)) d->activation++;
    ct_module *module = d->module = ct_module_new_of(context, &cti_dense_type, d);
    if (!module) {
        cti_give_any(context, d, sizeof *d);
        return NULL;
    }
    ct_module *linear = cti_nn_linear_empty(context, (ct_linear_opts){.in_features = opts.in,
                                                                      .out_features = opts.out,
                                                                      .no_bias = opts.no_bias,
                                                                      .dtype = dtype});
    cti_nn_stay(linear);
    if (linear && ct_module_add_child(module, CTI_DENSE_LINEAR, linear)) return module;
    ct_module_free(linear);
    ct_module_free(module);
    return NULL;
}

bool cti_lm_is_of_dense(const void *arg, const char *name) {
    const cti_lm *lm = arg;
    for (int i = 0; i < lm->sentence.steps; i++) {
        const cti_lm_step *step = &lm->sentence.step[i];
        const size_t n = strlen(step->path);
        if (step->kind == CTI_LM_STEP_DENSE && !strncmp(name, step->path, n) && name[n] == '.')
            return true;
    }
    return false;
}

/* ---- the vector ---- */

bool cti_lm_sentence_check(const cti_lm *lm, const char *op, const ct_lm_call *call) {
    if (*lm->sentence.refused)
        return ct_fail(lm->context, CT_ERR_FORMAT, "%s: %s: %s", op, lm->folder,
                       lm->sentence.refused);
    if (call->cache)
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: a sentence vector is of all tokens of a row, and needs a call without "
                       "a cache",
                       op);
    if (call->prompt_tokens >= 0) return true;
    return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: prompt_tokens is %" PRId64, op,
                   call->prompt_tokens);
}

/* The poolings of the tokens side by side. */
static ct_tensor *tokens_pool(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    const cti_lm_sentence *sentence = &lm->sentence;
    const ct_shape shape = ct_shape_of(x);
    ct_tensor *part[CTI_LM_MOST_POOLS], *mask = call->key_mask;
    if (sentence->without_prompt && call->prompt_tokens) {
        mask =
            cti_lm_mask_behind(lm->context, mask, shape.dim[0], shape.dim[1], call->prompt_tokens);
        if (!mask) return NULL;
    }
    for (int i = 0; i < sentence->pools; i++) {
        part[i] = cti_lm_pool_tokens(mask, x, sentence->pool[i]);
        if (!part[i]) return NULL;
    }
    return sentence->pools == 1 ? part[0] : ct_cat(part, sentence->pools, 1);
}

ct_tensor *cti_lm_sentence_vector(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    const cti_lm_sentence *sentence = &lm->sentence;
    if (!x || !sentence->steps) return cti_lm_mean_of_tokens(call->key_mask, x);
    x = tokens_pool(lm, call, x);
    for (int i = 0; i < sentence->steps && x; i++) {
        const cti_lm_step *step = &sentence->step[i];
        if (step->kind == CTI_LM_STEP_DENSE)
            x = ct_forward(ct_module_child(lm->module, step->path), x);
        if (step->kind == CTI_LM_STEP_NORMALIZE) x = ct_normalize(x, 2, -1, 1e-12);
    }
    return x;
}

const char *ct_lm_prompt(const ct_module *module, const char *name) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return NULL;
    const cti_lm_sentence *sentence = &lm->sentence;
    if (*sentence->refused_prompts)
        return ct_fail(lm->context, CT_ERR_FORMAT, "lm_prompt: %s: %s", lm->folder,
                       sentence->refused_prompts);
    const char *at = sentence->prompts;
    for (int i = 0; i < sentence->n_prompts; i++) {
        const char *text = at + strlen(at) + 1;
        if (name ? !strcmp(name, at) : i == sentence->default_prompt) return text;
        at = text + strlen(text) + 1;
    }
    return NULL;
}
