/* Draws the attention weights of a GPT over one text, of every head of every layer, into one SVG.
 * The argument is a model that char_lm has saved; without an argument the program makes a small
 * model that is not trained. In each map a row is a query, and a column is a key. */
#include "../programs/gpt.h"

#include <math.h>

enum { SIDE = 260 };                     /* the smallest side of one map, in SVG units */
enum { GAP = 68, LEFT = 96, TOP = 128 }; /* margins */

static const char *prompt = "static int64_t length(const row *r)";
static const char *out = "attention_map.svg";

/* Computes the attention weights of each layer, (1, H, n, n): each of the first n characters of the
 * prompt attends to itself and to the characters before it. */
static void attend(const gpt *m, int64_t n, ct_tensor **weights) {
    ct_tensor *ids = ct_zeros(m->context, CT_I64, CT_SHAPE(1, n));
    check(m->context, EXIT_FAILED);
    for (int64_t i = 0; i < n; i++) ct_data_i64(ids)[i] = m->id[(unsigned char)prompt[i]];
    ct_stack_call call = {.self.per_head = true, .self_weights = weights};
    gpt_features(m, ids, call);
    check(m->context, EXIT_FAILED);
}

/* ---- the picture ---- */

/* Returns the side of the square that shows one weight. */
static int cell_of(int n) { return n < SIDE / 13 ? SIDE / n : 13; }

/* Prints the colour of a weight, from white for 0 to dark blue for 1. The colour depends on the
 * square root of the weight, because most weights are small. */
static void print_colour(FILE *file, double weight) {
    double v = sqrt(fmin(fmax(weight, 0), 1));
    unsigned red = (unsigned)(255 - 247 * v);
    unsigned green = (unsigned)(255 - 207 * v);
    unsigned blue = (unsigned)(255 - 148 * v);
    fprintf(file, "#%02x%02x%02x", red, green, blue);
}

static void print_letter(FILE *file, const char *anchor, double x, double y, unsigned char byte) {
    static const char *const names[128] = {
        ['\n'] = "↵", ['\t'] = "⇥", [' '] = "␣", ['&'] = "&amp;", ['<'] = "&lt;"};
    const char plain[2] = {byte > 32 && byte < 127 ? (char)byte : '?', '\0'};
    const char *letter = byte < 128 && names[byte] ? names[byte] : plain;
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>", x, y, anchor, letter);
}

/* Draws row i of a head's map: character i to the left as the query and below the map as a key, and
 * the weights of the row. */
static void print_row(FILE *file, int i, int n, const float *weights) {
    int cell = cell_of(n);
    double middle = (i + 0.5) * cell;
    unsigned char byte = (unsigned char)prompt[i];
    fprintf(file, "<g class=\"c\">");
    print_letter(file, " text-anchor=\"end\"", -4, middle + 4, byte);
    print_letter(file, " text-anchor=\"middle\"", middle, n * cell + 13, byte);
    fprintf(file, "</g>\n");
    for (int j = 0; j <= i; j++) {
        double weight = (double)weights[(int64_t)i * n + j];
        if (weight < 0.001) continue;
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"", j * cell,
                i * cell, cell, cell);
        print_colour(file, weight);
        fprintf(file, "\"/>\n");
    }
}

static void print_head(FILE *file, const gpt *m, int layer, int head, int n, const float *weights) {
    int side = n * cell_of(n);
    int x = LEFT + head * (side + GAP);
    int y = TOP + layer * (side + GAP);
    fprintf(file, "<g transform=\"translate(%d %d)\">\n", x, y);
    fprintf(file, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\" stroke=\"#999\"/>\n", side, side);
    fprintf(file, "<text x=\"%d\" y=\"-20\" font-size=\"14\" font-weight=\"bold\" ", side / 2);
    fprintf(file, "text-anchor=\"middle\">layer %d, head %d</text>\n", layer + 1, head + 1);
    for (int i = 0; i < n; i++) print_row(file, i, n, weights);
    if (head == 0) {
        fprintf(file, "<text transform=\"translate(-32 %d) rotate(-90)\" ", side / 2);
        fprintf(file, "text-anchor=\"middle\" font-size=\"13\">"
                      "query: the character that reads</text>\n");
    }
    if (layer == m->layers - 1) {
        fprintf(file, "<text x=\"%d\" y=\"%d\" ", side / 2, side + 36);
        fprintf(file, "text-anchor=\"middle\" font-size=\"13\">"
                      "key: the character that is read</text>\n");
    }
    fprintf(file, "</g>\n");
}

