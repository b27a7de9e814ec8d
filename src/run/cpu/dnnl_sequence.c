// SPDX-License-Identifier: Apache-2.0
// Programs: primitives run one after the other on the operator's tensors and on pieces of the workspace. Primitives
// that are the same for several operators are made once: oneDNN keeps a cache of them, keyed by descriptor and
// thread count, and a sequence holds references into it.
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
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

typedef struct sequence_item {
    dnnl_primitive_t primitive;
    int n_args;
    bound_arg args[MAX_ARGS];
} sequence_item;

struct ckm_i_dnnl_sequence {
    const ckm_i_cpu *cpu;
    int32_t n_items, cap_items;
    sequence_item *items;
    int64_t room;        // bytes of the workspace that items share
    int64_t scratchpad;  // bytes behind it for one item at a time
};

ckm_status ckm_i_dnnl_sequence_create(const ckm_i_cpu *cpu, ckm_i_dnnl_sequence **out, ckm_error *err)
{
    ckm_i_dnnl_sequence *sequence = ckm_i_calloc(1, sizeof *sequence);
    if (sequence == NULL) {
        return ckm_i_error_memory(err);
    }
    sequence->cpu = cpu;
    *out = sequence;
    return CKM_OK;
}

static void free_item(sequence_item *item)
{
    for (int i = 0; i < item->n_args; i++) {
        dnnl_memory_destroy(item->args[i].memory);
    }
    if (item->primitive != NULL) {
        dnnl_primitive_destroy(item->primitive);
    }
}

void ckm_i_dnnl_sequence_free(ckm_i_dnnl_sequence *sequence)
{
    if (sequence != NULL) {
        for (int32_t i = 0; i < sequence->n_items; i++) {
            free_item(&sequence->items[i]);
        }
        free(sequence->items);
        free(sequence);
    }
}

static ckm_status round_up(int64_t bytes, int64_t *out, ckm_error *err)
{
    return ckm_i_round_up(bytes, CKM_I_ALIGNMENT, out)
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_OVERFLOW, "a kernel's workspace does not fit 63 bits");
}

ckm_status ckm_i_dnnl_sequence_room(ckm_i_dnnl_sequence *sequence, int64_t bytes, ckm_i_dnnl_place *place,
                                    ckm_error *err)
{
    int64_t rounded;
    int64_t room;
    CKM_I_CHECK(round_up(bytes, &rounded, err));
    if (!ckm_i_add(sequence->room, rounded, &room)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a kernel's workspace does not fit 63 bits");
    }
    *place = (ckm_i_dnnl_place){CKM_I_DNNL_WORKSPACE, sequence->room};
    sequence->room = room;
    return CKM_OK;
}

static ckm_status bind(ckm_i_dnnl_sequence *sequence, sequence_item *item, int arg, ckm_i_dnnl_place place,
                       const ckm_i_dnnl_block *block, ckm_error *err)
{
    bound_arg *bound = &item->args[item->n_args];
    dnnl_status_t result = ckm_i_guard_memory_create(&bound->memory, sequence->cpu->engine, block);
    if (result != dnnl_success) {
        return ckm_i_dnnl_error(err, result, "memory object");
    }
    bound->arg = arg;
    bound->place = place;
    item->n_args++;
    return CKM_OK;
}

// What an item works on, and where.
typedef struct placed_block {
    int arg;
    ckm_i_dnnl_place place;
    ckm_i_dnnl_block block;
} placed_block;

// Appends one primitive whose arguments have the formats it wants. The scratchpad of every item is the same piece of
// the workspace; place -1 stands for it until the sequence runs and its begin is known.
static ckm_status append(ckm_i_dnnl_sequence *sequence, const_dnnl_primitive_desc_t pd, const placed_block *blocks,
                         int n_blocks, ckm_error *err)
{
    ckm_status status = CKM_OK;
    sequence_item item = {0};
    if (ckm_i_dnnl_allocates(pd)) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "oneDNN: this implementation allocates memory itself");
    }
    if (n_blocks >= MAX_ARGS || !CKM_I_GROW(sequence->items, sequence->n_items, sequence->cap_items)) {
        return ckm_i_error_memory(err);
    }
    CKM_I_DNNL_TRY(ckm_i_guard_primitive_create(&item.primitive, pd), "primitive");
    for (int i = 0; i < n_blocks; i++) {
        CKM_I_TRY(bind(sequence, &item, blocks[i].arg, blocks[i].place, &blocks[i].block, err));
    }
    ckm_i_dnnl_block scratchpad = {.wanted = ckm_i_guard_format(pd, dnnl_query_scratchpad_md)};
    int64_t bytes = scratchpad.wanted != NULL ? (int64_t)ckm_i_guard_format_bytes(scratchpad.wanted) : 0;
    if (bytes > 0) {
        ckm_i_dnnl_place place = {CKM_I_DNNL_WORKSPACE, -1};
        CKM_I_TRY(bind(sequence, &item, DNNL_ARG_SCRATCHPAD, place, &scratchpad, err));
        CKM_I_TRY(round_up(bytes, &bytes, err));
        sequence->scratchpad = bytes > sequence->scratchpad ? bytes : sequence->scratchpad;
    }
    sequence->items[sequence->n_items++] = item;
    return CKM_OK;

