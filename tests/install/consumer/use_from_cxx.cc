// SPDX-License-Identifier: Apache-2.0
// The headers and the library as a C++ program uses them.
#include <checkmate/checkmate.h>

#include <cstdio>
#include <cstring>

// Every structure that begins with its size is begun in C++ as in C.
static bool sizes_are_set()
{
    ckm_autodiff_options step = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_cost_model costs = CKM_COST_MODEL_INIT;
    ckm_data_options data = CKM_DATA_OPTIONS_INIT;
    ckm_import_options importing = CKM_IMPORT_OPTIONS_INIT;
    ckm_max_batch_options batches = CKM_MAX_BATCH_OPTIONS_INIT;
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_profile_options profiling = CKM_PROFILE_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_session_options session = CKM_SESSION_OPTIONS_INIT;
    ckm_compare_options comparing = CKM_COMPARE_OPTIONS_INIT;
    ckm_timing_options timing = CKM_TIMING_OPTIONS_INIT;
    ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_trainer_options training = CKM_TRAINER_OPTIONS_INIT;
    ckm_solve_options solving = CKM_SOLVE_OPTIONS_INIT;
    ckm_zoo_size zoo = CKM_ZOO_SIZE_INIT;
    return step.size == sizeof step && costs.size == sizeof costs && data.size == sizeof data &&
           importing.size == sizeof importing && batches.size == sizeof batches && packing.size == sizeof packing &&
           profiling.size == sizeof profiling && kernels.size == sizeof kernels && session.size == sizeof session &&
           comparing.size == sizeof comparing && timing.size == sizeof timing && rate.size == sizeof rate &&
           course.size == sizeof course && training.size == sizeof training && solving.size == sizeof solving &&
           zoo.size == sizeof zoo;
}

int main()
{
    ckm_dataflow *df = nullptr;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_dataflow_parse("{", 1, "inline", &df, &err) != CKM_ERR_FORMAT || err.file[0] == '\0') {
        return 1;
    }
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    if (options.strategy != nullptr || options.threads != 0 || options.gap != 0.0 || !sizes_are_set()) {
        return 1;
    }
    std::printf("C++ %s %d strategies\n", ckm_version(), static_cast<int>(ckm_solve_strategy_count()));
    return std::strcmp(ckm_version(), CKM_VERSION_STRING) == 0 && ckm_solve_strategy_count() > 0 ? 0 : 1;
}
