/* Small models that GGUF files can hold. */
#ifndef CTI_TESTS_GGUF_MODELS_H
#define CTI_TESTS_GGUF_MODELS_H

#include "src/io/gguf.h"

#include "small_lm.h"

#define WIDE                                                                                       \
    "\"vocab_size\": 35, \"hidden_size\": 32, \"intermediate_size\": 64, "                         \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"max_position_embeddings\": 48, "
#define IDS "\"bos_token_id\": 1, \"eos_token_id\": [2, 7], \"pad_token_id\": 3"
#define DECODER(family, more)                                                                      \
    "{\"model_type\": \"" family "\", \"num_key_value_heads\": 2, " WIDE more IDS "}"

static inline ct_module *open_lm(const char *path, ct_lm_opts opts) {
    ct_module *lm = ct_lm_open(context, path, opts);
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    return lm;
}

static inline void save_lm(ct_module *lm, const char *path, ct_file_float floats) {
    ck_assert_msg(ct_lm_save(lm, path, (ct_save_opts){.floats = floats}), "%s",
                  ct_error_message(context));
}

static inline size_t bytes_of(const char *path, char **bytes) {
    FILE *file = fopen(path, "rb");
    ck_assert(file && !fseek(file, 0, SEEK_END));
    const long size = ftell(file);
    rewind(file);
    *bytes = malloc((size_t)size);
    ck_assert(*bytes && fread(*bytes, 1, (size_t)size, file) == (size_t)size && !fclose(file));
    return (size_t)size;
}

#endif
