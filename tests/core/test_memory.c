/* The allocator: size classes, slabs, trimming, limits, and statistics. */
#include "src/core/asan.h"
#include "src/core/context.h"
#include "src/os/os.h"

#include "tests/support/one_context.h"

typedef struct {
    int64_t blocks, bytes, calls, limit;
} counter;

static void *count_alloc(void *data, size_t size) {
    counter *c = data;
    if (c->limit && c->calls >= c->limit) return NULL;
    c->calls++, c->blocks++, c->bytes += (int64_t)size;
    return malloc(size);
}

static void count_free(void *data, void *block, size_t size) {
    counter *c = data;
    c->blocks--, c->bytes -= (int64_t)size;
    free(block);
}

static void train(ct_context *c, int steps, int64_t calls[]) {
    ct_module *model = ct_mlp_new(c, (ct_mlp_opts){.dim = 16, .activation = CT_GELU});
    ct_optim *optim = ct_adamw_new(model, (ct_adamw_opts){.lr = 1e-3});
    ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(32, 16));
    for (int i = 0; i < steps; i++) {
        ct_scope scope = ct_scope_open(c);
        ct_optim_zero_grad(optim);
        ct_backward(ct_mse_loss(ct_forward(model, x), x));
        ct_clip_grad_norm(model, 1);
        ct_optim_step(optim);
        ct_scope_close(scope);
        ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
        calls[i] = ct_memory(c).allocator_calls;
    }
}

START_TEST(a_context_hands_every_byte_back) {
    for (int threads = 1; threads <= 3; threads += 2) {
        counter count = {0};
        ct_context *c = ct_context_new(
            (ct_context_opts){.threads = threads, .allocator = {count_alloc, count_free, &count}});
        int64_t calls[6];
        train(c, 6, calls);
        ct_scope_open(c);
        /* big enough for a block of its own; left open */
        ct_zeros(c, CT_F32, CT_SHAPE(1000, 1000));
        ct_fail(c, CT_ERR_IO, "still pending");
        ck_assert(count.blocks > 0);
        ct_context_free(c);
        ck_assert_int_eq(count.blocks, 0);
        ck_assert_int_eq(count.bytes, 0);
    }
}
END_TEST

START_TEST(training_stops_asking_the_allocator) {
    counter count = {0};
    ct_context *c = ct_context_new(
        (ct_context_opts){.threads = 2, .allocator = {count_alloc, count_free, &count}});
    int64_t calls[10];
    train(c, 10, calls);
    for (int i = 2; i < 10; i++)
        ck_assert_msg(calls[i] == calls[1], "step %d asked %d times", i + 1,
                      (int)(calls[i] - calls[i - 1]));
    ct_context_free(c);
}
END_TEST

START_TEST(statistics) {
    ct_memory_stats s = ct_memory(context);
    ct_scope scope = ct_scope_open(context);
    ct_zeros(context, CT_F32, CT_SHAPE(1 << 20));
    ct_memory_stats t = ct_memory(context);
    ck_assert(t.live - s.live >= 4 << 20 && t.live - s.live < 5 << 20);
    ck_assert(t.peak >= t.live && t.allocator_calls > s.allocator_calls);
    ct_scope_close(scope);
    t = ct_memory(context);
    ck_assert_int_eq(t.live, s.live);
    ck_assert(t.peak >= 4 << 20 && t.pooled >= 4 << 20);
    ct_memory_reset_peak(context);
    ck_assert_int_eq(ct_memory(context).peak, t.live);
    ct_memory_trim(context);
    ck_assert(ct_memory(context).pooled < 1 << 20);
    ck_assert(ct_item(ct_sum(ct_ones(context, CT_F32, CT_SHAPE(1 << 20)), CT_ALL, false)) ==
              1 << 20);
    ck_assert_int_eq(ct_memory(NULL).live, 0);
}
END_TEST

/* Blocks of 8 bytes to 3 MB, half of them released and taken again, before and after a trim: none
 * overlap, all are aligned, and in the end no memory is left. Most are cut from slabs; with a limit
 * or a caller's allocator each is requested by itself. */
