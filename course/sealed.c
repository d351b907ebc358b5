/* The program that a submission is linked into: guarded arrays, calls that are kept for their
 * backward, and the loop that answers the judge. See sealed.h. */
#include "sealed.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { JUDGE = 3 }; /* the descriptor */
static ct_context *context;
static message request, answer, called_back;

/* ---- sending ---- */

void sealed_give_up(void) { _exit(3); }

static void send_message(message_kind kind, const message *m) {
    const uint64_t header[2] = {kind, m->size};
    const unsigned char *parts[] = {(const unsigned char *)header, m->bytes};
    const size_t sizes[] = {sizeof header, m->size};
    fflush(stdout);
    if (m->broken) sealed_give_up(); /* no memory for the answer */
    for (int i = 0; i < 2; i++)
        for (size_t done = 0; done < sizes[i];) {
            const ssize_t n = write(JUDGE, parts[i] + done, sizes[i] - done);
            if (n <= 0) sealed_give_up();
            done += (size_t)n;
        }
}

static void read_whole(void *to, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(JUDGE, (unsigned char *)to + done, size - done);
        if (n <= 0) _exit(0); /* the judge has ended */
        done += (size_t)n;
    }
}

static message_kind receive(message *m) {
    uint64_t header[2];
    message_clear(m);
    read_whole(header, sizeof header);
    if (header[1] > MESSAGE_MOST) sealed_give_up();
    if (header[1] > m->room) {
        m->room = (size_t)header[1];
        m->bytes = realloc(m->bytes, m->room);
        if (!m->bytes) sealed_give_up();
    }
    m->size = (size_t)header[1];
    read_whole(m->bytes, m->size);
    return (message_kind)header[0];
}

message *sealed_call_back(message *back) {
    send_message(ANSWER_BACK, back);
    if (receive(&called_back) != ASK_GO_ON) sealed_give_up();
    return &called_back;
}

void sealed_says(const char *word, const char *format, ...) {
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    message_clear(&answer);
    put_text(&answer, word), put_text(&answer, sentence);
    send_message(ANSWER_SAYS, &answer);
    _exit(0);
}

/* ---- guards ---- */

/* An array between two guards:
 *
 *     | GUARD bytes | the array | GUARD bytes |
 *
 * A guard is full of very large numbers: who reads there has a wrong result, also when it is a
 * maximum, and who writes there is found when the request ends. No two numbers of a guard, or at
 * the same place of two neighbouring arrays, are equal, so a copy from one guard to another is
 * found. There is a second set, of small numbers: a result that is another one with it shows a read
 * out of bounds. */
enum { GUARD = 1024, GUARD_OF_BLOCK = 64, SALTS = 64, NO_CALL = -1 };
enum { NUMBERS = GUARD / sizeof(double) + SALTS };
static double guard_numbers[2][NUMBERS];
static int guard_set, next_salt;

/* What the next array's guards are full of. */
static const unsigned char *next_guard(void) {
    if (guard_numbers[0][0] == 0)
        for (int i = 0; i < NUMBERS; i++)
            guard_numbers[0][i] = 1.2345678912345678e300 * (1 + i / 512.0),
            guard_numbers[1][i] = 1.2345678912345678e-3 * (1 + i / 512.0);
    next_salt = (next_salt + 1) % SALTS;
    return (const unsigned char *)&guard_numbers[guard_set][next_salt];
}

typedef struct guarded guarded;
struct guarded {
    guarded *next;
    char name[64];
    unsigned char *data;
    const unsigned char *guard; /* what the guards are full of */
    size_t bytes, element;
    bool constant; /* the student's code must not change it */
    uint64_t hash; /* the hash of its content, if it is constant */
    int call;      /* the kept call that it ends with; NO_CALL: it ends with its request */
    ct_tensor *base;
    void *memory; /* of an array without a tensor */
};
static guarded *arrays;
static int new_arrays_call = NO_CALL;

static uint64_t hash_of(const unsigned char *data, size_t bytes) {
    uint64_t hash = 1469598103934665603u, word;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, data + i, 8);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    for (size_t i = bytes & ~(size_t)7; i < bytes; i++) hash = (hash ^ data[i]) * 1099511628211u;
    return hash;
}

