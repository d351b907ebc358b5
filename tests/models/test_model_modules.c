/* Modules of a program in the place of a model's: heads, norms and embeddings of any type and name,
 * and what the loss, adapters, ct_lm_resize, generation and a saved folder make of them. */
#include "small_lm.h"

#define CAPPED                                                                                     \
    "{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, \"head_dim\": 8, "              \
    "\"final_logit_softcapping\": 2, " SIZES "}"
#define TIED "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}"

/* ---- types of a program, with the names of the library's own and another mathematics ---- */

typedef struct {
    ct_module *module;
} own;

static ct_tensor *own_param(const void *data, const char *name) {
    return ct_module_get(((const own *)data)->module, name);
}
/* W is (in, out), as in no Linear. */
static ct_tensor *thrice(void *data, ct_tensor *x) {
    return ct_scale(ct_matmul(x, own_param(data, "weight")), 3);
}
/* Needs all rows of x (B, T, E). */
static ct_tensor *with_the_row_before(void *data, ct_tensor *x) {
    return ct_linear(ct_add(x, ct_roll(x, 1, 1)), own_param(data, "weight"),
                     own_param(data, "bias"));
}
static ct_tensor *doubled_rows(void *data, ct_tensor *ids) {
    return ct_scale(ct_embedding(ids, own_param(data, "weight")), 2);
}
static ct_tensor *halved(void *data, ct_tensor *x) {
    (void)data;
    return ct_scale(x, 0.5);
}
static const ct_module_type own_linear = {.name = "Linear", .forward = thrice},
                            mixing = {.name = "Linear", .forward = with_the_row_before},
                            own_table = {.name = "Embedding", .forward = doubled_rows},
                            own_norm = {.name = "RMSNorm", .forward = halved},
                            own_lora = {.name = "LoraLinear", .forward = halved},
                            own_lm = {.name = "LanguageModel", .forward = halved};

/* A module of a type, with parameters from N(0, 1) that have these shapes. */
static ct_module *of_type(const ct_module_type *type, ct_shape weight, int64_t bias) {
    static own data[64];
    static int n;
    own *mine = &data[n++ % 64];
    ct_module *module = mine->module = ct_module_new_of(context, type, mine);
    ck_assert_ptr_nonnull(module);
    if (weight.ndim) ct_module_add_param(module, "weight", ct_randn(context, CT_F64, weight));
    if (bias) ct_module_add_param(module, "bias", ct_randn(context, CT_F64, CT_SHAPE(bias)));
    return module;
}

static ct_module *linear_of(int64_t in, int64_t out, bool bias, ct_dtype dtype) {
    return ct_linear_new(
        context,
        (ct_linear_opts){.in_features = in, .out_features = out, .no_bias = !bias, .dtype = dtype});
}

static void put_module(ct_module *lm, const char *path, ct_module *module) {
    ct_module *old = ct_module_set_child(lm, path, module);
    ck_assert_msg(old != NULL, "%s", ct_error_message(context));
    ct_module_free(old);
    ct_module_train(lm, false);
}

/* ---- heads ---- */

enum { HEADS = 7 };

/* A head of each kind for rows of 16 numbers; 0 leaves the model's own. */
static ct_module *head_of(int which) {
    switch (which) {
    case 1: return linear_of(16, 31, false, CT_F64);
    case 2: return linear_of(16, 31, true, CT_F64);
    case 3: return linear_of(16, 37, true, CT_F64);
    case 4: return of_type(&own_linear, CT_SHAPE(16, 31), 0);
    case 5: return of_type(&own_linear, CT_SHAPE(16, 11), 0);
    case 6: return of_type(&mixing, CT_SHAPE(31, 16), 31);
    }
    return NULL;
}

/* The logits of a causal model by its head's own formula. */
static ct_tensor *logits_by_hand(ct_module *lm, int which, ct_tensor *hidden, bool capped) {
    ct_module *head = ct_module_child(lm, "lm_head");
    ct_tensor *w = ct_module_get(head, "weight"), *y;
    const bool bias = which == 2 || which == 3 || which == 6;
    if (which == 4 || which == 5) y = ct_scale(ct_matmul(hidden, w), 3);
    else {
        if (which == 6) hidden = ct_add(hidden, ct_roll(hidden, 1, 1));
        y = ct_matmul(hidden, ct_transpose(w, 0, 1));
        if (bias) y = ct_add(y, ct_module_get(head, "bias"));
    }
    return capped ? ct_scale(ct_tanh(ct_scale(y, 0.5)), 2) : y;
}

