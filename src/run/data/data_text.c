// SPDX-License-Identifier: Apache-2.0
// Texts for networks that predict the next token: a file or a folder of .txt files, whose bytes are the tokens, or an array of
// tokens (.npy) that a tokenizer made. A sample is a window as long as the network's input, and its labels are the tokens that
// follow. Windows do not overlap but in the token that ends one as a label and begins the next.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/data.h"
#include "run/data/npy_header.h"

enum { MOST_FILES = 4096, BYTES_OF_TEXT = 256 };

typedef struct text_file {
    char *path;
    int fd;  // -1: not open
    int64_t data_at, first, tokens;
} text_file;

typedef struct text_state {
    text_file *files;
    int32_t n, cap;
    ckm_i_npy_type type;
    int32_t item_bytes;
    int64_t tokens, window;
    uint8_t *buffer;  // window + 1 tokens as stored
} text_state;

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name);
    size_t m = strlen(ending);
    return n > m && strcasecmp(name + n - m, ending) == 0;
}

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static bool detect_tokens(const char *path)
{
    return is_file(path) && ends_with(path, ".npy");
}

static int is_text(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && ends_with(entry->d_name, ".txt");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool detect_text(const char *path)
{
    DIR *folder = NULL;
    bool found = false;
    if (is_file(path)) {
        return !ends_with(path, ".npy");
    }
    folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && !found && (entry = readdir(folder)) != NULL;) {
        found = is_text(entry) && ckm_i_data_has_file(path, entry->d_name);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

static void free_state(text_state *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        if (s->files[i].fd >= 0) {
            close(s->files[i].fd);
        }
        free(s->files[i].path);
    }
    free(s->files);
    free(s->buffer);
}

static void close_source(ckm_i_data_source *source)
{
    text_state *s = source->state;
    if (s != NULL) {
        free_state(s);
    }
    free(s);
    source->state = NULL;
}

// Opens the file and takes `path`, also on failure.
static ckm_status add_file(text_state *s, char *path, int64_t *size, ckm_error *err)
{
    if (path == NULL) {
        return ckm_i_error_memory(err);
    }
    if (s->n == s->cap) {
        int32_t cap = s->cap > 0 ? 2 * s->cap : 4;
        text_file *files = ckm_i_realloc(s->files, (size_t)cap, sizeof *files);
        if (files == NULL) {
            free(path);
            return ckm_i_error_memory(err);
        }
        s->files = files;
        s->cap = cap;
    }
    text_file *f = &s->files[s->n++];
    *f = (text_file){.path = path, .fd = -1, .first = s->tokens};
    return ckm_i_file_open(path, &f->fd, size, err);
}

static ckm_status add_text(text_state *s, char *path, ckm_error *err)
{
    int64_t size = 0;
    CKM_I_CHECK(add_file(s, path, &size, err));
    s->files[s->n - 1].tokens = size;
    return ckm_i_add(s->tokens, size, &s->tokens)
               ? CKM_OK
               : ckm_i_error_at(err, CKM_ERR_OVERFLOW, path, 0, -1, "the text is too long");
}

static ckm_status add_folder(text_state *s, const char *folder, ckm_error *err)
{
    struct dirent **entries = NULL;
    ckm_status status = CKM_OK;
    int n = scandir(folder, &entries, is_text, by_name);
    if (n < 0) {
        return ckm_i_error_at(err, CKM_ERR_IO, folder, 0, -1, "cannot open: %s", strerror(errno));
    }
    if (n > MOST_FILES) {
        status = ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, folder, 0, -1,
                                "holds %d texts, and %d are read at most: join them", n, MOST_FILES);
        goto cleanup;
    }
    for (int i = 0; i < n; i++) {
        if (ckm_i_data_has_file(folder, entries[i]->d_name)) {
            CKM_I_TRY(add_text(s, ckm_i_data_path(folder, entries[i]->d_name), err));
        }
    }
cleanup:
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

// Bytes, in the order of the files' names.
static ckm_status find_text(text_state *s, const char *path, ckm_error *err)
{
    s->type = CKM_I_NPY_U1;
    s->item_bytes = 1;
    return is_file(path) ? add_text(s, ckm_i_strdup(path), err) : add_folder(s, path, err);
}

static ckm_status find_tokens(text_state *s, const char *path, ckm_error *err)
{
    char start[CKM_I_NPY_START];
    ckm_i_npy_header header;
    int64_t size = 0;
    CKM_I_CHECK(add_file(s, ckm_i_strdup(path), &size, err));
    text_file *f = &s->files[0];
    int64_t n = size < (int64_t)sizeof start ? size : (int64_t)sizeof start;
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, 0, n, start, err));
    CKM_I_CHECK(ckm_i_npy_parse(start, (size_t)n, size, f->path, &header, err));
    if (header.shape.rank != 1 || header.type == CKM_I_NPY_F4 || header.type == CKM_I_NPY_F8) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1,
                              "must hold tokens, one after the other: an array of integers with one axis");
    }
    s->type = header.type;
    s->item_bytes = header.item_bytes;
    f->data_at = header.data_at;
    s->tokens = f->tokens = header.elements;
    return CKM_OK;
}

