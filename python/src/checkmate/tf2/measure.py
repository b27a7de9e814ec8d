# SPDX-License-Identifier: Apache-2.0
"""Facts of an operator: nanoseconds, bytes in addition to its operands and outputs, which outputs are views, which operands it overwrites.

Every distinct call (operator, attributes, shapes, constants) runs by itself, on generated tensors (`trials.py`); the allocator's own
counters say what it took, in chunks, and of those that took more than their results TensorFlow's profiler says what they asked
for. So nothing is assumed of kernels, and no measurement needs more memory than one operator. Calls that read or change
state are not run: they are estimated.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

from ..errors import UnsupportedError
from . import trials
from .operators import Call, Value
from .program import FUNCTIONAL
from .run import attributes, body_of

#: The counters are looked at so often, since what was there before may go at the same time.
_TRIES = 4
#: Of what is kept on disk.
_VERSION = 4
#: What TensorFlow's own allocator on a CPU does not count.
_UNCOUNTED = 1 << 18
#: Operands and results together; nothing of this size is worth measuring, except operators with their own algorithms.
SMALL_CALL_BYTES = 1 << 15
#: Of an operator that does next to nothing.
_START_NANOSECONDS = 1000
#: These never write over an operand, which need not be tried.
_NEVER = ("Conv", "DepthwiseConv", "MatMul", "BatchMatMul", "MaxPool", "AvgPool", "Concat", "Sum", "Mean", "Max", "Min", "Prod", "Gather", "Tile",
          "Pad", "MirrorPad", "Transpose", "BiasAddGrad", "Einsum", "Resize", "ArgMax", "Slice", "StridedSlice", "Unsorted")  # fmt: skip
#: These have state that is not a variable: another operator of the same kind does not change it.
_RANDOM = {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial",
           "RandomGamma", "RandomPoissonV2", "RandomShuffle"}  # fmt: skip
#: These have one more operand before those of their functions.
_CHOOSING = {"If", "StatelessIf", "Case", "StatelessCase"}
#: Outputs that are views of the operand of the same number.
_EACH = {"IdentityN"}


@dataclass(frozen=True)
class Facts:
    """Of one call. `views`: for each output the operand whose memory it is, or -1. `over`: pairs of an operand and the output
    that takes its memory when nothing else reads it. `how`: "measured"; "chunks" where the workspace is as many bytes as the allocator gave,
    which may be more than were asked for; or "estimated"."""

    nanoseconds: int
    workspace_bytes: int
    views: tuple[int, ...]
    over: tuple[tuple[int, int], ...] = ()
    how: str = "measured"


def is_record(record: object) -> bool:
    """Whether it is a valid cached form of `Facts`."""
    if not isinstance(record, dict) or set(record) != {"nanoseconds", "workspace_bytes", "views", "over", "how"}:
        return False
    views, over = record["views"], record["over"]
    if not isinstance(views, list) or not isinstance(over, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in over):
        return False
    numbers = [record["nanoseconds"], record["workspace_bytes"], *(place for pair in over for place in pair)]
    return (
        all(type(n) is int and 0 <= n < 2**53 for n in numbers)
        and all(type(v) is int and v >= -1 for v in views)
        and record["how"] in ("measured", "chunks", "estimated")
    )


def _suits(record: dict[str, Any], call: Call) -> bool:
    """Whether the record may be of this call."""
    operands, outputs = len(call.inputs), len(call.outputs)
    return (
        len(record["views"]) == outputs
        and all(v < operands for v in record["views"])
        and all(i < operands and k < outputs for i, k in record["over"])
    )


@dataclass
class Costs:
    """Facts by call, measured once. `known` has those of earlier processes, by signature."""

    measure: bool = True
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    _facts: dict[str, Facts] = field(default_factory=dict)

    def of(self, calls: Sequence[Call], tell: Callable[[int, int], None]) -> dict[Call, Facts]:
        """Of each call; those that are not known yet are run."""
        found: dict[Call, Facts] = {}
        wanted: dict[str, list[Call]] = {}
        settings = _settings()
        for call in calls:
            if self.measure and _is_measured(call):
                wanted.setdefault(signature(call, settings), []).append(call)
            else:
                found[call] = estimate(call)
        new = []
        for key, alike in wanted.items():
            if (record := self.known.get(key)) is not None and _suits(record, alike[0]):
                self._facts.setdefault(key, _facts_of(record))
            elif key not in self._facts:
                new.append(key)
        measured: list[Facts | Exception] = []
        if new:  # where all is known, to collect would take longest
            with _no_collection() as collect:
                collect()
                measured = _measured([wanted[key][0] for key in new], tell)
        for key, facts in zip(new, measured, strict=True):
            if isinstance(facts, Exception):
                self.failed[wanted[key][0].name] = f"{type(facts).__name__}: {facts}".splitlines()[0]
                facts = estimate(wanted[key][0])
            self._facts[key] = facts
            self.known[key] = asdict(facts)
        self._ask({key: alike[0] for key, alike in wanted.items() if self._facts[key].how == "chunks"})
        found.update((call, self._facts[key]) for key, alike in wanted.items() for call in alike)
        return {call: found[call] for call in calls}

    def _ask(self, doubtful: dict[str, Call]) -> None:
        """Replaces what is known in chunks."""
        if not doubtful:
            return
        with _no_collection():
            asked = trials.asked_for([trials.Trial(call) for call in doubtful.values()], _device())
        for key, workspace in zip(doubtful, asked or (), strict=asked is not None):
            self._facts[key] = replace(self._facts[key], workspace_bytes=min(workspace, self._facts[key].workspace_bytes), how="measured")
            self.known[key] = asdict(self._facts[key])


def _is_measured(call: Call) -> bool:
    if (call.once and call.type not in _RANDOM) or _is_small(call):
        return False
    return not any(v.is_resource or v.spec.dtype in (tf.variant, tf.string) for v in [*call.inputs, *call.outputs])


def _facts_of(record: dict[str, Any]) -> Facts:
    return Facts(record["nanoseconds"], record["workspace_bytes"], tuple(record["views"]), tuple((a, b) for a, b in record["over"]), record["how"])


def _is_small(call: Call) -> bool:
    """Whether only starting the kernel takes time, and it allocates less than its outputs."""
    return sum(max(0, v.bytes) for v in [*call.inputs, *call.outputs]) <= SMALL_CALL_BYTES and not call.type.startswith(_NEVER)


def signature(call: Call, settings: list[object]) -> str:
    """The same for calls that take the same on this machine, with these settings."""
    parts: list[object] = [call.type, *described(call.op)]
    for value in call.inputs:
        constant = None if value.constant is None else value.constant.tobytes().hex()
        parts.append([value.spec.dtype.name, value.spec.shape.as_list(), constant])
    return hashlib.sha256(json.dumps([settings, *parts], sort_keys=True).encode()).hexdigest()[:32]


def described(op: tf.Operation) -> list[object]:
    """Its attributes; a function by its content, since its name differs each time."""
    found: list[object] = []
    for name, value in sorted(attributes(op).items()):
        if value.func.name:
            body = body_of(op.graph, value.func.name, _given(op))
            places = {id(t): [i, k] for i, inner in enumerate(body.get_operations()) for k, t in enumerate(inner.outputs)}
            found.append([[inner.type, [places[id(t)] for t in inner.inputs], *described(inner)] for inner in body.get_operations()])
            found.append([places[id(t)] for t in body.outputs])
        else:
            found.append([name, value.SerializeToString(deterministic=True).hex()])
    return found


def _settings() -> list[object]:
    """The environment on which the choice of kernels, their allocations, and what is counted of these depend."""
    named = sorted((k, v) for k, v in os.environ.items() if k.startswith(("TF_", "ONEDNN_", "DNNL_", "OMP_")) and "LOG" not in k)
    devices = [d.name for d in tf.config.list_physical_devices()]
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return [_VERSION, tf.__version__, platform.processor(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            devices, threads, config.is_op_determinism_enabled(), named]  # fmt: skip


def estimate(call: Call) -> Facts:
    """Floating-point operations at 10 a nanosecond and bytes at 5; views and operators that write over operands by name."""
    moved = sum(max(0, v.bytes) for v in [*call.inputs, *call.outputs])
    views = tuple(_view_by_name(call, i) for i in range(len(call.outputs)))
    if views and all(v >= 0 for v in views):
        return Facts(0, 0, views, how="estimated")
    nanoseconds = _START_NANOSECONDS + moved // 5 + _flops(call) // 10
    workspace = _inside(call) if call.type in FUNCTIONAL else 0
    return Facts(nanoseconds, workspace, views, how="estimated")


def _view_by_name(call: Call, output: int) -> int:
    if call.type == "ReadVariableOp":
        return 0
    if call.type in (
        "Identity",
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "StopGradient",
        "PreventGradient",
        "Snapshot",
        "CheckNumerics",
        "CheckNumericsV2",
    ):
        return 0
    return output if call.type in _EACH else -1


def _flops(call: Call) -> int:
    def elements(value: Value) -> int:
        return int(np.prod(value.spec.shape.as_list(), dtype=np.int64))

    if call.type in ("MatMul", "BatchMatMulV2", "BatchMatMul") and len(call.inputs) >= 2:
        inner = call.inputs[0].spec.shape.as_list()[-1]
        return 2 * elements(call.outputs[0]) * int(inner)
    if call.type == "Conv2D":
        return 2 * elements(call.outputs[0]) * elements(call.inputs[1]) // max(1, call.inputs[1].spec.shape.as_list()[-1])
    if call.type.startswith("Conv2DBackprop"):
        wide = [v for v in call.inputs if v.spec.shape.rank == 4]
        return 2 * min((elements(v) for v in wide), default=0) * 9 * 64
    return 0


def _inside(call: Call) -> int:
    """Of operators that run functions: all that is computed inside, and in what is called there, a bound."""
    return sum(_computed(call.op.graph, name, _given(call.op)) for name in _called(call.op))


def _called(op: tf.Operation) -> list[str]:
    """Names of the functions that an operator runs; in the form of TensorFlow 1, the operator's own type."""
    if op.type in op.graph._functions:
        return [op.type]
    return [f.name for attribute in op.node_def.attr.values() for f in (attribute.func, *attribute.list.func) if f.name]


