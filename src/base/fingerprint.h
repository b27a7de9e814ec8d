// SPDX-License-Identifier: Apache-2.0
#ifndef CKM_SRC_BASE_FINGERPRINT_H
#define CKM_SRC_BASE_FINGERPRINT_H

#include <stdint.h>

// 64 bits that depend on every byte, as fast as memory is read. Checkpoints and caches hold them: the same bytes give the same value always.
uint64_t ckm_i_fingerprint(const void *data, int64_t bytes);

#endif
