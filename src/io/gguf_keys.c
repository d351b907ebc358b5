/* Values of a GGUF header's keys. Writers differ in kinds, so an integer is taken from any kind of
 * integer, and a real from any number. */
#include <string.h>

#include "gguf.h"

static bool kind_is_integer(cti_gguf_kind kind) {
    return kind <= CTI_GGUF_I32 || kind == CTI_GGUF_U64 || kind == CTI_GGUF_I64;
}
static bool kind_is_real(cti_gguf_kind kind) {
    return kind == CTI_GGUF_F32 || kind == CTI_GGUF_F64 || kind_is_integer(kind);
}

static uint64_t key_little(const unsigned char *at, int bytes) {
    uint64_t number = 0;
    for (int i = bytes; i-- > 0;) number = number << 8 | at[i];
    return number;
}

int64_t cti_gguf_integer_at(const cti_gguf_pair *pair, int64_t i) {
    const unsigned char *at = pair->at;
    switch (pair->kind) {
    case CTI_GGUF_U8: return at[i];
    case CTI_GGUF_BOOL: return at[i] != 0;
    case CTI_GGUF_I8: return (int8_t)at[i];
    case CTI_GGUF_U16: return (uint16_t)key_little(at + 2 * i, 2);
    case CTI_GGUF_I16: return (int16_t)key_little(at + 2 * i, 2);
    case CTI_GGUF_U32: return (uint32_t)key_little(at + 4 * i, 4);
    case CTI_GGUF_I32: return (int32_t)key_little(at + 4 * i, 4);
    case CTI_GGUF_U64:
    case CTI_GGUF_I64: return (int64_t)key_little(at + 8 * i, 8);
    case CTI_GGUF_F32:
    case CTI_GGUF_F64:
    case CTI_GGUF_STRING:
    case CTI_GGUF_ARRAY:
    case CTI_GGUF_KINDS: break;
    }
    CTI_ASSERT(false); /* the caller asked for the kind */
    return 0;
}

