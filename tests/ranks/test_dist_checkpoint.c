/* Checkpoints with a ct_dist: one file for any number of ranks, and a run that goes on with
 * another number. */
#include "dist_model.h"
#include "tests/support/files.h"

#include <unistd.h>

typedef struct {
    const plan *plan;
    const char *load, *save; /* NULL: neither */
    int steps;
    ct_status status[MOST_RANKS];
    int64_t step[MOST_RANKS];
    outcome out[MOST_RANKS];
} part;

/* Loads if it is to, goes on for some steps, and saves. Other ranks than 0 know no path. */
static void go_on(ct_context *c, ct_comm *comm, int rank, void *arg) {
    part *run = arg;
    const plan *p = run->plan;
    outcome *out = &run->out[rank];
    if (run->load) ct_seed(c, 1000); /* other values, other groups: the file has them */
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    ct_tensor *note = ct_full(c, CT_I64, CT_SHAPE(3), rank);
    ct_checkpoint checkpoint = {.module = m.root,
                                .optim = optim,
                                .group = ct_dist_group(dist),
                                .step = 40 + run->steps,
                                .tensors = &(ct_named){"note", note},
                                .n_tensors = 1};
    bool ok = !run->load || ct_checkpoint_load(rank ? NULL : run->load, &checkpoint);
    run->step[rank] = checkpoint.step;
    if (run->load && ok) ok = ct_item(ct_sum(note, CT_ALL, false)) == 0;
    for (int step = 0; ok && step < run->steps; step++) ok = model_step(&m, dist, p, &out->loss);
    if (ok && run->save) ok = ct_checkpoint_save(rank ? "not/there" : run->save, &checkpoint);
    out->hash = model_hash(m.root);
    out->steps = ct_dist_steps(dist);
    out->skipped = (int64_t)ct_rng_get(c).stream;
    run->status[rank] = ct_error(c);
    snprintf(out->message, sizeof out->message, "%s", ct_error_message(c));
    if (ok == (ct_error(c) != CT_OK)) strcpy(out->message, "a result without its error");
}

static void run_part(part *run, plan p) {
    run->plan = &p;
    thread_run(p.ranks, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = p.threads},
               go_on, run);
}

static part whole, piece;

static void check_equal(const part *a, const part *b, int ranks) {
    for (int r = 0; r < ranks; r++) {
        ck_assert_msg(!*b->out[r].message, "%s", b->out[r].message);
        ck_assert(a->out[0].hash == b->out[r].hash);
        ck_assert(a->out[0].steps == b->out[r].steps);
        ck_assert(a->out[0].skipped == b->out[r].skipped); /* the generator's stream */
    }
}

START_TEST(number_of_ranks_changes) {
    const plan plans[] = {
        {.threads = 1, .shares = 8, .micro_batches = 16, .rule = ADAMW, .clip = 1, .groups = true},
        {.threads = 2, .shares = 8, .micro_batches = 8, .rule = MOMENTUM, .bucket_bytes = 500},
        {.threads = 1, .shares = 8, .micro_batches = 8, .rule = SGD},
        {.threads = 1, .shares = 8, .micro_batches = 8, .rule = LION, .clip = 1},
        {.threads = 2, .shares = 8, .micro_batches = 8, .rule = NORMED, .groups = true},
        {.threads = 1, .shares = 8, .micro_batches = 8, .rule = MUON, .clip = 1, .groups = true},
        {.threads = 1, .shares = 8, .micro_batches = 8, .rule = ADAMW, .states = CT_BF16},
    };
    static const int ranks[] = {4, 1, 2, 8};
    plan p = plans[_i];
    const char *path[] = {strdup(in_folder("0")), strdup(in_folder("1"))};
    p.ranks = 2;
    whole = (part){.steps = 4};
    run_part(&whole, p);
    check_equal(&whole, &whole, 2);
    for (int k = 0; k < 4; k++) {
        p.ranks = ranks[k];
        piece = (part){.load = k ? path[(k + 1) % 2] : NULL, .save = path[k % 2], .steps = 1};
        run_part(&piece, p);
        for (int r = 0; r < p.ranks; r++) {
            ck_assert_msg(!*piece.out[r].message, "%s", piece.out[r].message);
            ck_assert_int_eq(piece.out[r].steps, k + 1);
            ck_assert_int_eq(piece.step[r], 41);
        }
    }
    check_equal(&whole, &piece, 8);
    free((char *)path[0]), free((char *)path[1]);
}
END_TEST

static char *bytes_of(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

/* Every rank writes the same bytes. */
START_TEST(file_knows_no_ranks) {
    plan p = {.threads = 1, .shares = 8, .micro_batches = 8, .rule = ADAMW, .groups = true};
    char path[2][600];
    for (p.ranks = 1; p.ranks <= 8; p.ranks *= 2) {
        const int at = p.ranks > 1;
        snprintf(path[at], sizeof path[at], "%s%d", in_folder(""), p.ranks);
        piece = (part){.save = path[at], .steps = 2};
        run_part(&piece, p);
        ck_assert_msg(!*piece.out[0].message, "%s", piece.out[0].message);
        if (!at) continue;
        size_t size[2];
        char *bytes[2] = {bytes_of(path[0], &size[0]), bytes_of(path[1], &size[1])};
        ck_assert(size[0] > 1000 && size[0] == size[1] && !memcmp(bytes[0], bytes[1], size[0]));
        free(bytes[0]), free(bytes[1]);
    }
}
END_TEST

int main(void) {
    return run_tests("dist_checkpoint", setup, teardown,
                     TESTS(LOOP(number_of_ranks_changes, 7), TEST(file_knows_no_ranks)));
}
