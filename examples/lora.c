/* LoRA (Hu et al. 2021, arXiv:2106.09685): a GPT that char_lm has saved learns another text. Its
 * weights W stay unchanged. The training changes only the adapters, two thin matrices A and B
 * beside some of the weights:
 *
 *     y = W x + scale B A x,    A (rank, in), B (out, rank), B initially zero
 *
 * Here each W is a projection to queries or to values. The program writes two files: the adapters,
 * and the merged model, whose weights are W + scale B A. char_lm accepts the merged model like any
 * other. */
#include "../programs/gpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    long long rank, steps, batch, seed, threads;
    double scale, lr;
    long long keep_partial;
    const char *out;
} option = {.rank = 8, .steps = 200, .batch = 12, .seed = 1, .scale = 2, .lr = 2e-3, .out = "."};

enum { QUERIES, KEYS, VALUES, ADAPTERS = 2, PATH = 128 };

static const struct {
    const char *name;
    int rows; /* without adapters W is a third of in_proj_weight: which one */
} adapted[ADAPTERS] = {{"q_proj", QUERIES}, {"v_proj", VALUES}};

/* ---- a Linear with an adapter ---- */

static ct_tensor *lora_forward(void *self, ct_tensor *x) {
    ct_tensor *ax = ct_linear(x, ct_module_get(self, "lora_a"), NULL);   /* (..., rank) */
    ct_tensor *bax = ct_linear(ax, ct_module_get(self, "lora_b"), NULL); /* (..., out) */
    return ct_add(ct_forward(ct_module_child(self, "base"), x), ct_scale(bax, option.scale));
}

/* Replaces the Linear at this path by a module with an adapter, whose child "base" is the Linear.
 */
static void adapt(const gpt *m, const char *path) {
    ct_context *c = m->context;
    ct_module *lora = ct_module_new(c, "LoRA");
    ct_module_set_forward(lora, lora_forward, lora);
    ct_module *base = ct_module_set_child(m->root, path, lora);
    ct_module_add_child(lora, "base", base);
    check(c, EXIT_FAILED);

    ct_shape w = ct_shape_of(ct_module_get(base, "weight")); /* (out, in) */
    double bound = 1 / sqrt((double)w.dim[1]);
    ct_tensor *a = ct_empty(c, CT_F32, CT_SHAPE(option.rank, w.dim[1]));
    ct_init_uniform(ct_module_add_param(lora, "lora_a", a), -bound, bound);
    ct_module_add_param(lora, "lora_b", ct_zeros(c, CT_F32, CT_SHAPE(w.dim[0], option.rank)));
}

static const char *path_of(int64_t layer, int i, char path[PATH]) {
    snprintf(path, PATH, "h.layers.%lld.self_attn.%s", (long long)layer, adapted[i].name);
    return path;
}

/* Loads the saved model, freezes its weights, and adds adapters, which do not change its results
 * yet. */
static void load_adapted(gpt *m, const char *path) {
    m->separate = true;
    gpt_load(m, path);
    for (ct_param p = {0}; ct_module_next(m->root, &p);) ct_set_requires_grad(p.tensor, false);
    char name[PATH];
    for (int64_t layer = 0; layer < m->layers; layer++)
        for (int i = 0; i < ADAPTERS; i++) adapt(m, path_of(layer, i, name));
    check(m->context, EXIT_USAGE);
}

/* Saves the adapters, which are the only parameters that were trained. */
static void save_adapters(const gpt *m, const char *path) {
    static char names[2 * ADAPTERS * MAX_LAYERS][256];
    ct_named named[2 * ADAPTERS * MAX_LAYERS];
    int64_t n = 0;
    for (ct_param p = {0}; ct_module_next(m->root, &p);) {
        if (!ct_requires_grad(p.tensor)) continue;
        strcpy(names[n], p.name);
        named[n] = (ct_named){.name = names[n], .tensor = p.tensor};
        n++;
    }
    ct_tensors_save(m->context, path, named, n, (ct_save_opts){0});
    check(m->context, EXIT_FAILED);
}

