/* Rotary positions and key-value caches: a sequence in pieces of any size gives the same outputs as
 * the whole sequence at once. */
#include "tests/support/nn_check.h"

/* A module in evaluation mode with random biases and norms. */
static ct_module *make(ct_mha_opts opts) {
    ct_module *mha = ct_mha_new(context, opts);
    no_error();
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        if (strstr(p.name, "bias") || strstr(p.name, "norm")) ct_init_normal(p.tensor, 0, 0.5);
    ct_module_train(mha, false);
    return mha;
}

static ct_tensor *coin(ct_shape shape) {
    return ct_gt(ct_rand(context, CT_F32, shape), ct_full(context, CT_F32, CT_SCALAR, 0.3));
}

/* ---- rotary positions and norms of heads ---- */

/* first, first + 1, ...: n positions */
static ct_tensor *counted(int64_t first, int64_t n) {
    return ct_arange(context, CT_I64, (double)first, (double)(first + n), 1);
}

/* The module written out in public ops: q and k are normed and rotated head by head, v is
 * not. */
static ct_tensor *written_out(ct_module *mha, ct_mha_opts o, ct_tensor *q, ct_tensor *k,
                              ct_mha_call call) {
    int64_t e = o.embed_dim, kv = o.num_kv_heads ? o.num_kv_heads : o.num_heads,
            w = e / o.num_heads * kv;
    bool packed = kv == o.num_heads;
    ct_tensor *weight = packed ? ct_module_get(mha, "in_proj_weight") : NULL,
              *bias = ct_module_get(mha, "in_proj_bias");
    ct_tensor *wq = packed ? ct_narrow(weight, 0, 0, e) : ct_module_get(mha, "q_proj_weight");
    ct_tensor *wk = packed ? ct_narrow(weight, 0, e, e) : ct_module_get(mha, "k_proj_weight");
    ct_tensor *wv = packed ? ct_narrow(weight, 0, 2 * e, e) : ct_module_get(mha, "v_proj_weight");
    ct_tensor *qq = ct_split_heads(ct_linear(q, wq, ct_narrow(bias, 0, 0, e)), o.num_heads);
    ct_tensor *kk = ct_split_heads(ct_linear(k, wk, ct_narrow(bias, 0, e, w)), kv);
    ct_tensor *vv = ct_split_heads(ct_linear(k, wv, ct_narrow(bias, 0, e + w, w)), kv);
    if (o.qk_norm) {
        qq = ct_rms_norm(qq, ct_module_get(mha, "q_norm.weight"),
                         o.qk_norm_eps ? o.qk_norm_eps : 1e-5);
        kk = ct_rms_norm(kk, ct_module_get(mha, "k_norm.weight"),
                         o.qk_norm_eps ? o.qk_norm_eps : 1e-5);
    }
    if (o.rope) {
        qq = ct_rope(qq, counted(call.rope_offset, ct_dim(qq, 2)), o.rotary);
        kk = ct_rope(kk, counted(call.rope_offset, ct_dim(kk, 2)), o.rotary);
    }
    ct_tensor *y =
        ct_attention(qq, kk, vv, (ct_attention_opts){.mask = call.mask, .causal = call.causal}).out;
    return ct_forward(ct_module_child(mha, "out_proj"), ct_combine_heads(y));
}

