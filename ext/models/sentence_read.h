/* The reading of sentence-transformers' files. */
#ifndef CTI_MODELS_SENTENCE_READ_H
#define CTI_MODELS_SENTENCE_READ_H

#include "lm.h"

/* Reads the files of the model's folder into lm->sentence, and adds the Dense modules to the tree.
 * What is not followed is no error (sentence.h). */
bool cti_lm_read_sentence(cti_lm *lm, const char *op);
/* Reads which folders the modules.json of any folder names, of which nothing else is set. None, and
 * no error, if it has no such file or one that is no JSON. */
bool cti_lm_read_steps(ct_context *context, const char *op, const char *folder,
                       cti_lm_sentence *sentence);
/* The names of the Transformer's file, the first of which counts; ends with NULL. */
extern const char *const cti_lm_transformer_files[];

#endif
