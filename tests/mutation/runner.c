/* Test programs as one, to be linked again with each mutant: `runner test_ops 20 4000000000` is test_ops within 20 seconds of a processor
 * and as many bytes. The first assertion that fails ends it. Folders that a test makes are said, for whoever has to clean up after it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define P(program) int main_##program(void);
PROGRAMS
#undef P

void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...) {
    (void)message;
    fprintf(stderr, "%s:%d: %s\n", file, line, expression);
    _exit(1);
}

char *__real_mkdtemp(char *template);
char *__wrap_mkdtemp(char *template);
char *__wrap_mkdtemp(char *template) {
    char *folder = __real_mkdtemp(template);
    if (folder) printf("folder %s\n", folder);
    fflush(stdout);
    return folder;
}

static void limit(int what, rlim_t most) { setrlimit(what, &(struct rlimit){most, most}); }

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    limit(RLIMIT_CPU, strtoul(argv[2], NULL, 10));
    limit(RLIMIT_AS, strtoul(argv[3], NULL, 10));
    limit(RLIMIT_FSIZE, (rlim_t)1 << 30);
    limit(RLIMIT_CORE, 0);
    setenv("CK_FORK", "no", 1);
#define P(program) if (!strcmp(argv[1], #program)) return main_##program();
    PROGRAMS
    return 2;
}
