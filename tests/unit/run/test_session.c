// SPDX-License-Identifier: Apache-2.0
// Sessions on the fake back end (tests/support/fake_backend.h).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "base/rng.h"
#include "fake_backend.h"
#include "run/session/session.h"

// Sanitizers keep what is freed.
#define FREED_GOES_BACK 1
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#undef FREED_GOES_BACK
#define FREED_GOES_BACK 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef FREED_GOES_BACK
#define FREED_GOES_BACK 0
#endif
#endif

#ifdef CKM_BACKEND_WRAP
ckm_status CKM_BACKEND_WRAP(ckm_i_backend *inner, ckm_i_backend **out, ckm_error *err);
#endif

// The same, or in the test's other build what is put around every back end.
static ckm_i_backend *session_backend(fake *f)
{
#ifdef CKM_BACKEND_WRAP
    ckm_i_backend *backend = NULL;
    assert_int_equal(CKM_BACKEND_WRAP(fake_backend(f), &backend, NULL), CKM_OK);
    return backend;
#else
    return fake_backend(f);
#endif
}

static void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

// A network being built, and its training graph.
typedef struct builder {
    ckm_graph *step;
    ckm_training *training;
    int32_t known;  // step tensors that the training graph has already
} builder;

static void catch_up(builder *b, int32_t alias_of)
{
    ckm_error err = CKM_ERROR_INIT;
    for (; b->known < b->step->n_tensors; b->known++) {
        int32_t index;
        good(ckm_i_training_add_value(b->training, b->step->tensors[b->known].name, 448, alias_of, &index, &err), &err);
    }
}

static int32_t leaf(builder *b, const char *name, ckm_tensor_role role)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_shape shape = {.rank = 1, .dims = {FAKE_WORDS}};
    int32_t index;
    good(ckm_i_graph_add_tensor(b->step, name, role, CKM_F32, &shape, &index, &err), &err);
    catch_up(b, -1);
    return index;
}

static int32_t op(builder *b, const char *kind, const char *name, ckm_i_phase phase, int32_t x, int32_t y)
{
    ckm_error err = CKM_ERROR_INIT;
    const int32_t inputs[2] = {x, y};
    int32_t n = y >= 0 ? 2 : 1;
    int32_t output = -1;
    int32_t n_outputs = strcmp(kind, "update_sgd") == 0 ? 0 : 1;
    good(ckm_i_graph_add_op(b->step,
                            &(ckm_i_new_op){.kind = kind, .name = name, .inputs = {inputs, n}, .n_outputs = n_outputs},
                            &output, &err),
         &err);
    int32_t base = x;
    while (b->training->values[base].alias_of >= 0) {
        base = b->training->values[base].alias_of;
    }
    catch_up(b, strcmp(kind, "identity") == 0 ? base : -1);
    // The training graph lists an operand once.
    good(ckm_i_training_add_op(b->training,
                               &(ckm_i_new_training_op){.name = name,
                                                        .phase = phase,
                                                        .source = -1,
                                                        .inputs = {inputs, n == 2 && x == y ? 1 : n},
                                                        .outputs = {&output, n_outputs}},
                               &err),
         &err);
    if (strcmp(kind, "relu") == 0) {
        good(ckm_i_training_add_inplace(b->training, b->training->n_ops - 1, x, output, &err), &err);
    }
    b->training->ops[b->training->n_ops - 1].once = phase == CKM_I_UPDATE;
    return output;
}

