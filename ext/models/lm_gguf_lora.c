/* Adapters in GGUF files, as llama.cpp's and ollama's --lora read them:
 *
 *     blk.N.attn_q.weight.lora_a   (rank, in)     A
 *     blk.N.attn_q.weight.lora_b   (out, rank)    B, its rows in the order of the weight's
 *     adapter.lora.alpha           f32            the factor is this / rank; of rsLoRA it is
 *                                                 alpha sqrt(rank) */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/assert.h"
#include "lm_gguf.h"
#include "lora.h"
#include "peft_base.h"

static const char gguf_end_of_a[] = ".lora_a", gguf_end_of_b[] = ".lora_b";

/* ---- writing ---- */

static bool gguf_place_put(cti_gguf_out *out, const cti_lm *lm, const cti_lora_place *place) {
    char path[CTI_LM_PATH + 8], name[CTI_LM_PATH + 16];
    cti_lm_gguf_param how;
    ct_tensor *a = ct_module_get(place->adapter, "lora_A"),
              *b = ct_module_get(place->adapter, "lora_B");
    snprintf(path, sizeof path, "%s.weight", place->path);
    const bool known = cti_lm_gguf_param_of(&lm->config, path, &how);
    if (!known || (!strcmp(how.name, "output.weight") && cti_lm_is_tied(lm)))
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s: %s: %s", out->op, out->path,
                       place->path,
                       known ? "a GGUF file cannot have the adapter of a head that is tied to the "
                               "embedding"
                             : "a GGUF file has no name for it");
    if (!a || !b) return false;
    /* the halves of a Linear that the file has as two are B's halves, each with the whole A */
    const char *const names[] = {how.name, how.second};
    const int64_t parts = *how.second ? 2 : 1, rows = ct_dim(b, 0) / parts;
    for (int i = 0; i < parts; i++) {
        const ct_tensor *part = ct_narrow(b, 0, i * rows, rows);
        if (!part) return false;
        snprintf(name, sizeof name, "%s%s", names[i], gguf_end_of_a);
        cti_gguf_put_tensor(out, name, a, CTI_FILE_F32, (cti_row_grid){0}, 0, false);
        snprintf(name, sizeof name, "%s%s", names[i], gguf_end_of_b);
        cti_gguf_put_tensor(out, name, part, CTI_FILE_F32, how.grid, 0, false);
    }
    return true;
}

/* The file's alpha: llama.cpp divides it by the rank of each matrix. */
static double gguf_alpha(const ct_lora_opts *opts) {
    return opts->use_rslora ? opts->alpha * sqrt((double)opts->rank) : opts->alpha;
}

/* Whether a file can have the adapters: without modules that are saved whole, without DoRA, and of
 * one alpha. */
static bool gguf_has(const ct_module *module, const cti_lora_places *places, const char *op,
                     const char *path) {
    const cti_lora *first = ct_module_data(places->place[0].adapter, &cti_lora_type);
    ct_param param = {0};
    if (cti_trained_next(module, &param))
        return ct_fail(places->context, CT_ERR_ARGUMENT,
                       "%s: %s: %s: a GGUF file cannot have a module that is saved whole "
                       "(modules_to_save)",
                       op, path, param.name);
    for (int64_t i = 0; i < places->n; i++) {
        const cti_lora *lora = ct_module_data(places->place[i].adapter, &cti_lora_type);
        const bool dora = lora->opts.use_dora;
        if (!dora && gguf_alpha(&lora->opts) == gguf_alpha(&first->opts) &&
            lora->opts.rank == first->opts.rank)
            continue;
        return ct_fail(places->context, CT_ERR_ARGUMENT, "%s: %s: %s: a GGUF file cannot have %s",
                       op, path, places->place[i].path,
                       dora ? "the magnitudes of DoRA (use_dora)"
                            : "adapters that differ in rank or alpha");
    }
    return true;
}

bool cti_lm_gguf_save_adapters(const cti_lm *lm, const char *op, const char *path,
                               const cti_lora_places *places) {
    cti_gguf_out out;
    if (!gguf_has(lm->module, places, op, path)) return false;
    if (!cti_gguf_out_begin(lm->context, op, path, &out)) return false;
    const cti_lora *first = ct_module_data(places->place[0].adapter, &cti_lora_type);
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    bool ok = cti_lm_is_ready(lm->context);
    for (int64_t i = 0; ok && i < places->n; i++) ok = gguf_place_put(&out, lm, &places->place[i]);
    cti_gguf_put_text(&out, "general.architecture", cti_text_of(lm->config.family->gguf.arch));
    cti_gguf_put_text(&out, "general.type", cti_text_of("adapter"));
    cti_gguf_put_text(&out, "adapter.type", cti_text_of("lora"));
    cti_lm_gguf_title(&out, path);
    cti_gguf_put_f32(&out, "adapter.lora.alpha", (float)gguf_alpha(&first->opts));
    cti_gguf_put_u32(&out, "general.quantization_version", 2);
    ok = ok && cti_gguf_out_write(&out);
    ct_scope_close(scope);
    cti_gguf_out_end(&out);
    return ok;
}

