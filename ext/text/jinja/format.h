/* A value as text of a width: what %5.2f and {:>5.2f} have in common. */
#ifndef CTI_TEXT_JINJA_FORMAT_H
#define CTI_TEXT_JINJA_FORMAT_H

#include "value.h"

typedef struct {
    char fill[4]; /* a character in UTF-8, of fill_size bytes */
    size_t fill_size;
    int32_t mark;   /* of the fill, which the format wrote */
    char align;     /* < > ^ or =, which fills behind a number's sign; 0: the kind's own */
    char sign;      /* + - or space */
    char grouping;  /* , _ or 0 */
    char type;      /* d, f, s, ...; 0 if there is none */
    bool alternate; /* # */
    int64_t width, precision; /* -1: none */
} cti_jinja_spec;

/* Adds `size` bytes of a string that begin with `begin`, filled up to the width; `align` stands
 * for a spec's 0. */
void cti_jinja_add_aligned(cti_jinja_builder *out, const cti_jinja_string *string,
                           const cti_jinja_spec *spec, char align);
/* Adds an integer with type b, c, d, o, x or X, and a number with e, f, g, their capitals, %, or 0
 * for the text of a float with a spec's precision. */
void cti_jinja_add_integer(cti_jinja_builder *out, int64_t integer, int32_t mark,
                           const cti_jinja_spec *spec);
void cti_jinja_add_real(cti_jinja_builder *out, double x, int32_t mark, const cti_jinja_spec *spec);
/* The first `count` characters of a string. */
const cti_jinja_string *cti_jinja_cut(cti_jinja_run *run, const cti_jinja_string *string,
                                      int64_t count);
/* repr(value), with escapes for all that is not ASCII if `ascii`; escaped for HTML if `markup`. */
const cti_jinja_string *cti_jinja_repr_text(cti_jinja_run *run, cti_jinja_value value, bool ascii);
const cti_jinja_string *cti_jinja_escaped(cti_jinja_run *run, const cti_jinja_string *string);

/* format % arguments is cti_jinja_percent (value.h); this is format.format(*arg, **keywords). */
cti_jinja_value cti_jinja_str_format(cti_jinja_run *run, const cti_jinja_string *format,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords);

#endif
