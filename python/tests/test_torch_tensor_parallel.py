# SPDX-License-Identifier: Apache-2.0
"""Layers whose weights are spread over two processes (tensor parallelism, also along the sequence): gradients bit for bit, each process within
its budget, and no call more between them."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import processes  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate import CheckmateError  # noqa: E402
from checkmate.torch.distributed import exchange, fsdp, rendezvous  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402
from checkmate.torch.plan import planner  # noqa: E402

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this PyTorch has no gloo")

RANKS, WIDTH, DEPTH = 2, 32, 3


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.drop = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.blocks = nn.Linear(WIDTH, WIDTH), nn.ModuleList([_Block() for _ in range(DEPTH)])

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def _spread(way: str) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleOutput, RowwiseParallel, SequenceParallel, parallelize_module

    mesh, model = init_device_mesh("cpu", (RANKS,)), _Model()
    along = way == "sequence"
    for block in model.blocks:
        plan = {"up": ColwiseParallel(input_layouts=Shard(1) if along else Replicate()),
                "down": RowwiseParallel(output_layouts=Shard(1) if along else Replicate())}  # fmt: skip
        parallelize_module(block, mesh, plan | ({"norm": SequenceParallel()} if along else {}))
    if along:
        last = len(model.blocks) - 1
        parallelize_module(model, mesh, {
            "first": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            f"blocks.{last}": PrepareModuleOutput(output_layouts=(Shard(1),), desired_output_layouts=(Replicate(),)),
        })  # fmt: skip
    return model


def _step(call: Any, model: nn.Module, x: Any) -> Any:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    loss = call(x)
    loss.backward()
    return loss.detach()


def _work(rank: int, port: int, way: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        torch.manual_seed(1)
        x = torch.randn(8, 64, WIDTH)
        reference = _spread(way)
        loss = _step(reference, reference, x)
        with torch.profiler.profile() as profile:
            _step(reference, reference, x)
        plain = sum(event.name.startswith("gloo:") for event in profile.events())
        expected = [fsdp.local(p.grad).clone() for p in reference.parameters()]
        found: dict[str, Any] = {}
        for budget in ("100%", "60%"):
            torch._dynamo.reset()
            model = _spread(way)
            call = ct.compile(model, budget, time_limit=2, cache=False)
            equal = all(torch.equal(_step(call, model, x), loss) for _ in range(2))
            equal = equal and all(torch.equal(fsdp.local(p.grad), g) for p, g in zip(model.parameters(), expected, strict=True))
            counts = [0]
            originals = exchange.gather, exchange._reduce

            def counting(original: Any, counts: list[int] = counts) -> Any:
                def counted(*args: Any) -> None:
                    counts[0] += 1
                    original(*args)

                return counted

            exchange.gather, exchange._reduce = map(counting, originals)
            _step(call, model, x)
            exchange.gather, exchange._reduce = originals
            model.zero_grad(set_to_none=True)
            held = sum(fsdp.local(p).untyped_storage().nbytes() for p in model.parameters()) + x.nbytes
            peak = held + meter.allocated(lambda: _step(call, model, x), torch.device("cpu"))  # noqa: B023
            (plan,) = ct.plans(call)
            found[budget] = {
                "equal": equal,
                "peak": peak,
                "budget": plan.budget_bytes,
                "baseline": plan.baseline_peak_bytes,
                "calls": counts[0],
                "plain": plain,
                "recomputed": plan.recomputed,
            }
        pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(found))
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tensor", "sequence"])
def test_tensor_parallelism_within_a_budget(way: str, tmp_path: pathlib.Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_work, (port, way, str(tmp_path)), nprocs=RANKS)
    for rank in range(RANKS):
        for budget, row in json.loads((tmp_path / f"{rank}.json").read_text()).items():
            assert row["equal"], budget
            assert row["peak"] <= row["budget"], budget
            assert row["calls"] == row["plain"] > 0
            assert not any("all_" in name or "reduce_" in name for name in row["recomputed"])
        assert row["recomputed"]
    if way == "tensor":
        assert _made_believe() == json.loads((tmp_path / "0.json").read_text())["100%"]["baseline"]


def _disagree(rank: int) -> list[Any]:
    """One process with other samples, then with fewer layers, then with both as all have them; planned in a step or together."""
    found = []
    for rows, less, together in ((8 - rank, 0, False), (8, rank, False), (8, rank, True), (8, 0, False)):
        torch._dynamo.reset()
        model = _spread("tensor")
        model.blocks = model.blocks[: DEPTH - less]
        call = ct.compile(model, 10**8, time_limit=0.5, cache=False)
        x, begin, message = torch.ones(rows, 64, WIDTH), time.monotonic(), ""
        try:
            if together:
                ct.plan_together(call, x)
            else:
                _step(call, model, x)
        except CheckmateError as error:
            message = str(error)
        found.append((message, time.monotonic() - begin))
    return found


def test_processes_that_make_other_calls_are_told_so(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _disagree):
        rows, layers, together, agreed = (message for message, _seconds in result)
        assert f"call 1 is all_reduce [7, 64, {WIDTH}], not all_reduce [8, 64, {WIDTH}]" in rows
        assert layers == together
        assert "rank 1 must make the same calls between processes as rank 0, but call" in layers
        assert " is none, not all_reduce" in layers
        assert not agreed
        assert all(seconds < 60 for _message, seconds in result)


def _one_budget(rank: int) -> dict[str, Any]:
    model = _spread("tensor")
    call = ct.compile(model, 10**8 if rank == 0 else 1000, time_limit=0.5, cache=False)
    begin = time.monotonic()
    try:
        _step(call, model, torch.ones(8, 64, WIDTH))
    except CheckmateError as error:
        return {"kind": type(error).__name__, "message": str(error), "seconds": time.monotonic() - begin}
    return {}


@pytest.mark.slow
def test_a_budget_that_fits_in_one_process_only_is_an_error_in_both(tmp_path: pathlib.Path) -> None:
    first, second = processes.run(tmp_path, _one_budget)
    assert first["kind"] == second["kind"] == "InfeasibleError"
    assert first["message"] == f"rank 1 could not plan: {second['message']}"
    assert second["message"].startswith("no schedule fits 1,000 bytes; budget=")
    assert max(first["seconds"], second["seconds"]) < 60


def _dies(rank: int, when: str) -> dict[str, Any]:
    """The second process ends before it plans, while it plans, or between two steps."""
    rendezvous.COMING, rendezvous.ALIVE = 8.0, 3.0
    model, x = _spread("tensor"), torch.ones(8, 64, WIDTH)
    call = ct.compile(model, 10**8, time_limit=0.5, cache=False)
    if when == "step":
        _step(call, model, x)
    if rank == 1 and when == "planning":
        planner._plan = lambda *_a: os._exit(0)  # type: ignore[assignment]
    elif rank == 1:
        os._exit(0)
    begin, message = time.monotonic(), ""
    try:
        _step(call, model, x)
    except (CheckmateError, RuntimeError) as error:
        message = str(error)
    return {"message": message, "seconds": time.monotonic() - begin}


@pytest.mark.slow
@pytest.mark.parametrize(("when", "message"), [("before", "rank 1 did not come to plan within 8 s; all processes that share a layer must"),
                                               ("planning", "rank 1, which was planning, has not been heard of for 3 s"),
                                               ("step", "onnection")])  # fmt: skip
def test_a_process_that_dies(when: str, message: str, tmp_path: pathlib.Path) -> None:
    (result,) = processes.run(tmp_path, _dies, argument=when)
    assert message in result["message"]
    assert result["seconds"] < 240


def _made_believe() -> int | None:
    """The peak of the same layout as one process makes it believe."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    link = ct.Link(1e9, 1e-4)
    found = ct.plan_parallel(
        _Model(), (torch.randn(8, 64, WIDTH),), device="Xeon", devices=RANKS, batch=8, budget="1GB", show=None, network=ct.Network(RANKS, link, link),
        tensor={"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}, only=lambda layout: layout.tensor == RANKS,
    )  # fmt: skip
    assert found.best is not None
    return found.best.peak_bytes
