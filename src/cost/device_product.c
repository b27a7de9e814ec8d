// SPDX-License-Identifier: Apache-2.0
// What the built-in devices have in addition to the model of their float32 arithmetic: memory, and arithmetic in half precision. Memory
// is what tensors may take: some of what CUDA reports (85 GB of an H100, 15.8 of a T4, 12.0 of a K80) is taken by CUDA's own context.
// Peaks are those of the data sheets. docs/DEVICES.md says how the efficiencies were found.

#include <checkmate/cost.h>

#include "base/text.h"

// Peak rates in the units that data sheets use: 10^12 floating point operations (two a multiply-accumulate), 10^9 bytes.
#define TFLOPS(x) ((x)*1e12 / 2)
#define GB(x) ((int64_t)((x)*1e9))

static const struct {
    const char *name;
    ckm_device_product product;
} products[] = {
    {"V100",
     {GB(16), TFLOPS(125), 0, 0.60, false, "NVIDIA Tesla V100 SXM2 16 GB (Amazon p3.2xlarge)",
      "assumed: the efficiency of float32"}},
    {"K80", {GB(11.2), 0, 0, 0.22, false, "one of the two GPUs of an NVIDIA Tesla K80 (Amazon p2.xlarge)", ""}},
    {"T4",
     {GB(15.0), TFLOPS(65), 0, 0.40, false, "NVIDIA Tesla T4 (Amazon g4dn)", "assumed: the efficiency of float32"}},
    {"A100",
     {GB(80), TFLOPS(312), TFLOPS(312), 0.65, true, "NVIDIA A100 SXM4 80 GB",
      "Llama 3 8B on 64 A100 (the performance page of pytorch/torchtitan)"}},
    {"H100",
     {GB(80), TFLOPS(989.4), TFLOPS(989.4), 0.45, true, "NVIDIA H100 SXM5 80 GB",
      "Llama 3.1 8B on 8 H100 (the performance page of pytorch/torchtitan)"}},
    {"H200", {GB(141), TFLOPS(989.4), TFLOPS(989.4), 0.45, true, "NVIDIA H200 SXM 141 GB", "that of H100"}},
    {"Xeon", {0, 0, 0, 0.55, false, "one Intel Xeon Platinum 8280, 28 cores, AVX-512", ""}},
};

const ckm_device_product *ckm_device_product_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof products / sizeof products[0]; i++) {
        if (ckm_i_text_same(products[i].name, name)) {
            return &products[i].product;
        }
    }
    return NULL;
}
