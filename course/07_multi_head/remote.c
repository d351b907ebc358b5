/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op split_heads = REMOTE_OP("split_heads", sizeof(split_heads_attrs));
const ct_op combine_heads = REMOTE_OP("combine_heads", 0);

typedef struct {
    int64_t heads;
    bool causal;
} multi_head_attrs;

static const ct_op multi_head_op = REMOTE_OP("multi_head", sizeof(multi_head_attrs));

ct_tensor *multi_head(ct_tensor *x, const multi_head_params *params, int64_t heads, bool causal) {
    ct_tensor *in[] = {x, params->in_weight, params->in_bias, params->out_weight, params->out_bias};
    multi_head_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.heads = heads, attrs.causal = causal;
    return ct_apply(&multi_head_op, in, 5, &attrs);
}
