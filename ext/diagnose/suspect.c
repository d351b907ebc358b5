/* The tools of the hypotheses. */
#include "suspect.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

bool cti_suspect_say(cti_suspect *s, ct_mistake mistake, const char *format, ...) {
    va_list args;
    s->mistake = mistake;
    va_start(args, format);
    vsnprintf(s->text, sizeof s->text, format, args);
    va_end(args);
    return true;
}

double cti_suspect_distance(const cti_suspect *s, const double *a, const double *b) {
    double sum = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) sum += (a[e] - b[e]) * (a[e] - b[e]);
    return sqrt(sum);
}

bool cti_suspect_fits(const cti_suspect *s) {
    return cti_suspect_distance(s, s->a, s->p) <= s->fit * s->error;
}

double cti_suspect_ratio(const cti_suspect *s, const double *of, const double *to) {
    double top = 0, bottom = 0;
    for (int64_t e = 0; e < s->rows * s->n; e++) top += of[e] * to[e], bottom += to[e] * to[e];
    return bottom > 0 ? top / bottom : 0;
}

const char *cti_suspect_times(double c, char text[32]) {
    int digits = 6;
    do snprintf(text, 32, "%.*g", digits++, c);
    while (digits <= 17 && !strcmp(text, c > 0 ? "1" : "-1") && c != 1 && c != -1);
    return text;
}

bool cti_suspect_wrong(const cti_suspect *s, int64_t r, int64_t i) {
    return s->c->state[i] == CTI_WRONG && !cti_check_right(s->check, s->c, r, i);
}
