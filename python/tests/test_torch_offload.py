# SPDX-License-Identifier: Apache-2.0
"""Activations that come back by being moved: results of eager mode within the budget, and every fault of the second memory one error."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import checkpoint  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402
from checkmate.torch.offload.store import Store  # noqa: E402

#: Bytes a second, so that plans do not depend on this machine: transfers are cheap compared with what they save.
SPEED = 4_000_000_000
Options = dict[str, Any]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def perceptron() -> tuple[nn.Module, list[Any]]:
    body = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(64, 64), nn.GELU())])
    return Model(lambda self, x: self.body(x).square().mean(), body=body), [torch.randn(512, 64)]


def convolutions() -> tuple[nn.Module, list[Any]]:
    layers = [part for n in (3, 8, 8, 8) for part in (nn.Conv2d(n, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1))]
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    return Model(lambda self, x: self.body(x).square().mean(), body=body), [torch.randn(8, 3, 32, 32)]


def transformer() -> tuple[nn.Module, list[Any]]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return Model(lambda self, x: self.body(x).square().mean(), body=body), [torch.randn(4, 64, 32)]


MODELS = [perceptron, convolutions, transformer]


def options(where: object, **more: Any) -> Options:
    return {"offload": where, "offload_speed": SPEED, "time_limit": 3, "costs": "estimate", "cache": False} | more


def moved(plan: ct.Plan) -> dict[str, int]:
    kinds = ("out", "in", "wait_out", "wait_in")
    return {kind: sum(step.kind == kind for step in plan.schedule.steps) for kind in kinds}


def peak_of(model: nn.Module, compiled: Callable[..., Any], inputs: list[Any]) -> int:
    """As PyTorch's allocator reports it, what lies in the step's inputs included."""

    def step() -> None:
        compiled(*inputs).backward()

    model.zero_grad(set_to_none=True)
    held = meter.tensor_bytes(model, inputs)
    measured = held + meter.allocated(step, torch.device("cpu"))
    model.zero_grad(set_to_none=True)
    return measured


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("budget", ["70%", "60%"])
def test_results_of_eager_mode_within_the_budget(make: Callable[[], Any], budget: str, tmp_path: pathlib.Path) -> None:
    model, inputs = make()
    compiled = ct.compile(model, budget, **options(tmp_path, costs="measure"))  # which counts what convolutions take inside
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    (plan,) = ct.plans(compiled)
    assert moved(plan)["in"] > 0, "something comes back by a transfer"
    assert plan.schedule.verify(plan.graph, plan.budget_bytes)
    assert peak_of(model, compiled, inputs) <= plan.budget_bytes
    assert not list(tmp_path.iterdir()), "the file has no name"
    assert plan.moved.in_bytes > 0
    assert plan.moved.out_bytes / SPEED == pytest.approx(plan.moved.out_seconds)
    assert "moved out" in str(plan)


def test_to_buffers_of_this_machine() -> None:
    model, inputs = perceptron()
    compiled = ct.compile(model, "40%", **options("host"))
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    assert moved(ct.plans(compiled)[0])["in"] > 0


def test_below_what_recomputing_reaches(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    alone = ct.compile(model, "min", time_limit=1, costs="estimate", cache=False)
    alone(*inputs)
    least = ct.plans(alone)[0]
    torch._dynamo.reset()
    budget = (least.graph.memory_floor + least.peak_bytes) // 2
    assert budget < least.peak_bytes
    moving = ct.compile(model, budget, **options(tmp_path))
    assert not difference(trace(model, moving, inputs), trace(model, model, inputs))
    assert peak_of(model, moving, inputs) <= budget < least.peak_bytes


@pytest.mark.slow
def test_the_least_that_is_found(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    alone = ct.compile(model, "min", time_limit=1, costs="estimate", cache=False)
    alone(*inputs)
    torch._dynamo.reset()
    moving = ct.compile(model, "min", **options(tmp_path, time_limit=1))
    assert not difference(trace(model, moving, inputs), trace(model, model, inputs))
    (plan,) = ct.plans(moving)
    assert moved(plan)["in"] > 0
    assert plan.peak_bytes < ct.plans(alone)[0].peak_bytes
    assert plan.peak_bytes >= plan.floor_bytes
    assert peak_of(model, moving, inputs) <= plan.peak_bytes == plan.budget_bytes
    torch._dynamo.reset()
    again = ct.compile(model, plan.peak_bytes, **options(tmp_path))
    again(*inputs)
    assert ct.plans(again)[0].peak_bytes <= plan.peak_bytes
    told: list[str] = []
    ct.explain(model, inputs, budgets=1, budget="min", show=told.append, **options(tmp_path, time_limit=1))
    assert any("the plan of least memory" in line for line in told), told


def test_a_second_backward_pass_and_a_step_without_one(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    compiled = ct.compile(model, "40%", **options(tmp_path))
    store = stored(compiled)
    loss = compiled(*inputs)
    assert store.used > 0, "copies wait for the backward pass"
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(first, model.parameters(), strict=True))
    del loss
    assert store.used == 0, "what is not needed any more has given its room back"
    loss = compiled(*inputs)
    del loss
    assert store.used == 0
    with torch.no_grad():
        compiled(*inputs)


def test_speed_is_measured_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told: list[str] = []
    (folder := tmp_path / "disk").mkdir()
    for times in (1, 1):
        torch._dynamo.reset()
        model, inputs = perceptron()
        compiled = ct.compile(model, "60%", **options(folder, offload_speed=None, cache=True, progress=told.append))
        compiled(*inputs)
        assert sum("measuring how fast" in line for line in told) == times
        memory = ct.plans(compiled)[0].graph.second_memory
        assert memory is not None
        assert memory.out_bytes_per_second > 1_000_000
    with_little = ct.compile(model, "60%", **options(folder, offload_speed=None, offload_memory=10_000))
    torch._dynamo.reset()
    with_little(*inputs)
    assert stored(with_little).most <= 10_000


def test_little_room_is_kept(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    room = 4 * 512 * 64 * 4
    compiled = ct.compile(model, "60%", **options(tmp_path, offload_memory=room))
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    (plan,) = ct.plans(compiled)
    assert 0 < plan.schedule.simulate(plan.graph).second_peak_bytes <= room
    assert stored(compiled).most <= room
    outputs = [compiled(*inputs)]
    with pytest.raises(checkmate.CheckmateError, match="offload_memory="):
        outputs += [compiled(*inputs) for _ in range(8)]


def test_parts_of_a_model(tmp_path: pathlib.Path) -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Sequential(*[p for _ in range(5) for p in (nn.Linear(64, 64), nn.GELU())]) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x).square().mean()

    model, inputs = Broken(), [torch.randn(512, 64)]
    everything = ct.compile(model, 10**9, graph_breaks="split", time_limit=1, costs="estimate", cache=False)
    everything(*inputs)
    top = max(plan.baseline_peak_bytes for plan in ct.plans(everything))
    torch._dynamo.reset()
    compiled = ct.compile(model, int(0.75 * top), graph_breaks="split", **options(tmp_path))
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    assert peak_of(model, compiled, inputs) <= int(0.75 * top)
    assert any(moved(plan)["in"] for plan in ct.plans(compiled))
    with pytest.raises(ValueError, match=r'offload_memory= .* graph_breaks="split"'):
        ct.compile(model, top, graph_breaks="split", **options(tmp_path, offload_memory="1GiB"))


def test_another_process_is_not_disturbed(tmp_path: pathlib.Path) -> None:
    """Two processes with one folder."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch, test_torch_offload as t, checkmate.torch as ct\n"
        "torch.manual_seed(0); model, inputs = t.perceptron(); compiled = ct.compile(model, '45%', **t.options(sys.argv[2]))\n"
        "for _ in range(3): assert not t.difference(t.trace(model, compiled, inputs), t.trace(model, model, inputs))\n"
        "assert t.moved(ct.plans(compiled)[0])['in']"
    )
    here = str(pathlib.Path(__file__).parent)
    running = [subprocess.Popen([sys.executable, "-c", program, here, str(tmp_path)], cwd=here) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert not list(tmp_path.iterdir())


def stored(compiled: Any) -> Store:
    from checkmate.torch.compiler import backend_of

    store = backend_of(compiled).options.store
    assert store is not None
    return store


def file_of(compiled: Any) -> int:
    place = stored(compiled)._place
    return place.handle  # type: ignore[union-attr]


def moving(where: pathlib.Path, **more: Any) -> tuple[Any, Any, list[Any]]:
    model, inputs = perceptron()
    compiled = ct.compile(model, "40%", **options(where, **more))
    return compiled, model, inputs


def test_a_byte_that_changed(tmp_path: pathlib.Path) -> None:
    compiled, _model, inputs = moving(tmp_path)
    loss = compiled(*inputs)
    handle = file_of(compiled)
    size = os.fstat(handle).st_size
    for at in range(0, size, 4096):
        (byte,) = os.pread(handle, 1, at)
        os.pwrite(handle, bytes([byte ^ 1]), at)
    with pytest.raises(checkmate.CheckmateError, match=f"offload: {re.escape(str(tmp_path))}/.*checksums differ"):
        loss.backward()


def test_a_file_cut_short(tmp_path: pathlib.Path) -> None:
    compiled, _model, inputs = moving(tmp_path)
    loss = compiled(*inputs)
    os.ftruncate(file_of(compiled), 100)
    # Copies that the backward pass makes may have made it longer again.
    with pytest.raises(checkmate.CheckmateError, match=f"offload: {re.escape(str(tmp_path))}/.*(the file ends at|checksums differ)"):
        loss.backward()


def test_a_file_that_may_not_grow(tmp_path: pathlib.Path) -> None:
    """A full disk and a quota take the same way; the limit of a process needs no root."""
    program = (
        "import sys, signal, resource; sys.path.insert(0, sys.argv[1])\n"
        "import torch, test_torch_offload as t, checkmate\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "import pathlib; compiled, model, inputs = t.moving(pathlib.Path(sys.argv[2]))\n"
        "before = [p.clone() for p in model.parameters()]\n"
        "try: compiled(*inputs)\n"
        "except checkmate.CheckmateError as error: print(error)\n"
        "assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))"
    )
    here = str(pathlib.Path(__file__).parent)
    assert resource.RLIMIT_FSIZE is not None
    ran = subprocess.run([sys.executable, "-c", program, here, str(tmp_path)], cwd=here, capture_output=True, text=True, check=True)
    assert re.search(rf"offload: {re.escape(str(tmp_path))}/.*cannot be had: File too large; .*ulimit -f", ran.stdout), ran.stdout + ran.stderr


def test_folders_that_cannot_be_used(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.write_text("")
    for where, what in ((missing, "there is no such folder; make it"), (file, "is no folder")):
        with pytest.raises(checkmate.CheckmateError, match=f"offload: {where}: {what}"):
            ct.compile(model, "50%", offload=where)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # who may write anywhere
        locked.rmdir()
        store = Store(str(locked))
        with pytest.raises(checkmate.CheckmateError, match="no file can be made there: No such file"):
            store.reserve(1)
    else:
        with pytest.raises(checkmate.CheckmateError, match="may not be written to; give another folder"):
            ct.compile(model, "50%", offload=locked)
    del inputs


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"compiler": "inductor"}, ValueError, 'offload= cannot be combined with compiler="inductor"'),
        ({"dynamic": True}, ValueError, "offload= cannot be combined with dynamic="),
        ({"in_flight": 2}, ValueError, "offload= cannot be combined with in_flight="),
        ({"counts": "reserved"}, ValueError, 'offload= cannot be combined with counts="reserved"'),
        ({"offload": 3}, TypeError, 'offload must be "host" or a folder'),
        ({"offload": None, "offload_memory": 3}, ValueError, "offload_memory= says more of offload="),
        ({"offload_memory": "much"}, ValueError, "offload_memory: 'much' is no size"),
        ({"offload_memory": -1}, ValueError, "offload_memory must be positive"),
        ({"offload_memory": 1.5}, TypeError, "offload_memory must be bytes"),
        ({"offload_speed": "fast"}, ValueError, "offload_speed must be bytes a second"),
        ({"offload_speed": (1, 0)}, ValueError, "offload_speed must be bytes a second"),
    ],
)
def test_what_cannot_be_asked_for(given: Options, error: type[Exception], match: str) -> None:
    model, _inputs = perceptron()
    with pytest.raises(error, match=re.escape(match)):
        ct.compile(model, "50%", **{"offload": "host"} | given)


