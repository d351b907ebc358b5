/* The check of attention's masks, for ct_attention and for multi-head attention. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_MASKS_H
#define CTI_OPS_ATTENTION_ATTENTION_MASKS_H

#include "../support/op.h"

/* Checks that a mask and a key mask (each may be NULL) fit scores (B, H, T, S) of this dtype.
 * False: an error is recorded, whose message begins with `name`. */
bool cti_attention_check_masks(ct_context *context, const char *name, const ct_tensor *mask,
                               const ct_tensor *key_mask, ct_dtype dtype, ct_shape scores);

#endif
