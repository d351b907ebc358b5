/* Functions that draw pictures; see plot.h. The corner of a plot is the origin, its margins lie at
 * negative coordinates. */
#include "plot.h"

#include <math.h>

static FILE *svg_begin(output *o, const char *path, int w, int h, const char *title,
                       const char *x_label, const char *y_label) {
    output_begin(o, path, false);
    FILE *file = o->file;
    int width = w + 110, height = h + 120;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-84 -58 %d %d\" ", width,
            height);
    fprintf(file, "width=\"%d\" height=\"%d\"\n", width, height);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"14\" "
                  "text-anchor=\"middle\" fill=\"#333\">\n");
    fprintf(file, "<rect x=\"-84\" y=\"-58\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"-24\" font-size=\"18\" font-weight=\"bold\">%s</text>\n",
            w / 2 - 29, title);
    fprintf(file, "<text x=\"%d\" y=\"%d\">%s</text>\n", w / 2, h + 48, x_label);
    fprintf(file, "<text transform=\"translate(-58 %d) rotate(-90)\">%s</text>\n", h / 2, y_label);
    return file;
}

static void svg_end(output *o) {
    fprintf(o->file, "</svg>\n");
    output_end(o);
}

/* An axis: a range of numbers with steps of 1, 2 or 5 times a power of ten, and its place in the
 * picture. */
typedef struct {
    double low, high, step, from, to;
} axis;

static axis make_axis(double low, double high, double from, double to) {
    if (!isfinite(high - low)) { /* no point at all */
        low = 0;
        high = 0;
    }
    if (!(high > low)) high = low + 1;
    double least = (high - low) / 8; /* eight steps or fewer */
    double ten = pow(10, floor(log10(least)));
    double step = ten;
    if (least / ten > 1) step = 2 * ten;
    if (least / ten > 2) step = 5 * ten;
    if (least / ten > 5) step = 10 * ten;
    return (axis){
        .low = step * floor(low / step + 1e-9),
        .high = step * ceil(high / step - 1e-9),
        .step = step,
        .from = from,
        .to = to,
    };
}

static double position(axis a, double value) {
    return a.from + (value - a.low) / (a.high - a.low) * (a.to - a.from);
}

static double x_of(const curve *c, int64_t i) { return c->x ? c->x[i] : (double)(i + 1); }

/* Returns the mean of y[i] and `half` points on each side. Near an end one side has fewer points.
 * There a mean of all these points would be the value of a point further inside, and a mean of
 * fewer points would follow the noise. So near an end the result lies on the line that fits the
 * outermost 2 half + 1 points best. */
static double running_mean(const curve *c, int64_t i, int64_t half) {
    int64_t middle = i;
    if (middle < half) middle = half;
    if (middle > c->n - 1 - half) middle = c->n - 1 - half;
    double sum = 0, moment = 0, squares = 0;
    for (int64_t j = -half; j <= half; j++) {
        sum += c->y[middle + j];
        moment += (double)j * c->y[middle + j];
        squares += (double)(j * j);
    }
    const double slope = squares > 0 ? moment / squares : 0;
    return sum / (double)(2 * half + 1) + slope * (double)(i - middle);
}

enum { MOST_POINTS = 2000 };

/* Draws a line through the running means. */
static void svg_line(FILE *file, const curve *c, axis x, axis y, int64_t half, const char *style) {
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-linejoin=\"round\" %s points=\"",
            c->colour, style);
    const int64_t points = c->n < MOST_POINTS ? c->n : MOST_POINTS;
    for (int64_t k = 0; k < points; k++) {
        const int64_t i = points > 1 ? k * (c->n - 1) / (points - 1) : 0; /* both ends too */
        fprintf(file, "%.1f,%.1f ", position(x, x_of(c, i)), position(y, running_mean(c, i, half)));
    }
    fprintf(file, "\"/>\n");
}

