/* Caches whose rows have different lengths: a batch gives the results of its rows in batches of
 * one; rows are shortened and selected; a forward that fails changes no length. */
#include "cache_model.h"

/* ---- a batch and its rows ---- */

/* A row in a batch of one: all of its tokens at once. */
typedef struct {
    ct_tensor *x, *bias, *out, *weights; /* (1, N, E), (N, N), (1, N, E), (1, H, N, N) */
} alone;

static alone run_alone(ct_module *m, bool biased) {
    alone r = {.x = randn(CT_SHAPE(1, N, E)), .bias = biased ? randn(CT_SHAPE(N, N)) : NULL};
    ct_mha_call call = {.causal = true, .bias = r.bias, .need_weights = true, .per_head = true};
    const ct_mha_out y = ct_mha_forward(m, r.x, NULL, NULL, call);
    r.out = y.out, r.weights = y.weights;
    return r;
}

/* The step's tokens (B, T, E), and their bias (B, 1, T, S). Padding is NaN. */
static ct_tensor *tokens_of(const step *s, const alone *rows, const int64_t *length) {
    ct_tensor *x = ct_full(context, CT_F64, CT_SHAPE(B, s->t, E), NAN);
    for (int b = 0; b < B; b++)
        if (s->n[b])
            ck_assert(ct_copy_into(ct_narrow(ct_narrow(x, 0, b, 1), 1, 0, s->n[b]),
                                   ct_narrow(rows[b].x, 1, length[b], s->n[b])));
    return x;
}
static ct_tensor *bias_of(const step *s, const alone *rows, const int64_t *length, int64_t keys) {
    ct_tensor *bias = ct_full(context, CT_F64, CT_SHAPE(B, 1, s->t, keys), NAN);
    for (int b = 0; b < B; b++)
        for (int64_t t = 0; t < s->n[b]; t++)
            for (int64_t j = 0; j < length[b] + s->n[b]; j++)
                ct_data_f64(bias)[(b * s->t + t) * keys + j] =
                    ct_data_f64(rows[b].bias)[(length[b] + t) * N + j];
    return bias;
}

static void same_step(const step *s, const alone *rows, const int64_t *length, ct_mha_out y,
                      ct_module *m) {
    ct_tensor *rest = param_of(m, "out_proj.bias");
    for (int b = 0; b < B; b++) {
        ct_tensor *out = ct_narrow(y.out, 0, b, 1);
        const int64_t n = s->n[b], keys = length[b] + n;
        for (int64_t t = n; t < s->t; t++) /* queries behind the row's tokens see nothing */
            ck_assert_double_eq(distance(ct_reshape(ct_narrow(out, 1, t, 1), CT_SHAPE(E)), rest),
                                0);
        if (!n) continue;
        ck_assert_double_lt(
            distance(ct_narrow(out, 1, 0, n), ct_narrow(rows[b].out, 1, length[b], n)), 1e-12);
        if (!y.weights) continue;
        ct_tensor *w = ct_narrow(y.weights, 0, b, 1),
                  *want = ct_narrow(ct_narrow(rows[b].weights, 2, length[b], n), 3, 0, keys);
        ck_assert_double_lt(distance(ct_narrow(ct_narrow(w, 2, 0, n), 3, 0, keys), want), 1e-12);
        if (n < s->t) ck_assert_double_eq(largest(ct_narrow(w, 2, n, s->t - n)), 0);
        if (keys < ct_dim(w, 3))
            ck_assert_double_eq(largest(ct_narrow(w, 3, keys, ct_dim(w, 3) - keys)), 0);
    }
}

