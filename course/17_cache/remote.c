/* The names of exercise.h, which stand for the submission's. The weights stay here: each product is
 * a call back, which the model of the test computes and counts. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"
#include "draws.h"

struct cache {
    int64_t number; /* the submission's name of it */
    const model *m;
};

static int width_of_input(const model *m, weight w) { return w == DOWN ? m->hidden : m->width; }
static int width_of_output(const model *m, weight w) {
    return w == UP ? m->hidden : w == LOGITS ? m->vocabulary : m->width;
}

static double *room_for(int rows, int columns) {
    double *x = malloc((size_t)rows * (size_t)columns * sizeof *x);
    if (!x) course_fail("the test has no memory");
    return x;
}

static void embed_back(const model *m, message *called, message *reply) {
    enum { MOST = 1024 };
    int tokens[MOST];
    const int64_t first = get_number(called), n = get_number(called);
    if (n < 1 || n > m->context || n > MOST || first < 0 || first > m->context - n ||
        !get_items(called, tokens, (size_t)n * sizeof *tokens)) {
        called->broken = true;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->vocabulary) called->broken = true;
    if (called->broken) return;
    double *x = room_for((int)n, m->width);
    m->embed(tokens, (int)first, (int)n, x);
    put_array(reply, x, n * m->width);
    free(x);
}

static void multiply_back(const model *m, message *called, message *reply) {
    const int64_t number = get_number(called), layer = get_number(called), n = get_number(called);
    if (number < 0 || number >= WEIGHTS || layer < 0 || layer >= m->layers || n < 1 ||
        n > m->context) {
        called->broken = true;
        return;
    }
    const weight w = (weight)number;
    const int64_t in = width_of_input(m, w), out = width_of_output(m, w);
    double *x = room_for((int)n, (int)(in + out)), *y = x + n * in;
    if (get_array(called, x, n * in)) {
        m->multiply(w, (int)layer, (int)n, x, y);
        put_array(reply, y, n * out);
    }
    free(x);
}

static void call(message *called, message *reply, void *arg) {
    char which[16];
    if (strcmp(get_text(called, which, sizeof which), "embed") == 0) embed_back(arg, called, reply);
    else multiply_back(arg, called, reply);
}

static message *ask_model(const model *m) {
    return remote_call_with(NULL, call, (void *)(uintptr_t)m);
}

static void put_model(message *to, const model *m) {
    put_number(to, m->vocabulary), put_number(to, m->width), put_number(to, m->heads);
    put_number(to, m->layers), put_number(to, m->hidden), put_number(to, m->context);
}

cache *cache_new(const model *m) {
    put_model(remote_begin("cache_new"), m);
    message *got = ask_model(m);
    const int64_t number = get_number(got);
    remote_end(got);
    cache *c = number < 0 ? NULL : calloc(1, sizeof *c);
    if (c) c->number = number, c->m = m;
    return c;
}

void cache_free(cache *c) {
    put_number(remote_begin("cache_free"), c->number);
    remote_end(remote_call(NULL));
    free(c);
}

void cache_extend(cache *c, const int *tokens, int n, double *logits) {
    message *to = remote_begin("cache_extend");
    put_number(to, c->number), put_bytes(to, tokens, (size_t)n * sizeof *tokens);
    put_array(to, logits, c->m->vocabulary);
    message *got = ask_model(c->m);
    get_array(got, logits, c->m->vocabulary);
    remote_end(got);
}

void cache_rewind(cache *c, int length) {
    message *to = remote_begin("cache_rewind");
    put_number(to, c->number), put_number(to, length);
    remote_end(ask_model(c->m));
}

void sample_all(const double *logits, int n, double temperature, int top_k, const double *u,
                int count, int *tokens) {
    message *to = remote_begin("sample");
    put_array(to, logits, n), put_f64(to, temperature), put_number(to, top_k);
    put_array(to, u, count);
    message *got = remote_call(NULL);
    get_items(got, tokens, (size_t)count * sizeof *tokens);
    remote_end(got);
}
int sample(const double *logits, int n, double temperature, int top_k, double u) {
    int token;
    sample_all(logits, n, temperature, top_k, &u, 1, &token);
    return token;
}

void generate(const model *m, const int *prompt, int n, int count, double temperature, int top_k,
              const double *u, int *tokens) {
    message *to = remote_begin("generate");
    put_model(to, m), put_bytes(to, prompt, (size_t)n * sizeof *prompt);
    put_f64(to, temperature), put_number(to, top_k), put_array(to, u, count);
    put_bytes(to, tokens, (size_t)count * sizeof *tokens);
    message *got = ask_model(m);
    get_items(got, tokens, (size_t)count * sizeof *tokens);
    remote_end(got);
}