/* Adds scale B A to the rows of the queries and the values in the in_proj_weight of each layer. */
static void merge(const gpt *to, const gpt *from) {
    ct_scope scope = ct_scope_open_no_grad(to->context);
    for (int64_t layer = 0; layer < to->layers; layer++)
        for (int i = 0; i < ADAPTERS; i++) {
            char path[PATH], name[PATH];
            ct_module *lora = ct_module_child(from->root, path_of(layer, i, path));
            ct_tensor *ba = ct_matmul(ct_module_get(lora, "lora_b"), ct_module_get(lora, "lora_a"));
            snprintf(name, sizeof name, "h.layers.%lld.self_attn.in_proj_weight", (long long)layer);
            ct_tensor *w =
                ct_narrow(ct_module_get(to->root, name), 0, adapted[i].rows * to->width, to->width);
            ct_add_into(w, ba, option.scale);
        }
    check(to->context, EXIT_FAILED);
    ct_scope_close(scope);
}

/* ---- the text ---- */

/* Returns the *n ids of the files. A byte that the model's alphabet lacks is left out. */
static int32_t *read_ids(const gpt *m, int files, char **paths, int64_t *n) {
    contents t = read_files(files, paths);
    int32_t *ids = gpt_encode(m, &t, n);
    free(t.bytes);
    if (*n < t.length)
        printf("%lld byte%s that the model does not know %s left out\n", (long long)(t.length - *n),
               PLURAL(t.length - *n), t.length - *n == 1 ? "is" : "are");
    if (*n - *n / 10 <= m->window || *n / 10 <= m->window)
        fail(EXIT_USAGE, "%lld bytes of text are too few: a tenth must be longer than %lld",
             (long long)*n, m->window);
    return ids;
}

/* Returns a batch of windows at random places in ids (n). */
static gpt_batch random_batch(const gpt *m, const int32_t *ids, int64_t n) {
    gpt_batch b = gpt_batch_make(m, option.batch, m->window);
    for (int64_t i = 0; i < b.k; i++)
        gpt_batch_set(&b, i, ids + ct_random_below(m->context, n - m->window));
    return b;
}

/* Returns the mean loss over up to 64 windows at equal distances in ids (n). */
static double measure(const gpt *m, const int32_t *ids, int64_t n) {
    ct_scope scope = ct_scope_open_no_grad(m->context);
    int64_t k = n / (m->window + 1) < 64 ? n / (m->window + 1) : 64;
    gpt_batch b = gpt_batch_make(m, k, m->window);
    for (int64_t i = 0; i < k; i++) gpt_batch_set(&b, i, ids + i * (n - m->window - 1) / k);
    ct_module_train(m->root, false);
    double loss = ct_item(gpt_loss(m, &b));
    check(m->context, EXIT_FAILED);
    ct_scope_close(scope);
    return loss;
}

/* ---- training ---- */

/* Returns false if it was interrupted. */
static bool train(const gpt *m, const int32_t *ids, int64_t n) {
    ct_adamw_opts adamw = {.lr = option.lr, .clip_norm = 1};
    ct_optim *optim = ct_adamw_new(m->root, adamw); /* frozen parameters have no state */
    check(m->context, EXIT_FAILED);
    ct_module_train(m->root, true);
    progress bar = {
        .total = option.steps,
        .per_step = (double)(option.batch * m->window),
        .unit = "tokens/s",
        .begun = now(),
    };
    int64_t step = 1;
    for (; step <= option.steps && !interrupted(); step++) {
        ct_scope scope = ct_scope_open(m->context);
        gpt_batch b = random_batch(m, ids, n);
        ct_tensor *loss = gpt_loss(m, &b);
        double value = ct_item(loss);
        ct_backward(loss);
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        check(m->context, EXIT_FAILED);
        ct_scope_close(scope);
        progress_show(&bar, step, "loss %.3f", value);
    }
    progress_end();
    return step > option.steps;
}

/* ---- the merged model gives the same results ---- */

