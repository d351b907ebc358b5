/* Your file defines the backward of multi-head attention, with each step's result. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* The values that backward may read: sizes, parameters, results of forward, and the cotangent. All
 * arrays are dense, row-major. */
typedef struct {
    int64_t batch, tokens, width, heads; /* B, T, E, H; d = E / H is a whole number */

    const double *x;         /* (B, T, E) */
    const double *w_in;      /* (3 E, E): E rows for queries, E for keys, E for values */
    const double *q, *k, *v; /* (B, H, T, d) */
    const double *P;         /* (B, H, T, T): the weights; 0 where a mask hides */
    const double *O;         /* (B, T, E): the heads' outputs, combined */
    const double *w_out;     /* (E, E): y = O w_out^T + b_out */
    const double *dy;        /* (B, T, E): d loss / d y */
} attention_values;

/* The arrays that backward writes, in this order. They hold NaN when it is called. */
typedef struct {
    double *dW_out, *db_out; /* (E, E), (E) */
    double *dO;              /* (B, T, E) */
    double *dO_heads;        /* (B, H, T, d) */
    double *dv;              /* (B, H, T, d) */
    double *dP;              /* (B, H, T, T) */
    double *D;               /* (B, H, T) */
    double *dS;              /* (B, H, T, T) */
    double *dq, *dk;         /* (B, H, T, d) */
    double *dqkv;            /* (B, T, 3 E) */
    double *dW_in, *db_in;   /* (3 E, E), (3 E) */
    double *dx_paths;        /* (3, B, T, E): through queries, keys, values */
    double *dx;              /* (B, T, E) */
} attention_gradients;

extern void attention_backward(const attention_values *a, const attention_gradients *grad);

#endif
