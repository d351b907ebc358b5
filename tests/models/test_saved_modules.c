/* Modules that are trained and saved whole beside adapters (modules_to_save): values, gradients,
 * ties, off and on, away, merged, copies, files, weights at rest, and refusals. */
#include "small_lm.h"

#define TIED  "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}"
#define Q     "*.q_proj"
#define TABLE "model.embed_tokens.weight"
#define HEAD  "lm_head.weight"

static const char *const embed_tokens[] = {"embed_tokens"}, *const lm_head[] = {"lm_head"},
                         *const both[] = {"embed_tokens", "lm_head"};

static ct_lora_opts saving(const char *const *names, int64_t n) {
    return (ct_lora_opts){.rank = 2, .modules_to_save = names, .n_modules_to_save = n};
}

/* Gives all that is trained other values. */
static void train_all(ct_module *lm) {
    ct_param param = {0};
    while (ct_module_next(lm, &param))
        if (ct_requires_grad(param.tensor)) ck_assert(ct_init_normal(param.tensor, 0.2, 0.5));
}

static ct_module *saved_lm(const ct_module *base, ct_lora_opts opts) {
    ct_module *lm = ct_module_clone(base);
    ck_assert_msg(lm && ct_lora_add(lm, Q, opts) == 2, "%s", ct_error_message(context));
    return lm;
}

static ct_tensor *logits_of(ct_module *lm) {
    static const int64_t ids[] = {1, 30, 4, 4, 7, 12, 0, 9};
    return run_lm(lm, ct_from_i64(context, CT_SHAPE(2, 4), ids), (ct_lm_call){0});
}

/* The saved module computes with its copy: that of another model with the copy's values. */
static void has_values(ct_module *lm, const ct_module *base) {
    ct_module *plain = ct_module_clone(lm), *want = ct_module_clone(base);
    ck_assert(plain && ct_lora_merge(plain));
    ck_assert_double_lt(apart(logits_of(plain), logits_of(lm)), 1e-10);
    ct_param param = {0};
    ck_assert(ct_lora_remove(lm));
    while (ct_module_next(lm, &param)) {
        ct_tensor *of_base = ct_module_get(want, param.name);
        ck_assert_double_eq(apart(of_base, param.tensor), 0);
        ck_assert(ct_requires_grad(of_base) == ct_requires_grad(param.tensor));
    }
    ck_assert_double_eq(apart(logits_of(lm), logits_of(want)), 0);
}

