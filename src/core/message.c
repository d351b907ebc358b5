/* A printf that escapes control characters and ill-formed bytes, and shortens long texts. It parses
 * the format itself, because it must know which parts of a message are texts (%s). */
#include "message.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static const char ellipsis[] = "...";
/* SHORTEST is the least length in bytes to which a text is shortened. */
enum { ELLIPSIS = sizeof ellipsis - 1, SHORTEST = 8 };

/* Whether c is a continuation byte of UTF-8. */
static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

size_t cti_text_shorten(char *out, size_t most, const char *text, size_t length) {
    if (length <= most) {
        memcpy(out, text, length);
        out[length] = 0;
        return length;
    }
    const size_t kept = most - ELLIPSIS;
    size_t head = kept - kept / 2, tail = kept / 2;
    while (head > 0 && continues(text[head])) head--;
    while (tail > 0 && continues(text[length - tail])) tail--;
    memcpy(out, text, head);
    memcpy(out + head, ellipsis, ELLIPSIS);
    memcpy(out + head + ELLIPSIS, text + length - tail, tail);
    out[head + ELLIPSIS + tail] = 0;
    return head + ELLIPSIS + tail;
}

/* ---- escapes ---- */

size_t cti_utf8_character(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text, lead = byte[0];
    const size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || more >= size) return 0;
    /* this range of the second byte excludes overlong forms, surrogates and codes beyond U+10FFFF
     */
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t k = 1; k <= more; k++, low = 0x80, high = 0xBF)
        if (byte[k] < low || byte[k] > high) return 0;
    return more + 1;
}

/* Writes the character or byte at the front of a text as a message shows it, and sets *used to its
 * bytes in the text. Returns the bytes written. Terminals obey the characters below U+0020, U+007F
 * and U+0080 to U+009F. */
static size_t show_character(char out[8], const char *text, size_t size, size_t *used) {
    const unsigned char c = (unsigned char)text[0];
    *used = cti_utf8_character(text, size);
    const bool control = *used == 1 ? c < 0x20 || c == 0x7F
                                    : *used == 2 && c == 0xC2 && (unsigned char)text[1] < 0xA0;
    if (*used && !control) {
        memcpy(out, text, *used);
        return *used;
    }
    if (!*used) {
        *used = 1;
        return (size_t)snprintf(out, 8, "\\x%02x", c);
    }
    return (size_t)snprintf(out, 8, "\\u%04x", *used == 1 ? c : (unsigned char)text[1]);
}

static bool is_clean(const char *text) {
    char shown[8];
    size_t used, left = strlen(text);
    for (; left; text += used, left -= used)
        if (show_character(shown, text, left, &used) != used || shown[0] != text[0]) return false;
    return true;
}

/* Puts '?' in the place of what show_character would escape. */
static void message_clean(char *text) {
    char shown[8];
    size_t used, left = strlen(text);
    for (; left; text += used, left -= used) {
        const size_t n = show_character(shown, text, left, &used);
        if (n != used || memcmp(shown, text, n) != 0) memset(text, '?', used);
    }
}

/* Copies a text and a NUL, escaped. Returns its length, or a negative number if it does not fit. */
static int show_text(char *out, size_t size, const char *text, size_t length) {
    size_t n = 0;
    for (size_t used; length; text += used, length -= used) {
        char shown[8];
        const size_t more = show_character(shown, text, length, &used);
        if (more >= size - n) return (int)size;
        memcpy(out + n, shown, more);
        n += more;
    }
    out[n] = 0;
    return (int)n;
}

/* ---- one directive of a format ---- */

typedef struct {
    char text[64]; /* the whole directive, in which arguments replace each * */
    size_t size;
    int precision;  /* the precision, or a negative number if there is none */
    char length[3]; /* the length modifier: "", "h", "hh", "l", "ll", "j", "z", "t", "L" */
    char conversion;
} directive;

static bool put_bytes(directive *d, const char *text, size_t size) {
    if (size >= sizeof d->text - d->size) return false;
    memcpy(d->text + d->size, text, size);
    d->size += size;
    d->text[d->size] = 0;
    return true;
}

/* va_list may be an array type, and a parameter of such a type is a pointer. A struct around it is
 * passed by its address in the same way on every system. */
typedef struct {
    va_list list;
} arguments;

/* Reads a width, or a precision with its point: digits, or * for an argument. A negative precision
 * counts as none. */
static const char *read_number(directive *d, const char *at, arguments *args, int *value) {
    const bool precision = *at == '.';
    char digits[16];
    if (at[precision] == '*') {
        *value = va_arg(args->list, int);
        at += precision + 1;
    } else {
        char *end;
        const long number = strtol(at + precision, &end, 10);
        *value = number > INT_MAX ? INT_MAX : (int)number;
        at = end;
    }
    if (precision && *value < 0) return at;
    snprintf(digits, sizeof digits, precision ? ".%d" : "%d", *value);
    return put_bytes(d, digits, strlen(digits)) ? at : NULL;
}

/* Reads the directive that begins behind a %. Returns the rest of the format behind the directive,
 * or NULL if this file does not implement the directive. */
