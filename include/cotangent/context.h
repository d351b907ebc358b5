/* A context owns the state of a computation: memory, tape, threads, random generator and the
 * pending error. The library has no global state.
 *
 * Only one thread at a time may use a context. The context's own pool of threads does the parallel
 * work, in the floating-point mode of the calling thread (its direction of rounding, and whether
 * denormals count as zero). Two contexts share nothing, so two threads may use one context each.
 *
 * All arguments of a call must belong to one context, and none of them may have ended: a tensor
 * ends when its scope is closed or it is released, any other object when it is freed. Otherwise the
 * call is CT_ERR_ARGUMENT in the contexts of all its arguments.
 *
 * Errors are values, and they are sticky. The first error is recorded with a code and a message.
 * Until ct_error_clear clears it, the error is pending. While an error is pending, every function
 * that computes or changes something does nothing and returns NULL, false, NaN or -1; functions
 * that read, close, save or free still work. So a chain of calls needs one check at its end:
 *
 *     ct_tensor *y = ct_softmax(ct_matmul(q, ct_transpose(k, -1, -2)), -1);
 *     if (!y) fprintf(stderr, "%s\n", ct_error_message(context));
 *
 * Callbacks are the functions of the program that the library calls: on_error, the forward and
 * backward of an op, a module's functions, the functions of ct_context_on_free, ct_recompute,
 * ct_gradcheck and ct_jacobian, those of ct_watch and of a ct_optim_rule, an allocator, and a
 * comm's engine. A callback must return: no C++ exception and no longjmp may leave it, because the
 * library's function that called it would never finish. If one does, nothing in the context may be
 * used again, and the library does not notice. A program in C++ catches exceptions inside the
 * callback and records an error by ct_fail, which is then the error of the call that runs the
 * callback. Scopes that the callback has opened and not closed end with that call.
 *
 * A callback may use the context, but it cannot free the context, and it cannot free or step the
 * object that is running, such as the module of a forward or the optimiser of a step: that is
 * CT_ERR_ARGUMENT.
 *
 * ct_context_free prints a pending error to stderr ("cotangent: error never looked at: matmul:
 * ...") if there is no on_error and neither ct_error nor ct_error_message has returned the error.
 */
#ifndef CT_CONTEXT_H
#define CT_CONTEXT_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that is called once when an error is recorded. The message is valid only during the
 * call. The library's function that failed is still running: until on_error has returned nothing
 * can be computed, and ct_error_clear does nothing. Like every callback it must return, unless it
 * ends the program as ct_error_die does. */
typedef void (*ct_error_fn)(void *data, ct_status status, const char *message);

/* An on_error that prints the message to stderr and ends the program with exit code 1. */
CT_API void ct_error_die(void *data, ct_status status, const char *message);

/* An allocator: alloc returns a block that is aligned as malloc's blocks are, or NULL if memory is
 * exhausted; free receives the size that was passed to alloc. If both functions are NULL, the
 * context uses the C library's allocator, and huge pages if the system has them. If only one is
 * NULL, that is CT_ERR_ARGUMENT. */
typedef struct {
    void *(*alloc)(void *data, size_t size);
    void (*free)(void *data, void *block, size_t size);
    void *data;
} ct_allocator;

/* The precision of matrix products of f32. Like torch.set_float32_matmul_precision it is a
 * permission: the library may round the operands of linear, matmul, einsum, attention and the ops
 * that call them, in forward and backward. Products are always summed in f32. Tensors, norms,
 * softmax, losses and optimisers stay f32, and f64 is never rounded. Only large products are
 * rounded: for products of smaller sizes, and on a machine that lacks the instructions, the results
 * have the bits of CT_MATMUL_F32. With every setting the results are the same bits for any number
 * of threads.
 *
 * CT_MATMUL_BF16 rounds each operand to bf16: to nearest, ties to even, with 8 significant bits
 * and the range of f32. An operand then has a relative error of at most 1/257, slightly less than
 * 2^-8, and the relative error of a product a b of two operands is at most 2/257 + 1/257^2 < 2^-7.
 * NaN and infinities stay. A number that exceeds the largest of bf16 by half a unit in its last
 * place or more becomes infinite. Operands and partial sums smaller than 2^-126 count as zero.
 *
 * CT_MATMUL_BF16X6 splits each operand into a sum of three bf16 numbers and computes a b as the sum
 * of six of the nine products of these numbers; the relative error of a b is about 2^-24.
 * CT_MATMUL_BF16X3 splits each operand into two numbers and sums three of the four products; the
 * error is about 2^-16. If an operand is infinite, NaN or near an end of the range of f32, both
 * compute the whole product as CT_MATMUL_F32 does. */
