/* Prints what the machine could do, for one thread and for each number given: build/bench/peak 1 2 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 9, COUNT = 32 << 20 /* floats an array: three of 128 MB */ };

static int by_value(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double median_peak(const char *isa, bool f64, int threads) {
    double rate[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) rate[i] = peak_flops(isa, f64, threads, 0.02);
    qsort(rate, ROUNDS, sizeof *rate, by_value);
    return rate[ROUNDS / 2];
}

int main(int argc, char **argv) {
    const char *isa = isa_in_use();
    if (!isa) return fprintf(stderr, "peak: no context can be made; is CT_ISA right?\n"), 1;
    printf("{\"isa\": \"%s\", \"compiler\": \"%s\", \"cores\": %ld", isa, __VERSION__, sysconf(_SC_NPROCESSORS_ONLN));
    for (int i = 1; i < argc; i++) {
        int threads = atoi(argv[i]);
        if (threads < 1) return fprintf(stderr, "peak: not a number of threads: %s\n", argv[i]), 2;
        printf(", \"%d\": {\"f32\": %.4g, \"f64\": %.4g, \"bytes\": %.4g}", threads, median_peak(isa, false, threads),
               median_peak(isa, true, threads), peak_bandwidth(threads, COUNT, 5));
    }
    printf("}\n");
    return 0;
}