def test_another_device_is_refused() -> None:
    model, inputs = perceptron()
    with pytest.raises(ValueError, match="offload= is for the machine that is here, and device="):
        ct.explain(model, inputs, device="H100", offload="host", show=None)


def test_an_error_names_a_budget_that_works(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    with pytest.raises(checkmate.InfeasibleError, match=r"budget=([\d,]+) works") as failed:
        ct.compile(model, "8%", **options(tmp_path))(*inputs)
    torch._dynamo.reset()
    works = failed.value.smallest_known
    assert works is not None
    compiled = ct.compile(model, works, **options(tmp_path))
    compiled(*inputs).backward()
    assert ct.plans(compiled)[0].peak_bytes <= works


def test_explain_says_what_the_link_takes(tmp_path: pathlib.Path) -> None:
    model, inputs = perceptron()
    told: list[str] = []
    found = ct.explain(model, inputs, budgets=2, budget="45%", show=told.append, **options(tmp_path))
    assert any(re.search(r"moved out, for which the link needs [\d.e-]+ s, and .* back", line) for line in told), told
    assert found.chosen.schedule is not None
    assert not list(tmp_path.iterdir())


def policy(wanted: str, _context: Any, call: Any, *_args: Any, **_kwargs: Any) -> Any:
    chosen = call in (torch.ops.aten.addmm.default, torch.ops.aten.native_layer_norm.default)
    return checkpoint.CheckpointPolicy[wanted] if chosen else checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


def regions(wanted: str) -> tuple[nn.Module, list[Any]]:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        contexts = functools.partial(checkpoint.create_selective_checkpoint_contexts, functools.partial(policy, wanted))
        for part in self.body:
            x = checkpoint.checkpoint(part, x, use_reentrant=False, context_fn=contexts)
        return x.square().mean()

    body = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Tanh()) for _ in range(4)])
    return Model(run, body=body), [torch.randn(512, 64)]


