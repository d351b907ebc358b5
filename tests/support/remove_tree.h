/* Removes a test's folder with all files and folders in it. */
#ifndef REMOVE_TREE_H
#define REMOVE_TREE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void remove_tree(const char *path) {
    DIR *listed = opendir(path);
    if (!listed) {
        remove(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listed));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        const size_t size = strlen(path) + strlen(entry->d_name) + 2;
        char *inner = malloc(size);
        if (!inner) abort(); /* a folder that stays would be another test's */
        snprintf(inner, size, "%s/%s", path, entry->d_name);
        remove_tree(inner);
        free(inner);
    }
    closedir(listed);
    rmdir(path);
}

#endif
