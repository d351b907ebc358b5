/* Fine-tunes a language model, of a Hugging Face folder or a GGUF file, on texts or conversations,
 * by LoRA or all parameters, and writes a folder that transformers or PEFT loads, or a GGUF file.
 *
 *     finetune SmolLM2-135M-Instruct --data chats.jsonl --out adapter
 *
 * The documents are encoded and packed into rows (documents.h). A step computes the loss of some
 * rows, in micro-batches, and divides it by the number of tokens that count in it; so the result
 * does not depend on how the rows are divided. One process trains, or several ranks (world.h), with
 * the same bits. With --checkpoint a run that was stopped goes on, also with the same bits
 * (run.h). */
#include "finetune.h"
#include "finetune_memory.h"
#include "finetune_out.h"
#include "system.h"
#include "weights.h"
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

finetune_options option = {
    .length = 512,
    .rank = 16,
    .alpha = 32,
    .batch = 4,
    .accumulate = 1,
    .shares = 1,
    .epochs = 1,
    .eval_every = 50,
    .sample_every = 50,
    .sample_tokens = 60,
    .seed = 1,
    .warmup = 0.03,
    .clip = 1,
    .beta = 0.1,
    .method = METHOD_SFT,
};

/* ---- what is said before ---- */

/* The number of values that are trained; *tensors is that of the adapters' tensors, or of all. */
static double count_trained(const tuning *t, int64_t *tensors) {
    double n = 0;
    for (ct_param p = {0}; ct_module_next(t->lm, &p);) {
        if (!ct_requires_grad(p.tensor)) continue;
        n += (double)ct_numel(p.tensor);
        *tensors += !is_lora() || strstr(p.name, "lora_");
    }
    return n;
}

/* Finds the micro-batch with the most tokens, with its padding, among those of the run, or among
 * the first ones of a long run. */
static memory_opts find_largest(tuning *t, const run *r) {
    enum { MOST = 1 << 20 };
    memory_opts m = {.recompute = option.recompute,
                     .bf16_states = option.bf16_states,
                     .widens = option.merge && weights_are_blocks(t->weights),
                     .micro_batches = option.accumulate,
                     .shares = option.shares,
                     .ranks = ct_comm_size(r->world)};
    const int64_t places = option.steps * option.accumulate * option.batch;
    for (int64_t first = 0; first < (places < MOST ? places : MOST) || !first;
         first += option.batch) {
        int64_t longest = 1, learned = 0;
        const int64_t of = is_preferences() ? 2 : 1; /* rows of a unit */
        for (int64_t k = 0; k < of * option.batch; k++) {
            const int64_t row = of * row_at(&t->order, first + k / of) + k % of,
                          length = row_length(&t->rows, row);
            if (length > longest) longest = length;
            learned += t->rows.learned[row];
        }
        if (longest <= m.length) continue;
        m.length = longest;
        m.tokens = of * option.batch * longest;
        m.learned = (double)learned / (double)m.tokens;
    }
    return m;
}

static memory_estimate describe(tuning *t, const run *r) {
    int64_t tensors = 0;
    const double all = (double)ct_module_count(t->lm), trained = count_trained(t, &tensors);
    const long long matrices = is_lora() ? tensors / 2 : tensors;
    printf("A %s of %.4g million parameters, of which %.4g million are trained, %s%lld %s%s\n",
           ct_lm_about(t->lm).family, all * 1e-6, trained * 1e-6,
           is_lora() ? "the adapters of " : "in ", matrices, matrices == 1 ? "matrix" : "matrices",
           is_lora() && option.task ? ", and the head" : "");
    const memory_estimate m = memory_estimate_of(t->context, t->lm, find_largest(t, r));
    const long long rows_of_step = option.batch * option.accumulate;
    printf("%lld step%s of %lld %s%s; memory: about %.0f MB (program %.0f, weights %.0f, gradients "
           "%.0f, optimiser %.0f, activations %.0f)\n",
           option.steps, PLURAL(option.steps), rows_of_step, is_preferences() ? "pair" : "row",
           PLURAL(rows_of_step), memory_sum(&m) * 1e-6, m.program * 1e-6, m.weights * 1e-6,
           m.gradients * 1e-6, m.optimiser * 1e-6, m.activations * 1e-6);
    fflush(stdout);
    return m;
}

/* ---- the program ---- */

