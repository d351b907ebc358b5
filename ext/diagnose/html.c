/* The report as one HTML page that needs no other file: the diagnosis, a heat map of each checked
 * input, the worst elements, and the graph that the function records. The page is well-formed XML
 * too. It can be read without its script, which only shows a cell's numbers below its map. */
#include "html.h"
#include "suspect.h"

#include <math.h>
#include <string.h>

#include "../../src/core/int_math.h"

enum {
    MAP_SIDE = 64,  /* the most cells along a dim */
    MAP_WIDE = 36,  /* cells are large in maps of up to this many columns */
    MAP_PLANES = 8, /* the most planes that are all drawn */
    LEVELS = 9      /* levels of wrong cells, by powers of ten; LEVELS + 1 is not finite */
};

/* A line of advice for each mistake: the column "look for" of the table in docs/gradcheck.md. */
static const char *const look_for[] = {
    [CT_MISTAKE_REFUSED] = "the error of backward itself, and the shapes that it returns",
    [CT_MISTAKE_NONDETERMINISTIC] = "memory that is not written, a random number of another stream",
    [CT_MISTAKE_WRITES] = "a result that is written into an input; a view where a copy is meant",
    [CT_MISTAKE_MEMORY] = "an element that is added to and was never set",
    [CT_MISTAKE_THREADS] = "a sum whose order depends on the number of threads; shared scratch",
    [CT_MISTAKE_LAYOUT] = "strides that are not used",
    [CT_MISTAKE_SHARED] =
        "a gradient that is kept in the op, or written into memory that is in use elsewhere",
    [CT_MISTAKE_DTYPE] = "a constant or a sum in f32; a branch for one of the two dtypes",
    [CT_MISTAKE_NOT_FINITE] = "0 times infinity; a log or a root at the end of its domain",
    [CT_MISTAKE_KINK] = "move the point",
    [CT_MISTAKE_PRECISION] = "f64; another eps; smaller values",
    [CT_MISTAKE_ROUNDING] = "a float in between",
    [CT_MISTAKE_ZERO] = "a detach, a path that is not summed, grad[i] never written",
    [CT_MISTAKE_COTANGENT] = "g is not multiplied in, or not once",
    [CT_MISTAKE_SIGN] = "mean or sum; 1/sqrt(d); one term of several",
    [CT_MISTAKE_FACTOR] = "mean or sum; 1/sqrt(d); one term of several",
    [CT_MISTAKE_SCALE] = "1/(1 - p) of a dropout forgotten, or applied twice",
    [CT_MISTAKE_RESIDUAL] = "x in x + f(x), whose gradient is the cotangent itself",
    [CT_MISTAKE_MASK] = "the mask of relu, dropout, a masked fill; inverted: c = 0",
    [CT_MISTAKE_ASSIGNED] = "= for += with repeated indices or broadcast rows",
    [CT_MISTAKE_SUM] =
        "the sum that undoes a broadcast; softmax treated like a sigmoid; the wrong dim",
    [CT_MISTAKE_EXCHANGED] = "grad[0] for grad[1]",
    [CT_MISTAKE_REVERSED] = "convolution for correlation",
    [CT_MISTAKE_TRANSPOSED] = "a view instead of a transpose; B instead of B^T, W instead of W^T; "
                              "an index that is off by one",
    [CT_MISTAKE_PERMUTED] = "a view instead of a transpose; B instead of B^T, W instead of W^T; "
                            "an index that is off by one",
    [CT_MISTAKE_CHAIN] = "the local derivative, or a factor of it",
    [CT_MISTAKE_FORWARD_VALUE] = "f'(y) instead of f'(x); x in a formula for y",
    [CT_MISTAKE_OPERAND] = "a for b",
    [CT_MISTAKE_EDGES] = "the tail of a loop",
    [CT_MISTAKE_ROWS] = "a row's scale, 1/sigma",
    [CT_MISTAKE_THRESHOLD] = "a branch of a piecewise function",
    [CT_MISTAKE_TERM] =
        "softmax's sum, also inside attention; layer norm's means; the target of a cross-entropy",
    [CT_MISTAKE_PRODUCT_RULE] = "one of two factors taken for a constant",
    [CT_MISTAKE_UNIFORM] = "mean(g) instead of g",
    [CT_MISTAKE_FORMULA] = "a constant in the formula: the mistake is the same at every index",
    [CT_MISTAKE_STATE] =
        "a static variable, or a value that attrs point to: keep it in call->saved",
    [CT_MISTAKE_WANTS] = "work that is done only in the branch of another gradient"};

