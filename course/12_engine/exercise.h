/* What your file defines: a tape of scalars that computes gradients. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct tape tape; /* what is in it is yours to say */
typedef int64_t value;    /* says which value of a tape: its index, for example; never negative */

extern tape *tape_new(void);
extern void tape_free(tape *t);

/* Each computes a number at once, records how, and says which value it is. Arguments are values of
 * the same tape. */
extern value value_leaf(tape *t, double data); /* a number that nothing is computed from */
extern value value_add(tape *t, value a, value b);
extern value value_mul(tape *t, value a, value b);
extern value value_exp(tape *t, value a);
extern value value_tanh(tape *t, value a);

extern double value_data(const tape *t, value a);
extern double value_grad(const tape *t, value a); /* 0 until a backward has reached it */

/* Adds d from / d v to the gradient of every value v that `from` was computed from, and 1 to that
 * of `from`. */
extern void tape_backward(tape *t, value from);
extern void tape_zero_grad(tape *t); /* every gradient is 0 again */

#endif
