/* Sequences of unequal length, trained twice: packed one after another into one row, and padded to
 * a rectangle. Both models begin with the same weights and get the same sequences, so their losses
 * are equal, except for rounding; the packed one computes no padding. A sequence is a few random
 * digits, a mark, and the digits in reverse. Usage: packed [steps] */
#include "../programs/common.h"

#include <math.h>

enum { MARK = 10, SYMBOLS, WIDTH = 64, BATCH = 24, LONGEST = 65, TOKENS = BATCH * LONGEST };
enum { NO_TARGET = -100 }; /* cross-entropy ignores such a row */
enum { COMPARED = 20 };    /* steps; in later steps the rounding of all earlier ones has grown */

/* Sequence b is id[start[b]] ... id[start[b + 1] - 1]. The target of a token is the next token, if
 * that is one of the digits in reverse. */
typedef struct {
    int64_t id[TOKENS], target[TOKENS], start[BATCH + 1], longest;
} sequences;

static void draw(ct_context *c, sequences *s) {
    s->start[0] = s->longest = 0;
    for (int b = 0; b < BATCH; b++) {
        /* 1 to 32 digits; few are more frequent */
        int64_t digits = 1 + ct_random_below(c, 1 + ct_random_below(c, LONGEST / 2));
        int64_t length = 2 * digits + 1, *id = s->id + s->start[b],
                *target = s->target + s->start[b];
        for (int64_t t = 0; t < length; t++) {
            id[t] = t < digits ? ct_random_below(c, 10) : t == digits ? MARK : id[length - 1 - t];
            target[t] = NO_TARGET;
            if (t > digits) target[t - 1] = id[t];
        }
        s->start[b + 1] = s->start[b] + length;
        s->longest = length > s->longest ? length : s->longest;
    }
}

/* ---- the model ---- */

typedef struct {
    ct_module *root, *embedding, *positions, *encoder, *head;
} model;

static model model_new(ct_context *c) {
    ct_embedding_opts symbols = {.num_embeddings = SYMBOLS, .embedding_dim = WIDTH};
    ct_positions_opts places = {.max_length = LONGEST, .embed_dim = WIDTH, .learned = true};
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = 4, .norm_first = true};
    ct_linear_opts head = {.in_features = WIDTH, .out_features = SYMBOLS};
    model m = {.root = ct_module_new(c, "Model")};
    m.embedding = ct_module_add_child(m.root, "embedding", ct_embedding_new(c, symbols));
    m.positions = ct_module_add_child(m.root, "positions", ct_positions_new(c, places));
    m.encoder = ct_module_add_child(m.root, "encoder", ct_encoder_new(c, layer, 2, true));
    m.head = ct_module_add_child(m.root, "head", ct_linear_new(c, head));
    return m;
}

/* ids, positions and targets (B, T) -> the mean loss of the tokens that have a target. The call
 * says which tokens a token sees, besides that it sees no later one. */
static ct_tensor *model_loss(const model *m, ct_tensor *ids, ct_tensor *positions,
                             ct_tensor *targets, ct_mha_call call) {
    call.causal = true;
    ct_tensor *x = ct_forward(m->embedding, ids); /* (B, T, E) */
    x = ct_positions_forward_at(m->positions, x, positions);
    x = ct_encoder_forward(m->encoder, x, (ct_stack_call){.self = call});
    return ct_cross_entropy(ct_forward(m->head, x), targets, (ct_cross_entropy_opts){0});
}

/* ---- the two layouts ---- */

/* One row (1, N) of all tokens. A token sees only its own sequence, its segment, and its position
 * is its place in the sequence. */
static ct_tensor *packed_loss(ct_context *c, const model *m, const sequences *s) {
    static int64_t position[TOKENS], segment[TOKENS];
    ct_shape row = CT_SHAPE(1, s->start[BATCH]);
    for (int b = 0; b < BATCH; b++)
        for (int64_t i = s->start[b]; i < s->start[b + 1]; i++) {
            position[i] = i - s->start[b];
            segment[i] = b;
        }
    ct_mha_call call = {.segments = ct_from_i64(c, row, segment)};
    return model_loss(m, ct_from_i64(c, row, s->id), ct_from_i64(c, row, position),
                      ct_from_i64(c, row, s->target), call);
}

