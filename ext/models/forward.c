/* Forwards of a model: embeddings, layers, the results of each architecture, and the loss. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>

#include "../../nn/bare.h"
#include "../../src/core/int_math.h"
#include "../../src/core/row_rule.h"
#include "lora.h"
#include "pooling.h"
#include "sentence_vector.h"

static const char forward_name[] = "lm_forward", loss_name[] = "lm_loss";

enum { NO_TARGET = -100 }; /* the target of a position that the loss leaves out */

/* ---- checks ---- */

/* Whether a tensor of the call is NULL, or (B, T) of a dtype. */
static bool is_input(const cti_lm *lm, const char *op, const char *name, const ct_tensor *x,
                     ct_dtype dtype, ct_shape want) {
    if (!x) return true;
    const ct_shape got = ct_shape_of(x);
    if (ct_dtype_of(x) != dtype)
        return ct_fail(lm->context, CT_ERR_DTYPE, "%s: %s must be %s", op, name,
                       dtype == CT_BOOL ? "bool" : "i64");
    if (got.ndim == 2 && got.dim[0] == want.dim[0] && got.dim[1] == want.dim[1]) return true;
    return ct_fail(lm->context, CT_ERR_SHAPE,
                   "%s: %s must be (%" PRId64 ", %" PRId64 "), as ids; it has %d dims", op, name,
                   want.dim[0], want.dim[1], got.ndim);
}

static bool ids_check(const cti_lm *lm, const char *op, const ct_tensor *ids) {
    ct_context *context = lm->context;
    if (!ids) return ct_fail(context, CT_ERR_ARGUMENT, "%s: ids is NULL", op);
    const ct_shape shape = ct_shape_of(ids);
    if (ct_dtype_of(ids) != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "%s: ids must be i64", op);
    if (shape.ndim != 2 || shape.dim[1] < 1)
        return ct_fail(context, CT_ERR_SHAPE, "%s: ids must be (B, T) with T >= 1", op);
    return true;
}

/* Checks embeds, which stand in place of ids. */
static bool embeds_check(const cti_lm *lm, const char *op, const ct_tensor *ids,
                         const ct_tensor *embeds) {
    ct_context *context = lm->context;
    const int64_t width = cti_lm_integer(&lm->config, CTI_LM_WIDTH);
    const ct_dtype dtype = cti_lm_dtype(lm) == CT_F64 ? CT_F64 : CT_F32;
    const ct_shape shape = ct_shape_of(embeds);
    if (ids) return ct_fail(context, CT_ERR_ARGUMENT, "%s: ids and also embeds", op);
    if (ct_dtype_of(embeds) != dtype)
        return ct_fail(context, CT_ERR_DTYPE, "%s: embeds must be %s", op,
                       dtype == CT_F64 ? "f64" : "f32");
    if (shape.ndim == 3 && shape.dim[1] >= 1 && shape.dim[2] == width) return true;
    return ct_fail(context, CT_ERR_SHAPE,
                   "%s: embeds must be (B, T, %" PRId64
                   ") with T >= 1; it has %d dims, the last of "
                   "%" PRId64,
                   op, width, shape.ndim, shape.ndim ? shape.dim[shape.ndim - 1] : 1);
}

/* The shape (B, T) of the tokens of a call. */
static ct_shape tokens_shape(const ct_tensor *ids, const ct_lm_call *call) {
    const ct_shape shape = ct_shape_of(ids ? ids : call->embeds);
    return CT_SHAPE(shape.dim[0], shape.dim[1]);
}

