// SPDX-License-Identifier: Apache-2.0
// checkmate devices: what --costs device:NAME knows, and measuring this machine.
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_costs.h"
#include "cli/cli_profile.h"
#include "cli/cli_solve.h"

// What help says; a program that only plans has no option, and no word, of measuring.
#ifdef CLI_PLANS_ONLY
#define SUMMARY "List the devices that --costs knows."
#define USAGE ""
#define MEASURING                                                                                                     \
    "This program only plans and cannot measure this machine. One that trains writes a file with 'checkmate devices " \
    "--measure -o FILE', which --costs device:FILE reads here."
#define EXAMPLES          \
    "checkmate devices\n" \
    "checkmate sweep VGG16 --batch 64 --costs device:V100 -o vgg16.csv\n"
#else
#define SUMMARY "List the devices that --costs knows, or measure this machine."
#define USAGE "[--measure [-o FILE]]"
#define MEASURING "'this' appears once this machine has been measured."
#define EXAMPLES                                                          \
    "checkmate devices\n"                                                 \
    "checkmate devices --measure\n"                                       \
    "checkmate sweep VGG16 --batch 64 --costs device:V100 -o vgg16.csv\n" \
    "checkmate solve MobileNet --batch 64 --costs device:this --budget 60%\n"

typedef struct devices_settings {
    bool measure;
    int64_t threads;
    const char *output;
} devices_settings;

static const devices_settings defaults = {false, 0, NULL};

static const cli_option options[] = {
    {"measure", 0, CLI_FLAG, offsetof(devices_settings, measure), NULL,
     "Measure this machine with two small networks, several times over, and keep the result as 'device:this'. Takes "
     "some seconds, and about a minute when other programs keep the machine busy.",
     NULL, 0, 0, NULL},
    {"threads", 'j', CLI_INTEGER, offsetof(devices_settings, threads), "N", "Number of threads to measure with.",
     "one per processor", 1, 1024, NULL},
    {"output", 'o', CLI_OUTPUT, offsetof(devices_settings, output), "FILE",
     "Write the measured device to FILE instead, to be used as 'device:FILE'; '-' is standard output.",
     "a file in the cache folder", 0, 0, NULL},
};

static const cli_group groups[] = {{"Devices", options, CLI_COUNT(options), 0}};
#endif

// What was measured has no product, whatever its name.
static void print_device(const ckm_device *d, bool built_in)
{
    const ckm_device_product *product = built_in ? ckm_device_product_find(d->name) : NULL;
    char memory[16] = "-";
    if (product != NULL && product->memory_bytes > 0) {
        snprintf(memory, sizeof memory, "%.0f", 1e-9 * (double)product->memory_bytes);
    }
    printf("%-8s %6s %9.2f %9.2f %7.1f %7.1f  %5.2f %6.2f %7.2f %6.2f\n  ", cli_text(d->name), memory,
           2e-12 * d->macs_per_s, 2e-12 * d->matrix_macs_per_s, 1e-9 * d->bytes_per_s, 1e-3 * d->launch_ns,
           d->efficiency[CKM_DEVICE_CONV3], d->efficiency[CKM_DEVICE_MATRIX], d->efficiency[CKM_DEVICE_GROUPED],
           d->efficiency[CKM_DEVICE_STREAM]);
    cli_print_wrapped(stdout, cli_text(d->what), 2, 2);
}

static int list(void)
{
    char path[2048];
    ckm_device here;
    ckm_error err = CKM_ERROR_INIT;
    printf("%s%-8s %6s %9s %9s %7s %7s  %s%s\n", cli_style(stdout, CLI_BOLD), "device", "memory", "ordinary", "matrix",
           "traffic", "launch", "efficiency", cli_style(stdout, CLI_PLAIN));
    printf("%s%-8s %6s %9s %9s %7s %7s  %5s %6s %7s %6s%s\n", cli_style(stdout, CLI_BOLD), "", "GB", "TFLOP/s",
           "TFLOP/s", "GB/s", "us", "conv3", "matrix", "grouped", "stream", cli_style(stdout, CLI_PLAIN));
    for (int32_t i = 0; i < ckm_device_count(); i++) {
        print_device(ckm_device_at(i), true);
    }
    if (cli_device_path(path, sizeof path, &err) == CKM_OK && access(path, F_OK) == 0) {
        if (ckm_device_read(path, &here, &err) != CKM_OK) {
            return cli_fail(&err);
        }
        print_device(&here, false);
    }
    return cli_finish_output();
}

#ifndef CLI_PLANS_ONLY
static int measure(const devices_settings *s)
{
    char cached[2048];
    ckm_device device;
    ckm_error err = CKM_ERROR_INIT;
    cli_stop_at_once();
    ckm_status status = s->output == NULL ? cli_device_path(cached, sizeof cached, &err) : CKM_OK;
    if (status == CKM_OK) {
        status = cli_device_measure(s->threads > 0 ? (int)s->threads : cli_processors(), &device, &err);
    }
    cli_stop_install();  // what is measured is kept
    if (status == CKM_OK) {
        status = ckm_device_write(&device, s->output != NULL ? s->output : cached, &err);
    }
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    return s->output == NULL ? list() : cli_finish_output();
}
#endif

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)settings;
    (void)arguments;
    (void)n_arguments;
#ifndef CLI_PLANS_ONLY
    const devices_settings *s = settings;
    if (s->measure) {
        return measure(s);
    }
    if (s->output != NULL || s->threads != 0) {
        return cli_usage_error(command, "--output and --threads go with --measure");
    }
#endif
    return list();
}

const cli_command cli_command_devices = {
    .name = "devices",
    .summary = SUMMARY,
    .usage = USAGE,
    .description =
        "Lists the device models that --costs device:NAME takes. A model predicts the time of an operator: its "
        "launches, plus the longer of its arithmetic and its memory traffic. Rates are the peaks of the device times "
        "an efficiency, the fraction that is reached: by 3x3 convolutions of stride 1 (conv3; above 1 where fast "
        "algorithms need less arithmetic than is counted), by other convolutions and matrix products (matrix), by "
        "depthwise and grouped convolutions (grouped), and by memory traffic (stream). TFLOP/s count two operations "
        "per multiply-accumulate; the rate 'matrix' is that of the units that run matrix products. " MEASURING,
    .examples = EXAMPLES,
#ifndef CLI_PLANS_ONLY
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .defaults = &defaults,
    .settings_size = sizeof defaults,
#endif
    .run = run,
};
