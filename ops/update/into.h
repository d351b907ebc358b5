/* Updates of a tensor of any strides: the functions of tensor.h whose names end in _into. */
#ifndef CTI_OPS_UPDATE_INTO_H
#define CTI_OPS_UPDATE_INTO_H

#include "../../src/core/profile.h"
#include "../../src/core/isa.h"

/* Returns whether no error is pending and no two elements of `to` have one address. If not, records
 * the error; NULL has no context to record it in. */
bool cti_op_writes(ct_tensor *to, const char *name);

/* Returns whether no error is pending, `from` broadcasts to `to`, and no two elements of `to` have
 * one address. If not, records the error. Both may have any strides, and their dtypes may
 * differ. */
bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name);

/* Returns whether `to` is f32, f64 or bf16, and the number is finite. If not, records the error. */
bool cti_op_computes_into(const ct_tensor *to, double number, const char *name);

/* Returns whether elements of `to` and `from` may be aliased: the ranges of their addresses
 * overlap. */
bool cti_op_may_overlap(const ct_tensor *to, const ct_tensor *from);

/* Returns a row-major copy in the innermost frame. */
ct_tensor *cti_op_copy_of(const ct_tensor *t);

/* Updates a row of n elements: to[i] = f(to[i], from[i step], w). */
typedef struct {
    const cti_kernels *kernels; /* the kernels of the dtype that both tensors have */
    int64_t n, size;            /* size: bytes of an element */
    void *to;
    const void *from; /* NULL if the update reads no other tensor */
    int64_t step;     /* 0 or 1 */
    double w;
} cti_op_row;
typedef void cti_op_into_row(const cti_op_row *row);

/* Updates `to` row by row on all threads, and counts a write. `from`, which is NULL or of to's
 * dtype, is read first if the two overlap. False: there is no memory, and nothing has changed. */
bool cti_op_into_rows(ct_tensor *to, const ct_tensor *from, double w, cti_op_into_row *update);

/* The same for `from` of any dtype, converted to to's. bf16 is computed in f32 and rounded to
 * nearest even. */
bool cti_op_into_computed(ct_tensor *to, const ct_tensor *from, double w, cti_op_into_row *update);

/* An update that makes temporary tensors opens a frame without gradients, names itself in errors
 * and begins a span of the profile. Closing it ends the span, with the number of bytes that were
 * read and written. Opening fails, and nothing is to be closed, if another thread is in the
 * context. */
typedef struct {
    cti_frame frame;
    const char *outer;
    cti_span span;
} cti_op_update;
bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name);
void cti_op_update_close(ct_context *context, cti_op_update *update, int64_t bytes);

#endif
