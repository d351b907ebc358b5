/* A tiny GPT trained by any number of ranks, and what may go wrong with one of them. `run` starts
 * it, and compares the last line of each rank, a hash of all parameters and of the summed losses.
 *
 *     train [steps=6] [threads=1] [micro=16] [shares=8] [bucket=0] [timeout=60] [save=PATH]
 *           [load=PATH] [at=STEP] [own=0] [fault=NAME] [by=RANK]
 *
 * `save` writes a checkpoint after each step, or with `at` after that one alone. A fault is that of
 * rank `by`, in step 3 where it has one. With own=1 the program starts and ends MPI itself. */
#include <cotangent/cotangent.h>
#include <cotangent/mpi.h>

#include <inttypes.h>
#include <mpi.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { V = 65, T = 16, B = 2, E = 32, LAYERS = 2, MAX_MICRO = 64, FAULTY = 3 };

typedef struct {
    const char *name, *value;
} option;
static option options[] = {{"steps", "6"},  {"threads", "1"},  {"micro", "16"}, {"shares", "8"},
                           {"bucket", "0"}, {"timeout", "60"}, {"save", ""},    {"load", ""},
                           {"at", "-1"},    {"own", "0"},      {"fault", ""},   {"by", "1"}};
enum { N_OPTIONS = sizeof options / sizeof *options };

static ct_context *context;
static int rank = -1;
static ct_module *root, *wte, *wpe, *blocks;

static option *find(const char *text, size_t length) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].name) == length && !strncmp(options[i].name, text, length))
            return &options[i];
    fprintf(stderr, "train: no option %s\n", text);
    exit(2);
}
static const char *text(const char *name) { return find(name, strlen(name))->value; }
static long long number(const char *name) { return atoll(text(name)); }
static bool faulty(const char *fault) {
    return !strcmp(text("fault"), fault) && number("by") == rank;
}

static int fail(void) {
    printf("rank %d: error: %s\n", rank, ct_error_message(context));
    fflush(stdout);
    return 1;
}

/* ---- the model ---- */

static void make(void) {
    int64_t width = faulty("shape") ? 2 * E : E;
    root = ct_module_new(context, "GPT");
    wte =
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = V, .embedding_dim = width});
    wpe = ct_positions_new(
        context, (ct_positions_opts){.max_length = T, .embed_dim = width, .learned = true});
    ct_layer_opts layer = {.embed_dim = width,
                           .num_heads = 4,
                           .activation = CT_GELU,
                           .norm_first = true,
                           .dropout = 0.1};
    blocks = ct_encoder_new(context, layer, LAYERS, true);
    ct_module_add_child(root, faulty("name") ? "embedding" : "wte", wte);
    ct_module_add_child(root, "wpe", wpe);
    ct_module_add_child(root, "h", blocks);
}

/* An op of the identity whose gradient is refused. */
static ct_tensor *same(ct_call *c) { return ct_scale(c->in[0], 1); }
static bool refuse(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents, (void)grad;
    return ct_fail(c->context, CT_ERR_GRAD, "refuse: no gradient today");
}
static const ct_op refusing = {.name = "refuse", .forward = same, .backward = refuse};

/* Micro-batch i of a step; text that is a function of both. */
static double learn(int64_t step, int64_t i) {
    int64_t input[B * T], target[B * T];
    uint64_t x = (uint64_t)(step * MAX_MICRO + i) + 1;
    for (int j = 0; j < B * T; j++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        input[j] = (int64_t)(x >> 33) % V;
        target[j] = (input[j] * 7 + 3) % V;
    }
    ct_scope scope = ct_scope_open(context);
    ct_tensor *in = ct_from_i64(context, CT_SHAPE(B, T), input);
    ct_tensor *h = ct_encoder_forward(blocks, ct_forward(wpe, ct_forward(wte, in)),
                                      (ct_stack_call){.self = {.causal = true}});
    h = ct_reshape(h, CT_SHAPE(B * T, -1));
    ct_tensor *loss = ct_linear_cross_entropy(h, ct_module_get(wte, "weight"),
                                              ct_from_i64(context, CT_SHAPE(B * T), target),
                                              (ct_cross_entropy_opts){0});
    if (step == FAULTY && faulty("backward")) loss = ct_apply(&refusing, &loss, 1, NULL);
    ct_backward(loss);
    double value = ct_item(loss);
    ct_scope_close(scope);
    return value;
}

