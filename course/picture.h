/* Pictures of a trained model, in one file that a browser shows without any other: a curve of
 * losses, maps of attention, what the model writes. A test draws them if the environment variable
 * COURSE_PICTURE names a file (make grade PICTURE=model.html):
 *
 *     FILE *file = picture_begin("a language model");
 *     picture_losses(file, losses, steps, bits, "ln V");
 *     picture_attention(file, weights, tokens, letters, "layer 0, head 1");
 *     picture_end(file);
 *
 * If it is not set, or the file cannot be opened, `file` is NULL, and nothing is drawn. */
#ifndef COURSE_PICTURE_H
#define COURSE_PICTURE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline FILE *picture_begin(const char *title) {
    const char *path = getenv("COURSE_PICTURE");
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (file)
        fprintf(
            file,
            "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>%s</title>\n<style>body{font:14px "
            "sans-serif;margin:2em}svg{margin:0 1em 1em 0}svg text{font:11px "
            "monospace}pre{white-space:pre-wrap}</style>\n"
            "<h1>%s</h1>\n",
            title, title);
    return file;
}

/* A text as a browser shows it: < and & are its own. */
static inline void picture_text(FILE *file, const char *caption, const char *text) {
    if (!file) return;
    fprintf(file, "<p>%s</p>\n<pre>", caption);
    for (; *text; text++)
        if (*text == '<') fputs("&lt;", file);
        else if (*text == '&') fputs("&amp;", file);
        else fputc(*text, file);
    fputs("</pre>\n", file);
}

/* A curve of n losses, with a dashed line at `level`, which is named. */
static inline void picture_losses(FILE *file, const double *losses, int n, double level,
                                  const char *name) {
    enum { WIDTH = 640, HEIGHT = 240, LEFT = 40, FOOT = 24 };
    double top = level;
    if (!file) return;
    for (int i = 0; i < n; i++)
        if (isfinite(losses[i])) top = fmax(top, losses[i]);
    const double x = (WIDTH - LEFT) / fmax(1, n - 1), y = (HEIGHT - FOOT - 12) / fmax(top, 1e-9);
    fprintf(file, "<svg width=\"%d\" height=\"%d\">\n", WIDTH, HEIGHT);
    for (int i = 0; i <= (int)top; i++)
        fprintf(file,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"20\" y=\"%.1f\">%d</text>\n",
                LEFT, WIDTH, HEIGHT - FOOT - y * i, HEIGHT - FOOT - y * i,
                HEIGHT - FOOT - y * i + 4, i);
    fprintf(file,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#888\" "
            "stroke-dasharray=\"4\"/><text x=\"%d\" y=\"%.1f\">%s</text>\n",
            LEFT, WIDTH, HEIGHT - FOOT - y * level, HEIGHT - FOOT - y * level, WIDTH - 90,
            HEIGHT - FOOT - y * level + 14, name);
    fprintf(file, "<polyline fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\" points=\"");
    for (int i = 0; i < n; i++)
        if (isfinite(losses[i]))
            fprintf(file, "%.1f,%.1f ", LEFT + x * i, HEIGHT - FOOT - y * losses[i]);
    fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\">loss at steps 0 to %d</text>\n</svg>\n", LEFT,
            HEIGHT - 6, n - 1);
}

/* A map of weights (tokens, tokens): a row is a query, and the darker a cell, the more it sees of
 * that key. `letters` are the tokens. */
static inline void picture_attention(FILE *file, const double *weights, int64_t tokens,
                                     const char *letters, const char *caption) {
    enum { CELL = 13, EDGE = 20 };
    const int size = EDGE + CELL * (int)tokens;
    if (!file) return;
    fprintf(file, "<svg width=\"%d\" height=\"%d\">\n<text x=\"%d\" y=\"%d\">%s</text>\n", size,
            size + EDGE, EDGE, size + 14, caption);
    for (int i = 0; i < tokens; i++) {
        fprintf(file, "<text x=\"6\" y=\"%d\">%c</text><text x=\"%d\" y=\"14\">%c</text>\n",
                EDGE + CELL * i + 10, letters[i], EDGE + CELL * i + 3, letters[i]);
        for (int j = 0; j <= i; j++)
            fprintf(file,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#036\" "
                    "fill-opacity=\"%.3f\"/>\n",
                    EDGE + CELL * j, EDGE + CELL * i, CELL - 1, CELL - 1,
                    fmin(1, fmax(0.02, weights[i * tokens + j])));
    }
    fputs("</svg>\n", file);
}

static inline void picture_end(FILE *file) {
    if (file) fclose(file);
}

#endif
