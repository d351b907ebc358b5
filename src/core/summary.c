/* Summaries, computed in two passes. The first finds the extremes and the counts, the second the
 * sums. These are scaled by the extremes, so that squares of large values do not overflow and
 * squares of small values do not become 0. */
#include "summary.h"
#include "../kernels/elementwise.h"

#include <math.h>

#include "block_matrix.h"
#include "context.h"
#include "isa.h"
#include "strided_loop.h"

enum { SHOWN = 8 }; /* a tensor of up to this many elements is written element by element */

/* The element at an offset, which is in elements. */
static double summary_value(const ct_tensor *t, int64_t offset) {
    double value;
    if (cti_is_blocks(t->dtype)) return cti_block_element(t, offset);
    t->context->isa->of[t->dtype]->elementwise->cast[CT_F64](
        1, t->data + offset * (int64_t)cti_dtype_size(t->dtype), &value);
    return value;
}

static void count_value(cti_summary *s, double value) {
    if (isnan(value)) {
        s->nans++;
    } else if (isinf(value)) {
        s->infinities++;
    } else {
        s->min = s->finite ? fmin(s->min, value) : value;
        s->max = s->finite ? fmax(s->max, value) : value;
        s->finite++;
    }
}

/* Adds a value to the sums of value / largest and of its square. */
static void add_scaled(cti_summary *s, double value, double largest) {
    if (!isfinite(value)) return;
    const double scaled = value / largest;
    s->mean += scaled;
    s->norm += scaled * scaled;
}

cti_summary cti_tensor_summarize(const ct_tensor *t) {
    cti_summary s = {0};
    double largest = 0;
    cti_strided_loop loop;
    if (t->numel) cti_strided_loop_over(&loop, t->shape, 1, &t);
    for (int pass = 0; pass < 2 && t->numel; pass++) {
        for (int64_t row = 0; row < t->numel; row += loop.n) {
            int64_t offset[CTI_STRIDED_MOST];
            cti_strided_loop_at(&loop, row, offset);
            for (int64_t i = 0; i < loop.n; i++) {
                const double value = summary_value(t, offset[0] + i * loop.step[0]);
                if (pass == 0) count_value(&s, value);
                else add_scaled(&s, value, largest);
            }
        }
        largest = fmax(fabs(s.min), fabs(s.max));
        if (largest == 0) break; /* both sums are 0 */
    }
    CTI_ASSERT(s.finite + s.nans + s.infinities == t->numel);
    if (s.finite) s.mean = s.mean / (double)s.finite * largest;
    s.norm = sqrt(s.norm) * largest;
    return s;
}

static void print_summary_element(const ct_tensor *t, int64_t offset, FILE *file) {
    const double value = summary_value(t, offset);
    switch (t->dtype) {
    case CT_BOOL: fputs(value != 0 ? "true" : "false", file); return;
    case CT_I64:
        fprintf(file, "%lld", (long long)((const int64_t *)(const void *)t->data)[offset]);
        return;
    case CT_F32:
    case CT_F64:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0:
        if (isnan(value)) fputs("nan", file); /* printf may write "-nan" */
        else fprintf(file, "%.4g", value);
        return;
    }
}

/* Prints all elements, with a bracket for each dim. */
static void print_all(const ct_tensor *t, FILE *file) {
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t offset = 0, rest = i;
        int begins = 0, ends = 0; /* the numbers of dims that begin and end with this element */
        for (int d = t->shape.ndim - 1; d >= 0; d--) {
            const int64_t at = rest % t->shape.dim[d];
            const int inner = t->shape.ndim - 1 - d;
            begins += begins == inner && at == 0;
            ends += ends == inner && at == t->shape.dim[d] - 1;
            offset += at * t->stride[d];
            rest /= t->shape.dim[d];
        }
        fputs(i ? ", " : "", file);
        for (int b = 0; b < begins; b++) fputc('[', file);
        print_summary_element(t, offset, file);
        for (int e = 0; e < ends; e++) fputc(']', file);
    }
}

void cti_summary_print(const ct_tensor *t, const cti_summary *s, FILE *file) {
    if (t->numel == 0) {
        fputs("no elements", file);
        return;
    }
    if (t->numel <= SHOWN) {
        print_all(t, file);
        return;
    }
    if (s->nans) fprintf(file, "%lld nan%s", (long long)s->nans, s->infinities ? ", " : "");
    if (s->infinities) fprintf(file, "%lld inf", (long long)s->infinities);
    if (!s->finite) return;
    fprintf(file, "%smin %.4g, mean %.4g, max %.4g", s->nans || s->infinities ? ", " : "", s->min,
            s->mean, s->max);
}
