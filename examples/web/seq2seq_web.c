/* The functions of examples/web/seq2seq.js: seq2seq.c's task and model, a step at a time. Those
 * that return several numbers return the address of an array. */
#include "../../programs/common.h"
#include "../seq2seq_model.h"

#define EXPORT(type, name, ...)                                                                    \
    __attribute__((export_name(#name))) type name(__VA_ARGS__);                                    \
    type name(__VA_ARGS__)

enum { STEPS = 600 };

static struct {
    ct_context *context;
    model model;
    ct_optim *optim;
    bool sort;
    int step;
    double exact;
    sequence tests[TESTS];
    int64_t said[TESTS][T];
    double weights[T * S];
    double shown[3 * T]; /* the test that is drawn: its digits, its answer, what was written */
} web;

/* Begins anew; returns how many parameters the model has. */
EXPORT(int, web_begin, unsigned seed, int sort) {
    ct_context_free(web.context);
    web.context = ct_context_new((ct_context_opts){.seed = seed, .threads = 1});
    check(web.context, EXIT_FAILED);
    web.model = make_model(web.context);
    web.optim = make_optim(&web.model);
    check(web.context, EXIT_FAILED);
    web.sort = sort != 0;
    web.step = 0;
    return (int)ct_module_count(web.model.root);
}

EXPORT(int, web_steps, void) { return STEPS; }

/* Trains one step; returns its loss. */
EXPORT(double, web_step, void) {
    ct_optim_set_lr(web.optim, learning_rate(web.step, STEPS));
    web.step++;
    return train_step(web.context, &web.model, web.optim, web.sort, &web.exact);
}

/* The share of the last step's sequences with every token right. */
EXPORT(double, web_exact, void) { return web.exact; }

/* How many of n sequences, at most TESTS, that training never sees, are answered exactly. */
EXPORT(int, web_test, int n) {
    if (n > TESTS) n = TESTS;
    for (int i = 0; i < n; i++) web.tests[i] = draw_sequence(web.context, web.sort, true);
    ct_module_train(web.model.root, false);
    write_answers(web.context, &web.model, web.tests, n, web.said[0]);
    ct_module_train(web.model.root, true);
    int right = 0;
    for (int i = 0; i < n; i++) right += is_right(&web.tests[i], web.said[i]);
    return right;
}

/* Attention while one sequence is written, chosen by web_show: (length + 1, length). */
EXPORT(const double *, web_attention, void) { return web.weights; }

/* Answers one sequence, the same at each call, for web_attention and web_shown; returns how many
 * digits it has. It is one of the sequences that training never sees. */
EXPORT(int, web_show, void) {
    static const sequence s = {.length = 9, .digits = {9, 2, 5, 3, 8, 4, 0, 1, 7}};
    sequence drawn = s;
    set_answer(&drawn, web.sort);
    int64_t said[T];
    ct_module_train(web.model.root, false);
    write_answers(web.context, &web.model, &drawn, 1, said);
    attention_of(web.context, &web.model, &drawn, web.weights);
    ct_module_train(web.model.root, true);
    for (int i = 0; i < T; i++) {
        web.shown[i] = i < drawn.length ? (double)drawn.digits[i] : -1;
        web.shown[T + i] = i < drawn.length ? (double)drawn.answer[i] : END;
        web.shown[2 * T + i] = (double)said[i];
    }
    return drawn.length;
}

/* Three rows of T numbers: its digits, its answer, what the model writes; 11 is the end. */
EXPORT(const double *, web_shown, void) { return web.shown; }
