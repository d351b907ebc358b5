/* A row of the benchmark: a model that is made once and stepped many times. Every value that it
 * starts from is a function of a name and an index, the same in torch_rows.py: both sides compute
 * on the same numbers, and the losses show it. */
#ifndef ROW_H
#define ROW_H

#include <cotangent/cotangent.h>

typedef struct row {
    const char *name; /* "toy"; "mha_long_" stands for every name that goes on with a number */
    /* false: it says why on stderr */
    bool (*make)(const struct row *row, ct_context *context, int64_t number, const char *names);
    void (*step)(ct_context *context);
    double (*value)(void); /* what the last step computed, to compare; outside the time */
    const void *arg;       /* what make wants to know of this row */
} row;

/* each ends with a name that is NULL */
extern const row gpt_rows[], micro_rows[], attention_rows[];

/* The i-th value of a name: 32 bits that look random (the finaliser of MurmurHash3, Appleby 2011,
 * of FNV-1a of the name and i). */
uint32_t name_bits(const char *name, uint32_t i);

/* Fills with values uniform in [-a, a), a = sqrt(3) std. */
void fill(ct_tensor *tensor, const char *name, double std);

/* Every matrix of the module by its own name, with std, or where it adds to the residual stream
 * with std_residual; biases 0. */
void fill_module(ct_module *module, double std, double std_residual);

double sum_of_sizes(ct_tensor *tensor); /* sum |x|, of a dense f32 tensor */

#endif
