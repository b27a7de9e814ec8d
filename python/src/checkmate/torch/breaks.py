# SPDX-License-Identifier: Apache-2.0
"""One budget for the several graphs that graph breaks make of a model.

Graphs are planned one after the other, as they are met. While graph i runs, forwards or backwards, there is, beside its own:
the model and the call's arguments; the gradients of the graphs after it, and at most of all others; what the graphs before
it keep for their backward passes, their outputs, and the gradients of those, which may be waiting. All that is added to
graph i's fixed bytes. As backward passes run in the opposite order, the step's peak is within the budget if every graph's
is. What Python computes between the graphs is not counted, nor is what the model returns beside its loss.

A graph that others follow does not know how much they need. It is asked to leave them half of what is free when its
forward pass ends, a quarter if it cannot, or nothing; a graph with nothing but scalars to differentiate is the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from .joint import storage_bytes, storage_key

#: Of what is free, the parts that a graph tries to leave to those that follow it.
RESERVES = (0.5, 0.25, 0.0)


def _storages(*groups: object) -> dict[int, int]:
    return {storage_key(t): storage_bytes(t) for t in tree_flatten(groups)[0] if isinstance(t, torch.Tensor)}


def unused_bytes(model: object, arguments: object, inputs: list[Any]) -> int:
    """Bytes of the model's parameters and buffers and of the call's arguments that a graph with these inputs does not take."""
    held = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    own = _storages(inputs)
    return sum(size for key, size in _storages(held, arguments).items() if key not in own)


@dataclass(frozen=True)
class Surroundings:
    """What lives beside one graph, and whether others may follow it."""

    held_bytes: int = 0
    followed: bool = False


class Graphs:
    """The graphs that have run in the call under way, and what they hold."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.arguments: object = ()
        self.held: list[int] = []

    def begin(self, *arguments: object) -> None:
        self.arguments, self.held = arguments, []

    def end(self) -> None:
        self.arguments = ()

    def present_bytes(self) -> int:
        """What of the step there is before its first graph runs."""
        return sum(_storages(list(self.model.parameters()), list(self.model.buffers()), self.arguments).values())

    def around(self, inputs: list[Any]) -> Surroundings:
        """For a graph with these inputs, about to be planned."""
        own = _storages(inputs)
        everything = _storages(list(self.model.parameters()), list(self.model.buffers()), self.arguments)
        trained = _storages([p for p in self.model.parameters() if p.requires_grad])
        beside = sum(size for key, size in [*everything.items(), *trained.items()] if key not in own)
        return Surroundings(beside + sum(self.held), True)

    def holds(self, inputs: list[Any], forward: fx.Graph, n_outputs: int) -> int:
        """What a graph with that forward pass holds after it, the caller's own tensors not counted. The first `n_outputs`
        outputs go to the caller and have gradients, the others are for the backward pass."""
        callers = _storages(list(self.model.parameters()), list(self.model.buffers()), self.arguments)
        between = {key: size for key, size in _storages(inputs).items() if key not in callers}
        outputs = [node for node in next(iter(reversed(forward.nodes))).args[0] if isinstance(node, fx.Node)]  # type: ignore[union-attr]
        made = _storages([node.meta.get("val") for node in outputs if node.op != "placeholder"])
        gradients = _storages([node.meta.get("val") for node in outputs[:n_outputs]])
        return sum(between.values()) + sum(made.values()) + sum(gradients.values())

    def ran(self, held_bytes: int) -> None:
        self.held.append(held_bytes)
