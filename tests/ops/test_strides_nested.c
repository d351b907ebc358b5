/* Which strided layouts ct_copy_into may write: those whose strides are nested (ops/update/into.c).
 * The tests count the addresses of such a layout, and each element must have one of its own. Then
 * copy_into and lerp_into write it among elements of other tensors. */
#include "tests/support/one_context.h"

#include <math.h>

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

/* The number of elements whose offset an earlier element has too. */
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

static int64_t step_of(int64_t stride) { return stride < 0 ? -stride : stride; }

/* By sorting: each stride is larger than the sum that the smaller ones reach. */
static bool is_nested(ct_shape shape, const int64_t *stride) {
    int64_t step[CT_MAX_DIMS], size[CT_MAX_DIMS], reach = 0;
    int n = 0;
    for (int d = 0; d < shape.ndim; d++) {
        int at = n;
        if (shape.dim[d] == 0) return true;
        if (shape.dim[d] == 1) continue;
        for (; at > 0 && step[at - 1] > step_of(stride[d]); at--)
            step[at] = step[at - 1], size[at] = size[at - 1];
        step[at] = step_of(stride[d]), size[at] = shape.dim[d];
        n++;
    }
    for (int i = 0; i < n; reach += (size[i] - 1) * step[i], i++)
        if (step[i] <= reach) return false;
    return true;
}

/* Layouts at the limits of memory. No element is written: the check comes before the dtypes. */
START_TEST(large) {
    const struct {
        ct_shape shape;
        int64_t stride[3];
        bool nested;
    } rows[] = {
        {CT_SHAPE(2, 1 << 20, 1 << 20), {1ll << 40, 1 << 20, 1}, true},
        {CT_SHAPE(1 << 20, 2, 1 << 20), {-(1 << 20), -(1ll << 40), 1}, true},
        {CT_SHAPE(2, 1 << 20, (1 << 20) + 1), {1ll << 40, 1 << 20, 1}, false},
        {CT_SHAPE(2, 2, 2), {1ll << 58, 1ll << 58, 1ll << 58}, false},
        /* elements that are apart, but interleaved */
        {CT_SHAPE(4, 4), {2, 5}, false},
        {CT_SHAPE(2, 3, 1 << 20), {1ll << 40, (1ll << 40) - (1 << 20), 1}, false},
        {CT_SHAPE(7, 0, 3), {0, 0, 0}, true},
        {CT_SHAPE(1, 1, 1), {0, 0, 0}, true},
        {CT_SCALAR, {0}, true},
    };
    static bool byte;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ct_tensor *to = ct_wrap(context, CT_BOOL, rows[i].shape, rows[i].stride, &byte);
        ck_assert(to && !ct_scale_into(to, 1));
        ck_assert_msg(ct_error(context) == (rows[i].nested ? CT_ERR_DTYPE : CT_ERR_ARGUMENT),
                      "row %zu: %s", i, ct_error_message(context));
        ct_error_clear(context);
    }
}
END_TEST

/* A copy or a lerp into a nested layout writes its elements and none between them. Into any other
 * layout it is an error. No two elements of a nested layout have one address. */
START_TEST(written) {
    enum { REACH = 1 << 19 };
    static float memory[2 * REACH];
    int refused = 0;
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
        refused += !done;
        if (!is_nested(shape, stride)) {
            ck_assert(!done);
            expect(CT_ERR_ARGUMENT, "share memory", "interleaved");
            ct_scope_close(scope);
            continue;
        }
        ck_assert_int_eq(shared(shape, stride), 0);
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
    ck_assert(refused > 300 && refused < 1200);
    no_error();
}
END_TEST

int main(void) {
    return run_tests("strides_nested", setup, teardown, TESTS(TEST(large), TEST(written)));
}
