/* Decoding with cross-attention, whose keys and values are projected once and then cached; and
 * tokens at given positions. */
#include "tests/support/nn_check.h"

enum { B = 2, S = 5, N = 7, LAYERS = 2 };

static ct_module *shake(ct_module *module) { /* no bias is zero, no norm one */
    no_error();
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (ct_ndim(p.tensor) == 1 || strstr(p.name, "bias")) ct_init_normal(p.tensor, 0.5, 0.5);
    ct_module_train(module, false);
    return module;
}

static void spoil(ct_tensor *x) {
    for (int64_t i = 0; i < ct_numel(x); i++) ct_data_f64(x)[i] = NAN;
}

/* ---- multi-head attention ---- */

/* Queries come one by one; after the first, the values of k and v are not read. */
START_TEST(another_sequence_is_read_once) {
    ct_mha_opts all[] = {{.num_heads = 2},
                         {.num_heads = 4, .num_kv_heads = 2, .qk_norm = true},
                         {.num_heads = 2, .kdim = 6, .vdim = 3},
                         {.num_heads = 2, .add_bias_kv = true, .add_zero_attn = true},
                         {.num_heads = 4, .num_kv_heads = 1, .rope = true, .no_bias = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int way = 0; way < 3; way++) { /* k is v; k is not v; a single key */
            ct_mha_opts o = all[i];
            o.embed_dim = 8, o.dtype = CT_F64;
            ct_module *mha = shake(ct_mha_new(context, o));
            const int64_t s = way == 2 ? 1 : S;
            ct_tensor *q = randn(CT_SHAPE(B, N, 8)),
                      *k = randn(CT_SHAPE(B, s, o.kdim ? o.kdim : 8)), *v = k;
            if (way == 1 || o.vdim) v = randn(CT_SHAPE(B, s, o.vdim ? o.vdim : 8));
            ct_tensor *real = ct_gt(ct_rand(context, CT_F32, CT_SHAPE(B, s)),
                                    ct_full(context, CT_F32, CT_SCALAR, s > 1 ? 0.3 : -1));
            ct_mha_call call = {.key_mask = real, .need_weights = true, .per_head = true};
            ct_mha_out whole = ct_mha_forward(mha, q, k, v, call);
            call.cache = ct_kv_cache_new(mha, B, S + 1);
            for (int again = 0; again < 2; again++) {
                for (int64_t at = 0; at < N; at++) {
                    ct_tensor *one = ct_narrow(q, 1, at, 1);
                    /* with rope the caller gives the query's position */
                    if (o.rope) call.rope_offset = 0, one = ct_narrow(q, 1, 0, 1);
                    ct_mha_out y = ct_mha_forward(mha, one, k, v, call);
                    int64_t expected = o.rope ? 0 : at;
                    ck_assert_double_lt(distance(y.out, ct_narrow(whole.out, 1, expected, 1)),
                                        1e-13);
                    ck_assert_double_lt(
                        distance(y.weights, ct_narrow(whole.weights, 2, expected, 1)), 1e-13);
                    ck_assert_int_eq(ct_kv_cache_length(call.cache), s);
                    if (again && at == 0) spoil(k), spoil(v);
                }
                ck_assert(ct_kv_cache_truncate(call.cache, 0)); /* then k and v are read again */
            }
            ck_assert(largest(ct_mha_forward(mha, ct_narrow(q, 1, 0, 1), k, v, call).out) > 1e300);
            ct_kv_cache_free(call.cache);
        }
}
END_TEST

/* Counts the linear ops of a forward: projections with the same input are one product. */
static int products(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v) {
    static char text[1 << 16];
    FILE *file = tmpfile();
    ck_assert(ct_graph_print(ct_mha_forward(mha, q, k, v, (ct_mha_call){0}).out, file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    int n = 0;
    for (const char *at = text; (at = strstr(at, " = linear(")); at++) n++;
    return n;
}

START_TEST(what_has_one_input_has_one_product) {
    for (int rope = 0; rope < 2; rope++) {
        ct_module *mha = shake(ct_mha_new(
            context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .rope = rope, .dtype = CT_F64}));
        ct_tensor *q = randn(CT_SHAPE(B, N, 8)), *k = randn(CT_SHAPE(B, S, 8)),
                  *v = randn(CT_SHAPE(B, S, 8));
        ck_assert_int_eq(products(mha, q, q, q), 2);
        ck_assert_int_eq(products(mha, q, k, k), 3);
        ck_assert_int_eq(products(mha, q, k, v), 4);
        ck_assert_int_eq(products(mha, q, q, randn(CT_SHAPE(B, N, 8))), 4);
    }
}
END_TEST

/* a token takes less memory than another projection of the keys */
START_TEST(what_is_held_is_not_projected) {
    enum { KEYS = 5000 };
    ct_module *mha = shake(ct_mha_new(context, (ct_mha_opts){.embed_dim = 16, .num_heads = 2}));
    ct_tensor *q = ct_randn(context, CT_F32, CT_SHAPE(1, 1, 16)),
              *k = ct_randn(context, CT_F32, CT_SHAPE(1, KEYS, 16));
    const ct_mha_call call = {.cache = ct_kv_cache_new(mha, 1, KEYS)};
    ct_scope scope = ct_scope_open_no_grad(context);
    int64_t taken[2];
    for (int i = 0; i < 2; i++) {
        const int64_t live = ct_memory(context).live;
        ct_memory_reset_peak(context);
        ck_assert_ptr_nonnull(ct_mha_forward(mha, q, k, k, call).out);
        taken[i] = ct_memory(context).peak - live;
    }
    ck_assert_int_ge(taken[0], 4 * KEYS * 16);
    ck_assert_int_lt(taken[1], 4 * KEYS * 16);
    ct_scope_close(scope);
    ct_kv_cache_free(call.cache);
}
END_TEST

START_TEST(another_sequence_is_checked) {
    ct_module *mha =
        shake(ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64}));
    ct_kv_cache *cache = ct_kv_cache_new(mha, B, S);
    ct_mha_call call = {.cache = cache};
    ct_tensor *q = randn(CT_SHAPE(B, 1, 8)), *k = randn(CT_SHAPE(B, S + 1, 8)),
              *fits = ct_narrow(k, 1, 0, S);
    ck_refused(ct_mha_forward(mha, q, k, k, call).out, CT_ERR_SHAPE,
               "room for 5 positions and holds 0", "6 more do not fit");
    call.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(B, 1));
    ck_refused(ct_mha_forward(mha, q, fits, fits, call).out, CT_ERR_SHAPE, "(2, 1)", "(2, 5)");
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    call.key_mask = NULL;
    ck_assert_ptr_nonnull(ct_mha_forward(mha, q, fits, fits, call).out);
    fits = ct_narrow(k, 1, 0, S - 1);
    ck_refused(ct_mha_forward(mha, q, fits, fits, call).out, CT_ERR_SHAPE, "key (2, 4, 8)",
               "the 5 keys");
    ck_assert_int_eq(ct_kv_cache_length(cache), S);
    ct_kv_cache_free(cache);
}
END_TEST