// Tokens from `at` on, as stored. They may end in another file than they begin in.
static ckm_status read_stored(const text_state *s, int64_t at, int64_t n, uint8_t *out, ckm_error *err)
{
    for (int32_t i = 0; i < s->n && n > 0; i++) {
        const text_file *f = &s->files[i];
        int64_t skip = at - f->first;
        int64_t here = f->tokens - skip < n ? f->tokens - skip : n;
        if (here <= 0) {
            continue;
        }
        CKM_I_CHECK(
            ckm_i_data_pread(f->fd, f->path, f->data_at + skip * s->item_bytes, here * s->item_bytes, out, err));
        out += here * s->item_bytes;
        at += here;
        n -= here;
    }
    return CKM_OK;
}

static ckm_status count_tokens(const char *path, int64_t *out, ckm_error *err)
{
    uint8_t piece[8192];
    text_state s = {0};
    int64_t greatest = -1;
    ckm_status status;
    CKM_I_TRY(find_tokens(&s, path, err));
    int64_t most = (int64_t)sizeof piece / s.item_bytes;
    for (int64_t at = 0; at < s.tokens; at += most) {
        int64_t n = s.tokens - at < most ? s.tokens - at : most;
        CKM_I_TRY(read_stored(&s, at, n, piece, err));
        for (int64_t i = 0; i < n; i++) {
            int64_t token = ckm_i_npy_integer(s.type, piece + i * s.item_bytes);
            greatest = token > greatest ? token : greatest;
        }
    }
    if (greatest >= INT32_MAX) {
        status = ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                "token %lld is out of range: tokens are numbered from 0", (long long)greatest);
    } else {
        *out = greatest + 1;
    }
cleanup:
    free_state(&s);
    return status;
}

static ckm_status count_bytes(const char *path, int64_t *out, ckm_error *err)
{
    (void)path;
    (void)err;
    *out = BYTES_OF_TEXT;
    return CKM_OK;
}

// Does the network read tokens and say one for each?
static ckm_status check_network(const ckm_data_options *o, const char *path, ckm_error *err)
{
    bool reads = o->n_inputs == 1 && o->inputs[0].dtype != CKM_F32 && o->labels.dtype == CKM_I32 &&
                 ckm_i_data_elements(&o->inputs[0]) == ckm_i_data_elements(&o->labels) &&
                 (o->task == CKM_TASK_NEXT_TOKEN || o->task == CKM_TASK_CLASSES);
    if (reads) {
        return CKM_OK;
    }
    bool image = o->inputs[0].dtype == CKM_F32;
    return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                          "is read as a text, for networks that predict the token after each, but this one %s",
                          image                              ? "reads no tokens; give the folder that holds the data"
                          : o->task == CKM_TASK_MASKED_TOKEN ? "predicts hidden tokens; give them as .npy files"
                                                             : "takes something else; give .npy files");
}

