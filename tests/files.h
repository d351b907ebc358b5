/* What the tests of files share: a folder and a context of each test's own, and what a refusal
 * is. */
#ifndef CT_TESTS_FILES_H
#define CT_TESTS_FILES_H

#include "suite.h"
#include <cotangent/cotangent.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static ct_context *context;

static const char *in_folder(const char *name) {
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline int files_in_folder(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}

static void setup(void) {
    strcpy(folder, "/tmp/cotangent-io-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ck_assert_int_eq(ct_error(context), CT_OK);
}

static void teardown(void) {
    ct_context_free(context);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) remove(in_folder(entry->d_name));
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
}

static inline void ck_refused(bool done, ct_status status, const char *path, const char *says) {
    ck_assert_msg(!done, "accepted; it should say \"%s\"", says);
    ck_assert_msg(ct_error(context) == status, "status %d: %s", ct_error(context),
                  ct_error_message(context));
    ck_assert_msg(strstr(ct_error_message(context), path) != NULL, "%s", ct_error_message(context));
    ck_assert_msg(strstr(ct_error_message(context), says) != NULL, "\"%s\" is not in: %s", says,
                  ct_error_message(context));
    ct_error_clear(context);
}

/* The same names and bits? */
static inline bool same(const ct_module *a, const ct_module *b) {
    ct_param p = {0}, q = {0};
    while (ct_module_next(a, &p)) {
        if (!ct_module_next(b, &q) || strcmp(p.name, q.name)) return false;
        bool f32 = ct_dtype_of(p.tensor) == CT_F32;
        const void *x = f32 ? (void *)ct_data_f32(p.tensor) : (void *)ct_data_f64(p.tensor);
        const void *y = f32 ? (void *)ct_data_f32(q.tensor) : (void *)ct_data_f64(q.tensor);
        if (ct_numel(p.tensor) && memcmp(x, y, (size_t)ct_numel(p.tensor) * (f32 ? 4 : 8)))
            return false;
    }
    return !ct_module_next(b, &q);
}

#endif
