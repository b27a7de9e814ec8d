// SPDX-License-Identifier: Apache-2.0
// Training runs in files: parameters and states of a session as safetensors, the place in the training in the
// metadata. Random numbers are counter-based, so seed and step are all there is to their state. A checksum covers it all.
#include <checkmate/train.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/text.h"
#include "graph/graph.h"
#include "run/data/safetensors.h"
#include "run/session/session.h"
#include "run/train/train.h"

static const char format_name[] = "checkmate-training";
static const char format_version[] = "2";
static const char rng_name[] = "counter";
enum { PIECE = 16 << 10 };  // bytes that are read or checked at a time

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

// ---- names in files

// Whether another tensor of the session has this one's name.
static bool shares_name(const ckm_session *session, int32_t i)
{
    const char *name = ckm_session_get_tensor(session, i).name;
    for (int32_t k = 0; k < ckm_session_tensor_count(session); k++) {
        if (k != i && strcmp(ckm_session_get_tensor(session, k).name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_plain(const char *name)
{
    while (*name != '\0') {
        size_t n = ckm_i_text_utf8(name);
        if (n == 0) {
            return false;
        }
        name += n;
    }
    return true;
}

// The tensor's name in files: its own, unless the format cannot have it there: what is no UTF-8, the name of the metadata, and
// an optimizer's state that is called like a parameter. The caller frees it; NULL: out of memory.
static char *file_name(const ckm_session *session, int32_t i)
{
    static const char escaped[] = "checkmate-name:";
    static const char state[] = "checkmate-state:";
    const char *name = ckm_session_get_tensor(session, i).name;
    bool is_state = ckm_train_is_optimizer_state(session, i) && shares_name(session, i);
    if (!is_state && is_plain(name) && strcmp(name, "__metadata__") != 0 &&
        strncmp(name, escaped, sizeof escaped - 1) != 0 && strncmp(name, state, sizeof state - 1) != 0) {
        return ckm_i_strdup(name);
    }
    char *out = ckm_i_malloc(sizeof state + 3 * strlen(name), 1);
    if (out == NULL) {
        return NULL;
    }
    char *to = out + sprintf(out, "%s", is_state ? state : escaped);
    for (const char *c = name; *c != '\0'; c++) {
        bool as_it_is = *c > 0x20 && *c < 0x7f && *c != '%';
        to += as_it_is ? sprintf(to, "%c", *c) : sprintf(to, "%%%02x", (unsigned char)*c);
    }
    return out;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ckm_i_safetensor *)a)->name, ((const ckm_i_safetensor *)b)->name);
}

// The tensors of a file, sorted by name, so that the same state gives the same file for any order in the step graph.
static ckm_status list_tensors(const ckm_session *session, const char *path, bool with_optimizer,
                               ckm_i_safetensor **out, int32_t *n_out, ckm_error *err)
{
    int32_t n = 0;
    int32_t n_tensors = ckm_session_tensor_count(session);
    ckm_status status = CKM_OK;
    ckm_i_safetensor *list = ckm_i_calloc((size_t)n_tensors, sizeof *list);
    if (list == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        ckm_session_tensor t = ckm_session_get_tensor(session, i);
        if (!is_kept(&t) || ckm_i_session_is_sum(session, i) ||
            (!with_optimizer && ckm_train_is_optimizer_state(session, i))) {
            continue;
        }
        list[n] = (ckm_i_safetensor){file_name(session, i),          t.dtype, t.shape, t.bytes,
                                     ckm_i_session_host(session, i), 0,       i};
        if (list[n].name == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        n++;
    }
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, by_name);
    }
    for (int32_t i = 1; i < n; i++) {
        if (strcmp(list[i - 1].name, list[i].name) == 0) {
            status = ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1,
                                    "cannot hold this network: two of its parameters are called \"%.200s\"; rename one",
                                    list[i].name);
            goto cleanup;
        }
    }
    *out = list;
    *n_out = n;
    return CKM_OK;
cleanup:
    ckm_i_train_free_list(list, n);
    return status;
}

ckm_status ckm_i_train_check_names(const ckm_session *session, const char *path, ckm_error *err)
{
    ckm_i_safetensor *list = NULL;
    int32_t n = 0;
    CKM_I_CHECK(list_tensors(session, path, true, &list, &n, err));
    ckm_i_train_free_list(list, n);
    return CKM_OK;
}

// ---- checksums

static uint64_t text_sum(const char *text)
{
    return ckm_i_fingerprint(text, (int64_t)strlen(text));
}

static uint64_t mix(uint64_t sum, uint64_t more)
{
    return ((sum << 7 | sum >> 57) ^ more) * UINT64_C(0x9e3779b97f4a7c15);
}

// Members of an object have no order, so neither has their sum.
static void add_pair(void *user, const char *key, const char *value)
{
    uint64_t *sum = user;
    if (strcmp(key, "checksum") != 0) {
        *sum += mix(text_sum(key), text_sum(value));
    }
}

