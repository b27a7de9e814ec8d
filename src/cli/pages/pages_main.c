// SPDX-License-Identifier: Apache-2.0
// A program of the build: checkmate_pages FOLDER DATE writes man/ and completions/, which are there, under FOLDER.
#include "cli/pages/pages.h"

static FILE *open_page(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *to = n > 0 && (size_t)n < sizeof path ? fopen(path, "w") : NULL;
    if (to == NULL) {
        fprintf(stderr, "checkmate_pages: cannot write %s/%s\n", folder, name);
    }
    return to;
}

static bool close_page(FILE *to, const char *name)
{
    bool good = ferror(to) == 0;
    good = fclose(to) == 0 && good;
    if (!good) {
        fprintf(stderr, "checkmate_pages: %s is not complete: the disk may be full\n", name);
    }
    return good;
}

static bool write_completion(const char *folder, const char *name, void (*write)(FILE *))
{
    FILE *to = open_page(folder, name);
    if (to == NULL) {
        return false;
    }
    write(to);
    return close_page(to, name);
}

// The page of a command, or the overview for NULL.
static bool write_manual(const char *folder, const cli_command *command, const char *date)
{
    char name[64];
    snprintf(name, sizeof name, "man/checkmate%s%s.1", command != NULL ? "-" : "",
             command != NULL ? command->name : "");
    FILE *to = open_page(folder, name);
    if (to == NULL) {
        return false;
    }
    if (command != NULL) {
        pages_write_command(to, command, date);
    } else {
        pages_write_overview(to, date);
    }
    return close_page(to, name);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: checkmate_pages FOLDER DATE\n");
        return CLI_USAGE;
    }
    bool good = write_completion(argv[1], "completions/checkmate", pages_write_bash) &&
                write_completion(argv[1], "completions/_checkmate", pages_write_zsh) &&
                write_completion(argv[1], "completions/checkmate.fish", pages_write_fish) &&
                write_manual(argv[1], NULL, argv[2]);
    for (int i = 0; good && i < cli_n_commands; i++) {
        good = write_manual(argv[1], cli_commands[i], argv[2]);
    }
    return good ? CLI_DONE : CLI_FAILED;
}