/* The place of the first byte of a guard that has changed; `bytes`: none has. */
static size_t first_changed(const unsigned char *at, const unsigned char *right, size_t bytes) {
    size_t i = 0;
    if (memcmp(at, right, bytes) == 0) return bytes;
    while (i < bytes && at[i] == right[i]) i++;
    return i;
}
/* The place of the last byte that has changed, + 1; 0: none has. */
static size_t last_changed(const unsigned char *at, const unsigned char *right, size_t bytes) {
    if (memcmp(at, right, bytes) == 0) return 0;
    while (bytes > 0 && at[bytes - 1] == right[bytes - 1]) bytes--;
    return bytes;
}

/* Whether a guard has changed; `said` becomes a sentence about it. */
static bool is_written_beside(const char *name, const unsigned char *data, size_t bytes,
                              size_t element, const unsigned char *right, size_t guard,
                              char said[256]) {
    const size_t behind = first_changed(data + bytes, right, guard),
                 before = last_changed(data - guard, right, guard), n = bytes / element;
    const long long place = behind < guard ? (long long)(n + behind / element)
                                           : -(long long)((guard - before) / element + 1);
    if (behind == guard && !before) return false;
    snprintf(said, 256, "%s has %zu elements, 0 to %lld, and element %lld is written", name, n,
             (long long)n - 1, place);
    return true;
}

static void check_guards(const char *name, const unsigned char *data, size_t bytes, size_t element,
                         const unsigned char *right, size_t guard) {
    char said[256];
    if (is_written_beside(name, data, bytes, element, right, guard, said))
        sealed_says("writes out of bounds", "%s", said);
}

static guarded *guarded_new(const char *name, size_t element, bool constant) {
    guarded *array = calloc(1, sizeof *array);
    if (!array) sealed_give_up();
    snprintf(array->name, sizeof array->name, "%s", name);
    array->element = element, array->constant = constant, array->call = new_arrays_call;
    array->next = arrays, arrays = array;
    return array;
}

/* Sets the guards around an array whose content stands. */
static void guarded_set(guarded *array, void *first, size_t bytes) {
    array->data = (unsigned char *)first + GUARD, array->bytes = bytes;
    array->guard = next_guard();
    memcpy(array->data - GUARD, array->guard, GUARD);
    memcpy(array->data + bytes, array->guard, GUARD);
    if (array->constant) array->hash = hash_of(array->data, bytes);
}

/* A tensor between guards, with a copy of `data`, or with NaN if that is NULL. */
static ct_tensor *guarded_tensor(ct_context *of, const char *name, ct_dtype dtype, ct_shape shape,
                                 const void *data, bool constant) {
    const size_t element = wire_size_of(dtype);
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++)
        if (shape.dim[d] < 0 || n > MESSAGE_MOST ||
            (shape.dim[d] && n > MESSAGE_MOST / shape.dim[d]))
            return ct_empty(of, dtype, shape); /* which says why */
        else n *= shape.dim[d];
    const int64_t guard = (int64_t)(GUARD / element);
    ct_tensor *base = ct_empty(of, dtype, CT_SHAPE(n + 2 * guard));
    if (!base) return NULL;
    guarded *array = guarded_new(name, element, constant);
    unsigned char *first = (unsigned char *)wire_data_of(base);
    memset(first, 0xff, (size_t)n * element + 2 * GUARD);
    if (data && n) memcpy(first + GUARD, data, (size_t)n * element);
    guarded_set(array, first, (size_t)n * element);
    array->base = ct_keep(base);
    return ct_reshape(ct_narrow(base, 0, guard, n), shape);
}

void *sealed_items(const char *name, message *in, size_t element, bool constant, int64_t *n) {
    size_t bytes;
    const void *data = get_bytes(in, &bytes);
    guarded *array = guarded_new(name, element, constant);
    array->memory = malloc(bytes + 2 * GUARD);
    if (!array->memory || bytes % element) sealed_give_up();
    if (bytes) memcpy((unsigned char *)array->memory + GUARD, data, bytes);
    guarded_set(array, array->memory, bytes);
    *n = (int64_t)(bytes / element);
    return array->data;
}
const double *sealed_input(const char *name, message *in, int64_t *n) {
    return sealed_items(name, in, sizeof(double), true, n);
}
double *sealed_array(const char *name, message *in, int64_t *n) {
    return sealed_items(name, in, sizeof(double), false, n);
}

