// SPDX-License-Identifier: Apache-2.0
// Warnings about data: pictures that cannot be read and are left out, and other surprises. The reading thread
// records them, and the fetching thread reports them.
#include <stdarg.h>
#include <stdio.h>

#include "run/data/data.h"

void ckm_i_data_leave_out(ckm_i_data_source *source, const ckm_error *why)
{
    ckm_i_left_out *l = source->left_out;
    if (l->kept < CKM_I_LEFT_OUT_KEPT) {
        snprintf(l->why[l->kept].file, sizeof l->why[0].file, "%s", why->file);
        snprintf(l->why[l->kept].message, sizeof l->why[0].message, "%.199s", why->message);
        l->kept++;
    }
    l->n++;
}

void ckm_i_data_note(const ckm_data_options *options, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    if (options->note == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    options->note(CKM_LOG_WARN, line, options->user);
}

void ckm_i_data_tell_left_out(const ckm_i_data_source *source)
{
    ckm_i_left_out *l = source->left_out;
    for (int32_t i = 0; i < l->kept; i++) {
        ckm_i_data_note(source->options, "%s: left out: %s", l->why[i].file, l->why[i].message);
    }
    if (l->n - l->reported > l->kept) {
        ckm_i_data_note(source->options, "%lld more pictures are left out", (long long)(l->n - l->reported - l->kept));
    }
    l->reported = l->n;
    l->kept = 0;
}
