/* Mailboxes: for each pair of ranks a list of the messages that were sent and not received. */
#include "thread_comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct message message;
struct message {
    message *next;
    int tag;
    int64_t number; /* its place among messages of its tag */
    size_t size;
    const void *data; /* the sender's, or behind the struct */
    bool received, owned;
};

enum { TAGS = 256 };

typedef struct {
    thread_world *world;
    int64_t starts;
    int64_t (*sent)[TAGS], (*received)[TAGS]; /* [size] messages started, to and from a rank */
    char reason[128];
} rank_data;

struct thread_world {
    pthread_mutex_t lock;
    int size;
    thread_world_opts opts;
    bool *closed;     /* [size] */
    message **box;    /* [from size + to] */
    rank_data *ranks; /* [size] */
};

thread_world *thread_world_new(int size, thread_world_opts opts) {
    thread_world *world = calloc(1, sizeof *world);
    world->size = size;
    world->opts = opts;
    world->closed = calloc((size_t)size, sizeof *world->closed);
    world->box = calloc((size_t)size * (size_t)size, sizeof *world->box);
    world->ranks = calloc((size_t)size, sizeof *world->ranks);
    for (int i = 0; i < size; i++) {
        rank_data *rank = &world->ranks[i];
        rank->world = world;
        rank->sent = calloc((size_t)size, sizeof *rank->sent);
        rank->received = calloc((size_t)size, sizeof *rank->received);
    }
    pthread_mutex_init(&world->lock, NULL);
    return world;
}

void thread_world_free(thread_world *world) {
    for (int i = 0; i < world->size * world->size; i++)
        for (message *m = world->box[i], *next; m; m = next) {
            next = m->next;
            free(m);
        }
    for (int i = 0; i < world->size; i++)
        free(world->ranks[i].sent), free(world->ranks[i].received);
    pthread_mutex_destroy(&world->lock);
    free(world->closed), free(world->box), free(world->ranks), free(world);
}

static message **box_of(ct_comm *comm, const ct_transfer *t) {
    const rank_data *own = ct_comm_data(comm);
    const int self = ct_comm_rank(comm), from = t->receives ? t->peer : self,
              to = t->receives ? self : t->peer;
    return &own->world->box[from * own->world->size + to];
}

static bool within(ct_comm *comm, const char *function) {
    const rank_data *own = ct_comm_data(comm);
    return !own->world->opts.within || own->world->opts.within(comm, function);
}

static bool start(ct_comm *comm, ct_transfer *t) {
    rank_data *own = ct_comm_data(comm);
    thread_world *world = own->world;
    *own->reason = '\0';
    if (!within(comm, "start")) return false;
    const int64_t at = world->opts.fail_at;
    own->starts++;
    if (at && ct_comm_rank(comm) == world->opts.fail_rank &&
        (own->starts == at || (world->opts.dies && own->starts > at))) {
        pthread_mutex_lock(&world->lock);
        world->closed[ct_comm_rank(comm)] |= world->opts.dies;
        pthread_mutex_unlock(&world->lock);
        snprintf(own->reason, sizeof own->reason, "the wire was cut");
        return false;
    }
    if (t->receives) {
        t->state = (void *)(uintptr_t)own->received[t->peer][t->tag]++;
        return true;
    }
    const bool owned = t->size <= world->opts.eager;
    message *m = calloc(1, sizeof *m + (owned ? t->size : 0));
    *m = (message){.tag = t->tag,
                   .number = own->sent[t->peer][t->tag]++,
                   .size = t->size,
                   .data = owned ? m + 1 : t->data,
                   .owned = owned};
    if (owned) memcpy(m + 1, t->data, t->size);
    t->state = owned ? NULL : m;
    pthread_mutex_lock(&world->lock);
    message **link = box_of(comm, t);
    while (*link) link = &(*link)->next;
    *link = m;
    pthread_mutex_unlock(&world->lock);
    return true;
}

/* Called with the lock. */
static ct_transfer_state test_send(thread_world *world, ct_transfer *t, message **box) {
    message *m = t->state;
    if (!m) return CT_TRANSFER_DONE;
    if (!m->received && !world->closed[t->peer]) return CT_TRANSFER_PENDING;
    const bool received = m->received;
    for (message **link = box; *link; link = &(*link)->next)
        if (*link == m) {
            *link = m->next;
            break;
        }
    free(m);
    return received ? CT_TRANSFER_DONE : CT_TRANSFER_LEFT;
}

