// SPDX-License-Identifier: Apache-2.0
// Profiles as files: checkmate-profile JSON, and where they are kept for the next time.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "base/text.h"
#include "run/train/profile.h"
#include "run/session/session.h"

#define MAX_PROFILE_BYTES (INT64_C(256) << 20)

void ckm_i_profile_platform(char *name, size_t room)
{
    char text[256];
    ckm_i_text_copy(name, room, "unknown processor");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        char *value = strchr(text, ':');
        if (value != NULL && (strncmp(text, "model name", 10) == 0 || strncmp(text, "Model", 5) == 0)) {
            value += 1 + strspn(value + 1, " \t");
            value[strcspn(value, "\n")] = '\0';
            ckm_i_text_clean(value);
            ckm_i_text_copy(name, room, value);
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

static void write_op(FILE *to, const ckm_profile_op *op, bool last)
{
    fputs("  {\"name\": ", to);
    ckm_json_write_text(to, op->name);
    fprintf(to, ", \"median_ns\": %" PRId64 ", \"p10_ns\": %" PRId64 ", \"p90_ns\": %" PRId64 ", \"runs\": %" PRId64,
            op->median_ns, op->p10_ns, op->p90_ns, op->runs);
    if (isfinite(op->fixed_ns)) {
        fputs(", \"fixed_ns\": ", to);
        ckm_json_write_number(to, op->fixed_ns);
        fputs(", \"per_sample_ns\": ", to);
        ckm_json_write_number(to, op->per_sample_ns);
    }
    fputs(last ? "}\n" : "},\n", to);
}

ckm_status ckm_profile_set_link(ckm_profile *profile, const ckm_second_memory *link, ckm_error *err)
{
    CKM_I_NEED(profile, err);
    CKM_I_NEED(link, err);
    if (link->out_bytes_per_second < 1 || link->in_bytes_per_second < 1 || link->latency_ns < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a link with a speed below 1 or a negative latency");
    }
    profile->link = *link;
    ckm_i_text_copy(profile->link_name, sizeof profile->link_name, link->name != NULL ? link->name : "");
    profile->link.name = NULL;
    return CKM_OK;
}

ckm_status ckm_profile_write(const ckm_profile *profile, const char *path, ckm_error *err)
{
    CKM_I_NEED(profile, err);
    CKM_I_NEED(path, err);
    const ckm_profile_info *info = &profile->info;
    ckm_i_writer w = {0};
    ckm_status status;
    CKM_I_TRY(ckm_i_writer_open(&w, path, err));
    fputs("{\"format\": \"checkmate-profile\", \"version\": 1, \"platform\": ", w.stream);
    ckm_json_write_text(w.stream, info->platform);
    fprintf(w.stream, ", \"threads\": %d, \"backend\": ", info->threads);
    ckm_json_write_text(w.stream, info->backend);
    fputs(", \"graph\": ", w.stream);
    ckm_json_write_text(w.stream, info->graph);
    fprintf(w.stream,
            ", \"batch\": %" PRId64 ",\n \"step_ns\": %" PRId64 ", \"predicted_ns\": %" PRId64 ", \"steps\": %" PRId64
            ",\n \"steps_left_out\": %" PRId64 ", \"steady\": %s,\n \"ops\": [\n",
            info->batch, info->step_ns, info->predicted_ns, info->steps, info->steps_left_out,
            info->steady ? "true" : "false");
    for (int32_t v = 0; v < profile->n_ops; v++) {
        write_op(w.stream, &profile->ops[v], v == profile->n_ops - 1);
    }
    fputs(" ]", w.stream);
    if (profile->link.out_bytes_per_second > 0) {
        fputs(",\n \"link\": {\"name\": ", w.stream);
        ckm_json_write_text(w.stream, profile->link_name);
        fprintf(w.stream,
                ", \"source\": \"measured\", \"out_bytes_per_second\": %" PRId64 ", \"in_bytes_per_second\": %" PRId64
                ", \"latency_ns\": %" PRId64 "}",
                profile->link.out_bytes_per_second, profile->link.in_bytes_per_second, profile->link.latency_ns);
    }
    fputs("}\n", w.stream);
    CKM_I_TRY(ckm_i_writer_commit(&w, err));
cleanup:
    ckm_i_writer_abort(&w);
    return status;
}

ckm_status ckm_profile_read_info(const char *path, ckm_profile_info *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    const char *graph = "";
    int64_t threads = 0;
    ckm_profile_info info = {.steady = true};
    ckm_i_json_place place = ckm_i_json_root(path);
    ckm_status status;
    CKM_I_TRY(ckm_i_json_read(path, MAX_PROFILE_BYTES, &root, err));
    CKM_I_TRY(ckm_i_json_check_header(root, path, "checkmate-profile", err));
    CKM_I_TRY(ckm_i_json_get_text(root, &place, "graph", false, &graph, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "threads", false, 0, INT32_MAX, &threads, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "batch", false, 1, INT64_MAX, &info.batch, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "steps", false, 0, INT64_MAX, &info.steps, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "steps_left_out", false, 0, INT64_MAX, &info.steps_left_out, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "step_ns", false, 0, INT64_MAX, &info.step_ns, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "predicted_ns", false, 0, INT64_MAX, &info.predicted_ns, err));
    CKM_I_TRY(ckm_i_json_get_bool(root, &place, "steady", &info.steady, err));
    info.threads = (int)threads;
    ckm_i_text_copy(info.graph, sizeof info.graph, graph);
    *out = info;
cleanup:
    json_decref(root);
    return status;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash * UINT64_C(0x100000001b3) ^ ckm_i_fingerprint(text, (int64_t)strlen(text));
}

// Of everything that decides how long operators take.
static uint64_t fingerprint(const ckm_program *program, const char *platform)
{
    static const char *const variables[] = {"OMP_WAIT_POLICY", "OMP_PROC_BIND",     "OMP_PLACES",
                                            "GOMP_SPINCOUNT",  "GOMP_CPU_AFFINITY", "ONEDNN_MAX_CPU_ISA",
                                            "DNNL_MAX_CPU_ISA"};
    const ckm_graph *step = program->training->step;
    uint64_t hash = add_text(0, platform);
    hash = add_text(hash, ckm_program_backend(program));
    hash = add_text(hash, ckm_version());
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        hash = add_text(hash, value != NULL ? value : "");
    }
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        hash = add_text(hash, op->name);
        hash = add_text(hash, op->op_class->kind);
        for (int32_t k = 0; k < op->n_attrs; k++) {
            hash = add_text(hash, op->attrs[k].key);
            hash = hash * 31 ^
                   ckm_i_fingerprint(op->attrs[k].ints, (int64_t)sizeof op->attrs[k].ints[0] * op->attrs[k].n);
        }
    }
    for (int32_t x = 0; x < step->n_tensors; x++) {
        const ckm_shape *shape = &step->tensors[x].shape;
        hash = hash * 31 ^ ckm_i_fingerprint(shape->dims, (int64_t)sizeof shape->dims[0] * shape->rank);
    }
    return hash;
}