// A chain with skips, a view, an operand given twice; a backward chain that reads forward values; updates.
static ckm_training *make_training(int32_t layers)
{
    ckm_error err = CKM_ERROR_INIT;
    builder b = {0};
    int32_t forward[64];
    int32_t parameters[64];
    char name[32];
    good(ckm_i_graph_create("step", CKM_CHANNELS_LAST, 1, &b.step, &err), &err);
    good(ckm_i_training_create(b.step, "step", &b.training, &err), &err);
    b.training->step = b.step;
    int32_t x = leaf(&b, "input", CKM_ROLE_INPUT);
    for (int32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "w%d", (int)i);
        parameters[i] = leaf(&b, name, CKM_ROLE_PARAMETER);
    }
    for (int32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "mul%d", (int)i);
        x = op(&b, "mul", name, CKM_I_FORWARD, x, parameters[i]);
        snprintf(name, sizeof name, "relu%d", (int)i);
        x = op(&b, "relu", name, CKM_I_FORWARD, x, -1);
        if (i % 3 == 2) {
            snprintf(name, sizeof name, "view%d", (int)i);
            x = op(&b, "identity", name, CKM_I_FORWARD, x, -1);
        }
        forward[i] = x;
        if (i >= 2) {
            snprintf(name, sizeof name, "skip%d", (int)i);
            x = op(&b, "add", name, CKM_I_FORWARD, x, i % 5 == 4 ? x : forward[i - 2]);
        }
    }
    x = op(&b, "mul", "loss", CKM_I_LOSS, x, x);
    b.training->loss = x;
    good(ckm_i_training_add_result(b.training, x, &err), &err);
    for (int32_t i = layers - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "back%d", (int)i);
        x = op(&b, "add", name, CKM_I_BACKWARD, x, forward[i]);
        snprintf(name, sizeof name, "grad%d", (int)i);
        int32_t gradient = op(&b, "mul", name, CKM_I_BACKWARD, x, parameters[i]);
        snprintf(name, sizeof name, "update%d", (int)i);
        (void)op(&b, "update_sgd", name, CKM_I_UPDATE, parameters[i], gradient);
    }
    // Computed again after an update, they would see weights of the next step.
    for (int32_t v = 0; v < b.training->n_ops; v++) {
        b.training->ops[v].once = b.training->ops[v].phase >= CKM_I_BACKWARD;
    }
    return b.training;
}

// Every operator costs 1 but updates.
static ckm_dataflow *make_dataflow(const ckm_training *t)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    good(ckm_dataflow_create("step", CKM_COST_FLOPS, 0, &df, &err), &err);
    for (int32_t x = 0; x < t->n_values; x++) {
        ckm_dataflow_tensor tensor = {t->values[x].name, t->values[x].bytes, t->values[x].alias_of,
                                      t->values[x].alias_of >= 0};
        good(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), &err);
    }
    for (int32_t v = 0; v < t->n_ops; v++) {
        const ckm_i_training_op *o = &t->ops[v];
        ckm_dataflow_op flow = {.name = o->name,
                                .kind = (ckm_op_kind)o->phase,
                                .cost = o->phase != CKM_I_UPDATE,
                                .workspace_bytes = o->workspace_bytes,
                                .run_once = o->once,
                                .n_inputs = o->n_inputs,
                                .n_outputs = o->n_outputs,
                                .n_inplace = o->n_inplace,
                                .inputs = o->inputs,
                                .outputs = o->outputs,
                                .inplace = (const int32_t(*)[2])o->inplace};
        good(ckm_dataflow_add_op(df, &flow, NULL, &err), &err);
    }
    for (int32_t k = 0; k < t->n_results; k++) {
        good(ckm_dataflow_add_result(df, t->results[k], &err), &err);
    }
    good(ckm_dataflow_finish(df, &err), &err);
    return df;
}

typedef struct setting {
    fake fake;
    ckm_training *training;
    const ckm_graph *step;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_schedule *baseline, *tight;
    ckm_plan *baseline_plan, *tight_plan;
} setting;

// A schedule that keeps one forward tensor in `keep` for the backward pass and computes the others again.
typedef struct scheduler {
    const ckm_training *t;
    const ckm_dataflow *df;
    int32_t keep;
    bool *live;
    ckm_schedule *out;
} scheduler;

