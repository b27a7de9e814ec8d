// SPDX-License-Identifier: Apache-2.0
// Arrays of tokens outside of training: the file next to one that describes it, and its tokens in memory.
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "run/data/data.h"
#include "run/data/npy_header.h"

#define FORMAT_NAME "checkmate-tokens"

static const char ending[] = ".npy";

// "tokens.json" for "tokens.npy"; NULL where the name ends in something else, or memory is out.
static char *notes_path(const char *path)
{
    size_t n = strlen(path);
    size_t m = sizeof ending - 1;
    if (n <= m || strcmp(path + n - m, ending) != 0) {
        return NULL;
    }
    char *notes = ckm_i_malloc(n + 2, 1);
    if (notes != NULL) {
        memcpy(notes, path, n - m);
        memcpy(notes + n - m, ".json", sizeof ".json");
    }
    return notes;
}

static ckm_status read_notes(const char *path, ckm_data_token_notes *out, ckm_error *err)
{
    static const char *const names[] = {"format", "version", "vocabulary", "tokens", "bytes", "tokenizer"};
    enum { MOST_BYTES = 1 << 20 };
    json_t *root = NULL;
    ckm_data_token_notes notes = {0, 0, 0};
    ckm_i_json_place top = ckm_i_json_root(path);
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_json_read(path, MOST_BYTES, &root, err));
    CKM_I_TRY(ckm_i_json_check_header(root, path, FORMAT_NAME, err));
    CKM_I_TRY(ckm_i_json_check_names(root, &top, names, (int)(sizeof names / sizeof names[0]), err));
    CKM_I_TRY(ckm_i_json_get_int(root, &top, "vocabulary", true, 1, INT32_MAX, &notes.vocabulary, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &top, "tokens", true, 0, INT64_MAX, &notes.tokens, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &top, "bytes", true, 0, INT64_MAX, &notes.bytes, err));
    *out = notes;
cleanup:
    json_decref(root);
    return ckm_i_error_in_file(err, status, path);
}

ckm_status ckm_data_read_token_notes(const char *path, ckm_data_token_notes *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    char *file = notes_path(path);
    ckm_status status = CKM_OK;
    ckm_data_token_notes notes = {0, 0, 0};
    if (file != NULL && access(file, F_OK) == 0) {
        status = read_notes(file, &notes, err);
    }
    free(file);
    if (status == CKM_OK) {
        *out = notes;
    }
    return status;
}

static ckm_status convert(const ckm_i_npy_header *header, const char *path, int fd, int32_t *tokens, int64_t wanted,
                          ckm_error *err)
{
    uint8_t piece[8192];
    const int64_t most = (int64_t)sizeof piece / header->item_bytes;
    for (int64_t at = 0; at < wanted; at += most) {
        int64_t n = wanted - at < most ? wanted - at : most;
        CKM_I_CHECK(
            ckm_i_data_pread(fd, path, header->data_at + at * header->item_bytes, n * header->item_bytes, piece, err));
        for (int64_t i = 0; i < n; i++) {
            int64_t token = ckm_i_npy_integer(header->type, piece + i * header->item_bytes);
            if (token < 0 || token > INT32_MAX) {
                return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                      "token %lld is out of range: tokens are numbered from 0", (long long)token);
            }
            tokens[at + i] = (int32_t)token;
        }
    }
    return CKM_OK;
}

ckm_status ckm_data_read_tokens(const char *path, int32_t *tokens, int64_t room, int64_t *n, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(n, err);
    if (room > 0) {
        CKM_I_NEED(tokens, err);
    }
    char start[CKM_I_NPY_START];
    ckm_i_npy_header header;
    int64_t size = 0;
    int fd = -1;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_file_open(path, &fd, &size, err));
    int64_t first = size < (int64_t)sizeof start ? size : (int64_t)sizeof start;
    CKM_I_TRY(ckm_i_data_pread(fd, path, 0, first, start, err));
    CKM_I_TRY(ckm_i_npy_parse(start, (size_t)first, size, path, &header, err));
    if (header.shape.rank != 1 || header.type == CKM_I_NPY_F4 || header.type == CKM_I_NPY_F8) {
        CKM_I_TRY(ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1,
                                 "must hold tokens, one after the other: an array of integers with one axis"));
    }
    CKM_I_TRY(convert(&header, path, fd, tokens, header.elements < room ? header.elements : room, err));
    *n = header.elements;
cleanup:
    if (fd >= 0) {
        close(fd);
    }
    return status;
}