cleanup:
    free_item(&item);
    return status;
}

ckm_status ckm_i_dnnl_sequence_reorder(ckm_i_dnnl_sequence *sequence, ckm_i_dnnl_block from,
                                       ckm_i_dnnl_place from_place, ckm_i_dnnl_block to, ckm_i_dnnl_place to_place,
                                       ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t pd = NULL;
    CKM_I_DNNL_TRY(ckm_i_guard_reorder(&pd, sequence->cpu->engine, &from, &to), "reorder");
    const placed_block blocks[] = {{DNNL_ARG_FROM, from_place, from}, {DNNL_ARG_TO, to_place, to}};
    CKM_I_TRY(append(sequence, pd, blocks, 2, err));

cleanup:
    ckm_i_dnnl_description_free(pd);
    return status;
}

static ckm_status needs_reorder(const ckm_i_dnnl_arg *arg, bool *needed, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool same = true;
    if (arg->wanted != NULL && arg->plain != NULL) {
        CKM_I_DNNL_TRY(ckm_i_guard_format_is(arg->wanted, arg->plain, &same), "memory descriptor");
    }
    *needed = !same;

cleanup:
    return status;
}

ckm_status ckm_i_dnnl_sequence_add(ckm_i_dnnl_sequence *sequence, const_dnnl_primitive_desc_t pd,
                                   const ckm_i_dnnl_arg *args, int n_args, ckm_error *err)
{
    placed_block bound[MAX_ARGS] = {{0}};
    bool reordered[MAX_ARGS] = {false};
    if (n_args >= MAX_ARGS) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "a primitive with too many arguments");
    }
    for (int i = 0; i < n_args; i++) {
        ckm_i_dnnl_block plain = {.plain = args[i].plain};
        bound[i] = (placed_block){args[i].arg, args[i].place, {.wanted = args[i].wanted, .plain = args[i].plain}};
        CKM_I_CHECK(needs_reorder(&args[i], &reordered[i], err));
        if (!reordered[i]) {
            continue;
        }
        int64_t bytes = (int64_t)ckm_i_guard_format_bytes(args[i].wanted);
        CKM_I_CHECK(ckm_i_dnnl_sequence_room(sequence, bytes, &bound[i].place, err));
        if (args[i].place.where != CKM_I_DNNL_OUTPUT) {
            CKM_I_CHECK(
                ckm_i_dnnl_sequence_reorder(sequence, plain, args[i].place, bound[i].block, bound[i].place, err));
        }
    }
    CKM_I_CHECK(append(sequence, pd, bound, n_args, err));
    for (int i = 0; i < n_args; i++) {
        if (reordered[i] && args[i].place.where == CKM_I_DNNL_OUTPUT) {
            ckm_i_dnnl_block plain = {.plain = args[i].plain};
            CKM_I_CHECK(
                ckm_i_dnnl_sequence_reorder(sequence, bound[i].block, bound[i].place, plain, args[i].place, err));
        }
    }
    return CKM_OK;
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

static void *address(const ckm_i_dnnl_sequence *sequence, ckm_i_dnnl_place place, const ckm_i_kernel_call *call)
{
    switch (place.where) {
    case CKM_I_DNNL_INPUT:
        return without_const(call->inputs[place.index]);
    case CKM_I_DNNL_OUTPUT:
        return call->outputs[place.index];
    case CKM_I_DNNL_WORKSPACE:
        break;
    }
    return (unsigned char *)call->workspace + (place.index < 0 ? sequence->room : place.index);
}

static ckm_status run_sequence(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_i_dnnl_sequence *sequence = kernel->data;
    for (int32_t s = 0; s < sequence->n_items; s++) {
        const sequence_item *item = &sequence->items[s];
        dnnl_exec_arg_t args[MAX_ARGS];
        for (int i = 0; i < item->n_args; i++) {
            const bound_arg *bound = &item->args[i];
            CKM_I_DNNL_TRY(dnnl_memory_set_data_handle(bound->memory, address(sequence, bound->place, call)), "memory");
            args[i] = (dnnl_exec_arg_t){.arg = bound->arg, .memory = bound->memory};
        }
        CKM_I_DNNL_TRY(ckm_i_guard_execute(item->primitive, cpu->stream, item->n_args, args), "execution");
    }
    CKM_I_DNNL_TRY(dnnl_stream_wait(cpu->stream), "execution");

cleanup:
    return status;
}

static void dispose_sequence(void *data)
{
    ckm_i_dnnl_sequence_free(data);
}

void ckm_i_dnnl_sequence_finish(ckm_i_dnnl_sequence *sequence, ckm_i_kernel *kernel)
{
    kernel->run = run_sequence;
    kernel->data = sequence;
    kernel->dispose = dispose_sequence;
    kernel->workspace_bytes = sequence->room + sequence->scratchpad;
}
