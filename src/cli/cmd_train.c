// SPDX-License-Identifier: Apache-2.0
// checkmate train: training within a memory budget.
#include <errno.h>
#if defined(__GLIBC__) || defined(__linux__)
#include <malloc.h>
#endif
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/cli_pictures.h"
#include "cli/cli_train.h"

static const train_settings defaults = {
    .planning = CLI_PLANNING_DEFAULTS,
    .second = CLI_SECOND_MEMORY_DEFAULTS,
    .seed = -1,
    .accumulate = 1,
    .rate = -1,
    .momentum = 0.9,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .rate_factor = 0.1,
    .model = {.costs = "measured"},
};

static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
static const char *const losses[] = {"auto", "cross-entropy", "mse", NULL};
static const char *const schedules[] = {"constant", "step", "linear", "cosine", NULL};
static const char *const policies[] = {"stop", "continue", NULL};

#define AT(member) offsetof(train_settings, member)

static const cli_option data_options[] = {
    {"data", 'd', CLI_INPUT, AT(data), "DIR|FILE",
     "Required. A folder with training data: MNIST's IDX files; CIFAR-10 or CIFAR-100 in binary form; x.npy and "
     "y.npy; one subfolder of PNG or JPEG images per class; or texts (.txt). The format is detected. A file is a text, "
     "whose "
     "bytes are tokens to predict from those before, or tokens (.npy). Or the word 'synthetic', for generated data "
     "that a "
     "network can learn.",
     NULL, 0, 0, NULL},
    {"validate", 0, CLI_INPUT, AT(validate), "DIR|X%",
     "Samples that are not trained on: loss and accuracy on all of them after every epoch, computed within the budget. "
     "A "
     "folder like that of --data (of MNIST or CIFAR the same one, for its test files), a percentage of the samples of "
     "--data, which --seed chooses (of a text, or with --keep-order, the last ones), or 'none'.",
     "the folder 'val' or 'test' next to 'train' in a folder of images, otherwise none", 0, 0, NULL},
    {"resize", 0, CLI_FLAG, AT(resize), NULL,
     "Adapt images of another size, and grey ones, to the network's input. Folders of images are always resized.", NULL,
     0, 0, NULL},
    {"pixels", 0, CLI_CHOICE, AT(scaling), "HOW",
     "How pixel values are scaled: 'symmetric', from -1 to 1; 'unit', from 0 to 1; 'imagenet', normalized by "
     "ImageNet's mean and deviation, as most pretrained networks expect.",
     "symmetric", 0, 0, cli_pixel_scalings},
    {"augment", 0, CLI_TEXT, AT(augment), "WORD,...",
     "Change pictures at random before training on them: 'flip' mirrors half of them, left and right; 'crop' takes "
     "a "
     "part of at least 8 % of the area, 3/4 to 4/3 as wide as high, and brings it to the network's input; 'crop=S' one "
     "of at least the share S. The change depends only on --seed, the epoch and the sample. Samples of --validate and "
     "'checkmate run' are not changed.",
     "none", 0, 0, NULL},
    {"strict", 0, CLI_FLAG, AT(strict), NULL,
     "End with an error at a picture of a folder that cannot be read. Otherwise it is named and left out.", NULL, 0, 0,
     NULL},
    {"keep-order", 0, CLI_FLAG, AT(keep_order), NULL, "Do not shuffle the samples for each epoch.", NULL, 0, 0, NULL},
    {"samples", 0, CLI_INTEGER, AT(samples), "N", "Number of samples of 'synthetic' data.", "1024", 1, INT64_C(1) << 40,
     NULL},
};

