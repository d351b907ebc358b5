/* to = from, in place: from broadcasts and is converted to to's dtype; any strides. */
#include "../support/op.h"
#include "into.h"

bool ct_copy_into(ct_tensor *to, const ct_tensor *from) {
    if (!cti_op_writes_from(to, from, "copy_into")) return false;
    ct_context *context = to->context;
    cti_op_update update;
    if (!cti_op_update_open(context, &update, "copy_into")) return false;
    const ct_tensor *values = from;
    if (from->dtype != to->dtype) values = ct_cast((ct_tensor *)from, to->dtype); /* only read */
    else if (cti_op_may_overlap(to, from)) values = cti_op_copy_of(from);
    if (values) {
        cti_tensor_copy(to, values, false);
        cti_tensor_wrote(to);
    }
    cti_op_update_close(context, &update, 2 * cti_profile_bytes(to));
    return values != NULL;
}
