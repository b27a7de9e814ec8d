// SPDX-License-Identifier: Apache-2.0
// checkmate train, before the first step: from the options to a trainer.
#include "cli/cli_train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_weights.h"

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

const char *cli_train_read_augment(const char *text, double *crop, bool *flip)
{
    const double usual = 0.08;
    static const char crop_with[] = "crop=";
    *crop = 0;
    *flip = false;
    if (text == NULL || strcmp(text, "none") == 0) {
        return NULL;
    }
    for (const char *at = text; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        char word[64];
        size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, at);
        if (strcmp(word, "flip") == 0) {
            *flip = true;
        } else if (strcmp(word, "crop") == 0) {
            *crop = usual;
        } else if (strncmp(word, crop_with, sizeof crop_with - 1) == 0) {
            if (cli_read_fraction(word + sizeof crop_with - 1, crop) != NULL || !(*crop > 0 && *crop <= 1)) {
                return "crop=S takes a share of the picture's area above 0 and at most 1";
            }
        } else {
            return "the words are flip, crop, crop=S and none";
        }
    }
    return NULL;
}

// A resumed run keeps its batch size.
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

// Is the word in the list that --change gives?
static bool may_change(const train_settings *s, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = s->change; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

// Sizes that were given must be those in the file; otherwise it is another network.
static ckm_status check_sizes(const train_settings *s, const cli_model_settings *trained, ckm_error *err)
{
    const cli_shape *a = &trained->input_shape;
    const cli_shape *b = &s->model.input_shape;
    char was[32];
    const char *option = cli_model_other_size(&s->model, trained, was, sizeof was);
    if (option != NULL) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume, "was trained with --%s %s: leave it out, or give the same",
                         option, was);
    }
    if (a->rank == 3 && b->rank == 3 && memcmp(a->dims, b->dims, 3 * sizeof a->dims[0]) != 0) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->resume,
                         "was trained with --input-shape %lld,%lld,%lld: leave it out, or give the same",
                         (long long)a->dims[0], (long long)a->dims[1], (long long)a->dims[2]);
    }
    return CKM_OK;
}

// A resumed run keeps its sizes, which are in `trained`; an ONNX file has its own.
static ckm_status read_sizes(const train_setup *t, cli_model_settings *trained, ckm_error *err)
{
    const train_settings *s = t->settings;
    *trained = (cli_model_settings){0};
    if (s->resume == NULL || cli_model_is_file(t->model)) {
        return CKM_OK;
    }
    // Classes are a size only where they were given or are those of the data; otherwise the network has its own.
    ckm_status status = cli_weights_adopt_sizes(s->resume, t->model, trained, err);
    cli_model_settings with_input = *trained;
    if (status == CKM_OK) {
        status = cli_weights_adopt(s->resume, t->model, &with_input, err);
        trained->input_shape = with_input.input_shape;
    }
    return status == CKM_OK && !may_change(s, "network") ? check_sizes(s, trained, err) : status;
}

// The head of a network of the zoo has as many classes as the data, unless --classes sets the number or the data has only one.
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

