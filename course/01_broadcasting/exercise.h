/* Your file defines three ops of f64 without attributes. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* y = tanh(w x + b); inputs w, x, b and the output are scalars: no dims, one number */
extern const ct_op neuron;
extern const ct_op add; /* y = a + b; the two inputs broadcast */
extern const ct_op mul; /* y = a b; the two inputs broadcast */

#endif
