// SPDX-License-Identifier: Apache-2.0
// Measuring this machine: two small networks run in turns, one with dense and one with depthwise convolutions, until two
// rounds agree, and a device is fitted to the least times of their operators.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cli/cli_costs.h"
#include "cli/cli_model.h"
#include "cli/cli_profile.h"

enum { N_NETWORKS = 2, MOST_ROUNDS = 4 };

// Rounds agree when every rate of one is at most this many times that of the other.
static const double most_apart = 1.1;
// No further round begins after this; two there are always.
static const double most_seconds = 30.0;

typedef struct measured_network {
    ckm_graph *graph;
    ckm_training *training;
    ckm_program *program;
    int64_t *round_ns, *least_ns;  // of this round, of all
} measured_network;

typedef struct measurement {
    measured_network networks[N_NETWORKS];
    ckm_device rounds[MOST_ROUNDS];
    ckm_profile_info infos[MOST_ROUNDS];  // of the network that was held up most
    int n_rounds;
} measurement;

static void dispose(measured_network *m)
{
    free(m->round_ns);
    free(m->least_ns);
    ckm_program_free(m->program);
    ckm_training_free(m->training);
    ckm_graph_free(m->graph);
}

static ckm_status prepare(const char *name, int threads, measured_network *m, ckm_error *err)
{
    cli_model_settings settings = CLI_MODEL_DEFAULTS;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    kernels.threads = threads;
    settings.input_shape = (cli_shape){3, {96, 96, 3}};
    ckm_status status = cli_model_load_network(name, &settings, 8, &m->graph, err);
    if (status == CKM_OK) {
        status = ckm_autodiff_op_graph(m->graph, NULL, &m->training, err);
    }
    if (status == CKM_OK) {
        status = ckm_program_create(m->training, &kernels, &m->program, err);
    }
    return status;
}

// Low times of each operator: other programs on the machine only ever add to them.
static ckm_status take_times(measured_network *m, const ckm_profile *profile, ckm_error *err)
{
    int32_t n = ckm_profile_op_count(profile);
    bool first = m->least_ns == NULL;
    if (first) {
        m->round_ns = malloc((size_t)(n > 0 ? n : 1) * sizeof *m->round_ns);
        m->least_ns = malloc((size_t)(n > 0 ? n : 1) * sizeof *m->least_ns);
        if (m->round_ns == NULL || m->least_ns == NULL) {
            return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
        }
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t ns = ckm_profile_get_op(profile, i).p10_ns;
        m->round_ns[i] = ns;
        m->least_ns[i] = first || ns < m->least_ns[i] ? ns : m->least_ns[i];
    }
    return CKM_OK;
}

static ckm_status measure_once(measured_network *m, ckm_profile_info *info, ckm_error *err)
{
    ckm_profile_options how = CKM_PROFILE_OPTIONS_INIT;
    ckm_profile *profile = NULL;
    how.steps = 7;
    how.time_limit_seconds = 5;
    ckm_status status = cli_profile_measure(m->training, m->program, -1, &how, &profile, err);
    if (status == CKM_OK) {
        *info = *ckm_profile_get_info(profile);
        status = take_times(m, profile, err);
    }
    ckm_profile_free(profile);
    return status;
}

static ckm_status fit(const measurement *all, bool least, ckm_device *out, ckm_error *err)
{
    const ckm_training *steps[N_NETWORKS] = {NULL};
    const int64_t *ns[N_NETWORKS] = {NULL};
    for (int i = 0; i < N_NETWORKS; i++) {
        const measured_network *m = &all->networks[i];
        steps[i] = m->training;
        ns[i] = least ? m->least_ns : m->round_ns;
    }
    return ckm_device_fit(steps, ns, N_NETWORKS, out, err);
}

static ckm_status measure_round(measurement *all, ckm_error *err)
{
    ckm_profile_info *held_up = &all->infos[all->n_rounds];
    ckm_status status = CKM_OK;
    for (int i = 0; status == CKM_OK && i < N_NETWORKS; i++) {
        ckm_profile_info info;
        status = measure_once(&all->networks[i], &info, err);
        if (status == CKM_OK && (i == 0 || !info.steady)) {
            *held_up = info;
        }
    }
    if (status == CKM_OK) {
        status = fit(all, false, &all->rounds[all->n_rounds], err);
    }
    all->n_rounds += status == CKM_OK;
    return status;
}

