// SPDX-License-Identifier: Apache-2.0
#include "base/fingerprint.h"

#include <string.h>

// Four independent lanes, so that it runs at the speed of memory rather than of one multiplication after the other.
uint64_t ckm_i_fingerprint(const void *data, int64_t bytes)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lanes[4] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344), UINT64_C(0xa4093822299f31d0),
                         UINT64_C(0x082efa98ec4e6c89)};
    const char *at = data;
    int64_t left = bytes;
    for (; left >= 32; left -= 32, at += 32) {
        uint64_t words[4];
        memcpy(words, at, sizeof words);
        for (int k = 0; k < 4; k++) {
            lanes[k] = (lanes[k] ^ words[k]) * odd;
            lanes[k] ^= lanes[k] >> 29;
        }
    }
    uint64_t hash = (uint64_t)bytes;
    for (; left > 0; left--, at++) {
        hash = (hash ^ (unsigned char)*at) * odd;
    }
    for (int k = 0; k < 4; k++) {
        hash = (hash ^ lanes[k]) * odd;
        hash ^= hash >> 32;
    }
    return hash;
}
