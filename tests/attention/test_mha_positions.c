/* Positions and frequencies of rotary attention: a call's positions against the module composed of
 * ops, in training, in decoding and in stacks of layers, and the module's table of frequencies. */
#include "attention_model.h"

#include <unistd.h>

enum { B = 2, T = 5, E = 24 };

static const double table[] = {0.5, -0.25, 0, 1e-3};

static ct_tensor *positions_of(ct_shape shape, const int64_t *position) {
    return ct_from_i64(context, shape, position);
}
static ct_tensor *each(void) {
    return positions_of(CT_SHAPE(B, T), (int64_t[]){4, 0, 9, 1, 9, -3, 100, 7, 7, 6});
}
static ct_tensor *shared(void) { return positions_of(CT_SHAPE(T), (int64_t[]){8, 1, 3, 3, 2}); }
static ct_tensor *counted(int64_t first, int64_t n) {
    return ct_arange(context, CT_I64, (double)first, (double)(first + n), 1);
}

static const ct_mha_opts kinds[] = {
    {.num_heads = 2, .rope = true},
    {.num_heads = 2, .rope = true, .rotary = {.base = 50, .interleaved = true}, .qk_norm = true},
    {.num_heads = 3, .rope = true, .rotary = {.dims = 6}, .num_kv_heads = 1, .separate = true},
    {.num_heads = 2,
     .rope = true,
     .rotary = {.dims = 8, .frequencies = table, .attention_factor = 1.25},
     .add_bias_kv = true},
    {.num_heads = 4, .num_kv_heads = 2, .head_dim = 9, .rope = true, .rotary = {.dims = 4}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static ct_mha_opts options(int kind) {
    ct_mha_opts o = kinds[kind];
    o.embed_dim = E, o.dtype = CT_F64;
    return o;
}

/* ---- values and gradients ---- */

static ct_tensor *rotated(ct_module *m, const ct_mha_opts *o, int which, ct_tensor *x,
                          ct_tensor *positions) {
    x = model_project(m, o, which, x);
    if (o->qk_norm)
        x = model_rms_norm(x, param_of(m, which ? "k_norm.weight" : "q_norm.weight"),
                           sizes_of(o).eps, o->qk_norm_offset);
    return ct_rope(x, positions, o->rotary);
}

/* The module's output, composed of ops: queries at positions `at`, keys at `keys_at`. */
static ct_tensor *composed(ct_module *m, const ct_mha_opts *o, ct_tensor *q, ct_tensor *k,
                           ct_tensor *at, ct_tensor *keys_at) {
    const attention_sizes s = sizes_of(o);
    ct_tensor *qq = rotated(m, o, 0, q, at), *kk = rotated(m, o, 1, k, keys_at);
    kk = model_extend(m, o, "bias_k", kk);
    ct_tensor *vv = model_extend(m, o, "bias_v", model_project(m, o, 2, k));
    const ct_attention_opts opts = {.scale = s.scale};
    ct_tensor *y = ct_permute(reference_attention(qq, kk, vv, opts).out, CT_DIMS(0, 2, 1, 3));
    y = ct_reshape(y, CT_SHAPE(ct_dim(q, 0), ct_dim(q, 1), s.heads * s.d));
    y = ct_matmul(y, ct_transpose(param_of(m, "out_proj.weight"), 0, 1));
    return ct_add(y, param_of(m, "out_proj.bias"));
}

static void check(int kind, ct_tensor *at, bool cross) {
    const ct_mha_opts o = options(kind);
    ct_module *m = shaken(ct_mha_new(context, o));
    ct_tensor *q = leaf(CT_SHAPE(B, T, E)), *k = cross ? leaf(CT_SHAPE(B, T + 2, E)) : q,
              *in[] = {q, k};
    ct_mha_call call = {.positions = at};
    ct_tensor *y = ct_mha_forward(m, q, cross ? k : NULL, cross ? k : NULL, call).out;
    const results got = results_of(m, &y, 1, in, cross ? 2 : 1);
    y = composed(m, &o, q, k, at, cross ? NULL : at);
    const results want = results_of(m, &y, 1, in, cross ? 2 : 1);
    results_same("attention at positions", &got, &want, 1e-12);
    ct_module_free(m);
}

START_TEST(values_and_gradients) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int cross = 0; cross < 2; cross++)
            check(kind, each(), cross), check(kind, shared(), cross);
}
END_TEST

