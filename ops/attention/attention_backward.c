/* attention, fused, backward. P is computed again, a block at a time, from q, k and the statistics
 * that forward has saved; with D_i = <dO_i, O_i>:
 *
 *     dV += P^T dO,  dP = dO V^T,  dS = P (dP - D),
 *     dQ += scale dS K,  dK += scale dS^T Q,  dbias += dS
 *
 * (with dropout's factors M: dV += (P M)^T dO, dP = (dO V^T) M; with a softcap dS is multiplied by
 * 1 - tanh^2 after dbias, with tanh of the scores computed again). Dao et al. 2022,
 * arXiv:2205.14135.
 *
 * A pair is a range of queries against a range of keys of one key head; one task computes all five
 * products of its blocks. Two pairs that differ in both ranges write to different rows of dQ, dK
 * and dV. So a step runs, in parallel, one pair for each range of queries and head, and steps
 * follow each other: every gradient is summed in one order, for any number of threads.
 *
 *     key range       0 1 2 3
 *     query range 0   0 1 2 3   the step in which a pair runs
 *     query range 1   2 3 0 1   (causal: a pair above the diagonal does nothing)
 *
 * The query heads of one key head belong to one pair, because they share dK and dV. If a bias is
 * broadcast over batch or heads, many pairs add to the same elements of its gradient: these pairs
 * are one task, or up to 8 tasks with a partial sum of the gradient each. */
#include "attention_pair.h"

#include "../update/update.h"
#include "attention_masks.h"

enum { BIAS_SUMS = 8 }; /* the most partial sums of a broadcast bias's gradient */

/* ---- steps ---- */

/* A task is one pair, or, if heads add to the same elements of dbias, all pairs that add to one
 * partial sum. Tasks of a step are numbered by (element group of dbias, partial sum, range of
 * queries), the last one fastest; a group is the heads that share elements of dbias. */
static void backward_task(const void *call, const void *buffers, int64_t task) {
    const cti_attention_backward_call *f = call;
    const int64_t step = task < f->tasks ? 0 : task / f->tasks, in_step = task - step * f->tasks;
    const int64_t group_heads = f->shared_b * f->shared_h; /* key heads of all batches in a group */
    const int64_t q_range = in_step % f->sum_tasks * f->task_ranges;
    const int64_t sum = in_step / f->sum_tasks % f->bias_sums;
    const int64_t group = in_step / f->sum_tasks / f->bias_sums;
    const int64_t last = group_heads * (sum + 1) / f->bias_sums;
    for (int64_t n = group_heads * sum / f->bias_sums; n < last; n++)
        for (int64_t q = q_range; q < q_range + f->task_ranges; q++) {
            /* Either all batches are in one group, or each is in a group of its own: one of the two
             * summands is 0. The same holds for heads. */
            const cti_attention_pair pair = {.b = n / f->shared_h + group / f->groups_h,
                                             .kv = n % f->shared_h + group % f->groups_h,
                                             .q_range = q,
                                             .k_range =
                                                 cti_attention_keys_of_step(&f->schedule, q, step),
                                             .bias_sum = sum};
            cti_attention_backprop_pair(f, buffers, &pair);
        }
}

static bool run_steps(ct_context *context, cti_attention_backward_call *f) {
    const cti_attention_params *a = &f->a;
    f->task_ranges = f->shared_ranges ? f->schedule.q_ranges : 1;
    f->sum_tasks = f->schedule.q_ranges / f->task_ranges;
    f->groups_h = a->kv_heads / f->shared_h;
    f->tasks = a->batch / f->shared_b * f->groups_h * f->bias_sums * f->sum_tasks;
    const cti_attention_pass pass = {.a = a,
                                     .call = f,
                                     .reserve = cti_attention_pair_reserve,
                                     .run = backward_task,
                                     .tasks = f->tasks,
                                     .grain = f->schedule.grain,
                                     .steps = f->schedule.k_ranges,
                                     .flops = 2 * a->dv + (a->scores ? 2 : 3) * a->d};
    return cti_attention_run(context, &pass);
}

/* ---- gradients ---- */

/* Sets shared_b, shared_h, shared_ranges and bias_sums, and makes the partial sums, which are
 * zeros: (bias_sums, the bias's dims). *sums is NULL if the bias wants no gradient. False: an
 * error. */