/* Returns the largest difference of the logits of two models, relative to the largest logit. */
static double difference(const gpt *a, const gpt *b, const int32_t *ids) {
    ct_scope scope = ct_scope_open_no_grad(a->context);
    gpt_batch batch = gpt_batch_make(a, 1, a->window);
    gpt_batch_set(&batch, 0, ids);
    const gpt *models[] = {a, b};
    ct_tensor *logits[2];
    for (int i = 0; i < 2; i++) {
        ct_module_train(models[i]->root, false);
        ct_tensor *x = gpt_features(models[i], batch.input, (ct_stack_call){0}); /* (1, t, E) */
        logits[i] = ct_linear(x, ct_module_get(models[i]->wte, "weight"), NULL);
    }
    ct_tensor *apart = ct_max(ct_abs(ct_sub(logits[0], logits[1])), CT_ALL, false);
    double part = ct_item(apart) / ct_item(ct_max(ct_abs(logits[0]), CT_ALL, false));
    check(a->context, EXIT_FAILED);
    ct_scope_close(scope);
    return part;
}

static int64_t count_trained(const gpt *m) {
    int64_t n = 0;
    for (ct_param p = {0}; ct_module_next(m->root, &p);)
        if (ct_requires_grad(p.tensor)) n += ct_numel(p.tensor);
    return n;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_integer("rank", &option.rank, 1, 1024, "rank: rows of A, columns of B"),
        flag_real("scale", &option.scale, "X", 1e-6, 1e6, "factor of B A"),
        flag_integer("steps", &option.steps, 1, 1e9, "training steps"),
        flag_integer("batch", &option.batch, 1, 65536, "windows in a step"),
        flag_real("lr", &option.lr, "X", 1e-9, 10, "learning rate"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random numbers"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_switch("keep-partial", &option.keep_partial, "save also if the run is interrupted"),
        flag_text("out", &option.out, "DIR",
                  "folder for adapter.safetensors and merged.safetensors"),
    };
    const char *usage = "[flags] MODEL FILE...\n\n"
                        "Adapts a model that char_lm has saved to the text of the files:";
    int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage) - 1;
    if (files < 1) fail_usage("a model and a text are needed");
    const char *base_path = argv[1];
    input_paths(files + 1, argv + 1);
    const char *adapter_path = output_path(option.out, "adapter.safetensors");
    const char *merged_path = output_path(option.out, "merged.safetensors");

    ct_context_opts opts = {.seed = (uint64_t)option.seed, .threads = (int)option.threads};
    gpt m = {.context = ct_context_new(opts)};
    check(m.context, EXIT_USAGE);
    load_adapted(&m, base_path);
    int64_t length;
    int32_t *ids = read_ids(&m, files, argv + 2, &length);
    int64_t held = length / 10, n = length - held; /* the last tenth is not trained on */

    int64_t trained = count_trained(&m), all = ct_module_count(m.root);
    printf("%lld of %lld parameters are trained: %.2f %%\n", (long long)trained, (long long)all,
           100 * (double)trained / (double)all);
    catch_interrupts();
    double before = measure(&m, ids + n, held);
    const bool complete = train(&m, ids, n);
    const double after = measure(&m, ids + n, held);
    printf("Loss on the last tenth: %.4f before, %.4f after\n", before, after);
    if (!complete && !option.keep_partial)
        fail(interrupt_exit(),
             "interrupted: nothing is saved (--keep-partial saves what there is)");
    if (loss_is_worse(after, before))
        fail(EXIT_FAILED, "the model is worse than before: nothing is saved. Try a smaller --lr");
    save_adapters(&m, adapter_path);

    /* repeats the comparison with the saved files: the base with adapters, and the merged model */
    gpt loaded = {.context = m.context}, merged = {.context = m.context};
    load_adapted(&loaded, base_path);
    ct_load(loaded.root, adapter_path, (ct_load_opts){.partial = true});
    check(m.context, EXIT_FAILED);
    gpt_load(&merged, base_path);
    merge(&merged, &loaded);
    gpt_save(&merged, merged_path);
    printf("Logits differ by %.1e of the largest with the adapter loaded, by %.1e merged\n",
           difference(&m, &loaded, ids + n), difference(&m, &merged, ids + n));
    printf("Saved %s and %s\n", adapter_path, merged_path);
    free(ids);
    ct_context_free(m.context);
    return complete ? 0 : interrupt_exit();
}