/* Checks the tokens and the call. Returns false after an error. */
static bool forward_call_check(const cti_lm *lm, const char *op, ct_tensor *ids,
                               const ct_lm_call *call) {
    ct_context *context = lm->context;
    if (call->embeds ? !embeds_check(lm, op, ids, call->embeds) : !ids_check(lm, op, ids))
        return false;
    const ct_shape shape = tokens_shape(ids, call);
    if (!is_input(lm, op, "key_mask", call->key_mask, CT_BOOL, shape) ||
        !is_input(lm, op, "positions", call->positions, CT_I64, shape) ||
        !is_input(lm, op, "segments", call->segments, CT_I64, shape) ||
        !is_input(lm, op, "token_types", call->token_types, CT_I64, shape))
        return false;
    if (call->token_types && !lm->config.family->names.types)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s has no token types", op,
                       lm->config.family->model_type);
    if (!call->cache) return true;
    if (!cti_object_is_ready(&call->cache->object, op, "cache", context)) return false;
    if (call->cache->module != lm->module || call->cache->batch != shape.dim[0] || call->segments)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s", op,
                       call->segments ? "segments need a call without a cache"
                       : call->cache->module != lm->module
                           ? "the cache is of another model"
                           : "the cache has another number of rows than ids");
    return true;
}

/* ---- positions, masks ---- */

/* The number of tokens of each row of a call with a cache, in lengths[B]: its mask must be true in
 * front and false behind. */
static bool tokens_count(const cti_lm *lm, const bool *mask, int64_t B, int64_t T,
                         int64_t *lengths) {
    for (int64_t b = 0; b < B; b++) {
        int64_t n = mask ? 0 : T;
        while (mask && n < T && mask[b * T + n]) n++;
        for (int64_t t = n; mask && t < T; t++)
            if (mask[b * T + t])
                return ct_fail(lm->context, CT_ERR_ARGUMENT,
                               "%s: key_mask[%" PRId64 ", %" PRId64 "] is a token behind padding; "
                               "with a cache a row's tokens come first",
                               forward_name, b, t);
        lengths[b] = n;
    }
    return true;
}

/* Whether a row of n tokens fits a model with a table of positions. */
static bool has_positions(const cti_lm *lm, int64_t n) {
    const int64_t most = cti_lm_most_tokens(&lm->config);
    if (!lm->config.family->names.positions || n <= most) return true;
    return ct_fail(lm->context, CT_ERR_ARGUMENT,
                   "%s: a row has %" PRId64 " tokens, and the model %" PRId64 " positions",
                   forward_name, n, most);
}

/* Positions (B, T): the place of a token among the tokens of its row and segment. A token that the
 * mask hides has the position of the token before it. */
static ct_tensor *lm_positions(const cti_lm *lm, const ct_lm_call *call, ct_shape shape) {
    const int64_t B = shape.dim[0], T = shape.dim[1];
    ct_tensor *positions = ct_empty(lm->context, CT_I64, CT_SHAPE(B, T));
    ct_tensor *segments = call->segments ? ct_contiguous(call->segments) : NULL;
    const bool *mask = cti_lm_mask_values(call->key_mask);
    int64_t *out = positions ? ct_data_i64(positions) : NULL;
    const int64_t *segment = segments ? ct_data_i64(segments) : NULL;
    int64_t longest = 0;
    if (!out || (call->key_mask && !mask) || (call->segments && !segment)) return NULL;
    for (int64_t b = 0; b < B; b++) {
        int64_t next = call->cache ? call->cache->before[b] : 0;
        for (int64_t t = 0; t < T; t++) {
            const int64_t i = b * T + t;
            if (segment && t && segment[i] != segment[i - 1]) {
                next = 0; /* tokens of a segment that lie apart count on from the last of them */
                for (int64_t s = t; s-- > 0;)
                    if (segment[b * T + s] == segment[i] && (!mask || mask[b * T + s])) {
                        next = out[b * T + s] + 1;
                        break;
                    }
            }
            const bool hidden = mask && !mask[i];
            out[i] = hidden && next > 0 ? next - 1 : next;
            if (!hidden) longest = cti_max(longest, ++next);
        }
    }
    return has_positions(lm, longest) ? positions : NULL;
}

