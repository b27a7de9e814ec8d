// SPDX-License-Identifier: Apache-2.0
// Writes an ONNX file: ResNet-18 in training form, with a symbolic batch and without weights (its parameters
// are graph inputs, as exporters write it on request). Then reads it back through the library.
//
//     make_resnet_onnx [OUT.onnx]        default: resnet18-made.onnx in the current folder
//
// ONNX is protocol buffers; what is needed of them to write a file is a few lines below: a field is a key
// (number and type) and an integer or a length with that many bytes, and a message is its fields.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <checkmate/checkmate.h>

typedef struct message {
    unsigned char *bytes;
    size_t n, capacity;
} message;

static void put_bytes(message *m, const void *bytes, size_t n)
{
    if (n == 0) {
        return;
    }
    if (m->n + n > m->capacity) {
        m->capacity = (m->n + n) * 2;
        m->bytes = realloc(m->bytes, m->capacity);
        if (m->bytes == NULL) {
            fprintf(stderr, "make_resnet_onnx: out of memory\n");
            exit(1);
        }
    }
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_number(message *m, uint64_t value)
{
    for (; value > 127; value >>= 7) {
        unsigned char low = (unsigned char)(value | 128);
        put_bytes(m, &low, 1);
    }
    unsigned char last = (unsigned char)value;
    put_bytes(m, &last, 1);
}

static void put_int(message *m, unsigned field, int64_t value)
{
    put_number(m, (uint64_t)field << 3);
    put_number(m, (uint64_t)value);
}

static void put_block(message *m, unsigned field, const void *bytes, size_t n)
{
    put_number(m, (uint64_t)field << 3 | 2);
    put_number(m, n);
    put_bytes(m, bytes, n);
}

static void put_text(message *m, unsigned field, const char *text)
{
    put_block(m, field, text, strlen(text));
}

// Adds a message as a field and releases it.
static void put_message(message *m, unsigned field, message *part)
{
    put_block(m, field, part->bytes, part->n);
    free(part->bytes);
    *part = (message){0};
}

// The graph's fields: nodes are 1, inputs 11, outputs 12. The file wants no order among them, but nodes
// among themselves come in topological order.
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

// A graph input of type float. A dimension of -1 is the batch.
static void add_value(message *graph, unsigned field, const char *name, int rank, const int64_t *dims)
{
    message shape = {0};
    message tensor = {0};
    message type = {0};
    message value = {0};
    for (int i = 0; i < rank; i++) {
        message dim = {0};
        if (dims[i] < 0) {
            put_text(&dim, 2, "batch");
        } else {
            put_int(&dim, 1, dims[i]);
        }
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
}

static message begin_node(const char *op_type, const char *name)
{
    message node = {0};
    put_text(&node, 3, name);
    put_text(&node, 4, op_type);
    put_text(&node, 2, name);  // its first output has its name
    return node;
}

static void put_ints(message *node, const char *name, int n, const int64_t *values)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    for (int i = 0; i < n; i++) {
        put_int(&attribute, 8, values[i]);
    }
    put_int(&attribute, 20, 7);
    put_message(node, 5, &attribute);
}

static void put_integer(message *node, const char *name, int64_t value)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    put_int(&attribute, 3, value);
    put_int(&attribute, 20, 2);
    put_message(node, 5, &attribute);
}

// A node with one input or two and no attributes.
static void add_plain(message *graph, const char *op_type, const char *a, const char *b, const char *name)
{
    message node = begin_node(op_type, name);
    put_text(&node, 1, a);
    if (b != NULL) {
        put_text(&node, 1, b);
    }
    put_message(graph, GRAPH_NODE, &node);
}

// One parameter: a graph input that `node` reads.
static void add_parameter(message *graph, message *node, const char *layer, const char *what, int rank,
                          const int64_t *dims)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    put_text(node, 1, name);
    add_value(graph, GRAPH_INPUT, name, rank, dims);
}

// Convolution and batch normalization in training form. The result is called "<layer>.bn".
static void add_conv_bn(message *graph, const char *input, const char *layer, int64_t in, int64_t out, int64_t kernel,
                        int64_t stride)
{
    char name[96];
    int64_t pad = kernel / 2;
    message conv = begin_node("Conv", layer);
    put_text(&conv, 1, input);
    add_parameter(graph, &conv, layer, "weight", 4, (int64_t[]){out, in, kernel, kernel});
    put_ints(&conv, "kernel_shape", 2, (int64_t[]){kernel, kernel});
    put_ints(&conv, "strides", 2, (int64_t[]){stride, stride});
    put_ints(&conv, "pads", 4, (int64_t[]){pad, pad, pad, pad});
    put_message(graph, GRAPH_NODE, &conv);

    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    snprintf(name, sizeof name, "%s.bn", layer);
    message norm = begin_node("BatchNormalization", name);
    put_text(&norm, 1, layer);
    for (int i = 0; i < 4; i++) {
        add_parameter(graph, &norm, name, parts[i], 1, &out);
    }
    for (int i = 2; i < 4; i++) {
        char updated[128];
        snprintf(updated, sizeof updated, "%s.new_%s", name, parts[i]);
        put_text(&norm, 2, updated);
    }
    put_integer(&norm, "training_mode", 1);
    put_message(graph, GRAPH_NODE, &norm);
}

