/* Whether this process may use the tiles of AMX. */
#define _GNU_SOURCE /* syscall */
#include "bf16.h"

#include <pthread.h>
#if defined __x86_64__ && defined __linux__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static bool permitted;

/* The tiles' registers are 8 KB of state for each thread, which Linux saves only for a process that
 * has asked for it. In any other the first tile instruction is SIGILL. */
static void ask(void) {
#if defined __x86_64__ && defined __linux__ && defined SYS_arch_prctl
    enum { GET_PERMITTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18 }; /* <asm/prctl.h> */
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d;
    unsigned long features = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return;
    permitted = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0 &&
                syscall(SYS_arch_prctl, GET_PERMITTED, &features) == 0 &&
                (features >> TILE_DATA & 1) != 0;
#endif
}

bool cti_amx_permitted(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask);
    return permitted;
}
