/* Functions that draw two kinds of picture as SVG: curves, and a table of numbers as colours. */
#ifndef PROGRAMS_PLOT_H
#define PROGRAMS_PLOT_H

#include "common.h"

typedef struct {
    const char *name, *colour;
    const double *x, *y; /* x NULL: 1, 2, 3 ... */
    int64_t n;
    bool noisy; /* true: it is drawn faint, under its running mean; false: with a dot at each point
                 */
} curve;
void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label,
                 const curve *curves, int n);

/* A table of numbers in [0, 1]. The number of a cell is shown as its colour. */
typedef struct {
    const char *title, *x_label, *y_label;
    const char *const *columns, *const *rows; /* the names of columns and rows */
    int n_columns, n_rows;
    const double *values; /* (n_rows, n_columns) */
} map;
void plot_map(const char *path, const map *m);

#endif
