/* Caches that store bf16: the bits of f32 caches of the same keys and values rounded, in every use
 * of a cache; the memory, refusals, and faults. */
#include "cache_model.h"

#include "src/core/isa.h"

enum { ROOM = 20, KV = 2, D = 4 };

static const ct_mha_opts extra = {.num_heads = H, .add_bias_kv = true, .add_zero_attn = true};

static ct_tensor *randn32(ct_shape shape) { return ct_randn(context, CT_F32, shape); }
static ct_tensor *rounded(ct_tensor *x) { return ct_cast(ct_cast(x, CT_BF16), CT_F32); }

static void same(const char *what, ct_tensor *a, ct_tensor *b) {
    ck_assert_msg(a && b && ct_error(context) == CT_OK, "%s: %s", what, ct_error_message(context));
    ck_assert_int_eq(ct_numel(a), ct_numel(b));
    const size_t n = (size_t)ct_numel(a);
    float *x = malloc(sizeof *x * (n + 1)), *y = malloc(sizeof *y * (n + 1));
    ck_assert(ct_to_f32(a, x, (int64_t)n) && ct_to_f32(b, y, (int64_t)n));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!memcmp(&x[i], &y[i], sizeof *x), "%s: number %d is %.9g, not %.9g", what,
                      (int)i, (double)x[i], (double)y[i]);
    free(x), free(y);
}

/* ---- a module and its twin ---- */

static ct_tensor *round_result(void *self, ct_tensor *x) {
    return rounded(ct_detach(ct_forward(ct_module_child(self, "was"), x)));
}

/* Replaces a child by one that rounds the child's results. */
static void round_child(ct_module *m, const char *path) {
    ct_module *own = ct_module_new(context, "Rounded"), *was = ct_module_set_child(m, path, own);
    ct_module_add_child(own, "was", was);
    ct_module_set_forward(own, round_result, own);
}

/* A module of separate projections, and a copy that rounds its keys and values itself. */
typedef struct {
    ct_module *m, *twin;
    ct_kv_cache *cache, *want; /* the cache of m is of bf16, the other of f32 */
} pair;

static pair pair_of(ct_mha_opts o, int64_t batch, int64_t room) {
    o.embed_dim = o.embed_dim ? o.embed_dim : E;
    o.separate = true, o.rope = false;
    pair p = {.m = shaken(ct_mha_new(context, o))};
    p.twin = ct_module_clone(p.m);
    round_child(p.twin, o.qk_norm ? "k_norm" : "k_proj");
    round_child(p.twin, "v_proj");
    for (int i = 0; i < 2 && o.add_bias_kv; i++) {
        ct_tensor *bias = ct_module_get(p.twin, i ? "bias_v" : "bias_k");
        ck_assert(ct_copy_into(bias, rounded(ct_detach(bias))));
    }
    p.cache = ct_kv_cache_new(p.m, batch, room);
    p.want = ct_kv_cache_new(p.twin, batch, room);
    no_error();
    return p;
}
static void pair_free(pair *p) { ct_kv_cache_free(p->cache), ct_kv_cache_free(p->want); }

static void same_forward(const char *what, pair *p, ct_tensor *q, ct_tensor *k, ct_mha_call call) {
    call.cache = p->cache;
    const ct_mha_out got = ct_mha_forward(p->m, q, k, k, call);
    call.cache = p->want;
    const ct_mha_out want = ct_mha_forward(p->twin, q, k, k, call);
    same(what, got.out, want.out);
    if (call.need_weights) same(what, got.weights, want.weights);
    ck_assert_int_eq(ct_kv_cache_length(p->cache), ct_kv_cache_length(p->want));
}

enum { WEIGHTS = 1, BIASED = 2, LENGTHS = 4, MASKED = 8, CONVERTED = 16, ALL_FLAGS = 32 };

static ct_tensor *coin(ct_shape shape) {
    return ct_gt(ct_rand(context, CT_F32, shape), ct_full(context, CT_F32, CT_SCALAR, 0.3));
}

