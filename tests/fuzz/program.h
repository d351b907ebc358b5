/* The state that the calls of program.c share: the bytes from which the program is read, its
 * tensors and modules, and sizes, shapes and numbers drawn from the bytes. */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include "fuzz.h"

#include <math.h>

#include "tests/support/cases.h"
#include "tests/support/memory_faults.h"

enum { TENSORS = 12, MODULES = 3, DEPTH = 5, LARGEST = 1 << 16, CALLS = 60 };

/* ---- the state of a program ---- */

static struct {
    const uint8_t *at, *end;
    ct_context *context;
    struct {
        ct_tensor *tensor;
        int depth; /* the depth of its scope; 0: the context */
    } slot[TENSORS];
    struct {
        ct_module *module;
        ct_optim *optim;
    } trained[MODULES];
    ct_kv_cache *cache;
    ct_scope scope[DEPTH];
    int depth;
    int names;
} p;

static uint8_t next(void) { return p.at < p.end ? *p.at++ : 0; }
static int below(int n) { return next() % n; }
static ct_tensor *any(void) { return p.slot[below(TENSORS)].tensor; }
static bool ok(void) { return ct_error(p.context) == CT_OK; }

static void forget(const ct_tensor *tensor) {
    for (int i = 0; i < TENSORS; i++)
        if (p.slot[i].tensor == tensor) p.slot[i].tensor = NULL;
}

static void forget_depth(int depth) {
    for (int i = 0; i < TENSORS; i++)
        if (p.slot[i].depth >= depth) p.slot[i].tensor = NULL;
}

/* Stores a result: a tensor without an error, or NULL. A handle that is stored already keeps its
 * depth. */
static void put(ct_tensor *tensor) {
    MUST(!tensor || ok());
    if (!tensor || ct_numel(tensor) > LARGEST) return;
    const int i = below(TENSORS);
    int depth = p.depth;
    for (int k = 0; k < TENSORS; k++)
        if (p.slot[k].tensor == tensor) depth = p.slot[k].depth;
    p.slot[i].tensor = tensor;
    p.slot[i].depth = depth;
}

/* The result of a call that can record an error: NULL exactly if one is pending. */
static void made(ct_tensor *tensor) {
    MUST(tensor || !ok());
    put(tensor);
}
static void done(bool success) { MUST(success ? ok() : !ok()); }

static int64_t size(void) {
    static const int64_t sizes[] = {
        2, 3, 1, 4, 6, 0, 5, 8, -1, 1, 2, 3, 4, 33, INT64_C(1) << 40, INT64_MAX};
    return sizes[below(16)];
}

static ct_shape shape(void) {
    ct_shape s = {.ndim = below(4)};
    for (int d = 0; d < s.ndim; d++) s.dim[d] = size();
    return s;
}

/* A shape of at most LARGEST elements. */
static ct_shape small_shape(void) {
    ct_shape s = shape();
    for (int d = 0; d < s.ndim; d++)
        if (s.dim[d] > 100) s.dim[d] = 7;
    return s;
}

static ct_shape dims(void) {
    ct_shape s = {.ndim = below(4)};
    for (int d = 0; d < s.ndim; d++) s.dim[d] = below(10) - 5;
    return s;
}

static int dim(void) { return below(10) - 5; }
static double number(void) {
    static const double numbers[] = {1, 0, -1, 0.5, 1e-3, 1e30, -1e300, 2};
    return numbers[below(8)];
}
static ct_dtype dtype(void) {
    static const ct_dtype dtypes[] = {CT_F32, CT_F32, CT_F32,  CT_F64,
                                      CT_F64, CT_I64, CT_BOOL, (ct_dtype)7};
    return dtypes[below(8)];
}

#endif
