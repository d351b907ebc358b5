/* A model's text as it is shown; see shown_text.h. */
#include "shown_text.h"
#include "common.h"
#include "system.h"

#include <string.h>

static const char dim[] = "\033[2m", undim[] = "\033[22m";

static void set_reasoning(shown_text *shown, bool on) {
    if (shown->dims && shown->is_reasoning != on) fputs(on ? dim : undim, stdout);
    shown->is_reasoning = on;
}

shown_text shown_begin(bool is_reasoning) {
    shown_text shown = {.escapes = system_is_terminal(), .dims = colours()};
    set_reasoning(&shown, is_reasoning);
    return shown;
}

static bool ends_in(const shown_text *shown, const char *mark) {
    const size_t n = strlen(mark);
    return !memcmp(shown->tail + SHOWN_TAIL - n, mark, n);
}

/* The bytes of the control character at the beginning of a text: of ASCII, or U+0080 to U+009F. 0:
 * there is none; line ends and tabs are none. */
static size_t control_size(const unsigned char *text, size_t size) {
    if (text[0] == '\n' || text[0] == '\t') return 0;
    if (text[0] < 0x20 || text[0] == 0x7f) return 1;
    return size > 1 && text[0] == 0xc2 && text[1] < 0xa0 ? 2 : 0;
}

void shown_write(shown_text *shown, const char *text, size_t size) {
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < size; i++) {
        const size_t control = shown->escapes ? control_size(at + i, size - i) : 0;
        if (control) {
            printf("\\x%02x", at[i + control - 1]);
            i += control - 1;
        } else {
            putchar(at[i]);
        }
        memmove(shown->tail, shown->tail + 1, SHOWN_TAIL - 1);
        shown->tail[SHOWN_TAIL - 1] = (char)at[i];
        if (ends_in(shown, "<think>")) set_reasoning(shown, true);
        if (ends_in(shown, "</think>")) set_reasoning(shown, false);
    }
    fflush(stdout);
}

void shown_end(shown_text *shown) {
    set_reasoning(shown, false);
    fflush(stdout);
}
