// SPDX-License-Identifier: Apache-2.0
// Finds softmax(scale q k' + bias) v, as the zoo and exporters write it, and makes it one operator: matmul, products
// with numbers, a mask, a bias, softmax or masked_softmax, dropout, matmul. Transpositions that bring heads before
// positions, and back, are part of it: the operator reads and writes either order. So are the views by which heads that
// share keys become rows of one product.
#include "autodiff/fuse.h"
#include "graph/op_attention.h"

// The axes of a head's matrix, and of tensors of up to four dimensions, the last ones.
enum { BATCH, HEAD, POSITION, SIZE, AXES };

// A tensor and what its axes are; those before the first are 1.
typedef struct operand {
    int32_t tensor;
    int32_t rank;
    int32_t axes[AXES];  // of its `rank` dimensions
    double scale;        // what it is multiplied by
} operand;

typedef struct pattern {
    const ckm_i_fuse *f;
    const ckm_i_graph_op *softmax, *values, *scores;  // the last two are products
    int32_t bias, mask;                               // tensors, or -1
    bool mask_hides;
    double scale, fill, rate;
    ckm_shape shape;  // of the scores when softmax reads them
} pattern;

static const ckm_shape *shape_of(const ckm_i_fuse *f, int32_t tensor)
{
    return &f->graph->tensors[tensor].shape;
}

static const ckm_i_graph_op *op_at(const ckm_i_fuse *f, int32_t op)
{
    return op >= 0 ? &f->graph->ops[op] : NULL;
}

// The operator that gives `tensor`, when nothing else reads that.
static const ckm_i_graph_op *behind(const ckm_i_fuse *f, int32_t tensor)
{
    return tensor >= 0 && ckm_i_fuse_only_reader(f, tensor) >= 0 ? ckm_i_fuse_producer(f, tensor) : NULL;
}

static bool is_product(const ckm_i_graph_op *op)
{
    return ckm_i_fuse_is(op, CKM_I_OP_matmul) && ckm_i_op_attr_int(op, "trans_a", 0, 0) == 0;
}

static bool is_softmax(const ckm_i_fuse *f, const ckm_i_graph_op *op)
{
    if (ckm_i_fuse_is(op, CKM_I_OP_masked_softmax)) {
        return true;
    }
    int32_t rank = ckm_i_fuse_is(op, CKM_I_OP_softmax) ? shape_of(f, op->inputs[0])->rank : 0;
    int64_t axis = rank > 0 ? ckm_i_op_attr_int(op, "axis", 0, -1) : 0;
    return rank > 0 && (axis == -1 || axis == rank - 1);
}

// Down from the probabilities: dropout, a view, the product with v.
static bool find_values(pattern *p)
{
    const ckm_i_fuse *f = p->f;
    int32_t tensor = p->softmax->outputs[0];
    const ckm_i_graph_op *op = op_at(f, ckm_i_fuse_only_reader(f, tensor));
    if (ckm_i_fuse_is(op, CKM_I_OP_dropout)) {
        p->rate = ckm_i_op_attr_double(op, "rate", 0.5);
        if (p->rate > 1.0 || (op->n_outputs > 1 && f->n_readers[op->outputs[1]] > 0)) {
            return false;
        }
        p->rate = p->rate > 0.0 ? p->rate : 0.0;
        tensor = op->outputs[0];
        op = op_at(f, ckm_i_fuse_only_reader(f, tensor));
    }
    if (ckm_i_fuse_is(op, CKM_I_OP_reshape)) {
        tensor = op->outputs[0];
        op = op_at(f, ckm_i_fuse_only_reader(f, tensor));
    }
    p->values = op;
    return is_product(op) && op->inputs[0] == tensor && op->inputs[1] != tensor;
}

// A choice between the scores and one number.
static const ckm_i_graph_op *take_mask(pattern *p, const ckm_i_graph_op *op)
{
    const ckm_i_graph_tensor *t = p->f->graph->tensors;
    if (!ckm_i_fuse_is(op, CKM_I_OP_where)) {
        return op;
    }
    p->mask_hides = ckm_i_fuse_number(p->f, op->inputs[1], &p->fill);
    int32_t scores = op->inputs[p->mask_hides ? 2 : 1];
    p->mask = op->inputs[0];
    if ((!p->mask_hides && !ckm_i_fuse_number(p->f, op->inputs[2], &p->fill)) || t[p->mask].shape.rank > AXES ||
        t[p->mask].dtype != CKM_BOOL || !ckm_i_shapes_equal(&t[scores].shape, &p->shape)) {
        return NULL;
    }
    return behind(p->f, scores);
}