// What arithmetic of a class reaches, in multiply-accumulates a second; bytes for traffic.
static double rate(const ckm_device *d, ckm_device_class c)
{
    return d->efficiency[c] * (c == CKM_DEVICE_STREAM ? d->bytes_per_s : d->matrix_macs_per_s);
}

static bool agree(const ckm_device *a, const ckm_device *b)
{
    for (int c = 0; c < CKM_DEVICE_CLASSES; c++) {
        double one = rate(a, (ckm_device_class)c);
        double other = rate(b, (ckm_device_class)c);
        if (fmax(one, other) > most_apart * fmin(one, other)) {
            return false;
        }
    }
    return true;
}

// Whether the last round and one before it agree, and nothing held them up.
static bool settled(const measurement *all)
{
    int last = all->n_rounds - 1;
    for (int i = 0; i < last && all->infos[last].steady; i++) {
        if (all->infos[i].steady && agree(&all->rounds[i], &all->rounds[last])) {
            return true;
        }
    }
    return false;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void warn_unsettled(const measurement *all)
{
    char why[CKM_PROFILE_WORDS] = "";
    double low[CKM_DEVICE_CLASSES] = {0};
    double high[CKM_DEVICE_CLASSES] = {0};
    for (int i = 0; i < all->n_rounds; i++) {
        if (!all->infos[i].steady) {
            ckm_profile_explain_unsteady(&all->infos[i], why, sizeof why);
        }
        for (int c = 0; c < CKM_DEVICE_CLASSES; c++) {
            double r = rate(&all->rounds[i], (ckm_device_class)c);
            low[c] = i == 0 ? r : fmin(low[c], r);
            high[c] = i == 0 ? r : fmax(high[c], r);
        }
    }
    cli_warnf(
        "%s: %d rounds gave %.2f to %.2f GB/s and %.3f to %.3f TFLOP/s for matrix products, and the least time of each "
        "operator counts; measure again when nothing else runs",
        why[0] != '\0' ? why : "the speed of the machine changed while the operators were measured", all->n_rounds,
        1e-9 * low[CKM_DEVICE_STREAM], 1e-9 * high[CKM_DEVICE_STREAM], 2e-12 * low[CKM_DEVICE_MATRIX],
        2e-12 * high[CKM_DEVICE_MATRIX]);
}

ckm_status cli_device_measure(int threads, ckm_device *out, ckm_error *err)
{
    static const char *const names[N_NETWORKS] = {"ResNet50", "MobileNet"};
    measurement all = {.n_rounds = 0};
    ckm_status status = CKM_OK;
    for (int i = 0; status == CKM_OK && i < N_NETWORKS; i++) {
        status = prepare(names[i], threads, &all.networks[i], err);
    }
    if (status == CKM_OK) {
        cli_note_threads(all.networks[0].program, threads);
    }
    double begin = now();
    while (status == CKM_OK && all.n_rounds < MOST_ROUNDS && !settled(&all) &&
           (all.n_rounds < 2 || now() - begin < most_seconds)) {
        status = measure_round(&all, err);
    }
    ckm_device device;
    if (status == CKM_OK) {
        status = fit(&all, true, &device, err);
    }
    if (status == CKM_OK) {
        bool quiet = settled(&all);
        if (!quiet) {
            warn_unsettled(&all);
        }
        snprintf(device.name, sizeof device.name, "this");
        snprintf(device.what, sizeof device.what, "%.58s, %d threads%s", all.infos[0].platform, all.infos[0].threads,
                 quiet ? "" : ", measured while busy");
        snprintf(device.source, sizeof device.source, "measured: the operators of ResNet50 and MobileNet, 8 x 96x96");
        *out = device;
    }
    for (int i = 0; i < N_NETWORKS; i++) {
        dispose(&all.networks[i]);
    }
    return status;
}