/* Draws the legend, which shows the colours of some weights. */
static void print_scale(FILE *file, int x, int y) {
    const double marks[] = {0, 0.1, 0.4, 1};
    fprintf(file, "<g font-size=\"12\"><text x=\"%d\" y=\"%d\" text-anchor=\"end\">weight</text>\n",
            x - 12, y + 13);
    for (int i = 0; i <= 40; i++) {
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"6\" height=\"16\" fill=\"", x + 5 * i, y);
        print_colour(file, i * i / 1600.0);
        fprintf(file, "\"/>\n");
    }
    for (int i = 0; i < 4; i++) {
        fprintf(file, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                x + 3 + 200 * sqrt(marks[i]), y + 30, marks[i]);
    }
    fprintf(file, "</g>\n");
}

static void draw(const gpt *m, const char *path, const char *source, int n,
                 ct_tensor *const *weights) {
    output o;
    output_begin(&o, path, false);
    FILE *file = o.file;
    int step = n * cell_of(n) + GAP;
    int w = LEFT + (int)m->heads * step;
    int h = TOP + (int)m->layers * step;
    if (w < 520) w = 520;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", w, h);
    fprintf(file, "width=\"%d\" height=\"%d\"\n", w, h);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" fill=\"#333\">\n");
    fprintf(file, "<style>.c{font:12px monospace}</style>\n");
    fprintf(file, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"36\" font-size=\"20\" font-weight=\"bold\">", LEFT);
    fprintf(file, "Attention weights %s</text>\n", source);
    print_scale(file, LEFT + 54, 54);
    for (int layer = 0; layer < m->layers; layer++) {
        const float *data = ct_data_f32(weights[layer]);
        check(m->context, EXIT_FAILED);
        for (int head = 0; head < m->heads; head++)
            print_head(file, m, layer, head, n, data + (int64_t)head * n * n);
    }
    fprintf(file, "</svg>\n");
    output_end(&o);
}

/* ---- the program ---- */

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("prompt", &prompt, "TEXT", "what it reads; cut at its context"),
        flag_text("out", &out, "FILE", "where the picture goes"),
    };
    const char *usage = "[flags] [MODEL]\n\n"
                        "Draws the attention weights of a model that char_lm saved, "
                        "or of a random one.\n";
    int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (files > 1) fail_usage("one model at a time, and not %s too", argv[2]);
    input_paths(files, argv + 1);
    const char *path = output_path(NULL, out);

    gpt m = {.layers = 2, .heads = 4, .width = 64, .window = 64};
    m.context = ct_context_new((ct_context_opts){.seed = 1});
    check(m.context, EXIT_USAGE);
    if (files) {
        gpt_load(&m, argv[1]);
    } else {
        bool all[256];
        for (int byte = 0; byte < 256; byte++) all[byte] = true;
        gpt_alphabet(&m, all);
        gpt_make(&m);
    }
    gpt_prompt(&m, prompt);
    ct_module_train(m.root, false);

    int n = 0;
    while (prompt[n] && n < m.window) n++;
    if (n == 0) fail(EXIT_USAGE, "--prompt is empty");
    const char *source = files ? "of a trained model" : "of a model that has learned nothing";
    ct_tensor *weights[MAX_LAYERS];
    ct_scope scope = ct_scope_open_no_grad(m.context);
    attend(&m, n, weights);
    draw(&m, path, source, n, weights);
    ct_scope_close(scope);
    printf("%lld layers, %lld heads, %d characters: %s\n", m.layers, m.heads, n, path);
    ct_context_free(m.context);
    return 0;
}
