/* This header has the functions that make, read and write tensors. A tensor has up to 8 dims and
 * any strides, and its elements are f32, f64, i64, bool or bf16.
 *
 * The size of a dim is an int64_t and may be 0; a scalar has no dims and one element. A negative
 * size or more than 8 dims are CT_ERR_SHAPE. If the size of a tensor in bytes overflows, that is
 * CT_ERR_MEMORY. */
#ifndef CT_TENSOR_H
#define CT_TENSOR_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- new tensors ---- */

/* A new tensor is row-major and belongs to the innermost scope. The values of ct_empty are
 * undefined. */
CT_API ct_tensor *ct_zeros(ct_context *context, ct_dtype dtype, ct_shape shape);
CT_API ct_tensor *ct_ones(ct_context *context, ct_dtype dtype, ct_shape shape);
CT_API ct_tensor *ct_empty(ct_context *context, ct_dtype dtype, ct_shape shape);

/* Sets each element to `value`, converted to dtype by a C cast; for bool, to value != 0. */
CT_API ct_tensor *ct_full(ct_context *context, ct_dtype dtype, ct_shape shape, double value);

/* Returns start, start + step, ... up to but excluding end, of shape (ceil((end - start) / step)).
 * A step of 0 or of the wrong sign, or a number that is not finite, is CT_ERR_ARGUMENT. The dtypes
 * bool and bf16 are CT_ERR_DTYPE. */
CT_API ct_tensor *ct_arange(ct_context *context, ct_dtype dtype, double start, double end,
                            double step);

/* Draws from the uniform distribution on [0, 1); dtype is f32 or f64. */
CT_API ct_tensor *ct_rand(ct_context *context, ct_dtype dtype, ct_shape shape);
/* Draws from the standard normal distribution; dtype is f32 or f64. */
CT_API ct_tensor *ct_randn(ct_context *context, ct_dtype dtype, ct_shape shape);

/* Returns a tensor with a copy of row-major data. data may be NULL only if the shape has no
 * element. */
CT_API ct_tensor *ct_from_f32(ct_context *context, ct_shape shape, const float *data);
CT_API ct_tensor *ct_from_f64(ct_context *context, ct_shape shape, const double *data);
CT_API ct_tensor *ct_from_i64(ct_context *context, ct_shape shape, const int64_t *data);
CT_API ct_tensor *ct_from_bool(ct_context *context, ct_shape shape, const bool *data);

/* Returns a tensor over the caller's memory, which is not copied. The memory must outlive every use
 * of the tensor and be aligned for dtype. strides are in elements and may be zero or negative; the
 * stride of a dim of size 1 is ignored; NULL means row-major. */
CT_API ct_tensor *ct_wrap(ct_context *context, ct_dtype dtype, ct_shape shape,
                          const int64_t *strides, void *data);

/* ---- reading ---- */

CT_API ct_dtype ct_dtype_of(const ct_tensor *tensor);
CT_API ct_shape ct_shape_of(const ct_tensor *tensor); /* returns ndim 0 for NULL */
CT_API int ct_ndim(const ct_tensor *tensor);
/* Returns the size of a dim; a negative dim counts from the end. If the tensor has no such dim,
 * that is CT_ERR_SHAPE, and -1 is returned. */
CT_API int64_t ct_dim(const ct_tensor *tensor, int dim);
CT_API int64_t ct_numel(const ct_tensor *tensor);

/* Returns a pointer to the elements themselves. A tensor that is not contiguous is CT_ERR_ARGUMENT
 * (see ct_contiguous), and a tensor of another dtype is CT_ERR_DTYPE. Backward cannot detect that a
 * write through the pointer has changed a value that was saved for it, unless ct_wrote is called
 * after the write. */
CT_API float *ct_data_f32(ct_tensor *tensor);
CT_API double *ct_data_f64(ct_tensor *tensor);
CT_API int64_t *ct_data_i64(ct_tensor *tensor);
CT_API bool *ct_data_bool(ct_tensor *tensor);
CT_API uint16_t *ct_data_bf16(ct_tensor *tensor); /* an element is the upper half of an f32 */

/* Copies the elements to `out` in row-major order, converted to the type of `out`. The tensor may
 * have any strides and dtype. count must be its number of elements. */
CT_API bool ct_to_f32(const ct_tensor *tensor, float *out, int64_t count);
CT_API bool ct_to_f64(const ct_tensor *tensor, double *out, int64_t count);
CT_API bool ct_to_i64(const ct_tensor *tensor, int64_t *out, int64_t count);
CT_API bool ct_to_bool(const ct_tensor *tensor, bool *out, int64_t count);

/* Returns the value of a tensor with one element. Any other tensor is CT_ERR_SHAPE, and NaN is
 * returned. */
CT_API double ct_item(const ct_tensor *tensor);

/* ---- in place ---- */

/* These functions change the values of `to`. If `to` is a view, the tensor under it changes too.
 * `from` broadcasts to the shape of `to`, and both may have any strides. They may share memory, as
 * views of one tensor do: the result is as if `from` had been copied first. The elements of `to`
 * must not share memory, as they do in an expanded tensor: each stride of `to` must be larger than
 * all that the dims with smaller strides reach; otherwise it is CT_ERR_ARGUMENT. Every view of a
 * contiguous tensor that was not expanded is allowed. An interleaved layout of ct_wrap is refused
 * even if its elements are apart (strides 2 and 5 of 4 x 4 elements).
 *
 * The change is not recorded: no gradient flows to `from`, and `to` may require a gradient. A later
 * backward that needs the earlier values of `to` fails with CT_ERR_GRAD. If the functions return
 * false, nothing has changed. */

/* to = from, converted to the dtype of `to` as by ct_cast. */
CT_API bool ct_copy_into(ct_tensor *to, const ct_tensor *from);
/* to = to + w (from - to), computed as from - (1 - w)(from - to) if |w| >= 1/2, as torch's lerp_
 * does. Both are f32 or both f64, and w is finite. ct_lerp_into(average, p, 1 - d) updates a moving
 * average of a parameter p with decay d. */
CT_API bool ct_lerp_into(ct_tensor *to, const ct_tensor *from, double w);
/* to += w from, with `from` converted to the dtype of `to`. `to` is f32, f64 or bf16; for bf16
 * the sum is computed in f32 and rounded. w is finite. */
CT_API bool ct_add_into(ct_tensor *to, const ct_tensor *from, double w);
/* to *= a, for the dtypes of ct_add_into and a finite a. */
CT_API bool ct_scale_into(ct_tensor *to, double a);

/* Declares that the program has written to the tensor through a pointer of ct_data_*. A later
 * backward that needs the earlier values then fails with CT_ERR_GRAD. It works while an error is
 * pending. */
CT_API void ct_wrote(ct_tensor *tensor);

/* ---- printing ---- */

/* Prints values, shape and dtype as torch does. The middle of long dims is left out. */
CT_API void ct_print(const ct_tensor *tensor, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
