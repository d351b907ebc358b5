/* The floating-point mode of a thread: the rounding direction, and whether denormals count as zero.
 * A program's threads may have another mode than the default: after fesetround, in an audio host
 * that turns denormals off, or after the start-up code of a library that was linked with
 * -ffast-math. On some systems a new thread begins in the default mode. So each thread that works
 * on a job of the thread pool first takes over the mode of the job's caller, and an element has the
 * same bits whichever thread computes it.
 *
 * On x86 and ARM the mode is in control words, which are read and compared in tens of cycles. On
 * other machines it is the environment of <fenv.h>, with its exception flags. */
#ifndef CTI_CORE_FLOAT_MODE_H
#define CTI_CORE_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

#if defined __SSE__ && (defined __x86_64__ || defined __i386__)

enum { CTI_MXCSR_FLAGS = 0x3f }; /* the bits of exceptions that have happened */

typedef struct {
    uint32_t mxcsr; /* the control word of SSE and AVX, in which CTI_MXCSR_FLAGS are 0 */
    uint16_t x87;   /* the control word of the x87, which some C libraries use */
} cti_float_mode;

static inline cti_float_mode cti_float_mode_get(void) {
    cti_float_mode mode;
    __asm__ volatile("stmxcsr %0" : "=m"(mode.mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(mode.x87));
    mode.mxcsr &= ~(uint32_t)CTI_MXCSR_FLAGS;
    return mode;
}
static inline bool cti_float_mode_equal(const cti_float_mode *a, const cti_float_mode *b) {
    return a->mxcsr == b->mxcsr && a->x87 == b->x87;
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
static inline bool cti_float_mode_equal(const cti_float_mode *a, const cti_float_mode *b) {
    return a->fpcr == b->fpcr;
}
static inline void cti_float_mode_set(const cti_float_mode *mode) {
    if (cti_float_mode_get().fpcr != mode->fpcr)
        __asm__ volatile("msr fpcr, %0" : : "r"(mode->fpcr));
}

#else

#include <fenv.h>
#include <string.h>

typedef struct {
    fenv_t environment;
} cti_float_mode;

static inline cti_float_mode cti_float_mode_get(void) {
    cti_float_mode mode;
    fegetenv(&mode.environment);
    return mode;
}
/* The flags are compared, too: equal modes with different flags count as different. */
static inline bool cti_float_mode_equal(const cti_float_mode *a, const cti_float_mode *b) {
    return memcmp(&a->environment, &b->environment, sizeof a->environment) == 0;
}
static inline void cti_float_mode_set(const cti_float_mode *mode) { fesetenv(&mode->environment); }

#endif

#endif
