// SPDX-License-Identifier: Apache-2.0
// What kernels on oneDNN share: a sequence, which is a short list of primitives with their arguments, and tensors as oneDNN
// sees them. Memory formats are settled when a sequence is built; everything it needs besides the
// operator's tensors (scratchpads, tensors reordered into the format a primitive prefers) lies in the workspace.
#ifndef CKM_SRC_RUN_CPU_DNNL_SUPPORT_H
#define CKM_SRC_RUN_CPU_DNNL_SUPPORT_H

#include "run/cpu/dnnl_guard.h"

#include "run/cpu/cpu_backend.h"

ckm_status ckm_i_dnnl_open(ckm_i_cpu *cpu, ckm_error *err) CKM_NODISCARD;
void ckm_i_dnnl_close(ckm_i_cpu *cpu);

// A oneDNN status as ours, with "oneDNN: <what>: <its status>".
ckm_status ckm_i_dnnl_error(ckm_error *err, dnnl_status_t status, const char *what);
#define ckm_i_dnnl_error(err, status, what) \
    ckm_i_error_known(ckm_i_dnnl_error(err, status, what), ckm_i_dnnl_code(status))
ckm_status ckm_i_dnnl_code(dnnl_status_t status);

// CKM_I_TRY for oneDNN's own functions.
#define CKM_I_DNNL_TRY(expression, what)                      \
    do {                                                      \
        dnnl_status_t dnnl_try = (expression);                \
        if (dnnl_try != dnnl_success) {                       \
            status = ckm_i_dnnl_error(err, dnnl_try, (what)); \
            goto cleanup;                                     \
        }                                                     \
    } while (0)

// Where an argument lies: input or output `index` of the operator, or the workspace at byte `index`.
typedef enum ckm_i_dnnl_where { CKM_I_DNNL_INPUT, CKM_I_DNNL_OUTPUT, CKM_I_DNNL_WORKSPACE } ckm_i_dnnl_where;
typedef struct ckm_i_dnnl_place {
    ckm_i_dnnl_where where;
    int64_t index;
} ckm_i_dnnl_place;

#define CKM_I_DNNL_IN(i) ((ckm_i_dnnl_place){CKM_I_DNNL_INPUT, (i)})
#define CKM_I_DNNL_OUT(i) ((ckm_i_dnnl_place){CKM_I_DNNL_OUTPUT, (i)})

// One argument of a primitive: what the operator has (`plain`) and where. The primitive may want another format;
// then a reorder before (inputs) or after (outputs) it is added.
// Without `plain` it is already as the primitive wants it.
typedef struct ckm_i_dnnl_arg {
    int arg;  // DNNL_ARG_...
    ckm_i_dnnl_place place;
    const ckm_i_dnnl_tensor *plain;
    const ckm_i_dnnl_format *wanted;  // NULL: as plain
} ckm_i_dnnl_arg;

typedef struct ckm_i_dnnl_sequence ckm_i_dnnl_sequence;

ckm_status ckm_i_dnnl_sequence_create(const ckm_i_cpu *cpu, ckm_i_dnnl_sequence **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_dnnl_sequence_free(ckm_i_dnnl_sequence *sequence);
// Room of `bytes` in the workspace, for as long as the sequence runs.
ckm_status ckm_i_dnnl_sequence_room(ckm_i_dnnl_sequence *sequence, int64_t bytes, ckm_i_dnnl_place *place,
                                    ckm_error *err) CKM_NODISCARD;
// Appends the primitive of `pd`, with the reorders its arguments need.
ckm_status ckm_i_dnnl_sequence_add(ckm_i_dnnl_sequence *sequence, const_dnnl_primitive_desc_t pd,
                                   const ckm_i_dnnl_arg *args, int n_args, ckm_error *err) CKM_NODISCARD;
// Appends a copy from one format to another.
ckm_status ckm_i_dnnl_sequence_reorder(ckm_i_dnnl_sequence *sequence, ckm_i_dnnl_block from,
                                       ckm_i_dnnl_place from_place, ckm_i_dnnl_block to, ckm_i_dnnl_place to_place,
                                       ckm_error *err) CKM_NODISCARD;
// Makes the finished sequence the kernel's; the kernel frees it.
void ckm_i_dnnl_sequence_finish(ckm_i_dnnl_sequence *sequence, ckm_i_kernel *kernel);

// What comes of asking for a primitive descriptor. None, and this is no failure, when oneDNN has no implementation: the
// descriptor is NULL then.
ckm_status ckm_i_dnnl_asked(dnnl_status_t result, ckm_error *err) CKM_NODISCARD;
void ckm_i_dnnl_description_free(dnnl_primitive_desc_t pd);  // NULL is fine
// Whether the chosen implementation allocates each time it runs, even with a scratchpad of the caller's: oneDNN's matrix product
// and all that is built on it allocate buffers as large as processor and threads make them. Such primitives are not used.
bool ckm_i_dnnl_allocates(const_dnnl_primitive_desc_t pd);
// Whether the implementation's name contains this.
bool ckm_i_dnnl_is(const_dnnl_primitive_desc_t pd, const char *name);

// A tensor with these dimensions and strides; dense row-major when strides is NULL.
ckm_i_dnnl_tensor ckm_i_dnnl_plain(int32_t rank, const int64_t *dims, const int64_t *strides);
// The same tensor in a format of the primitive's choice.
ckm_i_dnnl_tensor ckm_i_dnnl_any(const ckm_i_dnnl_tensor *plain);
// A batch of images in oneDNN's order of axes, N, C, spatial..., for any layout.
ckm_i_dnnl_tensor ckm_i_dnnl_image(const ckm_graph *graph, const ckm_shape *shape);

// Every present input and output is single precision and has elements.
bool ckm_i_dnnl_floats(const ckm_i_op_view *v);
const ckm_i_graph_tensor *ckm_i_dnnl_output(const ckm_i_op_view *v, int32_t i);
bool ckm_i_dnnl_has_input(const ckm_i_op_view *v, int32_t i);

#endif
