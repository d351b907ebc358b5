/* BPE models of random merges, and a plain search that merges by them. */
#ifndef RANDOM_MERGES_H
#define RANDOM_MERGES_H

#include "ext/text/byte_alphabet.h"
#include "text_model_check.h"

static uint32_t state;
static inline uint32_t below(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state * n >> 32);
}

enum { MOST_TOKENS = 400, MOST_MERGES = 1200, LONGEST = 300 };
static char token[MOST_TOKENS][16];
static int n_tokens, merge[MOST_MERGES][3], n_merges;

static inline int token_find(const char *text, size_t size) {
    for (int i = 0; i < n_tokens; i++)
        if (strlen(token[i]) == size && !memcmp(token[i], text, size)) return i;
    return -1;
}

static inline int token_of(const char *text, size_t size) {
    const int found = token_find(text, size);
    if (found >= 0) return found;
    memcpy(token[n_tokens], text, size);
    token[n_tokens][size] = 0;
    return n_tokens++;
}

/* Makes a vocabulary of random texts over `letters` letters, all their parts, and merges of all
 * pairs of tokens that join to a token, or only a part of these merges, in random order. With many
 * letters it has few texts, so that there are letters that no merge joins. With a part of the
 * merges there are tokens whose texts are merged into others. */
static inline void make_merges(uint32_t letters, size_t longest, bool part) {
    n_tokens = n_merges = 0;
    for (uint32_t i = 0; i < letters; i++) token_of(&"abcdefgh"[i], 1);
    for (uint32_t i = 0; i < 400 && (uint32_t)n_tokens < 150 / letters + letters; i++) {
        char text[16];
        const size_t size = 2 + below((uint32_t)longest - 1);
        for (size_t k = 0; k < size; k++) text[k] = "abcdefgh"[below(letters)];
        for (size_t n = 2; n <= size; n++) token_of(text, n);
    }
    for (int t = 0; t < n_tokens; t++) {
        const size_t size = strlen(token[t]);
        for (size_t n = 1; n < size; n++) {
            const int before = n_tokens, left = token_of(token[t], n),
                      right = token_of(token[t] + n, size - n);
            if (n_tokens > before) n_tokens = before; /* the right part is no token */
            else if (n_merges < MOST_MERGES) memcpy(merge[n_merges++], (int[]){left, right, t}, 12);
        }
    }
    for (int i = n_merges - 1; i > 0; i--) {
        const uint32_t j = below((uint32_t)i + 1);
        int kept[3];
        memcpy(kept, merge[i], sizeof kept);
        memcpy(merge[i], merge[j], sizeof kept);
        memcpy(merge[j], kept, sizeof kept);
    }
    if (part) n_merges -= n_merges / 3;
}

/* Opens the model. In bytes mode each byte has a token. */
static inline void open_merges(const char *extra, bool bytes) {
    static char text[100000];
    int n = n_tokens;
    size_t at = (size_t)snprintf(text, sizeof text, "{'type': 'BPE', %s 'vocab': {", extra);
    for (int i = 0; i < n_tokens; i++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s'%s': %d", i ? ", " : "", token[i], i);
    for (int b = 0; b < 256; b++) {
        const unsigned c = cti_byte_character((unsigned char)b);
        if (bytes ? c < 128 && token_find((char[]){(char)c}, 1) >= 0 : c != '?') continue;
        at += (size_t)snprintf(text + at, sizeof text - at, ", '\\u%04x': %d", c, n++);
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "}, 'merges': [");
    for (int i = 0; i < n_merges; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s'%s %s'", i ? ", " : "",
                               token[merge[i][0]], token[merge[i][1]]);
    at += (size_t)snprintf(text + at, sizeof text - at, "]}");
    ck_assert_uint_lt(at, sizeof text);
    ck_assert_msg(open_model(text, bytes), "%s", ct_error_message(context));
}

/* Merges a piece by looking for the first pair of the smallest rank. */
static inline size_t plain_merge(const char *piece, size_t size, int *id) {
    size_t n = size;
    for (size_t i = 0; i < size; i++) id[i] = token_of(piece + i, 1);
    for (;;) {
        size_t best = n;
        int rank = n_merges;
        for (size_t i = 0; i + 1 < n; i++)
            for (int m = 0; m < rank; m++)
                if (merge[m][0] == id[i] && merge[m][1] == id[i + 1]) rank = m, best = i;
        if (best == n) return n;
        id[best] = merge[rank][2];
        memmove(id + best + 1, id + best + 2, (--n - best - 1) * sizeof *id);
    }
}

#endif
