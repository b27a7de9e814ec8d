// SPDX-License-Identifier: Apache-2.0
// What the leaves of an ONNX graph are. The format does not tell weights from other constants, and files
// without weights do not tell them from data: the operand slot that a leaf feeds does.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/graph.h"
#include "import/onnx_model.h"

typedef enum {
    SLOT_PLAIN,    // an operand like any other: an initializer there is a parameter unless it is a scalar
    SLOT_WEIGHT,   // weights and biases: a parameter, wherever it comes from
    SLOT_AFFINE,   // scale and shift of a normalization: the same, but exporters also fill in ones and zeros
    SLOT_STATE,    // running statistics
    SLOT_LOOK_UP,  // the table of a look-up: a parameter when the positions are data
    SLOT_SETTING   // steers the operator; never a parameter
} slot_rule;

// Slots from `first` to `last` of an operator; what is not listed is plain.
static const struct {
    const char *op_type;
    int first, last;
    slot_rule rule;
} slots[] = {
    {"Conv", 1, 2, SLOT_WEIGHT},
    {"ConvTranspose", 1, 2, SLOT_WEIGHT},
    {"Gemm", 1, 2, SLOT_WEIGHT},
    {"MatMul", 1, 1, SLOT_WEIGHT},
    {"BatchNormalization", 1, 2, SLOT_AFFINE},
    {"BatchNormalization", 3, 4, SLOT_STATE},
    {"InstanceNormalization", 1, 2, SLOT_AFFINE},
    {"LayerNormalization", 1, 2, SLOT_AFFINE},
    {"GroupNormalization", 1, 2, SLOT_AFFINE},
    {"PRelu", 1, 1, SLOT_WEIGHT},
    {"Gather", 0, 0, SLOT_LOOK_UP},
    {"Gather", 1, 1, SLOT_SETTING},
    {"Resize", 1, 3, SLOT_SETTING},
    {"Upsample", 1, 1, SLOT_SETTING},
    {"Clip", 1, 2, SLOT_SETTING},
    {"Pad", 1, 3, SLOT_SETTING},
    {"Dropout", 1, 2, SLOT_SETTING},
    {"Range", 0, 2, SLOT_SETTING},
    {"Sub", 1, 1, SLOT_SETTING},  // normalization of the data by constants
    {"Div", 0, 1, SLOT_SETTING},
    {"Pow", 0, 1, SLOT_SETTING},
    {"Mod", 0, 1, SLOT_SETTING},
    {"Max", 0, INT32_MAX, SLOT_SETTING},
    {"Min", 0, INT32_MAX, SLOT_SETTING},
    {"Equal", 0, 1, SLOT_SETTING},
    {"Less", 0, 1, SLOT_SETTING},
    {"LessOrEqual", 0, 1, SLOT_SETTING},
    {"Greater", 0, 1, SLOT_SETTING},
    {"GreaterOrEqual", 0, 1, SLOT_SETTING},
    {"Where", 0, 0, SLOT_SETTING},
    {"Shape", 0, 0, SLOT_SETTING},
    {"Size", 0, 0, SLOT_SETTING},
    {"ConstantOfShape", 0, 0, SLOT_SETTING},
};

// Operators that pass their first operand on, re-arranged at most.
static const char *const transparent[] = {"Identity",  "Transpose", "Cast",  "Reshape", "Squeeze", "Flatten",
                                          "Unsqueeze", "CastLike",  "Slice", "Expand",  "Not"};

static slot_rule rule_of(const ckm_i_onnx_node *node, int32_t slot)
{
    for (size_t i = 0; node->standard && i < sizeof slots / sizeof slots[0]; i++) {
        if (slot >= slots[i].first && slot <= slots[i].last && strcmp(slots[i].op_type, node->op_type) == 0) {
            return slots[i].rule;
        }
    }
    return SLOT_PLAIN;
}

