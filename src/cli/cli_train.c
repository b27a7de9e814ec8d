// SPDX-License-Identifier: Apache-2.0
// checkmate train, before the first step: network, training graph, kernels, costs, data, budget.
#include "cli/cli_train.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli_solve.h"

double cli_train_rate(const train_settings *s)
{
    static const double usual[] = {0.01, 0.001, 0.001};  // sgd, adam, adamw
    return s->rate >= 0 ? s->rate : usual[s->optimizer];
}

static ckm_autodiff_options autodiff_options(const train_settings *s)
{
    static const ckm_loss_kind losses[] = {CKM_LOSS_OF_TASK, CKM_LOSS_SOFTMAX_CROSS_ENTROPY, CKM_LOSS_MSE};
    static const ckm_optimizer_kind kinds[] = {CKM_OPTIMIZER_SGD, CKM_OPTIMIZER_ADAM, CKM_OPTIMIZER_ADAMW};
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.loss = losses[s->loss];
    options.optimizer = (ckm_optimizer){kinds[s->optimizer], s->momentum,    s->nesterov, s->beta1, s->beta2,
                                        s->epsilon,          s->weight_decay};
    options.fused = s->fused;
    return options;
}

const char *cli_train_optimizer_text(const train_settings *s, char *buf, size_t size)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    if (s->optimizer == 0) {
        snprintf(buf, size, "sgd momentum=%.9g%s weight-decay=%.9g", s->momentum, s->nesterov ? " nesterov" : "",
                 s->weight_decay);
    } else {
        snprintf(buf, size, "%s beta1=%.9g beta2=%.9g epsilon=%.9g weight-decay=%.9g", names[s->optimizer], s->beta1,
                 s->beta2, s->epsilon, s->weight_decay);
    }
    return buf;
}

// The number that follows `key` at the beginning of a line of a file of the kernel's, or -1.
static int64_t number_in_file(const char *path, const char *key)
{
    char line[256];
    int64_t number = -1;
    FILE *file = fopen(path, "r");
    while (file != NULL && number < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            char *end = NULL;
            long long value = strtoll(line + strlen(key), &end, 10);
            number = end != line + strlen(key) && value >= 0 ? value : -1;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

// Bytes that can be had without swapping: what the kernel says is available, or what the control group leaves.
static int64_t available_memory(void)
{
    int64_t kib = number_in_file("/proc/meminfo", "MemAvailable:");
    int64_t available = kib > 0 ? kib * 1024 : -1;
    int64_t limit = number_in_file("/sys/fs/cgroup/memory.max", "");
    int64_t used = number_in_file("/sys/fs/cgroup/memory.current", "");
    if (used >= 0 && limit > used && (available < 0 || limit - used < available)) {
        available = limit - used;
    }
    return available;
}

// --budget: "auto", bytes, or percent of the run without rematerialization.
static int read_budget(const cli_command *command, train_setup *t)
{
    const char *text = t->settings->budget;
    cli_budget budget = {0};
    if (strcmp(text, "auto") == 0) {
        int64_t available = available_memory();
        if (available < 0) {
            return cli_failf("--budget auto: this system does not say how much memory is available; give a size");
        }
        t->budget_bytes = available / 10 * 8;
        return -1;
    }
    const char *problem = cli_read_budget(text, &budget);
    if (problem != NULL) {
        return cli_usage_error(command, "--budget must be 'auto' or %s, got '%s'",
                               strncmp(problem, "must be ", 8) == 0 ? problem + 8 : problem, text);
    }
    t->budget_bytes = cli_budget_bytes(&budget, t->baseline_peak + t->outside_bytes);
    return -1;
}

// Network, training graph, kernels, costs; costs that are to be measured begin as FLOPs.
static ckm_status build(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    ckm_autodiff_options derivation = autodiff_options(s);
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    bool is_measured = strcmp(s->model.costs, "measured") == 0;
    kernels.backend = s->back_end;
    kernels.threads = (int)s->threads;
    ckm_status status = cli_model_load_network(t->model, &s->model, s->model.batch, &t->graph, err);
    if (status == CKM_OK) {
        status = ckm_autodiff_op_graph(t->graph, &derivation, &t->training, err);
    }
    if (status == CKM_OK) {
        status = ckm_program_create(t->training, &kernels, &t->program, err);
    }
    if (status == CKM_OK) {
        cli_note_threads(t->program, kernels.threads);
    }
    return status == CKM_OK ? cli_train_apply_costs(t, is_measured ? "flops" : s->model.costs, err) : status;
}

static ckm_status open_data(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    ckm_train_fields fields;
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    ckm_status status = ckm_train_describe_data(t->training, &fields, err);
    if (status != CKM_OK) {
        return status;
    }
    options.batch = ckm_graph_batch(t->graph);
    options.n_inputs = fields.n_inputs;
    options.inputs = fields.inputs;
    options.labels = fields.labels;
    options.task = ckm_graph_task(t->graph);
    options.layout = ckm_graph_layout(t->graph);
    options.scaling = (ckm_data_scaling)s->scaling;
    options.resize = s->resize;
    options.keep_order = s->keep_order;
    options.seed = t->place.seed;
    options.synthetic_samples = s->samples;
    return ckm_data_open(s->data, &options, &t->data, err);
}

// Says why there is no schedule. Gives the exit status.
static int explain_absence(const train_setup *t)
{
    char budget[64];
    char outside[64];
    char least[64];
    char floor_text[64];
    int64_t floor_bytes = 0;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_min_budget_floor(t->df, &floor_bytes, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    // What solving proved may be more.
    floor_bytes = (t->solved.floor_bytes > floor_bytes ? t->solved.floor_bytes : floor_bytes) + t->outside_bytes;
    bool proven = t->budget_bytes < floor_bytes || t->solved.status == CKM_SOLVE_INFEASIBLE;
    cli_show_bytes(t->budget_bytes, budget, sizeof budget);
    cli_show_bytes(t->outside_bytes, outside, sizeof outside);
    cli_show_bytes(floor_bytes, floor_text, sizeof floor_text);
    if (t->solved.least_peak_bytes > 0) {                               // 0: the budget left nothing to solve for
        int64_t known = t->solved.least_peak_bytes + t->outside_bytes;  // room for what packing wastes
        known += known / 50;
        cli_show_bytes(known, least, sizeof least);
    } else {
        snprintf(least, sizeof least, "not known");
    }
    cli_failf("no schedule%s fits a budget of %s (%lld bytes, of which %s for data read ahead, kernels, threads and "
              "tables): at least %s (%lld bytes) are needed; a budget that should fit: %s; give more, or a smaller "
              "--batch%s",
              proven ? "" : " was found that", budget, (long long)t->budget_bytes, outside, floor_text,
              (long long)floor_bytes, least, t->settings->fused ? "" : ", or --fused");
    return proven ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

int64_t cli_train_beside(const train_setup *t)
{
    ckm_program_memory m = ckm_program_get_memory(t->program);
    return ckm_data_get_facts(t->data).bytes + m.kernel_bytes + m.thread_bytes + m.margin_bytes;
}

// What tables a session may need beside its region: a guess that is checked afterwards.
static int64_t guess_tables(const train_setup *t)
{
    return 16384 + 400 * (int64_t)ckm_dataflow_op_count(t->df);
}

static ckm_status read_resumed(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    char optimizer[128];
    char expected[128];
    ckm_status status = ckm_train_read_place(s->resume, &t->place, err);
    if (status != CKM_OK) {
        return status;
    }
    cli_train_optimizer_text(s, optimizer, sizeof optimizer);
    snprintf(expected, sizeof expected, "%s", t->place.optimizer);
    if (strcmp(optimizer, expected) != 0) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume,
                         "was trained with \"%s\", and this run would use \"%s\": give the same optimizer options",
                         expected, optimizer);
    }
    if (s->seed >= 0 && (uint64_t)s->seed != t->place.seed) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume, "was trained with --seed %llu, not %lld",
                         (unsigned long long)t->place.seed, (long long)s->seed);
    }
    if (s->model.batch > 0 && s->model.batch != t->place.batch) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume,
                         "was trained with --batch %lld, not %lld: the same steps would see other samples",
                         (long long)t->place.batch, (long long)s->model.batch);
    }
    t->resumed = true;
    return CKM_OK;
}