// Where the bytes of a tensor come from: a session that is saved, or a file.
typedef struct origin {
    const ckm_session *session;
    const ckm_i_safetensors *file;
} origin;

static ckm_status read_origin(const origin *from, const ckm_i_safetensor *t, int64_t at, int64_t bytes, void *out,
                              ckm_error *err)
{
    return from->file != NULL ? ckm_i_safetensors_read_part(from->file, t, at, bytes, out, err)
                              : ckm_session_read(from->session, t->id, at, bytes, out, err);
}

static ckm_status add_tensor(const origin *from, const ckm_i_safetensor *t, uint64_t *sum, ckm_error *err)
{
    char piece[PIECE];
    *sum = mix(*sum, text_sum(t->name));
    for (int64_t at = 0; at < t->bytes; at += PIECE) {
        int64_t n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        CKM_I_CHECK(read_origin(from, t, at, n, piece, err));
        *sum = mix(*sum, ckm_i_fingerprint(piece, n));
    }
    return CKM_OK;
}

// If the file has a checksum, it has to be right.
static ckm_status check_sum(const ckm_i_safetensors *file, const char *path, ckm_error *err)
{
    char text[20];
    uint64_t pairs = 0;
    uint64_t sum = 0;
    const origin from = {.file = file};
    const char *stated = ckm_i_safetensors_metadata(file, "checksum");
    if (stated == NULL) {
        return CKM_OK;
    }
    for (int32_t i = 0; i < ckm_i_safetensors_count(file); i++) {
        CKM_I_CHECK(add_tensor(&from, ckm_i_safetensors_at(file, i), &sum, err));
    }
    ckm_i_safetensors_each_pair(file, add_pair, &pairs);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)mix(sum, pairs));
    return strcmp(text, stated) == 0 ? CKM_OK
                                     : ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1,
                                                      "is damaged: what it holds does not have its checksum");
}

// ---- writing

// `user` is the address of the session's.
static ckm_status read_session(void *user, const ckm_i_safetensor *tensor, int64_t at, int64_t bytes, void *out,
                               ckm_error *err)
{
    const ckm_session *const *session = user;
    return ckm_session_read(*session, tensor->id, at, bytes, out, err);
}

// Settings and notes.
static void add_settings(const ckm_i_train_settings *settings, ckm_i_safetensors_pair *metadata, int32_t *n)
{
    for (int32_t i = 0; settings != NULL && i < settings->n; i++) {
        metadata[(*n)++] = (ckm_i_safetensors_pair){settings->items[i].key, settings->items[i].value};
    }
    for (int32_t i = 0; settings != NULL && i < settings->n_notes; i++) {
        metadata[(*n)++] = (ckm_i_safetensors_pair){settings->notes[i].key, settings->notes[i].value};
    }
}

ckm_status ckm_i_train_save(const ckm_session *session, const char *path, const ckm_train_place *place,
                            const ckm_i_train_settings *settings, ckm_error *err)
{
    enum { FIXED = 9 };
    char step[32];
    char seed[32];
    char batch[32];
    char checksum[20];
    char network[sizeof place->network];
    ckm_i_safetensor *list = NULL;
    int32_t n = 0;
    uint64_t pairs = 0;
    uint64_t sum = 0;
    const origin from = {.session = session};
    snprintf(step, sizeof step, "%lld", (long long)place->step);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)place->seed);
    snprintf(batch, sizeof batch, "%lld", (long long)place->batch);
    ckm_i_text_copy(network, sizeof network, place->network);
    ckm_i_text_clean(network);
    ckm_i_safetensors_pair metadata[FIXED + CKM_I_TRAIN_SETTINGS + CKM_I_TRAIN_NOTES] = {
        {"format", format_name}, {"version", format_version}, {"step", step},    {"seed", seed},
        {"batch", batch},        {"network", network},        {"rng", rng_name}, {"optimizer", place->optimizer},
    };
    int32_t n_metadata = FIXED - 1;
    add_settings(settings, metadata, &n_metadata);
    for (int32_t i = 0; i < n_metadata; i++) {
        add_pair(&pairs, metadata[i].key, metadata[i].value);
    }
    CKM_I_CHECK(ckm_i_train_check_finite(session, path, err));
    CKM_I_CHECK(list_tensors(session, path, true, &list, &n, err));
    ckm_status status = CKM_OK;
    for (int32_t i = 0; i < n; i++) {
        CKM_I_TRY(add_tensor(&from, &list[i], &sum, err));
    }
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)mix(sum, pairs));
    metadata[n_metadata++] = (ckm_i_safetensors_pair){"checksum", checksum};
    CKM_I_TRY(ckm_i_safetensors_write(path, list, n, metadata, n_metadata, read_session, &session, err));
cleanup:
    ckm_i_train_free_list(list, n);
    return status;
}

ckm_status ckm_train_save(const ckm_session *session, const char *path, const ckm_train_place *place, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    CKM_I_NEED(place, err);
    return ckm_i_train_save(session, path, place, NULL, err);
}

