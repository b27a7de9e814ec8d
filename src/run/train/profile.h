// SPDX-License-Identifier: Apache-2.0
// A profile, internal view.
#ifndef CKM_SRC_RUN_TRAIN_PROFILE_H
#define CKM_SRC_RUN_TRAIN_PROFILE_H

#include <checkmate/profile.h>

struct ckm_profile {
    ckm_profile_info info;
    int32_t n_ops;
    ckm_profile_op *ops;  // their names are those below
    char **names;
    ckm_second_memory link;  // measured with it; out_bytes_per_second is 0 where there is none
    char link_name[256];
};

// The processor's name, or "unknown processor".
void ckm_i_profile_platform(char *name, size_t room);

#endif
