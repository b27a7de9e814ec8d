// SPDX-License-Identifier: Apache-2.0
// checkmate run: a network forward, within a memory budget.
#include <stddef.h>
#include <string.h>

#include "cli/cli_run.h"
#include "cli/cli_weights.h"

static const run_settings defaults = {
    .planning = CLI_PLANNING_DEFAULTS,
    .scaling = -1,
    .seed = 1,
    .temperature = 0.8,
    .model = CLI_MODEL_DEFAULTS,
};
_Static_assert(sizeof(run_settings) <= CLI_SETTINGS_MAX, "parsing has room for the settings");

#define AT(member) offsetof(run_settings, member)

static const cli_option file_options[] = {
    {"input", 'i', CLI_INPUTS, AT(inputs), "[NAME=]FILE",
     "Required without pictures. An array (.npy) for the input called NAME; give the option once for each input. "
     "Without NAME= it is "
     "the network's first input. Its first dimension is the batch, and the type must be the input's: nothing is "
     "converted.",
     NULL, 0, 0, NULL},
    {"output", 'o', CLI_OUTPUTS, AT(outputs), "[NAME=]FILE",
     "Write the output called NAME to FILE, as .npy; give the option once for each output that you want. Without NAME= "
     "it is the network's first output. Files are replaced when all of them are complete. On pictures: one FILE, a "
     "table "
     "(CSV) of the five likeliest classes, or an array with a row a picture if its name ends in .npy; otherwise the "
     "table "
     "goes to standard output.",
     NULL, 0, 0, NULL},
    {"weights", 0, CLI_INPUT, AT(weights), "FILE",
     "Weights in a safetensors FILE, as 'checkmate train --export' and --save write them, or of "
     "torchvision or transformers where the network is theirs, matched by name. Weights in an ONNX model's own file "
     "are "
     "used without this option.",
     NULL, 0, 0, NULL},
    {"pixels", 0, CLI_CHOICE, AT(scaling), "HOW",
     "How the pixel values of pictures are scaled: 'symmetric', from -1 to 1; 'unit', from 0 to 1; 'imagenet', "
     "normalized "
     "by ImageNet's mean and deviation.",
     "as in training, which --weights says, or an ONNX file that training wrote; otherwise symmetric", 0, 0,
     cli_pixel_scalings},
    {"strict", 0, CLI_FLAG, AT(strict), NULL,
     "End at the first picture that cannot be read, instead of leaving it out.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, AT(json), NULL, "Print the result as one JSON object.", NULL, 0, 0, NULL},
    {"verbose", 'v', CLI_FLAG, AT(verbose), NULL, "Also report on solving.", NULL, 0, 0, NULL},
    {"quiet", 'q', CLI_FLAG, AT(quiet), NULL, "No progress and no notes on standard error: warnings and errors only.",
     NULL, 0, 0, NULL},
};

static const cli_option text_options[] = {
    {"generate", 0, CLI_INTEGER, AT(generate), "N",
     "Write N bytes that continue --prompt, one after the other. The network is one that 'checkmate train' trained "
     "on a "
     "text, and --weights says its size. The text goes to standard output, or to -o FILE.",
     NULL, 1, 1 << 24, NULL},
    {"prompt", 0, CLI_TEXT, AT(prompt), "TEXT", "The text to continue; at least a byte.", "a new line", 0, 0, NULL},
    {"prompt-tokens", 0, CLI_INPUT, AT(prompt_tokens), "FILE",
     "The tokens to continue, of a tokenizer: an array of integers (.npy), as 'python -m checkmate.text' writes "
     "it. "
     "Then N tokens are written, to -o FILE as such an array, or as numbers to standard output.",
     NULL, 0, 0, NULL},
    {"temperature", 0, CLI_REAL, AT(temperature), "T",
     "How freely to choose: 1 draws as the network predicts, less keeps closer to the likeliest, and 0 always takes "
     "it.",
     "0.8", 0, 0, NULL},
    {"seed", 0, CLI_INTEGER, AT(seed), "N", "Seed of the choices: the same gives the same text.", "1", 0, INT64_MAX,
     NULL},
};

static const cli_option cost_options[] = {
    {"costs", 0, CLI_INPUT, AT(model.costs), "WHAT",
     "Costs of operators, by which the schedule is chosen: 'flops', multiply-accumulates (MACs), or 'device:NAME', "
     "times that a device model predicts.",
     "flops", 0, 0, NULL},
};

const char *cli_run_output(const run_settings *s)
{
    return s->outputs.n > 0 ? cli_files_path(s->outputs.items[0]) : "-";
}

static int check_usage(const cli_command *command, const run_setup *r)
{
    const run_settings *s = r->settings;
    if (cli_model_is_dataflow(r->model)) {
        return cli_usage_error(command, "a checkmate-graph file does not say how to run its operators: give a network");
    }
    if (s->quiet && s->verbose) {
        return cli_usage_error(command, "--quiet and --verbose contradict each other: give one of them");
    }
    if (r->way != &cli_run_text && (s->prompt != NULL || s->prompt_tokens != NULL)) {
        return cli_usage_error(command, "--prompt and --prompt-tokens go with --generate N");
    }
    int outcome = r->way->check(command, s, r->folder != NULL);
    return outcome < 0 ? cli_check_strategy(command, s->planning.strategy) : outcome;
}

// "min": a search within one byte finds the least that fits, and the plan is made for that. What just fitted may fail next time.
static ckm_status plan_within(run_setup *r, ckm_inference_options *options, ckm_error *err)
{
    enum { MOST_TRIES = 3 };
    ckm_status status = ckm_inference_plan(r->graph, options, &r->inference, err);
    for (int k = 0; k < MOST_TRIES && r->settings->planning.budget.is_least && status == CKM_OK; k++) {
        ckm_inference_info info = ckm_inference_get_info(r->inference);
        if (info.fits) {
            break;
        }
        options->budget_bytes = cli_budget_least(info.least_bytes, info.baseline_bytes);
        ckm_inference_close(r->inference);
        r->inference = NULL;
        status = ckm_inference_plan(r->graph, options, &r->inference, err);
    }
    return status;
}

static ckm_status plan(run_setup *r, ckm_inference_options options, ckm_error *err)
{
    const run_settings *s = r->settings;
    cli_limit_settings limits = {s->planning.time_limit_seconds, 1e-3,
                                 s->kernels.threads > 0 ? s->kernels.threads : cli_processors(), 1, s->verbose};
    cli_progress progress = cli_progress_start(&limits, s->planning.strategy, NULL);
    progress.quiet = s->quiet;
    progress.enabled = progress.enabled && !s->quiet;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_solve_options solve = cli_solve_options(&limits, s->planning.strategy, &progress);
    ckm_status status = cli_weights_check_network(s->weights, r->model, err);
    if (status == CKM_OK) {
        status = r->way->load(r, err);
    }
    if (status == CKM_OK) {
        status = cli_costs_choose(s->model.costs, &r->costs, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    kernels.backend = s->kernels.back_end;
    kernels.threads = (int)limits.threads;
    options.kernels = &kernels;
    options.solve = &solve;
    options.cost_model = &r->costs.model;
    options.weights = s->weights;
    options.reading_bytes = r->way->bytes != NULL ? r->way->bytes(r) : 0;
    if (cli_model_is_file(r->model)) {
        options.model = r->model;
        options.importing = &r->importing;
    }
    status = plan_within(r, &options, err);
    if (status == CKM_OK) {
        cli_note_threads(ckm_inference_program(r->inference), kernels.threads);
    }
    return status;
}

// Says why there is no schedule. Gives the exit status.
static int explain_absence(const ckm_inference_info *info)
{
    char budget[64];
    char floor_text[64];
    char least[64];
    char known[96] = "";
    if (info->least_bytes > 0) {
        snprintf(known, sizeof known, "; a budget of %s (%lld bytes) was tried and fits",
                 cli_show_bytes(info->least_bytes, least, sizeof least), (long long)info->least_bytes);
    }
    const char *which = !info->proven                            ? " was found that"
                        : info->budget_bytes < info->floor_bytes ? ""
                                                                 : " in the network's order";
    cli_failf(
        "no schedule%s fits a budget of %s (%lld bytes), and at least %s (%lld bytes) are proven to be needed, in "
        "any order%s; give a larger budget, or a smaller batch",
        which, cli_show_bytes(info->budget_bytes, budget, sizeof budget), (long long)info->budget_bytes,
        cli_show_bytes(info->floor_bytes, floor_text, sizeof floor_text), (long long)info->floor_bytes, known);
    return info->proven ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

static int report(const run_setup *r, double seconds, int64_t grown)
{
    ckm_inference_info info = ckm_inference_get_info(r->inference);
    double overhead = cli_overhead(info.cost, info.baseline_cost);
    int32_t n = ckm_inference_output_count(r->inference);
    char text[64];
    char other[64];
    char third[64];
    if (r->settings->json) {
        cli_json json;
        cli_json_begin(&json);
        cli_json_text(&json, "network", ckm_graph_name(r->graph));
        cli_json_size(&json, "batch", ckm_graph_batch(r->graph));
        cli_json_size(&json, "outputs", n);
        cli_json_text(&json, "parameters_from", info.parameters_from);
        cli_json_real(&json, "seconds", seconds);
        cli_json_real(&json, "overhead", overhead);
        cli_json_size(&json, "budget_bytes", info.budget_bytes);
        cli_json_size(&json, "used_bytes", info.used_bytes);
        cli_json_size(&json, "region_bytes", info.region_bytes);
        cli_json_size(&json, "arena_bytes", info.arena_bytes);
        cli_json_size(&json, "outside_bytes", info.outside_bytes);
        cli_json_size(&json, "anonymous_growth_bytes", grown);
        cli_json_size(&json, "baseline_bytes", info.baseline_bytes);
        cli_json_text(&json, "strategy", info.strategy);
        if (r->way->facts != NULL) {
            r->way->facts(r, &json);
        }
        cli_json_end(&json);
        return cli_finish_output();
    }
    for (int32_t i = 0; i < n; i++) {
        ckm_session_tensor t = ckm_inference_output(r->inference, i);
        cli_line(stdout, 23, "%-22s %s, ", i == 0 ? "outputs" : "", cli_text(t.name));
        for (int32_t d = 0; d < t.shape.rank; d++) {
            cli_line(stdout, 23, "%s%lld", d > 0 ? "x" : "", (long long)t.shape.dims[d]);
        }
        cli_line(stdout, 23, "%s\n", t.shape.rank == 0 ? "a number" : "");
    }
    cli_line(stdout, 23, "%-22s %s\n", "parameters", cli_text(info.parameters_from));
    cli_line(stdout, 23, "%-22s %.1f ms\n", "run", seconds * 1e3);
    cli_line(stdout, 23, "%-22s %s of %s; without rematerialization %s\n", "memory",
             cli_show_bytes(info.used_bytes, text, sizeof text), cli_show_bytes(info.budget_bytes, other, sizeof other),
             cli_show_bytes(info.baseline_bytes, third, sizeof third));
    if (grown >= 0) {
        cli_line(stdout, 23, "%-22s %s\n", "memory grew by", cli_show_bytes(grown, text, sizeof text));
    }
    cli_line(stdout, 23, "%-22s %s\n", "overhead", cli_show_percent(overhead, text, sizeof text));
    return cli_finish_output();
}

// Whether a result goes to standard output, which then gets nothing else. Arrays do only if --output asks for it.
static bool writes_to_output(const run_setup *r)
{
    const cli_list *outputs = &r->settings->outputs;
    for (int i = 0; i < outputs->n; i++) {
        if (strcmp(cli_files_path(outputs->items[i]), "-") == 0) {
            return true;
        }
    }
    return outputs->n == 0 && r->way != &cli_run_arrays;
}

static int execute(run_setup *r)
{
    ckm_error err = CKM_ERROR_INIT;
    double seconds = 0;
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    ckm_status status = ckm_inference_begin(r->inference, &err);
    if (status == CKM_OK) {
        status = r->way->execute(r, &seconds, &err);
    }
    int64_t after = ckm_run_get_memory(true).anonymous_bytes;
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    if (r->way->note != NULL && !r->settings->quiet) {
        r->way->note(r);
    }
    if (writes_to_output(r)) {
        return cli_finish_output();
    }
    return report(r, seconds, before >= 0 && after >= 0 ? (after > before ? after - before : 0) : -1);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const run_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    run_setup r = {.settings = s,
                   .way = s->generate > 0   ? &cli_run_text
                          : n_arguments > 1 ? &cli_run_pictures
                                            : &cli_run_arrays,
                   .model = arguments[0],
                   .folder = n_arguments > 1 ? arguments[1] : NULL,
                   .pictures = {.scaling = -1},
                   .generation = {.tokens = s->generate,
                                  .prompt = s->prompt != NULL ? s->prompt : "\n",
                                  .prompt_tokens = s->prompt_tokens,
                                  .temperature = s->temperature,
                                  .seed = (uint64_t)s->seed}};
    int outcome = check_usage(command, &r);
    if (outcome < 0) {
        outcome = cli_budget_of_run(command, &s->planning.budget, &options.budget_bytes, &options.budget_fraction,
                                    &options.activations_fraction);
    }
    if (outcome >= 0) {
        return outcome;
    }
    cli_stop_at_once();
    if (plan(&r, options, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    } else {
        ckm_inference_info info = ckm_inference_get_info(r.inference);
        outcome = info.fits ? execute(&r) : explain_absence(&info);
    }
    ckm_inference_close(r.inference);
    ckm_graph_free(r.graph);
    cli_pictures_dispose(&r.pictures);
    return outcome;
}

static const cli_group groups[] = {
    {"Files", file_options, CLI_COUNT(file_options), 0},
    {"Text", text_options, CLI_COUNT(text_options), 0},
    {"Memory", cli_planning_options, CLI_N_PLANNING_OPTIONS, AT(planning)},
    {NULL, cost_options, CLI_COUNT(cost_options), 0},
    {NULL, cli_kernel_options, CLI_N_KERNEL_OPTIONS, AT(kernels)},
    {"Network", cli_network_options, CLI_N_NETWORK_OPTIONS, AT(model)},
};
static const char *const argument_names[] = {"MODEL", "PICTURES"};

const cli_command cli_command_run = {
    .name = "run",
    .summary = "Run a network forward within a memory budget.",
    .usage =
        "MODEL PICTURES|--generate N|--input [NAME=]x.npy [-o [NAME=]y.npy] [--weights FILE] [--budget B|auto|min] "
        "[options]",
    .description =
        "Computes what MODEL, an ONNX file or a network of the zoo, predicts for an input, on the CPU. The forward "
        "pass is planned by the same search as a training step, checked by the same verifier and executed by the same "
        "code, "
        "within --budget: what does not fit is computed again.\n\nBatch normalization takes the running statistics, "
        "dropout does nothing, and a softmax at the end of the network is computed. Every parameter must have a value, "
        "from the model's file, from --weights, or by --input with its name.\n\nPICTURES is a PNG or JPEG file, or a "
        "folder with "
        "such files in it and below. They are resized and scaled as in training. Files that 'checkmate train' wrote "
        "say "
        "how, and how many classes the network has and what they are called; 'checkmate run MODEL PICTURES --weights "
        "FILE' needs nothing else. The table has a row for every picture: its path, then name and probability of the "
        "likeliest classes. If every picture is in a folder named like a class, the accuracy is printed, "
        "too.\n\nWithout "
        "-o, the outputs and their "
        "shapes are listed and nothing is written.",
    .exit_statuses =
        "0  the outputs have been computed and written\n1  failed: bad input, input or output error, out of "
        "memory\n2  wrong usage\n3  proven: no schedule of the class named fits the budget\n4  no schedule was found "
        "within the limits\n",
    .examples =
        "checkmate run model.onnx --input x.npy -o y.npy\n"
        "checkmate run model.onnx --weights trained.safetensors --input images.npy -o scores.npy --budget 200MB\n"
        "checkmate run MobileNet photos/test --weights best.safetensors -o predictions.csv\n"
        "checkmate run GPT2 --weights gpt.safetensors --generate 500 --prompt 'static int '\n"
        "checkmate run GPT2 --weights gpt.safetensors --generate 100 --prompt-tokens ids.npy -o sample.npy\n"
        "checkmate run bert.onnx --input input_ids=ids.npy --input attention_mask=mask.npy -o logits=y.npy\n"
        "checkmate run MobileNet --weights run.safetensors --input photos.npy -o classes.npy --budget 60%\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 2,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
