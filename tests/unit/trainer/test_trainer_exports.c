// SPDX-License-Identifier: Apache-2.0
// Files as exporters write them: tensors of equal values merged, operators left in training mode, normalization folded away.
#define _DEFAULT_SOURCE  // mkdtemp
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
    ckm_solve_options solve = CKM_TRAINER_SOLVE_INIT;
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
static onnx_builder *two_norms(const char *first, const char *second, const char *attributes)
{
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "4,3");
    ob_leaves(
        b,
        "f:scale=1,2,3;f:bias=0,1,2;f:mean=0,0,0;f:ones=1,1,1;f:mean2=0,0,0;f:var2=1,1,1;f:scale2=4,5,6;f:bias2=3,2,1");
    ob_node(b, "Identity", "scale", "merged");
    ob_node(b, "BatchNormalization", first, "h");
    ob_attributes(b, attributes);
    ob_node(b, "BatchNormalization", second, "y");
    ob_attributes(b, attributes);
    ob_output(b, "y");
    return b;
}

#define WHOLE "x,scale,bias,mean,ones", "h,scale2,bias2,mean2,var2"

static void statistics_are_tensors_of_their_own(void **state)
{
    attempt a;
    (void)state;
    assert_int_equal(try_it(&a, two_norms("x,scale,bias,mean,merged", "h,scale2,bias2,mean2,var2", ""), false),
                     CKM_ERR_UNSUPPORTED);
    says(a.err.message, "its running variance is \"scale\", which is a trained parameter");
    end(&a);
    assert_int_equal(try_it(&a, two_norms("x,scale,bias,mean,ones", "h,scale2,bias2,mean,var2", ""), false),
                     CKM_ERR_UNSUPPORTED);
    says(a.err.message, "\"mean\" holds the running statistics of \"h_node\" and of \"y_node\"");
    end(&a);
    assert_int_equal(try_it(&a, two_norms(WHOLE, ""), true), CKM_OK);
    assert_string_equal(a.notes, "");
    end(&a);
}

static void training_mode_is_not_exported(void **state)
{
    attempt a;
    char out[160];
    (void)state;
    assert_int_equal(try_it(&a, two_norms(WHOLE, "training_mode=1"), true), CKM_ERR_UNSUPPORTED);
    says(a.err.message, "\"h_node\" (batch_norm) is in training mode");
    end(&a);
    // Weights alone can be taken elsewhere.
    assert_int_equal(try_it(&a, two_norms(WHOLE, "training_mode=1"), false), CKM_OK);
    snprintf(out, sizeof out, "%s/out.onnx", a.folder);
    assert_int_equal(ckm_trainer_export(a.trainer, out, &a.err), CKM_ERR_UNSUPPORTED);
    snprintf(out, sizeof out, "%s/out.safetensors", a.folder);
    assert_int_equal(ckm_trainer_export(a.trainer, out, &a.err), CKM_OK);
    end(&a);
}

// The same for dropout, whose mode is an input.
static void dropout_is_not_exported_in_training_mode(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        attempt a;
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
        assert_int_equal(try_it(&a, b, true), on ? CKM_ERR_UNSUPPORTED : CKM_OK);
        end(&a);
    }
}

static void merged_parameters_are_noted(void **state)
{
    attempt a;
    (void)state;
    assert_int_equal(try_it(&a, two_norms("x,scale,mean,mean2,ones", "h,scale2,mean,bias2,var2", ""), false), CKM_OK);
    says(a.notes,
         "1 tensor of one number repeated is read by several operators each and trained as one (\"mean\", read by "
         "\"h_node\" and \"y_node\")");
    end(&a);
    // Tied by its values as well: no reason to doubt it.
    assert_int_equal(try_it(&a, two_norms("x,scale,bias,mean2,ones", "h,scale,bias,mean,var2", ""), false), CKM_OK);
    assert_string_equal(a.notes, "");
    end(&a);
}

static void folded_normalization_is_noted(void **state)
{
    static const char *const names[][2] = {
        {"onnx::Conv_7", "onnx::Conv_8"}, {"c.weight", "c.weight_bias"}, {"c.w", "c.b"}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        attempt a;
        char inputs[64];
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", OB_FLOAT, "4,1,1,1");
        CkmOnnx__TensorProto *w = ob_floats(b, names[i][0], "1,2");
        static int64_t dims[4] = {2, 1, 1, 1};
        w->n_dims = 4;
        w->dims = dims;
        ob_floats(b, names[i][1], "3,4");
        snprintf(inputs, sizeof inputs, "x,%s,%s", names[i][0], names[i][1]);
        ob_node(b, "Conv", inputs, "y");
        ob_output(b, "y");
        assert_int_equal(try_it(&a, b, false), CKM_OK);
        if (i < 2) {
            says(a.notes, "1 convolution has weights that the exporter has made (\"y_node\")");
        } else {
            assert_string_equal(a.notes, "");
        }
        end(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_tensors_of_their_own),
        cmocka_unit_test(training_mode_is_not_exported),
        cmocka_unit_test(dropout_is_not_exported_in_training_mode),
        cmocka_unit_test(merged_parameters_are_noted),
        cmocka_unit_test(folded_normalization_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
