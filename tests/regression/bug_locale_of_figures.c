// SPDX-License-Identifier: Apache-2.0
// Figures, the page and plans written by a program whose locale has a decimal comma: gnuplot read "3,5" as two numbers
// and drew something else, or failed.
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>
#include <checkmate/emit.h>
#include <checkmate/plan.h>

#include "point_locale.h"
#include "scratch.h"

enum { MOST = 1 << 20 };

static char *contents(const char *path)
{
    char *text = malloc(MOST);
    assert_non_null(text);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, MOST - 1, file);
    assert_int_equal(fclose(file), 0);
    text[n] = '\0';
    return text;
}

typedef struct sample {
    ckm_dataflow *df;
    ckm_schedule *schedule;
    ckm_emit_facts *facts;
    ckm_plan *plan;
} sample;

static void write_all(const sample *s, const char *prefix)
{
    static const char log[] =
        "{\"step\": 0, \"epoch\": 0, \"loss\": 2.5, \"mean_loss\": 2.5, \"accuracy\": 0.5}\n"
        "{\"step\": 1, \"epoch\": 0, \"loss\": 1.25, \"mean_loss\": 1.875, \"accuracy\": 0.625}\n";
    char path[64];
    const ckm_emit_progress points[] = {{0.1, 0.5, 0.05}, {1.5, 0.25, 0.125}};
    const ckm_emit_sweep_row rows[] = {{1500, 0.25, 0.125, CKM_BOUND_ORDER}, {2500, 20.5, 0.05, CKM_BOUND_ANY}};
    const ckm_emit_sweep_curve curves[] = {{"a", true, 2, rows}};
    for (int32_t i = 0; i < ckm_emit_figure_count(); i++) {
        snprintf(path, sizeof path, "%s-%d.svg", prefix, (int)i);
        assert_int_equal(ckm_emit_figure(s->facts, ckm_emit_figure_name(i), path, NULL), CKM_OK);
    }
    FILE *file = fopen("run.jsonl", "w");
    assert_non_null(file);
    assert_int_equal(fwrite(log, 1, sizeof log - 1, file), sizeof log - 1);
    assert_int_equal(fclose(file), 0);
    snprintf(path, sizeof path, "%s-training.svg", prefix);
    assert_int_equal(ckm_emit_training_figure("run.jsonl", path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s-course.svg", prefix);
    assert_int_equal(ckm_emit_course_figure("course", points, 2, CKM_BOUND_ANY, path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s-sweep.svg", prefix);
    assert_int_equal(ckm_emit_sweep_figure("sweep", curves, 1, path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s.dot", prefix);
    assert_int_equal(ckm_emit_dot(s->df, path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s.html", prefix);
    assert_int_equal(ckm_emit_page(s->facts, "g.json", "s.json", path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s-plan.csv", prefix);
    assert_int_equal(ckm_plan_write(s->df, s->plan, path, NULL), CKM_OK);
    snprintf(path, sizeof path, "%s-plan.json", prefix);
    assert_int_equal(ckm_plan_write(s->df, s->plan, path, NULL), CKM_OK);
}

static void test_same_files(void **state)
{
    static const char *const names[] = {"-0.svg",     "-1.svg", "-2.svg", "-3.svg",    "-training.svg", "-course.svg",
                                        "-sweep.svg", ".dot",   ".html",  "-plan.csv", "-plan.json"};
    (void)state;
    if (system("command -v dot > /dev/null && command -v gnuplot > /dev/null") != 0) {
        print_message("SKIP: dot or gnuplot is not installed\n");
        skip();
    }
    scratch_stay stay;
    scratch_enter(&stay);
    sample s = {NULL, NULL, NULL, NULL};
    ckm_graph *network = NULL;
    ckm_training *training = NULL;
    const ckm_cost_model costs = CKM_COST_MODEL_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    const ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    assert_int_equal(ckm_zoo_build("linear3", 3, NULL, &network, NULL), CKM_OK);
    assert_int_equal(ckm_autodiff_layer_graph(network, &training, NULL), CKM_OK);
    assert_int_equal(ckm_cost_apply(training, &costs, &s.df, NULL), CKM_OK);
    options.strategy = "griewank";
    options.budget_bytes = INT64_C(1) << 40;
    assert_int_equal(ckm_solve(s.df, &options, &result, NULL), CKM_OK);
    assert_non_null(result.schedule);
    assert_int_equal(ckm_emit_facts_create(s.df, result.schedule, &s.facts, NULL), CKM_OK);
    assert_int_equal(ckm_plan_create(s.df, result.schedule, &planning, &s.plan, NULL), CKM_OK);
    write_all(&s, "point");
    static const char *const points[] = {POINT_COMMA, POINT_PASHTO};
    bool there = true;
    for (size_t k = 0; k < sizeof points / sizeof points[0] && there; k++) {
        there = point_locale(stay.folder, points[k]);
        if (!there) {
            break;
        }
        write_all(&s, "comma");
        assert_non_null(setlocale(LC_NUMERIC, "C"));
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            char path[64];
            snprintf(path, sizeof path, "point%s", names[i]);
            char *expected = contents(path);
            snprintf(path, sizeof path, "comma%s", names[i]);
            char *got = contents(path);
            if (strcmp(expected, got) != 0) {
                fail_msg("%s depends on the locale", names[i]);
            }
            free(expected);
            free(got);
        }
    }
    scratch_leave(&stay);
    ckm_plan_free(s.plan);
    ckm_emit_facts_free(s.facts);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(s.df);
    ckm_training_free(training);
    ckm_graph_free(network);
    if (!there) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