START_TEST(copies_are_trained) {
    static const struct {
        const char *config;
        const char *names[2];
        int64_t n, trained; /* parameters besides adapters */
    } cases[] = {{LLAMA, {"lm_head"}, 1, 1},
                 {LLAMA, {"embed_tokens", "lm_head"}, 2, 2},
                 {TIED, {"lm_head"}, 1, 1},
                 {TIED, {"embed_tokens"}, 1, 1},
                 {TIED, {"embed_tokens", "head"}, 2, 2},
                 {LLAMA, {"mlp"}, 1, 6},
                 {LLAMA, {"norm"}, 1, 5},
                 {LLAMA, {"0.mlp", "up_proj"}, 2, 4},
                 {LLAMA, {"1.self_attn.k_proj", "none"}, 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *base = rough_lm(cases[i].config, f64);
        ct_tensor *before = logits_of(base);
        ct_module *lm = saved_lm(base, saving(cases[i].names, cases[i].n));
        ck_assert_double_eq(apart(logits_of(lm), before), 0);
        ct_param param = {0};
        int64_t n = 0;
        while (ct_module_next(lm, &param))
            n += ct_requires_grad(param.tensor) && !strstr(param.name, "lora_");
        ck_assert_int_eq(n, cases[i].trained);
        train_all(lm);
        ct_tensor *loss = ct_sum(logits_of(lm), CT_ALL, false);
        ck_assert(ct_backward(loss));
        ct_param again = {0};
        while (ct_module_next(lm, &again)) {
            if (!ct_requires_grad(again.tensor)) continue;
            ck_assert_double_gt(ct_item(ct_max(ct_abs(ct_grad(again.tensor)), CT_ALL, false)), 0);
        }
        ck_assert_double_gt(apart(logits_of(lm), before), 1e-3);
        for (int on = 0; on < 2; on++) {
            ck_assert(ct_lora_enable(lm, on));
            ck_assert(on == (apart(logits_of(lm), before) > 0));
            ct_module *copy = ct_module_clone(lm);
            ck_assert_double_eq(apart(logits_of(copy), logits_of(lm)), 0);
            ck_assert(ct_lora_enable(copy, true));
            has_values(copy, base);
        }
        has_values(lm, base);
    }
}
END_TEST

/* Copies of a tied embedding and head are not tied, unless ensure_weight_tying asks for it; the
 * originals are tied again when the adapters are gone. */
START_TEST(ties) {
    ct_module *base = rough_lm(TIED, f64);
    for (int i = 0; i < 5; i++) {
        ct_lora_opts opts = saving(i == 0 ? lm_head : i == 3 ? both : embed_tokens, i == 3 ? 2 : 1);
        opts.ensure_weight_tying = i >= 2 && i < 4;
        if (i == 4) opts = saving(both, 2);
        ct_module *lm = saved_lm(base, opts);
        const ct_tensor *table = ct_module_get(lm, TABLE), *head = ct_module_get(lm, HEAD);
        ck_assert((table == head) == (i == 2));
        ck_assert(ct_requires_grad(table) == (i != 0) && ct_requires_grad(head) == (i != 1));
        train_all(lm);
        ct_tensor *want = logits_of(lm);
        ck_assert(ct_lora_save(lm, in_folder("tied")));
        ct_module *other = ct_module_clone(base), *copy = ct_module_clone(lm);
        for (int twice = 0; twice < 2; twice++) {
            ck_assert_msg(ct_lora_load(other, in_folder("tied")), "%s", ct_error_message(context));
            ck_assert_double_lt(apart(logits_of(other), want), 1e-4);
        }
        ck_assert((ct_module_get(other, TABLE) == ct_module_get(other, HEAD)) == (i == 2));
        ck_assert((ct_module_get(copy, TABLE) == ct_module_get(copy, HEAD)) == (i == 2));
        ck_assert(ct_lora_enable(lm, false));
        ck_assert_ptr_eq(ct_module_get(lm, TABLE), ct_module_get(lm, HEAD));
        ck_assert(ct_lora_remove(lm) && ct_lora_remove(copy) && ct_lora_merge(other));
        ck_assert_ptr_eq(ct_module_get(lm, TABLE), ct_module_get(lm, HEAD));
        ck_assert_ptr_eq(ct_module_get(copy, TABLE), ct_module_get(copy, HEAD));
        ck_assert_double_lt(apart(logits_of(other), want), 1e-4);
        ck_assert(ct_lm_save(other, in_folder("merged"), (ct_save_opts){0}));
        ct_module *opened = ct_lm_open(context, in_folder("merged"), f64);
        ck_assert_double_lt(apart(logits_of(opened), want), 1e-4);
    }
}
END_TEST

/* GPT-2's files have (in, out), BERT's head has a bias of two names, and a tree of a program's own
 * has no family. */
START_TEST(files_of_families) {
    static const char *const configs[] = {GPT2, GPT2, BERT("BertForMaskedLM"), NEOX, GEMMA};
    static const char *const names[] = {"mlp", "wte", "predictions", "attention.dense",
                                        "self_attn"};
    static const char *const patterns[] = {"*.c_attn", "*", "*.query", "*", "*.up_proj"};
    for (int i = 0; i < 5; i++) {
        ct_module *base = rough_lm(configs[i], f64), *lm = ct_module_clone(base), *other;
        ck_assert_int_gt(ct_lora_add(lm, patterns[i], saving(&names[i], 1)), 0);
        train_all(lm);
        ck_assert(ct_lora_save(lm, in_folder("family")));
        other = ct_module_clone(base);
        ck_assert_msg(ct_lora_load(other, in_folder("family")), "%s", ct_error_message(context));
        ck_assert_double_lt(apart(logits_of(other), logits_of(lm)), 1e-4);
        has_values(other, base);
    }
    ct_module *root = ct_module_new(context, "Root"), *empty = ct_module_new(context, "Root");
    ct_param param = {0};
    ct_module *linear =
        ct_linear_new(context, (ct_linear_opts){.in_features = 4, .out_features = 3});
    ct_module *head = ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 2});
    ck_assert(ct_module_add_child(root, "in", linear) && ct_module_add_child(root, "head", head) &&
              ct_module_add_child(root, "none", empty));
    ck_assert_int_eq(ct_lora_add(root, "*", saving((const char *[]){"head"}, 1)), 1);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3));
    train_all(root);
    ct_tensor *y = ct_forward(head, x);
    ck_assert(ct_lora_save(root, in_folder("own")));
    ck_assert(ct_lora_enable(root, false));
    ck_assert_double_gt(apart(ct_forward(head, x), y), 1e-3);
    ck_assert(ct_lora_remove(root));
    while (ct_module_next(root, &param)) ck_assert(ct_requires_grad(param.tensor));
    ck_assert(ct_lora_load(root, in_folder("own")));
    ck_assert_double_eq(apart(ct_forward(head, x), y), 0);
}
END_TEST

