// SPDX-License-Identifier: Apache-2.0
// A folder with one folder of PNG or JPEG images for every class. Classes are numbered in the order of their names;
// the order of the files within a class is that of their names too, so a data set is the same everywhere.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/data/data.h"
#include "run/data/data_pixels.h"
#include "run/data/image_file.h"

typedef struct image_entry {
    int64_t name_at;  // in `names`
    int32_t class_number;
} image_entry;

typedef struct images_state {
    char *root;
    char **classes;
    int32_t n_classes;
    image_entry *entries;
    int64_t n_entries, cap_entries;
    char *names;  // file names, one after the other
    int64_t n_names, cap_names;
    ckm_i_pixels sink;
} images_state;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_list(char **list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        free(list[i]);
    }
    free(list);
}

// Entries of a folder, sorted: folders, or images. Hidden ones are left out.
static ckm_status list_folder(const char *folder, bool folders, char ***out, int32_t *n_out, ckm_error *err)
{
    char **list = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    ckm_status status = CKM_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return ckm_i_error_at(err, CKM_ERR_IO, folder, 0, -1, "cannot open: %s", strerror(errno));
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        bool wanted = entry->d_name[0] != '.' && (folders ? ckm_i_data_has_folder(folder, entry->d_name)
                                                          : ckm_i_image_kind_of(entry->d_name) != CKM_I_IMAGE_NONE);
        if (!wanted) {
            continue;
        }
        char *name = ckm_i_strdup(entry->d_name);
        if (name == NULL || !CKM_I_GROW(list, n, cap)) {
            free(name);
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        list[n++] = name;
    }
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, by_name);
    }
    *out = list;
    *n_out = n;
    list = NULL;
    n = 0;
cleanup:
    closedir(dir);
    free_list(list, n);
    return status;
}

// Where the class folders are: in `folder`, or in its "train" when that holds folders itself.
static char *find_root(const char *folder)
{
    char **inside = NULL;
    int32_t n = 0;
    if (ckm_i_data_has_folder(folder, "train")) {
        char *train = ckm_i_data_path(folder, "train");
        bool holds_folders = train != NULL && list_folder(train, true, &inside, &n, NULL) == CKM_OK && n > 0;
        free_list(inside, n);
        if (holds_folders || train == NULL) {
            return train;
        }
        free(train);
    }
    return ckm_i_strdup(folder);
}

static ckm_status holds_images(const char *root, const char *folder, bool *any, ckm_error *err)
{
    char **images = NULL;
    int32_t n = 0;
    char *path = ckm_i_data_path(root, folder);
    ckm_status status = path == NULL ? ckm_i_error_memory(err) : list_folder(path, false, &images, &n, err);
    *any = n > 0;
    free_list(images, n);
    free(path);
    return status;
}

// Of the folders in `root`, those with images.
static ckm_status list_classes(const char *root, char ***out, int32_t *n_out, ckm_error *err)
{
    char **classes = NULL;
    int32_t n = 0;
    int32_t kept = 0;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(list_folder(root, true, &classes, &n, err));
    for (int32_t i = 0; i < n; i++) {
        bool any = false;
        CKM_I_TRY(holds_images(root, classes[i], &any, err));
        char *name = classes[i];
        classes[i] = NULL;
        if (any) {
            classes[kept++] = name;
        } else {
            free(name);
        }
    }
    *out = classes;
    *n_out = kept;
    return CKM_OK;
cleanup:
    free_list(classes, n);
    return status;
}

bool ckm_data_find_validation(const char *path, char *out, size_t size)
{
    static const char *const names[] = {"val", "valid", "validation", "test"};
    if (path == NULL || out == NULL || size == 0) {
        return false;
    }
    out[0] = '\0';
    for (size_t i = 0; ckm_i_data_has_folder(path, "train") && i < sizeof names / sizeof names[0]; i++) {
        char **classes = NULL;
        int32_t n = 0;
        char *folder = ckm_i_data_has_folder(path, names[i]) ? ckm_i_data_path(path, names[i]) : NULL;
        if (folder != NULL && list_classes(folder, &classes, &n, NULL) == CKM_OK) {
            free_list(classes, n);
        }
        bool fits = n > 0 && strlen(folder) < size;
        if (fits) {
            snprintf(out, size, "%s", folder);
        }
        free(folder);
        if (fits) {
            return true;
        }
    }
    return false;
}

