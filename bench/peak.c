/* Prints the machine's limits for each number of threads: build/bench/peak 1 2. With --beside 2,
 * prints the current f32 peak for each line on stdin, to be measured in turns with a row: clock
 * rates and other load change over time. */
#include "machine.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 9, COUNT = 32 << 20 /* floats an array: three of 128 MB */ };

static double median_peak(const char *isa, bool f64, int threads) {
    double rate[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) rate[i] = peak_flops(isa, f64, threads, 0.02);
    return median(rate, ROUNDS);
}

int main(int argc, char **argv) {
    const char *isa = isa_in_use();
    if (!isa) return fprintf(stderr, "peak: no context can be made; is CT_ISA right?\n"), 1;
    if (argc == 3 && !strcmp(argv[1], "--beside")) {
        printf("{\"value\": %.4g}\n", peak_flops(isa, false, atoi(argv[2]), 0.02));
        fflush(stdout);
        for (char line[64]; fgets(line, sizeof line, stdin); fflush(stdout))
            printf("{\"seconds\": 0.02, \"value\": %.4g}\n",
                   peak_flops(isa, false, atoi(argv[2]), 0.02));
        return 0;
    }
    printf("{\"isa\": \"%s\", \"compiler\": \"%s\", \"cores\": %ld", isa, __VERSION__,
           sysconf(_SC_NPROCESSORS_ONLN));
    for (int i = 1; i < argc; i++) {
        int threads = atoi(argv[i]);
        if (threads < 1) return fprintf(stderr, "peak: not a number of threads: %s\n", argv[i]), 2;
        printf(", \"%d\": {\"f32\": %.4g, \"f64\": %.4g, \"bf16\": %.4g, \"bytes\": %.4g}", threads,
               median_peak(isa, false, threads), median_peak(isa, true, threads),
               peak_bf16(threads, 0.1), peak_bandwidth(threads, COUNT, 5));
    }
    printf("}\n");
    return 0;
}
