/* to *= a, in place: ct_scale_into for any strides, and cti_op_scale_in_place for any number a. */
#include "../support/op.h"
#include "into.h"
#include "update.h"
#include "../../src/kernels/unary.h"

static void scale_into_row(const cti_op_row *r) {
    r->kernels->unary->scale(r->n, r->to, r->w, r->to);
}

bool ct_scale_into(ct_tensor *to, double a) {
    if (!cti_op_writes(to, "scale_into") || !cti_op_computes_into(to, a, "scale_into"))
        return false;
    cti_op_update update;
    if (!cti_op_update_open(to->context, &update, "scale_into")) return false;
    const bool done = cti_op_into_computed(to, NULL, a, scale_into_row);
    cti_op_update_close(to->context, &update, 2 * cti_profile_bytes(to));
    return done;
}

bool cti_op_scale_in_place(ct_tensor *t, double a) {
    if (!cti_op_updatable(t, "scale_in_place", true)) return false;
    cti_span span;
    cti_update_begin(t->context, &span, "scale_in_place");
    cti_op_into_rows(t, NULL, a, scale_into_row); /* t is row-major, so this takes no memory */
    cti_update_end(t->context, &span, 2 * cti_profile_bytes(t));
    return true;
}
