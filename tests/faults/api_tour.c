// SPDX-License-Identifier: Apache-2.0
// Makes every exported function's call once, in a folder that it may write to: for fault_sweep. Status 1 with the
// message of the first call that fails, 0 when all do what they should.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api_calls.h"

int main(int argc, char **argv)
{
    static api_world w;
    static api_visitor v;
    ckm_error err = CKM_ERROR_INIT;
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: api_tour FOLDER\n");
        return 2;
    }
    setenv("PATH", "/nonexistent", 1);  // drawing programs take their time, and are not the matter here
    if (api_set_up(&w, &err) != CKM_OK) {
        fprintf(stderr, "setting up: %s: %s\n", ckm_status_name(err.code), err.message);
        return 1;
    }
    v = (api_visitor){.w = &w, .wanted = API_EVERY, .null = -1};
    api_visit(&v);
    api_tear_down(&w);
    if (v.failed == NULL) {
        return 0;
    }
    fprintf(stderr, "%s: %s: %s\n", v.failed, ckm_status_name(v.failed_status), v.failed_error.message);
    return v.failed_status != CKM_OK ? 1 : 2;
}
