/* What values are in Python: names of types, truth, equality, order, membership. */
#include <string.h>

#include "value.h"

const char *cti_jinja_type_name(cti_jinja_value value) {
    switch (value.kind) {
    case CTI_JINJA_ABSENT:
    case CTI_JINJA_UNDEFINED: return "Undefined";
    case CTI_JINJA_NONE: return "NoneType";
    case CTI_JINJA_BOOL: return "bool";
    case CTI_JINJA_INT: return "int";
    case CTI_JINJA_REAL: return "float";
    case CTI_JINJA_STRING: return value.string->markup ? "Markup" : "str";
    case CTI_JINJA_LIST: return "list";
    case CTI_JINJA_TUPLE: return value.list->name ? value.list->name : "tuple";
    case CTI_JINJA_VIEW: return value.list->name;
    case CTI_JINJA_RANGE_OBJECT: return "range";
    case CTI_JINJA_DICT: return "dict";
    case CTI_JINJA_NAMESPACE: return "TemplateNamespace";
    case CTI_JINJA_CYCLER: return "Cycler";
    case CTI_JINJA_JOINER: return "Joiner";
    case CTI_JINJA_LOOP: return "LoopContext";
    case CTI_JINJA_MACRO: return "Macro";
    case CTI_JINJA_METHOD: return "builtin_function_or_method";
    case CTI_JINJA_FUNCTION: return "function";
    case CTI_JINJA_ITERATOR: return value.iterator->name;
    case CTI_JINJA_KINDS: break;
    }
    return "object";
}

bool cti_jinja_truth(cti_jinja_run *run, cti_jinja_value value) {
    switch (value.kind) {
    case CTI_JINJA_ABSENT:
    case CTI_JINJA_UNDEFINED:
    case CTI_JINJA_NONE: return false;
    case CTI_JINJA_BOOL: return value.boolean;
    case CTI_JINJA_INT: return value.integer != 0;
    case CTI_JINJA_REAL: return value.real != 0;
    case CTI_JINJA_STRING: return value.string->size != 0;
    case CTI_JINJA_LIST:
    case CTI_JINJA_TUPLE:
    case CTI_JINJA_VIEW:
    case CTI_JINJA_RANGE_OBJECT: return value.list->count != 0;
    case CTI_JINJA_DICT: return value.dict->count != 0;
    case CTI_JINJA_LOOP: return cti_jinja_loop_length(run, value.loop) > 0;
    default: return true;
    }
}

static bool is_number(cti_jinja_value value) {
    return value.kind == CTI_JINJA_BOOL || value.kind == CTI_JINJA_INT ||
           value.kind == CTI_JINJA_REAL;
}

/* -1, 0 or 1; 2 if one of them is no number. An integer is not rounded. */
static int order_numbers(cti_jinja_value a, cti_jinja_value b) {
    const bool real_a = a.kind == CTI_JINJA_REAL, real_b = b.kind == CTI_JINJA_REAL;
    const int64_t i = a.kind == CTI_JINJA_BOOL ? a.boolean : a.integer;
    const int64_t j = b.kind == CTI_JINJA_BOOL ? b.boolean : b.integer;
    if (real_a && real_b)
        return a.real < b.real ? -1 : a.real > b.real ? 1 : a.real == b.real ? 0 : 2;
    if (!real_a && !real_b) return (i > j) - (i < j);
    if (real_a) {
        const int turned = order_numbers(b, a);
        return turned == 2 ? 2 : -turned;
    }
    const double x = b.real;
    if (x != x) return 2;
    if (x >= 0x1p63) return -1;
    if (x < -0x1p63) return 1;
    const int64_t whole = (int64_t)x;
    if (i != whole) return i < whole ? -1 : 1;
    const double rest = x - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int order_strings(const cti_jinja_string *a, const cti_jinja_string *b) {
    const int order = cti_text_compare((cti_text){a->at, a->size}, (cti_text){b->at, b->size});
    return (order > 0) - (order < 0);
}

static bool equal_lists(cti_jinja_run *run, const cti_jinja_list *a, const cti_jinja_list *b) {
    if (a == b) return true;
    if (a->count != b->count || !cti_jinja_enter(run)) return false;
    bool equal = true;
    for (int64_t i = 0; i < a->count && equal && cti_jinja_step(run); i++)
        equal = cti_jinja_equal(run, a->item[i], b->item[i]);
    cti_jinja_leave(run);
    return equal;
}

static bool equal_dicts(cti_jinja_run *run, const cti_jinja_dict *a, const cti_jinja_dict *b) {
    if (a == b) return true;
    if (a->count != b->count || !cti_jinja_enter(run)) return false;
    bool equal = true;
    for (int64_t i = 0; i < a->count && equal && cti_jinja_step(run); i++) {
        const cti_jinja_value *other = cti_jinja_get(run, b, a->entry[i].key);
        equal = other && cti_jinja_equal(run, a->entry[i].value, *other);
    }
    cti_jinja_leave(run);
    return equal;
}

bool cti_jinja_equal(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b) {
    if (a.kind == CTI_JINJA_STRING && b.kind == CTI_JINJA_STRING)
        return cti_jinja_read(run, a) && cti_jinja_string_equal(a.string, b.string);
    if (is_number(a) && is_number(b)) return order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case CTI_JINJA_ABSENT:
    case CTI_JINJA_UNDEFINED:
    case CTI_JINJA_NONE: return true;
    case CTI_JINJA_LIST:
    case CTI_JINJA_TUPLE:
    case CTI_JINJA_RANGE_OBJECT: return equal_lists(run, a.list, b.list);
    case CTI_JINJA_DICT: return equal_dicts(run, a.dict, b.dict);
    case CTI_JINJA_METHOD:
        return a.bound->row == b.bound->row &&
               cti_jinja_equal(run, a.bound->receiver, b.bound->receiver);
    default: return a.list == b.list; /* the same object */
    }
}

