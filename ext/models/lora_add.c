/* ct_lora_add: which Linears get an adapter, and which modules are saved whole. */
#include "lora.h"

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/memory.h"
#include "../../src/io/name_map.h"

static const char lora_add_name[] = "lora_add";

/* Whether the parameter is the weight of a Linear. Writes the Linear's path. */
static bool is_linear_weight(const ct_param *param, char path[CTI_LORA_NAME]) {
    static const char end[] = ".weight";
    const size_t n = strlen(param->name), m = sizeof end - 1;
    if (n <= m || strcmp(param->name + n - m, end)) return false;
    snprintf(path, CTI_LORA_NAME, "%.*s", (int)(n - m), param->name);
    return cti_nn_is_linear(param->owner) && !cti_nn_stays(param->owner);
}

static bool lora_opts_complete(ct_context *context, ct_lora_opts *opts) {
    if (opts->rank == 0) opts->rank = 8;
    if (opts->alpha == 0) opts->alpha = (double)opts->rank;
    if (opts->rank > 0 && opts->rank < INT32_MAX && isfinite(opts->alpha) && opts->dropout >= 0 &&
        opts->dropout < 1)
        return true;
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "%s: rank %" PRId64 ", alpha %g, dropout %g: the rank must be at least 1, alpha "
                   "finite, and the dropout in [0, 1)",
                   lora_add_name, opts->rank, opts->alpha, opts->dropout);
}

/* Makes copies of the modules to save. */
static bool modules_save(ct_module *module, ct_context *context, const ct_lora_opts *opts) {
    const int64_t n = opts->n_modules_to_save;
    const size_t size = cti_bytes(n > 0 ? n : 1, sizeof(cti_text));
    int64_t found = 0;
    bool ok = n >= 0 && (n == 0 || opts->modules_to_save);
    for (int64_t i = 0; ok && i < n; i++)
        ok = opts->modules_to_save[i] && *opts->modules_to_save[i];
    if (!ok)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: modules_to_save: a name is NULL or empty",
                       lora_add_name);
    cti_text *end = n ? cti_take_any(context, size) : NULL;
    if (!end) return n == 0;
    for (int64_t i = 0; i < n; i++) end[i] = cti_text_of(opts->modules_to_save[i]);
    const cti_lora_ends ends = {.end = end, .n = n, .tie = opts->ensure_weight_tying};
    ok = cti_lora_save_make(module, lora_add_name, &ends, &found);
    cti_give_any(context, end, size);
    return ok && (found || ct_fail(context, CT_ERR_ARGUMENT,
                                   "%s: modules_to_save: no path of a module ends in \"%s\"",
                                   lora_add_name, opts->modules_to_save[0]));
}

/* Collects the Linears whose paths match, but for those in modules that are saved. Returns false
 * after an error. */
static bool linears_match(ct_module *module, const char *pattern, cti_lora_places *places) {
    static const char inner[] = "." CTI_LORA_BASE;
    ct_param param = {0};
    char path[CTI_LORA_NAME];
    while (ct_module_next(module, &param)) {
        if (!is_linear_weight(&param, path)) continue;
        const size_t n = strlen(path), m = sizeof inner - 1;
        const bool adapted = n > m && !strcmp(path + n - m, inner);
        if (adapted) path[n - m] = 0;
        if (!cti_name_matches(pattern, cti_text_of(path)) || cti_trained_is(param.owner)) continue;
        if (adapted)
            return ct_fail(places->context, CT_ERR_ARGUMENT, "%s: %s has an adapter already",
                           lora_add_name, path);
        if (!cti_lora_place_at(places, path, NULL)) return false;
    }
    return places->n || ct_fail(places->context, CT_ERR_ARGUMENT,
                                "%s: no Linear matches \"%s\"; a pattern is of the whole path, as "
                                "\"*.q_proj\", and a tied head has no adapter",
                                lora_add_name, pattern);
}

int64_t ct_lora_add(ct_module *module, const char *pattern, ct_lora_opts opts) {
    cti_lora_places places;
    if (!module) return -1;
    bool ok = cti_lora_places_new(module, &places);
    if (ok && !pattern)
        ok = ct_fail(places.context, CT_ERR_ARGUMENT, "%s: no pattern", lora_add_name);
    ok = ok && lora_opts_complete(places.context, &opts) &&
         modules_save(module, places.context, &opts) && linears_match(module, pattern, &places);
    opts.modules_to_save = NULL, opts.n_modules_to_save = 0; /* the tree has them now */
    for (int64_t i = 0; ok && i < places.n; i++) places.place[i].opts = opts;
    if (ok && !cti_lora_make(module, &places)) {
        cti_lora_drop(&places);
        ok = false;
    }
    if (ok) cti_lora_put(module, &places);
    else cti_trained_drop(module);
    const int64_t n = ok ? places.n : -1;
    cti_lora_places_free(&places);
    return n;
}
