/* Batches of token files against a naive reference: every window once an epoch, in an order that
 * seed and epoch fix. */
#include "token_files.h"

#include <fcntl.h>

#include "ext/data/shuffle.h"
#include "src/kernels/philox_block.h"

/* ---- the permutation ---- */

/* The known answers of Random123, the authors' own library. */
START_TEST(philox) {
    static const struct {
        uint64_t key;
        uint32_t counter[4], block[4];
    } known[] = {
        {0, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t c[4];
        memcpy(c, known[i].counter, sizeof c);
        philox_block(known[i].key, c);
        ck_assert(!memcmp(c, known[i].block, sizeof c));
    }
}
END_TEST

START_TEST(shuffle_is_a_permutation) {
    static bool seen[5000];
    for (int64_t n = 1; n <= 4100; n += n < 300 ? 1 : 950) {
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = cti_index_shuffle(3, 5, n, i);
            ck_assert(to >= 0 && to < n && !seen[to]);
            seen[to] = true;
        }
    }
    for (int64_t n = INT64_MAX; n > 2; n = n / 3 * 2) {
        for (int64_t k = 0; k < 5; k++) {
            const int64_t to = cti_index_shuffle(1, 1, n, n / 5 * k);
            ck_assert(to >= 0 && to < n);
        }
    }
}
END_TEST

/* All permutations of n items are equally frequent over epochs, and over seeds. */
START_TEST(shuffle_is_uniform) {
    enum { EACH = 100 };
    for (int n = 2; n <= 5; n++) {
        int count[120] = {0}, permutations = 1;
        for (int i = 2; i <= n; i++) permutations *= i;
        const int runs = EACH * permutations;
        for (int run = 0; run < 2 * runs; run++) {
            const bool seeds = run % 2;
            int64_t to[5];
            int code = 0;
            for (int i = 0; i < n; i++) {
                to[i] =
                    cti_index_shuffle(seeds ? (uint64_t)run : 11, seeds ? 2 : (uint64_t)run, n, i);
                int less = 0;
                for (int j = 0; j < i; j++) less += to[j] < to[i];
                code = code * (i + 1) + less;
            }
            count[code]++;
        }
        double chi = 0;
        for (int p = 0; p < permutations; p++)
            chi += (count[p] - 2.0 * EACH) * (count[p] - 2.0 * EACH) / (2.0 * EACH);
        /* mean and variance of chi squared are its degrees of freedom d, and 2 d */
        const double d = permutations - 1;
        ck_assert_msg((chi - d) * (chi - d) < 16 * 2 * d, "n = %d: chi squared %g", n, chi);
    }
}
END_TEST

/* The new place of an item is not correlated with its old place, old neighbours are not neighbours
 * again, and each seed and epoch has its own order. */
START_TEST(shuffle_shuffles) {
    enum { N = 10007 };
    double product = 0;
    int fixed = 0, neighbours = 0, same[3] = {0};
    for (int64_t i = 0; i < N; i++) {
        const int64_t to = cti_index_shuffle(1, 0, N, i);
        product += ((double)i / N - 0.5) * ((double)to / N - 0.5);
        fixed += to == i;
        neighbours += i && llabs(to - cti_index_shuffle(1, 0, N, i - 1)) == 1;
        same[0] += to == cti_index_shuffle(1, 1, N, i);
        same[1] += to == cti_index_shuffle(2, 0, N, i);
        same[2] += to == cti_index_shuffle(1, UINT64_C(1) << 32, N, i);
    }
    /* a correlation of N pairs has a standard deviation of 1 / sqrt(N) = 0.01; expected are one
     * fixed point, two neighbours and one equal place */
    ck_assert_msg(product / N * 12 < 0.05 && product / N * 12 > -0.05, "%g", product / N * 12);
    ck_assert(fixed < 8 && neighbours < 12);
    for (int k = 0; k < 3; k++) ck_assert_int_lt(same[k], 8);
}
END_TEST

