// SPDX-License-Identifier: Apache-2.0
// Peaks in blocks.
#include "solve/search/search_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { block_stages = 32 };

ckm_status ckm_i_profile_create(int32_t n_stages, int64_t budget_bytes, ckm_i_profile *out, ckm_error *err)
{
    ckm_i_profile profile = {
        .n_stages = n_stages,
        .n_blocks = (n_stages + block_stages - 1) / block_stages,
        .budget_bytes = budget_bytes,
    };
    profile.stored = ckm_i_calloc((size_t)n_stages, sizeof *profile.stored);
    profile.blocks = ckm_i_calloc((size_t)profile.n_blocks, sizeof *profile.blocks);
    if (profile.stored == NULL || profile.blocks == NULL) {
        ckm_i_profile_dispose(&profile);
        return ckm_i_error_memory(err);
    }
    *out = profile;
    return CKM_OK;
}

void ckm_i_profile_dispose(ckm_i_profile *profile)
{
    free(profile->stored);
    free(profile->blocks);
    *profile = (ckm_i_profile){0};
}

void ckm_i_profile_clear(ckm_i_profile *profile)
{
    memset(profile->stored, 0, (size_t)profile->n_stages * sizeof *profile->stored);
    memset(profile->blocks, 0, (size_t)profile->n_blocks * sizeof *profile->blocks);
}

void ckm_i_profile_open(ckm_i_profile *profile)
{
    profile->open = true;
}

void ckm_i_profile_close(ckm_i_profile *profile)
{
    for (int32_t t = 1; t < profile->n_stages; t++) {
        profile->stored[t] += profile->stored[t - 1];
    }
    for (int32_t b = 0; b < profile->n_blocks; b++) {
        profile->blocks[b].stale = true;
    }
    profile->open = false;
}

int64_t ckm_i_profile_peak(const ckm_i_profile *profile, int32_t t)
{
    return profile->stored[t] + profile->blocks[t / block_stages].shift;
}

static int64_t excess(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

static double add_some(ckm_i_profile *profile, int32_t first, int32_t last, int64_t bytes)
{
    ckm_i_profile_block *block = &profile->blocks[first / block_stages];
    int64_t room = profile->budget_bytes - block->shift;  // for stored peaks
    double change = 0.0;
    for (int32_t t = first; t <= last; t++) {
        int64_t before = profile->stored[t];
        profile->stored[t] = before + bytes;
        change += (double)(excess(before + bytes - room) - excess(before - room));
    }
    block->stale = true;
    return change;
}

static int32_t block_end(const ckm_i_profile *profile, int32_t b)
{
    int32_t end = (b + 1) * block_stages;
    return end < profile->n_stages ? end : profile->n_stages;
}

static void refresh(ckm_i_profile *profile, int32_t b)
{
    ckm_i_profile_block *block = &profile->blocks[b];
    if (!block->stale) {
        return;
    }
    int32_t t = b * block_stages;
    int32_t end = block_end(profile, b);
    block->low = block->high = profile->stored[t];
    for (t++; t < end; t++) {
        int64_t peak = profile->stored[t];
        block->low = peak < block->low ? peak : block->low;
        block->high = peak > block->high ? peak : block->high;
    }
    block->stale = false;
}

static double add_block(ckm_i_profile *profile, int32_t b, int64_t bytes)
{
    ckm_i_profile_block *block = &profile->blocks[b];
    refresh(profile, b);
    int64_t over_high = block->high + block->shift - profile->budget_bytes;
    int64_t over_low = block->low + block->shift - profile->budget_bytes;
    int32_t first = b * block_stages;
    int32_t end = block_end(profile, b);
    double change = 0.0;
    if (over_low >= 0 && over_low + bytes >= 0) {
        change = (double)bytes * (end - first);
    } else if (over_high > 0 || over_high + bytes > 0) {
        for (int32_t t = first; t < end; t++) {
            int64_t over = profile->stored[t] + block->shift - profile->budget_bytes;
            change += (double)(excess(over + bytes) - excess(over));
        }
    }
    block->shift += bytes;
    return change;
}

double ckm_i_profile_add(ckm_i_profile *profile, int32_t first, int32_t last, int64_t bytes)
{
    double change = 0.0;
    if (profile->open) {
        if (first <= last) {
            profile->stored[first] += bytes;
        }
        if (first <= last && last + 1 < profile->n_stages) {
            profile->stored[last + 1] -= bytes;
        }
        return 0.0;
    }
    while (first <= last) {
        int32_t b = first / block_stages;
        int32_t end = block_end(profile, b);
        if (first == b * block_stages && end - 1 <= last) {
            change += add_block(profile, b, bytes);
        } else {
            change += add_some(profile, first, end - 1 < last ? end - 1 : last, bytes);
        }
        first = end;
    }
    return change;
}

int32_t ckm_i_profile_highest(ckm_i_profile *profile, int32_t first, int32_t last)
{
    int32_t best = first;
    int64_t peak = ckm_i_profile_peak(profile, first);
    while (first <= last) {
        int32_t b = first / block_stages;
        int32_t end = block_end(profile, b);
        refresh(profile, b);
        if (profile->blocks[b].high + profile->blocks[b].shift > peak) {
            for (int32_t t = first; t < end && t <= last; t++) {
                int64_t bytes = ckm_i_profile_peak(profile, t);
                best = bytes > peak ? t : best;
                peak = bytes > peak ? bytes : peak;
            }
        }
        first = end;
    }
    return best;
}

double ckm_i_profile_excess(const ckm_i_profile *profile)
{
    double sum = 0.0;
    for (int32_t t = 0; t < profile->n_stages; t++) {
        sum += (double)excess(ckm_i_profile_peak(profile, t) - profile->budget_bytes);
    }
    return sum;
}
