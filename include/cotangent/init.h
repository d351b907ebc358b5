/* Initialisation: fills a contiguous f32 or f64 tensor in place, outside the tape; counted as a
 * write. Each takes the next stream of the generator. fan_in is the size of the last dim, fan_out
 * of the one before (times what is behind, as torch). */
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
