/* An encoder-decoder that reads 4 to 12 digits and writes them reversed, or sorted (Vaswani et al.
 * 2017, arXiv:1706.03762).
 *
 *     source  7 2 9 4 . .     read by the encoder; a key mask hides the padding
 *     input   > 4 9 2 7 .     given to the decoder: the answer shifted by one, so that it sees only
 * what is already written
 *     target  4 9 2 7 < .     the correct output: the next digit, and the end */
#include "common.h"

#include <string.h>

enum { START = 10, END = 11, PAD = 12, TOKENS = 13 }; /* 0 ... 9 are the digits */
enum { SHORTEST = 4, LONGEST = 12 };                  /* digits of a sequence */
enum { S = LONGEST, T = LONGEST + 1 };                /* lengths of source and target */
enum { WIDTH = 64, HEADS = 4, LAYERS = 2 };
enum { BATCH = 64, TESTS = 1000, IGNORED = -100 /* a target that counts for no loss */ };

static const char *const token_names[TOKENS] = {"0", "1", "2", "3", "4",   "5", "6",
                                                "7", "8", "9", ">", "end", "."};

/* ---- data ---- */

typedef struct {
    int length;
    int64_t digits[LONGEST], answer[LONGEST];
} sequence;

typedef struct {
    ct_tensor *source; /* i64 (B, S) */
    ct_tensor *input;  /* i64 (B, T) */
    ct_tensor *target; /* i64 (B, T) */
    ct_tensor *real;   /* bool (B, S): where source is no padding */
} batch;

/* A tenth of all sequences, the same in every run, is never trained on: the test draws from it.
 * FNV-1a of length and digits. */
static bool held_out(const sequence *s) {
    const uint64_t prime = 1099511628211u;
    uint64_t hash = (14695981039346656037u ^ (uint64_t)s->length) * prime;
    for (int i = 0; i < s->length; i++) hash = (hash ^ (uint64_t)s->digits[i]) * prime;
    return (hash >> 32) % 10 == 0;
}

static sequence random_digits(ct_context *context) {
    sequence s = {0};
    s.length = SHORTEST + (int)ct_random_below(context, LONGEST - SHORTEST + 1);
    for (int i = 0; i < s.length; i++) s.digits[i] = ct_random_below(context, 10);
    check(context, EXIT_FAILED);
    return s;
}

static void set_answer(sequence *s, bool sort) {
    if (!sort) {
        for (int i = 0; i < s->length; i++) s->answer[i] = s->digits[s->length - 1 - i];
        return;
    }
    int n = 0;
    for (int digit = 0; digit < 10; digit++) {
        for (int i = 0; i < s->length; i++) {
            if (s->digits[i] == digit) {
                s->answer[n] = digit;
                n++;
            }
        }
    }
}

/* A sequence for the test, or one for training. */
static sequence draw(ct_context *context, bool sort, bool test) {
    sequence s = random_digits(context);
    while (held_out(&s) != test) s = random_digits(context);
    set_answer(&s, sort);
    return s;
}

static batch make_batch(ct_context *context, const sequence *sequences, int64_t n) {
    batch b = {
        .source = ct_full(context, CT_I64, CT_SHAPE(n, S), PAD),
        .input = ct_full(context, CT_I64, CT_SHAPE(n, T), PAD),
        .target = ct_full(context, CT_I64, CT_SHAPE(n, T), IGNORED),
        .real = ct_zeros(context, CT_BOOL, CT_SHAPE(n, S)),
    };
    check(context, EXIT_FAILED);
    int64_t *source = ct_data_i64(b.source);
    int64_t *input = ct_data_i64(b.input);
    int64_t *target = ct_data_i64(b.target);
    bool *real = ct_data_bool(b.real);
    for (int64_t i = 0; i < n; i++) {
        const sequence *s = &sequences[i];
        for (int j = 0; j < s->length; j++) {
            source[i * S + j] = s->digits[j];
            real[i * S + j] = true;
            input[i * T + j + 1] = s->answer[j];
            target[i * T + j] = s->answer[j];
        }
        input[i * T] = START;
        target[i * T + s->length] = END;
    }
    return b;
}

/* ---- the model ---- */

typedef struct {
    ct_module *root; /* all the others are in its tree: it counts, trains and saves them as one */
    ct_module *embedding, *positions, *encoder, *decoder, *head;
} model;

