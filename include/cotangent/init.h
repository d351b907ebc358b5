/* Initialisation functions fill a contiguous tensor in place. The fill is not recorded. A
 * later backward that needs the earlier values fails with CT_ERR_GRAD. Each random fill takes f32
 * or f64 and the next stream of the generator.
 *
 * As in torch, a weight has shape (out, in, ...). fan_out and fan_in are its sizes of dims 0 and 1,
 * both multiplied by the product of all further dims. A tensor of fewer than 2 dims has no fans and
 * is CT_ERR_SHAPE.
 *
 * These are CT_ERR_ARGUMENT: a tensor that is not contiguous; a gain, a or std that is negative or
 * not finite; low > high, or a range that is not finite. Sources: Glorot & Bengio 2010 (Xavier); He
 * et al. 2015, arXiv:1502.01852 (Kaiming). */
#ifndef CT_INIT_H
#define CT_INIT_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)) */
CT_API bool ct_init_xavier_uniform(ct_tensor *tensor, double gain);
/* N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out)) */
CT_API bool ct_init_xavier_normal(ct_tensor *tensor, double gain);
/* U(-b, b), b = sqrt(6 / ((1 + a^2) fan_in)); torch.nn.Linear has a = sqrt(5) */
CT_API bool ct_init_kaiming_uniform(ct_tensor *tensor, double a);
CT_API bool ct_init_uniform(ct_tensor *tensor, double low, double high); /* U(low, high) */
CT_API bool ct_init_normal(ct_tensor *tensor, double mean, double std);  /* N(mean, std^2) */
CT_API bool ct_init_constant(ct_tensor *tensor, double value);           /* any dtype */

#ifdef __cplusplus
}
#endif
#endif
