/* Questions with choices, scored as EleutherAI's lm-evaluation-harness does: by the log-probability
 * of each choice's tokens behind the question.
 *
 * Which tokens these are: spaces at the end of the question go to the choice; the ids of question
 * and choice together, behind as many ids as the question has alone, are the choice's. The
 * post-processor's tokens are left out, but Gemma needs its BOS. An empty question is the BOS, or
 * without one the EOS. Ids that are too many lose their beginning. */
#include "evaluate.h"
#include "text_ids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    score_rows rows;
    int64_t ids, ids_room;
    int64_t *bytes; /* of the choice of each row */
    int64_t *first; /* the first row of each question, and the end of all rows */
    char *text;     /* [text_room] a question with a choice */
    size_t text_room;
    text_ids of;
    int64_t begin_id; /* stands for an empty question; -1: there is none */
    int64_t longest;  /* the most ids that the model reads; 0: any number */
} reading;

/* Adds the row of r->of, behind `begin` if it is an id, of which the last `scored` are the
 * choice's. */
static void add_row(reading *r, int64_t begin, int64_t scored_ids) {
    const int64_t n = r->of.n, all = n + (begin >= 0);
    if (r->ids + all > r->ids_room) {
        r->ids_room = 2 * r->ids_room + all + 1024;
        r->rows.ids = room_for(r->rows.ids, (size_t)r->ids_room, sizeof *r->rows.ids);
        r->rows.targets = room_for(r->rows.targets, (size_t)r->ids_room, sizeof *r->rows.targets);
    }
    int32_t *ids = r->rows.ids + r->ids, *targets = r->rows.targets + r->ids;
    if (begin >= 0) *ids++ = (int32_t)begin;
    for (int64_t t = 0; t < n; t++) ids[t] = (int32_t)r->of.ids[t];
    ids = r->rows.ids + r->ids;
    for (int64_t t = 0; t < all; t++) targets[t] = t + 1 < all ? ids[t + 1] : -100;
    /* the model reads all ids but the last */
    const int64_t cut = r->longest && all - 1 > r->longest ? all - 1 - r->longest : 0;
    const int64_t from = all - scored_ids - 1 > cut ? all - scored_ids - 1 - cut : 0;
    score_rows_add(&r->rows, (score_row){r->ids + cut, all - cut, from, 0, 0});
    r->ids += all;
}

/* Adds the row of a choice. The ids behind as many as the question has alone are the choice's. */
static void add_choice(const evaluation *e, reading *r, const ct_json_line *line,
                       const char *choice) {
    const char *between = option.delimiter ? option.delimiter : "";
    const size_t size = strlen(line->prompt) + strlen(between) + strlen(choice);
    size_t asked = strlen(line->prompt); /* without white space at its end */
    while (asked && strchr(" \t\n\r\v\f", line->prompt[asked - 1])) asked--;
    if (size + 1 > r->text_room) {
        r->text_room = 2 * size + 64;
        r->text = room_for(r->text, r->text_room, 1);
    }
    snprintf(r->text, r->text_room, "%s%s%s", line->prompt, between, choice);
    const ct_encode_opts opts = {.no_special = !asked || !e->bos, .plain = option.plain};
    if (asked) text_encode(&r->of, e->tokenizer, r->text, asked, opts, false);
    const int64_t before = asked ? r->of.n : 0;
    text_encode(&r->of, e->tokenizer, r->text, size, opts, false);
    const int64_t n = r->of.n;
    const bool begun = !asked && n && *r->of.ids == r->begin_id; /* the text begins with the BOS */
    if (!asked && r->begin_id < 0)
        fail(EXIT_USAGE, "%s:%lld: an empty question, and no token that begins a text", option.data,
             (long long)line->number);
    if (n <= before + begun)
        fail(EXIT_USAGE, "%s:%lld: the choice \"%s\" has no token of its own behind the question",
             option.data, (long long)line->number, choice);
    add_row(r, asked || begun ? -1 : r->begin_id, n - before - begun);
}

static void read_lines(evaluation *e, reading *r) {
    ct_json_lines *lines = ct_json_lines_open(e->context, option.data);
    for (ct_json_line line; ct_json_lines_next(lines, &line);) {
        if (!line.choices)
            fail(EXIT_USAGE, "%s:%lld: no choices, which the lines before have", option.data,
                 (long long)line.number);
        evaluation_add(e)->answer = line.answer;
        r->first = room_for(r->first, (size_t)e->n + 1, sizeof *r->first);
        r->first[e->n - 1] = r->rows.n;
        for (int64_t k = 0; k < line.n_choices; k++) {
            add_choice(e, r, &line, line.choices[k].content);
            r->bytes = room_for(r->bytes, (size_t)r->rows.n, sizeof *r->bytes);
            r->bytes[r->rows.n - 1] = (int64_t)strlen(line.choices[k].content);
        }
        r->first[e->n] = r->rows.n;
    }
    check(e->context, EXIT_USAGE);
    ct_json_lines_close(lines);
}

void evaluate_choices(evaluation *e) {
    const ct_lm_info about = ct_lm_about(e->lm);
    reading r = {.begin_id = ct_token_role(e->tokenizer, "bos_token"),
                 .longest = about.max_length > 0 ? about.max_length : 0};
    if (r.begin_id < 0) r.begin_id = ct_token_role(e->tokenizer, "eos_token");
    e->bos = flag_was_read("bos") ? option.bos : !strncmp(about.family, "gemma", 5);
    read_lines(e, &r);
    evaluation_run(e, &r.rows);
    for (int64_t i = 0; i < e->n; i++) {
        scored *unit = &e->unit[i];
        double best = -INFINITY, best_per_byte = -INFINITY;
        for (int64_t row = r.first[i]; row < r.first[i + 1]; row++) {
            const double logprob = -r.rows.row[row].nats;
            const double per_byte = logprob / (double)(r.bytes[row] ? r.bytes[row] : 1);
            if (logprob > best) best = logprob, unit->chosen = row - r.first[i];
            if (per_byte > best_per_byte)
                best_per_byte = per_byte, unit->chosen_per_byte = row - r.first[i];
        }
    }
    free(r.rows.ids), free(r.rows.targets), free(r.rows.row);
    free(r.first), free(r.bytes), free(r.text);
    text_ids_free(&r.of);
}
