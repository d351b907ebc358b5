/* number.h: the digits of numbers. */
#include "number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"

/* The text of inf and nan; false for a finite number. */
static bool real_special(double x, char *text) {
    if (isfinite(x)) return false;
    strcpy(text, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    return true;
}

void cti_jinja_real_digits(double x, char type, bool alternate, int precision, char *text,
                           size_t room) {
    if (real_special(x, text)) return;
    const char format[] = {'%',
                           alternate ? '#' : '.',
                           alternate ? '.' : '*',
                           alternate ? '*' : type,
                           alternate ? type : 0,
                           0};
    snprintf(text, room, format, precision, x);
    cti_json_point(text);
}

/* Adds one to the last of the digits d.ddde+xx, of which not all are 9. */
static void increment_digits(char *text) {
    char *at = strchr(text, 'e') - 1;
    for (; *at == '9' || *at < '0' || *at > '9'; at--)
        if (*at == '9') *at = '0';
    ++*at;
}

/* The fewest digits that are read as x, which has digits up to 17. 15 digits are always read as
 * themselves, so the shortest text of a number that they give is theirs without zeros behind; only
 * below DBL_MIN can fewer digits than they be enough. Above a power of two the numbers lie twice as
 * far apart as below it, so that the nearest 16 digits may be another number's, and the next ones
 * its own. */
static int shortest_digits(double x, char text[CTI_JINJA_DIGITS]) {
    int exponent;
    for (int digits = fabs(x) < DBL_MIN ? 1 : DBL_DIG; digits < DBL_DECIMAL_DIG; digits++) {
        snprintf(text, CTI_JINJA_DIGITS, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x) return digits;
        if (digits < DBL_DECIMAL_DIG - 1 || fabs(frexp(x, &exponent)) != 0.5) continue;
        increment_digits(text);
        if (strtod(text, NULL) == x) return digits;
    }
    snprintf(text, CTI_JINJA_DIGITS, "%.*e", DBL_DECIMAL_DIG - 1, x);
    return DBL_DECIMAL_DIG;
}

/* Digits of the form d.ddde+xx are shown as such, or with a point where they have it, as repr. */
void cti_jinja_real_text(double x, char text[CTI_JINJA_DIGITS]) {
    if (real_special(x, text)) return;
    char digits[CTI_JINJA_DIGITS];
    int count = shortest_digits(x, digits);
    cti_json_point(digits);
    const bool negative = digits[0] == '-';
    const int exponent = atoi(strchr(digits, 'e') + 1);
    char *number = digits + negative; /* its digits, without the point */
    if (number[1] == '.') memmove(number + 1, number + 2, (size_t)count - 1);
    while (count > 1 && number[count - 1] == '0') count--;
    char *out = text;
    if (negative) *out++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *out++ = number[0];
        if (count > 1) *out++ = '.';
        memcpy(out, number + 1, (size_t)count - 1);
        snprintf(out + count - 1, 16, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) { /* 0.000ddd */
        memcpy(out, "0.000", 5);
        out += 1 - exponent;
        memcpy(out, number, (size_t)count);
        out[count] = 0;
        return;
    }
    for (int i = 0; i < count || i <= exponent + 1; i++) {
        if (i == exponent + 1) *out++ = '.';
        *out++ = i < count ? number[i] : '0';
    }
    *out = 0;
}

double cti_jinja_real_round(double x, int64_t digits) {
    enum { MOST_DIGITS = 323, FEWEST_DIGITS = -309 };
    if (!isfinite(x) || digits > MOST_DIGITS) return x;
    if (digits < FEWEST_DIGITS) return 0 * x;
    char text[1100];
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "%.0f", trunc(fabs(x)));
    const int64_t kept = (int64_t)strlen(text) + digits; /* digits that stay */
    if (kept > 0) {
        snprintf(text, sizeof text, "%.*e", (int)kept - 1, x);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "5e%d", (int)(-digits - 1)); /* half of the unit */
    if (kept < 0 || fabs(x) <= strtod(text, NULL)) return 0 * x;
    snprintf(text, sizeof text, "1e%d", (int)-digits);
    return copysign(strtod(text, NULL), x);
}

/* ---- reading ---- */

/* The text without white space around it and with ASCII digits. NULL if there is nothing, or a
 * character that is in no number: for int() and float() of Python also U+001C to U+001F, which
 * str.isspace takes for white space. */
