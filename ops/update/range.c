/* Elements [at, at + n) of row-major tensors, in place: copies, sums, a value, a factor. */
#include "../../src/core/profile.h"
#include "../support/op.h"
#include "update.h"

typedef struct {
    const cti_kernels *kernels;
    char *to;
    const char *from;
    double a;
    int64_t size; /* bytes of an element */
} range_args;

static void copy_range_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const range_args *r = arg;
    r->kernels->copy2d(1, end - begin, r->from + begin * r->size, 0, 1, r->to + begin * r->size, 0,
                       1, false);
}
static void add_range_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const range_args *r = arg;
    char *to = r->to + begin * r->size;
    r->kernels->add(end - begin, to, 1, r->from + begin * r->size, 1, to);
}
static void fill_range_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const range_args *r = arg;
    r->kernels->fill(end - begin, r->a, r->to + begin * r->size);
}
static void scale_range_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const range_args *r = arg;
    char *to = r->to + begin * r->size;
    r->kernels->scale(end - begin, to, r->a, to);
}

/* A range of an update in place, and how a profile counts it. */
typedef struct {
    const char *name;
    cti_task *task;
    int64_t arrays; /* arrays of n elements that are read or written */
    ct_tensor *to;
    const ct_tensor *from; /* NULL if the update reads no other tensor */
    int64_t at, start, n;
    double a;
} range_update;

static void run_range(const range_update *u) {
    ct_tensor *to = u->to;
    const int64_t size = (int64_t)cti_dtype_size(to->dtype);
    CTI_ASSERT(cti_is_real(to->dtype) && to->contiguous);
    CTI_ASSERT(u->at >= 0 && u->n >= 0 && u->n <= to->numel - u->at);
    CTI_ASSERT(!u->from || (u->from->dtype == to->dtype && u->from->contiguous));
    CTI_ASSERT(!u->from || (u->start >= 0 && u->n <= u->from->numel - u->start));
    range_args r = {.kernels = to->context->isa->of[to->dtype],
                    .to = to->data + u->at * size,
                    .from = u->from ? u->from->data + u->start * size : NULL,
                    .a = u->a,
                    .size = size};
    cti_span span;
    if (u->n == 0) return;
    cti_update_begin(to->context, &span, u->name);
    cti_parallel(to->context, u->n, cti_op_grain(1), u->task, &r);
    cti_tensor_wrote(to);
    cti_update_end(to->context, &span, u->arrays * u->n * size);
}

void cti_op_range_copy(ct_tensor *to, int64_t at, const ct_tensor *from, int64_t start, int64_t n) {
    run_range(&(range_update){.name = "copy_range",
                              .task = copy_range_chunk,
                              .arrays = 2,
                              .to = to,
                              .from = from,
                              .at = at,
                              .start = start,
                              .n = n});
}
void cti_op_range_add(ct_tensor *to, int64_t at, const ct_tensor *from, int64_t start, int64_t n) {
    run_range(&(range_update){.name = "add_range",
                              .task = add_range_chunk,
                              .arrays = 3,
                              .to = to,
                              .from = from,
                              .at = at,
                              .start = start,
                              .n = n});
}
void cti_op_range_fill(ct_tensor *to, int64_t at, int64_t n, double value) {
    run_range(&(range_update){.name = "fill_range",
                              .task = fill_range_chunk,
                              .arrays = 1,
                              .to = to,
                              .at = at,
                              .n = n,
                              .a = value});
}
void cti_op_range_scale(ct_tensor *to, int64_t at, int64_t n, double a) {
    run_range(&(range_update){.name = "scale_range",
                              .task = scale_range_chunk,
                              .arrays = 2,
                              .to = to,
                              .at = at,
                              .n = n,
                              .a = a});
}
