/* ct_print, which prints as torch does: all numbers have the same width, and of a large tensor it
 * shows the first three and the last three indices of each dim. */
#include "block_matrix.h"
#include "context.h"
#include "isa.h"
#include "../kernels/elementwise.h"

#include <math.h>

enum { EDGE = 3, SHOWN_WHOLE = 1000 }; /* tensors up to SHOWN_WHOLE elements are shown whole */

typedef struct {
    const ct_tensor *tensor;
    FILE *file;
    int width, digits; /* the characters and the decimals of a number */
    bool scientific, brief;
} printer;

static double printed_value(const ct_tensor *t, int64_t offset) {
    double value;
    if (cti_is_blocks(t->dtype)) return cti_block_element(t, offset);
    t->context->isa->of[t->dtype]->elementwise->cast[CT_F64](
        1, t->data + offset * (int64_t)cti_dtype_size(t->dtype), &value);
    return value;
}

static int text_of(const printer *p, double value, int64_t offset, char *text, size_t size) {
    switch (p->tensor->dtype) {
    case CT_BOOL: return snprintf(text, size, value != 0 ? "true" : "false");
    case CT_I64:
        return snprintf(text, size, "%lld",
                        (long long)((const int64_t *)(const void *)p->tensor->data)[offset]);
    case CT_F32:
    case CT_F64:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0:
        if (isnan(value)) return snprintf(text, size, "nan"); /* printf may write "-nan" */
        return snprintf(text, size, isfinite(value) && p->scientific ? "%.*e" : "%.*f", p->digits,
                        value);
    }
    return 0;
}

/* The number of indices that are shown of a dim of size n, and the k-th of these indices. */
static int64_t shown_count(const printer *p, int64_t n) {
    return p->brief && n > 2 * EDGE ? 2 * EDGE : n;
}
static int64_t shown_index(int64_t n, int64_t shown, int64_t k) {
    return k < EDGE ? k : n - shown + k;
}

/* Calls `each` for every element that is shown. */
static void visit(printer *p, int d, int64_t offset, void (*each)(printer *, int64_t offset)) {
    const ct_tensor *t = p->tensor;
    if (d == t->shape.ndim) {
        each(p, offset);
        return;
    }
    const int64_t n = t->shape.dim[d], shown = shown_count(p, n);
    for (int64_t k = 0; k < shown; k++)
        visit(p, d + 1, offset + shown_index(n, shown, k) * t->stride[d], each);
}

static void find_scale(printer *p, int64_t offset) {
    double a = fabs(printed_value(p->tensor, offset));
    if (isfinite(a) && a != 0 && (a >= 1e5 || a < 1e-4)) p->scientific = true;
}

static void find_width(printer *p, int64_t offset) {
    char text[64];
    int width = text_of(p, printed_value(p->tensor, offset), offset, text, sizeof text);
    if (width > p->width) p->width = width;
}

static void print_tensor_element(printer *p, int64_t offset) {
    char text[64];
    text_of(p, printed_value(p->tensor, offset), offset, text, sizeof text);
    fprintf(p->file, "%*s", p->width, text);
}

/* Prints the separator of two items of dim d. `indent` is the column of the outermost bracket. */
static void print_separator(const printer *p, int d, int indent) {
    if (d == p->tensor->shape.ndim - 1) fputs(", ", p->file);
    else fprintf(p->file, ",\n%*s", indent + d + 1, "");
}

static void print_dim(printer *p, int d, int64_t offset, int indent) {
    const ct_tensor *t = p->tensor;
    if (d == t->shape.ndim) {
        print_tensor_element(p, offset);
        return;
    }
    const int64_t n = t->shape.dim[d], shown = shown_count(p, n);
    fputc('[', p->file);
    for (int64_t k = 0; k < shown; k++) {
        if (k) print_separator(p, d, indent);
        if (k == EDGE && shown < n) {
            fputs("...", p->file);
            print_separator(p, d, indent);
        }
        print_dim(p, d + 1, offset + shown_index(n, shown, k) * t->stride[d], indent);
    }
    fputc(']', p->file);
}

void ct_print(const ct_tensor *tensor, FILE *file) {
    if (!file) return;
    if (!tensor) {
        fputs("tensor(NULL)\n", file);
        return;
    }
    if (!cti_tensor_is_open(tensor, "print")) {
        fputs("tensor(ended)\n", file);
        return;
    }
    if (!cti_tensor_has_values(tensor, "print")) {
        fprintf(file, "tensor(no values, shape=%s, dtype=%s)\n", SHAPE(tensor->shape),
                cti_dtype_name(tensor->dtype));
        return;
    }
    printer p = {.tensor = tensor, .file = file, .digits = 4, .brief = tensor->numel > SHOWN_WHOLE};
    if (tensor->dtype != CT_I64 && tensor->dtype != CT_BOOL && tensor->numel)
        visit(&p, 0, 0, find_scale);
    if (tensor->numel) visit(&p, 0, 0, find_width);
    fputs("tensor(", file);
    if (tensor->numel) print_dim(&p, 0, 0, 7);
    else fputs("[]", file);
    fprintf(file, ", shape=%s, dtype=%s)\n", SHAPE(tensor->shape), cti_dtype_name(tensor->dtype));
}
