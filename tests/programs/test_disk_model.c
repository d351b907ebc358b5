/* Power fails at every point of a save, on a disk that loses unsynced data, in any order:
 * files, checkpoints, sets of shards, and the folder and log of a run. A load then finds the old
 * or the new, and after the save has returned the new. Writers that leave out a sync are caught.
 * Then each call fails once in the run's code: a full disk, a quota, a file system that is
 * read-only, a signal. */
#include "disk_model.h"

#include <cotangent/cotangent.h>
#include <setjmp.h>

#undef fail /* Check's; the examples have a function of that name */
#include "programs/run.h"

/* ---- what programs/common.c has, without an end of the process ---- */

static jmp_buf failed;
static char said[2000];

_Noreturn void fail(int exit_code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    longjmp(failed, exit_code);
}
void warn(const char *format, ...) { (void)format; }
void check(const ct_context *context, int exit_code) {
    if (ct_error(context) != CT_OK) fail(exit_code, "%s", ct_error_message(context));
}
void progress_end(void) {}
const char *error_text(const char *message) { return message; }
int flag_word(const char *words, long long i, const char **word) { /* no flag here has words */
    *word = words;
    return (void)i, 0;
}
void output_series(const char *folder, bool (*fits)(const char *name)) {
    (void)fits;
    if (mkdir(folder, 0777) && errno != EEXIST)
        fail(EXIT_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
}
const char *output_path(const char *folder, const char *name) {
    static char paths[2][MODEL_PATH]; /* a run under the model has the second */
    char *path = paths[disk.on];
    if (!folder) return name;
    snprintf(path, MODEL_PATH, "%s/%s", folder, name);
    return path;
}

/* ---- modules of one value ---- */

enum { OLD = 1, NEW = 2 };

static char root[64], path[128];
static ct_context *context;

static ct_module *module_of(ct_context *c, double value) {
    ct_module *m = ct_module_new(c, "M");
    ct_module_add_param(m, "a", ct_full(c, CT_F32, CT_SHAPE(300), value));
    ct_module_add_param(m, "b", ct_full(c, CT_F64, CT_SHAPE(7), value));
    ct_module_add_param(m, "c", ct_full(c, CT_F32, CT_SHAPE(20, 20), value));
    return m;
}

/* The value that all parameters have; -1 if they differ. */
static double value_of(const ct_module *m) {
    double value = -2;
    for (ct_param p = {0}; ct_module_next(m, &p);)
        for (int64_t i = 0; i < ct_numel(p.tensor); i++) {
            const double x = ct_dtype_of(p.tensor) == CT_F32 ? (double)ct_data_f32(p.tensor)[i]
                                                             : ct_data_f64(p.tensor)[i];
            value = value == -2 || value == x ? x : -1;
        }
    return value;
}

static void set_value(ct_module *m, double value) {
    for (ct_param p = {0}; ct_module_next(m, &p);) ct_init_constant(p.tensor, value);
}

/* States that should not be are counted: a broken writer must have some. */
static int64_t ruined;
static char first_ruin[2500];
static void ruin(const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (ruined++ == 0) vsnprintf(first_ruin, sizeof first_ruin, format, args);
    va_end(args);
}

/* ---- a file, a checkpoint, a set of shards ---- */

typedef enum {
    FILE_NEW,
    FILE_OVER,
    CHECKPOINT_OVER,
    SHARDS_NEW,
    SHARDS_OVER,
    SHARDS_FEWER,
    SHARDS_FOR_FILE
} kind;
static kind saved_kind;
static bool returned;      /* the save has */
static bool log_elsewhere; /* a run's log is in another folder than the checkpoints */

static bool is_shards(kind k) { return k >= SHARDS_NEW; }

static bool save(ct_module *m, ct_optim *optim, kind k) {
    const int64_t bytes = k == SHARDS_FEWER ? 2500 : 1000;
    if (k == CHECKPOINT_OVER)
        return ct_checkpoint_save(path, &(ct_checkpoint){.module = m, .optim = optim, .step = 3});
    return ct_save(m, path, (ct_save_opts){.shard_bytes = is_shards(k) ? bytes : 0});
}

static void look_at_file(const char *crashed) {
    static ct_context *reader;
    if (!reader) reader = ct_context_new((ct_context_opts){.threads = 1});
    char where[MODEL_PATH];
    snprintf(where, sizeof where, "%s/model", crashed);
    ct_scope scope = ct_scope_open(reader);
    ct_module *m = module_of(reader, 0);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){0});
    ct_checkpoint all = {.module = m, .optim = optim};
    const bool loads = saved_kind == CHECKPOINT_OVER ? ct_checkpoint_load(where, &all)
                                                     : ct_load(m, where, (ct_load_opts){0});
    const double value = value_of(m);
    const char *message = ct_error_message(reader);
    const bool was_there = saved_kind != FILE_NEW && saved_kind != SHARDS_NEW;
    /* nothing to load, and said so */
    const bool none =
        strstr(message, "No such file or directory") || strstr(message, "is a folder with neither");
    if (loads && value != NEW && !(value == OLD && was_there && !returned))
        ruin("call %lld: the value is %g", (long long)disk.calls, value);
    if (!loads && (returned || !none || was_there))
        ruin("call %lld: %s", (long long)disk.calls, message);
    ct_error_clear(reader);
    ct_module_free(m);
    ct_scope_close(scope);
}