/* ---- decoders ---- */

static const ct_layer_opts layer = {.embed_dim = 8,
                                    .num_heads = 4,
                                    .dtype = CT_F64,
                                    .attn = {.num_kv_heads = 2, .rope = true, .qk_norm = true}};

/* Whenever the caches are empty, another memory of any length may be given, and its keys are
 * projected. While they are not, only the shape of memory is read. */
START_TEST(memory_is_read_when_caches_are_empty) {
    ct_module *decoder = shake(ct_decoder_new(context, layer, LAYERS, true));
    ct_kv_cache *caches[LAYERS];
    ck_assert(ct_kv_caches_new(decoder, B, N, caches, LAYERS));
    ct_tensor *x = randn(CT_SHAPE(B, N, 8)), *weights[LAYERS], *some[LAYERS];
    const int64_t sizes[] = {S, S, S - 1, S + 1};
    for (int which = 0; which < 4; which++) {
        const int64_t s = sizes[which];
        ct_tensor *memory = randn(CT_SHAPE(B, s, 8));
        ct_stack_call call = {.self.causal = true, .cross_weights = weights};
        ct_tensor *whole = ct_decoder_forward(decoder, x, memory, call);
        call.caches = caches, call.cross_weights = some;
        for (int64_t at = 0, t = 3; at < N; at += t, t = 1) {
            ct_tensor *y = ct_decoder_forward(decoder, ct_narrow(x, 1, at, t), memory, call);
            ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, t)), 1e-12);
            for (int i = 0; i < LAYERS; i++)
                ck_assert_double_lt(distance(some[i], ct_narrow(weights[i], 1, at, t)), 1e-12);
            if (at == 0) spoil(memory);
        }
        /* goes on from there, and with the same memory */
        for (int i = 0; i < LAYERS; i++) ck_assert(ct_kv_cache_truncate(caches[i], 4));
        ck_assert_double_lt(
            distance(ct_decoder_forward(decoder, ct_narrow(x, 1, 4, 3), memory, call),
                     ct_narrow(whole, 1, 4, 3)),
            1e-12);
        for (int i = 0; i < LAYERS; i++) ck_assert(ct_kv_cache_truncate(caches[i], 4));
        ck_refused(
            ct_decoder_forward(decoder, ct_narrow(x, 1, 4, 1), randn(CT_SHAPE(B, s + 1, 8)), call),
            CT_ERR_SHAPE, "another sequence", "");
        for (int i = 0; i < LAYERS; i++) ck_assert_int_eq(ct_kv_cache_length(caches[i]), 4);
        for (int i = 0; i < LAYERS; i++) ck_assert(ct_kv_cache_truncate(caches[i], 0));
    }
    int64_t before = ct_memory(context).live;
    for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
    ck_assert_int_lt(ct_memory(context).live, before);
}
END_TEST

