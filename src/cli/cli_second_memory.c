// SPDX-License-Identifier: Apache-2.0
// A second memory from the command line. A graph is not changed once it is finished, so it is built again.
#include "cli/cli_second_memory.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(cli_second_memory, member)

const cli_option cli_second_memory_options[CLI_N_SECOND_MEMORY_OPTIONS] = {
    {"link", 0, CLI_TEXT, AT(link), "NAME",
     "Gives the graph a second memory with the speeds and the latency of a link that 'checkmate devices' lists, such "
     "as PCIe4; of a device, such as H100; or of a file: a device, or a profile made with 'profile --offload'. The "
     "options below override it.",
     NULL, 0, 0, NULL},
    {"out-speed", 0, CLI_BYTES, AT(out_speed), "B",
     "Gives the graph a second memory, to which tensors can be moved while operators run: bytes per second to it, such "
     "as 12GB. Costs must be times: see --costs.",
     "none, or what a graph file says", 0, 0, NULL},
    {"in-speed", 0, CLI_BYTES, AT(in_speed), "B", "Bytes per second back from it.",
     "what a graph file says, otherwise as --out-speed", 0, 0, NULL},
    {"transfer-latency", 0, CLI_INTEGER, AT(latency_ns), "NS", "Latency of every transfer, in nanoseconds.",
     "what a graph file says, otherwise 0", 0, INT64_C(1) << 40, NULL},
    {"second-memory", 0, CLI_BYTES, AT(bytes), "B", "Capacity of the second memory.",
     "what a graph file says, otherwise no limit", 0, 0, NULL},
};

int cli_second_memory_check(const cli_command *command, const cli_second_memory *s)
{
    return s->out_speed == 0 || s->in_speed == 0
               ? cli_usage_error(command, "--%s is 0: it must be at least one byte per second",
                                 s->out_speed == 0 ? "out-speed" : "in-speed")
               : -1;
}

ckm_status cli_second_memory_resolve(const cli_second_memory *s, cli_second_memory *out, ckm_error *err)
{
    cli_second_memory found = *s;
    ckm_device_link link;
    if (s->link != NULL) {
        const ckm_device_link *known = ckm_device_link_find(s->link);
        bool is_file = strpbrk(s->link, "/.") != NULL || access(s->link, F_OK) == 0;
        if (known == NULL && !is_file) {
            char names[256] = "";
            for (int32_t i = 0; i < ckm_device_link_count(); i++) {
                size_t length = strlen(names);
                snprintf(names + length, sizeof names - length, "%s, ", ckm_device_link_at(i)->name);
            }
            return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                             "there is no link called '%s' (known: %sthose of devices, or the name of a file with one)",
                             s->link, names);
        }
        ckm_status status = known == NULL ? ckm_device_link_read(s->link, &link, err) : CKM_OK;
        if (status != CKM_OK) {
            return status;
        }
        link = known != NULL ? *known : link;
        found.out_speed = s->out_speed >= 0 ? s->out_speed : link.out_bytes_per_second;
        found.in_speed = s->in_speed >= 0 ? s->in_speed : link.in_bytes_per_second;
        found.latency_ns = s->latency_ns >= 0 ? s->latency_ns : link.latency_ns;
    }
    *out = found;
    return CKM_OK;
}

// The same tensors, operators and results, with `memory`.
static ckm_status build(const ckm_dataflow *df, const ckm_second_memory *memory, ckm_dataflow *to, ckm_error *err)
{
    ckm_status status = CKM_OK;
    for (int32_t t = 0; status == CKM_OK && t < ckm_dataflow_tensor_count(df); t++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, t);
        status = ckm_dataflow_add_tensor(to, &tensor, NULL, err);
    }
    for (int32_t v = 0; status == CKM_OK && v < ckm_dataflow_op_count(df); v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
        status = ckm_dataflow_add_op(to, &op, NULL, err);
    }
    for (int32_t i = 0; status == CKM_OK && i < ckm_dataflow_result_count(df); i++) {
        status = ckm_dataflow_add_result(to, ckm_dataflow_get_result(df, i), err);
    }
    if (status == CKM_OK) {
        status = ckm_dataflow_set_second_memory(to, memory, err);
    }
    return status == CKM_OK ? ckm_dataflow_finish(to, err) : status;
}

ckm_status cli_second_memory_apply(const cli_second_memory *given, ckm_dataflow **df, ckm_error *err)
{
    cli_second_memory resolved = *given;
    const cli_second_memory *s = &resolved;
    ckm_status status = cli_second_memory_resolve(given, &resolved, err);
    if (status != CKM_OK) {
        return status;
    }
    if (s->bytes < 0 && s->out_speed < 0 && s->in_speed < 0 && s->latency_ns < 0) {
        return CKM_OK;
    }
    ckm_second_memory memory;
    if (!ckm_dataflow_get_second_memory(*df, &memory)) {
        if (s->out_speed < 0) {
            return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                             "the graph has no second memory: give its speed with --link or --out-speed");
        }
        memory = (ckm_second_memory){NULL, -1, s->out_speed, s->out_speed, 0};
    }
    if (ckm_dataflow_cost_unit(*df) == CKM_COST_FLOPS) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                         "a second memory needs costs that are times: --costs device:NAME, or a profile");
    }
    memory.bytes = s->bytes >= 0 ? s->bytes : memory.bytes;
    memory.out_bytes_per_second = s->out_speed > 0 ? s->out_speed : memory.out_bytes_per_second;
    memory.in_bytes_per_second = s->in_speed > 0 ? s->in_speed : memory.in_bytes_per_second;
    memory.latency_ns = s->latency_ns >= 0 ? s->latency_ns : memory.latency_ns;
    ckm_dataflow *to = NULL;
    status = ckm_dataflow_create(ckm_dataflow_name(*df), ckm_dataflow_cost_unit(*df), ckm_dataflow_fixed_bytes(*df),
                                 &to, err);
    if (status == CKM_OK) {
        status = build(*df, &memory, to, err);
    }
    if (status != CKM_OK) {
        ckm_dataflow_free(to);
        return status;
    }
    ckm_dataflow_free(*df);
    *df = to;
    return CKM_OK;
}

void cli_second_memory_print(const ckm_dataflow *df)
{
    ckm_second_memory m;
    char room[64];
    char out[64];
    char in[64];
    if (ckm_dataflow_get_second_memory(df, &m)) {
        cli_line(stdout, 23, "%-22s %s, %s/s out, %s/s in, latency %lld ns\n", "second memory",
                 m.bytes < 0 ? "no limit" : cli_show_bytes(m.bytes, room, sizeof room),
                 cli_show_bytes(m.out_bytes_per_second, out, sizeof out),
                 cli_show_bytes(m.in_bytes_per_second, in, sizeof in), (long long)m.latency_ns);
    }
}

void cli_second_memory_json(cli_json *json, const ckm_dataflow *df)
{
    ckm_second_memory m;
    if (ckm_dataflow_get_second_memory(df, &m)) {
        cli_json_open(json, "second_memory");
        cli_json_text(json, "name", m.name);
        cli_json_size(json, "bytes", m.bytes);
        cli_json_size(json, "out_bytes_per_second", m.out_bytes_per_second);
        cli_json_size(json, "in_bytes_per_second", m.in_bytes_per_second);
        cli_json_size(json, "latency_ns", m.latency_ns);
        cli_json_close(json);
    }
}
