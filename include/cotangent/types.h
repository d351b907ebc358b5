/* Types that every header uses: shapes, dtypes, error codes and the opaque objects.
 *
 * Every function that can fail returns NULL, false or NaN and records why in its context; see
 * context.h. */
#ifndef CT_TYPES_H
#define CT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CT_VERSION_MAJOR 0
#define CT_VERSION_MINOR 1
#define CT_VERSION_PATCH 0

#if defined _WIN32 && defined CTI_BUILD /* of the library itself */
#define CT_API __declspec(dllexport)
#elif defined _WIN32
#define CT_API
#else
#define CT_API __attribute__((visibility("default")))
#endif

/* Of a function whose format is printf's: which parameter that text is, and the first of its
 * arguments. GCC for Windows takes printf for that of an old C library, without %zu. */
#if defined __MINGW32__ && !defined __clang__
#define CT_FORMAT(text, first) __attribute__((format(gnu_printf, text, first)))
#else
#define CT_FORMAT(text, first) __attribute__((format(printf, text, first)))
#endif

/* In a field of options in which 0 means a default: the number 0. {.lr = CT_ZERO} is a learning
 * rate of 0, {.lr = 0} the default one. Fields that take it are marked "or CT_ZERO". In any other
 * field of options it is 0 or an error. It is -DBL_MIN: no value of its own for any option, and
 * lost in every sum. */
#define CT_ZERO (-2.2250738585072014e-308)

#ifdef __cplusplus
extern "C" {
#endif

/* owns memory, tape, random generator, threads and the pending error */
typedef struct ct_context ct_context;
typedef struct ct_tensor ct_tensor;     /* a handle, owned by the scope in which it was made */
typedef struct ct_module ct_module;     /* a tree of parameters with a forward */
typedef struct ct_optim ct_optim;       /* an optimiser of one module's parameters */
typedef struct ct_kv_cache ct_kv_cache; /* keys and values of earlier positions */

/* bf16 (bfloat16: f32 with 8 bits of fraction, 2 bytes) is for weights at rest: see
 * ct_module_to_bf16. An op that does not read it says so. */
typedef enum { CT_F32, CT_F64, CT_I64, CT_BOOL, CT_BF16 } ct_dtype;

typedef enum {
    CT_OK,
    CT_ERR_SHAPE,    /* shapes or dims that do not match */
    CT_ERR_DTYPE,    /* a dtype the op does not take, or two that differ */
    CT_ERR_ARGUMENT, /* any other argument: NULL, a range, an index */
    CT_ERR_MEMORY,   /* the allocator or the memory limit refused, or a size overflows */
    CT_ERR_IO,       /* the operating system refused; the message has its reason */
    CT_ERR_FORMAT,   /* a malformed or unsuitable file; the message says what is wrong */
    /* backward through a graph that is not there or already released, or whose saved values have
       changed */
    CT_ERR_GRAD
} ct_status;

/* The activations that a feed-forward may have; GELU by erf, or by torch's approximate="tanh". */
typedef enum { CT_RELU, CT_GELU, CT_GELU_TANH, CT_SILU } ct_activation;

/* A function of n tensors, for ct_gradcheck and ct_recompute; arg is the caller's. */
typedef ct_tensor *(*ct_fn)(ct_tensor *const *in, int n, void *arg);

#define CT_MAX_DIMS 8

/* The sizes of a tensor's dims, or a list of dims. */
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
    CT_SHAPE(__VA_ARGS__) /* CT_DIMS(0, -1): a list of dims; negative ones count from the end */
#define CT_ALL CT_SCALAR  /* no dims, which for a reduction means all of them, as in torch */

#endif
