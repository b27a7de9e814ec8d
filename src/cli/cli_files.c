// SPDX-License-Identifier: Apache-2.0
// The files of a command line, before anything runs: no two names for one file where one of them is written, and every
// output can be written. Files are identified by device and inode, or by folder and name if they do not exist yet.
#define _XOPEN_SOURCE 700  // realpath
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

enum { MOST_FILES = 64, MOST_LINKS = 40 };

typedef struct named_file {
    const char *option;  // NULL: an argument
    const char *path;
    bool is_output, exists;
    struct stat facts;        // of the file, or of its folder where there is none
    char name[NAME_MAX + 1];  // where there is none
} named_file;

// ---- which file a name means

// Standard output where that is a name for it.
static int stream_of(const named_file *file)
{
    if (strcmp(file->path, "-") == 0) {
        return file->is_output ? STDOUT_FILENO : STDIN_FILENO;
    }
    return -1;
}

static bool names_stream(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

// The folder of `path` in *facts, and the last part of it.
static bool look_at_folder(const char *path, struct stat *facts, char *name, size_t room)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    int n = snprintf(name, room, "%s", path + length);
    return n > 0 && (size_t)n < room && stat(length > 0 ? folder : ".", facts) == 0;
}

// Symbolic links that lead to nothing are written through, too.
static void follow_links(char *path)
{
    char next[PATH_MAX];
    for (int links = 0; links < MOST_LINKS; links++) {
        ssize_t n = readlink(path, next, sizeof next - 1);
        if (n <= 0) {
            return;
        }
        next[n] = '\0';
        char *slash = strrchr(path, '/');
        size_t kept = next[0] == '/' || slash == NULL ? 0 : (size_t)(slash - path) + 1;
        if (kept + (size_t)n >= PATH_MAX) {
            return;
        }
        memcpy(path + kept, next, (size_t)n + 1);
    }
}

