/* Checkpoints of a run, its log and its profile; see run.h. */
#include "run.h"
#include "system.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 1200 };

/* ---- ranks ---- */

bool run_is_first(const run *r) { return ct_comm_rank(r->world) == 0; }

/* Adds up values over the ranks. An error of one rank becomes an error of all. */
static void share(const run *r, double *values, int64_t n, int exit_code) {
    ct_dist_sum(r->dist, values, n);
    check(r->context, exit_code);
}

/* ---- numbers in checkpoints ---- */

static run_item *add_item(run *r, const char *prefix, const char *name, void *number) {
    if (r->n_items == RUN_ITEMS) fail(EXIT_FAILED, "a run has more than %d numbers", RUN_ITEMS);
    run_item *item = &r->items[r->n_items];
    r->n_items++;
    snprintf(item->name, sizeof item->name, "%s%s", prefix, name);
    item->number = number;
    item->words = 1;
    return item;
}

/* Returns whether this name is in the list, which has spaces between names. */
static bool is_listed(const char *names, const char *name) {
    const size_t length = strlen(name);
    const char *at = names;
    while (*at) {
        const size_t next = strcspn(at, " ");
        if (next == length && !strncmp(at, name, length)) return true;
        at += next;
        at += *at == ' ';
    }
    return false;
}

/* Returns the FNV-1a hash. */
static uint64_t hash(const contents *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < text->length; i++) h = (h ^ text->bytes[i]) * 0x100000001b3u;
    return h;
}

/* Stores a text, or the beginning and the hash of a longer one. */
static void store_text(run_item *item, const char *text) {
    const contents all = {.bytes = (unsigned char *)text, .length = (int64_t)strlen(text)};
    item->number = item->text;
    item->words = RUN_TEXT / 8;
    if (snprintf(item->text, RUN_TEXT, "%s", text) >= RUN_TEXT)
        snprintf(item->text, RUN_TEXT, "%.400s... (hash %016llx)", text,
                 (unsigned long long)hash(&all));
}

void run_same_flags(run *r, const flag *flags, int n, const char *names) {
    for (int i = 0; i < n; i++) {
        if (flags[i].kind == HEADING || !is_listed(names, flags[i].name)) continue;
        run_item *item = add_item(r, "--", flags[i].name, flags[i].value);
        item->whole = flags[i].kind != REAL;
        if (flags[i].kind == CHOICE) item->choices = flags[i].words;
        item->same = true;
        if (flags[i].kind != TEXT) continue;
        const char *text = *(const char **)flags[i].value;
        store_text(item, text ? text : "");
    }
}

void run_same_words(run *r, const char *name, const char *text) {
    run_item *item = add_item(r, "", name, NULL);
    item->whole = item->same = true;
    store_text(item, text);
}

void run_same_text(run *r, const contents *text) {
    r->text_bytes = text->length;
    r->text_hash = (int64_t)(hash(text) >> 1);
    run_item *bytes = add_item(r, "", "bytes of text", &r->text_bytes);
    bytes->whole = bytes->same = true;
    run_item *sum = add_item(r, "", "a text of hash", &r->text_hash);
    sum->whole = sum->same = true;
}

void run_same_ids(run *r, const int32_t *ids, int64_t n) {
    uint64_t h = (uint64_t)r->text_hash;
    for (int64_t i = 0; i < n; i++) h = (h ^ (uint32_t)ids[i]) * 0x100000001b3u;
    r->text_hash = (int64_t)(h >> 1); /* the item of run_same_text points to it */
}

/* Adds the bits of a tensor to a hash. */
static uint64_t hash_bits(uint64_t h, ct_tensor *x) {
    const int64_t n = ct_numel(x);
    if (ct_dtype_of(x) == CT_BF16) {
        const uint16_t *bits = ct_data_bf16(x);
        for (int64_t i = 0; i < n; i++) h = (h ^ bits[i]) * 0x100000001b3u;
    } else if (ct_dtype_of(x) == CT_F32) {
        const float *numbers = ct_data_f32(x);
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[i], sizeof bits);
            h = (h ^ bits) * 0x100000001b3u;
        }
    }
    return h;
}