/* The steps, some of them after rows were shortened and selected. */
static void same_steps(int which, int flags) {
    const ct_mha_opts *o = which < ALL ? &all[which] : &extra;
    char what[60];
    pair p = pair_of(*o, B, ROOM);
    const bool one_length = o->add_bias_kv || !(flags & LENGTHS);
    int converted = flags & CONVERTED ? 3 : 0;
    for (int i = 0; i < STEPS; i++) {
        const step *s = &steps[i];
        const int64_t keys = ct_kv_cache_length(p.cache) + s->t;
        ct_mha_call call = {.causal = true, .need_weights = flags & WEIGHTS, .per_head = i % 2};
        if (flags & BIASED) call.bias = randn32(CT_SHAPE(s->t, keys));
        if (flags & MASKED) call.key_mask = coin(CT_SHAPE(B, keys));
        if (flags & MASKED && i % 2) call.mask = coin(CT_SHAPE(s->t, keys));
        if (s->given && !one_length) call.lengths = ct_from_i64(context, CT_SHAPE(B), s->n);
        snprintf(what, sizeof what, "options %d, flags %d, step %d", which, flags, i);
        if (i == converted) ck_assert(ct_kv_cache_to_bf16(p.cache));
        ct_tensor *x = randn32(CT_SHAPE(B, s->t, E));
        if (i >= converted) {
            same_forward(what, &p, x, NULL, call);
        } else { /* until then other values, of the same keys and values */
            call.cache = p.cache;
            ck_assert(ct_mha_forward(p.m, x, NULL, NULL, call).out);
            call.cache = p.want;
            ck_assert(ct_mha_forward(p.twin, x, NULL, NULL, call).out);
        }
        if (i != 4) continue;
        ct_kv_cache *const both[] = {p.cache, p.want};
        for (int c = 0; c < 2; c++) {
            ck_assert(ct_kv_cache_select(both[c], (int64_t[]){2, 0, 2}));
            ck_assert(ct_kv_cache_truncate(both[c], 6));
            if (!one_length) ck_assert(ct_kv_cache_set_lengths(both[c], (int64_t[]){2, 3, 1}));
        }
    }
    pair_free(&p);
}

START_TEST(every_use_has_the_bits_of_rounded_f32) {
    setup();
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int flags = 0; flags < ALL_FLAGS; flags++) same_steps(_i, flags);
    ct_scope_close(scope);
    teardown();
}
END_TEST

/* ---- sizes, threads, instruction sets ---- */

enum { LARGE = 64, PROMPT = 280, MORE = 6 };

/* A prompt of several blocks, tokens one by one, and several tokens at once. out, if it is not
 * NULL, receives the results. */
static void large_steps(float *out) {
    static const int64_t t[] = {PROMPT, 1, 1, 2, MORE - 4};
    const ct_mha_opts o = {
        .embed_dim = LARGE, .num_heads = 4, .num_kv_heads = 2, .window = {150, 0}, .head_dim = 64};
    pair p = pair_of(o, 2, PROMPT + MORE);
    ck_assert(ct_kv_cache_to_bf16(p.cache));
    for (int i = 0; i < 5; i++) {
        ct_tensor *x = randn32(CT_SHAPE(2, t[i], LARGE));
        ct_mha_call call = {.causal = true};
        same_forward("a large cache", &p, x, NULL, call);
        ck_assert(ct_kv_cache_truncate(p.cache, ct_kv_cache_length(p.cache) - t[i]));
        call.cache = p.cache;
        ct_tensor *y = ct_mha_forward(p.m, x, NULL, NULL, call).out;
        ck_assert(ct_to_f32(y, out, ct_numel(y)));
        out += ct_numel(y);
    }
    pair_free(&p);
}

