// SPDX-License-Identifier: Apache-2.0
// Nodes that rearrange, select, pad and resample.
#include "onnx_generator_parts.h"

// ---- what rearranges

void og_gen_reshape(og_generator *g)
{
    char inputs[OG_TEXT];
    char attributes[OG_TEXT] = "";
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape in = x->shape;
    ckm_shape out = in;
    og_format(inputs, "%s", x->name);
    int32_t axis = (int32_t)og_pick(g, (uint32_t)in.rank);
    int64_t wide;
    switch (og_pick(g, 5)) {
    case 0: {  // the first kept, the rest in one
        int64_t target[2] = {0, -1};
        char name[16];
        og_int_list(g, target, 2, name);
        og_format(inputs, "%s,%s", x->name, name);
        out = (ckm_shape){2, {in.dims[0], og_elements(&in) / in.dims[0]}};
        og_node(g, "Reshape", inputs, g->opset >= 14 && og_chance(g, 2) ? "allowzero=0" : "", 'f', &out);
        break;
    }
    case 1:
        for (int32_t i = 0; i < 2; i++) {
            out.dims[i] = 1;
        }
        for (int32_t i = 0; i < in.rank; i++) {
            out.dims[i < axis ? 0 : 1] *= in.dims[i];
        }
        out.rank = 2;
        og_format(attributes, "axis=%d", (int)(axis > 0 && og_chance(g, 2) ? axis - in.rank : axis));
        og_node(g, "Flatten", inputs, attributes, 'f', &out);
        break;
    case 2:
        if (in.rank < CKM_MAX_RANK) {
            wide = axis;
            memmove(out.dims + axis + 1, out.dims + axis, (size_t)(in.rank - axis) * sizeof out.dims[0]);
            out.dims[axis] = 1;
            out.rank++;
            og_setting(g, "axes", 12, &wide, 1, inputs, attributes);
            og_node(g, "Unsqueeze", inputs, attributes, 'f', &out);
        }
        break;
    case 3:
        if (in.dims[axis] == 1 && in.rank > 1) {
            wide = axis - in.rank;
            memmove(out.dims + axis, out.dims + axis + 1, (size_t)(in.rank - axis - 1) * sizeof out.dims[0]);
            out.rank--;
            og_setting(g, "axes", 12, &wide, 1, inputs, attributes);
            og_node(g, "Squeeze", inputs, attributes, 'f', &out);
        }
        break;
    default: {
        char text[OG_TEXT];
        int64_t perm[CKM_MAX_RANK];
        for (int32_t i = 0; i < in.rank; i++) {
            perm[i] = (i + axis) % in.rank;
            out.dims[i] = in.dims[perm[i]];
        }
        og_format(attributes, "l:perm=%s", og_join(text, ",", perm, in.rank));
        og_node(g, "Transpose", inputs, attributes, 'f', &out);
    }
    }
}

void og_gen_slice(og_generator *g)
{
    char inputs[OG_TEXT];
    char attributes[OG_TEXT] = "";
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    int64_t axis = (int64_t)og_pick(g, (uint32_t)out.rank);
    int64_t size = out.dims[axis];
    bool back = g->opset >= 10 && og_chance(g, 3);
    int64_t start = back ? -1 : (int64_t)og_pick(g, (uint32_t)size);
    int64_t end = back ? INT64_MIN : og_chance(g, 2) ? INT64_MAX : size;
    int64_t step = back ? -1 : g->opset >= 10 ? 1 + (int64_t)og_pick(g, 2) : 1;
    out.dims[axis] = back ? size : (size - start + step - 1) / step;
    og_format(inputs, "%s", x->name);
    og_setting(g, "starts", 9, &start, 1, inputs, attributes);
    og_setting(g, "ends", 9, &end, 1, inputs, attributes);
    og_setting(g, "axes", 9, &axis, 1, inputs, attributes);
    if (g->opset >= 10) {
        og_setting(g, "steps", 9, &step, 1, inputs, attributes);
    }
    og_node(g, "Slice", inputs, attributes, 'f', &out);
}

