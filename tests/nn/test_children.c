/* Children that a caller replaces in built-in layers, projections as children of their own, and
 * clones of trees. */
#include "tests/support/nn_check.h"

/* ---- a wrapper, as LoRA or a quantised layer is ---- */

static int calls;

static ct_tensor *wrapped_forward(void *self, ct_tensor *x) {
    calls++;
    return ct_forward(ct_module_child(self, "base"), x);
}

/* Puts a wrapper where the child of that path stands, which becomes its child "base". */
static ct_module *wrap(ct_module *root, const char *path) {
    ct_module *wrapper = ct_module_new(context, "Wrapper");
    ct_module_set_forward(wrapper, wrapped_forward, wrapper);
    ct_module *old = ct_module_set_child(root, path, wrapper);
    ck_assert_ptr_nonnull(old);
    ck_assert_ptr_eq(ct_module_add_child(wrapper, "base", old), old);
    ck_assert_ptr_eq(ct_module_child(root, path), wrapper);
    return wrapper;
}

static ct_tensor *narrow_forward(void *self, ct_tensor *x) {
    (void)self;
    return ct_narrow(x, 2, 0, 1); /* a sum with a residual would broadcast this */
}
static ct_tensor *first_row_forward(void *self, ct_tensor *x) {
    return ct_narrow(ct_forward(ct_module_child(self, "base"), x), 1, 0, 1);
}

static ct_layer_opts layer_opts(bool gated, bool separate) {
    return (ct_layer_opts){.embed_dim = 6,
                           .num_heads = 3,
                           .hidden = 10,
                           .activation = CT_SILU,
                           .norm_first = gated, /* both orders are tried */
                           .dtype = CT_F64,
                           .gated = gated,
                           .rms_norm = gated,
                           .attn = {.qk_norm = gated, .separate = separate}};
}

START_TEST(what_stands_there_is_called) {
    static const char *const paths[] = {"linear1",
                                        "linear2",
                                        "norm1",
                                        "norm2",
                                        "self_attn.out_proj",
                                        "self_attn.q_proj",
                                        "self_attn.k_proj",
                                        "self_attn.v_proj",
                                        "gate",
                                        "self_attn.q_norm",
                                        "self_attn.k_norm"};
    for (int gated = 0; gated < 2; gated++) {
        ct_module *layer = ct_encoder_layer_new(context, layer_opts(gated, true));
        ct_tensor *x = randn(CT_SHAPE(2, 5, 6)), *g = randn(CT_SHAPE(2, 5, 6));
        ct_set_requires_grad(x, true);
        for (int i = 0; i < (gated ? 11 : 8); i++) {
            ct_tensor *y = ct_forward(layer, x);
            ct_backward(ct_sum(ct_mul(y, g), CT_ALL, false));
            ct_tensor *dx = ct_scale(ct_grad(x), 1);
            ct_zero_grad(x);
            wrap(layer, paths[i]);
            calls = 0;
            ct_tensor *z = ct_forward(layer, x);
            ck_assert_int_eq(calls, i + 1); /* those wrapped before too */
            ck_assert_double_le(distance(y, z), 1e-13);
            ct_backward(ct_sum(ct_mul(z, g), CT_ALL, false));
            ck_assert_double_le(distance(dx, ct_grad(x)), 1e-12);
            ct_zero_grad(x);
        }
    }
}
END_TEST

START_TEST(feed_forward_of_an_mlp) {
    static const char *const paths[] = {"fc", "proj", "gate"};
    for (int gated = 0; gated < 2; gated++)
        for (int i = 0; i < 2 + gated; i++) {
            ct_module *mlp = ct_mlp_new(
                context, (ct_mlp_opts){.dim = 3, .hidden = 7, .dtype = CT_F64, .gated = gated});
            ct_tensor *x = randn(CT_SHAPE(4, 3)), *y = ct_forward(mlp, x);
            wrap(mlp, paths[i]);
            calls = 0;
            ck_assert_double_le(distance(y, ct_forward(mlp, x)), 1e-14);
            ck_assert_int_eq(calls, 1);
        }
}
END_TEST