static void free_tensor(scheduler *sc, int32_t x)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_step step = {.kind = CKM_STEP_FREE, .index = x};
    good(ckm_schedule_append(sc->out, &step, &err), &err);
    sc->live[x] = false;
}

static void compute(scheduler *sc, int32_t v)
{
    ckm_error err = CKM_ERROR_INIT;
    const ckm_i_training_op *o = &sc->t->ops[v];
    for (int32_t k = 0; k < o->n_inputs; k++) {
        if (!sc->live[o->inputs[k]]) {
            compute(sc, ckm_dataflow_producer(sc->df, o->inputs[k]));
        }
    }
    ckm_step step = {.kind = CKM_STEP_COMPUTE, .index = v};
    // Nothing but the relu behind it reads a product.
    if (o->n_inplace > 0 && !sc->live[o->outputs[0]] && strncmp(sc->t->values[o->inputs[0]].name, "mul", 3) == 0) {
        bool viewed = false;
        for (int32_t x = 0; x < sc->t->n_values; x++) {
            viewed = viewed || (sc->live[x] && sc->t->values[x].alias_of == o->outputs[0]);
        }
        step.n_inplace = viewed ? 0 : 1;
        step.inplace = (const int32_t(*)[2])o->inplace;
        sc->live[o->inputs[0]] = viewed;
    }
    good(ckm_schedule_append(sc->out, &step, &err), &err);
    for (int32_t k = 0; k < o->n_outputs; k++) {
        sc->live[o->outputs[k]] = true;
    }
}

static ckm_schedule *schedule_keeping(const ckm_training *t, const ckm_dataflow *df, int32_t keep)
{
    ckm_error err = CKM_ERROR_INIT;
    scheduler sc = {.t = t, .df = df, .keep = keep};
    ckm_simulation facts;
    sc.live = calloc((size_t)t->n_values, sizeof *sc.live);
    assert_non_null(sc.live);
    good(ckm_schedule_create(&sc.out, &err), &err);
    for (int32_t x = 0; x < t->n_values; x++) {
        sc.live[x] = ckm_dataflow_producer(df, x) < 0;
    }
    for (int32_t v = 0; v < t->n_ops; v++) {
        compute(&sc, v);
        for (int32_t x = 0; x < t->n_values; x++) {
            int32_t producer = ckm_dataflow_producer(df, x);
            int32_t next = -1;
            if (producer < 0 || !sc.live[x]) {
                continue;
            }
            for (int32_t u = t->n_ops - 1; u > v; u--) {
                for (int32_t k = 0; k < t->ops[u].n_inputs; k++) {
                    next = t->ops[u].inputs[k] == x ? u : next;
                }
            }
            bool wanted = x == t->loss ||
                          (next >= 0 && (producer % keep == 0 || next < v + 4 || t->ops[producer].once));
            if (!wanted) {
                free_tensor(&sc, x);
            }
        }
    }
    free(sc.live);
    good(ckm_schedule_simulate(df, sc.out, NULL, &facts, &err), &err);
    ckm_schedule_info info = *ckm_schedule_get_info(sc.out);
    info.cost = facts.cost;
    info.peak_bytes = facts.peak_bytes;
    ckm_schedule_set_info(sc.out, &info);
    return sc.out;
}

// Of these schedules the cheapest within the budget, NULL when none is.
static ckm_schedule *solve_for(const ckm_training *t, const ckm_dataflow *df, int64_t budget)
{
    for (int32_t keep = 1; keep <= 8; keep++) {
        ckm_schedule *s = schedule_keeping(t, df, keep);
        if (ckm_schedule_get_info(s)->peak_bytes <= budget) {
            return s;
        }
        ckm_schedule_free(s);
    }
    return NULL;
}

