/* The lines of ops.def as data: each line's texts, its call as a function, and inputs built from
 * its specs. The suites iterate over this table, and so do the Python scripts through a
 * shared object. */
#ifndef CASES_H
#define CASES_H

#include <cotangent/cotangent.h>

enum { CASE_INPUTS = 6 }; /* the most inputs of a call */

typedef struct {
    const char *name, *call, *torch, *inputs;
    ct_tensor *(*run)(ct_context *context, ct_tensor *const *in);
} case_line;

CT_API int case_count(void);
CT_API const case_line *case_at(int index);

typedef struct {
    char kind;   /* R, D, C, I, B or N, as in ops.def */
    bool ranged; /* has bounds; without them reals are standard normal */
    double low, high;
    ct_shape shape;
} case_input;

CT_API int case_variants(const case_line *line); /* the number of the line's lists of inputs */

/* The inputs of one list. Sizes above 1 are multiplied by scale, so equal sizes stay equal. Returns
 * the number of inputs, or -1 if the text is malformed. */
CT_API int case_inputs(const case_line *line, int variant, int64_t scale,
                       case_input inputs[CASE_INPUTS]);

/* The memory layout of an input. All except the first are strided views of a storage that holds NaN
 * elsewhere. */
typedef enum { CASE_DENSE, CASE_TRANSPOSED, CASE_STEPPED, CASE_REVERSED, CASE_LAYOUTS } case_layout;

typedef struct {
    ct_dtype dtype; /* dtype of the real inputs */
    case_layout layout;
    uint64_t seed;
    /* values that f32 represents exactly, also in f64, so that both dtypes compute on the same
     * numbers */
    bool single;
} case_build_opts;

/* Builds the inputs in the innermost scope; the values depend only on the specs and the seed. R and
 * D require gradients, N is NULL. Returns false with an error in the context. */
CT_API bool case_build(ct_context *context, const case_input *inputs, int n, case_build_opts opts,
                       ct_tensor **in);

/* A standard normal tensor of y's shape and dtype, to start backward with. */
CT_API ct_tensor *case_cotangent(ct_tensor *y, uint64_t seed, bool single);

/* For calls in ops.def: concatenates the parts of a split in reverse order. */
CT_API ct_tensor *case_split(ct_tensor *x, int64_t size, int dim, int n);

/* Runs the line's call with the generator at the start of seed 7. */
CT_API ct_tensor *case_run(ct_context *context, const case_line *line, ct_tensor *const *in);

#endif
