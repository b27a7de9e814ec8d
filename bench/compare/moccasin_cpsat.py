# SPDX-License-Identifier: Apache-2.0
"""Retention intervals through OR-tools' CP-SAT, after MOCCASIN (Bartan et al., ICML 2023, section 3).

    moccasin_cpsat.py GRAPH.json BUDGET_BYTES SECONDS THREADS

Every operator has up to two retention intervals: from the event that computes it to the last event that reads it. Events
follow the given order in stages: event t(t+1)/2 + v computes operator v in stage t, and operator v is first computed in stage
v. A cumulative constraint holds the memory. Prints a trace: seconds since the start, incumbent cost or -, bound or -.
"""
import json
import math
import sys
import time

from ortools.sat.python import cp_model

BEGAN = time.monotonic()
COPIES = 2


def read(path):
    with open(path, encoding="utf-8") as file:
        graph = json.load(file)
    tensors, ops = graph["tensors"], graph["ops"]
    if any("alias_of" in t for t in tensors) or any(len(o["outputs"]) != 1 or o.get("inplace") or
                                                    o.get("workspace_bytes") for o in ops):
        sys.exit("moccasin_cpsat: only one output an operator, no views, in-place pairs or workspace")
    producer = {op["outputs"][0]: v for v, op in enumerate(ops)}
    fixed = graph.get("fixed_bytes", 0) + sum(t["bytes"] for i, t in enumerate(tensors) if i not in producer)
    return graph, ops, producer, fixed


def main():
    path, budget, seconds, threads = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    graph, ops, producer, fixed = read(path)
    n = len(ops)
    size = [graph["tensors"][op["outputs"][0]]["bytes"] for op in ops]
    operands = [sorted({producer[x] for x in op["inputs"] if x in producer}) for op in ops]
    unit = math.gcd(*(op["cost"] for op in ops)) or 1
    cost = [op["cost"] // unit for op in ops]
    bytes_unit = math.gcd(*size) or 1
    results = {producer[x] for x in graph.get("results", []) if x in producer}
    last_user = list(range(n))
    for v in range(n - 1, -1, -1):
        for u in operands[v]:
            last_user[u] = max(last_user[u], last_user[v])
    end_of_time = n * (n + 1) // 2

    model = cp_model.CpModel()
    start, end, active, intervals, demands = [], [], [], [], []
    for v in range(n):
        first = v * (v + 1) // 2 + v
        later = [t * (t + 1) // 2 + v for t in range(v + 1, n) if t <= last_user[v] or v in results]
        copies = COPIES if ops[v].get("recomputable", True) and later else 1
        start.append([])
        end.append([])
        active.append([])
        for i in range(copies):
            s = first if i == 0 else model.new_int_var_from_domain(cp_model.Domain.from_values(later), f"s{v}_{i}")
            a = True if i == 0 else model.new_bool_var(f"a{v}_{i}")
            e = model.new_int_var(first + 1, end_of_time, f"e{v}_{i}")
            length = model.new_int_var(1, end_of_time, f"d{v}_{i}")
            if i == 0:
                intervals.append(model.new_interval_var(s, length, e, f"x{v}_{i}"))
            else:
                intervals.append(model.new_optional_interval_var(s, length, e, a, f"x{v}_{i}"))
                model.add(s >= end[v][i - 1]).only_enforce_if(a)
            demands.append(size[v] // bytes_unit)
            start[v].append(s)
            end[v].append(e)
            active[v].append(a)
        if v in results:
            kept = [model.new_bool_var(f"k{v}_{i}") for i in range(copies)]
            model.add_bool_or(kept)
            for i in range(copies):
                model.add(end[v][i] == end_of_time).only_enforce_if(kept[i])
                model.add_implication(kept[i], active[v][i])
    for v in range(n):
        for u in operands[v]:
            for i, s in enumerate(start[v]):
                covers = []
                for j in range(len(start[u])):
                    b = model.new_bool_var(f"b{u}_{j}_{v}_{i}")
                    covers.append(b)
                    # `end` is the first event at which u is gone.
                    model.add(start[u][j] < s).only_enforce_if(b)
                    model.add(end[u][j] > s).only_enforce_if(b)
                    if active[u][j] is not True:
                        model.add_implication(b, active[u][j])
                if active[v][i] is True:
                    model.add_bool_or(covers)
                else:
                    model.add_bool_or(covers).only_enforce_if(active[v][i])
    model.add_cumulative(intervals, demands, (budget - fixed) // bytes_unit)
    extra = sum(cost[v] * a for v in range(n) for a in active[v][1:])
    model.minimize(sum(cost) + extra)

    last = [None, None]

    def trace():
        print(f"{time.monotonic() - BEGAN:.3f} {'-' if last[0] is None else last[0] * unit} "
              f"{'-' if last[1] is None else repr(last[1] * unit)}", flush=True)

    class Incumbents(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self):
            last[0] = round(self.objective_value)
            last[1] = max(last[1] or 0.0, self.best_objective_bound)
            trace()

    def on_bound(bound):
        last[1] = max(last[1] or 0.0, bound)
        trace()

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = threads
    solver.parameters.relative_gap_limit = 1e-4
    solver.parameters.max_time_in_seconds = max(seconds - (time.monotonic() - BEGAN), 0.1)
    solver.best_bound_callback = on_bound
    status = solver.solve(model, Incumbents())
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        last[0] = round(solver.objective_value)
        last[1] = max(last[1] or 0.0, solver.best_objective_bound)
    trace()


main()