/* A cache that the caller gives for cross-attention is used instead of the layer's own. */
START_TEST(a_cache_that_is_given_is_the_one) {
    ct_module *decoder = shake(ct_decoder_layer_new(
        context, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64}));
    ct_tensor *x = randn(CT_SHAPE(B, 1, 8)), *memory = randn(CT_SHAPE(B, S, 8));
    const ct_mha_call self = {.cache =
                                  ct_kv_cache_new(ct_module_child(decoder, "self_attn"), B, 1)};
    const ct_mha_call cross = {
        .cache = ct_kv_cache_new(ct_module_child(decoder, "multihead_attn"), B, S)};
    ck_assert_ptr_nonnull(ct_decoder_layer_forward(decoder, x, memory, self, cross).out);
    ck_assert_int_eq(ct_kv_cache_length(self.cache), 1);
    ck_assert_int_eq(ct_kv_cache_length(cross.cache), S);
    ct_kv_cache_free(self.cache);
    ct_kv_cache_free(cross.cache);
}
END_TEST

typedef struct {
    ct_context *c;
    ct_module *decoder;
    ct_tensor *x, *memory, *y;
    ct_stack_call call;
} decoding;

static bool decode_all(void *arg) {
    decoding *d = arg;
    d->y = ct_decoder_forward(d->decoder, d->x, d->memory, d->call);
    return d->y != NULL;
}
static void check_lengths(const fault_end *end, void *arg) {
    const decoding *d = arg;
    for (int i = 0; i < LAYERS; i++)
        FAULT_CK(end, end->done || ct_kv_cache_length(d->call.caches[i]) == 0);
}

/* Whichever request for memory fails, the caches keep their length and the next forward is right.
 */
