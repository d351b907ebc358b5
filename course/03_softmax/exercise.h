/* Your file defines two ops of one f64 input (..., n), each over the last dim; neither has
 * attributes. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

extern const ct_op softmax;     /* y_i = e^(x_i) / sum_j e^(x_j) */
extern const ct_op log_softmax; /* y_i = x_i - ln sum_j e^(x_j) */

#endif