void run_same_model(run *r, const ct_module *module, const char *description) {
    const contents text = {.bytes = (unsigned char *)description,
                           .length = (int64_t)strlen(description)};
    uint64_t h = hash(&text);
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (!ct_requires_grad(p.tensor)) h = hash_bits(h, p.tensor);
    r->model_hash = (int64_t)(h >> 1);
    run_item *item = add_item(r, "", "a model of hash", &r->model_hash);
    item->whole = item->same = true;
}

void run_restore(run *r, const char *name, double *number) { add_item(r, "", name, number); }

static size_t item_size(const run_item *item) { return (size_t)item->words * 8; }

static void *data_of(const run_item *item) {
    return item->whole ? (void *)ct_data_i64(item->tensor) : (void *)ct_data_f64(item->tensor);
}

static void make_tensors(run *r) {
    for (int i = 0; i < r->n_items; i++) {
        run_item *item = &r->items[i];
        item->tensor = ct_zeros(r->context, item->whole ? CT_I64 : CT_F64,
                                item->words > 1 ? CT_SHAPE(item->words) : CT_SCALAR);
        check(r->context, EXIT_FAILED);
        r->tensors[i] = (ct_named){.name = item->name, .tensor = item->tensor};
    }
    r->all.tensors = r->tensors;
    r->all.n_tensors = r->n_items;
}

static void put_numbers(const run *r) {
    for (int i = 0; i < r->n_items; i++)
        memcpy(data_of(&r->items[i]), r->items[i].number, item_size(&r->items[i]));
}

static void restore_numbers(const run *r) {
    for (int i = 0; i < r->n_items; i++)
        memcpy(r->items[i].number, data_of(&r->items[i]), item_size(&r->items[i]));
}

static void print_item(const run_item *item, const void *number, char text[RUN_TEXT]) {
    double real;
    int64_t whole;
    if (item->words > 1) {
        snprintf(text, RUN_TEXT, "%s", *(const char *)number ? (const char *)number : "none");
        return;
    }
    memcpy(&real, number, sizeof real);
    memcpy(&whole, number, sizeof whole);
    const char *word = NULL;
    int length = item->choices ? flag_word(item->choices, whole, &word) : 0;
    if (length) snprintf(text, RUN_TEXT, "%.*s", length, word);
    else if (item->whole) snprintf(text, RUN_TEXT, "%lld", (long long)whole);
    else snprintf(text, RUN_TEXT, "%.10g", real);
}

/* Checks that all ranks have rank 0's flags and text. A number is sent as two halves of 32 bits,
 * because a sum of doubles is exact up to 53 bits. */
static void compare_ranks(const run *r) {
    int64_t words = 0, at = 0;
    for (int i = 0; i < r->n_items; i++) words += r->items[i].words;
    double *halves = calloc((size_t)words + 1, 2 * sizeof *halves);
    if (!halves) fail(EXIT_FAILED, "out of memory");
    uint64_t bits[RUN_TEXT / 8];
    for (int i = 0; i < r->n_items && run_is_first(r); i++) {
        memcpy(bits, r->items[i].number, item_size(&r->items[i]));
        for (int64_t w = 0; w < r->items[i].words; w++, at++) {
            halves[2 * at] = (double)(bits[w] >> 32);
            halves[2 * at + 1] = (double)(bits[w] & 0xffffffffu);
        }
    }
    share(r, halves, 2 * words, EXIT_USAGE);
    at = 0;
    for (int i = 0; i < r->n_items; i++) {
        const run_item *item = &r->items[i];
        for (int64_t w = 0; w < item->words; w++, at++)
            bits[w] = (uint64_t)halves[2 * at] << 32 | (uint64_t)halves[2 * at + 1];
        if (!item->same || !memcmp(bits, item->number, item_size(item))) continue;
        char first[RUN_TEXT], here[RUN_TEXT];
        print_item(item, bits, first);
        print_item(item, item->number, here);
        ct_fail(r->context, CT_ERR_ARGUMENT, "has %s %s, where rank 0 has %s", item->name, here,
                first);
    }
    free(halves);
    share(r, NULL, 0, EXIT_USAGE);
}

