/* kv_cache: memory for the keys and values of max_length positions, filled in place, and for the
 * extra keys of add_bias_kv and add_zero_attn, which lie behind the last position and are
 * overwritten by the next position. In cross-attention the first call fills the cache and later
 * calls only read it. Freeing a module sets the mha of its caches to NULL; the caller still owns
 * the caches. A cache of no module (ct_kv_cache_new_of) is filled by ct_kv_cache_append. */
#include "mha.h"

/* ---- making and freeing ---- */

static ct_tensor *buffer_new(ct_context *context, ct_dtype dtype, ct_shape shape) {
    ct_tensor *tensor = ct_zeros(context, dtype, shape);
    if (tensor) cti_tensor_disown(tensor);
    return tensor;
}

/* The bytes of the three arrays of lengths: rows, after and marked. */
static size_t rows_bytes(int64_t batch) {
    return cti_bytes(batch > 0 ? batch : 1, 3 * sizeof(int64_t));
}

/* Makes a cache of no module, for max_length positions, with buffers of this shape. */
static ct_kv_cache *cache_new(ct_context *context, const char *function, ct_dtype dtype,
                              ct_shape shape, int64_t max_length) {
    const int64_t batch = shape.dim[0];
    if (batch < 0 || max_length < 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: a batch of %" PRId64 " and a length of %" PRId64, function, batch,
                       max_length);
    ct_kv_cache *cache = cti_object_new(context, sizeof *cache, "cache");
    if (!cache) return NULL;
    cache->batch = batch;
    cache->max_length = max_length;
    cache->k = buffer_new(context, dtype, shape);
    cache->v = buffer_new(context, dtype, shape);
    if (cache->k && cache->v) cache->rows = cti_take_zeroed(context, rows_bytes(batch));
    if (cache->rows) {
        cache->after = cache->rows + batch, cache->marked = cache->after + batch;
        return cache;
    }
    ct_kv_cache_free(cache);
    return NULL;
}

ct_kv_cache *ct_kv_cache_new_of(ct_context *context, ct_dtype dtype, int64_t batch,
                                int64_t kv_heads, int64_t max_length, int64_t head_dim) {
    static const char name[] = "ct_kv_cache_new_of";
    if (!cti_ready(context) || !cti_dtype_check(context, name, dtype)) return NULL;
    if (!cti_is_real(dtype))
        return ct_fail(context, CT_ERR_DTYPE, "%s: takes f32 or f64, not %s", name,
                       cti_dtype_name(dtype));
    if (kv_heads < 1 || head_dim < 1)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: kv_heads %" PRId64 " and head_dim %" PRId64 " must be at least 1", name,
                       kv_heads, head_dim);
    return cache_new(context, name, dtype, CT_SHAPE(batch, kv_heads, max_length, head_dim),
                     max_length);
}

/* Runs when the module is freed. The cache is not freed, because the caller owns it. */
static void cache_let_go(cti_hook *self) { ((ct_kv_cache *)self)->mha = NULL; }

/* Makes a cache of the module; dtype is the module's or, if `halved` and the module is of f32,
 * bf16. */
static ct_kv_cache *cache_of(ct_module *mha, bool halved, int64_t batch, int64_t max_length) {
    ct_context *context = mha->context;
    const ct_mha_opts *o = cti_nn_data(mha);
    const ct_dtype dtype = halved && o->dtype == CT_F32 ? CT_BF16 : o->dtype;
    int64_t rows = 0;
    if (__builtin_add_overflow(max_length, cti_nn_mha_extra_keys(o), &rows))
        return ct_fail(context, CT_ERR_MEMORY, "ct_kv_cache_new: a length of %" PRId64 " overflows",
                       max_length);
    ct_kv_cache *cache = cache_new(context, "ct_kv_cache_new", dtype,
                                   CT_SHAPE(batch, o->num_kv_heads, rows, o->head_dim), max_length);
    if (!cache) return NULL;
    cache->mha = mha;
    cti_hook_add(&mha->hooks, &cache->object.hook, cache_let_go);
    return cache;
}

ct_kv_cache *ct_kv_cache_new(ct_module *mha, int64_t batch, int64_t max_length) {
    return cti_nn_mha_is_ready(mha, "ct_kv_cache_new", NULL)
               ? cache_of(mha, false, batch, max_length)
               : NULL;
}

