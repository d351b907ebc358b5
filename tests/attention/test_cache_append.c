/* ct_kv_cache_new_of and ct_kv_cache_append: attention of one's own with a cache. */
#include "tests/support/nn_check.h"

enum { B = 2, N = 11, E = 12, H = 6, KV = 3, D = E / H };

/* ---- the attention of a module, written out, with a cache ---- */

typedef struct {
    ct_tensor *weight[3], *bias[3]; /* parameters of the projections to q, k, v */
    ct_module *out;
} own;

static own own_of(ct_module *mha) {
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    own a = {.out = ct_module_child(mha, "out_proj")};
    ct_tensor *bias = ct_module_get(mha, "in_proj_bias");
    for (int i = 0; i < 3; i++) {
        a.weight[i] = ct_module_get(mha, names[i]);
        a.bias[i] = ct_narrow(bias, 0, i ? E + (i - 1) * KV * D : 0, i ? KV * D : E);
    }
    return a;
}

static ct_tensor *own_forward(own *a, ct_kv_cache *cache, ct_tensor *x) {
    const int64_t before = ct_kv_cache_length(cache), t = ct_dim(x, 1);
    ct_tensor *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = ct_split_heads(ct_linear(x, a->weight[i], a->bias[i]), i ? KV : H);
    ct_tensor *positions = ct_arange(context, CT_I64, (double)before, (double)(before + t), 1);
    part[0] = ct_rope(part[0], positions, (ct_rope_opts){0});
    part[1] = ct_rope(part[1], positions, (ct_rope_opts){0});
    if (!ct_kv_cache_append(cache, &part[1], &part[2])) return NULL;
    ct_tensor *mask = ct_narrow(ct_causal_mask(context, before + t, before + t), 0, before, t);
    ct_tensor *y =
        ct_attention(part[0], part[1], part[2], (ct_attention_opts){.mask = t > 1 ? mask : NULL})
            .out;
    return ct_forward(a->out, ct_combine_heads(y));
}

static ct_module *make(ct_mha_opts opts) {
    ct_module *mha = ct_mha_new(context, opts);
    no_error();
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        if (strstr(p.name, "bias")) ct_init_normal(p.tensor, 0, 0.5);
    return mha;
}
static const ct_mha_opts grouped = {
    .embed_dim = E, .num_heads = H, .num_kv_heads = KV, .rope = true, .dtype = CT_F64};

START_TEST(own_attention_is_that_of_a_module) {
    ct_module *mha = make(grouped);
    own a = own_of(mha);
    ct_tensor *x = randn(CT_SHAPE(B, N, E)),
              *whole = ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.causal = true}).out;
    for (int64_t piece = 1; piece <= N; piece += 2)
        for (int of_module = 0; of_module < 2; of_module++) {
            ct_kv_cache *cache = of_module ? ct_kv_cache_new(mha, B, N)
                                           : ct_kv_cache_new_of(context, CT_F64, B, KV, N, D);
            ck_assert_ptr_nonnull(cache);
            for (int again = 0; again < 2; again++) { /* then from the middle */
                for (int64_t at = ct_kv_cache_length(cache); at < N; at += piece) {
                    const int64_t t = piece < N - at ? piece : N - at;
                    ct_tensor *now = ct_narrow(x, 1, at, t), *y;
                    if (of_module && at % 2) /* the module's own forward in between */
                        y = ct_mha_forward(mha, now, NULL, NULL,
                                           (ct_mha_call){.causal = true, .cache = cache})
                                .out;
                    else y = own_forward(&a, cache, now);
                    ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, t)), 1e-12);
                    ck_assert_int_eq(ct_kv_cache_length(cache), at + t);
                }
                ck_assert(ct_kv_cache_truncate(cache, 4));
            }
            ct_kv_cache_free(cache);
        }
}
END_TEST

/* ---- values ---- */

