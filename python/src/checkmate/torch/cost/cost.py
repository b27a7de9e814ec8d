# SPDX-License-Identifier: Apache-2.0
"""What a call costs in nanoseconds: estimated from FLOPs and bytes, or measured on the device.

Estimates are a roofline: the larger of FLOPs over the device's rate and bytes moved over its bandwidth, plus the time to
start a call. Only ratios matter to a schedule. Measurements are the fastest of several runs on tensors of the same shape,
strides and type, kept on disk by device, call and versions.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import pathlib
import resource
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_map

from ...planning import plan_cache
from ..distributed import shards
from ..fx import dataflow, effects, symbols
from ..memory import meter
from ..rewrite import from_data, recurrent
from . import collectives

#: FLOPs per second, bytes per second, seconds to start a call. Round figures of a CPU core and of a data-centre GPU
#: (NVIDIA A100 data sheet: 19.5 TFLOPS in single precision, 1.6 TB/s); measure to do better.
_RATES = {"cpu": (4e10, 8e9, 4e-6), "cuda": (1.6e13, 1.2e12, 6e-6)}


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _values(node: fx.Node) -> tuple[Any, Any]:
    """The call's arguments, nodes replaced by the fake tensors they stand for."""
    return symbols.concrete(fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val")))


def has_formula(node: fx.Node) -> bool:
    """Whether PyTorch counts the call's floating-point operations: it is a matrix product, a convolution or attention."""
    from torch.utils.flop_counter import flop_registry

    return getattr(node.target, "overloadpacket", None) in flop_registry


def flops(node: fx.Node) -> int:
    """Floating-point operations of matrix products, convolutions and attention; of other calls, one an output element."""
    from torch.utils.flop_counter import flop_registry

    args, kwargs = _values(node)
    out = symbols.concrete(node.meta.get("val"))
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    return sum(t.numel() for t in _tensors(out))


#: What no rate tells: it is run.
_TRIED = (recurrent.FORWARD, recurrent.BACKWARD)


def _is_view(node: fx.Node) -> bool:
    outputs = _tensors(node.meta.get("val"))
    inputs = {dataflow.storage_key(t) for parent in node.all_input_nodes for t in _tensors(parent.meta.get("val"))}
    return bool(outputs) and all(dataflow.storage_key(t) in inputs for t in outputs)


#: Bytes of the tensor that PyTorch makes of a number: of double precision or of 64 bits. It is copied to the operands' type.
_NUMBER = 8


def _number_bytes(node: fx.Node, args: Any, kwargs: Any, outputs: list[torch.Tensor]) -> int:
    """What the CPU's kernels allocate for operands that are numbers: a step without a byte to spare exceeds its budget by them."""
    if isinstance(node.target, from_data.Read) and outputs:
        return 2 * (_NUMBER + max(t.element_size() for t in outputs))
    if not isinstance(node.target, torch._ops.OpOverload) or not outputs or outputs[0].device.type != "cpu":
        return 0
    given = dict(zip((a.name for a in node.target._schema.arguments), args, strict=False)) | kwargs
    numbers = sum(isinstance(given.get(name), (int, float)) for name in ("self", "other"))
    return numbers * (_NUMBER + max(t.element_size() for t in [*_tensors((args, kwargs)), *outputs]))


def estimate(node: fx.Node) -> tuple[int, int]:
    """Nanoseconds, and bytes of workspace: those of operands that are numbers, and of recurrent layers, which are measured. What
    other kernels take inside no estimate knows."""
    if node.target in _TRIED:
        return _tried(node)
    sent = collectives.cost(node)
    if sent is not None:
        return sent
    outputs = _tensors(symbols.concrete(node.meta.get("val")))
    device = outputs[0].device.type if outputs else "cpu"
    rate, bandwidth, start = _RATES.get(device, _RATES["cuda"])
    if _is_view(node):
        return int(start * 0.25e9), 0
    args, kwargs = _values(node)
    moved = sum(t.numel() * t.element_size() for t in [*_tensors((args, kwargs)), *outputs])
    return int((max(flops(node) / rate, moved / bandwidth) + start) * 1e9), _number_bytes(node, args, kwargs, outputs)


def _tried(node: fx.Node) -> tuple[int, int]:
    with _outside_of_tracing():
        nanoseconds, workspace, *_ = _measured(node, 1)
        return int(nanoseconds), int(workspace)


def _read(path: pathlib.Path) -> dict[str, list[float]]:
    """What was measured before, and of no call that it could not be (it has no outputs there); a damaged file is only slower."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    entries = known.items() if isinstance(known, dict) else ()
    return {key: value for key, value in entries if isinstance(value, list) and len(value) > 2 and all(isinstance(x, (int, float)) for x in value)}


class Measured:
    """Measures each distinct call once. Operands are random, but integers, which could be wrong indices, are zeros."""

    def __init__(self, cache: pathlib.Path | None, runs: int = 5) -> None:
        self.runs = runs
        self.known: dict[str, list[float]] = {}
        self._keys: dict[fx.Node, str | None] = {}
        self.path = cache / "costs.json" if cache is not None else None
        if self.path is not None:
            self.known = _read(self.path)

    def prepare(self, nodes: Iterable[fx.Node], tell: Callable[[int, int], None] | None = None) -> None:
        """Measures what is not known yet, and keeps it on disk. `tell` is called every second with how many calls of how many are."""
        missing = {key: node for node in nodes if node.op == "call_function" and (key := self._key(node)) and key not in self.known}
        if not missing:
            return
        with _outside_of_tracing():
            told = time.perf_counter()
            for done, (key, node) in enumerate(missing.items()):
                if tell is not None and time.perf_counter() - told >= 1.0:
                    told = time.perf_counter()
                    tell(done, len(missing))
                self.known[key] = _measured(node, self.runs)
        if self.path is not None:  # with what other processes have measured meanwhile
            self.known = _read(self.path) | self.known
            plan_cache.keep(self.path, json.dumps(self.known))

    def estimated(self, nodes: Iterable[fx.Node]) -> list[str]:
        """Those of the calls, each by its name once, that could not be run on operands made up for them."""
        failed = [n for n in nodes if n.op == "call_function" and (key := self._key(n)) and len(self.known[key]) == 2 and _tensors(n.meta.get("val"))]
        return sorted({str(node.target) for node in failed})

    def __call__(self, node: fx.Node) -> tuple[int, int]:
        key = self._key(node)
        if key is None:
            return estimate(node)
        nanoseconds, workspace, *outputs = self.known[key]
        node.meta[dataflow.REAL_BYTES] = [int(size) for size in outputs]
        return int(nanoseconds), int(workspace)

    def _key(self, node: fx.Node) -> str | None:
        """Of a call; None when it is not measured."""
        if node not in self._keys:
            self._keys[node] = _key(node) if _measurable(node) else None
        return self._keys[node]


#: Calls with an operand whose bytes another call wrote for them alone: with others they crash.
_OPAQUE = {"aten::mkldnn_rnn_layer_backward", "aten::_cudnn_rnn_backward"}


def _measurable(node: fx.Node) -> bool:
    target = node.target
    known = target is not shards.GATHER and not effects.runs_once(node) and not _is_view(node)
    return isinstance(target, torch._ops.OpOverload) and target._schema.name not in _OPAQUE and known


def _device(node: fx.Node) -> torch.device:
    return next((t.device for t in _tensors(node.meta.get("val"))), torch.device("cpu"))


def _key(node: fx.Node) -> str:
    def describe(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return f"{value.dtype}{tuple(value.shape)}{tuple(value.stride())}"
        return value if isinstance(value, (int, float, bool)) or value is None else str(value)

    device = _device(node)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu{torch.get_num_threads()}"
    text = repr((name, torch.__version__, str(node.target), tree_map(describe, _values(node))))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


#: Seconds in runs after which a call is not run once more to find a faster one; for each run that counts, the most there are, since
#: the C library may hand out new memory for a while; and elements of a block of random numbers.
_ENOUGH, _PATIENCE, _BLOCK = 0.2, 4, 1 << 16


def _random(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, its memory filled with normally distributed numbers: copies of one block, since drawing as many as a large
    tensor has takes longer than most calls with it."""
    memory = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    block = memory[:_BLOCK].normal_()
    whole = memory.numel() // _BLOCK * _BLOCK
    memory[:whole].view(-1, _BLOCK).copy_(block.clone()) if whole else None
    memory[whole:].copy_(block[: memory.numel() - whole]) if whole else None
    return tensor


def _runnable(node: fx.Node, *, run_producers: bool = False) -> Callable[[], object]:
    """The call on operands made up for it, of the types and strides that PyTorch's tracing tells; with `run_producers`, of those
    that the calls they are results of really give. They may differ: under autocast, tracing tells that a batch norm on a CPU gives
    its statistics in half precision."""
    results: dict[fx.Node, Any] = {}

    def operands(call: fx.Node) -> tuple[Any, Any]:
        return symbols.concrete(fx.map_arg((call.args, call.kwargs), operand))

    def operand(given: fx.Node) -> Any:
        parts = given.target is operator.getitem
        producer = given.args[0] if parts else given
        if not run_producers or not isinstance(producer, fx.Node) or not isinstance(producer.target, torch._ops.OpOverload):
            return given.meta.get("val")
        if producer not in results and _is_view(producer):  # a statistic is detached before it is saved
            args, kwargs = operands(producer)
            results[producer] = producer.target(*args, **kwargs)
        elif producer not in results:
            results[producer] = _runnable(producer)() if _measurable(producer) else producer.meta["val"]
        return results[producer][given.args[1]] if parts else results[producer]

    def real(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        tensor = torch.empty_strided(tuple(value.shape), tuple(value.stride()), dtype=value.dtype, device=value.device)
        return _random(tensor) if value.dtype.is_floating_point else tensor.zero_()

    target = node.target
    assert callable(target)
    args, kwargs = tree_map(real, operands(node))
    if target is recurrent.BACKWARD:
        args = recurrent.belonging(args[1], *args[3:])
    return lambda: target(*args, **kwargs)


def _outside_of_tracing() -> Any:
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


def _page_faults() -> int:
    """Of this process so far. A page that is touched for the first time costs more than most calls do with it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """By the clock."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def _repeated(run: Callable[[], object], runs: int, device: torch.device, spent: float) -> list[float]:
    """Seconds of more runs, `spent` seconds after the first began."""
    found: list[float] = [spent]
    settled = 0
    while settled < runs and len(found) <= _PATIENCE * runs and spent < _ENOUGH:
        faults = _page_faults()
        found.append(_seconds(run, device))
        settled += _page_faults() == faults
        spent += found[-1]
    return found


def _intervals(run: Callable[[], object], runs: int, device: torch.device, spent: float) -> list[float]:
    """Seconds of more runs, one behind the other without a stop, from event to event: what a call takes in a step, whether the kernel
    is the longer part or the processor's work to start it."""
    if spent >= _ENOUGH:
        return [spent]
    with torch.cuda.device(device):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]  # type: ignore[no-untyped-call]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        torch.cuda.synchronize(device)
    return [spent, *(a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks))]