static bool detect(const char *folder)
{
    char **classes = NULL;
    int32_t n = 0;
    bool found = false;
    char *root = find_root(folder);
    if (root != NULL && list_classes(root, &classes, &n, NULL) == CKM_OK) {
        found = n > 0;
        free_list(classes, n);
    }
    free(root);
    return found;
}

static ckm_status count_classes(const char *folder, int64_t *out, ckm_error *err)
{
    char **classes = NULL;
    int32_t n = 0;
    char *root = find_root(folder);
    ckm_status status = root != NULL ? list_classes(root, &classes, &n, err) : ckm_i_error_memory(err);
    free(root);
    if (status == CKM_OK) {
        free_list(classes, n);
        *out = n;
    }
    return status;
}

static void close_state(ckm_i_data_source *source)
{
    images_state *s = source->state;
    if (s == NULL) {
        return;
    }
    free(s->root);
    free_list(s->classes, s->n_classes);
    free(s->entries);
    free(s->names);
    ckm_i_pixels_dispose(&s->sink);
    free(s);
    source->state = NULL;
}

static ckm_status add_entry(images_state *s, const char *name, int32_t class_number, ckm_error *err)
{
    size_t length = strlen(name) + 1;
    while (s->cap_names - s->n_names < (int64_t)length) {
        int64_t wanted = s->cap_names * 2 + 4096;
        char *grown = ckm_i_realloc(s->names, (size_t)wanted, 1);
        if (grown == NULL) {
            return ckm_i_error_memory(err);
        }
        s->names = grown;
        s->cap_names = wanted;
    }
    if (!CKM_I_GROW(s->entries, s->n_entries, s->cap_entries)) {
        return ckm_i_error_memory(err);
    }
    memcpy(s->names + s->n_names, name, length);
    s->entries[s->n_entries++] = (image_entry){s->n_names, class_number};
    s->n_names += (int64_t)length;
    return CKM_OK;
}

static ckm_status path_of(const images_state *s, int64_t sample, char *path, size_t room, ckm_error *err)
{
    const image_entry *e = &s->entries[sample];
    int n = snprintf(path, room, "%s/%s/%s", s->root, s->classes[e->class_number], s->names + e->name_at);
    return n > 0 && (size_t)n < room ? CKM_OK
                                     : ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, s->root, 0, -1,
                                                      "a path in it is longer than %zu bytes", room);
}

// Samples for validation have the classes that were trained on, under the same numbers.
static ckm_status adopt_classes(images_state *s, const ckm_i_data_source *trained_on, ckm_error *err)
{
    const images_state *before = trained_on->state;
    for (int32_t i = 0; i < s->n_classes; i++) {
        int32_t k = 0;
        while (k < before->n_classes && strcmp(before->classes[k], s->classes[i]) != 0) {
            k++;
        }
        if (k == before->n_classes) {
            return ckm_i_error_at(err, CKM_ERR_ARGUMENT, s->root, 0, -1,
                                  "has a class \"%.200s\" that there is none of among the %d to train on",
                                  s->classes[i], (int)before->n_classes);
        }
    }
    free_list(s->classes, s->n_classes);
    s->n_classes = 0;
    s->classes = ckm_i_calloc((size_t)before->n_classes, sizeof *s->classes);
    if (s->classes == NULL) {
        return ckm_i_error_memory(err);
    }
    for (; s->n_classes < before->n_classes; s->n_classes++) {
        s->classes[s->n_classes] = ckm_i_strdup(before->classes[s->n_classes]);
        if (s->classes[s->n_classes] == NULL) {
            return ckm_i_error_memory(err);
        }
    }
    return CKM_OK;
}