double cti_gguf_real_at(const cti_gguf_pair *pair, int64_t i) {
    if (pair->kind == CTI_GGUF_F32) {
        const uint32_t bits = (uint32_t)key_little(pair->at + 4 * i, 4);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    if (pair->kind == CTI_GGUF_F64) {
        const uint64_t bits = key_little(pair->at + 8 * i, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return (double)cti_gguf_integer_at(pair, i);
}

cti_text cti_gguf_next_text(const cti_gguf_pair *pair, cti_gguf_cursor *cursor) {
    const unsigned char *at = cursor->next ? cursor->next : pair->at;
    const cti_text text = {(const char *)at + 4, (size_t)key_little(at, 4)};
    cursor->next = at + 8 + text.size; /* behind the NUL and 3 further bytes */
    return text;
}

/* ---- checks ---- */

static bool value_refuse(const cti_gguf *gguf, const cti_gguf_pair *pair, const char *wanted) {
    return cti_gguf_fail(gguf, pair->key.at, "is %s%s, not %s, at byte %lld",
                         pair->is_array ? "an array of " : "", cti_gguf_kind_name(pair->kind),
                         wanted, (long long)pair->byte);
}

/* Whether all integers of the pair are in int64. */
static bool integers_check(const cti_gguf *gguf, const cti_gguf_pair *pair) {
    if (pair->kind != CTI_GGUF_U64) return true;
    for (int64_t i = 0; i < pair->count; i++)
        if (cti_gguf_integer_at(pair, i) < 0)
            return cti_gguf_fail(gguf, pair->key.at, "%llu is beyond int64, at byte %lld",
                                 (unsigned long long)key_little(pair->at + 8 * i, 8),
                                 (long long)(pair->byte + 8 * i));
    return true;
}

static bool strings_check(const cti_gguf *gguf, const cti_gguf_pair *pair, bool nul) {
    cti_gguf_cursor cursor = {0};
    int64_t byte = pair->byte;
    for (int64_t i = 0; i < pair->count; i++) {
        const cti_text text = cti_gguf_next_text(pair, &cursor);
        const size_t valid = cti_json_utf8(text.at, text.size);
        if (valid < text.size)
            return cti_gguf_fail(gguf, pair->key.at, "is not UTF-8 at byte %lld",
                                 (long long)(byte + 8 + (int64_t)valid));
        const char *zero = nul ? NULL : memchr(text.at, 0, text.size);
        if (zero)
            return cti_gguf_fail(gguf, pair->key.at, "has U+0000 at byte %lld",
                                 (long long)(byte + 8 + (zero - text.at)));
        byte += 8 + (int64_t)text.size;
    }
    return true;
}

/* ---- scalars ---- */

/* The pair of a key if it is a scalar of a kind for which is_kind holds. NULL: it is absent, and
 * *ok is true, or an error was recorded. */
static const cti_gguf_pair *scalar_find(const cti_gguf *gguf, const char *key,
                                        bool (*is_kind)(cti_gguf_kind), const char *wanted,
                                        bool *ok) {
    const cti_gguf_pair *pair = cti_gguf_find(gguf, key);
    *ok = !pair || (!pair->is_array && is_kind(pair->kind)) || value_refuse(gguf, pair, wanted);
    return *ok ? pair : NULL;
}

static bool kind_is_flag(cti_gguf_kind kind) { return kind == CTI_GGUF_BOOL; }
static bool kind_is_text(cti_gguf_kind kind) { return kind == CTI_GGUF_STRING; }

bool cti_gguf_integer(const cti_gguf *gguf, const char *key, int64_t *out) {
    bool ok;
    const cti_gguf_pair *pair = scalar_find(gguf, key, kind_is_integer, "an integer", &ok);
    if (!pair) return ok;
    if (!integers_check(gguf, pair)) return false;
    *out = cti_gguf_integer_at(pair, 0);
    return true;
}

bool cti_gguf_real(const cti_gguf *gguf, const char *key, double *out) {
    bool ok;
    const cti_gguf_pair *pair = scalar_find(gguf, key, kind_is_real, "a number", &ok);
    if (!pair) return ok;
    if (!integers_check(gguf, pair)) return false;
    *out = cti_gguf_real_at(pair, 0);
    return true;
}

bool cti_gguf_flag(const cti_gguf *gguf, const char *key, bool *out) {
    bool ok;
    const cti_gguf_pair *pair = scalar_find(gguf, key, kind_is_flag, "a bool", &ok);
    if (pair) *out = cti_gguf_integer_at(pair, 0) != 0;
    return ok;
}

bool cti_gguf_text(const cti_gguf *gguf, const char *key, cti_text *out) {
    bool ok;
    const cti_gguf_pair *pair = scalar_find(gguf, key, kind_is_text, "a string", &ok);
    if (!pair) return ok;
    if (!strings_check(gguf, pair, false)) return false;
    cti_gguf_cursor cursor = {0};
    *out = cti_gguf_next_text(pair, &cursor);
    return true;
}

/* ---- arrays ---- */

bool cti_gguf_array(const cti_gguf *gguf, const char *key, cti_gguf_kind kind,
                    const cti_gguf_pair **out) {
    const cti_gguf_pair *pair = cti_gguf_find(gguf, key);
    if (!pair) return true;
    if (pair->count > 0) {
        const bool fits = kind == CTI_GGUF_I64   ? kind_is_integer(pair->kind)
                          : kind == CTI_GGUF_F64 ? kind_is_real(pair->kind)
                                                 : pair->kind == kind;
        const char *wanted = kind == CTI_GGUF_I64      ? "integers"
                             : kind == CTI_GGUF_F64    ? "numbers"
                             : kind == CTI_GGUF_STRING ? "strings"
                                                       : "bools";
        if (!fits) return value_refuse(gguf, pair, wanted);
        if (kind == CTI_GGUF_STRING ? !strings_check(gguf, pair, true)
                                    : !integers_check(gguf, pair))
            return false;
    }
    *out = pair;
    return true;
}
