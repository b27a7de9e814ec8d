// SPDX-License-Identifier: Apache-2.0
// A graph as a sequence of blocks: every figure of a small one, worked out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "solve/chain/chain.h"

// Four layers, the third of which reads the second and the first: no edge passes by the first, the third and the last. The loss is
// operator 4; 5 to 8 are the gradients of 3, 2, 1 and 0, as large as what they belong to. Each reads the layer's output, its operands
// and the gradients of those that read it.
static void figures_of_a_skip(void **state)
{
    (void)state;
    static const layer_spec layers[] = {
        {.cost = 1, .bytes = 2},
        {.cost = 2, .bytes = 3, .n_operands = 1, .operands = {0}},
        {.cost = 4, .bytes = 5, .n_operands = 2, .operands = {1, 0}},
        {.cost = 8, .bytes = 7, .n_operands = 1, .operands = {2}},
    };
    static const ckm_i_block expected[] = {
        // Around it at stage 8: the gradients of 2 and 1, output 2, and what the stage makes, 5 + 3 + 5 + 2; before: 5 + 5.
        {.start = 0,
         .end = 2,
         .first = 7,
         .last = 8,
         .reach = 1,
         .inner = 2,
         .state_bytes = 2,
         .whole_bytes = 2 + 3,
         .pass_bytes = 2 + 3 + 5,
         .around_bytes = 100 + 15,
         .before_bytes = 100 + 10},
        // Output 3, its gradient, and what is made.
        {.start = 2,
         .end = 3,
         .first = 6,
         .last = 6,
         .reach = 1 + 2 + 4,
         .inner = 0,
         .state_bytes = 5,
         .whole_bytes = 5,
         .pass_bytes = 5 + 7,
         .around_bytes = 100 + 7 + 7 + 5,
         .before_bytes = 100 + 7 + 7},
        // The loss, and the gradient.
        {.start = 3,
         .end = 4,
         .first = 4,
         .last = 5,
         .reach = 1 + 2 + 4 + 8,
         .inner = 0,
         .state_bytes = 7,
         .whole_bytes = 7,
         .pass_bytes = 0,
         .around_bytes = 100 + 1 + 7,
         .before_bytes = 100},
    };
    ckm_dataflow *df = layer_graph_build(layers, 4, 100, 1, true);
    ckm_i_forward *fw = NULL;
    ckm_i_blocks blocks;
    assert_int_equal(ckm_i_forward_create(df, &fw, NULL), CKM_OK);
    assert_int_equal(ckm_i_blocks_create(fw, 100, &blocks, NULL), CKM_OK);
    assert_int_equal(blocks.n, 3);
    assert_int_equal(blocks.top, 2);
    assert_false(blocks.is_chain);
    for (int32_t k = 0; k < 3; k++) {
        const ckm_i_block *b = &blocks.at[k];
        const ckm_i_block *e = &expected[k];
        assert_int_equal(b->start, e->start);
        assert_int_equal(b->end, e->end);
        assert_int_equal(b->first, e->first);
        assert_int_equal(b->last, e->last);
        assert_int_equal(b->reach, e->reach);
        assert_int_equal(b->inner, e->inner);
        assert_int_equal(b->state_bytes, e->state_bytes);
        assert_int_equal(b->whole_bytes, e->whole_bytes);
        assert_int_equal(b->pass_bytes, e->pass_bytes);
        assert_int_equal(b->around_bytes, e->around_bytes);
        assert_int_equal(b->before_bytes, e->before_bytes);
    }
    ckm_i_blocks_dispose(&blocks);
    // All in one: its state is output 0, and all that is behind the forward part is its own.
    assert_int_equal(ckm_i_blocks_create(fw, 1, &blocks, NULL), CKM_OK);
    assert_int_equal(blocks.n, 1);
    const ckm_i_block *all = &blocks.at[0];
    assert_int_equal(all->start, 0);
    assert_int_equal(all->end, 4);
    assert_int_equal(all->first, 4);
    assert_int_equal(all->last, 8);
    assert_int_equal(all->reach, 1);
    assert_int_equal(all->inner, 2 + 4 + 8);
    assert_int_equal(all->state_bytes, 2);
    assert_int_equal(all->whole_bytes, 2 + 3 + 5 + 7);
    assert_int_equal(all->before_bytes, 100);
    ckm_i_blocks_dispose(&blocks);
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_a_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
