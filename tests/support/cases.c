/* ops.def as a table, the reader of its input specs, and the inputs themselves. */
#include "cases.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table: every line's call becomes a function, named by its line number ---- */

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define OP(name, call, torch, inputs)                                                              \
    static ct_tensor *PASTE(run_, __LINE__)(ct_context * context, ct_tensor *const *in) {          \
        ct_tensor *part[8] = {NULL};                                                               \
        (void)context, (void)in, (void)part;                                                       \
        return call;                                                                               \
    }
#include "ops/ops.def"
#undef OP

static const case_line lines[] = {
#define OP(name, call, torch, inputs) {#name, #call, #torch, inputs, PASTE(run_, __LINE__)},
#include "ops/ops.def"
#undef OP
    {NULL, NULL, NULL, NULL, NULL},
};

int case_count(void) { return (int)(sizeof lines / sizeof *lines) - 1; }
const case_line *case_at(int index) {
    return index >= 0 && index < case_count() ? &lines[index] : NULL;
}

/* ---- specs ---- */

int case_variants(const case_line *line) {
    int n = 1;
    for (const char *s = line->inputs; (s = strchr(s, '|')); s++) n++;
    return n;
}

static bool take(const char **s, char c) { return **s == c ? (*s)++, true : false; }

static bool take_number(const char **s, double *out) {
    char *end;
    *out = strtod(*s, &end);
    bool some = end != *s;
    *s = end;
    return some;
}

/* One spec: a letter, bounds in parentheses, sizes in brackets. */
static bool take_input(const char **s, int64_t scale, case_input *out) {
    *out = (case_input){.kind = **s};
    if (!**s || !strchr("RDCIBN", **s)) return false;
    (*s)++;
    if (out->kind == 'N') return true;
    if (take(s, '(')) {
        out->ranged = true;
        if (!take_number(s, &out->low) || !take(s, ',') || !take_number(s, &out->high) ||
            !take(s, ')') || out->low >= out->high)
            return false;
    }
    if ((out->kind == 'I' || out->kind == 'D') && !out->ranged) return false;
    if (!take(s, '[')) return false;
    while (!take(s, ']')) {
        double size;
        if (out->shape.ndim == CT_MAX_DIMS || (out->shape.ndim && !take(s, ',')) ||
            !isdigit((unsigned char)**s))
            return false;
        take_number(s, &size);
        out->shape.dim[out->shape.ndim++] =
            (int64_t)size > 1 ? (int64_t)size * scale : (int64_t)size;
    }
    return true;
}

int case_inputs(const case_line *line, int variant, int64_t scale, case_input inputs[CASE_INPUTS]) {
    const char *s = line->inputs;
    for (; variant > 0; variant--) {
        s = strchr(s, '|');
        if (!s) return -1;
        s++;
    }
    int n = 0;
    while (take(&s, ' ')) {}
    while (*s && *s != '|') {
        if (n == CASE_INPUTS || !take_input(&s, scale, &inputs[n++]) ||
            (*s && *s != ' ' && *s != '|'))
            return -1;
        while (take(&s, ' ')) {}
    }
    return n;
}

/* ---- values ---- */

/* SplitMix64 (Steele et al. 2014), so that inputs do not depend on the code under test. */

static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* in (0, 1) */
static double uniform(uint64_t *state) { return ((double)(draw(state) >> 11) + 0.5) * 0x1p-53; }

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

static int64_t count(ct_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++) n *= shape.dim[i];
    return n;
}

/* One value in each of n slots of width w, in its middle quarter: neighbours are at least 3 w / 4
 * apart. A value nearer than w / 4 to 0 is moved away from 0, by less than w / 4. Then they
 * are shuffled. */
static void distinct(uint64_t *state, double low, double high, int64_t n, double *out) {
    double w = (high - low) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double v = low + w * ((double)i + 0.5 + 0.25 * (uniform(state) - 0.5));
        out[i] = fabs(v) < w / 4 ? copysign(w / 4 * 1.001, v) : v;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(draw(state) % (uint64_t)(i + 1));
        double v = out[i];
        out[i] = out[j], out[j] = v;
    }
}

static void values(const case_input *input, uint64_t seed, bool single, int64_t n, double *out) {
    uint64_t state = seed;
    double span = input->high - input->low;
    /* after this many normal numbers the rest repeat earlier ones (a logarithm and a cosine take
     * long) */
    enum { DRAWN = 4096 };
    if (input->kind == 'D') distinct(&state, input->low, input->high, n, out);
    for (int64_t i = 0; i < n; i++) {
        switch (input->kind) {
        case 'D': break;
        case 'I': out[i] = input->low + (double)(draw(&state) % (uint64_t)span); break;
        case 'B': out[i] = (double)(draw(&state) >> 63); break;
        default:
            out[i] = input->ranged ? input->low + span * uniform(&state)
                     : i < DRAWN   ? normal(&state)
                                   : out[draw(&state) % DRAWN];
        }
        if (single) out[i] = (double)(float)out[i];
    }
}

/* ---- tensors ---- */

