/* map, select, reject, selectattr, rejectattr; and paths of attributes. */
#include <string.h>

#include "../unicode.h"
#include "filters.h"
#include "number.h"
#include "text.h"

/* ---- paths ---- */

/* A part of a path: an index if it has digits only. */
static cti_jinja_value path_part(cti_jinja_run *run, cti_jinja_value part) {
    int64_t index;
    bool beyond;
    if (!cti_jinja_characters_are(part.string, "isdigit")) return part;
    if (!cti_jinja_int_read(run, part.string, 10, &index, &beyond) || beyond)
        return cti_jinja_fail(run, "a path's index is no integer of 64 bits");
    return cti_jinja_int(index, part.mark);
}

cti_jinja_path cti_jinja_path_read(cti_jinja_run *run, cti_jinja_value attribute,
                                   cti_jinja_value other, bool lower) {
    cti_jinja_path path = {.other = other, .lower = lower};
    if (run->failed || cti_jinja_is_none(attribute)) return path;
    cti_jinja_list *parts = NULL;
    if (attribute.kind == CTI_JINJA_STRING) {
        const cti_jinja_string dot = {.at = ".", .size = 1, .length = 1};
        parts = cti_jinja_split(run, attribute.string, &dot, -1, false);
        for (int64_t i = 0; parts && i < parts->count && !run->failed; i++)
            parts->item[i] = path_part(run, parts->item[i]);
    } else {
        parts = cti_jinja_list_new(run, 1);
        cti_jinja_append(run, parts, attribute);
    }
    if (run->failed) return path;
    path.part = parts->item;
    path.parts = parts->count;
    return path;
}

cti_jinja_value cti_jinja_path_get(cti_jinja_run *run, const cti_jinja_path *path,
                                   cti_jinja_value item) {
    for (int64_t i = 0; i < path->parts && !run->failed; i++) {
        item = cti_jinja_item(run, item, path->part[i]);
        if (item.kind == CTI_JINJA_UNDEFINED && !cti_jinja_is_none(path->other)) item = path->other;
    }
    if (path->lower && item.kind == CTI_JINJA_STRING && !run->failed)
        return cti_jinja_to_case(run, item.string, CTI_JINJA_LOWER);
    return item;
}

/* ---- the filters ---- */

/* What is done with each item: a filter or test, and the path to what it is given. */
typedef struct {
    cti_jinja_call call;
    bool ready;
    const cti_jinja_row *row; /* NULL: map: nothing; select: whether the value is true */
    cti_jinja_value *arg;     /* [n]; the first is the item */
    int64_t n;
    const cti_jinja_dict *keywords;
    cti_jinja_path path;
    bool want; /* whether the items that are true are selected, or the others */
} select_plan;

/* Takes the arguments behind the first `used`: the first of them names a row of `table`. */
static void plan_row(cti_jinja_run *run, select_plan *plan, const cti_jinja_row *table,
                     const char *what, int64_t used) {
    const cti_jinja_value name = plan->call.rest[used];
    if (name.kind == CTI_JINJA_STRING)
        plan->row = cti_jinja_row_find(table, name.string->at, name.string->size);
    if (!plan->row) {
        const cti_jinja_string *text = cti_jinja_text(run, name);
        if (text)
            cti_jinja_fail(run, "No %s named '%.*s'.", what,
                           (int)(text->size < 100 ? text->size : 100), text->at);
        return;
    }
    plan->n = plan->call.rests - used;
    plan->arg = cti_jinja_take(run, (size_t)plan->n, sizeof *plan->arg);
    for (int64_t i = 1; plan->arg && i < plan->n; i++) plan->arg[i] = plan->call.rest[used + i];
    plan->keywords = plan->call.keywords;
}

