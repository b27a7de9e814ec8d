// SPDX-License-Identifier: Apache-2.0
// Creating a session: everything that can be decided before the first step is decided here. Operators are bound to
// addresses, first computations are marked, views and frees disappear; what is left of a schedule is an array of
// calls.
#include "run/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "run/session/session_moves.h"
#include "run/session/session_region.h"
#include "schedule/schedule.h"

// Checks that the dataflow graph is the program's, by sizes, on which memory depends.
static ckm_status check_graph(const ckm_program *p, const ckm_dataflow *df, ckm_error *err)
{
    const ckm_training *t = p->training;
    if (df->n_ops != t->n_ops || df->n_tensors != t->n_values) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "the dataflow graph has %d operators and %d tensors, the training graph %d and %d: it "
                           "was made from another network",
                           (int)df->n_ops, (int)df->n_tensors, (int)t->n_ops, (int)t->n_values);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].bytes < ckm_i_session_value_bytes(t->step, x) && df->tensors[x].alias_of < 0) {
            return ckm_i_error(
                err, CKM_ERR_ARGUMENT, "tensor \"%.100s\" has %lld bytes in the dataflow graph but needs %lld",
                df->tensors[x].name, (long long)df->tensors[x].bytes, (long long)ckm_i_session_value_bytes(t->step, x));
        }
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (df->ops[v].workspace_bytes < t->ops[v].workspace_bytes) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT,
                               "operator \"%.100s\" has a workspace of %lld bytes in the dataflow graph but needs "
                               "%lld: make the graph after preparing the kernels",
                               df->ops[v].name, (long long)df->ops[v].workspace_bytes,
                               (long long)t->ops[v].workspace_bytes);
        }
    }
    return CKM_OK;
}

static ckm_status check_plan(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan, ckm_error *err)
{
    ckm_plan_verdict verdict;
    CKM_I_CHECK(ckm_plan_verify(df, s, plan, CKM_I_ALIGNMENT, &verdict, err));
    if (!verdict.ok) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the plan does not belong to this schedule: %s", verdict.why);
    }
    return CKM_OK;
}

static ckm_status check_alignment(const ckm_i_backend *backend, ckm_error *err)
{
    int64_t alignment = backend->memory->alignment;
    return alignment > 0 && CKM_I_ALIGNMENT % alignment == 0
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                             "back end \"%.60s\" needs buffers aligned to %lld bytes; plans have %d", backend->name,
                             (long long)alignment, CKM_I_ALIGNMENT);
}

// Addresses while the calls are being bound.
typedef struct binding {
    ckm_session *session;
    const ckm_dataflow *df;
    const ckm_schedule *s;
    const ckm_plan *plan;
    int64_t *resident;          // by storage: offset in the region, or -1
    int32_t *inputs, *outputs;  // instances of a step's operands
    bool *computed;             // by operator
    int64_t n_pointers;
} binding;

static char *address_of(const binding *b, int32_t tensor, int32_t instance)
{
    int32_t storage = b->df->tensors[tensor].storage;
    if (instance < 0) {
        return b->session->region + b->resident[storage];
    }
    return b->session->region + b->session->arena_at + ckm_plan_get_instance(b->plan, instance).offset;
}

// Position of `tensor` in a list of n, or -1.
static int32_t position_of(const int32_t *list, int32_t n, int32_t tensor)
{
    for (int32_t k = 0; k < n; k++) {
        if (list[k] == tensor) {
            return k;
        }
    }
    return -1;
}

static bool is_update(const ckm_training *t, int32_t op)
{
    return t->ops[op].phase == CKM_I_UPDATE;
}

static bool is_gradient_sum(const ckm_graph *step, int32_t op)
{
    return step->ops[op].op_class->id == CKM_I_OP_gradient_sum;
}

