/* What POSIX and WASI share. system_posix.c and system_wasi.c include it after their headers. */

void system_begin(int argc, char **argv) { (void)argc, (void)argv; }

double system_seconds(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool system_is_terminal(void) { return isatty(STDOUT_FILENO); }

/* ---- paths ---- */

FILE *system_fopen(const char *path, const char *mode) { return fopen(path, mode); }
bool system_may_write_in(const char *folder) { return access(folder, W_OK) == 0; }
bool system_make_folder(const char *path) { return mkdir(path, 0777) == 0; }
bool system_remove(const char *path) { return unlink(path) == 0; }
bool system_rename(const char *from, const char *to) { return rename(from, to) == 0; }
bool system_is_separator(char c) { return c == '/'; }

bool system_list(const char *folder, void (*each)(void *to, const char *name), void *to) {
    DIR *list = opendir(folder);
    if (!list) return false;
    errno = 0;
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        each(to, entry->d_name);
        errno = 0;
    }
    const int error = errno;
    closedir(list);
    errno = error;
    return error == 0;
}

/* ---- open files ---- */

bool system_look_at(int fd, bool *ordinary, int64_t *size) {
    struct stat about;
    if (fstat(fd, &about) != 0) return false;
    *ordinary = S_ISREG(about.st_mode);
    *size = about.st_size;
    return true;
}

bool system_seek_begin(int fd) { return lseek(fd, 0, SEEK_SET) == 0; }
bool system_close(int fd) { return close(fd) == 0; }
