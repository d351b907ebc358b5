/* How the weights of a model are kept, by flags that programs share. */
#ifndef PROGRAMS_WEIGHTS_H
#define PROGRAMS_WEIGHTS_H

#include "common.h"

enum { WEIGHTS_BF16 = 2 }; /* the flag's word bf16 */

/* Makes a CHOICE flag with a word for each dtype of weights. */
flag flag_weights(const char *name, long long *value, const char *help);
/* The dtype of the flag's word; without a word the one of the file, which a line says if the file
 * is a GGUF. */
ct_dtype weights_dtype(ct_context *context, const char *path, const char *name, long long word);
static inline bool weights_are_blocks(ct_dtype dtype) {
    return dtype == CT_Q8_0 || dtype == CT_Q4_0;
}

/* Whether a path names a GGUF file, which its suffix decides. */
bool is_gguf(const char *path);

#endif