/* All so far, of any layout of the new ones, and none of a later one. */
START_TEST(all_so_far) {
    static const int64_t pieces[] = {1, 0, 3, 2, 1};
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
        for (int layout = 0; layout < 3; layout++) {
            ct_kv_cache *cache = ct_kv_cache_new_of(context, (ct_dtype)dtype, 2, 3, 7, 5);
            double want[2][2][3][7][5];
            int64_t at = 0, value = 0;
            for (int p = 0; p < 5; p++) {
                const int64_t t = pieces[p];
                ct_tensor *all[2];
                for (int kv = 0; kv < 2; kv++) {
                    ct_tensor *x =
                        layout == 0 ? ct_empty(context, (ct_dtype)dtype, CT_SHAPE(2, 3, t, 5))
                        : layout == 1
                            ? ct_split_heads(ct_empty(context, (ct_dtype)dtype, CT_SHAPE(2, t, 15)),
                                             3)
                            : ct_narrow(ct_empty(context, (ct_dtype)dtype, CT_SHAPE(2, 3, t, 9)), 3,
                                        2, 5);
                    double now[2][3][3][5];
                    for (int64_t i = 0; i < 2 * 3 * t * 5; i++)
                        ((double *)now)[i] = (double)value++;
                    ck_assert(
                        ct_copy_into(x, ct_from_f64(context, CT_SHAPE(2, 3, t, 5), (double *)now)));
                    for (int64_t i = 0; i < 2 * 3 * t * 5; i++)
                        want[kv][i / (15 * t)][i / (5 * t) % 3][at + i / 5 % t][i % 5] =
                            ((double *)now)[i];
                    all[kv] = x;
                }
                ck_assert(ct_kv_cache_append(cache, &all[0], &all[1]));
                at += t;
                for (int kv = 0; kv < 2; kv++) {
                    double *got = values(all[kv]);
                    ck_assert_int_eq(ct_dim(all[kv], 2), at);
                    for (int64_t i = 0; i < 2 * 3 * at * 5; i++)
                        ck_assert(got[i] ==
                                  want[kv][i / (15 * at)][i / (5 * at) % 3][i / 5 % at][i % 5]);
                    free(got);
                }
            }
            ct_kv_cache_free(cache);
        }
}
END_TEST

/* The oldest position leaves: the appended tensors are views of the cache. */
START_TEST(a_window_that_slides) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, 1, 1, 4, 1);
    for (int i = 0; i < 9; i++) {
        ct_tensor *k = ct_full(context, CT_F32, CT_SHAPE(1, 1, 1, 1), i), *v = ct_scale(k, 10);
        ck_assert(ct_kv_cache_append(cache, &k, &v));
        const int64_t n = ct_kv_cache_length(cache);
        for (int64_t j = 0; j < n; j++) {
            ck_assert(ct_item(ct_select(k, 2, j)) == (double)(i - n + 1 + j));
            ck_assert(ct_item(ct_select(v, 2, j)) == 10 * (double)(i - n + 1 + j));
        }
        if (n < 4) continue;
        k = ct_narrow(k, 2, 1, 3), v = ct_narrow(v, 2, 1, 3);
        ck_assert(ct_kv_cache_truncate(cache, 0) && ct_kv_cache_append(cache, &k, &v));
    }
    ct_kv_cache_free(cache);
}
END_TEST

/* Views outlive the cache and belong to the caller's scope; no gradient flows through it. */
START_TEST(who_owns_them) {
    const int64_t before = live();
    ct_scope outer = ct_scope_open(context);
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F64, 1, 1, 3, 2);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *k = ct_set_requires_grad(ct_full(context, CT_F64, CT_SHAPE(1, 1, 1, 2), 3), true),
              *v = k, *new = k;
    ck_assert(ct_kv_cache_append(cache, &k, &v));
    ck_assert(k != new &&v != new &&k != v && !ct_requires_grad(k) && !ct_requires_grad(v));
    ct_scope_keep(scope, k);
    ct_scope_close(scope);
    ct_kv_cache_free(cache);
    ck_assert(ct_item(ct_sum(k, CT_ALL, false)) == 6);
    ck_refused(ct_neg(v), CT_ERR_ARGUMENT, "neg", "has ended");
    ct_scope_close(outer);
    ck_assert_int_eq(live(), before);
}
END_TEST