START_TEST(rope_and_norms_are_their_ops) {
    ct_mha_opts all[] = {{.rope = true},
                         {.rope = true, .rotary = {.base = 500, .interleaved = true}},
                         {.qk_norm = true},
                         {.rope = true, .qk_norm = true, .qk_norm_eps = 0.5, .num_kv_heads = 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ct_mha_opts o = all[i];
        o.embed_dim = 16, o.num_heads = 4, o.dtype = CT_F64;
        ct_module *mha = make(o);
        ct_tensor *q = randn(CT_SHAPE(2, 5, 16)), *k = randn(CT_SHAPE(2, 7, 16));
        ct_mha_call call = {.causal = true, .rope_offset = 3};
        ct_tensor *self = ct_mha_forward(mha, q, NULL, NULL, call).out,
                  *cross = ct_mha_forward(mha, q, k, k, call).out;
        ck_assert_double_lt(distance(self, written_out(mha, o, q, q, call)), 1e-13);
        ck_assert_double_lt(distance(cross, written_out(mha, o, q, k, call)), 1e-13);
        ck_assert(ct_backward(ct_sum(ct_mul(self, randn(CT_SHAPE(2, 5, 16))), CT_ALL, false)));
        for (ct_param p = {0}; ct_module_next(mha, &p);)
            ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
        /* scores depend only on differences of positions */
        ct_tensor *far =
            ct_mha_forward(mha, q, NULL, NULL, (ct_mha_call){.causal = true, .rope_offset = 1000})
                .out;
        ck_assert_double_lt(distance(self, far), 1e-11);
        /* with rope the order of tokens matters, without it does not */
        ct_tensor *back[5];
        for (int64_t j = 0; j < 5; j++) back[j] = ct_select(q, 1, 4 - j);
        ct_tensor *reversed = ct_forward(mha, ct_stack(back, 5, 1)), *straight = ct_forward(mha, q);
        double off = distance(ct_select(reversed, 1, 4), ct_select(straight, 1, 0));
        if (o.rope) ck_assert_double_gt(off, 1e-6);
        else ck_assert_double_lt(off, 1e-13);
    }
}
END_TEST

START_TEST(rope_is_checked) {
    int64_t before = ct_memory(context).live;
    ct_mha_opts odd = {.embed_dim = 12, .num_heads = 4, .rope = true};
    ck_refused(ct_mha_new(context, odd), CT_ERR_ARGUMENT, "embed_dim 12, num_heads 4", "odd");
    odd.num_heads = 3, odd.rotary.base = -1;
    ck_refused(ct_mha_new(context, odd), CT_ERR_ARGUMENT, "rotary.base", "-1");
    odd.rotary.base = 0, odd.qk_norm_eps = NAN;
    ck_refused(ct_mha_new(context, odd), CT_ERR_ARGUMENT, "qk_norm_eps", "nan");
    ck_assert_int_eq(ct_memory(context).live, before);
    ct_module *mha =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 12, .num_heads = 3, .rope = true});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(1, 2, 12));
    ck_refused(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.rope_offset = INT64_MAX}).out,
               CT_ERR_ARGUMENT, "rope_offset", "");
}
END_TEST

/* ---- cache ---- */

enum { B = 2, N = 9 };

/* Runs the sequence in pieces of that size, then truncates to the middle and runs the rest again.
 * masks: none; a float mask and a key mask; a bool mask for each head. */
static void cached(ct_mha_opts opts, int64_t piece, int masks, bool weights) {
    ct_module *mha = make(opts);
    ct_kv_cache *cache = ct_kv_cache_new(mha, B, N);
    ct_tensor *x = randn(CT_SHAPE(B, N, opts.embed_dim)),
              *real = masks == 1 ? coin(CT_SHAPE(B, N)) : NULL;
    ct_tensor *mask = masks == 1   ? randn(CT_SHAPE(N, N))
                      : masks == 2 ? coin(CT_SHAPE(B, opts.num_heads, N, N))
                                   : NULL;
    ct_mha_call call = {.causal = true,
                        .key_mask = real,
                        .mask = mask,
                        .need_weights = weights,
                        .per_head = true,
                        .rope_offset = 5};
    ct_mha_out whole = ct_mha_forward(mha, x, NULL, NULL, call);
    const int64_t extra = opts.add_bias_kv + opts.add_zero_attn;
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int64_t again = 0; again < 2; again++) {
        for (int64_t at = ct_kv_cache_length(cache); at < N; at += piece) {
            ck_assert_int_eq(ct_kv_cache_length(cache), at);
            int64_t t = piece < N - at ? piece : N - at;
            if (real) call.key_mask = ct_narrow(real, 1, 0, at + t);
            if (mask) call.mask = ct_narrow(ct_narrow(mask, -2, at, t), -1, 0, at + t);
            call.cache = cache;
            ct_mha_out y = ct_mha_forward(mha, ct_narrow(x, 1, at, t), NULL, NULL, call);
            ck_assert_double_lt(distance(y.out, ct_narrow(whole.out, 1, at, t)), 1e-12);
            if (!weights) continue;
            ct_tensor *rows = ct_narrow(whole.weights, 2, at, t),
                      *parts[] = {ct_narrow(rows, 3, 0, at + t), ct_narrow(rows, 3, N, extra)};
            ck_assert_double_lt(distance(y.weights, ct_cat(parts, 2, 3)), 1e-12);
        }
        ck_refused(
            ct_mha_forward(mha, ct_narrow(x, 1, 0, 1), NULL, NULL, (ct_mha_call){.cache = cache})
                .out,
            CT_ERR_SHAPE, "the cache has room for 9 positions and holds 9; 1 more do not fit", "");
        ck_assert(ct_kv_cache_truncate(cache, 4));
    }
    ct_scope_close(scope);
    ct_kv_cache_free(cache);
}

