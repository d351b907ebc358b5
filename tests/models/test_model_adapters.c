/* Adapters in C: values, gradients, merging, copies, PEFT's files, and refusals. */
#include "small_lm.h"

static ct_module *adapted_lm(const char *config, const char *pattern, ct_lora_opts opts) {
    ct_module *lm = rough_lm(config, f64);
    ck_assert_msg(ct_lora_add(lm, pattern, opts) > 0, "%s", ct_error_message(context));
    ct_param param = {0};
    while (ct_module_next(lm, &param))
        if (strstr(param.name, "lora_B")) ct_init_normal(param.tensor, 0.1, 0.3);
    return lm;
}

#define Q "model.layers.0.self_attn.q_proj"

/* y = W x + alpha / rank B A x, computed with one matrix. */
START_TEST(values_of_adapters) {
    static const ct_lora_opts opts[] = {
        {.rank = 2, .alpha = 6}, {.rank = 4}, {0}, {.rank = 4, .alpha = 6, .use_rslora = true}};
    static const double factors[] = {3, 1, 1, 3}, ranks[] = {2, 4, 8, 4};
    for (int i = 0; i < 4; i++) {
        ct_module *lm = rough_lm(LLAMA, f64), *plain = ct_module_clone(lm);
        ck_assert_int_eq(ct_lora_add(lm, Q, opts[i]), 1);
        ct_tensor *a = ct_module_get(lm, Q ".lora_A"), *b = ct_module_get(lm, Q ".lora_B");
        ck_assert(same_shape(a, CT_SHAPE((int64_t)ranks[i], 16)));
        ck_assert_double_eq(ct_item(ct_max(ct_abs(b), CT_ALL, false)), 0);
        /* U(-1/4, 1/4) has both signs and a deviation of 1/4/sqrt 3 */
        ck_assert_double_le(ct_item(ct_max(ct_abs(a), CT_ALL, false)), 0.25);
        ck_assert_double_lt(ct_item(ct_min(a, CT_ALL, false)), -0.1);
        ck_assert_double_gt(ct_item(ct_max(a, CT_ALL, false)), 0.1);
        ct_init_normal(b, 0, 1);
        ct_tensor *w = ct_module_get(plain, Q ".weight");
        ct_scope scope = ct_scope_open_no_grad(context);
        ck_assert(ct_add_into(w, ct_matmul(b, a), factors[i]));
        ct_scope_close(scope);
        ct_tensor *ids = some_ids(1, 5), *want = run_lm(plain, ids, (ct_lm_call){0});
        ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 1e-11);
        ct_module *copy = ct_module_clone(lm);
        ck_assert(ct_lora_merge(lm));
        ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 1e-11);
        ck_assert_double_lt(apart(run_lm(copy, ids, (ct_lm_call){0}), want), 1e-11);
        ck_assert_str_eq(ct_module_kind(ct_module_child(lm, Q)), "Linear");
        ck_refused(ct_lora_merge(lm), CT_ERR_ARGUMENT, "lora_merge", "no adapter");
    }
}
END_TEST

