/* value.name, value[key] and value[start:stop:step]. */
#include <string.h>

#include "value.h"

static cti_jinja_value bind_method(cti_jinja_run *run, cti_jinja_value receiver,
                                   const cti_jinja_row *row) {
    cti_jinja_bound *bound = cti_jinja_take(run, 1, sizeof *bound);
    if (!bound) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    *bound = (cti_jinja_bound){.receiver = receiver, .row = row};
    return (cti_jinja_value){.kind = CTI_JINJA_METHOD, .bound = bound};
}

/* What SandboxedEnvironment returns for an attribute that a template may not read. */
static cti_jinja_value unsafe_attribute(cti_jinja_run *run, cti_jinja_value of,
                                        const cti_jinja_string *name) {
    cti_jinja_builder hint = cti_jinja_build(run);
    cti_jinja_add_text(&hint, "access to attribute ", 0);
    cti_jinja_repr(&hint, cti_jinja_string_value(name), 0);
    cti_jinja_add_text(&hint, " of '", 0);
    cti_jinja_add_text(&hint, cti_jinja_type_name(of), 0);
    cti_jinja_add_text(&hint, "' object is unsafe.", 0);
    cti_jinja_add(&hint, "", 1, 0);
    return cti_jinja_undefined_hint(run, run->failed ? "" : hint.at);
}

/* The methods of lists and dicts that change them. */
static bool changes(cti_jinja_value of, const cti_jinja_string *name) {
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *names = of.kind == CTI_JINJA_LIST   ? of_list
                               : of.kind == CTI_JINJA_DICT ? of_dict
                                                           : NULL;
    for (; names && *names; names++)
        if (cti_jinja_string_is(name, *names)) return true;
    return false;
}

static bool find_member(cti_jinja_run *run, cti_jinja_value of, const cti_jinja_string *name,
                        cti_jinja_value *found) {
    switch (of.kind) {
    case CTI_JINJA_NAMESPACE: {
        const cti_jinja_value *value = cti_jinja_get(run, of.space, cti_jinja_string_value(name));
        if (value) *found = *value;
        return value != NULL;
    }
    case CTI_JINJA_LOOP: return cti_jinja_loop_member(run, of.loop, name, found);
    case CTI_JINJA_MACRO: return cti_jinja_macro_member(run, of.macro, name, found);
    case CTI_JINJA_CYCLER:
        if (cti_jinja_string_is(name, "current")) *found = of.cycler->items->item[of.cycler->at];
        else if (cti_jinja_string_is(name, "pos")) *found = cti_jinja_int(of.cycler->at, 0);
        else if (cti_jinja_string_is(name, "items"))
            *found = cti_jinja_list_value(CTI_JINJA_TUPLE, of.cycler->items, 0);
        else return false;
        return true;
    case CTI_JINJA_JOINER:
        if (cti_jinja_string_is(name, "used")) *found = cti_jinja_bool(of.joiner->used, 0);
        else if (cti_jinja_string_is(name, "sep")) *found = of.joiner->separator;
        else return false;
        return true;
    case CTI_JINJA_TUPLE:
        if (!of.list->name) return false;
        if (cti_jinja_string_is(name, "grouper")) *found = of.list->item[0];
        else if (cti_jinja_string_is(name, "list")) *found = of.list->item[1];
        else return false;
        return true;
    case CTI_JINJA_RANGE_OBJECT:
        if (cti_jinja_string_is(name, "start")) *found = cti_jinja_int(of.list->start, 0);
        else if (cti_jinja_string_is(name, "stop")) *found = cti_jinja_int(of.list->stop, 0);
        else if (cti_jinja_string_is(name, "step")) *found = cti_jinja_int(of.list->step, 0);
        else return false;
        return true;
    case CTI_JINJA_BOOL:
    case CTI_JINJA_INT:
        if (cti_jinja_string_is(name, "real") || cti_jinja_string_is(name, "numerator"))
            *found = cti_jinja_int(of.kind == CTI_JINJA_INT ? of.integer : of.boolean, of.mark);
        else if (cti_jinja_string_is(name, "imag")) *found = cti_jinja_int(0, of.mark);
        else if (cti_jinja_string_is(name, "denominator")) *found = cti_jinja_int(1, of.mark);
        else return false;
        return true;
    case CTI_JINJA_REAL:
        if (cti_jinja_string_is(name, "real")) *found = of;
        else if (cti_jinja_string_is(name, "imag")) *found = cti_jinja_real(0, of.mark);
        else return false;
        return true;
    default: return false;
    }
}

