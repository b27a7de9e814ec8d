# SPDX-License-Identifier: Apache-2.0
"""Runs calls in isolation, on generated tensors: many in one function, one after another, reading the allocator and the clock in between.

TensorFlow takes some ten milliseconds to make and start a function, far longer than most operators run. The outputs of a call are held until
they are measured, and freed before the next one begins. Calls are grouped as long as their operands fit into what the largest of them needs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from . import asked
from .operators import Call, Value
from .run import Listing, add_functions, as_written

#: How often a function is measured: TensorFlow's threads may release tensors late, so that in some runs the peak is too low, or the bytes
#: afterwards are too many or too few.
_WATCHED = 3
#: The most calls in a function, and the bytes of operands that are always allowed.
_CALLS, _BYTES = 200, 1 << 26
#: Calls that take `_LONG` seconds or more are timed while their memory is measured; shorter ones run `_REPEATED` times in a row, in `_ROUNDS`
#: rounds (least, most), for `_SECONDS` a call.
_LONG, _REPEATED, _ROUNDS, _SECONDS = 0.004, 5, (3, 6), 0.01

#: What a call may fail with.
ERRORS = (tf.errors.OpError, ValueError, TypeError)


@dataclass(frozen=True)
class Trial:
    """A call to be run. `copied`: an operand that is a copy without other references, or -1."""

    call: Call
    copied: int = -1

    @property
    def free(self) -> list[int]:
        """The operands that are given; the others are constants of the graph."""
        return [i for i, v in enumerate(self.call.inputs) if v.constant is None or i == self.call.unfolded]


@dataclass(frozen=True)
class Seen:
    """Bytes above those before the call, at the peak and with its results, and its seconds, which include some milliseconds of overhead."""

    peak: int
    after: int
    seconds: float


def watched(trials: Sequence[Trial], device: str, tell: Callable[[int], None]) -> list[Seen | Exception]:
    """The memory of each by the allocator's counters, or why it does not run. `tell`: gets the number done, now and then."""
    found: dict[Trial, Seen | Exception] = {}
    for group in _groups(trials):
        _each(group, lambda some: _watched(some, device), found)
        tell(len(found))
    return [found[trial] for trial in trials]


def timed(trials: Sequence[Trial], seen: Sequence[Seen]) -> list[int]:
    """Nanoseconds of each, of what was seen before."""
    found: dict[Trial, int | Exception] = {trial: int(1e9 * one.seconds) for trial, one in zip(trials, seen, strict=True) if one.seconds >= _LONG}
    for group in _groups([trial for trial in trials if trial not in found]):
        _each(group, _timed, found)
    # One that failed now and did not before has the time that it took then.
    times = [found[trial] for trial in trials]
    return [max(1, one if isinstance(one, int) else int(1e9 * s.seconds)) for one, s in zip(times, seen, strict=True)]


def asked_for(trials: Sequence[Trial], device: str) -> list[int] | None:
    """Bytes that the kernel of each asked for, at most, beyond its results; None where the profiler does not say."""
    groups = list(_groups(trials))
    watch = asked.Watch()
    try:
        made = [_function(group, watch.begin, watch.end) for group in groups]
        found = watch.workspaces(made, device)
    except ERRORS:
        return None
    of_trial = dict(zip([trial for group in groups for trial in group], found, strict=True)) if found is not None else None
    return None if of_trial is None else [of_trial[trial] for trial in trials]