static void batch_and_rows(int which, bool biased, bool weights) {
    ct_module *m = make(which, CT_F64);
    alone rows[B];
    for (int b = 0; b < B; b++) rows[b] = run_alone(m, biased);
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
    int64_t length[B] = {0}, longest = 0;
    for (int i = 0; i < STEPS; i++) {
        const step *s = &steps[i];
        ct_mha_call call = {.causal = true,
                            .cache = cache,
                            .need_weights = weights,
                            .per_head = true,
                            .lengths = s->given ? ct_from_i64(context, CT_SHAPE(B), s->n) : NULL,
                            .bias = biased ? bias_of(s, rows, length, longest + s->t) : NULL};
        const ct_mha_out y = ct_mha_forward(m, tokens_of(s, rows, length), NULL, NULL, call);
        same_step(s, rows, length, y, m);
        int64_t got[B];
        ck_assert(ct_kv_cache_lengths(cache, got));
        for (int b = 0; b < B; b++) {
            length[b] += s->n[b];
            longest = length[b] > longest ? length[b] : longest;
            ck_assert_int_eq(got[b], length[b]);
        }
        ck_assert_int_eq(ct_kv_cache_length(cache), longest);
    }
    ck_assert_int_eq(longest, N);
    ct_kv_cache_free(cache);
}

START_TEST(a_batch_is_its_rows) {
    setup();
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int flags = 0; flags < 4; flags++) batch_and_rows(_i, flags & 1, flags & 2);
    ct_scope_close(scope);
    teardown();
}
END_TEST

/* ---- lengths ---- */

START_TEST(lengths_are_set) {
    ct_module *m = make(1, CT_F64);
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
    ct_tensor *x = randn(CT_SHAPE(B, 6, E)), *one = randn(CT_SHAPE(B, 1, E)), *y[2];
    const int64_t shorter[B] = {2, 6, 0}, bad[][B] = {{3, 6, 0}, {-1, 0, 0}, {0, 0, 1}};
    int64_t got[B];
    ct_mha_call call = {.causal = true, .cache = cache};
    ck_assert(ct_mha_forward(m, x, NULL, NULL, call).out);
    ck_assert(ct_kv_cache_set_lengths(cache, shorter) && ct_kv_cache_lengths(cache, got));
    ck_assert(!memcmp(got, shorter, sizeof got) && ct_kv_cache_length(cache) == 6);
    for (int i = 0; i < 3; i++)
        ck_refused(ct_kv_cache_set_lengths(cache, bad[i]), CT_ERR_ARGUMENT,
                   i == 0   ? "row 0: a length of 3 from one of 2"
                   : i == 1 ? "row 0: a length of -1 from one of 2"
                            : "row 2: a length of 1 from one of 0",
                   "ct_kv_cache_set_lengths");
    ck_assert(ct_kv_cache_lengths(cache, got) && !memcmp(got, shorter, sizeof got));
    /* as if the tokens behind had never come */
    y[0] = ct_mha_forward(m, one, NULL, NULL, call).out;
    ck_assert(ct_kv_cache_truncate(cache, 0));
    call.lengths = ct_from_i64(context, CT_SHAPE(B), shorter);
    ck_assert(ct_mha_forward(m, x, NULL, NULL, call).out);
    call.lengths = NULL;
    y[1] = ct_mha_forward(m, one, NULL, NULL, call).out;
    ck_assert_double_eq(distance(y[0], y[1]), 0);
    ck_assert(ct_kv_cache_truncate(cache, 2) && ct_kv_cache_lengths(cache, got));
    ck_assert(got[0] == 2 && got[1] == 2 && got[2] == 1);
    ck_refused(ct_kv_cache_truncate(cache, 3), CT_ERR_ARGUMENT, "a length of 3 from one of 2", "");
    ck_refused(ct_kv_cache_lengths(cache, NULL), CT_ERR_ARGUMENT, "ct_kv_cache_lengths",
               "3 numbers is NULL");
    ck_refused(ct_kv_cache_set_lengths(cache, NULL), CT_ERR_ARGUMENT, "ct_kv_cache_set_lengths",
               "NULL");
    ck_refused(ct_kv_cache_select(cache, NULL), CT_ERR_ARGUMENT, "ct_kv_cache_select", "NULL");
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert(!ct_kv_cache_set_lengths(cache, bad[2]) && !ct_kv_cache_select(cache, bad[2]) &&
              !ct_kv_cache_lengths(cache, got));
    expect(CT_ERR_IO, "pending", "");
    ck_assert(!ct_kv_cache_lengths(NULL, got) && !ct_kv_cache_set_lengths(NULL, got) &&
              !ct_kv_cache_select(NULL, got));
    ct_kv_cache_free(cache);
    ck_refused(ct_kv_cache_lengths(cache, got), CT_ERR_ARGUMENT, "ct_kv_cache_lengths", "freed");
}
END_TEST

