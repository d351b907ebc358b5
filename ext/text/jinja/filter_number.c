/* Filters of numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "filters.h"
#include "number.h"

static cti_jinja_value beyond_int(cti_jinja_run *run) {
    return cti_jinja_fail(run, "integers beyond 64 bits are not run");
}

/* The integer part of a number that has one. */
static cti_jinja_value truncate_real(cti_jinja_run *run, double x, int32_t mark) {
    if (!isfinite(x))
        return cti_jinja_fail(run, "cannot convert float %s to integer",
                              isnan(x) ? "NaN" : "infinity");
    if (x >= 0x1p63 || x < -0x1p63) return beyond_int(run);
    return cti_jinja_int((int64_t)x, mark);
}

CTI_JINJA_FILTER(abs) {
    const cti_jinja_value value = call->arg[0];
    int64_t integer;
    if (value.kind == CTI_JINJA_REAL) return cti_jinja_real(fabs(value.real), value.mark);
    if (cti_jinja_is_int(value, &integer)) {
        if (integer == INT64_MIN) return beyond_int(run);
        return cti_jinja_int(integer < 0 ? -integer : integer, value.mark);
    }
    if (value.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, value);
    return cti_jinja_fail(run, "bad operand type for abs(): '%s'", cti_jinja_type_name(value));
}

/* float(value) of Jinja's filters. Returns false where Python has a TypeError or ValueError. */
static bool read_real(cti_jinja_run *run, cti_jinja_value value, double *x) {
    int64_t integer;
    if (value.kind == CTI_JINJA_UNDEFINED) cti_jinja_undefined_fail(run, value);
    else if (value.kind == CTI_JINJA_REAL) *x = value.real;
    else if (cti_jinja_is_int(value, &integer)) *x = (double)integer;
    else return value.kind == CTI_JINJA_STRING && cti_jinja_real_read(run, value.string, x);
    return !run->failed;
}

CTI_JINJA_FILTER(float) {
    double x = 0;
    if (read_real(run, call->arg[0], &x)) return cti_jinja_real(x, call->arg[0].mark);
    return cti_jinja_is_absent(call->arg[1]) ? cti_jinja_real(0, 0) : call->arg[1];
}

CTI_JINJA_FILTER(int) {
    enum { VALUE, OTHER, BASE };
    const cti_jinja_value value = call->arg[VALUE];
    int64_t integer, base = 10;
    bool beyond = false;
    double x;
    if (cti_jinja_is_int(value, &integer)) return cti_jinja_int(integer, value.mark);
    if (value.kind == CTI_JINJA_REAL && !isnan(value.real))
        return truncate_real(run, value.real, value.mark);
    const bool has_base =
        cti_jinja_is_absent(call->arg[BASE]) || cti_jinja_is_int(call->arg[BASE], &base);
    if (value.kind == CTI_JINJA_STRING && has_base &&
        cti_jinja_int_read(run, value.string, base, &integer, &beyond))
        return beyond ? beyond_int(run) : cti_jinja_int(integer, value.mark);
    if (read_real(run, value, &x) && isfinite(x)) return truncate_real(run, x, value.mark);
    return cti_jinja_is_absent(call->arg[OTHER]) ? cti_jinja_int(0, 0) : call->arg[OTHER];
}

/* round(integer, digits) for digits < 0: to a multiple of a power of ten, half to even. */
static cti_jinja_value round_int(cti_jinja_run *run, int64_t integer, int64_t digits,
                                 int32_t mark) {
    const uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    uint64_t unit = 1;
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(unit, (uint64_t)10, &unit)) return cti_jinja_int(0, mark);
    uint64_t times = size / unit;
    const uint64_t rest = size % unit, up = unit - rest;
    times += rest > up || (rest == up && times % 2);
    if (__builtin_mul_overflow(times, unit, &times) || times > (uint64_t)INT64_MAX)
        return beyond_int(run);
    return cti_jinja_int(integer < 0 ? -(int64_t)times : (int64_t)times, mark);
}

/* floor or ceil(value * 10**digits) / 10**digits. */
static cti_jinja_value round_way(cti_jinja_run *run, cti_jinja_value value, cti_jinja_value digits,
                                 bool up) {
    const cti_jinja_value power = cti_jinja_arithmetic(run, "**", cti_jinja_int(10, 0), digits);
    cti_jinja_value scaled = cti_jinja_arithmetic(run, "*", value, power);
    if (run->failed) return value;
    int64_t integer;
    if (scaled.kind == CTI_JINJA_REAL) {
        if (!isfinite(scaled.real)) return truncate_real(run, scaled.real, 0);
        scaled.real = up ? ceil(scaled.real) : floor(scaled.real);
        if (fabs(scaled.real) < 0x1p63) scaled = truncate_real(run, scaled.real, value.mark);
    } else if (!cti_jinja_is_int(scaled, &integer)) {
        return cti_jinja_fail(run, "must be real number, not %s", cti_jinja_type_name(scaled));
    }
    return cti_jinja_arithmetic(run, "/", scaled, power);
}