static void set_up(setting *s, int32_t layers)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    s->training = make_training(layers);
    s->step = s->training->step;
    good(ckm_i_program_create_on(s->training, session_backend(&s->fake), &s->program, &err), &err);
    s->df = make_dataflow(s->training);
    good(ckm_schedule_baseline(s->df, &s->baseline, &err), &err);
    s->tight = schedule_keeping(s->training, s->df, 3);
    assert_true(ckm_schedule_get_info(s->tight)->cost > ckm_schedule_get_info(s->baseline)->cost);
    good(ckm_plan_create(s->df, s->baseline, &options, &s->baseline_plan, &err), &err);
    good(ckm_plan_create(s->df, s->tight, &options, &s->tight_plan, &err), &err);
}

static void tear_down(setting *s)
{
    ckm_plan_free(s->baseline_plan);
    ckm_plan_free(s->tight_plan);
    ckm_schedule_free(s->baseline);
    ckm_schedule_free(s->tight);
    ckm_dataflow_free(s->df);
    ckm_program_free(s->program);
    ckm_training_free(s->training);
    assert_int_equal(s->fake.kernels_held, 0);
}

static setting fresh(void)
{
    return (setting){.fake = {.fail_at = -1, .flawed = -1}};
}

// What the step computes, by running the operators in order, each tensor in memory of its own.
static void run_apart(const setting *s, uint32_t (*memory)[FAKE_WORDS], int64_t step)
{
    fake f = {.fail_at = -1, .flawed = -1};
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_backend *backend = fake_backend(&f);
    static char workspace[FAKE_WORKSPACE] __attribute__((aligned(64)));
    for (int32_t v = 0; v < s->step->n_ops; v++) {
        const ckm_i_graph_op *o = &s->step->ops[v];
        const void *inputs[4];
        void *outputs[4];
        if (strcmp(o->op_class->kind, "identity") == 0) {
            memcpy(memory[o->outputs[0]], memory[o->inputs[0]], sizeof memory[0]);
            continue;
        }
        for (int32_t k = 0; k < o->n_inputs; k++) {
            inputs[k] = memory[o->inputs[k]];
        }
        for (int32_t k = 0; k < o->n_outputs; k++) {
            outputs[k] = memory[o->outputs[k]];
        }
        ckm_i_kernel *kernel = NULL;
        int64_t workspace_bytes = 0;
        good(backend->prepare(backend, s->step, v, &kernel, &workspace_bytes, &err), &err);
        ckm_i_kernel_call call = {
            .inputs = inputs, .outputs = outputs, .workspace = workspace, .step = step, .op = v, .first = true};
        good(backend->run(backend, kernel, &call, &err), &err);
        backend->free_kernel(backend, kernel);
    }
    backend->destroy(backend);
}

static void check_against_apart(const setting *s, const ckm_schedule *schedule, const ckm_plan *plan)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    options.prefault = true;
    good(ckm_session_create(s->program, s->df, schedule, plan, &options, &session, &err), &err);
    uint32_t(*memory)[FAKE_WORDS] = calloc((size_t)s->step->n_tensors, sizeof *memory);
    assert_non_null(memory);
    for (int64_t step = 0; step < 3; step++) {
        ckm_step_result result;
        good(ckm_session_fill(session, 9, step, &err), &err);
        for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
            ckm_session_tensor t = ckm_session_get_tensor(session, i);
            int32_t x = session->values[i];
            assert_int_equal(t.bytes, sizeof memory[x]);
            if (step == 0 || t.role == CKM_ROLE_INPUT) {
                good(ckm_session_read(session, i, 0, t.bytes, memory[x], &err), &err);
            }
        }
        run_apart(s, memory, step);
        good(ckm_session_step(session, step, 0.1, &result, &err), &err);
        for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
            ckm_session_tensor t = ckm_session_get_tensor(session, i);
            uint32_t values[FAKE_WORDS];
            good(ckm_session_read(session, i, 0, t.bytes, values, &err), &err);
            if (memcmp(values, memory[session->values[i]], (size_t)t.bytes) != 0) {
                fail_msg("step %lld: %s differs", (long long)step, t.name);
            }
        }
    }
    free(memory);
    ckm_session_free(session);
}