START_TEST(extra_keys_have_one_length) {
    ct_module *m = ct_mha_new(
        context,
        (ct_mha_opts){.embed_dim = E, .num_heads = 2, .add_bias_kv = true, .dtype = CT_F64});
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
    ct_tensor *x = randn(CT_SHAPE(B, 4, E));
    ck_assert(ct_mha_forward(m, x, NULL, NULL, (ct_mha_call){.cache = cache}).out);
    ck_refused(ct_kv_cache_set_lengths(cache, (int64_t[]){3, 3, 2}), CT_ERR_ARGUMENT,
               "rows 0 and 2 get lengths 3 and 2", "add_bias_kv");
    ck_assert(ct_kv_cache_set_lengths(cache, (int64_t[]){3, 3, 3}));
    ck_assert_int_eq(ct_kv_cache_length(cache), 3);
    ct_kv_cache_free(cache);
}
END_TEST

/* The keys of another sequence are one for all rows. */
START_TEST(rows_of_another_sequence) {
    ct_module *m = make(0, CT_F64);
    ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
    ct_tensor *q = randn(CT_SHAPE(B, 4, E)), *k = randn(CT_SHAPE(B, 4, E));
    ct_mha_call call = {.cache = cache};
    ct_tensor *y = ct_mha_forward(m, q, k, k, call).out;
    ck_assert_double_eq(distance(ct_mha_forward(m, q, k, k, call).out, y), 0);
    ck_assert_int_eq(ct_kv_cache_length(cache), 4);
    ck_assert(ct_kv_cache_set_lengths(cache, (int64_t[]){4, 2, 4}));
    ck_refused(ct_mha_forward(m, q, k, k, call).out, CT_ERR_ARGUMENT, "rows 0 and 1",
               "lengths 4 and 2");
    ct_kv_cache_free(cache);
}
END_TEST

START_TEST(room_is_checked) {
    ct_module *m = make(0, CT_F64);
    ct_kv_cache *cache = ct_kv_cache_new(m, B, 4);
    ct_tensor *x = randn(CT_SHAPE(B, 4, E));
    ct_tensor *lengths = ct_from_i64(context, CT_SHAPE(B), (int64_t[]){4, 1, 2});
    ct_mha_call call = {.causal = true, .cache = cache, .lengths = lengths};
    int64_t got[B];
    ck_assert(ct_mha_forward(m, x, NULL, NULL, call).out);
    ck_refused(ct_mha_forward(m, ct_narrow(x, 1, 0, 1), NULL, NULL, call).out, CT_ERR_ARGUMENT,
               "length 0 is 4", "[0, 1]");
    call.lengths = NULL;
    ck_refused(ct_mha_forward(m, ct_narrow(x, 1, 0, 1), NULL, NULL, call).out, CT_ERR_SHAPE,
               "room for 4 positions and holds 4; 1 more do not fit", "");
    ct_data_i64(lengths)[0] = 0, ct_data_i64(lengths)[2] = 3, call.lengths = lengths;
    ck_refused(ct_mha_forward(m, x, NULL, NULL, call).out, CT_ERR_SHAPE,
               "room for 4 positions and holds 2; 3 more do not fit", "");
    ct_data_i64(lengths)[2] = -1;
    ck_refused(ct_mha_forward(m, x, NULL, NULL, call).out, CT_ERR_ARGUMENT, "length 2 is -1", "");
    ck_assert(ct_kv_cache_lengths(cache, got) && got[0] == 4 && got[1] == 1 && got[2] == 2);
    /* masks cover the longest row and all new tokens, also those that there is no room for */
    ct_data_i64(lengths)[2] = 2;
    call.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(B, 8));
    call.mask = ct_ones(context, CT_BOOL, CT_SHAPE(4, 8));
    call.bias = ct_zeros(context, CT_F64, CT_SHAPE(8));
    call.need_weights = true;
    const ct_mha_out y = ct_mha_forward(m, x, NULL, NULL, call);
    no_error();
    ck_assert_int_eq(ct_dim(y.weights, 2), 4);
    ck_assert(ct_kv_cache_lengths(cache, got) && got[0] == 4 && got[1] == 2 && got[2] == 4);
    ct_kv_cache_free(cache);
}
END_TEST