// Looks at the header of the picture that was added last, which may be left out.
static ckm_status look_at(ckm_i_data_source *source, const char *path, int64_t *decoding, ckm_error *err)
{
    images_state *s = source->state;
    ckm_error why = CKM_ERROR_INIT;
    int64_t bytes = 0;
    ckm_status status = ckm_i_image_memory(path, ckm_i_image_kind_of(path), &bytes, &why);
    *decoding = bytes > *decoding ? bytes : *decoding;
    if ((status == CKM_ERR_FORMAT || status == CKM_ERR_IO) && source->options->skip_damaged) {
        ckm_i_data_leave_out(source, &why);
        s->n_names = s->entries[--s->n_entries].name_at;
        return CKM_OK;
    }
    if (status != CKM_OK && err != NULL) {
        *err = why;
    }
    return status;
}

// Takes in one class: its files, whose headers are looked at now.
static ckm_status add_class(ckm_i_data_source *source, int32_t class_number, int64_t *decoding, ckm_error *err)
{
    images_state *s = source->state;
    char path[4096];
    char **images = NULL;
    int32_t n = 0;
    char *folder = ckm_i_data_path(s->root, s->classes[class_number]);
    if (folder == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    // A class may have no samples for validation.
    if (!source->validates || ckm_i_data_has_folder(s->root, s->classes[class_number])) {
        CKM_I_TRY(list_folder(folder, false, &images, &n, err));
    }
    for (int32_t i = 0; i < n; i++) {
        CKM_I_TRY(add_entry(s, images[i], class_number, err));
        CKM_I_TRY(path_of(s, s->n_entries - 1, path, sizeof path, err));
        CKM_I_TRY(look_at(source, path, decoding, err));
    }
cleanup:
    free_list(images, n);
    free(folder);
    return status;
}

// Pictures in a folder that are of other kinds: how many, and the name of one.
static ckm_status count_others(const char *folder, int64_t *n, char *name, size_t size, ckm_error *err)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return ckm_i_error_at(err, CKM_ERR_IO, folder, 0, -1, "cannot open: %s", strerror(errno));
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (ckm_i_image_is_other(entry->d_name)) {
            // The first by name, independent of the file system's order.
            if (*n == 0 || strcmp(entry->d_name, name) < 0) {
                snprintf(name, size, "%s", entry->d_name);
            }
            ++*n;
        }
    }
    closedir(dir);
    return CKM_OK;
}

