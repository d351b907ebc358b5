/* A wrong input, and what the hypotheses about it share. With J the Jacobian by differences and A what backward gives, both one row a
 * cotangent, a hypothesis predicts from J what a known mistake would give in A's place; it is the diagnosis when nothing of the error is
 * left:
 *     ||A - P|| <= fit ||A - J|| */
#ifndef CT_SRC_GRADCHECK_SUSPECT_H
#define CT_SRC_GRADCHECK_SUSPECT_H

#include "check.h"

typedef struct {
    ct_check *k;
    const ct_checked *c;
    ct_shape in, out; /* of the input and the output; in fast mode the columns are no elements, and these say nothing */
    int64_t rows, n;  /* of A and J: where k->whole, one row an element of the output; else random cotangents and ones */
    const double *a, *j;
    double *p;               /* [rows][n] */
    double size, error, fit; /* ||J||, ||A - J|| */
    double tiny;             /* entries up to this are zero */
    double rounding;         /* what rounding of the output makes of a difference */
    ct_mistake mistake;
    double factor;
    char text[256];
} ct_suspect;

/* Notes the diagnosis; true. */
bool ct_suspect_say(ct_suspect *s, ct_mistake mistake, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool ct_suspect_fits(const ct_suspect *s);                                        /* is p what backward gives? */
double ct_suspect_ratio(const ct_suspect *s, const double *of, const double *to); /* c with the least ||of - c to|| */
bool ct_suspect_wrong(const ct_suspect *s, int64_t r, int64_t i);
static inline bool ct_suspect_is_zero(const ct_suspect *s, double v) { return v <= s->tiny && v >= -s->tiny; }

/* Where element i of a shape has index along dim d. */
static inline int64_t ct_suspect_along(ct_shape shape, int64_t i, int d) {
    for (int e = shape.ndim - 1; e > d; e--) i /= shape.dim[e];
    return i % shape.dim[d];
}

/* The hypotheses, each true when it is the diagnosis. A hypothesis that needs elements says no in fast mode, one that needs a row for each
 * element of the output where there are none. */
typedef bool ct_hypothesis(ct_suspect *s);
ct_hypothesis ct_suspect_not_finite, ct_suspect_kink, ct_suspect_precision;                                   /* diagnose.c */
ct_hypothesis ct_suspect_zero, ct_suspect_factor, ct_suspect_cotangent, ct_suspect_chain, ct_suspect_uniform; /* factors.c */
ct_hypothesis ct_suspect_mask, ct_suspect_assigned, ct_suspect_sum, ct_suspect_spread;                        /* routes.c */
ct_hypothesis ct_suspect_transposed, ct_suspect_permuted;                                                     /* order.c */
ct_hypothesis ct_suspect_forward_value, ct_suspect_product_rule, ct_suspect_target, ct_suspect_term, ct_suspect_row_sum; /* terms.c */
ct_hypothesis ct_suspect_edges;                                                                               /* edges.c */

#endif
