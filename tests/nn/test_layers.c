/* MLP, positions, and torch's transformer layers against their formulas in public ops;
 * initialisation. */
#include "tests/support/nn_check.h"

static bool is_named(ct_module *m, const char *name) {
    ct_param p = {0};
    return ct_module_next(m, &p) && !strcmp(p.name, name);
}

START_TEST(mlp_is_its_parts) {
    for (int i = 0; i < CT_QUICK_GELU + 1; i++) {
        const ct_activation a = (ct_activation)i;
        ct_module *m = ct_mlp_new(
            context, (ct_mlp_opts){.dim = 3, .hidden = 7, .activation = a, .dtype = CT_F64});
        ct_tensor *x = randn(CT_SHAPE(2, 5, 3)), *h = ct_forward(ct_module_child(m, "fc"), x);
        ck_assert_double_eq(
            distance(ct_forward(m, x), ct_forward(ct_module_child(m, "proj"), ct_activate(h, a))),
            0);
    }
    ck_refused(ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .activation = (ct_activation)9}),
               CT_ERR_ARGUMENT, "MLP", "activation");
}
END_TEST

START_TEST(positions) {
    int64_t n = 40, e = 7;
    ct_module *m = ct_positions_new(
        context, (ct_positions_opts){.max_length = n, .embed_dim = e, .dtype = CT_F64});
    ck_assert_int_eq(ct_module_count(m), 0);
    double *got = values(ct_forward(m, ct_zeros(context, CT_F64, CT_SHAPE(1, n, e))));
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < e; i++) {
            double angle = (double)p / pow(10000, (double)(i / 2 * 2) / (double)e);
            ck_assert_double_eq_tol(got[p * e + i], i % 2 ? cos(angle) : sin(angle), 1e-13);
        }
    free(got);
    ck_refused(ct_forward(m, ct_zeros(context, CT_F64, CT_SHAPE(1, n + 1, e))), CT_ERR_SHAPE,
               "up to 40", "(1, 41, 7)");
    ct_module *learned = ct_positions_new(
        context, (ct_positions_opts){.max_length = 500, .embed_dim = 20, .learned = true});
    ck_assert(is_named(learned, "weight"));
    ck_assert_double_eq_tol(
        ct_item(ct_mean(ct_pow(ct_module_get(learned, "weight"), 2), CT_ALL, false)), 0.02 * 0.02,
        2e-5);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3, 20));
    ct_tensor *y = ct_add(x, ct_narrow(ct_module_get(learned, "weight"), 0, 0, 3));
    ck_assert_double_eq(distance(ct_forward(learned, x), y), 0);
}
END_TEST

START_TEST(heads) {
    ct_tensor *x = randn(CT_SHAPE(2, 3, 8)), *h = ct_split_heads(x, 4);
    ck_assert_int_eq(ct_dim(h, 1), 4);
    ck_assert_int_eq(ct_dim(h, 2), 3);
    ck_assert_double_eq(distance(ct_select(h, 1, 2), ct_narrow(x, 2, 4, 2)), 0);
    ck_assert_double_eq(distance(ct_combine_heads(h), x), 0);
    ck_refused(ct_split_heads(x, 3), CT_ERR_SHAPE, "split_heads", "(2, 3, 8)");
    ck_refused(ct_split_heads(x, 0), CT_ERR_SHAPE, "split_heads", "(2, 3, 8)");
    ck_refused(ct_combine_heads(x), CT_ERR_SHAPE, "combine_heads", "(2, 3, 8)");
}
END_TEST

