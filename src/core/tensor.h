/* Tensors. A ct_tensor is a handle: a shape and strides over a storage, whose references are
 * counted. A handle has one owner:
 *
 *     cti_tensor_own ---> SCOPE <--- cti_tensor_disown, cti_tensor_own ---> HELD
 *                           |                                                |
 *                           `---------> ended <--- cti_tensor_free ----------'
 *
 * SCOPE  frame is the scope, whose list has the handle. The scope ends it when it closes.
 * HELD   frame is NULL. A module, an optimiser, a node or a grad slot owns the handle and ends it.
 *
 * Invariants:
 *
 * 1. The references of a storage are the handles and saved tensors with this storage. The storage
 *    is given back with the last one.
 * 2. A handle with parameter > 0 is HELD.
 * 3. A saved tensor lies in its node and has no owner. If only its shape and dtype were kept, its
 *    storage is NULL.
 * 4. `contiguous` is set only if the tensor has values and lies row-major without gaps, and is not
 *    of blocks (block_matrix.h), so the path of an op has one test for all three.
 * 5. Every change of values in place counts in storage->writes (cti_tensor_wrote). */
#ifndef CTI_CORE_TENSOR_H
#define CTI_CORE_TENSOR_H

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include "shape.h"

typedef struct cti_node cti_node;
typedef struct cti_grad_slot cti_grad_slot;
typedef struct cti_frame cti_frame;

/* Finds the full name of a parameter or a module: "layers.2.linear1", or "" for an outermost
 * module. A module and the record of a parameter have one. */
enum { CTI_NAME_SIZE = 256 };
typedef struct cti_namer cti_namer;
struct cti_namer {
    const char *(*name)(const cti_namer *namer, char buffer[CTI_NAME_SIZE]);
};

/* Memory with a count of its references. A context is used by one thread at a time, so the count is
 * a plain integer. */
typedef struct {
    int64_t refs;
    uint64_t writes; /* the number of times that the library has changed the values in place */
    void *data;      /* the memory right behind this header, or the caller's (ct_wrap) */
    size_t bytes;    /* the size of the block with this header */
} cti_storage;

struct ct_tensor {
    ct_context *context;
    const ct_tensor *self; /* the handle's own address, until it ends: see handle.h */
    cti_storage *storage;  /* NULL in a saved tensor of which only shape and dtype are kept */
    char *data;            /* the first element */
    cti_grad_slot *slot;   /* the slot of its gradient, in a node or a leaf; NULL if it has none */
    int64_t numel;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS]; /* the strides in elements */
    union {
        uint64_t writes;   /* in a saved tensor: storage->writes when it was saved */
        const char *maker; /* in a handle: the op that was running when it was made, or NULL */
    };
    ct_dtype dtype;
    bool contiguous;  /* whether it has values and lies row-major without gaps */
    bool frozen;      /* whether ct_set_requires_grad(tensor, false) was its last call */
    bool thaws;       /* whether ct_lora_remove makes it require a gradient again */
    int parameter;    /* the number of modules and optimisers that hold it */
    cti_frame *frame; /* the scope that owns it; NULL if it is HELD */
    ct_tensor *next;  /* the next handle in the scope's list */
    union {
        ct_tensor *prev;        /* the previous handle in the scope's list */
        const cti_namer *namer; /* in a parameter: finds its name; NULL if no module has it */
    };
};

/* These functions make handles in the innermost scope. They return NULL with an error under the
 * name of the running op if a size overflows or memory is short. */

/* Makes a row-major tensor with undefined values. */
ct_tensor *cti_tensor_new(ct_context *context, ct_dtype dtype, ct_shape shape);
/* Does the same on the path of every op: see cti_shape_same. */
ct_tensor *cti_tensor_of(ct_context *context, ct_dtype dtype, const ct_shape *shape);
/* Makes a view, which shares the storage of `of`. If stride is NULL it is row-major. */
ct_tensor *cti_tensor_view(ct_tensor *of, char *data, ct_shape shape, const int64_t *stride);

/* The offset of the last element from the first one, in elements. */
static inline int64_t cti_tensor_last(const ct_tensor *tensor) {
    int64_t last = 0;
    for (int d = 0; d < tensor->shape.ndim; d++)
        last += (tensor->shape.dim[d] - 1) * tensor->stride[d];
    return last;
}

/* Whether all elements of a tensor lie in its storage. For a caller's memory, whose size is
 * unknown, the result is true. */
