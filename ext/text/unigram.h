/* Unigram: of all ways to divide a piece into tokens, the one with the largest sum of their scores,
 * and among equal ones, at each place, the one whose last token is the longest. A character that is
 * no token is an unknown one, with the smallest score minus 10; unknown ones in a row are one.
 *
 * The tokens that end at a place are found by an automaton (Aho and Corasick), so that the time is
 * in proportion to the bytes of a piece and the tokens that are found in it, however long they are.
 *
 * Invariants of a cti_unigram:
 *
 * 1. Nodes are the beginnings of tokens, in the order of their lengths; node 0 is the empty one. A
 *    node's children, which are one byte longer, lie side by side from .first on, up to the .first
 *    of the next node; label[] has their last bytes.
 * 2. .fail is the node of the longest proper end of a node's text that is a node too, and .token
 *    the longest token that the text ends with, -1 for none. made[token].shorter is the next
 *    shorter one. */
#ifndef CTI_TEXT_UNIGRAM_H
#define CTI_TEXT_UNIGRAM_H

#include <string.h>

#include "model.h"

typedef struct {
    uint32_t first, fail;
    int32_t token;
} cti_unigram_node;

typedef struct {
    double score;
    uint32_t size;
    int32_t id, shorter;
} cti_unigram_token;

typedef struct {
    bool bytes;      /* pieces are bytes, each of which stands for a character */
    int32_t unknown; /* unk_id; CTI_NO_ID if the file has none */
    bool falls_back; /* all bytes of unknown characters that have a token are tokens */
    double unknown_score;
    int32_t byte_token[256]; /* the ids of <0x00>, ...; CTI_NO_ID: none */
    uint32_t nodes;
    cti_unigram_node *node;  /* [nodes + 1] */
    char *label;             /* [nodes] */
    uint32_t root[256];      /* the children of node 0; 0: none */
    cti_unigram_token *made; /* the tokens, in the order of their bytes */
} cti_unigram;

/* Reads the model and its vocabulary. */
bool cti_unigram_read(const cti_reading *reading, cti_json_at value, bool bytes,
                      cti_vocabulary *vocabulary, const cti_unigram **unigram);

/* The best way to a place of a piece: its sum, where its last token begins, and that token. */
typedef struct {
    double score;
    uint32_t from;
    int32_t id;
} cti_unigram_way;
typedef struct {
    cti_unigram_way *way; /* [room] */
    size_t room;
} cti_unigram_work;

void cti_unigram_work_end(cti_unigram_work *work);
bool cti_unigram_encode(const cti_unigram *unigram, cti_unigram_work *work, size_t begin,
                        size_t end, cti_sink *sink);

/* The child of a node by a byte; 0: none. */
static inline uint32_t cti_unigram_child(const cti_unigram *m, uint32_t node, char byte) {
    if (!node) return m->root[(unsigned char)byte];
    const uint32_t first = m->node[node].first, end = m->node[node + 1].first;
    if (end - first > 16) {
        const char *at = memchr(m->label + first, byte, end - first);
        return at ? (uint32_t)(at - m->label) : 0;
    }
    for (uint32_t i = first; i < end; i++)
        if (m->label[i] == byte) return i;
    return 0;
}

/* The node of the longest end of a text that is a node, from the one of the text before `byte`. */
static inline uint32_t cti_unigram_next(const cti_unigram *m, uint32_t node, char byte) {
    for (;; node = m->node[node].fail) {
        const uint32_t child = cti_unigram_child(m, node, byte);
        if (child || !node) return child;
    }
}

#endif
