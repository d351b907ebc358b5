/* Rows that train a GPT (Radford et al. 2019): learned positions, pre-norm blocks, GELU by erf, the
 * head tied to the embedding. A step is a whole training step: zeroing the gradients, forward,
 * loss, backward, clipping at norm 1, AdamW. */
#include "row.h"

#include <math.h>

enum { MAX_LAYERS = 12, BATCHES = 8 };

typedef struct {
    int64_t layers, heads, width, vocabulary, batch, length, positions;
    bool no_bias, recompute;
} gpt_size;

static const gpt_size toy = {2, 4, 64, 16, 32, 32, 32, false, false};
/* nanoGPT's recipe for a CPU */
static const gpt_size char_small = {4, 4, 128, 65, 12, 64, 64, true, false};
static const gpt_size char_baby = {6, 6, 384, 65, 8, 256, 256, false, false};
static const gpt_size gpt2_124m = {12, 12, 768, 50257, 4, 64, 1024, false, false};
static const gpt_size gpt2_whole = {12, 12, 768, 50257, 8, 1024, 1024, false, false};
static const gpt_size gpt2_recompute = {12, 12, 768, 50257, 8, 1024, 1024, false, true};

static gpt_size size;
static ct_module *root, *wte, *wpe, *h[MAX_LAYERS], *ln_f;
static ct_optim *optim;
static int64_t *tokens[BATCHES], *targets[BATCHES], steps; /* each (batch, length) */
static double loss_value;

/* BATCHES batches, used in rotation; a target is the next token. */
static bool make_tokens(ct_context *c) {
    int64_t t = size.length, n = size.batch * t;
    /* owned by the context */
    int64_t *room = ct_data_i64(ct_empty(c, CT_I64, CT_SHAPE(BATCHES, 2, n)));
    for (int b = 0; room && b < BATCHES; b++) {
        tokens[b] = room + 2 * b * n, targets[b] = tokens[b] + n;
        for (int64_t i = 0; i < size.batch; i++)
            for (int64_t j = 0; j <= t; j++) {
                int64_t token =
                    name_bits("tokens", (uint32_t)((b * size.batch + i) * (t + 1) + j)) %
                    (uint32_t)size.vocabulary;
                if (j < t) tokens[b][i * t + j] = token;
                if (j > 0) targets[b][i * t + j - 1] = token;
            }
    }
    return room;
}

static bool make(const row *r, ct_context *c, int64_t number, const char *names) {
    (void)number, (void)names;
    const gpt_size *s = r->arg;
    size = *s;
    root = ct_module_new(c, "GPT");
    ct_embedding_opts embedding = {.num_embeddings = s->vocabulary, .embedding_dim = s->width};
    ct_positions_opts positions = {
        .max_length = s->positions, .embed_dim = s->width, .learned = true};
    ct_layer_opts layer = {.embed_dim = s->width,
                           .num_heads = s->heads,
                           .activation = CT_GELU,
                           .norm_first = true,
                           .no_bias = s->no_bias,
                           .recompute = s->recompute};
    wte = ct_module_add_child(root, "wte", ct_embedding_new(c, embedding));
    wpe = ct_module_add_child(root, "wpe", ct_positions_new(c, positions));
    for (int64_t i = 0; i < s->layers; i++)
        h[i] = ct_module_append(root, "h", ct_encoder_layer_new(c, layer));
    ln_f = ct_module_add_child(
        root, "ln_f",
        ct_layer_norm_new(c, (ct_layer_norm_opts){.dim = s->width, .no_bias = s->no_bias}));
    fill_module(root, 0.02, 0.02 / sqrt(2 * (double)s->layers));
    optim = ct_adamw_new(
        root, (ct_adamw_opts){
                  .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .clip_norm = 1});
    return optim && make_tokens(c);
}

static void step(ct_context *c) {
    int64_t b = steps++ % BATCHES, n = size.batch * size.length;
    ct_optim_zero_grad(optim);
    ct_scope scope = ct_scope_open(c);
    /* (B, T) -> (B, T, E) */
    ct_tensor *x = ct_forward(
        wpe, ct_forward(wte, ct_from_i64(c, CT_SHAPE(size.batch, size.length), tokens[b])));
    for (int64_t i = 0; i < size.layers; i++)
        x = ct_encoder_layer_forward(h[i], x, (ct_mha_call){.causal = true}).out;
    x = ct_reshape(ct_forward(ln_f, x), CT_SHAPE(n, size.width)); /* (B, T, E) -> (B T, E) */
    ct_tensor *y = ct_from_i64(c, CT_SHAPE(n), targets[b]);
    ct_tensor *loss =
        ct_linear_cross_entropy(x, ct_module_get(wte, "weight"), y, (ct_cross_entropy_opts){0});
    ct_backward(loss);
    ct_optim_step(optim);
    loss_value = ct_item(loss);
    ct_scope_close(scope);
}

static double value(void) { return loss_value; }

const row gpt_rows[] = {
    {"toy", make, step, value, &toy},
    {"char_small", make, step, value, &char_small},
    {"char_baby", make, step, value, &char_baby},
    {"gpt2_124m", make, step, value, &gpt2_124m},
    {"gpt2_whole", make, step, value, &gpt2_whole},
    {"gpt2_recompute", make, step, value, &gpt2_recompute},
    {NULL, NULL, NULL, NULL, NULL},
};
