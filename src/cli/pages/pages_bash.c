// SPDX-License-Identifier: Apache-2.0
// Completion for bash: a `case` over commands, options and arguments, and a function that reads the line.
#include "cli/pages/pages.h"

#include <string.h>

// bash splits the line at = and : as well as at blanks; the words are put together again, and what stands before the
// last = or : of the word is taken off the answers, since bash replaces only what follows it.
static const char head[] = "# Completion of the commands, options and names of checkmate, for bash.\n"
                           "# Made by the build from the program's own tables.\n";

static const char tail[] =
    "_checkmate()\n"
    "{\n"
    "    local words=() word previous='' current option='' command='' i n=0\n"
    "    local known='' lists='' files='' folders='' models='' several='' options='' valued=''\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if ((i > 1)) && { [[ $word == [=:]* ]] || [[ $previous == *[=:] ]]; }; then\n"
    "            words[${#words[@]} - 1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "        previous=${words[${#words[@]} - 1]}\n"
    "    done\n"
    "    current=${words[${#words[@]} - 1]}\n"
    "    COMPREPLY=()\n"
    "    if ((${#words[@]} <= 2)); then\n"
    "        COMPREPLY=($(compgen -W \"$_checkmate_commands --help --version\" -- \"$current\"))\n"
    "        return\n"
    "    fi\n"
    "    command=${words[1]}\n"
    "    _checkmate_command \"$command\" || return\n"
    "    for ((i = 2; i < ${#words[@]} - 1; i++)); do\n"
    "        word=${words[i]}\n"
    "        if [[ -n $option ]]; then\n"
    "            option=''\n"
    "        elif [[ \" $valued \" == *\" $word \"* ]]; then\n"
    "            option=$word\n"
    "        elif [[ $word != -?* ]]; then\n"
    "            n=$((n + 1))\n"
    "        fi\n"
    "    done\n"
    "    word=$current\n"
    "    if [[ -z $option && $current == --*=* ]]; then\n"
    "        option=${current%%=*}\n"
    "        word=${current#*=}\n"
    "    fi\n"
    "    if [[ -n $option ]]; then\n"
    "        _checkmate_value \"$command\" \"$option\"\n"
    "    elif [[ $current == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
    "        return\n"
    "    else\n"
    "        _checkmate_argument \"$command\" \"$n\"\n"
    "    fi\n"
    "    local before=''\n"
    "    if [[ -n $several && $word == *,* ]]; then\n"
    "        before=${word%,*},\n"
    "        word=${word##*,}\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -P \"$before\" -W \"$known $lists\" -- \"$word\"))\n"
    "    local found=()\n"
    "    local IFS=$'\\n'\n"
    "    [[ -z $files ]] || found+=($(compgen -f -- \"$word\"))\n"
    "    [[ -z $models ]] || found+=($(compgen -f -X '!*.onnx' -- \"$word\") $(compgen -f -X '!*.json' -- \"$word\"))\n"
    "    [[ -z $models$folders ]] || found+=($(compgen -d -- \"$word\"))\n"
    "    if ((${#found[@]} > 0)); then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY+=(\"${found[@]}\")\n"
    "    fi\n"
    "    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"${word%:*}:\"}\")\n"
    "    fi\n"
    "}\n"
    "complete -F _checkmate checkmate\n";

static void write_list(FILE *to, pages_list list)
{
    char buf[64];
    fprintf(to, "_checkmate_%s='", pages_list_name(list));
    for (int i = 0; i < pages_list_count(list); i++) {
        fprintf(to, "%s%s", i > 0 ? " " : "", pages_list_entry(list, i, buf, sizeof buf));
    }
    fprintf(to, "'\n");
}

static bool is_empty(const pages_values *v)
{
    bool any = v->files || v->models || v->folders || v->words[0] != '\0';
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        any = any || v->lists[list];
    }
    return !any;
}

// One line of a `case`.
static void write_values(FILE *to, const char *pattern, const pages_values *v)
{
    if (is_empty(v)) {
        return;
    }
    fprintf(to, "    %s) known='%s' lists=\"", pattern, v->words);
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        if (v->lists[list]) {
            fprintf(to, " $_checkmate_%s", pages_list_name((pages_list)list));
        }
    }
    fprintf(to, "\" files=%s models=%s folders=%s several=%s ;;\n", v->files ? "1" : "", v->models ? "1" : "",
            v->folders ? "1" : "", v->several ? "1" : "");
}

// " --time-limit -t", of all options or of those that take a value.
static void write_names(FILE *to, const cli_command *command, bool only_valued)
{
    const cli_option *option = NULL;
    for (int i = 0; (option = pages_option_at(command, i)) != NULL; i++) {
        if (!only_valued || option->type != CLI_FLAG) {
            fprintf(to, "%s--%s", i > 0 ? " " : "", option->name);
            if (option->letter != 0) {
                fprintf(to, " -%c", option->letter);
            }
        }
    }
}

void pages_write_bash(FILE *to)
{
    fputs(head, to);
    for (int list = 0; list < PAGES_N_LISTS; list++) {
        write_list(to, (pages_list)list);
    }
    fputs("\n# Options of a command, and those of them that take a value.\n_checkmate_command()\n{\n    case $1 in\n",
          to);
    for (int c = 0; c < cli_n_commands; c++) {
        fprintf(to, "    %s)\n        options='", cli_commands[c]->name);
        write_names(to, cli_commands[c], false);
        fprintf(to, "'\n        valued='");
        write_names(to, cli_commands[c], true);
        fprintf(to, "'\n        ;;\n");
    }
    fputs(
        "    *) return 1 ;;\n    esac\n}\n\n# What the value of an option of a command can be.\n_checkmate_value()\n{\n"
        "    case \"$1 $2\" in\n",
        to);
    for (int c = 0; c < cli_n_commands; c++) {
        const cli_option *option = NULL;
        for (int i = 0; (option = pages_option_at(cli_commands[c], i)) != NULL; i++) {
            char pattern[128];
            pages_values values = pages_option_values(option);
            int n = snprintf(pattern, sizeof pattern, "'%s --%s'", cli_commands[c]->name, option->name);
            if (option->letter != 0 && n > 0 && (size_t)n < sizeof pattern) {
                snprintf(pattern + n, sizeof pattern - (size_t)n, " | '%s -%c'", cli_commands[c]->name, option->letter);
            }
            write_values(to, pattern, &values);
        }
    }
    fputs("    esac\n}\n\n# What an argument of a command can be, the first being 0.\n_checkmate_argument()\n{\n"
          "    case \"$1 $2\" in\n",
          to);
    for (int c = 0; c < cli_n_commands; c++) {
        char name[64];
        pages_values values;
        for (int i = 0; pages_argument_values(cli_commands[c], i, &values, name, sizeof name); i++) {
            char pattern[128];
            snprintf(pattern, sizeof pattern, "'%s %d'", cli_commands[c]->name, i);
            write_values(to, pattern, &values);
        }
    }
    fputs("    esac\n}\n\n", to);
    fputs(tail, to);
}
