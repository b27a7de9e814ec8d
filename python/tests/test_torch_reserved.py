# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's allocator reserves for a plan, by its rules."""

from __future__ import annotations

import itertools
import pathlib
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import devices  # noqa: E402
from checkmate.torch.memory import caching_allocator  # noqa: E402
from checkmate.torch.memory.caching_allocator import CachingAllocator  # noqa: E402

MIB = 1 << 20


def test_sizes_of_segments() -> None:
    for size, segment in (
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB + 1, 12 * MIB),
    ):
        allocator = CachingAllocator(expandable=False)
        allocator.allocate(size)
        assert allocator.reserved == segment, size
    assert CachingAllocator(expandable=False).allocate(513).size == 1024


def test_a_large_block_is_split_only_if_more_than_a_mebibyte_is_left() -> None:
    for wanted, got in ((19 * MIB, 20 * MIB), (19 * MIB - 512, 19 * MIB - 512)):
        allocator = CachingAllocator(expandable=False)
        allocator.release(allocator.allocate(20 * MIB))
        assert allocator.allocate(wanted).size == got
        assert allocator.reserved == 20 * MIB
    grown = CachingAllocator(expandable=True)
    assert grown.allocate(19 * MIB).size == 19 * MIB


def test_gaps_between_blocks_in_use_are_no_room_for_a_larger_one() -> None:
    allocator = CachingAllocator(expandable=False)
    blocks = [allocator.allocate(4 * MIB) for _ in range(5)]
    assert allocator.reserved == 20 * MIB
    allocator.release(blocks[0])
    allocator.release(blocks[2])
    assert allocator.allocate(8 * MIB).size == 8 * MIB
    assert allocator.reserved == 40 * MIB
    allocator.release(blocks[1])  # now three are one
    assert allocator.allocate(12 * MIB).start == 0
    assert allocator.reserved == 40 * MIB


def test_an_expandable_range_grows_by_what_its_end_lacks() -> None:
    allocator = CachingAllocator(expandable=True)
    first = allocator.allocate(15 * MIB)
    assert allocator.reserved == 20 * MIB
    second = allocator.allocate(30 * MIB)
    assert (second.start, allocator.reserved) == (15 * MIB, 60 * MIB)
    allocator.release(first)
    third = allocator.allocate(14 * MIB)  # in the gap, though the end has room as well
    assert (third.start, allocator.reserved) == (0, 60 * MIB)


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_never_overlap_and_nothing_is_lost(seed: int, *, expandable: bool) -> None:
    draw = random.Random(seed)
    allocator = CachingAllocator(expandable=expandable)
    alive: list[tuple[caching_allocator.Block, int]] = []
    for _ in range(600):
        if alive and draw.random() < 0.48:
            allocator.release(alive.pop(draw.randrange(len(alive)))[0])
        else:
            size = draw.choice([draw.randint(1, 4096), draw.randint(1, 2 * MIB), draw.randint(MIB, 40 * MIB)])
            alive.append((allocator.allocate(size), size))
        for small in (True, False):
            taken = sorted((b.start, b.start + b.size) for b, _size in alive if b.small is small)
            assert all(end <= start for (_s, end), (start, _e) in itertools.pairwise(taken))
        assert all(block.size >= size and not block.free for block, size in alive)
        assert allocator.allocated == sum(block.size for block, _size in alive)
        assert allocator.allocated + sum(size for pool in allocator._free.values() for size, _at, _block in pool) == allocator.reserved
    for block, _size in alive:
        allocator.release(block)
    assert allocator.allocated == 0
    before = allocator.reserved
    if expandable:
        assert all(len(pool) <= 1 for pool in allocator._free.values()), "all that is free is joined"
    allocator.allocate(512)
    assert allocator.reserved == before


def test_settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    for text, expected in (("", False), ("expandable_segments:True", True), ("expandable_segments:False,garbage_collection_threshold:0.8", False),
                           ("max_split_size_mb:64", None), ("backend:cudaMallocAsync", None)):  # fmt: skip
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
        assert caching_allocator.expandable_segments() is expected


@pytest.mark.skipif(not hasattr(torch._C, "_accelerator_getAllocatorSettings"), reason="this PyTorch does not tell what was set")
def test_settings_made_while_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:0.8")
    before = torch._C._accelerator_getAllocatorSettings()
    try:
        for text, expected in (("expandable_segments:True", True), ("expandable_segments:False", False), ("max_split_size_mb:64", None)):
            torch._C._accelerator_setAllocatorSettings(text)
            assert caching_allocator.expandable_segments() is expected
    finally:
        torch._C._accelerator_setAllocatorSettings(before)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024) for _ in range(6))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def planned(budget: int | str, *, cache: bool = False, **options: Any) -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Net(), torch.randn(2048, 1024)
    compiled = ct.compile(model, budget, costs="estimate", cache=cache, **options)
    compiled(x).backward()
    return ct.plans(compiled)[0]


@pytest.fixture
def on_cuda() -> Any:
    """Planned as on a GPU, though all runs on the CPU."""
    token = devices.AS_ON_CUDA.set(True)
    yield
    devices.AS_ON_CUDA.reset(token)


@pytest.mark.usefixtures("on_cuda")
def test_a_plan_says_what_is_reserved_and_stays_within_it_if_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = planned("100%")
    assert whole.reserved_bytes >= whole.peak_bytes
    assert "reserves" in str(whole)
    tight = planned(whole.peak_bytes)
    assert tight.recomputed == []
    budget = whole.reserved_bytes - 24 * MIB
    counted = planned(budget, counts="reserved")
    assert counted.reserved_bytes == counted.peak_bytes <= budget
    assert counted.recomputed
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    assert planned("100%").reserved_bytes <= whole.reserved_bytes
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    assert planned("100%").reserved_bytes is None
    with pytest.raises(ct.UnsupportedError, match="PYTORCH_ALLOC_CONF"):
        planned("100%", counts="reserved")


@pytest.mark.slow
@pytest.mark.usefixtures("on_cuda")
def test_the_least_on_disk_is_of_what_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def path(**options: Any) -> set[str]:
        before = {f.name for f in tmp_path.rglob("*.json")}
        planned("min", cache=True, **options)
        return {f.name for f in tmp_path.rglob("*.json")} - before

    assert path()
    assert not path()
    assert path(counts="reserved")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    assert path(counts="reserved")


@pytest.mark.usefixtures("on_cuda")
def test_the_state_of_an_optimizer_lies_in_as_many_blocks() -> None:
    """Two tensors a parameter do not fill the gaps of segments as one block would."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1340, 1340, bias=False) for _ in range(6)))  # 6.85 MiB each: two in a segment of 20
    torch._dynamo.reset()
    compiled = ct.compile(model, "100%", costs="estimate", cache=False, optimizer=torch.optim.Adam(model.parameters()))
    compiled(torch.randn(4, 1340)).sum().backward()
    (plan,) = ct.plans(compiled)
    assert plan.reserved_bytes >= 9 * 20 * MIB


def test_on_a_cpu_nothing_is_reserved() -> None:
    assert planned("100%").reserved_bytes is None
    with pytest.raises(ct.UnsupportedError, match='counts="reserved" is for'):
        planned("100%", counts="reserved")
    with pytest.raises(ValueError, match='compiler="eager"'):
        ct.compile(Net(), "100%", counts="reserved", compiler="inductor")
    with pytest.raises(ValueError, match='counts must be "allocated" or "reserved"'):
        ct.compile(Net(), "100%", counts="free")  # type: ignore[arg-type]