static const char *read_directive(directive *d, const char *at, arguments *args) {
    *d = (directive){.text = "%", .size = 1, .precision = -1};
    const size_t flags = strspn(at, "-+ #0'");
    int width;
    if (!put_bytes(d, at, flags)) return NULL;
    at += flags;
    if (*at == '*' || (*at >= '1' && *at <= '9')) at = read_number(d, at, args, &width);
    if (at && *at == '.') at = read_number(d, at, args, &d->precision);
    if (!at) return NULL;
    const size_t length = strspn(at, "hljztL");
    if (length >= sizeof d->length || !put_bytes(d, at, length)) return NULL;
    memcpy(d->length, at, length);
    at += length;
    d->conversion = *at;
    return *at && put_bytes(d, at, 1) ? at + 1 : NULL;
}

#define PRINT(type) snprintf(out, size, d->text, va_arg(args->list, type))

static int print_signed(char *out, size_t size, const directive *d, arguments *args) {
    const char *l = d->length;
    if (!strcmp(l, "l")) return PRINT(long);
    if (!strcmp(l, "ll")) return PRINT(long long);
    if (!strcmp(l, "j")) return PRINT(intmax_t);
    if (!strcmp(l, "z")) return PRINT(size_t);
    if (!strcmp(l, "t")) return PRINT(ptrdiff_t);
    return *l == 0 || *l == 'h' ? PRINT(int) : -1;
}

static int print_unsigned(char *out, size_t size, const directive *d, arguments *args) {
    const char *l = d->length;
    if (!strcmp(l, "l")) return PRINT(unsigned long);
    if (!strcmp(l, "ll")) return PRINT(unsigned long long);
    if (!strcmp(l, "j")) return PRINT(uintmax_t);
    if (!strcmp(l, "z")) return PRINT(size_t);
    if (!strcmp(l, "t")) return PRINT(ptrdiff_t);
    return *l == 0 || *l == 'h' ? PRINT(unsigned) : -1;
}

static int print_text(char *out, size_t size, size_t most, const directive *d, arguments *args) {
    if (*d->length) return PRINT(wchar_t *);
    const char *text = va_arg(args->list, const char *);
    if (!text) text = "(null)";
    const char *end = d->precision < 0 ? NULL : memchr(text, 0, (size_t)d->precision);
    const size_t length = end                ? (size_t)(end - text)
                          : d->precision < 0 ? strlen(text)
                                             : (size_t)d->precision;
    char shortened[CTI_MESSAGE_SIZE];
    if (most >= sizeof shortened) most = sizeof shortened - 1;
    const size_t n = cti_text_shorten(shortened, most, text, length);
    const int shown = show_text(out, size, shortened, n);
    const bool same = length <= most && (size_t)shown == n; /* printed with its width */
    return same ? snprintf(out, size, d->text, text) : shown;
}

static int print_byte(char *out, size_t size, const directive *d, arguments *args) {
    const int c = va_arg(args->list, int);
    const char byte = (char)c;
    const int shown = show_text(out, size, &byte, byte != 0);
    return shown == (byte != 0) ? snprintf(out, size, d->text, c) : shown;
}

/* Returns the full length as snprintf does, or a negative number for an unknown directive. */
static int print_directive(char *out, size_t size, size_t most, const directive *d,
                           arguments *args) {
    switch (d->conversion) {
    case 'd':
    case 'i': return print_signed(out, size, d, args);
    case 'u':
    case 'o':
    case 'x':
    case 'X': return print_unsigned(out, size, d, args);
    case 'c': return *d->length ? -1 : print_byte(out, size, d, args);
    case 'p': return PRINT(void *);
    case 's': return print_text(out, size, most, d, args);
    case '%': return snprintf(out, size, "%%");
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': return *d->length == 'L' ? PRINT(long double) : PRINT(double);
    }
    return -1;
}

/* ---- a message ---- */

/* Prints with each text shortened to at most `most` bytes. Returns whether the message fits; if
 * not, *out is "". */
static bool print(char *out, size_t size, size_t most, const char *format, va_list list) {
    arguments args;
    va_copy(args.list, list);
    size_t used = 0;
    bool fits = true;
    while (fits && *format) {
        const size_t plain = strcspn(format, "%");
        directive d;
        int n = (int)plain;
        if (plain > 0) {
            if (plain < size - used) memcpy(out + used, format, plain);
            format += plain;
        } else {
            format = read_directive(&d, format + 1, &args);
            n = format ? print_directive(out + used, size - used, most, &d, &args) : -1;
        }
        fits = n >= 0 && (size_t)n < size - used;
        if (fits) used += (size_t)n;
    }
    va_end(args.list);
    out[fits ? used : 0] = 0;
    return fits;
}

void cti_message(char *out, size_t size, const char *format, va_list list) {
    va_list whole;
    va_copy(whole, list);
    const int length = vsnprintf(out, size, format, whole);
    va_end(whole);
    if (length >= 0 && (size_t)length < size && is_clean(out)) return;

    /* A bisection finds the largest length of texts with which the message fits. If the message
     * does not fit with the shortest texts, it is cut off at its end. */
    size_t low = SHORTEST, high = size;
    if (print(out, size, high, format, list)) return;
    if (!print(out, size, low, format, list)) {
        va_copy(whole, list);
        vsnprintf(out, size, format, whole);
        va_end(whole);
        message_clean(out);
        return;
    }
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (print(out, size, middle, format, list)) low = middle;
        else high = middle;
    }
    print(out, size, low, format, list);
}
