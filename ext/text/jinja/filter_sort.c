/* Filters that compare items: sort, dictsort, groupby, unique, min, max. */
#include <string.h>

#include "filters.h"
#include "number.h"
#include "text.h"

static const cti_jinja_value absent_value = {.kind = CTI_JINJA_ABSENT};

/* ---- sorting ---- */

typedef struct {
    cti_jinja_run *run;
    const cti_jinja_value *key;
    bool lists;
} sort_job;

static bool key_less(const sort_job *job, int64_t a, int64_t b) {
    cti_jinja_value x = job->key[a], y = job->key[b];
    if (!cti_jinja_step(job->run)) return false;
    if (job->lists) {
        const cti_jinja_list *first = x.list, *second = y.list;
        int64_t i = 0;
        while (i < first->count && cti_jinja_equal(job->run, first->item[i], second->item[i])) i++;
        if (i == first->count) return false;
        x = first->item[i];
        y = second->item[i];
    }
    return cti_jinja_compare(job->run, "<", x, y);
}

static void reverse_indices(int64_t *at, int64_t count) {
    for (int64_t i = 0, j = count - 1; i < j; i++, j--) {
        const int64_t index = at[i];
        at[i] = at[j];
        at[j] = index;
    }
}

/* The number of items at the beginning that are in order; if they are in the reverse order, each
 * less than the one before, they are turned round. */
static int64_t sorted_run(const sort_job *job, int64_t *at, int64_t count) {
    if (count < 2) return count;
    const bool falling = key_less(job, at[1], at[0]);
    int64_t n = 2;
    while (n < count && key_less(job, at[n], at[n - 1]) == falling) n++;
    if (falling) reverse_indices(at, n);
    return n;
}

/* Puts each item behind those that are not greater. Python does the same for up to 63 items, so
 * that the order of NaN is the same too. */
static void sort_few(const sort_job *job, int64_t *at, int64_t count) {
    for (int64_t i = sorted_run(job, at, count); i < count && !job->run->failed; i++) {
        const int64_t item = at[i];
        int64_t low = 0, high = i;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (key_less(job, item, at[middle])) high = middle;
            else low = middle + 1;
        }
        memmove(at + low + 1, at + low, (size_t)(i - low) * sizeof *at);
        at[low] = item;
    }
}

static void sort_many(const sort_job *job, int64_t *at, int64_t *spare, int64_t count) {
    enum { FEW = 63 };
    if (count <= FEW) {
        sort_few(job, at, count);
        return;
    }
    const int64_t half = count / 2;
    sort_many(job, at, spare, half);
    sort_many(job, at + half, spare, count - half);
    memcpy(spare, at, (size_t)half * sizeof *at);
    int64_t left = 0, right = half, out = 0;
    while (left < half && !job->run->failed)
        at[out++] =
            right < count && key_less(job, at[right], spare[left]) ? at[right++] : spare[left++];
}

const int64_t *cti_jinja_order(cti_jinja_run *run, const cti_jinja_list *keys, bool reverse,
                               bool lists) {
    if (!keys) return NULL;
    const int64_t count = keys->count;
    int64_t *at = cti_jinja_take(run, (size_t)count + 1, sizeof *at);
    int64_t *spare = cti_jinja_take(run, (size_t)count + 1, sizeof *spare);
    if (!at || !spare) return NULL;
    const sort_job job = {.run = run, .key = keys->item, .lists = lists};
    for (int64_t i = 0; i < count; i++) at[i] = i;
    if (reverse) reverse_indices(at, count); /* equal items keep their order */
    sort_many(&job, at, spare, count);
    if (reverse) reverse_indices(at, count);
    return run->failed ? NULL : at;
}

/* The items of `list` in an order. */
static cti_jinja_value ordered(cti_jinja_run *run, const cti_jinja_list *list, const int64_t *order,
                               int32_t mark) {
    cti_jinja_list *sorted = order ? cti_jinja_list_new(run, list->count) : NULL;
    for (int64_t i = 0; sorted && i < list->count; i++)
        cti_jinja_append(run, sorted, list->item[order[i]]);
    return cti_jinja_list_value(CTI_JINJA_LIST, sorted, mark);
}

