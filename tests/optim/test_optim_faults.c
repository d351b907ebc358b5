/* Each request for memory fails in turn, while an optimiser of a rule is made, stepped, saved and
 * loaded: then there is an error, and only the changes that optim.h names. */
#include "tests/support/memory_faults.h"

#include "tests/support/fault_sweep.h"
#include "tests/support/files.h"
#include "optim_model.h"
#include "tests/support/optim_rules.h"

typedef struct {
    ct_context *c;
    ct_module *module;
    ct_optim *optim;
    const ct_optim_rule *rule;
    const char *path;
    double before[PARAMS][MOST];
} faulty;

static bool run_made(void *arg) {
    faulty *f = arg;
    f->optim =
        f->rule ? ct_optim_new(f->module, f->rule, (ct_optim_opts){.lr = 0.1})
                : ct_muon_new(f->module, (ct_muon_opts){.adamw_names = (const char *[]){"weight"},
                                                        .n_adamw_names = 1});
    return f->optim;
}
static void end_made(const fault_end *end, void *arg) {
    faulty *f = arg;
    ct_error_clear(f->c);
    ct_optim_free(f->optim);
    f->optim = NULL;
    FAULT_CK(end, ct_memory(f->c).live == end->live);
}

static void begin_stepped(void *arg) {
    faulty *f = arg;
    f->module = model_in(f->c, CT_F64);
    if (!run_made(f)) ck_abort_msg("%s", ct_error_message(f->c));
    give_all(f->module, 1);
    for (int k = 0; k < PARAMS; k++)
        ct_to_f64(ct_module_get(f->module, names[k]), f->before[k], k < 2 ? MOST : ROWS);
}
static bool run_stepped(void *arg) {
    faulty *f = arg;
    return ct_optim_step(f->optim);
}
/* A step of the library's rule that fails changes nothing; of a program's rule, nothing from the
 * parameter on that failed. */
static void end_stepped(const fault_end *end, void *arg) {
    faulty *f = arg;
    bool changed = true;
    ct_error_clear(f->c);
    for (int k = 0; k < PARAMS; k++) {
        double now[MOST];
        const size_t n = k < 2 ? MOST : ROWS;
        FAULT_CK(end, ct_to_f64(ct_module_get(f->module, names[k]), now, (int64_t)n));
        const bool differs = memcmp(now, f->before[k], n * sizeof *now);
        if (end->done) FAULT_CK(end, differs);
        else if (!f->rule) FAULT_CK(end, !differs);
        else FAULT_CK(end, changed || !differs);
        changed = differs;
    }
    give_all(f->module, 2);
    FAULT_CK(end, ct_optim_step(f->optim));
    ct_module_free(f->module);
}

static bool run_saved(void *arg) {
    faulty *f = arg;
    ct_checkpoint run = {.module = f->module, .optim = f->optim, .step = 1};
    return ct_checkpoint_save(f->path, &run) && ct_checkpoint_load(f->path, &run) &&
           ct_optim_set(f->optim, "lr", 0.05);
}
static void end_saved(const fault_end *end, void *arg) {
    faulty *f = arg;
    ct_error_clear(f->c);
    FAULT_CK(end, ct_optim_step(f->optim));
    ct_module_free(f->module);
}

START_TEST(memory_runs_out) {
    const ct_optim_rule *const rules[] = {&lion, &normed, ct_adamw_rule(), NULL};
    for (int i = 0; i < 8; i++) {
        faulty f = {.rule = rules[i / 2], .path = in_folder("run")};
        f.c = new_with((ct_context_opts){.threads = 1});
        f.module = model_in(f.c, CT_F64);
        fault_case made = {.name = "an optimiser of a rule",
                           .kind = FAULT_TAKE,
                           .forever = i % 2,
                           .context = &f.c,
                           .arg = &f,
                           .run = run_made,
                           .end = end_made,
                           .least = 6};
        fault_sweep(&made);
        ct_module_free(f.module);
        fault_case stepped = {.name = "a step of a rule",
                              .kind = FAULT_TAKE,
                              .forever = i % 2,
                              .context = &f.c,
                              .arg = &f,
                              .begin = begin_stepped,
                              .run = run_stepped,
                              .end = end_stepped,
                              .grows = true,
                              .least = 1};
        fault_sweep(&stepped);
        fault_case saved = stepped;
        saved.name = "a checkpoint of a rule", saved.sparse = 12;
        saved.run = run_saved, saved.end = end_saved;
        fault_sweep(&saved);
        ct_context_free(f.c);
    }
}
END_TEST

int main(void) { return run_tests("optim_faults", setup, teardown, TESTS(TEST(memory_runs_out))); }
