/* The folder that finetune writes, whole or not at all. */
#ifndef PROGRAMS_FINETUNE_OUT_H
#define PROGRAMS_FINETUNE_OUT_H

#include <cotangent/cotangent.h>

/* Checks that the folder can be made: its path is free, and its parent can be written to. Otherwise
 * prints a message and exits, except that with `may_exist` the path may be taken. Returns whether
 * the path is taken.
 *  */
bool out_check(const char *path, bool may_exist);

/* Writes the adapters, or the whole model, to the folder path.unfinished, and then renames this
 * folder to its path. The model has the tokenizer of its folder or, if it is not NULL, this one.
 *
 * If the path is taken by a folder that has the same files, nothing is written, and the function
 * returns false. If it is taken otherwise, it prints a message and exits. */
bool out_save(ct_context *context, ct_module *lm, const ct_tokenizer *tokenizer, const char *path,
              bool adapters);

#endif
