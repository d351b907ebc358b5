/* NumPy's header: a strict parser of the one literal that numpy.save writes. As in NumPy, a text of
 * more than 10,000 bytes, another key and a missing key are faults. */
#include "npy.h"

#include <cotangent/autograd.h>

#include <string.h>

#include "../../src/core/memory.h"

enum { NPY_PREFIX = 12, MOST_NPY_TEXT = 10000, NPY_KEYS = 3 };

typedef struct {
    const cti_file *file;
    const char *text, *at, *end;
    int64_t begin; /* the offset of the text in the file */
} npy_parser;

bool cti_npy_is(const unsigned char *first, size_t n) {
    return n >= CTI_NPY_MAGIC && !memcmp(first, "\x93NUMPY", CTI_NPY_MAGIC);
}

static bool npy_fail(const npy_parser *parser, const char *fault) {
    return ct_fail(parser->file->context, CT_ERR_FORMAT, "%s: %s: byte %lld: NumPy's header: %s",
                   parser->file->op, parser->file->path,
                   (long long)(parser->begin + (parser->at - parser->text)), fault);
}

/* ---- tokens of the literal ---- */

static void npy_skip(npy_parser *parser) {
    while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at) parser->at++;
}

/* Whether the next character is c, which is passed over. */
static bool npy_takes(npy_parser *parser, char c) {
    npy_skip(parser);
    if (parser->at == parser->end || *parser->at != c) return false;
    parser->at++;
    return true;
}

static bool npy_expect(npy_parser *parser, char c) {
    if (npy_takes(parser, c)) return true;
    char fault[] = "'?' is missing";
    fault[1] = c;
    return npy_fail(parser, fault);
}

/* Reads a string without escapes. */
static bool npy_string(npy_parser *parser, const char **string, size_t *size) {
    npy_skip(parser);
    const char quote = parser->at < parser->end ? *parser->at : 0;
    if (quote != '\'' && quote != '"') return npy_fail(parser, "a string is missing");
    const char *begin = parser->at + 1;
    const char *end = memchr(begin, quote, (size_t)(parser->end - begin));
    if (!end) return npy_fail(parser, "a string does not end");
    if (memchr(begin, '\\', (size_t)(end - begin)))
        return npy_fail(parser, "an escape in a string");
    *string = begin;
    *size = (size_t)(end - begin);
    parser->at = end + 1;
    return true;
}

static bool npy_word(npy_parser *parser, const char *word) {
    const size_t size = strlen(word);
    if ((size_t)(parser->end - parser->at) < size || memcmp(parser->at, word, size) != 0)
        return false;
    parser->at += size;
    return true;
}

/* ---- values ---- */

static bool npy_dtype(npy_parser *parser, cti_npy *npy) {
    npy_skip(parser);
    if (parser->at < parser->end && *parser->at == '[')
        return npy_fail(parser, "an array of records");
    const char *string = NULL;
    size_t size = 0;
    if (!npy_string(parser, &string, &size)) return false;
    if (size >= sizeof npy->dtype || memchr(string, 0, size))
        return npy_fail(parser, "no dtype is spelled like this");
    memcpy(npy->dtype, string, size);
    npy->dtype[size] = 0;
    return true;
}

static bool npy_order(npy_parser *parser, cti_npy *npy) {
    npy_skip(parser);
    npy->fortran_order = npy_word(parser, "True");
    return npy->fortran_order || npy_word(parser, "False") ||
           npy_fail(parser, "fortran_order is neither True nor False");
}

static bool npy_dim(npy_parser *parser, int64_t *dim) {
    const char *begin = parser->at;
    for (*dim = 0; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9';
         parser->at++)
        if (__builtin_mul_overflow(*dim, 10, dim) ||
            __builtin_add_overflow(*dim, *parser->at - '0', dim))
            return npy_fail(parser, "a dim of 2^63 or more");
    return parser->at > begin || npy_fail(parser, "a dim is no natural number");
}

static bool npy_shape(npy_parser *parser, cti_npy *npy) {
    npy->dims = 0;
    npy->length = 1;
    if (!npy_expect(parser, '(')) return false;
    while (!npy_takes(parser, ')')) {
        int64_t dim;
        if (!npy_dim(parser, &dim)) return false;
        if (__builtin_mul_overflow(npy->length, dim, &npy->length))
            return npy_fail(parser, "the size overflows");
        npy->dims++;
        if (npy_takes(parser, ',')) continue;
        /* (5) is a number in Python and no tuple */
        if (npy->dims == 1) return npy_fail(parser, "',' is missing");
        return npy_expect(parser, ')');
    }
    return true;
}

/* ---- the whole ---- */

static bool npy_literal(npy_parser *parser, cti_npy *npy) {
    static const char *const keys[NPY_KEYS] = {"descr", "fortran_order", "shape"};
    bool (*const read[NPY_KEYS])(npy_parser *, cti_npy *) = {npy_dtype, npy_order, npy_shape};
    bool has[NPY_KEYS] = {false};
    if (!npy_expect(parser, '{')) return false;
    while (!npy_takes(parser, '}')) {
        const char *key = NULL;
        size_t size = 0;
        if (!npy_string(parser, &key, &size)) return false;
        int k = 0;
        while (k < NPY_KEYS && (strlen(keys[k]) != size || memcmp(keys[k], key, size) != 0)) k++;
        if (k == NPY_KEYS) return npy_fail(parser, "a key other than descr, fortran_order, shape");
        if (has[k]) return npy_fail(parser, "a key stands twice");
        has[k] = true;
        if (!npy_expect(parser, ':') || !read[k](parser, npy)) return false;
        if (npy_takes(parser, ',')) continue;
        if (!npy_expect(parser, '}')) return false;
        break;
    }
    npy_skip(parser);
    if (parser->at < parser->end) return npy_fail(parser, "something follows '}'");
    for (int k = 0; k < NPY_KEYS; k++)
        if (!has[k]) return npy_fail(parser, "descr, fortran_order or shape is missing");
    return true;
}

bool cti_npy_read(const cti_file *file, cti_npy *npy) {
    unsigned char first[NPY_PREFIX] = {0};
    npy_parser parser = {.file = file};
    if (file->size < NPY_PREFIX) {
        parser.begin = file->size;
        return npy_fail(&parser, "the file ends inside it");
    }
    if (!cti_file_read(file, 0, first, sizeof first)) return false;
    *npy = (cti_npy){0};
    parser.begin = CTI_NPY_MAGIC;
    if (first[6] < 1 || first[6] > 3) return npy_fail(&parser, "a version other than 1, 2 and 3");
    const bool is_long = first[6] > 1;
    uint32_t size = first[8] | (uint32_t)first[9] << 8;
    if (is_long) size |= (uint32_t)first[10] << 16 | (uint32_t)first[11] << 24;
    parser.begin = 8;
    if (size > MOST_NPY_TEXT) return npy_fail(&parser, "more than 10000 bytes");
    parser.begin = is_long ? NPY_PREFIX : NPY_PREFIX - 2;
    npy->data = parser.begin + size;
    if (npy->data > file->size) {
        parser.begin = file->size;
        return npy_fail(&parser, "the file ends inside it");
    }
    char *text = cti_take_any(file->context, size + 1);
    if (!text) return false;
    parser.text = parser.at = text;
    parser.end = text + size;
    const bool ok = cti_file_read(file, parser.begin, text, size) && npy_literal(&parser, npy);
    cti_give_any(file->context, text, size + 1);
    return ok;
}
