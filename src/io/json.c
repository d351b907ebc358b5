/* A strict reader of JSON (RFC 8259), pull by pull, and its strings. */
#include "json.h"

#include <string.h>

ct_text ct_text_of(const char *string) { return (ct_text){string, strlen(string)}; }

int ct_text_compare(ct_text a, ct_text b) {
    int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* ---- UTF-8 (RFC 3629) ---- */

size_t ct_json_utf8(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text;
    size_t i = 0;
    while (i < size) {
        unsigned char lead = byte[i];
        size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || more >= size - i) return i;
        /* the second byte's range rules out overlong forms, surrogates and what is beyond U+10FFFF */
        unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        for (size_t k = 1; k <= more; k++, low = 0x80, high = 0xBF) {
            if (byte[i + k] < low || byte[i + k] > high) return i;
        }
        i += more + 1;
    }
    return size;
}

static char *put_utf8(char *out, uint32_t code) {
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

ct_json ct_json_read(char *text, size_t size) { return (ct_json){.text = text, .at = text, .end = text + size}; }

bool ct_json_fail(ct_json *json, const char *fault) {
    if (!json->fault) json->fault = fault;
    return false;
}

/* The next byte that is no white space; 0 at the end, where a byte 0 is no JSON anyway. */
static char peek(ct_json *json) {
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r')) json->at++;
    return json->at < json->end ? *json->at : 0;
}

bool ct_json_open(ct_json *json, char bracket) {
    if (json->fault) return false;
    if (peek(json) != bracket) return ct_json_fail(json, bracket == '{' ? "an object is expected" : "an array is expected");
    json->at++;
    return true;
}

bool ct_json_next(ct_json *json, char bracket, bool *first) {
    if (json->fault) return false;
    char c = peek(json);
    if (c == bracket) {
        json->at++;
        return false;
    }
    if (!*first) {
        if (c != ',') return ct_json_fail(json, bracket == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
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

/* The four hex digits of \uXXXX. */
static bool unit(ct_json *json, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        int digit = json->at < json->end ? hex_digit(*json->at) : -1;
        if (digit < 0) return ct_json_fail(json, "four hex digits are expected");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* What follows a backslash, as UTF-8: never longer than the escape. */
static bool escape(ct_json *json, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = json->at < json->end && *json->at ? strchr(from, *json->at) : NULL;
    if (known) {
        *(*out)++ = to[known - from];
        json->at++;
        return true;
    }
    if (json->at == json->end || *json->at != 'u') return ct_json_fail(json, "an unknown escape");
    json->at++;
    uint32_t code, low;
    if (!unit(json, &code)) return false;
    if (code >= 0xDC00 && code <= 0xDFFF) return ct_json_fail(json, "half a surrogate pair");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u') return ct_json_fail(json, "half a surrogate pair");
        json->at += 2;
        if (!unit(json, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return ct_json_fail(json, "half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    }
    *out = put_utf8(*out, code);
    return true;
}

bool ct_json_string(ct_json *json, ct_text *string) {
    if (json->fault) return false;
    if (peek(json) != '"') return ct_json_fail(json, "a string is expected");
    char *out = ++json->at;
    string->at = out;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20) return ct_json_fail(json, "a control character in a string");
        if (*json->at != '\\') {
            *out++ = *json->at++;
        } else {
            json->at++;
            if (!escape(json, &out)) return false;
        }
    }
    if (json->at == json->end) return ct_json_fail(json, "the string does not end");
    json->at++; /* past the closing quote, in whose place at the latest the NUL goes */
    *out = 0;
    string->size = (size_t)(out - string->at);
    return true;
}

bool ct_json_key(ct_json *json, ct_text *key) {
    if (!ct_json_string(json, key)) return false;
    if (peek(json) != ':') return ct_json_fail(json, "':' is expected");
    json->at++;
    return true;
}

bool ct_json_natural(ct_json *json, int64_t *number) {
    if (json->fault) return false;
    char c = peek(json);
    if (c < '0' || c > '9') return ct_json_fail(json, c == '-' ? "a number is negative" : "a whole number is expected");
    const char *start = json->at;
    int64_t n = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        int digit = *json->at - '0';
        if (n > (INT64_MAX - digit) / 10) return ct_json_fail(json, "a number is too large");
        n = 10 * n + digit;
    }
    if (*start == '0' && json->at - start > 1) return ct_json_fail(json, "a number begins with 0");
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E')) {
        return ct_json_fail(json, "a number is not a whole one");
    }
    *number = n;
    return true;
}

/* ---- writing ---- */

void ct_write_bytes(ct_writer *writer, const char *bytes, size_t size) {
    if (writer->used <= writer->size && size <= writer->size - writer->used) memcpy(writer->at + writer->used, bytes, size);
    writer->used += size;
}

void ct_write(ct_writer *writer, const char *string) { ct_write_bytes(writer, string, strlen(string)); }

void ct_write_natural(ct_writer *writer, int64_t number) {
    char digits[20];
    int i = 20;
    do digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    ct_write_bytes(writer, digits + i, (size_t)(20 - i));
}

void ct_write_escaped(ct_writer *writer, ct_text text) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < text.size; i++) {
        char c = text.at[i];
        if (c == '"' || c == '\\') {
            ct_write_bytes(writer, (char[]){'\\', c}, 2);
        } else if ((unsigned char)c < 0x20 || c == 0x7F) {
            ct_write_bytes(writer, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        } else {
            ct_write_bytes(writer, &c, 1);
        }
    }
}

void ct_write_quoted(ct_writer *writer, ct_text text) {
    ct_write(writer, "\"");
    ct_write_escaped(writer, text);
    ct_write(writer, "\"");
}