// Up from the last operator before the softmax, but for the bias: a mask, factors, a view, the product of q and k.
static bool follow_scores(pattern *p, const ckm_i_graph_op *op)
{
    int32_t x;
    double factor;
    op = take_mask(p, op);
    while (op != NULL && ckm_i_fuse_scaled(p->f, op, &x, &factor)) {
        p->scale *= factor;
        op = behind(p->f, x);
    }
    if (ckm_i_fuse_is(op, CKM_I_OP_reshape)) {
        op = behind(p->f, op->inputs[0]);
    }
    p->scores = op;
    return is_product(op) && op->inputs[0] != op->inputs[1];
}

// Up from the softmax: the bias, which is added last and may be of the scores' size, too; then the rest.
static bool find_scores(pattern *p)
{
    const ckm_i_graph_tensor *t = p->f->graph->tensors;
    const ckm_i_graph_op *op = behind(p->f, p->softmax->inputs[0]);
    if (!ckm_i_fuse_is(op, CKM_I_OP_add) || op->n_inputs != 2) {
        return follow_scores(p, op);
    }
    for (int32_t i = 0; i < 2; i++) {
        pattern with = *p;
        int32_t scores = op->inputs[i];
        with.bias = op->inputs[1 - i];
        if (scores >= 0 && with.bias >= 0 && t[with.bias].shape.rank <= AXES && t[with.bias].dtype == CKM_F32 &&
            ckm_i_shapes_equal(&t[scores].shape, &p->shape) && follow_scores(&with, behind(p->f, scores))) {
            *p = with;
            return true;
        }
    }
    return false;
}

// Follows transpositions and, for q and k, factors, to where the axes are in an order that the operator reads. The
// tensor may have other readers: it is not computed here.
static bool find_operand(const ckm_i_fuse *f, int32_t tensor, bool swapped, bool scales, operand *out)
{
    operand o = {.tensor = tensor, .rank = shape_of(f, tensor)->rank, .scale = 1.0};
    bool found = false;
    if (o.rank < 2 || o.rank > AXES || f->graph->tensors[tensor].dtype != CKM_F32) {
        return false;
    }
    for (int32_t i = 0; i < o.rank; i++) {
        o.axes[i] = AXES - o.rank + i;
    }
    if (swapped) {
        o.axes[o.rank - 1] = POSITION;
        o.axes[o.rank - 2] = SIZE;
    }
    for (;;) {
        bool plain = o.axes[o.rank - 1] == SIZE && (o.rank < AXES || o.axes[0] == BATCH);
        if (plain) {
            *out = o;
            found = true;
        }
        const ckm_i_graph_op *op = ckm_i_fuse_producer(f, o.tensor);
        int32_t x;
        double factor;
        if (ckm_i_fuse_is(op, CKM_I_OP_transpose)) {
            operand before = o;
            for (int32_t i = 0; i < o.rank; i++) {
                before.axes[ckm_i_op_attr_int(op, "perm", i, o.rank - 1 - i)] = o.axes[i];
            }
            before.tensor = op->inputs[0];
            o = before;
        } else if (scales && op != NULL && ckm_i_fuse_scaled(f, op, &x, &factor)) {
            o.scale *= factor;
            o.tensor = x;
        } else {
            return found;
        }
    }
}

static int64_t dim_of(const ckm_shape *shape, int32_t from_end)
{
    return from_end < shape->rank ? shape->dims[shape->rank - 1 - from_end] : 1;
}

// A shape of four dimensions with ones in front.
static ckm_shape in_front(const ckm_shape *shape)
{
    return (ckm_shape){AXES, {dim_of(shape, 3), dim_of(shape, 2), dim_of(shape, 1), dim_of(shape, 0)}};
}

static bool is_by_position(const operand *o)
{
    return o->rank >= 3 && o->axes[o->rank - 2] == HEAD;
}

