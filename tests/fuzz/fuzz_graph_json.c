// SPDX-License-Identifier: Apache-2.0
// The graph reader on arbitrary bytes. What it accepts must hold together: its baseline schedule is legal by
// simulator and verifier alike, needs at least the memory floor, and the graph can be written.
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>
#include <stdlib.h>

#include "support/mutate.h"

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    if (ckm_dataflow_parse((const char *)data, size, "fuzz", &df, &err) != CKM_OK) {
        require(df == NULL && err.code != CKM_OK && err.message[0] != '\0');
        return 0;
    }
    ckm_schedule *s = NULL;
    ckm_simulation sim;
    ckm_verdict verdict;
    require(ckm_schedule_baseline(df, &s, &err) == CKM_OK);
    require(ckm_schedule_simulate(df, s, NULL, &sim, &err) == CKM_OK);
    require(ckm_schedule_verify(df, s, sim.peak_bytes, &verdict, &err) == CKM_OK);
    require(verdict.ok && verdict.cost == sim.cost && verdict.peak_bytes == sim.peak_bytes);
    require(sim.cost == ckm_dataflow_total_cost(df));
    require(sim.peak_bytes >= ckm_dataflow_memory_floor(df));
    require(ckm_dataflow_write(df, "/dev/null", &err) == CKM_OK);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const words[] = {"format",
                                        "checkmate-graph",
                                        "version",
                                        "name",
                                        "cost_unit",
                                        "fixed_bytes",
                                        "tensors",
                                        "bytes",
                                        "alias_of",
                                        "ops",
                                        "kind",
                                        "cost",
                                        "workspace_bytes",
                                        "recomputable",
                                        "inputs",
                                        "outputs",
                                        "inplace",
                                        "results",
                                        "flops",
                                        "ns",
                                        "us",
                                        "forward",
                                        "loss",
                                        "backward",
                                        "update",
                                        NULL};
    return mutate_json_file(data, size, max_size, words, seed);
}
