// SPDX-License-Identifier: Apache-2.0
// Every allocation of the reverse pebble game fails in turn: its tables, its states, the schedule it writes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "layer_graph.h"
#include "solve/floor/memory_floor.h"
#include "solve/floor/pebbling_schedule.h"

static ckm_status play(void *user, ckm_error *err)
{
    const ckm_dataflow *df = user;
    ckm_i_memory_floor_options options = {100000, INT64_MAX};
    ckm_i_memory_floor_result found = {-7, -7};
    ckm_schedule *schedule = NULL;
    ckm_i_pebbling game;
    ckm_status status = ckm_i_pebbling_init_again(&game, df, err);
    if (status != CKM_OK) {
        return status;
    }
    status = ckm_i_memory_floor_find(&game, &options, &found, err);
    assert_int_equal(found.floor_bytes, status == CKM_OK ? 4 : -7);
    if (status == CKM_OK) {
        status = ckm_i_pebbling_schedule(&game, CKM_I_PLAY_LATE, 4, 100000, NULL, NULL, &schedule, err);
        assert_true((status == CKM_OK) == (schedule != NULL));
    }
    ckm_schedule_free(schedule);
    ckm_i_pebbling_dispose(&game);
    return status;
}

static void game_survives_every_failure(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(6);
    assert_true(alloc_sweep(play, df) > 20);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(game_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
