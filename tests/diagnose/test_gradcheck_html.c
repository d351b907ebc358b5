/* Gradcheck's page: diagnosis, cells and their numbers, the graph, escapes, form, faults. */
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cotangent/cotangent.h>

#include "tests/support/fault_sweep.h"
#include "tests/support/memory_faults.h"

static ct_context *context;
static char *page; /* the page of the last check */

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 3, .threads = 1}); }
static void teardown(void) {
    free(page);
    page = NULL;
    ct_context_free(context);
}

/* ---- an op whose gradient is wrong where the test says ---- */

typedef struct {
    const char *name;
    int64_t at;     /* element whose gradient is not 2 x g ... */
    double factor;  /* ... but this times it; NaN too */
    bool refuses;   /* backward fails */
    int fails_from; /* the first call at which the function fails; 0: never */
    int calls, negations;
} square;

static ct_tensor *forward(ct_call *c) { return ct_mul(c->in[0], c->in[0]); }
static bool backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const square *s = *(square *const *)c->attrs;
    if (s->refuses) return ct_fail(c->context, CT_ERR_GRAD, "no <gradient> & more");
    grad[0] = ct_scale(ct_mul(g[0], c->in[0]), 2);
    if (s->at < ct_numel(grad[0])) ct_data_f64(grad[0])[s->at] *= s->factor;
    return true;
}
static ct_op op = {.attrs_size = sizeof(square *), .forward = forward, .backward = backward};

static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    square *s = arg;
    if (s->fails_from && ++s->calls >= s->fails_from)
        return ct_fail(context, CT_ERR_ARGUMENT, "it <fails>");
    op.name = s->name ? s->name : "square";
    ct_tensor *y = ct_apply(&op, in, 1, &s);
    for (int i = 0; i < s->negations; i++) y = ct_neg(y);
    return n > 1 ? ct_add(y, in[1]) : y;
}

/* Sets `page`. */
static ct_gradcheck_result check(square *s, ct_tensor *const *in, int n, ct_gradcheck_opts opts) {
    size_t size;
    free(page);
    page = NULL;
    opts.html = open_memstream(&page, &size);
    ck_assert_ptr_nonnull(opts.html);
    const ct_gradcheck_result r = ct_gradcheck(apply, s, in, n, opts);
    fclose(opts.html);
    return r;
}

static int count_of(const char *part) {
    int count = 0;
    for (const char *at = page; (at = strstr(at, part)); at++) count++;
    return count;
}
static void has(const char *part) {
    ck_assert_msg(strstr(page, part) != NULL, "no\n%s\nin\n%s", part, page);
}
static void has_not(const char *part) {
    ck_assert_msg(!strstr(page, part), "%s\nin\n%s", part, page);
}

