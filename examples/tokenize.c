/* Writes files of text as one file of token ids, for ct_tokens_open, nanoGPT or llm.c: each byte is
 * an id, 0 to 255. The program reads and writes blocks, so neither input nor output has to fit in
 * memory. The input "-" is standard input. The ids go to a temporary file that is renamed when it
 * is complete. */
#include "common.h"
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, HEADER = 256, MOST_IN_HEADER = 2147483647 };

static struct {
    const char *path;        /* as in --out */
    output file;             /* the file to which the ids are written */
    long long bytes, header; /* the values of the flags */
    long long ids;           /* the number of ids written so far */
} out = {.path = "tokens.bin", .bytes = 2};

/* ---- writing ---- */

static void on_signal(int number) { /* calls only functions that a signal handler may call */
    output_remove();
    _Exit(128 + number);
}

static void put(const unsigned char *data, size_t size) {
    if (fwrite(data, 1, size, out.file.file) != size)
        fail(EXIT_FAILED, "cannot write %s: %s", out.path, strerror(errno));
}

/* Writes ids as little-endian numbers of out.bytes bytes. */
static void put_ids(const unsigned char *text, size_t n) {
    static unsigned char ids[4 * PIECE];
    const size_t bytes = (size_t)out.bytes;
    for (size_t i = 0; i < n; i++) ids[i * bytes] = text[i]; /* the other bytes stay 0 */
    put(ids, n * bytes);
    out.ids += (long long)n;
    if (out.header && out.ids > MOST_IN_HEADER)
        fail(EXIT_FAILED,
             "more than %d ids, the most that llm.c's header can say: use several files",
             MOST_IN_HEADER);
}

/* Writes llm.c's header: 256 little-endian numbers of 4 bytes, of which the first three are the
 * magic number, the version and the count of ids. With ids of 2 bytes it is the header of GPT-2's
 * files, with ids of 4 bytes that of Llama 3's. */
static void put_header(void) {
    const uint32_t numbers[] = {out.bytes == 2 ? 20240520 : 20240801, out.bytes == 2 ? 1 : 7,
                                (uint32_t)out.ids};
    unsigned char header[4 * HEADER] = {0};
    for (int i = 0; i < 12; i++) header[i] = (unsigned char)(numbers[i / 4] >> 8 * (i % 4));
    put(header, sizeof header);
}

/* Writes the count of ids into the header; it is known only at the end. */
static void finish(void) {
    if (out.header) {
        if (fseek(out.file.file, 0, SEEK_SET))
            fail(EXIT_FAILED, "cannot write %s: %s", out.path, strerror(errno));
        put_header();
    }
    output_end(&out.file);
}

/* ---- reading ---- */

static void add_file(const char *path) {
    const bool standard = !strcmp(path, "-");
    FILE *file = standard ? stdin : system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    static unsigned char text[PIECE];
    size_t n;
    do {
        n = fread(text, 1, sizeof text, file);
        put_ids(text, n);
    } while (n == sizeof text);
    if (ferror(file))
        fail(EXIT_USAGE, "cannot read %s: %s", standard ? "standard input" : path, strerror(errno));
    if (!standard) fclose(file);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("out", &out.path, "FILE", "where the ids go"),
        flag_integer("bytes", &out.bytes, 2, 4, "of an id: 2 or 4"),
        flag_switch("header", &out.header, "begin with llm.c's header"),
    };
    const int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags,
                                 "[flags] FILE...\n\nWrites text as token ids, one for each byte; "
                                 "the file - is standard input:");
    if (!files) fail(EXIT_USAGE, "no text (--help says more)");
    if (out.bytes == 3) fail(EXIT_USAGE, "--bytes must be 2 or 4, not 3");
    input_paths(files, argv + 1);
    out.path = output_path(NULL, out.path);
    output_begin(&out.file, out.path, true);
    system_on_interrupt(on_signal, false);
    if (out.header) put_header();
    for (int i = 1; i <= files; i++) add_file(argv[i]);
    if (!out.ids) fail(EXIT_USAGE, "there is no text in the input");
    finish();
    printf("%s: %lld ids of %lld bytes, vocabulary 256\n", out.path, out.ids, out.bytes);
    return 0;
}
