/* Steps of a GPT, by the ordinary loop or by ct_dist. For each number on rank 0's stdin it runs
 * that many steps and prints a line of JSON, so a script can run two such programs alternately:
 *
 *     echo 3 | build/mpi/steps char_baby plain threads=2 batch=8 micro=2
 *     echo 3 | mpiexec -n 2 build/mpi/steps char_baby dist threads=1 batch=8 micro=2 shares=2
 *
 * "cpu" is the processor time of all ranks. A step has `micro` micro-batches of `batch` windows of
 * `length` tokens. */
#include <cotangent/cotangent.h>
#include <cotangent/mpi.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LAYERS = 12 };

typedef struct {
    const char *name;
    int64_t layers, heads, width, vocabulary, length, positions;
} gpt_size;
static const gpt_size sizes[] = {
    {"toy", 2, 4, 64, 16, 32, 32},
    {"char_baby", 6, 6, 384, 65, 256, 256},
    {"gpt2_124m", 12, 12, 768, 50257, 64, 1024},
};

static gpt_size size;
static int64_t n_threads = 1, batch = 8, micro = 1, shares = 1, *tokens;
static ct_context *bench_context;
static ct_module *root, *wte, *wpe, *h[MAX_LAYERS], *final_norm;

static void make_gpt(void) {
    root = ct_module_new(bench_context, "GPT");
    ct_layer_opts layer = {.embed_dim = size.width,
                           .num_heads = size.heads,
                           .activation = CT_GELU,
                           .norm_first = true};
    ct_embedding_opts embedding = {.num_embeddings = size.vocabulary, .embedding_dim = size.width};
    ct_positions_opts positions = {
        .max_length = size.positions, .embed_dim = size.width, .learned = true};
    wte = ct_module_add_child(root, "wte", ct_embedding_new(bench_context, embedding));
    wpe = ct_module_add_child(root, "wpe", ct_positions_new(bench_context, positions));
    for (int64_t i = 0; i < size.layers; i++)
        h[i] = ct_module_append(root, "h", ct_encoder_layer_new(bench_context, layer));
    ct_layer_norm_opts last = {.dim = size.width};
    final_norm = ct_module_add_child(root, "ln_f", ct_layer_norm_new(bench_context, last));
    int64_t n = batch * size.length;
    tokens = ct_data_i64(ct_empty(bench_context, CT_I64, CT_SHAPE(n + 1)));
    for (int64_t i = 0; i <= n; i++) tokens[i] = i * i % 7919 % size.vocabulary;
}

/* The loss of a micro-batch, times scale in backward. */
static double run_micro_batch(double scale) {
    int64_t n = batch * size.length;
    ct_scope scope = ct_scope_open(bench_context);
    ct_tensor *x = ct_from_i64(bench_context, CT_SHAPE(batch, size.length), tokens);
    x = ct_forward(wpe, ct_forward(wte, x));
    for (int64_t i = 0; i < size.layers; i++)
        x = ct_encoder_layer_forward(h[i], x, (ct_mha_call){.causal = true}).out;
    x = ct_reshape(ct_forward(final_norm, x), CT_SHAPE(n, size.width));
    ct_tensor *loss = ct_linear_cross_entropy(x, ct_module_get(wte, "weight"),
                                              ct_from_i64(bench_context, CT_SHAPE(n), tokens + 1),
                                              (ct_cross_entropy_opts){0});
    ct_backward(scale == 1 ? loss : ct_scale(loss, scale));
    double value = ct_item(loss);
    ct_scope_close(scope);
    return value;
}

static double step_plain(ct_optim *optim) {
    double loss = 0;
    ct_optim_zero_grad(optim);
    for (int64_t i = 0; i < micro; i++) loss += run_micro_batch(1 / (double)micro);
    ct_optim_step(optim);
    return loss / (double)micro;
}

static double step_dist(ct_dist *dist) {
    double loss = 0;
    for (int64_t i; ct_dist_next(dist, &i);) loss += run_micro_batch(1);
    ct_dist_step(dist);
    ct_dist_sum(dist, &loss, 1);
    return loss / (double)micro;
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    bool plain = argc > 2 && !strcmp(argv[2], "plain"), mpi = false;
    for (size_t i = 0; argc > 2 && i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(argv[1], sizes[i].name)) size = sizes[i];
    for (int i = 3; i < argc; i++) {
        long long value = 0;
        char name[16];
        if (sscanf(argv[i], "%15[a-z]=%lld", name, &value) != 2) size.layers = 0;
        else if (!strcmp(name, "threads")) n_threads = value;
        else if (!strcmp(name, "batch")) batch = value;
        else if (!strcmp(name, "micro")) micro = value;
        else if (!strcmp(name, "shares")) shares = value;
        else if (!strcmp(name, "length")) size.length = value;
        else if (!strcmp(name, "mpi")) mpi = value;
        else size.layers = 0;
    }
    if (!size.layers)
        return fprintf(stderr, "usage: steps toy|char_baby|gpt2_124m plain|dist [threads=1] "
                               "[batch=8] [micro=1] [shares=1] [length=...] [mpi=1]\n"),
               2;

    bench_context = ct_context_new(
        (ct_context_opts){.seed = 1, .threads = (int)n_threads, .on_error = ct_error_die});
    ct_comm *comm = mpi ? ct_mpi_comm(bench_context) : NULL;
    make_gpt();
    ct_optim *optim = ct_adamw_new(
        root, (ct_adamw_opts){
                  .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .clip_norm = 1});
    ct_dist *dist = NULL;
    if (!plain)
        dist = ct_dist_new(optim, comm, (ct_dist_opts){.micro_batches = micro, .shares = shares});
    double parameters = 0;
    for (ct_param p = {0}; ct_module_next(root, &p);) parameters += (double)ct_numel(p.tensor);
    for (;;) {
        char line[64];
        double steps = 0, loss = NAN;
        if (ct_comm_rank(comm) == 0 && fgets(line, sizeof line, stdin)) steps = atof(line);
        if (dist) ct_dist_sum(dist, &steps, 1);
        if (steps < 1) break;
        double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < (int)steps; i++) loss = plain ? step_plain(optim) : step_dist(dist);
        double seconds = now(CLOCK_MONOTONIC) - start;
        cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        ct_dist_traffic sent = ct_dist_sent(dist);
        if (dist) ct_dist_sum(dist, &cpu, 1);
        if (ct_comm_rank(comm) != 0) continue;
        printf("{\"ranks\": %d, \"steps\": %.0f, \"seconds\": %.6f, \"cpu\": %.6f, \"loss\": %.9g, "
               "\"parameters\": %.0f, \"gradients\": %lld, \"parameters_sent\": %lld, \"other\": "
               "%lld}\n",
               ct_comm_size(comm), steps, seconds, cpu, loss, parameters, (long long)sent.gradients,
               (long long)sent.parameters, (long long)sent.other);
        fflush(stdout);
    }
    ct_context_free(bench_context);
    return 0;
}
