/* format.h: alignment, digits, signs and thousands. */
#include "format.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../utf8.h"
#include "number.h"

static void add_fill(cti_jinja_builder *out, const cti_jinja_spec *spec, int64_t count) {
    for (int64_t i = 0; i < count && !out->run->failed; i++)
        cti_jinja_add(out, spec->fill, spec->fill_size, spec->mark);
}

/* How many of `missing` characters stand before the text. */
static int64_t fill_before(char align, int64_t missing) {
    return align == '<' ? 0 : align == '^' ? missing / 2 : missing;
}

void cti_jinja_add_aligned(cti_jinja_builder *out, const cti_jinja_string *string,
                           const cti_jinja_spec *spec, char align) {
    if (!string) return;
    const int64_t missing = spec->width > string->length ? spec->width - string->length : 0;
    const int64_t before = fill_before(spec->align ? spec->align : align, missing);
    add_fill(out, spec, before);
    cti_jinja_add_string(out, string);
    add_fill(out, spec, missing - before);
}

const cti_jinja_string *cti_jinja_cut(cti_jinja_run *run, const cti_jinja_string *string,
                                      int64_t count) {
    if (!string || count < 0 || count >= string->length) return string;
    return cti_jinja_substring(run, string, 0, cti_jinja_byte_of(string, count)).string;
}

const cti_jinja_string *cti_jinja_repr_text(cti_jinja_run *run, cti_jinja_value value, bool ascii) {
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_repr(&out, value, value.mark);
    const cti_jinja_value text = cti_jinja_built(&out, false);
    if (run->failed) return NULL;
    if (!ascii || cti_jinja_is_ascii(text.string)) return text.string;
    size_t length;
    for (size_t i = 0; i < text.string->size; i += length) {
        const uint32_t c = cti_utf8_get(text.string->at + i, &length);
        char escape[12];
        if (c < 0x80) {
            cti_jinja_add_part(&out, text.string, i, i + 1);
            continue;
        }
        const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
        snprintf(escape, sizeof escape, format, (unsigned)c);
        cti_jinja_add_text(&out, escape, cti_jinja_mark_at(text.string, i));
    }
    const cti_jinja_value plain = cti_jinja_built(&out, false);
    return run->failed ? NULL : plain.string;
}

const cti_jinja_string *cti_jinja_escaped(cti_jinja_run *run, const cti_jinja_string *string) {
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_add_escaped(&out, string);
    const cti_jinja_value text = cti_jinja_built(&out, true);
    return run->failed ? NULL : text.string;
}

/* ---- numbers ---- */

/* A number as text: sign, prefix such as 0x, and digits, of which the first `whole` stand before
 * the point. */
typedef struct {
    char sign;
    const char *prefix, *digits;
    int64_t whole;
} number_text;

/* Adds `count` whole digits in groups, the first of which are zeros if the number has fewer. */
static void add_groups(cti_jinja_builder *out, const number_text *number, int64_t count, int group,
                       const cti_jinja_spec *spec, int32_t mark) {
    for (int64_t i = count; i > 0 && !out->run->failed; i--) {
        const int64_t at = number->whole - i;
        if (at < 0) cti_jinja_add_text(out, "0", spec->mark);
        else cti_jinja_add(out, number->digits + at, 1, mark);
        if (i > 1 && (i - 1) % group == 0) cti_jinja_add(out, &spec->grouping, 1, mark);
    }
}

static void add_number(cti_jinja_builder *out, const number_text *number, int32_t mark,
                       const cti_jinja_spec *spec) {
    const bool has_sign = !number->sign && (spec->sign == '+' || spec->sign == ' ');
    const char sign[2] = {has_sign ? spec->sign : number->sign, 0};
    const char align = spec->align ? spec->align : '>';
    const char *rest = number->digits + number->whole;
    const bool bits = spec->type && strchr("boxX", spec->type);
    const int group = spec->grouping && number->whole ? (bits ? 4 : 3) : INT_MAX;
    const bool zeros = align == '=' && spec->fill_size == 1 && spec->fill[0] == '0';
    const int64_t around = (int64_t)(strlen(sign) + strlen(number->prefix) + strlen(rest));
    int64_t count = number->whole; /* of whole digits, zeros that stand in groups among them */
    const int64_t least = group < INT_MAX && zeros ? spec->width - around : 0;
    while (count + (count - 1) / group < least && count < CTI_JINJA_OUTPUT) count++;
    const int64_t size = around + count + (count ? (count - 1) / group : 0);
    const int64_t missing = spec->width > size ? spec->width - size : 0;
    const int64_t before = align == '=' ? 0 : fill_before(align, missing);
    add_fill(out, spec, before);
    cti_jinja_add_text(out, sign, mark);
    cti_jinja_add_text(out, number->prefix, mark);
    if (align == '=') add_fill(out, spec, missing);
    add_groups(out, number, count, group, spec, mark);
    cti_jinja_add_text(out, rest, mark);
    if (align != '=') add_fill(out, spec, missing - before);
}

