/* The functions that every template has: range, dict, namespace, cycler, joiner, raise_exception,
 * strftime_now. */
#include "clock.h"
#include "interpret.h"

static const cti_jinja_value no_value = {.kind = CTI_JINJA_UNDEFINED};

/* ---- range ---- */

static bool whole_argument(cti_jinja_run *run, cti_jinja_value value, int64_t *whole) {
    if (value.kind == CTI_JINJA_INT) *whole = value.integer;
    else if (value.kind == CTI_JINJA_BOOL) *whole = value.boolean;
    else if (value.kind == CTI_JINJA_UNDEFINED) cti_jinja_undefined_fail(run, value);
    else
        cti_jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                       cti_jinja_type_name(value));
    return !run->failed;
}

/* The number of items of a range, or CTI_JINJA_RANGE + 1 if there are more. */
static int64_t range_count(int64_t start, int64_t stop, int64_t step) {
    if (step > 0 ? start >= stop : start <= stop) return 0;
    const uint64_t way =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t count = (way - 1) / stride + 1;
    return count > CTI_JINJA_RANGE ? CTI_JINJA_RANGE + 1 : (int64_t)count;
}

static cti_jinja_value global_range(cti_jinja_run *run, const cti_jinja_call *call) {
    int64_t bound[3] = {0, 0, 1};
    if (call->rests < 1 || call->rests > 3)
        return cti_jinja_fail(run, "range expected %s, got %lld",
                              call->rests ? "at most 3 arguments" : "at least 1 argument",
                              (long long)call->rests);
    for (int64_t i = 0; i < call->rests; i++)
        if (!whole_argument(run, call->rest[i], &bound[i])) return no_value;
    const int64_t start = call->rests > 1 ? bound[0] : 0, stop = bound[call->rests > 1],
                  step = bound[2];
    if (!step) return cti_jinja_fail(run, "range() arg 3 must not be zero");
    const int64_t count = range_count(start, stop, step);
    if (count > CTI_JINJA_RANGE)
        return cti_jinja_fail(run,
                              "Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                              "(%d).",
                              CTI_JINJA_RANGE);
    cti_jinja_list *list = cti_jinja_list_new(run, count);
    for (int64_t i = 0; i < count && cti_jinja_step(run); i++)
        cti_jinja_append(run, list, cti_jinja_int(start + i * step, 0));
    if (!list) return no_value;
    list->start = start;
    list->stop = stop;
    list->step = step;
    return cti_jinja_list_value(CTI_JINJA_RANGE_OBJECT, list, 0);
}

/* ---- dict and namespace ---- */

/* Adds an item of dict([...]), which must be a pair. */
static void add_pair(cti_jinja_run *run, cti_jinja_dict *dict, cti_jinja_value pair, int64_t at) {
    if (!cti_jinja_is_iterable(pair)) {
        cti_jinja_fail(run, "cannot convert dictionary update sequence element #%lld to a sequence",
                       (long long)at);
        return;
    }
    const cti_jinja_list *two = cti_jinja_collect(run, pair);
    if (two && two->count != 2)
        cti_jinja_fail(run,
                       "dictionary update sequence element #%lld has length %lld; 2 is required",
                       (long long)at, (long long)two->count);
    else if (two) cti_jinja_set(run, dict, two->item[0], two->item[1]);
}

/* dict(*args, **kwargs) */
static cti_jinja_dict *dict_of(cti_jinja_run *run, const cti_jinja_call *call) {
    cti_jinja_dict *dict = cti_jinja_dict_new(run, 0);
    if (call->rests > 1)
        cti_jinja_fail(run, "dict expected at most 1 argument, got %lld", (long long)call->rests);
    const cti_jinja_dict *from =
        call->rests && call->rest[0].kind == CTI_JINJA_DICT ? call->rest[0].dict : NULL;
    if (call->rests && call->rest[0].kind == CTI_JINJA_UNDEFINED)
        cti_jinja_undefined_fail(run, call->rest[0]);
    if (call->rests && !from) {
        cti_jinja_iterator *iterator = cti_jinja_iterate(run, call->rest[0]);
        int64_t at = 0;
        for (cti_jinja_value pair; cti_jinja_next(run, iterator, &pair); at++)
            add_pair(run, dict, pair, at);
    }
    const cti_jinja_dict *parts[2] = {from, call->keywords};
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; parts[part] && i < parts[part]->count && cti_jinja_step(run); i++)
            cti_jinja_set(run, dict, parts[part]->entry[i].key, parts[part]->entry[i].value);
    return run->failed ? NULL : dict;
}

