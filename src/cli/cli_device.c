// SPDX-License-Identifier: Apache-2.0
// Measuring this machine: two small networks run, one with dense and one with depthwise convolutions, and a device fitted to
// the times of their operators.
#include <stdlib.h>

#include "cli/cli_costs.h"
#include "cli/cli_model.h"
#include "cli/cli_profile.h"
#include "cli/cli_solve.h"

enum { N_NETWORKS = 2 };

typedef struct measured_network {
    ckm_graph *graph;
    ckm_training *training;
    int64_t *ns;
} measured_network;

static void dispose(measured_network *m)
{
    free(m->ns);
    ckm_training_free(m->training);
    ckm_graph_free(m->graph);
}

// Low times of each operator: other programs on the machine only ever add to them.
static ckm_status times_of(const ckm_profile *profile, int64_t **out, ckm_error *err)
{
    int32_t n = ckm_profile_op_count(profile);
    int64_t *ns = malloc((size_t)(n > 0 ? n : 1) * sizeof *ns);
    if (ns == NULL) {
        return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
    }
    for (int32_t i = 0; i < n; i++) {
        ns[i] = ckm_profile_get_op(profile, i).p10_ns;
    }
    *out = ns;
    return CKM_OK;
}

static ckm_status measure(const char *name, int threads, measured_network *m, char *platform, size_t room,
                          ckm_error *err)
{
    cli_model_settings settings = CLI_MODEL_DEFAULTS;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_profile_options how = CKM_PROFILE_OPTIONS_INIT;
    ckm_program *program = NULL;
    ckm_profile *profile = NULL;
    kernels.threads = threads;
    how.steps = 7;
    how.time_limit_seconds = 10;
    how.stop = cli_stop_requested;
    settings.input_shape = (cli_shape){3, {96, 96, 3}};
    ckm_status status = cli_model_load_network(name, &settings, 8, &m->graph, err);
    if (status == CKM_OK) {
        status = ckm_autodiff_op_graph(m->graph, NULL, &m->training, err);
    }
    if (status == CKM_OK) {
        status = ckm_program_create(m->training, &kernels, &program, err);
    }
    if (status == CKM_OK) {
        cli_note_threads(program, kernels.threads);
    }
    if (status == CKM_OK) {
        status = cli_profile_measure(m->training, program, -1, &how, &profile, err);
    }
    if (status == CKM_OK) {
        snprintf(platform, room, "%.70s, %d threads", ckm_profile_get_info(profile)->platform,
                 ckm_program_threads(program));
        status = times_of(profile, &m->ns, err);
    }
    ckm_profile_free(profile);
    ckm_program_free(program);
    return status;
}

ckm_status cli_device_measure(int threads, ckm_device *out, ckm_error *err)
{
    static const char *const names[N_NETWORKS] = {"ResNet50", "MobileNet"};
    measured_network networks[N_NETWORKS] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
    const ckm_training *steps[N_NETWORKS] = {NULL};
    const int64_t *ns[N_NETWORKS] = {NULL};
    ckm_device device = {.name = ""};
    ckm_status status = CKM_OK;
    for (int i = 0; status == CKM_OK && i < N_NETWORKS; i++) {
        status = measure(names[i], threads, &networks[i], device.what, sizeof device.what, err);
        steps[i] = networks[i].training;
        ns[i] = networks[i].ns;
    }
    if (status == CKM_OK) {
        ckm_device fitted;
        status = ckm_device_fit(steps, ns, N_NETWORKS, &fitted, err);
        if (status == CKM_OK) {
            *out = fitted;
            snprintf(out->name, sizeof out->name, "this");
            snprintf(out->what, sizeof out->what, "%s", device.what);
            snprintf(out->source, sizeof out->source, "measured: the operators of ResNet50 and MobileNet, 8 x 96x96");
        }
    }
    for (int i = 0; i < N_NETWORKS; i++) {
        dispose(&networks[i]);
    }
    return status;
}
