/* Models whose weights rest in blocks (q8_0, q4_0) beside the same models with the values of the
 * blocks in f32: logits, losses, gradients of adapters and generations have the same bits. Files,
 * memory, and what is refused. */
#include "src/core/block_matrix.h"
#include "src/core/isa.h"

#include "small_lm.h"

#include "tests/support/suite.h"

/* Rows of 64 and 96 are blocks; those of 40 are not, and become bf16. */
#define WIDE                                                                                       \
    "\"vocab_size\": 31, \"hidden_size\": 64, \"intermediate_size\": 96, "                         \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4"
#define UNEVEN                                                                                     \
    "{\"model_type\": \"llama\", \"vocab_size\": 31, \"hidden_size\": 64, "                        \
    "\"intermediate_size\": 40, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}"

static const char *const configs[] = {
    "{\"model_type\": \"llama\", \"num_key_value_heads\": 2, " WIDE "}",
    "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " WIDE "}",
    UNEVEN,
    "{\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 64, \"n_layer\": 2, "
    "\"n_head\": 4, \"n_positions\": 32}",
    "{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.5, " WIDE "}",
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "
    "\"max_position_embeddings\": 32, " WIDE "}",
    "{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, \"head_dim\": 16, "
    "\"sliding_window\": 3, \"layer_types\": [\"sliding_attention\", \"full_attention\"], " WIDE
    "}"};
enum { CONFIGS = sizeof configs / sizeof *configs };
static const ct_dtype kinds[] = {CT_Q8_0, CT_Q4_0};

/* A model in blocks, and its clone with their values in f32. */
typedef struct {
    ct_module *blocks, *wide;
} two_models;

static two_models models_of(const char *config, ct_dtype kind) {
    ct_module *lm = rough_lm(config, (ct_lm_opts){0});
    ck_assert_msg(ct_module_to(lm, kind), "%s", ct_error_message(context));
    ct_module *wide = ct_module_clone(lm);
    ck_assert_msg(wide && ct_module_to(wide, CT_F32), "%s", ct_error_message(context));
    return (two_models){lm, wide};
}

static void same_bits(ct_tensor *a, ct_tensor *b) {
    ck_assert_msg(a && b, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_numel(a), ct_numel(b));
    ck_assert_mem_eq(ct_data_f32(ct_contiguous(a)), ct_data_f32(ct_contiguous(b)),
                     (size_t)ct_numel(a) * sizeof(float));
}

START_TEST(which_parameters_are_blocks) {
    for (int c = 0; c < CONFIGS; c++) {
        for (int k = 0; k < 2; k++) {
            ct_module *lm = rough_lm(configs[c], (ct_lm_opts){0});
            ck_assert(ct_module_to(lm, kinds[k]));
            int blocks = 0;
            for (ct_param p = {0}; ct_module_next(lm, &p);) {
                const ct_shape shape = ct_shape_of(p.tensor);
                const bool table =
                    strstr(p.name, "wpe") || strstr(p.name, "position") || strstr(p.name, "type");
                const ct_dtype want = shape.ndim != 2 || table ? CT_F32
                                      : shape.dim[1] % 32      ? CT_BF16
                                                               : kinds[k];
                ck_assert_msg(ct_dtype_of(p.tensor) == want, "%s", p.name);
                ck_assert(ct_requires_grad(p.tensor) == (want == CT_F32));
                blocks += want == kinds[k];
            }
            ck_assert_int_gt(blocks, 4);
            ck_assert(ct_module_to(lm, kinds[k])); /* nothing to do */
            ck_assert(ct_module_to(lm, kinds[1 - k]) && ct_module_to(lm, CT_BF16));
            for (ct_param p = {0}; ct_module_next(lm, &p);)
                ck_assert(ct_dtype_of(p.tensor) == CT_F32 || ct_dtype_of(p.tensor) == CT_BF16);
            ck_assert(ct_module_to(lm, CT_F32));
            for (ct_param p = {0}; ct_module_next(lm, &p);)
                ck_assert(ct_dtype_of(p.tensor) == CT_F32 && ct_requires_grad(p.tensor));
            ct_module_free(lm);
        }
    }
}
END_TEST

