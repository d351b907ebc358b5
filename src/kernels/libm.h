/* Two functions of the C library, with errors of about 1 ulp (pow) and 2 ulp (tanh). The libraries
 * of some systems have larger errors, so src/os defines these functions. */
#ifndef CTI_KERNELS_LIBM_H
#define CTI_KERNELS_LIBM_H

double cti_libm_pow(double x, double e);
double cti_libm_tanh(double x);

#endif
