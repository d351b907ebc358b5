/* expect 0/10
 * all failed: refused: it calls ct_backward_with, ct_grad, ct_linear, ct_set_requires_grad
 */
/* The library's tape can do this already. */
#include "exercise.h"

#include <string.h>

void attention_backward(const attention_values *a, const attention_gradients *grad) {
    ct_context *context = NULL;
    ct_tensor *O = ct_from_f64(context, CT_SHAPE(a->batch, a->tokens, a->width), a->O);
    ct_tensor *w = ct_from_f64(context, CT_SHAPE(a->width, a->width), a->w_out);
    ct_tensor *dy = ct_from_f64(context, CT_SHAPE(a->batch, a->tokens, a->width), a->dy);
    ct_tensor *y = ct_linear(ct_set_requires_grad(O, true), w, NULL);
    ct_backward_with(&y, &dy, 1, (ct_backward_opts){false});
    memcpy(grad->dO, ct_data_f64(ct_grad(O)), (size_t)ct_numel(O) * sizeof(double));
}
