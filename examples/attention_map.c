/* Draws the attention weights of a model over one text, of every head of every layer, into one SVG.
 *
 *     attention_map SmolLM2-135M "The cat sat on the mat because it was tired" map.svg --layer 12
 *
 * The model is a folder of Hugging Face's or a GGUF file, whose tokens are the labels, or a file
 * that char_lm has saved, which reads characters. Without a model the program makes a small one
 * that is not trained. In each map a row is a query, and a column is a key. */
#include "../programs/gpt.h"
#include "../programs/system.h"
#include "../programs/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 260 };                     /* the smallest side of one map, in SVG units */
enum { GAP = 60, LEFT = 96, TOP = 128 }; /* margins, to which the room of the labels is added */
enum { LETTER = 7 };                     /* the width of a character of a label */
enum { LABEL = 80, MOST_TOKENS = 512 };  /* bytes of a label; tokens of a text */

static const char *prompt = "static int64_t length(const row *r)";
static const char *out = "attention_map.svg";
static long long only_layer, only_head; /* from 1 on; 0: all */

/* What is drawn: the labels of n tokens, and the weights of each layer, (1, heads, n, n), which are
 * NULL for a layer without attention. */
typedef struct {
    const char *source, *unit; /* unit: what the labels are */
    int n, layers, heads;
    char label[MOST_TOKENS][LABEL];
    ct_tensor **weights;
    int room; /* for the longest label */
} reading;

/* ---- the labels ---- */

/* Sets a label to the first characters of a text, as XML has them. */
static void label_set(reading *r, const char *text, size_t size) {
    enum { MOST = 12 };
    char *to = r->label[r->n++];
    int characters = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const char *as = byte == '\n'               ? "↵"
                         : byte == '\t'             ? "⇥"
                         : byte == ' '              ? "␣"
                         : byte == '&'              ? "&amp;"
                         : byte == '<'              ? "&lt;"
                         : byte < 32 || byte == 127 ? "?"
                                                    : NULL;
        const bool begins = (byte & 0xc0) != 0x80;
        if ((begins && characters++ == MOST) || to - r->label[r->n - 1] > LABEL - 8) break;
        to += as ? sprintf(to, "%s", as) : sprintf(to, "%c", byte);
    }
    if (characters > MOST) characters = MOST;
    if (r->room < LETTER * characters) r->room = LETTER * characters;
}

/* ---- a model that char_lm has saved ---- */

/* Each of the first characters of the prompt attends to itself and to the characters before it. */
static void read_by_gpt(reading *r, gpt *m, const char *path) {
    if (path) {
        gpt_load(m, path);
    } else {
        bool all[256];
        for (int byte = 0; byte < 256; byte++) all[byte] = true;
        gpt_alphabet(m, all);
        gpt_make(m);
    }
    gpt_prompt(m, prompt);
    ct_module_train(m->root, false);
    static ct_tensor *weights[MAX_LAYERS];
    int64_t ids[MOST_TOKENS];
    while (prompt[r->n] && r->n < m->window && r->n < MOST_TOKENS) {
        const char letter = prompt[r->n];
        ids[r->n] = m->id[(unsigned char)letter];
        label_set(r, (unsigned char)letter < 128 ? &letter : "?", 1);
    }
    if (r->n == 0) fail(EXIT_USAGE, "the text is empty");
    r->source = path ? "of a trained model" : "of a model that has learned nothing";
    r->unit = "character";
    r->layers = (int)m->layers, r->heads = (int)m->heads, r->weights = weights;
    const ct_stack_call call = {.self.per_head = true, .self_weights = weights};
    gpt_features(m, ct_from_i64(m->context, CT_SHAPE(1, r->n), ids), call);
    check(m->context, EXIT_FAILED);
}

/* ---- a model of a folder, or of a GGUF file ---- */

static void read_by_lm(reading *r, ct_context *context, const char *path) {
    static int64_t ids[MOST_TOKENS], offsets[2 * MOST_TOKENS];
    ct_module *lm = ct_lm_open(context, path, (ct_lm_opts){0});
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    check(context, EXIT_USAGE);
    const int64_t n = ct_encode(tokenizer, prompt, strlen(prompt), (ct_encode_opts){0}, ids,
                                offsets, MOST_TOKENS);
    if (n < 1) fail(EXIT_USAGE, "the text has no token");
    if (n > MOST_TOKENS) warn("only the first %d of %lld tokens", MOST_TOKENS, (long long)n);
    for (int i = 0; i < n && i < MOST_TOKENS; i++) {
        const int64_t begin = offsets[2 * i], size = offsets[2 * i + 1] - begin;
        const char *spelled =
            ct_token(tokenizer, ids[i]); /* [CLS] and the like are not in the text */
        if (size > 0) label_set(r, prompt + begin, (size_t)size);
        else label_set(r, spelled ? spelled : "?", spelled ? strlen(spelled) : 1);
    }
    const ct_lm_info about = ct_lm_about(lm);
    static char source[64];
    snprintf(source, sizeof source, "of a %s model", about.family);
    r->source = source, r->unit = "token";
    r->layers = (int)about.layers, r->heads = (int)about.heads;
    r->weights = calloc((size_t)about.layers + 1, sizeof(ct_tensor *));
    if (!r->weights) fail(EXIT_FAILED, "out of memory");
    /* the program uses no logits, so a call for the last hidden state is enough */
    const ct_lm_call call = {.attentions = r->weights, .result = CT_LM_HIDDEN};
    ct_lm_forward(lm, ct_from_i64(context, CT_SHAPE(1, r->n), ids), call);
    check(context, EXIT_FAILED);
    ct_tokenizer_close(tokenizer);
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

/* Draws row i of a head's map: token i to the left as the query and below the map as a key, and the
 * weights of the row. Labels of several characters are turned below the map. */
static void print_row(FILE *file, const reading *r, int i, const float *weights) {
    const int cell = cell_of(r->n), bottom = r->n * cell;
    const double middle = (i + 0.5) * cell;
    const bool turned = r->room > LETTER;
    fprintf(file, "<g class=\"c\"><text x=\"-4\" y=\"%.0f\" text-anchor=\"end\">%s</text>",
            middle + 4, r->label[i]);
    if (turned)
        fprintf(file, "<text transform=\"translate(%.0f %d) rotate(-90)\" text-anchor=\"end\"",
                middle + 4, bottom + 4);
    else fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\"", middle, bottom + 13);
    fprintf(file, ">%s</text></g>\n", r->label[i]);
    for (int j = 0; j < r->n; j++) {
        const double weight = (double)weights[(int64_t)i * r->n + j];
        if (weight < 0.001) continue;
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"", j * cell,
                i * cell, cell, cell);
        print_colour(file, weight);
        fprintf(file, "\"/>\n");
    }
}

