// SPDX-License-Identifier: Apache-2.0
// checkmate models: the zoo.
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_values.h"

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

static void print_network(const ckm_graph *graph)
{
    char input[64];
    char trained[32];
    char other[32];
    printf("  %-26s %12s %7d %15s %9s\n", ckm_graph_name(graph), describe_input(graph, input, sizeof input),
           (int)ckm_graph_op_count(graph),
           cli_show_count(ckm_graph_element_count(graph, CKM_ROLE_PARAMETER), trained, sizeof trained),
           cli_show_count(ckm_graph_element_count(graph, CKM_ROLE_STATE), other, sizeof other));
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)settings;
    (void)arguments;
    (void)n_arguments;
    printf("%s%-28s %12s %7s %15s %9s%s\n", cli_style(stdout, CLI_BOLD), "network", "input", "layers", "parameters",
           "other", cli_style(stdout, CLI_PLAIN));
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        ckm_graph *graph = NULL;
        ckm_error err = CKM_ERROR_INIT;
        if (ckm_zoo_build(ckm_zoo_name(i), 1, NULL, &graph, &err) != CKM_OK) {
            return cli_fail(&err);
        }
        if (i == 0 || strcmp(ckm_zoo_group(i), ckm_zoo_group(i - 1)) != 0) {
            printf("%s%s%s\n", cli_style(stdout, CLI_BOLD), ckm_zoo_group(i), cli_style(stdout, CLI_PLAIN));
        }
        print_network(graph);
        ckm_graph_free(graph);
    }
    return cli_finish_output();
}

const cli_command cli_command_models = {
    .name = "models",
    .summary = "List the networks of the zoo: input, layers, parameters.",
    .usage = "",
    .description = "Lists the networks that can be given as MODEL by name, in groups, with the shape of one input "
                   "sample (height x width x channels, or tokens of a text), the number of layers, the trained "
                   "parameters, and the other numbers kept across steps, such as the running statistics of batch "
                   "normalization. Commands that take a MODEL can build it in other sizes: --input-shape for images "
                   "and, where a network has them, --sequence-length, --width, --depth, --heads and --vocabulary.",
    .examples = "checkmate models\n"
                "checkmate models | grep -i vgg\n",
    .run = run,
};
