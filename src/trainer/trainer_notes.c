// SPDX-License-Identifier: Apache-2.0
// Metadata that training writes with the tensors, so that the network can be used without the training data: how samples are
// prepared, the names of the classes, and the least loss of validation.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/plain.h"
#include "base/text.h"
#include "graph/graph.h"
#include "trainer/trainer.h"

static const char best_key[] = "validation.least_loss";
static const char not_yet[] = "none";

struct ckm_i_trainer_notes {
    char classes[32], input[128], best[32];
    char *class_names;  // a list in JSON, or NULL
};

void ckm_i_trainer_free_notes(ckm_i_trainer_notes *notes)
{
    if (notes != NULL) {
        free(notes->class_names);
        free(notes);
    }
}

// ["circle","square"] on the heap, or NULL where classes have no names.
static ckm_status list_names(const ckm_data *data, int64_t classes, char **out, ckm_error *err)
{
    size_t room = 3;
    for (int64_t i = 0; i < classes; i++) {
        const char *name = ckm_data_class_name(data, i);
        room += name != NULL ? 6 * strlen(name) + 3 : 0;
    }
    *out = NULL;
    if (classes < 1 || ckm_data_class_name(data, 0) == NULL) {
        return CKM_OK;
    }
    char *text = ckm_i_calloc(room, 1);
    FILE *stream = text != NULL ? fmemopen(text, room, "w") : NULL;
    if (stream == NULL) {
        free(text);
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < classes; i++) {
        fputc(i == 0 ? '[' : ',', stream);
        ckm_json_write_text(stream, ckm_data_class_name(data, i));
    }
    fputc(']', stream);
    if (fclose(stream) != 0) {
        free(text);
        return ckm_i_error_memory(err);
    }
    *out = text;
    return CKM_OK;
}

// "224,224,3" of an image, in the order of the command line; any other shape unchanged.
static void describe_input(const ckm_graph *g, char *buf, size_t size)
{
    const ckm_shape *shape = NULL;
    size_t used = 0;
    for (int32_t x = 0; x < g->n_tensors && shape == NULL; x++) {
        shape = g->tensors[x].role == CKM_ROLE_INPUT ? &g->tensors[x].shape : NULL;
    }
    buf[0] = '\0';
    for (int32_t i = 1; shape != NULL && i < shape->rank && used < size; i++) {
        bool planar = g->layout == CKM_CHANNELS_FIRST && shape->rank == 4;
        int64_t dim = shape->dims[!planar ? i : i < 3 ? i + 1 : 1];
        int n = snprintf(buf + used, size - used, "%s%lld", i > 1 ? "," : "", (long long)dim);
        used += n > 0 ? (size_t)n : 0;
    }
}

ckm_status ckm_i_trainer_take_notes(ckm_trainer *t, ckm_error *err)
{
    ckm_data_facts data = ckm_data_get_facts(t->data);
    ckm_i_trainer_notes *notes = ckm_i_calloc(1, sizeof *notes);
    t->notes = notes;
    if (notes == NULL) {
        return ckm_i_error_memory(err);
    }
    t->best_loss = (double)INFINITY;
    CKM_I_CHECK(list_names(t->data, data.classes, &notes->class_names, err));
    snprintf(notes->classes, sizeof notes->classes, "%lld", (long long)data.classes);
    snprintf(notes->best, sizeof notes->best, "%s", not_yet);
    describe_input(t->graph, notes->input, sizeof notes->input);
    ckm_i_train_note(&t->settings, "input", notes->input);
    ckm_i_train_note(&t->settings, "layout", ckm_graph_layout(t->graph) == CKM_CHANNELS_LAST ? "NHWC" : "NCHW");
    if (t->options.network_options != NULL) {
        ckm_i_train_note(&t->settings, "network_options", t->options.network_options);
    }
    if (data.classes > 0) {
        ckm_i_train_note(&t->settings, "classes", notes->classes);
    }
    if (notes->class_names != NULL) {
        ckm_i_train_note(&t->settings, "class_names", notes->class_names);
    }
    if (t->validation != NULL) {
        ckm_i_train_note(&t->settings, best_key, notes->best);
    }
    return t->options.resume != NULL ? ckm_i_trainer_read_best(t, err) : CKM_OK;
}

static void note_best(ckm_trainer *t, double loss)
{
    t->best_loss = loss;
    snprintf(t->notes->best, sizeof t->notes->best, "%.17g", loss);
    ckm_i_text_point(t->notes->best);
}

bool ckm_i_trainer_is_best(void *user, double loss)
{
    ckm_trainer *t = user;
    if (!(loss < t->best_loss)) {
        return false;
    }
    note_best(t, loss);
    return true;
}

ckm_status ckm_i_trainer_read_best(ckm_trainer *t, ckm_error *err)
{
    char text[64];
    char *end = NULL;
    ckm_i_plain plain;
    bool found = false;
    CKM_I_CHECK(ckm_train_read_note(t->options.resume, best_key, text, sizeof text, &found, err));
    if (!found || strcmp(text, not_yet) == 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_plain_begin(&plain, err));
    double loss = strtod(text, &end);
    ckm_i_plain_end(&plain);
    if (end == text || *end != '\0' || !isfinite(loss)) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, t->options.resume, 0, -1,
                              "__metadata__.%s: must be a number, got \"%s\"", best_key, text);
    }
    note_best(t, loss);
    return CKM_OK;
}
