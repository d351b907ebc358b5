/* PEFT's folders: adapter_config.json and adapter_model.safetensors. */
#include <cotangent/autograd.h>
#include <cotangent/io.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/set.h"
#include "folder.h"
#include "lora.h"
#include "peft_base.h"
#include "peft_config.h"

static const char lora_save_op[] = "lora_save", lora_load_op[] = "lora_load";
static const char peft_prefix[] = CTI_PEFT_PREFIX;

/* ---- saving ---- */

static const cti_lora *data_of(const cti_lora_place *place) {
    return ct_module_data(place->adapter, &cti_lora_type);
}

/* Whether all adapters have one rank, alpha and dropout, as adapter_config.json needs. */
static bool are_alike(const cti_lora_places *places) {
    const ct_lora_opts *first = &data_of(&places->place[0])->opts;
    for (int64_t i = 1; i < places->n; i++) {
        const ct_lora_opts *opts = &data_of(&places->place[i])->opts;
        if (opts->rank != first->rank || opts->alpha != first->alpha ||
            opts->dropout != first->dropout)
            return ct_fail(places->context, CT_ERR_ARGUMENT,
                           "%s: the adapters of %s and %s differ in rank, alpha or dropout",
                           lora_save_op, places->place[0].path, places->place[i].path);
    }
    return true;
}

typedef struct {
    char a[CTI_LM_PATH + 32], b[CTI_LM_PATH + 32];
} peft_names;

static void peft_names_of(const char *path, peft_names *names) {
    snprintf(names->a, sizeof names->a, "%s%s.lora_A.weight", peft_prefix, path);
    snprintf(names->b, sizeof names->b, "%s%s.lora_B.weight", peft_prefix, path);
}

static bool tensors_write(const cti_lora_places *places, const char *path) {
    static const char *const metadata[] = {"format", "pt", NULL};
    ct_context *context = places->context;
    const size_t names_size = cti_bytes(places->n, sizeof(peft_names)),
                 named_size = cti_bytes(2 * places->n, sizeof(ct_named));
    peft_names *names = cti_take_any(context, names_size);
    ct_named *named = cti_take_any(context, named_size);
    bool ok = names && named;
    for (int64_t i = 0; ok && i < places->n; i++) {
        peft_names_of(places->place[i].path, &names[i]);
        named[2 * i] = (ct_named){names[i].a, ct_module_get(places->place[i].adapter, "lora_A")};
        named[2 * i + 1] =
            (ct_named){names[i].b, ct_module_get(places->place[i].adapter, "lora_B")};
    }
    ok = ok &&
         ct_tensors_save(context, path, named, 2 * places->n, (ct_save_opts){.metadata = metadata});
    if (names) cti_give_any(context, names, names_size);
    if (named) cti_give_any(context, named, named_size);
    return ok;
}

/* Writes the text of adapter_config.json. */
static void peft_config(const cti_lora_places *places, const cti_lm *lm, cti_writer *out) {
    const ct_lora_opts *opts = &data_of(&places->place[0])->opts;
    cti_string_write(out, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": ");
    cti_string_write(out, lm && lm->config.head == CTI_LM_HEAD_CAUSAL ? "\"CAUSAL_LM\"" : "null");
    cti_string_write(out, ",\n  \"base_model_name_or_path\": ");
    cti_quoted_write(out, cti_text_of(lm && lm->folder ? lm->folder : ""));
    cti_string_write(out, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": ");
    cti_string_write(out, lm && lm->config.family->transposed ? "true" : "false");
    cti_string_write(out, ",\n  \"inference_mode\": true,\n  \"r\": ");
    cti_natural_write(out, opts->rank);
    cti_string_write(out, ",\n  \"lora_alpha\": ");
    cti_real_write(out, opts->alpha);
    cti_string_write(out, ",\n  \"lora_dropout\": ");
    cti_real_write(out, opts->dropout);
    cti_string_write(out, ",\n  \"target_modules\": [");
    for (int64_t i = 0; i < places->n; i++) {
        cti_string_write(out, i ? ",\n    " : "\n    ");
        cti_quoted_write(out, cti_text_of(places->place[i].path));
    }
    cti_string_write(out, "\n  ]\n}\n");
}

static bool peft_config_write(const cti_lora_places *places, const cti_lm *lm, const char *path) {
    ct_context *context = places->context;
    cti_writer out = {0};
    peft_config(places, lm, &out); /* measures it */
    const size_t size = out.used;
    char *text = cti_take_any(context, size);
    if (!text) return false;
    out = (cti_writer){.at = text, .size = size};
    peft_config(places, lm, &out);
    const bool ok = cti_file_write(context, lora_save_op, path, text, size);
    cti_give_any(context, text, size);
    return ok;
}

