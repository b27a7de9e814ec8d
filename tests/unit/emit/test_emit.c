// SPDX-License-Identifier: Apache-2.0
// Figures: DOT text with hostile names, file name checks, curves with gaps, failures that leave nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <checkmate/emit.h>
#include <checkmate/zoo.h>

static char folder[] = "/tmp/ckm-emit-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);  // fails when a test left something behind
}

static const char *in_folder(char *buf, size_t size, const char *name)
{
    snprintf(buf, size, "%s/%s", folder, name);
    return buf;
}

static char *contents(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

// Input x, forward op with a view, backward op that reads both; names that DOT could stumble over.
static ckm_dataflow *sample(void)
{
    ckm_dataflow *df = NULL;
    ckm_error err;
    int32_t x;
    int32_t y;
    int32_t z;
    ckm_dataflow_tensor tensors[] = {{"x", 5, 0, false}, {"y", 1500000, 0, false}, {"z", 7, 0, false}};
    assert_int_equal(ckm_dataflow_create("a \"graph\" \\", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[0], &x, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[1], &y, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[2], &z, &err), CKM_OK);
    int32_t twice[] = {x, x};
    int32_t both[] = {x, y};
    ckm_dataflow_op forward = {.name = "\"];\nconv\\",
                               .kind = CKM_OP_FORWARD,
                               .cost = 42,
                               .n_inputs = 2,
                               .inputs = twice,
                               .n_outputs = 1,
                               .outputs = &y};
    ckm_dataflow_op backward = {.name = "grad",
                                .kind = CKM_OP_BACKWARD,
                                .cost = 1,
                                .run_once = true,
                                .workspace_bytes = 2000,
                                .n_inputs = 2,
                                .inputs = both,
                                .n_outputs = 1,
                                .outputs = &z};
    assert_int_equal(ckm_dataflow_add_op(df, &forward, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_op(df, &backward, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

static ckm_dataflow *sample_with_places(void)
{
    ckm_dataflow *df = NULL;
    ckm_error err;
    int32_t x;
    int32_t y;
    const ckm_dataflow_tensor tensors[] = {{"x", 5, 0, false}, {"y", 1500, 0, false}};
    assert_int_equal(ckm_dataflow_create("Net", CKM_COST_NS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[0], &x, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[1], &y, &err), CKM_OK);
    const ckm_dataflow_op op = {.name = "addmm",
                                .cost = 42,
                                .n_inputs = 1,
                                .inputs = &x,
                                .n_outputs = 1,
                                .outputs = &y,
                                .module = "layers.3.<mlp>",
                                .source = "model.py:212"};
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

static void test_dot(void **state)
{
    (void)state;
    char path[128];
    ckm_error err;
    ckm_dataflow *df = sample();
    assert_int_equal(ckm_emit_dot(df, in_folder(path, sizeof path, "g.dot"), &err), CKM_OK);
    const char *text = contents(path);
    assert_non_null(strstr(text, "digraph \"a \\\"graph\\\" \\\\\" {"));
    assert_non_null(strstr(text, "op0 [label=\"\\\"]; conv\\\\\\n1.50 MB\""));
    assert_non_null(strstr(text, "tooltip=\"cost 42 MACs\"];"));
    assert_non_null(strstr(text, "tooltip=\"cost 1 MACs, workspace 2.00 kB\", peripheries=2];"));
    // Reading a tensor twice is one edge.
    assert_int_equal(count(text, "t0 -> op0"), 1);
    // Inputs are drawn where the graph begins.
    assert_int_equal(count(text, "t0 -> op1"), 0);
    assert_int_equal(count(text, "op0 -> op1"), 1);
    assert_int_equal(count(text, " -> "), 2);
    unlink(path);
    ckm_dataflow_free(df);
}

static void test_figures_with_programs(void **state)
{
    (void)state;
    if (system("command -v dot > /dev/null && command -v gnuplot > /dev/null") != 0) {
        print_message("SKIP: dot or gnuplot is not installed\n");
        skip();
    }
    char path[128];
    ckm_error err;
    ckm_dataflow *df = sample();
    assert_int_equal(ckm_emit_graph_figure(df, in_folder(path, sizeof path, "g.svg"), &err), CKM_OK);
    assert_non_null(strstr(contents(path), "</svg>"));
    unlink(path);
    ckm_dataflow_free(df);
}

// A file in the test's folder with this text.
static const char *written(char *path, size_t size, const char *name, const char *text)
{
    FILE *file = fopen(in_folder(path, size, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

#define STEP(step, epoch, loss, mean)                                                                            \
    "{\"step\": " #step ", \"epoch\": " #epoch ", \"loss\": " #loss ", \"mean_loss\": " #mean ", \"accuracy\": " \
    "null}\n"
#define JUDGED(step, epoch, loss)                                                              \
    "{\"step\": " #step ", \"epoch\": " #epoch ", \"samples\": 8, \"validation_loss\": " #loss \
    ", \"validation_accuracy\": 0.25, \"validation_bits_per_byte\": 2.5, \"best\": true}\n"

static void test_logs_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ckm_status status;
        int64_t line;
        const char *message;
    } cases[] = {
        {"", CKM_ERR_ARGUMENT, 0, "nothing to draw"},
        {"{\"step\": 0, \"epoch\": 0, \"loss\": null}\n", CKM_ERR_ARGUMENT, 0, "nothing to draw"},
        {STEP(0, 0, 2, 2) "not JSON\n" STEP(1, 0, 2, 2), CKM_ERR_FORMAT, 2, "not a JSON object"},
        {STEP(0, 0, 2, 2) "[1]\n", CKM_ERR_FORMAT, 2, "not a JSON object"},
        {"{\"epoch\": 0, \"loss\": 1}\n", CKM_ERR_FORMAT, 1, "step"},
        {"{\"step\": -1, \"epoch\": 0, \"loss\": 1}\n", CKM_ERR_FORMAT, 1, "step"},
        {"{\"step\": 0, \"epoch\": 0, ", CKM_ERR_FORMAT, 1, "not a JSON object"},  // nothing whole before it
    };
    char log[128];
    char path[128];
    in_folder(path, sizeof path, "t.svg");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        written(log, sizeof log, "run.jsonl", cases[i].text);
        assert_int_equal(ckm_emit_training_figure(log, path, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].message));
        assert_string_equal(err.file, log);
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(access(path, F_OK), -1);
    }
    unlink(log);
    assert_int_equal(ckm_emit_training_figure(log, path, NULL), CKM_ERR_IO);
}

static void test_training(void **state)
{
    (void)state;
    if (system("command -v gnuplot > /dev/null") != 0) {
        print_message("SKIP: gnuplot is not installed\n");
        skip();
    }
    char log[128];
    char path[128];
    ckm_error err;
    // Steps 1 and 2 are run again by a run that went on; the last line is being written.
    written(log, sizeof log, "it's.jsonl",
            STEP(0, 0, 9, 9) STEP(1, 0, 8, 8.5) JUDGED(1, 0, 0.001) STEP(2, 1, 7, 7) STEP(1, 0, 6, 6) JUDGED(1, 0, 5)
                STEP(2, 1, NaN, null) STEP(2, 1, 4, 4.125) STEP(3, 1, 3, 3.5) JUDGED(3, 1, 5.5) "{\"st");
    // NaN is not JSON.
    assert_int_equal(ckm_emit_training_figure(log, in_folder(path, sizeof path, "t.svg"), &err), CKM_ERR_FORMAT);
    assert_int_equal(err.line, 7);
    written(log, sizeof log, "it's.jsonl",
            STEP(0, 0, 9, 9) STEP(1, 0, 8, 8.5) JUDGED(1, 0, 0.001) STEP(2, 1, 7, 7) STEP(1, 0, 6, 6) JUDGED(1, 0, 5)
                STEP(2, 1, null, null) STEP(3, 1, 3, 3.5) JUDGED(3, 1, 5.5) "{\"st");
    assert_int_equal(ckm_emit_training_figure(log, path, &err), CKM_OK);
    const char *text = contents(path);
    assert_non_null(strstr(text, "</svg>"));
    assert_non_null(strstr(text, "it's.jsonl: loss over the steps of training"));
    assert_non_null(strstr(text, "training 3.5 in the last epoch"));
    assert_non_null(strstr(text, "validation 5.5, accuracy 25.0 %, 2.500 bits a byte; least 5 after step 2"));
    assert_non_null(strstr(text, "accuracy (%)"));
    unlink(path);
    // Lines that end as Windows ends them.
    written(log, sizeof log, "it's.jsonl", "{\"step\": 0, \"epoch\": 0, \"loss\": 1, \"mean_loss\": 1}\r\n\r\n");
    assert_int_equal(ckm_emit_training_figure(log, path, &err), CKM_OK);
    unlink(path);
    // No accuracy, nothing held back.
    written(log, sizeof log, "plain.jsonl", STEP(0, 0, 9, 9) STEP(1, 0, 8, 8.5));
    assert_int_equal(ckm_emit_training_figure(log, path, &err), CKM_OK);
    text = contents(path);
    assert_null(strstr(text, "accuracy"));
    assert_null(strstr(text, "validation"));
    unlink(path);
    unlink(log);
}

static void test_networks_and_courses(void **state)
{
    (void)state;
    if (system("command -v dot > /dev/null && command -v gnuplot > /dev/null") != 0) {
        print_message("SKIP: dot or gnuplot is not installed\n");
        skip();
    }
    char path[128];
    ckm_error err;
    ckm_graph *network = NULL;
    assert_int_equal(ckm_zoo_build("MobileNet", 2, NULL, &network, &err), CKM_OK);
    assert_int_equal(ckm_emit_network_figure(network, in_folder(path, sizeof path, "n.svg"), &err), CKM_OK);
    const char *text = contents(path);
    assert_non_null(strstr(text, "</svg>"));
    assert_non_null(strstr(text, "2 \xc3\x97 112 \xc3\x97 112 \xc3\x97 32"));
    unlink(path);
    ckm_graph_free(network);

    ckm_emit_progress points[] = {{0.1, NAN, NAN}, {0.2, 0.5, NAN}, {1, 0.2, 0.05}, {3, 0.1, 0.1}};
    assert_int_equal(ckm_emit_progress_figure("it's", points, 4, in_folder(path, sizeof path, "c.svg"), &err), CKM_OK);
    text = contents(path);
    assert_non_null(strstr(text, "best schedule: 10.0 % at the end"));
    // What is said of the bound is no more than what it was proven for.
    assert_non_null(strstr(text, "10.0 % at the end; no schedule of the class that the strategy's bound covers costs"));
    static const struct {
        ckm_bound_class covers;
        const char *text;
    } claims[] = {{CKM_BOUND_ANY, "no schedule costs less"},
                  {CKM_BOUND_ORDER, "no schedule in the graph's order costs less"},
                  {CKM_BOUND_FRONTIER, "no schedule that advances by stages costs less"}};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        assert_int_equal(ckm_emit_course_figure("it's", points, 4, claims[i].covers, path, &err), CKM_OK);
        text = contents(path);
        for (size_t j = 0; j < sizeof claims / sizeof claims[0]; j++) {
            assert_int_equal(strstr(text, claims[j].text) != NULL, i == j);
        }
    }
    unlink(path);
    assert_int_equal(ckm_emit_progress_figure("nothing", points, 1, path, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_sweep(void **state)
{
    (void)state;
    if (system("command -v gnuplot > /dev/null") != 0) {
        print_message("SKIP: gnuplot is not installed\n");
        skip();
    }
    char path[128];
    ckm_error err;
    const ckm_emit_sweep_row ours[] = {{1000000000, 0.02, 0.01, CKM_BOUND_ORDER}, {2000000000, 0, 0, CKM_BOUND_ANY}};
    const ckm_emit_sweep_row dear[] = {{1000000000, 15.5, 0, CKM_BOUND_ANY}, {2000000000, 0.25, NAN, CKM_BOUND_NONE}};
    const ckm_emit_sweep_row none[] = {{1000000000, NAN, 0, CKM_BOUND_ANY}, {2000000000, NAN, 0, CKM_BOUND_ANY}};
    const ckm_emit_sweep_curve curves[] = {
        {"ours_1", true, 2, ours}, {"de'ar", false, 2, dear}, {"absent", false, 2, none}};
    in_folder(path, sizeof path, "s.svg");
    assert_int_equal(ckm_emit_sweep_figure("Net", curves, 3, path, &err), CKM_OK);
    const char *text = contents(path);
    assert_non_null(strstr(text, "</svg>"));
    assert_non_null(strstr(text, ">ours_1<"));
    assert_non_null(strstr(text, ">de'ar<"));
    // Above the axis: its number. Nowhere: said. The bound: its class, and none that adds nothing.
    assert_non_null(strstr(text, "1550 %"));
    assert_non_null(strstr(text, "no schedule within these budgets: absent"));
    assert_non_null(strstr(text, "bound: the graph's order"));
    assert_null(strstr(text, "bound: any schedule"));
    assert_null(strstr(text, "bound: by stages"));
    unlink(path);
    // A narrower class has a line of its own where it says more.
    const ckm_emit_sweep_row paper[] = {{1000000000, 0.03, 0.015, CKM_BOUND_FRONTIER},
                                        {2000000000, 0, 0, CKM_BOUND_ANY}};
    const ckm_emit_sweep_curve both[] = {{"ours", true, 2, ours}, {"paper", false, 2, paper}};
    assert_int_equal(ckm_emit_sweep_figure("Net", both, 2, path, &err), CKM_OK);
    text = contents(path);
    assert_non_null(strstr(text, "bound: the graph's order"));
    assert_non_null(strstr(text, "bound: by stages"));
    unlink(path);
    assert_int_equal(ckm_emit_sweep_figure("Net", &curves[2], 1, path, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_bad_requests(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = sample();
    assert_int_equal(ckm_emit_graph_figure(df, "figure.jpg", &err), CKM_ERR_ARGUMENT);
    assert_string_equal(err.file, "figure.jpg");
    assert_int_equal(ckm_emit_graph_figure(df, ".svg", &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_emit_dot(df, "/nonexistent/g.dot", &err), CKM_ERR_IO);
    ckm_dataflow_free(df);
}

// Programs that are missing, that fail, that are killed: an error that says so, and no file.
static void test_program_fails(void **state)
{
    (void)state;
    char program[128];
    char path[128];
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = sample();
    const char *search = getenv("PATH");
    char *saved = search != NULL ? strdup(search) : NULL;
    in_folder(path, sizeof path, "g.svg");
    in_folder(program, sizeof program, "dot");
    setenv("PATH", folder, 1);
    assert_int_equal(ckm_emit_graph_figure(df, path, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "graphviz"));
    static const struct {
        const char *script, *message;
    } failures[] = {
        {"#!/bin/sh\necho half a figure\necho >&2\necho 'Error: no luck' >&2\nexit 3\n", "status 3: Error: no luck"},
        {"#!/bin/sh\nkill -9 $$\n", "signal 9"},
        // What a full disk does: less than a figure, and exit status 0.
        {"#!/bin/sh\nexit 0\n", "without an end"},
        {"#!/bin/sh\necho '<svg>half'\n", "without an end"},
    };
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        FILE *file = fopen(program, "w");
        assert_non_null(file);
        fputs(failures[i].script, file);
        fclose(file);
        assert_int_equal(access(program, F_OK), 0);
        char command[160];
        snprintf(command, sizeof command, "/bin/chmod 755 %s", program);
        assert_int_equal(system(command), 0);
        assert_int_equal(ckm_emit_graph_figure(df, path, &err), CKM_ERR_IO);
        assert_non_null(strstr(err.message, failures[i].message));
        assert_int_equal(access(path, F_OK), -1);
    }
    unlink(program);
    if (saved != NULL) {
        setenv("PATH", saved, 1);
    }
    free(saved);
    ckm_dataflow_free(df);
}

// A chain whose memory is high, low, high for a moment, and low again.
static ckm_dataflow *spiky_chain(void)
{
    enum { N = 40 };
    ckm_dataflow *df = NULL;
    int32_t before;
    const ckm_dataflow_tensor input = {.name = "x"};
    assert_int_equal(ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &input, &before, NULL), CKM_OK);
    for (int i = 0; i < N; i++) {
        int32_t out;
        const ckm_dataflow_tensor tensor = {.name = "t", .bytes = i < 20 || i == 35 ? 100 : 10};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &out, NULL), CKM_OK);
        const ckm_dataflow_op op = {
            .name = "op", .cost = 1, .n_inputs = 1, .inputs = &before, .n_outputs = 1, .outputs = &out};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
        before = out;
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

// The label of the budget stands where no line runs through it: a gnuplot that keeps its script shows where.
static void test_place_of_the_budget(void **state)
{
    (void)state;
    char path[128];
    char program[128];
    char script[256];
    ckm_error err;
    ckm_schedule *s = NULL;
    ckm_emit_facts *f = NULL;
    ckm_dataflow *df = spiky_chain();
    assert_int_equal(ckm_schedule_baseline(df, &s, &err), CKM_OK);
    ckm_schedule_info info = *ckm_schedule_get_info(s);
    info.budget_bytes = 90;
    ckm_schedule_set_info(s, &info);
    assert_int_equal(ckm_emit_facts_create(df, s, &f, &err), CKM_OK);
    const char *search = getenv("PATH");
    char *saved = search != NULL ? strdup(search) : NULL;
    snprintf(script, sizeof script, "#!/bin/sh\n/bin/cat \"$@\" - > '%s/script'\necho '<svg></svg>'\n", folder);
    in_folder(program, sizeof program, "gnuplot");
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    char command[160];
    snprintf(command, sizeof command, "/bin/chmod 755 %s", program);
    assert_int_equal(system(command), 0);
    setenv("PATH", folder, 1);
    assert_int_equal(ckm_emit_figure(f, "memory", in_folder(path, sizeof path, "m.svg"), &err), CKM_OK);
    // Between the fall at 20 and the spike at 35, as far to the right as there is room.
    char text[128];
    assert_non_null(strstr(contents(in_folder(text, sizeof text, "script")),
                           "set label 'budget 90 B' at first 35, first 90 right"));
    if (saved != NULL) {
        setenv("PATH", saved, 1);
    }
    free(saved);
    unlink(program);
    unlink(text);
    unlink(path);
    ckm_emit_facts_free(f);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void test_page_in_the_callers_words(void **state)
{
    (void)state;
    char path[128];
    ckm_error err;
    ckm_schedule *s = NULL;
    ckm_emit_facts *f = NULL;
    ckm_dataflow *df = sample_with_places();
    assert_int_equal(ckm_schedule_baseline(df, &s, &err), CKM_OK);
    assert_int_equal(ckm_emit_facts_create(df, s, &f, &err), CKM_OK);
    in_folder(path, sizeof path, "page.html");
    const ckm_emit_way ways[] = {{"keep all", NULL, 1505, 42}, {"by hand", "<b>", 900, 50}};
    const ckm_emit_recipe recipe = {"Train", "x = \"</script>\"\n", NULL};
    ckm_emit_words words = {.chosen = "the plan", .n_ways = 2, .n_recipes = 1, .ways = ways, .recipes = &recipe};
    assert_int_equal(ckm_emit_page_with(f, &words, path, &err), CKM_OK);
    const char *page = contents(path);
    assert_non_null(strstr(page, "\"ways\":[[\"keep all\",\"\",1505,42],[\"by hand\",\"\\u003cb\\u003e\",900,50]]"));
    assert_non_null(strstr(page, "\"recipes\":[[\"Train\",\"x = \\u0022\\u003c/script\\u003e\\u0022\\u000a\",\"\"]]"));
    assert_non_null(strstr(page, "\"chosen\":\"the plan\""));
    assert_non_null(strstr(page, "[],\"layers.3.\\u003cmlp\\u003e\",\"model.py:212\",0,1500]"));
    assert_non_null(strstr(page, "\"blocks\":[\"layers.3.\\u003cmlp\\u003e/addmm\"],"));
    assert_int_equal(ckm_emit_page_with(f, NULL, path, &err), CKM_OK);
    assert_non_null(strstr(contents(path), "\"recipes\":[],"));
    words.recipes = NULL;
    assert_int_equal(ckm_emit_page_with(f, &words, path, &err), CKM_ERR_ARGUMENT);
    ckm_emit_facts_free(f);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_figures_with_programs),
        cmocka_unit_test(test_logs_that_are_none),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_networks_and_courses),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_page_in_the_callers_words),
        cmocka_unit_test(test_place_of_the_budget),
        cmocka_unit_test(test_program_fails),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