static model make_model(ct_context *context) {
    ct_embedding_opts embedding = {.num_embeddings = TOKENS, .embedding_dim = WIDTH};
    ct_positions_opts positions = {.max_length = T, .embed_dim = WIDTH};
    ct_transformer_opts transformer = {
        .layer = {.embed_dim = WIDTH, .num_heads = HEADS, .norm_first = true},
        .num_encoder_layers = LAYERS,
        .num_decoder_layers = LAYERS,
    };
    ct_linear_opts head = {.in_features = WIDTH, .out_features = TOKENS};

    model m = {.root = ct_module_new(context, "Seq2Seq")};
    m.embedding = ct_module_add_child(m.root, "embedding", ct_embedding_new(context, embedding));
    m.positions = ct_module_add_child(m.root, "positions", ct_positions_new(context, positions));
    ct_module_add_child(m.root, "transformer", ct_transformer_new(context, transformer));
    m.encoder = ct_module_child(m.root, "transformer.encoder");
    m.decoder = ct_module_child(m.root, "transformer.decoder");
    m.head = ct_module_add_child(m.root, "head", ct_linear_new(context, head));
    check(context, EXIT_FAILED);
    return m;
}

/* The encoder's output: i64 (B, S) -> (B, S, WIDTH). */
static ct_tensor *encode(const model *m, const batch *b) {
    ct_tensor *x = ct_forward(m->positions, ct_forward(m->embedding, b->source));
    return ct_encoder_forward(m->encoder, x, (ct_stack_call){.self.key_mask = b->real});
}

/* The logits of the next token after each token of the input: i64 (B, t) -> (B, t, TOKENS). memory
 * is the encoder's output; with caches the input continues the tokens in them. */
static ct_tensor *decode(const model *m, ct_tensor *input, ct_tensor *memory, ct_tensor *real,
                         ct_stack_call call) {
    int64_t first = call.caches ? ct_kv_cache_length(call.caches[0]) : 0;
    call.self.causal = true;
    call.cross.key_mask = real;
    ct_tensor *x = ct_positions_forward(m->positions, ct_forward(m->embedding, input), first);
    return ct_forward(m->head, ct_decoder_forward(m->decoder, x, memory, call));
}

/* ---- training ---- */

static bool is_right(const sequence *s, const int64_t *said) {
    for (int i = 0; i < s->length; i++)
        if (said[i] != s->answer[i]) return false;
    return said[s->length] == END;
}

/* One step of teacher forcing. Returns the loss; *exact is the share of sequences with every token
 * right. */
static double train_step(ct_context *context, const model *m, ct_optim *optim, bool sort,
                         double *exact) {
    sequence sequences[BATCH];
    for (int i = 0; i < BATCH; i++) sequences[i] = draw(context, sort, false);

    ct_scope scope = ct_scope_open(context);
    batch b = make_batch(context, sequences, BATCH);
    ct_tensor *logits = decode(m, b.input, encode(m, &b), b.real, (ct_stack_call){0});
    ct_tensor *rows = ct_reshape(logits, CT_SHAPE(BATCH * T, TOKENS));
    ct_tensor *targets = ct_reshape(b.target, CT_SHAPE(BATCH * T));
    ct_tensor *loss = ct_cross_entropy(rows, targets, (ct_cross_entropy_opts){0});
    ct_optim_zero_grad(optim);
    ct_backward(loss);
    ct_clip_grad_norm(m->root, 1);
    ct_optim_step(optim);

    int64_t said[BATCH * T];
    ct_to_i64(ct_argmax(logits, -1), said, BATCH * T); /* (B, T, TOKENS) -> (B, T) */
    double value = ct_item(loss);
    check(context, EXIT_FAILED); /* errors are sticky, so one check covers all of these calls */
    ct_scope_close(scope);

    int right = 0;
    for (int i = 0; i < BATCH; i++) right += is_right(&sequences[i], &said[i * T]);
    *exact = (double)right / BATCH;
    return value;
}

