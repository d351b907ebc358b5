/* Which instruction sets this build has kernels for, and which of them this machine runs. The
 * Makefile defines CTI_HAVE_... for each.
 *
 * A row of built[] either has tables of its own, for which real.c is compiled with its flags, or it
 * inherits: its tables are copies of its parent's, in which replace[] changes entries. So an
 * instruction set that adds one instruction compiles only the kernels that use it. */
#include <string.h>

#ifdef CTI_HAVE_amx
#include <cpuid.h>
#endif

#include "../core/os.h"
#include "bf16.h"
#include "kernels.h"

extern const cti_kernels cti_kernels_scalar_f32, cti_kernels_scalar_f64, cti_kernels_i64,
    cti_kernels_bool, cti_kernels_bf16;
#define TABLES(isa)                                                                                \
    {&cti_kernels_##isa##_f32, &cti_kernels_##isa##_f64, &cti_kernels_i64, &cti_kernels_bool,      \
     &cti_kernels_bf16}

static bool always(void) { return true; }

#ifdef CTI_HAVE_neon
extern const cti_kernels cti_kernels_neon_f32, cti_kernels_neon_f64;
#endif

#ifdef CTI_HAVE_simd128 /* a module is checked as a whole, so one that runs has it */
extern const cti_kernels cti_kernels_simd128_f32, cti_kernels_simd128_f64;
#endif

#ifdef CTI_HAVE_avx2
extern const cti_kernels cti_kernels_avx2_f32, cti_kernels_avx2_f64;
static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#ifdef CTI_HAVE_avx512
extern const cti_kernels cti_kernels_avx512_f32, cti_kernels_avx512_f64;
static bool runs_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && runs_avx2();
}
#endif

#ifdef CTI_HAVE_avx512bf16
static bool runs_avx512bf16(void) { return __builtin_cpu_supports("avx512bf16") && runs_avx512(); }
#endif

#ifdef CTI_HAVE_amx
static bool runs_amx(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d = 0;
    return runs_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) &&
           (d & AMX_TILE) && cti_os_grants_amx();
}
#endif

enum { REAL_DTYPES = 2 }; /* f32 and f64, which have tables for each ISA; others have one for all */

typedef struct {
    cti_isa isa;
    bool (*runs)(void);
    const char *parent;                               /* a row above; NULL: isa.of[] are its own */
    void (*replace[REAL_DTYPES])(cti_kernels *table); /* changes a copy of the parent's; or NULL */
} built_isa;

/* From the plainest to the best. */
static built_isa built[] = {
    /* clang-format off */
    {.isa = {"scalar", TABLES(scalar)}, .runs = always},
#ifdef CTI_HAVE_neon
    {.isa = {"neon", TABLES(neon)}, .runs = always},
#endif
#ifdef CTI_HAVE_simd128
    {.isa = {"simd128", TABLES(simd128)}, .runs = always},
#endif
#ifdef CTI_HAVE_avx2
    {.isa = {"avx2", TABLES(avx2)}, .runs = runs_avx2},
#endif
#ifdef CTI_HAVE_avx512
    {.isa = {"avx512", TABLES(avx512)}, .runs = runs_avx512},
#endif
#ifdef CTI_HAVE_avx512bf16
    {.isa = {.name = "avx512bf16"},
     .runs = runs_avx512bf16,
     .parent = "avx512",
     .replace = {cti_kernels_avx512bf16}},
#endif
#ifdef CTI_HAVE_amx
    {.isa = {.name = "amx"},
     .runs = runs_amx,
     .parent = "avx512bf16",
     .replace = {cti_kernels_amx}},
#endif
#ifdef CTI_MORE_ISAS /* tests/test_isa.c */
    CTI_MORE_ISAS
#endif
    /* clang-format on */
};
enum { BUILT = sizeof built / sizeof *built };

/* ---- inheritance: done once, before the first row is handed out ---- */

static cti_kernels inherited[BUILT][REAL_DTYPES];

static const cti_isa *row_above(int row, const char *name) {
    for (int i = row - 1; i >= 0; i--)
        if (strcmp(built[i].isa.name, name) == 0) return &built[i].isa;
    return NULL;
}

static void inherit(void) {
    for (int i = 1; i < BUILT; i++) { /* the first has nothing above it */
        built_isa *child = &built[i];
        if (!child->parent) continue;
        const cti_isa *parent = row_above(i, child->parent);
        memcpy(child->isa.of, parent->of, sizeof child->isa.of);
        for (int dtype = 0; dtype < REAL_DTYPES; dtype++) {
            inherited[i][dtype] = *parent->of[dtype];
            if (child->replace[dtype]) child->replace[dtype](&inherited[i][dtype]);
            child->isa.of[dtype] = &inherited[i][dtype];
        }
    }
}

static const built_isa *rows(void) {
    static cti_once once;
    cti_once_run(&once, inherit);
    return built;
}

const cti_isa *cti_isa_at(int index) {
    const built_isa *row = rows();
    for (int i = 0; i < BUILT; i++)
        if (row[i].runs() && index-- == 0) return &row[i].isa;
    return NULL;
}

const cti_isa *cti_isa_find(const char *name) {
    const built_isa *row = rows();
    for (int i = BUILT - 1; i >= 0; i--)
        if (row[i].runs() && (!name || strcmp(name, row[i].isa.name) == 0)) return &row[i].isa;
    return NULL;
}

const char *cti_isa_names(void) {
    return "scalar"
#ifdef CTI_HAVE_neon
           ", neon"
#endif
#ifdef CTI_HAVE_simd128
           ", simd128"
#endif
#ifdef CTI_HAVE_avx2
           ", avx2"
#endif
#ifdef CTI_HAVE_avx512
           ", avx512"
#endif
#ifdef CTI_HAVE_avx512bf16
           ", avx512bf16"
#endif
#ifdef CTI_HAVE_amx
           ", amx"
#endif
        ;
}
