/* A strict pull parser of JSON (RFC 8259), and a writer of its strings. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/message.h"

cti_text cti_text_of(const char *string) { return (cti_text){string, strlen(string)}; }

int cti_text_compare(cti_text a, cti_text b) {
    int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* ---- UTF-8 (RFC 3629) ---- */

size_t cti_json_utf8(const char *text, size_t size) {
    for (size_t i = 0, n; i < size; i += n) {
        n = (unsigned char)text[i] < 0x80 ? 1 : cti_utf8_character(text + i, size - i);
        if (!n) return i;
    }
    return size;
}

static char *utf8_put(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(lead[more] | code >> 6 * more);
    while (more--) *out++ = (char)(0x80 | (code >> 6 * more & 0x3F));
    return out;
}

/* ---- reading ---- */

cti_json cti_json_read(char *text, size_t size) {
    return (cti_json){.text = text, .at = text, .end = text + size};
}

bool cti_json_fail(cti_json *json, const char *fault) {
    if (!json->fault) json->fault = fault;
    return false;
}

/* The next byte after white space; 0 at the end of the text. A byte 0 is no JSON, so a caller need
 * not tell the two apart. */
static char json_peek(cti_json *json) {
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

char cti_json_look(cti_json *json) { return json->fault ? 0 : json_peek(json); }

bool cti_json_open(cti_json *json, char bracket) {
    if (json->fault) return false;
    if (json_peek(json) != bracket)
        return cti_json_fail(json,
                             bracket == '{' ? "an object is expected" : "an array is expected");
    json->at++;
    return true;
}

bool cti_json_next(cti_json *json, char bracket, bool *first) {
    if (json->fault) return false;
    char c = json_peek(json);
    if (c == bracket) {
        json->at++;
        return false;
    }
    if (!*first) {
        if (c != ',')
            return cti_json_fail(json, bracket == '}' ? "',' or '}' is expected"
                                                      : "',' or ']' is expected");
        json->at++;
    }
    *first = false;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Reads the four hex digits of \uXXXX. */
static bool unit(cti_json *json, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        int digit = json->at < json->end ? hex_digit(*json->at) : -1;
        if (digit < 0) return cti_json_fail(json, "four hex digits are expected");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Reads the rest of an escape, behind its backslash. Writes the character as UTF-8, which is never
 * longer than the escape. */
static bool json_escape_read(cti_json *json, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = json->at < json->end && *json->at ? strchr(from, *json->at) : NULL;
    if (known) {
        *(*out)++ = to[known - from];
        json->at++;
        return true;
    }
    if (json->at == json->end || *json->at != 'u') return cti_json_fail(json, "an unknown escape");
    json->at++;
    uint32_t code, low;
    if (!unit(json, &code)) return false;
    if (code >= 0xDC00 && code <= 0xDFFF) return cti_json_fail(json, "half a surrogate pair");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return cti_json_fail(json, "half a surrogate pair");
        json->at += 2;
        if (!unit(json, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return cti_json_fail(json, "half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    }
    *out = utf8_put(*out, code);
    return true;
}

bool cti_json_string(cti_json *json, cti_text *string) {
    if (json->fault) return false;
    if (json_peek(json) != '"') return cti_json_fail(json, "a string is expected");
    char *out = ++json->at;
    string->at = out;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return cti_json_fail(json, "a control character in a string");
        if (*json->at != '\\') {
            *out++ = *json->at++;
        } else {
            json->at++;
            if (!json_escape_read(json, &out)) return false;
        }
    }
    if (json->at == json->end) return cti_json_fail(json, "the string does not end");
    json->at++;
    *out = 0; /* this byte is the closing quote, or lies before it */
    string->size = (size_t)(out - string->at);
    return true;
}

bool cti_json_key(cti_json *json, cti_text *key) {
    if (!cti_json_string(json, key)) return false;
    if (json_peek(json) != ':') return cti_json_fail(json, "':' is expected");
    json->at++;
    return true;
}

bool cti_json_natural(cti_json *json, int64_t *number) {
    if (json->fault) return false;
    char c = json_peek(json);
    if (c < '0' || c > '9')
        return cti_json_fail(json,
                             c == '-' ? "a number is negative" : "a whole number is expected");
    const char *start = json->at;
    int64_t n = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        int digit = *json->at - '0';
        if (n > (INT64_MAX - digit) / 10) return cti_json_fail(json, "a number is too large");
        n = 10 * n + digit;
    }
    if (*start == '0' && json->at - start > 1) return cti_json_fail(json, "a number begins with 0");
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E')) {
        return cti_json_fail(json, "a number is not a whole one");
    }
    *number = n;
    return true;
}

/* Passes over decimal digits, at least one. */
static bool digits_skip(cti_json *json) {
    const char *start = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
    return json->at > start || cti_json_fail(json, "a digit is expected");
}

static bool one_of_skip(cti_json *json, const char *characters) {
    const bool is_there = json->at < json->end && *json->at && strchr(characters, *json->at);
    json->at += is_there;
    return is_there;
}

static bool number_skip(cti_json *json) {
    one_of_skip(json, "-");
    const char *start = json->at;
    if (!digits_skip(json)) return false;
    if (*start == '0' && json->at - start > 1) return cti_json_fail(json, "a number begins with 0");
    if (one_of_skip(json, ".") && !digits_skip(json)) return false;
    if (!one_of_skip(json, "eE")) return true;
    one_of_skip(json, "+-");
    return digits_skip(json);
}

bool cti_json_number(cti_json *json, cti_text *spelling) {
    if (json->fault) return false;
    const char c = json_peek(json);
    if (c != '-' && (c < '0' || c > '9')) return cti_json_fail(json, "a number is expected");
    spelling->at = json->at;
    if (!number_skip(json)) return false;
    spelling->size = (size_t)(json->at - spelling->at);
    return true;
}

bool cti_json_word(cti_json *json, const char *word) {
    const size_t size = strlen(word);
    cti_json_look(json);
    if (json->fault || (size_t)(json->end - json->at) < size || memcmp(json->at, word, size))
        return false;
    json->at += size;
    return true;
}

/* Passes over a string, a number, true, false or null. cti_json_next checks the text behind it. */
static bool scalar_skip(cti_json *json) {
    cti_text string;
    const char c = json_peek(json);
    if (c == '"') return cti_json_string(json, &string);
    if (c == '-' || (c >= '0' && c <= '9')) return number_skip(json);
    if (cti_json_word(json, "true") || cti_json_word(json, "false") || cti_json_word(json, "null"))
        return true;
    return cti_json_fail(json, "a value is expected");
}

bool cti_json_skip(cti_json *json, cti_json_visit *visit, void *arg) {
    enum { DEEPEST = 64 };
    char bracket[DEEPEST];   /* the bracket that closes each open array or object */
    int64_t object[DEEPEST]; /* the number of each open object */
    bool first = true;       /* no item of the innermost array or object has been read */
    int depth = 0;
    cti_text key;
    do {
        const char c = json->fault ? 0 : json_peek(json);
        if (c == '{' || c == '[') {
            if (depth == DEEPEST) return cti_json_fail(json, "nested too deep");
            json->at++;
            json->skipped += c == '{';
            object[depth] = json->skipped;
            bracket[depth++] = c == '{' ? '}' : ']';
            first = true;
        } else if (!json->fault && !scalar_skip(json)) {
            return false;
        }
        while (depth && !cti_json_next(json, bracket[depth - 1], &first)) {
            if (json->fault) return false;
            depth--;
            first = false;
        }
        if (depth && bracket[depth - 1] == '}' &&
            (!cti_json_key(json, &key) || (visit && !visit(arg, object[depth - 1], key))))
            return false;
    } while (depth && !json->fault);
    return !json->fault;
}

static bool is_decimal(char c) { return c >= '0' && c <= '9'; }

/* The spelling is written anew as 19 digits and an exponent, because strtod reads the decimal point
 * of the program's locale. A 1 behind the digits stands for all that are left out: the number is
 * rounded as if they were there. */
double cti_real_read(cti_text spelling) {
    enum { LARGEST_EXPONENT = 100000 };
    const bool negative = spelling.at[0] == '-';
    uint64_t digits = 0;
    int64_t scale = 0, exponent = 0;
    bool point = false, more = false;
    size_t i = negative;
    for (; i < spelling.size && (is_decimal(spelling.at[i]) || spelling.at[i] == '.'); i++) {
        const bool fits = digits < UINT64_MAX / 10 - 1;
        if (spelling.at[i] == '.') {
            point = true;
            continue;
        }
        if (fits) digits = 10 * digits + (uint64_t)(spelling.at[i] - '0');
        else more |= spelling.at[i] != '0';
        scale += (fits ? 0 : 1) - (point ? 1 : 0);
    }
    const bool down = i + 1 < spelling.size && spelling.at[i + 1] == '-';
    for (; i < spelling.size; i++)
        if (is_decimal(spelling.at[i]) && exponent < LARGEST_EXPONENT)
            exponent = 10 * exponent + (spelling.at[i] - '0');
    scale += (down ? -exponent : exponent) - more;
    char spelled[48];
    snprintf(spelled, sizeof spelled, "%s%llu%se%lld", negative ? "-" : "",
             (unsigned long long)digits, more ? "1" : "", (long long)scale);
    return strtod(spelled, NULL);
}

/* ---- writing ---- */

void cti_bytes_write(cti_writer *writer, const char *bytes, size_t size) {
    if (size && writer->used <= writer->size && size <= writer->size - writer->used)
        memcpy(writer->at + writer->used, bytes, size);
    writer->used += size;
}

void cti_string_write(cti_writer *writer, const char *string) {
    cti_bytes_write(writer, string, strlen(string));
}

void cti_natural_write(cti_writer *writer, int64_t number) {
    char digits[20];
    int i = 20;
    do digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    cti_bytes_write(writer, digits + i, (size_t)(20 - i));
}

void cti_json_point(char *number) {
    char *at = number + strspn(number, "+-0123456789");
    if (!*at || *at == 'e' || *at == '.' || strchr("in", *at)) return; /* inf, nan */
    const char *rest = at + strcspn(at, "0123456789");
    *at = '.';
    memmove(at + 1, rest, strlen(rest) + 1);
}

void cti_real_write(cti_writer *writer, double number) {
    char text[40];
    int digits = 1;
    do snprintf(text, sizeof text, "%.*g", digits, number);
    while (digits++ < 17 && strtod(text, NULL) != number); /* both in the same locale */
    cti_json_point(text);
    cti_string_write(writer, text);
}

void cti_escaped_write(cti_writer *writer, cti_text text) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < text.size; i++) {
        char c = text.at[i];
        if (c == '"' || c == '\\') {
            cti_bytes_write(writer, (char[]){'\\', c}, 2);
        } else if ((unsigned char)c < 0x20 || c == 0x7F) {
            cti_bytes_write(writer, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        } else {
            cti_bytes_write(writer, &c, 1);
        }
    }
}

void cti_quoted_write(cti_writer *writer, cti_text text) {
    cti_string_write(writer, "\"");
    cti_escaped_write(writer, text);
    cti_string_write(writer, "\"");
}