/* map('upper') or map(attribute='name', default='none'). */
static void plan_map(cti_jinja_run *run, select_plan *plan) {
    const cti_jinja_dict *keywords = plan->call.keywords;
    const cti_jinja_value *attribute = cti_jinja_get_text(keywords, "attribute");
    if (plan->call.rests || !attribute) {
        if (plan->call.rests) plan_row(run, plan, cti_jinja_filters, "filter", 0);
        else cti_jinja_fail(run, "map requires a filter argument");
        return;
    }
    const cti_jinja_value *other = cti_jinja_get_text(keywords, "default");
    if (keywords->count > 1 + (other != NULL)) {
        cti_jinja_fail(run, "Unexpected keyword argument");
        return;
    }
    plan->path = cti_jinja_path_read(
        run, *attribute, other ? *other : (cti_jinja_value){.kind = CTI_JINJA_ABSENT}, false);
}

static void plan_select(cti_jinja_run *run, select_plan *plan) {
    const bool by_attribute = strstr(plan->call.row->name, "attr");
    if (by_attribute && !plan->call.rests) {
        cti_jinja_fail(run, "Missing parameter for attribute name");
        return;
    }
    if (by_attribute)
        plan->path = cti_jinja_path_read(run, plan->call.rest[0],
                                         (cti_jinja_value){.kind = CTI_JINJA_ABSENT}, false);
    if (plan->call.rests > by_attribute) plan_row(run, plan, cti_jinja_tests, "test", by_attribute);
}

/* Gets the plan ready when the first item is wanted, as a generator of Python does. */
static select_plan *plan_begin(cti_jinja_run *run, cti_jinja_iterator *iterator,
                               void (*begin)(cti_jinja_run *, select_plan *)) {
    select_plan *plan = (select_plan *)(uintptr_t)iterator->more;
    if (plan->ready) return plan;
    plan->ready = true;
    if (!cti_jinja_truth(run, iterator->source)) return plan;
    begin(run, plan);
    iterator->inner = cti_jinja_iterate(run, iterator->source);
    return plan;
}

static cti_jinja_value plan_apply(cti_jinja_run *run, const select_plan *plan,
                                  cti_jinja_value item) {
    item = cti_jinja_path_get(run, &plan->path, item);
    if (!plan->row || run->failed) return item;
    plan->arg[0] = item;
    if (!cti_jinja_enter(run)) return item;
    const cti_jinja_value made =
        cti_jinja_row_call(run, plan->row, (cti_jinja_value){.kind = CTI_JINJA_ABSENT}, plan->arg,
                           plan->n, plan->keywords);
    cti_jinja_leave(run);
    return made;
}

static bool next_mapped(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const select_plan *plan = plan_begin(run, iterator, plan_map);
    cti_jinja_value each;
    if (!cti_jinja_next(run, iterator->inner, &each)) return false;
    *item = plan_apply(run, plan, each);
    return !run->failed;
}

static bool next_selected(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const select_plan *plan = plan_begin(run, iterator, plan_select);
    while (cti_jinja_next(run, iterator->inner, item)) {
        const cti_jinja_value is = plan_apply(run, plan, *item);
        if (cti_jinja_truth(run, is) == plan->want) return !run->failed;
    }
    return false;
}

static cti_jinja_value make_plan(cti_jinja_run *run, const cti_jinja_call *call,
                                 bool (*next)(cti_jinja_run *, cti_jinja_iterator *,
                                              cti_jinja_value *)) {
    select_plan *plan = cti_jinja_take(run, 1, sizeof *plan);
    cti_jinja_value *rest = cti_jinja_take(run, (size_t)call->rests + 1, sizeof *rest);
    if (!plan || !rest) return call->arg[0];
    for (int64_t i = 0; i < call->rests; i++) rest[i] = call->rest[i];
    *plan = (select_plan){.call = *call, .want = call->row->name[0] == 's'};
    plan->call.rest = rest;
    return cti_jinja_generator(run, call->arg[0], plan, next);
}

CTI_JINJA_FILTER(map) { return make_plan(run, call, next_mapped); }
CTI_JINJA_FILTER(select) { return make_plan(run, call, next_selected); }