/* The paths of "city,name". */
static cti_jinja_list *split_commas(cti_jinja_run *run, cti_jinja_value attribute) {
    const cti_jinja_string comma = {.at = ",", .size = 1, .length = 1};
    if (attribute.kind == CTI_JINJA_STRING)
        return cti_jinja_split(run, attribute.string, &comma, -1, false);
    cti_jinja_list *one = cti_jinja_list_new(run, 1);
    cti_jinja_append(run, one, attribute);
    return one;
}

static bool is_reversed(cti_jinja_run *run, cti_jinja_value value, int64_t *reverse) {
    *reverse = 0;
    if (!cti_jinja_is_absent(value)) cti_jinja_int_of(run, value, reverse);
    return !run->failed;
}

CTI_JINJA_FILTER(sort) {
    enum { VALUE, REVERSE, CASE_SENSITIVE, ATTRIBUTE };
    const bool lower = !cti_jinja_truth(run, call->arg[CASE_SENSITIVE]);
    const cti_jinja_list *names = split_commas(run, call->arg[ATTRIBUTE]);
    cti_jinja_path *paths = names ? cti_jinja_take(run, (size_t)names->count, sizeof *paths) : NULL;
    for (int64_t i = 0; paths && i < names->count; i++)
        paths[i] = cti_jinja_path_read(run, names->item[i], absent_value, lower);
    const cti_jinja_list *items = cti_jinja_collect(run, call->arg[VALUE]);
    if (run->failed) return call->arg[VALUE];
    cti_jinja_list *keys = cti_jinja_list_new(run, items->count);
    for (int64_t i = 0; i < items->count && cti_jinja_step(run); i++) {
        cti_jinja_list *key = cti_jinja_list_new(run, names->count);
        for (int64_t j = 0; j < names->count; j++)
            cti_jinja_append(run, key, cti_jinja_path_get(run, &paths[j], items->item[i]));
        cti_jinja_append(run, keys, cti_jinja_list_value(CTI_JINJA_LIST, key, 0));
    }
    int64_t reverse;
    if (!is_reversed(run, call->arg[REVERSE], &reverse)) return call->arg[VALUE];
    return ordered(run, items, cti_jinja_order(run, keys, reverse, true), call->arg[VALUE].mark);
}

CTI_JINJA_FILTER(dictsort) {
    enum { VALUE, CASE_SENSITIVE, BY, REVERSE };
    const cti_jinja_value value = call->arg[VALUE], by = call->arg[BY];
    const cti_jinja_string *side = by.kind == CTI_JINJA_STRING ? by.string : NULL;
    const bool by_value = cti_jinja_string_is(side, "value");
    if (!by_value && !cti_jinja_is_absent(by) && !cti_jinja_string_is(side, "key"))
        return cti_jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (value.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, value);
    if (value.kind != CTI_JINJA_DICT)
        return cti_jinja_fail(run, "'%s' object has no attribute 'items'",
                              cti_jinja_type_name(value));
    const cti_jinja_path path = {.other = absent_value,
                                 .lower = !cti_jinja_truth(run, call->arg[CASE_SENSITIVE])};
    const cti_jinja_row *method = cti_jinja_method_find(value, "items", 5);
    const cti_jinja_value items = cti_jinja_row_call(run, method, value, NULL, 0, NULL);
    cti_jinja_list *keys = cti_jinja_list_new(run, value.dict->count);
    if (run->failed) return value;
    for (int64_t i = 0; i < value.dict->count; i++) {
        const cti_jinja_entry *entry = &value.dict->entry[i];
        cti_jinja_append(run, keys,
                         cti_jinja_path_get(run, &path, by_value ? entry->value : entry->key));
    }
    int64_t reverse;
    if (!is_reversed(run, call->arg[REVERSE], &reverse)) return value;
    return ordered(run, items.list, cti_jinja_order(run, keys, reverse, false), value.mark);
}

/* ---- groups ---- */

/* A pair with the attributes grouper and list. */
static cti_jinja_value new_group(cti_jinja_run *run, cti_jinja_value grouper, cti_jinja_list *items,
                                 int32_t mark) {
    cti_jinja_list *pair = cti_jinja_list_new(run, 2);
    cti_jinja_append(run, pair, grouper);
    cti_jinja_append(run, pair, cti_jinja_list_value(CTI_JINJA_LIST, items, mark));
    if (pair) pair->name = CTI_JINJA_GROUP;
    return cti_jinja_list_value(CTI_JINJA_TUPLE, pair, mark);
}