// Whether an operator reads running statistics, which it may change.
static bool moves_states(const ckm_graph *step, int32_t v)
{
    const ckm_i_graph_op *op = &step->ops[v];
    for (int32_t k = 0; k < op->n_inputs && !is_gradient_sum(step, v); k++) {
        if (op->inputs[k] >= 0 && step->tensors[op->inputs[k]].role == CKM_ROLE_STATE) {
            return true;
        }
    }
    return false;
}

static void bind_call(binding *b, int64_t at, int32_t v)
{
    ckm_session *session = b->session;
    const ckm_i_graph_op *op = &session->program->training->step->ops[v];
    const ckm_i_dataflow_op *flow = &b->df->ops[v];
    int32_t workspace = -1;
    ckm_plan_get_step(b->plan, at, b->inputs, b->outputs, &workspace);
    void **inputs = session->pointers + b->n_pointers;
    void **outputs = inputs + op->n_inputs;
    for (int32_t k = 0; k < op->n_inputs; k++) {
        int32_t tensor = op->inputs[k];
        int32_t place = position_of(flow->inputs, flow->n_inputs, tensor);
        inputs[k] = place < 0 ? NULL : address_of(b, tensor, b->inputs[place]);
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int32_t tensor = op->outputs[k];
        int32_t place = position_of(flow->outputs, flow->n_outputs, tensor);
        outputs[k] = place < 0 ? NULL : address_of(b, tensor, b->outputs[place]);
    }
    b->n_pointers += (int64_t)op->n_inputs + op->n_outputs;
    ckm_i_bound_call *call = &session->calls[session->n_calls++];
    call->kernel = session->program->kernels[v];
    call->call.inputs = (const void *const *)inputs;
    call->call.outputs = outputs;
    call->call.op = v;
    call->call.first = !b->computed[v];
    if (workspace >= 0) {
        call->call.workspace = session->region + session->arena_at + ckm_plan_get_instance(b->plan, workspace).offset;
    }
    call->updates = is_update(session->program->training, v);
    call->moves_states = !call->updates && moves_states(session->program->training->step, v);
    b->computed[v] = true;
}

