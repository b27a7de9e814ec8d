# SPDX-License-Identifier: Apache-2.0
"""Which of a model's outputs are differentiated, and only those are planned for.

A model that returns logits and a cache together with its loss has a backward pass for each of them in the joint graph: gradients
are made for all, of zeros where the caller differentiates the loss alone. So Dynamo's graph gives what is not the loss
detached, and AOTAutograd never sees the rest of its backward pass. As in eager mode the caller's tensors require gradients
all the same, and one that is differentiated after all says so: it is not a constant.

The loss is what the user says it is; else `.loss` or `["loss"]` of the output; else the scalars among the tensors, if what the
other outputs would train is trained by them. The first two are found by Dynamo, which traces `_mark` behind the model.
"""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ...errors import UnsupportedError
from ..user_code import place, warn

#: A field's or key's name, a position, a function of the output; "all" outputs; None to find out.
Loss = str | int | Callable[[Any], Any] | None

_numbers = itertools.count()


def check(loss: object) -> None:
    """TypeError for what names no output."""
    if isinstance(loss, bool) or not (loss is None or isinstance(loss, (str, int)) or callable(loss)):
        raise TypeError(f'loss must be the name or position of an output, a function of the output that gives tensors of it, or "all", not {loss!r}')


def _mark(*_losses: torch.Tensor) -> None:
    """A call in Dynamo's graph whose operands are the outputs to differentiate."""


fx.node.has_side_effect(_mark)


def traced(model: Callable[..., Any], loss: Loss) -> Callable[..., Any]:
    """The model, its loss marked: what Dynamo is given to trace."""
    torch.compiler.allow_in_graph(_mark)  # type: ignore[no-untyped-call]

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = model(*args, **kwargs)
        losses = _losses(output, loss)
        if losses:
            _mark(*losses)
        return output

    # Dynamo keeps its compilations, and counts them, by code object.
    code = forward.__code__.replace(co_name=f"checkmate_{next(_numbers)}")
    return types.FunctionType(code, forward.__globals__, code.co_name, None, forward.__closure__)


def _losses(output: Any, loss: Loss) -> list[torch.Tensor]:
    """Traced by Dynamo."""
    if loss == "all":
        return []
    if loss is None:
        return _tensors(_field(output, "loss"))
    if isinstance(loss, str):
        return _tensors(_field(output, loss))
    if isinstance(loss, int):
        many = isinstance(output, (tuple, list)) and -len(output) <= loss < len(output)
        return _tensors(output[loss]) if many else []
    return _tensors(loss(output))


def _field(output: Any, name: str) -> Any:
    if isinstance(output, torch.Tensor) or output is None:
        return None
    if isinstance(output, (tuple, list)) and not hasattr(output, "_fields"):
        return None
    if isinstance(output, dict) and name in output:
        return output[name]
    return getattr(output, name, None)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    found: list[torch.Tensor] = []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            found += _tensors(part)
    return found


@dataclass(frozen=True)
class Detached:
    """An output that is not differentiated: its position among those of Dynamo's graph, its name, and where it was made."""

    index: int
    name: str
    place: str


def select(module: fx.GraphModule, loss: Loss) -> list[Detached]:
    """Rewrites Dynamo's graph so that outputs which are not differentiated are detached, and lists them. ValueError where
    `loss` names no output that requires a gradient though others do. O(nodes and parameters)."""
    graph = module.graph
    marked: set[fx.Node] = set()
    marks = [node for node in graph.nodes if node.op == "call_function" and node.target is _mark]
    for node in marks:
        marked.update(node.all_input_nodes)
        graph.erase_node(node)
    *_nodes, output = graph.nodes
    given = list(output.args[0])
    trained = [node for node in dict.fromkeys(given) if isinstance(node, fx.Node) and _requires_grad(node)]
    kept = [node for node in trained if node in marked]
    if loss is not None and loss != "all" and trained and not kept:
        raise ValueError(
            f"loss={loss if callable(loss) else repr(loss)}: the model returns no such tensor that depends on its parameters; name an output, "
            'its position, or a function of the output that gives tensors of it unchanged. "all" plans for every output'
        )
    if not kept and loss is None:
        kept = _scalars_that_train_all(graph, trained)
    found: list[Detached] = []
    if kept and loss != "all":
        for node in trained:
            if node not in kept and node.op != "placeholder":
                found += [Detached(i, node.name, place(node.stack_trace or "")) for i, other in enumerate(given) if other is node]
                _detach(graph, output, node)
    if marks or found:
        module.recompile()
    return found