// The vocabulary of a zoo network for texts is that of the text, unless --vocabulary sets it.
static ckm_status adopt_vocabulary(train_setup *t, ckm_error *err)
{
    const train_settings *s = t->settings;
    int64_t tokens = 0;
    if (cli_model_published_vocabulary(t->model) == 0) {
        return CKM_OK;
    }
    ckm_data_token_notes notes = {0, 0, 0};
    ckm_status status = ckm_data_count_tokens(s->data, &tokens, err);
    if (status == CKM_OK && tokens > 0) {
        status = ckm_data_read_token_notes(s->data, &notes, err);
    }
    if (status == CKM_OK && tokens > notes.vocabulary && notes.vocabulary > 0) {
        return cli_error(err, CKM_ERR_ARGUMENT, s->data,
                         "has token %lld, but the file next to it says that its tokenizer knows %lld",
                         (long long)tokens - 1, (long long)notes.vocabulary);
    }
    tokens = notes.vocabulary > 0 ? notes.vocabulary : tokens;
    t->adapted.model.vocabulary = s->model.vocabulary > 0 ? s->model.vocabulary : tokens > 1 ? tokens : 0;
    t->bytes_per_token = notes.tokens > 0 ? (double)notes.bytes / (double)notes.tokens : 0;
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
        cli_note(line);
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
    t->limits = (cli_limit_settings){s->planning.time_limit_seconds, 1e-3, s->kernels.threads, 1, s->verbose};
    t->progress = cli_progress_start(&t->limits, s->planning.strategy, NULL);
    t->progress.quiet = s->quiet;
    parts->kernels.backend = s->kernels.back_end;
    parts->kernels.threads = (int)s->kernels.threads;
    parts->solve = cli_solve_options(&t->limits, s->planning.strategy, &t->progress);
    parts->reading.scaling = (ckm_data_scaling)s->scaling;
    parts->reading.resize = s->resize;
    parts->reading.keep_order = s->keep_order;
    parts->reading.skip_damaged = !s->strict;
    (void)cli_train_read_augment(s->augment, &parts->reading.crop, &parts->reading.flip);  // check_usage checked it
    parts->reading.synthetic_samples = s->samples;
    o->step = &parts->step;
    o->kernels = &parts->kernels;
    o->solve = &parts->solve;
    o->reading = &parts->reading;
    o->data = s->data;
    o->measure_always = s->compare > 0;
    cli_second_memory second;
    ckm_status resolved = cli_second_memory_resolve(&s->second, &second, err);
    if (resolved != CKM_OK) {
        return resolved;
    }
    o->offload = s->offload;
    o->out_bytes_per_second = second.out_speed > 0 ? second.out_speed : 0;
    o->in_bytes_per_second = second.in_speed > 0 ? second.in_speed : 0;
    // 0 asks for a measurement, which a link without latency does not want.
    o->transfer_latency_ns = second.latency_ns > 0 ? second.latency_ns : second.link != NULL ? 1 : 0;
    o->offload_bytes = second.bytes > 0 ? second.bytes : 0;
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

// "; with --fused a schedule fits", if one does: plans again with every gradient applied as soon as it exists.
static void try_fused(train_setup *t, const option_parts *parts, const ckm_trainer_options *options, char *text,
                      size_t size)
{
    ckm_trainer_options fused = *options;
    ckm_autodiff_options step = parts->step;
    ckm_trainer *trainer = NULL;
    ckm_error ignored = CKM_ERROR_INIT;
    char overhead[64];
    text[0] = '\0';
    if (t->settings->fused || t->ranks != NULL || cli_stop_requested(NULL)) {
        return;
    }
    step.late_updates = false;
    fused.step = &step;
    fused.note = NULL;
    if (ckm_trainer_plan(t->graph, &fused, &trainer, &ignored) == CKM_OK && ckm_trainer_get_info(trainer).fits) {
        ckm_trainer_info info = ckm_trainer_get_info(trainer);
        snprintf(text, size, "; with --fused a schedule fits, with an overhead of %s",
                 cli_show_percent(cli_overhead(info.cost, info.baseline_cost), overhead, sizeof overhead));
    }
    ckm_trainer_close(trainer);
}

// Says why there is no schedule. Gives the exit status.
static int explain_absence(const ckm_trainer_info *info, const char *fused)
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
    // The floor covers every schedule; other proofs cover those that keep the order.
    const char *which = !info->proven                            ? " was found that"
                        : info->budget_bytes < info->floor_bytes ? ""
                                                                 : " in the network's order";
    cli_failf(
        "no schedule%s fits a budget of %s (%lld bytes): data read ahead, kernels, threads and tables take %s, and "
        "at least %s (%lld bytes) are proven to be needed in all, in any order%s%s; give a larger budget, or a smaller "
        "--batch",
        which, cli_show_bytes(info->budget_bytes, budget, sizeof budget), (long long)info->budget_bytes,
        cli_show_bytes(info->outside_bytes, outside, sizeof outside),
        cli_show_bytes(info->floor_bytes, floor_text, sizeof floor_text), (long long)info->floor_bytes, known, fused);
    return info->proven ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

// "min": a search within one byte finds the least that fits, and the plan is made for that. What just fitted may fail next time.
static ckm_status plan(train_setup *t, ckm_trainer_options *options, ckm_error *err)
{
    enum { MOST_TRIES = 3 };
    ckm_status status = ckm_trainer_plan(t->graph, options, &t->trainer, err);
    for (int k = 0; k < MOST_TRIES && t->settings->planning.budget.is_least && status == CKM_OK; k++) {
        ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
        if (info.fits) {
            break;
        }
        options->budget_bytes = cli_budget_least(info.least_bytes, info.baseline_bytes);
        options->note = NULL;
        ckm_trainer_close(t->trainer);
        t->trainer = NULL;
        status = ckm_trainer_plan(t->graph, options, &t->trainer, err);
    }
    return status;
}

// The ranks of a machine share its processors; only rank 0 writes files.
static void adapt_to_rank(train_setup *t)
{
    train_settings *s = &t->adapted;
    if (s->kernels.threads == 0) {
        s->kernels.threads = cli_processors();
        if (t->ranks != NULL && t->ranks->local > 1) {
            s->kernels.threads = s->kernels.threads > t->ranks->local ? s->kernels.threads / t->ranks->local : 1;
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
    cli_model_settings trained;
    *t = (train_setup){.adapted = *settings, .model = model, .ranks = ranks, .at_start = ckm_run_get_memory(true)};
    t->settings = &t->adapted;
    adapt_to_rank(t);
    int outcome = cli_budget_of_run(command, &t->settings->planning.budget, &options.budget_bytes,
                                    &options.budget_fraction, &options.activations_fraction);
    if (outcome < 0) {
        outcome = choose_validation(command, t, &options);
    }
    if (outcome >= 0) {
        return outcome;
    }
    ckm_status status = adopt_batch(t, &err);
    if (status == CKM_OK) {
        status = read_sizes(t, &trained, &err);
    }
    if (status == CKM_OK) {
        status = adopt_classes(t, &err);
    }
    if (status == CKM_OK) {
        status = adopt_vocabulary(t, &err);
    }
    if (status == CKM_OK) {
        cli_model_adopt_sizes(&trained, &t->adapted.model);
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
    status = plan(t, &options, &err);
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    cli_note_threads(ckm_trainer_program(t->trainer), (int)t->settings->kernels.threads);
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    if (info.fits) {
        return -1;
    }
    char fused[160];
    try_fused(t, &parts, &options, fused, sizeof fused);
    return explain_absence(&info, fused);
}

void cli_train_dispose(train_setup *t)
{
    ckm_trainer_close(t->trainer);
    ckm_graph_free(t->graph);
}