static bool holds(const char *op, int order) {
    if (order == 2) return false;
    return op[0] == '<' ? order < 0 || (op[1] && !order) : order > 0 || (op[1] && !order);
}

static bool compare_lists(cti_jinja_run *run, const char *op, const cti_jinja_list *a,
                          const cti_jinja_list *b) {
    if (!cti_jinja_enter(run)) return false;
    int64_t i = 0;
    while (i < a->count && i < b->count && cti_jinja_step(run) &&
           cti_jinja_equal(run, a->item[i], b->item[i]))
        i++;
    const bool is = i < a->count && i < b->count
                        ? cti_jinja_compare(run, op, a->item[i], b->item[i])
                        : holds(op, (a->count > b->count) - (a->count < b->count));
    cti_jinja_leave(run);
    return is;
}

bool cti_jinja_compare(cti_jinja_run *run, const char *op, cti_jinja_value a, cti_jinja_value b) {
    if (!cti_jinja_read(run, a)) return false;
    if (is_number(a) && is_number(b)) return holds(op, order_numbers(a, b));
    if (a.kind == CTI_JINJA_STRING && b.kind == CTI_JINJA_STRING)
        return holds(op, order_strings(a.string, b.string));
    if (a.kind == b.kind && (a.kind == CTI_JINJA_LIST || a.kind == CTI_JINJA_TUPLE))
        return compare_lists(run, op, a.list, b.list);
    if (a.kind == CTI_JINJA_UNDEFINED) cti_jinja_undefined_fail(run, a);
    else if (b.kind == CTI_JINJA_UNDEFINED) cti_jinja_undefined_fail(run, b);
    else
        cti_jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", op,
                       cti_jinja_type_name(a), cti_jinja_type_name(b));
    return false;
}

bool cti_jinja_contains(cti_jinja_run *run, cti_jinja_value container, cti_jinja_value item) {
    if (!cti_jinja_read(run, container) || !cti_jinja_read(run, item)) return false;
    if (container.kind == CTI_JINJA_STRING) {
        if (item.kind == CTI_JINJA_STRING)
            return cti_jinja_find(container.string, item.string, 0, container.string->size,
                                  false) != SIZE_MAX;
        cti_jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                       cti_jinja_type_name(item));
        return false;
    }
    if (container.kind == CTI_JINJA_DICT) return cti_jinja_get(run, container.dict, item) != NULL;
    if (!cti_jinja_is_iterable(container)) {
        cti_jinja_fail(run, "argument of type '%s' is not iterable",
                       cti_jinja_type_name(container));
        return false;
    }
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, container);
    for (cti_jinja_value each; cti_jinja_next(run, iterator, &each);)
        if (cti_jinja_equal(run, each, item)) return !run->failed;
    return false;
}

/* ---- undefined values ---- */

cti_jinja_value cti_jinja_undefined(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value name) {
    cti_jinja_missing *missing = cti_jinja_take(run, 1, sizeof *missing);
    if (missing) *missing = (cti_jinja_missing){.of = of, .name = name};
    return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED, .missing = missing};
}

cti_jinja_value cti_jinja_undefined_hint(cti_jinja_run *run, const char *hint) {
    cti_jinja_missing *missing = cti_jinja_take(run, 1, sizeof *missing);
    if (missing) *missing = (cti_jinja_missing){.hint = hint};
    return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED, .missing = missing};
}

cti_jinja_value cti_jinja_undefined_fail(cti_jinja_run *run, cti_jinja_value undefined) {
    const cti_jinja_missing *missing = undefined.missing;
    if (run->failed || !missing) return cti_jinja_fail(run, "a value is undefined");
    if (missing->hint) return cti_jinja_fail(run, "%s", missing->hint);
    cti_jinja_builder name = cti_jinja_build(run);
    cti_jinja_repr(&name, missing->name, 0);
    cti_jinja_add(&name, "", 1, 0);
    if (run->failed) return undefined;
    if (missing->of.kind == CTI_JINJA_ABSENT)
        return cti_jinja_fail(run, "%s is undefined", name.at);
    const char *none = missing->of.kind == CTI_JINJA_NONE ? "None" : NULL;
    const char *type = none ? none : cti_jinja_type_name(missing->of);
    if (missing->name.kind == CTI_JINJA_STRING)
        return cti_jinja_fail(run, "'%s%s' has no attribute %s", type, none ? "" : " object",
                              name.at);
    return cti_jinja_fail(run, "%s%s has no element %s", type, none ? "" : " object", name.at);
}
