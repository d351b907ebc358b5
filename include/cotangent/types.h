/* This header has the types that every header uses: shapes, dtypes, error codes and the opaque
 * objects.
 *
 * A function that fails returns NULL, false, NaN or -1, depending on its return type, and records
 * an error in its context; see context.h. */
#ifndef CT_TYPES_H
#define CT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CT_VERSION_MAJOR 0
#define CT_VERSION_MINOR 2
#define CT_VERSION_PATCH 0

#if defined _WIN32 && defined CTI_BUILD /* CTI_BUILD: the library itself is compiled */
#define CT_API __declspec(dllexport)
#elif defined _WIN32
#define CT_API
#else
#define CT_API __attribute__((visibility("default")))
#endif

/* Lets the compiler check the arguments of a function that takes a format as printf does: parameter
 * number `text` is the format, and its arguments begin at parameter number `first`. For Windows,
 * GCC's attribute printf means the format of an old C library that lacks %zu, and gnu_printf means
 * the format of C99. */
#if defined __MINGW32__ && !defined __clang__
#define CT_FORMAT(text, first) __attribute__((format(gnu_printf, text, first)))
#else
#define CT_FORMAT(text, first) __attribute__((format(printf, text, first)))
#endif

/* The number 0 for a field of options in which 0 selects the default: {.lr = CT_ZERO} is a learning
 * rate of 0, and {.lr = 0} is the default learning rate. The comments of such fields say "or
 * CT_ZERO". In every other field of options CT_ZERO acts as 0 or is an error. Its value is
 * -DBL_MIN, which no option needs as a value, and which rounding removes from a sum with an
 * ordinary number. */
#define CT_ZERO (-2.2250738585072014e-308)

#ifdef __cplusplus
extern "C" {
#endif

/* The owner of memory, tape, random generator, threads and the pending error. */
typedef struct ct_context ct_context;
typedef struct ct_tensor ct_tensor;     /* a handle, owned by the scope in which it was made */
typedef struct ct_module ct_module;     /* a tree of parameters with a forward */
typedef struct ct_optim ct_optim;       /* an optimiser of one module's parameters */
typedef struct ct_kv_cache ct_kv_cache; /* keys and values of earlier positions */
/* Several processes that save and load one checkpoint together; see ct_dist_group. */
typedef struct ct_checkpoint_group ct_checkpoint_group;

/* CT_BF16 is bfloat16, the upper two bytes of an f32 (8 significant bits). It stores the weights of
 * a model for inference in half the memory; see ct_module_to. Most ops do not take it and fail
 * with CT_ERR_DTYPE.
 *
 * CT_Q8_0 and CT_Q4_0 are for weights too, in about a quarter and a seventh of f32's memory. 32
 * consecutive elements of a row are a block, which has a scale (a binary16) and a code of 8 or 4
 * bits for each element; an element is its code times the scale. ct_cast makes such a tensor, which
 * is always a whole matrix whose rows are multiples of 32. ct_linear, ct_activated_linear,
 * ct_linear_cross_entropy, ct_embedding, ct_index_select of rows, ct_clone, ct_cast, ct_to_f32 and
 * ct_to_f64 read it, and ct_detach gives another handle of it. Anything else that reads or changes
 * values is CT_ERR_DTYPE, and so is making one in another way than by ct_cast. A product with it
 * has the bits of the same product with its values in f32. */
typedef enum { CT_F32, CT_F64, CT_I64, CT_BOOL, CT_BF16, CT_Q8_0, CT_Q4_0 } ct_dtype;

typedef enum {
    CT_OK,
    CT_ERR_SHAPE,    /* shapes or dims that do not match */
    CT_ERR_DTYPE,    /* a dtype that the op does not take, or two dtypes that differ */
    CT_ERR_ARGUMENT, /* any other wrong argument: a NULL, a number or an index out of range */
    CT_ERR_MEMORY,   /* the allocator or the memory limit refused a block, or a size overflows */
    CT_ERR_IO,       /* the operating system refused; the message has its reason */
    CT_ERR_FORMAT,   /* a malformed or unsuitable file; the message names the fault */
    /* backward through a graph that was not recorded or is already released, or through values that
       were changed after they were saved */
    CT_ERR_GRAD
} ct_status;

/* The activation of a feed-forward layer. CT_GELU is computed by erf; CT_GELU_TANH is torch's GELU
 * with approximate="tanh". CT_ELU has alpha 1, CT_LEAKY_RELU the slope 0.01. */
typedef enum {
    CT_RELU,
    CT_GELU,
    CT_GELU_TANH,
    CT_SILU,
    CT_ELU,
    CT_SOFTPLUS,
    CT_LEAKY_RELU,
    CT_RELU_SQUARED,
    CT_QUICK_GELU
} ct_activation;

/* A function of n tensors that ct_gradcheck, ct_jacobian and ct_recompute call; they pass the
 * caller's arg on to it. */
typedef ct_tensor *(*ct_fn)(ct_tensor *const *in, int n, void *arg);

#define CT_MAX_DIMS 8

/* The sizes of a tensor's dims. The type also serves as a list of dims, such as the dims that a
 * reduction removes. */
typedef struct {
    int ndim;
    int64_t dim[CT_MAX_DIMS];
} ct_shape;

#ifdef __cplusplus
}
template <typename... D> inline ct_shape ct_shape_pack(D... d) {
    static_assert(sizeof...(D) <= CT_MAX_DIMS, "at most 8 dims");
    return ct_shape{int(sizeof...(D)), {int64_t(d)...}};
}
#define CT_SHAPE(...) ct_shape_pack(__VA_ARGS__)
#define CT_SCALAR     ct_shape_pack()
#else
/* CT_SHAPE(2, 10, 512) is the shape (2, 10, 512). */
#define CT_SHAPE(...)                                                                              \
    ((ct_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define CT_SCALAR ((ct_shape){0, {0}})
#endif

#define CT_DIMS(...)                                                                               \
    CT_SHAPE(__VA_ARGS__) /* a list of dims, as CT_DIMS(0, -1); negative dims count from the end   \
                           */
#define CT_ALL CT_SCALAR  /* an empty list of dims: a reduction reduces all dims, as in torch */

#endif
