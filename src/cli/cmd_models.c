// SPDX-License-Identifier: Apache-2.0
// checkmate models: the zoo.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_values.h"

typedef struct models_settings {
    bool all, json;
} models_settings;

static const models_settings defaults = {false, false};

static const cli_option options[] = {
    {"all", 0, CLI_FLAG, offsetof(models_settings, all), NULL,
     "A row for every network, those of one kind and many lengths too.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(models_settings, json), NULL, "Print the list as one JSON object.", NULL, 0, 0,
     NULL},
};

// "224x224x3" of an image, "1024" of a text: the first input without the batch.
static const char *describe_input(const ckm_graph *graph, char *buf, size_t size)
{
    snprintf(buf, size, "-");
    for (int32_t t = 0; t < ckm_graph_tensor_count(graph); t++) {
        ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, t);
        if (tensor.role == CKM_ROLE_INPUT) {
            size_t used = 0;
            for (int32_t i = 1; i < tensor.shape.rank && used < size; i++) {
                int n = snprintf(buf + used, size - used, "%s%lld", i > 1 ? "x" : "", (long long)tensor.shape.dims[i]);
                used += n > 0 ? (size_t)n : 0;
            }
            break;
        }
    }
    return buf;
}

static void print_row(const char *name, const char *input, const char *layers, const char *trained, const char *other)
{
    bool narrow = cli_width(stdout) < 80;
    printf(narrow ? " %-17s %9s %6s %16s %7s\n" : "  %-26s %12s %7s %17s %9s\n", name, input, layers, trained, other);
}

static void print_network(const ckm_graph *graph)
{
    char input[64];
    char layers[32];
    char trained[32];
    char other[32];
    snprintf(layers, sizeof layers, "%d", (int)ckm_graph_op_count(graph));
    print_row(ckm_graph_name(graph), describe_input(graph, input, sizeof input), layers,
              cli_show_count(ckm_graph_element_count(graph, CKM_ROLE_PARAMETER), trained, sizeof trained),
              cli_show_count(ckm_graph_element_count(graph, CKM_ROLE_STATE), other, sizeof other));
}

// The least and the most of something, in one word.
static const char *describe_range(int64_t low, int64_t high, char *buf, size_t size)
{
    char numbers[2][32];
    snprintf(buf, size, "%s..%s", cli_show_count(low, numbers[0], sizeof numbers[0]),
             cli_show_count(high, numbers[1], sizeof numbers[1]));
    return buf;
}

// Networks of one kind and many lengths, from the shortest to the longest, in one row.
static void print_networks(const ckm_graph *shortest, const ckm_graph *longest)
{
    char name[128];
    char input[64];
    char layers[80];
    char trained[80];
    char other[32];
    snprintf(name, sizeof name, "%s..%s", ckm_graph_name(shortest), ckm_graph_name(longest));
    print_row(name, describe_input(shortest, input, sizeof input),
              describe_range(ckm_graph_op_count(shortest), ckm_graph_op_count(longest), layers, sizeof layers),
              describe_range(ckm_graph_element_count(shortest, CKM_ROLE_PARAMETER),
                             ckm_graph_element_count(longest, CKM_ROLE_PARAMETER), trained, sizeof trained),
              cli_show_count(ckm_graph_element_count(longest, CKM_ROLE_STATE), other, sizeof other));
}

// "linear" and a number.
static bool is_linear(int32_t i)
{
    static const char linear[] = "linear";
    const char *name = i < ckm_zoo_count() ? ckm_zoo_name(i) : "";
    size_t n = sizeof linear - 1;
    return strncmp(name, linear, n) == 0 && name[n] != '\0' && strspn(name + n, "0123456789") == strlen(name + n);
}

