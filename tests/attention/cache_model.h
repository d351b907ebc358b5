/* The modules of the suites of caches, and the steps in which they are given tokens. */
#ifndef CACHE_MODEL_H
#define CACHE_MODEL_H

#include "attention_model.h"

enum { B = 3, N = 12, E = 8, H = 4 };

static const ct_mha_opts all[] = {
    {.num_heads = H},
    {.num_heads = H, .num_kv_heads = 2, .head_dim = 4, .rope = true, .qk_norm = true},
    {.num_heads = H, .window = {3, 0}, .rope = true, .rotary = {.dims = 2, .interleaved = true}},
    {.num_heads = H, .window = {2, 1}, .softcap = 0.7, .separate = true, .scale = 0.4},
    {.num_heads = H, .window = {0, 2}},
};
enum { ALL = sizeof all / sizeof *all };

static inline ct_module *make(int which, ct_dtype dtype) {
    ct_mha_opts o = all[which];
    o.embed_dim = E, o.dtype = dtype;
    return shaken(ct_mha_new(context, o));
}

/* Steps of the batch: T tokens, of which row b has n[b]; the last row is full early. */
typedef struct {
    int64_t t, n[B];
    bool given; /* whether n is given as lengths; otherwise all are t */
} step;
static const step steps[] = {{4, {4, 1, 0}, true},  {1, {1, 1, 1}, false}, {3, {0, 3, 2}, true},
                             {2, {2, 2, 2}, false}, {1, {0, 1, 1}, true},  {3, {3, 3, 0}, true},
                             {1, {0, 1, 0}, true},  {2, {2, 0, 2}, true}};
enum { STEPS = sizeof steps / sizeof *steps };

#endif
