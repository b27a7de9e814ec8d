// SPDX-License-Identifier: Apache-2.0
// Fuzz target: checkmate-device files. What is accepted can be written and read again, and gives a network costs or an
// error.
#include <stdlib.h>
#include <string.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
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

static const ckm_training *network(void)
{
    static ckm_graph *graph;
    static ckm_training *training;
    if (training == NULL) {
        require(ckm_zoo_build("linear2", 1, NULL, &graph, NULL) == CKM_OK);
        require(ckm_autodiff_op_graph(graph, NULL, &training, NULL) == CKM_OK);
    }
    return training;
}

static void use(const ckm_device *device)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_device again;
    ckm_dataflow *df = NULL;
    ckm_cost_model model = {sizeof model, CKM_COST_MODEL_DEVICE, NULL, device};
    char path[192];
    strcpy(path, scratch_path("again.json"));
    // Figures that JSON has no number for cannot be written.
    if (ckm_device_write(device, path, &err) == CKM_OK && ckm_device_read(path, &again, &err) == CKM_OK) {
        require(strcmp(device->name, again.name) == 0 && strcmp(device->what, again.what) == 0);
    }
    scratch_drop("again.json");
    ckm_status status = ckm_cost_apply(network(), &model, &df, &err);
    require((status == CKM_OK) == (df != NULL) && (status == CKM_OK || err.message[0] != '\0'));
    require(df == NULL || ckm_dataflow_total_cost(df) >= 0);
    ckm_dataflow_free(df);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_device device;
    const char *path = scratch_put("device.json", data, size);
    ckm_status status = ckm_device_read(path, &device, &err);
    require(status == CKM_OK || (err.message[0] != '\0' && err.code == status));
    scratch_drop("device.json");
    if (status == CKM_OK) {
        use(&device);
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const words[] = {"format",
                                        "checkmate-device",
                                        "version",
                                        "name",
                                        "what",
                                        "source",
                                        "macs_per_s",
                                        "bytes_per_s",
                                        "launch_ns",
                                        "efficiency",
                                        "conv3",
                                        "matrix",
                                        "grouped",
                                        "stream",
                                        "matrix_macs_per_s",
                                        "a name of more than thirty-one bytes",
                                        NULL};
    return mutate_json_file(data, size, max_size, words, seed);
}
