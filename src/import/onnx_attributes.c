// SPDX-License-Identifier: Apache-2.0
// The attributes that converters understand, by operator and opset. A node with another one is refused: what is not read
// cannot change what is trained.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/onnx_convert.h"

// A row a meaning: it holds from opset `since` until the operator's next row. Attributes are separated by spaces, each with
// its type: i, f, s, t, and I, F for lists. "=x" behind it: only that value, which leaving it out stands for; "!": required.
// Operators without a row have no attributes but those of their record, in every opset.
static const struct meaning {
    const char *op_type;
    int32_t since;
    const char *attributes;
} meanings[] = {
#define WINDOW "auto_pad:s kernel_shape:I pads:I strides:I"
    {"Conv", 1, WINDOW " dilations:I group:i"},
    {"ConvTranspose", 1, WINDOW " dilations:I group:i output_padding:I output_shape:I"},
    {"MaxPool", 8, "auto_pad:s kernel_shape:I! pads:I strides:I storage_order:i=0"},
    {"MaxPool", 10, "auto_pad:s kernel_shape:I! pads:I strides:I storage_order:i=0 ceil_mode:i dilations:I"},
    {"AveragePool", 7, "auto_pad:s kernel_shape:I! pads:I strides:I count_include_pad:i"},
    {"AveragePool", 10, "auto_pad:s kernel_shape:I! pads:I strides:I count_include_pad:i ceil_mode:i"},
    {"AveragePool", 19, "auto_pad:s kernel_shape:I! pads:I strides:I count_include_pad:i ceil_mode:i dilations:I"},
    {"LpPool", 2, "auto_pad:s kernel_shape:I! pads:I strides:I p:i"},
    {"LpPool", 18, "auto_pad:s kernel_shape:I! pads:I strides:I p:i ceil_mode:i dilations:I"},
    {"GlobalLpPool", 2, "p:i"},
    {"BatchNormalization", 9, "epsilon:f momentum:f"},
    {"BatchNormalization", 14, "epsilon:f momentum:f training_mode:i"},
    {"LayerNormalization", 17, "axis:i epsilon:f stash_type:i=1"},
    {"InstanceNormalization", 6, "epsilon:f"},
    {"GroupNormalization", 18, "epsilon:f num_groups:i!"},
    {"GroupNormalization", 21, "epsilon:f num_groups:i! stash_type:i=1"},
    {"LRN", 1, "alpha:f beta:f bias:f size:i!"},
    {"LpNormalization", 1, "axis:i p:i"},
    {"Gemm", 7, "alpha:f beta:f transA:i transB:i"},
    {"Einsum", 12, "equation:s!"},
    {"Gelu", 20, "approximate:s"},
    {"Softmax", 1, "axis:i"},
    {"LogSoftmax", 1, "axis:i"},
    {"Clip", 6, "min:f max:f"},
    {"Clip", 11, ""},
    {"Dropout", 7, "ratio:f"},
    {"Dropout", 12, "seed:i"},
    {"Mod", 10, "fmod:i"},
    // What saturates or is rounded so are types of eight bits, which no tensor here has.
    {"Cast", 9, "to:i!"},
    {"Cast", 19, "to:i! saturate:i"},
    {"Cast", 24, "to:i! saturate:i round_mode:s"},
    {"CastLike", 15, ""},
    {"CastLike", 19, "saturate:i"},
    {"CastLike", 24, "saturate:i round_mode:s"},
#define REDUCTION(name, since_input)                           \
    {name, 1, "axes:I keepdims:i"},                            \
    {                                                          \
        name, since_input, "keepdims:i noop_with_empty_axes:i" \
    }
    REDUCTION("ReduceSum", 13),
    REDUCTION("ReduceMean", 18),
    REDUCTION("ReduceMax", 18),
    REDUCTION("ReduceMin", 18),
    REDUCTION("ReduceProd", 18),
    REDUCTION("ReduceL1", 18),
    REDUCTION("ReduceL2", 18),
    REDUCTION("ReduceSumSquare", 18),
    REDUCTION("ReduceLogSum", 18),
    REDUCTION("ReduceLogSumExp", 18),
    {"ArgMax", 1, "axis:i keepdims:i"},
    {"ArgMax", 12, "axis:i keepdims:i select_last_index:i=0"},
    {"ArgMin", 1, "axis:i keepdims:i"},
    {"ArgMin", 12, "axis:i keepdims:i select_last_index:i=0"},
    {"TopK", 1, "axis:i k:i!"},
    {"TopK", 10, "axis:i"},
    {"TopK", 11, "axis:i largest:i=1 sorted:i"},
    {"CumSum", 11, "exclusive:i reverse:i"},
    {"Reshape", 5, ""},
    {"Reshape", 14, "allowzero:i"},
    {"Squeeze", 1, "axes:I"},
    {"Squeeze", 13, ""},
    {"Unsqueeze", 1, "axes:I!"},
    {"Unsqueeze", 13, ""},
    {"Flatten", 9, "axis:i"},
    {"Transpose", 1, "perm:I"},
    {"Slice", 1, "axes:I ends:I! starts:I!"},
    {"Slice", 10, ""},
    {"Split", 2, "axis:i split:I"},
    {"Split", 13, "axis:i"},
    {"Split", 18, "axis:i num_outputs:i"},
    {"SplitToSequence", 11, "axis:i keepdims:i"},
    {"SequenceAt", 11, ""},
    {"Concat", 4, "axis:i!"},
    {"Gather", 1, "axis:i"},
    {"GatherElements", 11, "axis:i"},
    {"GatherND", 11, ""},
    {"GatherND", 12, "batch_dims:i"},
    {"ScatterND", 11, ""},
    {"ScatterND", 16, "reduction:s=none"},
    {"ScatterElements", 11, "axis:i"},
    {"ScatterElements", 16, "axis:i reduction:s=none"},
    {"Pad", 2, "mode:s pads:I! value:f"},
    {"Pad", 11, "mode:s"},
    {"DepthToSpace", 1, "blocksize:i!"},
    {"DepthToSpace", 11, "blocksize:i! mode:s"},
    {"SpaceToDepth", 1, "blocksize:i!"},
    {"SpaceToDepth", 28, "blocksize:i! mode:s=DCR"},
    {"Trilu", 14, "upper:i"},
    {"Resize", 10, "mode:s"},
    {"Resize", 11,
     "mode:s coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i=0 extrapolation_value:f "
     "nearest_mode:s"},
    {"Resize", 18,
     "mode:s coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i=0 extrapolation_value:f nearest_mode:s "
     "antialias:i=0 axes:I keep_aspect_ratio_policy:s=stretch"},
    {"Upsample", 9, "mode:s"},
    // What is accumulated otherwise are types of sixteen bits, which no constant is computed in.
    {"Range", 9, ""},
    {"Range", 27, "stash_type:i"},
    {"Shape", 1, ""},
    {"Shape", 15, "start:i end:i"},
    {"ConstantOfShape", 9, "value:t"},
    {"Constant", 1, "value:t"},
    {"Constant", 12, "value:t value_int:i value_ints:I value_float:f value_floats:F"},
    {NULL, 0, NULL},
};