static ckm_status make_folder(const char *path, ckm_error *err)
{
    struct stat facts;
    if (mkdir(path, 0777) != 0 && (errno != EEXIST || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))) {
        return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "the folder cannot be made: %s", strerror(errno));
    }
    return CKM_OK;
}

ckm_status ckm_profile_cache_path(const ckm_program *program, char *path, size_t room, ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(path, err);
    char folder[2048];
    char name[64];
    char platform[128];
    const char *base = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    bool has_base = base != NULL && base[0] == '/';
    if (!has_base && (home == NULL || home[0] == '\0')) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "there is no folder to keep profiles in: neither XDG_CACHE_HOME nor HOME is set");
    }
    int n = snprintf(folder, sizeof folder, "%s%s", has_base ? base : home, has_base ? "" : "/.cache");
    if (n < 0 || (size_t)n + sizeof "/checkmate" > sizeof folder) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the name of the cache folder is too long");
    }
    CKM_I_CHECK(make_folder(folder, err));
    memcpy(folder + n, "/checkmate", sizeof "/checkmate");
    CKM_I_CHECK(make_folder(folder, err));
    // A name that a person can read, from an importer or the zoo; the number makes it unique.
    ckm_i_text_copy(name, sizeof name, program->training->graph->name);
    for (char *c = name; *c != '\0'; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
        *c = plain ? *c : '-';
    }
    ckm_i_profile_platform(platform, sizeof platform);
    n = snprintf(path, room, "%s/%s-b%" PRId64 "-t%d-%016" PRIx64 ".json", folder, name,
                 program->training->graph->batch, ckm_program_threads(program), fingerprint(program, platform));
    if (n < 0 || (size_t)n >= room) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the name of the cached profile is too long");
    }
    // Writing follows links; no other user may redirect the program's own files.
    struct stat facts;
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1,
                              "is no regular file, where a profile is to be kept: remove it");
    }
    return CKM_OK;
}