/* ---- faults of a process ---- */

static void fault_in(int64_t step) {
    if (step != FAULTY) return;
    fflush(stdout);
    if (faulty("killed")) raise(SIGKILL);
    if (faulty("exit")) exit(3);
    if (faulty("slow")) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (faulty("stuck"))
        for (;;) pause();
    if (faulty("pending")) ct_fail(context, CT_ERR_IO, "cannot read the next text");
}

/* ---- training ---- */

static uint64_t hash(uint64_t h, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t hash_of_parameters(uint64_t h) {
    for (ct_param p = {0}; ct_module_next(root, &p);)
        h = hash(h, ct_data_f32(p.tensor), (size_t)ct_numel(p.tensor) * sizeof(float));
    return h;
}

static bool train(ct_optim *optim, ct_dist *dist) {
    int64_t steps = number("steps"), micro = number("micro");
    ct_checkpoint checkpoint = {.module = root, .optim = optim, .dist = dist};
    if (*text("load")) ct_checkpoint_load(text("load"), &checkpoint);
    if (faulty("more")) steps++;
    if (faulty("fewer")) steps = FAULTY;
    double sum = NAN;
    while (ct_error(context) == CT_OK && checkpoint.step < steps) {
        double losses[MAX_MICRO] = {0};
        for (int64_t i; ct_dist_next(dist, &i);) {
            fault_in(checkpoint.step);
            losses[i] = learn(checkpoint.step, i);
        }
        bool stepped = ct_dist_step(dist);
        ct_dist_sum(dist, losses, faulty("sum") ? micro - 1 : micro);
        sum = 0;
        for (int i = 0; i < micro; i++) sum += losses[i];
        if (stepped) checkpoint.step++;
        if (*text("save") && (number("at") < 0 || number("at") == checkpoint.step))
            ct_checkpoint_save(text("save"), &checkpoint);
    }
    /* A number that is drawn between steps is the same for all. */
    ct_rng rng = ct_rng_get(context);
    uint64_t h =
        hash_of_parameters(hash(hash(14695981039346656037u, &sum, sizeof sum), &rng, sizeof rng));
    if (ct_error(context) != CT_OK) return false;
    printf("rank %d: step %" PRId64 " loss %.4f hash %016" PRIx64 "\n", rank, checkpoint.step,
           sum / (double)micro, h);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (equals) find(argv[i], (size_t)(equals - argv[i]))->value = equals + 1;
    }
    if (number("own")) MPI_Init(NULL, NULL);
    context = ct_context_new((ct_context_opts){.seed = 7, .threads = (int)number("threads")});
    ct_comm *comm = ct_mpi_comm(context);
    rank = ct_comm_rank(comm);
    if (!comm) return fail();
    make();
    ct_optim *optim = ct_adamw_new(
        root,
        (ct_adamw_opts){.lr = faulty("lr") ? 0.02 : 0.01, .weight_decay = 0.1, .clip_norm = 1});
    ct_dist *dist = ct_dist_new(optim, comm,
                                (ct_dist_opts){.micro_batches = number("micro"),
                                               .shares = number("shares"),
                                               .bucket_bytes = number("bucket"),
                                               .timeout = (double)number("timeout")});
    bool good = train(optim, dist);
    int code = good ? 0 : fail();
    ct_context_free(context);
    if (number("own")) MPI_Finalize();
    return code;
}
