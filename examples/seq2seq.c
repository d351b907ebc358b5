/* An encoder-decoder that reads 4 to 12 digits and writes them reversed, or sorted (Vaswani et al. 2017, arXiv:1706.03762).
 *
 *     source  7 2 9 4 . .     read by the encoder; a key mask hides the padding
 *     input   > 4 9 2 7 .     given to the decoder: the answer one place late, so it sees only what is written already
 *     target  4 9 2 7 < .     what it should say: the next digit, and the end */
#include "common.h"

#include <string.h>

enum { START = 10, END = 11, PAD = 12, TOKENS = 13 };              /* 0 ... 9 are the digits */
enum { SHORTEST = 4, LONGEST = 12, S = LONGEST, T = LONGEST + 1 }; /* lengths of source and target */
enum { WIDTH = 64, HEADS = 4, LAYERS = 2, BATCH = 64, TESTS = 1000 };
static const char *const token_names[TOKENS] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", ">", "end", "."};

typedef struct {
    int length;
    int64_t digits[LONGEST], answer[LONGEST];
} sequence;

typedef struct {
    ct_tensor *source, *input, *target, *real; /* i64 (B, S), (B, T), (B, T); bool (B, S): where source is no padding */
} batch;

/* A tenth of all sequences, the same in every run, is never trained on: the test draws from it. FNV-1a of length and digits. */
static bool held_out(const sequence *s) {
    uint64_t hash = (14695981039346656037u ^ (uint64_t)s->length) * 1099511628211u;
    for (int i = 0; i < s->length; i++) hash = (hash ^ (uint64_t)s->digits[i]) * 1099511628211u;
    return (hash >> 32) % 10 == 0;
}

static sequence draw(ct_context *context, bool sort, bool test) {
    sequence s = {0};
    do {
        s.length = SHORTEST + (int)ct_random_below(context, LONGEST - SHORTEST + 1);
        for (int i = 0; i < s.length; i++) s.digits[i] = ct_random_below(context, 10);
        check(context, EXIT_FAILED);
    } while (held_out(&s) != test);
    for (int i = 0; i < s.length && !sort; i++) s.answer[i] = s.digits[s.length - 1 - i];
    for (int digit = 0, n = 0; digit < 10 && sort; digit++)
        for (int i = 0; i < s.length; i++)
            if (s.digits[i] == digit) s.answer[n++] = digit;
    return s;
}

static batch make_batch(ct_context *context, const sequence *sequences, int64_t n) {
    batch b = {ct_full(context, CT_I64, CT_SHAPE(n, S), PAD), ct_full(context, CT_I64, CT_SHAPE(n, T), PAD),
               ct_full(context, CT_I64, CT_SHAPE(n, T), -100), ct_zeros(context, CT_BOOL, CT_SHAPE(n, S))}; /* -100: counts for no loss */
    int64_t *source = ct_data_i64(b.source), *input = ct_data_i64(b.input), *target = ct_data_i64(b.target);
    bool *real = ct_data_bool(b.real);
    check(context, EXIT_FAILED);
    for (int64_t i = 0; i < n; i++) {
        const sequence *s = sequences + i;
        input[i * T] = START;
        target[i * T + s->length] = END;
        for (int j = 0; j < s->length; j++) {
            source[i * S + j] = s->digits[j];
            input[i * T + j + 1] = target[i * T + j] = s->answer[j];
            real[i * S + j] = true;
        }
    }
    return b;
}

/* ---- the model ---- */

typedef struct {
    ct_module *root; /* all the others are in its tree: it counts, trains and saves them as one */
    ct_module *embedding, *positions, *encoder, *decoder, *head;
} model;

static model make_model(ct_context *context) {
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = HEADS, .norm_first = true};
    ct_embedding_opts embedding = {.num_embeddings = TOKENS, .embedding_dim = WIDTH};
    ct_positions_opts positions = {.max_length = T, .embed_dim = WIDTH};
    ct_linear_opts head = {.in_features = WIDTH, .out_features = TOKENS};
    model m = {.root = ct_module_new(context, "Seq2Seq")};
    m.embedding = ct_module_add_child(m.root, "embedding", ct_embedding_new(context, embedding));
    m.positions = ct_module_add_child(m.root, "positions", ct_positions_new(context, positions));
    ct_module_add_child(m.root, "transformer", ct_transformer_new(context, (ct_transformer_opts){layer, LAYERS, LAYERS}));
    m.encoder = ct_module_child(m.root, "transformer.encoder");
    m.decoder = ct_module_child(m.root, "transformer.decoder");
    m.head = ct_module_add_child(m.root, "head", ct_linear_new(context, head));
    check(context, EXIT_FAILED);
    return m;
}

/* What the encoder makes of the source: i64 (B, S) -> (B, S, WIDTH). */
static ct_tensor *encode(const model *m, ct_tensor *source, ct_tensor *real) {
    ct_tensor *x = ct_forward(m->positions, ct_forward(m->embedding, source));
    return ct_encoder_forward(m->encoder, x, (ct_stack_call){.self.key_mask = real});
}

