/* The engine without the library above it: transfers between ranks, how they end, and how ranks
 * part. `run` starts the program with the name of a case, and checks the lines and the exit codes
 * of all ranks. */
#include <cotangent/mpi.h>
#include <cotangent/context.h>
#include <cotangent/autograd.h>

#include "../mpi_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGE = 9000001
}; /* the bytes of a large message, which MPI sends in segments, and only to a posted receive */

static const ct_comm_engine *const engine = &cti_mpi_engine;
static ct_context *test_context;
static ct_comm *comm;
static int rank, ranks;
static unsigned char *large[2];

static void say_line(const char *text) {
    printf("rank %d: %s\n", rank, text);
    fflush(stdout);
}

static void require(bool right, const char *what) {
    if (right) return;
    printf("rank %d: WRONG: %s\n", rank, what);
    fflush(stdout);
    abort();
}

static ct_transfer begin_transfer(bool receives, int peer, int tag, void *data, size_t size) {
    ct_transfer t = {.peer = peer, .receives = receives, .tag = tag, .data = data, .size = size};
    require(engine->start(comm, &t), engine->reason(comm));
    return t;
}

static ct_transfer_state wait_end(ct_transfer *t) {
    ct_transfer_state state;
    do state = engine->test(comm, t);
    while (state == CT_TRANSFER_PENDING);
    return state;
}

static void wait_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool one(void) { return rank == 1; }

/* Every pair of ranks exchanges several messages of one tag at once, from empty ones to several
 * segments. They arrive in order. */
static void exchange_all(void) {
    static const size_t sizes[] = {0, 1, 100000, 100001, 1234567};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int peer = 0; peer < ranks; peer++) {
        ct_transfer in[N], out[N];
        unsigned char *from[N], *to[N];
        if (peer == rank) continue;
        for (int i = 0; i < N; i++) {
            from[i] = malloc(sizes[i] + 1), to[i] = malloc(sizes[i] + 1);
            require(from[i] && to[i], "memory");
            memset(to[i], 99, sizes[i] + 1);
            for (size_t j = 0; j < sizes[i]; j++)
                from[i][j] = (unsigned char)(j * 7 + (size_t)(i + 10 * rank + 50 * peer));
            in[i] = begin_transfer(true, peer, i / 2, to[i], sizes[i]);
            out[i] = begin_transfer(false, peer, i / 2, from[i], sizes[i]);
        }
        for (int i = N - 1; i >= 0; i--) {
            require(wait_end(&in[i]) == CT_TRANSFER_DONE, "a receive is done");
            require(wait_end(&out[i]) == CT_TRANSFER_DONE, "a send is done");
            for (size_t j = 0; j < sizes[i]; j++)
                require(to[i][j] == (unsigned char)(j * 7 + (size_t)(i + 10 * peer + 50 * rank)),
                        "the bytes of the peer");
            require(to[i][sizes[i]] == 99, "a byte after them");
            free(from[i]), free(to[i]);
        }
    }
}

/* Rank 1 leaves. A message that it has sent before arrives; a message that it has not sent never
 * does. */
static void left(void) {
    if (one()) {
        ct_transfer t = begin_transfer(false, 0, 3, large[0], LARGE);
        require(wait_end(&t) == CT_TRANSFER_DONE, "the last message");
    } else {
        ct_transfer never = begin_transfer(true, 1, 4, large[1], LARGE);
        ct_transfer last = begin_transfer(true, 1, 3, large[0], LARGE);
        require(wait_end(&last) == CT_TRANSFER_DONE, "the last message");
        require(wait_end(&never) == CT_TRANSFER_LEFT, "rank 1 has left");
    }
}

/* Rank 1 closes at once. Its message is still under way when its "over" has arrived. */
static void left_late(void) {
    if (one()) {
        ct_transfer t = begin_transfer(false, 0, 3, large[0], LARGE);
        ct_comm_close(comm);
        (void)t;
    } else {
        wait_ms(300);
        ct_transfer last = begin_transfer(true, 1, 3, large[1], LARGE),
                    never = begin_transfer(true, 1, 3, rank + large[0], 1);
        require(wait_end(&never) == CT_TRANSFER_LEFT, "rank 1 has left");
        require(wait_end(&last) == CT_TRANSFER_DONE, "the message before the leave");
        require(large[1][LARGE - 1] == 1, "its last byte");
    }
}

/* Messages to a rank that has left are discarded, so the sends end. */
static void sent_to_left(void) {
    if (one()) return;
    ct_transfer never = begin_transfer(true, 1, 0, large[1], 1);
    require(wait_end(&never) == CT_TRANSFER_LEFT, "rank 1 has left");
    for (int i = 0; i < 5; i++) {
        ct_transfer t = begin_transfer(false, 1, i, large[0], i % 2 ? LARGE : 10);
        require(wait_end(&t) == CT_TRANSFER_DONE, "it is discarded there");
    }
}

/* Transfers that never match are cancelled on both sides. Rank 0 closes as after a failure. That
 * ends rank 1's send, and rank 1 owns the memory again. */
static void cancelled(void) {
    int peer = 1 - rank;
    ct_transfer out = begin_transfer(false, peer, 1, large[0], LARGE),
                in = begin_transfer(true, peer, 2, large[1], LARGE);
    require(engine->test(comm, &in) == CT_TRANSFER_PENDING, "nothing comes");
    require(engine->test(comm, &out) == CT_TRANSFER_PENDING, "nobody takes it");
    wait_ms(300 + 300 * rank);
    engine->cancel(comm, &in);
    engine->cancel(comm, &out);
    const cti_mpi *m = ct_comm_data(comm);
    if (one()) require(!m->lost && !out.state, "it has ended");
    engine->close(comm, true);
    say_line("has failed");
    exit(7);
}

