/* A tiny GPT trained by any number of ranks, with faults. `run` starts it, and compares the last
 * line of each rank: a hash of all parameters and of the summed losses.
 *
 *     train [steps=6] [threads=1] [micro=16] [shares=8] [bucket=0] [timeout=60] [save=PATH]
 *           [load=PATH] [at=STEP] [own=0] [fault=NAME] [by=RANK]
 *
 * `save` writes a checkpoint after each step, or with `at` only after that step. Rank `by` has the
 * fault, in step 3 if the fault belongs to a step. With own=1 the program starts and ends MPI
 * itself. */
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

enum { V = 65, T = 16, BATCH = 2, E = 32, LAYERS = 2, MAX_MICRO = 64, FAULTY = 3 };

typedef struct {
    const char *name, *value;
} option;
static option train_options[] = {{"steps", "6"},  {"threads", "1"}, {"micro", "16"},
                                 {"shares", "8"}, {"bucket", "0"},  {"timeout", "60"},
                                 {"save", ""},    {"load", ""},     {"at", "-1"},
                                 {"own", "0"},    {"fault", ""},    {"by", "1"}};
enum { N_OPTIONS = sizeof train_options / sizeof *train_options };

static ct_context *train_context;
static int train_rank = -1;
static ct_module *train_root, *train_wte, *train_wpe, *encoder;

static option *find_option(const char *text, size_t length) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(train_options[i].name) == length &&
            !strncmp(train_options[i].name, text, length))
            return &train_options[i];
    fprintf(stderr, "train: no option %s\n", text);
    exit(2);
}
static const char *text(const char *name) { return find_option(name, strlen(name))->value; }
static long long option_number(const char *name) { return atoll(text(name)); }
static bool faulty(const char *fault) {
    return !strcmp(text("fault"), fault) && option_number("by") == train_rank;
}

static int train_fail(void) {
    printf("rank %d: error: %s\n", train_rank, ct_error_message(train_context));
    fflush(stdout);
    return 1;
}

/* ---- the model ---- */

static void make_model(void) {
    int64_t width = faulty("shape") ? 2 * E : E;
    train_root = ct_module_new(train_context, "GPT");
    train_wte = ct_embedding_new(train_context,
                                 (ct_embedding_opts){.num_embeddings = V, .embedding_dim = width});
    train_wpe = ct_positions_new(
        train_context, (ct_positions_opts){.max_length = T, .embed_dim = width, .learned = true});
    ct_layer_opts layer = {.embed_dim = width,
                           .num_heads = 4,
                           .activation = CT_GELU,
                           .norm_first = true,
                           .dropout = 0.1};
    encoder = ct_encoder_new(train_context, layer, LAYERS, true);
    ct_module_add_child(train_root, faulty("name") ? "embedding" : "wte", train_wte);
    ct_module_add_child(train_root, "wpe", train_wpe);
    ct_module_add_child(train_root, "h", encoder);
}

/* An identity op whose backward fails. */
static ct_tensor *same(ct_call *c) { return ct_scale(c->in[0], 1); }
static bool train_refuse(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents, (void)grad;
    return ct_fail(c->context, CT_ERR_GRAD, "refuse: no gradient today");
}
static const ct_op refusing = {.name = "refuse", .forward = same, .backward = train_refuse};

/* Runs micro-batch i of a step, whose text is a function of both numbers. */
static double learn_text(int64_t step, int64_t i) {
    int64_t input[BATCH * T], target[BATCH * T];
    uint64_t x = (uint64_t)(step * MAX_MICRO + i) + 1;
    for (int j = 0; j < BATCH * T; j++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        input[j] = (int64_t)(x >> 33) % V;
        target[j] = (input[j] * 7 + 3) % V;
    }
    ct_scope scope = ct_scope_open(train_context);
    ct_tensor *in = ct_from_i64(train_context, CT_SHAPE(BATCH, T), input);
    ct_tensor *h = ct_encoder_forward(encoder, ct_forward(train_wpe, ct_forward(train_wte, in)),
                                      (ct_stack_call){.self = {.causal = true}});
    h = ct_reshape(h, CT_SHAPE(BATCH * T, -1));
    ct_tensor *loss = ct_linear_cross_entropy(
        h, ct_module_get(train_wte, "weight"),
        ct_from_i64(train_context, CT_SHAPE(BATCH * T), target), (ct_cross_entropy_opts){0});
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
    if (faulty("pending")) ct_fail(train_context, CT_ERR_IO, "cannot read the next text");
}

/* ---- training ---- */

static uint64_t hash(uint64_t h, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t hash_of_parameters(uint64_t h) {
    for (ct_param p = {0}; ct_module_next(train_root, &p);)
        h = hash(h, ct_data_f32(p.tensor), (size_t)ct_numel(p.tensor) * sizeof(float));
    return h;
}

static bool train(ct_optim *optim, ct_dist *dist) {
    int64_t steps = option_number("steps"), micro = option_number("micro");
    ct_checkpoint checkpoint = {.module = train_root, .optim = optim, .group = ct_dist_group(dist)};
    if (*text("load")) ct_checkpoint_load(text("load"), &checkpoint);
    if (faulty("more")) steps++;
    if (faulty("fewer")) steps = FAULTY;
    double sum = NAN;
    while (ct_error(train_context) == CT_OK && checkpoint.step < steps) {
        double losses[MAX_MICRO] = {0};
        for (int64_t i; ct_dist_next(dist, &i);) {
            fault_in(checkpoint.step);
            losses[i] = learn_text(checkpoint.step, i);
        }
        bool stepped = ct_dist_step(dist);
        ct_dist_sum(dist, losses, faulty("sum") ? micro - 1 : micro);
        sum = 0;
        for (int i = 0; i < micro; i++) sum += losses[i];
        if (stepped) checkpoint.step++;
        if (*text("save") && (option_number("at") < 0 || option_number("at") == checkpoint.step))
            ct_checkpoint_save(text("save"), &checkpoint);
    }
    /* A random number that is drawn between steps is equal on all ranks. */
    ct_rng rng = ct_rng_get(train_context);
    uint64_t h =
        hash_of_parameters(hash(hash(14695981039346656037u, &sum, sizeof sum), &rng, sizeof rng));
    if (ct_error(train_context) != CT_OK) return false;
    printf("rank %d: step %" PRId64 " loss %.4f hash %016" PRIx64 "\n", train_rank, checkpoint.step,
           sum / (double)micro, h);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (equals) find_option(argv[i], (size_t)(equals - argv[i]))->value = equals + 1;
    }
    if (option_number("own")) MPI_Init(NULL, NULL);
    train_context =
        ct_context_new((ct_context_opts){.seed = 7, .threads = (int)option_number("threads")});
    ct_comm *comm = ct_mpi_comm(train_context);
    train_rank = ct_comm_rank(comm);
    if (!comm) return train_fail();
    make_model();
    ct_optim *optim = ct_adamw_new(
        train_root,
        (ct_adamw_opts){.lr = faulty("lr") ? 0.02 : 0.01, .weight_decay = 0.1, .clip_norm = 1});
    ct_dist *dist = ct_dist_new(optim, comm,
                                (ct_dist_opts){.micro_batches = option_number("micro"),
                                               .shares = option_number("shares"),
                                               .bucket_bytes = option_number("bucket"),
                                               .timeout = (double)option_number("timeout")});
    bool good = train(optim, dist);
    int code = good ? 0 : train_fail();
    ct_context_free(train_context);
    if (option_number("own")) MPI_Finalize();
    return code;
}
