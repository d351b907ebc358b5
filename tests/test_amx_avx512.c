/* test_amx.c, with panels packed by AVX512-BF16 where the machine has it, as for AMX itself. */
#if defined __x86_64__ && !defined __clang__ /* clang has no target for a part of a file */
#define AMX_PACKS_BY_AVX512
#endif
#include "test_amx.c"
