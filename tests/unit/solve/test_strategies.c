// SPDX-License-Identifier: Apache-2.0
// The registry, and what the strategies that need no time answer on fixed graphs: they follow rules without chance, so that any change
// of an answer is a change of a rule. After an intended one, the message of the failed check has the new line of the table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/solve.h>

#include "base/rng.h"
#include "layer_graph.h"

enum { GRAPHS = 60, MOST_LAYERS = 24 };

typedef struct answers {
    const char *strategy;
    int64_t found, cost, peak_bytes;  // sums over graphs and budgets
} answers;

// Without a limit on the time: these end by themselves.
static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = CKM_NONE;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s: %s", strategy, err.message);
    }
    return result;
}

// Networks of all shapes: layers read the one before, and up to two earlier ones.
static ckm_dataflow *network(ckm_i_rng *rng)
{
    layer_spec layers[MOST_LAYERS];
    int32_t n = 4 + (int32_t)ckm_i_rng_below(rng, MOST_LAYERS - 3);
    uint32_t branching = ckm_i_rng_below(rng, 50);
    for (int32_t j = 0; j < n; j++) {
        layers[j] = (layer_spec){.cost = ckm_i_rng_below(rng, 30),
                                 .bytes = ckm_i_rng_below(rng, 40),
                                 .n_operands = j > 0,
                                 .operands = {j - 1}};
        for (int32_t k = 0; k < 2 && j > 1; k++) {
            int32_t other = (int32_t)ckm_i_rng_below(rng, (uint32_t)j - 1);
            bool again = layers[j].n_operands > 1 && layers[j].operands[1] == other;
            if (ckm_i_rng_below(rng, 100) < branching && !again) {
                layers[j].operands[layers[j].n_operands++] = other;
            }
        }
    }
    return layer_graph_build(layers, n, ckm_i_rng_below(rng, 20), 1, true);
}

static void add(answers *sum, const ckm_dataflow *df, int64_t budget_bytes)
{
    ckm_solve_result result = solve(df, sum->strategy, budget_bytes);
    if (result.schedule != NULL) {
        sum->found++;
        sum->cost += result.cost;
        sum->peak_bytes += result.peak_bytes;
    }
    ckm_solve_result_dispose(&result);
}

static void answers_stay(void **state)
{
    (void)state;
    static const answers known[] = {
        {"checkpoint-all", 18, 4908, 3859},
        {"checkpoint-all-ap", 17, 5825, 3639},
        {"checkpoint-last", 91, 212700, 17590},
        {"chen-sqrt", 130, 117324, 34873},
        {"chen-sqrt-ap", 48, 24121, 10330},
        {"chen-greedy", 141, 108525, 41324},
        {"chen-greedy-ap", 62, 31434, 14785},
        {"griewank", 139, 84728, 36109},
        {"dtr", 232, 142396, 63173},
        {"chain", 136, 70904, 36694},
    };
    int n_changed = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ckm_i_rng rng = {.state = 11};
        answers sum = {.strategy = known[i].strategy};
        for (int32_t round = 0; round < GRAPHS; round++) {
            ckm_dataflow *df = network(&rng);
            ckm_solve_result plain = solve(df, "checkpoint-all", INT64_MAX);
            int64_t room = plain.baseline_peak_bytes - plain.floor_bytes;
            for (int32_t part = 1; part <= 4; part++) {
                add(&sum, df, plain.floor_bytes + room * part / 4);
            }
            ckm_solve_result_dispose(&plain);
            ckm_dataflow_free(df);
        }
        if (memcmp(&sum.found, &known[i].found, 3 * sizeof sum.found) != 0) {
            print_error("{\"%s\", %lld, %lld, %lld},\n", sum.strategy, (long long)sum.found, (long long)sum.cost,
                        (long long)sum.peak_bytes);
            n_changed++;
        }
    }
    assert_int_equal(n_changed, 0);
}

// Graphs that are too large for matrices take other ways: lists of spans, and slots by bisection.
static void answers_on_a_large_chain_stay(void **state)
{
    (void)state;
    enum { LARGE = 4200 };
    static const struct {
        const char *strategy;
        int64_t budget_bytes, cost, peak_bytes;
    } known[] = {{"griewank", 40, 20223, 40},
                 {"griewank", 300, 16503, 300},
                 {"chen-greedy", 600, 16460, 399},
                 {"chen-sqrt", 600, 16695, 131},
                 {"checkpoint-all", 5000, 12600, 4202}};
    layer_spec *layers = test_calloc(LARGE, sizeof *layers);
    int n_changed = 0;
    for (int32_t j = 0; j < LARGE; j++) {
        layers[j] = (layer_spec){.cost = 1, .bytes = 1, .n_operands = j > 0, .operands = {j - 1}};
    }
    ckm_dataflow *df = layer_graph_build(layers, LARGE, 0, 1, true);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ckm_solve_result result = solve(df, known[i].strategy, known[i].budget_bytes);
        if (result.cost != known[i].cost || result.peak_bytes != known[i].peak_bytes) {
            print_error("{\"%s\", %lld, %lld, %lld},\n", known[i].strategy, (long long)known[i].budget_bytes,
                        (long long)result.cost, (long long)result.peak_bytes);
            n_changed++;
        }
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
    test_free(layers);
    assert_int_equal(n_changed, 0);
}

static void traits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_published, only_bounds, has_formulations;
    } known[] = {
        {"auto", false, false, false},           {"ilp", false, false, true},
        {"lp-bound", false, true, true},         {"stage-bound", false, true, false},
        {"stage-program", false, false, false},  {"lp-round", false, false, false},
        {"lp-random", false, false, false},      {"local-search", false, false, false},
        {"checkpoint-all", true, false, false},  {"checkpoint-all-ap", true, false, false},
        {"checkpoint-last", true, false, false}, {"chen-sqrt", true, false, false},
        {"chen-sqrt-ap", true, false, false},    {"chen-greedy", true, false, false},
        {"chen-greedy-ap", true, false, false},  {"griewank", true, false, false},
        {"chain", false, false, false},          {"dtr", false, false, false},
    };
    // Those that are numbered so; new ones come behind them.
    enum { N_KNOWN = sizeof known / sizeof known[0] };
    const int32_t n = ckm_solve_strategy_count();
    assert_true(n >= N_KNOWN);
    for (int32_t i = 0; i < N_KNOWN; i++) {
        assert_string_equal(ckm_solve_strategy_name(i), known[i].name);
        assert_int_equal(ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED), known[i].is_published);
        assert_int_equal(ckm_solve_strategy_has(i, CKM_STRATEGY_ONLY_BOUNDS), known[i].only_bounds);
        assert_int_equal(ckm_solve_strategy_has(i, CKM_STRATEGY_FORMULATIONS), known[i].has_formulations);
    }
    for (int32_t i = 0; i < n; i++) {
        assert_true(strlen(ckm_solve_strategy_summary(i)) > 0);
    }
    for (int32_t i = -1; i <= n; i += n + 1) {
        assert_null(ckm_solve_strategy_name(i));
        assert_null(ckm_solve_strategy_summary(i));
        assert_false(ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_stay),
        cmocka_unit_test(answers_on_a_large_chain_stay),
        cmocka_unit_test(traits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
