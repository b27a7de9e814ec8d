// SPDX-License-Identifier: Apache-2.0
// checkmate verify: the independent verifier over a graph file and a schedule file.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_model.h"
#include "cli/cli_planned.h"
#include "cli/cli_values.h"

typedef struct verify_settings {
    cli_budget budget;
    bool json;
} verify_settings;

static const verify_settings defaults = {{.given = false}, false};

static const cli_option options[] = {
    {"budget", 0, CLI_BUDGET, offsetof(verify_settings, budget), "B",
     "What the peak must not exceed. " CLI_BUDGET_FORMS ".", "the budget in the schedule file, if it has one", 0, 0,
     NULL},
    {"json", 0, CLI_FLAG, offsetof(verify_settings, json), NULL, "Print one JSON object: ok, cost, peak_bytes, why.",
     NULL, 0, 0, NULL},
};

static ckm_status judge(const verify_settings *s, const ckm_dataflow *df, const ckm_schedule *schedule,
                        int64_t *budget_bytes, ckm_verdict *verdict, ckm_error *err)
{
    const ckm_schedule_info *info = ckm_schedule_get_info(schedule);
    ckm_status status = CKM_OK;
    *budget_bytes = info->budget_bytes;
    if (s->budget.given) {
        status = cli_budget_bytes(&s->budget, df, budget_bytes, err);
    }
    if (status == CKM_OK) {
        status = ckm_schedule_verify(df, schedule, *budget_bytes, verdict, err);
    }
    // The file's own figures must be right as well: other programs read them and not the steps.
    if (status == CKM_OK && verdict->ok) {
        verdict->ok = cli_planned_true(info, df, verdict, verdict->why, sizeof verdict->why);
    }
    return status;
}

static void print_verdict(const ckm_dataflow *df, const ckm_verdict *verdict, int64_t budget_bytes)
{
    char cost[64];
    char peak[64];
    char budget[64];
    char extra[64];
    printf("%s%s%s", cli_style(stdout, verdict->ok ? CLI_GOOD : CLI_BAD), verdict->ok ? "ok" : "not ok",
           cli_style(stdout, CLI_PLAIN));
    printf("\n");
    if (verdict->cost >= 0) {
        int64_t total = ckm_dataflow_total_cost(df);
        double overhead = total > 0 ? (double)verdict->cost / (double)total - 1 : 0;
        cli_line(stdout, 8, "cost    %s, %s more than without rematerialization\n",
                 cli_show_cost((double)verdict->cost, ckm_dataflow_cost_unit(df), cost, sizeof cost),
                 cli_show_percent(overhead, extra, sizeof extra));
    }
    if (verdict->peak_bytes >= 0) {
        printf("peak    %s (%lld bytes)\n", cli_show_bytes(verdict->peak_bytes, peak, sizeof peak),
               (long long)verdict->peak_bytes);
    }
    if (verdict->second_peak_bytes > 0) {
        printf("copies  %s (%lld bytes) in the second memory\n",
               cli_show_bytes(verdict->second_peak_bytes, peak, sizeof peak), (long long)verdict->second_peak_bytes);
    }
    if (budget_bytes >= 0) {
        printf("budget  %s (%lld bytes)\n", cli_show_bytes(budget_bytes, budget, sizeof budget),
               (long long)budget_bytes);
    }
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const verify_settings *s = settings;
    ckm_dataflow *df = NULL;
    ckm_schedule *schedule = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_verdict verdict = {.cost = -1, .peak_bytes = -1, .second_peak_bytes = -1};
    int64_t budget_bytes = -1;
    int outcome;
    (void)n_arguments;
    if (strcmp(arguments[0], "-") == 0 && strcmp(arguments[1], "-") == 0) {
        return cli_usage_error(command, "only one of the two files can be standard input");
    }
    if (ckm_dataflow_read(arguments[0], &df, &err) != CKM_OK ||
        ckm_schedule_read(arguments[1], &schedule, &err) != CKM_OK ||
        judge(s, df, schedule, &budget_bytes, &verdict, &err) != CKM_OK) {
        outcome = cli_fail(&err);
        goto cleanup;
    }
    if (s->json) {
        cli_json json;
        cli_json_begin(&json);
        cli_json_bool(&json, "ok", verdict.ok);
        cli_json_size(&json, "cost", verdict.cost);
        cli_json_size(&json, "peak_bytes", verdict.peak_bytes);
        if (ckm_dataflow_get_second_memory(df, NULL)) {
            cli_json_size(&json, "second_peak_bytes", verdict.second_peak_bytes);
        }
        cli_json_text(&json, "why", verdict.ok ? NULL : verdict.why);
        cli_json_end(&json);
    } else {
        print_verdict(df, &verdict, budget_bytes);
    }
    outcome = cli_finish_output();
    if (outcome == CLI_DONE && !verdict.ok) {
        outcome = cli_failf("%s: %s", arguments[1], verdict.why);
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_dataflow_free(df);
    return outcome;
}

static const cli_group groups[] = {{"Options", options, CLI_COUNT(options), 0}};
static const char *const argument_names[] = {"the graph file", "the schedule file"};

const cli_command cli_command_verify = {
    .name = "verify",
    .summary = "Check a schedule against its graph, independently of every solver.",
    .usage = "graph.json schedule.json [--budget B] [--json]",
    .description =
        "Replays the schedule step by step and checks that every operand is live when it is read, every operator "
        "runs, those that must not be recomputed run once, results are live at the end, and the peak stays within "
        "the budget. Cost, peak and baseline are counted again and must be what the file states, and its bound and "
        "budget must not contradict them. The verifier shares no code "
        "with the solvers.",
    .exit_statuses = "0  the schedule is legal, within the budget, and as the file describes it\n"
                     "1  it is not, or a file cannot be read\n"
                     "2  wrong usage\n",
    .examples = "checkmate graph ResNet50 --batch 64 -o graph.json\n"
                "checkmate solve graph.json --budget 60% -o schedule.json\n"
                "checkmate verify graph.json schedule.json\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 2,
    .max_arguments = 2,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
