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
// The same within a test that writes files by relative names: makes a folder in TMPDIR and goes there; goes back and removes it
// with everything in it.
typedef struct scratch_stay {
    char folder[256], back[4096];
} scratch_stay;
void scratch_enter(scratch_stay *stay);
void scratch_leave(const scratch_stay *stay);
// Number of files in the folder under any name: a temporary file that was left behind counts.
int count_files(const char *folder);
void write_plain(const char *path, const char *text);
void assert_content(const char *path, const char *text);
void pause_microseconds(unsigned n);

#endif