/* Lengths of T for all rows change no bit, also behind keys of a cache. */
START_TEST(lengths_may_be_all_tokens) {
    for (int which = 0; which < ALL; which++) {
        ct_module *m = make(which, CT_F64);
        ct_tensor *x = randn(CT_SHAPE(B, N, E)), *y[2][3];
        for (int given = 0; given < 2; given++) {
            ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
            for (int64_t i = 0, at = 0, t; i < 3; i++, at += t) {
                t = (int64_t[]){7, 1, 4}[i];
                ct_mha_call call = {.causal = true, .cache = cache};
                if (given) call.lengths = ct_full(context, CT_I64, CT_SHAPE(B), (double)t);
                y[given][i] = ct_mha_forward(m, ct_narrow(x, 1, at, t), NULL, NULL, call).out;
            }
            ct_kv_cache_free(cache);
        }
        for (int i = 0; i < 3; i++) ck_assert_double_eq(distance(y[0][i], y[1][i]), 0);
    }
}
END_TEST

/* ---- select ---- */

START_TEST(rows_are_selected) {
    const int64_t chosen[][B] = {{0, 1, 2}, {1, 2, 0}, {2, 2, 1}, {0, 0, 0}},
                  lengths[B] = {3, 5, 1};
    for (int i = 0; i < 4; i++) {
        ct_module *m = make(2, CT_F64);
        ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
        ct_tensor *x = randn(CT_SHAPE(B, 5, E)), *more = randn(CT_SHAPE(B, 2, E));
        ct_tensor *index = ct_from_i64(context, CT_SHAPE(B), chosen[i]);
        ct_mha_call call = {.causal = true, .cache = cache};
        call.lengths = ct_from_i64(context, CT_SHAPE(B), lengths);
        ck_assert(ct_mha_forward(m, x, NULL, NULL, call).out);
        ck_assert(ct_kv_cache_select(cache, chosen[i]));
        call.lengths = NULL;
        ct_tensor *y = ct_mha_forward(m, more, NULL, NULL, call).out;
        ct_kv_cache_free(cache);
        call.cache = cache = ct_kv_cache_new(m, B, N); /* the chosen rows from the beginning */
        int64_t of[B], got[B];
        for (int b = 0; b < B; b++) of[b] = lengths[chosen[i][b]];
        call.lengths = ct_from_i64(context, CT_SHAPE(B), of);
        ck_assert(ct_mha_forward(m, ct_index_select(x, 0, index), NULL, NULL, call).out);
        call.lengths = NULL;
        ck_assert(ct_kv_cache_lengths(cache, got) && !memcmp(got, of, sizeof of));
        ck_assert_double_eq(distance(ct_mha_forward(m, more, NULL, NULL, call).out, y), 0);
        ck_refused(ct_kv_cache_select(cache, (int64_t[]){0, 3, 0}), CT_ERR_ARGUMENT,
                   "row 1 is to be row 3 of 3", "");
        ck_refused(ct_kv_cache_select(cache, (int64_t[]){0, 0, -1}), CT_ERR_ARGUMENT,
                   "row 2 is to be row -1 of 3", "");
        ct_kv_cache_free(cache);
    }
    ct_kv_cache *empty = ct_kv_cache_new(make(0, CT_F64), 0, 4);
    ck_assert(ct_kv_cache_select(empty, NULL) && ct_kv_cache_set_lengths(empty, NULL) &&
              ct_kv_cache_lengths(empty, NULL));
    ct_kv_cache_free(empty);
}
END_TEST