static bool is_transparent(const ckm_i_onnx_node *node)
{
    for (size_t i = 0; node->standard && i < sizeof transparent / sizeof transparent[0]; i++) {
        if (strcmp(transparent[i], node->op_type) == 0) {
            return true;
        }
    }
    return false;
}

// For every value the one that it is a rearrangement of. Producers come before users: one pass.
static void find_roots(const ckm_i_onnx_model *model, int32_t *roots)
{
    for (int32_t i = 0; i < model->n_values; i++) {
        const ckm_i_onnx_value *value = &model->values[i];
        const ckm_i_onnx_node *node = value->node >= 0 ? &model->nodes[value->node] : NULL;
        bool passed_on = node != NULL && is_transparent(node) && node->n_in > 0 && node->in[0] >= 0;
        roots[i] = passed_on ? roots[node->in[0]] : i;
    }
}

// What the uses of a leaf say.
enum { USED_PLAIN = 1, USED_WEIGHT = 2, USED_AFFINE = 4, USED_STATE = 8, USED_LOOK_UP = 16 };

// Which values does something other than a product, as its second matrix, read?
static void mark_other_uses(ckm_i_onnx_model *model)
{
    for (int32_t i = 0; i < model->n_nodes; i++) {
        const ckm_i_onnx_node *node = &model->nodes[i];
        bool product = node->standard && (strcmp(node->op_type, "MatMul") == 0 || strcmp(node->op_type, "Gemm") == 0);
        for (int32_t k = 0; node->needed && k < node->n_in; k++) {
            if (node->in[k] >= 0 && !(product && k == 1)) {
                model->values[node->in[k]].used_otherwise = true;
            }
        }
    }
    for (int32_t i = 0; i < model->n_outputs; i++) {
        model->values[model->outputs[i]].used_otherwise = true;
    }
}

// Does the value stem from a graph input that is not an initializer?
static void mark_data(const ckm_i_onnx_model *model, bool *data)
{
    for (int32_t i = 0; i < model->n_values; i++) {
        const ckm_i_onnx_value *value = &model->values[i];
        data[i] = value->origin == CKM_I_ONNX_INPUT;
        if (value->node >= 0) {
            const ckm_i_onnx_node *node = &model->nodes[value->node];
            for (int32_t k = 0; k < node->n_in && !data[i]; k++) {
                data[i] = node->in[k] >= 0 && data[node->in[k]];
            }
        }
    }
}

static void collect_uses(const ckm_i_onnx_model *model, const bool *data, const int32_t *roots, unsigned char *uses)
{
    static const unsigned char bit[] = {USED_PLAIN, USED_WEIGHT, USED_AFFINE, USED_STATE, USED_LOOK_UP, 0};
    for (int32_t i = 0; i < model->n_nodes; i++) {
        const ckm_i_onnx_node *node = &model->nodes[i];
        for (int32_t k = 0; node->needed && !is_transparent(node) && k < node->n_in; k++) {
            if (node->in[k] < 0) {
                continue;
            }
            slot_rule rule = rule_of(node, k);
            if (rule == SLOT_LOOK_UP && (node->n_in < 2 || node->in[1] < 0 || !data[node->in[1]])) {
                rule = SLOT_PLAIN;
            }
            int32_t root = roots[node->in[k]];
            uses[root] = (unsigned char)(uses[root] | bit[rule]);
        }
    }
}

// Type and shape of an initializer or of a constant node's tensor.
static ckm_status type_tensor(ckm_i_onnx_value *value, const CkmOnnx__TensorProto *tensor, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_onnx_tensor_type(tensor, value->name, &value->dtype, &value->shape, err));
    value->typed = true;
    return CKM_OK;
}

