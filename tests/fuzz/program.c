/* Programs of calls of the public interface, with memory that runs out. The first bytes select
 * which request for memory fails, once or from then on, and whether of the allocator or of
 * cti_take; the other bytes are calls. In every case a call that fails returns NULL or false with
 * an error pending, and at the end all memory is freed. */
#include "program.h"

/* ---- calls ---- */

static void create(void) {
    ct_context *c = p.context;
    static float f[64];
    static int64_t ids[8] = {0, 1, 2, 3, 1, 0, -100, 9};
    static bool mask[8] = {true, false, true, true, false, true, true, false};
    switch (below(12)) {
    case 0: made(ct_zeros(c, dtype(), shape())); break;
    case 1: made(ct_ones(c, dtype(), shape())); break;
    case 2: made(ct_empty(c, CT_BOOL, CT_SHAPE(0, size()))); break;
    case 3: made(ct_full(c, dtype(), shape(), number())); break;
    case 4: made(ct_arange(c, dtype(), number(), below(9), number() * 2)); break;
    case 5: made(ct_rand(c, dtype(), shape())); break;
    case 6:
    case 7: made(ct_randn(c, dtype(), shape())); break;
    case 8: made(ct_from_i64(c, CT_SHAPE(below(9)), ids)); break;
    case 9: made(ct_from_bool(c, CT_SHAPE(below(3), below(5)), mask)); break;
    case 10: made(ct_from_f32(c, CT_SHAPE(below(9), below(8)), f)); break;
    case 11:
        made(ct_wrap(c, CT_F32, CT_SHAPE(below(5), below(5)), (int64_t[]){below(8), below(8)}, f));
        break;
    }
}

/* A line of ops.def, on its own inputs or on any stored tensors. */
static void table_op(bool fitting) {
    const case_line *line = case_at((next() | next() << 8) % case_count());
    ct_tensor *in[CASE_INPUTS] = {NULL};
    if (fitting) {
        case_input inputs[CASE_INPUTS];
        const int n = case_inputs(line, below(case_variants(line)), 1, inputs);
        /* only dense inputs, because the other layouts use memory of a scope */
        const case_build_opts opts = {.dtype = below(2) ? CT_F64 : CT_F32};
        if (!case_build(p.context, inputs, n, opts, in)) return;
    } else {
        for (int i = 0; i < CASE_INPUTS; i++) in[i] = any();
        if (!in[0]) return;
    }
    ct_tensor *y = line->run(p.context, in);
    MUST(y || !ok() || !fitting);
    put(y);
}

static void shape_op(void) {
    ct_tensor *x = any();
    ct_tensor *parts[4] = {any(), any(), any(), x};
    switch (below(16)) {
    case 0: put(ct_view(x, shape())); break;
    case 1: put(ct_reshape(x, shape())); break;
    case 2: put(ct_transpose(x, dim(), dim())); break;
    case 3: put(ct_permute(x, dims())); break;
    case 4: put(ct_narrow(x, dim(), size(), size())); break;
    case 5: put(ct_select(x, dim(), size())); break;
    case 6: put(ct_expand(x, small_shape())); break;
    case 7: put(ct_squeeze(x, dim())); break;
    case 8: put(ct_unsqueeze(x, dim())); break;
    case 9: put(ct_contiguous(x)); break;
    case 10: put(ct_cast(x, dtype())); break;
    case 11: put(ct_cat(parts, 1 + below(4), dim())); break;
    case 12: put(ct_stack(parts, 1 + below(4), dim())); break;
    case 13:
        if (x && ct_split(x, size(), dim(), parts, 1 + below(4))) put(parts[0]);
        break;
    case 14: put(ct_split_heads(x, size())); break;
    case 15: put(ct_sum_to(x, small_shape())); break;
    }
}

static ct_tensor *double_forward(ct_call *call) {
    call->saved[0] = ct_scale(call->in[0], 2);
    return ct_add(call->saved[0], ct_zeros(call->context, CT_F32, CT_SCALAR));
}
static bool double_backward(const ct_call *call, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *zeros = ct_sub(call->saved[0], call->saved[0]);
    return (grad[0] = ct_add(ct_scale(g[0], 2), zeros)) != NULL;
}
static const ct_op double_op = {
    .name = "double", .forward = double_forward, .backward = double_backward};

