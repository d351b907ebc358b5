/* Language models of Hugging Face folders and of GGUF files (llama.cpp, ollama): they are opened,
 * run, trained and saved, so that transformers loads the folder, and llama.cpp the file.
 *
 *     ct_module *lm = ct_lm_open(context, "SmolLM2-135M", (ct_lm_opts){0});
 *     ct_tensor *logits = ct_lm_forward(lm, ids, (ct_lm_call){0});    (B, T, V)
 *
 * The families are gpt2, llama (also SmolLM, SmolLM2, TinyLlama and Llama 3), mistral, qwen2,
 * qwen3, gemma3_text (also EmbeddingGemma), smollm3, olmo2, granite, granitemoehybrid (without
 * experts and Mamba layers), gpt_neox (Pythia), bert, roberta, xlm-roberta and distilbert. A model
 * is a tree of modules with the names of transformers' state dict, such as
 * model.layers.0.self_attn.q_proj.weight. Matrices are (out, in). GPT-2's are (in, out) in its
 * files, and are transposed when these are read and written. A projection that a file fuses
 * (c_attn, query_key_value, input_linear) is one Linear.
 *
 * A layer (ct_module_child(lm, "model.layers.0")) is an encoder layer of nn.h with the family's
 * names: ct_encoder_layer_forward runs it. If the family has one module for attention or for the
 * feed-forward (self_attn, attn, attention; mlp, shared_mlp), ct_mha_forward and ct_forward run
 * this module, and any module of one input may take its place.
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

/* The head: what a model makes of its last hidden state. Encoders (bert) have no CAUSAL head,
 * decoders have no MASKED one; docs/models.md says which families have a classifier of tokens. */
typedef enum {
    CT_LM_HEAD_FILE,     /* the head that "architectures" in config.json names */
    CT_LM_HEAD_NONE,     /* no head: the result is the last hidden state */
    CT_LM_HEAD_CAUSAL,   /* logits of the next token */
    CT_LM_HEAD_MASKED,   /* logits of the token that stood where [MASK] stands */
    CT_LM_HEAD_SEQUENCE, /* a classifier of texts: a logit for each label */
    CT_LM_HEAD_TOKEN     /* a classifier of tokens: for each token a logit for each label */
} ct_lm_head;

typedef struct {
    /* CT_F32, CT_F64, or a dtype of weights at rest, CT_BF16, CT_Q8_0 or CT_Q4_0: as after
     * ct_module_to, the weights of Linears and the tokens' embedding have it, and the rest is f32.
     * They are read into it one by one, so the model is never in memory in f32. Blocks of the same
     * kind in a file keep their bits */
    ct_dtype dtype;
    bool recompute; /* in training each layer runs by ct_recompute */
    /* a key of config.json that transformers does not read in this family, and one of
     * generation_config.json that is not supported, is no error. What changes logits is never
     * ignored */
    bool ignore_unknown;
    /* The head that the model gets, also if the file has another one or none. Parameters of this
     * head that the file lacks are drawn from the context's generator, as transformers draws them,
     * and ct_lm_info.drawn names them. A head of another kind in the file is not read, even if
     * names and shapes are the same. A head that the family does not have is CT_ERR_ARGUMENT.
     * CT_LM_HEAD_FILE is the file's own head, and nothing is drawn: a tensor that is missing is an
     * error */
    ct_lm_head head;
    /* The number of labels of a classifier. 0: as many as config.json says, or 2 if it says none.
     * If the file has another number, its head is not read but drawn. Beside a head that is no
     * classifier, a number other than 0 is CT_ERR_ARGUMENT */
    int64_t labels;
    /* [labels] the names of the labels, UTF-8. NULL: those of the file, or LABEL_0 and so on.
     * Names need .labels, which counts them */
    const char *const *label_names;
    /* what the labels mean, which chooses the loss (ct_lm_loss): "regression",
     * "single_label_classification" or "multi_label_classification". NULL: problem_type of the
     * file's config.json */
    const char *problem_type;
} ct_lm_opts;