static void every_tensor_is_where_it_should_be(void **state)
{
    (void)state;
    for (int32_t layers = 8; layers <= 24; layers += 4) {
        setting s = fresh();
        set_up(&s, layers);
        check_against_apart(&s, s.baseline, s.baseline_plan);
        check_against_apart(&s, s.tight, s.tight_plan);
        tear_down(&s);
    }
}

// Both schedules, three steps.
static ckm_status compare(const setting *s, ckm_compare_result *out, ckm_error *err)
{
    ckm_compare_options options = CKM_COMPARE_OPTIONS_INIT;
    const ckm_session_side plain = {s->baseline, s->baseline_plan};
    const ckm_session_side tight = {s->tight, s->tight_plan};
    options.learning_rate = 0.1;
    options.seed = 5;
    return ckm_session_compare(s->program, s->df, &plain, &tight, &options, out, err);
}

static void comparing_finds_equal_and_different(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_compare_result result;
    setting s = fresh();
    set_up(&s, 12);
    good(compare(&s, &result, &err), &err);
    assert_string_equal(result.why, "");
    assert_true(result.equal);
    assert_true(result.recomputations > 0);
    assert_true(result.operators > 0);
    // Some operator that the tight schedule computes again.
    int32_t again = -1;
    bool *seen = calloc((size_t)s.step->n_ops, sizeof *seen);
    assert_non_null(seen);
    for (int64_t at = 0; at < ckm_schedule_step_count(s.tight); at++) {
        ckm_step step = ckm_schedule_get_step(s.tight, at);
        if (step.kind == CKM_STEP_COMPUTE && s.program->kernels[step.index] != NULL) {
            again = seen[step.index] ? step.index : again;
            seen[step.index] = true;
        }
    }
    free(seen);
    assert_true(again >= 0);
    s.fake.flawed = again;
    good(compare(&s, &result, &err), &err);
    assert_false(result.equal);
    assert_non_null(strstr(result.why, s.step->ops[again].name));
    assert_non_null(strstr(result.why, "step 0"));
    tear_down(&s);
}

static void memory_adds_up(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    int64_t region;
    setting s = fresh();
    set_up(&s, 8);
    good(ckm_session_create(s.program, s.df, s.tight, s.tight_plan, &options, &session, &err), &err);
    ckm_session_memory m = ckm_session_get_memory(session);
    good(ckm_run_region_bytes(s.df, s.tight_plan, &region, &err), &err);
    assert_int_equal(m.region_bytes, region);
    assert_int_equal(m.parameter_bytes, 8 * 448);
    assert_int_equal(m.data_bytes, 448);
    assert_int_equal(m.optimizer_bytes + m.state_bytes + m.constant_bytes, 0);
    assert_int_equal(m.arena_bytes, ckm_plan_get_info(s.tight_plan)->arena_bytes);
    assert_int_equal(m.parameter_bytes + m.data_bytes + m.arena_bytes + m.padding_bytes, m.region_bytes);
    assert_int_equal(m.region_bytes % 4096, 0);
    assert_int_equal(m.workspace_bytes, 256);
    assert_true(m.table_bytes > 0);
    int32_t w = ckm_session_find_tensor(session, "w3");
    assert_true(w >= 0);
    assert_int_equal(ckm_session_get_tensor(session, w).role, CKM_ROLE_PARAMETER);
    assert_int_equal(ckm_session_find_tensor(session, "unknown"), -1);
    assert_string_equal(ckm_session_get_tensor(session, ckm_session_loss(session)).name, "loss");
    assert_int_equal(ckm_session_labels(session), -1);
    ckm_session_free(session);
    ckm_session_free(NULL);
    tear_down(&s);
}

static void parts_that_do_not_belong_together_are_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    setting s = fresh();
    setting other = fresh();
    set_up(&s, 9);
    set_up(&other, 10);
    assert_int_equal(ckm_session_create(s.program, other.df, s.tight, s.tight_plan, &options, &session, &err),
                     CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_session_create(s.program, s.df, s.baseline, s.tight_plan, &options, &session, &err),
                     CKM_ERR_ARGUMENT);
    assert_null(session);
    tear_down(&other);
    tear_down(&s);
}

