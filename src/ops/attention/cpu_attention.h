// SPDX-License-Identifier: Apache-2.0
// Attention in tiles, internal view: how the work is divided, and one tile of scores.
#ifndef CKM_SRC_OPS_ATTENTION_CPU_ATTENTION_H
#define CKM_SRC_OPS_ATTENTION_CPU_ATTENTION_H

#include "graph/op_attention.h"
#include "run/cpu/cpu_backend.h"
#include "ops/attention/cpu_attention_tile.h"

// Queries and keys of a tile.
enum { CKM_I_ATTENTION_TILE_QUERIES = 64, CKM_I_ATTENTION_TILE_KEYS = 128 };

// Decisions of `prepare`. Everything but `threads` follows from shapes alone.
typedef struct ckm_i_cpu_attention_plan {
    ckm_i_attention_form f;
    ckm_i_cpu_attention_multiply *multiply;
    int64_t tile_queries, tile_keys;   // of the largest tile; keys padded to whole panels
    int64_t score_row;                 // floats from one row of a tile to the next
    int64_t size_room, value_room;     // size and value_size padded to whole panels
    int64_t queries_of_item, chunks;   // forward: an item's queries, and items a head
    int64_t batch_parts, key_parts;    // backward: into how many the batch and the keys are divided
    int64_t bias_partials, bias_slot;  // backward: partial sums of the bias's gradient, and floats of each; 0: none
    int64_t items, threads;            // as many threads as have something to do
    int64_t scratch;                   // floats a thread
    float *parts;                      // of windows: 4 kinds of windows x keys; NULL: no window holds two parts
} ckm_i_cpu_attention_plan;

// Operands of one call.
typedef struct ckm_i_cpu_attention_call {
    const ckm_i_cpu_attention_plan *p;
    const float *q, *k, *v, *bias;
    const uint8_t *mask;
    float *y, *lse;  // forward
    const float *dy, *y_kept, *lse_kept;
    float *dq, *dk, *dv, *dbias;  // backward; NULL: not wanted
    uint64_t stream, threshold;   // of dropout
    float keep;                   // what it multiplies by
    float *partial_dq, *partial_dbias, *scratch;
} ckm_i_cpu_attention_call;

// Scores of `rows` queries and `keys` keys of a head, from query and key `query` and `key` on.
typedef struct ckm_i_cpu_attention_tile {
    const ckm_i_cpu_attention_call *c;
    int64_t batch, head, query, rows, key, keys;
    float *scores;         // in: q k'; out: probabilities times what dropout multiplies by
    float *kept;           // of a row
    float *best, *sum;     // forward, one a row: the largest score so far, the sum of exponentials
    float *y;              // forward: sums so far, rows `value_room` apart
    bool begins;           // forward: there is no sum yet
    float *gradient;       // backward: in: dy v'; out: gradient of q k'
    float *bias_gradient;  // backward: rows of the bias's gradient for this head, or NULL
} ckm_i_cpu_attention_tile;

void ckm_i_cpu_attention_forward_rows(const ckm_i_cpu_attention_tile *t);
void ckm_i_cpu_attention_backward_rows(const ckm_i_cpu_attention_tile *t);

// Keys of [key, key + keys) that some query before `query_end` sees, from the first on: 0 when none.
int64_t ckm_i_cpu_attention_seen(const ckm_i_attention_form *f, int64_t query_end, int64_t key, int64_t keys);

static inline int64_t ckm_i_cpu_attention_at(const ckm_i_attention_strides *s, int64_t batch, int64_t head,
                                             int64_t position)
{
    return batch * s->batch + head * s->head + position * s->position;
}

// Divides the gradient's work: items, threads, scratch. `partial_floats` is what partial sums need in addition.
void ckm_i_cpu_attention_plan_backward(ckm_i_cpu_attention_plan *p, int threads, bool bias, int64_t *partial_floats);
ckm_status ckm_i_cpu_attention_run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel,
                                            const ckm_i_kernel_call *call, ckm_error *err);

// Fills in what forward and backward calls share; `first` is the place of q among the inputs.
ckm_i_cpu_attention_call ckm_i_cpu_attention_open(const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                                                  int32_t first);

#endif
