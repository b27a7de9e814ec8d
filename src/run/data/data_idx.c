// SPDX-License-Identifier: Apache-2.0
// IDX, the format of MNIST: a big-endian header (two zero bytes, element type, number of dimensions, dimensions),
// then the elements. One file of 8-bit images, one of labels.
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/data.h"
#include "run/data/data_pixels.h"

// Names under which the two files go around, those for tests first.
static const char *const names[][2] = {
    {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
    {"t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
    {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
    {"images-idx3-ubyte", "labels-idx1-ubyte"},
    {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},  // found, to be refused with advice
};
enum { N_NAMES = sizeof names / sizeof names[0], COMPRESSED = N_NAMES - 1, FOR_TESTS = 2, TYPE_U8 = 0x08 };

static const char compressed[] = "the IDX files are compressed; run gunzip on them first";

typedef struct idx_file {
    char *path;
    int fd;  // -1: not open
    int32_t rank;
    int64_t dims[4];
    int64_t data_at;
} idx_file;

typedef struct idx_state {
    idx_file images, labels;
    int64_t height, width;
    int32_t channels;
    uint8_t *pixels;  // one image
    ckm_i_pixels sink;
} idx_state;

// Those for training, unless it `validates` or there are none.
static int find_names(const char *folder, bool validates)
{
    for (int i = 0; i < N_NAMES; i++) {
        int at = validates ? i : (i + FOR_TESTS) % N_NAMES;
        if (ckm_i_data_has_file(folder, names[at][0])) {
            return at;
        }
    }
    return -1;
}

static bool detect(const char *folder)
{
    return find_names(folder, false) >= 0;
}

static ckm_status read_header(idx_file *f, int64_t size, ckm_error *err)
{
    uint8_t start[4];
    uint8_t dims[16];
    int64_t elements = 1;
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, 0, 4, start, err));
    if (start[0] != 0 || start[1] != 0 || start[3] < 1 || start[3] > 4) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, 0, "is not an IDX file of 1 to 4 dimensions");
    }
    if (start[2] != TYPE_U8) {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, f->path, 0, 2,
                              "elements of IDX type 0x%02x; only unsigned bytes (0x08) are read", (unsigned)start[2]);
    }
    f->rank = start[3];
    f->data_at = 4 + 4 * (int64_t)f->rank;
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, 4, 4 * (int64_t)f->rank, dims, err));
    for (int32_t i = 0; i < f->rank; i++) {
        const uint8_t *d = dims + 4 * i;
        f->dims[i] = (int64_t)d[0] << 24 | (int64_t)d[1] << 16 | (int64_t)d[2] << 8 | (int64_t)d[3];
        if (f->dims[i] == 0 || !ckm_i_mul(elements, f->dims[i], &elements)) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, 4 + 4 * (int64_t)i,
                                  "dimension %d is impossible: %lld", (int)i, (long long)f->dims[i]);
        }
    }
    if (size - f->data_at != elements) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1, "holds %lld bytes of data, but its header says %lld",
                              (long long)(size - f->data_at), (long long)elements);
    }
    return CKM_OK;
}

static ckm_status open_idx(idx_file *f, const char *folder, const char *name, ckm_error *err)
{
    int64_t size = 0;
    f->path = ckm_i_data_path(folder, name);
    if (f->path == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_file_open(f->path, &f->fd, &size, err));
    return read_header(f, size, err);
}

// Looks at all labels, so that one out of range is found before training starts.
static ckm_status check_labels(ckm_i_data_source *source, idx_state *s, ckm_error *err)
{
    uint8_t chunk[4096];
    int32_t unused;
    int64_t greatest = -1;
    for (int64_t at = 0; at < source->samples; at += (int64_t)sizeof chunk) {
        int64_t n = source->samples - at < (int64_t)sizeof chunk ? source->samples - at : (int64_t)sizeof chunk;
        CKM_I_CHECK(ckm_i_data_pread(s->labels.fd, s->labels.path, s->labels.data_at + at, n, chunk, err));
        for (int64_t i = 0; i < n; i++) {
            CKM_I_CHECK(ckm_i_data_store_class(source, s->labels.path, at + i, chunk[i], &unused, err));
            greatest = chunk[i] > greatest ? chunk[i] : greatest;
        }
    }
    source->classes = greatest + 1;
    return CKM_OK;
}

