/* The layers of models: the tree of each family, whose names, order and kinds programs and files
 * rely on, and a model's layer as a layer of nn.h. */
#include "small_lm.h"

/* ---- trees ---- */

#define TREE(family, more) "{\"model_type\": \"" family "\", " more SIZES "}"
#define FEW_HEADS          "\"num_key_value_heads\": 2, "

static const char *const tree_configs[] = {
    GPT2,
    TREE("llama", FEW_HEADS "\"attention_bias\": true, \"mlp_bias\": true, "),
    TREE("llama", "\"architectures\": [\"LlamaModel\"], "),
    TREE("mistral", FEW_HEADS),
    TREE("qwen2", FEW_HEADS),
    WITH_QK_NORMS("qwen3"),
    GEMMA,
    TREE("smollm3", FEW_HEADS),
    TREE("olmo2", FEW_HEADS),
    NEOX,
    TREE("gpt_neox", "\"use_parallel_residual\": false, \"attention_bias\": false, "),
    BERT("BertForMaskedLM"),
    BERT("BertForSequenceClassification"),
    BERT("BertModel"),
};
enum { TREES = sizeof tree_configs / sizeof *tree_configs };

/* Writes a model as it is printed, then its parameters and buffers in their order. */
static void write_tree(FILE *file, const char *config) {
    ct_module *lm = new_lm(config, (ct_lm_opts){0});
    ct_param param = {0}, buffer = {0};
    fprintf(file, "# %s\n", config);
    ct_module_print(lm, file);
    while (ct_module_next(lm, &param)) {
        const ct_shape shape = ct_shape_of(param.tensor);
        fprintf(file, "%s", param.name);
        for (int d = 0; d < shape.ndim; d++) fprintf(file, " %d", (int)shape.dim[d]);
        fprintf(file, " %s\n", ct_module_kind(param.owner));
    }
    while (ct_module_next_buffer(lm, &buffer)) fprintf(file, "buffer %s\n", buffer.name);
    ct_module_free(lm);
}

/* Compares with tests/golden/model_trees.txt, line by line. With NEW_TREES=FILE in the environment
 * the trees are written there, too. */
START_TEST(trees_stay) {
    static char line[1024], want[1024];
    const char *copy = getenv("NEW_TREES");
    FILE *file = fopen(copy ? copy : in_folder("trees"), "w+"),
         *golden = fopen("tests/golden/model_trees.txt", "r");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < TREES; i++) write_tree(file, tree_configs[i]);
    rewind(file);
    ck_assert_ptr_nonnull(golden);
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        ck_assert_msg(fgets(want, sizeof want, golden) != NULL, "line %d is new: %s", number, line);
        ck_assert_msg(!strcmp(line, want), "line %d is\n%snot\n%s", number, line, want);
    }
    ck_assert_msg(!fgets(want, sizeof want, golden), "a line is gone: %s", want);
    fclose(file), fclose(golden);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model layers");
    TCase *all = tcase_create("model layers");
    tcase_add_checked_fixture(all, setup, end_with_folders);
    tcase_add_test(all, trees_stay);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
