// SPDX-License-Identifier: Apache-2.0
// Trains a network within 60 % of the memory that it would take: 20 steps on synthetic images, weights to a file.
// Usage: train [NETWORK]
#include <checkmate/checkmate.h>

#include <stdio.h>

static void show(const ckm_train_progress *p, void *user)
{
    (void)user;
    if ((p->step + 1) % 5 == 0) {
        printf("step %lld: loss %.4f, %.1f samples/s\n", (long long)p->step + 1, p->loss, p->samples_per_second);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "MobileNet";
    const int64_t input_shape[3] = {64, 64, 3};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *network = NULL;
    ckm_trainer *trainer = NULL;
    ckm_train_result result;

    options.budget_fraction = 0.6;
    kernels.threads = 2;
    options.kernels = &kernels;
    course.last_step = 20;
    course.progress = show;
    ckm_status status = ckm_zoo_build(name, 32, input_shape, &network, &err);
    if (status == CKM_OK) {
        status = ckm_trainer_open(network, &options, &trainer, &err);
    }
    if (status == CKM_OK) {
        ckm_trainer_info info = ckm_trainer_get_info(trainer);
        printf("%lld bytes instead of %lld, within a budget of %lld\n", (long long)info.used_bytes,
               (long long)info.baseline_bytes, (long long)info.budget_bytes);
        status = ckm_trainer_run(trainer, &course, &result, &err);
    }
    if (status == CKM_OK) {
        status = ckm_trainer_export(trainer, "trained.safetensors", &err);
    }
    if (status != CKM_OK) {
        fprintf(stderr, "train: %s%s%s\n", err.file, err.file[0] != '\0' ? ": " : "", err.message);
    }
    ckm_trainer_close(trainer);
    ckm_graph_free(network);
    return status == CKM_OK ? 0 : 1;
}
