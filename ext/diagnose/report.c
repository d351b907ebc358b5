/* The printed report. */
#include "diagnose.h"

#include <math.h>
#include <string.h>

const char *cti_diagnose_cotangent(int64_t output) {
    static const char *const name[] = {"random", "ones", "zeros", "scaled"}; /* for -1, -2, ... */
    return output >= 0 ? "1 at " : name[-1 - output];
}

const char *cti_diagnose_verdict(const ct_gradcheck_result *r) {
    static const char *const name[] = {[CT_VERDICT_OK] = "ok",
                                       [CT_VERDICT_WRONG] = "wrong",
                                       [CT_VERDICT_CANNOT_TELL] = "cannot tell"};
    return name[r->verdict];
}

/* Returns x, and for a NaN one without a sign: printf would show the sign, which has no meaning. */
static double shown_row(double x) { return isnan(x) ? (double)NAN : x; }

void cti_diagnose_report(const cti_check *check) {
    const ct_gradcheck_result *r = &check->result;
    FILE *file = check->opts.report;
    if (!file || !r->ran) return;
    if (r->ok)
        fprintf(file, "gradcheck: ok: %lld %s, error at most %.2g, noise of the differences %.2g\n",
                (long long)r->checked, check->opts.fast ? "directions" : "elements", r->error,
                r->noise);
    else fprintf(file, "gradcheck: %s: %s\n", cti_diagnose_verdict(r), r->diagnosis);
    for (int q = 0; q < check->count; q++)
        if (*check->checked[q].diagnosis && strcmp(check->checked[q].diagnosis, r->diagnosis))
            fprintf(file, "  and %s\n", check->checked[q].diagnosis);
    if (!r->wrong) return;
    fprintf(file, "  %lld of %lld %s wrong", (long long)(r->wrong - r->undecided),
            (long long)r->checked, check->opts.fast ? "directions are" : "elements are");
    if (r->undecided) fprintf(file, ", %lld undecided", (long long)r->undecided);
    fprintf(file, "; allowed is %.2g |g| + %.2g |numeric|; the worst:\n", check->opts.atol,
            check->opts.rtol);
    fprintf(file, "  %-16s %-16s %15s %15s %9s %9s %9s\n", "input", "cotangent", "analytic",
            "numeric", "error", "relative", "noise");
    for (int w = 0; w < r->worst_count; w++) {
        const ct_gradcheck_element *e = &r->worst[w];
        char input[CTI_SHAPE_TEXT + 16], cotangent[CTI_SHAPE_TEXT + 16];
        snprintf(input, sizeof input, "%d %s", e->input,
                 e->index < 0 ? "a direction"
                              : CTI_POSITION(ct_shape_of(check->in[e->input]), e->index));
        snprintf(cotangent, sizeof cotangent, "%s%s", cti_diagnose_cotangent(e->output),
                 e->output >= 0 ? CTI_POSITION(check->shape, e->output) : "");
        fprintf(file, "  %-16s %-16s %15.9g %15.9g %9.2g %9.2g %9.2g\n", input, cotangent,
                shown_row(e->analytic), shown_row(e->numeric), shown_row(e->error),
                shown_row(e->relative), shown_row(e->noise));
    }
    if (!*r->map) return;
    fprintf(file,
            "  where in input %d %s: . is right, 1 to 9 powers of ten above what is allowed, x not "
            "finite\n",
            r->input, SHAPE(ct_shape_of(check->in[r->input])));
    for (const char *line = r->map; *line; line += strcspn(line, "\n") + 1)
        fprintf(file, "    %.*s\n", (int)strcspn(line, "\n"), line);
}