static const cli_option memory_options[] = {
    {"fused", 0, CLI_FLAG, AT(fused), NULL,
     "Apply every weight gradient as soon as it exists and free it, instead of applying all of them at the end. This "
     "needs less memory, with the same result.",
     NULL, 0, 0, NULL},
    {"check", 0, CLI_FLAG, AT(check), NULL,
     "Instead of training, run a few steps (--steps N, otherwise 3) with and without rematerialization, and compare "
     "the outputs of all operators, losses, parameters and states bit for bit.",
     NULL, 0, 0, NULL},
    {"compare", 0, CLI_INTEGER, AT(compare), "N",
     "Instead of training, time steps with and without rematerialization in turns, for N rounds, and compare with "
     "the prediction. This takes the memory of both.",
     NULL, 1, 100000, NULL},
    {"on-excess", 0, CLI_CHOICE, AT(on_excess), "DO",
     "What to do if a step exceeds the budget after all: 'stop' with an error, after saving if --save is given, or "
     "'continue' with a warning.",
     "stop", 0, 0, policies},
    {"memory-limit", 0, CLI_BYTES, AT(memory_limit), "B",
     "Make the system refuse the process more than B bytes of address space beyond what it has when training begins. "
     "Training needs the budget and up to 32 MB of address space that is never used, with any number of threads.",
     "none", 0, 0, NULL},
};

static const cli_option offload_options[] = {
    {"offload", 0, CLI_TEXT, AT(offload), "DIR",
     "Also move tensors to a file in DIR and back while operators run, where that is cheaper than computing them again "
     "or "
     "where nothing else fits the budget. The file has its full size from the start and no name, and is gone when "
     "training ends, however it ends. The budget includes its buffers. DIR should be on a fast disk.",
     "none", 0, 0, NULL},
    {"link", 0, CLI_TEXT, AT(second.link), "NAME",
     "Plan with the speeds and the latency in NAME instead of measuring them: a profile made with 'profile --offload', "
     "a "
     "device file, or a link that 'checkmate devices' lists.",
     NULL, 0, 0, NULL},
    {"out-speed", 0, CLI_BYTES, AT(second.out_speed), "B",
     "Bytes per second to DIR that the plan assumes, such as 2GB. A wrong speed costs time, and nothing else.",
     "as measured at the start", 0, 0, NULL},
    {"in-speed", 0, CLI_BYTES, AT(second.in_speed), "B", "Bytes per second back from DIR.", "as measured at the start",
     0, 0, NULL},
    {"transfer-latency", 0, CLI_INTEGER, AT(second.latency_ns), "NS",
     "Latency of every transfer, in nanoseconds, that the plan assumes.", "as measured at the start", 1,
     INT64_C(1) << 40, NULL},
    {"second-memory", 0, CLI_BYTES, AT(second.bytes), "B",
     "How many bytes may be moved out at a time. The file rounds each tensor up to 4096 bytes.", "no limit", 0, 0,
     NULL},
};