static ct_tensor *numbers(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

/* ---- what it says ---- */

START_TEST(a_wrong_element) {
    ct_tensor *x = numbers(CT_SHAPE(3, 5));
    square s = {.at = 7, .factor = 1.5};
    const ct_gradcheck_result r = check(&s, &x, 1, (ct_gradcheck_opts){0});
    ck_assert(r.ran && !r.ok && r.worst_count == 1 && r.index == 7);
    has("<title>gradcheck: wrong</title>");
    has(r.diagnosis);
    has("1 of 15 elements are wrong; the output is (3, 5) f64.");
    has("<h3>input 0 <span class=\"dim\">(3, 5) f64: 1 of 15 elements wrong</span></h3>");
    ck_assert_int_eq(count_of(" title=\""), 15);
    ck_assert_int_eq(count_of("<i class=\"r\" title=\""), 14);
    const ct_gradcheck_element *e = &r.worst[0];
    char want[512];
    const int level = 1 + (int)log10(e->error / (1e-8 + 1e-6 * fabs(e->numeric)));
    ck_assert_int_eq(level, 6);
    snprintf(want, sizeof want,
             "<i style=\"background: rgb(var(--hot) / 63%%)\" title=\"(1, 2): analytic %.9g, "
             "numeric %.9g, error %.2g, cotangent 1 at (1, 2)\">6</i>",
             e->analytic, e->numeric, e->error);
    has(want);
    snprintf(want, sizeof want,
             "<tr><td>0 (1, 2)</td><td>1 at (1, 2)</td><td>%.9g</td><td>%.9g</td><td>%.2g</td>"
             "<td>%.2g</td><td>%.2g</td></tr>",
             e->analytic, e->numeric, e->error, e->relative, e->noise);
    has(want);
    double at[15];
    ct_to_f64(x, at, 15);
    for (int i = 0; i < 15; i++) { /* each cell has its own element's numbers */
        snprintf(want, sizeof want, "title=\"(%d, %d): analytic ", i / 5, i % 5);
        const char *cell = strstr(page, want), *numeric = cell ? strstr(cell, "numeric ") : NULL;
        ck_assert(cell && numeric);
        const double analytic = strtod(cell + strlen(want), NULL), slope = 2 * at[i];
        ck_assert(fabs(analytic - slope * (i == 7 ? 1.5 : 1)) < 1e-6);
        ck_assert(fabs(strtod(numeric + 8, NULL) - slope) < 1e-6);
    }
}
END_TEST

START_TEST(a_right_gradient) {
    ct_tensor *in[2] = {numbers(CT_SHAPE(4)), numbers(CT_SCALAR)};
    square s = {.at = 99};
    const ct_gradcheck_result r = check(&s, in, 2, (ct_gradcheck_opts){0});
    ck_assert(r.ok);
    has("<title>gradcheck: ok</title>");
    has("<div class=\"diagnosis ok\"><p>Backward agrees with differences of the "
        "forward.</p></div>");
    has("input 0 <span class=\"dim\">(4) f64: 0 of 4 elements wrong");
    has("input 1 <span class=\"dim\">() f64: 0 of 1 elements wrong");
    ck_assert_int_eq(count_of("<i class=\"r\" title=\""), 5);
    ck_assert_int_eq(count_of(" title=\""), 5);
    has_not("<table>");
    has_not("Look for");
}
END_TEST

START_TEST(not_a_number) {
    ct_tensor *x = numbers(CT_SHAPE(2, 2));
    square s = {.at = 2, .factor = -NAN};
    check(&s, &x, 1, (ct_gradcheck_opts){0});
    has("<i class=\"x\" title=\"(1, 0): analytic nan, numeric ");
    has(", error nan, cotangent 1 at (0, 0)\">x</i>"); /* 0 times NaN in each row */
    has("<td>nan</td>");
    has_not("-nan");
}
END_TEST

/* The page has the sentence of the table in docs/gradcheck.md. */
START_TEST(what_to_look_for) {
    static char docs[1 << 16];
    FILE *file = fopen("docs/gradcheck.md", "r");
    if (!file) return; /* run from elsewhere */
    docs[fread(docs, 1, sizeof docs - 1, file)] = 0;
    fclose(file);
    ct_tensor *x = numbers(CT_SHAPE(1)), *y = numbers(CT_SHAPE(12));
    const struct {
        ct_tensor *x;
        square s;
        ct_mistake mistake;
    } of[] = {{x, {.factor = -1}, CT_MISTAKE_SIGN},
              {x, {.factor = 0}, CT_MISTAKE_ZERO},
              {x, {.factor = NAN}, CT_MISTAKE_NOT_FINITE},
              {y, {.at = 11, .factor = 0}, CT_MISTAKE_EDGES}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        square s = of[i].s;
        ck_assert_int_eq(check(&s, &of[i].x, 1, (ct_gradcheck_opts){0}).mistake, of[i].mistake);
        const char *look = strstr(page, "<b>Look for:</b> ");
        ck_assert_msg(look != NULL, "%s", ct_mistake_name(of[i].mistake));
        look += strlen("<b>Look for:</b> ");
        char row[512];
        snprintf(row, sizeof row, "| %.*s |", (int)strcspn(look, "<"), look);
        ck_assert_msg(strstr(docs, row) != NULL, "%s", row);
    }
}
END_TEST

/* ---- the map's form ---- */

START_TEST(large_inputs_are_aggregated) {
    ct_tensor *x = numbers(CT_SHAPE(70, 100));
    square s = {.at = 69 * 100 + 98, .factor = 2};
    check(&s, &x, 1, (ct_gradcheck_opts){.gradient_only = true});
    has("A cell is several elements and shows the worst of them.");
    ck_assert_int_eq(count_of(" title=\""), 64 * 64);
    ck_assert_int_eq(count_of("<i class=\"r\" title=\""), 64 * 64 - 1);
    has("grid-template-columns: repeat(64, max-content)\">\n");
    has("title=\"(69, 98): analytic ");
    ct_tensor *line = numbers(CT_SHAPE(65));
    s.at = 0;
    check(&s, &line, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(count_of(" title=\""), 64);
    has("A cell is several elements");
    ct_tensor *square64 = numbers(CT_SHAPE(2, 64));
    check(&s, &square64, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(count_of(" title=\""), 128);
    has_not("A cell is several elements");
}
END_TEST

START_TEST(planes_of_the_last_two_dims) {
    ct_tensor *x = numbers(CT_SHAPE(2, 2, 3, 2)), *many = numbers(CT_SHAPE(3, 3, 2, 2));
    square s = {.at = 7, .factor = 2};
    check(&s, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(count_of("<figure>"), 4);
    ck_assert_int_eq(count_of(" title=\""), 24);
    for (int i = 0; i < 4; i++) {
        char want[64];
        snprintf(want, sizeof want, "<figcaption>[%d, %d, :, :]</figcaption>", i / 2, i % 2);
        has(want);
    }
    const char *plane = strstr(page, "[0, 1, :, :]");
    ck_assert(strstr(plane, "rgb(var(--hot) / ") < strstr(plane, "[1, 0, :, :]"));
    s.at = 5 * 4 + 1;
    check(&s, &many, 1, (ct_gradcheck_opts){0});
    has("The plane with the worst element, of 9 planes.");
    ck_assert_int_eq(count_of("<figure>"), 1);
    has("<figcaption>[1, 2, :, :]</figcaption>");
    ck_assert_int_eq(count_of(" title=\""), 4);
    has("title=\"(1, 2, 0, 1): analytic ");
}
END_TEST

START_TEST(without_a_map) {
    ct_tensor *x = numbers(CT_SHAPE(6)), *none = numbers(CT_SHAPE(0, 3));
    square s = {.factor = 3};
    const ct_gradcheck_result r = check(&s, &x, 1, (ct_gradcheck_opts){.fast = true});
    ck_assert(!r.ok);
    has("The fast check compares random directions");
    has("<td>0 a direction</td><td>random</td>");
    ck_assert_int_eq(count_of(" title=\""), 0);
    check(&s, &none, 1, (ct_gradcheck_opts){0});
    has("input 0 <span class=\"dim\">(0, 3) f64: 0 of 0 elements wrong");
    ck_assert_int_eq(count_of(" title=\""), 0);
}
END_TEST

/* ---- the graph ---- */

START_TEST(the_recorded_graph) {
    ct_tensor *in[2] = {numbers(CT_SHAPE(2)), numbers(CT_SHAPE(2))};
    square s = {.at = 9};
    check(&s, in, 2, (ct_gradcheck_opts){0});
    has("</svg><pre><span class=\"leaf\">x1 = leaf (2) f64\n</span>"
        "<span>%1 = square(x1) (2) f64\n</span>"
        "<span class=\"leaf\">x2 = leaf (2) f64\n</span>"
        "<span>%2 = add(%1, x2) (2) f64\n</span></pre>");
    /* rows are 20 pixels high; the longest arc, of two rows, takes 3/4 of 32 */
    has("<svg width=\"34\" height=\"80\" xmlns=\"http://www.w3.org/2000/svg\">\n"
        "<circle cx=\"26\" cy=\"10\" r=\"3\"/>\n"
        "<circle cx=\"26\" cy=\"30\" r=\"3\"/>\n"
        "<path d=\"M26 10C2 10 2 30 26 30\"/>\n"
        "<circle cx=\"26\" cy=\"50\" r=\"3\"/>\n"
        "<circle cx=\"26\" cy=\"70\" r=\"3\"/>\n"
        "<path d=\"M26 30C-6 30 -6 70 26 70\"/>\n"
        "<path d=\"M26 50C2 50 2 70 26 70\"/>\n"
        "</svg>");
}
END_TEST

START_TEST(a_long_graph) {
    ct_tensor *x = numbers(CT_SHAPE(1));
    square s = {.at = 9, .negations = 500};
    ck_assert(check(&s, &x, 1, (ct_gradcheck_opts){.gradient_only = true}).ok);
    ck_assert_int_eq(count_of("<circle "), 400);
    ck_assert_int_eq(count_of("<path "), 399);
    has("%399 = neg(%398) (1) f64\n</span></pre>");
    has("<p class=\"dim\">102 lines more.</p>");
}
END_TEST

static int reports;
static void on_error(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message;
    reports++;
}

START_TEST(a_function_that_fails_at_last) {
    ct_context_free(context);
    reports = 0;
    context = ct_context_new((ct_context_opts){.seed = 3, .threads = 1, .on_error = on_error});
    ct_tensor *x = numbers(CT_SHAPE(1));
    square s = {.at = 9, .fails_from = 1000};
    ck_assert(check(&s, &x, 1, (ct_gradcheck_opts){0}).ok);
    s = (square){.at = 9, .fails_from = s.calls};
    const ct_gradcheck_result r = check(&s, &x, 1, (ct_gradcheck_opts){0});
    ck_assert(r.ran && r.ok && ct_error(context) == CT_OK);
    has("It could not be recorded again.");
    ck_assert_int_eq(reports, 0); /* on_error is not told, and stays */
    ct_fail(context, CT_ERR_IO, "later");
    ck_assert_int_eq(reports, 1);
}
END_TEST

/* ---- other ends ---- */

START_TEST(a_backward_that_fails) {
    ct_tensor *x = numbers(CT_SHAPE(2));
    square s = {.refuses = true};
    const ct_gradcheck_result r = check(&s, &x, 1, (ct_gradcheck_opts){0});
    ck_assert(r.ran && r.mistake == CT_MISTAKE_REFUSED && ct_error(context) == CT_OK);
    has("gradcheck: <b>wrong</b><span class=\"dim\">: refused</span>");
    has("no &lt;gradient&gt; &amp; more");
    has("%1 = square(x1) (2) f64");
    has_not("<table>");
    ck_assert_int_eq(count_of(" title=\""), 0);
}
END_TEST

START_TEST(a_function_that_fails) {
    ct_tensor *x = numbers(CT_SHAPE(2));
    square s = {.fails_from = 1};
    ck_assert(!check(&s, &x, 1, (ct_gradcheck_opts){0}).ran);
    ck_assert_str_eq(ct_error_message(context), "it <fails>");
    has("gradcheck: <b>failed</b>");
    has("<p>it &lt;fails&gt;</p>");
    has_not("The recorded graph");
    has("</html>\n");
}
END_TEST

START_TEST(the_result_is_the_same) {
    ct_tensor *x = numbers(CT_SHAPE(3));
    square s = {.at = 1, .factor = 2};
    ct_rng before = ct_rng_get(context);
    const ct_gradcheck_result with = check(&s, &x, 1, (ct_gradcheck_opts){0}),
                              without = ct_gradcheck(apply, &s, &x, 1, (ct_gradcheck_opts){0});
    ct_rng after = ct_rng_get(context);
    ck_assert(with.error == without.error && with.mistake == without.mistake);
    ck_assert_str_eq(with.diagnosis, without.diagnosis);
    ck_assert_str_eq(with.map, without.map);
    ck_assert(before.seed == after.seed && before.stream == after.stream);
    ck_assert_ptr_null(ct_grad(x));
}
END_TEST

/* ---- escapes and form ---- */

/* Is the page an XML document? python3 says. */
static void is_well_formed(void) {
    char path[] = "/tmp/cotangent-page-XXXXXX", command[256];
    const int file = mkstemp(path);
    ck_assert(file >= 0 && write(file, page, strlen(page)) == (ssize_t)strlen(page));
    close(file);
    snprintf(command, sizeof command,
             "python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' %s", path);
    const int status = system(command);
    unlink(path);
    ck_assert_msg(status == 0, "%s", page);
}

START_TEST(names_are_escaped) {
    ct_tensor *x = numbers(CT_SHAPE(2));
    /* behind the name: a control character, half a sequence, one too long for its value, a
     * surrogate, U+FFFE, and two characters that stay */
    square s = {
        .name = "a<b>&\"c'\x01\xc3 \xe0\x80\xaf \xed\xa0\x80 \xef\xbf\xbe \xc3\xa9\xf0\x9f\x8c\x8d",
        .factor = 2};
    check(&s, &x, 1, (ct_gradcheck_opts){0});
#define BAD "\xef\xbf\xbd"
    has("%1 = a&lt;b&gt;&amp;\\&quot;c'?" BAD " " BAD BAD BAD " " BAD BAD BAD " " BAD BAD BAD
        " \xc3\xa9\xf0\x9f\x8c\x8d(x1) (2) f64");
    is_well_formed();
}
END_TEST

/* Characters that do not fit into a piece of a line, and a name that looks like a use. */
START_TEST(odd_names) {
    ct_tensor *x = numbers(CT_SHAPE(2));
    char name[1001];
    for (int i = 0; i < 1000; i += 2) memcpy(name + i, "\xc3\xa9", 3);
    square s = {.name = name, .factor = 2};
    check(&s, &x, 1, (ct_gradcheck_opts){0});
    has(name);
    s.name = "f(x9) (%400) (x90000000)";
    check(&s, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(count_of("<path "), 1);
}
END_TEST

START_TEST(each_page_is_well_formed_and_alone) {
    ct_tensor *in[2] = {numbers(CT_SHAPE(2, 2, 3)), numbers(CT_SCALAR)};
    for (int i = 0; i < 5; i++) {
        char name[2000];
        memset(name, '&', sizeof name - 1); /* a long line */
        name[sizeof name - 1] = 0;
        square s = {.name = i ? NULL : name, .factor = i == 1 ? 1 : 3, .refuses = i == 2};
        s.fails_from = i == 3;
        check(&s, in, 2, (ct_gradcheck_opts){.fast = i == 4});
        ct_error_clear(context);
        ck_assert_int_eq(count_of("&amp;"), i == 0 ? (int)sizeof name - 1 : i == 2);
        ck_assert(!strncmp(page, "<!DOCTYPE html>\n<html lang=\"en\"", 31));
        has("<meta charset=\"utf-8\"/>");
        has("prefers-color-scheme: dark");
        for (const char *const *part =
                 (const char *const[]){"src=", "href=", "url(", "@import", NULL};
             *part; part++)
            has_not(*part);
        is_well_formed();
    }
}
END_TEST

/* ---- faults ---- */

START_TEST(a_file_that_cannot_be_written) {
    ct_tensor *x = numbers(CT_SHAPE(2));
    square s = {.factor = -1};
    for (int buffered = 0; buffered < 2; buffered++) {
        FILE *full = fopen("/dev/full", "w");
        if (!full) return;
        static char buffer[1 << 16]; /* the whole page fits in */
        setvbuf(full, buffer, buffered ? _IOFBF : _IONBF, sizeof buffer);
        const ct_gradcheck_result r =
            ct_gradcheck(apply, &s, &x, 1, (ct_gradcheck_opts){.html = full});
        ck_assert(r.ran && !r.ok && r.wrong == 1);
        ck_assert_int_eq(ct_error(context), CT_ERR_IO);
        ck_assert_str_eq(ct_error_message(context), "gradcheck: the page cannot be written to");
        ct_error_clear(context);
        fclose(full);
    }
}
END_TEST

static ct_tensor *checked;
static ct_gradcheck_result checked_result;

/* In debug mode each request is counted. */
static void begin_page(void *arg) {
    (void)arg;
    context = ct_context_new((ct_context_opts){
        .seed = 3, .threads = 1, .debug = true, .allocator = {allocate, release, NULL}});
    checked = numbers(CT_SHAPE(2));
}
static bool write_page(void *arg) {
    square s = {.factor = 2};
    (void)arg;
    checked_result = check(&s, &checked, 1, (ct_gradcheck_opts){.gradient_only = true});
    return ct_error(context) == CT_OK;
}
static void check_page(const fault_end *end, void *arg) {
    const ct_gradcheck_result r = checked_result;
    (void)arg;
    FAULT_CK(end, end->done == !end->struck);
    FAULT_CK(end, end->struck || (r.ran && !r.ok));
    has("</html>\n");
    has(r.ran ? "The recorded graph" : "<b>failed</b>");
    if (r.ran) has(end->struck ? "It could not be recorded again." : "<svg ");
    ct_error_clear(context);
    ct_context_free(context);
    context = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
}

START_TEST(memory_that_runs_out) {
    ct_context_free(context);
    for (int forever = 0; forever < 2; forever++)
        fault_sweep(&(fault_case){.name = "a page",
                                  .kind = FAULT_TAKE,
                                  .forever = forever,
                                  .context = &context,
                                  .begin = begin_page,
                                  .run = write_page,
                                  .end = check_page,
                                  .least = 20,
                                  .most = 2000});
    setup();
}
END_TEST

int main(void) {
    return run_cases(
        "gradcheck_html",
        CASES({.name = "page",
               .before = setup,
               .after = teardown,
               .tests =
                   TESTS(TEST(a_wrong_element), TEST(a_right_gradient), TEST(not_a_number),
                         TEST(what_to_look_for), TEST(large_inputs_are_aggregated),
                         TEST(planes_of_the_last_two_dims), TEST(without_a_map),
                         TEST(the_recorded_graph), TEST(a_long_graph),
                         TEST(a_function_that_fails_at_last), TEST(a_backward_that_fails),
                         TEST(a_function_that_fails), TEST(the_result_is_the_same), TEST(odd_names),
                         TEST(a_file_that_cannot_be_written), TEST(memory_that_runs_out))},
              {.name = "pages that Python's parser reads",
               .tags = "posix",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(names_are_escaped), TEST(each_page_is_well_formed_and_alone))}));
}
