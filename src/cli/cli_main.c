// SPDX-License-Identifier: Apache-2.0
// The program: prepares its standard streams and runs a command.
#include "cli/cli.h"
#include "cli/cli_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#ifndef CLI_PLANS_ONLY
extern const cli_command cli_command_train, cli_command_run, cli_command_profile;
#endif

// With standard output closed, the next file opened would take its number and receive what is printed.
// Puts something there that refuses to be written (or read).
static void occupy_standard_streams(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd) {
            _exit(CLI_FAILED);
        }
    }
}

static int run_command(const cli_command *command, char **argv, int argc)
{
    alignas(max_align_t) unsigned char settings[CLI_SETTINGS_MAX] = {0};
    int n_arguments = 0;
    if (command->defaults != NULL) {
        memcpy(settings, command->defaults, command->settings_size);
    }
    int outcome = cli_parse(command, settings, argv, argc, &n_arguments);
    if (outcome < 0) {
        outcome = cli_files_check(command, settings, argv, n_arguments);
    }
    if (outcome < 0 && strcmp(command->name, "train") != 0) {
        outcome = cli_files_try(command, settings);
    }
    return outcome >= 0 ? outcome : command->run(command, settings, argv, n_arguments);
}

int main(int argc, char **argv)
{
    occupy_standard_streams();
    // A reader that goes away is an error to report, not a reason to be killed (SIGPIPE).
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    // And so is a file that may not grow any more.
    sigaction(SIGXFSZ, &ignore, NULL);
    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        printf("checkmate %s\n", ckm_version());
        return cli_finish_output();
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        cli_print_overview(stdout);
        return cli_finish_output();
    }
    if (first[0] == '-') {
        return cli_usage_error(NULL, "the first argument must be a command, got '%s'", first);
    }
    const cli_command *command = cli_command_find(first);
#ifndef CLI_PLANS_ONLY
    if (command == &cli_command_train || command == &cli_command_run || command == &cli_command_profile) {
        cli_openmp_settle(argv);
    }
    if (command == &cli_command_train) {
        cli_ranks_hush();
    }
#endif
    return command != NULL ? run_command(command, argv + 2, argc - 2) : cli_unknown_command(first);
}
