/* Runs one row. For each number on stdin, runs a round of that many steps and prints its time as a
 * line of JSON; at the end of the input prints memory. So a script can run two such programs in
 * turns:
 *
 *     echo 10 | build/bench/rows toy --threads 2
 *
 * --profile prints where the time of all steps from the third on went, and writes a trace;
 * --matmul bf16 lets products round (ct_set_matmul), as CT_MATMUL=bf16 does; --gguf writes the
 * model of a row of models.c as a file for llama.cpp, and no step runs. */
#include "row.h"
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

uint32_t name_bits(const char *name, uint32_t i) {
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    h ^= i * 0x9E3779B9u;
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

void fill(ct_tensor *tensor, const char *name, double std) {
    float *x = ct_data_f32(tensor), a = (float)(sqrt(3) * std);
    for (int64_t i = 0; i < ct_numel(tensor); i++)
        x[i] = a * ((float)(name_bits(name, (uint32_t)i) >> 8) * 0x1p-23f - 1);
}

void fill_module(ct_module *module, double std, double std_residual) {
    for (ct_param p = {0}; ct_module_next(module, &p);) {
        bool residual = strstr(p.name, "out_proj.weight") || strstr(p.name, "linear2.weight");
        if (ct_ndim(p.tensor) == 2) fill(p.tensor, p.name, residual ? std_residual : std);
        else if (strstr(p.name, "bias")) ct_init_constant(p.tensor, 0);
    }
}

double sum_of_sizes(ct_tensor *tensor) {
    double sum = 0;
    const float *x = tensor ? ct_data_f32(tensor) : NULL;
    for (int64_t i = 0; x && i < ct_numel(tensor); i++) sum += fabs((double)x[i]);
    return x ? sum : NAN;
}

/* The largest resident memory of this program, in bytes. Linux's ru_maxrss starts from that of the
 * parent process, so VmHWM is read if it exists. */
static long long peak_memory(void) {
    long long kilobytes = -1;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && kilobytes < 0 && fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %lld", &kilobytes);
    if (file) fclose(file);
    if (kilobytes < 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        kilobytes = usage.ru_maxrss;
    }
    return kilobytes * 1024;
}

/* Seconds of processor time of all threads. */
static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static const row *find(const char *name, int64_t *number) {
    const row *all[] = {gpt_rows, micro_rows, attention_rows, decode_rows, model_rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const row *r = all[i]; r->name; r++) {
            size_t n = strlen(r->name);
            char *end = NULL;
            if (strncmp(name, r->name, n)) continue;
            if (r->name[n - 1] == '_') *number = strtoll(name + n, &end, 10);
            if (r->name[n - 1] == '_' ? *number > 0 && end && !*end : !name[n]) return r;
        }
    return NULL;
}

static int usage(const char *wrong) {
    fprintf(stderr,
            "rows: %s\nusage: rows ROW [--threads N] [--names FILE] [--profile TRACE] "
            "[--matmul f32|bf16x6|bf16x3|bf16] [--gguf FILE]   and on stdin, a line a round: how "
            "many steps\n",
            wrong);
    return 2;
}

int main(int argc, char **argv) {
    const char *names = "bench/names.txt", *profile = NULL, *gguf = NULL;
    int threads = 1;
    int64_t number = 0, steps = 0, calls = 0;
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 < argc && !strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        else if (i + 1 < argc && !strcmp(argv[i], "--names")) names = argv[i + 1];
        else if (i + 1 < argc && !strcmp(argv[i], "--profile")) profile = argv[i + 1];
        else if (i + 1 < argc && !strcmp(argv[i], "--gguf")) gguf = argv[i + 1];
        else if (i + 1 < argc && !strcmp(argv[i], "--matmul")) setenv("CT_MATMUL", argv[i + 1], 1);
        else return usage(argv[i]);
    }
    const row *r = argc > 1 ? find(argv[1], &number) : NULL;
    if (!r) return usage(argc > 1 ? "no such row" : "which row?");

    ct_context *context =
        ct_context_new((ct_context_opts){.seed = 1, .threads = threads, .on_error = ct_error_die});
    if (ct_error(context))
        return fprintf(stderr, "rows: %s\n", context ? ct_error_message(context) : "out of memory"),
               1;
    long long before = peak_memory();
    if (!r->make(r, context, number, names)) return 1;
    if (gguf) return !model_save(gguf);
    r->step(context);
    printf("{\"row\": \"%s\", \"threads\": %d, \"value\": %.9g}\n", argv[1], threads, r->value());
    fflush(stdout);

    steps = 1;
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        long long n = atoll(line);
        double start = now(), work = cpu_seconds();
        for (long long i = 0; i < n; i++, steps++) {
            if (steps == 2) calls = ct_memory(context).allocator_calls;
            if (steps == 3 && profile) ct_profile_start(context);
            r->step(context);
        }
        double seconds = now() - start, cpu = cpu_seconds() - work;
        printf("{\"steps\": %lld, \"seconds\": %.9f, \"cpu\": %.9f, \"value\": %.9g}\n", n, seconds,
               cpu, r->value());
        fflush(stdout);
    }
    if (profile && steps > 3 && ct_profile_stop(context)) {
        ct_profile_print(context, stdout);
        ct_profile_trace(context, profile);
    }
    ct_memory_stats memory = ct_memory(context);
    printf("{\"memory\": %lld, \"memory_before\": %lld, \"peak\": %lld, ", peak_memory(), before,
           (long long)memory.peak);
    if (steps > 2)
        printf("\"calls_from_third_step\": %lld, ", (long long)(memory.allocator_calls - calls));
    printf("\"steps\": %lld}\n", (long long)steps);
    ct_context_free(context);
    return 0;
}
