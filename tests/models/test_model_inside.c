/* The inside of a model: hidden states, attentions, and embeddings in place of ids. Their values
 * beside transformers' are in tests/torch/test_inside_live.py. */
#include "small_lm.h"

#define DROPPED                                                                                    \
    "{\"model_type\": \"llama\", \"num_key_value_heads\": 2, \"attention_dropout\": 0.5, " SIZES "}"
#define BARE "{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " SIZES "}"

static const char *const models[] = {
    LLAMA, GEMMA, GPT2, NEOX, WITH_QK_NORMS("olmo2"), BERT("BertForMaskedLM"), BARE};
enum { MODELS = sizeof models / sizeof *models, LAYERS = 2, WIDTH = 16, HEADS = 4 };

static ct_tensor *hidden[LAYERS + 1], *seen[LAYERS];

static bool all_null(void) {
    return !hidden[0] && !hidden[1] && !hidden[2] && !seen[0] && !seen[1];
}

/* Fills the arrays with what no forward writes. */
static void arrays_spoil(void) {
    static char rubbish;
    for (int i = 0; i <= LAYERS; i++) hidden[i] = (ct_tensor *)(void *)&rubbish;
    for (int i = 0; i < LAYERS; i++) seen[i] = (ct_tensor *)(void *)&rubbish;
}

static double largest(ct_tensor *x) { return ct_item(ct_max(ct_abs(x), CT_ALL, false)); }

static ct_module *layer_of(ct_module *lm, int i) {
    static const char *const lists[] = {"model.layers", "layers", "transformer.h",
                                        "gpt_neox.layers", "bert.encoder.layer"};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        char path[64];
        snprintf(path, sizeof path, "%s.%d", lists[k], i);
        ct_param param = {0};
        while (ct_module_next(lm, &param))
            if (!strncmp(param.name, path, strlen(path)) && param.name[strlen(path)] == '.')
                return ct_module_child(lm, path);
    }
    ck_abort_msg("no layers");
}

/* ---- values ---- */

/* Hidden states change no bit of a result, attentions only its rounding; each layer makes the next
 * hidden state, and the last is CT_LM_HIDDEN. */
START_TEST(hidden_states_of_a_call) {
    for (int dtype = 0; dtype < 2; dtype++) {
        ct_module *lm = rough_lm(models[_i], (ct_lm_opts){.dtype = dtype ? CT_F64 : CT_F32});
        ct_tensor *ids = some_ids(3, 7), *plain = run_lm(lm, ids, (ct_lm_call){0});
        ct_tensor *last = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_HIDDEN});
        arrays_spoil();
        ct_tensor *y = run_lm(lm, ids, (ct_lm_call){.hidden_states = hidden});
        ck_assert_double_eq(apart(y, plain), 0);
        ck_assert_double_eq(apart(hidden[LAYERS], last), 0);
        ct_tensor *before[LAYERS + 1];
        memcpy(before, hidden, sizeof before);
        y = run_lm(lm, ids, (ct_lm_call){.hidden_states = hidden, .attentions = seen});
        const double near = dtype ? 1e-12 : 1e-4;
        ck_assert_double_lt(apart(y, plain), near * largest(plain));
        for (int i = 0; i <= LAYERS; i++) {
            ck_assert(same_shape(hidden[i], CT_SHAPE(3, 7, WIDTH)));
            ck_assert_double_lt(apart(hidden[i], before[i]), near * largest(hidden[i]));
        }
        const bool causal = ct_lm_about(lm).causal;
        for (int i = 0; i < LAYERS; i++) {
            ct_mha_call call = {.causal = causal, .need_weights = true, .per_head = true};
            const ct_layer_out next = ct_encoder_layer_forward(layer_of(lm, i), hidden[i], call);
            if (i + 1 < LAYERS) ck_assert_double_eq(apart(next.out, hidden[i + 1]), 0);
            ck_assert(same_shape(seen[i], CT_SHAPE(3, HEADS, 7, 7)));
            ck_assert_double_eq(apart(next.self_weights, seen[i]), 0);
            ct_tensor *sums = ct_sum(seen[i], CT_DIMS(3), false);
            ck_assert_double_lt(largest(ct_add_scalar(sums, -1)), 1e-5);
            if (causal)
                ck_assert_double_eq(
                    largest(ct_mul(
                        seen[i],
                        ct_sub(ct_ones(context, ct_dtype_of(y), CT_SHAPE(7, 7)),
                               ct_tril(ct_ones(context, ct_dtype_of(y), CT_SHAPE(7, 7)), 0)))),
                    0);
        }
        /* only attentions */
        ct_tensor *alone[LAYERS];
        run_lm(lm, ids, (ct_lm_call){.attentions = alone, .result = CT_LM_HIDDEN});
        ck_assert_double_eq(apart(alone[1], seen[1]), 0);
    }
}
END_TEST

