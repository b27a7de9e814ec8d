# SPDX-License-Identifier: Apache-2.0
"""What CUDA's libraries take, and how calls are timed there, on a simulated GPU."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from torch import fx  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.cost import cost  # noqa: E402
from checkmate.torch.fx import devices, random_state  # noqa: E402
from checkmate.torch.memory import libraries, meter  # noqa: E402
from checkmate.torch.plan import verify  # noqa: E402

GPU = torch.device("cuda")
aten = torch.ops.aten


def nodes(target: Any, *types: Any) -> list[fx.Node]:
    """Calls of `target` whose results have these types."""
    graph = fx.Graph()
    found = []
    for kind in types:
        node = graph.call_function(target, ())
        node.meta["val"] = torch.empty(2, 2, dtype=kind)
        found.append(node)
    return found


class SimulatedGpu:
    """Counts what is allocated, and reads the clock for events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allocated, self.stops = 4096, 0

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = time.perf_counter()

            def elapsed_time(self, later: Event) -> float:
                return 1e3 * (later.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: self.allocated)
        monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", self.clear, raising=False)

    def synchronize(self, _device: object) -> None:
        self.stops += 1

    def clear(self) -> None:
        self.allocated = 4096


def test_workspace_that_stays_is_counted_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGpu(monkeypatch)
    made: list[Any] = []

    def product(kind: Any, device: Any) -> None:
        assert device is GPU
        made.append(kind)
        gpu.allocated += 1000

    monkeypatch.setattr(libraries, "_product", product)
    both = nodes(aten.mm.default, torch.float32, torch.bfloat16, torch.float32)
    assert libraries.kept_bytes(both, GPU) == 2000
    assert made == [torch.float32, torch.bfloat16]
    assert libraries.kept_bytes(both, GPU) == 2000, "not only the first time"
    made.clear()
    assert libraries.kept_bytes(nodes(aten.add.Tensor, torch.float32), GPU) == 0
    assert libraries.kept_bytes(both, torch.device("cpu")) == 0
    assert made == []


def test_products_of_every_type_run() -> None:
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn):
        libraries._product(kind, torch.device("cpu"))


def test_trials_of_cudnn_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    convolutions = nodes(aten.convolution.default, torch.float32)
    libraries.check(convolutions, GPU)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with pytest.raises(ct.UnsupportedError, match=r"torch\.backends\.cudnn\.benchmark = False"):
        libraries.check(convolutions, GPU)
    libraries.check(nodes(aten.mm.default, torch.float32), GPU)
    libraries.check(convolutions, torch.device("cpu"))


def test_calls_are_timed_by_events_without_a_stop_between(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGpu(monkeypatch)
    ran: list[int] = []

    def run() -> None:
        ran.append(1)
        time.sleep(0.002)

    found = cost._intervals(run, 5, GPU, 0.1)
    assert len(ran) == 5 and gpu.stops == 1
    assert found[0] == 0.1 and len(found) == 6
    assert all(0.002 <= seconds < 0.1 for seconds in found[1:])
    assert cost._intervals(run, 5, GPU, 10.0) == [10.0], "a long call does not run again"
    assert len(ran) == 5


def test_a_fixed_amount_is_part_of_every_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    x = torch.randn(64, 32)

    def plan() -> Any:
        torch._dynamo.reset()
        compiled = ct.compile(lambda x: model(x).sum(), "100%", costs="estimate", cache=False)
        compiled(x).backward()
        return ct.plans(compiled)[0]

    before = plan()
    monkeypatch.setattr(libraries, "kept_bytes", lambda _nodes, _device: 10_000)
    after = plan()
    assert after.peak_bytes == before.peak_bytes + 10_000
    assert after.budget_bytes == before.budget_bytes + 10_000


def test_what_a_call_takes_is_read_from_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGpu(monkeypatch)
    peak = {"bytes": 1 << 30}  # of something earlier
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _device: peak.update(bytes=gpu.allocated))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: peak["bytes"])

    def call() -> None:
        """Takes 3000 bytes, of which 1024 stay."""
        peak["bytes"] = max(peak["bytes"], gpu.allocated + 3000)
        gpu.allocated += 1024

    assert meter.allocated(call, GPU) == 3000 and gpu.stops == 2
    assert meter.left(call, GPU) == 1024
    assert meter.allocated(lambda: None, GPU) == 0


def test_what_is_free_includes_what_the_allocator_holds_and_does_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    SimulatedGpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (10_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 6_000)
    assert devices.free_bytes(GPU) == 10_000 + 6_000 - 4096
    assert devices.allocated(513, GPU) == 1024 and devices.allocated(513, torch.device("cpu")) == 513


class SimulatedGenerator:
    """A GPU's generator, whose state is a count of draws."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn = 0
        monkeypatch.setattr(torch.cuda, "get_rng_state", self.state)
        monkeypatch.setattr(torch.cuda, "set_rng_state", self.put)
        monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [self.state(GPU)])
        monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda states: self.put(states[0], GPU))
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)

    def state(self, device: Any) -> Any:
        assert device is GPU
        return torch.tensor([self.drawn, 0], dtype=torch.int64).view(torch.uint8)

    def put(self, state: Any, device: Any) -> None:
        assert device is GPU
        self.drawn = int(state.view(torch.int64)[0])

    def draw(self, by: int = 1) -> int:
        self.drawn += by
        return self.drawn


def test_a_random_call_on_a_gpu_draws_the_same_when_it_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, host = SimulatedGenerator(monkeypatch), torch.get_rng_state()
    (call,) = nodes(aten.bernoulli.default, torch.float32)
    call.meta["val"] = torch.empty(2, device="meta")
    with_gpu = devices.AS_ON_CUDA.set(True)
    try:
        assert random_state.state_bytes(call) == random_state.get_state(GPU).nbytes == 16
    finally:
        devices.AS_ON_CUDA.reset(with_gpu)
    gpu.draw(7)
    noted = random_state.get_state(GPU)
    first = gpu.draw()
    gpu.draw(20)
    assert random_state.with_state(noted, GPU, gpu.draw) == first == 8
    assert gpu.drawn == 28, "the generator goes on from where it was"
    with pytest.raises(ZeroDivisionError):
        random_state.with_state(noted, GPU, lambda: gpu.draw() / 0)
    assert gpu.drawn == 28
    assert torch.equal(torch.get_rng_state(), host)


def test_verify_puts_the_generators_of_gpus_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGenerator(monkeypatch)
    gpu.draw(3)
    states = verify._generators()
    gpu.draw(5)
    verify._set_generators(states)
    assert gpu.drawn == 3
