/* Attention's schedules: a table of backward's for panels of 16 keys, and properties of both
 * schedules that hold for all sizes. */
#include "tests/support/suite.h"

#include "ops/attention/attention_schedule.h"

typedef struct {
    int64_t size, batch, kv_heads, t, s, d, dv;
    cti_attention_backward_schedule schedule;
} example;

static cti_attention_params params_of(const example *e, int64_t nr, int64_t group) {
    return (cti_attention_params){.nr = nr,
                                  .size = e->size,
                                  .batch = e->batch,
                                  .heads = e->kv_heads * group,
                                  .kv_heads = e->kv_heads,
                                  .group = group,
                                  .t = e->t,
                                  .s = e->s,
                                  .d = e->d,
                                  .dv = e->dv};
}

static cti_attention_backward_schedule schedule_of(const example *e, int64_t nr, int64_t group) {
    const cti_attention_params a = params_of(e, nr, group);
    return cti_attention_schedule_backward(&a);
}

START_TEST(examples) {
    /* clang-format off */
    static const example all[] = {
        /* size, B, H, T, S, d, dv   q_ranges, q_range, k_ranges, k_range, k_block, grain */
        {4, 1, 1, 1, 1, 1, 1,             {1, 1, 1, 1, 16, 617}},
        {4, 2, 2, 3, 5, 2, 7,             {1, 3, 1, 5, 16, 204}},
        {4, 2, 2, 20, 5, 3, 0,            {1, 20, 1, 5, 16, 116}},
        {4, 2, 2, 5, 90, 0, 3,            {1, 5, 1, 90, 96, 38}},
        {4, 8, 8, 64, 64, 32, 32,         {1, 64, 1, 64, 64, 2}},      /* a pair a head */
        {4, 8, 8, 120, 128, 32, 32,       {1, 120, 1, 128, 128, 1}},   /* one block */
        {4, 8, 8, 1024, 1024, 64, 64,     {1, 1024, 1, 1024, 128, 1}}, /* 1024 keys: 1280 KB */
        {4, 8, 8, 1024, 1025, 64, 64,     {1, 1024, 2, 528, 128, 1}},  /* two of equal length */
        {4, 8, 8, 512, 2048, 65, 64,      {1, 512, 3, 688, 128, 1}},   /* 1008 keys fit */
        {4, 8, 8, 512, 2048, 64, 66,      {1, 512, 3, 688, 128, 1}},
        {8, 8, 8, 512, 2048, 64, 64,      {1, 512, 4, 512, 128, 1}},   /* f64: 512 keys fit */
        {8, 8, 8, 512, 2000, 16, 16,      {1, 512, 2, 1008, 128, 1}},
        {4, 8, 8, 512, 2048, 8192, 4096,  {1, 512, 128, 16, 16, 1}},   /* one panel, the least */
        {4, 8, 8, 512, 2048, 1024, 0,     {1, 512, 22, 96, 96, 1}},    /* 106 keys: 6 panels */
        {4, 8, 8, 512, 2048, 0, 1024,     {1, 512, 13, 160, 128, 1}},
        {4, 8, 8, 9, 4096, 0, 0,          {1, 9, 4, 1024, 128, 4}},
        {4, 1, 1, 4096, 4096, 32, 32,     {8, 512, 8, 512, 128, 1}},   /* 8 pieces in a step */
        {4, 1, 1, 8192, 32768, 32, 32,    {16, 512, 32, 1024, 128, 1}}, /* 16 pieces in a step */
        {4, 1, 3, 8192, 32768, 32, 32,    {6, 1366, 32, 1024, 128, 1}}, /* 3 heads of 6 */
        {4, 2, 1, 8192, 32768, 32, 32,    {8, 1024, 32, 1024, 128, 1}},
        {4, 1, 1, 2048, 2048, 32, 32,     {8, 256, 8, 256, 128, 1}},   /* 8 ranges of 256 */
        {4, 1, 2, 2048, 2048, 32, 32,     {4, 512, 4, 512, 128, 1}},   /* 8 of two heads */
        {4, 1, 1, 512, 512, 32, 32,       {4, 128, 4, 128, 128, 1}},   /* not below 128 */
        {4, 1, 1, 600, 100, 32, 32,       {1, 600, 1, 100, 112, 1}},   /* q_ranges <= k_ranges */
        {4, 1, 1, 121, 2048, 32, 32,      {2, 61, 8, 256, 128, 1}},    /* 2 blocks */
        {4, 1, 1, 120, 2048, 32, 32,      {1, 120, 8, 256, 128, 1}},
        {4, 1, 7, 512, 512, 32, 32,       {2, 256, 2, 256, 128, 1}},   /* 7 heads: 14 pieces */
        {4, 2, 4, 240, 1040, 8, 8,        {2, 120, 2, 528, 128, 1}},
        {4, 4, 4, 240, 1040, 8, 8,        {1, 240, 2, 528, 128, 1}},
        {4, 3, 5, 240, 1040, 8, 8,        {2, 120, 2, 528, 128, 1}},
        {4, 1, 1, 1000, 1150, 32, 32,     {9, 112, 9, 128, 128, 1}},
        {4, 1, 1, 961, 1150, 32, 32,      {9, 107, 9, 128, 128, 1}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const cti_attention_backward_schedule c = schedule_of(&all[i], 16, 1),
                                              *w = &all[i].schedule;
        ck_assert_msg(c.q_ranges == w->q_ranges && c.q_range == w->q_range &&
                          c.k_ranges == w->k_ranges && c.k_range == w->k_range &&
                          c.k_block == w->k_block && c.grain == w->grain,
                      "%d: {%d, %d, %d, %d, %d, %d}", (int)i, (int)c.q_ranges, (int)c.q_range,
                      (int)c.k_ranges, (int)c.k_range, (int)c.k_block, (int)c.grain);
    }
    const example e = {4, 1, 1, 2, 3, 4, 5, {0}};
    ck_assert_int_eq(schedule_of(&e, 16, 1).grain, 1 + (1 << 20) / (10 * 11 * 38));
    ck_assert_int_eq(schedule_of(&e, 16, 5).grain,
                     1 + (1 << 20) / (10 * 11 * 38 * 5)); /* a pair is of all heads of a group */
    const example whole = {
        4,    8,  8,  1024,
        1024, 64, 64, {0}}; /* 1024 keys of 320 numbers are 1280 KB with panels of any size */
    ck_assert_int_eq(schedule_of(&whole, 24, 1).k_range, 1024);
    const example exact = {4, 1, 1, 56, 120, 32, 8, {0}}; /* of 2^20 products */
    ck_assert_int_eq(schedule_of(&exact, 16, 1).grain, 2);
    ck_assert_int_eq(schedule_of(&exact, 16, 2).grain, 1);
}
END_TEST

START_TEST(what_holds_always) {
    static const int64_t sizes[] = {1, 7, 120, 121, 500, 513, 1100, 5000},
                         widths[] = {0, 1, 64, 500, 5000}, panels[] = {4, 6, 8, 24, 48};
    for (int i = 0; i < 8 * 8 * 5 * 5 * 3; i++) {
        const int64_t d = widths[i / 64 % 5], dv = widths[(i + 1) % 5];
        const example e = {i % 2 ? 4 : 8,    1 + i % 3, 1 + i % 5, sizes[i % 8],
                           sizes[i / 8 % 8], d,         dv,        {0}};
        const int64_t nr = panels[i / 320 % 5];
        const cti_attention_backward_schedule c = schedule_of(&e, nr, 1);
        ck_assert(c.q_range >= 1 && c.q_ranges * c.q_range >= e.t &&
                  (c.q_ranges - 1) * c.q_range < e.t); /* no range is empty */
        ck_assert(c.k_range >= 1 && c.k_ranges * c.k_range >= e.s &&
                  (c.k_ranges - 1) * c.k_range < e.s);
        ck_assert(c.q_ranges <= c.k_ranges); /* else two pairs of a step share keys */
        ck_assert(c.k_range % nr == 0 || c.k_range == e.s); /* panels end where ranges do */
        ck_assert(c.grain >= 1);
        ck_assert((c.k_range - 1) / nr < CTI_ATTENTION_MOST_KEYS / 4);
        bool met[64][64] = {{false}}; /* queries, keys */
        for (int64_t step = 0; step < c.k_ranges && c.k_ranges <= 64; step++) {
            bool taken[64] = {false};
            for (int64_t q = 0; q < c.q_ranges; q++) {
                const int64_t k = cti_attention_keys_of_step(&c, q, step);
                ck_assert(k >= 0 && k < c.k_ranges && !taken[k] && !met[q][k]);
                taken[k] = met[q][k] = true;
            }
        }
        ck_assert(c.k_block % nr == 0 && c.k_block <= 128 && c.k_block >= nr &&
                  c.k_block < c.k_range + nr);
    }
}
END_TEST

START_TEST(forward) {
    static const int64_t sizes[] = {1, 3, 16, 120, 129, 500, 1024, 1025, 5000},
                         widths[] = {0, 1, 64, 500, 5000}, panels[] = {4, 6, 8, 24, 48};
    for (int i = 0; i < 9 * 9 * 5 * 5; i++) {
        const example e = {i % 2 ? 4 : 8,    1 + i % 3,          1 + i % 5,     sizes[i % 9],
                           sizes[i / 9 % 9], widths[i / 81 % 5], widths[i % 5], {0}};
        const int64_t nr = panels[i / 405 % 5];
        const cti_attention_params a = params_of(&e, nr, 1);
        const cti_attention_forward_schedule s = cti_attention_schedule_forward(&a);
        ck_assert(s.q_range >= 1 && s.q_ranges * s.q_range >= e.t &&
                  (s.q_ranges - 1) * s.q_range < e.t); /* no range is empty */
        ck_assert(s.q_range <= 1024 + nr && (s.q_range % nr == 0 || s.q_range == e.t));
        ck_assert(s.k_block >= 1 && s.grain >= 1);
    }
    const example one = {4, 1, 1, 4096, 4096, 64, 64, {0}},
                  many = {4, 8, 8, 4096, 4096, 64, 64, {0}};
    cti_attention_params a = params_of(&one, 16, 1);
    ck_assert_int_eq(cti_attention_schedule_forward(&a).q_range, 256); /* 16 tasks */
    a = params_of(&many, 16, 1);
    ck_assert_int_eq(cti_attention_schedule_forward(&a).q_range, 1024);
}
END_TEST

/* The first range of keys of each range of queries. If T = S and the mask is causal, the queries
 * see keys of this range. */
START_TEST(order) {
    const cti_attention_backward_schedule c = {.q_ranges = 2, .k_ranges = 7};
    static const int keys[7][2] = {{0, 3}, {1, 4}, {2, 5}, {3, 6}, {4, 0}, {5, 1}, {6, 2}};
    for (int step = 0; step < 7; step++)
        for (int q = 0; q < 2; q++)
            ck_assert_int_eq(cti_attention_keys_of_step(&c, q, step), keys[step][q]);
}
END_TEST

int main(void) {
    return run_tests("attention's schedules", NULL, NULL,
                     TESTS(TEST(examples), TEST(what_holds_always), TEST(order), TEST(forward)));
}
