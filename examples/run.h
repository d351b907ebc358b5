/* A run that cannot be lost: checkpoints in a folder, a log with a line for each step, and what
 * SIGUSR1 asks for. A program that is started again with the same flags goes on from the newest
 * checkpoint that is whole, and ends with the same bits as one that was never stopped.
 *
 * Where several ranks train, all make the same calls. Rank 0 alone has the folder and the log. */
#ifndef EXAMPLES_RUN_H
#define EXAMPLES_RUN_H

#include "common.h"
#include "run_log.h"

enum { RUN_ITEMS = 48 };

/* A number in the checkpoints beside model and optimiser. */
typedef struct {
    char name[40];
    void *number;      /* an int64_t or a double */
    bool whole;        /* it is an int64_t */
    bool same;         /* it must be the same when the run goes on; else it is restored */
    const char *words; /* of a flag that is one of some words; else NULL */
    ct_tensor *tensor;
} run_item;

typedef struct {
    /* What flags say: NULL folder: no checkpoints; NULL log_path: folder/log.jsonl, or no log, once
     * run_files has been called. */
    const char *folder, *log_path;
    long long every, keep;

    ct_context *context;
    ct_comm *world; /* the ranks; NULL: this process alone */
    ct_dist *dist;  /* of the optimiser; set before run_start */
    run_item items[RUN_ITEMS];
    int n_items;
    ct_checkpoint all;
    ct_named tensors[RUN_ITEMS];
    run_log log;
    int folder_fd; /* locked; -1: not open */
    int64_t text_bytes, text_hash;
    double loss;      /* of the last step; tells this run's log from another's */
    int64_t saved;    /* the step of the newest checkpoint; -1: there is none */
    int64_t *damaged; /* [n_damaged] steps of checkpoints that are not whole */
    int n_damaged;
} run;

/* ---- before the start: the numbers in checkpoints ---- */

/* Flags that decide what is learned, by their names with spaces between them. A run does not go on
 * with others. */
void run_same_flags(run *r, const flag *flags, int n, const char *names);
void run_same_text(run *r, const contents *text); /* nor with another text */
void run_restore(run *r, const char *name, double *number);

/* Names the outputs of the run, makes its folder, and sets log_path; of rank 0 only. */
void run_files(run *r);

/* ---- the run. Each fails with a message, on one rank too: the others see that it has left ---- */

bool run_is_first(const run *r); /* whether this is rank 0 */

/* Loads the newest checkpoint that is whole, says on stderr which are not, hands the lines of the
 * log up to there to `each`, and cuts the log behind. Returns the step after which the run goes on.
 * Where there is no checkpoint it makes one of step 0, so that the run begins the same way again,
 * and returns 0; a log that is there then is not written over. A folder that another run has locked
 * is refused. A rank whose flags or text are not
 * those of rank 0, or that saves at other steps, is an error on all. Where the checkpoint was saved
 * by a build or an instruction set that rounds otherwise, a line on stderr says so. */
int64_t run_start(run *r, ct_module *module, ct_optim *optim,
                  void (*each)(void *to, const log_line *line), void *to);
bool run_is_logged(const run *r);
void run_step(run *r, const log_line *line); /* appends the line; saves every so many steps */
/* Saves a checkpoint unless there is one of this step, and then removes all but the newest. */
void run_save(run *r, int64_t step);
void run_end(run *r);

/* ---- SIGUSR1 ---- */

void run_profile_catch(void);               /* from here on the signal does not kill */
void run_profile_show(ct_context *context); /* prints the profile so far, if it was asked for */

#endif
