// SPDX-License-Identifier: Apache-2.0
// Networks whose file differs from the network that was meant to be trained: exporters merge tensors of equal values, fold normalization away, and
// leave operators in training mode. What is exported has to predict what was trained; where it would not, the network is refused
// before the first step.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "import/import.h"
#include "run/session/session.h"
#include "trainer/trainer.h"

static const char advice[] = "PyTorch: torch.onnx.export(model.eval(), ..., dynamo=True, optimize=False)";

// Running statistics that are something else as well would neither be kept nor exported.
ckm_status ckm_i_trainer_check_states(const ckm_trainer *t, ckm_error *err)
{
    for (int32_t v = 0; v < t->graph->n_ops; v++) {
        const ckm_i_graph_op *op = &t->graph->ops[v];
        for (int32_t i = 3; op->op_class->id == CKM_I_OP_batch_norm && i < 5 && i < op->n_inputs; i++) {
            const ckm_i_graph_tensor *state = op->inputs[i] >= 0 ? &t->graph->tensors[op->inputs[i]] : NULL;
            if (state != NULL && state->role != CKM_ROLE_STATE) {
                return ckm_i_error(
                    err, CKM_ERR_UNSUPPORTED,
                    "operator \"%.200s\" (batch_norm): its running %s is \"%.200s\", which is %s: the "
                    "exporter has merged tensors of equal values. Export the network again, each tensor by "
                    "itself (%s)",
                    op->name, i == 3 ? "mean" : "variance", state->name,
                    state->role == CKM_ROLE_PARAMETER ? "a trained parameter" : "no tensor of its own", advice);
            }
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_trainer_check_modes(const ckm_trainer *t, ckm_error *err)
{
    int32_t n = 0;
    const char *example = "";
    for (int32_t v = 0; v < t->graph->n_ops; v++) {
        const ckm_i_graph_op *op = &t->graph->ops[v];
        if (ckm_i_op_attr_int(op, "training", 0, 0) != 0) {
            example = n++ == 0 ? op->name : example;
        }
    }
    if (t->options.model == NULL) {
        return ckm_i_check_network(t->graph, err);
    }
    if (n == 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_check_evaluating(t->options.model, err));
    ckm_i_trainer_note(
        t, CKM_LOG_WARN,
        "%d operator%s in training mode in the model's file (\"%.150s\"); the copy with the trained weights "
        "has %s in evaluation mode",
        (int)n, n == 1 ? " is" : "s are", example, n == 1 ? "it" : "them");
    return CKM_OK;
}

// Operators of the network that read its tensor of that name; *first and *last are two of them.
static int32_t count_readers(const ckm_graph *g, const char *name, const char **first, const char **last)
{
    int32_t n = 0;
    for (int32_t v = 0; v < g->n_ops; v++) {
        for (int32_t i = 0; i < g->ops[v].n_inputs; i++) {
            int32_t x = g->ops[v].inputs[i];
            if (x >= 0 && g->tensors[x].producer < 0 && strcmp(g->tensors[x].name, name) == 0) {
                *(n == 0 ? first : last) = g->ops[v].name;
                n++;
                break;
            }
        }
    }
    return n;
}

// Whether all elements of a tensor of single precision are the same.
static ckm_status all_equal(const ckm_session *session, int32_t tensor, bool *equal, ckm_error *err)
{
    float piece[1024];
    float first = 0;
    ckm_session_tensor t = ckm_session_get_tensor(session, tensor);
    *equal = t.dtype == CKM_F32 && t.bytes > (int64_t)sizeof(float);
    for (int64_t at = 0; *equal && at < t.bytes; at += (int64_t)sizeof piece) {
        int64_t n = t.bytes - at < (int64_t)sizeof piece ? t.bytes - at : (int64_t)sizeof piece;
        CKM_I_CHECK(ckm_session_read(session, tensor, at, n, piece, err));
        first = at == 0 ? piece[0] : first;
        for (int64_t i = 0; i < n / (int64_t)sizeof(float); i++) {
            *equal = *equal && !(piece[i] < first) && !(piece[i] > first);
        }
    }
    return CKM_OK;
}

// Names that PyTorch's exporters give to what they have folded into a convolution: its weight, or a bias of it.
static bool is_folded(const char *weight, const char *bias)
{
    size_t n = strlen(weight);
    return strncmp(weight, "onnx::Conv_", 11) == 0 ||
           (strncmp(bias, weight, n) == 0 && strcmp(bias + n, "_bias") == 0 && n > 0);
}

static void note_folded(const ckm_trainer *t)
{
    const ckm_graph *g = t->graph;
    const char *example = "";
    int32_t n_folded = 0;
    for (int32_t v = 0; v < g->n_ops; v++) {
        const ckm_i_graph_op *op = &g->ops[v];
        bool conv = op->op_class->id == CKM_I_OP_conv && op->n_inputs > 1;
        int32_t bias = conv && op->n_inputs > 2 ? op->inputs[2] : -1;
        if (op->holds_norm ||
            (conv && is_folded(g->tensors[op->inputs[1]].name, bias >= 0 ? g->tensors[bias].name : ""))) {
            example = n_folded++ == 0 ? op->name : example;
        }
    }
    if (n_folded > 0) {
        ckm_i_trainer_note(
            t, CKM_LOG_WARN,
            "%d layer%s weights that the exporter has made (\"%.150s\"): it has folded batch "
            "normalization into them, and the network is trained without. To train it with normalization, "
            "export it again without folding (%s)",
            (int)n_folded, n_folded == 1 ? " has" : "s have", example, advice);
    }
}

ckm_status ckm_i_trainer_check_merged(const ckm_trainer *t, const ckm_session *session, ckm_error *err)
{
    int32_t n_merged = 0;
    char example[512] = "";
    note_folded(t);
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
        bool state = tensor.role == CKM_ROLE_STATE;
        const char *first = "";
        const char *last = "";
        bool equal = false;
        if ((tensor.role != CKM_ROLE_PARAMETER && (!state || ckm_train_is_optimizer_state(session, i))) ||
            count_readers(t->graph, tensor.name, &first, &last) < 2) {
            continue;
        }
        CKM_I_CHECK(all_equal(session, i, &equal, err));
        if (equal && state) {
            return ckm_i_error_at(
                err, CKM_ERR_UNSUPPORTED, t->options.model, 0, -1,
                "\"%.200s\" holds the running statistics of \"%.200s\" and of \"%.200s\": the exporter "
                "has merged tensors of equal values. Export the network again, each tensor by itself "
                "(%s)",
                tensor.name, first, last, advice);
        }
        if (equal && n_merged++ == 0) {
            snprintf(example, sizeof example, "\"%.150s\", read by \"%.150s\" and \"%.150s\"", tensor.name, first,
                     last);
        }
    }
    if (n_merged > 0) {
        ckm_i_trainer_note(
            t, CKM_LOG_WARN,
            "%d tensor%s of one number repeated %s read by several operators each and trained as one (%s): "
            "exporters merge equal initializers of fresh networks. If these are different parameters, "
            "export the network again, each tensor by itself (%s)",
            (int)n_merged, n_merged == 1 ? "" : "s", n_merged == 1 ? "is" : "are", example, advice);
    }
    return CKM_OK;
}
