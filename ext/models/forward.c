/* Forwards of a model: embeddings, layers, the results of each architecture, and the loss. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>

#include "../../nn/bare.h"
#include "../../src/core/int_math.h"
#include "../../src/core/row_rule.h"
#include "lora.h"

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

/* Checks ids and the call. Returns false after an error. */
static bool forward_call_check(const cti_lm *lm, const char *op, ct_tensor *ids,
                               const ct_lm_call *call) {
    ct_context *context = lm->context;
    if (!ids) return ct_fail(context, CT_ERR_ARGUMENT, "%s: ids is NULL", op);
    const ct_shape shape = ct_shape_of(ids);
    if (ct_dtype_of(ids) != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "%s: ids must be i64", op);
    if (shape.ndim != 2 || shape.dim[1] < 1)
        return ct_fail(context, CT_ERR_SHAPE, "%s: ids must be (B, T) with T >= 1", op);
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

/* Contiguous values of an input that a program gave. */
static const bool *mask_values(ct_tensor *mask) {
    return mask ? ct_data_bool(ct_contiguous(mask)) : NULL;
}

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
    const int64_t most = cti_lm_integer(&lm->config, CTI_LM_MAX_LENGTH);
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
    const bool *mask = mask_values(call->key_mask);
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

/* Runs the embedding. If the model has a padding_idx, look-ups of pad_token_id give its row no
 * gradient, also if the id stands in a text; an embedding of the program's own has no such row. */
static ct_tensor *embed_ids(const cti_lm *lm, ct_tensor *ids) {
    char path[CTI_LM_PATH];
    ct_module *table =
        ct_module_child(lm->module, cti_lm_path(lm, lm->config.family->names.embed, path));
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

static ct_tensor *embed(const cti_lm *lm, ct_tensor *ids, const ct_lm_call *call,
                        ct_tensor *positions) {
    const cti_lm_names *names = &lm->config.family->names;
    const ct_shape shape = ct_shape_of(ids);
    char path[CTI_LM_PATH];
    ct_tensor *x = embed_ids(lm, ids);
    if (lm->config.family->embed_scaled) {
        const double scale = sqrt(lm->config.number[CTI_LM_WIDTH]);
        x = ct_scale(x, x && ct_dtype_of(x) == CT_F64 ? scale : (double)(float)scale);
    }
    if (names->types) {
        ct_tensor *types = call->token_types
                               ? call->token_types
                               : ct_zeros(lm->context, CT_I64, CT_SHAPE(1, shape.dim[1]));
        x = ct_add(x, child_run(lm, cti_lm_path(lm, names->types, path), types));
    }
    if (names->positions) {
        if (!positions) positions = ct_arange(lm->context, CT_I64, 0, (double)shape.dim[1], 1);
        x = ct_add(x, child_run(lm, cti_lm_path(lm, names->positions, path), positions));
    }
    if (names->embed_norm) x = child_run(lm, cti_lm_path(lm, names->embed_norm, path), x);
    const double p = lm->config.number[CTI_LM_EMBEDDING_DROPOUT];
    return p > 0 ? ct_dropout(x, p, ct_module_training(lm->module)) : x;
}

/* ---- layers ---- */

/* A layer may replace itself; so the one behind it is read before it runs. */
static ct_tensor *lm_run_layers(cti_lm *lm, ct_tensor *x, ct_mha_call call, ct_lm_cache *cache) {
    char path[CTI_LM_PATH];
    const int64_t layers = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    ct_module *layer = layers ? cti_lm_first_layer(lm) : NULL, *next;
    for (int64_t i = 0; i < layers && x; i++, layer = next) {
        next = layer ? cti_nn_next_child(layer) : NULL;
        if (cache) call.cache = cache->layer[i];
        x = ct_encoder_layer_forward(layer, x, call).out;
    }
    const char *norm = lm->config.family->names.norm;
    return norm && x ? child_run(lm, cti_lm_path(lm, norm, path), x) : x;
}

/* The last hidden state (B, T, E). After an error the cache is as it was before. */
static ct_tensor *hidden_states(cti_lm *lm, ct_tensor *ids, const ct_lm_call *call) {
    const ct_shape shape = ct_shape_of(ids);
    const int64_t T = shape.dim[1];
    ct_lm_cache *cache = call->cache;
    if (cache && (!cti_lm_cache_align(cache) || !ct_lm_cache_lengths(cache, cache->before) ||
                  !tokens_count(lm, mask_values(call->key_mask), shape.dim[0], T, cache->after)))
        return NULL;
    ct_tensor *positions = call->positions;
    if (lm_is_plain(call)) {
        if (!has_positions(lm, T)) return NULL;
    } else if (!positions) {
        positions = lm_positions(lm, call, shape);
        if (!positions) return NULL;
    }
    const ct_mha_call of_layer = {.positions = positions,
                                  .key_mask = cache ? NULL : call->key_mask,
                                  .segments = call->segments,
                                  .causal = !lm->config.family->bidirectional};
    ct_tensor *x = lm_run_layers(lm, embed(lm, ids, call, positions), of_layer, cache);
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

/* ---- tokens of a row as one ---- */

/* The last token of each row (B, 1, E). */
static ct_tensor *last_tokens(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    const ct_shape shape = ct_shape_of(x);
    const int64_t B = shape.dim[0], T = shape.dim[1];
    const bool *mask = mask_values(call->key_mask);
    if (call->key_mask && !mask) return NULL;
    if (!mask) return ct_narrow(x, 1, T - 1, 1);
    ct_tensor *index = ct_empty(lm->context, CT_I64, CT_SHAPE(B));
    int64_t *at = index ? ct_data_i64(index) : NULL;
    if (!at) return NULL;
    for (int64_t b = 0; b < B; b++) {
        int64_t t = T - 1;
        while (t >= 0 && !mask[b * T + t]) t--;
        if (t < 0 && !call->cache)
            return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: row %" PRId64 " has no token",
                           forward_name, b);
        at[b] = b * T + cti_max(t, 0);
    }
    x = ct_index_select(ct_reshape(x, CT_SHAPE(B * T, -1)), 0, index);
    return ct_unsqueeze(x, 1);
}

static ct_tensor *mean_of_tokens(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x) {
    if (!call->key_mask) return ct_mean(x, CT_DIMS(1), false);
    const ct_dtype dtype = ct_dtype_of(x);
    ct_tensor *mask = ct_unsqueeze(call->key_mask, 2);
    ct_tensor *zero = ct_zeros(lm->context, dtype, CT_SCALAR);
    ct_tensor *sum = ct_sum(ct_where(mask, x, zero), CT_DIMS(1), false);
    ct_tensor *count = ct_sum(ct_cast(mask, dtype), CT_DIMS(1), false);
    return ct_div(sum, ct_clamp(count, 1, INFINITY)); /* a row without a token has zeros */
}

static ct_tensor *pooled(const cti_lm *lm, ct_tensor *x) {
    char path[CTI_LM_PATH];
    return ct_tanh(child_run(lm, cti_lm_path(lm, "pooler.dense", path), ct_select(x, 1, 0)));
}

/* ---- logits ---- */

static const char transform_dense[] = "cls.predictions.transform.dense",
                  transform_norm[] = "cls.predictions.transform.LayerNorm";

/* Logits whose last step may be left to the caller, who can do it together with the next one: the
 * loss multiplies by a head and sums, block by block. A step behind the head begins with
 * computed(), so that nothing else can be its input. */
typedef struct {
    ct_tensor *x;      /* the logits, or the input of `linear` */
    ct_module *linear; /* a Linear that makes the logits of x; NULL: it is done */
} lm_logits;

static ct_tensor *computed(lm_logits logits) {
    return logits.linear ? ct_forward(logits.linear, logits.x) : logits.x;
}

/* The logits of hidden states (..., E). This is the one place that says how they are made:
 * ct_lm_forward, ct_lm_loss and generation get them here. */
static lm_logits logits_of(const cti_lm *lm, ct_tensor *x) {
    const double drop = lm->config.number[CTI_LM_CLASS_DROPOUT],
                 cap = lm->config.number[CTI_LM_FINAL_CAP];
    if (lm->config.head == CTI_LM_HEAD_MASKED) {
        x = ct_activate(child_run(lm, transform_dense, x), lm->config.activation);
        x = child_run(lm, transform_norm, x);
    } else if (lm->config.head == CTI_LM_HEAD_CLASSES) {
        x = pooled(lm, x);
        if (drop > 0) x = ct_dropout(x, drop, ct_module_training(lm->module));
    }
    ct_module *head = ct_module_child(lm->module, cti_lm_head_path(lm));
    lm_logits y = {.x = x, .linear = head};
    if (!cti_nn_is_linear(head)) y = (lm_logits){.x = ct_forward(head, x)};
    if (cap > 0) y = (lm_logits){.x = ct_scale(ct_tanh(ct_scale(computed(y), 1 / cap)), cap)};
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
    const bool masked = lm->config.head == CTI_LM_HEAD_MASKED;
    if (!cti_lm_has_logits(lm) ||
        (masked && (!linear_of_rows(ct_module_child(lm->module, transform_dense)) ||
                    !cti_nn_layer_norm_of(ct_module_child(lm->module, transform_norm)))))
        return 0;
    ct_module *linear = linear_of_rows(ct_module_child(lm->module, cti_lm_head_path(lm)));
    return linear ? ct_shape_of(ct_module_get(linear, "weight")).dim[0] : 0;
}

/* ---- results ---- */

/* Whether the architecture has the result that a call asks for. */
static bool forward_result_check(const cti_lm *lm, ct_lm_result result) {
    const bool has = result == CT_LM_OUT || result == CT_LM_HIDDEN || result == CT_LM_MEAN ||
                     (result == CT_LM_LAST && cti_lm_has_logits(lm)) ||
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
static ct_tensor *last_logits(const cti_lm *lm, ct_tensor *x) {
    const cti_rows before = cti_set_rows(lm->context, CTI_ROWS_ANY);
    if (before != CTI_ROWS_ANY) cti_set_rows(lm->context, CTI_ROWS_ONE);
    ct_tensor *y = x ? computed(logits_of(lm, x)) : NULL;
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
    case CT_LM_MEAN: return mean_of_tokens(lm, call, x);
    case CT_LM_POOLED: return pooled(lm, x);
    case CT_LM_LAST: return last_logits(lm, last_tokens(lm, call, x));
    case CT_LM_OUT: break;
    }
    return lm->config.head == CTI_LM_HEAD_BARE ? x : computed(logits_of(lm, x));
}

ct_tensor *ct_lm_forward(ct_module *module, ct_tensor *ids, ct_lm_call call) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !forward_call_check(lm, forward_name, ids, &call) ||
        !forward_result_check(lm, call.result))
        return NULL;
    ct_scope scope = ct_module_enter(module);
    return ct_scope_return(scope, result_of(lm, ids, &call));
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
    if (lm->config.head == CTI_LM_HEAD_BARE)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the model has no head", loss_name);
    if (!targets) return ct_fail(context, CT_ERR_ARGUMENT, "%s: targets is NULL", loss_name);
    if (lm->config.head == CTI_LM_HEAD_CLASSES) return true;
    if (!is_input(lm, loss_name, "targets", targets, CT_I64, ct_shape_of(ids))) return false;
    if (lm->config.head != CTI_LM_HEAD_CAUSAL || !targets_are_ids(ids, targets))
        return cti_lm_is_ready(context);
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "%s: targets are the ids; the target of token t is the id of token t + 1",
                   loss_name);
}