/* An append counts as a write, so backward of an op that has saved the earlier keys fails. */
START_TEST(appending_counts_a_write) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F64, 1, 1, 3, 2);
    ct_tensor *q = ct_set_requires_grad(randn(CT_SHAPE(1, 1, 1, 2)), true), *y[2];
    for (int i = 0; i < 2; i++) {
        ct_tensor *k = randn(CT_SHAPE(1, 1, 1, 2)), *v = randn(CT_SHAPE(1, 1, 1, 2));
        ck_assert(ct_kv_cache_append(cache, &k, &v));
        y[i] = ct_sum(ct_attention(q, k, v, (ct_attention_opts){0}).out, CT_ALL, false);
    }
    ck_refused(ct_backward(y[0]), CT_ERR_GRAD, "changed", "");
    ck_assert(ct_backward(y[1]));
    ct_kv_cache_free(cache);
}
END_TEST

/* ---- errors ---- */

static void refuses(ct_kv_cache *cache, ct_tensor *k, ct_tensor *v, ct_status status,
                    const char *message) {
    ct_tensor *const given[2] = {k, v};
    const int64_t length = ct_kv_cache_length(cache);
    ck_refused(ct_kv_cache_append(cache, &k, &v), status, "ct_kv_cache_append: ", message);
    ck_assert(k == given[0] && v == given[1]);
    ck_assert_int_eq(ct_kv_cache_length(cache), length);
}

static ct_tensor *zeros(int64_t b, int64_t h, int64_t t, int64_t d) {
    return ct_zeros(context, CT_F32, CT_SHAPE(b, h, t, d));
}

START_TEST(appends_are_checked) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, 2, 3, 4, 5);
    ct_tensor *x = zeros(2, 3, 2, 5), *gone = zeros(2, 3, 2, 5);
    ct_release(gone);
    refuses(cache, zeros(1, 3, 2, 5), x, CT_ERR_SHAPE,
            "expected key (2, 3, T, 5), got (1, 3, 2, 5)");
    refuses(cache, x, zeros(2, 2, 2, 5), CT_ERR_SHAPE,
            "expected value (2, 3, T, 5), got (2, 2, 2, 5)");
    refuses(cache, x, zeros(2, 3, 2, 1), CT_ERR_SHAPE, "got (2, 3, 2, 1)");
    refuses(cache, ct_select(x, 0, 0), x, CT_ERR_SHAPE, "got (3, 2, 5)");
    refuses(cache, x, zeros(2, 3, 1, 5), CT_ERR_SHAPE, "key (2, 3, 2, 5) with value (2, 3, 1, 5)");
    refuses(cache, zeros(2, 3, 5, 5), zeros(2, 3, 5, 5), CT_ERR_SHAPE,
            "the cache has room for 4 positions and holds 0; 5 more do not fit");
    refuses(cache, x, ct_cast(x, CT_F64), CT_ERR_DTYPE, "value is f64 and the cache f32");
    refuses(cache, ct_cast(x, CT_I64), x, CT_ERR_DTYPE, "key is i64 and the cache f32");
    refuses(cache, NULL, x, CT_ERR_ARGUMENT, "key is NULL");
    refuses(cache, x, NULL, CT_ERR_ARGUMENT, "value is NULL");
    refuses(cache, gone, x, CT_ERR_ARGUMENT, "has ended");
    refuses(cache, x, gone, CT_ERR_ARGUMENT, "has ended");
    refuses(NULL, x, x, CT_ERR_ARGUMENT, "cache is NULL");
    refuses(NULL, NULL, gone, CT_ERR_ARGUMENT, "cache is NULL");
    ck_assert(!ct_kv_cache_append(cache, NULL, &x) && !ct_kv_cache_append(NULL, NULL, NULL));
    expect(CT_ERR_ARGUMENT, "key is NULL", "");
    ct_tensor *k = x, *v = x;
    ck_assert(ct_kv_cache_append(cache, &k, &v));
    refuses(cache, x, k, CT_ERR_ARGUMENT, "value is a view of the cache's keys");
    refuses(cache, zeros(2, 3, 3, 5), zeros(2, 3, 3, 5), CT_ERR_SHAPE,
            "the cache has room for 4 positions and holds 2; 3 more do not fit");
    ct_fail(context, CT_ERR_IO, "pending");
    ck_refused(ct_kv_cache_append(cache, &k, &v), CT_ERR_IO, "pending", "");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *theirs = ct_zeros(other, CT_F32, CT_SHAPE(2, 3, 1, 5));
    refuses(cache, x, theirs, CT_ERR_ARGUMENT, "different contexts");
    expect_in(other, CT_ERR_ARGUMENT, "different contexts", "");
    ct_context_free(other);
    ct_kv_cache_free(cache);
    ck_refused(ct_kv_cache_append(cache, &x, &x), CT_ERR_ARGUMENT,
               "ct_kv_cache_append: the cache has ended: it was freed", "");
}
END_TEST