static char *read_plain(cti_jinja_run *run, const cti_jinja_string *text) {
    size_t size = 0, length;
    char *out = cti_jinja_take(run, text->size + 1, 1);
    if (!out) return NULL;
    bool ended = false;
    for (size_t i = 0; i < text->size; i += length) {
        uint32_t c = cti_utf8_get(text->at + i, &length);
        if (cti_python_is_space(c) && (c < 0x1C || c > 0x1F)) {
            ended = ended || size;
            continue;
        }
        const int digit = c < 0x80 ? -1 : cti_python_decimal(c);
        if (digit >= 0) c = (uint32_t)('0' + digit);
        if (ended || c >= 0x80 || !c) return NULL;
        out[size++] = (char)c;
    }
    out[size] = 0;
    return size ? out : NULL;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Takes out the underscores. Returns false if one does not stand between two digits. */
static bool drop_underscores(char *text, int base) {
    char *out = text;
    for (char *at = text; *at; at++) {
        if (*at != '_') {
            *out++ = *at;
            continue;
        }
        if (at == text || digit_value(at[-1]) >= base || digit_value(at[1]) >= base) return false;
    }
    *out = 0;
    return true;
}

/* The base that a prefix says, which is passed over; 10 without one. */
static int64_t read_base(char **at, int64_t base) {
    const char letter = (*at)[0] == '0' ? (char)((*at)[1] | 0x20) : 0;
    const int64_t said = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (said && (base == 0 || base == said)) {
        *at += 2;
        if (**at == '_') ++*at; /* 0x_1f */
        return said;
    }
    return base ? base : 10;
}

bool cti_jinja_int_read(cti_jinja_run *run, const cti_jinja_string *text, int64_t base,
                        int64_t *integer, bool *beyond) {
    *beyond = false;
    if ((base && base < 2) || base > 36 || base < 0) return false;
    char *at = read_plain(run, text);
    if (!at) return false;
    const bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    const bool any_base = !base;
    const char *const begin = at;
    base = read_base(&at, base);
    if (!*at || !drop_underscores(at, (int)base)) return false;
    /* in base 0 only zero begins with a zero */
    const bool old_octal = any_base && at == begin && at[0] == '0' && at[strspn(at, "0")];
    uint64_t sum = 0;
    for (; *at; at++) {
        const int digit = digit_value(*at);
        if (digit >= base || old_octal) return false;
        if (__builtin_mul_overflow(sum, (uint64_t)base, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)digit, &sum))
            *beyond = true;
    }
    if (sum > (uint64_t)INT64_MAX + negative) *beyond = true;
    *integer = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

/* inf, infinity and nan in any case. */
static bool read_special(const char *text, double *x) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    for (int i = 0; i < 3; i++) {
        size_t at = 0;
        while (names[i][at] && (text[at] | 0x20) == names[i][at]) at++;
        if (names[i][at] || text[at]) continue;
        *x = i == 2 ? NAN : INFINITY;
        return true;
    }
    return false;
}

/* strtod wants the point of the program's locale. */
static double read_in_locale(cti_jinja_run *run, const char *text) {
    char point[16];
    snprintf(point, sizeof point, "%.1f", 0.5);
    const size_t dot = strcspn(text, "."), room = strlen(text) + sizeof point;
    if (!text[dot]) return strtod(text, NULL);
    char *local = cti_jinja_take(run, room, 1);
    if (!local) return 0;
    snprintf(local, room, "%.*s%.*s%s", (int)dot, text, (int)strlen(point) - 2, point + 1,
             text + dot + 1);
    return strtod(local, NULL);
}

bool cti_jinja_real_read(cti_jinja_run *run, const cti_jinja_string *text, double *x) {
    char *plain = read_plain(run, text);
    if (!plain || !drop_underscores(plain, 10)) return false;
    const bool negative = plain[0] == '-';
    const char *const at = plain + (negative || plain[0] == '+');
    if (!read_special(at, x)) {
        const size_t whole = strspn(at, "0123456789");
        size_t i = whole + (at[whole] == '.');
        const size_t part = strspn(at + i, "0123456789");
        i += part;
        if (!whole && !part) return false;
        if (at[i] == 'e' || at[i] == 'E') {
            i += 1 + (at[i + 1] == '+' || at[i + 1] == '-');
            const size_t exponent = strspn(at + i, "0123456789");
            if (!exponent) return false;
            i += exponent;
        }
        if (at[i]) return false;
        *x = read_in_locale(run, at);
    }
    if (negative) *x = -*x;
    return true;
}

/* ---- arguments ---- */

bool cti_jinja_is_int(cti_jinja_value value, int64_t *integer) {
    if (value.kind == CTI_JINJA_INT) *integer = value.integer;
    else if (value.kind == CTI_JINJA_BOOL) *integer = value.boolean;
    else return false;
    return true;
}

bool cti_jinja_int_of(cti_jinja_run *run, cti_jinja_value value, int64_t *integer) {
    if (cti_jinja_is_int(value, integer)) return true;
    cti_jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                   cti_jinja_type_name(value));
    return false;
}