/* Whether the positions are 0, 1, ... in every row. */
static bool lm_is_plain(const ct_lm_call *call) {
    return !call->positions && !call->key_mask && !call->segments && !call->cache;
}

/* ---- embeddings ---- */

/* Runs the module at a path below the root. */
static ct_tensor *child_run(const cti_lm *lm, const char *path, ct_tensor *x) {
    return ct_forward(ct_module_child(lm->module, path), x);
}

/* Runs an embedding of the base. If it has a padding_idx, look-ups of pad_token_id give its row no
 * gradient, also if the id stands in a text; an embedding of the program's own has no such row. */
static ct_tensor *look_up(const cti_lm *lm, const char *part, ct_tensor *ids) {
    char path[CTI_LM_PATH];
    ct_module *table = ct_module_child(lm->module, cti_lm_path(lm, part, path));
    ct_tensor *x = ct_forward(table, ids);
    if (!x || !cti_lm_has_padding(lm) || !ct_requires_grad(x) || !cti_nn_is_embedding(table))
        return x;
    const int64_t n = ct_numel(ids), *id = ct_data_i64(ct_contiguous(ids));
    bool any = false;
    for (int64_t i = 0; id && i < n && !any; i++) any = id[i] == lm->config.pad;
    if (!any) return x;
    ct_tensor *is_padding = ct_unsqueeze(ct_eq_scalar(ids, (double)lm->config.pad), 2);
    return ct_where(is_padding, ct_detach(x), x);
}

/* The rows of RoBERTa's table of positions (B, T). The first token has the row behind that of
 * pad_token_id. This row is that of tokens that are not counted: those that the mask hides, and
 * those whose id is pad_token_id, as transformers counts them. */
static ct_tensor *rows_behind_padding(const cti_lm *lm, ct_tensor *ids, const ct_lm_call *call) {
    const int64_t pad = lm->config.pad;
    ct_lm_call counted = *call;
    if (ids) {
        ct_tensor *is_token = ct_ne_scalar(ids, (double)pad);
        counted.key_mask = call->key_mask ? ct_logical_and(call->key_mask, is_token) : is_token;
    }
    ct_tensor *rows = lm_positions(lm, &counted, tokens_shape(ids, call));
    const bool *is = cti_lm_mask_values(counted.key_mask);
    int64_t *row = rows ? ct_data_i64(rows) : NULL;
    if (!row || (counted.key_mask && !is)) return NULL;
    for (int64_t i = 0, n = ct_numel(rows); i < n; i++)
        row[i] = !is || is[i] ? row[i] + pad + 1 : pad;
    return rows;
}

static ct_tensor *embeds_scale(const cti_lm *lm, ct_tensor *x) {
    const double scale = lm->config.number[CTI_LM_EMBED_SCALE];
    if (scale == 1) return x;
    return ct_scale(x, x && ct_dtype_of(x) == CT_F64 ? scale : (double)(float)scale);
}

/* What the module that transformers calls the input embeddings makes of ids; inputs_embeds stand in
 * place of it. In Gemma 3 this module scales its rows, and in Granite the model scales what it gets
 * from the module or as inputs_embeds. */
static ct_tensor *token_embeds(const cti_lm *lm, ct_tensor *ids) {
    ct_tensor *x = look_up(lm, lm->config.family->names.embed, ids);
    return lm->config.family->embed_scaled ? embeds_scale(lm, x) : x;
}