START_TEST(trained_are_only_adapters) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ct_module_train(lm, true);
    ck_assert_int_eq(ct_lora_add(lm, "*.?_proj", (ct_lora_opts){.rank = 2, .dropout = 0.5}), 8);
    ck_assert(ct_module_training(ct_module_child(lm, Q)));
    ct_param param = {0};
    while (ct_module_next(lm, &param))
        ck_assert(ct_requires_grad(param.tensor) == (strstr(param.name, "lora_") != NULL));
    ct_param again = {0};
    while (ct_module_next(lm, &again))
        if (strstr(again.name, "lora_B")) ct_init_normal(again.tensor, 0, 1);
    ct_tensor *ids = some_ids(1, 5), *first = run_lm(lm, ids, (ct_lm_call){0}), *second;
    second = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_gt(apart(first, second), 0); /* the dropout of adapters */
    ct_module_train(lm, false);
    first = run_lm(lm, ids, (ct_lm_call){0}), second = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_eq(apart(first, second), 0);
    ck_refused(ct_lora_add(lm, Q, (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, Q, "an adapter already");
    ck_refused(ct_lora_add(lm, "x*", (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, "x*", "no Linear");
    ck_refused(ct_lora_add(lm, NULL, (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, "lora_add",
               "no pattern");
    static const ct_lora_opts wrong[] = {{.rank = -1}, {.alpha = NAN}, {.dropout = 1}};
    for (int i = 0; i < 3; i++)
        ck_refused(ct_lora_add(lm, "lm_head", wrong[i]) > 0, CT_ERR_ARGUMENT, "lora_add", "rank");
    ct_module *tied =
        new_lm("{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}", f64);
    ck_refused(ct_lora_add(tied, "lm_head", (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, "lm_head",
               "tied");
    ck_refused(ct_lm_save(lm, in_folder("x"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "lm_save",
               "adapters");
}
END_TEST

START_TEST(adapters_of_bf16) {
    ct_module *lm = rough_lm(LLAMA, (ct_lm_opts){0});
    ck_assert(ct_module_to(lm, CT_BF16));
    ck_assert_int_eq(ct_lora_add(lm, Q, (ct_lora_opts){0}), 1);
    ck_assert(ct_dtype_of(ct_module_get(lm, Q ".lora_A")) == CT_F32);
    ct_init_normal(ct_module_get(lm, Q ".lora_B"), 0, 1);
    ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert(ct_lora_merge(lm));
    ck_assert(ct_dtype_of(ct_module_get(lm, Q ".weight")) == CT_BF16);
    const double size = ct_item(ct_max(ct_abs(before), CT_ALL, false));
    ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), before), 0.2 * size);
    /* taken away, bf16 is no longer frozen, and so an optimiser refuses it as before */
    ct_module *other = rough_lm(LLAMA, (ct_lm_opts){0});
    ck_assert(ct_module_to(other, CT_BF16));
    ck_assert_int_eq(ct_lora_add(other, Q, (ct_lora_opts){0}), 1);
    ct_optim *optim = ct_adamw_new(other, (ct_adamw_opts){0});
    ck_assert_ptr_nonnull(optim);
    ct_optim_free(optim);
    ck_assert(ct_lora_remove(other));
    ck_refused(ct_adamw_new(other, (ct_adamw_opts){0}) != NULL, CT_ERR_DTYPE, "AdamW",
               "not trained");
}
END_TEST

/* A Linear whose path leaves no space for an adapter's names is not passed over. */
START_TEST(paths_that_are_too_long) {
    ct_module *root = ct_module_new(context, "Root"), *at = root;
    char name[61];
    memset(name, 'n', 60), name[60] = 0;
    for (int i = 0; i < 3; i++) {
        ct_module *next = ct_module_new(context, "Group");
        ck_assert(ct_module_add_child(at, name, next) != NULL);
        at = next;
    }
    for (int size = 8; size <= 10; size++) {
        memset(name, 'n', 10), name[size] = 0;
        ck_assert(ct_module_add_child(
            at, name,
            ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 3})));
        const int64_t n = ct_lora_add(root, "*", (ct_lora_opts){.rank = 1});
        if (size == 8) {
            ck_assert_msg(n == 1 && ct_lora_save(root, in_folder("a")) && ct_lora_merge(root), "%s",
                          ct_error_message(context));
            ct_module_free(ct_module_child(at, name));
        } else {
            ck_refused(n > 0, CT_ERR_ARGUMENT, "lora", "the path is too long");
        }
    }
}
END_TEST

/* ---- off, on, and away ---- */

/* The head too, whose loss is computed together with its product if it is a Linear. */
START_TEST(switched_off) {
    static const char *const configs[] = {LLAMA, GPT2, BERT("BertForMaskedLM")};
    static const char *const patterns[] = {"*_proj", "*.c_*", "*.dense"};
    for (int c = 0; c < 3; c++) {
        ct_module *lm = rough_lm(configs[c], (ct_lm_opts){0});
        ct_tensor *ids = some_ids(2, 5), *targets = some_ids(2, 5);
        ct_tensor *base = run_lm(lm, ids, (ct_lm_call){0});
        ct_tensor *base_loss =
            ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
        ck_refused(ct_lora_enable(lm, false), CT_ERR_ARGUMENT, "lora_enable", "no adapter");
        ck_assert_int_gt(ct_lora_add(lm, patterns[c], (ct_lora_opts){.rank = 2}), 2);
        if (c == 0) ck_assert_int_eq(ct_lora_add(lm, "lm_head", (ct_lora_opts){.rank = 2}), 1);
        ct_param param = {0};
        while (ct_module_next(lm, &param))
            if (strstr(param.name, "lora_B")) ct_init_normal(param.tensor, 0, 1);
        ct_tensor *on = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_double_gt(apart(on, base), 0.01);
        ck_assert(ct_lora_enable(lm, false));
        ct_module *copy = ct_module_clone(lm);
        for (int i = 0; i < 2; i++) {
            ct_module *off = i ? copy : lm;
            ck_assert_double_eq(apart(run_lm(off, ids, (ct_lm_call){0}), base), 0);
            ck_assert_double_eq(
                apart(ct_lm_loss(off, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}),
                      base_loss),
                0);
        }
        ck_assert(ct_lora_enable(lm, false) && ct_lora_enable(lm, true));
        ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), on), 0);
        ck_assert(ct_lora_merge(copy));
        ck_assert_double_lt(apart(run_lm(copy, ids, (ct_lm_call){0}), on), 1e-4);
    }
}
END_TEST

