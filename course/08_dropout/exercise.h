/* What your file defines: one op of one f64 input of any shape. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    double p;      /* how probable it is that an element is dropped, in [0, 1] */
    bool training; /* else nothing is dropped */
} dropout_attrs;

extern const ct_op dropout; /* training: 0 with probability p, else x / (1 - p) */

#endif
