/* The pieces of a corpus and their counts.
 *
 * Files are read in blocks. A block ends at a place that no piece crosses: behind a line end, or in
 * front of a space between two ASCII letters, which every known expression begins a new piece with.
 * The rest of the block moves to the beginning of the next one. A block that has no such place
 * grows. The threads of the context divide a block at such places, and each has a tally of its own;
 * the counts of a text are added at the end, so they do not depend on the number of threads. */
#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/parallel.h"
#include "../../src/io/file.h"
#include "train.h"
#include "utf8.h"

enum { BLOCK = 1 << 22, CHUNK = 1 << 18, MOST_CHUNKS = 64, MOST_BLOCK = 1 << 30 };

typedef struct {
    const cti_training *training;
    bool begins[256]; /* the first bytes of special tokens */
    bool lines_only;  /* a block is cut only at line ends */
    int threads;
    cti_tally *tally; /* [threads] */
    bool *failed;     /* [threads]: memory was short */
    char *text;       /* the block, of which `size` bytes are read */
    size_t size, room;
    int64_t read, total;         /* bytes of all files */
    size_t cut[MOST_CHUNKS + 1]; /* the limits of the chunks of a block */
} train_counter;

/* ---- a chunk ---- */

/* The length of the longest special token at `at`; 0 if there is none. */
static size_t special_at(const train_counter *counter, const char *at, size_t size) {
    size_t longest = 0;
    for (int64_t i = 0; i < counter->training->n_special; i++) {
        const cti_text *special = &counter->training->special[i];
        if (special->size <= size && special->size > longest &&
            !memcmp(special->at, at, special->size))
            longest = special->size;
    }
    return longest;
}

/* Counts the pieces of a text without line ends, but for its last byte, and special tokens. */
static bool section_tally(const train_counter *counter, cti_tally *tally, const char *at,
                          size_t size) {
    cti_next_piece *next = counter->training->next;
    for (size_t i = 0; i < size;) {
        const size_t end = next ? next(at, size, i) : size;
        if (cti_tally_add(tally, at + i, end - i, 1) == CTI_TALLY_FULL) return false;
        i = end;
    }
    return true;
}

static bool line_tally(const train_counter *counter, cti_tally *tally, const char *at,
                       size_t size) {
    size_t begin = 0;
    for (size_t i = 0; counter->training->n_special && i < size;) {
        const size_t length =
            counter->begins[(unsigned char)at[i]] ? special_at(counter, at + i, size - i) : 0;
        if (length) {
            if (!section_tally(counter, tally, at + begin, i - begin)) return false;
            begin = i + length;
        }
        i += length ? length : 1;
    }
    return section_tally(counter, tally, at + begin, size - begin);
}

static bool lines_tally(const train_counter *counter, cti_tally *tally, const char *at,
                        size_t size) {
    for (size_t i = 0; i < size;) {
        const char *line_end = memchr(at + i, '\n', size - i);
        const size_t end = line_end ? (size_t)(line_end - at) + 1 : size;
        if (!line_tally(counter, tally, at + i, end - i)) return false;
        i = end;
    }
    return true;
}

/* Counts a text that has ill-formed parts: each is U+FFFD. */
static bool line_tally_repaired(const train_counter *counter, cti_tally *tally, const char *at,
                                size_t size) {
    if (size > SIZE_MAX / 3) return false;
    char *text = malloc(3 * size), *out = text; /* U+FFFD has 3 bytes */
    if (!text) return false;
    for (size_t i = 0; i < size;) {
        uint32_t c;
        i += cti_utf8_read(at + i, size - i, &c);
        out += cti_utf8_put(out, c);
    }
    const bool ok = lines_tally(counter, tally, text, (size_t)(out - text));
    free(text);
    return ok;
}

static void chunks_tally(void *arg, int64_t begin, int64_t end, int worker) {
    const train_counter *counter = arg;
    cti_tally *tally = &counter->tally[worker];
    for (int64_t i = begin; i < end && !counter->failed[worker]; i++) {
        const char *at = counter->text + counter->cut[i];
        const size_t size = counter->cut[i + 1] - counter->cut[i];
        counter->failed[worker] = cti_utf8_check(at, size) == size
                                      ? !lines_tally(counter, tally, at, size)
                                      : !line_tally_repaired(counter, tally, at, size);
    }
}

/* ---- a block ---- */

static bool is_cut_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The last place behind `begin` at which the first `size` bytes of the block may be cut; `begin` if
 * there is none. */
static size_t last_cut(const train_counter *counter, size_t begin, size_t size) {
    const char *text = counter->text;
    for (size_t i = size; i > begin; i--) {
        if (text[i - 1] == '\n') return i;
        if (!counter->lines_only && i + 1 < size && text[i] == ' ' && is_cut_letter(text[i - 1]) &&
            is_cut_letter(text[i + 1]))
            return i;
    }
    return begin;
}

