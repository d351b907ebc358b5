/* Makes and frees contexts, reads their settings, and finds two threads in one context. */
#include "kernel_bits.h"
#include "busy.h"
#include "context.h"
#include "float_mode.h"
#include "int_math.h"
#include "../os/os.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024 };

/* The number in CT_NUM_THREADS or, if it is not set, the number of cores that this process may use.
 * Returns 0 with an error if the variable is not a number in range. */
static int default_threads(ct_context *context) {
    const char *text = getenv("CT_NUM_THREADS");
    if (text && *text) {
        char *end;
        errno = 0;
        long threads = strtol(text, &end, 10);
        if (!errno && !*end && threads >= 1 && threads <= MAX_THREADS) return (int)threads;
        ct_fail(context, CT_ERR_ARGUMENT, "context: CT_NUM_THREADS=%s is not a number from 1 to %d",
                text, MAX_THREADS);
        return 0;
    }
    return (int)cti_min(cti_os_cores(), MAX_THREADS);
}

/* The size of a core's L2 cache in bytes. */
static int64_t l2_bytes(void) {
    enum { LEAST = 256 << 10, USUAL = 1 << 20, MOST = 8 << 20 };
    const int64_t bytes = cti_os_l2_bytes();
    return bytes > 0 ? cti_min(cti_max(bytes, LEAST), MOST) : USUAL;
}

/* The associativity of a core's L1d cache. */
static int64_t l1d_ways(void) {
    enum { USUAL = 8 };
    const int64_t ways = cti_os_l1d_ways();
    return ways > 0 ? ways : USUAL;
}

static bool threads_in_range(ct_context *context, int threads) {
    if (threads >= 1 && threads <= MAX_THREADS) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "context: %d threads; the number is from 1 to %d", threads,
            MAX_THREADS);
    return false;
}

/* ---- the precision of products ---- */

const char *cti_matmul_name(ct_matmul_precision precision) {
    static const char *const names[] = {[CT_MATMUL_DEFAULT] = "default",
                                        [CT_MATMUL_F32] = "f32",
                                        [CT_MATMUL_BF16X6] = "bf16x6",
                                        [CT_MATMUL_BF16X3] = "bf16x3",
                                        [CT_MATMUL_BF16] = "bf16"};
    return names[precision];
}

/* The precision in CT_MATMUL, or CT_MATMUL_F32 if the variable is not set. Returns
 * CT_MATMUL_DEFAULT with an error if the variable is not a precision. */
static ct_matmul_precision default_matmul(ct_context *context) {
    const char *text = getenv("CT_MATMUL");
    if (!text || !*text) return CT_MATMUL_F32;
    for (int i = CT_MATMUL_F32; i <= CT_MATMUL_BF16; i++)
        if (!strcmp(text, cti_matmul_name((ct_matmul_precision)i))) return (ct_matmul_precision)i;
    ct_fail(context, CT_ERR_ARGUMENT, "context: CT_MATMUL=%s is not f32, bf16x6, bf16x3 or bf16",
            text);
    return CT_MATMUL_DEFAULT;
}

/* The fastest kernels for rounded products that are at least as exact as the setting. NULL means
 * that products are not rounded. */
static const cti_gemm_kernels *rounded_kernels(const cti_kernels *k,
                                               ct_matmul_precision precision) {
    switch (precision) {
    case CT_MATMUL_DEFAULT:
    case CT_MATMUL_F32: return NULL;
    case CT_MATMUL_BF16: return k->bf16;
    case CT_MATMUL_BF16X3: return k->bf16x3 ? k->bf16x3 : k->bf16x6;
    case CT_MATMUL_BF16X6: return k->bf16x6;
    }
    return NULL;
}

bool cti_set_matmul(ct_context *context, ct_matmul_precision precision) {
    if ((int)precision < CT_MATMUL_DEFAULT || (int)precision > CT_MATMUL_BF16)
        return ct_fail(context, CT_ERR_ARGUMENT, "context: %d is not a ct_matmul_precision",
                       (int)precision);
    if (precision == CT_MATMUL_DEFAULT) precision = default_matmul(context);
    if (precision == CT_MATMUL_DEFAULT) return false;
    context->matmul = precision;
    context->rounded = rounded_kernels(context->isa->of[CT_F32], precision);
    return true;
}

bool ct_set_matmul(ct_context *context, ct_matmul_precision precision) {
    return cti_ready(context) && cti_set_matmul(context, precision);
}

ct_matmul_precision ct_get_matmul(const ct_context *context) {
    return context ? context->matmul : CT_MATMUL_F32;
}

cti_rows cti_set_rows(ct_context *context, cti_rows rows) {
    const cti_rows before = context->rows;
    context->rows = rows;
    return before;
}

/* ---- making ---- */