// Refuses a schedule that computes an operator after the update of a parameter that it reads: legal for a dataflow graph,
// to which parameters are inputs that never change, but not the same numbers.
static ckm_status check_updates(const binding *b, ckm_error *err)
{
    const ckm_training *t = b->session->program->training;
    bool *updated = ckm_i_calloc((size_t)b->df->n_tensors, sizeof *updated);
    if (updated == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    for (int64_t at = 0; at < ckm_schedule_step_count(b->s); at++) {
        ckm_step step = ckm_schedule_get_step(b->s, at);
        if (step.kind != CKM_STEP_COMPUTE) {
            continue;
        }
        const ckm_i_dataflow_op *flow = &b->df->ops[step.index];
        for (int32_t k = 0; k < flow->n_inputs; k++) {
            if (updated[b->df->tensors[flow->inputs[k]].storage]) {
                status = ckm_i_error(err, CKM_ERR_ARGUMENT,
                                     "the schedule computes \"%s\" after the update of \"%s\", which it reads",
                                     flow->name, b->df->tensors[flow->inputs[k]].name);
                goto cleanup;
            }
        }
        if (t->ops[step.index].phase == CKM_I_UPDATE) {
            updated[b->df->tensors[t->step->ops[step.index].inputs[0]].storage] = true;
        }
    }
cleanup:
    free(updated);
    return status;
}

static void count_calls(const ckm_program *p, const ckm_schedule *s, int64_t *n_calls, int64_t *n_pointers)
{
    *n_calls = 0;
    *n_pointers = 0;
    for (int64_t at = 0; at < ckm_schedule_step_count(s); at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        if (step.kind == CKM_STEP_COMPUTE && p->kernels[step.index] != NULL) {
            const ckm_i_graph_op *op = &p->training->step->ops[step.index];
            *n_calls += 1;
            *n_pointers += (int64_t)op->n_inputs + op->n_outputs;
        }
    }
}

// Tensors without a producer, and the results.
static int32_t count_tensors(const ckm_training *t)
{
    int32_t n = t->n_results;
    for (int32_t x = 0; x < t->n_values; x++) {
        n += t->step->tensors[x].producer < 0;
    }
    return n;
}

int64_t ckm_i_session_table_bytes(const ckm_program *program, const ckm_schedule *s)
{
    const ckm_session *session = NULL;
    int64_t n_calls;
    int64_t n_pointers;
    count_calls(program, s, &n_calls, &n_pointers);
    return n_calls * (int64_t)sizeof *session->calls + n_pointers * (int64_t)sizeof *session->pointers +
           count_tensors(program->training) *
               (int64_t)(sizeof *session->tensors + sizeof *session->addresses + sizeof *session->values) +
           ckm_i_session_move_bytes(program, s);
}

// Room for all calls and their pointers, then the calls.
static ckm_status bind_calls(binding *b, ckm_error *err)
{
    ckm_session *session = b->session;
    const ckm_program *p = session->program;
    int64_t n_calls;
    int64_t n_pointers;
    int32_t most = 0;
    CKM_I_CHECK(check_updates(b, err));
    count_calls(p, b->s, &n_calls, &n_pointers);
    for (int32_t v = 0; v < b->df->n_ops; v++) {
        most = b->df->ops[v].n_inputs > most ? b->df->ops[v].n_inputs : most;
        most = b->df->ops[v].n_outputs > most ? b->df->ops[v].n_outputs : most;
    }
    session->calls = ckm_i_calloc((size_t)n_calls, sizeof *session->calls);
    session->pointers = ckm_i_calloc((size_t)n_pointers, sizeof *session->pointers);
    b->inputs = ckm_i_malloc((size_t)most, sizeof *b->inputs);
    b->outputs = ckm_i_malloc((size_t)most, sizeof *b->outputs);
    b->computed = ckm_i_calloc((size_t)b->df->n_ops, sizeof *b->computed);
    if (session->calls == NULL || session->pointers == NULL || b->inputs == NULL || b->outputs == NULL ||
        b->computed == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t at = 0; at < ckm_schedule_step_count(b->s); at++) {
        ckm_step step = ckm_schedule_get_step(b->s, at);
        if (step.kind == CKM_STEP_COMPUTE && p->kernels[step.index] != NULL) {
            bind_call(b, at, step.index);
        }
    }
    return CKM_OK;
}

// The instance that holds a result when the step ends.
static int32_t last_instance(const binding *b, int32_t storage)
{
    int64_t last = ckm_schedule_step_count(b->s) - 1;
    for (int32_t i = ckm_plan_instance_count(b->plan) - 1; i >= 0; i--) {
        ckm_plan_instance instance = ckm_plan_get_instance(b->plan, i);
        if (instance.tensor == storage && instance.last == last) {
            return i;
        }
    }
    return -1;
}

// Whether only updates read this state, or what adds gradients up for them: then it is the optimizer's.
static bool is_optimizer_state(const ckm_training *t, const ckm_dataflow *df, int32_t value)
{
    const ckm_i_dataflow_tensor *tensor = &df->tensors[value];
    for (int32_t k = 0; k < tensor->n_users; k++) {
        if (!is_update(t, tensor->users[k]) && !is_gradient_sum(t->step, tensor->users[k])) {
            return false;
        }
    }
    return tensor->n_users > 0;
}

static void count_memory(ckm_session *session, const ckm_dataflow *df, int32_t value)
{
    const ckm_training *t = session->program->training;
    ckm_session_memory *m = &session->memory;
    int64_t bytes = 0;
    if (!ckm_i_round_up(df->tensors[value].bytes, CKM_I_ALIGNMENT, &bytes)) {
        return;  // refused when the region was laid out
    }
    switch (t->step->tensors[value].role) {
    case CKM_ROLE_PARAMETER:
        m->parameter_bytes += bytes;
        break;
    case CKM_ROLE_STATE:
        *(is_optimizer_state(t, df, value) ? &m->optimizer_bytes : &m->state_bytes) += bytes;
        break;
    case CKM_ROLE_CONSTANT:
        m->constant_bytes += bytes;
        break;
    case CKM_ROLE_INPUT:
    case CKM_ROLE_ACTIVATION:
        m->data_bytes += bytes;
        break;
    }
}

// The axis of an operator's first input that its second holds positions of, or -1.
static int64_t indexed_axis(const ckm_graph *step, const ckm_i_graph_op *op)
{
    ckm_i_indexed indexed = op->op_class->indexed;
    if (indexed == CKM_I_INDEXED_NONE) {
        return -1;
    }
    int64_t axis = ckm_i_op_attr_int(op, "axis", 0, indexed == CKM_I_INDEXED_LAST_AXIS ? -1 : 0);
    return axis < 0 ? axis + step->tensors[op->inputs[0]].shape.rank : axis;
}

// Whether `tensor` is the value, directly or through operators that pass it on.
static bool stems_from(const ckm_graph *step, int32_t tensor, int32_t value)
{
    while (tensor >= 0 && tensor != value) {
        int32_t producer = step->tensors[tensor].producer;
        const ckm_i_graph_op *op = producer >= 0 ? &step->ops[producer] : NULL;
        bool handed_on = op != NULL && op->n_inputs > 0 && op->outputs[0] == tensor &&
                         op->op_class->hands_on != CKM_I_HANDS_ON_NOTHING;
        tensor = handed_on ? op->inputs[0] : -1;
    }
    return tensor == value;
}

// How many values an integer tensor may hold, from the operators that read it: rows of a table, classes. 0: not known.
int64_t ckm_i_session_value_limit(const ckm_graph *step, int32_t value)
{
    int64_t limit = 0;
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        if (op->n_inputs > 1 && indexed_axis(step, op) >= 0 && stems_from(step, op->inputs[1], value)) {
            int64_t found = step->tensors[op->inputs[0]].shape.dims[indexed_axis(step, op)];
            limit = found > 0 && (limit == 0 || found < limit) ? found : limit;
        }
    }
    return limit;
}