/* The colours of levels are one red of several opacities over the page's background, so they suit a
 * dark page and a light one. */
static const char style[] =
    ":root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --dim: #5d6670;\n"
    "  --line: #d5dae0; --card: #f6f8fa; --hot: 200 30 10; --good: #1a7f37; --bad: #c62a1c;\n"
    "  --cell: #e9edf1; --leaf: #0a58a8 }\n"
    "@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --text: #e4e8ec;\n"
    "  --dim: #98a2ad; --line: #333b45; --card: #181e25; --hot: 235 70 45; --good: #4cc764;\n"
    "  --bad: #ff7b6b; --cell: #242c35; --leaf: #79b8ff } }\n"
    "body { margin: 2rem auto; max-width: 68rem; padding: 0 1.2rem; background: var(--page);\n"
    "  color: var(--text); font: 15px/1.5 system-ui, sans-serif }\n"
    "h1 { font-size: 1.5rem; margin: 0 0 .6rem } h1 b { color: var(--bad) }\n"
    "h1 b.ok { color: var(--good) } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem }\n"
    "h3 { font-size: 1rem; margin: 1rem 0 .4rem } h3 .dim { font-weight: 400 }\n"
    "p { margin: .4rem 0; max-width: 52rem; overflow-wrap: anywhere } .dim { color: var(--dim) }\n"
    ".diagnosis { border-left: 4px solid var(--bad); background: var(--card); padding: .7rem "
    "1rem;\n"
    "  margin: 0 0 .8rem }\n"
    ".diagnosis.ok { border-color: var(--good) } .diagnosis p { margin: 0 0 .3rem }\n"
    "pre, table, .map, .read, figcaption { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace "
    "}\n"
    ".scroll { overflow-x: auto } .planes { display: flex; flex-wrap: wrap; gap: 1.2rem }\n"
    "figure { margin: 0; max-width: 100% } figcaption { color: var(--dim); margin-bottom: .2rem }\n"
    ".map { display: grid; gap: 1px; width: max-content; color: var(--text); padding: 2px }\n"
    ".map i { font-style: normal; width: 10px; height: 10px; background: var(--cell) }\n"
    ".map.large i { width: 26px; height: 26px; line-height: 26px; text-align: center }\n"
    ".map i.r { color: var(--dim) } .map i.h { color: #fff }\n"
    ".map i.x { background: #7d3cc8; color: #fff } figure i:hover { outline: 2px solid var(--text) "
    "}\n"
    ".read { min-height: 1.5em; color: var(--dim) }\n"
    ".key { display: flex; flex-wrap: wrap; gap: .1rem 1rem; color: var(--dim); font-size: 13px;\n"
    "  align-items: center }\n"
    ".key .map { display: inline-grid; vertical-align: middle; margin-right: .3rem }\n"
    "table { border-collapse: collapse } th { color: var(--dim); font-weight: 600 }\n"
    "th, td { padding: .15rem .8rem; text-align: right; white-space: nowrap;\n"
    "  border-bottom: 1px solid var(--line) }\n"
    "th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }\n"
    ".graph { display: flex; background: var(--card); padding: .8rem; width: max-content }\n"
    ".graph svg { flex: none } .graph circle { fill: var(--dim) }\n"
    ".graph path { fill: none; stroke: var(--dim); stroke-width: 1.3 }\n"
    ".graph pre { margin: 0; line-height: 20px } .graph .leaf { color: var(--leaf) }\n";

static const char script[] =
    "for (const input of document.querySelectorAll('section'))\n"
    "  for (const event of ['mouseover', 'click'])\n"
    "    input.addEventListener(event, e => {\n"
    "      if (e.target.title) input.querySelector('.read').textContent = e.target.title;\n"
    "    });\n";

