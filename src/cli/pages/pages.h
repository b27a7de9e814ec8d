// SPDX-License-Identifier: Apache-2.0
// Manual pages and completions, written from the program's tables of commands and options.
#ifndef CKM_SRC_CLI_PAGES_PAGES_H
#define CKM_SRC_CLI_PAGES_PAGES_H

#include "cli/cli.h"

// Names that the program knows; a value may be one of several lists.
typedef enum pages_list {
    PAGES_NETWORKS,
    PAGES_STRATEGIES,
    PAGES_DEVICES,  // "device:NAME"
    PAGES_FIGURES,
    PAGES_COMMANDS,
    PAGES_N_LISTS
} pages_list;

// What an option's value or an argument can be. The rest, such as numbers, cannot be completed.
typedef struct pages_values {
    bool lists[PAGES_N_LISTS];
    bool files, models, folders;  // models: files that can be MODEL
    bool several;                 // separated by commas
    char words[256];              // separated by spaces
} pages_values;

extern const cli_option pages_help_option;

const char *pages_list_name(pages_list list);  // "networks"
int pages_list_count(pages_list list);
// The i-th name in buf.
const char *pages_list_entry(pages_list list, int i, char *buf, size_t size);

pages_values pages_option_values(const cli_option *option);
// The values of argument i of a command, and in *name what usage calls it; false when it takes fewer.
bool pages_argument_values(const cli_command *command, int i, pages_values *values, char *name, size_t size);

// The options of a command one after the other, --help last; NULL behind the last.
const cli_option *pages_option_at(const cli_command *command, int i);
// The first sentence of an option's help, without its full stop.
const char *pages_brief(const cli_option *option, char *buf, size_t size);

// Each writes one file, or one page.
void pages_write_bash(FILE *to);
void pages_write_zsh(FILE *to);
void pages_write_fish(FILE *to);
void pages_write_overview(FILE *to, const char *date);
void pages_write_command(FILE *to, const cli_command *command, const char *date);

#endif