enum { NAME_ROOM = 64 };

// The types of the format, by its numbers.
static const char type_letters[] = "?fist?FI";

static char type_of(const CkmOnnx__Attribute *attr)
{
    return attr->type > 0 && attr->type < (int32_t)sizeof type_letters - 1 ? type_letters[attr->type] : '?';
}

// Where the word for the attribute is in a list, behind its name; NULL: it is not there.
static const char *find_word(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        if (strncmp(at, name, n) == 0 && at[n] == ':') {
            return at + n + 1;
        }
    }
    return NULL;
}

static bool has_value(const CkmOnnx__Attribute *attr, char type, const char *wanted, size_t n)
{
    if (type == 's') {
        return attr->s.len == n && memcmp(attr->s.data, wanted, n) == 0;
    }
    return type == 'i' && attr->i == strtoll(wanted, NULL, 10);
}

static ckm_status check_word(const ckm_i_onnx_node *node, const CkmOnnx__Attribute *attr, const char *word,
                             ckm_error *err)
{
    char type = type_of(attr);
    size_t n = strcspn(word, " ");
    // Very old files do not say what type it is.
    if (attr->type != 0 && type != word[0]) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT,
                                     "its attribute %.60s is of another type than the "
                                     "standard's",
                                     attr->name);
    }
    if (n > 1 && word[1] == '=' && !has_value(attr, word[0], word + 2, n - 2)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                     "its attribute %.60s is supported only where it is "
                                     "%.*s",
                                     attr->name, (int)(n - 2), word + 2);
    }
    return CKM_OK;
}

static ckm_status check_required(const ckm_i_onnx_node *node, const char *list, ckm_error *err)
{
    for (const char *at = list; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        char name[NAME_ROOM];
        size_t n = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ":"), at);
        if (at[n - 1] == '!' && ckm_i_onnx_attr(node, name) == NULL) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "it lacks its attribute %s", name);
        }
    }
    return CKM_OK;
}

// The list for this opset; *since is the first opset that has one, 0 where the operator has no row.
static const char *list_of(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t *since)
{
    const char *list = NULL;
    *since = 0;
    for (const struct meaning *m = meanings; m->op_type != NULL; m++) {
        if (strcmp(m->op_type, node->op_type) == 0) {
            *since = *since == 0 ? m->since : *since;
            list = m->since <= c->model->opset ? m->attributes : list;
        }
    }
    return list;
}

static bool is_recorded(const ckm_i_op_class *kind, const char *name)
{
    for (int32_t i = 0; kind != NULL && i < CKM_I_ONNX_REALS && kind->onnx.reals[i] != NULL; i++) {
        if (strcmp(kind->onnx.reals[i], name) == 0) {
            return true;
        }
    }
    return false;
}

ckm_status ckm_i_onnx_check_attributes(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    int32_t since;
    const char *list = list_of(c, node, &since);
    const ckm_i_op_class *kind = since == 0 ? ckm_i_op_class_find_onnx(node->op_type) : NULL;
    if (since > 0 && list == NULL) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT,
                                     "opset %lld has no such operator: it came with opset %d",
                                     (long long)c->model->opset, (int)since);
    }
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const CkmOnnx__Attribute *attr = node->proto->attribute[i];
        const char *word = list != NULL ? find_word(list, attr->name) : is_recorded(kind, attr->name) ? "f" : NULL;
        if (word == NULL) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                         "its attribute %.60s is not supported in opset %lld", attr->name,
                                         (long long)c->model->opset);
        }
        CKM_I_CHECK(check_word(node, attr, word, err));
    }
    return list != NULL ? check_required(node, list, err) : CKM_OK;
}