static void cotangent_put(const cti_check *check, int64_t output) {
    fputs(cti_diagnose_cotangent(output), check->opts.html);
    if (output >= 0) fputs(CTI_POSITION(check->shape, output), check->opts.html);
}

/* ---- the heat map ---- */

/* A plane of the input's last two dims, whose sizes are high and wide, drawn as rows by columns
 * cells. */
typedef struct {
    const cti_check *check;
    const cti_checked *c;
    int64_t high, wide, rows, columns;
    int64_t first; /* index of the plane's first element */
} plane;

/* The next two functions begin and end a cell: the first gives it its colour, the second a digit if
 * the cell is large. Level 0 is right, and a level above LEVELS is not finite. */
static void cell_put_open(FILE *file, int level) {
    if (level > LEVELS) fputs("<i class=\"x\"", file);
    else if (level == 0) fputs("<i class=\"r\"", file);
    else
        fprintf(file, "<i%s style=\"background: rgb(var(--hot) / %d%%)\"",
                level >= 7 ? " class=\"h\"" : "", 9 + 9 * level);
}
static void cell_put_close(FILE *file, int level, bool large) {
    if (large && level > LEVELS) fputs(">x</i>", file);
    else if (large && level) fprintf(file, ">%d</i>", level);
    else fputs(large ? ">\xc2\xb7</i>" : "></i>", file); /* a middle dot */
}

/* Writes the cell in one row and column. It shows the element with the largest error over its
 * tolerance, of the elements that it stands for. */
static void cell_put(const plane *p, int64_t row, int64_t column) {
    FILE *file = p->check->opts.html;
    const int64_t high = (row + 1) * p->high / p->rows, wide = (column + 1) * p->wide / p->columns;
    ct_gradcheck_element worst = {0};
    double most = -1;
    for (int64_t v = row * p->high / p->rows; v < high; v++)
        for (int64_t h = column * p->wide / p->columns; h < wide; h++) {
            ct_gradcheck_element element;
            const int64_t i = p->first + v * p->wide + h;
            const double here = cti_check_worst(p->check, p->c, i, &element);
            if (here > most) most = here, worst = element;
        }
    const int level = most <= 1 ? 0 : isinf(most) ? LEVELS + 1 : 1 + (int)fmin(8, log10(most));
    cell_put_open(file, level);
    fprintf(file, " title=\"%s", CTI_POSITION(p->c->shape, worst.index));
    cti_html_number(file, ": analytic %.9g", worst.analytic);
    cti_html_number(file, ", numeric %.9g", worst.numeric);
    cti_html_number(file, ", error %.2g, cotangent ", worst.error);
    cotangent_put(p->check, worst.output);
    fputc('"', file);
    cell_put_close(file, level, p->columns <= MAP_WIDE);
}

static void plane_put(const plane *p) {
    FILE *file = p->check->opts.html;
    const ct_shape shape = p->c->shape;
    fputs("<figure>", file);
    if (shape.ndim > 2) {
        fputs("<figcaption>[", file);
        for (int d = 0; d < shape.ndim - 2; d++)
            fprintf(file, "%lld, ", (long long)cti_suspect_along(shape, p->first, d));
        fputs(":, :]</figcaption>", file);
    }
    fprintf(file, "<div class=\"scroll\"><div class=\"map%s\" style=\"grid-template-columns: ",
            p->columns <= MAP_WIDE ? " large" : "");
    fprintf(file, "repeat(%lld, max-content)\">\n", (long long)p->columns);
    for (int64_t row = 0; row < p->rows; row++) {
        for (int64_t column = 0; column < p->columns; column++) cell_put(p, row, column);
        fputc('\n', file);
    }
    fputs("</div></div></figure>\n", file);
}

/* The number of the plane with the worst element of an input. */
static int64_t worst_plane(const cti_check *check, const cti_checked *c, int64_t size) {
    double most = -1;
    int64_t worst = 0;
    for (int64_t i = 0; i < c->n; i++) {
        ct_gradcheck_element element;
        const double here = cti_check_worst(check, c, i, &element);
        if (here > most) most = here, worst = i;
    }
    return worst / size;
}