START_TEST(counted_positions_are_an_offset) {
    for (int kind = 0; kind < KINDS; kind++) {
        ct_module *m = shaken(ct_mha_new(context, options(kind)));
        ct_tensor *x = randn(CT_SHAPE(B, T, E));
        for (int64_t first = -3; first < 9; first += 3) {
            ct_mha_call offset = {.rope_offset = first, .causal = true},
                        at = {.positions = counted(first, T), .causal = true};
            ck_assert_double_eq(distance(ct_mha_forward(m, x, NULL, NULL, offset).out,
                                         ct_mha_forward(m, x, NULL, NULL, at).out),
                                0);
        }
    }
}
END_TEST

/* A row with positions of its own is the row of a batch of one with these positions. */
START_TEST(rows_are_independent) {
    ct_module *m = shaken(ct_mha_new(context, options(3)));
    ct_tensor *x = randn(CT_SHAPE(B, T, E)), *at = each();
    ct_tensor *y = ct_mha_forward(m, x, NULL, NULL, (ct_mha_call){.positions = at}).out;
    for (int64_t b = 0; b < B; b++) {
        ct_mha_call one = {.positions = ct_select(at, 0, b)};
        ck_assert_double_lt(distance(ct_narrow(y, 0, b, 1),
                                     ct_mha_forward(m, ct_narrow(x, 0, b, 1), NULL, NULL, one).out),
                            1e-14);
    }
}
END_TEST

/* Sequences of 2 and of 3 tokens, each by itself, and in one call: packed into a row with positions
 * that begin anew; padded at the start with positions that count tokens; padded at the end, which
 * needs no positions. */
static void check_rows(int kind) {
    ct_module *m = shaken(ct_mha_new(context, options(kind)));
    ct_tensor *x = randn(CT_SHAPE(1, 5, E)), *pad = randn(CT_SHAPE(1, 1, E)),
              *first = ct_narrow(x, 1, 0, 2), *second = ct_narrow(x, 1, 2, 3);
    ct_mha_call call = {.causal = true};
    ct_tensor *want[] = {ct_mha_forward(m, first, NULL, NULL, call).out,
                         ct_mha_forward(m, second, NULL, NULL, call).out};
    call.segments = positions_of(CT_SHAPE(1, 5), (int64_t[]){7, 7, 4, 4, 4});
    call.positions = positions_of(CT_SHAPE(1, 5), (int64_t[]){0, 1, 0, 1, 2});
    ct_tensor *packed = ct_mha_forward(m, x, NULL, NULL, call).out;
    ck_assert_double_lt(distance(ct_narrow(packed, 1, 0, 2), want[0]), 1e-13);
    ck_assert_double_lt(distance(ct_narrow(packed, 1, 2, 3), want[1]), 1e-13);
    const int ends = kinds[kind].add_bias_kv ? 1 : 2; /* lengths are refused with extra keys */
    for (int at_end = 0; at_end < ends; at_end++) {
        ct_tensor *row = ct_cat((ct_tensor *[]){at_end ? first : pad, at_end ? pad : first}, 2, 1),
                  *rows = ct_cat((ct_tensor *[]){row, second}, 2, 0);
        call = (ct_mha_call){.causal = true};
        if (at_end) call.lengths = positions_of(CT_SHAPE(2), (int64_t[]){2, 3});
        else {
            call.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(2, 3));
            ct_data_bool(call.key_mask)[0] = false;
            call.positions = positions_of(CT_SHAPE(2, 3), (int64_t[]){0, 0, 1, 0, 1, 2});
        }
        ct_tensor *y = ct_mha_forward(m, rows, NULL, NULL, call).out;
        ct_tensor *short_row = ct_narrow(ct_narrow(y, 0, 0, 1), 1, at_end ? 0 : 1, 2);
        ck_assert_double_lt(distance(short_row, want[0]), 1e-13);
        ck_assert_double_lt(distance(ct_narrow(y, 0, 1, 1), want[1]), 1e-13);
    }
}

START_TEST(packed_and_padded_rows) {
    for (int kind = 0; kind < KINDS; kind++) check_rows(kind);
}
END_TEST

