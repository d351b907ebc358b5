/* causal_mask: m[i][j] = (j <= i), bool (t, s): the lower triangle aligned to
 * the top left corner, also if t != s */
#include "support/op.h"

#include <string.h>

ct_tensor *ct_causal_mask(ct_context *context, int64_t t, int64_t s) {
    ct_shape shape = CT_SHAPE(t, s);
    if (!cti_ready(context) || !cti_shape_check(context, "causal_mask", shape, sizeof(bool)))
        return NULL;
    ct_tensor *mask = ct_zeros(context, CT_BOOL, shape);
    if (!mask) return NULL;
    for (int64_t i = 0; i < t && s; i++)
        memset(mask->data + i * s, 1, (size_t)(i + 1 < s ? i + 1 : s));
    return mask;
}