// Parts, and a concatenation of some of them; sometimes of very many.
void og_gen_split_concat(og_generator *g)
{
    char inputs[OG_TEXT];
    char outputs[OG_TEXT] = "";
    char attributes[OG_TEXT];
    char name[16];
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    int64_t axis = (int64_t)og_pick(g, (uint32_t)out.rank);
    if (og_chance(g, 2)) {
        int n = og_chance(g, 6) ? (int)og_pick(g, OG_WIDE) + 1 : (int)og_pick(g, 3) + 1;
        size_t used = 0;
        if (og_elements(&out) > 100000 / n) {
            return;
        }
        for (int i = 0; i < n; i++) {
            used += (size_t)snprintf(inputs + used, sizeof inputs - used, "%s%s", i > 0 ? "," : "", x->name);
        }
        out.dims[axis] *= n;
        og_node(g, "Concat", inputs, og_format(attributes, "axis=%d", (int)axis), 'f', &out);
        return;
    }
    int64_t size = out.dims[axis];
    int64_t sizes[2] = {(size + 1) / 2, size / 2};
    if (sizes[1] == 0) {
        return;
    }
    if (g->opset >= 11 && og_chance(g, 3)) {
        char at[16];
        og_integer(g, size / 2 > 0 ? (size + 1) / 2 : 1, at);
        og_fresh_name(g, 'v', name);
        ob_node(g->b, "SplitToSequence", og_format(inputs, "%s,%s", x->name, at), name);
        ob_attributes(g->b, og_format(attributes, "axis=%d", (int)axis));
        og_integer(g, -1, at);
        out.dims[axis] = size / 2;
        og_node(g, "SequenceAt", og_format(inputs, "%s,%s", name, at), "", 'f', &out);
        return;
    }
    bool given = sizes[0] != sizes[1] || og_chance(g, 2);
    og_format(inputs, "%s", x->name);
    og_format(attributes, "axis=%d", (int)(axis - out.rank));
    if (given) {
        og_setting(g, "split", 12, sizes, 2, inputs, attributes);
    }
    for (int i = 0; i < 2; i++) {
        ckm_shape part = out;
        part.dims[axis] = sizes[i];
        og_fresh_name(g, 'v', name);
        og_add_value(g, name, 'f', &part);
        og_format(outputs + strlen(outputs), "%s%s", i > 0 ? "," : "", name);
    }
    ob_node(g->b, "Split", inputs, outputs);
    ob_attributes(g->b, attributes);
}

