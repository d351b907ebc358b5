/* Measured limits of the machine, of which the benchmark reports shares. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* The best instruction set that this machine runs, or the one that CT_ISA names, among those that
 * have a loop of fma.c. NULL: there is none. */
const char *isa_in_use(void);

/* Operations per second of `threads` threads at once, measured for about `seconds`; an FMA counts
 * as two. */
double peak_flops(const char *isa, bool f64, int threads, double seconds);

/* The same of products rounded to bf16, by vdpbf16ps; 0 where the machine or compiler lacks it. */
double peak_bf16(int threads, double seconds);

/* Bytes per second of a[i] = b[i] + s c[i] on arrays larger than most caches, the best of some
 * passes; three elements count as moved for each i. */
double peak_bandwidth(int threads, int64_t count, int passes);

#endif
