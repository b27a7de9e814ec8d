// SPDX-License-Identifier: Apache-2.0
// The engines behind one interface, on programs whose answers are known, and the safe bound.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "milp/milp.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static const ckm_i_milp_options defaults = {.seconds = 30.0, .cutoff = INFINITY, .threads = 1, .enough = INFINITY};

// Knapsack: maximise 5a + 4b + 3c (as a minimum) with 2a + 3b + c <= 5, 4a + b + 2c <= 11, 3a + 4b + 2c <= 8.
// LP optimum 13 at (2, 0, 1) when a may go to 2 (Chvatal, Linear Programming, chapter 1).
static void build_chvatal(ckm_i_milp *m, bool integer, double upper)
{
    static const double rows[3][4] = {{2, 3, 1, 5}, {4, 1, 2, 11}, {3, 4, 2, 8}};
    static const double profit[3] = {5, 4, 3};
    ckm_i_milp_init(m);
    for (int j = 0; j < 3; j++) {
        ckm_i_milp_add_col(m, -profit[j], 0.0, upper, integer);
    }
    for (int i = 0; i < 3; i++) {
        ckm_i_milp_add_row(m, -INFINITY, rows[i][3]);
        for (int j = 0; j < 3; j++) {
            ckm_i_milp_put(m, j, rows[i][j]);
        }
    }
}

static void relaxation_is_solved_and_its_bound_is_safe(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    build_chvatal(&m, false, 10.0);
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
    assert_near(result.objective, -13.0, 1e-6);
    assert_near(result.x[0], 2.0, 1e-6);
    assert_near(result.x[2], 1.0, 1e-6);
    double bound = ckm_i_milp_safe_bound(&m, result.row_dual);
    assert_true(bound <= -13.0);
    assert_near(bound, -13.0, 1e-6);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

// Many of them that share a row: the first of each, 2 where it is free, is 1 on average. The best of one with the first at 1 is
// 12.5, at (1, 0, 2.5), and concave in it, so the optimum is so much each, in very many ways. Costs of programs of this size
// are changed while the engine is at work: the answer must be that of the costs as they are.
static void many_equal_blocks_have_the_optimum_of_one_each(void **state)
{
    (void)state;
    enum { blocks = 7000 };
    ckm_i_milp m, one;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    build_chvatal(&one, false, 10.0);
    ckm_i_milp_init(&m);
    for (int k = 0; k < blocks; k++) {
        for (int j = 0; j < 3; j++) {
            ckm_i_milp_add_col(&m, one.obj[j], 0.0, 10.0, false);
        }
        for (int i = 0; i < 3; i++) {
            ckm_i_milp_add_row(&m, -INFINITY, one.row_upper[i]);
            for (int j = 0; j < 3; j++) {
                ckm_i_milp_put(&m, 3 * k + j, one.entry_value[3 * i + j]);
            }
        }
    }
    ckm_i_milp_add_row(&m, -INFINITY, blocks);
    for (int k = 0; k < blocks; k++) {
        ckm_i_milp_put(&m, 3 * k, 1.0);
    }
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
    assert_near(result.objective, -12.5 * (double)blocks, 1e-4);
    double objective = 0.0;
    for (int j = 0; j < 3 * blocks; j++) {
        objective += m.obj[j] * result.x[j];
    }
    assert_near(objective, -12.5 * (double)blocks, 1e-4);
    double bound = ckm_i_milp_safe_bound(&m, result.row_dual);
    assert_true(bound <= -12.5 * (double)blocks);
    assert_near(bound, -12.5 * (double)blocks, 1e-3);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&one);
    ckm_i_milp_dispose(&m);
}

static void any_multipliers_give_a_valid_bound(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_rng rng = {42};
    build_chvatal(&m, false, 10.0);
    for (int trial = 0; trial < 10000; trial++) {
        double y[3];
        for (int i = 0; i < 3; i++) {
            y[i] = ckm_i_rng_unit(&rng) * 6.0 - 5.0;  // both signs: positive ones call for a missing lower bound
        }
        assert_true(ckm_i_milp_safe_bound(&m, y) <= -13.0);
    }
    ckm_i_milp_dispose(&m);
}