START_TEST(any_number_of_threads) {
    enum { RESULTS_OF = 2 * (PROMPT + MORE) * LARGE };
    static float first[RESULTS_OF], now[RESULTS_OF];
    for (int threads = 1; threads < 4; threads++)
        for (int matmul = 0; matmul < 2; matmul++) {
            context = ct_context_new(
                (ct_context_opts){.seed = 3,
                                  .threads = threads,
                                  .isa = cti_isa_at(_i)->name,
                                  .matmul = matmul ? CT_MATMUL_BF16 : CT_MATMUL_F32});
            ct_scope scope = ct_scope_open_no_grad(context);
            large_steps(matmul ? now : threads == 1 ? first : now);
            if (!matmul) ck_assert(threads == 1 || !memcmp(first, now, sizeof first));
            ct_scope_close(scope);
            teardown();
        }
}
END_TEST

/* ---- rotary positions ---- */

/* Views of all keys and values of the cache. */
static void read_all(ct_kv_cache *cache, ct_tensor **k, ct_tensor **v) {
    *k = *v = randn32(CT_SHAPE(B, KV, 0, D));
    ck_assert_msg(ct_kv_cache_append(cache, k, v), "%s", ct_error_message(context));
}

/* Keys are rounded after rope: the contents are the rounded contents of an f32 cache. The result is
 * the same as ct_attention's with these keys and values. */
START_TEST(rotated_keys_are_rounded) {
    const ct_mha_opts o = {.embed_dim = E,
                           .num_heads = H,
                           .num_kv_heads = KV,
                           .head_dim = D,
                           .rope = true,
                           .separate = true,
                           .qk_norm = true,
                           .window = {6, 0}};
    ct_module *m = shaken(ct_mha_new(context, o));
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N), *plain = ct_kv_cache_new(m, B, N);
    ck_assert(ct_kv_cache_to_bf16(cache));
    static const int64_t t[] = {3, 1, 2, 1, 4, 1};
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int64_t i = 0, at = 0; i < 6; at += t[i++]) {
        ct_tensor *x = randn32(CT_SHAPE(B, t[i], E)), *k[2], *v[2];
        ct_mha_call call = {.causal = true, .cache = plain};
        ck_assert(ct_mha_forward(m, x, NULL, NULL, call).out);
        call.cache = cache;
        ct_tensor *y = ct_mha_forward(m, x, NULL, NULL, call).out;
        read_all(cache, &k[0], &v[0]), read_all(plain, &k[1], &v[1]);
        ck_assert(ct_dtype_of(k[0]) == CT_BF16 && ct_dtype_of(k[1]) == CT_F32);
        ck_assert_int_eq(ct_dim(k[0], 2), at + t[i]);
        k[0] = ct_cast(k[0], CT_F32), v[0] = ct_cast(v[0], CT_F32);
        same("keys", k[0], rounded(k[1])), same("values", v[0], rounded(v[1]));
        ct_tensor *q = ct_split_heads(ct_forward(ct_module_child(m, "q_proj"), x), H),
                  *positions = ct_arange(context, CT_I64, (double)at, (double)(at + t[i]), 1);
        q = ct_rope(ct_forward(ct_module_child(m, "q_norm"), q), positions, o.rotary);
        ct_tensor *z = ct_attention(q, k[0], v[0],
                                    (ct_attention_opts){
                                        .causal = true, .lower_right = true, .window = o.window})
                           .out;
        same("out", y, ct_forward(ct_module_child(m, "out_proj"), ct_combine_heads(z)));
    }
    ct_scope_close(scope);
    ct_kv_cache_free(cache), ct_kv_cache_free(plain);
}
END_TEST

/* ---- gradients of queries ---- */