static void begin(void) {
    /* in memory if possible: some hundred thousand files are made */
    snprintf(root, sizeof root, "%s/cotangent-disk-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof path, "%s/model", root);
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ruined = 0;
    returned = log_elsewhere = false;
}

static void end(void) {
    disk.on = false;
    ct_context_free(context);
    remove_tree(root);
}

static void save_and_crash(kind k, int outcomes, bool no_file_sync, bool no_folder_sync) {
    ct_module *m = module_of(context, OLD);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){0});
    saved_kind = k;
    if (k == SHARDS_FOR_FILE) { /* a folder with one file */
        char file[MODEL_PATH];
        snprintf(file, sizeof file, "%s/model.safetensors", path);
        ck_assert(mkdir(path, 0777) == 0 && ct_save(m, file, (ct_save_opts){0}));
    } else if (k != FILE_NEW && k != SHARDS_NEW)
        ck_assert_msg(save(m, optim, k == SHARDS_FEWER ? SHARDS_OVER : k), "%s",
                      ct_error_message(context));
    set_value(m, NEW);
    disk_begin(root, outcomes, 7, look_at_file);
    disk.no_file_sync = no_file_sync;
    disk.no_folder_sync = no_folder_sync;
    ck_assert_msg(save(m, optim, k), "%s", ct_error_message(context));
    returned = true;
    disk_end();
    ck_assert_int_gt(disk.calls, is_shards(k) ? 20 : 8);
}

START_TEST(old_or_new) {
    save_and_crash((kind)_i, 20, false, false);
    ck_assert_msg(ruined == 0, "%lld of %lld: %s", (long long)ruined, (long long)disk.tried,
                  first_ruin);
}
END_TEST

START_TEST(without_a_sync_of_the_file) {
    save_and_crash((kind)_i, 20, true, false);
    ck_assert_int_gt(ruined, 0);
}
END_TEST

START_TEST(without_a_sync_of_the_folder) {
    save_and_crash((kind)_i, 20, false, true);
    ck_assert_int_gt(ruined, 0);
}
END_TEST

/* ---- a run: checkpoints of which the last two stay, and a log ---- */

enum { EVERY = 3, STEPS = 10 };

static int64_t acknowledged; /* the step of the last checkpoint whose save has returned */

typedef struct {
    run r;
    ct_module *module;
    ct_optim *optim;
    double mark;
    char folder[MODEL_PATH], log[MODEL_PATH];
    int64_t lines; /* lines that were read */
} training;