START_TEST(a_vector_is_normed) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(5));
    ct_module *norm = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 5, .dtype = CT_F64});
    ct_module *rms = ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 5, .dtype = CT_F64});
    ck_assert_double_eq(
        distance(ct_forward(norm, x), ct_select(ct_forward(norm, ct_unsqueeze(x, 0)), 0, 0)), 0);
    ck_assert_double_eq(
        distance(ct_forward(rms, x), ct_select(ct_forward(rms, ct_unsqueeze(x, 0)), 0, 0)), 0);

    /* the weight begins at 1 - offset, so the module begins as the one without an offset */
    for (int i = 0; i < 4; i++) {
        const double offset = i / 2.;
        ct_module *m = ct_rms_norm_new(
            context, (ct_rms_norm_opts){.dim = 5, .dtype = CT_F64, .offset = offset});
        ct_tensor *w = ct_module_get(m, "weight");
        ck_assert_double_eq(ct_item(ct_min(w, CT_ALL, false)), 1 - offset);
        ck_assert_double_eq(ct_item(ct_max(w, CT_ALL, false)), 1 - offset);
        ck_assert_double_lt(distance(ct_forward(m, x), ct_forward(rms, x)), 1e-15);
        ct_tensor *drawn = randn(CT_SHAPE(5));
        ck_assert(ct_copy_into(w, drawn));
        ck_assert_double_lt(
            distance(ct_forward(m, x), ct_mul(ct_add_scalar(drawn, offset), ct_forward(rms, x))),
            1e-15);
    }
}
END_TEST

START_TEST(modules_refuse_shapes) {
    ct_module *norm = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 3, .dtype = CT_F64});
    ct_module *rms = ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 3, .dtype = CT_F64});
    ct_module *table = ct_positions_new(
        context, (ct_positions_opts){.max_length = 5, .embed_dim = 3, .dtype = CT_F64});
    ct_module *all[] = {norm, rms, table};
    for (int i = 0; i < 3; i++) {
        ck_refused(ct_forward(all[i], randn(CT_SCALAR)), CT_ERR_SHAPE, "expected (..., ", "got ()");
        ck_refused(ct_forward(all[i], randn(CT_SHAPE(3, 4))), CT_ERR_SHAPE, "expected (..., ",
                   "got (3, 4)");
        ck_assert_ptr_nonnull(ct_forward(all[i], randn(CT_SHAPE(5, 3))));
        no_error();
    }
    ck_refused(ct_forward(table, randn(CT_SHAPE(3))), CT_ERR_SHAPE, "expected (..., T, 3)",
               "got (3)");
    ck_refused(ct_positions_forward(table, randn(CT_SHAPE(2, 3)), 4), CT_ERR_SHAPE,
               "from position 4", "max_length 5");
    ck_assert_ptr_nonnull(ct_positions_forward(table, randn(CT_SHAPE(2, 3)), 3));
    /* (..., T, E): all dims before T are batch dims */
    ck_assert_ptr_nonnull(ct_positions_forward(table, randn(CT_SHAPE(7, 2, 3, 3)), 2));
    ck_refused(
        ct_positions_new(context, (ct_positions_opts){.max_length = INT64_MAX / 2, .embed_dim = 4}),
        CT_ERR_MEMORY, "Positions", "");
    ck_refused(ct_positions_new(context, (ct_positions_opts){.max_length = -1, .embed_dim = 3}),
               CT_ERR_ARGUMENT, "Positions", "max_length is -1");
    ck_refused(ct_positions_new(context, (ct_positions_opts){.max_length = 5, .embed_dim = -1}),
               CT_ERR_ARGUMENT, "Positions", "embed_dim is -1");
    ck_refused(ct_positions_new(context,
                                (ct_positions_opts){.max_length = 5, .embed_dim = 3, .dropout = 2}),
               CT_ERR_ARGUMENT, "Positions", "dropout");
    ck_refused(ct_positions_new(
                   context, (ct_positions_opts){.max_length = 5, .embed_dim = 3, .dtype = CT_I64}),
               CT_ERR_DTYPE, "Positions", "f32 or f64");
}
END_TEST

