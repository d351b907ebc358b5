/* Text that a GPT writes, one character or token at a time. */
#ifndef PROGRAMS_GPT_WRITE_H
#define PROGRAMS_GPT_WRITE_H

#include "gpt.h"

typedef struct {
    const char *prompt;        /* the beginning of the text, or NULL */
    long long length;          /* the number of characters or tokens to write */
    double temperature, top_p; /* options of ct_sample_opts */
    long long top_k;           /* another option of ct_sample_opts */
    long long cached;          /* 1: keys and values are kept in caches; 0: computed again */
} writing;

/* Prints the prompt, the text of the model, and its speed. Ends early on Ctrl-C. */
void gpt_write(const gpt *m, const writing *w);

#endif