// Cuts x + y <= 1 off where it is exceeded, once.
static void cut_the_corner(const void *context, const double *x, ckm_i_milp *m)
{
    (void)context;
    if (x[0] + x[1] > 1.0 + 1e-6) {
        ckm_i_milp_add_row(m, -INFINITY, 1.0);
        ckm_i_milp_put(m, 0, 1.0);
        ckm_i_milp_put(m, 1, 1.0);
    }
}

static void cuts_tighten_the_relaxation(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    ckm_i_milp_init(&m);
    for (int j = 0; j < 2; j++) {
        ckm_i_milp_add_col(&m, -1.0, 0.0, 1.0, true);
    }
    ckm_i_milp_add_row(&m, -INFINITY, 1.5);
    ckm_i_milp_put(&m, 0, 1.0);
    ckm_i_milp_put(&m, 1, 1.0);
    options.separate = cut_the_corner;
    options.enough = INFINITY;
    for (int relax = 0; relax < 2; relax++) {
        options.relax = relax == 1;
        ckm_i_milp_job *job = NULL;
        assert_int_equal(ckm_i_milp_start(&m, &options, &job, NULL), CKM_OK);
        assert_int_equal(ckm_i_milp_finish(job, &result, NULL), CKM_OK);
        assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
        assert_near(result.proven, -1.0, 1e-6);
        assert_near(result.objective, -1.0, 1e-6);
        assert_int_equal(m.n_rows, 1);
        ckm_i_milp_result_dispose(&result);
    }
    options.relax = true;
    options.enough = -1.5;  // reached without cuts, up to what the safe bound takes off
    options.enough -= 1e-6;
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_near(result.proven, -1.5, 1e-6);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

static void infeasibility_is_proven_by_a_ray(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    ckm_i_milp_init(&m);
    for (int j = 0; j < 2; j++) {
        ckm_i_milp_add_col(&m, 1.0, 0.0, 1.0, false);
    }
    static const double sides[2][2] = {{1.5, INFINITY}, {-INFINITY, 1.25}};  // 1.5 <= x + y and x + y <= 1.25
    for (int i = 0; i < 2; i++) {
        ckm_i_milp_add_row(&m, sides[i][0], sides[i][1]);
        ckm_i_milp_put(&m, 0, 1.0);
        ckm_i_milp_put(&m, 1, 1.0);
    }
    static const double right[2] = {1.0, -1.0};
    static const double wrong[2] = {1.0, 1.0};
    assert_true(ckm_i_milp_proves_infeasible(&m, right));
    assert_false(ckm_i_milp_proves_infeasible(&m, wrong));
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_I_MILP_INFEASIBLE);
    assert_true(result.proven == INFINITY);
    ckm_i_milp_result_dispose(&result);
    m.row_upper[1] = 1.5;
    assert_false(ckm_i_milp_proves_infeasible(&m, right));
    ckm_i_milp_dispose(&m);
}

static void abandoned_jobs_end(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_job *job = NULL;
    build_chvatal(&m, true, 10.0);
    assert_int_equal(ckm_i_milp_start(&m, &defaults, &job, NULL), CKM_OK);
    ckm_i_milp_abandon(job);
    ckm_i_milp_abandon(NULL);
    ckm_i_milp_dispose(&m);
}

static void free_columns_have_no_safe_bound(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_init(&m);
    ckm_i_milp_add_col(&m, 1.0, -INFINITY, INFINITY, false);
    ckm_i_milp_add_row(&m, 1.0, INFINITY);
    ckm_i_milp_put(&m, 0, 1.0);
    double y = 0.5;
    assert_true(ckm_i_milp_safe_bound(&m, &y) == -INFINITY);
    ckm_i_milp_dispose(&m);
}