/* Replaces x (B, T, E) and targets (B, T) by the n rows whose target is not ignored, (n, E) and
 * (n). The head then computes no logits for the other rows, which are the most in chats and masked
 * models. Nothing is replaced if all rows or none would be left, if the caller wants the loss of
 * each row, if a head of the program's own may need all rows, or if a target is no id: the loss
 * refuses such a target by its place in (B, T). */
static void target_rows_keep(const cti_lm *lm, ct_tensor **x, ct_tensor **targets,
                             ct_reduction reduction) {
    const ct_shape shape = ct_shape_of(*x);
    const int64_t rows = shape.dim[0] * shape.dim[1], classes = classes_by_rows(lm);
    if (!classes || reduction == CT_NONE) return;
    ct_tensor *flat = ct_reshape(*targets, CT_SHAPE(rows));
    const int64_t *target = ct_data_i64(flat);
    if (!target) return;
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (target[i] == NO_TARGET) continue;
        if (target[i] < 0 || target[i] >= classes) return;
        n++;
    }
    if (n == 0 || n == rows) return;
    ct_tensor *kept = ct_empty(lm->context, CT_I64, CT_SHAPE(n));
    int64_t *row = ct_data_i64(kept);
    if (!row) return;
    for (int64_t i = 0; i < rows; i++)
        if (target[i] != NO_TARGET) *row++ = i;
    *x = ct_index_select(ct_reshape(*x, CT_SHAPE(rows, shape.dim[2])), 0, kept);
    *targets = ct_index_select(flat, 0, kept);
}

static ct_tensor *loss_of(cti_lm *lm, ct_tensor *ids, ct_tensor *targets, const ct_lm_call *call,
                          ct_cross_entropy_opts opts) {
    ct_tensor *x = hidden_states(lm, ids, call);
    if (!x) return NULL;
    target_rows_keep(lm, &x, &targets, opts.reduction);
    const lm_logits logits = logits_of(lm, x);
    if (!logits.linear || cti_lm_param(logits.linear, "bias"))
        return ct_cross_entropy(computed(logits), targets, opts);
    return ct_linear_cross_entropy(logits.x, ct_module_get(logits.linear, "weight"), targets, opts);
}

ct_tensor *ct_lm_loss(ct_module *module, ct_tensor *ids, ct_tensor *targets, ct_lm_call call,
                      ct_cross_entropy_opts opts) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !forward_call_check(lm, loss_name, ids, &call)) return NULL;
    ct_scope scope = ct_module_enter(module);
    ct_tensor *loss =
        loss_call_check(lm, ids, targets, &call) ? loss_of(lm, ids, targets, &call, opts) : NULL;
    return ct_scope_return(scope, loss);
}