static const cli_option training_options[] = {
    {"epochs", 'e', CLI_INTEGER, AT(epochs), "N", "Number of passes through the data.", "1", 1, INT64_C(1) << 40, NULL},
    {"steps", 0, CLI_INTEGER, AT(steps), "N",
     "Number of steps to train, instead of --epochs. Steps before --resume count too.", NULL, 1, INT64_C(1) << 40,
     NULL},
    {"accumulate", 0, CLI_INTEGER, AT(accumulate), "N",
     "Batches of a step: one after the other, then one update by the mean of their gradients. The sum takes memory as "
     "large as the parameters. Under mpirun a step has a batch in each process instead, with the same result.",
     "1", 1, CKM_RANKS_MOST, NULL},
    {"loss", 0, CLI_CHOICE, AT(loss), "LOSS",
     "'cross-entropy' of classes, per sample, pixel or token; 'mse', the mean squared error against targets; 'auto', "
     "what the network is made for: 'mse' if it removes noise, otherwise 'cross-entropy'.",
     "auto", 0, 0, losses},
    {"optimizer", 0, CLI_CHOICE, AT(optimizer), "NAME", "'sgd', 'adam' or 'adamw'.", "sgd", 0, 0, optimizers},
    {"lr", 0, CLI_REAL, AT(rate), "R", "Learning rate.", "0.01, adam and adamw 0.001", 0, 0, NULL},
    {"momentum", 0, CLI_REAL, AT(momentum), "M", "For sgd; with 0, no state is kept.", "0.9", 0, 0, NULL},
    {"nesterov", 0, CLI_FLAG, AT(nesterov), NULL, "Use Nesterov's form of momentum.", NULL, 0, 0, NULL},
    {"weight-decay", 0, CLI_REAL, AT(weight_decay), "D",
     "Added to the gradient as D times the weight; adamw decays the weight itself.", "0", 0, 0, NULL},
    {"beta1", 0, CLI_REAL, AT(beta1), "B", "For adam and adamw.", "0.9", 0, 0, NULL},
    {"beta2", 0, CLI_REAL, AT(beta2), "B", "For adam and adamw.", "0.999", 0, 0, NULL},
    {"epsilon", 0, CLI_REAL, AT(epsilon), "E", "For adam and adamw.", "1e-8", 0, 0, NULL},
    {"schedule", 0, CLI_CHOICE, AT(schedule), "S",
     "How the learning rate changes: 'constant'; 'step', multiplied by --lr-factor every --lr-every steps; 'linear' "
     "or 'cosine', down to --lr-min at the last step.",
     "constant", 0, 0, schedules},
    {"warmup", 0, CLI_INTEGER, AT(warmup), "N", "Steps over which the learning rate rises from nearly nothing.", "0", 0,
     INT64_C(1) << 40, NULL},
    {"lr-every", 0, CLI_INTEGER, AT(rate_every), "N", "For --schedule step.", NULL, 1, INT64_C(1) << 40, NULL},
    {"lr-factor", 0, CLI_REAL, AT(rate_factor), "F", "For --schedule step.", "0.1", 0, 0, NULL},
    {"lr-min", 0, CLI_REAL, AT(rate_least), "R", "For --schedule linear and cosine.", "0", 0, 0, NULL},
    {"seed", 0, CLI_INTEGER, AT(seed), "N", "Seed for initial weights, dropout and the order of the data.", "1", 0,
     INT64_MAX, NULL},
    {"on-nan", 0, CLI_CHOICE, AT(on_nan), "DO",
     "What to do when the loss is NaN or infinite: 'stop' with an error, or 'continue'. The file saved last stays as "
     "it is either way: what is not finite is neither saved nor exported.",
     "stop", 0, 0, policies},
};

