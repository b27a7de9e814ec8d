// SPDX-License-Identifier: Apache-2.0
// Manual pages: checkmate(1) and one for every command.
#include "cli/pages/pages.h"

#include <ctype.h>
#include <string.h>

// What help has no page for: it holds for several commands, or for the program as a whole.
typedef struct topic {
    const char *names, *text;
} topic;

static const topic environment[] = {
    {"OMP_WAIT_POLICY, GOMP_SPINCOUNT",
     "How the threads of 'train' and 'profile' wait for each other. If neither is set, GOMP_SPINCOUNT is set to 1000: "
     "the threads spin for some microseconds and then sleep, so that other work on the machine does not make training "
     "several times slower."},
    {"OMP_STACKSIZE, GOMP_STACKSIZE",
     "Stack sizes of these threads. If neither is set, OMP_STACKSIZE is set to 512k: stacks count against the budget."},
    {"DNNL_MAX_CPU_ISA", "Caps the instructions that products and convolutions use: SSE41, AVX, AVX2, AVX512_CORE."},
    {"XDG_CACHE_HOME", "Measured times are kept in its folder checkmate; if it is not set, in $HOME/.cache/checkmate."},
    {"OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMIX_RANK with SLURM_STEP_NUM_TASKS",
     "Set by mpirun and srun: 'train' was started as several processes, which train together."},
    {"NO_COLOR", "No colours on terminals."},
    {"COLUMNS", "How wide help and texts are, from 40 to 80 columns; otherwise as wide as the terminal."},
};

static const char description[] =
    "Decides which activations of a training step to keep in memory and which to free and compute again, so that the "
    "peak stays within a budget in bytes at the least extra work. It says how far from the optimum its answer is at "
    "most, and every schedule that it writes has passed an independent verifier.\n\n"
    "MODEL is a network of the zoo ('checkmate models' lists them), an ONNX file (.onnx), or a dataflow graph (.json, "
    "format checkmate-graph).\n\n"
    "Sizes are bytes or numbers with a unit: 512MB (powers of ten) or 4GiB (powers of two). Budgets may also be given "
    "as a share of the peak without rematerialization: 60%. Budgets count everything, parameters and their gradients "
    "included.";

static const char stopping[] = "Interrupting a solve (Ctrl-C, SIGTERM) ends it with the best schedule so far; "
                               "'profile' and 'devices --measure' end at once and write nothing. A "
                               "command that has not ended ten seconds "
                               "later, or is interrupted twice, is ended at once; training has more time, to save.";

static const char files[] =
    "The formats checkmate-graph, checkmate-schedule and checkmate-profile are described in docs/FORMATS.md. Output "
    "files are replaced as a whole or left alone; their permissions stay, and symbolic links are written through. What "
    "a killed process left in a file's folder (.NAME.ckm-tmp0) is removed by the next process that writes that file. "
    "Pipes are read while something writes to them; devices and folders are not read.";

static void write_character(FILE *to, char c)
{
    switch (c) {
    case '-':
        fputs("\\-", to);
        break;
    case '\\':
        fputs("\\e", to);
        break;
    case '\'':
        fputs("\\(aq", to);
        break;
    case '`':
        fputs("\\(ga", to);
        break;
    case '^':
        fputs("\\(ha", to);
        break;
    case '~':
        fputs("\\(ti", to);
        break;
    default:
        putc(c, to);
    }
}

static void write_span(FILE *to, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        write_character(to, text[i]);
    }
}

static void write_bold(FILE *to, const char *text, size_t length)
{
    fputs("\\fB", to);
    write_span(to, text, length);
    fputs("\\fP", to);
}

// Running text: 'quoted' words and options are bold, an empty line begins a paragraph. Lines end after sentences only where
// the text does.
static void write_prose(FILE *to, const char *text)
{
    const char *at = text;
    // A line that begins with a full stop would be a request.
    fputs(*at == '.' ? "\\&" : "", to);
    while (*at != '\0') {
        bool opens = at == text || !isalnum((unsigned char)at[-1]);
        size_t quoted = strcspn(at + 1, "'\n");
        size_t option = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (*at == '\'' && opens && at[1 + quoted] == '\'') {
            write_bold(to, at + 1, quoted);
            at += quoted + 2;
        } else if (opens && option > 2 && at[0] == '-' && at[1] == '-') {
            write_bold(to, at, option);
            at += option;
        } else if (*at == '\n') {
            fputs(at[1] == '\n' ? "\n.PP\n" : "\n.br\n", to);
            at += strspn(at, "\n");
        } else {
            write_character(to, *at++);
        }
    }
    putc('\n', to);
}

static void write_section(FILE *to, const char *name)
{
    fputs(".SH ", to);
    for (; *name != '\0'; name++) {
        putc(toupper((unsigned char)*name), to);
    }
    putc('\n', to);
}

// "CHECKMATE\-SOLVE", the date and the version on top of a page.
static void write_title(FILE *to, const char *name, const char *date)
{
    fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" Made by the build from the program's tables of "
          "options.\n.TH ",
          to);
    for (; *name != '\0'; name++) {
        write_character(to, (char)toupper((unsigned char)*name));
    }
    fprintf(to, " 1 %s \"checkmate %s\" \"User Commands\"\n", date, ckm_version());
}