/* Writes a set of files (src/io/set.h) whose head is adapter_config.json. */
static bool lora_write(const cti_lora_places *places, const cti_lm *lm, const char *folder) {
    ct_context *context = places->context;
    cti_set set;
    char *weights = cti_path_in(context, folder, "adapter_model.safetensors");
    char *config = weights ? cti_path_in(context, folder, "adapter_config.json") : NULL;
    const bool ok =
        config && cti_set_begin(context, lora_save_op, folder, &set) &&
        cti_set_end(&set, tensors_write(places, weights) && peft_config_write(places, lm, config));
    cti_path_free(context, weights);
    cti_path_free(context, config);
    return ok;
}

bool ct_lora_save(ct_module *module, const char *folder) {
    cti_lora_places places;
    if (!module || !cti_lora_find(module, &places)) return false;
    ct_context *context = places.context;
    const bool is_lm = ct_module_is(module, &cti_lm_type);
    bool ok = places.n > 0 && folder;
    if (!ok)
        ct_fail(context, CT_ERR_ARGUMENT, "%s: %s", lora_save_op,
                folder ? "there is no adapter" : "the folder is NULL");
    ok = ok && are_alike(&places);
    ok = ok && lora_write(&places, is_lm ? cti_lm_of(module) : NULL, folder);
    cti_lora_places_free(&places);
    return ok;
}

/* ---- the tensors ---- */

static const char end_of_a[] = ".lora_A.weight", end_of_b[] = ".lora_B.weight";

/* Returns whether a name of the file is the A (or B, as `end` says) of a Linear, and then writes
 * the Linear's path. */
static bool path_of_matrix(const char *name, const char *end, char path[CTI_LM_PATH]) {
    const size_t n = strlen(name), p = sizeof peft_prefix - 1, m = strlen(end);
    if (n <= p + m || n - p - m >= CTI_LM_PATH || strncmp(name, peft_prefix, p) ||
        strcmp(name + n - m, end))
        return false;
    snprintf(path, CTI_LM_PATH, "%.*s", (int)(n - p - m), name + p);
    return true;
}

static bool has_tensor(ct_safetensors *file, const char *name) {
    ct_safetensors_entry entry = {0};
    while (ct_safetensors_next(file, &entry))
        if (!strcmp(entry.name, name)) return true;
    return false;
}

/* Whether both matrices of the Linear at a path are in the file. */
static bool has_pair(ct_context *context, ct_safetensors *file, const char *path,
                     const char *linear) {
    peft_names names;
    peft_names_of(linear, &names);
    const char *missing = !has_tensor(file, names.a)   ? names.a
                          : !has_tensor(file, names.b) ? names.b
                                                       : NULL;
    return !missing ||
           ct_fail(context, CT_ERR_FORMAT, "%s: %s: no tensor \"%s\"", lora_load_op, path, missing);
}

static bool is_adapted(const cti_lora_places *places, const char *path) {
    for (int64_t i = 0; i < places->n; i++)
        if (!strcmp(places->place[i].path, path)) return true;
    return false;
}

/* Collects the Linears of a file that have no adapter yet. */
static bool new_places(const ct_module *module, ct_safetensors *file, const char *path,
                       const cti_peft_config *config, const cti_lora_places *old,
                       cti_lora_places *added) {
    const cti_lm *lm = ct_module_is(module, &cti_lm_type) ? cti_lm_of(module) : NULL;
    ct_safetensors_entry entry = {0};
    while (ct_safetensors_next(file, &entry)) {
        char linear[CTI_LM_PATH];
        const bool is_b = path_of_matrix(entry.name, end_of_b, linear);
        if (!is_b && (!path_of_matrix(entry.name, end_of_a, linear) || added->n == added->room)) {
            if (!cti_peft_check_base(added->context, module, file, lora_load_op, path, entry.name))
                return false;
            continue;
        }
        if (!has_pair(added->context, file, path, linear)) return false;
        if (is_b) continue;
        if (!cti_peft_config_adapts(config, lm, linear)) return false;
        if (!is_adapted(old, linear))
            snprintf(added->place[added->n++].path, CTI_LM_PATH, "%s", linear);
    }
    if (old->n + added->n) return true;
    return ct_fail(added->context, CT_ERR_FORMAT, "%s: %s: there is no matrix of an adapter",
                   lora_load_op, path);
}

/* Whether adapters that are there have the rank and alpha of the file. */
static bool are_of(const cti_lora_places *old, const char *path, const ct_lora_opts *opts) {
    for (int64_t i = 0; i < old->n; i++) {
        const ct_lora_opts *has = &data_of(&old->place[i])->opts;
        if (has->rank == opts->rank && has->alpha == opts->alpha) continue;
        return ct_fail(old->context, CT_ERR_FORMAT,
                       "%s: %s: rank %" PRId64 " and alpha %g, but the adapter of %s has rank "
                       "%" PRId64 " and alpha %g",
                       lora_load_op, path, opts->rank, opts->alpha, old->place[i].path, has->rank,
                       has->alpha);
    }
    return true;
}

