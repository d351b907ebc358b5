/* Switches of modules; see switch.h. */
#include "switch.h"

#include <string.h>

#include "../src/autograd/recompute.h"
#include "module.h"

bool cti_switch_is_off(const ct_context *context, const cti_switch *s) {
    bool off = s->off;
    for (int64_t i = s->n; i-- > 0 && s->change[i] > context->switched;) off = !off;
    return off;
}

void cti_switch_end(ct_context *context, cti_switch *s) {
    if (s->change) cti_give_any(context, s->change, cti_bytes(s->room, sizeof *s->change));
    s->change = NULL, s->n = s->room = 0;
}

bool cti_switch_begin(ct_context *context, const char *op) {
    if (!context->in_recompute && !context->backward) return cti_ready(context);
    return ct_fail(context, CT_ERR_ARGUMENT, "%s: a function of ct_recompute is running", op);
}

/* Whether a function may run again. Otherwise no change before now counts any more. */
static bool awaits_second_run(const ct_context *context) {
    const cti_node *node = context->tape_last;
    while (node && node->call.op != &cti_op_recompute) node = node->prev;
    return node != NULL;
}

bool cti_switch_reserve(ct_context *context, cti_switch *s) {
    if (s->n && !awaits_second_run(context)) s->n = 0;
    if (s->n < s->room) return true;
    const int64_t n = s->n, room = s->room ? 2 * s->room : 2;
    uint64_t *change = cti_take_any(context, cti_bytes(room, sizeof *change));
    if (!change) return false;
    if (n) memcpy(change, s->change, (size_t)n * sizeof *change);
    cti_switch_end(context, s);
    s->change = change, s->n = n, s->room = room;
    return true;
}

void cti_switch_count(ct_context *context) { context->switched++; }

void cti_switch_set(const ct_context *context, cti_switch *s, bool off) {
    if (s->off == off) return;
    s->change[s->n++] = context->switched;
    s->off = off;
}