/* Opens the model of a folder that has config.json and model.safetensors, or shards with their
 * index. Names may be with or without the prefix of the family ("model.", "transformer.", ...), and
 * floats of any format. The model is not in training mode, and nothing is drawn from the generator.
 *
 * A key of config.json that changes the mathematics and is not supported is CT_ERR_FORMAT with the
 * key and its value, and so are an unknown key (unless ignore_unknown), another architecture, a
 * tensor that is missing, and a tensor that nothing asks for. A path that is no folder of a model
 * is CT_ERR_IO; the message names what is there instead (a pickle, an adapter, ...). Other errors
 * are as in ct_load.
 *
 * The path may also be a GGUF file, the first file of a split one, or a folder whose only weights
 * are such a file. Its matrices are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or
 * Q6_K, and are widened exactly. Its keys become the text of a config.json (ct_lm_about), to which
 * the same checks apply; a key that is missing, or whose value is not supported, is CT_ERR_FORMAT
 * with its name. What a file does not say has the default of the family; docs/models.md has the
 * list. */
CT_API ct_module *ct_lm_open(ct_context *context, const char *path, ct_lm_opts opts);

/* Returns the dtype with which a model takes about as much memory as its file, for
 * ct_lm_opts.dtype. It is the dtype of most matrices if that is F32, BF16, Q8_0 or Q4_0; for F16 it
 * is CT_BF16, and for all other blocks CT_Q8_0. After an error, which is as in ct_load, it is
 * CT_F32. */
CT_API ct_dtype ct_lm_file_dtype(ct_context *context, const char *path);

/* Makes a model from the text of a config.json, the language in which models are described here.
 * Keys that are left out have transformers' defaults. Without "architectures" and .head a decoder
 * has the head of a causal language model, and an encoder none. Weights are drawn by the family's
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
    /* a sentence on what a GGUF file of this model would leave out, and on what its readers would
     * compute a little otherwise; "" if there is nothing to say. A program that saves prints it */
    const char *gguf_note;
    ct_lm_head head;                /* the head that the model has, never CT_LM_HEAD_FILE */
    int64_t labels;                 /* how many labels the classifier has; 0: it is none */
    const char *const *label_names; /* [labels] the label of each logit, id2label of config.json */
    const char *problem_type;       /* NULL: neither the options nor the file say it */
    /* [n_drawn] the parameters that ct_lm_open drew because the file lacks them, or has them for
     * another head */
    const char *const *drawn;
    int64_t n_drawn;
} ct_lm_info;
CT_API ct_lm_info ct_lm_about(const ct_module *lm);

