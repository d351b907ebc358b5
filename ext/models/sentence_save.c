/* Writes sentence-transformers' files into the folder of a save. */
#include "sentence_save.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/io/set.h"
#include "../../src/os/os.h"
#include "sentence_read.h"
#include "small_file.h"

/* Whether a save writes the file itself, or leaves it out because it would be an older form of what
 * is written. */
static bool is_weights(const char *name) {
    return !strcmp(name, "model.safetensors") || !strcmp(name, "pytorch_model.bin");
}

/* Copies the files of a module's folder. Most modules have only a config.json; one that is not
 * followed may have any files. */
static bool step_copy(const cti_lm *lm, const char *op, const char *folder, const cti_lm_step *step,
                      bool with_weights) {
    char *path = cti_path_in(lm->context, lm->folder, step->path);
    cti_os_folder *list = path ? cti_os_folder_open(path) : NULL;
    bool ok = path != NULL;
    for (const char *name = NULL; ok && list && (name = cti_os_folder_next(list)) != NULL;) {
        char full[CTI_SET_NAME];
        const int n = snprintf(full, sizeof full, "%s/%s", step->path, name);
        if (name[0] == '.' || n >= CTI_SET_NAME || (!with_weights && is_weights(name))) continue;
        ok = cti_lm_mirror_file(lm->context, op, lm->folder, folder, full);
    }
    if (list) cti_os_folder_close(list);
    cti_path_free(lm->context, path);
    return ok;
}

static bool dense_save(const cti_lm *lm, const char *folder, const cti_lm_step *step,
                       ct_file_float floats) {
    static const char *const metadata[] = {"format", "pt", NULL};
    char name[CTI_SET_NAME];
    snprintf(name, sizeof name, "%s/model.safetensors", step->path);
    char *path = cti_path_in(lm->context, folder, name);
    const bool ok = path && ct_save(ct_module_child(lm->module, step->path), path,
                                    (ct_save_opts){.metadata = metadata, .floats = floats});
    cti_path_free(lm->context, path);
    return ok;
}

/* The poolings of a GGUF file as a folder has them. */
static bool pooling_write(const cti_lm *lm, const char *op, const char *folder) {
    static const char modules[] = "[\n  {\"idx\": 0, \"name\": \"0\", \"path\": \"\", "
                                  "\"type\": \"sentence_transformers.models.Transformer\"},\n"
                                  "  {\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", "
                                  "\"type\": \"sentence_transformers.models.Pooling\"}\n]\n";
    char text[200];
    const cti_lm_pool pool = lm->sentence.pool[0];
    snprintf(text, sizeof text,
             "{\n  \"word_embedding_dimension\": %" PRId64 ",\n"
             "  \"pooling_mode_cls_token\": %s,\n  \"pooling_mode_mean_tokens\": %s,\n"
             "  \"pooling_mode_lasttoken\": %s\n}\n",
             cti_lm_integer(&lm->config, CTI_LM_WIDTH), pool == CTI_LM_POOL_CLS ? "true" : "false",
             pool == CTI_LM_POOL_MEAN ? "true" : "false",
             pool == CTI_LM_POOL_LAST ? "true" : "false");
    char *list = cti_path_in(lm->context, folder, "modules.json"),
         *config = list ? cti_path_in(lm->context, folder, "1_Pooling/config.json") : NULL;
    const bool ok = config && cti_file_write(lm->context, op, list, modules, sizeof modules - 1) &&
                    cti_file_write(lm->context, op, config, text, strlen(text));
    cti_path_free(lm->context, list);
    cti_path_free(lm->context, config);
    return ok;
}

/* Removes the files of an older model's module, unless this save has them. What else its folder
 * holds is not ours. A link to a folder is left as it is. */
static bool old_step_remove(const cti_lm *lm, const char *op, const char *folder,
                            const char *source, const char *step) {
    static const char *const names[] = {"config.json", "model.safetensors", "pytorch_model.bin"};
    cti_os_about about;
    char *path = cti_path_in(lm->context, folder, step);
    bool ok = path != NULL;
    const bool is_folder = ok && cti_os_about_link(path, &about) && about.kind == CTI_OS_FOLDER;
    for (int i = 0; ok && is_folder && i < 3; i++) {
        char full[CTI_LM_STEP_PATH + 32];
        snprintf(full, sizeof full, "%s/%s", step, names[i]);
        if (!cti_set_has_file(lm->context, full))
            ok = cti_lm_mirror_file(lm->context, op, source, folder, full);
    }
    cti_path_free(lm->context, path);
    return ok;
}

/* The same for the whole folder. So a model that is no embedding model is not read as one. */
static bool old_files_mirror(const cti_lm *lm, const char *op, const char *folder,
                             const char *source) {
    static const char *const names[] = {"modules.json", "config_sentence_transformers.json", NULL};
    const char *const *const lists[] = {names, cti_lm_transformer_files};
    cti_lm_sentence old;
    bool ok = cti_lm_read_steps(lm->context, op, folder, &old);
    for (int i = 0; ok && i < old.steps; i++)
        if (*old.step[i].path && old.step[i].kind != CTI_LM_STEP_TRANSFORMER)
            ok = old_step_remove(lm, op, folder, source, old.step[i].path);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const char *const *name = lists[i]; ok && *name; name++)
            if (!cti_set_has_file(lm->context, *name))
                ok = cti_lm_mirror_file(lm->context, op, source, folder, *name);
    return ok;
}

bool cti_lm_save_sentence(const cti_lm *lm, const char *op, const char *folder,
                          ct_file_float floats) {
    const cti_lm_sentence *sentence = &lm->sentence;
    bool ok = true;
    if (lm->of_gguf && sentence->pools) ok = pooling_write(lm, op, folder);
    for (int i = 0; ok && !lm->of_gguf && i < sentence->steps; i++) {
        const cti_lm_step *step = &sentence->step[i];
        const bool is_dense = step->kind == CTI_LM_STEP_DENSE && !*sentence->refused;
        if (*step->path) ok = step_copy(lm, op, folder, step, !is_dense);
        if (ok && is_dense) ok = dense_save(lm, folder, step, floats);
    }
    return ok && old_files_mirror(lm, op, folder, lm->of_gguf ? NULL : lm->folder);
}