/* The input of the first layer. */
static ct_tensor *embed(const cti_lm *lm, ct_tensor *ids, const ct_lm_call *call,
                        ct_tensor *positions) {
    const cti_lm_names *names = &lm->config.family->names;
    const ct_shape shape = tokens_shape(ids, call);
    char path[CTI_LM_PATH];
    ct_tensor *x = call->embeds ? call->embeds : token_embeds(lm, ids);
    if (!lm->config.family->embed_scaled) x = embeds_scale(lm, x);
    if (names->types) {
        ct_tensor *types = call->token_types
                               ? call->token_types
                               : ct_zeros(lm->context, CT_I64, CT_SHAPE(1, shape.dim[1]));
        x = ct_add(x, child_run(lm, cti_lm_path(lm, names->types, path), types));
    }
    if (names->positions) {
        const bool behind = lm->config.family->behind_padding;
        if (behind && !call->positions) positions = rows_behind_padding(lm, ids, call);
        else if (!positions) positions = ct_arange(lm->context, CT_I64, 0, (double)shape.dim[1], 1);
        x = ct_add(x, behind ? look_up(lm, names->positions, positions)
                             : child_run(lm, cti_lm_path(lm, names->positions, path), positions));
    }
    if (names->embed_norm) x = child_run(lm, cti_lm_path(lm, names->embed_norm, path), x);
    const double p = lm->config.number[CTI_LM_EMBEDDING_DROPOUT];
    return p > 0 ? ct_dropout(x, p, ct_module_training(lm->module)) : x;
}

/* ---- layers ---- */

/* Hidden states and attentions that the caller of a forward asks for: they are NULL before it runs
 * and after an error. */
static void inside_clear(const cti_lm *lm, const ct_lm_call *call) {
    const int64_t layers = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    for (int64_t i = 0; call->hidden_states && i <= layers; i++) call->hidden_states[i] = NULL;
    for (int64_t i = 0; call->attentions && i < layers; i++) call->attentions[i] = NULL;
}

/* Returns y, and with it the hidden states and attentions, to the scope around a forward's. */
static ct_tensor *inside_return(const cti_lm *lm, const ct_lm_call *call, ct_scope scope,
                                ct_tensor *y) {
    const int64_t layers = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    for (int64_t i = 0; y && call->hidden_states && i <= layers; i++)
        ct_scope_keep(scope, call->hidden_states[i]);
    for (int64_t i = 0; y && call->attentions && i < layers; i++)
        ct_scope_keep(scope, call->attentions[i]);
    y = ct_scope_return(scope, cti_lm_is_ready(lm->context) ? y : NULL);
    if (!y) inside_clear(lm, call);
    return y;
}

/* A layer may replace itself; so the one behind it is read before it runs. A layer whose attention
 * is a module of the program's own has no weights. */
static ct_tensor *lm_run_layers(cti_lm *lm, ct_tensor *x, ct_mha_call of_layer,
                                const ct_lm_call *call) {
    char path[CTI_LM_PATH];
    const int64_t layers = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    ct_module *layer = layers ? cti_lm_first_layer(lm) : NULL, *next;
    /* The caller gets handles of the forward, and embeds is a handle of the caller's. */
    if (call->hidden_states && x && x == call->embeds) x = ct_view(x, ct_shape_of(x));
    of_layer.per_head = true;
    for (int64_t i = 0; i < layers && x; i++, layer = next) {
        next = layer ? cti_nn_next_child(layer) : NULL;
        if (call->cache) of_layer.cache = call->cache->layer[i];
        if (call->hidden_states) call->hidden_states[i] = x;
        of_layer.need_weights = call->attentions && cti_nn_layer_attention(layer);
        const ct_layer_out y = ct_encoder_layer_forward(layer, x, of_layer);
        if (call->attentions) call->attentions[i] = y.self_weights;
        x = call->hidden_states ? y.out : cti_nn_state_next(x, y.out);
    }
    const char *norm = lm->config.family->names.norm;
    if (norm && x) x = child_run(lm, cti_lm_path(lm, norm, path), x);
    if (call->hidden_states) call->hidden_states[layers] = x;
    return x;
}

