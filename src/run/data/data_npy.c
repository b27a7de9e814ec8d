// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: x.npy and y.npy, the first axis counting samples. Networks with several inputs have one file an
// input, named after it. Bytes (uint8) of an image input are pixels and scaled as such; everything else is taken
// unchanged.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/graph.h"
#include "run/data/data.h"
#include "run/data/data_pixels.h"
#include "run/data/npy_header.h"

static const char *const input_names[] = {"x.npy", "x_train.npy", "images.npy"};
static const char *const label_names[] = {"y.npy", "y_train.npy", "labels.npy"};
enum { N_NAMES = sizeof input_names / sizeof input_names[0], LABELS = CKM_DATA_MAX_INPUTS };

typedef struct npy_file {
    char *path;
    int fd;  // -1: not open
    bool pixels;
    ckm_i_npy_header header;
    int64_t per_sample;  // elements
} npy_file;

typedef struct npy_state {
    npy_file files[CKM_DATA_MAX_INPUTS + 1];  // the last one holds the labels
    uint8_t *buffer;                          // one sample of any file, as stored
    bool has_sink, planar;
    ckm_i_pixels sink;
    uint8_t *row;  // of pixels, colours together
    int32_t source_channels;
    int64_t source_height, source_width;
} npy_state;

static bool detect(const char *folder)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (ckm_i_data_has_file(folder, label_names[i])) {
            return true;
        }
    }
    return false;
}

static void close_state(ckm_i_data_source *source)
{
    npy_state *s = source->state;
    if (s == NULL) {
        return;
    }
    for (int i = 0; i <= LABELS; i++) {
        if (s->files[i].fd >= 0) {
            close(s->files[i].fd);
        }
        free(s->files[i].path);
    }
    if (s->has_sink) {
        ckm_i_pixels_dispose(&s->sink);
    }
    free(s->row);
    free(s->buffer);
    free(s);
    source->state = NULL;
}

static ckm_status open_npy(npy_file *f, const char *folder, const char *name, ckm_error *err)
{
    char start[CKM_I_NPY_START];
    int64_t size = 0;
    f->path = ckm_i_data_path(folder, name);
    if (f->path == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_file_open(f->path, &f->fd, &size, err));
    int64_t n = size < (int64_t)sizeof start ? size : (int64_t)sizeof start;
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, 0, n, start, err));
    CKM_I_CHECK(ckm_i_npy_parse(start, (size_t)n, size, f->path, &f->header, err));
    if (f->header.shape.rank < 1 || f->header.elements == 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1, "holds no samples: the array has no elements");
    }
    f->per_sample = f->header.elements / f->header.shape.dims[0];
    return CKM_OK;
}

// Shape of one sample: all axes but the first.
static ckm_shape sample_shape(const npy_file *f)
{
    ckm_shape shape = {f->header.shape.rank - 1, {0}};
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = f->header.shape.dims[i + 1];
    }
    return shape;
}

// Are these the same shape but for ones? (N,1) labels for one a sample.
static bool same_but_for_ones(const ckm_shape *a, const ckm_shape *b)
{
    int32_t i = 0;
    int32_t k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1) {
            i++;
        }
        while (k < b->rank && b->dims[k] == 1) {
            k++;
        }
        if (i == a->rank || k == b->rank) {
            return i == a->rank && k == b->rank;
        }
        if (a->dims[i++] != b->dims[k++]) {
            return false;
        }
    }
}

static ckm_status wrong_shape(const npy_file *f, const ckm_data_field *field, const ckm_data_options *options,
                              ckm_error *err)
{
    char have[128];
    char want[128];
    ckm_shape shape = sample_shape(f);
    const char *advice = "";
    if (shape.rank == 3 && field->shape.rank == 3 && ckm_i_data_elements(field) == f->per_sample) {
        advice = options->layout == CKM_CHANNELS_LAST ? "; move the channels to the end: x.transpose(0, 2, 3, 1)"
                                                      : "; move the channels to the front: x.transpose(0, 3, 1, 2)";
    }
    return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                          "a sample has shape %s, but \"%.100s\" of the network takes %s%s",
                          ckm_i_shape_text(&shape, have, sizeof have), field->name,
                          ckm_i_shape_text(&field->shape, want, sizeof want), advice);
}

