/* The elementary functions on every float: the largest error in units of the last place, and its
 * argument. The reference is libm in f64.
 *
 *     build/bench/vmath --threads 2 [--only exp] */
#include "flags.h"

#include <cotangent/cotangent.h>

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG = 999999, BLOCK = 1 << 16, BLOCKS = 1 << 16, ISAS = 4, MOST_THREADS = 256 };

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double gelu(double x) { return x * (0.5 * erfc(-x * 0.70710678118654752440)); }

/* An error counts in units of the last place of the result, or of `floor` if the result is smaller;
 * WRONG if the result is not even close. */
static const struct {
    const char *name;
    ct_tensor *(*ours)(ct_tensor *);
    double (*truth)(double);
    double floor;
} functions[] = {
    {"exp", ct_exp, exp, 0},        {"log", ct_log, log, 0},
    {"tanh", ct_tanh, tanh, 0},     {"sigmoid", ct_sigmoid, sigmoid, 0},
    {"gelu", ct_gelu, gelu, 0.125}, {"sin", ct_sin, sin, 0},
    {"cos", ct_cos, cos, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
static const char *const isas[ISAS] = {"scalar", "avx2", "avx512", "neon"};

typedef struct {
    int function, first, step;
    bool failed;
    double worst[ISAS]; /* -1: this machine lacks it */
    float at[ISAS];
} share;

/* The distance from |x|, a number in f32's range, to the next float. */
static double ulp(double x) {
    uint64_t bits, exponent;
    memcpy(&bits, &x, sizeof bits);
    exponent = bits >> 52 & 0x7ff;
    bits = ((exponent > 1023 - 126 ? exponent : 1023 - 126) - 23) << 52;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static double error(float got, double want, double floor) {
    if (fabs(want) <= (double)FLT_MAX && fabsf(got) <= FLT_MAX)
        return fabs((double)got - want) / ulp(fabs(want) > floor ? want : floor);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : WRONG;
    if (isinf(want) && isinf(got)) return want == (double)got ? 0 : WRONG;
    /* rounding may overflow */
    return fabs(want) >= (double)FLT_MAX && fabsf(got) >= FLT_MAX && want * got > 0 ? 0 : WRONG;
}

static void *work(void *arg) {
    share *s = arg;
    ct_context *context[ISAS];
    ct_tensor *x[ISAS];
    double *want = malloc(BLOCK * sizeof *want);
    for (int k = 0; k < ISAS; k++) {
        context[k] = ct_context_new((ct_context_opts){.threads = 1, .isa = isas[k]});
        s->worst[k] = ct_error(context[k]) ? -1 : 0;
        x[k] = ct_empty(context[k], CT_F32, CT_SHAPE(BLOCK));
    }
    for (int block = s->first; want && block < BLOCKS; block += s->step) {
        for (int i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)block << 16 | (uint32_t)i;
            float value;
            memcpy(&value, &bits, sizeof value);
            want[i] = functions[s->function].truth((double)value);
            for (int k = 0; k < ISAS; k++)
                if (x[k]) ct_data_f32(x[k])[i] = value;
        }
        for (int k = 0; k < ISAS; k++) {
            if (!x[k]) continue;
            ct_scope scope = ct_scope_open_no_grad(context[k]);
            const float *y = ct_data_f32(functions[s->function].ours(x[k]));
            s->failed |= !y;
            for (int i = 0; y && i < BLOCK; i++) {
                double e = error(y[i], want[i], functions[s->function].floor);
                if (e > s->worst[k]) s->worst[k] = e, s->at[k] = ct_data_f32(x[k])[i];
            }
            ct_scope_close(scope);
        }
    }
    s->failed |= !want;
    for (int k = 0; k < ISAS; k++) ct_context_free(context[k]);
    free(want);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = 1;
    const char *only = NULL;
    if (!threads_and_only(argc, argv, "vmath", &threads, &only)) return 2;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    static share shares[MOST_THREADS];
    static pthread_t thread[MOST_THREADS];
    for (int f = 0; f < FUNCTIONS; f++) {
        if (only && strcmp(only, functions[f].name)) continue;
        bool started[MOST_THREADS];
        for (int t = 0; t < threads; t++) {
            shares[t] = (share){.function = f, .first = t, .step = threads};
            started[t] = t && !pthread_create(&thread[t], NULL, work, &shares[t]);
        }
        for (int t = 0; t < threads; t++) {
            if (started[t]) pthread_join(thread[t], NULL);
            else work(&shares[t]);
            if (shares[t].failed) return fprintf(stderr, "vmath: out of memory\n"), 1;
        }
        for (int k = 0; k < ISAS; k++) {
            share *worst = &shares[0];
            for (int t = 1; t < threads; t++)
                if (shares[t].worst[k] > worst->worst[k]) worst = &shares[t];
            if (worst->worst[k] >= 0)
                printf("{\"function\": \"%s\", \"isa\": \"%s\", \"ulp\": %.3f, \"of\": \"%.9g\"}\n",
                       functions[f].name, isas[k], worst->worst[k], (double)worst->at[k]);
            fflush(stdout);
        }
    }
    return 0;
}
