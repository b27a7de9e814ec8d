# SPDX-License-Identifier: Apache-2.0
"""Building and running TensorFlow functions whose operators run one after another, exactly as they are listed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from ..errors import UnsupportedError

if TYPE_CHECKING:
    from .program import Call, Program, Value


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """Functions that are called first in here run as they were built: Grappler's passes would merge what is computed twice."""
    owner = context.context()
    before = owner.function_call_options
    config = owner.config
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    owner.function_call_options = context.FunctionCallOptions(executor_type=before.executor_type, config_proto=config)
    try:
        yield
    finally:
        owner.function_call_options = before


def add_functions(source: Any) -> None:
    """Makes the functions that operators of `source` call known to the graph that is being built."""
    target = ops.get_default_graph()
    for function in source._functions.values():
        if not target._is_function(function.name):
            target._add_function_recursive(function)


def body_of(graph: Any, name: str) -> Any:
    """The graph of a function that operators of `graph` call."""
    function = graph._functions[name]
    if not hasattr(function, "graph"):
        raise UnsupportedError(f"the step calls {name}, a function in the form of TensorFlow 1, as tf.nn.ctc_loss and Keras' CTC do: nothing "
                               "says how large its tensors are")  # fmt: skip
    return function.graph


def attributes(op: tf.Operation) -> dict[str, attr_value_pb2.AttrValue]:
    return {name: value for name, value in op.node_def.attr.items() if name not in ("_class", "_output_shapes")}


#: TensorFlow's oneDNN pass merges these with a neighbour, whatever runs between the two; the graph then has a cycle. It does not
#: look through an Identity, which copies nothing.
_APART = {"BiasAdd", "BiasAddGrad", "Conv2D", "DepthwiseConv2dNative", "Conv3D", "Transpose", "_FusedConv2D"}


class Emitter:
    """Adds operators to the graph that is being built, each after the one before it, the first after those of `before`."""

    def __init__(self, before: Sequence[tf.Operation] = ()) -> None:
        self.graph = ops.get_default_graph()
        self.before = list(before)

    def emit(self, op: tf.Operation, inputs: Sequence[tf.Tensor], name: str = "") -> list[tf.Tensor]:
        with ops.control_dependencies(None), self.graph.control_dependencies(self.before):
            made = self.graph._create_op_internal(
                op.type, list(inputs), [t.dtype for t in op.outputs], name=name or op.name.replace("/", "_") or None,
                attrs=attributes(op), op_def=op.op_def)  # fmt: skip
        for new, old in zip(made.outputs, op.outputs, strict=True):
            if not new.shape.is_fully_defined():
                new.set_shape(old.shape)
            if new.dtype in (tf.resource, tf.variant) and hasattr(old, "_handle_data"):
                new._handle_data = old._handle_data
        self.before = [made]
        return list(made.outputs)

    def identity(self, tensor: tf.Tensor) -> tf.Tensor:
        with ops.control_dependencies(None), self.graph.control_dependencies(self.before):
            made = tf.identity(tensor)
        self.before = [made.op]
        return made

    def constant(self, value: np.ndarray[Any, Any], dtype: tf.DType) -> tf.Tensor:
        with ops.control_dependencies(None):
            return tf.constant(value, dtype)


def evaluate(graph: Any, calls: list[Call], wanted: list[Value]) -> list[np.ndarray[Any, Any]]:
    """What the calls, which need no inputs, give for the wanted values."""
    if not wanted:
        return []

    def build() -> list[tf.Tensor]:
        add_functions(graph)
        emitter = Emitter()
        made: dict[Value, tf.Tensor] = {}
        for call in calls:
            if call.type in ("Shape", "ShapeN", "Size", "Rank"):  # their operands are not there
                found = [tf.constant(_shape_fact(call.type, v, o.spec.dtype), o.spec.dtype) for v, o in zip(call.inputs, call.outputs, strict=True)]
            else:
                found = emitter.emit(call.op, [made[v] for v in call.inputs])
            made.update(zip(call.outputs, found, strict=True))
        return [made[v] for v in wanted]

    function = tf.function(build, autograph=False).get_concrete_function()  # a graph, whatever run_functions_eagerly says
    with as_written():
        return [np.asarray(t.numpy(), object if t.dtype == tf.string else None) for t in function()]


def _shape_fact(kind: str, value: Value, dtype: tf.DType) -> np.ndarray[Any, Any]:
    shape = value.spec.shape.as_list()
    fact = {"Size": int(np.prod(shape, dtype=np.int64)), "Rank": len(shape)}.get(kind, shape)
    return np.asarray(fact, dtype.as_numpy_dtype)


def build(program: Program, sequence: Sequence[Call], specs: Sequence[tf.TensorSpec]) -> Callable[..., list[Any]]:
    """A function of the step's own arguments that runs the calls of `sequence`, which may be several times there, one after
    another, and gives the results: the concrete function."""
    captured = program.captured
    own = len(program.inputs) - len(captured)

    def body(*arguments: tf.Tensor) -> list[tf.Tensor]:
        add_functions(program.graph)
        emitter = Emitter()
        outer = [emitter.graph.capture(t) for t in captured]
        now: dict[Value, tf.Tensor] = dict(zip(program.inputs, [*arguments, *outer], strict=True))

        def get(value: Value) -> tf.Tensor:
            if value not in now and value.constant is not None:
                now[value] = emitter.constant(value.constant, value.spec.dtype)
            return now[value]

        held: dict[Value, tf.Tensor] = {}

        def given(value: Value) -> tf.Tensor:
            if value not in held:
                with tf.init_scope():
                    outside = tf.constant(value.constant, value.spec.dtype)
                held[value] = emitter.graph.capture(outside)
            return held[value]

        for call in sequence:
            if call.type == "Const":
                with ops.control_dependencies(None):
                    now[call.outputs[0]] = Emitter().emit(call.op, [])[0]
                continue
            inputs = [get(v) for v in call.inputs]
            if call.unfolded >= 0:
                inputs[call.unfolded] = given(call.inputs[call.unfolded])
            if call.type in _APART:
                inputs[0] = emitter.identity(inputs[0])
            now.update(zip(call.outputs, emitter.emit(call.op, inputs), strict=True))
        return [get(v) for v in program.results]

    assert len(specs) == own
    concrete = tf.function(body, autograph=False, experimental_attributes={"_noinline": True}).get_concrete_function(*specs)
    alone = {call.inputs[0] for call in sequence if call.type == "DisableCopyOnRead"}
    handles = [outer for value, outer in zip(program.inputs[own:], captured, strict=True) if value in alone]

    def whole(*arguments: tf.Tensor) -> list[Any]:
        try:
            return concrete(*arguments)
        except BaseException:
            for handle in handles:  # where it ended between blocks, every read would be a copy from then on
                tf.raw_ops.DisableCopyOnRead(resource=handle)
            raise

    return whole if handles else concrete