/* Counts the first `size` bytes of the block, and moves the rest to its beginning. */
static bool block_tally(train_counter *counter, size_t size) {
    const int64_t most = MOST_CHUNKS;
    const size_t chunk = (size_t)cti_max(CHUNK, cti_ceil_div((int64_t)size, most));
    int64_t chunks = 0;
    for (size_t begin = 0; begin < size; chunks++) {
        counter->cut[chunks] = begin;
        size_t end = size;
        if (chunks + 1 < most && size - begin > chunk) {
            end = last_cut(counter, begin, begin + chunk);
            if (end == begin) end = size;
        }
        begin = end;
    }
    counter->cut[chunks] = size;
    cti_parallel(counter->training->context, chunks, 1, chunks_tally, counter);
    for (int i = 0; i < counter->threads; i++)
        if (counter->failed[i]) return cti_training_no_memory(counter->training);
    counter->size -= size;
    memmove(counter->text, counter->text + size, counter->size);
    const double done = (double)counter->read / (double)cti_max(1, counter->total);
    return cti_training_goes_on(counter->training, done / 2);
}

static bool block_grow(train_counter *counter, const cti_file *file) {
    if (counter->room >= MOST_BLOCK)
        return ct_fail(counter->training->context, CT_ERR_FORMAT,
                       "%s: %s: a line has more than %d bytes", cti_train_op, file->path,
                       MOST_BLOCK);
    const size_t room = counter->room ? 2 * counter->room : BLOCK;
    char *text = realloc(counter->text, room);
    if (!text) return cti_training_no_memory(counter->training);
    counter->text = text;
    counter->room = room;
    return true;
}

static bool file_tally(train_counter *counter, const char *path) {
    cti_file file;
    ct_context *context = counter->training->context;
    if (!cti_file_open(context, cti_train_op, path, &file)) return false;
    bool ok = true;
    for (int64_t at = 0; ok && at < file.size;) {
        if (counter->size == counter->room) {
            ok = block_grow(counter, &file);
            continue;
        }
        const int64_t n = cti_min(file.size - at, (int64_t)(counter->room - counter->size));
        ok = cti_file_read(&file, at, counter->text + counter->size, (size_t)n);
        if (!ok) break;
        char *read = counter->text + counter->size;
        const size_t mark = at == 0 && n >= 3 && !memcmp(read, "\xef\xbb\xbf", 3) ? 3 : 0;
        if (mark) memmove(read, read + mark, (size_t)n - mark); /* a byte order mark */
        at += n;
        counter->read += n;
        counter->size += (size_t)n - mark;
        const size_t cut = at == file.size ? counter->size : last_cut(counter, 0, counter->size);
        if (cut) ok = block_tally(counter, cut);
    }
    cti_file_close(&file);
    return ok;
}

/* Opens every file once, so that a path that is wrong is found before the work begins. */
static bool total_find(train_counter *counter, const char *const *paths, int64_t n) {
    ct_context *context = counter->training->context;
    for (int64_t i = 0; i < n; i++) {
        cti_file file;
        if (!paths[i])
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: path %lld of %lld is NULL", cti_train_op,
                           (long long)i, (long long)n);
        if (!cti_file_open(context, cti_train_op, paths[i], &file)) return false;
        counter->total += file.size;
        cti_file_close(&file);
    }
    return true;
}

/* ---- all files ---- */

static void set_specials(train_counter *counter) {
    counter->lines_only = !counter->training->next;
    for (int64_t i = 0; i < counter->training->n_special; i++) {
        const cti_text *special = &counter->training->special[i];
        counter->begins[(unsigned char)special->at[0]] = true;
        if (memchr(special->at, ' ', special->size)) counter->lines_only = true;
    }
}

bool cti_train_count(const cti_training *training, const char *const *paths, int64_t n,
                     cti_tally *pieces) {
    *pieces = (cti_tally){0};
    const int threads = cti_parallel_width(training->context);
    train_counter counter = {.training = training, .threads = threads};
    set_specials(&counter);
    counter.tally = calloc((size_t)threads, sizeof *counter.tally);
    counter.failed = calloc((size_t)threads, sizeof *counter.failed);
    bool ok = counter.tally && counter.failed ? total_find(&counter, paths, n)
                                              : cti_training_no_memory(training);
    for (int64_t i = 0; ok && i < n; i++) ok = file_tally(&counter, paths[i]);
    free(counter.text);
    if (ok) {
        *pieces = counter.tally[0];
        counter.tally[0] = (cti_tally){0};
    }
    for (int i = 0; i < threads && counter.tally; i++) {
        if (ok && i && !cti_tally_merge(pieces, &counter.tally[i]))
            ok = cti_training_no_memory(training);
        cti_tally_free(&counter.tally[i]);
    }
    free(counter.tally);
    free(counter.failed);
    return ok;
}
