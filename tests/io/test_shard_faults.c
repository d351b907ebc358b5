/* Every call into the system and every request for memory fails once, in code that writes and reads
 * sets of shards and tensors: errors say so, nothing is left open or behind, and the next load has
 * the old set or the new one. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/io_faults.h"

#define INDEX "model.safetensors.index.json"

static ct_module *target; /* the target of loads */
static ct_tensor *tensors[4];
static ct_load_report report;

static void *must(void *made) {
    ck_assert_msg(made, "%s", ct_error_message(context));
    return made;
}

/* The path of the set. */
static const char *set_path(void) {
    static char full[200];
    snprintf(full, sizeof full, "%s/set", folder);
    return full;
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
    fault_disarm();
    transfers = WHOLE;
    clear_set();
    teardown();
}

/* ---- the operations ---- */

static bool save_set(int64_t bytes) {
    return ct_save(module, set_path(), (ct_save_opts){.shard_bytes = bytes});
}
static bool same_number(void) { return save_set(64); }
static bool other_number(void) { return save_set(1000); }
/* Rows and transposed matrices, put together again. */
static bool save_by_map(void) {
    static const ct_load_map map[] = {
        {.param = "fc.weight", .file = "fc.weight", .rows = 2},
        {.param = "fc.weight", .file = "fc.weight", .param_start = 2, .file_start = 2},
        {.param = "proj.*", .file = "proj.*"}};
    return ct_save(module, set_path(), (ct_save_opts){.shard_bytes = 64, .map = map, .n_map = 3});
}
static bool save_tensors(void) {
    static const char *const names[] = {"a", "b", "c", "d"};
    ct_named named[4];
    for (int i = 0; i < 4; i++) named[i] = (ct_named){names[i], tensors[i]};
    return ct_tensors_save(context, set_path(), named, 4,
                           (ct_save_opts){.floats = CT_FILE_F16, .shard_bytes = 80});
}
static bool load_set(void) { return ct_load(target, set_path(), (ct_load_opts){0}); }
static bool load_mapped(void) {
    static const ct_load_map map[] = {
        {.param = "fc.weight", .file = "fc.weight", .rows = 2},
        {.param = "fc.weight", .file = "fc.weight", .param_start = 2, .file_start = 2},
        {.param = "proj.weight", .file = "fc.weight", .transposed = true}};
    const ct_load_opts opts = {.map = map, .n_map = 3, .partial = true, .report = &report};
    return ct_load(target, set_path(), opts);
}
/* The two names of a parameter are compared, one by pieces. */
static bool load_tied(void) {
    static const ct_load_map map[] = {
        {.param = "tied.*", .file = "fc.*", .rows = 2},
        {.param = "tied.weight", .file = "fc.weight", .rows = 2},
        {.param = "tied.weight", .file = "fc.weight", .param_start = 2, .file_start = 2}};
    static const char *const ignore[] = {"none", "s??n", NULL};
    const ct_load_opts opts = {.map = map, .n_map = 3, .report = &report, .ignore = ignore};
    return ct_load(target, set_path(), opts) && report.loaded == 5;
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
    ct_scope scope = ct_scope_open(context);
    ct_safetensors *file = ct_safetensors_open(context, set_path());
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

typedef struct {
    const char *name;
    bool (*run)(void);
    bool there, writes; /* a set of save_set(64) is there */
} shard_run;
static const shard_run runs[] = {
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
static void prepare(void *arg) {
    clear_set();
    put_first(1);
    if (((const shard_run *)arg)->there)
        ck_assert_msg(same_number(), "%s", ct_error_message(context));
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

static bool run(void *arg) { return ((const shard_run *)arg)->run(); }

/* The next load has the old set or the new one; no file of a failed save stays. */
static void check_set(const fault_end *end, const shard_run *r) {
    const bool loads = load_set();
    const bool is_set = loads || r->run == save_tensors;
    FAULT_CK(end, is_set || (!end->done && !r->there));
    ct_error_clear(context);
    if (loads)
        FAULT_CK(end, first_of(target) == 2 || (!end->done && r->there && first_of(target) == 1));
    /* a temporary file whose own removal failed stays, until the next save */
    FAULT_CK(end, temporaries() == 0 || (end->struck && !strcmp(end->struck, "unlink")));
}

static void check_run(const fault_end *end, void *arg) {
    const shard_run *r = arg;
    const bool named = end->done || ct_error(context) == CT_ERR_MEMORY;
    FAULT_CK(end, ct_memory(context).live == end->live);
    FAULT_CK(end, named || strstr(end->message, folder));
    FAULT_CK(end, named || strstr(end->message, strerror(EIO)));
    if (!r->writes)
        FAULT_CK(end, first_of(target) == (end->done && r->there && r->run != read_set ? 1 : 3));
    ct_error_clear(context);
    if (r->writes) check_set(end, r);
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
                              .least = runs[i].run == load_pointer ? 2 : 8});
}

START_TEST(every_call_fails) { sweep(_i, FAULT_CALL); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(_i, FAULT_TAKE); }
END_TEST

static bool add_buffer_in_scope(void *arg) {
    (void)arg;
    ct_scope scope = ct_scope_open(context);
    const bool done = add_buffer();
    ct_scope_close(scope);
    return done;
}

static void check_memory(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, end->done == !end->struck);
    FAULT_CK(end, ct_memory(context).live == end->live);
}