def policies() -> list[str]:
    return [name for name in ("MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD") if hasattr(checkpoint.CheckpointPolicy, name)]


@pytest.mark.parametrize("wanted", policies())
def test_policies_say_what_is_moved(wanted: str, tmp_path: pathlib.Path) -> None:
    model, inputs = regions(wanted)
    with pytest.raises(ct.UnsupportedError, match=rf'{wanted}.*give offload="host" or a folder'):
        ct.compile(model, "100%", time_limit=1, costs="estimate", cache=False)(*inputs)
    torch._dynamo.reset()
    compiled = ct.compile(model, "100%", **options(tmp_path, costs="measure"))
    found = trace(model, compiled, inputs)
    (plan,) = ct.plans(compiled)
    assert peak_of(model, compiled, inputs) <= plan.budget_bytes
    model.function = lambda self, x: self.body(x).square().mean()
    assert not difference(found, trace(model, model, inputs))
    left = [op.name for op in plan.graph.ops if op.name.startswith("leave")]
    assert bool(left) == (wanted == "MUST_CPU_OFFLOAD")
    if left:
        back = [op for op in plan.graph.ops if op.name.endswith("_again")]
        assert {"addmm_again", "native_layer_norm_again"} <= {op.name for op in back}
        assert all(not op.recomputable for op in plan.graph.ops if op.name.startswith(("addmm", "leave")) and not op.name.endswith("_again"))
        assert stored(compiled).most >= 4 * 512 * 64 * 4


