/* The group of processes that save and load one checkpoint together. Each process has the module,
 * with the same values as the others, and its optimisers step ranges of the parameters
 * (optim/held.h). The client of an optimiser implements the functions of its group, and only
 * nn/checkpoint.c and nn/together.c call them.
 *
 *     save    agree: arguments and memory --> broadcast, agree: equal facts --> states to the
 *             first process --> it writes the file --> agree: written
 *
 *     load    the first process reads the file --> agree: read --> broadcast, agree: equal counts
 *             --> broadcast: counts, states found --> agree: memory --> broadcast, agree: equal
 *             names --> broadcast: tensors; states to the ranges --> agree --> all commit
 *
 * (1) Only the first process has a file.
 *
 * (2) All processes call agree, broadcast and the client's move of states in the same order. A
 * process with an error continues to the next agree, which gives the error to all.
 *
 * (3) When an agree fails, no process has changed anything, and all have the same error if no
 * process was lost.
 *
 * (4) Broadcast and move are called between an agree that has succeeded and another agree. They
 * cannot fail. If a process is lost, their data is undefined, and the next agree fails.
 *
 * (5) In a group of a single process `several` is false. Only its count of steps is used; agree,
 * broadcast and move are never called. */
#ifndef CTI_NN_CHECKPOINT_GROUP_H
#define CTI_NN_CHECKPOINT_GROUP_H

#include "../src/core/object.h"

typedef enum { CTI_GROUP_SAVE, CTI_GROUP_LOAD } cti_group_call;

typedef struct {
    const char *process; /* the word for a process in messages: "rank" */
    const char *steps;   /* the name of the group's count of steps in a checkpoint: "dist" */
    /* Returns whether a save or a load of the group may begin. If not, records an error. */
    bool (*may_begin)(ct_checkpoint_group *group, cti_group_call call);
    /* Returns whether a checkpoint of the group `of`, NULL for no group, may have the optimiser of
     * this group now. If not, records an error of the function `op`. */
    bool (*may_join)(const ct_checkpoint_group *group, const ct_checkpoint_group *of,
                     const char *op);
    /* Returns whether all processes are at this stage of the call, and all are `ok`. If not, all
     * processes record the error. */
    bool (*agree)(ct_checkpoint_group *group, cti_group_call call, int64_t stage, bool ok);
    /* Sends bytes, or the values of a tensor, from the first process to all. */
    void (*broadcast)(ct_checkpoint_group *group, void *data, size_t size);
    void (*broadcast_tensor)(ct_checkpoint_group *group, ct_tensor *tensor);
} cti_group_fns;

/* A group belongs to the client of one optimiser; it is the first member of the client's struct.
 * Two groups have the same processes if may_join accepts the one in a checkpoint of the other. */
struct ct_checkpoint_group {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    const cti_group_fns *fns;
    int number;    /* number of this process; 0: the first */
    bool several;  /* whether there are other processes */
    int64_t steps; /* number of steps of the client, which a checkpoint stores */
};

/* Returns whether this process reads and writes the file, as a process without a group does. */
static inline bool cti_group_is_first(const ct_checkpoint_group *group) {
    return !group || group->number == 0;
}
/* Agrees if there are other processes; otherwise returns `ok`. */
static inline bool cti_group_agree(ct_checkpoint_group *group, cti_group_call call, int64_t stage,
                                   bool ok) {
    return group && group->several ? group->fns->agree(group, call, stage, ok) : ok;
}

#endif
