/* The operators + - * / // % ** of Python, on integers of 64 bits, doubles, strings and lists. */
#include <math.h>
#include <string.h>

#include "value.h"

static bool is_int(cti_jinja_value value) {
    return value.kind == CTI_JINJA_INT || value.kind == CTI_JINJA_BOOL;
}
static int64_t jinja_int_of(cti_jinja_value value) {
    return value.kind == CTI_JINJA_BOOL ? value.boolean : value.integer;
}
static bool is_numeric(cti_jinja_value value) {
    return is_int(value) || value.kind == CTI_JINJA_REAL;
}
static double jinja_real_of(cti_jinja_value value) {
    return value.kind == CTI_JINJA_REAL ? value.real : (double)jinja_int_of(value);
}

static cti_jinja_value fail_operands(cti_jinja_run *run, const char *op, cti_jinja_value a,
                                     cti_jinja_value b) {
    return cti_jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'",
                          strcmp(op, "**") ? op : "** or pow()", cti_jinja_type_name(a),
                          cti_jinja_type_name(b));
}

/* a ** b for b >= 0. Returns false if it does not fit. */
static bool power_int(int64_t a, int64_t b, int64_t *result) {
    *result = 1;
    while (b) {
        if (b & 1 && __builtin_mul_overflow(*result, a, result)) return false;
        b >>= 1;
        if (b && __builtin_mul_overflow(a, a, &a)) return false;
    }
    return true;
}

static int64_t floor_int(int64_t a, int64_t b) {
    const int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static cti_jinja_value divide_ints(cti_jinja_run *run, int64_t a, int64_t b, int32_t mark) {
    if (!b) return cti_jinja_fail(run, "division by zero");
    return cti_jinja_real((double)((long double)a / (long double)b), mark);
}

static cti_jinja_value on_ints(cti_jinja_run *run, const char *op, int64_t a, int64_t b,
                               int32_t mark) {
    int64_t result = 0;
    bool over = false;
    if (op[0] == '+') {
        over = __builtin_add_overflow(a, b, &result);
    } else if (op[0] == '-') {
        over = __builtin_sub_overflow(a, b, &result);
    } else if (op[0] == '*' && !op[1]) {
        over = __builtin_mul_overflow(a, b, &result);
    } else if (op[0] == '*') {
        if (b < 0 && !a) return cti_jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (b < 0) return cti_jinja_real(pow((double)a, (double)b), mark);
        over = !power_int(a, b, &result);
    } else if (op[0] == '/' && !op[1]) {
        return divide_ints(run, a, b, mark);
    } else if (!b) {
        return cti_jinja_fail(run, op[0] == '%' ? "integer modulo by zero"
                                                : "integer division or modulo by zero");
    } else if (op[0] == '/') {
        over = a == INT64_MIN && b == -1;
        if (!over) result = floor_int(a, b);
    } else if (b != -1) {
        result = a % b;
        if (result && (result < 0) != (b < 0)) result += b;
    }
    if (over) return cti_jinja_fail(run, "integers beyond 64 bits are not run");
    return cti_jinja_int(result, mark);
}

/* The remainder has the sign of the divisor, as Python's. */
static double modulo(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0) {
        if ((rest < 0) != (b < 0)) rest += b;
    } else {
        rest = copysign(0, b);
    }
    return rest;
}

static double floor_real(double a, double b) {
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0, a / b);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static cti_jinja_value on_reals(cti_jinja_run *run, const char *op, double a, double b,
                                int32_t mark) {
    if (op[0] == '+') return cti_jinja_real(a + b, mark);
    if (op[0] == '-') return cti_jinja_real(a - b, mark);
    if (op[0] == '*' && !op[1]) return cti_jinja_real(a * b, mark);
    if (op[0] == '*') {
        if (a == 0 && b < 0) return cti_jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return cti_jinja_fail(run, "complex numbers are not run");
        const double power = pow(a, b);
        if (isinf(power) && isfinite(a) && isfinite(b))
            return cti_jinja_fail(run, "(34, 'Numerical result out of range')");
        return cti_jinja_real(power, mark);
    }
    if (b == 0)
        return cti_jinja_fail(run, op[0] == '%' ? "float modulo"
                                   : op[1]      ? "float floor division by zero"
                                                : "float division by zero");
    if (op[0] == '%') return cti_jinja_real(modulo(a, b), mark);
    return cti_jinja_real(op[1] ? floor_real(a, b) : a / b, mark);
}

/* ---- strings and lists ---- */

