/* Errors of attention: messages have the given and the expected shape, and no memory is left. */
#include "tests/support/nn_check.h"

static ct_module *mha, *grouped;

/* Checks that these options are refused. */
static void no_module(ct_mha_opts opts, ct_status status, const char *word1, const char *word2) {
    const int64_t live = ct_memory(context).live;
    ck_refused(ct_mha_new(context, opts), status, word1, word2);
    ck_assert_int_eq(ct_memory(context).live, live);
}

START_TEST(options) {
    no_module((ct_mha_opts){.embed_dim = 10, .num_heads = 4}, CT_ERR_ARGUMENT, "embed_dim 10",
              "divisible by num_heads 4");
    no_module((ct_mha_opts){.embed_dim = 12, .num_heads = 4, .num_kv_heads = 3}, CT_ERR_ARGUMENT,
              "num_heads 4", "divisible by num_kv_heads 3");
    no_module((ct_mha_opts){.embed_dim = 12, .num_heads = 4, .num_kv_heads = 8}, CT_ERR_ARGUMENT,
              "num_heads 4", "divisible by num_kv_heads 8");
    no_module((ct_mha_opts){.embed_dim = 12, .num_heads = 4, .rope = true}, CT_ERR_ARGUMENT,
              "embed_dim 12, num_heads 4", "odd");
    no_module((ct_mha_opts){.embed_dim = 0, .num_heads = 1}, CT_ERR_ARGUMENT, "embed_dim is 0", "");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = -2}, CT_ERR_ARGUMENT, "num_heads is -2",
              "");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .kdim = -1}, CT_ERR_ARGUMENT,
              "kdim is -1", "");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .dropout = 1.5}, CT_ERR_ARGUMENT,
              "dropout", "1.5");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .out_dropout = NAN}, CT_ERR_ARGUMENT,
              "out_dropout", "nan");
    no_module((ct_mha_opts){.embed_dim = INT64_MAX, .num_heads = 1}, CT_ERR_MEMORY, "overflow", "");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .rotary.base = NAN}, CT_ERR_ARGUMENT,
              "MultiheadAttention: rotary.base", "nan");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .qk_norm_eps = INFINITY},
              CT_ERR_ARGUMENT, "MultiheadAttention: qk_norm_eps", "inf");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .vdim = -1}, CT_ERR_ARGUMENT,
              "vdim is -1", "");
    no_module((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .num_kv_heads = -1}, CT_ERR_ARGUMENT,
              "num_kv_heads is -1", "");
    /* caches outlive the module */
    const int64_t live = ct_memory(context).live;
    ck_refused(ct_decoder_layer_new(context, (ct_layer_opts){.embed_dim = 10, .num_heads = 4}),
               CT_ERR_ARGUMENT, "embed_dim 10", "num_heads 4");
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

static void refused(ct_module *module, ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_mha_call call,
                    ct_status status, const char *word1, const char *word2) {
    for (int weights = 0; weights < 2; weights++) {
        call.need_weights = weights;
        const int64_t live = ct_memory(context).live;
        const ct_mha_out y = ct_mha_forward(module, q, k, v, call);
        ck_assert(!y.out && !y.weights);
        expect(status, word1, word2);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}

static void make(void) {
    mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64});
    grouped = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8,
                                                .num_heads = 4,
                                                .num_kv_heads = 2,
                                                .kdim = 5,
                                                .vdim = 3,
                                                .dtype = CT_F64});
    no_error();
}