/* Python's getattr. Returns false if there is no such attribute. */
static bool find_attribute(cti_jinja_run *run, cti_jinja_value of, const cti_jinja_string *name,
                           cti_jinja_value *found) {
    if (name->size > 4 && name->at[0] == '_' && name->at[1] == '_' &&
        name->at[name->size - 1] == '_') {
        *found = unsafe_attribute(run, of, name);
        return true;
    }
    if (changes(of, name)) {
        *found = unsafe_attribute(run, of, name);
        return true;
    }
    if (find_member(run, of, name, found)) return true;
    const cti_jinja_row *row = cti_jinja_method_find(of, name->at, name->size);
    if (!row) return false;
    *found = bind_method(run, of, row);
    return true;
}

/* Python's of[key]. Returns false where that is a TypeError or LookupError. */
static bool find_item(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value key,
                      cti_jinja_value *found) {
    if (of.kind == CTI_JINJA_DICT) {
        if (key.kind == CTI_JINJA_LIST || key.kind == CTI_JINJA_DICT || key.kind == CTI_JINJA_VIEW)
            return false;
        const cti_jinja_value *value = cti_jinja_get(run, of.dict, key);
        if (value) *found = *value;
        return value != NULL;
    }
    if (key.kind != CTI_JINJA_INT && key.kind != CTI_JINJA_BOOL) return false;
    int64_t index = key.kind == CTI_JINJA_INT ? key.integer : key.boolean;
    if (of.kind == CTI_JINJA_STRING) {
        if (index < 0) index += of.string->length;
        if (index < 0 || index >= of.string->length) return false;
        const size_t begin = cti_jinja_byte_of(of.string, index);
        const cti_jinja_string rest = {.at = of.string->at + begin,
                                       .size = of.string->size - begin,
                                       .length = of.string->length - index};
        *found = cti_jinja_substring(run, of.string, begin, begin + cti_jinja_byte_of(&rest, 1));
        return true;
    }
    if (!cti_jinja_has_items(of) || of.kind == CTI_JINJA_VIEW) return false;
    if (index < 0) index += of.list->count;
    if (index < 0 || index >= of.list->count) return false;
    *found = of.list->item[index];
    return true;
}

/* a.name, and with `items` the item of this name if there is no attribute. */
static cti_jinja_value read_attribute(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value name,
                                      bool items) {
    cti_jinja_value found = {.kind = CTI_JINJA_UNDEFINED};
    if (run->failed) return found;
    if (of.kind == CTI_JINJA_UNDEFINED) {
        if (name.string->size < 2 || memcmp(name.string->at, "__", 2))
            return cti_jinja_undefined_fail(run, of);
        return unsafe_attribute(run, of, name.string);
    }
    if (find_attribute(run, of, name.string, &found)) return found;
    if (items && find_item(run, of, name, &found)) return found;
    return cti_jinja_undefined(run, of, name);
}

cti_jinja_value cti_jinja_attribute(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value name) {
    return read_attribute(run, of, name, true);
}

cti_jinja_value cti_jinja_attribute_only(cti_jinja_run *run, cti_jinja_value of,
                                         cti_jinja_value name) {
    return read_attribute(run, of, name, false);
}

cti_jinja_value cti_jinja_item(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value key) {
    cti_jinja_value found = {.kind = CTI_JINJA_UNDEFINED};
    if (run->failed) return found;
    if (of.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, of);
    if (find_item(run, of, key, &found)) return found;
    if (key.kind == CTI_JINJA_STRING && find_attribute(run, of, key.string, &found)) return found;
    return cti_jinja_undefined(run, of, key);
}

/* ---- slices ---- */

static bool read_bound(cti_jinja_run *run, cti_jinja_value value, int64_t *bound, bool *given) {
    *given = value.kind != CTI_JINJA_ABSENT && value.kind != CTI_JINJA_NONE;
    if (!*given) return true;
    if (value.kind == CTI_JINJA_INT) *bound = value.integer;
    else if (value.kind == CTI_JINJA_BOOL) *bound = value.boolean;
    else {
        cti_jinja_fail(run, "slice indices must be integers or None or have an __index__ method");
        return false;
    }
    return true;
}

/* An index of a slice as Python clips it. */
static int64_t clip_bound(int64_t index, int64_t length, int64_t step) {
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
    if (index < 0) {
        index += length;
        return index < low ? low : index;
    }
    return index > high ? high : index;
}

