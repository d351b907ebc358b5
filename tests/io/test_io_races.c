/* Saves that are killed, that run at the same time in one folder, or whose target changes
 * meanwhile: temporary files, locks, modes and owners. */
#include "tests/support/io_faults.h"

/* ---- temporary files ---- */

static int temporary_files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += !strncmp(entry->d_name, ".cotangent-", 11);
    closedir(dir);
    return n;
}

/* Saves into the same folder, under another name, from another context. */
static bool save_beside(void) {
    char name[160];
    snprintf(name, sizeof name, "%s.beside", path);
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *linear = ct_mlp_new(other, (ct_mlp_opts){.dim = 2, .hidden = 3});
    const bool done =
        ct_save(linear, name, (ct_save_opts){0}) && ct_load(linear, name, (ct_load_opts){0});
    ct_context_free(other);
    return unlink(name) == 0 && done;
}

static int save_in_child(void (*hook)(int fd)) {
    const pid_t child = fork();
    if (child == 0) {
        before_write = hook;
        _exit(save() ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void die(int fd) {
    __real_write(fd, "half", 4);
    kill(getpid(), SIGKILL);
}

/* Killed saves leave temporary files; the next save into the folder removes them, also one of
 * another file by another context. */
START_TEST(killed_saves) {
    for (int n = 0; n < 20; n++) {
        ck_assert(WIFSIGNALED(save_in_child(die)));
        ck_assert_int_eq(temporary_files(), 1);
    }
    ck_assert(save_beside());
    ck_assert_int_eq(temporary_files(), 0);
    /* the same if the target exists and is not readable */
    ck_assert(WIFSIGNALED(save_in_child(die)));
    ck_assert(save() && chmod(path, 0200) == 0 && WIFSIGNALED(save_in_child(die)) && save());
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* Another thread of this process, and another process, save while this save goes on. */
static void save_meanwhile(int fd) {
    ck_assert_int_eq(temporary_files(), 1);
    ck_assert(save_beside());
    ck_assert_int_eq(temporary_files(), 1);
    const pid_t child = fork();
    if (child == 0) {
        __real_close(fd);
        _exit(save_beside() ? 0 : 1);
    }
    int status = 1;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ck_assert_int_eq(temporary_files(), 1);
}

/* With locks of the open file description, of the process, and without locks. */
START_TEST(live_saves_stay) {
    for (int replaces = 0; replaces < 2; replaces++) {
        if (!replaces) unlink(path);
        no_locks = _i;
        before_write = save_meanwhile;
        ck_assert_msg(save(), "%s", ct_error_message(context));
        ck_assert(!before_write && load());
        ck_assert_int_eq(temporary_files(), 0);
    }
    /* without locks a save cannot tell that the other is dead */
    ck_assert(WIFSIGNALED(save_in_child(die)) && save());
    ck_assert_int_eq(temporary_files(), _i == 2);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11)) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}
END_TEST

/* ---- races: another save between two calls of this one ---- */

static void remove_temporary(int fd, int command) {
    (void)fd, (void)command;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11))
            ck_assert_int_eq(__real_unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
}

static int held = -1;

/* Locks the file as a save that removes leftovers does, and still holds the lock when the writer
 * asks for it. */
static void hold_temporary(int fd, int command) {
    (void)fd;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11))
            held = __real_openat(dirfd(dir), entry->d_name, O_RDONLY);
    closedir(dir);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    ck_assert(held >= 0 && __real_fcntl(held, command, &lock) == 0);
}

/* The temporary file is removed or locked by another save between its creation and its own lock:
 * the writer makes another. */
