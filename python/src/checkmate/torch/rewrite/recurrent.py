# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM, GRU and RNN as one operator each, which runs once, or again as a whole.

PyTorch's tracer takes them apart into a call for each step of the sequence, and into other kernels than those of eager mode. Here
the call in Dynamo's graph becomes `checkmate::recurrent`, which runs eager mode's own with autograd on, and gives in addition to the
outputs a *record*: what autograd keeps for the backward pass. `checkmate::recurrent_backward` is handed the record and runs
autograd's backward pass over it, so that results are those of eager mode. To the planner the record is a tensor of the bytes that
autograd keeps, held or made again like any other; operands and outputs that autograd keeps are not among them, but are
operands of the backward call. What stands for it when the step runs is an empty tensor, with whose storage the record dies.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._C import DispatchKey  # type: ignore[attr-defined]
from torch._dispatch.python import no_python_dispatcher
from torch.autograd.graph import GradientEdge, get_gradient_edge, saved_tensors_hooks

from ...errors import UnsupportedError
from ..fx.dataflow import storage_key
from ..user_code import place

_KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")

#: Other than the tensors: input, initial states, weights.
_OPTIONS = "str kind, int states, bool biases, int layers, float dropout_p, bool training, bool bidirectional, bool batch_first, bool[] trained"

torch.library.define("checkmate::recurrent", f"(Tensor[] tensors, {_OPTIONS}) -> Tensor[]", tags=torch.Tag.nondeterministic_seeded)
torch.library.define(
    "checkmate::recurrent_backward", f"(Tensor record, Tensor?[] gradients, Tensor[] outputs, Tensor[] tensors, {_OPTIONS}) -> Tensor[]"
)

FORWARD = torch.ops.checkmate.recurrent.default
BACKWARD = torch.ops.checkmate.recurrent_backward.default


@dataclass
class _Kept:
    """A tensor that autograd keeps, or where it lies in an operand's or output's storage."""

    tensor: torch.Tensor | None
    operand: int = -1
    layout: tuple[tuple[int, ...], tuple[int, ...], int] = ((), (), 0)


class _Operands(list[torch.Tensor]):
    """A call's operands and outputs, while its backward pass runs. Autograd's nodes know these but not the record, which knows
    the nodes: that would be a cycle that nothing collects."""

    def get(self, kept: _Kept) -> torch.Tensor:
        if kept.tensor is not None:
            return kept.tensor
        size, stride, offset = kept.layout
        return self[kept.operand].as_strided(size, stride, self[kept.operand].storage_offset() + offset)


@dataclass
class _Record:
    ends: list[GradientEdge]  # of the outputs
    starts: list[GradientEdge]  # of the operands that are trained
    operands: _Operands
    size_bytes: int


#: By the storage of the tensor that stands for it.
_RECORDS: dict[int, _Record] = {}


class _Enter(torch.autograd.Function):
    """The tensors, as no leaves: autograd holds on to those."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("a backward pass ends here")


@contextlib.contextmanager
def _with_autograd() -> Iterator[None]:
    """A kernel runs below autograd; while PyTorch traces nothing hears of what autograd keeps."""
    keys = [DispatchKey.AutogradFunctionality, DispatchKey.ADInplaceOrView, DispatchKey.AutogradOther]
    before = [torch._C._dispatch_tls_is_dispatch_key_excluded(key) for key in keys]  # type: ignore[attr-defined]
    hear = getattr(torch._C._autograd, "_saved_tensors_hooks_set_tracing", lambda _tracing: False)
    traced = hear(False)
    try:
        for key in keys:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)  # type: ignore[attr-defined]
        with torch.enable_grad():
            yield
    finally:
        hear(traced)
        for key, excluded in zip(keys, before, strict=True):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)  # type: ignore[attr-defined]


def _call(kind: str, tensors: Sequence[torch.Tensor], states: int, *options: Any) -> list[torch.Tensor]:
    """Eager mode's call: all outputs, one for the sequence, then the last states."""
    first: Any = list(tensors[1 : 1 + states])
    call: Callable[..., Any] = getattr(torch._VF, kind)  # type: ignore[attr-defined]
    with no_python_dispatcher():  # which has other kernels, for tracing
        return list(call(tensors[0], first if kind == "lstm" else first[0], list(tensors[1 + states :]), *options))


def _apart(outputs: Sequence[torch.Tensor], from_others: Sequence[torch.Tensor] = ()) -> list[torch.Tensor]:
    """Copies of those that lie in the storage of another; an operator's outputs must not."""
    taken = {storage_key(t) for t in from_others}
    found = []
    for value in outputs:
        found.append(value.clone() if storage_key(value) in taken else value)
        taken.add(storage_key(value))
    return found