void ct_kv_cache_free(ct_kv_cache *cache) {
    if (!cache || cache->object.self != &cache->object) return;
    ct_kv_cache_free(cache->memory);
    if (cache->k) cti_tensor_end(cache->k);
    if (cache->v) cti_tensor_end(cache->v);
    if (cache->rows) cti_give(cache->context, cache->rows, rows_bytes(cache->batch));
    cti_object_end(&cache->object, "of keys and values");
}

ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory,
                                    bool anew) {
    if (anew || (self->memory && self->memory->mha != cross)) {
        ct_kv_cache_free(self->memory);
        self->memory = NULL;
    }
    if (!self->memory)
        self->memory =
            cache_of(cross, self->k->dtype == CT_BF16, memory->shape.dim[0], memory->shape.dim[1]);
    return self->memory;
}

/* ---- bf16 ---- */

/* Returns a buffer of the cache as bf16. An empty cache is not read, so that memory that no
 * position has reached stays untouched. */
static ct_tensor *rounded_buffer(const ct_kv_cache *cache, ct_tensor *buffer) {
    return cache->length ? ct_cast(buffer, CT_BF16)
                         : ct_zeros(cache->context, CT_BF16, buffer->shape);
}

/* Exchanges the storages of the buffers, after all copies have been made. A view of a buffer keeps
 * the old storage. */
static bool exchange_buffers(ct_kv_cache *const *caches, int n) {
    ct_tensor *copies[4];
    for (int i = 0; i < n; i++) {
        copies[2 * i] = rounded_buffer(caches[i], caches[i]->k);
        copies[2 * i + 1] = rounded_buffer(caches[i], caches[i]->v);
        if (!copies[2 * i] || !copies[2 * i + 1]) return false;
    }
    for (int i = 0; i < n; i++) {
        cti_tensor_exchange(caches[i]->k, copies[2 * i]);
        cti_tensor_exchange(caches[i]->v, copies[2 * i + 1]);
        CTI_ASSERT(cti_nn_cache_is_sound(caches[i]));
    }
    return true;
}

bool ct_kv_cache_to_bf16(ct_kv_cache *cache) {
    static const char name[] = "ct_kv_cache_to_bf16";
    if (!cti_object_is_ready(cache ? &cache->object : NULL, name, "cache", NULL)) return false;
    if (cache->k->dtype == CT_BF16) return true;
    if (cache->k->dtype != CT_F32)
        return ct_fail(cache->context, CT_ERR_DTYPE, "%s: the cache is %s; bf16 stands for f32",
                       name, cti_dtype_name(cache->k->dtype));
    ct_kv_cache *const both[] = {cache, cache->memory};
    const bool with_memory = cache->memory && cache->memory->k->dtype == CT_F32;
    const ct_scope scope = ct_scope_open_no_grad(cache->context);
    const bool done = exchange_buffers(both, with_memory ? 2 : 1);
    ct_scope_close(scope);
    return done;
}

/* ---- length ---- */

int64_t ct_kv_cache_length(const ct_kv_cache *cache) {
    return cache && cti_object_is_open(&cache->object, "ct_kv_cache_length") ? cache->length : 0;
}

bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length) {
    if (!cti_object_is_ready(cache ? &cache->object : NULL, "ct_kv_cache_truncate", "cache", NULL))
        return false;
    if (length < 0 || length > cache->length)
        return ct_fail(cache->context, CT_ERR_ARGUMENT,
                       "ct_kv_cache_truncate: a length of %" PRId64 " from one of %" PRId64, length,
                       cache->length);
    for (int64_t b = 0; b < cache->batch; b++) cache->rows[b] = cti_min(cache->rows[b], length);
    cache->length = length;
    CTI_ASSERT(cti_nn_cache_is_sound(cache));
    return true;
}

/* Returns whether a function may read or write one number for each row of the cache. */
static bool rows_are_given(const ct_kv_cache *cache, const char *function, const int64_t *numbers) {
    if (!cti_object_is_ready(cache ? &cache->object : NULL, function, "cache", NULL)) return false;
    if (numbers || cache->batch == 0) return true;
    return ct_fail(cache->context, CT_ERR_ARGUMENT, "%s: the array of %" PRId64 " numbers is NULL",
                   function, cache->batch);
}

bool ct_kv_cache_lengths(const ct_kv_cache *cache, int64_t *lengths) {
    if (!rows_are_given(cache, "ct_kv_cache_lengths", lengths)) return false;
    for (int64_t b = 0; b < cache->batch; b++) lengths[b] = cache->rows[b];
    return true;
}

