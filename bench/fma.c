/* The FMA peak of one core: twelve independent accumulators in registers, of the instruction set's
 * vector width. The file is compiled once for each instruction set, with the flags of its kernels
 * and with names of its own for the two functions. */
#include <stdint.h>

double CT_FMA_F32(int64_t n), CT_FMA_F64(int64_t n);

#if defined(CTI_VECTOR_BYTES) && CTI_VECTOR_BYTES > 0
#define VECTOR(type, name) typedef type name __attribute__((vector_size(CTI_VECTOR_BYTES)))
#else
#define VECTOR(type, name) typedef type name
#endif
VECTOR(float, vector_f32);
VECTOR(double, vector_f64);

#define EACH(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define START(i) a##i = m + (float)(i),
#define STEP(i)  a##i = a##i * m + c;
#define SUM(i)   +a##i

/* n rounds of twelve; returns the number of operations, two for an FMA. The sums stay finite as |m|
 * < 1. */
#define LOOP(name, type, vector)                                                                   \
    double name(int64_t n) {                                                                       \
        static const volatile type factor = (type)0.999, term = (type)1e-3;                        \
        vector m = (vector){0} + factor, c = (vector){0} + term, EACH(START) sum;                  \
        for (int64_t i = 0; i < n; i++) { EACH(STEP) }                                             \
        sum = (vector){0} EACH(SUM);                                                               \
        volatile type sink = *(type *)&sum;                                                        \
        (void)sink;                                                                                \
        return (double)n * 12 * 2 * (double)(sizeof(vector) / sizeof(type));                       \
    }

LOOP(CT_FMA_F32, float, vector_f32)
LOOP(CT_FMA_F64, double, vector_f64)
