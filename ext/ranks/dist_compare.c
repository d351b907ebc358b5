/* The properties that must be equal on all ranks, each with a name and a value in words. Rank 0
 * sends a hash of each property. The lowest rank that has another hash records the error, with rank
 * 0's words for this property and its own, and all ranks get it. */
#include "dist.h"

#include <cotangent/autograd.h>

#include "../../src/core/kernel_bits.h"

#include <stdarg.h>
#include <string.h>

typedef struct {
    cti_optim_fact fact;
    char more[64]; /* detail for the error only; it may differ if values are equal */
} property;

/* The state of an iteration over the properties; zero at the begin. */
typedef struct {
    int64_t next;
    cti_optim_fact_walk facts;
} property_walk;

static property *property_set(property *it, const char *name, const char *format, ...)
    CT_FORMAT(3, 4);
static property *property_set(property *it, const char *name, const char *format, ...) {
    va_list args;
    snprintf(it->fact.name, sizeof it->fact.name, "%s", name);
    va_start(args, format);
    vsnprintf(it->fact.value, sizeof it->fact.value, format, args);
    va_end(args);
    *it->more = '\0';
    return it;
}

/* ---- the list ---- */

enum { OPTIONS = 6 };

static property *property_set_option(const ct_dist *dist, int64_t i, property *it) {
    const ct_dist_opts *o = &dist->opts;
    switch (i) {
    case 0: return property_set(it, "shares", "%" PRId64, o->shares);
    case 1: return property_set(it, "micro_batches", "%" PRId64, o->micro_batches);
    case 2: return property_set(it, "bucket_bytes", "%" PRId64, o->bucket_bytes);
    case 3: return property_set(it, "the instruction set", "%s", ct_isa_name(dist->context));
    case 4:
        return property_set(it, "the matmul precision", "%s",
                            cti_matmul_name(ct_get_matmul(dist->context)));
    default:
        property_set(it, "the fingerprint", "%016" PRIx64, dist->fingerprint);
        snprintf(it->more, sizeof it->more, " of %s", cti_build());
        return it;
    }
}

/* The next property; NULL after the last. */
static property *next_property(const ct_dist *dist, property_walk *walk, property *it) {
    const int64_t i = walk->next++;
    if (i < OPTIONS) return property_set_option(dist, i, it);
    *it->more = '\0';
    return cti_optim_next_fact(dist->optim, &walk->facts, &it->fact) ? it : NULL;
}

/* Property i; NULL if there are not so many. */
static property *property_at(const ct_dist *dist, int64_t i, property *it) {
    property_walk walk = {0};
    while (next_property(dist, &walk, it))
        if (i-- == 0) return it;
    *it = (property){0};
    return NULL;
}

/* FNV-1a. */
static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}
static uint64_t property_hash(const property *it) {
    return hash_text(hash_text(UINT64_C(0xcbf29ce484222325), it->fact.name) ^ '=', it->fact.value);
}

/* ---- comparing ---- */

/* Records the error of this rank's property i against rank 0's; `first` has "" if rank 0 has no
 * such property. */
static bool property_refuse(const ct_dist *dist, int64_t i, const property *first) {
    property it;
    const int rank = dist->rank;
    if (!property_at(dist, i, &it))
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_new: rank 0 has %s %s, rank %d has not", first->fact.name,
                       first->fact.value, rank);
    if (!strcmp(it.fact.name, first->fact.name))
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_new: rank %d has %s %s%s, rank 0 has %s%s", rank, it.fact.name,
                       it.fact.value, it.more, first->fact.value, first->more);
    return ct_fail(dist->context, CT_ERR_ARGUMENT, "dist_new: rank %d has %s %s, rank 0 has %s %s",
                   rank, it.fact.name, it.fact.value, *first->fact.name ? first->fact.name : "none",
                   *first->fact.name ? first->fact.value : "");
}

/* The lowest rank with a difference, and the number of its property. */
typedef struct {
    cti_agreement head;
    int64_t rank, property; /* rank -1: no difference */
} difference;

static void difference_merge(void *mine, const void *theirs, size_t size) {
    difference *a = mine;
    const difference *b = theirs;
    (void)size;
    if (b->rank >= 0 && (a->rank < 0 || b->rank < a->rank))
        a->rank = b->rank, a->property = b->property;
}

bool cti_dist_compare(ct_dist *dist) {
    ct_context *context = dist->context;
    const cti_place place = {.call = CTI_CALL_NEW, .dist = dist->number};
    const int64_t count = OPTIONS + cti_optim_facts(dist->optim);
    int64_t first = count;
    property it;
    property_walk walk = {0};
    cti_dist_broadcast_bytes(dist, &first, sizeof first);
    const size_t bytes = cti_bytes(first, sizeof(uint64_t));
    uint64_t *hash = cti_take_zeroed(context, bytes);
    if (!cti_dist_meet(dist, CTI_CALL_NEW, 0, hash)) {
        cti_give_any(context, hash, bytes);
        return false;
    }
    for (int64_t i = 0; dist->rank == 0 && i < count; i++)
        hash[i] = property_hash(next_property(dist, &walk, &it));
    cti_dist_broadcast_bytes(dist, hash, bytes);
    int64_t same = 0;
    for (walk = (property_walk){0}; same < first && same < count; same++)
        if (hash[same] != property_hash(next_property(dist, &walk, &it))) break;
    cti_give_any(context, hash, bytes);
    difference all = {.rank = -1}, room;
    if (same < first || count != first) all.rank = dist->rank, all.property = same;
    cti_agreement_begin(&all.head, dist->comm, place, true);
    dist->sent.other += cti_agree(dist->comm, CTI_DIST_CONTROL, &all.head, &room.head, sizeof all,
                                  difference_merge);
    if (!cti_agreement_holds(dist->comm, &all.head, place)) return false;
    if (all.rank < 0) return true;
    memset(&it, 0, sizeof it);
    if (dist->rank == 0) property_at(dist, all.property, &it);
    cti_dist_broadcast_bytes(dist, &it, sizeof it);
    return cti_dist_meet(dist, CTI_CALL_NEW, 0,
                         dist->rank != all.rank || property_refuse(dist, all.property, &it));
}