/* Another inner width is the caller's right; so is another output without a residual. */
START_TEST(other_widths) {
    ct_linear_opts wide = {.in_features = 6, .out_features = 9, .dtype = CT_F64},
                   back = {.in_features = 9, .out_features = 6, .dtype = CT_F64};
    ct_module *layer = ct_encoder_layer_new(context, layer_opts(false, false));
    ct_tensor *x = randn(CT_SHAPE(2, 5, 6));
    ct_module_free(ct_module_set_child(layer, "linear1", ct_linear_new(context, wide)));
    ck_refused(ct_forward(layer, x), CT_ERR_SHAPE, "(2, 5, 9)", "(6, 10)");
    ct_module_free(ct_module_set_child(layer, "linear2", ct_linear_new(context, back)));
    ct_tensor *y = ct_forward(layer, x);
    no_error();
    ck_assert_int_eq(ct_numel(y), 60);
    ct_module *mlp = ct_mlp_new(context, (ct_mlp_opts){.dim = 6, .hidden = 9, .dtype = CT_F64});
    ct_module_free(ct_module_set_child(
        mlp, "proj",
        ct_linear_new(context,
                      (ct_linear_opts){.in_features = 9, .out_features = 2, .dtype = CT_F64})));
    ck_assert_int_eq(ct_dim(ct_forward(mlp, x), 2), 2);
}
END_TEST

/* Nothing broadcasts by accident. */
START_TEST(results_of_another_shape) {
    static const char *const paths[] = {"linear2",
                                        "norm1",
                                        "norm2",
                                        "gate",
                                        "linear1",
                                        "self_attn.out_proj",
                                        "self_attn.q_proj",
                                        "self_attn.k_proj",
                                        "self_attn.v_proj"};
    static ct_tensor *(*const forwards[])(void *, ct_tensor *) = {narrow_forward,
                                                                  first_row_forward};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (int f = 0; f < 2; f++) {
            ct_module *stack = ct_encoder_new(context, layer_opts(true, true), 2, false);
            char path[64];
            snprintf(path, sizeof path, "layers.1.%s", paths[i]);
            ct_module *wrapper = wrap(stack, path);
            ct_module_set_forward(wrapper, forwards[f], wrapper);
            ck_refused(ct_forward(stack, randn(CT_SHAPE(2, 5, 6))), CT_ERR_SHAPE, "layers.1",
                       "(2, ");
            ct_module_free(stack);
        }
    ct_module *stack = ct_encoder_new(context, layer_opts(false, false), 1, true);
    ct_module_set_forward(wrap(stack, "norm"), narrow_forward, NULL);
    ck_refused(ct_forward(stack, randn(CT_SHAPE(2, 5, 6))), CT_ERR_SHAPE,
               "norm made (2, 5, 1) of (2, 5, 6)", "must be 6");
    ct_module *silent = ct_module_new(context, "Silent");
    ct_module_free(ct_module_set_child(stack, "layers.0.linear2", silent));
    ck_refused(ct_forward(stack, randn(CT_SHAPE(2, 5, 6))), CT_ERR_ARGUMENT, "layers.0.linear2",
               "Silent has no forward");
}
END_TEST

/* ---- the tree ---- */

START_TEST(a_child_takes_its_place) {
    ct_module *layer = ct_encoder_layer_new(context, layer_opts(false, false));
    ct_module *stack = ct_module_append(ct_module_new(context, "Net"), "layers", layer);
    ck_assert_ptr_eq(stack, layer);
    ct_linear_opts opts = {.in_features = 6, .out_features = 10, .dtype = CT_F64};
    ct_module *fresh = ct_linear_new(context, opts);
    ct_module *old = ct_module_set_child(layer, "linear1", fresh);
    ck_assert_ptr_nonnull(old);
    ck_assert_ptr_ne(old, fresh);
    /* in the order of parameters too */
    static const char *const names[] = {"self_attn.in_proj_weight",
                                        "self_attn.in_proj_bias",
                                        "self_attn.out_proj.weight",
                                        "self_attn.out_proj.bias",
                                        "linear1.weight",
                                        "linear1.bias",
                                        "linear2.weight"};
    ct_param p = {0};
    for (int i = 0; i < 7; i++) {
        ck_assert(ct_module_next(layer, &p));
        ck_assert_str_eq(p.name, names[i]);
    }
    ck_assert_ptr_eq(ct_module_get(layer, "linear1.weight"), ct_module_get(fresh, "weight"));
    /* the old one is whole, without a parent, and may be a child again */
    ck_assert_int_eq(ct_module_count(old), 70);
    ck_assert_ptr_eq(ct_module_set_child(layer, "linear1", old), fresh);
    ck_assert_ptr_eq(ct_module_child(layer, "linear1"), old);
    ct_module_free(fresh);
    ct_module_free(old); /* one that is freed leaves the tree as always */
    ck_refused(ct_module_child(layer, "linear1"), CT_ERR_ARGUMENT, "no child", "linear1");
}
END_TEST