def _given(op: tf.Operation) -> list[tf.TensorShape]:
    """Shapes of what the functions of an operator are given, where they are known: a loop's tensors keep theirs."""
    return [t.shape for t in (op.inputs[1:] if op.type in _CHOOSING else op.inputs)]


def _computed(graph: Any, name: str, shapes: list[tf.TensorShape]) -> int:
    """Bytes of all outputs in a function."""
    inner = body_of(graph, name, shapes)
    total = 0
    for op in inner.get_operations():
        total += sum(_computed(graph, called, _given(op)) for called in _called(op))
        total += sum(
            int(np.prod(t.shape.as_list(), dtype=np.int64)) * t.dtype.size for t in op.outputs if t.shape.is_fully_defined() and t.dtype.size
        )
    return total


def _is_counted(fill: Callable[[Any], Any], size: int, device: str) -> bool:
    before = tf.config.experimental.get_memory_info(device)["current"]
    held = fill(tf.constant(size // 4))
    now = tf.config.experimental.get_memory_info(device)["current"]
    del held
    return now - before >= size


@functools.cache
def counted_from(device: str = "CPU:0") -> int:
    """Bytes of the smallest tensor that the allocator's counters see: TensorFlow's own on the CPU leaves small ones out."""

    fill = tf.function(lambda elements: tf.fill([elements], 1.0), reduce_retracing=True)
    silent = UnsupportedError(f"TensorFlow's allocator of {device} does not count what it hands out, as without oneDNN: start the program with "
                              "TF_ENABLE_ONEDNN_OPTS=1 in the environment, with which convolutions take less, or with TF_CPU_ALLOCATOR_USE_BFC=1, "
                              'or plan with costs="estimate"')  # fmt: skip
    try:
        tf.config.experimental.get_memory_info(device)
    except ValueError:
        raise silent from None
    with _no_collection():
        for exponent in range(8, 24):
            if any([_is_counted(fill, 2**exponent, device) for _ in range(_TRIES)]):
                return 2**exponent
    raise silent


def _device() -> str:
    return "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"


def uncounted_bytes(costs: Costs) -> int:
    """Bytes that kernels may allocate in addition to what was measured. UnsupportedError if nothing can be measured."""
    return counted_from() if costs.measure else _UNCOUNTED


def table(costs: Costs, calls: Sequence[Call], tell: Callable[[int, int], None] = lambda _done, _of: None) -> dict[Call, Facts]:
    """Facts of all calls. `tell` gets how many distinct calls were measured of how many."""
    return costs.of(calls, tell)


def _measured(calls: list[Call], tell: Callable[[int, int], None]) -> list[Facts | Exception]:
    """Facts of distinct calls: each runs on shared operands, then on operands with no other reference, then is timed."""
    if not calls:
        return []
    device = _device()
    tell(0, len(calls))
    seen = trials.watched([trials.Trial(call) for call in calls], device, lambda done: tell(done, len(calls)))
    views = {call: _views(call, one.after, device) for call, one in zip(calls, seen, strict=True) if isinstance(one, trials.Seen)}
    copies = [trial for call in views for trial in _copies(call, views[call], device)]
    over = _over(copies, trials.watched(copies, device, lambda _done: None), dict(zip(calls, seen, strict=True)))
    run = {call: one for call, one in zip(calls, seen, strict=True) if isinstance(one, trials.Seen) and not _is_view(views[call])}
    times = dict(zip(run, trials.timed([trials.Trial(call) for call in run], list(run.values())), strict=True))
    found: list[Facts | Exception] = []
    for call, one in zip(calls, seen, strict=True):
        if isinstance(one, trials.Seen):
            workspace = max(0, one.peak - one.after)
            taken = tuple((trial.copied, _output_of(trial, views[call])) for trial in over.get(call, ()))
            found.append(Facts(times.get(call, 0), workspace, views[call], taken, "chunks" if workspace else "measured"))
        else:
            found.append(one)
    return found


def _is_view(views: tuple[int, ...]) -> bool:
    return bool(views) and all(v >= 0 for v in views)


def _views(call: Call, after: int, device: str) -> tuple[int, ...]:
    nothing = tuple(-1 for _ in call.outputs)
    if not call.outputs or max(o.bytes for o in call.outputs) < counted_from(device) or after >= sum(v.bytes for v in call.outputs) // 2:
        return nothing
    if call.type in _EACH:
        return tuple(range(len(call.outputs)))
    wide = [i for i, v in enumerate(call.inputs) if v.bytes >= max(o.bytes for o in call.outputs)]
    return tuple(wide[0] for _ in call.outputs) if wide else nothing


def _output_of(trial: trials.Trial, views: tuple[int, ...]) -> int:
    """The first output that may take the operand's place."""
    size = trial.call.inputs[trial.copied].bytes
    return next((k for k, output in enumerate(trial.call.outputs) if output.bytes == size and views[k] < 0), -1)


def _copies(call: Call, views: tuple[int, ...], device: str) -> Iterator[trials.Trial]:
    """The call on a copy of each operand in turn, to see whether it writes over it."""
    if call.type.startswith(_NEVER) or _is_view(views):
        return
    for i in trials.Trial(call).free:
        trial = trials.Trial(call, i)
        if _output_of(trial, views) >= 0 and call.inputs[i].bytes >= counted_from(device):
            yield trial


def _over(copies: list[trials.Trial], found: list[trials.Seen | Exception], held: dict[Call, Any]) -> dict[Call, list[trials.Trial]]:
    """Of each call, the trials that took no more for the result."""
    over: dict[Call, list[trials.Trial]] = {}
    for trial, one in zip(copies, found, strict=True):
        if isinstance(one, trials.Seen) and one.peak < held[trial.call].peak + trial.call.inputs[trial.copied].bytes // 2:
            over.setdefault(trial.call, []).append(trial)
    return over


@contextlib.contextmanager
def _no_collection() -> Iterator[Callable[[], object]]:
    """Tensors of functions that are gone must not be freed while a counter is watched."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield gc.collect
    finally:
        if was:
            gc.enable()
