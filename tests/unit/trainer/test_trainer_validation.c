// SPDX-License-Identifier: Apache-2.0
// Validation between steps: its numbers are those of running the trained network forward, every sample counts once, and training
// is the same to the bit as without it.
#define _DEFAULT_SOURCE  // mkdtemp
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "data_files.h"
#include "run/data/data.h"

enum { BATCH = 4, SIDE = 8, PIXELS = SIDE * SIDE * 2, CLASSES = 3, SAMPLES = 30, JUDGED = 10, MOST = 8 };

// Running statistics and dropout: training and prediction differ.
static ckm_graph *network(void)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("judged", BATCH, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (const int64_t[]){SIDE, SIDE, 2});
    x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = 8, .kernel = {3}, .padding = "same"});
    x = ckm_network_batch_norm(net, x, (ckm_batch_norm_layer){.name = "norm"});
    x = ckm_network_activation(net, x, NULL, "relu");
    x = ckm_network_dropout(net, x, NULL, 0.3);
    x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, CLASSES, "softmax");
    assert_int_equal(ckm_network_finish(net, x, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static float pixel(int64_t sample, int64_t i)
{
    double noise = (double)((sample * 31 + i * 7) % 23 - 11) / 11.0;
    return (float)(noise + (double)(sample % CLASSES) * (double)(i % 3));
}

static ckm_status read_sample(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)err;
    for (int64_t i = 0; i < PIXELS; i++) {
        ((float *)inputs[0])[i] = pixel(sample, i);
    }
    *(int32_t *)labels = (int32_t)(sample % CLASSES);
    return CKM_OK;
}

typedef struct seen {
    ckm_train_validation all[MOST];
    int n;
    double losses[64];
    int n_losses;
} seen;

static void validated(const ckm_train_validation *v, void *user)
{
    seen *s = user;
    assert_in_range(s->n, 0, MOST - 1);
    s->all[s->n++] = *v;
}

static void stepped(const ckm_train_progress *p, void *user)
{
    seen *s = user;
    s->losses[s->n_losses++ % 64] = p->loss;
}

static ckm_trainer_options options_of(const ckm_data_source *source)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "cpu", .threads = 1};
    static ckm_autodiff_options step = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_trainer_options o = CKM_TRAINER_OPTIONS_INIT;
    o.budget_bytes = INT64_C(1) << 40;
    o.costs = CKM_TRAINER_COSTS_MODEL;
    o.kernels = &kernels;
    o.step = &step;
    o.source = source;
    return o;
}

