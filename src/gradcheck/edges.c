/* Hypothesis: exactly those elements are wrong that lie at an edge of the blocks of a blocked
 * loop. */
#include "suspect.h"

typedef enum { TAIL, BEYOND, FIRST, LAST, KINDS } edge;

/* Is index c of a dim of that size at such an edge of blocks of b? */
static bool at_edge(edge kind, int64_t c, int64_t size, int64_t b) {
    switch (kind) {
    case TAIL: return c >= size - size % b; /* the remainder after the whole blocks */
    case BEYOND: return c >= b;             /* all but the first block */
    case FIRST: return c % b == 0;
    default: return c % b == b - 1;
    }
}

/* Are exactly those of `count` elements wrong that lie at that edge along dim d? d = -1: along the
 * flat index. */
static bool edge_is_wrong(const bool *wrong, int64_t count, ct_shape shape, int d, edge kind,
                          int64_t b) {
    const int64_t size = d < 0 ? count : shape.dim[d];
    int64_t some = 0;
    if (size < 2 || b > size || (kind == TAIL && size % b == 0)) return false;
    for (int64_t i = 0; i < count; i++) {
        if (at_edge(kind, d < 0 ? i : cti_suspect_along(shape, i, d), size, b) != wrong[i])
            return false;
        some += wrong[i];
    }
    return some > 0 && some < count;
}

static bool edges_of(cti_suspect *s, bool rows) {
    static const int64_t blocks[] = {4, 8, 16, 32, 64, 128};
    const ct_shape shape = rows ? s->out : s->in;
    const int64_t count = rows ? s->rows : s->n;
    bool *wrong = cti_check_flags(s->k, count);
    if (!wrong || count < 2) return false;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) wrong[rows ? r : i] |= cti_suspect_wrong(s, r, i);
    for (int d = shape.ndim > 1 ? shape.ndim - 1 : -1; d >= -1; d--) {
        char along[64];
        snprintf(along, sizeof along, d < 0 ? "%s" : "%s along dim %d",
                 rows ? "what comes from the output" : "the gradient", d);
        const int64_t size = d < 0 ? count : shape.dim[d];
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
                if (blocks[b] >= size ||
                    !edge_is_wrong(wrong, count, shape, d, (edge)kind, blocks[b]))
                    continue;
                int64_t largest = blocks[b]; /* several block sizes may leave the same tail */
                for (size_t more = b + 1; more < sizeof blocks / sizeof *blocks; more++)
                    if (kind == TAIL && blocks[more] < size &&
                        edge_is_wrong(wrong, count, shape, d, TAIL, blocks[more]))
                        largest = blocks[more];
                char sizes[48];
                snprintf(sizes, sizeof sizes, largest == blocks[b] ? "%lld" : "%lld or %lld",
                         (long long)blocks[b], (long long)largest);
                if (kind == TAIL)
                    return cti_suspect_say(s, CT_MISTAKE_EDGES,
                                           "%s is wrong from index %lld on alone: what is left of "
                                           "%lld after whole blocks of %s",
                                           along, (long long)(size - size % largest),
                                           (long long)size, sizes);
                if (kind == BEYOND)
                    return cti_suspect_say(
                        s, CT_MISTAKE_EDGES,
                        "%s is wrong from index %lld on alone: only the first block is done", along,
                        (long long)blocks[b]);
                return cti_suspect_say(
                    s, CT_MISTAKE_EDGES, "%s is wrong at the %s index of each block of %lld alone",
                    along, kind == FIRST ? "first" : "last", (long long)blocks[b]);
            }
        if (edge_is_wrong(wrong, count, shape, d, FIRST, size) ||
            edge_is_wrong(wrong, count, shape, d, LAST, size))
            return cti_suspect_say(s, CT_MISTAKE_EDGES, "%s is wrong at the %s index alone", along,
                                   wrong[0] ? "first" : "last");
    }
    return false;
}

bool cti_suspect_edges(cti_suspect *s) {
    return !s->k->opts.fast && (edges_of(s, false) || (s->k->whole && edges_of(s, true)));
}