CTI_JINJA_FILTER(groupby) {
    enum { VALUE, ATTRIBUTE, OTHER, CASE_SENSITIVE };
    const int32_t mark = call->arg[VALUE].mark;
    const bool lower = !cti_jinja_truth(run, call->arg[CASE_SENSITIVE]);
    cti_jinja_path path = cti_jinja_path_read(run, call->arg[ATTRIBUTE], call->arg[OTHER], lower);
    const cti_jinja_list *items = cti_jinja_collect(run, call->arg[VALUE]);
    if (run->failed) return call->arg[VALUE];
    cti_jinja_list *keys = cti_jinja_list_new(run, items->count);
    for (int64_t i = 0; i < items->count; i++)
        cti_jinja_append(run, keys, cti_jinja_path_get(run, &path, items->item[i]));
    const int64_t *order = run->failed ? NULL : cti_jinja_order(run, keys, false, false);
    cti_jinja_list *groups = cti_jinja_list_new(run, 0);
    path.lower = false;
    for (int64_t i = 0, end; order && i < items->count && cti_jinja_step(run); i = end) {
        cti_jinja_list *group = cti_jinja_list_new(run, 0);
        for (end = i; end < items->count; end++) {
            if (end > i && !cti_jinja_equal(run, keys->item[order[end]], keys->item[order[i]]))
                break;
            cti_jinja_append(run, group, items->item[order[end]]);
        }
        const cti_jinja_value grouper = cti_jinja_path_get(run, &path, items->item[order[i]]);
        cti_jinja_append(run, groups, new_group(run, grouper, group, mark));
    }
    return cti_jinja_list_value(CTI_JINJA_LIST, order ? groups : NULL, mark);
}

typedef struct {
    cti_jinja_path path;
    cti_jinja_dict *seen;
} unique_plan;

static bool next_unique(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    const unique_plan *plan = iterator->more;
    if (!iterator->inner) iterator->inner = cti_jinja_iterate(run, iterator->source);
    while (cti_jinja_next(run, iterator->inner, item)) {
        const cti_jinja_value key = cti_jinja_path_get(run, &plan->path, *item);
        const int64_t count = plan->seen->count;
        cti_jinja_set(run, plan->seen, key, cti_jinja_none(0));
        if (run->failed) return false;
        if (plan->seen->count > count) return true;
    }
    return false;
}

CTI_JINJA_FILTER(unique) {
    const bool lower = !cti_jinja_truth(run, call->arg[1]);
    unique_plan *plan = cti_jinja_take(run, 1, sizeof *plan);
    cti_jinja_dict *seen = cti_jinja_dict_new(run, 0);
    const cti_jinja_path path = cti_jinja_path_read(run, call->arg[2], absent_value, lower);
    if (!plan || !seen) return call->arg[0];
    *plan = (unique_plan){.path = path, .seen = seen};
    return cti_jinja_generator(run, call->arg[0], plan, next_unique);
}

/* min and max: the first of the least, or greatest, items. */
CTI_JINJA_FILTER(min) {
    enum { VALUE, CASE_SENSITIVE, ATTRIBUTE };
    const char *op = !strcmp(call->row->name, "min") ? "<" : ">";
    const bool lower = !cti_jinja_truth(run, call->arg[CASE_SENSITIVE]);
    const cti_jinja_path path = cti_jinja_path_read(run, call->arg[ATTRIBUTE], absent_value, lower);
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, call->arg[VALUE]);
    cti_jinja_value best = absent_value, best_key = absent_value;
    for (cti_jinja_value item; cti_jinja_next(run, iterator, &item);) {
        const cti_jinja_value key = cti_jinja_path_get(run, &path, item);
        if (best.kind != CTI_JINJA_ABSENT && !cti_jinja_compare(run, op, key, best_key)) continue;
        best = item;
        best_key = key;
    }
    if (best.kind != CTI_JINJA_ABSENT) return best;
    return cti_jinja_undefined_hint(run, "No aggregated item, sequence was empty.");
}
