// SPDX-License-Identifier: Apache-2.0
// checkmate train --check and --compare: steps with and without rematerialization, compared bit for bit, and timed.
#include <math.h>

#include "cli/cli_solve.h"
#include "cli/cli_train.h"

enum { CHECKED_STEPS = 3 };

// The two schedules and what came of them.
typedef struct both_ways {
    train_setup *t;
    ckm_plan *baseline_plan;
    int64_t region_bytes, baseline_region_bytes;
    ckm_compare_result bits;
    ckm_timing timing;
} both_ways;

// Before every step: the parameters when the first one starts, then the batch.
static ckm_status fill(ckm_session *session, int64_t step, void *user, ckm_error *err)
{
    train_setup *t = user;
    ckm_status status = step == 0 ? cli_train_set_parameters(t, session, err) : CKM_OK;
    return status == CKM_OK ? ckm_train_fetch(session, t->data, step, err) : status;
}

static ckm_status lay_out_baseline(both_ways *b, ckm_error *err)
{
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    const train_setup *t = b->t;
    ckm_status status = ckm_plan_create(t->df, t->baseline, &packing, &b->baseline_plan, err);
    if (status == CKM_OK) {
        status = ckm_run_region_bytes(t->df, b->baseline_plan, &b->baseline_region_bytes, err);
    }
    return status == CKM_OK ? ckm_run_region_bytes(t->df, t->fit.plan, &b->region_bytes, err) : status;
}

static ckm_status check_bits(both_ways *b, ckm_error *err)
{
    train_setup *t = b->t;
    int64_t steps = t->settings->steps > 0 ? t->settings->steps : CHECKED_STEPS;
    return ckm_session_compare(t->program, t->df, t->baseline, b->baseline_plan, t->fit.schedule, t->fit.plan, steps,
                               cli_train_rate(t->settings), t->place.seed, fill, t, &b->bits, err);
}

static ckm_status compare_times(both_ways *b, ckm_error *err)
{
    train_setup *t = b->t;
    ckm_timing_options options = CKM_TIMING_OPTIONS_INIT;
    options.rounds = t->settings->compare;
    options.seed = t->place.seed;
    options.fill = fill;
    options.stop = cli_stop_requested;
    options.user = t;
    return ckm_session_time(t->program, t->df, t->baseline, b->baseline_plan, t->fit.schedule, t->fit.plan, &options,
                            &b->timing, err);
}

static void print_bits(const ckm_compare_result *bits)
{
    if (bits->equal) {
        printf("%sequal%s: %lld steps with and without rematerialization (%lld recomputations a step): the outputs of "
               "%lld operators, losses (%.9g to %.9g), parameters and states agree bit for bit\n",
               cli_style(stdout, CLI_GOOD), cli_style(stdout, CLI_PLAIN), (long long)bits->steps,
               (long long)bits->recomputations, (long long)bits->operators, bits->first_loss, bits->last_loss);
    }
}

static const char *show_milliseconds(double seconds, char *buf, size_t size)
{
    if (isnan(seconds)) {
        snprintf(buf, size, "-");
    } else {
        snprintf(buf, size, "%.2f ms", seconds * 1e3);
    }
    return buf;
}

static void print_times(const train_setup *t, const ckm_timing *timing)
{
    double without = cli_train_predicted_seconds(t, t->baseline_cost);
    double with = cli_train_predicted_seconds(t, t->cost);
    char text[64];
    char low[64];
    char high[64];
    printf("%-22s %12s %12s\n", "step", "predicted", "measured");
    printf("%-22s %12s", "without remat.", show_milliseconds(without, text, sizeof text));
    printf(" %12s\n", show_milliseconds(timing->first.median_seconds, text, sizeof text));
    printf("%-22s %12s", "within the budget", show_milliseconds(with, text, sizeof text));
    printf(" %12s\n", show_milliseconds(timing->second.median_seconds, text, sizeof text));
    printf("%-22s %12s  by the operator times of the steps without rematerialization, taken in turns with it\n",
           "the same", show_milliseconds(timing->second_predicted_seconds, text, sizeof text));
    printf("%-22s %12s", "overhead", isnan(with) ? "-" : cli_show_percent(with / without - 1.0, text, sizeof text));
    printf(" %12s  quartiles %s and %s of %lld rounds\n", cli_show_percent(timing->ratio - 1.0, text, sizeof text),
           cli_show_percent(timing->ratio_p25 - 1.0, low, sizeof low),
           cli_show_percent(timing->ratio_p75 - 1.0, high, sizeof high), (long long)timing->rounds);
}

