/* Tokens of a row as one vector. A mask is bool (B, T), and NULL stands for no padding; x is (B, T,
 * E). */
#ifndef CTI_MODELS_POOLING_H
#define CTI_MODELS_POOLING_H

#include "lm.h"

/* Contiguous values of a mask that a program gave. */
const bool *cti_lm_mask_values(ct_tensor *mask);

/* The last token of each row (B, 1, E). A row without a token is an error without a cache. */
ct_tensor *cti_lm_last_tokens(const cti_lm *lm, const char *op, const ct_lm_call *call,
                              ct_tensor *x);
/* The mean of the tokens of each row (B, E). */
ct_tensor *cti_lm_mean_of_tokens(ct_tensor *mask, ct_tensor *x);
/* A pooling (B, E). A row without a token is 0. */
ct_tensor *cti_lm_pool_tokens(ct_tensor *mask, ct_tensor *x, cti_lm_pool how);
/* A mask without the first n tokens of each row. */
ct_tensor *cti_lm_mask_behind(ct_context *context, ct_tensor *mask, int64_t B, int64_t T,
                              int64_t n);

#endif