static void math_op(void) {
    ct_tensor *x = any(), *y = any(), *z = any();
    ct_tensor *mask = any();
    switch (below(16)) {
    case 0: put(ct_add(x, y)); break;
    case 1: put(ct_mul(x, y)); break;
    case 2: put(ct_matmul(x, y)); break;
    case 3: put(ct_linear(x, y, z)); break;
    case 4: put(ct_sum(x, dims(), below(2))); break;
    case 5: put(ct_mean(x, dims(), below(2))); break;
    case 6: put(ct_max(x, dims(), below(2))); break;
    case 7: put(ct_softmax(x, dim())); break;
    case 8: put(ct_layer_norm(x, y, z, number())); break;
    case 9: put(ct_embedding(x, y)); break;
    case 10:
        put(ct_cross_entropy(x, y, (ct_cross_entropy_opts){.label_smoothing = number()}));
        break;
    case 11: put(ct_where(mask, x, y)); break;
    case 12: put(ct_apply(&double_op, &x, 1, NULL)); break;
    case 13: put(ct_dropout(x, number(), below(2))); break;
    case 14: put(ct_gather(x, dim(), y)); break;
    case 15: {
        const ct_attention_opts opts = {.mask = mask,
                                        .bias = below(4) ? NULL : any(),
                                        .segments = below(4) ? NULL : any(),
                                        .lengths = below(4) ? NULL : any(),
                                        .window = {below(4) - 1, below(3)},
                                        .lower_right = below(2),
                                        .softcap = below(3) ? 0 : number(),
                                        .causal = below(2),
                                        .need_weights = below(2),
                                        .mean_weights = below(2),
                                        .dropout = below(4) ? 0 : number()};
        const ct_attention_out out =
            below(2) ? ct_attention(x, y, z, opts) : ct_packed_attention(x, below(4), opts);
        put(out.out);
        put(out.weights);
        break;
    }
    }
}

static void create_more(void) {
    ct_context *c = p.context;
    ct_tensor *x = any();
    switch (below(4)) {
    case 0: made(ct_randperm(c, size())); break;
    case 1: made(ct_linspace(c, dtype(), number(), number(), size())); break;
    case 2: made(ct_causal_mask(c, size(), size())); break;
    case 3: put(ct_one_hot(x, size(), dtype())); break;
    }
}

static void elementwise_op(void) {
    ct_tensor *x = any(), *y = any();
    switch (below(12)) {
    case 0: put(ct_clamp(x, number(), below(2) ? (double)INFINITY : number())); break;
    case 1: put(ct_sin(x)); break;
    case 2: put(ct_cos(x)); break;
    case 3: put(ct_sign(x)); break;
    case 4: put(ct_floor(x)); break;
    case 5: put(ct_isnan(x)); break;
    case 6: put(ct_minimum(x, y)); break;
    case 7: put(ct_pow(x, number())); break;
    case 8: put(ct_masked_fill(x, y, number())); break;
    case 9: put(ct_gt(x, y)); break;
    case 10: put(ct_logical_and(x, y)); break;
    case 11:
        put(ct_rope(x, below(2) ? y : NULL,
                    (ct_rope_opts){.dims = size(), .interleaved = below(2)}));
        break;
    }
}

static void reduce_op(void) {
    ct_tensor *x = any(), *y = any();
    switch (below(11)) {
    case 0: put(ct_min(x, dims(), below(2))); break;
    case 1: put(ct_var(x, dims(), number(), below(2))); break;
    case 2: put(ct_any(x, dims(), below(2))); break;
    case 3: put(ct_all(x, dims(), below(2))); break;
    case 4: put(ct_cumsum(x, dim())); break;
    case 5: put(ct_argsort(x, dim(), below(2))); break;
    case 6: {
        const ct_topk_out top = ct_topk(x, size(), dim());
        MUST(!top.values == !top.indices);
        put(top.values);
        put(top.indices);
        break;
    }
    case 7: put(ct_argmax(x, dim())); break;
    case 8: put(ct_logsumexp(x, dim())); break;
    case 9: put(ct_masked_softmax(x, y, dim())); break;
    case 10: put(ct_log_softmax(x, dim())); break;
    }
}