def _value(node: fx.Node) -> object:
    return node.meta.get("example_value")


def _requires_grad(node: fx.Node) -> bool:
    value = _value(node)
    values = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)


def _scalars_that_train_all(graph: fx.Graph, trained: list[fx.Node]) -> list[fx.Node]:
    """The scalars, if the other outputs depend on nothing that no scalar depends on; else none. A model that returns an
    auxiliary loss, or a temperature, in addition to what its caller computes the loss of, has parameters that only that trains."""
    scalars = [node for node in trained if isinstance(value := _value(node), torch.Tensor) and value.dim() == 0]
    if not scalars or len(scalars) == len(trained):
        return []
    behind: dict[fx.Node, int] = {}  # the leaves that a node's gradient reaches, as bits
    leaves = 0
    for node in graph.nodes:
        reached = 0
        if node.op in ("placeholder", "get_attr"):
            if _requires_grad(node):
                reached, leaves = 1 << leaves, leaves + 1
        elif _requires_grad(node):
            for parent in node.all_input_nodes:
                reached |= behind[parent]
        behind[node] = reached
        if (written := _written(node)) is not None:
            for parent in node.all_input_nodes:
                behind[written] |= behind[parent]
    ours = 0
    for node in scalars:
        ours |= behind[node]
    return scalars if all(behind[node] | ours == ours for node in trained) else []


def _written(node: fx.Node) -> fx.Node | None:
    """The operand that a call assigns to or changes in place."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    changes = name == "setitem" or (name.endswith("_") and not name.endswith("__"))
    return node.args[0] if changes and node.args and isinstance(node.args[0], fx.Node) else None


def _detach(graph: fx.Graph, output: fx.Node, node: fx.Node) -> None:
    with graph.inserting_before(output):
        new = graph.call_method("detach", (node,))
    new.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in node.meta}
    value = _value(node)
    assert isinstance(value, torch.Tensor)
    new.meta["example_value"] = value.detach()
    output.replace_input_with(node, new)


class _Undifferentiated(torch.autograd.Function):
    """The tensor; its backward pass, which is not in the plan, is an error. A gradient of zeros asks for nothing."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, value: torch.Tensor, what: str) -> torch.Tensor:
        ctx.what = what
        ctx.set_materialize_grads(False)
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[None, None, None]:
        if gradients[0] is not None and gradients[0].count_nonzero() > 0:
            raise UnsupportedError(
                f"{ctx.what} is differentiated, but was planned as an output that is not, since the model returns its loss "
                'together with it. Say what is: checkmate.torch.compile(..., loss="all") for all outputs, or loss=lambda output: '
                "(...) for a tuple of some; a name or a position for one"
            )
        return None, None, None


class Dropping:
    """Checks that a loop drops what a model returns with its loss, where it promised to."""

    def __init__(self) -> None:
        self.warned = False

    def watch(self, found: object) -> None:
        """Of a call's outputs, before their loss is differentiated."""
        leaves = [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]
        differentiated = [leaf for leaf in leaves if leaf.grad_fn is not None and not _is_undifferentiated(leaf)]
        others = [weakref.ref(leaf) for leaf in leaves if not any(leaf is other for other in differentiated)]
        if self.warned or not others:
            return

        def check(_gradients: object) -> None:
            held = {leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() for ref in others if (leaf := ref()) is not None}
            if held and not self.warned:
                self.warned = True
                warn(f"keep_outputs=False, but {sum(held.values()):,} bytes that the model returned with its loss are still held when "
                     "backward() begins, and the budget does not count them: drop them before, as in loss = model(**batch).loss, or leave "
                     "keep_outputs out")  # fmt: skip

        for leaf in differentiated:
            assert leaf.grad_fn is not None
            leaf.grad_fn.register_prehook(check)


def _is_undifferentiated(value: torch.Tensor) -> bool:
    return type(value.grad_fn).__name__ == f"{_Undifferentiated.__name__}Backward"


def guarded(run: Callable[..., Any], detached: list[Detached]) -> Callable[..., Any]:
    """A compiled graph's function whose detached outputs require gradients, as in eager mode, and raise UnsupportedError in
    the backward pass if they get one that is not zero."""
    if not detached:
        return run
    anchor = torch.empty(0, requires_grad=True)

    def call(*args: Any) -> list[Any]:
        outputs = list(run(*args))
        for out in detached:
            outputs[out.index] = _Undifferentiated.apply(  # type: ignore[no-untyped-call]
                anchor, outputs[out.index], f"'{out.name}'{out.place}"
            )
        return outputs

    return call