static ckm_status begin(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    t->place = (ckm_train_place){.seed = s->seed >= 0 ? (uint64_t)s->seed : 1};
    cli_train_optimizer_text(s, t->place.optimizer, sizeof t->place.optimizer);
    if (s->resume != NULL) {
        ckm_status status = read_resumed(t, err);
        if (status != CKM_OK) {
            return status;
        }
        t->adapted.model.batch = t->place.batch;
    }
    ckm_status status = build(t, err);
    if (status == CKM_OK) {
        t->place.batch = ckm_graph_batch(t->graph);
        snprintf(t->place.network, sizeof t->place.network, "%s", ckm_graph_name(t->graph));
        status = open_data(t, err);
    }
    if (status == CKM_OK && cli_model_is_file(t->model)) {
        ckm_import_options options = cli_model_import_options(&s->model, s->model.batch);
        status = ckm_import_values_open(t->model, &options, &t->values, err);
    }
    return status;
}

int cli_train_prepare(const cli_command *command, const train_settings *settings, const char *model, train_setup *t)
{
    ckm_error err = CKM_ERROR_INIT;
    *t = (train_setup){.adapted = *settings, .model = model};
    t->settings = &t->adapted;
    if (t->adapted.threads == 0) {
        t->adapted.threads = cli_processors();
    }
    if (begin(t, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    t->outside_bytes = cli_train_beside(t) + guess_tables(t);
    int outcome = read_budget(command, t);
    if (outcome >= 0) {
        return outcome;
    }
    if (strcmp(t->settings->model.costs, "measured") == 0 && cli_train_measure_costs(t, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    if (cli_train_fit(t, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    return t->fit.schedule != NULL ? -1 : explain_absence(t);
}

void cli_train_dispose(train_setup *t)
{
    ckm_session_free(t->session);
    ckm_run_fit_dispose(&t->fit);
    ckm_solve_result_dispose(&t->solved);
    ckm_schedule_free(t->baseline);
    ckm_import_values_close(t->values);
    ckm_data_close(t->data);
    ckm_dataflow_free(t->df);
    ckm_program_free(t->program);
    ckm_training_free(t->training);
    ckm_graph_free(t->graph);
}