static ckm_status open_source(ckm_status (*find)(text_state *s, const char *path, ckm_error *err), const char *path,
                              ckm_i_data_source *source, ckm_error *err)
{
    CKM_I_CHECK(check_network(source->options, path, err));
    text_state *s = ckm_i_calloc(1, sizeof *s);
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(find(s, path, err));
    s->window = ckm_i_data_elements(&source->options->inputs[0]);
    source->samples = (s->tokens - 1) / s->window;
    if (source->samples < 1) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "holds %lld tokens; a window of %lld and the token after it are needed",
                              (long long)s->tokens, (long long)s->window);
    }
    int64_t bytes = (s->window + 1) * s->item_bytes;
    s->buffer = ckm_i_malloc((size_t)bytes, 1);
    source->bytes = bytes + (int64_t)sizeof *s + s->cap * (int64_t)sizeof s->files[0];
    for (int32_t i = 0; i < s->n; i++) {
        source->bytes += (int64_t)strlen(s->files[i].path) + 1;
    }
    return s->buffer != NULL ? CKM_OK : ckm_i_error_memory(err);
}

static ckm_status open_text(const char *path, ckm_i_data_source *source, ckm_error *err)
{
    return open_source(find_text, path, source, err);
}

static ckm_status open_tokens(const char *path, ckm_i_data_source *source, ckm_error *err)
{
    return open_source(find_tokens, path, source, err);
}

// Other windows in every epoch, which do not reach into those that are held back: the last one may be the same.
static int64_t begin_of(const ckm_i_data_source *source, const text_state *s, int64_t sample)
{
    int64_t most = (source->learnt < source->samples ? source->learnt * s->window : s->tokens - 1) - s->window;
    int64_t at = sample * s->window + (int64_t)(source->shift % (uint64_t)s->window);
    return source->shift == 0 || at < most ? at : most;
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    const text_state *s = source->state;
    const ckm_data_field *field = &source->options->inputs[0];
    const ckm_data_field *wanted = &source->options->labels;
    int64_t limit = field->limit > 0 ? field->limit : wanted->limit > 0 ? wanted->limit : INT32_MAX;
    int64_t first = begin_of(source, s, sample);
    CKM_I_CHECK(read_stored(s, first, s->window + 1, s->buffer, err));
    for (int64_t i = 0; i <= s->window; i++) {
        int64_t token = ckm_i_npy_integer(s->type, s->buffer + i * s->item_bytes);
        if (token < 0 || token >= limit) {
            return ckm_i_error_at(err, CKM_ERR_ARGUMENT, s->files[0].path, 0, -1,
                                  "token %lld is %lld, which is out of range: the network takes 0 to %lld",
                                  (long long)(first + i), (long long)token, (long long)(limit - 1));
        }
        if (i < s->window && field->dtype == CKM_I64) {
            ((int64_t *)inputs[0])[i] = token;
        } else if (i < s->window) {
            ((int32_t *)inputs[0])[i] = (int32_t)token;
        }
        if (i > 0) {
            ((int32_t *)labels)[i - 1] = (int32_t)token;
        }
    }
    return CKM_OK;
}

const ckm_i_data_format ckm_i_data_format_text = {
    .name = "text",
    .summary = "a file, or the .txt files of a folder: every byte is a token, and the next one its label",
    .detect = detect_text,
    .open = open_text,
    .continuous = true,
    .count_classes = count_bytes,
    .read = read_sample,
    .close = close_source,
};

const ckm_i_data_format ckm_i_data_format_tokens = {
    .name = "tokens",
    .summary = "a .npy file of integers with one axis: tokens, and the next one is the label",
    .detect = detect_tokens,
    .open = open_tokens,
    .continuous = true,
    .count_classes = count_tokens,
    .read = read_sample,
    .close = close_source,
};
