/* A row of the benchmark: a model that is made once and stepped many times. Every initial value is
 * a function of a name and an index, the same as in torch_rows.py, so both sides compute on the
 * same numbers and their losses can be compared. */
#ifndef ROW_H
#define ROW_H

#include <cotangent/cotangent.h>

typedef struct row {
    const char *name; /* "toy"; a name that ends with _, as "mha_long_", is followed by a number */
    /* false: failed, with a message on stderr */
    bool (*make)(const struct row *row, ct_context *context, int64_t number, const char *names);
    void (*step)(ct_context *context);
    double (*value)(void); /* a value of the last step to compare; not timed */
    const void *arg;       /* parameters of this row for make */
} row;

/* each ends with a NULL name */
extern const row gpt_rows[], micro_rows[], attention_rows[], decode_rows[], model_rows[];

/* Writes the model of a row of model_rows, which is made, as a GGUF file. */
bool model_save(const char *path);

/* The i-th value of a name: 32 pseudo-random bits (the finaliser of MurmurHash3, Appleby 2011,
 * of FNV-1a of the name and i). */
uint32_t name_bits(const char *name, uint32_t i);

/* Fills with values uniform in [-a, a), a = sqrt(3) std. */
void fill(ct_tensor *tensor, const char *name, double std);

/* Fills every matrix of the module by its name, with std, or std_residual if it adds to the
 * residual stream; biases are 0. */
void fill_module(ct_module *module, double std, double std_residual);

double sum_of_sizes(ct_tensor *tensor); /* sum |x|, of a dense f32 tensor */

#endif
