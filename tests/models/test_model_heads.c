/* Heads of models: what is drawn and named, labels and their names, errors, copies, and a base that
 * is opened as a classifier without memory. */
#include "small_lm.h"
#include "tests/support/refused.h"

static const char *const three[] = {"no", "per\"haps\n", "y\xc3\xa9s"};
static const ct_lm_opts sequence3 = {
    .head = CT_LM_HEAD_SEQUENCE, .labels = 3, .label_names = three};

static ct_module *open_at(const char *name, ct_lm_opts opts) {
    ct_module *lm = ct_lm_open(context, in_folder(name), opts);
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    return lm;
}

static void save_at(ct_module *lm, const char *name) {
    ck_assert_msg(ct_lm_save(lm, in_folder(name), (ct_save_opts){0}), "%s",
                  ct_error_message(context));
}

/* The names that were drawn, with commas between them. */
static const char *drawn_of(const ct_module *lm) {
    static char text[1000];
    const ct_lm_info about = ct_lm_about(lm);
    *text = 0;
    for (int64_t i = 0; i < about.n_drawn; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "," : "",
                 about.drawn[i]);
    return text;
}

START_TEST(what_is_drawn_is_named) {
    static const struct {
        const char *config;
        ct_lm_head head;
        const char *drawn;
    } cases[] = {
        {LLAMA, CT_LM_HEAD_NONE, ""},
        {LLAMA, CT_LM_HEAD_CAUSAL, ""},
        {LLAMA, CT_LM_HEAD_SEQUENCE, "score.weight"},
        {LLAMA, CT_LM_HEAD_TOKEN, "score.weight,score.bias"},
        {GPT2, CT_LM_HEAD_TOKEN, "classifier.weight,classifier.bias"},
        {NEOX, CT_LM_HEAD_SEQUENCE, "score.weight"},
        {GEMMA, CT_LM_HEAD_SEQUENCE, "score.weight"},
        {BERT("BertModel"), CT_LM_HEAD_NONE, ""},
        {BERT("BertModel"), CT_LM_HEAD_SEQUENCE, "classifier.weight,classifier.bias"},
        {BERT("BertModel"), CT_LM_HEAD_TOKEN, "classifier.weight,classifier.bias"},
        {BERT("BertForMaskedLM"), CT_LM_HEAD_SEQUENCE,
         "bert.pooler.dense.weight,bert.pooler.dense.bias,classifier.weight,classifier.bias"},
        {BERT("BertForMaskedLM"), CT_LM_HEAD_MASKED, ""},
        {BERT("BertForSequenceClassification"), CT_LM_HEAD_SEQUENCE, ""},
        {BERT("BertForSequenceClassification"), CT_LM_HEAD_FILE, ""},
        {BERT("BertForSequenceClassification"), CT_LM_HEAD_TOKEN,
         "classifier.weight,classifier.bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *lm = rough_lm(cases[i].config, f64);
        save_at(lm, "base");
        ct_module *opened = open_at("base", (ct_lm_opts){.dtype = CT_F64, .head = cases[i].head});
        ck_assert_str_eq(drawn_of(opened), cases[i].drawn);
        ct_module *copy = ct_module_clone(opened);
        ct_module_free(opened);
        ck_assert_str_eq(drawn_of(copy), cases[i].drawn);
        /* what is not drawn is the file's */
        ct_param param = {0};
        while (ct_module_next(copy, &param)) {
            if (strstr(cases[i].drawn, param.name)) continue;
            ct_tensor *file = ct_module_get(lm, param.name);
            if (file) ck_assert_double_eq(apart(param.tensor, file), 0);
            ct_error_clear(context);
        }
        ct_module_free(copy);
        ct_module_free(lm);
    }
}
END_TEST

/* The same seed draws the same head, and nothing is drawn without need. */
START_TEST(draws_are_of_the_generator) {
    save_at(rough_lm(LLAMA, f64), "base");
    const ct_lm_opts opts = {.dtype = CT_F64, .head = CT_LM_HEAD_SEQUENCE, .labels = 2};
    const ct_rng state = ct_rng_get(context);
    ct_tensor *score[3];
    for (int i = 0; i < 3; i++) {
        if (i == 2) ct_rng_set(context, state);
        score[i] = ct_module_get(open_at("base", opts), "score.weight");
    }
    ck_assert_double_eq(apart(score[0], score[2]), 0);
    ck_assert_double_gt(apart(score[0], score[1]), 1e-3);
}
END_TEST

START_TEST(labels_and_their_names) {
    save_at(rough_lm(BERT("BertModel"), f64), "base");
    ct_module *lm = open_at("base", sequence3), *copy = ct_module_clone(lm);
    save_at(copy, "classes");
    ct_module *again = open_at("classes", (ct_lm_opts){0});
    ct_module *const each[] = {lm, copy, again};
    for (int k = 0; k < 3; k++) {
        const ct_lm_info about = ct_lm_about(each[k]);
        ck_assert_int_eq(about.head, CT_LM_HEAD_SEQUENCE);
        ck_assert_int_eq(about.labels, 3);
        for (int i = 0; i < 3; i++) ck_assert_str_eq(about.label_names[i], three[i]);
        ck_assert_ptr_null(about.problem_type);
    }
    ck_assert_str_eq(drawn_of(again), "");
    ck_assert_int_eq(ct_lm_about(rough_lm(LLAMA, f64)).labels, 0);
    /* another number of labels, or of another kind */
    ct_module *more = open_at("classes", (ct_lm_opts){.labels = 4});
    ck_assert_str_eq(drawn_of(more), "classifier.weight,classifier.bias");
    ck_assert_str_eq(ct_lm_about(more).label_names[3], "LABEL_3");
    ct_module *tokens = open_at("classes", (ct_lm_opts){.head = CT_LM_HEAD_TOKEN});
    ck_assert_str_eq(ct_lm_about(tokens).label_names[1], three[1]);
    ck_assert_str_eq(drawn_of(tokens), "classifier.weight,classifier.bias");
    /* two of one name: the last has it in label2id */
    const ct_lm_opts twice = {
        .head = CT_LM_HEAD_TOKEN, .labels = 2, .label_names = (const char *const[]){"a", "a"}};
    const char *text = ct_lm_about(open_at("base", twice)).config;
    ck_assert_ptr_nonnull(strstr(text, "\"label2id\": {\"a\": 1}"));
    ck_assert_ptr_nonnull(strstr(text, "\"id2label\": {\"0\": \"a\", \"1\": \"a\"}"));
}
END_TEST

START_TEST(refused_options) {
    static const char *const holes[] = {"a", NULL}, *const bytes[] = {"a", "\xff"};
    static const struct {
        const char *config;
        ct_lm_opts opts;
        const char *word1, *word2;
    } cases[] = {
        {LLAMA, {.head = CT_LM_HEAD_MASKED}, ".head", "no llama with the head of a masked"},
        {BERT("BertModel"), {.head = CT_LM_HEAD_CAUSAL}, ".head", "no bert with a causal head"},
        {GEMMA, {.head = CT_LM_HEAD_TOKEN}, ".head", "no gemma3_text with a classifier of tokens"},
        {LLAMA, {.head = (ct_lm_head)9}, ".head", "no head"},
        {LLAMA, {.head = CT_LM_HEAD_SEQUENCE, .labels = -1}, ".labels is -1", ""},
        {LLAMA, {.head = CT_LM_HEAD_SEQUENCE, .labels = 1 << 21}, ".labels is 2097152", ""},
        {LLAMA, {.head = CT_LM_HEAD_SEQUENCE, .label_names = three}, ".label_names", ".labels"},
        {LLAMA,
         {.head = CT_LM_HEAD_SEQUENCE, .labels = 2, .label_names = holes},
         ".label_names[1]",
         "NULL"},
        {LLAMA,
         {.head = CT_LM_HEAD_SEQUENCE, .labels = 2, .label_names = bytes},
         ".label_names[1]",
         "UTF-8"},
        {LLAMA, {.labels = 2}, ".labels", "llama with a causal head"},
        {LLAMA, {.head = CT_LM_HEAD_NONE, .problem_type = "regression"}, ".problem_type", "llama"},
        {LLAMA, {.head = CT_LM_HEAD_SEQUENCE, .problem_type = "x"}, ".problem_type", "regression"},
        {LLAMA,
         {.head = CT_LM_HEAD_SEQUENCE, .labels = 1, .problem_type = "single_label_classification"},
         "single_label_classification",
         "more than one label"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *lm = rough_lm(cases[i].config, (ct_lm_opts){0});
        save_at(lm, "base");
        ct_module_free(lm);
        const int64_t live = ct_memory(context).live;
        ck_refused(ct_lm_open(context, in_folder("base"), cases[i].opts), CT_ERR_ARGUMENT,
                   cases[i].word1, cases[i].word2);
        ck_refused(ct_lm_new(context, cases[i].config, cases[i].opts), CT_ERR_ARGUMENT,
                   cases[i].word1, cases[i].word2);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

#define CLASSES(more)                                                                              \
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], " SIZES    \
    ", " more "}"

START_TEST(refused_labels_of_a_file) {
    static const struct {
        const char *config, *word1, *word2;
    } cases[] = {
        {CLASSES("\"id2label\": {}"), "id2label", "1 to"},
        {CLASSES("\"id2label\": [1]"), "id2label", "an object"},
        {CLASSES("\"id2label\": {\"0\": \"a\", \"2\": \"b\"}"), "id2label", "\"0\" to \"1\""},
        {CLASSES("\"id2label\": {\"x\": \"a\"}"), "id2label", "keys"},
        {CLASSES("\"id2label\": {\"0\": [1]}"), "id2label", "neither a text"},
        {CLASSES("\"num_labels\": 0"), "num_labels", "from 1"},
        {CLASSES("\"num_labels\": 3000000000"), "num_labels", "from 1"},
        {CLASSES("\"problem_type\": \"x\""), "problem_type", "regression"},
        {CLASSES("\"problem_type\": 3"), "problem_type", "regression"},
        {CLASSES("\"num_labels\": 1, \"problem_type\": \"single_label_classification\""),
         "problem_type", "more than one label"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_refused(ct_lm_new(context, cases[i].config, (ct_lm_opts){0}), CT_ERR_FORMAT,
                   cases[i].word1, cases[i].word2);
    /* labels of a model that is no classifier are not read */
    ck_assert_ptr_nonnull(ct_lm_new(
        context, "{\"model_type\": \"llama\", \"id2label\": [1], " SIZES "}", (ct_lm_opts){0}));
}
END_TEST

START_TEST(refused_targets) {
    ct_tensor *ids = some_ids(3, 4);
    ct_tensor *one = ct_zeros(context, CT_I64, CT_SHAPE(3)),
              *real = ct_zeros(context, CT_F32, CT_SHAPE(3, 2));
    static const struct {
        const char *problem;
        bool ids_are_right, floats_are_right;
    } cases[] = {{NULL, true, true},
                 {"single_label_classification", true, false},
                 {"multi_label_classification", false, true},
                 {"regression", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_lm_opts opts = {.head = CT_LM_HEAD_SEQUENCE, .problem_type = cases[i].problem};
        ct_module *lm = ct_lm_new(context, LLAMA, opts);
        for (int k = 0; k < 2; k++) {
            ct_tensor *targets = k ? real : one;
            if (k ? cases[i].floats_are_right : cases[i].ids_are_right)
                ck_assert_ptr_nonnull(
                    ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}));
            else
                ck_refused(
                    ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}),
                    CT_ERR_DTYPE, "lm_loss", cases[i].problem);
        }
    }
    ct_module *lm = ct_lm_new(context, LLAMA, (ct_lm_opts){.head = CT_LM_HEAD_SEQUENCE});
    const ct_lm_call call = {0};
    const ct_cross_entropy_opts plain = {0};
    ck_refused(ct_lm_loss(lm, ids, ct_zeros(context, CT_BOOL, CT_SHAPE(3)), call, plain),
               CT_ERR_DTYPE, "lm_loss", "i64 (B)");
    ck_refused(ct_lm_loss(lm, ids, ids, call, plain), CT_ERR_SHAPE, "lm_loss", "2 dims");
    ck_refused(ct_lm_loss(lm, ids, ct_zeros(context, CT_I64, CT_SHAPE(2)), call, plain),
               CT_ERR_SHAPE, "lm_loss", "(3)");
    ck_refused(ct_lm_loss(lm, ids, ct_zeros(context, CT_F32, CT_SHAPE(3)), call, plain),
               CT_ERR_SHAPE, "lm_loss", "labels");
    ck_refused(ct_lm_loss(lm, ids, ct_zeros(context, CT_F32, CT_SHAPE(3, 5)), call, plain),
               CT_ERR_SHAPE, "(3, 5)", "(3, 2)");
    ck_refused(ct_lm_loss(lm, ids, real, call, (ct_cross_entropy_opts){.z_loss = 1}),
               CT_ERR_ARGUMENT, "lm_loss", "reduction");
    const bool shown[] = {true,  true,  false, false, false, false,
                          false, false, true,  true,  true,  true};
    ck_refused(ct_lm_loss(lm, ids, one,
                          (ct_lm_call){.key_mask = ct_from_bool(context, CT_SHAPE(3, 4), shown)},
                          plain),
               CT_ERR_ARGUMENT, "row 1 has no token", "");
    ct_module *tokens = ct_lm_new(context, LLAMA, (ct_lm_opts){.head = CT_LM_HEAD_TOKEN});
    ck_refused(ct_lm_loss(tokens, ids, real, call, plain), CT_ERR_DTYPE, "targets", "i64");
    ck_refused(ct_lm_loss(tokens, ids, one, call, plain), CT_ERR_SHAPE, "targets", "(3, 4)");
    /* the labels of tokens may happen to be their ids */
    ct_tensor *small = ct_from_i64(context, CT_SHAPE(1, 4), (int64_t[]){0, 1, 0, 1});
    ck_assert_ptr_nonnull(ct_lm_loss(tokens, small, small, call, plain));
}
END_TEST

/* The last token is the last that the mask shows; the others do not matter behind it. */
START_TEST(last_token_by_the_mask) {
    ct_module *lm = rough_lm(LLAMA, (ct_lm_opts){.dtype = CT_F64, .head = CT_LM_HEAD_SEQUENCE});
    ct_tensor *ids = some_ids(2, 6);
    for (int left = 0; left < 2; left++) {
        bool mask[12];
        for (int t = 0; t < 12; t++) mask[t] = t < 6 || (left ? t >= 8 : t < 10);
        ct_tensor *got =
            run_lm(lm, ids, (ct_lm_call){.key_mask = ct_from_bool(context, CT_SHAPE(2, 6), mask)});
        ct_tensor *alone =
            run_lm(lm, ct_narrow(ct_narrow(ids, 0, 1, 1), 1, left ? 2 : 0, 4), (ct_lm_call){0});
        ck_assert(same_shape(got, CT_SHAPE(2, 2)));
        ck_assert_double_lt(apart(ct_narrow(got, 0, 1, 1), alone), 1e-12);
    }
}
END_TEST

START_TEST(grown_converted_and_refused_in_gguf) {
    save_at(rough_lm(BERT("BertForMaskedLM"), (ct_lm_opts){0}), "base");
    ct_module *lm = open_at("base", sequence3);
    ct_module_train(lm, false);
    ct_tensor *ids = some_ids(2, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ck_assert(ct_lm_resize(lm, 40));
    ck_assert_double_eq(apart(run_lm(lm, ids, (ct_lm_call){0}), before), 0);
    ck_refused(ct_lm_save(lm, in_folder("m.gguf"), (ct_save_opts){0}), CT_ERR_ARGUMENT,
               "architectures", "classifier");
    /* the head stays f32 beside a base of bf16 */
    ck_assert(ct_module_to(lm, CT_BF16));
    ck_assert_int_eq(ct_dtype_of(ct_module_get(lm, "classifier.weight")), CT_F32);
    ck_assert_int_eq(ct_dtype_of(ct_module_get(lm, "bert.pooler.dense.weight")), CT_BF16);
    save_at(lm, "half");
    ct_module *half = open_at("half", (ct_lm_opts){.dtype = CT_BF16});
    ck_assert_double_eq(apart(run_lm(half, ids, (ct_lm_call){0}), run_lm(lm, ids, (ct_lm_call){0})),
                        0);
    /* a GGUF file of a base as a classifier */
    ct_lm_save(rough_lm(LLAMA, (ct_lm_opts){0}), in_folder("base.gguf"), (ct_save_opts){0});
    ct_module *of_gguf = open_at("base.gguf", sequence3);
    ck_assert_str_eq(drawn_of(of_gguf), "score.weight");
}
END_TEST

int main(void) {
    return run_tests("model heads", setup, end_with_folders,
                     TESTS(TEST(what_is_drawn_is_named), TEST(draws_are_of_the_generator),
                           TEST(labels_and_their_names), TEST(refused_options),
                           TEST(refused_labels_of_a_file), TEST(refused_targets),
                           TEST(last_token_by_the_mask),
                           TEST(grown_converted_and_refused_in_gguf)));
}
