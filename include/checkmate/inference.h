// SPDX-License-Identifier: Apache-2.0
// Running a network forward within a memory budget: its predictions for an input.
//
//     ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
//     options.model = "model.onnx";                                   // its weights; `network` was imported from it
//     ckm_inference_open(network, &options, &inference, &err);        // plans, allocates, sets parameters
//     ckm_inference_read_npy(inference, "x", "x.npy", &err);          // or ckm_inference_set, from memory
//     ckm_inference_run(inference, &seconds, &err);
//     ckm_inference_get(inference, 0, y, sizeof y, &err);             // or ckm_inference_write_npy
//     ckm_inference_close(inference);
//
// The forward pass is planned, checked and executed by what trains (checkmate/trainer.h): the same solver finds its schedule, the
// same session runs it, and the budget counts the same bytes. Batch normalization uses the running statistics, dropout does
// nothing, and a softmax at the end is computed; an operator that is in training mode in the file stays in it, or is refused
// where its result would be random.
#ifndef CHECKMATE_INFERENCE_H
#define CHECKMATE_INFERENCE_H

#include <checkmate/base.h>
#include <checkmate/cost.h>
#include <checkmate/data.h>
#include <checkmate/graph.h>
#include <checkmate/import.h>
#include <checkmate/run.h>
#include <checkmate/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_inference ckm_inference;

// The structures of options that it points to are read at the call and need not outlive it; names of files must live as long
// as the inference.
typedef struct ckm_inference_options {
    size_t size;  // set by CKM_INFERENCE_OPTIONS_INIT
    // Memory: one of two, or `activations_fraction`. With none, four fifths of what the system has available.
    int64_t budget_bytes;    // > 0: the budget
    double budget_fraction;  // > 0, where budget_bytes is 0: of what the run takes without rematerialization
    const ckm_program_options *kernels;  // NULL: one thread of the processor
    const ckm_solve_options *solve;      // the search, as in ckm_trainer_options
    const ckm_cost_model *cost_model;    // NULL: multiply-accumulates
    // Parameters, running statistics and constants: the model's file, then `weights`, then ckm_inference_set.
    const char *model;                    // the file that the network was imported from; may be NULL
    const ckm_import_options *importing;  // as it was imported; may be NULL
    const char *weights;                  // a safetensors file, as training exports it; may be NULL
    double activations_fraction;          // as that of ckm_trainer_options
    int64_t reading_bytes;                // that the caller takes for inputs and outputs, to be counted in the budget
    // Operators that the model's file has in training mode (batch normalization by the batch's own statistics, dropout) run as
    // in evaluation, as ckm_inference_export writes them. Otherwise they do what the file says, and dropout is refused.
    bool evaluates;
    ckm_log_fn note;  // messages for the user; may be NULL. Its `user` is that of `solve`
} ckm_inference_options;
#define CKM_INFERENCE_OPTIONS_INIT CKM_SIZED(ckm_inference_options)

// What was planned.
typedef struct ckm_inference_info {
    bool fits;               // there is a schedule
    bool proven;             // where there is none: it is proven that none keeps the order of the network
    int64_t budget_bytes;    // what was asked for
    int64_t used_bytes;      // of it, everything included; -1 before ckm_inference_begin
    int64_t region_bytes;    // parameters, inputs, arena
    int64_t arena_bytes;     // of the region: activations, outputs, workspace
    int64_t outside_bytes;   // outside the region: kernels, threads, tables, one piece of a file
    int64_t baseline_bytes;  // what the run would take without rematerialization
    int64_t floor_bytes;     // proven: no schedule fits less. Set where none fits
    int64_t least_bytes;     // a budget tried that fits; -1: none. Set where none fits
    int64_t cost, baseline_cost;
    const char *strategy;         // that found the schedule
    const char *parameters_from;  // for a person: "12 of 12 tensors from the model's file"
} ckm_inference_info;

// Derives the forward pass of `graph`, prepares its kernels and finds a schedule that fits the budget. That none fits is no
// error: see `fits` of ckm_inference_get_info. `graph` must outlive the inference. Errors: CKM_ERR_UNSUPPORTED names
// operators that no kernel computes and outputs that are constants; CKM_ERR_ARGUMENT for options that cannot be.
CKM_API ckm_status ckm_inference_plan(const ckm_graph *graph, const ckm_inference_options *options, ckm_inference **out,
                                      ckm_error *err) CKM_NODISCARD;
