/* Reading the values of a file's tensors, little-endian, into tensors on a machine of any byte
 * order. */
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "safetensors.h"

enum { CHUNK = 1 << 16 }; /* bytes read and converted at a time */

bool cti_safetensors_fits(cti_file_dtype from, ct_dtype to) {
    switch (to) {
    case CT_F32:
    case CT_F64:
        return from == CTI_FILE_F16 || from == CTI_FILE_BF16 || from == CTI_FILE_F32 ||
               from == CTI_FILE_F64;
    case CT_I64: return from == CTI_FILE_I64;
    case CT_BOOL: return from == CTI_FILE_BOOL;
    }
    return false;
}

static inline uint64_t little(const unsigned char *byte, int size) {
    uint64_t bits = 0;
    for (int i = 0; i < size; i++) bits |= (uint64_t)byte[i] << 8 * i;
    return bits;
}

/* IEEE binary16 as the bits of the binary32 of the same value; a NaN keeps its payload. */
static inline uint32_t half(uint32_t h) {
    uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FF;
    if (exponent == 31) return sign | 0x7F800000 | fraction << 13;
    if (exponent == 0) {
        if (fraction == 0) return sign;
        /* subnormal; normal in binary32 */
        for (exponent = 1; !(fraction & 0x400); exponent--) fraction <<= 1;
    }
    return sign | (exponent + 112) << 23 | (fraction & 0x3FF) << 13;
}

static inline float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void to_f32(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        float value;
        switch (from) {
        case CTI_FILE_F16: bits = half((uint32_t)little(in + 2 * i, 2)); break;
        case CTI_FILE_BF16: bits = (uint32_t)little(in + 2 * i, 2) << 16; break;
        case CTI_FILE_F32: bits = (uint32_t)little(in + 4 * i, 4); break;
        default: value = (float)as_double(little(in + 8 * i, 8)); memcpy(&bits, &value, 4);
        }
        memcpy(out + 4 * i, &bits, 4);
    }
}

static void to_f64(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double value;
        switch (from) {
        case CTI_FILE_F16: value = as_float(half((uint32_t)little(in + 2 * i, 2))); break;
        case CTI_FILE_BF16: value = as_float((uint32_t)little(in + 2 * i, 2) << 16); break;
        case CTI_FILE_F32: value = as_float((uint32_t)little(in + 4 * i, 4)); break;
        default: value = as_double(little(in + 8 * i, 8));
        }
        memcpy(out + 8 * i, &value, 8);
    }
}

static void to_i64(const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = little(in + 8 * i, 8);
        memcpy(out + 8 * i, &bits, 8);
    }
}

/* Returns the index of the first byte that is not 0 or 1; n: there is none. */
static int64_t to_bool(const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (in[i] > 1) return i;
        out[i] = (char)in[i];
    }
    return n;
}

static bool refuse_bool(const cti_safetensors *header, const cti_file_tensor *from, int byte,
                        int64_t i) {
    const cti_file *file = &header->file;
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: tensor \"%s\": the byte of a bool is %d, not 0 or 1, at byte %lld",
                   file->op, file->path, NAME(from->name), byte,
                   (long long)(header->data + from->begin + i));
}

bool cti_safetensors_read(const cti_safetensors *header, const cti_file_tensor *from,
                          ct_tensor *to) {
    if (from->numel == 0) return true;
    unsigned char *chunk = cti_take(header->file.context, CHUNK);
    if (!chunk) return false;
    const int64_t from_size = (from->end - from->begin) / from->numel, /* of an element */
        to_size = (int64_t)cti_dtype_size(to->dtype), step = CHUNK / from_size;
    bool ok = true;
    for (int64_t i = 0; ok && i < from->numel; i += step) {
        const int64_t n = cti_min(from->numel - i, step);
        char *out = to->data + i * to_size;
        ok = cti_file_read(&header->file, header->data + from->begin + i * from_size, chunk,
                           (size_t)(n * from_size));
        if (!ok) break;
        switch (to->dtype) {
        case CT_F32: to_f32(from->dtype, chunk, out, n); break;
        case CT_F64: to_f64(from->dtype, chunk, out, n); break;
        case CT_I64: to_i64(chunk, out, n); break;
        case CT_BOOL: {
            const int64_t wrong = to_bool(chunk, out, n);
            ok = wrong == n || refuse_bool(header, from, chunk[wrong], i + wrong);
            break;
        }
        }
    }
    cti_give(header->file.context, chunk, CHUNK);
    return ok;
}

ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value) {
    ct_tensor *number = cti_tensor_new(context, dtype, CT_SCALAR);
    if (number) memcpy(number->data, value, cti_dtype_size(dtype));
    return number;
}

void cti_number_get(const ct_tensor *number, void *value) {
    memcpy(value, number->data, cti_dtype_size(number->dtype));
}