START_TEST(logits_have_the_bits_of_the_values) {
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *before = context;
        context = ct_context_new(
            (ct_context_opts){.seed = 2, .threads = 1 + isa % 2, .isa = cti_isa_at(isa)->name});
        for (int k = 0; k < 2; k++) {
            two_models m = models_of(configs[_i], kinds[k]);
            for (int64_t T = 1; T < 20; T += 9) {
                ct_tensor *ids = some_ids(2, T);
                same_bits(run_lm(m.wide, ids, (ct_lm_call){0}),
                          run_lm(m.blocks, ids, (ct_lm_call){0}));
            }
        }
        ct_context_free(context);
        context = before;
    }
}
END_TEST

/* Gradients of adapters over blocks are those over the values of the blocks, and a step takes less
 * memory by what the weights have lost. */
START_TEST(adapters_over_blocks) {
    for (int k = 0; k < 2; k++) {
        two_models m = models_of(configs[_i], kinds[k]);
        ct_tensor *ids = some_ids(2, 7), *targets = some_ids(2, 7), *grad[2][64];
        ct_module *lm[2] = {m.wide, m.blocks};
        int n[2] = {0};
        int64_t peak[2], weights[2] = {0};
        for (int i = 0; i < 2; i++) {
            ct_rng_set(context, (ct_rng){.seed = 5});
            ck_assert_int_gt(ct_lora_add(lm[i], _i == 3 ? "*c_attn" : "*q_proj", (ct_lora_opts){0}),
                             0);
            for (ct_param p = {0}; ct_module_next(lm[i], &p);)
                if (strstr(p.name, "lora_B")) ct_init_normal(p.tensor, 0, 0.5);
            ct_rng_set(context, (ct_rng){.seed = 6});
            for (ct_param p = {0}; ct_module_next(lm[i], &p);)
                weights[i] += cti_dtype_bytes(ct_dtype_of(p.tensor), ct_numel(p.tensor));
            ct_scope scope = ct_scope_open(context);
            const int64_t live = ct_memory(context).live;
            ct_memory_reset_peak(context);
            ct_tensor *loss =
                ct_lm_loss(lm[i], ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
            ck_assert_msg(loss && ct_backward(loss), "%s", ct_error_message(context));
            peak[i] = ct_memory(context).peak - live;
            ct_scope_close(scope);
            for (ct_param p = {0}; ct_module_next(lm[i], &p);)
                if (ct_requires_grad(p.tensor)) grad[i][n[i]++] = ct_grad(p.tensor);
            ck_assert_int_gt(n[i], 1);
            ct_optim *optim = ct_adamw_new(lm[i], (ct_adamw_opts){.lr = 1e-3});
            ck_assert_msg(optim && ct_optim_step(optim), "%s", ct_error_message(context));
        }
        ck_assert_int_eq(n[0], n[1]);
        for (int i = 0; i < n[0]; i++) same_bits(grad[0][i], grad[1][i]);
        ck_assert_int_le(peak[1], peak[0]);
        ck_assert_int_lt(3 * weights[1], 2 * weights[0]);
        same_bits(run_lm(lm[0], ids, (ct_lm_call){0}), run_lm(lm[1], ids, (ct_lm_call){0}));
        ck_refused(ct_lora_merge(m.blocks), CT_ERR_DTYPE, "lora_merge: ", "ct_module_to");
        ck_assert(ct_module_to(m.blocks, CT_F32) && ct_lora_merge(m.blocks));
    }
}
END_TEST

/* ---- files ---- */

START_TEST(saved_as_bf16_and_read_into_blocks) {
    for (int k = 0; k < 2; k++) {
        ct_module *lm = rough_lm(configs[_i], (ct_lm_opts){0});
        ck_assert(ct_lm_save(lm, in_folder("f32"), (ct_save_opts){0}));
        ck_assert(ct_module_to(lm, kinds[k]));
        /* an open in blocks rounds as ct_module_to does */
        ct_module *again = ct_lm_open(context, in_folder("f32"), (ct_lm_opts){.dtype = kinds[k]});
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        ct_tensor *ids = some_ids(2, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
        same_bits(want, run_lm(again, ids, (ct_lm_call){0}));
        /* f32 keeps the values, so that blocks come back as they were */
        ck_assert(ct_lm_save(lm, in_folder("wide"), (ct_save_opts){.floats = CT_FILE_F32}));
        ct_module *wide = ct_lm_open(context, in_folder("wide"), (ct_lm_opts){0});
        ck_assert_msg(wide != NULL, "%s", ct_error_message(context));
        same_bits(want, run_lm(wide, ids, (ct_lm_call){0}));
        /* as it is: bf16 */
        ck_assert(ct_lm_save(lm, in_folder("same"), (ct_save_opts){0}));
        ct_safetensors *file = ct_safetensors_open(context, in_folder("same/model.safetensors"));
        int of_bf16 = 0;
        for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e);)
            of_bf16 += !strcmp(e.dtype, "BF16");
        ct_safetensors_close(file);
        ck_assert_int_gt(of_bf16, 4);
        ck_assert_ptr_nonnull(strstr(ct_lm_about(lm).config, "vocab"));
        ct_module *half = ct_lm_open(context, in_folder("same"), (ct_lm_opts){.dtype = CT_BF16});
        ck_assert(ct_module_to(lm, CT_BF16));
        same_bits(run_lm(lm, ids, (ct_lm_call){0}), run_lm(half, ids, (ct_lm_call){0}));
        ck_refused(ct_lm_save(lm, in_folder("x"), (ct_save_opts){.floats = CT_FILE_Q8_0}),
                   CT_ERR_ARGUMENT, "a safetensors file has no blocks", "");
    }
}
END_TEST

