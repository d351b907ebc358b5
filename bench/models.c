/* Rows of models of Hugging Face folders, with the shapes of SmolLM2-135M, Qwen2.5-0.5B and GPT-2:
 * lora_NAME     a step of AdamW on adapters of rank 8 at every Linear of the layers, batch 2 of 512
 * full_NAME     a step of AdamW on all parameters, batch 2 of 512
 * prompt_NAME   the logits behind a prompt of 512 tokens, without recording
 * generate_NAME 128 tokens behind a prompt of 64, the largest logit each time; a step is all of
 * them, and reads the prompt
 * decode_NAME   64 tokens behind a prompt of 64, the largest logit each time; a step is all of
 * them, and the prompt is in the caches
 *
 * NAME is smollm2, qwen2 or gpt2, and ends with _bf16 for matrices in bf16 and products rounded to
 * bf16. A full step keeps its matrices in f32 and AdamW's states in bf16. _q8_0 and _q4_0 are
 * weights in blocks. */
#include "row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 512, PROMPT = 64, NEW = 128, DECODED = 64 };

typedef enum { LORA, FULL, READ, GENERATE, DECODE } model_work;

typedef struct {
    model_work work;
    const char *config;
    ct_dtype dtype; /* weights at rest have it; with CT_BF16 products round too */
} model_row;

static const char smollm2[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":576,"
    "\"num_hidden_layers\":30,\"num_attention_heads\":9,\"num_key_value_heads\":3,"
    "\"intermediate_size\":1536,\"vocab_size\":49152,\"tie_word_embeddings\":true,"
    "\"rope_theta\":100000,\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,"
    "\"hidden_act\":\"silu\"}";
static const char qwen2[] =
    "{\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":896,"
    "\"num_hidden_layers\":24,\"num_attention_heads\":14,\"num_key_value_heads\":2,"
    "\"intermediate_size\":4864,\"vocab_size\":151936,\"tie_word_embeddings\":true,"
    "\"rope_theta\":1000000,\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-6,"
    "\"hidden_act\":\"silu\"}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":768,"
    "\"n_layer\":12,\"n_head\":12,\"vocab_size\":50257,\"n_positions\":1024,\"resid_pdrop\":0,"
    "\"embd_pdrop\":0,\"attn_pdrop\":0}";

static model_row this;
static ct_module *lm;
static ct_optim *optim;
static ct_generator *decoder; /* its row is the prompt before each step */
static int64_t vocab, steps;
static double last;

/* Gives a matrix the numbers of its name. */
static bool fill_matrix(ct_context *c, const ct_param *p, double std) {
    if (ct_dtype_of(p->tensor) == CT_F32) {
        fill(p->tensor, p->name, std);
        ct_wrote(p->tensor);
        return true;
    }
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *values = ct_empty(c, CT_F32, ct_shape_of(p->tensor));
    if (values) fill(values, p->name, std);
    const bool ok = values && ct_copy_into(p->tensor, values);
    ct_scope_close(scope);
    return ok;
}

/* Fills the matrices of the model, or only the matrices of its adapters. */
static bool fill_matrices(ct_context *c, bool adapters, double std) {
    for (ct_param p = {0}; ct_module_next(lm, &p);) {
        const bool wanted = ct_ndim(p.tensor) == 2 && (!adapters || strstr(p.name, "lora_"));
        if (wanted && !fill_matrix(c, &p, std)) return false;
    }
    return true;
}

/* Adapters of rank 8 at every Linear of the layers. */
static bool add_adapters(ct_context *c) {
    return ct_lora_add(lm, "*", (ct_lora_opts){.rank = 8, .alpha = 16}) > 0 &&
           fill_matrices(c, true, 0.01);
}

/* Ids (batch, length) of the tokens from `first` on. */
static ct_tensor *ids_of(ct_context *c, int64_t batch, int64_t length, int64_t first) {
    ct_tensor *ids = ct_empty(c, CT_I64, CT_SHAPE(batch, length));
    int64_t *id = ct_data_i64(ids);
    for (int64_t b = 0; id && b < batch; b++)
        for (int64_t t = 0; t < length; t++)
            id[b * length + t] =
                name_bits("tokens", (uint32_t)(b * (LENGTH + 1) + t + first)) % (uint32_t)vocab;
    return ids;
}

/* A generator of `new` tokens behind the prompt. */
static ct_generator *generator_of(ct_context *c, int64_t new) {
    ct_scope scope = ct_scope_open_no_grad(c);
    const ct_batch prompt = {.ids = ids_of(c, 1, PROMPT, 0)};
    ct_generator *g =
        ct_generate_new(lm, prompt, (ct_generate_opts){.max_new = new, .no_eos = true});
    ct_scope_close(scope);
    return g;
}

static bool model_make(const row *r, ct_context *c, int64_t number, const char *names) {
    (void)number, (void)names;
    this = *(const model_row *)r->arg;
    const bool bf16 = this.dtype == CT_BF16;
    if (bf16) ct_set_matmul(c, CT_MATMUL_BF16);
    lm = ct_lm_new(c, this.config,
                   (ct_lm_opts){.dtype = bf16 && this.work != FULL ? CT_BF16 : CT_F32});
    if (!lm || !fill_matrices(c, false, 0.02)) return false;
    if (!bf16 && !ct_module_to(lm, this.dtype)) return false;
    vocab = ct_lm_about(lm).vocab_size;
    if (this.work == LORA && !add_adapters(c)) return false;
    if (this.work == LORA || this.work == FULL)
        optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 1e-4,
                                                 .weight_decay = 0.01,
                                                 .state_dtype = bf16 ? CT_BF16 : CT_F32});
    else ct_module_train(lm, false);
    if (this.work == DECODE) decoder = generator_of(c, DECODED);
    ct_memory_trim(c);
    return !ct_error(c);
}

