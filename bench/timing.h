#ifndef TIMING_H
#define TIMING_H

double now(void);                /* seconds of a monotonic clock */
double median(double *x, int n); /* sorts x */

#endif
