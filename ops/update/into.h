/* What ct_copy_into and ct_lerp_into share: an update of a tensor of any strides from another. */
#ifndef CTI_OPS_UPDATE_INTO_H
#define CTI_OPS_UPDATE_INTO_H

#include "../../src/core/profile.h"

/* Is no error pending, does `from` broadcast to `to`, and have to's elements an address each? Both
 * may have any strides, and dtypes may differ. */
bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name);

/* Whether to's and from's elements may share memory: they lie in ranges of addresses that meet. */
bool cti_op_may_overlap(const ct_tensor *to, const ct_tensor *from);

/* A row-major copy in the innermost frame. */
ct_tensor *cti_op_copy_of(const ct_tensor *t);

/* Around an update that makes temporary tensors: a frame without a gradient, the update's name in
 * errors, and a span of the profile, of an update that reads and writes so many bytes. Open is
 * false, with nothing to close, if another thread is in the context. */
typedef struct {
    cti_frame frame;
    const char *outer;
    cti_span span;
} cti_op_update;
bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name);
void cti_op_update_close(ct_context *context, cti_op_update *update, int64_t bytes);

#endif