typedef enum {
    /* what the head returns: a language model logits (B, T, V), a classifier of tokens (B, T,
     * labels), a classifier of sequences (B, labels), a model without a head its last hidden state
     * (B, T, E). A decoder's classifier of sequences reads the last token that key_mask shows; a
     * row without a token is CT_ERR_ARGUMENT */
    CT_LM_OUT,
    /* the logits of each row's last token (B, V); a classifier of sequences has none. With a cache
     * a row may get no token in a call, and then its logits mean nothing */
    CT_LM_LAST,
    CT_LM_HIDDEN, /* the last hidden state, after the last norm (B, T, E) */
    CT_LM_POOLED, /* the result of BERT's pooler (B, E) */
    /* the mean of the last hidden state over the tokens of each row (B, E); 0 for a row without
     * tokens */
    CT_LM_MEAN,
    /* the sentence vector (B, D), by the modules.json of the folder from which the model was
     * opened, as sentence-transformers computes it: poolings of the tokens, Dense, Normalize.
     * Without that file it is CT_LM_MEAN. A row without tokens is 0 before the first Dense */
    CT_LM_EMBED
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
    /* (B, T, E), transformers' inputs_embeds, in place of ids, which are NULL then: rows by
     * ct_lm_token_embeds, or any others, such as a trained prompt before them. f64 for a model of
     * f64, otherwise f32. It has a gradient */
    ct_tensor *embeds;
    /* Arrays of the caller's, which the forward fills as transformers' output_hidden_states and
     * output_attentions: tensors that are recorded, in the innermost scope. All are NULL after an
     * error. NULL: they are not wanted.
     *
     * hidden_states [layers + 1]: the input of each layer, (B, T, E), from that of the first,
     * behind the embedding, on; and the last hidden state, after the last norm, which is also the
     * result of CT_LM_HIDDEN.
     *
     * attentions [layers]: the weights of each layer, (B, H, T, S), after softmax and, in training,
     * after dropout. With a cache S is the length of its longest row and T, or its max_length if
     * that is less, and key j is the row's own token j. A key that a query does not see has 0, also
     * one outside of a window, which transformers leaves out if it has a cache. A query that sees
     * none, such as padding on the left, has zeros, and in transformers equal weights. Beside a
     * cache the weights of a query that is padding say nothing. NULL for a layer whose attention is
     * a module of the program's own. A layer that recomputes keeps its values in such a call */
    ct_tensor **hidden_states, **attentions;
    /* for CT_LM_EMBED: how many tokens at the beginning of each row are its prompt (ct_lm_prompt),
     * with a token like [CLS] before it and none behind it. If the folder's Pooling has
     * include_prompt false, the vector is pooled from the tokens behind them only; otherwise the
     * number has no effect */
    int64_t prompt_tokens;
} ct_lm_call;

/* Runs a model on ids, i64 (B, T). The gradient flows to the parameters, but not through a cache.
 * With .hidden_states and .embeds a result has the bits that it has without them; with .attentions
 * it is equal up to rounding, because a layer that keeps its weights may sum in another order.
 *
 * A program may put modules of its own, of any type and name, in the place of the model's Linears,
 * norms and embeddings (ct_module_set_child): they are run by ct_forward. A head gets the last
 * hidden state (B, T, E) and returns logits (B, T, V), where V may be any number; for CT_LM_LAST it
 * gets each row's last token, (B, 1, E). */
CT_API ct_tensor *ct_lm_forward(ct_module *lm, ct_tensor *ids, ct_lm_call call);

/* Returns the embeddings (B, T, E) of ids, i64 (B, T), for .embeds: what transformers'
 * get_input_embeddings()(ids) returns. Positions, token types and a norm behind them are not yet
 * added; Gemma 3's factor is in them. The gradient flows to the embedding. Errors are those that
 * ct_lm_forward has with ids. */
CT_API ct_tensor *ct_lm_token_embeds(ct_module *lm, ct_tensor *ids);

/* ---- sentence vectors ----
 *
 * A folder of sentence-transformers has modules.json: a Transformer, which is the model, then a
 * Pooling (cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken, or several side by side),
 * then Dense and Normalize in any order. ct_lm_open reads these, and puts each Dense into the tree:
 * as 2_Dense, with the parameters 2_Dense.linear.weight and .bias, which are trained like others.
 * They stay f32 (f64 in a model of f64) when the model is converted, and get no adapter.
 *
 * What is not followed (another type of module, an unknown key, a Dense whose only weights are a
 * pickle, do_lower_case, ...) is no error of the open, as the model has other uses: CT_LM_EMBED is
 * CT_ERR_FORMAT then, with the file, the key and its value. ignore_unknown ignores unknown keys.
 *
 * ct_lm_info.max_length is the folder's max_seq_length. */

/* Returns the prompt of a name, such as "query" or "document": a text that the program puts before
 * each text of that kind, because the model was trained so. The prompts are those of the folder's
 * config_sentence_transformers.json; the name NULL asks for the default one. If the folder has no
 * such prompt, the result is NULL without an error. A prompt that is no text, or a default that
 * names none of them, is CT_ERR_FORMAT. The result is valid until the model is freed. */
