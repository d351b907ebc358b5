/* Which instruction sets this build has kernels for, and which of them this machine runs. The Makefile defines CTI_HAVE_... for each. */
#include <string.h>

#include "kernels.h"

extern const cti_kernels cti_kernels_scalar_f32, cti_kernels_scalar_f64, cti_kernels_i64, cti_kernels_bool;
#define TABLES(isa) {&cti_kernels_##isa##_f32, &cti_kernels_##isa##_f64, &cti_kernels_i64, &cti_kernels_bool}

static bool always(void) { return true; }

#ifdef CTI_HAVE_neon
extern const cti_kernels cti_kernels_neon_f32, cti_kernels_neon_f64;
#endif

#ifdef CTI_HAVE_avx2
extern const cti_kernels cti_kernels_avx2_f32, cti_kernels_avx2_f64;
static bool runs_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

#ifdef CTI_HAVE_avx512
extern const cti_kernels cti_kernels_avx512_f32, cti_kernels_avx512_f64;
static bool runs_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && runs_avx2();
}
#endif

/* From the plainest to the best. */
static const struct {
    cti_isa isa;
    bool (*runs)(void);
} built[] = {
    {{"scalar", TABLES(scalar)}, always},
#ifdef CTI_HAVE_neon
    {{"neon", TABLES(neon)}, always},
#endif
#ifdef CTI_HAVE_avx2
    {{"avx2", TABLES(avx2)}, runs_avx2},
#endif
#ifdef CTI_HAVE_avx512
    {{"avx512", TABLES(avx512)}, runs_avx512},
#endif
};
enum { BUILT = sizeof built / sizeof *built };

const cti_isa *cti_isa_at(int index) {
    for (int i = 0; i < BUILT; i++)
        if (built[i].runs() && index-- == 0) return &built[i].isa;
    return NULL;
}

const cti_isa *cti_isa_find(const char *name) {
    for (int i = BUILT - 1; i >= 0; i--)
        if (built[i].runs() && (!name || strcmp(name, built[i].isa.name) == 0)) return &built[i].isa;
    return NULL;
}

const char *cti_isa_names(void) {
    return "scalar"
#ifdef CTI_HAVE_neon
           ", neon"
#endif
#ifdef CTI_HAVE_avx2
           ", avx2"
#endif
#ifdef CTI_HAVE_avx512
           ", avx512"
#endif
        ;
}
