// SPDX-License-Identifier: Apache-2.0
// Work that grew with the square of the number of nodes: names of gradients of a tensor with many readers, operators
// with many operands, and the look-up of values in a file. At these sizes the square takes longer than a test may.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/import.h>

#include "graph/graph.h"
#include "graph/training.h"

enum { READERS = 150000, OPERANDS = 500000, WEIGHTS = 250000 };

static int32_t add_op(ckm_graph *g, const char *kind, const char *name, const int32_t *inputs, int32_t n)
{
    int32_t output = -1;
    ckm_error err = CKM_ERROR_INIT;
    ckm_status status = ckm_i_graph_add_op(
        g, &(ckm_i_new_op){.kind = kind, .name = name, .inputs = {inputs, n}, .n_outputs = 1}, &output, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, CKM_OK);
    return output;
}

// An input times a parameter.
static ckm_graph *begin_graph(int32_t *scaled)
{
    static const ckm_shape shape = {2, {1, 4}};
    ckm_graph *g = NULL;
    int32_t operands[2];
    assert_int_equal(ckm_i_graph_create("many", CKM_CHANNELS_FIRST, 1, &g, NULL), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &operands[0], NULL), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "w", CKM_ROLE_PARAMETER, CKM_F32, &shape, &operands[1], NULL), CKM_OK);
    *scaled = add_op(g, "mul", "scaled", operands, 2);
    return g;
}

static void derive(const ckm_graph *g, int32_t least_ops)
{
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_status status = ckm_autodiff_op_graph(g, NULL, &t, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, CKM_OK);
    assert_true(t->n_ops >= least_ops);
    ckm_training_free(t);
}

// Each reader adds its gradient to the others', under a name with a number behind it.
static void one_tensor_with_many_readers(void **state)
{
    (void)state;
    int32_t scaled;
    ckm_graph *g = begin_graph(&scaled);
    int32_t sum = scaled;
    for (int32_t i = 0; i < READERS; i++) {
        sum = add_op(g, "add", "sum", (int32_t[]){sum, scaled}, 2);
    }
    derive(g, READERS);
    ckm_graph_free(g);
}

// The square of this number of operands takes minutes of computing, what is asked for a second or two.
static void one_operator_with_many_operands(void **state)
{
    (void)state;
    clock_t begin = clock();
    int32_t scaled;
    ckm_graph *g = begin_graph(&scaled);
    int32_t *operands = malloc(OPERANDS * sizeof *operands);
    assert_non_null(operands);
    for (int32_t i = 0; i < OPERANDS; i++) {
        operands[i] = add_op(g, "relu", "part", &scaled, 1);
    }
    int64_t axis = 1;
    int32_t output = -1;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_attr attr = ckm_i_attr_ints("axis", &axis, 1);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = "concat", .name = "all", .inputs = {operands, OPERANDS}, .attrs = {&attr, 1}, .n_outputs = 1},
            &output, &err),
        CKM_OK);
    derive(g, 2 * OPERANDS);
    assert_true((clock() - begin) / CLOCKS_PER_SEC < 60);
    free(operands);
    ckm_graph_free(g);
}

// A field of less than 128 bytes.
static size_t put(char *to, int field, const void *bytes, size_t n)
{
    to[0] = (char)(field << 3 | 2);
    to[1] = (char)n;
    memcpy(to + 2, bytes, n);
    return n + 2;
}

// y = x + w0 + w1 ...: for every weight its initializer and a node, all of the same length.
static size_t weight_and_node(int32_t i, char *to)
{
    static const char head[] = {1 << 3, 4, 2 << 3, 1};  // dims: 4; data_type: float
    float values[4] = {(float)i, 0, 0, 0};
    char text[16];
    char message[128];
    memcpy(message, head, sizeof head);
    size_t n = sizeof head;
    snprintf(text, sizeof text, "w%07d", (int)i);
    n += put(message + n, 8, text, 8);
    n += put(message + n, 9, values, sizeof values);
    size_t all = put(to, 5, message, n);
    n = put(message, 1, text, 8);
    snprintf(text, sizeof text, "v%07d", (int)i);
    n += put(message + n, 1, text, 8);
    snprintf(text, sizeof text, "v%07d", (int)i + 1);
    n += put(message + n, 2, text, 8);
    n += put(message + n, 4, "Add", 3);
    return all + put(to + all, 1, message, n);
}

static void write_model(FILE *file)
{
    // elem_type: float; one dimension of 4
    static const char type[] = {1 << 3, 1, 2 << 3 | 2, 4, 1 << 3 | 2, 2, 1 << 3, 4};
    char item[256];
    char info[128];
    char input[128];
    char ends[256];
    char tensor_type[32];
    size_t n = put(tensor_type, 1, type, sizeof type);
    size_t info_bytes = put(info, 1, "v0000000", 8);
    info_bytes += put(info + info_bytes, 2, tensor_type, n);
    snprintf(item, sizeof item, "v%07d", WEIGHTS);
    n = put(input, 1, item, 8);
    size_t end_bytes = put(ends, 11, info, info_bytes);
    end_bytes += put(ends + end_bytes, 12, input, n);
    uint64_t graph_bytes = (uint64_t)weight_and_node(0, item) * WEIGHTS + end_bytes;
    static const char versions[] = {1 << 3, 8, 8 << 3 | 2, 2, 2 << 3, 17, 7 << 3 | 2};
    assert_int_equal(fwrite(versions, 1, sizeof versions, file), sizeof versions);
    for (; graph_bytes > 127; graph_bytes >>= 7) {
        putc((int)(graph_bytes & 127) | 128, file);
    }
    putc((int)graph_bytes, file);
    assert_int_equal(fwrite(ends, 1, end_bytes, file), end_bytes);
    for (int32_t i = 0; i < WEIGHTS; i++) {
        n = weight_and_node(i, item);
        assert_int_equal(fwrite(item, 1, n, file), n);
    }
}

static void many_values_of_one_file(void **state)
{
    (void)state;
    static const ckm_shape shape = {1, {4}};
    char path[] = "/tmp/checkmate-values-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "wb");
    assert_non_null(file);
    write_model(file);
    assert_int_equal(fclose(file), 0);
    ckm_error err = CKM_ERROR_INIT;
    ckm_import_values *values = NULL;
    ckm_status status = ckm_import_values_open(path, NULL, &values, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, CKM_OK);
    for (int32_t i = 0; i < WEIGHTS; i++) {
        char name[16];
        float out[4] = {-1, -1, -1, -1};
        bool found = false;
        snprintf(name, sizeof name, "w%07d", (int)i);
        assert_int_equal(ckm_import_values_read(values, name, CKM_F32, &shape, out, &found, &err), CKM_OK);
        assert_true(found);
        assert_true(out[0] >= (float)i && out[0] <= (float)i);
    }
    ckm_import_values_close(values);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_tensor_with_many_readers),
        cmocka_unit_test(one_operator_with_many_operands),
        cmocka_unit_test(many_values_of_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
