/* Rows of ids that become the tensors of a ct_batch. */
#ifndef CTI_EXT_DATA_BATCH_H
#define CTI_EXT_DATA_BATCH_H

#include <cotangent/tokenizer.h>

typedef struct {
    int64_t *ids;           /* [length] */
    int64_t *types;         /* [length], or NULL: zeros */
    const int64_t *targets; /* [length], or NULL */
    int64_t length;
} cti_batch_row;

/* Returns whether n and the options describe a batch. If not, an error of `op` is recorded. */
bool cti_batch_check(ct_context *context, const ct_batch_opts *opts, int64_t n, const char *op);
/* n rows of zeros, by calloc; NULL after an error of `op`. */
cti_batch_row *cti_batch_rows_new(ct_context *context, int64_t n, const char *op);
/* A batch of n rows, of new tensors; all NULL after an error. */
ct_batch cti_batch_make(ct_context *context, const cti_batch_row *rows, int64_t n, bool has_targets,
                        const ct_batch_opts *opts);

#endif
