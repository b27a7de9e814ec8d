// SPDX-License-Identifier: Apache-2.0
// Training runs in files: parameters and states of a session as safetensors, the place in the training in the
// metadata. Random numbers are counter-based, so seed and step are all there is to their state.
#include <checkmate/train.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/graph.h"
#include "run/data/safetensors.h"
#include "run/session/session.h"
#include "run/train/train.h"

static const char format_name[] = "checkmate-training";

static bool is_kept(const ckm_session_tensor *tensor)
{
    return tensor->role == CKM_ROLE_PARAMETER || tensor->role == CKM_ROLE_STATE;
}

bool ckm_train_is_optimizer_state(const ckm_session *session, int32_t i)
{
    char owner[1024];
    ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
    const char *colon = tensor.role == CKM_ROLE_STATE ? strrchr(tensor.name, ':') : NULL;
    if (colon == NULL || (size_t)(colon - tensor.name) >= sizeof owner) {
        return false;
    }
    memcpy(owner, tensor.name, (size_t)(colon - tensor.name));
    owner[colon - tensor.name] = '\0';
    int32_t found = ckm_session_find_tensor(session, owner);
    return found >= 0 && ckm_session_get_tensor(session, found).role == CKM_ROLE_PARAMETER;
}

ckm_status ckm_i_train_find_not_finite(const ckm_session *session, int32_t *out, ckm_error *err)
{
    float values[1024];
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        ckm_session_tensor t = ckm_session_get_tensor(session, i);
        if (!is_kept(&t) || t.dtype != CKM_F32 || ckm_i_session_is_sum(session, i)) {
            continue;
        }
        for (int64_t at = 0; at < t.bytes; at += (int64_t)sizeof values) {
            int64_t left = t.bytes - at;
            int64_t n = left < (int64_t)sizeof values ? left : (int64_t)sizeof values;
            CKM_I_CHECK(ckm_session_read(session, i, at, n, values, err));
            for (int64_t k = 0; k < n / (int64_t)sizeof *values; k++) {
                if (!isfinite(values[k])) {
                    *out = i;
                    return CKM_OK;
                }
            }
        }
    }
    *out = -1;
    return CKM_OK;
}

ckm_status ckm_i_train_check_finite(const ckm_session *session, const char *path, ckm_error *err)
{
    int32_t broken = -1;
    CKM_I_CHECK(ckm_i_train_find_not_finite(session, &broken, err));
    return broken < 0
               ? CKM_OK
               : ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                "not written: \"%.200s\" has values that are not finite numbers. A lower learning "
                                "rate or a warm-up may help",
                                ckm_session_get_tensor(session, broken).name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ckm_i_safetensor *)a)->name, ((const ckm_i_safetensor *)b)->name);
}

// `user` is the address of the session's.
static ckm_status read_session(void *user, const ckm_i_safetensor *tensor, int64_t at, int64_t bytes, void *out,
                               ckm_error *err)
{
    const ckm_session *const *session = user;
    return ckm_session_read(*session, tensor->id, at, bytes, out, err);
}

// Sorted by name, so that the same state is the same file however the step graph orders it.
static ckm_status write_tensors(const ckm_session *session, const char *path, bool with_optimizer,
                                const ckm_i_safetensors_pair *metadata, int32_t n_metadata, ckm_error *err)
{
    int32_t n = 0;
    int32_t n_tensors = ckm_session_tensor_count(session);
    CKM_I_CHECK(ckm_i_train_check_finite(session, path, err));
    ckm_i_safetensor *list = ckm_i_calloc((size_t)n_tensors, sizeof *list);
    if (list == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        ckm_session_tensor t = ckm_session_get_tensor(session, i);
        if (is_kept(&t) && !ckm_i_session_is_sum(session, i) &&
            (with_optimizer || !ckm_train_is_optimizer_state(session, i))) {
            list[n++] = (ckm_i_safetensor){t.name, t.dtype, t.shape, t.bytes, ckm_i_session_host(session, i), 0, i};
        }
    }
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, by_name);
    }
    ckm_status status = ckm_i_safetensors_write(path, list, n, metadata, n_metadata, read_session, &session, err);
    free(list);
    return status;
}

ckm_status ckm_train_save(const ckm_session *session, const char *path, const ckm_train_place *place, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    CKM_I_NEED(place, err);
    char step[32];
    char seed[32];
    char batch[32];
    snprintf(step, sizeof step, "%lld", (long long)place->step);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)place->seed);
    snprintf(batch, sizeof batch, "%lld", (long long)place->batch);
    const ckm_i_safetensors_pair metadata[] = {
        {"format", format_name}, {"version", "1"},
        {"step", step},          {"seed", seed},
        {"batch", batch},        {"network", place->network},
        {"rng", "counter"},      {"optimizer", place->optimizer},
    };
    return write_tensors(session, path, true, metadata, (int32_t)(sizeof metadata / sizeof metadata[0]), err);
}

ckm_status ckm_train_export(const ckm_session *session, const char *path, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    const ckm_i_safetensors_pair metadata[] = {{"format", "pt"}};
    return write_tensors(session, path, false, metadata, 1, err);
}

static ckm_status read_number(const ckm_i_safetensors *file, const char *path, const char *key, uint64_t most,
                              uint64_t *out, ckm_error *err)
{
    const char *text = ckm_i_safetensors_metadata(file, key);
    char *end = NULL;
    errno = 0;
    unsigned long long value = text != NULL && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || value > most) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "__metadata__.%s: must be a number, got \"%.40s\"", key,
                              text != NULL ? text : "nothing");
    }
    *out = value;
    return CKM_OK;
}

