// SPDX-License-Identifier: Apache-2.0
// Checkmate: train neural networks that do not fit in memory. The whole public interface; start here.
//
// SIMPLE: two ways in, each of four calls.
//
//   The planner. You have a graph of operators with costs and bytes, and want a schedule that fits a budget.
//     ckm_dataflow_read      the graph, from a graph.json file; from memory: ckm_dataflow_create and what follows it (dataflow.h)
//     ckm_solve              the cheapest schedule within the budget, and a proven lower bound (solve.h)
//     ckm_schedule_verify    checks any schedule, independently of the solver (schedule.h)
//     ckm_schedule_write     the schedule as a file; step by step: ckm_schedule_get_step (schedule.h)
//
//   The trainer. You have a network, and want it trained within a budget on this machine's processors (trainer.h).
//     ckm_trainer_open       prepares everything: gradients, costs, a schedule, addresses, memory
//     ckm_trainer_run        trains
//     ckm_trainer_export     writes the weights
//     ckm_trainer_close
//   The network comes from ckm_zoo_build (zoo.h), ckm_import_file (import.h) or calls of ckm_network_... (network.h).
//   To predict with it, see inference.h.
//
// ADVANCED: the steps between a network and its schedule, and other questions to the planner.
//     autodiff.h     what one training step runs: ckm_autodiff_op_graph
//     cost.h         costs and bytes for it: ckm_cost_apply gives the planner's graph
//     min_budget.h   the smallest budget that any schedule fits;  max_batch.h  the largest batch that fits a budget
//     solve.h        several budgets in one search: ckm_solve_frontier; strategies and components
//     plan.h         an address for every buffer of a schedule
//     emit.h         figures, pages, tables
//
// EXPERT: the trainer's parts, each usable alone.
//     run.h          kernels and sessions;  profile.h  measured costs;  data.h  samples;  train.h  the training loop;
//     ranks.h        several processes that train together
//
// base.h has the conventions: errors, ownership, options. examples/plan_network.c and examples/train.c use the planner and the
// trainer.
#ifndef CHECKMATE_CHECKMATE_H
#define CHECKMATE_CHECKMATE_H

#include <checkmate/base.h>

// The planner.
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>
#include <checkmate/solve.h>

// Networks, and the trainer.
#include <checkmate/graph.h>
#include <checkmate/import.h>
#include <checkmate/inference.h>
#include <checkmate/network.h>
#include <checkmate/trainer.h>
#include <checkmate/zoo.h>

// Advanced.
#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/emit.h>
#include <checkmate/max_batch.h>
#include <checkmate/min_budget.h>
#include <checkmate/plan.h>

// Expert.
#include <checkmate/data.h>
#include <checkmate/profile.h>
#include <checkmate/ranks.h>
#include <checkmate/run.h>
#include <checkmate/train.h>

#endif
