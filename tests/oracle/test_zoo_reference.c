// SPDX-License-Identifier: Apache-2.0
// The zoo and its layer-level training graphs against reference data: every network of totals.csv, layer by
// layer where a description exists, and a training graph from the literature.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/zoo.h>
#include <jansson.h>

#include "graph/graph.h"

static char *data_path(const char *subfolder, const char *name, const char *ending)
{
    const char *folder = getenv("CKM_SHARED_DATA_DIR");
    char *path = malloc(1024);
    assert_non_null(path);
    const char *data = folder != NULL ? folder : CKM_SHARED_DATA_DIR;
    int used = snprintf(path, 1024, "%s/%s/%s%s", data, subfolder, name, ending);
    assert_true(used > 0 && used < 1024);
    return path;
}

// NULL when the file is not there.
static json_t *load(const char *path)
{
    json_error_t problem;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    json_t *root = json_loadf(file, 0, &problem);
    fclose(file);
    if (root == NULL) {
        fail_msg("%s:%d: %s", path, problem.line, problem.text);
    }
    return root;
}

static void skip_without(char *path)
{
    print_message("SKIPPED: reference data %s is not there\n", path);
    free(path);
    skip();
}

static bool in_zoo(const char *name)
{
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        if (strcmp(ckm_zoo_name(i), name) == 0) {
            return true;
        }
    }
    return false;
}

// ---- One layer against its description

static int64_t integer(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static int64_t elements_with_role(const ckm_graph *g, const ckm_graph_op_info *op, ckm_tensor_role role)
{
    int64_t total = 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int64_t elements = 0;
        if (op->inputs[i] >= 0 && ckm_graph_get_tensor(g, op->inputs[i]).role == role) {
            assert_int_equal(ckm_i_shape_elements(&g->tensors[op->inputs[i]].shape, &elements, NULL), CKM_OK);
            total += elements;
        }
    }
    return total;
}

static bool same_shape(const ckm_shape *shape, const json_t *dims)
{
    bool same = json_array_size(dims) == (size_t)(shape->rank - 1);
    for (int32_t i = 1; same && i < shape->rank; i++) {
        same = json_integer_value(json_array_get(dims, (size_t)i - 1)) == shape->dims[i];
    }
    return same;
}

// Producers of the data inputs in order (-1 for the network's input), and those inputs' shapes.
static bool same_inputs(const ckm_graph *g, const ckm_graph_op_info *op, const json_t *layer)
{
    const json_t *inputs = json_object_get(layer, "inputs");
    const json_t *shapes = json_object_get(layer, "input_shape");
    bool several = json_is_array(json_array_get(shapes, 0));
    size_t n = 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] < 0) {
            continue;
        }
        ckm_graph_tensor_info t = ckm_graph_get_tensor(g, op->inputs[i]);
        if (t.role != CKM_ROLE_INPUT && t.role != CKM_ROLE_ACTIVATION) {
            continue;
        }
        if (n >= json_array_size(inputs) || json_integer_value(json_array_get(inputs, n)) != t.producer ||
            !same_shape(&t.shape, several ? json_array_get(shapes, n) : shapes)) {
            return false;
        }
        n++;
    }
    return n == json_array_size(inputs);
}

static bool same_ints(const ckm_i_graph_op *op, const char *key, const json_t *want)
{
    bool same = true;
    for (size_t i = 0; i < json_array_size(want); i++) {
        same = same && ckm_i_op_attr_int(op, key, (int32_t)i, -1) == json_integer_value(json_array_get(want, i));
    }
    return same;
}

// ((top, bottom), (left, right)) against begin..., end...
static bool same_border(const ckm_i_graph_op *op, const json_t *want)
{
    bool same = true;
    for (int32_t axis = 0; axis < 2; axis++) {
        const json_t *pair = json_array_get(want, (size_t)axis);
        for (int32_t end = 0; end < 2; end++) {
            same = same && ckm_i_op_attr_int(op, "pads", 2 * end + axis, -1) ==
                               json_integer_value(json_array_get(pair, (size_t)end));
        }
    }
    return same;
}

