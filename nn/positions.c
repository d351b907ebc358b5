/* positions: x (..., T, E) plus rows first ... first + T - 1, or given rows, of a table
 * (max_length, E).
 * Sinusoidal: table[p][2j] = sin(p / 10000^(2j/E)), table[p][2j + 1] = cos of the same; the
 * buffer `table`, neither trained nor saved (Vaswani et al. 2017, arXiv:1706.03762, 3.5). Learned:
 * weight (max_length, E), N(0, 0.02^2). */
#include "module.h"

#include <math.h>

static ct_tensor *positions_add(ct_module *module, ct_tensor *x, int64_t first) {
    const ct_positions_opts *o = cti_nn_data(module);
    int n = x->shape.ndim;
    if (n < 2 || x->shape.dim[n - 1] != o->embed_dim || x->shape.dim[n - 2] > o->max_length)
        return ct_fail(module->context, CT_ERR_SHAPE,
                       "Positions: expected (..., T, %" PRId64 ") with T up to %" PRId64 ", got %s",
                       o->embed_dim, o->max_length, SHAPE(x->shape));
    if (first < 0 || first > o->max_length - x->shape.dim[n - 2])
        return ct_fail(module->context, CT_ERR_SHAPE,
                       "Positions: %s from position %" PRId64 " exceeds max_length %" PRId64,
                       SHAPE(x->shape), first, o->max_length);
    ct_tensor *table = ct_module_get(module, o->learned ? "weight" : "table");
    ct_tensor *rows = ct_narrow(table, 0, first, x->shape.dim[n - 2]);
    if (rows && rows->dtype == CT_BF16) rows = ct_cast(rows, CT_F32);
    return cti_nn_dropout(module, ct_add(x, rows), o->dropout);
}

/* Returns whether positions are i64 (T), or (B, T) with x (B, T, E). If not, records an error. */
static bool positions_fit(const ct_module *module, const ct_tensor *positions, const ct_tensor *x) {
    ct_context *context = module->context;
    const ct_shape p = positions->shape;
    if (positions->dtype != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "Positions: positions are %s, not i64",
                       cti_dtype_name(positions->dtype));
    if ((p.ndim == 1 || (p.ndim == 2 && p.dim[0] == x->shape.dim[0])) &&
        p.dim[p.ndim - 1] == x->shape.dim[1])
        return true;
    return ct_fail(context, CT_ERR_SHAPE, "Positions: positions %s are not (T) or (B, T) of x = %s",
                   SHAPE(p), SHAPE(x->shape));
}

static ct_tensor *positions_add_at(ct_module *module, ct_tensor *x, ct_tensor *positions) {
    const ct_positions_opts *o = cti_nn_data(module);
    if (!cti_tensor_no_blocks(x, "Positions")) return NULL;
    if (x->shape.ndim != 3 || x->shape.dim[2] != o->embed_dim)
        return ct_fail(module->context, CT_ERR_SHAPE,
                       "Positions: expected (B, T, %" PRId64 "), got %s", o->embed_dim,
                       SHAPE(x->shape));
    if (!positions_fit(module, positions, x)) return NULL;
    ct_tensor *table = ct_module_get(module, o->learned ? "weight" : "table");
    return cti_nn_dropout(module, ct_add(x, ct_embedding(positions, table)), o->dropout);
}

static ct_tensor *positions_forward(void *self, ct_tensor *x) { return positions_add(self, x, 0); }

static void positions_describe(const void *self, FILE *file) {
    const ct_positions_opts *o = cti_nn_data(self);
    fprintf(file, "max_length=%" PRId64 ", embed_dim=%" PRId64 ", learned=%s, dropout=%g",
            o->max_length, o->embed_dim, cti_nn_bool(o->learned), o->dropout);
}

static const ct_module_type positions_type = {
    .name = "Positions", .forward = positions_forward, .describe = positions_describe};

ct_tensor *ct_positions_forward(ct_module *positions, ct_tensor *x, int64_t first) {
    if (!cti_nn_is(positions, &positions_type, "ct_positions_forward", x)) return NULL;
    ct_context *context = positions->context;
    cti_nn_scope scope;
    cti_nn_enter(positions, &scope);
    ct_tensor *y = NULL;
    if (!x) ct_fail(context, CT_ERR_ARGUMENT, "Positions: x is NULL");
    else if (cti_tensor_in(x, context, "Positions")) y = positions_add(positions, x, first);
    return cti_nn_leave(context, &scope, y);
}

ct_tensor *ct_positions_forward_at(ct_module *module, ct_tensor *x, ct_tensor *positions) {
    if (!cti_nn_is(module, &positions_type, "ct_positions_forward_at", x)) return NULL;
    ct_context *context = module->context;
    cti_nn_scope scope;
    cti_nn_enter(module, &scope);
    ct_tensor *y = NULL;
    if (!x || !positions)
        ct_fail(context, CT_ERR_ARGUMENT, "Positions: %s is NULL", x ? "positions" : "x");
    else if (cti_tensor_in(x, context, "Positions") &&
             cti_tensor_in(positions, context, "Positions"))
        y = positions_add_at(module, x, positions);
    return cti_nn_leave(context, &scope, y);
}

static void sinusoidal_add(ct_module *module) {
    ct_context *context = module->context;
    const ct_positions_opts *o = cti_nn_data(module);
    int64_t n = o->max_length, e = o->embed_dim;
    if (!cti_shape_check(context, "Positions", CT_SHAPE(n, e), sizeof(double))) return;
    size_t bytes = cti_bytes(n * e, sizeof(double));
    double *values = cti_take(context, bytes);
    if (!values) return;
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < e; i++) {
            double angle = (double)p * pow(10000, -(double)(i - i % 2) / (double)e);
            values[p * e + i] = i % 2 ? cos(angle) : sin(angle);
        }
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    ct_tensor *table = ct_cast(ct_from_f64(context, CT_SHAPE(n, e), values), o->dtype);
    if (table) ct_module_add_buffer(module, "table", table, false);
    cti_frame_close(context, &frame);
    cti_give(context, values, bytes);
}

ct_module *ct_positions_new(ct_context *context, ct_positions_opts o) {
    if (!cti_nn_check_size(context, &positions_type, "max_length", o.max_length, 1) ||
        !cti_nn_check_size(context, &positions_type, "embed_dim", o.embed_dim, 1) ||
        !cti_nn_check_chance(context, &positions_type, "dropout", o.dropout))
        return NULL;
    if (!cti_is_real(o.dtype))
        return ct_fail(context, CT_ERR_DTYPE, "Positions: dtype must be f32 or f64");
    ct_module *module = cti_nn_new(context, &positions_type, &o, sizeof o);
    if (!module) return NULL;
    if (o.learned)
        ct_init_normal(
            cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.max_length, o.embed_dim)), 0,
            0.02);
    else sinusoidal_add(module);
    return cti_nn_made(module);
}