static log_line line_of(int64_t step) {
    return (log_line){.step = step, .loss = 1.0 / (double)step, .lr = 0.1, .peak_bytes = 9};
}

static void take_line(void *to, const log_line *line) {
    training *t = to;
    const log_line expected = line_of(line->step);
    if (line->step != ++t->lines || line->loss != expected.loss)
        ruin("line %lld has step %lld", (long long)t->lines, (long long)line->step);
}

/* Returns the step after which it goes on. */
static int64_t start(training *t, ct_context *c, const char *top, int keep) {
    *t = (training){.mark = -1};
    snprintf(t->folder, sizeof t->folder, "%s/run", top);
    t->r = (run){.folder = t->folder, .every = EVERY, .keep = keep, .context = c};
    t->r.log.fd = t->r.folder_fd = -1;
    snprintf(t->log, sizeof t->log, "%s/run.jsonl", top);
    if (log_elsewhere) t->r.log_path = t->log;
    t->module = module_of(c, 0);
    t->optim = ct_sgd_new(t->module, (ct_sgd_opts){0});
    t->r.dist = ct_dist_new(t->optim, NULL, (ct_dist_opts){0});
    run_restore(&t->r, "mark", &t->mark);
    run_files(&t->r);
    return run_start(&t->r, t->module, t->optim, take_line, t);
}

static void train(training *t, int64_t from, int64_t to) {
    for (int64_t step = from + 1; step <= to; step++) {
        set_value(t->module, (double)step);
        t->mark = (double)step * 3;
        const log_line line = line_of(step);
        run_step(&t->r, &line);
        if (disk.on && t->r.saved >= 0) acknowledged = t->r.saved;
    }
}

static void look_at_run(const char *crashed) {
    ct_context *reader = ct_context_new((ct_context_opts){.threads = 1});
    training t;
    jmp_buf outer;
    memcpy(&outer, &failed, sizeof outer);
    if (setjmp(failed)) {
        ruin("call %lld: %s", (long long)disk.calls, said);
    } else {
        const int64_t step = start(&t, reader, crashed, 2);
        if (step < acknowledged || t.lines != step || value_of(t.module) != (double)step ||
            (step > 0 && t.mark != (double)step * 3))
            ruin("call %lld: goes on after step %lld with %lld lines and the value %g; step %lld "
                 "was saved",
                 (long long)disk.calls, (long long)step, (long long)t.lines, value_of(t.module),
                 (long long)acknowledged);
        train(&t, step, step + 2);
        run_save(&t.r, step + 2);
        run_end(&t.r);
        /* and once more */
        if (start(&t, reader, crashed, 2) != step + 2 || t.lines != step + 2)
            ruin("call %lld: what went on after step %lld goes on after %lld",
                 (long long)disk.calls, (long long)step, (long long)t.r.saved);
    }
    run_end(&t.r);
    ct_context_free(reader);
    memcpy(&failed, &outer, sizeof outer);
}

static void run_and_crash(int keep, int outcomes, bool no_file_sync, bool no_folder_sync) {
    training t;
    acknowledged = -1;
    disk_begin(root, outcomes, 5, look_at_run);
    disk.no_file_sync = no_file_sync;
    disk.no_folder_sync = no_folder_sync;
    if (setjmp(failed)) ck_abort_msg("%s", said);
    ck_assert_int_eq(start(&t, context, root, keep), 0);
    acknowledged = 0;
    train(&t, 0, STEPS);
    run_save(&t.r, STEPS);
    acknowledged = STEPS;
    disk_end();
    run_end(&t.r);
}