/* (B, T) with T the longest sequence. The tokens of row b are the first lengths[b]; behind them is
 * padding, which nothing sees and which has no target. */
static ct_tensor *padded_loss(ct_context *c, const model *m, const sequences *s) {
    static int64_t id[TOKENS], target[TOKENS], position[LONGEST], length[BATCH];
    ct_shape rectangle = CT_SHAPE(BATCH, s->longest);
    for (int64_t t = 0; t < s->longest; t++) position[t] = t;
    for (int b = 0; b < BATCH; b++) {
        length[b] = s->start[b + 1] - s->start[b];
        for (int64_t t = 0; t < s->longest; t++) {
            const bool padding = t >= length[b];
            id[b * s->longest + t] = padding ? 0 : s->id[s->start[b] + t];
            target[b * s->longest + t] = padding ? NO_TARGET : s->target[s->start[b] + t];
        }
    }
    ct_mha_call call = {.lengths = ct_from_i64(c, CT_SHAPE(BATCH), length)};
    return model_loss(m, ct_from_i64(c, rectangle, id),
                      ct_from_i64(c, CT_SHAPE(s->longest), position),
                      ct_from_i64(c, rectangle, target), call);
}

/* ---- training ---- */

typedef struct {
    const char *name;
    ct_tensor *(*loss)(ct_context *, const model *, const sequences *);
    model model;
    ct_optim *optim;
    double last, seconds; /* the loss of the last step, and the time of all steps */
} run;

static void train(ct_context *c, run *r, const sequences *s, double lr) {
    double begin = now();
    ct_scope scope = ct_scope_open(c);
    ct_tensor *loss = r->loss(c, &r->model, s);
    ct_optim_zero_grad(r->optim);
    ct_backward(loss);
    ct_optim_set_lr(r->optim, lr);
    ct_optim_step(r->optim);
    r->last = ct_item(loss);
    ct_scope_close(scope);
    r->seconds += now() - begin;
}

int main(int argc, char **argv) {
    const int64_t steps = read_number(argc, argv, 400, 1, 1e9,
                                      "[STEPS]\n\n"
                                      "Trains on sequences, packed in one row and padded.");
    int64_t tokens = 0, places = 0;
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;
    run runs[] = {{.name = "packed", .loss = packed_loss, .model = model_new(c)},
                  {.name = "padded", .loss = padded_loss, .model = model_new(c)}};
    for (ct_param p = {0}; ct_module_next(runs[0].model.root, &p);) /* the same first weights */
        ct_copy_into(ct_module_get(runs[1].model.root, p.name), p.tensor);
    for (int i = 0; i < 2; i++)
        runs[i].optim = ct_adamw_new(runs[i].model.root, (ct_adamw_opts){.clip_norm = 1});

    static sequences s;
    ct_lr_cosine_opts rate = {.peak = 3e-3, .warmup = 20, .total = steps};
    double apart = 0;
    for (int64_t step = 0; step < steps; step++) {
        draw(c, &s);
        tokens += s.start[BATCH];
        places += BATCH * s.longest;
        for (int i = 0; i < 2; i++) train(c, &runs[i], &s, ct_lr_cosine(rate, step));
        if (step < COMPARED) apart = fmax(apart, fabs(runs[0].last - runs[1].last) / runs[1].last);
        if (step % 50 == 0 || step == steps - 1)
            printf("step %4d  packed %.5f  padded %.5f\n", (int)step, runs[0].last, runs[1].last);
    }
    printf("the first %d losses differ by at most %.1e of their size\n", COMPARED, apart);
    printf("%.0f %% of the padded batches is padding\n",
           100 - 100.0 * (double)tokens / (double)places);
    for (int i = 0; i < 2; i++)
        printf("%s: %.0f tokens/s\n", runs[i].name, (double)tokens / runs[i].seconds);
    ct_context_free(c);
}
