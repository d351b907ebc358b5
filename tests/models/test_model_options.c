/* Options of models that no other suite of C notices: each dropout, padding, segments, the loss
 * with a softcap, initial values, new rows, and the layouts of saved folders. */
#include "small_lm.h"

static const char *const decoders[] = {LLAMA, GEMMA, GPT2, NEOX, WITH_QK_NORMS("olmo2"), GRANITE4};
enum { DECODERS = sizeof decoders / sizeof *decoders };

/* Training draws by each dropout of its own, and an evaluation by none. */
START_TEST(dropouts) {
#define NO_DROPOUT                                                                                 \
    "\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 1, "               \
    "\"n_head\": 4, \"n_positions\": 32"
#define BERT_DROPOUT                                                                               \
    "\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], "           \
    "\"max_position_embeddings\": 32, " SIZES
    static const struct {
        const char *config;
        bool draws;
    } cases[] = {
        {"{" NO_DROPOUT ", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}", false},
        {"{" NO_DROPOUT ", \"resid_pdrop\": 0.4, \"embd_pdrop\": 0, \"attn_pdrop\": 0}", true},
        {"{" NO_DROPOUT ", \"resid_pdrop\": 0, \"embd_pdrop\": 0.4, \"attn_pdrop\": 0}", true},
        {"{" NO_DROPOUT ", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0.4}", true},
        {"{" BERT_DROPOUT ", \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0}",
         false},
        {"{" BERT_DROPOUT ", \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0, "
         "\"classifier_dropout\": 0.4}",
         true},
        {"{" BERT_DROPOUT ", \"hidden_dropout_prob\": 0.4, \"attention_probs_dropout_prob\": 0, "
         "\"classifier_dropout\": 0}",
         true},
        {"{\"model_type\": \"llama\", " SIZES ", \"attention_dropout\": 0.4}", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *lm = rough_lm(cases[i].config, f64);
        ct_tensor *ids = some_ids(1, 6), *eval = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), eval), 0);
        ct_module_train(lm, true);
        ct_tensor *first = run_lm(lm, ids, (ct_lm_call){0}), *second;
        second = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_msg((apart(first, second) > 0) == cases[i].draws, "%s", cases[i].config);
    }
    /* the sublayers' results are dropped twice in a layer, one of which is attention's */
    ct_module *lm = rough_lm(cases[1].config, f64);
    ct_tensor *down = ct_module_get(lm, "transformer.h.0.mlp.c_proj.weight"),
              *bias = ct_module_get(lm, "transformer.h.0.mlp.c_proj.bias");
    ct_init_constant(down, 0), ct_init_constant(bias, 0);
    ct_tensor *ids = some_ids(1, 6);
    ct_module_train(lm, true);
    ct_tensor *first = run_lm(lm, ids, (ct_lm_call){0}), *second;
    second = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_gt(apart(first, second), 0);
}
END_TEST

/* Tokens behind padding have the logits that they have without it. */
START_TEST(padding_on_the_left) {
    for (int c = 0; c < DECODERS; c++) {
        ct_module *lm = rough_lm(decoders[c], f64);
        ct_tensor *ids = some_ids(1, 7);
        const bool mask[] = {false, false, false, true, true, true, true};
        ct_tensor *padded =
            run_lm(lm, ids, (ct_lm_call){.key_mask = ct_from_bool(context, CT_SHAPE(1, 7), mask)});
        ct_tensor *plain = run_lm(lm, ct_narrow(ids, 1, 3, 4), (ct_lm_call){0});
        ck_assert_double_lt(apart(ct_narrow(padded, 1, 3, 4), plain), 1e-12);
    }
}
END_TEST

