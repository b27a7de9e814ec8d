// SPDX-License-Identifier: Apache-2.0
// Every allocation of reading, making, simulating and verifying schedules fails once; those inside jansson do
// not, because its lexer drops characters instead of reporting them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "quoted.h"
#include "schedule/stages.h"

static const char graph[] = "'tensors': [{'bytes': 3}, {'bytes': 4}, {'bytes': 4}, {'bytes': 1, 'alias_of': 1}],"
                            "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]},"
                            "        {'cost': 1, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]},"
                            "        {'cost': 1, 'inputs': [2], 'outputs': [3]}], 'results': [3]";

// What the sweeps work on.
typedef struct fixture {
    ckm_dataflow *df;
    ckm_schedule *schedule;
    char *text;
} fixture;

static ckm_status parse(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_schedule *s = NULL;
    ckm_status status = ckm_schedule_parse(f->text, strlen(f->text), "f", &s, err);
    assert_true((status == CKM_OK) == (s != NULL));
    ckm_schedule_free(s);
    return status;
}

static ckm_status baseline(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_schedule *s = NULL;
    ckm_status status = ckm_schedule_baseline(f->df, &s, err);
    assert_true((status == CKM_OK) == (s != NULL));
    ckm_schedule_free(s);
    return status;
}

static ckm_status simulate(void *user, ckm_error *err)
{
    const fixture *f = user;
    int64_t timeline[16] = {-7};
    ckm_simulation sim = {.cost = -7};
    ckm_status status = ckm_schedule_simulate(f->df, f->schedule, timeline, &sim, err);
    assert_true((status == CKM_OK) == (sim.cost != -7));
    assert_true((status == CKM_OK) == (timeline[0] != -7));
    return status;
}

static ckm_status verify(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_verdict verdict = {.cost = -7};
    ckm_status status = ckm_schedule_verify(f->df, f->schedule, 100, &verdict, err);
    assert_true((status == CKM_OK) == (verdict.cost != -7));
    assert_true(status != CKM_OK || verdict.ok);
    return status;
}

static ckm_status stages(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_i_stages *st = NULL;
    ckm_schedule *s = NULL;
    int64_t peak = -7;
    ckm_status status = ckm_i_stages_create(f->df, &st, err);
    if (status == CKM_OK) {
        status = ckm_i_stages_complete(st, err);
    }
    if (status == CKM_OK) {
        status = ckm_i_stages_peak(st, &peak, err);
        assert_true((status == CKM_OK) == (peak != -7));
    }
    if (status == CKM_OK) {
        status = ckm_i_stages_emit(st, &s, err);
    }
    assert_true((status == CKM_OK) == (s != NULL));
    ckm_schedule_free(s);
    ckm_i_stages_free(st);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    fixture f = {.df = quoted_graph_of(graph),
                 .text = quoted("{'format': 'checkmate-schedule', 'version': 1, 'graph': 'g', 'bound_cost': 1.5,"
                                "'bound_covers': 'any', 'steps': [['compute', 0], ['compute', 1, [[1, 2]]],"
                                "['compute', 2], ['free', 2]]}")};
    assert_int_equal(ckm_schedule_baseline(f.df, &f.schedule, &err), CKM_OK);
    assert_true(alloc_sweep(parse, &f) > 3);
    assert_true(alloc_sweep(baseline, &f) > 5);
    assert_true(alloc_sweep(simulate, &f) > 3);
    assert_true(alloc_sweep(verify, &f) > 3);
    assert_true(alloc_sweep(stages, &f) > 20);
    ckm_schedule_free(f.schedule);
    // Nothing is freed nor handed over: what the verifier notes of the tensors, it notes at the end.
    f.schedule = quoted_schedule_of("['compute', 0], ['compute', 1], ['compute', 2]");
    assert_true(alloc_sweep(simulate, &f) > 3);
    assert_true(alloc_sweep(verify, &f) > 3);
    ckm_schedule_free(f.schedule);
    ckm_dataflow_free(f.df);
    free(f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
