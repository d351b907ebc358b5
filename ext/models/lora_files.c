/* PEFT's folders: adapter_config.json and adapter_model.safetensors. */
#include <cotangent/autograd.h>
#include <cotangent/io.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/names.h"
#include "../../src/core/memory.h"
#include "../../src/io/kind.h"
#include "../../src/io/set.h"
#include "folder.h"
#include "lm_gguf.h"
#include "lora.h"
#include "peft_base.h"
#include "peft_config.h"

static const char lora_save_op[] = "lora_save", lora_load_op[] = "lora_load";
static const char peft_prefix[] = CTI_PEFT_PREFIX;

/* ---- saving ---- */

static const cti_lora *data_of(const cti_lora_place *place) {
    return ct_module_data(place->adapter, &cti_lora_type);
}

/* Whether all adapters have what adapter_config.json has once. */
static bool are_alike(const cti_lora_places *places) {
    const ct_lora_opts *first = &data_of(&places->place[0])->opts;
    for (int64_t i = 1; i < places->n; i++) {
        const ct_lora_opts *opts = &data_of(&places->place[i])->opts;
        if (opts->dropout != first->dropout || opts->use_rslora != first->use_rslora ||
            opts->use_dora != first->use_dora)
            return ct_fail(places->context, CT_ERR_ARGUMENT,
                           "%s: the adapters of %s and %s differ in dropout, use_rslora or "
                           "use_dora",
                           lora_save_op, places->place[0].path, places->place[i].path);
    }
    return true;
}

/* The parameters of an adapter, and how PEFT's files spell them. */
enum { ADAPTER_TENSORS = 3 };
static const char *const adapter_param[ADAPTER_TENSORS] = {"lora_A", "lora_B", CTI_LORA_NORM};
static const char *const peft_end[ADAPTER_TENSORS] = {".lora_A.weight", ".lora_B.weight",
                                                      ("." CTI_LORA_NORM)};

static int tensors_of(const ct_lora_opts *opts) { return opts->use_dora ? 3 : 2; }

typedef struct {
    char of[ADAPTER_TENSORS][CTI_LM_PATH + 48];
} peft_names;

static void peft_names_of(const char *path, peft_names *names) {
    for (int k = 0; k < ADAPTER_TENSORS; k++)
        snprintf(names->of[k], sizeof names->of[k], "%s%s%s", peft_prefix, path, peft_end[k]);
}

static int64_t saved_count(const ct_module *module) {
    ct_param param = {0};
    int64_t n = 0;
    while (cti_trained_next(module, &param)) n++;
    return n;
}

/* Adds the copies of modules that are saved whole. */
static bool saved_name(const ct_module *module, cti_lora_saved *saved, ct_named *named) {
    ct_param param = {0};
    for (; cti_lora_saved_next(module, &param, saved); saved++, named++) {
        ct_tensor *copy =
            saved->transposed ? ct_contiguous(ct_transpose(saved->copy, 0, 1)) : saved->copy;
        if (!copy) return false;
        *named = (ct_named){saved->name, copy};
    }
    return true;
}

static bool tensors_write(const ct_module *module, const cti_lora_places *places,
                          const char *path) {
    static const char *const metadata[] = {"format", "pt", NULL};
    ct_context *context = places->context;
    const int64_t n_saved = saved_count(module);
    const size_t names_size = cti_bytes(places->n, sizeof(peft_names)),
                 saved_size = cti_bytes(n_saved + 1, sizeof(cti_lora_saved)),
                 named_size = cti_bytes(ADAPTER_TENSORS * places->n + n_saved, sizeof(ct_named));
    cti_lora_saved *saved = cti_take_any(context, saved_size);
    peft_names *names = cti_take_any(context, names_size);
    ct_named *named = cti_take_any(context, named_size);
    bool ok = names && named && saved;
    int64_t n = 0;
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int64_t i = 0; ok && i < places->n; i++) {
        peft_names_of(places->place[i].path, &names[i]);
        for (int k = 0; k < tensors_of(&data_of(&places->place[i])->opts); k++)
            named[n++] = (ct_named){names[i].of[k],
                                    ct_module_get(places->place[i].adapter, adapter_param[k])};
    }
    ok = ok && saved_name(module, saved, named + n) &&
         ct_tensors_save(context, path, named, n + n_saved, (ct_save_opts){.metadata = metadata});
    ct_scope_close(scope);
    if (saved) cti_give_any(context, saved, saved_size);
    if (names) cti_give_any(context, names, names_size);
    if (named) cti_give_any(context, named, named_size);
    return ok;
}

