/* Updates of a tensor of any strides from another, for ct_copy_into and ct_lerp_into. */
#ifndef CTI_OPS_UPDATE_INTO_H
#define CTI_OPS_UPDATE_INTO_H

#include "../../src/core/profile.h"

/* Returns whether no error is pending, `from` broadcasts to `to`, and no two elements of `to` have
 * one address. If not, records the error. Both may have any strides, and their dtypes may
 * differ. */
bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name);

/* Returns whether elements of `to` and `from` may be aliased: the ranges of their addresses
 * overlap. */
bool cti_op_may_overlap(const ct_tensor *to, const ct_tensor *from);

/* Returns a row-major copy in the innermost frame. */
ct_tensor *cti_op_copy_of(const ct_tensor *t);

/* An update that makes temporary tensors opens a frame without gradients, names itself in errors
 * and begins a span of the profile. Closing it ends the span, with the number of bytes that were
 * read and written. Opening fails, and nothing is to be closed, if another thread is in the
 * context. */
typedef struct {
    cti_frame frame;
    const char *outer;
    cti_span span;
} cti_op_update;
bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name);
void cti_op_update_close(ct_context *context, cti_op_update *update, int64_t bytes);

#endif
