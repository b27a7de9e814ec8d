// SPDX-License-Identifier: Apache-2.0
// The house rule of operators: every kind has a record that says something of every trait, a reference kernel, a gradient
// or the word that it has none, and a fast kernel on the "cpu" back end unless it is listed here as doing without. The rule
// is a function of a record, so that it can be given records with something left out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/op_class.h"
#include "run/cpu/cpu_backend.h"
#include "run/cpu/ref_registry.h"

static const char *const kinds[CKM_I_OP_KIND_COUNT] = {
#define NAME(kind) [CKM_I_OP_##kind] = #kind,
    CKM_I_OP_KINDS(NAME)
#undef NAME
};

// Kinds that run on the reference kernel on the "cpu" back end. Who writes a kernel for one of these takes its name out, and
// who adds a kind without one puts its name in.
// clang-format off
static const ckm_i_op_kind without_fast_kernel[] = {
    CKM_I_OP_selu, CKM_I_OP_celu, CKM_I_OP_softplus, CKM_I_OP_softsign, CKM_I_OP_thresholded_relu, CKM_I_OP_prelu,
    CKM_I_OP_lp_pool, CKM_I_OP_global_max_pool, CKM_I_OP_resize, CKM_I_OP_pow, CKM_I_OP_mod, CKM_I_OP_minimum,
    CKM_I_OP_maximum, CKM_I_OP_equal, CKM_I_OP_less, CKM_I_OP_less_or_equal, CKM_I_OP_greater,
    CKM_I_OP_greater_or_equal, CKM_I_OP_and, CKM_I_OP_or, CKM_I_OP_xor, CKM_I_OP_floor, CKM_I_OP_ceil, CKM_I_OP_round,
    CKM_I_OP_sign, CKM_I_OP_sin, CKM_I_OP_cos, CKM_I_OP_tan, CKM_I_OP_atan, CKM_I_OP_not, CKM_I_OP_is_nan,
    CKM_I_OP_where, CKM_I_OP_cast, CKM_I_OP_einsum, CKM_I_OP_reduce_max, CKM_I_OP_reduce_min, CKM_I_OP_reduce_prod,
    CKM_I_OP_reduce_l1, CKM_I_OP_reduce_l2, CKM_I_OP_reduce_sum_square, CKM_I_OP_reduce_log_sum,
    CKM_I_OP_reduce_log_sum_exp, CKM_I_OP_arg_max, CKM_I_OP_arg_min, CKM_I_OP_top_k, CKM_I_OP_group_norm,
    CKM_I_OP_local_response_norm, CKM_I_OP_lp_norm, CKM_I_OP_tile, CKM_I_OP_gather, CKM_I_OP_gather_elements,
    CKM_I_OP_gather_nd, CKM_I_OP_scatter_nd, CKM_I_OP_scatter_elements, CKM_I_OP_depth_to_space,
    CKM_I_OP_space_to_depth, CKM_I_OP_triangle, CKM_I_OP_cumulative_sum, CKM_I_OP_masked_softmax, CKM_I_OP_rms_norm,
    CKM_I_OP_rms_norm_backward, CKM_I_OP_roll, CKM_I_OP_rotary, CKM_I_OP_time_embedding, CKM_I_OP_window_bias,
    CKM_I_OP_window_bias_backward, CKM_I_OP_group_norm_backward, CKM_I_OP_local_response_norm_backward,
    CKM_I_OP_lp_norm_backward, CKM_I_OP_lp_pool_backward, CKM_I_OP_resize_backward,
    CKM_I_OP_thresholded_relu_backward, CKM_I_OP_selu_backward, CKM_I_OP_celu_backward, CKM_I_OP_softplus_backward,
    CKM_I_OP_softsign_backward, CKM_I_OP_tan_backward, CKM_I_OP_abs_backward, CKM_I_OP_sin_backward,
    CKM_I_OP_cos_backward, CKM_I_OP_atan_backward, CKM_I_OP_prelu_backward, CKM_I_OP_prelu_backward_slope,
    CKM_I_OP_div_backward_b, CKM_I_OP_pow_backward_a, CKM_I_OP_pow_backward_b, CKM_I_OP_select_backward,
    CKM_I_OP_extreme_backward, CKM_I_OP_reduce_max_backward, CKM_I_OP_reduce_min_backward,
    CKM_I_OP_reduce_prod_backward, CKM_I_OP_reduce_l2_backward, CKM_I_OP_reduce_log_sum_exp_backward,
    CKM_I_OP_reduce_l1_backward, CKM_I_OP_reduce_sum_square_backward, CKM_I_OP_reduce_log_sum_backward,
    CKM_I_OP_pad_backward, CKM_I_OP_slice_backward, CKM_I_OP_tile_backward, CKM_I_OP_gather_backward,
    CKM_I_OP_gather_elements_backward, CKM_I_OP_gather_nd_backward, CKM_I_OP_scatter_nd_backward,
    CKM_I_OP_scatter_elements_backward, CKM_I_OP_mse, CKM_I_OP_mse_backward, CKM_I_OP_gradient_sum,
    CKM_I_OP_batch_norm_apply, CKM_I_OP_gradient_send, CKM_I_OP_gradient_receive,
};
// clang-format on