/* The last hidden state (B, T, E). After an error the cache is as it was before. */
static ct_tensor *hidden_states(cti_lm *lm, ct_tensor *ids, const ct_lm_call *call) {
    const ct_shape shape = tokens_shape(ids, call);
    const int64_t T = shape.dim[1];
    ct_lm_cache *cache = call->cache;
    if (cache &&
        (!cti_lm_cache_align(cache) || !ct_lm_cache_lengths(cache, cache->before) ||
         !tokens_count(lm, cti_lm_mask_values(call->key_mask), shape.dim[0], T, cache->after)))
        return NULL;
    ct_tensor *positions = call->positions;
    if (lm_is_plain(call)) {
        if (!lm->config.family->behind_padding && !has_positions(lm, T)) return NULL;
    } else if (!positions) {
        positions = lm_positions(lm, call, shape);
        if (!positions) return NULL;
    }
    const ct_mha_call of_layer = {.positions = positions,
                                  .key_mask = cache ? NULL : call->key_mask,
                                  .segments = call->segments,
                                  .causal = !lm->config.family->bidirectional};
    ct_tensor *x = lm_run_layers(lm, embed(lm, ids, call, positions), of_layer, call);
    const ct_shape made = ct_shape_of(x); /* by a norm of the program's own, perhaps */
    if (x && (made.ndim != 3 || made.dim[0] != shape.dim[0] || made.dim[1] != T))
        return ct_fail(lm->context, CT_ERR_SHAPE,
                       "%s: the last hidden state has another shape than (%" PRId64 ", %" PRId64
                       ", E)",
                       forward_name, shape.dim[0], T);
    for (int64_t b = 0; cache && x && b < cache->batch; b++)
        cache->length[b] = cache->before[b] + cache->after[b];
    return x;
}

/* ---- logits ---- */

static ct_tensor *pooled(const cti_lm *lm, ct_tensor *x) {
    char path[CTI_LM_PATH];
    return ct_tanh(
        child_run(lm, cti_lm_path(lm, lm->config.family->names.pooler, path), ct_select(x, 1, 0)));
}

/* ---- logits ---- */

/* Logits whose last step may be left to the caller, who can do it together with the next one: the
 * loss multiplies by a head and sums, block by block. A step behind the head begins with
 * computed(), so that nothing else can be its input. */
typedef struct {
    ct_tensor *x;      /* the input of `linear`, or its result */
    ct_module *linear; /* a Linear that is still to be run; NULL: it is done */
    double scale;      /* the factor of its result */
} lm_logits;

static ct_tensor *scaled_by(ct_tensor *x, double scale) {
    return scale == 1 ? x : ct_scale(x, scale);
}

static ct_tensor *computed(lm_logits logits) {
    ct_tensor *y = logits.linear ? ct_forward(logits.linear, logits.x) : logits.x;
    return scaled_by(y, logits.scale);
}

/* The rows of hidden states (B, T, E) that a head reads: all, or one of each row. */
static ct_tensor *rows_of_head(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    switch (lm->config.head->pick) {
    case CTI_LM_EACH: break;
    case CTI_LM_FIRST: return ct_select(x, 1, 0);
    case CTI_LM_LAST: return ct_select(cti_lm_last_tokens(lm, forward_name, call, x), 1, 0);
    case CTI_LM_POOLER: return pooled(lm, x);
    }
    return x;
}

static ct_tensor *head_dropout(const cti_lm *lm, bool drops, ct_tensor *x) {
    const cti_lm_number number = lm->config.head->dropout;
    const double p = drops && number != CTI_LM_NO_NUMBER ? lm->config.number[number] : 0;
    return p > 0 ? ct_dropout(x, p, ct_module_training(lm->module)) : x;
}

/* The logits of hidden states (..., E). This is the one place that says how they are made:
 * ct_lm_forward, ct_lm_loss and generation get them here. */
