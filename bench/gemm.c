/* Matrix products through ct_matmul: every shape as NN, NT and TN, f32 and f64. Rounds alternate
 * between cotangent, the FMA peak and, if libopenblas is found, OpenBLAS; shares and ratios are
 * medians over rounds of figures that were measured next to each other.
 *
 *     build/bench/gemm --threads 2 [--only 768x128x384] [--seconds 0.3] [--openblas LIB]
 *
 * With --matmul bf16 products of f32 may round their operands to bf16. All shares are then of the
 * peak of vdpbf16ps, where the machine has it, also of products that are too small to be rounded.
 */
#include "machine.h"
#include "timing.h"

#include <cotangent/cotangent.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MOST = 99, ROUNDS_SHARED = 15, ROUNDS_LEAST = 9 };

typedef enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 } cblas_enum;
typedef void sgemm_fn(cblas_enum, cblas_enum, cblas_enum, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef void dgemm_fn(cblas_enum, cblas_enum, cblas_enum, int m, int n, int k, double alpha,
                      const double *a, int lda, const double *b, int ldb, double beta, double *c,
                      int ldc);
typedef void set_threads_fn(int);

static struct {
    sgemm_fn *sgemm;
    dgemm_fn *dgemm;
} openblas;

static ct_context *context;
static const char *isa;
static int threads = 1;
static double budget =
    0.3; /* seconds of each side for a case; more if ROUNDS_LEAST rounds take longer */

/* An OpenBLAS release older than the CPU falls back to kernels for a very old one, so the core type
 * is set, unless the environment sets it. */
static bool open_openblas(const char *path) {
    if (!strcmp(isa, "avx512")) setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
    if (!strcmp(isa, "avx2")) setenv("OPENBLAS_CORETYPE", "HASWELL", 0);
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!path) library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!path && !library) library = dlopen("libopenblas.so", RTLD_NOW);
    if (!library) return false;
    /* ISO C has no cast from an object's pointer to a function's; POSIX wants this */
    set_threads_fn *set_threads;
    *(void **)&openblas.sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&openblas.dgemm = dlsym(library, "cblas_dgemm");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (!openblas.sgemm || !openblas.dgemm || !set_threads) return openblas.sgemm = NULL, false;
    set_threads(threads);
    return true;
}

typedef struct {
    int64_t m, k, n;
    bool f64, ta, tb;     /* whether a is stored as (K, M), b as (N, K) */
    ct_tensor *a, *b, *c; /* a and b as they are stored, */
    /* and as they are multiplied: views, made once, as a call of BLAS takes a flag */
    ct_tensor *of_a, *of_b;
} product;

static void ours(const product *p) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_matmul(p->of_a, p->of_b);
    ct_scope_close(scope);
}

static void theirs(const product *p) {
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = p->ta ? m : k, ldb = p->tb ? k : n;
    cblas_enum ta = p->ta ? TRANSPOSED : PLAIN, tb = p->tb ? TRANSPOSED : PLAIN;
    if (p->f64)
        openblas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, ct_data_f64(p->a), lda, ct_data_f64(p->b),
                       ldb, 0, ct_data_f64(p->c), n);
    else
        openblas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, ct_data_f32(p->a), lda, ct_data_f32(p->b),
                       ldb, 0, ct_data_f32(p->c), n);
}

/* The largest difference over the largest value: whether both compute the same product. */
static double difference(const product *p) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *c = ct_matmul(p->of_a, p->of_b);
    theirs(p);
    double worst = ct_item(ct_max(ct_abs(ct_sub(c, p->c)), CT_ALL, false)) /
                   ct_item(ct_max(ct_abs(p->c), CT_ALL, false));
    ct_scope_close(scope);
    return worst;
}

/* Operations a second over n products. */
static double rate(const product *p, void (*multiply)(const product *), int64_t n) {
    double start = now();
    for (int64_t i = 0; i < n; i++) multiply(p);
    return 2 * (double)p->m * (double)p->n * (double)p->k * (double)n / (now() - start);
}

/* The peak of which a round's share is taken. */
static double peak_beside(bool f64, double seconds) {
    bool rounded = !f64 && ct_get_matmul(context) == CT_MATMUL_BF16;
    double peak = rounded ? peak_bf16(threads, seconds) : 0;
    return peak > 0 ? peak : peak_flops(isa, f64, threads, seconds);
}

/* With several threads each side runs for a while before it is timed: OpenBLAS's threads spin for
 * 2^26 ticks (some 30 ms) after a product, on the cores that ours need, and a thread that has slept
 * may start on the core of the thread that wakes it. */
static double rate_warm(const product *p, void (*multiply)(const product *), int64_t n) {
    for (double start = now(); threads > 1 && openblas.sgemm && now() - start < 0.05;) multiply(p);
    return rate(p, multiply, n);
}