static bool is_chosen(ckm_i_op_kind id)
{
    for (size_t i = 0; i < sizeof without_fast_kernel / sizeof without_fast_kernel[0]; i++) {
        if (without_fast_kernel[i] == id) {
            return true;
        }
    }
    return false;
}

static bool initialises(const ckm_i_op_class *c)
{
    bool any = c->init.every != CKM_I_INIT_UNSAID;
    for (int32_t i = 0; i < CKM_I_INIT_OPERANDS; i++) {
        any = any || c->init.of[i] != CKM_I_INIT_UNSAID;
    }
    return any;
}

// What a record leaves out or contradicts, or NULL.
static const char *fault_of_record(const ckm_i_op_class *c)
{
    const struct {
        bool wrong;
        const char *what;
    } rules[] = {
        {c->kind == NULL || c->id == CKM_I_OP_NO_KIND, "has no name or no number"},
        {c->infer == NULL, "has no shapes"},
        {c->work == CKM_I_WORK_UNSAID, "does not say what work it is"},
        {c->in_place == CKM_I_IN_PLACE_UNSAID, "does not say what it may be written over"},
        {c->hands_on == CKM_I_HANDS_ON_UNSAID, "does not say what becomes of its operand"},
        {(c->hands_on == CKM_I_HANDS_ON_BUFFER) != (c->work == CKM_I_WORK_VIEW), "is a view and work, or neither"},
        {c->indexed == CKM_I_INDEXED_UNSAID, "does not say whether it is indexed"},
        {c->repeat == CKM_I_REPEAT_UNSAID, "does not say whether it may run again"},
        {c->init.weight == CKM_I_WEIGHT_UNSAID, "does not say how its operands are initialised"},
        {(c->init.weight != CKM_I_WEIGHT_NONE) != initialises(c), "initialises operands, or none, but says otherwise"},
        {c->learning == CKM_I_LEARNING_UNSAID, "does not say how it stands to gradients"},
        {(c->learning == CKM_I_LEARNING_RULE) != (c->gradient != NULL),
         "has a gradient rule, or none, but says otherwise"},
        {c->learning == CKM_I_LEARNING_REWRITTEN && c->lower == NULL, "is written with other kinds, but by no rule"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong) {
            return rules[i].what;
        }
    }
    return NULL;
}

// What its kernels leave out.
static const char *fault_of_kernels(const ckm_i_op_class *c, bool reference, bool fast, bool chosen)
{
    if (c->learning == CKM_I_LEARNING_REWRITTEN) {  // step graphs have none; sum and mean are joined by their kernels
        return fast ? "has a fast kernel that is not used" : chosen ? "needs no fast kernel and is listed" : NULL;
    }
    if (!reference) {
        return "has no reference kernel";
    }
    if (c->hands_on == CKM_I_HANDS_ON_BUFFER) {  // a session computes no view
        return fast || chosen ? "is a view, which needs no fast kernel" : NULL;
    }
    return fast == chosen ? (fast ? "has a fast kernel and is listed as having none"
                                  : "has no fast kernel and is not listed as doing without")
                          : NULL;
}

