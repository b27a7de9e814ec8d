// SPDX-License-Identifier: Apache-2.0
// Which tensors get a gradient and which parameters an update, and what is said where there is no rule.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>

#include "graph/training.h"
#include "network_text.h"

static ckm_training *derive(const ckm_graph *g, ckm_optimizer_kind optimizer, bool fused)
{
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    options.loss = CKM_LOSS_MSE;
    options.optimizer.kind = optimizer;
    options.late_updates = !fused;
    if (ckm_autodiff_op_graph(g, &options, &t, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return t;
}

// All operators behind the forward pass, by name.
static const char *names_behind(const ckm_training *t, const char *last)
{
    static char text[2000];  // one at a time is compared at once
    bool behind = false;
    text[0] = '\0';
    for (int32_t v = 0; v < t->n_ops; v++) {
        size_t used = strlen(text);
        if (behind) {
            snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", t->ops[v].name);
        }
        behind = behind || strcmp(t->ops[v].name, last) == 0;
    }
    return text;
}

typedef struct backward_case {
    const char *shape, *network;
    const char *backward;         // behind the loss without updates
    const char *apart, *in_step;  // the updates: behind all gradients, or fused
    int32_t n_results;
} backward_case;

static const backward_case cases[] = {
    {"2x3", "tanh x", "loss:grad_prediction tanh:grad_x", "p1:update", "tanh:grad_x p1:update", 2},
    // Read twice by one operator: one gradient, one update.
    {"2x3", "mul x x", "loss:grad_prediction mul:grad_b mul:grad_a start:grad_sum", "p1:update",
     "mul:grad_b mul:grad_a start:grad_sum p1:update", 2},
    // The loss does not learn through whole numbers, nor from what they choose by.
    {"2x3", "mul x f2x3 | add x f3", "loss:grad_prediction mul:grad_a", "p1:update", "mul:grad_a p1:update", 2},
    {"4x3", "gather x i2", "loss:grad_prediction gather:grad_x", "p1:update", "gather:grad_x p1:update", 2},
    // Parameters come in the order of the network apart, in the order of their first readers, last first, fused.
    {"2x3", "mul x p3 | add x p3", "loss:grad_prediction add:grad_operand mul:grad_b mul:grad_b#2 mul:grad_a",
     "p1:update p2:update p3:update",
     "add:grad_operand p3:update mul:grad_b mul:grad_b#2 mul:grad_a p2:update p1:update", 4},
    // Of a split with one output read, the others count as zero.
    {"2x6", "split x axis=1 sizes=2,3,1", NULL, "p1:update", NULL, 2},
};

static void gradients_and_updates_of_what_learns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        network_text network;
        network_text_read(&network, CKM_CHANNELS_LAST, cases[i].shape, cases[i].network);
        ckm_training *t = derive(network.g, CKM_OPTIMIZER_NONE, false);
        if (cases[i].backward != NULL) {
            assert_string_equal(names_behind(t, "loss"), cases[i].backward);
        }
        assert_int_equal(t->n_results, cases[i].n_results);
        char last[64];
        snprintf(last, sizeof last, "%s", t->ops[t->n_ops - 1].name);
        ckm_training_free(t);
        t = derive(network.g, CKM_OPTIMIZER_SGD, false);
        assert_string_equal(names_behind(t, last), cases[i].apart);
        assert_int_equal(t->n_results, 1);
        ckm_training_free(t);
        t = derive(network.g, CKM_OPTIMIZER_SGD, true);
        if (cases[i].in_step != NULL) {
            assert_string_equal(names_behind(t, "loss:grad_prediction"), cases[i].in_step);
        }
        ckm_training_free(t);
        ckm_graph_free(network.g);
    }
}

// As many as fit are named, all are counted.
static void a_long_list_of_missing_rules_ends_in_time(void **state)
{
    (void)state;
    enum { N = 90 };
    network_text network;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    network_text_read(&network, CKM_CHANNELS_LAST, "2x3", "tanh x");
    int32_t x = network.g->ops[network.g->n_ops - 1].outputs[0];
    for (int32_t i = 0; i < N; i++) {
        char name[40];
        int32_t inputs[2] = {x, x};
        snprintf(name, sizeof name, "slope_%02d", (int)i);
        assert_int_equal(
            ckm_i_graph_add_op(
                network.g, &(ckm_i_new_op){.kind = "erf_backward", .name = name, .inputs = {inputs, 2}, .n_outputs = 1},
                &x, &err),
            CKM_OK);
    }
    assert_int_equal(ckm_autodiff_op_graph(network.g, NULL, &t, &err), CKM_ERR_UNSUPPORTED);
    assert_null(t);
    const char *start = "90 operators have no gradient, but weights before them need one: "
                        "\"slope_89\" (erf_backward), \"slope_88\" (erf_backward), ";
    assert_memory_equal(err.message, start, strlen(start));
    // 2000 bytes hold 74 of 27 each; none is cut.
    const char *end = "\"slope_17\" (erf_backward), \"slope_16\" (erf_backward)";
    assert_true(strlen(err.message) > strlen(end));
    assert_string_equal(err.message + strlen(err.message) - strlen(end), end);
    ckm_graph_free(network.g);
}

// y = normalized(x), and its mean is added to it again: what the mean passes back must not be lost. Its own inputs need none where
// they are data.
static void further_outputs_have_no_gradient(void **state)
{
    (void)state;
    for (int learns = 0; learns < 2; learns++) {
        network_text network;
        ckm_training *t = NULL;
        ckm_error err = CKM_ERROR_INIT;
        network_text_read(&network, CKM_CHANNELS_LAST, "2x3", "tanh x");
        int32_t learned = network.g->ops[network.g->n_ops - 1].outputs[0];
        int32_t data;
        const ckm_shape shape = {2, {2, 3}};
        assert_int_equal(ckm_i_graph_add_tensor(network.g, "d", CKM_ROLE_INPUT, CKM_F32, &shape, &data, &err), CKM_OK);
        int32_t x = learns ? learned : data;
        int32_t outputs[3];
        int32_t sum[2];
        assert_int_equal(
            ckm_i_graph_add_op(network.g,
                               &(ckm_i_new_op){.kind = "layer_norm", .name = "norm", .inputs = {&x, 1}, .n_outputs = 3},
                               outputs, &err),
            CKM_OK);
        assert_int_equal(ckm_i_graph_add_op(network.g,
                                            &(ckm_i_new_op){.kind = "add", .inputs = {outputs, 2}, .n_outputs = 1},
                                            &sum[0], &err),
                         CKM_OK);
        const int32_t last[2] = {sum[0], learned};
        assert_int_equal(ckm_i_graph_add_op(network.g,
                                            &(ckm_i_new_op){.kind = "add", .inputs = {last, 2}, .n_outputs = 1},
                                            &sum[1], &err),
                         CKM_OK);
        ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
        options.loss = CKM_LOSS_MSE;
        assert_int_equal(ckm_autodiff_op_graph(network.g, &options, &t, &err), learns ? CKM_ERR_UNSUPPORTED : CKM_OK);
        if (learns) {
            assert_string_equal(err.message, "1 operators have no gradient, but weights before them need one: \"norm\" "
                                             "(layer_norm, further outputs)");
        }
        ckm_training_free(t);
        ckm_graph_free(network.g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_and_updates_of_what_learns),
        cmocka_unit_test(a_long_list_of_missing_rules_ends_in_time),
        cmocka_unit_test(further_outputs_have_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
