/* Code that POSIX and WASI share. system_posix.c and system_wasi.c include it after their
 * headers. */

bool system_is_terminal(void) { return isatty(STDOUT_FILENO); }
bool system_input_is_terminal(void) { return isatty(STDIN_FILENO); }

/* ---- paths ---- */

FILE *system_fopen(const char *path, const char *mode) { return fopen(path, mode); }
bool system_may_write_in(const char *folder) { return access(folder, W_OK) == 0; }
bool system_remove_folder(const char *path) { return rmdir(path) == 0; }

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

bool system_follow_link(char *path, size_t room) {
    char link[1024];
    const ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) return false;
    link[n] = '\0';
    const size_t folder = *link == '/' ? 0 : cti_os_folder_length(path);
    if (folder + (size_t)n >= room) return false;
    memcpy(path + folder, link, (size_t)n + 1);
    return true;
}

/* ---- open files ---- */

int system_standard_input(void) { return STDIN_FILENO; }
FILE *system_open_stream(int fd, const char *mode) { return fdopen(fd, mode); }