/* A model with 32 positions takes 32 tokens of a row, also in parts and beside padding. */
START_TEST(tables_of_positions) {
    ct_module *lm = rough_lm(GPT2, f64);
    ct_tensor *ids = some_ids(1, 32), *more = some_ids(1, 40);
    bool mask[40];
    ct_tensor *whole = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_LAST});
    ck_refused(ct_lm_forward(lm, more, (ct_lm_call){0}), CT_ERR_ARGUMENT,
               "lm_forward: a row has 40 tokens, and the model 32 positions", "");
    for (int i = 0; i < 40; i++) mask[i] = i > 0;
    ct_lm_call masked = {.key_mask = ct_from_bool(context, CT_SHAPE(1, 40), mask)};
    ck_refused(ct_lm_forward(lm, more, masked), CT_ERR_ARGUMENT, "39 tokens", "32 positions");
    mask[0] = true;
    mask[32] = false; /* padding behind the last position */
    masked = (ct_lm_call){.key_mask = ct_from_bool(context, CT_SHAPE(1, 33), mask),
                          .result = CT_LM_LAST};
    ct_tensor *parts[] = {ids, ct_narrow(more, 1, 0, 1)};
    ck_assert_double_lt(apart(run_lm(lm, ct_cat(parts, 2, 1), masked), whole), 1e-11);
    /* the same behind 29 tokens of a cache */
    ct_lm_cache *cache = ct_lm_cache_new(lm, 1, 40);
    run_lm(lm, ct_narrow(ids, 1, 0, 29), (ct_lm_call){.cache = cache});
    ct_tensor *last[] = {ct_narrow(ids, 1, 29, 3), ct_narrow(more, 1, 0, 2)};
    masked.cache = cache;
    const bool three[] = {true, true, true, false, false};
    masked.key_mask = ct_from_bool(context, CT_SHAPE(1, 5), three);
    ck_assert_double_lt(apart(run_lm(lm, ct_cat(last, 2, 1), masked), whole), 1e-11);
    ck_refused(ct_lm_forward(lm, ct_narrow(ids, 1, 0, 1), (ct_lm_call){.cache = cache}),
               CT_ERR_ARGUMENT, "33 tokens", "32 positions");
    int64_t length;
    ck_assert(ct_lm_cache_lengths(cache, &length) && length == 32);
}
END_TEST

/* Parts of a segment that lie apart count on; padding between them has no place. */
START_TEST(segments_that_lie_apart) {
    ct_module *lm = rough_lm(GPT2, f64);
    ct_tensor *ids = some_ids(1, 7);
    const int64_t numbers[] = {1, 1, 2, 2, 1, 1, 1};
    const bool mask[] = {true, true, true, true, false, true, true};
    ct_tensor *y = run_lm(lm, ids,
                          (ct_lm_call){.segments = ct_from_i64(context, CT_SHAPE(1, 7), numbers),
                                       .key_mask = ct_from_bool(context, CT_SHAPE(1, 7), mask)});
    ct_tensor *parts[] = {ct_narrow(ids, 1, 0, 2), ct_narrow(ids, 1, 5, 2)};
    ct_tensor *whole = run_lm(lm, ct_cat(parts, 2, 1), (ct_lm_call){0});
    ck_assert_double_lt(apart(ct_narrow(y, 1, 5, 2), ct_narrow(whole, 1, 2, 2)), 1e-12);
}
END_TEST

START_TEST(a_loss_with_a_softcap) {
    ct_module *lm = rough_lm("{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, "
                             "\"head_dim\": 8, \"final_logit_softcapping\": 2, " SIZES "}",
                             f64);
    ct_tensor *ids = some_ids(2, 5), *targets = some_ids(2, 5);
    ct_tensor *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
    ct_tensor *logits = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_le(ct_item(ct_max(ct_abs(logits), CT_ALL, false)), 2);
    ck_assert_double_lt(apart(loss, ct_cross_entropy(logits, targets, (ct_cross_entropy_opts){0})),
                        1e-12);
}
END_TEST

/* The loss and gradients of a few tokens are the same as with whole logits, for every head and all
 * options, and need less memory. */
