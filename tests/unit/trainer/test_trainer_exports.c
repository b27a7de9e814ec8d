// SPDX-License-Identifier: Apache-2.0
// Files as exporters write them: tensors of equal values merged, operators left in training mode, normalization folded away.
#define _DEFAULT_SOURCE  // mkdtemp
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "data_files.h"
#include "onnx_builder.h"

typedef struct attempt {
    char folder[64], path[128];
    ckm_graph *graph;
    ckm_trainer *trainer;
    char notes[1024];
    ckm_error err;
} attempt;

static void note(ckm_log_level level, const char *line, void *user)
{
    attempt *a = user;
    if (level <= CKM_LOG_WARN) {
        snprintf(a->notes, sizeof a->notes, "%s", line);
    }
}

// Opens a trainer for what the builder holds.
static ckm_status try_it(attempt *a, onnx_builder *b, bool exports_model)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "cpu", .threads = 1};
    static const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 16};
    uint8_t *packed;
    size_t size;
    *a = (attempt){.err = CKM_ERROR_INIT};
    data_files_folder(a->folder, sizeof a->folder);
    snprintf(a->path, sizeof a->path, "%s/m.onnx", a->folder);
    ob_pack(b, &packed, &size);
    data_files_write(a->folder, "m.onnx", packed, size);
    free(packed);
    ob_free(b);
    if (ckm_import_file(a->path, NULL, &a->graph, &a->err) != CKM_OK) {
        fail_msg("%s", a->err.message);
    }
    ckm_solve_options solve = CKM_SOLVE_OPTIONS_INIT;
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    solve.user = a;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    options.solve = &solve;
    options.model = a->path;
    options.note = note;
    options.exports_model = exports_model;
    return ckm_trainer_open(a->graph, &options, &a->trainer, &a->err);
}

static void end(attempt *a)
{
    ckm_trainer_close(a->trainer);
    ckm_graph_free(a->graph);
    data_files_remove(a->folder);
}

static void says(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, wanted);
    }
}

// Two normalizations, one behind the other; `first` and `second` are their operands.
static onnx_builder *norms(int64_t opset, const char *first, const char *second, const char *outputs,
                           const char *attributes)
{
    onnx_builder *b = ob_create(opset);
    ob_input(b, "x", OB_FLOAT, "4,3");
    ob_leaves(
        b,
        "f:scale=1,2,3;f:bias=0,1,2;f:mean=0,0,0;f:ones=1,1,1;f:mean2=0,0,0;f:var2=1,1,1;f:scale2=4,5,6;f:bias2=3,2,1");
    ob_node(b, "Identity", "scale", "merged");
    ob_node(b, "BatchNormalization", first, outputs);
    if (*attributes != '\0') {
        ob_int(b, attributes, 1);
    }
    ob_node(b, "BatchNormalization", second, "y");
    if (*attributes != '\0') {
        ob_int(b, attributes, 1);
    }
    ob_output(b, "y");
    return b;
}

#define WHOLE "x,scale,bias,mean,ones", "h,scale2,bias2,mean2,var2"

static void statistics_are_tensors_of_their_own(void **state)
{
    attempt a;
    (void)state;
    assert_int_equal(try_it(&a, norms(17, "x,scale,bias,mean,merged", "h,scale2,bias2,mean2,var2", "h", ""), false),
                     CKM_ERR_UNSUPPORTED);
    says(a.err.message, "its running variance is \"scale\", which is a trained parameter");
    end(&a);
    assert_int_equal(try_it(&a, norms(17, "x,scale,bias,mean,ones", "h,scale2,bias2,mean,var2", "h", ""), false),
                     CKM_ERR_UNSUPPORTED);
    says(a.err.message, "\"mean\" holds the running statistics of \"h_node\" and of \"y_node\"");
    end(&a);
    assert_int_equal(try_it(&a, norms(17, WHOLE, "h", ""), true), CKM_OK);
    assert_string_equal(a.notes, "");
    end(&a);
}

