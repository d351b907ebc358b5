/* The context owns everything that a computation needs besides tensors: memory, tape, threads,
 * random generator and the pending error. There is no global state.
 *
 * A context is used by one thread at a time; its own pool of threads does the parallel work, in the
 * floating-point mode (rounding, denormals that count as zero) of the thread that calls. Two
 * threads with a context each share nothing. A call whose arguments are of different contexts, or
 * one of whose arguments has ended, is CT_ERR_ARGUMENT in the contexts of all its arguments.
 *
 * Errors are values, and they are sticky. The first error is recorded with a code and a message;
 * until it is cleared, every function that computes or changes something does nothing and returns
 * NULL, false or NaN. Functions that read, close, save or free still work. So a chain of calls
 * needs one check at its end:
 *
 *     ct_tensor *y = ct_softmax(ct_matmul(q, ct_transpose(k, -1, -2)), -1);
 *     if (!y) fprintf(stderr, "%s\n", ct_error_message(context));
 *
 * Functions of the program that the library calls (on_error, the forward and backward of an op, a
 * module's forward, the functions of ct_recompute and ct_gradcheck, an allocator, a comm's engine)
 * must return: no C++ exception and no longjmp may leave them, as what the library was doing is
 * then half done. One of the first five kinds that is left all the same is no crash: the next call
 * in the context is CT_ERR_ARGUMENT ("mine: its forward was left by an exception or by longjmp"),
 * or that call has the error that is pending. It closes the scopes that were opened inside, and
 * ct_error_clear makes the context usable again, without what was being computed. (The next call
 * is found if it is made on the thread that the callback was left on, at most some 4 KB further
 * down its stack; else a later one. On the stack of a coroutine, made by the program itself, none
 * is found: then only ct_context_free helps.)
 *
 * An error that nobody has looked at is not lost: if it is pending when the context is freed, and
 * it was neither returned by ct_error or ct_error_message nor given to on_error since,
 * ct_context_free prints it to stderr: "cotangent: error never looked at: matmul: ...".
 */
#ifndef CT_CONTEXT_H
#define CT_CONTEXT_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called once when an error is recorded. The message is valid only during the call. The function
 * that failed is still running: in here nothing can compute and ct_error_clear does nothing. It
 * must return or end the program (as ct_error_die does), as any callback. */
typedef void (*ct_error_fn)(void *data, ct_status status, const char *message);

/* An on_error that prints the message to stderr and ends the program with exit code 1. */
CT_API void ct_error_die(void *data, ct_status status, const char *message);

/* An allocator. alloc returns NULL if it has no memory; free gets the size that was passed to
 * alloc. malloc's alignment suffices. Both NULL: the C library's, with huge pages if the system has
 * them. */
typedef struct {
    void *(*alloc)(void *data, size_t size);
    void (*free)(void *data, void *block, size_t size);
    void *data;
} ct_allocator;

/* How exactly products of f32 are computed: a permission, like torch.set_float32_matmul_precision,
 * to round the operands of linear, matmul, einsum, attention and the ops made of them, forward and
 * backward. Sums are always of f32; tensors, norms, softmax, losses and optimisers stay f32, and
 * f64 is not concerned. Large products alone are rounded, by their sizes: for others, and on a
 * machine without such instructions, the results are those of CT_MATMUL_F32, to the bit. With every
 * setting results are the same bits for any number of threads.
 *
 * CT_MATMUL_BF16: operands are rounded to bf16 (nearest even; 8 bits of mantissa, the range of
 * f32), so each operand has a relative error of at most 1/257, a bit less than 2^-8, and each
 * term a b one of at most 2/257 + 1/257^2 < 2^-7. NaN stays NaN, infinities stay, and
 * what is half a unit of bf16 or more above its largest number becomes infinite. Operands and
 * partial sums smaller than 2^-126 count as zero.
 * CT_MATMUL_BF16X6, BF16X3: an operand is the sum of three, two numbers of bf16, and a b the sum of
 * six, three products of these: relative errors of a term of some 2^-24, 2^-16. Products whose
 * operands are infinite, NaN or near an end of the range are computed as by CT_MATMUL_F32. */
typedef enum {
    CT_MATMUL_DEFAULT, /* CT_MATMUL=f32, bf16x6, bf16x3 or bf16 in the environment; else F32 */
    CT_MATMUL_F32,
    CT_MATMUL_BF16X6,
    CT_MATMUL_BF16X3,
    CT_MATMUL_BF16,
} ct_matmul_precision;

typedef struct {
    uint64_t seed; /* seed of the random generator */
    int threads;   /* 0: CT_NUM_THREADS, else every core this process may use */
    /* "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"; NULL: CT_ISA, else the best this
     * machine runs */
    const char *isa;
    ct_error_fn on_error; /* NULL: record only; ct_error_die: print and exit(1) */
    void *on_error_data;
    ct_allocator allocator; /* zeroed: the C library's */
    int64_t
        memory_limit; /* most bytes the context may hold, beyond that CT_ERR_MEMORY; 0: no limit */
    bool debug;       /* debug mode, see below; CT_DEBUG=1 sets it too */
    ct_matmul_precision matmul; /* see ct_set_matmul */
} ct_context_opts;

