/* to += w from, in place: from broadcasts and is converted to to's dtype; any strides. */
#include "../support/op.h"
#include "../../src/core/int_math.h"
#include "into.h"
#include "../../src/kernels/elementwise.h"

/* If from has one element for the whole row, a short row of copies of it is added repeatedly. */
static void add_into_row(const cti_op_row *r) {
    enum { COPIES = 64 };
    double copies[COPIES], value;
    if (r->step || r->n == 1) {
        r->kernels->elementwise->axpy(r->n, r->w, r->from, r->to);
        return;
    }
    r->kernels->elementwise->cast[CT_F64](1, r->from, &value);
    r->kernels->elementwise->fill(cti_min(r->n, COPIES), value, copies);
    for (int64_t i = 0; i < r->n; i += COPIES)
        r->kernels->elementwise->axpy(cti_min(r->n - i, COPIES), r->w, copies,
                                      (char *)r->to + i * r->size);
}

bool ct_add_into(ct_tensor *to, const ct_tensor *from, double w) {
    if (!cti_op_writes_from(to, from, "add_into") || !cti_op_computes_into(to, w, "add_into"))
        return false;
    cti_op_update update;
    if (!cti_op_update_open(to->context, &update, "add_into")) return false;
    const bool done = cti_op_into_computed(to, from, w, add_into_row);
    cti_op_update_close(to->context, &update, 3 * cti_profile_bytes(to));
    return done;
}
