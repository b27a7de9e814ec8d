// SPDX-License-Identifier: Apache-2.0
// Choosing a cost model.
#include "cli/cli_costs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

ckm_status cli_device_path(char *path, size_t room, ckm_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    bool has_cache = cache != NULL && cache[0] == '/';
    if (!has_cache && (home == NULL || home[0] == '\0')) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                         "set XDG_CACHE_HOME or HOME: they say where the model of this machine is kept");
    }
    int n = snprintf(path, room, "%s%s/checkmate", has_cache ? cache : home, has_cache ? "" : "/.cache");
    if (n < 0 || (size_t)n + sizeof "/device.json" > room) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL, "the name of the cache folder is too long");
    }
    // Each folder on the way, from the second on: "/" is there.
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL) {
            *slash = '\0';
        }
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            return cli_error(err, CKM_ERR_IO, path, "cannot make the folder: %s", strerror(errno));
        }
        if (slash == NULL) {
            break;
        }
        *slash = '/';
    }
    size_t length = strlen(path);
    snprintf(path + length, room - length, "/device.json");
    // Writing follows links; no other user may redirect the program's own files.
    struct stat facts;
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        return cli_error(err, CKM_ERR_IO, path,
                         "is no regular file, where the model of this machine is to be kept: remove it");
    }
    return CKM_OK;
}

static ckm_status unknown_device(const char *name, ckm_error *err)
{
    char known[512] = "";
    const char *names[64];
    int n = 0;
    char suggestion[128];
    for (int32_t i = 0; i < ckm_device_count() && n < CLI_COUNT(names); i++) {
        const char *known_name = ckm_device_at(i)->name;
        names[n++] = known_name;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s, ", known_name);
    }
    return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                     "there is no device called '%s'%s (known: %sthis, or the name of a checkmate-device file)", name,
                     cli_did_you_mean(name, names, n, "", suggestion, sizeof suggestion), known);
}

static ckm_status choose_device(const char *name, ckm_device *out, ckm_error *err)
{
    char path[2048];
    const ckm_device *known = ckm_device_find(name);
    if (known != NULL) {
        *out = *known;
        return CKM_OK;
    }
    if (strcasecmp(name, "this") == 0) {
        ckm_status status = cli_device_path(path, sizeof path, err);
        if (status == CKM_OK && access(path, F_OK) != 0) {
            return cli_error(err, CKM_ERR_NOT_FOUND, path,
#ifdef CLI_PLANS_ONLY
                             "this program only plans and cannot measure this machine: copy a device file here and use "
                             "--costs device:FILE");
#else
                             "this machine has not been measured yet: run 'checkmate devices --measure'");
#endif
        }
        return status == CKM_OK ? ckm_device_read(path, out, err) : status;
    }
    bool is_file = strpbrk(name, "/.") != NULL || access(name, F_OK) == 0;
    return is_file ? ckm_device_read(name, out, err) : unknown_device(name, err);
}

ckm_status cli_costs_choose(const char *costs, cli_costs *out, ckm_error *err)
{
    static const char device[] = "device:";
    out->model = (ckm_cost_model)CKM_COST_MODEL_INIT;
    if (strcmp(costs, "flops") == 0) {
        return CKM_OK;
    }
    if (strncmp(costs, device, sizeof device - 1) == 0) {
        out->model.kind = CKM_COST_MODEL_DEVICE;
        out->model.device = &out->device;
        return choose_device(costs + sizeof device - 1, &out->device, err);
    }
    if (access(costs, F_OK) != 0 && strpbrk(costs, "/.") == NULL) {
        return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                         "--costs %s: give 'flops', 'device:NAME' or the name of a checkmate-profile file", costs);
    }
    out->model.kind = CKM_COST_MODEL_PROFILE;
    out->model.profile_path = costs;
    return CKM_OK;
}