static ckm_trainer *open_it(const ckm_graph *graph, const ckm_trainer_options *options)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_trainer *trainer = NULL;
    if (ckm_trainer_open(graph, options, &trainer, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return trainer;
}

static void train_to(ckm_trainer *trainer, int64_t steps, const char *best, seen *s)
{
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    ckm_error err = CKM_ERROR_INIT;
    course.last_step = steps;
    course.validated = validated;
    course.progress = stepped;
    course.best_path = best;
    course.user = s;
    if (ckm_trainer_run(trainer, &course, &result, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

// Loss and hits of the exported network over samples [first, first + n), one batch after the other with empty places filled.
static void judge(const ckm_graph *graph, const char *weights, int64_t first, int64_t n, double *loss, int64_t *correct)
{
    const ckm_shape shape = {4, {BATCH, SIDE, SIDE, 2}};
    static float images[BATCH * PIXELS];
    float y[BATCH * CLASSES];
    ckm_inference_options o = CKM_INFERENCE_OPTIONS_INIT;
    ckm_inference *f = NULL;
    o.budget_bytes = INT64_C(1) << 40;
    o.weights = weights;
    assert_int_equal(ckm_inference_open(graph, &o, &f, NULL), CKM_OK);
    *loss = 0;
    *correct = 0;
    for (int64_t at = 0; at < n; at += BATCH) {
        for (int64_t b = 0; b < BATCH; b++) {
            for (int64_t i = 0; i < PIXELS; i++) {
                images[b * PIXELS + i] = pixel(first + at + b, i);
            }
        }
        assert_int_equal(ckm_inference_set(f, "image", CKM_F32, &shape, images, NULL), CKM_OK);
        assert_int_equal(ckm_inference_run(f, NULL, NULL), CKM_OK);
        assert_int_equal(ckm_inference_get(f, 0, y, sizeof y, NULL), CKM_OK);
        for (int64_t b = 0; b < BATCH && at + b < n; b++) {
            int64_t label = (first + at + b) % CLASSES;
            int64_t most = 0;
            for (int64_t c = 1; c < CLASSES; c++) {
                most = y[b * CLASSES + c] > y[b * CLASSES + most] ? c : most;
            }
            *loss -= log((double)y[b * CLASSES + label]);
            *correct += most == label;
        }
    }
    *loss /= (double)n;
    ckm_inference_close(f);
}

static void numbers_are_those_of_prediction(void **state)
{
    (void)state;
    char folder[64];
    char weights[128];
    const ckm_data_source source = {.samples = SAMPLES, .classes = CLASSES, .read = read_sample};
    static const ckm_data_options reading = {.size = sizeof reading, .keep_order = true};
    ckm_graph *graph = network();
    ckm_trainer_options options = options_of(&source);
    seen s = {.n = 0};
    data_files_folder(folder, sizeof folder);
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    options.reading = &reading;  // the last third is held back, as it is
    options.validate_fraction = (double)JUDGED / (double)SAMPLES;
    ckm_trainer *trainer = open_it(graph, &options);
    assert_int_equal(ckm_data_get_facts(ckm_trainer_data(trainer)).samples, SAMPLES - JUDGED);
    assert_true(ckm_trainer_get_validation(trainer).there);
    assert_int_equal(ckm_trainer_get_validation(trainer).samples, JUDGED);
    assert_true(ckm_trainer_get_validation(trainer).bytes > 0);
    train_to(trainer, 12, NULL, &s);  // two epochs of five steps, and two steps
    assert_int_equal(s.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s.all[i].step, i < 2 ? 5 * (i + 1) : 12);
        assert_int_equal(s.all[i].epoch, i);
        assert_int_equal(s.all[i].samples, JUDGED);
        assert_int_equal(s.all[i].judged, JUDGED);
    }
    assert_int_equal(ckm_trainer_export(trainer, weights, NULL), CKM_OK);
    double loss = 0;
    int64_t correct = 0;
    judge(graph, weights, SAMPLES - JUDGED, JUDGED, &loss, &correct);
    assert_true(fabs(loss - s.all[2].loss) < 1e-5);
    assert_int_equal(correct, s.all[2].correct);
    assert_true(fabs(s.all[2].accuracy - (double)correct / (double)JUDGED) < 1e-12);
    ckm_trainer_close(trainer);
    data_files_remove(folder);
    ckm_graph_free(graph);
}

// Without shuffling by epoch, a label tells which sample it was.
static ckm_status read_number(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)err;
    *(float *)inputs[0] = (float)sample;
    *(int32_t *)labels = (int32_t)sample;
    return CKM_OK;
}

// Every sample is either trained on or validated on, by the seed alone; the places that the last batch leaves empty have no label.
static void a_share_is_held_back(void **state)
{
    (void)state;
    const ckm_data_source source = {.samples = SAMPLES, .read = read_number};
    ckm_data_field input = {"x", CKM_F32, {1, {1}}, 0};
    ckm_data_options o = CKM_DATA_OPTIONS_INIT;
    int same_seed = 0;
    bool held[3][SAMPLES] = {{false}};
    o.batch = BATCH;
    o.n_inputs = 1;
    o.inputs = &input;
    for (int seed = 0; seed < 3; seed++) {
        bool learnt[SAMPLES] = {false};
        o.seed = (uint64_t)(seed % 2);
        for (int validates = 0; validates < 2; validates++) {
            const ckm_i_data_share share = {.fraction = 1.0 / 3, .validates = validates == 1};
            ckm_data *d = NULL;
            assert_int_equal(ckm_i_data_open_share(NULL, &source, &o, &share, &d, NULL), CKM_OK);
            ckm_data_facts facts = ckm_data_get_facts(d);
            assert_int_equal(facts.samples, validates ? JUDGED : SAMPLES - JUDGED);
            assert_int_equal(facts.batches, validates ? 3 : 5);
            for (int64_t step = 0; step < facts.batches; step++) {
                float x[BATCH];
                int32_t labels[BATCH];
                void *inputs[1] = {x};
                assert_int_equal(ckm_data_fetch(d, step, inputs, labels, NULL), CKM_OK);
                for (int i = 0; i < BATCH; i++) {
                    if (validates && step * BATCH + i >= JUDGED) {
                        assert_int_equal(labels[i], -1);
                        assert_true(x[i] == 0.0F);
                        continue;
                    }
                    assert_in_range(labels[i], 0, SAMPLES - 1);
                    bool *taken = validates ? &held[seed][labels[i]] : &learnt[labels[i]];
                    assert_false(*taken);
                    *taken = true;
                }
            }
            ckm_data_close(d);
        }
        for (int i = 0; i < SAMPLES; i++) {
            assert_true(learnt[i] != held[seed][i]);
        }
    }
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(held[0][i], held[2][i]);
        same_seed += held[0][i] == held[1][i];
    }
    assert_true(same_seed < SAMPLES);
}

static void training_is_the_same(void **state)
{
    (void)state;
    char folder[64];
    char path[2][128];
    const ckm_data_source source = {.samples = SAMPLES, .classes = CLASSES, .read = read_sample};
    ckm_graph *graph = network();
    ckm_trainer_options options = options_of(&source);
    seen s[2] = {{.n = 0}, {.n = 0}};
    data_files_folder(folder, sizeof folder);
    // A folder of its own to validate on.
    static float x[JUDGED * PIXELS];
    static uint8_t y[JUDGED];
    for (int64_t i = 0; i < JUDGED * PIXELS; i++) {
        x[i] = pixel(100 + i / PIXELS, i % PIXELS);
        y[i / PIXELS] = (uint8_t)((100 + i / PIXELS) % CLASSES);
    }
    data_files_npy(folder, "held/x.npy", "<f4", "(10, 8, 8, 2)", x, sizeof x);
    data_files_npy(folder, "held/y.npy", "|u1", "(10,)", y, sizeof y);
    char held[128];
    snprintf(held, sizeof held, "%s/held", folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.safetensors", folder, i);
        options.validate = i == 0 ? NULL : held;
        ckm_trainer *trainer = open_it(graph, &options);
        train_to(trainer, 20, NULL, &s[i]);
        ckm_session *session = ckm_trainer_session(trainer);
        static float kept[1 << 14];
        for (int32_t k = 0; k < ckm_session_tensor_count(session); k++) {
            static float values[1 << 14];
            ckm_session_tensor t = ckm_session_get_tensor(session, k);
            if (strcmp(t.name, "dense/kernel") == 0) {
                assert_true(t.bytes <= (int64_t)sizeof values);
                assert_int_equal(ckm_session_read(session, k, 0, t.bytes, i == 0 ? kept : values, NULL), CKM_OK);
                assert_true(i == 0 || memcmp(kept, values, (size_t)t.bytes) == 0);
            }
        }
        ckm_trainer_info info = ckm_trainer_get_info(trainer);
        assert_true(info.used_bytes <= info.budget_bytes);
        ckm_trainer_close(trainer);
    }
    assert_int_equal(s[0].n, 0);
    assert_int_equal(s[1].n, 3);  // epochs of seven steps
    assert_int_equal(s[1].all[0].judged, JUDGED);
    assert_int_equal(s[0].n_losses, 20);
    assert_memory_equal(s[0].losses, s[1].losses, 20 * sizeof s[0].losses[0]);
    data_files_remove(folder);
    ckm_graph_free(graph);
}

static void the_best_is_kept(void **state)
{
    (void)state;
    char folder[64];
    char best[128];
    char text[64];
    bool found = false;
    const ckm_data_source source = {.samples = SAMPLES, .classes = CLASSES, .read = read_sample};
    ckm_graph *graph = network();
    ckm_trainer_options options = options_of(&source);
    seen s = {.n = 0};
    data_files_folder(folder, sizeof folder);
    snprintf(best, sizeof best, "%s/best.safetensors", folder);
    options.validate_fraction = 1.0 / 3;
    ckm_trainer *trainer = open_it(graph, &options);
    train_to(trainer, 30, best, &s);
    ckm_trainer_close(trainer);
    int at = 0;
    for (int i = 0; i < s.n; i++) {
        bool least = true;
        for (int k = 0; k < i; k++) {
            least = least && s.all[i].loss < s.all[k].loss;
        }
        assert_int_equal(s.all[i].best, least);
        at = least ? i : at;
    }
    ckm_train_place place;
    assert_int_equal(ckm_train_read_place(best, &place, NULL), CKM_OK);
    assert_int_equal(place.step, s.all[at].step);
    assert_int_equal(ckm_train_read_note(best, "validation.least_loss", text, sizeof text, &found, NULL), CKM_OK);
    assert_true(found && strtod(text, NULL) == s.all[at].loss);
    assert_int_equal(ckm_train_read_note(best, "classes", text, sizeof text, &found, NULL), CKM_OK);
    assert_string_equal(text, "3");
    assert_int_equal(ckm_train_read_note(best, "input", text, sizeof text, &found, NULL), CKM_OK);
    assert_string_equal(text, "8,8,2");
    assert_int_equal(ckm_train_read_note(best, "nonesuch", text, sizeof text, &found, NULL), CKM_OK);
    assert_false(found);
    // A run that goes on does not take a worse state for the best.
    options.resume = best;
    seen more = {.n = 0};
    trainer = open_it(graph, &options);
    train_to(trainer, s.all[at].step + 5, best, &more);
    ckm_trainer_close(trainer);
    assert_true(more.n >= 1);
    assert_int_equal(more.all[0].best, more.all[0].loss < s.all[at].loss);
    data_files_remove(folder);
    ckm_graph_free(graph);
}

static void what_cannot_be(void **state)
{
    (void)state;
    const ckm_data_source source = {.samples = SAMPLES, .classes = CLASSES, .read = read_sample};
    const struct {
        const char *folder;
        double fraction;
        const char *words;
    } bad[] = {
        {NULL, 1.0, "below 1"},
        {NULL, -0.5, "at least 0"},
        {NULL, (double)NAN, "at least 0"},
        {"synthetic", 0.5, "give one"},
        {NULL, 0.9, "besides those for validation"},
        {"/nonesuch", 0, "cannot open"},
    };
    ckm_graph *graph = network();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_trainer_options options = options_of(&source);
        ckm_trainer *trainer = NULL;
        ckm_error err = CKM_ERROR_INIT;
        options.validate = bad[i].folder;
        options.validate_fraction = bad[i].fraction;
        assert_int_not_equal(ckm_trainer_plan(graph, &options, &trainer, &err), CKM_OK);
        if (strstr(err.message, bad[i].words) == NULL) {
            fail_msg("\"%s\" does not say %s", err.message, bad[i].words);
        }
    }
    assert_false(ckm_trainer_get_validation(NULL).there);
    ckm_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_prediction),
        cmocka_unit_test(a_share_is_held_back),
        cmocka_unit_test(training_is_the_same),
        cmocka_unit_test(the_best_is_kept),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
