/* Elements [at, at + n) of row-major tensors, in place: copies, sums, a value, a factor. */
#include "../../src/core/profile.h"
#include "../support/op.h"
#include "update.h"

typedef struct {
    const cti_kernels *kernels;
    char *to;
    const char *from;
    double a;
    int64_t size; /* of an element */
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

static void run_range(const char *name, cti_task *task, int64_t arrays, ct_tensor *to, int64_t at,
                      const ct_tensor *from, int64_t start, int64_t n, double a) {
    ct_context *context = to->context;
    const int64_t size = (int64_t)cti_dtype_size(to->dtype);
    range_args r = {.kernels = context->isa->of[to->dtype],
                    .to = to->data + at * size,
                    .from = from ? from->data + start * size : NULL,
                    .a = a,
                    .size = size};
    cti_span span;
    if (n == 0) return;
    cti_update_begin(context, &span, name);
    cti_parallel(context, n, cti_op_grain(1), task, &r);
    cti_tensor_wrote(to);
    cti_update_end(context, &span, arrays * n * size);
}

void cti_op_range_copy(ct_tensor *to, int64_t at, const ct_tensor *from, int64_t start, int64_t n) {
    run_range("copy_range", copy_range_chunk, 2, to, at, from, start, n, 0);
}
void cti_op_range_add(ct_tensor *to, int64_t at, const ct_tensor *from, int64_t start, int64_t n) {
    run_range("add_range", add_range_chunk, 3, to, at, from, start, n, 0);
}
void cti_op_range_fill(ct_tensor *to, int64_t at, int64_t n, double value) {
    run_range("fill_range", fill_range_chunk, 1, to, at, NULL, 0, n, value);
}
void cti_op_range_scale(ct_tensor *to, int64_t at, int64_t n, double a) {
    run_range("scale_range", scale_range_chunk, 2, to, at, NULL, 0, n, a);
}