static const char norm_of_layer[] = "model.layers.1.input_layernorm.weight";

/* The gradients of four losses of which the adapters have a part in the first and the last. */
static ct_tensor *gradients_with_switches(ct_module *lm, ct_tensor *ids, ct_tensor *targets) {
    static const bool on[] = {true, false, false, true};
    ct_tensor *sum = ct_zeros(context, CT_F64, CT_SCALAR);
    for (int i = 0; i < 4; i++) {
        ck_assert(ct_lora_enable(lm, on[i]));
        ct_tensor *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
        sum = ct_add(sum, ct_scale(loss, i + 1));
    }
    ck_assert(ct_lora_enable(lm, false));
    return gradients_of(lm, sum, ct_ones(context, CT_F64, CT_SCALAR));
}

static ct_tensor *switching_block(ct_tensor *const *in, int n, void *lm) {
    (void)n;
    return ct_lora_enable(lm, false) ? ct_scale(in[0], 2) : NULL;
}

START_TEST(recompute_repeats_its_first_run) {
    ct_module *lm[2];
    ct_tensor *ids = some_ids(2, 5), *targets = some_ids(2, 5), *got[2];
    for (int i = 0; i < 2; i++) {
        ct_rng_set(context, (ct_rng){3, 0});
        lm[i] = rough_lm(LLAMA, (ct_lm_opts){.dtype = CT_F64, .recompute = i});
        ck_assert_int_eq(ct_lora_add(lm[i], "*.?_proj", (ct_lora_opts){.rank = 2}), 8);
        ct_param param = {0};
        while (ct_module_next(lm[i], &param))
            if (strstr(param.name, "lora_B")) ct_init_normal(param.tensor, 0, 1);
        ct_set_requires_grad(ct_module_get(lm[i], norm_of_layer), true);
        ct_module_train(lm[i], true);
        for (int again = 0; again < 3; again++) /* of the first step nothing is left */
            got[i] = gradients_with_switches(lm[i], ids, targets);
    }
    ck_assert_double_gt(ct_item(ct_max(ct_abs(got[0]), CT_ALL, false)), 0.01);
    ck_assert_double_eq(apart(got[0], got[1]), 0);
    ck_refused(ct_recompute(switching_block, lm[1], &got[0], 1) != NULL, CT_ERR_ARGUMENT,
               "lora_enable", "ct_recompute");
}
END_TEST

