/* The same bits for a row, whatever rows stand beside it.
 *
 * The fastest kernel of a product depends on the number of its rows, and kernels differ in the
 * order of a sum and in what they round. So a row's bits usually depend on how many rows are beside
 * it. Generation promises that they do not. It names the number of rows for which kernels are
 * chosen, one or many, and every product chooses as if it had that number.
 *
 * Invariants, for CTI_ROWS_ONE and CTI_ROWS_MANY (alpha is 1):
 * 1. An element of C = A B has bits that follow from its row of A, its column of B, n, k, the type
 *    and strides of B and of the element's start (add, bias), the instruction set, and for
 *    CTI_ROWS_MANY the setting of ct_set_matmul. m, the batch, the other rows and the strides of A
 *    and C do not count, and no product is computed transposed.
 * 2. ONE: nothing is rounded. If B is dense along K and not along N, an element is a dot product
 *    over all of K, summed by lanes. Any other is summed over k in order, in the K blocks that a
 *    product of one row has.
 * 3. MANY: an element is summed over k in order, in as few K blocks as the kernels' kc allows. Both
 *    operands are rounded if ct_set_matmul asks for bf16, the instruction set can, and n is at
 *    least rounded_lines. bf16x3 and bf16x6 are computed in f32: whether terms may be used depends
 *    on the numbers in all rows.
 * 4. Attention: ONE takes the kernels of decoding for any number of queries, MANY the tiles. Tiles
 *    round if the setting is bf16 and the heads are wide enough, for any number of queries and
 *    keys. So the bits of a query follow from its place in the call and from the keys that it
 *    sees, and not from queries or keys behind these.
 * 5. The other ops of a model compute each row by itself.
 *
 * gemm_plan.c and ops/attention/ read the rule; tests/gemm/test_gemm_plan.c checks 1 to 3 over the
 * plan, and tests/models/test_generate_rows.c all five by generations. */
#ifndef CTI_CORE_ROW_RULE_H
#define CTI_CORE_ROW_RULE_H

#include <cotangent/context.h>

typedef enum {
    CTI_ROWS_ANY, /* kernels are chosen by the number of rows that there are */
    CTI_ROWS_ONE,
    CTI_ROWS_MANY,
} cti_rows;

/* Sets the rule of a context and returns the one that was set, which the caller sets again. A
 * context begins with CTI_ROWS_ANY, and has it again when a callback is left. */
cti_rows cti_set_rows(ct_context *context, cti_rows rows);

#endif