static bool new_bias_sums(const ct_call *c, cti_attention_backward_call *f, bool empty,
                          ct_tensor **sums) {
    const cti_attention_params *a = &f->a;
    const bool wanted = c->n > CTI_ATTENTION_BIAS && c->wants[CTI_ATTENTION_BIAS];
    const ct_tensor *bias = wanted ? c->in[CTI_ATTENTION_BIAS] : NULL;
    int64_t *dims = f->bias_dims;
    *sums = NULL;
    f->shared_b = f->shared_h = f->bias_sums = 1;
    if (!wanted) return true;
    for (int d = 0; d < 4; d++)
        dims[d] = d < 4 - bias->shape.ndim ? 1 : bias->shape.dim[d - 4 + bias->shape.ndim];
    if (!empty) {
        if (dims[0] == 1) f->shared_b = a->batch;
        if (dims[1] == 1) f->shared_h = a->kv_heads;
        f->shared_ranges = dims[2] == 1 && dims[3] == 1;
        f->bias_sums = cti_min(BIAS_SUMS, f->shared_b * f->shared_h);
    }
    *sums = ct_zeros(c->context, bias->dtype,
                     CT_SHAPE(f->bias_sums, dims[0], dims[1], dims[2], dims[3]));
    ct_tensor *first = *sums ? ct_select(*sums, 0, 0) : NULL;
    if (!first) return false;
    f->dbias = cti_attention_broadcast(first, CT_SHAPE(a->batch, a->heads, a->t, a->s));
    f->bias_stride = (*sums)->stride[0];
    return true;
}

/* Returns a gradient with x's layout in memory. Its values are zeros if `zero`, otherwise
 * undefined. NULL: an error. */
static ct_tensor *new_gradient(const ct_call *c, const ct_tensor *x, bool zero) {
    ct_tensor *y = cti_attention_new_like(c, x, x->shape.dim[3]);
    if (!y || !zero) return y;
    ct_tensor *dense = y->contiguous ? y : cti_tensor_view(y, y->data, CT_SHAPE(y->numel), NULL);
    return cti_op_fill(dense, 0) ? y : NULL;
}

/* Makes the gradients of q, k and v that are wanted, and sets f->dq, dk and dv to them. False: an
 * error. */
static bool new_gradients(const ct_call *c, cti_attention_backward_call *f,
                          const cti_attention_tensors *x, bool zero, ct_tensor **grad) {
    const int64_t heads = f->a.attrs.packed_heads;
    ct_tensor *const of[3] = {x->q, x->k, x->v};
    cti_attention_operand *to[3] = {&f->dq, &f->dk, &f->dv};
    ct_tensor *own[3] = {NULL, NULL, NULL}; /* the gradients with a dim of heads */
    if (heads && c->wants[CTI_ATTENTION_Q]) {
        const ct_tensor *in = c->in[CTI_ATTENTION_Q];
        grad[0] =
            zero ? ct_zeros(c->context, in->dtype, in->shape) : cti_op_new(c, in->dtype, in->shape);
        if (!grad[0] || !cti_attention_unpack(grad[0], heads, own)) return false;
    } else if (!heads) {
        for (int i = 0; i < 3; i++) {
            if (!c->wants[i]) continue;
            own[i] = grad[i] = new_gradient(c, of[i], zero);
            if (!own[i]) return false;
        }
    }
    for (int i = 0; i < 3; i++)
        if (own[i]) *to[i] = cti_attention_operand_of(own[i]);
    return true;
}

/* ---- the op ---- */

/* Sets x to the call's inputs and to forward's results, and returns dO as (B, H, T, dv). NULL: an
 * error. */
static ct_tensor *outputs_of(const ct_call *c, ct_tensor *dout, cti_attention_tensors *x) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->packed_heads;
    if (!cti_attention_tensors_of(c, x)) return NULL;
    x->stats = c->n_outs > 1 ? c->outs[1] : c->saved[0];
    x->scores = c->saved[1];
    x->out = heads ? cti_op_heads(c->out, heads, 0, c->out->shape.dim[2]) : c->out;
    return !x->out ? NULL : heads ? cti_op_heads(dout, heads, 0, dout->shape.dim[2]) : dout;
}

/* The statistics have no cotangent, because cti_attention_fused detaches them. */
bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    cti_attention_tensors x;
    ct_tensor *dout = outputs_of(c, cotangents[0], &x), *bias_sums;
    if (!dout) return false;
    if (x.segments && c->out->numel > 0 && !cti_attention_read_segments(c, &x)) return false;
    cti_attention_backward_call f = {.dout = cti_attention_operand_of(dout)};
    cti_attention_params_of(c, &x, &f.a);
    const bool empty = c->out->numel == 0 || f.a.s == 0; /* then all gradients are zeros */
    if (!empty) f.schedule = cti_attention_schedule_backward(&f.a);
    f.accumulate = !empty && f.schedule.k_ranges > 1; /* if k_ranges is 1, so is q_ranges */
    if (!new_gradients(c, &f, &x, empty || f.accumulate, grad) ||
        !new_bias_sums(c, &f, empty, &bias_sums))
        return false;
    if (!empty && !run_steps(c->context, &f)) return false;
    if (!bias_sums) return true;
    grad[CTI_ATTENTION_BIAS] =
        ct_view(ct_sum(bias_sums, CT_DIMS(0), false), c->in[CTI_ATTENTION_BIAS]->shape);
    return grad[CTI_ATTENTION_BIAS] != NULL;
}
