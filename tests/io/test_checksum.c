/* The checksum of checkpoints: a load refuses a file of which any bit, byte or block has changed
 * and says so, before anything has changed. */
#include "tests/support/files.h"

enum { ROOM = 1 << 19, DIGITS_AT = 37 }; /* the first digit's offset in the file */

static char good[ROOM], bad[ROOM], after[ROOM];
static size_t size;
static const char *path, *again;
static ct_checkpoint whole, inference;

/* A checkpoint of a step, as small as one is. */
static void begin(int64_t dim) {
    setup();
    ct_module *module = ct_mlp_new(context, (ct_mlp_opts){.dim = dim, .hidden = 3});
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){.momentum = 0.9});
    ck_assert(ct_backward(
        ct_sum(ct_forward(module, ct_ones(context, CT_F32, CT_SHAPE(2, dim))), CT_ALL, false)));
    ck_assert(ct_optim_step(optim));
    whole = (ct_checkpoint){.module = module, .optim = optim, .step = 5};
    inference = (ct_checkpoint){.module = module, .step = 5};
    path = in_folder("checkpoint");
    again = in_folder("again");
    ck_assert_msg(ct_checkpoint_save(path, &whole), "%s", ct_error_message(context));
    size = read_all(path, good, sizeof good);
    ck_assert_uint_lt(size, sizeof good);
    memcpy(bad, good, size);
}
static void begin_small(void) { begin(2); }

/* In place: a file system may write a file that was cut to nothing to its disk at once. */
static void overwrite(const char *bytes, size_t n) {
    FILE *file = fopen(path, "r+b");
    ck_assert(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
    ck_assert_int_eq(truncate(path, (off_t)n), 0);
}

/* The bytes are no checkpoint, in either kind of load; nothing changes. */
static void refused(const char *bytes, size_t n, const char *says) {
    overwrite(bytes, n);
    ck_refused(ct_checkpoint_load(path, &whole), CT_ERR_FORMAT, path, says);
    ck_refused(ct_checkpoint_load(path, &inference), CT_ERR_FORMAT, path, says);
    ck_assert(whole.step == 5 && inference.step == 5);
}

static void unchanged(void) {
    ck_assert(ct_checkpoint_save(again, &whole));
    ck_assert(read_all(again, after, sizeof after) == size && !memcmp(after, good, size));
}

START_TEST(every_bit) {
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bad[bit / 8] ^= (char)(1 << bit % 8);
        /* the header's length counts too; but for the key every flip is the checksum's to find */
        const bool key = bit / 8 >= 8 && bit / 8 < DIGITS_AT;
        refused(bad, size, key ? "" : "is damaged: checksum ");
        bad[bit / 8] = good[bit / 8];
    }
    unchanged();
    ck_assert_uint_lt(8 * size, 20000);
}
END_TEST

/* Up to 64 bits in a row; blocks of zeros, of another place, or that are exchanged. */
START_TEST(bursts_and_blocks) {
    srand(1);
    for (int i = 0; i < 3000; i++) {
        const size_t length = 2 + (size_t)rand() % 63, first = 8 * 60 + (size_t)i % 977;
        for (size_t k = 0; k < length; k++)
            if (k == 0 || k == length - 1 || rand() % 2)
                bad[(first + k) / 8] ^= (char)(1 << (first + k) % 8);
        refused(bad, size, "is damaged: checksum ");
        memcpy(bad, good, size);
    }
    for (size_t block = 16; block <= 512; block *= 2)
        for (size_t at = 64; at + 2 * block <= size; at += block)
            for (int kind = 0; kind < 3; kind++) {
                char *first = bad + at, *second = bad + at + block;
                if (kind == 0) memset(first, 0, block);
                else memcpy(first, good + at + block, block);
                if (kind == 2) memcpy(second, good + at, block);
                if (memcmp(bad, good, size)) refused(bad, size, "is damaged: checksum ");
                memcpy(bad, good, size);
            }
    unchanged();
}
END_TEST

