// SPDX-License-Identifier: Apache-2.0
// What the trainer's files share: notes to the caller, the bytes outside the region, and the search for a schedule.
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "run/ranks/ranks.h"
#include "run/session/session.h"
#include "trainer/trainer.h"

void ckm_i_trainer_note(const ckm_trainer *t, ckm_log_level level, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    if (t->options.note == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    t->options.note(level, line, t->solve.user);
}

int64_t ckm_i_trainer_outside_fixed(const ckm_trainer *t)
{
    // What a transport may take in addition, for messages that arrive before they are waited for.
    static const int64_t early_bytes = 256 << 10;
    if (t->outside_fixed_most > 0) {
        return t->outside_fixed_most;
    }
    ckm_program_memory m = ckm_program_get_memory(t->program);
    int64_t exchange = 0;
    if (t->ranks != NULL) {
        int64_t most = 0;
        int32_t n = ckm_i_session_exchanged(t->program, &most);
        exchange = t->ranks->bytes + early_bytes + ckm_i_exchange_bytes(n, most);
    }
    int64_t data = t->predicts ? CKM_I_INFERENCE_PIECE + t->reading_bytes : ckm_data_get_facts(t->data).bytes;
    int64_t second = t->second.name != NULL ? ckm_program_second_memory_bytes(t->program) : 0;
    return exchange + data + second + t->validation_bytes + m.kernel_bytes + m.thread_bytes + m.margin_bytes;
}

bool ckm_i_trainer_stops(void *trainer)
{
    const ckm_trainer *t = trainer;
    const ckm_solve_options *solve = &t->solve;
    return solve->stop != NULL && solve->stop(solve->user);
}

ckm_status ckm_i_trainer_go_on(ckm_trainer *t, ckm_error *err)
{
    return ckm_i_trainer_stops(t) ? ckm_i_error(err, CKM_ERR_STOPPED, "stopped before the first step") : CKM_OK;
}

// The size of the tables outside the region is an estimate, so a proof for what they leave is no proof for the budget. Tries to
// prove infeasibility without the tables; `solved` is then that result.
static ckm_status prove_without_tables(ckm_trainer *t, const ckm_solve_options *options, ckm_solve_result *solved,
                                       ckm_error *err)
{
    ckm_solve_options again = *options;
    ckm_solve_result result;
    again.budget_bytes = t->budget_bytes - ckm_i_trainer_outside_fixed(t);
    if (solved->status != CKM_SOLVE_INFEASIBLE || again.budget_bytes < solved->floor_bytes) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_solve(t->df, &again, &result, err));
    if (result.status == CKM_SOLVE_INFEASIBLE) {
        *solved = result;
    } else {
        solved->status = CKM_SOLVE_UNKNOWN;
        ckm_solve_result_dispose(&result);
    }
    return CKM_OK;
}

ckm_status ckm_i_trainer_fit(ckm_trainer *t, bool quickly, ckm_error *err)
{
    static const double quick_seconds = 5;
    ckm_solve_options options = t->solve;
    ckm_solve_result solved;
    if (quickly) {
        bool is_quick = options.time_limit_seconds > 0 && options.time_limit_seconds < quick_seconds;
        options.time_limit_seconds = is_quick ? options.time_limit_seconds : quick_seconds;
        options.gap = 0.1;
    }
    if (t->options.searching != NULL) {
        t->options.searching(t->df, options.user);
    }
    ckm_run_fit_dispose(&t->fit);
    // If keeping everything fits, it is packed as tightly as for the percentage, not only as the budget requires: both are reported.
    int64_t budget_bytes = t->whole_bytes < t->budget_bytes ? t->whole_bytes : t->budget_bytes;
    CKM_I_CHECK(ckm_trainer_fit(t->df, budget_bytes, t->outside_bytes, &options, &t->fit, &solved, err));
    ckm_solve_result_dispose(&t->solved);
    t->solved = solved;
    CKM_I_CHECK(ckm_i_trainer_go_on(t, err));
    return quickly ? CKM_OK : prove_without_tables(t, &options, &t->solved, err);
}
