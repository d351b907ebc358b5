/* The error of central differences as a function of eps, in f32 and f64: softmax of a product and a
 * GELU, every element of the gradient. Prints for each dtype and eps the largest error and the
 * noise that gradcheck estimates; gradcheck_plot.py draws them. */
#include <cotangent/cotangent.h>

#include <math.h>
#include <stdio.h>

static ct_tensor *function(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_softmax(ct_gelu(ct_matmul(in[0], in[1])), -1);
}

int main(void) {
    ct_context *context =
        ct_context_new((ct_context_opts){.seed = 3, .threads = 1, .on_error = ct_error_die});
    for (int wide = 0; wide < 2; wide++) {
        ct_dtype dtype = wide ? CT_F64 : CT_F32;
        ct_seed(context, 3);
        ct_tensor *in[] = {ct_randn(context, dtype, CT_SHAPE(4, 6)),
                           ct_randn(context, dtype, CT_SHAPE(6, 5))};
        for (double power = wide ? -12 : -6; power <= -0.49; power += 0.125) {
            ct_gradcheck_result r =
                ct_gradcheck(function, NULL, in, 2,
                             (ct_gradcheck_opts){.eps = pow(10, power), .gradient_only = true});
            printf("%s %.6g %.6g %.6g\n", wide ? "f64" : "f32", pow(10, power), r.error, r.noise);
        }
    }
    ct_context_free(context);
    return 0;
}
