/* Your file defines one op of one f64 input of any shape. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    double p;      /* the probability with which an element is dropped, in [0, 1] */
    bool training; /* if it is false nothing is dropped */
} dropout_attrs;

extern const ct_op dropout; /* in training: 0 with probability p, otherwise x / (1 - p) */

#endif