START_TEST(a_cache_changes_nothing) {
    ct_mha_opts all[] = {
        {.num_heads = 2},
        {.num_heads = 4, .num_kv_heads = 2},
        {.num_heads = 4, .num_kv_heads = 1, .rope = true},
        {.num_heads = 2, .rope = true, .rotary.interleaved = true, .qk_norm = true},
        {.num_heads = 2, .add_bias_kv = true},
        {.num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .rope = true},
        {.num_heads = 4,
         .num_kv_heads = 2,
         .rope = true,
         .qk_norm = true,
         .add_bias_kv = true,
         .add_zero_attn = true},
        {.num_heads = 2, .no_bias = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int64_t piece = 1; piece <= N; piece += 2)
            for (int which = 0; which < 6; which++) {
                all[i].embed_dim = 8, all[i].dtype = CT_F64;
                cached(all[i], piece, which / 2, which % 2);
            }
}
END_TEST

START_TEST(caches_are_checked) {
    ct_mha_opts opts = {.embed_dim = 8, .num_heads = 2, .dtype = CT_F64};
    ct_module *mha = make(opts), *other = make(opts);
    ct_kv_cache *cache = ct_kv_cache_new(mha, 2, 4);
    ct_mha_call call = {.cache = cache};
    ct_tensor *x = randn(CT_SHAPE(2, 3, 8));
    ck_refused(ct_mha_forward(other, x, NULL, NULL, call).out, CT_ERR_ARGUMENT, "cache",
               "another module");
    ct_kv_cache *theirs = ct_kv_cache_new(other, 2, 4);
    ck_refused(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.cache = theirs}).out,
               CT_ERR_ARGUMENT, "cache", "another module");
    ct_kv_cache_free(theirs);
    ck_refused(ct_mha_forward(mha, randn(CT_SHAPE(1, 3, 8)), NULL, NULL, call).out, CT_ERR_SHAPE,
               "(1, 3, 8)", "batch of 2");
    /* a failed call leaves the cache as it was */
    call.mask = ct_ones(context, CT_BOOL, CT_SHAPE(3, 5));
    ck_refused(ct_mha_forward(mha, x, NULL, NULL, call).out, CT_ERR_SHAPE, "(3, 5)", "(3, 3)");
    call.mask = NULL;
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    ck_assert_double_eq(distance(ct_mha_forward(mha, x, NULL, NULL, call).out, ct_forward(mha, x)),
                        0);
    ck_refused(ct_mha_forward(mha, x, NULL, NULL, call).out, CT_ERR_SHAPE,
               "the cache has room for 4 positions and holds 3; 3 more do not fit", "");
    call.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(2, 1)); /* over all keys, not the new ones */
    ck_refused(ct_mha_forward(mha, ct_narrow(x, 1, 0, 1), NULL, NULL, call).out, CT_ERR_SHAPE,
               "the key mask is (2, 1)", "(2, 4)");
    ck_refused(ct_kv_cache_truncate(cache, 4), CT_ERR_ARGUMENT, "a length of 4 from one of 3", "");
    ck_refused(ct_kv_cache_truncate(cache, -1), CT_ERR_ARGUMENT, "-1", "");
    ck_assert_int_eq(ct_kv_cache_length(cache), 3);
    ck_assert(ct_kv_cache_truncate(cache, ct_kv_cache_length(cache))); /* all of it stays */
    ck_assert(!ct_kv_cache_truncate(NULL, 0));
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert(!ct_kv_cache_truncate(cache, 0)); /* while an error is pending nothing changes */
    expect(CT_ERR_IO, "pending", "");
    ck_assert_int_eq(ct_kv_cache_length(cache), 3);
    ck_assert(ct_kv_cache_truncate(cache, 0));
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    ck_refused(
        ct_kv_cache_new(
            ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2}), 1, 4),
        CT_ERR_ARGUMENT, "ct_kv_cache_new: expected a", "Linear");
    ck_refused(ct_kv_cache_new(mha, -1, 4), CT_ERR_ARGUMENT, "a batch of -1 and a length of 4", "");
    ck_refused(ct_kv_cache_new(mha, 1, -1), CT_ERR_ARGUMENT, "a batch of 1 and a length of -1", "");
    ct_kv_cache_free(ct_kv_cache_new(mha, 0, 0)); /* sizes of 0 are allowed */
    no_error();
    ct_module *bias = make((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .add_bias_kv = true});
    ck_refused(ct_kv_cache_new(bias, 1, INT64_MAX), CT_ERR_MEMORY, "overflow", "");
    ck_assert_ptr_null(ct_kv_cache_new(mha, 1, INT64_MAX / 2));
    ck_assert_int_eq(ct_error(context), CT_ERR_MEMORY);
    ct_error_clear(context);
    ct_kv_cache_free(NULL);
    ck_assert_int_eq(ct_kv_cache_length(NULL), 0);
}
END_TEST

