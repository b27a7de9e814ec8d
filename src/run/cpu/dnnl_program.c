// SPDX-License-Identifier: Apache-2.0
// Programs: primitives run one after the other on the operator's tensors and on pieces of the workspace. Primitives
// that are the same for several operators are made once: oneDNN keeps a cache of them, keyed by descriptor and
// thread count, and a program holds references into it.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "run/cpu/dnnl_support.h"

enum { MAX_ARGS = 8 };

typedef struct bound_arg {
    ckm_i_dnnl_place place;
    int arg;
    dnnl_memory_t memory;
} bound_arg;

typedef struct program_step {
    dnnl_primitive_t primitive;
    int n_args;
    bound_arg args[MAX_ARGS];
} program_step;

struct ckm_i_dnnl_program {
    const ckm_i_cpu *cpu;
    int32_t n_steps, cap_steps;
    program_step *steps;
    int64_t room;        // bytes of the workspace that steps share
    int64_t scratchpad;  // bytes behind it for one step at a time
};

ckm_status ckm_i_dnnl_program_create(const ckm_i_cpu *cpu, ckm_i_dnnl_program **out, ckm_error *err)
{
    ckm_i_dnnl_program *program = ckm_i_calloc(1, sizeof *program);
    if (program == NULL) {
        return ckm_i_error_memory(err);
    }
    program->cpu = cpu;
    *out = program;
    return CKM_OK;
}

static void free_step(program_step *step)
{
    for (int i = 0; i < step->n_args; i++) {
        dnnl_memory_destroy(step->args[i].memory);
    }
    if (step->primitive != NULL) {
        dnnl_primitive_destroy(step->primitive);
    }
}

void ckm_i_dnnl_program_free(ckm_i_dnnl_program *program)
{
    if (program != NULL) {
        for (int32_t i = 0; i < program->n_steps; i++) {
            free_step(&program->steps[i]);
        }
        free(program->steps);
        free(program);
    }
}

static ckm_status round_up(int64_t bytes, int64_t *out, ckm_error *err)
{
    int64_t padded;
    if (!ckm_i_add(bytes, 63, &padded)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a kernel's workspace does not fit 63 bits");
    }
    *out = padded / 64 * 64;
    return CKM_OK;
}

ckm_status ckm_i_dnnl_program_room(ckm_i_dnnl_program *program, int64_t bytes, ckm_i_dnnl_place *place, ckm_error *err)
{
    int64_t rounded;
    int64_t room;
    ckm_status status = round_up(bytes, &rounded, err);
    if (status != CKM_OK) {
        return status;
    }
    if (!ckm_i_add(program->room, rounded, &room)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a kernel's workspace does not fit 63 bits");
    }
    *place = (ckm_i_dnnl_place){CKM_I_DNNL_WORKSPACE, program->room};
    program->room = room;
    return CKM_OK;
}

static ckm_status bind(ckm_i_dnnl_program *program, program_step *step, int arg, ckm_i_dnnl_place place,
                       const dnnl_memory_desc_t *desc, ckm_error *err)
{
    bound_arg *bound = &step->args[step->n_args];
    dnnl_status_t result = ckm_i_guard_memory_create(&bound->memory, desc, program->cpu->engine);
    if (result != dnnl_success) {
        return ckm_i_dnnl_error(err, result, "memory object");
    }
    bound->arg = arg;
    bound->place = place;
    step->n_args++;
    return CKM_OK;
}

// Appends one primitive whose arguments have the formats it wants. The scratchpad of every step is the same piece of
// the workspace; place -1 stands for it until the program runs and its begin is known.
static ckm_status append(ckm_i_dnnl_program *program, const_dnnl_primitive_desc_t pd, const ckm_i_dnnl_arg *args,
                         int n_args, ckm_error *err)
{
    ckm_status status = CKM_OK;
    program_step step = {0};
    if (ckm_i_dnnl_allocates(pd)) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "oneDNN: this implementation allocates memory itself");
    }
    if (n_args >= MAX_ARGS || !CKM_I_GROW(program->steps, program->n_steps, program->cap_steps)) {
        return ckm_i_error_memory(err);
    }
    CKM_I_DNNL_TRY(ckm_i_guard_primitive_create(&step.primitive, pd), "primitive");
    for (int i = 0; i < n_args; i++) {
        const dnnl_memory_desc_t *desc = args[i].wanted != NULL ? args[i].wanted : args[i].plain;
        CKM_I_TRY(bind(program, &step, args[i].arg, args[i].place, desc, err));
    }
    const dnnl_memory_desc_t *scratchpad = ckm_i_dnnl_wanted(pd, dnnl_query_scratchpad_md);
    int64_t bytes = scratchpad != NULL ? (int64_t)dnnl_memory_desc_get_size(scratchpad) : 0;
    if (bytes > 0) {
        ckm_i_dnnl_place place = {CKM_I_DNNL_WORKSPACE, -1};
        CKM_I_TRY(bind(program, &step, DNNL_ARG_SCRATCHPAD, place, scratchpad, err));
        CKM_I_TRY(round_up(bytes, &bytes, err));
        program->scratchpad = bytes > program->scratchpad ? bytes : program->scratchpad;
    }
    program->steps[program->n_steps++] = step;
    return CKM_OK;