static void write_ends(ct_tensor *x, int64_t n, int64_t value) {
    int64_t *at = ct_data_i64(x);
    at[0] = at[n / 2] = at[n - 1] = value;
}
static bool ends_are(ct_tensor *x, int64_t n, int64_t value) {
    const int64_t *at = ct_data_i64(x);
    return at[0] == value && at[n / 2] == value && at[n - 1] == value;
}

START_TEST(blocks_of_every_size) {
    enum { N = 96, SIZES = 18 };
    counter count = {0};
    const bool own = _i == 1, limited = _i == 2;
    ct_context_opts o = {.threads = 1, .memory_limit = limited ? 1 << 30 : 0};
    if (own) o.allocator = (ct_allocator){count_alloc, count_free, &count};
    ct_context *c = ct_context_new(o);
    const ct_memory_stats before = ct_memory(c);
    for (int round = 0; round < 3; round++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x[N];
        int64_t n[N], calls = ct_memory(c).allocator_calls, medium = 0;
        for (int i = 0; i < N; i++) {
            n[i] = (INT64_C(1) << i % SIZES) + i * 37 % (1 << i % SIZES) +
                   270000 * (i % SIZES == SIZES - 1);
            medium += n[i] * 8 > 4096 && n[i] * 8 <= 1 << 20;
        }
        for (int pass = 0; pass < 3; pass++) {
            for (int i = pass > 0; i < N; i += 1 + (pass > 0)) {
                x[i] = ct_empty(c, CT_I64, CT_SHAPE(n[i]));
                ck_assert(x[i] && (uintptr_t)ct_data_i64(x[i]) % 64 == 0);
                write_ends(x[i], n[i], i);
            }
            for (int i = 0; i < N; i++) ck_assert(ends_are(x[i], n[i], i));
            if (pass == 0 && round == 0) {
                const int64_t asked = ct_memory(c).allocator_calls - calls;
                ck_assert(own || limited ? asked > medium : asked < medium / 2);
            }
            for (int i = 1; i < N && pass < 2; i += 2) ct_release(x[i]);
            if (pass == 1) ct_memory_trim(c);
        }
        ct_scope_close(scope);
        ck_assert_int_eq(ct_memory(c).live, before.live);
        if (round < 2) ct_memory_trim(c);
        ck_assert(round == 2 || ct_memory(c).pooled <= before.pooled + (128 << 10));
    }
    ct_context_free(c);
    ck_assert(count.blocks == 0 && count.bytes == 0);
}
END_TEST

/* Small free blocks are taken and given back inline if the pool is plain, and by calls otherwise:
 * the statistics are the same, the small block given back last is taken first, and none overlap. */
START_TEST(small_blocks_inline_or_not) {
    enum { N = 64 };
    static const size_t sizes[] = {0,    1,    63,   64,   65,   512,  513,  1023, 1024, 1025,
                                   1088, 1152, 1153, 2047, 2048, 2049, 4095, 4096, 4097, 5000};
    ct_context *c[2] = {ct_context_new((ct_context_opts){.threads = 1}),
                        ct_context_new((ct_context_opts){.threads = 1})};
    c[1]->pool.plain = false;
    void *block[2][N] = {{0}};
    size_t size[N] = {0};
    uint64_t random = 1;
    for (int turn = 0; turn < 4000; turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int i = (int)(random >> 33) % N;
        for (int which = 0; which < 2; which++) {
            char *held = block[which][i];
            for (size_t at = 0; held && at < size[i]; at++) ck_assert_int_eq(held[at], (char)i);
            cti_give(c[which], held, held ? size[i] : 0);
            block[which][i] = NULL;
            if (held && size[i] <= 2048) { /* small with a sanitizer too */
                ck_assert_ptr_eq(cti_take(c[which], size[i]), held);
                cti_give(c[which], held, size[i]);
            }
        }
        size[i] = sizes[(random >> 40) % (sizeof sizes / sizeof *sizes)];
        for (int which = 0; which < 2 && turn % 3; which++) {
            ck_assert((block[which][i] = cti_take(c[which], size[i])) &&
                      (uintptr_t)block[which][i] % 64 == 0);
            memset(block[which][i], i, size[i]);
        }
        const ct_memory_stats a = ct_memory(c[0]), b = ct_memory(c[1]);
        ck_assert(a.live == b.live && a.peak == b.peak && a.pooled == b.pooled &&
                  a.allocator_calls == b.allocator_calls);
    }
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < N; i++) cti_give(c[which], block[which][i], size[i]);
        ck_assert_int_eq(ct_memory(c[which]).live, 0);
        ct_context_free(c[which]);
    }
}
END_TEST

