/* Messages between a judge and a sealed submission: a header, then items. Both sides are compiled
 * with this file. A reader believes nothing of what it reads: an item that is not what is asked
 * for, or that does not end within the message, makes the message `broken`, and from there on it
 * gives zeros and nothing.
 *
 *     header   kind, size     two numbers of 64 bits; size: the bytes of the items
 *     item     tag, then      number:  8 bytes, an integer or a double
 *                             bytes:   length, the bytes, filled up to a multiple of 8
 *                             tensor:  dtype, ndim, ndim dims, the elements, filled up
 *                             nothing: no more
 *
 * Byte order and sizes are the machine's: both sides are programs of it. */
#ifndef COURSE_WIRE_H
#define COURSE_WIRE_H

#include <cotangent/cotangent.h>

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MOST = 1 << 28 }; /* the largest message, in bytes */
enum { ITEM_NUMBER = 1, ITEM_BYTES, ITEM_TENSOR, ITEM_NOTHING };

/* What is asked of a submission, and what it answers. */
typedef enum {
    ASK_CALL = 1, /* call an op, and keep the call if a gradient is wanted */
    ASK_BACKWARD, /* the gradients of a kept call */
    ASK_FUNCTION, /* call a function of the exercise's adapter by its name */
    ASK_GUARDS,   /* which of two sets of numbers new guards are full of */
    ASK_MEMORY,   /* the memory of the submission's context */
    ASK_GO_ON,    /* the answer to ANSWER_BACK */
    ASK_END,      /* the test has ended */
    ANSWER = 16,  /* done */
    ANSWER_ERROR, /* the library has an error pending: status, message */
    ANSWER_SAYS,  /* the sealed program found a mistake: a word, a sentence */
    ANSWER_BACK   /* a function of the judge's is called by the submission */
} message_kind;

#define NO_MEMORY "no memory" /* the word of ANSWER_SAYS for it: the judge knows the limit */

typedef struct {
    unsigned char *bytes;
    size_t size, room, at; /* `at`: how much has been read */
    bool broken;           /* of what is read: malformed; of what is written: memory is short */
} message;

/* Makes the message an empty one. Its memory is kept for the next. */
static inline void message_clear(message *m) { m->size = m->at = 0, m->broken = false; }

/* ---- writing ---- */

static inline void message_put(message *m, const void *data, size_t size) {
    const size_t filled = (size + 7) & ~(size_t)7;
    if (m->broken || size > MESSAGE_MOST || filled > MESSAGE_MOST - m->size) {
        m->broken = true;
        return;
    }
    if (m->size + filled > m->room) {
        const size_t room = 2 * m->room + filled + 256;
        unsigned char *bytes = (unsigned char *)realloc(m->bytes, room);
        if (!bytes) {
            m->broken = true;
            return;
        }
        m->bytes = bytes, m->room = room;
    }
    if (size) memcpy(m->bytes + m->size, data, size);
    memset(m->bytes + m->size + size, 0, filled - size);
    m->size += filled;
}
static inline void message_put_tag(message *m, uint64_t tag) { message_put(m, &tag, sizeof tag); }

static inline void put_number(message *m, int64_t x) {
    message_put_tag(m, ITEM_NUMBER), message_put(m, &x, sizeof x);
}
static inline void put_f64(message *m, double x) {
    message_put_tag(m, ITEM_NUMBER), message_put(m, &x, sizeof x);
}
static inline void put_bytes(message *m, const void *data, size_t size) {
    message_put_tag(m, ITEM_BYTES), message_put_tag(m, size), message_put(m, data, size);
}
static inline void put_text(message *m, const char *text) { put_bytes(m, text, strlen(text)); }
static inline void put_array(message *m, const double *x, int64_t n) {
    put_bytes(m, x, (size_t)n * sizeof *x);
}
static inline void put_nothing(message *m) { message_put_tag(m, ITEM_NOTHING); }

static inline size_t wire_size_of(ct_dtype dtype) {
    return dtype == CT_F32 ? 4 : dtype == CT_BOOL ? 1 : dtype == CT_BF16 ? 2 : 8;
}

static inline const void *wire_data_of(ct_tensor *dense) {
    switch (ct_dtype_of(dense)) {
    case CT_F64: return ct_data_f64(dense);
    case CT_F32: return ct_data_f32(dense);
    case CT_I64: return ct_data_i64(dense);
    case CT_BOOL: return ct_data_bool(dense);
    default: return NULL;
    }
}

/* A tensor of any strides, or NULL. */
static inline void put_tensor(message *m, ct_tensor *x) {
    if (!x) {
        put_nothing(m);
        return;
    }
    const ct_shape shape = ct_shape_of(x);
    ct_tensor *dense = ct_contiguous(ct_detach(x));
    const void *data = dense ? wire_data_of(dense) : NULL;
    if (!data && ct_numel(x)) m->broken = true;
    message_put_tag(m, ITEM_TENSOR), message_put_tag(m, (uint64_t)ct_dtype_of(x));
    message_put_tag(m, (uint64_t)shape.ndim);
    for (int d = 0; d < shape.ndim; d++) message_put_tag(m, (uint64_t)shape.dim[d]);
    message_put(m, data, (size_t)ct_numel(x) * wire_size_of(ct_dtype_of(x)));
}