// The tensor that heads sharing keys were one product's rows of: the view is left out.
static int32_t without_view(const ckm_i_fuse *f, int32_t tensor, const ckm_shape *wanted)
{
    const ckm_i_graph_op *op = ckm_i_fuse_producer(f, tensor);
    bool view = ckm_i_fuse_is(op, CKM_I_OP_reshape) && ckm_i_shapes_equal(shape_of(f, op->inputs[0]), wanted);
    return view ? op->inputs[0] : tensor;
}

// Both products have the sizes of attention with these scores: batch, heads, queries, keys.
static bool sizes_fit(const pattern *p, const ckm_shape *scores)
{
    const ckm_i_fuse *f = p->f;
    ckm_shape q = in_front(shape_of(f, p->scores->inputs[0]));
    ckm_shape k = in_front(shape_of(f, p->scores->inputs[1]));
    ckm_shape v = in_front(shape_of(f, p->values->inputs[1]));
    ckm_shape rows = in_front(shape_of(f, p->scores->outputs[0]));
    ckm_shape probabilities = in_front(shape_of(f, p->values->inputs[0]));
    int64_t group = k.dims[HEAD];
    return shape_of(f, p->scores->inputs[0])->rank <= AXES && shape_of(f, p->scores->inputs[1])->rank <= AXES &&
           shape_of(f, p->values->inputs[1])->rank <= AXES && q.dims[BATCH] == scores->dims[BATCH] &&
           k.dims[BATCH] == q.dims[BATCH] && v.dims[BATCH] == q.dims[BATCH] && q.dims[HEAD] == group &&
           v.dims[HEAD] == group && scores->dims[HEAD] % group == 0 &&
           q.dims[POSITION] == scores->dims[HEAD] / group * scores->dims[POSITION] &&
           rows.dims[SIZE] == scores->dims[SIZE] && ckm_i_shapes_equal(&rows, &probabilities) &&
           ckm_i_op_attr_int(p->values, "trans_b", 0, 0) == 0;
}

static void put_operand(ckm_i_fused *out, int32_t i, const ckm_i_fuse *f, const operand *o, int64_t *by_position)
{
    out->inputs[i] = o->tensor;
    out->shapes[i] = in_front(shape_of(f, o->tensor));
    *by_position = is_by_position(o) ? 1 : 0;
}

// q's rows are those of the scores: heads that share keys come apart.
static bool put_q(const pattern *p, const ckm_shape *scores, ckm_i_fused *out, int64_t *by_position, double *scale)
{
    const ckm_i_fuse *f = p->f;
    operand o;
    int32_t tensor = p->scores->inputs[0];
    ckm_shape wanted = {
        AXES, {scores->dims[BATCH], scores->dims[HEAD], scores->dims[POSITION], dim_of(shape_of(f, tensor), 0)}};
    bool grouped = dim_of(shape_of(f, tensor), 2) != wanted.dims[HEAD];
    if (grouped) {
        tensor = without_view(f, tensor, &wanted);
    }
    if (grouped && !ckm_i_shapes_equal(shape_of(f, tensor), &wanted)) {
        out->inputs[CKM_I_ATTENTION_Q] = tensor;
        out->shapes[CKM_I_ATTENTION_Q] = wanted;
        *by_position = 0;
        return shape_of(f, tensor)->rank == AXES && f->graph->tensors[tensor].dtype == CKM_F32;
    }
    if (!find_operand(f, tensor, false, true, &o)) {
        return false;
    }
    put_operand(out, CKM_I_ATTENTION_Q, f, &o, by_position);
    *scale *= o.scale;
    return true;
}