/* Targets below `classes`, most of which are ignored in rows of tokens. */
static ct_tensor *some_targets(ct_shape logits, int kept) {
    const bool tokens = logits.ndim == 3;
    const int64_t n = logits.dim[0] * (tokens ? logits.dim[1] : 1);
    int64_t target[64];
    for (int64_t i = 0; i < n; i++)
        target[i] =
            tokens && i % 5 >= kept ? -100 : ct_random_below(context, logits.dim[logits.ndim - 1]);
    return ct_from_i64(
        context, tokens ? CT_SHAPE(logits.dim[0], logits.dim[1]) : CT_SHAPE(logits.dim[0]), target);
}

/* The loss is that of the logits, with all its gradients, and the logits are the head's. */
START_TEST(losses_of_any_head) {
    static const char *const configs[] = {
        LLAMA, TIED, CAPPED, GPT2, BERT("BertForMaskedLM"), BERT("BertForSequenceClassification")};
    static const char *const paths[] = {
        "lm_head", "lm_head", "lm_head", "lm_head", "cls.predictions.decoder", "classifier"};
    const int c = _i / HEADS, which = _i % HEADS;
    ct_module *lm = rough_lm(configs[c], f64), *head = head_of(which);
    if (head) put_module(lm, paths[c], head);
    for (int r = 0; r < 6; r++) {
        const ct_cross_entropy_opts opts = {.reduction = (ct_reduction)(r % 3), .z_loss = 0.1 * r};
        ct_tensor *ids = some_ids(3, 7), *logits = run_lm(lm, ids, (ct_lm_call){0});
        ct_tensor *targets = some_targets(ct_shape_of(logits), r < 3 ? 2 : 5);
        ct_tensor *want = ct_cross_entropy(logits, targets, opts),
                  *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, opts);
        ck_assert_msg(loss && same_shape(loss, ct_shape_of(want)), "%s", ct_error_message(context));
        ck_assert_double_lt(apart(loss, want), 1e-12 * (1 + ct_item(ct_max(want, CT_ALL, false))));
        ct_tensor *seed = ct_randn(context, CT_F64, ct_shape_of(want));
        ct_tensor *of_want = gradients_of(lm, want, seed), *of_loss = gradients_of(lm, loss, seed);
        const double most = ct_item(ct_max(ct_abs(of_want), CT_ALL, false));
        ck_assert_double_lt(apart(of_loss, of_want), 1e-12 * most);
        if (c >= 4) continue;
        ct_tensor *hidden = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_HIDDEN});
        ct_tensor *by_hand = logits_by_hand(lm, which, hidden, c == 2);
        ck_assert_double_lt(apart(logits, by_hand),
                            1e-12 * ct_item(ct_max(ct_abs(by_hand), CT_ALL, false)));
        ct_tensor *last = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_LAST});
        ck_assert(which == 6 || apart(last, ct_select(logits, 1, 6)) < 1e-12 * 100);
        ck_assert_int_eq(ct_shape_of(last).ndim, 2);
    }
}
END_TEST

/* A target that a replaced head has no logit for is named by its place among all targets. */
START_TEST(targets_of_another_head) {
    ct_module *lm = rough_lm(LLAMA, f64);
    put_module(lm, "lm_head", linear_of(16, 11, false, CT_F64));
    ct_tensor *ids = some_ids(2, 5), *targets = some_targets(CT_SHAPE(2, 5, 11), 3);
    ct_data_i64(targets)[7] = 11;
    ck_refused(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}),
               CT_ERR_ARGUMENT, "cross_entropy", "target 11 at (1, 2)");
}
END_TEST