/* Checks that all ranks save after the same steps, because all ranks take part in a save. */
static void compare_saving(const run *r) {
    const double mine = r->folder ? (double)r->every : 0; /* 0: no checkpoints */
    double first = run_is_first(r) ? mine : 0;
    share(r, &first, 1, EXIT_USAGE);
    if (first != mine && (first == 0 || mine == 0))
        ct_fail(r->context, CT_ERR_ARGUMENT, "has %s, where rank 0 has %s",
                r->folder ? "--checkpoint" : "no --checkpoint", r->folder ? "none" : "one");
    else if (first != mine)
        ct_fail(r->context, CT_ERR_ARGUMENT, "has --every %lld, where rank 0 has %.0f", r->every,
                first);
    share(r, NULL, 0, EXIT_USAGE);
}

/* Fails if a checkpoint has a different value of a number that must be the same. */
static void check_same(const run *r, const char *path) {
    for (int i = 0; i < r->n_items; i++) {
        const run_item *item = &r->items[i];
        if (!item->same || !memcmp(data_of(item), item->number, item_size(item))) continue;
        char was[RUN_TEXT], is[RUN_TEXT];
        print_item(item, data_of(item), was);
        print_item(item, item->number, is);
        fail(EXIT_USAGE,
             "%s is of a run with %s %s, not %s: start it with the same flags and text, or use "
             "another folder",
             path, item->name, was, is);
    }
}

/* ---- the folder ---- */

static void checkpoint_path(const run *r, int64_t step, char path[PATH]) {
    snprintf(path, PATH, "%s/step-%08lld.safetensors", r->folder, (long long)step);
}

/* The step in the name of a checkpoint, or -1 if the name is not a checkpoint's. */
static int64_t step_of(const char *name) {
    long long step = -1;
    char again[64];
    if (sscanf(name, "step-%18lld", &step) != 1 || step < 0) return -1;
    snprintf(again, sizeof again, "step-%08lld.safetensors", step);
    return strcmp(name, again) ? -1 : step;
}

