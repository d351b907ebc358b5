/* The kernels of AMX (src/kernels/amx.c) on a model of its tiles, as in test_amx.c. Here
 * AVX512-BF16 packs the panels if the machine has it, because a machine with AMX packs so too. */
#include "src/kernels/kernels.h"

void kernels_packed_by_avx512(cti_kernels *table);

#if defined __x86_64__ && !defined __clang__ /* clang has no target for a part of a file */
#include "amx_model.h"

#define cti_kernels_amx  kernels_packed_by_avx512
#define CTI_VECTOR_BYTES 64
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")
#include "src/kernels/amx.c"
#pragma GCC pop_options
#else
void kernels_packed_by_avx512(cti_kernels *table) { (void)table; }
#endif
