/* Calls of each public function that takes a tensor: with a tensor that has ended, or
 * (test_blocks.c) with one of blocks. */
#ifndef ENDED_USES_H
#define ENDED_USES_H

/* The tensor is (2, USES_COLS). */
#ifndef USES_COLS
#define USES_COLS 3
#endif
enum { USES_NUMEL = 2 * USES_COLS };

#include "ops/update/update.h"
#include "src/kernels/unary.h"
#include "tests/support/one_context.h"

static inline ct_tensor *first_input(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, in[0];
}

static inline ct_tensor *the_argument(ct_tensor *const *in, int n, void *arg) {
    return (void)in, (void)n, arg;
}
static inline ct_tensor *the_users(void *self, ct_tensor *x) { return (void)x, self; }

/* Ops with a tensor as attribute. An op can give the library such a tensor as a result, as a saved
 * tensor or as a gradient; each of these ops uses one of the three ways.
 *  */
static inline ct_tensor *pass(ct_call *c) { return c->in[0]; }
static inline ct_tensor *return_it(ct_call *c) { return *(ct_tensor *const *)c->attrs; }
static inline ct_tensor *save_it(ct_call *c) {
    c->saved[1] = *(ct_tensor *const *)c->attrs;
    return ct_clone(c->in[0]);
}
static inline bool pass_back(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c, grad[0] = g[0];
    return true;
}
static inline bool give_it(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)g, grad[0] = *(ct_tensor *const *)c->attrs;
    return true;
}
static const ct_op passing = {.name = "passing", .forward = pass},
                   returning = {.name = "returning",
                                .attrs_size = sizeof(ct_tensor *),
                                .forward = return_it},
                   saving = {.name = "saving",
                             .attrs_size = sizeof(ct_tensor *),
                             .forward = save_it,
                             .backward = pass_back},
                   differentiating = {.name = "differentiating",
                                      .attrs_size = sizeof(ct_tensor *),
                                      .forward = pass,
                                      .backward = give_it};

typedef struct {
    ct_tensor *y; /* the tensor of interest */
    void (*check)(const char *call, const char *function);
    ct_tensor *x, *row, *leaf, *q, *three, *ids, *mask, *index; /* the call's other tensors */
} ended_use;

