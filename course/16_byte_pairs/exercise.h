/* Your file defines byte-pair encoding: training, encoding and decoding. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* Tokens 0 to 255 are the bytes. Merge i makes token 256 + i, which stands for the tokens `left`
 * and `right`, one behind the other; both are smaller than 256 + i. */
typedef struct {
    int left, right;
} pair;

/* Learns at most `most` merges from the n bytes of a text, writes them to `merges` in their order,
 * and returns how many there are. */
extern int bpe_train(const uint8_t *text, int64_t n, int most, pair *merges);

/* Writes the tokens of n bytes to `tokens`, which has room for n, and returns how many there are.
 */
extern int64_t bpe_encode(const pair *merges, int count, const uint8_t *text, int64_t n,
                          int *tokens);

/* Writes the bytes of n tokens to `text` and returns how many there are. Returns -1 if there are
 * more than `room`, or if a token is none: negative, or 256 + count or more. `text` may hold
 * anything then. */
extern int64_t bpe_decode(const pair *merges, int count, const int *tokens, int64_t n,
                          uint8_t *text, int64_t room);

#endif
