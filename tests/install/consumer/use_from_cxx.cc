// SPDX-License-Identifier: Apache-2.0
// The headers and the library as a C++ program uses them.
#include <checkmate/checkmate.h>

#include <cstdio>
#include <cstring>

int main()
{
    ckm_dataflow *df = nullptr;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_dataflow_parse("{", 1, "inline", &df, &err) != CKM_ERR_FORMAT || err.file[0] == '\0') {
        return 1;
    }
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    if (options.strategy != nullptr || options.threads != 1) {
        return 1;
    }
    std::printf("C++ %s %d strategies\n", ckm_version(), static_cast<int>(ckm_solve_strategy_count()));
    return std::strcmp(ckm_version(), CKM_VERSION_STRING) == 0 && ckm_solve_strategy_count() > 0 ? 0 : 1;
}