static void add_tensor(ckm_session *session, int32_t value, char *address, int64_t limit)
{
    const ckm_training *t = session->program->training;
    const ckm_i_graph_tensor *tensor = &t->step->tensors[value];
    int32_t i = session->n_tensors++;
    session->tensors[i] = (ckm_session_tensor){.name = tensor->name,
                                               .role = tensor->role,
                                               .dtype = tensor->dtype,
                                               .shape = tensor->shape,
                                               .bytes = ckm_i_session_value_bytes(t->step, value),
                                               .limit = limit};
    session->addresses[i] = address;
    session->values[i] = value;
    session->labels = value == t->labels ? i : session->labels;
    session->loss = value == t->loss ? i : session->loss;
    session->correct = value == t->correct ? i : session->correct;
}

// Tensors without a producer, then the results.
static ckm_status list_tensors(const binding *b, ckm_error *err)
{
    ckm_session *session = b->session;
    const ckm_training *t = session->program->training;
    int32_t n = count_tensors(t);
    session->tensors = ckm_i_calloc((size_t)n, sizeof *session->tensors);
    session->addresses = ckm_i_calloc((size_t)n, sizeof *session->addresses);
    session->values = ckm_i_calloc((size_t)n, sizeof *session->values);
    if (session->tensors == NULL || session->addresses == NULL || session->values == NULL) {
        return ckm_i_error_memory(err);
    }
    session->memory.table_bytes += ckm_i_session_table_bytes(session->program, b->s);
    for (int32_t x = 0; x < t->n_values; x++) {
        const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
        if (tensor->pinned && tensor->storage == x) {
            count_memory(session, b->df, x);
        }
        if (t->step->tensors[x].producer < 0) {
            bool counted = t->step->tensors[x].role == CKM_ROLE_INPUT && t->step->tensors[x].dtype != CKM_F32;
            int64_t limit = counted ? ckm_i_session_value_limit(t->step, x) : 0;
            add_tensor(session, x, address_of(b, x, -1), limit);
        }
    }
    for (int32_t k = 0; k < t->n_results; k++) {
        int32_t x = t->results[k];
        if (t->step->tensors[x].producer >= 0) {
            int32_t instance = b->df->tensors[x].pinned ? -1 : last_instance(b, b->df->tensors[x].storage);
            if (instance < 0 && !b->df->tensors[x].pinned) {
                return ckm_i_error(err, CKM_ERR_ARGUMENT, "the schedule does not keep the result \"%.100s\"",
                                   t->step->tensors[x].name);
            }
            add_tensor(session, x, address_of(b, x, instance), 0);
        }
    }
    return CKM_OK;
}

