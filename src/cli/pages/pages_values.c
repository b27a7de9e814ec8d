// SPDX-License-Identifier: Apache-2.0
// What can stand for an option's value or an argument: read from its type, from how help names it, and from what help says.
#include "cli/pages/pages.h"

#include <ctype.h>
#include <string.h>

const cli_option pages_help_option = {"help", 'h', CLI_FLAG, 0, NULL, "Show the help text.", NULL, 0, 0, NULL};

const char *pages_list_name(pages_list list)
{
    static const char *const names[PAGES_N_LISTS] = {"networks", "strategies", "devices", "figures", "commands"};
    return names[list];
}

int pages_list_count(pages_list list)
{
    switch (list) {
    case PAGES_NETWORKS:
        return (int)ckm_zoo_count();
    case PAGES_STRATEGIES:
        return (int)ckm_solve_strategy_count();
    case PAGES_DEVICES:
        return (int)ckm_device_count() + 1;
    case PAGES_FIGURES:
        return (int)ckm_emit_figure_count();
    case PAGES_COMMANDS:
    case PAGES_N_LISTS:
        break;
    }
    return cli_n_commands;
}

const char *pages_list_entry(pages_list list, int i, char *buf, size_t size)
{
    switch (list) {
    case PAGES_NETWORKS:
        return ckm_zoo_name(i);
    case PAGES_STRATEGIES:
        return ckm_solve_strategy_name(i);
    case PAGES_DEVICES:
        // The last is what `devices --measure` keeps.
        snprintf(buf, size, "device:%s", i < ckm_device_count() ? ckm_device_at(i)->name : "this");
        return buf;
    case PAGES_FIGURES:
        return ckm_emit_figure_name(i);
    case PAGES_COMMANDS:
    case PAGES_N_LISTS:
        break;
    }
    return cli_commands[i]->name;
}

static void add_word(pages_values *values, const char *word, size_t length)
{
    size_t used = strlen(values->words);
    if (used + length + 2 <= sizeof values->words) {
        snprintf(values->words + used, sizeof values->words - used, "%s%.*s", used > 0 ? " " : "", (int)length, word);
    }
}

// Help writes the words that a value may be in quotes: 'min', 'synthetic'. An apostrophe follows a letter and opens nothing.
static void add_quoted_words(pages_values *values, const char *help)
{
    for (const char *at = help; *at != '\0'; at++) {
        if (*at != '\'' || (at > help && isalnum((unsigned char)at[-1]))) {
            continue;
        }
        size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (length > 1 && at[1 + length] == '\'') {
            add_word(values, at + 1, length);
        }
        at += strcspn(at + 1, "'") + (at[1 + strcspn(at + 1, "'")] != '\0' ? 1 : 0);
    }
}

// Whether `word` is one of the values that help names: "DIR|FILE".
static bool names_value(const char *value, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = value; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, length) == 0 && (at[length] == '\0' || at[length] == '|')) {
            return true;
        }
    }
    return false;
}

pages_values pages_option_values(const cli_option *option)
{
    pages_values values = {.words = ""};
    if (option->type == CLI_CHOICE) {
        for (int i = 0; option->choices[i] != NULL; i++) {
            add_word(&values, option->choices[i], strlen(option->choices[i]));
        }
    }
    if (option->type == CLI_INPUTS || option->type == CLI_OUTPUTS) {
        values.files = true;
    }
    if (option->type != CLI_TEXT && option->type != CLI_INPUT && option->type != CLI_OUTPUT &&
        option->type != CLI_FIGURE && option->type != CLI_BUDGET) {
        return values;
    }
    values.files = names_value(option->value, "FILE") || strstr(option->help, "profile FILE") != NULL;
    values.folders = names_value(option->value, "DIR");
    values.lists[PAGES_STRATEGIES] = strstr(option->help, "'checkmate strategies' list") != NULL;
    values.several = values.lists[PAGES_STRATEGIES] && strchr(option->value, ',') != NULL;
    values.lists[PAGES_DEVICES] = strstr(option->help, "'device:NAME'") != NULL;
    values.lists[PAGES_FIGURES] = strcmp(option->name, "figure") == 0;
    if (strcmp(option->value, "FILE") != 0) {
        add_quoted_words(&values, option->help);
    }
    return values;
}

bool pages_argument_values(const cli_command *command, int i, pages_values *values, char *name, size_t size)
{
    const char *at = command->usage;
    size_t length = strcspn(at, " \n");
    for (int skipped = 0; i < command->max_arguments && skipped < i; skipped++) {
        at += length + strspn(at + length, " \n");
        length = strcspn(at, " \n");
    }
    if (i >= command->max_arguments || length == 0) {
        return false;
    }
    if (at[0] == '[' && at[length - 1] == ']') {
        at++;
        length -= 2;
    }
    snprintf(name, size, "%.*s", (int)length, at);
    *values = (pages_values){.words = ""};
    values->lists[PAGES_COMMANDS] = strcmp(name, "COMMAND") == 0;
    values->lists[PAGES_NETWORKS] = values->models = strcmp(name, "MODEL") == 0;
    values->files = !values->models && !values->lists[PAGES_COMMANDS];
    return true;
}

const cli_option *pages_option_at(const cli_command *command, int i)
{
    for (int g = 0; g < command->n_groups; g++) {
        if (i < command->groups[g].n_options) {
            return &command->groups[g].options[i];
        }
        i -= command->groups[g].n_options;
    }
    return i == 0 ? &pages_help_option : NULL;
}

const char *pages_brief(const cli_option *option, char *buf, size_t size)
{
    const char *help = option->help;
    static const char required[] = "Required. ";
    if (strncmp(help, required, sizeof required - 1) == 0) {
        help += sizeof required - 1;
    }
    size_t length = 0;
    while (help[length] != '\0' && strchr(".:;", help[length]) == NULL) {
        length++;
    }
    // "x.npy", "device:NAME" and the like do not end a sentence.
    while (help[length] != '\0' && help[length + 1] != ' ' && help[length + 1] != '\0') {
        length += 1 + strcspn(help + length + 1, ".:;");
    }
    snprintf(buf, size, "%.*s", (int)length, help);
    return buf;
}
