// SPDX-License-Identifier: Apache-2.0
// A schedule with the graph it belongs to, as `report` and `explain` take them.
#ifndef CKM_SRC_CLI_CLI_PLANNED_H
#define CKM_SRC_CLI_CLI_PLANNED_H

#include "cli/cli.h"
#include "cli/cli_model.h"

typedef struct cli_planned {
    cli_model model;
    ckm_schedule *schedule;
    ckm_emit_facts *facts;
    char graph_name[4096];  // what was given as the graph, or found: a file or MODEL
    const char *schedule_name;
} cli_planned;

// Whether the figures in a schedule's file are consistent, and right on this graph, where it costs what the verifier found. If
// not, `why` says what is wrong.
bool cli_planned_consistent(const ckm_schedule_info *info, char *why, size_t size);
bool cli_planned_true(const ckm_schedule_info *info, const ckm_dataflow *df, const ckm_verdict *verdict, char *why,
                      size_t size);

// Reads "[MODEL] schedule.json". With the schedule alone, takes the graph file next to it that the schedule is legal for
// and costs what it states. Checks the schedule with the verifier and gathers its facts. Gives -1, or reports what is
// wrong and gives the exit status.
int cli_planned_load(const cli_command *command, const cli_model_settings *settings, char **arguments, int n_arguments,
                     cli_planned *out);
void cli_planned_dispose(cli_planned *planned);

#endif