static ckm_status allocate(binding *b, bool prefault, ckm_error *err)
{
    ckm_session *session = b->session;
    ckm_session_memory *m = &session->memory;
    int64_t region;
    b->resident = ckm_i_malloc((size_t)b->df->n_tensors, sizeof *b->resident);
    if (b->resident == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_region_lay_out(b->df, b->resident, &session->arena_at, err));
    CKM_I_CHECK(ckm_run_region_bytes(b->df, b->plan, &region, err));
    ckm_i_backend *backend = session->program->backend;
    if (region > 0) {
        CKM_I_CHECK(backend->memory->allocate(backend, region, prefault, &session->region, err));
    }
    m->region_bytes = region;
    m->arena_bytes = ckm_plan_get_info(b->plan)->arena_bytes;
    m->workspace_bytes = ckm_plan_get_info(b->plan)->workspace_bytes;
    m->padding_bytes = region - session->arena_at - m->arena_bytes;
    return CKM_OK;
}

// Everything is in the host's region already.
static ckm_status borrow(binding *b, const ckm_session *host, ckm_error *err)
{
    ckm_session *session = b->session;
    const ckm_graph *step = session->program->training->step;
    b->resident = ckm_i_malloc((size_t)b->df->n_tensors, sizeof *b->resident);
    if (b->resident == NULL) {
        return ckm_i_error_memory(err);
    }
    session->region = host->region;
    session->borrows = true;
    session->arena_at = host->arena_at;
    session->memory.arena_bytes = ckm_plan_get_info(b->plan)->arena_bytes;
    int64_t room = host->memory.arena_bytes + host->memory.padding_bytes;
    if (session->memory.arena_bytes > room) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "an arena of %lld bytes is not within one of %lld",
                           (long long)session->memory.arena_bytes, (long long)room);
    }
    for (int32_t x = 0; x < b->df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
        b->resident[x] = -1;
        if (!tensor->pinned || tensor->storage != x) {
            continue;
        }
        const ckm_i_graph_tensor *own = &step->tensors[x];
        int32_t i = ckm_session_find_tensor(host, own->name);
        if (i < 0 || host->tensors[i].dtype != own->dtype ||
            !ckm_i_shapes_equal(&host->tensors[i].shape, &own->shape)) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "the session has no tensor \"%.200s\" to share", own->name);
        }
        b->resident[x] = host->addresses[i] - host->region;
    }
    return CKM_OK;
}

static ckm_status prepare_trace(ckm_session *session, ckm_error *err)
{
    const ckm_graph *step = session->program->training->step;
    int64_t largest = 1;
    session->trace = ckm_i_calloc((size_t)session->program->n_ops, sizeof *session->trace);
    if (!session->program->backend->memory->host) {
        for (int32_t x = 0; x < step->n_tensors; x++) {
            int64_t bytes = ckm_i_session_value_bytes(step, x);
            largest = bytes > largest ? bytes : largest;
        }
        session->trace_room = ckm_i_malloc((size_t)largest, 1);
        if (session->trace_room == NULL) {
            return ckm_i_error_memory(err);
        }
    }
    return session->trace != NULL ? CKM_OK : ckm_i_error_memory(err);
}

