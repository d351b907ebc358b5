/* The recorded graph in a page: the lines of ct_graph_print, and an arc beside them from each
 * result to each of its uses. */
#include "html.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <cotangent/autograd.h>

#include "../../src/core/int_math.h"
#include "../../src/os/os.h"

enum {
    GRAPH_ROWS = 400, /* the most lines that are drawn */
    ROW_HEIGHT = 20,  /* in pixels, also in html.c's style */
    FARTHEST = 20     /* arcs over more rows do not reach further to the left */
};

typedef struct {
    FILE *file; /* NULL: the arcs are only measured */
    int rows;
    int gutter;                                   /* width of the arcs' column, in pixels */
    int op[GRAPH_ROWS + 1], leaf[GRAPH_ROWS + 1]; /* the rows of %id and of xid; -1: none so far */
} drawing;

/* Reads "%12" or "x3" and returns its entry in the drawing; NULL if the text is no such name, or
 * its number is too large. */
static int *graph_row(drawing *d, const char *text, const char **end) {
    if ((*text != '%' && *text != 'x') || !isdigit((unsigned char)text[1])) return NULL;
    char *after;
    const long id = strtol(text + 1, &after, 10);
    *end = after;
    return id > GRAPH_ROWS ? NULL : &(*text == '%' ? d->op : d->leaf)[id];
}

/* Draws or measures the arc from the row of a result down to the row of a use. A longer arc reaches
 * further to the left. */
static void arc_put(drawing *d, int from, int to) {
    const int reach = 16 + 8 * (int)cti_min(to - from, FARTHEST), x = d->gutter - 8,
              y = from * ROW_HEIGHT + ROW_HEIGHT / 2, below = y + (to - from) * ROW_HEIGHT;
    /* this Bezier curve comes three quarters of the way to its control points */
    if (!d->file) d->gutter = (int)cti_max(d->gutter, reach * 3 / 4 + 10);
    else
        fprintf(d->file, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x, y, x - reach, y, x - reach,
                below, x, below);
}

/* Draws the dot of a line and the arcs to it. The inputs stand behind the op's name: "%3 = add(%1,
 * x2) (2, 3) f32". */
static void line_arcs_put(drawing *d, const char *line, int row) {
    const char *at = line;
    int *own = graph_row(d, line, &at);
    if (d->file)
        fprintf(d->file, "<circle cx=\"%d\" cy=\"%d\" r=\"3\"/>\n", d->gutter - 8,
                row * ROW_HEIGHT + ROW_HEIGHT / 2);
    for (; *line == '%' && *at && *at != '\n'; at++) {
        if (*at != '(' && *at != ' ') continue;
        const char *end = at;
        const int *from = graph_row(d, at + 1, &end);
        if (from && *from >= 0 && strchr(",).", *end)) arc_put(d, *from, row);
    }
    if (own) *own = row;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static void line_put(FILE *file, const char *line) {
    char piece[256];
    const char *end = next_line(line);
    fprintf(file, "<span%s>", *line == 'x' ? " class=\"leaf\"" : "");
    while (line < end) {
        size_t length =
            (size_t)(end - line) < sizeof piece ? (size_t)(end - line) : sizeof piece - 1;
        /* does not cut a character of UTF-8 */
        while (length > 1 && line + length < end && ((unsigned char)line[length] & 0xc0) == 0x80)
            length--;
        memcpy(piece, line, length);
        piece[length] = 0;
        cti_html_put(file, piece);
        line += length;
    }
    fputs("</span>", file);
}

/* Draws or measures the arcs of all lines. */
static void arcs_put(drawing *d, const char *line) {
    for (int i = 0; i <= GRAPH_ROWS; i++) d->op[i] = d->leaf[i] = -1;
    for (int row = 0; row < d->rows; row++, line = next_line(line)) line_arcs_put(d, line, row);
}

static void graph_draw(FILE *file, const char *text) {
    int64_t lines = 0;
    for (const char *line = text; *line; line = next_line(line)) lines++;
    drawing d = {.rows = (int)cti_min(lines, GRAPH_ROWS), .gutter = 18};
    arcs_put(&d, text);
    d.file = file;
    fprintf(file,
            "<div class=\"scroll\"><div class=\"graph\"><svg width=\"%d\" height=\"%d\" "
            "xmlns=\"http://www.w3.org/2000/svg\">\n",
            d.gutter, d.rows * ROW_HEIGHT);
    arcs_put(&d, text);
    fputs("</svg><pre>", file);
    const char *line = text;
    for (int row = 0; row < d.rows; row++, line = next_line(line)) line_put(file, line);
    fputs("</pre></div></div>\n", file);
    if (lines > GRAPH_ROWS)
        fprintf(file, "<p class=\"dim\">%lld lines more.</p>\n", (long long)(lines - GRAPH_ROWS));
}

/* The text of the graph. The caller frees it by free(), because a stream in memory belongs to the C
 * library. NULL: the function failed, or memory was short. */
static char *graph_text(cti_check *check) {
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    const ct_tensor *y = cti_check_call(check);
    cti_os_text memory = {0};
    const bool open = y && cti_os_text_open(&memory);
    if (y && !open) ct_fail(check->context, CT_ERR_MEMORY, "gradcheck: no memory for the graph");
    bool written = open && ct_graph_print(y, memory.file);
    if (open && !cti_os_text_close(&memory)) written = false;
    cti_frame_close(check->context, &frame);
    if (written) return memory.text;
    free(memory.text);
    return NULL;
}

void cti_html_graph(cti_check *check) {
    const cti_held_errors held = cti_check_hold_errors(check);
    char *text = graph_text(check);
    cti_check_drop_errors(check, held);
    fputs("<h2>The recorded graph</h2>\n<p class=\"dim\">One line for each result, in the order of "
          "computation. An arc goes from a result down to its use; gradients go back up.</p>\n",
          check->opts.html);
    if (text) graph_draw(check->opts.html, text);
    else fputs("<p>It could not be recorded again.</p>\n", check->opts.html);
    free(text);
}
