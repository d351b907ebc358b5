/* Every call into the system and every request for memory fails once, in what writes and reads sets
 * of shards and tensors: errors say so, nothing is left open or behind, and the set that was there
 * is whole, or there is none. */
#include <pthread.h>
#include <stdatomic.h>

#include "io_faults.h"

#define INDEX "model.safetensors.index.json"

static ct_module *target; /* what is loaded into */
static ct_tensor *tensors[4];
static ct_load_report report;

static void *must(void *made) {
    ck_assert_msg(made, "%s", ct_error_message(context));
    return made;
}

static const char *in_set(const char *name) {
    static char full[4][400];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(full[turn], sizeof full[turn], "%s/set/%s", folder, name);
    return full[turn];
}

static void clear_set(void) {
    DIR *dir = opendir(in_set(""));
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            __real_unlink(in_set(entry->d_name));
    closedir(dir);
    rmdir(in_set(""));
}

static void begin_all(void) {
    setup();
    target = must(ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5}));
    ct_module *tied = must(ct_module_add_child(target, "tied", ct_module_new(context, "Tied")));
    ct_module_add_param(tied, "weight", ct_module_get(target, "fc.weight"));
    ct_module_add_buffer(target, "seen", ct_zeros(context, CT_BOOL, CT_SHAPE(3)), true);
    ct_module_add_buffer(module, "seen", ct_ones(context, CT_BOOL, CT_SHAPE(3)), true);
    tensors[0] = must(ct_randn(context, CT_F32, CT_SHAPE(5, 7)));
    tensors[1] = must(ct_transpose(tensors[0], 0, 1));
    tensors[2] = must(ct_zeros(context, CT_I64, CT_SHAPE(2)));
    tensors[3] = must(ct_randn(context, CT_F64, CT_SHAPE(3)));
}

static void end_all(void) {
    fault.mode = NONE;
    clear_set();
    teardown();
}

/* ---- the operations ---- */

static bool save_set(int64_t bytes) {
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    return ct_save(module, set, (ct_save_opts){.shard_bytes = bytes});
}
static bool same_number(void) { return save_set(64); }
static bool other_number(void) { return save_set(1000); }
/* Rows and transposed matrices, put together to what they were. */
static bool save_by_map(void) {
    static const ct_load_map map[] = {
        {.param = "fc.weight", .file = "fc.weight", .rows = 2},
        {.param = "fc.weight", .file = "fc.weight", .param_start = 2, .file_start = 2},
        {.param = "proj.*", .file = "proj.*"}};
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    return ct_save(module, set, (ct_save_opts){.shard_bytes = 64, .map = map, .n_map = 3});
}
static bool save_tensors(void) {
    static const char *const names[] = {"a", "b", "c", "d"};
    ct_named named[4];
    for (int i = 0; i < 4; i++) named[i] = (ct_named){names[i], tensors[i]};
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    return ct_tensors_save(context, set, named, 4,
                           (ct_save_opts){.floats = CT_FILE_F16, .shard_bytes = 80});
}
static bool load_set(void) {
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    return ct_load(target, set, (ct_load_opts){0});
}
static bool load_mapped(void) {
    static const ct_load_map map[] = {
        {.param = "fc.weight", .file = "fc.weight", .rows = 2},
        {.param = "fc.weight", .file = "fc.weight", .param_start = 2, .file_start = 2},
        {.param = "proj.weight", .file = "fc.weight", .transposed = true}};
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    const ct_load_opts opts = {.map = map, .n_map = 3, .partial = true, .report = &report};
    return ct_load(target, set, opts);
}
/* The two names of a parameter are compared, one by pieces. */
static bool load_tied(void) {
    static const ct_load_map map[] = {
        {.param = "tied.*", .file = "fc.*", .rows = 2},
        {.param = "tied.weight", .file = "fc.weight", .rows = 2},
        {.param = "tied.weight", .file = "fc.weight", .param_start = 2, .file_start = 2}};
    static const char *const ignore[] = {"none", "s??n", NULL};
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    const ct_load_opts opts = {.map = map, .n_map = 3, .report = &report, .ignore = ignore};
    return ct_load(target, set, opts) && report.loaded == 5;
}
/* A file of another kind is refused by its name, if it can be read. */
static bool load_pointer(void) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    int fd = __real_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(__real_write(fd, pointer, sizeof pointer - 1) == sizeof pointer - 1);
    __real_close(fd);
    const bool done = ct_load(target, path, (ct_load_opts){0});
    if (done || ct_error(context) != CT_ERR_FORMAT) return done;
    ck_assert_ptr_nonnull(strstr(ct_error_message(context), "is a git-lfs pointer"));
    ct_error_clear(context);
    return true;
}
static bool read_set(void) {
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    ct_scope scope = ct_scope_open(context);
    ct_safetensors *file = ct_safetensors_open(context, set);
    const bool done =
        file && ct_safetensors_read(file, "fc.weight") && ct_safetensors_read(file, "seen");
    ct_safetensors_close(file);
    ct_scope_close(scope);
    return done;
}
static bool add_buffer(void) {
    ct_module *one = ct_module_new(context, "One");
    const bool done =
        one && ct_module_add_buffer(one, "b", ct_zeros(context, CT_I64, CT_SHAPE(1)), true);
    ct_module_free(one);
    return done;
}