/* What is written: a GGUF file has the whole model, unless it is to have the adapters only. */
static void check_result(void) {
    if (option.adapter_only && option.merge)
        fail(EXIT_USAGE, "--adapter-only or --merge, and not both");
    if (!is_lora() || option.adapter_only) return;
    option.merge |= is_gguf(option.out);
}

/* A classifier is trained as a whole unless --lora says otherwise. A row has one text. */
static void check_task(void) {
    static const char *const of_texts[] = {"separator", "format", "sample"};
    for (int i = 0; i < 3; i++)
        if (flag_was_read(of_texts[i]))
            fail(EXIT_USAGE, "--task has labelled texts, and --%s is about others", of_texts[i]);
    if (option.out && is_gguf(option.out))
        fail(EXIT_USAGE, "--out %s: a GGUF file has no place for the head of --task: name a folder",
             option.out);
    if (!flag_was_read("lora")) option.full = true;
    option.padded = true;
}

/* Preferences have a pair of rows of their own for each line. */
static void check_method(void) {
    static const char *const of_preferences[] = {"beta", "label-smoothing"};
    for (int i = 0; i < 2; i++)
        if (flag_was_read(of_preferences[i]) &&
            (i ? option.method != METHOD_DPO : !is_preferences()))
            fail(EXIT_USAGE, "--%s is about --method %s", of_preferences[i],
                 i ? "dpo" : "dpo or orpo");
    if (!is_preferences()) return;
    if (option.task) fail(EXIT_USAGE, "--task has labels, and --method pairs of answers");
    if (option.separator) fail(EXIT_USAGE, "--separator is about texts, and --method about pairs");
    option.padded = true;
    if (option.lr == 0) option.lr = is_lora() ? 1e-5 : 1e-6;
}

/* Checks flags that do not fit together, and fills in those that depend on others. */
static void check_flags(const run *r) {
    if (!option.data) fail_usage("no data to train on: --data FILE");
    if (option.task) check_task();
    if (!option.out) fail_usage("no path for the result: --out PATH");
    if (option.lora && option.full) fail(EXIT_USAGE, "--lora or --full, and not both");
    if (flag_was_read("lora") && !option.lora && !option.full)
        fail(EXIT_USAGE, "--no-lora needs --full, as no parameter would be trained");
    static const char *const of_lora[] = {"rank",    "alpha", "dropout",
                                          "targets", "merge", "adapter-only"};
    for (int i = 0; option.full && i < 6; i++)
        if (flag_was_read(of_lora[i]))
            fail(EXIT_USAGE, "--%s is about adapters, and --full has none", of_lora[i]);
    if (option.bf16 && !option.base) option.base = WEIGHTS_BF16;
    if (option.full && option.base > 1)
        fail(EXIT_USAGE,
             "--full trains the matrices, which must be f32: --%s needs adapters "
             "(--matmul bf16 multiplies f32 matrices in bf16)",
             option.bf16 ? "bf16" : "base");
    check_method();
    check_result();
    if (option.valid && option.hold_out > 0)
        fail(EXIT_USAGE, "--valid FILE or --hold-out PART, and not both");
    if (flag_was_read("steps") && flag_was_read("epochs"))
        fail(EXIT_USAGE, "--steps or --epochs, and not both");
    for (int i = 0; i < 2 && !r->folder; i++)
        if (flag_was_read(i ? "keep" : "every"))
            fail(EXIT_USAGE, "--%s is about checkpoints: --checkpoint DIR says where they go",
                 i ? "keep" : "every");
    if (option.separator && !*option.separator) fail(EXIT_USAGE, "--separator is empty");
    if (option.lr == 0) option.lr = is_lora() ? 2e-4 : 2e-5;
}

/* Declares that a resumed run must have the same data and the same frozen weights. */
static void declare_data(const tuning *t, run *r) {
    const documents *d = &t->documents, *held = &t->held_documents;
    if (option.task) labels_declare(t, r);
    const contents ids = {.bytes = (unsigned char *)d->ids,
                          .length = d->n * (int64_t)sizeof *d->ids};
    run_same_text(r, &ids);
    run_same_ids(r, d->targets, d->n);
    run_same_ids(r, held->ids, held->n);
    run_same_ids(r, held->targets, held->n);
    run_same_model(r, t->lm, ct_lm_about(t->lm).config);
}

