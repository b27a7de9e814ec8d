// SPDX-License-Identifier: Apache-2.0
// Pictures that a network is run on.
#define _DEFAULT_SOURCE  // DT_DIR, open_memstream
#include "cli/cli_pictures.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/cli_solve.h"
#include "cli/cli_values.h"

const char *const cli_pixel_scalings[] = {"symmetric", "unit", "imagenet", NULL};

enum { MOST_DEPTH = 32, TOP = 5 };

static ckm_status no_memory(ckm_error *err)
{
    return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcasecmp(text + n - m, ending) == 0;
}

// ---- finding them

static bool is_other_picture(const char *name)
{
    static const char *const endings[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends_with(name, endings[i])) {
            return true;
        }
    }
    return false;
}

// Reports that a picture cannot be read, and continues; with `strict`, fails.
static ckm_status leave_out(cli_pictures *p, int64_t i, bool strict, const ckm_error *why, ckm_error *err)
{
    if (strict) {
        *err = *why;
        return CKM_ERR_FORMAT;
    }
    cli_warnf("%s: left out: %s", p->paths[i], why->message);
    p->bad[i] = true;
    p->n_bad++;
    return CKM_OK;
}

static ckm_status add(cli_pictures *p, const char *path, bool strict, ckm_error *err)
{
    ckm_error why = CKM_ERROR_INIT;
    int64_t bytes = 0;
    if (p->n == p->cap) {
        int64_t cap = p->cap > 0 ? 2 * p->cap : 64;
        char **paths = realloc(p->paths, (size_t)cap * sizeof *paths);
        p->paths = paths != NULL ? paths : p->paths;
        bool *bad = paths != NULL ? realloc(p->bad, (size_t)cap * sizeof *bad) : NULL;
        p->bad = bad != NULL ? bad : p->bad;
        if (bad == NULL) {
            return no_memory(err);
        }
        p->cap = cap;
    }
    p->paths[p->n] = strdup(path);
    p->bad[p->n] = false;
    if (p->paths[p->n] == NULL) {
        return no_memory(err);
    }
    p->text_bytes += (int64_t)strlen(path);
    int64_t i = p->n++;
    if (ckm_picture_bytes(path, &bytes, &why) != CKM_OK) {
        return leave_out(p, i, strict, &why, err);
    }
    p->decoding = bytes > p->decoding ? bytes : p->decoding;
    return CKM_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static ckm_status walk(const char *path, int depth, bool strict, cli_pictures *p, ckm_error *err);

static ckm_status walk_folder(const char *folder, int depth, bool strict, cli_pictures *p, ckm_error *err)
{
    struct dirent **entries = NULL;
    char path[4096];
    ckm_status status = CKM_OK;
    if (depth > MOST_DEPTH) {
        return cli_error(err, CKM_ERR_UNSUPPORTED, folder, "is more than %d folders deep", MOST_DEPTH);
    }
    int n = scandir(folder, &entries, is_shown, by_name);
    if (n < 0) {
        return cli_error(err, CKM_ERR_IO, folder, "cannot open: %s", strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/",
                              entries[i]->d_name);
        if (status == CKM_OK) {
            status = length > 0 && (size_t)length < sizeof path
                         ? walk(path, depth + 1, strict, p, err)
                         : cli_error(err, CKM_ERR_UNSUPPORTED, folder, "a path in it is longer than %zu bytes",
                                     sizeof path);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static ckm_status walk(const char *path, int depth, bool strict, cli_pictures *p, ckm_error *err)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return cli_error(err, CKM_ERR_IO, path, "cannot open: %s", strerror(errno));
    }
    if (S_ISDIR(facts.st_mode)) {
        return walk_folder(path, depth, strict, p, err);
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (S_ISREG(facts.st_mode) && ckm_picture_is_read(name)) {
        return add(p, path, strict, err);
    }
    if (is_other_picture(name)) {
        snprintf(p->other, sizeof p->other, "%s", p->others++ == 0 ? path : p->other);
    }
    return CKM_OK;
}

ckm_status cli_pictures_find(const char *path, bool strict, cli_pictures *out, ckm_error *err)
{
    *out = (cli_pictures){.scaling = -1};
    ckm_status status = walk(path, 0, strict, out, err);
    if (status != CKM_OK) {
        return status;
    }
    if (out->n == out->n_bad) {
        return cli_error(err, CKM_ERR_FORMAT, path, "holds no PNG or JPEG picture that can be read%s%s",
                         out->others > 0 ? "; other kinds are not read, such as " : "", out->other);
    }
    if (out->others > 0) {
        cli_warnf("%lld picture%s of other kinds than PNG and JPEG left out, such as %s", (long long)out->others,
                  out->others == 1 ? "" : "s", out->other);
    }
    return CKM_OK;
}

void cli_pictures_dispose(cli_pictures *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        free(p->paths[i]);
    }
    free(p->paths);
    free(p->bad);
    ckm_train_free_class_names(p->names, p->n_names);
    *p = (cli_pictures){.scaling = -1};
}

// ---- how they were prepared in training

ckm_status cli_pictures_read_notes(const char *path, cli_pictures *p, ckm_error *err)
{
    char text[128];
    bool found = false;
    if (path == NULL) {
        return CKM_OK;
    }
    ckm_status status = ckm_inference_read_note(path, "classes", text, sizeof text, &found, err);
    if (status == CKM_OK && found) {
        p->classes = strtoll(text, NULL, 10);
    }
    if (status == CKM_OK) {
        status = ckm_inference_read_note(path, "input", text, sizeof text, &found, err);
    }
    if (status == CKM_OK && found && cli_read_shape(text, &p->input) != NULL) {
        p->input.rank = 0;
    }
    if (status == CKM_OK) {
        status = ckm_inference_read_note(path, "setting.pixels", text, sizeof text, &found, err);
    }
    for (int i = 0; status == CKM_OK && found && cli_pixel_scalings[i] != NULL; i++) {
        p->scaling = strcmp(text, cli_pixel_scalings[i]) == 0 ? i : p->scaling;
    }
    return status == CKM_OK ? ckm_inference_read_class_names(path, &p->names, &p->n_names, err) : status;
}

// ---- what the network says of them

static int64_t elements(const ckm_shape *shape)
{
    int64_t n = 1;
    for (int32_t i = 1; i < shape->rank; i++) {
        n *= shape->dims[i];
    }
    return n;
}

int64_t cli_pictures_bytes(const cli_pictures *p, const ckm_graph *graph, const char *output)
{
    int64_t sample = 0;
    int64_t row = 0;
    int64_t names = 0;
    for (int32_t x = 0; x < ckm_graph_tensor_count(graph); x++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, x);
        int64_t bytes = elements(&t.shape) * (int64_t)sizeof(float);
        sample = t.role == CKM_ROLE_INPUT && sample == 0 ? bytes : sample;
        row = t.role == CKM_ROLE_ACTIVATION ? bytes : row;
    }
    for (int64_t i = 0; i < p->n_names; i++) {
        int64_t length = (int64_t)strlen(p->names[i]);
        names = length > names ? length : names;
    }
    // A row of the table: the path and five names, in quotes that may double, and five numbers.
    int64_t table = 2 * (2 * p->text_bytes + p->n * (8 + TOP * (2 * names + 40)));
    int64_t all = ends_with(output, ".npy") ? 256 + p->n * row : table;
    return p->decoding + 2 * sample + ckm_graph_batch(graph) * row + all;
}

// The folder that a picture is in: is it the class?
static bool folder_is(const char *path, const char *name)
{
    const char *end = strrchr(path, '/');
    const char *begin = end;
    while (begin != NULL && begin > path && begin[-1] != '/') {
        begin--;
    }
    return begin != NULL && strlen(name) == (size_t)(end - begin) && strncmp(begin, name, strlen(name)) == 0;
}

static bool has_folder_of_class(const cli_pictures *p, int64_t i)
{
    for (int64_t c = 0; c < p->n_names; c++) {
        if (folder_is(p->paths[i], p->names[c])) {
            return true;
        }
    }
    return false;
}

// The first five positions of the largest numbers, and what they are as probabilities: the numbers themselves, if they are not
// negative and sum up to 1, else by a softmax.
static int find_top(const float *y, int64_t n, int64_t at[TOP], double probability[TOP])
{
    int k = 0;
    double sum = 0;
    double top = -(double)INFINITY;
    bool are_probabilities = true;
    for (int64_t i = 0; i < n; i++) {
        int place = k;
        sum += (double)y[i];
        are_probabilities = are_probabilities && y[i] >= 0;
        top = (double)y[i] > top ? (double)y[i] : top;
        while (place > 0 && y[i] > y[at[place - 1]]) {
            place--;
        }
        if (place < TOP) {
            k = k < TOP ? k + 1 : k;
            memmove(at + place + 1, at + place, (size_t)(k - 1 - place) * sizeof at[0]);
            at[place] = i;
        }
    }
    are_probabilities = are_probabilities && fabs(sum - 1) < 1e-3;
    double all = 0;
    for (int64_t i = 0; i < n && !are_probabilities; i++) {
        all += exp((double)y[i] - top);
    }
    for (int i = 0; i < k; i++) {
        double value = (double)y[at[i]];
        probability[i] = are_probabilities ? value : exp(value - top) / all;
    }
    return k;
}

// A field of a table (RFC 4180).
static void write_field(FILE *to, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text != '\0'; text++) {
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    }
    fputc('"', to);
}