START_TEST(adapters_taken_away) {
    for (int i = 0; i < 2; i++) {
        ct_module *lm = rough_lm(LLAMA, (ct_lm_opts){0});
        ct_tensor *ids = some_ids(1, 5), *base = run_lm(lm, ids, (ct_lm_call){0});
        ck_refused(ct_lora_remove(lm), CT_ERR_ARGUMENT, "lora_remove", "no adapter");
        ct_set_requires_grad(ct_module_get(lm, norm_of_layer), false);
        ct_set_requires_grad(ct_module_get(lm, Q ".weight"), false);
        ck_assert_int_eq(ct_lora_add(lm, "*.q_proj", (ct_lora_opts){.rank = 2}), 2);
        ck_assert_int_eq(ct_lora_add(lm, "*.v_proj", (ct_lora_opts){.rank = 3}), 2);
        ct_module *of = i ? ct_module_clone(lm) : lm;
        ct_init_normal(ct_module_get(of, Q ".lora_B"), 0, 1);
        ct_tensor *on = run_lm(of, ids, (ct_lm_call){0});
        ct_tensor *a = ct_module_get(of, Q ".lora_A"), *loss = ct_sum(on, CT_ALL, false);
        if (i) ck_assert(ct_lora_enable(of, false));
        ck_assert(ct_lora_remove(of));
        ck_assert(ct_backward(loss)); /* what was recorded keeps what it ran with */
        ck_assert(ct_grad(a) == NULL);
        ct_error_clear(context);
        ck_assert_double_eq(apart(run_lm(of, ids, (ct_lm_call){0}), base), 0);
        ck_assert_double_gt(apart(on, base), 0.01);
        ct_param param = {0};
        while (ct_module_next(of, &param)) {
            ck_assert_ptr_null(strstr(param.name, "lora_"));
            ck_assert(ct_requires_grad(param.tensor) ==
                      (strcmp(param.name, norm_of_layer) && strcmp(param.name, Q ".weight")));
        }
        ck_assert_str_eq(ct_module_kind(ct_module_child(of, Q)), "Linear");
        ck_assert_int_eq(ct_lora_add(of, "*.q_proj", (ct_lora_opts){.rank = 2}), 2);
    }
}
END_TEST

/* ---- files ---- */

