// SPDX-License-Identifier: Apache-2.0
// Calls of what builds networks and of what trains them.
#include "api_calls.h"

#include <stdlib.h>

// Layers of a small network, in the order in which they are made.
typedef struct layers {
    ckm_network *net;
    ckm_layer image, tokens, words;
    ckm_status status;  // of making it
} layers;

static const int64_t image_dims[3] = {8, 8, 2};
static const int64_t text_dims[1] = {4};

// For one call alone: an undisturbed network with its inputs. Freed when it has been used.
static layers *begin(layers *l, ckm_error *err)
{
    l->status = ckm_network_create("made", 2, &l->net, err);
    if (l->status == CKM_OK) {
        l->image = ckm_network_input(l->net, "image", CKM_F32, 3, image_dims);
        l->tokens = ckm_network_input(l->net, "tokens", CKM_I32, 1, text_dims);
        l->words = ckm_network_embed(l->net, l->tokens, "words", 10, 8);
    }
    return l;
}

// The status of adding layer x: without a network there is none; with one, errors stick and `finish` reports them.
static ckm_status made(const api_visitor *v, layers *l, ckm_layer x, ckm_error *err)
{
    ckm_graph *graph = NULL;
    ckm_status status = l->status;
    if (status == CKM_OK && NULLED(0)) {
        status = x == -1 ? CKM_OK : CKM_ERR_INTERNAL;
    } else if (status == CKM_OK && x < 0) {
        status = ckm_network_finish(l->net, x, &graph, err);
    }
    ckm_network_free(l->net);
    ckm_graph_free(graph);
    l->net = NULL;
    return status;
}

#define LAYER(function, call) STATUS(function, 1, 0, ((void)begin(&l, err), made(v, &l, (call), err)))

static ckm_status finish(const api_visitor *v, layers *l, ckm_graph **graph, ckm_error *err)
{
    if (begin(l, err)->status != CKM_OK) {
        return l->status;
    }
    ckm_layer x = ckm_network_dense(l->net, ckm_network_flatten(l->net, l->image, NULL), NULL, 3, NULL);
    ckm_status status = ckm_network_finish(P(0, l->net), x, P(1, graph), P(2, err));
    ckm_network_free(l->net);
    l->net = NULL;
    return status;
}

void api_visit_network(api_visitor *v, ckm_error *err)
{
    layers l = {NULL, -1, -1, -1, CKM_OK};
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    const ckm_conv_layer conv = {.filters = 4, .kernel = {3}};
    const ckm_pool_layer pool = {.size = {2}};
    const ckm_batch_norm_layer norm = {.name = NULL};
    const ckm_attention_layer heads = {.heads = 2};
    STATUS(ckm_network_create, 3, 0, ckm_network_create(P(0, "made"), 2, P(1, &net), P(2, err)))
    DONE(ckm_network_free, 1, ckm_network_free(NULL))
    DONE(ckm_network_set_task, 1, ckm_network_set_task(NULL, CKM_TASK_CLASSES))
    LAYER(ckm_network_input, ckm_network_input(P(0, l.net), "other", CKM_F32, 3, image_dims))
    VALUE(ckm_network_shape, 1, ckm_network_shape(NULL, 0).rank == 0)
    STATUS(ckm_network_finish, 3, 0, finish(v, &l, &graph, err))
    LAYER(ckm_network_conv, ckm_network_conv(P(0, l.net), l.image, conv))
    LAYER(ckm_network_conv_transpose, ckm_network_conv_transpose(P(0, l.net), l.image, conv))
    LAYER(ckm_network_depthwise_conv, ckm_network_depthwise_conv(P(0, l.net), l.image, conv))
    LAYER(ckm_network_max_pool, ckm_network_max_pool(P(0, l.net), l.image, pool))
    LAYER(ckm_network_average_pool, ckm_network_average_pool(P(0, l.net), l.image, pool))
    LAYER(ckm_network_global_average_pool, ckm_network_global_average_pool(P(0, l.net), l.image, NULL))
    LAYER(ckm_network_batch_norm, ckm_network_batch_norm(P(0, l.net), l.image, norm))
    LAYER(ckm_network_layer_norm, ckm_network_layer_norm(P(0, l.net), l.words, NULL, 0))
    LAYER(ckm_network_rms_norm, ckm_network_rms_norm(P(0, l.net), l.words, NULL, 0))
    LAYER(ckm_network_dense, ckm_network_dense(P(0, l.net), l.words, NULL, 4, NULL))
    LAYER(ckm_network_activation, ckm_network_activation(P(0, l.net), l.words, NULL, "relu"))
    LAYER(ckm_network_dropout, ckm_network_dropout(P(0, l.net), l.words, NULL, 0.5))
    LAYER(ckm_network_add, ckm_network_add(P(0, l.net), NULL, (ckm_layer[]){l.words, l.words}, 2))
    LAYER(ckm_network_multiply, ckm_network_multiply(P(0, l.net), NULL, l.words, l.words))
    LAYER(ckm_network_concat, ckm_network_concat(P(0, l.net), NULL, (ckm_layer[]){l.words, l.words}, 2))
    LAYER(ckm_network_flatten, ckm_network_flatten(P(0, l.net), l.image, NULL))
    LAYER(ckm_network_reshape, ckm_network_reshape(P(0, l.net), l.image, NULL, 1, (const int64_t[]){128}))
    LAYER(ckm_network_embed, ckm_network_embed(P(0, l.net), l.tokens, NULL, 10, 4))
    LAYER(ckm_network_add_positions, ckm_network_add_positions(P(0, l.net), l.words, NULL))
    LAYER(ckm_network_attention, ckm_network_attention(P(0, l.net), l.words, l.words, l.words, heads))
    VALUE(ckm_network_input, 1,
          begin(&l, err)->status != CKM_OK || ckm_network_input(l.net, NULL, CKM_F32, 1, text_dims) == -1)
    VALUE(ckm_network_input, 1,
          begin(&l, err)->status != CKM_OK || ckm_network_input(l.net, "x", CKM_F32, 1, NULL) == -1)
    VALUE(ckm_network_add, 1, begin(&l, err)->status != CKM_OK || ckm_network_add(l.net, NULL, NULL, 2) == -1)
    VALUE(ckm_network_concat, 1, begin(&l, err)->status != CKM_OK || ckm_network_concat(l.net, NULL, NULL, 2) == -1)
    VALUE(ckm_network_reshape, 1,
          begin(&l, err)->status != CKM_OK || ckm_network_reshape(l.net, l.image, NULL, 2, NULL) == -1)
    VALUE(ckm_network_activation, 1,
          begin(&l, err)->status != CKM_OK || ckm_network_activation(l.net, l.image, NULL, NULL) == -1)
    ckm_network_free(l.net);
    ckm_network_free(net);
    ckm_graph_free(graph);
}