static bool graph_has(ct_tensor *y, const char *op) {
    static char text[1 << 16];
    FILE *file = tmpfile();
    ck_assert(ct_graph_print(y, file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return strstr(text, op) != NULL;
}

/* Dropout of attention's weights and result, inside the feed-forward and of its result. Without
 * dropout the end of the feed-forward is one op. */
START_TEST(dropout_of_a_layer) {
    for (int k = 0; k < 4; k++) {
        const bool training = k & 1, dropout = k & 2;
        ct_layer_opts o = {.embed_dim = 8, .num_heads = 2, .dropout = dropout ? 0.5 : 0};
        ct_module *layer = ct_encoder_layer_new(context, o);
        /* hidden is 4 embed_dim */
        ck_assert_int_eq(ct_dim(ct_module_get(layer, "linear1.weight"), 0), 32);
        ct_module_train(layer, training);
        const uint64_t stream = ct_rng_get(context).stream;
        ct_tensor *y = ct_encoder_layer_forward(layer, ct_zeros(context, CT_F32, CT_SHAPE(1, 3, 8)),
                                                (ct_mha_call){0})
                           .out;
        no_error();
        ck_assert_uint_eq(ct_rng_get(context).stream - stream, training && dropout ? 4 : 0);
        ck_assert(graph_has(y, "activated_linear") == !(training && dropout));
        ck_assert(graph_has(y, "dropout") == (training && dropout));
    }
    /* with dropout 1 only the layer's input is left */
    for (int gated = 0; gated < 2; gated++) {
        ct_module *layer = ct_encoder_layer_new(
            context,
            (ct_layer_opts){
                .embed_dim = 8, .num_heads = 2, .dropout = 1, .norm_first = true, .gated = gated});
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(1, 3, 8));
        ck_assert_double_eq(distance(ct_forward(layer, x), x), 0);
    }
    ck_refused(ct_encoder_layer_new(
                   context, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .dropout = 1.5}),
               CT_ERR_ARGUMENT, "TransformerEncoderLayer", "dropout");
}
END_TEST

/* ---- torch's layers, written out ---- */

static ct_tensor *run(ct_module *layer, const char *child, ct_tensor *x) {
    return ct_forward(ct_module_child(layer, child), x);
}

static ct_tensor *feed(ct_module *layer, ct_tensor *x, bool gelu) {
    ct_tensor *h = run(layer, "linear1", x);
    return run(layer, "linear2", gelu ? ct_gelu(h) : ct_relu(h));
}

START_TEST(layers_are_torchs) {
    ct_tensor *x = randn(CT_SHAPE(2, 5, 8)), *memory = randn(CT_SHAPE(2, 3, 8));
    bool real[] = {true, true, false, true, true, true};
    ct_mha_call self = {.causal = true, .need_weights = true};
    ct_mha_call cross = {.key_mask = ct_from_bool(context, CT_SHAPE(2, 3), real),
                         .need_weights = true,
                         .per_head = true};
    for (int first = 0; first < 2; first++) {
        ct_layer_opts opts = {.embed_dim = 8,
                              .num_heads = 2,
                              .hidden = 12,
                              .norm_first = first,
                              .activation = first ? CT_GELU : CT_RELU,
                              .dtype = CT_F64};
        ct_module *e = ct_encoder_layer_new(context, opts),
                  *d = ct_decoder_layer_new(context, opts);
        ct_layer_out y = ct_encoder_layer_forward(e, x, self),
                     z = ct_decoder_layer_forward(d, x, memory, self, cross);
        no_error();

        ct_tensor *q = first ? run(e, "norm1", x) : x;
        ct_mha_out a = ct_mha_forward(ct_module_child(e, "self_attn"), q, NULL, NULL, self);
        ct_tensor *h = ct_add(x, a.out);
        h = first ? ct_add(h, feed(e, run(e, "norm2", h), true)) : run(e, "norm1", h);
        if (!first) h = run(e, "norm2", ct_add(h, feed(e, h, false)));
        ck_assert_double_eq(distance(y.out, h), 0);
        ck_assert_double_eq(distance(y.self_weights, a.weights), 0);
        ck_assert_ptr_null(y.cross_weights);

        a = ct_mha_forward(ct_module_child(d, "self_attn"), first ? run(d, "norm1", x) : x, NULL,
                           NULL, self);
        h = ct_add(x, a.out);
        if (!first) h = run(d, "norm1", h);
        ct_mha_out c = ct_mha_forward(ct_module_child(d, "multihead_attn"),
                                      first ? run(d, "norm2", h) : h, memory, memory, cross);
        h = ct_add(h, c.out);
        if (!first) h = run(d, "norm2", h);
        h = ct_add(h, feed(d, first ? run(d, "norm3", h) : h, first));
        if (!first) h = run(d, "norm3", h);
        ck_assert_double_eq(distance(z.out, h), 0);
        ck_assert_double_eq(distance(z.self_weights, a.weights), 0);
        ck_assert_double_eq(distance(z.cross_weights, c.weights), 0);
        ck_assert_int_eq(ct_ndim(z.cross_weights), 4);
        /* hidden */
        ck_assert_double_eq(
            ct_item(ct_max(ct_select(ct_select(z.cross_weights, 0, 0), -1, 2), CT_ALL, false)), 0);

        ck_assert(ct_backward(ct_sum(ct_mul(z.out, randn(CT_SHAPE(2, 5, 8))), CT_ALL, false)));
        for (ct_param p = {0}; ct_module_next(d, &p);)
            ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
    }
    ct_module *d = ct_decoder_layer_new(
        context, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64});
    ck_refused(ct_decoder_layer_forward(d, x, NULL, self, cross).out, CT_ERR_ARGUMENT,
               "TransformerDecoderLayer", "memory");
    ck_refused(ct_decoder_layer_forward(d, x, randn(CT_SHAPE(2, 8)), self, cross).self_weights,
               CT_ERR_SHAPE, "memory (B, T, 8)", "(2, 8)");
}
END_TEST