static void index_op(void) {
    static const char *const equations[] = {"ij,jk->ik", "ij,ij->", "i,j->ij",  "bij,bjk",
                                            "ij,kj->ki", "ii,i",    "ij,jk->z", "->"};
    ct_tensor *x = any(), *y = any(), *z = any();
    switch (below(8)) {
    case 0: put(ct_index_select(x, dim(), y)); break;
    case 1: put(ct_index_add(x, dim(), y, z)); break;
    case 2: put(ct_pad(x, dim(), size(), size(), number())); break;
    case 3: put(ct_pad(x, dim(), -below(4), below(4), number())); break;
    case 4: put(ct_roll(x, size(), dim())); break;
    case 5: put(ct_tril(x, below(9) - 4)); break;
    case 6: put(ct_clone(x)); break;
    case 7: put(ct_einsum(equations[below(8)], x, y)); break;
    }
}

static void loss_op(void) {
    ct_tensor *x = any(), *y = any(), *z = any();
    const ct_reduction reduction = (ct_reduction)below(5);
    const ct_cross_entropy_opts opts = {.reduction = reduction, .weight = below(2) ? z : NULL};
    switch (below(5)) {
    case 0: put(ct_mse_loss(x, y)); break;
    case 1:
        put(ct_bce_with_logits(
            x, y, (ct_bce_opts){.reduction = reduction, .pos_weight = below(2) ? z : NULL}));
        break;
    case 2:
        put(ct_kl_div(x, y, (ct_kl_div_opts){.reduction = reduction, .log_target = below(2)}));
        break;
    case 3: put(ct_cross_entropy(x, y, opts)); break;
    case 4: put(ct_linear_cross_entropy(x, z, y, opts)); break;
    }
}

/* Half of the sources are views of the destination's tensor, of which they may overlap it. */
static void write_call(void) {
    ct_tensor *to = any(), *from = below(2) ? any() : to;
    if (below(2)) to = ct_narrow(to, dim(), below(3), below(3));
    if (below(2)) from = ct_transpose(from, dim(), dim());
    if (!to || !from) return;
    switch (below(4)) {
    case 0: done(ct_copy_into(to, from)); break;
    case 1: done(ct_lerp_into(to, from, number())); break;
    case 2: done(ct_add_into(to, from, number())); break;
    default: done(ct_scale_into(to, number()));
    }
}

static void cache_call(void) {
    ct_kv_cache *cache = p.cache;
    const int64_t length = cache ? ct_kv_cache_length(cache) : 0;
    ct_tensor *k = any(), *v = any();
    switch (below(8)) {
    case 0:
    case 1:
        if (cache) break;
        p.cache = below(4) ? ct_kv_cache_new_of(p.context, CT_F32, 1, 2, 6, 2)
                           : ct_kv_cache_new_of(p.context, dtype(), size(), size(), size(), size());
        MUST(p.cache ? ok() : !ok());
        break;
    case 2:
        if (cache) ct_kv_cache_truncate(cache, below(8) - 1);
        break;
    case 3:
        ct_kv_cache_free(cache);
        p.cache = NULL;
        break;
    case 4: k = v = ct_randn(p.context, CT_F32, CT_SHAPE(1, 2, below(4), 2)); /* fall through */
    default: {
        ct_tensor *const given[2] = {k, v};
        if (!cache) break;
        const bool appended = ct_kv_cache_append(cache, &k, &v);
        done(appended);
        if (appended) {
            MUST(ct_dim(k, 2) == ct_kv_cache_length(cache));
            MUST(ct_dim(v, 2) == ct_kv_cache_length(cache));
            put(k);
            put(v);
        } else MUST(k == given[0] && v == given[1] && ct_kv_cache_length(cache) == length);
        break;
    }
    }
}