/* A function that runs again has the tensors of its first run, whatever was switched since. */
START_TEST(recompute_has_its_copies) {
    ct_module *base = rough_lm(LLAMA, (ct_lm_opts){.recompute = true});
    static const char *const names[] = {"mlp"};
    for (int off = 0; off < 2; off++) {
        ct_module *lm = saved_lm(base, saving(names, 1));
        ct_module_train(lm, true);
        train_all(lm);
        ck_assert(ct_lora_enable(lm, !off));
        ct_tensor *loss = ct_sum(logits_of(lm), CT_ALL, false);
        ck_assert(ct_lora_enable(lm, off));
        const bool ran = loss && (!ct_requires_grad(loss) || ct_backward(loss));
        ck_assert_msg(ran, "%s", ct_error_message(context));
        ck_assert(ct_lora_enable(lm, true));
        ct_tensor *up = ct_module_get(lm, "model.layers.0.mlp.up_proj.weight");
        ck_assert((ct_grad(up) != NULL) == !off);
    }
}
END_TEST

#define WIDE(vocab)                                                                                \
    "{\"model_type\": \"llama\", \"vocab_size\": " vocab ", \"hidden_size\": 32, "                 \
    "\"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}"

/* Copies beside weights at rest are f32; a merge rounds them, and cannot make blocks. */
START_TEST(weights_at_rest) {
    static const ct_dtype dtypes[] = {CT_BF16, CT_Q8_0, CT_Q4_0};
    for (int i = 0; i < 3; i++) {
        ct_module *lm = rough_lm(WIDE("31"), (ct_lm_opts){0});
        ck_assert(ct_module_to(lm, dtypes[i]));
        ct_tensor *before = logits_of(lm);
        ck_assert_int_eq(ct_lora_add(lm, Q, saving(both, 2)), 2);
        ck_assert_double_eq(apart(logits_of(lm), before), 0);
        ck_assert(ct_dtype_of(ct_module_get(lm, HEAD)) == CT_F32);
        train_all(lm);
        ct_tensor *want = logits_of(lm);
        ck_assert(ct_module_to(lm, CT_F32) && ct_module_to(lm, dtypes[i]));
        ck_assert(ct_dtype_of(ct_module_get(lm, HEAD)) == CT_F32);
        ck_assert_double_eq(apart(logits_of(lm), want), 0);
        ck_assert(ct_lora_enable(lm, false));
        ck_assert(ct_dtype_of(ct_module_get(lm, HEAD)) == dtypes[i]);
        ck_assert_double_eq(apart(logits_of(lm), before), 0);
        ck_assert(ct_lora_enable(lm, true));
        if (i) {
            ck_refused(ct_lora_merge(lm), CT_ERR_DTYPE, "lora_merge", "ct_module_to");
            ck_assert_double_eq(apart(logits_of(lm), want), 0);
            ck_assert(ct_module_to(lm, CT_BF16));
        }
        ck_assert(ct_lora_merge(lm));
        ck_assert(ct_dtype_of(ct_module_get(lm, HEAD)) == CT_BF16);
        const double size = ct_item(ct_max(ct_abs(want), CT_ALL, false));
        ck_assert_double_lt(apart(logits_of(lm), want), 0.05 * size);
        ck_assert(ct_lm_save(lm, in_folder("bf16"), (ct_save_opts){0}));
        ck_assert(ct_lm_file_dtype(context, in_folder("bf16")) == CT_BF16);
    }
}
END_TEST

