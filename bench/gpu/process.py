# SPDX-License-Identifier: Apache-2.0
"""Measures one network in a separate process; prints a JSON line for each row as soon as it is known.

process.py PART NETWORK [--device cuda] [--small] [--scale S] [--limit S] [--seconds S] [--settings 50,100,...] [--rounds N]

PART: "budgets" (budget against measured peak, bit for bit against eager mode), "methods" (PyTorch's own ways and ours at each of
their peaks, by turns), "graphs" (CUDA graphs on and off, generated code). LIMIT: seconds for all of it; what has not begun when
two thirds are over is left out, so that what is there gets its time. SECONDS: time limit of our solver.

All variants of a part share one model, one optimizer and one process: several of a large model would not fit side by side. A peak
is the allocator's own figure for forward pass, backward pass and optimizer (on the CPU that of ../torch/physical.py).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import config as functorch_config

import checkmate
import checkmate.torch
import command
import networks
import physical
import worker

Row = dict[str, Any]
Run = Callable[..., Any]
#: Settings of activation_memory_budget, the most telling ones first.
SHARES = [0.5, 0.2, 0.8, 0.1, 0.3, 0.7, 0.4, 0.6, 0.9]


def _bytes(tensors: Any) -> int:
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class Bench:
    """A model, its optimizer, and what a step of it is."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, torch.device(options.device)
        self.gpu = self.device.type == "cuda"
        self.begin = time.perf_counter()
        self.case = networks.make(options.network, self.device, small=options.small, scale=options.scale)
        self.model = self.case.model
        self.named = [*self.model.named_parameters(), *self.model.named_buffers()]
        self.start = {key: value.detach().cpu().clone() for key, value in self.named}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def left(self) -> float:
        return self.options.limit - (time.perf_counter() - self.begin)

    def time_for_more(self) -> bool:
        return self.left() > self.options.limit / 3

    def clear(self) -> None:
        self.model.zero_grad(set_to_none=True)

    def restart(self) -> None:
        self.clear()
        self.optimizer.state.clear()
        with torch.no_grad():
            for key, value in self.named:
                value.copy_(self.start[key])

    def step(self, run: Run) -> torch.Tensor:
        loss = run(*self.case.inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def trained(self, run: Run, steps: int = 2) -> list[torch.Tensor]:
        """What some steps from the start leave behind, on the host: losses, gradients, parameters, buffers."""
        self.restart()
        found = []
        for seed in range(steps):
            torch.manual_seed(seed)
            self.clear()
            found.append(self.step(run).cpu())
            found += [p.grad.cpu().clone() for p in self.model.parameters() if p.grad is not None]
        self.clear()
        return [*found, *(value.detach().cpu().clone() for _, value in self.named)]

    def held(self) -> int:
        """Parameters, buffers, inputs and the optimizer's state."""
        state = [t for s in self.optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
        return physical.held_bytes(self.model, [*self.case.inputs, *state])

    def peaks(self, run: Run) -> Row:
        """Of a warm step. `libraries`: what is allocated between steps in addition to the tensors, such as cuBLAS's workspace."""
        self.clear()
        gc.collect()
        held = self.held()
        if not self.gpu:
            return {"allocated": held + physical.allocator_peak(lambda: self.step(run)), "reserved": None, "libraries": 0}
        torch.cuda.empty_cache()
        torch.cuda.synchronize(self.device)
        libraries = torch.cuda.memory_allocated(self.device) - held
        torch.cuda.reset_peak_memory_stats(self.device)
        self.step(run)
        torch.cuda.synchronize(self.device)
        return {"allocated": torch.cuda.max_memory_allocated(self.device), "reserved": torch.cuda.max_memory_reserved(self.device),
                "requested": torch.cuda.memory_stats(self.device).get("requested_bytes.all.peak"), "libraries": libraries}  # fmt: skip

    def seconds(self, run: Run) -> float:
        self.clear()
        if self.gpu:
            torch.cuda.synchronize(self.device)
        begin = time.perf_counter()
        self.step(run)
        if self.gpu:
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - begin

    def ours(self, budget: int | str, compiler: Any = "eager") -> Run:
        run: Run = checkmate.torch.compile(self.model, budget, optimizer=self.optimizer, compiler=compiler, time_limit=self.options.seconds,
                                           threads=2)  # fmt: skip
        return run


def plan_of(run: Run) -> Row:
    (plan,) = checkmate.torch.plans(run)
    return {"planned": plan.peak_bytes, "planned_reserved": plan.reserved_bytes, "budget": plan.budget_bytes, "overhead": plan.overhead, "gap": plan.gap, "plan_seconds": plan.seconds,
            "operators": len(plan.graph.ops), "recomputed": len(plan.recomputed)}  # fmt: skip


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def budgets(bench: Bench) -> Iterator[Row]:
    """Shares of what eager mode takes above parameters, gradients and the optimizer's state."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    eager: Run = bench.model
    expected = bench.trained(eager)
    repeatable = same(expected, bench.trained(eager))
    whole = bench.peaks(eager)
    base = bench.held() + _bytes(p for p in bench.model.parameters() if p.requires_grad) + whole["libraries"]
    above = whole["allocated"] - base
    yield {"setting": "eager", "base": base, "bitwise": repeatable, "seconds": statistics.median(bench.seconds(eager) for _ in range(3)), **whole}
    for setting in bench.options.settings.split(","):
        if not bench.time_for_more():
            yield {"setting": setting, "error": command.NO_TIME}
            continue
        torch._dynamo.reset()
        begin = time.perf_counter()
        bench.restart()
        run = bench.ours("min" if setting == "min" else base + above * int(setting) // 100)
        try:
            found = bench.trained(run)
        except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
            bench.clear()
            smallest = error.smallest_known if isinstance(error, checkmate.InfeasibleError) else None
            yield {"setting": setting, "error": said(error), "smallest": smallest}
            continue
        first = time.perf_counter() - begin
        row = {"setting": setting, **plan_of(run), **bench.peaks(run), "first_seconds": first, "bitwise": same(found, expected) if repeatable else None}
        pairs = [(bench.seconds(eager), bench.seconds(run)) for _ in range(bench.options.rounds)]
        ratio = statistics.median(mine / its for its, mine in pairs)
        yield row | {"seconds": statistics.median(mine for _, mine in pairs), "relative": ratio, "within": row["allocated"] <= row["budget"]}


class Variant:
    """A way to run the step, its peak, and the seconds of its steps."""

    def __init__(self, bench: Bench, method: str, setting: object, run: Run, around: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.bench, self.method, self.setting, self.run, self.around = bench, method, str(setting), run, around
        self.times: list[float] = []
        self.facts: Row = {}
        begin = time.perf_counter()
        try:
            for _ in range(2):
                self.seconds()
            self.facts["first_seconds"] = time.perf_counter() - begin
            with around():
                self.facts |= bench.peaks(run)
            if method.startswith("ours"):
                self.facts |= plan_of(run)
        except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
            bench.clear()
            self.facts = {"error": said(error)}

    @property
    def works(self) -> bool:
        return "error" not in self.facts

    def seconds(self) -> float:
        with self.around():
            return self.bench.seconds(self.run)

    def row(self, eager: Variant) -> Row:
        row = {"method": self.method, "setting": self.setting, **self.facts}
        if self.times and eager.times:
            ratios = [mine / its for its, mine in zip(eager.times, self.times, strict=True)]
            row |= {"seconds": statistics.median(self.times), "relative": statistics.median(ratios), "relative_least": min(ratios),
                    "relative_most": max(ratios), "rounds": len(ratios)}  # fmt: skip
        return row


def checkpointing(bench: Bench, apply: Callable[[Any], None]) -> Callable[[], Any]:
    """Blocks are wrapped while a step of this variant runs, and not otherwise: the model is shared."""

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        apply(bench.case)
        try:
            yield
        finally:
            for block in bench.case.blocks:
                del block.forward

    return around


def by_turns(variants: list[Variant], bench: Bench) -> None:
    """A step of each, round after round, each round beginning with another one: at least three rounds, as many as asked for."""
    working = [v for v in variants if v.works]
    for i in range(max(3, bench.options.rounds)):
        if i >= 3 and bench.left() < 0:
            break
        for k in range(len(working)):
            variant = working[(k + i) % len(working)]
            variant.times.append(variant.seconds())


def methods(bench: Bench) -> Iterator[Row]:
    eager = Variant(bench, "eager", "", bench.model)
    if not eager.works:
        yield eager.row(eager)
        return
    made = [eager]
    left_out: list[tuple[str, str]] = []

    def at(peak: Row) -> None:
        """Ours at another one's peak, but for what is within a thousandth of one that is there."""
        budget = peak["allocated"]
        if any(v.method == "ours" and budget * 0.999 <= int(v.setting) <= budget for v in made):
            return
        if bench.time_for_more():
            made.append(Variant(bench, "ours", budget, bench.ours(budget)))
        else:
            left_out.append(("ours", str(budget)))

    def budgeted(share: float) -> Variant:
        torch._functorch.config.activation_memory_budget = share
        found = Variant(bench, "budget", share, worker.budgeted(bench.model, share, decompose=False, found=[]))
        if found.works:
            return found
        # With batch norms PyTorch's partition works only after inductor's decompositions.
        return Variant(bench, "decomposed", share, worker.budgeted(bench.model, share, decompose=True, found=[]))

    ways: list[tuple[str, str, Callable[[], Variant]]] = [
        ("checkpoint", "", lambda: Variant(bench, "checkpoint", "", bench.model, checkpointing(bench, worker.checkpointed))),
        ("selective", "", lambda: Variant(bench, "selective", "", bench.model, checkpointing(bench, worker.selective))),
        *(("budget", str(share), lambda share=share: budgeted(share)) for share in SHARES),  # type: ignore[misc]
    ]
    at(eager.facts)
    for method, setting, way in ways:
        if not bench.time_for_more():
            left_out.append((method, setting))
            continue
        variant = way()
        made.append(variant)
        if variant.works:
            at(variant.facts)
    by_turns(made, bench)
    for variant in made:
        yield variant.row(eager)
    for method, setting in left_out:
        yield {"method": method, "setting": setting, "error": command.NO_TIME}


def captured(bench: Bench, run: Run) -> Run:
    """Forward and backward pass as one CUDA graph, replayed. Gradients stay where the graph has them."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            bench.clear()
            run(*bench.case.inputs).backward()
    torch.cuda.current_stream().wait_stream(side)
    bench.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = run(*bench.case.inputs)
        loss.backward()
    gradients = [p.grad for p in bench.model.parameters()]

    class Replayed:
        """Looks like a loss."""

        def backward(self) -> None:
            graph.replay()
            for p, gradient in zip(bench.model.parameters(), gradients, strict=True):
                p.grad = gradient

        def detach(self) -> torch.Tensor:
            return loss.detach()

    return lambda *_inputs: Replayed()


def graphs(bench: Bench) -> Iterator[Row]:
    """Each by itself, since CUDA graphs keep their memory; with the time relative to eager mode's."""
    eager = Variant(bench, "eager", "", bench.model)
    if not eager.works:
        yield eager.row(eager)
        return
    whole = eager.facts["allocated"]
    base = bench.held() + _bytes(p for p in bench.model.parameters() if p.requires_grad)
    half = base + (whole - base) // 2

    def inductor() -> Run:
        functorch_config.activation_memory_budget = 1.0
        run: Run = torch.compile(bench.model, fullgraph=True, dynamic=False)
        return run

    ways: list[tuple[str, str, Callable[[], Run]]] = [("ours", "half", lambda: bench.ours(half))]
    if bench.gpu:
        ways += [("eager, CUDA graph", "", lambda: captured(bench, bench.model)), ("ours, CUDA graph", "half", lambda: captured(bench, bench.ours(half)))]
    if bench.options.inductor:
        ways += [("inductor", "", inductor), ("ours, inductor", "whole", lambda: bench.ours(whole, "inductor")),
                 ("ours, inductor", "half", lambda: bench.ours(half, "inductor"))]  # fmt: skip
    yield eager.row(eager) | {"seconds": statistics.median(bench.seconds(bench.model) for _ in range(3))}
    for name, setting, way in ways:
        if not bench.time_for_more():
            yield {"method": name, "setting": setting, "error": command.NO_TIME}
            continue
        torch._dynamo.reset()
        try:
            run = way()
        except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
            yield {"method": name, "setting": setting, "error": said(error)}
            continue
        variant = Variant(bench, name, setting, run)
        eager.times = []
        by_turns([eager, variant], bench)
        row = variant.row(eager)
        if "budget" in row:
            row["within"] = row["allocated"] <= row["budget"]
        yield row
        del variant, run
        bench.clear()


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {"budgets": budgets, "methods": methods, "graphs": graphs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("network", choices=command.TITLES)
    parser.add_argument("--limit", type=float, default=120)
    command.arguments(parser)
    options = parser.parse_args()
    logging.captureWarnings(True)
    # A model is compiled for every variant.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 256
    try:
        for row in PARTS[options.part](Bench(options)):
            print(json.dumps(row), flush=True)
    except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
        print(json.dumps({"error": said(error)}), flush=True)
        return 1
    # What is left is to take all down, which may take a while.
    print("end", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
