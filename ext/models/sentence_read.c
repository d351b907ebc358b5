/* Reads sentence-transformers' files of a folder. */
#include "sentence_read.h"

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/load.h"
#include "../../src/core/memory.h"
#include "sentence_vector.h"
#include "small_file.h"

/* ---- small JSON files ---- */

/* A JSON file of the model's folder. */
typedef struct {
    cti_lm *lm;
    const char *op;
    char name[CTI_SET_NAME]; /* "1_Pooling/config.json" */
    bool there;
    char *path, *text;
    size_t size;
    cti_json_tree tree; /* if it is there */
} side_file;

static void side_close(side_file *file) {
    if (file->there) cti_json_tree_free(&file->tree);
    if (file->text) cti_give_any(file->lm->context, file->text, file->size + 1);
    cti_path_free(file->lm->context, file->path);
}

static bool side_read(side_file *file) {
    ct_context *context = file->lm->context;
    file->text = cti_lm_read_file(context, file->op, file->path, &file->size);
    file->there = file->text && cti_json_tree_read(context, file->op, file->path, file->text,
                                                   file->size, &file->tree);
    return file->there;
}

/* Opens a file of a step's folder, or of the model's (""). A file that is missing is no error.
 * False: an error was recorded, and there is nothing to close. */
static bool side_open(cti_lm *lm, const char *op, const char *folder, const char *name,
                      side_file *file) {
    cti_os_about about;
    *file = (side_file){.lm = lm, .op = op};
    snprintf(file->name, sizeof file->name, "%s%s%s", folder, *folder ? "/" : "", name);
    file->path = cti_path_in(lm->context, lm->folder, file->name);
    bool ok = file->path && cti_file_find(lm->context, op, file->path, &about);
    if (ok && about.kind == CTI_OS_FILE) ok = side_read(file);
    if (!ok) side_close(file);
    return ok;
}

/* These keep why a file or a key is not followed, unless something was refused before, and return
 * false, without an error. */
static bool side_refuse_file(cti_lm *lm, const char *name, const char *why) {
    cti_lm_sentence *sentence = &lm->sentence;
    if (!*sentence->refused)
        snprintf(sentence->refused, sizeof sentence->refused, "%.120s: %.270s", name, why);
    return false;
}

static bool side_refuse(const side_file *file, const char *key, cti_json_at value,
                        const char *why) {
    char text[CTI_LM_VALUE] = "absent", all[270];
    const cti_lm_reader reader = {.tree = &file->tree};
    if (value) cti_lm_value_text(&reader, value, text);
    snprintf(all, sizeof all, "\"%.64s\" is %s, %s", key, text, why);
    return side_refuse_file(file->lm, file->name, all);
}

static cti_json_kind kind_at(const side_file *file, cti_json_at value) {
    return file->tree.value[value].kind;
}

static bool text_is(const side_file *file, cti_json_at value, const char *text) {
    return kind_at(file, value) == CTI_JSON_STRING &&
           !cti_text_compare(cti_json_text(&file->tree, value), cti_text_of(text));
}

/* ---- the keys of a module's config.json ---- */

/* What a key of a module must be if it has no reader of its own. */
typedef enum {
    RULE_READ,      /* the module's function reads it */
    RULE_OF_VECTOR, /* null or "sentence_embedding" */
    RULE_OF_TOKENS, /* null or "token_embeddings" */
    RULE_OF_TEXT,   /* null or "feature-extraction" */
    RULE_OFF,       /* null, false or empty */
    RULE_ANY        /* no value changes the vector */
} key_rule;
typedef struct {
    const char *key;
    key_rule rule;
} key_row;

static bool key_follows(const side_file *file, key_rule rule, cti_json_at value) {
    const cti_json_kind kind = kind_at(file, value);
    if (rule == RULE_READ || rule == RULE_ANY || kind == CTI_JSON_NULL) return true;
    switch (rule) {
    case RULE_OF_VECTOR: return text_is(file, value, "sentence_embedding");
    case RULE_OF_TOKENS: return text_is(file, value, "token_embeddings");
    case RULE_OF_TEXT: return text_is(file, value, "feature-extraction");
    default: break;
    }
    return kind == CTI_JSON_FALSE ||
           ((kind == CTI_JSON_OBJECT || kind == CTI_JSON_ARRAY) && !file->tree.value[value].count);
}

