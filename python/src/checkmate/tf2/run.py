# SPDX-License-Identifier: Apache-2.0
"""Building and running TensorFlow functions whose operators run one after another, exactly as they are listed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import function_def_to_graph, importer, ops

from ..errors import UnsupportedError
from .operators import Call, Program, Value


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """Functions whose first call is in this context run without Grappler's passes, which would merge recomputations."""
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
    """Adds the functions that operators of `source` call to the graph that is being built."""
    target = ops.get_default_graph()
    for function in source._functions.values():
        if not target._is_function(function.name):
            target._add_function_recursive(function)


def body_of(graph: Any, name: str, shapes: Sequence[tf.TensorShape] = ()) -> Any:
    """The graph of a function that operators of `graph` call. `shapes`: of its arguments, for functions in the form of TensorFlow 1, of which
    only the definition is known."""
    function = graph._functions[name]
    if hasattr(function, "graph"):
        return function.graph
    definition = function_pb2.FunctionDef()
    definition.CopyFrom(function.cached_definition)
    definition.arg_attr.clear()  # where shapes are said to be unknown
    with tf.Graph().as_default():
        add_functions(graph)
        body = function_def_to_graph.function_def_to_graph(definition, input_shapes=list(shapes) or None)
    for op in body.get_operations():
        if op.type not in graph._functions and not all(t.shape.is_fully_defined() for t in op.outputs):
            raise UnsupportedError(
                f"the step calls {name}, a function in the form of TensorFlow 1, in which {op.name} ({op.type}) gives a tensor of no known size"
            )
    return body


def attributes(op: tf.Operation) -> dict[str, attr_value_pb2.AttrValue]:
    return {name: value for name, value in op.node_def.attr.items() if name not in ("_class", "_output_shapes")}


#: TensorFlow's oneDNN pass merges these with a neighbour, even if others run between the two; the graph then has a cycle. It does not
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

    def identity(self, tensor: tf.Tensor) -> Any:
        return self.last(lambda: tf.identity(tensor))

    def last(self, make: Callable[[], Any]) -> Any:
        """The operator that `make` adds, after all the others."""
        with ops.control_dependencies(None), self.graph.control_dependencies(self.before):
            made = make()
        self.before = [made.op if isinstance(made, tf.Tensor) else made]
        return made

    def constant(self, value: np.ndarray[Any, Any], dtype: tf.DType) -> tf.Tensor:
        with ops.control_dependencies(None):
            return tf.constant(value, dtype)


