// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_weights.h"

#include <stdlib.h>
#include <strings.h>

#include "cli/cli_values.h"

static bool is_of_zoo(const char *name)
{
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        if (strcasecmp(name, ckm_zoo_name(i)) == 0) {
            return true;
        }
    }
    return false;
}

ckm_status cli_weights_check_network(const char *weights, const char *model, ckm_error *err)
{
    char network[256];
    bool found = false;
    if (weights == NULL || cli_model_is_file(model) || !is_of_zoo(model)) {
        return CKM_OK;
    }
    ckm_status status = ckm_train_read_note(weights, "network", network, sizeof network, &found, err);
    if (status == CKM_OK && found && strcasecmp(network, model) != 0 && is_of_zoo(network)) {
        return cli_error(err, CKM_ERR_ARGUMENT, weights, "holds the weights of %s, not of %s", network, model);
    }
    return status;
}

ckm_status cli_weights_adopt_sizes(const char *weights, const char *model, cli_model_settings *settings, ckm_error *err)
{
    char text[256];
    bool found = false;
    if (weights == NULL || cli_model_is_file(model)) {
        return CKM_OK;
    }
    ckm_status status = ckm_train_read_note(weights, "network_options", text, sizeof text, &found, err);
    if (status == CKM_OK && found) {
        cli_model_read_sizes(text, settings);
    }
    return status;
}

void cli_weights_adopt_input(const char *model, int64_t classes, const cli_shape *input, cli_model_settings *settings)
{
    bool of_zoo = cli_model_published_classes(model) > 0;
    settings->classes = of_zoo && settings->classes == 0 && classes > 1 ? classes : settings->classes;
    if (settings->input_shape.rank == 0 && input->rank == 3) {
        settings->input_shape = *input;
    }
}

ckm_status cli_weights_adopt(const char *weights, const char *model, cli_model_settings *settings, ckm_error *err)
{
    char text[128];
    bool found = false;
    int64_t classes = 0;
    cli_shape input = {0};
    ckm_status status = cli_weights_adopt_sizes(weights, model, settings, err);
    if (status != CKM_OK || weights == NULL) {
        return status;
    }
    status = ckm_train_read_note(weights, "classes", text, sizeof text, &found, err);
    if (status == CKM_OK && found) {
        classes = strtoll(text, NULL, 10);
    }
    if (status == CKM_OK) {
        status = ckm_train_read_note(weights, "input", text, sizeof text, &found, err);
    }
    if (status == CKM_OK && found && cli_read_shape(text, &input) != NULL) {
        input.rank = 0;
    }
    if (status == CKM_OK) {
        cli_weights_adopt_input(model, classes, &input, settings);
    }
    return status;
}