static void write_row(cli_pictures *p, FILE *to, int64_t i, const float *y, int64_t n)
{
    int64_t at[TOP];
    double probability[TOP];
    int k = find_top(y, n, at, probability);
    write_field(to, p->paths[i]);
    for (int c = 0; c < k; c++) {
        fputc(',', to);
        if (at[c] < p->n_names) {
            write_field(to, p->names[at[c]]);
        } else {
            fprintf(to, "%lld", (long long)at[c]);
        }
        fprintf(to, ",%.6f", probability[c]);
    }
    fputc('\n', to);
    p->right += k > 0 && at[0] < p->n_names && folder_is(p->paths[i], p->names[at[0]]);
}

static void write_head(FILE *to, int64_t classes)
{
    fputs("picture", to);
    for (int c = 0; c < TOP && c < classes; c++) {
        fprintf(to, ",class_%d,probability_%d", c + 1, c + 1);
    }
    fputc('\n', to);
}

static void write_npy_head(FILE *to, const ckm_shape *shape, int64_t n)
{
    char text[256];
    int used = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld,", (long long)n);
    for (int32_t i = 1; i < shape->rank; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %lld,", (long long)shape->dims[i]);
    }
    snprintf(text + used, sizeof text - (size_t)used, "), }");
    int room = (int)((strlen(text) + 11 + 63) / 64 * 64) - 11;  // ten bytes before, a line's end behind
    fwrite("\223NUMPY\1\0", 1, 8, to);
    fputc((room + 1) & 0xff, to);
    fputc((room + 1) >> 8, to);
    fprintf(to, "%-*s\n", room, text);
}