bool ct_kv_cache_set_lengths(ct_kv_cache *cache, const int64_t *lengths) {
    static const char name[] = "ct_kv_cache_set_lengths";
    if (!rows_are_given(cache, name, lengths)) return false;
    const bool extra = cache->mha && cti_nn_mha_extra_keys(cti_nn_data(cache->mha));
    for (int64_t b = 0; b < cache->batch; b++) {
        if (lengths[b] < 0 || lengths[b] > cache->rows[b])
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "%s: row %" PRId64 ": a length of %" PRId64 " from one of %" PRId64,
                           name, b, lengths[b], cache->rows[b]);
        if (extra && lengths[b] != lengths[0])
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "%s: rows 0 and %" PRId64 " get lengths %" PRId64 " and %" PRId64
                           ", but add_bias_kv and add_zero_attn need one length",
                           name, b, lengths[0], lengths[b]);
    }
    for (int64_t b = 0; b < cache->batch; b++) cache->rows[b] = lengths[b];
    cache->length = cti_nn_longest(cache->rows, cache->batch);
    return true;
}

/* ---- rows ---- */

/* The filled positions of a buffer of the cache, and its extra keys. */
static ct_tensor *cache_filled(const ct_kv_cache *cache, ct_tensor *buffer) {
    const int64_t extra = cache->mha ? cti_nn_mha_extra_keys(cti_nn_data(cache->mha)) : 0;
    return ct_narrow(buffer, 2, 0, cache->length + extra);
}

/* Sets *to to the filled positions of a buffer, and *from to a copy of these with its rows in the
 * order of index. */
static bool buffer_select(const ct_kv_cache *cache, ct_tensor *buffer, ct_tensor *index,
                          ct_tensor **to, ct_tensor **from) {
    *to = cache_filled(cache, buffer);
    *from = ct_index_select(*to, 0, index);
    return *from;
}

/* Moves the rows of the caches, which have one batch. All copies are made first: if there is no
 * memory for one of them, nothing has changed. */
static bool caches_select_rows(ct_kv_cache *const *caches, int n, ct_tensor *index) {
    ct_tensor *from[4], *to[4];
    for (int i = 0; i < n; i++) {
        const int j = 2 * i;
        if (!buffer_select(caches[i], caches[i]->k, index, &to[j], &from[j]) ||
            !buffer_select(caches[i], caches[i]->v, index, &to[j + 1], &from[j + 1]))
            return false;
    }
    for (int j = 0; j < 2 * n; j++)
        if (!ct_copy_into(to[j], from[j])) return false;
    return true;
}

static void lengths_select(ct_kv_cache *cache, const int64_t *rows) {
    for (int64_t b = 0; b < cache->batch; b++) cache->after[b] = cache->rows[rows[b]];
    for (int64_t b = 0; b < cache->batch; b++) cache->rows[b] = cache->after[b];
    cache->length = cti_nn_longest(cache->rows, cache->batch);
    CTI_ASSERT(cti_nn_cache_is_sound(cache));
}

bool ct_kv_cache_select(ct_kv_cache *cache, const int64_t *rows) {
    static const char name[] = "ct_kv_cache_select";
    if (!rows_are_given(cache, name, rows)) return false;
    for (int64_t b = 0; b < cache->batch; b++)
        if (rows[b] < 0 || rows[b] >= cache->batch)
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "%s: row %" PRId64 " is to be row %" PRId64 " of %" PRId64, name, b,
                           rows[b], cache->batch);
    ct_kv_cache *const both[] = {cache, cache->memory};
    const int n = cache->memory ? 2 : 1;
    const ct_scope scope = ct_scope_open_no_grad(cache->context);
    const bool done =
        caches_select_rows(both, n, ct_from_i64(cache->context, CT_SHAPE(cache->batch), rows));
    ct_scope_close(scope);
    for (int i = 0; done && i < n; i++) lengths_select(both[i], rows);
    return done;
}

/* ---- room ---- */

/* Returns a larger buffer with the filled positions of one of the cache's. */
static ct_tensor *larger_buffer(const ct_kv_cache *cache, ct_tensor *buffer, int64_t more) {
    ct_shape shape = buffer->shape;
    if (__builtin_add_overflow(shape.dim[2], more, &shape.dim[2]))
        return ct_fail(cache->context, CT_ERR_MEMORY, "a cache's length overflows");
    ct_tensor *larger = buffer_new(cache->context, buffer->dtype, shape);
    if (!larger) return NULL;
    const ct_scope scope = ct_scope_open_no_grad(cache->context);
    ct_tensor *filled = cache_filled(cache, buffer);
    const bool copied =
        filled && ct_copy_into(ct_narrow(larger, 2, 0, filled->shape.dim[2]), filled);
    ct_scope_close(scope);
    if (copied) return larger;
    cti_tensor_end(larger);
    return NULL;
}