static void planes_put(const cti_check *check, const cti_checked *c) {
    FILE *file = check->opts.html;
    const ct_shape shape = c->shape;
    plane p = {.check = check, .c = c, .high = 1, .wide = 1};
    if (shape.ndim > 0) p.wide = shape.dim[shape.ndim - 1];
    if (shape.ndim > 1) p.high = shape.dim[shape.ndim - 2];
    p.rows = cti_min(p.high, MAP_SIDE);
    p.columns = cti_min(p.wide, MAP_SIDE);
    const int64_t size = p.high * p.wide, planes = c->n / size;
    if (p.rows < p.high || p.columns < p.wide)
        fputs("<p class=\"dim\">A cell is several elements and shows the worst of them.</p>\n",
              file);
    if (planes > MAP_PLANES)
        fprintf(file, "<p class=\"dim\">The plane with the worst element, of %lld planes.</p>\n",
                (long long)planes);
    fputs("<div class=\"planes\">\n", file);
    if (planes > MAP_PLANES) {
        p.first = worst_plane(check, c, size) * size;
        plane_put(&p);
    } else {
        for (; p.first < c->n; p.first += size) plane_put(&p);
    }
    fputs("</div>\n<p class=\"read\">Point at a cell for its numbers.</p>\n", file);
}

static void map_put(const cti_check *check, const cti_checked *c) {
    FILE *file = check->opts.html;
    fprintf(file, "<section>\n<h3>input %d <span class=\"dim\">%s %s: ", c->input, SHAPE(c->shape),
            cti_dtype_name(c->dtype));
    fprintf(file, "%lld of %lld elements wrong</span></h3>\n", (long long)c->wrong,
            (long long)c->n);
    if (c->n) planes_put(check, c);
    fputs("</section>\n", file);
}

static void key_put(FILE *file) {
    const struct {
        int first, last;
        const char *meaning;
    } keys[] = {{0, 0, "right"},
                {1, LEVELS, "powers of ten above what is allowed"},
                {LEVELS + 1, LEVELS + 1, "not finite"}};
    fputs("<div class=\"key\">", file);
    for (int i = 0; i < 3; i++) {
        fprintf(file,
                "<span><span class=\"map large\" style=\"grid-template-columns: repeat(%d, "
                "max-content)\">",
                keys[i].last - keys[i].first + 1);
        for (int level = keys[i].first; level <= keys[i].last; level++) {
            cell_put_open(file, level);
            cell_put_close(file, level, true);
        }
        fprintf(file, "</span>%s</span>", keys[i].meaning);
    }
    fputs("</div>\n", file);
}

static void maps_put(const cti_check *check) {
    FILE *file = check->opts.html;
    fputs("<h2>Where</h2>\n", file);
    if (check->opts.fast) {
        fputs("<p class=\"dim\">The fast check compares random directions, so there is no map of "
              "elements.</p>\n",
              file);
        return;
    }
    fputs("<p class=\"dim\">|analytic - numeric| of each element, at the cotangent where it is "
          "largest.</p>\n",
          file);
    key_put(file);
    for (int q = 0; q < check->count; q++) map_put(check, &check->checked[q]);
}

/* ---- the worst elements ---- */

static void worst_put(const cti_check *check) {
    const ct_gradcheck_result *r = &check->result;
    FILE *file = check->opts.html;
    if (!r->worst_count) return;
    fputs("<h2>The worst</h2>\n<div class=\"scroll\"><table>\n<tr><th>input</th><th>cotangent</th>"
          "<th>analytic</th><th>numeric</th><th>error</th><th>relative</th><th>noise</th></tr>\n",
          file);
    for (int w = 0; w < r->worst_count; w++) {
        const ct_gradcheck_element *e = &r->worst[w];
        fprintf(file, "<tr><td>%d %s</td><td>", e->input,
                e->index < 0 ? "a direction"
                             : CTI_POSITION(ct_shape_of(check->in[e->input]), e->index));
        cotangent_put(check, e->output);
        cti_html_number(file, "</td><td>%.9g", e->analytic);
        cti_html_number(file, "</td><td>%.9g", e->numeric);
        cti_html_number(file, "</td><td>%.2g", e->error);
        cti_html_number(file, "</td><td>%.2g", e->relative);
        cti_html_number(file, "</td><td>%.2g", e->noise);
        fputs("</td></tr>\n", file);
    }
    fputs("</table></div>\n<p class=\"dim\">The analytic gradient is backward's, the numeric one a "
          "central difference of the forward. Noise is an estimate of the difference's own "
          "error.</p>\n",
          file);
}