static const struct {
    const char *name;
    bool (*run)(void);
    bool there, writes; /* a set of save_set(64) is there */
} runs[] = {
    {"save where nothing is", same_number, false, true},
    {"save over as many files", same_number, true, true},
    {"save over fewer files", other_number, true, true},
    {"save by a map", save_by_map, true, true},
    {"tensors_save", save_tensors, false, true},
    {"load", load_set, true, false},
    {"load by a map", load_mapped, true, false},
    {"read", read_set, true, false},
    {"load by two names", load_tied, true, false},
    {"load of a pointer", load_pointer, false, false},
};
enum { RUNS = sizeof runs / sizeof *runs };

static float first_of(ct_module *m) {
    float out[15];
    ck_assert(ct_to_f32(ct_module_get(m, "fc.weight"), out, 15));
    return out[0];
}

static void put_first(float value) { ct_init_constant(ct_module_get(module, "fc.weight"), value); }

/* Both modules' weights, old and new. */
static void prepare(int i) {
    fault.mode = NONE;
    clear_set();
    put_first(1);
    if (runs[i].there) ck_assert_msg(same_number(), "%s", ct_error_message(context));
    put_first(2);
    ct_init_constant(ct_module_get(target, "fc.weight"), 3);
}

static int temporaries(void) {
    int n = 0;
    DIR *dir = opendir(in_set(""));
    if (!dir) return 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += !strncmp(entry->d_name, ".cotangent", 10);
    closedir(dir);
    return n;
}

