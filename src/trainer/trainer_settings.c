// SPDX-License-Identifier: Apache-2.0
// Settings that must not change when training is resumed: optimizer, seed and batch always, the rest unless `change` names it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autodiff/step.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/text.h"
#include "graph/graph.h"
#include "run/session/session.h"
#include "run/train/train.h"
#include "trainer/trainer.h"

// Settings that `change` may name.
static const char *const changeable[] = {"network", "loss",    "data",       "samples", "classes",
                                         "pixels",  "augment", "keep-order", "lr"};
enum { N_CHANGEABLE = sizeof changeable / sizeof changeable[0] };

enum { NUMBER_TEXT = 18 };  // bytes of nine digits with sign, point and exponent

// `number` as files write it, independent of the locale.
static const char *number_text(double number, char text[NUMBER_TEXT])
{
    snprintf(text, NUMBER_TEXT, "%.9g", number);
    ckm_i_text_point(text);
    return text;
}

// With the batches of a step, `n_batches` in all processes.
static void describe_optimizer(const ckm_optimizer *given, int64_t n_batches, char *buf, size_t size)
{
    const ckm_optimizer usual = ckm_i_optimizer_usual(given);
    const ckm_optimizer *o = &usual;
    static const char *const names[] = {"none", "sgd", "adam", "adamw"};
    char n[4][NUMBER_TEXT];
    const char *decay = number_text(o->weight_decay, n[0]);
    if (o->kind == CKM_OPTIMIZER_NONE) {
        snprintf(buf, size, "none");
    } else if (o->kind == CKM_OPTIMIZER_SGD) {
        snprintf(buf, size, "sgd momentum=%s%s weight-decay=%s", number_text(o->momentum, n[1]),
                 o->nesterov ? " nesterov" : "", decay);
    } else {
        snprintf(buf, size, "%s beta1=%s beta2=%s epsilon=%s weight-decay=%s", names[o->kind],
                 number_text(o->beta1, n[1]), number_text(o->beta2, n[2]), number_text(o->epsilon, n[3]), decay);
    }
    if (n_batches > 1) {
        size_t used = strlen(buf);
        snprintf(buf + used, size - used, " batches=%lld", (long long)n_batches);
    }
}

int64_t ckm_i_trainer_step_batches(const ckm_trainer *t)
{
    return t->ranks != NULL ? t->ranks->count : t->accumulated;
}

static ckm_status read_resumed(ckm_trainer *t, ckm_error *err)
{
    const char *path = t->options.resume;
    char optimizer[sizeof t->place.optimizer];
    CKM_I_CHECK(ckm_train_read_place(path, &t->place, err));
    describe_optimizer(&t->step.optimizer, ckm_i_trainer_step_batches(t), optimizer, sizeof optimizer);
    if (strcmp(optimizer, t->place.optimizer) != 0) {
        return ckm_i_error_at(
            err, CKM_ERR_ARGUMENT, path, 0, -1,
            "was trained with \"%s\", and this run would use \"%s\": give the same optimizer options, "
            "and as many batches a step",
            t->place.optimizer, optimizer);
    }
    if (t->options.seed != 0 && t->options.seed != t->place.seed) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1, "was trained with seed %llu, not %llu",
                              (unsigned long long)t->place.seed, (unsigned long long)t->options.seed);
    }
    if (ckm_graph_batch(t->graph) != t->place.batch) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "was trained with batches of %lld, not %lld: the steps would see different samples",
                              (long long)t->place.batch, (long long)ckm_graph_batch(t->graph));
    }
    t->resumed = true;
    return CKM_OK;
}

