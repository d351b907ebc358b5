/* Scopes own tensors. A tensor belongs to the innermost scope that is open when the tensor is made,
 * or to the context if no scope is open. Closing a scope ends its tensors: the program must not
 * use their handles any more. The memory of a tensor is reference-counted, so it stays as long as a
 * kept tensor, a view or the tape needs it. A training loop frees no tensor by hand:
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
/* Opens a scope in which no op is recorded for backward, as in torch.no_grad. */
CT_API ct_scope ct_scope_open_no_grad(ct_context *context);

/* Moves a tensor to the scope around `scope` and returns it; NULL for NULL. A tensor of another
 * context is CT_ERR_ARGUMENT in both contexts. */
CT_API ct_tensor *ct_scope_keep(ct_scope scope, ct_tensor *tensor);

/* Does ct_scope_keep, then ct_scope_close: `return ct_scope_return(scope, y);` */
CT_API ct_tensor *ct_scope_return(ct_scope scope, ct_tensor *tensor);

/* Ends every handle in the scope, and closes the scopes that are still open inside the scope. It
 * works while an error is pending; closing a scope twice does nothing. A forward, a backward or
 * on_error must not close a scope that was opened before it began: that is an error, and the scope
 * stays open. */
CT_API void ct_scope_close(ct_scope scope);

/* Moves a tensor out of all scopes, to the context, and returns it; NULL for NULL. */
CT_API ct_tensor *ct_keep(ct_tensor *tensor);
/* Ends a handle before its scope is closed. If the forward of an op releases one of its inputs, the
 * handle ends when that forward returns. NULL does nothing; a handle that has already ended is
 * CT_ERR_ARGUMENT. */
CT_API void ct_release(ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
