/* A caller's modules inside built-in layers. While the layers run, the modules free and replace
 * other modules, and return tensors of other owners. Some layers have lost children that the caller
 * has freed. */
#include "tests/support/nn_check.h"

static const ct_layer_opts opts = {.embed_dim = 6, .num_heads = 3, .hidden = 10, .dtype = CT_F64};

static ct_module *root;    /* the module that is run */
static ct_tensor *lasting; /* a tensor of the caller's */

static ct_module *own(ct_tensor *(*forward)(void *self, ct_tensor *x)) {
    ct_module *module = ct_module_new(context, "Own");
    return ct_module_set_forward(module, forward, module);
}

static void put(const char *path, ct_module *child) {
    ct_module *old = ct_module_set_child(root, path, child);
    ck_assert_ptr_nonnull(old);
    ct_module_free(old);
}

static ct_tensor *input(void) { return randn(CT_SHAPE(2, 5, 6)); }

/* ---- freed while running ---- */

static ct_tensor *free_self(void *self, ct_tensor *x) {
    ct_module_free(self);
    return ct_matmul(x, ct_ones(context, CT_F64, CT_SHAPE(77, 3)));
}
static ct_tensor *free_root(void *self, ct_tensor *x) {
    (void)self;
    ct_module_free(root);
    return ct_scale(x, 1);
}
static ct_tensor *leave_and_free(void *self, ct_tensor *x) {
    ct_linear_opts linear = {.in_features = 6, .out_features = 10, .dtype = CT_F64};
    ck_assert_ptr_eq(ct_module_set_child(root, "layers.0.linear1", ct_linear_new(context, linear)),
                     self);
    ct_module_free(self);
    return x;
}
static ct_tensor *free_own_child(void *self, ct_tensor *x) {
    ct_tensor *y = ct_forward(ct_module_child(self, "base"), x);
    ct_module_free(ct_module_child(self, "base"));
    return y;
}

START_TEST(a_running_module_stays) {
    ct_module *alone = own(free_self);
    ck_refused(ct_forward(alone, input()), CT_ERR_ARGUMENT, "ct_module_free", "the Own is running");
    ct_module_free(alone);
    root = ct_encoder_new(context, opts, 2, true);
    put("layers.0.linear1", own(free_root));
    ck_refused(ct_forward(root, input()), CT_ERR_ARGUMENT, "layers.0.linear1: ct_module_free",
               "TransformerEncoder is running");
    put("layers.0.linear1", own(leave_and_free));
    ck_refused(ct_forward(root, input()), CT_ERR_ARGUMENT, "ct_module_free", "the Own is running");
    ck_assert_ptr_nonnull(ct_forward(root, input())); /* it was replaced */

    ct_module *once = own(free_own_child); /* a module that is not running may be freed */
    ct_module_add_child(once, "base", ct_dropout_new(context, 0));
    ck_assert_ptr_nonnull(ct_forward(once, input()));
    no_error();
}
END_TEST

/* ---- replaced while running ---- */

static ct_tensor *replace_layer(void *self, ct_tensor *x) {
    (void)self;
    ck_assert_ptr_nonnull(
        ct_module_set_child(root, "layers.0", ct_encoder_layer_new(context, opts)));
    return ct_scale(x, 1);
}
static int runs;
static ct_tensor *count_runs(void *self, ct_tensor *x) {
    (void)self;
    runs++;
    return ct_scale(x, 1);
}

START_TEST(a_layer_replaced_by_its_own_child) {
    root = ct_encoder_new(context, opts, 3, false);
    put("layers.0.norm1", own(replace_layer));
    put("layers.1.norm1", own(count_runs));
    put("layers.2.norm1", own(count_runs));
    runs = 0;
    ck_assert_ptr_nonnull(ct_forward(root, input()));
    ck_assert_int_eq(runs, 2); /* the later layers run too */
}
END_TEST

static ct_tensor *free_last(void *self, ct_tensor *x) {
    (void)self;
    ct_module_free(ct_module_child(root, "layers.2"));
    return ct_scale(x, 1);
}

START_TEST(a_layer_freed_before_its_turn) {
    root = ct_encoder_new(context, opts, 3, false);
    put("layers.0.norm1", own(free_last));
    ct_tensor *weights[3] = {lasting, lasting, (ct_tensor *)weights}; /* none of them is read */
    ck_assert_ptr_nonnull(
        ct_encoder_forward(root, input(), (ct_stack_call){.self_weights = weights}));
    ck_assert_double_gt(largest(weights[1]), 0);
    ck_assert_ptr_null(weights[2]);
}
END_TEST

/* ---- tensors of the caller ---- */

