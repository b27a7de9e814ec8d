// SPDX-License-Identifier: Apache-2.0
// Validation, as the trainer's files see it.
#ifndef CKM_SRC_TRAINER_TRAINER_VALIDATE_H
#define CKM_SRC_TRAINER_TRAINER_VALIDATE_H

#include "run/data/data.h"
#include "trainer/trainer.h"

// Is there anything to validate on? (This and the next: trainer_data.c.)
bool ckm_i_trainer_validates(const ckm_trainer_options *options);
// Which of the samples are for training, or for validation.
ckm_i_data_share ckm_i_trainer_share(const ckm_trainer *t, bool validates);

// Once the training's own data are open: graph, kernels and data of validation. What was built is freed with the trainer.
ckm_status ckm_i_trainer_build_validation(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
void ckm_i_trainer_close_validation(ckm_i_validation *validation);
// Whenever training has been planned: a schedule within the arena of that plan. Nothing to do without a plan.
ckm_status ckm_i_trainer_fit_validation(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Whenever training has a session: one within it.
ckm_status ckm_i_trainer_begin_validation(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Loss and hits over all samples for validation. *done stays false where `stop` ended it. Leaves where training is to the caller.
ckm_status ckm_i_trainer_validate(void *trainer, ckm_stop_fn stop, void *user, ckm_train_validation *out, bool *done,
                                  ckm_error *err) CKM_NODISCARD;

#endif
