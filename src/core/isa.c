/* The list of the instruction sets that this build has kernels for and this machine runs.
 *
 * The build defines CTI_SETS, the list of its sets in the order of sets.txt, from the plainest to
 * the best. SET(name) is a set with sources of its own. HEIR(name) is a set whose tables are copies
 * of the tables of the set before it, in which the heir replaces kernels of f32. So an instruction
 * set that adds one instruction compiles only the kernels that use it. */
#ifndef CTI_SETS
#define CTI_SETS SET(scalar)
#endif
#include "isa.h"
#include "assert.h"

#include <string.h>

#if defined __x86_64__
#include <cpuid.h>
#endif

#include "../kernels/elementwise.h"
#include "../kernels/random.h"
#include "../kernels/rows.h"
#include "../kernels/unary.h"
#include "../os/os.h"

/* ---- the sets that this machine runs ---- */

#if defined __x86_64__
/* These tests use CPUID itself, because with zig's run-time library every __builtin_cpu_supports is
 * false. */
enum { CPUID_A, CPUID_B, CPUID_C, CPUID_D };

/* Whether a register of CPUID's result has all of these bits. */
static bool cpuid_has(unsigned leaf, unsigned subleaf, int reg, unsigned bits) {
    unsigned r[4] = {0};
    return __get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]) && (r[reg] & bits) == bits;
}

/* Whether the system saves these vector registers when it switches between threads. */
static bool system_saves(unsigned state) {
    enum { OSXSAVE = 1 << 27 };
    unsigned low, high;
    if (!cpuid_has(1, 0, CPUID_C, OSXSAVE)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}

static bool runs_avx2(void) {
    enum { FMA = 1 << 12, AVX2 = 1 << 5, XMM_YMM = 0x06 };
    return cpuid_has(1, 0, CPUID_C, FMA) && cpuid_has(7, 0, CPUID_B, AVX2) && system_saves(XMM_YMM);
}

static bool runs_avx512(void) {
    const unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    const unsigned masks_zmm = cti_os_saves_avx512_late() ? 0 : 0xe0;
    return runs_avx2() && cpuid_has(7, 0, CPUID_B, f | dq | bw | vl) && system_saves(masks_zmm);
}

static bool runs_avx512bf16(void) {
    enum { AVX512_BF16 = 1 << 5 };
    return runs_avx512() && cpuid_has(7, 1, CPUID_A, AVX512_BF16);
}

static bool runs_amx(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    return runs_avx512bf16() && cpuid_has(7, 0, CPUID_D, AMX_BF16 | AMX_TILE) &&
           cti_os_grants_amx();
}

static const struct {
    const char *name;
    bool (*runs)(void);
} optional[] = {{"avx2", runs_avx2},
                {"avx512", runs_avx512},
                {"avx512bf16", runs_avx512bf16},
                {"amx", runs_amx}};
#endif

/* Every machine that runs this build has the sets that are not in `optional`: every aarch64 has
 * NEON, and a WebAssembly module is checked as a whole, so a module that runs has simd128. */
static bool machine_runs(const char *name) {
#if defined __x86_64__
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (strcmp(name, optional[i].name) == 0) return optional[i].runs();
#endif
    (void)name;
    return true;
}

/* ---- their tables ---- */

/* The number of dtypes that have a table for each ISA: f32 and f64. Each of the other dtypes has
 * one table for all ISAs. */
enum { REAL_DTYPES = 2 };

typedef struct {
    const char *name;
    void (*put[REAL_DTYPES][2])(cti_kernels *table); /* up to two functions for each dtype */
    bool inherits;
} built_isa;

#define PUT_OF(set) {cti_real_##set, cti_random_##set}
#define SET(set)    {#set, {PUT_OF(set##_f32), PUT_OF(set##_f64)}, false},
#define HEIR(set)   {#set, {{cti_kernels_##set}}, true},
static const built_isa built[] = {CTI_SETS};
#undef PUT_OF
#undef SET
#undef HEIR
enum { BUILT = sizeof built / sizeof *built };

typedef struct {
    cti_kernels real[BUILT][REAL_DTYPES], i64, boolean, bf16, blocks;
    cti_isa isa[BUILT]; /* [count] the sets that this machine runs */
    int count;
    char names[BUILT * 16];
} isa_tables;

/* A function that fills a table is compiled with its set's instructions, so it is called only on a
 * machine that runs the set. Such a machine also runs the set from which an heir inherits. */
static void fill_tables(isa_tables *all, int row) {
    for (int dtype = 0; dtype < REAL_DTYPES; dtype++) {
        cti_kernels *table = &all->real[row][dtype];
        CTI_ASSERT(!built[row].inherits || row > 0);
        if (built[row].inherits) *table = all->real[row - 1][dtype];
        for (int i = 0; i < 2; i++)
            if (built[row].put[dtype][i]) built[row].put[dtype][i](table);
    }
}

/* For a dtype that has no kernels of a subject: every kernel is NULL. */
static const cti_unary_kernels no_unary;
static const cti_elementwise_kernels no_elementwise;
static const cti_row_kernels no_rows;
static const cti_random_kernels no_random;

static void prepare_isas(isa_tables *all) {
    all->i64 = all->boolean = all->bf16 = all->blocks = (cti_kernels){
        .unary = &no_unary, .elementwise = &no_elementwise, .rows = &no_rows, .random = &no_random};
    cti_kernels_i64(&all->i64);
    cti_kernels_bool(&all->boolean);
    cti_kernels_bf16(&all->bf16);
    for (int row = 0; row < BUILT; row++) {
        if (row) strcat(all->names, ", ");
        strcat(all->names, built[row].name);
        if (!machine_runs(built[row].name)) continue;
        fill_tables(all, row);
        all->isa[all->count++] = (cti_isa){built[row].name,
                                           {&all->real[row][0], &all->real[row][1], &all->i64,
                                            &all->boolean, &all->bf16, &all->blocks, &all->blocks}};
    }
}

/* The tables are written once, before the first of them is returned. */
static isa_tables prepared;
static void prepare_once(void) { prepare_isas(&prepared); }
static const isa_tables *isa_prepared(void) {
    static cti_once once;
    cti_once_run(&once, prepare_once);
    return &prepared;
}

const cti_isa *cti_isa_at(int index) {
    const isa_tables *all = isa_prepared();
    return index >= 0 && index < all->count ? &all->isa[index] : NULL;
}

const cti_isa *cti_isa_find(const char *name) {
    const isa_tables *all = isa_prepared();
    for (int i = all->count - 1; i >= 0; i--)
        if (!name || strcmp(name, all->isa[i].name) == 0) return &all->isa[i];
    return NULL;
}

const char *cti_isa_names(void) { return isa_prepared()->names; }
