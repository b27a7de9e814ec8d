// SPDX-License-Identifier: Apache-2.0
// Checkmate: train neural networks that do not fit in memory. The whole public interface, in the order
// in which it is used: a network, its training graph, costs, a schedule, its proof.
#ifndef CHECKMATE_CHECKMATE_H
#define CHECKMATE_CHECKMATE_H

#include <checkmate/base.h>

#include <checkmate/graph.h>
#include <checkmate/import.h>
#include <checkmate/network.h>
#include <checkmate/zoo.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/dataflow.h>

#include <checkmate/schedule.h>
#include <checkmate/solve.h>
#include <checkmate/max_batch.h>
#include <checkmate/min_budget.h>

#include <checkmate/plan.h>
#include <checkmate/run.h>
#include <checkmate/profile.h>
#include <checkmate/data.h>
#include <checkmate/ranks.h>
#include <checkmate/train.h>
#include <checkmate/trainer.h>
#include <checkmate/inference.h>

#include <checkmate/emit.h>

#endif
