// SPDX-License-Identifier: Apache-2.0
// Placing buffers one after the other, and the best placement so far.
#include <string.h>

#include "base/clock.h"
#include "plan/packer.h"

// Bytes of a buffer at a step of its life.
static int64_t bytes_at(const ckm_i_plan_packing *p, const ckm_i_plan_buffer *b, int64_t step)
{
    int64_t bytes = b->bytes;
    for (int32_t k = 0; k < b->n_parts && p->parts[b->part_at + k].from <= step; k++) {
        bytes = p->parts[b->part_at + k].bytes;
    }
    return bytes;
}

// Sizes only shrink, so two buffers are nearest each other at the first step that both live in.
static int64_t top_for(const ckm_i_packer *k, const ckm_i_placed *q, const ckm_i_plan_buffer *b)
{
    const ckm_i_plan_buffer *other = &k->p->buffers[q->buffer];
    if (other->n_parts == 0 || b->first <= q->first) {
        return q->top;
    }
    return q->offset + bytes_at(k->p, other, b->first);
}

static int64_t find_place(const ckm_i_packer *k, const ckm_i_plan_buffer *b, ckm_i_fit how)
{
    int64_t below = 0;      // everything placed so far in the scan ends here or lower
    int64_t tightest = -1;  // size of the best gap
    int64_t offset = 0;
    for (int32_t i = 0; i < k->n_placed; i++) {
        const ckm_i_placed *q = &k->placed[i];
        if (q->last < b->first || q->first > b->last) {
            continue;
        }
        int64_t gap = q->offset - below;
        if (gap >= b->bytes) {
            if (how == CKM_I_FIRST_FIT) {
                return below;
            }
            if (tightest < 0 || gap < tightest) {
                tightest = gap;
                offset = below;
            }
        }
        int64_t top = top_for(k, q, b);
        below = top > below ? top : below;
    }
    return tightest >= 0 ? offset : below;
}

// For a buffer that shrinks: those that come later in its life may reach below its top. Raises the offset until no
// placed buffer is in the way.
static int64_t find_place_shrinking(const ckm_i_packer *k, const ckm_i_plan_buffer *b)
{
    int64_t offset = 0;
    bool raised;
    do {
        raised = false;
        for (int32_t i = 0; i < k->n_placed; i++) {
            const ckm_i_placed *q = &k->placed[i];
            if (q->last < b->first || q->first > b->last) {
                continue;
            }
            int64_t need = bytes_at(k->p, b, q->first > b->first ? q->first : b->first);
            int64_t top = top_for(k, q, b);
            if (offset < top && offset + need > q->offset) {
                offset = top;
                raised = true;
            }
        }
    } while (raised);
    return offset;
}

static void insert(ckm_i_packer *k, int32_t buffer, int64_t offset)
{
    const ckm_i_plan_buffer *b = &k->p->buffers[buffer];
    int32_t low = 0;
    int32_t high = k->n_placed;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (k->placed[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(k->placed + low + 1, k->placed + low, (size_t)(k->n_placed - low) * sizeof *k->placed);
    k->placed[low] = (ckm_i_placed){offset, offset + b->bytes, b->first, b->last, buffer};
    k->n_placed++;
    k->offsets[buffer] = offset;
}

int64_t ckm_i_pack_in_order(ckm_i_packer *k, const int32_t *order, int32_t n, ckm_i_fit how, int64_t limit)
{
    int64_t arena = 0;
    k->n_placed = 0;
    for (int32_t i = 0; i < n; i++) {
        const ckm_i_plan_buffer *b = &k->p->buffers[order[i]];
        int64_t offset = b->n_parts > 0 ? find_place_shrinking(k, b) : find_place(k, b, how);
        int64_t top = offset + b->bytes;
        if (top > limit) {
            return -1;
        }
        arena = top > arena ? top : arena;
        insert(k, order[i], offset);
    }
    return arena;
}

void ckm_i_pack_keep(ckm_i_packer *k, int64_t arena, const char *method)
{
    if (k->p->method == NULL || arena < k->best_arena) {
        k->best_arena = arena;
        memcpy(k->best_offsets, k->offsets, (size_t)k->p->n * sizeof *k->offsets);
        k->p->method = method;
    }
}

bool ckm_i_pack_is_over(const ckm_i_packer *k)
{
    const ckm_plan_options *options = k->options;
    return k->best_arena <= k->goal || (options->stop != NULL && options->stop(options->user)) ||
           (k->deadline > 0.0 && ckm_i_clock_seconds() > k->deadline);
}
