# SPDX-License-Identifier: Apache-2.0
"""The peak of running a forward and a backward graph, every allocation counted as PyTorch makes it.

Each call's outputs are new storages unless they are views; a storage dies with the last value on it. This differs from
the solver's accounting where a value is computed again while a view of its old storage is alive: PyTorch then has two.
"""

from __future__ import annotations

import torch
from torch import fx

from . import inplace, symbols
from .joint import Joint, is_tangent, output_bytes, storage_bytes, storage_key
from .joint import updates as joint_updates
from .partition import CALL, Halves
from .program import last_uses

#: A storage that the caller owns: counted from the start to the end.
_CALLERS = -1


class _Storages:
    def __init__(self, base_bytes: int) -> None:
        self.live = self.peak = base_bytes
        self.sizes: list[int] = []
        self.references: list[int] = []

    def allocate(self, size: int) -> int:
        self.sizes.append(size)
        self.references.append(0)
        self.live += size
        self.peak = max(self.peak, self.live)
        return len(self.sizes) - 1

    def hold(self, storages: list[int]) -> None:
        for storage in storages:
            if storage != _CALLERS:
                self.references[storage] += 1

    def drop(self, storages: list[int]) -> None:
        for storage in storages:
            if storage != _CALLERS:
                self.references[storage] -= 1
                if self.references[storage] == 0:
                    self.live -= self.sizes[storage]


def _flat(value: object) -> list[torch.Tensor]:
    return [v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor)]


def _outputs(graph: fx.Graph) -> list[object]:
    return list(next(iter(reversed(graph.nodes))).args[0])


def _walk(graph: fx.Graph, on: dict[fx.Node, list[int]], storages: _Storages, workspace: dict[str, int], levels: dict[fx.Node, int]) -> None:
    """`on`: the storages of each value, in the order of its tensors; placeholders come with theirs held. At the end it
    has what the outputs hold."""
    dying = last_uses(graph)
    for node in graph.nodes:
        if node.op in ("get_attr", "placeholder"):
            on.setdefault(node, [_CALLERS] * len(_flat(node.meta.get("val"))))
        elif node.op == "call_function":
            known: dict[int, int] = {}
            for parent in node.all_input_nodes:
                known.update({storage_key(t): s for t, s in zip(_flat(parent.meta.get("val")), on[parent], strict=True)})
            if inplace.OVER in node.meta:
                known[storage_key(node.meta["val"])] = on[node.meta[inplace.OVER]][0]
            found = []
            for i, tensor in enumerate(_flat(node.meta.get("val"))):
                key = storage_key(tensor)
                if key not in known:
                    known[key] = storages.allocate(output_bytes(node, i, tensor))
                found.append(known[key])
            storages.hold(found)
            on[node] = found
            levels[node] = storages.live + workspace.get(node.meta.get(CALL, node.name), 0)
            storages.peak = max(storages.peak, levels[node])
        for value in dying.get(node, ()):
            storages.drop(on.pop(value))


def peak_bytes(joint: Joint, halves: Halves, workspace: dict[str, int] | None = None, levels: dict[fx.Node, int] | None = None) -> int:
    """Bytes, the caller's tensors and `fixed_bytes` included. `workspace`: bytes of calls by name of their node.
    `levels` is given the bytes that are there while each call of the halves runs."""
    extra = workspace or {}
    levels = {} if levels is None else levels
    storages = _Storages(joint.graph.fixed_bytes + joint.input_bytes)
    forward, backward = halves.forward.graph, halves.backward.graph
    on: dict[fx.Node, list[int]] = {}
    _walk(forward, on, storages, extra, levels)
    outputs = _outputs(forward)
    count = len(joint.forward_outputs)
    caller = {node for node in outputs[:count] if isinstance(node, fx.Node)}
    updates = joint_updates(joint.module, count)
    gone = {new for new, node in zip(outputs[:count], joint.forward_outputs, strict=True) if node in updates and isinstance(new, fx.Node)}
    entering: dict[fx.Node, list[int]] = {}
    inputs = [node for node in backward.nodes if node.op == "placeholder"]
    kept = [node for node in outputs[count:] if not symbols.is_symbol(node)]
    for placeholder, source in zip([node for node in inputs if not symbols.is_symbol(node)], kept, strict=False):
        if isinstance(source, fx.Node):
            entering[placeholder] = on[source]
            storages.hold(on[source])
    for node in set(on) - caller:
        storages.drop(on[node])
    for node in gone:
        storages.drop(on[node])
    for placeholder in inputs:
        if is_tangent(placeholder):
            entering[placeholder] = [storages.allocate(storage_bytes(t)) for t in _flat(placeholder.meta["val"])]
            storages.hold(entering[placeholder] * 2)  # autograd holds on to them until the backward pass returns
    storages.allocate(joint.loss.kept)
    storages.peak = max(storages.peak, storages.live + joint.loss.more)
    _walk(backward, entering, storages, extra, levels)
    return storages.peak