// All ones or all zeros under a name that an exporter made up: a normalization without scale and shift, say. What it calls
// "onnx::Mul_7" it has computed, from a parameter as a rule: group normalization multiplies by its scale so.
static bool is_filler(const ckm_i_onnx_value *value, bool affine)
{
    if (value->data == NULL ||
        (strstr(value->name, "Constant") == NULL && (!affine || strstr(value->name, "::") == NULL) &&
         strspn(value->name, "0123456789") != strlen(value->name) && strncmp(value->name, "val_", 4) != 0)) {
        return false;
    }
    int64_t elements;
    if (ckm_i_shape_elements(&value->shape, &elements, NULL) != CKM_OK) {
        return false;
    }
    bool ones = true;
    bool zeros = true;
    for (int64_t i = 0; i < elements; i++) {
        ones = ones && !(value->data[i].r < 1.0) && !(value->data[i].r > 1.0);
        zeros = zeros && !(value->data[i].r < 0.0) && !(value->data[i].r > 0.0);
    }
    return ones || zeros;
}

// What no exporter means to be trained, whether it says so or not: the frequencies of rotary embeddings.
static bool is_buffer(const ckm_i_onnx_value *value)
{
    return value->buffer || strstr(value->name, "inv_freq") != NULL;
}

static ckm_tensor_role constant_role(const ckm_i_onnx_value *value, unsigned uses, bool plain_counts)
{
    int64_t elements = 0;
    if (!ckm_i_onnx_dtype_is_real(value->dtype) || ckm_i_shape_elements(&value->shape, &elements, NULL) != CKM_OK ||
        elements == 0) {
        return CKM_ROLE_CONSTANT;
    }
    if (is_buffer(value)) {
        return (uses & USED_STATE) != 0 ? CKM_ROLE_STATE : CKM_ROLE_CONSTANT;
    }
    if ((uses & (USED_WEIGHT | USED_LOOK_UP)) != 0 || ((uses & USED_AFFINE) != 0 && !is_filler(value, true))) {
        return CKM_ROLE_PARAMETER;
    }
    if ((uses & USED_STATE) != 0) {
        return CKM_ROLE_STATE;
    }
    return plain_counts && elements > 1 && (uses & USED_PLAIN) != 0 && !is_filler(value, false) ? CKM_ROLE_PARAMETER
                                                                                                : CKM_ROLE_CONSTANT;
}

// A graph input could be a parameter when it is floating, with a fixed shape.
static bool could_be_parameter(const ckm_i_onnx_value *value)
{
    const CkmOnnx__TypeProto *type = value->info != NULL ? value->info->type : NULL;
    ckm_dtype dtype;
    if (type == NULL || type->tensor_type == NULL || type->tensor_type->shape == NULL ||
        !ckm_i_onnx_dtype(type->tensor_type->elem_type, &dtype) || !ckm_i_onnx_dtype_is_real(dtype)) {
        return false;
    }
    for (size_t i = 0; i < type->tensor_type->shape->n_dim; i++) {
        const CkmOnnx__ShapeDimension *dim = type->tensor_type->shape->dim[i];
        if (dim->value_case != CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_VALUE || dim->dim_value < 1) {
            return false;
        }
    }
    return true;
}

static int64_t first_dim(const ckm_i_onnx_value *value)
{
    const CkmOnnx__TypeProto *type = value->info != NULL ? value->info->type : NULL;
    if (type == NULL || type->tensor_type == NULL || type->tensor_type->shape == NULL ||
        type->tensor_type->shape->n_dim == 0) {
        return 0;
    }
    const CkmOnnx__ShapeDimension *dim = type->tensor_type->shape->dim[0];
    return dim->value_case == CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_VALUE ? dim->dim_value : 0;
}