static ct_tensor *return_lasting(void *self, ct_tensor *x) {
    (void)self, (void)x;
    return lasting;
}

START_TEST(tensors_of_the_caller_stay) {
    lasting = input();
    root = ct_encoder_new(context, opts, 2, true);
    put("layers.0.norm2", own(return_lasting));
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(ct_forward(root, input()));
        ck_assert_double_gt(largest(lasting), 0);
    }
    root = ct_transformer_new(context, (ct_transformer_opts){opts, 1, 1});
    put("encoder.norm", own(return_lasting));
    ct_tensor *weights[3];
    ct_stack_call encoder = {.self_weights = weights},
                  decoder = {.self_weights = weights + 1, .cross_weights = weights + 2};
    for (int i = 0; i < 2; i++) {
        ct_tensor *y = ct_transformer_forward(root, input(), input(), encoder, decoder);
        ck_assert_ptr_nonnull(y);
        ck_assert_double_gt(largest(lasting), 0);
        for (int w = 0; w < 3; w++) ck_assert_double_gt(largest(weights[w]), 0);
    }
}
END_TEST

/* ---- children that a layer needs ---- */

START_TEST(a_stack_has_a_list) {
    ct_linear_opts linear = {.in_features = 6, .out_features = 6, .dtype = CT_F64};
    ct_kv_cache *cache;
    root = ct_encoder_new(context, opts, 2, false);
    put("layers", ct_linear_new(context, linear));
    ck_refused(ct_forward(root, input()), CT_ERR_ARGUMENT, "TransformerEncoder",
               "layers is a Linear, not a list");
    ck_refused(ct_kv_caches_new(root, 1, 4, &cache, 0), CT_ERR_ARGUMENT, "TransformerEncoder",
               "layers is a Linear, not a list");
    ct_module_free(ct_module_child(root, "layers"));
    ck_refused(ct_forward(root, input()), CT_ERR_ARGUMENT, "no child", "layers");
}
END_TEST

START_TEST(a_feed_forward_has_its_end) {
    root = ct_mlp_new(context, (ct_mlp_opts){.dim = 6, .dtype = CT_F64});
    ct_module_free(ct_module_child(root, "proj"));
    ck_refused(ct_forward(root, input()), CT_ERR_ARGUMENT, "MLP", "no child \"proj\"");
}
END_TEST

/* With dropout there is a sum where without there is one op, which would broadcast. */
START_TEST(a_narrow_feed_forward_with_dropout) {
    ct_linear_opts narrow = {.in_features = 10, .out_features = 1, .dtype = CT_F64};
    ct_layer_opts o = opts;
    o.dropout = 0.1;
    root = ct_encoder_layer_new(context, o);
    put("linear2", ct_linear_new(context, narrow));
    for (int training = 0; training < 2; training++) {
        ct_module_train(root, training);
        ck_refused(ct_forward(root, input()), CT_ERR_SHAPE, "(2, 5, 1)", "");
    }
}
END_TEST

/* ---- dtypes ---- */

static ct_tensor *to_f32(void *self, ct_tensor *x) {
    (void)self;
    return ct_cast(x, CT_F32);
}

/* A cache does not convert in silence what is an error without one. */
START_TEST(projections_of_another_dtype) {
    root = ct_mha_new(
        context, (ct_mha_opts){.embed_dim = 6, .num_heads = 3, .separate = true, .dtype = CT_F64});
    put("k_proj", own(to_f32));
    put("v_proj", own(to_f32));
    ck_refused(ct_forward(root, input()), CT_ERR_DTYPE, "q f64", "k f32");
    ct_kv_cache *cache = ct_kv_cache_new(root, 2, 8);
    ct_mha_call call = {.cache = cache};
    ck_refused(ct_mha_forward(root, input(), NULL, NULL, call).out, CT_ERR_DTYPE,
               "the cache is f64", "f32");
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    ct_kv_cache_free(cache);
}
END_TEST

static ct_kv_cache *freed;
static ct_tensor *free_cache(void *self, ct_tensor *x) {
    (void)self;
    ct_kv_cache_free(freed);
    return ct_scale(x, 1);
}

START_TEST(a_cache_freed_by_a_projection) {
    for (int cross = 0; cross < 2; cross++) {
        root = ct_mha_new(
            context,
            (ct_mha_opts){.embed_dim = 6, .num_heads = 3, .separate = true, .dtype = CT_F64});
        ct_tensor *x = input(), *k = cross ? input() : NULL;
        freed = ct_kv_cache_new(root, 2, 8);
        ct_mha_call call = {.cache = freed};
        if (cross) ck_assert_ptr_nonnull(ct_mha_forward(root, x, k, k, call).out);
        put("q_proj", own(free_cache));
        ck_refused(ct_mha_forward(root, x, k, k, call).out, CT_ERR_ARGUMENT,
                   "MultiheadAttention: the cache", "was freed");
    }
}
END_TEST