// False for what cannot be confused: devices, and files that do not exist and cannot be created.
static bool identify(named_file *file)
{
    int stream = stream_of(file);
    file->exists = stream >= 0 ? fstat(stream, &file->facts) == 0 : stat(file->path, &file->facts) == 0;
    if (file->exists) {
        return !S_ISCHR(file->facts.st_mode) && (file->is_output || !S_ISFIFO(file->facts.st_mode));
    }
    char path[PATH_MAX];
    if (stream >= 0 || !file->is_output || strlen(file->path) >= sizeof path) {
        return false;
    }
    memcpy(path, file->path, strlen(file->path) + 1);
    follow_links(path);
    return look_at_folder(path, &file->facts, file->name, sizeof file->name);
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool same_file(const named_file *a, const named_file *b)
{
    return a->exists == b->exists && same_inode(&a->facts, &b->facts) && (a->exists || strcmp(a->name, b->name) == 0);
}

// ---- what belongs to an input without being named

// Files of an ONNX model that hold its tensors: entries "location" of its external data, as the format writes them.
static bool is_data_of_model(const named_file *model, const named_file *output)
{
    static const char key[] = "\x0a\x08location\x12";
    enum { KEY = sizeof key - 1, WINDOW = 1 << 16, LONGEST = 4096, STEP = WINDOW - KEY - 2 - LONGEST };
    static unsigned char buffer[WINDOW];
    char path[PATH_MAX];
    struct stat facts;
    const char *slash = strrchr(model->path, '/');
    int folder = slash != NULL ? (int)(slash - model->path) + 1 : 0;
    int fd = open(model->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool found = false;
    ssize_t n = WINDOW;
    for (off_t at = 0; fd >= 0 && !found && n == WINDOW; at += STEP) {
        n = pread(fd, buffer, sizeof buffer, at);
        for (ssize_t i = 0; i + KEY + 2 < n && !found; i++) {
            if (memcmp(buffer + i, key, KEY) != 0) {
                continue;
            }
            // The length is a number in one or two groups of seven bits.
            ssize_t text = i + KEY + (buffer[i + KEY] < 0x80 ? 1 : 2);
            int length = (buffer[i + KEY] & 0x7f) + (buffer[i + KEY] < 0x80 ? 0 : 128 * buffer[i + KEY + 1]);
            if (length > 0 && length <= LONGEST && text + length <= n &&
                snprintf(path, sizeof path, "%.*s%.*s", folder, model->path, length, (const char *)buffer + text) <
                    (int)sizeof path) {
                found = stat(path, &facts) == 0 && same_inode(&facts, &output->facts);
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n >= m && strcasecmp(text + n - m, ending) == 0;
}

// A file that training data may be in, in their folder or in one of its folders.
static bool is_in_data(const named_file *folder, const named_file *output)
{
    static const char *const endings[] = {".npy", "ubyte", ".bin", ".png", ".jpg", ".jpeg"};
    char path[PATH_MAX];
    struct stat facts;
    if (!S_ISREG(output->facts.st_mode) || realpath(output->path, path) == NULL) {
        return false;
    }
    bool data = false;
    for (int i = 0; i < CLI_COUNT(endings); i++) {
        data = data || ends_with(path, endings[i]);
    }
    for (int up = 0; up < 2 && data; up++) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            break;
        }
        *slash = '\0';
        if (stat(path, &facts) == 0 && same_inode(&facts, &folder->facts)) {
            return true;
        }
    }
    return false;
}

static bool would_replace(const named_file *output, const named_file *input)
{
    if (same_file(output, input)) {
        return true;
    }
    if (!output->exists || !input->exists) {
        return false;
    }
    return S_ISDIR(input->facts.st_mode) ? is_in_data(input, output)
                                         : ends_with(input->path, ".onnx") && is_data_of_model(input, output);
}

// ---- the files of a command line

static bool is_network_name(const char *name)
{
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        if (strcasecmp(ckm_zoo_name(i), name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_output(const cli_option *option)
{
    return option->type == CLI_OUTPUT || option->type == CLI_FIGURE || option->type == CLI_OUTPUTS;
}

const char *cli_files_path(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals != NULL ? equals + 1 : text;
}

// The k-th file that an option of the command names; NULL where there is none.
static const char *file_of(const cli_group *group, const cli_option *option, const void *settings, int k)
{
    const void *at = (const char *)settings + group->base + option->offset;
    if (option->type == CLI_INPUTS || option->type == CLI_OUTPUTS) {
        const cli_list *list = at;
        return k < list->n ? cli_files_path(list->items[k]) : NULL;
    }
    return k == 0 && (is_output(option) || option->type == CLI_INPUT) ? *(const char *const *)at : NULL;
}

// Those that can be mixed up; *n are found.
static void list_files(const cli_command *command, const void *settings, char *const *arguments, int n_arguments,
                       named_file *files, int *n)
{
    static const char device[] = "device:";
    *n = 0;
    for (int i = 0; i < n_arguments && *n < MOST_FILES; i++) {
        files[*n] = (named_file){.path = arguments[i]};
        *n += !is_network_name(arguments[i]) && identify(&files[*n]);
    }
    for (int g = 0; g < command->n_groups; g++) {
        const cli_group *group = &command->groups[g];
        for (int i = 0; i < group->n_options; i++) {
            const cli_option *option = &group->options[i];
            const char *path = file_of(group, option, settings, 0);
            for (int k = 1; path != NULL && *n < MOST_FILES; path = file_of(group, option, settings, k++)) {
                path += strncmp(path, device, sizeof device - 1) == 0 ? sizeof device - 1 : 0;
                files[*n] = (named_file){.option = option->name, .path = path, .is_output = is_output(option)};
                *n += identify(&files[*n]);
            }
        }
    }
}

static bool prints_json(const cli_command *command, const void *settings)
{
    for (int g = 0; g < command->n_groups; g++) {
        for (int i = 0; i < command->groups[g].n_options; i++) {
            const cli_option *option = &command->groups[g].options[i];
            if (strcmp(option->name, "json") == 0) {
                return *((const bool *)settings + command->groups[g].base + option->offset);
            }
        }
    }
    return false;
}

static int check_pair(const cli_command *command, const named_file *output, const named_file *other)
{
    if (other->is_output) {
        return same_file(output, other)
                   ? cli_usage_error(command, "--%s %s and --%s %s are the same file: give each a different name",
                                     output->option, output->path, other->option, other->path)
                   : -1;
    }
    // A resumed run may write to the file that it is resumed from.
    bool goes_on = other->option != NULL && strcmp(other->option, "resume") == 0 && strcmp(output->option, "save") == 0;
    if (goes_on || !would_replace(output, other)) {
        return -1;
    }
    return cli_usage_error(command, "--%s %s would replace a file that is read for %s%s: give another name",
                           output->option, output->path, other->option != NULL ? "--" : "",
                           other->option != NULL ? other->option : other->path);
}

// Where standard output or error is a file, what is printed there and the output would be lost in each other.
static int check_streams(const cli_command *command, const void *settings, const named_file *output)
{
    if (strcmp(output->path, "-") == 0 && prints_json(command, settings)) {
        return cli_usage_error(command, "--json and '--%s -' both write to standard output", output->option);
    }
    for (int stream = STDOUT_FILENO; stream <= STDERR_FILENO; stream++) {
        struct stat facts;
        if (output->exists && !names_stream(output->path) && fstat(stream, &facts) == 0 && S_ISREG(facts.st_mode) &&
            same_inode(&facts, &output->facts)) {
            return cli_usage_error(command, "--%s %s is the file that standard %s goes to: give another name",
                                   output->option, output->path, stream == STDOUT_FILENO ? "output" : "error");
        }
    }
    return -1;
}

int cli_files_check(const cli_command *command, const void *settings, char *const *arguments, int n_arguments)
{
    int n = 0;
    int outcome = -1;
    named_file *files = malloc(MOST_FILES * sizeof *files);
    if (files == NULL) {
        return cli_failf("out of memory");
    }
    list_files(command, settings, arguments, n_arguments, files, &n);
    for (int i = 0; i < n && outcome < 0; i++) {
        if (!files[i].is_output) {
            continue;
        }
        outcome = check_streams(command, settings, &files[i]);
        for (int k = 0; k < n && outcome < 0; k++) {
            outcome = k == i || (k > i && files[k].is_output) ? -1 : check_pair(command, &files[i], &files[k]);
        }
    }
    free(files);
    return outcome;
}

int cli_files_try(const cli_command *command, const void *settings)
{
    ckm_error err = CKM_ERROR_INIT;
    for (int g = 0; g < command->n_groups; g++) {
        const cli_group *group = &command->groups[g];
        for (int i = 0; i < group->n_options; i++) {
            const cli_option *option = &group->options[i];
            const char *path = is_output(option) ? file_of(group, option, settings, 0) : NULL;
            for (int k = 1; path != NULL; path = file_of(group, option, settings, k++)) {
                if (option->type == CLI_FIGURE && !ends_with(path, ".svg") && !ends_with(path, ".pdf") &&
                    !ends_with(path, ".png")) {
                    return cli_failf("%s: a figure's file name must end in .svg, .pdf or .png", path);
                }
                if (ckm_file_check_output(path, &err) != CKM_OK) {
                    return cli_fail(&err);
                }
            }
        }
    }
    return -1;
}
