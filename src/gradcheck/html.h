/* Parts of the page that html.c writes. */
#ifndef CTI_GRADCHECK_HTML_H
#define CTI_GRADCHECK_HTML_H

#include "check.h"

/* html_text.c: a text, escaped for an element or an attribute; what is not UTF-8 becomes U+FFFD */
void cti_html_put(FILE *file, const char *text);
/* printf of one number by %g or the like; NaN without a sign, which means nothing */
void cti_html_number(FILE *file, const char *format, double value) CT_FORMAT(2, 0);

/* html_graph.c: calls the function once more and draws what it records. Of errors only one of
 * memory is recorded. */
void cti_html_graph(cti_check *k);

#endif