static void sweep_runs(int i, bool memory) {
    int64_t failures = 0;
    for (int64_t at = 1;; at++) {
        prepare(i);
        const int64_t live = ct_memory(context).live;
        const int fds = count_entries("/proc/self/fd");
        fault.calls = 0, fault.at = at, fault.memory = memory, fault.failed = NULL;
        fault.mode = FAIL;
        const bool done = runs[i].run();
        fault.mode = NONE;
        const char *failed = fault.failed, *message = ct_error_message(context);
#define CK(condition)                                                                              \
    ck_assert_msg(condition, "%s, fault %lld (%s): %s: %s", runs[i].name, (long long)at,           \
                  failed ? failed : "none", #condition, message)
        CK(done == (ct_error(context) == CT_OK));
        CK(ct_memory(context).live == live);
        CK(count_entries("/proc/self/fd") == fds);
        /* a temporary file whose own removal failed stays */
        CK(temporaries() == 0 || (failed && !strcmp(failed, "unlink")));
        CK(done || ct_error(context) == (memory ? CT_ERR_MEMORY : CT_ERR_IO));
        CK(done || memory || strstr(message, folder));
        /* one that looks whether the path is a folder leaves it to open */
        CK(done || memory || strstr(message, strerror(EIO)) || !strcmp(failed, "stat"));
        if (!runs[i].writes)
            CK(first_of(target) == (done && runs[i].there && runs[i].run != read_set ? 1 : 3));
        ct_error_clear(context);
        if (runs[i].writes && runs[i].run != save_tensors) {
            /* the old set, the new one, or no index */
            const bool index = access(in_set(INDEX), F_OK) == 0;
            const bool loads = load_set();
            CK(loads == index);
            CK(!done || loads);
            if (loads)
                CK(first_of(target) == 2 || (!done && runs[i].there && first_of(target) == 1));
            /* only renames and syncs of the folder leave no index */
            if (!index && runs[i].there)
                CK(memory || !strcmp(failed, "rename") || !strcmp(failed, "fsync") ||
                   !strcmp(failed, "lstat") || !strcmp(failed, "fstat") ||
                   !strcmp(failed, "open") || !strcmp(failed, "fchmod"));
            ct_error_clear(context);
        }
        if (!failed) {
            CK(done);
            break;
        }
        failures++;
        ck_assert_msg(runs[i].run(), "%s, again: %s", runs[i].name, ct_error_message(context));
    }
    ck_assert_int_ge(failures, runs[i].run == load_pointer ? 2 : 8);
}

START_TEST(every_call_fails) { sweep_runs(_i, false); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep_runs(_i, true); }
END_TEST

START_TEST(a_buffer_without_memory) {
    int64_t at = 1;
    for (bool done = false; !done; at++) {
        const int64_t live = ct_memory(context).live;
        ct_scope scope = ct_scope_open(context);
        fault.calls = 0, fault.at = at, fault.memory = true, fault.mode = FAIL;
        done = add_buffer();
        fault.mode = NONE;
        ck_assert(done || ct_error(context) == CT_ERR_MEMORY);
        ct_error_clear(context);
        ct_scope_close(scope);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
    ck_assert_int_gt(at, 3);
}
END_TEST

START_TEST(interrupted_and_short) {
    for (fault_mode mode = INTERRUPT; mode <= SHORT; mode++) {
        prepare(_i);
        fault.interrupts = 0;
        fault.mode = mode;
        const bool done = runs[_i].run();
        fault.mode = NONE;
        ck_assert_msg(done, "%s: %s", runs[_i].name, ct_error_message(context));
        if (runs[_i].run == save_tensors || runs[_i].run == load_pointer) continue;
        ck_assert(load_set());
        ck_assert(first_of(target) == (runs[_i].writes ? 2 : 1));
    }
}
END_TEST

/* ---- a set that is replaced while it is opened ---- */

static ct_module *writer; /* of another context */
static int64_t writer_bytes;

static void fill(ct_module *m, double value) {
    for (ct_param p = {0}; ct_module_next(m, &p);) ct_init_constant(p.tensor, value);
}
static void save_by_writer(void) {
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    ck_assert(ct_save(writer, set, (ct_save_opts){.shard_bytes = writer_bytes}));
}
/* The one value of all elements. */
static float value_of(ct_module *m) {
    const float value = first_of(m);
    for (ct_param p = {0}; ct_module_next(m, &p);)
        for (int64_t k = 0; k < ct_numel(p.tensor); k++)
            ck_assert(ct_data_f32(p.tensor)[k] == value);
    return value;
}

/* A set is replaced before each call of a load in turn. The load has the old set or the new one. */
START_TEST(replaced_meanwhile) {
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    writer = ct_mlp_new(other, (ct_mlp_opts){.dim = 3, .hidden = 5});
    meanwhile = save_by_writer;
    int seen[3] = {0};
    for (int64_t at = 1;; at++) {
        clear_set();
        fill(writer, 1);
        writer_bytes = 64;
        save_by_writer();
        fill(writer, 2);
        writer_bytes = _i ? 64 : 1000; /* as many shards, or fewer */
        fault.calls = 0, fault.at = at;
        fault.mode = MEANWHILE;
        const bool done = ct_load(m, set, (ct_load_opts){0}), replaced = fault.mode == NONE;
        fault.mode = NONE;
        ck_assert_msg(done, "call %d: %s", (int)at, ct_error_message(context));
        seen[(int)value_of(m)]++;
        if (!replaced) break;
    }
    ck_assert(seen[1] > 1 && seen[2] > 5);
    ct_context_free(other);
}
END_TEST

/* The writer makes SAVES saves, and goes on, up to MOST_SAVES, until the reader has loaded one. */
enum { SAVES = 400, MOST_SAVES = 100 * SAVES };
static atomic_bool written; /* the writer has ended */
static atomic_int loaded;   /* how many loads have succeeded */
static int saved;           /* how many saves the writer has made */

static void *save_often(void *unused) {
    (void)unused;
    ct_context *mine = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *m = ct_mlp_new(mine, (ct_mlp_opts){.dim = 3, .hidden = 5});
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    for (saved = 0; saved < SAVES || (!loaded && saved < MOST_SAVES); saved++) {
        fill(m, saved);
        ct_save(m, set, (ct_save_opts){.shard_bytes = saved % 3 ? 64 : 1000});
    }
    ct_context_free(mine);
    written = true;
    return NULL;
}

/* Never some of one save and some of another. */
START_TEST(never_mixed) {
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    char set[200];
    snprintf(set, sizeof set, "%s/set", folder);
    written = false;
    loaded = 0;
    pthread_t saver;
    ck_assert_int_eq(pthread_create(&saver, NULL, save_often, NULL), 0);
    while (!written) {
        if (!ct_load(m, set, (ct_load_opts){0})) {
            ck_assert_msg(ct_error(context) == CT_ERR_IO, "%s", ct_error_message(context));
            ct_error_clear(context);
            continue;
        }
        loaded++;
        value_of(m);
    }
    ck_assert_int_eq(pthread_join(saver, NULL), 0);
    ck_assert(ct_load(m, set, (ct_load_opts){0}) && first_of(m) == (float)(saved - 1));
    ck_assert_int_gt(loaded, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("shard faults");
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, begin_all, end_all);
    tcase_add_loop_test(faults, every_call_fails, 0, RUNS);
    tcase_add_loop_test(faults, every_request_for_memory_fails, 0, RUNS);
    tcase_add_test(faults, a_buffer_without_memory);
    tcase_add_loop_test(faults, interrupted_and_short, 0, RUNS);
    tcase_add_loop_test(faults, replaced_meanwhile, 0, 2);
    tcase_add_test(faults, never_mixed);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