/* Writes the ranks or alphas that are not the first adapter's, by whole paths. */
static void patterns_write(const cti_lora_places *places, bool ranks, cti_writer *out) {
    const ct_lora_opts *first = &data_of(&places->place[0])->opts;
    bool any = false;
    for (int64_t i = 1; i < places->n; i++) {
        const ct_lora_opts *opts = &data_of(&places->place[i])->opts;
        if (ranks ? opts->rank == first->rank : opts->alpha == first->alpha) continue;
        char pattern[CTI_LM_PATH + 1];
        snprintf(pattern, sizeof pattern, "^%s", places->place[i].path);
        cti_string_write(out, any     ? ",\n    "
                              : ranks ? ",\n  \"rank_pattern\": {\n    "
                                      : ",\n  \"alpha_pattern\": {\n    ");
        cti_quoted_write(out, cti_text_of(pattern));
        cti_string_write(out, ": ");
        if (ranks) cti_natural_write(out, opts->rank);
        else cti_real_write(out, opts->alpha);
        any = true;
    }
    cti_string_write(out, any ? "\n  }" : "");
}

/* PEFT ties the copy of a head to that of an embedding which is listed by this name alone. Other
 * ties become two copies with the same values. */
static const char tied_embedding[] = "embed_tokens";

typedef struct {
    cti_writer *out;
    const ct_module *root;
    bool any, tied; /* tied: the embedding is listed, by this name */
} saved_list;

static void saved_path_write(saved_list *list, const char *path, const char *name) {
    const bool tie = cti_lora_save_is_tied(list->root);
    if (tie && list->tied && cti_lora_save_is_head(list->root, path)) return;
    const bool by_name = tie && !strcmp(name, tied_embedding);
    cti_string_write(list->out, list->any ? ",\n    " : ",\n  \"modules_to_save\": [\n    ");
    cti_quoted_write(list->out, cti_text_of(by_name ? name : path));
    list->tied |= by_name, list->any = true;
}

/* Writes the paths of the outermost modules below one, of n bytes in path, that are saved whole. */
static void saved_paths_write(saved_list *list, const ct_module *module, char path[2 * CTI_LM_PATH],
                              size_t n) {
    const ct_module *child = cti_nn_first_child(module);
    for (; child && n < CTI_LM_PATH; child = cti_nn_next_child(child)) {
        const char *name = cti_nn_child_name(child);
        const int more = snprintf(path + n, 2 * CTI_LM_PATH - n, "%s%s", n ? "." : "", name);
        if (cti_trained_is_whole(child)) saved_path_write(list, path, name);
        else saved_paths_write(list, child, path, n + (size_t)more);
    }
}

static void modules_to_save_write(const ct_module *module, cti_writer *out) {
    char path[2 * CTI_LM_PATH];
    saved_list list = {.out = out, .root = module};
    saved_paths_write(&list, module, path, 0);
    cti_string_write(out, list.any ? "\n  ]" : "");
    cti_string_write(out, list.tied ? ",\n  \"ensure_weight_tying\": true" : "");
}

/* PEFT's task of a model. With a task of labels PEFT saves and loads the head too, so a folder that
 * has none of it names no task. */
static const char *task_type_of(const ct_module *module, const cti_lm *lm) {
    ct_param param = {0};
    const ct_lm_head kind = lm ? lm->config.head->kind : CT_LM_HEAD_NONE;
    if (kind == CT_LM_HEAD_CAUSAL) return "\"CAUSAL_LM\"";
    const bool labels = kind == CT_LM_HEAD_SEQUENCE || kind == CT_LM_HEAD_TOKEN;
    if (!labels || !cti_trained_next(module, &param)) return "null";
    return kind == CT_LM_HEAD_SEQUENCE ? "\"SEQ_CLS\"" : "\"TOKEN_CLS\"";
}

