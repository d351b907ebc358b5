/* einsum: y of the equation "ab,bc->ac": letters name the dims of a, of b and of y; y is the sum of
 * the products over the letters that it lacks; da = the einsum of g and b with the letters of a, db
 * likewise. Without "->" y has the letters that occur once, in the order of the alphabet, capitals
 * first. "..." stands for the dims of an operand that have no letter.
 *
 * cti_contract makes the products. It reads any strides: no operand is copied. A letter that only
 * one operand has, and y has not, is summed over first. */
#include "support/op.h"

#include "../src/gemm/contract.h"

#include <ctype.h>
#include <string.h>

/* The letters of each operand's dims. The dims of an ellipsis have digits: 0 is the last one, as
 * they are aligned at their ends. */
typedef struct {
    char of[CTI_OPERANDS][CT_MAX_DIMS + 1];
} einsum_letters;

static bool has_letter(const char *text, char letter) {
    return letter && strchr(text, letter) != NULL;
}

/* ---- the equation ---- */

enum { NO_ELLIPSIS = -1 };

/* Reads letters up to `end`, or to the end if that is NULL. *ellipsis is the number of letters
 * before the ellipsis. Returns the text behind them, or NULL with an error. */
static const char *read_letters(ct_context *context, const char *equation, const char *at,
                                const char *end, char to[CT_MAX_DIMS + 1], int *ellipsis) {
    int n = 0, place = NO_ELLIPSIS;
    for (; *at && (!end || strncmp(at, end, strlen(end)) != 0); at++) {
        if (*at == ' ') continue;
        if (!strncmp(at, "...", 3) && place == NO_ELLIPSIS) {
            place = n;
            at += 2;
            continue;
        }
        if (!isalpha((unsigned char)*at))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "einsum: \"%.64s\" is not like \"ab,bc->ac\": '%c' at %d", equation, *at,
                           (int)(at - equation));
        to[n] = '\0';
        if (has_letter(to, *at))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "einsum: \"%.64s\": '%c' stands twice in one operand; diagonals are not "
                           "supported",
                           equation, *at);
        if (n == CT_MAX_DIMS)
            return ct_fail(context, CT_ERR_SHAPE, "einsum: \"%.64s\": more than %d dims", equation,
                           CT_MAX_DIMS);
        to[n++] = *at;
    }
    to[n] = '\0';
    *ellipsis = place;
    return at;
}

/* Puts the digits of `dims` dims where the ellipsis stands. */
static bool spell_ellipsis(ct_context *context, const char *equation, char to[CT_MAX_DIMS + 1],
                           int place, int dims) {
    const int n = (int)strlen(to);
    if (place == NO_ELLIPSIS || dims <= 0) return true;
    if (n + dims > CT_MAX_DIMS)
        return ct_fail(context, CT_ERR_SHAPE, "einsum: \"%.64s\": a result of more than %d dims",
                       equation, CT_MAX_DIMS);
    memmove(to + place + dims, to + place, (size_t)(n - place) + 1);
    for (int i = 0; i < dims; i++) to[place + i] = (char)('0' + dims - 1 - i);
    return true;
}

/* Reads the operands: b is NULL if the equation has one. Returns the text behind them. */
static const char *read_operands(ct_context *context, const char *equation, ct_tensor *const x[2],
                                 einsum_letters *l, int *ellipsis) {
    const char *comma = strchr(equation, ','), *arrow = strstr(equation, "->"), *at = equation;
    const bool two = comma && !(arrow && comma > arrow);
    if (two != (x[CTI_B] != NULL))
        return ct_fail(context, CT_ERR_ARGUMENT, "einsum: \"%.64s\" has not %s", equation,
                       x[CTI_B] ? "two operands, as \"ab,bc->ac\"" : "one operand, and b is NULL");
    for (int i = CTI_A; i <= (two ? CTI_B : CTI_A); i++) {
        int place;
        at = read_letters(context, equation, at, i == CTI_A && two ? "," : "->", l->of[i], &place);
        if (!at) return NULL;
        const int dims = x[i]->shape.ndim - (int)strlen(l->of[i]);
        if (!spell_ellipsis(context, equation, l->of[i], place, dims)) return NULL;
        if (place != NO_ELLIPSIS && dims > *ellipsis) *ellipsis = dims;
        if (i == CTI_A && two) at++;
    }
    return at;
}

