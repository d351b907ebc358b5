/* Generation with a cache of keys and values: see README.md. */
#include "exercise.h"

struct cache {
    const model *m;
    int length; /* and what else you need */
};

cache *cache_new(const model *m) {
    (void)m;
    return NULL; /* it is not written yet */
}
void cache_free(cache *c) { (void)c; }

void cache_extend(cache *c, const int *tokens, int n, double *logits) {
    (void)c, (void)tokens, (void)n, (void)logits;
}
void cache_rewind(cache *c, int length) { (void)c, (void)length; }

int sample(const double *logits, int n, double temperature, int top_k, double u) {
    (void)logits, (void)n, (void)temperature, (void)top_k, (void)u;
    return -1;
}

void generate(const model *m, const int *prompt, int n, int count, double temperature, int top_k,
              const double *u, int *tokens) {
    (void)m, (void)prompt, (void)n, (void)count, (void)temperature, (void)top_k, (void)u;
    (void)tokens;
}
