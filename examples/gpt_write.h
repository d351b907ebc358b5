/* Text that a GPT writes, one character at a time. */
#ifndef EXAMPLES_GPT_WRITE_H
#define EXAMPLES_GPT_WRITE_H

#include "gpt.h"

typedef struct {
    const char *prompt;        /* what the text begins with, or NULL */
    long long length;          /* characters to write behind it */
    double temperature, top_p; /* how the next one is drawn: see ct_sample_opts */
    long long top_k;           /* likewise */
    long long cached;          /* whether keys and values are kept: 1 or 0 */
} writing;

/* Prints the prompt, what the model makes of it, and how fast that was. Ends early on Ctrl-C. */
void gpt_write(const gpt *m, const writing *w);

#endif
