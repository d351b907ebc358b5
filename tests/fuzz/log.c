/* A log of any bytes, from which a run resumes after the step that the first byte gives. Either the
 * log is refused with the path and stays unchanged; or its lines are of steps 1, 2, 3, ..., the
 * file is cut behind them, and lines that are written next can be read back. */
#include "fuzz.h"

#include <math.h>

#include "programs/run_log.h"

enum { ROOM = 1 << 14 };

typedef struct {
    int64_t n;
    uint8_t kept[ROOM]; /* the lines, written again */
    size_t size;
} lines;

static void take(void *to, const log_line *line) {
    lines *l = to;
    char text[LOG_LINE];
    const int length = log_line_print(line, text);
    MUST(line->step == ++l->n && line->peak_bytes >= 0 && length > 0 && length < LOG_LINE);
    MUST(!isinf(line->loss) && !isinf(line->validation) && !isinf(line->seconds));
    if (l->size + (size_t)length > ROOM) return;
    memcpy(l->kept + l->size, text, (size_t)length);
    l->size += (size_t)length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lines first, second;
    static uint8_t now[ROOM + LOG_LINE];
    if (!*fuzz_folder) fuzz_begin();
    if (size < 1 || size > ROOM / 4) return 0;
    const int64_t steps = data[0] % 16;
    const char *path = fuzz_path("input");
    fuzz_write(path, data + 1, size - 1);
    first.n = second.n = 0;
    first.size = second.size = 0;
    run_log log;
    MUST(run_log_open(&log, path));
    if (!run_log_resume(&log, steps, take, &first)) {
        MUST(first.n < steps && !strncmp(log.fault, path, strlen(path)));
        MUST(fuzz_read(path, now, sizeof now) == size - 1 && !memcmp(now, data + 1, size - 1));
        run_log_close(&log);
        return 0;
    }
    const log_line next = {.step = steps + 1, .loss = 0.5, .validation = NAN};
    MUST(first.n == steps && run_log_append(&log, &next));
    run_log_close(&log);
    const size_t left = fuzz_read(path, now, sizeof now);
    MUST(left <= size - 1 + LOG_LINE && now[left - 1] == '\n');

    /* lines that were read and are written again are read as the same lines */
    fuzz_write(path, first.kept, first.size);
    MUST(run_log_open(&log, path) && run_log_resume(&log, steps, take, &second));
    MUST(second.size == first.size && !memcmp(second.kept, first.kept, first.size));
    run_log_close(&log);
    return 0;
}
