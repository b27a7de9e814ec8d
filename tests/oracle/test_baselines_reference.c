// SPDX-License-Identifier: Apache-2.0
// Every row of the reference figures for the heuristic strategies: cost and peak given the same checkpoints,
// the checkpoints themselves, and what the strategies make of a budget. docs/BASELINES.md explains the rows
// in which the chosen checkpoints differ.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/solve.h>
#include <checkmate/zoo.h>

#include "solve/checkpoints/checkpoints.h"

#ifndef CKM_SHARED_DATA_DIR
#define CKM_SHARED_DATA_DIR "../shared/data"
#endif

enum { MAX_POINTS = 512, MAX_ROWS = 1024 };

typedef struct row {
    int64_t cost, peak_bytes, activation_bytes;
    char model[32], strategy[32];
    int32_t limit;  // number of the segment limit
    int32_t n, checkpoints[MAX_POINTS];
} row;

static row rows[MAX_ROWS];
static int32_t n_rows;

static void check(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static int compare(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

// model,batch_size,strategy,budget_index,budget,n_checkpoints,cpu,peak_ram,activation_ram,checkpoints
static bool parse_row(char *line, row *out)
{
    char *field[10];
    for (int32_t i = 0; i < 10; i++) {
        field[i] = line;
        line = strchr(line, i < 9 ? ',' : '\n');
        if (line == NULL) {
            return false;
        }
        *line++ = '\0';
    }
    snprintf(out->model, sizeof out->model, "%.31s", field[0]);
    snprintf(out->strategy, sizeof out->strategy, "%.31s", field[2]);
    out->limit = (int32_t)strtol(field[3], NULL, 10);
    out->cost = strtoll(field[6], NULL, 10);
    out->peak_bytes = strtoll(field[7], NULL, 10);
    out->activation_bytes = strtoll(field[8], NULL, 10);
    out->n = 0;
    char *end;
    for (char *at = field[9]; out->n < MAX_POINTS; at = end) {
        int32_t p = (int32_t)strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        out->checkpoints[out->n++] = p;
    }
    qsort(out->checkpoints, (size_t)out->n, sizeof *out->checkpoints, compare);
    return true;
}

static int read_rows(void **state)
{
    (void)state;
    static char line[16384];
    const char *folder = getenv("CKM_SHARED_DATA_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/baselines.csv", folder != NULL ? folder : CKM_SHARED_DATA_DIR);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        print_message("no reference figures at %s\n", path);
        return 0;
    }
    bool good = fgets(line, sizeof line, file) != NULL;  // the heading
    while (good && n_rows < MAX_ROWS && fgets(line, sizeof line, file) != NULL) {
        good = parse_row(line, &rows[n_rows++]);
    }
    fclose(file);
    return good ? 0 : -1;
}

// The layer-level graph of a network at batch 1; NULL when the zoo does not have it.
static ckm_dataflow *open_network(const char *name)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    const ckm_cost_model costs = CKM_COST_MODEL_INIT;
    ckm_status status = ckm_zoo_build(name, 1, NULL, &graph, &err);
    if (status == CKM_ERR_NOT_FOUND) {
        return NULL;
    }
    check(status, &err);
    check(ckm_autodiff_layer_graph(graph, &training, &err), &err);
    check(ckm_cost_apply(training, &costs, &df, &err), &err);
    ckm_training_free(training);
    ckm_graph_free(graph);
    return df;
}

typedef struct network {
    const char *name;
    // Rows whose checkpoints the original chooses in another order than ours: by strategy and limits up to
    // this number (-1: none).
    int32_t sqrt_ap, greedy, greedy_ap;
} network;

static network networks[] = {
    // not const: cmocka's state is void *
    {"linear8", -1, -1, -1},   {"linear31", -1, -1, -1}, {"VGG19", -1, -1, -1},
    {"MobileNet", -1, -1, -1}, {"vgg_unet", 0, -1, -1},  {"InceptionV3", 0, 24, 24},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0], ROWS_PER_NETWORK = 125 };

static ckm_dataflow *open_or_skip(const network *net)
{
    if (n_rows == 0) {
        print_message("SKIPPED: the reference figures are not on this machine\n");
        skip();
    }
    ckm_dataflow *df = open_network(net->name);
    if (df == NULL) {
        print_message("SKIPPED: the zoo has no %s\n", net->name);
        skip();
    }
    return df;
}