static const char *text_or(const json_t *config, const char *key, const char *fallback)
{
    const json_t *value = json_object_get(config, key);
    return value != NULL ? json_string_value(value) : fallback;
}

// The configuration, member by member as far as the class has it.
static bool same_config(const ckm_i_graph_op *op, const json_t *config)
{
    static const struct {
        const char *key, *attr;
    } lists[] = {{"kernel_size", "kernel"},     {"pool_size", "kernel"}, {"strides", "strides"},
                 {"dilation_rate", "dilation"}, {"size", "size"},        {"new_size", "size"}};
    bool same = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        same = same && same_ints(op, lists[i].attr, json_object_get(config, lists[i].key));
    }
    const json_t *padding = json_object_get(config, "padding");
    if (json_is_string(padding)) {
        same = same && strcmp(ckm_i_op_attr_text(op, "padding", ""), json_string_value(padding)) == 0;
    } else if (padding != NULL) {
        same = same && same_border(op, padding);
    }
    if (json_object_get(config, "cropping") != NULL) {
        same = same && same_border(op, json_object_get(config, "cropping"));
    }
    // The momentum of running statistics is the zoo's own (docs/TRAINING.md): Keras' is for longer training.
    static const struct {
        const char *key;
        double fallback;
    } reals[] = {{"epsilon", 0}, {"max_value", -1}, {"rate", 0.5}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        const json_t *value = json_object_get(config, reals[i].key);
        double difference = value != NULL
                                ? json_number_value(value) - ckm_i_op_attr_double(op, reals[i].key, reals[i].fallback)
                                : 0.0;
        same = same && difference < 1e-7 && difference > -1e-7;
    }
    return same && strcmp(ckm_i_op_attr_text(op, "mode", "nearest"), text_or(config, "interpolation", "nearest")) == 0;
}

// The kind a class of layers becomes; an activation layer is of the kind its function names.
static bool same_kind(const ckm_i_graph_op *op, const json_t *layer)
{
    static const char *const kinds[][2] = {
        {"Conv2D", "conv"},
        {"DepthwiseConv2D", "conv"},
        {"Conv2DTranspose", "conv_transpose"},
        {"SeparableConv2D", "separable_conv"},
        {"Dense", "dense"},
        {"BatchNormalization", "batch_norm"},
        {"ReLU", "relu"},
        {"Add", "add"},
        {"Concatenate", "concat"},
        {"MaxPooling2D", "max_pool"},
        {"AveragePooling2D", "average_pool"},
        {"GlobalAveragePooling2D", "global_average_pool"},
        {"ZeroPadding2D", "zero_padding"},
        {"Cropping2D", "cropping"},
        {"UpSampling2D", "up_sampling"},
        {"Interp", "interp"},
        {"Dropout", "dropout"},
        {"Flatten", "flatten"},
        {"Reshape", "reshape"},
        {"Lambda", "lambda"},
    };
    const char *class_name = json_string_value(json_object_get(layer, "class"));
    const json_t *config = json_object_get(layer, "config");
    const char *activation = text_or(config, "activation", "linear");
    if (strcmp(class_name, "Activation") == 0) {
        bool relu6 = strcmp(activation, "relu6") == 0;
        bool limited = ckm_i_op_attr_double(op, "max_value", 0.0) == 6.0;
        return strcmp(op->op_class->kind, relu6 ? "relu" : activation) == 0 && relu6 == limited;
    }
    bool same = strcmp(activation, ckm_i_op_attr_text(op, "activation", "linear")) == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i][0], class_name) == 0) {
            return same && strcmp(kinds[i][1], op->op_class->kind) == 0;
        }
    }
    return false;
}

