/* Language models of Hugging Face folders: config.json and safetensors files are opened, run,
 * trained and saved, so that transformers loads the result.
 *
 *     ct_module *lm = ct_lm_open(context, "SmolLM2-135M", (ct_lm_opts){0});
 *     ct_tensor *logits = ct_lm_forward(lm, ids, (ct_lm_call){0});    (B, T, V)
 *
 * The families are gpt2, llama (also SmolLM, SmolLM2, TinyLlama and Llama 3), mistral, qwen2,
 * qwen3, gemma3_text, smollm3, olmo2, gpt_neox (Pythia) and bert. A model is a tree of modules with
 * the names of transformers' state dict, such as model.layers.0.self_attn.q_proj.weight. Matrices
 * are (out, in). GPT-2's are (in, out) in its files, and are transposed when these are read and
 * written. A projection that a file fuses (c_attn, query_key_value) is one Linear.
 *
 * A layer (ct_module_child(lm, "model.layers.0")) is an encoder layer of nn.h with the family's
 * names: ct_encoder_layer_forward runs it. If the family has one module for attention or for the
 * feed-forward (self_attn, attn, attention; mlp), ct_mha_forward and ct_forward run this module,
 * and any module of one input may take its place.
 *
 * docs/models.md has each family's options, and a list of mistakes in a file that shapes reveal. */
#ifndef CT_MODELS_H
#define CT_MODELS_H

#include <cotangent/io.h>
#include <cotangent/nn.h>
#include <cotangent/tokenizer.h>
#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* CT_F32, CT_F64, or CT_BF16: the matrices are bf16 and the rest f32, as after
     * ct_module_to_bf16 */
    ct_dtype dtype;
    bool recompute; /* in training each layer runs by ct_recompute */
    /* a key of config.json that transformers does not read in this family, and one of
     * generation_config.json that is not supported, is no error. What changes logits is never
     * ignored */
    bool ignore_unknown;
} ct_lm_opts;

/* Opens the model of a folder that has config.json and model.safetensors, or shards with their
 * index. Names may be with or without the prefix of the family ("model.", "transformer.", ...), and
 * floats of any format. The model is not in training mode, and nothing is drawn from the generator.
 *
 * A key of config.json that changes the mathematics and is not supported is CT_ERR_FORMAT with the
 * key and its value, and so are an unknown key (unless ignore_unknown), another architecture, a
 * tensor that is missing, and a tensor that nothing asks for. A path that is no folder of a model
 * is CT_ERR_IO; the message names what is there instead (a pickle, a GGUF file, an adapter, ...).
 * Other errors are as in ct_load. */
CT_API ct_module *ct_lm_open(ct_context *context, const char *folder, ct_lm_opts opts);

/* Makes a model from the text of a config.json, the language in which models are described here.
 * Keys that are left out have transformers' defaults. Weights are drawn by the family's
 * initialisation: matrices N(0, initializer_range^2), biases 0. The model is in training mode. */
CT_API ct_module *ct_lm_new(ct_context *context, const char *config_json, ct_lm_opts opts);

/* Facts about a model; -1 stands for none. Pointers are valid until the model is resized or
 * freed. */
typedef struct {
    const char *family; /* "llama" */
    /* the text of config.json; ct_lm_save writes it with the dtype that the matrices have then */
    const char *config;
    int64_t vocab_size, width, layers, heads, kv_heads, head_dim, max_length;
    bool causal;
    int64_t bos, pad;
    const int64_t *eos; /* [n_eos] */
    int64_t n_eos;
} ct_lm_info;
CT_API ct_lm_info ct_lm_about(const ct_module *lm);

typedef enum {
    /* the result of the architecture: logits (B, T, V); of a model without a head, the last hidden
     * state (B, T, E); of a classifier, logits (B, labels) */
    CT_LM_OUT,
    /* the logits of each row's last token (B, V); with a cache a row may have no token, and then
     * its logits say nothing */
    CT_LM_LAST,
    CT_LM_HIDDEN, /* the last hidden state, after the last norm (B, T, E) */
    CT_LM_POOLED, /* the result of BERT's pooler (B, E) */
    /* the mean of the last hidden state over the tokens of each row (B, E); 0 for a row without
     * tokens */
    CT_LM_MEAN
} ct_lm_result;

/* Keys and values of earlier tokens. It ends with ct_lm_cache_free or with its model. */
typedef struct ct_lm_cache ct_lm_cache;

typedef struct {
    ct_tensor *key_mask; /* bool (B, T), true for a token and false for padding */
    /* i64 (B, T). NULL: the place of a token among the tokens of its row and segment, counted from
     * the length of the cache's row. So padding on the left needs no positions of its own */
    ct_tensor *positions;
    ct_tensor *segments;    /* i64 (B, T): a token sees only tokens of its own number; no cache */
    ct_tensor *token_types; /* i64 (B, T), of BERT; NULL: zeros */
    /* the tokens follow those that the cache has. The padding of a row is behind its tokens;
     * padding before them is CT_ERR_ARGUMENT */
    ct_lm_cache *cache;
    ct_lm_result result; /* a result that the architecture lacks is CT_ERR_ARGUMENT */
} ct_lm_call;