// Two convolutions and a way around them. Writes the name of the result to `result`.
static void add_block(message *graph, char *result, size_t size, int stage, int index, int64_t in, int64_t out)
{
    char names[4][64];
    char input[64];
    char around[80];
    int64_t stride = in != out ? 2 : 1;
    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "layer%d.%d.%s", stage, index,
                 (const char *const[]){"conv1", "relu1", "conv2", "down"}[i]);
    }
    snprintf(input, sizeof input, "%s", result);
    add_conv_bn(graph, input, names[0], in, out, 3, stride);
    snprintf(around, sizeof around, "%s.bn", names[0]);
    add_plain(graph, "Relu", around, NULL, names[1]);
    add_conv_bn(graph, names[1], names[2], out, out, 3, 1);
    snprintf(around, sizeof around, "%s", input);
    if (in != out) {
        add_conv_bn(graph, input, names[3], in, out, 1, 2);
        snprintf(around, sizeof around, "%s.bn", names[3]);
    }
    char sum[64];
    char straight[80];
    snprintf(straight, sizeof straight, "%s.bn", names[2]);
    snprintf(sum, sizeof sum, "layer%d.%d.add", stage, index);
    snprintf(result, size, "layer%d.%d.relu2", stage, index);
    add_plain(graph, "Add", straight, around, sum);
    add_plain(graph, "Relu", sum, NULL, result);
}

static void add_network(message *graph)
{
    char at[64] = "pool1";
    int64_t channels = 64;
    put_text(graph, GRAPH_NAME, "resnet18");
    add_value(graph, GRAPH_INPUT, "input", 4, (int64_t[]){-1, 3, 224, 224});
    add_conv_bn(graph, "input", "conv1", 3, channels, 7, 2);
    add_plain(graph, "Relu", "conv1.bn", NULL, "relu1");
    message pool = begin_node("MaxPool", "pool1");
    put_text(&pool, 1, "relu1");
    put_ints(&pool, "kernel_shape", 2, (int64_t[]){3, 3});
    put_ints(&pool, "strides", 2, (int64_t[]){2, 2});
    put_ints(&pool, "pads", 4, (int64_t[]){1, 1, 1, 1});
    put_message(graph, GRAPH_NODE, &pool);
    for (int stage = 1; stage <= 4; stage++) {
        int64_t out = (int64_t)64 << (stage - 1);
        for (int index = 0; index < 2; index++) {
            add_block(graph, at, sizeof at, stage, index, channels, out);
            channels = out;
        }
    }
    add_plain(graph, "GlobalAveragePool", at, NULL, "pool2");
    add_plain(graph, "Flatten", "pool2", NULL, "flatten");
    message dense = begin_node("Gemm", "fc");
    put_text(&dense, 1, "flatten");
    add_parameter(graph, &dense, "fc", "weight", 2, (int64_t[]){1000, 512});
    add_parameter(graph, &dense, "fc", "bias", 1, (int64_t[]){1000});
    put_integer(&dense, "transB", 1);
    put_message(graph, GRAPH_NODE, &dense);
    add_value(graph, GRAPH_OUTPUT, "fc", 2, (int64_t[]){-1, 1000});
}

static int write_file(const char *path)
{
    message graph = {0};
    message opset = {0};
    message model = {0};
    add_network(&graph);
    put_int(&model, 1, 8);  // IR version
    put_text(&model, 2, "make_resnet_onnx");
    put_message(&model, 7, &graph);
    put_int(&opset, 2, 17);
    put_message(&model, 8, &opset);
    FILE *file = fopen(path, "wb");
    int failed = file == NULL || fwrite(model.bytes, 1, model.n, file) != model.n;
    failed = (file != NULL && fclose(file) != 0) || failed;
    free(model.bytes);
    if (failed) {
        fprintf(stderr, "make_resnet_onnx: cannot write %s\n", path);
    }
    return failed;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "resnet18-made.onnx";
    if (argc > 2 || path[0] == '-') {
        fprintf(stderr, "usage: make_resnet_onnx [OUT.onnx]\n");
        return 2;
    }
    if (write_file(path) != 0) {
        return 1;
    }
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    if (ckm_import_file(path, NULL, &graph, &err) != CKM_OK) {
        fprintf(stderr, "make_resnet_onnx: %s\n", err.message);
        return 1;
    }
    printf("%s: %d operators, %lld parameters\n", path, (int)ckm_graph_op_count(graph),
           (long long)ckm_graph_element_count(graph, CKM_ROLE_PARAMETER));
    ckm_graph_free(graph);
    return 0;
}