CTI_JINJA_FILTER(round) {
    enum { VALUE, PRECISION, METHOD };
    const cti_jinja_value value = call->arg[VALUE], method = call->arg[METHOD];
    const cti_jinja_value precision =
        cti_jinja_is_absent(call->arg[PRECISION]) ? cti_jinja_int(0, 0) : call->arg[PRECISION];
    const cti_jinja_string *name = method.kind == CTI_JINJA_STRING ? method.string : NULL;
    const bool up = cti_jinja_string_is(name, "ceil");
    int64_t integer, digits;
    if (up || cti_jinja_string_is(name, "floor")) return round_way(run, value, precision, up);
    if (!cti_jinja_is_absent(method) && !cti_jinja_string_is(name, "common"))
        return cti_jinja_fail(run, "method must be common, ceil or floor");
    const bool whole = cti_jinja_is_int(value, &integer);
    if (value.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, value);
    if (!whole && value.kind != CTI_JINJA_REAL)
        return cti_jinja_fail(run, "type %s doesn't define __round__ method",
                              cti_jinja_type_name(value));
    if (precision.kind == CTI_JINJA_NONE) {
        if (whole) return cti_jinja_int(integer, value.mark);
        return truncate_real(
            run, isfinite(value.real) ? cti_jinja_real_round(value.real, 0) : value.real,
            value.mark);
    }
    if (!cti_jinja_int_of(run, precision, &digits)) return value;
    if (whole && digits >= 0) return cti_jinja_int(integer, value.mark);
    if (whole) return round_int(run, integer, digits, value.mark);
    const double rounded = cti_jinja_real_round(value.real, digits);
    if (isinf(rounded) && !isinf(value.real))
        return cti_jinja_fail(run, "rounded value too large to represent");
    return cti_jinja_real(rounded, value.mark);
}

CTI_JINJA_FILTER(sum) {
    enum { VALUE, ATTRIBUTE, START };
    const cti_jinja_path path = cti_jinja_path_read(
        run, call->arg[ATTRIBUTE], (cti_jinja_value){.kind = CTI_JINJA_ABSENT}, false);
    cti_jinja_value sum =
        cti_jinja_is_absent(call->arg[START]) ? cti_jinja_int(0, 0) : call->arg[START];
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, call->arg[VALUE]);
    if (sum.kind == CTI_JINJA_STRING)
        return cti_jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    for (cti_jinja_value item; cti_jinja_next(run, iterator, &item);)
        sum = cti_jinja_arithmetic(run, "+", sum, cti_jinja_path_get(run, &path, item));
    return sum;
}

/* A size in bytes with a unit. 10^24 is above its double, so that the double is below the unit. */
CTI_JINJA_FILTER(filesizeformat) {
    static const char letters[] = "kMGTPEZY";
    const bool binary = cti_jinja_truth(run, call->arg[1]);
    const double base = binary ? 1024 : 1000;
    static const double units[] = {1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24, 1e27};
    char text[CTI_JINJA_DIGITS];
    double bytes = 0;
    if (!read_real(run, call->arg[0], &bytes)) {
        if (run->failed) return call->arg[0];
        return cti_jinja_fail(run, "could not convert a '%s' to float",
                              cti_jinja_type_name(call->arg[0]));
    }
    if (bytes == 1) {
        strcpy(text, "1 Byte");
    } else if (bytes < base) {
        const cti_jinja_value whole = truncate_real(run, bytes, 0);
        if (run->failed) return whole;
        snprintf(text, sizeof text, "%.0f Bytes", (double)whole.integer);
    } else {
        int i = 0;
        double unit;
        do unit = binary ? ldexp(1, 10 * (i + 2)) : units[i];
        while (!(bytes < unit || (i == 6 && !binary && bytes == unit)) && ++i < 8);
        cti_jinja_real_digits(base * bytes / unit, 'f', false, 1, text, sizeof text);
        const char letter = letters[i < 8 ? i : 7];
        const char named[] = {' ', binary && letter == 'k' ? 'K' : letter, binary ? 'i' : 'B',
                              binary ? 'B' : 0, 0};
        strcat(text, named);
    }
    return cti_jinja_string_make(run, text, strlen(text), call->arg[0].mark);
}
