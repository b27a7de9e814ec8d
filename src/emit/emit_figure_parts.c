// SPDX-License-Identifier: Apache-2.0
// What several figures of a schedule need.
#include <stdio.h>

#include "emit/emit_figures.h"
#include "emit/emit_style.h"

const char *ckm_i_figure_name(const ckm_emit_facts *f, char *text, size_t size)
{
    char batch[48] = "";
    if (f->batch > 0) {
        snprintf(batch, sizeof batch, ", batch %lld", (long long)f->batch);
    }
    // A long name gives way to the batch.
    char cut[4 * 64 + 4];
    snprintf(text, size, "%s%s", ckm_i_style_short(ckm_dataflow_name(f->df), 64, cut), batch);
    return text;
}

const char *ckm_i_figure_subtitle(const ckm_emit_facts *f, char *text, size_t size)
{
    char peak[CKM_I_STYLE_TEXT];
    char budget[CKM_I_STYLE_TEXT];
    char whole[CKM_I_STYLE_TEXT];
    char extra[CKM_I_STYLE_TEXT];
    double overhead = f->baseline_cost > 0 ? (double)f->cost / (double)f->baseline_cost - 1 : 0;
    snprintf(text, size, "peak %s%s%s, without rematerialization %s; %s more %s",
             ckm_i_style_bytes(f->peak_bytes, peak), f->budget_bytes >= 0 ? " within a budget of " : "",
             f->budget_bytes >= 0 ? ckm_i_style_bytes(f->budget_bytes, budget) : "",
             ckm_i_style_bytes(f->baseline_peak_bytes, whole), ckm_i_style_percent(overhead, extra),
             ckm_schedule_transfer_count(f->schedule) > 0 ? "time" : "computation");
    return text;
}

int32_t ckm_i_figure_live(const ckm_emit_facts *f, int64_t moment, int32_t *lives, int32_t room)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->n_lives && f->lives[i].first <= moment; i++) {
        const ckm_emit_life *life = &f->lives[i];
        if (life->last < moment || (life->handed_over && life->first == moment)) {
            continue;
        }
        // Keeps the largest, by insertion: `room` is small.
        int32_t at = n < room ? n : room - 1;
        if (n < room || (room > 0 && f->lives[lives[at]].bytes < life->bytes)) {
            for (; at > 0 && f->lives[lives[at - 1]].bytes < life->bytes; at--) {
                lives[at] = lives[at - 1];
            }
            lives[at] = i;
        }
        n++;
    }
    return n;
}

const char *ckm_i_figure_op_name(const ckm_dataflow *df, int32_t op, char *text, size_t size)
{
    ckm_dataflow_op o = ckm_dataflow_get_op(df, op);
    snprintf(text, size, "%s%s%s", o.module, o.module[0] != '\0' ? ": " : "", o.name);
    return text;
}

const char *ckm_i_figure_life_name(const ckm_emit_facts *f, const ckm_emit_life *life, char *text, size_t size)
{
    const char *module = ckm_dataflow_get_op(f->df, life->op).module;
    if (life->tensor >= 0) {
        const char *name = ckm_dataflow_get_tensor(f->df, life->tensor).name;
        snprintf(text, size, "%s%s%s", module, module[0] != '\0' ? ": " : "", name);
        return text;
    }
    size_t used = (size_t)snprintf(text, size, "workspace of ");
    ckm_i_figure_op_name(f->df, life->op, text + used, size - used);
    return text;
}