/* In a decoder layer the rows of the memory move too. */
START_TEST(rows_of_a_memory_are_selected) {
    ct_layer_opts o = {.embed_dim = E, .num_heads = 2, .dtype = CT_F64, .attn.rope = true};
    ct_module *m = shaken(ct_decoder_layer_new(context, o)),
              *self = ct_module_child(m, "self_attn");
    ct_kv_cache *cache = ct_kv_cache_new(self, B, N), *other = ct_kv_cache_new(self, B, N);
    ct_tensor *x = randn(CT_SHAPE(B, 3, E)), *memory = randn(CT_SHAPE(B, 4, E)),
              *more = randn(CT_SHAPE(B, 1, E));
    const int64_t chosen[B] = {2, 0, 0};
    ct_tensor *index = ct_from_i64(context, CT_SHAPE(B), chosen);
    const ct_mha_call call = {.causal = true, .cache = cache}, none = {0};
    ck_assert(ct_decoder_layer_forward(m, x, memory, call, none).out);
    ck_assert(ct_kv_cache_select(cache, chosen));
    ct_tensor *y = ct_decoder_layer_forward(m, more, memory, call, none).out;
    const ct_mha_call again = {.causal = true, .cache = other};
    x = ct_index_select(x, 0, index), memory = ct_index_select(memory, 0, index);
    ck_assert(ct_decoder_layer_forward(m, x, memory, again, none).out);
    ck_assert_double_eq(distance(ct_decoder_layer_forward(m, more, memory, again, none).out, y), 0);
    ct_kv_cache_free(cache), ct_kv_cache_free(other);
}
END_TEST

typedef struct {
    ct_context *c;
    ct_kv_cache *cache;
} selection;
static bool select_some(void *arg) {
    return ct_kv_cache_select(((selection *)arg)->cache, (int64_t[]){1, 1, 0});
}
static void check_rows(const fault_end *end, void *arg) {
    selection *s = arg;
    const int64_t want[2][B] = {{5, 60, 40}, {60, 60, 5}};
    int64_t got[B];
    ct_error_clear(s->c);
    FAULT_CK(end, ct_kv_cache_lengths(s->cache, got));
    FAULT_CK(end, !memcmp(got, want[end->done], sizeof got));
}

START_TEST(a_failed_selection_changes_nothing) {
    ct_context *plain = context, *c = refusing_context();
    context = c;
    ct_module *m = make(0, CT_F64);
    selection s = {c, ct_kv_cache_new(m, B, 64)};
    ct_tensor *x = randn(CT_SHAPE(B, 60, E)),
              *lengths = ct_from_i64(c, CT_SHAPE(B), (int64_t[]){5, 60, 40});
    ck_assert(
        ct_mha_forward(m, x, NULL, NULL, (ct_mha_call){.cache = s.cache, .lengths = lengths}).out);
    memory_sweep((fault_case){.name = "a selection",
                              .context = &s.c,
                              .arg = &s,
                              .run = select_some,
                              .end = check_rows,
                              .least = 1,
                              .most = 50});
    ct_kv_cache_free(s.cache);
    ct_context_free(c);
    context = plain;
}
END_TEST

/* ---- memory ---- */

/* A forward of ragged rows with all masks; which & 1: with weights, which & 2: of several tokens.
 */
