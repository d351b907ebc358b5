/* Code that POSIX and WASI share. system_posix.c and system_wasi.c include it after their
 * headers. */

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
bool system_remove_folder(const char *path) { return rmdir(path) == 0; }
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

/* The number of bytes of a path's folder, with its last slash; 0 if the path has no folder. */
static size_t folder_bytes(const char *path) {
    const char *last = strrchr(path, '/');
    return last ? (size_t)(last - path) + 1 : 0;
}

/* Replaces a path whose last part is a symbolic link by the path that the link stands for. Returns
 * false if it is not a link or the new path is too long. */
static bool follow_link(char *path, size_t room) {
    char link[1024];
    const ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) return false;
    link[n] = '\0';
    const size_t folder = *link == '/' ? 0 : folder_bytes(path);
    if (folder + (size_t)n >= room) return false;
    memcpy(path + folder, link, (size_t)n + 1);
    return true;
}

bool system_find_folder(const char *path, system_file *file) {
    *file = (system_file){0};
    struct stat about;
    if (stat(path, &about) != 0) return false;
    file->in_folder = true;
    file->folder_device = (uint64_t)about.st_dev;
    file->folder = (uint64_t)about.st_ino;
    return true;
}

bool system_find_file(const char *path, system_file *file) {
    enum { MOST_LINKS = 40 };
    char place[4096], folder[4096];
    *file = (system_file){0};
    if (path && (size_t)snprintf(place, sizeof place, "%s", path) >= sizeof place) return false;
    for (int i = 0; path && i < MOST_LINKS && follow_link(place, sizeof place);) i++;
    if (path) {
        const size_t length = folder_bytes(place);
        snprintf(folder, sizeof folder, "%.*s.", (int)length, place);
        system_find_folder(folder, file);
        if (strlen(place + length) >= sizeof file->name) return false; /* no file has such a name */
        strcpy(file->name, place + length);
    }
    struct stat about;
    if ((path ? stat(path, &about) : fstat(STDIN_FILENO, &about)) != 0) return file->in_folder;
    file->exists = true;
    file->device = (uint64_t)about.st_dev;
    file->number = (uint64_t)about.st_ino;
    return S_ISREG(about.st_mode);
}

bool system_same_folder(const system_file *a, const system_file *b) {
    return a->in_folder && b->in_folder && a->folder_device == b->folder_device &&
           a->folder == b->folder;
}

bool system_same_file(const system_file *a, const system_file *b) {
    if (a->exists && b->exists) return a->device == b->device && a->number == b->number;
    return a->exists == b->exists && system_same_folder(a, b) && is_same_name(a->name, b->name);
}

/* ---- open files ---- */

bool system_look_at(int fd, bool *ordinary, int64_t *size) {
    struct stat about;
    if (fstat(fd, &about) != 0) return false;
    *ordinary = S_ISREG(about.st_mode);
    *size = about.st_size;
    return true;
}

FILE *system_open_stream(int fd, const char *mode) { return fdopen(fd, mode); }
bool system_close(int fd) { return close(fd) == 0; }