typedef enum {
    /* the value of the environment variable CT_MATMUL (f32, bf16x6, bf16x3 or bf16); f32 if it is
     * not set */
    CT_MATMUL_DEFAULT,
    CT_MATMUL_F32,
    CT_MATMUL_BF16X6,
    CT_MATMUL_BF16X3,
    CT_MATMUL_BF16,
} ct_matmul_precision;

typedef struct {
    uint64_t seed; /* the seed of the random generator */
    /* the number of threads, including the caller's; 0: the environment variable CT_NUM_THREADS, or
     * if it is not set, the number of cores that this process may use */
    int threads;
    /* the instruction set of the kernels: "scalar", "avx2", "avx512", "avx512bf16", "amx",
     * "neon" or "simd128"; NULL: the environment variable CT_ISA, or if it is not set, the best
     * set that this machine runs */
    const char *isa;
    /* the function that is called for each error; NULL: errors are only recorded; ct_error_die: an
     * error is printed and ends the program with exit code 1 */
    ct_error_fn on_error;
    void *on_error_data;    /* the first argument of on_error */
    ct_allocator allocator; /* zeroed: the C library's allocator */
    int64_t memory_limit;   /* the maximum number of bytes that the context may hold; 0: no limit. A
                               request for more is CT_ERR_MEMORY */
    bool debug;             /* debug mode, see below; the environment's CT_DEBUG=1 sets it too */
    ct_matmul_precision matmul; /* the initial setting of ct_set_matmul */
} ct_context_opts;

/* Debug mode finds mistakes at the cost of some time and memory. Results are the same bits.
 *
 * An error that is recorded is printed to stderr at once ("cotangent: matmul: ..."), unless another
 * error is pending or on_error is ct_error_die. Errors that ct_gradcheck and ct_jacobian provoke
 * are not printed.
 *
 * Free and newly allocated memory has all bits set, which is NaN as a float and -1 as an integer.
 * This reveals elements that an op forgot to write, and reads through a pointer to the elements of
 * a tensor that has ended.
 *
 * The use of a handle that has ended (its scope was closed, it was released, or its gradient was
 * zeroed) is CT_ERR_ARGUMENT with the name of the op that made it. The context keeps these names
 * for the last 65,536 ended handles, unless it has a memory limit. Their memory is not counted in
 * `live` of ct_memory.
 *
 * The op that makes the first NaN fails, and the message has the element's index. In a forward the
 * error is CT_ERR_ARGUMENT: a result has a NaN, and the inputs have none. In a backward it is
 * CT_ERR_GRAD: a gradient has a NaN, and the inputs, the result and the cotangent have none. The
 * message names the op that the program called, even if another op inside its forward or backward
 * made the NaN; for an op of the program's own it has the name in ct_op. Infinities are no error,
 * and neither is a NaN in an input.
 *
 * If two threads call functions with one context at the same time, that is CT_ERR_ARGUMENT. */

/* Returns a new context, which ct_context_free frees, or NULL if memory is exhausted. Any other
 * error in the options (an instruction set that this machine lacks, a negative number of threads)
 * is pending in the context that is returned. */
CT_API ct_context *ct_context_new(ct_context_opts opts);

/* Frees the context and everything made in it: tensors, modules, optimisers, threads. Prints a
 * pending error that no ct_error or ct_error_message has returned. NULL does nothing. In a callback
 * it is CT_ERR_ARGUMENT, and nothing is freed. */
CT_API void ct_context_free(ct_context *context);

/* Makes ct_context_free call fn(arg) once, while all objects of the context still exist. Functions
 * run in the reverse order of their addition. Files, tokens, comms, and modules with functions of
 * ct_module_on_free or an `end` take part in the same order: a file is added when it is opened, and
 * a module when it gets its first such function. fn is a callback and must return. If fn is NULL,
 * the function that was added last with this arg is removed. If ct_context_on_free returns false,
 * nothing has changed. */
