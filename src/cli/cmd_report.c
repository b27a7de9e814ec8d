// SPDX-License-Identifier: Apache-2.0
// checkmate report: a schedule as a page for the browser, or as one of its figures.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_planned.h"

typedef struct report_settings {
    cli_model_settings model;
    const char *output, *figure, *log;
} report_settings;

static const report_settings defaults = {CLI_MODEL_DEFAULTS, NULL, NULL, NULL};

static const cli_option options[] = {
    {"output", 'o', CLI_OUTPUT, offsetof(report_settings, output), "FILE",
     "Required. File to write. For the page, '-' is standard output; for a figure, the name ends in .svg, .pdf or "
     ".png.",
     NULL, 0, 0, NULL},
    {"figure", 'f', CLI_TEXT, offsetof(report_settings, figure), "NAME",
     "Draw one figure instead of the page. memory: bytes in use over the step, by kind, and what is live at the "
     "peak, against the run without rematerialization. arena: addresses over time. matrices: the paper's R and S. "
     "transfers: the step over time, with the copies to a second memory and back, and what waits for which. "
     "graph: the training graph, marking what is kept and what is computed again.",
     NULL, 0, 0, NULL},
    {"log", 0, CLI_INPUT, offsetof(report_settings, log), "FILE",
     "Draw, instead of a schedule, how training went: the loss of a FILE of 'train --log' over its steps, that of "
     "validation, and the accuracy. The FILE may still be growing.",
     NULL, 0, 0, NULL},
};

static int check_figure(const cli_command *command, const char *name)
{
    const char *names[16];
    char suggestion[128];
    int n = 0;
    for (int32_t i = 0; i < ckm_emit_figure_count(); i++) {
        if (strcmp(ckm_emit_figure_name(i), name) == 0) {
            return -1;
        }
        if (n < CLI_COUNT(names)) {
            names[n++] = ckm_emit_figure_name(i);
        }
    }
    return cli_usage_error(command, "unknown figure '%s'%s", name,
                           cli_did_you_mean(name, names, n, "", suggestion, sizeof suggestion));
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const report_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    cli_planned planned;
    if (s->output == NULL) {
        return cli_usage_error(command, "-o is missing: give the file to write");
    }
    if (s->log != NULL) {
        if (n_arguments > 0 || s->figure != NULL) {
            return cli_usage_error(command, "--log draws how training went, not a schedule: leave out %s",
                                   s->figure != NULL ? "--figure" : arguments[0]);
        }
        return ckm_emit_training_figure(s->log, s->output, &err) == CKM_OK ? cli_finish_output() : cli_fail(&err);
    }
    if (n_arguments == 0) {
        return cli_usage_error(command, "the schedule file is missing");
    }
    int outcome = s->figure != NULL ? check_figure(command, s->figure) : -1;
    if (outcome >= 0) {
        return outcome;
    }
    outcome = cli_planned_load(command, &s->model, arguments, n_arguments, &planned);
    if (outcome < 0) {
        char *found[] = {planned.graph_name};  // next to the schedule, if it was not named
        outcome = cli_files_check(command, settings, found, 1);
    }
    if (outcome < 0) {
        ckm_status status = s->figure != NULL ? ckm_emit_figure(planned.facts, s->figure, s->output, &err)
                                              : ckm_emit_page(planned.facts, planned.graph_name, planned.schedule_name,
                                                              s->output, &err);
        outcome = status == CKM_OK ? cli_finish_output() : cli_fail(&err);
    }
    cli_planned_dispose(&planned);
    return outcome;
}

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
    CLI_MODEL_GROUPS(offsetof(report_settings, model)),
};
static const char *const argument_names[] = {"the schedule file"};

const cli_command cli_command_report = {
    .name = "report",
    .summary = "Show a schedule, as a page for the browser or in figures, or how training went.",
    .usage = "[MODEL] schedule.json|--log run.jsonl -o report.html [--figure NAME] [options]",
    .description =
        "Writes one self-contained HTML file that needs no network: a summary, memory over the step with what is "
        "live at every moment, where it lies in memory, what is computed again and why, the graph, and how to use "
        "the schedule. With --figure, draws one figure instead, with gnuplot or graphviz.\n\nMODEL is what the "
        "schedule was made for: a graph file, or a network with the same options. Without MODEL, the graph is the "
        "first .json file in the schedule's folder, in order of names, that the schedule fits. The schedule is checked "
        "before it is shown.\n\nWith --log, draws how training went instead.",
    .examples = "checkmate graph ResNet50 --batch 64 -o graph.json\n"
                "checkmate solve graph.json --budget 50% -o schedule.json\n"
                "checkmate report schedule.json -o report.html\n"
                "checkmate report ResNet50 --batch 64 schedule.json --figure memory -o memory.svg\n"
                "checkmate report --log run.jsonl -o run.svg\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 0,
    .max_arguments = 2,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