START_TEST(a_failed_token_leaves_the_caches) {
    ct_context *c = refusing_context();
    ct_layer_opts opts = {.embed_dim = 96, .num_heads = 2, .dtype = CT_F64};
    decoding d = {.c = c,
                  .decoder = ct_decoder_new(c, opts, LAYERS, true),
                  .x = ct_randn(c, CT_F64, CT_SHAPE(1, 12, 96)),
                  .memory = ct_randn(c, CT_F64, CT_SHAPE(1, 9, 96)),
                  .call = {.self.causal = true}};
    ct_tensor *whole = ct_decoder_forward(d.decoder, d.x, d.memory, d.call);
    ct_kv_cache *caches[LAYERS];
    ck_assert(ct_kv_caches_new(d.decoder, 1, 12, caches, LAYERS));
    d.call.caches = caches;
    memory_sweep((fault_case){.name = "a forward with caches",
                              .context = &d.c,
                              .arg = &d,
                              .run = decode_all,
                              .end = check_lengths,
                              .grows = true,
                              .least = 10,
                              .most = 300});
    ck_assert_double_lt(ct_item(ct_max(ct_abs(ct_sub(d.y, whole)), CT_ALL, false)), 1e-12);
    for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
    ct_context_free(c);
}
END_TEST

/* ---- positions ---- */

START_TEST(positions_from_anywhere) {
    for (int learned = 0; learned < 2; learned++) {
        ct_module *p = ct_positions_new(
            context, (ct_positions_opts){
                         .max_length = N, .embed_dim = 4, .learned = learned, .dtype = CT_F64});
        ct_tensor *x = randn(CT_SHAPE(B, N, 4)), *whole = ct_forward(p, x);
        for (int64_t first = 0; first <= N; first++)
            for (int64_t t = 0; first + t <= N; t++)
                ck_assert_double_eq(
                    distance(ct_positions_forward(p, ct_narrow(x, 1, first, t), first),
                             ct_narrow(whole, 1, first, t)),
                    0);
        ck_refused(ct_positions_forward(p, ct_narrow(x, 1, 0, 2), N - 1), CT_ERR_SHAPE,
                   "(2, 2, 4) from position 6", "max_length 7");
        ck_refused(ct_positions_forward(p, x, -1), CT_ERR_SHAPE, "from position -1", "");
        ck_refused(ct_positions_forward(p, x, INT64_MAX), CT_ERR_SHAPE, "from position",
                   "max_length 7");
        ck_refused(ct_positions_forward(p, NULL, 0), CT_ERR_ARGUMENT, "Positions", "NULL");
        ck_refused(ct_positions_forward(ct_dropout_new(context, 0), x, 0), CT_ERR_ARGUMENT,
                   "ct_positions_forward", "Dropout");
        if (learned) {
            ck_assert(ct_backward(
                ct_sum(ct_positions_forward(p, ct_narrow(x, 1, 0, 2), 3), CT_ALL, false)));
            ct_tensor *grad = ct_grad(ct_module_get(p, "weight"));
            for (int64_t i = 0; i < N; i++)
                ck_assert_double_eq(largest(ct_select(grad, 0, i)), i == 3 || i == 4 ? B : 0);
        }
    }
}
END_TEST

