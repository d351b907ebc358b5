/* Random kernels: Philox's known answers, the same bits on every ISA and for every way to cut a
 * stream, moments, ranges, and dropout. */
#define CTI_VECTOR_BYTES 0
#include "src/kernels/philox.h"
#include "src/kernels/random.h"

#include "kernels.h"

static const cti_random stream = {42, 7};

/* From Random123's kat_vectors: counter, key, result. */
START_TEST(known_answers) {
    const struct {
        uint64_t block, stream, seed;
        uint32_t want[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x85a308d3243f6a88,
         0x0370734413198a2e,
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT(known); i++) {
        uint32_t word[4][PHILOX_BLOCKS];
        philox(known[i].seed, known[i].stream, known[i].block / PHILOX_BLOCKS * PHILOX_BLOCKS,
               word);
        for (int w = 0; w < 4; w++)
            ck_assert_uint_eq(word[w][known[i].block % PHILOX_BLOCKS], known[i].want[w]);
    }
}
END_TEST

/* f32: element i of a group of 64 is from word i / 16 of block i % 16; f64: of a group of 32, from
 * two words. The numbers of a seed must never change. */
START_TEST(numbers_are_philox) {
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        const int64_t start = (int64_t)1 << 45; /* blocks past 32 bits */
        array y = output(t, 64);
        t.k->random->uniform(64, start, stream, 0, 1, y.p);
        uint32_t word[4][PHILOX_BLOCKS], next[4][PHILOX_BLOCKS];
        const uint64_t group = (uint64_t)start / (t.dtype ? 32 : 64);
        philox(stream.seed, stream.stream, group * PHILOX_BLOCKS, word);
        philox(stream.seed, stream.stream, (group + 1) * PHILOX_BLOCKS, next);
        for (int k = 0; k < 64; k++) {
            const int b = k % 16, half = k / 16 % 2 * 2;
            const uint32_t(*from)[PHILOX_BLOCKS] = k < 32 ? word : next;
            const uint64_t pair = (uint64_t)from[half][b] << 32 | from[half + 1][b];
            const double want =
                t.dtype ? (double)(pair >> 11) * 0x1p-53 : (word[k / 16][b] >> 8) * 0x1p-24;
            EXPECT(get(t, y.p, k) == want, "%s f%d: element %d", t.isa, 8 * (int)t.size, k);
        }
        release(y, "uniform");
    }
}
END_TEST

/* Draws n numbers of one kind from the stream. */
static void draw(table t, int kind, int64_t n, int64_t start, const void *x, void *y) {
    if (kind == 0) t.k->random->uniform(n, start, stream, -1, 3, y);
    else if (kind == 1) t.k->random->normal(n, start, stream, 1, 2, y);
    else t.k->random->dropout(n, start, stream, 0.3, x, y);
}

START_TEST(any_cut_and_any_isa) {
    enum { N = 500 };
    table t, first[2];
    table_at(0, &first[0]), table_at(1, &first[1]);
    for (int i = 0; table_at(i, &t); i++) {
        array x = filled(t, N, 1, 2), whole = output(t, N), other = output(t, N);
        draw(first[t.dtype], _i, N, 1003, x.p, whole.p);
        draw(t, _i, N, 1003, x.p, other.p);
        EXPECT(memcmp(whole.p, other.p, whole.bytes) == 0, "%s: other bits than scalar", t.isa);
        for (int64_t size = 1; size < 140; size += 1 + size / 9) {
            memset(other.p, 0, other.bytes);
            for (int64_t j = 0; j < N; j += size)
                draw(t, _i, N - j < size ? N - j : size, 1003 + j, at(t, x.p, j),
                     at(t, other.p, j));
            EXPECT(memcmp(whole.p, other.p, whole.bytes) == 0, "%s: cut by %d differs", t.isa,
                   (int)size);
        }
        release(x, "x"), release(whole, "draw"), release(other, "draw");
    }
}
END_TEST

START_TEST(streams_differ) {
    enum { N = 256 };
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array a = output(t, N), b = output(t, N);
        const cti_random others[] = {
            {43, 7}, {42, 8}, {42 | (uint64_t)1 << 40, 7}, {42, 7 | (uint64_t)1 << 40}};
        t.k->random->uniform(N, 0, stream, 0, 1, a.p);
        for (int k = 0; k < COUNT(others); k++) {
            int equal = 0;
            t.k->random->uniform(N, 0, others[k], 0, 1, b.p);
            for (int j = 0; j < N; j++) equal += get(t, a.p, j) == get(t, b.p, j);
            EXPECT(equal < 3, "%s: stream %d repeats", t.isa, k);
        }
        release(a, "uniform"), release(b, "uniform");
    }
}
END_TEST