static ckm_status finish(const char *output, const char *data, size_t size, ckm_error *err)
{
    if (strcmp(output, "-") != 0) {
        return ckm_file_replace(output, data, size, err);
    }
    return fwrite(data, 1, size, stdout) == size ? CKM_OK
                                                 : cli_error(err, CKM_ERR_IO, NULL, "cannot write standard output");
}

// Fills a batch from picture *at on; the places of `members` say which.
static ckm_status fill(cli_pictures *p, ckm_inference *f, int64_t batch, ckm_data_scaling scaling, bool strict,
                       int64_t *at, int64_t *members, int64_t *n, ckm_error *err)
{
    const char *input = ckm_inference_input(f, 0).name;
    *n = 0;
    for (; *n < batch && *at < p->n; ++*at) {
        ckm_error why = CKM_ERROR_INIT;
        if (p->bad[*at]) {
            continue;
        }
        ckm_status status = ckm_inference_read_picture(f, input, *n, p->paths[*at], scaling, &why);
        if (status == CKM_ERR_FORMAT || status == CKM_ERR_IO) {
            status = leave_out(p, *at, strict, &why, err);
        } else if (status == CKM_OK) {
            members[(*n)++] = *at;
        } else {
            *err = why;
        }
        if (status != CKM_OK) {
            return status;
        }
    }
    return CKM_OK;
}