static void scope_call(void) {
    ct_tensor *x = any();
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        if (p.depth == DEPTH) break;
        p.scope[p.depth] = below(4) ? ct_scope_open(p.context) : ct_scope_open_no_grad(p.context);
        MUST(p.scope[p.depth].id || !ok());
        p.depth += p.scope[p.depth].id != 0; /* a scope that could not be opened has id 0 */
        break;
    case 3: /* closes an open scope and those inside it */
        if (!p.depth) break;
        p.depth = below(p.depth);
        ct_scope_close(p.scope[p.depth]);
        forget_depth(p.depth + 1);
        break;
    case 4:
    case 5: {
        if (!p.depth) break;
        const int from = below(p.depth); /* moves a tensor to the scope outside */
        const bool closes = below(2);
        ct_tensor *kept =
            closes ? ct_scope_return(p.scope[from], x) : ct_scope_keep(p.scope[from], x);
        MUST(kept == x);
        for (int i = 0; i < TENSORS; i++)
            if (x && p.slot[i].tensor == x && p.slot[i].depth > from) p.slot[i].depth = from;
        if (closes) forget_depth((p.depth = from) + 1);
        break;
    }
    case 6:
        MUST(ct_keep(x) == x);
        for (int i = 0; i < TENSORS; i++)
            if (p.slot[i].tensor == x) p.slot[i].depth = 0;
        break;
    case 7:
        ct_release(x);
        forget(x);
        break;
    }
}

/* A function of ct_recompute. *arg determines its computation. Calls between the two runs may
 * change *arg, its other tensor and its module, so the second run may differ. */
static ct_tensor *run_twice(ct_tensor *const *in, int n, void *arg) {
    const int what = *(const uint8_t *)arg;
    ct_tensor *x = in[0], *y = in[n - 1], *other = p.slot[what % TENSORS].tensor;
    switch (what / TENSORS) {
    case 0: return ct_mul(x, y);
    case 1: return ct_dropout(ct_exp(x), 0.5, true);
    case 2: return ct_add(x, other);
    case 3: return other;
    case 4: return x ? ct_transpose(x, 0, -1) : NULL;
    case 5: return ct_forward(p.trained[0].module, x);
    case 6: {
        static uint8_t inner[TENSORS];
        inner[what % TENSORS] = (uint8_t)(what % TENSORS * 21);
        return ct_add(ct_recompute(run_twice, &inner[what % TENSORS], in, n), y);
    }
    case 7: {
        ct_tensor *kept = ct_keep(ct_retain_grad(ct_neg(x)));
        for (int i = 0; kept && i < TENSORS; i++)
            if (i == what % TENSORS) p.slot[i].tensor = kept, p.slot[i].depth = 0;
        return ct_sigmoid(kept);
    }
    case 8: ct_backward(ct_sum(x, CT_ALL, false)); break;
    case 9:
        ct_release(other);
        forget(other);
        break;
    case 10: ct_scope_close(p.scope[0]); break;
    case 11: ct_scope_open(p.context); break;
    case 12: ct_copy_into(x, y); break;
    case 13: return ct_sum(ct_mul(x, x), CT_ALL, false);
    case 14: return ct_set_requires_grad(ct_ones(p.context, CT_F32, CT_SHAPE(2)), true);
    case 15: return ct_detach(x);
    case 16: ct_error_clear(p.context); break;
    case 17: ct_zero_grad(x); break;
    case 18: return NULL;
    }
    return ct_silu(x);
}

static void recompute_call(void) {
    static uint8_t what[4];
    ct_tensor *in[] = {any(), any(), any()};
    uint8_t *arg = &what[below(4)];
    *arg = next();
    put(ct_recompute(run_twice, arg, in, 1 + below(3)));
}

