/* Tensors: a handle, owned by a scope, on a strided part of a reference-counted storage. */
#ifndef CTI_CORE_TENSOR_H
#define CTI_CORE_TENSOR_H

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include "shape.h"

typedef struct cti_node cti_node;
typedef struct cti_grad_slot cti_grad_slot;
typedef struct cti_frame cti_frame;

/* Finds the full name of a parameter or a module ("layers.2.linear1"), whose record has one. It is
 * "" for an outermost module. */
enum { CTI_NAME_SIZE = 256 };
typedef struct cti_namer cti_namer;
struct cti_namer {
    const char *(*name)(const cti_namer *namer, char buffer[CTI_NAME_SIZE]);
};

/* Reference-counted memory. A context is used by one thread at a time, so the count is a plain
 * integer. */
typedef struct {
    int64_t refs;
    uint64_t writes; /* how often the library has changed it in place */
    void *data;      /* right behind this header, or the caller's (ct_wrap) */
    size_t bytes;    /* of the block with this header */
} cti_storage;

struct ct_tensor {
    ct_context *context;
    const ct_tensor *self; /* its own address, until it ends: see handle.h */
    cti_storage *storage;  /* NULL: a saved tensor of which only shape and dtype are kept */
    char *data;            /* the first element */
    cti_grad_slot *slot;   /* in the node of the op that made it, or in a leaf; NULL: no gradient */
    int64_t numel;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS]; /* in elements */
    union {
        uint64_t writes;   /* of a saved tensor: the storage's count when it was saved */
        const char *maker; /* of a handle: the op that was running when it was made, or NULL */
    };
    ct_dtype dtype;
    bool contiguous; /* row-major without gaps, and with values */
    /* how many modules and optimisers hold it. If not 0, no scope may own it */
    int parameter;
    cti_frame *frame; /* the scope that owns it; NULL: a module, a node or a slot does */
    ct_tensor *next;  /* in that scope, as is prev */
    union {
        ct_tensor *prev;
        const cti_namer *namer; /* of a parameter: finds its name; NULL: no module has it */
    };
};

/* New handles in the innermost scope. NULL, with an error recorded that names the op that is
 * running. */

/* row-major, values undefined */
ct_tensor *cti_tensor_new(ct_context *context, ct_dtype dtype, ct_shape shape);
/* the same on the path of every op: see cti_shape_same */
ct_tensor *cti_tensor_of(ct_context *context, ct_dtype dtype, const ct_shape *shape);
/* shares of's storage; stride NULL: row-major */
ct_tensor *cti_tensor_view(ct_tensor *of, char *data, ct_shape shape, const int64_t *stride);

/* elements [start, start + n) of a row-major tensor as one dim */
ct_tensor *cti_tensor_range(ct_tensor *of, int64_t start, int64_t n);

/* Counts a write. Everything that changes a tensor's values in place calls it. */
static inline void cti_tensor_wrote(ct_tensor *tensor) { tensor->storage->writes++; }

/* The tensor itself where it is row-major, else a row-major copy, which is not recorded. */
ct_tensor *cti_tensor_dense(ct_tensor *tensor);

/* to = from, or to += from, element by element, any strides; the same shape and dtype. */
void cti_tensor_copy(ct_tensor *to, const ct_tensor *from, bool add);

/* Drops the reference that the slot's tensor has to the slot's node. Core calls nothing else of
 * the tape (autograd/tape.c). */
void cti_grad_slot_disown(cti_grad_slot *slot);

/* Ends a handle, whoever owns it. */
void cti_tensor_free(ct_tensor *tensor);

/* The same where code inside a forward may have called: an input or saved tensor of a running op
 * ends when the op returns. */
void cti_tensor_end(ct_tensor *tensor);

/* Records in the tensor's context why `op` cannot read it: it has ended, or its values were not
 * kept; false. */
bool cti_tensor_refuse(const ct_tensor *tensor, const char *op);
/* Whether the handle has not ended: its sizes can be read, its values perhaps not. What a caller
 * hands in is asked this before anything of it is read. */
static inline bool cti_tensor_is_open(const ct_tensor *tensor, const char *op) {
    return tensor->self == tensor || cti_tensor_refuse(tensor, op);
}
/* Whether values can be read. */
static inline bool cti_tensor_has_values(const ct_tensor *tensor, const char *op) {
    return (tensor->self == tensor && tensor->storage) || cti_tensor_refuse(tensor, op);
}

/* Whether a tensor has not ended and is of the context. */
static inline bool cti_tensor_is_of(const ct_tensor *tensor, const ct_context *context) {
    return tensor->self == tensor && tensor->context == context;
}

/* Records in `context` why a tensor is not of the context of its call: it has ended, or it is of
 * another one. `name` is what the message calls it. */
void cti_tensor_refuse_in(ct_context *context, const ct_tensor *tensor, const char *op,
                          const char *name);

/* Whether a tensor that a caller hands in has not ended, and is of the context, which another
 * argument of the call has. If not, the op's error is recorded in both contexts, as the caller may
 * look at either. */
bool cti_tensor_not_in(const ct_tensor *tensor, ct_context *context, const char *op); /* false */
static inline bool cti_tensor_in(const ct_tensor *tensor, ct_context *context, const char *op) {
    return cti_tensor_is_of(tensor, context) || cti_tensor_not_in(tensor, context, op);
}

/* The same for all tensors of a call (NULL: not given), each error in the contexts of all: messages
 * call the tensors "input 0", "input 1", ... */
bool cti_tensors_in(ct_tensor *const *tensors, int n, ct_context *context, const char *op);

/* The context of the first that is given, also if it has ended; NULL: none is. */
ct_context *cti_tensors_context(ct_tensor *const *tensors, int n);

/* Exchanges the storages, and so values and dtypes, of two row-major tensors of one shape. */
void cti_tensor_exchange(ct_tensor *a, ct_tensor *b);

/* Whether the tensor is row-major and nothing else holds its memory, which its owner may then
 * overwrite. */
bool cti_tensor_is_sole(const ct_tensor *tensor);

#endif