START_TEST(set_child_refused) {
    ct_module *layer = ct_encoder_layer_new(context, layer_opts(false, false));
    ct_module *root = ct_module_new(context, "Net");
    ct_module_append(root, "layers", layer);
    ct_module *loose = ct_dropout_new(context, 0.1), *owned = ct_dropout_new(context, 0.1);
    ct_module *owner = ct_module_new(context, "Owner");
    ct_module_add_child(owner, "drop", owned);
    ct_module *before = ct_module_child(root, "layers.0.linear1");
    ck_refused(ct_module_set_child(root, "layers.0.linear3", loose), CT_ERR_ARGUMENT, "no child",
               "layers.0.linear3");
    ck_refused(ct_module_set_child(root, "layers.7.linear1", loose), CT_ERR_ARGUMENT, "no child",
               "layers.7.linear1");
    ck_refused(ct_module_set_child(root, NULL, loose), CT_ERR_ARGUMENT, "no child", "NULL");
    ck_refused(ct_module_set_child(root, "layers.0.linear1", NULL), CT_ERR_ARGUMENT, "linear1",
               "NULL");
    ck_refused(ct_module_set_child(NULL, "layers.0.linear1", loose), CT_ERR_ARGUMENT,
               "ct_module_set_child", "module is NULL");
    ck_refused(ct_module_set_child(root, "layers.0.linear1", owned), CT_ERR_ARGUMENT, "Dropout",
               "has a parent");
    ck_refused(ct_module_set_child(root, "layers.0.linear1", root), CT_ERR_ARGUMENT,
               "inside itself", "");
    ck_refused(ct_module_set_child(root, "layers.0.linear1", before), CT_ERR_ARGUMENT, "Linear",
               "has a parent");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_refused(ct_module_set_child(root, "layers.0.linear1", ct_dropout_new(other, 0.1)),
               CT_ERR_ARGUMENT, "another context", "");
    ct_context_free(other);
    char longest[251];
    memset(longest, 'x', 250), longest[250] = 0;
    ct_module *deep = ct_module_new(context, "Deep");
    ct_module_add_param(deep, longest, ct_zeros(context, CT_F32, CT_SHAPE(1)));
    ck_refused(ct_module_set_child(root, "layers.0.linear1", deep), CT_ERR_ARGUMENT, "full name",
               "255");
    ct_module_free(loose);
    ck_refused(ct_module_set_child(root, "layers.0.linear1", loose), CT_ERR_ARGUMENT,
               "ct_module_set_child", "freed");
    ck_assert_ptr_eq(ct_module_child(root, "layers.0.linear1"), before);
    ck_assert_int_eq(ct_module_count(deep), 1);
}
END_TEST

START_TEST(an_optimiser_of_the_old_parameters) {
    ct_module *layer = ct_encoder_layer_new(context, layer_opts(false, false));
    ct_optim *optim = ct_sgd_new(layer, (ct_sgd_opts){.lr = 0.1});
    ct_linear_opts opts = {.in_features = 6, .out_features = 10, .dtype = CT_F64};
    ct_module *old = ct_module_set_child(layer, "linear1", ct_linear_new(context, opts));
    ck_refused(ct_optim_step(optim), CT_ERR_ARGUMENT, "SGD", "linear1.weight");
    ct_module_free(ct_module_set_child(layer, "linear1", old));
    ck_assert(ct_optim_step(optim));
}
END_TEST

/* ---- separate projections ---- */

