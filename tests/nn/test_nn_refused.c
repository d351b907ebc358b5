/* Errors of constructors of modules have the module's and the option's name, and a failed
 * constructor frees everything. */
#include "tests/support/nn_check.h"

static ct_module *make_any(ct_context *c, int which) {
    switch (which) {
    case 0: return ct_decoder_layer_new(c, (ct_layer_opts){.embed_dim = 64, .num_heads = 4});
    case 1:
        return ct_mha_new(
            c, (ct_mha_opts){.embed_dim = 96, .num_heads = 4, .kdim = 40, .add_bias_kv = true});
    case 2: return ct_positions_new(c, (ct_positions_opts){.max_length = 300, .embed_dim = 30});
    default: return ct_mlp_new(c, (ct_mlp_opts){.dim = 60});
    }
}

START_TEST(a_failed_constructor_leaves_nothing) { constructors_leave_nothing(make_any, 4, 1); }
END_TEST

#define REFUSES(module, says) ck_refused(module, CT_ERR_ARGUMENT, says, "")
#define LINEAR(...)           ct_linear_new(context, (ct_linear_opts){__VA_ARGS__})
#define EMBEDDING(...)        ct_embedding_new(context, (ct_embedding_opts){__VA_ARGS__})
#define MLP(...)              ct_mlp_new(context, (ct_mlp_opts){__VA_ARGS__})
#define POSITIONS(...)        ct_positions_new(context, (ct_positions_opts){__VA_ARGS__})
#define MHA(...)              ct_mha_new(context, (ct_mha_opts){__VA_ARGS__})
#define LAYER(...)            ct_encoder_layer_new(context, (ct_layer_opts){__VA_ARGS__})
#define TRANSFORMER(...)                                                                           \
    ct_transformer_new(context, (ct_transformer_opts){.layer = {WIDE}, __VA_ARGS__})
#define WIDE .embed_dim = 2, .num_heads = 1

/* The error has the names of module and option. */
START_TEST(options_are_checked) {
    const int64_t before = ct_memory(context).live;
    REFUSES(LINEAR(.in_features = -1), "Linear: in_features is -1, must be at least 1");
    REFUSES(LINEAR(.in_features = 3), "Linear: out_features is 0, must be at least 1");
    REFUSES(EMBEDDING(.num_embeddings = 3), "Embedding: embedding_dim is 0, must be at least 1");
    REFUSES(LINEAR(.in_features = 3, .out_features = -1),
            "Linear: out_features is -1, must be at least 1");
    REFUSES(EMBEDDING(.num_embeddings = -1), "Embedding: num_embeddings is -1, must be at least 1");
    REFUSES(EMBEDDING(.num_embeddings = 3, .embedding_dim = -1),
            "Embedding: embedding_dim is -1, must be at least 1");
    REFUSES(MLP(.dim = -1), "MLP: dim is -1, must be at least 1");
    REFUSES(MLP(.dim = 3, .hidden = -1), "MLP: hidden is -1, must be at least 0");
    REFUSES(MLP(.dim = 3, .dropout = -0.5), "MLP: dropout is -0.5, must be between 0 and 1");
    REFUSES(MLP(.dim = 3, .activation = (ct_activation)9), "MLP: no activation 9");
    REFUSES(POSITIONS(.max_length = -1), "Positions: max_length is -1, must be at least 1");
    REFUSES(POSITIONS(.max_length = 3, .embed_dim = -2),
            "Positions: embed_dim is -2, must be at least 1");
    REFUSES(POSITIONS(.max_length = 3, .embed_dim = 4, .dropout = 1.5),
            "Positions: dropout is 1.5, must be between 0 and 1");
    REFUSES(ct_dropout_new(context, 2), "Dropout: p is 2, must be between 0 and 1");
    REFUSES(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = -1}),
            "LayerNorm: dim is -1, must be at least 1");
    REFUSES(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 3, .eps = -1}),
            "LayerNorm: eps is -1, must be a number of at least 0");
    REFUSES(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = -1}),
            "RMSNorm: dim is -1, must be at least 1");
    REFUSES(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 3, .offset = NAN}),
            "RMSNorm: offset is");
    REFUSES(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 3, .offset = -INFINITY}),
            "RMSNorm: offset is");
    REFUSES(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 3, .eps = INFINITY}),
            "RMSNorm: eps is inf, must be a number of at least 0");
    REFUSES(MHA(.num_heads = 1), "MultiheadAttention: embed_dim is 0, must be at least 1");
    REFUSES(MHA(.embed_dim = 2), "MultiheadAttention: num_heads is 0, must be at least 1");
    REFUSES(MHA(WIDE, .num_kv_heads = -1),
            "MultiheadAttention: num_kv_heads is -1, must be at least 0");
    REFUSES(MHA(WIDE, .kdim = -1), "MultiheadAttention: kdim is -1, must be at least 0");
    REFUSES(MHA(WIDE, .vdim = -1), "MultiheadAttention: vdim is -1, must be at least 0");
    REFUSES(MHA(WIDE, .dropout = -1), "MultiheadAttention: dropout is -1, must be between 0 and 1");
    REFUSES(MHA(WIDE, .out_dropout = -1),
            "MultiheadAttention: out_dropout is -1, must be between 0 and 1");
    REFUSES(MHA(WIDE, .rotary.base = -1),
            "MultiheadAttention: rotary.base is -1, must be finite and greater than 0");
    REFUSES(MHA(WIDE, .qk_norm_eps = -1),
            "MultiheadAttention: qk_norm_eps is -1, must be a number of at least 0");
    REFUSES(LAYER(.num_heads = 1), "TransformerEncoderLayer: embed_dim is 0, must be at least 1");
    REFUSES(LAYER(WIDE, .hidden = -1), "TransformerEncoderLayer: hidden is -1, must be at least 0");
    REFUSES(LAYER(WIDE, .dropout = 1.5),
            "TransformerEncoderLayer: dropout is 1.5, must be between 0 and 1");
    REFUSES(LAYER(WIDE, .activation = (ct_activation)-1),
            "TransformerEncoderLayer: no activation -1");
    REFUSES(TRANSFORMER(.num_encoder_layers = -1),
            "Transformer: num_encoder_layers is -1, must be at least 0");
    REFUSES(TRANSFORMER(.num_decoder_layers = -1),
            "Transformer: num_decoder_layers is -1, must be at least 0");
    REFUSES(ct_encoder_new(context, (ct_layer_opts){WIDE}, 0, true),
            "TransformerEncoder: num_layers is 0, must be at least 1");
    REFUSES(ct_decoder_new(context, (ct_layer_opts){WIDE}, 0, true),
            "TransformerDecoder: num_layers is 0, must be at least 1");
    REFUSES(ct_module_new(context, ""), "ct_module_new: a module needs the name of its kind");
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

