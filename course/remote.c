/* Requests to a submission, and the proxies of its ops: see remote.h. */
#define _GNU_SOURCE /* clock_getcpuclockid */
#include "remote.h"
#include "course.h"
#include "seal.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int talk = -1, child;
static remote_options options;
static message request, answer, reply;
static double limit_at = INFINITY;
static const char *limit_says;

/* ---- the process ---- */

void remote_start(const remote_options *o) {
    int pair[2];
    options = *o;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) course_fail("no socket for the submission");
    signal(SIGPIPE, SIG_IGN);
    child = seal_start(o->program, pair[1],
                       &(seal_options){.seconds = o->seconds,
                                       .memory_mib = o->memory_mib,
                                       .sealed = o->sealed,
                                       .sanitized = o->sanitized});
    close(pair[1]);
    if (child < 0) course_fail("the submission cannot be started");
    talk = pair[0];
}

double remote_work(void) {
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(child, &clock) || clock_gettime(clock, &time)) return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double judge_work(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)) return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void remote_limit(double seconds, const char *sentence) {
    limit_at = sentence ? remote_work() + seconds : INFINITY, limit_says = sentence;
}

/* Ends the submission, if it has not ended, and the test. */
static void end_as_died(bool late) __attribute__((noreturn));
static void end_as_died(bool late) {
    int status = 0;
    if (late) kill(child, SIGKILL);
    if (waitpid(child, &status, 0) < 0) status = 0;
    const int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    course_end_as_died(late ? -SIGXCPU : code);
}

/* Whether the submission's process waits for something, as the system tells it. */
static bool is_waiting(void) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    FILE *file = fopen(path, "r");
    const char *state = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file) fclose(file);
    return state && (state[2] == 'S' || state[2] == 'T' || state[2] == 't');
}

/* Waits until the submission can be read from, or written to. It owes an answer: if it waits itself
 * for so many looks, one after the other, it waits for ever. */
static void wait_for(short what) {
    enum { LOOK_MS = 50, LOOKS = 60 };
    int waited = 0;
    double worked = remote_work();
    for (;;) {
        struct pollfd one = {.fd = talk, .events = what};
        const int ready = poll(&one, 1, LOOK_MS);
        if (ready > 0 && one.revents & (what | POLLHUP | POLLERR)) return;
        if (ready < 0 && errno != EINTR) course_fail("the submission cannot be waited for");
        const double now = remote_work();
        if (now > limit_at) {
            kill(child, SIGKILL);
            course_fail("%s", limit_says);
        }
        if (now > (double)options.seconds) end_as_died(true);
        waited = now == worked && is_waiting() ? waited + 1 : 0;
        worked = now;
        if (waited >= LOOKS) end_as_died(true);
    }
}

/* ---- messages ---- */

static void send_all(const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        const ssize_t sent = send(talk, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at += sent, size -= (size_t)sent;
        else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) wait_for(POLLOUT);
        else end_as_died(false);
    }
}

static void send_message(message_kind kind, const message *m) {
    const uint64_t header[2] = {kind, m->size};
    if (m->broken) course_fail("the test's request is too large");
    send_all(header, sizeof header), send_all(m->bytes, m->size);
}

static void receive_all(void *to, size_t size) {
    char *at = to;
    while (size > 0) {
        const ssize_t got = recv(talk, at, size, MSG_DONTWAIT);
        if (got > 0) at += got, size -= (size_t)got;
        else if (got < 0 && (errno == EAGAIN || errno == EINTR)) wait_for(POLLIN);
        else end_as_died(false);
    }
}

static void no_answer(void) __attribute__((noreturn));
static void no_answer(void) {
    kill(child, SIGKILL);
    course_fail("no answer: the submission's program has been changed, and answers nothing that "
                "can be read");
}

