// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of its corpus, without libFuzzer, so that every build replays what
// fuzzing has found. Usage: fuzz_<name> FOLDER|FILE ...
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Mutators are linked but never asked.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    (void)data;
    return size < max_size ? size : max_size;
}

static int replay_file(const char *path)
{
    int status = 1;
    uint8_t *data = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        goto cleanup;
    }
    long size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
        goto cleanup;
    }
    // Exactly as large as the input, so that a sanitizer sees a read past its end.
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        goto cleanup;
    }
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    status = 0;
cleanup:
    if (status != 0) {
        perror(path);
    }
    free(data);
    if (file != NULL) {
        fclose(file);
    }
    return status;
}

// Returns the number of files replayed, or -1.
static int replay_folder(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        return -1;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL && count >= 0; entry = readdir(folder)) {
        char file[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof file || replay_file(file) != 0) {
            count = -1;
        } else {
            count++;
        }
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    const uint8_t nothing = 0;
    (void)LLVMFuzzerTestOneInput(&nothing, 0);
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        int count = 1;
        if (stat(argv[i], &facts) == 0 && !S_ISDIR(facts.st_mode)) {
            count = replay_file(argv[i]) == 0 ? 1 : -1;
        } else {
            count = replay_folder(argv[i]);
        }
        if (count < 0) {
            return 1;
        }
        total += count;
    }
    if (total == 0) {
        fprintf(stderr, "no input to replay: a fuzz target needs a corpus\n");
        return 1;
    }
    printf("replayed %d inputs\n", total);
    return 0;
}