CT_API bool ct_context_on_free(ct_context *context, void (*fn)(void *arg), void *arg);

/* Returns the code of the pending error; CT_OK if none is pending; CT_ERR_MEMORY if context is
 * NULL. */
CT_API ct_status ct_error(const ct_context *context);
/* Returns the message of the pending error, such as "matmul: inner sizes differ: (2, 3) @ (4, 5)";
 * "" if none is pending. */
CT_API const char *ct_error_message(const ct_context *context);
/* Clears the pending error. Inside on_error it does nothing. */
CT_API void ct_error_clear(ct_context *context);

typedef struct {
    int64_t live;            /* bytes in use by tensors, tape and modules */
    int64_t peak;            /* the largest `live` since the start or ct_memory_reset_peak */
    int64_t pooled;          /* bytes that are free and that the context keeps for later requests */
    int64_t allocator_calls; /* the number of calls of alloc since the start */
} ct_memory_stats;

CT_API ct_memory_stats ct_memory(const ct_context *context);
/* Sets `peak` to what is in use now, so that the peak of what follows can be read. */
CT_API void ct_memory_reset_peak(ct_context *context);
/* Returns pooled memory to the allocator, except blocks that are partly in use; of these, pages
 * that are not in use go back to the system, on Linux. It is seldom needed: whatever sizes a
 * program uses, a context holds at most about a fifth more than it had in use at its peak. */
CT_API void ct_memory_trim(ct_context *context);

/* Sets the number of threads, including the caller's: 1 to 1024. Results are the same bits for any
 * number. */
CT_API bool ct_set_threads(ct_context *context, int threads);
CT_API int ct_threads(const ct_context *context); /* returns 0 for NULL */

/* Returns the instruction set of the kernels: "scalar", "avx2", "avx512", "avx512bf16", "amx",
 * "neon" or "simd128"; "" for NULL. */
CT_API const char *ct_isa_name(const ct_context *context);

/* Returns a hash of the results that every kernel computes from fixed numbers. Besides the program
 * and its seed, the bits of results depend on the instruction set, the build of the library, its
 * compiler, the C library, ct_set_matmul and the calling thread's floating-point mode, and so does
 * the hash. They do not depend on threads and caches. Two contexts with the same hash compute the
 * same bits, except for a difference that the fixed numbers do not reveal. Checkpoints store the
 * hash, and the ranks of a ct_dist must have the same. Returns 0 for NULL.
 *
 * A call takes about a millisecond, and next to nothing if neither the mode nor the kernels have
 * changed since the thread's last call. */
CT_API uint64_t ct_fingerprint(const ct_context *context);

/* Sets the precision of matrix products from now on. (The backward of an attention rounds if its
 * forward has rounded, because both must compute the same scores.) It is CT_ERR_ARGUMENT, and
 * nothing changes, if `precision` is not a ct_matmul_precision, or if it is CT_MATMUL_DEFAULT and
 * the value of the environment variable CT_MATMUL is not valid. */
CT_API bool ct_set_matmul(ct_context *context, ct_matmul_precision precision);
/* Returns the precision that is set, never CT_MATMUL_DEFAULT; CT_MATMUL_F32 for NULL. */
CT_API ct_matmul_precision ct_get_matmul(const ct_context *context);

/* The state of the random generator, the counter-based Philox 4x32-10 (Salmon et al. 2011): the
 * seed, and the number of the next stream. Each call that draws random numbers (a random tensor, an
 * initialisation, an active dropout, ct_random_below, ...) takes the next stream. Element i of its
 * numbers is a function of (seed, stream, i) only. */
typedef struct {
    uint64_t seed, stream;
} ct_rng;

CT_API void ct_seed(ct_context *context, uint64_t seed); /* sets the seed; the next stream is 0 */
CT_API ct_rng ct_rng_get(const ct_context *context);
/* Sets the state, also while an error is pending, so that a step that failed can be repeated. */
CT_API void ct_rng_set(ct_context *context, ct_rng rng);

/* Returns a uniform integer in [0, n), without modulo bias; it takes a stream. n < 1 is
 * CT_ERR_ARGUMENT, and -1 is returned. */
CT_API int64_t ct_random_below(ct_context *context, int64_t n);

/* Returns the context of a tensor; NULL for NULL. */
CT_API ct_context *ct_context_of(const ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
