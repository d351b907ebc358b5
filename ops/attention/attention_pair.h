/* A pair of attention's backward: a range of queries, of all query heads that share one key head,
 * against a range of keys. attention_backward.c runs pairs; this file has the five products of
 * their blocks. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_PAIR_H
#define CTI_OPS_ATTENTION_ATTENTION_PAIR_H

#include "attention_schedule.h"
#include "attention_workspace.h"

/* The data that all pairs of a backward have in common. */
typedef struct {
    cti_attention_params a;
    cti_attention_backward_schedule schedule;
    cti_attention_operand dout, dq, dk, dv; /* data is NULL if not wanted */
    /* Whether dq, dk and dv hold zeros or the sums of earlier steps, to which a pair adds.
     * Otherwise they are undefined, and a pair sets them. */
    bool accumulate;
    cti_attention_operand dbias;    /* the first partial sum; data is NULL if not wanted */
    int64_t bias_dims[4];           /* the dims of dbias; 1 in a dim that is broadcast */
    int64_t bias_sums, bias_stride; /* the number of partial sums, and elements between two */
    /* The numbers of batches and of key heads that add to one element of dbias: 1 or all. */
    int64_t shared_b, shared_h;
    bool shared_ranges;  /* dbias is broadcast over T and S, so all pairs of a head add to it too */
    int64_t groups_h;    /* groups of heads that add to the same elements of dbias */
    int64_t task_ranges; /* the ranges of queries of a task: 1 or all */
    int64_t sum_tasks;   /* the tasks that add to one partial sum of dbias */
    int64_t tasks;       /* the tasks of a step */
} cti_attention_backward_call;

typedef struct {
    int64_t b, kv;            /* batch, key head */
    int64_t q_range, k_range; /* the numbers of its ranges */
    int64_t bias_sum;         /* the partial sum of dbias to which it adds */
} cti_attention_pair;

/* Reserves a worker's buffers for a pair; call is a cti_attention_backward_call. */
void cti_attention_pair_reserve(const void *call, cti_attention_workspace *space, void *buffers);
void cti_attention_backprop_pair(const cti_attention_backward_call *f, const void *buffers,
                                 const cti_attention_pair *pair);

#endif