static void add_code_point(cti_jinja_builder *out, int64_t integer, int32_t mark,
                           const cti_jinja_spec *spec) {
    char utf8[4];
    if (integer < 0 || integer > 0x10FFFF || (integer >= 0xD800 && integer < 0xE000)) {
        cti_jinja_fail(out->run, "%%c arg not in range(0x110000), or half of a surrogate pair");
        return;
    }
    const size_t size = cti_utf8_put(utf8, (uint32_t)integer);
    const cti_jinja_value one = cti_jinja_string_make(out->run, utf8, size, mark);
    if (!out->run->failed) cti_jinja_add_aligned(out, one.string, spec, '>');
}

void cti_jinja_add_integer(cti_jinja_builder *out, int64_t integer, int32_t mark,
                           const cti_jinja_spec *spec) {
    if (spec->type == 'c') {
        add_code_point(out, integer, mark, spec);
        return;
    }
    const unsigned base = spec->type == 'b' ? 2 : spec->type == 'o' ? 8 : 16;
    const bool other = spec->type && strchr("boxX", spec->type);
    const char *digit = spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    uint64_t left = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    char digits[80], prefix[3] = {'0', spec->type, 0};
    char *at = digits + sizeof digits;
    *--at = 0;
    do *--at = digit[left % (other ? base : 10)];
    while (left /= other ? base : 10);
    number_text number = {.sign = integer < 0 ? '-' : 0,
                          .prefix = other && spec->alternate ? prefix : "",
                          .digits = at,
                          .whole = digits + sizeof digits - 1 - at};
    if (spec->precision <= number.whole) {
        add_number(out, &number, mark, spec);
        return;
    }
    /* %.5d: at least so many digits */
    cti_jinja_builder zeros = cti_jinja_build(out->run);
    for (int64_t i = number.whole; i < spec->precision && !out->run->failed; i++)
        cti_jinja_add_text(&zeros, "0", mark);
    cti_jinja_add(&zeros, at, (size_t)number.whole + 1, mark);
    if (out->run->failed) return;
    number.digits = zeros.at;
    number.whole = spec->precision;
    add_number(out, &number, mark, spec);
}

/* The text of a float with a precision but no type: as %g, but it has digits behind a point, or an
 * exponent, which is taken one digit earlier. */
static void real_general(double x, int precision, char *text, size_t room) {
    if (!precision) precision = 1;
    cti_jinja_real_digits(x, 'e', false, precision - 1, text, room);
    const char *e = strchr(text, 'e');
    if (!e) return; /* inf, nan */
    const int exponent = atoi(e + 1);
    const bool small = exponent >= -4 && exponent < precision - 1;
    cti_jinja_real_digits(x, 'g', false, precision, text, room);
    if (small) {
        if (!strchr(text, '.')) strcat(text, ".0");
    } else if (!strchr(text, 'e')) { /* %g has still no exponent */
        cti_jinja_real_digits(x, 'e', false, precision - 1, text, room);
        char *end = strchr(text, 'e'), *last = end;
        while (strchr(text, '.') && strchr(text, '.') < end && last[-1] == '0') last--;
        if (last[-1] == '.') last--;
        memmove(last, end, strlen(end) + 1);
    }
}

void cti_jinja_add_real(cti_jinja_builder *out, double x, int32_t mark,
                        const cti_jinja_spec *spec) {
    const bool percent = spec->type == '%';
    const bool capitals = spec->type == 'E' || spec->type == 'F' || spec->type == 'G';
    const char small = capitals ? (char)(spec->type - 'A' + 'a') : spec->type;
    const char type = percent ? 'f' : small == 'n' ? 'g' : small;
    const int64_t precision = spec->precision < 0 ? 6 : spec->precision;
    if (precision > CTI_JINJA_OUTPUT) {
        cti_jinja_fail(out->run, "precision too big");
        return;
    }
    const size_t room = (size_t)precision + CTI_JINJA_DIGITS;
    char *text = cti_jinja_take(out->run, room, 1);
    if (!text) return;
    if (percent) x *= 100;
    if (!type && spec->precision < 0) cti_jinja_real_text(x, text);
    else if (!type) real_general(x, (int)precision, text, room);
    else cti_jinja_real_digits(x, type, spec->alternate, (int)precision, text, room);
    if (percent) strcat(text, "%");
    if (capitals)
        for (char *at = text; *at; at++)
            if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
    const bool negative = text[0] == '-';
    const number_text number = {.sign = negative ? '-' : 0,
                                .prefix = "",
                                .digits = text + negative,
                                .whole = (int64_t)strspn(text + negative, "0123456789")};
    add_number(out, &number, mark, spec);
}