static bool has_fast_kernel(ckm_i_op_kind id)
{
#define TABLE(group) ckm_i_cpu_##group,
    static const ckm_i_cpu_row *const tables[] = {CKM_I_CPU_GROUPS(TABLE)};
#undef TABLE
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const ckm_i_cpu_row *row = tables[i]; row->kind != CKM_I_OP_NO_KIND; row++) {
            if (row->kind == id) {
                return true;
            }
        }
    }
    return false;
}

static void every_kind_says_all(void **state)
{
    (void)state;
    int faults = 0;
    for (int i = CKM_I_OP_NO_KIND + 1; i < CKM_I_OP_KIND_COUNT; i++) {
        const ckm_i_op_class *c = ckm_i_op_class_find(kinds[i]);
        ckm_i_op_kind id = (ckm_i_op_kind)i;
        const char *fault = c == NULL || c->id != id ? "has no record" : fault_of_record(c);
        if (fault == NULL) {
            fault = fault_of_kernels(c, ckm_i_reference_find(id) != NULL, has_fast_kernel(id), is_chosen(id));
        }
        if (fault != NULL) {
            print_error("kind %s %s\n", kinds[i], fault);
            faults++;
        }
    }
    assert_int_equal(faults, 0);
}

static ckm_i_op_class copy_of(const char *kind)
{
    const ckm_i_op_class *c = ckm_i_op_class_find(kind);
    assert_non_null(c);
    return *c;
}

// A record of each sort with one thing taken out of it at a time.
static void omissions_are_found(void **state)
{
    (void)state;
    static const char *const sorts[] = {"conv", "relu", "floor", "gather", "reshape", "update_sgd", "max_pool"};
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
        ckm_i_op_class c = copy_of(sorts[i]);
        assert_null(fault_of_record(&c));
#define PLANT(member, nothing)                                           \
    do {                                                                 \
        c = copy_of(sorts[i]);                                           \
        c.member = nothing;                                              \
        if (fault_of_record(&c) == NULL) {                               \
            fail_msg("%s without " #member " is not noticed", sorts[i]); \
        }                                                                \
    } while (0)
        PLANT(kind, NULL);
        PLANT(id, CKM_I_OP_NO_KIND);
        PLANT(infer, NULL);
        PLANT(work, CKM_I_WORK_UNSAID);
        PLANT(in_place, CKM_I_IN_PLACE_UNSAID);
        PLANT(hands_on, CKM_I_HANDS_ON_UNSAID);
        PLANT(indexed, CKM_I_INDEXED_UNSAID);
        PLANT(repeat, CKM_I_REPEAT_UNSAID);
        PLANT(init.weight, CKM_I_WEIGHT_UNSAID);
        PLANT(learning, CKM_I_LEARNING_UNSAID);
    }
    ckm_i_op_class c = copy_of("conv");
    c.gradient = NULL;
    assert_non_null(fault_of_record(&c));
    c = copy_of("conv");
    c.init.of[1] = CKM_I_INIT_UNSAID;
    assert_non_null(fault_of_record(&c));
    c = copy_of("max_pool");
    c.lower = NULL;
    assert_non_null(fault_of_record(&c));
    c = copy_of("reshape");
    c.work = CKM_I_WORK_ELEMENTS;
    assert_non_null(fault_of_record(&c));
}

static void missing_kernels_are_found(void **state)
{
    (void)state;
    const ckm_i_op_class conv = copy_of("conv");
    const ckm_i_op_class view = copy_of("reshape");
    const ckm_i_op_class rewritten = copy_of("max_pool");
    assert_null(fault_of_kernels(&conv, true, true, false));
    assert_null(fault_of_kernels(&conv, true, false, true));
    assert_non_null(fault_of_kernels(&conv, false, true, false));  // no reference
    assert_non_null(fault_of_kernels(&conv, true, false, false));  // not fast, and not on the list
    assert_non_null(fault_of_kernels(&conv, true, true, true));    // fast since
    assert_null(fault_of_kernels(&view, true, false, false));
    assert_non_null(fault_of_kernels(&view, false, false, false));
    assert_non_null(fault_of_kernels(&view, true, true, false));
    assert_null(fault_of_kernels(&rewritten, false, false, false));
    assert_non_null(fault_of_kernels(&rewritten, false, true, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_says_all),
        cmocka_unit_test(omissions_are_found),
        cmocka_unit_test(missing_kernels_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