static lm_logits logits_of(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    const cti_lm_head *head = lm->config.head;
    const double *number = lm->config.number;
    const bool causal = head->kind == CT_LM_HEAD_CAUSAL;
    const double cap = causal ? number[CTI_LM_FINAL_CAP] : 0,
                 divisor = causal ? number[CTI_LM_LOGITS_DIVISOR] : 1;
    x = head_dropout(lm, head->dense_dropout, rows_of_head(lm, call, x));
    if (head->dense) {
        x = child_run(lm, head->dense, x);
        x = head->activation ? head->activation(x) : ct_activate(x, lm->config.activation);
    }
    if (head->norm) x = child_run(lm, head->norm, x);
    x = head_dropout(lm, true, x);
    ct_module *linear = ct_module_child(lm->module, cti_lm_head_path(lm));
    if (cti_lora_is(linear) && cti_lora_is_off(ct_module_data(linear, &cti_lora_type)))
        linear = ct_module_child(linear, CTI_LORA_BASE);
    lm_logits y = {.x = x, .linear = linear, .scale = 1 / divisor};
    if (!cti_nn_is_linear(linear)) y.x = ct_forward(linear, x), y.linear = NULL;
    if (cap > 0) y = (lm_logits){.x = ct_tanh(ct_scale(computed(y), 1 / cap)), .scale = cap};
    return y;
}

/* The Linear behind a module that computes each row of its input by itself: the module, or the one
 * to which it is an adapter. NULL for a module of the program's own, which may mix rows. */
static ct_module *linear_of_rows(ct_module *module) {
    ct_module *linear = cti_lora_is(module) ? ct_module_child(module, CTI_LORA_BASE) : module;
    return cti_nn_is_linear(linear) ? linear : NULL;
}

/* The number of logits of a row, if each row has its logits whatever other rows stand beside it;
 * otherwise 0. */
static int64_t classes_by_rows(const cti_lm *lm) {
    const cti_lm_head *head = lm->config.head;
    if (head->pick != CTI_LM_EACH ||
        (head->dense && !linear_of_rows(ct_module_child(lm->module, head->dense))) ||
        (head->norm && !cti_nn_layer_norm_of(ct_module_child(lm->module, head->norm))))
        return 0;
    ct_module *linear = linear_of_rows(ct_module_child(lm->module, cti_lm_head_path(lm)));
    return linear ? ct_shape_of(ct_module_get(linear, "weight")).dim[0] : 0;
}

/* ---- results ---- */

/* Whether the architecture has the result that a call asks for. */
static bool forward_result_check(const cti_lm *lm, ct_lm_result result) {
    const bool each = cti_lm_has_logits(lm) || lm->config.head->kind == CT_LM_HEAD_TOKEN;
    const bool has = result == CT_LM_OUT || result == CT_LM_HIDDEN || result == CT_LM_MEAN ||
                     result == CT_LM_EMBED || (result == CT_LM_LAST && each) ||
                     (result == CT_LM_POOLED && cti_lm_has_pooler(&lm->config));
    if (has) return true;
    return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: this %s model has no %s", forward_name,
                   lm->config.family->model_type,
                   result == CT_LM_LAST     ? "logits"
                   : result == CT_LM_POOLED ? "pooler"
                                            : "such result");
}

/* The logits (B, V) of x (B, 1, E). Each text has one token here, so products choose the kernel for
 * one row, even where the text's other tokens were computed as many rows. */
static ct_tensor *last_logits(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    const cti_rows before = cti_set_rows(lm->context, CTI_ROWS_ANY);
    if (before != CTI_ROWS_ANY) cti_set_rows(lm->context, CTI_ROWS_ONE);
    ct_tensor *y = x ? computed(logits_of(lm, call, x)) : NULL;
    cti_set_rows(lm->context, before);
    if (!y) return NULL;
    const ct_shape got = ct_shape_of(y);
    if (got.ndim == 3 && got.dim[0] == ct_dim(x, 0) && got.dim[1] == 1) return ct_select(y, 1, 0);
    return ct_fail(lm->context, CT_ERR_SHAPE,
                   "%s: the head made a tensor of %d dims of hidden states (%" PRId64
                   ", 1, %" PRId64 "), and not (%" PRId64 ", 1, V)",
                   forward_name, got.ndim, ct_dim(x, 0), ct_dim(x, 2), ct_dim(x, 0));
}