def test_copies_that_policies_ask_for_are_within_offload_memory(tmp_path: pathlib.Path) -> None:
    if "MUST_CPU_OFFLOAD" not in policies():
        pytest.skip("this PyTorch has no MUST_CPU_OFFLOAD")
    model, inputs = regions("MUST_CPU_OFFLOAD")
    compiled = ct.compile(model, "100%", **options(tmp_path))
    compiled(*inputs).backward()
    store = stored(compiled)
    most = store.most
    assert os.fstat(store._place.handle).st_size == most, "what the step needs is there before it runs"  # type: ignore[union-attr]
    torch._dynamo.reset()
    compiled = ct.compile(model, "100%", **options(tmp_path, offload_memory=most + 200_000))
    compiled(*inputs).backward()
    (plan,) = ct.plans(compiled)
    assert plan.graph.second_memory is not None
    assert plan.graph.second_memory.bytes == 200_000
    assert stored(compiled).most <= most + 200_000
    torch._dynamo.reset()
    with pytest.raises(checkmate.CheckmateError, match=f"what checkpoint policies move takes {most:,} bytes of {most - 1:,}"):
        ct.compile(model, "100%", **options(tmp_path, offload_memory=most - 1))(*inputs)


def test_policies_that_are_preferred_bind_where_they_are_respected(tmp_path: pathlib.Path) -> None:
    if "PREFER_CPU_OFFLOAD" not in policies():
        pytest.skip("this PyTorch has no PREFER_CPU_OFFLOAD")
    model, inputs = regions("PREFER_CPU_OFFLOAD")
    compiled = ct.compile(model, "100%", checkpoint_policy="respect", **options(tmp_path))
    compiled(*inputs).backward()
    assert any(op.name.startswith("leave") for op in ct.plans(compiled)[0].graph.ops)


def test_pieces_of_a_file(tmp_path: pathlib.Path) -> None:
    """Copies lie in as many pieces as there is room in, and come back whole."""
    store = Store(str(tmp_path))
    made = [torch.randint(0, 255, (n,), dtype=torch.uint8) for n in (100, 3 << 20, 7, 5000)]
    copies = [copy for copy, sent in [store.out(value.untyped_storage()) for value in made[:3]] if sent.wait() is None]
    copies[1] = None  # type: ignore[call-overload]
    small, sent = store.out(made[3].untyped_storage())
    last, also_sent = store.out(made[1].untyped_storage())
    sent.wait()
    also_sent.wait()
    for copy, value in ((copies[0], made[0]), (copies[2], made[2]), (small, made[3]), (last, made[1])):
        target = torch.zeros_like(value)
        store.back(copy, target.untyped_storage()).wait()
        assert torch.equal(target, value)
    assert len(last.pieces) > 1
    size = os.fstat(store._place.handle).st_size  # type: ignore[union-attr]
    assert size <= sum(value.numel() for value in made) + (3 << 20)
    del copies, copy, small, last
    assert store.used == 0