START_TEST(a_buffer_without_memory) {
    fault_sweep(&(fault_case){.name = "a buffer",
                              .kind = FAULT_TAKE,
                              .context = &context,
                              .run = add_buffer_in_scope,
                              .end = check_memory,
                              .least = 3});
}
END_TEST

START_TEST(interrupted_and_short) {
    const shard_run *r = &runs[_i];
    for (int how = INTERRUPTED; how <= SHORT; how++) {
        transfers = WHOLE;
        prepare((void *)r);
        transfers = how;
        ck_assert_msg(r->run(), "%s: %s", r->name, ct_error_message(context));
        if (r->run == save_tensors || r->run == load_pointer) continue;
        ck_assert(load_set());
        ck_assert(first_of(target) == (r->writes ? 2 : 1));
    }
}
END_TEST

/* ---- a set that is replaced while it is opened ---- */

static ct_module *writer; /* a module of another context */
static int64_t writer_bytes;

static void fill(ct_module *m, double value) {
    for (ct_param p = {0}; ct_module_next(m, &p);) ct_init_constant(p.tensor, value);
}
static void save_by_writer(void) {
    ck_assert(ct_save(writer, set_path(), (ct_save_opts){.shard_bytes = writer_bytes}));
}
/* The one value of all elements. */
static float value_of(ct_module *m) {
    const float value = first_of(m);
    for (ct_param p = {0}; ct_module_next(m, &p);)
        for (int64_t k = 0; k < ct_numel(p.tensor); k++)
            ck_assert(ct_data_f32(p.tensor)[k] == value);
    return value;
}

typedef struct {
    ct_module *module;
    int seen[3]; /* how many loads had the set of that number */
    bool fewer;  /* shards are in the set that comes */
} replacement;

static void begin_replacement(void *arg) {
    clear_set();
    fill(writer, 1);
    writer_bytes = 64;
    save_by_writer();
    fill(writer, 2);
    writer_bytes = ((replacement *)arg)->fewer ? 1000 : 64;
}
static bool load_replaced(void *arg) {
    return ct_load(((replacement *)arg)->module, set_path(), (ct_load_opts){0});
}
static void check_replaced(const fault_end *end, void *arg) {
    replacement *r = arg;
    FAULT_CK(end, end->done);
    r->seen[(int)value_of(r->module)]++;
}

/* A set is replaced before each call of a load in turn. The load has the old set or the new one. */
START_TEST(replaced_meanwhile) {
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    replacement r = {.module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5}),
                     .fewer = !_i};
    writer = ct_mlp_new(other, (ct_mlp_opts){.dim = 3, .hidden = 5});
    meanwhile = save_by_writer;
    fault_sweep(&(fault_case){.name = "a set that is replaced",
                              .kind = FAULT_MEANWHILE,
                              .context = &context,
                              .arg = &r,
                              .begin = begin_replacement,
                              .run = load_replaced,
                              .end = check_replaced,
                              .may_succeed = true});
    ck_assert(r.seen[1] > 1 && r.seen[2] > 5);
    ct_context_free(other);
}
END_TEST

/* The writer makes SAVES saves, and goes on, up to MOST_SAVES, until the reader has loaded one. */
enum { SAVES = 400, MOST_SAVES = 100 * SAVES };
static atomic_bool written; /* the writer has ended */
static atomic_int loaded;   /* how many loads have succeeded */
static int saved;           /* how many saves the writer has made */

/* set_path writes its buffer at each call, so the two threads share one copy of the path. */
static void *save_often(void *set) {
    ct_context *mine = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *m = ct_mlp_new(mine, (ct_mlp_opts){.dim = 3, .hidden = 5});
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
    strcpy(set, set_path());
    written = false;
    loaded = 0;
    pthread_t saver;
    ck_assert_int_eq(pthread_create(&saver, NULL, save_often, set), 0);
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
    return run_tests("shard faults", begin_all, end_all,
                     TESTS(LOOP(every_call_fails, RUNS), LOOP(every_request_for_memory_fails, RUNS),
                           TEST(a_buffer_without_memory), LOOP(interrupted_and_short, RUNS),
                           LOOP(replaced_meanwhile, 2), TEST(never_mixed)));
}