static const cli_option file_options[] = {
    {"save", 0, CLI_OUTPUT, AT(save), "FILE",
     "Write parameters, optimizer state and the position in training to FILE (safetensors) at the end, on Ctrl-C and "
     "on SIGTERM. Only a complete new file replaces the old one.",
     NULL, 0, 0, NULL},
    {"save-every", 0, CLI_INTEGER, AT(save_every), "N", "Save after every N steps as well as at the end.",
     "after every epoch", 1, INT64_C(1) << 40, NULL},
    {"save-best", 0, CLI_OUTPUT, AT(save_best), "FILE",
     "Write the same to FILE whenever the loss on the samples of --validate is the least so far. A run that is resumed "
     "compares "
     "with the least loss of all its parts.",
     NULL, 0, 0, NULL},
    {"resume", 0, CLI_INPUT, AT(resume), "FILE",
     "Continue from FILE, written by --save, bit for bit as if training had not been interrupted. The budget and the "
     "schedule may differ. Batch, seed and sizes of a network of the zoo (--depth, --input-shape and others) are those "
     "of FILE and need not be given again. Another network, loss, learning rate or other samples are an error; see "
     "--change.",
     NULL, 0, 0, NULL},
    {"change", 0, CLI_TEXT, AT(change), "NAME,...",
     "Settings that may differ from those of --resume: network, loss, data (its format), samples, classes, pixels, "
     "augment, keep-order, lr (with its schedule).",
     "none", 0, 0, NULL},
    {"weights", 0, CLI_INPUT, AT(weights), "FILE",
     "Start from the weights in a safetensors FILE, matched by name, ours or torchvision's and transformers' where the "
     "network is theirs. Weights in an ONNX model's own file are used "
     "without this option.",
     NULL, 0, 0, NULL},
    {"export", 'o', CLI_OUTPUT, AT(export_to), "FILE",
     "Write the trained weights to FILE: as safetensors, with PyTorch's names where the network is PyTorch's, or, if "
     "the name of FILE ends in .onnx, with the network, for ONNX Runtime and others. 'checkmate export' does so later.",
     NULL, 0, 0, NULL},
    {"log", 0, CLI_OUTPUT, AT(log), "FILE", "Write one JSON object per step to FILE.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, AT(json), NULL, "Print the result as one JSON object.", NULL, 0, 0, NULL},
    {"verbose", 'v', CLI_FLAG, AT(verbose), NULL, "Also report on solving and saving.", NULL, 0, 0, NULL},
    {"quiet", 'q', CLI_FLAG, AT(quiet), NULL,
     "No plan and no progress on standard error: warnings and errors only. The result is printed.", NULL, 0, 0, NULL},
};

static const cli_option cost_options[] = {
    {"costs", 0, CLI_INPUT, AT(model.costs), "WHAT",
     "Costs of operators, for choosing what to compute again: 'measured', times on this machine, measured once and "
     "kept for later runs with the same network, batch and threads; 'flops', multiply-accumulates (MACs); a "
     "checkmate-profile FILE; or 'device:NAME', times that a device model predicts.",
     "measured", 0, 0, NULL},
};

// The same of --offload and what belongs to it.
static int check_offload(const cli_command *command, const train_settings *s)
{
    const cli_second_memory *m = &s->second;
    if (s->offload == NULL) {
        return m->bytes < 0 && m->out_speed < 0 && m->in_speed < 0 && m->latency_ns < 0 && m->link == NULL
                   ? -1
                   : cli_usage_error(command,
                                     "--link, --out-speed, --in-speed, --transfer-latency and --second-memory go "
                                     "with --offload DIR");
    }
    if (s->offload[0] == '\0' || m->bytes == 0) {
        return cli_usage_error(command, s->offload[0] == '\0' ? "--offload: the name of the folder is empty"
                                                              : "--second-memory is 0: leave out --offload then");
    }
    if (strcmp(s->model.costs, "flops") == 0) {
        return cli_usage_error(command, "--offload needs costs that are times: leave out --costs flops");
    }
    if (cli_ranks_launched() > 1) {
        return cli_usage_error(command, "--offload trains in one process: start it without mpirun");
    }
    return cli_second_memory_check(command, m);
}

// The exit status for options that contradict each other or have impossible values; otherwise -1.
static int check_usage(const cli_command *command, const train_settings *s, const char *model)
{
    if (s->data == NULL) {
        return cli_usage_error(command, "--data is missing: give a folder, or 'synthetic'");
    }
    double crop = 0;
    bool flip = false;
    const char *problem = cli_train_read_augment(s->augment, &crop, &flip);
    if (problem != NULL) {
        return cli_usage_error(command, "--augment %s: %s", s->augment, problem);
    }
    if (cli_model_is_dataflow(model)) {
        return cli_usage_error(command, "a checkmate-graph file does not say how to run its operators: give a network");
    }
    if (s->quiet && s->verbose) {
        return cli_usage_error(command, "--quiet and --verbose contradict each other: give one of them");
    }
    if (s->epochs > 0 && s->steps > 0) {
        return cli_usage_error(command, "--epochs and --steps both say when to end: give one of them");
    }
    if (s->schedule == CKM_RATE_STEP && s->rate_every == 0) {
        return cli_usage_error(command, "--schedule step needs --lr-every N");
    }
    if (s->nesterov && (s->optimizer != 0 || !(s->momentum > 0))) {
        return cli_usage_error(command, "--nesterov needs sgd with a momentum above 0");
    }
    if (!(s->momentum < 1) || !(s->beta1 < 1) || !(s->beta2 < 1)) {
        return cli_usage_error(command, "--momentum, --beta1 and --beta2 must be below 1");
    }
    if (!(s->epsilon > 0)) {
        return cli_usage_error(command, "--epsilon must be above 0");
    }
    if (s->save_every > 0 && s->save == NULL) {
        return cli_usage_error(command, "--save-every needs --save FILE");
    }
    if (s->change != NULL && s->resume == NULL) {
        return cli_usage_error(command, "--change goes with --resume FILE");
    }
    if (s->resume != NULL && s->weights != NULL) {
        return cli_usage_error(command, "--resume restores the weights of that run: leave out --weights");
    }
    if ((s->check || s->compare > 0) &&
        (s->save != NULL || s->save_best != NULL || s->export_to != NULL || s->log != NULL)) {
        return cli_usage_error(command, "--check and --compare do not train: leave out --save, --export and --log");
    }
    if (cli_ranks_launched() > 1 && (s->check || s->compare > 0)) {
        return cli_usage_error(command, "--check and --compare run in one process: start them without mpirun");
    }
    if (cli_ranks_launched() > 1 && s->planning.budget.is_least) {
        return cli_usage_error(command,
                               "--budget min is searched for in one process: start it without mpirun, then give "
                               "the budget that it names");
    }
    if (cli_ranks_launched() > 1 && s->accumulate > 1) {
        return cli_usage_error(command, "under mpirun a step has one batch in each process: leave out --accumulate");
    }
    int outcome = check_offload(command, s);
    return outcome < 0 ? cli_check_strategy(command, s->planning.strategy) : outcome;
}

// Seconds that writing parameters and optimizer state may take at the end, and that the first step may.
static const double long_grace_seconds = 600;

// Called between steps: only the save remains.
static bool should_stop(void *user)
{
    const train_report *report = user;
    if (!report->exceeded && !cli_stop_requested(NULL)) {
        return false;
    }
    cli_stop_grace(long_grace_seconds);
    return true;
}

static ckm_train_options train_options(const train_setup *t, train_report *report, ckm_rate_schedule *rate)
{
    const train_settings *s = t->settings;
    int64_t batches = ckm_data_get_facts(ckm_trainer_data(t->trainer)).batches / cli_train_step_batches(t);
    batches = batches > 0 ? batches : 1;  // none is an error that training reports
    int64_t epochs = s->epochs > 0 ? s->epochs : 1;
    int64_t all = batches <= INT64_MAX / epochs ? batches * epochs : INT64_MAX;  // saturates
    ckm_train_options options = CKM_TRAIN_OPTIONS_INIT;
    options.last_step = s->steps > 0 ? s->steps : all;
    options.save_path = s->save;
    options.save_every = s->save_every > 0 ? s->save_every : batches;
    options.on_nan = s->on_nan == 0 ? CKM_NAN_STOP : CKM_NAN_GO_ON;
    options.progress = cli_train_report_step;
    options.event = cli_train_report_event;
    options.validated = cli_train_report_validation;
    options.best_path = s->save_best;
    options.stop = should_stop;
    options.user = report;
    options.rate = rate;
    *rate = cli_train_rates(s, options.last_step);
    return options;
}

// --memory-limit: on top of the address space that the process has now.
static ckm_status limit_memory(int64_t bytes, ckm_error *err)
{
    struct rlimit limit;
    int64_t now = cli_train_address_space();
    if (bytes == 0) {
        return CKM_OK;
    }
    if (now < 0 || getrlimit(RLIMIT_AS, &limit) != 0) {
        return cli_error(err, CKM_ERR_UNSUPPORTED, NULL,
                         "--memory-limit: this system does not say how much memory is used");
    }
    limit.rlim_cur = (rlim_t)now + (rlim_t)bytes;
    return setrlimit(RLIMIT_AS, &limit) == 0
               ? CKM_OK
               : cli_error(err, CKM_ERR_ARGUMENT, NULL, "--memory-limit: %s", strerror(errno));
}

// One heap for each thread would reserve 64 MiB of address space each.
static void keep_heap_in_one_place(void)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, 1);
#endif
}