typedef struct {
    ct_context *c;
    ct_module *m;
    ct_tensor *x;
    ct_mha_call call;
    ct_mha_out y;
} ragged_run;
static bool run_ragged(void *arg) {
    ragged_run *r = arg;
    r->y = ct_mha_forward(r->m, r->x, NULL, NULL, r->call);
    return r->y.out;
}
static void check_ragged(const fault_end *end, void *arg) {
    ragged_run *r = arg;
    int64_t got[B];
    ct_error_clear(r->c);
    FAULT_CK(end, ct_kv_cache_lengths(r->call.cache, got));
    FAULT_CK(end, end->done || (got[0] == 4 && got[1] == 1 && got[2] == 0));
    FAULT_CK(end, (r->y.weights != NULL) == (end->done && r->call.need_weights));
}

START_TEST(a_failed_forward_leaves_the_rows) {
    ct_context *plain = context, *c = refusing_context();
    context = c;
    for (int which = 0; which < 4; which++) {
        const int64_t t = which & 2 ? 3 : 1;
        ct_mha_opts o = all[2];
        o.embed_dim = 192, o.dtype = CT_F64;
        ct_module *m = ct_mha_new(c, o);
        ct_kv_cache *cache = ct_kv_cache_new(m, B, N);
        const step *s = &steps[0];
        ct_tensor *lengths = ct_from_i64(c, CT_SHAPE(B), s->n);
        ck_assert(ct_mha_forward(m, randn(CT_SHAPE(B, s->t, 192)), NULL, NULL,
                                 (ct_mha_call){.cache = cache, .lengths = lengths})
                      .out);
        ragged_run r = {.c = c, .m = m, .x = randn(CT_SHAPE(B, t, 192))};
        r.call = (ct_mha_call){.causal = true,
                               .need_weights = which & 1,
                               .cache = cache,
                               .lengths = ct_from_i64(c, CT_SHAPE(B), (int64_t[]){1, 0, t}),
                               .mask = ct_ones(c, CT_BOOL, CT_SHAPE(t, 4 + t))};
        memory_sweep((fault_case){.name = "a forward of rows",
                                  .context = &r.c,
                                  .arg = &r,
                                  .run = run_ragged,
                                  .end = check_ragged,
                                  .grows = true,
                                  .least = 3,
                                  .most = 200});
        ct_kv_cache_free(cache);
    }
    ct_context_free(c);
    context = plain;
}
END_TEST

/* ---- stacks ---- */

static bool fails;
static ct_tensor *maybe(void *self, ct_tensor *x) {
    if (fails) return ct_fail(context, CT_ERR_IO, "on purpose");
    return ct_forward(ct_module_child(self, "was"), x);
}

/* A layer behind that fails takes back what the layers before have appended. */
START_TEST(a_failed_stack_leaves_all_rows) {
    ct_layer_opts o = {.embed_dim = E, .num_heads = 2, .dtype = CT_F64, .attn.rope = true};
    ct_module *m = shaken(ct_encoder_new(context, o, 3, true)),
              *own = ct_module_new(context, "Maybe"),
              *was = ct_module_set_child(m, "layers.1.linear2", own);
    ct_module_add_child(own, "was", was);
    ct_module_set_forward(own, maybe, own);
    ct_kv_cache *caches[3];
    ck_assert(ct_kv_caches_new(m, B, N, caches, 3));
    ct_tensor *x = randn(CT_SHAPE(B, 3, E)), *y[2];
    int64_t lengths[B] = {3, 1, 2}, got[B];
    ct_stack_call call = {.self.causal = true, .caches = caches};
    call.self.lengths = ct_from_i64(context, CT_SHAPE(B), lengths);
    ck_assert(ct_encoder_forward(m, x, call));
    for (int again = 0; again < 2; again++) {
        fails = true;
        ck_refused(ct_encoder_forward(m, x, call), CT_ERR_IO, "layers.1", "on purpose");
        fails = false;
        for (int i = 0; i < 3; i++)
            ck_assert(ct_kv_cache_lengths(caches[i], got) && !memcmp(got, lengths, sizeof got));
        y[again] = ct_encoder_forward(m, x, call);
        for (int i = 0; i < 3; i++) ck_assert(ct_kv_cache_set_lengths(caches[i], lengths));
    }
    ck_assert_double_eq(distance(y[0], y[1]), 0);
    ck_assert(ct_kv_cache_set_lengths(caches[2], (int64_t[]){3, 0, 2}));
    ck_refused(ct_encoder_forward(m, x, call), CT_ERR_ARGUMENT, "layers 0 and 2",
               "different lengths");
    for (int i = 0; i < 3; i++) ct_kv_cache_free(caches[i]);
}
END_TEST

