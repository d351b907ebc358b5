/* A submission's side: the program that holds the student's code and nothing that a mark depends
 * on. sealed.c has main, which answers the judge's requests on descriptor 3, one after the other.
 * The sealed.c of an exercise is its adapter: it names what a request may ask for.
 *
 * The program has the core of the library, but not what the judge compares with. Whatever the code
 * in it does, it can only answer with numbers, and the judge (remote.h) tells whether they are
 * right. */
#ifndef COURSE_SEALED_H
#define COURSE_SEALED_H

#include "wire.h"

/* An op of the exercise, or a function of tensors that the tape differentiates: one of the two. */
typedef struct {
    const char *name;
    const ct_op *op;
    ct_tensor *(*function)(ct_tensor *const *in, int n, const void *attrs);
} sealed_op;

/* Any other function: it reads its arguments from a request, and writes its results. */
typedef struct {
    const char *name;
    void (*call)(ct_context *context, message *in, message *out);
} sealed_function;

/* The exercise's tables. Each ends with a row that has no name. */
extern const sealed_op sealed_ops[];
extern const sealed_function sealed_functions[];

/* The next array of a request, between guards, which are looked at after the request. The student's
 * function may only read an input; *n is the number of its numbers. */
const double *sealed_input(const char *name, message *in, int64_t *n);
double *sealed_array(const char *name, message *in, int64_t *n);

/* Puts a sentence about what is written out of bounds of this array, or an empty text, and puts its
 * guards right: the judge then decides what it costs, where it would end the test. */
void sealed_put_beside(const char *name, message *out);
/* Of elements of any size, which the student's function may write to unless they are constant. */
void *sealed_items(const char *name, message *in, size_t element, bool constant, int64_t *n);

/* Calls back: sends `back`, a name and arguments, and returns what the judge answers. The answer is
 * read at once: the next call of this function replaces it. */
message *sealed_call_back(message *back);

/* Ends the program: a request that no judge sends, or no memory for the answer. */
void sealed_give_up(void) __attribute__((noreturn));

/* Answers this request with a mistake, and does not return. `word` is the kind of mistake. */
void sealed_says(const char *word, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#endif
