/* Which strided layouts have an address for each element, against counting; and copy_into and
 * lerp_into of all that have, between elements of others. */
#include "tests/support/one_context.h"

#include <math.h>

#include "src/core/distinct.h"

static uint64_t state;
static int64_t below(int64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static int64_t numel_of(ct_shape shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    return n;
}

static int64_t offset_of(ct_shape shape, const int64_t *stride, int64_t i) {
    int64_t offset = 0;
    for (int d = shape.ndim - 1; d >= 0; i /= shape.dim[d--])
        offset += i % shape.dim[d] * stride[d];
    return offset;
}

/* Offsets are in [-MIDDLE, MIDDLE). */
enum { MIDDLE = 1 << 20 };
static unsigned char count[2 * MIDDLE];

/* How many elements have an offset that an earlier one has. */
static int64_t shared(ct_shape shape, const int64_t *stride) {
    const int64_t n = numel_of(shape);
    int64_t twice = 0;
    for (int64_t i = 0; i < n; i++) twice += count[MIDDLE + offset_of(shape, stride, i)]++ > 0;
    for (int64_t i = 0; i < n; i++) count[MIDDLE + offset_of(shape, stride, i)] = 0;
    return twice;
}

/* Up to `most` elements. Strides are any, or almost the strides of merged dims. */
static ct_shape random_layout(int64_t most, int64_t *stride) {
    ct_shape shape = {.ndim = (int)below(CT_MAX_DIMS + 1)};
    const int64_t size = 2 + below(6), far = 3 + below(100);
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = 1 + below(size);
        if (n * shape.dim[d] > most) shape.dim[d] = 1;
        n *= shape.dim[d];
        stride[d] = below(2 * far + 1) - far;
        if (d && below(3) == 0) stride[d] = stride[d - 1] * shape.dim[d - 1] + below(3);
        if (stride[d] > 50000 || stride[d] < -50000) stride[d] = 7;
    }
    return shape;
}

START_TEST(as_counted) {
    state = 1;
    int64_t distinct = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t stride[CT_MAX_DIMS];
        const ct_shape shape = random_layout(600, stride);
        const bool want = shared(shape, stride) == 0;
        distinct += want;
        ck_assert_msg(cti_offsets_are_distinct(&shape, stride) == want, "layout %d is %d", i, want);
    }
    ck_assert(distinct > 30000 && distinct < 90000);
}
END_TEST

/* Layouts that are too large to count: their answers are known by arithmetic. */
START_TEST(large) {
    const struct {
        ct_shape shape;
        int64_t stride[3];
        bool distinct;
    } rows[] = {
        /* two steps without a common divisor: equal from as many elements on as the other is */
        {CT_SHAPE(1000000, 999983), {999983, 1000003}, true},
        {CT_SHAPE(1000003, 999983), {999983, -1000003}, true},
        {CT_SHAPE(1000004, 999984), {999983, 1000003}, false},
        {CT_SHAPE(1000004, 999983), {999983, 1000003}, true},
        /* 3 steps: 2^40 = 2^20 2^20 */
        {CT_SHAPE(2, 1 << 20, 1 << 20), {1ll << 40, 1 << 20, 1}, true},
        {CT_SHAPE(2, 1 << 20, (1 << 20) + 1), {1ll << 40, 1 << 20, 1}, false},
        {CT_SHAPE(2, 3, 1 << 20), {1ll << 40, (1ll << 40) - (1 << 20), 1}, true},
        {CT_SHAPE(2, 3, (1 << 20) + 1), {1ll << 40, (1ll << 40) - (1 << 20), 1}, false},
        /* more elements than offsets */
        {CT_SHAPE(1 << 20, 1 << 20, 1 << 20), {2, 3, 5}, false},
        /* no memory reaches so far: refused */
        {CT_SHAPE(1 << 30, 1 << 30), {1ll << 40, 1}, false},
        {CT_SHAPE(7, 0, 3), {0, 0, 0}, true},
        {CT_SHAPE(1, 1, 1), {0, 0, 0}, true},
        {CT_SCALAR, {0}, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(cti_offsets_are_distinct(&rows[i].shape, rows[i].stride) == rows[i].distinct,
                      "row %zu", i);
}
END_TEST

/* A copy and a lerp write these elements and none between them; else they are an error. */
START_TEST(written) {
    enum { REACH = 1 << 19 };
    static float memory[2 * REACH];
    state = 7;
    for (int i = 0; i < 1500; i++) {
        int64_t stride[CT_MAX_DIMS];
        const ct_shape shape = random_layout(300, stride);
        const int64_t n = numel_of(shape);
        ct_scope scope = ct_scope_open(context);
        ct_tensor *to = ct_wrap(context, CT_F32, shape, stride, memory + REACH),
                  *from = ct_rand(context, CT_F32, shape);
        const float *values = ct_data_f32(from);
        const bool lerps = below(2),
                   done = lerps ? ct_lerp_into(to, from, 0.25) : ct_copy_into(to, from);
        if (shared(shape, stride)) {
            ck_assert(!done);
            expect(CT_ERR_ARGUMENT, "share memory", "");
            ct_scope_close(scope);
            continue;
        }
        ck_assert_msg(done, "layout %d: %s", i, ct_error_message(context));
        double sum = 0, want = 0;
        for (int64_t e = 0; e < n; e++) {
            float *at = &memory[REACH + offset_of(shape, stride, e)];
            ck_assert_msg(*at == (lerps ? values[e] / 4 : values[e]), "layout %d", i);
            want += *at;
        }
        for (int64_t e = 0; e < 2 * REACH && i % 50 == 0; e++) sum += fabs(memory[e]);
        ck_assert(i % 50 != 0 || fabs(sum - want) < 1e-9); /* the rest is 0 */
        for (int64_t e = 0; e < n; e++) memory[REACH + offset_of(shape, stride, e)] = 0;
        ct_scope_close(scope);
    }
    no_error();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("distinct");
    TCase *tcase = tcase_create("distinct");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, as_counted);
    tcase_add_test(tcase, large);
    tcase_add_test(tcase, written);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