START_TEST(a_loss_of_few_tokens) {
    static const char *const configs[] = {
        LLAMA, BERT("BertForMaskedLM"),
        "{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"final_logit_softcapping\": 2, " SIZES "}"};
    ct_tensor *weight = ct_rand(context, CT_F64, CT_SHAPE(31));
    for (int which = 0; which < 18; which++) {
        ct_module *lm = rough_lm(configs[which % 3], f64);
        const ct_cross_entropy_opts opts = {.reduction = (ct_reduction)(which / 3 % 3),
                                            .label_smoothing = which < 9 ? 0 : 0.1,
                                            .weight = which < 9 ? NULL : weight};
        ct_tensor *ids = some_ids(3, 7), *targets = some_ids(3, 7);
        for (int64_t i = 0; i < 21; i++)
            if (i % 5 != which % 5) ct_data_i64(targets)[i] = -100;
        ct_tensor *want = ct_cross_entropy(run_lm(lm, ids, (ct_lm_call){0}), targets, opts),
                  *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, opts);
        ck_assert_msg(loss && same_shape(loss, ct_shape_of(want)), "%s", ct_error_message(context));
        ck_assert_double_lt(apart(loss, want), 1e-12);
        ct_tensor *seed = ct_randn(context, CT_F64, ct_shape_of(want));
        ct_tensor *of_want = gradients_of(lm, want, seed), *of_loss = gradients_of(lm, loss, seed);
        const double most = ct_item(ct_max(ct_abs(of_want), CT_ALL, false));
        ck_assert_double_lt(apart(of_loss, of_want), 1e-12 * most);
        ct_data_i64(targets)[20] = 31;
        ck_refused(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, opts), CT_ERR_ARGUMENT,
                   "cross_entropy", "target 31 at (2, 6)");
        ct_data_i64(targets)[20] = 0;
        for (int64_t i = 0; i < 21; i++) ct_data_i64(targets)[i] = -100;
        loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
        ck_assert_double_eq(ct_item(loss), 0);
    }
    ct_module *lm = rough_lm("{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "
                             "\"vocab_size\": 20000, "
                             "\"max_position_embeddings\": 32, \"hidden_size\": 16, "
                             "\"intermediate_size\": 24, \"num_hidden_layers\": 1, "
                             "\"num_attention_heads\": 4}",
                             f64);
    const ct_reduction reductions[] = {CT_MEAN, CT_NONE};
    for (int r = 0; r < 2; r++) {
        int64_t peak[2];
        for (int few = 0; few < 2; few++) {
            ct_tensor *ids = some_ids(2, 30), *targets = some_ids(2, 30);
            for (int64_t i = 0; few && i < 60; i++)
                if (i % 10) ct_data_i64(targets)[i] = -100;
            const int64_t live = ct_memory(context).live;
            ct_memory_reset_peak(context);
            ct_tensor *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0},
                                         (ct_cross_entropy_opts){.reduction = reductions[r]});
            peak[few] = ct_memory(context).peak - live;
            ck_assert(loss && same_shape(loss, r ? CT_SHAPE(2, 30) : CT_SCALAR));
            for (int64_t i = 0; r && i < 60; i++)
                ck_assert_int_eq(ct_data_f64(loss)[i] > 0, !few || i % 10 == 0);
        }
        ck_assert_int_lt(peak[1], peak[0] / 4);
    }
}
END_TEST

/* Without a tape a forward has the memory of one layer, however many there are, unless the caller
 * asks for their hidden states. */
