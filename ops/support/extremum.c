/* The backward of maximum and minimum: an elementwise kernel of both operands and g, then a sum
 * over the dims in which the input was broadcast. */
#include "extremum.h"

typedef struct {
    cti_binary_backward *f;
    const char *a, *b, *g;
    char *da;
    int64_t sa, sb, size;
} extremum;

static void extremum_task(void *arg, int64_t begin, int64_t end, int worker) {
    const extremum *e = arg;
    (void)worker;
    e->f(end - begin, e->a + begin * e->sa * e->size, e->sa, e->b + begin * e->sb * e->size, e->sb,
         e->g + begin * e->size, e->da + begin * e->size);
}

/* Returns t if it has the shape (stride 1) or one element (stride 0), otherwise a copy of t
 * expanded to the shape. */
static ct_tensor *stretched(ct_tensor *t, ct_shape shape, int64_t *stride) {
    *stride = t->numel != 1;
    return t->numel == 1 || cti_shape_equal(t->shape, shape) ? t
                                                             : ct_contiguous(ct_expand(t, shape));
}

static bool gradient_of_input(const ct_call *c, cti_binary_backward *f, int i, ct_tensor *g,
                              ct_tensor **grad) {
    extremum e = {.f = f, .g = g->data, .size = (int64_t)cti_dtype_size(g->dtype)};
    ct_tensor *a = stretched(c->in[i], g->shape, &e.sa),
              *b = stretched(c->in[1 - i], g->shape, &e.sb);
    ct_tensor *da = cti_op_new(c, g->dtype, g->shape);
    if (!a || !b || !da) return false;
    e.a = a->data;
    e.b = b->data;
    e.da = da->data;
    cti_parallel(c->context, g->numel, cti_op_grain(1), extremum_task, &e);
    return cti_op_sum_to_input(c, i, da, grad);
}

bool cti_op_extremum_backward(const ct_call *c, cti_binary_backward *f, ct_tensor *g,
                              ct_tensor **grad) {
    for (int i = 0; i < 2; i++)
        if (c->wants[i] && !gradient_of_input(c, f, i, g, &grad[i])) return false;
    return true;
}
