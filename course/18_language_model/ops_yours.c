/* The ops of a submission: those of earlier exercises, which the grader links with it if it is
 * asked to (CUMULATIVE=1). ops_library.c stands in its place otherwise. */
#include "../02_matmul/exercise.h"
#undef EXERCISE_H
#include "../03_softmax/exercise.h"
#undef EXERCISE_H
#include "../04_cross_entropy/exercise.h"
#undef EXERCISE_H
#include "../05_layer_norm/exercise.h"
#undef EXERCISE_H
#include "../06_masked_attention/exercise.h"
#undef EXERCISE_H
#include "../07_multi_head/exercise.h"
#undef EXERCISE_H
#include "../08_dropout/exercise.h"
#undef EXERCISE_H
#include "../09_rotary/exercise.h"
#undef EXERCISE_H
#include "exercise.h"

#include <string.h>

ct_tensor *op_matmul(ct_tensor *a, ct_tensor *b, bool transpose) {
    return ct_apply(&matmul, (ct_tensor *[]){a, b}, 2, &(matmul_attrs){transpose});
}
ct_tensor *op_softmax(ct_tensor *x) { return ct_apply(&softmax, &x, 1, NULL); }
ct_tensor *op_cross_entropy(ct_tensor *logits, ct_tensor *targets) {
    return ct_apply(&cross_entropy, (ct_tensor *[]){logits, targets}, 2,
                    &(cross_entropy_attrs){-100});
}
ct_tensor *op_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias) {
    return ct_apply(&layer_norm, (ct_tensor *[]){x, weight, bias}, 3, &(layer_norm_attrs){1e-5});
}
ct_tensor *op_masked_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v) {
    return ct_apply(&masked_attention, (ct_tensor *[]){q, k, v, NULL}, 4,
                    &(masked_attention_attrs){.causal = true});
}
ct_tensor *op_split_heads(ct_tensor *x, int64_t heads) {
    return ct_apply(&split_heads, &x, 1, &(split_heads_attrs){heads});
}
ct_tensor *op_combine_heads(ct_tensor *x) { return ct_apply(&combine_heads, &x, 1, NULL); }
ct_tensor *op_dropout(ct_tensor *x, double p, bool training) {
    dropout_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.p = p, attrs.training = training;
    return ct_apply(&dropout, &x, 1, &attrs);
}
ct_tensor *op_rotary(ct_tensor *x) {
    rotary_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.base = 10000;
    return ct_apply(&rotary, &x, 1, &attrs);
}