START_TEST(inputs) {
    make();
    const ct_mha_call none = {0};
    ct_tensor *q = randn(CT_SHAPE(2, 3, 8)), *k = randn(CT_SHAPE(2, 5, 8)),
              *odd = randn(CT_SHAPE(3, 5, 8)), *f32 = ct_cast(q, CT_F32);
    refused(mha, randn(CT_SHAPE(3, 8)), NULL, NULL, none, CT_ERR_SHAPE, "query (B, T, 8)",
            "got (3, 8)");
    refused(mha, randn(CT_SHAPE(2, 3, 7)), NULL, NULL, none, CT_ERR_SHAPE, "query (B, T, 8)",
            "got (2, 3, 7)");
    refused(mha, randn(CT_SHAPE(2, 3, 8, 1)), NULL, NULL, none, CT_ERR_SHAPE, "query (B, T, 8)",
            "got (2, 3, 8, 1)");
    refused(mha, q, randn(CT_SHAPE(2, 5, 8, 1)), k, none, CT_ERR_SHAPE, "key (2, S, 8)",
            "got (2, 5, 8, 1)");
    refused(mha, q, k, randn(CT_SHAPE(2, 5, 8, 1)), none, CT_ERR_SHAPE, "value (2, 5, 8)",
            "got (2, 5, 8, 1)");
    refused(mha, q, k, randn(CT_SHAPE(2, 6, 8)), none, CT_ERR_SHAPE, "value (2, 5, 8)",
            "got (2, 6, 8)");
    refused(mha, q, k, odd, none, CT_ERR_SHAPE, "value (2, 5, 8)", "got (3, 5, 8)");
    refused(mha, q, randn(CT_SHAPE(1, 5, 8)), k, none, CT_ERR_SHAPE, "key (2, S, 8)",
            "got (1, 5, 8)");
    refused(mha, q, odd, odd, none, CT_ERR_SHAPE, "key (2, S, 8)", "got (3, 5, 8)");
    refused(mha, q, k, q, none, CT_ERR_SHAPE, "value (2, 5, 8)", "got (2, 3, 8)");
    refused(grouped, q, NULL, NULL, none, CT_ERR_SHAPE, "key (2, S, 5)", "got (2, 3, 8)");
    refused(grouped, q, randn(CT_SHAPE(2, 4, 5)), randn(CT_SHAPE(2, 4, 5)), none, CT_ERR_SHAPE,
            "value (2, 4, 3)", "got (2, 4, 5)");
    refused(mha, q, k, NULL, none, CT_ERR_ARGUMENT, "value is NULL", "");
    refused(mha, q, NULL, k, none, CT_ERR_ARGUMENT, "key is NULL", "");
    refused(mha, NULL, NULL, NULL, none, CT_ERR_ARGUMENT, "query is NULL", "");
    refused(mha, f32, NULL, NULL, none, CT_ERR_DTYPE, "f32", "f64");
    /* found after some tensors were made */
    ct_mha_call hidden = {.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(2, 3))};
    refused(mha, q, f32, f32, hidden, CT_ERR_DTYPE, "f32", "f64");
    refused(mha, q, NULL, NULL, (ct_mha_call){.rope_offset = INT64_MIN}, CT_ERR_ARGUMENT,
            "rope_offset", "");
    /* a double holds 2^53 and its negative, and no more; there are 3 queries */
    const int64_t most = (INT64_C(1) << 53) - 3;
    refused(mha, q, NULL, NULL, (ct_mha_call){.rope_offset = most + 1}, CT_ERR_ARGUMENT,
            "rope_offset", "");
    ck_assert_ptr_nonnull(
        ct_mha_forward(mha, q, NULL, NULL, (ct_mha_call){.rope_offset = most}).out);
    ck_assert_ptr_nonnull(
        ct_mha_forward(mha, q, NULL, NULL, (ct_mha_call){.rope_offset = -most}).out);
    no_error();
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *theirs = ct_zeros(other, CT_F64, CT_SHAPE(2, 5, 8));
    refused(mha, q, theirs, k, none, CT_ERR_ARGUMENT, "MultiheadAttention", "different contexts");
    refused(mha, q, k, theirs, none, CT_ERR_ARGUMENT, "MultiheadAttention", "different contexts");
    refused(mha, q, k, k, (ct_mha_call){.mask = theirs}, CT_ERR_ARGUMENT, "MultiheadAttention",
            "different contexts");
    ct_context_free(other);
    refused(mha, q, k, k, (ct_mha_call){.mask = ct_zeros(context, CT_F32, CT_SHAPE(3, 5))},
            CT_ERR_DTYPE, "MultiheadAttention: the mask is f32", "bool or f64");
    ct_module *narrow = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2});
    refused(narrow, f32, NULL, NULL,
            (ct_mha_call){.mask = ct_zeros(context, CT_F64, CT_SHAPE(3, 3))}, CT_ERR_DTYPE,
            "MultiheadAttention: the mask is f64", "bool or f32");
    refused(mha, q, k, k, (ct_mha_call){.mask = ct_zeros(context, CT_I64, CT_SHAPE(3, 5))},
            CT_ERR_DTYPE, "the mask is i64", "bool or f64");
    ck_refused(ct_mha_forward(NULL, q, NULL, NULL, none).out, CT_ERR_ARGUMENT,
               "ct_mha_forward: module is NULL", "");
    ck_refused(ct_mha_forward(ct_module_child(mha, "out_proj"), q, NULL, NULL, none).out,
               CT_ERR_ARGUMENT, "ct_mha_forward: expected a MultiheadAttention", "Linear");
}
END_TEST

