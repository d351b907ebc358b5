/* Changes of a few values in the text of a config.json, which otherwise stays as it is. */
#ifndef CTI_MODELS_CONFIG_EDIT_H
#define CTI_MODELS_CONFIG_EDIT_H

#include <cotangent/types.h>

#include "../../src/io/json.h"

typedef struct {
    ct_context *context;
    const char *op; /* the function that messages name */
    char *text;     /* a block of size + 1 bytes of the context, with a NUL at its end */
    size_t size;
} cti_lm_edit;

bool cti_lm_edit_begin(ct_context *context, const char *op, cti_text text, cti_lm_edit *edit);
/* Sets *has to whether the object has this key. */
bool cti_lm_edit_find(const cti_lm_edit *edit, const char *key, bool *has);
/* Sets a member of the object to a value, which is JSON; a new member comes first. */
bool cti_lm_edit_set(cti_lm_edit *edit, const char *key, const char *value);
void cti_lm_edit_end(cti_lm_edit *edit);

#endif