static ckm_trainer_options plain_options(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    static const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 8};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    return options;
}

// The trainer, begun; NULL where that cannot be.
static ckm_trainer *begun(api_world *w, ckm_error *err)
{
    bool has_begun = ckm_trainer_session(w->trainer) != NULL || ckm_trainer_begin(w->trainer, err) == CKM_OK;
    return has_begun ? w->trainer : NULL;
}

static ckm_inference_options forward_options(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.kernels = &kernels;
    return options;
}

// One that has run, everything in it zero.
static ckm_status run_forward(const ckm_graph *graph, ckm_inference **made, ckm_error *err)
{
    const ckm_inference_options options = forward_options();
    ckm_status status = ckm_inference_open(graph, &options, made, err);
    for (int32_t i = 0; status == CKM_OK && i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        if (t.role != CKM_ROLE_ACTIVATION) {
            size_t elements = 1;
            for (int32_t d = 0; d < t.shape.rank; d++) {
                elements *= (size_t)t.shape.dims[d];
            }
            void *zeros = calloc(elements, sizeof(int64_t));  // the widest kind
            status = zeros == NULL ? CKM_ERR_MEMORY : ckm_inference_set(*made, t.name, t.dtype, &t.shape, zeros, err);
            free(zeros);
        }
    }
    return status == CKM_OK ? ckm_inference_run(*made, NULL, err) : status;
}

static ckm_status set_first(const api_visitor *v, ckm_inference *f, ckm_error *err)
{
    ckm_session_tensor x = ckm_inference_input(f, 0);
    void *zeros = calloc(1, (size_t)x.bytes);
    ckm_status status = zeros == NULL
                            ? CKM_ERR_MEMORY
                            : ckm_inference_set(P(0, f), P(1, x.name), x.dtype, P(2, &x.shape), P(3, zeros), P(4, err));
    free(zeros);
    return status;
}

static ckm_status read_first(const api_visitor *v, ckm_inference *f, ckm_error *err)
{
    // What is written is the output, which is no input: that its shape differs shows that it was read.
    const ckm_inference_file file = {0, "out.npy"};
    ckm_status status = ckm_inference_write_npy(f, &file, 1, err);
    if (status == CKM_OK) {
        status = ckm_inference_read_npy(P(0, f), P(1, ckm_inference_input(f, 0).name), P(2, "out.npy"), P(3, err));
        status = status == CKM_ERR_ARGUMENT && (v->null < 0 || v->null == 3) ? CKM_OK : status;
    }
    return status;
}

