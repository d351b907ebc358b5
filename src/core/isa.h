/* The instruction sets (ISA) that this build has kernels for and this machine runs. */
#ifndef CTI_CORE_ISA_H
#define CTI_CORE_ISA_H

#include "../kernels/kernels.h"

/* The tables of one instruction set. */
typedef struct cti_isa {
    const char *name;
    const cti_kernels *of[7]; /* the table of each ct_dtype */
} cti_isa;

/* The ISA of this name, or the best ISA if the name is NULL. Returns NULL if this build has no ISA
 * of this name or the machine lacks it. */
const cti_isa *cti_isa_find(const char *name);

/* The ISA at `index` in the list of all ISAs of this build that the machine runs. The first is
 * "scalar". Returns NULL past the end. */
const cti_isa *cti_isa_at(int index);

/* The names of all ISAs in this build, for messages: "scalar, avx2, avx512". This machine may lack
 * some of them. */
const char *cti_isa_names(void);

/* Declarations for each set in CTI_SETS (isa.c) of the functions that put its kernels into a
 * table. */
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
