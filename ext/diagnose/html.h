/* Helpers of the page that html.c writes. */
#ifndef CTI_DIAGNOSE_HTML_H
#define CTI_DIAGNOSE_HTML_H

#include "diagnose.h"

/* html_text.c: writes a text, escaped for an element or an attribute. Bytes that are not UTF-8, and
 * characters that XML does not allow, become U+FFFD. */
void cti_html_put(FILE *file, const char *text);
/* Prints one number by a format with %.9g, with a point in every locale. NaN is printed without its
 * sign, which has no meaning. */
void cti_html_number(FILE *file, const char *format, double value) CT_FORMAT(2, 0);

/* html_graph.c: calls the function once more and draws the graph that it records. Errors are
 * dropped, except an error of memory. */
void cti_html_graph(cti_check *check);

#endif
