/* Prints a profile as two tables: ops, the longest time first, and the tree of modules. */
#include <string.h>

#include <cotangent/autograd.h>

#include "../core/profile.h"

static double milliseconds(int64_t nanoseconds) { return (double)nanoseconds * 1e-6; }
static int64_t total_time(const cti_profile_row *row) { return row->time[0] + row->time[1]; }

/* Prints a name behind `indent` spaces, padded to `width` characters. */
static void region_name_print(FILE *file, int indent, const char *name, int width) {
    fprintf(file, "%*s", indent, "");
    for (const char *c = name; *c; c++)
        fputc((unsigned char)*c < ' ' || *c == 127 ? '?' : *c, file);
    const int length = indent + (int)strlen(name);
    fprintf(file, "%*s", length < width ? width - length : 0, "");
}

/* Prints a count, or "-" if it is 0. */
static void count_put(FILE *file, int64_t count) {
    if (count) fprintf(file, "  %8lld", (long long)count);
    else fprintf(file, "  %8s", "-");
}
static void number_print(FILE *file, int width, int digits, bool shown, double number) {
    if (shown) fprintf(file, "  %*.*f", width, digits, number);
    else fprintf(file, "  %*s", width, "-");
}

static void share_put(FILE *file, int64_t time, int64_t wall) {
    fprintf(file, "  %5.1f %%", wall > 0 ? 100 * (double)time / (double)wall : 0);
}

/* ---- ops ---- */

static int name_width(const cti_profile_table *table) {
    int width = 16;
    for (int i = 0; i < table->count; i++) {
        const int length = (int)strlen(table->row[i].name);
        if (length > width && length <= 32) width = length;
    }
    return width;
}

static void op_print(FILE *file, const cti_profile_row *row, int width, int64_t wall) {
    const int64_t time = total_time(row);
    region_name_print(file, 0, row->name, width);
    for (int b = 0; b < 2; b++) {
        count_put(file, row->calls[b]);
        number_print(file, 9, 2, row->calls[b], milliseconds(row->time[b]));
    }
    share_put(file, time, wall);
    number_print(file, 7, 1, row->flops > 0 && time > 0, row->flops / (double)time);
    number_print(file, 7, 1, row->flops == 0 && row->bytes && time > 0,
                 (double)row->bytes / (double)time);
    number_print(file, 8, 2, row->made, (double)row->made * 1e-6);
    number_print(file, 8, 2, row->kept, (double)row->kept * 1e-6);
    fputc('\n', file);
}

/* The row with the longest time among the rows that are not listed yet, or -1 if none is left. */
static int longest(const cti_profile_table *table, const bool *listed) {
    int best = -1;
    for (int i = 0; i < table->count; i++) {
        const cti_profile_row *row = &table->row[i];
        const bool ran = row->calls[0] || row->calls[1];
        if (ran && !listed[i] && (best < 0 || total_time(row) > total_time(&table->row[best])))
            best = i;
    }
    return best;
}

static void ops_put(FILE *file, const cti_profile *p, int64_t wall) {
    const cti_profile_table *table = &p->ops;
    const int width = name_width(table);
    bool listed[CT_PROFILE_OPS + CTI_PROFILE_FIRST] = {false};
    int64_t inside = 0;
    fprintf(file, "%*s  %19s  %19s\n", width, "", "forward, update", "backward");
    fprintf(file, "%-*s  %8s  %9s  %8s  %9s  %7s  %7s  %7s  %8s  %8s\n", width, "op", "calls", "ms",
            "calls", "ms", "share", "GFLOP/s", "GB/s", "made, MB", "kept, MB");
    for (int i = longest(table, listed); i >= 0; i = longest(table, listed)) {
        listed[i] = true;
        inside += total_time(&table->row[i]);
        op_print(file, &table->row[i], width, wall);
    }
    region_name_print(file, 0, "outside ops", width);
    fprintf(file, "  %8s  %9.2f  %8s  %9s", "", milliseconds(wall - inside), "", "");
    share_put(file, wall - inside, wall);
    fputc('\n', file);
}

/* ---- modules ---- */

