/* Loops: for, its condition, recursion, and the variable `loop`. */
#include "interpret.h"

/* ---- the condition: a function of its own that is given each item ---- */

typedef struct {
    const cti_jinja_node *node;
    cti_jinja_activation *in;
} loop_condition;

/* What a target has been given: with several names a new tuple, as jinja2's condition yields it. */
static cti_jinja_value target_value(cti_jinja_run *run, cti_jinja_activation *in,
                                    const cti_jinja_node *target) {
    if (target->kind != CTI_JINJA_TUPLE_OF) return *cti_jinja_variable(in, target->ref);
    cti_jinja_list *list = cti_jinja_list_new(run, 2);
    for (const cti_jinja_node *item = target->first; item; item = item->next)
        cti_jinja_append(run, list, target_value(run, in, item));
    return cti_jinja_list_value(CTI_JINJA_TUPLE, list, 0);
}

static bool next_fitting(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const loop_condition *condition = iterator->more;
    while (cti_jinja_next(run, iterator->inner, item)) {
        cti_jinja_assign(run, condition->in, condition->node->first, *item);
        if (run->failed) return false;
        const cti_jinja_value fits = cti_jinja_evaluate(run, condition->in, condition->node->third);
        if (!cti_jinja_truth(run, fits)) continue;
        *item = target_value(run, condition->in, condition->node->first);
        return !run->failed;
    }
    return false;
}

static cti_jinja_iterator *filter_items(cti_jinja_run *run, cti_jinja_activation *around,
                                        const cti_jinja_node *node, cti_jinja_iterator *inner) {
    loop_condition *condition = cti_jinja_take(run, 1, sizeof *condition);
    cti_jinja_iterator *iterator = cti_jinja_take(run, 1, sizeof *iterator);
    cti_jinja_activation *in = cti_jinja_activate(run, around, node->test_slots);
    if (!in) return NULL;
    cti_jinja_frame_enter(run, in, node->test_frame);
    *condition = (loop_condition){.node = node, .in = in};
    *iterator = (cti_jinja_iterator){
        .next = next_fitting, .name = "generator", .inner = inner, .more = condition};
    return iterator;
}

/* ---- the variable `loop` ---- */

static cti_jinja_loop *loop_new(cti_jinja_run *run, cti_jinja_value of,
                                cti_jinja_iterator *iterator) {
    cti_jinja_loop *loop = cti_jinja_take(run, 1, sizeof *loop);
    if (!loop) return NULL;
    *loop = (cti_jinja_loop){.of = of, .iterator = iterator, .index0 = -1, .length = -1};
    return loop;
}

static bool loop_next(cti_jinja_run *run, cti_jinja_loop *loop, cti_jinja_value *item) {
    if (loop->has_after) *item = loop->after;
    else if (!cti_jinja_next(run, loop->iterator, item)) return false;
    loop->has_after = false;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *item;
    return !run->failed;
}

bool cti_jinja_loop_pair(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const cti_jinja_value loop = iterator->source;
    cti_jinja_value next;
    if (!loop_next(run, loop.loop, &next)) return false;
    cti_jinja_list *pair = cti_jinja_list_new(run, 2);
    cti_jinja_append(run, pair, next);
    cti_jinja_append(run, pair, loop);
    *item = cti_jinja_list_value(CTI_JINJA_TUPLE, pair, 0);
    return !run->failed;
}

/* Reads the item behind the current one. */
static bool loop_peek(cti_jinja_run *run, cti_jinja_loop *loop) {
    if (!loop->has_after) loop->has_after = cti_jinja_next(run, loop->iterator, &loop->after);
    return loop->has_after;
}

int64_t cti_jinja_loop_length(cti_jinja_run *run, cti_jinja_loop *loop) {
    if (loop->length >= 0) return loop->length;
    if (loop->of.kind != CTI_JINJA_ITERATOR) {
        loop->length = cti_jinja_length(run, loop->of);
        return loop->length;
    }
    /* What is left is read, and passed over from its list. */
    const cti_jinja_value rest = {.kind = CTI_JINJA_ITERATOR, .iterator = loop->iterator};
    const cti_jinja_list *list = cti_jinja_collect(run, rest);
    if (!list) return -1;
    loop->iterator = cti_jinja_iterate(run, cti_jinja_list_value(CTI_JINJA_LIST, list, 0));
    loop->length = list->count + loop->index0 + 1 + loop->has_after;
    return loop->length;
}

bool cti_jinja_loop_member(cti_jinja_run *run, cti_jinja_loop *loop, const cti_jinja_string *name,
                           cti_jinja_value *found) {
    const int64_t at = loop->index0;
    int64_t number;
    if (cti_jinja_string_is(name, "first")) {
        *found = cti_jinja_bool(!at, 0);
        return true;
    }
    if (cti_jinja_string_is(name, "last")) {
        *found = cti_jinja_bool(!loop_peek(run, loop), 0);
        return true;
    }
    if (cti_jinja_string_is(name, "previtem")) {
        *found = at ? loop->before : cti_jinja_undefined_hint(run, "there is no previous item");
        return true;
    }
    if (cti_jinja_string_is(name, "nextitem")) {
        *found = loop_peek(run, loop) ? loop->after
                                      : cti_jinja_undefined_hint(run, "there is no next item");
        return true;
    }
    if (cti_jinja_string_is(name, "index0")) number = at;
    else if (cti_jinja_string_is(name, "index")) number = at + 1;
    else if (cti_jinja_string_is(name, "length")) number = cti_jinja_loop_length(run, loop);
    else if (cti_jinja_string_is(name, "revindex")) number = cti_jinja_loop_length(run, loop) - at;
    else if (cti_jinja_string_is(name, "revindex0"))
        number = cti_jinja_loop_length(run, loop) - at - 1;
    else if (cti_jinja_string_is(name, "depth")) number = loop->depth0 + 1;
    else if (cti_jinja_string_is(name, "depth0")) number = loop->depth0;
    else return false;
    *found = cti_jinja_int(number, 0);
    return true;
}

