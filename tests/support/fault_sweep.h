/* The driver of all tests of faults. It runs a program with a fault at its first request, then with
 * a fault at its second, and so on, until the program makes no further request. */
#ifndef FAULT_SWEEP_H
#define FAULT_SWEEP_H

#include "faults.h"
#include "suite.h"

/* How a run ended. */
typedef struct {
    const char *name;    /* the case's name */
    int64_t at, live;    /* the request's number; bytes that the context had before the run */
    bool done;           /* the run's result */
    const char *struck;  /* the request that was struck; NULL: there are fewer requests */
    const char *message; /* the context's error; "" if it has none */
} fault_end;

typedef struct {
    const char *name;
    fault_kind kind;
    bool forever;
    int error;            /* errno of FAULT_CALL; 0: EIO */
    const char *only;     /* if set, the only call that is struck */
    ct_status status;     /* the error of a run that fails; CT_OK: the usual one for the kind */
    ct_context **context; /* the context of the run, which the run may make; NULL: the run checks
                           * its errors itself */
    void *arg;            /* argument of the functions below */
    void (*begin)(void *arg);                     /* makes what the run needs; NULL: nothing */
    bool (*run)(void *arg);                       /* false: it has failed, and recorded an error */
    void (*end)(const fault_end *end, void *arg); /* checks what a run leaves; NULL: nothing */
    bool (*again)(void *arg);                     /* a run without a fault afterwards; NULL: none */
    int (*unchanged)(void);                       /* a count that no run changes (open files) */
    int64_t least;                                /* the fewest requests that there must be */
    int64_t most;                                 /* the most; 0: any number */
    bool grows;       /* a run that fails may leave memory, which `end` gives back */
    bool may_succeed; /* every run may succeed in spite of its fault */
    int64_t sparse;   /* beyond this many requests only some are struck; 0: all */
} fault_case;

#define FAULT_CK(end, condition)                                                                   \
    ck_assert_msg(condition, "%s, request %lld (%s): %s: %s", (end)->name, (long long)(end)->at,   \
                  (end)->struck ? (end)->struck : "not reached", #condition, (end)->message)

/* Runs the program once, with a fault at request number `at`. */
static inline fault_end fault_run(const fault_case *f, int64_t at) {
    fault_end end = {.name = f->name, .at = at, .message = ""};
    if (f->begin) f->begin(f->arg);
    ct_context *const before = f->context ? *f->context : NULL;
    end.live = before ? ct_memory(before).live : 0;
    if (f->kind == FAULT_ALLOCATOR) ct_memory_trim(before); /* requests then reach the allocator */
    const int number = f->unchanged ? f->unchanged() : 0;
    fault_arm(f->kind, at);
    fault.forever = f->forever, fault.error = f->error, fault.only = f->only;
    end.done = f->run(f->arg);
    end.struck = fault.struck;
    fault_disarm();
    ct_context *const c = f->context ? *f->context : NULL;
    if (c) {
        const ct_status usual = f->kind == FAULT_CALL ? CT_ERR_IO : CT_ERR_MEMORY;
        end.message = ct_error_message(c);
        FAULT_CK(&end, end.done == (ct_error(c) == CT_OK));
        FAULT_CK(&end, end.done || ct_error(c) == (f->status ? f->status : usual));
        FAULT_CK(&end, end.done || f->grows || !before || ct_memory(c).live == end.live);
    }
    FAULT_CK(&end, end.done || end.struck);
    FAULT_CK(&end, !f->unchanged || f->unchanged() == number);
    if (f->end) f->end(&end, f->arg);
    if (f->context && *f->context) ct_error_clear(*f->context);
    end.message = "";
    FAULT_CK(&end, !f->again || f->again(f->arg));
    return end;
}

static inline void fault_sweep(const fault_case *f) {
    int64_t struck = 0, failed = 0, at = 1;
    for (bool more = true; more; at += 1 + (f->sparse ? at / f->sparse : 0)) {
        const fault_end end = fault_run(f, at);
        more = end.struck != NULL;
        struck += more;
        failed += !end.done;
        ck_assert_msg(!f->most || struck <= f->most, "%s: more than %lld requests", f->name,
                      (long long)f->most);
    }
    ck_assert_msg(struck >= f->least, "%s: %lld requests, not at least %lld", f->name,
                  (long long)struck, (long long)f->least);
    ck_assert_msg(failed > 0 || f->may_succeed, "%s: no fault was ever felt", f->name);
}

#endif