/* ---- reading ---- */

/* The next bytes of the message; NULL: there are not as many. */
static inline const void *message_get(message *m, uint64_t size) {
    if (m->broken || size > m->size - m->at || ((size + 7) & ~(uint64_t)7) > m->size - m->at) {
        m->broken = true;
        return NULL;
    }
    const void *data = m->bytes + m->at;
    m->at += (size_t)((size + 7) & ~(uint64_t)7);
    return data;
}
static inline uint64_t message_get_word(message *m) {
    uint64_t word = 0;
    const void *data = message_get(m, sizeof word);
    if (data) memcpy(&word, data, sizeof word);
    return word;
}
static inline bool message_get_tag(message *m, uint64_t tag) {
    if (message_get_word(m) != tag) m->broken = true;
    return !m->broken;
}

static inline int64_t get_number(message *m) {
    return message_get_tag(m, ITEM_NUMBER) ? (int64_t)message_get_word(m) : 0;
}
static inline double get_f64(message *m) {
    const uint64_t word = message_get_tag(m, ITEM_NUMBER) ? message_get_word(m) : 0;
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}
/* The bytes lie in the message, until it is cleared. */
static inline const void *get_bytes(message *m, size_t *size) {
    const uint64_t length = message_get_tag(m, ITEM_BYTES) ? message_get_word(m) : 0;
    const void *data = message_get(m, length);
    *size = data ? (size_t)length : 0;
    return data;
}
/* Copies a text, cut to the room that there is. */
static inline char *get_text(message *m, char *text, size_t room) {
    size_t size;
    const void *data = get_bytes(m, &size);
    if (size >= room) size = room - 1;
    if (data) memcpy(text, data, size);
    text[size] = 0;
    return text;
}
/* Copies exactly so many bytes; false, and nothing is written: there are not as many. */
static inline bool get_items(message *m, void *x, size_t bytes) {
    size_t size;
    const void *data = get_bytes(m, &size);
    if (!data || size != bytes) m->broken = true;
    else if (size) memcpy(x, data, size);
    return !m->broken;
}
static inline bool get_array(message *m, double *x, int64_t n) {
    return get_items(m, x, (size_t)n * sizeof *x);
}

/* The head of a tensor, and its elements, which lie in the message; `data` is NULL for nothing. */
typedef struct {
    ct_dtype dtype;
    ct_shape shape;
    int64_t numel;
    const void *data;
} wire_tensor;

static inline wire_tensor get_wire_tensor(message *m) {
    wire_tensor x = {.numel = 1};
    const wire_tensor nothing = {.numel = 0};
    const uint64_t tag = message_get_word(m);
    if (tag == ITEM_NOTHING) return nothing;
    const uint64_t dtype = message_get_word(m), ndim = message_get_word(m);
    if (tag != ITEM_TENSOR || ndim > CT_MAX_DIMS || dtype > CT_BOOL || dtype == CT_BF16) {
        m->broken = true;
        return nothing;
    }
    x.dtype = (ct_dtype)dtype, x.shape.ndim = (int)ndim;
    for (uint64_t d = 0; d < ndim; d++) {
        const uint64_t dim = message_get_word(m);
        if (dim > MESSAGE_MOST || (uint64_t)x.numel * dim > MESSAGE_MOST) m->broken = true;
        if (m->broken) return nothing;
        x.shape.dim[d] = (int64_t)dim, x.numel *= (int64_t)dim;
    }
    x.data = message_get(m, (uint64_t)x.numel * wire_size_of(x.dtype));
    const unsigned char *flags = (const unsigned char *)x.data;
    for (int64_t i = 0; flags && dtype == CT_BOOL && i < x.numel; i++)
        if (flags[i] > 1) m->broken = true;
    return m->broken ? nothing : x;
}

static inline ct_rng get_rng(message *m) {
    ct_rng rng;
    rng.seed = (uint64_t)get_number(m), rng.stream = (uint64_t)get_number(m);
    return rng;
}
static inline void put_rng(message *m, ct_rng rng) {
    put_number(m, (int64_t)rng.seed), put_number(m, (int64_t)rng.stream);
}

/* A new tensor of the context; NULL for nothing, and with an error if it cannot be made. */
static inline ct_tensor *get_tensor(message *m, ct_context *context) {
    const wire_tensor x = get_wire_tensor(m);
    if (!x.data) return NULL;
    switch (x.dtype) {
    case CT_F64: return ct_from_f64(context, x.shape, (const double *)x.data);
    case CT_F32: return ct_from_f32(context, x.shape, (const float *)x.data);
    case CT_I64: return ct_from_i64(context, x.shape, (const int64_t *)x.data);
    default: return ct_from_bool(context, x.shape, (const bool *)x.data);
    }
}

#endif