static bool is_colours(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

// Finds height, width and channels of 8-bit samples: HxW, HxWxC, CxHxW, or one row. False for anything else.
static bool pixel_geometry(npy_state *s, const ckm_shape *shape, ckm_layout layout)
{
    s->planar = shape->rank == 3 && is_colours(shape->dims[0]) &&
                (layout == CKM_CHANNELS_FIRST || !is_colours(shape->dims[2]));
    int height_at = s->planar ? 1 : 0;
    if (shape->rank < 1 || shape->rank > 3 || (shape->rank == 3 && !s->planar && !is_colours(shape->dims[2]))) {
        return false;
    }
    s->source_height = shape->rank == 1 ? 1 : shape->dims[height_at];
    s->source_width = shape->rank == 1 ? shape->dims[0] : shape->dims[height_at + 1];
    s->source_channels = shape->rank == 3 ? (int32_t)shape->dims[s->planar ? 0 : 2] : 1;
    return true;
}

// Bytes for a floating image input go through the pixel path.
static ckm_status open_pixels(ckm_i_data_source *source, npy_state *s, npy_file *f, ckm_error *err)
{
    CKM_I_CHECK(
        ckm_i_pixels_init(&s->sink, source->options, s->source_height, s->source_width, s->source_channels, err));
    s->has_sink = true;
    f->pixels = true;
    source->pictures = s->source_height > 1 && ckm_i_data_elements(&source->options->labels) == 1;
    if (!source->options->resize &&
        !ckm_i_pixels_fits(&s->sink, s->source_height, s->source_width, s->source_channels)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                              "the images are %lldx%lldx%d (height, width, channels), but the network takes "
                              "%lldx%lldx%d; give it that input shape, or resize the images",
                              (long long)s->source_height, (long long)s->source_width, (int)s->source_channels,
                              (long long)s->sink.height, (long long)s->sink.width, (int)s->sink.channels);
    }
    int64_t row_bytes = s->source_width * s->source_channels;
    s->row = ckm_i_malloc((size_t)row_bytes, 1);
    source->bytes += s->sink.bytes + row_bytes;
    return s->row != NULL ? CKM_OK : ckm_i_error_memory(err);
}

static bool is_real(ckm_i_npy_type type)
{
    return type == CKM_I_NPY_F4 || type == CKM_I_NPY_F8;
}

static ckm_status check_input(ckm_i_data_source *source, npy_state *s, int32_t i, ckm_error *err)
{
    npy_file *f = &s->files[i];
    const ckm_data_field *field = &source->options->inputs[i];
    ckm_shape shape = sample_shape(f);
    if (field->dtype == CKM_F32 && f->header.type == CKM_I_NPY_U1 && i == 0 &&
        pixel_geometry(s, &shape, source->options->layout)) {
        return open_pixels(source, s, f, err);
    }
    if (field->dtype != CKM_F32 && is_real(f->header.type)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                              "holds reals, but \"%.100s\" of the network takes integers", field->name);
    }
    return same_but_for_ones(&shape, &field->shape) ? CKM_OK : wrong_shape(f, field, source->options, err);
}

static ckm_status check_labels(ckm_i_data_source *source, npy_state *s, ckm_error *err)
{
    const npy_file *f = &s->files[LABELS];
    const ckm_data_field *field = &source->options->labels;
    ckm_shape shape = sample_shape(f);
    if (field->dtype == CKM_I32 && is_real(f->header.type)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                              "holds reals, but labels are classes; save them as integers, y.astype('int64')");
    }
    // A map of classes may have its axes apart or in one.
    bool flat = field->dtype == CKM_I32 && f->per_sample == ckm_i_data_elements(field);
    return flat || same_but_for_ones(&shape, &field->shape) ? CKM_OK : wrong_shape(f, field, source->options, err);
}

// Which of the names the folder has.
static int find_labels(const char *folder)
{
    int which = 0;
    while (which < N_NAMES - 1 && !ckm_i_data_has_file(folder, label_names[which])) {
        which++;
    }
    return which;
}

