/* Removes a test's folder with all files and folders in it. */
#ifndef REMOVE_TREE_H
#define REMOVE_TREE_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline void remove_tree(const char *path) {
    DIR *listed = opendir(path);
    if (!listed) {
        remove(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listed));) {
        char inner[1024];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        remove_tree(inner);
    }
    closedir(listed);
    rmdir(path);
}

#endif
