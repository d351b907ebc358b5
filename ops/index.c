#include "index.h"

bool op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun, int64_t limit, int64_t also) {
    const int64_t *value = (const int64_t *)index->data;
    int64_t i = 0;
    while (i < index->numel && ((value[i] >= 0 && value[i] < limit) || (also != 0 && value[i] == also))) i++;
    if (i == index->numel) return true;
    ct_shape at = index->shape;
    for (int64_t d = at.ndim - 1, rest = i; d >= 0; d--) {
        at.dim[d] = rest % index->shape.dim[d];
        rest /= index->shape.dim[d];
    }
    return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: %s %lld at %s is outside [0, %lld)", c->op->name, noun, (long long)value[i], SHAPE(at),
                   (long long)limit);
}