static ct_tensor *result_of(cti_lm *lm, ct_tensor *ids, const ct_lm_call *call) {
    ct_tensor *x = hidden_states(lm, ids, call);
    switch (call->result) {
    case CT_LM_HIDDEN: return x;
    case CT_LM_MEAN: return cti_lm_mean_of_tokens(call->key_mask, x);
    case CT_LM_POOLED: return pooled(lm, x);
    case CT_LM_EMBED: return cti_lm_sentence_vector(lm, call, x);
    case CT_LM_LAST: return last_logits(lm, call, cti_lm_last_tokens(lm, forward_name, call, x));
    case CT_LM_OUT: break;
    }
    return lm->config.head->kind == CT_LM_HEAD_NONE ? x : computed(logits_of(lm, call, x));
}

ct_tensor *ct_lm_forward(ct_module *module, ct_tensor *ids, ct_lm_call call) {
    cti_lm *lm = cti_lm_of(module);
    if (lm) inside_clear(lm, &call);
    if (!lm || !forward_call_check(lm, forward_name, ids, &call) ||
        !forward_result_check(lm, call.result) ||
        (call.result == CT_LM_EMBED && !cti_lm_sentence_check(lm, forward_name, &call)))
        return NULL;
    ct_scope scope = ct_module_enter(module);
    return inside_return(lm, &call, scope, result_of(lm, ids, &call));
}

ct_tensor *ct_lm_token_embeds(ct_module *module, ct_tensor *ids) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm || !ids_check(lm, "lm_token_embeds", ids)) return NULL;
    ct_scope scope = ct_module_enter(module);
    return ct_scope_return(scope, token_embeds(lm, ids));
}

/* ---- the loss ---- */

/* Whether the targets (B, T) of a causal model are the ids themselves: every target that is not
 * ignored is the id at its place, and at two of these places at least the next id is another. */
static bool targets_are_ids(ct_tensor *ids, ct_tensor *targets) {
    if (ids == targets) return true;
    const ct_shape shape = ct_shape_of(ids);
    const int64_t *id = ct_data_i64(ct_contiguous(ids)),
                  *target = ct_data_i64(ct_contiguous(targets));
    if (!id || !target) return false;
    int64_t other = 0;
    for (int64_t i = 0; i < shape.dim[0] * shape.dim[1]; i++) {
        if (target[i] == NO_TARGET) continue;
        if (target[i] != id[i]) return false;
        other += (i + 1) % shape.dim[1] && id[i + 1] != id[i];
    }
    return other >= 2;
}

static bool loss_call_check(const cti_lm *lm, ct_tensor *ids, ct_tensor *targets,
                            const ct_lm_call *call) {
    ct_context *context = lm->context;
    if (call->cache || call->result != CT_LM_OUT)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: .cache and .result must be 0", loss_name);
    if (lm->config.head->kind == CT_LM_HEAD_NONE)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the model has no head", loss_name);
    if (!targets) return ct_fail(context, CT_ERR_ARGUMENT, "%s: targets is NULL", loss_name);
    if (lm->config.head->kind == CT_LM_HEAD_SEQUENCE)
        return cti_lm_sequence_targets_check(lm, loss_name, targets,
                                             tokens_shape(ids, call).dim[0]);
    if (!is_input(lm, loss_name, "targets", targets, CT_I64, tokens_shape(ids, call))) return false;
    if (!ids || lm->config.head->kind != CT_LM_HEAD_CAUSAL || !targets_are_ids(ids, targets))
        return cti_lm_is_ready(context);
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "%s: targets are the ids; the target of token t is the id of token t + 1",
                   loss_name);
}

/* Replaces x (B, T, E) and targets (B, T) by the n rows whose target is not ignored, (n, E) and
 * (n), and returns the places of these rows, i64 (n). The head then computes no logits for the
 * other rows, which are the most in chats and masked models. Nothing is replaced, and NULL is
 * returned, if all rows or none would be left, if a head of the program's own may need all rows, or
 * if a target is no id: the loss refuses such a target by its place in (B, T). */
