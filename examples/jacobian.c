/* This program prints the Jacobian of an op twice: on the left from differences of the forward, on
 * the right from backward. Row r is an element of the output, and column i an element of the input.
 * A star marks an element that differs by more than the noise of the differences.
 *
 *     y = softmax(x) along a row,  dy_r / dx_i = y_r ((r == i) - y_i)
 *     dx = y (g - sum of g y over the row)
 *
 * The second op has the same forward, and its backward lacks the sum. */
#include <cotangent/cotangent.h>

#include <math.h>

static ct_tensor *softmax_forward(ct_call *c) { return ct_softmax(c->in[0], -1); }

static bool softmax_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    ct_tensor *gy = ct_mul(cotangents[0], c->out);
    grad[0] = ct_sub(gy, ct_mul(c->out, ct_sum(gy, CT_DIMS(-1), true)));
    return grad[0] != NULL; /* NULL: the error is recorded already */
}

static bool wrong_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    grad[0] = ct_mul(cotangents[0], c->out);
    return grad[0] != NULL;
}

static const ct_op softmax_op = {
    .name = "softmax", .forward = softmax_forward, .backward = softmax_backward};
static const ct_op wrong_op = {
    .name = "softmax without the sum", .forward = softmax_forward, .backward = wrong_backward};

/* The function that is differentiated; arg is the op. */
static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(arg, in, n, NULL);
}

static void print_jacobian(const ct_op *op, ct_tensor *x) {
    ct_jacobian_out j;
    if (!ct_jacobian(apply, (void *)op, &x, 1, (ct_jacobian_opts){0}, &j)) return;
    if (!j.analytic) { /* a backward that fails is a result, not an error */
        printf("%s: %s\n", op->name, j.refused);
        return;
    }
    const ct_shape shape = ct_shape_of(j.numeric);
    const int rows = (int)shape.dim[0], columns = (int)shape.dim[1];
    const double *numeric = ct_data_f64(j.numeric), *analytic = ct_data_f64(j.analytic),
                 *noise = ct_data_f64(j.noise);
    int wrong = 0;
    printf("%-*s      from backward\n", 7 * columns, "from differences");
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < columns; i++) printf("%7.3f", numeric[r * columns + i]);
        printf("    ");
        for (int i = 0; i < columns; i++) {
            const int e = r * columns + i;
            const bool differs =
                !(fabs(analytic[e] - numeric[e]) <= noise[e]); /* a NaN differs too */
            printf("  %c%6.3f", differs ? '*' : ' ', analytic[e]);
            wrong += differs;
        }
        printf("\n");
    }
    printf("%s: %d of %d elements differ\n\n", op->name, wrong, rows * columns);
}

int main(void) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_tensor *x = ct_randn(context, CT_F64,
                            CT_SHAPE(2, 3)); /* differences of f32 numbers would be too inexact */
    print_jacobian(&softmax_op, x);
    print_jacobian(&wrong_op, x);
    ct_context_free(context);
    return 0;
}