/* ---- reading ---- */

/* Whether a key has this text. */
static bool gguf_key_is(const cti_gguf *file, const char *key, const char *want) {
    cti_text text = cti_text_of("");
    if (!cti_gguf_text(file, key, &text)) return false;
    return !cti_text_compare(text, cti_text_of(want)) ||
           cti_gguf_fail(file, key, "is \"%.*s\", not \"%s\"",
                         (int)(text.size < 40 ? text.size : 40), text.at, want);
}

static bool adapter_keys_read(const cti_lm *lm, const cti_gguf *file, ct_lora_opts *opts) {
    static const char alpha[] = "adapter.lora.alpha";
    *opts = (ct_lora_opts){.alpha = NAN};
    if (!gguf_key_is(file, "general.type", "adapter") ||
        !gguf_key_is(file, "adapter.type", "lora") ||
        !gguf_key_is(file, "general.architecture", lm->config.family->gguf.arch) ||
        !cti_gguf_real(file, alpha, &opts->alpha))
        return false;
    return isfinite(opts->alpha) || cti_gguf_fail(file, alpha, "is no finite number");
}

/* Writes PEFT's name of a tensor; false, without an error: it is no matrix of an adapter. */
static bool peft_name_of(const cti_lm *lm, cti_text name, char out[CTI_LM_PATH + 64],
                         cti_row_grid *grid) {
    const size_t end = sizeof gguf_end_of_a - 1;
    char path[CTI_LM_PATH];
    cti_lm_gguf_param how;
    const bool is_a = name.size > end && !strcmp(name.at + name.size - end, gguf_end_of_a),
               is_b = name.size > end && !strcmp(name.at + name.size - end, gguf_end_of_b);
    if ((!is_a && !is_b) ||
        !cti_lm_gguf_path_of(&lm->config, (cti_text){name.at, name.size - end}, path, &how))
        return false;
    char *weight = strrchr(path, '.');
    if (strcmp(weight, ".weight") != 0) return false;
    *weight = 0;
    snprintf(out, CTI_LM_PATH + 64, CTI_PEFT_PREFIX "%s.lora_%c.weight", path, is_a ? 'A' : 'B');
    *grid = is_b ? how.grid : (cti_row_grid){0};
    return true;
}

typedef struct {
    const cti_lm *lm;
    int64_t rank; /* 0: not known yet */
} adapter_names;

/* Gives a matrix PEFT's name. */
static cti_visited adapter_rename(void *arg, cti_shards *file, cti_file_tensor *tensor) {
    adapter_names *names = arg;
    const cti_lm *lm = names->lm;
    const char *fault = NULL;
    char name[CTI_LM_PATH + 64];
    if (!peft_name_of(lm, tensor->name, name, &tensor->grid) || tensor->ndim != 2 ||
        !cti_row_grid_fits(tensor->grid, tensor->shape.dim[0]))
        fault = "is not a matrix of an adapter of this model";
    else if (!strncmp(tensor->name.at, "output.", 7) && cti_lm_is_tied(lm))
        fault = "the head is tied to the embedding";
    const int64_t rank = fault ? 0 : tensor->shape.dim[strstr(name, ".lora_B.") != NULL];
    if (!fault && names->rank && rank != names->rank)
        fault = "has another rank than others, which is not supported";
    if (fault) {
        ct_fail(lm->context, CT_ERR_FORMAT, "%s: %s: \"%s\": %s", file->op, file->path,
                tensor->name.at, fault);
        return CTI_VISIT_FAIL;
    }
    names->rank = rank;
    return cti_shards_set_name(file, tensor, name) ? CTI_VISIT_KEEP : CTI_VISIT_FAIL;
}

ct_safetensors *cti_lm_gguf_open_adapters(const cti_lm *lm, const char *op, const char *path,
                                          ct_lora_opts *opts) {
    cti_shards file;
    adapter_names names = {.lm = lm};
    if (!cti_shards_open(lm->context, op, path, &file)) return NULL;
    CTI_ASSERT(file.gguf); /* the caller has looked at its beginning */
    ct_safetensors *reader = NULL;
    if (adapter_keys_read(lm, file.gguf, opts) && cti_shards_rename(&file, adapter_rename, &names))
        reader = cti_safetensors_of(&file);
    opts->rank = names.rank;
    if (!reader) cti_shards_close(&file);
    return reader;
}
