# SPDX-License-Identifier: Apache-2.0
"""Models whose parameters fully_shard (FSDP2) has spread over processes with gloo: the losses, gradients and weights of FSDP2 itself, bit for
bit, within a budget that every process keeps; and what happens when processes do not agree or die."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from dataclasses import replace
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
from checkmate.torch.plan import gather_limit, planner  # noqa: E402

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this PyTorch has no gloo")

WIDTH, WORDS, LENGTH, BATCH, DEPTH = 30, 41, 48, 8, 3  # no multiples of the number of processes
_DEEP, _FEW = 14, 2  # blocks and samples, of which so little is saved that much is gained by gathering often
_SELDOM = 20  # calls, of which a step in the least memory makes some 27


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class _Model(nn.Module):
    def __init__(self, depth: int = DEPTH) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([_Block() for _ in range(depth)])
        self.head = nn.Linear(WIDTH, WORDS)
        self.head.weight = self.embedding.weight
        self.aside = nn.Linear(WIDTH, 3)  # gets no gradient

    def forward(self, words: Any, targets: Any) -> Any:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())


def _sharded(depth: int = DEPTH, **options: Any) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = _Model(depth)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)  # type: ignore[no-any-return]


def _data(rank: int) -> tuple[Any, Any]:
    torch.manual_seed(100 + rank)
    return torch.randint(WORDS, (BATCH, LENGTH)), torch.randint(WORDS, (BATCH, LENGTH))


def _step(call: Callable[..., Any], rank: int, data: Any) -> Any:
    torch.manual_seed(50 + rank)
    loss = call(*data)
    loss.backward()
    return loss.detach()


def _gradients(model: nn.Module) -> list[Any]:
    return [None if p.grad is None else fsdp.local(p.grad).clone() for p in model.parameters()]


def _same(a: list[Any], b: list[Any]) -> bool:
    return all(x is y is None or torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _counted(step: Callable[[], Any]) -> dict[str, int]:
    """How often a step gathers and reduces, by FSDP2's or by ours."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    counts = {"gather": 0, "reduce": 0}
    owners = [(_fsdp_param_group, "foreach_all_gather", "gather"), (_fsdp_param_group, "foreach_reduce", "reduce"), (exchange, "gather", "gather"),
              (exchange, "mean", "reduce")]  # fmt: skip
    originals = [getattr(owner, name) for owner, name, _kind in owners]
    for (owner, name, kind), original in zip(owners, originals, strict=True):

        def counting(*args: Any, original: Any = original, kind: str = kind, **kwargs: Any) -> Any:
            counts[kind] += 1
            return original(*args, **kwargs)

        setattr(owner, name, counting)
    try:
        step()
    finally:
        for (owner, name, _kind), original in zip(owners, originals, strict=True):
            setattr(owner, name, original)
    return counts


def _held(model: nn.Module, data: Any) -> int:
    return sum(fsdp.local(p).untyped_storage().nbytes() for p in model.parameters()) + sum(t.nbytes for t in data)


def _budgets(rank: int) -> dict[str, Any]:
    """At three budgets: what FSDP2 gives, within the budget, no call more between processes."""
    data, found = _data(rank), {}
    reference = _sharded()
    loss = _step(reference, rank, data)
    expected, plain = _gradients(reference), _counted(lambda: _step(reference, rank, data))
    for budget in ("100%", "60%", "min"):
        torch._dynamo.reset()
        model = _sharded()
        call = ct.compile(model, budget, time_limit=2, cache=False)
        losses = [_step(call, rank, data) for _ in range(2)]
        model.zero_grad(set_to_none=True)
        calls = _counted(lambda: _step(call, rank, data))  # noqa: B023
        equal = _same(_gradients(model), expected)
        model.zero_grad(set_to_none=True)
        peak = _held(model, data) + meter.allocated(lambda: _step(call, rank, data), torch.device("cpu"))  # noqa: B023
        (plan,) = ct.plans(call)
        found[budget] = {
            "equal": equal and all(torch.equal(loss, other) for other in losses), "peak": peak, "budget": plan.budget_bytes,
            "planned": plan.peak_bytes, "baseline": plan.baseline_peak_bytes, "calls": calls, "plain": plain, "steps": plan.schedule.to_json(),
            "names": list(model.state_dict()), "again": sum("gather" in name for name in plan.recomputed),
        }  # fmt: skip
    return found


