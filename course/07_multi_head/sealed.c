/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

/* The attributes, in the order in which remote.c packs them. */
typedef struct {
    int64_t heads;
    bool causal;
} multi_head_attrs;

static ct_tensor *call_multi_head(ct_tensor *const *in, int n, const void *attrs) {
    const multi_head_attrs *a = attrs;
    (void)n;
    return multi_head(in[0], &(multi_head_params){in[1], in[2], in[3], in[4]}, a->heads, a->causal);
}

const sealed_op sealed_ops[] = {
    {"split_heads", &split_heads, NULL},
    {"combine_heads", &combine_heads, NULL},
    {"multi_head", NULL, call_multi_head},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {{NULL, NULL}};
