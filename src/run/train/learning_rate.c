// SPDX-License-Identifier: Apache-2.0
// Learning rates by step.
#include <checkmate/train.h>
#include <math.h>

#include "base/options.h"

// Halved turns of the circle.
static const double pi = 3.14159265358979323846;

static double rate_at(const ckm_rate_schedule *s, int64_t step)
{
    if (step < s->warmup_steps) {
        return s->rate * (double)(step + 1) / (double)s->warmup_steps;
    }
    if (s->kind == CKM_RATE_STEP && s->every > 0) {
        return s->rate * pow(s->factor, (double)(step / s->every));
    }
    if (s->kind == CKM_RATE_LINEAR || s->kind == CKM_RATE_COSINE) {
        double whole = (double)(s->steps - s->warmup_steps);
        double done = whole > 0 ? (double)(step - s->warmup_steps) / whole : 1.0;
        done = done > 1.0 ? 1.0 : done;
        double left = s->kind == CKM_RATE_LINEAR ? 1.0 - done : 0.5 * (1.0 + cos(pi * done));
        return s->least + (s->rate - s->least) * left;
    }
    return s->rate;
}

double ckm_rate_at(const ckm_rate_schedule *schedule, int64_t step)
{
    ckm_rate_schedule own = CKM_RATE_SCHEDULE_INIT;
    if (schedule == NULL || CKM_I_OPTIONS_READ(ckm_rate_schedule, &own, least, schedule, NULL) != CKM_OK) {
        return 0.0;
    }
    return rate_at(&own, step);
}