CT_API const char *ct_lm_prompt(const ct_module *lm, const char *name);

/* Returns the cross-entropy of logits[:, t] with targets[:, t], i64 (B, T). Nothing is shifted: the
 * targets of a causal model are the next ids, and the ids themselves (also with -100 in some
 * places) are CT_ERR_ARGUMENT. With CT_NONE the losses have the shape of the targets. Targets of
 * -100 are ignored: their loss is 0 with CT_NONE, and no logits are computed for them, unless the
 * head is a module of the program's own, which may need all rows.
 *
 * The targets of a classifier of sequences are i64 (B), labels, with the cross-entropy, or f32 or
 * f64 (B, labels), with the mean of (logit - target)^2, or of the binary cross-entropy if the
 * problem_type is multi_label_classification. Targets of the other dtype than problem_type asks for
 * are CT_ERR_DTYPE; without a problem_type the dtype of the targets chooses. With floats opts may
 * have .reduction only; anything else in it is CT_ERR_ARGUMENT.
 *
 * The logits are those of ct_lm_forward. They are never in memory as a whole if the model ends in a
 * Linear without a bias, as causal models without a softcap do. call.cache and call.result must be
 * 0. */
CT_API ct_tensor *ct_lm_loss(ct_module *lm, ct_tensor *ids, ct_tensor *targets, ct_lm_call call,
                             ct_cross_entropy_opts opts);

/* Sets the n ids that end a text (at most 16): for ct_generate_new, and as eos_token_id of
 * config.json and of generation_config.json, if there is one, in the folders that are saved. In a
 * GGUF file the first two that are not the tokenizer's eos_token are those that end a turn and a
 * message.
 * Returns false after CT_ERR_ARGUMENT or CT_ERR_MEMORY. */
CT_API bool ct_lm_set_eos(ct_module *lm, const int64_t *ids, int64_t n);

/* Writes a folder that transformers and ct_lm_open load: the weights, tied ones once; tokenizer and
 * generation files of the folder from which the model was opened, if they still exist; and
 * config.json, with the dtype of the matrices as they are now and whether the head is tied; and
 * sentence-transformers' files, with the Dense modules' weights as they are now. The
 * folder's parent must exist. The files replace older ones as one, as a set of shards does
 * (ct_save): after a failure or a kill at any moment, the next ct_lm_open has the whole old folder
 * or the whole new one. What an older model has left and this one has not is removed: weights in
 * the other form (one file, shards), sentence-transformers' files, and of a model that was opened
 * generation_config.json and, if its folder has a tokenizer, the files of another one. Other files
 * of the folder stay. A model that no folder of its family can hold is CT_ERR_ARGUMENT: one with a
 * parameter that the family has not (the bias of a replaced head), or with a module of the
 * program's own.
 *
 * A path that ends in .gguf is a GGUF file, with the tensors and keys of llama.cpp's converter, and
 * the tokenizer. It appears when it is whole. Matrices have the type of .floats: F32, F16, BF16,
 * Q8_0, Q4_0, or with CT_FILE_SAME their own (f64 is CT_ERR_DTYPE); norms, biases, and tables of
 * positions and token types are F32, and of Q8_0 and Q4_0 a matrix whose rows are no multiple of 32
 * is F16. An option of the model that the file cannot say, or that its readers do not follow
 * (n_inner, a window, a kind of RoPE, the head of a masked language model, ...), is CT_ERR_ARGUMENT
 * with its name, and so are .metadata and .shard_bytes. */
CT_API bool ct_lm_save(ct_module *lm, const char *path, ct_save_opts opts);

/* Sets the tokenizer that ct_lm_save writes with the model, into folders and into GGUF files; it
 * outlives the model. NULL: none is written. Without this call it is the tokenizer of the path from
 * which the model was opened. Returns false after CT_ERR_ARGUMENT. */
