/* The model that a path names: a folder of Hugging Face's, a GGUF file, or a folder of adapters,
 * which name the model that they are for. */
#ifndef PROGRAMS_MODEL_PATH_H
#define PROGRAMS_MODEL_PATH_H

#include "common.h"

/* The folder or file of the model: the path itself or, if it has adapters, `base`, or without one
 * the model that they name. Prints a message and exits if there is none. The result is valid until
 * the next call. */
const char *model_base(ct_context *context, const char *path, const char *base);

/* Opens the model of a base, and the adapters if the path is a folder of these. */
ct_module *model_open(ct_context *context, const char *path, const char *base, ct_lm_opts opts);

/* Opens the tokenizer beside adapters, or that of the base. A note on it is printed. */
ct_tokenizer *model_tokenizer(ct_context *context, const char *path, const char *base);

#endif