static ckm_status open_files(const char *folder, ckm_i_data_source *source, npy_state *s, ckm_error *err)
{
    const ckm_data_options *o = source->options;
    char name[512];
    int which = find_labels(folder);
    CKM_I_CHECK(open_npy(&s->files[LABELS], folder, label_names[which], err));
    for (int32_t i = 0; i < o->n_inputs; i++) {
        if (o->n_inputs == 1) {
            snprintf(name, sizeof name, "%s", input_names[which]);
        } else {
            snprintf(name, sizeof name, "%.400s.npy", o->inputs[i].name);
        }
        // Names come from the network's file.
        if (strchr(name, '/') != NULL) {
            return ckm_i_error_at(
                err, CKM_ERR_UNSUPPORTED, folder, 0, -1,
                "input \"%.200s\" of the network has a slash in its name, so no file can be named after it",
                o->inputs[i].name);
        }
        CKM_I_CHECK(open_npy(&s->files[i], folder, name, err));
        if (s->files[i].header.shape.dims[0] != s->files[LABELS].header.shape.dims[0]) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, s->files[i].path, 0, -1,
                                  "holds %lld samples, but \"%s\" holds %lld",
                                  (long long)s->files[i].header.shape.dims[0], label_names[which],
                                  (long long)s->files[LABELS].header.shape.dims[0]);
        }
        CKM_I_CHECK(check_input(source, s, i, err));
    }
    return check_labels(source, s, err);
}

static float real_at(ckm_i_npy_type type, const uint8_t *at)
{
    float single;
    double twice;
    if (type == CKM_I_NPY_F4) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    if (type == CKM_I_NPY_F8) {
        memcpy(&twice, at, sizeof twice);
        return (float)twice;
    }
    return (float)ckm_i_npy_integer(type, at);
}

// Converts the stored elements of one sample to those of the field, checking integers' range.
static ckm_status convert(const npy_file *f, const ckm_data_field *field, const uint8_t *stored, bool labels,
                          int64_t sample, void *out, ckm_error *err)
{
    ckm_i_npy_type type = f->header.type;
    for (int64_t e = 0; e < f->per_sample; e++) {
        const uint8_t *at = stored + e * f->header.item_bytes;
        if (field->dtype == CKM_F32) {
            ((float *)out)[e] = real_at(type, at);
            continue;
        }
        int64_t value = ckm_i_npy_integer(type, at);
        bool wide = field->dtype == CKM_I64;
        int64_t most = field->limit > 0 ? field->limit - 1 : wide ? INT64_MAX : INT32_MAX;
        int64_t least = labels ? -1 : field->limit > 0 ? 0 : wide ? INT64_MIN : INT32_MIN;
        if (value > most || value < least) {
            return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                                  "sample %lld: %s %lld is out of range: the network takes %lld to %lld%s",
                                  (long long)sample, labels ? "label" : "value", (long long)value,
                                  (long long)(labels ? 0 : least), (long long)most, labels ? ", and -1 for none" : "");
        }
        if (field->dtype == CKM_I64) {
            ((int64_t *)out)[e] = value;
        } else {
            ((int32_t *)out)[e] = (int32_t)value;
        }
    }
    return CKM_OK;
}

static ckm_status greatest_label(const npy_file *f, int64_t *greatest, ckm_error *err)
{
    uint8_t piece[8192];
    int64_t item = f->header.item_bytes;
    int64_t most = (int64_t)sizeof piece / item;
    for (int64_t at = 0; at < f->header.elements; at += most) {
        int64_t n = f->header.elements - at < most ? f->header.elements - at : most;
        CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, f->header.data_at + at * item, n * item, piece, err));
        for (int64_t i = 0; i < n; i++) {
            int64_t label = ckm_i_npy_integer(f->header.type, piece + i * item);
            *greatest = label > *greatest ? label : *greatest;
        }
    }
    return *greatest < INT32_MAX
               ? CKM_OK
               : ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                                "label %lld is out of range: classes are counted from 0", (long long)*greatest);
}