/* Rows at given positions: as one row of the table for each token. */
START_TEST(positions_at_given_places) {
    const int64_t place[] = {3, 0, 6, 6, 2, 1}, outside[] = {0, 1, 2, 3, 7, 4};
    ct_tensor *x = randn(CT_SHAPE(2, 3, 4)), *g = randn(CT_SHAPE(2, 3, 4)),
              *at = ct_from_i64(context, CT_SHAPE(2, 3), place);
    ct_set_requires_grad(x, true);
    for (int learned = 0; learned < 2; learned++) {
        ct_module *p = ct_positions_new(
            context, (ct_positions_opts){
                         .max_length = N, .embed_dim = 4, .learned = learned, .dtype = CT_F64});
        ct_tensor *y = ct_positions_forward_at(p, x, at), *row[6], *want;
        for (int64_t i = 0; i < 6; i++)
            row[i] = ct_positions_forward(p, ct_narrow(ct_reshape(x, CT_SHAPE(1, 6, 4)), 1, i, 1),
                                          place[i]);
        want = ct_reshape(ct_cat(row, 6, 1), CT_SHAPE(2, 3, 4));
        ck_assert_double_eq(distance(y, want), 0);
        ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
        ck_assert_double_eq(distance(ct_grad(x), g), 0);
        ct_zero_grad(x);
        if (learned) {
            ct_tensor *weight = ct_module_get(p, "weight"), *grad = ct_clone(ct_grad(weight));
            ct_zero_grad(weight);
            ck_assert(ct_backward_with(&want, &g, 1, (ct_backward_opts){0}));
            ck_assert_double_lt(distance(grad, ct_grad(weight)), 1e-15);
            ct_zero_grad(x);
        }
        /* positions of all sequences; strided ones; none */
        ct_tensor *shared = ct_narrow(ct_arange(context, CT_I64, 0, 9, 1), 0, 2, 3);
        ck_assert_double_eq(
            distance(ct_positions_forward_at(p, x, shared), ct_positions_forward(p, x, 2)), 0);
        ck_assert_double_eq(
            distance(ct_positions_forward_at(p, x, ct_expand(shared, CT_SHAPE(2, 3))),
                     ct_positions_forward(p, x, 2)),
            0);
        ck_assert_int_eq(
            ct_numel(ct_positions_forward_at(p, randn(CT_SHAPE(2, 0, 4)), ct_narrow(at, 1, 0, 0))),
            0);
        ct_tensor *wrong = ct_from_i64(context, CT_SHAPE(2, 3), outside);
        ck_refused(ct_positions_forward_at(p, x, wrong), CT_ERR_ARGUMENT, "7 at (1, 1)", "[0, 7)");
        ct_data_i64(wrong)[4] = -1;
        ck_refused(ct_positions_forward_at(p, x, wrong), CT_ERR_ARGUMENT, "-1 at (1, 1)", "");
        ck_refused(ct_positions_forward_at(p, x, ct_narrow(at, 0, 0, 1)), CT_ERR_SHAPE,
                   "positions (1, 3) are not", "(2, 3, 4)");
        ck_refused(ct_positions_forward_at(p, x, ct_narrow(at, 1, 0, 2)), CT_ERR_SHAPE,
                   "positions (2, 2) are not", "");
        ck_refused(ct_positions_forward_at(p, x, x), CT_ERR_DTYPE, "positions are f64", "i64");
        ck_refused(ct_positions_forward_at(p, ct_select(x, 0, 0), shared), CT_ERR_SHAPE,
                   "expected (B, T, 4)", "(3, 4)");
        ck_refused(ct_positions_forward_at(p, NULL, at), CT_ERR_ARGUMENT, "x is NULL", "");
        ck_refused(ct_positions_forward_at(p, x, NULL), CT_ERR_ARGUMENT, "positions is NULL", "");
        ck_refused(ct_positions_forward_at(ct_dropout_new(context, 0), x, at), CT_ERR_ARGUMENT,
                   "ct_positions_forward_at", "Dropout");
    }
}
END_TEST

/* A table of bf16 gives f32 rows. */
START_TEST(positions_in_bf16) {
    ct_module *p = ct_positions_new(
        context, (ct_positions_opts){.max_length = N, .embed_dim = 4, .learned = true});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3, 4)),
              *at = ct_arange(context, CT_I64, 4, 7, 1);
    ck_assert(ct_module_to(p, CT_BF16));
    ck_assert_double_eq(distance(ct_positions_forward_at(p, x, at), ct_positions_forward(p, x, 4)),
                        0);
}
END_TEST

int main(void) {
    return run_tests(
        "decoding", setup, teardown,
        TESTS(TEST(positions_at_given_places), TEST(positions_in_bf16),
              TEST(another_sequence_is_read_once), TEST(what_has_one_input_has_one_product),
              TEST(what_is_held_is_not_projected), TEST(another_sequence_is_checked),
              TEST(memory_is_read_when_caches_are_empty), TEST(a_cache_that_is_given_is_the_one),
              TEST(a_failed_token_leaves_the_caches), TEST(positions_from_anywhere)));
}