static ckm_status get_first(const api_visitor *v, ckm_inference *f, ckm_error *err)
{
    const int64_t bytes = ckm_inference_output(f, 0).bytes;
    void *room = malloc((size_t)bytes);
    ckm_status status = room == NULL ? CKM_ERR_MEMORY : ckm_inference_get(P(0, f), 0, P(1, room), bytes, P(2, err));
    free(room);
    return status;
}

static ckm_status describe_file(const api_visitor *v, ckm_inference *f, ckm_error *err)
{
    const ckm_inference_file file = {0, "out.npy"};
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_status status = ckm_inference_write_npy(f, &file, 1, err);
    return status != CKM_OK ? status : ckm_npy_describe(P(0, "out.npy"), P(1, &dtype), P(2, &shape), P(3, err));
}

static void visit_inference(api_visitor *v, ckm_error *err)
{
    const ckm_graph *graph = v->w->graph;
    const ckm_inference_options options = forward_options();
    const ckm_inference_file file = {0, "out.npy"};
    ckm_inference *made = NULL;
    ckm_inference *f = NULL;
    double seconds;
    int64_t bytes = 0;
    char note[64];
    bool found;
    char **names = NULL;
    int64_t n_names = 0;
    STATUS(ckm_inference_plan, 4, 0, ckm_inference_plan(P(0, graph), P(1, &options), P(2, &made), P(3, err)))
    ckm_inference_close(made);
    made = NULL;
    STATUS(ckm_inference_open, 4, 0, ckm_inference_open(P(0, graph), P(1, &options), P(2, &made), P(3, err)))
    ckm_inference_close(made);
    made = NULL;
    if (!api_prepares(v, "ckm_inference_plan", ckm_inference_plan(graph, &options, &made, &v->error))) {
        return;
    }
    STATUS(ckm_inference_begin, 2, 0, ckm_inference_begin(P(0, made), P(1, err)))
    if (!api_prepares(v, "ckm_inference_run", run_forward(graph, &f, &v->error))) {
        ckm_inference_close(f);
        ckm_inference_close(made);
        return;
    }
    STATUS(ckm_inference_run, 3, 1U << 1, ckm_inference_run(P(0, f), P(1, &seconds), P(2, err)))
    STATUS(ckm_inference_set, 5, 0, set_first(v, f, err))
    STATUS(ckm_inference_get, 3, 0, get_first(v, f, err))
    STATUS(ckm_inference_read_npy, 4, 0, read_first(v, f, err))
    TRIES(ckm_inference_read_picture, 4, 0,
          ckm_inference_read_picture(P(0, f), P(1, ckm_inference_input(f, 0).name), 0, P(2, "none.png"),
                                     CKM_SCALING_UNIT, P(3, err)))
    TRIES(ckm_picture_bytes, 3, 0, ckm_picture_bytes(P(0, "none.png"), P(1, &bytes), P(2, err)))
    VALUE(ckm_picture_is_read, 1, ckm_picture_is_read(P(0, "a.png")) == !NULLED(0))
    STATUS(ckm_inference_write_npy, 3, 0, ckm_inference_write_npy(P(0, f), P(1, &file), 1, P(2, err)))
    STATUS(ckm_inference_export, 3, 0, ckm_inference_export(P(0, f), P(1, "out.safetensors"), P(2, err)))
    STATUS(ckm_inference_read_note, 5, 0,
           ckm_inference_read_note(P(0, "out.safetensors"), P(1, "network"), P(2, note), sizeof note, P(3, &found),
                                   P(4, err)))
    STATUS(ckm_inference_read_class_names, 4, 0,
           ckm_inference_read_class_names(P(0, "out.safetensors"), P(1, &names), P(2, &n_names), P(3, err)))
    STATUS(ckm_npy_describe, 4, 0, describe_file(v, f, err))
    VALUE(ckm_inference_get_info, 1, ckm_inference_get_info(P(0, made)).fits == !NULLED(0))
    VALUE(ckm_inference_program, 1, (ckm_inference_program(P(0, made)) == NULL) == NULLED(0))
    VALUE(ckm_inference_input_count, 1, (ckm_inference_input_count(P(0, f)) == 0) == NULLED(0))
    VALUE(ckm_inference_input, 1, (ckm_inference_input(P(0, f), 0).bytes == 0) == NULLED(0))
    VALUE(ckm_inference_output_count, 1, (ckm_inference_output_count(P(0, f)) == 0) == NULLED(0))
    VALUE(ckm_inference_output, 1, (ckm_inference_output(P(0, f), 0).bytes == 0) == NULLED(0))
    DONE(ckm_inference_close, 1, ckm_inference_close(NULL))
    ckm_inference_close(made);
    ckm_inference_close(f);
}

