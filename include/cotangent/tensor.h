/* Tensors: up to 8 dims of f32, f64, i64, bool or bf16, with arbitrary strides. Functions that
 * make, read and write them.
 *
 * A size is an int64_t and may be 0; a scalar has no dims and one element. A size in bytes
 * that overflows is CT_ERR_MEMORY; negative sizes or more than 8 dims are CT_ERR_SHAPE. */
#ifndef CT_TENSOR_H
#define CT_TENSOR_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* New tensors, row-major, owned by the innermost scope. ct_empty's values are
 * undefined. */
CT_API ct_tensor *ct_zeros(ct_context *context, ct_dtype dtype, ct_shape shape);
CT_API ct_tensor *ct_ones(ct_context *context, ct_dtype dtype, ct_shape shape);
CT_API ct_tensor *ct_empty(ct_context *context, ct_dtype dtype, ct_shape shape);

/* Every element is value, cast to dtype as in C; bool is value != 0. */
CT_API ct_tensor *ct_full(ct_context *context, ct_dtype dtype, ct_shape shape, double value);

/* (ceil((end - start) / step)): start, start + step, ... up to but excluding end. A step of 0 or
 * of the wrong sign, a bound that is not finite, and dtype bool are errors. */
CT_API ct_tensor *ct_arange(ct_context *context, ct_dtype dtype, double start, double end,
                            double step);

/* uniform in [0, 1); f32 or f64 */
CT_API ct_tensor *ct_rand(ct_context *context, ct_dtype dtype, ct_shape shape);
/* standard normal; f32 or f64 */
CT_API ct_tensor *ct_randn(ct_context *context, ct_dtype dtype, ct_shape shape);

/* A copy of row-major data. data may be NULL only where the shape has no element. */
CT_API ct_tensor *ct_from_f32(ct_context *context, ct_shape shape, const float *data);
CT_API ct_tensor *ct_from_f64(ct_context *context, ct_shape shape, const double *data);
CT_API ct_tensor *ct_from_i64(ct_context *context, ct_shape shape, const int64_t *data);
CT_API ct_tensor *ct_from_bool(ct_context *context, ct_shape shape, const bool *data);

/* A tensor over the caller's memory, which must outlive every use of it and be aligned for dtype.
 * strides are in elements and may be zero or negative; the stride of a dim of size 1 is ignored;
 * NULL: row-major. */
CT_API ct_tensor *ct_wrap(ct_context *context, ct_dtype dtype, ct_shape shape,
                          const int64_t *strides, void *data);

CT_API ct_dtype ct_dtype_of(const ct_tensor *tensor);
CT_API ct_shape ct_shape_of(const ct_tensor *tensor); /* of NULL: ndim 0 */
CT_API int ct_ndim(const ct_tensor *tensor);
/* the size of a dim; a negative dim counts from the end. No such dim: an error and -1 */
CT_API int64_t ct_dim(const ct_tensor *tensor, int dim);
CT_API int64_t ct_numel(const ct_tensor *tensor);

/* The elements of a contiguous tensor of that dtype, in place. Not contiguous: CT_ERR_ARGUMENT (see
 * ct_contiguous); another dtype: CT_ERR_DTYPE. Writes through the pointer are not
 * counted, so backward does not notice if they change saved values. */
CT_API float *ct_data_f32(ct_tensor *tensor);
CT_API double *ct_data_f64(ct_tensor *tensor);
CT_API int64_t *ct_data_i64(ct_tensor *tensor);
CT_API bool *ct_data_bool(ct_tensor *tensor);
CT_API uint16_t *ct_data_bf16(ct_tensor *tensor); /* the bits: the upper half of an f32's */

/* Copies the elements in row-major order, cast to the pointer's type, from any strides. count must
 * be the tensor's. */
CT_API bool ct_to_f32(const ct_tensor *tensor, float *out, int64_t count);
CT_API bool ct_to_f64(const ct_tensor *tensor, double *out, int64_t count);
CT_API bool ct_to_i64(const ct_tensor *tensor, int64_t *out, int64_t count);
CT_API bool ct_to_bool(const ct_tensor *tensor, bool *out, int64_t count);

/* the value of a tensor with one element; otherwise CT_ERR_SHAPE and NaN */
CT_API double ct_item(const ct_tensor *tensor);

/* ---- in place ---- */

/* Change the values of `to`, which may be a view: then those of the tensor it is a view of change
 * too. `from` broadcasts to to's shape; both may have any strides. It is read first: where the two
 * share memory, as views of one tensor do, the result is that of a copy of from. A `to` of which
 * two elements share memory, as an expanded one's do, is CT_ERR_ARGUMENT; every other layout is
 * written, interleaved ones too (strides 2 and 5 of 4 x 4 elements). Not recorded: no gradient
 * flows to from, and to may require one; it counts as a write, so a backward that would read to's
 * earlier values is an error. False: an error, and nothing has changed. */

/* to = from, converted to to's dtype as by ct_cast */
CT_API bool ct_copy_into(ct_tensor *to, const ct_tensor *from);
/* to = to + w (from - to), or from |w| = 1/2 on from - (1 - w)(from - to), as torch's lerp_; both
 * f32 or both f64; any finite w. A moving average of parameters: ct_lerp_into(average, p, 1 - d) */
CT_API bool ct_lerp_into(ct_tensor *to, const ct_tensor *from, double w);

/* Prints values, shape and dtype in the manner of torch; the middle of long dims is left out. */
CT_API void ct_print(const ct_tensor *tensor, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
