// SPDX-License-Identifier: Apache-2.0
// Completion for fish: one `complete` for every command, option and argument.
#include "cli/pages/pages.h"

#include <string.h>

static void write_quoted(FILE *to, const char *text)
{
    putc('\'', to);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            putc('\\', to);
        }
        putc(*text, to);
    }
    putc('\'', to);
}

// " -f -a '...'": what is offered, in quotes that fish expands when it completes.
static void write_values(FILE *to, const pages_values *v)
{
    if (!v->files && !v->models && !v->folders) {
        fputs(" -f", to);
    } else {
        fputs(" -F", to);
    }
    fprintf(to, " -a \"%s", v->several ? "(__fish_append , " : v->words);
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        if (v->lists[list]) {
            fprintf(to, " $__checkmate_%s", pages_list_name((pages_list)list));
        }
    }
    fputs(v->several ? ")\"" : "\"", to);
}

static void write_option(FILE *to, const cli_command *command, const cli_option *option)
{
    char brief[512];
    fprintf(to, "complete -c checkmate -n '__checkmate_command_is %s' -l %s", command->name, option->name);
    if (option->letter != 0) {
        fprintf(to, " -s %c", option->letter);
    }
    if (option->type != CLI_FLAG) {
        pages_values values = pages_option_values(option);
        fputs(" -r", to);
        write_values(to, &values);
    }
    fputs(" -d ", to);
    write_quoted(to, pages_brief(option, brief, sizeof brief));
    putc('\n', to);
}

void pages_write_fish(FILE *to)
{
    fputs("# Completion of the commands, options and names of checkmate, for fish.\n"
          "# Made by the build from the program's own tables.\n",
          to);
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        char buf[64];
        fprintf(to, "set -g __checkmate_%s", pages_list_name((pages_list)list));
        for (int i = 0; i < pages_list_count((pages_list)list); i++) {
            fprintf(to, " %s", pages_list_entry((pages_list)list, i, buf, sizeof buf));
        }
        putc('\n', to);
    }
    fputs("\n# The command is the second word: a file may be called 'solve' too.\n"
          "function __checkmate_command_is\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
          "end\n"
          "function __checkmate_no_command\n"
          "    test (count (commandline -opc)) -eq 1\n"
          "end\n"
          "\n"
          "complete -c checkmate -f\n"
          "complete -c checkmate -n __checkmate_no_command -l help -s h -d 'Show the overview'\n"
          "complete -c checkmate -n __checkmate_no_command -l version -s V -d 'Show the version'\n",
          to);
    for (int c = 0; c < cli_n_commands; c++) {
        fprintf(to, "complete -c checkmate -n __checkmate_no_command -a %s -d ", cli_commands[c]->name);
        write_quoted(to, cli_commands[c]->summary);
        putc('\n', to);
    }
    for (int c = 0; c < cli_n_commands; c++) {
        char name[64];
        pages_values values;
        const cli_option *option = NULL;
        fprintf(to, "\n# %s\n", cli_commands[c]->name);
        // fish does not count arguments: what any of them may be is offered for each.
        for (int i = 0; pages_argument_values(cli_commands[c], i, &values, name, sizeof name); i++) {
            fprintf(to, "complete -c checkmate -n '__checkmate_command_is %s'", cli_commands[c]->name);
            write_values(to, &values);
            putc('\n', to);
        }
        for (int i = 0; (option = pages_option_at(cli_commands[c], i)) != NULL; i++) {
            write_option(to, cli_commands[c], option);
        }
    }
}
