/* Statements. */
#include <string.h>

#include "interpret.h"

cti_jinja_activation *cti_jinja_activate(cti_jinja_run *run, cti_jinja_activation *around,
                                         uint32_t slots) {
    cti_jinja_activation *made =
        cti_jinja_take(run, 1, sizeof *made + slots * sizeof(cti_jinja_value));
    if (!made) return NULL;
    memset(made->slot, 0, slots * sizeof(cti_jinja_value)); /* ABSENT is 0 */
    made->around = around;
    return made;
}
_Static_assert(CTI_JINJA_ABSENT == 0, "memory of zeros has no values");

/* A variable of the render, or a global; ABSENT if there is none. */
static cti_jinja_value resolve_variable(cti_jinja_run *run, const cti_jinja_string *name) {
    const cti_jinja_value key = cti_jinja_string_value(name);
    const cti_jinja_value *found = cti_jinja_get(run, run->state->set, key);
    if (!found) found = cti_jinja_get(run, run->state->variables, key);
    if (found) return *found;
    const cti_jinja_row *row = cti_jinja_row_find(cti_jinja_globals, name->at, name->size);
    return row ? (cti_jinja_value){.kind = CTI_JINJA_FUNCTION, .row = row}
               : (cti_jinja_value){.kind = CTI_JINJA_ABSENT};
}

void cti_jinja_frame_enter(cti_jinja_run *run, cti_jinja_activation *in,
                           const cti_jinja_frame *frame) {
    for (uint32_t i = 0; in && i < frame->loads; i++) {
        const cti_jinja_load *load = &frame->load[i];
        if (load->how == CTI_JINJA_RESOLVED)
            in->slot[load->slot] = resolve_variable(run, load->name);
        else if (load->how == CTI_JINJA_ALIAS)
            in->slot[load->slot] = *cti_jinja_variable(in, load->from);
        else if (load->how == CTI_JINJA_UNSET)
            in->slot[load->slot] = (cti_jinja_value){.kind = CTI_JINJA_ABSENT};
    }
}

void cti_jinja_frame_leave(cti_jinja_activation *in, const cti_jinja_frame *frame) {
    for (uint32_t i = 0; i < frame->loads; i++)
        in->slot[frame->load[i].slot] = (cti_jinja_value){.kind = CTI_JINJA_ABSENT};
}

/* ---- assignments ---- */

static void assign_attribute(cti_jinja_run *run, cti_jinja_value space, cti_jinja_value name,
                             cti_jinja_value value) {
    if (space.kind != CTI_JINJA_NAMESPACE)
        cti_jinja_fail(run, "cannot assign attribute on non-namespace object");
    else if (cti_jinja_namespace_name(run, name)) cti_jinja_set(run, space.space, name, value);
}

void cti_jinja_assign(cti_jinja_run *run, cti_jinja_activation *in, const cti_jinja_node *target,
                      cti_jinja_value value) {
    if (run->failed) return;
    if (target->kind == CTI_JINJA_VARIABLE) {
        *cti_jinja_variable(in, target->ref) = value;
        return;
    }
    if (target->kind == CTI_JINJA_SPACE) {
        assign_attribute(run, *cti_jinja_variable(in, target->ref), target->constant, value);
        return;
    }
    if (!cti_jinja_is_iterable(value)) {
        cti_jinja_fail(run, "cannot unpack non-iterable %s object", cti_jinja_type_name(value));
        return;
    }
    const cti_jinja_list *list = cti_jinja_collect(run, value);
    int64_t wanted = 0;
    for (const cti_jinja_node *item = target->first; item; item = item->next) wanted++;
    if (!list) return;
    if (list->count < wanted)
        cti_jinja_fail(run, "not enough values to unpack (expected %lld, got %lld)",
                       (long long)wanted, (long long)list->count);
    else if (list->count > wanted)
        cti_jinja_fail(run, "too many values to unpack (expected %lld)", (long long)wanted);
    int64_t i = 0;
    for (const cti_jinja_node *item = target->first; item && !run->failed; item = item->next)
        cti_jinja_assign(run, in, item, list->item[i++]);
}

/* A `set` of the top level, for blocks. */
static void note_set(cti_jinja_run *run, cti_jinja_activation *in, const cti_jinja_node *target) {
    if (!run->state->set || run->failed) return;
    if (target->kind == CTI_JINJA_VARIABLE)
        cti_jinja_set(run, run->state->set, cti_jinja_string_value(target->text),
                      *cti_jinja_variable(in, target->ref));
    else if (target->kind == CTI_JINJA_TUPLE_OF)
        for (const cti_jinja_node *item = target->first; item; item = item->next)
            note_set(run, in, item);
}

