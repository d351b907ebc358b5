/* Two functions of the C library, to about 1 and 2 ulp. Those of some systems are further off, so
 * src/os defines these. */
#ifndef CTI_KERNELS_LIBM_H
#define CTI_KERNELS_LIBM_H

double cti_libm_pow(double x, double e);
double cti_libm_tanh(double x);

#endif