START_TEST(memory_of_layers) {
    int64_t peak[2][2];
    for (int many = 0; many < 2; many++) {
        char config[400];
        snprintf(config, sizeof config,
                 "{\"model_type\": \"llama\", \"vocab_size\": 31, \"hidden_size\": 256, "
                 "\"intermediate_size\": 32, \"num_hidden_layers\": %d, "
                 "\"num_attention_heads\": 4}",
                 many ? 16 : 2);
        ct_module *lm = rough_lm(config, (ct_lm_opts){0});
        ct_tensor *ids = some_ids(2, 32), *states[17];
        for (int asks = 0; asks < 2; asks++) {
            ct_scope scope = ct_scope_open_no_grad(context);
            run_lm(lm, ids, (ct_lm_call){0});
            const int64_t live = ct_memory(context).live;
            ct_memory_reset_peak(context);
            run_lm(lm, ids, (ct_lm_call){.hidden_states = asks ? states : NULL});
            peak[asks][many] = ct_memory(context).peak - live;
            ct_scope_close(scope);
        }
    }
    const int64_t state = (int64_t)2 * 32 * 256 * (int64_t)sizeof(float);
    ck_assert_int_lt(peak[0][1] - peak[0][0], state);
    ck_assert_int_ge(peak[1][1] - peak[1][0], 14 * state);
}
END_TEST

/* DistilBERT drops the result of the feed-forward and not that of attention: without a feed-forward
 * a layer draws nothing. */
START_TEST(dropout_of_distilbert) {
    ct_module *lm =
        rough_lm("{\"model_type\": \"distilbert\", \"vocab_size\": 31, \"dim\": 16, "
                 "\"hidden_dim\": 24, \"n_layers\": 1, \"n_heads\": 4, \"dropout\": 0.4, "
                 "\"attention_dropout\": 0, \"max_position_embeddings\": 32}",
                 f64);
    for (int without = 0; without < 2; without++) {
        ct_tensor *states[2], *ids = some_ids(2, 6);
        ct_module *layer = ct_module_child(lm, "transformer.layer.0");
        for (int i = 0; without && i < 2; i++)
            ck_assert(
                ct_init_constant(ct_module_get(layer, i ? "ffn.lin2.bias" : "ffn.lin2.weight"), 0));
        ct_module_train(lm, true);
        run_lm(lm, ids, (ct_lm_call){.hidden_states = states});
        ct_module_train(lm, false);
        ct_tensor *plain = ct_encoder_layer_forward(layer, states[0], (ct_mha_call){0}).out;
        ck_assert_int_eq(apart(plain, states[1]) > 0, !without);
    }
}
END_TEST

START_TEST(caches_of_another_model) {
    ct_module *both =
        rough_lm("{\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true, "
                 "\"head_dim\": 8, " SIZES "}",
                 f64);
    ck_refused(ct_lm_cache_new(both, 1, 4) != NULL, CT_ERR_ARGUMENT, "lm_cache_new", "not causal");
    ct_module *a = rough_lm(LLAMA, f64), *b = rough_lm(LLAMA, f64);
    ct_lm_cache *cache = ct_lm_cache_new(a, 1, 4);
    ck_refused(ct_lm_forward(b, some_ids(1, 2), (ct_lm_call){.cache = cache}), CT_ERR_ARGUMENT,
               "lm_forward", "another model");
    const int64_t ones[] = {1, 1};
    ct_tensor *segments = ct_from_i64(context, CT_SHAPE(1, 2), ones);
    ck_refused(ct_lm_forward(a, some_ids(1, 2), (ct_lm_call){.cache = cache, .segments = segments}),
               CT_ERR_ARGUMENT, "lm_forward", "segments");
    ct_lm_cache_free(cache);
}
END_TEST

/* ---- initial values ---- */

static double deviation(ct_module *lm, const char *name) {
    ct_tensor *x = ct_reshape(ct_module_get(lm, name), CT_SHAPE(-1));
    return sqrt(ct_item(ct_mean(ct_mul(x, x), CT_ALL, false)));
}