/* An open never has the weights in f32. */
START_TEST(memory_of_an_open) {
    static const char big[] = "{\"model_type\": \"llama\", \"vocab_size\": 4000, "
                              "\"hidden_size\": 64, \"intermediate_size\": 960, "
                              "\"num_hidden_layers\": 4, \"num_attention_heads\": 4}";
    ct_module *lm = new_lm(big, (ct_lm_opts){0});
    ck_assert(ct_lm_save(lm, in_folder("big"), (ct_save_opts){0}));
    ct_module_free(lm);
    int64_t used[2];
    for (int k = 0; k < 2; k++) {
        ct_memory_reset_peak(context);
        const int64_t before = ct_memory(context).live;
        lm = ct_lm_open(context, in_folder("big"), (ct_lm_opts){.dtype = k ? CT_Q8_0 : CT_F32});
        ck_assert_ptr_nonnull(lm);
        used[k] = ct_memory(context).peak - before;
        ct_module_free(lm);
    }
    ck_assert_int_lt(used[1], used[0] * 2 / 5);
}
END_TEST

START_TEST(checkpoints_need_trained) {
    ct_module *lm = rough_lm(configs[0], (ct_lm_opts){0});
    ck_assert(ct_module_to(lm, CT_Q8_0) && ct_lora_add(lm, "*q_proj", (ct_lora_opts){0}) > 0);
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){0});
    ct_checkpoint all = {.module = lm, .optim = optim},
                  trained = {.module = lm, .optim = optim, .trained = true};
    ck_refused(ct_checkpoint_save(in_folder("ckpt"), &all), CT_ERR_DTYPE, "is q8_0", ".trained");
    ck_assert_msg(ct_checkpoint_save(in_folder("ckpt"), &trained), "%s", ct_error_message(context));
    ck_assert(ct_checkpoint_load(in_folder("ckpt"), &trained));
}
END_TEST