def _each(group: list[Trial], what: Callable[[list[Trial]], Iterable[Any]], found: dict[Trial, Any]) -> None:
    """Of each of a group; where they fail together, of halves of it."""
    try:
        found.update(zip(group, what(group), strict=True))
    except ERRORS as error:
        if len(group) == 1:
            found[group[0]] = error
            return
        for half in (group[: len(group) // 2], group[len(group) // 2 :]):
            _each(half, what, found)


def _groups(trials: Iterable[Trial]) -> Iterator[list[Trial]]:
    """Groups of trials, the largest first. O(trials * log trials)."""
    ordered = sorted(trials, key=lambda trial: -sum(trial.call.inputs[i].bytes for i in trial.free))
    group: list[Trial] = []
    held: dict[object, int] = {}
    largest = 0
    for trial in ordered:
        needed = {key: trial.call.inputs[i].bytes for i, key in _places(trial)}
        together = held | needed
        # The first one of a group is the largest of those that are left.
        if group and (len(group) == _CALLS or sum(together.values()) > max(_BYTES, largest)):
            yield group
            group, together = [], needed
        largest = largest if group else sum(needed.values())
        group.append(trial)
        held = together
    if group:
        yield group


def _places(trial: Trial) -> list[tuple[int, object]]:
    """For each operand that is given, what names the tensor that stands for it: calls share them, two operands of one call do not."""
    often: dict[object, int] = {}
    found: list[tuple[int, object]] = []
    for i in trial.free:
        value = trial.call.inputs[i]
        kind = value.spec.dtype.name, tuple(value.spec.shape.as_list()), None if value.constant is None else value.constant.tobytes()
        often[kind] = often.get(kind, 0) + 1
        found.append((i, (*kind, often[kind])))
    return found


def _function(group: Sequence[Trial], begin: Callable[[], None], end: Callable[[], None], repeated: int = 0) -> Callable[[], Any]:
    """A function that runs `begin`, the call and `end` for each. With `repeated` it returns the times before, between and after one call and
    `repeated` more of each."""
    shared: dict[object, Value] = {}
    for trial in group:
        for i, key in _places(trial):
            shared.setdefault(key, trial.call.inputs[i])

    looks = tf.Graph()  # as long as this is there, so are the two functions
    with looks.as_default():
        tokens = [tf.py_function(what, [], []).get_attr("token") for what in (begin, end)]

    def build(*arguments: tf.Tensor) -> list[tf.Tensor]:
        listing = Listing()
        given = {key: listing.given(argument) for key, argument in zip(shared, arguments, strict=True)}
        times: list[str] = []
        held: list[str] = []

        def look(token: bytes) -> None:
            listing.add("EagerPyFunc", token=token, is_async=False, Tin=[], Tout=[])

        for graph in {id(trial.call.op.graph): trial.call.op.graph for trial in group}.values():
            add_functions(graph)
        for trial in group:
            call, places = trial.call, dict(_places(trial))
            inputs = [given[places[i]] if i in places else listing.constant(np.asarray(v.constant), v.spec.dtype) for i, v in enumerate(call.inputs)]
            if repeated:
                times.append(listing.add("Timestamp"))
                listing.emit(call.op, inputs)
                times.append(listing.add("Timestamp"))
                for _ in range(repeated):
                    listing.emit(call.op, inputs)
                times.append(listing.add("Timestamp"))
                continue
            look(tokens[0])
            if trial.copied >= 0:
                inputs[trial.copied] = listing.add("DeepCopy", [inputs[trial.copied]], T=call.inputs[trial.copied].spec.dtype)
            outputs = listing.emit(call.op, inputs)
            look(tokens[1])
            held = [listing.add("Identity", [name], T=value.spec.dtype) for name, value in zip(outputs, call.outputs, strict=True)]  # until here
        return listing.tensors(times or held)  # what nothing asks for would not be run

    function = tf.function(build, autograph=False).get_concrete_function(*[value.spec for value in shared.values()])
    tensors = [_generated(value) for value in shared.values()]

    def run() -> Any:
        with as_written():
            return function(*tensors)

    run.looks = looks  # type: ignore[attr-defined]
    return run


def _watched(group: Sequence[Trial], device: str) -> list[Seen]:
    looks: list[tuple[float, int, int]] = []

    def look() -> None:
        at = time.perf_counter()
        info = tf.config.experimental.get_memory_info(device)
        tf.config.experimental.reset_memory_stats(device)
        looks.append((at, info["current"], info["peak"]))

    def begin() -> None:
        look()
        looks[-1] = (time.perf_counter(), *looks[-1][1:])

    run = _function(group, begin, look)
    run()  # kernels are made, and what they keep
    runs: list[list[tuple[float, int, int]]] = []
    for _ in range(_WATCHED):
        looks.clear()
        run()
        runs.append(list(looks))
    found = []
    for k in range(len(group)):
        pairs = [(one[2 * k], one[2 * k + 1]) for one in runs]
        peak = max(end[2] - start[1] for start, end in pairs)
        after = statistics.median_low([end[1] - start[1] for start, end in pairs])
        found.append(Seen(peak, after, min(end[0] - start[0] for start, end in pairs)))
    return found


def _timed(group: Sequence[Trial]) -> list[int]:
    def nothing() -> None: ...

    run = _function(group, nothing, nothing, _REPEATED)
    run()
    begin = time.perf_counter()
    fastest = [float("inf")] * len(group)
    rounds = 0
    least, most = _ROUNDS
    while rounds < most and (rounds < least or time.perf_counter() - begin < _SECONDS * len(group)):
        times = [float(t) for t in run()]
        fastest = [min(was, times[3 * k + 2] - times[3 * k + 1]) for k, was in enumerate(fastest)]
        rounds += 1
    return [max(1, int(1e9 * seconds / _REPEATED)) for seconds in fastest]


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
