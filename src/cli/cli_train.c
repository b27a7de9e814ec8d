// SPDX-License-Identifier: Apache-2.0
// checkmate train, before the first step: from the options to a trainer.
#include "cli/cli_train.h"

#include <stdlib.h>
#include <string.h>

double cli_train_rate(const train_settings *s)
{
    static const double usual[] = {0.01, 0.001, 0.001};  // sgd, adam, adamw
    return s->rate >= 0 ? s->rate : usual[s->optimizer];
}

int64_t cli_train_step_batches(const train_setup *setup)
{
    return setup->ranks != NULL ? setup->ranks->count : setup->settings->accumulate;
}

static ckm_autodiff_options autodiff_options(const train_settings *s)
{
    static const ckm_loss_kind losses[] = {CKM_LOSS_OF_TASK, CKM_LOSS_SOFTMAX_CROSS_ENTROPY, CKM_LOSS_MSE};
    static const ckm_optimizer_kind kinds[] = {CKM_OPTIMIZER_SGD, CKM_OPTIMIZER_ADAM, CKM_OPTIMIZER_ADAMW};
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.loss = losses[s->loss];
    options.optimizer = (ckm_optimizer){kinds[s->optimizer],   s->momentum, s->nesterov,    cli_exactly(s->beta1),
                                        cli_exactly(s->beta2), s->epsilon,  s->weight_decay};
    options.late_updates = !s->fused;
    return options;
}

// What goes on has the batch it was begun with.
static ckm_status adopt_batch(train_setup *t, ckm_error *err)
{
    ckm_train_place place;
    const train_settings *s = t->settings;
    if (s->resume == NULL) {
        return CKM_OK;
    }
    ckm_status status = ckm_train_read_place(s->resume, &place, err);
    if (status != CKM_OK) {
        return status;
    }
    if (s->model.batch > 0 && s->model.batch != place.batch) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume,
                         "was trained with --batch %lld, not %lld: the steps would see different samples",
                         (long long)place.batch, (long long)s->model.batch);
    }
    if (s->seed == 0 && place.seed != 0) {  // to the trainer, 0 is the seed of the file
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume, "was trained with seed %llu, not 0",
                         (unsigned long long)place.seed);
    }
    t->adapted.model.batch = place.batch;
    return CKM_OK;
}

// The head of a network of the zoo has as many classes as the data, unless --classes says how many, or there is nothing to tell
// apart.
static ckm_status adopt_classes(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    int64_t published = cli_model_published_classes(t->model);
    int64_t classes = 0;
    if (published == 0 || s->model.classes > 0 || s->loss == CLI_TRAIN_MSE) {
        return CKM_OK;
    }
    ckm_status status = ckm_data_count_classes(s->data, &classes, err);
    t->adapted.model.classes = classes > 1 ? classes : 0;
    return status;
}

// A network of the zoo that reads texts knows as many tokens as the text has, unless --vocabulary says how many.
static ckm_status adopt_vocabulary(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    int64_t tokens = 0;
    if (cli_model_published_vocabulary(t->model) == 0 || s->model.vocabulary > 0) {
        return CKM_OK;
    }
    ckm_status status = ckm_data_count_tokens(s->data, &tokens, err);
    t->adapted.model.vocabulary = tokens > 1 ? tokens : 0;
    return status;
}

// What to validate on: a share of the data, or a folder. Gives -1, or an exit status after having said why.
static int choose_validation(const cli_command *command, train_setup *t, ckm_trainer_options *o)
{
    const train_settings *s = t->settings;
    const char *given = s->validate;
    size_t n = given != NULL ? strlen(given) : 0;
    if (s->check || s->compare > 0) {
        return -1;
    }
    if (n > 0 && given[n - 1] == '%') {
        if (cli_read_fraction(given, &o->validate_fraction) != NULL ||
            !(o->validate_fraction > 0 && o->validate_fraction < 1)) {
            return cli_usage_error(command, "--validate: '%s' is no percentage above 0 and below 100", given);
        }
    } else if (n > 0 && strcmp(given, "none") != 0) {
        o->validate = given;
    } else if (given == NULL && ckm_data_find_validation(s->data, t->validation, sizeof t->validation)) {
        o->validate = t->validation;
    }
    if (s->save_best != NULL && o->validate == NULL && !(o->validate_fraction > 0)) {
        return cli_usage_error(command, "--save-best needs samples to validate on: --validate DIR, or --validate 10%%");
    }
    return -1;
}

