// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_components.h"

#include <string.h>

static bool is_name(const char *text, size_t length)
{
    for (int32_t i = 0; i < ckm_solve_component_count(); i++) {
        const char *name = ckm_solve_component_name(i);
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            return true;
        }
    }
    return false;
}

int cli_components_check(const cli_command *command, const char *names)
{
    const char *known[CKM_MOST_COMPONENTS];
    char wrong[64];
    char suggestion[128];
    for (const char *name = names; name != NULL;) {
        size_t length = strcspn(name, ",");
        if (!is_name(name, length)) {
            int n = (int)ckm_solve_component_count();
            for (int i = 0; i < n; i++) {
                known[i] = ckm_solve_component_name(i);
            }
            snprintf(wrong, sizeof wrong, "%.*s", (int)(length < sizeof wrong ? length : sizeof wrong - 1), name);
            return cli_usage_error(command, "unknown component '%s'; 'checkmate strategies --components' lists them%s",
                                   wrong, cli_did_you_mean(wrong, known, n, "", suggestion, sizeof suggestion));
        }
        name = name[length] == ',' ? name + length + 1 : NULL;
    }
    return -1;
}

void cli_components_list(void)
{
    enum { COLUMN = 20 };
    for (int32_t i = 0; i < ckm_solve_component_count(); i++) {
        printf("%s%-*s%s ", cli_style(stdout, CLI_BOLD), COLUMN - 1, ckm_solve_component_name(i),
               cli_style(stdout, CLI_PLAIN));
        cli_print_wrapped(stdout, ckm_solve_component_summary(i), COLUMN, COLUMN);
    }
}

void cli_components_print(const ckm_solve_result *result, ckm_cost_unit unit)
{
    char cost[64];
    char bound[64];
    bool narrow = cli_width(stderr) < 80;
    if (narrow) {
        fprintf(stderr, "%-18s %5s %7s %12s %12s\n", "component", "calls", "seconds", "cost gained", "bound gained");
    } else {
        fprintf(stderr, "%-18s %7s %8s %9s %12s %7s %12s\n", "component", "calls", "seconds", "schedules",
                "cost gained", "bounds", "bound gained");
    }
    for (int32_t i = 0; i < result->n_components; i++) {
        const ckm_component_use *use = &result->components[i];
        if (use->calls > 0 && narrow) {
            fprintf(stderr, "%-18s %5lld %7.2f %12s %12s\n", use->name, (long long)use->calls, use->seconds,
                    cli_show_cost(use->cost_gained, unit, cost, sizeof cost),
                    cli_show_cost(use->bound_gained, unit, bound, sizeof bound));
        } else if (use->calls > 0) {
            fprintf(stderr, "%-18s %7lld %8.2f %9lld %12s %7lld %12s\n", use->name, (long long)use->calls, use->seconds,
                    (long long)use->schedules, cli_show_cost(use->cost_gained, unit, cost, sizeof cost),
                    (long long)use->bounds, cli_show_cost(use->bound_gained, unit, bound, sizeof bound));
        }
    }
}

void cli_components_json(cli_json *json, const ckm_solve_result *result)
{
    cli_json_open(json, "components");
    for (int32_t i = 0; i < result->n_components; i++) {
        const ckm_component_use *use = &result->components[i];
        if (use->calls > 0) {
            cli_json_open(json, use->name);
            cli_json_size(json, "calls", use->calls);
            cli_json_real(json, "wall_seconds", use->seconds);
            cli_json_size(json, "schedules", use->schedules);
            cli_json_real(json, "cost_gained", use->cost_gained);
            cli_json_size(json, "bounds", use->bounds);
            cli_json_real(json, "bound_gained", use->bound_gained);
            cli_json_close(json);
        }
    }
    cli_json_close(json);
}
