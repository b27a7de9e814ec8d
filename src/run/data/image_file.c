// SPDX-License-Identifier: Apache-2.0
// Which decoder reads which file.
#include "run/data/image_file.h"

#include <string.h>

#include "base/text.h"

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name);
    size_t m = strlen(ending);
    return n > m && ckm_i_text_same(name + n - m, ending);
}

// As .a.png is, and ./a.png is not.
static bool is_hidden(const char *path)
{
    const char *slash = strrchr(path, '/');
    return *(slash != NULL ? slash + 1 : path) == '.';
}

ckm_i_image_kind ckm_i_image_kind_of(const char *name)
{
    if (is_hidden(name)) {
        return CKM_I_IMAGE_NONE;
    }
    if (ends_with(name, ".png")) {
        return CKM_I_IMAGE_PNG;
    }
    return ends_with(name, ".jpg") || ends_with(name, ".jpeg") ? CKM_I_IMAGE_JPEG : CKM_I_IMAGE_NONE;
}

bool ckm_i_image_is_other(const char *name)
{
    static const char *const endings[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic", ".jp2", ".jxl"};
    bool other = false;
    for (size_t i = 0; !is_hidden(name) && i < sizeof endings / sizeof endings[0]; i++) {
        other = other || ends_with(name, endings[i]);
    }
    return other;
}

ckm_status ckm_i_image_memory(const char *path, ckm_i_image_kind kind, int64_t *bytes, ckm_error *err)
{
    return kind == CKM_I_IMAGE_PNG ? ckm_i_image_png(path, NULL, NULL, bytes, err)
                                   : ckm_i_image_jpeg(path, NULL, NULL, bytes, err);
}

ckm_status ckm_i_image_decode(const char *path, ckm_i_image_kind kind, ckm_i_pixels *sink, float *out, ckm_error *err)
{
    int64_t unused;
    return kind == CKM_I_IMAGE_PNG ? ckm_i_image_png(path, sink, out, &unused, err)
                                   : ckm_i_image_jpeg(path, sink, out, &unused, err);
}
