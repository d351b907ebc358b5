/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void call_train(ct_context *context, message *in, message *out) {
    int64_t n, most;
    const uint8_t *text = sealed_items("text", in, 1, true, &n);
    pair *merges = sealed_items("merges", in, sizeof *merges, false, &most);
    (void)context;
    put_number(out, bpe_train(text, n, (int)most, merges));
    put_bytes(out, merges, (size_t)most * sizeof *merges);
}

static void call_encode(ct_context *context, message *in, message *out) {
    int64_t count, n, room;
    const pair *merges = sealed_items("merges", in, sizeof *merges, true, &count);
    const uint8_t *text = sealed_items("text", in, 1, true, &n);
    int *tokens = sealed_items("tokens", in, sizeof *tokens, false, &room);
    (void)context;
    put_number(out, bpe_encode(merges, (int)count, text, n, tokens));
    put_bytes(out, tokens, (size_t)room * sizeof *tokens);
}

static void call_decode(ct_context *context, message *in, message *out) {
    int64_t count, n, room;
    const pair *merges = sealed_items("merges", in, sizeof *merges, true, &count);
    const int *tokens = sealed_items("tokens", in, sizeof *tokens, true, &n);
    uint8_t *text = sealed_items("text", in, 1, false, &room);
    (void)context;
    put_number(out, bpe_decode(merges, (int)count, tokens, n, text, room));
    put_bytes(out, text, (size_t)room);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"bpe_train", call_train},
                                            {"bpe_encode", call_encode},
                                            {"bpe_decode", call_decode},
                                            {NULL, NULL}};