START_TEST(masks) {
    make();
    ct_tensor *q = randn(CT_SHAPE(2, 3, 8)), *k = randn(CT_SHAPE(2, 5, 8));
    const ct_shape wrong[] = {CT_SHAPE(5, 3),         CT_SHAPE(3, 4),       CT_SHAPE(4, 3, 5),
                              CT_SHAPE(3, 1, 3, 5),   CT_SHAPE(2, 4, 3, 5), CT_SHAPE(3),
                              CT_SHAPE(1, 1, 1, 3, 5)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int is_bool = 0; is_bool < 2; is_bool++) {
            char got[80] = "the mask is (";
            for (int d = 0; d < wrong[i].ndim; d++)
                snprintf(got + strlen(got), 8, "%d%s", (int)wrong[i].dim[d],
                         d + 1 < wrong[i].ndim ? ", " : "), not");
            ct_mha_call call = {.mask = ct_ones(context, is_bool ? CT_BOOL : CT_F64, wrong[i]),
                                .causal = i & 1};
            refused(mha, q, k, k, call, CT_ERR_SHAPE, got,
                    "(T, S) = (3, 5), nor anything that broadcasts to (B, H, T, S) = (2, 2, 3, 5)");
        }
    for (ct_dtype dtype = CT_F32; dtype <= CT_I64; dtype++) {
        if (dtype == CT_F64) continue;
        char got[40];
        snprintf(got, sizeof got, "the mask is %s", dtype == CT_F32 ? "f32" : "i64");
        refused(mha, q, k, k, (ct_mha_call){.mask = ct_ones(context, dtype, CT_SHAPE(3, 5))},
                CT_ERR_DTYPE, got, "bool or f64");
    }
    ct_tensor *keys[] = {ct_ones(context, CT_BOOL, CT_SHAPE(5)),
                         ct_ones(context, CT_BOOL, CT_SHAPE(2, 3)),
                         ct_ones(context, CT_BOOL, CT_SHAPE(1, 5))};
    const char *const got[] = {"the key mask is (5)", "the key mask is (2, 3)",
                               "the key mask is (1, 5)"};
    for (int i = 0; i < 3; i++)
        refused(mha, q, k, k, (ct_mha_call){.key_mask = keys[i]}, CT_ERR_SHAPE, got[i],
                "not (B, S) = (2, 5)");
    refused(mha, q, k, k, (ct_mha_call){.key_mask = ct_ones(context, CT_F64, CT_SHAPE(2, 5))},
            CT_ERR_DTYPE, "the key mask is f64", "not bool");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *foreign = ct_ones(other, CT_BOOL, CT_SHAPE(3, 5)),
              *keys_of_another = ct_ones(other, CT_BOOL, CT_SHAPE(2, 5)),
              *square = ct_ones(other, CT_BOOL, CT_SHAPE(3, 3));
    refused(mha, q, k, k, (ct_mha_call){.mask = foreign}, CT_ERR_ARGUMENT, "different contexts",
            "");
    refused(mha, q, k, k, (ct_mha_call){.key_mask = keys_of_another}, CT_ERR_ARGUMENT,
            "different contexts", "");
    refused(mha, q, NULL, NULL, (ct_mha_call){.mask = square}, CT_ERR_ARGUMENT,
            "different contexts", "");
    ct_context_free(other);
}
END_TEST

START_TEST(caches) {
    make();
    ct_module *twin =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64});
    ct_kv_cache *cache = ct_kv_cache_new(mha, 2, 4);
    ct_tensor *x = randn(CT_SHAPE(2, 3, 8)), *wrong = ct_ones(context, CT_BOOL, CT_SHAPE(3, 5));
    refused(twin, x, NULL, NULL, (ct_mha_call){.cache = cache}, CT_ERR_ARGUMENT, "cache",
            "another module");
    refused(mha, randn(CT_SHAPE(1, 3, 8)), NULL, NULL, (ct_mha_call){.cache = cache}, CT_ERR_SHAPE,
            "query (1, 3, 8)", "a batch of 2");
    refused(mha, randn(CT_SHAPE(2, 5, 8)), NULL, NULL, (ct_mha_call){.cache = cache}, CT_ERR_SHAPE,
            "room for 4 positions and holds 0", "5 more do not fit");
    refused(mha, x, NULL, NULL, (ct_mha_call){.cache = cache, .mask = wrong}, CT_ERR_SHAPE,
            "(3, 5)", "(3, 3)");
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    ck_assert_ptr_nonnull(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.cache = cache}).out);
    refused(mha, x, NULL, NULL, (ct_mha_call){.cache = cache}, CT_ERR_SHAPE,
            "room for 4 positions and holds 3", "3 more do not fit");
    refused(mha, ct_narrow(x, 1, 0, 1), NULL, NULL, (ct_mha_call){.cache = cache, .mask = wrong},
            CT_ERR_SHAPE, "(3, 5)", "(1, 4)");
    ck_assert_int_eq(ct_kv_cache_length(cache), 3);
    ct_kv_cache_free(cache);
}
END_TEST

