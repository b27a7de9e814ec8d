// SPDX-License-Identifier: Apache-2.0
// What the files of the program share: the command, its options, exit statuses, messages.
#ifndef CKM_SRC_CLI_CLI_H
#define CKM_SRC_CLI_CLI_H

#include <checkmate/checkmate.h>

#include <stdio.h>

// The program's exit statuses; they are part of its interface.
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,      // bad input, I/O, out of memory
    CLI_USAGE = 2,       // wrong usage
    CLI_INFEASIBLE = 3,  // proven that no schedule of the class named fits the budget
    CLI_NONE_FOUND = 4   // none found within the limits
};

typedef enum cli_type {
    CLI_FLAG,      // bool
    CLI_TEXT,      // const char *
    CLI_INPUT,     // the same: a file or folder that is read
    CLI_OUTPUT,    // the same: a file to write, '-' for standard output
    CLI_FIGURE,    // the same: a figure to write
    CLI_INPUTS,    // cli_list: "[NAME=]FILE" to read, the option being given several times
    CLI_OUTPUTS,   // the same: to write
    CLI_INTEGER,   // int64_t in [min, max]
    CLI_REAL,      // double, at least min
    CLI_FRACTION,  // double, "0.01" or "1%", at least min
    CLI_BYTES,     // int64_t: bytes, "512MB", "4GiB"
    CLI_BUDGET,    // cli_budget: bytes, a device's memory, percent of the peak without rematerialization, "auto", "min"
    CLI_SHAPE,     // cli_shape: "224,224,3"
    CLI_CHOICE     // int: position in `choices`
} cli_type;

enum { CLI_LIST_MOST = 16 };
typedef struct cli_list {
    int n;
    const char *items[CLI_LIST_MOST];
} cli_list;

typedef struct cli_budget {
    bool given, is_percent, of_activations, is_least, is_auto;
    int64_t bytes;
    long double percent;
} cli_budget;

typedef struct cli_shape {
    int32_t rank;  // 0: not given
    int64_t dims[CKM_MAX_RANK];
} cli_shape;

// One option. Parsing writes a value of its type at `offset` into the settings of its group.
typedef struct cli_option {
    const char *name;  // without dashes
    char letter;       // one-letter form, or 0
    cli_type type;
    size_t offset;
    const char *value;  // how help names the value
    const char *help;
    const char *fallback;  // the default, as help shows it, or NULL
    int64_t min, max;
    const char *const *choices;  // ends with NULL
} cli_option;

// Options that belong together; `base` is where their settings start in those of the command.
typedef struct cli_group {
    const char *title;  // NULL: the group belongs to the one before
    const cli_option *options;
    int n_options;
    size_t base;
} cli_group;

typedef struct cli_command cli_command;
struct cli_command {
    const char *name;
    const char *summary;        // one line
    const char *usage;          // what follows the name
    const char *description;    // paragraphs, separated by empty lines
    const char *exit_statuses;  // lines "N  meaning", NULL for the usual 0, 1, 2
    const char *examples;       // lines
    const cli_group *groups;
    int n_groups;
    int min_arguments, max_arguments;
    const char *const *argument_names;  // of the required ones, for messages
    const void *defaults;               // settings before parsing
    size_t settings_size;               // at most CLI_SETTINGS_MAX
    int (*run)(const cli_command *command, const void *settings, char **arguments, int n_arguments);
};

#define CLI_SETTINGS_MAX 1024

#define CLI_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// The table of commands (cli_commands.c), in the order in which help shows them.
extern const cli_command *const cli_commands[];
extern const int cli_n_commands;
const cli_command *cli_command_find(const char *name);
int cli_unknown_command(const char *name);  // reports it; gives the exit status
// Reports that a program without training has no `what` (only in cli_plans_only.c); gives the exit status.
int cli_plans_only(const char *what);

// Options (cli_options.c). Parses `argv` (without program and command) into *settings and collects the
// other arguments, which are moved to the front of argv. Gives -1 to continue, or an exit status: --help was
// asked for and shown, or the usage is wrong and has been reported.
int cli_parse(const cli_command *command, void *settings, char **argv, int argc, int *n_arguments);
void cli_print_help(const cli_command *command);
void cli_print_overview(FILE *to);
// Columns of the terminal that `to` is, or what COLUMNS says: 40 to 80, and 80 where neither is known.
int cli_width(FILE *to);
// Wraps words at that width, lines after the first indented; `column` is the cursor's.
void cli_print_wrapped(FILE *to, const char *text, int column, int indent);
// A line of a summary, or the next piece of one. On a terminal narrower than 80 columns it is wrapped at blanks and the
// continuation is indented; elsewhere it is printed unchanged.
void cli_line(FILE *to, int indent, const char *format, ...) CKM_PRINTF(3, 4);
const char *cli_exit_statuses(const cli_command *command);  // lines "N  meaning"

// The files that a command line names (cli_files.c). The first compares all outputs with each other and with what is read:
// a file named twice is wrong usage. The second tries whether each output can be written. Both report and give the exit
// status, or -1 to continue, and are called before anything runs; `train` in several processes calls the second itself.
int cli_files_check(const cli_command *command, const void *settings, char *const *arguments, int n_arguments);
int cli_files_try(const cli_command *command, const void *settings);
// The part of "[NAME=]FILE" after the name.
const char *cli_files_path(const char *text);

// Called first by commands that compute with threads (cli_openmp.c). May start the program anew.
void cli_openmp_settle(char **argv);

// Messages on standard error (cli_messages.c). Each gives the exit status to return.
int cli_fail(const ckm_error *err);
int cli_failf(const char *format, ...) CKM_PRINTF(1, 2);
void cli_note(const char *line);                           // "note: ..."
void cli_warnf(const char *format, ...) CKM_PRINTF(1, 2);  // "warning: ..."
int cli_usage_error(const cli_command *command, const char *format, ...) CKM_PRINTF(2, 3);
// Fills *err as the library does, for the program's own errors.
ckm_status cli_error(ckm_error *err, ckm_status code, const char *file, const char *format, ...) CKM_PRINTF(4, 5);
// Text from a file or the command line, made safe for a terminal: control characters, line breaks and bidirectional marks
// become '?'. Valid until the eighth call after it. Every such text is printed through it; the functions above do so themselves.
const char *cli_text(const char *text);
// Warns when a program computes with fewer threads than requested (cli_threads.c).
void cli_note_threads(const ckm_program *program, int wanted);
// "; did you mean '<prefix>x'?" for the name nearest to `word`, else one that begins with it, or "". Returns buf.
const char *cli_did_you_mean(const char *word, const char *const *names, int n, const char *prefix, char *buf,
                             size_t size);
// Flushes standard output: CLI_DONE when everything written to it has arrived, else reports and fails.
int cli_finish_output(void);

// Terminal styles; "" when the stream is no terminal or NO_COLOR is set.
typedef enum cli_style_name { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GOOD, CLI_WARN, CLI_BAD } cli_style_name;
const char *cli_style(FILE *stream, cli_style_name style);

#endif
