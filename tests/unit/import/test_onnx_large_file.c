// SPDX-License-Identifier: Apache-2.0
// Weights stay on disk: importing a file of hundreds of megabytes takes the memory of its graph. The file is
// sparse, so that the test costs neither disk space nor time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/import.h>

#include "onnx_builder.h"

enum { SIDE = 8192 };
static const int64_t weight_bytes = (int64_t)SIDE * SIDE * 4;  // 256 MiB

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t n = 0;
    for (; value > 127; value >>= 7) {
        out[n++] = (uint8_t)(value | 128);
    }
    out[n++] = (uint8_t)value;
    return n;
}

// Writes a key and a length.
static void put_head(FILE *file, uint32_t field, int64_t length)
{
    uint8_t head[16];
    size_t n = put_varint(head, (uint64_t)field << 3 | 2);
    n += put_varint(head + n, (uint64_t)length);
    assert_int_equal(fwrite(head, 1, n, file), n);
}

// A model is its fields in any order, and a graph may be merged from none: so the graph is written by hand,
// its small part from the builder, its large initializer as a hole.
static void write_model(FILE *file)
{
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "n,8192");
    ob_node(b, "MatMul", "x,w", "y");
    ob_output(b, "y");
    size_t size = ckm_onnx__graph__get_packed_size(ob_model(b)->graph);
    uint8_t *graph = malloc(size);
    assert_non_null(graph);
    ckm_onnx__graph__pack(ob_model(b)->graph, graph);
    ob_free(b);

    // tensor { dims: 8192, 8192; data_type: 1; name: "w"; raw_data }
    static const uint8_t tensor[] = {0x08, 0x80, 0x40, 0x08, 0x80, 0x40, 0x10, 0x01, 0x42, 0x01, 'w'};
    int64_t tensor_bytes = (int64_t)sizeof tensor + 6 + weight_bytes;  // key 1, length 5
    static const uint8_t versions[] = {0x08, 0x08, 0x42, 0x02, 0x10, 0x0d};
    assert_int_equal(fwrite(versions, 1, sizeof versions, file), sizeof versions);
    put_head(file, 7, (int64_t)size + 6 + tensor_bytes);
    assert_int_equal(fwrite(graph, 1, size, file), size);
    put_head(file, 5, tensor_bytes);
    assert_int_equal(fwrite(tensor, 1, sizeof tensor, file), sizeof tensor);
    put_head(file, 9, weight_bytes);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)(ftello(file) + weight_bytes)), 0);
    free(graph);
}

static int64_t peak_kilobytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss;
}

static void weights_are_not_read(void **state)
{
    (void)state;
    char path[] = "/tmp/checkmate-large-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "wb");
    assert_non_null(file);
    write_model(file);
    assert_int_equal(fclose(file), 0);

    int64_t before = peak_kilobytes();
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    ckm_import_options options = {.size = sizeof options, .batch = 4};
    ckm_status status = ckm_import_file(path, &options, &g, &err);
    int64_t after = peak_kilobytes();
    assert_int_equal(unlink(path), 0);
    assert_string_equal(err.message, "");
    assert_int_equal(status, CKM_OK);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), (int64_t)SIDE * SIDE);
    print_message("%lld MiB of weights, %lld KiB more memory\n", (long long)(weight_bytes >> 20),
                  (long long)(after - before));
    assert_true(after - before < 8 * 1024);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
