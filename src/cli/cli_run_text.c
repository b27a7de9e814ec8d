// SPDX-License-Identifier: Apache-2.0
// checkmate run --generate: a text that the network writes.
#include <string.h>

#include "cli/cli_run.h"
#include "cli/cli_weights.h"

// --generate has its input from --prompt.
static int check(const cli_command *command, const run_settings *s, bool pictures)
{
    if (pictures || s->inputs.n > 0) {
        return cli_usage_error(command, "--generate continues --prompt: leave out %s",
                               pictures ? "pictures" : "--input");
    }
    if (s->outputs.n > 1) {
        return cli_usage_error(command, "of a text there is one --output");
    }
    if (s->prompt != NULL && s->prompt[0] == '\0') {
        return cli_usage_error(command, "--prompt is empty: give at least one byte");
    }
    if (s->prompt != NULL && s->prompt_tokens != NULL) {
        return cli_usage_error(command, "--prompt and --prompt-tokens exclude each other: give one");
    }
    if (s->scaling >= 0 || s->strict) {
        return cli_usage_error(command, "--pixels and --strict are for pictures");
    }
    if (s->model.batch > 1) {
        return cli_usage_error(command, "--generate writes one text: leave out --batch");
    }
    if (s->json && strcmp(cli_run_output(s), "-") == 0) {
        return cli_usage_error(command, "--json and the text cannot both go to standard output: give --output FILE");
    }
    return -1;
}

// The network as it was trained, for one text.
static ckm_status load(run_setup *r, ckm_error *err)
{
    cli_model_settings model = r->settings->model;
    ckm_status status = cli_weights_adopt_sizes(r->settings->weights, r->model, &model, err);
    r->importing = cli_model_import_options(&model, 1);
    return status == CKM_OK ? cli_model_load_network(r->model, &model, 1, &r->graph, err) : status;
}

static int64_t bytes(const run_setup *r)
{
    return cli_generate_bytes(&r->generation, r->graph);
}

static ckm_status execute(run_setup *r, double *seconds, ckm_error *err)
{
    ckm_status status = cli_generate_run(&r->generation, r->inference, cli_run_output(r->settings), err);
    *seconds = r->generation.seconds;
    return status;
}

const cli_run_way cli_run_text = {.check = check, .load = load, .bytes = bytes, .execute = execute};