static void svg_axes(FILE *file, axis x, axis y) {
    for (double v = y.low; v < y.high + y.step / 2; v += y.step) {
        double at = position(y, v);
        fprintf(file, "<path d=\"M0 %.1fh660\" stroke=\"#e4e4e4\"/>", at);
        fprintf(file, "<text x=\"-9\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", at + 5, v);
    }
    for (double v = x.low; v < x.high + x.step / 2; v += x.step) {
        double at = position(x, v);
        fprintf(file, "<path d=\"M%.1f 330v6\" stroke=\"#333\"/>", at);
        fprintf(file, "<text x=\"%.1f\" y=\"354\">%.8g</text>\n", at, v);
    }
    fprintf(file, "<path d=\"M0 0v330h660\" fill=\"none\" stroke=\"#333\"/>\n");
}

static void svg_curve(FILE *file, const curve *c, axis x, axis y) {
    if (c->noisy) {
        svg_line(file, c, x, y, 0, "opacity=\"0.3\"");
        svg_line(file, c, x, y, c->n / 60, "stroke-width=\"2.2\"");
        return;
    }
    svg_line(file, c, x, y, 0, "stroke-width=\"2.2\"");
    for (int64_t i = 0; i < c->n; i++) {
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n",
                position(x, x_of(c, i)), position(y, c->y[i]), c->colour);
    }
}

void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label,
                 const curve *curves, int n) {
    double low = INFINITY, high = -INFINITY, last = 0;
    for (int k = 0; k < n; k++) {
        for (int64_t i = 0; i < curves[k].n; i++) {
            low = fmin(low, curves[k].y[i]);
            high = fmax(high, curves[k].y[i]);
            last = fmax(last, x_of(&curves[k], i));
        }
    }
    axis x = make_axis(0, last, 0, 660);
    axis y = make_axis(low, high, 330, 0);
    output o;
    FILE *file = svg_begin(&o, path, 660, 330, title, x_label, y_label);
    svg_axes(file, x, y);
    for (int k = 0; k < n; k++) {
        svg_curve(file, &curves[k], x, y);
        fprintf(file, "<path d=\"M500 %dh26\" stroke=\"%s\" stroke-width=\"3\"/>", 16 + 22 * k,
                curves[k].colour);
        fprintf(file, "<text x=\"534\" y=\"%d\" text-anchor=\"start\">%s</text>\n", 21 + 22 * k,
                curves[k].name);
    }
    svg_end(&o);
}

enum { CELL = 44 };

static void svg_cell(FILE *file, int row, int column, double value) {
    double v = fmin(fmax(value, 0), 1);
    if (v < 0.005) return; /* the number would be printed as 0.00 */
    const char *ink = v > 0.4 ? "#fff" : "#234";
    int x = CELL * column, y = CELL * row;
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" ", x, y, CELL - 1, CELL - 1);
    fprintf(file, "fill=\"rgb(%.0f,%.0f,%.0f)\"/>", 244 - 236 * v, 247 - 190 * v, 251 - 130 * v);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"%s\">%.2f</text>\n",
            x + CELL / 2, y + CELL / 2 + 4, ink, v);
}

void plot_map(const char *path, const map *m) {
    int width = CELL * m->n_columns, height = CELL * m->n_rows;
    output o;
    FILE *file = svg_begin(&o, path, width, height, m->title, m->x_label, m->y_label);
    for (int j = 0; j < m->n_columns; j++) {
        fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"16\">%s</text>\n", CELL * j + CELL / 2,
                height + 20, m->columns[j]);
    }
    for (int i = 0; i < m->n_rows; i++) {
        fprintf(file, "<text x=\"-10\" y=\"%d\" font-size=\"16\" text-anchor=\"end\">%s</text>\n",
                CELL * i + CELL / 2 + 5, m->rows[i]);
        for (int j = 0; j < m->n_columns; j++)
            svg_cell(file, i, j, m->values[i * m->n_columns + j]);
    }
    svg_end(&o);
}
