// SPDX-License-Identifier: Apache-2.0
#include "formula_check.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run/backend/backend.h"

static const char *const range_names[N_RANGES] = {"unit", "wide",  "zeros", "subnormal", "ties", "shifted",
                                                  "big",  "large", "huge",  "hidden",    "holes"};

uint64_t formula_mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

float formula_number(formula_range r, uint64_t seed, int i)
{
    static const float ties[] = {-1.0F, 0.5F, -0.0F, 0.0F, 0.5F, 1.0F, -0.5F, 1.0F};
    uint64_t drawn = formula_mixed((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) +
                                   (seed + 1) * UINT64_C(0xda942042e4dd58b5));
    float unit = (float)(drawn >> 40) * 0x1p-23F - 1.0F;
    switch (r) {
    case WIDE:
        return drawn % 5 == 0 ? (drawn % 10 == 0 ? 250.0F : -250.0F) : 90.0F * unit;
    case ZEROS:
        return drawn % 2 == 0 ? 0.0F : -0.0F;
    case SUBNORMAL:
        return 1e-39F * unit;
    case TIES:
        return ties[drawn % 8];
    case SHIFTED:
        return 1000.0F + unit;
    case BIG:
        return 1e17F * unit;
    case LARGE:
        return 1e25F * unit;
    case HUGE_ONES:
        return drawn % 2 == 0 ? 3e38F : 3e38F * unit;
    case HIDDEN:
        return drawn % 3 == 0 ? -INFINITY : 4.0F * unit;
    case HOLES:
        return drawn % 41 == 0 ? NAN : drawn % 41 == 1 ? INFINITY : drawn % 41 == 2 ? -INFINITY : unit;
    case UNIT:
    case N_RANGES:
        break;
    }
    return unit;
}

void formula_fill(float *x, int n, formula_range r, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        x[i] = formula_number(r, seed, i);
    }
}

void formula_want(formula_wanted *w, int i, double value, double size)
{
    w->value[i] = value;
    w->size[i] = size;
    w->n = i + 1 > w->n ? i + 1 : w->n;
}

// Neither finite: infinite or NaN, as the kernel likes.
void formula_want_no_number(formula_wanted *w, int i)
{
    formula_want(w, i, NAN, INFINITY);
}

// `lost`: numbers below it may be 0.
void formula_compare(const char *what, const float *got, const formula_wanted *w, double lost)
{
    const double tolerance = 4e-6;
    for (int i = 0; i < w->n; i++) {
        double value = w->value[i];
        double far = fabs((double)got[i] - value);
        bool beyond = fabs(value) >= 0.99999 * (double)FLT_MAX && isinf(got[i]) && (got[i] > 0.0F) == (value > 0.0);
        bool same = isnan(value) ? isnan(got[i]) || (w->size[i] == INFINITY && isinf(got[i]))
                                 : (double)got[i] == value || beyond;
        if (!same && !(far <= tolerance * fmax(w->size[i], fabs(value)) + lost + 2e-45)) {
            fail_msg("%s: element %d is %.9g, not %.9g (made of %.3g)", what, i, (double)got[i], value, w->size[i]);
        }
    }
}

// The last operator of a script.
void formula_run(const char *backend_name, const char *script, ckm_layout layout, formula_operands *o)
{
    kernel_script s;
    ckm_i_backend *backend = NULL;
    ckm_i_kernel *kernel = NULL;
    int64_t bytes = 0;
    void *outputs[FORMULA_RESULTS] = {o->out[0], o->out[1], o->out[2]};
    kernel_script_read(&s, script, layout);
    int32_t op = s.graph->n_ops - 1;
    assert_true(s.graph->ops[op].n_outputs <= FORMULA_RESULTS);
    assert_int_equal(ckm_i_backend_create(backend_name, 2, &backend, NULL), CKM_OK);
    assert_int_equal(backend->prepare(backend, s.graph, op, &kernel, &bytes, NULL), CKM_OK);
    void *workspace = aligned_alloc(64, ((size_t)bytes / 64 + 1) * 64);
    assert_non_null(workspace);
    ckm_i_kernel_call call = {.inputs = o->in, .outputs = outputs, .workspace = workspace, .op = op};
    assert_int_equal(backend->run(backend, kernel, &call, NULL), CKM_OK);
    backend->free_kernel(backend, kernel);
    ckm_i_backend_destroy(backend);
    free(workspace);
    kernel_script_free(&s);
}

// Both back ends on the same operands: results in `o` and compared with what is wanted of each of them.
void formula_check(const char *script, ckm_layout layout, formula_range r, formula_operands *o, const formula_wanted *w,
                   int n, double lost)
{
    static const char *const backends[] = {"reference", "cpu"};
    for (int b = 0; b < 2; b++) {
        formula_run(backends[b], script, layout, o);
        for (int k = 0; k < n; k++) {
            char what[400];
            snprintf(what, sizeof what, "%s on %s, %s numbers, output %d", script, backends[b], range_names[r], k);
            formula_compare(what, o->out[k], &w[k], lost);
        }
    }
}

const char *formula_range_name(formula_range r)
{
    return range_names[r];
}
