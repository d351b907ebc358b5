/* Training: one encoder layer learns to write four digits in reverse, with the same bits for any
 * number of threads. */
#include "tests/support/suite.h"
#include <cotangent/cotangent.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 4, DIGITS = 10, WIDTH = 32 };

typedef struct {
    ct_context *context;
    ct_module *model, *embed, *positions, *layer, *head;
    ct_optim *optim;
} learner;

static learner learner_new(int threads) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 3, .threads = threads});
    learner l = {.context = c, .model = ct_module_new(c, "reverse")};
    l.embed = ct_module_add_child(
        l.model, "embed",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = DIGITS, .embedding_dim = WIDTH}));
    l.positions = ct_module_add_child(
        l.model, "positions",
        ct_positions_new(c, (ct_positions_opts){.max_length = LENGTH, .embed_dim = WIDTH}));
    l.layer = ct_module_add_child(
        l.model, "layer",
        ct_encoder_layer_new(
            c, (ct_layer_opts){.embed_dim = WIDTH, .num_heads = 2, .hidden = 64, .dropout = 0.01}));
    l.head = ct_module_add_child(
        l.model, "head",
        ct_linear_new(c, (ct_linear_opts){.in_features = WIDTH, .out_features = DIGITS}));
    l.optim = ct_adamw_new(l.model, (ct_adamw_opts){.lr = 3e-3, .weight_decay = 0.01});
    ck_assert_msg(l.optim != NULL, "%s", ct_error_message(c));
    return l;
}

static void draw(learner *l, int batch, int64_t *in, int64_t *out) {
    for (int i = 0; i < batch * LENGTH; i += LENGTH)
        for (int j = 0; j < LENGTH; j++)
            in[i + j] = out[i + LENGTH - 1 - j] = ct_random_below(l->context, DIGITS);
}

static ct_tensor *logits(learner *l, int batch, const int64_t *in) {
    ct_tensor *x = ct_forward(
        l->positions, ct_forward(l->embed, ct_from_i64(l->context, CT_SHAPE(batch, LENGTH), in)));
    x = ct_encoder_layer_forward(l->layer, x, (ct_mha_call){0}).out;
    return ct_view(ct_forward(l->head, x), CT_SHAPE(-1, DIGITS));
}

static double step(learner *l, int batch) {
    int64_t *in = malloc((size_t)batch * LENGTH * 2 * sizeof *in), *out = in + batch * LENGTH;
    draw(l, batch, in, out);
    ct_scope scope = ct_scope_open(l->context);
    ct_tensor *loss = ct_cross_entropy(logits(l, batch, in),
                                       ct_from_i64(l->context, CT_SHAPE(batch * LENGTH), out),
                                       (ct_cross_entropy_opts){0});
    double value = ct_item(loss);
    ct_optim_zero_grad(l->optim);
    ct_backward(loss);
    ct_clip_grad_norm(l->model, 1);
    ck_assert_msg(ct_optim_step(l->optim), "%s", ct_error_message(l->context));
    ct_scope_close(scope);
    free(in);
    return value;
}

START_TEST(four_digits_backwards) {
    enum { BATCH = 32, STEPS = 400, SEEN = 200 };
    learner l = learner_new(2);
    double first = step(&l, BATCH), last = 0;
    for (int i = 1; i < STEPS; i++) {
        double loss = step(&l, BATCH);
        if (i >= STEPS - 20) last += loss / 20;
    }
    ck_assert_msg(first > 1.8 && first < 4, "the first loss is %g; a guess has ln 10", first);
    ck_assert_msg(last < 0.05, "the loss has only fallen to %g", last);

    int64_t in[SEEN * LENGTH], out[SEEN * LENGTH], said[SEEN * LENGTH];
    draw(&l, SEEN, in, out);
    ct_module_train(l.model, false);
    ct_scope scope = ct_scope_open_no_grad(l.context);
    ck_assert(ct_to_i64(ct_argmax(logits(&l, SEEN, in), -1), said, SEEN * LENGTH));
    int right = 0;
    for (int i = 0; i < SEEN; i++)
        right += !memcmp(out + i * LENGTH, said + i * LENGTH, LENGTH * sizeof *out);
    ck_assert_msg(right >= SEEN * 98 / 100, "%d of %d right", right, (int)SEEN);
    ct_scope_close(scope);
    ct_context_free(l.context);
}
END_TEST

START_TEST(the_same_bits_on_any_number_of_threads) {
    static float want[20000], got[20000];
    for (int threads = 1; threads <= 3; threads++) {
        learner l = learner_new(threads);
        float *at = threads == 1 ? want : got, *end = at;
        for (int i = 0; i < 5; i++) *end++ = (float)step(&l, 300);
        for (ct_param p = {0}; ct_module_next(l.model, &p); end += ct_numel(p.tensor))
            ct_to_f32(p.tensor, end, ct_numel(p.tensor));
        ck_assert_msg(end - at < 20000 && !ct_error(l.context), "%s", ct_error_message(l.context));
        ck_assert_msg(!memcmp(want, at, (size_t)(end - at) * sizeof *at), "%d threads: other bits",
                      threads);
        ct_context_free(l.context);
    }
}
END_TEST

int main(void) {
    return run_tests(
        "train", NULL, NULL,
        TESTS(TEST(four_digits_backwards), TEST(the_same_bits_on_any_number_of_threads)));
}
