/* The memory that a fine-tuning needs, estimated before it starts. */
#ifndef PROGRAMS_FINETUNE_MEMORY_H
#define PROGRAMS_FINETUNE_MEMORY_H

#include <cotangent/cotangent.h>

/* In bytes. Gradients and activations are in memory together if `accumulates`, and otherwise one
 * takes the place of the other during backward. */
typedef struct {
    double program; /* the code, the tokenizer, the documents */
    double weights, gradients, optimiser, activations;
    bool accumulates;
    double merged; /* the weights while blocks are widened to f32 for the merge; 0: they are not */
} memory_estimate;

typedef struct {
    int64_t tokens, length; /* the tokens of the largest micro-batch, and of its longest row */
    double learned;         /* the part of its tokens that the loss counts, at most 1 */
    int64_t micro_batches, shares, ranks;
    bool recompute; /* layers run again in backward: their values and gradients meet */
    bool bf16_states;
    bool widens; /* the weights are widened from blocks to f32 in the end */
} memory_opts;

/* Estimates the memory of training the model. The data must have been read before. Two
 * micro-batches of some hundred tokens run, which shows how activations grow with the tokens. */
memory_estimate memory_estimate_of(ct_context *context, ct_module *lm, memory_opts opts);

/* What will be resident at most. */
double memory_sum(const memory_estimate *m);

#endif
