/* Writes texts and numbers into a page. */
#include "html.h"

#include <math.h>
#include <string.h>

#include "../../src/io/json.h"

/* The length of the UTF-8 sequence at the text's beginning; 0 if there is no valid one, or if it is
 * a character that XML does not allow. */
static int sequence(const char *text) {
    const unsigned char *u = (const unsigned char *)text;
    if (*u < 0x80) return *u >= ' ' || *u == '\n' || *u == '\t' ? *u != 0x7f : 0;
    const int length = *u >= 0xf0 ? 4 : *u >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
    if (*u < 0xc2 || *u > 0xf4) return 0;
    uint32_t code = *u & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((u[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (u[i] & 0x3fu);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || surrogate || code > 0x10ffff || (code & 0xfffe) == 0xfffe
               ? 0
               : length;
}

void cti_html_put(FILE *file, const char *text) {
    while (*text) {
        const int length = sequence(text);
        if (length == 0) fputs("\xef\xbf\xbd", file); /* U+FFFD */
        else if (*text == '<') fputs("&lt;", file);
        else if (*text == '>') fputs("&gt;", file);
        else if (*text == '&') fputs("&amp;", file);
        else if (*text == '"') fputs("&quot;", file);
        else fwrite(text, 1, (size_t)length, file);
        text += length ? length : 1;
    }
}

void cti_html_number(FILE *file, const char *format, double value) {
    const char *number = strchr(format, '%'), *rest = number + strcspn(number, "g") + 1;
    char text[100] = "nan"; /* printf could write "-nan" */
    if (!isnan(value)) snprintf(text, sizeof text, "%.*g", number[2] - '0', value);
    cti_json_point(text);
    fprintf(file, "%.*s%s%s", (int)(number - format), format, text, rest);
}