/* The rows of the packed or apart parameters into the children's. */
static void copy_projections(ct_module *packed, ct_module *separate, int64_t e, int64_t w) {
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    ct_param first = {0};
    ct_module_next(packed, &first);
    const bool one = !strcmp(first.name, "in_proj_weight");
    for (int i = 0; i < 3; i++) {
        const int64_t start = i == 0 ? 0 : e + (i - 1) * w, rows = i == 0 ? e : w;
        char from[32], to[32];
        snprintf(from, sizeof from, "%s_weight", names[i]);
        snprintf(to, sizeof to, "%s.weight", names[i]);
        ct_tensor *all = ct_module_get(packed, one ? "in_proj_weight" : from);
        double *v = values(one ? ct_narrow(all, 0, start, rows) : all);
        ct_tensor *target = ct_module_get(separate, to);
        memcpy(ct_data_f64(target), v, sizeof(double) * (size_t)ct_numel(target));
        free(v);
        snprintf(to, sizeof to, "%s.bias", names[i]);
        v = values(ct_narrow(ct_module_get(packed, "in_proj_bias"), 0, start, rows));
        memcpy(ct_data_f64(ct_module_get(separate, to)), v, sizeof(double) * (size_t)rows);
        free(v);
    }
    static const char *const same[] = {"out_proj.weight", "out_proj.bias", "bias_k",
                                       "bias_v",          "q_norm.weight", "k_norm.weight"};
    for (int i = 0; i < 6; i++) {
        ct_tensor *from = ct_module_get(packed, same[i]);
        ct_error_clear(context);
        if (!from) continue;
        double *v = values(from);
        memcpy(ct_data_f64(ct_module_get(separate, same[i])), v,
               sizeof(double) * (size_t)ct_numel(from));
        free(v);
    }
}

START_TEST(separate_is_packed) {
    static const ct_mha_opts kinds[] = {
        {.embed_dim = 12, .num_heads = 3},
        {.embed_dim = 12, .num_heads = 6, .num_kv_heads = 2},
        {.embed_dim = 12, .num_heads = 2, .kdim = 5, .vdim = 7},
        {.embed_dim = 12, .num_heads = 2, .rope = true, .qk_norm = true},
        {.embed_dim = 12, .num_heads = 4, .add_bias_kv = true, .add_zero_attn = true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int cross = kinds[i].kdim > 0; cross < 2; cross++) {
            ct_mha_opts o = kinds[i];
            o.dtype = CT_F64;
            ct_module *packed = ct_mha_new(context, o);
            o.separate = true;
            ct_module *separate = ct_mha_new(context, o);
            ck_assert_int_eq(ct_module_count(packed), ct_module_count(separate));
            ct_init_normal(ct_module_get(packed, "in_proj_bias"), 0, 1);
            const int64_t w =
                o.embed_dim / o.num_heads * (o.num_kv_heads ? o.num_kv_heads : o.num_heads);
            copy_projections(packed, separate, o.embed_dim, w);
            ct_tensor *q = randn(CT_SHAPE(2, 5, 12)),
                      *k = cross ? randn(CT_SHAPE(2, 4, o.kdim ? o.kdim : 12)) : NULL,
                      *v = cross ? randn(CT_SHAPE(2, 4, o.vdim ? o.vdim : 12)) : NULL,
                      *g = randn(CT_SHAPE(2, 5, 12));
            ct_set_requires_grad(q, true);
            ct_mha_call call = {.causal = !cross, .need_weights = true};
            ct_tensor *dq[2], *y[2], *weights[2];
            for (int m = 0; m < 2; m++) {
                ct_mha_out out = ct_mha_forward(m ? separate : packed, q, k, v, call);
                y[m] = out.out, weights[m] = out.weights;
                ct_backward(ct_sum(ct_mul(y[m], g), CT_ALL, false));
                dq[m] = ct_scale(ct_grad(q), 1);
                ct_zero_grad(q);
            }
            ck_assert_double_le(distance(y[0], y[1]), 1e-13);
            ck_assert_double_le(distance(weights[0], weights[1]), 1e-13);
            ck_assert_double_le(distance(dq[0], dq[1]), 1e-12);
        }
}
END_TEST

/* Decoding with a cache, and hidden keys that are NaN. */
START_TEST(separate_with_a_cache_and_masks) {
    ct_mha_opts o = {.embed_dim = 8, .num_heads = 2, .rope = true, .dtype = CT_F64};
    o.separate = true;
    ct_module *mha = ct_mha_new(context, o);
    ct_tensor *x = randn(CT_SHAPE(1, 6, 8));
    ct_tensor *whole = ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.causal = true}).out;
    ct_kv_cache *cache = ct_kv_cache_new(mha, 1, 6);
    for (int64_t t = 0; t < 6; t++) {
        ct_tensor *one = ct_narrow(x, 1, t, 1);
        ct_mha_call call = {.causal = true, .cache = cache};
        ct_tensor *y = ct_mha_forward(mha, one, NULL, NULL, call).out;
        ck_assert_double_le(distance(y, ct_narrow(whole, 1, t, 1)), 1e-13);
    }
    ct_kv_cache_free(cache);

    ct_tensor *q = randn(CT_SHAPE(1, 2, 8)), *k = randn(CT_SHAPE(1, 3, 8));
    ct_tensor *seen =
        ct_mha_forward(mha, q, ct_narrow(k, 1, 0, 2), ct_narrow(k, 1, 0, 2), (ct_mha_call){0}).out;
    for (int i = 16; i < 24; i++) ct_data_f64(k)[i] = NAN;
    ct_tensor *mask = ct_ones(context, CT_BOOL, CT_SHAPE(1, 3));
    ct_data_bool(mask)[2] = false;
    ct_tensor *y = ct_mha_forward(mha, q, k, k, (ct_mha_call){.key_mask = mask}).out;
    ck_assert_double_le(distance(seen, y), 1e-13);
}
END_TEST

