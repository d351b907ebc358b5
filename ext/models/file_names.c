/* The names of a file's tensors, and which parameters the file lacks because it has another head.
 */
#include <stdio.h>
#include <string.h>

#include "folder.h"

bool cti_lm_ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

void cti_lm_file_name(const cti_lm_config *config, const cti_lm_style *style, const char *name,
                      char out[CTI_LM_PATH]) {
    const cti_lm_names *names = &config->family->names;
    const bool bare = config->head->kind == CT_LM_HEAD_NONE;
    const size_t base = strlen(names->base);
    const bool in_base = bare || (!strncmp(name, names->base, base) && name[base] == '.');
    const char *stem = in_base && !bare ? name + base + 1 : name;
    snprintf(out, CTI_LM_PATH, "%s%s%s", in_base && style->prefixed ? names->base : "",
             in_base && style->prefixed ? "." : "", stem);
    char *norm = style->gamma ? strstr(out, "LayerNorm.") : NULL;
    if (norm)
        strcpy(norm + strlen("LayerNorm."),
               !strcmp(norm, "LayerNorm.weight") ? "gamma" : "beta"); /* not longer */
    const size_t head = names->head ? strlen(names->head) : 0;
    if (style->old_head && !strncmp(name, names->head, head) && name[head] == '.')
        snprintf(out, CTI_LM_PATH, "%s%s", names->old_head, name + head);
}

/* ---- what is drawn ---- */

/* Whether a parameter is one of the head's, or of the pooler's. */
static bool is_head_param(const cti_lm_config *config, const char *name, bool *is_pooler) {
    const cti_lm_names *names = &config->family->names;
    const bool bare = config->head->kind == CT_LM_HEAD_NONE;
    const size_t base = strlen(names->base), pooler = names->pooler ? strlen(names->pooler) : 0;
    const bool in_base = bare || (!strncmp(name, names->base, base) && name[base] == '.');
    const char *part = bare || !in_base ? name : name + base + 1;
    *is_pooler = in_base && pooler && !strncmp(part, names->pooler, pooler) && part[pooler] == '.';
    return !in_base || *is_pooler;
}

/* Writes the other name of the bias that a masked language model's head and its owner share. */
static bool other_name(const cti_lm_head *head, const char *name, char out[CTI_LM_PATH]) {
    char own[CTI_LM_PATH];
    if (!head->bias_owner) return false;
    snprintf(own, sizeof own, "%s.bias", head->bias_owner);
    snprintf(out, CTI_LM_PATH, "%s.bias", head->linear);
    if (!strcmp(name, own)) return true;
    const bool is_linear = !strcmp(name, out);
    strcpy(out, own); /* both have CTI_LM_PATH bytes */
    return is_linear;
}

static bool style_has(const cti_lm_config *config, const cti_lm_style *style, const char *name) {
    char path[CTI_LM_PATH];
    cti_lm_file_name(config, style, name, path);
    return cti_shards_find(style->file, cti_text_of(path)) >= 0;
}

bool cti_lm_is_drawn(const cti_lm_config *config, const cti_lm_style *style, const char *name) {
    bool is_pooler;
    char other[CTI_LM_PATH];
    if (!is_head_param(config, name, &is_pooler)) return false;
    if (!config->keeps_head && !is_pooler) return true;
    return config->draws && !style_has(config, style, name) &&
           !(other_name(config->head, name, other) && style_has(config, style, other));
}

/* Whether the model leaves out a tensor of the file on purpose: the file's own head, if it is
 * another one. */
bool cti_lm_is_other_head(const cti_lm_config *config, const cti_lm_style *style,
                          const char *name) {
    const char *base = config->family->names.base;
    const size_t n = strlen(base);
    return (config->draws || !config->keeps_head) && style->prefixed &&
           (strncmp(name, base, n) || name[n] != '.');
}
