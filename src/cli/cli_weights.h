// SPDX-License-Identifier: Apache-2.0
// Networks as a file of weights says that they were trained.
#ifndef CKM_SRC_CLI_CLI_WEIGHTS_H
#define CKM_SRC_CLI_CLI_WEIGHTS_H

#include "cli/cli_model.h"

// CKM_ERR_ARGUMENT where the file (may be NULL) says that its weights are of another network of the zoo than `model`, which is one.
ckm_status cli_weights_check_network(const char *weights, const char *model, ckm_error *err) CKM_NODISCARD;
// The sizes of a network of the zoo, as the file (may be NULL) says them where they are not given.
ckm_status cli_weights_adopt_sizes(const char *weights, const char *model, cli_model_settings *settings,
                                   ckm_error *err) CKM_NODISCARD;
// The same of classes and shape of the input that were read there; 0 and a rank of 0: the file does not say.
void cli_weights_adopt_input(const char *model, int64_t classes, const cli_shape *input, cli_model_settings *settings);
// All of that.
ckm_status cli_weights_adopt(const char *weights, const char *model, cli_model_settings *settings,
                             ckm_error *err) CKM_NODISCARD;

#endif
