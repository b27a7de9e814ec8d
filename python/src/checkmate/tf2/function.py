# SPDX-License-Identifier: Apache-2.0
"""A training step that is planned for each combination of shapes it is called with."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ..errors import UnsupportedError
from .alike import more_bytes, serves
from .operators import Program
from .planner import Options, Plan, plan
from .program import read
from .run import as_written


class Planned:
    """Called like the step it was made of. `plans`: one for each combination of shapes, types and Python values."""

    def __init__(self, step: Callable[..., Any], options: Options, name: str) -> None:
        self.step, self.options, self.name = _written(step), options, name
        self.plans: list[Plan] = []
        self._ready: dict[object, _Ready] = {}
        self._programs: list[tuple[Program, Plan, Callable[..., list[Any]]]] = []
        self._lock = threading.RLock()
        functools.update_wrapper(self, step, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not tf.executing_eagerly():
            raise UnsupportedError("a planned step is called from Python, not from within another tf.function, which would optimize it away")
        flat = [_tensor(leaf) for leaf in tf.nest.flatten((args, kwargs))]
        return self._for(args, kwargs, flat)([leaf for leaf in flat if isinstance(leaf, tf.Tensor)])

    def prepare(self, *args: Any, **kwargs: Any) -> Plan:
        """Plans for tensors or specs like these, without running anything."""
        flat = [leaf if isinstance(leaf, tf.TensorSpec) else _tensor(leaf) for leaf in tf.nest.flatten((args, kwargs))]
        return self._for(args, kwargs, flat).plan

    def forget(self) -> None:
        """The next call is traced and planned anew."""
        with self._lock:
            self.plans.clear()
            self._ready.clear()
            self._programs.clear()

    def concrete(self, *args: Any, **kwargs: Any) -> Any:
        """The traced step for tensors or specs like these."""
        flat = [leaf if isinstance(leaf, tf.TensorSpec) else _tensor(leaf) for leaf in tf.nest.flatten((args, kwargs))]
        return self._trace(args, kwargs, flat)[0]

    def _for(self, args: Any, kwargs: Any, flat: list[Any]) -> _Ready:
        structure = repr(tf.nest.map_structure(lambda _: ".", (args, kwargs)))
        key = structure, tuple(_key(leaf) for leaf in flat)
        with self._lock:
            ready = self._ready.get(key)
            if ready is None:
                ready = self._ready[key] = self._planned(args, kwargs, flat)
            return ready

    def _planned(self, args: Any, kwargs: Any, flat: list[Any]) -> _Ready:
        if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            raise UnsupportedError("a tf.distribute strategy with several replicas cannot be planned: compile the step of one")
        begin = time.perf_counter()
        self.options.say(f"{self.name}: tracing")
        concrete, kept = self._trace(args, kwargs, flat)
        step = read(concrete)
        self.options.say(f"{self.name}: traced {len(step.calls)} operators in {time.perf_counter() - begin:.1f} s")
        values = [leaf for leaf in flat if not isinstance(leaf, tf.Tensor)]  # their addresses identify them in the key
        made, built = self._served(step) or self._made(step)
        return _Ready(made, built, concrete, (kept, values))

    def _made(self, step: Program) -> tuple[Plan, Callable[..., list[Any]]]:
        made, built = plan(step, self.options, self.name, max((p.budget_bytes for p in self.plans), default=0))
        self.plans.append(made)
        self._programs.append((step, made, built))
        return made, built

    def _served(self, step: Program) -> tuple[Plan, Callable[..., list[Any]]] | None:
        """The plan of a step that differs only in the type of integers."""
        for planned, made, built in self._programs:
            if serves(planned, step) and made.peak_bytes + more_bytes(planned, step) <= made.budget_bytes:
                types = [value.spec.dtype for value in planned.inputs]
                self.options.say(f"{self.name}: as planned before, for integers of another type")
                return made, lambda *tensors, built=built, types=types: built(*(tf.cast(t, to) for t, to in zip(tensors, types, strict=False)))
        return None

    def _trace(self, args: Any, kwargs: Any, flat: list[Any]) -> tuple[Any, tf.types.experimental.ConcreteFunction | None]:
        places = [i for i, leaf in enumerate(flat) if isinstance(leaf, (tf.Tensor, tf.TensorSpec))]
        specs = [_spec(flat[i], self.name) for i in places]

        def body(*tensors: tf.Tensor) -> Any:
            leaves = list(flat)
            for i, tensor in zip(places, tensors, strict=True):
                leaves[i] = tensor
            inner_args, inner_kwargs = tf.nest.pack_sequence_as((args, kwargs), leaves)
            return self.step(*inner_args, **inner_kwargs)

        traced = tf.function(body)
        concrete = traced.get_concrete_function(*specs)
        return concrete, traced


class PlannedFunction(Planned):
    """Of a function, which may be a method: each object has its own plans."""

    def __init__(self, step: Callable[..., Any], options: Options, name: str) -> None:
        super().__init__(step, options, name)
        self._bound: weakref.WeakKeyDictionary[Any, Planned] = weakref.WeakKeyDictionary()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with self._lock:
            if instance not in self._bound:
                one, step = weakref.ref(instance), self.step  # or the plans would keep the object

                def of_one(*args: Any, **kwargs: Any) -> Any:
                    return step(one(), *args, **kwargs)

                self._bound[instance] = Planned(of_one, self.options, self.name)
            return _Method(self._bound[instance], instance)


class _Method:
    """For an object, which lives as long as its method is called."""

    def __init__(self, planned: Planned, instance: Any) -> None:
        self.checkmate_planned, self._instance = planned, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.checkmate_planned(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.checkmate_planned, name)


class _Ready:
    """A plan, and the function that runs it. `kept`: the owners of the variables that the step made when it was traced, and of the arguments."""

    def __init__(self, made: Plan, built: Callable[..., list[Any]], concrete: Any, kept: object) -> None:
        self.plan, self.built, self.concrete, self.kept = made, built, concrete, kept
        self.places = {id(tensor): i for i, tensor in enumerate(concrete.graph.outputs)}

    def __call__(self, tensors: list[tf.Tensor]) -> Any:
        with as_written():
            found = self.built(*tensors)
        outputs = self.concrete.graph.structured_outputs
        flat = [found[self.places[id(t)]] if id(t) in self.places else t for t in tf.nest.flatten(outputs, expand_composites=True)]
        return tf.nest.pack_sequence_as(outputs, flat, expand_composites=True)


def _written(step: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function inside a tf.function: as a call of one function, nothing inside of it could be planned."""
    if not isinstance(step, tf.types.experimental.PolymorphicFunction):
        return step
    if getattr(step, "_jit_compile", None):
        raise UnsupportedError("jit_compile=True: XLA orders operators as it likes and the budget would not hold; leave it out")
    return step.python_function


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
        raise UnsupportedError(f"{type(leaf).__name__}s have no fixed size and cannot be planned: pad them, or make them dense")
    if isinstance(leaf, tf.Variable):
        return leaf
    if hasattr(leaf, "__array__") and not isinstance(leaf, tf.Tensor):
        return tf.convert_to_tensor(leaf)
    return leaf


def _key(leaf: Any) -> object:
    if isinstance(leaf, (tf.Tensor, tf.TensorSpec)):
        return None if leaf.shape.rank is None else tuple(leaf.shape), leaf.dtype
    if isinstance(leaf, float):
        return leaf.hex()  # 0.0 and -0.0 are equal and not the same, a NaN is not equal to itself
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return type(leaf), leaf


def _spec(leaf: Any, name: str) -> tf.TensorSpec:
    if not leaf.shape.is_fully_defined():
        raise UnsupportedError(
            f"{name}: an argument of shape {leaf.shape} is not fixed: give the shape of a batch; another one is planned when it comes"
        )
    return tf.TensorSpec(leaf.shape, leaf.dtype)
