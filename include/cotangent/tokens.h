/* This header has training data that may be larger than memory: batches of token ids, which are
 * read directly from files.
 *
 *     const char *paths[] = {"train_000.bin", "train_001.bin"};
 *     ct_tokens *tokens = ct_tokens_open(context, paths, 2, (ct_tokens_opts){.vocabulary = 50257});
 *     for (; run.step < steps; run.step++) {
 *         ct_scope scope = ct_scope_open(context);
 *         ct_tensor *x, *y;
 *         if (!ct_tokens_batch(tokens, 1, run.step, 8, 1024, &x, &y)) break;
 *         ...
 *
 * A batch is a function of only the files, seed, index, B and T. It has the same ids for any number
 * of threads, in any order of calls, and after a resume. So a checkpoint needs only the step to
 * resume the data, and with several ranks micro-batch i of step s is batch s * micro_batches + i.
 *
 * A window is T + 1 consecutive ids of one file. Window k of a file has ids k T ... k T + T; it
 * exists if the file has all of them. So each id of the windows, except the first, is a target
 * once. A file of T ids or fewer has no window. An epoch visits each window of all files once, in
 * an order that (seed, epoch) fixes: a keyed permutation, which takes no memory. Row b of a batch
 * is window number n = index * B + b of the sequence: with W windows in all, it is place n % W of
 * epoch n / W. So a batch at the end of an epoch is filled up with windows of the next epoch.
 *
 * Files are read by pread and never mapped. So memory does not grow with their size, and a file
 * that another program cuts is an error and not a signal. */
#ifndef CT_TOKENS_H
#define CT_TOKENS_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ct_tokens ct_tokens;

typedef struct {
    /* the number of different ids: each id must be in [0, vocabulary). A batch that has another id
     * is CT_ERR_FORMAT. 0: every id below 2^63 is valid */
    int64_t vocabulary;
    int bytes; /* the size of an id, which is unsigned: 2, 4 or 8 bytes; 0: the size that the file's
                * header has, or 2 without a header */
} ct_tokens_opts;

/* Opens n >= 1 files of ids, which are little-endian on every machine. The files may be of three
 * kinds, also mixed:
 *
 * - a file of ids only, as nanoGPT's prepare.py writes it;
 * - a file of llm.c, with a header of 256 i32: number 0 is 20240520 or 20240801, number 1 is the
 *   version (1: ids of u16, as for GPT-2; 7: ids of u32, as for Llama 3), and number 2 is the count
 *   of the ids that follow;
 * - a file of NumPy (.npy): an array of one dim whose dtype is '<u2', '<u4', '<u8', '<i4' or '<i8'.
 *   An id that is negative, or 2^63 or more, is CT_ERR_FORMAT when it is read.
 *
 * Headers and sizes are checked now, and ids when they are read. A relative path is resolved now,
 * so the program may change its folder later. Up to 64 files stay open until ct_tokens_close or
 * ct_context_free.
 *
 * Returns NULL after an error:
 *
 * - CT_ERR_ARGUMENT: a NULL, n < 1, a negative vocabulary, or bytes other than 0, 2, 4 and 8;
 * - CT_ERR_IO: a file that cannot be opened or is not an ordinary file;
 * - CT_ERR_FORMAT, with the offset: a header of another version, a header whose count or width
 *   contradicts the file or .bytes, or a size that is no whole number of ids;
 * - CT_ERR_FORMAT: a NumPy array of another dtype (a big-endian one too) or of several dims;
 * - CT_ERR_FORMAT, with the name of the format: a file without a header of these whose first bytes
 *   belong to another format (an .npz or other zip archive, gzip, a pickle, safetensors, Parquet,
 *   Arrow, a text, ...).
 *
 * NumPy's `ids.astype(numpy.uint16).tofile(path)` writes a file of ids only. Without the astype it
 * writes int64, which nothing in the file reveals: .bytes = 8 reads it, and read as u16 at least
 * every second id is 0. */
CT_API ct_tokens *ct_tokens_open(ct_context *context, const char *const *paths, int n,
                                 ct_tokens_opts opts);

/* Reads batch `index` >= 0 of an endless sequence. *x and *y are new tensors of the innermost
 * scope, i64 (B, T); y[b, t] is the id that follows x[b, t] in the file.
 *
 * Returns false after an error, and *x and *y are unchanged:
 *
 * - CT_ERR_ARGUMENT: B or T < 1, a negative index, an index so large that the number of a window
 *   overflows i64, no file with T + 1 ids, a NULL, or a use after close;
 * - CT_ERR_MEMORY;
 * - CT_ERR_FORMAT, with the file and the offset: an id outside the vocabulary, or a file whose size
 *   has changed since open (also if it has grown, because another number of windows means another
 *   order);
 * - CT_ERR_IO, with the file and the offset: a read that fails, a path that no longer exists or
 *   names another file, or a file that was written to since open (its time of modification has
 *   changed). */
CT_API bool ct_tokens_batch(ct_tokens *tokens, uint64_t seed, int64_t index, int64_t B, int64_t T,
                            ct_tensor **x, ct_tensor **y);

/* Return the number of ids in all files, and the number of windows of T + 1 ids; an epoch is
 * windows / B batches. They return 0 for NULL, and after an error: T < 1, or a use after close. */
CT_API int64_t ct_tokens_count(const ct_tokens *tokens);
CT_API int64_t ct_tokens_windows(const ct_tokens *tokens, int64_t T);

/* Closes the files. It does nothing for NULL, or if they are closed already. */
CT_API void ct_tokens_close(ct_tokens *tokens);

#ifdef __cplusplus
}
#endif
#endif
