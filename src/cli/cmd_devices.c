// SPDX-License-Identifier: Apache-2.0
// checkmate devices: what --costs device:NAME knows, and measuring this machine.
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_costs.h"
#include "cli/cli_profile.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

// Help texts; a program that only plans has no options for measuring and does not mention them.
#ifdef CLI_PLANS_ONLY
#define SUMMARY "List the devices that --costs knows."
#define USAGE "[--json]"
#define MEASURING                                                                                                     \
    "This program only plans and cannot measure this machine. One that trains writes a file with 'checkmate devices " \
    "--measure -o FILE', which --costs device:FILE reads here."
#define EXAMPLES          \
    "checkmate devices\n" \
    "checkmate sweep VGG16 --batch 64 --costs device:V100 -o vgg16.csv\n"
#else
#define SUMMARY "List the devices that --costs knows, or measure this machine."
#define USAGE "[--measure [-o FILE]] [--json]"
#define MEASURING "'this' appears once this machine has been measured."
#define EXAMPLES                                                          \
    "checkmate devices\n"                                                 \
    "checkmate devices --measure\n"                                       \
    "checkmate sweep VGG16 --batch 64 --costs device:V100 -o vgg16.csv\n" \
    "checkmate solve MobileNet --batch 64 --costs device:this --budget 60%\n"
#endif

typedef struct devices_settings {
    bool measure, json;
    int64_t threads;
    const char *output;
} devices_settings;

static const devices_settings defaults = {false, false, 0, NULL};

static const cli_option options[] = {
#ifndef CLI_PLANS_ONLY
    {"measure", 0, CLI_FLAG, offsetof(devices_settings, measure), NULL,
     "Measure this machine with two small networks, several times over, and keep the result as 'device:this'. Takes "
     "some seconds, and about a minute when other programs keep the machine busy.",
     NULL, 0, 0, NULL},
    {"threads", 'j', CLI_INTEGER, offsetof(devices_settings, threads), "N", "Number of threads to measure with.",
     "one per processor", 1, 1024, NULL},
    {"output", 'o', CLI_OUTPUT, offsetof(devices_settings, output), "FILE",
     "Write the measured device to FILE instead, to be used as 'device:FILE'; '-' is standard output.",
     "a file in the cache folder", 0, 0, NULL},
#endif
    {"json", 0, CLI_FLAG, offsetof(devices_settings, json), NULL, "Print the list as one JSON object.", NULL, 0, 0,
     NULL},
};

static const cli_group groups[] = {{"Devices", options, CLI_COUNT(options), 0}};

// A measured device is not in the table of products, even if its name is.
static void print_device(const ckm_device *d, bool built_in)
{
    const ckm_device_product *product = built_in ? ckm_device_product_find(d->name) : NULL;
    char memory[16] = "-";
    if (product != NULL && product->memory_bytes > 0) {
        snprintf(memory, sizeof memory, "%.0f", 1e-9 * (double)product->memory_bytes);
    }
    printf("%-8s %6s %9.2f %9.2f %7.1f %7.1f%s  %5.2f %6.2f %7.2f %6.2f\n  ", cli_text(d->name), memory,
           2e-12 * d->macs_per_s, 2e-12 * d->matrix_macs_per_s, 1e-9 * d->bytes_per_s, 1e-3 * d->launch_ns,
           cli_width(stdout) < 80 ? "\n        " : "", d->efficiency[CKM_DEVICE_CONV3],
           d->efficiency[CKM_DEVICE_MATRIX], d->efficiency[CKM_DEVICE_GROUPED], d->efficiency[CKM_DEVICE_STREAM]);
    cli_print_wrapped(stdout, cli_text(d->what), 2, 2);
}

static void print_object(cli_json *json, const ckm_device *d, bool built_in)
{
    const ckm_device_product *product = built_in ? ckm_device_product_find(d->name) : NULL;
    cli_json_item(json);
    cli_json_text(json, "name", d->name);
    cli_json_text(json, "what", d->what);
    cli_json_text(json, "source", d->source);
    cli_json_size(json, "memory_bytes", product != NULL && product->memory_bytes > 0 ? product->memory_bytes : -1);
    cli_json_real(json, "macs_per_s", d->macs_per_s);
    cli_json_real(json, "matrix_macs_per_s", d->matrix_macs_per_s);
    cli_json_real(json, "bytes_per_s", d->bytes_per_s);
    cli_json_real(json, "launch_ns", d->launch_ns);
    cli_json_open(json, "efficiency");
    cli_json_real(json, "conv3", d->efficiency[CKM_DEVICE_CONV3]);
    cli_json_real(json, "matrix", d->efficiency[CKM_DEVICE_MATRIX]);
    cli_json_real(json, "grouped", d->efficiency[CKM_DEVICE_GROUPED]);
    cli_json_real(json, "stream", d->efficiency[CKM_DEVICE_STREAM]);
    cli_json_close(json);
    cli_json_close(json);
}