START_TEST(files_of_adapters) {
    static const char *const configs[] = {
        LLAMA, GPT2, BERT("BertModel"),
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " SIZES "}"};
    static const char *const patterns[] = {"*.?_proj", "*.c_attn", "*.query", "*.v_proj"};
    for (int c = 0; c < 4; c++) {
        ct_module *lm = adapted_lm(configs[c], patterns[c],
                                   (ct_lora_opts){.rank = 3, .alpha = 1.5, .dropout = 0.25});
        ct_module *base = ct_module_clone(lm), *filled;
        ck_assert(ct_lora_save(lm, in_folder("a")));
        const char *text = read_text(in_folder("a/adapter_config.json"));
        ck_assert_ptr_nonnull(strstr(text, "\"r\": 3,"));
        ck_assert_ptr_nonnull(strstr(text, "\"lora_alpha\": 1.5,"));
        ck_assert_ptr_nonnull(strstr(text, "\"lora_dropout\": 0.25,"));
        ck_assert_ptr_nonnull(
            strstr(text, c == 1 ? "\"fan_in_fan_out\": true" : "\"fan_in_fan_out\": false"));
        ck_assert_ptr_nonnull(
            strstr(text, c >= 2 ? "\"task_type\": null" : "\"task_type\": \"CAUSAL_LM\""));
        ct_tensor *ids = some_ids(1, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
        /* into new adapters */
        ct_param param = {0};
        while (ct_module_next(base, &param))
            if (strstr(param.name, "lora_B")) ct_init_constant(param.tensor, 0);
        ck_assert(ct_lora_merge(base));
        ct_param all = {0};
        while (ct_module_next(base, &all)) ct_set_requires_grad(all.tensor, true);
        filled = ct_module_clone(base);
        ck_assert_msg(ct_lora_load(base, in_folder("a")), "%s", ct_error_message(context));
        ck_assert_double_eq(apart(run_lm(base, ids, (ct_lm_call){0}), want), 0);
        ct_param frozen = {0};
        while (ct_module_next(base, &frozen))
            ck_assert(ct_requires_grad(frozen.tensor) == (strstr(frozen.name, "lora_") != NULL));
        /* into adapters that are there */
        ck_assert(ct_lora_add(filled, patterns[c], (ct_lora_opts){.rank = 3, .alpha = 1.5}) > 0);
        ck_assert(ct_lora_load(filled, in_folder("a")));
        ck_assert_double_eq(apart(run_lm(filled, ids, (ct_lm_call){0}), want), 0);
    }
}
END_TEST

START_TEST(files_that_are_refused) {
    static const struct {
        const char *more, *word;
    } cases[] = {
        {"\"use_dora\": true",
         "no tensor \"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude"},
        {"\"use_dora\": 1", "use_dora"},
        {"\"use_rslora\": 1", "use_rslora"},
        {"\"rank_pattern\": {\"q_proj\": 0}", "rank_pattern"},
        {"\"rank_pattern\": [2]", "rank_pattern"},
        {"\"rank_pattern\": {\"q_proj\": 3}", "another shape"},
        {"\"alpha_pattern\": {\"q_proj\": \"x\"}", "alpha_pattern"},
        {"\"alpha_pattern\": {\"(q_proj\": 1}", "\"alpha_pattern\": byte"},
        {"\"modules_to_save\": [\"lm_head\"]", "no tensor \"base_model.model.lm_head.weight\""},
        {"\"modules_to_save\": \"lm_head\"", "not a list of names"},
        {"\"modules_to_save\": [\"lm_head\", \"\"]", "not a list of names"},
        {"\"modules_to_save\": [\"self_attn\"]", "which is in modules_to_save"},
        {"\"ensure_weight_tying\": 1", "ensure_weight_tying"},
        {"\"bias\": \"all\"", "bias"},
        {"\"init_lora_weights\": \"pissa\"", "init_lora_weights"},
        {"\"new_option\": 3", "new_option"},
        {"\"r\": 0", "not a rank"},
        {"\"r\": 5", "another shape"},
        {"\"lora_dropout\": 1", "lora_dropout"},
        {"\"lora_alpha\": \"x\"", "lora_alpha"},
        {"\"target_modules\": [\"k_proj\", \"j_proj\"]", "target_modules"},
        {"\"target_modules\": [\"roj\"]", Q},
        {"\"target_modules\": \".*v_proj\"", Q},
        {"\"target_modules\": \".*(q_proj\"", "\"target_modules\": byte"},
        {"\"exclude_modules\": \".*\\\\.0\\\\..*\"", "exclude_modules"},
        {"\"alora_invocation_tokens\": []", "alora_invocation_tokens"},
        {"\"exclude_modules\": [\"v_proj\", \"self_attn.q_proj\"]", "exclude_modules"},
        {"\"layers_to_transform\": 1", "layers_to_transform"},
        {"\"layers_to_transform\": [2, 1]", "layers_to_transform"},
    };
    ck_assert(ct_lora_save(adapted_lm(LLAMA, Q, (ct_lora_opts){.rank = 2}), in_folder("a")));
    ct_module *lm = rough_lm(LLAMA, f64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        snprintf(text, sizeof text, "{\"peft_type\": \"LORA\"%s, %s}",
                 strstr(cases[i].more, "\"r\"") ? "" : ", \"r\": 2", cases[i].more);
        write_text(in_folder("a/adapter_config.json"), text);
        ck_refused(ct_lora_load(lm, in_folder("a")), CT_ERR_FORMAT, "lora_load", cases[i].word);
        ck_assert_str_eq(ct_module_kind(ct_module_child(lm, Q)), "Linear");
    }
    /* adapters that are there have another alpha, or another rank */
    write_text(in_folder("a/adapter_config.json"),
               "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 6}");
    for (int i = 0; i < 2; i++)
        ck_refused(
            ct_lora_load(adapted_lm(LLAMA, Q, (ct_lora_opts){.rank = 2 + i, .alpha = 6 + !i}),
                         in_folder("a")),
            CT_ERR_FORMAT, "rank 2 and alpha 6, but the adapter of",
            i ? "rank 3 and alpha 6" : "rank 2 and alpha 7");
    ct_module *other =
        ct_linear_new(context, (ct_linear_opts){.in_features = 4, .out_features = 4});
    ck_refused(ct_lora_load(other, in_folder("a")), CT_ERR_FORMAT, "lora_load",
               "adapter of " Q ", and the model has no such module");
    write_text(in_folder("a/adapter_config.json"), "{\"peft_type\": \"IA3\"}");
    ck_refused(ct_lora_load(lm, in_folder("a")), CT_ERR_FORMAT, "peft_type", "only LORA");
    write_text(in_folder("a/adapter_config.json"),
               "{\"peft_type\": \"LORA\", \"r\": 2, \"bias\": \"none\", \"use_dora\": false, "
               "\"init_lora_weights\": \"gaussian\", \"rank_pattern\": {}, "
               "\"target_modules\": [\"v_proj\", \"q_proj\"], \"exclude_modules\": [\"0\"], "
               "\"layers_to_transform\": [1, 0]}");
    ck_assert_msg(ct_lora_load(lm, in_folder("a")), "%s", ct_error_message(context));
    ck_refused(ct_lora_load(lm, NULL), CT_ERR_ARGUMENT, "lora_load", "NULL");
    ck_refused(ct_lora_save(lm, NULL), CT_ERR_ARGUMENT, "lora_save", "NULL");
    ck_refused(ct_lora_save(rough_lm(LLAMA, f64), in_folder("a")), CT_ERR_ARGUMENT, "lora_save",
               "no adapter");
    static const ct_lora_opts others[] = {{.rank = 2, .dropout = 0.5},
                                          {.rank = 2, .use_rslora = true},
                                          {.rank = 2, .use_dora = true}};
    for (int i = 0; i < 3; i++) {
        ct_module *mixed = adapted_lm(LLAMA, Q, (ct_lora_opts){.rank = 2});
        ck_assert_int_eq(ct_lora_add(mixed, "lm_head", others[i]), 1);
        ck_refused(ct_lora_save(mixed, in_folder("a")), CT_ERR_ARGUMENT, "lora_save", "differ");
    }
}
END_TEST

/* Ranks and alphas that differ stand in patterns, DoRA has its norms; GGUF has neither. */
START_TEST(files_of_other_kinds) {
    ct_module *lm = rough_lm(LLAMA, f64), *base = ct_module_clone(lm);
    ct_tensor *ids = some_ids(2, 5);
    for (int dora = 0; dora < 2; dora++) {
        lm = ct_module_clone(base);
        ck_assert_int_eq(ct_lora_add(lm, "*.?_proj", (ct_lora_opts){.rank = 2, .use_dora = dora}),
                         8);
        ck_assert_double_lt(
            apart(run_lm(lm, ids, (ct_lm_call){0}), run_lm(base, ids, (ct_lm_call){0})), 1e-12);
        ck_assert_int_eq(
            ct_lora_add(lm, "*.up_proj", (ct_lora_opts){.rank = 3, .alpha = 7, .use_dora = dora}),
            2);
        ct_param param = {0};
        while (ct_module_next(lm, &param)) {
            ck_assert(ct_requires_grad(param.tensor) == (strstr(param.name, "lora_") != NULL));
            if (strstr(param.name, "lora_")) ct_init_normal(param.tensor, 1, 0.5);
        }
        ct_tensor *want = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert(ct_lora_save(lm, in_folder("a")));
        ck_refused(ct_lora_save(lm, in_folder("a.gguf")), CT_ERR_ARGUMENT,
                   dora ? "use_dora" : "rank", "GGUF");
        for (int i = 0; i < 2; i++) {
            ct_module *other = ct_module_clone(base);
            if (i)
                ck_assert_int_eq(
                    ct_lora_add(other, "*.up_proj",
                                (ct_lora_opts){.rank = 3, .alpha = 7, .use_dora = dora}),
                    2);
            ck_assert_msg(ct_lora_load(other, in_folder("a")), "%s", ct_error_message(context));
            ck_assert_double_lt(apart(run_lm(other, ids, (ct_lm_call){0}), want), 1e-4);
            ck_assert(ct_lora_merge(other));
            ck_assert_double_lt(apart(run_lm(other, ids, (ct_lm_call){0}), want), 1e-4);
        }
        ct_module *plain = ct_module_clone(base);
        ck_assert_int_eq(ct_lora_add(plain, Q, (ct_lora_opts){.rank = 2, .use_dora = !dora}), 1);
        ck_refused(ct_lora_load(plain, in_folder("a")), CT_ERR_FORMAT, "of DoRA", Q);
    }
}
END_TEST

/* GGUF's readers divide alpha by the rank: of rsLoRA the file has alpha sqrt(rank). */
START_TEST(gguf_of_rslora) {
    const ct_lora_opts opts = {.rank = 4, .alpha = 3, .use_rslora = true};
    ct_module *lm = adapted_lm(LLAMA, "*.?_proj", opts), *other = rough_lm(LLAMA, f64);
    ct_param from = {0}, to = {0};
    ck_assert(ct_lora_save(lm, in_folder("r.gguf")));
    ct_module *base = ct_module_clone(lm);
    ck_assert(ct_lora_remove(base));
    while (ct_module_next(base, &from) && ct_module_next(other, &to)) {
        ct_scope scope = ct_scope_open_no_grad(context);
        ck_assert(ct_copy_into(to.tensor, from.tensor));
        ct_scope_close(scope);
    }
    ck_assert_msg(ct_lora_load(other, in_folder("r.gguf")), "%s", ct_error_message(context));
    ct_tensor *ids = some_ids(1, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_gt(apart(run_lm(base, ids, (ct_lm_call){0}), want), 0.01);
    ck_assert_double_lt(apart(run_lm(other, ids, (ct_lm_call){0}), want), 1e-4);
}
END_TEST

/* The adapter of a head that is tied to the embedding: merged, the head has a weight of its own,
 * and the embedding stays. */
START_TEST(adapter_of_a_tied_head) {
    static const char tied[] =
        "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}";
    ct_lora_save(adapted_lm(LLAMA, "lm_head", (ct_lora_opts){.rank = 2}), in_folder("a"));
    ct_module *lm = rough_lm(tied, f64);
    ct_tensor *ids = some_ids(1, 5), *table = ct_module_get(lm, "model.embed_tokens.weight");
    ct_tensor *before = ct_clone(table), *base = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_msg(ct_lora_load(lm, in_folder("a")), "%s", ct_error_message(context));
    ct_tensor *want = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert_double_gt(apart(want, base), 1e-3);
    ck_assert(ct_lora_merge(lm));
    ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), want), 1e-12);
    ck_assert_double_eq(apart(table, before), 0);
    ck_assert(!ct_requires_grad(ct_module_get(lm, "lm_head.weight")));
    ck_assert(ct_lm_save(lm, in_folder("untied"), (ct_save_opts){0}));
    ck_assert_ptr_nonnull(strstr(ct_lm_about(ct_lm_open(context, in_folder("untied"), f64)).config,
                                 "\"tie_word_embeddings\": false"));
}
END_TEST