static void build_stages(const ckm_dataflow *df, const ckm_i_forward *fw, const row *r, int64_t *cost, int64_t *peak)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *stages = NULL;
    int32_t at[MAX_POINTS];
    memcpy(at, r->checkpoints, sizeof at);
    const ckm_i_positions checkpoints = {.n = r->n, .at = at};
    check(ckm_i_stages_create(df, &stages, &err), &err);
    if (strcmp(r->strategy, "CHECKPOINT_LAST_NODE") == 0) {
        check(ckm_i_checkpoints_last_stages(df, stages, &err), &err);
    } else {
        check(ckm_i_checkpoints_stages(fw, &checkpoints, stages, &err), &err);
    }
    check(ckm_i_stages_peak(stages, peak, &err), &err);
    *cost = ckm_i_stages_cost(stages);
    ckm_i_stages_free(stages);
}

static void figures_given_the_checkpoints(void **state)
{
    const network *net = *state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = open_or_skip(net);
    ckm_i_forward *fw = NULL;
    int32_t seen = 0;
    check(ckm_i_forward_create(df, &fw, &err), &err);
    for (int32_t i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        int64_t cost;
        int64_t peak;
        if (strcmp(r->model, net->name) != 0) {
            continue;
        }
        seen++;
        build_stages(df, fw, r, &cost, &peak);
        if (cost != r->cost || peak != r->peak_bytes || peak - ckm_dataflow_fixed_bytes(df) != r->activation_bytes) {
            fail_msg("%s %s limit %d: cost %lld and peak %lld instead of %lld and %lld", r->model, r->strategy,
                     r->limit, (long long)cost, (long long)peak, (long long)r->cost, (long long)r->peak_bytes);
        }
    }
    assert_int_equal(seen, ROWS_PER_NETWORK);
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

// The choice that the strategy of a row makes. False for checkpoint-last, which makes none.
static bool choose(const ckm_i_forward *fw, const row *r, const ckm_i_positions *all, const ckm_i_positions *points,
                   int64_t base_bytes, ckm_i_positions *out)
{
    if (strcmp(r->strategy, "CHECKPOINT_ALL") == 0 || strcmp(r->strategy, "CHECKPOINT_ALL_AP") == 0) {
        const ckm_i_positions *from = r->strategy[strlen("CHECKPOINT_ALL")] == '\0' ? all : points;
        out->n = from->n;
        memcpy(out->at, from->at, (size_t)from->n * sizeof *from->at);
        return true;
    }
    const ckm_i_positions *from = strstr(r->strategy, "NOAP") != NULL ? all : points;
    if (strncmp(r->strategy, "CHEN_SQRTN", 10) == 0) {
        ckm_i_checkpoints_sqrt(from, out);
        return true;
    }
    if (strncmp(r->strategy, "CHEN_GREEDY", 11) == 0) {
        ckm_i_checkpoints_greedy(fw, from, ckm_i_checkpoints_greedy_limit(base_bytes, r->limit), out);
        return true;
    }
    assert_string_equal(r->strategy, "CHECKPOINT_LAST_NODE");
    return false;
}

static bool may_differ(const network *net, const row *r)
{
    return (strcmp(r->strategy, "CHEN_SQRTN") == 0 && r->limit <= net->sqrt_ap) ||
           (strcmp(r->strategy, "CHEN_GREEDY_NOAP") == 0 && r->limit >= 1 && r->limit <= net->greedy) ||
           (strcmp(r->strategy, "CHEN_GREEDY") == 0 && r->limit >= 1 && r->limit <= net->greedy_ap);
}

static void chosen_checkpoints(void **state)
{
    const network *net = *state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = open_or_skip(net);
    ckm_i_forward *fw = NULL;
    ckm_i_positions all = {0};
    ckm_i_positions points = {0};
    ckm_i_positions chosen = {0};
    int64_t base = -1;
    check(ckm_i_forward_create(df, &fw, &err), &err);
    check(ckm_i_candidates_find(fw, CKM_I_CANDIDATES_ALL, &all, &err), &err);
    check(ckm_i_candidates_find(fw, CKM_I_CANDIDATES_ARTICULATION, &points, &err), &err);
    check(ckm_i_positions_create(fw, &chosen, &err), &err);
    for (int32_t i = 0; i < n_rows; i++) {
        if (strcmp(rows[i].model, net->name) == 0 && strcmp(rows[i].strategy, "CHEN_SQRTN_NOAP") == 0) {
            base = rows[i].activation_bytes;
        }
    }
    for (int32_t i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (strcmp(r->model, net->name) != 0 || !choose(fw, r, &all, &points, base, &chosen)) {
            continue;
        }
        bool same = chosen.n == r->n && memcmp(chosen.at, r->checkpoints, (size_t)r->n * sizeof *r->checkpoints) == 0;
        if (same == may_differ(net, r)) {
            fail_msg("%s %s limit %d: the checkpoints are %s", r->model, r->strategy, r->limit,
                     same ? "the same after all" : "others");
        }
    }
    ckm_i_positions_dispose(&chosen);
    ckm_i_positions_dispose(&points);
    ckm_i_positions_dispose(&all);
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

// Strategy names of the reference file and ours.
static const char *const names[][2] = {
    {"CHECKPOINT_ALL", "checkpoint-all"},
    {"CHECKPOINT_ALL_AP", "checkpoint-all-ap"},
    {"CHECKPOINT_LAST_NODE", "checkpoint-last"},
    {"CHEN_SQRTN_NOAP", "chen-sqrt"},
    {"CHEN_SQRTN", "chen-sqrt-ap"},
    {"CHEN_GREEDY_NOAP", "chen-greedy"},
    {"CHEN_GREEDY", "chen-greedy-ap"},
};

// Cheapest row of a strategy within a budget, -1 for none.
static int64_t cheapest(const char *model, const char *strategy, int64_t budget_bytes)
{
    int64_t cost = -1;
    for (int32_t i = 0; i < n_rows; i++) {
        if (strcmp(rows[i].model, model) == 0 && strcmp(rows[i].strategy, strategy) == 0 &&
            rows[i].peak_bytes <= budget_bytes && (cost < 0 || rows[i].cost < cost)) {
            cost = rows[i].cost;
        }
    }
    return cost;
}

static void strategies_under_budgets(void **state)
{
    const network *net = *state;
    ckm_dataflow *df = open_or_skip(net);
    for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
        for (int32_t i = 0; i < n_rows; i++) {
            const row *r = &rows[i];
            bool ours_differs = (net->sqrt_ap >= 0 && strcmp(r->strategy, "CHEN_SQRTN") == 0) ||
                                (net->greedy >= 0 && strncmp(r->strategy, "CHEN_GREEDY", 11) == 0);
            if (strcmp(r->model, net->name) != 0 || strcmp(r->strategy, names[s][0]) != 0 || r->limit % 3 != 0 ||
                ours_differs) {
                continue;
            }
            for (int64_t budget = r->peak_bytes - 1; budget <= r->peak_bytes; budget++) {
                ckm_error err = CKM_ERROR_INIT;
                ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
                ckm_solve_result result;
                options.strategy = names[s][1];
                options.budget_bytes = budget;
                check(ckm_solve(df, &options, &result, &err), &err);
                assert_int_equal(result.cost, cheapest(net->name, names[s][0], budget));
                ckm_solve_result_dispose(&result);
            }
        }
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    static char titles[3 * N_NETWORKS][64];
    struct CMUnitTest tests[3 * N_NETWORKS];
    static const struct {
        const char *title;
        void (*run)(void **state);
    } kinds[3] = {{"figures given the checkpoints", figures_given_the_checkpoints},
                  {"chosen checkpoints", chosen_checkpoints},
                  {"strategies under budgets", strategies_under_budgets}};
    for (int32_t i = 0; i < 3 * N_NETWORKS; i++) {
        network *net = &networks[i / 3];
        snprintf(titles[i], sizeof titles[i], "%s: %s", net->name, kinds[i % 3].title);
        tests[i] = (struct CMUnitTest){.name = titles[i], .test_func = kinds[i % 3].run, .initial_state = net};
    }
    return cmocka_run_group_tests(tests, read_rows, NULL);
}