/* A call with embeddings is the call with their ids, whatever it asks for; positions and token
 * types are added to embeddings too. */
START_TEST(embeddings_in_place_of_ids) {
    ct_module *lm = rough_lm(models[_i], (ct_lm_opts){0});
    ct_tensor *ids = some_ids(3, 7), *rows = ct_lm_token_embeds(lm, ids);
    bool keep[21];
    for (int i = 0; i < 21; i++) keep[i] = _i % 2 ? i % 7 < 3 + i / 7 : i % 7 >= i / 7;
    ct_tensor *mask = ct_from_bool(context, CT_SHAPE(3, 7), keep);
    ck_assert(same_shape(rows, CT_SHAPE(3, 7, WIDTH)));
    const bool logits = strcmp(models[_i], BARE) != 0, types = strstr(models[_i], "bert") != NULL;
    static const ct_lm_result results[] = {CT_LM_OUT, CT_LM_HIDDEN, CT_LM_MEAN, CT_LM_LAST};
    for (int r = 0; r < 3 + logits; r++)
        for (int masked = 0; masked < 2; masked++) {
            ct_lm_call call = {.result = results[r], .key_mask = masked ? mask : NULL};
            if (types) call.token_types = ct_from_i64(context, CT_SHAPE(3, 7), (int64_t[21]){1, 1});
            ct_tensor *want = run_lm(lm, ids, call);
            call.embeds = rows;
            ck_assert_double_eq(apart(run_lm(lm, NULL, call), want), 0);
        }
    if (!logits) return;
    ct_tensor *targets = some_ids(3, 7);
    const ct_cross_entropy_opts mean = {0};
    ct_tensor *want = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, mean);
    arrays_spoil();
    const ct_lm_call call = {.embeds = rows, .hidden_states = hidden, .attentions = seen};
    ct_tensor *loss = ct_lm_loss(lm, NULL, targets, call, mean);
    ck_assert_double_lt(fabs(ct_item(loss) - ct_item(want)), 1e-5 * ct_item(want));
    ck_assert(same_shape(hidden[2], CT_SHAPE(3, 7, WIDTH)) &&
              same_shape(seen[1], CT_SHAPE(3, HEADS, 7, 7)));
    /* the library cannot know that these targets are the ids of the rows */
    ck_assert_ptr_nonnull(ct_lm_loss(lm, NULL, ids, (ct_lm_call){.embeds = rows}, mean));
}
END_TEST

/* Gemma 3 scales its rows, and ct_lm_token_embeds returns what it has scaled. */
START_TEST(rows_of_ids) {
    static const char *const tables[] = {"model.embed_tokens", "model.embed_tokens",
                                         "transformer.wte", "gpt_neox.embed_in"};
    for (int m = 0; m < 4; m++) {
        ct_module *lm = rough_lm(models[m], f64);
        ct_tensor *ids = some_ids(2, 5), *rows = ct_lm_token_embeds(lm, ids);
        char name[64];
        snprintf(name, sizeof name, "%s.weight", tables[m]);
        ct_tensor *want = ct_embedding(ids, ct_module_get(lm, name));
        ck_assert_double_lt(apart(rows, m == 1 ? ct_scale(want, 4) : want), 1e-12);
    }
    for (int i = 0; i < 3; i++) { /* weights at rest have rows of f32 */
        static const ct_dtype rest[] = {CT_BF16, CT_Q8_0, CT_Q4_0};
        const char *wide = "{\"model_type\": \"llama\", \"vocab_size\": 31, \"hidden_size\": 32, "
                           "\"intermediate_size\": 32, \"num_hidden_layers\": 2, "
                           "\"num_attention_heads\": 4}";
        ct_module *lm = new_lm(wide, (ct_lm_opts){.dtype = rest[i]});
        ct_tensor *ids = some_ids(2, 5), *rows = ct_lm_token_embeds(lm, ids);
        ck_assert_int_eq(ct_dtype_of(rows), CT_F32);
        ct_tensor *want = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_double_eq(apart(run_lm(lm, NULL, (ct_lm_call){.embeds = rows}), want), 0);
    }
}
END_TEST