static bool read_equation(ct_context *context, const char *equation, ct_tensor *const x[2],
                          einsum_letters *l) {
    int ellipsis = 0, n = 0, place;
    const char *arrow = read_operands(context, equation, x, l, &ellipsis);
    if (!arrow) return false;
    if (*arrow)
        return read_letters(context, equation, arrow + 2, NULL, l->of[CTI_C], &place) &&
               spell_ellipsis(context, equation, l->of[CTI_C], place, ellipsis);
    for (int code = 'A'; code <= 'z'; code++) {
        const char letter = (char)code;
        if (has_letter(l->of[CTI_A], letter) == has_letter(l->of[CTI_B], letter)) continue;
        if (n == CT_MAX_DIMS)
            return ct_fail(context, CT_ERR_SHAPE,
                           "einsum: \"%.64s\": a result of more than %d dims", equation,
                           CT_MAX_DIMS);
        l->of[CTI_C][n++] = letter;
    }
    l->of[CTI_C][n] = '\0';
    return spell_ellipsis(context, equation, l->of[CTI_C], 0, ellipsis);
}

/* Sums x over the dims whose letters neither the other operand nor the result has. */
static ct_tensor *without_lone(ct_tensor *x, const einsum_letters *l, int own) {
    ct_shape lone = CT_SCALAR;
    for (int d = 0; l->of[own][d]; d++)
        if (!has_letter(l->of[1 - own], l->of[own][d]) && !has_letter(l->of[CTI_C], l->of[own][d]))
            lone.dim[lone.ndim++] = d;
    return lone.ndim ? ct_sum(x, lone, false) : x;
}

/* ---- the products ---- */

/* The size of a letter's dim in x, or 1 if x lacks the letter, and the step along this dim, or 0 if
 * x repeats along it. */
static int64_t letter_size(const ct_tensor *x, const char *own, char letter) {
    return has_letter(own, letter) ? x->shape.dim[strchr(own, letter) - own] : 1;
}
static int64_t letter_step(const ct_tensor *x, const char *own, char letter) {
    return letter_size(x, own, letter) == 1 ? 0 : x->stride[strchr(own, letter) - own];
}

/* Computes z = x y, or z += x y, with the sum over the letters for which z has no step. A letter
 * that steps in x and z only can be m, in y and z only n, in x and y only k. The first such letter
 * becomes the product's m, n or k; all others are batch dims, which cti_contract merges if it
 * can. */
static bool einsum_product(const ct_call *c, const ct_tensor *const tensor[CTI_OPERANDS],
                           const char *const own[CTI_OPERANDS], bool add) {
    enum { OF_M, OF_N, OF_K };
    cti_contraction p;
    cti_contract_dim *of[] = {[OF_M] = &p.m, [OF_N] = &p.n, [OF_K] = &p.k};
    bool taken[] = {false, false, false};
    p.m = p.n = p.k = (cti_contract_dim){.size = 1};
    p.dims = 0;
    char seen[CTI_OPERANDS * CT_MAX_DIMS + 1] = "";
    for (int x = CTI_OPERANDS - 1; x >= 0; x--)
        for (int d = (int)strlen(own[x]) - 1; d >= 0; d--) { /* innermost dims first */
            const char letter = own[x][d];
            if (has_letter(seen, letter)) continue;
            seen[strlen(seen)] = letter;
            cti_contract_dim dim = {1, {0}};
            for (int o = CTI_A; o < CTI_OPERANDS; o++) {
                const int64_t size = letter_size(tensor[o], own[o], letter);
                if (size != 1) dim.size = size;
                dim.step[o] = letter_step(tensor[o], own[o], letter);
            }
            if (dim.size == 1) continue;
            const bool in_a = dim.step[CTI_A] != 0, in_b = dim.step[CTI_B] != 0,
                       out = dim.step[CTI_C] != 0;
            const int kind = in_a && out && !in_b ? OF_M : in_b && out && !in_a ? OF_N : OF_K;
            if (!taken[kind] && (kind != OF_K || (in_a && in_b && !out))) {
                *of[kind] = dim;
                taken[kind] = true;
            } else if (p.dims == CT_MAX_DIMS) {
                return ct_fail(c->context, CT_ERR_SHAPE, "einsum: more than %d letters in all",
                               CT_MAX_DIMS + 3);
            } else {
                p.batch[p.dims++] = dim;
            }
        }
    return cti_contract(c->context, &p, tensor, &(cti_gemm_epilogue){.add = add});
}