static void note(ckm_log_level level, const char *line, void *user)
{
    const cli_progress *progress = user;
    if (level <= CKM_LOG_WARN) {
        fprintf(stderr, "%snote:%s %s\n", cli_style(stderr, CLI_WARN), cli_style(stderr, CLI_PLAIN), cli_text(line));
    } else if (progress->verbose) {
        fprintf(stderr, "%s\n", cli_text(line));
    }
}

ckm_rate_schedule cli_train_rates(const train_settings *s, int64_t last_step)
{
    static const ckm_rate_kind kinds[] = {CKM_RATE_CONSTANT, CKM_RATE_STEP, CKM_RATE_LINEAR, CKM_RATE_COSINE};
    ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
    rate.kind = kinds[s->schedule];
    rate.rate = cli_exactly(cli_train_rate(s));
    rate.warmup_steps = s->warmup;
    rate.every = s->rate_every;
    rate.factor = cli_exactly(s->rate_factor);
    rate.steps = last_step;
    rate.least = s->rate_least;
    return rate;
}

// Costs change from one search to the next.
static void start_progress(const ckm_dataflow *df, void *user)
{
    cli_progress *progress = user;
    const cli_limit_settings limits = {.verbose = progress->verbose};
    bool quiet = progress->quiet;
    *progress = cli_progress_start(&limits, progress->label, df);
    progress->verbose = limits.verbose;
    progress->quiet = quiet;
    progress->enabled = progress->enabled && !quiet;
}

// Options that those of the trainer refer to, until it is made.
typedef struct option_parts {
    ckm_autodiff_options step;
    ckm_program_options kernels;
    ckm_solve_options solve;
    ckm_data_options reading;
    ckm_import_options importing;
    ckm_rate_schedule rate;
} option_parts;

static ckm_status trainer_options(train_setup *t, option_parts *parts, ckm_trainer_options *o, ckm_error *err)
{
    const train_settings *s = t->settings;
    *parts = (option_parts){.step = autodiff_options(s),
                            .kernels = CKM_PROGRAM_OPTIONS_INIT,
                            .reading = CKM_DATA_OPTIONS_INIT,
                            .importing = cli_model_import_options(&s->model, s->model.batch),
                            .rate = cli_train_rates(s, s->steps)};
    t->limits = (cli_limit_settings){s->time_limit_seconds, 1e-3, s->threads, 1, s->verbose};
    t->progress = cli_progress_start(&t->limits, s->strategy, NULL);
    t->progress.quiet = s->quiet;
    parts->kernels.backend = s->back_end;
    parts->kernels.threads = (int)s->threads;
    parts->solve = cli_solve_options(&t->limits, s->strategy, &t->progress);
    parts->reading.scaling = (ckm_data_scaling)s->scaling;
    parts->reading.resize = s->resize;
    parts->reading.keep_order = s->keep_order;
    parts->reading.synthetic_samples = s->samples;
    o->step = &parts->step;
    o->kernels = &parts->kernels;
    o->solve = &parts->solve;
    o->reading = &parts->reading;
    o->data = s->data;
    o->measure_always = s->compare > 0;
    o->seed = s->seed >= 0 ? (uint64_t)s->seed : s->resume == NULL ? 1 : 0;
    o->weights = s->weights;
    o->resume = s->resume;
    o->change = s->change;
    cli_model_write_sizes(&s->model, t->sizes, sizeof t->sizes);
    o->network_options = t->sizes[0] != '\0' ? t->sizes : NULL;
    o->accumulate = s->accumulate;
    o->ranks = t->ranks;
    o->note = note;
    o->searching = start_progress;
    // Where the end of a run depends on its epochs, the rates that lead there are known only with the data.
    if (s->steps > 0 || parts->rate.kind == CKM_RATE_CONSTANT || parts->rate.kind == CKM_RATE_STEP) {
        o->rate = &parts->rate;
    }
    size_t n = s->export_to != NULL ? strlen(s->export_to) : 0;
    o->exports_model = n > 5 && strcmp(s->export_to + n - 5, ".onnx") == 0;
    if (cli_model_is_file(t->model)) {
        o->model = t->model;
        o->importing = &parts->importing;
    }
    if (strcmp(s->model.costs, "measured") == 0) {
        return CKM_OK;
    }
    o->costs = CKM_TRAINER_COSTS_MODEL;
    ckm_status status = cli_costs_choose(s->model.costs, &t->costs, err);
    o->cost_model = &t->costs.model;
    return status;
}

