/* Initialisation: fills a contiguous f32 or f64 tensor in place. It is not recorded, and counts as
 * a write. Each random fill takes the next stream of the generator. As in torch, a weight is (out,
 * in,
 * ...): fan_in and fan_out are the sizes of dims 1 and 0, times the product of all further dims. */
#ifndef CT_INIT_H
#define CT_INIT_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)); at least 2 dims */
CT_API bool ct_init_xavier_uniform(ct_tensor *tensor, double gain);
/* N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out)) */
CT_API bool ct_init_xavier_normal(ct_tensor *tensor, double gain);
/* U(-b, b), b = sqrt(6 / ((1 + a^2) fan_in)); a = sqrt 5 is nn.Linear's */
CT_API bool ct_init_kaiming_uniform(ct_tensor *tensor, double a);
CT_API bool ct_init_uniform(ct_tensor *tensor, double low, double high);
CT_API bool ct_init_normal(ct_tensor *tensor, double mean, double std);
CT_API bool ct_init_constant(ct_tensor *tensor, double value);

#ifdef __cplusplus
}
#endif
#endif
