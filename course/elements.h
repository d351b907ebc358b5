/* The wrong elements of an array, as a line of JSON, of which course/grade makes a picture:
 *     {"input": -1, "shape": [2, 3], "wrong": 1, "of": 6, "map": ["...", ".3."],
 *      "elements": [{"index": [1, 1], "value": 0.5, "right": 0.25}]}
 * course.c includes this file. */
#ifndef COURSE_ELEMENTS_H
#define COURSE_ELEMENTS_H

/* An array that was compared, and how much of a difference is allowed. */
typedef struct {
    int input; /* whose gradient it is; -1: a result */
    ct_shape shape;
    const double *got, *right;
    double tolerance;
} compared;

static double excess_of(const compared *c, int64_t i) {
    return excess(c->got[i], c->right[i], c->tolerance);
}

/* A map as ct_gradcheck draws it: a line for each row of the last dim, '.' for a right element, a
 * digit d for an error of up to 10^d times what is allowed, 'x' for one that is not finite. If the
 * array is larger than the map, a cell has the worst of several elements. */
static void write_map(FILE *file, const compared *c, int64_t n) {
    enum { SIDE = 64 };
    static char cells[SIDE][SIDE];
    const int64_t columns = c->shape.ndim ? c->shape.dim[c->shape.ndim - 1] : 1, rows = n / columns;
    const int64_t high = rows < SIDE ? rows : SIDE, wide = columns < SIDE ? columns : SIDE;
    memset(cells, '.', sizeof cells);
    for (int64_t i = 0; i < n; i++) {
        const double off = excess_of(c, i);
        if (off == 0) continue;
        const double power = fmin(8, fmax(0, floor(log10(off))));
        const char level = isinf(off) ? 'x' : (char)('1' + (int)power);
        char *cell = &cells[i / columns * high / rows][i % columns * wide / columns];
        if (*cell == '.' || level > *cell) *cell = level;
    }
    for (int64_t v = 0; v < high; v++)
        fprintf(file, "%s\"%.*s\"", v ? ", " : "", (int)wide, cells[v]);
}

static void write_number(FILE *file, double x) {
    if (isfinite(x)) fprintf(file, "%.10g", x);
    else fprintf(file, "\"%s\"", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

static void write_dims(FILE *file, ct_shape shape) {
    fputc('[', file);
    for (int d = 0; d < shape.ndim; d++)
        fprintf(file, "%s%lld", d ? ", " : "", (long long)shape.dim[d]);
    fputc(']', file);
}

static void write_element(FILE *file, bool first, ct_shape at, double got, double right) {
    fputs(first ? "{\"index\": " : ", {\"index\": ", file);
    write_dims(file, at);
    fputs(", \"value\": ", file), write_number(file, got);
    fputs(", \"right\": ", file), write_number(file, right);
    fputc('}', file);
}

/* Begins a line of JSON: whose elements are wrong, the shape, how many of how many. */
static FILE *begin_wrong(int input, ct_shape shape, int64_t wrong, int64_t n) {
    static size_t size;
    FILE *file = wrong_elements ? NULL : open_memstream(&wrong_elements, &size);
    if (!file) return NULL;
    fprintf(file, "{\"input\": %d, \"shape\": ", input);
    write_dims(file, shape);
    fprintf(file, ", \"wrong\": %lld, \"of\": %lld, \"map\": [", (long long)wrong, (long long)n);
    return file;
}

/* Writes what is wrong in an array: its map, and its first wrong elements. */
static void write_wrong(const compared *c, int64_t n) {
    enum { MOST = 64 };
    int64_t wrong = 0, written = 0;
    for (int64_t i = 0; i < n; i++) wrong += excess_of(c, i) > 0;
    FILE *file = begin_wrong(c->input, c->shape, wrong, n);
    if (!file) return;
    write_map(file, c, n);
    fputs("], \"elements\": [", file);
    for (int64_t i = 0; i < n && written < MOST; i++)
        if (excess_of(c, i) > 0)
            write_element(file, written++ == 0, place(c->shape, i), c->got[i], c->right[i]);
    fputs("]}", file), fclose(file);
}

/* The same of what ct_gradcheck has found: the map of the input with the worst element, and the
 * worst elements. */
static void write_wrong_gradient(const ct_gradcheck_result *r, ct_tensor *const *in) {
    if (!*r->map) return;
    const ct_shape shape = ct_shape_of(in[r->input]);
    FILE *file = begin_wrong(r->input, shape, r->wrong, r->checked);
    if (!file) return;
    for (const char *line = r->map; *line; line += strcspn(line, "\n") + 1)
        fprintf(file, "%s\"%.*s\"", line == r->map ? "" : ", ", (int)strcspn(line, "\n"), line);
    fputs("], \"elements\": [", file);
    bool first = true;
    for (int e = 0; e < r->worst_count; e++) {
        const ct_gradcheck_element *w = &r->worst[e];
        if (w->input != r->input || w->index < 0) continue;
        write_element(file, first, place(shape, w->index), w->analytic, w->numeric);
        first = false;
    }
    fputs("]}", file), fclose(file);
}

#endif