/* An adapter at the head is part of the loss. */
START_TEST(losses_of_adapted_heads) {
    ct_module *lm = rough_lm(_i ? CAPPED : LLAMA, f64);
    if (_i) put_module(lm, "lm_head", linear_of(16, 31, true, CT_F64)); /* Gemma's is tied */
    ck_assert_int_eq(ct_lora_add(lm, "lm_head", (ct_lora_opts){.rank = 2}), 1);
    ct_init_normal(ct_module_get(lm, "lm_head.lora_B"), 0, 1);
    ct_tensor *ids = some_ids(2, 6), *logits = run_lm(lm, ids, (ct_lm_call){0});
    ct_tensor *targets = some_targets(ct_shape_of(logits), 2);
    ct_tensor *want = ct_cross_entropy(logits, targets, (ct_cross_entropy_opts){0}),
              *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
    ck_assert_double_lt(apart(loss, want), 1e-12);
    ct_tensor *b = ct_module_get(lm, "lm_head.lora_B");
    ck_assert(ct_backward(want));
    ct_tensor *grad = ct_clone(ct_grad(b));
    ct_zero_grad(b);
    ck_assert(ct_backward(loss));
    ck_assert_double_lt(apart(ct_grad(b), grad), 1e-12);
    ck_assert_double_gt(ct_item(ct_max(ct_abs(grad), CT_ALL, false)), 1e-3);
}
END_TEST

/* ---- norms and embeddings ---- */

START_TEST(norms_and_embeddings_are_run) {
    ct_module *lm = rough_lm(LLAMA, f64), *plain = ct_module_clone(lm);
    ct_tensor *ids = some_ids(2, 5);
    /* an embedding with twice its rows has twice its weight */
    ct_module *table = of_type(&own_table, CT_SHAPE(31, 16), 0);
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *weight = ct_module_get(plain, "model.embed_tokens.weight");
    ck_assert(ct_copy_into(ct_module_get(table, "weight"), weight));
    ck_assert(ct_copy_into(weight, ct_scale(weight, 2)));
    ct_scope_close(scope);
    put_module(lm, "model.embed_tokens", table);
    ct_tensor *want = run_lm(plain, ids, (ct_lm_call){0});
    ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 0);
    /* a norm with its own eps, and one of a program's type */
    put_module(
        plain, "model.norm",
        ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 16, .eps = 100, .dtype = CT_F64}));
    put_module(lm, "model.norm", of_type(&own_norm, CT_SHAPE(16), 0));
    const ct_lm_call hidden = {.result = CT_LM_HIDDEN};
    ct_tensor *by_eps = run_lm(plain, ids, hidden), *by_half = run_lm(lm, ids, hidden);
    ct_tensor *before = ct_scale(by_half, 2);
    ck_assert_double_lt(
        apart(by_eps, ct_rms_norm(before, ct_ones(context, CT_F64, CT_SHAPE(16)), 100)), 1e-12);
    /* the norms of BERT's embeddings and of its head's transform */
    ct_module *bert = rough_lm(BERT("BertForMaskedLM"), f64);
    want = run_lm(bert, ids, (ct_lm_call){0});
    put_module(bert, "cls.predictions.transform.LayerNorm", of_type(&own_norm, CT_SHAPE(16), 16));
    ct_tensor *half = run_lm(bert, ids, (ct_lm_call){0});
    ck_assert_double_gt(apart(half, want), 1e-3);
    ct_tensor *targets = some_targets(CT_SHAPE(2, 5, 31), 2);
    ck_assert_double_lt(
        apart(ct_lm_loss(bert, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}),
              ct_cross_entropy(half, targets, (ct_cross_entropy_opts){0})),
        1e-12);
}
END_TEST

/* A norm that makes more rows than there are tokens; the mask has none for them. */
static ct_tensor *two_of_each(void *data, ct_tensor *x) {
    (void)data;
    ct_tensor *both[] = {x, x};
    return ct_cat(both, 2, 1);
}
START_TEST(hidden_states_of_another_shape) {
    static const ct_module_type longer = {.name = "RMSNorm", .forward = two_of_each};
    ct_module *lm = rough_lm(LLAMA, f64);
    put_module(lm, "model.norm", of_type(&longer, CT_SCALAR, 0));
    ct_tensor *ids = some_ids(2, 5);
    static const bool shown[10] = {true, true, true, true, true, true};
    ct_lm_call call = {.key_mask = ct_from_bool(context, CT_SHAPE(2, 5), shown)};
    for (int result = CT_LM_OUT; result <= CT_LM_MEAN; result++) {
        if (result == CT_LM_POOLED) continue;
        call.result = (ct_lm_result)result;
        ck_refused(ct_lm_forward(lm, ids, call), CT_ERR_SHAPE, "lm_forward", "(2, 5, E)");
    }
}
END_TEST

/* ---- names ---- */

