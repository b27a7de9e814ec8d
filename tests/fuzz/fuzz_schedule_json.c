// SPDX-License-Identifier: Apache-2.0
// The schedule reader on arbitrary bytes, and simulator against verifier on whatever it accepts, over a few
// small graphs that have everything: several outputs, views, in-place pairs, inputs, workspace, results.
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>
#include <stdlib.h>
#include <string.h>

#include "support/mutate.h"

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

#define HEAD "{\"format\": \"checkmate-graph\", \"version\": 1, "
static const char *const graphs[] = {
    HEAD "\"tensors\": [{\"bytes\": 1}, {\"bytes\": 2}],"
         "\"ops\": [{\"cost\": 1, \"inputs\": [], \"outputs\": [0]},"
         "          {\"cost\": 2, \"inputs\": [0], \"outputs\": [1]}]}",
    HEAD "\"fixed_bytes\": 100, \"tensors\": [{\"bytes\": 10}, {\"bytes\": 8}, {\"bytes\": 8}, {\"bytes\": 4},"
         "{\"bytes\": 2}, {\"bytes\": 9, \"alias_of\": 3}, {\"bytes\": 4}, {\"bytes\": 1, \"alias_of\": 0}],"
         "\"ops\": [{\"cost\": 1, \"inputs\": [0], \"outputs\": [1, 7]},"
         "{\"cost\": 2, \"workspace_bytes\": 16, \"inputs\": [1], \"outputs\": [2], \"inplace\": [[1, 2]]},"
         "{\"cost\": 4, \"recomputable\": false, \"inputs\": [2, 0], \"outputs\": [3, 4],"
         " \"inplace\": [[2, 3], [2, 4], [0, 4]]},"
         "{\"cost\": 8, \"inputs\": [3], \"outputs\": [5]},"
         "{\"cost\": 16, \"inputs\": [5, 4, 7], \"outputs\": [6], \"inplace\": [[5, 6], [4, 6], [7, 6]]}],"
         "\"results\": [6]}",
    HEAD "\"tensors\": [{\"bytes\": 6}, {\"bytes\": 5}, {\"bytes\": 1, \"alias_of\": 1}, {\"bytes\": 0},"
         "{\"bytes\": 3, \"alias_of\": 1}],"
         "\"ops\": [{\"cost\": 4611686018427387904, \"inputs\": [], \"outputs\": [0]},"
         "{\"cost\": 0, \"inputs\": [0], \"outputs\": [1, 2], \"inplace\": [[0, 1], [0, 1]]},"
         "{\"cost\": 1, \"inputs\": [1], \"outputs\": [3, 4], \"inplace\": [[1, 3]]}]}",
};

static void check_on(const char *text, const ckm_schedule *s)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_simulation sim = {.cost = -1};
    ckm_verdict verdict;
    require(ckm_dataflow_parse(text, strlen(text), "built in", &df, &err) == CKM_OK);
    ckm_status simulated = ckm_schedule_simulate(df, s, NULL, &sim, &err);
    require(ckm_schedule_verify(df, s, -1, &verdict, &err) == CKM_OK);
    require((simulated == CKM_OK) == verdict.ok);
    if (verdict.ok) {
        require(sim.cost == verdict.cost && sim.peak_bytes == verdict.peak_bytes);
        require(sim.peak_bytes >= ckm_dataflow_memory_floor(df) && sim.cost >= ckm_dataflow_total_cost(df));
    } else {
        require(verdict.why[0] != '\0' && verdict.cost == -1);
    }
    ckm_dataflow_free(df);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    if (ckm_schedule_parse((const char *)data, size, "fuzz", &s, &err) != CKM_OK) {
        require(s == NULL && err.code != CKM_OK && err.message[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        check_on(graphs[i], s);
    }
    require(ckm_schedule_write(s, "/dev/null", &err) == CKM_OK);
    ckm_schedule_free(s);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const words[] = {
        "format",       "checkmate-schedule", "version", "steps",    "compute",    "free",
        "bound_cost",   "bound_covers",       "status",  "optimal",  "feasible",   "any",
        "order",        "frontier",           "graph",   "strategy", "peak_bytes", "cost",
        "budget_bytes", "baseline_cost",      "seconds", NULL};
    return mutate_json_file(data, size, max_size, words, seed);
}
