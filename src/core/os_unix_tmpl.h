/* What POSIX systems and WASI share; os_posix.c and os_wasi.c include it after their headers. */

/* ---- the clock ---- */

int64_t cti_os_now(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t cti_os_entropy(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30;
}

/* ---- paths and files ---- */

size_t cti_os_folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

bool cti_os_is_separator(char c) { return c == '/'; }
bool cti_os_is_absolute(const char *path) { return *path == '/'; }

static cti_os_kind kind_of(mode_t mode) {
    if (S_ISREG(mode)) return CTI_OS_FILE;
    if (S_ISDIR(mode)) return CTI_OS_FOLDER;
    return S_ISLNK(mode) ? CTI_OS_LINK : CTI_OS_OTHER;
}

bool cti_os_rename(const char *from, const char *to) { return rename(from, to) == 0; }
bool cti_os_remove(const char *path) { return unlink(path) == 0; }

/* ---- text in memory ---- */

bool cti_os_text_open(cti_os_text *out) {
    *out = (cti_os_text){0};
    out->file = open_memstream(&out->text, &out->size);
    return out->file != NULL;
}

bool cti_os_text_close(cti_os_text *out) { return fclose(out->file) == 0; }

/* ---- the files in a folder ---- */

cti_os_folder *cti_os_folder_open(const char *path) {
    return (cti_os_folder *)opendir(*path ? path : ".");
}

const char *cti_os_folder_next(cti_os_folder *folder) {
    const struct dirent *entry = readdir((DIR *)folder);
    return entry ? entry->d_name : NULL;
}

void cti_os_folder_close(cti_os_folder *folder) { closedir((DIR *)folder); }
