// SPDX-License-Identifier: Apache-2.0
#include "mutate.h"

uint32_t mutate_pick(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

int64_t mutate_integer(uint64_t *state)
{
    uint64_t power = UINT64_C(1) << mutate_pick(state, 64);
    switch (mutate_pick(state, 6)) {
    case 0:
        return (int64_t)(power - 1);
    case 1:
        return (int64_t)power;
    case 2:
        return (int64_t)(0 - power);
    case 3:
        return -1 - (int64_t)mutate_pick(state, 4);
    default:
        return (int64_t)mutate_pick(state, 12);
    }
}