static ckm_status check_change(const ckm_trainer *t, ckm_error *err)
{
    for (const char *at = t->options.change; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        size_t length = strcspn(at, ",");
        bool known = false;
        for (int i = 0; i < N_CHANGEABLE; i++) {
            known = known || (strlen(changeable[i]) == length && strncmp(changeable[i], at, length) == 0);
        }
        if (!known) {
            return ckm_i_error(
                err, CKM_ERR_ARGUMENT,
                "'%.*s' is no setting that may change when training continues; these may: network, loss, "
                "data, samples, classes, pixels, augment, keep-order, lr",
                length < 80 ? (int)length : 80, at);
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_trainer_find_place(ckm_trainer *t, ckm_error *err)
{
    CKM_I_CHECK(check_change(t, err));
    t->place = (ckm_train_place){.seed = t->options.seed};
    describe_optimizer(&t->step.optimizer, ckm_i_trainer_step_batches(t), t->place.optimizer,
                       sizeof t->place.optimizer);
    if (t->options.resume != NULL) {
        CKM_I_CHECK(read_resumed(t, err));
    }
    t->place.batch = ckm_graph_batch(t->graph);
    snprintf(t->place.network, sizeof t->place.network, "%s", ckm_graph_name(t->graph));
    return CKM_OK;
}

// ---- fingerprints

static void add(uint64_t *sum, const void *bytes, size_t n)
{
    *sum = ((*sum << 7 | *sum >> 57) ^ ckm_i_fingerprint(bytes, (int64_t)n)) * UINT64_C(0x9e3779b97f4a7c15);
}

// Of what the network computes: operators, shapes, attributes; no names.
static uint64_t network_sum(const ckm_graph *g)
{
    uint64_t sum = 0;
    for (int32_t x = 0; x < g->n_tensors; x++) {
        const ckm_i_graph_tensor *t = &g->tensors[x];
        const int64_t facts[] = {(int64_t)t->role, (int64_t)t->dtype, t->shape.rank};
        add(&sum, facts, sizeof facts);
        add(&sum, t->shape.dims, (size_t)t->shape.rank * sizeof t->shape.dims[0]);
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        const ckm_i_graph_op *o = &g->ops[v];
        add(&sum, o->op_class->kind, strlen(o->op_class->kind));
        add(&sum, o->inputs, (size_t)o->n_inputs * sizeof o->inputs[0]);
        add(&sum, o->outputs, (size_t)o->n_outputs * sizeof o->outputs[0]);
        for (int32_t i = 0; i < o->n_attrs; i++) {
            const ckm_i_attr *a = &o->attrs[i];
            add(&sum, a->key, strlen(a->key));
            add(&sum, a->ints, a->type == CKM_I_ATTR_INTS ? (size_t)a->n * sizeof a->ints[0] : 0);
            add(&sum, &a->real, a->type == CKM_I_ATTR_REAL ? sizeof a->real : 0);
            add(&sum, a->word, a->type == CKM_I_ATTR_WORD ? strlen(a->word) : 0);
        }
    }
    return sum;
}

static uint64_t class_sum(const ckm_data *data, int64_t classes)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < classes; i++) {
        const char *name = ckm_data_class_name(data, i);
        add(&sum, name != NULL ? name : "", name != NULL ? strlen(name) : 0);
    }
    return sum;
}

// ---- settings

// Records the learning rates to come.
static ckm_status set_rate(ckm_trainer *t, const ckm_rate_schedule *given, ckm_error *err)
{
    ckm_rate_schedule r;
    char n[3][NUMBER_TEXT];
    char more[64] = "";
    CKM_I_CHECK(ckm_i_rate_read(given, &r, err));
    const char *rate = number_text(r.rate, n[0]);
    if (r.kind == CKM_RATE_STEP) {
        snprintf(more, sizeof more, " times %s every %lld steps", number_text(r.factor, n[1]), (long long)r.every);
    } else if (r.kind == CKM_RATE_LINEAR || r.kind == CKM_RATE_COSINE) {
        snprintf(more, sizeof more, " %s to %s at step %lld", r.kind == CKM_RATE_LINEAR ? "linear" : "cosine",
                 number_text(r.least, n[1]), (long long)r.steps);
    }
    ckm_i_train_set(&t->settings, "lr", "%s%s, warm-up %lld", rate, more, (long long)r.warmup_steps);
    return CKM_OK;
}

static void set_augmentation(ckm_trainer *t)
{
    char share[NUMBER_TEXT];
    const ckm_data_options *o = &t->reading;
    if (o->crop > 0) {
        ckm_i_train_set(&t->settings, "augment", "%scrop=%s", o->flip ? "flip," : "", number_text(o->crop, share));
    } else {
        ckm_i_train_set(&t->settings, "augment", "%s", o->flip ? "flip" : "none");
    }
}

// Which samples a fraction holds back follows from the seed and from how many there are: of other samples some that are held back now
// may have been trained on before, which the validation of a resumed run would not show.
static ckm_status note_moved_split(const ckm_trainer *t, ckm_error *err)
{
    char before[64] = "";
    bool found = false;
    long long samples = (long long)ckm_data_get_facts(t->data).samples;
    if (t->options.validate_fraction <= 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_train_read_note(t->options.resume, "setting.samples", before, sizeof before, &found, err));
    if (found && strtoll(before, NULL, 10) != samples) {
        ckm_i_trainer_note(
            t, CKM_LOG_WARN,
            "%s was trained on %.32s samples, and this run has %lld: what is held back for validation may "
            "have been trained on before; validate on separate samples",
            t->options.resume, before, samples);
    }
    return CKM_OK;
}

ckm_status ckm_i_trainer_keep_settings(ckm_trainer *t, ckm_error *err)
{
    static const char *const scalings[] = {"symmetric", "unit", "imagenet"};
    ckm_i_train_settings *s = &t->settings;
    ckm_data_facts data = ckm_data_get_facts(t->data);
    bool squares = t->step.loss == CKM_LOSS_MSE ||
                   (t->step.loss == CKM_LOSS_OF_TASK && ckm_graph_task(t->graph) == CKM_TASK_DENOISE);
    char name[64];
    ckm_i_text_copy(name, sizeof name, ckm_graph_name(t->graph));
    // The network's head may follow the classes, so these are the better message.
    ckm_i_train_set(s, "classes", "%lld (%016llx)", (long long)data.classes,
                    (unsigned long long)class_sum(t->data, data.classes));
    ckm_i_train_set(s, "network", "%s (%016llx)", name, (unsigned long long)network_sum(t->graph));
    ckm_i_train_set(s, "loss", "%s", squares ? "mse" : "cross-entropy");
    ckm_i_train_set(s, "data", "%s", data.format);
    ckm_i_train_set(s, "samples", "%lld", (long long)data.samples);
    ckm_i_train_set(s, "pixels", "%s", scalings[t->reading.scaling]);
    set_augmentation(t);
    ckm_i_train_set(s, "keep-order", "%s", t->reading.keep_order ? "yes" : "no");
    if (t->options.rate != NULL) {
        CKM_I_CHECK(set_rate(t, t->options.rate, err));
        t->options.rate = NULL;
    }
    if (t->options.resume == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_train_compare(t->options.resume, s, t->options.change, err));
    return note_moved_split(t, err);
}

ckm_status ckm_i_trainer_keep_rate(ckm_trainer *t, const ckm_rate_schedule *given, ckm_error *err)
{
    CKM_I_CHECK(set_rate(t, given, err));
    // Only before the first step of this process: its own training may continue at another rate.
    if (t->options.resume == NULL || t->rate_compared) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_train_compare(t->options.resume, &t->settings, t->options.change, err));
    t->rate_compared = true;
    return CKM_OK;
}