/* Whether each key of a file is followed by a row of the table, which ends with NULL. */
static bool keys_follow(const side_file *file, const key_row *rows) {
    if (kind_at(file, 0) != CTI_JSON_OBJECT)
        return side_refuse_file(file->lm, file->name, "is not a JSON object");
    for (cti_json_at i = cti_json_first(&file->tree, 0); i; i = file->tree.value[i].next) {
        const cti_text key = cti_json_key_of(&file->tree, i);
        const key_row *row = rows;
        while (row->key && cti_text_compare(key, cti_text_of(row->key))) row++;
        if (!row->key && file->lm->ignore_unknown) continue;
        if (!row->key || !key_follows(file, row->rule, i))
            return side_refuse(file, key.at, i,
                               row->key ? "which is not supported" : "and the key is unknown");
    }
    return true;
}

/* ---- modules.json ---- */

static cti_lm_step_kind sentence_step_kind(cti_text type) {
    static const char own[] = "sentence_transformers.";
    static const char *const names[] = {[CTI_LM_STEP_TRANSFORMER] = "Transformer",
                                        [CTI_LM_STEP_POOLING] = "Pooling",
                                        [CTI_LM_STEP_DENSE] = "Dense",
                                        [CTI_LM_STEP_NORMALIZE] = "Normalize"};
    if (type.size < sizeof own - 1 || strncmp(type.at, own, sizeof own - 1) != 0)
        return CTI_LM_STEP_OTHER;
    const char *last = strrchr(type.at, '.') + 1;
    for (int i = CTI_LM_STEP_TRANSFORMER; i <= CTI_LM_STEP_NORMALIZE; i++)
        if (!strcmp(last, names[i])) return (cti_lm_step_kind)i;
    return CTI_LM_STEP_OTHER;
}

/* Writes the path of an item; false: it is no folder in the model's. */
static bool step_path(const side_file *file, cti_json_at value, char out[CTI_LM_STEP_PATH]) {
    if (!value || kind_at(file, value) != CTI_JSON_STRING) return false;
    const cti_text path = cti_json_text(&file->tree, value);
    if (path.size >= CTI_LM_STEP_PATH || strlen(path.at) != path.size) return false;
    memcpy(out, path.at, path.size + 1);
    return !*out || cti_path_is_name(out);
}

static bool is_step_before(const cti_lm_sentence *sentence, const char *path) {
    for (int i = 0; i < sentence->steps; i++)
        if (!strcmp(sentence->step[i].path, path)) return true;
    return false;
}

static bool sentence_step_read(const side_file *file, cti_json_at item) {
    cti_lm_sentence *sentence = &file->lm->sentence;
    const cti_json_at type = cti_json_member(&file->tree, item, "type"),
                      path = cti_json_member(&file->tree, item, "path");
    cti_lm_step step = {.kind = CTI_LM_STEP_OTHER};
    if (sentence->steps == CTI_LM_STEPS)
        return side_refuse_file(file->lm, file->name, "has more modules than are supported");
    if (!step_path(file, path, step.path))
        return side_refuse(file, "path", path, "which is no folder in the model's");
    const int at = sentence->steps;
    if (type && kind_at(file, type) == CTI_JSON_STRING)
        step.kind = sentence_step_kind(cti_json_text(&file->tree, type));
    if (at && is_step_before(sentence, step.path))
        return side_refuse(file, "path", path, "which an earlier module has");
    sentence->step[sentence->steps++] = step;
    if (step.kind == CTI_LM_STEP_OTHER)
        return side_refuse(file, "type", type, "which is not supported");
    if ((at == 0) != (step.kind == CTI_LM_STEP_TRANSFORMER) ||
        (at == 1) != (step.kind == CTI_LM_STEP_POOLING))
        return side_refuse(file, "type", type,
                           "but a Transformer, then a Pooling, then Dense and Normalize are "
                           "supported");
    return (at == 0) == !*step.path ||
           side_refuse(file, "path", path,
                       at ? "the folder of the Transformer" : "and not the model's folder");
}