static cti_jinja_value global_dict(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_dict_value(dict_of(run, call), 0);
}

bool cti_jinja_namespace_name(cti_jinja_run *run, cti_jinja_value name) {
    if (name.kind != CTI_JINJA_STRING || !name.string->size || name.string->at[0] != '_')
        return true;
    cti_jinja_fail(run,
                   "Chat templates cannot store underscore-prefixed attributes on a namespace, but "
                   "got '%.*s'. Please rename the attribute.",
                   (int)name.string->size, name.string->at);
    return false;
}

static cti_jinja_value global_namespace(cti_jinja_run *run, const cti_jinja_call *call) {
    cti_jinja_dict *space = dict_of(run, call);
    for (int64_t i = 0; space && i < space->count; i++)
        if (!cti_jinja_namespace_name(run, space->entry[i].key)) return no_value;
    if (!space) return no_value;
    return (cti_jinja_value){.kind = CTI_JINJA_NAMESPACE, .space = space};
}

/* ---- cycler, joiner ---- */

static cti_jinja_value global_cycler(cti_jinja_run *run, const cti_jinja_call *call) {
    if (!call->rests) return cti_jinja_fail(run, "at least one item has to be provided");
    cti_jinja_list *items = cti_jinja_list_new(run, call->rests);
    for (int64_t i = 0; i < call->rests; i++) cti_jinja_append(run, items, call->rest[i]);
    cti_jinja_cycler *cycler = cti_jinja_take(run, 1, sizeof *cycler);
    if (!cycler) return no_value;
    *cycler = (cti_jinja_cycler){.items = items};
    return (cti_jinja_value){.kind = CTI_JINJA_CYCLER, .cycler = cycler};
}

static cti_jinja_value global_joiner(cti_jinja_run *run, const cti_jinja_call *call) {
    cti_jinja_joiner *joiner = cti_jinja_take(run, 1, sizeof *joiner);
    if (!joiner) return no_value;
    *joiner = (cti_jinja_joiner){.separator = call->arg[0]};
    if (joiner->separator.kind == CTI_JINJA_ABSENT)
        joiner->separator = cti_jinja_string_view(run, ", ", 2, 0);
    return (cti_jinja_value){.kind = CTI_JINJA_JOINER, .joiner = joiner};
}

/* ---- raise_exception, strftime_now ---- */

static cti_jinja_value global_raise(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *text = cti_jinja_text(run, call->arg[0]);
    if (!text) return no_value;
    return cti_jinja_fail(run, "%.*s", (int)text->size, text->at);
}

static cti_jinja_value global_strftime(cti_jinja_run *run, const cti_jinja_call *call) {
    if (call->arg[0].kind != CTI_JINJA_STRING)
        return cti_jinja_fail(run, "strftime() argument 1 must be str, not %s",
                              cti_jinja_type_name(call->arg[0]));
    return cti_jinja_strftime(run, call->arg[0].string);
}

const cti_jinja_row cti_jinja_globals[] = {
    {.name = "range", .run = global_range, .rest = true, .positional = true},
    {.name = "dict", .run = global_dict, .rest = true, .keywords = true},
    {.name = "namespace", .run = global_namespace, .rest = true, .keywords = true},
    {.name = "cycler", .run = global_cycler, .rest = true},
    {.name = "joiner", .run = global_joiner, .parameter = {"sep"}},
    {.name = "raise_exception", .run = global_raise, .parameter = {"message"}, .required = 1},
    {.name = "strftime_now", .run = global_strftime, .parameter = {"format"}, .required = 1},
    {.name = "lipsum", .refused = "its text is random"},
    {.name = NULL},
};