def _measured(node: fx.Node, runs: int) -> list[float]:
    """Nanoseconds of a call, the bytes that it allocates in addition to its outputs, as the allocator tells it, and those of each
    output's storage. Time is the least of the runs, since whatever disturbs a run makes it longer. There are `runs` that touch no new
    memory, as in a step that is not the first, or fewer where they take long. The estimate, and no bytes, when operands cannot be
    made up."""
    device = _device(node)

    try:
        run = _runnable(node)
        out: list[object] = []
        again: list[float] = []
        try:
            fastest = _seconds(run, device)  # in which libraries may take memory to choose among kernels
        except RuntimeError:
            run = _runnable(node, run_producers=True)
            fastest = _seconds(run, device)
        # Timed as well: a first run that was disturbed for long would be the only one.
        peak = meter.allocated(lambda: again.append(_seconds(lambda: out.append(run()), device)), device)
        outputs = _tensors(out)
        distinct = {t.untyped_storage()._cdata: dataflow.storage_bytes(t) for t in outputs}
        inside = peak - sum(distinct.values()) - recurrent.recorded_bytes(outputs)
        sizes = [max(0, inside), *(dataflow.storage_bytes(t) for t in outputs)]
        del outputs
        out.clear()
        fastest = min(fastest, *again)
        fastest = min(fastest, *(_intervals if device.type == "cuda" else _repeated)(run, runs, device, fastest))
    except RuntimeError:
        if node.target in _TRIED:
            raise
        return [float(estimate(node)[0]), 0]
    return [fastest * 1e9, *sizes]
