/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

/* The judge's names of caches are numbers from 0 on. Each has a model of its own, which says the
 * same as the others. */
enum { MOST_CACHES = 256 };
static struct {
    cache *cache;
    model model;
} caches[MOST_CACHES];
static int cache_count;
static const model *current; /* the model of the request */
static message call;

static void check_call(bool right, const char *format, long long given, long long most) {
    char sentence[256];
    if (right) return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(sentence, sizeof sentence, format, given, most);
#pragma GCC diagnostic pop
    sealed_says("wrong call of the model", "wrong call of the model: %s", sentence);
}

static void embed(const int *tokens, int first, int n, double *x) {
    check_call(n >= 1 && n <= current->context, "embed of %lld rows, and there may be 1 to %lld", n,
               current->context);
    check_call(first >= 0 && first <= current->context - n,
               "embed at position %lld, and the last is %lld", first, current->context - n);
    for (int i = 0; i < n; i++)
        check_call(tokens[i] >= 0 && tokens[i] < current->vocabulary,
                   "embed of token %lld, and the last is %lld", tokens[i], current->vocabulary - 1);
    message_clear(&call);
    put_text(&call, "embed"), put_number(&call, first), put_number(&call, n);
    put_bytes(&call, tokens, (size_t)n * sizeof *tokens);
    get_array(sealed_call_back(&call), x, (int64_t)n * current->width);
}

static void multiply(weight w, int layer, int n, const double *x, double *y) {
    check_call(n >= 1 && n <= current->context,
               "multiply with %lld rows, and there may be 1 to %lld", n, current->context);
    check_call(layer >= 0 && layer < current->layers,
               "multiply of layer %lld, and the last is %lld", layer, current->layers - 1);
    check_call((int)w >= 0 && w < WEIGHTS, "multiply with weight %lld, and the last is %lld",
               (long long)w, WEIGHTS - 1);
    const int64_t in = w == DOWN ? current->hidden : current->width, out = w == UP ? current->hidden
                                                                           : w == LOGITS
                                                                               ? current->vocabulary
                                                                               : current->width;
    message_clear(&call);
    put_text(&call, "multiply"), put_number(&call, w), put_number(&call, layer);
    put_number(&call, n), put_array(&call, x, n * in);
    get_array(sealed_call_back(&call), y, n * out);
}

static model get_model(message *in) {
    model m = {.embed = embed, .multiply = multiply};
    m.vocabulary = (int)get_number(in), m.width = (int)get_number(in);
    m.heads = (int)get_number(in), m.layers = (int)get_number(in);
    m.hidden = (int)get_number(in), m.context = (int)get_number(in);
    return m;
}

static cache *cache_of(message *in, int *which) {
    const int64_t number = get_number(in);
    if (number < 0 || number >= cache_count) sealed_give_up();
    *which = (int)number;
    current = &caches[number].model;
    return caches[number].cache;
}

static void call_new(ct_context *context, message *in, message *out) {
    (void)context;
    if (cache_count == MOST_CACHES) sealed_give_up();
    caches[cache_count].model = get_model(in);
    current = &caches[cache_count].model;
    cache *made = cache_new(current);
    caches[cache_count].cache = made;
    put_number(out, made ? cache_count++ : -1);
}

static void call_free(ct_context *context, message *in, message *out) {
    int which;
    cache *c = cache_of(in, &which);
    (void)context, (void)out;
    cache_free(c);
    caches[which].cache = NULL;
}

static void call_extend(ct_context *context, message *in, message *out) {
    int which;
    int64_t n, vocabulary;
    cache *c = cache_of(in, &which);
    const int *tokens = sealed_items("tokens", in, sizeof *tokens, true, &n);
    double *logits = sealed_array("logits", in, &vocabulary);
    (void)context;
    cache_extend(c, tokens, (int)n, logits);
    put_array(out, logits, vocabulary);
}

static void call_rewind(ct_context *context, message *in, message *out) {
    int which;
    cache *c = cache_of(in, &which);
    (void)context, (void)out;
    cache_rewind(c, (int)get_number(in));
}

/* One token for each u. */
static void call_sample(ct_context *context, message *in, message *out) {
    int64_t n, count;
    const double *logits = sealed_input("logits", in, &n);
    const double temperature = get_f64(in);
    const int top_k = (int)get_number(in);
    const double *u = sealed_input("u", in, &count);
    int *tokens = malloc((size_t)count * sizeof *tokens + 1);
    (void)context;
    if (!tokens) sealed_give_up();
    for (int64_t i = 0; i < count; i++)
        tokens[i] = sample(logits, (int)n, temperature, top_k, u[i]);
    put_bytes(out, tokens, (size_t)count * sizeof *tokens);
    free(tokens);
}

static void call_generate(ct_context *context, message *in, message *out) {
    int64_t n, count;
    const model m = get_model(in);
    const int *prompt = sealed_items("prompt", in, sizeof *prompt, true, &n);
    const double temperature = get_f64(in);
    const int top_k = (int)get_number(in);
    const double *u = sealed_input("u", in, &count);
    int *tokens = sealed_items("tokens", in, sizeof *tokens, false, &count);
    (void)context;
    current = &m;
    generate(&m, prompt, (int)n, (int)count, temperature, top_k, u, tokens);
    current = NULL;
    put_bytes(out, tokens, (size_t)count * sizeof *tokens);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"cache_new", call_new},
                                            {"cache_free", call_free},
                                            {"cache_extend", call_extend},
                                            {"cache_rewind", call_rewind},
                                            {"sample", call_sample},
                                            {"generate", call_generate},
                                            {NULL, NULL}};