/* No gradient flows through a cache, but the projection of the queries has one. */
START_TEST(queries_have_gradients) {
    static const int64_t t[] = {3, 1, 2, 5};
    for (int weights = 0; weights < 2; weights++) {
        pair p = pair_of(all[3], B, ROOM);
        ck_assert(ct_kv_cache_to_bf16(p.cache));
        for (int i = 0; i < 4; i++) {
            ct_tensor *x = randn32(CT_SHAPE(B, t[i], E)), *grad[2];
            for (int which = 0; which < 2; which++) {
                ct_module *m = which ? p.twin : p.m;
                ct_mha_call call = {
                    .causal = true, .need_weights = weights, .cache = which ? p.want : p.cache};
                const ct_mha_out y = ct_mha_forward(m, x, NULL, NULL, call);
                ct_tensor *loss = ct_sum(ct_mul(y.out, y.out), CT_ALL, false);
                if (weights)
                    loss = ct_add(loss, ct_sum(ct_mul(y.weights, y.weights), CT_ALL, false));
                ck_assert_msg(ct_backward(loss), "%s", ct_error_message(context));
                ct_tensor *w = ct_module_get(m, "q_proj.weight");
                grad[which] = ct_clone(ct_grad(w));
                for (ct_param q = {0}; ct_module_next(m, &q);) ct_zero_grad(q.tensor);
            }
            ck_assert_double_gt(largest(grad[0]), 0);
            same("the gradient of q_proj", grad[0], grad[1]);
        }
        pair_free(&p);
    }
}
END_TEST

/* ---- the keys of another sequence ---- */

START_TEST(another_sequence_is_rounded) {
    for (int when = 0; when < 2; when++) { /* before it is filled, or after */
        pair p = pair_of(all[3], B, ROOM);
        ct_tensor *k = randn32(CT_SHAPE(B, 7, E));
        ct_scope scope = ct_scope_open_no_grad(context);
        if (!when) ck_assert(ct_kv_cache_to_bf16(p.cache));
        for (int64_t t = 1; t < 6; t++) {
            const ct_mha_call call = {.need_weights = t == 5};
            ct_tensor *q = randn32(CT_SHAPE(B, t, E));
            if (when && t == 1) { /* fills both */
                ct_mha_forward(p.m, q, k, k, (ct_mha_call){.cache = p.cache});
                ct_mha_forward(p.twin, q, k, k, (ct_mha_call){.cache = p.want});
                ck_assert(ct_kv_cache_to_bf16(p.cache));
            }
            same_forward("another sequence", &p, q, k, call);
        }
        ct_scope_close(scope);
        pair_free(&p);
    }
}
END_TEST

enum { LAYERS = 2 };

/* A decoder, whose caches also hold the keys and values of the memory. Before the conversion its
 * results differ from those of the model with rounded keys, and so would the keys of a second
 * layer. So it has one layer, unless it is converted at once. */
static void decoder_steps(int convert_at) {
    const int layers = convert_at ? 1 : LAYERS;
    const ct_layer_opts o = {.embed_dim = E, .num_heads = H, .hidden = 12, .attn.separate = true};
    static const char *const names[] = {"self_attn.k_proj", "self_attn.v_proj",
                                        "multihead_attn.k_proj", "multihead_attn.v_proj"};
    ct_module *m[2] = {shaken(ct_decoder_new(context, o, layers, true))};
    ct_kv_cache *caches[2][LAYERS];
    m[1] = ct_module_clone(m[0]);
    for (int i = 0; i < 4 * layers; i++) {
        char path[60];
        snprintf(path, sizeof path, "layers.%d.%s", i / 4, names[i % 4]);
        round_child(m[1], path);
    }
    for (int w = 0; w < 2; w++) ck_assert(ct_kv_caches_new(m[w], B, ROOM, caches[w], layers));
    ct_tensor *memory = randn32(CT_SHAPE(B, 5, E));
    for (int i = 0; i < 6; i++) {
        ct_tensor *x = randn32(CT_SHAPE(B, i % 3 + 1, E)), *y[2];
        if (i == convert_at)
            for (int l = 0; l < layers; l++) ck_assert(ct_kv_cache_to_bf16(caches[0][l]));
        if (i == 3) { /* a new sequence, whose memory makes new caches */
            memory = randn32(CT_SHAPE(B, 8, E));
            for (int c = 0; c < 2 * layers; c++)
                ck_assert(ct_kv_cache_truncate(caches[c / layers][c % layers], 0));
        }
        for (int w = 0; w < 2; w++)
            y[w] = ct_decoder_forward(m[w], x, memory,
                                      (ct_stack_call){.self.causal = true, .caches = caches[w]});
        if (i >= convert_at) same("a decoder", y[0], y[1]);
        const int64_t order[] = {1, 1, 0};
        ct_tensor *index = ct_from_i64(context, CT_SHAPE(B), order);
        for (int c = 0; c < 2 * layers; c++)
            ck_assert(ct_kv_cache_select(caches[c / layers][c % layers], order));
        memory = ct_index_select(memory, 0, index);
    }
    for (int c = 0; c < 2 * layers; c++) ct_kv_cache_free(caches[c / layers][c % layers]);
}