/* The distance between two maps. */
static int step_of(const reading *r) { return r->n * cell_of(r->n) + GAP + r->room; }

/* `column` and `row` count the maps that are drawn. */
static void print_head(FILE *file, const reading *r, int layer, int head, int column, int row,
                       bool last, const float *weights) {
    const int side = r->n * cell_of(r->n);
    const int x = LEFT + r->room + column * step_of(r), y = TOP + row * step_of(r);
    fprintf(file, "<g transform=\"translate(%d %d)\">\n", x, y);
    fprintf(file, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\" stroke=\"#999\"/>\n", side, side);
    fprintf(file, "<text x=\"%d\" y=\"-20\" font-size=\"14\" font-weight=\"bold\" ", side / 2);
    fprintf(file, "text-anchor=\"middle\">layer %d, head %d</text>\n", layer + 1, head + 1);
    for (int i = 0; i < r->n; i++) print_row(file, r, i, weights);
    if (column == 0)
        fprintf(file,
                "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\" "
                "font-size=\"13\">query: the %s that reads</text>\n",
                -25 - r->room, side / 2, r->unit);
    if (last)
        fprintf(file,
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\">"
                "key: the %s that is read</text>\n",
                side / 2, side + 29 + r->room, r->unit);
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

static void draw(const reading *r, ct_context *context, const char *path) {
    output o;
    output_begin(&o, path, false);
    FILE *file = o.file;
    /* a row for each layer, or the heads of one layer in about a square */
    int rows = only_layer ? 1 : r->layers, columns = only_head ? 1 : r->heads;
    const int maps = rows * columns;
    if (only_layer) columns = (int)ceil(sqrt(columns)), rows = (maps + columns - 1) / columns;
    int w = LEFT + r->room + columns * step_of(r), h = TOP + rows * step_of(r);
    if (w < 520) w = 520;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", w, h);
    fprintf(file, "width=\"%d\" height=\"%d\"\n", w, h);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" fill=\"#333\">\n");
    fprintf(file, "<style>.c{font:12px monospace}</style>\n");
    fprintf(file, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"36\" font-size=\"20\" font-weight=\"bold\">", LEFT);
    fprintf(file, "Attention weights %s</text>\n", r->source);
    print_scale(file, LEFT + 54, 54);
    for (int i = 0; i < maps; i++) {
        const int layer = only_layer ? (int)only_layer - 1 : i / columns;
        const int head = only_head ? (int)only_head - 1 : only_layer ? i : i % columns;
        if (!r->weights[layer]) continue;
        const float *data = ct_data_f32(r->weights[layer]);
        check(context, EXIT_FAILED);
        print_head(file, r, layer, head, i % columns, i / columns, i + columns >= maps,
                   data + (int64_t)head * r->n * r->n);
    }
    fprintf(file, "</svg>\n");
    output_end(&o);
}

/* ---- the program ---- */

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("prompt", &prompt, "TEXT", "what it reads; cut at its context"),
        flag_text("out", &out, "FILE", "where the picture goes"),
        flag_integer("layer", &only_layer, 0, MAX_LAYERS, "only this layer, from 1 on"),
        flag_integer("head", &only_head, 0, 1e6, "only this head of each layer, from 1 on"),
    };
    const char *usage = "[flags] [MODEL [TEXT [FILE.svg]]]\n\n"
                        "Draws the attention weights of a model: a folder with config.json, a GGUF "
                        "file,\na model that char_lm saved, or a random one.\n";
    const int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (files > 3) fail_usage("a model, a text and a picture, and not %s too", argv[4]);
    const char *model = files ? argv[1] : NULL;
    if (files > 1) prompt = argv[2];
    if (files > 2) out = argv[3];
    system_file found;
    const bool is_lm = model && (is_gguf(model) || !system_find_file(model, &found));
    input_paths(model && (!is_lm || is_gguf(model)), argv + 1);
    const char *path = output_path(NULL, out);

    gpt m = {.layers = 2, .heads = 4, .width = 64, .window = 64};
    ct_context *context = m.context = ct_context_new((ct_context_opts){.seed = 1});
    check(context, EXIT_USAGE);
    static reading r;
    ct_scope scope = ct_scope_open_no_grad(context);
    if (is_lm) read_by_lm(&r, context, model);
    else read_by_gpt(&r, &m, model);
    if (only_layer > r.layers || only_head > r.heads)
        fail_usage("the model has %d layers of %d heads", r.layers, r.heads);
    draw(&r, context, path);
    ct_scope_close(scope);
    printf("%d layers, %d heads, %d %ss: %s\n", r.layers, r.heads, r.n, r.unit, path);
    ct_context_free(context);
    return 0;
}
