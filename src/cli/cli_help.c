// SPDX-License-Identifier: Apache-2.0
// Help pages, printed from the tables that parsing uses.
#include "cli/cli.h"

#include <string.h>

enum { HELP_WIDTH = 92, HELP_COLUMN = 30 };

// Prints words up to the width, lines after the first indented; `column` is where the cursor stands.
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text != '\0') {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        text += length;
        if (text[0] == '\n') {
            // A line break in the text is kept, an empty line too.
            printf("\n%s%*s", text[1] == '\n' ? "\n" : "", indent, "");
            column = indent;
        }
        text += strspn(text, " \n");
    }
    putchar('\n');
}

static void print_heading(const char *title)
{
    printf("\n%s%s%s\n", cli_style(stdout, CLI_BOLD), title, cli_style(stdout, CLI_PLAIN));
}

static void print_option(const cli_option *option)
{
    char left[64];
    char text[1024];
    char letter[8] = "    ";
    if (option->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name, option->value != NULL ? " " : "",
             option->value != NULL ? option->value : "");
    snprintf(text, sizeof text, "%s%s%s%s", option->help, option->fallback != NULL ? " (default: " : "",
             option->fallback != NULL ? option->fallback : "", option->fallback != NULL ? ")" : "");
    int column = printf("%s", left);
    if (column >= HELP_COLUMN) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN);
}

// Lines of a text, each indented by two.
static void print_lines(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        printf("%s%.*s\n", length > 0 ? "  " : "", (int)length, text);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

const char *cli_exit_statuses(const cli_command *command)
{
    return command->exit_statuses != NULL ? command->exit_statuses
                                          : "0  done\n"
                                            "1  failed: bad input, input or output error, out of memory\n"
                                            "2  wrong usage\n";
}

void cli_print_help(const cli_command *command)
{
    static const cli_option help = {"help", 'h', CLI_FLAG, 0, NULL, "Show this text.", NULL, 0, 0, NULL};
    printf("%scheckmate %s%s: %s\n", cli_style(stdout, CLI_BOLD), command->name, cli_style(stdout, CLI_PLAIN),
           command->summary);
    print_heading("Usage");
    int column = printf("  checkmate %s%s", command->name, command->usage[0] != '\0' ? " " : "");
    print_wrapped(command->usage, column, column);
    putchar('\n');
    print_wrapped(command->description, 0, 0);
    for (int g = 0; g < command->n_groups; g++) {
        print_heading(command->groups[g].title);
        for (int i = 0; i < command->groups[g].n_options; i++) {
            print_option(&command->groups[g].options[i]);
        }
        if (g == command->n_groups - 1) {
            print_option(&help);
        }
    }
    if (command->n_groups == 0) {
        print_heading("Options");
        print_option(&help);
    }
    if (command->examples != NULL) {
        print_heading("Examples");
        print_lines(command->examples);
    }
    print_heading("Exit status");
    print_lines(cli_exit_statuses(command));
}

void cli_print_overview(FILE *to)
{
    const char *bold = cli_style(to, CLI_BOLD);
    const char *plain = cli_style(to, CLI_PLAIN);
    fprintf(to,
            "%scheckmate%s trains neural networks that do not fit in memory: it plans which activations\n"
            "to keep and which to recompute, so that a training step stays within a budget in bytes at\n"
            "the least extra work, and proves how good the plan is.\n"
            "\n%sUsage%s\n"
            "  checkmate COMMAND [arguments] [options]\n"
            "  checkmate help COMMAND\n"
            "  checkmate --version\n"
            "\n%sCommands%s\n",
            bold, plain, bold, plain, bold, plain);
    for (int i = 0; i < cli_n_commands; i++) {
        fprintf(to, "  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    }
    fprintf(to,
            "\n%sModels%s\n"
            "  MODEL is a network of the zoo ('checkmate models'), an .onnx file, or a checkmate-graph\n"
            "  .json file. Sizes are bytes, or numbers with a unit: 512MB (10^6), 4GiB (2^30).\n"
            "\n%sA first try%s\n"
            "  checkmate solve ResNet50 --batch 64 --budget 60%%\n",
            bold, plain, bold, plain);
}