START_TEST(a_run) {
    log_elsewhere = _i == 1;
    run_and_crash(1 + _i, 4, false, false);
    ck_assert_msg(ruined == 0, "%lld of %lld: %s", (long long)ruined, (long long)disk.tried,
                  first_ruin);
    ck_assert_int_gt(disk.tried, 300);
    char where[MODEL_PATH];
    DIR *list = opendir(strcat(strcpy(where, root), "/run"));
    int files = 0;
    while (readdir(list)) files++;
    closedir(list);
    ck_assert_int_eq(files, 2 + !log_elsewhere + 1 + _i); /* ., .., the log, what is kept */
}
END_TEST

START_TEST(a_run_without_syncs) {
    run_and_crash(1, 4, _i == 0, _i == 1);
    ck_assert_int_gt(ruined, 0);
}
END_TEST

/* A run that goes on from a log with a torn line and lines behind its checkpoint. */
START_TEST(a_run_that_goes_on) {
    training t;
    if (setjmp(failed)) ck_abort_msg("%s", said);
    start(&t, context, root, 2);
    train(&t, 0, 8);
    run_end(&t.r);
    char log[MODEL_PATH];
    snprintf(log, sizeof log, "%s/run/log.jsonl", root);
    FILE *file = fopen(log, "a");
    fputs("{\"step\":9,\"los", file);
    fclose(file);
    acknowledged = 6;
    disk_begin(root, 6, 3, look_at_run);
    ck_assert_int_eq(start(&t, context, root, 2), 6);
    train(&t, 6, STEPS);
    disk_end();
    run_end(&t.r);
    ck_assert_msg(ruined == 0, "%s", first_ruin);
}
END_TEST

static jmp_buf killed;
static void kill_now(void) { longjmp(killed, 1); }

/* The program is killed before each sync and started again, without a loss of power in between.
 * Changes that the first process has not synced are still not durable. A context whose call was
 * left by the longjmp cannot be freed, and is kept where a check for leaks finds it. */
START_TEST(killed_and_started_again) {
    enum { MOST_KILLS = 100 };
    static ct_context *volatile left[2][MOST_KILLS];
    bool more = true;
    log_elsewhere = _i == 1;
    for (int64_t at = 1; more; at++) {
        static training t;
        remove_tree(root);
        ck_assert_int_eq(mkdir(root, 0777), 0);
        acknowledged = -1;
        disk_begin(root, 2, (uint64_t)at, look_at_run);
        disk.kill_at = at, disk.kill = kill_now;
        if (setjmp(failed)) ck_abort_msg("%s", said);
        ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
        if (!setjmp(killed)) train(&t, start(&t, c, root, 1), STEPS);
        more = disk.syncs >= at;
        if (more) {
            ck_assert(at < MOST_KILLS && !left[_i][at]);
            left[_i][at] = c;
            close_all();
        } else {
            run_end(&t.r);
            ct_context_free(c);
        }
        disk.kill_at = 0;
        c = ct_context_new((ct_context_opts){.threads = 1});
        const int64_t step = start(&t, c, root, 1);
        train(&t, step, step + 2);
        disk_end();
        run_end(&t.r);
        ct_context_free(c);
        ck_assert_msg(ruined == 0, "killed at sync %lld: %s", (long long)at, first_ruin);
    }
}
END_TEST

/* ---- calls that fail ---- */

/* Begins or goes on, and trains up to a step. Returns whether nothing failed. */
static bool train_to(ct_context *c, int64_t end) {
    static training t;
    t.r.log.fd = -1;
    t.r.damaged = NULL;
    const bool done = !setjmp(failed);
    if (done) {
        const int64_t step = start(&t, c, root, 2);
        train(&t, step, end);
        if (end == STEPS) run_save(&t.r, STEPS);
    }
    run_end(&t.r);
    return done;
}

static bool to_the_end(ct_context *c) { return train_to(c, STEPS); }

static const int errors[] = {ENOSPC, EDQUOT, EROFS, EACCES, EIO, EINTR};
enum { ERRORS = sizeof errors / sizeof *errors };