void sealed_put_beside(const char *name, message *out) {
    char said[256] = "";
    for (guarded *array = arrays; array; array = array->next)
        if (array->call == NO_CALL && !strcmp(array->name, name) &&
            is_written_beside(array->name, array->data, array->bytes, array->element, array->guard,
                              GUARD, said)) {
            memcpy(array->data - GUARD, array->guard, GUARD);
            memcpy(array->data + array->bytes, array->guard, GUARD);
        }
    put_text(out, said);
}

/* Ends the arrays of a call. */
static void end_arrays(int call) {
    for (guarded **at = &arrays; *at;) {
        guarded *array = *at;
        if (array->call != call) {
            at = &array->next;
            continue;
        }
        *at = array->next;
        if (array->base) ct_release(array->base);
        free(array->memory), free(array);
    }
}

/* ---- blocks of malloc ---- */

/* The linker gives the submission, and nobody else, these functions in place of malloc and its
 * like. New memory is full of NaN, and a block lies between guards. */
void *sealed_malloc(size_t size);
void *sealed_calloc(size_t count, size_t size);
void *sealed_realloc(void *block, size_t size);
void sealed_free(void *block);

typedef struct block block;
struct block {
    block *before, *after;
    const unsigned char *guard;
    size_t size, own; /* `own` is derived from the address: only a block of these has it */
};
enum { HEAD = (sizeof(block) + 15) / 16 * 16 + GUARD_OF_BLOCK, LOOKED_AT = 256 };
static block blocks = {&blocks, &blocks, NULL, 0, 0};

static size_t own_mark(const block *b) { return (size_t)(uintptr_t)b ^ (size_t)0x5ea1ed0b10c5u; }
static unsigned char *content_of(block *b) { return (unsigned char *)b + HEAD; }

static void check_block(block *b) {
    char name[64];
    snprintf(name, sizeof name, "a block of %zu bytes from malloc", b->size);
    check_guards(name, content_of(b), b->size, b->size % sizeof(double) ? 1 : sizeof(double),
                 b->guard, GUARD_OF_BLOCK);
}

static void *block_new(size_t size, int fill) {
    block *b = size > (size_t)1 << 40 ? NULL : malloc(HEAD + size + GUARD_OF_BLOCK);
    if (!b) sealed_says(NO_MEMORY, "there is no room for %zu bytes more", size);
    *b = (block){&blocks, blocks.after, next_guard(), size, own_mark(b)};
    b->after->before = b, blocks.after = b;
    memcpy(content_of(b) - GUARD_OF_BLOCK, b->guard, GUARD_OF_BLOCK);
    memcpy(content_of(b) + size, b->guard, GUARD_OF_BLOCK);
    memset(content_of(b), fill, size);
    return content_of(b);
}

void *sealed_malloc(size_t size) { return block_new(size, 0xff); }
void *sealed_calloc(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    return block_new(count * size, 0);
}
void sealed_free(void *content) {
    if (!content) return;
    block *b = (block *)(void *)((unsigned char *)content - HEAD);
    if (b->own != own_mark(b))
        sealed_says("free of no block", "free is given a pointer that malloc did not return, or "
                                        "that was freed before");
    check_block(b);
    b->before->after = b->after, b->after->before = b->before, b->own = 0;
    free(b);
}
void *sealed_realloc(void *content, size_t size) {
    void *grown = block_new(size, 0xff);
    if (!content) return grown;
    const block *b = (const block *)(const void *)((unsigned char *)content - HEAD);
    if (b->own == own_mark(b)) memcpy(grown, content, b->size < size ? b->size : size);
    sealed_free(content);
    return grown;
}

/* Looks at the arrays of this request and of the call that it is about, and at the newest blocks;
 * or at all of them. */
static void check_all(const char *who, int call, bool all) {
    for (guarded *array = arrays; array; array = array->next) {
        if (!all && array->call != NO_CALL && array->call != call) continue;
        check_guards(array->name, array->data, array->bytes, array->element, array->guard, GUARD);
        if (array->constant && hash_of(array->data, array->bytes) != array->hash)
            sealed_says("changes its input", "%s has changed %s, which others may still read", who,
                        array->name);
    }
    int looked = 0;
    for (block *b = blocks.after; b != &blocks && (all || looked < LOOKED_AT); looked++)
        check_block(b), b = b->after;
}

/* ---- the submission's tensors ---- */

