/* A tensor's values in a few numbers, for what is looked at: the drawn graph. Takes no memory. */
#ifndef CTI_CORE_SUMMARY_H
#define CTI_CORE_SUMMARY_H

#include <stdio.h>

#include "tensor.h"

/* Of the finite elements: min, max, mean (0 if there are none) and the square root of the sum of
 * squares, which does not overflow on its way. */
typedef struct {
    int64_t finite, nans, infinities; /* counts */
    double min, max, mean, norm;
} cti_summary;

/* Of a tensor with values, of any dtype and strides. */
cti_summary cti_summarize(const ct_tensor *tensor);

/* Writes up to 8 elements as they are, "[[1, 2.5], [3, nan]]"; of more "min -1, mean 0.2, max 3",
 * behind "2 nan, 1 inf, " if some are not finite. */
void cti_summary_print(const ct_tensor *tensor, const cti_summary *summary, FILE *file);

#endif
