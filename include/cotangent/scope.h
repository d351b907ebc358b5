/* Scopes own tensors. A tensor belongs to the innermost scope that is open when it is made, or
 * to the context if none is open. Closing a scope ends the handles in it. Their memory is
 * reference-counted, so memory that a kept tensor, a view or the tape still needs stays. A training
 * loop frees no tensor by hand:
 *
 *     for (int step = 0; step < steps; step++) {
 *         ct_scope scope = ct_scope_open(context);
 *         ct_backward(ct_cross_entropy(ct_forward(model, x), y, (ct_cross_entropy_opts){0}));
 *         ct_optim_step(optim);
 *         ct_scope_close(scope);
 *     }
 */
#ifndef CT_SCOPE_H
#define CT_SCOPE_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ct_context *context;
    uint64_t id;
} ct_scope;

CT_API ct_scope ct_scope_open(ct_context *context);
/* until it is closed, nothing is recorded for backward */
CT_API ct_scope ct_scope_open_no_grad(ct_context *context);

/* Moves a tensor to the scope outside `scope` and returns it. NULL is returned as NULL. A tensor of
 * another context is CT_ERR_ARGUMENT in both contexts. */
CT_API ct_tensor *ct_scope_keep(ct_scope scope, ct_tensor *tensor);

/* Keeps the tensor and closes the scope: `return ct_scope_return(scope, y);` */
CT_API ct_tensor *ct_scope_return(ct_scope scope, ct_tensor *tensor);

/* Ends every handle in the scope, and closes scopes that are still open inside it. Works while an
 * error is pending; closing a scope twice does nothing. If a forward, a backward or on_error closes
 * a scope that was opened outside it, that is an error and the scope stays open. */
CT_API void ct_scope_close(ct_scope scope);

/* moves the tensor to the context, out of all scopes; returns it */
CT_API ct_tensor *ct_keep(ct_tensor *tensor);
/* Ends a handle before its scope is closed. Inside the forward of an op, an input that is released
 * ends when that forward returns. NULL does nothing; a handle that has ended is CT_ERR_ARGUMENT. */
CT_API void ct_release(ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
