// SPDX-License-Identifier: Apache-2.0
// Help pages, printed from the tables that parsing uses.
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Text is as wide as a terminal, within these; elsewhere as wide as most are.
enum { WIDEST = 80, NARROWEST = 40, HELP_COLUMN = 28, NARROW_COLUMN = 10, COLUMN_NEEDS = 72 };

int cli_width(FILE *to)
{
    struct winsize window = {0};
    const char *columns = getenv("COLUMNS");
    long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && isatty(fileno(to)) == 1 && ioctl(fileno(to), TIOCGWINSZ, &window) == 0) {
        width = window.ws_col;
    }
    return width <= 0 || width > WIDEST ? WIDEST : width < NARROWEST ? NARROWEST : (int)width;
}

void cli_print_wrapped(FILE *to, const char *text, int column, int indent)
{
    const int width = cli_width(to);
    while (*text != '\0') {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > width) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", length, text);
        column += length;
        text += length;
        if (text[0] == '\n') {
            // A line break in the text is kept, an empty line too.
            fprintf(to, "\n%s%*s", text[1] == '\n' ? "\n" : "", indent, "");
            column = indent;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', to);
}

// Columns of the word at `text`, without what sets colours, and its bytes in *length.
static int word_columns(const char *text, int *length)
{
    int columns = 0;
    int i = 0;
    while (text[i] != '\0' && text[i] != ' ' && text[i] != '\n') {
        if (text[i] == '\033') {
            i += (int)strcspn(text + i, "mK");
            i += text[i] != '\0';
        } else {
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
            i++;
        }
    }
    *length = i;
    return columns;
}

void cli_line(FILE *to, int indent, const char *format, ...)
{
    static int columns[2];  // current columns of standard output and standard error
    int *column = &columns[to == stderr];
    const int width = cli_width(to);
    char line[4096];
    va_list args;
    va_start(args, format);
    if (width >= WIDEST) {
        vfprintf(to, format, args);
        va_end(args);
        return;
    }
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (const char *text = line; *text != '\0';) {
        int length = 0;
        int blanks = (int)strspn(text, " ");
        int word = word_columns(text + blanks, &length);
        if (blanks > 0 && *column > indent && *column + blanks + word > width) {
            fprintf(to, "\n%*s", indent, "");
            *column = indent;
        } else if (text[blanks] != '\n') {
            fprintf(to, "%*s", blanks, "");
            *column += blanks;
        }
        fprintf(to, "%.*s", length, text + blanks);
        *column += word;
        text += blanks + length;
        if (*text == '\n') {
            fputc('\n', to);
            *column = 0;
            text++;
        }
    }
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
    // If the column next to the names would be too narrow, the descriptions go below them.
    int text_column = cli_width(stdout) < COLUMN_NEEDS ? NARROW_COLUMN : HELP_COLUMN;
    int column = printf("%s", left);
    if (column >= text_column) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", text_column - column, "");
    cli_print_wrapped(stdout, text, text_column, text_column);
}

// "0  done" and so on, a line each.
static void print_statuses(const char *text)
{
    while (*text != '\0') {
        char line[256];
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        int column = printf("  %.3s", line);
        cli_print_wrapped(stdout, length > 3 ? line + 3 : "", column, column);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

// Commands, one a line; a long one continues on the next line after a backslash, as in a shell.
static void print_examples(const char *text)
{
    const int width = cli_width(stdout);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        int indent = 2;
        while (indent + (int)length > width) {
            size_t cut = (size_t)(width - 2 - indent);
            while (cut > 0 && (text[cut] != ' ' || text[cut + 1] != '-')) {  // before an option
                cut--;
            }
            if (cut == 0) {
                break;
            }
            printf("%*s%.*s \\\n", indent, "", (int)cut, text);
            text += cut + 1;
            length -= cut + 1;
            indent = 6;
        }
        printf("%*s%.*s\n", length > 0 ? indent : 0, "", (int)length, text);
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
    printf("%scheckmate %s%s:", cli_style(stdout, CLI_BOLD), command->name, cli_style(stdout, CLI_PLAIN));
    cli_print_wrapped(stdout, command->summary, (int)strlen("checkmate :") + (int)strlen(command->name), 2);
    print_heading("Usage");
    int column = printf("  checkmate %s%s", command->name, command->usage[0] != '\0' ? " " : "");
    cli_print_wrapped(stdout, command->usage, column, column);
    putchar('\n');
    cli_print_wrapped(stdout, command->description, 0, 0);
    for (int g = 0; g < command->n_groups; g++) {
        if (command->groups[g].title != NULL) {
            print_heading(command->groups[g].title);
        }
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
        print_examples(command->examples);
    }
    print_heading("Exit status");
    print_statuses(cli_exit_statuses(command));
}

void cli_print_overview(FILE *to)
{
    const char *bold = cli_style(to, CLI_BOLD);
    const char *plain = cli_style(to, CLI_PLAIN);
    fprintf(to, "%scheckmate%s", bold, plain);
    cli_print_wrapped(
        to,
        "trains neural networks that do not fit in memory: it plans which activations to keep and which to "
        "recompute, so that a training step stays within a budget in bytes at the least extra work, and "
        "proves how good the plan is.",
        (int)strlen("checkmate"), 0);
    fprintf(to,
            "\n%sUsage%s\n"
            "  checkmate COMMAND [arguments] [options]\n"
            "  checkmate help COMMAND\n"
            "  checkmate --version\n"
            "\n%sCommands%s\n",
            bold, plain, bold, plain);
    for (int i = 0; i < cli_n_commands; i++) {
        int column = fprintf(to, "  %-12s ", cli_commands[i]->name);
        cli_print_wrapped(to, cli_commands[i]->summary, column, column);
    }
    fprintf(to, "\n%sModels%s\n  ", bold, plain);
    cli_print_wrapped(
        to,
        "MODEL is a network of the zoo ('checkmate models'), an .onnx file, or a checkmate-graph .json file. "
        "Sizes are bytes, or numbers with a unit: 512MB (10^6), 4GiB (2^30).",
        2, 2);
    fprintf(to, "\n%sA first try%s\n  checkmate solve ResNet50 --batch 64 --budget 60%%\n", bold, plain);
}