/* Writes the text of adapter_config.json. */
static void peft_config(const ct_module *module, const cti_lora_places *places, const cti_lm *lm,
                        cti_writer *out) {
    const ct_lora_opts *opts = &data_of(&places->place[0])->opts;
    cti_string_write(out, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": ");
    cti_string_write(out, task_type_of(module, lm));
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
    cti_string_write(out, opts->use_rslora ? ",\n  \"use_rslora\": true" : "");
    cti_string_write(out, opts->use_dora ? ",\n  \"use_dora\": true" : "");
    patterns_write(places, true, out);
    patterns_write(places, false, out);
    modules_to_save_write(module, out);
    cti_string_write(out, ",\n  \"target_modules\": [");
    for (int64_t i = 0; i < places->n; i++) {
        cti_string_write(out, i ? ",\n    " : "\n    ");
        cti_quoted_write(out, cti_text_of(places->place[i].path));
    }
    cti_string_write(out, "\n  ]\n}\n");
}

static bool peft_config_write(const ct_module *module, const cti_lora_places *places,
                              const cti_lm *lm, const char *path) {
    ct_context *context = places->context;
    cti_writer out = {0};
    peft_config(module, places, lm, &out); /* measures it */
    const size_t size = out.used;
    char *text = cti_take_any(context, size);
    if (!text) return false;
    out = (cti_writer){.at = text, .size = size};
    peft_config(module, places, lm, &out);
    const bool ok = cti_file_write(context, lora_save_op, path, text, size);
    cti_give_any(context, text, size);
    return ok;
}

/* Writes a set of files (src/io/set.h) whose head is adapter_config.json. */
static bool lora_write(const ct_module *module, const cti_lora_places *places, const cti_lm *lm,
                       const char *folder) {
    ct_context *context = places->context;
    cti_set set;
    char *weights = cti_path_in(context, folder, "adapter_model.safetensors");
    char *config = weights ? cti_path_in(context, folder, "adapter_config.json") : NULL;
    const bool ok = config && cti_set_begin(context, lora_save_op, folder, &set) &&
                    cti_set_end(&set, tensors_write(module, places, weights) &&
                                          peft_config_write(module, places, lm, config));
    cti_path_free(context, weights);
    cti_path_free(context, config);
    return ok;
}

/* Refuses a module that is no language model. */
static bool of_language_model(ct_context *context, const char *op, const char *path) {
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "%s: %s: adapters in a GGUF file are of a language model (ct_lm_open)", op,
                   path);
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
    const cti_lm *lm = is_lm ? cti_lm_of(module) : NULL;
    if (ok && cti_kind_is_name(folder, "", CTI_KIND_GGUF))
        ok = lm ? cti_lm_gguf_save_adapters(lm, lora_save_op, folder, &places)
                : of_language_model(context, lora_save_op, folder);
    else ok = ok && lora_write(module, &places, lm, folder);
    cti_lora_places_free(&places);
    return ok;
}

/* ---- the tensors ---- */

/* Returns whether a name of the file is the tensor of an adapter that `end` says, and then writes
 * the path of its Linear. */
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

/* Whether all tensors of the Linear's adapter are in the file. */
static bool has_all(ct_context *context, ct_safetensors *file, const char *path, const char *linear,
                    const ct_lora_opts *opts) {
    peft_names names;
    peft_names_of(linear, &names);
    for (int k = 0; k < tensors_of(opts); k++)
        if (!has_tensor(file, names.of[k]))
            return ct_fail(context, CT_ERR_FORMAT, "%s: %s: no tensor \"%s\"", lora_load_op, path,
                           names.of[k]);
    return true;
}