/* ---- the page ---- */

static void head_put(const cti_check *check) {
    const ct_gradcheck_result *r = &check->result;
    FILE *file = check->opts.html;
    const char *verdict = r->ran ? cti_diagnose_verdict(r) : "failed";
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n",
          file);
    fprintf(file, "<title>gradcheck: %s</title>\n<style>\n%s</style>\n</head>\n<body>\n", verdict,
            style);
    fprintf(file, "<h1>gradcheck: <b%s>%s</b>", r->ok ? " class=\"ok\"" : "", verdict);
    if (r->mistake != CT_MISTAKE_NONE)
        fprintf(file, "<span class=\"dim\">: %s</span>", ct_mistake_name(r->mistake));
    fputs("</h1>\n", file);
}

static void diagnosis_put(const cti_check *check) {
    const ct_gradcheck_result *r = &check->result;
    FILE *file = check->opts.html;
    const char *look =
        (size_t)r->mistake < sizeof look_for / sizeof *look_for ? look_for[r->mistake] : NULL;
    fprintf(file, "<div class=\"diagnosis%s\"><p>", r->ok ? " ok" : "");
    if (!r->ran) cti_html_put(file, check->context->message);
    else if (r->ok) fputs("Backward agrees with differences of the forward.", file);
    else cti_html_put(file, r->diagnosis);
    fputs("</p>", file);
    if (look) {
        fputs("<p><b>Look for:</b> ", file);
        cti_html_put(file, look);
        fputs("</p>", file);
    }
    fputs("</div>\n", file);
    for (int q = 0; q < check->count; q++) {
        if (!*check->checked[q].diagnosis || !strcmp(check->checked[q].diagnosis, r->diagnosis))
            continue;
        fputs("<p>Also: ", file);
        cti_html_put(file, check->checked[q].diagnosis);
        fputs("</p>\n", file);
    }
}

static void counts_put(const cti_check *check) {
    const ct_gradcheck_result *r = &check->result;
    FILE *file = check->opts.html;
    fprintf(file, "<p>%lld of %lld %s wrong", (long long)(r->wrong - r->undecided),
            (long long)r->checked, check->opts.fast ? "directions are" : "elements are");
    if (r->undecided) fprintf(file, ", %lld undecided", (long long)r->undecided);
    fprintf(file, "; the output is %s %s. ", SHAPE(check->shape), cti_dtype_name(check->dtype));
    cti_html_number(file, "The largest error is %.2g", r->error);
    cti_html_number(file, ", the largest noise of a difference %.2g", r->noise);
    cti_html_number(file, "; the step is %.6g", check->opts.eps);
    cti_html_number(file, ", allowed is %.6g |g|", check->opts.atol);
    cti_html_number(file, " + %.6g |numeric|.</p>\n", check->opts.rtol);
}

void cti_diagnose_html(cti_check *check) {
    FILE *file = check->opts.html;
    if (!file) return;
    head_put(check);
    diagnosis_put(check);
    /* a backward may have failed before the comparison, which then has no result */
    if (check->result.ran && (check->result.checked || !*check->refused)) {
        counts_put(check);
        maps_put(check);
        worst_put(check);
    }
    if (check->result.ran) cti_html_graph(check);
    fprintf(file, "<script>\n%s</script>\n</body>\n</html>\n", script);
    fflush(file);
    if (ferror(file))
        ct_fail(check->context, CT_ERR_IO, "gradcheck: the page cannot be written to");
}