// Says which folders are no class, and which pictures are not read.
static ckm_status note_others(ckm_i_data_source *source, ckm_error *err)
{
    const images_state *s = source->state;
    char **folders = NULL;
    int32_t n = 0;
    char *path = NULL;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(list_folder(s->root, true, &folders, &n, err));
    for (int32_t i = 0; i < n; i++) {
        char name[256] = "";
        int64_t others = 0;
        bool is_class = false;
        for (int32_t k = 0; k < s->n_classes; k++) {
            is_class = is_class || strcmp(s->classes[k], folders[i]) == 0;
        }
        path = ckm_i_data_path(s->root, folders[i]);
        if (path == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        CKM_I_TRY(count_others(path, &others, name, sizeof name, err));
        if (others > 0) {
            ckm_i_data_note(
                source->options,
                "%s: %lld picture%s of other kinds than PNG and JPEG left out, such as %s: convert them to be "
                "read%s",
                path, (long long)others, others == 1 ? "" : "s", name,
                is_class ? "" : "; without them the folder is no class");
        } else if (!is_class) {
            ckm_i_data_note(source->options, "%s: holds no picture and is no class", path);
        }
        free(path);
        path = NULL;
    }
cleanup:
    free(path);
    free_list(folders, n);
    return status;
}

void ckm_i_data_images_problem(const char *folder, char *buf, size_t size)
{
    char **list = NULL;
    char name[256] = "";
    char in[256] = "";
    int32_t n = 0;
    int64_t others = 0;
    char *root = find_root(folder);
    buf[0] = '\0';
    if (root == NULL || list_folder(root, false, &list, &n, NULL) != CKM_OK) {
        free(root);
        return;
    }
    free_list(list, n);
    if (n > 0) {
        snprintf(buf, size, "holds pictures, but in no folders: each class of pictures needs its own folder in it");
        free(root);
        return;
    }
    list = NULL;
    n = 0;
    if (list_folder(root, true, &list, &n, NULL) == CKM_OK && n > 0) {
        for (int32_t i = 0; i < n && others == 0; i++) {
            char *path = ckm_i_data_path(root, list[i]);
            if (path != NULL && count_others(path, &others, name, sizeof name, NULL) == CKM_OK && others > 0) {
                snprintf(in, sizeof in, "%.100s/%.150s", list[i], name);
            }
            free(path);
        }
        snprintf(buf, size, "holds %d folder%s and no PNG or JPEG picture in %s%s%s%s", (int)n, n == 1 ? "" : "s",
                 n == 1 ? "it" : "them", others > 0 ? "; pictures of other kinds, such as " : "", in,
                 others > 0 ? ", are not read: convert them" : "");
    }
    free_list(list, n);
    free(root);
}

static ckm_status open_source(const char *folder, ckm_i_data_source *source, ckm_error *err)
{
    images_state *s = ckm_i_calloc(1, sizeof *s);
    int64_t decoding = 0;
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    s->root = source->validates ? ckm_i_strdup(folder) : find_root(folder);
    if (s->root == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_data_require_classes(source->options, "image", err));
    CKM_I_CHECK(ckm_i_pixels_init(&s->sink, source->options, 0, 0, 0, err));
    CKM_I_CHECK(list_classes(s->root, &s->classes, &s->n_classes, err));
    if (source->trained_on != NULL && source->trained_on->format == source->format) {
        CKM_I_CHECK(adopt_classes(s, source->trained_on, err));
    }
    source->classes = s->n_classes;
    int64_t limit = source->options->labels.limit;
    if (limit > 0 && s->n_classes > limit) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, s->root, 0, -1,
                              "has %d class folders, but the network has only %lld classes", (int)s->n_classes,
                              (long long)limit);
    }
    for (int32_t i = 0; i < s->n_classes; i++) {
        CKM_I_CHECK(add_class(source, i, &decoding, err));
    }
    if (s->n_entries == 0 && source->left_out->kept > 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, source->left_out->why[0].file, 0, -1, "%s%s",
                              source->left_out->why[0].message,
                              source->left_out->n > 1 ? "; nor is any other picture of its folder" : "");
    }
    CKM_I_CHECK(note_others(source, err));
    source->pictures = true;
    source->samples = s->n_entries;
    source->bytes = (int64_t)sizeof *s + s->cap_names + s->cap_entries * (int64_t)sizeof *s->entries + decoding +
                    s->sink.bytes + s->n_classes * 64;
    return CKM_OK;
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    images_state *s = source->state;
    const image_entry *e = &s->entries[sample];
    char path[4096];
    CKM_I_CHECK(path_of(s, sample, path, sizeof path, err));
    s->sink.draw = source->draw;
    CKM_I_CHECK(ckm_i_image_decode(path, ckm_i_image_kind_of(s->names + e->name_at), &s->sink, inputs[0], err));
    return ckm_i_data_store_class(source, path, sample, e->class_number, labels, err);
}

static const char *class_name(const ckm_i_data_source *source, int64_t i)
{
    const images_state *s = source->state;
    return s->classes[i];
}

const ckm_i_data_format ckm_i_data_format_images = {
    .name = "images",
    .files = true,
    .summary = "one folder of PNG or JPEG images per class; resized to the network's input",
    .detect = detect,
    .open = open_source,
    .count_classes = count_classes,
    .read = read_sample,
    .class_name = class_name,
    .close = close_state,
};