static void grad_call(void) {
    ct_tensor *x = any(), *y = any();
    ct_tensor *both[2] = {x, y};
    switch (below(13)) {
    case 0:
    case 1: ct_set_requires_grad(x, below(4)); break;
    case 2: ct_retain_grad(x); break;
    case 3:
    case 4:
        if (x) done(ct_backward(x));
        break;
    case 5:
        if (x) done(ct_backward(ct_sum(x, CT_ALL, false)));
        break;
    case 6:
        if (x && y)
            ct_backward_with(both, (ct_tensor *[]){any(), any()}, 2,
                             (ct_backward_opts){.retain_graph = below(2)});
        break;
    case 7:
        if (ct_grad(x)) MUST(ct_numel(ct_grad(x)) == ct_numel(x));
        break;
    case 8: ct_zero_grad(x); break;
    case 9: put(ct_detach(x)); break;
    default: recompute_call(); break;
    }
}

static ct_module *make_module(ct_context *c, int64_t e) {
    switch (below(6)) {
    case 0: return ct_mlp_new(c, (ct_mlp_opts){.dim = e, .hidden = size(), .gated = below(2)});
    case 1: return ct_linear_new(c, (ct_linear_opts){.in_features = e, .out_features = size()});
    case 2:
        return ct_encoder_layer_new(c, (ct_layer_opts){.embed_dim = e,
                                                       .num_heads = below(3),
                                                       .hidden = 3,
                                                       .norm_first = below(2),
                                                       .recompute = below(2),
                                                       .sandwich = below(2),
                                                       .parallel = below(2),
                                                       .attn.head_dim = below(3),
                                                       .attn.rope = below(2)});
    case 3:
        return ct_mha_new(
            c, (ct_mha_opts){
                   .embed_dim = e, .num_heads = 2, .add_bias_kv = below(2), .qk_norm = below(2)});
    case 4: return ct_module_new(c, "Own");
    default:
        return ct_encoder_new(
            c, (ct_layer_opts){.embed_dim = e, .num_heads = 1, .hidden = 2, .dropout = 0.5},
            below(3), true);
    }
}

static ct_optim *make_optim(ct_module *m) {
    switch (below(3)) {
    case 0: return ct_sgd_new(m, (ct_sgd_opts){.momentum = number(), .nesterov = below(2)});
    case 1: return ct_adam_new(m, (ct_adam_opts){.beta1 = number(), .clip_norm = number()});
    default: return ct_adamw_new(m, (ct_adamw_opts){.lr = number(), .skip_nonfinite = below(2)});
    }
}

static void set_group(ct_optim *o) {
    static const char *const patterns[] = {"*", "*weight", "?ias", "own0"};
    const ct_group_opts group = {
        .lr_scale = number(), .weight_decay = number(), .frozen = below(2)};
    if (o) done(ct_optim_group(o, patterns[below(4)], group));
}

static void save_and_load(ct_module *m, ct_optim *o) {
    if (o) {
        ct_checkpoint checkpoint = {.module = m, .optim = o, .step = 1};
        ct_checkpoint_save(fuzz_path("saved"), &checkpoint);
        ct_checkpoint_load(fuzz_path("saved"), &checkpoint);
    } else {
        ct_save(m, fuzz_path("saved"), (ct_save_opts){0});
        ct_load(m, fuzz_path("saved"), (ct_load_opts){0});
    }
}

static void module_call(void) {
    ct_context *c = p.context;
    const int i = below(MODULES);
    ct_module *m = p.trained[i].module;
    ct_optim *o = p.trained[i].optim;
    ct_tensor *x = any();
    char name[16];
    switch (below(16)) {
    case 0:
    case 1: {
        const int64_t e = 2 + 2 * below(2);
        if (m) break;
        p.trained[i].module = m = make_module(c, e);
        MUST(m ? ok() : !ok());
        break;
    }
    case 2:
    case 3:
    case 4: put(ct_forward(m, x)); break;
    case 5:
        if (m) put(ct_forward(m, ct_randn(c, CT_F32, CT_SHAPE(1, 2, 2 + 2 * below(2)))));
        break;
    case 6:
        if (!m || o) break;
        p.trained[i].optim = o = make_optim(m);
        MUST(o ? ok() : !ok());
        break;
    case 7:
    case 8:
        if (o) done(ct_optim_step(o));
        break;
    case 9:
        if (below(2)) set_group(o);
        else ct_optim_zero_grad(o);
        break;
    case 10: ct_clip_grad_norm(m, number()); break;
    case 11:
        ct_optim_free(o);
        p.trained[i].optim = NULL;
        break;
    case 12: /* frees a module with its optimiser */
        ct_module_free(m);
        p.trained[i].module = NULL;
        p.trained[i].optim = NULL;
        break;
    case 13: /* owns the tensor even if the call fails */
        if (!m || !x) break;
        snprintf(name, sizeof name, "own%d", p.names++ % 3);
        ct_module_add_param(m, name, x);
        forget(x);
        break;
    case 14: ct_module_train(m, below(2)); break;
    case 15:
        if (m) save_and_load(m, o);
        break;
    }
}

