// SPDX-License-Identifier: Apache-2.0
// Turns of components, and what they took and found.
#include "solve/core/component.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/component_registry.h"
#include "solve/core/solver.h"

static const ckm_i_component *const components[] = {
#define LIST(name) &ckm_i_component_##name,
    CKM_I_COMPONENTS(LIST)
#undef LIST
};

enum { n_components = sizeof components / sizeof components[0] };
_Static_assert((int)n_components <= (int)CKM_MOST_COMPONENTS, "a result has no room for all components");

int32_t ckm_solve_component_count(void)
{
    return n_components;
}

static const ckm_i_component *component_at(int32_t i)
{
    return i >= 0 && i < n_components ? components[i] : NULL;
}

const char *ckm_solve_component_name(int32_t i)
{
    const ckm_i_component *component = component_at(i);
    return component != NULL ? component->name : NULL;
}

const char *ckm_solve_component_summary(int32_t i)
{
    const ckm_i_component *component = component_at(i);
    return component != NULL ? component->summary : NULL;
}

ckm_component_kind ckm_solve_component_kind(int32_t i)
{
    const ckm_i_component *component = component_at(i);
    return component != NULL ? component->kind : CKM_COMPONENT_REDUCES;
}

static int32_t find(const char *name, size_t length)
{
    int32_t i = 0;
    while (i < n_components &&
           (strlen(components[i]->name) != length || memcmp(components[i]->name, name, length) != 0)) {
        i++;
    }
    return i;
}

static int32_t index_of(const ckm_i_component *component)
{
    int32_t i = 0;
    while (i < n_components - 1 && components[i] != component) {
        i++;
    }
    return i;
}

ckm_status ckm_i_accounts_init(ckm_i_accounts *accounts, const char *without, const ckm_i_solver *owner, ckm_error *err)
{
    *accounts = (ckm_i_accounts){
        .owner = owner, .since_seconds = ckm_i_clock_seconds(), .found_by = -1, .proven_by = -1};
    for (int32_t i = 0; i < n_components; i++) {
        accounts->use[i].name = components[i]->name;
    }
    for (const char *name = without; name != NULL;) {
        const char *end = strchr(name, ',');
        size_t length = end != NULL ? (size_t)(end - name) : strlen(name);
        int32_t i = find(name, length);
        if (i == n_components) {
            return ckm_i_error(err, CKM_ERR_NOT_FOUND, "no component is called \"%.*s\"",
                               (int)(length < 64 ? length : 64), name);
        }
        accounts->left_out[i] = true;
        name = end != NULL ? end + 1 : NULL;
    }
    return CKM_OK;
}

void ckm_i_accounts_report(const ckm_i_accounts *accounts, ckm_solve_result *result)
{
    result->n_components = n_components;
    memcpy(result->components, accounts->use, sizeof accounts->use);
    result->found_by = ckm_solve_component_name(accounts->found_by);
    result->proven_by = ckm_solve_component_name(accounts->proven_by);
}

// The component whose turn it is; -1: none.
static int32_t current(const ckm_i_accounts *a)
{
    int32_t top = a->n_turns < CKM_I_MOST_TURNS ? a->n_turns : CKM_I_MOST_TURNS;
    return top > 0 ? a->turns[top - 1] : -1;
}

// Time since the last change goes to whose turn it was.
static void settle(ckm_i_accounts *a)
{
    double now = ckm_i_clock_seconds();
    int32_t i = current(a);
    if (i >= 0) {
        a->use[i].seconds += now - a->since_seconds;
    }
    a->since_seconds = now;
}

bool ckm_i_component_is_left_out(const ckm_i_solver *solver, const ckm_i_component *component)
{
    return solver->accounts != NULL && solver->accounts->left_out[index_of(component)];
}

void ckm_i_component_resume(const ckm_i_solver *solver, const ckm_i_component *component)
{
    ckm_i_accounts *a = solver->accounts;
    if (a != NULL) {
        settle(a);
        if (a->n_turns < CKM_I_MOST_TURNS) {
            a->turns[a->n_turns] = index_of(component);
        }
        a->n_turns++;
    }
}

void ckm_i_component_count(const ckm_i_solver *solver, const ckm_i_component *component, double seconds)
{
    if (solver->accounts != NULL) {
        ckm_component_use *use = &solver->accounts->use[index_of(component)];
        use->calls++;
        use->seconds += seconds;
    }
}

bool ckm_i_component_begin(const ckm_i_solver *solver, const ckm_i_component *component)
{
    if (ckm_i_component_is_left_out(solver, component)) {
        return false;
    }
    ckm_i_component_resume(solver, component);
    ckm_i_component_count(solver, component, 0.0);
    return true;
}

void ckm_i_component_end(const ckm_i_solver *solver)
{
    ckm_i_accounts *a = solver->accounts;
    if (a != NULL) {
        settle(a);
        a->n_turns--;
    }
}

ckm_status ckm_i_component_run(ckm_i_solver *solver, const ckm_i_component *component,
                               ckm_status (*work)(ckm_i_solver *solver, ckm_error *err), ckm_error *err)
{
    if (!ckm_i_component_begin(solver, component)) {
        return CKM_OK;
    }
    ckm_status status = work(solver, err);
    ckm_i_component_end(solver);
    return status;
}

ckm_status ckm_i_components_run(ckm_i_solver *solver, ckm_error *err)
{
    for (int32_t i = 0; i < n_components && !ckm_i_solver_should_stop(solver); i++) {
        const ckm_i_component *c = components[i];
        if (c->run == NULL || (c->applies != NULL && !c->applies(solver)) || !ckm_i_component_begin(solver, c)) {
            continue;
        }
        double until = ckm_i_clock_seconds() + c->share * ckm_i_solver_seconds_left(solver);
        ckm_status status = ckm_i_solver_run_until(solver, fmin(until, solver->deadline_seconds), c->run, err);
        ckm_i_component_end(solver);
        CKM_I_CHECK(status);
    }
    return CKM_OK;
}

void ckm_i_accounts_found(const ckm_i_solver *solver, int64_t before_cost, int64_t cost)
{
    ckm_i_accounts *a = solver->accounts;
    if (a == NULL || a->owner != solver) {
        return;
    }
    int32_t i = current(a);
    a->found_by = i;
    if (i >= 0) {
        a->use[i].schedules++;
        a->use[i].cost_gained += before_cost >= 0 ? (double)(before_cost - cost) : 0.0;
    }
}

void ckm_i_accounts_proven(const ckm_i_solver *solver, double gained)
{
    ckm_i_accounts *a = solver->accounts;
    if (a == NULL || a->owner != solver) {
        return;
    }
    int32_t i = current(a);
    a->proven_by = i;
    if (i >= 0) {
        a->use[i].bounds++;
        a->use[i].bound_gained += gained;
    }
}