static ckm_status excess_error(const train_report *report, ckm_error *err)
{
    char grown[64];
    char budget[64];
    const train_settings *s = report->setup->settings;
    return cli_error(err, CKM_ERR_INTERNAL, NULL,
                     "step %lld: memory grew by %s (%lld bytes), more than the budget of %s; %s%s; this should not "
                     "happen: please report it; "
                     "--on-excess continue trains on",
                     (long long)report->exceeded_step, cli_show_bytes(report->exceeded_bytes, grown, sizeof grown),
                     (long long)report->exceeded_bytes,
                     cli_show_bytes(ckm_trainer_get_info(report->setup->trainer).budget_bytes, budget, sizeof budget),
                     s->save != NULL ? "the state is in " : "training was stopped", s->save != NULL ? s->save : "");
}

// Final messages when training has ended, whether it succeeded or failed.
static int conclude(train_setup *t, train_report *report, const ckm_train_result *result, ckm_status status,
                    ckm_error *err)
{
    ckm_error log_err = CKM_ERROR_INIT;
    if (status == CKM_OK && report->exceeded) {
        status = excess_error(report, err);
    }
    ckm_status logged = cli_train_report_close(report, &log_err);
    int outcome = cli_ranks_settle(t->ranks, status == CKM_OK ? CLI_DONE : cli_fail(err));
    if (outcome != CLI_DONE) {
        return outcome;
    }
    outcome = cli_train_report_result(report, result);
    return outcome == CLI_DONE && logged != CKM_OK ? cli_fail(&log_err) : outcome;
}

