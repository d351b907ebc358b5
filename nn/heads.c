/* (B, T, E) <-> (B, H, T, E/H): head h is columns [h d, (h + 1) d). */
#include "module.h"

ct_tensor *ct_split_heads(ct_tensor *x, int64_t num_heads) {
    if (!x || !ct_ready(x->context)) return NULL;
    ct_shape s = x->shape;
    if (s.ndim != 3 || num_heads < 1 || s.dim[2] % num_heads)
        return ct_fail(x->context, CT_ERR_SHAPE, "split_heads: expected (B, T, E) with E divisible by %" PRId64 " heads, got %s", num_heads,
                       SHAPE(s));
    ct_frame frame;
    ct_frame_open(x->context, &frame, false);
    ct_tensor *y = ct_reshape(x, CT_SHAPE(s.dim[0], s.dim[1], num_heads, s.dim[2] / num_heads)); /* (B, T, H, d) */
    return ct_frame_return(x->context, &frame, ct_transpose(y, 1, 2));
}

ct_tensor *ct_combine_heads(ct_tensor *x) {
    if (!x || !ct_ready(x->context)) return NULL;
    ct_shape s = x->shape;
    if (s.ndim != 4) return ct_fail(x->context, CT_ERR_SHAPE, "combine_heads: expected (B, H, T, d), got %s", SHAPE(s));
    ct_frame frame;
    ct_frame_open(x->context, &frame, false);
    ct_tensor *y = ct_transpose(x, 1, 2); /* (B, T, H, d) */
    return ct_frame_return(x->context, &frame, ct_reshape(y, CT_SHAPE(s.dim[0], s.dim[2], s.dim[1] * s.dim[3])));
}
