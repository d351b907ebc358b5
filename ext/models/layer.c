/* One layer of a model: attention and feed-forward by the family's options.
 *
 * norm first:  x + a(norm1(x)), then + f(norm2(.)); a and f end with norm1_out and norm2_out if the
 *              family has these
 * parallel:    x + a(norm1(x)) + f(norm2(x))
 * post-norm:   norm1(x + a(x)), then norm2(. + f(.)) */
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>

#include "lm.h"

/* ---- activations ---- */

ct_tensor *cti_lm_activate(const cti_lm *lm, ct_tensor *x) {
    switch (lm->config.activation) {
    case CT_RELU: return ct_relu(x);
    case CT_GELU: return ct_gelu(x);
    case CT_GELU_TANH: return ct_gelu_tanh(x);
    case CT_SILU: return ct_silu(x);
    case CT_ELU: return ct_elu(x, 1);
    case CT_SOFTPLUS: return ct_softplus(x);
    case CT_LEAKY_RELU: return ct_leaky_relu(x, 0.01);
    case CT_RELU_SQUARED: return ct_relu_squared(x);
    case CT_QUICK_GELU: return ct_quick_gelu(x);
    }
    return NULL;
}

static ct_tensor *run(ct_module *layer, const char *part, ct_tensor *x) {
    return ct_forward(ct_module_child(layer, part), x);
}

/* ---- attention ---- */

typedef struct {
    ct_tensor *q, *k, *v; /* (B, H, T, d), (B, H_kv, T, d) twice */
} lm_heads;

/* x (B, T, H d) -> (B, H, T, d), with a norm of each head's row, or of all heads' rows together, if
 * there is one. */
static ct_tensor *heads_of(const cti_lm *lm, ct_module *layer, const char *norm, ct_tensor *x,
                           int64_t heads) {
    if (norm) {
        const ct_shape shape = ct_shape_of(x);
        const int64_t groups = lm->config.family->wide_qk_norm ? 1 : heads;
        ct_tensor *rows = ct_reshape(x, CT_SHAPE(shape.dim[0], shape.dim[1], groups, -1));
        x = ct_reshape(run(layer, norm, rows), shape);
    }
    return ct_split_heads(x, heads);
}

static lm_heads lm_project(const cti_lm *lm, ct_module *layer, ct_tensor *x) {
    const cti_lm_names *names = &lm->config.family->names;
    const int64_t heads = cti_lm_integer(&lm->config, CTI_LM_HEADS),
                  kv = cti_lm_integer(&lm->config, CTI_LM_KV_HEADS),
                  d = cti_lm_integer(&lm->config, CTI_LM_HEAD_DIM);
    lm_heads y = {0};
    ct_tensor *all = names->qkv ? run(layer, names->qkv, x) : NULL;
    switch (lm->config.family->qkv) {
    case CTI_LM_SEPARATE:
        y.q = heads_of(lm, layer, names->q_norm, run(layer, names->q, x), heads);
        y.k = heads_of(lm, layer, names->k_norm, run(layer, names->k, x), kv);
        y.v = ct_split_heads(run(layer, names->v, x), kv);
        break;
    case CTI_LM_SIDE:
        y.q = ct_split_heads(ct_narrow(all, 2, 0, heads * d), heads);
        y.k = ct_split_heads(ct_narrow(all, 2, heads * d, kv * d), kv);
        y.v = ct_split_heads(ct_narrow(all, 2, (heads + kv) * d, kv * d), kv);
        break;
    case CTI_LM_INTERLEAVED:
        all = ct_split_heads(all, heads); /* (B, H, T, 3 d) */
        y.q = ct_narrow(all, 3, 0, d);
        y.k = ct_narrow(all, 3, d, d);
        y.v = ct_narrow(all, 3, 2 * d, d);
    }
    return y;
}

/* Turns q and k by their positions. */
static void turn(const cti_lm_config *config, int rope, ct_tensor *positions, lm_heads *y) {
    const ct_rope_opts opts = {.dims = config->rope_dims[rope],
                               .frequencies = config->frequencies[rope],
                               .attention_factor = config->attention_factor[rope]};
    y->q = ct_rope(y->q, positions, opts);
    y->k = ct_rope(y->k, positions, opts);
}