/* Runs a model on ids, i64 (B, T). The gradient flows to the parameters, but not through a cache.
 *
 * A program may put modules of its own, of any type and name, in the place of the model's Linears,
 * norms and embeddings (ct_module_set_child): they are run by ct_forward. A head gets the last
 * hidden state (B, T, E) and returns logits (B, T, V), where V may be any number; for CT_LM_LAST it
 * gets each row's last token, (B, 1, E). */
CT_API ct_tensor *ct_lm_forward(ct_module *lm, ct_tensor *ids, ct_lm_call call);

/* Returns the cross-entropy of logits[:, t] with targets[:, t], i64 (B, T). Nothing is shifted: the
 * targets of a causal model are the next ids, and the ids themselves (also with -100 in some
 * places) are CT_ERR_ARGUMENT. Targets of -100 are ignored; with CT_MEAN and CT_SUM no logits are
 * computed for them, unless the head is a module of the program's own, which may need all rows. The
 * targets of a classifier are i64 (B). The logits are those of ct_lm_forward. They are never in
 * memory as a whole if the model ends in a Linear without a bias, as causal models without a
 * softcap do. call.cache and call.result must be 0. */
CT_API ct_tensor *ct_lm_loss(ct_module *lm, ct_tensor *ids, ct_tensor *targets, ct_lm_call call,
                             ct_cross_entropy_opts opts);

/* Sets the n ids that end a text (at most 16): for ct_generate_new, and as eos_token_id of
 * config.json and of generation_config.json, if there is one, in the folders that are saved.
 * Returns false after CT_ERR_ARGUMENT or CT_ERR_MEMORY. */
CT_API bool ct_lm_set_eos(ct_module *lm, const int64_t *ids, int64_t n);

/* Writes a folder that transformers and ct_lm_open load: the weights, tied ones once; tokenizer and
 * generation files of the folder from which the model was opened, if they still exist; and
 * config.json, with the dtype of the matrices as they are now and whether the head is tied. The
 * folder's parent must exist. The files replace older ones as one, as a set of shards does
 * (ct_save): after a failure or a kill at any moment, the next ct_lm_open has the whole old folder
 * or the whole new one. Weights in the other form (one file, shards) are removed, other files of
 * the folder stay. A model that no folder of its family can hold is CT_ERR_ARGUMENT: one with a
 * parameter that the family has not (the bias of a replaced head), or with a module of the
 * program's own. */
CT_API bool ct_lm_save(ct_module *lm, const char *folder, ct_save_opts opts);

/* Gives the embedding, and the head with its bias, at least vocab_size rows. New rows are the mean
 * of the old ones; tied matrices stay tied, and dtypes stay. Optimisers and generators must be made
 * afterwards. If there are enough rows, nothing changes. An embedding or a head that is a module of
 * the program's own is CT_ERR_ARGUMENT. */
CT_API bool ct_lm_resize(ct_module *lm, int64_t vocab_size);

/* Returns a cache for `batch` rows of up to max_length tokens. */
CT_API ct_lm_cache *ct_lm_cache_new(ct_module *lm, int64_t batch, int64_t max_length);
CT_API void ct_lm_cache_free(ct_lm_cache *cache);
/* These do the work of ct_kv_cache_lengths, ct_kv_cache_set_lengths and ct_kv_cache_select for all
 * layers. */
CT_API bool ct_lm_cache_lengths(const ct_lm_cache *cache, int64_t *lengths);
CT_API bool ct_lm_cache_set_lengths(ct_lm_cache *cache, const int64_t *lengths);
CT_API bool ct_lm_cache_select(ct_lm_cache *cache, const int64_t *rows);

/* ---- adapters ---- */

typedef struct {
    int64_t rank;   /* 0: 8 */
    double alpha;   /* 0: rank */
    double dropout; /* the dropout of an adapter's input, in training */
} ct_lora_opts;

/* Puts adapters in the place of the Linears (of ct_linear_new, or of a language model; no type of
 * the program's own) of any module whose paths match a pattern, in which * stands for any text and
 * ? for one character: y = Linear(x) + alpha / rank B A x. A (rank, in) is drawn from U(-1/sqrt in,
 * 1/sqrt in), and B (out, rank) is 0; both are f32 beside bf16. All parameters that are not of an
 * adapter no longer require a gradient. The Linear becomes the adapter's child base_layer.
 * Optimisers must be made afterwards.
 *
 * Returns the number of new adapters, or -1 after an error, and then nothing has changed: no Linear
 * matches, a Linear that matches has an adapter already, or the pattern is the path of a head that
 * is tied to the embedding. (Other patterns leave out such a head.) */
CT_API int64_t ct_lora_add(ct_module *module, const char *pattern, ct_lora_opts opts);
/* Adds alpha / rank B A to the weights of all adapters' Linears, rounded if they are bf16, and puts
 * the Linears back in place. A weight that another module has too (a tied head's) stays as it is,
 * and the Linear gets one of its own. No parameter's requires_grad changes. If a module of the
 * program's own is an adapter's base_layer, that is CT_ERR_ARGUMENT, and nothing is merged. */