/* y = (m / n) (W x + B A x), with W's widened blocks. */
START_TEST(dora_over_blocks) {
    for (int i = 0; i < 2; i++) {
        ct_module *lm = rough_lm(WIDE("31"), (ct_lm_opts){0});
        ck_assert(ct_module_to(lm, i ? CT_Q4_0 : CT_Q8_0));
        ct_tensor *before = logits_of(lm);
        ct_module *wide = ct_module_clone(lm);
        ck_assert(ct_module_to(wide, CT_F32));
        ct_module *models[] = {lm, wide};
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(ct_lora_add(models[k], Q, (ct_lora_opts){.rank = 2, .use_dora = true}),
                             2);
            ck_assert_double_lt(apart(logits_of(models[k]), before), 1e-4);
        }
        train_all(lm);
        ck_assert(ct_lora_save(lm, in_folder("dora")) && ct_lora_load(wide, in_folder("dora")));
        ck_assert_double_gt(apart(logits_of(lm), before), 1e-2);
        ck_assert_double_lt(apart(logits_of(lm), logits_of(wide)), 1e-4);
        for (int k = 0; k < 2; k++)
            ck_assert(ct_backward(ct_sum(logits_of(models[k]), CT_ALL, false)));
        ct_param a = {0}, b = {0};
        while (ct_module_next(lm, &a) && ct_module_next(wide, &b))
            if (strstr(a.name, "lora_"))
                ck_assert_double_lt(apart(ct_grad(a.tensor), ct_grad(b.tensor)), 1e-2);
        ck_refused(ct_lora_merge(lm), CT_ERR_DTYPE, "lora_merge", "blocks");
    }
}
END_TEST

/* New tokens: the vocabulary grows, and the embedding and the head are trained whole. */
START_TEST(new_tokens) {
    ct_module *base = rough_lm(LLAMA, f64), *grown = ct_module_clone(base);
    ck_assert(ct_lm_resize(grown, 33));
    ct_module *lm = saved_lm(grown, saving(both, 2));
    train_all(lm);
    ck_assert(same_shape(ct_module_get(lm, HEAD), CT_SHAPE(33, 16)));
    ck_refused(ct_lm_resize(lm, 40), CT_ERR_ARGUMENT, "lm_resize", "modules_to_save");
    ck_assert(ct_lora_save(lm, in_folder("new")));
    ck_refused(ct_lora_load(base, in_folder("new")), CT_ERR_FORMAT, "embed_tokens", "ct_lm_resize");
    ck_assert_int_eq(ct_lora_add(base, Q, (ct_lora_opts){0}), 2); /* nothing had changed */
    ck_assert(ct_lora_remove(base));
    ck_assert(ct_lm_resize(base, 33) && ct_lora_load(base, in_folder("new")));
    ck_assert_double_lt(apart(logits_of(base), logits_of(lm)), 1e-4);
    ct_module *head_only = saved_lm(grown, saving(lm_head, 1));
    ck_refused(ct_lm_resize(head_only, 40), CT_ERR_ARGUMENT, "lm_resize", "lm_head");
}
END_TEST

