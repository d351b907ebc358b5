/* The methods of lists, tuples, dicts and numbers, and of cyclers. */
#include <math.h>

#include "number.h"

/* list.index and tuple.index: the first equal item in a range. */
static cti_jinja_value method_index(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_list *list = call->receiver.list;
    int64_t bound[2] = {0, INT64_MAX};
    for (int i = 0; i < 2; i++) {
        if (cti_jinja_is_absent(call->arg[1 + i])) continue;
        if (!cti_jinja_int_of(run, call->arg[1 + i], &bound[i])) return call->receiver;
        if (bound[i] < 0) bound[i] = bound[i] + list->count < 0 ? 0 : bound[i] + list->count;
    }
    for (int64_t i = bound[0]; i < list->count && i < bound[1] && cti_jinja_step(run); i++)
        if (cti_jinja_equal(run, list->item[i], call->arg[0])) return cti_jinja_int(i, 0);
    return cti_jinja_fail(run, "%s.index(x): x not in %s", cti_jinja_type_name(call->receiver),
                          cti_jinja_type_name(call->receiver));
}

static cti_jinja_value method_count_items(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_list *list = call->receiver.list;
    int64_t count = 0;
    for (int64_t i = 0; i < list->count && cti_jinja_step(run); i++)
        count += cti_jinja_equal(run, list->item[i], call->arg[0]);
    return cti_jinja_int(count, 0);
}

static cti_jinja_value method_list_copy(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_list_value(CTI_JINJA_LIST, cti_jinja_collect(run, call->receiver),
                                call->receiver.mark);
}

/* ---- dicts ---- */

static cti_jinja_value method_get(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_dict *dict = call->receiver.dict;
    const cti_jinja_value *found = cti_jinja_get(run, dict, call->arg[0]);
    if (found) return *found;
    return cti_jinja_is_absent(call->arg[1]) ? cti_jinja_none(0) : call->arg[1];
}

/* items(), keys() or values(). */
static cti_jinja_value method_view(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_dict *dict = call->receiver.dict;
    const char kind = call->row->name[0];
    const int32_t mark = call->receiver.mark;
    cti_jinja_list *view = cti_jinja_list_new(run, dict->count);
    if (!view) return call->receiver;
    view->name = kind == 'i' ? "dict_items" : kind == 'k' ? "dict_keys" : "dict_values";
    for (int64_t i = 0; i < dict->count && cti_jinja_step(run); i++) {
        const cti_jinja_entry *entry = &dict->entry[i];
        cti_jinja_value item = kind == 'k' ? entry->key : entry->value;
        if (kind == 'i') {
            cti_jinja_list *pair = cti_jinja_list_new(run, 2);
            cti_jinja_append(run, pair, entry->key);
            cti_jinja_append(run, pair, entry->value);
            item = cti_jinja_list_value(CTI_JINJA_TUPLE, pair, mark);
        }
        cti_jinja_append(run, view, item);
    }
    return cti_jinja_list_value(CTI_JINJA_VIEW, view, mark);
}

static cti_jinja_value method_dict_copy(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    return call->receiver; /* a template cannot change one of them */
}

static cti_jinja_value method_fromkeys(cti_jinja_run *run, const cti_jinja_call *call) {
    const bool absent = cti_jinja_is_absent(call->arg[1]);
    cti_jinja_dict *dict = cti_jinja_dict_new(run, 0);
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, call->arg[0]);
    for (cti_jinja_value key; cti_jinja_next(run, iterator, &key);)
        cti_jinja_set(run, dict, key, absent ? cti_jinja_none(0) : call->arg[1]);
    return cti_jinja_dict_value(dict, call->arg[0].mark);
}

/* ---- numbers ---- */

static int64_t integer_of(cti_jinja_value value) {
    return value.kind == CTI_JINJA_BOOL ? value.boolean : value.integer;
}

static uint64_t int_magnitude(cti_jinja_value value) {
    const int64_t integer = integer_of(value);
    return integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
}

static cti_jinja_value method_bit_length(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    int64_t bits = 0;
    for (uint64_t left = int_magnitude(call->receiver); left; left >>= 1) bits++;
    return cti_jinja_int(bits, call->receiver.mark);
}