/* The time of a module and of all modules that it has called, in forward and in backward. A row is
 * made after the row of its parent. */
typedef struct {
    int64_t time[2];
    int depth;
} module_total;

static void modules_sum(const cti_profile_table *table, module_total *sum) {
    for (int i = 0; i < table->count; i++) {
        const cti_profile_row *row = &table->row[i];
        sum[i] = (module_total){.time = {row->time[0], row->time[1]}};
        if (i >= CTI_PROFILE_FIRST && row->parent) sum[i].depth = sum[row->parent].depth + 1;
    }
    for (int i = table->count - 1; i >= CTI_PROFILE_FIRST; i--) {
        const int parent = table->row[i].parent;
        for (int b = 0; parent && b < 2; b++) sum[parent].time[b] += sum[i].time[b];
    }
}

/* The first row after row `after` that has this parent, or 0 if there is none. */
static int next_child(const cti_profile_table *table, int parent, int after) {
    for (int i = after + 1; i < table->count; i++)
        if (i >= CTI_PROFILE_OTHERS && table->row[i].parent == parent) return i;
    return 0;
}

/* The row that follows row i in the tree: its first child or, if it has none, the next child of its
 * parent or of the nearest ancestor that has one. */
static int next_in_tree(const cti_profile_table *table, int i) {
    int next = next_child(table, i, 0);
    for (; !next && i; i = table->row[i].parent) next = next_child(table, table->row[i].parent, i);
    return next;
}

static void module_put(FILE *file, const cti_profile_row *row, const module_total *sum, int width,
                       int64_t wall) {
    region_name_print(file, 2 * sum->depth, row->name, width);
    count_put(file, row->calls[0] + row->calls[1]);
    for (int b = 0; b < 2; b++)
        number_print(file, 9, 2, sum->time[b] > 0, milliseconds(sum->time[b]));
    share_put(file, sum->time[0] + sum->time[1], wall);
    fprintf(file, "  %9.2f", milliseconds(total_time(row)));
    share_put(file, total_time(row), wall);
    fputc('\n', file);
}

static void modules_put(FILE *file, const cti_profile *p, int64_t wall) {
    const cti_profile_table *table = &p->modules;
    module_total sum[CT_PROFILE_MODULES + CTI_PROFILE_FIRST];
    const int width = name_width(table) + 8;
    modules_sum(table, sum);
    fprintf(file, "\n%*s  %8s  %29s  %18s\n", width, "", "", "with all inside", "its own");
    fprintf(file, "%-*s  %8s  %9s  %9s  %7s  %9s  %7s\n", width, "module", "calls", "forward",
            "backward", "share", "ms", "share");
    int i = next_child(table, CTI_PROFILE_NONE, 0);
    for (; i; i = next_in_tree(table, i))
        if (sum[i].time[0] + sum[i].time[1] > 0)
            module_put(file, &table->row[i], &sum[i], width, wall);
    module_put(file, &table->row[CTI_PROFILE_NONE], &sum[CTI_PROFILE_NONE], width, wall);
}

void ct_profile_print(ct_context *context, FILE *file) {
    if (!context) return;
    if (!file) {
        ct_fail(context, CT_ERR_ARGUMENT, "profile_print: file is NULL");
        return;
    }
    const cti_profile *p = context->profile;
    if (!p || !p->events_count) {
        fputs(p ? "Profile: nothing has run since ct_profile_start.\n"
                : "Profile: ct_profile_start was not called.\n",
              file);
    } else {
        const int64_t wall = cti_profile_wall(p);
        fprintf(file, "Profile of %.1f ms, %s, %d thread%s\n\n", milliseconds(wall),
                ct_isa_name(context), ct_threads(context), ct_threads(context) == 1 ? "" : "s");
        ops_put(file, p, wall);
        modules_put(file, p, wall);
        if (p->dropped)
            fprintf(file, "\nThe trace has the first %lld calls; %lld later ones did not fit.\n",
                    (long long)p->events_count, (long long)p->dropped);
    }
    if (ferror(file)) ct_fail(context, CT_ERR_IO, "profile_print: the file cannot be written to");
}