START_TEST(the_smallest_and_largest_options) {
    const int64_t before = ct_memory(context).live;
    for (int all = 0; all < 2; all++) {
        ct_module *taken[] = {
            LINEAR(.in_features = 1, .out_features = 1),
            EMBEDDING(.num_embeddings = 1, .embedding_dim = 1),
            MLP(.dim = 1, .hidden = all, .dropout = all, .activation = all ? CT_SILU : CT_RELU),
            POSITIONS(.max_length = 1, .embed_dim = 1, .dropout = all),
            ct_dropout_new(context, all),
            MHA(.embed_dim = 1, .num_heads = 1, .num_kv_heads = all, .kdim = all, .vdim = all,
                .dropout = all, .out_dropout = all),
            LAYER(.embed_dim = 1, .num_heads = 1, .hidden = all, .dropout = all,
                  .activation = all ? CT_SILU : CT_RELU),
            TRANSFORMER(.num_encoder_layers = all, .num_decoder_layers = all)};
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
            no_error();
            ck_assert_ptr_nonnull(taken[i]);
            ct_module_free(taken[i]);
        }
    }
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

START_TEST(constructors_refuse) {
    int64_t before = ct_memory(context).live;
    ck_refused(ct_linear_new(context, (ct_linear_opts){.in_features = -1, .out_features = 3}),
               CT_ERR_ARGUMENT, "Linear", "in_features is -1");
    ck_refused(ct_linear_new(
                   context, (ct_linear_opts){.in_features = 1, .out_features = 3, .dtype = CT_I64}),
               CT_ERR_DTYPE, "Linear", "i64");
    ck_refused(
        ct_linear_new(context, (ct_linear_opts){.in_features = INT64_MAX / 2, .out_features = 3}),
        CT_ERR_MEMORY, "overflow", "");
    ck_refused(ct_mha_new(context, (ct_mha_opts){.embed_dim = 10, .num_heads = 3}), CT_ERR_ARGUMENT,
               "embed_dim 10", "num_heads 3");
    ck_refused(
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 12, .num_heads = 4, .num_kv_heads = 3}),
        CT_ERR_ARGUMENT, "num_heads 4", "num_kv_heads 3");
    ck_refused(ct_mha_new(context, (ct_mha_opts){.embed_dim = 12}), CT_ERR_ARGUMENT,
               "num_heads is 0", "at least 1");
    ck_refused(ct_mha_new(context, (ct_mha_opts){.embed_dim = 12, .num_heads = 4, .dropout = 1.5}),
               CT_ERR_ARGUMENT, "dropout", "1.5");
    ck_refused(ct_dropout_new(context, NAN), CT_ERR_ARGUMENT, "Dropout", "nan");
    ck_refused(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 2, .eps = -1}),
               CT_ERR_ARGUMENT, "LayerNorm", "eps");
    ck_refused(ct_encoder_layer_new(context, (ct_layer_opts){.embed_dim = 8, .num_heads = 3}),
               CT_ERR_ARGUMENT, "embed_dim 8", "num_heads 3");
    ck_refused(ct_encoder_layer_new(context,
                                    (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .hidden = -1}),
               CT_ERR_ARGUMENT, "TransformerEncoderLayer", "hidden is -1");
    ck_refused(ct_encoder_layer_new(context, (ct_layer_opts){.embed_dim = 0, .num_heads = 2}),
               CT_ERR_ARGUMENT, "TransformerEncoderLayer", "embed_dim is 0");
    ck_refused(
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 3, .embedding_dim = -1}),
        CT_ERR_ARGUMENT, "Embedding", "embedding_dim is -1");
    ck_refused(
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = -1, .embedding_dim = 3}),
        CT_ERR_ARGUMENT, "Embedding", "num_embeddings is -1");
    ck_refused(ct_mlp_new(context, (ct_mlp_opts){.dim = 2, .hidden = -1}), CT_ERR_ARGUMENT, "MLP",
               "hidden is -1");
    ck_refused(ct_mlp_new(context, (ct_mlp_opts){.dim = -1}), CT_ERR_ARGUMENT, "MLP", "dim is -1");
    const ct_layer_opts layer = {.embed_dim = 8, .num_heads = 2};
    ck_refused(ct_transformer_new(context,
                                  (ct_transformer_opts){.layer = layer, .num_encoder_layers = -1}),
               CT_ERR_ARGUMENT, "Transformer", "num_encoder_layers is -1");
    ck_refused(ct_transformer_new(context,
                                  (ct_transformer_opts){.layer = layer, .num_decoder_layers = -1}),
               CT_ERR_ARGUMENT, "Transformer", "num_decoder_layers is -1");
    ck_refused(ct_module_new(context, ""), CT_ERR_ARGUMENT, "ct_module_new", "name");
    ck_assert_ptr_null(ct_linear_new(NULL, (ct_linear_opts){.in_features = 1, .out_features = 1}));
    ck_assert_int_eq(ct_memory(context).live, before);
    ct_module *m = ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert_ptr_null(
        ct_linear_new(context, (ct_linear_opts){.in_features = 1, .out_features = 1}));
    ck_assert_int_eq(ct_module_count(m), 6); /* readers and free still work */
    ct_module_free(m);
    expect(CT_ERR_IO, "pending", "");
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