static int newest_first(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

typedef struct {
    int64_t *step; /* [n] */
    int n, room;
} step_list;

static void add_step(void *to, const char *name) {
    step_list *list = to;
    const int64_t step = step_of(name);
    if (step < 0) return;
    if (list->n == list->room) {
        list->room = 2 * list->room + 16;
        list->step = room_for(list->step, (size_t)list->room, sizeof *list->step);
    }
    list->step[list->n] = step;
    list->n++;
}

/* The steps of the checkpoints in the folder, the newest first. The caller frees the list. */
static int64_t *list_steps(const run *r, int *n) {
    step_list list = {0};
    if (!system_list(r->folder, add_step, &list))
        fail(EXIT_FAILED, "cannot read the folder %s: %s", r->folder, strerror(errno));
    if (list.n) qsort(list.step, (size_t)list.n, sizeof *list.step, newest_first);
    *n = list.n;
    return list.step;
}

bool run_goes_on(const run *r) {
    int n = 0;
    if (r->folder) free(list_steps(r, &n));
    return n > 0;
}

/* Reads one number of a checkpoint. Returns false if the file is not whole or has no such number.
 */
static bool read_number_of(const run *r, const char *path, const char *name, double *number) {
    char full[64];
    snprintf(full, sizeof full, "tensor.%s", name);
    const ct_scope scope = ct_scope_open_no_grad(r->context);
    ct_safetensors *file = ct_safetensors_open(r->context, path);
    ct_tensor *x = file ? ct_safetensors_read(file, full) : NULL;
    const bool found = x && ct_numel(x) == 1;
    if (found) *number = ct_item(x);
    ct_safetensors_close(file);
    ct_scope_close(scope);
    if (ct_error(r->context) == CT_ERR_MEMORY) check(r->context, EXIT_FAILED);
    ct_error_clear(r->context);
    return found;
}

void run_peek(const run *r, const char *name, double *number) {
    int n = 0;
    if (!r->folder || !run_is_first(r)) return;
    int64_t *steps = list_steps(r, &n);
    for (int i = 0; i < n; i++) {
        char path[PATH];
        checkpoint_path(r, steps[i], path);
        if (read_number_of(r, path, name, number)) break;
    }
    free(steps);
}

/* ---- loading ---- */

/* Returns whether the file of this step is complete. If it is, its numbers are in the tensors
 * afterwards. The load into a module without parameters reads only these numbers, but compares the
 * checksum of the whole file. */
static bool is_whole(run *r, const char *path) {
    ct_module *nothing = ct_module_new(r->context, "Nothing");
    ct_checkpoint numbers = {
        .module = nothing,
        .tensors = r->tensors,
        .n_tensors = r->n_items,
    };
    const bool whole = ct_checkpoint_load(path, &numbers);
    const ct_status status = ct_error(r->context);
    if (!whole && status != CT_ERR_FORMAT && status != CT_ERR_IO) check(r->context, EXIT_FAILED);
    if (!whole) {
        warn("passed over, as it is not whole: %s", error_text(ct_error_message(r->context)));
        ct_error_clear(r->context);
    }
    ct_module_free(nothing);
    return whole;
}

/* Returns the step of the newest complete checkpoint, and its path; -1 if there is no checkpoint.
 */
static int64_t find_newest(run *r, char path[PATH]) {
    int n = 0;
    int64_t *steps = list_steps(r, &n);
    r->damaged = steps;
    for (r->n_damaged = 0; r->n_damaged < n; r->n_damaged++) {
        checkpoint_path(r, steps[r->n_damaged], path);
        if (is_whole(r, path)) break;
    }
    if (n == 0) return -1;
    if (r->n_damaged == n)
        fail(EXIT_FAILED, "%s: no checkpoint is whole; to begin anew use another folder",
             r->folder);
    check_same(r, path);
    return steps[r->n_damaged];
}

/* Loads the newest complete checkpoint. Returns false if there is no checkpoint. */
static bool load_newest(run *r) {
    char path[PATH] = "";
    const int64_t step = run_is_first(r) ? find_newest(r, path) : -1;
    double found = step >= 0; /* rank 0 reads it and sends it to the others */
    share(r, &found, 1, EXIT_FAILED);
    if (found == 0) return false;
    if (!ct_checkpoint_load(path, &r->all)) check(r->context, EXIT_FAILED);
    if (run_is_first(r) && r->all.step != step)
        fail(EXIT_FAILED, "%s is of step %lld", path, (long long)r->all.step);
    if (run_is_first(r) && *r->all.other_bits)
        warn("%s: the run goes on with another build or instruction set, to other bits: %s", path,
             r->all.other_bits);
    restore_numbers(r);
    r->saved = r->all.step;
    return true;
}

/* A function that gets the lines of the log, and the loss of the last line. */
typedef struct {
    void (*each)(void *to, const log_line *line);
    void *to;
    double loss;
} lines;

static void take_line(void *to, const log_line *line) {
    lines *l = to;
    l->loss = line->loss;
    l->each(l->to, line);
}

static void resume_log(run *r, lines *l) {
    if (!run_log_resume(&r->log, r->all.step, take_line, l)) fail(EXIT_FAILED, "%s", r->log.fault);
    if (r->all.step > 0 && l->loss != r->loss)
        fail(EXIT_FAILED,
             "%s:%lld: the loss is %.17g, that of the checkpoint %.17g: this is not "
             "its log",
             r->log.path, (long long)r->all.step, l->loss, r->loss);
}

/* ---- saving ---- */

static bool is_damaged(const run *r, int64_t step) {
    for (int i = 0; i < r->n_damaged; i++)
        if (r->damaged[i] == step) return true;
    return false;
}

static void mark_whole(run *r, int64_t step) {
    for (int i = 0; i < r->n_damaged; i++)
        if (r->damaged[i] == step) r->damaged[i] = -1;
}

/* Removes old checkpoints. The newest complete ones stay. A checkpoint that cannot be removed does
 * no harm. */
static void remove_old(const run *r) {
    int n = 0;
    int64_t *steps = list_steps(r, &n);
    int64_t whole = 0;
    for (int i = 0; i < n; i++) {
        char path[PATH];
        if (steps[i] > r->saved) continue;
        const bool damaged = is_damaged(r, steps[i]);
        whole += !damaged;
        if (!damaged && whole <= r->keep) continue;
        checkpoint_path(r, steps[i], path);
        if (!cti_os_remove(path) && errno != ENOENT)
            warn("cannot remove %s: %s", path, strerror(errno));
    }
    free(steps);
}

void run_save(run *r, int64_t step) {
    if (!r->folder || step == r->saved) return;
    char path[PATH];
    checkpoint_path(r, step, path);
    put_numbers(r);
    r->all.step = step;
    /* these lines of the log must be on the disk before the checkpoint exists */
    if (run_is_first(r) && !run_log_sync(&r->log)) fail(EXIT_FAILED, "%s", r->log.fault);
    if (!ct_checkpoint_save(path, &r->all)) check(r->context, EXIT_FAILED);
    r->saved = step;
    if (!run_is_first(r)) return;
    mark_whole(r, step);
    remove_old(r); /* only now, when the new checkpoint is on the disk */
}

void run_step(run *r, const log_line *line) {
    r->loss = line->loss;
    if (run_is_logged(r) && !run_log_append(&r->log, line)) fail(EXIT_FAILED, "%s", r->log.fault);
    if (r->folder && isfinite(line->loss) && line->step % r->every == 0) run_save(r, line->step);
}

/* ---- the run ---- */

/* Finishes the work of a run that was killed during its last save: brings the checkpoint to the
 * disk, and removes old ones. */
static void tidy(run *r) {
    char path[PATH];
    checkpoint_path(r, r->saved, path);
    if (!sync_entry(path))
        fail(EXIT_FAILED, "cannot sync the folder %s: %s", r->folder, strerror(errno));
    remove_old(r);
}

static bool is_checkpoint(const char *name) { return step_of(name) >= 0; }

/* The log is in the folder, unless --log has another path. */
void run_files(run *r) {
    if (r->folder) output_series(r->folder, is_checkpoint);
    if (r->log_path) r->log_path = output_path(NULL, r->log_path);
    else if (r->folder) r->log_path = output_path(r->folder, "log.jsonl");
}

static void sync_folder(const run *r) {
    if (!sync_entry(r->folder))
        fail(EXIT_FAILED, "cannot sync the folder of %s: %s", r->folder, strerror(errno));
}

/* Two runs in one folder would load and remove each other's checkpoints. The lock ends with the
 * process and leaves no file. */
static void lock_folder(run *r) {
    r->folder_fd = system_lock_folder(r->folder);
    if (r->folder_fd >= 0) return;
    if (errno == EAGAIN)
        fail(EXIT_USAGE, "%s: another run has its checkpoints in this folder", r->folder);
    fail(EXIT_FAILED, "cannot read the folder %s: %s", r->folder, strerror(errno));
}

static void open_log(run *r, bool goes_on, lines *l) {
    if (!run_log_open(&r->log, r->log_path)) fail(EXIT_USAGE, "%s", r->log.fault);
    if (goes_on) resume_log(r, l);
    else if (!run_log_is_new(&r->log)) fail(EXIT_USAGE, "%s", r->log.fault);
}

int64_t run_start(run *r, ct_module *module, ct_optim *optim,
                  void (*each)(void *to, const log_line *line), void *to) {
    r->all.module = module;
    r->all.optim = optim;
    r->all.group = ct_dist_group(r->dist);
    r->saved = -1;
    r->log.fd = r->folder_fd = -1;
    compare_ranks(r);
    compare_saving(r);
    bool goes_on = false;
    if (r->folder) {
        if (run_is_first(r)) {
            sync_folder(r);
            lock_folder(r);
        }
        run_restore(r, "loss", &r->loss);
        make_tensors(r);
        goes_on = load_newest(r);
    }
    lines l = {.each = each, .to = to};
    if (r->log_path && run_is_first(r)) open_log(r, goes_on, &l);
    if (!goes_on) run_save(r, 0);
    else if (run_is_first(r)) tidy(r);
    return r->all.step;
}

bool run_is_logged(const run *r) { return r->log.fd >= 0; }

void run_end(run *r) {
    run_log_close(&r->log);
    if (r->folder_fd >= 0) cti_os_close(r->folder_fd);
    r->folder_fd = -1;
    free(r->damaged);
    r->damaged = NULL;
    r->n_damaged = 0;
}

void run_say_interrupted(const run *r, int64_t step, bool kept) {
    if (r->folder)
        printf("Interrupted after step %lld; the same command goes on from there\n",
               (long long)step);
    else if (!kept)
        printf("Interrupted after step %lld: nothing is saved (--checkpoint DIR lets a run go on, "
               "--keep-partial saves what there is)\n",
               (long long)step);
}

/* ---- the profile ---- */

static volatile sig_atomic_t asked;

static void on_signal(int number) { asked = number; }

void run_profile_catch(void) { system_on_request(on_signal); }

void run_profile_show(ct_context *context) {
    if (!asked) return;
    asked = 0;
    progress_end();
    ct_profile_print(context, stdout);
    fflush(stdout);
}