/* The linker gives the submission these in place of ct_empty and its like. */
ct_tensor *sealed_empty(ct_context *of, ct_dtype dtype, ct_shape shape);
ct_tensor *sealed_zeros(ct_context *of, ct_dtype dtype, ct_shape shape);
ct_tensor *sealed_full(ct_context *of, ct_dtype dtype, ct_shape shape, double value);
ct_tensor *sealed_ones(ct_context *of, ct_dtype dtype, ct_shape shape);
ct_tensor *sealed_rand(ct_context *of, ct_dtype dtype, ct_shape shape);

static ct_tensor *made_by_submission(ct_context *of, ct_dtype dtype, ct_shape shape) {
    char name[64];
    int at = snprintf(name, sizeof name, "the tensor (");
    for (int d = 0; d < shape.ndim && at < 40; d++)
        at += snprintf(name + at, sizeof name - (size_t)at, "%s%lld", d ? ", " : "",
                       (long long)shape.dim[d]);
    snprintf(name + at, sizeof name - (size_t)at, ") that it made");
    return guarded_tensor(of, name, dtype, shape, NULL, false);
}
static bool is_guarded(ct_context *of, ct_dtype dtype, ct_shape shape) {
    return of == context && (dtype == CT_F64 || dtype == CT_I64 || dtype == CT_BOOL) &&
           shape.ndim >= 0 && shape.ndim <= CT_MAX_DIMS;
}
ct_tensor *sealed_empty(ct_context *of, ct_dtype dtype, ct_shape shape) {
    return is_guarded(of, dtype, shape) ? made_by_submission(of, dtype, shape)
                                        : ct_empty(of, dtype, shape);
}
ct_tensor *sealed_zeros(ct_context *of, ct_dtype dtype, ct_shape shape) {
    if (!is_guarded(of, dtype, shape)) return ct_zeros(of, dtype, shape);
    ct_tensor *x = made_by_submission(of, dtype, shape);
    if (x) memset((void *)(uintptr_t)wire_data_of(x), 0, (size_t)ct_numel(x) * wire_size_of(dtype));
    return x;
}
ct_tensor *sealed_full(ct_context *of, ct_dtype dtype, ct_shape shape, double value) {
    if (!is_guarded(of, dtype, shape) || dtype != CT_F64) return ct_full(of, dtype, shape, value);
    ct_tensor *x = made_by_submission(of, dtype, shape);
    double *data = x ? ct_data_f64(x) : NULL;
    for (int64_t i = 0; x && i < ct_numel(x); i++) data[i] = value;
    return x;
}
ct_tensor *sealed_ones(ct_context *of, ct_dtype dtype, ct_shape shape) {
    return dtype == CT_F64 ? sealed_full(of, dtype, shape, 1) : ct_ones(of, dtype, shape);
}

ct_tensor *sealed_rand(ct_context *of, ct_dtype dtype, ct_shape shape) {
    ct_tensor *drawn = ct_rand(of, dtype, shape);
    if (!drawn || !is_guarded(of, dtype, shape)) return drawn;
    ct_tensor *x = made_by_submission(of, dtype, shape);
    if (x && ct_numel(x))
        memcpy((void *)(uintptr_t)wire_data_of(x), wire_data_of(drawn),
               (size_t)ct_numel(x) * wire_size_of(dtype));
    return x;
}

/* ---- calls ---- */

enum { MOST_IN = 8, KEPT = 32 };
typedef struct {
    ct_tensor *in[MOST_IN], *out;
    bool wants[MOST_IN];
    int n;
} kept_call;
static kept_call calls[KEPT]; /* the last ones; the judge asks for the backward of no older one */
static int64_t call_count;

static void forget_call(int slot) {
    kept_call *call = &calls[slot];
    if (!call->out) return;
    ct_release(call->out);
    for (int i = 0; i < call->n; i++)
        if (call->in[i]) ct_release(call->in[i]);
    *call = (kept_call){.n = 0};
    end_arrays(slot);
}

static message_kind answer_error(void) {
    message_clear(&answer);
    put_number(&answer, ct_error(context)), put_text(&answer, ct_error_message(context));
    ct_error_clear(context);
    return ANSWER_ERROR;
}

static const sealed_op *op_named(const char *name) {
    for (const sealed_op *op = sealed_ops; op->name; op++)
        if (!strcmp(op->name, name)) return op;
    sealed_give_up();
}