// Says why there is no schedule. Gives the exit status.
static int explain_absence(const train_setup *t, const ckm_trainer_info *info)
{
    char budget[64];
    char outside[64];
    char least[64] = "";
    char known[96] = "";
    char floor_text[64];
    if (info->least_bytes > 0) {
        snprintf(known, sizeof known, "; a budget of %s (%lld bytes) was tried and fits",
                 cli_show_bytes(info->least_bytes, least, sizeof least), (long long)info->least_bytes);
    }
    // The floor is that of any schedule; what else is proven speaks of those that keep the order.
    const char *which = !info->proven                            ? " was found that"
                        : info->budget_bytes < info->floor_bytes ? ""
                                                                 : " in the network's order";
    cli_failf(
        "no schedule%s fits a budget of %s (%lld bytes): data read ahead, kernels, threads and tables take %s, and "
        "at least %s (%lld bytes) are proven to be needed in all, in any order%s; give a larger budget, or a smaller "
        "--batch%s",
        which, cli_show_bytes(info->budget_bytes, budget, sizeof budget), (long long)info->budget_bytes,
        cli_show_bytes(info->outside_bytes, outside, sizeof outside),
        cli_show_bytes(info->floor_bytes, floor_text, sizeof floor_text), (long long)info->floor_bytes, known,
        t->settings->fused ? "" : ", or --fused");
    return info->proven ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

// Threads share what the ranks of a machine have in common; files are rank 0's business.
static void adapt_to_rank(train_setup *t)
{
    train_settings *s = &t->adapted;
    if (s->threads == 0) {
        s->threads = cli_processors();
        if (t->ranks != NULL && t->ranks->local > 1) {
            s->threads = s->threads > t->ranks->local ? s->threads / t->ranks->local : 1;
        }
    }
    if (t->ranks != NULL && t->ranks->rank != 0) {
        s->save = NULL;
        s->save_best = NULL;
        s->export_to = NULL;
        s->log = NULL;
        s->json = false;
    }
}

int cli_train_prepare(const cli_command *command, const train_settings *settings, const char *model,
                      const ckm_ranks *ranks, train_setup *t)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    option_parts parts;
    *t = (train_setup){.adapted = *settings, .model = model, .ranks = ranks, .at_start = ckm_run_get_memory(true)};
    t->settings = &t->adapted;
    adapt_to_rank(t);
    int outcome = cli_budget_of_run(command, t->settings->budget, &options.budget_bytes, &options.budget_fraction,
                                    &options.activations_fraction);
    if (outcome < 0) {
        outcome = choose_validation(command, t, &options);
    }
    if (outcome >= 0) {
        return outcome;
    }
    ckm_status status = adopt_batch(t, &err);
    if (status == CKM_OK) {
        status = adopt_classes(t, &err);
    }
    if (status == CKM_OK) {
        status = adopt_vocabulary(t, &err);
    }
    if (status == CKM_OK) {
        status = cli_model_load_network(model, &t->settings->model, t->settings->model.batch, &t->graph, &err);
    }
    if (status == CKM_OK) {
        status = trainer_options(t, &parts, &options, &err);
    }
    outcome = cli_ranks_settle(ranks, status == CKM_OK ? -1 : cli_fail(&err));
    if (outcome >= 0) {
        return outcome;
    }
    status = ckm_trainer_plan(t->graph, &options, &t->trainer, &err);
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    cli_note_threads(ckm_trainer_program(t->trainer), (int)t->settings->threads);
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    return info.fits ? -1 : explain_absence(t, &info);
}

void cli_train_dispose(train_setup *t)
{
    ckm_trainer_close(t->trainer);
    ckm_graph_free(t->graph);
}
