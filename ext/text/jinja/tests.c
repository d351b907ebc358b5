/* The tests: what stands behind `is`. */
#include <string.h>

#include "number.h"
#include "text.h"

#define TEST(name)                                                                                 \
    static cti_jinja_value test_##name(cti_jinja_run *run, const cti_jinja_call *call)
/* A test of the kind of its value alone. */
#define TEST_KIND(name, condition)                                                                 \
    TEST(name) {                                                                                   \
        (void)run;                                                                                 \
        const cti_jinja_value value = call->arg[0];                                                \
        return cti_jinja_bool(condition, 0);                                                       \
    }

TEST_KIND(defined, value.kind != CTI_JINJA_UNDEFINED)
TEST_KIND(undefined, value.kind == CTI_JINJA_UNDEFINED)
TEST_KIND(none, value.kind == CTI_JINJA_NONE)
TEST_KIND(boolean, value.kind == CTI_JINJA_BOOL)
TEST_KIND(is_true, value.kind == CTI_JINJA_BOOL && value.boolean)
TEST_KIND(is_false, value.kind == CTI_JINJA_BOOL && !value.boolean)
TEST_KIND(integer, value.kind == CTI_JINJA_INT)
TEST_KIND(float, value.kind == CTI_JINJA_REAL)
TEST_KIND(number, value.kind == CTI_JINJA_BOOL || value.kind == CTI_JINJA_INT ||
                      value.kind == CTI_JINJA_REAL)
TEST_KIND(string, value.kind == CTI_JINJA_STRING)
TEST_KIND(mapping, value.kind == CTI_JINJA_DICT)
TEST_KIND(iterable, cti_jinja_is_iterable(value))
TEST_KIND(sequence, value.kind == CTI_JINJA_DICT || value.kind == CTI_JINJA_STRING ||
                        value.kind == CTI_JINJA_UNDEFINED ||
                        (cti_jinja_has_items(value) && value.kind != CTI_JINJA_VIEW))
TEST_KIND(callable, value.kind == CTI_JINJA_UNDEFINED || value.kind == CTI_JINJA_JOINER ||
                        value.kind == CTI_JINJA_LOOP || value.kind == CTI_JINJA_MACRO ||
                        value.kind == CTI_JINJA_METHOD || value.kind == CTI_JINJA_FUNCTION)
TEST_KIND(escaped, value.kind == CTI_JINJA_STRING && value.string->markup)

/* Whether value % divisor == rest, for odd, even and divisibleby. */
static cti_jinja_value has_rest(cti_jinja_run *run, cti_jinja_value value, cti_jinja_value divisor,
                                int64_t rest) {
    const cti_jinja_value modulo = cti_jinja_arithmetic(run, "%", value, divisor);
    return cti_jinja_bool(cti_jinja_equal(run, modulo, cti_jinja_int(rest, 0)), 0);
}
TEST(odd) { return has_rest(run, call->arg[0], cti_jinja_int(2, 0), 1); }
TEST(even) { return has_rest(run, call->arg[0], cti_jinja_int(2, 0), 0); }
TEST(divisibleby) { return has_rest(run, call->arg[0], call->arg[1], 0); }

/* lower and upper, of the text of any value. */
TEST(case) {
    const cti_jinja_string *text = cti_jinja_text(run, call->arg[0]);
    const char *question = call->row->name[0] == 'l' ? "islower" : "isupper";
    return cti_jinja_bool(text && cti_jinja_characters_are(text, question), 0);
}

/* filter and test: whether there is one of this name. */
TEST(registered) {
    const cti_jinja_value name = call->arg[0];
    const bool filter = call->row->name[0] == 'f';
    if (name.kind == CTI_JINJA_LIST || name.kind == CTI_JINJA_DICT || name.kind == CTI_JINJA_VIEW)
        return cti_jinja_fail(run, "unhashable type: '%s'", cti_jinja_type_name(name));
    if (name.kind != CTI_JINJA_STRING) return cti_jinja_bool(false, 0);
    const cti_jinja_row *table = filter ? cti_jinja_filters : cti_jinja_tests;
    return cti_jinja_bool(cti_jinja_row_find(table, name.string->at, name.string->size), 0);
}

/* Whether two values are one object. Of equal numbers and strings Python has no rule, except for
 * the small integers. */
