#ifndef TIMING_H
#define TIMING_H

double now(void);                /* seconds, from a clock that only goes forward */
double median(double *x, int n); /* sorts x */

#endif
