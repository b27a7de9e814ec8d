// SPDX-License-Identifier: Apache-2.0
// checkmate run on pictures: prepared as in training, a row of a table each.
#include <math.h>
#include <string.h>

#include "cli/cli_run.h"
#include "cli/cli_weights.h"

static int check(const cli_command *command, const run_settings *s, bool pictures)
{
    (void)pictures;
    if (s->inputs.n > 0) {
        return cli_usage_error(command, "pictures are the network's input: leave out --input");
    }
    if (s->outputs.n > 1) {
        return cli_usage_error(command, "of pictures there is one --output");
    }
    if (s->json && strcmp(cli_run_output(s), "-") == 0) {
        return cli_usage_error(
            command, "--json and the table of pictures cannot both go to standard output: give --output FILE");
    }
    return -1;
}

// The network as it was trained, for a batch of pictures.
static ckm_status load(run_setup *r, ckm_error *err)
{
    enum { USUAL_BATCH = 16 };
    const run_settings *s = r->settings;
    cli_pictures *p = &r->pictures;
    cli_model_settings model = s->model;
    ckm_status status = cli_pictures_find(r->folder, s->strict, p, err);
    if (status == CKM_OK) {
        const char *said_by = s->weights != NULL ? s->weights : cli_model_is_file(r->model) ? r->model : NULL;
        status = cli_pictures_read_notes(said_by, p, err);
    }
    if (status == CKM_OK) {
        status = cli_weights_adopt_sizes(s->weights, r->model, &model, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    int64_t readable = p->n - p->n_bad;
    cli_weights_adopt_input(r->model, p->classes, &p->input, &model);
    int64_t batch = model.batch > 0 ? model.batch : readable < USUAL_BATCH ? readable : USUAL_BATCH;
    r->importing = cli_model_import_options(&model, batch);
    return cli_model_load_network(r->model, &model, batch, &r->graph, err);
}

static int64_t bytes(const run_setup *r)
{
    return cli_pictures_bytes(&r->pictures, r->graph, cli_run_output(r->settings));
}

// How pixels are scaled: as was asked for, as in training, or as `train` does without being asked.
static int scaling_of(const run_setup *r)
{
    return r->settings->scaling >= 0 ? r->settings->scaling : r->pictures.scaling >= 0 ? r->pictures.scaling : 0;
}

// What was done with pictures, on standard error: the table may be on standard output.
static void note(const run_setup *r)
{
    const cli_pictures *p = &r->pictures;
    char text[64];
    ckm_session_tensor input = ckm_inference_input(r->inference, 0);
    bool said = r->settings->scaling < 0 && p->scaling >= 0;
    cli_line(stderr, 10, "pictures  %lld, of which %lld left out; ", (long long)p->n, (long long)p->n_bad);
    for (int32_t d = 1; d < input.shape.rank; d++) {
        cli_line(stderr, 10, "%s%lld", d > 1 ? "x" : "", (long long)input.shape.dims[d]);
    }
    fprintf(stderr, ", pixels '%s'%s\n", cli_pixel_scalings[scaling_of(r)], said ? " as in training" : "");
    if (p->judged > 0) {
        cli_line(stderr, 10, "accuracy  %s of %lld, by the names of the folders\n",
                 cli_show_percent((double)p->right / (double)p->judged, text, sizeof text), (long long)p->judged);
    }
}

static void facts(const run_setup *r, cli_json *json)
{
    const cli_pictures *p = &r->pictures;
    cli_json_size(json, "pictures", p->n);
    cli_json_size(json, "pictures_left_out", p->n_bad);
    cli_json_real(json, "accuracy", p->judged > 0 ? (double)p->right / (double)p->judged : (double)NAN);
}

static ckm_status execute(run_setup *r, double *seconds, ckm_error *err)
{
    const run_settings *s = r->settings;
    ckm_status status = cli_pictures_run(&r->pictures, r->inference, ckm_graph_batch(r->graph),
                                         (ckm_data_scaling)scaling_of(r), s->strict, cli_run_output(s), err);
    *seconds = r->pictures.seconds;
    return status;
}

const cli_run_way cli_run_pictures = {
    .check = check, .load = load, .bytes = bytes, .execute = execute, .note = note, .facts = facts};
