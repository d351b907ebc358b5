/* Filters of sequences. */
#include <string.h>

#include "filters.h"
#include "number.h"
#include "text.h"

cti_jinja_value cti_jinja_generator(cti_jinja_run *run, cti_jinja_value source, const void *more,
                                    bool (*next)(cti_jinja_run *, cti_jinja_iterator *,
                                                 cti_jinja_value *)) {
    cti_jinja_iterator *iterator = cti_jinja_take(run, 1, sizeof *iterator);
    if (!iterator) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    *iterator =
        (cti_jinja_iterator){.next = next, .name = "generator", .source = source, .more = more};
    return (cti_jinja_value){.kind = CTI_JINJA_ITERATOR, .mark = source.mark, .iterator = iterator};
}

CTI_JINJA_FILTER(default) {
    const cti_jinja_value value = call->arg[0];
    if (run->failed) return value;
    const bool falsy = cti_jinja_truth(run, call->arg[2]) && !cti_jinja_truth(run, value);
    if (value.kind != CTI_JINJA_UNDEFINED && !falsy) return value;
    return cti_jinja_is_absent(call->arg[1]) ? cti_jinja_string_view(run, "", 0, 0) : call->arg[1];
}

CTI_JINJA_FILTER(attr) {
    if (call->arg[1].kind != CTI_JINJA_STRING)
        return cti_jinja_fail(run, "attribute name must be string, not '%s'",
                              cti_jinja_type_name(call->arg[1]));
    return cti_jinja_attribute_only(run, call->arg[0], call->arg[1]);
}

CTI_JINJA_FILTER(length) {
    const int64_t length = cti_jinja_length(run, call->arg[0]);
    return cti_jinja_int(length, call->arg[0].mark);
}

CTI_JINJA_FILTER(list) {
    return cti_jinja_list_value(CTI_JINJA_LIST, cti_jinja_collect(run, call->arg[0]),
                                call->arg[0].mark);
}

CTI_JINJA_FILTER(first) {
    cti_jinja_value item;
    if (cti_jinja_next(run, cti_jinja_iterate(run, call->arg[0]), &item)) return item;
    return cti_jinja_undefined_hint(run, "No first item, sequence was empty.");
}

/* Whether Python's reversed() takes the value. */
static bool is_reversible(cti_jinja_value value) {
    return cti_jinja_has_items(value) || value.kind == CTI_JINJA_DICT ||
           value.kind == CTI_JINJA_STRING || value.kind == CTI_JINJA_UNDEFINED;
}

CTI_JINJA_FILTER(last) {
    const cti_jinja_value value = call->arg[0];
    if (!is_reversible(value))
        return cti_jinja_fail(run, "'%s' object is not reversible", cti_jinja_type_name(value));
    if (cti_jinja_truth(run, value)) {
        if (value.kind == CTI_JINJA_STRING) return cti_jinja_item(run, value, cti_jinja_int(-1, 0));
        if (value.kind == CTI_JINJA_DICT) return value.dict->entry[value.dict->count - 1].key;
        return value.list->item[value.list->count - 1];
    }
    return cti_jinja_undefined_hint(run, "No last item, sequence was empty.");
}

static bool next_reversed(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    (void)run;
    const cti_jinja_list *list = iterator->more;
    if (iterator->at == list->count) return false;
    *item = list->item[list->count - 1 - iterator->at++];
    return true;
}

CTI_JINJA_FILTER(reverse) {
    const cti_jinja_value value = call->arg[0];
    if (value.kind == CTI_JINJA_STRING)
        return cti_jinja_slice(run, value, cti_jinja_none(0), cti_jinja_none(0),
                               cti_jinja_int(-1, 0));
    if (!cti_jinja_is_iterable(value)) return cti_jinja_fail(run, "argument must be iterable");
    const cti_jinja_list *list = cti_jinja_collect(run, value);
    if (!list) return value;
    const cti_jinja_value passed = cti_jinja_generator(run, value, list, next_reversed);
    if (run->failed) return value;
    if (!is_reversible(value)) /* Python falls back to a list */
        return cti_jinja_list_value(CTI_JINJA_LIST, cti_jinja_collect(run, passed), value.mark);
    passed.iterator->name = "list_reverseiterator";
    return passed;
}

static bool next_pair(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const cti_jinja_value source = iterator->source;
    if (source.kind == CTI_JINJA_UNDEFINED) return false;
    if (source.kind != CTI_JINJA_DICT) {
        cti_jinja_fail(run, "Can only get item pairs from a mapping.");
        return false;
    }
    if (iterator->at == source.dict->count) return false;
    const cti_jinja_entry *entry = &source.dict->entry[iterator->at++];
    cti_jinja_list *pair = cti_jinja_list_new(run, 2);
    cti_jinja_append(run, pair, entry->key);
    cti_jinja_append(run, pair, entry->value);
    *item = cti_jinja_list_value(CTI_JINJA_TUPLE, pair, source.mark);
    return true;
}

