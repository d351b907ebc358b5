/* split: ranges of `size` indices along a dim, the last one possibly shorter; views */
#include "support/op.h"

bool ct_split(ct_tensor *x, int64_t size, int dim, ct_tensor **out, int n) {
    for (int i = 0; out && i < n; i++) out[i] = NULL;
    if (!cti_tensor_ready(x, "split")) return false;
    if (!out) return ct_fail(x->context, CT_ERR_ARGUMENT, "split: out is NULL");
    if (size < 1)
        return ct_fail(x->context, CT_ERR_ARGUMENT,
                       "split: the size of a part is %lld, must be at least 1", (long long)size);
    const int d = cti_dim_index(x->context, "split", dim, x->shape.ndim);
    if (d < 0) return false;
    const int64_t whole = x->shape.dim[d], parts = whole / size + (whole % size != 0);
    if (parts != n)
        return ct_fail(x->context, CT_ERR_ARGUMENT,
                       "split: dim %d of %s in parts of %lld gives %lld, not %d", d,
                       SHAPE(x->shape), (long long)size, (long long)parts, n);
    for (int i = 0; i < n; i++) {
        const int64_t at = i * size;
        out[i] = ct_narrow(x, d, at, whole - at < size ? whole - at : size);
        if (out[i]) continue;
        while (i-- > 0) {
            ct_release(out[i]);
            out[i] = NULL;
        }
        return false;
    }
    return true;
}