/* The model that adapters are for, as their file spells it. */
START_TEST(base_of_adapters) {
    static const struct {
        const char *file, *base;
    } cases[] = {
        {"{\"base_model_name_or_path\": \"a/b \\u00e9\"}", "a/b \xc3\xa9"},
        {"{\"x\": {\"base_model_name_or_path\": \"no\"}, \"base_model_name_or_path\": \"\"}", ""},
        {"{\"base_model_name_or_path\": null}", ""},
        {"{}", ""},
        {"{\"base_model_name_or_path\": 3}", NULL},
        {"{\"base_model_name_or_path\": \"a\\u0000b\"}", NULL},
        {"[]", NULL},
        {"{", NULL},
    };
    char base[40];
    ck_assert(ct_lm_save(new_lm(LLAMA, f64), in_folder("base"), (ct_save_opts){0}));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(in_folder("base/adapter_config.json"), cases[i].file);
        const int64_t n = ct_lora_base(context, in_folder("base"), base, sizeof base);
        ck_assert_int_eq(n, cases[i].base ? (int64_t)strlen(cases[i].base) : -1);
        ck_assert_int_eq(ct_error(context), cases[i].base ? CT_OK : CT_ERR_FORMAT);
        ct_error_clear(context);
        if (cases[i].base) ck_assert_str_eq(base, cases[i].base);
    }
    write_text(in_folder("base/adapter_config.json"), cases[0].file);
    ck_assert_int_eq(ct_lora_base(context, in_folder("base"), base, 3), 6);
    ck_assert_str_eq(base, "a/");
    ck_assert_int_eq(ct_lora_base(context, in_folder("base"), NULL, 0), 6);
    ck_refused(ct_lora_base(context, in_folder("none"), base, 3) >= 0, CT_ERR_IO, "lora_base",
               "adapter_config.json");
    ck_refused(ct_lora_base(context, NULL, base, 3) >= 0, CT_ERR_ARGUMENT, "lora_base", "NULL");
}
END_TEST

