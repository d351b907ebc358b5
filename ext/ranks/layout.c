/* The division of parameters into buckets and ranges, and the memory of the steps. */
#include "dist.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>
#include <cotangent/scope.h>

#include "../../src/core/assert.h"
#include "../../src/core/int_math.h"

/* ---- parameters and buckets ---- */

static ct_dtype param_dtype(const cti_dist_param *p) { return ct_dtype_of(p->of.tensor); }

static size_t param_bytes(const cti_dist_param *p) {
    return (size_t)p->numel * cti_dtype_size(param_dtype(p));
}

/* Fills in param, or only counts. */
static void params_collect(ct_dist *dist) {
    cti_optim_param param;
    dist->params = dist->units = 0;
    for (int64_t i = 0; cti_optim_param_at(dist->optim, i, &param); i++) {
        if (!ct_requires_grad(param.tensor)) continue;
        const int64_t numel = ct_numel(param.tensor);
        if (dist->param)
            dist->param[dist->params] = (cti_dist_param){.number = i, .of = param, .numel = numel};
        dist->params++;
        dist->units += cti_optim_units(numel);
    }
}

/* Divides the parameters from the last to the first, or only counts the buckets. A bucket has one
 * dtype; it is full when the next parameter would make it larger than opts.bucket_bytes. */
static void buckets_collect(ct_dist *dist) {
    int64_t n = 0, end = dist->params;
    while (end > 0) {
        const cti_dist_param *last = &dist->param[end - 1];
        size_t bytes = param_bytes(last);
        int64_t first = end - 1;
        for (; first > 0; first--) {
            const cti_dist_param *more = &dist->param[first - 1];
            if (param_dtype(more) != param_dtype(last)) break;
            bytes += param_bytes(more);
            if (bytes > (size_t)dist->opts.bucket_bytes) break;
        }
        if (dist->bucket) {
            cti_dist_bucket *bucket = &dist->bucket[n];
            *bucket = (cti_dist_bucket){.first = first, .count = end - first};
            for (int64_t i = first; i < end; i++) {
                dist->param[i].bucket = n;
                dist->param[i].at = bucket->numel;
                bucket->numel += dist->param[i].numel;
            }
        }
        n++;
        end = first;
    }
    dist->buckets = n;
}

/* ---- cuts ---- */

/* The place for a cut that is nearest to an element of the bucket: the boundary of a unit, or of a
 * parameter that ranks step as a whole. If the element is in the middle, the place is `up` or
 * down. */
static int64_t nearest_unit(const ct_dist *dist, const cti_dist_bucket *bucket, int64_t at,
                            bool up) {
    for (int64_t i = bucket->first; i < bucket->first + bucket->count; i++) {
        const cti_dist_param *p = &dist->param[i];
        const int64_t inside = at - p->at;
        if (inside >= p->numel) continue;
        const int64_t unit = p->of.whole ? p->numel : (int64_t)CTI_OPTIM_UNIT;
        const int64_t below = inside / unit * unit, above = cti_min(below + unit, p->numel);
        const int64_t nearer_up = inside - below - (above - inside);
        return p->at + (nearer_up > 0 || (nearer_up >= -1 && up) ? above : below);
    }
    return bucket->numel;
}

/* Makes the cuts between `low` and `high`, each as near as possible to the middle of its
 * neighbours. A range that cannot be divided, such as a bucket of one unit, goes to one side as the
 * last bit of `turn` says, and then as the next bit says. So buckets that follow each other go to
 * different ranks. */
static void range_cut_between(const ct_dist *dist, cti_dist_bucket *bucket, int low, int high,
                              int64_t turn) {
    if (high - low < 2) return;
    const int middle = low + (high - low) / 2;
    const int64_t from = bucket->cut[low], to = bucket->cut[high];
    const int64_t at = nearest_unit(dist, bucket, from + (to - from) / 2, turn & 1);
    bucket->cut[middle] = cti_min(cti_max(at, from), to);
    range_cut_between(dist, bucket, low, middle, turn / 2);
    range_cut_between(dist, bucket, middle, high, turn / 2);
}

void cti_dist_bucket_range(const ct_dist *dist, const cti_dist_bucket *bucket, int rank, int stage,
                           int64_t *from, int64_t *to) {
    int low = 0, width = dist->ranks;
    for (int k = 0; k < stage; k++) {
        width /= 2;
        if (rank >> k & 1) low += width;
    }
    *from = bucket->cut[low];
    *to = bucket->cut[low + width];
}

void cti_dist_param_range(const ct_dist *dist, const cti_dist_param *param, int rank,
                          int64_t *start, int64_t *length) {
    int64_t from, to;
    cti_dist_bucket_range(dist, &dist->bucket[param->bucket], rank, dist->stages, &from, &to);
    const int64_t begin = cti_min(cti_max(from, param->at), to),
                  end = cti_max(begin, cti_min(to, param->at + param->numel));
    *start = end > begin ? begin - param->at : 0;
    CTI_ASSERT(*start % CTI_OPTIM_UNIT == 0);
    *length = end - begin;
}

/* ---- memory ---- */

/* Zeros in no scope. They are zeros because a rank with an error sends this memory unwritten. */
static ct_tensor *kept_zeros(ct_dist *dist, ct_dtype dtype, int64_t numel) {
    return ct_keep(ct_zeros(dist->context, dtype, CT_SHAPE(numel)));
}
/* A view of elements [start, start + n) of a bucket's memory, in no scope. It has the given shape
 * or, if that is NULL, one dim. */
static ct_tensor *kept_view(ct_tensor *of, int64_t start, int64_t n, const ct_shape *shape) {
    ct_scope scope = ct_scope_open_no_grad(ct_context_of(of));
    ct_tensor *t = ct_narrow(of, 0, start, n);
    if (t && shape) t = ct_view(t, *shape);
    ct_keep(t);
    ct_scope_close(scope);
    return t;
}