// What the file predicts for x, by the forward pass.
static void predict(const char *path, const float *x, int64_t rows, float *y)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    ckm_inference *inference = NULL;
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    ckm_import_options importing = CKM_IMPORT_OPTIONS_INIT;
    const ckm_shape shape = {2, {rows, 3}};
    importing.batch = rows;
    options.budget_bytes = INT64_C(1) << 40;
    options.model = path;
    options.importing = &importing;
    if (ckm_import_file(path, &importing, &graph, &err) != CKM_OK ||
        ckm_inference_open(graph, &options, &inference, &err) != CKM_OK ||
        ckm_inference_set(inference, "x", CKM_F32, &shape, x, &err) != CKM_OK ||
        ckm_inference_run(inference, NULL, &err) != CKM_OK ||
        ckm_inference_get(inference, 0, y, rows * 3 * (int64_t)sizeof *y, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    ckm_inference_close(inference);
    ckm_graph_free(graph);
}

static void learned(const attempt *a, const char *name, float values[3])
{
    ckm_session *session = ckm_trainer_session(a->trainer);
    int32_t i = ckm_session_find_tensor(session, name);
    assert_true(i >= 0);
    assert_int_equal(ckm_session_read(session, i, 0, 12, values, NULL), CKM_OK);
}

// (y - mean) / sqrt(variance + epsilon) * scale + bias of one row, with what the session has learned.
static void normalize(const attempt *a, const char *const names[4], double row[3])
{
    float t[4][3];
    for (int i = 0; i < 4; i++) {
        learned(a, names[i], t[i]);
    }
    for (int c = 0; c < 3; c++) {
        row[c] = (row[c] - (double)t[2][c]) / sqrt((double)t[3][c] + 1e-5) * (double)t[0][c] + (double)t[1][c];
    }
}

// Trains for two steps and exports; the copy predicts by the running statistics, whatever else is in the batch.
static void predicts_what_was_learned(attempt *a)
{
    static const float x[6] = {1.0F, -2.0F, 0.5F, 100.0F, 3.0F, -7.0F};
    static const char *const first[4] = {"scale", "bias", "mean", "ones"};
    static const char *const second[4] = {"scale2", "bias2", "mean2", "var2"};
    char out[160];
    float alone[3];
    float pair[6];
    float mean[3];
    double row[3] = {1.0, -2.0, 0.5};
    ckm_train_options train = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    train.last_step = 2;
    assert_int_equal(ckm_trainer_run(a->trainer, &train, &result, &a->err), CKM_OK);
    learned(a, "mean", mean);
    assert_true(mean[0] < 0.0F || mean[0] > 0.0F);
    snprintf(out, sizeof out, "%s/out.onnx", a->folder);
    if (ckm_trainer_export(a->trainer, out, &a->err) != CKM_OK) {
        fail_msg("%s", a->err.message);
    }
    predict(out, x, 1, alone);
    predict(out, x, 2, pair);
    normalize(a, first, row);
    normalize(a, second, row);
    for (int c = 0; c < 3; c++) {
        assert_true(fabs((double)alone[c] - row[c]) < 1e-4 * (1.0 + fabs(row[c])));
        assert_true(fabs((double)(pair[c] - alone[c])) < 1e-5 * (1.0 + fabs(row[c])));
    }
}

static void a_copy_is_in_evaluation_mode(void **state)
{
    attempt a;
    (void)state;
    assert_int_equal(try_it(&a, norms(17, WHOLE, "h,m,v", "training_mode"), true), CKM_OK);
    says(a.notes,
         "2 operators are in training mode in the model's file (\"h_node\"); the copy with the trained weights has "
         "them in evaluation mode");
    predicts_what_was_learned(&a);
    end(&a);
    // Before opset 14 it is the outputs past the first that say so.
    assert_int_equal(try_it(&a, norms(13, WHOLE, "h,m,v,sm,sv", ""), true), CKM_OK);
    says(a.notes,
         "1 operator is in training mode in the model's file (\"h_node\"); the copy with the trained weights has it "
         "in evaluation mode");
    predicts_what_was_learned(&a);
    end(&a);
    // Nothing to turn, nothing to say.
    assert_int_equal(try_it(&a, norms(17, WHOLE, "h", ""), true), CKM_OK);
    assert_string_equal(a.notes, "");
    predicts_what_was_learned(&a);
    end(&a);
}

// A node that the network does not need reads the mean of the batch: the copy could not have it.
static void statistics_of_a_batch_that_are_read(void **state)
{
    attempt a;
    char out[160];
    (void)state;
    for (int exports = 0; exports < 2; exports++) {
        onnx_builder *b = norms(17, WHOLE, "h,m,v", "training_mode");
        ob_node(b, "Identity", "m", "unused");
        assert_int_equal(try_it(&a, b, exports == 1), exports == 1 ? CKM_ERR_UNSUPPORTED : CKM_OK);
        if (exports == 0) {
            snprintf(out, sizeof out, "%s/out.onnx", a.folder);
            assert_int_equal(ckm_trainer_export(a.trainer, out, &a.err), CKM_ERR_UNSUPPORTED);
            assert_int_equal(access(out, F_OK), -1);
        }
        says(a.err.message, "\"m\" is an output of a batch normalization that training mode alone has, and is read");
        if (exports == 0) {  // weights alone can be taken elsewhere
            snprintf(out, sizeof out, "%s/out.safetensors", a.folder);
            assert_int_equal(ckm_trainer_export(a.trainer, out, &a.err), CKM_OK);
        }
        end(&a);
    }
}

// Dropout's mode is an input, here computed from a constant.
static void dropout_is_off_in_a_copy(void **state)
{
    static const float x[3] = {1.0F, -2.0F, 0.5F};
    (void)state;
    for (int on = 0; on < 2; on++) {
        attempt a;
        char out[160];
        float y[3];
        float w[3];
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", OB_FLOAT, "4,3");
        ob_leaves(b, "f:w=1,2,3;f:ratio=0.5");
        CkmOnnx__TensorProto *mode = ob_detached_ints(b, on ? "1" : "0");
        mode->n_dims = 0;
        ob_node(b, "Constant", "", "number");
        ob_tensor(b, "value", mode);
        ob_node(b, "Cast", "number", "mode");
        ob_int(b, "to", OB_BOOL);
        ob_node(b, "Mul", "x,w", "h");
        ob_node(b, "Dropout", "h,ratio,mode", "y");
        ob_output(b, "y");
        assert_int_equal(try_it(&a, b, true), CKM_OK);
        if (on) {
            says(a.notes, "1 operator is in training mode");
        } else {
            assert_string_equal(a.notes, "");
        }
        snprintf(out, sizeof out, "%s/out.onnx", a.folder);
        assert_int_equal(ckm_trainer_export(a.trainer, out, &a.err), CKM_OK);
        predict(out, x, 1, y);
        learned(&a, "w", w);
        for (int i = 0; i < 3; i++) {
            assert_true(fabs((double)(y[i] - x[i] * w[i])) < 1e-6);
        }
        end(&a);
    }
}

static void merged_parameters_are_noted(void **state)
{
    attempt a;
    (void)state;
    assert_int_equal(try_it(&a, norms(17, "x,scale,mean,mean2,ones", "h,scale2,mean,bias2,var2", "h", ""), false),
                     CKM_OK);
    says(a.notes,
         "1 tensor of one number repeated is read by several operators each and trained as one (\"mean\", read by "
         "\"h_node\" and \"y_node\")");
    end(&a);
    // Tied by its values as well: no reason to doubt it.
    assert_int_equal(try_it(&a, norms(17, "x,scale,bias,mean2,ones", "h,scale,bias,mean,var2", "h", ""), false),
                     CKM_OK);
    assert_string_equal(a.notes, "");
    end(&a);
}

static CkmOnnx__Pair pair_of(const char *key, const char *value)
{
    CkmOnnx__Pair pair;
    ckm_onnx__pair__init(&pair);
    pair.key = (ProtobufCBinaryData){key != NULL ? strlen(key) : 0, (uint8_t *)(uintptr_t)key};
    pair.value = (ProtobufCBinaryData){value != NULL ? strlen(value) : 0, (uint8_t *)(uintptr_t)value};
    return pair;
}

static void folded_normalization_is_noted(void **state)
{
    static const char *const names[][2] = {{"onnx::Conv_7", "onnx::Conv_8"},
                                           {"c.weight", "c.weight_bias"},
                                           {"c.w", "c.b"},
                                           {"c.w", ""},
                                           {"c.w", ""},
                                           {"c.w", ""}};
    // Of a fresh network not even a bias is left: then the exporter's note says so.
    static const char *const notes[][2] = {
        {0},
        {0},
        {0},
        {0},
        {"pkg.onnxscript.rewriter.rule_name", "RemoveOptionalBiasFromConv, FuseBatchNormIntoConv"},
        {"pkg.onnxscript.rewriter.rule_nama", "FuseBatchNormIntoConv"}};
    (void)state;
    for (int i = 0; i < 6; i++) {
        attempt a;
        char inputs[64];
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", OB_FLOAT, "4,1,1,1");
        CkmOnnx__TensorProto *w = ob_floats(b, names[i][0], "1,2");
        static int64_t dims[4] = {2, 1, 1, 1};
        w->n_dims = 4;
        w->dims = dims;
        if (names[i][1][0] != '\0') {
            ob_floats(b, names[i][1], "3,4");
        }
        snprintf(inputs, sizeof inputs, "x,%s%s%s", names[i][0], names[i][1][0] != '\0' ? "," : "", names[i][1]);
        CkmOnnx__Node *node = ob_node(b, "Conv", inputs, "y");
        CkmOnnx__Pair trace = pair_of("pkg.torch.onnx.stack_trace", "File \"FuseBatchNormIntoConv.py\"");
        CkmOnnx__Pair rules = pair_of(notes[i][0], notes[i][1]);
        CkmOnnx__Pair *pairs[] = {&trace, &rules};
        node->metadata_props = pairs;
        node->n_metadata_props = notes[i][0] != NULL ? 2 : 1;
        ob_output(b, "y");
        assert_int_equal(try_it(&a, b, false), CKM_OK);
        if (i < 2 || i == 4) {
            says(a.notes, "1 layer has weights that the exporter has made (\"y_node\")");
        } else {
            assert_string_equal(a.notes, "");
        }
        end(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_tensors_of_their_own), cmocka_unit_test(a_copy_is_in_evaluation_mode),
        cmocka_unit_test(statistics_of_a_batch_that_are_read), cmocka_unit_test(dropout_is_off_in_a_copy),
        cmocka_unit_test(merged_parameters_are_noted),         cmocka_unit_test(folded_normalization_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