def _forward(tensors: list[torch.Tensor], kind: str, states: int, biases: bool, layers: int, dropout_p: float, training: bool,
             bidirectional: bool, batch_first: bool, trained: list[bool]) -> list[torch.Tensor]:  # fmt: skip
    options = biases, layers, dropout_p, training, bidirectional, batch_first
    token = tensors[0].new_empty(0, dtype=torch.uint8)
    if not any(trained):
        with torch.no_grad():
            return [*_apart(_call(kind, tensors, states, *options), tensors), token]
    kept: list[_Kept] = []
    held = _Operands()

    def keep(tensor: torch.Tensor) -> _Kept:
        kept.append(_Kept(tensor.detach()))
        return kept[-1]

    with _with_autograd():
        anchor = torch.empty(0, requires_grad=True)
        entered = iter(_Enter.apply(anchor, *(t for t, wanted in zip(tensors, trained, strict=True) if wanted)))  # type: ignore[no-untyped-call]
        inner = [next(entered) if wanted else t.detach() for t, wanted in zip(tensors, trained, strict=True)]
        starts = [get_gradient_edge(t) for t, wanted in zip(inner, trained, strict=True) if wanted]
        with saved_tensors_hooks(keep, held.get):
            made = _call(kind, inner, states, *options)
        ends = [get_gradient_edge(t) for t in made]
        outputs = _apart([t.detach() for t in made], tensors)
    known = {storage_key(t): i for i, t in reversed(list(enumerate([*tensors, *outputs])))}
    for one in kept:
        assert one.tensor is not None
        at = known.get(storage_key(one.tensor))
        if at is not None:
            base = [*tensors, *outputs][at]
            layout = tuple(one.tensor.size()), tuple(one.tensor.stride()), int(one.tensor.storage_offset() - base.storage_offset())
            one.tensor, one.operand, one.layout = None, at, layout
    sizes = {storage_key(k.tensor): k.tensor.untyped_storage().nbytes() for k in kept if k.tensor is not None}
    storage = token.untyped_storage()
    _RECORDS[storage._cdata] = _Record(starts=starts, ends=ends, operands=held, size_bytes=sum(sizes.values()))
    weakref.finalize(storage, _RECORDS.pop, storage._cdata)
    return [*outputs, token]


def _backward(record: torch.Tensor, gradients: list[torch.Tensor | None], outputs: list[torch.Tensor], tensors: list[torch.Tensor],
              *options: Any) -> list[torch.Tensor]:  # fmt: skip
    trained = options[-1]
    kept = _RECORDS[storage_key(record)]
    given = [(end, gradient) for end, gradient in zip(kept.ends, gradients, strict=True) if gradient is not None]
    kept.operands.extend([*tensors, *outputs])
    try:
        with _with_autograd(), no_python_dispatcher():
            found = torch.autograd.grad(
                [end for end, _ in given], kept.starts, [gradient for _, gradient in given], retain_graph=True, allow_unused=True
            )
    finally:
        kept.operands.clear()
    wanted = [t for t, one in zip(tensors, trained, strict=True) if one]
    made = [torch.zeros_like(t) if g is None else g.detach() for g, t in zip(found, wanted, strict=True)]
    return _apart(made, [*tensors, *outputs, *(g for _, g in given)])


#: Of a call's outputs: sizes, strides, offset, type, device, and bytes of the storage.
_Layout = tuple[torch.Size, tuple[int, ...], int, torch.dtype, torch.device, int]
_known: dict[object, list[_Layout]] = {}


def _layout(tensor: torch.Tensor) -> _Layout:
    size = tensor.untyped_storage().nbytes()
    return tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.dtype, tensor.device, size