/* Runs that are resumed rely on these. */
START_TEST(shuffle_stays_what_it_is) {
    static const struct {
        uint64_t seed, epoch;
        int64_t n, i, to;
    } known[] = {
        {0, 0, 2, 0, 0},
        {1, 0, 10, 3, 9},
        {1, 7, 1000, 999, 670},
        {UINT64_MAX, UINT64_MAX, 1000003, 5, 829636},
        {42, INT64_MAX, INT64_MAX, 1, INT64_C(236998870034081428)},
        {42, UINT64_C(1) << 40, INT64_C(1) << 32, 77, 1492069935},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        ck_assert_int_eq(cti_index_shuffle(known[k].seed, known[k].epoch, known[k].n, known[k].i),
                         known[k].to);
}
END_TEST

/* ---- batches ---- */

enum { T = 7 };
/* sizes around 0, 1 and the window; several files without a window between those with */
static const int64_t sizes[] = {0, T, 3 * T, 1, T + 1, 2, 2 * T, 501, 3 * T + 1, T + 2};
enum { FILES = sizeof sizes / sizeof *sizes };

typedef struct {
    int file;
    int64_t first;
} window;

/* The windows of all files, in order; how many. */
static int64_t list_windows(window *list) {
    int64_t n = 0;
    for (int f = 0; f < FILES; f++)
        for (int64_t first = 0; first + T + 1 <= sizes[f]; first += T)
            list[n++] = (window){f, first};
    return n;
}

/* How the files are written. */
static const struct {
    int bytes;
    uint32_t version;
    int opts_bytes;
} kinds[] = {{2, 0, 0},           {2, 0, 2},           {4, 0, 4},          {2, 1, 0},
             {2, 1, 2},           {4, 7, 0},           {4, 7, 4},          {8, 0, 8},
             {2, NPY_VERSION, 0}, {4, NPY_VERSION, 4}, {8, NPY_VERSION, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put_kind(int kind) {
    for (int f = 0; f < FILES; f++) put_ids(f, sizes[f], kinds[kind].bytes, kinds[kind].version);
}

static ct_tokens *open_kind(ct_context *c, int kind) {
    return open_ids(c, FILES,
                    (ct_tokens_opts){.vocabulary = FILES * 4096, .bytes = kinds[kind].opts_bytes});
}

/* Row b of x and y is this window. */
static void ck_row(ct_tensor *x, ct_tensor *y, int64_t b, window w) {
    for (int64_t t = 0; t < T; t++) {
        ck_assert_int_eq(ct_data_i64(x)[b * T + t], id_of(w.file, w.first + t));
        ck_assert_int_eq(ct_data_i64(y)[b * T + t], id_of(w.file, w.first + t + 1));
    }
}

/* Five epochs, in batches that do not divide them, larger ones too. */
START_TEST(batches_are_windows_in_order) {
    static window list[200];
    const int64_t windows = list_windows(list);
    put_kind(_i);
    ct_tokens *tokens = open_kind(context, _i);
    must(tokens);
    int64_t ids = 0;
    for (int f = 0; f < FILES; f++) ids += sizes[f];
    ck_assert_int_eq(ct_tokens_count(tokens), ids);
    ck_assert_int_eq(ct_tokens_windows(tokens, T), windows);
    ck_assert_int_eq(ct_tokens_windows(tokens, 1), ids - FILES + 1); /* one file is empty */
    static const int64_t batches[] = {1, 2, 5, 32, 200};
    for (int k = 0; k < 5; k++) {
        const int64_t B = batches[k];
        static int visits[200];
        memset(visits, 0, sizeof visits);
        for (int64_t index = 0; index * B < 5 * windows; index++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = NULL, *y = NULL;
            must(ct_tokens_batch(tokens, 9, index, B, T, &x, &y));
            ck_assert(ct_dtype_of(x) == CT_I64 && ct_dtype_of(y) == CT_I64);
            ck_assert(ct_numel(x) == B * T && ct_dim(x, 0) == B && ct_dim(y, 1) == T);
            for (int64_t b = 0; b < B; b++) {
                const int64_t number = index * B + b, epoch = number / windows;
                const int64_t w = cti_index_shuffle(9, (uint64_t)epoch, windows, number % windows);
                ck_row(x, y, b, list[w]);
                if (epoch < 5) visits[w]++;
            }
            ct_scope_close(scope);
        }
        for (int64_t w = 0; w < windows; w++) ck_assert_int_eq(visits[w], 5);
    }
}
END_TEST

/* The same batch is read in any order of calls, with batches of other lengths between, in another
 * context with more threads, and many epochs later. */
START_TEST(a_batch_depends_on_its_index_alone) {
    ct_context *other = ct_context_new((ct_context_opts){.seed = 99, .threads = 3});
    put_kind(0);
    ct_tokens *tokens[2] = {open_kind(context, 0), open_kind(other, 0)};
    must(tokens[0] && tokens[1]);
    static int64_t forward[40][5 * T];
    ct_tensor *x = NULL, *y = NULL;
    for (int64_t i = 0; i < 40; i++) {
        must(ct_tokens_batch(tokens[0], 3, i, 5, T, &x, &y));
        memcpy(forward[i], ct_data_i64(x), sizeof forward[i]);
    }
    for (int64_t i = 40; i-- > 0;) {
        ck_assert(ct_tokens_batch(tokens[1], 4, i, 2, 3, &x, &y));
        ck_assert(ct_tokens_batch(tokens[1], 3, i, 5, T, &x, &y));
        ck_assert(!memcmp(forward[i], ct_data_i64(x), sizeof forward[i]));
    }
    ct_context_free(other);
    /* the same windows in batches of 1: row b of batch i is number 5 i + b */
    must(ct_tokens_batch(tokens[0], 3, 5 * 17 + 2, 1, T, &x, &y));
    ck_assert(!memcmp(forward[17] + 2 * T, ct_data_i64(x), T * sizeof(int64_t)));
    must(ct_tokens_batch(tokens[0], 3, INT64_MAX / 5 - 1, 5, T, &x, &y));
    must(ct_tokens_batch(tokens[0], 3, INT64_MAX, 1, T, &x, &y));
    ck_assert(forward[0][0] != forward[1][0] && ct_rng_get(context).stream == 0);
}
END_TEST

/* Epochs and seeds differ in their order; an epoch may begin inside a batch. */
START_TEST(epochs_differ) {
    put_ids(0, 50 * T + 1, 2, 0);
    ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){0});
    must(tokens);
    ck_assert_int_eq(ct_tokens_windows(tokens, T), 50);
    ct_tensor *first, *second, *seeded, *ordered, *y;
    must(ct_tokens_batch(tokens, 1, 0, 50, T, &first, &y));
    must(ct_tokens_batch(tokens, 1, 1, 50, T, &second, &y));
    must(ct_tokens_batch(tokens, 2, 0, 50, T, &seeded, &y));
    int same[3] = {0};
    for (int b = 0; b < 50; b++) {
        const int64_t id = ct_data_i64(first)[b * T];
        same[0] += id == ct_data_i64(second)[b * T];
        same[1] += id == ct_data_i64(seeded)[b * T];
        same[2] += id == b * T;
    }
    for (int k = 0; k < 3; k++) ck_assert_int_lt(same[k], 8);
    must(ct_tokens_batch(tokens, 1, 1, 30, T, &ordered, &y)); /* numbers 30 ... 59 */
    ck_assert(!memcmp(ct_data_i64(ordered), ct_data_i64(first) + 30 * T, 20 * T * 8));
    ck_assert(!memcmp(ct_data_i64(ordered) + 20 * T, ct_data_i64(second), 10 * T * 8));
}
END_TEST

/* Training goes on from a checkpoint's step with the batches that it would have had. */
START_TEST(a_resumed_run_has_the_same_bits) {
    put_ids(0, 400, 2, 0);
    double losses[2][12];
    for (int run = 0; run < 2; run++) {
        for (int64_t begin = 0; begin < 12; begin += run ? 5 : 12) { /* in one go, and in three */
            ct_context *c = ct_context_new((ct_context_opts){.seed = 5, .threads = 1 + run});
            ct_embedding_opts opts = {.num_embeddings = 400, .embedding_dim = 400};
            ct_module *model = ct_embedding_new(c, opts);
            ct_optim *optim = ct_adamw_new(model, (ct_adamw_opts){.lr = 0.1});
            ct_tokens *tokens = open_ids(c, 1, (ct_tokens_opts){.vocabulary = 400});
            ct_checkpoint all = {.module = model, .optim = optim};
            if (begin) ck_assert(ct_checkpoint_load(in_folder("checkpoint"), &all));
            for (; all.step < (run ? begin + 5 : 12) && all.step < 12; all.step++) {
                ct_scope scope = ct_scope_open(c);
                ct_tensor *x = NULL, *y = NULL;
                ct_tokens_batch(tokens, 1, all.step, 3, 16, &x, &y);
                ct_tensor *logits = ct_reshape(ct_forward(model, x), CT_SHAPE(-1, 400));
                ct_tensor *loss = ct_cross_entropy(logits, ct_reshape(y, CT_SHAPE(-1)),
                                                   (ct_cross_entropy_opts){0});
                ct_optim_zero_grad(optim);
                ct_backward(loss);
                ct_optim_step(optim);
                losses[run][all.step] = ct_item(loss);
                ct_scope_close(scope);
            }
            ck_assert_msg(ct_checkpoint_save(in_folder("checkpoint"), &all), "%s",
                          ct_error_message(c));
            ct_context_free(c);
        }
    }
    ck_assert(!memcmp(losses[0], losses[1], sizeof losses[0]));
    ck_assert(losses[0][11] < losses[0][0]);
}
END_TEST

/* ---- many and large files ---- */

static int open_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Not one descriptor each; the last close, or the context's, closes them all. */
START_TEST(many_files) {
    enum { MANY = 200 };
    for (int f = 0; f < MANY; f++) {
        char name[32];
        snprintf(name, sizeof name, "%d.bin", f);
        FILE *file = fopen(in_folder(name), "wb");
        for (int i = 0; i < 5; i++) put_number(file, (uint32_t)(10 * f + i), 2);
        fclose(file);
    }
    const int before = open_descriptors();
    const int64_t live = ct_memory(context).live;
    ct_tokens *tokens = open_ids(context, MANY, (ct_tokens_opts){0});
    must(tokens);
    ck_assert_int_eq(ct_tokens_windows(tokens, 2), 2 * MANY);
    int64_t sum = 0;
    for (int64_t i = 0; i < 2 * MANY; i += 4) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = NULL, *y = NULL;
        must(ct_tokens_batch(tokens, 1, i / 4, 4, 2, &x, &y));
        for (int b = 0; b < 4; b++) {
            ck_assert_int_eq(ct_data_i64(x)[2 * b + 1], ct_data_i64(x)[2 * b] + 1);
            sum += ct_data_i64(x)[2 * b];
        }
        ct_scope_close(scope);
        ck_assert_int_le(open_descriptors(), before + 64);
    }
    ck_assert_int_eq(sum, MANY * (MANY - 1) / 2 * 10 * 2 + 2 * MANY);
    ct_tokens_close(tokens);
    ck_assert_int_eq(open_descriptors(), before);
    ck_assert_int_eq(ct_memory(context).live, live);
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert(open_ids(other, MANY, (ct_tokens_opts){0}) && open_descriptors() > before);
    ct_context_free(other);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* The most memory that the process has had, in KiB; 0 where the system does not say. */
static long high_water(void) {
    char line[256];
    long most = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && !most && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &most);
    if (file) fclose(file);
    return most;
}