static ckm_status export_tensors(const ckm_session *session, const char *path, const ckm_i_safetensors_pair *metadata,
                                 int32_t n_metadata, ckm_error *err)
{
    ckm_i_safetensor *list = NULL;
    int32_t n = 0;
    bool known = ckm_i_train_is_known(session);
    CKM_I_CHECK(ckm_i_train_check_finite(session, path, err));
    CKM_I_CHECK(known ? ckm_i_train_list_known(session, &list, &n, err)
                      : list_tensors(session, path, false, &list, &n, err));
    if (known) {
        qsort(list, (size_t)n, sizeof *list, by_name);
    }
    ckm_status status = ckm_i_safetensors_write(path, list, n, metadata, n_metadata,
                                                known ? ckm_i_train_known_source : read_session, &session, err);
    ckm_i_train_free_list(list, n);
    return status;
}

ckm_status ckm_i_train_export(const ckm_session *session, const char *path, const ckm_train_place *place,
                              const ckm_i_train_settings *settings, ckm_error *err)
{
    enum { FIXED = 4 };
    char seed[32];
    char network[sizeof place->network];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)place->seed);
    ckm_i_text_copy(network, sizeof network, place->network);
    ckm_i_text_clean(network);
    ckm_i_safetensors_pair metadata[FIXED + CKM_I_TRAIN_SETTINGS + CKM_I_TRAIN_NOTES] = {
        {"format", "pt"}, {"network", network}, {"optimizer", place->optimizer}, {"seed", seed}};
    int32_t n = FIXED;
    add_settings(settings, metadata, &n);
    return export_tensors(session, path, metadata, n, err);
}

ckm_status ckm_train_export(const ckm_session *session, const char *path, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(path, err);
    const ckm_i_safetensors_pair metadata[] = {{"format", "pt"}};
    return export_tensors(session, path, metadata, 1, err);
}

// ---- reading

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
    const char *version = ckm_i_safetensors_metadata(file, "version");
    const char *rng = ckm_i_safetensors_metadata(file, "rng");
    if (format == NULL || strcmp(format, format_name) != 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1,
                              "holds no training run to resume (its metadata lack format \"%s\"); it may hold weights",
                              format_name);
    }
    if (version == NULL || strcmp(version, format_version) != 0 || rng == NULL || strcmp(rng, rng_name) != 0 ||
        ckm_i_safetensors_metadata(file, "checksum") == NULL) {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1,
                              "is a training run in version \"%.20s\" with random numbers \"%.20s\"%s; this program "
                              "goes on from version \"%s\" with \"%s\". Its weights can still be read as such",
                              version != NULL ? version : "none", rng != NULL ? rng : "none",
                              ckm_i_safetensors_metadata(file, "checksum") == NULL ? " and no checksum" : "",
                              format_version, rng_name);
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

// Whether the file's entry of this name fits the session's tensor.
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
    char piece[PIECE];
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

// Reads the session's tensors from the file. All are looked up and checked before the first is read. With `everything`, all
// of a run, and nothing is left over; else the network's own, without the optimizer's states.
static ckm_status read_tensors(ckm_session *session, const ckm_i_safetensors *file, const char *path, bool everything,
                               bool *valued, int32_t *n_read, ckm_error *err)
{
    ckm_i_safetensor *list = NULL;
    int32_t n = 0;
    int32_t n_found = 0;
    CKM_I_CHECK(list_tensors(session, path, everything, &list, &n, err));
    ckm_status status = CKM_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < n; i++) {
            ckm_session_tensor t = ckm_session_get_tensor(session, list[i].id);
            const ckm_i_safetensor *found = ckm_i_safetensors_find(file, list[i].name);
            bool known = found == NULL && !everything;
            if (known) {
                found = ckm_i_train_find_known(session, list[i].id, file, &t);
            }
            if (found == NULL && everything) {
                status = ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                        "tensor \"%.200s\" is missing: the file is of another network or optimizer",
                                        t.name);
                goto cleanup;
            }
            if (found != NULL) {
                CKM_I_TRY(pass == 0 ? check_tensor(found, &t, path, err)
                          : known   ? ckm_i_train_read_known(session, list[i].id, file, found, err)
                                    : read_tensor(session, list[i].id, file, found, err));
                n_found += pass;
                if (valued != NULL) {
                    valued[list[i].id] = true;
                }
            }
        }
        for (int32_t i = 0; everything && i < ckm_i_safetensors_count(file); i++) {
            const ckm_i_safetensor *held = ckm_i_safetensors_at(file, i);
            if (bsearch(held, list, (size_t)n, sizeof *list, by_name) == NULL) {
                status = ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                        "holds %lld tensors that this network does not have, such as \"%.200s\": it is "
                                        "of another network or optimizer",
                                        (long long)ckm_i_safetensors_count(file) - n, held->name);
                goto cleanup;
            }
        }
        if (pass == 0) {
            CKM_I_TRY(check_sum(file, path, err));
        }
    }
    *n_read = n_found;
cleanup:
    ckm_i_train_free_list(list, n);
    return status;
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