/* Debug mode, for finding mistakes, at the cost of some time and memory; results are the same bits.
 *
 * Every error that is recorded while none is pending is printed to stderr where it happens
 * ("cotangent: matmul: ..."), unless on_error is ct_error_die. Errors that gradcheck provokes are
 * not printed.
 *
 * Free and newly allocated memory has all bits set: NaN as a float, -1 as an integer. That shows
 * elements that an op forgot to write, and reads through a pointer to a tensor that has ended.
 *
 * Using a handle that has ended (its scope was closed, it was released, or its gradient zeroed) is
 * CT_ERR_ARGUMENT with the name of the op that made it. The last 65,536 ended handles are
 * remembered, until ct_memory_trim; they are not counted in `live` of ct_memory.
 *
 * The op that makes the first NaN fails, and the message has the element's index: CT_ERR_ARGUMENT
 * if a result has a NaN and the inputs have none, CT_ERR_GRAD if in backward a gradient has one and
 * neither the inputs, the result nor the cotangent have. The op is the one that the program called
 * (of its own ops: the name in ct_op), whatever other ops its forward or backward is made of.
 * Infinities are no error, nor is a NaN in an input. */

/* A new context; free it with ct_context_free. NULL: out of memory. Any other error in the options
 * (an ISA that this machine lacks, a negative number of threads) gives a context with that error
 * pending. */
CT_API ct_context *ct_context_new(ct_context_opts opts);

/* Frees the context and everything made in it: tensors, modules, optimisers, threads. NULL does
 * nothing. Prints an error that nobody has looked at. */
CT_API void ct_context_free(ct_context *context);

/* CT_OK if none is pending; CT_ERR_MEMORY if context is NULL */
CT_API ct_status ct_error(const ct_context *context);
/* "matmul: inner sizes differ: (2, 3) @ (4, 5)"; "" when CT_OK */
CT_API const char *ct_error_message(const ct_context *context);
/* does nothing inside on_error */
CT_API void ct_error_clear(ct_context *context);

typedef struct {
    int64_t live;            /* bytes in use by tensors, tape and modules */
    int64_t peak;            /* largest `live` since the start or ct_memory_reset_peak */
    int64_t pooled;          /* bytes held from the allocator but not in use */
    int64_t allocator_calls; /* calls of alloc since the start */
} ct_memory_stats;

CT_API ct_memory_stats ct_memory(const ct_context *context);
CT_API void ct_memory_reset_peak(ct_context *context);
/* returns pooled memory to the allocator, except slabs and blocks that are partly in use */
CT_API void ct_memory_trim(ct_context *context);

/* Sets the number of threads, including the caller's: 1 to 1024. Results are the same bits for any
 * number. */
CT_API bool ct_set_threads(ct_context *context, int threads);
CT_API int ct_threads(const ct_context *context); /* 0 for NULL */

/* The instruction set of the kernels: "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"; ""
 * for NULL. */
CT_API const char *ct_isa_name(const ct_context *context);

/* A number for what fixes the bits of results besides the program and its seed: the instruction
 * set, the build of the library, its compiler, the C library, ct_set_matmul, and the calling
 * thread's floating-point mode. It is a hash of what every kernel computes of fixed numbers, a
 * millisecond's work: two contexts with one number give the same bits, but for differences that
 * those numbers do not show. Threads and caches have no part in it. 0 for NULL. Checkpoints have
 * it, and the ranks of a ct_dist must agree on it. */
CT_API uint64_t ct_fingerprint(const ct_context *context);

/* Sets how exactly products are computed from now on. A backward of attention rounds what its
 * forward has rounded. Not a ct_matmul_precision, or CT_MATMUL_DEFAULT where CT_MATMUL is none of
 * its values: CT_ERR_ARGUMENT, and nothing changes. */
CT_API bool ct_set_matmul(ct_context *context, ct_matmul_precision precision);
/* What is set, never CT_MATMUL_DEFAULT; CT_MATMUL_F32 for NULL. */
CT_API ct_matmul_precision ct_get_matmul(const ct_context *context);

/* The random generator is Philox 4x32-10 (Salmon et al. 2011), which is counter-based. Each random
 * tensor, initialisation and active dropout uses the next stream; its element i is a function of
 * (seed, stream, i) only. */
typedef struct {
    uint64_t seed, stream;
} ct_rng;

CT_API void ct_seed(ct_context *context, uint64_t seed); /* restarts at stream 0 */
CT_API ct_rng ct_rng_get(const ct_context *context);
CT_API void ct_rng_set(ct_context *context, ct_rng rng);

/* A uniform integer in [0, n), without modulo bias. n < 1: CT_ERR_ARGUMENT and -1. */
CT_API int64_t ct_random_below(ct_context *context, int64_t n);

/* The context of a tensor; NULL for NULL. */
CT_API ct_context *ct_context_of(const ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