static int train(train_setup *t)
{
    ckm_error err = CKM_ERROR_INIT;
    train_report report;
    ckm_train_result result;
    ckm_status status = cli_train_report_open(&report, t, &err);
    int outcome = cli_ranks_settle(t->ranks, status == CKM_OK ? -1 : cli_fail(&err));
    if (outcome >= 0) {
        return outcome;
    }
    keep_heap_in_one_place();
    cli_train_meter_start(&report.meter);
    status = ckm_ranks_agree(t->ranks, limit_memory(t->settings->memory_limit, &err), &err);
    if (status == CKM_OK) {
        status = ckm_trainer_begin(t->trainer, &err);
    }
    if (status == CKM_OK) {
        ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
        ckm_train_options options = train_options(t, &report, &rate);
        cli_train_report_plan(&report);
        cli_stop_is_for_training();
        cli_stop_grace(long_grace_seconds);
        status = ckm_trainer_run(t->trainer, &options, &result, &err);
    }
    if (status == CKM_OK && t->settings->export_to != NULL) {
        status = ckm_trainer_export(t->trainer, t->settings->export_to, &err);
    }
    cli_train_meter_stop(&report.meter);
    return conclude(t, &report, &result, status, &err);
}

// Reject a file that cannot hold weights before anything is measured or solved.
static int check_input(const char *path)
{
    struct stat facts;
    if (path == NULL) {
        return -1;
    }
    if (stat(path, &facts) != 0) {
        return cli_failf("%s: cannot open: %s", path, strerror(errno));
    }
    if (S_ISREG(facts.st_mode)) {
        return -1;
    }
    return cli_failf("%s: is a %s, not a file", path,
                     S_ISDIR(facts.st_mode)    ? "directory"
                     : S_ISFIFO(facts.st_mode) ? "pipe"
                     : S_ISSOCK(facts.st_mode) ? "socket"
                                               : "device");
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const train_settings *s = settings;
    const ckm_ranks *ranks = NULL;
    train_setup setup = {.settings = s};
    (void)n_arguments;
    int outcome = check_usage(command, s, arguments[0]);
    if (outcome < 0) {
        outcome = cli_ranks_open(&ranks);
    }
    if (outcome >= 0) {
        return outcome;
    }
    outcome = check_input(s->weights);
    if (outcome < 0) {
        outcome = check_input(s->resume);
    }
    if (outcome < 0 && (ranks == NULL || ranks->rank == 0)) {
        outcome = cli_files_try(command, s);
    }
    outcome = cli_ranks_settle(ranks, outcome);
    if (outcome < 0) {
        cli_stop_install();
        outcome = cli_train_prepare(command, s, arguments[0], ranks, &setup);
    }
    if (outcome < 0) {
        outcome = s->check || s->compare > 0 ? cli_train_both_ways(&setup) : train(&setup);
    }
    cli_train_dispose(&setup);
    return cli_ranks_close(ranks, outcome);
}