/* Where in the tree an error came up. */
START_TEST(errors_name_the_module) {
    ct_layer_opts layer = {.embed_dim = 4, .num_heads = 2};
    ct_module *root = ct_module_new(context, "Model"),
              *encoder =
                  ct_module_add_child(root, "encoder", ct_encoder_new(context, layer, 3, false));
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 4));
    ct_module *linear1 = ct_module_child(encoder, "layers.2.linear1");
    ct_module_add_param(linear1, "other", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    no_error();
    ck_assert_ptr_null(ct_forward(linear1, ct_ones(context, CT_F32, CT_SHAPE(2, 3))));
    const char *message = ct_error_message(context);
    ck_assert_msg(
        !strncmp(message, "encoder.layers.2.linear1: linear: inner sizes differ: (2, 3)", 58), "%s",
        message);
    ct_error_clear(context);
    ck_assert_ptr_null(ct_encoder_forward(
        encoder, x, (ct_stack_call){.self = {.mask = ct_ones(context, CT_BOOL, CT_SHAPE(3, 3))}}));
    message = ct_error_message(context);
    ck_assert_msg(
        !strncmp(message, "encoder.layers.0.self_attn: MultiheadAttention: the mask is", 58), "%s",
        message);
    ct_error_clear(context);
    ct_add(x, ct_ones(context, CT_F32, CT_SHAPE(3))); /* outside no module is named */
    ck_assert_msg(!strncmp(ct_error_message(context), "add: ", 5), "%s", ct_error_message(context));
    ct_error_clear(context);
    ck_refused(ct_forward(ct_mlp_new(context, (ct_mlp_opts){.dim = 3}), x), CT_ERR_SHAPE,
               "fc: linear: inner sizes differ", "");
}
END_TEST

/* An optimiser that lacks one of its module's parameters. */
START_TEST(parameters_that_came_later) {
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3});
    ct_optim *optim = ct_adam_new(m, (ct_adam_opts){0});
    ck_assert(ct_optim_step(optim));
    ct_module *child = ct_module_add_child(m, "empty", ct_dropout_new(context, 0.5));
    ck_assert(ct_optim_step(optim)); /* no parameter has come with it */
    ct_module_add_child(
        child, "late",
        ct_linear_new(context, (ct_linear_opts){.in_features = 1, .out_features = 1}));
    ck_refused(ct_optim_step(optim), CT_ERR_ARGUMENT,
               "Adam: the parameter empty.late.weight has been added since", "");
    ct_module_free(child);
    ck_assert(ct_optim_step(optim));
    ck_refused(ct_adam_new(ct_dropout_new(context, 0.5), (ct_adam_opts){0}), CT_ERR_ARGUMENT,
               "Adam: the Dropout has no parameter", "");
    no_error();
}
END_TEST

int main(void) {
    return run_tests("nn refused", setup, teardown,
                     TESTS(TEST(a_failed_constructor_leaves_nothing), TEST(options_are_checked),
                           TEST(the_smallest_and_largest_options), TEST(constructors_refuse),
                           TEST(errors_name_the_module), TEST(parameters_that_came_later)));
}
