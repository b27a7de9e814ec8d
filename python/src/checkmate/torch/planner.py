# SPDX-License-Identifier: Apache-2.0
"""Plans one joint graph: costs, budget, solve, split, and the check that what will run fits."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import time
from dataclasses import asdict, dataclass

import torch
from torch import fx

from ..errors import CheckmateError, InfeasibleError
from ..graph import Graph
from ..schedule import Schedule
from ..solver import Solution, solve
from . import cost, joint, partition, peak, policies
from .tidy import tidied

_SUFFIXES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
             "k": 10**3, "m": 10**6, "g": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


def parse_bytes(text: str) -> int:
    """Bytes from "4GiB", "512MB" or "123"."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text.strip()[len(number) :].lower()
    try:
        return int(float(number) * _SUFFIXES[suffix])
    except (ValueError, KeyError):
        raise ValueError(f'"{text}" is no size: write bytes, or such as "512MB" or "4GiB"') from None


def cache_directory() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "checkmate" / "torch"


@dataclass(frozen=True)
class Options:
    """What `compile` and `backend` take; see there."""

    budget: int | float | str
    costs: str = "measure"
    compiler: str = "eager"
    fixed_bytes: int = 0
    time_limit: float | None = None
    gap: float = 0.005
    threads: int = 2
    seed: int = 1
    strategy: str = "auto"
    random: str = "replay"
    checkpoint_policy: policies.Binding = "must"
    cache: bool = True


@dataclass(frozen=True)
class Plan:
    """One planned graph. Bytes count parameters, inputs, gradients and `fixed_bytes`; costs are nanoseconds of one step."""

    graph: Graph
    schedule: Schedule
    budget_bytes: int
    peak_bytes: int
    baseline_peak_bytes: int
    floor_bytes: int
    saved_bytes: int
    cost: int
    baseline_cost: int
    bound: float | None
    gap: float | None
    status: str
    recomputed: list[str]
    seconds: float
    cached: bool

    @property
    def overhead(self) -> float:
        return self.cost / self.baseline_cost - 1 if self.baseline_cost else 0.0

    def __str__(self) -> str:
        gap = "no bound" if self.gap is None else f"gap {100 * self.gap:.2g} %"
        return (
            f"{len(self.graph.ops)} operators, peak {self.peak_bytes:,} of {self.budget_bytes:,} bytes "
            f"({self.baseline_peak_bytes:,} without rematerialization), {len(self.recomputed)} recomputed, "
            f"overhead {100 * self.overhead:.2f} %, {gap}, {'from the cache' if self.cached else f'{self.seconds:.1f} s'}"
        )


def budget_bytes(budget: int | float | str, baseline: int, device: torch.device) -> int:
    """Bytes; "60%" is of the peak without rematerialization, "auto" is what the device has free, less a tenth."""
    if isinstance(budget, str) and budget.strip() == "auto":
        return _free_bytes(device) * 9 // 10
    if isinstance(budget, str) and budget.strip().endswith("%"):
        return int(float(budget.strip()[:-1]) * baseline / 100)
    if isinstance(budget, str):
        return parse_bytes(budget)
    if budget <= 0:
        raise ValueError(f"budget must be positive, not {budget}")
    return int(budget)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + reserved + torch.cuda.memory_allocated(device)
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise CheckmateError('budget "auto": the free memory of this machine is not known; give it in bytes')


def _device(module: fx.GraphModule) -> torch.device:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return value.device
    return torch.device("cpu")


