# SPDX-License-Identifier: Apache-2.0
"""What an operator takes: nanoseconds, bytes beside its operands and outputs, which outputs are views, which operands it writes over.

Every distinct call (operator, attributes, shapes, constants) runs by itself, on generated tensors, in functions made for
it; the allocator's own counters say what it took, in chunks, and of those that took more than their results TensorFlow's profiler
says what they asked for. So nothing is assumed of kernels, and no measurement needs more memory than one operator. Calls that read or
change state are not run: they are estimated.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

from ..errors import UnsupportedError
from . import asked as asked_for
from .program import FUNCTIONAL, Call, Value
from .run import Emitter, add_functions, as_written, attributes, body_of

#: A call is watched so often.
_WATCHED = 3
#: The counters are looked at so often, since what was there before may go at the same time.
_TRIES = 4
#: Of what is kept on disk.
_VERSION = 3
#: What TensorFlow's own allocator on a CPU does not count.
_UNCOUNTED = 1 << 18
#: A call is repeated until this much time has been spent, or so often.
_SECONDS, _TIMES = 0.05, 6
_REPEATED = 5
#: Operands and results together; nothing of this size is worth measuring, but for operators of their own algorithms.
SMALL_CALL_BYTES = 1 << 15
#: Of an operator that does next to nothing.
_START_NANOSECONDS = 1000
#: These never write over an operand, which need not be tried.
_NEVER = ("Conv", "DepthwiseConv", "MatMul", "BatchMatMul", "MaxPool", "AvgPool", "Concat", "Sum", "Mean", "Max", "Min", "Prod", "Gather", "Tile",
          "Pad", "MirrorPad", "Transpose", "BiasAddGrad", "Einsum", "Resize", "ArgMax", "Slice", "StridedSlice", "Unsorted")  # fmt: skip
#: These have a state of their own, which is no variable: another one of the same kind leaves it alone.
_RANDOM = {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial",
           "RandomGamma", "RandomPoissonV2", "RandomShuffle"}  # fmt: skip
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
    """Whether it is what `Facts` were kept as."""
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

    def of(self, call: Call) -> Facts:
        if (
            not self.measure
            or (call.once and call.type not in _RANDOM)
            or _is_small(call)
            or any(v.is_resource or v.spec.dtype in (tf.variant, tf.string) for v in [*call.inputs, *call.outputs])
        ):
            return estimate(call)
        key = signature(call)
        found = self._facts.get(key)
        if found is None:
            record = self.known.get(key)
            if record is not None and _suits(record, call):
                found = Facts(
                    record["nanoseconds"], record["workspace_bytes"], tuple(record["views"]), tuple((a, b) for a, b in record["over"]), record["how"]
                )
            else:
                found = self._measured(call)
                self.known[key] = asdict(found)
            self._facts[key] = found
        return found

    def ask(self, found: dict[Call, Facts]) -> None:
        """Replaces what is known in chunks."""
        doubtful = {signature(call): call for call, facts in found.items() if facts.how == "chunks"}
        try:
            asked = asked_for.workspaces((_Trial(call).once() for call in doubtful.values()), _device()) if doubtful else None
        except (tf.errors.OpError, ValueError, TypeError):
            asked = None
        if asked is None:
            return
        for key, workspace in zip(doubtful, asked, strict=True):
            self._facts[key] = replace(self._facts[key], workspace_bytes=min(workspace, self._facts[key].workspace_bytes), how="measured")
            self.known[key] = asdict(self._facts[key])
        for call, facts in found.items():
            if facts.how == "chunks":
                found[call] = self._facts[signature(call)]

    def _measured(self, call: Call) -> Facts:
        try:
            return _Trial(call).facts()
        except (tf.errors.OpError, ValueError, TypeError) as error:
            self.failed[call.name] = f"{type(error).__name__}: {error}".splitlines()[0]
            return estimate(call)


def _is_small(call: Call) -> bool:
    """Starting the kernel is all that takes time, and what it allocates is less than what it gives."""
    return sum(max(0, v.bytes) for v in [*call.inputs, *call.outputs]) <= SMALL_CALL_BYTES and not call.type.startswith(_NEVER)


def signature(call: Call) -> str:
    """The same for calls that take the same on this machine, with these settings."""
    parts: list[object] = [call.type, *_attributes(call.op)]
    for value in call.inputs:
        constant = None if value.constant is None else value.constant.tobytes().hex()
        parts.append([value.spec.dtype.name, value.spec.shape.as_list(), constant])
    return hashlib.sha256(json.dumps([_settings(), *parts], sort_keys=True).encode()).hexdigest()[:32]


def _attributes(op: tf.Operation) -> list[object]:
    """A function by what it computes: its name is another one each time."""
    found: list[object] = []
    for name, value in sorted(attributes(op).items()):
        if value.func.name:
            body = body_of(op.graph, value.func.name)
            places = {id(t): [i, k] for i, inner in enumerate(body.get_operations()) for k, t in enumerate(inner.outputs)}
            found.append([[inner.type, [places[id(t)] for t in inner.inputs], *_attributes(inner)] for inner in body.get_operations()])
            found.append([places[id(t)] for t in body.outputs])
        else:
            found.append([name, value.SerializeToString(deterministic=True).hex()])
    return found


def _settings() -> list[object]:
    """On which kernels, what they allocate, and what of it is counted depend."""
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
    return sum(_computed(call.op.graph, name) for name in _called(call.op))


def _called(op: tf.Operation) -> list[str]:
    """Names of the functions that an operator runs."""
    return [f.name for attribute in op.node_def.attr.values() for f in (attribute.func, *attribute.list.func) if f.name]


def _computed(graph: Any, name: str) -> int:
    """Bytes of all outputs in a function."""
    inner = body_of(graph, name)
    total = 0
    for op in inner.get_operations():
        total += sum(_computed(graph, called) for called in _called(op))
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


class _Trial:
    """One call in functions of its own."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.free = [i for i, v in enumerate(call.inputs) if v.constant is None or i == call.unfolded]
        self.device = _device()
        self.given = [_generated(call.inputs[i]) for i in self.free]

    def facts(self) -> Facts:
        peak, after = self._watched(self.once())
        outputs = sum(v.bytes for v in self.call.outputs)
        views = self._views(after, outputs)
        workspace = max(0, peak - after)
        how = "chunks" if workspace else "measured"
        if all(v >= 0 for v in views) and views:
            return Facts(0, workspace, views, how=how)
        over = self._over(peak, views) if not self.call.type.startswith(_NEVER) else ()
        return Facts(self._nanoseconds(), workspace, views, over, how)

    def once(self) -> Callable[..., Any]:
        """What runs the call."""
        return self._function(lambda inputs: self._emit(inputs))

    def _views(self, after: int, outputs: int) -> tuple[int, ...]:
        call = self.call
        if max(o.bytes for o in call.outputs) < counted_from(self.device) or after >= outputs // 2:
            return tuple(-1 for _ in call.outputs)
        if call.type in _EACH:
            return tuple(range(len(call.outputs)))
        wide = [i for i, v in enumerate(call.inputs) if v.bytes >= max(o.bytes for o in call.outputs)]
        if not wide:
            return tuple(-1 for _ in call.outputs)
        return tuple(wide[0] for _ in call.outputs)

    def _over(self, held_peak: int, views: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Each operand in turn is a copy that nobody else has."""
        call = self.call
        found = []
        for i in self.free:
            size = call.inputs[i].bytes
            k = next((k for k, output in enumerate(call.outputs) if output.bytes == size and views[k] < 0), -1)
            if k >= 0 and size >= counted_from(self.device):
                peak, _ = self._watched(self._function(functools.partial(self._on_copy, i)))
                if peak < held_peak + size // 2:
                    found.append((i, k))
        return tuple(found)

    def _on_copy(self, i: int, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        copied = list(inputs)
        copied[i] = tf.raw_ops.DeepCopy(x=inputs[i])
        return self._emit(copied)

    def _emit(self, inputs: list[tf.Tensor], times: int = 1) -> list[tf.Tensor]:
        emitter = Emitter()
        found: list[tf.Tensor] = []
        for _ in range(times):
            found = emitter.emit(self.call.op, inputs)
        return found

    def _function(self, body: Callable[[list[tf.Tensor]], list[tf.Tensor]]) -> Callable[..., Any]:
        call = self.call

        def build(*arguments: tf.Tensor) -> list[tf.Tensor]:
            add_functions(call.op.graph)
            given = dict(zip(self.free, arguments, strict=True))
            return body([given[i] if i in given else tf.constant(v.constant, v.spec.dtype) for i, v in enumerate(call.inputs)])

        function = tf.function(build, autograph=False).get_concrete_function(*[call.inputs[i].spec for i in self.free])

        def run() -> Any:
            with as_written():
                return function(*self.given)

        run()  # kernels are made, and what they keep
        return run

    def _watched(self, run: Callable[[], Any]) -> tuple[int, int]:
        """Bytes more than before: at most, and with the outputs there. TensorFlow's threads may let go of what they held when the
        call is over already, so that a peak is too low, or what is there too much or too little, in one of some runs."""
        peaks, afters = [], []
        for _ in range(_WATCHED):
            before = tf.config.experimental.get_memory_info(self.device)["current"]
            tf.config.experimental.reset_memory_stats(self.device)
            held = run()
            info = tf.config.experimental.get_memory_info(self.device)
            peaks.append(info["peak"] - before)
            afters.append(info["current"] - before)
            del held
        return max(peaks), statistics.median_low(afters)

    def _nanoseconds(self) -> int:
        once = self.once()
        often = self._function(lambda inputs: self._emit(inputs, 1 + _REPEATED))
        begin = time.perf_counter()
        fastest: list[float] = [float("inf"), float("inf")]
        rounds = 0
        while rounds < _TIMES and (rounds < 2 or time.perf_counter() - begin < _SECONDS):
            for k, run in enumerate((once, often)):
                start = time.perf_counter()
                run()
                fastest[k] = min(fastest[k], time.perf_counter() - start)
            rounds += 1
        return max(1, int(1e9 * (fastest[1] - fastest[0]) / _REPEATED))


def _generated(value: Value) -> tf.Tensor:
    """Numbers like those in training: floats around one, zeros as indices; of a constant, its own."""
    if value.constant is not None:
        return tf.constant(value.constant, value.spec.dtype)
    shape, dtype = value.spec.shape.as_list(), value.spec.dtype
    if dtype.is_floating or dtype.is_complex:
        return tf.cast(tf.random.stateless_uniform(shape, (1, 2), 0.5, 1.5), dtype)
    if dtype == tf.bool:
        return tf.ones(shape, dtype)
    if dtype == tf.resource or dtype == tf.variant or dtype == tf.string:
        raise TypeError(f"{dtype.name} tensors are not generated")
    return tf.zeros(shape, dtype)


def uncounted_bytes(costs: Costs) -> int:
    """What kernels might allocate more than was measured. UnsupportedError where nothing can be measured."""
    return counted_from() if costs.measure else _UNCOUNTED


def table(costs: Costs, calls: Iterable[Call], tell: Callable[[int], None] = lambda _left: None) -> dict[Call, Facts]:
    """Facts of all calls. `tell` gets the number of calls done now and then."""
    found: dict[Call, Facts] = {}
    with _no_collection() as collect:
        collected = len(costs.known)
        for i, call in enumerate(calls):
            found[call] = costs.of(call)
            if i % 100 == 99:
                if len(costs.known) > collected:  # it takes a while, and what was only looked up leaves nothing behind
                    collect()
                    collected = len(costs.known)
                tell(i + 1)
        costs.ask(found)
    return found


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