START_TEST(separate_names_and_values) {
    ct_module *mha = ct_mha_new(
        context,
        (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .num_kv_heads = 2, .separate = true});
    static const char *const names[] = {"q_proj.weight",  "q_proj.bias",   "k_proj.weight",
                                        "k_proj.bias",    "v_proj.weight", "v_proj.bias",
                                        "out_proj.weight"};
    ct_param p = {0};
    for (int i = 0; i < 7; i++) {
        ck_assert(ct_module_next(mha, &p));
        ck_assert_str_eq(p.name, names[i]);
    }
    ck_assert_int_eq(ct_dim(ct_module_get(mha, "k_proj.weight"), 0), 32);
    ck_assert_double_eq(largest(ct_module_get(mha, "k_proj.bias")), 0);
    const double bound = sqrt(6.0 / (64 + 32)), most = largest(ct_module_get(mha, "k_proj.weight"));
    ck_assert(most <= bound && most > 0.98 * bound);
    ct_module *plain = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 4});
    ck_refused(ct_module_child(plain, "q_proj"), CT_ERR_ARGUMENT, "no child", "q_proj");
}
END_TEST

/* ---- clones ---- */

static ct_tensor *own_forward(void *self, ct_tensor *x) {
    return ct_mul(x, ct_module_get(self, "scale"));
}

static ct_module *net(void) {
    ct_module *root = ct_module_new(context, "Net");
    ct_module *wte = ct_module_add_child(
        root, "wte",
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 5, .embedding_dim = 6}));
    ct_module_add_child(
        root, "positions",
        ct_positions_new(context, (ct_positions_opts){.max_length = 9, .embed_dim = 6}));
    ct_layer_opts opts = layer_opts(true, true);
    opts.dtype = CT_F32;
    ct_module *stack = ct_module_add_child(root, "h", ct_encoder_new(context, opts, 2, true));
    ct_module *own = ct_module_add_child(root, "own", ct_module_new(context, "Own"));
    ct_module_add_param(own, "scale", ct_randn(context, CT_F32, CT_SHAPE(6)));
    ct_module_set_forward(own, own_forward, own);
    ct_module_add_buffer(own, "count", ct_ones(context, CT_I64, CT_SHAPE(3)), true);
    ct_module_add_param(root, "head", ct_module_get(wte, "weight")); /* tied */
    ct_set_requires_grad(ct_module_get(own, "scale"), false);
    ct_module_train(stack, false);
    no_error();
    return root;
}

static ct_tensor *run(ct_module *root, ct_tensor *ids) {
    ct_tensor *x = ct_forward(ct_module_child(root, "wte"), ids);
    x = ct_forward(ct_module_child(root, "positions"), x);
    x = ct_forward(ct_module_child(root, "h"), x);
    x = ct_forward(ct_module_child(root, "own"), x);
    return ct_linear(x, ct_module_get(root, "head"), NULL);
}

