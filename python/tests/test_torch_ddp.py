# SPDX-License-Identifier: Apache-2.0
"""Two processes with gloo: the gradients of eager mode's DistributedDataParallel, and one plan for both."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import processes  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate import CheckmateError  # noqa: E402
from checkmate.torch import compiler  # noqa: E402
from checkmate.torch.distributed import rendezvous  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this PyTorch has no gloo")

RANKS, WIDTH, ROWS, DEPTH = 2, 64, 256, 6


class _Model(nn.Module):
    def __init__(self, collective: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.ModuleList([nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.1)) for _ in range(DEPTH)])
        self.collective = collective

    def forward(self, x: Any) -> Any:
        for part in self.body:
            x = part(x)
            if self.collective:
                from torch.distributed import _functional_collectives

                with torch.no_grad():
                    mean = _functional_collectives.all_reduce(x.mean(0), "sum", dist.group.WORLD)
                x = x - 0.1 * mean
        return x.square().mean()


def _gradients(model: nn.Module, call: Callable[..., Any], rank: int, x: Any) -> list[Any]:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(50 + rank)
    call(x).backward()
    return [p.grad.clone() for p in model.parameters()]


def _work(rank: int, port: int, kind: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        torch.manual_seed(100 + rank)
        x = torch.randn(ROWS, WIDTH)
        model = _Model(kind == "collective")
        names = list(model.state_dict())
        if kind == "inside":
            compiled = ct.compile(model, "70%", time_limit=2, cache=False)
            call = DistributedDataParallel(compiled)
        else:
            call = compiled = ct.compile(DistributedDataParallel(model, gradient_as_bucket_view=True), "70%", time_limit=2, cache=False)
            assert list(model.state_dict()) == names
        found = [_gradients(model, call, rank, x) for _ in range(2)]
        (plan,) = ct.plans(compiled)
        reference = _Model(kind == "collective")
        eager = DistributedDataParallel(reference)
        expected = _gradients(reference, eager, rank, x)
        result = {
            "equal": all(torch.equal(a, b) for gradients in found for a, b in zip(gradients, expected, strict=True)),
            "schedule": plan.schedule.to_json(),
            "recomputed": plan.recomputed,
            "fixed": plan.graph.fixed_bytes,
            "says": str(plan).rpartition(", ")[2],
        }
        # A graph that the other process never sees.
        if rank == 0:
            compiled_alone = ct.compile(_Model(False), "80%", time_limit=1, costs="estimate", cache=False)
            compiled_alone(x[:128]).backward()
            result["alone"] = len(ct.plans(compiled_alone))
        pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(result))
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inside", "outside", "collective"])
def test_gradients_and_plans_of_two_processes(kind: str, tmp_path: pathlib.Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_work, (port, kind, str(tmp_path)), nprocs=RANKS)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(RANKS))
    assert first["equal"]
    assert second["equal"]
    assert first["recomputed"]
    steps = [json.loads(result["schedule"])["steps"] for result in (first, second)]
    assert steps[0] == steps[1]
    assert first["alone"] == 1
    sender = 0 if second["says"] == "from rank 0" else 1
    says = [first["says"], second["says"]]
    assert says[1 - sender] == f"from rank {sender}"
    assert re.fullmatch(r"[\d.]+ s", says[sender])
    assert not any("all_reduce" in name or "wait_tensor" in name for name in first["recomputed"])
    gradients = sum(p.numel() * 4 for p in _Model(False).parameters())
    assert first["fixed"] == (0 if kind == "inside" else gradients)


def _accumulate(rank: int, port: int, folder: str) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        torch.manual_seed(100 + rank)
        batches = torch.randn(2, ROWS, WIDTH).unbind()

        def trained(planned: bool) -> tuple[list[Any], int, int, int]:
            model, exchanges = _Model(False), []
            ddp = DistributedDataParallel(model)

            def hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP looks at annotations
                exchanges.append(bucket.index())
                return default_hooks.allreduce_hook(state, bucket)

            ddp.register_comm_hook(None, hook)
            fixed = batches[1].nbytes
            call = ct.compile(ddp, "70%", accumulate=True, fixed_bytes=fixed, time_limit=2, cache=False) if planned else ddp

            def step() -> None:
                model.zero_grad(set_to_none=True)
                torch.manual_seed(50 + rank)
                with ddp.no_sync():
                    call(batches[0]).backward()
                call(batches[1]).backward()

            step()
            step()
            model.zero_grad(set_to_none=True)
            exchanges.clear()
            buckets = sum(p.numel() * p.element_size() for p in model.parameters())
            peak = meter.tensor_bytes(model, batches) + buckets + meter.allocated(step, torch.device("cpu"))
            (plan,) = ct.plans(call) if planned else (None,)
            return [p.grad.clone() for p in model.parameters()], len(exchanges), peak, 0 if plan is None else plan.budget_bytes

        expected, exchanges, whole, _budget = trained(False)
        found, ours, peak, budget = trained(True)
        result = {"equal": all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), "exchanges": [ours, exchanges],
                  "peak": peak, "budget": budget, "whole": whole}  # fmt: skip
        pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(result))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_gradients_accumulate_without_an_exchange(tmp_path: pathlib.Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_accumulate, (port, str(tmp_path)), nprocs=RANKS)
    for rank in range(RANKS):
        result = json.loads((tmp_path / f"{rank}.json").read_text())
        assert result["equal"]
        assert result["exchanges"] == [1, 1]
        assert result["peak"] <= result["budget"] < result["whole"]


WAYS = ("sent", "waits", "inside", "fallback")


def _one_budget(rank: int) -> list[dict[str, Any]]:
    """A budget that fits on the first process only: in a step that sends gradients, in one before it, compiled inside, and with a fallback."""
    found = []
    x = torch.randn(ROWS, WIDTH)
    for way in WAYS:
        torch._dynamo.reset()
        model, budget = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)), 10**9 if rank == 0 else 1000
        settings: dict[str, Any] = {"time_limit": 0.5, "cache": False, "fallback": "eager" if way == "fallback" else "error"}
        ddp = DistributedDataParallel(ct.compile(model, budget, **settings) if way == "inside" else model)
        call = ddp if way == "inside" else ct.compile(ddp, budget, **settings)
        begin, kind, message = time.monotonic(), "", ""
        try:
            if way == "waits":
                with ddp.no_sync():
                    call(x).sum().backward()
            call(x).sum().backward()
        except CheckmateError as error:
            kind, message = type(error).__name__, str(error)
        found.append({"kind": kind, "message": message, "seconds": time.monotonic() - begin})
    return found


def test_a_budget_that_fits_in_one_process_only_is_an_error_in_both(tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _one_budget)
    for found, start in zip(results, ("rank 1 could not plan: no schedule fits 1,000 bytes", "no schedule fits 1,000 bytes"), strict=True):
        for result in found:
            assert result["kind"] == "InfeasibleError"
            assert result["message"].startswith(start)
            assert "; budget=" in result["message"]
            assert result["seconds"] < 240


def _at_other_moments(rank: int) -> dict[str, Any]:
    """The first process has a plan already when they come to the first step, and later needs another one."""
    rendezvous.ALIVE = 300.0
    model = _Model(False)
    call = ct.compile(DistributedDataParallel(model), "100%", time_limit=0.5, cache=False)
    x, begin = torch.randn(ROWS, WIDTH), time.monotonic()
    if rank == 0:
        call.module(x).backward()
    call(x).backward()
    call(x[: ROWS // 2] if rank == 1 else x).backward()
    return {"plans": len(ct.plans(call)), "seconds": time.monotonic() - begin}


def test_nobody_waits_for_a_process_that_has_nothing_to_plan(tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _at_other_moments)
    assert [result["plans"] for result in results] == [1, 2]
    assert all(result["seconds"] < 240 for result in results)


def _falls_back(rank: int) -> str:
    """What one process cannot plan runs as it is, next to the plan of the other."""
    call = ct.compile(DistributedDataParallel(_Model(False)), "100%", time_limit=0.5, cache=False, fallback="eager")
    if rank == 1:
        compiler.plan = _unsupported  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(torch.randn(ROWS, WIDTH)).backward()
    return " ".join(str(warning.message) for warning in caught)


def _unsupported(*_args: Any, **_settings: Any) -> None:
    raise ct.UnsupportedError("it cannot be planned here")


def test_a_fallback_is_no_error_in_the_others(tmp_path: pathlib.Path) -> None:
    first, second = processes.run(tmp_path, _falls_back)
    assert "without a budget" not in first
    assert "the model runs without a budget: it cannot be planned here" in second


def _dies(rank: int, when: str) -> dict[str, Any]:
    """The second process ends before it plans, while it plans, or between two steps."""
    rendezvous.ALIVE = 3.0
    call = ct.compile(DistributedDataParallel(_Model(False)), "100%", time_limit=0.5, cache=False)
    if when == "step":
        call(torch.randn(ROWS, WIDTH)).backward()
    if rank == 1 and when == "planning":
        compiler.plan = lambda *_a, **_k: os._exit(0)  # type: ignore[assignment]
    elif rank == 1:
        os._exit(0)
    begin, message = time.monotonic(), ""
    try:
        call(torch.randn(ROWS, WIDTH)).backward()
    except (CheckmateError, RuntimeError) as error:
        message = str(error)
    return {"message": message, "seconds": time.monotonic() - begin}


@pytest.mark.slow
@pytest.mark.parametrize(("when", "message"), [("before", "Connection"), ("step", "Connection"),
                                               ("planning", "rank 1, which was planning, has not been heard of for 3 s")])  # fmt: skip
def test_a_process_that_dies_is_not_waited_for(when: str, message: str, tmp_path: pathlib.Path) -> None:
    (result,) = processes.run(tmp_path, _dies, argument=when)
    assert message in result["message"]
    assert result["seconds"] < 240


def test_explain_counts_the_buckets(tmp_path: pathlib.Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model, x = _Model(False), torch.randn(ROWS, WIDTH)
        alone, wrapped = (ct.explain(m, (x,), budgets=1, show=None, costs="estimate") for m in (model, DistributedDataParallel(model)))
    finally:
        dist.destroy_process_group()
    gradients = sum(p.numel() * 4 for p in model.parameters())
    assert wrapped.baseline_peak_bytes == alone.baseline_peak_bytes + gradients