/* After a receive is cancelled the comm works as before. */
static void cancelled_receive(void) {
    unsigned char a = (unsigned char)rank, b = 99;
    ct_transfer never = begin_transfer(true, 1 - rank, 2, large[1], LARGE);
    engine->cancel(comm, &never);
    ct_transfer out = begin_transfer(false, 1 - rank, 2, &a, 1),
                in = begin_transfer(true, 1 - rank, 2, &b, 1);
    require(wait_end(&in) == CT_TRANSFER_DONE && wait_end(&out) == CT_TRANSFER_DONE, "goes on");
    require(b == 1 - rank, "the byte of the peer");
}

/* Rank 1 does not answer any more. Rank 0 cancels a message to it and ends the run. */
static void stuck(void) {
    if (one())
        for (;;) pause();
    ct_transfer out = begin_transfer(false, 1, 1, large[0], LARGE);
    for (int i = 0; i < 1000; i++) engine->test(comm, &out);
    engine->cancel(comm, &out);
    engine->close(comm, true);
    say_line("gives up");
    exit(7);
}

static void sizes_differ(void) {
    unsigned char bytes[20] = {0};
    ct_transfer t = begin_transfer(one(), 1 - rank, 1, bytes, one() ? 20 : 10);
    ct_transfer u = begin_transfer(one(), 1 - rank, 1, bytes, one() ? 10 : 20);
    ct_transfer_state less = wait_end(&t);
    if (!one()) return (void)wait_end(&u);
    require(less == CT_TRANSFER_FAILED, "too few bytes");
    say_line(engine->reason(comm));
    require(wait_end(&u) == CT_TRANSFER_FAILED, "too many bytes");
    say_line(engine->reason(comm));
}

/* Rank 1 exits with an error and closes nothing. */
static void exits(void) {
    if (one()) {
        say_line("exits");
        exit(3);
    }
    ct_transfer never = begin_transfer(true, 1, 0, large[1], 1);
    require(wait_end(&never) == CT_TRANSFER_LEFT, "rank 1 has left");
    say_line("rank 1 has left");
    exit(4);
}

/* Both ranks fail, and rank 0 prints its error late. */
static void both_fail(void) {
    if (!one()) {
        ct_transfer never = begin_transfer(true, 1, 0, large[1], 1);
        require(wait_end(&never) == CT_TRANSFER_LEFT, "rank 1 has left");
    }
    engine->close(comm, true);
    if (!one()) sleep(2);
    say_line("has failed");
    exit(3);
}

static void twice(void) {
    ct_comm *second = ct_mpi_comm(test_context);
    require(second && ct_comm_rank(second) == rank && ct_comm_size(second) == ranks, "a second");
    ct_comm_close(comm);
    comm = second;
    exchange_all();
    ct_context_free(test_context);
    int over = 0;
    MPI_Finalized(&over);
    require(over, "MPI ends with the last comm");
    test_context = ct_context_new((ct_context_opts){.threads = 1});
    require(!ct_mpi_comm(test_context), "MPI has been ended");
    say_line(ct_error_message(test_context));
}

static void *from_thread(void *unused) {
    (void)unused;
    require(!ct_mpi_comm(test_context), "another thread");
    say_line(ct_error_message(test_context));
    return NULL;
}

static void other_thread(void) {
    pthread_t thread;
    require(!pthread_create(&thread, NULL, from_thread, NULL), "a thread");
    pthread_join(thread, NULL);
}

static void fork_child(void) {
    pid_t child = fork();
    if (!child) {
        ct_transfer t = {.peer = 0, .data = large[0], .size = 1};
        require(!engine->start(comm, &t), "a child has no MPI");
        ct_context_free(test_context);
        exit(0);
    }
    int status = 1;
    require(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
    exchange_all();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"exchange", exchange_all}, {"left", left},
    {"left_late", left_late},   {"sent_to_left", sent_to_left},
    {"cancelled", cancelled},   {"cancelled_receive", cancelled_receive},
    {"stuck", stuck},           {"sizes_differ", sizes_differ},
    {"exits", exits},           {"both_fail", both_fail},
    {"twice", twice},           {"threads", other_thread},
    {"forks", fork_child},
};

/* A program that starts MPI itself makes three contexts in turn. In the third a rank has an
 * error. */
static void own_mpi(void) {
    int over = 0;
    MPI_Init(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        test_context = ct_context_new((ct_context_opts){.threads = 1});
        if (i == 2 && rank == ranks - 1)
            ct_fail(test_context, CT_ERR_IO, "cannot open %s", "a file");
        comm = ct_mpi_comm(test_context);
        rank = ct_comm_rank(comm), ranks = ct_comm_size(comm);
        if (i == 2) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (comm) exchange_all();
        else say_line(ct_error_message(test_context));
        ct_context_free(test_context);
        MPI_Finalized(&over);
        require(!over, "MPI is the program's");
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    }
    MPI_Finalize();
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "own_mpi")) return own_mpi(), 0;
    test_context = ct_context_new((ct_context_opts){.threads = 1});
    comm = ct_mpi_comm(test_context);
    if (!comm) return say_line(ct_error_message(test_context)), 1;
    rank = ct_comm_rank(comm), ranks = ct_comm_size(comm);
    for (int i = 0; i < 2; i++) {
        large[i] = malloc(LARGE + 1);
        require(large[i], "memory");
        memset(large[i], rank, LARGE + 1);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(name, cases[i].name)) cases[i].run();
    ct_context_free(test_context);
    free(large[0]), free(large[1]);
    say_line("ends");
    return 0;
}