START_TEST(lost_before_it_was_locked) {
    before_lock = remove_temporary;
    ck_assert_msg(save(), "%s", ct_error_message(context));
    before_lock = hold_temporary;
    ck_assert_msg(save(), "%s", ct_error_message(context));
    ck_assert_int_eq(__real_close(held), 0);
    ck_assert(!before_lock && load());
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* Names that others have are passed over; after a hundred of them the save gives up and says so. */
START_TEST(names_that_are_taken) {
    ck_assert(save());
    names_taken = 99;
    ck_assert_msg(save(), "%s", ct_error_message(context));
    ck_assert(names_taken == 0 && load());
    names_taken = 1000000;
    ck_assert(!save() && ct_error(context) == CT_ERR_IO);
    ck_assert_msg(strstr(ct_error_message(context), path) &&
                      strstr(ct_error_message(context), strerror(EEXIST)),
                  "%s", ct_error_message(context));
    ct_error_clear(context);
    ck_assert(names_taken > 0 && load()); /* the old file is whole */
    names_taken = 0;
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* A dead writer's file without permission to read it is removed nevertheless. */
START_TEST(dead_and_not_readable) {
    no_reading = true;
    touch(stale_path);
    const bool saved = save();
    no_reading = false;
    ck_assert_msg(saved, "%s", ct_error_message(context));
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* After a save has listed a temporary file, its writer renames it and another one takes that name.
 */
static void rename_stale(int fd, int command) {
    (void)fd, (void)command;
    char name[160];
    snprintf(name, sizeof name, "%s.renamed", path);
    ck_assert_int_eq(__real_rename(stale_path, name), 0);
    touch(stale_path);
}
static void then_rename_stale(int fd, int command) { /* the first lock is the writer's own */
    (void)fd, (void)command;
    before_lock = rename_stale;
}

START_TEST(renamed_before_it_was_locked) {
    touch(stale_path);
    before_lock = then_rename_stale;
    ck_assert(save() && !before_lock);
    char name[160];
    snprintf(name, sizeof name, "%s.renamed", path);
    ck_assert(S_ISREG(about(name).st_mode) && S_ISREG(about(stale_path).st_mode));
    ck_assert_int_eq(unlink(name), 0);
    ck_assert(save()); /* the next save removes the file that is left */
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* ---- modes and owners ---- */

static mode_t seen;
static void see_mode(int fd) {
    struct stat made;
    ck_assert_int_eq(__real_fstat(fd, &made), 0);
    seen = made.st_mode & 07777;
}

/* A target keeps its mode, and the temporary file never has a wider one; a new file gets its mode
 * from the umask. */
START_TEST(modes_are_kept) {
    static const mode_t modes[] = {0600, 0644, 0640, 0664, 0666,  0400,  0444,
                                   0755, 0200, 0604, 0066, 04755, 02775, 01644};
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) {
        ck_assert(save() && chmod(path, modes[i]) == 0);
        const mode_t mask = umask(i % 2 ? 0 : 077);
        before_write = see_mode;
        ck_assert_msg(save(), "%s", ct_error_message(context));
        umask(mask);
        ck_assert_uint_eq(mode_of(path), modes[i] & 0777);
        ck_assert_uint_eq(seen & ~(modes[i] & 0600), 0);
        unlink(path);
    }
    for (int i = 0; i < 3; i++) {
        const mode_t masks[] = {022, 077, 0}, mask = umask(masks[i]);
        before_write = see_mode;
        ck_assert(save());
        umask(mask);
        ck_assert_uint_eq(mode_of(path), 0666 & ~masks[i]);
        ck_assert_uint_eq(seen, 0666 & ~masks[i]);
        unlink(path);
    }
}
END_TEST

static void narrow(int fd) {
    (void)fd;
    ck_assert_int_eq(chmod(path, 0600), 0);
}
static void take_away(int fd) {
    (void)fd;
    ck_assert_int_eq(unlink(path), 0);
}
static void put_there(int fd) {
    (void)fd;
    touch(path);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

/* The mode of the target at the rename counts; if it was removed meanwhile, its last known mode. */
START_TEST(mode_changes_during_the_save) {
    ck_assert(save() && chmod(path, 0666) == 0);
    before_write = narrow;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
    before_write = take_away;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
    unlink(path);
    before_write = put_there;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
}
END_TEST

/* If the owner or group cannot be kept, the mode is reduced so that nobody gains access. Needs
 * root. */
START_TEST(owners) {
    if (geteuid() != 0) return;
    static const struct {
        mode_t mode, without[3]; /* the owner, the group, both */
    } cases[] = {{0644, {0644, 0644, 0644}}, {0640, {0640, 0600, 0600}}, {0664, {0664, 0644, 0644}},
                 {0660, {0660, 0600, 0600}}, {0604, {0604, 0600, 0600}}, {0466, {0444, 0466, 0444}},
                 {0064, {0000, 0044, 0000}}, {0777, {0777, 0777, 0777}}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int lost = 0; lost < 4; lost++) {
            unlink(path);
            ck_assert(save() &&
                      chown(path, lost & 1 ? 7 : geteuid(), lost & 2 ? 8 : getegid()) == 0);
            ck_assert_int_eq(chmod(path, cases[i].mode), 0);
            ck_assert(save()); /* all can be kept */
            ck_assert_uint_eq(mode_of(path), cases[i].mode);
            ck_assert(about(path).st_uid == (lost & 1 ? 7 : geteuid()) &&
                      about(path).st_gid == (lost & 2 ? 8 : getegid()));
            no_owners = true;
            ck_assert(save());
            no_owners = false;
            ck_assert_uint_eq(mode_of(path), lost ? cases[i].without[lost - 1] : cases[i].mode);
            ck_assert(about(path).st_uid == geteuid() && about(path).st_gid == getegid());
        }
}
END_TEST

int main(void) {
    return run_tests("io races", setup, teardown,
                     TESTS(TEST(killed_saves), LOOP(live_saves_stay, 3),
                           TEST(lost_before_it_was_locked), TEST(names_that_are_taken),
                           TEST(dead_and_not_readable), TEST(renamed_before_it_was_locked),
                           TEST(modes_are_kept), TEST(mode_changes_during_the_save), TEST(owners)));
}
