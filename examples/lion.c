/* This example defines a new optimiser, Lion, in ten lines. A small network learns a nursery rhyme
 * letter by letter. Halfway the program saves a checkpoint. It then finishes the training twice:
 * once without interruption, and once from the checkpoint. Both runs end with the same bits.
 * Usage: lion [checkpoint]
 *
 *     c = b1 m + (1 - b1) g      the direction of the step
 *     p = p - lr (sign(c) + wd p)
 *     m = b2 m + (1 - b2) g      Chen et al. 2023, arXiv:2302.06675 */
#include "../programs/common.h"
#include <string.h>

/* ---- the optimiser ---- */

enum { BETA1, BETA2, NUMBERS };

/* Updates one parameter. Returns false if an op has failed; the error is recorded already. */
static bool lion_step(const ct_optim_item *p, void *user) {
    (void)user;
    ct_tensor *m = p->state[0], *c = ct_clone(m);
    return ct_lerp_into(c, p->grad, 1 - p->numbers[BETA1]) &&
           ct_scale_into(p->param, 1 - p->lr * p->weight_decay) &&
           ct_add_into(p->param, ct_sign(c), -p->lr) &&
           ct_lerp_into(m, p->grad, 1 - p->numbers[BETA2]);
}

/* The rest of the rule has only names and ranges. Checkpoints, groups and clipping work without
 * further code. */
static const char *const lion_states[] = {"m"};
static const ct_optim_number lion_numbers[NUMBERS] = {
    [BETA1] = {.name = "beta1", .value = 0.9, .most = 1, .open_most = true},
    [BETA2] = {.name = "beta2", .value = 0.99, .most = 1, .open_most = true},
};
static const ct_optim_rule lion = {
    .name = "Lion",
    .states = lion_states,
    .n_states = 1,
    .numbers = lion_numbers,
    .n_numbers = NUMBERS,
    .step = lion_step,
    .elementwise = true, /* each of several ranks may update some elements of a parameter */
};

/* ---- what it trains ---- */

enum { LETTERS = 27, SEEN = 12, WIDTH = 16, HIDDEN = 64, BATCH = 32 };
static const char text[] = "twinkle twinkle little star how i wonder what you are up above the "
                           "world so high like a diamond in the sky ";

static int64_t id_of(char letter) { return letter == ' ' ? 0 : letter - 'a' + 1; }

typedef struct {
    ct_module *root, *embed, *hidden, *out;
    ct_optim *optim;
} run;

static run run_new(ct_context *c) {
    run r = {.root = ct_module_new(c, "Letters")};
    ct_embedding_opts embed = {.num_embeddings = LETTERS, .embedding_dim = WIDTH};
    ct_linear_opts hidden = {.in_features = SEEN * WIDTH, .out_features = HIDDEN};
    ct_linear_opts out = {.in_features = HIDDEN, .out_features = LETTERS};
    r.embed = ct_module_add_child(r.root, "embed", ct_embedding_new(c, embed));
    r.hidden = ct_module_add_child(r.root, "hidden", ct_linear_new(c, hidden));
    r.out = ct_module_add_child(r.root, "out", ct_linear_new(c, out));
    r.optim = ct_optim_new(r.root, &lion,
                           (ct_optim_opts){.lr = 1e-3, .weight_decay = 0.1, .clip_norm = 1});
    ct_optim_group(r.optim, "*.bias", (ct_group_opts){.weight_decay = 0});
    return r;
}

/* ids (B, SEEN) -> logits (B, LETTERS) of the next letter. */
static ct_tensor *run_forward(const run *r, ct_tensor *ids) {
    ct_tensor *x = ct_view(ct_forward(r->embed, ids), CT_SHAPE(-1, SEEN * WIDTH));
    return ct_forward(r->out, ct_gelu(ct_forward(r->hidden, x)));
}

/* Trains for some steps, each on letters from random places; returns the last loss. */
static double train(ct_context *c, const run *r, int steps) {
    int64_t ids[BATCH][SEEN], next[BATCH];
    double loss = 0;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < BATCH; i++) {
            int64_t at = ct_random_below(c, (int64_t)strlen(text) - SEEN);
            for (int k = 0; k < SEEN; k++) ids[i][k] = id_of(text[at + k]);
            next[i] = id_of(text[at + SEEN]);
        }
        ct_scope scope = ct_scope_open(c);
        ct_tensor *logits = run_forward(r, ct_from_i64(c, CT_SHAPE(BATCH, SEEN), ids[0]));
        ct_tensor *mean = ct_cross_entropy(logits, ct_from_i64(c, CT_SHAPE(BATCH), next),
                                           (ct_cross_entropy_opts){0});
        ct_optim_zero_grad(r->optim);
        ct_backward(mean);
        ct_optim_step(r->optim);
        loss = ct_item(mean);
        ct_scope_close(scope);
    }
    return loss;
}

/* Prints the first letters of the text, and after them the letters that the network predicts. */
static void recite(ct_context *c, const run *r, int letters) {
    int64_t seen[SEEN], next;
    for (int k = 0; k < SEEN; k++) seen[k] = id_of(text[k]);
    printf("%.*s", SEEN, text);
    while (letters-- > 0) {
        ct_scope scope = ct_scope_open_no_grad(c);
        ct_tensor *logits = run_forward(r, ct_from_i64(c, CT_SHAPE(1, SEEN), seen));
        ct_to_i64(ct_argmax(logits, 1), &next, 1);
        ct_scope_close(scope);
        putchar(next ? (int)next - 1 + 'a' : ' ');
        memmove(seen, seen + 1, sizeof seen - sizeof *seen);
        seen[SEEN - 1] = next;
    }
    printf("\n");
}

int main(int argc, char **argv) {
    const char *usage = "[FILE]\n\nTrains with Lion, through a checkpoint that is written as FILE.";
    const int files = read_flags(argc, argv, NULL, 0, usage);
    if (files > 1) fail_usage("one file at a time, and not %s too", argv[2]);
    const char *path = output_path(NULL, files ? argv[1] : "lion.safetensors");
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;

    run one = run_new(c);
    printf("after 40 steps: loss %.6f\n", train(c, &one, 40));
    ct_checkpoint file = {.module = one.root, .optim = one.optim, .step = 40};
    ct_checkpoint_save(path, &file);
    const double on = train(c, &one, 40);
    printf("after 80 steps: loss %.6f\n", on);

    run two = run_new(c); /* different weights, which the checkpoint replaces */
    file = (ct_checkpoint){.module = two.root, .optim = two.optim};
    ct_checkpoint_load(path, &file); /* the states of Lion and of the generator are loaded too */
    const double again = train(c, &two, 80 - (int)file.step);
    printf("from the file:   loss %.6f, %s\n", again, again == on ? "the same" : "another");

    recite(c, &two, 80);
    ct_context_free(c);
    return again != on;
}