/* Reads the list of modules, also behind one that is refused: a save copies all folders. */
static bool modules_read(const side_file *file) {
    bool ok = true;
    if (kind_at(file, 0) != CTI_JSON_ARRAY)
        return side_refuse_file(file->lm, file->name, "is not a JSON array");
    for (cti_json_at i = cti_json_first(&file->tree, 0); i; i = file->tree.value[i].next)
        ok &= sentence_step_read(file, i);
    return !ok || file->lm->sentence.steps > 1 ||
           side_refuse_file(file->lm, file->name, "has no Pooling");
}

/* ---- Pooling ---- */

static const struct {
    const char *key, *name;
} poolings[CTI_LM_POOLS] = {
    [CTI_LM_POOL_CLS] = {"pooling_mode_cls_token", "cls"},
    [CTI_LM_POOL_MAX] = {"pooling_mode_max_tokens", "max"},
    [CTI_LM_POOL_MEAN] = {"pooling_mode_mean_tokens", "mean"},
    [CTI_LM_POOL_SQRT] = {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    [CTI_LM_POOL_WEIGHTED] = {"pooling_mode_weightedmean_tokens", "weightedmean"},
    [CTI_LM_POOL_LAST] = {"pooling_mode_lasttoken", "lasttoken"},
};

static bool flag_read(const side_file *file, const char *key, bool *out) {
    const cti_json_at value = cti_json_member(&file->tree, 0, key);
    if (!value || kind_at(file, value) == CTI_JSON_NULL) return true;
    *out = kind_at(file, value) == CTI_JSON_TRUE;
    return *out || kind_at(file, value) == CTI_JSON_FALSE ||
           side_refuse(file, key, value, "neither true nor false");
}

/* Adds the pooling of a name. */
static bool pooling_add(const side_file *file, cti_json_at value) {
    cti_lm_sentence *sentence = &file->lm->sentence;
    for (int i = 0; i < CTI_LM_POOLS && sentence->pools < CTI_LM_MOST_POOLS; i++) {
        if (!text_is(file, value, poolings[i].name)) continue;
        sentence->pool[sentence->pools++] = (cti_lm_pool)i;
        return true;
    }
    return side_refuse(file, "pooling_mode", value, "which is not supported");
}

/* A name, a list of names, or a flag for each, whose vectors stand in the order of the table. */
static bool poolings_read(const side_file *file) {
    cti_lm_sentence *sentence = &file->lm->sentence;
    const cti_json_at named = cti_json_member(&file->tree, 0, "pooling_mode");
    bool ok = true;
    if (named && kind_at(file, named) == CTI_JSON_ARRAY) {
        for (cti_json_at i = cti_json_first(&file->tree, named); ok && i;
             i = file->tree.value[i].next)
            ok = pooling_add(file, i);
        return ok &&
               (sentence->pools || side_refuse(file, "pooling_mode", named, "which is empty"));
    }
    if (named && kind_at(file, named) != CTI_JSON_NULL) return pooling_add(file, named);
    for (int i = 0; i < CTI_LM_POOLS; i++) {
        bool on = false;
        if (!flag_read(file, poolings[i].key, &on)) return false;
        if (on) sentence->pool[sentence->pools++] = (cti_lm_pool)i;
    }
    if (!sentence->pools) sentence->pool[sentence->pools++] = CTI_LM_POOL_MEAN;
    return true;
}

/* Reads the Pooling. *dim is the model's width, and becomes the vector's. */
static bool pooling_read(const side_file *file, int64_t *dim) {
    static const key_row keys[] = {{"word_embedding_dimension", RULE_READ},
                                   {"embedding_dimension", RULE_READ},
                                   {"pooling_mode", RULE_READ},
                                   {"pooling_mode_cls_token", RULE_READ},
                                   {"pooling_mode_max_tokens", RULE_READ},
                                   {"pooling_mode_mean_tokens", RULE_READ},
                                   {"pooling_mode_mean_sqrt_len_tokens", RULE_READ},
                                   {"pooling_mode_weightedmean_tokens", RULE_READ},
                                   {"pooling_mode_lasttoken", RULE_READ},
                                   {"include_prompt", RULE_READ},
                                   {NULL, RULE_ANY}};
    cti_lm_sentence *sentence = &file->lm->sentence;
    bool includes = true;
    int64_t width = *dim;
    if (!file->there) return side_refuse_file(file->lm, file->name, "is missing");
    if (!keys_follow(file, keys)) return false;
    for (int i = 0; i < 2; i++) {
        const cti_json_at value = cti_json_member(&file->tree, 0, keys[i].key);
        if (value && (!cti_json_whole(&file->tree, value, &width) || width != *dim))
            return side_refuse(file, keys[i].key, value, "not the width of the model");
    }
    if (!flag_read(file, "include_prompt", &includes) || !poolings_read(file)) return false;
    sentence->without_prompt = !includes;
    *dim *= sentence->pools;
    return true;
}

/* ---- Dense, Normalize ---- */

static bool dense_size_read(const side_file *file, const char *key, int64_t *out) {
    const cti_json_at value = cti_json_member(&file->tree, 0, key);
    return (value && cti_json_whole(&file->tree, value, out) && *out > 0) ||
           side_refuse(file, key, value, "and must be an integer of at least 1");
}

static bool dense_activation_read(const side_file *file, const char **out) {
    static const char key[] = "activation_function", torch[] = "torch.nn.modules.";
    const cti_json_at value = cti_json_member(&file->tree, 0, key);
    *out = value ? "Identity" : "Tanh"; /* sentence-transformers' default */
    if (!value || kind_at(file, value) == CTI_JSON_NULL) return true;
    *out = NULL;
    const cti_text text = cti_json_text(&file->tree, value);
    if (kind_at(file, value) == CTI_JSON_STRING && !strncmp(text.at, torch, sizeof torch - 1))
        *out = cti_dense_activation(cti_text_of(strrchr(text.at, '.') + 1));
    return *out || side_refuse(file, key, value, "which is not supported");
}

/* Reads the options of a Dense of a vector of size *dim, which becomes its own. */
static bool dense_read(const side_file *file, int64_t *dim, cti_dense_opts *opts) {
    static const key_row keys[] = {{"in_features", RULE_READ},
                                   {"out_features", RULE_READ},
                                   {"bias", RULE_READ},
                                   {"activation_function", RULE_READ},
                                   {"module_input_name", RULE_OF_VECTOR},
                                   {"module_output_name", RULE_OF_VECTOR},
                                   {"use_residual", RULE_OFF},
                                   {NULL, RULE_ANY}};
    bool bias = true;
    if (!file->there) return side_refuse_file(file->lm, file->name, "is missing");
    if (!keys_follow(file, keys) || !dense_size_read(file, "in_features", &opts->in) ||
        !dense_size_read(file, "out_features", &opts->out) || !flag_read(file, "bias", &bias) ||
        !dense_activation_read(file, &opts->activation))
        return false;
    if (opts->in != *dim)
        return side_refuse(file, "in_features", cti_json_member(&file->tree, 0, "in_features"),
                           "not the size of the vector before it");
    opts->no_bias = !bias;
    *dim = opts->out;
    return true;
}

/* The file is missing in folders of older versions. */
static bool normalize_read(const side_file *file) {
    static const key_row keys[] = {{"module_input_name", RULE_OF_VECTOR},
                                   {"module_output_name", RULE_OF_VECTOR},
                                   {NULL, RULE_ANY}};
    return !file->there || keys_follow(file, keys);
}

/* ---- the weights of a Dense ---- */

/* Whether a file has just the tensors of a Dense. */
static bool weights_follow(cti_lm *lm, const char *name, const cti_shards *file,
                           const cti_dense_opts *opts) {
    const int64_t w = cti_shards_find(file, cti_text_of(CTI_DENSE_LINEAR ".weight")),
                  b = cti_shards_find(file, cti_text_of(CTI_DENSE_LINEAR ".bias"));
    const ct_shape weight = w >= 0 ? file->tensor[w]->shape : CT_SCALAR,
                   bias = b >= 0 ? file->tensor[b]->shape : CT_SCALAR;
    if (file->tensors == 2 - opts->no_bias && weight.ndim == 2 && weight.dim[0] == opts->out &&
        weight.dim[1] == opts->in &&
        (opts->no_bias || (bias.ndim == 1 && bias.dim[0] == opts->out)))
        return true;
    char why[160];
    snprintf(why, sizeof why,
             "must have linear.weight (%" PRId64 ", %" PRId64 ")%s, and nothing else, as "
             "config.json says",
             opts->out, opts->in, opts->no_bias ? "" : " and linear.bias");
    return side_refuse_file(lm, name, why);
}

/* A Dense with the values of an open file; NULL after an error. */
static ct_module *dense_make(const cti_lm *lm, const cti_shards *file, cti_dense_opts opts) {
    const ct_dtype dtype = cti_lm_dtype(lm) == CT_F64 ? CT_F64 : CT_F32;
    ct_module *module = cti_dense_new(lm->context, opts, dtype);
    ct_module_train(module, false);
    if (module && cti_nn_load(module, file, (ct_load_opts){.in_place = true}, NULL, 0))
        return module;
    ct_module_free(module);
    return NULL;
}

/* Whether the tree can have a child with the name of the folder. */
static bool is_free_name(const cti_lm *lm, const char *path) {
    const size_t n = strlen(path);
    for (int64_t i = 0; i < lm->n_known; i++)
        if (!strncmp(lm->known[i].name, path, n) && lm->known[i].name[n] == '.') return false;
    return !strchr(path, '.');
}

/* Reads the weights of a Dense into *module. */
static bool dense_open(cti_lm *lm, const char *op, const cti_lm_step *step, cti_dense_opts opts,
                       ct_module **module) {
    char name[CTI_SET_NAME];
    cti_os_about about;
    cti_shards file;
    snprintf(name, sizeof name, "%s/" CTI_MODEL_FILE, step->path);
    char *path = cti_path_in(lm->context, lm->folder, name);
    bool ok = path && cti_file_find(lm->context, op, path, &about);
    if (ok && about.kind != CTI_OS_FILE)
        ok = side_refuse_file(lm, name,
                              "is missing (pytorch_model.bin is a pickle, which is not read: save "
                              "the model by sentence-transformers with safe_serialization)");
    else if (ok && !is_free_name(lm, step->path))
        ok = side_refuse_file(lm, step->path, "is no name of a module here");
    else if (ok) {
        ok = cti_shards_open_safetensors(lm->context, op, path, &file);
        if (ok) {
            if (weights_follow(lm, name, &file, &opts)) *module = dense_make(lm, &file, opts);
            cti_shards_close(&file);
            ok = *module;
        }
    }
    cti_path_free(lm->context, path);
    return ok;
}

/* Reads a step's config.json. */
static bool step_config_read(cti_lm *lm, const char *op, const cti_lm_step *step, int64_t *dim,
                             cti_dense_opts *opts) {
    side_file file;
    if (!side_open(lm, op, step->path, "config.json", &file)) return false;
    const bool ok = step->kind == CTI_LM_STEP_POOLING ? pooling_read(&file, dim)
                    : step->kind == CTI_LM_STEP_DENSE ? dense_read(&file, dim, opts)
                                                      : normalize_read(&file);
    side_close(&file);
    return ok;
}

/* Puts the Dense modules into the tree; made[i] is NULL for another step. */
static bool denses_add(const cti_lm *lm, ct_module **made) {
    bool ok = true;
    for (int i = 1; ok && i < lm->sentence.steps; i++) {
        if (!made[i]) continue;
        ok = ct_module_add_child(lm->module, lm->sentence.step[i].path, made[i]);
        if (ok) made[i] = NULL;
    }
    return ok;
}

/* Reads what the steps behind the Transformer are. The tree gets its Dense modules when nothing is
 * refused. */
static bool sentence_steps_read(cti_lm *lm, const char *op) {
    const cti_lm_sentence *sentence = &lm->sentence;
    cti_dense_opts opts[CTI_LM_STEPS] = {0};
    ct_module *made[CTI_LM_STEPS] = {0};
    int64_t dim = cti_lm_integer(&lm->config, CTI_LM_WIDTH);
    bool ok = true;
    for (int i = 1; ok && i < sentence->steps; i++)
        ok = step_config_read(lm, op, &sentence->step[i], &dim, &opts[i]);
    for (int i = 1; ok && i < sentence->steps; i++)
        if (sentence->step[i].kind == CTI_LM_STEP_DENSE)
            ok = dense_open(lm, op, &sentence->step[i], opts[i], &made[i]);
    ok = ok && denses_add(lm, made);
    for (int i = 1; i < sentence->steps; i++) ct_module_free(made[i]);
    return ok;
}

/* ---- the files of the folder ---- */

static bool length_read(const side_file *file, const char *key) {
    const cti_json_at value = cti_json_member(&file->tree, 0, key);
    double length;
    if (!value || kind_at(file, value) == CTI_JSON_NULL) return true;
    if (!cti_json_real(&file->tree, value, &length) || length < 1)
        return side_refuse(file, key, value, "and must be at least 1");
    const int64_t rows = cti_lm_most_tokens(&file->lm->config);
    const double most = rows > 0 && file->lm->config.family->names.positions ? (double)rows : 1e15;
    file->lm->sentence.max_length = (int64_t)(length < most ? length : most);
    return true;
}

/* sentence_bert_config.json, the Transformer's. */
static bool transformer_read(const side_file *file) {
    static const key_row keys[] = {{"max_seq_length", RULE_READ},
                                   {"do_lower_case", RULE_OFF},
                                   {"mask_prompt", RULE_OFF},
                                   {"transformer_task", RULE_OF_TEXT},
                                   {"module_output_name", RULE_OF_TOKENS},
                                   {"modality_config", RULE_ANY},
                                   {"unpad_inputs", RULE_ANY},
                                   {"model_args", RULE_ANY},
                                   {"tokenizer_args", RULE_ANY},
                                   {"config_args", RULE_OFF},
                                   {"processing_kwargs", RULE_OFF},
                                   {"query_length", RULE_OFF},
                                   {"document_length", RULE_OFF},
                                   {"query_expansion", RULE_OFF},
                                   {NULL, RULE_ANY}};
    if (!file->there) return true;
    return keys_follow(file, keys) && length_read(file, "max_seq_length");
}

static size_t prompts_write(const side_file *file, cti_json_at prompts, char *out) {
    size_t used = 0;
    for (cti_json_at i = cti_json_first(&file->tree, prompts); i; i = file->tree.value[i].next) {
        const cti_text part[] = {cti_json_key_of(&file->tree, i), cti_json_text(&file->tree, i)};
        for (int k = 0; k < 2; k++) {
            if (out) memcpy(out + used, part[k].at, part[k].size + 1);
            used += part[k].size + 1;
        }
    }
    return used;
}

/* config_sentence_transformers.json: {"prompts": {"query": ..., ...}, "default_prompt_name": ...}
 */
static bool prompts_read(const side_file *file) {
    cti_lm_sentence *sentence = &file->lm->sentence;
    sentence->default_prompt = -1;
    if (!file->there) return true;
    if (kind_at(file, 0) != CTI_JSON_OBJECT)
        return side_refuse_file(file->lm, file->name, "is not a JSON object");
    const cti_json_at prompts = cti_json_member(&file->tree, 0, "prompts"),
                      usual = cti_json_member(&file->tree, 0, "default_prompt_name");
    if (prompts && kind_at(file, prompts) != CTI_JSON_NULL &&
        kind_at(file, prompts) != CTI_JSON_OBJECT)
        return side_refuse(file, "prompts", prompts, "not an object");
    int n = 0;
    for (cti_json_at i = prompts ? cti_json_first(&file->tree, prompts) : 0; i;
         i = file->tree.value[i].next, n++) {
        const cti_text key = cti_json_key_of(&file->tree, i), text = cti_json_text(&file->tree, i);
        if (kind_at(file, i) != CTI_JSON_STRING || strlen(text.at) != text.size ||
            strlen(key.at) != key.size)
            return side_refuse(file, key.at, i, "not a text without a NUL");
        if (usual && text_is(file, usual, key.at)) sentence->default_prompt = n;
    }
    if (usual && kind_at(file, usual) != CTI_JSON_NULL && sentence->default_prompt < 0)
        return side_refuse(file, "default_prompt_name", usual, "which is no name of a prompt");
    const size_t size = n ? prompts_write(file, prompts, NULL) : 0;
    if (!n) return true;
    sentence->prompts = cti_take_any(file->lm->context, size);
    if (!sentence->prompts) return false;
    sentence->prompts_size = prompts_write(file, prompts, sentence->prompts);
    sentence->n_prompts = n;
    return true;
}

static bool side_file_read(cti_lm *lm, const char *op, const char *name,
                           bool (*read)(const side_file *file)) {
    side_file file;
    if (!side_open(lm, op, "", name, &file)) return false;
    const bool ok = read(&file);
    side_close(&file);
    return ok;
}

static bool list_read(const side_file *file) { return !file->there || modules_read(file); }

/* The length in tokens of a tokenizer_config.json, which counts if a folder of
 * sentence-transformers says no max_seq_length. */
static bool tokenizer_length_read(const side_file *file) {
    const cti_lm *lm = file->lm;
    const cti_json_at value = file->there ? cti_json_member(&file->tree, 0, "model_max_length") : 0;
    const double most = (double)cti_lm_most_tokens(&lm->config);
    double length;
    if (value && cti_json_real(&file->tree, value, &length) && length >= 1)
        file->lm->sentence.max_length = (int64_t)(most > 0 && most < length ? most
                                                  : length < 1e15           ? length
                                                                            : 0);
    return true;
}

/* What is refused here concerns prompts only. */
static bool prompts_file_read(cti_lm *lm, const char *op) {
    cti_lm_sentence *sentence = &lm->sentence;
    if (side_file_read(lm, op, "config_sentence_transformers.json", prompts_read)) return true;
    memcpy(sentence->refused_prompts, sentence->refused, sizeof sentence->refused);
    *sentence->refused = 0;
    return *sentence->refused_prompts;
}

const char *const cti_lm_transformer_files[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",      NULL};

/* Reads the first of the Transformer's files that is there. */
static bool transformer_file_read(cti_lm *lm, const char *op) {
    side_file file = {.there = false};
    for (const char *const *name = cti_lm_transformer_files; *name && !file.there; name++) {
        if (!side_open(lm, op, "", *name, &file)) return false;
        const bool ok = transformer_read(&file), there = file.there;
        side_close(&file);
        file.there = there;
        if (!ok) return false;
    }
    return true;
}

static bool modules_files_read(cti_lm *lm, const char *op) {
    cti_lm_sentence *sentence = &lm->sentence;
    return side_file_read(lm, op, "modules.json", list_read) && transformer_file_read(lm, op) &&
           (!sentence->steps || sentence->max_length ||
            side_file_read(lm, op, "tokenizer_config.json", tokenizer_length_read)) &&
           sentence_steps_read(lm, op);
}

bool cti_lm_read_sentence(cti_lm *lm, const char *op) {
    if (!lm->folder || lm->of_gguf) return true;
    return prompts_file_read(lm, op) && (modules_files_read(lm, op) || *lm->sentence.refused) &&
           cti_lm_note_parameters(lm);
}

bool cti_lm_read_steps(ct_context *context, const char *op, const char *folder,
                       cti_lm_sentence *sentence) {
    cti_lm other = {.context = context, .folder = (char *)folder};
    if (!side_file_read(&other, op, "modules.json", list_read) && !*other.sentence.refused) {
        if (ct_error(context) != CT_ERR_FORMAT) return false;
        ct_error_clear(context);
    }
    *sentence = other.sentence;
    return true;
}