/* Which tensor of an adapter a name of the file stands for; -1: of none. */
static int tensor_of_adapter(const char *name, const ct_lora_opts *opts, char linear[CTI_LM_PATH]) {
    for (int k = 0; k < tensors_of(opts); k++)
        if (path_of_matrix(name, peft_end[k], linear)) return k;
    return -1;
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
        const int k = tensor_of_adapter(entry.name, &config->opts, linear);
        if (k < 0 && cti_lora_saved_has(module, entry.name)) continue;
        if (k < 0 || (k == 0 && added->n == added->room)) {
            if (!cti_peft_check_base(added->context, module, file, lora_load_op, path, entry.name))
                return false;
            continue;
        }
        if (!has_all(added->context, file, path, linear, &config->opts)) return false;
        if (k > 0) continue;
        if (config->text && !cti_peft_config_adapts(config, lm, linear)) return false;
        const ct_module *place = cti_nn_child_at(module, linear);
        if (!place)
            return ct_fail(added->context, CT_ERR_FORMAT,
                           "%s: %s: the weights have an adapter of %s, and the model has no such "
                           "module",
                           lora_load_op, path, linear);
        if (cti_trained_is(place))
            return ct_fail(added->context, CT_ERR_FORMAT,
                           "%s: %s: the weights have an adapter of %s, which is in "
                           "modules_to_save",
                           lora_load_op, path, linear);
        if (!is_adapted(old, linear))
            snprintf(added->place[added->n++].path, CTI_LM_PATH, "%s", linear);
    }
    if (old->n + added->n) return true;
    return ct_fail(added->context, CT_ERR_FORMAT, "%s: %s: there is no matrix of an adapter",
                   lora_load_op, path);
}

/* The options of the adapter at a path; false after an error. */
static bool opts_at(const cti_peft_config *config, const char *path, ct_lora_opts *opts) {
    *opts = config->opts;
    return !config->text || cti_peft_config_opts(config, path, opts);
}

static const char *kind_of(const ct_lora_opts *opts) {
    return opts->use_dora     ? opts->use_rslora ? " of DoRA and rsLoRA" : " of DoRA"
           : opts->use_rslora ? " of rsLoRA"
                              : "";
}

/* Gives the new places the options of the file, and compares those of adapters that are there. */
static bool opts_find(cti_lora_places *added, const cti_lora_places *old, const char *path,
                      const cti_peft_config *config) {
    for (int64_t i = 0; i < added->n; i++)
        if (!opts_at(config, added->place[i].path, &added->place[i].opts)) return false;
    for (int64_t i = 0; i < old->n; i++) {
        const ct_lora_opts *has = &data_of(&old->place[i])->opts;
        ct_lora_opts opts;
        if (!opts_at(config, old->place[i].path, &opts)) return false;
        if (has->rank == opts.rank && has->alpha == opts.alpha &&
            has->use_rslora == opts.use_rslora && has->use_dora == opts.use_dora)
            continue;
        return ct_fail(old->context, CT_ERR_FORMAT,
                       "%s: %s: rank %" PRId64 " and alpha %g%s, but the adapter of %s has rank "
                       "%" PRId64 " and alpha %g%s",
                       lora_load_op, path, opts.rank, opts.alpha, kind_of(&opts),
                       old->place[i].path, has->rank, has->alpha, kind_of(has));
    }
    return true;
}

/* Reads a tensor of an adapter in its shape and dtype; NULL after an error. */
static ct_tensor *matrix_read(ct_safetensors *file, const char *name, ct_tensor *to) {
    ct_tensor *from = to ? ct_safetensors_read(file, name) : NULL;
    if (!from) return NULL;
    const ct_shape want = ct_shape_of(to), got = ct_shape_of(from);
    bool same = got.ndim == want.ndim;
    for (int i = 0; same && i < want.ndim; i++) same = got.dim[i] == want.dim[i];
    if (!same && want.ndim == 2)
        return ct_fail(ct_context_of(to), CT_ERR_FORMAT,
                       "%s: %s has another shape than (%" PRId64 ", %" PRId64 ")", lora_load_op,
                       name, want.dim[0], want.dim[1]);
    if (!same)
        return ct_fail(ct_context_of(to), CT_ERR_FORMAT,
                       "%s: %s has another shape than (%" PRId64 ")", lora_load_op, name,
                       want.dim[0]);
    return ct_dtype_of(to) == ct_dtype_of(from) ? from : ct_cast(from, ct_dtype_of(to));
}

