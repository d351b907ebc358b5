/* A vision transformer in a hundred lines: it learns to read digits of 8 x 8 pixels. There is no
 * data file: the program draws the digits, from a font of 3 x 5 dots, each with its own place,
 * size, slant, thickness and noise. Handwriting is harder. */
#include "../programs/common.h"

enum { SIDE = 8, PATCH = 2, ROWS = SIDE / PATCH, WIDTH = 32, BATCH = 64, TESTS = 1000, SHOWN = 8 };
/* A digit is five rows, each an octal digit whose three bits are its dots. */
static const char *const font[] = {"75557", "26227", "71747", "71717", "55711",
                                   "74717", "74757", "71111", "75757", "75717"};

static double uniform(ct_context *c, double low, double high) {
    return low + (high - low) * (double)ct_random_below(c, 1 << 20) / (1 << 20);
}

/* Draws an image of a random digit, with pixels from about 0 (paper) to 1 (ink), and returns the
 * digit. */
static int64_t draw(ct_context *c, float pixels[SIDE * SIDE]) {
    int64_t digit = ct_random_below(c, 10);
    double step = uniform(c, 1.2, 1.6),
           slant = uniform(c, -0.2, 0.2); /* step: the distance of two dots, in pixels */
    double left = uniform(c, 0.3, 6.7 - 2 * step), top = uniform(c, 0.3, 6.7 - 4 * step);
    double thickness = uniform(c, 0.5, 0.9), noise = uniform(c, 0, 0.2);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int x = i % SIDE, y = i / SIDE;
        double v = (y - top) / step, u = (x - left) / step + slant * (v - 2), ink = 0;
        for (int dot = 0; dot < 15; dot++) {
            const int column = dot % 3, row = dot / 3;
            double dx = u - column, dy = v - row, near = 1 - (dx * dx + dy * dy) / thickness;
            if (((font[digit][row] - '0') & 4 >> column) && near > ink) ink = near;
        }
        pixels[i] = (float)(ink + uniform(c, -noise, noise));
    }
    return digit;
}

typedef struct {
    ct_module *root, *patches, *positions, *encoder, *head;
} vit;

static vit vit_new(ct_context *c) {
    ct_linear_opts patches = {.in_features = PATCH * PATCH, .out_features = WIDTH};
    ct_positions_opts places = {.max_length = ROWS * ROWS, .embed_dim = WIDTH, .learned = true};
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = 4, .norm_first = true};
    ct_linear_opts head = {.in_features = WIDTH, .out_features = 10};
    vit m = {.root = ct_module_new(c, "ViT")};
    m.patches = ct_module_add_child(m.root, "patches", ct_linear_new(c, patches));
    m.positions = ct_module_add_child(m.root, "positions", ct_positions_new(c, places));
    m.encoder = ct_module_add_child(m.root, "encoder", ct_encoder_new(c, layer, 2, true));
    m.head = ct_module_add_child(m.root, "head", ct_linear_new(c, head));
    return m;
}

/* images (B, 64) -> logits (B, 10). A patch is a token: (B, 16, 4) -> (B, 16, WIDTH). */
static ct_tensor *vit_forward(const vit *m, ct_tensor *images) {
    ct_tensor *x = ct_view(images, CT_SHAPE(-1, ROWS, PATCH, ROWS, PATCH));
    x = ct_reshape(ct_permute(x, CT_DIMS(0, 1, 3, 2, 4)), CT_SHAPE(-1, ROWS * ROWS, PATCH * PATCH));
    x = ct_forward(m->positions, ct_forward(m->patches, x));
    x = ct_mean(ct_forward(m->encoder, x), CT_DIMS(1), false); /* the mean of the tokens */
    return ct_forward(m->head, x);
}

int main(int argc, char **argv) {
    const int64_t steps = read_number(argc, argv, 1200, 1, 1e9,
                                      "[STEPS]\n\n"
                                      "Trains a vision transformer to read digits it draws.");
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;
    vit m = vit_new(c);
    ct_optim *optim = ct_adamw_new(m.root, (ct_adamw_opts){.weight_decay = 0.01, .clip_norm = 1});
    ct_lr_cosine_opts rate = {.peak = 3e-3, .warmup = 50, .total = steps};
    static float pixels[TESTS][SIDE * SIDE];
    int64_t digits[TESTS], guesses[TESTS], right = 0;
    for (int64_t step = 0; step < steps; step++) { /* each step draws new digits */
        for (int i = 0; i < BATCH; i++) digits[i] = draw(c, pixels[i]);
        ct_scope scope = ct_scope_open(c);
        ct_tensor *logits = vit_forward(&m, ct_from_f32(c, CT_SHAPE(BATCH, 64), pixels[0]));
        ct_tensor *loss = ct_cross_entropy(logits, ct_from_i64(c, CT_SHAPE(BATCH), digits),
                                           (ct_cross_entropy_opts){0});
        ct_optim_zero_grad(optim);
        ct_backward(loss);
        ct_optim_set_lr(optim, ct_lr_cosine(rate, step));
        ct_optim_step(optim);
        if (step % 100 == 0) printf("step %4d  loss %.4f\n", (int)step, ct_item(loss));
        ct_scope_close(scope);
    }

    for (int i = 0; i < TESTS; i++)
        digits[i] = draw(c, pixels[i]); /* digits that were not trained on */
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *logits = vit_forward(&m, ct_from_f32(c, CT_SHAPE(TESTS, 64), pixels[0]));
    ct_to_i64(ct_argmax(logits, 1), guesses, TESTS);
    ct_scope_close(scope);
    for (int i = 0; i < TESTS; i++) right += guesses[i] == digits[i];
    printf("%d new digits: %.1f %% right\n\n", TESTS, 100.0 * (double)right / TESTS);
    for (int i = 0; i < SIDE * SHOWN * SIDE; i++) { /* prints the first digits side by side */
        int x = i % SIDE, digit = i / SIDE % SHOWN, y = i / SIDE / SHOWN;
        char shade = "  .+#@@@"[(int)(5 * (pixels[digit][y * SIDE + x] + 0.2))];
        printf("%c%s", shade, x < SIDE - 1 ? "" : digit < SHOWN - 1 ? "  " : "\n");
    }
    for (int i = 0; i < SHOWN; i++)
        printf("%4d%s", (int)guesses[i], i < SHOWN - 1 ? "      " : "\n");
    ct_context_free(c);
}