/* The ops of the exercise as they are called: backward writes its gradients into slots that have
 * others on both sides. */
enum { MOST_OPS = 16, SLOTS_AROUND = 16 };
static ct_op called_ops[MOST_OPS];

/* The inputs, a bit each, of which a backward of this request has set a gradient that was not
 * wanted. */
static unsigned set_unwanted;

/* An op may ask which it is: it sees its own address. */
static const ct_op *theirs(const ct_op *called) { return sealed_ops[called - called_ops].op; }

static ct_tensor *forward_as_called(ct_call *call) {
    const ct_op *called = call->op;
    call->op = theirs(called);
    ct_tensor *out = call->op->forward(call);
    call->op = called;
    return out;
}

static bool backward_between_guards(const ct_call *call, ct_tensor *const *cotangents,
                                    ct_tensor **grad) {
    ct_tensor *slots[SLOTS_AROUND + MOST_IN + SLOTS_AROUND], *const mark =
                                                                 (ct_tensor *)(void *)slots;
    enum { SLOTS = sizeof slots / sizeof *slots };
    for (int i = 0; i < SLOTS; i++) {
        const int of = i - SLOTS_AROUND;
        slots[i] = of >= 0 && of < call->n ? grad[of] : mark;
    }
    ct_call own = *call;
    own.op = theirs(call->op);
    const bool done = own.op->backward(&own, cotangents, slots + SLOTS_AROUND);
    for (int i = 0; i < SLOTS; i++) {
        const int of = i - SLOTS_AROUND;
        if (of >= 0 && of < call->n) {
            grad[of] = slots[i];
            if (slots[i] && !call->wants[of]) set_unwanted |= 1U << of;
        } else if (slots[i] != mark)
            sealed_says("writes out of bounds",
                        "grad of backward has %d elements, 0 to %d, and element %d is written",
                        call->n, call->n - 1, of);
    }
    return done;
}

static const ct_op *called_op(const sealed_op *op) {
    const int64_t at = op - sealed_ops;
    if (at >= MOST_OPS) sealed_give_up();
    if (!called_ops[at].name) {
        called_ops[at] = *op->op;
        if (op->op->forward) called_ops[at].forward = forward_as_called;
        if (op->op->backward) called_ops[at].backward = backward_between_guards;
    }
    return &called_ops[at];
}

/* Answers with the inputs of a forward that it has changed, and nothing for the others. */
static void tell_changes(ct_tensor *const *in, int n) {
    for (int i = 0; i < n; i++) {
        const void *data = in[i] ? wire_data_of(in[i]) : NULL;
        guarded *array = arrays;
        while (array && (array->data != data || !array->constant)) array = array->next;
        const bool changed = array && hash_of(array->data, array->bytes) != array->hash;
        put_tensor(&answer, changed ? in[i] : NULL);
        if (changed) array->hash = hash_of(array->data, array->bytes);
    }
}

static message_kind do_call(message *in) {
    char name[64];
    const sealed_op *op = op_named(get_text(in, name, sizeof name));
    const ct_rng rng = get_rng(in);
    const bool keep = get_number(in);
    const int slot = (int)(call_count % KEPT);
    if (keep) forget_call(slot), new_arrays_call = slot, call_count++;
    ct_scope scope = keep ? ct_scope_open(context) : ct_scope_open_no_grad(context);
    kept_call call = {.n = (int)get_number(in)};
    if (call.n < 1 || call.n > MOST_IN) sealed_give_up();
    for (int i = 0; i < call.n; i++) {
        call.wants[i] = get_number(in);
        const wire_tensor x = get_wire_tensor(in);
        snprintf(name, sizeof name, "input %d", i);
        if (!x.data) continue;
        call.in[i] = ct_detach(guarded_tensor(context, name, x.dtype, x.shape, x.data, true));
        if (call.wants[i] && keep) ct_set_requires_grad(call.in[i], true);
    }
    size_t size;
    const void *attrs = get_bytes(in, &size);
    if (in->broken || ct_error(context)) sealed_give_up();
    ct_rng_set(context, rng);
    call.out = op->op ? ct_apply(called_op(op), call.in, call.n, attrs)
                      : op->function(call.in, call.n, attrs);
    tell_changes(call.in, call.n);
    check_all("forward", slot, false);
    if (!call.out || ct_error(context)) {
        if (!ct_error(context)) sealed_says("no result", "%s returns NULL, and no error", op->name);
        ct_scope_close(scope), end_arrays(new_arrays_call);
        return answer_error();
    }
    for (int i = 0; i < call.n; i++) /* a handle of its own, which ends by itself */
        if (call.out == call.in[i]) call.out = ct_reshape(call.out, ct_shape_of(call.out));
    put_rng(&answer, ct_rng_get(context));
    const bool differentiable = ct_requires_grad(call.out); /* a function may use no input */
    put_number(&answer, keep && differentiable ? call_count - 1 : -1),
        put_tensor(&answer, call.out);
    if (keep) {
        for (int i = 0; i < call.n; i++)
            if (call.in[i]) ct_keep(call.in[i]);
        ct_keep(call.out);
        calls[slot] = call;
    }
    ct_scope_close(scope);
    return ANSWER;
}

