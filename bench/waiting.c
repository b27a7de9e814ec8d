// SPDX-License-Identifier: Apache-2.0
// A program that trains through the library, for waiting.sh: a zoo network with as many threads as asked for, without
// rematerialization. Prints milliseconds of wall and of processor time a step, and the last loss.
//
//     waiting NETWORK BATCH PIXELS THREADS STEPS
#include <checkmate/checkmate.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *network = NULL;
    ckm_trainer *trainer = NULL;
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    if (argc != 6) {
        fputs("waiting NETWORK BATCH PIXELS THREADS STEPS\n", stderr);
        return 2;
    }
    int64_t shape[3] = {atoi(argv[3]), atoi(argv[3]), 3};
    kernels.threads = atoi(argv[4]);
    options.kernels = &kernels;
    options.budget_fraction = 1.0;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    int64_t steps = atoi(argv[5]);
    course.last_step = 2;  // what is slow once
    ckm_status status = ckm_zoo_build(argv[1], atoi(argv[2]), shape, &network, &err);
    if (status == CKM_OK) {
        status = ckm_trainer_open(network, &options, &trainer, &err);
    }
    if (status == CKM_OK) {
        status = ckm_trainer_run(trainer, &course, &result, &err);
    }
    double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    course.last_step += steps;
    if (status == CKM_OK) {
        status = ckm_trainer_run(trainer, &course, &result, &err);
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    ckm_trainer_close(trainer);
    ckm_graph_free(network);
    if (status != CKM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%.1f %.1f %.9g\n", wall * 1e3 / (double)steps, processor * 1e3 / (double)steps, result.last_loss);
    return 0;
}