def _calls(rank: int) -> dict[str, Any]:
    """Of a deeper model, in the least memory and in what an error names: how often a step gathers, with FSDP2 alone and with plans that may do
    so no more often, twice more, as often as they like, and much less often; the limits, and how often they were in the way."""
    data, found = tuple(value[:_FEW] for value in _data(rank)), {}
    limits, searched, of, search = [], [], gather_limit.limit_of, gather_limit.few_enough

    def noted(*arguments: Any) -> Any:
        made = of(*arguments)
        if name == "few":
            made = replace(made, most=_SELDOM)
        limits.append(None if made is None else made.most)
        return made

    gather_limit.limit_of = noted  # type: ignore[assignment]
    gather_limit.few_enough = lambda *arguments: searched.append(1) or search(*arguments)  # type: ignore[func-returns-value, assignment]
    reference = _sharded(_DEEP)
    loss = _step(reference, rank, data)
    expected, plain = _gradients(reference), _counted(lambda: _step(reference, rank, data))
    named = 0
    for name, budget, options in (("least", "min", {}), ("more", "min", {"extra_gathers": 2}), ("any", "min", {"extra_gathers": None}),
                                  ("few", "min", {}), ("error", 1000, {}), ("named", 0, {})):  # fmt: skip
        torch._dynamo.reset()
        limits.clear()
        searched.clear()
        model = _sharded(_DEEP)
        call = ct.compile(model, budget or named, time_limit=1, cache=False, **options)  # type: ignore[arg-type]
        try:
            equal = torch.equal(_step(call, rank, data), loss) and _same(_gradients(model), expected)
        except ct.InfeasibleError as error:
            named = error.smallest_known or 0
            continue
        model.zero_grad(set_to_none=True)
        calls = _counted(lambda: _step(call, rank, data))  # noqa: B023
        model.zero_grad(set_to_none=True)
        peak = _held(model, data) + meter.allocated(lambda: _step(call, rank, data), torch.device("cpu"))  # noqa: B023
        (plan,) = ct.plans(call)
        found[name] = {"equal": equal, "calls": calls, "plain": plain, "peak": peak, "budget": plan.budget_bytes, "steps": plan.schedule.to_json(),
                       "limits": list(dict.fromkeys(limits)), "searched": len(searched)}  # fmt: skip
    return found


def _ways(rank: int) -> dict[str, Any]:
    """Optimizers, evaluation, compiled in place, types of a policy, parameters that are not trained, units that stay gathered."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    data, found = _data(rank), {}

    def trained(prepare: Callable[[], nn.Module], planned: bool, **options: Any) -> tuple[list[Any], Any, list[Any]]:
        torch._dynamo.reset()
        model = prepare()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        call = ct.compile(model, "60%", optimizer=optimizer, time_limit=1, cache=False, **options) if planned else model
        losses = []
        for _ in range(3):
            losses.append(_step(call, rank, data))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        model.eval()
        with torch.no_grad():
            losses += [call(*data), model(*data)]
        for unit in (model, *model.blocks):  # the outermost one stays gathered behind FSDP2's own forward pass
            unit.reshard()
        return losses, [fsdp.local(p).clone() for p in model.parameters()], ct.plans(call) if planned else []

    def frozen() -> nn.Module:
        torch.manual_seed(0)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = _Model()
        for block in model.blocks:
            block.up.requires_grad_(False)
            fully_shard(block, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))  # type: ignore[no-any-return]

    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    ways: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
        "whole": (_sharded, {}),
        "inplace": (_sharded, {"inplace": True}),
        "frozen": (frozen, {}),
        "half": (lambda: _sharded(mp_policy=half), {}),
        "stays": (lambda: _sharded(reshard_after_forward=False), {}),
    }
    for name, (prepare, options) in ways.items():
        expected, weights, _none = trained(prepare, False)
        losses, after, plans = trained(prepare, True, **options)
        found[name] = {"losses": _same(losses, expected), "weights": _same(after, weights), "held": plans[0].peak_bytes <= plans[0].budget_bytes,
                       "fixed": plans[0].graph.fixed_bytes, "again": sum("gather" in call for call in plans[0].recomputed)}  # fmt: skip
    states = sum(2 * fsdp.local(p).nbytes + 4 for p in _sharded().parameters())
    return found | {"states": states}


def _changes(rank: int) -> dict[str, Any]:
    """What happens to a model between its calls, the same with FSDP2 alone and with a plan: gradients of the last step."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    data = _data(rank)

    def evaluated(call: Callable[..., Any], model: Any) -> None:
        with torch.no_grad():
            model(*data)  # leaves the outermost unit gathered
        _step(call, rank, data)

    def unfrozen(call: Callable[..., Any], model: Any) -> None:
        model.blocks[0].requires_grad_(False)
        _step(call, rank, data)
        model.blocks[0].requires_grad_(True)
        model.zero_grad(set_to_none=True)
        _step(call, rank, data)

    def replaced(call: Callable[..., Any], model: Any) -> None:
        _step(call, rank, data)
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
        _step(call, rank, data)

    def mixed() -> nn.Module:
        mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), _Model()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            block.up.to(torch.bfloat16).requires_grad_(False)
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)  # type: ignore[no-any-return]

    def shared() -> nn.Module:
        mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), _Model()
        model.blocks.append(model.blocks[0])
        for block in dict.fromkeys(model.blocks):
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)  # type: ignore[no-any-return]

    def twice(call: Callable[..., Any], model: Any) -> None:
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            _step(call, rank, data)

    found = {}
    for name, make, course in (("shared", shared, twice), ("evaluated", _sharded, evaluated), ("unfrozen", _sharded, unfrozen),
                               ("replaced", _sharded, replaced),
                               ("mixed", mixed, lambda call, _model: _step(call, rank, data))):  # fmt: skip
        torch._dynamo.reset()
        plain, model = make(), make()
        course(plain, plain)
        course(ct.compile(model, "70%", time_limit=1, cache=False), model)
        expected = _gradients(plain)
        found[name] = _same(_gradients(model), expected) and sum(g is not None for g in expected) > 4
    return found