/* A type that is named as one of the library's is never taken for it. */
START_TEST(types_are_told_by_their_address) {
    ct_module *root = ct_module_new(context, "Root"),
              *mine = of_type(&own_linear, CT_SHAPE(4, 4), 0),
              *lora = of_type(&own_lora, CT_SCALAR, 0);
    ct_module_add_param(lora, "lora_A", ct_zeros(context, CT_F64, CT_SHAPE(2, 4)));
    ct_module_add_param(lora, "lora_B", ct_zeros(context, CT_F64, CT_SHAPE(4, 2)));
    ck_assert(ct_module_add_child(root, "q", mine) && ct_module_add_child(root, "p", lora));
    ck_refused(ct_lora_add(root, "*", (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, "lora_add",
               "no Linear matches \"*\"; a pattern is of the whole path");
    ck_refused(ct_lora_merge(root), CT_ERR_ARGUMENT, "lora_merge", "no adapter");
    ck_refused(ct_lora_save(root, in_folder("a")), CT_ERR_ARGUMENT, "lora_save", "no adapter");
    /* a file for q and for p finds no Linear there */
    static const char *const names[] = {"q", "p"};
    for (int i = 0; i < 2; i++) {
        ct_module *other = ct_module_new(context, "Root");
        ck_assert(ct_module_add_child(other, names[i], linear_of(4, 4, false, CT_F64)));
        ck_assert_int_eq(ct_lora_add(other, "*", (ct_lora_opts){.rank = 2}), 1);
        ck_assert(ct_lora_save(other, in_folder("a")) && ct_error(context) == CT_OK);
        ck_refused(ct_lora_load(root, in_folder("a")), CT_ERR_ARGUMENT, names[i],
                   "must be a Linear of this library");
        ck_assert(ct_module_child(root, "q") == mine && ct_module_child(root, "p") == lora);
        ck_assert(ct_lora_load(other, in_folder("a")) && ct_lora_merge(other));
    }
    /* a root of that name is no model, and its adapters are saved without one */
    ct_module *lm = of_type(&own_lm, CT_SCALAR, 0);
    ck_assert(ct_module_add_child(lm, "q", linear_of(4, 4, true, CT_F64)));
    ck_assert_int_eq(ct_lora_add(lm, "q", (ct_lora_opts){.rank = 2}), 1);
    ck_assert(ct_lora_save(lm, in_folder("b")) && ct_error(context) == CT_OK);
    ck_assert_ptr_nonnull(
        strstr(read_text(in_folder("b/adapter_config.json")), "\"task_type\": null"));
    ck_refused(ct_lm_save(lm, in_folder("b"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "ct_module_data",
               "LanguageModel");
    ck_assert(ct_module_is(lm, &own_lm) && ct_module_is(mine, &own_linear));
    ck_assert(!ct_module_is(mine, &mixing) && !ct_module_is(root, &own_lm));
    ck_assert(!ct_module_is(NULL, &own_lm) && !ct_module_is(mine, NULL));
    ck_assert(!ct_module_is(root, NULL) && ct_error(context) == CT_OK);
}
END_TEST

/* A base that a program has put below an adapter is no matrix to which one could be added; nothing
 * is merged then. */
START_TEST(merging_into_another_base) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ck_assert_int_eq(ct_lora_add(lm, "*layers.?.self_attn.q_proj", (ct_lora_opts){.rank = 2}), 2);
    static const char first[] = "model.layers.0.self_attn.q_proj",
                      second[] = "model.layers.1.self_attn.q_proj.base_layer";
    ct_init_normal(ct_module_get(lm, "model.layers.0.self_attn.q_proj.lora_B"), 0, 1);
    put_module(lm, second, of_type(&own_linear, CT_SHAPE(16, 16), 0));
    ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ck_refused(ct_lora_merge(lm), CT_ERR_ARGUMENT, second, "must be a Linear of this library");
    ck_assert_str_eq(ct_module_kind(ct_module_child(lm, first)), "LoraLinear");
    ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), before), 0);
}
END_TEST

/* ---- more rows ---- */