START_TEST(of_the_op) {
    ct_tensor *q = randn(CT_SHAPE(2, 4, 5, 3)), *k = randn(CT_SHAPE(2, 2, 6, 3)),
              *three = randn(CT_SHAPE(2, 3, 6, 3));
    ct_tensor *wide = randn(CT_SHAPE(2, 2, 6, 4)), *f32 = ct_cast(k, CT_F32),
              *mask = ct_ones(context, CT_BOOL, CT_SHAPE(6, 5)),
              *number = ct_ones(context, CT_I64, CT_SHAPE(5, 6)),
              *keys = ct_ones(context, CT_BOOL, CT_SHAPE(2, 5));
    const struct {
        ct_tensor *k, *v;
        ct_attention_opts opts;
        ct_status status;
        const char *word1, *word2;
    } bad[] = {{three, three, {0}, CT_ERR_SHAPE, "(2, 3, 6, 3)", "(2, 4, 5, 3)"},
               {wide, k, {0}, CT_ERR_SHAPE, "(2, 2, 6, 4)", "(2, 4, 5, 3)"},
               {k, three, {0}, CT_ERR_SHAPE, "(2, 2, 6, 3)", "(2, 3, 6, 3)"},
               {f32, k, {0}, CT_ERR_DTYPE, "k f32", "q f64"},
               {k, k, {.mask = mask}, CT_ERR_SHAPE, "(6, 5)", "(2, 4, 5, 6)"},
               {k, k, {.mask = number}, CT_ERR_DTYPE, "i64", "bool or f64"},
               {k, k, {.key_mask = keys}, CT_ERR_SHAPE, "(2, 5)", "(B, S) = (2, 6)"},
               {k, k, {.key_mask = number}, CT_ERR_DTYPE, "i64", "bool"},
               {k, k, {.dropout = -1}, CT_ERR_ARGUMENT, "-1", "[0, 1]"},
               {k, k, {.scale = NAN}, CT_ERR_ARGUMENT, "scale", "NaN"}};
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
        ct_attention_opts opts = bad[i / 2].opts;
        opts.need_weights = i % 2;
        const int64_t live = ct_memory(context).live;
        const ct_attention_out y = ct_attention(q, bad[i / 2].k, bad[i / 2].v, opts);
        ck_assert(!y.out && !y.weights);
        expect(bad[i / 2].status, bad[i / 2].word1, bad[i / 2].word2);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

typedef struct {
    ct_context *c;
    ct_module *mha;
    ct_tensor *q, *k, *v;
    ct_mha_call call;
    ct_mha_out y;
} mha_run;

static bool run_mha(void *arg) {
    mha_run *r = arg;
    r->y = ct_mha_forward(r->mha, r->q, r->k, r->v, r->call);
    return r->y.out != NULL;
}
static void check_mha(const fault_end *end, void *arg) {
    const mha_run *r = arg;
    FAULT_CK(end, (r->y.weights != NULL) == (end->done && r->call.need_weights));
}

/* Each allocation is refused in turn, in a call that clears hidden rows, appends keys and pads
 * masks: no memory is left, and the next call works. */
START_TEST(memory) {
    for (int which = 0; which < 4; which++) {
        ct_context *c = refusing_context();
        mha_run r = {.c = c,
                     .mha = ct_mha_new(c, (ct_mha_opts){.embed_dim = 96,
                                                        .num_heads = 4,
                                                        .num_kv_heads = 2,
                                                        .add_bias_kv = true,
                                                        .rope = true,
                                                        .qk_norm = true,
                                                        .dtype = CT_F64})};
        r.q = ct_randn(c, CT_F64, CT_SHAPE(2, 12, 96));
        r.k = ct_randn(c, CT_F64, CT_SHAPE(2, 20, 96));
        r.v = which & 2 ? ct_randn(c, CT_F64, CT_SHAPE(2, 20, 96)) : r.k;
        r.call = (ct_mha_call){.mask = ct_randn(c, CT_F64, CT_SHAPE(2, 4, 12, 20)),
                               .key_mask = ct_ones(c, CT_BOOL, CT_SHAPE(2, 20)),
                               .causal = true,
                               .need_weights = which & 1};
        memory_sweep((fault_case){.name = "mha_forward",
                                  .context = &r.c,
                                  .arg = &r,
                                  .run = run_mha,
                                  .end = check_mha,
                                  .least = 10,
                                  .most = 200});
        ct_context_free(c);
    }
}
END_TEST

int main(void) {
    return run_tests("mha refused", setup, teardown,
                     TESTS(TEST(options), TEST(inputs), TEST(masks), TEST(caches), TEST(of_the_op),
                           TEST(memory)));
}
