/* Your file defines a cache of keys and values, and what generates text with it. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* The weights of a layer, and of the logits, whose layer is 0. */
typedef enum {
    QUERY,  /* width -> width, and so are the next three */
    KEY,    /* */
    VALUE,  /* */
    OUT,    /* of attention */
    UP,     /* width -> hidden */
    DOWN,   /* hidden -> width */
    LOGITS, /* width -> vocabulary */
    WEIGHTS
} weight;

/* A decoder. Its weights stay with the grader: these two functions are the only way to them. */
typedef struct {
    int vocabulary, width, heads, layers, hidden; /* a head has width / heads columns */
    int context;                                  /* the most tokens of a sequence */
    /* Sets x, n rows of width numbers, to the embeddings of n tokens at the positions `first`,
     * `first` + 1, ... of the sequence; the first position is 0. */
    void (*embed)(const int *tokens, int first, int n, double *x);
    /* Sets y to x times a weight: n rows in, n rows out. All of x is read before y is
     * written, so y may be x. */
    void (*multiply)(weight w, int layer, int n, const double *x, double *y);
} model;

typedef struct cache cache; /* your file defines its fields */

/* A cache for one sequence, which has no token yet. The model stays as long as the cache does. */
extern cache *cache_new(const model *m);
extern void cache_free(cache *c);

/* Puts n tokens, at least one, behind those of the sequence, and sets `logits`, one for each token
 * of the vocabulary, to what the model says after the last of them. */
extern void cache_extend(cache *c, const int *tokens, int n, double *logits);

/* Forgets all tokens of the sequence but the first `length`. */
extern void cache_rewind(cache *c, int length);

/* Draws a token with the number u, which is random in [0, 1). See README.md. */
extern int sample(const double *logits, int n, double temperature, int top_k, double u);

/* Writes `count` tokens that follow a prompt of n tokens, at least one, to `tokens`; u[i] is for
 * the i-th. count may be 0: then the model is not asked for anything. */
extern void generate(const model *m, const int *prompt, int n, int count, double temperature,
                     int top_k, const double *u, int *tokens);

#endif