ct_context *ct_context_new(ct_context_opts opts) {
    bool half_allocator = !opts.allocator.alloc != !opts.allocator.free;
    cti_pool pool;
    const char *env = getenv("CT_DEBUG");
    const bool debug = opts.debug || (env && !strcmp(env, "1"));
    cti_pool_init(&pool, opts.allocator, opts.memory_limit > 0 ? opts.memory_limit : 0, debug);
    ct_context *context = pool.allocator.alloc(pool.allocator.data, sizeof *context);
    if (!context) return NULL;
    *context = (ct_context){.pool = pool,
                            .on_error = opts.on_error,
                            .on_error_data = opts.on_error_data,
                            .rng = {.seed = opts.seed},
                            .threads = 1,
                            .debug = debug,
                            .observed = debug,
                            .l2_bytes = l2_bytes(),
                            .l1d_ways = l1d_ways()};
    context->frame = &context->root;
    context->isa = cti_isa_at(0);
    cti_handles_init(context);

    const char *isa = opts.isa ? opts.isa : getenv("CT_ISA");
    if (isa && !*isa && !opts.isa) isa = NULL;
    const cti_isa *kernels = cti_isa_find(isa);
    context->matmul = CT_MATMUL_F32;
    if (kernels) context->isa = kernels;
    else
        ct_fail(context, CT_ERR_ARGUMENT,
                "context: isa %s is not in this build or not on this machine; the build has %s",
                isa, cti_isa_names());

    cti_set_matmul(context, opts.matmul);

    if (half_allocator)
        ct_fail(context, CT_ERR_ARGUMENT, "context: an allocator needs both alloc and free");
    if (opts.memory_limit < 0)
        ct_fail(context, CT_ERR_ARGUMENT, "context: a memory limit of %lld bytes",
                (long long)opts.memory_limit);
    int threads = opts.threads ? opts.threads : default_threads(context);
    if (threads && threads_in_range(context, threads)) context->threads = threads;
    return context;
}

/* ---- loans, and a backward that runs ---- */

void cti_lend(ct_context *context, const char *owner) {
    cti_loans *loans = &context->loans;
    if (!loans->open++) loans->refused = NULL;
    loans->owner = owner;
}

const char *cti_lend_end(ct_context *context) {
    CTI_ASSERT(context->loans.open > 0);
    context->loans.open--;
    return context->loans.refused;
}

bool cti_is_lent(ct_context *context, const char *function) {
    cti_loans *loans = &context->loans;
    if (!loans->open) return false;
    loans->refused = function;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: called by a function of %s", function, loans->owner);
    return true;
}

bool cti_in_backward(const ct_context *context) { return context->backward; }

/* ---- freeing, and reading settings ---- */

/* Whether a function of the program is running that the library has called. */
static bool in_callback(const ct_context *context) {
    const cti_frame *frame = context->frame;
    while (frame->pooled) frame = frame->outer;
    return context->closing || context->reporting || frame != &context->root;
}

void ct_context_free(ct_context *context) {
    if (!context || cti_is_lent(context, "ct_context_free")) return;
    if (in_callback(context)) {
        ct_fail(context, CT_ERR_ARGUMENT, "ct_context_free: a call of the context is running");
        return;
    }
    cti_error_print_unseen(context);
    context->closing = true;
    while (context->hooks) cti_hook_end(context->hooks);
    cti_workers_free(context);
    cti_pool pool = context->pool;
    cti_pool_free(&pool);
    pool.allocator.free(pool.allocator.data, context, sizeof *context);
}

bool ct_set_threads(ct_context *context, int threads) {
    if (!cti_ready(context) || !threads_in_range(context, threads)) return false;
    cti_workers_free(context);
    context->threads = threads;
    return true;
}

int ct_threads(const ct_context *context) { return context ? context->threads : 0; }

/* A thread keeps its last fingerprint, because every save and load of a checkpoint takes one. */
uint64_t ct_fingerprint(const ct_context *context) {
    static _Thread_local struct {
        const cti_isa *isa;
        const cti_gemm_kernels *rounded;
        cti_float_mode mode;
        uint64_t fingerprint;
    } last;
    if (!context) return 0;
    const cti_float_mode mode = cti_float_mode_get();
    if (last.isa != context->isa || last.rounded != context->rounded ||
        !cti_float_mode_equal(&last.mode, &mode)) {
        last.isa = context->isa;
        last.rounded = context->rounded;
        last.mode = mode;
        last.fingerprint = cti_fingerprint(context->isa, context->rounded);
    }
    return last.fingerprint;
}

void cti_fingerprint_text(const ct_context *context, char text[CTI_FINGERPRINT_TEXT]) {
    const char *rounded = context->rounded ? cti_matmul_name(context->matmul) : "";
    snprintf(text, CTI_FINGERPRINT_TEXT, "%016" PRIx64 " %s%s%s, %s", ct_fingerprint(context),
             context->isa->name, *rounded ? " with " : "", rounded, cti_build());
}

const char *ct_isa_name(const ct_context *context) { return context ? context->isa->name : ""; }

ct_memory_stats ct_memory(const ct_context *context) {
    if (!context) return (ct_memory_stats){0};
    const cti_pool *pool = &context->pool;
    /* The bytes of blocks in use, without handles. Entries of handles are lasting memory, which is
     * not pooled. */
    const int64_t in_blocks = pool->live - cti_handles_used(context) * CTI_HANDLE_BYTES;
    return (ct_memory_stats){.live = pool->live,
                             .peak = pool->peak,
                             .pooled = pool->held - pool->chunks.clean - pool->lasting - in_blocks,
                             .allocator_calls = pool->calls};
}

/* ---- debug mode: two threads at once ---- */

/* A number that differs from the numbers of all other running threads. */
static uintptr_t this_thread(void) {
    static _Thread_local char thread;
    return (uintptr_t)&thread;
}

bool cti_debug_enter(ct_context *context) {
    const uintptr_t self = this_thread();
    uintptr_t inside = 0;
    if (!atomic_compare_exchange_strong(&context->inside, &inside, self) && inside != self) {
        atomic_store(&context->intruded, true);
        return false;
    }
    context->depth++;
    return true;
}

void cti_debug_leave(ct_context *context) {
    if (--context->depth) return;
    if (atomic_exchange(&context->intruded, false))
        ct_fail(context, CT_ERR_ARGUMENT,
                "context: two threads called at the same time; a context is used by one at a time");
    atomic_store(&context->inside, 0);
}
