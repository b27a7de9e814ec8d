// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one test, and small things to do in it.
#ifndef CKM_TESTS_SCRATCH_H
#define CKM_TESTS_SCRATCH_H

typedef struct scratch {
    char folder[64], path[128];
} scratch;

// For cmocka: make the folder, a scratch being the state; remove it with the files in it.
int scratch_set_up(void **state);
int scratch_tear_down(void **state);
// Files in the folder, whatever their names: a temporary that was left behind counts.
int count_files(const char *folder);
void write_plain(const char *path, const char *text);
void assert_content(const char *path, const char *text);
void pause_microseconds(unsigned n);

#endif
