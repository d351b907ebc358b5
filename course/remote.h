/* The judge's side: what stands in a test for the student's code. The judge is the program of an
 * exercise's tests. It never runs a submission: it starts the program that holds it (sealed.h)
 * behind a seal (seal.h), asks it for numbers, and compares them with its own.
 *
 * The remote.c of an exercise defines the names of exercise.h, so a test is written as if the
 * student's code were linked with it:
 *
 *     const ct_op softmax = REMOTE_OP("softmax", 0);            an op
 *     void adamw_step(...) { remote_begin("adamw_step"); ... }  any other function
 *
 * A request is bounded by the seconds of work that are left of the test. A submission that dies,
 * takes too long, writes out of bounds, changes an input, or answers with what is no answer, ends
 * the test. */
#ifndef COURSE_REMOTE_H
#define COURSE_REMOTE_H

#include "wire.h"

#include <stdio.h>

/* ---- ops ---- */

/* An op whose forward and backward are the submission's. */
ct_tensor *remote_forward(ct_call *call);
bool remote_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad);
/* Whether a backward since the last call of this function has given a number that was never
 * written, or was computed from one. */
bool remote_unwritten(void);
/* The inputs, a bit each, of which a backward since the last call of this function has set a
 * gradient that was not wanted. */
unsigned remote_set_unwanted(void);
#define REMOTE_OP(its_name, size_of_attrs)                                                         \
    {.name = (its_name),                                                                           \
     .attrs_size = (size_of_attrs),                                                                \
     .forward = remote_forward,                                                                    \
     .backward = remote_backward,                                                                  \
     .flags = CT_OP_OPTIONAL}

/* Whether a forward that changes an input changes the judge's tensor: for a test that compares
 * them. Elsewhere the judge's stay as they are. Returns what held before. */
bool remote_allow_changes(bool allowed);

/* ---- other functions ---- */

/* Begins a request to a function of the adapter; arguments are put into the message. */
message *remote_begin(const char *function);
/* Sends the request, and returns the answer, of which the results are read; remote_end checks that
 * they were all there. If the function has left an error of the library pending, it is recorded in
 * `context`, and the result is NULL. */
message *remote_call(ct_context *context);
void remote_end(message *answer);

/* Does the same with a function that calls back: `back(called, reply, arg)` reads what the
 * submission calls, and puts the reply. */
typedef void (*remote_back)(message *called, message *reply, void *arg);
message *remote_call_with(ct_context *context, remote_back back, void *arg);

/* ---- what the judge knows of the submission ---- */

/* Bytes of tensors that the submission's context holds, and held at most; and the largest memory
 * of its process so far, which the system tells, or 0. */
typedef struct {
    int64_t live, peak;
    double process_peak;
} remote_memory_stats;
remote_memory_stats remote_memory(bool reset_peak);

/* Fills the guards around arrays with another set of numbers (1), or with the first again (0). */
void remote_guards(int set);

double remote_work(void); /* seconds of processor time that the submission has taken */
double judge_work(void);  /* the same of this program */
/* From now on a request ends the test with this sentence when the submission has worked for so
 * many seconds more; NULL: only the test's limit holds. */
void remote_limit(double seconds, const char *sentence);

/* Starts the submission of this program's test; of course.c. */
typedef struct {
    const char *program;
    unsigned long seconds, memory_mib;
    bool sealed, sanitized;
} remote_options;
void remote_start(const remote_options *options);
void remote_stop(void); /* the last look at guards; then the submission is ended */

/* Called when the submission of a test has been started. An exercise with constants fetches them;
 * the others need not define it. */
void remote_ready(void);

/* What ends a test (course.c): a mistake that the sealed program has found; a submission that is
 * no more, with its exit code or minus the signal that ended it, or late; an answer that is none.
 */
void course_end_as_found(const char *word, const char *sentence) __attribute__((noreturn));
void course_end_as_died(int code) __attribute__((noreturn));

#endif
