/* An answer of any bytes, as the course's judge reads what a submission says: each item is asked
 * for as something, and what is handed out lies in the message. An input is a byte for each
 * question, up to a byte 0xff, and then the message. */
#include "fuzz.h"

#include "course/wire.h"

static ct_context *context;

static bool is_inside(const message *m, const void *data, size_t size) {
    const unsigned char *at = data;
    return at >= m->bytes && size <= m->size && (size_t)(at - m->bytes) <= m->size - size;
}

static void ask_tensor(message *m) {
    const wire_tensor x = get_wire_tensor(m);
    MUST(!x.data || (!m->broken && is_inside(m, x.data, (size_t)x.numel * wire_size_of(x.dtype))));
    MUST(x.numel >= 0 && x.shape.ndim >= 0 && x.shape.ndim <= CT_MAX_DIMS);
}

static void ask(message *m, int question) {
    char text[16];
    double numbers[4];
    size_t size;
    switch (question % 6) {
    case 0: get_number(m); break;
    case 1: MUST(strlen(get_text(m, text, sizeof text)) < sizeof text); break;
    case 2: get_array(m, numbers, question / 6 % 5); break;
    case 3: ask_tensor(m); break;
    case 4: {
        const void *data = get_bytes(m, &size);
        MUST(!data || is_inside(m, data, size));
        break;
    }
    default: {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = get_tensor(m, context);
        if (x) MUST(ct_numel(x) <= (int64_t)m->size);
        ct_error_clear(context);
        ct_scope_close(scope);
    }
    }
    MUST(m->at <= m->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;
    if (!end) return 0;
    if (!context) context = ct_context_new((ct_context_opts){.threads = 1});
    const size_t left = (size - (size_t)(end + 1 - data)) & ~(size_t)7;
    message m = {.bytes = malloc(left + 1), .size = left, .room = left};
    MUST(m.bytes && context);
    memcpy(m.bytes, end + 1, left);
    for (const uint8_t *question = data; question < end; question++) ask(&m, *question);
    free(m.bytes);
    return 0;
}
