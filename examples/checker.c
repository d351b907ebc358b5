/* A gradient checker of one's own. ct_jacobian gives the Jacobian twice, J by differences and A by
 * backward; the program says what is wrong with A by a rule that only its author knows. Here the
 * rule is for y = x / |x|, which does not change with the length of x:
 *
 *     J x = 0,  dx = (g - y (sum of g y)) / |x|
 *
 * A backward that takes |x| for a constant has A x = y. */
#include <cotangent/cotangent.h>

#include <math.h>
#include <string.h>

static ct_tensor *norm(ct_tensor *x) { return ct_sqrt(ct_sum(ct_mul(x, x), CT_ALL, false)); }
static ct_tensor *unit(ct_call *c) { return ct_div(c->in[0], norm(c->in[0])); }

static bool right(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *along = ct_mul(c->out, ct_sum(ct_mul(g[0], c->out), CT_ALL, false));
    return (grad[0] = ct_div(ct_sub(g[0], along), norm(c->in[0]))) != NULL;
}
static bool no_sum(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_div(g[0], norm(c->in[0]))) != NULL;
}
static bool no_norm(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *along = ct_mul(c->out, ct_sum(ct_mul(g[0], c->out), CT_ALL, false));
    return (grad[0] = ct_sub(g[0], along)) != NULL;
}

static ct_tensor *apply(ct_tensor *const *in, int n, void *op) { return ct_apply(op, in, n, NULL); }

static const char *verdict(const ct_op *op, ct_tensor *x) {
    ct_jacobian_out out;
    if (!ct_jacobian(apply, (void *)op, &x, 1, (ct_jacobian_opts){0}, &out)) return "no Jacobian";
    if (!out.analytic) return "backward fails";
    const int64_t rows = ct_shape_of(out.analytic).dim[0], n = ct_shape_of(out.analytic).dim[1];
    const double *a = ct_data_f64(out.analytic), *j = ct_data_f64(out.numeric),
                 *noise = ct_data_f64(out.noise), *v = ct_data_f64(x);
    double aj = 0, jj = 0, along = 0, off = 0; /* <A, J>, |J|^2, max |A x|, max |A - c J| */
    int64_t wrong = 0;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t e = r * n + i;
            wrong += !(fabs(a[e] - j[e]) <= noise[e] + 1e-8); /* NaN is wrong */
            aj += a[e] * j[e], jj += j[e] * j[e], sum += a[e] * v[i];
        }
        along = fmax(along, fabs(sum));
    }
    for (int64_t e = 0; e < rows * n; e++) off = fmax(off, fabs(a[e] - aj / jj * j[e]));
    return !wrong         ? "right"
           : along > 1e-6 ? "wrong along x: it takes |x| for a constant"
           : off < 1e-6   ? "wrong by one factor: it forgets to divide by |x|"
                          : "wrong";
}

int main(void) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(6));
    const ct_op ops[] = {{.name = "unit", .forward = unit, .backward = right},
                         {.name = "unit without the sum", .forward = unit, .backward = no_sum},
                         {.name = "unit without |x|", .forward = unit, .backward = no_norm}};
    for (int i = 0; i < 3; i++) printf("%s: %s\n", ops[i].name, verdict(&ops[i], x));
    ct_context_free(context);
    return 0;
}