// Words that parameters of the usual frameworks have in their names and data has not.
static bool named_like_parameter(const char *name)
{
    static const char *const words[] = {"weight", "bias", "embed", "token", "gamma", "beta", "scale"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(name, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

// A product of the data with themselves puts them into a weight's slot as well: where no data are left, the first input
// that is needed holds them.
static void keep_data(ckm_i_onnx_model *model)
{
    ckm_i_onnx_value *first = NULL;
    for (int32_t i = 0; i < model->n_values; i++) {
        ckm_i_onnx_value *value = &model->values[i];
        if (value->origin == CKM_I_ONNX_INPUT && value->needed) {
            if (value->role == CKM_ROLE_INPUT) {
                return;
            }
            first = first == NULL ? value : first;
        }
    }
    if (first != NULL) {
        first->role = CKM_ROLE_INPUT;
    }
}

// In a file without weights the inputs are first the data, then every parameter. Those that feed a weight
// slot are known. Of the others (a class token, an added position embedding) a parameter is what follows
// the first known one, what has not the batch of the first input, and what is named like one.
static void assign_inputs(ckm_i_onnx_model *model, const unsigned char *uses)
{
    const ckm_i_onnx_value *first = NULL;
    bool any_parameter = false;
    bool after_parameter = false;
    for (int32_t i = 0; i < model->n_values; i++) {
        ckm_i_onnx_value *value = &model->values[i];
        if (value->origin == CKM_I_ONNX_INPUT) {
            bool possible = could_be_parameter(value);
            value->role = CKM_ROLE_INPUT;
            if (possible && (uses[i] & (USED_WEIGHT | USED_AFFINE | USED_LOOK_UP)) != 0) {
                value->role = CKM_ROLE_PARAMETER;
            } else if (possible && (uses[i] & USED_STATE) != 0) {
                value->role = CKM_ROLE_STATE;
            }
            any_parameter = any_parameter || value->role != CKM_ROLE_INPUT;
        }
    }
    for (int32_t i = 0; i < model->n_values && any_parameter; i++) {
        ckm_i_onnx_value *value = &model->values[i];
        if (value->origin != CKM_I_ONNX_INPUT || !value->needed) {
            continue;
        }
        if (value->role != CKM_ROLE_INPUT) {
            after_parameter = true;
        } else if (first == NULL) {
            first = value;
        } else if (could_be_parameter(value) &&
                   (after_parameter || first_dim(value) != first_dim(first) || named_like_parameter(value->name))) {
            value->role = uses[i] != 0 ? CKM_ROLE_PARAMETER : CKM_ROLE_CONSTANT;  // only steers: a mask
        }
    }
    keep_data(model);
}

ckm_status ckm_i_onnx_assign_roles(ckm_i_onnx_model *model, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool *data = ckm_i_calloc((size_t)model->n_values, sizeof *data);
    unsigned char *uses = ckm_i_calloc((size_t)model->n_values, sizeof *uses);
    int32_t *roots = ckm_i_calloc((size_t)model->n_values, sizeof *roots);
    if (data == NULL || uses == NULL || roots == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    mark_data(model, data);
    mark_other_uses(model);
    find_roots(model, roots);
    collect_uses(model, data, roots, uses);
    for (int32_t i = 0; i < model->n_values; i++) {
        ckm_i_onnx_value *value = &model->values[i];
        value->role = CKM_ROLE_ACTIVATION;
        if (!value->needed) {
            continue;
        }
        if (value->origin == CKM_I_ONNX_INITIALIZER) {
            CKM_I_TRY(type_tensor(value, value->initializer, err));
            CKM_I_TRY(ckm_i_onnx_tensor_data(value->initializer, value->name, &value->data, err));
            value->role = constant_role(value, uses[i], true);
        } else if (value->node >= 0 && strcmp(model->nodes[value->node].op_type, "Constant") == 0) {
            const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(&model->nodes[value->node], "value");
            if (attr != NULL && attr->t != NULL) {
                CKM_I_TRY(type_tensor(value, attr->t, err));
                CKM_I_TRY(ckm_i_onnx_tensor_data(attr->t, value->name, &value->data, err));
                value->role = constant_role(value, uses[i], false);
            }
        }
    }
    assign_inputs(model, uses);
cleanup:
    free(data);
    free(uses);
    free(roots);
    return status;
}