static message_kind do_backward(message *in) {
    const int64_t number = get_number(in);
    const int slot = (int)(number % KEPT);
    if (number < 0 || number >= call_count || number < call_count - KEPT || !calls[slot].out)
        sealed_give_up();
    const kept_call *call = &calls[slot];
    const ct_rng rng = get_rng(in);
    const wire_tensor x = get_wire_tensor(in);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *out = call->out,
              *cotangent = guarded_tensor(context, "the cotangent", x.dtype, x.shape, x.data, true);
    for (int i = 0; i < call->n; i++)
        if (call->wants[i]) ct_zero_grad(call->in[i]);
    if (in->broken || ct_error(context)) sealed_give_up();
    ct_rng_set(context, rng);
    set_unwanted = 0;
    const bool done =
        ct_backward_with(&out, &cotangent, 1, (ct_backward_opts){.retain_graph = true});
    check_all("backward", slot, false);
    if (!done || ct_error(context)) {
        if (!ct_error(context)) sealed_give_up();
        ct_scope_close(scope);
        return answer_error();
    }
    put_rng(&answer, ct_rng_get(context)), put_number(&answer, set_unwanted);
    for (int i = 0; i < call->n; i++) {
        ct_tensor *grad = call->wants[i] ? ct_grad(call->in[i]) : NULL;
        if (call->wants[i] && !grad) /* an input that a function has not used */
            grad = ct_zeros(context, ct_dtype_of(call->in[i]), ct_shape_of(call->in[i]));
        put_tensor(&answer, grad);
    }
    ct_scope_close(scope);
    return ANSWER;
}

static message_kind do_function(message *in) {
    char name[64];
    get_text(in, name, sizeof name);
    const sealed_function *f = sealed_functions;
    while (f->name && strcmp(f->name, name) != 0) f++;
    if (!f->name) sealed_give_up();
    f->call(context, in, &answer);
    if (in->broken) sealed_give_up();
    check_all(name, NO_CALL, false);
    return ct_error(context) ? answer_error() : ANSWER;
}

static message_kind do_guards(message *in) {
    guard_set = get_number(in) != 0, next_salt = 0;
    return ANSWER;
}

static message_kind do_memory(message *in) {
    const ct_memory_stats memory = ct_memory(context);
    put_number(&answer, memory.live), put_number(&answer, memory.peak);
    if (get_number(in)) ct_memory_reset_peak(context);
    return ANSWER;
}

/* The judge's last request: everything is looked at once more. */
static message_kind do_end(message *in) {
    (void)in;
    check_all("your code", NO_CALL, true);
    return ANSWER;
}

int main(void) {
    static message_kind (*const doing[])(message *) = {
        [ASK_CALL] = do_call,     [ASK_BACKWARD] = do_backward, [ASK_FUNCTION] = do_function,
        [ASK_MEMORY] = do_memory, [ASK_END] = do_end,           [ASK_GUARDS] = do_guards,
    };
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash loses no line */
    context = ct_context_new((ct_context_opts){.threads = 1});
    if (!context || ct_error(context)) sealed_give_up();
    for (;;) {
        const message_kind kind = receive(&request);
        if ((unsigned)kind >= sizeof doing / sizeof *doing || !doing[kind]) sealed_give_up();
        message_clear(&answer);
        new_arrays_call = NO_CALL;
        send_message(doing[kind](&request), &answer);
        new_arrays_call = NO_CALL, end_arrays(NO_CALL);
    }
}