/* Scores depend on differences of positions only: a number that is added to all positions of a row
 * changes the results by rounding. Extra keys have no position. */
START_TEST(differences_of_positions_count) {
    for (int kind = 0; kind < KINDS; kind++) {
        const ct_mha_opts o = options(kind);
        ct_module *m = shaken(ct_mha_new(context, o));
        ct_tensor *x = randn(CT_SHAPE(B, T, E)), *at = each(), *moved = ct_clone(at);
        for (int64_t i = 0; i < B * T; i++) ct_data_i64(moved)[i] += i < T ? 11 : -4;
        ct_mha_call before = {.positions = at}, after = {.positions = moved};
        const double by = distance(ct_mha_forward(m, x, NULL, NULL, before).out,
                                   ct_mha_forward(m, x, NULL, NULL, after).out);
        if (o.add_bias_kv) ck_assert_double_gt(by, 1e-6);
        else ck_assert_double_lt(by, 1e-12);
    }
}
END_TEST

START_TEST(without_rope_positions_do_nothing) {
    ct_module *m =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = E, .num_heads = 2, .dtype = CT_F64});
    ct_tensor *x = randn(CT_SHAPE(B, T, E));
    ck_assert_double_eq(
        distance(ct_forward(m, x),
                 ct_mha_forward(m, x, NULL, NULL, (ct_mha_call){.positions = each()}).out),
        0);
}
END_TEST

/* ---- decoding ---- */

/* Chunks of any length with a cache give the rows of the whole; a row's positions need not be
 * consecutive. */
START_TEST(decoding_in_chunks) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t chunk = 1; chunk <= T; chunk++) {
            ct_scope scope = ct_scope_open_no_grad(context);
            ct_module *m = shaken(ct_mha_new(context, options(kind)));
            ct_kv_cache *cache = ct_kv_cache_new(m, B, T);
            ct_tensor *x = randn(CT_SHAPE(B, T, E)), *at = each();
            ct_mha_call call = {.causal = true, .positions = at};
            ct_tensor *whole = ct_mha_forward(m, x, NULL, NULL, call).out;
            call.cache = cache;
            for (int64_t t = 0; t < T; t += chunk) {
                const int64_t n = chunk < T - t ? chunk : T - t;
                call.positions = ct_narrow(at, 1, t, n);
                ck_assert_double_lt(
                    distance(ct_mha_forward(m, ct_narrow(x, 1, t, n), NULL, NULL, call).out,
                             ct_narrow(whole, 1, t, n)),
                    1e-13);
            }
            /* positions that are counted from the cache's length are the default */
            ck_assert(ct_kv_cache_truncate(cache, 2));
            call.positions = counted(2, 3);
            ct_tensor *rest = ct_narrow(x, 1, 2, 3),
                      *a = ct_mha_forward(m, rest, NULL, NULL, call).out;
            ck_assert(ct_kv_cache_truncate(cache, 2));
            call.positions = NULL;
            ck_assert_double_eq(distance(a, ct_mha_forward(m, rest, NULL, NULL, call).out), 0);
            no_error();
            ct_kv_cache_free(cache);
            ct_module_free(m);
            ct_scope_close(scope);
        }
}
END_TEST

/* ---- layers ---- */

static ct_module *stack(bool recompute, bool decoder) {
    const ct_layer_opts o = {.embed_dim = E,
                             .num_heads = 2,
                             .hidden = 7,
                             .norm_first = true,
                             .dtype = CT_F64,
                             .recompute = recompute,
                             .attn = {.rope = true, .rotary = {.dims = 8, .frequencies = table}}};
    ct_seed(context, 5);
    return decoder ? ct_decoder_new(context, o, 2, true) : ct_encoder_new(context, o, 2, true);
}

static results stack_results(bool recompute, bool decoder) {
    ct_module *m = stack(recompute, decoder);
    ct_seed(context, 6);
    ct_tensor *x = leaf(CT_SHAPE(B, T, E)), *memory = leaf(CT_SHAPE(B, 3, E)), *in[] = {x, memory};
    ct_scope scope = ct_scope_open(context);
    const ct_stack_call call = {.self = {.causal = true, .positions = each()},
                                .cross = {.positions = shared()}};
    ct_tensor *y =
        decoder ? ct_decoder_forward(m, x, memory, call) : ct_encoder_forward(m, x, call);
    y = ct_scope_return(scope, y); /* positions end before backward */
    return results_of(m, &y, 1, in, 1 + decoder);
}