/* The namespaces of the targets are checked before the value is computed. */
static void check_spaces(cti_jinja_run *run, cti_jinja_activation *in,
                         const cti_jinja_node *target) {
    if (target->kind == CTI_JINJA_SPACE &&
        cti_jinja_variable(in, target->ref)->kind != CTI_JINJA_NAMESPACE)
        cti_jinja_fail(run, "cannot assign attribute on non-namespace object");
    else if (target->kind == CTI_JINJA_TUPLE_OF)
        for (const cti_jinja_node *item = target->first; item; item = item->next)
            check_spaces(run, in, item);
}

static void execute_set(cti_jinja_run *run, cti_jinja_activation *in, const cti_jinja_node *node) {
    check_spaces(run, in, node->first);
    if (run->failed) return;
    cti_jinja_assign(run, in, node->first, cti_jinja_evaluate(run, in, node->second));
    if (node->flag) note_set(run, in, node->first);
}

/* ---- captured output ---- */

cti_jinja_value cti_jinja_capture(cti_jinja_run *run, cti_jinja_activation *in,
                                  const cti_jinja_node *body, cti_jinja_signal *signal) {
    cti_jinja_builder out = cti_jinja_build(run), *outer = run->state->out;
    run->state->out = &out;
    const cti_jinja_signal ended = cti_jinja_execute(run, in, body);
    run->state->out = outer;
    if (signal) *signal = ended;
    return cti_jinja_built(&out, false);
}

static cti_jinja_value filter_captured(cti_jinja_run *run, cti_jinja_activation *in,
                                       const cti_jinja_node *filter, cti_jinja_value text) {
    run->state->captured = text;
    return filter && !run->failed ? cti_jinja_evaluate(run, in, filter) : text;
}

static cti_jinja_signal execute_set_block(cti_jinja_run *run, cti_jinja_activation *in,
                                          const cti_jinja_node *node) {
    cti_jinja_signal signal;
    cti_jinja_frame_enter(run, in, node->frame);
    cti_jinja_value text = cti_jinja_capture(run, in, node->body, &signal);
    if (signal != CTI_JINJA_GO_ON) return signal;
    text = filter_captured(run, in, node->second, text);
    cti_jinja_assign(run, in, node->first, text);
    if (node->flag) note_set(run, in, node->first);
    cti_jinja_frame_leave(in, node->frame);
    return signal;
}

static cti_jinja_signal execute_filter_block(cti_jinja_run *run, cti_jinja_activation *in,
                                             const cti_jinja_node *node) {
    cti_jinja_signal signal;
    cti_jinja_frame_enter(run, in, node->frame);
    const cti_jinja_value text = cti_jinja_capture(run, in, node->body, &signal);
    if (signal != CTI_JINJA_GO_ON) return signal;
    const cti_jinja_value filtered = filter_captured(run, in, node->first, text);
    if (!run->failed) cti_jinja_print(run->state->out, filtered);
    cti_jinja_frame_leave(in, node->frame);
    return signal;
}

static cti_jinja_signal execute_with(cti_jinja_run *run, cti_jinja_activation *in,
                                     const cti_jinja_node *node) {
    cti_jinja_frame_enter(run, in, node->frame);
    const cti_jinja_node *value = node->second;
    for (const cti_jinja_node *target = node->first; target; target = target->next) {
        cti_jinja_assign(run, in, target, cti_jinja_evaluate(run, in, value));
        value = value->next;
    }
    const cti_jinja_signal signal = cti_jinja_execute(run, in, node->body);
    cti_jinja_frame_leave(in, node->frame);
    return signal;
}

/* ---- functions ---- */

static void execute_call_block(cti_jinja_run *run, cti_jinja_activation *in,
                               const cti_jinja_node *node) {
    const cti_jinja_value caller = cti_jinja_macro_new(run, node, in);
    const cti_jinja_value result = cti_jinja_evaluate_call(run, in, node->first, caller);
    if (!run->failed) cti_jinja_print(run->state->out, result);
}

/* transformers takes as the begin of a generation what has been written to the text so far: a body
 * inside of a captured block gets a wrong place, as there. */
