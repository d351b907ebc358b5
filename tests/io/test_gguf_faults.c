/* Every call into the system and every request for memory fails once, in code that writes and reads
 * GGUF files: an error says so, nothing is left open or behind, and the path has the old content or
 * the new one. */
#include "src/io/shards.h"

#include "tests/support/io_faults.h"

static ct_tensor *tensors[2];
static char target[96], split[2][96];

static bool put_file(const char *to, int number, int count, const char *name) {
    cti_gguf_out out;
    cti_gguf_out_begin(context, "try", to, &out);
    cti_gguf_put_text(&out, "general.architecture", cti_text_of("toy"));
    cti_gguf_put_u32(&out, "split.no", (uint32_t)number);
    cti_gguf_put_u32(&out, "split.count", (uint32_t)count);
    cti_gguf_put_array(&out, "texts", CTI_GGUF_STRING, 400);
    for (int i = 0; i < 400; i++) cti_gguf_add_text(&out, cti_text_of("0123456789abcdef"));
    cti_gguf_put_tensor(&out, name, tensors[0], CTI_FILE_Q8_0, (cti_row_grid){0}, 0, false);
    char other[16];
    snprintf(other, sizeof other, "%s2", name);
    cti_gguf_put_tensor(&out, other, tensors[1], CTI_FILE_F32, (cti_row_grid){2, 3, 1, 0}, 1,
                        false);
    const bool ok = cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    return ok;
}

static int in_the_folder(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.' || entry->d_name[1] == 'c';
    closedir(dir);
    return n;
}

static int others; /* the files of the folder but for the target */

static void begin_all(void) {
    setup();
    tensors[0] = ct_randn(context, CT_F32, CT_SHAPE(4, 64));
    tensors[1] = ct_randn(context, CT_BF16, CT_SHAPE(12, 3));
    if (!tensors[1]) {
        ct_error_clear(context);
        tensors[1] = ct_cast(ct_randn(context, CT_F32, CT_SHAPE(12, 3)), CT_BF16);
    }
    snprintf(target, sizeof target, "%s/x.gguf", folder);
    for (int i = 0; i < 2; i++)
        snprintf(split[i], sizeof split[i], "%s/s-0000%d-of-00002.gguf", folder, i + 1);
    ck_assert_msg(put_file(split[0], 0, 2, "a") && put_file(split[1], 1, 2, "b"), "%s",
                  ct_error_message(context));
    others = in_the_folder();
}

static void end_all(void) {
    fault_disarm();
    transfers = WHOLE;
    __real_unlink(target);
    for (int i = 0; i < 2; i++) __real_unlink(split[i]);
    teardown();
}

/* ---- the operations ---- */

static bool write_new(void) { return put_file(target, 0, 1, "new"); }

static cti_visited renames(void *arg, cti_shards *shards, cti_file_tensor *tensor) {
    char name[16];
    (void)arg;
    snprintf(name, sizeof name, "other.%s", tensor->name.at);
    if (tensor->name.size == 2) {
        tensor->grid = (cti_row_grid){2, 3, 1, 0};
        tensor->offset = 1;
    }
    return cti_shards_set_name(shards, tensor, name) ? CTI_VISIT_KEEP : CTI_VISIT_FAIL;
}

static bool read_from(const char *from) {
    cti_shards shards;
    ct_scope scope = ct_scope_open(context);
    bool ok = cti_shards_open(context, "try", from, &shards);
    if (ok) {
        ok = cti_shards_rename(&shards, renames, NULL);
        for (int64_t i = 0; ok && i < shards.tensors; i++) {
            ct_tensor *to = ct_zeros(context, CT_F32, shards.tensor[i]->shape);
            ok = to && cti_file_tensor_read(shards.tensor[i], 0, ct_numel(to), to, 0);
        }
        cti_shards_close(&shards);
    }
    ct_scope_close(scope);
    return ok;
}
static bool read_split(void) { return read_from(split[0]); }
static bool read_folder(void) { return read_from(folder); }

static const struct gguf_run {
    const char *name;
    bool (*run)(void);
    bool writes;
} runs[] = {
    {"write where nothing is", write_new, true},
    {"read split files", read_split, false},
    {"read from a folder", read_folder, false},
};
enum { RUNS = sizeof runs / sizeof *runs };

static void prepare(void *arg) {
    (void)arg;
    __real_unlink(target);
}

static bool run(void *arg) { return ((const struct gguf_run *)arg)->run(); }

static void check_run(const fault_end *end, void *arg) {
    const struct gguf_run *r = arg;
    const bool named = end->done || ct_error(context) == CT_ERR_MEMORY;
    FAULT_CK(end, named || strstr(end->message, folder));
    FAULT_CK(end, named || strstr(end->message, strerror(EIO)));
    ct_error_clear(context);
    if (!r->writes) return;
    /* the file is there and whole, or absent; a temporary one stays if its removal failed */
    const bool removal = end->struck && !strcmp(end->struck, "unlink");
    cti_gguf gguf;
    const bool there = cti_gguf_open(context, "try", target, &gguf);
    ct_error_clear(context);
    if (there) {
        FAULT_CK(end, gguf.pairs == 4 && gguf.tensors == 2);
        cti_gguf_close(&gguf);
    }
    FAULT_CK(end, there || !end->done);
    FAULT_CK(end, in_the_folder() == others + there || removal);
}

static void sweep(int i, fault_kind kind) {
    fault_sweep(&(fault_case){.name = runs[i].name,
                              .kind = kind,
                              .context = &context,
                              .arg = (void *)&runs[i],
                              .begin = prepare,
                              .run = run,
                              .end = check_run,
                              .again = run,
                              .unchanged = open_files,
                              .least = 8});
}

START_TEST(every_call_fails) { sweep(_i, FAULT_CALL); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(_i, FAULT_TAKE); }
END_TEST

START_TEST(interrupted_and_short) {
    for (int how = INTERRUPTED; how <= SHORT; how++) {
        transfers = how;
        ck_assert_msg(runs[_i].run(), "%s: %s", runs[_i].name, ct_error_message(context));
        transfers = WHOLE;
        prepare(NULL);
    }
}
END_TEST

int main(void) {
    return run_tests("gguf_faults", begin_all, end_all,
                     TESTS(LOOP(every_call_fails, RUNS), LOOP(every_request_for_memory_fails, RUNS),
                           LOOP(interrupted_and_short, RUNS)));
}
