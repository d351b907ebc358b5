#include "seq2seq_model.h"
#include "../programs/common.h"

/* ---- data ---- */

typedef struct {
    ct_tensor *source; /* i64 (B, S) */
    ct_tensor *input;  /* i64 (B, T) */
    ct_tensor *target; /* i64 (B, T) */
    ct_tensor *real;   /* bool (B, S): false for padding in source */
} batch;

/* Returns whether a sequence is in the test set: a tenth of all sequences, the same in every run,
 * on which the model is never trained. The FNV-1a hash of length and digits decides. */
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

void set_answer(sequence *s, bool sort) {
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

sequence draw_sequence(ct_context *context, bool sort, bool test) {
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

model make_model(ct_context *context) {
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

/* Returns the encoder's output (B, S, WIDTH) for i64 (B, S). */
static ct_tensor *encode(const model *m, const batch *b) {
    ct_tensor *x = ct_forward(m->positions, ct_forward(m->embedding, b->source));
    return ct_encoder_forward(m->encoder, x, (ct_stack_call){.self.key_mask = b->real});
}

/* Returns the logits (B, t, TOKENS) of the next token after each token of the input, i64 (B, t).
 * memory is the encoder's output. With caches the input follows the tokens in the caches. */
static ct_tensor *decode(const model *m, ct_tensor *input, ct_tensor *memory, ct_tensor *real,
                         ct_stack_call call) {
    int64_t first = call.caches ? ct_kv_cache_length(call.caches[0]) : 0;
    call.self.causal = true;
    call.cross.key_mask = real;
    ct_tensor *x = ct_positions_forward(m->positions, ct_forward(m->embedding, input), first);
    return ct_forward(m->head, ct_decoder_forward(m->decoder, x, memory, call));
}

/* ---- training ---- */

bool is_right(const sequence *s, const int64_t *said) {
    for (int i = 0; i < s->length; i++)
        if (said[i] != s->answer[i]) return false;
    return said[s->length] == END;
}

ct_optim *make_optim(const model *m) {
    ct_adamw_opts adamw = {.beta2 = 0.98, .weight_decay = 0.01, .decay_matrices_only = true};
    return ct_adamw_new(m->root, adamw);
}

double learning_rate(int64_t step, int64_t steps) {
    ct_lr_cosine_opts rate = {.peak = 2e-3, .floor = 1e-4, .warmup = 50, .total = steps};
    return ct_lr_cosine(rate, step);
}

double train_step(ct_context *context, const model *m, ct_optim *optim, bool sort, double *exact) {
    sequence sequences[BATCH];
    for (int i = 0; i < BATCH; i++) sequences[i] = draw_sequence(context, sort, false);

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

/* ---- testing ---- */

void write_answers(ct_context *context, const model *m, const sequence *tests, int n,
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

void attention_of(ct_context *context, const model *m, const sequence *s, double *weights) {
    int written = s->length + 1; /* the digits and END */
    ct_scope scope = ct_scope_open_no_grad(context);
    batch b = make_batch(context, s, 1);
    /* The weights of each layer, the mean of its heads: (1, T, S). */
    ct_tensor *layers[LAYERS] = {NULL};
    decode(m, b.input, encode(m, &b), b.real, (ct_stack_call){.cross_weights = layers});
    ct_tensor *cross = ct_select(layers[LAYERS - 1], 0, 0); /* the last layer: (T, S) */
    cross = ct_narrow(cross, 0, 0, written);                /* without the padding */
    cross = ct_narrow(cross, 1, 0, s->length);
    ct_to_f64(cross, weights, written * s->length);
    check(context, EXIT_FAILED);
    ct_scope_close(scope);
}