static cti_jinja_value slice_string(cti_jinja_run *run, const cti_jinja_string *string,
                                    int64_t start, int64_t stop, int64_t step) {
    if (step == 1) {
        if (stop < start) stop = start;
        return cti_jinja_substring(run, string, cti_jinja_byte_of(string, start),
                                   cti_jinja_byte_of(string, stop));
    }
    /* The bytes at which characters begin, so that each is found at once. */
    const bool ascii = cti_jinja_is_ascii(string);
    size_t *begin = NULL;
    if (!ascii) {
        begin = cti_jinja_take(run, (size_t)string->length + 1, sizeof *begin);
        if (!begin) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
        size_t characters = 0;
        for (size_t i = 0; i < string->size; i++)
            if (((unsigned char)string->at[i] & 0xC0) != 0x80) begin[characters++] = i;
        begin[characters] = string->size;
    }
    cti_jinja_builder out = cti_jinja_build(run);
    while ((step > 0 ? start < stop : start > stop) && cti_jinja_step(run)) {
        cti_jinja_add_part(&out, string, ascii ? (size_t)start : begin[start],
                           ascii ? (size_t)start + 1 : begin[start + 1]);
        if (__builtin_add_overflow(start, step, &start)) break;
    }
    return cti_jinja_built(&out, string->markup);
}

/* The bounds of a slice of a range, which is a range. */
static void slice_range(cti_jinja_run *run, const cti_jinja_list *range, int64_t start,
                        int64_t stop, int64_t step, cti_jinja_list *slice) {
    const int64_t by = range->step;
    if (__builtin_mul_overflow(start, by, &slice->start) ||
        __builtin_add_overflow(slice->start, range->start, &slice->start) ||
        __builtin_mul_overflow(stop, by, &slice->stop) ||
        __builtin_add_overflow(slice->stop, range->start, &slice->stop) ||
        __builtin_mul_overflow(step, by, &slice->step))
        cti_jinja_fail(run, "integers beyond 64 bits are not run");
}

static cti_jinja_value slice_list(cti_jinja_run *run, cti_jinja_value of, int64_t start,
                                  int64_t stop, int64_t step) {
    cti_jinja_list *list = cti_jinja_list_new(run, step == 1 && stop > start ? stop - start : 0);
    if (list && of.kind == CTI_JINJA_RANGE_OBJECT)
        slice_range(run, of.list, start, stop, step, list);
    while ((step > 0 ? start < stop : start > stop) && cti_jinja_step(run)) {
        cti_jinja_append(run, list, of.list->item[start]);
        if (__builtin_add_overflow(start, step, &start)) break;
    }
    return cti_jinja_list_value(of.kind, list, of.mark);
}

bool cti_jinja_is_sliced(cti_jinja_value of, const cti_jinja_value bound[3]) {
    for (int i = 0; i < 3; i++)
        if (bound[i].kind != CTI_JINJA_ABSENT && bound[i].kind != CTI_JINJA_NONE &&
            bound[i].kind != CTI_JINJA_INT && bound[i].kind != CTI_JINJA_BOOL)
            return false;
    return of.kind == CTI_JINJA_STRING || (cti_jinja_has_items(of) && of.kind != CTI_JINJA_VIEW);
}

cti_jinja_value cti_jinja_slice(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value start,
                                cti_jinja_value stop, cti_jinja_value step) {
    const cti_jinja_value none = {.kind = CTI_JINJA_UNDEFINED};
    if (run->failed) return none;
    if (of.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, of);
    if (of.kind == CTI_JINJA_DICT) return cti_jinja_fail(run, "unhashable type: 'slice'");
    if (of.kind != CTI_JINJA_STRING && (!cti_jinja_has_items(of) || of.kind == CTI_JINJA_VIEW))
        return cti_jinja_fail(run, "'%s' object is not subscriptable", cti_jinja_type_name(of));
    int64_t from = 0, to = 0, by = 1;
    bool has_from, has_to, has_by;
    if (!read_bound(run, start, &from, &has_from) || !read_bound(run, stop, &to, &has_to) ||
        !read_bound(run, step, &by, &has_by))
        return none;
    if (!by) return cti_jinja_fail(run, "slice step cannot be zero");
    const int64_t length = of.kind == CTI_JINJA_STRING ? of.string->length : of.list->count;
    from = has_from ? clip_bound(from, length, by) : by < 0 ? length - 1 : 0;
    to = has_to ? clip_bound(to, length, by) : by < 0 ? -1 : length;
    return of.kind == CTI_JINJA_STRING ? slice_string(run, of.string, from, to, by)
                                       : slice_list(run, of, from, to, by);
}
