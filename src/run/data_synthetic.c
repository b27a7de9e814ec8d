// SPDX-License-Identifier: Apache-2.0
// Samples made up on the spot. Every class has waves of its own, under noise: a network can learn to tell them
// apart. What a sample is depends on its number only.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "run/data.h"

enum { DEFAULT_SAMPLES = 1024, DEFAULT_CLASSES = 10 };

// Two pi.
static const double turn = 6.283185307179586;

static uint64_t hash(uint64_t a, uint64_t b)
{
    ckm_i_rng rng = {a * UINT64_C(0xd1342543de82ef95) + b};
    return ckm_i_rng_next(&rng);
}

// Uniform in [0, 1).
static double unit(uint64_t a, uint64_t b)
{
    return (double)(hash(a, b) >> 11) * 0x1p-53;
}

static int64_t class_count(const ckm_data_options *options)
{
    return options->labels.limit > 0 ? options->labels.limit : DEFAULT_CLASSES;
}

static bool detect(const char *folder)
{
    (void)folder;
    return false;  // asked for by name
}

// The sines of the waves along one axis: longest dimension of any input.
typedef struct synthetic_state {
    int64_t longest;
    float *waves;
} synthetic_state;

static ckm_status open_source(const char *folder, ckm_i_data_source *source, ckm_error *err)
{
    const ckm_data_options *o = source->options;
    (void)folder;
    synthetic_state *s = ckm_i_calloc(1, sizeof *s);
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t f = 0; f < o->n_inputs; f++) {
        for (int32_t i = 0; i < o->inputs[f].shape.rank; i++) {
            s->longest = o->inputs[f].shape.dims[i] > s->longest ? o->inputs[f].shape.dims[i] : s->longest;
        }
    }
    s->waves = ckm_i_calloc((size_t)s->longest + 1, sizeof *s->waves);
    if (s->waves == NULL) {
        return ckm_i_error_memory(err);
    }
    source->samples = o->synthetic_samples > 0 ? o->synthetic_samples : DEFAULT_SAMPLES;
    // A batch larger than the default gets what it needs; one larger than what was asked for is an error.
    if (o->synthetic_samples <= 0 && source->samples < 4 * o->batch) {
        source->samples = 4 * o->batch;
    }
    source->classes = class_count(o);
    source->bytes = (int64_t)sizeof *s + (s->longest + 1) * (int64_t)sizeof *s->waves;
    return CKM_OK;
}

static void close_source(ckm_i_data_source *source)
{
    synthetic_state *s = source->state;
    if (s != NULL) {
        free(s->waves);
    }
    free(s);
    source->state = NULL;
}

// Multiplies or adds, over all elements, a wave along each axis: `out` is a tensor of the field's shape.
static void add_waves(synthetic_state *s, const ckm_data_field *field, uint64_t class_number, float *out)
{
    int64_t elements = ckm_i_data_elements(field);
    int64_t inner = elements;
    for (int32_t axis = 0; axis < field->shape.rank; axis++) {
        int64_t n = field->shape.dims[axis];
        uint64_t key = class_number * 64 + (uint64_t)axis;
        double cycles = 1.0 + floor(4.0 * unit(key, 1));
        double phase = unit(key, 2);
        inner /= n;
        for (int64_t i = 0; i < n; i++) {
            s->waves[i] = (float)sin(turn * (cycles * (double)i / (double)n + phase));
        }
        for (int64_t e = 0; e < elements; e++) {
            out[e] += 0.5F * s->waves[e / inner % n];
        }
    }
}

static void fill_reals(synthetic_state *s, const ckm_data_field *field, uint64_t class_number, uint64_t sample,
                       bool noise, float *out)
{
    int64_t elements = ckm_i_data_elements(field);
    ckm_i_rng rng = {hash(sample, 7)};
    for (int64_t e = 0; e < elements; e++) {
        out[e] = noise ? (float)(ckm_i_rng_unit(&rng) - 0.5) : 0.0F;
    }
    add_waves(s, field, class_number, out);
}

// Integers: half of them from the few that belong to the class.
static void fill_integers(const ckm_data_field *field, uint64_t class_number, uint64_t sample, void *out)
{
    int64_t elements = ckm_i_data_elements(field);
    uint64_t limit = field->limit > 0 ? (uint64_t)field->limit : 2;
    ckm_i_rng rng = {hash(sample, 9)};
    for (int64_t e = 0; e < elements; e++) {
        uint64_t draw = ckm_i_rng_next(&rng);
        uint64_t value = (draw & 1) != 0 ? hash(class_number, draw >> 61) % limit : (draw >> 8) % limit;
        if (field->dtype == CKM_I64) {
            ((int64_t *)out)[e] = (int64_t)value;
        } else {
            ((int32_t *)out)[e] = (int32_t)value;
        }
    }
}

// A class for every position: the sample's class where its waves are high, the next one elsewhere.
static void fill_map(synthetic_state *s, const ckm_data_options *o, const float *image, uint64_t class_number,
                     uint64_t classes, int32_t *labels)
{
    int64_t positions = ckm_i_data_elements(&o->labels);
    int64_t elements = ckm_i_data_elements(&o->inputs[0]);
    (void)s;
    for (int64_t p = 0; p < positions; p++) {
        int64_t e = positions > 0 ? (int64_t)((double)p / (double)positions * (double)elements) : 0;
        bool high = image != NULL && image[e] > 0.0F;
        labels[p] = (int32_t)((class_number + (high ? 0U : 1U)) % classes);
    }
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    synthetic_state *s = source->state;
    const ckm_data_options *o = source->options;
    uint64_t classes = (uint64_t)source->classes;
    // Many classes: no more than the data can hold a few samples of.
    uint64_t used = classes > 16 ? 16 : classes;
    uint64_t class_number = hash((uint64_t)sample, 3) % used;
    (void)err;
    for (int32_t f = 0; f < o->n_inputs; f++) {
        if (o->inputs[f].dtype == CKM_F32) {
            fill_reals(s, &o->inputs[f], class_number + 1, (uint64_t)sample, true, inputs[f]);
        } else {
            fill_integers(&o->inputs[f], class_number + 1, (uint64_t)sample, inputs[f]);
        }
    }
    if (o->labels.dtype == CKM_F32) {
        int64_t elements = ckm_i_data_elements(&o->labels);
        for (int64_t e = 0; e < elements; e++) {
            ((float *)labels)[e] = (float)(2.0 * unit(class_number, 100 + (uint64_t)e) - 1.0);
        }
    } else if (ckm_i_data_elements(&o->labels) == 1) {
        *(int32_t *)labels = (int32_t)class_number;
    } else {
        fill_map(s, o, o->inputs[0].dtype == CKM_F32 ? inputs[0] : NULL, class_number, classes, labels);
    }
    return CKM_OK;
}

const ckm_i_data_format ckm_i_data_format_synthetic = {
    .name = "synthetic",
    .summary = "made up on the spot for any network; give the word instead of a folder",
    .detect = detect,
    .open = open_source,
    .read = read_sample,
    .close = close_source,
};