START_TEST(a_decoder_and_its_memory) {
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int convert_at = 0; convert_at < 3; convert_at++) decoder_steps(convert_at);
    ct_scope_close(scope);
}
END_TEST

/* ---- append ---- */

START_TEST(appended_keys_are_views) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, B, KV, N, D),
                *want = ct_kv_cache_new_of(context, CT_F32, B, KV, N, D);
    ck_assert(ct_kv_cache_to_bf16(cache));
    for (int64_t t = 1; t < 5; t++) {
        ct_tensor *x = randn32(CT_SHAPE(B, KV, t, D)), *k = x, *v = ct_scale(x, 3),
                  *k32 = rounded(k), *v32 = rounded(v), *q = randn32(CT_SHAPE(B, H, t, D));
        ck_assert(ct_kv_cache_append(cache, &k, &v) && ct_kv_cache_append(want, &k32, &v32));
        ck_assert(ct_dtype_of(k) == CT_BF16 && ct_dtype_of(v) == CT_BF16);
        same("keys", ct_cast(k, CT_F32), k32), same("values", ct_cast(v, CT_F32), v32);
        ct_attention_opts o = {.causal = true, .lower_right = true, .need_weights = t % 2};
        same("attention", ct_attention(q, k, v, o).out, ct_attention(q, k32, v32, o).out);
    }
    ct_kv_cache_free(cache), ct_kv_cache_free(want);
}
END_TEST

/* A view from before the conversion keeps its numbers, and the cache has them rounded. */
START_TEST(positions_are_rounded) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, B, KV, N, D);
    ct_tensor *k = randn32(CT_SHAPE(B, KV, 5, D)), *v = randn32(CT_SHAPE(B, KV, 5, D)),
              *given[2] = {k, v}, *all_k, *all_v;
    ck_assert(ct_kv_cache_append(cache, &k, &v));
    ck_assert(ct_kv_cache_to_bf16(cache) && ct_kv_cache_to_bf16(cache));
    read_all(cache, &all_k, &all_v);
    same("keys", ct_cast(all_k, CT_F32), rounded(given[0]));
    same("values", ct_cast(all_v, CT_F32), rounded(given[1]));
    same("a view", k, given[0]), same("a view", v, given[1]);
    ck_assert_int_eq(ct_kv_cache_length(cache), 5);
    ct_kv_cache_free(cache);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_is_halved) {
    enum { LENGTH = 1000 };
    const int64_t bytes = (int64_t)2 * B * KV * LENGTH * D * (int64_t)sizeof(float);
    for (int filled = 0; filled < 2; filled++) {
        ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, B, KV, LENGTH, D);
        ct_scope scope = ct_scope_open(context);
        ct_tensor *k = randn32(CT_SHAPE(B, KV, 900, D)), *v = k;
        if (filled) ck_assert(ct_kv_cache_append(cache, &k, &v));
        ct_scope_close(scope);
        const int64_t before = live();
        ck_assert(ct_kv_cache_to_bf16(cache));
        ck_assert_int_lt(llabs(before - live() - bytes / 2), bytes / 20);
        ct_kv_cache_free(cache);
    }
}
END_TEST

