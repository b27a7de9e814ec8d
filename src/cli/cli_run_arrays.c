// SPDX-License-Identifier: Apache-2.0
// checkmate run on arrays: from .npy files to .npy files.
#include <string.h>

#include "cli/cli_run.h"
#include "cli/cli_weights.h"

// Is the name in "NAME=FILE" this one? Without a name it is that of the first.
static bool is_named(const char *text, const char *name, bool first)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return first;
    }
    return (size_t)(equals - text) == strlen(name) && strncmp(text, name, strlen(name)) == 0;
}

// The name of the network's first input, or "".
static const char *first_input(const ckm_graph *graph)
{
    for (int32_t i = 0; i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        if (t.role == CKM_ROLE_INPUT) {
            return t.name;
        }
    }
    return "";
}

// The network for the batch of the array in `path`; where the file leaves dimensions open, the array says them too.
static ckm_status load_for(run_setup *r, const char *path, ckm_error *err)
{
    const run_settings *s = r->settings;
    cli_model_settings model = s->model;
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_error first = CKM_ERROR_INIT;
    ckm_status status = ckm_npy_describe(path, &dtype, &shape, err);
    if (status == CKM_OK && !cli_model_is_file(r->model)) {
        status = cli_weights_adopt(s->weights, r->model, &model, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 1) {
            return cli_error(err, CKM_ERR_ARGUMENT, path, "the array is empty");
        }
    }
    int64_t batch = model.batch > 0 ? model.batch : shape.rank > 0 ? shape.dims[0] : 0;
    ckm_graph_free(r->graph);
    r->graph = NULL;
    r->importing = cli_model_import_options(&model, batch);
    status = cli_model_load_network(r->model, &model, batch, &r->graph, &first);
    if (status == CKM_ERR_UNSUPPORTED && cli_model_is_file(r->model) && model.input_shape.rank == 0 && shape.rank > 1) {
        r->importing.input_rank = shape.rank - 1;
        memcpy(r->importing.input_dims, shape.dims + 1, (size_t)(shape.rank - 1) * sizeof shape.dims[0]);
        // What the array says is more than what the file leaves open, so what is wrong then is the array.
        status = ckm_import_file(r->model, &r->importing, &r->graph, &first);
    }
    if (status != CKM_OK) {
        *err = first;
    }
    return status;
}

// The array of the network's first input says what batch there is.
static ckm_status load(run_setup *r, ckm_error *err)
{
    const cli_list *inputs = &r->settings->inputs;
    ckm_status status = load_for(r, cli_files_path(inputs->items[0]), err);
    for (int i = 1; status == CKM_OK && i < inputs->n; i++) {
        if (is_named(inputs->items[i], first_input(r->graph), true)) {
            status = load_for(r, cli_files_path(inputs->items[i]), err);
            break;
        }
    }
    return status;
}

static ckm_status read_inputs(const run_setup *r, ckm_error *err)
{
    const cli_list *inputs = &r->settings->inputs;
    for (int i = 0; i < inputs->n; i++) {
        char name[512];
        const char *equals = strchr(inputs->items[i], '=');
        if (equals == NULL) {
            snprintf(name, sizeof name, "%s", ckm_inference_input(r->inference, 0).name);
        } else {
            snprintf(name, sizeof name, "%.*s", (int)(equals - inputs->items[i]), inputs->items[i]);
        }
        ckm_status status = ckm_inference_read_npy(r->inference, name, cli_files_path(inputs->items[i]), err);
        if (status != CKM_OK) {
            return status;
        }
    }
    return CKM_OK;
}

// Which outputs are wanted; checked before anything is computed.
static ckm_status find_outputs(const run_setup *r, ckm_inference_file *files, ckm_error *err)
{
    const cli_list *outputs = &r->settings->outputs;
    int32_t n = ckm_inference_output_count(r->inference);
    for (int i = 0; i < outputs->n; i++) {
        char names[1024] = "";
        files[i] = (ckm_inference_file){-1, cli_files_path(outputs->items[i])};
        for (int32_t k = 0; k < n; k++) {
            const char *name = ckm_inference_output(r->inference, k).name;
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%.100s", k > 0 ? ", " : "", name);
            files[i].output = files[i].output < 0 && is_named(outputs->items[i], name, k == 0) ? k : files[i].output;
        }
        if (files[i].output < 0) {
            return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                             "--output: the network has no output called '%.*s'; it has %s",
                             (int)strcspn(outputs->items[i], "="), outputs->items[i], names);
        }
    }
    return CKM_OK;
}

static ckm_status execute(run_setup *r, double *seconds, ckm_error *err)
{
    ckm_inference_file files[CLI_LIST_MOST];
    ckm_status status = find_outputs(r, files, err);
    if (status == CKM_OK) {
        status = read_inputs(r, err);
    }
    if (status == CKM_OK) {
        status = ckm_inference_run(r->inference, seconds, err);
    }
    cli_stop_install();  // what is computed is written
    if (status == CKM_OK && r->settings->outputs.n > 0) {
        status = ckm_inference_write_npy(r->inference, files, r->settings->outputs.n, err);
    }
    return status;
}

static int check(const cli_command *command, const run_settings *s, bool pictures)
{
    (void)pictures;
    if (s->scaling >= 0 || s->strict) {
        return cli_usage_error(command,
                               "--pixels and --strict are for pictures: name a folder of them after the MODEL");
    }
    if (s->inputs.n == 0) {
        return cli_usage_error(command, "--input is missing: an array to run the network on, such as --input x.npy");
    }
    return -1;
}

const cli_run_way cli_run_arrays = {.check = check, .load = load, .execute = execute};
