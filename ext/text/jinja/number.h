/* Numbers as text, and text as numbers, by Python's rules and in no locale. */
#ifndef CTI_TEXT_JINJA_NUMBER_H
#define CTI_TEXT_JINJA_NUMBER_H

#include "value.h"

enum { CTI_JINJA_DIGITS = 512 }; /* bytes of a number's text, with its NUL, without a precision */

/* repr of a float: the fewest digits that are read as the same number. */
void cti_jinja_real_text(double x, char text[CTI_JINJA_DIGITS]);
/* printf's %.*e, f, g, E, F or G, with the point of no locale; text has `room` bytes. */
void cti_jinja_real_digits(double x, char type, bool alternate, int precision, char *text,
                           size_t room);
/* round(x, digits), which rounds the exact value and half to even. */
double cti_jinja_real_round(double x, int64_t digits);

/* float(text) and int(text, base). Return false after an error of the
 * run, and for what is a ValueError in Python; *beyond says
 * that the text is an integer beyond 64 bits. */
bool cti_jinja_real_read(cti_jinja_run *run, const cti_jinja_string *text, double *x);
bool cti_jinja_int_read(cti_jinja_run *run, const cti_jinja_string *text, int64_t base,
                        int64_t *integer, bool *beyond);

/* ---- the arguments of rows ---- */

/* An int or a bool; an error for any other value, "'str' object cannot be interpreted as an
 * integer". */
bool cti_jinja_int_of(cti_jinja_run *run, cti_jinja_value value, int64_t *integer);
/* Whether the value is an int or a bool, and which. */
bool cti_jinja_is_int(cti_jinja_value value, int64_t *integer);
/* Whether an argument was left out. */
static inline bool cti_jinja_is_absent(cti_jinja_value value) {
    return value.kind == CTI_JINJA_ABSENT;
}
static inline bool cti_jinja_is_none(cti_jinja_value value) {
    return value.kind == CTI_JINJA_ABSENT || value.kind == CTI_JINJA_NONE;
}

#endif
