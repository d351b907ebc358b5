/* The saving of sentence-transformers' files. */
#ifndef CTI_MODELS_SENTENCE_SAVE_H
#define CTI_MODELS_SENTENCE_SAVE_H

#include "lm.h"

/* Writes the files of sentence-transformers that the model's folder has: copies, and the weights of
 * the Dense modules as they are now. */
bool cti_lm_save_sentence(const cti_lm *lm, const char *op, const char *folder,
                          ct_file_float floats);

#endif