static ckm_status check_images(ckm_i_data_source *source, idx_state *s, ckm_error *err)
{
    const idx_file *f = &s->images;
    s->height = f->rank >= 2 ? f->dims[1] : 1;
    s->width = f->rank >= 3 ? f->dims[2] : 1;
    s->channels = f->rank == 4 && f->dims[3] <= 4 ? (int32_t)f->dims[3] : 1;
    if (f->rank < 2 || (f->rank == 4 && f->dims[3] != 1 && f->dims[3] != 3 && f->dims[3] != 4)) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, 3,
                              "holds no images: they need height, width and at most 1, 3 or 4 channels");
    }
    CKM_I_CHECK(ckm_i_pixels_init(&s->sink, source->options, s->height, s->width, s->channels, err));
    if (!source->options->resize && !ckm_i_pixels_fits(&s->sink, s->height, s->width, s->channels)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, f->path, 0, -1,
                              "the images are %lldx%lldx%d (height, width, channels), but the network takes "
                              "%lldx%lldx%d; give it that input shape, or resize the images",
                              (long long)s->height, (long long)s->width, (int)s->channels, (long long)s->sink.height,
                              (long long)s->sink.width, (int)s->sink.channels);
    }
    return CKM_OK;
}

static void close_state(ckm_i_data_source *source)
{
    idx_state *s = source->state;
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        idx_file *f = i == 0 ? &s->images : &s->labels;
        if (f->fd >= 0) {
            close(f->fd);
        }
        free(f->path);
    }
    ckm_i_pixels_dispose(&s->sink);
    free(s->pixels);
    free(s);
    source->state = NULL;
}

static ckm_status count_classes(const char *folder, int64_t *out, ckm_error *err)
{
    const ckm_data_options any = {.labels = {.name = "labels"}};
    ckm_i_data_source source = {.options = &any};
    idx_state s = {.images = {.fd = -1}, .labels = {.fd = -1}};
    int which = find_names(folder, false);
    ckm_status status = CKM_OK;
    if (which == COMPRESSED) {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, folder, 0, -1, "%s", compressed);
    }
    CKM_I_TRY(open_idx(&s.labels, folder, names[which][1], err));
    source.samples = s.labels.rank == 1 ? s.labels.dims[0] : 0;
    CKM_I_TRY(check_labels(&source, &s, err));
    *out = source.classes;
cleanup:
    if (s.labels.fd >= 0) {
        close(s.labels.fd);
    }
    free(s.labels.path);
    return status;
}

static ckm_status open_source(const char *folder, ckm_i_data_source *source, ckm_error *err)
{
    int which = find_names(folder, source->validates);
    if (which == COMPRESSED) {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, folder, 0, -1, "%s", compressed);
    }
    idx_state *s = ckm_i_calloc(1, sizeof *s);
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    s->images.fd = s->labels.fd = -1;
    CKM_I_CHECK(ckm_i_data_require_classes(source->options, "IDX", err));
    CKM_I_CHECK(open_idx(&s->images, folder, names[which][0], err));
    CKM_I_CHECK(open_idx(&s->labels, folder, names[which][1], err));
    if (s->labels.rank != 1 || s->labels.dims[0] != s->images.dims[0]) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, s->labels.path, 0, -1,
                              "holds %lld labels for the %lld images of \"%s\"", (long long)s->labels.dims[0],
                              (long long)s->images.dims[0], names[which][0]);
    }
    source->samples = s->images.dims[0];
    CKM_I_CHECK(check_images(source, s, err));
    CKM_I_CHECK(check_labels(source, s, err));
    int64_t image_bytes = s->height * s->width * s->channels;
    s->pixels = ckm_i_malloc((size_t)image_bytes, 1);
    source->pictures = true;
    source->bytes = image_bytes + s->sink.bytes + (int64_t)sizeof *s;
    return s->pixels != NULL ? CKM_OK : ckm_i_error_memory(err);
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    idx_state *s = source->state;
    uint8_t label;
    int64_t row_bytes = s->width * s->channels;
    int64_t image_bytes = s->height * row_bytes;
    CKM_I_CHECK(ckm_i_data_pread(s->images.fd, s->images.path, s->images.data_at + sample * image_bytes, image_bytes,
                                 s->pixels, err));
    CKM_I_CHECK(ckm_i_data_pread(s->labels.fd, s->labels.path, s->labels.data_at + sample, 1, &label, err));
    s->sink.draw = source->draw;
    ckm_i_pixels_begin(&s->sink, s->height, s->width, s->channels, inputs[0]);
    for (int64_t y = 0; y < s->height; y++) {
        ckm_i_pixels_row(&s->sink, s->pixels + y * row_bytes);
    }
    ckm_i_pixels_end(&s->sink);
    return ckm_i_data_store_class(source, s->labels.path, sample, label, labels, err);
}

const ckm_i_data_format ckm_i_data_format_idx = {
    .name = "idx",
    .summary = "IDX, the format of MNIST: train-images-idx3-ubyte and train-labels-idx1-ubyte (not compressed)",
    .detect = detect,
    .open = open_source,
    .count_classes = count_classes,
    .read = read_sample,
    .close = close_state,
};