static void execute_generation(cti_jinja_run *run, cti_jinja_activation *in,
                               const cti_jinja_node *node) {
    cti_jinja_state *state = run->state;
    const cti_jinja_macro body = {.node = node, .around = in};
    const cti_jinja_value text = cti_jinja_macro_call(run, &body, NULL, 0, NULL);
    if (run->failed) return;
    if (state->generations == state->generated_room) {
        const size_t room = state->generated_room ? 2 * state->generated_room : 8;
        cti_jinja_generated *more = cti_jinja_take(run, room, sizeof *more);
        if (!more) return;
        if (state->generations) memcpy(more, state->generated, state->generations * sizeof *more);
        state->generated = more;
        state->generated_room = room;
    }
    state->generated[state->generations++] =
        (cti_jinja_generated){state->root->size, text.string->length};
    cti_jinja_add_string(state->out, text.string);
}

/* A block sees the variables of the render and what the top level has set. */
static void execute_block(cti_jinja_run *run, const cti_jinja_node *node) {
    if (!cti_jinja_enter(run)) return;
    cti_jinja_activation *in = cti_jinja_activate(run, NULL, node->function->slots);
    if (in) cti_jinja_frame_enter(run, in, &node->function->frame);
    if (in) cti_jinja_execute(run, in, node->body);
    cti_jinja_leave(run);
}

static void execute_macro(cti_jinja_run *run, cti_jinja_activation *in,
                          const cti_jinja_node *node) {
    cti_jinja_assign(run, in, node->first, cti_jinja_macro_new(run, node, in));
    if (node->flag) note_set(run, in, node->first);
}

/* ---- all ---- */

static cti_jinja_signal execute_if(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node) {
    for (;;) {
        const cti_jinja_value test = cti_jinja_evaluate(run, in, node->first);
        const bool is = cti_jinja_truth(run, test);
        if (run->failed) return CTI_JINJA_GO_ON;
        if (is) return cti_jinja_execute(run, in, node->body);
        const cti_jinja_node *other = node->other;
        if (!other) return CTI_JINJA_GO_ON;
        if (other->kind != CTI_JINJA_IF || other->next) return cti_jinja_execute(run, in, other);
        node = other;
    }
}

static void execute_print(cti_jinja_run *run, cti_jinja_activation *in,
                          const cti_jinja_node *node) {
    for (const cti_jinja_node *each = node->first; each; each = each->next) {
        run->state->folds = each->flag;
        const cti_jinja_value value = cti_jinja_evaluate(run, in, each);
        run->state->folds = false;
        if (run->failed) return;
        cti_jinja_print(run->state->out, value);
    }
}

static cti_jinja_signal execute_node(cti_jinja_run *run, cti_jinja_activation *in,
                                     const cti_jinja_node *node) {
    switch (node->kind) {
    case CTI_JINJA_TEXT_OUT:
        cti_jinja_add_string(run->state->out, node->constant.string);
        return CTI_JINJA_GO_ON;
    case CTI_JINJA_PRINT: execute_print(run, in, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_IF: return execute_if(run, in, node);
    case CTI_JINJA_FOR: return cti_jinja_run_for(run, in, node);
    case CTI_JINJA_SET: execute_set(run, in, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_SET_BLOCK: return execute_set_block(run, in, node);
    case CTI_JINJA_FILTER_BLOCK: return execute_filter_block(run, in, node);
    case CTI_JINJA_WITH: return execute_with(run, in, node);
    case CTI_JINJA_MACRO_OF: execute_macro(run, in, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_CALL_BLOCK: execute_call_block(run, in, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_GENERATION: execute_generation(run, in, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_BLOCK: execute_block(run, node); return CTI_JINJA_GO_ON;
    case CTI_JINJA_BREAK: return CTI_JINJA_BROKEN;
    case CTI_JINJA_CONTINUE: return CTI_JINJA_CONTINUED;
    default: return CTI_JINJA_GO_ON;
    }
}

cti_jinja_signal cti_jinja_execute(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node) {
    cti_jinja_signal signal = CTI_JINJA_GO_ON;
    if (!node || !cti_jinja_nest(run)) return signal;
    for (; node && signal == CTI_JINJA_GO_ON && cti_jinja_step(run); node = node->next) {
        signal = execute_node(run, in, node);
        if (run->failed && !run->at) run->at = node->at + 1;
    }
    run->state->nesting--;
    return signal;
}
