// SPDX-License-Identifier: Apache-2.0
// Budgets as people write them, and the options that go with them.
#include "cli/cli_budget.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "cli/cli_model.h"
#include "cli/cli_values.h"

const cli_option cli_planning_options[CLI_N_PLANNING_OPTIONS] = {
    {"budget", 0, CLI_BUDGET, offsetof(cli_planning_settings, budget), "B",
     "Bytes that the run may add to the process's own memory (what Linux calls anonymous). Everything counts: "
     "parameters, activations, workspace, data, what kernels and threads take, which is measured on this machine, and "
     "in training gradients and the optimizer's state. Pages of program and library files do not "
     "count. " CLI_BUDGET_FORMS
     "; or 'min', the least that a schedule is found for within half of --time-limit. The peak is then what "
     "running without rematerialization takes, everything included.",
     "auto", 0, 0, NULL},
    {"strategy", 's', CLI_TEXT, offsetof(cli_planning_settings, strategy), "NAME",
     "How to search for the schedule; 'checkmate strategies' lists the names.", "auto", 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, offsetof(cli_planning_settings, time_limit_seconds), "S",
     "Seconds for each search before the run; 0 means no limit. One search is usual; more are needed where packing "
     "wastes memory.",
     "20", 0, 0, NULL},
};

const cli_option cli_kernel_options[CLI_N_KERNEL_OPTIONS] = {
    {"threads", 'j', CLI_INTEGER, offsetof(cli_kernel_settings, threads), "N", "Number of threads that compute.",
     "one per processor", 1, 1024, NULL},
    {"back-end", 0, CLI_TEXT, offsetof(cli_kernel_settings, back_end), "NAME",
     "'cpu' for fast kernels, or 'reference' for plain ones to compare with.", "cpu", 0, 0, NULL},
};

// "60%" may be followed by "of activations", or by any beginning of the word, with "of" or without: "60%act".
static bool names_activations(const char *rest)
{
    static const char word[] = "activations";
    rest += strspn(rest, " ");
    if (strncasecmp(rest, "of ", 3) == 0) {
        rest += 2 + strspn(rest + 2, " ");
    }
    size_t length = strlen(rest);
    return length > 0 && length < sizeof word && strncasecmp(rest, word, length) == 0;
}

// "H100": what tensors may take of the memory of a device that --costs knows.
static bool read_device(const char *text, int64_t *bytes)
{
    const ckm_device_product *product = ckm_device_product_find(text);
    *bytes = product != NULL ? product->memory_bytes : 0;
    return *bytes > 0;
}

const char *cli_read_budget(const char *text, cli_budget *out)
{
    static const char hint[] = "must be a size such as 8GB, 4GiB or 8000000000, a percentage such as 60% of the peak "
                               "without rematerialization, or of activations, such as 60%act, a device such as H100, "
                               "'auto' or 'min'";
    cli_budget budget = {.given = true};
    bool is_whole = false;
    const char *rest = NULL;
    budget.is_least = strcmp(text, "min") == 0;
    budget.is_auto = strcmp(text, "auto") == 0;
    bool found = budget.is_least || budget.is_auto || read_device(text, &budget.bytes);
    if (!found && cli_read_decimal(text, &budget.percent, &is_whole, &rest) && *rest == '%' &&
        (rest[1] == '\0' || names_activations(rest + 1))) {
        budget.is_percent = true;
        budget.of_activations = rest[1] != '\0';
        found = true;
    }
    if (!found) {
        budget.percent = 0;
        const char *problem = cli_read_bytes(text, &budget.bytes);
        if (problem != NULL) {
            return strncmp(problem, "must be", 7) == 0 ? hint : problem;
        }
    }
    *out = budget;
    return NULL;
}

static ckm_status share_of(const cli_budget *budget, const ckm_dataflow *df, int64_t *bytes, ckm_error *err)
{
    int64_t whole = 0;
    ckm_status status = cli_baseline_peak(df, &whole, err);
    if (status == CKM_OK) {
        int64_t standing = budget->of_activations ? ckm_dataflow_standing_bytes(df) : 0;
        long double share = cli_floor_decimal((long double)(whole - standing) * budget->percent / 100) +
                            (long double)standing;
        *bytes = share >= 9223372036854775807.0L ? INT64_MAX : (int64_t)share;
    }
    return status;
}

ckm_status cli_budget_bytes(const cli_budget *budget, const ckm_dataflow *df, int64_t *bytes, ckm_error *err)
{
    if (budget->is_auto) {
        int64_t available = ckm_host_free_bytes();
        *bytes = available / 10 * 8;
        return available >= 0 ? CKM_OK
                              : cli_error(err, CKM_ERR_UNSUPPORTED, NULL,
                                          "this system does not say how much memory is available: give the budget a "
                                          "size");
    }
    if (budget->is_least) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                         "a budget of 'min' has to be searched for, which 'checkmate solve' does: give a size");
    }
    *bytes = budget->bytes;
    return budget->is_percent ? share_of(budget, df, bytes, err) : CKM_OK;
}

int64_t cli_budget_least(int64_t least_bytes, int64_t baseline_bytes)
{
    char text[64];
    if (least_bytes > 0 && least_bytes < baseline_bytes) {
        return least_bytes;
    }
    cli_warnf("--budget min: nothing was found that takes less than the %s without rematerialization, which are the "
              "budget now; "
              "a longer --time-limit may find less",
              cli_show_bytes(baseline_bytes, text, sizeof text));
    return baseline_bytes;
}

int cli_budget_of_run(const cli_command *command, const cli_budget *budget, int64_t *bytes, double *fraction,
                      double *activations)
{
    if (!budget->given || budget->is_auto) {
        return -1;
    }
    if (budget->is_least) {
        *bytes = 1;
        return -1;
    }
    *bytes = budget->bytes;
    *(budget->of_activations ? activations : fraction) = (double)(budget->percent / 100.0L);
    if (!(budget->percent > 0) && *bytes == 0) {
        return cli_usage_error(command, "--budget must be more than nothing");
    }
    return -1;
}