static ckm_status read_place(const ckm_i_safetensors *file, const char *path, ckm_train_place *out, ckm_error *err)
{
    ckm_train_place place = {0};
    uint64_t step = 0;
    uint64_t batch = 0;
    ckm_status status = CKM_OK;
    const char *format = ckm_i_safetensors_metadata(file, "format");
    const char *network = ckm_i_safetensors_metadata(file, "network");
    const char *optimizer = ckm_i_safetensors_metadata(file, "optimizer");
    if (format == NULL || strcmp(format, format_name) != 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1,
                              "holds no training run to resume (its metadata lack format \"%s\"); it may hold weights",
                              format_name);
    }
    CKM_I_TRY(read_number(file, path, "step", INT64_MAX, &step, err));
    CKM_I_TRY(read_number(file, path, "seed", UINT64_MAX, &place.seed, err));
    CKM_I_TRY(read_number(file, path, "batch", INT64_MAX, &batch, err));
    place.step = (int64_t)step;
    place.batch = (int64_t)batch;
    snprintf(place.network, sizeof place.network, "%s", network != NULL ? network : "");
    snprintf(place.optimizer, sizeof place.optimizer, "%s", optimizer != NULL ? optimizer : "");
    *out = place;
cleanup:
    return status;
}

ckm_status ckm_train_read_place(const char *path, ckm_train_place *place, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(place, err);
    ckm_i_safetensors *file = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    CKM_I_TRY(read_place(file, path, place, err));
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

// Does what the file holds under this name fit the session's tensor?
static ckm_status check_tensor(const ckm_i_safetensor *found, const ckm_session_tensor *wanted, const char *path,
                               ckm_error *err)
{
    char have[128];
    char want[128];
    bool same = found->dtype == wanted->dtype && found->shape.rank == wanted->shape.rank &&
                found->bytes == wanted->bytes;
    for (int32_t d = 0; same && d < wanted->shape.rank; d++) {
        same = found->shape.dims[d] == wanted->shape.dims[d];
    }
    if (!same) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "tensor \"%.200s\" has shape %s and %lld bytes, but the network's has %s and %lld bytes",
                              wanted->name, ckm_i_shape_text(&found->shape, have, sizeof have), (long long)found->bytes,
                              ckm_i_shape_text(&wanted->shape, want, sizeof want), (long long)wanted->bytes);
    }
    return CKM_OK;
}

static ckm_status read_tensor(ckm_session *session, int32_t i, const ckm_i_safetensors *file,
                              const ckm_i_safetensor *found, ckm_error *err)
{
    char piece[16 << 10];
    void *host = ckm_i_session_host(session, i);
    if (host != NULL) {
        return ckm_i_safetensors_read(file, found, host, err);
    }
    for (int64_t at = 0; at < found->bytes; at += (int64_t)sizeof piece) {
        int64_t left = found->bytes - at;
        int64_t n = left < (int64_t)sizeof piece ? left : (int64_t)sizeof piece;
        CKM_I_CHECK(ckm_i_safetensors_read_part(file, found, at, n, piece, err));
        CKM_I_CHECK(ckm_session_write(session, i, at, n, piece, err));
    }
    return CKM_OK;
}

// Reads the session's tensors from the file. All are looked up and checked before the first is read.
static ckm_status read_tensors(ckm_session *session, const ckm_i_safetensors *file, const char *path, bool everything,
                               bool *valued, int32_t *n_read, ckm_error *err)
{
    int32_t n = ckm_session_tensor_count(session);
    int32_t n_found = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < n; i++) {
            ckm_session_tensor t = ckm_session_get_tensor(session, i);
            if (!is_kept(&t) || ckm_i_session_is_sum(session, i)) {
                continue;
            }
            const ckm_i_safetensor *found = ckm_i_safetensors_find(file, t.name);
            if (found == NULL && everything) {
                return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                      "tensor \"%.200s\" is missing: the file is of another network or optimizer",
                                      t.name);
            }
            if (found == NULL) {
                continue;
            }
            CKM_I_CHECK(pass == 0 ? check_tensor(found, &t, path, err) : read_tensor(session, i, file, found, err));
            n_found += pass;
            if (valued != NULL) {
                valued[i] = true;
            }
        }
    }
    *n_read = n_found;
    return CKM_OK;
}

ckm_status ckm_train_load(ckm_session *session, const char *path, ckm_train_place *out, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    CKM_I_NEED_NAMED(out, "place", err);
    ckm_i_safetensors *file = NULL;
    ckm_train_place place;
    int32_t n_read = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    CKM_I_TRY(read_place(file, path, &place, err));
    CKM_I_TRY(read_tensors(session, file, path, true, NULL, &n_read, err));
    *out = place;
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

ckm_status ckm_i_train_load_weights(ckm_session *session, const char *path, bool *valued, int32_t *n_read,
                                    ckm_error *err)
{
    ckm_i_safetensors *file = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    CKM_I_TRY(read_tensors(session, file, path, false, valued, n_read, err));
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

ckm_status ckm_train_load_weights(ckm_session *session, const char *path, int32_t *n_read, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    CKM_I_NEED(n_read, err);
    return ckm_i_train_load_weights(session, path, NULL, n_read, err);
}