/* The memory of large free blocks serves requests of any sizes, without a call of the allocator.
 * Not under a memory limit, where each block is by itself and serves its own class. */
START_TEST(large_blocks_divide_and_join) {
    enum { MB = 1 << 20 };
    for (int limited = 0; limited < 2; limited++) {
        ct_context *c =
            ct_context_new((ct_context_opts){.threads = 1, .memory_limit = limited ? 64 * MB : 0});
        char *large = cti_take(c, 24 * MB);
        memset(large, 1, 24 * MB);
        const int64_t live = ct_memory(c).live - 24 * MB;
        cti_give(c, large, 24 * MB);
        const int64_t calls = ct_memory(c).allocator_calls;
        static const int parts[] = {3, 8, 1, 5, 4};
        char *part[5];
        for (int i = 0; i < 5; i++) {
            part[i] = cti_take(c, (size_t)parts[i] * MB);
            memset(part[i], i, (size_t)parts[i] * MB);
        }
        ck_assert_int_eq(ct_memory(c).live - live, 21 * MB);
        ck_assert_int_eq(ct_memory(c).allocator_calls - calls, limited ? 5 : 0);
        ct_memory_trim(c);                          /* what is in use stays */
        static const int order[] = {1, 3, 0, 4, 2}; /* neighbours behind, in front, both, none */
        for (int k = 0; k < 5; k++) {
            const int i = order[k];
            ck_assert(part[i][0] == i && part[i][parts[i] * MB - 1] == i);
            cti_give(c, part[i], (size_t)parts[i] * MB);
        }
        char *again = cti_take(c, 24 * MB);
        memset(again, 2, 24 * MB);
        ck_assert(limited || again == large);
        cti_give(c, again, 24 * MB);
        ck_assert_int_eq(ct_memory(c).live, live);
        ct_memory_trim(c);
        ck_assert(ct_memory(c).pooled < MB);
        ct_context_free(c);
    }
}
END_TEST

/* ---- batches of many lengths ---- */

/* 0 if the system does not tell, or if a sanitizer has memory of its own for each byte. */
static int64_t resident(void) {
    long long pages = 0;
#if defined CTI_ASAN || defined __SANITIZE_THREAD__
    return 0;
#endif
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
    fclose(f);
    return pages * 4096;
}

typedef struct {
    ct_context *context;
    int64_t most;    /* the largest `live` */
    int64_t counted; /* how much more than `most` the context held, at most, in percent */
    void *kept[20];  /* blocks that stay, as gradients do */
    uint64_t random;
} mixture;

static uint64_t draw(mixture *m, uint64_t n) {
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (m->random >> 33) % n;
}

static void *take_written(mixture *m, size_t size) {
    void *block = cti_take(m->context, size);
    ck_assert_ptr_nonnull(block);
    memset(block, 1, size);
    const ct_memory_stats s = ct_memory(m->context);
    if (s.live > m->most) m->most = s.live;
    const int64_t percent = 100 * (s.live + s.pooled - (1 << 20)) / m->most;
    if (percent > m->counted) m->counted = percent;
    return block;
}

/* A step for a batch of so many tokens: blocks of sizes that are multiples of it, given back in the
 * reverse order while blocks of other sizes are taken, and some that stay from the first step on.
 */