static void compare_layer(const ckm_graph *g, int32_t i, const json_t *layer)
{
    ckm_graph_op_info op = ckm_graph_get_op(g, i);
    const char *name = json_string_value(json_object_get(layer, "name"));
    const char *what = NULL;
    if (strcmp(op.name, name) != 0) {
        what = "name";
    } else if (!same_inputs(g, &op, layer)) {
        what = "inputs";
    } else if (!same_shape(&g->tensors[op.outputs[0]].shape, json_object_get(layer, "output_shape"))) {
        what = "output shape";
    } else if (elements_with_role(g, &op, CKM_ROLE_PARAMETER) != integer(layer, "params_trainable")) {
        what = "trained parameters";
    } else if (elements_with_role(g, &op, CKM_ROLE_STATE) != integer(layer, "params_nontrainable")) {
        what = "other parameters";
    } else if (!same_kind(&g->ops[i], layer)) {
        what = "kind";
    } else if (!same_config(&g->ops[i], json_object_get(layer, "config"))) {
        what = "configuration";
    }
    if (what != NULL) {
        fail_msg("%s, layer %d: \"%s\" differs from \"%s\" in %s", ckm_graph_name(g), (int)i, op.name, name, what);
    }
}

// ---- Whole networks

typedef struct totals {
    char name[64], file[64];
    int64_t shape[3];
    long long layers, trained, kept;
} totals;

// "model[@HxW],HxWxC,layers,trained,other"
static bool parse_totals(char *line, totals *t)
{
    long long h;
    long long w;
    long long c;
    char model[64];
    if (sscanf(line, "%63[^,],%lldx%lldx%lld,%lld,%lld,%lld", model, &h, &w, &c, &t->layers, &t->trained, &t->kept) !=
        7) {
        return false;
    }
    t->shape[0] = h;
    t->shape[1] = w;
    t->shape[2] = c;
    snprintf(t->name, sizeof t->name, "%s", model);
    char *at = strchr(t->name, '@');
    if (at != NULL) {
        *at = '\0';
    }
    snprintf(t->file, sizeof t->file, "%s", model);
    at = strchr(t->file, '@');
    if (at != NULL) {
        *at = '_';
    }
    return true;
}

// Returns 1 when a layer-by-layer description was there.
static int compare_network(const totals *t)
{
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    bool other_shape = strcmp(t->name, t->file) != 0;
    if (ckm_zoo_build(t->name, 1, other_shape ? t->shape : NULL, &g, &err) != CKM_OK) {
        fail_msg("%s: %s", t->name, err.message);
    }
    const ckm_shape *input = &g->tensors[0].shape;
    assert_int_equal(g->tensors[0].role, CKM_ROLE_INPUT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(input->dims[i + 1], t->shape[i]);
    }
    if (ckm_graph_op_count(g) != t->layers || ckm_graph_element_count(g, CKM_ROLE_PARAMETER) != t->trained ||
        ckm_graph_element_count(g, CKM_ROLE_STATE) != t->kept) {
        fail_msg("%s: %d layers, %lld and %lld parameters; the reference has %lld, %lld and %lld", t->name,
                 (int)ckm_graph_op_count(g), (long long)ckm_graph_element_count(g, CKM_ROLE_PARAMETER),
                 (long long)ckm_graph_element_count(g, CKM_ROLE_STATE), t->layers, t->trained, t->kept);
    }
    char *path = data_path("zoo", t->file, ".json");
    json_t *description = load(path);
    free(path);
    const json_t *layers = json_object_get(description, "layers");
    int described = description != NULL;
    if (described) {
        assert_int_equal(json_array_size(layers), t->layers);
    }
    for (int32_t i = 0; described && i < ckm_graph_op_count(g); i++) {
        compare_layer(g, i, json_array_get(layers, (size_t)i));
    }
    json_decref(description);
    ckm_graph_free(g);
    return described;
}