/* A file that lacks a matrix of a pair, or has none at all. */
START_TEST(files_that_lack_matrices) {
    ck_assert(
        ct_lora_save(adapted_lm(LLAMA, "*.q_proj", (ct_lora_opts){.rank = 2}), in_folder("a")));
    ct_module *lm = rough_lm(LLAMA, f64);
    const char *weights = in_folder("a/adapter_model.safetensors");
    for (int lacks = 0; lacks < 3; lacks++) {
        ct_named named[4];
        int n = 0;
        static char names[4][200];
        for (int k = 0; k < 4 && lacks < 2; k++) {
            if (k == 2 + lacks) continue;
            snprintf(names[n], sizeof names[n],
                     "base_model.model.model.layers.%d.self_attn.q_proj.lora_%c.weight", k / 2,
                     k % 2 ? 'B' : 'A');
            named[n] = (ct_named){
                names[n], ct_zeros(context, CT_F32, k % 2 ? CT_SHAPE(16, 2) : CT_SHAPE(2, 16))};
            n++;
        }
        ck_assert(ct_tensors_save(context, weights, named, n, (ct_save_opts){0}));
        ck_refused(ct_lora_load(lm, in_folder("a")), CT_ERR_FORMAT,
                   lacks < 2 ? "no tensor" : "no matrix of an adapter",
                   lacks == 0   ? "layers.1.self_attn.q_proj.lora_A"
                   : lacks == 1 ? "layers.1.self_attn.q_proj.lora_B"
                                : "adapter_model.safetensors");
        ck_assert_str_eq(ct_module_kind(ct_module_child(lm, Q)), "Linear");
    }
}
END_TEST

