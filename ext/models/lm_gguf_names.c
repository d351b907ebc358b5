/* The names of a model's tensors in GGUF files, and how the rows of each lie there. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lm_gguf.h"

/* ---- the modules of a model ---- */

typedef enum { IN_BASE, IN_A_LAYER, IN_ATTENTION, IN_FEED_FORWARD, IN_ROOT } gguf_place;
typedef enum {
    AS_IT_IS,
    OF_ALL_HEADS,
    TURNED_BY_HEAD,
    TURNED_BY_KV_HEAD,
    NORM_WEIGHT,
    GATE_AND_IN,
    FROM_FIRST
} gguf_change;

/* A module, whose name is the same member of both tables of names. */
typedef struct {
    size_t at;
    gguf_place place;
    gguf_change change;
} gguf_module;
#define GGUF_MODULE(member, in, how) {offsetof(cti_lm_names, member), (in), (how)}
static const gguf_module gguf_modules[] = {
    GGUF_MODULE(embed, IN_BASE, AS_IT_IS),
    GGUF_MODULE(positions, IN_BASE, FROM_FIRST),
    GGUF_MODULE(types, IN_BASE, AS_IT_IS),
    GGUF_MODULE(embed_norm, IN_BASE, NORM_WEIGHT),
    GGUF_MODULE(norm, IN_BASE, NORM_WEIGHT),
    GGUF_MODULE(head, IN_ROOT, AS_IT_IS),
    GGUF_MODULE(layer.mha.qkv, IN_ATTENTION, OF_ALL_HEADS),
    GGUF_MODULE(layer.mha.q, IN_ATTENTION, TURNED_BY_HEAD),
    GGUF_MODULE(layer.mha.k, IN_ATTENTION, TURNED_BY_KV_HEAD),
    GGUF_MODULE(layer.mha.v, IN_ATTENTION, AS_IT_IS),
    GGUF_MODULE(layer.mha.q_norm, IN_ATTENTION, NORM_WEIGHT),
    GGUF_MODULE(layer.mha.k_norm, IN_ATTENTION, NORM_WEIGHT),
    GGUF_MODULE(layer.mha.out, IN_ATTENTION, AS_IT_IS),
    GGUF_MODULE(layer.feed.in, IN_FEED_FORWARD, AS_IT_IS),
    GGUF_MODULE(layer.feed.gate, IN_FEED_FORWARD, AS_IT_IS),
    GGUF_MODULE(layer.feed.gate_in, IN_FEED_FORWARD, GATE_AND_IN),
    GGUF_MODULE(layer.feed.out, IN_FEED_FORWARD, AS_IT_IS),
    GGUF_MODULE(layer.norm[0], IN_A_LAYER, NORM_WEIGHT),
    GGUF_MODULE(layer.norm[1], IN_A_LAYER, NORM_WEIGHT),
    GGUF_MODULE(layer.norm_out[0], IN_A_LAYER, NORM_WEIGHT),
    GGUF_MODULE(layer.norm_out[1], IN_A_LAYER, NORM_WEIGHT),
};
enum { GGUF_MODULES = sizeof gguf_modules / sizeof *gguf_modules };

static bool in_layer(const gguf_module *module) {
    return module->place != IN_BASE && module->place != IN_ROOT;
}

/* Writes the path of a module below its layer, the base or the root; false: there is none. */
static bool gguf_module_path(const cti_lm_names *names, const gguf_module *module,
                             char out[CTI_LM_PART]) {
    const char *const *name = (const char *const *)(const void *)((const char *)names + module->at);
    const char *within = module->place == IN_ATTENTION      ? names->layer.attention[0]
                         : module->place == IN_FEED_FORWARD ? names->layer.feed_forward
                                                            : NULL;
    if (!*name) return false;
    snprintf(out, CTI_LM_PART, "%s%s%s", within ? within : "", within ? "." : "", *name);
    return true;
}

/* ---- names as parts ---- */

/* A name such as model.layers.3.mlp.up_proj.weight or blk.3.ffn_up.weight. */
typedef struct {
    long layer; /* -1: none */
    char module[CTI_LM_PATH];
    const char *suffix; /* "weight" or "bias" */
} gguf_name;

/* Divides a name; `layers` is the list of layers with a point behind it. */
static bool name_divide(const char *text, const char *layers, gguf_name *name) {
    const size_t n = strlen(layers);
    const char *dot = strrchr(text, '.');
    *name = (gguf_name){.layer = -1};
    if (!dot || (strcmp(dot, ".weight") && strcmp(dot, ".bias"))) return false;
    name->suffix = dot + 1;
    if (!strncmp(text, layers, n)) {
        const char *number = text + n;
        const size_t digits = strspn(number, "0123456789");
        if (!digits || digits > 9 || number[digits] != '.' || (digits > 1 && *number == '0') ||
            number + digits >= dot)
            return false;
        name->layer = strtol(number, NULL, 10);
        text = number + digits + 1;
    }
    if ((size_t)(dot - text) >= sizeof name->module) return false;
    memcpy(name->module, text, (size_t)(dot - text));
    return true;
}