CT_API bool ct_lm_set_tokenizer(ct_module *lm, const ct_tokenizer *tokenizer);

/* Gives the embedding, and the head with its bias, at least vocab_size rows. New rows are the mean
 * of the old ones; tied matrices stay tied, and dtypes stay. Optimisers and generators must be made
 * afterwards. If there are enough rows, nothing changes. An embedding or a head that is a module of
 * the program's own is CT_ERR_ARGUMENT. */
CT_API bool ct_lm_resize(ct_module *lm, int64_t vocab_size);

/* Returns a cache for `batch` rows of up to max_length tokens. */
CT_API ct_lm_cache *ct_lm_cache_new(ct_module *lm, int64_t batch, int64_t max_length);
/* Frees a cache before its model ends. It does nothing for NULL. */
CT_API void ct_lm_cache_free(ct_lm_cache *cache);
/* These do the work of ct_kv_cache_lengths, ct_kv_cache_set_lengths and ct_kv_cache_select for all
 * layers. */
CT_API bool ct_lm_cache_lengths(const ct_lm_cache *cache, int64_t *lengths);
CT_API bool ct_lm_cache_set_lengths(ct_lm_cache *cache, const int64_t *lengths);
CT_API bool ct_lm_cache_select(ct_lm_cache *cache, const int64_t *rows);

/* ---- adapters ---- */

typedef struct {
    int64_t rank;    /* 0: 8 */
    double alpha;    /* 0: rank */
    double dropout;  /* the dropout of an adapter's input, in training */
    bool use_rslora; /* the factor is alpha / sqrt(rank) and not alpha / rank (arXiv:2312.03732) */
    /* y = (m / n) (W x + factor B A x) + b: m is trained from the norms of W's rows, and n, the
     * norms of the rows of W + factor B A, counts as a constant (arXiv:2402.09353) */
    bool use_dora;
    /* [n_modules_to_save] ends of paths, "lm_head": every module whose path ends so is trained as a
     * whole, in a copy of its own, and saved. ct_lora_enable and ct_lora_remove go back to the
     * original. No adapter is added inside such a module */
    const char *const *modules_to_save;
    int64_t n_modules_to_save;
    /* a head that is tied to an embedding in modules_to_save shares its copy. Otherwise copies are
     * not tied, and a head that is not saved keeps the original */
    bool ensure_weight_tying;
} ct_lora_opts;

/* Puts adapters in the place of the Linears (of ct_linear_new, or of a language model; no type of
 * the program's own) of any module whose whole paths match a pattern, in which * stands for any
 * text and ? for one character ("*.q_proj"; "q_proj" alone matches nothing): y = Linear(x) +
 * alpha / rank B A x (switched on; see use_rslora). A (rank, in) is drawn from U(-1/sqrt in,
 * 1/sqrt in), and B (out, rank) is 0; both are f32 beside bf16. All parameters that are not of an
 * adapter no longer require a gradient. The Linear becomes the adapter's child base_layer.
 * Optimisers must be made afterwards. A further call with another pattern adds to the first.
 *
 * A module in modules_to_save keeps its place and its names; its parameters are f32 copies that
 * require a gradient, and ct_module_to leaves these as they are. ct_module_get gives the tensor
 * with which the module computes: the copy, or the original while adapters are switched off.
 *
 * Returns the number of new adapters, or -1 after an error, and then nothing has changed: no Linear
 * matches, a Linear that matches has an adapter already, or the pattern is the path of a head that
 * is tied to the embedding. (Other patterns leave out such a head.) So it is if no path ends in any
 * of the names of modules_to_save (as in PEFT, one that no path ends in is passed over beside one
 * that fits), if a module to save is a list or has an adapter, and if all Linears that match are in
 * modules to save. */
