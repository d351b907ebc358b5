/* An input with a wrong gradient, and the tools (suspect.c) of the hypotheses about it. J is the
 * matrix by differences and A the matrix by backward, with one row for each cotangent. A hypothesis
 * computes from J the matrix P that a known mistake would give instead of J. It is the diagnosis if
 * P explains the whole error:
 *
 *     ||A - P|| <= fit ||A - J|| */
#ifndef CTI_DIAGNOSE_SUSPECT_H
#define CTI_DIAGNOSE_SUSPECT_H

#include "diagnose.h"

typedef struct {
    cti_check *check;
    const cti_checked *c;
    /* shapes of the input and the output. In fast mode columns are directions, to which the shapes
     * do not apply */
    ct_shape in, out;
    /* rows of A and J: if check->whole one for each element of the output, otherwise one for each
     * random cotangent and one for ones */
    int64_t rows, n;
    const double *a, *j;
    double *p;               /* [rows][n] */
    double size, error, fit; /* ||J||, ||A - J||, and the fit above */
    double tiny;             /* an entry whose size is at most this counts as zero */
    ct_mistake mistake;      /* the diagnosis: its mistake, factor and text */
    double factor;
    char text[256];
} cti_suspect;

/* Sets the diagnosis. Returns true. */
bool cti_suspect_say(cti_suspect *s, ct_mistake mistake, const char *format, ...) CT_FORMAT(3, 4);
/* ||a - b|| of two matrices [rows][n]. */
double cti_suspect_distance(const cti_suspect *s, const double *a, const double *b);
/* Does s->p explain the whole error? */
bool cti_suspect_fits(const cti_suspect *s);
/* The number c that minimises ||of - c to||. */
double cti_suspect_ratio(const cti_suspect *s, const double *of, const double *to);
/* Writes a factor with six digits, or more if it would read as 1 or -1 otherwise. Returns text. */
const char *cti_suspect_times(double c, char text[32]);
#define CTI_SUSPECT_TIMES(c) cti_suspect_times((c), (char[32]){0})
/* Is entry (r, i) wrong, in a column that is wrong? */
bool cti_suspect_wrong(const cti_suspect *s, int64_t r, int64_t i);
static inline bool cti_suspect_is_zero(const cti_suspect *s, double v) {
    return v <= s->tiny && v >= -s->tiny;
}

/* The index along dim d of element i (row-major) of a shape. */
static inline int64_t cti_suspect_along(ct_shape shape, int64_t i, int d) {
    for (int e = shape.ndim - 1; e > d; e--) i /= shape.dim[e];
    return i % shape.dim[d];
}

/* Experiments at other points are made only for functions with at most this many checked inputs. */
enum { CTI_SUSPECT_INPUTS = 16 };

/* Is a factor c, with A = c J, the same at another point? If it is another number at that point,
 * `text` names the quantity that it is a power of, or is "". NEITHER: the experiment was not
 * possible, and A has too few entries to call c a constant without it. */
typedef enum { CTI_CONSTANT, CTI_VARYING, CTI_NEITHER } cti_constancy;
cti_constancy cti_suspect_constancy(cti_suspect *s, double c, char *text, size_t size);

/* Is A the matrix J at the point at which checked input q has the values `instead`? */
bool cti_suspect_is_at(cti_suspect *s, int q, double *instead);

/* The hypotheses. Each returns whether it is the diagnosis, and then has set it. A hypothesis that
 * needs single elements returns false in fast mode; one that needs a row for each element of the
 * output returns false unless check->whole. */
typedef bool cti_hypothesis(cti_suspect *s);
/* diagnose.c */
cti_hypothesis cti_suspect_not_finite;
/* exact.c */
cti_hypothesis cti_suspect_not_linear, cti_suspect_rounded;
/* factors.c */
cti_hypothesis cti_suspect_zero, cti_suspect_factor, cti_suspect_cotangent, cti_suspect_chain,
    cti_suspect_uniform;
/* local.c */
cti_hypothesis cti_suspect_residual, cti_suspect_exchanged, cti_suspect_local_factor,
    cti_suspect_local_term, cti_suspect_row_term, cti_suspect_handed_on, cti_suspect_angle;
/* routes.c */
cti_hypothesis cti_suspect_mask, cti_suspect_assigned, cti_suspect_sum, cti_suspect_spread,
    cti_suspect_lost, cti_suspect_part;
/* order.c */
cti_hypothesis cti_suspect_transposed, cti_suspect_permuted;
/* shift.c */
cti_hypothesis cti_suspect_shifted, cti_suspect_kernel, cti_suspect_reversed, cti_suspect_misplaced,
    cti_suspect_scattered, cti_suspect_element;
/* experiments.c */
cti_hypothesis cti_suspect_forward_value, cti_suspect_operand, cti_suspect_formula;
/* misread.c */
cti_hypothesis cti_suspect_rearranged, cti_suspect_place, cti_suspect_wrong_dim,
    cti_suspect_moved_term;
/* terms.c */
cti_hypothesis cti_suspect_product_rule, cti_suspect_target, cti_suspect_term, cti_suspect_row_sum;
/* sums.c */
cti_hypothesis cti_suspect_other_sum;
/* edges.c */
cti_hypothesis cti_suspect_edges, cti_suspect_threshold, cti_suspect_branches, cti_suspect_rows,
    cti_suspect_place_factor, cti_suspect_scaled;

/* Whether row r has at most one entry that is not 0 in A, and at most one in J. Sets *a and *j to
 * the columns of these entries, or to -1 if there is none, and clears row r of P. */
static inline bool cti_suspect_one_entry(const cti_suspect *s, int64_t r, int64_t *a, int64_t *j) {
    *a = *j = -1;
    for (int64_t i = 0; i < s->n; i++) {
        const bool in_a = !cti_suspect_is_zero(s, s->a[r * s->n + i]),
                   in_j = !cti_suspect_is_zero(s, s->j[r * s->n + i]);
        if ((in_a && *a >= 0) || (in_j && *j >= 0)) return false;
        if (in_a) *a = i;
        if (in_j) *j = i;
        s->p[r * s->n + i] = 0;
    }
    return true;
}

#endif