CT_API bool ct_lora_merge(ct_module *module);
/* Writes the adapters to a folder as PEFT does: adapter_config.json and adapter_model.safetensors.
 * All adapters must have the same rank, alpha and dropout. The two files replace older ones as one
 * (ct_save). */
CT_API bool ct_lora_save(ct_module *module, const char *folder);
/* Reads a folder of PEFT's: adds adapters to the Linears that it names, also to a head that is
 * tied, or fills the adapters that a Linear already has. A setting that changes values and is not
 * supported (use_dora, use_rslora, rank_pattern, modules_to_save, bias, init_lora_weights pissa,
 * ...) is CT_ERR_FORMAT with its name. So is a Linear that target_modules (a list or a regular
 * expression), exclude_modules or layers_to_transform leave out, whose matrices PEFT ignores, and a
 * weight of the base model in the file that differs from the model's. If it returns false, nothing
 * has changed. */
CT_API bool ct_lora_load(ct_module *module, const char *folder);

/* Writes the name of the model that a folder of adapters is for (base_model_name_or_path of its
 * adapter_config.json), as snprintf: a path as it was written there, or a name on the hub. Returns
 * the number of bytes, 0 if the file names none, or -1 after CT_ERR_ARGUMENT, CT_ERR_IO,
 * CT_ERR_FORMAT or CT_ERR_MEMORY. */
CT_API int64_t ct_lora_base(ct_context *context, const char *folder, char *path, size_t room);

/* ---- generation ---- */

typedef struct {
    int64_t max_new;           /* the most ids that a row gets; 0: 100 */
    ct_sample_opts sample;     /* temperature 0: the largest logit is chosen */
    double repetition_penalty; /* logits of ids that the row has: > 0 divided by it, < 0 multiplied;
                                  0: 1 */
    const int64_t *eos; /* [n_eos] ids that end a row; n_eos 0: the ids that the folder names */
    int64_t n_eos;
    bool no_eos; /* no id ends a row */
    /* [n_stop] texts that end a row, by the tokenizer, which must outlive the generator. A special
     * token's text is its spelling. A stop text is searched in what was generated: unlike in
     * transformers, one that begins in the prompt ends no row. Tokens may be added meanwhile */
    const char *const *stop;
    int64_t n_stop;
    ct_tokenizer *tokenizer;
    uint64_t seed;
} ct_generate_opts;

/* The options of the folder's generation_config.json, which is read when the model is opened;
 * without one, those of config.json, as in transformers. A key of transformers that changes the ids
 * and is not supported (num_beams, no_repeat_ngram_size, ...) is CT_ERR_FORMAT with its value,
 * unless the model was opened with ignore_unknown. Pointers are valid until the model is freed. */
CT_API ct_generate_opts ct_lm_generate_opts(const ct_module *lm);

/* Generates ids behind n prompts: prompts.ids and prompts.mask, (n, T), padded on the left or on
 * the right; they are copied. A row without a token is CT_ERR_ARGUMENT, and so is a model that is
 * not causal. Nothing is recorded, and there is no dropout. The generator ends with its model.
 *
 * The options apply in the order of transformers' generate: penalty, temperature, top_k, top_p,
 * min_p. A draw depends only on the seed, the row's number and the number of ids that were drawn
 * for it so far. The logits of a row have the bits that they have if the row is generated by
 * itself, by the same calls and with the same settings of ct_set_matmul. A step, which reads one
 * id, is not rounded to bf16, and several ids are read in f32 under bf16x3 and bf16x6. */
typedef struct ct_generator ct_generator;
CT_API ct_generator *ct_generate_new(ct_module *lm, ct_batch prompts, ct_generate_opts opts);
CT_API void ct_generate_free(ct_generator *generator);

/* Writes the next id of each row to ids[n]: also the id that ends a row, and then -1. Returns
 * false if all rows have ended, or after an error. */
CT_API bool ct_generate_next(ct_generator *generator, int64_t *ids);
/* Ends a row, by a rule of the program. */
CT_API bool ct_generate_end(ct_generator *generator, int64_t row);

/* These go on with a row, as a conversation does. A row is its prompt, every id that
 * ct_generate_next wrote for it, the one that ended it too, and what ct_generate_more has added.
 * Keys and values of its ids are not computed again.
 *
 * ct_generate_more adds n ids, which may be 0, to a row that has ended or not. The row has not
 * ended then; max_new counts from here, stop texts are searched in what is generated from here on,
 * and the penalty is for all ids of the row. Memory grows with the row.
 *
 * ct_generate_back forgets all ids behind the first `length`, which is at least 1. A row that has
 * ended stays so until ct_generate_more.
 *
 * Both return false after an error and leave the row as it was: CT_ERR_ARGUMENT (a row, an id or a
 * length that there is not, a row too long for the model's table of positions), CT_ERR_MEMORY. */
CT_API bool ct_generate_more(ct_generator *generator, int64_t row, const int64_t *ids, int64_t n);
CT_API bool ct_generate_back(ct_generator *generator, int64_t row, int64_t length);

#ifdef __cplusplus
}
#endif
#endif
