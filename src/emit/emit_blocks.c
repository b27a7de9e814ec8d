// SPDX-License-Identifier: Apache-2.0
// Which operators make up a block.
#include "emit/emit_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MOST_PARTS = 8, LEAST_BLOCKS = 4, PATH = 512 };

static bool goes_up(ckm_op_kind kind)
{
    return kind == CKM_OP_BACKWARD || kind == CKM_OP_UPDATE;
}

// "layers.3.mlp/addmm_12": the module is the beginning of the path.
static const char *path_of(const ckm_dataflow *df, int32_t v, char text[PATH])
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    snprintf(text, PATH, "%s%s%s", op.module, op.module[0] != '\0' ? "/" : "", op.name);
    return text;
}

// Length of the first `parts` parts of a path, without the separator that ends them.
static size_t length_of(const char *path, int parts)
{
    static const char separators[] = "/._:";
    size_t at = 0;
    for (int i = 0; i < parts; i++) {
        at += strspn(path + at, separators);
        at += strcspn(path + at, separators);
    }
    return at;
}

static bool same_beginning(const char *a, const char *b, int parts)
{
    size_t n = length_of(a, parts);
    return n == length_of(b, parts) && memcmp(a, b, n) == 0;
}

// Blocks there would be by `parts` parts of the path, and how many operators the largest has.
static int32_t count_blocks(const ckm_dataflow *df, int parts, int32_t *largest)
{
    char texts[2][PATH];
    const char *before = NULL;
    int32_t n = 0;
    int32_t run = 0;
    *largest = 0;
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        if (goes_up(ckm_dataflow_get_op(df, v).kind)) {
            continue;
        }
        const char *path = path_of(df, v, texts[before == texts[0] ? 1 : 0]);
        bool begins = before == NULL || !same_beginning(before, path, parts);
        n += begins ? 1 : 0;
        run = begins ? 1 : run + 1;
        *largest = run > *largest ? run : *largest;
        before = path;
    }
    return n;
}

// How many parts a block's name has; 0 for a block of every operator, -1 for stretches of equal length.
static int choose_depth(const ckm_dataflow *df, int32_t n_forward)
{
    if (n_forward <= CKM_I_EMIT_BLOCKS_MOST) {
        return 0;
    }
    for (int parts = MOST_PARTS; parts >= 1; parts--) {
        int32_t largest;
        int32_t n = count_blocks(df, parts, &largest);
        if (n <= CKM_I_EMIT_BLOCKS_MOST) {
            // One block with nearly everything in it would show nothing.
            return n >= LEAST_BLOCKS && largest <= n_forward / 5 * 3 ? parts : -1;
        }
    }
    return -1;
}

static void place_forward(const ckm_dataflow *df, ckm_i_emit_blocks *b, int32_t n_forward)
{
    char texts[2][PATH];
    const char *before = NULL;
    int32_t seen = 0;
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        b->of_op[v] = -1;
        if (goes_up(ckm_dataflow_get_op(df, v).kind)) {
            continue;
        }
        bool begins = true;
        if (b->depth > 0) {
            const char *path = path_of(df, v, texts[before == texts[0] ? 1 : 0]);
            begins = before == NULL || !same_beginning(before, path, b->depth);
            before = path;
        } else if (b->depth < 0) {
            int64_t most = CKM_I_EMIT_BLOCKS_MOST;
            begins = seen == 0 || seen * most / n_forward > (seen - 1) * most / n_forward;
        }
        if (begins) {
            b->first[b->n++] = v;
        }
        b->last[b->n - 1] = v;
        b->of_op[v] = b->n - 1;
        seen++;
    }
}

// ---- backward operators belong to the forward operator whose gradients they compute ----

typedef struct named {
    const char *name;
    int32_t op;
} named;

static int compare_names(const void *a, const void *b)
{
    const named *x = a;
    const named *y = b;
    int by_name = strcmp(x->name, y->name);
    return by_name != 0 ? by_name : (x->op > y->op) - (x->op < y->op);
}

// The last forward operator of a name of `length` bytes, -1 for none.
static int32_t find_name(const named *names, int32_t n, const char *name, size_t length)
{
    int32_t low = 0;
    int32_t high = n;
    while (low < high) {  // the first name that is greater
        int32_t middle = low + (high - low) / 2;
        int order = strncmp(names[middle].name, name, length);
        if (order > 0 || (order == 0 && names[middle].name[length] != '\0')) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == 0 || strncmp(names[low - 1].name, name, length) != 0 || names[low - 1].name[length] != '\0') {
        return -1;
    }
    return names[low - 1].op;
}

// "conv1:grad_x", "conv1_grad", "grad_conv1": the name says which operator it is the gradient of.
static int32_t by_name(const named *names, int32_t n, const char *name)
{
    static const char before[] = "grad_";
    static const char behind[] = "_grad";
    const char *colon = strrchr(name, ':');
    size_t length = strlen(name);
    if (colon != NULL) {
        return find_name(names, n, name, (size_t)(colon - name));
    }
    if (strncmp(name, before, sizeof before - 1) == 0) {
        return find_name(names, n, name + sizeof before - 1, length - (sizeof before - 1));
    }
    if (length > sizeof behind - 1 && strcmp(name + length - (sizeof behind - 1), behind) == 0) {
        return find_name(names, n, name, length - (sizeof behind - 1));
    }
    return -1;
}