/* A head keeps what it is: its bias, and that it is tied or not. */
START_TEST(more_rows_of_replaced_heads) {
    static const char *const configs[] = {LLAMA, TIED, BERT("BertForMaskedLM")};
    const bool bias = _i % 2, masked = _i / 2 == 2;
    const char *path = masked ? "cls.predictions.decoder" : "lm_head";
    ct_module *lm = rough_lm(configs[_i / 2], f64);
    put_module(lm, path, linear_of(16, 31, bias, CT_F64));
    ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_msg(ct_lm_resize(lm, 33), "%s", ct_error_message(context));
    ct_tensor *after = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_eq(apart(ct_narrow(after, 2, 0, 31), before), 0);
    ck_assert_double_lt(apart(ct_select(after, 2, 32), ct_mean(before, CT_DIMS(2), false)), 1e-12);
    put_module(lm, path, of_type(&own_linear, CT_SHAPE(16, 33), 0));
    ck_refused(ct_lm_resize(lm, 35), CT_ERR_ARGUMENT, path, "must be a Linear of this library");
    ck_assert_int_eq(ct_lm_about(lm).vocab_size, 33);
    ct_module *bare = rough_lm(
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " SIZES "}", f64);
    put_module(bare, "embed_tokens", of_type(&own_table, CT_SHAPE(31, 16), 0));
    ck_refused(ct_lm_resize(bare, 35), CT_ERR_ARGUMENT, "embed_tokens", "must be an Embedding");
}
END_TEST

/* ---- dtypes ---- */

/* The dtype of a model is that of its matrices now, whatever it was made as: new rows have it, and
 * the file that is saved says it. */
START_TEST(dtypes_of_the_parameters) {
    static const struct {
        ct_dtype made;
        const char *then, *format; /* b, f: ct_module_to bf16, f32 */
    } ways[] = {{CT_BF16, "", "bfloat16"}, {CT_BF16, "f", "float32"}, {CT_F32, "b", "bfloat16"},
                {CT_F32, "bf", "float32"}, {CT_F64, "", "float64"},   {CT_BF16, "fb", "bfloat16"}};
    for (int i = 0; i < 12; i++) {
        ct_module *lm = new_lm(i % 2 ? TIED : LLAMA, (ct_lm_opts){.dtype = ways[i / 2].made});
        for (const char *way = ways[i / 2].then; *way; way++)
            ck_assert(*way == 'b' ? ct_module_to(lm, CT_BF16) : ct_module_to(lm, CT_F32));
        ct_tensor *table = ct_module_get(lm, "model.embed_tokens.weight");
        const ct_dtype dtype = ct_dtype_of(table);
        if (dtype != CT_BF16) ct_init_normal(table, 0, 1); /* numbers that bf16 has not */
        ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
        const bool wanted = ct_requires_grad(table);
        for (int resized = 0; resized < 2; resized++) {
            ck_assert_msg(ct_lm_resize(lm, 31 + 3 * resized) && ct_error(context) == CT_OK, "%s",
                          ct_error_message(context));
            ct_module *copy = resized ? ct_module_clone(lm) : lm;
            table = ct_module_get(copy, "model.embed_tokens.weight");
            ck_assert(ct_dtype_of(table) == dtype && ct_requires_grad(table) == wanted);
            ck_assert(ct_dtype_of(ct_module_get(copy, "lm_head.weight")) == dtype);
            ct_tensor *after = run_lm(copy, ids, (ct_lm_call){0});
            ck_assert_double_eq(apart(ct_narrow(after, 2, 0, 31), before), 0);
            ck_assert(ct_lm_save(copy, in_folder("d"), (ct_save_opts){0}));
            ck_assert_ptr_nonnull(
                strstr(read_text(in_folder("d/config.json")), ways[i / 2].format));
        }
    }
    /* one matrix of f32 among those of bf16: a reader in bf16 would round it */
    ct_module *lm = new_lm(LLAMA, (ct_lm_opts){.dtype = CT_BF16});
    put_module(lm, "lm_head", linear_of(16, 31, false, CT_F32));
    ck_assert(ct_lm_save(lm, in_folder("d"), (ct_save_opts){0}));
    ck_assert_ptr_nonnull(strstr(read_text(in_folder("d/config.json")), "float32"));
}
END_TEST

/* Adapters that were converted with their model are merged and saved too. */
START_TEST(adapters_in_bf16) {
    ct_module *lm = rough_lm(LLAMA, (ct_lm_opts){0});
    ck_assert_int_eq(ct_lora_add(lm, "*.q_proj", (ct_lora_opts){.rank = 2}), 2);
    ct_init_normal(ct_module_get(lm, "model.layers.0.self_attn.q_proj.lora_B"), 0, 1);
    ck_assert(ct_module_to(lm, CT_BF16));
    ct_tensor *ids = some_ids(1, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert(ct_lora_save(lm, in_folder("a")) && ct_lora_load(lm, in_folder("a")));
    ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 0);
    ck_assert_msg(ct_lora_merge(lm), "%s", ct_error_message(context));
    const double size = ct_item(ct_max(ct_abs(want), CT_ALL, false));
    ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 0.1 * size);
}
END_TEST

