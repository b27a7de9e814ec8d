// SPDX-License-Identifier: Apache-2.0
// The devices that are built in: one entry each. docs/DEVICES.md says how the efficiencies were found and how far the
// times they give are from published ones.

#include <checkmate/cost.h>

#include "base/text.h"

// Peak rates in the units that data sheets use: 10^12 floating point operations (two a multiply-accumulate), 10^9 bytes.
#define TFLOPS(x) ((x)*1e12 / 2)
#define GB(x) ((x)*1e9)

static const ckm_device devices[] = {
    {
        .name = "V100",
        .what = "NVIDIA Tesla V100 SXM2 16 GB (Amazon p3.2xlarge), float32",
        .source = "NVIDIA data sheet; Jia et al. 2018 (memory); u39kun/deep-learning-benchmark and "
                  "lambdal/deeplearning-benchmark "
                  "(networks)",
        .macs_per_s = TFLOPS(15.7),
        .matrix_macs_per_s = TFLOPS(15.7),
        .bytes_per_s = GB(900),
        .launch_ns = 5000,
        .efficiency = {1.25, 0.60, 0.10, 0.83},
    },
    {
        .name = "K80",
        .what = "one of the two GPUs of an NVIDIA Tesla K80 (Amazon p2.xlarge), float32",
        .source = "NVIDIA data sheet (boost); Jia et al. 2018 (memory); TensorFlow benchmarks 2017 (networks)",
        .macs_per_s = TFLOPS(4.37),
        .matrix_macs_per_s = TFLOPS(4.37),
        .bytes_per_s = GB(240),
        .launch_ns = 10000,
        .efficiency = {0.80, 0.22, 0.10, 0.80},
    },
    {
        .name = "T4",
        .what = "NVIDIA Tesla T4 (Amazon g4dn), float32",
        .source = "NVIDIA data sheet; Jia et al. 2019 (memory); arithmetic assumed, with V100 in mind",
        .macs_per_s = TFLOPS(8.1),
        .matrix_macs_per_s = TFLOPS(8.1),
        .bytes_per_s = GB(320),
        .launch_ns = 5000,
        .efficiency = {0.80, 0.40, 0.10, 0.69},
    },
    {
        .name = "A100",
        .what = "NVIDIA A100 SXM4 80 GB, float32 with TF32 matrix units",
        .source = "NVIDIA data sheet; lambdal/deeplearning-benchmark (ResNet-50)",
        .macs_per_s = TFLOPS(19.5),
        .matrix_macs_per_s = TFLOPS(156),
        .bytes_per_s = GB(2039),
        .launch_ns = 5000,
        .efficiency = {0.32, 0.32, 0.10, 0.75},
    },
    {
        .name = "H100",
        .what = "NVIDIA H100 SXM5 80 GB, float32 with TF32 matrix units",
        .source = "NVIDIA data sheet; lambdal/deeplearning-benchmark (ResNet-50)",
        .macs_per_s = TFLOPS(67),
        .matrix_macs_per_s = TFLOPS(494.7),
        .bytes_per_s = GB(3350),
        .launch_ns = 5000,
        .efficiency = {0.22, 0.22, 0.10, 0.75},
    },
    {
        .name = "H200",
        .what = "NVIDIA H200 SXM 141 GB, float32 with TF32 matrix units",
        .source = "NVIDIA data sheet; efficiencies of H100",
        .macs_per_s = TFLOPS(67),
        .matrix_macs_per_s = TFLOPS(494.7),
        .bytes_per_s = GB(4800),
        .launch_ns = 5000,
        .efficiency = {0.22, 0.22, 0.10, 0.75},
    },
    {
        .name = "Xeon",
        .what = "one Intel Xeon Platinum 8280, 28 cores, AVX-512, float32",
        .source = "Intel ARK (2.7 GHz, two units, six channels DDR4-2933); efficiencies assumed",
        .macs_per_s = TFLOPS(4.84),
        .matrix_macs_per_s = TFLOPS(4.84),
        .bytes_per_s = GB(140.8),
        .launch_ns = 5000,
        .efficiency = {0.70, 0.55, 0.10, 0.75},
    },
};

enum { N_DEVICES = sizeof devices / sizeof devices[0] };

int32_t ckm_device_count(void)
{
    return N_DEVICES;
}

const ckm_device *ckm_device_at(int32_t i)
{
    return i >= 0 && i < N_DEVICES ? &devices[i] : NULL;
}

const ckm_device *ckm_device_find(const char *name)
{
    for (int32_t i = 0; name != NULL && i < N_DEVICES; i++) {
        if (ckm_i_text_same(devices[i].name, name)) {
            return &devices[i];
        }
    }
    return NULL;
}
