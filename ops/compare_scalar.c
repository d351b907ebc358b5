/* eq_scalar: y = (x = a), false if either is NaN
 * ne_scalar: y = (x != a), true if either is NaN
 * lt_scalar: y = (x < a), false if either is NaN
 * le_scalar: y = (x <= a), false if either is NaN
 * gt_scalar: y = (x > a), false if either is NaN
 * ge_scalar: y = (x >= a), false if either is NaN
 * Each: to bool, no gradient; for f32 a is rounded to f32, i64 and bool are compared exactly */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

#include <math.h>
#include <string.h>

typedef struct {
    ct_op op;           /* the first member, so a call's op points to this struct */
    size_t kernel;      /* the offset of the kernel in cti_elementwise_kernels */
    bool less, greater; /* the result if x < a, and if x > a */
    bool unordered;     /* the result if x or a is NaN */
} compare_op;

typedef struct {
    cti_binary *f;      /* NULL: every result is `constant` */
    unsigned char a[8]; /* the number that f compares with, of x's dtype */
    bool constant;
    const char *x;
    int64_t size; /* bytes of an element of x */
    bool *y;
} compare_job;

static void compare_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const compare_job *j = arg;
    if (j->f) j->f(end - begin, j->x + begin * j->size, 1, j->a, 0, j->y + begin);
    else memset(j->y + begin, j->constant, (size_t)(end - begin));
}

/* Chooses kernel and number for an x of whole numbers. If a is not one of their values, each of
 * them is below or above it: x < a, unless x > floor(a). */
static void compare_whole(const ct_call *c, double a, compare_job *j) {
    const compare_op *o = (const compare_op *)c->op;
    const bool is_bool = c->in[0]->dtype == CT_BOOL;
    const double least = is_bool ? 0 : -0x1p63, beyond = is_bool ? 2 : 0x1p63, whole = floor(a);
    j->constant = a < least ? o->greater : o->less;
    if (isnan(a)) j->constant = o->unordered;
    if (!(a >= least && a < beyond) || (whole != a && o->less == o->greater)) {
        j->f = NULL;
        return;
    }
    if (whole != a) j->f = o->less ? kernels(c)->elementwise->le : kernels(c)->elementwise->gt;
    if (is_bool) memcpy(j->a, &(bool){whole != 0}, sizeof(bool));
    else memcpy(j->a, &(int64_t){(int64_t)whole}, sizeof(int64_t));
}

static ct_tensor *compare_scalar_forward(ct_call *c) {
    const ct_tensor *x = c->in[0];
    const double a = *(const double *)c->attrs;
    const size_t kernel = ((const compare_op *)c->op)->kernel;
    compare_job j = {.f = *(cti_binary *const *)((const char *)kernels(c)->elementwise + kernel),
                     .x = x->data,
                     .size = (int64_t)cti_dtype_size(x->dtype)};
    if (!j.f) return cti_op_refuse(c, x->dtype), NULL;
    ct_tensor *y = cti_op_new(c, CT_BOOL, x->shape);
    if (!y || y->numel == 0) return y;
    if (cti_is_real(x->dtype)) cti_real_set(x->dtype, j.a, 0, a);
    else compare_whole(c, a, &j);
    j.y = (bool *)y->data;
    cti_parallel(c->context, x->numel, cti_op_grain(1), compare_range, &j);
    return y;
}

#define COMPARE_SCALAR(f, of_less, of_greater)                                                     \
    static const compare_op f##_scalar_op = {.op = {.name = #f "_scalar",                          \
                                                    .attrs_size = sizeof(double),                  \
                                                    .forward = compare_scalar_forward,             \
                                                    .flags = CTI_OP_EXACT_ATTRS},                  \
                                             .kernel = offsetof(cti_elementwise_kernels, f),       \
                                             .less = (of_less),                                    \
                                             .greater = (of_greater),                              \
                                             .unordered = (of_less) && (of_greater)};              \
    ct_tensor *ct_##f##_scalar(ct_tensor *x, double a) {                                           \
        return ct_apply(&f##_scalar_op.op, (ct_tensor *[]){x}, 1, &a);                             \
    }
COMPARE_SCALAR(eq, false, false)
COMPARE_SCALAR(ne, true, true)
COMPARE_SCALAR(lt, true, false)
COMPARE_SCALAR(le, true, false)
COMPARE_SCALAR(gt, false, true)
COMPARE_SCALAR(ge, false, true)