class Listing:
    """Operators that are added to a graph in one call, which takes a fraction of the time: each after the one before it. Tensors are names."""

    def __init__(self) -> None:
        self._definition = graph_pb2.GraphDef()
        self._given: dict[str, tf.Tensor] = {}
        self._before = ""

    def given(self, tensor: tf.Tensor) -> str:
        """A tensor that is in the graph already."""
        name = f"given_{len(self._given)}"
        self._given[f"{name}:0"] = tensor
        return f"{name}:0"

    def constant(self, value: np.ndarray[Any, Any], dtype: tf.DType) -> str:
        node = self._node("Const", "constant")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, value.shape))
        return f"{node.name}:0"

    def emit(self, op: tf.Operation, inputs: Sequence[str], *, first: bool = False) -> list[str]:
        """Adds an operator like `op`. `first`: one without operands, before all others."""
        node = self._node(op.type, op.name.replace("/", "_"))  # errors name it
        node.input.extend(inputs)
        for name, value in attributes(op).items():
            node.attr[name].CopyFrom(value)
        if not first:
            self._follow(node)
        return [f"{node.name}:{k}" for k in range(len(op.outputs))]

    def add(self, kind: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        """The first output of an operator with attributes that are types, yes or no, texts, or lists of types."""
        node = self._node(kind, kind)
        node.input.extend(inputs)
        for name, value in attrs.items():
            if isinstance(value, tf.DType):
                node.attr[name].type = value.as_datatype_enum
            elif isinstance(value, bool):
                node.attr[name].b = value
            elif isinstance(value, bytes):
                node.attr[name].s = value
            else:
                node.attr[name].list.type.extend(dtype.as_datatype_enum for dtype in value)
        self._follow(node)
        return f"{node.name}:0"

    def tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """The tensors of these names, in the graph that is being built."""
        used = {name if ":" in name else f"{name}:0" for node in self._definition.node for name in node.input}
        made = {name: tensor for name, tensor in self._given.items() if name in used}
        wanted = list(dict.fromkeys(name for name in names if name not in self._given))
        with ops.control_dependencies(None):
            found = dict(zip(wanted, importer.import_graph_def(self._definition, made, wanted, name="") or (), strict=True))
        return [self._given[name] if name in self._given else found[name] for name in names]

    def _node(self, kind: str, hint: str) -> Any:
        count = len(self._definition.node)
        node = self._definition.node.add()
        node.op, node.name = kind, f"{hint}_{count}"
        return node

    def _follow(self, node: Any) -> None:
        if self._before:
            node.input.append(f"^{self._before}")
        self._before = node.name


def evaluate(graph: Any, calls: list[Call], wanted: list[Value]) -> list[np.ndarray[Any, Any]]:
    """The wanted values, computed by the calls, which need no inputs."""
    if not wanted:
        return []

    def build() -> list[tf.Tensor]:
        add_functions(graph)
        listing = Listing()
        made: dict[Value, str] = {}
        same: dict[object, list[str]] = {}
        for call in calls:
            inputs: list[str] = []
            if call.type in ("Shape", "ShapeN", "Size", "Rank"):  # their operands are not there
                facts = [_shape_fact(call.type, v, o.spec.dtype) for v, o in zip(call.inputs, call.outputs, strict=True)]
                key: object = [(fact.dtype, fact.shape, fact.tobytes()) for fact in facts]
            else:
                facts, inputs = [], [made[v] for v in call.inputs]
                key = call.type, inputs, sorted((name, value.SerializeToString(deterministic=True)) for name, value in attributes(call.op).items())
            found = same.get(repr(key))
            if found is None:
                constants = [listing.constant(fact, o.spec.dtype) for fact, o in zip(facts, call.outputs, strict=False)]
                found = same[repr(key)] = constants or listing.emit(call.op, inputs)
            made.update(zip(call.outputs, found, strict=True))
        return listing.tensors([made[v] for v in wanted])

    function = tf.function(build, autograph=False).get_concrete_function()  # a graph, even with run_functions_eagerly
    with as_written():
        return [np.asarray(t.numpy(), object if t.dtype == tf.string else None) for t in function()]


def _shape_fact(kind: str, value: Value, dtype: tf.DType) -> np.ndarray[Any, Any]:
    shape = value.spec.shape.as_list()
    fact = {"Size": int(np.prod(shape, dtype=np.int64)), "Rank": len(shape)}.get(kind, shape)
    return np.asarray(fact, dtype.as_numpy_dtype)


def build(program: Program, sequence: Sequence[Call], specs: Sequence[tf.TensorSpec]) -> Callable[..., list[Any]]:
    """The concrete function, of the step's arguments, that runs the calls of `sequence`, which may contain a call several times, one after
    another, and returns the results."""
    captured = program.captured
    own = len(program.inputs) - len(captured)

    def body(*arguments: tf.Tensor) -> list[tf.Tensor]:
        add_functions(program.graph)
        target, listing = ops.get_default_graph(), Listing()
        outer = [target.capture(t) for t in captured]
        now = {value: listing.given(t) for value, t in zip(program.inputs, [*arguments, *outer], strict=True)}

        def get(value: Value) -> str:
            if value not in now and value.constant is not None:
                now[value] = listing.constant(value.constant, value.spec.dtype)
            return now[value]

        held: dict[Value, str] = {}

        def given(value: Value) -> str:
            if value not in held:
                with tf.init_scope():
                    outside = tf.constant(value.constant, value.spec.dtype)
                held[value] = listing.given(target.capture(outside))
            return held[value]

        for call in sequence:
            if call.type == "Const":
                now[call.outputs[0]] = listing.emit(call.op, [], first=True)[0]
                continue
            inputs = [get(v) for v in call.inputs]
            if call.unfolded >= 0:
                inputs[call.unfolded] = given(call.inputs[call.unfolded])
            if call.type in _APART:
                inputs[0] = listing.add("Identity", [inputs[0]], T=call.inputs[0].spec.dtype)
            now.update(zip(call.outputs, listing.emit(call.op, inputs), strict=True))
        return listing.tensors([get(v) for v in program.results])

    assert len(specs) == own
    concrete = tf.function(body, autograph=False, experimental_attributes={"_noinline": True}).get_concrete_function(*specs)
    alone = {call.inputs[0] for call in sequence if call.type == "DisableCopyOnRead"}
    handles = [outer for value, outer in zip(program.inputs[own:], captured, strict=True) if value in alone]

    def whole(*arguments: tf.Tensor) -> list[Any]:
        try:
            return concrete(*arguments)
        except BaseException:
            for handle in handles:  # if it ended between blocks, every later read would be a copy
                tf.raw_ops.DisableCopyOnRead(resource=handle)
            raise

    return whole if handles else concrete