/* ---- gradients ---- */

typedef struct {
    ct_module *lm;
    ct_tensor *factors[2 * LAYERS + 2], *mask;
} summed;

/* A random sum of the result, the hidden states and the attentions. */
static ct_tensor *sum_of_all(ct_tensor *const *in, int n, void *arg) {
    const summed *s = arg;
    (void)n;
    ct_tensor *states[LAYERS + 1], *weights[LAYERS];
    ct_tensor *y = ct_lm_forward(
        s->lm, NULL,
        (ct_lm_call){
            .embeds = in[0], .key_mask = s->mask, .hidden_states = states, .attentions = weights});
    ct_tensor *sum = ct_sum(ct_mul(y, s->factors[0]), CT_ALL, false);
    for (int i = 0; i <= LAYERS; i++)
        sum = ct_add(sum, ct_sum(ct_mul(states[i], s->factors[1 + i]), CT_ALL, false));
    for (int i = 0; i < LAYERS; i++)
        sum = ct_add(sum, ct_sum(ct_mul(weights[i], s->factors[2 + LAYERS + i]), CT_ALL, false));
    return sum;
}

START_TEST(gradients_through_all) {
    ct_module *lm = rough_lm(models[_i], f64);
    ct_tensor *rows = ct_scale(ct_lm_token_embeds(lm, some_ids(2, 5)), 0.7);
    bool keep[10] = {false, true, true, true, true, true, true, true, true, true};
    summed s = {.lm = lm, .mask = ct_from_bool(context, CT_SHAPE(2, 5), keep)};
    ct_tensor *y = run_lm(lm, NULL, (ct_lm_call){.embeds = rows});
    s.factors[0] = ct_randn(context, CT_F64, ct_shape_of(y));
    for (int i = 0; i <= LAYERS; i++)
        s.factors[1 + i] = ct_randn(context, CT_F64, CT_SHAPE(2, 5, WIDTH));
    for (int i = 0; i < LAYERS; i++)
        s.factors[2 + LAYERS + i] = ct_randn(context, CT_F64, CT_SHAPE(2, HEADS, 5, 5));
    rows = ct_detach(rows);
    const ct_gradcheck_result result =
        ct_gradcheck(sum_of_all, &s, &rows, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(result.ok, "%s", ct_error_message(context));
}
END_TEST

/* The gradient of a hidden state is all that flows back to it, and the tensors are the forward's
 * own: the caller's embeddings stay when the scope of the forward ends. */
START_TEST(handles_of_a_forward) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ct_tensor *rows = ct_detach(ct_lm_token_embeds(lm, some_ids(2, 5)));
    ct_set_requires_grad(rows, true);
    const ct_scope scope = ct_scope_open(context);
    const ct_lm_call call = {.embeds = rows, .hidden_states = hidden, .attentions = seen};
    ct_tensor *y = run_lm(lm, NULL, call);
    ck_assert(hidden[0] != rows && ct_requires_grad(seen[0]));
    for (int i = 0; i <= LAYERS; i++) ct_retain_grad(hidden[i]);
    ct_tensor *seed = ct_randn(context, CT_F64, ct_shape_of(y));
    ck_assert(ct_backward_with(&y, &seed, 1, (ct_backward_opts){0}));
    ck_assert_double_eq(apart(ct_grad(hidden[0]), ct_grad(rows)), 0);
    ck_assert_ptr_nonnull(ct_grad(hidden[1]));
    ct_scope_close(scope);
    ck_assert_double_ge(ct_item(ct_max(rows, CT_ALL, false)), 0); /* it has not ended */
    ck_refused(ct_abs(hidden[1]), CT_ERR_ARGUMENT, "abs", "ended");
    ck_refused(ct_abs(seen[0]), CT_ERR_ARGUMENT, "abs", "ended");
}
END_TEST