/* ---- a walk while the tree changes ---- */

/* Puts another child where the owner of the first parameter with that name stands. */
static bool next_after_replacing(bool wraps, bool frees) {
    ct_linear_opts linear = {.in_features = 6, .out_features = 10, .dtype = CT_F64};
    root = ct_encoder_new(context, opts, 2, false);
    ct_param p = {0};
    while (ct_module_next(root, &p) && strcmp(p.name, "layers.0.linear1.weight")) {}
    ct_module *fresh = wraps ? ct_module_new(context, "Wrapper") : ct_linear_new(context, linear);
    ct_module *old = ct_module_set_child(root, "layers.0.linear1", fresh);
    ck_assert_ptr_eq(old, p.owner);
    if (wraps) ct_module_add_child(fresh, "base", old);
    if (frees) ct_module_free(old);
    const bool goes_on = ct_module_next(root, &p);
    if (goes_on) ck_assert_str_eq(p.name, "layers.0.linear1.base.bias");
    return goes_on;
}

START_TEST(a_walk_while_the_tree_changes) {
    ck_assert(next_after_replacing(true, false)); /* still in the tree, further down */
    ck_refused(next_after_replacing(false, false), CT_ERR_ARGUMENT, "ct_module_next: the Linear",
               "left the tree");
    ck_refused(next_after_replacing(false, true), CT_ERR_ARGUMENT, "ct_module_next", "was freed");
    root = ct_module_new(context, "Net");
    ct_module *child = ct_module_add_child(root, "child", ct_module_new(context, "Child"));
    ct_module_add_buffer(child, "b", ct_ones(context, CT_F32, CT_SHAPE(1)), true);
    ct_param p = {0};
    ck_assert(ct_module_next_buffer(root, &p));
    ct_module_free(child);
    ck_refused(ct_module_next_buffer(root, &p), CT_ERR_ARGUMENT, "ct_module_next_buffer",
               "was freed");
}
END_TEST

/* ---- clones ---- */

/* One tensor may be a buffer of one module and a parameter of another. */
START_TEST(clones_of_a_buffer_that_is_a_parameter) {
    for (int trained = 0; trained < 2; trained++) {
        ct_tensor *t = ct_ones(context, CT_F32, CT_SHAPE(2));
        root = ct_module_new(context, "Net");
        ct_module *first = ct_module_add_child(root, "first", ct_module_new(context, "First")),
                  *then = ct_module_add_child(root, "then", ct_module_new(context, "Then"));
        ct_module_add_buffer(first, "t", t, true);
        ct_module_add_param(then, "t", t);
        ct_set_requires_grad(t, trained);
        ct_module *clone = ct_module_clone(root);
        no_error();
        ct_tensor *copy = ct_module_get(clone, "first.t");
        ck_assert_ptr_nonnull(copy);
        ck_assert_ptr_ne(copy, t);
        ck_assert_ptr_eq(copy, ct_module_get(clone, "then.t"));
        ck_assert_int_eq(ct_requires_grad(copy), trained);
        ct_module *same = ct_module_new(context, "Same"); /* in one module, the parameter first */
        ct_module_add_buffer(same, "buffer", ct_ones(context, CT_F32, CT_SHAPE(2)), true);
        ct_tensor *both = ct_module_get(same, "buffer");
        ct_module_add_param(same, "param", both);
        ct_set_requires_grad(both, trained);
        clone = ct_module_clone(same);
        no_error();
        ck_assert_ptr_eq(ct_module_get(clone, "buffer"), ct_module_get(clone, "param"));
        ck_assert_int_eq(ct_requires_grad(ct_module_get(clone, "param")), trained);
    }
}
END_TEST

int main(void) {
    return run_tests("own_children", setup, teardown,
                     TESTS(TEST(a_running_module_stays), TEST(a_layer_replaced_by_its_own_child),
                           TEST(a_layer_freed_before_its_turn), TEST(tensors_of_the_caller_stay),
                           TEST(a_stack_has_a_list), TEST(a_feed_forward_has_its_end),
                           TEST(a_narrow_feed_forward_with_dropout),
                           TEST(projections_of_another_dtype), TEST(a_cache_freed_by_a_projection),
                           TEST(a_walk_while_the_tree_changes),
                           TEST(clones_of_a_buffer_that_is_a_parameter)));
}