static cti_jinja_value method_bit_count(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    int64_t bits = 0;
    for (uint64_t left = int_magnitude(call->receiver); left; left &= left - 1) bits++;
    return cti_jinja_int(bits, call->receiver.mark);
}

static cti_jinja_value method_conjugate(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    if (call->receiver.kind == CTI_JINJA_REAL) return call->receiver;
    return cti_jinja_int(integer_of(call->receiver), call->receiver.mark);
}

static cti_jinja_value method_int_ratio(cti_jinja_run *run, const cti_jinja_call *call) {
    cti_jinja_list *ratio = cti_jinja_list_new(run, 2);
    cti_jinja_append(run, ratio, cti_jinja_int(integer_of(call->receiver), call->receiver.mark));
    cti_jinja_append(run, ratio, cti_jinja_int(1, call->receiver.mark));
    return cti_jinja_list_value(CTI_JINJA_TUPLE, ratio, call->receiver.mark);
}

static cti_jinja_value method_is_integer(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    const double x = call->receiver.real;
    return cti_jinja_bool(isfinite(x) && x == floor(x), 0);
}

/* ---- cyclers ---- */

static cti_jinja_value method_next(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    cti_jinja_cycler *cycler = call->receiver.cycler;
    const cti_jinja_value item = cycler->items->item[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items->count;
    return item;
}

static cti_jinja_value method_reset(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    call->receiver.cycler->at = 0;
    return cti_jinja_none(0);
}

#define METHOD(method, function) {.name = (method), .run = (function), .positional = true}
#define METHOD_INDEX                                                                               \
    {.name = "index",                                                                              \
     .run = method_index,                                                                          \
     .parameter = {"value", "start", "stop"},                                                      \
     .required = 1,                                                                                \
     .positional = true}
#define METHOD_COUNT                                                                               \
    {.name = "count",                                                                              \
     .run = method_count_items,                                                                    \
     .parameter = {"value"},                                                                       \
     .required = 1,                                                                                \
     .positional = true}

/* append, clear, extend, insert, pop, remove, reverse and sort are no attributes in the sandbox. */
const cti_jinja_row cti_jinja_list_methods[] = {
    METHOD("copy", method_list_copy), METHOD_COUNT, METHOD_INDEX, {.name = NULL}};

const cti_jinja_row cti_jinja_tuple_methods[] = {METHOD_COUNT, METHOD_INDEX, {.name = NULL}};

/* clear, pop, popitem, setdefault and update are no attributes in the sandbox. */
const cti_jinja_row cti_jinja_dict_methods[] = {METHOD("copy", method_dict_copy),
                                                {.name = "fromkeys",
                                                 .run = method_fromkeys,
                                                 .parameter = {"iterable", "value"},
                                                 .required = 1,
                                                 .positional = true},
                                                {.name = "get",
                                                 .run = method_get,
                                                 .parameter = {"key", "default"},
                                                 .required = 1,
                                                 .positional = true},
                                                METHOD("items", method_view),
                                                METHOD("keys", method_view),
                                                METHOD("values", method_view),
                                                {.name = NULL}};

const cti_jinja_row cti_jinja_int_methods[] = {
    METHOD("as_integer_ratio", method_int_ratio),
    METHOD("bit_count", method_bit_count),
    METHOD("bit_length", method_bit_length),
    METHOD("conjugate", method_conjugate),
    {.name = "from_bytes", .refused = "there are no bytes"},
    {.name = "to_bytes", .refused = "there are no bytes"},
    {.name = NULL}};

const cti_jinja_row cti_jinja_real_methods[] = {
    {.name = "as_integer_ratio", .refused = "there are no integers beyond 64 bits"},
    METHOD("conjugate", method_conjugate),
    {.name = "fromhex", .refused = "numbers are decimal"},
    {.name = "hex", .refused = "numbers are decimal"},
    METHOD("is_integer", method_is_integer),
    {.name = NULL}};

const cti_jinja_row cti_jinja_cycler_methods[] = {
    METHOD("next", method_next), METHOD("reset", method_reset), {.name = NULL}};
