// SPDX-License-Identifier: Apache-2.0
// How the trainer's data are opened: for which tensors, and which of the samples.
#include "base/error.h"
#include "graph/graph.h"
#include "trainer/trainer_validate.h"

ckm_status ckm_i_trainer_data_options(const ckm_trainer *t, const ckm_training *training, ckm_train_fields *fields,
                                      ckm_data_options *options, ckm_error *err)
{
    *options = t->reading;
    CKM_I_CHECK(ckm_train_describe_data(training, fields, err));
    options->batch = ckm_graph_batch(t->graph);
    options->n_inputs = fields->n_inputs;
    options->inputs = fields->inputs;
    options->labels = fields->labels;
    options->task = ckm_graph_task(t->graph);
    options->layout = ckm_graph_layout(t->graph);
    options->seed = t->place.seed;
    options->note = t->options.note;
    options->user = t->solve.user;
    return CKM_OK;
}

bool ckm_i_trainer_validates(const ckm_trainer_options *o)
{
    return o->validate != NULL || o->validate_fraction > 0;
}

ckm_i_data_share ckm_i_trainer_share(const ckm_trainer *t, bool validates)
{
    return (ckm_i_data_share){
        .fraction = t->options.validate_fraction, .validates = validates, .trained_on = validates ? t->data : NULL};
}