CT_API int64_t ct_lora_add(ct_module *module, const char *pattern, ct_lora_opts opts);
/* Gives all adapters' Linears the weight with which they compute the same, rounded if they are
 * bf16, and puts the Linears back in place. A weight that another module has too (a tied head's)
 * stays as it is, and the Linear gets one of its own. No parameter's requires_grad changes. If a
 * module of the program's own is an adapter's base_layer, that is CT_ERR_ARGUMENT, and nothing is
 * merged; so it is if a weight, or the original of a saved module, is of blocks (CT_ERR_DTYPE). The
 * copies of saved modules stay as their parameters, bf16 if the originals are. */
CT_API bool ct_lora_merge(ct_module *module);
/* Switches all adapters of a module off (false) or on again. Switched off, every Linear computes
 * the bits that it had without its adapter, and a saved module those of its original: the reference
 * model of preference training costs no second model. What was recorded before keeps what it ran
 * with, and a function of ct_recompute repeats its first run. Copies have the switch too; a merge,
 * saves and the list of parameters do not depend on it. Key-value caches keep what was computed.
 * CT_ERR_ARGUMENT: there is no adapter, or a function of ct_recompute is running. If it returns
 * false, nothing has changed. */
CT_API bool ct_lora_enable(ct_module *module, bool on);
/* Takes all adapters away: every Linear and every saved module's original is back in its place, and
 * a parameter requires a gradient if it did before the first adapter was added. CT_ERR_ARGUMENT:
 * there is no adapter. If it returns false, nothing has changed. */
CT_API bool ct_lora_remove(ct_module *module);
/* Writes the adapters to a folder as PEFT does: adapter_config.json and adapter_model.safetensors.
 * The base is named by the path of the model's open, "" for a model of ct_lm_new. All adapters must
 * have the same dropout, use_rslora and use_dora; ranks and alphas that differ stand in
 * rank_pattern and alpha_pattern. The two files replace older ones as one (ct_save). A path that
 * ends in .gguf is one file, for llama.cpp's and ollama's --lora: of a language model, and without
 * saved modules and the adapter of a head that is tied (CT_ERR_ARGUMENT). */
CT_API bool ct_lora_save(ct_module *module, const char *path);
/* Reads a folder of PEFT's: adds adapters to the Linears that it names, also to a head that is
 * tied, or fills the adapters that a Linear already has; and the modules of modules_to_save. A
 * setting that changes values and is not supported (bias, init_lora_weights pissa, ...) is
 * CT_ERR_FORMAT with its name. So is a Linear that target_modules (a list or a regular
 * expression), exclude_modules or layers_to_transform leave out, whose matrices PEFT ignores, one
 * that the model has not, and a weight of the base model in the file that differs from the model's;
 * but the original of a saved module, which PEFT stores if the vocabulary was resized, takes the
 * place of the model's. The path may also be a GGUF file of adapters of one rank, for a language
 * model of its architecture. If it returns false, nothing has changed. */
CT_API bool ct_lora_load(ct_module *module, const char *path);

/* Writes the name of the model that a folder of adapters is for (base_model_name_or_path of its
 * adapter_config.json), as snprintf: a path as it was written there, or a name on the hub. Returns
 * the number of bytes, 0 if the file names none, as a GGUF file does not, or -1 after
 * CT_ERR_ARGUMENT, CT_ERR_IO, CT_ERR_FORMAT or CT_ERR_MEMORY. */
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
/* Frees a generator before its model ends. It does nothing for NULL. */
CT_API void ct_generate_free(ct_generator *generator);

/* Writes the next id of each row to ids[n]: also the id that ends a row, and then -1. Returns
 * false if all rows have ended, or after an error. */
CT_API bool ct_generate_next(ct_generator *generator, int64_t *ids);
/* Writes the log-probabilities of the ids that the last ct_generate_next wrote to logprobs[n]: the
 * log-softmax of the model's logits, without penalty, temperature and the like, as ct_lm_loss has
 * it. NaN for a row that got no id. Returns n, or -1 after an error. */
CT_API int64_t ct_generate_logprobs(const ct_generator *generator, double *logprobs);
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