/* ---- caches of no module ---- */

START_TEST(keys_are_appended_to_each_row) {
    ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F64, B, 2, N, 3);
    ct_tensor *k = randn(CT_SHAPE(B, 2, 4, 3)), *v = randn(CT_SHAPE(B, 2, 4, 3)), *first = k,
              *more = randn(CT_SHAPE(B, 2, 2, 3)), *w = more, *appended = more;
    const int64_t lengths[B] = {1, 4, 0};
    ck_assert(ct_kv_cache_append(cache, &k, &v) && ct_kv_cache_set_lengths(cache, lengths));
    ck_assert(ct_kv_cache_append(cache, &more, &w));
    ck_assert_int_eq(ct_dim(more, 2), 6);
    for (int b = 0; b < B; b++) {
        ct_tensor *row = ct_narrow(more, 0, b, 1);
        ck_assert_double_eq(
            distance(ct_narrow(row, 2, lengths[b], 2), ct_narrow(appended, 0, b, 1)), 0);
        if (lengths[b])
            ck_assert_double_eq(distance(ct_narrow(row, 2, 0, lengths[b]),
                                         ct_narrow(ct_narrow(first, 0, b, 1), 2, 0, lengths[b])),
                                0);
    }
    /* attention of one's own: each row as if it were alone */
    int64_t after[B];
    ck_assert(ct_kv_cache_lengths(cache, after));
    ct_attention_opts o = {.causal = true, .lower_right = true};
    o.lengths = ct_from_i64(context, CT_SHAPE(B), after);
    ct_tensor *q = randn(CT_SHAPE(B, H, 2, 3)), *y = ct_attention(q, more, w, o).out;
    for (int b = 0; b < B; b++) {
        ct_tensor *keys = ct_narrow(ct_narrow(more, 0, b, 1), 2, 0, after[b]),
                  *values = ct_narrow(ct_narrow(w, 0, b, 1), 2, 0, after[b]);
        ct_attention_opts by_itself = {
            .mask = ct_tril(ct_ones(context, CT_BOOL, CT_SHAPE(2, after[b])), lengths[b])};
        ct_tensor *one = ct_attention(ct_narrow(q, 0, b, 1), keys, values, by_itself).out;
        ck_assert_double_lt(distance(ct_narrow(y, 0, b, 1), one), 1e-14);
    }
    ct_kv_cache_free(cache);
}
END_TEST

int main(void) {
    return run_cases("cache, rows",
                     CASES({.name = "formula", .tests = TESTS(LOOP(a_batch_is_its_rows, ALL))},
                           {.name = "uses",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(lengths_are_set), TEST(extra_keys_have_one_length),
                                           TEST(rows_of_another_sequence), TEST(room_is_checked),
                                           TEST(lengths_may_be_all_tokens), TEST(rows_are_selected),
                                           TEST(rows_of_a_memory_are_selected),
                                           TEST(a_failed_selection_changes_nothing),
                                           TEST(a_failed_forward_leaves_the_rows),
                                           TEST(a_failed_stack_leaves_all_rows),
                                           TEST(keys_are_appended_to_each_row))}));
}