static void networks_equal_their_descriptions(void **state)
{
    (void)state;
    char *path = data_path("zoo", "totals", ".csv");
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        skip_without(path);
    }
    free(path);
    char line[256];
    int known = 0;
    int described = 0;
    assert_non_null(fgets(line, sizeof line, file));  // the header
    while (fgets(line, sizeof line, file) != NULL) {
        totals t;
        if (!parse_totals(line, &t)) {
            fail_msg("totals.csv: cannot read %s", line);
        }
        if (!in_zoo(t.name)) {
            fail_msg("%s is not in the zoo", t.name);
        }
        known++;
        described += compare_network(&t);
    }
    fclose(file);
    print_message("%d networks, %d of them layer by layer\n", known, described);
    assert_true(known >= 72);
    assert_true(described >= 28);
}

// ---- fcn_8_vgg as the literature has it: the same graph in another topological order

static bool same_operator(const ckm_dataflow *ours, int32_t a, const json_t *ops, const json_t *tensors, size_t b,
                          const int32_t *to_theirs)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(ours, a);
    const json_t *other = json_array_get(ops, b);
    const json_t *inputs = json_object_get(other, "inputs");
    size_t output = (size_t)json_integer_value(json_array_get(json_object_get(other, "outputs"), 0));
    if (op.cost != integer(other, "cost") || (size_t)op.n_inputs != json_array_size(inputs) ||
        ckm_dataflow_get_tensor(ours, op.outputs[0]).bytes != integer(json_array_get(tensors, output), "bytes")) {
        return false;
    }
    for (int32_t i = 0; i < op.n_inputs; i++) {
        bool found = false;
        for (size_t k = 0; k < json_array_size(inputs); k++) {
            found = found || json_integer_value(json_array_get(inputs, k)) == to_theirs[op.inputs[i]];
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

// Maps operator by operator in our order: equal cost, equal bytes, the same operands under the mapping so
// far. Operators that cannot be told apart by that are interchangeable.
static void training_graph_of_fcn_8_vgg(void **state)
{
    (void)state;
    char *path = data_path("instances", "fcn_8_vgg", ".json");
    json_t *root = load(path);
    if (root == NULL) {
        skip_without(path);
    }
    free(path);
    const json_t *ops = json_object_get(root, "ops");
    const json_t *tensors = json_object_get(root, "tensors");
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    assert_int_equal(ckm_zoo_build("fcn_8_vgg", 32, NULL, &graph, &err), CKM_OK);
    assert_int_equal(ckm_autodiff_layer_graph(graph, &training, &err), CKM_OK);
    assert_int_equal(ckm_cost_apply(training, &model, &df, &err), CKM_OK);
    int32_t n = ckm_dataflow_op_count(df);
    assert_int_equal(n, json_array_size(ops));
    int32_t *to_theirs = calloc((size_t)n, sizeof *to_theirs);  // our value to their tensor
    bool *taken = calloc((size_t)n, sizeof *taken);
    assert_non_null(to_theirs);
    assert_non_null(taken);
    int64_t edges = 0;
    for (int32_t a = 0; a < n; a++) {
        size_t b = 0;
        while (b < (size_t)n && (taken[b] || !same_operator(df, a, ops, tensors, b, to_theirs))) {
            b++;
        }
        if (b == (size_t)n) {
            fail_msg("no operator of the instance is like \"%s\"", ckm_dataflow_get_op(df, a).name);
        }
        taken[b] = true;
        to_theirs[a] = (int32_t)json_integer_value(
            json_array_get(json_object_get(json_array_get(ops, b), "outputs"), 0));
        edges += ckm_dataflow_get_op(df, a).n_inputs;
    }
    assert_int_equal(edges, 149);
    assert_int_equal(ckm_dataflow_edge_count(df), 149);
    free(taken);
    free(to_theirs);
    ckm_dataflow_free(df);
    ckm_training_free(training);
    ckm_graph_free(graph);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_equal_their_descriptions),
        cmocka_unit_test(training_graph_of_fcn_8_vgg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
