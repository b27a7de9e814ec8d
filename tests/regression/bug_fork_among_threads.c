// SPDX-License-Identifier: Apache-2.0
// With several threads, auto started the next proof wherever the search asked whether to stop: it forked while other threads
// were at work, and a child of such a process may find any lock taken for good. Now nothing is forked while they are.
#include <checkmate/solve.h>
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"

static int forks, most_threads;

// A thread that has been joined may be listed for a moment, on its way out.
static bool is_leaving(const char *task)
{
    enum { pf_exiting = 4 };
    char path[300];
    char line[512] = "";
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return true;
    }
    const char *after_name = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    bool read = after_name != NULL && sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1;
    fclose(file);
    return !read || (flags & pf_exiting) != 0;
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry = tasks != NULL ? readdir(tasks) : NULL; entry != NULL; entry = readdir(tasks)) {
        n += entry->d_name[0] != '.' && !is_leaving(entry->d_name);
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return n;
}

static void look(void)
{
    int n = count_threads();
    forks++;
    most_threads = n > most_threads ? n : most_threads;
}

// No chain, so that search and proofs have something to do for as long as they may.
static ckm_dataflow *skips(void)
{
    enum { n = 60 };
    layer_spec layers[n] = {0};
    for (int32_t j = 0; j < n; j++) {
        layers[j] = (layer_spec){.cost = 3 + j * 7 % 11, .bytes = 2 + j * 5 % 7};
        layers[j].n_operands = j > 3 ? 2 : j > 0;
        layers[j].operands[0] = j - 1;
        layers[j].operands[1] = j - 4;
    }
    return layer_graph_build(layers, n, 0, 1, true);
}

static void nothing_is_forked_among_threads(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = skips();
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    if (count_threads() != 1) {
        print_message("SKIPPED: this process has threads of its own, or no /proc\n");
        ckm_dataflow_free(df);
        skip();
    }
    assert_int_equal(pthread_atfork(look, NULL, NULL), 0);
    options.budget_bytes = 90;
    options.threads = 3;
    options.time_limit_seconds = 2.0;
    options.gap = CKM_NONE;
    assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_OK);
    assert_non_null(result.schedule);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
    assert_true(forks > 0);
    assert_int_equal(most_threads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_forked_among_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