/* ---- folders ---- */

/* A saved folder is the model, or ct_lm_save says which part of it a folder cannot hold. */
START_TEST(folders_of_replaced_modules) {
    ct_tensor *ids = some_ids(1, 5);
    for (int tied = 0; tied < 2; tied++) { /* a head that is tied no longer, or only now */
        ct_module *lm = rough_lm(tied ? LLAMA : TIED, f64),
                  *head = linear_of(16, 31, false, CT_F64);
        if (tied) {
            head = ct_module_new(context, "unused");
            ct_module_free(head);
            ct_module *plain = rough_lm(TIED, f64);
            ct_module *hole = ct_module_new(context, "Hole");
            head = ct_module_set_child(plain, "lm_head", hole);
            put_module(
                lm, "model.embed_tokens",
                ct_module_set_child(plain, "model.embed_tokens", ct_module_new(context, "Hole")));
        }
        put_module(lm, "lm_head", head);
        for (int resized = 0; resized < 2; resized++) {
            if (resized) ck_assert(ct_lm_resize(lm, 33));
            ct_tensor *want = run_lm(lm, ids, (ct_lm_call){0});
            ck_assert_msg(ct_lm_save(lm, in_folder("m"), (ct_save_opts){0}), "%s",
                          ct_error_message(context));
            ct_module *again = ct_lm_open(context, in_folder("m"), f64);
            ck_assert_msg(again != NULL, "%s", ct_error_message(context));
            ck_assert_double_eq(apart(run_lm(again, ids, (ct_lm_call){0}), want), 0);
            const bool is_tied = ct_module_get(again, "lm_head.weight") ==
                                 ct_module_get(again, "model.embed_tokens.weight");
            ck_assert(is_tied == tied);
        }
    }
    static const char *const paths[] = {"lm_head",           "lm_head",    "lm_head",
                                        "model.norm",        "model.norm", "model.norm",
                                        "model.embed_tokens"};
    static const char *const words[] = {"lm_head.weight has another shape",
                                        "lm_head.bias is no parameter of a llama",
                                        "lm_head.weight belongs to a Linear",
                                        "model.norm.weight belongs to a RMSNorm",
                                        "model.norm.weight belongs to a RMSNorm",
                                        "has model.norm.weight, but this one has not",
                                        "model.embed_tokens.weight belongs to a Embedding"};
    for (int i = -1; i < 6; i++) {
        ct_module *lm = rough_lm(LLAMA, f64);
        const ct_rms_norm_opts other = {.dim = 16, .eps = 0.1, .dtype = CT_F64};
        put_module(lm, paths[i + 1],
                   i < 0    ? linear_of(16, 37, false, CT_F64)
                   : i == 0 ? linear_of(16, 31, true, CT_F64)
                   : i == 1 ? of_type(&own_linear, CT_SHAPE(31, 16), 0)
                   : i == 2 ? of_type(&own_norm, CT_SHAPE(16), 0)
                   : i == 3 ? ct_rms_norm_new(context, other)
                   : i == 4 ? of_type(&own_norm, CT_SCALAR, 0)
                            : of_type(&own_table, CT_SHAPE(31, 16), 0));
        ck_refused(ct_lm_save(lm, in_folder("n"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "lm_save",
                   words[i + 1]);
        ck_assert_ptr_null(read_text(in_folder("n/config.json")));
    }
}
END_TEST

int main(void) {
    return run_tests("model modules", setup, end_with_folders,
                     TESTS(LOOP(losses_of_any_head, 6 * HEADS), TEST(targets_of_another_head),
                           LOOP(losses_of_adapted_heads, 2), TEST(norms_and_embeddings_are_run),
                           TEST(hidden_states_of_another_shape),
                           TEST(types_are_told_by_their_address), TEST(merging_into_another_base),
                           LOOP(more_rows_of_replaced_heads, 6), TEST(dtypes_of_the_parameters),
                           TEST(adapters_in_bf16), TEST(folders_of_replaced_modules)));
}
