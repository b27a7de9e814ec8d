// SPDX-License-Identifier: Apache-2.0
// The schedule without rematerialization.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "dataflow/dataflow.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"

ckm_status ckm_schedule_baseline(const ckm_dataflow *df, ckm_schedule **out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(out, err);
    ckm_status status = CKM_OK;
    ckm_schedule *s = NULL;
    int32_t *order = NULL;
    ckm_simulation facts;

    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    order = ckm_i_malloc((size_t)df->n_ops, sizeof *order);
    if (order == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        order[v] = v;
    }
    CKM_I_TRY(ckm_i_schedule_from_order(df, order, df->n_ops, &s, err));
    CKM_I_TRY(ckm_schedule_simulate(df, s, NULL, &facts, err));
    ckm_i_text_copy(s->info.graph, sizeof s->info.graph, df->name);
    ckm_i_text_copy(s->info.strategy, sizeof s->info.strategy, "checkpoint-all");
    s->info.cost = facts.cost;
    s->info.baseline_cost = facts.cost;
    s->info.peak_bytes = facts.peak_bytes;
    *out = s;
    s = NULL;
cleanup:
    ckm_schedule_free(s);
    free(order);
    return status;
}