/* Trains until all steps are done or Ctrl-C; returns how many were. losses (steps). */
static int64_t train(ct_context *context, const model *m, bool sort, int64_t steps,
                     double *losses) {
    ct_adamw_opts adamw = {.beta2 = 0.98, .weight_decay = 0.01, .decay_matrices_only = true};
    ct_lr_cosine_opts rate = {.peak = 2e-3, .floor = 1e-4, .warmup = 50, .total = steps};
    ct_optim *optim = ct_adamw_new(m->root, adamw);
    progress bar = {.total = steps, .per_step = 1, .unit = "steps/s", .begun = now()};
    double mean = 0; /* of some batches' share of exact answers: steadier than one batch's */
    int64_t done = 0;
    while (done < steps && !interrupted()) {
        double exact = 0;
        ct_optim_set_lr(optim, ct_lr_cosine(rate, done));
        losses[done] = train_step(context, m, optim, sort, &exact);
        done++;
        mean += (exact - mean) / (double)(done < 20 ? done : 20);
        progress_show(&bar, done, "loss %.4f  exact %5.1f %%", losses[done - 1], 100 * mean);
    }
    progress_end();
    return done;
}

/* ---- testing ---- */

/* Greedy decoding of n answers: the likeliest token is written and becomes the next input. Keys and
 * values of earlier tokens are in the caches. said (n, T). */
static void answer(ct_context *context, const model *m, const sequence *tests, int n,
                   int64_t *said) {
    ct_scope scope = ct_scope_open_no_grad(context);
    batch b = make_batch(context, tests, n);
    ct_tensor *memory = encode(m, &b);
    ct_kv_cache *caches[LAYERS] = {NULL};
    ct_kv_caches_new(m->decoder, n, T, caches, LAYERS);
    ct_tensor *token = ct_full(context, CT_I64, CT_SHAPE(n, 1), START);
    ct_tensor *tokens[T];
    for (int t = 0; t < T; t++) {
        ct_scope inner = ct_scope_open(context);
        ct_tensor *logits = decode(m, token, memory, b.real, (ct_stack_call){.caches = caches});
        token = ct_scope_return(inner, ct_argmax(logits, -1)); /* (n, 1, TOKENS) -> (n, 1) */
        tokens[t] = token;
    }
    ct_to_i64(ct_cat(tokens, T, 1), said, (int64_t)n * T);
    check(context, EXIT_FAILED);
    for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
    ct_scope_close(scope);
}

/* Draws the decoder's attention to the source while it writes one answer. */
static void plot_attention(ct_context *context, const model *m, const sequence *s,
                           const char *path) {
    int written = s->length + 1; /* the end, too */
    double weights[T * S];
    ct_scope scope = ct_scope_open_no_grad(context);
    batch b = make_batch(context, s, 1);
    /* The weights of each layer, the mean of its heads: (1, T, S). */
    ct_tensor *layers[LAYERS] = {NULL};
    decode(m, b.input, encode(m, &b), b.real, (ct_stack_call){.cross_weights = layers});
    ct_tensor *cross = ct_select(layers[LAYERS - 1], 0, 0); /* of the last layer: (T, S) */
    cross = ct_narrow(cross, 0, 0, written);                /* without the padding */
    cross = ct_narrow(cross, 1, 0, s->length);
    ct_to_f64(cross, weights, written * s->length);
    check(context, EXIT_FAILED);
    ct_scope_close(scope);

    const char *columns[S], *rows[T];
    for (int j = 0; j < s->length; j++) columns[j] = token_names[s->digits[j]];
    for (int t = 0; t < s->length; t++) rows[t] = token_names[s->answer[t]];
    rows[s->length] = token_names[END];
    const map picture = {
        .title = "Where the decoder looks",
        .x_label = "digits read",
        .y_label = "digits written, from the top",
        .columns = columns,
        .rows = rows,
        .n_columns = s->length,
        .n_rows = written,
        .values = weights,
    };
    plot_map(path, &picture);
}

static void print_tokens(const int64_t *tokens, int n) {
    int width = printf("  ");
    for (int i = 0; i < n && tokens[i] != END; i++) width += printf("%s ", token_names[tokens[i]]);
    printf("%*s", 28 - width, "");
}

static void print_answer(const sequence *s, const int64_t *said) {
    bool right = is_right(s, said);
    const char *colour = right ? "\033[32m" : "\033[31m";
    print_tokens(s->digits, s->length);
    print_tokens(s->answer, s->length);
    print_tokens(said, T);
    printf("  %s%s%s\n", colours() ? colour : "", right ? "right" : "wrong",
           colours() ? "\033[0m" : "");
}

static bool same_digits(const sequence *a, const sequence *b) {
    return a->length == b->length && !memcmp(a->digits, b->digits, sizeof a->digits);
}

static bool is_among(const sequence *s, const sequence *others, int n) {
    for (int i = 0; i < n; i++)
        if (same_digits(s, &others[i])) return true;
    return false;
}

