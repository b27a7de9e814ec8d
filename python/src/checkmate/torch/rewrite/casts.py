# SPDX-License-Identifier: Apache-2.0
"""One conversion for all uses of a parameter under autocast, as in eager mode.

Eager mode keeps what autocast has converted a parameter to, until autocast is over: the gradients of its uses are summed up
in the half type and converted back once. AOTAutograd's tracing converts for every use, and sums in single precision. Here the
joint graph gets what eager mode does. Conversions that the model itself asks for are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from .split_gradients import _call

_aten = torch.ops.aten

#: In the metadata that PyTorch hands on from a call of the model to the calls that it is traced as, those of the backward pass
#: too: the stretch under autocast that it is in.
_STRETCH = "checkmate_autocast"

#: Calls of the model's own that convert.
_CONVERSIONS = {"to", "type", "type_as", "half", "bfloat16", "float", "_to_copy", "clone"}


def mark(module: fx.GraphModule) -> None:
    """Marks the calls of Dynamo's graph that autocast may convert operands of."""
    kept = [torch.is_autocast_cache_enabled()] if torch._C._is_any_autocast_enabled() else []  # for each autocast that is entered
    ambient, stretch, around = kept == [True], 0, _autocasts_around()
    for node in module.graph.nodes:
        name = getattr(node.target, "__name__", node.target)
        if name == "_enter_autocast":
            stretch += not kept and around == 0  # what was kept is given up where the outermost one ends
            kept.append(node.args[3] if len(node.args) > 3 and node.args[3] is not None else torch.is_autocast_cache_enabled())
        elif name == "_exit_autocast":
            kept.pop()
        elif kept and kept[-1] and node.op.startswith("call") and name not in _CONVERSIONS:
            node.meta["custom"] = {**node.meta.get("custom", {}), _STRETCH: stretch}
    for inner in module.modules():  # the bodies of checkpointed regions
        if ambient and inner is not module and isinstance(inner, fx.GraphModule):
            mark(inner)


def _autocasts_around() -> int:
    """Contexts of autocast that have been entered, those that turn it off included."""
    entered = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return int(entered) - 1


def merge(module: fx.GraphModule, num_fwd_outputs: int, parameters: Iterable[int]) -> None:
    """Of a joint graph whose inputs with these numbers are parameters. O(nodes)."""
    *_nodes, output = module.graph.nodes
    results = list(output.args[0])[num_fwd_outputs:]
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    chosen = set(parameters)
    for place, node in enumerate(inputs):
        idx = getattr(node.meta.get("desc"), "idx", None)
        if idx not in chosen or place >= len(results) or not isinstance(results[place], fx.Node):
            continue
        groups: dict[object, list[fx.Node]] = {}
        for user in node.users:
            if _is_cast(user) and user.meta.get("partitioner_tag") != "is_backward" and user.kwargs.get("dtype") in (torch.bfloat16, torch.float16):
                groups.setdefault((_stretch(user), str(user.kwargs)), []).append(user)
        for casts in groups.values():
            if len(casts) > 1:
                _merge_gradients(module.graph, output, place + num_fwd_outputs, casts)
                for cast in casts[1:]:
                    cast.replace_all_uses_with(casts[0])
                    module.graph.erase_node(cast)


def _is_cast(node: fx.Node) -> bool:
    return node.target is _aten._to_copy.default and _stretch(node) is not None


def _stretch(node: fx.Node) -> object:
    custom = node.meta.get("custom")
    return custom.get(_STRETCH) if isinstance(custom, dict) else None


def _merge_gradients(graph: fx.Graph, output: fx.Node, place: int, casts: list[fx.Node]) -> None:
    """The gradient is a sum of one term a use, in the order in which they are made."""
    total: Any = output.args[0][place]  # type: ignore[index]
    sums: list[fx.Node] = []
    node = total
    while node.target is _aten.add.Tensor and len(node.args) == 2 and not node.kwargs and _stretch(node) is None and len(node.users) == 1:
        sums.insert(0, node)
        node = node.args[0]
    terms = [node, *(add.args[1] for add in sums)]
    numbers = {cast.meta.get("seq_nr") for cast in casts}
    ours = [term for term in terms if _is_cast(term) and term.meta.get("seq_nr") in numbers and _stretch(term) == _stretch(casts[0])
            and len(term.users) == 1]  # fmt: skip
    if len(ours) < 2:
        return
    half = ours[0].args[0]
    for term in ours[1:]:
        with graph.inserting_before(term):
            half = _call(graph, _aten.add.Tensor, (half, term.args[0]), term)
    last = ours[-1]
    last.args = (half, *last.args[1:])
    rest = [(term, add) for term, add in zip(terms, [None, *sums], strict=True) if term not in ours[:-1]]
    made, _ = rest[0]
    for term, add in rest[1:]:
        assert add is not None
        add.args = (made, term)
        made = add
    total.replace_all_uses_with(made)
    kept = {add for _, add in rest[1:]}
    for node in [*reversed([add for add in sums if add not in kept]), *ours[:-1]]:
        graph.erase_node(node)
