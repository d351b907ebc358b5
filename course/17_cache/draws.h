/* What the tests ask for besides exercise.h: many draws in one request. */
#ifndef DRAWS_H
#define DRAWS_H

void sample_all(const double *logits, int n, double temperature, int top_k, const double *u,
                int count, int *tokens);

#endif
