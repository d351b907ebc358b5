/* Labelled texts for classifiers: lines of JSON or of CSV.
 *
 *     {"text": "...", "label": "name"}           a number of a label, a list of labels, or a number
 *                                                with a point, for regression
 *     {"tokens": ["a", "b"], "tags": ["X", "O"]}   a label for each word
 *     text,label                                 CSV (RFC 4180), whose first line has the names of
 *                                                its columns */
#ifndef PROGRAMS_LABELLED_H
#define PROGRAMS_LABELLED_H

#include <cotangent/cotangent.h>

typedef enum { LABELLED_SEQUENCES = 1, LABELLED_TOKENS } labelled_task;

/* What the labels of texts are: one each, any number of them, or a real number. */
typedef enum { LABELLED_ONE, LABELLED_SEVERAL, LABELLED_REAL } labelled_kind;

/* A label as the file spells it. */
typedef struct {
    char *text;
    bool is_number;
} labelled_word;

typedef struct {
    char *text;           /* words of tokens stand in it with a space between them */
    int64_t *word, words; /* [words] the first byte of each word of tokens */
    labelled_word *labels;
    int64_t n_labels;
    int64_t *ids; /* [n_labels] after labelled_resolve */
    double real;  /* of LABELLED_REAL */
    int64_t line;
} labelled_text;

typedef struct {
    const char *path;
    labelled_task task;
    labelled_kind kind;
    labelled_text *texts; /* [n] */
    int64_t n, room;
    char **names; /* [n_names] after labelled_resolve */
    int64_t n_names;
} labelled;

/* Reads a file. Prints a message with the line and exits if it is not as described above. */
labelled labelled_read(const char *path, labelled_task task);
/* Reads the labels as those of another kind: one label is a list of one, and it is a number if it
 * looks like one. Returns false if they are not of that kind. Called before labelled_resolve. */
bool labelled_become(labelled *l, labelled_kind kind);
/* Gives each label its id: its place among n names. names NULL: those of the data, sorted; or if
 * these are numbers 0, 1, ..., the names LABEL_0, LABEL_1, ... . With names, a number that is no
 * name is an id. A label that is not among them is an error with the line. */
void labelled_resolve(labelled *l, const char *const *names, int64_t n);
/* Moves every k-th text to the result, which then has about this part of them. */
labelled labelled_hold_out(labelled *l, double part);
void labelled_free(labelled *l);

#endif
