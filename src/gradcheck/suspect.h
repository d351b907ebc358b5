/* A wrong input, and what the hypotheses about it share. With J the Jacobian by differences and A
 * what backward gives, both one row a cotangent, a hypothesis predicts from J what a known mistake
 * would give in A's place; it is the diagnosis when nothing of the error is left:
 *     ||A - P|| <= fit ||A - J|| */
#ifndef CTI_GRADCHECK_SUSPECT_H
#define CTI_GRADCHECK_SUSPECT_H

#include "check.h"

typedef struct {
    cti_check *k;
    const cti_checked *c;
    /* of the input and the output; in fast mode the columns are no elements, and these say
     * nothing */
    ct_shape in, out;
    /* of A and J: where k->whole, one row an element of the output; else random cotangents and
     * ones */
    int64_t rows, n;
    const double *a, *j;
    double *p;               /* [rows][n] */
    double size, error, fit; /* ||J||, ||A - J|| */
    double tiny;             /* entries up to this are zero */
    double rounding;         /* what rounding of the output makes of a difference */
    ct_mistake mistake;
    double factor;
    char text[256];
} cti_suspect;

/* Notes the diagnosis; true. */
bool cti_suspect_say(cti_suspect *s, ct_mistake mistake, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* is p what backward gives? */
bool cti_suspect_fits(const cti_suspect *s);
/* c with the least ||of - c to|| */
double cti_suspect_ratio(const cti_suspect *s, const double *of, const double *to);
bool cti_suspect_wrong(const cti_suspect *s, int64_t r, int64_t i);
static inline bool cti_suspect_is_zero(const cti_suspect *s, double v) {
    return v <= s->tiny && v >= -s->tiny;
}

/* Where element i of a shape has index along dim d. */
static inline int64_t cti_suspect_along(ct_shape shape, int64_t i, int d) {
    for (int e = shape.ndim - 1; e > d; e--) i /= shape.dim[e];
    return i % shape.dim[d];
}

/* The hypotheses, each true when it is the diagnosis. A hypothesis that needs elements says no in
 * fast mode, one that needs a row for each element of the output where there are none. */
typedef bool cti_hypothesis(cti_suspect *s);
/* diagnose.c */
cti_hypothesis cti_suspect_not_finite, cti_suspect_kink, cti_suspect_precision;
/* factors.c */
cti_hypothesis cti_suspect_zero, cti_suspect_factor, cti_suspect_cotangent, cti_suspect_chain,
    cti_suspect_uniform;
/* routes.c */
cti_hypothesis cti_suspect_mask, cti_suspect_assigned, cti_suspect_sum, cti_suspect_spread;
/* order.c */
cti_hypothesis cti_suspect_transposed, cti_suspect_permuted;
/* terms.c */
cti_hypothesis cti_suspect_forward_value, cti_suspect_product_rule, cti_suspect_target,
    cti_suspect_term, cti_suspect_row_sum;
/* edges.c */
cti_hypothesis cti_suspect_edges;

#endif