// Allocates everything and reads parameters. Errors: CKM_ERR_ARGUMENT when no schedule fits, saying what would;
// CKM_ERR_MEMORY; those of the files that hold parameters.
CKM_API ckm_status ckm_inference_begin(ckm_inference *inference, ckm_error *err) CKM_NODISCARD;
// ckm_inference_plan, then ckm_inference_begin.
CKM_API ckm_status ckm_inference_open(const ckm_graph *graph, const ckm_inference_options *options, ckm_inference **out,
                                      ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_inference_close(ckm_inference *inference);
CKM_API ckm_inference_info ckm_inference_get_info(const ckm_inference *inference);

// Once it has begun: the network's inputs, in the order of its file, and its outputs, called as the file calls them. Names belong
// to the inference.
CKM_API int32_t ckm_inference_input_count(const ckm_inference *inference);
CKM_API ckm_session_tensor ckm_inference_input(const ckm_inference *inference, int32_t i);
CKM_API int32_t ckm_inference_output_count(const ckm_inference *inference);
CKM_API ckm_session_tensor ckm_inference_output(const ckm_inference *inference, int32_t i);

// Copies the value of an input, or of a parameter, statistic or constant, called `name`; it stays until it is set again. `data`
// holds dense elements of this type and shape. Errors: CKM_ERR_NOT_FOUND names the inputs there are; CKM_ERR_ARGUMENT for
// another type or shape.
CKM_API ckm_status ckm_inference_set(ckm_inference *inference, const char *name, ckm_dtype dtype,
                                     const ckm_shape *shape, const void *data, ckm_error *err) CKM_NODISCARD;
// The same from a .npy file, read in pieces.
CKM_API ckm_status ckm_inference_read_npy(ckm_inference *inference, const char *name, const char *path,
                                          ckm_error *err) CKM_NODISCARD;

// Reads a PNG or JPEG file into place `sample` of the batch of an input of height, width and channels: resized to it, and its pixels
// scaled, as training does (checkmate/data.h). Places that are not read keep what they had. Takes as much memory as
// ckm_picture_bytes says, and twice that of one sample. Errors: CKM_ERR_NOT_FOUND, CKM_ERR_ARGUMENT; CKM_ERR_IO, CKM_ERR_FORMAT.
CKM_API ckm_status ckm_inference_read_picture(ckm_inference *inference, const char *name, int64_t sample,
                                              const char *path, ckm_data_scaling scaling, ckm_error *err) CKM_NODISCARD;
// Whether a file of that name is read as a picture.
CKM_API bool ckm_picture_is_read(const char *name);
// Bytes that decoding takes in addition to the result: from the file's header, which must be valid.
CKM_API ckm_status ckm_picture_bytes(const char *path, int64_t *bytes, ckm_error *err) CKM_NODISCARD;

// Computes the outputs. *seconds (may be NULL): wall time. Errors: CKM_ERR_ARGUMENT names an input that has not been set, or a
// parameter whose value no file had; the back end's.
CKM_API ckm_status ckm_inference_run(ckm_inference *inference, double *seconds, ckm_error *err) CKM_NODISCARD;

// Copies output i to `out`, which has room for `bytes`: exactly as many as the output has. After ckm_inference_run.
CKM_API ckm_status ckm_inference_get(const ckm_inference *inference, int32_t i, void *out, int64_t bytes,
                                     ckm_error *err) CKM_NODISCARD;
// An output and the file it goes to. Frozen.
typedef struct ckm_inference_file {
    int32_t output;
    const char *path;
} ckm_inference_file;
// Writes outputs as .npy files. Old files are replaced when all of the new ones are complete; on failure all stay.
CKM_API ckm_status ckm_inference_write_npy(const ckm_inference *inference, const ckm_inference_file *files, int32_t n,
                                           ckm_error *err) CKM_NODISCARD;

// Writes the network with its parameters and running statistics to `path`, a name that ends in ".onnx", or else as safetensors, as
// ckm_trainer_export does: in evaluation mode, and operators that the model's file has in training mode are noted. What the file of
// weights says about input and classes is copied. After ckm_inference_begin. Errors: those of ckm_trainer_export;
// CKM_ERR_ARGUMENT where a parameter has no value.
CKM_API ckm_status ckm_inference_export(const ckm_inference *inference, const char *path, ckm_error *err) CKM_NODISCARD;

// ckm_train_read_note and ckm_train_read_class_names (checkmate/train.h), also of an ONNX file, by its name, that was written with
// ckm_inference_export or ckm_trainer_export.
CKM_API ckm_status ckm_inference_read_note(const char *path, const char *key, char *out, size_t size, bool *found,
                                           ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_inference_read_class_names(const char *path, char ***out, int64_t *n,
                                                  ckm_error *err) CKM_NODISCARD;

// Type and shape of the array in a .npy file. Errors: CKM_ERR_IO, CKM_ERR_FORMAT; CKM_ERR_UNSUPPORTED for types that tensors
// do not have and for arrays stored column by column.
CKM_API ckm_status ckm_npy_describe(const char *path, ckm_dtype *dtype, ckm_shape *shape, ckm_error *err) CKM_NODISCARD;

// The program that runs. It is the inference's.
CKM_API const ckm_program *ckm_inference_program(const ckm_inference *inference);

#ifdef __cplusplus
}
#endif
#endif