/* Tests the model on different sequences that training never saw; prints how many answers are
 * exactly right, and some of them. */
static void test(ct_context *context, const model *m, bool sort, const char *map_path) {
    static sequence tests[TESTS];
    static int64_t said[TESTS][T];
    for (int i = 0; i < TESTS; i++) {
        tests[i] = draw(context, sort, true);
        while (is_among(&tests[i], tests, i)) tests[i] = draw(context, sort, true);
    }
    ct_module_train(m->root, false);
    answer(context, m, tests, TESTS, said[0]);

    int right = 0;
    for (int i = 0; i < TESTS; i++) right += is_right(&tests[i], said[i]);
    printf("\n%d sequences never seen in training: %d exactly right (%.1f %%)\n\n", TESTS, right,
           100.0 * right / TESTS);
    printf("  %-28s%-28s%-28s\n", "input", "expected", "written");
    for (int i = 0; i < 8; i++) print_answer(&tests[i], said[i]);
    int shown = 0; /* up to four more that went wrong */
    for (int i = 8; i < TESTS && shown < 4; i++) {
        if (!is_right(&tests[i], said[i])) {
            print_answer(&tests[i], said[i]);
            shown++;
        }
    }

    int drawn = 0; /* a long one makes the better picture */
    while (drawn + 1 < TESTS && tests[drawn].length < 8) drawn++;
    plot_attention(context, m, &tests[drawn], map_path);
    printf("\nWhere the decoder looks while it writes one of them: %s\n", map_path);
}

/* ---- the program ---- */

enum { REVERSE = 1, SORT }; /* the places of their words */
static const char tasks[] = "reverse|sort";

int main(int argc, char **argv) {
    const char *out = ".", *save = NULL;
    long long task = REVERSE, seed = 1, steps = 600, threads = 0, matmul = CT_MATMUL_DEFAULT;
    const flag flags[] = {
        flag_choice("task", &task, tasks, "what to learn"),
        flag_integer("steps", &steps, 1, 1e6, "training steps"),
        flag_integer("seed", &seed, 0, 1e18, "of everything random"),
        flag_integer("threads", &threads, 0, 1024, "that compute; 0: every core"),
        flag_matmul(&matmul),
        flag_text("out", &out, "DIR", "where the pictures go, and the model"),
        flag_text("save", &save, "FILE", "where the model goes instead"),
    };
    const char *usage = "[flags]\n\n"
                        "Trains an encoder-decoder to reverse or sort 4 to 12 digits, "
                        "and tests it on sequences it never saw.\n";
    int others = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (others) fail(EXIT_USAGE, "takes flags only, not %s", argv[1]);
    const bool sort = task == SORT;
    const char *task_name = sort ? "sort" : "reverse";
    const char *loss_path = output_path(out, "seq2seq_loss.svg");
    const char *map_path = output_path(out, "seq2seq_attention.svg");
    const char *model_path =
        save ? output_path(NULL, save) : output_path(out, "seq2seq.safetensors");

    ct_context_opts opts = {
        .seed = (uint64_t)seed,
        .threads = (int)threads,
        .matmul = (ct_matmul_precision)matmul,
    };
    ct_context *context = ct_context_new(opts);
    check(context, EXIT_USAGE);
    model m = make_model(context);
    ct_tensor *losses = ct_zeros(context, CT_F64, CT_SHAPE(steps)); /* freed with the context */
    check(context, EXIT_FAILED);
    printf("Learning to %s digits: %lld parameters, %lld steps of %d sequences\n", task_name,
           (long long)ct_module_count(m.root), steps, BATCH);

    catch_interrupts();
    int64_t done = train(context, &m, sort, steps, ct_data_f64(losses));
    ct_save(m.root, model_path,
            (ct_save_opts){.metadata = (const char *[]){"task", task_name, NULL}});
    check(context, EXIT_FAILED);
    curve loss = {
        .name = "loss", .colour = "#1f6fb4", .y = ct_data_f64(losses), .n = done, .noisy = true};
    plot_curves(loss_path, "Training loss", "step", "cross-entropy", &loss, 1);
    printf("%s the model as %s, its loss as %s\n", done < steps ? "Interrupted: saved" : "Saved",
           model_path, loss_path);
    if (done == steps) test(context, &m, sort, map_path);
    ct_context_free(context);
    return 0;
}
