// SPDX-License-Identifier: Apache-2.0
// From "[MODEL] schedule.json" to a verified schedule and its facts.
#include "cli/cli_planned.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cli_planned_consistent(const ckm_schedule_info *info, char *why, size_t size)
{
    static const double optimal_gap = 1.001e-4;  // within which "optimal" is said, and what rounding adds
    double cost = (double)info->cost;
    bool bounded = !isnan(info->bound_cost) && info->cost >= 0;
    if (info->budget_bytes >= 0 && info->peak_bytes > info->budget_bytes) {
        snprintf(why, size, "the file states a peak of %lld bytes, and a budget of %lld bytes that it exceeds",
                 (long long)info->peak_bytes, (long long)info->budget_bytes);
    } else if (bounded && info->bound_cost > cost) {
        snprintf(why, size, "the file states a cost of %lld, and a bound of %.17g that no schedule can cost less than",
                 (long long)info->cost, info->bound_cost);
    } else if (bounded && info->optimal && cost > info->bound_cost + optimal_gap * info->bound_cost) {
        snprintf(why, size, "the file says \"optimal\", but its cost of %lld is above its bound of %.17g",
                 (long long)info->cost, info->bound_cost);
    } else if (info->cost >= 0 && info->baseline_cost > info->cost) {
        snprintf(why, size, "the file states a cost of %lld, less than the %lld of every operator once (baseline_cost)",
                 (long long)info->cost, (long long)info->baseline_cost);
    } else {
        return true;
    }
    return false;
}

bool cli_planned_true(const ckm_schedule_info *info, const ckm_dataflow *df, const ckm_verdict *verdict, char *why,
                      size_t size)
{
    int64_t baseline = ckm_dataflow_total_cost(df);
    if (info->cost >= 0 && info->cost != verdict->cost) {
        snprintf(why, size, "the file states a cost of %lld, but its steps cost %lld", (long long)info->cost,
                 (long long)verdict->cost);
    } else if (info->peak_bytes >= 0 && info->peak_bytes != verdict->peak_bytes) {
        snprintf(why, size, "the file states a peak of %lld bytes, but its steps reach %lld",
                 (long long)info->peak_bytes, (long long)verdict->peak_bytes);
    } else if (info->baseline_cost >= 0 && info->baseline_cost != baseline) {
        snprintf(why, size, "the file states a baseline_cost of %lld, but this graph's is %lld",
                 (long long)info->baseline_cost, (long long)baseline);
    } else {
        return cli_planned_consistent(info, why, size);
    }
    return false;
}

// Whether the verifier accepts the schedule on this graph, at the cost and peak that the schedule states.
static bool fits(const ckm_dataflow *df, const ckm_schedule *s, ckm_verdict *verdict, ckm_error *err)
{
    const ckm_schedule_info *info = ckm_schedule_get_info(s);
    if (ckm_schedule_verify(df, s, -1, verdict, err) != CKM_OK) {
        return false;
    }
    char what[300];
    if (verdict->ok && !cli_planned_true(info, df, verdict, what, sizeof what)) {
        verdict->ok = false;
        snprintf(verdict->why, sizeof verdict->why,
                 "%.300s; give the same --batch, --input-shape and other options as for solve", what);
    }
    return verdict->ok;
}

// Whether a file says early on that it is a graph: schedules and logs next to it may be large, and pipes are not graphs.
static bool looks_like_graph(const char *path)
{
    char head[1024];
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return false;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    size_t n = fread(head, 1, sizeof head - 1, file);
    head[n] = '\0';
    fclose(file);
    return strstr(head, "checkmate-graph") != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Names of the folder's .json files, sorted, so that what is found does not depend on the file system.
static char **list_folder(const char *folder, int *n)
{
    char **names = NULL;
    DIR *open_folder = opendir(folder);
    *n = 0;
    if (open_folder == NULL) {
        return NULL;
    }
    for (struct dirent *entry = readdir(open_folder); entry != NULL; entry = readdir(open_folder)) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0) {
            continue;
        }
        char **more = realloc(names, (size_t)(*n + 1) * sizeof *names);
        if (more == NULL) {
            break;
        }
        names = more;
        names[*n] = strdup(entry->d_name);
        if (names[*n] == NULL) {
            break;
        }
        (*n)++;
    }
    closedir(open_folder);
    if (*n > 0) {
        qsort(names, (size_t)*n, sizeof *names, by_name);
    }
    return names;
}

