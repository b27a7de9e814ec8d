// SPDX-License-Identifier: Apache-2.0
// Learning rates by step.
#include "run/train/train.h"

#include <math.h>

#include "base/error.h"
#include "base/options.h"

// Halved turns of the circle.
static const double pi = 3.14159265358979323846;

double ckm_i_rate_at(const ckm_rate_schedule *s, int64_t step)
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

ckm_status ckm_i_rate_read(const ckm_rate_schedule *given, ckm_rate_schedule *own, ckm_error *err)
{
    ckm_rate_schedule s = CKM_RATE_SCHEDULE_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_rate_schedule, &s, least, given, err));
    s.rate = ckm_i_usual(s.rate, 0.01);
    s.factor = ckm_i_usual(s.factor, 0.1);
    *own = s;
    return CKM_OK;
}

double ckm_rate_at(const ckm_rate_schedule *schedule, int64_t step)
{
    ckm_rate_schedule own;
    return schedule != NULL && ckm_i_rate_read(schedule, &own, NULL) == CKM_OK ? ckm_i_rate_at(&own, step) : 0.0;
}
