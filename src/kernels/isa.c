/* Which instruction sets this build has kernels for, and which of them this machine runs. The
 * Makefile defines CTI_HAVE_... for each.
 *
 * A row of built[] either has tables of its own, for which real.c is compiled with its flags, or it
 * inherits: its tables are copies of its parent's, in which replace[] changes entries. So an
 * instruction set that adds one instruction compiles only the kernels that use it. */
#include <string.h>

#ifdef CTI_HAVE_avx2
#include <cpuid.h>
#endif

#include "../os/os.h"
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
/* By CPUID itself: zig's run-time library answers no to every __builtin_cpu_supports. */
enum { CPUID_A, CPUID_B, CPUID_C, CPUID_D };

/* Whether a register of CPUID's answer has all of these bits. */
static bool cpuid_has(unsigned leaf, unsigned subleaf, int reg, unsigned bits) {
    unsigned r[4] = {0};
    return __get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]) && (r[reg] & bits) == bits;
}

/* Whether the system saves this state of vector registers when it changes threads. */
static bool system_saves(unsigned state) {
    enum { OSXSAVE = 1 << 27 };
    unsigned low, high;
    if (!cpuid_has(1, 0, CPUID_C, OSXSAVE)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}

extern const cti_kernels cti_kernels_avx2_f32, cti_kernels_avx2_f64;
static bool runs_avx2(void) {
    enum { FMA = 1 << 12, AVX2 = 1 << 5, XMM_YMM = 0x06 };
    return cpuid_has(1, 0, CPUID_C, FMA) && cpuid_has(7, 0, CPUID_B, AVX2) && system_saves(XMM_YMM);
}
#endif

#ifdef CTI_HAVE_avx512
extern const cti_kernels cti_kernels_avx512_f32, cti_kernels_avx512_f64;
static bool runs_avx512(void) {
    const unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    const unsigned masks_zmm = cti_os_saves_avx512_late() ? 0 : 0xe0;
    return runs_avx2() && cpuid_has(7, 0, CPUID_B, f | dq | bw | vl) && system_saves(masks_zmm);
}
#endif

#ifdef CTI_HAVE_avx512bf16
static bool runs_avx512bf16(void) {
    enum { AVX512_BF16 = 1 << 5 };
    return runs_avx512() && cpuid_has(7, 1, CPUID_A, AVX512_BF16);
}
#endif

#ifdef CTI_HAVE_amx
static bool runs_amx(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    return runs_avx512bf16() && cpuid_has(7, 0, CPUID_D, AMX_BF16 | AMX_TILE) &&
           cti_os_grants_amx();
}
#endif

enum { REAL_DTYPES = 2 }; /* f32 and f64, which have tables for each ISA; others have one for all */

typedef struct {
    cti_isa isa;
    bool (*runs)(void);
    const char *parent;                               /* a row above; NULL: isa.of[] are its own */
    void (*replace[REAL_DTYPES])(cti_kernels *table); /* changes a copy of the parent's; or NULL */
    bool here;                                        /* what runs() has said, once */
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

/* ---- before the first row is handed out, once: what runs here, and inheritance ---- */

static cti_kernels inherited[BUILT][REAL_DTYPES];

static const cti_isa *row_above(int row, const char *name) {
    for (int i = row - 1; i >= 0; i--)
        if (strcmp(built[i].isa.name, name) == 0) return &built[i].isa;
    return NULL;
}

static void prepare_isas(void) {
    for (int i = 0; i < BUILT; i++) built[i].here = built[i].runs();
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

static const built_isa *isa_rows(void) {
    static cti_once once;
    cti_once_run(&once, prepare_isas);
    return built;
}

const cti_isa *cti_isa_at(int index) {
    const built_isa *row = isa_rows();
    for (int i = 0; i < BUILT; i++)
        if (row[i].here && index-- == 0) return &row[i].isa;
    return NULL;
}

const cti_isa *cti_isa_find(const char *name) {
    const built_isa *row = isa_rows();
    for (int i = BUILT - 1; i >= 0; i--)
        if (row[i].here && (!name || strcmp(name, row[i].isa.name) == 0)) return &row[i].isa;
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