/* Receives a message. Its memory grows with what has come, and not with what is announced. */
static message_kind receive(message *m) {
    uint64_t header[2];
    message_clear(m);
    receive_all(header, sizeof header);
    if (header[1] > MESSAGE_MOST || header[1] % 8) no_answer();
    while (m->size < header[1]) {
        enum { PIECE = 1 << 20 };
        const size_t left = (size_t)header[1] - m->size, piece = left < PIECE ? left : PIECE;
        if (m->size + piece > m->room) {
            const size_t room = 2 * m->room + piece;
            unsigned char *bytes = realloc(m->bytes, room);
            if (!bytes) course_fail("no memory for the submission's answer");
            m->bytes = bytes, m->room = room;
        }
        receive_all(m->bytes + m->size, piece);
        m->size += piece;
    }
    return (message_kind)header[0];
}

/* Nothing may have come that was not asked for. */
static void check_silence(void) {
    char byte;
    if (recv(talk, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0) no_answer();
}

static void end_for_memory(const char *text) {
    char word[64];
    snprintf(word, sizeof word, "needed more memory than the limit of %lu MiB", options.memory_mib);
    course_end_as_found(word, text);
}

/* The answer to a request, when the submission has called back as often as it wants. */
static message_kind ask(message_kind kind, remote_back back, void *arg) {
    check_silence();
    send_message(kind, &request);
    for (;;) {
        const message_kind got = receive(&answer);
        if (got == ANSWER_SAYS) {
            char word[64], sentence[1024];
            get_text(&answer, word, sizeof word), get_text(&answer, sentence, sizeof sentence);
            if (answer.broken || !*word || !*sentence) no_answer();
            if (!strcmp(word, NO_MEMORY)) end_for_memory(sentence);
            course_end_as_found(word, sentence);
        }
        if (got != ANSWER_BACK || !back) return got;
        message_clear(&reply);
        back(&answer, &reply, arg);
        if (answer.broken || answer.at != answer.size) no_answer();
        send_message(ASK_GO_ON, &reply);
    }
}

/* Records the error that an answer tells. */
static void take_error(ct_context *context) {
    char text[1024];
    const int64_t status = get_number(&answer);
    get_text(&answer, text, sizeof text);
    if (answer.broken || status <= CT_OK || status > CT_ERR_GRAD) no_answer();
    if (status == CT_ERR_MEMORY) end_for_memory(text);
    if (!context) course_fail("%s", text);
    ct_fail(context, (ct_status)status, "%s", text);
}

static message *answered(message_kind kind, ct_context *context) {
    if (kind == ANSWER) return &answer;
    if (kind != ANSWER_ERROR) no_answer();
    take_error(context);
    return NULL;
}

message *remote_begin(const char *function) {
    message_clear(&request);
    put_text(&request, function);
    return &request;
}
message *remote_call_with(ct_context *context, remote_back back, void *arg) {
    return answered(ask(ASK_FUNCTION, back, arg), context);
}
message *remote_call(ct_context *context) { return remote_call_with(context, NULL, NULL); }
void remote_end(message *m) {
    if (m->broken || m->at != m->size) no_answer();
}

static double process_peak(void) {
    char line[128];
    double kib = 0;
    snprintf(line, sizeof line, "/proc/%d/status", child);
    FILE *status = fopen(line, "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
    if (status) fclose(status);
    return kib * 1024;
}

remote_memory_stats remote_memory(bool reset_peak) {
    message_clear(&request);
    put_number(&request, reset_peak);
    if (ask(ASK_MEMORY, NULL, NULL) != ANSWER) no_answer();
    remote_memory_stats stats;
    stats.live = get_number(&answer), stats.peak = get_number(&answer);
    remote_end(&answer);
    stats.process_peak = process_peak();
    return stats;
}

void remote_guards(int set) {
    message_clear(&request);
    put_number(&request, set);
    if (ask(ASK_GUARDS, NULL, NULL) != ANSWER) no_answer();
    remote_end(&answer);
}

void remote_stop(void) {
    message_clear(&request);
    if (ask(ASK_END, NULL, NULL) != ANSWER) no_answer();
    remote_end(&answer);
    check_silence();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* ---- ops ---- */

/* The submission draws what the judge would draw: the generator goes on where it stopped. Only the
 * stream may have moved, and forward. */
static void take_rng(ct_context *context) {
    const ct_rng before = ct_rng_get(context);
    const ct_rng rng = get_rng(&answer);
    if (rng.seed != before.seed || rng.stream < before.stream) no_answer();
    if (!answer.broken) ct_rng_set(context, rng);
}

static bool changes_allowed;
bool remote_allow_changes(bool allowed) {
    const bool before = changes_allowed;
    changes_allowed = allowed;
    return before;
}

/* A forward that changes an input changes the judge's, too, where the test looks at that. */
static void take_change(const ct_call *call, int i, const wire_tensor *now) {
    if (!now->data || !changes_allowed) return;
    if (!call->in[i] || now->dtype != CT_F64 || ct_dtype_of(call->in[i]) != CT_F64 ||
        now->numel != ct_numel(call->in[i]))
        no_answer();
    memcpy(ct_data_f64(call->in[i]), now->data, (size_t)now->numel * sizeof(double));
}

ct_tensor *remote_forward(ct_call *call) {
    bool keep = false;
    for (int i = 0; i < call->n; i++) keep = keep || (call->in[i] && call->wants[i]);
    remote_begin(call->op->name), put_rng(&request, ct_rng_get(call->context));
    put_number(&request, keep), put_number(&request, call->n);
    for (int i = 0; i < call->n; i++)
        put_number(&request, call->wants[i]), put_tensor(&request, call->in[i]);
    put_bytes(&request, call->attrs, call->op->attrs_size);
    message *got = answered(ask(ASK_CALL, NULL, NULL), call->context);
    if (!got) return NULL;
    for (int i = 0; i < call->n; i++) {
        const wire_tensor now = get_wire_tensor(got);
        take_change(call, i, &now);
    }
    take_rng(call->context);
    const int64_t number = get_number(got);
    ct_tensor *out = get_tensor(got, call->context);
    remote_end(got);
    if (!out && !ct_error(call->context)) no_answer();
    if (keep) call->saved[0] = ct_from_i64(call->context, CT_SCALAR, &number);
    return out;
}

static bool unwritten;
bool remote_unwritten(void) {
    const bool found = unwritten;
    unwritten = false;
    return found;
}

/* New memory of the submission has all bits set, and arithmetic passes this NaN on. */
static bool has_unwritten(ct_tensor *x) {
    const double *values = x && ct_dtype_of(x) == CT_F64 ? ct_data_f64(x) : NULL;
    for (int64_t i = 0; values && i < ct_numel(x); i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (bits << 1 == UINT64_MAX << 1) return true;
    }
    return false;
}

static unsigned set_unwanted;
unsigned remote_set_unwanted(void) {
    const unsigned found = set_unwanted;
    set_unwanted = 0;
    return found;
}

bool remote_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const int64_t number = *ct_data_i64(call->saved[0]);
    for (int i = 0; i < call->n && number < 0; i++) /* the function may depend on no input */
        if (call->wants[i])
            grad[i] = ct_zeros(call->context, ct_dtype_of(call->in[i]), ct_shape_of(call->in[i]));
    if (number < 0) return !ct_error(call->context);
    message_clear(&request);
    put_number(&request, number), put_rng(&request, ct_rng_get(call->context));
    put_tensor(&request, cotangents[0]);
    message *got = answered(ask(ASK_BACKWARD, NULL, NULL), call->context);
    if (!got) return false;
    take_rng(call->context);
    set_unwanted |= (unsigned)get_number(got);
    for (int i = 0; i < call->n; i++) {
        ct_tensor *one = get_tensor(got, call->context);
        if (!call->wants[i]) continue;
        grad[i] = one, unwritten = unwritten || has_unwritten(one);
    }
    remote_end(got);
    return !ct_error(call->context);
}
