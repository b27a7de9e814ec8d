// SPDX-License-Identifier: Apache-2.0
// Fuzz target: checkmate-profile files, read for their facts and as the costs of two networks, one at the batch of the
// seeds and one at another.
#include <stdlib.h>
#include <string.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/profile.h>
#include <checkmate/zoo.h>

#include "support/mutate.h"
#include "support/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static const ckm_training *network(int which)
{
    static ckm_graph *graphs[2];
    static ckm_training *trainings[2];
    if (trainings[which] == NULL) {
        require(ckm_zoo_build("linear0", which + 1, NULL, &graphs[which], NULL) == CKM_OK);
        require(ckm_autodiff_layer_graph(graphs[which], &trainings[which], NULL) == CKM_OK);
    }
    return trainings[which];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_profile_info info;
    char path[192];
    strcpy(path, scratch_put("profile.json", data, size));
    ckm_status status = ckm_profile_read_info(path, &info, &err);
    require(status == CKM_OK || (err.message[0] != '\0' && err.code == status));
    require(status != CKM_OK || (info.threads >= 0 && info.steps >= 0 && info.step_ns >= 0));
    for (int which = 0; which < 2; which++) {
        ckm_cost_model model = {sizeof model, CKM_COST_MODEL_PROFILE, path, NULL};
        ckm_dataflow *df = NULL;
        status = ckm_cost_apply(network(which), &model, &df, &err);
        require((status == CKM_OK) == (df != NULL) && (status == CKM_OK || err.message[0] != '\0'));
        require(df == NULL || ckm_dataflow_total_cost(df) >= 0);
        ckm_dataflow_free(df);
    }
    scratch_drop("profile.json");
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const words[] = {
        "format", "checkmate-profile", "version",      "platform", "threads",        "backend",  "graph",
        "batch",  "step_ns",           "predicted_ns", "steps",    "steps_left_out", "steady",   "ops",
        "name",   "median_ns",         "p10_ns",       "p90_ns",   "runs",           "fixed_ns", "per_sample_ns",
        NULL};
    return mutate_json_file(data, size, max_size, words, seed);
}