/* Several tokens convert a block of keys at a time: their memory does not grow with the cache. */
START_TEST(no_copy_of_the_cache) {
    enum { T = 8, LENGTH = 20000 };
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, 1, 1, LENGTH, D);
    ct_tensor *k = randn32(CT_SHAPE(1, 1, LENGTH, D)), *v = k, *q = randn32(CT_SHAPE(1, 1, T, D));
    ck_assert(ct_kv_cache_to_bf16(cache) && ct_kv_cache_append(cache, &k, &v));
    const int64_t before = live();
    ct_memory_reset_peak(context);
    ck_assert_ptr_nonnull(ct_attention(q, k, v, (ct_attention_opts){0}).out);
    ck_assert_int_lt(ct_memory(context).peak - before, LENGTH * D);
    ct_kv_cache_free(cache);
}
END_TEST

/* ---- faults ---- */

typedef struct {
    ct_context *c;
    ct_module *m;
    ct_kv_cache *cache;
    ct_tensor *x, *memory, *k, *v;
    int64_t length;
} faulted;

static bool convert(void *arg) { return ct_kv_cache_to_bf16(((faulted *)arg)->cache); }
static void check_conversion(const fault_end *end, void *arg) {
    const faulted *f = arg;
    ct_error_clear(f->c);
    ct_tensor *k = ct_zeros(f->c, CT_F32, CT_SHAPE(1, 1, 0, 96)), *none = k, *v = k;
    FAULT_CK(end, ct_kv_cache_length(f->cache) == f->length);
    FAULT_CK(end, ct_kv_cache_append(f->cache, &k, &v));
    FAULT_CK(end, ct_dtype_of(k) == (end->done ? CT_BF16 : CT_F32));
    ct_release(k), ct_release(v), ct_release(none);
}
static bool decode(void *arg) {
    faulted *f = arg;
    const ct_mha_call call = {.causal = true, .cache = f->cache}, none = {0};
    return ct_decoder_layer_forward(f->m, f->x, f->memory, call, none).out;
}
static bool append(void *arg) {
    faulted *f = arg;
    f->k = f->v = f->x;
    return ct_kv_cache_append(f->cache, &f->k, &f->v);
}
static void check_length(const fault_end *end, void *arg) {
    const faulted *f = arg;
    FAULT_CK(end, ct_kv_cache_length(f->cache) == f->length + (end->done ? ct_dim(f->x, -2) : 0));
    FAULT_CK(end, end->done || !f->k || (f->k == f->x && f->v == f->x));
}

/* A conversion that fails changes nothing, also not one of two caches; a forward and an append that
 * fail leave the length. */
START_TEST(faults_change_nothing) {
    ct_context *c = refusing_context();
    const ct_layer_opts o = {.embed_dim = 96, .num_heads = 1, .hidden = 4};
    ct_module *m = ct_decoder_layer_new(c, o);
    faulted f = {.c = c, .m = m, .memory = ct_randn(c, CT_F32, CT_SHAPE(1, 30, 96))};
    f.cache = ct_kv_cache_new(ct_module_child(m, "self_attn"), 1, 2000);
    f.x = ct_randn(c, CT_F32, CT_SHAPE(1, 40, 96));
    ck_assert(decode(&f));
    f.length = 40;
    fault_case sweep = {.name = "a conversion",
                        .context = &f.c,
                        .arg = &f,
                        .run = convert,
                        .end = check_conversion,
                        .grows = true,
                        .least = 4,
                        .most = 50};
    memory_sweep(sweep);
    sweep.name = "a forward", sweep.run = decode, sweep.end = check_length, sweep.most = 200;
    f.x = ct_randn(c, CT_F32, CT_SHAPE(1, 500, 96));
    memory_sweep(sweep);
    f.length = 540, sweep.name = "an append", sweep.run = append, sweep.least = 1;
    f.x = ct_randn(c, CT_F32, CT_SHAPE(1, 1, 600, 96));
    memory_sweep(sweep);
    ct_kv_cache_free(f.cache);
    ct_context_free(c);
}
END_TEST