def _fake(layout: _Layout) -> torch.Tensor:
    shape, stride, offset, dtype, device, size = layout
    return torch.empty(size // dtype.itemsize, dtype=dtype, device=device).as_strided(shape, stride, offset)


def _made_up(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device=tensor.device).normal_()


def _tried(key: list[torch.Tensor | None], options: tuple[Any, ...], call: Callable[[], list[_Layout]]) -> list[torch.Tensor]:
    """Fakes of what a call gives, which is made once for each combination of shapes, on numbers made up."""
    described = tuple(None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in key), str(options), torch.get_num_threads()
    if described not in _known:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.random.fork_rng():
            _known[described] = call()
    return [_fake(layout) for layout in _known[described]]


def _fake_forward(tensors: list[torch.Tensor], *options: Any) -> list[torch.Tensor]:
    """The record has the bytes that autograd keeps."""

    def call() -> list[_Layout]:
        *outputs, token = _forward([_made_up(t) for t in tensors], *options)
        size = recorded_bytes([token])
        return [*map(_layout, outputs), (torch.Size([size]), (1,), 0, torch.uint8, token.device, size)]

    return _tried(list(tensors), options, call)


def _fake_backward(record: torch.Tensor, gradients: list[torch.Tensor | None], outputs: list[torch.Tensor], tensors: list[torch.Tensor],
                   *options: Any) -> list[torch.Tensor]:  # fmt: skip
    def call() -> list[_Layout]:
        made = [None if g is None else _made_up(g) for g in gradients]
        return [_layout(t) for t in _backward(*belonging(made, [_made_up(t) for t in tensors], *options))]

    return _tried([*tensors, None, *gradients], options, call)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    ctx.count, ctx.options = len(inputs[0]), inputs[1:]
    ctx.save_for_backward(*inputs[0], *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    saved = list(ctx.saved_tensors)
    tensors, outputs, record = saved[: ctx.count], saved[ctx.count : -1], saved[-1]
    found = iter(BACKWARD(record, list(gradients[:-1]), outputs, tensors, *ctx.options))
    return [next(found) if wanted else None for wanted in ctx.options[-1]], *[None] * len(ctx.options)


torch.library.impl("checkmate::recurrent", "CompositeExplicitAutograd", _forward)
torch.library.impl("checkmate::recurrent_backward", "CompositeExplicitAutograd", _backward)
torch.library.register_fake("checkmate::recurrent", _fake_forward)
torch.library.register_fake("checkmate::recurrent_backward", _fake_backward)
torch.library.register_autograd("checkmate::recurrent", _differentiate, setup_context=_remember)


def belonging(gradients: list[torch.Tensor | None], tensors: list[torch.Tensor], *options: Any) -> tuple[Any, ...]:
    """Operands of a backward call: with these, a record and outputs that belong to them."""
    *outputs, token = _forward(tensors, *options)
    return token, gradients, outputs, tensors, *options


def recorded_bytes(outputs: Sequence[torch.Tensor]) -> int:
    """What autograd keeps for the records among the outputs of a call."""
    found = [_RECORDS.get(storage_key(t)) for t in outputs]
    return sum(record.size_bytes for record in found if record is not None)


def is_call(node: fx.Node) -> bool:
    """Whether Dynamo's graph has a recurrent layer there."""
    kind = getattr(node.target, "__name__", "")
    return node.op == "call_function" and kind in _KINDS and node.target == getattr(torch._VF, kind)  # type: ignore[attr-defined]


def replace(module: fx.GraphModule) -> None:
    """Makes operators of the recurrent calls in Dynamo's graph. UnsupportedError for packed sequences and under autocast."""
    changed = False
    for node in list(module.graph.nodes):
        if is_call(node):
            changed = True
            _replace(module.graph, node, node.target.__name__)
    if changed:
        module.graph.eliminate_dead_code()
        module.recompile()


def _value(node: Any) -> torch.Tensor:
    value = node.meta["example_value"]
    assert isinstance(value, torch.Tensor)
    return value


def packed(where: str) -> UnsupportedError:
    """Of a recurrent layer that is given a packed sequence at a place."""
    return UnsupportedError(
        f"packed sequences cannot be planned, because their sizes depend on data{where}: give the recurrent layer a padded tensor and "
        'mask what it returns, or say fallback="eager"'
    )


def _replace(graph: fx.Graph, node: fx.Node, kind: str) -> None:
    where = place(node.stack_trace or "")
    if len(node.args) != 9:
        raise packed(where)
    if torch._C._is_any_autocast_enabled() or any("autocast" in str(n.target) for n in graph.nodes):
        raise UnsupportedError(f"torch.nn.{kind.split('_')[0].upper()} cannot be planned under torch.autocast{where}: leave autocast for it")
    operands: tuple[Any, ...] = node.args
    first, state, weights, biases, layers, dropout, training, bidirectional, batch_first = operands
    states = list(state) if kind == "lstm" else [state]
    tensors = [first, *states, *weights]
    results = node.meta["example_value"]
    differentiated = any(t.requires_grad for t in results)
    trained = [differentiated and _value(t).requires_grad for t in tensors]
    draws = float(dropout) if training and layers > 1 else 0.0
    with graph.inserting_before(node):
        made = graph.call_function(FORWARD, (tensors, kind, len(states), biases, layers, draws, bool(training), bidirectional, batch_first, trained))
        made.meta = {**node.meta, "example_value": [*results, results[0].new_empty(0, dtype=torch.uint8)]}
    for user in list(node.users):
        user.replace_input_with(node, made)
    graph.erase_node(node)
