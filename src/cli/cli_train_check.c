// SPDX-License-Identifier: Apache-2.0
// checkmate train --check and --compare: steps with and without rematerialization, compared bit for bit, and timed.
#include <math.h>

#include "cli/cli_solve.h"
#include "cli/cli_train.h"

enum { CHECKED_STEPS = 3 };

typedef struct both_ways {
    const train_setup *t;
    ckm_trainer_info info;
    ckm_trainer_sizes sizes;
    ckm_compare_result bits;
    ckm_timing timing;
} both_ways;

static void print_bits(const ckm_compare_result *bits)
{
    if (bits->equal) {
        cli_line(
            stdout, 2,
            "%sequal%s: %lld steps with and without rematerialization (%lld recomputations a step): the outputs of "
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

static void print_times(const ckm_trainer_info *info, const ckm_timing *timing)
{
    double without = info->baseline_step_seconds;
    double with = info->step_seconds;
    char text[64];
    char low[64];
    char high[64];
    cli_line(stdout, 23, "%-22s %12s %12s\n", "step", "predicted", "measured");
    cli_line(stdout, 23, "%-22s %12s", "without remat.", show_milliseconds(without, text, sizeof text));
    cli_line(stdout, 23, " %12s\n", show_milliseconds(timing->first.median_seconds, text, sizeof text));
    cli_line(stdout, 23, "%-22s %12s", "within the budget", show_milliseconds(with, text, sizeof text));
    cli_line(stdout, 23, " %12s\n", show_milliseconds(timing->second.median_seconds, text, sizeof text));
    cli_line(stdout, 23,
             "%-22s %12s  by the operator times of the steps without rematerialization, run in turns with these\n",
             "the same", show_milliseconds(timing->second_predicted_seconds, text, sizeof text));
    cli_line(stdout, 23, "%-22s %12s", "overhead",
             isnan(with) ? "-" : cli_show_percent(with / without - 1.0, text, sizeof text));
    cli_line(stdout, 23, " %12s  quartiles %s and %s of %lld rounds\n",
             cli_show_percent(timing->ratio - 1.0, text, sizeof text),
             cli_show_percent(timing->ratio_p25 - 1.0, low, sizeof low),
             cli_show_percent(timing->ratio_p75 - 1.0, high, sizeof high), (long long)timing->rounds);
}

static void print_json(const both_ways *b)
{
    const train_setup *t = b->t;
    const ckm_trainer_info *info = &b->info;
    double without = info->baseline_step_seconds;
    double with = info->step_seconds;
    cli_json json;
    cli_json_begin(&json);
    if (t->settings->check) {
        cli_json_bool(&json, "equal", b->bits.equal);
        cli_json_size(&json, "steps", b->bits.steps);
        cli_json_size(&json, "operators", b->bits.operators);
        cli_json_size(&json, "recomputations", b->bits.recomputations);
        cli_json_real(&json, "first_loss", b->bits.first_loss);
        cli_json_real(&json, "last_loss", b->bits.last_loss);
        cli_json_real(&json, "overhead", cli_overhead(info->cost, info->baseline_cost));
        cli_json_text(&json, "why", b->bits.equal ? NULL : b->bits.why);
    }
    if (t->settings->compare > 0) {
        cli_json_size(&json, "rounds", b->timing.rounds);
        cli_json_size(&json, "budget_bytes", info->budget_bytes);
        cli_json_size(&json, "used_bytes", b->sizes.region_bytes + info->outside_bytes);
        cli_json_size(&json, "arena_bytes", b->sizes.arena_bytes);
        cli_json_size(&json, "baseline_used_bytes", b->sizes.baseline_region_bytes + info->outside_bytes);
        cli_json_size(&json, "baseline_arena_bytes", b->sizes.baseline_arena_bytes);
        cli_json_real(&json, "baseline_step_seconds", b->timing.first.median_seconds);
        cli_json_real(&json, "baseline_step_predicted_seconds", without);
        cli_json_real(&json, "step_seconds", b->timing.second.median_seconds);
        cli_json_real(&json, "step_predicted_seconds", with);
        cli_json_real(&json, "step_predicted_in_turns_seconds", b->timing.second_predicted_seconds);
        cli_json_real(&json, "overhead_measured", b->timing.ratio - 1.0);
        cli_json_real(&json, "overhead_low", b->timing.ratio_p25 - 1.0);
        cli_json_real(&json, "overhead_high", b->timing.ratio_p75 - 1.0);
        cli_json_real(&json, "overhead_predicted", with / without - 1.0);
        cli_json_text(&json, "strategy", info->strategy);
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
            print_times(&b->info, &b->timing);
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
    const train_settings *s = t->settings;
    both_ways b = {.t = t, .info = ckm_trainer_get_info(t->trainer)};
    ckm_status status = ckm_trainer_get_sizes(t->trainer, &b.sizes, &err);
    if (status == CKM_OK && s->check) {
        int64_t steps = s->steps > 0 ? s->steps : CHECKED_STEPS;
        status = ckm_trainer_check(t->trainer, steps, cli_train_rate(s), &b.bits, &err);
    }
    if (status == CKM_OK && s->compare > 0) {
        status = ckm_trainer_time(t->trainer, s->compare, &b.timing, &err);
    }
    return status == CKM_OK ? conclude(&b) : cli_fail(&err);
}