/* ---- initialisation ---- */

/* fills its range, and has its variance, bound^2 / 3 */
static void uniform_within(ct_tensor *t, double bound) {
    double n = (double)ct_numel(t), most = largest(t);
    ck_assert_msg(most <= bound * (1 + 1e-6) && most > bound * 0.98, "%g of %g", most, bound);
    double mean = ct_item(ct_mean(t, CT_ALL, false)),
           square = ct_item(ct_mean(ct_mul(t, t), CT_ALL, false));
    ck_assert_double_lt(fabs(mean), 5 * bound / sqrt(3 * n));
    ck_assert_double_eq_tol(square / (bound * bound / 3), 1, 5 / sqrt(n));
}

static void normal_with(ct_tensor *t, double std) {
    double n = (double)ct_numel(t);
    ck_assert_double_lt(fabs(ct_item(ct_mean(t, CT_ALL, false))), 5 * std / sqrt(n));
    ck_assert_double_eq_tol(ct_item(ct_mean(ct_mul(t, t), CT_ALL, false)) / (std * std), 1,
                            8 / sqrt(n));
}

START_TEST(initialisation_is_torchs) {
    ct_module *linear =
        ct_linear_new(context, (ct_linear_opts){.in_features = 50, .out_features = 400});
    uniform_within(ct_module_get(linear, "weight"), 1 / sqrt(50));
    uniform_within(ct_module_get(linear, "bias"), 1 / sqrt(50));
    normal_with(ct_module_get(ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 200,
                                                                            .embedding_dim = 50}),
                              "weight"),
                1);
    ct_module *mha =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .add_bias_kv = true});
    uniform_within(ct_module_get(mha, "in_proj_weight"), sqrt(6.0 / (4 * 64)));
    uniform_within(ct_module_get(mha, "out_proj.weight"), 1 / sqrt(64));
    ck_assert_double_eq(largest(ct_module_get(mha, "in_proj_bias")), 0);
    ck_assert_double_eq(largest(ct_module_get(mha, "out_proj.bias")), 0);
    normal_with(ct_module_get(mha, "bias_k"), sqrt(2.0 / (2 * 64)));
    normal_with(ct_module_get(mha, "bias_v"), sqrt(2.0 / (2 * 64)));
    ct_module *apart = ct_mha_new(
        context,
        (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .kdim = 100, .init = CT_INIT_XAVIER});
    uniform_within(ct_module_get(apart, "q_proj_weight"), sqrt(6.0 / (64 + 64)));
    uniform_within(ct_module_get(apart, "k_proj_weight"), sqrt(6.0 / (64 + 100)));
    uniform_within(ct_module_get(apart, "out_proj.weight"), sqrt(6.0 / (64 + 64)));
    ct_module *xavier =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .init = CT_INIT_XAVIER});
    uniform_within(ct_module_get(xavier, "in_proj_weight"), sqrt(6.0 / (64 + 64)));
    ct_module *norm = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 5});
    ck_assert_double_eq(ct_item(ct_sum(ct_module_get(norm, "weight"), CT_ALL, false)), 5);
    ck_assert_double_eq(largest(ct_module_get(norm, "bias")), 0);
    no_error();
}
END_TEST