typedef struct written {
    bool npy;
    ckm_session_tensor output;
    int64_t row;  // numbers of a picture
    float *y;     // of a batch
    int64_t *members;
    int64_t next;  // picture whose row is the next
    FILE *to;
} written;

// A picture that could not be read has a row of NaN in an array, and none in a table.
static void write_missing(written *w, int64_t until)
{
    const float none = (float)NAN;
    for (; w->next < until; w->next++) {
        for (int64_t i = 0; i < w->row; i++) {
            fwrite(&none, sizeof none, 1, w->to);
        }
    }
}

static void write_rows(cli_pictures *p, written *w, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        if (!w->npy) {
            write_row(p, w->to, w->members[k], w->y + k * w->row, w->row);
            continue;
        }
        write_missing(w, w->members[k]);
        fwrite(w->y + k * w->row, sizeof(float), (size_t)w->row, w->to);
        w->next++;
    }
}

static ckm_status run_all(cli_pictures *p, ckm_inference *f, int64_t batch, ckm_data_scaling scaling, bool strict,
                          written *w, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool named = p->n_names > 0;
    int64_t at = 0;
    while (status == CKM_OK && at < p->n) {
        int64_t n = 0;
        double seconds = 0;
        status = fill(p, f, batch, scaling, strict, &at, w->members, &n, err);
        if (status == CKM_OK && n > 0) {
            status = ckm_inference_run(f, &seconds, err);
        }
        if (status == CKM_OK && n > 0) {
            status = ckm_inference_get(f, 0, w->y, w->output.bytes, err);
        }
        p->seconds += seconds;
        if (status == CKM_OK) {
            write_rows(p, w, n);
        }
        for (int64_t k = 0; w->members != NULL && k < n; k++) {
            named = named && has_folder_of_class(p, w->members[k]);
        }
        p->judged += n;
    }
    p->judged = named && !w->npy ? p->judged : 0;
    if (w->npy && status == CKM_OK) {
        write_missing(w, p->n);
    }
    if (status == CKM_OK && p->n == p->n_bad) {
        status = cli_error(err, CKM_ERR_FORMAT, NULL, "none of the %lld pictures can be read", (long long)p->n);
    }
    return status;
}

ckm_status cli_pictures_run(cli_pictures *p, ckm_inference *f, int64_t batch, ckm_data_scaling scaling, bool strict,
                            const char *output, ckm_error *err)
{
    written w = {.npy = ends_with(output, ".npy"), .output = ckm_inference_output(f, 0)};
    char *data = NULL;
    size_t size = 0;
    w.row = elements(&w.output.shape);
    if (w.output.dtype != CKM_F32 ||
        (!w.npy && w.output.shape.rank > 2 && w.output.shape.dims[w.output.shape.rank - 1] != w.row)) {
        return cli_error(
            err, CKM_ERR_ARGUMENT, NULL,
            "the network's output for a picture is not one score per class: give -o a name that ends in .npy");
    }
    w.y = malloc((size_t)w.output.bytes + 1);
    w.members = calloc((size_t)batch, sizeof *w.members);
    w.to = open_memstream(&data, &size);
    ckm_status status = w.y == NULL || w.members == NULL || w.to == NULL ? no_memory(err) : CKM_OK;
    if (status == CKM_OK) {
        if (w.npy) {
            write_npy_head(w.to, &w.output.shape, p->n);
        } else {
            write_head(w.to, w.row);
        }
        status = run_all(p, f, batch, scaling, strict, &w, err);
    }
    bool written_all = w.to != NULL && !ferror(w.to);
    if (w.to != NULL && (fclose(w.to) != 0 || !written_all) && status == CKM_OK) {
        status = no_memory(err);
    }
    cli_stop_install();  // what is computed is written
    status = status == CKM_OK ? finish(output, data, size, err) : status;
    free(data);
    free(w.y);
    free(w.members);
    return status;
}
