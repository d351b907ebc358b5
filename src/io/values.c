/* Reads the values of a file's tensors, which are little-endian, into tensors on a machine of any
 * byte order. */
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "../kernels/half.h"
#include "safetensors.h"

enum { VALUES_CHUNK = 1 << 16 }; /* bytes read and converted at a time */

bool cti_safetensors_fits(cti_file_dtype from, ct_dtype to) {
    switch (to) {
    case CT_F32:
    case CT_F64:
    case CT_BF16:
        return from == CTI_FILE_F16 || from == CTI_FILE_BF16 || from == CTI_FILE_F32 ||
               from == CTI_FILE_F64;
    case CT_I64:
        return from == CTI_FILE_I8 || from == CTI_FILE_I16 || from == CTI_FILE_I32 ||
               from == CTI_FILE_I64 || from == CTI_FILE_U8 || from == CTI_FILE_U16 ||
               from == CTI_FILE_U32 || from == CTI_FILE_U64;
    case CT_BOOL: return from == CTI_FILE_BOOL;
    }
    return false;
}

static inline uint64_t little_endian_read(const unsigned char *byte, int size) {
    uint64_t bits = 0;
    for (int i = 0; i < size; i++) bits |= (uint64_t)byte[i] << 8 * i;
    return bits;
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
        case CTI_FILE_F16: bits = cti_f16_widen((uint32_t)little_endian_read(in + 2 * i, 2)); break;
        case CTI_FILE_BF16:
            bits = cti_bf16_widen((uint32_t)little_endian_read(in + 2 * i, 2));
            break;
        case CTI_FILE_F32: bits = (uint32_t)little_endian_read(in + 4 * i, 4); break;
        default:
            CTI_ASSERT(from == CTI_FILE_F64);
            value = (float)as_double(little_endian_read(in + 8 * i, 8));
            memcpy(&bits, &value, 4);
        }
        memcpy(out + 4 * i, &bits, 4);
    }
}

static double real_of(cti_file_dtype from, const unsigned char *in) {
    switch (from) {
    case CTI_FILE_F16: return (double)as_float(cti_f16_widen((uint32_t)little_endian_read(in, 2)));
    case CTI_FILE_BF16:
        return (double)as_float(cti_bf16_widen((uint32_t)little_endian_read(in, 2)));
    case CTI_FILE_F32: return (double)as_float((uint32_t)little_endian_read(in, 4));
    default: CTI_ASSERT(from == CTI_FILE_F64); return as_double(little_endian_read(in, 8));
    }
}

static void to_f64(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    const int64_t size = cti_file_dtype_bits(from) / 8;
    for (int64_t i = 0; i < n; i++) {
        const double value = real_of(from, in + size * i);
        memcpy(out + 8 * i, &value, 8);
    }
}

/* bf16 is copied; other dtypes are rounded once, to nearest, ties to even. */
static void to_bf16(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    const int64_t size = cti_file_dtype_bits(from) / 8;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits = from == CTI_FILE_BF16 ? (uint16_t)little_endian_read(in + 2 * i, 2)
                                                    : cti_bf16_narrow(real_of(from, in + size * i));
        memcpy(out + 2 * i, &bits, 2);
    }
}

/* Returns the index of the first number beyond i64, which only U64 can have; n if there is none. */
static int64_t to_i64(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    const bool is_signed = from == CTI_FILE_I8 || from == CTI_FILE_I16 || from == CTI_FILE_I32;
    const int size = cti_file_dtype_bits(from) / 8;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = little_endian_read(in + size * i, size);
        if (from == CTI_FILE_U64 && bits > INT64_MAX) return i;
        if (is_signed) bits = (bits ^ sign) - sign;
        memcpy(out + 8 * i, &bits, 8);
    }
    return n;
}

/* Returns the index of the first byte that is not 0 or 1; n if there is none. */
static int64_t to_bool(const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (in[i] > 1) return i;
        out[i] = (char)in[i];
    }
    return n;
}

static bool bool_refuse(const cti_file_tensor *from, int byte, int64_t i) {
    const cti_file *file = &from->header->file;
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: tensor \"%s\": the byte of a bool is %d, not 0 or 1, at byte %lld",
                   file->op, file->path, NAME(from->name), byte,
                   (long long)(from->header->data + from->begin + i));
}

static bool u64_refuse(const cti_file_tensor *from, uint64_t value, int64_t i) {
    const cti_file *file = &from->header->file;
    return ct_fail(file->context, CT_ERR_DTYPE,
                   "%s: %s: tensor \"%s\": the U64 %llu is beyond i64, at byte %lld", file->op,
                   file->path, NAME(from->name), (unsigned long long)value,
                   (long long)(from->header->data + from->begin + 8 * i));
}

bool cti_safetensors_read(const cti_file_tensor *from, int64_t first, int64_t count, ct_tensor *to,
                          int64_t at) {
    if (count == 0) return true;
    const cti_safetensors *header = from->header;
    unsigned char *chunk = cti_take(header->file.context, VALUES_CHUNK);
    if (!chunk) return false;
    const int64_t from_size = cti_file_dtype_bits(from->dtype) / 8, /* bytes of an element */
        to_size = (int64_t)cti_dtype_size(to->dtype), step = VALUES_CHUNK / from_size;
    bool ok = true;
    for (int64_t done = 0, n; ok && done < count; done += n) {
        n = cti_min(count - done, step);
        const int64_t i = first + done;
        char *out = to->data + (at + done) * to_size;
        ok = cti_file_read(&header->file, header->data + from->begin + i * from_size, chunk,
                           (size_t)(n * from_size));
        if (!ok) break;
        int64_t wrong;
        switch (to->dtype) {
        case CT_F32: to_f32(from->dtype, chunk, out, n); break;
        case CT_F64: to_f64(from->dtype, chunk, out, n); break;
        case CT_BF16: to_bf16(from->dtype, chunk, out, n); break;
        case CT_I64:
            wrong = to_i64(from->dtype, chunk, out, n);
            ok =
                wrong == n || u64_refuse(from, little_endian_read(chunk + 8 * wrong, 8), i + wrong);
            break;
        case CT_BOOL:
            wrong = to_bool(chunk, out, n);
            ok = wrong == n || bool_refuse(from, chunk[wrong], i + wrong);
            break;
        }
    }
    cti_give(header->file.context, chunk, VALUES_CHUNK);
    return ok;
}

bool cti_safetensors_same_values(const ct_tensor *a, const ct_tensor *b) {
    return a->numel == 0 || !memcmp(a->data, b->data, (size_t)a->numel * cti_dtype_size(a->dtype));
}

ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value) {
    ct_tensor *number = cti_tensor_new(context, dtype, CT_SCALAR);
    if (number) memcpy(number->data, value, cti_dtype_size(dtype));
    return number;
}

void cti_number_get(const ct_tensor *number, void *value) {
    memcpy(value, number->data, cti_dtype_size(number->dtype));
}
