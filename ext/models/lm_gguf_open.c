/* The tensors of a GGUF file under the names of the tree, and what its keys say of generation. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "lm_gguf.h"
#include "small_file.h"

ct_tensor *cti_lm_gguf_values(const cti_file_tensor *tensor) {
    ct_tensor *values = ct_empty(tensor->file->context, CT_F32, tensor->shape);
    return values && cti_file_tensor_read(tensor, 0, tensor->numel, values, 0) ? values : NULL;
}

/* ---- options of generation ---- */

const char *const cti_lm_gguf_sampling_keys[CTI_LM_SAMPLINGS] = {[CTI_LM_TEMPERATURE] = "temp",
                                                                 [CTI_LM_TOP_K] = "top_k",
                                                                 [CTI_LM_TOP_P] = "top_p",
                                                                 [CTI_LM_MIN_P] = "min_p",
                                                                 [CTI_LM_PENALTY] =
                                                                     "penalty_repeat"};

bool cti_lm_gguf_sampling(cti_lm *lm, const cti_gguf *file) {
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", cti_lm_gguf_sampling_keys[i]);
        if (!cti_gguf_real(file, key, &lm->sampling[i])) return false;
        lm->sampling[i] = cti_lm_gguf_shortest(lm->sampling[i]);
    }
    return true;
}

/* ---- poolings ---- */

static const cti_lm_pool gguf_poolings[] = {
    [1] = CTI_LM_POOL_MEAN, [2] = CTI_LM_POOL_CLS, [3] = CTI_LM_POOL_LAST};
enum { GGUF_POOLINGS = sizeof gguf_poolings / sizeof *gguf_poolings };

bool cti_lm_gguf_pooling(cti_lm *lm, const cti_gguf *file) {
    cti_lm_sentence *sentence = &lm->sentence;
    char key[64];
    int64_t type = 0;
    snprintf(key, sizeof key, "%s.pooling_type", lm->config.family->gguf.arch);
    if (!cti_gguf_integer(file, key, &type)) return false;
    if (type == 0) return true;
    sentence->step[0] = (cti_lm_step){.kind = CTI_LM_STEP_TRANSFORMER};
    sentence->step[1] = (cti_lm_step){.kind = CTI_LM_STEP_POOLING, .path = "1_Pooling"};
    sentence->steps = 2;
    if (type > 0 && type < GGUF_POOLINGS) sentence->pool[sentence->pools++] = gguf_poolings[type];
    else snprintf(sentence->refused, sizeof sentence->refused, "%s is %" PRId64, key, type);
    return true;
}

int cti_lm_gguf_pooling_type(const cti_lm *lm) {
    const cti_lm_sentence *sentence = &lm->sentence;
    if (!sentence->steps) return 0;
    for (int i = 1; i < GGUF_POOLINGS; i++)
        if (sentence->pools == 1 && sentence->pool[0] == gguf_poolings[i] &&
            !sentence->without_prompt && !*sentence->refused)
            return i;
    return -1;
}

/* ---- names ---- */

/* Writes the name of the file's tensor that q, k and v may share, and where a parameter's rows
 * begin in it; false: it is none of them. */
bool cti_lm_gguf_fused(const cti_lm_config *config, const char *path, char name[CTI_LM_PATH],
                       int64_t *start) {
    static const char *const parts[] = {".attn_q.", ".attn_k.", ".attn_v."};
    const int64_t dim = cti_lm_integer(config, CTI_LM_HEAD_DIM),
                  q = cti_lm_integer(config, CTI_LM_HEADS) * dim,
                  k = cti_lm_integer(config, CTI_LM_KV_HEADS) * dim, starts[] = {0, q, q + k};
    cti_lm_gguf_param param;
    if (!cti_lm_gguf_param_of(config, path, &param)) return false;
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(param.name, parts[i]);
        if (!at) continue;
        snprintf(name, CTI_LM_PATH, "%.*s.attn_qkv.%s", (int)(at - param.name), param.name,
                 at + strlen(parts[i]));
        *start = starts[i];
        return true;
    }
    return false;
}

/* The rows of a tensor that has those of q, of k and of v. */
static bool fused_lay(const cti_lm_config *config, const cti_shards *weights,
                      cti_file_tensor *tensor) {
    const int64_t dim = cti_lm_integer(config, CTI_LM_HEAD_DIM),
                  kv = cti_lm_integer(config, CTI_LM_KV_HEADS) * dim,
                  q = cti_lm_integer(config, CTI_LM_HEADS) * dim;
    if (tensor->ndim < 1 || tensor->shape.dim[0] != q + 2 * kv)
        return ct_fail(config->context, CT_ERR_FORMAT,
                       "%s: %s: %s has not the %" PRId64 " rows of queries, keys and values",
                       weights->op, weights->path, tensor->name.at, q + 2 * kv);
    if (config->family->gguf.neighbours)
        tensor->grid = (cti_row_grid){.a = 2, .b = dim / 2, .cell = 1, .rows = q + kv};
    return true;
}

static cti_visited gguf_tensor_rename(void *arg, cti_shards *weights, cti_file_tensor *tensor) {
    const cti_lm_config *config = arg;
    char path[CTI_LM_PATH];
    cti_lm_gguf_param param;
    if (!strcmp(tensor->name.at, "rope_freqs.weight"))
        return CTI_VISIT_DROP; /* the config has what it says */
    if (cti_lm_gguf_path_of(config, tensor->name, path, &param)) {
        tensor->grid = param.grid, tensor->offset = param.offset;
        return cti_shards_set_name(weights, tensor, path) ? CTI_VISIT_KEEP : CTI_VISIT_FAIL;
    }
    return !strstr(tensor->name.at, ".attn_qkv.") || fused_lay(config, weights, tensor)
               ? CTI_VISIT_KEEP
               : CTI_VISIT_FAIL;
}

bool cti_lm_gguf_rename(cti_lm_config *config, cti_shards *weights) {
    return cti_shards_rename(weights, gguf_tensor_rename, config);
}

/* ---- the tokenizer ---- */

bool cti_lm_open_tokenizer(const cti_lm *lm, ct_tokenizer **tokenizer) {
    bool has = lm->of_gguf && lm->has_tokens;
    *tokenizer = NULL;
    if (lm->has_tokenizer || !lm->folder) return true;
    if (!lm->of_gguf &&
        !cti_lm_has_file(lm->context, "lm_save", lm->folder, "tokenizer.json", &has))
        return false;
    if (!has) return true;
    *tokenizer = ct_tokenizer_open(lm->context, lm->folder);
    return *tokenizer != NULL;
}
