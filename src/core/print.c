/* ct_print: in the manner of torch. Numbers share a width; of a long dim the first and last three
 * are shown. */
#include "context.h"

#include <math.h>

enum { EDGE = 3, LONG = 1000 }; /* up to LONG elements are printed whole */

typedef struct {
    const ct_tensor *tensor;
    FILE *file;
    int width, digits;
    bool scientific, brief;
} printer;

static double value_at(const ct_tensor *t, int64_t offset) {
    double value;
    t->context->isa->of[t->dtype]->cast[CT_F64](
        1, t->data + offset * (int64_t)cti_dtype_size(t->dtype), &value);
    return value;
}

static int text_of(const printer *p, double value, int64_t offset, char *text, size_t size) {
    switch (p->tensor->dtype) {
    case CT_BOOL:
        return snprintf(text, size, value != 0 ? "true" : "false");
    case CT_I64:
        return snprintf(text, size, "%lld",
                        (long long)((const int64_t *)(const void *)p->tensor->data)[offset]);
    case CT_F32:
    case CT_F64:
        if (isnan(value)) return snprintf(text, size, "nan"); /* its sign means nothing */
        return snprintf(text, size, isfinite(value) && p->scientific ? "%.*e" : "%.*f", p->digits,
                        value);
    }
    return 0;
}

/* Visits the elements that will be shown. */
static void visit(printer *p, int d, int64_t offset, void (*see)(printer *, int64_t offset)) {
    const ct_tensor *t = p->tensor;
    if (d == t->shape.ndim) {
        see(p, offset);
        return;
    }
    int64_t n = t->shape.dim[d];
    bool cut = p->brief && n > 2 * EDGE;
    for (int64_t i = 0; i < n; i++)
        if (!cut || i < EDGE || i >= n - EDGE) visit(p, d + 1, offset + i * t->stride[d], see);
}

static void see_scale(printer *p, int64_t offset) {
    double a = fabs(value_at(p->tensor, offset));
    if (isfinite(a) && a != 0 && (a >= 1e5 || a < 1e-4)) p->scientific = true;
}

static void see_width(printer *p, int64_t offset) {
    char text[64];
    int width = text_of(p, value_at(p->tensor, offset), offset, text, sizeof text);
    if (width > p->width) p->width = width;
}

static void print_element(printer *p, int64_t offset) {
    char text[64];
    text_of(p, value_at(p->tensor, offset), offset, text, sizeof text);
    fprintf(p->file, "%*s", p->width, text);
}

/* indent: how far in the row's first number stands */
static void print_dim(printer *p, int d, int64_t offset, int indent) {
    const ct_tensor *t = p->tensor;
    if (d == t->shape.ndim) {
        print_element(p, offset);
        return;
    }
    int64_t n = t->shape.dim[d];
    bool cut = p->brief && n > 2 * EDGE, row = d == t->shape.ndim - 1;
    fputc('[', p->file);
    for (int64_t i = 0; i < n; i++) {
        if (i && row) fputs(", ", p->file);
        else if (i) fprintf(p->file, ",\n%*s", indent + d + 1, "");
        if (cut && i == EDGE) {
            fputs("...", p->file);
            i = n - EDGE - 1;
            continue;
        }
        print_dim(p, d + 1, offset + i * t->stride[d], indent);
    }
    fputc(']', p->file);
}

void ct_print(const ct_tensor *tensor, FILE *file) {
    if (!file) return;
    if (!tensor) {
        fputs("tensor(NULL)\n", file);
        return;
    }
    if (!cti_tensor_has_values(tensor, "print")) {
        fprintf(file, "tensor(no values, shape=%s, dtype=%s)\n", SHAPE(tensor->shape),
                cti_dtype_name(tensor->dtype));
        return;
    }
    printer p = {.tensor = tensor, .file = file, .digits = 4, .brief = tensor->numel > LONG};
    if (cti_is_real(tensor->dtype) && tensor->numel) visit(&p, 0, 0, see_scale);
    if (tensor->numel) visit(&p, 0, 0, see_width);
    fputs("tensor(", file);
    if (tensor->numel) print_dim(&p, 0, 0, 7);
    else fputs("[]", file);
    fprintf(file, ", shape=%s, dtype=%s)\n", SHAPE(tensor->shape), cti_dtype_name(tensor->dtype));
}