START_TEST(makers_are_checked) {
    const int64_t before = live();
    const struct {
        ct_dtype dtype;
        int64_t batch, heads, length, dim;
        ct_status status;
        const char *message;
    } wrong[] = {{CT_I64, 1, 1, 1, 1, CT_ERR_DTYPE, "takes f32 or f64, not i64"},
                 {CT_BOOL, 1, 1, 1, 1, CT_ERR_DTYPE, "not bool"},
                 {(ct_dtype)9, 1, 1, 1, 1, CT_ERR_DTYPE, "ct_kv_cache_new_of"},
                 {CT_F32, -1, 1, 3, 1, CT_ERR_ARGUMENT, "a batch of -1 and a length of 3"},
                 {CT_F32, 2, 1, -3, 1, CT_ERR_ARGUMENT, "a batch of 2 and a length of -3"},
                 {CT_F32, 1, 0, 1, 4, CT_ERR_ARGUMENT, "kv_heads 0 and head_dim 4"},
                 {CT_F32, 1, 2, 1, -4, CT_ERR_ARGUMENT, "kv_heads 2 and head_dim -4"},
                 {CT_F32, 1, 1, INT64_MAX, 1, CT_ERR_MEMORY, ""},
                 {CT_F64, 1, INT64_MAX / 3, 3, 9, CT_ERR_MEMORY, ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_refused(ct_kv_cache_new_of(context, wrong[i].dtype, wrong[i].batch, wrong[i].heads,
                                      wrong[i].length, wrong[i].dim),
                   wrong[i].status, wrong[i].message, "");
    }
    ck_assert_ptr_null(ct_kv_cache_new_of(NULL, CT_F32, 1, 1, 1, 1));
    ct_fail(context, CT_ERR_IO, "pending");
    ck_refused(ct_kv_cache_new_of(context, CT_F32, 1, 1, 1, 1), CT_ERR_IO, "pending", "");
    ck_assert_int_eq(live(), before);
    ct_kv_cache *none = ct_kv_cache_new_of(context, CT_F64, 0, 1, 0, 1); /* no element */
    ct_tensor *k = randn(CT_SHAPE(0, 1, 0, 1)), *v = k;
    ck_assert(ct_kv_cache_append(none, &k, &v));
    ck_assert_int_eq(ct_kv_cache_length(none), 0);
    ct_kv_cache_free(none), ct_kv_cache_free(none);
    no_error();
}
END_TEST

START_TEST(caches_of_modules) {
    ct_module *mha = make(grouped);
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F64, B, KV, N, D);
    ct_tensor *x = randn(CT_SHAPE(B, 1, E));
    ck_refused(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.cache = cache}).out,
               CT_ERR_ARGUMENT, "the cache was made for another module, or for none", "");
    ct_kv_cache_free(cache);
    for (int which = 0; which < 2; which++) {
        ct_mha_opts opts = grouped;
        opts.add_bias_kv = which, opts.add_zero_attn = !which;
        cache = ct_kv_cache_new(make(opts), B, N);
        ct_tensor *k = randn(CT_SHAPE(B, KV, 1, D));
        refuses(cache, k, k, CT_ERR_ARGUMENT, "add_bias_kv or add_zero_attn");
        ct_kv_cache_free(cache);
    }
    /* a decoder layer's keys of memory are made anew when a sequence begins with an append */
    ct_layer_opts layer = {.embed_dim = E, .num_heads = H, .hidden = 4, .dtype = CT_F64};
    ct_module *decoder = ct_decoder_layer_new(context, layer);
    cache = ct_kv_cache_new(ct_module_child(decoder, "self_attn"), B, N);
    ct_tensor *y[2], *memory = NULL;
    for (int i = 0; i < 2; i++) {
        ct_tensor *k = ct_ones(context, CT_F64, CT_SHAPE(B, H, 1, D)), *v = k;
        memory = randn(CT_SHAPE(B, 3, E));
        ck_assert(ct_kv_cache_truncate(cache, 0) && ct_kv_cache_append(cache, &k, &v));
        y[i] = ct_decoder_layer_forward(decoder, x, memory, (ct_mha_call){.cache = cache},
                                        (ct_mha_call){0})
                   .out;
    }
    ct_kv_cache *fresh = ct_kv_cache_new(ct_module_child(decoder, "self_attn"), B, N);
    ct_tensor *k = ct_ones(context, CT_F64, CT_SHAPE(B, H, 1, D)), *v = k;
    ck_assert(ct_kv_cache_append(fresh, &k, &v));
    ct_tensor *want = ct_decoder_layer_forward(decoder, x, memory, (ct_mha_call){.cache = fresh},
                                               (ct_mha_call){0})
                          .out;
    ck_assert_double_eq(distance(y[1], want), 0);
    ct_kv_cache_free(cache), ct_kv_cache_free(fresh);
}
END_TEST