static ct_tensor *target_rows_keep(const cti_lm *lm, ct_tensor **x, ct_tensor **targets) {
    const ct_shape shape = ct_shape_of(*x);
    const int64_t rows = shape.dim[0] * shape.dim[1], classes = classes_by_rows(lm);
    if (!classes) return NULL;
    ct_tensor *flat = ct_reshape(*targets, CT_SHAPE(rows));
    const int64_t *target = ct_data_i64(flat);
    if (!target) return NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (target[i] == NO_TARGET) continue;
        if (target[i] < 0 || target[i] >= classes) return NULL;
        n++;
    }
    if (n == 0 || n == rows) return NULL;
    ct_tensor *kept = ct_empty(lm->context, CT_I64, CT_SHAPE(n));
    int64_t *row = ct_data_i64(kept);
    if (!row) return NULL;
    for (int64_t i = 0; i < rows; i++)
        if (target[i] != NO_TARGET) *row++ = i;
    *x = ct_index_select(ct_reshape(*x, CT_SHAPE(rows, shape.dim[2])), 0, kept);
    *targets = ct_index_select(flat, 0, kept);
    return kept;
}

/* The losses (n) of some rows at their places in `shape`, and 0 at the others, which is the loss of
 * a target that is ignored. */
static ct_tensor *losses_in_place(const cti_lm *lm, ct_tensor *losses, ct_tensor *rows,
                                  ct_shape shape) {
    if (!losses) return NULL;
    ct_tensor *none =
        ct_zeros(lm->context, ct_dtype_of(losses), CT_SHAPE(shape.dim[0] * shape.dim[1]));
    return ct_reshape(ct_index_add(none, 0, rows, losses), shape);
}

/* The loss of the last hidden state, or of rows of it. */
static ct_tensor *loss_of_rows(const cti_lm *lm, ct_tensor *x, ct_tensor *targets,
                               const ct_lm_call *call, ct_cross_entropy_opts opts) {
    const lm_logits logits = logits_of(lm, call, x);
    if (ct_dtype_of(targets) != CT_I64)
        return cti_lm_float_loss(lm, loss_name, computed(logits), targets, &opts);
    if (!logits.linear || cti_lm_param(logits.linear, "bias"))
        return ct_cross_entropy(computed(logits), targets, opts);
    /* a (x W^T) is (a x) W^T */
    return ct_linear_cross_entropy(scaled_by(logits.x, logits.scale),
                                   ct_module_get(logits.linear, "weight"), targets, opts);
}

static ct_tensor *loss_of(cti_lm *lm, ct_tensor *ids, ct_tensor *targets, const ct_lm_call *call,
                          ct_cross_entropy_opts opts) {
    const ct_shape shape = tokens_shape(ids, call);
    ct_tensor *x = hidden_states(lm, ids, call);
    if (!x) return NULL;
    ct_tensor *rows = target_rows_keep(lm, &x, &targets),
              *loss = loss_of_rows(lm, x, targets, call, opts);
    return rows && opts.reduction == CT_NONE ? losses_in_place(lm, loss, rows, shape) : loss;
}

ct_tensor *ct_lm_loss(ct_module *module, ct_tensor *ids, ct_tensor *targets, ct_lm_call call,
                      ct_cross_entropy_opts opts) {
    cti_lm *lm = cti_lm_of(module);
    if (lm) inside_clear(lm, &call);
    if (!lm || !forward_call_check(lm, loss_name, ids, &call)) return NULL;
    ct_scope scope = ct_module_enter(module);
    ct_tensor *loss =
        loss_call_check(lm, ids, targets, &call) ? loss_of(lm, ids, targets, &call, opts) : NULL;
    return inside_return(lm, &call, scope, loss);
}
