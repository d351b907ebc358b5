#include "index.h"

static inline bool inside(int64_t value, int64_t limit, int64_t also) {
    return ((value >= 0) & (value < limit)) | ((also != 0) & (value == also));
}

bool cti_op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun,
                           int64_t limit, int64_t also) {
    CTI_ASSERT(index->dtype == CT_I64 && index->contiguous);
    const int64_t *value = (const int64_t *)index->data;
    int64_t outside = 0, i = 0;
    /* no early exit, so that the compiler can vectorise the loop */
    for (int64_t k = 0; k < index->numel; k++) outside += !inside(value[k], limit, also);
    if (!outside) return true;
    while (inside(value[i], limit, also)) i++;
    ct_shape at = index->shape;
    for (int64_t d = at.ndim - 1, rest = i; d >= 0; d--) {
        at.dim[d] = rest % index->shape.dim[d];
        rest /= index->shape.dim[d];
    }
    return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: %s %lld at %s is outside [0, %lld)",
                   c->op->name, noun, (long long)value[i], SHAPE(at), (long long)limit);
}