CTI_JINJA_FILTER(items) { return cti_jinja_generator(run, call->arg[0], NULL, next_pair); }

CTI_JINJA_FILTER(join) {
    const cti_jinja_value other = {.kind = CTI_JINJA_ABSENT};
    const cti_jinja_path path = cti_jinja_path_read(run, call->arg[2], other, false);
    const cti_jinja_string *separator =
        cti_jinja_is_absent(call->arg[1]) ? NULL : cti_jinja_text(run, call->arg[1]);
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, call->arg[0]);
    bool first = true;
    for (cti_jinja_value item; cti_jinja_next(run, iterator, &item); first = false) {
        if (!first) cti_jinja_add_string(&out, separator);
        cti_jinja_print(&out, cti_jinja_path_get(run, &path, item));
    }
    return cti_jinja_built(&out, false);
}

/* ---- batch and slice ---- */

typedef struct {
    cti_jinja_value size, fill, waiting; /* the item that begins the next batch; or ABSENT */
} batch_plan;

static bool next_batch(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    batch_plan *plan = (batch_plan *)(uintptr_t)iterator->more;
    cti_jinja_list *batch = cti_jinja_list_new(run, 0);
    if (!iterator->inner) iterator->inner = cti_jinja_iterate(run, iterator->source);
    if (!batch || !iterator->inner) return false;
    if (plan->waiting.kind != CTI_JINJA_ABSENT) cti_jinja_append(run, batch, plan->waiting);
    const bool began = batch->count;
    plan->waiting.kind = CTI_JINJA_ABSENT;
    for (cti_jinja_value each; cti_jinja_next(run, iterator->inner, &each);) {
        if (cti_jinja_equal(run, cti_jinja_int(batch->count, 0), plan->size)) {
            plan->waiting = each;
            break;
        }
        cti_jinja_append(run, batch, each);
    }
    const cti_jinja_value count = cti_jinja_int(batch->count, 0);
    const bool last = plan->waiting.kind == CTI_JINJA_ABSENT;
    if (last && !batch->count && !began) return false;
    if (last && !cti_jinja_is_none(plan->fill) && cti_jinja_compare(run, "<", count, plan->size)) {
        int64_t size;
        if (!cti_jinja_int_of(run, plan->size, &size)) return false;
        while (batch->count < size && cti_jinja_step(run)) cti_jinja_append(run, batch, plan->fill);
    }
    *item = cti_jinja_list_value(CTI_JINJA_LIST, batch, iterator->source.mark);
    return true;
}

CTI_JINJA_FILTER(batch) {
    batch_plan *plan = cti_jinja_take(run, 1, sizeof *plan);
    if (!plan) return call->arg[0];
    *plan = (batch_plan){.size = call->arg[1], .fill = call->arg[2]};
    plan->waiting.kind = CTI_JINJA_ABSENT;
    return cti_jinja_generator(run, call->arg[0], plan, next_batch);
}

typedef struct {
    cti_jinja_value slices, fill;
    const cti_jinja_list *items; /* NULL before the first slice */
    int64_t count;
} slice_plan;

/* The first slices are an item longer, if the items do not come out even. */
static bool next_slice(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    slice_plan *plan = (slice_plan *)(uintptr_t)iterator->more;
    if (!plan->items) {
        plan->items = cti_jinja_collect(run, iterator->source);
        if (!plan->items || !cti_jinja_int_of(run, plan->slices, &plan->count)) return false;
        if (!plan->count) {
            cti_jinja_fail(run, "integer division or modulo by zero");
            return false;
        }
    }
    const int64_t at = iterator->at;
    if (at >= plan->count) return false;
    const int64_t each = plan->items->count / plan->count, extra = plan->items->count % plan->count;
    const int64_t begin = at * each + (at < extra ? at : extra);
    const int64_t end = begin + each + (at < extra);
    cti_jinja_list *slice = cti_jinja_list_new(run, end - begin + 1);
    for (int64_t i = begin; i < end && cti_jinja_step(run); i++)
        cti_jinja_append(run, slice, plan->items->item[i]);
    if (!cti_jinja_is_none(plan->fill) && at >= extra) cti_jinja_append(run, slice, plan->fill);
    iterator->at++;
    *item = cti_jinja_list_value(CTI_JINJA_LIST, slice, iterator->source.mark);
    return true;
}

CTI_JINJA_FILTER(slice) {
    slice_plan *plan = cti_jinja_take(run, 1, sizeof *plan);
    if (!plan) return call->arg[0];
    *plan = (slice_plan){.slices = call->arg[1], .fill = call->arg[2]};
    return cti_jinja_generator(run, call->arg[0], plan, next_slice);
}
