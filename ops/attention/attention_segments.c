/* Segments of packed sequences: which tokens have the same id as a token. */
#include "attention_masks.h"

/* Sets first and end of all tokens from runs of equal ids. Returns false if the ids neither rise
 * nor fall, because an id may then have several runs. */
static bool read_runs(cti_attention_segment *of, int64_t n) {
    bool rises = true, falls = true;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && of[end].id == of[begin].id;) end++;
        for (int64_t i = begin; i < end; i++) {
            of[i].first = begin;
            of[i].end = of[i].run_end = end;
        }
        if (begin == 0) continue;
        rises = rises && of[begin].id > of[begin - 1].id;
        falls = falls && of[begin].id < of[begin - 1].id;
    }
    return rises || falls;
}

/* Sets first and end of tokens whose ids are in any order; order is their stable argsort. */
static void read_groups(cti_attention_segment *of, int64_t n, const int64_t *order) {
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && of[order[end]].id == of[order[begin]].id;) end++;
        for (int64_t i = begin; i < end; i++) {
            of[order[i]].first = order[begin];
            of[order[i]].end = order[end - 1] + 1;
        }
    }
}

bool cti_attention_read_segments(const ct_call *c, cti_attention_tensors *x) {
    const int64_t b = x->segments->shape.dim[0], t = x->segments->shape.dim[1];
    const int64_t *stride = x->segments->stride;
    ct_tensor *order = NULL;
    x->extents = cti_op_new(c, CT_I64, CT_SHAPE(b, t, 4));
    if (!x->extents) return false;
    for (int64_t i = 0; i < b; i++) {
        cti_attention_segment *of = (cti_attention_segment *)x->extents->data + i * t;
        for (int64_t j = 0; j < t; j++)
            of[j].id = ((const int64_t *)x->segments->data)[i * stride[0] + j * stride[1]];
        if (read_runs(of, t)) continue;
        if (!order) order = ct_argsort(x->segments, 1, false);
        if (!order) return false;
        read_groups(of, t, (const int64_t *)order->data + i * t);
    }
    return true;
}

bool cti_attention_segments_differ(const cti_attention_params *a, const cti_attention_tile *t) {
    const cti_attention_segment *of = a->segments + t->b * a->t;
    return of[t->q0].id != of[t->k0].id || of[t->q0].run_end < t->q0 + t->nq ||
           of[t->k0].run_end < t->k0 + t->nk;
}