ckm_status ckm_i_session_create(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                const ckm_plan *plan, const ckm_session_options *o, const ckm_i_session_making *making,
                                ckm_session **out, ckm_error *err)
{
    const ckm_session *host = making->host;
    ckm_status status;
    binding b = {.df = df, .s = s, .plan = plan};
    ckm_session *session = ckm_i_calloc(1, sizeof *session);
    if (session == NULL) {
        return ckm_i_error_memory(err);
    }
    b.session = session;
    session->program = program;
    session->seed = o->seed;
    session->stop = making->stop;
    session->stop_user = making->user;
    session->labels = -1;
    session->loss = -1;
    session->correct = -1;
    session->first_mismatch = -1;
    CKM_I_TRY(check_alignment(program->backend, err));
    CKM_I_TRY(check_graph(program, df, err));
    CKM_I_TRY(check_plan(df, s, plan, err));
    CKM_I_TRY(host != NULL ? borrow(&b, host, err) : allocate(&b, o->prefault, err));
    CKM_I_TRY(bind_calls(&b, err));
    CKM_I_TRY(list_tensors(&b, err));
    CKM_I_TRY(ckm_i_session_bind_moves(session, df, s, plan, err));
    if (o->trace) {
        CKM_I_TRY(prepare_trace(session, err));
    }
    if (host == NULL && !making->empty) {
        CKM_I_TRY(ckm_session_initialize(session, o->seed, err));
    }
    session->stop = NULL;
    *out = session;
    session = NULL;
cleanup:
    ckm_session_free(session);
    free(b.resident);
    free(b.inputs);
    free(b.outputs);
    free(b.computed);
    return status;
}

ckm_status ckm_session_create(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan,
                              const ckm_session_options *options, ckm_session **out, ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_session_options o = CKM_SESSION_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_session_options, &o, seed, options, err));
    return ckm_i_session_create(program, df, s, plan, &o, &(ckm_i_session_making){.stop = NULL}, out, err);
}

ckm_status ckm_i_session_create_within(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                       const ckm_plan *plan, const ckm_session *host, ckm_session **out, ckm_error *err)
{
    const ckm_session_options o = {.size = sizeof o, .seed = host->seed};
    return ckm_i_session_create(program, df, s, plan, &o, &(ckm_i_session_making){.host = host}, out, err);
}

void ckm_session_free(ckm_session *session)
{
    if (session != NULL) {
        ckm_i_backend *backend = session->program->backend;
        ckm_i_session_free_moves(session);
        if (session->region != NULL && !session->borrows) {
            backend->memory->release(backend, session->region, session->memory.region_bytes);
        }
        free(session->tensors);
        free(session->addresses);
        free(session->values);
        free(session->calls);
        free(session->pointers);
        free(session->trace);
        free(session->trace_room);
        free(session->call_nanoseconds);
        free(session->marks);
        free(session);
    }
}

ckm_session_memory ckm_session_get_memory(const ckm_session *session)
{
    return session != NULL ? session->memory : (ckm_session_memory){0};
}

int32_t ckm_session_tensor_count(const ckm_session *session)
{
    return session != NULL ? session->n_tensors : 0;
}

ckm_session_tensor ckm_session_get_tensor(const ckm_session *session, int32_t i)
{
    if (session == NULL || i < 0 || i >= session->n_tensors) {
        return (ckm_session_tensor){.name = ""};
    }
    return session->tensors[i];
}

int32_t ckm_session_find_tensor(const ckm_session *session, const char *name)
{
    for (int32_t i = 0; session != NULL && name != NULL && i < session->n_tensors; i++) {
        if (strcmp(session->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int32_t ckm_session_labels(const ckm_session *session)
{
    return session != NULL ? session->labels : -1;
}

int32_t ckm_session_loss(const ckm_session *session)
{
    return session != NULL ? session->loss : -1;
}

int32_t ckm_session_correct(const ckm_session *session)
{
    return session != NULL ? session->correct : -1;
}
