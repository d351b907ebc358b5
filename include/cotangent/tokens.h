/* Training data that is larger than memory: batches of token ids read straight from files.
 *
 *     const char *paths[] = {"train_000.bin", "train_001.bin"};
 *     ct_tokens *tokens = ct_tokens_open(context, paths, 2, (ct_tokens_opts){.vocabulary = 50257});
 *     for (; run.step < steps; run.step++) {
 *         ct_scope scope = ct_scope_open(context);
 *         ct_tensor *x, *y;
 *         if (!ct_tokens_batch(tokens, 1, run.step, 8, 1024, &x, &y)) break;
 *         ...
 *
 * A batch is a function of the files, seed, index, B and T alone: the same bits for any number of
 * threads, in any order of calls, after a resume. So a checkpoint's step is all that data needs,
 * and with several ranks micro-batch i of step s is batch s * micro_batches + i.
 *
 * A window of a file is T + 1 ids that follow each other: ids [k T, k T + T] for k = 0, 1, ... as
 * long as the file has them all, so that each id but the first is a target once. A file of T ids or
 * fewer has no window, and no window spans two files. An epoch visits each window of all files
 * once, in an order that (seed, epoch) fixes: a keyed permutation, which takes no memory. Row b of
 * a batch is window number index * B + b; with W windows, epoch number / W, place number % W. So a
 * batch at the end of an epoch is filled up from the next one.
 *
 * Files are read by pread and never mapped: memory does not grow with them, and a file that another
 * program changes is an error and not a signal. */
#ifndef CT_TOKENS_H
#define CT_TOKENS_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ct_tokens ct_tokens;

typedef struct {
    /* ids are in [0, vocabulary); one that is not is CT_ERR_FORMAT when a batch has it. 0: any */
    int64_t vocabulary;
    int bytes; /* of an id: 2 or 4, unsigned; 0: as the file's header says, without one 2 */
} ct_tokens_opts;

/* Opens n >= 1 files of ids, little-endian on every machine. Two kinds, which may be mixed:
 *
 * - nothing but ids, as nanoGPT's prepare.py writes them;
 * - llm.c's, whose first number is 20240520 or 20240801: 256 i32, of which number 1 is the version
 *   (1: u16, as for GPT-2; 7: u32, as for Llama 3) and number 2 how many ids follow.
 *
 * Checks headers and sizes; ids are checked as they are read. A relative path is looked up now, and
 * keeps its meaning if the program changes its folder. Up to 64 files stay open, until
 * ct_tokens_close or ct_context_free.
 *
 * NULL: CT_ERR_ARGUMENT for a NULL, n < 1, a negative vocabulary, other bytes; CT_ERR_IO for what
 * cannot be opened or is not an ordinary file; CT_ERR_FORMAT, with the offset, for a header of
 * another version, one whose count or width is not that of the file or of .bytes, and a size that
 * is no whole number of ids. A file without llm.c's header that is of another format by its first
 * bytes (.npy, a zip archive, gzip, a pickle, safetensors, Parquet, Arrow, a text, ...) is
 * CT_ERR_FORMAT with its name. NumPy's `ids.astype(numpy.uint16).tofile(path)` writes ids alone; of
 * a file of int64, which no header tells, every second id and more is 0. */
CT_API ct_tokens *ct_tokens_open(ct_context *context, const char *const *paths, int n,
                                 ct_tokens_opts opts);

/* Batch `index` >= 0 of an endless sequence: *x and *y are new tensors of the innermost scope, i64
 * (B, T), y[b, t] the id behind x[b, t].
 *
 * False, with *x and *y as they were: CT_ERR_ARGUMENT for B or T < 1, a negative index, one so
 * large that the number of a window overflows i64, files of which none has T + 1 ids, a NULL, or a
 * use after close; CT_ERR_MEMORY; and with the file and the offset
 *
 * - CT_ERR_FORMAT: an id outside the vocabulary, or a file whose size is no longer that at open
 *   (smaller or larger, as another number of windows is another order);
 * - CT_ERR_IO: a read that fails, or a path that is gone, names another file, or whose file was
 *   written to since open (its time of modification has changed). */
CT_API bool ct_tokens_batch(ct_tokens *tokens, uint64_t seed, int64_t index, int64_t B, int64_t T,
                            ct_tensor **x, ct_tensor **y);

/* The ids in all files, and the windows of T + 1 of them: an epoch is windows / B batches. 0, with
 * an error unless it is NULL: after close, or T < 1. */
CT_API int64_t ct_tokens_count(const ct_tokens *tokens);
CT_API int64_t ct_tokens_windows(const ct_tokens *tokens, int64_t T);

CT_API void ct_tokens_close(ct_tokens *tokens); /* NULL, or closed already: does nothing */

#ifdef __cplusplus
}
#endif
#endif