static ckm_status count_classes(const char *folder, int64_t *out, ckm_error *err)
{
    npy_file f = {.fd = -1};
    int64_t greatest = -1;
    ckm_status status = CKM_OK;
    CKM_I_TRY(open_npy(&f, folder, label_names[find_labels(folder)], err));
    if (!is_real(f.header.type)) {
        CKM_I_TRY(greatest_label(&f, &greatest, err));
    }
    *out = greatest + 1;
cleanup:
    if (f.fd >= 0) {
        close(f.fd);
    }
    free(f.path);
    return status;
}

static ckm_status read_stored(npy_state *s, const npy_file *f, int64_t sample, ckm_error *err)
{
    int64_t bytes = f->per_sample * f->header.item_bytes;
    return ckm_i_data_pread(f->fd, f->path, f->header.data_at + sample * bytes, bytes, s->buffer, err);
}

// Looks at all labels before training starts, when there is one a sample.
static ckm_status check_label_range(ckm_i_data_source *source, npy_state *s, ckm_error *err)
{
    const npy_file *f = &s->files[LABELS];
    const ckm_data_field *field = &source->options->labels;
    for (int64_t i = 0; field->dtype == CKM_I32 && f->per_sample == 1 && i < source->samples; i++) {
        int32_t value = 0;
        CKM_I_CHECK(read_stored(s, f, i, err));
        CKM_I_CHECK(convert(f, field, s->buffer, true, i, &value, err));
        source->classes = value >= source->classes ? (int64_t)value + 1 : source->classes;
    }
    return CKM_OK;
}

static ckm_status open_source(const char *folder, ckm_i_data_source *source, ckm_error *err)
{
    npy_state *s = ckm_i_calloc(1, sizeof *s);
    int64_t largest = 0;
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int i = 0; i <= LABELS; i++) {
        s->files[i].fd = -1;
    }
    CKM_I_CHECK(open_files(folder, source, s, err));
    for (int i = 0; i <= LABELS; i++) {
        int64_t bytes = s->files[i].per_sample * s->files[i].header.item_bytes;
        largest = bytes > largest ? bytes : largest;
    }
    s->buffer = ckm_i_malloc((size_t)largest, 1);
    if (s->buffer == NULL) {
        return ckm_i_error_memory(err);
    }
    source->bytes += largest + (int64_t)sizeof *s;
    source->samples = s->files[LABELS].header.shape.dims[0];
    return check_label_range(source, s, err);
}

static void read_pixels(npy_state *s, void *out)
{
    int64_t row_bytes = s->source_width * s->source_channels;
    int64_t plane = s->source_height * s->source_width;
    ckm_i_pixels_begin(&s->sink, s->source_height, s->source_width, s->source_channels, out);
    for (int64_t y = 0; y < s->source_height; y++) {
        for (int64_t i = 0; s->planar && i < row_bytes; i++) {
            s->row[i] = s->buffer[i % s->source_channels * plane + y * s->source_width + i / s->source_channels];
        }
        ckm_i_pixels_row(&s->sink, s->planar ? s->row : s->buffer + y * row_bytes);
    }
    ckm_i_pixels_end(&s->sink);
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    npy_state *s = source->state;
    for (int32_t i = 0; i < source->options->n_inputs; i++) {
        const npy_file *f = &s->files[i];
        CKM_I_CHECK(read_stored(s, f, sample, err));
        if (f->pixels) {
            s->sink.draw = source->draw;
            read_pixels(s, inputs[i]);
        } else {
            CKM_I_CHECK(convert(f, &source->options->inputs[i], s->buffer, false, sample, inputs[i], err));
        }
    }
    const npy_file *f = &s->files[LABELS];
    CKM_I_CHECK(read_stored(s, f, sample, err));
    return convert(f, &source->options->labels, s->buffer, true, sample, labels, err);
}

const ckm_i_data_format ckm_i_data_format_npy = {
    .name = "npy",
    .summary = "NumPy arrays x.npy and y.npy; with several inputs one file each, named after it, and y.npy",
    .detect = detect,
    .open = open_source,
    .count_classes = count_classes,
    .read = read_sample,
    .close = close_state,
};