/* The module of this name in a table: one of the base, or one of the root, or either. */
static const gguf_module *gguf_module_find(const cti_lm_names *names, const gguf_name *name,
                                           bool base, bool root) {
    char path[CTI_LM_PART];
    for (int i = 0; i < GGUF_MODULES; i++) {
        const gguf_module *module = &gguf_modules[i];
        if ((name->layer >= 0) == in_layer(module) && (module->place == IN_ROOT ? root : base) &&
            gguf_module_path(names, module, path) && !strcmp(path, name->module))
            return module;
    }
    return NULL;
}

/* Sets how a parameter of the module lies in the file. */
static void param_lay(const cti_lm_config *config, const gguf_module *module, const char *suffix,
                      cti_lm_gguf_param *param) {
    const cti_lm_family *family = config->family;
    const int64_t heads = cti_lm_integer(config, CTI_LM_HEADS),
                  dim = cti_lm_integer(config, CTI_LM_HEAD_DIM);
    param->grid = (cti_row_grid){0};
    param->offset = 0;
    *param->second = 0;
    param->first = 0;
    switch (module->change) {
    case AS_IT_IS:
    case GATE_AND_IN: break;
    case OF_ALL_HEADS: /* the file has all rows of q, then those of k and of v */
        if (family->names.layer.mha.interleaved)
            param->grid = (cti_row_grid){.a = heads, .b = 3, .cell = dim};
        break;
    case TURNED_BY_HEAD:
    case TURNED_BY_KV_HEAD: /* the heads are the groups, whose number the rows say */
        if (family->gguf.neighbours) param->grid = (cti_row_grid){.a = 2, .b = dim / 2, .cell = 1};
        break;
    case FROM_FIRST: /* a BERT's first token has the first row */
        if (family->behind_padding) param->first = config->pad + 1;
        break;
    case NORM_WEIGHT:
        if (!strcmp(suffix, "weight")) param->offset = family->norm_offset;
        break;
    }
}

/* ---- from the tree to the file, and back ---- */

/* The prefix of the base in the tree, "model." or "". */
static void base_prefix(const cti_lm_config *config, char out[CTI_LM_PART]) {
    const bool bare = config->head->kind == CT_LM_HEAD_NONE;
    snprintf(out, CTI_LM_PART, "%s%s", bare ? "" : config->family->names.base, bare ? "" : ".");
}

/* Writes the name in the file of a parameter of a module. */
static void file_name_write(const cti_lm_family *family, const gguf_name *name, const char *module,
                            char out[CTI_LM_PATH]) {
    if (name->layer >= 0)
        snprintf(out, CTI_LM_PATH, "%s.%ld.%s.%s", family->gguf.names->layers, name->layer, module,
                 name->suffix);
    else snprintf(out, CTI_LM_PATH, "%s.%s", module, name->suffix);
}

bool cti_lm_gguf_param_of(const cti_lm_config *config, const char *path, cti_lm_gguf_param *param) {
    const cti_lm_family *family = config->family;
    char prefix[CTI_LM_PART], layers[CTI_LM_PATH], file[CTI_LM_PART];
    gguf_name name;
    base_prefix(config, prefix);
    snprintf(layers, sizeof layers, "%s.", family->names.layers);
    const size_t n = strlen(prefix);
    const bool in_base = !strncmp(path, prefix, n);
    if (!name_divide(in_base ? path + n : path, layers, &name)) return false;
    const gguf_module *module = gguf_module_find(&family->names, &name, in_base, !in_base);
    if (!module) return false;
    param_lay(config, module, name.suffix, param);
    if (module->change == GATE_AND_IN) {
        const cti_nn_feed_names *feed = &family->gguf.names->layer.feed;
        file_name_write(family, &name, feed->gate, param->name);
        file_name_write(family, &name, feed->in, param->second);
        return true;
    }
    if (!gguf_module_path(family->gguf.names, module, file)) return false;
    file_name_write(family, &name, file, param->name);
    return true;
}

bool cti_lm_gguf_path_of(const cti_lm_config *config, cti_text text, char path[CTI_LM_PATH],
                         cti_lm_gguf_param *param) {
    const cti_lm_family *family = config->family;
    char prefix[CTI_LM_PART], layers[CTI_LM_PART], tree[CTI_LM_PART];
    gguf_name name;
    if (text.size >= CTI_LM_PATH) return false;
    snprintf(param->name, sizeof param->name, "%.*s", (int)text.size, text.at);
    snprintf(layers, sizeof layers, "%s.", family->gguf.names->layers);
    if (!name_divide(param->name, layers, &name)) return false;
    const gguf_module *module =
        gguf_module_find(family->gguf.names, &name, true, config->head->kind == CT_LM_HEAD_CAUSAL);
    if (!module || !gguf_module_path(&family->names, module, tree)) return false;
    base_prefix(config, prefix);
    if (module->place == IN_ROOT) *prefix = 0;
    const int size = name.layer >= 0
                         ? snprintf(path, CTI_LM_PATH, "%s%s.%ld.%s.%s", prefix,
                                    family->names.layers, name.layer, tree, name.suffix)
                         : snprintf(path, CTI_LM_PATH, "%s%s.%s", prefix, tree, name.suffix);
    param_lay(config, module, name.suffix, param);
    return size < CTI_LM_PATH;
}