void og_gen_gather(og_generator *g)
{
    char text[OG_TEXT];
    char at[16];
    char updates[16];
    char attributes[64];
    char data[16];
    const og_value *x = og_choose(g, 'f', 2, 5);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    strcpy(data, x->name);
    int64_t axis = (int64_t)og_pick(g, (uint32_t)out.rank);
    int64_t positions[3] = {0, -1, 0};
    snprintf(attributes, sizeof attributes, "axis=%d", (int)axis);
    switch (og_pick(g, 5)) {
    case 0:
        og_int_list(g, positions, 3, at);
        out.dims[axis] = 3;
        og_node(g, "Gather", og_format(text, "%s,%s", data, at), attributes, 'f', &out);
        break;
    case 1:  // one number takes the axis away
        og_integer(g, 0, at);
        memmove(out.dims + axis, out.dims + axis + 1, (size_t)(out.rank - axis - 1) * sizeof out.dims[0]);
        out.rank--;
        og_node(g, "Gather", og_format(text, "%s,%s", data, at), attributes, 'f', &out);
        break;
    default:
        if (g->opset >= 11) {
            og_value *i = NULL;
            for (int k = 0; k < g->n_values && i == NULL; k++) {
                og_value *v = &g->values[k];
                bool same = v->type == 'i' && v->shape.rank == out.rank;
                for (int32_t d = 0; same && d < out.rank; d++) {
                    same = v->shape.dims[d] == out.dims[d] || d == axis;
                }
                i = same ? v : i;
            }
            if (i == NULL) {  // positions of its shape
                ckm_shape shape = out;
                og_node(g, "Cast", data, "to=7", 'i', &shape);
                i = &g->values[g->n_values - 1];
                // Where there was no room for the node, the last value is another one.
                if (i->type != 'i' || i->shape.rank != out.rank ||
                    memcmp(i->shape.dims, out.dims, (size_t)out.rank * sizeof out.dims[0]) != 0) {
                    return;
                }
            }
            char positions_name[16];
            strcpy(positions_name, i->name);
            i->used = true;
            ckm_shape like = i->shape;
            if (og_chance(g, 2)) {
                og_node(g, "GatherElements", og_format(text, "%s,%s", data, positions_name), attributes, 'f', &like);
            } else if (like.rank == out.rank &&
                       memcmp(like.dims, out.dims, (size_t)out.rank * sizeof out.dims[0]) == 0) {
                og_node(g, "ScatterElements", og_format(text, "%s,%s,%s", data, positions_name, data), attributes, 'f',
                        &out);
            }
        }
        break;
    case 2:
        if (g->opset >= 11) {  // rows by number
            og_fresh_name(g, 'c', at);
            CkmOnnx__TensorProto *t = ob_ints(g->b, at, "0,0,0");
            static int64_t column[2] = {3, 1};
            t->n_dims = 2;
            t->dims = column;
            if (og_chance(g, 2)) {
                out.dims[0] = 3;
                og_node(g, "GatherND", og_format(text, "%s,%s", data, at),
                        g->opset >= 12 && og_chance(g, 2) ? "batch_dims=0" : "", 'f', &out);
            } else {
                ckm_shape rows = out;
                rows.dims[0] = 3;
                og_weight(g, &rows, updates);
                og_node(g, "ScatterND", og_format(text, "%s,%s,%s", data, at, updates), "", 'f', &out);
            }
        }
    }
}

void og_gen_repeat(og_generator *g)
{
    char text[OG_TEXT];
    char name[16];
    int64_t list[CKM_MAX_RANK];
    const og_value *x = og_choose(g, 'f', 1, 5);
    if (x == NULL || og_elements(&x->shape) > 20000) {
        return;
    }
    ckm_shape out = x->shape;
    if (og_chance(g, 2)) {
        for (int32_t i = 0; i < out.rank; i++) {
            list[i] = 1 + (int64_t)og_chance(g, 3);
            out.dims[i] *= list[i];
        }
        og_int_list(g, list, out.rank, name);
        og_node(g, "Tile", og_format(text, "%s,%s", x->name, name), "", 'f', &out);
        return;
    }
    memmove(out.dims + 1, out.dims, (size_t)out.rank * sizeof out.dims[0]);
    out.dims[0] = 2;
    out.rank++;
    for (int32_t i = 0; i < out.rank; i++) {
        list[i] = i > 0 && og_chance(g, 3) ? 1 : out.dims[i];
    }
    og_int_list(g, list, out.rank, name);
    og_node(g, "Expand", og_format(text, "%s,%s", x->name, name), "", 'f', &out);
}

void og_gen_pad(og_generator *g)
{
    static const char *const modes[] = {"w:mode=constant", "w:mode=reflect", "w:mode=edge", ""};
    char inputs[OG_TEXT];
    char attributes[OG_TEXT];
    char fill[16];
    int64_t pads[2 * CKM_MAX_RANK] = {0};
    const og_value *x = og_choose(g, 'f', 2, 5);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    int64_t axis = out.rank - 1;
    pads[axis] = 1;
    pads[axis + out.rank] = og_pick(g, 2);
    if (out.dims[axis] < 3) {
        return;
    }
    out.dims[axis] += pads[axis] + pads[axis + out.rank];
    og_format(inputs, "%s", x->name);
    og_format(attributes, "%s", modes[og_pick(g, 4)]);
    if (g->opset >= 18 && og_chance(g, 2)) {
        int64_t two[2] = {pads[axis], pads[axis + out.rank]};
        char list[16];
        char axes[16];
        og_int_list(g, two, 2, list);
        og_number(g, 0.5, fill);
        og_int_list(g, &axis, 1, axes);
        og_format(inputs, "%s,%s,%s,%s", x->name, list, fill, axes);
    } else {
        og_setting(g, "pads", 10, pads, 2 * x->shape.rank, inputs, attributes);
        if (g->opset < 11) {
            strcat(attributes, attributes[0] != '\0' ? ";r:value=0.5" : "r:value=0.5");
        }
    }
    og_node(g, "Pad", inputs, attributes, 'f', &out);
}

