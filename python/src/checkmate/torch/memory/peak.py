# SPDX-License-Identifier: Apache-2.0
"""The peak of running a forward and a backward graph, every allocation counted as PyTorch makes it.

Each call's outputs are new storages unless they are views; a storage dies with the last value on it. This differs from
the solver's accounting where a value is computed again while a view of its old storage is alive: PyTorch then has two.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from ..fx import fusion, inplace, symbols
from ..fx.dataflow import Joint, is_tangent, output_bytes, storage_bytes, storage_key
from ..fx.dataflow import updates as joint_updates
from ..fx.partition import CALL, Halves
from ..fx.program import last_uses
from ..offload import calls
from . import caching_allocator

#: A storage that the caller owns: counted from the start to the end.
_CALLERS = -1


class _Storages:
    """Those of one step. `allocator`: is asked for all of them, and gets them back."""

    def __init__(self, base_bytes: int, allocator: caching_allocator.CachingAllocator | None = None) -> None:
        self.live = self.peak = base_bytes
        self.sizes: list[int] = []
        self.references: list[int] = []
        self.allocator = allocator
        self.blocks: dict[int, caching_allocator.Block] = {}

    def allocate(self, size: int) -> int:
        self.sizes.append(size)
        self.references.append(0)
        self.live += size
        self.peak = max(self.peak, self.live)
        if self.allocator is not None and size:
            self.blocks[len(self.sizes) - 1] = self.allocator.allocate(size)
        return len(self.sizes) - 1

    def briefly(self, size: int) -> int:
        """The level with this many more bytes, which are freed at once."""
        self.peak = max(self.peak, self.live + size)
        if self.allocator is not None and size:
            self.allocator.release(self.allocator.allocate(size))
        return self.live + size

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
                    if storage in self.blocks:
                        self._release(self.blocks.pop(storage))

    def end(self) -> None:
        """Gives back what is left."""
        while self.blocks:
            self._release(self.blocks.popitem()[1])

    def _release(self, block: caching_allocator.Block) -> None:
        assert self.allocator is not None
        self.allocator.release(block)


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
        elif fusion.FUSED in node.meta:
            on[node] = list({s for parent in node.all_input_nodes for s in on[parent]})
            storages.hold(on[node])
        elif node.op == "call_function":
            known: dict[int, int] = {}
            for parent in (n for n in node.all_input_nodes if fusion.FUSED not in n.meta and node.target not in calls.LOADS):
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
            levels[node] = storages.briefly(workspace.get(node.meta.get(CALL, node.name), 0))
        for value in dying.get(node, ()):
            storages.drop(on.pop(value))


@dataclass(frozen=True)
class Sides:
    """Bytes of a run, the caller's tensors and `fixed_bytes` included: the most in the forward pass, with a loss computed outside; the
    most from then on, when there are tangents. `crossing`: what the forward pass leaves to the backward pass, outputs included, without
    what the caller had before."""

    forward: int
    backward: int
    crossing: int

    @property
    def peak(self) -> int:
        return max(self.forward, self.backward)


def peak_bytes(joint: Joint, halves: Halves, workspace: dict[str, int] | None = None, levels: dict[fx.Node, int] | None = None) -> int:
    """Bytes, the caller's tensors and `fixed_bytes` included. `workspace`: bytes of calls by name of their node.
    `levels` is given the bytes that are there while each call of the halves runs."""
    return sides(joint, halves, workspace, levels).peak


def sides(joint: Joint, halves: Halves, workspace: dict[str, int] | None = None, levels: dict[fx.Node, int] | None = None) -> Sides:
    """As `peak_bytes`, each pass by itself."""
    base = joint.graph.fixed_bytes + joint.input_bytes
    return _step(joint, halves, workspace or {}, {} if levels is None else levels, _Storages(base), base)


#: Steps until what the allocator has reserved grows no more, as a rule.
_STEPS = 3


def reserved_bytes(joint: Joint, halves: Halves, workspace: dict[str, int], *, expandable: bool) -> int:
    """Bytes that PyTorch's allocator holds of a GPU after some steps, the caller's tensors and `fixed_bytes` included."""
    allocator = caching_allocator.CachingAllocator(expandable=expandable)
    inputs = [node for node in joint.module.graph.nodes if node.op in ("placeholder", "get_attr") and not is_tangent(node)]
    given = {node: joint.graph.tensors[joint.tensor_of[node]].bytes for node in inputs if node in joint.tensor_of}
    placeholders = [node for node in inputs if node.op == "placeholder"]
    trained = [given[node] for node, made in zip(placeholders, joint.backward_outputs, strict=False) if made is not None and given.get(node)]
    # What is in memory outside the step is taken for copies of the parameters, as gradients and an optimizer's state are, and a rest.
    times, rest = divmod(joint.graph.fixed_bytes, sum(trained)) if trained else (0, joint.graph.fixed_bytes)
    for size in [*given.values(), *(trained * times), rest]:
        if size:
            allocator.allocate(size)
    for _ in range(_STEPS):
        storages = _Storages(0, allocator)
        _step(joint, halves, workspace, {}, storages, 0)
        storages.end()
    return allocator.reserved


def _step(joint: Joint, halves: Halves, extra: dict[str, int], levels: dict[fx.Node, int], storages: _Storages, base: int) -> Sides:
    """`base`: the bytes in `storages` before it."""
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
    crossing = storages.live - base
    forward_peak = max(storages.peak, storages.live + joint.loss.kept + joint.loss.more)
    storages.peak = storages.live
    for placeholder in inputs:
        if is_tangent(placeholder):
            entering[placeholder] = [storages.allocate(storage_bytes(t)) for t in _flat(placeholder.meta["val"])]
            storages.hold(entering[placeholder] * 2)  # autograd holds on to them until the backward pass returns
    storages.allocate(joint.loss.kept)
    storages.briefly(joint.loss.more)
    _walk(backward, entering, storages, extra, levels)
    return Sides(forward_peak, storages.peak, crossing)