START_TEST(recomputed_layers_have_positions) {
    for (int decoder = 0; decoder < 2; decoder++) {
        const results kept = stack_results(false, decoder), again = stack_results(true, decoder);
        results_same("a recomputed layer", &again, &kept, 0);
    }
}
END_TEST

/* ---- the table ---- */

static const char *const path = "layers.1.self_attn.rotary_frequencies";

START_TEST(the_table_is_a_buffer) {
    double own[] = {0.5, -0.25, 0, 1e-3};
    ct_module *m = ct_mha_new(context, (ct_mha_opts){.embed_dim = E,
                                                     .num_heads = 2,
                                                     .rope = true,
                                                     .rotary = {.dims = 8, .frequencies = own},
                                                     .dtype = CT_F64});
    ct_tensor *x = randn(CT_SHAPE(B, T, E)), *before = ct_forward(m, x),
              *buffer = ct_module_get(m, "rotary_frequencies");
    ck_assert(ct_dtype_of(buffer) == CT_F64 && ct_numel(buffer) == 4 && !ct_requires_grad(buffer));
    own[0] = NAN; /* the module has a copy */
    ck_assert_double_eq(distance(ct_forward(m, x), before), 0);
    const int64_t count = ct_module_count(m);
    ck_assert_int_eq(count, 3 * E * E + 3 * E + E * E + E);
    int buffers = 0;
    for (ct_param p = {0}; ct_module_next_buffer(m, &p);) buffers++;
    ck_assert_int_eq(buffers, 1);

    ct_module *copy = ct_module_clone(m);
    ct_module_train(copy, true);
    ck_assert_double_eq(distance(ct_forward(copy, x), before), 0);
    ct_data_f64(buffer)[0] = 0.75; /* the module's buffer, not the copy's */
    ck_assert_double_gt(distance(ct_forward(m, x), before), 1e-6);
    ct_module_free(m);
    ck_assert_double_eq(distance(ct_forward(copy, x), before), 0);
}
END_TEST

/* The options give the table, and a file has parameters only, as torch's inv_freq. */
START_TEST(the_table_is_not_in_files) {
    char file[] = "/tmp/cotangent-positions-XXXXXX";
    const int fd = mkstemp(file);
    ck_assert(fd >= 0 && close(fd) == 0);
    ct_module *m = stack(false, false), *other = stack(false, false);
    ck_assert(ct_save(m, file, (ct_save_opts){0}));
    ct_data_f64(ct_module_get(other, path))[1] = 7;
    ck_assert(ct_load(other, file, (ct_load_opts){0}));
    ck_assert_int_eq(remove(file), 0);
    no_error();
    ck_assert_double_eq(ct_data_f64(ct_module_get(other, path))[1], 7);
    ck_assert_double_eq(ct_data_f64(ct_module_get(m, path))[1], table[1]);
}
END_TEST

START_TEST(the_table_stays_f64_in_bf16) {
    ct_mha_opts o = options(3);
    o.dtype = CT_F32, o.add_bias_kv = false;
    ct_module *m = ct_mha_new(context, o);
    ck_assert(ct_module_to(m, CT_BF16));
    ck_assert_int_eq(ct_dtype_of(ct_module_get(m, "rotary_frequencies")), CT_F64);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(B, T, E)), *y = ct_forward(m, x);
    ck_assert(ct_module_to(m, CT_F32));
    ck_assert_double_eq(distance(y, ct_forward(m, x)), 0);
}
END_TEST

static ct_module *make(ct_context *c, int which) {
    (void)which;
    return ct_mha_new(
        c, (ct_mha_opts){
               .embed_dim = 8, .num_heads = 1, .rope = true, .rotary = {.frequencies = table}});
}
START_TEST(without_memory_nothing_is_left) { constructors_leave_nothing(make, 1, 2); }
END_TEST

