/* Lays out the workspace of attention, and runs its passes on all threads. */
#include "attention_workspace.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/products.h"

#include "../../src/core/profile.h"
#include "attention_masks.h"
#include "attention_products.h"

/* ---- the workspace ---- */

char *cti_attention_reserve(cti_attention_workspace *w, int64_t rows, int64_t cols) {
    const size_t bytes = cti_bytes(rows, cti_bytes(cols, (size_t)w->a->size)), at = w->used;
    const bool fits = bytes < SIZE_MAX / 4 && at < SIZE_MAX / 4;
    w->used = fits ? at + (bytes + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN : SIZE_MAX;
    return w->base && fits ? w->base + at : NULL;
}

char *cti_attention_reserve_ones(cti_attention_workspace *w, int64_t n) {
    char *ones = cti_attention_reserve(w, n, 1);
    if (ones && n > 0) w->a->kernels->elementwise->fill(n, 1, ones);
    return ones;
}

cti_hidden_buffers cti_attention_reserve_guard(cti_attention_workspace *w, int64_t n,
                                               int64_t cols) {
    return (cti_hidden_buffers){.bad = (bool *)cti_attention_reserve(w, n, 1),
                                .clean = cti_attention_reserve(w, n, cols)};
}

char *cti_attention_reserve_columns(cti_attention_workspace *w, int64_t n, int64_t bytes) {
    return cti_attention_reserve(w, n, (int64_t)((size_t)bytes / (size_t)w->a->size));
}

char *cti_attention_reserve_left(cti_attention_workspace *w, int64_t n, int64_t cols) {
    return cti_attention_reserve(w, cti_round_up(n, w->a->row_unit),
                                 cti_gemm_packed(w->a->rounded, cols) / w->a->size);
}

char *cti_attention_reserve_right(cti_attention_workspace *w, int64_t cols) {
    return cti_attention_reserve(w, cti_ceil_div(cols, w->a->nr),
                                 cti_attention_right_panel(w->a) / w->a->size);
}

/* ---- the driver ---- */

/* One step of a pass. */
typedef struct {
    const cti_attention_pass *pass;
    char *workspaces; /* one workspace for each worker */
    size_t bytes;     /* the bytes of one workspace */
    int64_t first;    /* the first task of the step */
} pass_step;

static void pass_run_tasks(void *arg, int64_t begin, int64_t end, int worker) {
    const pass_step *step = arg;
    const cti_attention_pass *pass = step->pass;
    const cti_gemm_kernels *rounded = pass->a->rounded;
    char *buffers[CTI_ATTENTION_BUFFERS];
    cti_attention_workspace w = {.a = pass->a,
                                 .base = step->workspaces + (size_t)worker * step->bytes};
    pass->reserve(pass->call, &w, buffers);
    CTI_ASSERT(w.used == step->bytes);
    if (rounded && rounded->begin) rounded->begin();
    for (int64_t i = begin; i < end; i++) pass->run(pass->call, buffers, step->first + i);
    if (rounded && rounded->end) rounded->end();
}

/* Counts the work of the pairs inside the ranges of keys, for a profile. */
static void count_flops(ct_context *context, const cti_attention_pass *pass) {
    const cti_attention_params *a = pass->a;
    cti_profile_add_flops(context,
                          2 * (double)a->heads * cti_attention_pairs(a) * (double)pass->flops);
}

bool cti_attention_run(ct_context *context, const cti_attention_pass *pass) {
    char *unset[CTI_ATTENTION_BUFFERS];
    cti_attention_workspace counted = {.a = pass->a};
    CTI_ASSERT(pass->tasks > 0 && pass->grain > 0 && pass->steps > 0);
    pass->reserve(pass->call, &counted, unset);
    const bool all = pass->steady || pass->tasks > pass->grain;
    const size_t bytes = cti_bytes(all ? cti_parallel_width(context) : 1, counted.used);
    pass_step step = {.pass = pass, .bytes = counted.used};
    step.workspaces = cti_take(context, bytes);
    if (!step.workspaces) return false;
    if (context->observed) count_flops(context, pass);
    for (int64_t i = 0; i < pass->steps; i++, step.first += pass->tasks)
        cti_parallel(context, pass->tasks, pass->grain, pass_run_tasks, &step);
    cti_give(context, step.workspaces, bytes);
    return true;
}