static void run_step(mixture *m, size_t tokens) {
    enum { N = 40 };
    void *saved[N];
    size_t size[N];
    for (int i = 0; i < N; i++) {
        size[i] = tokens * (size_t)(i * 37 % 13 + 1) * (i % 10 ? 256 : 2048);
        saved[i] = take_written(m, size[i]);
    }
    for (int i = N - 1; i >= 0; i--) {
        const size_t other = size[i] / 3 + 8 * draw(m, 100);
        void *a = take_written(m, other), *b = take_written(m, size[i] + 64);
        if (i % 2 && !m->kept[i / 2]) m->kept[i / 2] = take_written(m, (size_t)(i + 1) * 5000);
        cti_give(m->context, saved[i], size[i]);
        cti_give(m->context, a, other);
        cti_give(m->context, b, size[i] + 64);
    }
}

/* Whether the system takes back the pages of memory that stays allocated. */
static bool can_discard(void) {
    enum { SIZE = 1 << 20 };
    void *block = cti_os_alloc(SIZE);
    ck_assert_ptr_nonnull(block);
    const bool can = cti_os_discard(block, SIZE);
    cti_os_free(block);
    return can;
}

/* The lengths grow, shrink, vary, and one is huge among small ones. At every moment the context
 * holds at most a fifth more than was in use at most, and 1 MiB; the allocator's and the system's
 * counts confirm it. If the system takes no pages back, free chunks of regions that are in use
 * stay, and the limit is a third more instead of a fifth. Equal lengths call the allocator in the
 * first steps only. */
START_TEST(any_mixture_of_lengths) {
    enum { STEPS = 14, EQUAL = 6 };
    counter count = {0};
    ct_context_opts o = {.threads = 1, .memory_limit = _i == 1 ? 1 << 30 : 0};
    if (_i == 2) o.allocator = (ct_allocator){count_alloc, count_free, &count};
    const int64_t before = resident();
    mixture m = {.context = ct_context_new(o), .random = 5};
    int64_t peak_resident = 0, counted = 0;
    for (size_t i = 0; i < 5 * STEPS; i++) {
        const size_t at = i % STEPS, turn = i / STEPS;
        size_t tokens = 16 + draw(&m, 113);
        if (turn == 0) tokens = 16 + 6 * at;
        else if (turn == 1) tokens = 100 - 6 * at;
        else if (turn == 2) tokens = at == STEPS / 2 ? 160 : 16 + draw(&m, 8);
        run_step(&m, tokens);
        const int64_t now = resident() - before;
        if (now > peak_resident) peak_resident = now;
        if (count.bytes > counted) counted = count.bytes;
    }
    ck_assert_msg(m.counted <= (_i || can_discard() ? 120 : 133),
                  "the context held %lld %% of the memory in use at most", (long long)m.counted);
    ck_assert_int_le(counted, m.most + m.most / 5 + (2 << 20));
    int64_t calls = 0;
    for (int i = 0; i < EQUAL; i++) {
        if (i == 2) calls = ct_memory(m.context).allocator_calls;
        m.random = 7;
        run_step(&m, 90);
    }
    ck_assert_int_eq(ct_memory(m.context).allocator_calls, calls);
    ck_assert_msg(peak_resident <= m.most + m.most * 35 / 100 + (8 << 20),
                  "%lld bytes are resident and %lld were in use", (long long)peak_resident,
                  (long long)m.most);
    for (int i = 0; i < 20; i++) cti_give(m.context, m.kept[i], (size_t)(2 * i + 2) * 5000);
    ct_context_free(m.context);
    ck_assert_int_eq(count.bytes, 0);
}
END_TEST

#if defined CTI_ASAN
/* The byte after a tensor of more than 2 KiB is poisoned, even if the size class rounds up and the
 * next block is in use. */
START_TEST(address_sanitizer_sees_the_end) {
    for (int64_t base = 2048; base <= 2 << 20; base *= 2) {
        for (int64_t size = base; size <= 2 * base; size += base / 64 / 64 * 64 + 64) {
            char *data[3];
            for (int i = 0; i < 3; i++)
                data[i] = (char *)ct_data_i64(ct_empty(context, CT_I64, CT_SHAPE(size / 8)));
            for (int i = 0; i < 3; i++) {
                ck_assert(!__asan_address_is_poisoned(data[i]) &&
                          !__asan_address_is_poisoned(data[i] + size - 1));
                ck_assert_msg(__asan_address_is_poisoned(data[i] + size), "%lld bytes, number %d",
                              (long long)size, i);
            }
        }
    }
}
END_TEST
#endif

