/* A run that survives a crash: checkpoints in a folder, a log with a line for each step, and a
 * profile on SIGUSR1. Started again with the same flags, a program continues from the newest
 * complete checkpoint, and ends with the same bits as a run that was never stopped.
 *
 * With several ranks all make the same calls. Only rank 0 has the folder and the log. */
#ifndef PROGRAMS_RUN_H
#define PROGRAMS_RUN_H

#include "common.h"
#include "run_log.h"

enum { RUN_ITEMS = 48, RUN_TEXT = 512 };

/* A number or a short text that checkpoints store beside the model and the optimiser. */
typedef struct {
    char name[40];
    void *number;  /* an int64_t, a double, or `text` */
    int64_t words; /* its size in units of 8 bytes; 1 for a number */
    char text[RUN_TEXT];
    bool whole; /* whether it is an int64_t */
    bool same; /* whether a resumed run must have the same number; if not, the number is restored */
    const char *choices; /* the words of a CHOICE flag; NULL for other numbers */
    ct_tensor *tensor;
} run_item;

typedef struct {
    /* Values of flags. If folder is NULL there are no checkpoints. If log_path is NULL, run_files
     * sets it to folder/log.jsonl if there is a folder; otherwise there is no log. */
    const char *folder, *log_path;
    long long every, keep;

    ct_context *context;
    ct_comm *world; /* the ranks; NULL: a single process */
    ct_dist *dist;  /* the optimiser's ct_dist; set before run_start */
    run_item items[RUN_ITEMS];
    int n_items;
    ct_checkpoint all;
    ct_named tensors[RUN_ITEMS];
    run_log log;
    int folder_fd; /* locked; -1: not open */
    int64_t text_bytes, text_hash, model_hash;
    double loss;      /* the last step's loss; distinguishes this run's log from another's */
    int64_t saved;    /* the step of the newest checkpoint; -1: there is none */
    int64_t *damaged; /* [n_damaged] steps of checkpoints that are not whole */
    int n_damaged;
} run;

/* ---- before the start: the numbers in checkpoints ---- */

/* Declares flags that change the result of the training, as names with spaces between them. A run
 * cannot be resumed with different values of these flags. */
void run_same_flags(run *r, const flag *flags, int n, const char *names);
/* A run cannot be resumed with another text under this name, which messages show. Longer texts than
 * RUN_TEXT are told apart by a hash. */
void run_same_words(run *r, const char *name, const char *text);
/* A run that is resumed must read the text that the checkpoint's run read. */
void run_same_text(run *r, const contents *text);
/* It must also read the same ids of that text. Called after run_same_text. */
void run_same_ids(run *r, const int32_t *ids, int64_t n);
/* It must also have the same model: the same description, and the same weights that are not
 * trained. Called when the program knows which parameters it trains. */
void run_same_model(run *r, const ct_module *module, const char *description);
void run_restore(run *r, const char *name, double *number);

/* Whether the folder has a checkpoint, whole or not; called after run_files. */
bool run_goes_on(const run *r);

/* Sets *number to what a checkpoint of the folder has under this name, if there is one. For numbers
 * that are needed before run_start, which the whole run has in common. Called after run_files. */
void run_peek(const run *r, const char *name, double *number);

/* Names the outputs of the run, makes its folder, and sets log_path; only rank 0 calls it. */
void run_files(run *r);

/* ---- the run. A function that fails prints a message and exits; the other ranks then lose this
 * rank */

bool run_is_first(const run *r); /* whether this rank is rank 0 */

/* Loads the newest complete checkpoint and returns its step. Prints the names of incomplete
 * checkpoints on stderr. Calls `each` with the lines of the log up to this step, and removes the
 * later lines from the log.
 *
 * If there is no checkpoint, saves a checkpoint of step 0, from which the run can be repeated, and
 * returns 0. A log that is not empty is then an error.
 *
 * It is an error if another run has locked the folder, or if a rank has other flags, another text
 * or other steps to save at than rank 0. If the checkpoint comes from a build or an instruction set
 * that rounds differently, a line on stderr reports it. */
int64_t run_start(run *r, ct_module *module, ct_optim *optim,
                  void (*each)(void *to, const log_line *line), void *to);
bool run_is_logged(const run *r);
void run_step(run *r,
              const log_line *line); /* appends the line, and saves a checkpoint if one is due */
/* Saves a checkpoint unless this step has one, and then removes all but the newest. */
void run_save(run *r, int64_t step);
void run_end(run *r);
/* Says how a run that was interrupted goes on, or that nothing is left of it unless `kept`: the
 * program has saved what there is. */
void run_say_interrupted(const run *r, int64_t step, bool kept);

/* ---- SIGUSR1 ---- */

void run_profile_catch(void);               /* SIGUSR1 does not end the program from now on */
void run_profile_show(ct_context *context); /* prints the profile if a SIGUSR1 has arrived */

#endif