START_TEST(initial_values) {
    ct_module *gemma = new_lm(GEMMA, f64), *llama = new_lm(LLAMA, f64);
    ck_assert_double_eq(deviation(gemma, "model.norm.weight"), 0); /* of 1 + w */
    ck_assert_double_eq(deviation(llama, "model.norm.weight"), 1);
    ct_module *gpt2 = new_lm("{\"model_type\": \"gpt2\", \"vocab_size\": 500, \"n_embd\": 64, "
                             "\"n_layer\": 8, \"initializer_range\": 0.5, \"n_head\": 4, "
                             "\"pad_token_id\": 3}",
                             f64);
    ck_assert_double_eq(deviation(gpt2, "transformer.h.0.attn.c_attn.bias"), 0);
    ck_assert_double_eq_tol(deviation(gpt2, "transformer.h.0.attn.c_attn.weight"), 0.5, 0.02);
    ck_assert_double_eq_tol(deviation(gpt2, "transformer.h.0.attn.c_proj.weight"), 0.125, 0.01);
    ck_assert_double_eq_tol(deviation(gpt2, "transformer.h.7.mlp.c_proj.weight"), 0.125, 0.01);
    ct_module *padded = new_lm("{\"model_type\": \"llama\", \"pad_token_id\": 3, " SIZES "}", f64);
    ct_tensor *table = ct_module_get(padded, "model.embed_tokens.weight");
    ck_assert_double_eq(ct_item(ct_max(ct_abs(ct_select(table, 0, 3)), CT_ALL, false)), 0);
    ck_assert_double_gt(ct_item(ct_max(ct_abs(ct_select(table, 0, 2)), CT_ALL, false)), 0);
}
END_TEST

/* A new bf16 model has the numbers of a new f32 model, rounded, without the memory of one. */
START_TEST(initial_values_in_bf16) {
    ct_tensor *ids = some_ids(2, 5), *logits[2];
    int64_t peak[2];
    for (int half = 0; half < 2; half++) {
        ct_rng_set(context, (ct_rng){.seed = 7});
        ct_memory_reset_peak(context);
        const int64_t before = ct_memory(context).live;
        ct_module *lm = new_lm(LLAMA, (ct_lm_opts){.dtype = half ? CT_BF16 : CT_F32});
        peak[half] = ct_memory(context).peak - before;
        if (!half) ck_assert(ct_module_to(lm, CT_BF16));
        logits[half] = run_lm(lm, ids, (ct_lm_call){0});
    }
    ck_assert_double_eq(apart(logits[0], logits[1]), 0);
    ck_assert_int_lt(peak[1], peak[0]);
}
END_TEST

/* ---- new rows ---- */

#define BERT_UNTIED                                                                                \
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "                        \
    "\"max_position_embeddings\": 32, \"tie_word_embeddings\": false, " SIZES "}"

/* The head of a masked language model has a bias with a row for each id, which is a parameter of
 * two modules. */
START_TEST(more_masked_rows) {
    ct_module *lm = rough_lm(_i ? BERT_UNTIED : BERT("BertForMaskedLM"), f64);
    ct_tensor *ids = some_ids(1, 5);
    ct_module_train(lm, false);
    ct_tensor *before = run_lm(lm, ids, (ct_lm_call){0});
    ct_tensor *old = ct_clone(ct_module_get(lm, "cls.predictions.decoder.weight")),
              *old_bias = ct_clone(ct_module_get(lm, "cls.predictions.bias")),
              *dense = ct_module_get(lm, "cls.predictions.transform.dense.weight");
    const int64_t count = ct_module_count(lm);
    ct_set_requires_grad(ct_module_get(lm, "cls.predictions.bias"), false);
    ck_assert_msg(ct_lm_resize(lm, 34), "%s", ct_error_message(context));
    ct_tensor *table = ct_module_get(lm, "bert.embeddings.word_embeddings.weight"),
              *head = ct_module_get(lm, "cls.predictions.decoder.weight"),
              *bias = ct_module_get(lm, "cls.predictions.bias");
    ck_assert((table == head) == !_i);
    ck_assert_ptr_eq(bias, ct_module_get(lm, "cls.predictions.decoder.bias"));
    ck_assert_ptr_eq(dense, ct_module_get(lm, "cls.predictions.transform.dense.weight"));
    ck_assert(!ct_requires_grad(bias) && ct_requires_grad(head)); /* as before */
    ck_assert(same_shape(head, CT_SHAPE(34, 16)) && same_shape(bias, CT_SHAPE(34)));
    ck_assert_int_eq(ct_module_count(lm) - count, (_i ? 2 : 1) * 3 * 16 + 3);
    ck_assert_double_lt(apart(ct_select(head, 0, 33), ct_mean(old, CT_DIMS(0), false)), 1e-14);
    ck_assert_double_lt(apart(ct_select(bias, 0, 32), ct_mean(old_bias, CT_DIMS(0), false)), 1e-14);
    ct_tensor *after = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_eq(apart(ct_narrow(after, 2, 0, 31), before), 0);
    ck_assert_double_lt(apart(ct_select(after, 2, 31), ct_mean(before, CT_DIMS(2), false)), 1e-12);
    ck_assert(!ct_module_training(ct_module_child(lm, "cls.predictions")));
    ck_assert_int_eq(ct_lm_about(lm).vocab_size, 34);
}
END_TEST

