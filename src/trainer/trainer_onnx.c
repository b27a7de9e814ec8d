// SPDX-License-Identifier: Apache-2.0
// Networks with their trained parameters as files for other programs. An ONNX file also says how its input is prepared and what its
// output means, in metadata_props (docs/ONNX.md).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"
#include "run/session/session.h"
#include "run/train/train.h"
#include "trainer/trainer.h"

// ---- what the file says of input and output

enum { MOST_NOTES = 24, NOTE_TEXT = 96 };

typedef struct note_list {
    int32_t n, n_texts;
    ckm_i_export_note items[MOST_NOTES];
    char texts[MOST_NOTES][NOTE_TEXT];
} note_list;

static void add_note(note_list *l, const char *key, const char *value)
{
    if (l->n < MOST_NOTES && value != NULL && value[0] != '\0') {
        l->items[l->n++] = (ckm_i_export_note){key, value};
    }
}

static char *new_text(note_list *l)
{
    return l->texts[l->n_texts < MOST_NOTES ? l->n_texts++ : MOST_NOTES - 1];
}

static void add_number(note_list *l, const char *key, int64_t value)
{
    char *text = new_text(l);
    snprintf(text, NOTE_TEXT, "%lld", (long long)value);
    add_note(l, key, text);
}

// Mean and deviation of values from 0 to 1, a number a channel, as src/run/data/data_pixels.c subtracts and divides by them.
static void add_scaling(note_list *l, const char *scaling, int64_t channels)
{
    static const struct {
        const char *name, *mean[2], *deviation[2];  // of three channels, of one
    } scalings[] = {
        {"symmetric", {"0.5,0.5,0.5", "0.5"}, {"0.5,0.5,0.5", "0.5"}},
        {"unit", {"0,0,0", "0"}, {"1,1,1", "1"}},
        {"imagenet", {"0.485,0.456,0.406", NULL}, {"0.229,0.224,0.225", NULL}},
    };
    for (size_t i = 0; scaling != NULL && i < sizeof scalings / sizeof scalings[0]; i++) {
        if (strcmp(scaling, scalings[i].name) == 0 && (channels == 1 || channels == 3)) {
            add_note(l, "input.mean", scalings[i].mean[channels == 1]);
            add_note(l, "input.std", scalings[i].deviation[channels == 1]);
        }
    }
}

// The network's first input, an image or not.
static void add_input(note_list *l, const ckm_graph *g, ckm_i_trainer_fact *fact, const void *user)
{
    const ckm_i_graph_tensor *t = NULL;
    for (int32_t i = 0; i < g->n_tensors && t == NULL; i++) {
        t = g->tensors[i].role == CKM_ROLE_INPUT ? &g->tensors[i] : NULL;
    }
    if (t == NULL) {
        return;
    }
    add_note(l, "input.name", t->name);
    if (t->dtype == CKM_I32 || t->dtype == CKM_I64) {
        const char *data = fact(user, "setting.data");
        add_note(l, "input.kind", "tokens");
        add_note(l, "input.tokens", data != NULL && strcmp(data, "text") == 0 ? "bytes" : NULL);
        return;
    }
    if (t->shape.rank != 4) {
        return;
    }
    bool last = g->layout == CKM_CHANNELS_LAST;
    int64_t channels = t->shape.dims[last ? 3 : 1];
    add_note(l, "input.kind", "image");
    add_note(l, "input.layout", "NCHW");  // of files, and of what is made of networks with the channels last
    add_note(l, "input.channels", channels == 1 ? "grey" : channels == 3 ? "RGB" : channels == 4 ? "RGBA" : NULL);
    add_number(l, "input.height", t->shape.dims[last ? 1 : 2]);
    add_number(l, "input.width", t->shape.dims[last ? 2 : 3]);
    add_note(l, "setting.pixels", fact(user, "setting.pixels"));
    add_scaling(l, fact(user, "setting.pixels"), channels);
}