START_TEST(uniform_moments) {
    enum { N = 1 << 18 };
    const double ranges[][2] = {{0, 1},         {-1, 1},      {-0.03, 0.05},
                                {1, 1.0000001}, {1e30, 2e30}, {-3e38, 3e38}};
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array y = output(t, N);
        for (int r = 0; r < COUNT(ranges); r++) {
            double low = ranges[r][0], high = ranges[r][1];
            if (!t.dtype) low = (float)low, high = (float)high;
            t.k->random->uniform(N, 0, stream, ranges[r][0], ranges[r][1], y.p);
            double mean = 0, square = 0;
            for (int j = 0; j < N; j++) {
                const double v = get(t, y.p, j), u = (v / 2 - low / 2) / (high / 2 - low / 2);
                EXPECT(v >= low && v < high, "%s: %g in [%g, %g)", t.isa, v, low, high);
                mean += u / N, square += (u - 0.5) * (u - 0.5) / N;
            }
            if (r == 3 && !t.dtype) continue; /* there is only one such float */
            EXPECT(fabs(mean - 0.5) < 5 / sqrt(12.0 * N), "%s: mean %g", t.isa, mean);
            EXPECT(fabs(square - 1 / 12.0) < 5 / sqrt(180.0 * N), "%s: variance %g", t.isa, square);
        }
        t.k->random->uniform(5, 0, stream, 2, 2, y.p); /* an empty range is its one end */
        for (int j = 0; j < 5; j++) EXPECT(get(t, y.p, j) == 2, "%s: of an empty range", t.isa);
        release(y, "uniform");
    }
}
END_TEST

START_TEST(normal_moments) {
    enum { N = 1 << 18 };
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array y = output(t, N);
        t.k->random->normal(N, 0, stream, 3, 0.5, y.p);
        double moment[5] = {0}, neighbours = 0, last = 0;
        int beyond = 0;
        for (int j = 0; j < N; j++) {
            const double z = (get(t, y.p, j) - 3) / 0.5;
            EXPECT(fabs(z) < 9, "%s: %g", t.isa, z);
            for (int m = 1; m <= 4; m++) moment[m] += pow(z, m) / N;
            neighbours += z * last / N, last = z, beyond += fabs(z) > 1.959964;
        }
        const double s = 5 / sqrt(N); /* five standard deviations */
        EXPECT(fabs(moment[1]) < s && fabs(moment[2] - 1) < s * sqrt(2) &&
                   fabs(moment[3]) < s * sqrt(15) && fabs(moment[4] - 3) < s * sqrt(96),
               "%s: moments %g %g %g %g", t.isa, moment[1], moment[2], moment[3], moment[4]);
        EXPECT(fabs(neighbours) < s, "%s: neighbours correlate by %g", t.isa, neighbours);
        EXPECT(fabs(beyond / (double)N - 0.05) < s * 0.22, "%s: %d in the tails", t.isa, beyond);
        release(y, "normal");
    }
}
END_TEST

START_TEST(dropout_rate) {
    enum { N = 1 << 17 };
    const double rates[] = {0, 0.1, 0.5, 0.9, 1};
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array x = filled(t, N, 1, 2), y = output(t, N);
        put(t, x.p, 5, NAN);
        for (int r = 0; r < COUNT(rates); r++) {
            const double p = rates[r];
            t.k->random->dropout(N, 64, stream, p, x.p, y.p);
            int dropped = 0;
            for (int j = 0; j < N; j++) {
                const double v = get(t, y.p, j), u = get(t, x.p, j);
                if (v == 0) dropped++;
                else if (!isnan(u))
                    EXPECT(error_in_ulp(t, v, (wide)u / (1 - (wide)p), 0) <= 1.5,
                           "%s: %g of %g, p = %g", t.isa, v, u, p);
            }
            EXPECT(fabs(dropped / (double)N - p) <= 5 * sqrt(p * (1 - p) / N),
                   "%s: %d dropped of %d, p = %g", t.isa, dropped, N, p);
            EXPECT(p < 1 || dropped == N, "%s: something is left", t.isa);
        }
        t.k->random->dropout(N, 64, stream, 0.5, x.p, y.p);
        t.k->random->dropout(N, 64, stream, 0.5, x.p, x.p);
        EXPECT(memcmp(x.p, y.p, y.bytes) == 0, "%s: in place", t.isa);
        release(x, "x"), release(y, "dropout");
    }
}
END_TEST

int main(void) {
    return run_tests("random kernels", NULL, NULL,
                     TESTS(TEST(known_answers), TEST(numbers_are_philox),
                           LOOP(any_cut_and_any_isa, 3), TEST(streams_differ),
                           TEST(uniform_moments), TEST(normal_moments), TEST(dropout_rate)));
}