START_TEST(more_rows) {
    static const char *const configs[] = {
        LLAMA, GPT2, "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}"};
    static const char *const tables[] = {"model.embed_tokens.weight", "transformer.wte.weight",
                                         "model.embed_tokens.weight"};
    for (int c = 0; c < 3; c++) {
        ct_module *lm = rough_lm(configs[c], f64);
        ct_module_train(lm, c != 1);
        ct_tensor *ids = some_ids(1, 5);
        ct_tensor *old = ct_clone(ct_module_get(lm, tables[c])),
                  *old_head = ct_clone(ct_module_get(lm, "lm_head.weight"));
        ct_module_train(lm, false);
        ct_tensor *before = run_lm(lm, ids, (ct_lm_call){0});
        ct_module_train(lm, c != 1);
        ct_tensor *same_table = ct_module_get(lm, tables[c]);
        ck_assert(ct_lm_resize(lm, 31) && ct_lm_resize(lm, 3)); /* enough already */
        ck_assert_ptr_eq(ct_module_get(lm, tables[c]), same_table);
        ck_assert_int_eq(ct_lm_about(lm).vocab_size, 31);
        ck_assert(ct_lm_resize(lm, 34));
        ct_tensor *table = ct_module_get(lm, tables[c]),
                  *head = ct_module_get(lm, "lm_head.weight");
        ck_assert((table == head) == (c > 0));
        ck_assert(same_shape(table, CT_SHAPE(34, 16)) && same_shape(head, CT_SHAPE(34, 16)));
        ck_assert_double_eq(apart(ct_narrow(table, 0, 0, 31), old), 0);
        ck_assert_double_eq(apart(ct_narrow(head, 0, 0, 31), old_head), 0);
        ck_assert_double_lt(apart(ct_select(head, 0, 33), ct_mean(old_head, CT_DIMS(0), false)),
                            1e-14);
        ck_assert_double_lt(apart(ct_select(table, 0, 31), ct_mean(old, CT_DIMS(0), false)), 1e-14);
        ck_assert_int_eq(ct_lm_about(lm).vocab_size, 34);
        ck_assert_ptr_nonnull(strstr(ct_lm_about(lm).config, "\"vocab_size\": 34"));
        ct_module *embedding =
            ct_module_child(lm, c == 1 ? "transformer.wte" : "model.embed_tokens");
        ck_assert(ct_module_training(embedding) == (c != 1));
        ct_module_train(lm, false);
        ck_assert_double_eq(apart(ct_narrow(run_lm(lm, ids, (ct_lm_call){0}), 2, 0, 31), before),
                            0);
    }
    ck_refused(ct_lm_resize(new_lm(LLAMA, f64), (int64_t)1 << 31), CT_ERR_ARGUMENT, "lm_resize",
               "vocabulary");
    ct_module *adapted = new_lm(LLAMA, f64);
    ck_assert_int_eq(ct_lora_add(adapted, "lm_head", (ct_lora_opts){0}), 1);
    ck_refused(ct_lm_resize(adapted, 40), CT_ERR_ARGUMENT, "lm_resize", "adapter");
    ck_assert_int_eq(ct_lm_about(adapted).vocab_size, 31);
}
END_TEST

