// SPDX-License-Identifier: Apache-2.0
// JSON in C source: single quotes stand for double quotes, so that "{'version': 1}" is readable.
#ifndef CKM_TESTS_QUOTED_H
#define CKM_TESTS_QUOTED_H

#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>

// A copy of `text` with every ' turned into "; the caller frees it.
char *quoted(const char *text);

// Parses a graph or a schedule written with single quotes. On failure *err is set and NULL returned.
ckm_dataflow *quoted_graph(const char *text, ckm_error *err);
ckm_schedule *quoted_schedule(const char *text, ckm_error *err);

// Only the members that matter: {"format": ..., "version": 1, <members>}.
ckm_dataflow *quoted_graph_of(const char *members);
// Only the steps: "['compute', 0], ['free', 1]".
ckm_schedule *quoted_schedule_of(const char *steps);

// Fails the test unless *err has this code and a message that contains `fragment`.
void assert_error(const ckm_error *err, ckm_status code, const char *fragment);

#endif
