/* What a tensor is inside: a handle (owned by a scope) on a strided part of a counted storage. */
#ifndef CTI_CORE_TENSOR_H
#define CTI_CORE_TENSOR_H

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include "shape.h"

typedef struct cti_node cti_node;
typedef struct cti_grad_slot cti_grad_slot;
typedef struct cti_frame cti_frame;
typedef struct cti_namer cti_namer;

/* Counted memory. A context is used by one thread at a time, so the count is a plain integer. */
typedef struct {
    int64_t refs;
    /* how often the library has changed it in place: what backward saved must not have changed */
    uint64_t writes;
    void *data;   /* right behind this header, or the caller's (ct_wrap) */
    size_t bytes; /* of the block, header and all */
} cti_storage;

struct ct_tensor {
    ct_context *context;
    /* NULL in the tape's note of an input whose values are not kept, and in a handle that has
     * ended */
    cti_storage *storage;
    char *data; /* of the first element */
    /* where its gradient gathers, in the node of what made it or in a leaf's; NULL: it has no
     * gradient */
    cti_grad_slot *slot;
    int64_t numel;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS]; /* in elements */
    union {
        uint64_t writes; /* in the tape's note: the storage's when it was saved */
        /* in a handle: what was being computed when it was made; NULL: nothing */
        const char *maker;
    };
    ct_dtype dtype;
    bool contiguous; /* row-major without gaps, and with values */
    /* how many modules and optimisers hold it; not 0: no scope may take it */
    int parameter;
    cti_frame *frame; /* the scope that owns it; NULL: a module, a node or a leaf does */
    ct_tensor *next;  /* in that scope, as is prev */
    union {
        ct_tensor *prev;
        /* of a parameter, which is in no scope: tells its name; NULL: no module has it any more */
        const cti_namer *namer;
    };
};

/* New handles in the innermost scope; NULL with an error recorded. What they say of a shape or of
 * memory names the op that is being computed. */
/* row-major, values undefined */
ct_tensor *cti_tensor_new(ct_context *context, ct_dtype dtype, ct_shape shape);
/* the same, where a copy of the shape would be waited for */
ct_tensor *cti_tensor_of(ct_context *context, ct_dtype dtype, const ct_shape *shape);
/* shares of's storage; stride NULL: row-major */
ct_tensor *cti_tensor_view(ct_tensor *of, char *data, ct_shape shape, const int64_t *stride);

/* parameter of a handle that has ended, as long as debug mode keeps it */
enum { CTI_ENDED = -1 };

/* Debug mode: keeps the shape, dtype and maker of a handle that has ended, among the last 65,536 of
 * them; gives back all that are kept. */
void cti_ended_add(ct_tensor *tensor);
void cti_ended_forget(ct_context *context);

/* Says that the tensor's values have been changed in place. Every in-place update calls it. */
static inline void cti_tensor_wrote(ct_tensor *tensor) { tensor->storage->writes++; }

/* The tensor itself where it is row-major, else a row-major copy that no tape knows. */
ct_tensor *cti_tensor_dense(ct_tensor *tensor);

/* to = from, or to += from, element by element, any strides; the same shape and dtype. */
void cti_tensor_copy(ct_tensor *to, const ct_tensor *from, bool add);

/* All that core knows of the tape (autograd/tape.h): the tensor whose slot it is lets go of it, and
 * so of its node. */
void cti_grad_slot_disown(cti_grad_slot *slot);

/* Ends a handle, whoever owns it. */
void cti_tensor_free(ct_tensor *tensor);

/* The same where a forward may have asked for it: a handle that a running op was given, or has
 * saved, ends when that op is through. */
void cti_tensor_end(ct_tensor *tensor);

/* Are there values to read? Where not, what wants them ("mul") says so: the handle has ended, as
 * debug mode can tell, or it is one that backward has only the shape of. */
/* false, with the error recorded */
bool cti_tensor_refuse(const ct_tensor *tensor, const char *op);
/* sizes can be read where values cannot */
static inline bool cti_tensor_is_open(const ct_tensor *tensor, const char *op) {
    return tensor->parameter != CTI_ENDED || cti_tensor_refuse(tensor, op);
}
static inline bool cti_tensor_has_values(const ct_tensor *tensor, const char *op) {
    return tensor->storage || cti_tensor_refuse(tensor, op);
}

/* Does nothing else hold the tensor's memory, and is it row-major? Then its owner may write to
 * it. */
bool cti_tensor_is_sole(const ct_tensor *tensor);

#endif