static void train_step(ct_context *c) {
    ct_optim_zero_grad(optim);
    ct_scope scope = ct_scope_open(c);
    ct_tensor *loss = ct_lm_loss(lm, ids_of(c, BATCH, LENGTH, 0), ids_of(c, BATCH, LENGTH, 1),
                                 (ct_lm_call){0}, (ct_cross_entropy_opts){0});
    ct_backward(loss);
    ct_optim_step(optim);
    last = ct_item(loss);
    ct_scope_close(scope);
}

static void prompt_step(ct_context *c) {
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *y = ct_lm_forward(lm, ids_of(c, 1, LENGTH, 0), (ct_lm_call){.result = CT_LM_LAST});
    last = steps < 3 ? sum_of_sizes(y) : NAN;
    ct_scope_close(scope);
}

/* Adds up the ids that the generator writes until it ends. */
static void generate_all(ct_generator *g) {
    int64_t id;
    last = 0;
    while (ct_generate_next(g, &id)) last += (double)id;
}

static void generate_step(ct_context *c) {
    ct_generator *g = generator_of(c, NEW);
    generate_all(g);
    ct_generate_free(g);
}

static void decode_step(void) {
    generate_all(decoder);
    ct_generate_back(decoder, 0, PROMPT);
    ct_generate_more(decoder, 0, NULL, 0);
}

static void model_step(ct_context *c) {
    if (this.work == READ) prompt_step(c);
    else if (this.work == GENERATE) generate_step(c);
    else if (this.work == DECODE) decode_step();
    else train_step(c);
    steps++;
}

bool model_save(const char *path) {
    const bool saved = lm && ct_lm_save(lm, path, (ct_save_opts){0});
    if (!lm) fprintf(stderr, "rows: only rows of models have a file\n");
    return saved;
}

static double model_value(void) { return last; }

#define ROW_OF(name, work, config, dtype)                                                          \
    {                                                                                              \
        name, model_make, model_step, model_value, &(const model_row) { work, config, dtype }      \
    }
#define ROW(prefix, work, name, config)                                                            \
    ROW_OF(prefix "_" name "_q8_0", work, config, CT_Q8_0),                                        \
        ROW_OF(prefix "_" name "_q4_0", work, config, CT_Q4_0),                                    \
        ROW_OF(prefix "_" name "_bf16", work, config, CT_BF16),                                    \
        ROW_OF(prefix "_" name, work, config, CT_F32),
#define ROWS(name, config)                                                                         \
    ROW("lora", LORA, name, config)                                                                \
    ROW("full", FULL, name, config)                                                                \
    ROW("prompt", READ, name, config)                                                              \
    ROW("generate", GENERATE, name, config) ROW("decode", DECODE, name, config)

const row model_rows[] = {ROWS("smollm2", smollm2) ROWS("qwen2", qwen2)
                              ROWS("gpt2", gpt2){NULL, NULL, NULL, NULL, NULL}};