/* The logits of what comes after each token of the input, which stands behind what the caches hold: i64 (B, t) -> (B, t, TOKENS). */
static ct_tensor *decode(const model *m, ct_tensor *input, ct_tensor *memory, ct_tensor *real, ct_stack_call call) {
    int64_t first = call.caches ? ct_kv_cache_length(call.caches[0]) : 0;
    ct_tensor *x = ct_positions_forward(m->positions, ct_forward(m->embedding, input), first);
    call.self.causal = true, call.cross.key_mask = real;
    return ct_forward(m->head, ct_decoder_forward(m->decoder, x, memory, call));
}

/* ---- training and testing ---- */

static bool is_right(const sequence *s, const int64_t *said) {
    return !memcmp(said, s->answer, (size_t)s->length * sizeof *said) && said[s->length] == END;
}

/* One step of teacher forcing. Returns the loss; *exact is the share of sequences with every token right. */
static double train_step(ct_context *context, const model *m, ct_optim *optim, bool sort, double *exact) {
    sequence sequences[BATCH];
    int64_t said[BATCH * T];
    for (int i = 0; i < BATCH; i++) sequences[i] = draw(context, sort, false);
    ct_scope scope = ct_scope_open(context);
    batch b = make_batch(context, sequences, BATCH);
    ct_tensor *logits = decode(m, b.input, encode(m, b.source, b.real), b.real, (ct_stack_call){0});
    ct_tensor *loss = ct_cross_entropy(ct_reshape(logits, CT_SHAPE(BATCH * T, TOKENS)), ct_reshape(b.target, CT_SHAPE(BATCH * T)),
                                       (ct_cross_entropy_opts){0});
    ct_optim_zero_grad(optim);
    ct_backward(loss);
    ct_clip_grad_norm(m->root, 1);
    ct_optim_step(optim);
    ct_to_i64(ct_argmax(logits, -1), said, BATCH * T); /* (B, T, TOKENS) -> (B, T) */
    double value = ct_item(loss), right = 0;
    check(context, EXIT_FAILED); /* errors are sticky: one look at the end sees if any of these calls failed */
    ct_scope_close(scope);
    for (int i = 0; i < BATCH; i++) right += is_right(sequences + i, said + i * T);
    *exact = right / BATCH;
    return value;
}

/* Trains until all steps are done or Ctrl-C; returns how many were. losses (steps). */
static int64_t train(ct_context *context, const model *m, bool sort, int64_t steps, double *losses) {
    ct_optim *optim = ct_adamw_new(m->root, (ct_adamw_opts){.beta2 = 0.98, .weight_decay = 0.01, .decay_matrices_only = true});
    ct_lr_cosine_opts rate = {.peak = 2e-3, .floor = 1e-4, .warmup = 50, .total = steps};
    progress bar = {steps, 1, "steps/s", now(), 0};
    int64_t done = 0;
    for (double mean = 0, exact; done < steps && !interrupted(); done++) {
        ct_optim_set_lr(optim, ct_lr_cosine(rate, done));
        losses[done] = train_step(context, m, optim, sort, &exact);
        mean += (exact - mean) / (double)(done < 20 ? done + 1 : 20); /* steadier than one batch's */
        progress_show(&bar, done + 1, "loss %.4f  exact %5.1f %%", losses[done], 100 * mean);
    }
    progress_end();
    return done;
}

/* Greedy decoding: the likeliest token is written and fed back; what was fed before is in the caches. said (n, T). */
static void answer(ct_context *context, const model *m, const sequence *tests, int n, int64_t *said) {
    ct_scope scope = ct_scope_open_no_grad(context);
    batch b = make_batch(context, tests, n);
    ct_tensor *memory = encode(m, b.source, b.real), *token = ct_full(context, CT_I64, CT_SHAPE(n, 1), START), *tokens[T];
    ct_kv_cache *caches[LAYERS] = {NULL};
    ct_kv_caches_new(m->decoder, n, T, caches, LAYERS);
    for (int t = 0; t < T; t++) {
        ct_scope inner = ct_scope_open(context);
        ct_tensor *logits = decode(m, token, memory, b.real, (ct_stack_call){.caches = caches});
        tokens[t] = token = ct_scope_return(inner, ct_argmax(logits, -1)); /* (n, 1, TOKENS) -> (n, 1) */
    }
    ct_to_i64(ct_cat(tokens, T, 1), said, (int64_t)n * T);
    check(context, EXIT_FAILED);
    for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
    ct_scope_close(scope);
}