START_TEST(another_length) {
    for (size_t n = 0; n < size; n++) refused(good, n, n < 53 ? "" : "is damaged");
    for (size_t more = 1; more < 70; more++) {
        memset(bad + size, more % 2 ? 0 : 0xFF, more);
        refused(bad, size + more, "is damaged");
    }
    unchanged();
}
END_TEST

/* The message has both: the sum in the file, and the sum of its bytes. */
START_TEST(what_it_says) {
    char expected[17] = "", says[128];
    memcpy(expected, good + DIGITS_AT, 16);
    bad[size - 1] ^= 4;
    memcpy(after, bad, size);
    seal(after, size);
    snprintf(says, sizeof says, "is damaged: checksum %s expected, %.16s found", expected,
             after + DIGITS_AT);
    refused(bad, size, says);
    memcpy(bad, good, size);
    bad[DIGITS_AT] = '\x01';
    snprintf(says, sizeof says, "checksum ?%s expected, %s found", expected + 1, expected);
    refused(bad, size, says);
    /* digits are lower-case */
    for (int i = 0; i < 16; i++) {
        bad[DIGITS_AT] = good[DIGITS_AT];
        if (good[DIGITS_AT + i] < 'a') continue;
        bad[DIGITS_AT + i] = (char)(good[DIGITS_AT + i] - 'a' + 'A');
        refused(bad, size, "is damaged");
        bad[DIGITS_AT + i] = good[DIGITS_AT + i];
    }
}
END_TEST

/* The digits equal a CRC-64 that goes bit by bit, for files of any size. */
START_TEST(sizes) {
    ck_assert_uint_eq(crc64("123456789", 9), 0x995DC9BBDF1939FAu); /* the published check value */
    ct_tensor *bytes[40];
    for (int64_t n = 0; n < 40; n++) {
        bytes[n] = ct_ones(context, CT_BOOL, CT_SHAPE(n < 36 ? n : 65536 * (n - 35) - 1000 + n));
        const ct_named named = {"bytes", bytes[n]};
        ct_checkpoint c = {.module = whole.module, .step = 1, .tensors = &named, .n_tensors = 1};
        ck_assert_msg(ct_checkpoint_save(path, &c), "%s", ct_error_message(context));
        const size_t length = read_all(path, good, sizeof good);
        memcpy(bad, good, length);
        seal(bad, length);
        ck_assert_msg(!memcmp(bad, good, length), "a tensor of %lld bytes", (long long)n);
        ck_assert_msg(ct_checkpoint_load(path, &c), "%s", ct_error_message(context));
        good[length - 1] ^= 1;
        write_all(path, good, length);
        ck_refused(ct_checkpoint_load(path, &c), CT_ERR_FORMAT, path, "is damaged");
    }
}
END_TEST

/* Files for other programs have no checksum, and a file without one is not a checkpoint. */
START_TEST(only_checkpoints) {
    char out[17];
    ck_assert(ct_load_metadata(context, path, "checksum", out, sizeof out));
    ck_assert(!memcmp(out, good + DIGITS_AT, 16));
    ck_assert(ct_save(whole.module, path, (ct_save_opts){0}));
    ck_refused(ct_load_metadata(context, path, "checksum", out, sizeof out), CT_ERR_ARGUMENT, path,
               "no metadata key");
    static const char *const metadata[][11] = {
        {"format", "cotangent checkpoint 1", "optim", "SGD", "step", "1", "seed", "1", "stream",
         "1", NULL},
        {"format", "cotangent checkpoint 1", "checksum", "0123456789abcdef", NULL},
    };
    for (int i = 0; i < 2; i++) {
        ck_assert(ct_save(whole.module, path, (ct_save_opts){.metadata = metadata[i]}));
        ck_refused(ct_checkpoint_load(path, &whole), CT_ERR_FORMAT, path,
                   "metadata does not begin with \"checksum\", as a checkpoint's does");
    }
}
END_TEST

int main(void) {
    return run_tests("checksum", begin_small, teardown,
                     TESTS(TEST(every_bit), TEST(bursts_and_blocks), TEST(another_length),
                           TEST(what_it_says), TEST(sizes), TEST(only_checkpoints)));
}
