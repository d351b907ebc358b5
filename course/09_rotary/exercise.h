/* Your file defines rotary positions. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    double base;      /* 10000 in most models */
    int64_t offset;   /* the position of row 0 */
    bool interleaved; /* pair j is columns (2j, 2j + 1); if false, (j, j + d/2) */
} rotary_attrs;

/* f64 (..., T, d), d even -> the same shape. Each pair of columns is rotated by an angle that grows
 * with the row. */
extern const ct_op rotary;

#endif