/* Recomputed layers have the hidden states and the gradients of others; a call for attentions keeps
 * their values. */
START_TEST(recomputed_layers) {
    static double kept[2][16384]; /* without recompute and with it */
    for (int attentions = 0; attentions < 2; attentions++) {
        for (int again = 0; again < 2; again++) {
            ct_context_free(context);
            context = ct_context_new((ct_context_opts){.seed = 3, .threads = 1});
            ct_module *lm = rough_lm(LLAMA, (ct_lm_opts){.dtype = CT_F64, .recompute = again});
            ct_module_train(lm, true);
            ct_lm_call call = {.hidden_states = hidden, .attentions = attentions ? seen : NULL};
            ct_tensor *y = run_lm(lm, some_ids(2, 5), call);
            ct_tensor *all[] = {ct_reshape(y, CT_SHAPE(-1)), ct_reshape(hidden[1], CT_SHAPE(-1)),
                                ct_reshape(attentions ? seen[1] : hidden[0], CT_SHAPE(-1))};
            ct_tensor *joined = ct_cat(all, 3, 0);
            ct_tensor *seed = ct_randn(context, CT_F64, ct_shape_of(joined));
            ct_tensor *grad = gradients_of(lm, joined, seed);
            ct_tensor *both = ct_cat((ct_tensor *[]){grad, joined}, 2, 0);
            const size_t bytes = (size_t)ct_numel(both) * sizeof **kept;
            ck_assert(bytes <= sizeof *kept);
            memcpy(kept[again], ct_data_f64(both), bytes);
            if (again) ck_assert_int_eq(memcmp(kept[0], kept[1], bytes), 0);
        }
    }
}
END_TEST

/* ---- what queries see ---- */

/* Tokens in parts, rows of unequal lengths: each row's weights are those of the row by itself, and
 * zeros for keys that it does not have. */
START_TEST(attentions_with_a_cache) {
    static const int lengths[] = {2, 5, 4}; /* then two tokens more */
    ct_module *lm = rough_lm(_i ? GEMMA : LLAMA, f64);
    ct_lm_cache *cache = ct_lm_cache_new(lm, 3, 12);
    int64_t text[3][7], first[15], more[6];
    bool keep[15];
    for (int b = 0; b < 3; b++)
        for (int t = 0; t < 7; t++) text[b][t] = ct_random_below(context, 31);
    for (int i = 0; i < 15; i++) first[i] = text[i / 5][i % 5], keep[i] = i % 5 < lengths[i / 5];
    for (int i = 0; i < 6; i++) more[i] = text[i / 2][lengths[i / 2] + i % 2];
    ct_lm_call call = {.cache = cache, .attentions = seen, .hidden_states = hidden};
    call.key_mask = ct_from_bool(context, CT_SHAPE(3, 5), keep);
    run_lm(lm, ct_from_i64(context, CT_SHAPE(3, 5), first), call);
    ct_tensor *at_first = seen[1];
    ck_assert(same_shape(at_first, CT_SHAPE(3, HEADS, 5, 5)));
    call.key_mask = NULL;
    run_lm(lm, ct_from_i64(context, CT_SHAPE(3, 2), more), call);
    for (int b = 0; b < 3; b++) {
        const int n = lengths[b];
        ct_tensor *alone[LAYERS], *states[LAYERS + 1];
        run_lm(lm, ct_from_i64(context, CT_SHAPE(1, n + 2), text[b]),
               (ct_lm_call){.attentions = alone, .hidden_states = states});
        ct_tensor *tokens = ct_narrow(ct_narrow(ct_select(at_first, 0, b), 1, 0, n), 2, 0, n);
        ct_tensor *first_of = ct_narrow(ct_narrow(ct_select(alone[1], 0, 0), 1, 0, n), 2, 0, n);
        ck_assert_double_lt(apart(tokens, first_of), 1e-12);
        for (int i = 0; i < LAYERS; i++) {
            ck_assert(same_shape(seen[i], CT_SHAPE(3, HEADS, 2, 7)));
            ct_tensor *row = ct_select(seen[i], 0, b), /* (H, 2, 7) */
                *want = ct_narrow(ct_select(alone[i], 0, 0), 1, n, 2);
            ck_assert_double_lt(apart(ct_narrow(row, 2, 0, n + 2), want), 1e-12);
            if (n < 5) ck_assert_double_eq(largest(ct_narrow(row, 2, n + 2, 5 - n)), 0);
        }
        for (int i = 0; i <= LAYERS; i++)
            ck_assert_double_lt(
                apart(ct_select(hidden[i], 0, b), ct_narrow(ct_select(states[i], 0, 0), 0, n, 2)),
                1e-10);
    }
    ct_lm_cache_free(cache);
}
END_TEST

