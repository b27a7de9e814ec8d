// SPDX-License-Identifier: Apache-2.0
// Plans as JSON or CSV, for looking at them.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "plan/plan.h"

static void write_name(FILE *to, const ckm_dataflow *df, const ckm_plan_instance *instance)
{
    ckm_json_write_text(to, instance->tensor >= 0 ? ckm_dataflow_get_tensor(df, instance->tensor).name
                                                  : ckm_dataflow_get_op(df, instance->op).name);
}

static void write_json(FILE *to, const ckm_dataflow *df, const ckm_plan *plan)
{
    const ckm_plan_info *info = &plan->info;
    fputs("{\"format\": \"checkmate-plan\", \"version\": 1, \"graph\": ", to);
    ckm_json_write_text(to, ckm_dataflow_name(df));
    fprintf(to,
            ",\n \"arena_bytes\": %" PRId64 ", \"bound_bytes\": %" PRId64 ", \"resident_bytes\": %" PRId64
            ", \"peak_bytes\": %" PRId64 ", \"method\": ",
            info->arena_bytes, info->bound_bytes, info->resident_bytes, info->peak_bytes);
    ckm_json_write_text(to, info->method);
    fputs(",\n \"instances\": [", to);
    for (int32_t i = 0; i < plan->n_instances; i++) {
        const ckm_plan_instance *instance = &plan->instances[i];
        fprintf(to, "%s\n  {\"kind\": \"%s\", \"name\": ", i > 0 ? "," : "",
                instance->tensor >= 0 ? "tensor" : "workspace");
        write_name(to, df, instance);
        fprintf(to,
                ", \"tensor\": %d, \"op\": %d, \"buffer\": %d, \"first\": %" PRId64 ", \"last\": %" PRId64
                ", \"bytes\": %" PRId64 ", \"offset\": %" PRId64 "}",
                (int)instance->tensor, (int)instance->op, (int)instance->buffer, instance->first, instance->last,
                instance->bytes, instance->offset);
    }
    fputs("]}\n", to);
}

static void write_csv(FILE *to, const ckm_dataflow *df, const ckm_plan *plan)
{
    fputs("kind,name,tensor,op,buffer,first,last,bytes,offset\n", to);
    for (int32_t i = 0; i < plan->n_instances; i++) {
        const ckm_plan_instance *instance = &plan->instances[i];
        const char *name = instance->tensor >= 0 ? ckm_dataflow_get_tensor(df, instance->tensor).name
                                                 : ckm_dataflow_get_op(df, instance->op).name;
        fputs(instance->tensor >= 0 ? "tensor,\"" : "workspace,\"", to);
        for (; *name != '\0'; name++) {
            fputs(*name == '"' ? "\"\"" : (char[]){*name, '\0'}, to);
        }
        fprintf(to, "\",%d,%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", (int)instance->tensor,
                (int)instance->op, (int)instance->buffer, instance->first, instance->last, instance->bytes,
                instance->offset);
    }
}

ckm_status ckm_plan_write(const ckm_dataflow *df, const ckm_plan *plan, const char *path, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(path, err);
    ckm_i_writer w = {0};
    ckm_status status;
    size_t length = strlen(path);
    CKM_I_TRY(ckm_i_writer_open(&w, path, err));
    if (length > 4 && strcmp(path + length - 4, ".csv") == 0) {
        write_csv(w.stream, df, plan);
    } else {
        write_json(w.stream, df, plan);
    }
    CKM_I_TRY(ckm_i_writer_commit(&w, err));
cleanup:
    ckm_i_writer_abort(&w);
    return status;
}