static void measure(product *p) {
    ct_dtype dtype = p->f64 ? CT_F64 : CT_F32;
    ct_scope scope = ct_scope_open(context);
    p->a = ct_randn(context, dtype, p->ta ? CT_SHAPE(p->k, p->m) : CT_SHAPE(p->m, p->k));
    p->b = ct_randn(context, dtype, p->tb ? CT_SHAPE(p->n, p->k) : CT_SHAPE(p->k, p->n));
    p->of_a = p->ta ? ct_transpose(p->a, 0, 1) : p->a;
    p->of_b = p->tb ? ct_transpose(p->b, 0, 1) : p->b;
    p->c = ct_zeros(context, dtype, CT_SHAPE(p->m, p->n));
    double worst = openblas.sgemm ? difference(p) : 0;
    for (int i = 0; i < 2; i++) ours(p);

    double flops = 2 * (double)p->m * (double)p->n * (double)p->k, once = flops / rate(p, ours, 1);
    int64_t repeat = once < 0.002 ? (int64_t)(0.002 / once) + 1 : 1;
    int rounds = (int)(budget / (once * (double)repeat));
    const int most = openblas.sgemm && threads > 1 ? ROUNDS_SHARED : ROUNDS_MOST;
    rounds = rounds < ROUNDS_LEAST ? ROUNDS_LEAST : rounds > most ? most : rounds;
    double beside = once * (double)repeat / 2; /* time for the peak loop in a round */
    beside = beside < 0.001 ? 0.001 : beside > 0.02 ? 0.02 : beside;
    double speed[ROUNDS_MOST], share[ROUNDS_MOST], blas[ROUNDS_MOST], ratio[ROUNDS_MOST];
    for (int i = 0; i < rounds; i++) {
        /* alternate which side is first */
        if (openblas.sgemm && i % 2) blas[i] = rate_warm(p, theirs, repeat);
        speed[i] = rate_warm(p, ours, repeat);
        share[i] = speed[i] / peak_beside(p->f64, beside);
        if (openblas.sgemm && i % 2 == 0) blas[i] = rate_warm(p, theirs, repeat);
        if (openblas.sgemm) ratio[i] = speed[i] / blas[i];
    }
    printf("{\"dtype\": \"%s\", \"m\": %lld, \"k\": %lld, \"n\": %lld, ", p->f64 ? "f64" : "f32",
           (long long)p->m, (long long)p->k, (long long)p->n);
    printf("\"layout\": \"%c%c\", \"threads\": %d, \"rounds\": %d, ", p->ta ? 'T' : 'N',
           p->tb ? 'T' : 'N', threads, rounds);
    printf("\"gflops\": %.5g, \"share\": %.4f", 1e-9 * median(speed, rounds),
           median(share, rounds));
    if (openblas.sgemm)
        printf(", \"openblas\": %.5g, \"ratio\": %.4f, \"difference\": %.2g",
               1e-9 * median(blas, rounds), median(ratio, rounds), worst);
    printf("}\n");
    fflush(stdout);
    ct_scope_close(scope);
}

static int usage(const char *wrong) {
    fprintf(stderr,
            "gemm: %s\nusage: gemm [--threads N] [--only MxKxN] [--dtype f32|f64] [--seconds S] "
            "[--openblas PATH|none] [--matmul f32|bf16x6|bf16x3|bf16]\n",
            wrong);
    return 2;
}

int main(int argc, char **argv) {
    static const int64_t shapes[][3] = {{16, 16, 16},
                                        {32, 32, 32},
                                        {64, 64, 64},
                                        {128, 128, 128},
                                        {384, 384, 384},
                                        {768, 768, 768},
                                        {1024, 1024, 1024},
                                        {2048, 2048, 2048},
                                        /* shapes of the benchmark's rows */
                                        {768, 128, 384},
                                        {768, 128, 512},
                                        {2048, 384, 1152},
                                        {2048, 384, 1536},
                                        {256, 768, 2304},
                                        {256, 768, 50257}};
    const char *path = NULL, *only = NULL, *dtype = NULL;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage(argv[i]);
        if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--only")) only = argv[i + 1];
        else if (!strcmp(argv[i], "--dtype")) dtype = argv[i + 1];
        else if (!strcmp(argv[i], "--seconds")) budget = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--openblas")) path = argv[i + 1];
        else if (!strcmp(argv[i], "--matmul")) setenv("CT_MATMUL", argv[i + 1], 1);
        else return usage(argv[i]);
    }
    isa = isa_in_use();
    context =
        ct_context_new((ct_context_opts){.seed = 1, .threads = threads, .on_error = ct_error_die});
    if (ct_error(context) || !isa)
        return fprintf(stderr, "gemm: %s\n", context ? ct_error_message(context) : "out of memory"),
               1;
    if ((!path || strcmp(path, "none")) && !open_openblas(path) && path)
        return fprintf(stderr, "gemm: %s\n", dlerror()), 1;

    int64_t own[3];
    bool one =
        only && sscanf(only, "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &own[0], &own[1], &own[2]) == 3;
    if (only && !one) return usage(only);
    for (int f64 = 0; f64 < 2; f64++)
        for (size_t i = 0; i < (one ? 1 : sizeof shapes / sizeof *shapes); i++)
            for (int layout = 0; layout < 3; layout++) {
                const int64_t *s = one ? own : shapes[i];
                if (!dtype || !strcmp(dtype, f64 ? "f64" : "f32"))
                    measure(&(product){.m = s[0],
                                       .k = s[1],
                                       .n = s[2],
                                       .f64 = f64,
                                       .ta = layout == 2,
                                       .tb = layout == 1});
            }
    ct_context_free(context);
    return 0;
}