/* A query of padding on the left sees nothing, and no query sees padding. */
START_TEST(attentions_with_padding) {
    ct_module *lm = rough_lm(LLAMA, f64);
    bool keep[10] = {false, false, true, true, true, true, true, true, true, false};
    ct_tensor *ids = some_ids(2, 5);
    const ct_lm_call call = {.key_mask = ct_from_bool(context, CT_SHAPE(2, 5), keep),
                             .attentions = seen};
    run_lm(lm, ids, call);
    for (int i = 0; i < LAYERS; i++) {
        ct_tensor *left = ct_select(seen[i], 0, 0), *right = ct_select(seen[i], 0, 1);
        ck_assert_double_eq(largest(ct_narrow(left, 1, 0, 2)), 0);
        ck_assert_double_eq(largest(ct_narrow(left, 2, 0, 2)), 0);
        ck_assert_double_eq(largest(ct_narrow(right, 2, 4, 1)), 0);
        ct_tensor *sums = ct_sum(right, CT_DIMS(2), false);
        ck_assert_double_lt(largest(ct_add_scalar(sums, -1)), 1e-12);
    }
}
END_TEST

/* In training the weights are those after dropout: zeros, and the others doubled. */
START_TEST(attentions_after_dropout) {
    ct_module *lm = rough_lm(DROPPED, f64);
    ct_tensor *ids = some_ids(3, 7), *plain[LAYERS];
    run_lm(lm, ids, (ct_lm_call){.attentions = plain});
    ct_module_train(lm, true);
    run_lm(lm, ids, (ct_lm_call){.attentions = seen});
    ct_tensor *same = ct_lt(ct_abs(ct_sub(seen[0], ct_scale(plain[0], 2))),
                            ct_full(context, CT_F64, CT_SCALAR, 1e-12)),
              *none = ct_eq_scalar(seen[0], 0), *either = ct_logical_or(same, none);
    ck_assert_double_eq(ct_item(ct_mean(ct_cast(either, CT_F64), CT_ALL, false)), 1);
    const double share = ct_item(ct_mean(ct_cast(same, CT_F64), CT_ALL, false));
    const double dropped = ct_item(ct_mean(ct_cast(none, CT_F64), CT_ALL, false));
    ck_assert(share > 0.3 && dropped > 0.5 && dropped < 0.85); /* 3/7 are hidden anyway */
}
END_TEST

/* ---- a program's own modules ---- */

static ct_tensor *doubled(void *data, ct_tensor *x) {
    (void)data;
    return ct_scale(x, 2);
}
static ct_tensor *failing(void *data, ct_tensor *x) {
    (void)x;
    return ct_fail(data, CT_ERR_IO, "out of luck");
}
static ct_tensor *greedy(void *data, ct_tensor *x) {
    (void)data;
    ct_tensor *y = ct_scale(x, 2);
    ct_release(x);
    return y;
}
static const ct_module_type doubling = {.name = "Doubling", .forward = doubled},
                            unlucky = {.name = "Unlucky", .forward = failing},
                            releasing = {.name = "Releasing", .forward = greedy};

static void put_own(ct_module *lm, const char *path, const ct_module_type *type) {
    ct_module_free(ct_module_set_child(lm, path, ct_module_new_of(context, type, context)));
    ct_module_train(lm, false);
}