static void prints(ct_rope_opts rotary, const char *want) {
    char text[2000];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ct_module_print(
        ct_mha_new(context,
                   (ct_mha_opts){.embed_dim = 16, .num_heads = 2, .rope = true, .rotary = rotary}),
        f);
    no_error();
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    ck_assert_msg(strstr(text, want) != NULL, "%s is not in %s", want, text);
}

START_TEST(printed) {
    prints((ct_rope_opts){.dims = 4}, "num_heads=2, rope=10000 dims=4\n");
    prints((ct_rope_opts){.frequencies = table, .interleaved = true, .attention_factor = 1.5},
           "num_heads=2, rope=frequencies interleaved attention_factor=1.5\n");
}
END_TEST

/* ---- errors ---- */

START_TEST(refused_options) {
    ct_mha_opts o = {.embed_dim = E, .num_heads = 3, .rope = true};
    const double bad[] = {1, 2, NAN, 4};
    const struct {
        ct_rope_opts rotary;
        const char *word1, *word2;
    } wrong[] = {{{.dims = 10}, "dims 10", "head_dim 8"},
                 {{.dims = 3}, "dims is 3", "even"},
                 {{.dims = -2}, "dims is -2", "even"},
                 {{.base = INFINITY}, "base is inf", "rotary."},
                 {{.attention_factor = -1}, "attention_factor is -1", "rotary."},
                 {{.frequencies = bad}, "frequencies[2] is nan", "rotary."}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.rotary = wrong[i].rotary;
        ck_refused(ct_mha_new(context, o), CT_ERR_ARGUMENT, wrong[i].word1, wrong[i].word2);
    }
    o.head_dim = 7; /* odd, but not all of it turns */
    o.rotary = (ct_rope_opts){.dims = 6};
    ck_assert_ptr_nonnull(ct_mha_new(context, o));
    o.rotary.dims = 0;
    ck_refused(ct_mha_new(context, o), CT_ERR_ARGUMENT, "head_dim 7", "odd");
}
END_TEST

START_TEST(refused_positions) {
    ct_module *m = ct_mha_new(context, options(0));
    ct_tensor *x = randn(CT_SHAPE(B, T, E));
#define REFUSES(status, word1, word2, ...)                                                         \
    ck_refused(ct_mha_forward(m, x, NULL, NULL, (ct_mha_call){__VA_ARGS__}).out, status, word1,    \
               word2)
    REFUSES(CT_ERR_ARGUMENT, "positions", "rope_offset of 3", .positions = shared(),
            .rope_offset = 3);
    REFUSES(CT_ERR_DTYPE, "positions are f64", "i64", .positions = randn(CT_SHAPE(T)));
    REFUSES(CT_ERR_SHAPE, "positions (5) or (2, 5)", "got (4)", .positions = counted(0, 4));
    REFUSES(CT_ERR_SHAPE, "positions (5) or (2, 5)", "got ()",
            .positions = ct_zeros(context, CT_I64, CT_SCALAR));
    REFUSES(CT_ERR_SHAPE, "positions (5) or (2, 5)", "got (1, 5)",
            .positions = ct_unsqueeze(shared(), 0));
    REFUSES(CT_ERR_SHAPE, "positions (5) or (2, 5)", "got (2, 5, 1)",
            .positions = ct_unsqueeze(each(), 2));
    ct_tensor *ended = each();
    ct_release(ended);
    REFUSES(CT_ERR_ARGUMENT, "MultiheadAttention", "ended", .positions = ended);
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    REFUSES(CT_ERR_ARGUMENT, "MultiheadAttention", "different contexts",
            .positions = ct_zeros(other, CT_I64, CT_SHAPE(T)));
    ct_error_clear(other);
    ct_context_free(other);
}
END_TEST

int main(void) {
    return run_tests("mha_positions", setup, teardown,
                     TESTS(TEST(values_and_gradients), TEST(counted_positions_are_an_offset),
                           TEST(rows_are_independent), TEST(packed_and_padded_rows),
                           TEST(differences_of_positions_count),
                           TEST(without_rope_positions_do_nothing), TEST(decoding_in_chunks),
                           TEST(recomputed_layers_have_positions), TEST(the_table_is_a_buffer),
                           TEST(the_table_is_not_in_files), TEST(the_table_stays_f64_in_bf16),
                           TEST(without_memory_nothing_is_left), TEST(printed),
                           TEST(refused_options), TEST(refused_positions)));
}