/* PEFT would save the head of a task of labels, so only a folder that has it names the task. */
START_TEST(tasks_of_adapters) {
    static const char *const configs[] = {BERT("BertForSequenceClassification"),
                                          BERT("BertForTokenClassification")};
    static const char *const tasks[] = {"\"task_type\": \"SEQ_CLS\"",
                                        "\"task_type\": \"TOKEN_CLS\""};
    static const char *const head[] = {"classifier"};
    for (int c = 0; c < 2; c++)
        for (int saved = 0; saved < 2; saved++) {
            ct_module *lm = adapted_lm(
                configs[c], "*.query",
                (ct_lora_opts){.rank = 2, .modules_to_save = head, .n_modules_to_save = saved});
            ck_assert(ct_lora_save(lm, in_folder("a")));
            const char *text = read_text(in_folder("a/adapter_config.json"));
            ck_assert_msg(strstr(text, saved ? tasks[c] : "\"task_type\": null") != NULL, "%s",
                          text);
            ct_module_free(lm);
        }
}
END_TEST

int main(void) {
    return run_tests("model adapters", setup, end_with_folders,
                     TESTS(TEST(values_of_adapters), TEST(trained_are_only_adapters),
                           TEST(adapters_of_bf16), TEST(paths_that_are_too_long),
                           TEST(files_of_adapters), TEST(tasks_of_adapters),
                           TEST(files_that_are_refused), TEST(files_that_lack_matrices),
                           TEST(adapter_of_a_tied_head), TEST(base_of_adapters),
                           TEST(gguf_of_rslora), TEST(files_of_other_kinds), TEST(switched_off),
                           TEST(recompute_repeats_its_first_run), TEST(adapters_taken_away)));
}