START_TEST(modules_that_are_refused) {
    ct_module *lm = rough_lm(LLAMA, f64), *base = ct_module_clone(lm);
    static const char *const nothing[] = {"none"}, *const no_name[] = {"lm_head", ""},
                             *const list[] = {"layers"}, *const of_q[] = {"q_proj"},
                             *const mlp[] = {"mlp"}, *const null[] = {NULL};
    ck_refused(ct_lora_add(lm, Q, saving(nothing, 1)) > 0, CT_ERR_ARGUMENT, "none", "no path");
    ck_refused(ct_lora_add(lm, Q, saving(no_name, 2)) > 0, CT_ERR_ARGUMENT, "lora_add", "empty");
    ck_refused(ct_lora_add(lm, Q, saving(null, 1)) > 0, CT_ERR_ARGUMENT, "lora_add", "NULL");
    ck_refused(ct_lora_add(lm, Q, saving(NULL, 1)) > 0, CT_ERR_ARGUMENT, "lora_add", "NULL");
    ck_refused(ct_lora_add(lm, Q, saving(mlp, -1)) > 0, CT_ERR_ARGUMENT, "lora_add", "NULL");
    ck_refused(ct_lora_add(lm, Q, saving(list, 1)) > 0, CT_ERR_ARGUMENT, "layers", "list");
    ck_refused(ct_lora_add(lm, Q, saving(of_q, 1)) > 0, CT_ERR_ARGUMENT, Q, "no Linear");
    ct_param a = {0}, b = {0}; /* nothing has changed */
    while (ct_module_next(lm, &a) && ct_module_next(base, &b))
        ck_assert(!strcmp(a.name, b.name) && ct_requires_grad(a.tensor));
    ck_assert_int_eq(ct_lora_add(lm, "*.?_proj", saving(mlp, 1)), 8);
    ck_refused(ct_lora_add(lm, "*.up_proj", (ct_lora_opts){0}) > 0, CT_ERR_ARGUMENT, "up_proj",
               "no Linear");
    ck_refused(ct_lora_add(lm, "lm_head", saving(of_q, 1)) > 0, CT_ERR_ARGUMENT, "q_proj",
               "an adapter already");
    ck_assert_int_eq(ct_lora_add(lm, "lm_head", saving(mlp, 1)), 1); /* they are saved already */
    ck_refused(ct_lm_save(lm, in_folder("x"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "lm_save",
               "adapters");
    ck_refused(ct_lora_save(lm, in_folder("x.gguf")), CT_ERR_ARGUMENT, "mlp", "modules_to_save");
    ck_assert(ct_lora_save(saved_lm(base, (ct_lora_opts){0}), in_folder("plain")));
    ck_assert(ct_lora_save(saved_lm(base, (ct_lora_opts){0}), in_folder("plain.gguf")));
    ct_lora_opts opts = saving(lm_head, 1);
    opts.rank = 8;
    ct_module *saved = saved_lm(base, opts);
    ck_refused(ct_lora_load(saved, in_folder("plain.gguf")), CT_ERR_FORMAT, "lm_head", "no tensor");
    ck_refused(ct_lora_load(saved, in_folder("plain")), CT_ERR_FORMAT, "lm_head", "no tensor");
}
END_TEST

int main(void) {
    return run_tests("saved modules", setup, end_with_folders,
                     TESTS(TEST(copies_are_trained), TEST(ties), TEST(files_of_families),
                           TEST(recompute_has_its_copies), TEST(weights_at_rest),
                           TEST(dora_over_blocks), TEST(new_tokens),
                           TEST(modules_that_are_refused)));
}