/* 10 GB with ids at offsets beyond 2^32 bytes. The test reads 128 MiB, which would be resident if
 * files were mapped or kept in memory. */
START_TEST(larger_than_memory) {
    enum { LONG = 1 << 16 };
    const int64_t ids = INT64_C(5000000000), windows = (ids - 1) / LONG;
    const char *path = in_folder("0.bin");
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(ftruncate(fd, 2 * ids), 0);
    const unsigned char last[2] = {0x34, 0x12}; /* the last target of the last window */
    ck_assert_int_eq(pwrite(fd, last, 2, 2 * windows * LONG), 2);
    close(fd);
    ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){.vocabulary = 0x1235});
    must(tokens);
    ck_assert(ct_tokens_count(tokens) == ids && ct_tokens_windows(tokens, LONG) == windows);
    int64_t number = 0;
    while (cti_index_shuffle(1, 0, windows, number) != windows - 1) number++;
    long before = 0;
    for (int64_t i = 0; i < 260; i++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = NULL, *y = NULL;
        must(ct_tokens_batch(tokens, 1, i == 3 ? number : i * 4 + windows, i == 3 ? 1 : 4, LONG, &x,
                             &y));
        const int64_t *targets = ct_data_i64(y);
        ck_assert_int_eq(targets[LONG - 2], 0);
        if (i == 3) ck_assert_int_eq(targets[LONG - 1], 0x1234);
        ct_scope_close(scope);
        if (i == 4) before = high_water();
    }
    const long grown = high_water() - before;
    ck_assert_msg(grown < 32 * 1024, "%ld KiB more", grown);
}
END_TEST

int main(void) {
    return run_cases(
        "tokens",
        CASES(
            {.name = "order",
             .tests = TESTS(TEST(philox), TEST(shuffle_is_a_permutation), TEST(shuffle_is_uniform),
                            TEST(shuffle_shuffles), TEST(shuffle_stays_what_it_is))},
            {.name = "batches",
             .before = setup,
             .after = teardown,
             .tests = TESTS(LOOP(batches_are_windows_in_order, KINDS),
                            TEST(a_batch_depends_on_its_index_alone), TEST(epochs_differ),
                            TEST(a_resumed_run_has_the_same_bits))},
            {.name = "descriptors",
             .tags = "proc",
             .before = setup,
             .after = teardown,
             .tests = TESTS(TEST(many_files))},
            {.name = "links, FIFOs and modes",
             .tags = "posix",
             .before = setup,
             .after = teardown,
             .tests = TESTS(TEST(larger_than_memory))}));
}
