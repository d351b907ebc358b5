/* How the weights of a model are kept; see weights.h. */
#include "weights.h"

#include <string.h>

/* The values of the flag, which count from 1. */
#define WORDS "f32|bf16|q8_0|q4_0"
static const struct {
    const char *word;
    ct_dtype dtype;
} weights[] = {{"f32", CT_F32}, {"bf16", CT_BF16}, {"q8_0", CT_Q8_0}, {"q4_0", CT_Q4_0}};

flag flag_weights(const char *name, long long *value, const char *help) {
    return flag_choice(name, value, WORDS, help);
}

ct_dtype weights_dtype(ct_context *context, const char *path, const char *name, long long word) {
    if (word) return weights[word - 1].dtype;
    const ct_dtype dtype = ct_lm_file_dtype(context, path);
    check(context, EXIT_USAGE);
    for (size_t i = 0; i < sizeof weights / sizeof *weights && is_gguf(path); i++)
        if (weights[i].dtype == dtype)
            warn("%s is opened as %s (--%s)", path, weights[i].word, name);
    return dtype;
}

bool is_gguf(const char *path) {
    static const char suffix[] = ".gguf";
    const size_t length = strlen(path), n = sizeof suffix - 1;
    return length > n && !strcmp(path + length - n, suffix);
}
