/* A summary of a tensor's values in a few numbers. A drawn graph shows it. */
#ifndef CTI_CORE_SUMMARY_H
#define CTI_CORE_SUMMARY_H

#include <stdio.h>

#include "tensor.h"

/* min, max, mean and norm are computed from the finite elements, and are 0 if there are none. The
 * norm is the square root of the sum of squares, which is computed without overflow. */
typedef struct {
    int64_t finite, nans, infinities; /* the numbers of elements of each kind */
    double min, max, mean, norm;
} cti_summary;

/* The summary of a tensor that has values, of any dtype and strides. This takes no memory. */
cti_summary cti_tensor_summarize(const ct_tensor *tensor);

/* Writes a tensor of up to 8 elements as it is: "[[1, 2.5], [3, nan]]". For a larger tensor it
 * writes "min -1, mean 0.2, max 3", and before this "2 nan, 1 inf, " if some elements are not
 * finite. */
void cti_summary_print(const ct_tensor *tensor, const cti_summary *summary, FILE *file);

#endif