static inline bool cti_tensor_is_inside(const ct_tensor *tensor) {
    const cti_storage *storage = tensor->storage;
    const int64_t size = (int64_t)cti_dtype_size(tensor->dtype);
    const char *begin = tensor->data, *end = begin + size; /* the bytes of all elements */
    for (int d = 0; d < tensor->shape.ndim && tensor->numel; d++) {
        const int64_t reach = (tensor->shape.dim[d] - 1) * tensor->stride[d] * size;
        *(reach < 0 ? &begin : &end) += reach;
    }
    const bool is_own = (uintptr_t)storage->data - (uintptr_t)storage < storage->bytes;
    return !is_own || !tensor->numel ||
           (begin >= (const char *)storage->data && end <= (const char *)storage + storage->bytes);
}

/* Counts a write. Every function that changes values in place calls it. */
static inline void cti_tensor_wrote(ct_tensor *tensor) {
    CTI_ASSERT(tensor->storage->refs > 0);
    tensor->storage->writes++;
}

/* Returns the tensor itself if it is row-major, otherwise a row-major copy that is not recorded.
 * The tensor is not of blocks. */
ct_tensor *cti_tensor_dense(ct_tensor *tensor);

/* to = from or, if `add` is set, to += from, element by element. Both have the same dtype and any
 * strides, and from broadcasts to the shape of to. Blocks are only copied, and have the same shape.
 */
void cti_tensor_copy(ct_tensor *to, const ct_tensor *from, bool add);

/* Drops the reference that a tensor has to the node of its slot. It is the only function of the
 * tape (autograd/tape.c) that core calls. */
void cti_grad_slot_disown(cti_grad_slot *slot);

/* Ends a handle, which may be in a scope or HELD. */
void cti_tensor_free(ct_tensor *tensor);

/* Does the same for a function that code inside a forward may call. While the tensor is an input or
 * a saved tensor of a running op, it moves to the op's frame and ends when the op returns. */
void cti_tensor_end(ct_tensor *tensor);

/* Records in the tensor's context why `op` cannot read it, and returns false: it has ended, or its
 * values were not kept. */
bool cti_tensor_refuse(const ct_tensor *tensor, const char *op);
/* Whether a handle has not ended, so that its sizes can be read. Its values may be missing. A
 * function checks this for each tensor that is its argument before it reads any other field. */
static inline bool cti_tensor_is_open(const ct_tensor *tensor, const char *op) {
    return tensor->self == tensor || cti_tensor_refuse(tensor, op);
}
/* Whether a handle has not ended and its values can be read. */
static inline bool cti_tensor_has_values(const ct_tensor *tensor, const char *op) {
    return (tensor->self == tensor && tensor->storage) || cti_tensor_refuse(tensor, op);
}
/* Whether a tensor is not of blocks. A function that takes none asks this before it looks at
 * shapes, so that the error is the same everywhere. */
bool cti_tensor_no_blocks(const ct_tensor *tensor, const char *op);

/* Whether a tensor has not ended and belongs to the context. */
static inline bool cti_tensor_is_of(const ct_tensor *tensor, const ct_context *context) {
    return tensor->self == tensor && tensor->context == context;
}

/* Records in `context` why a call cannot use a tensor: it has ended, or it belongs to another
 * context than another argument. `name` is the tensor's name in the message. */
void cti_tensor_refuse_in(ct_context *context, const ct_tensor *tensor, const char *op,
                          const char *name);

/* Whether a tensor that is an argument has not ended and belongs to `context`, the context of
 * another argument. If not, the error is recorded in both contexts, because the caller may look at
 * either. cti_tensor_not_in records it and returns false. */
bool cti_tensor_not_in(const ct_tensor *tensor, ct_context *context, const char *op);
static inline bool cti_tensor_in(const ct_tensor *tensor, ct_context *context, const char *op) {
    return cti_tensor_is_of(tensor, context) || cti_tensor_not_in(tensor, context, op);
}

/* Does the same for all tensors of a call, which messages call "input 0", "input 1", ... A tensor
 * that is not given is NULL. An error is recorded in the contexts of all tensors. */
bool cti_tensors_in(ct_tensor *const *tensors, int n, ct_context *context, const char *op);

/* The context of the first tensor that is given, even if it has ended; NULL if none is given. */
ct_context *cti_tensors_context(ct_tensor *const *tensors, int n);

/* Exchanges the storages of two tensors of the same shape, each row-major or of blocks, and so
 * their values and dtypes. */
void cti_tensor_exchange(ct_tensor *a, ct_tensor *b);

/* Whether the tensor is row-major and the only holder of its memory, so that its owner may
 * overwrite it. */
bool cti_tensor_is_sole(const ct_tensor *tensor);

#endif