/* Blocks are freed in another order than they were taken: a slab is returned exactly when all its
 * blocks are free. A refused request trims first, so many refusals with many free blocks must not
 * be slow. */
START_TEST(trimming) {
    enum { SMALL_BLOCKS = 40000, LARGE = 5000 };
    static ct_tensor *small[SMALL_BLOCKS], *large[LARGE];
    ct_context *c =
        ct_context_new((ct_context_opts){.threads = 1, .memory_limit = INT64_C(1) << 30});
    const int64_t live_before = ct_memory(c).live;
    for (int i = 0; i < SMALL_BLOCKS; i++) small[i] = ct_ones(c, CT_F32, CT_SHAPE(1 + i % 400));
    for (int i = 0; i < LARGE; i++) large[i] = ct_full(c, CT_F32, CT_SHAPE(2000 + i % 5), i);
    for (int i = 0; i < SMALL_BLOCKS; i++)
        if (i % 1000 != 7)
            ct_release(small[(int64_t)i * 7919 % SMALL_BLOCKS]),
                small[(int64_t)i * 7919 % SMALL_BLOCKS] = NULL;
    for (int i = 0; i < 30; i++) {
        ck_assert(!ct_empty(c, CT_BOOL, CT_SHAPE(INT64_C(1) << 40)));
        ct_error_clear(c);
    }
    for (int i = 0; i < LARGE; i++) ck_assert(ct_data_f32(large[i])[1999] == (float)i);
    for (int i = 0; i < SMALL_BLOCKS; i++)
        ck_assert(!small[i] || ct_data_f32(small[i])[i % 400] == 1);
    for (int i = 0; i < LARGE; i++) ct_release(large[i]);
    for (int i = 0; i < SMALL_BLOCKS; i++) ct_release(small[i]);
    ck_assert_int_eq(ct_memory(c).live, live_before);
    ct_memory_trim(c);
    ck_assert_int_eq(ct_memory(c).pooled, 0);
    ck_assert(ct_item(ct_ones(c, CT_F64, CT_SCALAR)) == 1);
    ct_context_free(c);
}
END_TEST

START_TEST(a_memory_limit) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 1 << 20});
    ct_tensor *x = ct_ones(c, CT_F32, CT_SHAPE(100, 1000));
    ck_assert_ptr_nonnull(x);
    ck_assert_ptr_null(ct_zeros(c, CT_F32, CT_SHAPE(1000, 1000)));
    expect_in(c, CT_ERR_MEMORY, "zeros", "limit");
    ck_assert_ptr_null(ct_matmul(ct_reshape(x, CT_SHAPE(1000, 100)), x));
    expect_in(c, CT_ERR_MEMORY, "matmul", "limit");
    ck_assert(ct_item(ct_sum(x, CT_ALL, false)) == 100000);
    for (int i = 0; i < 50; i++) { /* released memory does not count */
        ct_scope scope = ct_scope_open(c);
        ck_assert_ptr_nonnull(ct_zeros(c, CT_F32, CT_SHAPE(100, 400 + i)));
        ct_scope_close(scope);
    }
    int64_t huge = (int64_t)(PTRDIFF_MAX / 8) + 1; /* does not overflow, but exceeds any machine */
    ck_assert_ptr_null(ct_empty(c, CT_BOOL, CT_SHAPE(huge)));
    expect_in(c, CT_ERR_MEMORY, "empty", "limit");
    ck_assert_ptr_null(ct_contiguous(ct_expand(ct_ones(c, CT_BOOL, CT_SHAPE(1)), CT_SHAPE(huge))));
    expect_in(c, CT_ERR_MEMORY, "contiguous", "limit");
    ck_assert_int_eq(ct_error(c), CT_OK);
    ct_context_free(c);
    c = ct_context_new((ct_context_opts){.memory_limit = -1});
    expect_in(c, CT_ERR_ARGUMENT, "limit", "-1");
    ct_context_free(c);
}
END_TEST

