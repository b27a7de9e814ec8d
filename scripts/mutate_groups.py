# SPDX-License-Identifier: Apache-2.0
"""What mutate.py knows of the tree: groups of files and the tests that can see them.

Name: files, tests of the module, wider tests. Tests are named as ctest has them, those of Python by their files in python/tests. The
quick ones come first, because the first that fails ends a mutant.
"""

SCHEDULE_TESTS = ["test_schedule_rules", "test_transfers", "test_schedule", "test_alloc_schedule", "test_oracle_model"]
AUTODIFF_TESTS = ["test_autodiff_op", "test_step", "test_step_backward", "test_step_training", "test_lower",
                  "test_autodiff_layer", "test_alloc_autodiff", "test_autodiff_numeric"]
ONNX_TESTS = ["test_onnx_attributes", "test_onnx_operators", "test_onnx_folding", "test_onnx_values", "test_onnx_leaves",
              "test_onnx_hostile", "test_onnx_generated"]

GROUPS = {
    "verifier": (
        ["src/schedule/schedule_verify.c", "src/schedule/schedule_verifier.c", "src/schedule/schedule_verify_links.c"],
        SCHEDULE_TESTS,
        ["test_oracle_stages", "test_oracle_transfers", "test_plan"],
    ),
    "simulator": (
        ["src/schedule/schedule_simulate.c", "src/schedule/schedule_transfers.c"],
        SCHEDULE_TESTS,
        ["test_oracle_stages", "test_oracle_transfers", "test_plan"],
    ),
    "stages": (["src/schedule/stage*.c"],
               ["test_alloc_schedule", "test_stage_walk", "test_checkpoint_stages", "test_oracle_stages"],
               ["test_griewank", "test_baselines", "test_stage_round", "test_search_state", "cli_golden_solve"]),
    "schedule": (["src/schedule/schedule.c", "src/schedule/schedule_order.c", "src/schedule/schedule_json.c"],
                 ["test_schedule_json"] + SCHEDULE_TESTS, ["test_griewank", "test_baselines", "cli_golden_solve"]),
    "plan": (["src/plan/*.c"],
             ["test_alloc_plan", "test_plan_checker", "test_plan_write", "bug_plan_of_all_bytes", "test_plan"],
             ["test_session", "test_emit"]),
    "autodiff": (["src/autodiff/*.c", "src/ops/*/grad_*.c", "src/ops/activation/op_activation.c"], AUTODIFF_TESTS,
                 ["test_session", "test_autodiff_networks", "test_networks", "test_cost"]),
    "rows": (["src/import/onnx_rows_*.c"], ONNX_TESTS, []),
    "import": (["src/import/import*.c", "src/import/onnx_[!r]*.c", "src/import/onnx_roles.c"], ONNX_TESTS, ["test_alloc_onnx"]),
    "published": (["src/solve/strategies/solve_ch*.c", "src/solve/strategies/solve_griewank.c"],
                  ["test_strategies", "test_solve_checkpoint_all", "test_solve_checkpoint_last", "test_solve_chen_sqrt", "test_solve_chen_greedy",
                   "test_solve_checkpoint_all_ap", "test_solve_chen_sqrt_ap", "test_solve_chen_greedy_ap", "test_solve_griewank",
                   "test_solve_chain", "test_griewank", "test_baselines"], ["cli_golden_solve"]),
    "dtr": (["src/solve/strategies/solve_dtr.c"], ["test_strategies", "test_solve_dtr", "test_baselines"], []),
    "programs": (["src/solve/strategies/solve_ilp.c", "src/solve/strategies/solve_parts.c",
                  "src/solve/ilp/*.c"],
                 ["test_ilp_model", "test_solve_lp_bound", "test_solve_lp_round", "test_solve_lp_random", "test_solve_ilp", "test_solve_stage_bound",
                  "test_oracle_ilp_rows", "test_programs", "test_oracle_lp_round"], ["test_claims"]),
    "auto": (["src/solve/strategies/solve_auto.c", "src/solve/strategies/solve_parts.c"],
             ["test_solve_auto", "test_bad_cases", "test_solve_local_search"], ["cli_golden_solve"]),
    "core": (["src/solve/core/*.c", "src/solve/solve.c"],
             ["test_bound_lines", "test_structure", "test_solver", "test_claims", "test_solve_checkpoint_all"],
             ["test_bad_cases", "test_solve_auto", "cli_golden_solve"]),
    "chain": (["src/solve/chain/*.c"], ["test_chain_blocks", "test_strategies", "test_solve_chain", "test_oracle_chain"], ["test_solve_auto"]),
    "presolve": (["src/solve/presolve/*.c"], ["test_alloc_presolve", "test_oracle_presolve"], ["test_solve_auto"]),
    "floor": (["src/solve/floor/*.c"],
              ["test_memory_floor", "test_min_budget_floor", "test_alloc_memory_floor", "test_oracle_pebbling_schedule",
               "test_oracle_memory_floor"], ["test_solve_auto"]),
    "checkpoints": (["src/solve/checkpoints/*.c"],
                    ["test_checkpoint_sets", "test_checkpoint_stages", "test_checkpoint_holds", "test_griewank",
                     "test_alloc_checkpoints", "test_strategies", "test_baselines"], ["test_solve_auto"]),
    "runs": (["src/solve/runs/*.c"], ["test_alloc_runs", "test_oracle_runs"], ["test_solve_auto"]),
    "planning": (["python/src/checkmate/planning/*.py"],
                 ["test_planning.py", "test_frontier.py", "test_claims.py", "test_least.py", "test_torch_tidy.py", "test_torch_repeats.py"],
                 ["test_torch_fit.py", "test_torch_device.py", "test_torch_surface.py", "test_torch_cache.py", "test_torch_report.py"]),
    "fit": (["python/src/checkmate/torch/plan/fit*.py", "python/src/checkmate/torch/plan/solving.py",
             "python/src/checkmate/torch/collective_planning.py"],
            ["test_torch_fit.py"], ["test_torch_cache.py", "test_torch_least.py", "test_torch_together.py", "test_torch_program.py"]),
    "tf2": (["python/src/checkmate/tf2/planner.py", "python/src/checkmate/tf2/tradeoff.py", "python/src/checkmate/tf2/order.py"],
            ["test_tf2_planner.py"], ["test_tf2_claims.py", "test_tf2_cache.py", "test_tf2_errors.py", "test_tf2_compile.py"]),
}