cleanup:
    free_step(&step);
    return status;
}

ckm_status ckm_i_dnnl_program_reorder(ckm_i_dnnl_program *program, const dnnl_memory_desc_t *from,
                                      ckm_i_dnnl_place from_place, const dnnl_memory_desc_t *to,
                                      ckm_i_dnnl_place to_place, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t engine = program->cpu->engine;
    CKM_I_TRY(ckm_i_dnnl_attributes(&attributes, err));
    CKM_I_DNNL_TRY(ckm_i_guard_reorder_desc_create(&pd, from, to, engine, attributes), "reorder");
    ckm_i_dnnl_arg args[] = {{.arg = DNNL_ARG_FROM, .place = from_place, .plain = from},
                             {.arg = DNNL_ARG_TO, .place = to_place, .plain = to}};
    CKM_I_TRY(append(program, pd, args, 2, err));

cleanup:
    ckm_i_dnnl_description_free(pd);
    if (attributes != NULL) {
        dnnl_primitive_attr_destroy(attributes);
    }
    return status;
}

static bool needs_reorder(const ckm_i_dnnl_arg *arg)
{
    return arg->wanted != NULL && arg->plain != NULL && !dnnl_memory_desc_equal(arg->wanted, arg->plain);
}

ckm_status ckm_i_dnnl_program_add(ckm_i_dnnl_program *program, const_dnnl_primitive_desc_t pd,
                                  const ckm_i_dnnl_arg *args, int n_args, ckm_error *err)
{
    ckm_i_dnnl_arg bound[MAX_ARGS] = {{0}};
    if (n_args >= MAX_ARGS) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "a primitive with too many arguments");
    }
    for (int i = 0; i < n_args; i++) {
        bound[i] = args[i];
        if (!needs_reorder(&args[i])) {
            continue;
        }
        int64_t bytes = (int64_t)dnnl_memory_desc_get_size(args[i].wanted);
        ckm_status status = ckm_i_dnnl_program_room(program, bytes, &bound[i].place, err);
        if (status == CKM_OK && args[i].place.where != CKM_I_DNNL_OUTPUT) {
            status = ckm_i_dnnl_program_reorder(program, args[i].plain, args[i].place, args[i].wanted, bound[i].place,
                                                err);
        }
        if (status != CKM_OK) {
            return status;
        }
    }
    ckm_status status = append(program, pd, bound, n_args, err);
    for (int i = 0; i < n_args && status == CKM_OK; i++) {
        if (needs_reorder(&args[i]) && args[i].place.where == CKM_I_DNNL_OUTPUT) {
            status = ckm_i_dnnl_program_reorder(program, args[i].wanted, bound[i].place, args[i].plain, args[i].place,
                                                err);
        }
    }
    return status;
}

// oneDNN takes pointers it only reads as it takes those it writes.
static void *without_const(const void *pointer)
{
    union {
        const void *given;
        void *taken;
    } both = {.given = pointer};
    return both.taken;
}

static void *address(const ckm_i_dnnl_program *program, ckm_i_dnnl_place place, const ckm_i_kernel_call *call)
{
    switch (place.where) {
    case CKM_I_DNNL_INPUT:
        return without_const(call->inputs[place.index]);
    case CKM_I_DNNL_OUTPUT:
        return call->outputs[place.index];
    case CKM_I_DNNL_WORKSPACE:
        break;
    }
    return (unsigned char *)call->workspace + (place.index < 0 ? program->room : place.index);
}

static ckm_status run_program(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_i_dnnl_program *program = kernel->data;
    for (int32_t s = 0; s < program->n_steps; s++) {
        const program_step *step = &program->steps[s];
        dnnl_exec_arg_t args[MAX_ARGS];
        for (int i = 0; i < step->n_args; i++) {
            const bound_arg *bound = &step->args[i];
            CKM_I_DNNL_TRY(dnnl_memory_set_data_handle(bound->memory, address(program, bound->place, call)), "memory");
            args[i] = (dnnl_exec_arg_t){.arg = bound->arg, .memory = bound->memory};
        }
        CKM_I_DNNL_TRY(ckm_i_guard_execute(step->primitive, cpu->stream, step->n_args, args), "execution");
    }
    CKM_I_DNNL_TRY(dnnl_stream_wait(cpu->stream), "execution");

cleanup:
    return status;
}

static void dispose_program(void *data)
{
    ckm_i_dnnl_program_free(data);
}

void ckm_i_dnnl_program_finish(ckm_i_dnnl_program *program, ckm_i_kernel *kernel)
{
    kernel->run = run_program;
    kernel->data = program;
    kernel->dispose = dispose_program;
    kernel->workspace_bytes = program->room + program->scratchpad;
}