// What follows the product with v and only re-arranges its result.
static void find_root(const pattern *p, const ckm_shape *scores, ckm_i_fused *out, int64_t *by_position)
{
    const ckm_i_fuse *f = p->f;
    int32_t tensor = p->values->outputs[0];
    const ckm_shape heads_first = {
        AXES, {scores->dims[BATCH], scores->dims[HEAD], scores->dims[POSITION], dim_of(shape_of(f, tensor), 0)}};
    int32_t reader = ckm_i_fuse_only_reader(f, tensor);
    out->root = out->named = f->graph->tensors[tensor].producer;
    *by_position = 0;
    if (ckm_i_fuse_is(op_at(f, reader), CKM_I_OP_reshape) &&
        ckm_i_shapes_equal(shape_of(f, f->graph->ops[reader].outputs[0]), &heads_first)) {
        out->root = reader;
        tensor = f->graph->ops[reader].outputs[0];
        reader = ckm_i_fuse_only_reader(f, tensor);
    }
    const ckm_i_graph_op *op = op_at(f, reader);
    int32_t rank = shape_of(f, tensor)->rank;
    ckm_shape now = in_front(shape_of(f, tensor));
    if (!ckm_i_fuse_is(op, CKM_I_OP_transpose) || rank < 3 || !ckm_i_shapes_equal(&now, &heads_first)) {
        return;
    }
    for (int32_t i = 0; i < rank; i++) {  // heads and positions change places, all else stays
        int32_t axis = AXES - rank + i;
        int32_t from = axis == HEAD ? rank - 2 : axis == POSITION ? rank - 3 : i;
        if (ckm_i_op_attr_int(op, "perm", i, rank - 1 - i) != from) {
            return;
        }
    }
    out->root = reader;
    *by_position = 1;
}

static void put_mask(const pattern *p, ckm_i_fused *out)
{
    ckm_i_attrs *attrs = &out->attrs;
    if (ckm_i_fuse_is(p->softmax, CKM_I_OP_masked_softmax)) {
        ckm_i_attrs_copy(attrs, p->softmax);
    } else {
        ckm_i_attrs_put(attrs, ckm_i_attr_word("mask", "none"));
    }
    out->inputs[CKM_I_ATTENTION_BIAS] = p->bias;
    out->inputs[CKM_I_ATTENTION_MASK] = p->mask;
    out->n_inputs = p->mask >= 0 ? CKM_I_ATTENTION_MASK + 1 : p->bias >= 0 ? CKM_I_ATTENTION_BIAS + 1 : 3;
    if (p->mask >= 0) {
        ckm_i_attrs_put_int(attrs, "mask_hides", p->mask_hides);
        ckm_i_attrs_put(attrs, ckm_i_attr_real("fill", p->fill));
    }
    for (int32_t i = CKM_I_ATTENTION_BIAS; i < out->n_inputs; i++) {
        if (out->inputs[i] >= 0) {
            out->shapes[i] = *shape_of(p->f, out->inputs[i]);
        }
    }
    if (p->rate > 0.0) {
        ckm_i_attrs_put(attrs, ckm_i_attr_real("rate", p->rate));
        out->draws = true;
    }
}

static bool put_pattern(const pattern *p, ckm_i_fused *out)
{
    const ckm_i_fuse *f = p->f;
    ckm_shape scores = in_front(&p->shape);
    operand k;
    operand v;
    int64_t by_position[4];
    double scale = p->scale;
    bool trans_b = ckm_i_op_attr_int(p->scores, "trans_b", 0, 0) != 0;
    if (!sizes_fit(p, &scores) || !put_q(p, &scores, out, &by_position[0], &scale) ||
        !find_operand(f, p->scores->inputs[1], !trans_b, true, &k) ||
        !find_operand(f, p->values->inputs[1], false, false, &v)) {
        return false;
    }
    put_operand(out, CKM_I_ATTENTION_K, f, &k, &by_position[1]);
    put_operand(out, CKM_I_ATTENTION_V, f, &v, &by_position[2]);
    find_root(p, &scores, out, &by_position[3]);
    put_mask(p, out);
    out->kind = "attention";
    out->n_outputs = 2;
    ckm_i_attrs_put(&out->attrs, ckm_i_attr_real("scale", scale * k.scale));
    ckm_i_attrs_put(&out->attrs, ckm_i_attr_ints("by_position", by_position, 4));
    return true;
}

bool ckm_i_fuse_attention(const ckm_i_fuse *f, int32_t op, ckm_i_fused *out)
{
    pattern p = {.f = f, .softmax = &f->graph->ops[op], .bias = -1, .mask = -1, .scale = 1.0};
    if (!is_softmax(f, p.softmax) || f->graph->tensors[p.softmax->outputs[0]].dtype != CKM_F32) {
        return false;
    }
    p.shape = *shape_of(f, p.softmax->outputs[0]);
    return p.shape.rank >= 2 && p.shape.rank <= AXES && find_values(&p) && find_scores(&p) && put_pattern(&p, out);
}
