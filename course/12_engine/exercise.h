/* Your file defines a tape of scalars that computes gradients. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct tape tape; /* your file defines its fields */
typedef int64_t value;    /* identifies a value of a tape, by its index for example; never
                           * negative */

extern tape *tape_new(void);
extern void tape_free(tape *t);

/* Each of these computes a number at once, records how it was computed, and returns its value. The
 * arguments are values of the same tape. */
extern value value_leaf(tape *t, double data); /* a number that was not computed */
extern value value_add(tape *t, value a, value b);
extern value value_mul(tape *t, value a, value b);
extern value value_exp(tape *t, value a);
extern value value_tanh(tape *t, value a);

extern double value_data(const tape *t, value a);
extern double value_grad(const tape *t, value a); /* 0 until a backward has reached it */

/* Adds d from / d v to the gradient of every value v from which `from` was computed, and 1 to the
 * gradient of `from`. */
extern void tape_backward(tape *t, value from);
extern void tape_zero_grad(tape *t); /* sets every gradient to 0 */

#endif