static void print_json(const both_ways *b)
{
    const train_setup *t = b->t;
    double without = cli_train_predicted_seconds(t, t->baseline_cost);
    double with = cli_train_predicted_seconds(t, t->cost);
    cli_json json;
    cli_json_begin(&json);
    if (t->settings->check) {
        cli_json_bool(&json, "equal", b->bits.equal);
        cli_json_size(&json, "steps", b->bits.steps);
        cli_json_size(&json, "operators", b->bits.operators);
        cli_json_size(&json, "recomputations", b->bits.recomputations);
        cli_json_real(&json, "first_loss", b->bits.first_loss);
        cli_json_real(&json, "last_loss", b->bits.last_loss);
        cli_json_real(&json, "overhead", cli_overhead(t->cost, t->baseline_cost));
        cli_json_text(&json, "why", b->bits.equal ? NULL : b->bits.why);
    }
    if (t->settings->compare > 0) {
        cli_json_size(&json, "rounds", b->timing.rounds);
        cli_json_size(&json, "budget_bytes", t->budget_bytes);
        cli_json_size(&json, "used_bytes", b->region_bytes + t->outside_bytes);
        cli_json_size(&json, "arena_bytes", ckm_plan_get_info(t->fit.plan)->arena_bytes);
        cli_json_size(&json, "baseline_used_bytes", b->baseline_region_bytes + t->outside_bytes);
        cli_json_size(&json, "baseline_arena_bytes", ckm_plan_get_info(b->baseline_plan)->arena_bytes);
        cli_json_real(&json, "baseline_step_seconds", b->timing.first.median_seconds);
        cli_json_real(&json, "baseline_step_predicted_seconds", without);
        cli_json_real(&json, "step_seconds", b->timing.second.median_seconds);
        cli_json_real(&json, "step_predicted_seconds", with);
        cli_json_real(&json, "step_predicted_in_turns_seconds", b->timing.second_predicted_seconds);
        cli_json_real(&json, "overhead_measured", b->timing.ratio - 1.0);
        cli_json_real(&json, "overhead_low", b->timing.ratio_p25 - 1.0);
        cli_json_real(&json, "overhead_high", b->timing.ratio_p75 - 1.0);
        cli_json_real(&json, "overhead_predicted", with / without - 1.0);
        cli_json_text(&json, "strategy", t->solved.strategy);
    }
    cli_json_end(&json);
}

static int conclude(const both_ways *b)
{
    const train_settings *s = b->t->settings;
    if (s->json) {
        print_json(b);
    } else {
        if (s->check) {
            print_bits(&b->bits);
        }
        if (s->compare > 0) {
            print_times(b->t, &b->timing);
        }
    }
    if (s->check && b->bits.recomputations == 0) {
        fprintf(stderr,
                "%snote:%s this budget needs no rematerialization, so nothing was computed twice; give a smaller "
                "one\n",
                cli_style(stderr, CLI_WARN), cli_style(stderr, CLI_PLAIN));
    }
    if (s->check && !b->bits.equal) {
        return cli_failf("training with and without rematerialization differs: %s", b->bits.why);
    }
    return cli_finish_output();
}

int cli_train_both_ways(train_setup *t)
{
    ckm_error err = CKM_ERROR_INIT;
    both_ways b = {.t = t};
    ckm_status status = lay_out_baseline(&b, &err);
    if (status == CKM_OK && t->settings->check) {
        status = check_bits(&b, &err);
    }
    if (status == CKM_OK && t->settings->compare > 0) {
        status = compare_times(&b, &err);
    }
    int outcome = status == CKM_OK ? conclude(&b) : cli_fail(&err);
    ckm_plan_free(b.baseline_plan);
    return outcome;
}
