/* Your file counts what training a transformer takes: numbers, multiplications and bytes. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* A decoder: tokens, layers of attention and a feed-forward part, a norm, logits. See README.md. */
typedef struct {
    int64_t vocabulary; /* V */
    int64_t positions;  /* P rows of learned positions; 0: none are learned */
    int64_t width;      /* D, a multiple of heads */
    int64_t layers;     /* L */
    int64_t heads;      /* H of queries, a multiple of kv_heads */
    int64_t kv_heads;   /* G of keys and values */
    int64_t hidden;     /* F of the feed-forward part */
    bool tied;          /* the logits use the table of the tokens */
    bool gated;         /* the feed-forward part has three weights */
    bool biases;        /* every weight of a layer has a bias; that of the logits has none */
    bool norm_biases;   /* every norm has a bias besides its weight */
} architecture;

/* One step: forward, backward and AdamW's update, of B sequences of T tokens. */
typedef struct {
    int64_t sequences, length; /* B, T */
    int64_t bytes;             /* of a number: 4 (f32) or 2 (bf16) */
    bool causal;               /* pairs of a query and a later key are not computed */
    bool fused;                /* the weights of attention are not kept, and computed again */
    bool recomputed;           /* each layer keeps only its input, and runs again in backward */
} step;

typedef struct {
    int64_t weights, gradients, optimiser, activations;
} memory;

extern int64_t count_parameters(const architecture *a);
extern int64_t count_forward(const architecture *a, const step *s); /* multiply-adds */
extern int64_t count_step(const architecture *a, const step *s);    /* multiply-adds */
extern memory count_memory(const architecture *a, const step *s);   /* bytes */

#endif