static void integer_program_is_solved(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    build_chvatal(&m, true, 1.0);  // binaries: a + c = 8 is best (a and b break the first row with c)
    assert_int_equal(ckm_i_milp_solve(&m, &defaults, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
    double best = 0.0;
    for (int bits = 0; bits < 8; bits++) {
        double a = bits & 1, b = bits >> 1 & 1, c = bits >> 2 & 1;
        if (2 * a + 3 * b + c <= 5 && 4 * a + b + 2 * c <= 11 && 3 * a + 4 * b + 2 * c <= 8) {
            best = fmin(best, -5 * a - 4 * b - 3 * c);
        }
    }
    assert_near(result.objective, best, 1e-6);
    assert_near(result.proven, best, 1e-6);
    assert_true(result.proven <= best);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

static void infeasibility_is_reported(void **state)
{
    (void)state;
    for (int integer = 0; integer <= 1; integer++) {
        ckm_i_milp m;
        ckm_i_milp_result result;
        ckm_i_milp_options options = defaults;
        options.relax = integer == 0;
        ckm_i_milp_init(&m);
        ckm_i_milp_add_col(&m, 1.0, 0.0, 1.0, integer == 1);
        ckm_i_milp_add_col(&m, 1.0, 0.0, 1.0, integer == 1);
        ckm_i_milp_add_row(&m, 3.0, INFINITY);
        ckm_i_milp_put(&m, 0, 1.0);
        ckm_i_milp_put(&m, 1, 1.0);
        assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
        assert_int_equal(result.status, CKM_I_MILP_INFEASIBLE);
        assert_null(result.x);
        ckm_i_milp_result_dispose(&result);
        ckm_i_milp_dispose(&m);
    }
}

static void repeated_entries_are_summed(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    ckm_i_milp_init(&m);
    for (int j = 0; j < 20; j++) {
        ckm_i_milp_add_col(&m, j == 0 ? -1.0 : 0.0, 0.0, 1.0, false);
    }
    // Column 0 comes twice, far apart: 2 x0 + sum of others <= 1, so x0 <= 1/2.
    ckm_i_milp_add_row(&m, -INFINITY, 1.0);
    for (int j = 0; j < 20; j++) {
        ckm_i_milp_put(&m, j, 1.0);
    }
    ckm_i_milp_put(&m, 0, 1.0);
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_near(result.objective, -0.5, 1e-7);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

// A subset-sum equality that keeps a branch-and-bound busy for ages.
static void build_hard(ckm_i_milp *m)
{
    ckm_i_rng rng = {7};
    enum { n = 40 };
    ckm_i_milp_init(m);
    for (int j = 0; j < n; j++) {
        ckm_i_milp_add_col(m, 1.0, 0.0, 1.0, true);
    }
    for (int i = 0; i < 6; i++) {
        double total = 0.0;
        int32_t row = ckm_i_milp_add_row(m, 0.0, 0.0);
        for (int j = 0; j < n; j++) {
            double weight = 1.0 + ckm_i_rng_below(&rng, 99);
            total += weight;
            ckm_i_milp_put(m, j, weight);
        }
        m->row_lower[row] = m->row_upper[row] = floor(total / 2.0);
    }
}

static bool stop_now(void *user)
{
    (void)user;
    return true;
}

static void stop_and_time_limit_end_it(void **state)
{
    (void)state;
    for (int by_stop = 0; by_stop <= 1; by_stop++) {
        ckm_i_milp m;
        ckm_i_milp_result result;
        ckm_i_milp_options options = defaults;
        options.seconds = by_stop ? 600.0 : 0.2;
        options.stop = by_stop ? stop_now : NULL;
        build_hard(&m);
        double start = ckm_i_clock_seconds();
        assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
        assert_true(ckm_i_clock_seconds() - start < 60.0);  // minutes without the limit
        assert_int_not_equal(result.status, CKM_I_MILP_INFEASIBLE);
        ckm_i_milp_result_dispose(&result);
        ckm_i_milp_dispose(&m);
    }
}

// a + b + c <= side, of which a and b alone exceed it by a hair.
static void build_hair(ckm_i_milp *m)
{
    static const double sizes[3] = {5000.0, 5000.000001, 2000.0};
    ckm_i_milp_init(m);
    ckm_i_milp_add_col(m, -3.0, 0.0, 1.0, true);
    ckm_i_milp_add_col(m, -2.0, 0.0, 1.0, true);
    ckm_i_milp_add_col(m, -1.0, 0.0, 1.0, true);
    ckm_i_milp_add_row(m, -INFINITY, 10000.0);
    for (int j = 0; j < 3; j++) {
        ckm_i_milp_put(m, j, sizes[j]);
    }
}

static void what_exceeds_a_row_by_a_hair_is_cut_off(void **state)
{
    (void)state;
    static const double both[3] = {1.0, 1.0, 0.0};
    static const double fits[3] = {1.0, 0.0, 1.0};
    static const double half[3] = {1.0, 0.5, 1.0};
    ckm_i_milp m;
    build_hair(&m);
    assert_int_equal(ckm_i_milp_cut_off(&m, fits), 0);
    assert_int_equal(ckm_i_milp_cut_off(&m, half), 0);
    assert_int_equal(ckm_i_milp_cut_off(&m, both), 1);
    assert_int_equal(m.n_rows, 2);
    assert_true(m.row_upper[1] == 1.0);  // a + b <= 1
    assert_int_equal(m.n_entries - m.row_start[1], 2);
    ckm_i_milp_dispose(&m);
    // A negative coefficient counts where its column is not there: 5000 - 4000 b <= 4999 needs b.
    ckm_i_milp_init(&m);
    ckm_i_milp_add_col(&m, 0.0, 0.0, 1.0, true);
    ckm_i_milp_add_col(&m, 0.0, 0.0, 1.0, true);
    ckm_i_milp_add_row(&m, -INFINITY, 4999.0);
    ckm_i_milp_put(&m, 0, 5000.0);
    ckm_i_milp_put(&m, 1, -4000.0);
    static const double without[2] = {1.0, 0.0};
    assert_int_equal(ckm_i_milp_cut_off(&m, without), 1);
    assert_true(m.entry_value[2] * m.entry_value[3] == -1.0);
    assert_true(m.row_upper[1] == 0.0);  // a - b <= 0
    ckm_i_milp_dispose(&m);
}

static void widened_rows_keep_the_optimum(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.widen_rows = true;
    build_hair(&m);
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
    assert_near(result.objective, -4.0, 1e-6);  // a and c
    assert_true(result.x[1] < 0.5);
    assert_near(result.proven, -4.0, 1e-6);
    ckm_i_milp_result_dispose(&result);
    // To the byte: a and b take what there is, which widening must not change.
    m.row_upper[0] = 10000.000001;
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_near(result.objective, -5.0, 1e-6);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

// At least so much is to be had of six things that are there or not, two and two at the same price, as cheaply as possible.
typedef struct shopping {
    ckm_i_milp m;
    double optimum, relaxed;
    int32_t first_whole, n_whole;
} shopping;

static void make_shopping(ckm_i_rng *rng, shopping *s)
{
    enum { things = 6 };
    double cost[things], size[things], all = 0.0;
    ckm_i_milp_init(&s->m);
    for (int j = 0; j < things; j++) {
        cost[j] = j % 2 == 1 ? cost[j - 1] : 1.0 + ckm_i_rng_below(rng, 9);
        size[j] = 1.0 + ckm_i_rng_below(rng, 20);
        all += size[j];
        ckm_i_milp_add_col(&s->m, cost[j], 0.0, 1.0, false);
    }
    double wanted = 1.0 + ckm_i_rng_below(rng, (uint32_t)all);
    ckm_i_milp_add_row(&s->m, wanted, INFINITY);
    for (int j = 0; j < things; j++) {
        ckm_i_milp_put(&s->m, j, size[j]);
    }
    s->first_whole = s->m.n_rows;
    for (int j = 0; j < things; j++) {
        ckm_i_milp_add_row(&s->m, -INFINITY, INFINITY);
        ckm_i_milp_put(&s->m, j, 1.0);
        if (j % 2 == 1) {
            ckm_i_milp_add_row(&s->m, -INFINITY, INFINITY);
            ckm_i_milp_put(&s->m, j - 1, 1.0);
            ckm_i_milp_put(&s->m, j, 1.0);
        }
    }
    s->n_whole = s->m.n_rows - s->first_whole;
    s->optimum = INFINITY;
    for (int chosen = 0; chosen < 1 << things; chosen++) {
        double has = 0.0, costs = 0.0;
        for (int j = 0; j < things; j++) {
            has += (chosen >> j & 1) != 0 ? size[j] : 0.0;
            costs += (chosen >> j & 1) != 0 ? cost[j] : 0.0;
        }
        s->optimum = has >= wanted ? fmin(s->optimum, costs) : s->optimum;
    }
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    assert_int_equal(ckm_i_milp_solve(&s->m, &options, &result, NULL), CKM_OK);
    s->relaxed = result.proven;
    ckm_i_milp_result_dispose(&result);
}

static double branch_on(shopping *s, double known, double enough)
{
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    options.relax = true;
    options.first_whole = s->first_whole;
    options.n_whole = s->n_whole;
    options.known = known;
    options.enough = enough;
    assert_int_equal(ckm_i_milp_solve(&s->m, &options, &result, NULL), CKM_OK);
    assert_true(result.status != CKM_I_MILP_INFEASIBLE);
    assert_null(result.row_dual);  // of a node, they would prove nothing of the program
    double proven = result.proven;
    ckm_i_milp_result_dispose(&result);
    return proven;
}

static void branching_on_rows_proves_what_whole_numbers_cost(void **state)
{
    (void)state;
    enum { rounds = 200 };
    ckm_i_rng rng = {7};
    int fractional = 0;
    int reached = 0;
    for (int round = 0; round < rounds; round++) {
        shopping s;
        make_shopping(&rng, &s);
        if (s.optimum > s.relaxed + 1e-3) {
            fractional++;
            double proven = branch_on(&s, s.relaxed, s.optimum + 1.0);
            assert_true(proven > s.relaxed - 1e-9 && proven < s.optimum + 1e-6);
            reached += proven > s.optimum - 1e-6;
            // As far as is asked for, at least.
            double half = 0.5 * (s.relaxed + s.optimum);
            proven = branch_on(&s, s.relaxed, half);
            assert_true(proven > half - 1e-6 && proven < s.optimum + 1e-6);
        }
        ckm_i_milp_dispose(&s.m);
    }
    printf("%d of %d optima proven\n", reached, fractional);
    assert_true(fractional > rounds / 2 && reached > fractional / 2);
}

// Integer programs: at most and at least so much of ten things that are there or not, in large and uneven sizes, against all
// choices. What is proven is the optimum, or that there is none, whatever the engine says.
static void the_tree_proves_integer_programs(void **state)
{
    (void)state;
    enum { rounds = 150, things = 10, rows = 4 };
    ckm_i_rng rng = {11};
    int refuted = 0;
    for (int round = 0; round < rounds; round++) {
        ckm_i_milp m;
        ckm_i_milp_result result;
        double size[rows][things], side[rows], cost[things];
        ckm_i_milp_init(&m);
        for (int j = 0; j < things; j++) {
            cost[j] = (double)ckm_i_rng_below(&rng, 19) - 9.0;
            ckm_i_milp_add_col(&m, cost[j], 0.0, 1.0, true);
        }
        for (int i = 0; i < rows; i++) {
            double all = 0.0;
            for (int j = 0; j < things; j++) {
                size[i][j] = (double)ckm_i_rng_below(&rng, 1000000) * 0.125;
                all += size[i][j];
            }
            side[i] = all * (0.2 + 0.5 * ckm_i_rng_unit(&rng));
            ckm_i_milp_add_row(&m, i % 2 == 0 ? -INFINITY : side[i], i % 2 == 0 ? side[i] : INFINITY);
            for (int j = 0; j < things; j++) {
                ckm_i_milp_put(&m, j, size[i][j]);
            }
        }
        double best = INFINITY;
        for (int chosen = 0; chosen < 1 << things; chosen++) {
            double total = 0.0;
            bool fits = true;
            for (int i = 0; i < rows; i++) {
                double sum = 0.0;
                for (int j = 0; j < things; j++) {
                    sum += (chosen >> j & 1) != 0 ? size[i][j] : 0.0;
                }
                fits = fits && (i % 2 == 0 ? sum <= side[i] : sum >= side[i]);
            }
            for (int j = 0; j < things; j++) {
                total += (chosen >> j & 1) != 0 ? cost[j] : 0.0;
            }
            best = fits ? fmin(best, total) : best;
        }
        assert_int_equal(ckm_i_milp_solve(&m, &defaults, &result, NULL), CKM_OK);
        if (best == INFINITY) {
            refuted++;
            assert_int_equal(result.status, CKM_I_MILP_INFEASIBLE);
            assert_true(result.proven == INFINITY && result.x == NULL);
        } else {
            assert_int_equal(result.status, CKM_I_MILP_OPTIMAL);
            assert_near(result.objective, best, 1e-6);
            assert_true(result.proven <= best && result.proven > best - 1e-5);
        }
        ckm_i_milp_result_dispose(&result);
        ckm_i_milp_dispose(&m);
    }
    assert_true(refuted > 5 && refuted < rounds / 2);
}

static void no_whole_number_is_proven_infeasible(void **state)
{
    (void)state;
    ckm_i_milp m;
    ckm_i_milp_result result;
    ckm_i_milp_options options = defaults;
    ckm_i_milp_init(&m);
    for (int j = 0; j < 2; j++) {
        ckm_i_milp_add_col(&m, 1.0, 0.0, 1.0, false);
    }
    ckm_i_milp_add_row(&m, 1.2, 1.4);
    ckm_i_milp_put(&m, 0, 1.0);
    ckm_i_milp_put(&m, 1, 1.0);
    options.relax = true;
    options.first_whole = 0;
    options.n_whole = 1;
    options.known = 1.2;
    options.enough = 10.0;
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_true(result.proven == INFINITY && result.x == NULL);
    ckm_i_milp_result_dispose(&result);
    // A caller that knows less does not ask for it: cutting planes, and there are none, have closed a good deal.
    options.known = 0.0;
    assert_int_equal(ckm_i_milp_solve(&m, &options, &result, NULL), CKM_OK);
    assert_near(result.proven, 1.2, 1e-6);
    ckm_i_milp_result_dispose(&result);
    ckm_i_milp_dispose(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relaxation_is_solved_and_its_bound_is_safe),
        cmocka_unit_test(many_equal_blocks_have_the_optimum_of_one_each),
        cmocka_unit_test(any_multipliers_give_a_valid_bound),
        cmocka_unit_test(free_columns_have_no_safe_bound),
        cmocka_unit_test(cuts_tighten_the_relaxation),
        cmocka_unit_test(infeasibility_is_proven_by_a_ray),
        cmocka_unit_test(abandoned_jobs_end),
        cmocka_unit_test(integer_program_is_solved),
        cmocka_unit_test(infeasibility_is_reported),
        cmocka_unit_test(repeated_entries_are_summed),
        cmocka_unit_test(what_exceeds_a_row_by_a_hair_is_cut_off),
        cmocka_unit_test(widened_rows_keep_the_optimum),
        cmocka_unit_test(stop_and_time_limit_end_it),
        cmocka_unit_test(branching_on_rows_proves_what_whole_numbers_cost),
        cmocka_unit_test(the_tree_proves_integer_programs),
        cmocka_unit_test(no_whole_number_is_proven_infeasible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