static ckm_status print_entry(int32_t i, int32_t last, ckm_error *err)
{
    ckm_graph *graph = NULL;
    ckm_graph *longest = NULL;
    ckm_status status = ckm_zoo_build(ckm_zoo_name(i), 1, NULL, &graph, err);
    if (status == CKM_OK && last > i) {
        status = ckm_zoo_build(ckm_zoo_name(last), 1, NULL, &longest, err);
    }
    if (status == CKM_OK && last > i) {
        print_networks(graph, longest);
    } else if (status == CKM_OK) {
        print_network(graph);
    }
    ckm_graph_free(graph);
    ckm_graph_free(longest);
    return status;
}

static ckm_status print_object(cli_json *json, int32_t i, ckm_error *err)
{
    ckm_graph *graph = NULL;
    ckm_status status = ckm_zoo_build(ckm_zoo_name(i), 1, NULL, &graph, err);
    if (status != CKM_OK) {
        return status;
    }
    ckm_shape input = {0};
    for (int32_t t = 0; t < ckm_graph_tensor_count(graph) && input.rank == 0; t++) {
        ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, t);
        input = tensor.role == CKM_ROLE_INPUT ? tensor.shape : input;
    }
    cli_json_item(json);
    cli_json_text(json, "name", ckm_graph_name(graph));
    cli_json_text(json, "group", ckm_zoo_group(i));
    cli_json_sizes(json, "input", input.dims + 1, input.rank > 0 ? input.rank - 1 : 0);
    cli_json_size(json, "layers", ckm_graph_op_count(graph));
    cli_json_size(json, "parameters", ckm_graph_element_count(graph, CKM_ROLE_PARAMETER));
    cli_json_size(json, "other_values", ckm_graph_element_count(graph, CKM_ROLE_STATE));
    cli_json_close(json);
    ckm_graph_free(graph);
    return CKM_OK;
}

static int print_json(void)
{
    cli_json json;
    ckm_error err = CKM_ERROR_INIT;
    cli_json_begin(&json);
    cli_json_list(&json, "networks");
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        if (print_object(&json, i, &err) != CKM_OK) {
            return cli_fail(&err);
        }
    }
    cli_json_list_close(&json);
    cli_json_end(&json);
    return cli_finish_output();
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const models_settings *s = settings;
    (void)command;
    (void)arguments;
    (void)n_arguments;
    if (s->json) {
        return print_json();
    }
    bool narrow = cli_width(stdout) < 80;
    printf(narrow ? "%s%-18s %9s %6s %16s %7s%s\n" : "%s%-28s %12s %7s %17s %9s%s\n", cli_style(stdout, CLI_BOLD),
           "network", "input", "layers", "parameters", "other", cli_style(stdout, CLI_PLAIN));
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        ckm_error err = CKM_ERROR_INIT;
        int32_t last = i;
        while (!s->all && is_linear(i) && is_linear(last + 1)) {
            last++;
        }
        if (i == 0 || strcmp(ckm_zoo_group(i), ckm_zoo_group(i - 1)) != 0) {
            printf("%s%s%s\n", cli_style(stdout, CLI_BOLD), ckm_zoo_group(i), cli_style(stdout, CLI_PLAIN));
        }
        if (print_entry(i, last, &err) != CKM_OK) {
            return cli_fail(&err);
        }
        i = last;
    }
    return cli_finish_output();
}

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
};

const cli_command cli_command_models = {
    .name = "models",
    .summary = "List the networks of the zoo: input, layers, parameters.",
    .usage = "[--all] [--json]",
    .description = "Lists the networks that can be given as MODEL by name, in groups, with the shape of one input "
                   "sample (height x width x channels, or tokens of a text), the number of layers, the trained "
                   "parameters, and the other numbers kept across steps, such as the running statistics of batch "
                   "normalization. Commands that take a MODEL can build it in other sizes: --input-shape for images "
                   "and, where a network has them, --sequence-length, --width, --depth, --heads, --vocabulary and "
                   "--classes. One row stands "
                   "for networks of many lengths: linear0..linear31 are linear0, linear1 and so on.",
    .examples = "checkmate models\n"
                "checkmate models | grep -i vgg\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
