/* Draws what a GPT attends to: the weights of every head of every layer over one text, as one SVG. The model is one that char_lm saved,
 * or, with no argument, a small one that has learned nothing. A row is a character that reads (a query), a column one that is
 * read (a key). */
#include "gpt.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SIDE = 260, GAP = 68, LEFT = 96, TOP = 128 }; /* SIDE: of a map, at least; the rest are margins */

static const char *prompt = "static int64_t length(const row *r)", *out = "attention_map.svg";

/* The weights of each layer, (1, H, n, n), for the first n characters of the prompt that the model can read. */
static void attend(const gpt *m, int64_t n, ct_tensor **weights) {
    ct_tensor *ids = ct_zeros(m->context, CT_I64, CT_SHAPE(1, n));
    check(m->context, EXIT_FAILED);
    for (int64_t i = 0; i < n; i++) ct_data_i64(ids)[i] = m->id[(unsigned char)prompt[i]];
    gpt_features(m, ids, (ct_stack_call){.self.per_head = true, .self_weights = weights});
    check(m->context, EXIT_FAILED);
}

/* ---- the picture ---- */

static int64_t cell_of(int64_t n) { return n < SIDE / 13 ? SIDE / n : 13; } /* the side of one weight */

/* White for 0 to dark blue for 1. By the root, as most weights are small. */
static void colour(FILE *file, double weight) {
    double v = sqrt(fmin(fmax(weight, 0), 1));
    fprintf(file, "#%02x%02x%02x", (unsigned)(247 - 239 * v), (unsigned)(249 - 201 * v), (unsigned)(252 - 145 * v));
}

static void letter(FILE *file, const char *place, double x, double y, unsigned char byte) {
    static const char *const names[128] = {['\n'] = "↵", ['\t'] = "⇥", [' '] = "␣", ['&'] = "&amp;", ['<'] = "&lt;"};
    char plain[2] = {byte > 32 && byte < 127 ? (char)byte : '?'};
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>", x, y, place, byte < 128 && names[byte] ? names[byte] : plain);
}

static void head(FILE *file, const gpt *m, int layer, int64_t h, int64_t n, const float *weights) {
    int64_t cell = cell_of(n), side = n * cell, x = LEFT + h * (side + GAP), y = TOP + layer * (side + GAP);
    fprintf(file, "<g transform=\"translate(%lld %lld)\">\n", (long long)x, (long long)y);
    fprintf(file, "<rect width=\"%lld\" height=\"%lld\" fill=\"#f7f9fc\" stroke=\"#999\"/>\n", (long long)side, (long long)side);
    fprintf(file, "<text x=\"%lld\" y=\"-20\" font-size=\"14\" font-weight=\"bold\" text-anchor=\"middle\">layer %d, head %lld</text>\n",
            (long long)side / 2, layer + 1, (long long)h + 1);
    for (int64_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)prompt[i];
        double middle = ((double)i + 0.5) * (double)cell;
        fprintf(file, "<g class=\"c\">");
        letter(file, " text-anchor=\"end\"", -4, middle + 4, byte);
        letter(file, " text-anchor=\"middle\"", middle, (double)side + 13, byte);
        fprintf(file, "</g>\n");
        for (int64_t j = 0; j <= i; j++) {
            double w = (double)weights[i * n + j];
            if (w < 0.001) continue;
            fprintf(file, "<rect x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%lld\" fill=\"", (long long)(j * cell),
                    (long long)(i * cell), (long long)cell, (long long)cell);
            colour(file, w);
            fprintf(file, "\"/>\n");
        }
    }
    if (h == 0)
        fprintf(file,
                "<text transform=\"translate(-32 %lld) rotate(-90)\" text-anchor=\"middle\" font-size=\"13\">query: the character that "
                "reads</text>\n",
                (long long)side / 2);
    if (layer == m->layers - 1)
        fprintf(file, "<text x=\"%lld\" y=\"%lld\" text-anchor=\"middle\" font-size=\"13\">key: the character that is read</text>\n",
                (long long)side / 2, (long long)side + 36);
    fprintf(file, "</g>\n");
}

static void scale(FILE *file, int x, int y) {
    fprintf(file, "<g font-size=\"12\"><text x=\"%d\" y=\"%d\" text-anchor=\"end\">weight</text>\n", x - 12, y + 13);
    for (int i = 0; i <= 40; i++) {
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"6\" height=\"16\" fill=\"", x + 5 * i, y);
        colour(file, i * i / 1600.0);
        fprintf(file, "\"/>\n");
    }
    for (int i = 0; i < 4; i++) {
        double weight = (double[]){0, 0.1, 0.4, 1}[i];
        fprintf(file, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x + 3 + 200 * sqrt(weight), y + 30, weight);
    }
    fprintf(file, "</g>\n");
}

static void draw(const gpt *m, const char *path, const char *source, int64_t n, ct_tensor *const *weights) {
    int64_t step = n * cell_of(n) + GAP, w = LEFT + m->heads * step, h = TOP + m->layers * step;
    FILE *file = fopen(path, "w");
    if (!file) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    if (w < 520) w = 520;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %lld %lld\" width=\"%lld\" height=\"%lld\"\n", (long long)w,
            (long long)h, (long long)w, (long long)h);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" fill=\"#333\">\n<style>.c{font:12px monospace}</style>\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"36\" font-size=\"20\" font-weight=\"bold\">Attention weights %s</text>\n", LEFT, source);
    scale(file, LEFT + 54, 54);
    for (int i = 0; i < m->layers; i++) {
        const float *data = ct_data_f32(weights[i]);
        check(m->context, EXIT_FAILED);
        for (int64_t k = 0; k < m->heads; k++) head(file, m, i, k, n, data + k * n * n);
    }
    bool bad = fprintf(file, "</svg>\n") < 0 || fflush(file) || ferror(file);
    if (fclose(file) || bad) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
}

int main(int argc, char **argv) {
    const flag flags[] = {
        {"prompt", TEXT, &prompt, "TEXT", "what it reads; cut at its context", 0, 0},
        {"out", TEXT, &out, "FILE", "where the picture goes", 0, 0},
    };
    const char *usage = "[flags] [MODEL]\n\nDraws the attention weights of a model that char_lm saved, or of a random one.\n";
    int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (files > 1) fail(EXIT_USAGE, "one model at a time: %s", argv[2]);
    const char *path = output_path(NULL, out);
    gpt m = {.context = ct_context_new((ct_context_opts){.seed = 1}), .layers = 2, .heads = 4, .width = 64, .window = 64};
    check(m.context, EXIT_USAGE);
    if (files) gpt_load(&m, argv[1]);
    else {
        bool all[256];
        memset(all, true, sizeof all);
        gpt_alphabet(&m, all);
        gpt_make(&m);
    }
    gpt_prompt(&m, prompt);
    ct_module_train(m.root, false);
    int64_t n = 0;
    while (prompt[n] && n < m.window) n++;
    if (n == 0) fail(EXIT_USAGE, "--prompt is empty");
    ct_tensor *weights[MAX_LAYERS];
    ct_scope scope = ct_scope_open_no_grad(m.context);
    attend(&m, n, weights);
    draw(&m, path, files ? "of a trained model" : "of a model that has learned nothing", n, weights);
    ct_scope_close(scope);
    printf("%lld layers, %lld heads, %lld characters: %s\n", m.layers, m.heads, (long long)n, path);
    ct_context_free(m.context);
    return 0;
}
