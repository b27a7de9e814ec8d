// SPDX-License-Identifier: Apache-2.0
// Costs and bytes of a training graph: the step from a training graph to the dataflow graph solvers see.
#ifndef CHECKMATE_COST_H
#define CHECKMATE_COST_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ckm_cost_kind {
    CKM_COST_MODEL_FLOPS,    // multiply-accumulates, counted as the paper does
    CKM_COST_MODEL_PROFILE,  // a checkmate-profile file: measured nanoseconds by operator name
    CKM_COST_MODEL_DEVICE    // nanoseconds that a model of a device predicts
} ckm_cost_kind;

// What the efficiency of a device is stated for. The first three are fractions of a peak rate of arithmetic, the last
// of the peak rate of memory.
typedef enum ckm_device_class {
    CKM_DEVICE_CONV3,    // 3x3 convolutions of stride 1; fast algorithms need less arithmetic than is counted
    CKM_DEVICE_MATRIX,   // all other convolutions, dense layers, matrix products
    CKM_DEVICE_GROUPED,  // depthwise and finely grouped convolutions
    CKM_DEVICE_STREAM,   // reading operands and writing results, of every operator
    CKM_DEVICE_CLASSES
} ckm_device_class;

// A device, as the roofline model (Williams, Waterman, Patterson, CACM 2009) sees it: an operator takes the time of its
// launches, and the longer of what its arithmetic and its traffic to memory take at the rates the device reaches.
typedef struct ckm_device {
    char name[32];
    char what[96];                          // which product, and the arithmetic it does
    char source[192];                       // where the figures come from
    double macs_per_s;                      // peak multiply-accumulates of the ordinary units, in float32
    double matrix_macs_per_s;               // the same of the units that matrix products and convolutions run on
    double bytes_per_s;                     // peak rate of the memory
    double launch_ns;                       // for every kernel
    double efficiency[CKM_DEVICE_CLASSES];  // reached, as a fraction of the peak
} ckm_device;

typedef struct ckm_cost_model {
    size_t size;  // set by CKM_COST_MODEL_INIT
    ckm_cost_kind kind;
    const char *profile_path;  // for CKM_COST_MODEL_PROFILE
    const ckm_device *device;  // for CKM_COST_MODEL_DEVICE
} ckm_cost_model;
#define CKM_COST_MODEL_INIT CKM_SIZED(ckm_cost_model)

// The devices that are built in (docs/DEVICES.md).
CKM_API int32_t ckm_device_count(void);
CKM_API const ckm_device *ckm_device_at(int32_t i);
// The device of that name, ignoring case; NULL when there is none.
CKM_API const ckm_device *ckm_device_find(const char *name);

// The arithmetic of a kernel.
typedef enum ckm_device_precision { CKM_DEVICE_FLOAT32, CKM_DEVICE_FLOAT16, CKM_DEVICE_BFLOAT16 } ckm_device_precision;

// What a built-in device has in addition to the model of its arithmetic in float32.
typedef struct ckm_device_product {
    int64_t memory_bytes;       // memory available to tensors, less than CUDA reports; 0: it has none of its own
    double float16_macs_per_s;  // peak of the units that matrix products and convolutions run on; 0: it has none for it
    double bfloat16_macs_per_s;  // the same
    double half_efficiency;      // reached of both by matrix products and convolutions, as a fraction of the peak
    bool flash_attention;        // whether PyTorch has its flash attention there, which needs compute capability 8.0
    char what[96];               // the product, without the arithmetic
    char source[192];            // where `half_efficiency` comes from
} ckm_device_product;

// Of the built-in device of that name, ignoring case; NULL when there is none.
CKM_API const ckm_device_product *ckm_device_product_find(const char *name);

// A link from a device's memory to a second one.
typedef struct ckm_device_link {
    char name[32];
    char what[96];
    char source[192];  // where the figures come from
    int64_t out_bytes_per_second, in_bytes_per_second, latency_ns;
} ckm_device_link;

// The links that are built in (docs/DEVICES.md); NULL for an unknown number.
CKM_API int32_t ckm_device_link_count(void);
CKM_API const ckm_device_link *ckm_device_link_at(int32_t i);
// The link of that name, or that of the built-in device of that name, ignoring case; NULL when there is none.
CKM_API const ckm_device_link *ckm_device_link_find(const char *name);
// The "link" of a checkmate-device or checkmate-profile file (docs/FORMATS.md). Errors: CKM_ERR_IO, CKM_ERR_FORMAT, CKM_ERR_NOT_FOUND
// where the file has none.
CKM_API ckm_status ckm_device_link_read(const char *path, ckm_device_link *out, ckm_error *err) CKM_NODISCARD;

// What an operator outside a training graph demands of a device, as `ckm_cost_apply` counts it (docs/DEVICES.md).
typedef struct ckm_device_kernels {
    ckm_device_class arithmetic;     // which rate `macs` go by; CKM_DEVICE_STREAM: they do not matter
    ckm_device_precision precision;  // of the arithmetic
    double macs;
    double bytes;     // read and written
    double launches;  // how many kernels it is
} ckm_device_kernels;

// How long that takes, in nanoseconds. In half precision the units that `product` has for it do matrix products and
// convolutions at its efficiency, where it has them; everything else goes by the rates of `device`. `product` may be
// NULL. CKM_ERR_ARGUMENT when the device has a rate or an efficiency that is not positive, or the kernels have a
// negative count or an unknown class.
CKM_API ckm_status ckm_device_time(const ckm_device *device, const ckm_device_product *product,
                                   const ckm_device_kernels *kernels, double *time_ns, ckm_error *err) CKM_NODISCARD;
// A checkmate-device file, version 1 (docs/FORMATS.md). Errors: CKM_ERR_IO, CKM_ERR_FORMAT.
CKM_API ckm_status ckm_device_read(const char *path, ckm_device *out, ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_device_write(const ckm_device *device, const char *path, ckm_error *err) CKM_NODISCARD;
// A device from measured times: measured_ns[i][v] is the time of operator v of steps[i], an op-level training graph.
// The rates that matrix products and traffic to memory reached stand for the peaks; efficiencies are relative to them.
// One pass. CKM_ERR_ARGUMENT when the times determine no rates.
CKM_API ckm_status ckm_device_fit(const ckm_training *const *steps, const int64_t *const *measured_ns, int32_t n,
                                  ckm_device *out, ckm_error *err) CKM_NODISCARD;

// Gives every operator of `training` its cost and every value its bytes. Errors: CKM_ERR_OVERFLOW;
// CKM_ERR_NOT_FOUND when a profile lacks operators (all are named); CKM_ERR_ARGUMENT when a device has a rate or an
// efficiency that is not positive.
CKM_API ckm_status ckm_cost_apply(const ckm_training *training, const ckm_cost_model *model, ckm_dataflow **out,
                                  ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
