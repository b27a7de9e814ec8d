// SPDX-License-Identifier: Apache-2.0
// Every exported function, called as it should be, with a way to put NULL in the place of each of its pointers; and
// what such calls need. For test_null_arguments.c.
#ifndef CKM_TESTS_API_CALLS_H
#define CKM_TESTS_API_CALLS_H

#include <stddef.h>
#include <string.h>

#include <checkmate/checkmate.h>

// A graph of five operators.
extern const char api_graph_text[];
extern const size_t api_graph_size;

// One of everything that functions take.
typedef struct api_world {
    ckm_dataflow *df, *open_df;
    ckm_schedule *schedule, *drawn;
    ckm_plan *plan;
    ckm_emit_facts *facts;
    ckm_graph *graph;
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *step_df;
    ckm_schedule *step_schedule;
    ckm_plan *step_plan;
    ckm_session *session;
    ckm_profile *profile;
    ckm_train_fields fields;
    ckm_trainer *trainer;  // while the calls that need one are made
} api_world;

// Goes through all calls: to list them, or to make one of them.
typedef struct api_visitor {
    api_world *w;
    int wanted, null;  // the call to make, and which of its pointers is NULL; -1: none
    int at;
    const char *name;
    int n_pointers;
    unsigned optional;
    bool any_status, gives_status;
    ckm_status status;
    ckm_error error;
    const char *failed;  // the first call that gave an error or a wrong value, where all are made
    ckm_status failed_status;
    ckm_error failed_error;
    bool right;  // of a call that gives a value
    void (*seen)(const char *name, void *user);
    void *user;
} api_visitor;

// Whether what several calls need could be made.
bool api_prepares(api_visitor *v, const char *name, ckm_status status);

enum { API_EVERY = -2 };  // wanted: all calls, one after the other

// Whether the next call is the one to make; notes what there is to know of it.
bool api_enter(api_visitor *v, const char *name, int n_pointers);

// P(i, p) is the i-th pointer of a call. The last one of a STATUS is the error, and may be NULL.
#define P(i, p) (v->null == (i) ? NULL : (p))
#define NULLED(i) (v->null == (i))
#define STATUS(function, n, may_be_null, call)       \
    if (api_enter(v, #function, n)) {                \
        v->optional = (may_be_null) | 1U << ((n)-1); \
        v->gives_status = true;                      \
        v->status = (call);                          \
    }
// What the undisturbed call gives depends on more than its arguments: programs installed, measured times.
#define TRIES(function, n, may_be_null, call)                                    \
    STATUS(function, n, may_be_null, call)                                       \
    if ((v->wanted == API_EVERY || v->at - 1 == v->wanted) && v->gives_status) { \
        v->any_status = true;                                                    \
    }
#define VALUE(function, n, is_right)  \
    if (api_enter(v, #function, n)) { \
        v->right = (is_right);        \
    }
#define DONE(function, n, call)       \
    if (api_enter(v, #function, n)) { \
        call;                         \
    }

// Files are written to the current folder.
ckm_status api_set_up(api_world *w, ckm_error *err) CKM_NODISCARD;
void api_tear_down(api_world *w);

void api_visit(api_visitor *v);
void api_visit_base(api_visitor *v);
void api_visit_dataflow(api_visitor *v, ckm_error *err);
void api_visit_schedule(api_visitor *v, ckm_error *err);
void api_visit_solve(api_visitor *v, ckm_error *err);
void api_visit_plan(api_visitor *v, ckm_error *err);
void api_visit_emit(api_visitor *v, ckm_error *err);
void api_visit_graph(api_visitor *v, ckm_error *err);
void api_visit_import(api_visitor *v, ckm_error *err);
void api_visit_cost(api_visitor *v, ckm_error *err);
void api_visit_run(api_visitor *v, ckm_error *err);
void api_visit_session(api_visitor *v, ckm_error *err);
void api_visit_profile(api_visitor *v, ckm_error *err);
void api_visit_data(api_visitor *v, ckm_error *err);
void api_visit_train(api_visitor *v, ckm_error *err);
void api_visit_network(api_visitor *v, ckm_error *err);
void api_visit_trainer(api_visitor *v, ckm_error *err);

#endif