/* A new module at the address of a freed one does not accept its caches; everything is freed, in
 * any order. */
START_TEST(a_cache_may_outlive_its_module) {
    int64_t before = ct_memory(context).live;
    ct_mha_opts opts = {.embed_dim = 8, .num_heads = 2, .dtype = CT_F64};
    ct_module *mha = make(opts);
    ct_kv_cache *cache[3];
    for (int i = 0; i < 3; i++) cache[i] = ct_kv_cache_new(mha, 1, 4);
    ct_kv_cache_free(ct_kv_cache_new(mha, 1, 4));
    ct_kv_cache *oldest = cache[0];
    cache[0] = ct_kv_cache_new(mha, 1, 4);
    ct_kv_cache_free(cache[1]);
    ct_kv_cache_free(oldest);
    ct_module_free(mha);
    mha = make(opts);
    ct_tensor *x = randn(CT_SHAPE(1, 2, 8));
    for (int i = 0; i < 3; i += 2) {
        ck_refused(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.cache = cache[i]}).out,
                   CT_ERR_ARGUMENT, "another module", "");
        ct_kv_cache_free(cache[i]);
    }
    ct_module_free(mha);
    ct_release(x);
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

typedef struct {
    ct_context *c;
    ct_module *layer;
    ct_mha_call call;
    ct_tensor *x, *y;
} cached_forward;

static bool forward_seven(void *arg) {
    cached_forward *f = arg;
    f->y = ct_encoder_layer_forward(f->layer, ct_narrow(f->x, 1, 5, 7), f->call).out;
    return f->y != NULL;
}
static void check_length(const fault_end *end, void *arg) {
    const cached_forward *f = arg;
    FAULT_CK(end, ct_kv_cache_length(f->call.cache) == (end->done ? 12 : 5));
}

/* Whichever request for memory fails, the cache keeps its length and the next forward is right. */
START_TEST(a_failed_forward_leaves_the_cache) {
    ct_context *c = refusing_context();
    ct_module *layer = ct_encoder_layer_new(
        c, (ct_layer_opts){.embed_dim = 96, .num_heads = 2, .dtype = CT_F64, .attn.rope = true});
    ct_kv_cache *cache = ct_kv_cache_new(ct_module_child(layer, "self_attn"), 1, 12);
    ct_tensor *x = ct_randn(c, CT_F64, CT_SHAPE(1, 12, 96)),
              *whole = ct_encoder_layer_forward(layer, x, (ct_mha_call){.causal = true}).out;
    cached_forward f = {c, layer, {.causal = true, .cache = cache}, x, NULL};
    ck_assert_ptr_nonnull(ct_encoder_layer_forward(layer, ct_narrow(x, 1, 0, 5), f.call).out);
    memory_sweep((fault_case){.name = "a forward with a cache",
                              .context = &f.c,
                              .arg = &f,
                              .run = forward_seven,
                              .end = check_length,
                              .grows = true,
                              .least = 5,
                              .most = 100});
    ck_assert_double_lt(
        ct_item(ct_max(ct_abs(ct_sub(f.y, ct_narrow(whole, 1, 5, 7))), CT_ALL, false)), 1e-12);
    ct_kv_cache_free(cache);
    ct_context_free(c);
}
END_TEST

START_TEST(causality_without_a_cache_needs_no_mask) {
    enum { T = 1500 };
    ct_module *mha = make((ct_mha_opts){.embed_dim = 4, .num_heads = 1, .rope = true});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(1, T, 4));
    ct_scope scope = ct_scope_open_no_grad(context);
    const int64_t live = ct_memory(context).live;
    ct_memory_reset_peak(context);
    ck_assert_ptr_nonnull(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.causal = true}).out);
    ck_assert_int_lt(ct_memory(context).peak - live, T * T / 2);
    ct_scope_close(scope);
}
END_TEST

int main(void) {
    return run_tests("cache", setup, teardown,
                     TESTS(TEST(rope_and_norms_are_their_ops), TEST(rope_is_checked),
                           TEST(a_cache_changes_nothing), TEST(caches_are_checked),
                           TEST(a_cache_may_outlive_its_module),
                           TEST(a_failed_forward_leaves_the_cache),
                           TEST(causality_without_a_cache_needs_no_mask)));
}
