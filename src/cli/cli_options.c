// SPDX-License-Identifier: Apache-2.0
// Command lines: parsing by a command's table of options.
#include "cli/cli.h"

#include <string.h>

#include "cli/cli_budget.h"
#include "cli/cli_values.h"

// An option of a command and where its value goes.
typedef struct found {
    const cli_option *option;
    char *place;
} found;

static found find_option(const cli_command *command, char *settings, const char *name, size_t length)
{
    for (int g = 0; g < command->n_groups; g++) {
        const cli_group *group = &command->groups[g];
        for (int i = 0; i < group->n_options; i++) {
            const cli_option *option = &group->options[i];
            if (strlen(option->name) == length && strncmp(option->name, name, length) == 0) {
                return (found){option, settings + group->base + option->offset};
            }
        }
    }
    return (found){NULL, NULL};
}

static found find_letter(const cli_command *command, char *settings, char letter)
{
    for (int g = 0; g < command->n_groups; g++) {
        for (int i = 0; i < command->groups[g].n_options; i++) {
            const cli_option *option = &command->groups[g].options[i];
            if (option->letter == letter) {
                return (found){option, settings + command->groups[g].base + option->offset};
            }
        }
    }
    return (found){NULL, NULL};
}

static int unknown_option(const cli_command *command, const char *argument)
{
    const char *names[64] = {"help"};
    int n = 1;
    for (int g = 0; g < command->n_groups; g++) {
        for (int i = 0; i < command->groups[g].n_options && n < CLI_COUNT(names); i++) {
            names[n++] = command->groups[g].options[i].name;
        }
    }
    char word[64];
    char suggestion[128];
    const char *bare = argument + strspn(argument, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(bare, "="), bare);
#ifdef CLI_PLANS_ONLY
    if (strcmp(command->name, "devices") == 0 && strcmp(word, "measure") == 0) {
        return cli_plans_only("devices --measure");
    }
#endif
    return cli_usage_error(command, "unknown option '%.*s'%s", (int)strcspn(argument, "="), argument,
                           cli_did_you_mean(word, names, n, "--", suggestion, sizeof suggestion));
}

static const char *store_choice(const cli_option *option, char *place, const char *text)
{
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)(void *)place = i;
            return NULL;
        }
    }
    return "";  // the caller lists the choices
}

static const char *append(cli_list *list, const char *text)
{
    if (list->n == CLI_LIST_MOST) {
        return "can be given 16 times at most";
    }
    list->items[list->n++] = text;
    return NULL;
}

// Reads and stores a value. NULL, or what is wrong with it.
static const char *store(const cli_option *option, char *place, const char *text)
{
    void *to = place;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)to = true;
        return NULL;
    case CLI_TEXT:
    case CLI_INPUT:
    case CLI_OUTPUT:
    case CLI_FIGURE:
        *(const char **)to = text;
        return NULL;
    case CLI_INPUTS:
    case CLI_OUTPUTS:
        return append(to, text);
    case CLI_INTEGER:
        return cli_read_integer(text, to);
    case CLI_REAL:
        return cli_read_real(text, to);
    case CLI_FRACTION:
        return cli_read_fraction(text, to);
    case CLI_BYTES:
        return cli_read_bytes(text, to);
    case CLI_BUDGET:
        return cli_read_budget(text, to);
    case CLI_SHAPE:
        return cli_read_shape(text, to);
    case CLI_CHOICE:
        return store_choice(option, place, text);
    }
    return "cannot be read";
}

static bool in_range(const cli_option *option, const char *place)
{
    const void *from = place;
    if (option->type == CLI_INTEGER) {
        return *(const int64_t *)from >= option->min && *(const int64_t *)from <= option->max;
    }
    if (option->type == CLI_REAL || option->type == CLI_FRACTION) {
        return *(const double *)from >= (double)option->min;
    }
    return true;
}

static int bad_choice(const cli_command *command, const cli_option *option, const char *text)
{
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; option->choices[i] != NULL && used < sizeof list; i++) {
        int n = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? " or " : "", option->choices[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return cli_usage_error(command, "--%s must be %s, got '%s'", option->name, list, text);
}

static int set(const cli_command *command, found f, const char *text)
{
    const char *problem = store(f.option, f.place, text);
    if (problem != NULL && f.option->type == CLI_CHOICE) {
        return bad_choice(command, f.option, text);
    }
    if (problem != NULL) {
        return cli_usage_error(command, "--%s %s, got '%s'", f.option->name, problem, text);
    }
    if (!in_range(f.option, f.place)) {
        if (f.option->type == CLI_INTEGER && f.option->max < INT64_MAX) {
            return cli_usage_error(command, "--%s must be from %lld to %lld, got '%s'", f.option->name,
                                   (long long)f.option->min, (long long)f.option->max, text);
        }
        return cli_usage_error(command, "--%s must be at least %lld, got '%s'", f.option->name,
                               (long long)f.option->min, text);
    }
    return -1;
}

// One option, at argv[*i]; *i moves on to its value when that is a separate argument.
static int parse_option(const cli_command *command, char *settings, char **argv, int argc, int *i)
{
    char *argument = argv[*i];
    const char *value = NULL;
    found f;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        f = find_option(command, settings, argument + 2, length);
        if (argument[2 + length] == '=') {
            value = argument + 2 + length + 1;
        }
    } else {
        f = find_letter(command, settings, argument[1]);
        if (argument[2] != '\0') {
            value = argument + 2;
        }
    }
    if (f.option == NULL) {
        return unknown_option(command, argument);
    }
    if (f.option->type == CLI_FLAG) {
        if (value != NULL) {
            return cli_usage_error(command, "--%s takes no value", f.option->name);
        }
        return set(command, f, "");
    }
    if (value == NULL) {
        if (*i + 1 >= argc) {
            return cli_usage_error(command, "--%s needs a value: %s", f.option->name, f.option->value);
        }
        value = argv[++*i];
    }
    if (value[0] == '\0') {
        return cli_usage_error(command, "--%s needs a value: %s", f.option->name, f.option->value);
    }
    return set(command, f, value);
}

int cli_parse(const cli_command *command, void *settings, char **argv, int argc, int *n_arguments)
{
    int n = 0;
    bool options_end = false;
    // Asking for help is never wrong usage, even if the rest of the line is.
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_print_help(command);
            return cli_finish_output();
        }
    }
    for (int i = 0; i < argc; i++) {
        bool is_option = !options_end && argv[i][0] == '-' && argv[i][1] != '\0';
        if (!is_option) {
            argv[n++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else {
            int outcome = parse_option(command, settings, argv, argc, &i);
            if (outcome >= 0) {
                return outcome;
            }
        }
    }
    if (n < command->min_arguments) {
        return cli_usage_error(command, "%s is missing", command->argument_names[n]);
    }
    if (n > command->max_arguments) {
        return cli_usage_error(command, "unexpected argument '%s'", argv[command->max_arguments]);
    }
    *n_arguments = n;
    return -1;
}