START_TEST(attentions_of_own_modules) {
    ct_module *lm = rough_lm(LLAMA, f64);
    put_own(lm, "model.layers.1.self_attn", &doubling);
    arrays_spoil();
    ct_tensor *ids = some_ids(2, 5);
    run_lm(lm, ids, (ct_lm_call){.hidden_states = hidden, .attentions = seen});
    ck_assert(same_shape(seen[0], CT_SHAPE(2, HEADS, 5, 5)));
    ck_assert_ptr_null(seen[1]);
    put_own(lm, "model.layers.0.self_attn", &doubling);
    run_lm(lm, ids, (ct_lm_call){.attentions = seen});
    ck_assert(!seen[0] && !seen[1]);
}
END_TEST

/* ---- errors ---- */

START_TEST(arrays_after_an_error) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ct_tensor *ids = some_ids(2, 5), *rows = ct_lm_token_embeds(lm, ids);
    ct_lm_call call = {.hidden_states = hidden, .attentions = seen};
#define REFUSED(given, status, word)                                                               \
    do {                                                                                           \
        arrays_spoil();                                                                            \
        ck_refused(ct_lm_forward(lm, given, call), status, "lm_forward", word);                    \
        ck_assert(all_null());                                                                     \
        arrays_spoil();                                                                            \
        ck_refused(ct_lm_loss(lm, given, ids, call, (ct_cross_entropy_opts){0}), status,           \
                   "lm_loss", word);                                                               \
        ck_assert(all_null());                                                                     \
    } while (0)
    REFUSED(NULL, CT_ERR_ARGUMENT, "ids is NULL");
    call.embeds = rows;
    REFUSED(ids, CT_ERR_ARGUMENT, "ids and also embeds");
    call.embeds = ct_cast(rows, CT_F32);
    REFUSED(NULL, CT_ERR_DTYPE, "embeds must be f64");
    call.embeds = ct_narrow(rows, 2, 0, 15);
    REFUSED(NULL, CT_ERR_SHAPE, "embeds must be (B, T, 16)");
    call.embeds = ct_narrow(rows, 1, 0, 0);
    REFUSED(NULL, CT_ERR_SHAPE, "T >= 1");
    call.embeds = ct_select(rows, 0, 0);
    REFUSED(NULL, CT_ERR_SHAPE, "it has 2 dims");
    call.embeds = rows, call.key_mask = ct_ones(context, CT_BOOL, CT_SHAPE(2, 4));
    REFUSED(NULL, CT_ERR_SHAPE, "key_mask must be (2, 5)");
    call.key_mask = NULL;
    /* a module that fails behind the layers, or ends a tensor of the forward's */
    put_own(lm, "model.norm", &unlucky);
    arrays_spoil();
    ck_refused(ct_lm_forward(lm, NULL, call), CT_ERR_IO, "out of luck", "");
    ck_assert(all_null());
    put_own(lm, "model.layers.0.input_layernorm", &releasing);
    put_own(lm, "model.norm", &doubling);
    arrays_spoil();
    ck_refused(ct_lm_forward(lm, NULL, call), CT_ERR_ARGUMENT, "", "");
    ck_assert(all_null());
    ct_fail(context, CT_ERR_ARGUMENT, "an error before");
    arrays_spoil();
    ck_assert_ptr_null(ct_lm_forward(lm, NULL, call));
    ck_assert(all_null());
    ct_error_clear(context);
    ck_refused(ct_lm_token_embeds(lm, NULL), CT_ERR_ARGUMENT, "lm_token_embeds", "ids is NULL");
    ck_refused(ct_lm_token_embeds(lm, rows), CT_ERR_DTYPE, "lm_token_embeds", "i64");
    ck_refused(ct_lm_token_embeds(lm, ct_select(ids, 0, 0)), CT_ERR_SHAPE, "lm_token_embeds", "");
}
END_TEST

int main(void) {
    return run_tests("model inside", setup, end_with_folders,
                     TESTS(LOOP(hidden_states_of_a_call, MODELS),
                           LOOP(embeddings_in_place_of_ids, MODELS), TEST(rows_of_ids),
                           LOOP(gradients_through_all, MODELS), TEST(handles_of_a_forward),
                           TEST(recomputed_layers), LOOP(attentions_with_a_cache, 2),
                           TEST(attentions_with_padding), TEST(attentions_after_dropout),
                           TEST(attentions_of_own_modules), TEST(arrays_after_an_error)));
}