static bool sets_make(ct_dist *dist, cti_dist_bucket *bucket, ct_dtype dtype) {
    if (!dist->levels) return true;
    bucket->set = cti_take_zeroed(dist->context, cti_bytes(dist->levels, sizeof(ct_tensor *)));
    for (int k = 0; bucket->set && k < dist->levels; k++) {
        bucket->set[k] = kept_zeros(dist, dtype, bucket->numel);
        if (!bucket->set[k]) return false;
    }
    return bucket->set;
}

/* Makes the views of a parameter in its bucket. */
static bool views_make(ct_dist *dist, const cti_dist_bucket *bucket, cti_dist_param *p) {
    const ct_shape shape = ct_shape_of(p->of.tensor);
    int64_t from, to;
    cti_dist_bucket_range(dist, bucket, dist->rank, dist->stages, &from, &to);
    cti_dist_param_range(dist, p, dist->rank, &p->range.start, &p->range.length);
    const int64_t length = p->range.length, at = length ? p->at + p->range.start : from;
    const ct_shape *whole = p->of.whole && length == p->numel ? &shape : NULL;
    p->work = kept_view(bucket->work, p->at, p->numel, &shape);
    p->range.param = p->work ? kept_view(bucket->work, at, length, whole) : NULL;
    p->range.grad = p->range.param ? kept_view(bucket->scratch, at - from, length, whole) : NULL;
    return p->range.grad;
}

static bool bucket_make(ct_dist *dist, cti_dist_bucket *bucket) {
    const ct_dtype dtype = param_dtype(&dist->param[bucket->first]);
    if (!sets_make(dist, bucket, dtype)) return false;
    if (dist->ranks == 1) return true;
    int64_t from, to;
    bucket->cut = cti_take_zeroed(dist->context, cti_bytes(dist->ranks + 1, sizeof(int64_t)));
    if (!bucket->cut) return false;
    bucket->cut[dist->ranks] = bucket->numel;
    range_cut_between(dist, bucket, 0, dist->ranks, bucket - dist->bucket);
    for (int r = 0; r < dist->ranks; r++) CTI_ASSERT(bucket->cut[r] <= bucket->cut[r + 1]);
    cti_dist_bucket_range(dist, bucket, dist->rank, 1, &from, &to);
    bucket->work = kept_zeros(dist, dtype, bucket->numel);
    bucket->scratch = bucket->work ? kept_zeros(dist, dtype, to - from) : NULL;
    if (!bucket->scratch) return false;
    for (int64_t i = bucket->first; i < bucket->first + bucket->count; i++)
        if (!views_make(dist, bucket, &dist->param[i])) return false;
    return true;
}

bool cti_dist_layout(ct_dist *dist) {
    ct_context *context = dist->context;
    params_collect(dist);
    dist->param = cti_take_zeroed(context, cti_bytes(dist->params, sizeof(cti_dist_param)));
    if (!dist->param) return false;
    params_collect(dist);
    buckets_collect(dist);
    dist->bucket = cti_take_zeroed(context, cti_bytes(dist->buckets, sizeof(cti_dist_bucket)));
    if (!dist->bucket) return false;
    buckets_collect(dist);
    for (int64_t i = 0; i < dist->buckets; i++)
        if (!bucket_make(dist, &dist->bucket[i])) return false;
    if (dist->ranks == 1) return true;
    dist->watched = cti_take_zeroed(context, cti_bytes(dist->params, sizeof *dist->watched));
    dist->leaf = dist->watched
                     ? cti_take_zeroed(context, cti_bytes(dist->params, sizeof *dist->leaf))
                     : NULL;
    if (!dist->leaf) return false;
    dist->block_bytes = cti_dist_block_bytes(dist);
    dist->own_squares = cti_take_zeroed(context, cti_bytes(dist->units, sizeof(double)));
    dist->block = dist->own_squares ? cti_take_zeroed(context, dist->block_bytes) : NULL;
    dist->peer_block = dist->block ? cti_take_zeroed(context, dist->block_bytes) : NULL;
    return dist->peer_block;
}

void cti_dist_layout_free(ct_dist *dist) {
    ct_context *context = dist->context;
    for (int64_t i = 0; dist->param && i < dist->params; i++) {
        ct_release(dist->param[i].work);
        ct_release(dist->param[i].range.param);
        ct_release(dist->param[i].range.grad);
    }
    for (int64_t i = 0; dist->bucket && i < dist->buckets; i++) {
        cti_dist_bucket *bucket = &dist->bucket[i];
        for (int k = 0; bucket->set && k < dist->levels; k++) ct_release(bucket->set[k]);
        cti_give_any(context, bucket->set, cti_bytes(dist->levels, sizeof(ct_tensor *)));
        cti_give_any(context, bucket->cut, cti_bytes(dist->ranks + 1, sizeof(int64_t)));
        ct_release(bucket->work);
        ct_release(bucket->scratch);
    }
    cti_give_any(context, dist->param, cti_bytes(dist->params, sizeof(cti_dist_param)));
    cti_give_any(context, dist->bucket, cti_bytes(dist->buckets, sizeof(cti_dist_bucket)));
    cti_give_any(context, dist->watched, cti_bytes(dist->params, sizeof *dist->watched));
    cti_give_any(context, dist->leaf, cti_bytes(dist->params, sizeof *dist->leaf));
    cti_give_any(context, dist->own_squares, cti_bytes(dist->units, sizeof(double)));
    cti_give_any(context, dist->block, dist->block_bytes);
    cti_give_any(context, dist->peer_block, dist->block_bytes);
}
