/* Byte-pair encoding: see README.md. */
#include "exercise.h"

int bpe_train(const uint8_t *text, int64_t n, int most, pair *merges) {
    (void)text, (void)n, (void)most, (void)merges;
    return -1; /* it is not written yet */
}

int64_t bpe_encode(const pair *merges, int count, const uint8_t *text, int64_t n, int *tokens) {
    (void)merges, (void)count, (void)text, (void)n, (void)tokens;
    return -1;
}

int64_t bpe_decode(const pair *merges, int count, const int *tokens, int64_t n, uint8_t *text,
                   int64_t room) {
    (void)merges, (void)count, (void)tokens, (void)n, (void)text, (void)room;
    return -1;
}