/* Reads the tensors of adapters into from[ADAPTER_TENSORS n], in the innermost scope. */
static bool matrices_read(ct_safetensors *file, const cti_lora_places *places, ct_tensor **from) {
    for (int64_t i = 0; i < places->n; i++, from += ADAPTER_TENSORS) {
        peft_names names;
        peft_names_of(places->place[i].path, &names);
        for (int k = 0; k < tensors_of(&data_of(&places->place[i])->opts); k++) {
            from[k] = matrix_read(file, names.of[k],
                                  ct_module_get(places->place[i].adapter, adapter_param[k]));
            if (!from[k]) return false;
        }
    }
    return true;
}

static bool matrices_write(const cti_lora_places *places, ct_tensor *const *from) {
    for (int64_t i = 0; i < places->n; i++, from += ADAPTER_TENSORS)
        for (int k = 0; k < tensors_of(&data_of(&places->place[i])->opts); k++)
            if (!ct_copy_into(ct_module_get(places->place[i].adapter, adapter_param[k]), from[k]))
                return false;
    return true;
}

/* Fills the adapters of both lists. Every tensor is read before one is written. */
static bool adapters_fill(const ct_module *module, ct_safetensors *file, const cti_lora_places *old,
                          const cti_lora_places *added) {
    const int64_t n = ADAPTER_TENSORS * (old->n + added->n);
    const size_t size = cti_bytes(n + 2 * saved_count(module) + 1, sizeof(ct_tensor *));
    ct_tensor **from = cti_take_any(old->context, size);
    if (!from) return false;
    ct_tensor **of_added = from + ADAPTER_TENSORS * old->n;
    ct_scope scope = ct_scope_open_no_grad(old->context);
    const bool ok = matrices_read(file, old, from) && matrices_read(file, added, of_added) &&
                    cti_lora_saved_read(old->context, module, file, lora_load_op, from + n) &&
                    matrices_write(added, of_added) && matrices_write(old, from) &&
                    cti_lora_saved_write(module, from + n);
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
              cti_peft_config_save_make(config, module) &&
              new_places(module, file, path, config, &old, &added) &&
              cti_lora_saved_check(old.context, module, file, lora_load_op, path) &&
              opts_find(&added, &old, path, config);
    if (ok) {
        ok = cti_lora_make(module, &added) && adapters_fill(module, file, &old, &added);
        if (ok) {
            cti_lora_put(module, &added);
        } else {
            cti_lora_drop(&added);
        }
    }
    if (!ok) cti_trained_drop(module);
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

/* A GGUF file says of the config only rank and alpha. */
static bool lora_load_gguf(ct_module *module, ct_context *context, const char *path) {
    cti_peft_config config = {.text = NULL};
    if (!ct_module_is(module, &cti_lm_type)) return of_language_model(context, lora_load_op, path);
    ct_safetensors *file =
        cti_lm_gguf_open_adapters(cti_lm_of(module), lora_load_op, path, &config.opts);
    const bool ok = file && adapters_load(module, file, path, &config);
    ct_safetensors_close(file);
    return ok;
}

bool ct_lora_load(ct_module *module, const char *folder) {
    ct_param param = {0};
    if (!module || !ct_module_next(module, &param)) return false;
    ct_context *context = ct_context_of(param.tensor);
    if (!folder) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the folder is NULL", lora_load_op);
    bool is_gguf;
    if (!cti_lm_gguf_is(context, lora_load_op, folder, &is_gguf)) return false;
    if (is_gguf) return lora_load_gguf(module, context, folder);
    char *weights = cti_path_in(context, folder, "adapter_model.safetensors");
    char *config = weights ? cti_path_in(context, folder, "adapter_config.json") : NULL;
    const bool ok = config && lora_load(module, context, folder, weights, config);
    cti_path_free(context, weights);
    cti_path_free(context, config);
    return ok;
}