static ct_tensor *attend(cti_lm *lm, int64_t i, ct_module *layer, ct_tensor *x,
                         const cti_lm_pass *pass) {
    const cti_lm_config *config = &lm->config;
    const cti_lm_layer *own = &config->layer[i];
    lm_heads y = lm_project(lm, layer, x);
    if (own->rope >= 0) turn(config, own->rope, pass->positions, &y);
    if (pass->cache && !ct_kv_cache_append(pass->cache->layer[i], &y.k, &y.v)) return NULL;
    const bool training = ct_module_training(layer);
    ct_attention_out out =
        ct_attention(y.q, y.k, y.v,
                     (ct_attention_opts){
                         .key_mask = pass->key_mask,
                         .segments = pass->segments,
                         .lengths = pass->lengths,
                         .window = {.left = own->window},
                         .causal = pass->causal,
                         .lower_right = pass->lower_right,
                         .scale = own->scale,
                         .dropout = training ? config->number[CTI_LM_ATTENTION_DROPOUT] : 0,
                     });
    return run(layer, config->family->names.o, ct_combine_heads(out.out));
}

/* ---- feed-forward ---- */

static ct_tensor *feed_forward(const cti_lm *lm, ct_module *layer, ct_tensor *x) {
    const cti_lm_names *names = &lm->config.family->names;
    if (!names->gate) return run(layer, names->down, cti_lm_activate(lm, run(layer, names->up, x)));
    ct_tensor *gate = run(layer, names->gate, x);
    return run(layer, names->down,
               ct_activated_mul(gate, lm->config.activation, run(layer, names->up, x)));
}

/* ---- the layer ---- */

/* The norm of a layer's part, if the family has the part. */
static ct_tensor *normed(ct_module *layer, const char *part, ct_tensor *x) {
    return part ? run(layer, part, x) : x;
}

static ct_tensor *dropped(const cti_lm *lm, ct_module *layer, ct_tensor *x) {
    const double p = lm->config.number[CTI_LM_DROPOUT];
    return p > 0 ? ct_dropout(x, p, ct_module_training(layer)) : x;
}

static ct_tensor *layer_result(cti_lm *lm, int64_t i, ct_module *layer, ct_tensor *x,
                               const cti_lm_pass *pass) {
    const cti_lm_names *names = &lm->config.family->names;
    if (lm->config.family->post_norm) {
        x = ct_add(x, dropped(lm, layer, attend(lm, i, layer, x, pass)));
        x = normed(layer, names->norm1, x);
        x = ct_add(x, dropped(lm, layer, feed_forward(lm, layer, x)));
        return normed(layer, names->norm2, x);
    }
    ct_tensor *a = attend(lm, i, layer, normed(layer, names->norm1, x), pass);
    a = dropped(lm, layer, normed(layer, names->norm1_out, a));
    if (lm->config.number[CTI_LM_PARALLEL] > 0) {
        ct_tensor *f = feed_forward(lm, layer, normed(layer, names->norm2, x));
        return ct_add(ct_add(dropped(lm, layer, f), a), x);
    }
    x = ct_add(x, a);
    ct_tensor *f = feed_forward(lm, layer, normed(layer, names->norm2, x));
    return ct_add(x, dropped(lm, layer, normed(layer, names->norm2_out, f)));
}

ct_tensor *cti_lm_layer_forward(cti_lm *lm, int64_t i, ct_tensor *x, const cti_lm_pass *pass) {
    char path[CTI_LM_PATH];
    const cti_lm_names *names = &lm->config.family->names;
    const bool bare = lm->config.head == CTI_LM_HEAD_BARE;
    snprintf(path, sizeof path, "%s%s%s.%" PRId64, bare ? "" : names->base, bare ? "" : ".",
             names->layers, i);
    ct_module *layer = ct_module_child(lm->module, path);
    if (!layer) return NULL;
    ct_scope scope = ct_module_enter(layer);
    return ct_scope_return(scope, layer_result(lm, i, layer, x, pass));
}