static void computing_after_an_update_what_reads_its_parameter_is_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_plan_options plan_options = CKM_PLAN_OPTIONS_INIT;
    ckm_session *session = NULL;
    ckm_schedule *schedule = NULL;
    ckm_plan *plan = NULL;
    setting s = fresh();
    set_up(&s, 5);
    good(ckm_schedule_create(&schedule, &err), &err);
    int32_t parameter = -1;
    for (int32_t v = 0; v < s.training->n_ops; v++) {
        ckm_step step = {.kind = CKM_STEP_COMPUTE, .index = v};
        good(ckm_schedule_append(schedule, &step, &err), &err);
        if (s.training->ops[v].phase == CKM_I_UPDATE && parameter < 0) {
            parameter = s.step->ops[v].inputs[0];
        }
    }
    assert_true(parameter >= 0);
    int32_t reader = -1;
    for (int32_t v = 0; v < s.training->n_ops && reader < 0; v++) {
        for (int32_t k = 0; k < s.training->ops[v].n_inputs; k++) {
            reader = s.training->ops[v].inputs[k] == parameter ? v : reader;
        }
    }
    ckm_step again = {.kind = CKM_STEP_COMPUTE, .index = reader};
    good(ckm_schedule_append(schedule, &again, &err), &err);
    good(ckm_plan_create(s.df, schedule, &plan_options, &plan, &err), &err);
    assert_int_equal(ckm_session_create(s.program, s.df, schedule, plan, &options, &session, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "after the update of"));
    assert_null(session);
    ckm_plan_free(plan);
    ckm_schedule_free(schedule);
    tear_down(&s);
}

static void failures_are_reported(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    ckm_step_result result = {.correct = 77};
    setting s = fresh();
    set_up(&s, 9);
    good(ckm_session_create(s.program, s.df, s.tight, s.tight_plan, &options, &session, &err), &err);
    s.fake.fail_at = s.fake.runs + 4;
    assert_int_equal(ckm_session_step(session, 0, 0.1, &result, &err), CKM_ERR_INTERNAL);
    assert_int_equal(result.correct, 77);
    ckm_session_free(session);
    // Every operator without a kernel is named.
    ckm_training *training = make_training(3);
    fake f = {.fail_at = -1, .flawed = -1, .unsupported = "relu"};
    ckm_program *program = NULL;
    assert_int_equal(ckm_i_program_create_on(training, fake_backend(&f), &program, &err), CKM_ERR_UNSUPPORTED);
    assert_null(program);
    assert_non_null(strstr(err.message, "relu0"));
    assert_non_null(strstr(err.message, "relu2"));
    ckm_training_free(training);
    tear_down(&s);
}

// What was freed before or while kernels are made is not theirs, and what they keep does not hide in it. Where freed memory goes back.
static void kernels_take_what_they_keep(void **state)
{
    (void)state;
    enum { KEPT = 90000 };
    ckm_error err = CKM_ERROR_INIT;
    setting s = fresh();
    void *pin = fake_drop(FAKE_PIECES, FAKE_PIECE);
    s.fake.kernel_bytes = KEPT;
    s.fake.dropped = FAKE_PIECES;
    s.training = make_training(9);
    good(ckm_i_program_create_on(s.training, fake_backend(&s.fake), &s.program, &err), &err);
    ckm_program_memory memory = ckm_program_get_memory(s.program);
    int64_t kept = (int64_t)s.fake.kernels_held * KEPT;
    assert_true(kept > 1000000);
    if (memory.measured && FREED_GOES_BACK) {
        assert_in_range(memory.kernel_bytes, kept - KEPT, kept + (INT64_C(1) << 20));
    }
    ckm_program_free(s.program);
    ckm_training_free(s.training);
    free(pin);
}