START_TEST(clones) {
    ct_module *root = net(), *clone = ct_module_clone(root);
    no_error();
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(2, 4));
    for (int i = 0; i < 8; i++) ct_data_i64(ids)[i] = i * 3 % 5;
    ck_assert_double_eq(distance(run(root, ids), run(clone, ids)), 0);

    /* the same names in the same order, other tensors, the same flags */
    ct_param p = {0}, q = {0};
    while (ct_module_next(root, &p)) {
        ck_assert(ct_module_next(clone, &q));
        ck_assert_str_eq(p.name, q.name);
        ck_assert_ptr_ne(p.tensor, q.tensor);
        ck_assert_int_eq(ct_requires_grad(p.tensor), ct_requires_grad(q.tensor));
        ck_assert_double_eq(distance(p.tensor, q.tensor), 0);
    }
    ck_assert(!ct_module_next(clone, &q));
    ck_assert_ptr_eq(ct_module_get(clone, "head"), ct_module_get(clone, "wte.weight"));
    ck_assert_int_eq(ct_module_count(root), ct_module_count(clone));
    ck_assert(ct_module_training(clone) && !ct_module_training(ct_module_child(clone, "h.layers")));
    p = q = (ct_param){0};
    while (ct_module_next_buffer(root, &p)) {
        ck_assert(ct_module_next_buffer(clone, &q));
        ck_assert_str_eq(p.name, q.name);
        ck_assert_ptr_ne(p.tensor, q.tensor);
        ck_assert_int_eq(ct_dtype_of(p.tensor), ct_dtype_of(q.tensor));
    }

    /* neither changes or outlives the other */
    ct_init_constant(ct_module_get(root, "wte.weight"), 0.5);
    ct_data_i64(ct_module_get(root, "own.count"))[1] = 7;
    ck_assert_double_gt(distance(run(root, ids), run(clone, ids)), 0.01);
    ck_assert_int_eq(ct_data_i64(ct_module_get(clone, "own.count"))[1], 1);
    ct_tensor *y = run(clone, ids);
    ct_module_free(root);
    ck_assert_double_eq(distance(y, run(clone, ids)), 0);
    ct_backward(ct_sum(run(clone, ids), CT_ALL, false));
    ck_assert_ptr_nonnull(ct_grad(ct_module_get(clone, "h.layers.1.linear2.weight")));
    ck_assert_ptr_null(ct_grad(ct_module_get(clone, "own.scale")));
}
END_TEST

START_TEST(clones_of_a_part) {
    ct_module *root = net();
    ct_module *layer = ct_module_child(root, "h.layers.1");
    ct_kv_cache *cache = ct_kv_cache_new(ct_module_child(layer, "self_attn"), 1, 4);
    ct_module *clone = ct_module_clone(layer); /* without a parent, and without the cache */
    ck_assert_ptr_nonnull(ct_module_add_child(root, "copy", clone));
    ct_module_free(ct_module_child(root, "copy"));
    ct_module_free(layer);
    ct_kv_cache_free(cache);
    ck_assert_ptr_null(ct_module_clone(NULL));
    no_error();
    ck_refused(ct_module_clone(layer), CT_ERR_ARGUMENT, "ct_module_clone", "freed");
}
END_TEST

/* A forward that would run the original's modules is none of the clone's. */
START_TEST(a_clones_forward) {
    struct {
        ct_module *scale;
    } of_the_caller;
    ct_module *m = ct_module_new(context, "Scaled");
    of_the_caller.scale = m;
    ct_module_add_param(m, "scale", ct_ones(context, CT_F32, CT_SHAPE(2)));
    ct_module_set_forward(m, own_forward, &of_the_caller);
    ct_module *clone = ct_module_clone(m);
    ck_assert_ptr_nonnull(clone);
    ck_refused(ct_forward(clone, ct_ones(context, CT_F32, CT_SHAPE(2))), CT_ERR_ARGUMENT,
               "a clone has no forward", "ct_module_set_forward");
    ct_module_set_forward(clone, own_forward, clone);
    ck_assert_double_eq(
        ct_item(ct_sum(ct_forward(clone, ct_ones(context, CT_F32, CT_SHAPE(2))), CT_ALL, false)),
        2);
}
END_TEST

/* ---- out of memory ---- */

static ct_module *make(ct_context *c, int which) {
    ct_layer_opts opts = {.embed_dim = 256, .num_heads = 4, .attn.separate = true};
    ct_module *layer = ct_encoder_layer_new(c, opts);
    if (!which || !layer) return layer;
    ct_module *clone = ct_module_clone(layer);
    ct_module_free(layer);
    return clone;
}

START_TEST(out_of_memory) { constructors_leave_nothing(make, 2, 6); }
END_TEST

int main(void) {
    return run_tests("children", setup, teardown,
                     TESTS(TEST(what_stands_there_is_called), TEST(feed_forward_of_an_mlp),
                           TEST(other_widths), TEST(results_of_another_shape),
                           TEST(a_child_takes_its_place), TEST(set_child_refused),
                           TEST(an_optimiser_of_the_old_parameters), TEST(separate_is_packed),
                           TEST(separate_with_a_cache_and_masks), TEST(separate_names_and_values),
                           TEST(clones), TEST(clones_of_a_part), TEST(a_clones_forward),
                           TEST(out_of_memory)));
}
