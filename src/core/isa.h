/* The instruction sets (ISA) that this build has kernels for and this machine runs. */
#ifndef CTI_CORE_ISA_H
#define CTI_CORE_ISA_H

#include "../kernels/kernels.h"

/* The tables of one instruction set. */
typedef struct {
    const char *name;
    const cti_kernels *of[5]; /* by ct_dtype */
} cti_isa;

/* The ISA of that name, or the best for NULL. NULL: no such name in this build, or this machine
 * lacks it. */
const cti_isa *cti_isa_find(const char *name);

/* Every ISA that this machine runs, the scalar first; NULL past the last. */
const cti_isa *cti_isa_at(int index);

/* Names in this build that this machine may lack, for messages: "scalar, avx2, avx512". */
const char *cti_isa_names(void);

/* The functions of the list of sets (isa.c), of which each puts its kernels into a table. */
#ifdef CTI_SETS
#define SET(name)                                                                                  \
    void cti_real_##name##_f32(cti_kernels *table);                                                \
    void cti_real_##name##_f64(cti_kernels *table);                                                \
    void cti_random_##name##_f32(cti_kernels *table);                                              \
    void cti_random_##name##_f64(cti_kernels *table);
#define HEIR(name) void cti_kernels_##name(cti_kernels *f32);
CTI_SETS
#undef SET
#undef HEIR
#endif

#endif