// Solving for the budget asked, once by a schedule that cannot be packed into it.
typedef struct solver {
    const setting *s;
    int32_t calls;
    int64_t budgets[16];
} solver;

static ckm_status solve_call(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    solver *v = user;
    (void)err;
    v->budgets[v->calls++ % 16] = budget_bytes;
    *out = solve_for(v->s->training, v->s->df, budget_bytes);
    return CKM_OK;
}

// First what takes too much, then nothing, then what fits.
static ckm_status solve_with_a_gap(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    solver *v = user;
    v->budgets[v->calls++] = budget_bytes;
    if (v->calls == 1) {
        return ckm_schedule_baseline(v->s->df, out, err);
    }
    *out = v->calls == 2 ? NULL : solve_for(v->s->training, v->s->df, ckm_schedule_get_info(v->s->tight)->peak_bytes);
    return CKM_OK;
}

// A round that finds nothing is followed by one for more, but for less than the one before it.
static void goes_back_where_nothing_is_found(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    setting s = fresh();
    set_up(&s, 40);
    ckm_run_fit fit;
    solver v = {.s = &s};
    solver w = {.s = &s};
    good(ckm_run_plan_under_budget(s.df, INT64_C(1) << 40, 0, &options, solve_call, &w, &fit, &err), &err);
    int64_t whole = fit.region_bytes;
    ckm_run_fit_dispose(&fit);
    good(ckm_run_plan_under_budget(s.df, whole - 4096, 0, &options, solve_with_a_gap, &v, &fit, &err), &err);
    assert_non_null(fit.schedule);
    assert_int_equal(fit.rounds, 3);
    assert_true(v.budgets[1] < v.budgets[2] && v.budgets[2] < v.budgets[0]);
    assert_int_equal(fit.solved_budget_bytes, v.budgets[2]);
    ckm_run_fit_dispose(&fit);
    tear_down(&s);
}

static void plans_stay_within_the_budget(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    setting s = fresh();
    set_up(&s, 40);
    int64_t peak = ckm_schedule_get_info(s.baseline)->peak_bytes;
    int64_t floor = ckm_dataflow_memory_floor(s.df);
    int32_t fitted = 0;
    assert_true(ckm_schedule_get_info(s.tight)->peak_bytes < peak);
    for (int64_t budget = floor - 4096; budget < peak + 8192; budget += 1777) {
        solver v = {.s = &s};
        ckm_run_fit fit;
        good(ckm_run_plan_under_budget(s.df, budget, 500, &options, solve_call, &v, &fit, &err), &err);
        assert_int_equal(fit.rounds, v.calls);
        if (fit.schedule != NULL) {
            ckm_plan_verdict verdict;
            good(ckm_plan_verify(s.df, fit.schedule, fit.plan, 64, &verdict, &err), &err);
            assert_true(verdict.ok);
            assert_true(fit.region_bytes + 500 <= budget);
            fitted++;
        } else {
            assert_null(fit.plan);
        }
        ckm_run_fit_dispose(&fit);
    }
    assert_true(fitted > 1);
    ckm_run_fit fit;
    solver v = {.s = &s};
    good(ckm_run_plan_under_budget(s.df, peak + 8192, peak, &options, solve_call, &v, &fit, &err), &err);
    assert_null(fit.schedule);
    assert_int_equal(ckm_run_plan_under_budget(s.df, -1, 0, &options, solve_call, &v, &fit, &err), CKM_ERR_ARGUMENT);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_where_it_should_be),
        cmocka_unit_test(comparing_finds_equal_and_different),
        cmocka_unit_test(memory_adds_up),
        cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
        cmocka_unit_test(computing_after_an_update_what_reads_its_parameter_is_refused),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(kernels_take_what_they_keep),
        cmocka_unit_test(plans_stay_within_the_budget),
        cmocka_unit_test(goes_back_where_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