/* Reads a matrix of an adapter in its shape and dtype; NULL after an error. */
static ct_tensor *matrix_read(ct_safetensors *file, const char *name, ct_tensor *to) {
    ct_tensor *from = to ? ct_safetensors_read(file, name) : NULL;
    if (!from) return NULL;
    const ct_shape want = ct_shape_of(to), got = ct_shape_of(from);
    if (got.ndim != 2 || got.dim[0] != want.dim[0] || got.dim[1] != want.dim[1])
        return ct_fail(ct_context_of(to), CT_ERR_FORMAT,
                       "%s: %s has another shape than (%" PRId64 ", %" PRId64 ")", lora_load_op,
                       name, want.dim[0], want.dim[1]);
    return ct_dtype_of(to) == ct_dtype_of(from) ? from : ct_cast(from, ct_dtype_of(to));
}

/* Reads the matrices of adapters into from[2 n], in the innermost scope. */
static bool matrices_read(ct_safetensors *file, const cti_lora_places *places, ct_tensor **from) {
    for (int64_t i = 0; i < places->n; i++) {
        ct_module *adapter = places->place[i].adapter;
        peft_names names;
        peft_names_of(places->place[i].path, &names);
        from[2 * i] = matrix_read(file, names.a, ct_module_get(adapter, "lora_A"));
        from[2 * i + 1] = matrix_read(file, names.b, ct_module_get(adapter, "lora_B"));
        if (!from[2 * i] || !from[2 * i + 1]) return false;
    }
    return true;
}

static bool matrices_write(const cti_lora_places *places, ct_tensor *const *from) {
    for (int64_t i = 0; i < places->n; i++) {
        ct_module *adapter = places->place[i].adapter;
        if (!ct_copy_into(ct_module_get(adapter, "lora_A"), from[2 * i]) ||
            !ct_copy_into(ct_module_get(adapter, "lora_B"), from[2 * i + 1]))
            return false;
    }
    return true;
}

/* Fills the adapters of both lists. Every matrix is read before one is written. */
static bool adapters_fill(ct_safetensors *file, const cti_lora_places *old,
                          const cti_lora_places *added) {
    const int64_t n = 2 * (old->n + added->n);
    const size_t size = cti_bytes(n ? n : 1, sizeof(ct_tensor *));
    ct_tensor **from = cti_take_any(old->context, size);
    if (!from) return false;
    ct_tensor **of_added = from + 2 * old->n;
    ct_scope scope = ct_scope_open_no_grad(old->context);
    const bool ok = matrices_read(file, old, from) && matrices_read(file, added, of_added) &&
                    matrices_write(added, of_added) && matrices_write(old, from);
    ct_scope_close(scope);
    cti_give_any(old->context, from, size);
    return ok;
}

/* ---- loading ---- */

/* Makes the adapters that the tree lacks, fills all, and puts the new ones in place. */
static bool adapters_load(ct_module *module, ct_safetensors *file, const char *path,
                          const cti_peft_config *config) {
    cti_lora_places old, added = {0};
    bool ok = cti_lora_find(module, &old) && cti_lora_places_new(module, &added) &&
              new_places(module, file, path, config, &old, &added) &&
              are_of(&old, path, &config->opts);
    if (ok) {
        ok = cti_lora_make(module, &added, config->opts) && adapters_fill(file, &old, &added);
        if (ok) {
            cti_lora_put(module, &added);
            cti_lora_freeze_others(module);
        } else {
            cti_lora_drop(&added);
        }
    }
    if (added.place) cti_lora_places_free(&added);
    if (old.place) cti_lora_places_free(&old);
    return ok;
}

/* Reads adapter_config.json and opens the weights of the same save; NULL after an error. */
static ct_safetensors *adapters_open(ct_context *context, const char *folder, const char *weights,
                                     const char *path, cti_peft_config *config) {
    cti_set_reading reading = {
        .context = context, .op = lora_load_op, .folder = folder, .head = {"adapter_config.json"}};
    ct_safetensors *file = NULL;
    bool again = true;
    while (again && cti_set_read_begin(&reading)) {
        const bool read = cti_peft_config_read(context, lora_load_op, path, config);
        file = read ? ct_safetensors_open(context, weights) : NULL;
        if (cti_set_read_end(&reading, file != NULL, &again)) return file;
        ct_safetensors_close(file);
        if (read) cti_peft_config_free(config);
    }
    return NULL;
}

static bool lora_load(ct_module *module, ct_context *context, const char *folder,
                      const char *weights, const char *path) {
    cti_peft_config config;
    ct_safetensors *file = adapters_open(context, folder, weights, path, &config);
    if (!file) return false;
    const bool ok = adapters_load(module, file, weights, &config);
    ct_safetensors_close(file);
    cti_peft_config_free(&config);
    return ok;
}

bool ct_lora_load(ct_module *module, const char *folder) {
    ct_param param = {0};
    if (!module || !ct_module_next(module, &param)) return false;
    ct_context *context = ct_context_of(param.tensor);
    if (!folder) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the folder is NULL", lora_load_op);
    char *weights = cti_path_in(context, folder, "adapter_model.safetensors");
    char *config = weights ? cti_path_in(context, folder, "adapter_config.json") : NULL;
    const bool ok = config && lora_load(module, context, folder, weights, config);
    cti_path_free(context, weights);
    cti_path_free(context, config);
    return ok;
}