#define USE(call, function)                                                                        \
    do {                                                                                           \
        (void)(call);                                                                              \
        u->check(#call, function);                                                                 \
    } while (0)

/* Elementwise ops and comparisons. */
static inline void use_in_elementwise(const ended_use *u) {
    ct_tensor *y = u->y, *x = u->x, *mask = u->mask;
    USE(ct_add(y, x), "add");
    USE(ct_add(x, y), "add");
    USE(ct_sub(x, y), "sub");
    USE(ct_mul(x, y), "mul");
    USE(ct_div(y, y), "div");
    USE(ct_maximum(x, y), "maximum");
    USE(ct_minimum(y, x), "minimum");
#define USE_OF_ONE(name, ...)    USE(ct_##name(y), #name);
#define USE_OF_NUMBER(name, ...) USE(ct_##name(y, 2), #name);
    CTI_UNARY_KERNELS(USE_OF_ONE, USE_OF_ONE, USE_OF_ONE, USE_OF_ONE)
    CTI_SCALAR_KERNELS(USE_OF_NUMBER, USE_OF_NUMBER, USE_OF_NUMBER)
    USE(ct_activate(y, CT_RELU), "relu");
    USE(ct_activated_mul(y, CT_SILU, x), "activated_mul");
    USE(ct_activated_mul(x, CT_SILU, y), "activated_mul");
    USE(ct_isnan(y), "isnan");
    USE(ct_clamp(y, 0, 1), "clamp");
    USE(ct_where(mask, x, y), "where");
    USE(ct_where(y, x, x), "where");
    USE(ct_masked_fill(y, mask, 1), "masked_fill");
    USE(ct_masked_fill(x, y, 1), "masked_fill");
    USE(ct_lt(x, y), "lt");
    USE(ct_eq(y, x), "eq");
    USE(ct_ne(x, y), "ne");
    USE(ct_le(y, x), "le");
    USE(ct_gt(x, y), "gt");
    USE(ct_ge(y, x), "ge");
    USE(ct_eq_scalar(y, 1), "eq_scalar");
    USE(ct_ne_scalar(y, 1), "ne_scalar");
    USE(ct_lt_scalar(y, 1), "lt_scalar");
    USE(ct_le_scalar(y, 1), "le_scalar");
    USE(ct_gt_scalar(y, 1), "gt_scalar");
    USE(ct_ge_scalar(y, 1), "ge_scalar");
    USE(ct_logical_and(mask, y), "logical_and");
    USE(ct_logical_or(y, mask), "logical_or");
    USE(ct_where(mask, y, x), "where");
    USE(ct_logical_not(y), "logical_not");
}

/* Reductions and softmax. */
static inline void use_in_reductions(const ended_use *u) {
    ct_tensor *y = u->y, *x = u->x, *mask = u->mask;
    USE(ct_sum(y, CT_ALL, false), "sum");
    USE(ct_mean(y, CT_DIMS(0), true), "mean");
    USE(ct_max(y, CT_ALL, false), "max");
    USE(ct_min(y, CT_DIMS(1), false), "min");
    USE(ct_var(y, CT_DIMS(1), 1, false), "var");
    USE(ct_any(y, CT_ALL, false), "any");
    USE(ct_all(y, CT_ALL, false), "all");
    USE(ct_cumsum(y, 0), "cumsum");
    USE(ct_argsort(y, 0, true), "argsort");
    USE(ct_topk(y, 1, 0).values, "topk");
    USE(ct_sum_to(y, CT_SHAPE(USES_COLS)), "sum_to");
    USE(ct_argmax(y, 0), "argmax");
    USE(ct_logsumexp(y, 1), "logsumexp");
    USE(ct_logsumexp(y, 0), "logsumexp");
    USE(ct_softmax(y, 1), "softmax");
    USE(ct_softmax(y, 0), "softmax");
    USE(ct_log_softmax(y, 0), "log_softmax");
    USE(ct_normalize(y, 2, 1, 1e-12), "normalize");
    USE(ct_masked_softmax(y, mask, 0), "masked_softmax");
    USE(ct_masked_softmax(x, y, 1), "masked_softmax");
    USE(ct_masked_softmax(y, NULL, 1), "masked_softmax");
    USE(ct_masked_softmax(x, y, 0), "masked_softmax");
}

/* Products, norms and ops that select by indices. */
static inline void use_in_products(const ended_use *u) {
    ct_context *c = context;
    ct_tensor *y = u->y, *x = u->x, *row = u->row, *ids = u->ids, *index = u->index;
    USE(ct_matmul(y, x), "matmul");
    USE(ct_linear(x, y, NULL), "linear");
    USE(ct_linear(y, x, NULL), "linear");
    USE(ct_linear(x, ct_ones(c, CT_F32, CT_SHAPE(3, USES_COLS)), y), "linear");
    USE(ct_activated_linear(y, CT_RELU, x, NULL, NULL), "activated_linear");
    USE(ct_activated_linear(x, CT_RELU, y, NULL, NULL), "activated_linear");
    USE(ct_activated_linear(x, CT_RELU, x, NULL, y), "activated_linear");
    USE(ct_matmul(x, y), "matmul");
    USE(ct_einsum("ab,ab->ab", y, x), "einsum");
    USE(ct_einsum("ab,ab->ab", x, y), "einsum");
    USE(ct_layer_norm(y, row, row, 1e-5), "layer_norm");
    USE(ct_layer_norm(x, row, y, 1e-5), "layer_norm");
    USE(ct_rms_norm(x, y, 1e-5), "rms_norm");
    USE(ct_rms_norm_offset(y, row, 1e-5, 1), "rms_norm");
    USE(ct_rms_norm_offset(x, y, 1e-5, 1), "rms_norm");
    USE(ct_embedding(ids, y), "embedding");
    USE(ct_embedding(y, x), "embedding");
    USE(ct_gather(y, 0, index), "gather");
    USE(ct_gather(x, 0, y), "gather");
    USE(ct_index_select(y, 0, ids), "index_select");
    USE(ct_index_select(x, 0, y), "index_select");
    USE(ct_index_add(y, 0, ids, x), "index_add");
    USE(ct_index_add(x, 0, y, x), "index_add");
    USE(ct_index_add(x, 0, ids, y), "index_add");
    USE(ct_one_hot(y, 3, CT_F32), "one_hot");
    USE(ct_embedding(ids, y), "embedding");
    USE(ct_dropout(y, 0.5, true), "dropout");
    USE(ct_dropout(y, 0, false), "dropout");
}

/* Losses and sampling. */
static inline void use_in_losses(const ended_use *u) {
    int64_t whole[USES_NUMEL];
    ct_tensor *y = u->y, *x = u->x, *ids = u->ids;
    USE(ct_mse_loss(x, y), "mse_loss");
    USE(ct_cross_entropy(y, ids, (ct_cross_entropy_opts){0}), "cross_entropy");
    USE(ct_cross_entropy(x, y, (ct_cross_entropy_opts){0}), "cross_entropy");
    USE(ct_cross_entropy(x, ids, (ct_cross_entropy_opts){.weight = y}), "cross_entropy");
    USE(ct_linear_cross_entropy(y, x, ids, (ct_cross_entropy_opts){0}), "linear_cross_entropy");
    USE(ct_linear_cross_entropy(x, x, y, (ct_cross_entropy_opts){0}), "linear_cross_entropy");
    USE(ct_linear_cross_entropy(x, x, ids, (ct_cross_entropy_opts){.weight = y}),
        "linear_cross_entropy");
    USE(ct_mse_loss(y, x), "mse_loss");
    USE(ct_bce_with_logits(y, x, (ct_bce_opts){0}), "bce_with_logits");
    USE(ct_bce_with_logits(x, y, (ct_bce_opts){0}), "bce_with_logits");
    USE(ct_bce_with_logits(x, x, (ct_bce_opts){.pos_weight = y}), "bce_with_logits");
    USE(ct_kl_div(y, x, (ct_kl_div_opts){0}), "kl_div");
    USE(ct_kl_div(x, y, (ct_kl_div_opts){0}), "kl_div");
    USE(ct_linear_cross_entropy(x, y, ids, (ct_cross_entropy_opts){0}), "linear_cross_entropy");
    USE(ct_rope(y, NULL, (ct_rope_opts){0}), "rope");
    USE(ct_sample(y, (ct_sample_opts){0}, whole, 2), "sample");
}

/* Ops that make dims or move them. */
static inline void use_in_shapes(const ended_use *u) {
    ct_tensor *y = u->y, *x = u->x, *parts[3];
    USE(ct_view(y, CT_SHAPE(USES_NUMEL)), "view");
    USE(ct_reshape(y, CT_SHAPE(USES_NUMEL)), "reshape");
    USE(ct_transpose(y, 0, 1), "transpose");
    USE(ct_permute(y, CT_DIMS(1, 0)), "permute");
    USE(ct_narrow(y, 0, 0, 1), "narrow");
    USE(ct_select(y, 0, 0), "select");
    USE(ct_expand(y, CT_SHAPE(2, 2, USES_COLS)), "expand");
    USE(ct_squeeze(y, 0), "squeeze");
    USE(ct_unsqueeze(y, 0), "unsqueeze");
    USE(ct_contiguous(y), "contiguous");
    USE(ct_clone(y), "clone");
    USE(ct_cast(y, CT_F64), "cast");
    USE(ct_cat((ct_tensor *[]){x, y}, 2, 0), "cat");
    USE(ct_cat((ct_tensor *[]){y, x}, 2, 0), "cat");
    USE(ct_stack((ct_tensor *[]){x, y}, 2, 0), "stack");
    USE(ct_stack((ct_tensor *[]){y, x}, 2, 0), "stack");
    USE(ct_pad(y, 0, 1, 1, 0), "pad");
    USE(ct_roll(y, 1, 0), "roll");
    USE(ct_tril(y, 0), "tril");
    USE(ct_split(y, 1, 0, parts, 2), "split");
    USE(ct_split_heads(y, 1), "split_heads");
    USE(ct_combine_heads(y), "combine_heads");
}

/* Attention. */
static inline void use_in_attention(const ended_use *u) {
    const ct_attention_opts none = {0};
    ct_tensor *y = u->y, *q = u->q, *three = u->three;
    USE(ct_attention(y, q, q, none).out, "attention");
    USE(ct_attention(q, y, q, none).out, "attention");
    USE(ct_attention(q, q, y, none).out, "attention");
    USE(ct_attention(q, q, q, (ct_attention_opts){.mask = y}).out, "attention");
    USE(ct_attention(q, q, q, (ct_attention_opts){.key_mask = y}).out, "attention");
    USE(ct_packed_attention(y, 1, none).out, "packed_attention");
    USE(ct_packed_attention(three, 1, (ct_attention_opts){.mask = y}).out, "packed_attention");
    USE(ct_packed_attention(three, 1, (ct_attention_opts){.key_mask = y}).out, "packed_attention");
    USE(ct_attention(y, q, q, (ct_attention_opts){.need_weights = true}).out, "attention");
}

/* Calls the functions that read a tensor. */
static inline void use_in_reading(const ended_use *u) {
    float out[USES_NUMEL];
    double wide[USES_NUMEL];
    int64_t whole[USES_NUMEL];
    bool flag[USES_NUMEL];
    char text[4096];
    ct_tensor *y = u->y;
    USE(ct_data_f32(y), "data");
    USE(ct_data_i64(y), "data");
    USE(ct_data_f64(y), "data");
    USE(ct_data_bool(y), "data");
    USE(ct_data_bf16(y), "data");
    USE(ct_to_f32(y, out, USES_NUMEL), "to");
    USE(ct_to_f64(y, wide, USES_NUMEL), "to");
    USE(ct_to_i64(y, whole, USES_NUMEL), "to");
    USE(ct_to_bool(y, flag, USES_NUMEL), "to");
    USE(ct_item(y), "item");
    USE(ct_shape_of(y), "shape_of");
    USE(ct_dtype_of(y), "dtype_of");
    USE(ct_ndim(y), "ndim");
    USE(ct_dim(y, 0), "dim");
    USE(ct_numel(y), "numel");
    FILE *file = fmemopen(text, sizeof text, "w");
    USE(ct_print(y, file), "print");
    fclose(file);
}

/* Differentiation. */
static inline void use_in_differentiation(const ended_use *u) {
    char text[4096];
    ct_tensor *y = u->y, *x = u->x, *leaf = u->leaf, *loss = ct_scale(leaf, 2), *parts[3];
    USE(ct_backward(y), "backward");
    USE(ct_backward_with(&loss, &y, 1, (ct_backward_opts){0}), "backward");
    USE(ct_backward_with(&y, &leaf, 1, (ct_backward_opts){0}), "backward");
    USE(ct_backward_with((ct_tensor *[]){loss, y}, NULL, 2, (ct_backward_opts){0}), "backward");
    USE(ct_set_requires_grad(y, true), "set_requires_grad");
    USE(ct_requires_grad(y), "requires_grad");
    USE(ct_retain_grad(y), "retain_grad");
    USE(ct_grad(y), "grad");
    USE(ct_zero_grad(y), "zero_grad");
    USE(ct_detach(y), "detach");
    USE(ct_gradcheck(first_input, NULL, &y, 1, (ct_gradcheck_opts){0}).ok, "gradcheck");
    USE(ct_gradcheck(first_input, NULL, (ct_tensor *[]){y, x}, 2, (ct_gradcheck_opts){0}).ok,
        "gradcheck");
    USE(ct_gradcheck(the_argument, y, &leaf, 1, (ct_gradcheck_opts){0}).ok, "gradcheck");
    ct_jacobian_out j[2];
    USE(ct_jacobian(first_input, NULL, &y, 1, (ct_jacobian_opts){0}, j), "jacobian");
    USE(ct_jacobian(first_input, NULL, (ct_tensor *[]){x, y}, 2, (ct_jacobian_opts){0}, j),
        "jacobian");
    USE(ct_jacobian(first_input, NULL, &leaf, 1, (ct_jacobian_opts){.cotangents = y}, j),
        "jacobian");
    USE(ct_jacobian(the_argument, y, &leaf, 1, (ct_jacobian_opts){0}, j), "jacobian");
    USE(ct_recompute(first_input, NULL, &y, 1), "recompute");
    USE(ct_recompute(first_input, NULL, (ct_tensor *[]){x, y}, 2), "recompute");
    USE(ct_recompute(first_input, NULL, (ct_tensor *[]){y, x}, 2), "recompute");
    USE(ct_recompute(the_argument, y, &leaf, 1), "recompute");
    USE(ct_apply(&passing, (ct_tensor *[]){y, x}, 2, NULL), "passing");
    USE(ct_apply_many(&passing, (ct_tensor *[]){x, y}, 2, NULL, parts), "passing");
    USE(ct_apply(&returning, &x, 1, &y), "returning");
    USE(ct_apply(&saving, &leaf, 1, &y), "saving");
    USE(ct_backward(ct_apply(&differentiating, &leaf, 1, &y)), "differentiating");
    FILE *file = fmemopen(text, sizeof text, "w");
    USE(ct_graph_print(y, file), "graph");
    USE(ct_graph_dot(y, file), "graph");
    USE(ct_graph_dot_with(y, file, (ct_graph_opts){.values = true}), "graph");
    USE(ct_watch(context, (ct_tensor *[]){leaf, y}, 2, &(ct_watch_fns){0}, text), "watch");
    ct_unwatch(context, text);
    fclose(file);
}

/* Scopes. */
static inline void use_in_scopes(const ended_use *u) {
    ct_context *c = context;
    ct_tensor *y = u->y;
    USE(ct_keep(y), "keep");
    ct_scope scope = ct_scope_open(c);
    USE(ct_scope_keep(scope, y), "scope_keep");
    USE(ct_scope_return(scope, y), "scope_keep");
    USE(ct_release(y), "release");
}

/* Changes in place. */
static inline void use_in_place(const ended_use *u) {
    ct_tensor *y = u->y, *x = u->x;
    USE(ct_init_constant(y, 1), "fill");
    USE(ct_init_uniform(y, 0, 1), "init_uniform");
    USE(ct_init_normal(y, 0, 1), "init_normal");
    USE(ct_init_xavier_normal(y, 1), "xavier_normal");
    USE(ct_init_xavier_uniform(y, 1), "xavier_uniform");
    USE(ct_init_kaiming_uniform(y, 1), "kaiming_uniform");
    USE(ct_copy_into(y, x), "copy_into");
    USE(ct_copy_into(x, y), "copy_into");
    USE(ct_lerp_into(y, x, 0.5), "lerp_into");
    USE(ct_lerp_into(x, y, 0.5), "lerp_into");
    USE(ct_add_into(y, x, 1), "add_into");
    USE(ct_add_into(x, y, 1), "add_into");
    USE(ct_scale_into(y, 2), "scale_into");
    USE(ct_wrote(y), "wrote");
    static const double plain[CTI_OP_SGD_NUMBERS] = {0};
    USE(cti_op_sum_squares(&(ct_optim_item){.grad = y}, 1), "sum_squares");
    USE(cti_op_sgd_step(&(ct_optim_item){.param = x, .grad = y, .lr = 1, .numbers = plain}, 1),
        "sgd_step");
}

/* Modules. */
static inline void use_in_modules(const ended_use *u) {
    ct_context *c = context;
    const ct_layer_opts layer = {.embed_dim = USES_COLS, .num_heads = 1};
    const ct_mha_call plain = {0};
    ct_tensor *y = u->y, *x = u->x, *three = u->three;
    ct_module *linear =
                  ct_linear_new(c, (ct_linear_opts){.in_features = USES_COLS, .out_features = 3}),
              *mha = ct_mha_new(c, (ct_mha_opts){.embed_dim = USES_COLS, .num_heads = 1}),
              *encoder = ct_encoder_layer_new(c, layer), *decoder = ct_decoder_layer_new(c, layer),
              *module = ct_module_new(c, "mine"), *encoders = ct_encoder_new(c, layer, 1, false),
              *decoders = ct_decoder_new(c, layer, 1, false),
              *both = ct_transformer_new(c, (ct_transformer_opts){.layer = layer,
                                                                  .num_encoder_layers = 1,
                                                                  .num_decoder_layers = 1}),
              *positions =
                  ct_positions_new(c, (ct_positions_opts){.max_length = 4, .embed_dim = USES_COLS});
    no_error();
    USE(ct_module_add_param(module, "weight", y), "mine");
    USE(ct_module_add_buffer(module, "table", y, true), "mine");
    USE(ct_forward(ct_module_set_forward(module, the_users, y), x), "mine");
    USE(ct_forward(linear, y), "Linear");
    USE(ct_mha_forward(mha, y, NULL, NULL, plain).out, "MultiheadAttention");
    USE(ct_mha_forward(mha, three, y, three, plain).out, "MultiheadAttention");
    USE(ct_mha_forward(mha, three, three, y, plain).out, "MultiheadAttention");
    USE(ct_mha_forward(mha, three, NULL, NULL, (ct_mha_call){.mask = y}).out, "MultiheadAttention");
    USE(ct_mha_forward(mha, three, NULL, NULL, (ct_mha_call){.key_mask = y}).out,
        "MultiheadAttention");
    USE(ct_encoder_layer_forward(encoder, y, plain).out, "TransformerEncoderLayer");
    USE(ct_encoder_layer_forward(encoder, three, (ct_mha_call){.mask = y}).out,
        "self_attn: MultiheadAttention");
    USE(ct_decoder_layer_forward(decoder, y, three, plain, plain).out, "TransformerDecoderLayer");
    USE(ct_decoder_layer_forward(decoder, three, y, plain, plain).out, "TransformerDecoderLayer");
    USE(ct_positions_forward(positions, y, 0), "Positions");
    USE(ct_positions_forward_at(positions, y, u->ids), "Positions");
    USE(ct_positions_forward_at(positions, three, y), "Positions");
    USE(ct_encoder_forward(encoders, y, (ct_stack_call){0}), "TransformerEncoder");
    USE(ct_encoder_forward(encoders, three, (ct_stack_call){.self.mask = y}),
        "layers.0.self_attn: MultiheadAttention");
    USE(ct_decoder_forward(decoders, y, three, (ct_stack_call){0}), "TransformerDecoder");
    USE(ct_decoder_forward(decoders, three, y, (ct_stack_call){0}), "TransformerDecoder");
    USE(ct_transformer_forward(both, y, three, (ct_stack_call){0}, (ct_stack_call){0}),
        "Transformer");
    USE(ct_transformer_forward(both, three, y, (ct_stack_call){0}, (ct_stack_call){0}),
        "Transformer");
    USE(ct_decoder_layer_forward(decoder, three, three, plain, (ct_mha_call){.key_mask = y}).out,
        "multihead_attn: MultiheadAttention");
}

/* Files, of which none is written, and a cache. */
static inline void use_in_files(const ended_use *u) {
    ct_context *c = context;
    ct_tensor *y = u->y, *q = u->q;
    ct_module *linear =
        ct_linear_new(c, (ct_linear_opts){.in_features = USES_COLS, .out_features = 3});
    const ct_named named = {"y", y};
    USE(ct_tensors_save(c, "nowhere", &named, 1, (ct_save_opts){0}), "tensors_save");
    USE(ct_checkpoint_save("nowhere",
                           &(ct_checkpoint){.module = linear, .tensors = &named, .n_tensors = 1}),
        "checkpoint_save");
    USE(ct_checkpoint_load("nowhere",
                           &(ct_checkpoint){.module = linear, .tensors = &named, .n_tensors = 1}),
        "checkpoint_load");
    ct_kv_cache *cache = ct_kv_cache_new_of(c, CT_F32, 1, 1, 4, USES_COLS);
    ct_tensor *k = y, *v = q;
    USE(ct_kv_cache_append(cache, &k, &v), "ct_kv_cache_append");
    USE(ct_kv_cache_append(cache, &v, &k), "ct_kv_cache_append");
    ct_kv_cache_free(cache);
}

#undef USE

static inline ended_use uses_of(ct_tensor *y,
                                void (*check)(const char *call, const char *function)) {
    ct_context *c = context;
    const ended_use u = {.y = y,
                         .check = check,
                         .x = ct_ones(c, CT_F32, CT_SHAPE(2, USES_COLS)),
                         .row = ct_ones(c, CT_F32, CT_SHAPE(USES_COLS)),
                         .leaf = ct_set_requires_grad(ct_ones(c, CT_F32, CT_SCALAR), true),
                         .q = ct_ones(c, CT_F32, CT_SHAPE(1, 1, 2, USES_COLS)),
                         .three = ct_ones(c, CT_F32, CT_SHAPE(1, 2, USES_COLS)),
                         .ids = ct_zeros(c, CT_I64, CT_SHAPE(2)),
                         .mask = ct_ones(c, CT_BOOL, CT_SHAPE(2, USES_COLS)),
                         .index = ct_zeros(c, CT_I64, CT_SHAPE(2, USES_COLS))};
    no_error();
    return u;
}

static void (*const use_groups[])(const ended_use *) = {
    use_in_elementwise, use_in_reductions, use_in_products, use_in_losses,
    use_in_shapes,      use_in_attention,  use_in_reading,  use_in_differentiation,
    use_in_scopes,      use_in_place,      use_in_modules,  use_in_files};
enum { USE_GROUPS = sizeof use_groups / sizeof *use_groups };

/* Makes every call with y, which has ended. After each call it calls `check`, with the text of the
 * call and the name with which its error must begin. `check` clears the error. */
static inline void each_use_of(ct_tensor *y,
                               void (*check)(const char *call, const char *function)) {
    const ended_use u = uses_of(y, check);
    for (int i = 0; i < USE_GROUPS; i++) use_groups[i](&u);
}

#endif