// The graph next to the schedule. -1, or the exit status.
static int find_graph(cli_planned *p)
{
    char folder[4096];
    const char *slash = strrchr(p->schedule_name, '/');
    int length = slash != NULL ? (int)(slash - p->schedule_name) + 1 : 0;
    snprintf(folder, sizeof folder, "%.*s", length, p->schedule_name);
    int n;
    char **names = list_folder(length > 0 ? folder : ".", &n);
    for (int i = 0; i < n && p->model.df == NULL; i++) {
        ckm_error ignored = CKM_ERROR_INIT;
        ckm_verdict verdict;
        int used = snprintf(p->graph_name, sizeof p->graph_name, "%s%s", folder, names[i]);
        if (used < 0 || used >= (int)sizeof p->graph_name || !looks_like_graph(p->graph_name) ||
            ckm_dataflow_read(p->graph_name, &p->model.df, &ignored) != CKM_OK) {
            continue;
        }
        if (!fits(p->model.df, p->schedule, &verdict, &ignored)) {
            ckm_dataflow_free(p->model.df);
            p->model.df = NULL;
        }
    }
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    if (p->model.df == NULL) {
        return cli_failf("%s: no graph file in its folder fits this schedule; give the graph, or MODEL, before it",
                         p->schedule_name);
    }
    return -1;
}

static int load_graph(const cli_command *command, const cli_model_settings *settings, const char *name, cli_planned *p)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_verdict verdict = {.cost = -1, .peak_bytes = -1};
    int outcome = cli_model_check(command, name, settings);
    if (outcome >= 0) {
        return outcome;
    }
    snprintf(p->graph_name, sizeof p->graph_name, "%s", name);
    if (cli_model_load(name, settings, 0, &p->model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    if (!fits(p->model.df, p->schedule, &verdict, &err)) {
        return verdict.why[0] != '\0' ? cli_failf("%s: not a schedule of %s: %s", p->schedule_name, name, verdict.why)
                                      : cli_fail(&err);
    }
    return -1;
}

int cli_planned_load(const cli_command *command, const cli_model_settings *settings, char **arguments, int n_arguments,
                     cli_planned *out)
{
    ckm_error err = CKM_ERROR_INIT;
    *out = (cli_planned){.schedule_name = arguments[n_arguments - 1]};
    if (n_arguments == 2 && strcmp(arguments[0], "-") == 0 && strcmp(arguments[1], "-") == 0) {
        return cli_usage_error(command, "only one of the two can be standard input");
    }
    if (ckm_schedule_read(out->schedule_name, &out->schedule, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    char why[300];
    if (!cli_planned_consistent(ckm_schedule_get_info(out->schedule), why, sizeof why)) {
        return cli_failf("%s: contradicts itself: %s", out->schedule_name, why);
    }
    int outcome = n_arguments == 2 ? load_graph(command, settings, arguments[0], out) : find_graph(out);
    if (outcome < 0 && ckm_emit_facts_create(out->model.df, out->schedule, &out->facts, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    }
    if (outcome < 0) {
        out->facts->batch = out->model.batch;
    }
    return outcome;
}

void cli_planned_dispose(cli_planned *planned)
{
    ckm_emit_facts_free(planned->facts);
    ckm_schedule_free(planned->schedule);
    cli_model_dispose(&planned->model);
}
