// SPDX-License-Identifier: Apache-2.0
// Completion for zsh: `_arguments` for every command.
#include "cli/pages/pages.h"

#include <string.h>

// Text within '...' of which zsh's _arguments takes brackets and colons for its own.
static void write_text(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
        } else if (strchr("[]:\\", *text) != NULL) {
            fprintf(to, "\\%c", *text);
        } else {
            putc(*text, to);
        }
    }
}

// ":NAME:action": a separate function gets the words, and whether files may follow.
static void write_action(FILE *to, const char *name, const pages_values *v)
{
    putc(':', to);
    write_text(to, name);
    // The blank keeps _arguments from adding arguments.
    fprintf(to, ": _checkmate_value%s%s%s%s", v->several ? " -s" : "", v->files ? " -f" : "", v->models ? " -m" : "",
            v->folders ? " -d" : "");
    if (v->words[0] != '\0') {
        fprintf(to, " %s", v->words);
    }
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        if (v->lists[list]) {
            fprintf(to, " $_checkmate_%s", pages_list_name((pages_list)list));
        }
    }
}

static void write_option(FILE *to, const cli_option *option)
{
    char brief[512];
    const char *takes = option->type != CLI_FLAG ? "=" : "";
    if (option->letter != 0) {
        fprintf(to, "        '(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter,
                option->type != CLI_FLAG ? "+" : "", option->name, takes);
    } else {
        fprintf(to, "        '--%s%s[", option->name, takes);
    }
    write_text(to, pages_brief(option, brief, sizeof brief));
    putc(']', to);
    if (option->type != CLI_FLAG) {
        pages_values values = pages_option_values(option);
        write_action(to, option->value, &values);
    }
    fputs("' \\\n", to);
}

static void write_command(FILE *to, const cli_command *command)
{
    char name[64];
    pages_values values;
    const cli_option *option = NULL;
    fprintf(to, "    (%s)\n        _arguments -s \\\n", command->name);
    for (int i = 0; (option = pages_option_at(command, i)) != NULL; i++) {
        write_option(to, option);
    }
    for (int i = 0; pages_argument_values(command, i, &values, name, sizeof name); i++) {
        // Two colons before the name: it may be left out. write_action writes the last.
        fprintf(to, "        '%d%s", i + 1, i < command->min_arguments ? "" : ":");
        write_action(to, name, &values);
        fputs("' \\\n", to);
    }
    fputs("        && return\n        ;;\n", to);
}

void pages_write_zsh(FILE *to)
{
    fputs("#compdef checkmate\n"
          "# Completion of the commands, options and names of checkmate, for zsh.\n"
          "# Made by the build from the program's own tables.\n"
          "\n"
          "# [-s] [-f] [-m] [-d] WORD...: words, separated by commas with -s, and files, files of models, or folders.\n"
          "_checkmate_value()\n"
          "{\n"
          "    local several files models folders found=1\n"
          "    while [[ $1 == -[sfmd] ]]; do\n"
          "        case $1 in\n"
          "        (-s) several=1 ;;\n"
          "        (-f) files=1 ;;\n"
          "        (-m) models=1 ;;\n"
          "        (-d) folders=1 ;;\n"
          "        esac\n"
          "        shift\n"
          "    done\n"
          "    if [[ -n $several ]]; then\n"
          "        _sequence compadd - $@ && found=0\n"
          "    elif (( $# > 0 )); then\n"
          "        compadd -- $@ && found=0\n"
          "    fi\n"
          "    [[ -z $files ]] || { _files && found=0 }\n"
          "    [[ -z $models ]] || { _files -g '*.(onnx|json)' && found=0 }\n"
          "    [[ -z $folders ]] || { _files -/ && found=0 }\n"
          "    return found\n"
          "}\n"
          "\n"
          "_checkmate()\n"
          "{\n",
          to);
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        char buf[64];
        fprintf(to, "    local -a _checkmate_%s=(", pages_list_name((pages_list)list));
        for (int i = 0; i < pages_list_count((pages_list)list); i++) {
            fprintf(to, "%s%s", i > 0 ? " " : "", pages_list_entry((pages_list)list, i, buf, sizeof buf));
        }
        fputs(")\n", to);
    }
    fputs("    local -a commands=(\n", to);
    for (int c = 0; c < cli_n_commands; c++) {
        fprintf(to, "        '%s:", cli_commands[c]->name);
        write_text(to, cli_commands[c]->summary);
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    local context state state_descr line command\n"
          "    typeset -A opt_args\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _arguments '(- *)'{-h,--help}'[Show the overview]' '(- *)'{-V,--version}'[Show the version]' \\\n"
          "            '1:command:{_describe command commands}'\n"
          "        return\n"
          "    fi\n"
          "    command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n",
          to);
    for (int c = 0; c < cli_n_commands; c++) {
        write_command(to, cli_commands[c]);
    }
    fputs("    esac\n"
          "    return 1\n"
          "}\n"
          "\n"
          "_checkmate \"$@\"\n",
          to);
}
