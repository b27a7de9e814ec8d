// SPDX-License-Identifier: Apache-2.0
// What the parts of the generator share, and one function for each way to add something to a model.
#ifndef CKM_TESTS_ONNX_GENERATOR_PARTS_H
#define CKM_TESTS_ONNX_GENERATOR_PARTS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "onnx_generator.h"

enum { OG_VALUES = 96, OG_TEXT = 2048, OG_WIDE = 150 };

// What a node can read: 'f' reals, 'b' truth values, 'i' integers, 'o' others.
typedef struct og_value {
    char name[16];
    char type;
    bool used;
    ckm_shape shape;
} og_value;

typedef struct og_generator {
    onnx_builder *b;
    const uint8_t *bytes;
    size_t n_bytes, at;
    uint64_t state;  // what comes after the bytes
    int opset, n_names, n_values;
    int extra_outputs;  // of the next node, after the first; nothing reads them
    og_value values[OG_VALUES];
    onnx_expected *expected;
    int *n_expected;
} og_generator;

// A number below n.
uint32_t og_pick(og_generator *g, uint32_t n);
// True once in `in` times.
bool og_chance(og_generator *g, uint32_t in);
// A value of that type and at least that rank, or NULL. It counts as used.
og_value *og_choose(og_generator *g, char type, int32_t min_rank, int32_t max_rank);
// The numbers with the separator between them; `text` has OG_TEXT bytes. Returns text.
const char *og_join(char *text, const char *separator, const int64_t *items, int32_t n);
// A name that no other value has; `name` has 16 bytes, here and below.
void og_fresh_name(og_generator *g, char prefix, char *name);
int64_t og_elements(const ckm_shape *shape);
// Leaves: their names go to `name`.
void og_weight(og_generator *g, const ckm_shape *shape, char *name);
// A constant list of integers: an initializer, or a node in one of its forms.
void og_int_list(og_generator *g, const int64_t *items, int32_t n, char *name);
void og_number(og_generator *g, double x, char *name);
void og_integer(og_generator *g, int64_t x, char *name);
og_value *og_add_value(og_generator *g, const char *name, char type, const ckm_shape *shape);
// Adds a node whose first output is `type` of `shape`; `inputs` and `attributes` as the builder wants them.
void og_node(og_generator *g, const char *op, const char *inputs, const char *attributes, char type,
             const ckm_shape *shape);
// Prints into `text` of OG_TEXT bytes. Returns it.
const char *og_format(char *text, const char *pattern, ...) CKM_PRINTF(2, 3);
// Three inputs, or half of the time the first two.
const char *og_three(og_generator *g, char *text, const char *a, const char *b, const char *c);
// A list that is an attribute up to `last_attribute` and an input after: appended to inputs or attributes.
void og_setting(og_generator *g, const char *key, int last_attribute, const int64_t *items, int32_t n, char *inputs,
                char *attributes);
// A second operand that broadcasts against x: a value of its shape, a weight of some last axes, or a number.
void og_operand(og_generator *g, const og_value *x, char *name);

// Each adds a node or a few when the values there are allow it.
void og_gen_unary(og_generator *g);
void og_gen_binary(og_generator *g);
void og_gen_variadic(og_generator *g);
void og_gen_comparison(og_generator *g);
void og_gen_logic(og_generator *g);
void og_gen_cast(og_generator *g);
void og_gen_clip(og_generator *g);
void og_gen_dropout(og_generator *g);
void og_gen_conv(og_generator *g);
void og_gen_conv_transpose(og_generator *g);
void og_gen_pool(og_generator *g);
void og_gen_global_pool(og_generator *g);
void og_gen_norm(og_generator *g);
void og_gen_prelu(og_generator *g);
void og_gen_gemm(og_generator *g);
void og_gen_matmul(og_generator *g);
void og_gen_einsum(og_generator *g);
void og_gen_reduce(og_generator *g);
void og_gen_select(og_generator *g);
void og_gen_reshape(og_generator *g);
void og_gen_slice(og_generator *g);
void og_gen_split_concat(og_generator *g);
void og_gen_gather(og_generator *g);
void og_gen_repeat(og_generator *g);
void og_gen_pad(og_generator *g);
void og_gen_blocks(og_generator *g);
void og_gen_triangle(og_generator *g);
void og_gen_resize(og_generator *g);
void og_gen_shape(og_generator *g);

#endif
