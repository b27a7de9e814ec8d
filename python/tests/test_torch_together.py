# SPDX-License-Identifier: Apache-2.0
"""All processes plan before the first step: what one cannot plan is one clear error in all of them."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import processes  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate import CheckmateError  # noqa: E402
from checkmate.torch import compiler  # noqa: E402
from checkmate.torch.distributed import rendezvous  # noqa: E402

needs_gloo = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this PyTorch has no gloo")

WIDTH, ROWS, MICRO_BATCHES = 32, 16, 4


def _stage() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.1), nn.Tanh())))


def _compiled(rank: int, budget: int | str) -> Any:
    flight = ct.in_flight("gpipe", rank, 2, MICRO_BATCHES, outputs=False, losses=False)
    return ct.compile(_stage(), budget, in_flight=flight, time_limit=0.3, cache=False, inplace=True)


def _attempt(rank: int, budget: int | str) -> dict[str, Any]:
    begin = time.monotonic()
    found: dict[str, Any] = {"error": "", "kind": ""}
    try:
        ct.plan_together(_compiled(rank, budget), torch.randn(ROWS, WIDTH))
    except CheckmateError as error:
        found = {"error": str(error), "kind": type(error).__name__, "known": getattr(error, "smallest_known", None)}
    return found | {"seconds": time.monotonic() - begin}


def _budgets(rank: int) -> list[dict[str, Any]]:
    """One that fits on the first process only; one that fits on both."""
    first = _attempt(rank, "100%" if rank == 0 else 1000)
    torch._dynamo.reset()
    return [first, _attempt(rank, "100%")]


@needs_gloo
def test_a_budget_that_fits_in_one_process_only_is_an_error_in_both(tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _budgets)
    for (failed, worked), start in zip(results, ("rank 1 could not plan: no schedule fits 1,000 bytes", "no schedule fits 1,000 bytes"), strict=True):
        assert failed["kind"] == "InfeasibleError"
        assert failed["error"].startswith(start)
        assert failed["known"] > 1000
        assert failed["seconds"] < 240
        assert not worked["error"]


def _pipeline(rank: int) -> dict[str, Any]:
    from torch.distributed import pipelining

    module = _compiled(rank, "100%")
    before = [buffer.clone() for buffer in module.buffers()]
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    (plan,) = ct.plan_together(module, torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)))
    found = {"random": torch.equal(torch.rand(4), expected), "gradients": all(p.grad is None for p in module.parameters()),
             "buffers": all(torch.equal(a, b) for a, b in zip(before, module.buffers(), strict=True))}  # fmt: skip
    schedule = pipelining.ScheduleGPipe(pipelining.PipelineStage(module, rank, 2, torch.device("cpu")), MICRO_BATCHES, nn.functional.mse_loss)
    x = torch.randn(ROWS * MICRO_BATCHES, WIDTH)
    schedule.step(*([x] if rank == 0 else []), return_outputs=False, **({"target": x} if rank == 1 else {}))
    return found | {"kept": ct.plans(module) == [plan], "trained": all(p.grad is not None for p in module.parameters())}


@needs_gloo
def test_the_plans_are_those_of_the_steps_and_nothing_else_is_left(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _pipeline):
        assert all(result.values()), result


def _warned(rank: int) -> dict[str, Any]:
    """The warnings of stages that have been planned together, and of stages that have not, in two steps each."""
    import warnings

    from torch.distributed import pipelining

    found: dict[str, Any] = {}
    for name in ("together", "alone"):
        torch._dynamo.reset()
        module = _compiled(rank, "100%")
        x = torch.randn(ROWS * MICRO_BATCHES, WIDTH)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if name == "together":
                ct.plan_together(module, x[:ROWS])
            schedule = pipelining.ScheduleGPipe(pipelining.PipelineStage(module, rank, 2, torch.device("cpu")), MICRO_BATCHES, nn.functional.mse_loss)
            for _ in range(2):
                module.zero_grad()  # gradients of an earlier step would be warned of, too
                schedule.step(*([x] if rank == 0 else []), return_outputs=False, **({"target": x} if rank == 1 else {}))
        found[name] = [str(warning.message) for warning in caught if "checkmate" in str(warning.message)]
    return found


@needs_gloo
def test_a_stage_that_plans_alone_warns(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _warned):
        assert result["together"] == []
        (warning,) = result["alone"]
        assert "checkmate.torch.plan_together(module, *example)" in warning


def _talking(rank: int) -> dict[str, Any]:
    """A model that talks in its forward pass, of which one process has no plan, and does not end."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH))
    parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    compiled = ct.compile(model, "100%" if rank == 0 else 1000, time_limit=0.3, cache=False)
    begin = time.monotonic()
    with pytest.raises(ct.InfeasibleError, match=r"no schedule .* 1,000 bytes; budget=[\d,]+ works") as caught:
        ct.plan_together(compiled, torch.randn(ROWS, WIDTH))
    return {"error": str(caught.value), "seconds": time.monotonic() - begin}