void og_gen_blocks(og_generator *g)
{
    const og_value *x = og_choose(g, 'f', 4, 4);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    if (out.dims[1] % 4 == 0 && og_chance(g, 2)) {
        out.dims[1] /= 4;
        out.dims[2] *= 2;
        out.dims[3] *= 2;
        og_node(g, "DepthToSpace", x->name,
                g->opset >= 11 ? og_chance(g, 2) ? "blocksize=2;w:mode=CRD" : "blocksize=2;w:mode=DCR" : "blocksize=2",
                'f', &out);
    } else if (out.dims[2] % 2 == 0 && out.dims[3] % 2 == 0) {
        out.dims[1] *= 4;
        out.dims[2] /= 2;
        out.dims[3] /= 2;
        og_node(g, "SpaceToDepth", x->name, "blocksize=2", 'f', &out);
    }
}

void og_gen_triangle(og_generator *g)
{
    char text[OG_TEXT];
    char name[16];
    const og_value *x = og_choose(g, 'f', 2, CKM_MAX_RANK);
    if (x != NULL && g->opset >= 14) {
        ckm_shape shape = x->shape;
        og_integer(g, 1, name);
        og_node(g, "Trilu", og_chance(g, 2) ? x->name : og_format(text, "%s,%s", x->name, name),
                og_chance(g, 2) ? "upper=0" : "", 'f', &shape);
    }
}

void og_gen_resize(og_generator *g)
{
    static const char *const forms[] = {
        "", "w:mode=nearest;w:nearest_mode=floor;w:coordinate_transformation_mode=asymmetric",
        "w:mode=linear;w:coordinate_transformation_mode=align_corners", "w:mode=cubic;r:cubic_coeff_a=-0.5",
        "w:mode=nearest;w:nearest_mode=ceil"};
    char text[OG_TEXT];
    char name[16];
    const og_value *x = og_choose(g, 'f', 4, 4);
    if (x == NULL || og_elements(&x->shape) > 10000) {
        return;
    }
    ckm_shape out = x->shape;
    out.dims[2] *= 2;
    out.dims[3] *= 2;
    const char *form = forms[g->opset >= 11 ? og_pick(g, 5) : 0];
    if (g->opset < 11) {
        og_fresh_name(g, 'c', name);
        ob_floats(g->b, name, "1,1,2,2");
        og_node(g, g->opset < 10 ? "Upsample" : "Resize", og_format(text, "%s,%s", x->name, name),
                og_chance(g, 2) ? "w:mode=linear" : "", 'f', &out);
    } else if (g->opset >= 18 && og_chance(g, 3)) {
        og_int_list(g, out.dims + 2, 2, name);
        og_node(g, "Resize", og_format(text, "%s,,,%s", x->name, name), "l:axes=2,3", 'f', &out);
    } else if (og_chance(g, 2)) {
        og_int_list(g, out.dims, 4, name);
        og_node(g, "Resize", og_format(text, "%s,,,%s", x->name, name), form, 'f', &out);
    } else {
        og_fresh_name(g, 'c', name);
        ob_floats(g->b, name, "1,1,2,2");
        og_node(g, "Resize", og_format(text, "%s,,%s", x->name, name), form, 'f', &out);
    }
}