static ct_transfer_state test_receive(thread_world *world, rank_data *own, ct_transfer *t,
                                      message **box) {
    message **link = box;
    const int64_t number = (int64_t)(uintptr_t)t->state;
    while (*link && ((*link)->tag != t->tag || (*link)->number != number)) link = &(*link)->next;
    message *m = *link;
    if (!m) return world->closed[t->peer] ? CT_TRANSFER_LEFT : CT_TRANSFER_PENDING;
    const bool fits = m->size == t->size;
    if (fits) memcpy(t->data, m->data, t->size);
    else
        snprintf(own->reason, sizeof own->reason, "a message has %zu bytes, %zu were expected",
                 m->size, t->size);
    *link = m->next;
    if (m->owned) free(m);
    else m->received = true;
    return fits ? CT_TRANSFER_DONE : CT_TRANSFER_FAILED;
}

static ct_transfer_state test(ct_comm *comm, ct_transfer *t) {
    rank_data *own = ct_comm_data(comm);
    thread_world *world = own->world;
    *own->reason = '\0';
    within(comm, "test");
    pthread_mutex_lock(&world->lock);
    const ct_transfer_state state = t->receives ? test_receive(world, own, t, box_of(comm, t))
                                                : test_send(world, t, box_of(comm, t));
    pthread_mutex_unlock(&world->lock);
    return state;
}

static void cancel(ct_comm *comm, ct_transfer *t) {
    rank_data *own = ct_comm_data(comm);
    within(comm, "cancel");
    if (t->receives || !t->state) return;
    pthread_mutex_lock(&own->world->lock);
    for (message **link = box_of(comm, t); *link; link = &(*link)->next)
        if (*link == t->state) {
            *link = (*link)->next;
            break;
        }
    free(t->state);
    pthread_mutex_unlock(&own->world->lock);
}

static const char *reason(ct_comm *comm) {
    within(comm, "reason");
    return ((rank_data *)ct_comm_data(comm))->reason;
}

static void close_rank(ct_comm *comm, bool failed) {
    rank_data *own = ct_comm_data(comm);
    (void)failed;
    within(comm, "close");
    pthread_mutex_lock(&own->world->lock);
    own->world->closed[ct_comm_rank(comm)] = true;
    pthread_mutex_unlock(&own->world->lock);
}

static const ct_comm_engine engine = {.name = "threads",
                                      .start = start,
                                      .test = test,
                                      .cancel = cancel,
                                      .reason = reason,
                                      .close = close_rank};

ct_comm *thread_comm_new(thread_world *world, ct_context *context, int rank) {
    const bool known = rank >= 0 && rank < world->size;
    return ct_comm_new(context, &engine, rank, world->size, known ? &world->ranks[rank] : NULL);
}

/* ---- running ---- */

typedef struct {
    pthread_t thread;
    thread_world *world;
    ct_context_opts context;
    thread_rank *fn;
    void *arg;
    int rank;
} runner;

static void *run(void *arg) {
    const runner *r = arg;
    ct_context *context = ct_context_new(r->context);
    ct_comm *comm = thread_comm_new(r->world, context, r->rank);
    r->fn(context, comm, r->rank, r->arg);
    ct_context_free(context);
    return NULL;
}

void thread_run(int size, thread_world_opts opts, ct_context_opts context, thread_rank *fn,
                void *arg) {
    thread_world *world = thread_world_new(size, opts);
    runner *all = calloc((size_t)size, sizeof *all);
    for (int i = 0; i < size; i++) {
        all[i] = (runner){.world = world, .context = context, .fn = fn, .arg = arg, .rank = i};
        if (opts.last_isa && i == size - 1) all[i].context.isa = opts.last_isa;
        if (pthread_create(&all[i].thread, NULL, run, &all[i])) abort();
    }
    for (int i = 0; i < size; i++) pthread_join(all[i].thread, NULL);
    free(all);
    thread_world_free(world);
}