def trace(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str) -> tuple[joint.Joint, dict[str, int]]:
    """The joint graph, costed, and the workspace of each call."""
    if options.costs not in ("estimate", "measure"):
        raise ValueError(f'costs must be "estimate" or "measure", not "{options.costs}"')
    if options.random not in ("replay", "keep"):
        raise ValueError(f'random must be "replay" or "keep", not "{options.random}"')
    if options.checkpoint_policy not in policies.BINDINGS:
        raise ValueError(f'checkpoint_policy must be one of {", ".join(policies.BINDINGS)}, not "{options.checkpoint_policy}"')
    measured = cost.Measured(cache_directory() if options.cache else None) if options.costs == "measure" else None
    workspace: dict[str, int] = {}

    def costed(node: fx.Node) -> tuple[int, int]:
        nanoseconds, extra = (measured or cost.estimate)(node)
        workspace[node.name] = extra
        return nanoseconds, extra

    replay = options.random == "replay" and options.compiler == "eager"
    joint.snapshot_mutated(module, num_fwd_outputs)
    policies.apply(module, num_fwd_outputs, options.checkpoint_policy, replay=replay)
    if measured is not None:
        measured.prepare(module.graph.nodes)
    result = joint.build(module, num_fwd_outputs, costed, name=name, fixed_bytes=options.fixed_bytes, replay=replay,
                         overwrite=options.compiler == "eager")  # fmt: skip
    return result, workspace


def plan(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str) -> tuple[Plan, partition.Halves]:
    """Plans a joint graph. InfeasibleError when no schedule is found within the budget."""
    begin = time.perf_counter()
    model, workspace = trace(module, num_fwd_outputs, options, name)
    baseline = Schedule.baseline(model.graph).simulate(model.graph)
    budget = budget_bytes(options.budget, baseline.peak_bytes, _device(module))
    target = budget
    while True:
        schedule, proof, cached = _solve_cached(model.graph, target, options)
        halves = partition.split(model, schedule)
        real = peak.peak_bytes(model, halves, workspace)
        if real <= budget:
            break
        # The solver counts bytes that PyTorch frees later, or not at all: leave that much room and solve again.
        target = max(0, target - (real - budget))
    simulation = schedule.simulate(model.graph)
    return (
        Plan(
            graph=model.graph, schedule=schedule, budget_bytes=budget, peak_bytes=real,
            baseline_peak_bytes=baseline.peak_bytes, floor_bytes=model.graph.memory_floor, saved_bytes=halves.saved_bytes,
            cost=simulation.cost, baseline_cost=model.graph.total_cost, bound=proof.bound,
            gap=None if not proof.bound else max(0.0, simulation.cost / proof.bound - 1),
            status=proof.status, recomputed=halves.recomputed,
            seconds=time.perf_counter() - begin, cached=cached,
        ),
        halves,
    )  # fmt: skip


@dataclass(frozen=True)
class _Proof:
    """What is proven of a schedule, kept beside it."""

    status: str
    bound: float | None


def time_limit(graph: Graph, options: Options) -> float:
    """Seconds for the solver; unless they are given, so many that planning takes less than five for a thousand operators."""
    return min(30.0, 1.0 + len(graph.ops) / 500) if options.time_limit is None else options.time_limit


def _solve_cached(graph: Graph, budget: int, options: Options) -> tuple[Schedule, _Proof, bool]:
    """A schedule of the same graph, budget and options found before, if the verifier accepts it; else solves."""
    key = repr((graph.to_json(), budget, options.strategy, options.time_limit, options.gap, options.seed))
    path = cache_directory() / "plans" / (hashlib.sha256(key.encode()).hexdigest()[:40] + ".json")
    beside = path.with_suffix(".proof")
    if options.cache and path.exists() and beside.exists():
        try:
            schedule, proof = Schedule.read(path), _Proof(**json.loads(beside.read_text()))
            if schedule.verify(graph, budget):
                return schedule, proof, True
        except (CheckmateError, ValueError, TypeError):
            pass  # a damaged file is solved anew and overwritten
    solution = solve(graph, budget, strategy=options.strategy, time_limit=time_limit(graph, options), gap=options.gap,
                     threads=options.threads, seed=options.seed)  # fmt: skip
    schedule, proof = tidied(graph, _required(solution)), _Proof(solution.status, solution.bound)
    if options.cache:
        path.parent.mkdir(parents=True, exist_ok=True)
        schedule.write(path)
        beside.write_text(json.dumps(asdict(proof)))
    return schedule, proof, False


def _required(solution: Solution) -> Schedule:
    schedule = solution.require().schedule
    assert schedule is not None
    return schedule


__all__ = ["InfeasibleError", "Options", "Plan", "budget_bytes", "parse_bytes", "plan", "time_limit", "trace"]
