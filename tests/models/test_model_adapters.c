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
    static const ct_lora_opts opts[] = {{.rank = 2, .alpha = 6}, {.rank = 4}, {0}};
    static const double factors[] = {3, 1, 1}, ranks[] = {2, 4, 8};
    for (int i = 0; i < 3; i++) {
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
    ck_assert(ct_module_to_bf16(lm));
    ck_assert_int_eq(ct_lora_add(lm, Q, (ct_lora_opts){0}), 1);
    ck_assert(ct_dtype_of(ct_module_get(lm, Q ".lora_A")) == CT_F32);
    ct_init_normal(ct_module_get(lm, Q ".lora_B"), 0, 1);
    ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert(ct_lora_merge(lm));
    ck_assert(ct_dtype_of(ct_module_get(lm, Q ".weight")) == CT_BF16);
    const double size = ct_item(ct_max(ct_abs(before), CT_ALL, false));
    ck_assert_double_lt(apart(run_lm(lm, ids, (ct_lm_call){0}), before), 0.2 * size);
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
        {"\"use_dora\": true", "use_dora"},
        {"\"use_rslora\": true", "use_rslora"},
        {"\"rank_pattern\": {\"q_proj\": 2}", "rank_pattern"},
        {"\"modules_to_save\": [\"lm_head\"]", "modules_to_save"},
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
    static const ct_lora_opts others[] = {
        {.rank = 3, .alpha = 2}, {.rank = 2, .alpha = 7}, {.rank = 2, .dropout = 0.5}};
    for (int i = 0; i < 3; i++) {
        ct_module *mixed = adapted_lm(LLAMA, Q, (ct_lora_opts){.rank = 2});
        ck_assert_int_eq(ct_lora_add(mixed, "lm_head", others[i]), 1);
        ck_refused(ct_lora_save(mixed, in_folder("a")), CT_ERR_ARGUMENT, "lora_save", "differ");
    }
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

int main(void) {
    return run_tests("model adapters", setup, end_with_folders,
                     TESTS(TEST(values_of_adapters), TEST(trained_are_only_adapters),
                           TEST(adapters_of_bf16), TEST(paths_that_are_too_long),
                           TEST(files_of_adapters), TEST(files_that_are_refused),
                           TEST(files_that_lack_matrices), TEST(adapter_of_a_tied_head),
                           TEST(base_of_adapters)));
}
