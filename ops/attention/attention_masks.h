/* The check of attention's masks, which ct_attention and multi-head attention share. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_MASKS_H
#define CTI_OPS_ATTENTION_ATTENTION_MASKS_H

#include "../support/op.h"

/* Do a mask and a key mask, each NULL where there is none, fit scores (B, H, T, S) of this dtype?
 * False: an error, recorded under that name. */
bool cti_attention_check_masks(ct_context *context, const char *name, const ct_tensor *mask,
                               const ct_tensor *key_mask, ct_dtype dtype, ct_shape scores);

#endif