/* Requests of a little more than 2^32 bytes, a number that is small when it is cut to 32 bits. They
 * are refused, by the memory limit or because the size overflows. */
START_TEST(sizes_beyond_32_bits) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 32 << 20});
    enum { ROWS = 1 << 16, COLS = (1 << 14) + 1 }; /* a matrix of f32 has 2^32 + 2^18 bytes */
    ct_tensor *one = ct_ones(c, CT_F32, CT_SHAPE(1)), *rows = ct_ones(c, CT_F32, CT_SHAPE(ROWS, 1)),
              *cols = ct_ones(c, CT_F32, CT_SHAPE(1, COLS)),
              *ids = ct_zeros(c, CT_I64, CT_SHAPE(ROWS));
    const int64_t live = ct_memory(c).live;
    for (int call = 0; call < 12; call++) {
        ct_tensor *x = NULL;
        ct_scope scope = ct_scope_open(c);
        switch (call) {
        case 0: x = ct_empty(c, CT_F32, CT_SHAPE(ROWS, COLS)); break;
        case 1: x = ct_zeros(c, CT_F64, CT_SHAPE((INT64_C(1) << 29) + 1)); break;
        case 2: x = ct_zeros(c, CT_BOOL, CT_SHAPE((INT64_C(1) << 32) + 1)); break;
        case 3: x = ct_contiguous(ct_expand(one, CT_SHAPE(ROWS, COLS))); break;
        case 4: x = ct_add(rows, cols); break;
        case 5: x = ct_matmul(rows, cols); break;
        case 6: x = ct_one_hot(ids, COLS, CT_F32); break;
        case 7: x = ct_causal_mask(c, ROWS, ROWS + 1); break;
        case 8: x = ct_arange(c, CT_I64, 0, (1 << 29) + 1, 1); break;
        case 9: x = ct_full(c, CT_I64, CT_SHAPE(2, (1 << 28) + 1), 7); break;
        case 10: x = ct_embedding(ids, ct_expand(one, CT_SHAPE(1, COLS))); break;
        default: x = ct_linspace(c, CT_F64, 0, 1, (1 << 29) + 1); break;
        }
        ck_assert_msg(!x && ct_error(c) == CT_ERR_MEMORY, "call %d: %s", call, ct_error_message(c));
        ct_error_clear(c);
        ct_scope_close(scope);
        ck_assert_int_eq(ct_memory(c).live, live);
    }
    ct_context_free(c);
}
END_TEST

START_TEST(an_allocator_with_nothing) {
    counter count = {.limit = 1, .calls = 1};
    ck_assert_ptr_null(
        ct_context_new((ct_context_opts){.allocator = {count_alloc, count_free, &count}}));
    ck_assert_int_eq(ct_error(NULL), CT_ERR_MEMORY);
    ck_assert(*ct_error_message(NULL));
    ct_context *c =
        ct_context_new((ct_context_opts){.allocator = {.alloc = count_alloc, .data = &count}});
    if (c) expect_in(c, CT_ERR_ARGUMENT, "alloc", "free");
    ct_context_free(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_context_hands_every_byte_back);
    tcase_add_test(tcase, training_stops_asking_the_allocator);
    tcase_add_test(tcase, statistics);
    tcase_add_loop_test(tcase, blocks_of_every_size, 0, 3);
    tcase_add_test(tcase, small_blocks_inline_or_not);
    tcase_add_test(tcase, large_blocks_divide_and_join);
    tcase_add_loop_test(tcase, any_mixture_of_lengths, 0, 3);
#if defined CTI_ASAN
    tcase_add_test(tcase, address_sanitizer_sees_the_end);
#endif
    tcase_add_test(tcase, trimming);
    tcase_add_test(tcase, a_memory_limit);
    tcase_add_test(tcase, sizes_beyond_32_bits);
    tcase_add_test(tcase, an_allocator_with_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
