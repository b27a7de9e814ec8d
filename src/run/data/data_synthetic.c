// SPDX-License-Identifier: Apache-2.0
// Generated samples. Every class has its own waves, under noise: a network can learn to tell the classes
// apart. In texts most tokens follow from the one before. A sample depends on its number only.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "run/data/data.h"

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

// One wave along the first axis of [n, inner].
static void add_wave(const float *wave, int64_t n, int64_t inner, float *out)
{
    if (inner == 1) {
        for (int64_t i = 0; i < n; i++) {
            out[i] += 0.5F * wave[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < inner; k++) {
            out[i * inner + k] += 0.5F * wave[i];
        }
    }
}

// Adds, over all elements, a wave along each axis: `out` is a tensor of the field's shape.
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
        for (float *row = out; row < out + elements; row += n * inner) {
            add_wave(s->waves, n, inner, row);
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

// A text: seven tokens in eight follow from the one before. Gives the token that comes after it.
static int32_t fill_text(const ckm_data_field *field, uint64_t sample, int32_t *tokens)
{
    int64_t n = ckm_i_data_elements(field);
    uint64_t limit = field->limit > 0 ? (uint64_t)field->limit : 2;
    ckm_i_rng rng = {hash(sample, 11)};
    uint64_t token = ckm_i_rng_next(&rng) % limit;
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)token;
        uint64_t draw = ckm_i_rng_next(&rng);
        token = (draw & 7) != 0 ? hash(token, 13) % limit : (draw >> 8) % limit;
    }
    return (int32_t)token;
}

// Every position's label is the token after it.
static void fill_next_tokens(const ckm_data_options *o, uint64_t sample, int32_t *tokens, int32_t *labels)
{
    int64_t n = ckm_i_data_elements(&o->inputs[0]);
    int32_t after = fill_text(&o->inputs[0], sample, tokens);
    for (int64_t i = 0; i < n; i++) {
        labels[i] = i + 1 < n ? tokens[i + 1] : after;
    }
}

// 15 % of the tokens, at least one, are replaced by a mask token and are what the labels ask for (Devlin et
// al. 2019, "BERT", section 3.1).
static void fill_masked_tokens(const ckm_data_options *o, uint64_t sample, int32_t *tokens, int32_t *labels)
{
    enum { MASK = 103 };  // of the published vocabulary
    int64_t n = ckm_i_data_elements(&o->inputs[0]);
    int64_t limit = o->inputs[0].limit;
    int32_t mask = limit > MASK ? MASK : (int32_t)(limit > 0 ? limit - 1 : 0);
    int64_t certain = (int64_t)(hash(sample, 15) % (uint64_t)n);
    (void)fill_text(&o->inputs[0], sample, tokens);
    for (int64_t i = 0; i < n; i++) {
        bool hidden = i == certain || unit(hash(sample, 17), (uint64_t)i) < 0.15;
        labels[i] = hidden ? tokens[i] : -1;
        tokens[i] = hidden ? mask : tokens[i];
    }
}

// The image after `time` of 1000 steps of noise with variances from 1e-4 to 0.02 (Ho et al. 2020, "Denoising Diffusion
// Probabilistic Models", equation 4 and section 4); the noise is the target.
static void add_noise(const ckm_data_field *field, uint64_t sample, float *image, float *time, float *noise)
{
    enum { STEPS = 1000 };
    int64_t n = ckm_i_data_elements(field);
    int t = (int)(hash(sample, 19) % STEPS);
    double kept = 1.0;
    for (int i = 0; i <= t; i++) {
        kept *= 1.0 - (1e-4 + (0.02 - 1e-4) * (double)i / (STEPS - 1));
    }
    ckm_i_rng rng = {hash(sample, 21)};
    for (int64_t i = 0; i < n; i++) {
        double radius = sqrt(-2.0 * log(1.0 - ckm_i_rng_unit(&rng)));
        noise[i] = (float)(radius * cos(turn * ckm_i_rng_unit(&rng)));
        image[i] = (float)sqrt(kept) * image[i] + (float)sqrt(1.0 - kept) * noise[i];
    }
    *time = (float)t;
}

// Does the network take what its task is about?
static bool takes(const ckm_data_options *o, int32_t n_inputs, ckm_dtype dtype)
{
    return o->n_inputs >= n_inputs && o->inputs[0].dtype == dtype && o->labels.dtype == dtype &&
           ckm_i_data_elements(&o->inputs[0]) == ckm_i_data_elements(&o->labels);
}

// What the task has labels made from its inputs for; others get a class of the sample.
static void follow_task(const ckm_data_options *o, uint64_t sample, void *const *inputs, void *labels)
{
    if (o->task == CKM_TASK_NEXT_TOKEN && takes(o, 1, CKM_I32)) {
        fill_next_tokens(o, sample, inputs[0], labels);
    } else if (o->task == CKM_TASK_MASKED_TOKEN && takes(o, 1, CKM_I32)) {
        fill_masked_tokens(o, sample, inputs[0], labels);
    } else if (o->task == CKM_TASK_DENOISE && takes(o, 2, CKM_F32) && o->inputs[1].dtype == CKM_F32 &&
               ckm_i_data_elements(&o->inputs[1]) == 1) {
        add_noise(&o->inputs[0], sample, inputs[0], inputs[1], labels);
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
    follow_task(o, (uint64_t)sample, inputs, labels);
    return CKM_OK;
}

const ckm_i_data_format ckm_i_data_format_synthetic = {
    .name = "synthetic",
    .summary = "generated data for any network; give this word instead of a folder",
    .detect = detect,
    .open = open_source,
    .read = read_sample,
    .close = close_source,
};