// The last block with an operator of this module, -1 for none.
static int32_t by_module(const ckm_dataflow *df, const ckm_i_emit_blocks *b, const char *module)
{
    for (int32_t block = b->n - 1; block >= 0 && module[0] != '\0'; block--) {
        for (int32_t v = b->first[block]; v <= b->last[block]; v++) {
            if (b->of_op[v] == block && strcmp(ckm_dataflow_get_op(df, v).module, module) == 0) {
                return block;
            }
        }
    }
    return -1;
}

// The last block of which it reads something; of gradients alone, the earliest of theirs.
static int32_t by_operands(const ckm_dataflow *df, const ckm_i_emit_blocks *b, const ckm_dataflow_op *op)
{
    int32_t forward = -1;
    int32_t backward = b->n - 1;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t from = ckm_dataflow_producer(df, op->inputs[i]);
        if (from < 0 || b->of_op[from] < 0) {
            continue;
        }
        if (!goes_up(ckm_dataflow_get_op(df, from).kind)) {
            forward = b->of_op[from] > forward ? b->of_op[from] : forward;
        } else if (b->of_op[from] < backward) {
            backward = b->of_op[from];
        }
    }
    return forward >= 0 ? forward : backward;
}

static void place_backward(const ckm_dataflow *df, ckm_i_emit_blocks *b, const named *names, int32_t n_names)
{
    const char *module = "";  // of the operator before, and its block: searched once for many
    int32_t block_of_module = -1;
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
        if (!goes_up(op.kind)) {
            continue;
        }
        int32_t forward = by_name(names, n_names, op.name);
        if (forward >= 0) {
            b->of_op[v] = b->of_op[forward];
            continue;
        }
        if (strcmp(op.module, module) != 0) {
            module = op.module;
            block_of_module = by_module(df, b, module);
        }
        b->of_op[v] = op.module[0] != '\0' && block_of_module >= 0 ? block_of_module : by_operands(df, b, &op);
    }
}

ckm_status ckm_i_emit_blocks_create(const ckm_dataflow *df, ckm_i_emit_blocks *out, ckm_error *err)
{
    int32_t n = ckm_dataflow_op_count(df);
    int32_t n_forward = 0;
    ckm_i_emit_blocks b = {0};
    for (int32_t v = 0; v < n; v++) {
        n_forward += goes_up(ckm_dataflow_get_op(df, v).kind) ? 0 : 1;
    }
    b.of_op = ckm_i_malloc((size_t)n + 1, sizeof *b.of_op);
    // A graph of backward operators alone is one block, with neither a first nor a last forward operator.
    b.first = ckm_i_calloc((size_t)n_forward + 1, sizeof *b.first);
    b.last = ckm_i_calloc((size_t)n_forward + 1, sizeof *b.last);
    named *names = ckm_i_malloc((size_t)n_forward + 1, sizeof *names);
    if (b.of_op == NULL || b.first == NULL || b.last == NULL || names == NULL) {
        free(names);
        ckm_i_emit_blocks_dispose(&b);
        return ckm_i_error_memory(err);
    }
    b.depth = choose_depth(df, n_forward);
    place_forward(df, &b, n_forward);
    if (n_forward == 0) {
        b.n = 1;
    }
    int32_t n_names = 0;
    for (int32_t v = 0; v < n; v++) {
        if (b.of_op[v] >= 0) {
            names[n_names++] = (named){ckm_dataflow_get_op(df, v).name, v};
        }
    }
    qsort(names, (size_t)n_names, sizeof *names, compare_names);
    place_backward(df, &b, names, n_names);
    free(names);
    *out = b;
    return CKM_OK;
}

void ckm_i_emit_blocks_dispose(ckm_i_emit_blocks *b)
{
    free(b->of_op);
    free(b->first);
    free(b->last);
    *b = (ckm_i_emit_blocks){0};
}

const char *ckm_i_emit_blocks_name(const ckm_dataflow *df, const ckm_i_emit_blocks *b, int32_t block, char *text,
                                   size_t size)
{
    char first[PATH];
    char last[PATH];
    path_of(df, b->first[block], first);
    path_of(df, b->last[block], last);
    if (b->first[block] == b->last[block]) {
        snprintf(text, size, "%s", first);
    } else if (b->depth > 0) {
        snprintf(text, size, "%.*s", (int)length_of(first, b->depth), first);
    } else {
        snprintf(text, size, "%s \xe2\x80\xa6 %s", first, last);
    }
    return text;
}

int64_t ckm_i_emit_output_bytes(const ckm_dataflow *df, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    int64_t bytes = 0;
    for (int32_t i = 0; i < op.n_outputs; i++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, op.outputs[i]);
        bytes += tensor.alias_of < 0 ? tensor.bytes : 0;  // the sum of all tensors is known to fit
    }
    return bytes;
}
