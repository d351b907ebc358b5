/* The floating-point mode of a thread: rounding, and whether denormals count as zero. A program may
 * set it for its own threads (fesetround; an audio host; start-up code of a library that was linked
 * with -ffast-math), and a new thread of some systems begins in the default mode. So a job of the
 * pool carries its caller's mode, and an element is the same bits whichever thread computes it.
 *
 * The mode is read and compared in tens of cycles by the control words of x86 and ARM. Elsewhere
 * it is the environment of <fenv.h>, with its exception flags. */
#ifndef CTI_CORE_FLOAT_MODE_H
#define CTI_CORE_FLOAT_MODE_H

#include <stdint.h>

#if defined __SSE__ && (defined __x86_64__ || defined __i386__)

enum { CTI_MXCSR_FLAGS = 0x3f }; /* the exceptions that have happened */

typedef struct {
    uint32_t mxcsr; /* of SSE and AVX; CTI_MXCSR_FLAGS are 0 */
    uint16_t x87;   /* the control word of the x87, by which some C libraries compute */
} cti_float_mode;

static inline cti_float_mode cti_float_mode_get(void) {
    cti_float_mode mode;
    __asm__ volatile("stmxcsr %0" : "=m"(mode.mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(mode.x87));
    mode.mxcsr &= ~(uint32_t)CTI_MXCSR_FLAGS;
    return mode;
}
static inline void cti_float_mode_set(const cti_float_mode *mode) {
    const cti_float_mode now = cti_float_mode_get();
    if (now.mxcsr != mode->mxcsr) __asm__ volatile("ldmxcsr %0" : : "m"(mode->mxcsr));
    if (now.x87 != mode->x87) __asm__ volatile("fldcw %0" : : "m"(mode->x87));
}

#elif defined __aarch64__

typedef struct {
    uint64_t fpcr;
} cti_float_mode;

static inline cti_float_mode cti_float_mode_get(void) {
    cti_float_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode.fpcr));
    return mode;
}
static inline void cti_float_mode_set(const cti_float_mode *mode) {
    if (cti_float_mode_get().fpcr != mode->fpcr)
        __asm__ volatile("msr fpcr, %0" : : "r"(mode->fpcr));
}

#else

#include <fenv.h>

typedef struct {
    fenv_t environment;
} cti_float_mode;

static inline cti_float_mode cti_float_mode_get(void) {
    cti_float_mode mode;
    fegetenv(&mode.environment);
    return mode;
}
static inline void cti_float_mode_set(const cti_float_mode *mode) { fesetenv(&mode->environment); }

#endif

#endif
