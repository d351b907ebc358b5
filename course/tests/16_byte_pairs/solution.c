/* Every merge goes through the whole text: it counts all pairs in a table, whose order is the rule
 * for ties, and replaces the pair from left to right. */
#include "exercise.h"

#include <stdlib.h>
#include <string.h>

/* Replaces the pair, and returns how many tokens are left. */
static int64_t replace(int *tokens, int64_t n, pair p, int made) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool here = i + 1 < n && tokens[i] == p.left && tokens[i + 1] == p.right;
        tokens[kept++] = here ? made : tokens[i];
        if (here) i++;
    }
    return kept;
}

/* The most frequent pair of a text, of several the smallest. Returns how often it occurs. */
static int64_t find_most_frequent(const int *tokens, int64_t n, int vocabulary, int64_t *counts,
                                  pair *best) {
    int64_t most = 0;
    memset(counts, 0, (size_t)vocabulary * (size_t)vocabulary * sizeof *counts);
    for (int64_t i = 0; i + 1 < n; i++) counts[tokens[i] * vocabulary + tokens[i + 1]]++;
    for (int left = 0; left < vocabulary; left++)
        for (int right = 0; right < vocabulary; right++) {
            if (counts[left * vocabulary + right] <= most) continue;
            most = counts[left * vocabulary + right];
            *best = (pair){left, right};
        }
    return most;
}

int bpe_train(const uint8_t *text, int64_t n, int most, pair *merges) {
    const size_t vocabulary = 256 + (size_t)most;
    int *tokens = malloc((size_t)n * sizeof *tokens);
    int64_t *counts = malloc(vocabulary * vocabulary * sizeof *counts);
    int count = 0;
    for (int64_t i = 0; i < n; i++) tokens[i] = text[i];
    for (; count < most; count++) {
        pair best = {0, 0};
        if (find_most_frequent(tokens, n, 256 + count, counts, &best) < 2) break;
        merges[count] = best;
        n = replace(tokens, n, best, 256 + count);
    }
    free(tokens), free(counts);
    return count;
}

int64_t bpe_encode(const pair *merges, int count, const uint8_t *text, int64_t n, int *tokens) {
    for (int64_t i = 0; i < n; i++) tokens[i] = text[i];
    for (int i = 0; i < count; i++) n = replace(tokens, n, merges[i], 256 + i);
    return n;
}

/* Writes the bytes of a token from text[at] on, and returns where they end; -1: there is no room.
 */
static int64_t expand(const pair *merges, int token, uint8_t *text, int64_t at, int64_t room) {
    if (token >= 256) {
        const pair p = merges[token - 256];
        at = expand(merges, p.left, text, at, room);
        return at < 0 ? -1 : expand(merges, p.right, text, at, room);
    }
    if (at == room) return -1;
    text[at] = (uint8_t)token;
    return at + 1;
}

int64_t bpe_decode(const pair *merges, int count, const int *tokens, int64_t n, uint8_t *text,
                   int64_t room) {
    int64_t at = 0;
    for (int64_t i = 0; i < n && at >= 0; i++) {
        if (tokens[i] < 0 || tokens[i] >= 256 + count) return -1;
        at = expand(merges, tokens[i], text, at, room);
    }
    return at;
}
