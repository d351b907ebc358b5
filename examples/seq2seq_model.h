/* An encoder-decoder that reads 4 to 12 digits and writes them reversed, or sorted (Vaswani et al.
 * 2017, arXiv:1706.03762).
 *
 *     source  7 2 9 4 . .     input of the encoder; a key mask hides the padding
 *     input   > 4 9 2 7 .     input of the decoder: the answer shifted by one, so that a
 *                             position sees only the digits before it
 *     target  4 9 2 7 < .     the correct output: the next digit, and the end */
#ifndef EXAMPLES_SEQ2SEQ_MODEL_H
#define EXAMPLES_SEQ2SEQ_MODEL_H

#include <cotangent/cotangent.h>

enum { START = 10, END = 11, PAD = 12, TOKENS = 13 }; /* 0 ... 9 are the digits */
enum { SHORTEST = 4, LONGEST = 12 };                  /* digits of a sequence */
enum { S = LONGEST, T = LONGEST + 1 };                /* lengths of source and target */
enum { WIDTH = 64, HEADS = 4, LAYERS = 2 };
enum {
    BATCH = 64,
    TESTS = 1000,
    IGNORED = -100 /* the target at padding, which the loss ignores */
};

typedef struct {
    int length;
    int64_t digits[LONGEST], answer[LONGEST];
} sequence;

void set_answer(sequence *s, bool sort); /* sets `answer` from `digits` */

/* Draws a sequence of the test set or of the training set. No sequence is in both sets. */
sequence draw_sequence(ct_context *context, bool sort, bool test);

typedef struct {
    ct_module *root; /* the root of the tree of all modules below */
    ct_module *embedding, *positions, *encoder, *decoder, *head;
} model;

model make_model(ct_context *context);
ct_optim *make_optim(const model *m);
double learning_rate(int64_t step, int64_t steps);

/* Runs a training step with teacher forcing: the decoder reads the right tokens. Returns the loss;
 * *exact is the fraction of sequences in which every token is right. */
double train_step(ct_context *context, const model *m, ct_optim *optim, bool sort, double *exact);

/* Writes n answers by greedy decoding: the likeliest token is written and becomes the next input.
 * Caches hold the keys and values of earlier tokens. said (n, T) receives the tokens. */
void write_answers(ct_context *context, const model *m, const sequence *tests, int n,
                   int64_t *said);
bool is_right(const sequence *s, const int64_t *said);

/* Computes the decoder's attention to the source while it writes the right answer and its end.
 * weights (length + 1, length) receives the weights of the last layer, averaged over its heads. */
void attention_of(ct_context *context, const model *m, const sequence *s, double *weights);

#endif