static ct_tensor *einsum_forward(ct_call *c) {
    const ct_tensor *a = c->in[0], *b = c->in[1];
    const einsum_letters *l = c->attrs;
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype(c)) return NULL;
    c->drop = CT_DROP_OUT | (c->wants[0] ? 0 : CT_DROP_IN(1)) | (c->wants[1] ? 0 : CT_DROP_IN(0));
    for (int d = 0; l->of[CTI_A][d]; d++) {
        const int64_t of_a = a->shape.dim[d], of_b = letter_size(b, l->of[CTI_B], l->of[CTI_A][d]);
        if (of_a != of_b && of_a != 1 && of_b != 1)
            return ct_fail(c->context, CT_ERR_SHAPE,
                           "einsum: '%c' is %lld in %s \"%s\" and %lld in %s \"%s\"",
                           l->of[CTI_A][d], (long long)of_a, SHAPE(a->shape), l->of[CTI_A],
                           (long long)of_b, SHAPE(b->shape), l->of[CTI_B]);
    }
    ct_shape shape = {.ndim = (int)strlen(l->of[CTI_C])};
    for (int d = 0; d < shape.ndim; d++) {
        const int64_t of_a = letter_size(a, l->of[CTI_A], l->of[CTI_C][d]);
        shape.dim[d] = of_a == 1 ? letter_size(b, l->of[CTI_B], l->of[CTI_C][d]) : of_a;
    }
    ct_tensor *y = cti_op_new(c, a->dtype, shape);
    return y && einsum_product(c, (const ct_tensor *const[]){a, b, y},
                               (const char *const[]){l->of[CTI_A], l->of[CTI_B], l->of[CTI_C]},
                               false)
               ? y
               : NULL;
}

static bool einsum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const einsum_letters *l = c->attrs;
    for (int i = 0; i < 2; i++) {
        bool add;
        if (!c->wants[i]) continue;
        grad[i] = cti_grad_writable(c, i, &add);
        if (!grad[i] ||
            !einsum_product(c, (const ct_tensor *const[]){g[0], c->in[1 - i], grad[i]},
                            (const char *const[]){l->of[CTI_C], l->of[1 - i], l->of[i]}, add))
            return false;
    }
    return true;
}

static const ct_op einsum = {.name = "einsum",
                             .attrs_size = sizeof(einsum_letters),
                             .forward = einsum_forward,
                             .backward = einsum_backward,
                             .flags = CT_OP_STRIDED};

/* ---- the call ---- */

/* Returns whether the operands have as many dims as the equation names, and the result has only
 * their letters. */
static bool einsum_check(ct_context *context, const char *equation, const einsum_letters *l,
                         ct_tensor *const x[2]) {
    for (int i = CTI_A; i <= CTI_B && x[i]; i++)
        if ((int)strlen(l->of[i]) != x[i]->shape.ndim)
            return ct_fail(context, CT_ERR_SHAPE, "einsum: \"%.64s\": operand %d is \"%s\" and %s",
                           equation, i, l->of[i], SHAPE(x[i]->shape));
    for (const char *at = l->of[CTI_C]; *at; at++)
        if (!has_letter(l->of[CTI_A], *at) && !has_letter(l->of[CTI_B], *at))
            return ct_fail(context, CT_ERR_ARGUMENT, "einsum: \"%.64s\": no operand has '%c'",
                           equation, *at);
    return true;
}

/* The product of two operands, of which lone letters are summed over already. */
static ct_tensor *einsum_of_two(ct_tensor *const sum[2], const einsum_letters *l) {
    einsum_letters left = {{{0}}};
    for (int i = CTI_A; i < CTI_OPERANDS; i++)
        for (int d = 0, n = 0; l->of[i][d]; d++) {
            const char letter = l->of[i][d];
            if (i == CTI_C || has_letter(l->of[1 - i], letter) || has_letter(l->of[CTI_C], letter))
                left.of[i][n++] = letter;
        }
    return ct_apply(&einsum, sum, 2, &left);
}

/* One operand, without the dims that were summed over, in the order of the result. */
static ct_tensor *einsum_of_one(ct_tensor *sum, const einsum_letters *l) {
    char left[CT_MAX_DIMS + 1] = "";
    for (const char *at = l->of[CTI_A]; *at; at++)
        if (has_letter(l->of[CTI_C], *at)) left[strlen(left)] = *at;
    ct_shape order = {.ndim = (int)strlen(l->of[CTI_C])};
    for (int d = 0; d < order.ndim; d++) order.dim[d] = strchr(left, l->of[CTI_C][d]) - left;
    return ct_permute(sum, order);
}

ct_tensor *ct_einsum(const char *equation, ct_tensor *a, ct_tensor *b) {
    ct_tensor *x[2] = {a, b}, *sum[2] = {NULL, NULL};
    einsum_letters l = {{{0}}};
    ct_context *context = cti_tensors_context(x, 2);
    if (!a) return ct_apply(&einsum, x, 2, &l); /* ct_apply records the error */
    if (!cti_tensors_in(x, b ? 2 : 1, context, "einsum") || !cti_ready(context)) return NULL;
    if (!equation) return ct_fail(context, CT_ERR_ARGUMENT, "einsum: the equation is NULL");
    if (!read_equation(context, equation, x, &l) || !einsum_check(context, equation, &l, x))
        return NULL;
    cti_frame frame;
    cti_frame_open(context, &frame, false);
    for (int i = CTI_A; i <= CTI_B && x[i]; i++) sum[i] = without_lone(x[i], &l, i);
    return cti_frame_return(context, &frame,
                            b ? einsum_of_two(sum, &l) : einsum_of_one(sum[CTI_A], &l));
}