static cti_jinja_value add_strings(cti_jinja_run *run, const cti_jinja_string *a,
                                   const cti_jinja_string *b) {
    const bool markup = a->markup || b->markup;
    if (!markup && !b->size) return cti_jinja_string_value(a);
    if (!markup && !a->size) return cti_jinja_string_value(b);
    cti_jinja_builder out = cti_jinja_build(run);
    if (markup && !a->markup) cti_jinja_add_escaped(&out, a);
    else cti_jinja_add_string(&out, a);
    if (markup && !b->markup) cti_jinja_add_escaped(&out, b);
    else cti_jinja_add_string(&out, b);
    return cti_jinja_built(&out, markup);
}

static cti_jinja_value add_lists(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b) {
    const cti_jinja_list *parts[2] = {a.list, b.list};
    cti_jinja_list *sum = cti_jinja_list_new(run, a.list->count + b.list->count);
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < parts[part]->count && cti_jinja_step(run); i++)
            cti_jinja_append(run, sum, parts[part]->item[i]);
    return cti_jinja_list_value(a.kind, sum, a.mark == b.mark ? a.mark : 0);
}

static cti_jinja_value add_values(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b) {
    if (a.kind == CTI_JINJA_STRING && b.kind == CTI_JINJA_STRING)
        return add_strings(run, a.string, b.string);
    const bool sequence = a.kind == CTI_JINJA_LIST || a.kind == CTI_JINJA_TUPLE;
    if (sequence && a.kind == b.kind) return add_lists(run, a, b);
    if (sequence || (a.kind == CTI_JINJA_STRING && !a.string->markup))
        return cti_jinja_fail(run, "can only concatenate %s (not \"%s\") to %s",
                              cti_jinja_type_name(a), cti_jinja_type_name(b),
                              cti_jinja_type_name(a));
    return fail_operands(run, "+", a, b);
}

static bool is_sequence(cti_jinja_value value) {
    return value.kind == CTI_JINJA_STRING || value.kind == CTI_JINJA_LIST ||
           value.kind == CTI_JINJA_TUPLE;
}

static cti_jinja_value repeat(cti_jinja_run *run, cti_jinja_value of, int64_t times) {
    if (of.kind == CTI_JINJA_STRING) {
        cti_jinja_builder out = cti_jinja_build(run);
        for (int64_t i = 0; of.string->size && i < times && cti_jinja_step(run); i++)
            cti_jinja_add_string(&out, of.string);
        return cti_jinja_built(&out, of.string->markup);
    }
    cti_jinja_list *list = cti_jinja_list_new(run, 0);
    for (int64_t i = 0; of.list->count && i < times && !run->failed; i++)
        for (int64_t j = 0; j < of.list->count && cti_jinja_step(run); j++)
            cti_jinja_append(run, list, of.list->item[j]);
    return cti_jinja_list_value(of.kind, list, of.mark);
}

static cti_jinja_value multiply(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b) {
    if (is_sequence(a) && is_int(b)) return repeat(run, a, jinja_int_of(b));
    if (is_sequence(b) && is_int(a)) return repeat(run, b, jinja_int_of(a));
    if (is_sequence(a) || is_sequence(b))
        return cti_jinja_fail(run, "can't multiply sequence by non-int of type '%s'",
                              cti_jinja_type_name(is_sequence(a) ? b : a));
    return fail_operands(run, "*", a, b);
}

cti_jinja_value cti_jinja_arithmetic(cti_jinja_run *run, const char *op, cti_jinja_value a,
                                     cti_jinja_value b) {
    const int32_t mark = a.mark ? a.mark : b.mark;
    if (run->failed) return a;
    if (is_int(a) && is_int(b)) return on_ints(run, op, jinja_int_of(a), jinja_int_of(b), mark);
    if (is_numeric(a) && is_numeric(b))
        return on_reals(run, op, jinja_real_of(a), jinja_real_of(b), mark);
    if (op[0] == '%' && a.kind == CTI_JINJA_STRING) return cti_jinja_percent(run, a.string, b);
    if (a.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, a);
    if (b.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, b);
    if (op[0] == '+') return add_values(run, a, b);
    if (op[0] == '*' && !op[1]) return multiply(run, a, b);
    return fail_operands(run, op, a, b);
}

cti_jinja_value cti_jinja_negate(cti_jinja_run *run, cti_jinja_value a, bool plus) {
    if (a.kind == CTI_JINJA_REAL) return cti_jinja_real(plus ? a.real : -a.real, a.mark);
    if (is_int(a)) {
        if (plus) return cti_jinja_int(jinja_int_of(a), a.mark);
        return on_ints(run, "-", 0, jinja_int_of(a), a.mark);
    }
    if (a.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, a);
    return cti_jinja_fail(run, "bad operand type for unary %s: '%s'", plus ? "+" : "-",
                          cti_jinja_type_name(a));
}