def _bad_input(rank: int) -> dict[str, Any]:
    """What one process cannot trace is told to those that wait for it to plan with them."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    fully_shard(model)
    begin = time.monotonic()
    try:
        ct.plan_together(ct.compile(model, "100%", time_limit=0.3, cache=False), torch.randn(ROWS, WIDTH + rank))
        return {"error": ""}
    except Exception as error:  # noqa: BLE001 - of PyTorch's too
        return {"error": str(error), "seconds": time.monotonic() - begin}


def _ways(rank: int) -> dict[str, Any]:
    """FSDP2 and DistributedDataParallel: what is planned together is what the steps use."""
    from torch.distributed.fsdp import fully_shard

    found = {}
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(rank))
    for way in ("fsdp2", "ddp"):
        gradients = []
        for planned in (False, True):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
            model = fully_shard(model) if way == "fsdp2" else nn.parallel.DistributedDataParallel(model)  # type: ignore[assignment]
            call = ct.compile(model, "100%", time_limit=0.3, cache=False) if planned else model
            before = ct.plan_together(call, x) if planned else []
            call(x).sum().backward()
            gradients.append([getattr(p.grad, "_local_tensor", p.grad) for p in model.parameters()])
            found[f"{way} {planned}"] = not planned or (len(before) == 1 and ct.plans(call) == before)
        found[way] = all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    return found


@needs_gloo
def test_models_that_talk_behind_the_first_step(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _ways):
        assert all(result.values()), result


def _uncompiled_first(rank: int) -> dict[str, Any]:
    found = []
    for model in (_stage() if rank == 1 else _compiled(0, "100%"), _compiled(rank, "100%")):
        torch._dynamo.reset()
        try:
            ct.plan_together(model, torch.randn(ROWS, WIDTH))
            found.append("")
        except (CheckmateError, ValueError) as error:
            found.append(str(error))
    return {"errors": found}


@needs_gloo
def test_a_model_that_talks_does_not_begin_to(tmp_path: pathlib.Path) -> None:
    first, second = processes.run(tmp_path, _talking)
    assert first["error"].startswith("rank 1 could not plan: ")
    assert max(first["seconds"], second["seconds"]) < 60


@needs_gloo
def test_what_one_process_cannot_trace_is_no_riddle_to_the_others(tmp_path: pathlib.Path) -> None:
    first, _second = processes.run(tmp_path, _bad_input)
    assert first["error"].startswith("rank 1 could not plan: ")
    assert first["seconds"] < 240


@needs_gloo
def test_calls_stay_in_step(tmp_path: pathlib.Path) -> None:
    first, second = (result["errors"] for result in processes.run(tmp_path, _uncompiled_first))
    assert first[0].startswith("rank 1 could not plan: this is not what checkmate.torch.compile returned")
    assert second[0].startswith("this is not what")
    assert first[1] == second[1] == ""


class _Assigns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return self.layer(x) * self.calls


def test_buffers_that_are_assigned_are_put_back() -> None:
    model = _Assigns()
    compiled = ct.compile(model, "100%", time_limit=0.3, cache=False)
    for _ in range(2):  # the second one runs what is planned already
        ct.plan_together(compiled, torch.randn(ROWS, WIDTH))
        assert model.calls.item() == 0
    compiled(torch.randn(ROWS, WIDTH)).sum().backward()
    assert model.calls.item() == 1
    assert len(ct.plans(compiled)) == 1


def _gone(rank: int, when: str) -> dict[str, Any]:
    rendezvous.COMING, rendezvous.ALIVE = 8.0, 3.0
    if rank == 1 and when == "before":
        os._exit(0)
    if rank == 1:
        compiler.plan = lambda *_a, **_k: os._exit(0)  # type: ignore[assignment]
    return _attempt(rank, "100%")


@pytest.mark.slow
@needs_gloo
@pytest.mark.parametrize(("when", "message"), [("before", "rank 1 did not come to plan within 8 s; all processes must call plan_together"),
                                               ("planning", "rank 1, which was planning, has not been heard of for 3 s")])  # fmt: skip
def test_a_process_that_dies(when: str, message: str, tmp_path: pathlib.Path) -> None:
    (result,) = processes.run(tmp_path, _gone, argument=when)
    assert result["error"] == message
    assert result["seconds"] < 240


def test_one_process_just_plans() -> None:
    module = ct.compile(_stage(), "100%", time_limit=0.3, cache=False)
    (plan,) = ct.plan_together(module, torch.randn(ROWS, WIDTH))
    assert plan.peak_bytes <= plan.budget_bytes
    with pytest.raises(ct.InfeasibleError):
        ct.plan_together(ct.compile(_stage(), 1000, time_limit=0.3, cache=False), torch.randn(ROWS, WIDTH))
    with pytest.raises(ValueError, match=r"not what checkmate.torch.compile returned"):
        ct.plan_together(_stage(), torch.randn(ROWS, WIDTH))