bool cti_nn_cache_reserve(ct_kv_cache *cache, int64_t max_length) {
    if (max_length <= cache->max_length) return true;
    const int64_t more = max_length - cache->max_length;
    ct_tensor *k = larger_buffer(cache, cache->k, more);
    ct_tensor *v = k ? larger_buffer(cache, cache->v, more) : NULL;
    if (!v) {
        if (k) cti_tensor_end(k);
        return false;
    }
    cti_tensor_end(cache->k);
    cti_tensor_end(cache->v);
    cache->k = k, cache->v = v;
    cache->max_length = max_length;
    CTI_ASSERT(cti_nn_cache_is_sound(cache));
    return true;
}

/* ---- use by attention of one's own ---- */

static const char append_name[] = "ct_kv_cache_append";

/* Returns whether x, the keys or the values, is (B, H_kv, T, d) of the dtype that the cache takes.
 * If not, records an error. */
static bool cache_fits(const ct_kv_cache *cache, const ct_tensor *x, const char *role) {
    ct_context *context = cache->context;
    const ct_tensor *all = cache->k;
    const int64_t *want = all->shape.dim;
    if (!x) return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", append_name, role);
    if (!cti_tensor_in(x, context, append_name) || !cti_tensor_has_values(x, append_name) ||
        !cti_tensor_no_blocks(x, append_name))
        return false;
    const int64_t *got = x->shape.dim;
    if (x->shape.ndim != 4 || got[0] != want[0] || got[1] != want[1] || got[3] != want[3])
        return ct_fail(context, CT_ERR_SHAPE,
                       "%s: expected %s (%" PRId64 ", %" PRId64 ", T, %" PRId64 "), got %s",
                       append_name, role, want[0], want[1], want[3], SHAPE(x->shape));
    const ct_dtype dtype = cti_dtype_computed(all->dtype);
    if (x->dtype != dtype)
        return ct_fail(context, CT_ERR_DTYPE, "%s: %s is %s and the cache %s%s; ct_cast converts",
                       append_name, role, cti_dtype_name(x->dtype), cti_dtype_name(all->dtype),
                       dtype != all->dtype ? ", which takes f32" : "");
    return true;
}

static bool can_append(const ct_kv_cache *cache, const ct_tensor *k, const ct_tensor *v) {
    ct_context *context = cache->context;
    if (!cache_fits(cache, k, "key") || !cache_fits(cache, v, "value")) return false;
    if (!cti_shape_equal(k->shape, v->shape))
        return ct_fail(context, CT_ERR_SHAPE, "%s: key %s with value %s", append_name,
                       SHAPE(k->shape), SHAPE(v->shape));
    if (k->shape.dim[2] > cache->max_length - cache->length)
        return ct_fail(context, CT_ERR_SHAPE,
                       "%s: the cache has room for %" PRId64 " positions and holds %" PRId64
                       "; %" PRId64 " more do not fit",
                       append_name, cache->max_length, cache->length, k->shape.dim[2]);
    if (cache->mha && cti_nn_mha_extra_keys(cti_nn_data(cache->mha)))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: the cache ends with the keys of add_bias_kv or add_zero_attn, which "
                       "only its module can move",
                       append_name);
    if (v->storage == cache->k->storage) /* keys are written first */
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: value is a view of the cache's keys",
                       append_name);
    return true;
}

bool ct_kv_cache_append(ct_kv_cache *cache, ct_tensor **k, ct_tensor **v) {
    ct_tensor *all_k = k ? *k : NULL, *all_v = v ? *v : NULL;
    if (!cti_object_is_ready(cache ? &cache->object : NULL, append_name, "cache",
                             ct_context_of(all_k ? all_k : all_v)) ||
        !can_append(cache, all_k, all_v))
        return false;
    const int64_t t = all_k->shape.dim[2];
    if (!cti_nn_cache_plan(cache, true, t, NULL)) return false;
    cti_frame frame;
    cti_frame_open(cache->context, &frame, true);
    const bool done = cti_nn_cache_extend(cache, cache->length, t, &all_k, &all_v);
    if (done) {
        cti_tensor_lift(all_k, frame.outer);
        cti_tensor_lift(all_v, frame.outer);
        *k = all_k, *v = all_v;
        if (!cache->length) { /* a new sequence has another memory, as in a decoder layer */
            ct_kv_cache_free(cache->memory);
            cache->memory = NULL;
        }
        cti_nn_cache_grow(cache);
    }
    cti_frame_close(cache->context, &frame);
    return done;
}
