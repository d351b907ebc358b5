/* The n-th request for memory or call into the system fails while a tokenizer is trained, a batch
 * is made, or files are encoded: an error says so, nothing is left, and the next run is right. */
#include "tests/support/io_faults.h"

#include <cotangent/tokenizer.h>

#include "tests/support/malloc_faults.h"

static char out_path[160];
static const char *paths[1];
static ct_tokenizer *tokenizer;
static ct_scope scope;

static const char text[] = "the theme of the band\n\nand the <end>sand 123\xff and the the";
static const char *const special[] = {"<end>"};
static const ct_tokenizer_opts opts = {.vocab_size = 270, .special = special, .n_special = 1};

static void begin_files(void) {
    setup();
    snprintf(out_path, sizeof out_path, "%s.out", path);
    paths[0] = path;
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    tokenizer = ct_tokenizer_train(context, paths, 1, opts);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
}

static void end_files(void) {
    unlink(out_path);
    teardown();
}

/* ---- the runs; Check's own requests would be struck, so that they assert nothing ---- */

static bool halves; /* a batch has some of its tensors */

static bool train_once(void *arg) {
    (void)arg;
    ct_tokenizer *trained = ct_tokenizer_train(context, paths, 1, opts);
    const bool ok = trained && ct_tokenizer_size(trained) == 270 &&
                    ct_token_id(trained, "\xC4\xA0the") == ct_token_id(tokenizer, "\xC4\xA0the");
    ct_tokenizer_close(trained);
    return ok;
}

static bool make_batch(void *arg) {
    (void)arg;
    static const char *const texts[] = {"the band", "and"}, *const seconds[] = {"", "sand sand"};
    scope = ct_scope_open(context);
    const ct_batch batch = ct_encode_batch(tokenizer, texts, seconds, 2, (ct_batch_opts){0});
    const bool ok = batch.ids && ct_shape_of(batch.ids).dim[0] == 2;
    halves |= ok != (batch.mask && batch.types);
    ct_scope_close(scope);
    return ok;
}

static bool make_rows(void *arg) {
    (void)arg;
    static const int64_t ids[] = {1, 2, 3}, lengths[] = {2, 1};
    scope = ct_scope_open(context);
    const ct_batch batch = ct_batch_of(context, ids, ids, lengths, 2, (ct_batch_opts){0});
    const bool ok = batch.ids != NULL;
    halves |= ok != (batch.mask && batch.types && batch.targets);
    ct_scope_close(scope);
    return ok;
}

static bool encode_files(void *arg) {
    (void)arg;
    return ct_encode_files(tokenizer, paths, 1, out_path,
                           (ct_corpus_opts){.separator = "\n", .end_id = 0}) > 0;
}

static void sweep(const char *name, bool (*run)(void *), fault_kind kind, const char *only,
                  int64_t least) {
    fault_sweep(&(fault_case){.name = name,
                              .kind = kind,
                              .only = only,
                              .status = only && strcmp(only, "malloc") ? CT_ERR_IO : CT_ERR_MEMORY,
                              .context = &context,
                              .run = run,
                              .again = run,
                              .unchanged = open_files,
                              .least = least,
                              .sparse = 100});
}

START_TEST(training) {
    sweep("train", train_once, FAULT_CALL, "malloc", 30);
    sweep("train", train_once, FAULT_TAKE, NULL, 3);
    sweep("train", train_once, FAULT_CALL, "open", 2);
    sweep("train", train_once, FAULT_CALL, "pread", 1);
}
END_TEST

START_TEST(batches) {
    sweep("encode_batch", make_batch, FAULT_CALL, "malloc", 5);
    sweep("encode_batch", make_batch, FAULT_TAKE, NULL, 3);
    sweep("batch_of", make_rows, FAULT_CALL, "malloc", 1);
    sweep("batch_of", make_rows, FAULT_TAKE, NULL, 4);
    ck_assert(!halves);
}
END_TEST

START_TEST(files) {
    sweep("encode_files", encode_files, FAULT_CALL, "malloc", 4);
    sweep("encode_files", encode_files, FAULT_TAKE, NULL, 1);
    sweep("encode_files", encode_files, FAULT_CALL, "pread", 1);
    sweep("encode_files", encode_files, FAULT_CALL, "write", 2);
    sweep("encode_files", encode_files, FAULT_CALL, "pwrite", 1);
    sweep("encode_files", encode_files, FAULT_CALL, "rename", 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text train faults");
    TCase *faults = tcase_create("faults");
    tcase_set_timeout(faults, 60);
    tcase_add_checked_fixture(faults, begin_files, end_files);
    tcase_add_test(faults, training);
    tcase_add_test(faults, batches);
    tcase_add_test(faults, files);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
