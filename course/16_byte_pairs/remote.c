/* The names of exercise.h, which stand for the submission's. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

static void put_items(message *m, const void *items, int64_t n, size_t size) {
    put_bytes(m, items, (size_t)n * size);
}

int bpe_train(const uint8_t *text, int64_t n, int most, pair *merges) {
    message *m = remote_begin("bpe_train");
    put_items(m, text, n, 1), put_items(m, merges, most, sizeof *merges);
    message *got = remote_call(NULL);
    const int64_t count = get_number(got);
    get_items(got, merges, (size_t)most * sizeof *merges);
    remote_end(got);
    if (count > most)
        course_fail("too many: bpe_train returns %lld merges, and at most %d are asked for",
                    (long long)count, most);
    return count < 0 ? -1 : (int)count;
}

int64_t bpe_encode(const pair *merges, int count, const uint8_t *text, int64_t n, int *tokens) {
    message *m = remote_begin("bpe_encode");
    put_items(m, merges, count, sizeof *merges), put_items(m, text, n, 1);
    put_items(m, tokens, n, sizeof *tokens);
    message *got = remote_call(NULL);
    const int64_t made = get_number(got);
    get_items(got, tokens, (size_t)n * sizeof *tokens);
    remote_end(got);
    if (made > n)
        course_fail("too many: bpe_encode returns %lld tokens for %lld bytes", (long long)made,
                    (long long)n);
    return made < 0 ? -1 : made;
}

int64_t bpe_decode(const pair *merges, int count, const int *tokens, int64_t n, uint8_t *text,
                   int64_t room) {
    message *m = remote_begin("bpe_decode");
    put_items(m, merges, count, sizeof *merges), put_items(m, tokens, n, sizeof *tokens);
    put_items(m, text, room, 1);
    message *got = remote_call(NULL);
    const int64_t size = get_number(got);
    get_items(got, text, (size_t)room);
    remote_end(got);
    if (size > room)
        course_fail("too many: bpe_decode returns %lld bytes, and there is room for %lld: it must "
                    "return -1",
                    (long long)size, (long long)room);
    return size < 0 ? -1 : size;
}