/* Opens and reads everything, trains, and writes the result. Returns the exit code. */
static int fine_tune(tuning *t, run *r, const char *folder, const flag *flags, int n_flags) {
    t->date = (double)chat_date(&option.chat, cti_os_time());
    if (!option.chat.date) run_peek(r, "date", &t->date);
    run_restore(r, "date", &t->date);
    finetune_open(t, r, folder);
    run_same_flags(
        r, flags, n_flags,
        "task template tools variables date parse-special length padded full rank alpha "
        "dropout targets merge adapter-only floats base bf16 batch "
        "accumulate shares method beta label-smoothing steps lr min-lr warmup decay bf16-states "
        "clip eval-every hold-out seed "
        "matmul");
    declare_data(t, r);
    r->all.trained = is_lora();
    ct_module_train(t->lm, true);
    const memory_estimate memory = describe(t, r);
    if (option.sample && run_is_first(r)) finetune_write_sample(t, 0);
    ct_optim *optim = finetune_optim(t);
    r->dist =
        ct_dist_new(optim, r->world,
                    (ct_dist_opts){.micro_batches = option.accumulate, .shares = option.shares});
    check(t->context, EXIT_USAGE);
    catch_interrupts();
    const training done = finetune_train(t, r, optim);
    if (option.task && t->held.n && run_is_first(r)) labels_report(t);
    const int code = finetune_end(t, r, done);
    printf("Memory at most %.0f MB; about %.0f were expected\n", system_peak_memory() * 1e-6,
           memory_sum(&memory) * 1e-6);
    run_end(r);
    return code;
}

