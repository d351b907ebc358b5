/* Rows that measure overheads: microgpt (Karpathy 2026) with 4,192 parameters. A step takes one
 * name, or as many as the row's name says, padded to the longest. Padding has no loss, and no
 * letter sees it, because attention is causal and padding comes last. The model is one block of
 * width 16 with 4 heads, RMSNorm without weights, a ReLU MLP, no biases and a head of its own; it
 * is trained by Adam without clipping. It is written like any other model. */
#include "row.h"

#include <stdlib.h>
#include <string.h>

/* END is before and after every name */
enum { WIDTH = 16, BLOCK = 16, LETTERS = 26, END = LETTERS, IGNORED = -100 };

static ct_module *root, *wte, *wpe, *attention, *mlp, *head;
static ct_optim *optim;
static int64_t *ids;    /* END, a name, END, a name, ..., END */
static int64_t *starts; /* of each name: the END before it */
static int64_t names_count, steps;
static int64_t batch;           /* names a step */
static int64_t *input, *target; /* (batch, BLOCK) at most */
static double loss_value;

/* Names are lines of small letters; other bytes are skipped. */
static bool read_names(ct_context *c, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return perror(path), false;
    fseek(file, 0, SEEK_END);
    int64_t length = ftell(file), n = 0;
    rewind(file);
    ids = ct_data_i64(ct_empty(c, CT_I64, CT_SHAPE(length + 2)));
    starts = ct_data_i64(ct_empty(c, CT_I64, CT_SHAPE(length + 2)));
    ids[n++] = END;
    for (int byte = 0; byte != EOF;) {
        byte = getc(file);
        if (byte >= 'a' && byte <= 'z') {
            if (ids[n - 1] == END) starts[names_count++] = n - 1;
            ids[n++] = byte - 'a';
        } else if ((byte == '\n' || byte == EOF) && ids[n - 1] != END) ids[n++] = END;
    }
    fclose(file);
    if (!names_count) fprintf(stderr, "%s: no names in it\n", path);
    return names_count;
}

static bool make(const row *r, ct_context *c, int64_t number, const char *names) {
    (void)r;
    if (!read_names(c, names)) return false;
    batch = number ? number : 1;
    if (batch > names_count) {
        fprintf(stderr, "%s: %lld names, fewer than a step has\n", names, (long long)names_count);
        return false;
    }
    input = ct_data_i64(ct_empty(c, CT_I64, CT_SHAPE(batch, BLOCK)));
    target = ct_data_i64(ct_empty(c, CT_I64, CT_SHAPE(batch, BLOCK)));
    root = ct_module_new(c, "microgpt");
    ct_embedding_opts embedding = {.num_embeddings = LETTERS + 1, .embedding_dim = WIDTH};
    ct_positions_opts positions = {.max_length = BLOCK, .embed_dim = WIDTH, .learned = true};
    ct_linear_opts letters = {.in_features = WIDTH, .out_features = LETTERS + 1, .no_bias = true};
    wte = ct_module_add_child(root, "wte", ct_embedding_new(c, embedding));
    wpe = ct_module_add_child(root, "wpe", ct_positions_new(c, positions));
    attention = ct_module_add_child(
        root, "attention",
        ct_mha_new(c, (ct_mha_opts){.embed_dim = WIDTH, .num_heads = 4, .no_bias = true}));
    mlp = ct_module_add_child(
        root, "mlp",
        ct_mlp_new(c, (ct_mlp_opts){.dim = WIDTH, .activation = CT_RELU, .no_bias = true}));
    head = ct_module_add_child(root, "head", ct_linear_new(c, letters));
    fill_module(root, 0.08, 0.08);
    optim = ct_adam_new(root, (ct_adam_opts){.lr = 0.01, .beta1 = 0.85, .beta2 = 0.99});
    return optim;
}

/* How many ids of a name are inputs: the END before it and its letters, up to BLOCK. */
static int64_t length_of(int64_t name) {
    int64_t t = 1;
    while (t < BLOCK && ids[starts[name] + t] != END) t++;
    return t;
}

/* Fills input and target, dense (batch, T); returns T. */
static int64_t next_batch(void) {
    int64_t first = steps++ % (names_count / batch) * batch, longest = 1;
    for (int64_t i = 0; i < batch; i++) {
        int64_t t = length_of(first + i);
        if (t > longest) longest = t;
    }
    for (int64_t i = 0; i < batch; i++) {
        const int64_t *name = ids + starts[first + i];
        int64_t t = length_of(first + i);
        for (int64_t j = 0; j < longest; j++) {
            input[i * longest + j] = j < t ? name[j] : END;
            target[i * longest + j] = j < t ? name[j + 1] : IGNORED;
        }
    }
    return longest;
}

static void step(ct_context *c) {
    int64_t t = next_batch();
    ct_optim_zero_grad(optim);
    ct_scope scope = ct_scope_open(c);
    /* (B, T) -> (B, T, E) */
    ct_tensor *x = ct_forward(wpe, ct_forward(wte, ct_from_i64(c, CT_SHAPE(batch, t), input)));
    x = ct_rms_norm(x, NULL, 1e-5);
    x = ct_add(x, ct_mha_forward(attention, ct_rms_norm(x, NULL, 1e-5), NULL, NULL,
                                 (ct_mha_call){.causal = true})
                      .out);
    x = ct_add(x, ct_forward(mlp, ct_rms_norm(x, NULL, 1e-5)));
    /* (B, T, E) -> (B T, E) -> (B T, 27) */
    ct_tensor *logits = ct_forward(head, ct_reshape(x, CT_SHAPE(batch * t, WIDTH)));
    ct_tensor *loss = ct_cross_entropy(logits, ct_from_i64(c, CT_SHAPE(batch * t), target),
                                       (ct_cross_entropy_opts){0});
    ct_backward(loss);
    ct_optim_step(optim);
    loss_value = ct_item(loss);
    ct_scope_close(scope);
}

static double value(void) { return loss_value; }

const row micro_rows[] = {{"micro", make, step, value, NULL},
                          {"micro_", make, step, value, NULL},
                          {NULL, NULL, NULL, NULL, NULL}};