START_TEST(init_functions) {
    ct_tensor *t = ct_empty(context, CT_F64, CT_SHAPE(30, 10, 4)); /* fan_in 40, fan_out 120 */
    ck_assert(ct_init_xavier_uniform(t, 2));
    uniform_within(t, 2 * sqrt(6.0 / 160));
    ck_assert(ct_init_xavier_normal(t, 1));
    normal_with(t, sqrt(2.0 / 160));
    ck_assert(ct_init_kaiming_uniform(t, sqrt(5)));
    uniform_within(t, 1 / sqrt(40));
    ck_assert(ct_init_uniform(t, -3, 3) && (uniform_within(t, 3), true));
    ck_assert(ct_init_normal(t, 0, 0.5) && (normal_with(t, 0.5), true));
    ck_assert(ct_init_constant(t, -2));
    ck_assert_double_eq(ct_item(ct_mean(t, CT_ALL, false)), -2);
    ck_refused(ct_init_xavier_uniform(randn(CT_SHAPE(3)), 1), CT_ERR_SHAPE, "xavier_uniform",
               "(3)");
    ck_refused(ct_init_xavier_uniform(t, NAN), CT_ERR_ARGUMENT, "xavier_uniform", "gain");
    ck_refused(ct_init_xavier_normal(t, -1), CT_ERR_ARGUMENT,
               "xavier_normal: gain is -1, must be a number of at least 0", "");
    ck_refused(ct_init_xavier_normal(randn(CT_SHAPE(3)), 1), CT_ERR_SHAPE,
               "xavier_normal: needs at least 2 dims, got (3)", "");
    ck_refused(ct_init_kaiming_uniform(t, -1), CT_ERR_ARGUMENT,
               "kaiming_uniform: a is -1, must be a number of at least 0", "");
    ck_refused(ct_init_kaiming_uniform(randn(CT_SHAPE(3)), 1), CT_ERR_SHAPE,
               "kaiming_uniform: needs at least 2 dims, got (3)", "");
    ck_refused(ct_init_uniform(t, 1, 0), CT_ERR_ARGUMENT, "init_uniform", "");
    ck_refused(ct_init_normal(t, 0, -1), CT_ERR_ARGUMENT, "init_normal", "std");
    ck_refused(ct_init_normal(ct_zeros(context, CT_I64, CT_SHAPE(2)), 0, 1), CT_ERR_DTYPE, "i64",
               "");
    static const int64_t empty[][2] = {{0, 0}, {0, 3}, {3, 0}};
    for (int i = 0; i < 3; i++) {
        ct_tensor *none = ct_empty(context, CT_F32, CT_SHAPE(empty[i][0], empty[i][1]));
        ck_assert(ct_init_xavier_uniform(none, 0) && ct_init_xavier_normal(none, 1) &&
                  ct_init_kaiming_uniform(none, 0));
    }
    /* a range of one number */
    ck_assert(ct_init_uniform(t, 2, 2) && ct_item(ct_max(t, CT_ALL, false)) == 2);
    ck_refused(ct_init_uniform(t, -INFINITY, 0), CT_ERR_ARGUMENT,
               "init_uniform: no range from -inf to 0", "");
    ck_assert(!ct_init_constant(NULL, 1) && !ct_init_uniform(NULL, 0, 1) &&
              !ct_init_normal(NULL, 0, 1));
    ck_assert(!ct_init_xavier_uniform(NULL, 1) && !ct_init_xavier_normal(NULL, 1) &&
              !ct_init_kaiming_uniform(NULL, 1));
}
END_TEST

int main(void) {
    return run_tests("layers", setup, teardown,
                     TESTS(TEST(mlp_is_its_parts), TEST(positions), TEST(heads),
                           TEST(a_vector_is_normed), TEST(modules_refuse_shapes),
                           TEST(dropout_of_a_layer), TEST(layers_are_torchs),
                           TEST(initialisation_is_torchs), TEST(init_functions)));
}