/* ---- refusals ---- */

START_TEST(refused_calls) {
    ct_module *m = make(0, CT_F64);
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N), *none = ct_kv_cache_new(m, 0, 0);
    ck_refused(ct_kv_cache_to_bf16(cache), CT_ERR_DTYPE, "ct_kv_cache_to_bf16", "the cache is f64");
    ck_refused(ct_kv_cache_to_bf16(none), CT_ERR_DTYPE, "ct_kv_cache_to_bf16", "f64");
    ct_kv_cache_free(cache), ct_kv_cache_free(none);
    ck_refused(ct_kv_cache_to_bf16(cache), CT_ERR_ARGUMENT, "ct_kv_cache_to_bf16", "freed");
    ck_assert(!ct_kv_cache_to_bf16(NULL));
    cache = ct_kv_cache_new_of(context, CT_F32, B, KV, N, D);
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert(!ct_kv_cache_to_bf16(cache));
    expect(CT_ERR_IO, "pending", "");
    ct_tensor *k, *v;
    read_all(cache, &k, &v);
    ck_assert_int_eq(ct_dtype_of(k), CT_F32);
    ck_assert(ct_kv_cache_to_bf16(cache));
    k = v = ct_cast(randn32(CT_SHAPE(B, KV, 2, D)), CT_BF16);
    ck_refused(ct_kv_cache_append(cache, &k, &v), CT_ERR_DTYPE, "key is bf16",
               "the cache bf16, which takes f32");
    k = v = ct_cast(k, CT_F64);
    ck_refused(ct_kv_cache_append(cache, &k, &v), CT_ERR_DTYPE, "key is f64", "takes f32");
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    ct_kv_cache_free(cache);
    none = ct_kv_cache_new_of(context, CT_F32, 0, 1, 0, 1); /* no element */
    ck_assert(ct_kv_cache_to_bf16(none));
    ct_kv_cache_free(none);
}
END_TEST

static ct_tensor *widen_result(void *self, ct_tensor *x) {
    return ct_cast(ct_forward(ct_module_child(self, "was"), x), CT_F64);
}

/* A child that makes keys of f64 is an error, as without a cache. */
START_TEST(keys_of_another_dtype) {
    pair p = pair_of(all[0], B, ROOM);
    ct_module *own = ct_module_new(context, "Wide"), *was = ct_module_set_child(p.m, "k_proj", own);
    ct_module_add_child(own, "was", was);
    ct_module_set_forward(own, widen_result, own);
    ck_assert(ct_kv_cache_to_bf16(p.cache));
    ck_refused(
        ct_mha_forward(p.m, randn32(CT_SHAPE(B, 1, E)), NULL, NULL, (ct_mha_call){.cache = p.cache})
            .out,
        CT_ERR_DTYPE, "the cache is bf16", "f64");
    pair_free(&p);
}
END_TEST

int main(void) {
    int isas = 0;
    while (cti_isa_at(isas)) isas++;
    return run_cases(
        "cache, bf16",
        CASES({.name = "steps",
               .tests = TESTS(LOOP(every_use_has_the_bits_of_rounded_f32, ALL + 1),
                              LOOP(any_number_of_threads, isas))},
              {.name = "uses",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(rotated_keys_are_rounded), TEST(queries_have_gradients),
                              TEST(another_sequence_is_rounded), TEST(a_decoder_and_its_memory),
                              TEST(appended_keys_are_views), TEST(positions_are_rounded),
                              TEST(memory_is_halved), TEST(no_copy_of_the_cache),
                              TEST(faults_change_nothing), TEST(refused_calls),
                              TEST(keys_of_another_dtype))}));
}