static ckm_status read_nothing(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)sample;
    (void)inputs;
    (void)labels;
    (void)err;
    return CKM_OK;
}

void api_visit_trainer(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_trainer_options options = plain_options();
    ckm_trainer *opened = NULL;
    ckm_trainer *planned = NULL;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    ckm_compare_result compared;
    ckm_timing timing;
    ckm_trainer_sizes sizes;
    ckm_data_source source = {.samples = 8, .read = read_nothing};
    ckm_data_options reading = CKM_DATA_OPTIONS_INIT;
    ckm_data *data = NULL;
    ckm_solve_options search = CKM_SOLVE_OPTIONS_INIT;
    ckm_run_fit fit = {0};
    ckm_solve_result solved = {.schedule = NULL};
    reading.n_inputs = w->fields.n_inputs;
    reading.inputs = w->fields.inputs;
    reading.labels = w->fields.labels;
    if (!api_prepares(v, "ckm_trainer_plan", ckm_trainer_plan(w->graph, &options, &w->trainer, &v->error))) {
        return;
    }
    STATUS(ckm_data_open_source, 4, 0, ckm_data_open_source(P(0, &source), P(1, &reading), P(2, &data), P(3, err)))
    STATUS(ckm_trainer_fit, 5, 1U << 3,
           ckm_trainer_fit(P(0, w->step_df), INT64_C(1) << 40, 0, P(1, &search), P(2, &fit), P(3, &solved), P(4, err)))
    STATUS(ckm_trainer_plan, 4, 0, ckm_trainer_plan(P(0, w->graph), P(1, &options), P(2, &planned), P(3, err)))
    STATUS(ckm_trainer_open, 4, 0, ckm_trainer_open(P(0, w->graph), P(1, &options), P(2, &opened), P(3, err)))
    VALUE(ckm_trainer_get_info, 1, ckm_trainer_get_info(P(0, w->trainer)).fits == !NULLED(0))
    VALUE(ckm_trainer_session, 1, ckm_trainer_session(P(0, w->trainer)) == NULL)
    STATUS(ckm_trainer_check, 3, 0, ckm_trainer_check(P(0, w->trainer), 1, 0.1, P(1, &compared), P(2, err)))
    STATUS(ckm_trainer_time, 3, 0, ckm_trainer_time(P(0, w->trainer), 1, P(1, &timing), P(2, err)))
    ckm_second_memory second;
    VALUE(ckm_trainer_get_second_memory, 2, !ckm_trainer_get_second_memory(P(0, w->trainer), P(1, &second)))
    VALUE(ckm_trainer_get_validation, 1, !ckm_trainer_get_validation(P(0, w->trainer)).there)
    STATUS(ckm_trainer_get_sizes, 3, 0, ckm_trainer_get_sizes(P(0, w->trainer), P(1, &sizes), P(2, err)))
    STATUS(ckm_trainer_begin, 2, 0, ckm_trainer_begin(P(0, w->trainer), P(1, err)))
    STATUS(ckm_trainer_run, 4, 0, ckm_trainer_run(P(0, begun(w, err)), P(1, &course), P(2, &result), P(3, err)))
    STATUS(ckm_trainer_save, 3, 0, ckm_trainer_save(P(0, begun(w, err)), P(1, "out.st"), P(2, err)))
    STATUS(ckm_trainer_export, 3, 0, ckm_trainer_export(P(0, begun(w, err)), P(1, "out.st"), P(2, err)))
    VALUE(ckm_trainer_data, 1, (ckm_trainer_data(P(0, w->trainer)) == NULL) == NULLED(0))
    VALUE(ckm_trainer_program, 1, (ckm_trainer_program(P(0, w->trainer)) == NULL) == NULLED(0))
    VALUE(ckm_trainer_dataflow, 1, (ckm_trainer_dataflow(P(0, w->trainer)) == NULL) == NULLED(0))
    VALUE(ckm_trainer_schedule, 1, (ckm_trainer_schedule(P(0, w->trainer)) == NULL) == NULLED(0))
    DONE(ckm_trainer_close, 1, ckm_trainer_close(NULL))
    ckm_trainer_close(w->trainer);
    w->trainer = NULL;
    ckm_trainer_close(opened);
    ckm_trainer_close(planned);
    ckm_data_close(data);
    ckm_run_fit_dispose(&fit);
    ckm_solve_result_dispose(&solved);
    visit_inference(v, err);
}