/* ---- folders ---- */

static bool is_in_folder(const char *name) { return access(in_folder(name), F_OK) == 0; }

static const char *name_in_file(const char *path, const char *part) {
    static char name[200];
    ct_safetensors *file = ct_safetensors_open(context, path);
    ct_safetensors_entry entry = {0};
    *name = 0;
    while (ct_safetensors_next(file, &entry))
        if (strstr(entry.name, part)) snprintf(name, sizeof name, "%s", entry.name);
    ct_safetensors_close(file);
    return name;
}

START_TEST(layouts_of_saved_folders) {
    ct_module *lm = rough_lm(LLAMA, f64);
    const char *there = in_folder("saved");
    char path[100];
    snprintf(path, sizeof path, "%s", there);
    ck_assert(ct_lm_save(lm, path, (ct_save_opts){0}));
    ck_assert_str_eq(name_in_file(path, "layers.1.mlp.up"), "model.layers.1.mlp.up_proj.weight");
    write_text(in_folder("saved/chat_template.jinja"), "chat");
    ck_assert(ct_lm_save(lm, path, (ct_save_opts){.shard_bytes = 5000}));
    ck_assert(!is_in_folder("saved/model.safetensors"));
    ck_assert(is_in_folder("saved/model.safetensors.index.json"));
    ck_assert(ct_lm_save(lm, path, (ct_save_opts){.floats = CT_FILE_F16}));
    ck_assert(!is_in_folder("saved/model.safetensors.index.json"));
    ck_assert_ptr_nonnull(strstr(read_text(in_folder("saved/config.json")), "\"float16\""));
    ct_module *again = ct_lm_open(context, path, f64);
    ck_assert(ct_lm_save(again, in_folder("copy"), (ct_save_opts){0}));
    ck_assert_str_eq(read_text(in_folder("copy/chat_template.jinja")), "chat");
    ck_assert_ptr_nonnull(strstr(read_text(in_folder("copy/config.json")), "\"float64\""));
    /* an old file keeps its key */
    write_text(in_folder("copy/config.json"), "{\"model_type\": \"llama\", \"torch_dtype\": null, "
                                              "\"num_key_value_heads\": 2, " SIZES "}");
    ct_module *old = ct_lm_open(context, in_folder("copy"), f64);
    ck_assert_ptr_nonnull(strstr(ct_lm_about(old).config, "\"torch_dtype\": \"float64\""));
    ck_assert_ptr_null(strstr(ct_lm_about(old).config, "\"dtype\""));
    /* a model without a head has names without a prefix */
    ct_module *bare = rough_lm(
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " SIZES "}", f64);
    ck_assert(ct_lm_save(bare, path, (ct_save_opts){0}));
    ck_assert_str_eq(name_in_file(path, "layers.1.mlp.up"), "layers.1.mlp.up_proj.weight");
    ck_refused(ct_lm_save(lm, NULL, (ct_save_opts){0}), CT_ERR_ARGUMENT, "lm_save", "NULL");
    ck_refused(ct_lm_save(lm, path, (ct_save_opts){.n_map = 1}), CT_ERR_ARGUMENT, "lm_save",
               "a map");
}
END_TEST

