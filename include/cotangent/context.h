/* The context: everything a computation needs that is not a tensor. There is no global state.
 *
 * A context is used by one thread at a time; its own pool of threads does the parallel work. Two
 * contexts in two threads never meet. Tensors of different contexts may not be mixed
 * (CT_ERR_ARGUMENT).
 *
 * Errors are values, and they are sticky. The first fault is recorded with a code and a sentence;
 * until it is cleared, whatever computes or changes something does nothing and returns NULL, false
 * or NaN. Readers, close, save and free still work. So a chain of calls is checked once, at its
 * end:
 *
 *     ct_tensor *y = ct_softmax(ct_matmul(q, ct_transpose(k, -1, -2)), -1);
 *     if (!y) fprintf(stderr, "%s\n", ct_error_message(context));
 */
#ifndef CT_CONTEXT_H
#define CT_CONTEXT_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called once when an error is recorded. The message ends with the call. What failed is still
 * running then: nothing computes in here, ct_error_clear does nothing, and it must return (or end
 * the program, as ct_error_die does): no longjmp. */
typedef void (*ct_error_fn)(void *data, ct_status status, const char *message);

/* An on_error that prints the message to stderr and ends the program with exit code 1. */
CT_API void ct_error_die(void *data, ct_status status, const char *message);

/* Where memory comes from. alloc returns NULL when there is none; free is given the size that was
 * asked for. Blocks need no more alignment than malloc's. Both NULL: the C library's, in huge pages
 * where the system has them. */
typedef struct {
    void *(*alloc)(void *data, size_t size);
    void (*free)(void *data, void *block, size_t size);
    void *data;
} ct_allocator;

typedef struct {
    uint64_t seed; /* of the context's generator */
    int threads;   /* 0: CT_NUM_THREADS, else every core this process may use */
    /* "scalar", "avx2", "avx512", "neon"; NULL: CT_ISA, else the best this machine runs */
    const char *isa;
    ct_error_fn on_error; /* NULL: record only; ct_error_die: print and exit(1) */
    void *on_error_data;
    ct_allocator allocator; /* zero: the C library's */
    int64_t memory_limit;   /* bytes the context may hold; over it CT_ERR_MEMORY; 0: none */
    bool debug;             /* or CT_DEBUG=1: see below */
} ct_context_opts;

/* Debug mode, for finding mistakes, at the cost of some time and memory; results are the same bits.
 *
 * Memory that is free, or new, has all bits set: NaN as a float, -1 as an integer. So what an op
 * forgot to write, and what is read through a pointer to a tensor that has ended, is seen.
 *
 * The use of a handle that has ended (its scope was closed, it was released, its gradient zeroed)
 * is CT_ERR_ARGUMENT, and names the op that made the tensor. Known are the last 65,536 handles that
 * ended, since ct_memory_trim; ct_memory leaves them out of `live`.
 *
 * The first NaN is an error, in the op that made it: its result has one and its inputs have none
 * (CT_ERR_ARGUMENT), or in backward a gradient has one and neither the op's inputs, its result nor
 * its cotangent have (CT_ERR_GRAD). The message has the index. Infinities are numbers here, and so
 * is a NaN that was given. */

/* A new context, to be freed by ct_context_free. NULL: out of memory. Any other fault in the
 * options (an ISA that this machine lacks, a negative number of threads) gives a context with the
 * error pending. */
CT_API ct_context *ct_context_new(ct_context_opts opts);

/* Frees the context with all that was made in it: tensors, modules, optimisers, threads. NULL is
 * harmless. */
CT_API void ct_context_free(ct_context *context);

/* CT_OK when none is pending; of NULL: CT_ERR_MEMORY */
CT_API ct_status ct_error(const ct_context *context);
/* "matmul: inner sizes differ: (2, 3) @ (4, 5)"; "" when CT_OK */
CT_API const char *ct_error_message(const ct_context *context);
/* inside on_error: does nothing */
CT_API void ct_error_clear(ct_context *context);

typedef struct {
    int64_t live;            /* bytes in use by tensors, tape and modules */
    int64_t peak;            /* the largest live since the start or ct_memory_reset_peak */
    int64_t pooled;          /* bytes held beyond these, nearly all for later */
    int64_t allocator_calls; /* how often the allocator was asked for a block, ever */
} ct_memory_stats;

CT_API ct_memory_stats ct_memory(const ct_context *context);
CT_API void ct_memory_reset_peak(ct_context *context);
/* hands back what is pooled, unless something in use lies in the same slab or block */
CT_API void ct_memory_trim(ct_context *context);

/* How many threads work, the caller's among them; at least 1, at most 1024. Results are the same
 * bits for any number. */
CT_API bool ct_set_threads(ct_context *context, int threads);

/* The generator: Philox 4x32-10 (Salmon et al. 2011), counter-based. Each random creation,
 * initialisation and active dropout takes the next stream; element i of it is a function of (seed,
 * stream, i) alone. */
typedef struct {
    uint64_t seed, stream;
} ct_rng;

CT_API void ct_seed(ct_context *context, uint64_t seed); /* starts over at stream 0 */
CT_API ct_rng ct_rng_get(const ct_context *context);
CT_API void ct_rng_set(ct_context *context, ct_rng rng);

/* Uniform in [0, n), without bias. n < 1: CT_ERR_ARGUMENT, and the result is -1. */
CT_API int64_t ct_random_below(ct_context *context, int64_t n);

/* The context of a tensor; NULL of NULL. */
CT_API ct_context *ct_context_of(const ct_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