TEST(sameas) {
    const cti_jinja_value a = call->arg[0], b = call->arg[1];
    bool same = false;
    switch (a.kind == b.kind ? a.kind : CTI_JINJA_KINDS) {
    case CTI_JINJA_NONE: same = true; break;
    case CTI_JINJA_BOOL: same = a.boolean == b.boolean; break;
    case CTI_JINJA_INT:
    case CTI_JINJA_REAL:
    case CTI_JINJA_STRING:
        same = cti_jinja_equal(run, a, b);
        if (same && (a.kind != CTI_JINJA_INT || a.integer < -5 || a.integer > 256))
            return cti_jinja_fail(run, "sameas is not run for equal values of type '%s'",
                                  cti_jinja_type_name(a));
        break;
    case CTI_JINJA_KINDS: break;
    default: same = a.list == b.list;
    }
    return cti_jinja_bool(same, 0);
}

TEST(in) { return cti_jinja_bool(cti_jinja_contains(run, call->arg[1], call->arg[0]), 0); }

/* eq, ne, and what these are called besides. */
TEST(equal) {
    const char *name = call->row->name;
    const bool differ = name[0] == '!' || name[0] == 'n';
    return cti_jinja_bool(cti_jinja_equal(run, call->arg[0], call->arg[1]) != differ, 0);
}

/* gt, ge, lt, le, and what these are called besides. */
TEST(ordered) {
    const char *name = call->row->name;
    const bool greater = name[0] == '>' || name[0] == 'g';
    const bool equal = name[1] == '=' || (name[1] == 'e' && !name[2]);
    const char *op = greater ? (equal ? ">=" : ">") : (equal ? "<=" : "<");
    return cti_jinja_bool(cti_jinja_compare(run, op, call->arg[0], call->arg[1]), 0);
}

#define TEST_OF_ONE(name, function) {name, test_##function, .parameter = {"value"}, .required = 1}
#define TEST_OF_TWO(name, function, other)                                                         \
    {name, test_##function, .parameter = {"value", other}, .required = 2}

const cti_jinja_row cti_jinja_tests[] = {
    TEST_OF_ONE("boolean", boolean),
    TEST_OF_ONE("callable", callable),
    TEST_OF_ONE("defined", defined),
    TEST_OF_TWO("divisibleby", divisibleby, "num"),
    TEST_OF_TWO("eq", equal, "other"),
    TEST_OF_TWO("==", equal, "other"),
    TEST_OF_TWO("equalto", equal, "other"),
    TEST_OF_ONE("escaped", escaped),
    TEST_OF_ONE("even", even),
    TEST_OF_ONE("false", is_false),
    TEST_OF_ONE("filter", registered),
    TEST_OF_ONE("float", float),
    TEST_OF_TWO("ge", ordered, "other"),
    TEST_OF_TWO(">=", ordered, "other"),
    TEST_OF_TWO("gt", ordered, "other"),
    TEST_OF_TWO(">", ordered, "other"),
    TEST_OF_TWO("greaterthan", ordered, "other"),
    TEST_OF_TWO("in", in, "seq"),
    TEST_OF_ONE("integer", integer),
    TEST_OF_ONE("iterable", iterable),
    TEST_OF_TWO("le", ordered, "other"),
    TEST_OF_TWO("<=", ordered, "other"),
    TEST_OF_ONE("lower", case),
    TEST_OF_TWO("lt", ordered, "other"),
    TEST_OF_TWO("<", ordered, "other"),
    TEST_OF_TWO("lessthan", ordered, "other"),
    TEST_OF_ONE("mapping", mapping),
    TEST_OF_TWO("ne", equal, "other"),
    TEST_OF_TWO("!=", equal, "other"),
    TEST_OF_ONE("none", none),
    TEST_OF_ONE("number", number),
    TEST_OF_ONE("odd", odd),
    TEST_OF_TWO("sameas", sameas, "other"),
    TEST_OF_ONE("sequence", sequence),
    TEST_OF_ONE("string", string),
    TEST_OF_ONE("test", registered),
    TEST_OF_ONE("true", is_true),
    TEST_OF_ONE("undefined", undefined),
    TEST_OF_ONE("upper", case),
    {.name = NULL},
};