/* Names of old files: BERT's gamma and beta, Pythia's embed_out, and buffers that nothing needs. */
START_TEST(names_of_old_files) {
    static const struct {
        const char *config, *from, *to, *extra;
    } cases[] = {
        {BERT("BertForMaskedLM"), "LayerNorm.weight", "LayerNorm.gamma",
         "bert.embeddings.position_ids"},
        {NEOX, "lm_head.weight", "embed_out.weight", "gpt_neox.layers.0.attention.masked_bias"},
        {LLAMA, "", "", "model.layers.0.self_attn.rotary_emb.inv_freq"},
        {BERT("BertForMaskedLM"), "", "", "bert.pooler.dense.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *lm = rough_lm(cases[i].config, f64);
        ct_tensor *ids = some_ids(1, 4), *want = run_lm(lm, ids, (ct_lm_call){0});
        ct_named named[64];
        static char names[64][200];
        int n = 0;
        const size_t length = strlen(cases[i].from);
        ct_param param = {0};
        while (ct_module_next(lm, &param)) {
            const size_t size = strlen(param.name);
            snprintf(names[n], sizeof names[n], "%s", param.name);
            if (length && size >= length && !strcmp(param.name + size - length, cases[i].from))
                snprintf(names[n] + size - length, 60, "%s", cases[i].to);
            named[n] = (ct_named){names[n], param.tensor};
            /* gamma goes with beta */
            if (!strcmp(cases[i].to, "LayerNorm.gamma") && strstr(names[n], "LayerNorm.bias"))
                strcpy(strstr(names[n], "LayerNorm.bias"), "LayerNorm.beta");
            n++;
        }
        named[n++] = (ct_named){cases[i].extra, ct_zeros(context, CT_F32, CT_SHAPE(2))};
        ck_assert(ct_lm_save(lm, in_folder("old"), (ct_save_opts){0}));
        ck_assert(ct_tensors_save(context, in_folder("old/model.safetensors"), named, n,
                                  (ct_save_opts){0}));
        ct_module *again = ct_lm_open(context, in_folder("old"), f64);
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        ck_assert_double_eq(apart(run_lm(again, ids, (ct_lm_call){0}), want), 0);
    }
    /* only a family with poolers skips one, and a model that needs it reads it */
    ct_module *llama = rough_lm(LLAMA, f64);
    ct_named one[64];
    int n = 0;
    static char names[64][200];
    ct_param each = {0};
    while (ct_module_next(llama, &each)) {
        snprintf(names[n], sizeof names[n], "%s", each.name);
        one[n] = (ct_named){names[n], each.tensor};
        n++;
    }
    one[n++] = (ct_named){"pooler.dense.weight", ct_zeros(context, CT_F32, CT_SHAPE(2))};
    ck_assert(ct_lm_save(llama, in_folder("old"), (ct_save_opts){0}));
    ck_assert(
        ct_tensors_save(context, in_folder("old/model.safetensors"), one, n, (ct_save_opts){0}));
    ck_refused(ct_lm_open(context, in_folder("old"), f64), CT_ERR_FORMAT, "pooler.dense.weight",
               "");
    ct_module *lm = rough_lm(BERT("BertModel"), f64);
    ct_tensor *ids = some_ids(1, 4);
    ct_tensor *want = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_POOLED});
    ck_assert(ct_lm_save(lm, in_folder("old"), (ct_save_opts){0}));
    ct_module *again = ct_lm_open(context, in_folder("old"), f64);
    ck_assert_double_eq(apart(run_lm(again, ids, (ct_lm_call){.result = CT_LM_POOLED}), want), 0);
}
END_TEST

int main(void) {
    return run_tests("model options", setup, end_with_folders,
                     TESTS(TEST(dropouts), TEST(padding_on_the_left), TEST(tables_of_positions),
                           TEST(segments_that_lie_apart), TEST(a_loss_with_a_softcap),
                           TEST(a_loss_of_few_tokens), TEST(dropout_of_distilbert),
                           TEST(memory_of_layers), TEST(caches_of_another_model),
                           TEST(initial_values), TEST(initial_values_in_bf16), TEST(more_rows),
                           LOOP(more_masked_rows, 2), TEST(layouts_of_saved_folders),
                           TEST(names_of_old_files)));
}
