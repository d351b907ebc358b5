/* Scopes own tensors. A tensor belongs to the innermost scope that was open when it was made, or
 * with none open to the context. Closing a scope ends the handles in it; memory is shared and
 * counted inside, so what a kept tensor, a view or the tape still needs stays. Nobody frees a
 * tensor in a training loop:
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
/* nothing is recorded for backward until it is closed */
CT_API ct_scope ct_scope_open_no_grad(ct_context *context);

/* Hands a tensor to the scope outside `scope`, and returns it. NULL is passed through. A tensor of
 * another context is CT_ERR_ARGUMENT in both. */
CT_API ct_tensor *ct_scope_keep(ct_scope scope, ct_tensor *tensor);

/* Keeps the tensor and closes the scope: `return ct_scope_return(scope, y);` */
CT_API ct_tensor *ct_scope_return(ct_scope scope, ct_tensor *tensor);

/* Ends every handle in the scope, and closes the scopes still open inside it. Works while an error
 * is pending; a second close of the same scope is harmless. A forward, a backward or on_error that
 * closes a scope it runs in is an error; the scope stays open. */
CT_API void ct_scope_close(ct_scope scope);

/* hands it to the context, past every scope; returns it */
CT_API ct_tensor *ct_keep(ct_tensor *tensor);
/* ends a handle before its owner would, or, inside the forward of an op that has it as an input,
 * with that forward; NULL is harmless */
CT_API void ct_release(ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