static void list_links(void)
{
    printf("\n%s%-10s %9s %9s %8s%s\n%s%-10s %9s %9s %8s%s\n", cli_style(stdout, CLI_BOLD), "link", "out", "in",
           "latency", cli_style(stdout, CLI_PLAIN), cli_style(stdout, CLI_BOLD), "", "GB/s", "GB/s", "us",
           cli_style(stdout, CLI_PLAIN));
    for (int32_t i = 0; i < ckm_device_link_count(); i++) {
        const ckm_device_link *l = ckm_device_link_at(i);
        printf("%-10s %9.3f %9.3f %8.1f\n  ", l->name, 1e-9 * (double)l->out_bytes_per_second,
               1e-9 * (double)l->in_bytes_per_second, 1e-3 * (double)l->latency_ns);
        cli_print_wrapped(stdout, l->what, 2, 2);
    }
}

static void links_json(cli_json *json)
{
    cli_json_list(json, "links");
    for (int32_t i = 0; i < ckm_device_link_count(); i++) {
        const ckm_device_link *l = ckm_device_link_at(i);
        cli_json_item(json);
        cli_json_text(json, "name", l->name);
        cli_json_text(json, "what", l->what);
        cli_json_text(json, "source", l->source);
        cli_json_size(json, "out_bytes_per_second", l->out_bytes_per_second);
        cli_json_size(json, "in_bytes_per_second", l->in_bytes_per_second);
        cli_json_size(json, "latency_ns", l->latency_ns);
        cli_json_close(json);
    }
    cli_json_list_close(json);
}

// The built-in devices, and this machine where it has been measured: *known says so.
static ckm_status find_this(ckm_device *here, bool *known, ckm_error *err)
{
    char path[2048];
    ckm_error ignored = CKM_ERROR_INIT;
    *known = cli_device_path(path, sizeof path, &ignored) == CKM_OK && access(path, F_OK) == 0;
    return *known ? ckm_device_read(path, here, err) : CKM_OK;
}

static int list_json(void)
{
    ckm_device here;
    bool known = false;
    cli_json json;
    ckm_error err = CKM_ERROR_INIT;
    if (find_this(&here, &known, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    cli_json_begin(&json);
    cli_json_list(&json, "devices");
    for (int32_t i = 0; i < ckm_device_count(); i++) {
        print_object(&json, ckm_device_at(i), true);
    }
    if (known) {
        print_object(&json, &here, false);
    }
    cli_json_list_close(&json);
    links_json(&json);
    cli_json_end(&json);
    return cli_finish_output();
}

static int list(void)
{
    ckm_device here;
    bool known = false;
    ckm_error err = CKM_ERROR_INIT;
    if (find_this(&here, &known, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    bool narrow = cli_width(stdout) < 80;
    printf("%s%-8s %6s %9s %9s %7s %7s%s%s\n", cli_style(stdout, CLI_BOLD), "device", "memory", "ordinary", "matrix",
           "traffic", "launch", narrow ? "" : "  efficiency", cli_style(stdout, CLI_PLAIN));
    printf("%s%-8s %6s %9s %9s %7s %7s%s  %5s %6s %7s %6s%s\n", cli_style(stdout, CLI_BOLD), "", "GB", "TFLOP/s",
           "TFLOP/s", "GB/s", "us", narrow ? "\n        efficiency" : "", "conv3", "matrix", "grouped", "stream",
           cli_style(stdout, CLI_PLAIN));
    for (int32_t i = 0; i < ckm_device_count(); i++) {
        print_device(ckm_device_at(i), true);
    }
    if (known) {
        print_device(&here, false);
    }
    list_links();
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
    return s->output != NULL ? cli_finish_output() : s->json ? list_json() : list();
}
#endif

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const devices_settings *s = settings;
    (void)command;
    (void)arguments;
    (void)n_arguments;
#ifndef CLI_PLANS_ONLY
    if (s->measure) {
        return measure(s);
    }
    if (s->output != NULL || s->threads != 0) {
        return cli_usage_error(command, "--output and --threads go with --measure");
    }
#endif
    return s->json ? list_json() : list();
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
        "per multiply-accumulate; the rate 'matrix' is that of the units that run matrix products. Below are the links "
        "to a second memory that --link NAME takes. " MEASURING,
    .examples = EXAMPLES,
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
