#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chains with a disk: Disk-Revolve and H-Revolve of PyPI's checkpoint-schedules, and this planner's optimum in their model.

    run.sh --disk [--steps L] [--slots C,...] [--costs UF:UB:WD:RD,...]

Their model (Aupy, Herrmann, Hovland and Robert, "Optimal multistage algorithm for adjoint computation", SIAM J. Sci. Comput. 38,
2016; Herrmann and Pallez, "H-Revolve", ACM TOMS 46, 2020): L + 1 steps back need the states 0 to L, of one unit each; a step
forward costs uf, a step back ub, a copy to the disk wd, one from there rd; c states fit into memory, in addition to the one that is
worked on; copies do not overlap with steps. Here that is one graph for each set of states that go to the disk: the step that makes
such a state also writes it (uf + wd) and leaves a token without bytes; reading it (rd) is an operator that may run again. Its first
run stands for the state that the step itself leaves, so rd is taken off once for each. The cheapest over all sets, each solved
to its proven optimum, is the figure. Disk-Revolve reads each state from the disk once, H-Revolve as often as it pays.

CHECKMATE is the program, build/checkmate by default. Exit status 1 if a figure differs from H-Revolve's.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checkpoint_schedules.hrevolve_sequences.disk_revolve import get_opt_inf_table
from checkpoint_schedules.hrevolve_sequences.hrevolve import get_hopt_table

PROGRAM = os.environ.get("CHECKMATE", str(pathlib.Path(__file__).resolve().parent.parent.parent / "build/checkmate"))
UNIT = 1 << 20


def graph(steps, on_disk, uf, ub, wd, rd):
    """The chain as a graph for the planner; state 0 is there when it begins, on the disk where `on_disk` says so."""
    tensors, ops = [], []

    def tensor(name, size):
        tensors.append({"name": name, "bytes": size})
        return len(tensors) - 1

    def op(name, kind, cost, inputs, output, **more):
        ops.append({"name": name, "kind": kind, "cost": cost, "inputs": inputs, "outputs": [output], **more})

    states = []
    for i in range(steps + 1):
        before = states[-1:]
        cost = uf if i > 0 else 0
        # State 0 comes from nowhere, once: it has no operator to make it again.
        once = {"recomputable": False} if i == 0 else {}
        if i in on_disk:
            token = tensor(f"token{i}", 0)
            op(f"write{i}", "forward", cost + wd, before, token, **once)
            states.append(tensor(f"x{i}", UNIT))
            op(f"read{i}", "forward", rd, [token], states[-1])
        else:
            states.append(tensor(f"x{i}", UNIT))
            pairs = {"inplace": [[before[0], states[-1]]]} if before else {}
            op(f"forward{i}", "forward", cost, before, states[-1], **once, **pairs)
    gradient = []
    for i in range(steps, -1, -1):
        made = tensor(f"g{i}", 0)
        op(f"back{i}", "backward", ub, [states[i], *gradient], made)
        gradient = [made]
    return {"format": "checkmate-graph", "version": 1, "name": "chain", "cost_unit": "ns", "tensors": tensors, "ops": ops, "results": gradient}


def optimum(path, budget):
    """The optimal cost within the budget; None where it is proven that nothing fits; anything else ends the program."""
    done = subprocess.run([PROGRAM, "solve", path, "--budget", str(budget), "--gap", "0", "-j", "1", "-t", "60", "--json"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode not in (0, 3):
        sys.exit(f"disk_revolve: {path}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if found["status"] not in ("optimal", "infeasible"):
        sys.exit(f"disk_revolve: {path}: not solved to the end: {found['status']}, cost {found['cost']}, bound {found['bound_cost']}")
    return found["cost"] if found["status"] == "optimal" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="L, the steps forward (8)")
    parser.add_argument("--slots", default="1,2,3", help="states in memory, a list (1,2,3)")
    parser.add_argument("--costs", default="1:2:1:1,1:2:3:2,2:3:5:1,3:1:2:7,1:1:10:10", help="uf:ub:wd:rd, a list")
    arguments = parser.parse_args()
    differ = 0
    print("| steps | slots | uf, ub, wd, rd | Disk-Revolve | H-Revolve | checkmate | on disk |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chain.json")
        for slots, costs in itertools.product(arguments.slots.split(","), arguments.costs.split(",")):
            uf, ub, wd, rd = map(int, costs.split(":"))
            steps, c = arguments.steps, int(slots)
            disk = get_opt_inf_table(steps, c, uf, ub, rd, wd, True)[steps]
            both = get_hopt_table(steps, (c, steps), (0, wd), (0, rd), ub, uf)[1][1][steps][steps]
            best, which = None, ()
            for count in range(steps + 1):
                for chosen in itertools.combinations(range(steps), count):
                    pathlib.Path(path).write_text(json.dumps(graph(steps, set(chosen), uf, ub, wd, rd)))
                    cost = optimum(path, (c + 1) * UNIT)
                    if cost is not None and (best is None or cost - rd * count < best):
                        best, which = cost - rd * count, chosen
            differ += best != both
            print(f"| {steps} | {c} | {uf}, {ub}, {wd}, {rd} | {disk:g} | {both:g} | {best} | {', '.join(map(str, which)) or '-'} |", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
