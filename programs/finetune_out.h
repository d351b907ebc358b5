/* What finetune writes, a folder or a GGUF file, whole or not at all. */
#ifndef PROGRAMS_FINETUNE_OUT_H
#define PROGRAMS_FINETUNE_OUT_H

#include <cotangent/cotangent.h>

enum { RESULT_PATH = 1200 };

/* Writes the path with a word behind its name: "out.worse", and "out.worse.gguf" for a GGUF file,
 * whose suffix says what it is. Prints a message and exits if it is too long. */
void result_path(const char *path, const char *word, char out[RESULT_PATH]);

/* Checks that the result can be made: its path is free, and its parent can be written to. Otherwise
 * prints a message and exits, except that with `may_exist` the path may be taken. Returns whether
 * the path is taken. */
bool result_check(const char *path, bool may_exist);

typedef struct {
    ct_context *context;
    ct_module *lm;
    const ct_tokenizer *tokenizer; /* in place of the one of the model's folder; NULL: that one */
    ct_file_float floats;          /* of a model; adapters keep their dtype */
    bool adapters;                 /* only the adapters */
} result;

/* Writes the adapters, or the whole model, to path.unfinished, and then renames this to its path.
 *
 * If the path is taken by what this would be, with the same bytes, nothing is written, and the
 * function returns false. If it is taken otherwise, it prints a message and exits. */
bool result_save(const result *result, const char *path);

#endif