START_TEST(what_is_refused) {
    ct_module *lm = rough_lm(configs[0], (ct_lm_opts){0});
    ck_assert(ct_module_to(lm, CT_Q4_0));
    ck_refused(ct_lm_resize(lm, 40), CT_ERR_DTYPE, "lm_resize: ", "ct_module_to");
    ck_refused(ct_adamw_new(lm, (ct_adamw_opts){0}), CT_ERR_DTYPE, "is q4_0, which is not trained",
               "ct_module_to");
    ck_refused(ct_lm_new(context, configs[0], (ct_lm_opts){.dtype = CT_I64}), CT_ERR_DTYPE,
               "q8_0 or q4_0", "");
    ck_assert(ct_module_to(lm, CT_BF16) && ct_lm_resize(lm, 40));
    for (int k = 0; k < 2; k++) { /* a new model has the numbers of one in f32 */
        ct_rng_set(context, (ct_rng){.seed = 7});
        ct_module *a = new_lm(configs[0], (ct_lm_opts){.dtype = kinds[k]});
        ct_rng_set(context, (ct_rng){.seed = 7});
        ct_module *b = new_lm(configs[0], (ct_lm_opts){0});
        ct_tensor *ids = some_ids(1, 5);
        ck_assert(ct_module_to(b, kinds[k]));
        same_bits(run_lm(a, ids, (ct_lm_call){0}), run_lm(b, ids, (ct_lm_call){0}));
    }
}
END_TEST

/* Every tensor that a function of models.h takes: ids, targets, and those of a ct_lm_call. */
START_TEST(calls_that_take_no_blocks) {
    ct_module *lm = rough_lm(configs[5], (ct_lm_opts){0}),
              *causal = rough_lm(configs[0], (ct_lm_opts){0});
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(2, 32)),
              *y = ct_cast(ct_zeros(context, CT_F32, CT_SHAPE(2, 32)), kinds[_i]);
    const ct_lm_call plain = {0}, mask = {.key_mask = y}, positions = {.positions = y},
                     segments = {.segments = y}, types = {.token_types = y},
                     *const call[] = {&mask, &positions, &segments, &types};
    const ct_cross_entropy_opts opts = {0};
    for (int i = 0; i < 4; i++) {
        ck_refused(ct_lm_forward(lm, ids, *call[i]), CT_ERR_DTYPE, "lm_forward: ", "");
        ck_refused(ct_lm_loss(lm, ids, ids, *call[i], opts), CT_ERR_DTYPE, "lm_loss: ", "");
    }
    ck_refused(ct_lm_forward(lm, y, plain), CT_ERR_DTYPE, "lm_forward: ", "");
    ck_refused(ct_lm_loss(lm, y, ids, plain, opts), CT_ERR_DTYPE, "lm_loss: ", "");
    ck_refused(ct_lm_loss(lm, ids, y, plain, opts), CT_ERR_DTYPE, "lm_loss: ", "");
    /* a generator says of any ids that are not i64 what prompts are */
    ck_refused(ct_generate_new(causal, (ct_batch){.ids = y}, (ct_generate_opts){0}),
               CT_ERR_ARGUMENT, "must be i64", "");
    ck_refused(ct_generate_new(causal, (ct_batch){.ids = ids, .mask = y}, (ct_generate_opts){0}),
               CT_ERR_SHAPE, "must be bool", "");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model_blocks");
    TCase *tcase = tcase_create("blocks");
    tcase_add_checked_fixture(tcase, setup, end_with_folders);
    tcase_add_test(tcase, which_parameters_are_blocks);
    tcase_add_loop_test(tcase, logits_have_the_bits_of_the_values, 0, CONFIGS);
    tcase_add_loop_test(tcase, adapters_over_blocks, 0, 4);
    tcase_add_loop_test(tcase, saved_as_bf16_and_read_into_blocks, 0, CONFIGS);
    tcase_add_test(tcase, memory_of_an_open);
    tcase_add_test(tcase, checkpoints_need_trained);
    tcase_add_test(tcase, what_is_refused);
    tcase_add_loop_test(tcase, calls_that_take_no_blocks, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