def _refusals(_rank: int) -> dict[str, Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    def message(run: Callable[[], Any]) -> str:
        try:
            run()
        except ct.UnsupportedError as error:
            return str(error)
        return "nothing"

    part = _Model()
    fully_shard(part.blocks[0], mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    both = _Model()
    fully_shard(both, mesh=init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("copies", "shards")))
    offloaded = _Model()
    fully_shard(offloaded, mesh=init_device_mesh("cpu", (dist.get_world_size(),)), offload_policy=CPUOffloadPolicy(pin_memory=False))
    quiet = _sharded()
    quiet.set_requires_gradient_sync(False)  # type: ignore[operator]
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    grid, stacked = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("data", "tensor")), _Model()
    for block in stacked.blocks:
        parallelize_module(block, grid["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=grid["data"])
    fully_shard(stacked, mesh=grid["data"])
    own = _sharded()
    for state in {module._get_fsdp_state() for module in own.modules() if hasattr(module, "_get_fsdp_state")}:
        for group in fsdp._groups(state):
            group._reduce_scatter_comm = object()  # what set_custom_reduce_scatter sets, where there is one
    data = _data(0)
    return {
        "tensor": message(lambda: ct.compile(stacked, "60%")(*data)),
        "own": message(lambda: ct.compile(own, "60%")(*data)),
        "part": message(lambda: ct.compile(part, "60%")),
        "option": message(lambda: ct.compile(_sharded(), 10**9, graph_breaks="split")),
        "explain": message(lambda: ct.explain(_sharded(), data, show=None)),
        "mesh": message(lambda: ct.compile(both, "60%")(*data)),
        "cpu": message(lambda: ct.compile(offloaded, "60%")(*data)),
        "sync": message(lambda: ct.compile(quiet, "60%")(*data)),
    }


def _disagree(rank: int) -> dict[str, Any]:
    """Another graph on one process; a budget that nothing fits on one."""
    found = {}
    words, targets = _data(rank)
    for name, budget, rows in (("graph", 10**8, 4 + rank), ("budget", 10**8 if rank == 0 else 1000, 4)):
        torch._dynamo.reset()
        begin = time.monotonic()
        try:
            ct.compile(_sharded(), budget, time_limit=1, cache=False)(words[:rows], targets[:rows])
            found[name] = {"error": "none", "kind": ""}
        except CheckmateError as error:
            found[name] = {"error": str(error), "kind": type(error).__name__}
        found[name]["seconds"] = time.monotonic() - begin  # type: ignore[assignment]
    return found


def _dies(rank: int, when: str) -> dict[str, Any]:
    """A process ends before it plans, while it plans for all, or in a step."""
    if when == "before":
        rendezvous.COMING = 8.0
    if when == "planning":
        rendezvous.ALIVE = 3.0
    data = _data(rank)
    call = ct.compile(_sharded(), "60%", time_limit=1, cache=False)
    victim = 0 if when == "planning" else 1
    if rank == victim and when == "before":
        os._exit(0)
    if rank == victim and when == "planning":
        planner.least_of_all = planner._fit_among = lambda *_a: os._exit(0)  # type: ignore[assignment]
    if when == "step":
        _step(call, rank, data)
        if rank == victim:
            os._exit(0)
    begin = time.monotonic()
    try:
        _step(call, rank, data)
        return {"error": "none"}
    except Exception as error:  # noqa: BLE001 - of PyTorch's too
        return {"error": str(error), "seconds": time.monotonic() - begin}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_bits_and_budgets_of_fsdp2(ranks: int, tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _budgets, ranks)
    assert len(results) == ranks
    for result in results:
        for budget, row in result.items():
            assert row["equal"], budget
            assert row["planned"] <= row["budget"]
            assert row["peak"] <= row["budget"], budget
            assert row["calls"]["reduce"] == row["plain"]["reduce"] == DEPTH + 1
            assert row["calls"]["gather"] == DEPTH + 1 + row["again"]
            assert row["names"] == list(_Model().state_dict())
            assert row["steps"] == results[0][budget]["steps"]
            assert row["calls"]["gather"] <= row["plain"]["gather"]
        assert result["min"]["budget"] < result["60%"]["budget"] < result["100%"]["budget"]


@pytest.mark.slow
def test_calls_of_fsdp2_are_the_most(tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _calls)
    for result in results:
        for name, row in result.items():
            allowed = row["plain"]["gather"] + {"more": 2, "any": 1000}.get(name, 0)
            assert row["equal"], name
            assert row["calls"]["reduce"] == row["plain"]["reduce"] == _DEEP + 1
            assert row["calls"]["gather"] <= allowed, name
            assert row["peak"] <= row["budget"], name
            assert row["steps"] == results[0][name]["steps"]
        assert set(result) == {"least", "more", "any", "few", "named"}
        assert result["few"]["calls"]["gather"] <= _SELDOM + 1  # the root, gathered once, is not counted
    leader = results[0]
    assert [leader[name]["limits"] for name in ("least", "more", "any", "few")] == [[2 * _DEEP], [2 * _DEEP + 2], [None], [_SELDOM]]
    assert leader["few"]["searched"] > 0 == leader["any"]["searched"]


@pytest.mark.slow
def test_layouts_of_fsdp2_are_planned_as_it_is(tmp_path: pathlib.Path) -> None:
    """What is made believe in one process has the peak of what two processes plan."""
    real = processes.run(tmp_path, _budgets)[0]["100%"]["baseline"]
    found = ct.plan_parallel(
        _Model(), _data(0), device="Xeon", devices=2, batch=2 * BATCH, budget="1GB", only=lambda layout: layout.sharded, show=None
    )
    assert found.best is not None
    assert found.best.peak_bytes == real


@pytest.mark.slow
def test_training_with_fsdp2(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _ways):
        states = result.pop("states")
        for way, row in result.items():
            assert row["losses"], way
            assert row["weights"], way
            assert row["held"], way
        assert result["whole"]["fixed"] == states
        assert result["stays"]["again"] == 0


@pytest.mark.slow
def test_a_model_that_changes_between_its_calls(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _changes):
        assert all(result.values()), result


def test_what_fsdp2_can_do_and_plans_cannot(tmp_path: pathlib.Path) -> None:
    for result in processes.run(tmp_path, _refusals):
        assert "not on the model itself" in result["part"]
        assert 'graph_breaks="split": not with' in result["option"]
        assert "tensor parallelism with FSDP2" in result["tensor"]
        assert "are the user's own" in result["own"]
        assert "is not explained" in result["explain"]
        assert "sharded and replicated" in result["mesh"]
        assert "CPUOffloadPolicy" in result["cpu"]
        assert "set_requires_gradient_sync" in result["sync"]


def test_processes_that_do_not_agree(tmp_path: pathlib.Path) -> None:
    results = processes.run(tmp_path, _disagree)
    for result in results:
        assert "rank 1 must have the same graph as rank 0" in result["graph"]["error"]
        assert result["budget"]["kind"] == "InfeasibleError"
        assert "1,000 bytes" in result["budget"]["error"]
        assert result["graph"]["seconds"] < 240
    assert results[1]["budget"]["error"].startswith("rank 0 could not plan: ")


@pytest.mark.slow
@pytest.mark.parametrize(("when", "survivor", "message"), [("before", 0, "rank 1 did not come to plan this graph within 8 s"),
                                                           ("planning", 1, "rank 0, which plans for all, has not been heard of for 3 s"),
                                                           ("step", 0, "onnection")])  # fmt: skip
def test_a_process_that_dies(when: str, survivor: int, message: str, tmp_path: pathlib.Path) -> None:
    (result,) = processes.run(tmp_path, _dies, argument=when)
    assert (tmp_path / f"{survivor}.json").exists()
    assert message in result["error"]
    assert result["seconds"] < 240