/* In a run that begins, and in one that goes on with two checkpoints and a log that is cut. */
START_TEST(every_call_of_a_run_fails) {
    const int error = errors[_i % ERRORS];
    for (int64_t at = 1;; at++) {
        remove_tree(root);
        ck_assert_int_eq(mkdir(root, 0777), 0);
        ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
        if (_i >= ERRORS) ck_assert_msg(train_to(c, 8), "%s", said);
        ct_context_free(c);
        disk_begin(root, 0, 1, NULL);
        disk.fail_at = at, disk.fail_errno = error;
        c = ct_context_new((ct_context_opts){.threads = 1});
        const bool done = to_the_end(c);
        const char *call = disk.failed;
        ct_context_free(c);
        disk.on = false;
        if (!call) {
            ck_assert_msg(done, "%s", said);
            ck_assert_int_gt(at, 100);
            break;
        }
        /* a signal interrupts what waits: nothing of that is a failure */
        static const char *const waits[] = {"open",  "write", "pwrite",   "pread",
                                            "fsync", "close", "ftruncate"};
        bool interrupted = false;
        for (int i = 0; i < 7; i++) interrupted |= error == EINTR && !strcmp(call, waits[i]);
        ck_assert_msg(done || !interrupted, "call %lld, %s: %s", (long long)at, call, said);
        ck_assert_msg(done || (strstr(said, root) && strstr(said, strerror(error))),
                      "call %lld, %s: %s", (long long)at, call, said);
        /* when there is room again the run goes on, from no older step than was saved */
        c = ct_context_new((ct_context_opts){.threads = 1});
        ck_assert_msg(to_the_end(c), "after call %lld, %s: %s", (long long)at, call, said);
        ck_assert_msg(ruined == 0, "after call %lld, %s: %s", (long long)at, call, first_ruin);
        ct_context_free(c);
    }
}
END_TEST

/* Folders where files belong. */
START_TEST(a_folder_in_the_way) {
    static const char *const ways[] = {"run/step-00000000.safetensors",
                                       "run/step-00000003.safetensors", "run/log.jsonl"};
    char where[MODEL_PATH];
    snprintf(where, sizeof where, "%s/run", root);
    ck_assert_int_eq(mkdir(where, 0777), 0);
    snprintf(where, sizeof where, "%s/%s", root, ways[_i]);
    ck_assert_int_eq(mkdir(where, 0777), 0);
    ck_assert(!to_the_end(context));
    /* the first two are found before the run begins: no checkpoint is whole */
    ck_assert_msg(strstr(said, _i < 2 ? "no checkpoint is whole" : "Is a directory"), "%s", said);
    ck_assert_int_eq(rmdir(where), 0);
    ck_assert_msg(to_the_end(context), "%s", said);
    ck_assert_int_eq(mkdir(where, 0777) == 0, _i < 2);
    ck_assert_msg(to_the_end(context), "%s", said); /* an older one than the newest harms nothing */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("disk model");
    TCase *crashes = tcase_create("crashes");
    tcase_add_checked_fixture(crashes, begin, end);
    tcase_add_loop_test(crashes, old_or_new, FILE_NEW, SHARDS_FOR_FILE + 1);
    tcase_add_loop_test(crashes, without_a_sync_of_the_file, FILE_NEW, SHARDS_FOR_FILE + 1);
    tcase_add_loop_test(crashes, without_a_sync_of_the_folder, FILE_NEW, SHARDS_FOR_FILE + 1);
    tcase_add_loop_test(crashes, a_run, 0, 3);
    tcase_add_loop_test(crashes, a_run_without_syncs, 0, 2);
    tcase_add_test(crashes, a_run_that_goes_on);
    tcase_add_loop_test(crashes, killed_and_started_again, 0, 2);
    tcase_add_loop_test(crashes, every_call_of_a_run_fails, 0, 2 * ERRORS);
    tcase_add_loop_test(crashes, a_folder_in_the_way, 0, 3);
    suite_add_tcase(suite, crashes);
    return run_suite(suite);
}
