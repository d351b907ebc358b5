/* generation_config.json: the options with which a model's folder asks to be generated. */
#include <cotangent/autograd.h>

#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/os/os.h"
#include "folder.h"

static const char generation_op[] = "lm_open";

/* Reads a number that is at least 0; null and an absent key leave *out. */
static bool read_generate_number(const cti_lm_reader *reader, const char *key, double *out) {
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    if (!value || reader->tree->value[value].kind == CTI_JSON_NULL) return true;
    if (cti_json_real(reader->tree, value, out) && *out >= 0 && *out < 1e15) return true;
    return cti_lm_refuse(reader, key, value, "not a number of at least 0");
}

/* As in transformers: without do_sample the largest logit is chosen; with it the defaults are
 * temperature 1 and top_k 50. */
static bool read_generate_opts(const cti_lm_reader *reader, cti_lm *lm) {
    const cti_json_tree *tree = reader->tree;
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: not a JSON object", reader->op,
                       reader->path);
    ct_generate_opts *opts = &lm->generation;
    const cti_json_at sample = cti_json_member(tree, 0, "do_sample");
    const bool samples = sample && tree->value[sample].kind == CTI_JSON_TRUE;
    double temperature = 1, top_k = 50, top_p = 1, min_p = 0, penalty = 1, most = 0;
    int64_t ids[CTI_LM_MOST_EOS], n;
    if (!read_generate_number(reader, "temperature", &temperature) ||
        !read_generate_number(reader, "top_k", &top_k) ||
        !read_generate_number(reader, "top_p", &top_p) ||
        !read_generate_number(reader, "min_p", &min_p) ||
        !read_generate_number(reader, "repetition_penalty", &penalty) ||
        !read_generate_number(reader, "max_new_tokens", &most) ||
        !cti_lm_read_ids(reader, "eos_token_id", ids, &n))
        return false;
    if (samples)
        opts->sample = (ct_sample_opts){.temperature = temperature,
                                        .top_k = (int64_t)top_k,
                                        .top_p = top_p < 1 ? top_p : 0,
                                        .min_p = min_p};
    opts->repetition_penalty = penalty != 1 ? penalty : 0;
    opts->max_new = (int64_t)most;
    if (n) {
        memcpy(lm->eos, ids, (size_t)n * sizeof *ids);
        opts->n_eos = n;
    }
    return true;
}

static bool read_generation(cti_lm *lm, const char *path) {
    size_t size;
    cti_json_tree tree;
    char *text = cti_lm_read_file(lm->context, generation_op, path, &size);
    bool ok = text && cti_json_tree_read(lm->context, generation_op, path, text, size, &tree);
    if (ok) {
        const cti_lm_reader reader = {
            .context = lm->context, .op = generation_op, .path = path, .tree = &tree};
        ok = read_generate_opts(&reader, lm);
        cti_json_tree_free(&tree);
    }
    if (text) cti_give_any(lm->context, text, size + 1);
    return ok;
}

bool cti_lm_read_generation(cti_lm *lm) {
    cti_os_about about;
    char *path = cti_lm_join(lm->context, lm->folder, "generation_config.json");
    const bool ok = path && (!cti_os_about_path(path, &about) || about.kind != CTI_OS_FILE ||
                             read_generation(lm, path));
    if (path) cti_give_any(lm->context, path, strlen(path) + 1);
    return ok;
}

ct_generate_opts ct_lm_generate_opts(const ct_module *module) {
    const cti_lm *lm = cti_lm_of(module);
    return lm ? lm->generation : (ct_generate_opts){0};
}