static const cli_group groups[] = {
    {"Data", data_options, CLI_COUNT(data_options), 0},
    {"Memory", cli_planning_options, CLI_N_PLANNING_OPTIONS, AT(planning)},
    {NULL, cost_options, CLI_COUNT(cost_options), 0},
    {NULL, memory_options, CLI_COUNT(memory_options), 0},
    {"Second memory", offload_options, CLI_COUNT(offload_options), 0},
    {"Training", training_options, CLI_COUNT(training_options), 0},
    {NULL, cli_kernel_options, CLI_N_KERNEL_OPTIONS, AT(kernels)},
    {"Files", file_options, CLI_COUNT(file_options), 0},
    {"Network", cli_network_options, CLI_N_NETWORK_OPTIONS, AT(model)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_train = {
    .name = "train",
    .summary = "Train a network within a memory budget.",
    .usage = "MODEL --data DIR|synthetic [--batch N] [--budget B|auto|min] [--epochs N] [options]",
    .description =
        "Trains MODEL, a network of the zoo or an ONNX file, on the CPU. Before the first step it searches for a "
        "schedule that fits the budget: what to keep in memory and what to compute again. It lays all buffers out in "
        "one block of memory. After that, a step allocates only a few hundred bytes at a time, and there is room for "
        "them, so the budget holds. Recomputed values are the same, so losses and weights are, bit for bit, those of "
        "training without a budget; only the time is longer. --check verifies this for your case.\n\nA run can be "
        "interrupted at any time. With --save, Ctrl-C and SIGTERM end it after the current step and save its state; "
        "if the process is killed, the file saved last remains. --resume continues bit for bit. If a save fails, for "
        "example because the disk is full, the old file stays, training continues, and the next save tries again; if "
        "the last save fails, that is an error.\n\nA separate thread reads training data ahead, in an order that "
        "depends only on --seed. Every epoch shuffles the data again and leaves out a remainder smaller than a "
        "batch. Progress goes to standard error, the result to standard output.\n\nWith --offload, tensors are also "
        "moved to a file and read back while operators run, where that is cheaper than "
        "computing them again or nothing else fits the budget. Bytes in memory, losses and weights do not depend on "
        "how fast the "
        "disk is.\n\nWhere the program was built with "
        "MPI, 'mpirun -n N checkmate train ...' trains in N processes: each has its own batch in every step and "
        "keeps within the budget by itself. Losses and weights are those of --accumulate N in one process, bit for "
        "bit, and files written by one can be resumed by the other. Rank 0 prints, logs and saves.",
    .exit_statuses = "0  trained, or stopped by a signal\n1  failed: bad input, a loss that is not a number, input "
                     "or output error, out of memory\n2  wrong usage\n3  proven: no schedule of the class named fits "
                     "the budget\n4  no "
                     "schedule was found within the limits\n",
    .examples =
        "checkmate train MobileNet --data photos --batch 32 --budget 2GiB --epochs 10 --save run.safetensors\n"
        "checkmate train MobileNet --data photos --budget 1GiB --epochs 20 --resume run.safetensors --save "
        "on.safetensors\n"
        "checkmate train ResNet50 --data cifar-10 --input-shape 32,32,3 --batch 256 --budget 60% --fused --schedule "
        "cosine\n"
        "checkmate train GPT2 --data book.txt --validate 5% --sequence-length 128 --width 128 --depth 4 --heads 4 "
        "--batch 16 "
        "--optimizer adamw --budget 60% --save gpt.safetensors\n"
        "checkmate train ResNet50 --data photos --batch 32 --budget 40% --fused --offload /fast/disk --save "
        "run.safetensors\n"
        "checkmate train model.onnx --data images --pixels imagenet --batch 8 --export trained.onnx\n"
        "checkmate train vgg_unet --data synthetic --input-shape 128,192,3 --batch 4 --budget 60% --fused --check\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