static cti_jinja_value loop_cycle(cti_jinja_run *run, const cti_jinja_call *call) {
    if (!call->rests) return cti_jinja_fail(run, "no items for cycling given");
    return call->rest[call->receiver.loop->index0 % call->rests];
}

static cti_jinja_value loop_changed(cti_jinja_run *run, const cti_jinja_call *call) {
    cti_jinja_loop *loop = call->receiver.loop;
    cti_jinja_list *now = cti_jinja_list_new(run, call->rests);
    for (int64_t i = 0; i < call->rests; i++) cti_jinja_append(run, now, call->rest[i]);
    if (!now) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    const bool same =
        loop->changed && cti_jinja_equal(run, cti_jinja_list_value(CTI_JINJA_TUPLE, now, 0),
                                         cti_jinja_list_value(CTI_JINJA_TUPLE, loop->changed, 0));
    if (!same) loop->changed = now;
    return cti_jinja_bool(!same, 0);
}

const cti_jinja_row cti_jinja_loop_methods[] = {
    {.name = "cycle", .run = loop_cycle, .rest = true},
    {.name = "changed", .run = loop_changed, .rest = true},
    {.name = NULL},
};

/* ---- for ---- */

/* Where a loop runs: the variables of the function that contains it, and of its own function, which
 * is the same unless the loop is recursive. */
typedef struct {
    const cti_jinja_node *node;
    cti_jinja_activation *around, *in;
    int64_t depth0;
} loop_place;

/* The items, which .of tells the length of. */
static cti_jinja_loop *loop_start(cti_jinja_run *run, const loop_place *place,
                                  cti_jinja_value iterable) {
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, iterable);
    cti_jinja_value of = iterable;
    if (place->node->third && !run->failed) {
        iterator = filter_items(run, place->around, place->node, iterator);
        of = (cti_jinja_value){.kind = CTI_JINJA_ITERATOR, .iterator = iterator};
    }
    cti_jinja_loop *loop = loop_new(run, of, iterator);
    if (!loop || !place->node->flag) return loop;
    loop->node = place->node;
    loop->around = place->around;
    loop->depth0 = place->depth0;
    return loop;
}

static cti_jinja_signal run_items(cti_jinja_run *run, const loop_place *place,
                                  cti_jinja_value iterable) {
    const cti_jinja_node *node = place->node;
    cti_jinja_loop *loop = loop_start(run, place, iterable);
    bool ended_one = false; /* the else runs unless the end of the body was reached once */
    for (cti_jinja_value item; loop && loop_next(run, loop, &item);) {
        cti_jinja_assign(run, place->in, node->first, item);
        if (node->extended)
            *cti_jinja_variable(place->in, node->ref) =
                (cti_jinja_value){.kind = CTI_JINJA_LOOP, .loop = loop};
        cti_jinja_frame_enter(run, place->in, node->frame);
        const cti_jinja_signal signal = cti_jinja_execute(run, place->in, node->body);
        if (signal == CTI_JINJA_BROKEN) break;
        if (signal == CTI_JINJA_GO_ON) ended_one = true;
    }
    if (run->failed) return CTI_JINJA_GO_ON;
    cti_jinja_frame_leave(place->in, node->frame);
    if (!node->other || ended_one) return CTI_JINJA_GO_ON;
    cti_jinja_frame_enter(run, place->in, node->else_frame);
    const cti_jinja_signal signal = cti_jinja_execute(run, place->in, node->other);
    cti_jinja_frame_leave(place->in, node->else_frame);
    return signal;
}

/* A recursive loop is a function whose result is its text. */
static cti_jinja_value run_recursive(cti_jinja_run *run, const cti_jinja_node *node,
                                     cti_jinja_activation *around, int64_t depth0,
                                     cti_jinja_value iterable) {
    if (!cti_jinja_enter(run)) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    cti_jinja_builder out = cti_jinja_build(run), *outer = run->state->out;
    const loop_place place = {.node = node,
                              .around = around,
                              .in = cti_jinja_activate(run, around, node->slots),
                              .depth0 = depth0};
    run->state->out = &out;
    if (place.in) run_items(run, &place, iterable);
    run->state->out = outer;
    cti_jinja_leave(run);
    return cti_jinja_built(&out, false);
}

cti_jinja_value cti_jinja_loop_call(cti_jinja_run *run, cti_jinja_loop *loop,
                                    cti_jinja_value iterable) {
    if (!loop->node)
        return cti_jinja_fail(
            run, "The loop must have the 'recursive' marker to be called recursively.");
    return run_recursive(run, loop->node, loop->around, loop->depth0 + 1, iterable);
}

cti_jinja_signal cti_jinja_run_for(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node) {
    const cti_jinja_value iterable = cti_jinja_evaluate(run, in, node->second);
    if (run->failed) return CTI_JINJA_GO_ON;
    if (node->flag) {
        const cti_jinja_value text = run_recursive(run, node, in, 0, iterable);
        if (!run->failed) cti_jinja_print(run->state->out, text);
        return CTI_JINJA_GO_ON;
    }
    const loop_place place = {.node = node, .around = in, .in = in};
    return run_items(run, &place, iterable);
}