// What the last operator gives.
static const char *output_of(const ckm_graph *g)
{
    const ckm_i_graph_op *op = g->n_ops > 0 ? &g->ops[g->n_ops - 1] : NULL;
    if (op == NULL || g->task == CKM_TASK_DENOISE) {
        return op != NULL ? "noise" : NULL;
    }
    bool softmax = op->op_class->id == CKM_I_OP_softmax ||
                   strcmp(ckm_i_op_attr_text(op, "activation", "linear"), "softmax") == 0;
    return softmax ? "probabilities" : "logits";
}

static const char *task_of(const ckm_graph *g)
{
    static const char *const names[] = {
        [CKM_TASK_CLASSES] = "classes",
        [CKM_TASK_NEXT_TOKEN] = "next token",
        [CKM_TASK_MASKED_TOKEN] = "masked token",
        [CKM_TASK_DENOISE] = "denoising",
    };
    return names[g->task];
}

static void describe(note_list *l, const ckm_graph *g, bool ours, ckm_i_trainer_fact *fact, const void *user)
{
    if (ours) {
        add_note(l, "network", g->name);
        add_note(l, "network_options", fact(user, "network_options"));
        add_note(l, "task", task_of(g));
        add_note(l, "output", output_of(g));
    }
    add_input(l, g, fact, user);
    add_note(l, "classes", fact(user, "classes"));
    add_note(l, "class_names", fact(user, "class_names"));
}

// ---- the file

// One tensor for the file: where it is, or a copy on the host.
static ckm_status list_tensor(const ckm_session *session, int32_t i, ckm_export_tensor *out, void **copy,
                              ckm_error *err)
{
    ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
    *out = (ckm_export_tensor){tensor.name, tensor.dtype, tensor.shape, ckm_i_session_host(session, i)};
    if (out->data != NULL) {
        return CKM_OK;
    }
    *copy = ckm_i_malloc((size_t)tensor.bytes, 1);
    out->data = *copy;
    return *copy != NULL ? ckm_session_read(session, i, 0, tensor.bytes, *copy, err) : ckm_i_error_memory(err);
}

ckm_status ckm_i_trainer_write_onnx(const ckm_session *session, const ckm_graph *graph, const char *model,
                                    const char *path, ckm_i_trainer_fact *fact, const void *user, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int32_t n_tensors = ckm_session_tensor_count(session);
    int32_t n = 0;
    CKM_I_CHECK(ckm_i_train_check_finite(session, path, err));
    ckm_export_tensor *list = ckm_i_calloc((size_t)n_tensors, sizeof *list);
    void **copies = ckm_i_calloc((size_t)n_tensors, sizeof *copies);
    note_list *notes = ckm_i_calloc(1, sizeof *notes);
    if (list == NULL || copies == NULL || notes == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        if (ckm_i_trainer_is_the_networks(session, i)) {
            CKM_I_TRY(list_tensor(session, i, &list[n], &copies[n], err));
            n++;
        }
    }
    describe(notes, graph, model == NULL, fact, user);
    if (model != NULL) {
        CKM_I_TRY(ckm_i_export_onnx(model, path, list, n, true, notes->items, notes->n, err));
    } else {
        CKM_I_TRY(ckm_i_export_network(graph, path, list, n, notes->items, notes->n, err));
    }
cleanup:
    for (int32_t i = 0; copies != NULL && i < n_tensors; i++) {
        free(copies[i]);
    }
    free(copies);
    free(list);
    free(notes);
    return status;
}

// ---- what a trainer gives away

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

static const char *fact_of_training(const void *user, const char *key)
{
    const ckm_i_train_settings *s = user;
    for (int32_t i = 0; i < s->n_notes; i++) {
        if (strcmp(s->notes[i].key, key) == 0) {
            return s->notes[i].value;
        }
    }
    for (int32_t i = 0; i < s->n; i++) {
        if (strcmp(s->items[i].key, key) == 0) {
            return s->items[i].value;
        }
    }
    return NULL;
}

ckm_status ckm_trainer_export(const ckm_trainer *t, const char *path, ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(path, err);
    CKM_I_NEED_NAMED(t->session, "session", err);
    if (!ends_with(path, ".onnx")) {
        return ckm_i_train_export(t->session, path, &t->place, &t->settings, err);
    }
    return ckm_i_trainer_write_onnx(t->session, t->graph, t->options.model, path, fact_of_training, &t->settings, err);
}