int main(int argc, char **argv) {
    run r = {.every = 100, .keep = 3};
    const flag flags[] = {
        flag_text("data", &option.data, "FILE",
                  "plain text, or JSON: objects in lines or in an array"),
        flag_choice("task", &option.task, "classify|tag",
                    "train a classifier: of \"text\" and \"label\" (JSON, CSV), or of \"tokens\" "
                    "and \"tags\""),
        flag_text("valid", &option.valid, "FILE", "data for validation, of the same kinds"),
        flag_real("hold-out", &option.hold_out, "PART", 0, 0.9,
                  "part of the data to hold out for validation, instead of --valid"),
        flag_text("separator", &option.separator, "TEXT",
                  "text between documents of a plain text; default: one document"),
        flag_choice("format", &option.format, "text|json",
                    "what the data is; default: JSON if the file begins or is named so"),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in texts are ordinary text"),
        CHAT_FLAGS(option.chat),
        flag_integer("length", &option.length, 2, 1e6,
                     "tokens in a row, at most the model's limit"),
        flag_switch("padded", &option.padded, "one document in each row, padded"),
        flag_heading("Parameters"),
        flag_switch("lora", &option.lora, "train adapters (the default)"),
        flag_switch("full", &option.full, "train all parameters"),
        flag_integer("rank", &option.rank, 1, 4096, "rank of the adapters"),
        flag_real("alpha", &option.alpha, "X", 1e-6, 1e6,
                  "adapters are multiplied by alpha / rank"),
        flag_real("dropout", &option.dropout, "P", 0, 0.99, "dropout of the adapters' input"),
        flag_text("targets", &option.targets, "LIST",
                  "Linears with adapters, such as q_proj,v_proj; default: all-linear"),
        flag_weights("base", &option.base,
                     "what the frozen matrices are kept in; default: f32, and a GGUF's blocks"),
        flag_switch("bf16", &option.bf16, "--base bf16: half the memory"),
        flag_switch("recompute", &option.recompute,
                    "run layers again in backward: less memory, more time"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's config.json that no model has are no error"),
        flag_heading("Training"),
        flag_choice("method", &option.method, "sft|dpo|orpo",
                    "learn texts, or of two answers which is better; sft: supervised fine-tuning"),
        flag_real("beta", &option.beta, "X", 1e-6, 1e3,
                  "weight of dpo's distance to the reference, or of orpo's preference"),
        flag_real("label-smoothing", &option.label_smoothing, "PART", 0, 0.49,
                  "part of the pairs that is taken to be labelled the wrong way round"),
        flag_integer("batch", &option.batch, 1, MOST_ROWS, "rows in a micro-batch"),
        flag_integer("accumulate", &option.accumulate, 1, 65536, "micro-batches in a step"),
        flag_integer("shares", &option.shares, 1, 65536,
                     "most ranks that can train; a power of two that divides --accumulate"),
        flag_integer("steps", &option.steps, 0, 1e9,
                     "number of training steps; 0: given by --epochs"),
        flag_integer("epochs", &option.epochs, 1, 1e6, "passes over the data"),
        flag_real("lr", &option.lr, "X", 0, 10,
                  "highest learning rate; 0: 2e-4 for adapters, 2e-5 for all;"
                  " a twentieth for preferences"),
        flag_real("min-lr", &option.min_lr, "PART", 0, 1,
                  "part of the learning rate that is left at the end"),
        flag_real("warmup", &option.warmup, "PART", 0, 1,
                  "part of the steps in which the learning rate rises"),
        flag_real("decay", &option.decay, "X", 0, 10, "weight decay of matrices"),
        flag_switch("bf16-states", &option.bf16_states,
                    "keep AdamW's averages in bf16: half their memory"),
        flag_real("clip", &option.clip, "X", 0, 1e9, "largest norm of the gradient; 0: any"),
        flag_integer("eval-every", &option.eval_every, 1, 1e9,
                     "steps from one validation to the next"),
        flag_text("sample", &option.sample, "PROMPT",
                  "print the model's continuation of this text during training"),
        flag_integer("sample-every", &option.sample_every, 1, 1e9, "steps between samples"),
        flag_integer("sample-tokens", &option.sample_tokens, 1, 1000, "most tokens of a sample"),
        flag_heading("The run"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random numbers"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_matmul(&option.matmul),
        flag_text("out", &option.out, "PATH",
                  "new folder for the adapters or the model, or NAME.gguf for the whole model"),
        flag_switch("keep-partial", &option.keep_partial,
                    "write the folder also if the run is interrupted"),
        flag_switch("allow-worse", &option.allow_worse,
                    "write the folder also if the loss is larger than before the training"),
        flag_switch("merge", &option.merge, "add the adapters to the weights, and save the model"),
        flag_switch("adapter-only", &option.adapter_only, "NAME.gguf is for the adapters alone"),
        flag_choice("floats", &option.floats, "same|f32|f16|bf16|q8_0|q4_0",
                    "the format of a saved model's weights; q8_0 and q4_0 are for NAME.gguf"),
        flag_text("checkpoint", &r.folder, "DIR",
                  "folder of checkpoints; continues from the newest one, with equal flags"),
        flag_integer("every", &r.every, 1, 1e9, "steps from one checkpoint to the next"),
        flag_integer("keep", &r.keep, 1, 1e9, "number of newest checkpoints to keep"),
        flag_text("log", &r.log_path, "FILE", "file with a line of JSON for each step"),
    };
    const char *usage = "FOLDER|FILE.gguf --data FILE --out PATH [flags]\n\n"
                        "Fine-tunes a language model of a Hugging Face folder or a GGUF file.\n\n"
                        "The data:";
    run_profile_catch();
    const int n_flags = sizeof flags / sizeof *flags;
    if (read_flags(argc, argv, flags, n_flags, usage) != 1)
        fail_usage("one folder or GGUF file of a model is needed");
    check_flags(&r);
    const ct_context_opts opts = {.seed = (uint64_t)option.seed,
                                  .threads = (int)option.threads,
                                  .matmul = (ct_matmul_precision)option.matmul};
    tuning t = {.context = ct_context_new(opts)};
    check(t.context, EXIT_USAGE);
    option.matmul = ct_get_matmul(t.context); /* the environment variable may have set it */
    r.context = t.context;
    r.world = example_world(t.context);
    check(t.context, EXIT_FAILED);
    speak_as(ct_comm_rank(r.world), ct_comm_size(r.world));
    input_paths(1, (char *[]){(char *)option.data});
    if (option.valid) input_paths(1, (char *[]){(char *)option.valid});
    if (run_is_first(&r)) {
        run_files(&r);
        t.out_exists = result_check(option.out, run_goes_on(&r));
    }
    const int code = fine_tune(&t, &r, argv[1], flags, n_flags);
    rows_free(&t.rows);
    rows_free(&t.held);
    documents_free(&t.documents);
    documents_free(&t.held_documents);
    labelled_free(&t.labelled);
    labelled_free(&t.held_labelled);
    free(t.order.order);
    free(t.reference);
    free(t.held_reference);
    ct_context_free(t.context);
    return code;
}
