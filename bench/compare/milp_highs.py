# SPDX-License-Identifier: Apache-2.0
"""The integer program of the Checkmate paper (section 4) through HiGHS.

    milp_highs.py GRAPH.json BUDGET_BYTES SECONDS THREADS

Prints a trace: seconds since the start, incumbent cost or -, bound or -. Operators with one output and no views,
in-place pairs or workspace, as the paper has them; others are refused.
"""
import json
import math
import sys
import time

import highspy

BEGAN = time.monotonic()


class Model:
    """Columns and rows, collected and handed over at once."""

    def __init__(self):
        self.cost, self.lower, self.upper, self.integer = [], [], [], []
        self.row_lower, self.row_upper, self.starts, self.index, self.value = [], [], [], [], []

    def column(self, cost=0.0, lower=0.0, upper=1.0, integer=False):
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, terms, lower, upper):
        """terms: (column or None for a constant 0, factor); columns that repeat are added up."""
        summed = {}
        for column, factor in terms:
            if column is not None:
                summed[column] = summed.get(column, 0.0) + factor
        self.starts.append(len(self.index))
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        self.index.extend(summed.keys())
        self.value.extend(summed.values())


def read(path):
    with open(path, encoding="utf-8") as file:
        graph = json.load(file)
    tensors, ops = graph["tensors"], graph["ops"]
    if any("alias_of" in t for t in tensors) or any(len(o["outputs"]) != 1 or o.get("inplace") or
                                                    o.get("workspace_bytes") for o in ops):
        sys.exit("milp_highs: the paper's program covers one output an operator, no views, in-place pairs or workspace")
    producer = {op["outputs"][0]: v for v, op in enumerate(ops)}
    fixed = graph.get("fixed_bytes", 0) + sum(t["bytes"] for i, t in enumerate(tensors) if i not in producer)
    costs = [op["cost"] for op in ops]
    size = [tensors[op["outputs"][0]]["bytes"] for op in ops]
    operands = [sorted({producer[x] for x in op["inputs"] if x in producer}) for op in ops]
    results = {producer[x] for x in graph.get("results", []) if x in producer}
    once = {v for v, op in enumerate(ops) if not op.get("recomputable", True)}
    return costs, size, operands, results, once, fixed


def build(costs, size, operands, results, once, budget):
    n = len(costs)
    users = [[] for _ in range(n)]
    for v in range(n):
        for u in operands[v]:
            users[u].append(v)
    scale = max(1.0, max(size) / 1e4)
    cost_scale = max(1.0, sum(costs) / 1e6)
    m = Model()
    # (8a-8c): R[t,t] = 1, R above the diagonal 0; S[t,v] = 0 for v >= t.
    one = m.column(0.0, 1.0, 1.0)
    R = [[m.column(costs[v] / cost_scale, 0.0, 0.0 if v in once else 1.0, True) for v in range(t)] + [one]
         for t in range(n)]
    S = [[m.column(0.0, 0.0, 1.0, True) for _ in range(t)] for t in range(n)]

    def s_at(t, v):
        return S[t][v] if t < n and v < t else None

    inf = highspy.kHighsInf
    for t in range(n):
        for v in range(t + 1):
            for u in operands[v]:  # (1b): operands are computed in this stage or held into it
                m.row([(R[t][u], 1.0), (s_at(t, u), 1.0), (R[t][v], -1.0)], 0.0, inf)
            if t + 1 < n and s_at(t + 1, v) is not None:  # (1c)
                m.row([(R[t][v], 1.0), (s_at(t, v), 1.0), (s_at(t + 1, v), -1.0)], 0.0, inf)
        # (5-7): FREE[t,u,k] frees u after k, U[t,k] is the memory while k runs.
        free = {}
        for u in range(t + 1):
            uses = [k for k in users[u] if k <= t]
            for k in [u] + uses:
                f = m.column()
                free[u, k] = f
                m.row([(R[t][k], 1.0), (f, -1.0)], 0.0, inf)
                if t + 1 == n:
                    if u in results:  # there at the end
                        m.row([(f, 1.0)], -inf, 0.0)
                        m.row([(R[t][u], 1.0), (s_at(t, u), 1.0)], 1.0, inf)
                else:
                    m.row([(f, 1.0), (s_at(t + 1, u), 1.0)], -inf, 1.0)
                for later in uses:
                    if later > k:
                        m.row([(f, 1.0), (R[t][later], 1.0)], -inf, 1.0)
        terms = [(s_at(t, v), size[v] / scale) for v in range(t)]
        memory = m.column(0.0, 0.0, budget / scale)
        m.row([(memory, 1.0)] + [(c, -w) for c, w in terms] + [(R[t][0], -size[0] / scale)], 0.0, 0.0)
        for k in range(t):
            after = m.column(0.0, -inf, budget / scale)
            freed = [(free[u, k], size[u] / scale) for u in {*operands[k], k}]
            m.row([(after, 1.0), (memory, -1.0), (R[t][k + 1], -size[k + 1] / scale)] + freed, 0.0, 0.0)
            memory = after
    return m, cost_scale


def main():
    path, budget, seconds, threads = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    costs, size, operands, results, once, fixed = read(path)
    if sum(size[v] for v in results) > budget - fixed:
        sys.exit("milp_highs: the results do not fit")
    m, cost_scale = build(costs, size, operands, results, once, budget - fixed)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", threads)
    highs.setOptionValue("mip_rel_gap", 1e-4)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(m.cost), len(m.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = m.cost, m.lower, m.upper
    lp.row_lower_, lp.row_upper_ = m.row_lower, m.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = m.starts + [len(m.index)]
    lp.a_matrix_.index_, lp.a_matrix_.value_ = m.index, m.value
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in m.integer]
    highs.passModel(lp)
    constant = sum(costs)
    last = [None, None]

    def trace(cost, bound):
        if [cost, bound] != last:
            last[:] = [cost, bound]
            print(f"{time.monotonic() - BEGAN:.3f} {'-' if cost is None else repr(cost)} "
                  f"{'-' if bound is None else repr(bound)}", flush=True)

    def value(x):
        return None if not math.isfinite(x) or abs(x) > 1e29 else constant + x * cost_scale

    def on_event(event):
        trace(value(event.data_out.mip_primal_bound), value(event.data_out.mip_dual_bound))

    highs.cbMipImprovingSolution += on_event
    highs.cbMipLogging += on_event
    highs.setOptionValue("time_limit", max(seconds - (time.monotonic() - BEGAN), 0.1))
    highs.setOptionValue("mip_min_logging_interval", 0.5)
    highs.run()
    info = highs.getInfo()
    found = info.primal_solution_status == 2
    trace(value(info.objective_function_value) if found else None, value(info.mip_dual_bound))


main()
