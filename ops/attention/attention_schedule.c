/* How attention's backward is cut into cells, one range of queries against one of keys each: ranges of keys as long as a cache likes,
 * shorter where there is else too little to share out; of queries no more than make enough cells for a step, as what a cell does for its
 * keys it does once for all its queries. */
#include "attention.h"

enum {
    RANGE_BYTES = 1280 << 10, /* what a cell's keys may take packed */
    CELLS = 16,              /* in a step, where that many can be */
    KEYS = 128,              /* a block's */
};

cti_attention_cells cti_attention_cells_of(const attention *a) {
    const int64_t nr = a->k->gemm.nr, heads = a->batch * a->kv_heads, wide = 3 * a->d + 2 * a->dv;
    int64_t range = wide <= RANGE_BYTES / a->size / CTI_ATTENTION_RANGE ? CTI_ATTENTION_RANGE : RANGE_BYTES / a->size / wide / nr * nr;
    while (range > 128 && heads * cti_attention_pieces(a->s, range) < 8) range /= 2;
    if (range < nr) range = nr;
    cti_attention_cells c;
    c.sr = cti_attention_min(cti_attention_up(cti_attention_pieces(a->s, cti_attention_pieces(a->s, range)), nr), a->s);
    c.sn = cti_attention_pieces(a->s, c.sr);
    const int64_t most = cti_attention_min(c.sn, cti_attention_pieces(a->t, CTI_ATTENTION_QUERIES));
    c.tn = cti_attention_min(most, cti_attention_pieces(CELLS, heads));
    c.tr = cti_attention_pieces(a->t, c.tn);
    const double cost = (double)(c.tr + 8) * (double)(c.sr + 8) * (double)(wide + 16) * (double)a->group;
    c.grain = 1 + (int64_t)((1 << 20) / cost);
    c.keys = cti_attention_min(KEYS / nr * nr, cti_attention_up(c.sr, nr));
    return c;
}

int64_t cti_attention_cell_keys(const cti_attention_cells *c, int64_t queries, int64_t step) { return (queries * (c->sn / c->tn) + step) % c->sn; }