/* ---- memory ---- */

enum { LONG = 4000 };

typedef struct {
    ct_context *c;
    ct_kv_cache *cache;
    ct_tensor *k, *v, *given[2];
} appended;

static bool append_long(void *arg) {
    appended *a = arg;
    return ct_kv_cache_append(a->cache, &a->k, &a->v);
}
static void check_append(const fault_end *end, void *arg) {
    const appended *a = arg;
    FAULT_CK(end, ct_kv_cache_length(a->cache) == (end->done ? LONG : 10));
    if (end->done) return;
    FAULT_CK(end, a->k == a->given[0] && a->v == a->given[1]);
    FAULT_CK(end, strstr(end->message, "copy_into"));
}

/* Whichever request for memory fails, the cache and the caller's tensors stay. */
START_TEST(a_failed_append_changes_nothing) {
    ct_context *c = refusing_context();
    ct_kv_cache *cache = ct_kv_cache_new_of(c, CT_F64, 1, 1, LONG, 1);
    ct_tensor *k = ct_arange(c, CT_F64, 0, LONG, 1), *v;
    k = ct_view(k, CT_SHAPE(1, 1, LONG, 1)), v = ct_neg(k);
    ck_assert(ct_kv_cache_append(cache, &k, &v) && ct_kv_cache_truncate(cache, 10));
    k = ct_narrow(k, 2, 5, LONG - 10), v = ct_narrow(v, 2, 5, LONG - 10); /* these overlap */
    appended a = {c, cache, k, v, {k, v}};
    memory_sweep((fault_case){.name = "an append",
                              .context = &a.c,
                              .arg = &a,
                              .run = append_long,
                              .end = check_append,
                              .least = 1,
                              .most = 100});
    ct_kv_cache_free(cache);
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_tests("cache_append", setup, teardown,
                     TESTS(TEST(own_attention_is_that_of_a_module), TEST(all_so_far),
                           TEST(a_window_that_slides), TEST(who_owns_them),
                           TEST(appending_counts_a_write), TEST(appends_are_checked),
                           TEST(makers_are_checked), TEST(caches_of_modules),
                           TEST(a_failed_append_changes_nothing)));
}