// A line of the help text's kind, "N  meaning".
static void write_exit_statuses(FILE *to, const char *lines)
{
    write_section(to, "Exit status");
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        size_t digits = strspn(lines, "0123456789");
        size_t blanks = strspn(lines + digits, " ");
        fputs(".TP\n", to);
        write_bold(to, lines, digits);
        putc('\n', to);
        write_span(to, lines + digits + blanks, length - digits - blanks);
        putc('\n', to);
        lines += length + (lines[length] == '\n' ? 1 : 0);
    }
}

static void write_examples(FILE *to, const char *examples)
{
    write_section(to, "Examples");
    fputs(".nf\n", to);
    write_span(to, examples, strlen(examples));
    fputs(".fi\n", to);
}

static void write_option(FILE *to, const cli_option *option)
{
    fputs(".TP\n", to);
    if (option->letter != 0) {
        char letter[] = {'-', option->letter, '\0'};
        write_bold(to, letter, 2);
        fputs(", ", to);
    }
    char name[64];
    int n = snprintf(name, sizeof name, "--%s", option->name);
    write_bold(to, name, (size_t)n);
    if (option->value != NULL) {
        fputs(" \\fI", to);
        write_span(to, option->value, strlen(option->value));
        fputs("\\fP", to);
    }
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s%s", option->help, option->fallback != NULL ? " (default: " : "",
             option->fallback != NULL ? option->fallback : "", option->fallback != NULL ? ")" : "");
    putc('\n', to);
    write_prose(to, text);
}

void pages_write_command(FILE *to, const cli_command *command, const char *date)
{
    char name[64];
    snprintf(name, sizeof name, "checkmate-%s", command->name);
    write_title(to, name, date);
    write_section(to, "Name");
    write_span(to, name, strlen(name));
    // As in a list of names: no capital, no full stop.
    fprintf(to, " \\- %c", tolower((unsigned char)command->summary[0]));
    write_span(to, command->summary + 1, strlen(command->summary) - 2);
    putc('\n', to);
    write_section(to, "Synopsis");
    fputs("\\fBcheckmate ", to);
    write_span(to, command->name, strlen(command->name));
    fputs("\\fP ", to);
    write_prose(to, command->usage);
    write_section(to, "Description");
    write_prose(to, command->description);
    write_section(to, "Options");
    for (int g = 0; g < command->n_groups; g++) {
        if (command->groups[g].title != NULL) {
            fprintf(to, ".SS %s\n", command->groups[g].title);
        }
        for (int i = 0; i < command->groups[g].n_options; i++) {
            write_option(to, &command->groups[g].options[i]);
        }
    }
    write_option(to, &pages_help_option);
    write_exit_statuses(to, cli_exit_statuses(command));
    if (command->examples != NULL) {
        write_examples(to, command->examples);
    }
    write_section(to, "See also");
    fputs(".BR checkmate (1)\n", to);
}

void pages_write_overview(FILE *to, const char *date)
{
    write_title(to, "checkmate", date);
    write_section(to, "Name");
    fputs("checkmate \\- train neural networks within a memory budget\n", to);
    write_section(to, "Synopsis");
    fputs("\\fBcheckmate\\fP \\fIcommand\\fP [\\fIarguments\\fP] [\\fIoptions\\fP]\n.br\n"
          "\\fBcheckmate help\\fP \\fIcommand\\fP\n.br\n"
          "\\fBcheckmate \\-\\-version\\fP | \\fB\\-\\-help\\fP\n",
          to);
    write_section(to, "Description");
    write_prose(to, description);
    write_section(to, "Commands");
    fputs("Every command has a manual page, and \\fBcheckmate\\fP \\fIcommand\\fP \\fB\\-\\-help\\fP shows the same "
          "text.\n",
          to);
    for (int i = 0; i < cli_n_commands; i++) {
        fputs(".TP\n\\fBcheckmate\\-", to);
        write_span(to, cli_commands[i]->name, strlen(cli_commands[i]->name));
        fputs("\\fP(1)\n", to);
        write_prose(to, cli_commands[i]->summary);
    }
    write_exit_statuses(
        to, "0  done\n"
            "1  failed: bad input, input or output error, out of memory; one line on standard error says why\n"
            "2  wrong usage\n"
            "3  proven: no schedule of the class named fits the budget\n"
            "4  no schedule was found within the limits\n");
    fputs(".PP\n", to);
    write_prose(to, stopping);
    write_section(to, "Environment");
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        fputs(".TP\n", to);
        write_bold(to, environment[i].names, strlen(environment[i].names));
        putc('\n', to);
        write_prose(to, environment[i].text);
    }
    write_section(to, "Files");
    write_prose(to, files);
    write_examples(to, "checkmate solve ResNet50 --batch 64 --budget 50% -o schedule.json\n"
                       "checkmate max-batch VGG19 --memory 16GB --strategy ilp\n"
                       "checkmate sweep MobileNet --batch 128 -o sweep.csv --plot sweep.svg\n");
    write_section(to, "See also");
    for (int i = 0; i < cli_n_commands; i++) {
        fputs(".BR checkmate\\-", to);
        write_span(to, cli_commands[i]->name, strlen(cli_commands[i]->name));
        fputs(" (1),\n", to);
    }
    fputs(".BR gnuplot (1),\n.BR dot (1)\n", to);
}
