// SPDX-License-Identifier: Apache-2.0
// checkmate models: the zoo.
#include "cli/cli.h"
#include "cli/cli_values.h"

static void print_network(const ckm_graph *graph)
{
    char input[64] = "-";
    char trained[32];
    char other[32];
    for (int32_t t = 0; t < ckm_graph_tensor_count(graph); t++) {
        ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, t);
        if (tensor.role == CKM_ROLE_INPUT && tensor.shape.rank == 4) {
            snprintf(input, sizeof input, "%lldx%lldx%lld", (long long)tensor.shape.dims[1],
                     (long long)tensor.shape.dims[2], (long long)tensor.shape.dims[3]);
            break;
        }
    }
    printf("%-28s %12s %7d %15s %9s\n", ckm_graph_name(graph), input, (int)ckm_graph_op_count(graph),
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
        print_network(graph);
        ckm_graph_free(graph);
    }
    return cli_finish_output();
}

const cli_command cli_command_models = {
    .name = "models",
    .summary = "List the networks of the zoo: input, layers, parameters.",
    .usage = "",
    .description = "Lists the networks that can be given as MODEL by name, with the shape of one input sample "
                   "(height x width x channels), the number of layers, the trained parameters, and the other numbers "
                   "kept across steps, such as the running statistics of batch normalization.",
    .examples = "checkmate models\n"
                "checkmate models | grep -i vgg\n",
    .run = run,
};