static void read_call(void) {
    static FILE *nothing;
    if (!nothing) MUST((nothing = fopen("/dev/null", "w")));
    ct_tensor *x = any();
    double value[64];
    switch (below(8)) {
    case 0: ct_print(x, nothing); break;
    case 1: ct_graph_print(x, nothing); break;
    case 2: ct_graph_dot(x, nothing); break;
    case 3: ct_item(x); break;
    case 4: ct_to_f64(x, value, ct_numel(x) < 64 ? ct_numel(x) : 64); break;
    case 5: ct_memory_trim(p.context); break;
    case 6: ct_seed(p.context, next()); break;
    case 7: ct_init_normal(x, 0, number()); break;
    }
}

/* Prints the calls of a program, to reproduce a crash: FUZZ_TRACE=1. */
static void trace(void) {
    fprintf(stderr, "%ld bytes left, scopes %d, %s;", (long)(p.end - p.at), p.depth,
            ct_error_message(p.context));
    for (int i = 0; i < TENSORS; i++)
        if (p.slot[i].tensor)
            fprintf(stderr, " %d (scope %d) %s", i, p.slot[i].depth,
                    SHAPE(ct_shape_of(p.slot[i].tensor)));
    fprintf(stderr, "; call %d\n", *p.at);
}

static void call_more(int which) {
    switch (which) {
    case 0: create_more(); break;
    case 1: elementwise_op(); break;
    case 2: reduce_op(); break;
    case 3: index_op(); break;
    case 4: loss_op(); break;
    case 5: write_call(); break;
    case 6:
    case 7: cache_call(); break;
    }
}

static void call(void) {
    if (getenv("FUZZ_TRACE")) trace();
    const uint8_t which = next();
    if (which >= 192) { /* the other bytes are calls that they were in programs found before */
        call_more(which % 8);
        return;
    }
    switch (which % 16) {
    case 0:
    case 1:
    case 2: create(); break;
    case 3: table_op(false); break;
    case 4: table_op(true); break;
    case 5:
    case 6: shape_op(); break;
    case 7:
    case 8: math_op(); break;
    case 9: scope_call(); break;
    case 10:
    case 11: grad_call(); break;
    case 12:
    case 13:
    case 14: module_call(); break;
    case 15: read_call(); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
    if (!*fuzz_folder) fuzz_begin();
    if (length < 4) return 0;
    memset(&p, 0, sizeof p);
    allocated.bytes = 0;
    allocated.largest = 1 << 26;
    p.at = data + 4;
    p.end = data + length;
    const bool goes_on = data[2] & 4; /* errors are cleared after each call; otherwise they stay */
    fault_arm(data[2] & 2 ? FAULT_TAKE : FAULT_ALLOCATOR, data[0] | data[1] << 8);
    fault.forever = data[2] & 1;
    p.context = new_with((ct_context_opts){.seed = 1,
                                           .threads = 1,
                                           .debug = data[2] & 8,
                                           .memory_limit = data[2] & 16 ? data[3] << 10 : 0,
                                           .allocator = {allocate, release, NULL}});
    if (p.context) {
        for (int i = 0; i < CALLS && p.at < p.end; i++) {
            call();
            MUST((ct_error(p.context) == CT_OK) == !*ct_error_message(p.context));
            if (goes_on) ct_error_clear(p.context);
        }
        ct_context_free(p.context);
    }
    MUST(allocated.bytes == 0);
    return 0;
}