static void put(void *data, ct_dtype dtype, int64_t at, double value) {
    switch (dtype) {
    case CT_F32: ((float *)data)[at] = (float)value; break;
    case CT_F64: ((double *)data)[at] = value; break;
    case CT_I64: ((int64_t *)data)[at] = isnan(value) ? 1 << 20 : (int64_t)value; break;
    case CT_BOOL: ((bool *)data)[at] = value != 0; break;
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: break; /* no input of ops.def */
    }
}

static void *data_of(ct_tensor *t) {
    switch (ct_dtype_of(t)) {
    case CT_F32: return ct_data_f32(t);
    case CT_F64: return ct_data_f64(t);
    case CT_I64: return ct_data_i64(t);
    case CT_BOOL: return ct_data_bool(t);
    case CT_BF16: return ct_data_bf16(t);
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    return NULL;
}

/* Strides of a layout and the index of the first element; returns how many elements the storage
 * has. */
static int64_t place(ct_shape shape, case_layout layout, int64_t stride[CT_MAX_DIMS],
                     int64_t *first) {
    int64_t size = 1;
    *first = 0;
    for (int k = 0; k < shape.ndim; k++) {
        /* the k-th dim from the fastest */
        int i = layout == CASE_TRANSPOSED ? k : shape.ndim - 1 - k;
        int64_t gap = layout == CASE_STEPPED ? (k ? 1 : shape.dim[i]) : 0;
        stride[i] = layout == CASE_STEPPED && !k ? 2 * size : size;
        size *= shape.dim[i] + gap;
    }
    for (int i = 0; layout == CASE_REVERSED && i < shape.ndim; i++) {
        if (shape.dim[i]) *first += stride[i] * (shape.dim[i] - 1);
        stride[i] = -stride[i];
    }
    return size;
}

static ct_tensor *build(ct_context *context, ct_dtype dtype, ct_shape shape, case_layout layout,
                        const double *value) {
    if (!count(shape)) layout = CASE_DENSE; /* no elements */
    int64_t n = count(shape), first = 0, stride[CT_MAX_DIMS] = {0},
            size = place(shape, layout, stride, &first);
    ct_tensor *t = layout == CASE_DENSE ? ct_empty(context, dtype, shape)
                                        : ct_full(context, dtype, CT_SHAPE(size), NAN);
    char *data = t ? data_of(t) : NULL;
    if (!t || (size && !data)) return NULL;
    int64_t index[CT_MAX_DIMS] = {0}, at = first;
    for (int64_t i = 0; i < n && layout == CASE_DENSE; i++) put(data, dtype, i, value[i]);
    for (int64_t i = 0; i < n && layout != CASE_DENSE; i++) {
        put(data, dtype, at, value[i]);
        for (int d = shape.ndim - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < shape.dim[d]) break;
            at -= stride[d] * shape.dim[d];
            index[d] = 0;
        }
    }
    if (layout == CASE_DENSE) return t;
    size_t width = dtype == CT_F32 ? sizeof(float) : dtype == CT_BOOL ? sizeof(bool) : 8;
    return ct_wrap(context, dtype, shape, stride, data + (size_t)first * width);
}

bool case_build(ct_context *context, const case_input *inputs, int n, case_build_opts opts,
                ct_tensor **in) {
    for (int i = 0; i < n; i++) {
        in[i] = NULL;
        if (inputs[i].kind == 'N') continue;
        ct_dtype dtype = inputs[i].kind == 'I'   ? CT_I64
                         : inputs[i].kind == 'B' ? CT_BOOL
                                                 : opts.dtype;
        int64_t size = count(inputs[i].shape);
        double *value = malloc((size_t)(size ? size : 1) * sizeof *value);
        if (!value) return ct_fail(context, CT_ERR_MEMORY, "case_build: no memory");
        values(&inputs[i], opts.seed * 1000003 + (uint64_t)i * 7919 + 17, opts.single, size, value);
        in[i] = build(context, dtype, inputs[i].shape, opts.layout, value);
        free(value);
        bool wants = (inputs[i].kind == 'R' || inputs[i].kind == 'D') &&
                     (dtype == CT_F32 || dtype == CT_F64);
        if (!in[i] || (wants && !ct_set_requires_grad(in[i], true))) return false;
    }
    return ct_error(context) == CT_OK;
}

ct_tensor *case_cotangent(ct_tensor *y, uint64_t seed, bool single) {
    case_input input = {.kind = 'R', .shape = ct_shape_of(y)};
    int64_t size = count(input.shape);
    double *value = malloc((size_t)(size ? size : 1) * sizeof *value);
    if (!y || !value) return free(value), NULL;
    values(&input, seed * 1000003 + 101, single, size, value);
    ct_tensor *g = build(ct_context_of(y), ct_dtype_of(y), input.shape, CASE_DENSE, value);
    free(value);
    return g;
}

ct_tensor *case_split(ct_tensor *x, int64_t size, int dim, int n) {
    ct_tensor *part[16] = {0}, *back[16];
    if (n > 16 || !ct_split(x, size, dim, part, n)) return NULL;
    for (int i = 0; i < n; i++) back[i] = part[n - 1 - i];
    return ct_cat(back, n, dim);
}

ct_tensor *case_run(ct_context *context, const case_line *line, ct_tensor *const *in) {
    ct_seed(context, 7);
    return line->run(context, in);
}
