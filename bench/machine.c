#include "machine.h"
#include "timing.h"

#include <cotangent/cotangent.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { MAX_THREADS = 64 };

/* The loops of fma.c. bench.mk compiles them for each instruction set and defines FMA_LOOPS, the
 * list of these, from the plainest to the best. */
#define LOOP(isa) double fma_##isa##_f32(int64_t n), fma_##isa##_f64(int64_t n);
FMA_LOOPS
#undef LOOP
#define LOOP(isa) {#isa, fma_##isa##_f32, fma_##isa##_f64},
static const struct {
    const char *isa;
    double (*f32)(int64_t n), (*f64)(int64_t n);
} fma_loops[] = {FMA_LOOPS};
#undef LOOP
enum { FMA_LOOPS_COUNT = sizeof fma_loops / sizeof *fma_loops };

static bool runs(const char *isa) {
    ct_context *context = ct_context_new((ct_context_opts){.isa = isa, .threads = 1});
    bool ok = ct_error(context) == CT_OK;
    ct_context_free(context);
    return ok;
}

const char *isa_in_use(void) {
    const char *wanted = getenv("CT_ISA");
    for (int i = FMA_LOOPS_COUNT - 1; i >= 0; i--) {
        const char *isa = fma_loops[i].isa;
        if ((!wanted || !*wanted || !strcmp(wanted, isa)) && runs(isa)) return isa;
    }
    return NULL;
}

/* Runs work(arg, i) on threads 0 ... threads - 1 at once. */
typedef struct {
    void (*work)(void *arg, int thread);
    void *arg;
    int thread;
} task;

static void *run_task(void *p) {
    const task *t = p;
    t->work(t->arg, t->thread);
    return NULL;
}

static void run_all(void (*work)(void *, int), void *arg, int threads) {
    task tasks[MAX_THREADS];
    pthread_t handles[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    for (int i = 0; i < threads; i++) tasks[i] = (task){work, arg, i};
    for (int i = 1; i < threads; i++)
        started[i] = !pthread_create(&handles[i], NULL, run_task, &tasks[i]);
    run_task(&tasks[0]);
    for (int i = 1; i < threads; i++)
        if (started[i]) pthread_join(handles[i], NULL);
}

/* ---- FMA ---- */

typedef struct {
    double (*loop)(int64_t);
    double before, seconds, rate[MAX_THREADS];
} fma_args;

/* Each thread times itself, so that starting threads and moving them to their cores does not count.
 */
static void fma_work(void *arg, int thread) {
    fma_args *a = arg;
    double start = now(), done = 0, seconds = 0;
    while (now() - start < a->before) a->loop(4000);
    start = now();
    while (seconds < a->seconds) done += a->loop(4000), seconds = now() - start;
    a->rate[thread] = done / seconds;
}

static double (*find_loop(const char *isa, bool f64))(int64_t) {
    for (int i = 0; i < FMA_LOOPS_COUNT; i++)
        if (!strcmp(isa, fma_loops[i].isa)) return f64 ? fma_loops[i].f64 : fma_loops[i].f32;
    return NULL;
}

#if defined __x86_64__ && (defined __clang__ || __GNUC__ >= 10)
/* Twelve accumulators, as in the loops of fma.c. Each instruction adds two products to each of 16
 * sums.
 */
__attribute__((target("avx512f,avx512bf16"))) static double fma_bf16(int64_t n) {
    static const volatile uint32_t pair = 0x3A833A83; /* 0.001 twice */
    const __m512bh a = (__m512bh)_mm512_set1_epi32((int)pair), b = a;
    __m512 sum[12];
    for (int i = 0; i < 12; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int64_t j = 0; j < n; j++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
    }
    for (int i = 1; i < 12; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    volatile float sink = _mm512_cvtss_f32(sum[0]);
    (void)sink;
    return (double)n * 12 * 2 * 32;
}
#define FMA_BF16 fma_bf16
#else
#define FMA_BF16 NULL
#endif

static double peak_of(double (*loop)(int64_t), int threads, double seconds) {
    fma_args a = {loop, threads > 1 ? 0.01 : 0, seconds, {0}};
    double sum = 0;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (!a.loop) return 0;
    run_all(fma_work, &a, threads);
    for (int i = 0; i < threads; i++) sum += a.rate[i];
    return sum;
}

double peak_flops(const char *isa, bool f64, int threads, double seconds) {
    return peak_of(find_loop(isa, f64), threads, seconds);
}

double peak_bf16(int threads, double seconds) {
    static int has = -1;
    if (has < 0) has = runs("avx512bf16");
    return has ? peak_of(FMA_BF16, threads, seconds) : 0;
}

/* ---- memory ---- */

typedef struct {
    float *a, *b, *c;
    int64_t count;
    int threads;
} triad_args;

static void triad_work(void *arg, int thread) {
    const triad_args *t = arg;
    int64_t from = t->count * thread / t->threads, to = t->count * (thread + 1) / t->threads;
    float *restrict a = t->a;
    const float *restrict b = t->b, *restrict c = t->c;
    for (int64_t i = from; i < to; i++) a[i] = b[i] + 3 * c[i];
}

double peak_bandwidth(int threads, int64_t count, int passes) {
    float *room = malloc((size_t)count * 3 * sizeof(float));
    if (!room) return 0;
    for (int64_t i = 0; i < 3 * count; i++) room[i] = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    triad_args t = {room, room + count, room + 2 * count, count, threads};
    double best = 0;
    for (int i = 0; i < passes; i++) {
        double start = now();
        run_all(triad_work, &t, threads);
        double rate = (double)count * 3 * sizeof(float) / (now() - start);
        if (rate > best) best = rate;
    }
    free(room);
    return best;
}