/* Draws where the decoder looks while it writes the answer to one sequence. */
static void plot_attention(ct_context *context, const model *m, const sequence *s, const char *path) {
    double weights[T * S];
    const char *read[S], *written[T];
    ct_scope scope = ct_scope_open_no_grad(context);
    batch b = make_batch(context, s, 1);
    ct_tensor *layers[LAYERS] = {NULL}; /* mean of the heads; the last one is drawn */
    decode(m, b.input, encode(m, b.source, b.real), b.real, (ct_stack_call){.cross_weights = layers});
    ct_tensor *cross = ct_select(layers[LAYERS - 1], 0, 0);
    cross = ct_narrow(ct_narrow(cross, 0, 0, s->length + 1), 1, 0, s->length); /* (1, T, S) -> without the padding */
    ct_to_f64(cross, weights, (s->length + 1) * s->length);
    check(context, EXIT_FAILED);
    ct_scope_close(scope);
    for (int j = 0; j < s->length; j++) read[j] = token_names[s->digits[j]];
    for (int t = 0; t <= s->length; t++) written[t] = token_names[t < s->length ? s->answer[t] : END];
    plot_map(path, "Where the decoder looks", "digits read", "digits written, from the top", read, s->length, written, s->length + 1,
             weights);
}

static void print_tokens(const int64_t *tokens, int n) {
    int width = printf("  ");
    for (int i = 0; i < n && tokens[i] != END; i++) width += printf("%s ", token_names[tokens[i]]);
    printf("%*s", 28 - width, "");
}

/* Has sequences answered that training never saw, all different; prints how many are exactly right, and some of them. */
static void test(ct_context *context, const model *m, bool sort, const char *map_path) {
    static sequence tests[TESTS];
    static int64_t said[TESTS][T];
    int right = 0, long_one = 0; /* which makes the better picture */
    for (int i = 0; i < TESTS; i++) {
        tests[i] = draw(context, sort, true);
        for (int j = 0; j < i; j++)
            if (!memcmp(tests + i, tests + j, sizeof *tests)) tests[i] = draw(context, sort, true), j = -1;
    }
    ct_module_train(m->root, false);
    answer(context, m, tests, TESTS, said[0]);
    for (int i = 0; i < TESTS; i++) right += is_right(tests + i, said[i]);
    printf("\n%d sequences never seen in training: %d exactly right (%.1f %%)\n\n", TESTS, right, 100.0 * right / TESTS);
    printf("  %-28s%-28s%-28s\n", "input", "expected", "written");
    for (int i = 0, wrong = 0; i < TESTS; i++) { /* the first eight, and up to four that went wrong */
        bool good = is_right(tests + i, said[i]);
        if (i >= 8 && (good || wrong++ >= 4)) continue;
        print_tokens(tests[i].digits, tests[i].length);
        print_tokens(tests[i].answer, tests[i].length);
        print_tokens(said[i], T);
        printf("  %s%s%s\n", !colours() ? "" : good ? "\033[32m" : "\033[31m", good ? "right" : "wrong", colours() ? "\033[0m" : "");
    }
    while (long_one + 1 < TESTS && tests[long_one].length < 8) long_one++;
    plot_attention(context, m, tests + long_one, map_path);
    printf("\nWhere the decoder looks while it writes one of them: %s\n", map_path);
}

int main(int argc, char **argv) {
    const char *task = "reverse", *out = ".", *save = NULL;
    long long seed = 1, steps = 600, threads = 0;
    const flag flags[] = {
        {"task", TEXT, &task, "reverse|sort", "what to learn", 0, 0},
        {"steps", INTEGER, &steps, "N", "training steps", 1, 1e6},
        {"seed", INTEGER, &seed, "N", "of everything random", 0, 1e18},
        {"threads", INTEGER, &threads, "N", "that compute; 0: every core", 0, 1024},
        {"out", TEXT, &out, "DIR", "where the pictures go, and the model", 0, 0},
        {"save", TEXT, &save, "FILE", "where the model goes instead", 0, 0},
    };
    const char *usage = "[flags]\n\nTrains an encoder-decoder to reverse or sort 4 to 12 digits, and tests it on sequences it never saw.\n";
    if (read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage)) fail(EXIT_USAGE, "takes flags only, not %s", argv[1]);
    bool sort = !strcmp(task, "sort");
    if (!sort && strcmp(task, "reverse")) fail(EXIT_USAGE, "--task is reverse or sort, not '%s'", task);
    const char *loss_path = output_path(out, "seq2seq_loss.svg"), *map_path = output_path(out, "seq2seq_attention.svg");
    const char *model_path = save ? output_path(NULL, save) : output_path(out, "seq2seq.safetensors");
    ct_context *context = ct_context_new((ct_context_opts){.seed = (uint64_t)seed, .threads = (int)threads});
    check(context, EXIT_USAGE);
    model m = make_model(context);
    double *losses = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(steps))); /* freed with the context */
    printf("Learning to %s digits: %lld parameters, %lld steps of %d sequences\n", task, (long long)ct_module_count(m.root), steps, BATCH);
    catch_interrupts();
    int64_t done = train(context, &m, sort, steps, losses);
    ct_save(m.root, model_path, (const char *[]){"task", task, NULL});
    check(context, EXIT_FAILED);
    plot_curves(loss_path, "Training loss", "step", "cross-entropy", &(curve){"loss", "#1f6fb4", NULL, losses, done, true}, 1);
    printf("%s the model as %s, its loss as %s\n", done < steps ? "Interrupted: saved" : "Saved", model_path, loss_path);
    if (done == steps) test(context, &m, sort, map_path);
    ct_context_free(context);
    return 0;
}
